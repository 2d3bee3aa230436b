/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an engine grants its peers of its receive queue, and what it takes back. */
#include "base/units.h"
#include "engine/impl.h"
#include "base/slot_unit.h"

static uint32_t nic_room(const struct uccl_engine *e, uint32_t bytes)
{
	const struct uccl_nic_caps *caps = &e->nic->caps;

	if (caps->queue.unit)
		return caps->queue.units / uccl_slot_count(caps->queue.unit, bytes);
	return e->nic->ops->slots ? e->nic->ops->slots(e->nic, bytes) : caps->rx_slots;
}

/* So many packets that were shorter are no chance; and lengths that are nearly alike are one. */
#define USUAL_PACKETS 16
#define USUAL_BYTES 256
/* What the handshake of a silent peer granted counts for so long where others lack slots. PROTOCOL R135 */
#define SILENT_NS UCCL_NS_PER_S

/*
 * So many packets of that length. Linux counts up to a quarter of a queue that was read already (udp_rmem_release), and
 * with many peers all of it may be granted.
 */
static uint32_t usual_room(const struct uccl_engine *e, uint32_t bytes)
{
	return (uint32_t)((uint64_t)nic_room(e, bytes) * 4 / 5);
}

/* The largest packets that may come from this peer. */
static uint32_t conn_mtu(const struct conn *c)
{
	return c->peer.open ? c->peer.flow.cfg.packet.mtu : c->e->nic->caps.mtu;
}

static void conn_resize(struct conn *c, uint32_t mtu)
{
	uint32_t usual;

	c->slots.typical_len = uccl_min(c->slots.typical_len, mtu);
	usual = usual_room(c->e, c->slots.typical_len);
	if (c->slots.units)
		uccl_slots_resize_units(&c->slots.grant, c->e->nic->caps.queue.units, usual, 1);
	else
		uccl_slots_resize(&c->slots.grant, nic_room(c->e, mtu), usual);
}

/* The queue may be shared with other endpoints of the process, which come and go. */
void slots_refit(struct uccl_engine *e)
{
	uint32_t room = nic_room(e, e->nic->caps.mtu);
	struct conn *c;

	if (room == e->slots.room)
		return;
	e->slots.room = room;
	TAILQ_FOREACH(c, &e->conns.live, state.all)
		if (c->slots.grant.of)
			conn_resize(c, conn_mtu(c));
	TAILQ_FOREACH(c, &e->table.half, state.all)
		conn_resize(c, e->nic->caps.mtu);
}

/* What the handshake grants is a promise from then on. */
void conn_grant(struct conn *c)
{
	struct uccl_engine *e = c->e;

	if (c->slots.grant.of)
		return;
	slots_refit(e);
	c->slots.typical_len = e->slots.typical_len ? e->slots.typical_len : e->nic->caps.mtu;
	uccl_slots_open(&e->slots.queue, &c->slots.grant, e->slots.room, e->cfg.window_chunks);
	c->hs.mine.slots = (uint16_t)c->slots.grant.slots;
}

void conn_slots_known(struct conn *c)
{
	if (c->hs.theirs.waits)
		return;
	uccl_slots_least(&c->slots.grant);
	c->hs.mine.slots = (uint16_t)c->slots.grant.slots;
}

/* Slots of the longest packet of the peer. Both sides know its length from the parameters. PROTOCOL R376 */
static uint32_t packet_slots(const struct conn *c, uint8_t unit)
{
	return uccl_slot_count(unit, (uint32_t)uccl_min(c->hs.mine.mtu, c->hs.theirs.mtu));
}

uint8_t conn_slots_unit(const struct conn *c)
{
	return c->hs.theirs.units ? c->hs.mine.slot_unit : 0;
}

uint16_t conn_slots_granted(const struct conn *c)
{
	const struct uccl_conn_params *t = &c->hs.theirs;

	return (uint16_t)uccl_min((uint32_t)t->slots * packet_slots(c, t->slot_unit), UCCL_SLOTS_MAX);
}

void conn_slots_fit(struct conn *c, uint32_t mtu)
{
	uint8_t unit = conn_slots_unit(c);

	if (unit && !c->slots.units) {
		c->slots.units = true;
		uccl_slots_resize_units(&c->slots.grant, c->e->nic->caps.queue.units,
					usual_room(c->e, c->slots.typical_len), packet_slots(c, unit));
	}
	conn_resize(c, mtu);
}

static uint32_t usual_of(uint32_t bytes, uint32_t most)
{
	return (uint32_t)uccl_min((bytes + USUAL_BYTES - 1) / USUAL_BYTES * USUAL_BYTES, most);
}

static void usual_len(struct conn *c, uint32_t bytes)
{
	bytes = usual_of(bytes, conn_mtu(c));
	if (bytes == c->slots.typical_len)
		return;
	c->slots.typical_len = bytes;
	conn_resize(c, conn_mtu(c));
}

/* A packet that was longer than usual counts at once, shorter ones when there were some. */
static void usual_set(struct conn *c, uint32_t bytes)
{
	c->slots.came = c->slots.longest = 0;
	usual_len(c, bytes);
}

/* Peers that sent too few packets to be known are taken to send such as others do. PROTOCOL R417 */
static void usual_set_all(struct uccl_engine *e, uint32_t bytes)
{
	struct conn *c;

	bytes = usual_of(bytes, e->nic->caps.mtu);
	e->slots.came = e->slots.longest = 0;
	if (bytes == e->slots.typical_len)
		return;
	e->slots.typical_len = bytes;
	TAILQ_FOREACH(c, &e->conns.live, state.all)
		if (c->slots.grant.of && !c->slots.own_len)
			usual_len(c, uccl_max(bytes, c->slots.longest));
}

/*
 * The same of all peers. A longer packet counts at once, shorter ones when as many came as there are peers: each of
 * them may be told.
 */
static void came_of_any(struct uccl_engine *e, uint32_t bytes)
{
	struct engine_slots *s = &e->slots;

	s->longest = uccl_max(s->longest, bytes);
	if (s->typical_len && bytes > s->typical_len)
		/* Twice as long at least: packets that grow little by little are few changes for all peers. */
		usual_set_all(e, uccl_max(bytes, 2 * s->typical_len));
	else if (++s->came >= (s->typical_len ? uccl_max(USUAL_PACKETS, e->conns.n) : USUAL_PACKETS))
		usual_set_all(e, s->longest);
}

void conn_slots_came(struct conn *c, uint32_t bytes)
{
	came_of_any(c->e, bytes);
	if (bytes > c->slots.typical_len) {
		usual_set(c, bytes);
		return;
	}
	c->slots.longest = uccl_max(c->slots.longest, bytes);
	if (++c->slots.came == USUAL_PACKETS) {
		c->slots.own_len = true;
		usual_set(c, c->slots.longest);
	}
}

void conn_slots_ask(struct uccl_engine *e, uint64_t now)
{
	struct uccl_grant *g;

	while ((g = uccl_slots_serve(&e->slots.queue, now))) {
		struct conn *c = uccl_container_of(g, struct conn, slots.grant);

		if (!c->peer.open)
			continue;
		uccl_flow_tell(&c->peer.flow);
		engine_ready(c);
	}
	while ((g = uccl_slots_ask(&e->slots.queue, now))) {
		struct conn *c = uccl_container_of(g, struct conn, slots.grant);

		if (!c->peer.open) {
			if (c->entry.half && now - c->hs.opened_ns >= SILENT_NS)
				uccl_slots_write_off(g);
			continue;
		}
		uccl_flow_keepalive(&c->peer.flow, now);
		engine_ready(c);
	}
}

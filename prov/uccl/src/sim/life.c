/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See life.h. */
#include "sim/life.h"

#include <rdma/fi_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lanes/lanes.h"

/* Rounds of one poll at most, and two for each thing in the NIC's queue; more: the engine never comes to rest. */
#define POLL_ROUNDS 256
/* Polls in a row that achieve nothing although the engine asked for each at once. */
#define SPINS_MAX 2000
/* An engine that the NIC keeps waiting looks again this much later, unless the NIC wakes it before. */
#define BUSY_NS (20 * UCCL_NS_PER_US)
#define MS(x) ((uint64_t)((x)*1e6))
#define US(x) ((uint64_t)((x)*1e3))

/*
 * With flipped bits that pass, operations may fail and bytes be wrong. What must still hold: memory is safe (I1), each
 * operation completes once (I2), flows stay consistent (I6), nobody spins or sleeps for ever (I10).
 */
static bool excused(const struct uccl_sim_world *w, const char *text)
{
	static const char *const always[] = {"I1:", "I2:", "I6:", "I10:"};
	uint32_t i;

	if (w->o.corrupt_pass <= 0)
		return false;
	for (i = 0; i < uccl_array_len(always); i++) {
		if (!strncmp(text, always[i], strlen(always[i])))
			return false;
	}
	return true;
}

void uccl_sim_violation(struct uccl_sim_world *w, const char *fmt, ...)
{
	char text[sizeof(w->first)];
	va_list ap;
	int n;

	if (excused(w, fmt))
		return;
	n = snprintf(text, sizeof(text), "[%.6f s] ", (double)(w->net.now - (uint64_t)w->o.start_ns) / 1e9);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	if (!w->violations++)
		memcpy(w->first, text, sizeof(text));
	if (w->print && w->violations <= 20)
		w->print(text);
}

void uccl_sim_say(struct uccl_sim_world *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	if (!w->print || !w->verbose)
		return;
	n = snprintf(text, sizeof(text), "[%.6f s] ", (double)(w->net.now - (uint64_t)w->o.start_ns) / 1e9);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	w->print(text);
}

/* --- one endpoint --- */

static void life_random(void *arg, void *buf, size_t len)
{
	struct uccl_sim_life *n = arg;
	uint8_t *p = buf;

	while (len--)
		*p++ = (uint8_t)uccl_rng_next(&n->random);
}

static void life_violation(void *arg, const char *text)
{
	struct uccl_sim_life *n = arg;

	uccl_sim_violation(n->w, "I1: at endpoint %u: %s", n->node, text);
}

/* No later than that. */
static void poll_at(struct uccl_sim_world *w, struct uccl_sim_event *poll, uint64_t at)
{
	if (!poll->place || poll->at > at)
		uccl_sim_at(&w->net, poll, at);
}

/* Its thread sleeps, and polls when it wakes. */
static bool poll_asleep(struct uccl_sim_world *w, struct uccl_sim_event *poll, uint64_t asleep_until)
{
	if (w->net.now >= asleep_until)
		return false;
	uccl_sim_at(&w->net, poll, asleep_until);
	return true;
}

void uccl_sim_wake(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	uint64_t at = uccl_max(w->net.now, n->asleep_until);

	if (!n->alive)
		return;
	if (w->o.poll_us > 0)
		at += uccl_rng_below(&w->rng, US(w->o.poll_us) + 1);
	poll_at(w, &n->poll, at);
}

static void life_wake(void *arg)
{
	uccl_sim_wake(arg);
}

/* When the engine wants to be called again: at once only if it waits for the NIC. */
static void life_schedule(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	uint64_t at = uccl_engine_expiry(n->e), refused = uccl_sim_nic_stats(n->nic)->tx_refused;

	if (at > w->net.now) {
		n->spins = 0;
	} else {
		if (refused == n->refused && ++n->spins > SPINS_MAX) {
			uccl_sim_violation(w, "I10: endpoint %u asks to be called at once again and again", n->node);
			n->spins = 0;
		}
		at = w->net.now + (refused != n->refused ? BUSY_NS : 1000);
	}
	n->refused = refused;
	if (at == UCCL_NEVER)
		return;
	if (w->o.poll_us > 0 && at > w->net.now + BUSY_NS)
		at += uccl_rng_below(&w->rng, US(w->o.poll_us) + 1);
	poll_at(w, &n->poll, at);
}

/* --- its lanes --- */

static void poll_soon(struct uccl_sim_world *w, struct uccl_sim_event *poll, uint64_t asleep_until, double late_us)
{
	uint64_t at = uccl_max(w->net.now, asleep_until);

	at += uccl_rng_below(&w->rng, US(late_us) + 1);
	poll_at(w, poll, at);
}

static void lane_wake(void *arg)
{
	struct uccl_sim_lane *l = arg;

	if (l->e)
		poll_soon(l->primary->w, &l->poll, l->asleep_until, l->primary->w->o.poll_us);
}

/* Who polls for another reason reads the command before. */
static void channel_wake(void *arg, bool primary)
{
	struct uccl_sim_lane *l = arg;
	struct uccl_sim_life *n = l->primary;

	if (primary && n->alive)
		poll_soon(n->w, &n->poll, n->asleep_until, n->w->o.cmd_us);
	else if (!primary && l->e)
		poll_soon(n->w, &l->poll, l->asleep_until, n->w->o.cmd_us);
}

/*
 * As a program does: what is there is read, and only when nothing is the engine runs. An engine that waits for the head
 * of a message takes one thing a round, however many came while it slept. `unread` counts what is to be read. False:
 * there is no end.
 */
static bool poll_out(struct uccl_engine *e, const struct uccl_nic *nic, uint32_t *unread, uint64_t now)
{
	uint32_t most = POLL_ROUNDS + 2 * uccl_sim_nic_queued(nic);

	for (uint32_t i = 0; i < most; i++) {
		*unread = 0;
		if (uccl_engine_poll(e, now) <= 0 && !*unread)
			return true;
	}
	return false;
}

static void lane_poll(struct uccl_sim_event *ev)
{
	struct uccl_sim_lane *l = uccl_container_of(ev, struct uccl_sim_lane, poll);
	struct uccl_sim_world *w = l->primary->w;
	uint32_t unread;
	uint64_t at;

	if (poll_asleep(w, &l->poll, l->asleep_until))
		return;
	if (!poll_out(l->e, l->nic, &unread, w->net.now))
		uccl_sim_violation(w, "I10: a lane of endpoint %u finds events without end", l->primary->node);
	at = uccl_engine_expiry(l->e);
	if (at == UCCL_NEVER)
		return;
	at = uccl_max(at, w->net.now + BUSY_NS);
	poll_at(w, &l->poll, at);
}

static void life_poll(struct uccl_sim_event *ev)
{
	struct uccl_sim_life *n = uccl_container_of(ev, struct uccl_sim_life, poll);
	struct uccl_sim_world *w = n->w;

	if (!n->alive || poll_asleep(w, &n->poll, n->asleep_until))
		return;
	if (!poll_out(n->e, n->nic, &n->unread, w->net.now))
		uccl_sim_violation(w, "I10: endpoint %u finds events without end", n->node);
	life_schedule(n);
}

static bool life_room(void *arg)
{
	const struct uccl_sim_life *n = arg;

	return n->unread < (uint32_t)n->w->o.cq;
}

static void nic_config(struct uccl_sim_world *w, struct uccl_sim_life *n, struct uccl_sim_nic_cfg *c)
{
	const struct uccl_sim_options *o = &w->o;
	bool write = o->nic > 0;

	*c = (struct uccl_sim_nic_cfg){
		.mtu = (uint32_t)o->mtu,
		.write_max = write ? (uint32_t)o->write_max : 0,
		.write_brittle = write && o->brittle > 0,
		.labels = (uint16_t)o->labels,
		.tx_sync = !write && o->tx_sync > 0,
		.placements = o->placements >= 1 || (o->placements > 0 && uccl_rng_chance(&w->rng, o->placements)),
		.placements_most = (uint32_t)o->placements_most,
		.misplaced = o->misplaced,
		.ages = o->ages > 0,
		.shared_slots = o->shared > 0,
		.liveness = o->liveness > 0,
		.icmp = o->icmp > 0,
		.train_bytes = !write && o->tx_sync > 0 && o->trains > 0 ? UCCL_TRAIN_BYTES : 0,
		.train_fault = (enum uccl_train_fault)o->train_fault,
		.marks = o->mark > 0 || o->mark_kb > 0,
		.leaky = o->leaky > 0,
		.late.answer_ns = (uint64_t)(o->answer_ms * 1e6),
		.rx_slots = (uint32_t)o->slots,
		.slot_unit = write ? 0 : (uint8_t)o->slot_unit,
		.tx_depth = (uint32_t)o->tx_depth,
		.late.read_ns = US(o->read_us),
		.late.fence_ns = US(o->fence_us),
		.late.proof_ns = US(o->proof_us),
		.link_bps = (uint64_t)o->rate_mbps * 1000000,
		/* There and back on the slowest route, and a little for those who poll late. */
		.delay_ns = US(20 + 2 * (o->delay_us + o->spread_us + o->jitter_us) + o->poll_us),
		.rto_min_ns = 2 * UCCL_NS_PER_MS,
		.user.owner = &w->owner,
		.user.wake = life_wake,
		.user.wake_arg = n,
		.user.violation = life_violation,
		.user.arg = n,
	};
}

static void engine_config(const struct uccl_sim_world *w, struct uccl_config *c)
{
	const struct uccl_sim_options *o = &w->o;

	uccl_config_default(c);
	c->cc = uccl_sim_cc[(int)o->cc];
	c->path = uccl_sim_path[(int)o->path];
	c->credit = uccl_sim_credit[(int)o->credit];
	c->paths = (uint16_t)o->paths;
	c->chunk_bytes = (uint32_t)o->chunk;
	c->eager_bytes = (uint32_t)o->eager;
	c->inject_bytes = (uint32_t)o->inject;
	c->window_chunks = (uint32_t)o->window;
	c->unexpected_bytes = (uint32_t)o->unexpected_kb * 1024;
	c->peer_timeout_ns = MS(o->peer_timeout_ms);
	c->connect_timeout_ns = MS(o->connect_timeout_ms);
	c->keepalive_ns = MS(o->keepalive_ms);
	c->keyless = o->keyless > 0;
	c->fifo_paths = o->fifo > 0;
}

/* After the primary, with its key. */
static int lane_open(struct uccl_sim_life *n, uint8_t k, const struct uccl_config *cfg)
{
	struct uccl_sim_world *w = n->w;
	struct uccl_addr identity = *uccl_engine_addr(n->e);
	struct uccl_sim_lane *l = &n->lane[k];
	struct uccl_sim_nic_cfg nic;
	struct uccl_engine_attr attr = {
		.config = cfg,
		.random = life_random,
		.random_arg = n,
		.identity = &identity,
		.lane_number = k,
	};
	int rc;

	*l = (struct uccl_sim_lane){.primary = n, .poll.fire = lane_poll};
	identity.incarnation += k + 1;
	nic_config(w, n, &nic);
	nic.user.wake = lane_wake;
	nic.user.wake_arg = l;
	l->channel = attr.lane_channel = uccl_lanes_built()->channel_new(channel_wake, NULL, l);
	if (!l->channel)
		return -FI_ENOMEM;
	rc = uccl_sim_nic_open(&w->net, (uint8_t)(w->o.nodes + n->node * w->o.lanes + k), &nic, &l->nic);
	if (rc)
		return rc;
	attr.nic = l->nic;
	rc = uccl_engine_open(&attr, w->net.now, &l->e);
	if (!rc)
		lane_wake(l);
	return rc;
}

static int lanes_open(struct uccl_sim_life *n, const struct uccl_config *cfg)
{
	struct uccl_engine *e[UCCL_SIM_LANES];
	struct uccl_lane_channel *channel[UCCL_SIM_LANES];
	uint8_t lanes = (uint8_t)n->w->o.lanes;
	int rc;

	for (uint8_t k = 0; k < lanes; k++) {
		rc = lane_open(n, k, cfg);
		if (rc)
			return rc;
		e[k] = n->lane[k].e;
		channel[k] = n->lane[k].channel;
	}
	return lanes ? uccl_lanes_built()->open(n->e, e, channel, lanes) : 0;
}

void uccl_sim_lanes_close(struct uccl_sim_life *n)
{
	for (uint8_t k = 0; k < (uint8_t)n->w->o.lanes; k++) {
		struct uccl_sim_lane *l = &n->lane[k];

		struct uccl_engine *e = l->e;

		uccl_sim_cancel(&n->w->net, &l->poll);
		n->w->total.over_lanes += uccl_engine_stats(e)->tx_bytes;
		l->e = NULL;
		uccl_engine_close(e);
	}
}

void uccl_sim_lanes_free(struct uccl_sim_life *n)
{
	for (uint8_t k = 0; k < (uint8_t)n->w->o.lanes; k++)
		uccl_lanes_built()->channel_free(n->lane[k].channel);
}

struct uccl_engine *uccl_sim_engine(const struct uccl_sim_life *n, uint8_t i)
{
	if (!n->alive || i > (uint8_t)n->w->o.lanes)
		return NULL;
	return i ? n->lane[i - 1].e : n->e;
}

int uccl_sim_life_open(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	struct uccl_sim_nic_cfg nic;
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {
		.config = &cfg,
		.may_gather = true,
		.random = life_random,
		.random_arg = n,
		.room = life_room,
		.room_arg = n,
		.target = w->target,
		.target_arg = n,
	};
	int rc;

	n->poll.fire = life_poll;
	nic_config(w, n, &nic);
	engine_config(w, &cfg);
	rc = uccl_sim_nic_open(&w->net, n->node, &nic, &n->nic);
	if (rc)
		return rc;
	attr.nic = n->nic;
	rc = uccl_engine_open(&attr, w->net.now, &n->e);
	return rc ? rc : lanes_open(n, &cfg);
}

void uccl_sim_retry(struct uccl_sim_world *w, struct uccl_sim_event *ev)
{
	uccl_sim_at(&w->net, ev, w->net.now + 1 + uccl_rng_below(&w->rng, UCCL_SIM_RETRY_NS));
}

struct uccl_peer *uccl_sim_peer(struct uccl_sim_life *n, uint8_t node, uint32_t life)
{
	const struct uccl_sim_world *w = n->w;
	struct uccl_peer **held = &n->peer[node][life], *peer;
	struct uccl_addr addr = w->addr[node][life];

	if (w->o.keyless) {
		addr.incarnation = 0;
		memset(addr.key, 0, sizeof(addr.key));
	}
	if (*held && !uccl_peer_ended(*held))
		return *held;
	peer = *held ? uccl_peer_reconnect(*held, &addr) : uccl_engine_peer(n->e, &addr, true);
	if (peer)
		*held = peer;
	return peer;
}

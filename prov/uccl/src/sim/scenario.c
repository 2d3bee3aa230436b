/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <rdma/fi_errno.h>
#include <string.h>

#include "flow/wire/wire.h"
#include "engine/impl.h"
#include "sim/scene.h"
#include "sim/stories.h"

#define SABOTAGE_SEEDS 8

static uint32_t operations(const struct uccl_sim_world *w, uint8_t node)
{
	return w->node[node].e->msg_ep.op_pool.used;
}

/* --- loss, packet by packet --- */

/* Packets of one kind, numbered in each direction of nodes 0 and 1; those whose bit is set are lost. */
struct mask {
	uint64_t lost[2];
	uint32_t seen[2];
	bool handshake; /* of the handshake, else all others */
};

static uint32_t mask_script(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	struct mask *m = arg;
	uint32_t i;

	(void)delay_ns;
	(void)now;
	if (p->src > 1 || m->handshake != (p->type < UCCL_PKT_ACK))
		return 0;
	i = m->seen[p->src]++;
	return i < 64 && m->lost[p->src] >> i & 1 ? UCCL_SIM_DROP : 0;
}

/* What is lost under masks. */
struct loss {
	uint32_t bits;	/* of the first packets of each direction */
	uint64_t len;	/* of a message from 0 to 1, */
	bool handshake; /* and another one back: packets of the handshake are lost, else all others */
};

static bool mask_begin(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, struct mask *m,
		       uint64_t len)
{
	struct uccl_sim_plan p = {.dst = 1, .match = UCCL_SIM_EXACT, .flags = UCCL_OPF_DELIVERY};

	if (!scene_begin(w, o, seed))
		return false;
	w->net.script = mask_script;
	w->net.script_arg = m;
	m->seen[0] = m->seen[1] = 0;
	p.len = p.recv_len = len;
	p.send_ns = p.recv_ns = w->net.now;
	uccl_sim_plan(w, &p);
	p.src = 1;
	p.dst = 0;
	if (m->handshake)
		uccl_sim_plan(w, &p);
	return true;
}

static uint32_t mask_run(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, struct mask *m,
			 uint64_t len)
{
	if (mask_begin(w, o, seed, m, len))
		uccl_sim_finish(w);
	if (w->violations && w->print)
		uccl_sim_violation(w, "lost packets: %llx from 0, %llx from 1", (unsigned long long)m->lost[0],
				   (unsigned long long)m->lost[1]);
	return scene_end(w);
}

/* Every subset of the first packets of each direction. */
static uint32_t run_loss(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	const struct loss *loss = arg;
	struct mask m = {.handshake = loss->handshake};
	uint32_t bad = 0;

	for (uint64_t i = 0; i < 1ull << 2 * loss->bits && !bad; i++) {
		m.lost[0] = i & ((1ull << loss->bits) - 1);
		m.lost[1] = i >> loss->bits;
		bad = mask_run(w, o, seed, &m, loss->len);
	}
	return bad;
}

/* The last k packets before everything is done are lost, in either direction or both. */
static uint32_t run_last_k(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	const uint64_t lengths[] = {100, 4 * 512, 20000};
	struct mask m = {.handshake = false};
	uint32_t bad = 0, i, k, dir, n[2];

	(void)arg;
	for (i = 0; i < uccl_array_len(lengths) && !bad; i++) {
		m.lost[0] = m.lost[1] = 0;
		/* How many there are until nothing is open: the run without loss ends in the same way up to there. */
		if (!mask_begin(w, o, seed, &m, lengths[i]))
			return scene_end(w);
		uccl_sim_go(w, w->net.now + SEC, true);
		n[0] = m.seen[0];
		n[1] = m.seen[1];
		uccl_sim_world_close(w);
		for (k = 1; k <= 5 && !bad; k++) {
			for (dir = 1; dir <= 3 && !bad; dir++) {
				uint64_t tail = ((1ull << k) - 1);

				m.lost[0] = dir & 1 ? tail << (n[0] > k ? n[0] - k : 0) : 0;
				m.lost[1] = dir & 2 ? tail << (n[1] > k ? n[1] - k : 0) : 0;
				bad = mask_run(w, o, seed, &m, lengths[i]);
			}
		}
	}
	return bad;
}

/* --- paths --- */

/* In mid-transfer routes 0 .. `last` get the hole, for good; the rest must carry on without anybody noticing. */
struct dying {
	int src;	/* whose packets; -1: all */
	uint32_t above; /* of more bytes than that */
	int last;
	uint32_t done_ms; /* all must be through then */
};

static uint32_t run_hole(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	const struct dying *d = arg;
	struct uccl_sim_hole h = {.src = d->src, .dst = -1, .above = d->above, .end = UCCL_NEVER};
	struct sim_msg *m[16];
	uint64_t start;
	uint32_t i;

	if (!scene_begin(w, o, seed))
		return scene_end(w);
	start = w->net.now;
	h.start = start + 20 * MS;
	for (h.route = 0; h.route <= d->last; h.route++)
		uccl_sim_hole_add(&w->net, &h);
	scene_stream(w, 0, 1, 16, 512 * 1024, 0, m);
	/* At 1 Gb/s the whole takes 67 ms. */
	uccl_sim_go(w, start + d->done_ms * MS, true);
	for (i = 0; i < 16 && !w->violations; i++) {
		if (uccl_sim_msg_result(m[i]))
			uccl_sim_violation(w, "message %u is not through after %u ms", i, d->done_ms);
	}
	if (!w->violations)
		uccl_sim_finish(w);
	return scene_end(w);
}

/* Bytes that the node got from `from` to `to`. */
static uint64_t delivered(struct uccl_sim_world *w, uint8_t node, uint64_t from, uint64_t to)
{
	uint64_t before;

	uccl_sim_go(w, from, false);
	before = uccl_engine_stats(w->node[node].e)->rx_bytes;
	uccl_sim_go(w, to, false);
	return uccl_engine_stats(w->node[node].e)->rx_bytes - before;
}

/*
 * One of eight routes dies: three time-outs later goodput is what the others carried, less a tenth for ups and downs.
 * Swift alone, without any hole, goes up and down by a third here: with it half of before must be back.
 */
static uint32_t run_hole_goodput(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,
				 const void *arg)
{
	struct uccl_sim_hole h = {.src = -1, .dst = -1, .route = 0, .end = UCCL_NEVER};
	uint64_t start, rto, before, after;

	(void)arg;
	if (!scene_begin(w, o, seed))
		return scene_end(w);
	start = w->net.now;
	scene_stream(w, 0, 1, 32, 4 * 1024 * 1024, 0, NULL);
	before = delivered(w, 1, start + 10 * MS, start + 30 * MS);
	rto = uccl_flow_rto(&TAILQ_FIRST(&w->node[0].e->conns.live)->peer.flow);
	h.start = start + 30 * MS;
	uccl_sim_hole_add(&w->net, &h);
	after = delivered(w, 1, start + 30 * MS + 3 * rto, start + 50 * MS + 3 * rto);
	if (!w->violations && after < (o->cc > 0 ? before * 7 / 8 * 9 / 10 : before / 2))
		uccl_sim_violation(w, "goodput is %llu after the hole, was %llu", (unsigned long long)after,
				   (unsigned long long)before);
	uccl_sim_finish(w);
	return scene_end(w);
}

/* --- flaps --- */

/* Short packets that may go where nothing answers, each second. */
#define FLAPS_QUESTIONS 24

/* What is down now, and what came through and did not since a reset. */
struct flaps {
	struct rail_ports ports;
	bool down;
	int route, src;	/* of which packets; -1: all */
	uint64_t passed[2];	/* bytes from node 0 on each of two routes */
	/* While one is down and the other works, from `known_ns` on: bytes, those lost in long packets, short ones. */
	uint64_t known_ns, known_sum_ns, sent, vain, questions;
};

static uint32_t flaps_script(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	struct flaps *f = arg;
	bool lost = f->down && (f->route < 0 || p->route == f->route) && (f->src < 0 || p->src == f->src);

	if (f->down && f->route >= 0 && now >= f->known_ns) {
		f->sent += p->len;
		f->vain += lost && p->len > 512 ? p->len : 0;
		f->questions += lost && p->len <= 512;
	}
	if (lost || !rail_ports_take(&f->ports, p, delay_ns, now))
		return UCCL_SIM_DROP;
	if (!p->src)
		f->passed[p->route & 1] += p->len;
	return 0;
}

/* Down for so long, under load; whatever works carries it at once. */
static void flap_down(struct uccl_sim_world *w, struct flaps *f, uint64_t ns)
{
	struct sim_msg *m[32];
	uint64_t began = w->net.now, gap = uccl_max(ns / 32, MS);

	f->down = true;
	f->known_ns = began + 200 * MS;
	scene_stream(w, 0, 1, 32, 128 * 1024, gap, m);
	uccl_sim_go(w, began + ns, false);
	for (uint64_t i = 0; i < 32 && f->route >= 0 && !w->violations; i++)
		if (began + i * gap + SEC < w->net.now && uccl_sim_msg_result(m[i]))
			uccl_sim_violation(w, "route %d is down for %llu ms: message %llu waits", f->route,
					   (unsigned long long)(ns / MS), (unsigned long long)i);
	if (f->route >= 0 && w->net.now > f->known_ns)
		f->known_sum_ns += w->net.now - f->known_ns;
	f->down = false;
	uccl_sim_go(w, uccl_max(w->net.now, began + 32 * gap), false);
}

/* It returned: soon it carries its part again. */
static void flap_up(struct uccl_sim_world *w, struct flaps *f, uint64_t ns)
{
	uint64_t sum;

	if (!uccl_sim_go(w, w->net.now + 3 * SEC, true))
		uccl_sim_violation(w, "not everything is through 3 s after %llu ms without route %d",
				   (unsigned long long)(ns / MS), f->route);
	uccl_sim_go(w, w->net.now + SEC, false);
	memset(f->passed, 0, sizeof(f->passed));
	scene_stream(w, 0, 1, 16, 1024 * 1024, 0, NULL);
	uccl_sim_go(w, w->net.now + SEC, true);
	sum = f->passed[0] + f->passed[1];
	for (int route = 0; route < 2 && !w->violations; route++)
		if (f->passed[route] * 20 < sum)
			uccl_sim_violation(w, "%llu ms without route %d: of %llu bytes %d carries %llu then",
					   (unsigned long long)(ns / MS), f->route, (unsigned long long)sum, route,
					   (unsigned long long)f->passed[route]);
}

/*
 * An hour in which two routes, ports of a host, fail in turn for 1 ms to 10 minutes: both ways, or one way only, so
 * that one side hears of it later; for up to 10 s both at once. Nothing fails, what works carries all, what returns
 * carries its part, and as soon as a route is known to be down next to nothing is sent there.
 */
static uint32_t run_flaps(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	static const struct {
		int route, src;
	} kinds[] = {{0, -1}, {1, -1}, {0, 0}, {1, 1}, {-1, -1}};
	static const uint64_t ms[] = {1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 600000};
	struct flaps f = {.ports.mbps = {1000, 1000}};
	uint64_t began;

	(void)arg;
	if (!scene_begin_ports(w, o, seed, &f.ports))
		return scene_end(w);
	began = w->net.now;
	w->net.script = flaps_script;
	w->net.script_arg = &f;
	scene_stream(w, 0, 1, 16, 256 * 1024, 0, NULL);
	uccl_sim_go(w, w->net.now + SEC, true);
	while (w->net.now - began < 3600 * SEC && !w->violations)
		for (size_t i = 0; i < uccl_array_len(ms); i++)
			for (size_t k = 0; k < uccl_array_len(kinds) && !w->violations; k++) {
				if (w->net.now - began + ms[i] * MS > 3610 * SEC ||
				    (kinds[k].route < 0 && ms[i] > 10000))
					continue;
				f.route = kinds[k].route;
				f.src = kinds[k].src;
				flap_down(w, &f, ms[i] * MS);
				flap_up(w, &f, ms[i] * MS);
			}
	if (w->work.failed)
		uccl_sim_violation(w, "an operation failed though the network came back");
	if (f.vain * 100 > f.sent)
		uccl_sim_violation(w, "%llu of %llu bytes were sent in vain", (unsigned long long)f.vain,
				   (unsigned long long)f.sent);
	if (f.questions > FLAPS_QUESTIONS * f.known_sum_ns / SEC)
		uccl_sim_violation(w, "%llu questions in %llu s", (unsigned long long)f.questions,
				   (unsigned long long)(f.known_sum_ns / SEC));
	uccl_sim_finish(w);
	return scene_end(w);
}

/* --- rails of unequal rate --- */

/* The least that a stream has of what ports carry together, percent; and while one flaps within a time-out. */
#define UNEQUAL_GOODPUT 95
#define UNEQUAL_QUICK 80
#define UNEQUAL_QUICK_NS (32 * MS)

struct unequal {
	struct rail_ports ports;
	uint64_t passed, could; /* bytes of node 0 that came through, and that could have */
	int down; /* this route is; -1: none */
};

static uint32_t unequal_script(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	struct unequal *u = arg;

	if (p->route == u->down || !rail_ports_take(&u->ports, p, delay_ns, now))
		return UCCL_SIM_DROP;
	u->passed += p->src ? 0 : p->len;
	return 0;
}

/* For `ns`, under load. */
static void unequal_go(struct uccl_sim_world *w, struct unequal *u, int down, uint64_t ns)
{
	u->down = down;
	for (int i = 0; i < 2; i++)
		u->could += i == down ? 0 : u->ports.mbps[i] * ns / 8000;
	uccl_sim_go(w, w->net.now + ns, false);
}

/* Was most of what could pass used since this was asked last? */
static void unequal_used(struct uccl_sim_world *w, struct unequal *u, uint64_t percent)
{
	if (u->passed * 100 < u->could * percent)
		uccl_sim_violation(w, "%llu and %llu Mbit/s: %llu of %llu bytes passed, %llu %% should",
				   (unsigned long long)u->ports.mbps[0], (unsigned long long)u->ports.mbps[1],
				   (unsigned long long)u->passed, (unsigned long long)u->could,
				   (unsigned long long)percent);
	u->passed = u->could = 0;
}

static uint32_t unequal(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, uint64_t a,
			uint64_t b)
{
	struct unequal u = {.ports.mbps = {a, b}, .down = -1};
	/* One is down for such a part of the unit, and then both are up for as long, or for a quarter at least. */
	static const uint64_t parts[] = {32, 8, 2};
	uint64_t unit = 32 * 1000 * 1000 / (a + b) * 8000; /* 32 MB */
	const struct uccl_stats *s;

	if (!scene_begin_ports(w, o, seed, &u.ports))
		return scene_end(w);
	w->net.script = unequal_script;
	w->net.script_arg = &u;
	/* More than they can carry. */
	scene_stream(w, 0, 1, 768, 256 * 1024, 0, NULL);
	unequal_go(w, &u, -1, unit / 8);
	u.passed = u.could = 0;
	unequal_go(w, &u, -1, unit);
	unequal_used(w, &u, UNEQUAL_GOODPUT);
	for (size_t i = 0; i < uccl_array_len(parts); i++) {
		for (int down = 0; down < 2; down++) {
			unequal_go(w, &u, down, unit / parts[i]);
			unequal_go(w, &u, -1, unit / uccl_min(parts[i], 4));
		}
		unequal_used(w, &u, unit < UNEQUAL_QUICK_NS ? UNEQUAL_QUICK : UNEQUAL_GOODPUT);
	}
	s = uccl_engine_stats(w->node[0].e);
	if (s->rtx_packets * 50 > s->tx_packets)
		uccl_sim_violation(w, "%llu and %llu Mbit/s: %llu of %llu packets were sent again",
				   (unsigned long long)a, (unsigned long long)b, (unsigned long long)s->rtx_packets,
				   (unsigned long long)s->tx_packets);
	w->net.script = NULL;
	uccl_sim_finish(w);
	return scene_end(w);
}

/* Rails have the bytes that they can carry, whatever their rates, also while one fails now and then. PROTOCOL R387 */
static uint32_t run_unequal(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	static const uint64_t mbps[][2] = {{50, 50},   {80, 20},   {20, 80},	{500, 500},
					   {800, 200}, {200, 800}, {9000, 1000}};
	uint32_t bad = 0;

	(void)arg;
	for (size_t i = 0; i < uccl_array_len(mbps); i++)
		bad += unequal(w, o, seed, mbps[i][0], mbps[i][1]);
	return bad;
}

/* Trains of node 0 are lost, or parts of them: it is found out soon, unless there are hardly any. */
static uint32_t trains(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed)
{
	const struct uccl_stats *s;
	uint64_t drops, began;

	if (!scene_begin(w, o, seed))
		return scene_end(w);
	scene_stream(w, 0, 1, 16, 1 << 20, MS, NULL);
	began = w->net.now;
	s = uccl_engine_stats(w->node[0].e);
	while (!s->trains_off && w->net.now < began + SEC)
		uccl_sim_go(w, w->net.now + MS, false);
	drops = uccl_sim_nic_stats(w->node[0].nic)->train_drops;
	if (!s->trains_off && drops * 50 > s->tx_packets)
		uccl_sim_violation(w, "trains broken in way %d were not found out within a second",
				   (int)o->train_fault);
	uccl_sim_finish(w);
	if (drops > 2000)
		uccl_sim_violation(w, "broken trains cost %llu packets", (unsigned long long)drops);
	return scene_end(w);
}

static uint32_t run_trains(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	struct uccl_sim_options with = *o;
	uint32_t bad = 0;

	(void)arg;
	for (int fault = UCCL_TRAIN_DROP; fault <= UCCL_TRAIN_EQUAL && !bad; fault++) {
		with.train_fault = fault;
		bad = trains(w, &with, seed);
	}
	return bad;
}

/* --- time --- */

static uint32_t run_sleeper(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	(void)arg;
	if (!scene_begin(w, o, seed))
		return scene_end(w);
	scene_stream(w, 0, 1, 8, 256 * 1024, MS, NULL);
	scene_stream(w, 1, 0, 8, 2000, MS, NULL);
	uccl_sim_go(w, w->net.now + 3 * MS, false);
	uccl_sim_sleep(w, 1, w->net.now + 120 * SEC);
	uccl_sim_go(w, w->net.now + 120 * SEC, false);
	if (w->work.failed)
		uccl_sim_violation(w, "an operation failed though its peer only slept");
	uccl_sim_finish(w);
	return scene_end(w);
}

/* --- late writes --- */

/* The first write of each message is held for 400 ms; it lands when the receive is long complete and reused. */
static uint32_t ghost_script(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	uint32_t *count = arg;

	(void)now;
	if (p->type == UCCL_SIM_TYPE_WRITE && (*count)++ % 8 == 0)
		*delay_ns = 400 * MS;
	return 0;
}

static uint32_t run_ghost(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	const struct uccl_stats *st;
	uint32_t count = 0;

	(void)arg;
	if (!scene_begin(w, o, seed))
		return scene_end(w);
	w->net.script = ghost_script;
	w->net.script_arg = &count;
	scene_stream(w, 0, 1, 8, 200000, 20 * MS, NULL);
	uccl_sim_go(w, w->net.now + SEC, true);
	st = uccl_engine_stats(w->node[1].e);
	if (!w->violations && (!count || !st->doubtful || !st->fences))
		uccl_sim_violation(w, "no doubt and no fence: the scene did not happen");
	uccl_sim_finish(w);
	return scene_end(w);
}

/* --- receive slots --- */

/* The receiver looks only once in a while, so that its slots are full whenever they may be, until all is there. */
static void slots_fill(struct uccl_sim_world *w)
{
	for (int i = 0; i < 10000 && w->open && !w->violations; i++) {
		uccl_sim_sleep(w, 0, w->net.now + 200 * UCCL_NS_PER_US);
		uccl_sim_go(w, w->net.now + 250 * UCCL_NS_PER_US, true);
	}
}

static uint32_t slots_end(struct uccl_sim_world *w)
{
	uccl_sim_finish(w);
	if (w->total.slot_drops || w->total.slot_drops_write)
		uccl_sim_violation(w, "%llu chunks and %llu writes found no slot",
				   (unsigned long long)w->total.slot_drops,
				   (unsigned long long)w->total.slot_drops_write);
	return scene_end(w);
}

static uint32_t run_slots(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	uint32_t i;

	(void)arg;
	if (!scene_begin(w, o, seed))
		return scene_end(w);
	for (i = 1; i < (uint32_t)o->nodes; i++)
		scene_stream(w, (uint8_t)i, 0, 20, 3 * (uint64_t)o->mtu + i * 1000, 0, NULL);
	slots_fill(w);
	return slots_end(w);
}

/*
 * All are connected, one sends and has nearly all slots. Then it does not look any more, and all others begin at once;
 * it comes back and sends, too, and the others stop looking.
 */
static uint32_t run_slots_turns(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,
				const void *arg)
{
	uint64_t len = 100 * (uint64_t)o->mtu;
	uint8_t i, one;

	(void)arg;
	if (!scene_begin(w, o, seed))
		return scene_end(w);
	for (i = 1; i < (uint8_t)o->nodes; i++)
		scene_stream(w, i, 0, 1, 10, 0, NULL);
	slots_fill(w);
	for (one = 1; one < (uint8_t)o->nodes && !w->violations; one++) {
		scene_stream(w, one, 0, 4, len, 0, NULL);
		slots_fill(w);
		uccl_sim_sleep(w, one, w->net.now + 50 * MS);
		for (i = 1; i < (uint8_t)o->nodes; i++)
			scene_stream(w, i, 0, 2, len, 0, NULL);
		slots_fill(w);
		for (i = 1; i < (uint8_t)o->nodes; i += 2)
			uccl_sim_sleep(w, i, w->net.now + 20 * MS);
	}
	if (!w->violations && !w->node[0].e->slots.queue.returned)
		uccl_sim_violation(w, "no slot was given back: the scene did not happen");
	return slots_end(w);
}

/* --- a host that vanishes --- */

/* Bytes of writes under way when it vanishes. */
#define VANISHED_BYTES (128 * 1024)

/*
 * The NIC reads direct writes until the peer's NIC has them, for seconds if that has no link. All sends are taken back
 * then: each ends within a second (I21), the NIC reads nothing of it afterwards, and goes on when the peer is back.
 * Sends, few or more than the NIC's queue holds. PROTOCOL R389
 */
static void vanished(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, uint32_t n)
{
	uint64_t stopped;

	if (!scene_begin(w, o, seed))
		return;
	w->o.abort = 0;
	scene_stream(w, 0, 1, 4, 4 * 1024 * 1024, 0, NULL);
	uccl_sim_go(w, w->net.now + SEC, true);
	w->o.abort = 1;
	scene_stream(w, 0, 1, n, 4 * 1024 * 1024, 0, NULL);
	for (int i = 0; i < 100 && w->node[0].nic->ops->backlog(w->node[0].nic) < VANISHED_BYTES; i++)
		uccl_sim_go(w, w->net.now + 10 * UCCL_NS_PER_US, false);
	uccl_sim_hole_add(&w->net, &(struct uccl_sim_hole){.src = -1, .dst = -1, .route = -1, .start = w->net.now,
							   .end = w->net.now + 10 * SEC});
	uccl_sim_go(w, w->net.now + 10 * SEC, false);
	stopped = uccl_sim_nic_stats(w->node[0].nic)->stopped;
	if (!w->violations && !stopped && o->leaky <= 0)
		uccl_sim_violation(w, "no write waited for the peer: the scene did not happen");
	if (!w->violations && w->aborts.ended < n)
		uccl_sim_violation(w, "%llu of %u ended", (unsigned long long)w->aborts.ended, n);
	w->o.abort = 0;
	uccl_sim_go(w, w->net.now + 5 * SEC, false);
	scene_stream(w, 0, 1, 4, 4 * 1024 * 1024, 0, NULL);
	uccl_sim_finish(w);
}

static uint32_t run_vanished(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	vanished(w, o, seed, *(const uint32_t *)arg);
	return scene_end(w);
}

/*
 * On a NIC that goes on reading all the same the checker must notice. What it notices is that the sends end late (I21),
 * not that something is read after their end.
 */
static uint32_t run_sabotage_vanished(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,
				      const void *arg)
{
	bool found;

	w->print = NULL;
	vanished(w, o, seed, *(const uint32_t *)arg);
	found = w->violations && strstr(w->first, "I21:");
	uccl_sim_world_close(w);
	return !found;
}

/* --- death --- */

/*
 * Node 1 dies with messages under way in both directions. Every operation of node 0 must end in so many seconds, its
 * sends with one error each, and messages between 0 and 2 must not be hurt.
 */
static uint32_t run_death(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	const uint64_t limit_ns = *(const uint32_t *)arg * SEC;
	struct sim_msg *to_dead[12], *from_dead[8], *other[12];
	uint64_t died;
	uint32_t i, failed = 0;

	if (!scene_begin(w, o, seed))
		return scene_end(w);
	scene_stream(w, 0, 1, 12, 300000, MS / 2, to_dead);
	scene_stream(w, 1, 0, 8, 300000, MS / 2, from_dead);
	scene_stream(w, 0, 2, 12, 100000, 100 * MS, other);
	uccl_sim_go(w, w->net.now + 2 * MS, false);
	died = w->net.now;
	uccl_sim_kill(w, 1);
	uccl_sim_go(w, died + limit_ns, false);
	for (i = 0; i < 12 && !w->violations; i++) {
		int result = uccl_sim_msg_result(to_dead[i]);

		if (result < 0)
			uccl_sim_violation(w, "send %u to the dead has not ended after %.0f s", i,
					   (double)limit_ns / 1e9);
		failed += result > 0;
	}
	if (!w->violations && failed < 4)
		uccl_sim_violation(w, "only %u sends to the dead failed", failed);
	if (!w->violations && limit_ns > 2 * SEC && operations(w, 0))
		uccl_sim_violation(w, "%u operations wait for the dead", operations(w, 0));
	uccl_sim_finish(w);
	for (i = 0; i < 12 && !w->violations; i++) {
		if (uccl_sim_msg_result(other[i]))
			uccl_sim_violation(w, "message %u to a living peer failed", i);
	}
	return scene_end(w);
}

/* Node 1 dies and comes back at the same address, again and again, while old packets are still on their way. */
static uint32_t run_restart(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, const void *arg)
{
	uint32_t i;

	(void)arg;
	if (!scene_begin(w, o, seed))
		return scene_end(w);
	for (i = 0; i < 5 && !w->violations; i++) {
		scene_stream(w, 0, 1, 6, 40000, MS / 4, NULL);
		scene_stream(w, 1, 0, 6, 40000, MS / 4, NULL);
		uccl_sim_go(w, w->net.now + 2 * MS, false);
		uccl_sim_kill(w, 1);
		uccl_sim_go(w, w->net.now + i % 2 * 20 * MS, false);
		if (uccl_sim_boot(w, 1))
			uccl_sim_violation(w, "node 1 does not come back");
	}
	scene_stream(w, 0, 1, 6, 40000, MS / 4, NULL);
	scene_stream(w, 1, 0, 6, 40000, MS / 4, NULL);
	uccl_sim_finish(w);
	return scene_end(w);
}

/* --- the checkers themselves --- */

/*
 * With `bits`, flipped ones pass in payloads. Else the NIC is broken, and writes to memory that the application has
 * back, perhaps late.
 */
static bool sabotage_found(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed, bool bits)
{
	uint32_t count = 0;
	bool found;

	if (!scene_begin(w, o, seed)) {
		scene_end(w);
		return false;
	}
	w->net.script = ghost_script;
	w->net.script_arg = &count;
	if (bits) {
		w->net.cfg.faults.corrupt = 0.2;
		w->net.cfg.faults.corrupt_pass = true;
	}
	w->print = NULL;
	scene_stream(w, 0, 1, 8, 200000, 20 * MS, NULL);
	uccl_sim_finish(w);
	found = w->violations && (bits || strstr(w->first, "I1:"));
	uccl_sim_world_close(w);
	return found;
}

/*
 * The run must be found broken, or nothing here finds anything. A run ends with its first violation: where a write hits
 * a message that is still on its way, that is I3, so several seeds are tried until one is I1.
 */
static uint32_t run_sabotage(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,
			     const void *bits)
{
	for (uint64_t k = 0; k < SABOTAGE_SEEDS; k++)
		if (sabotage_found(w, o, seed + k, bits))
			return 0;
	return 1;
}

/* Options of a world whose hosts have n ports; the stories give each port 1 Gb/s. */
#define STORY_RAILS(n) "routes=" #n " rails=1 paths=16 rate_mbps=10000 cc=nscc path=reps"

const struct uccl_sim_scenario uccl_sim_scenarios[] = {
	{"quiet", "no faults, packet NIC", "", .seeds = 10},
	{"quiet-write", "no faults, direct-write NIC", "", .needs = "nic=1", .seeds = 10},
	{"loss-eager", "every subset of the first 6 packets each way, 4-chunk eager message",
	 "chunk=512 mtu=1024 bound_ms=5000 fault_ms=0 work_ms=0 keepalive_ms=0", .run = run_loss,
	 .arg = &(const struct loss){6, 4 * 512, false}},
	{"loss-rendezvous", "the same for a message of 4 chunks after rendezvous",
	 "chunk=512 mtu=1024 eager=256 bound_ms=5000 fault_ms=0 work_ms=0 keepalive_ms=0", .run = run_loss,
	 .arg = &(const struct loss){6, 256 + 4 * 512, false}},
	{"loss-write", "the same for 4 direct writes",
	 "mtu=1024 eager=256 write_max=8192 bound_ms=5000 fault_ms=0 work_ms=0 keepalive_ms=0", .needs = "nic=1",
	 .run = run_loss, .arg = &(const struct loss){6, 512 + 4 * 8192, false}},
	/* Two chunks go unsolicited. Data, demands and what is sent again go one way, the rest the other. */
	{"loss-credit", "every subset of the first 7 packets each way, 6-chunk message by paced credit",
	 "credit=eqds chunk=512 mtu=1024 bound_ms=5000 fault_ms=0 work_ms=0 keepalive_ms=0", .run = run_loss,
	 .arg = &(const struct loss){7, 6 * 512, false}},
	{"loss-handshake", "every subset of the first 5 handshake packets each way, both connect at once",
	 "bound_ms=10000 fault_ms=0 work_ms=0 keepalive_ms=0", .run = run_loss,
	 .arg = &(const struct loss){5, 100, true}},
	{"last-k", "the last 1..5 packets of either direction are lost",
	 "chunk=512 mtu=1024 eager=4096 bound_ms=5000 fault_ms=0 work_ms=0 keepalive_ms=0", .run = run_last_k},
	/* Five seeds, as the fate of a flow hangs on which of its labels lead into the hole. */
	{"hole", "one of eight routes dies in mid-transfer", "routes=8 paths=16 rate_mbps=1000", .seeds = 5,
	 .run = run_hole, .arg = &(const struct dying){-1, 0, 0, 200}},
	{"hole-goodput", "one of eight routes dies: goodput is back in three time-outs", "routes=8 paths=16 cc=cubic",
	 .seeds = 5, .run = run_hole_goodput},
	{"hole-half", "half of the routes die in the direction of the acknowledgements",
	 "routes=8 paths=16 rate_mbps=1000", .seeds = 5, .run = run_hole, .arg = &(const struct dying){1, 0, 3, 200}},
	{"hole-back", "seven of eight routes die in the direction of the acknowledgements",
	 "routes=8 paths=16 rate_mbps=1000", .seeds = 5, .run = run_hole, .arg = &(const struct dying){1, 0, 6, 2000}},
	/* One in 64 questions and answers comes through, and they become seldom: it may take seconds. */
	{"hole-most", "seven of eight routes die", "routes=8 paths=16 rate_mbps=1000", .seeds = 5, .run = run_hole,
	 .arg = &(const struct dying){-1, 0, 6, 12000}},
	{"flaps", "an hour in which one of two routes, or both, fail in turn for 1 ms to 10 minutes",
	 "routes=2 rails=1 paths=16 rate_mbps=10000 cc=nscc path=reps", .run = run_flaps},
	{"unequal", "two rails of unequal rate have the bytes that they can carry, while one fails now and then",
	 "routes=2 rails=1 paths=64 rate_mbps=100000 mtu=1500 trains=1 cc=nscc path=reps", .run = run_unequal},
	{"nccl-2044", "NVIDIA/nccl issue 2044: a port that failed and returned must carry its part again",
	 STORY_RAILS(2), .seeds = 3, .run = uccl_sim_nccl_2044},
	{"nccl-2157", "NVIDIA/nccl issue 2157: both sides notice a port's failure and return at different times",
	 STORY_RAILS(2), .seeds = 3, .run = uccl_sim_nccl_2157},
	{"nccl-2323", "NVIDIA/nccl issue 2323: a port is down for three days, and carries at once when it is back",
	 STORY_RAILS(2), .run = uccl_sim_nccl_2323},
	{"mooncake-2960", "kvcache-ai/Mooncake issue 2960: a full port fails, is up again, and carries no payload yet",
	 STORY_RAILS(2) " nodes=3", .seeds = 3, .run = uccl_sim_mooncake_2960},
	{"mooncake-3523", "kvcache-ai/Mooncake issue 3523: a port swallows what four ranks send, for 228 s",
	 STORY_RAILS(4) " nodes=5", .run = uccl_sim_mooncake_3523},
	{"mooncake-3596", "kvcache-ai/Mooncake issue 3596: a port of eight returns; no batch is slower than without it",
	 STORY_RAILS(8), .run = uccl_sim_mooncake_3596},
	{"mtu-half", "half of the routes lose what is longer than 1500 bytes", "routes=8 paths=16 rate_mbps=1000",
	 .seeds = 5, .run = run_hole, .arg = &(const struct dying){-1, 1500, 3, 300}},
	{"mtu-shrinks", "for a while longer packets are lost, on a route or in a direction",
	 "shrinks=10 shrink_to=1500 hole_ms=50 fault_ms=60 big=0.3 size_max=262144 work_ms=50", .seeds = 10},
	{"trains", "what leaves as a train is lost, in whole or in part; single packets arrive",
	 "trains=1 mtu=1500 rate_mbps=1000 routes=4 paths=8", .run = run_trains},
	{"pause", "PFC stops the ports of nodes again and again, and nothing is lost",
	 "pause=0.02 pause_us=2000 fault_ms=60 big=0.3 size_max=262144 work_ms=50", .seeds = 10},
	{"credit-lost", "no credit arrives for a while: nobody sends without",
	 "credit=window kind=10 kind_loss=1 cc=timely window=64 messages=20 big=1 size_max=1048576 late=0 "
	 "fault_ms=30",
	 .seeds = 10},
	{"unexpected", "many messages before their receives, little memory for them",
	 "messages=3000 size_max=2048 big=0 late=1 exact=1 untagged=0 unexpected_kb=4 window=64 eager=2048 "
	 "work_ms=20 fault_ms=0 truncate_recv=0 cancel=0 early=0.5 inject_share=0.3",
	 .seeds = 3},
	{"full-queue", "messages for multi-receive buffers of applications that leave completions unread",
	 "messages=400 size_max=64 big=0 late=0.2 multi=1 untagged=1 cq=4 work_ms=5 sleeps=5 sleep_ms=20 nodes=3",
	 .seeds = 10},
	{"old-doubles", "half of all packets are doubled, the doubles come up to 10 s late",
	 "dup=0.5 old_stay=1 stall_ms=10000 messages=150 work_ms=3000 fault_ms=4000", .seeds = 10},
	{"late-originals", "one packet or write in 50 comes up to 10 s late",
	 "stall=0.02 stall_ms=10000 messages=100 big=0.3 size_max=262144 work_ms=3000 fault_ms=4000", .seeds = 10},
	{"doubled-writes", "direct writes are doubled by the network, the doubles come up to 10 s late",
	 "dup=0.3 dup_writes=1 old_stay=0.7 stall_ms=10000 loss=0.05 messages=60 big=0.5 size_max=262144 "
	 "work_ms=200 fault_ms=400",
	 .needs = "nic=1", .seeds = 10},
	{"torn-writes", "lost writes leave a part of themselves",
	 "loss=0.1 torn=1 messages=60 big=0.5 size_max=262144 work_ms=200 fault_ms=400", .needs = "nic=1", .seeds = 10},
	{"sleeper", "an endpoint does not poll for 120 s in mid-transfer", "bound_ms=20000", .run = run_sleeper},
	{"ghost", "direct writes land after their receive is complete and reused", "fence_us=3000", .needs = "nic=1",
	 .run = run_ghost},
	{"slots", "eight senders into 32 receive slots of a receiver that looks seldom", "nodes=9 slots=32 window=64",
	 .run = run_slots},
	{"slots-turns", "one of eight senders, then all at once, some of which stop looking; 64 receive slots",
	 "nodes=9 slots=64 window=64 keepalive_ms=0", .run = run_slots_turns},
	{"slots-few", "eight senders into 4 receive slots: drops are allowed, an end is not",
	 "nodes=9 slots=4 window=64 messages=120", .seeds = 10},
	{"death-gone", "a peer dies, its liveness connections tell", "nodes=3 icmp=0", .run = run_death,
	 .arg = &(const uint32_t){5}},
	{"death-unreach", "a peer dies, its host tells", "nodes=3 liveness=0", .run = run_death,
	 .arg = &(const uint32_t){5}},
	{"death-silent", "a peer dies and nobody tells: the time-out does",
	 "nodes=3 liveness=0 icmp=0 peer_timeout_ms=10000 connect_timeout_ms=10000", .run = run_death,
	 .arg = &(const uint32_t){14}},
	{"restart", "an endpoint dies and comes back at its address, five times, packets come up to 10 s late",
	 "stall=0.01 stall_ms=10000 dup=0.1 old_stay=1 peer_timeout_ms=20000", .run = run_restart},
	{"restart-work", "restarts under random work", "restarts=3 messages=100 peer_timeout_ms=20000 fault_ms=60",
	 .seeds = 10},
	{"wrap", "the 32-bit time stamps of the wire wrap in the middle of it all",
	 "start_ns=274875906944 work_ms=20 loss=0.02 messages=200", .seeds = 10},
	{"vanished", "the peer's host vanishes, and sends whose direct writes wait for it are taken back",
	 "answer_ms=4000 big=1", .needs = "nic=1", .seeds = 5, .run = run_vanished, .arg = &(const uint32_t){6}},
	{"vanished-full", "likewise, when such writes fill the NIC's queue", "answer_ms=4000 tx_depth=4 big=1",
	 .needs = "nic=1", .seeds = 5, .run = run_vanished, .arg = &(const uint32_t){24}},
	{"sabotage-vanished", "such a NIC goes on reading: the checkers must notice", "answer_ms=4000 leaky=1 big=1",
	 .needs = "nic=1", .seeds = 3, .run = run_sabotage_vanished, .arg = &(const uint32_t){6}},
	{"sabotage-bytes", "flipped bits reach the application: the checkers must notice", "", .run = run_sabotage,
	 .arg = &(const bool){true}},
	{"sabotage-writes", "late direct writes on a NIC whose fences do nothing: the checkers must notice",
	 "leaky=1 fence_us=3000", .needs = "nic=1", .run = run_sabotage},
	{"sabotage-places", "a NIC writes to places that it was told of earlier: the checkers must notice",
	 "leaky=1 placements=1 mtu=20000", .needs = "nic=0", .run = run_sabotage},
	{.name = NULL},
};

const struct uccl_sim_scenario *uccl_sim_scenario_find(const char *name)
{
	const struct uccl_sim_scenario *s;

	for (s = uccl_sim_scenarios; s->name; s++) {
		if (!strcmp(s->name, name))
			return s;
	}
	return NULL;
}

uint32_t uccl_sim_scenario_run(const struct uccl_sim_scenario *s, struct uccl_sim_world *w, uint64_t seed,
			       const char *forced)
{
	struct uccl_sim_options o;
	uint32_t bad = 0, i;

	uccl_sim_options_default(&o);
	uccl_sim_options_set(&o, s->options);
	if (forced)
		uccl_sim_options_set(&o, forced);
	uccl_sim_options_set(&o, s->needs ? s->needs : "");
	for (i = 0; i < uccl_max(s->seeds, 1) && !bad; i++) {
		if (s->run) {
			bad = s->run(w, &o, seed + i, s->arg);
			continue;
		}
		bad = uccl_sim_seed(w, &o, seed + i);
		uccl_sim_world_close(w);
	}
	return bad;
}

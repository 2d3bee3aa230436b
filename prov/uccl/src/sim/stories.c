/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See stories.h. A story fails here if what the report complains of happens. */
#include "sim/stories.h"

#include "engine/impl.h"
#include "sim/scene.h"

/* What a sender may need to learn that a port is down; afterwards next to nothing is sent there. */
#define KNOWN_NS (200 * MS)
/* Short packets that may go where nothing answers, each second, and bytes of a hundred others. */
#define QUESTIONS 24
#define QUESTION_BYTES 128
#define VAIN_PERCENT 1

/* State of a running scene. `passed`: bytes that endpoints have sent over each port. */
struct story {
	struct rail_ports ports;
	uint64_t passed[UCCL_SIM_NODES][RAIL_PORTS];
};

static uint32_t story_script(void *arg, const struct uccl_sim_pkt *p, uint64_t *delay_ns, uint64_t now)
{
	struct story *s = arg;

	if (!rail_ports_take(&s->ports, p, delay_ns, now))
		return UCCL_SIM_DROP;
	s->passed[p->src][p->route] += p->len;
	return 0;
}

static uint32_t story_run(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,
			  void (*tell)(struct uccl_sim_world *w, struct story *s))
{
	struct story s = {.ports.mbps = {0}};

	for (int i = 0; i < RAIL_PORTS; i++)
		s.ports.mbps[i] = 1000;
	if (!scene_begin_ports(w, o, seed, &s.ports))
		return scene_end(w);
	w->net.script = story_script;
	w->net.script_arg = &s;
	tell(w, &s);
	if (w->work.failed)
		uccl_sim_violation(w, "an operation failed though a path was there all the time");
	w->net.script = NULL;
	uccl_sim_finish(w);
	return scene_end(w);
}

/* Packets longer than `above` are lost on this route from now on, for `ns`; src and dst as of struct uccl_sim_hole. */
static void lose(struct uccl_sim_world *w, int src, int dst, int route, uint32_t above, uint64_t ns)
{
	uccl_sim_hole_add(&w->net, &(struct uccl_sim_hole){.src = src,
							   .dst = dst,
							   .route = route,
							   .above = above,
							   .start = w->net.now,
							   .end = w->net.now + ns});
}

/* This port of an endpoint is down, in both directions. */
static void port_down(struct uccl_sim_world *w, int node, int port, uint64_t ns)
{
	lose(w, node, -1, port, 0, ns);
	lose(w, -1, node, port, 0, ns);
}

/* A batch of messages; how long it takes. No message may wait longer than most_ns. */
static uint64_t batch(struct uccl_sim_world *w, uint8_t src, uint8_t dst, uint32_t n, uint64_t len, uint64_t most_ns)
{
	uint64_t began = w->net.now;

	scene_stream(w, src, dst, n, len, 0, NULL);
	if (!uccl_sim_go(w, began + most_ns, true))
		uccl_sim_violation(w, "%u messages of endpoint %u are not through after %llu ms", w->open, src,
				   (unsigned long long)(most_ns / MS));
	return w->net.now - began;
}

/* Was it as fast as it must be? */
static void at_most(struct uccl_sim_world *w, const char *what, uint64_t ns, uint64_t most_ns)
{
	uccl_sim_say(w, "a batch %s: %.1f ms, at most %.1f", what, (double)ns / 1e6, (double)most_ns / 1e6);
	if (ns > most_ns)
		uccl_sim_violation(w, "a batch %s took %llu us, %llu would do", what, (unsigned long long)(ns / 1000),
				   (unsigned long long)(most_ns / 1000));
}

/* For `ns` while a port is down, messages every gap_ns, which wait no longer than a second; little is sent in vain. */
static void outage(struct uccl_sim_world *w, uint8_t src, uint8_t dst, uint64_t ns, uint64_t gap_ns, uint64_t len)
{
	const struct uccl_sim_stats *st = &w->net.stats;
	uint64_t until = w->net.now + ns, vain, sent, questions;

	batch(w, src, dst, 32, len, SEC);
	uccl_sim_go(w, w->net.now + KNOWN_NS, false);
	vain = st->hole_bytes;
	sent = st->bytes + st->hole_bytes;
	questions = (until - w->net.now) / MS * QUESTIONS * QUESTION_BYTES / 1000;
	while (w->net.now < until && !w->violations) {
		uint64_t next = uccl_min(w->net.now + gap_ns, until);

		batch(w, src, dst, 1, len, SEC);
		uccl_sim_go(w, next, false);
	}
	vain = st->hole_bytes - vain;
	sent = st->bytes + st->hole_bytes - sent;
	uccl_sim_say(w, "%llu of %llu bytes in vain", (unsigned long long)vain, (unsigned long long)sent);
	if (vain > questions + sent * VAIN_PERCENT / 100)
		uccl_sim_violation(w, "%llu of %llu bytes were sent in vain in %llu s", (unsigned long long)vain,
				   (unsigned long long)sent, (unsigned long long)(ns / SEC));
}

/* Each of `n` ports of the endpoint must carry a part like the others'. */
static void all_carry(struct uccl_sim_world *w, struct story *s, uint8_t src, uint8_t dst, int n)
{
	uint64_t sum = 0;

	memset(s->passed, 0, sizeof(s->passed));
	batch(w, src, dst, 32, 1024 * 1024, 2 * SEC);
	for (int i = 0; i < n; i++)
		sum += s->passed[src][i];
	for (int i = 0; i < n && !w->violations; i++)
		if (s->passed[src][i] * 2 * (uint64_t)n < sum)
			uccl_sim_violation(w, "endpoint %u: port %d carries %llu of %llu bytes", src, i,
					   (unsigned long long)s->passed[src][i], (unsigned long long)sum);
}

#define STORY(name)                                                                                                    \
	static void name##_tell(struct uccl_sim_world *w, struct story *s);                                            \
	uint32_t uccl_sim_##name(struct uccl_sim_world *w, const struct uccl_sim_options *o, uint64_t seed,            \
				 const void *arg)                                                                      \
	{                                                                                                              \
		(void)arg;                                                                                             \
		return story_run(w, o, seed, name##_tell);                                                             \
	}                                                                                                              \
	static void name##_tell(struct uccl_sim_world *w, struct story *s)

/*
 * "Support for Port Failback": traffic moves to the other port, and stays there when the port is back. Here each of two
 * ports fails and returns, and a batch is as fast as before.
 */
STORY(nccl_2044)
{
	uint64_t both;

	batch(w, 0, 1, 64, 256 * 1024, SEC);
	both = batch(w, 0, 1, 128, 256 * 1024, SEC);
	for (int port = 0; port < 2; port++) {
		port_down(w, 0, port, 10 * SEC);
		outage(w, 0, 1, 5 * SEC, 20 * MS, 64 * 1024);
		at_most(w, "over the other port", batch(w, 0, 1, 128, 256 * 1024, SEC), both * 22 / 10);
		uccl_sim_go(w, w->net.now + 7 * SEC, false);
		at_most(w, "after the return", batch(w, 0, 1, 128, 256 * 1024, SEC), both * 11 / 10);
		all_carry(w, s, 0, 1, 2);
	}
}

/*
 * "NIC recovery failure": both sides count a few attempts to recover a port, begin at different times, and so never
 * meet; bandwidth stays low for good. Here the directions of a port fail and return seconds apart, three times.
 */
STORY(nccl_2157)
{
	uint64_t both;

	batch(w, 0, 1, 64, 256 * 1024, SEC);
	both = batch(w, 0, 1, 128, 256 * 1024, SEC);
	for (int i = 0; i < 3; i++) {
		lose(w, 0, 1, 0, 0, 20 * SEC);
		outage(w, 0, 1, 5 * SEC, 20 * MS, 64 * 1024);
		lose(w, 1, 0, 0, 0, (20 + (uint64_t)i) * SEC);
		outage(w, 0, 1, (21 + (uint64_t)i) * SEC, 20 * MS, 64 * 1024);
		at_most(w, "after the return of both directions", batch(w, 0, 1, 128, 256 * 1024, SEC), both * 11 / 10);
		all_carry(w, s, 0, 1, 2);
		all_carry(w, s, 1, 0, 2);
	}
}

/*
 * "Persistent backoff recovery": an optical module fails and is replaced after days; a bounded number of attempts is
 * used up long before. Here a port is down for three days of a job that sends something every ten minutes.
 */
STORY(nccl_2323)
{
	uint64_t both;

	batch(w, 0, 1, 64, 256 * 1024, SEC);
	both = batch(w, 0, 1, 128, 256 * 1024, SEC);
	port_down(w, 0, 1, 3 * 86400 * SEC);
	outage(w, 0, 1, 3 * 86400 * SEC + SEC, 600 * SEC, 64 * 1024);
	batch(w, 0, 1, 16, 256 * 1024, SEC);
	uccl_sim_go(w, w->net.now + SEC, false);
	at_most(w, "after three days", batch(w, 0, 1, 128, 256 * 1024, SEC), both * 11 / 10);
	all_carry(w, s, 0, 1, 2);
}

/*
 * "RNIC Failover and Recovery": what is queued for a port that fails does not leave by another one; the peer's port is
 * blamed; and a port whose link is up again is used although it does not carry payload yet.
 */
STORY(mooncake_2960)
{
	struct sim_msg *m[64];
	uint64_t began;

	for (uint8_t src = 0; src < 3; src++)
		for (uint8_t dst = 0; dst < 3; dst++)
			if (src != dst)
				batch(w, src, dst, 8, 256 * 1024, SEC);
	/* A queue of 128 ms, and the port fails. */
	scene_stream(w, 0, 1, 64, 512 * 1024, 0, m);
	began = w->net.now;
	uccl_sim_go(w, began + 10 * MS, false);
	port_down(w, 0, 0, 20 * SEC);
	if (!uccl_sim_go(w, began + 600 * MS, true))
		uccl_sim_violation(w, "what was queued when the port failed is not through after 600 ms");
	outage(w, 0, 1, 10 * SEC, 20 * MS, 64 * 1024);
	/* The ports of the others are good, also that of the peer to which the broken one led. */
	all_carry(w, s, 1, 2, 2);
	all_carry(w, s, 2, 1, 2);
	/* The link is up, short packets pass, and payload does so 5 s later. */
	uccl_sim_go(w, began + 20 * SEC + 10 * MS, false);
	lose(w, 0, -1, 0, 512, 5 * SEC);
	outage(w, 0, 1, 5 * SEC, 20 * MS, 64 * 1024);
	batch(w, 0, 1, 16, 256 * 1024, SEC);
	uccl_sim_go(w, w->net.now + 2 * SEC, false);
	all_carry(w, s, 0, 1, 2);
}

/*
 * "Link-flap recovery gaps": requests that the NIC has are never answered, 780,000 choices of another device in a
 * minute, time-outs of 20 s, and after the return two of four ranks stay cut off. Here one of four ports swallows what
 * four ranks send to one peer, for 228 s.
 */
STORY(mooncake_3523)
{
	uint64_t again = 0, sent = 0;

	for (uint8_t rank = 0; rank < 4; rank++)
		batch(w, rank, 4, 8, 256 * 1024, SEC);
	lose(w, -1, 4, 2, 0, 228 * SEC);
	for (int i = 0; i < 228 && !w->violations; i++) {
		for (uint8_t rank = 0; rank < 4; rank++)
			scene_stream(w, rank, 4, 25, 64 * 1024, 0, NULL);
		batch(w, 0, 4, 1, 64, SEC);
		uccl_sim_go(w, w->net.now + SEC - w->net.now % SEC, false);
	}
	uccl_sim_go(w, w->net.now + 2 * SEC, false);
	for (uint8_t rank = 0; rank < 4; rank++) {
		const struct uccl_stats *st = uccl_engine_stats(w->node[rank].e);

		again += st->rtx_packets;
		sent += st->tx_packets;
		all_carry(w, s, rank, 4, 4);
	}
	uccl_sim_say(w, "%llu of %llu packets were sent again", (unsigned long long)again, (unsigned long long)sent);
	if (again * 100 > sent * VAIN_PERCENT)
		uccl_sim_violation(w, "%llu of %llu packets were sent again", (unsigned long long)again,
				   (unsigned long long)sent);
}

/*
 * "Post-recovery transfers run 5x slower than during the outage": a port of eight is back, each batch has parts on its
 * dead queue pairs, and waits for them. Here no batch from the return on takes longer than those of the outage.
 */
STORY(mooncake_3596)
{
	uint64_t all, without;

	batch(w, 0, 1, 64, 256 * 1024, SEC);
	all = batch(w, 0, 1, 256, 256 * 1024, SEC);
	port_down(w, 0, 5, 60 * SEC);
	lose(w, 1, 0, 5, 0, 61 * SEC);
	outage(w, 0, 1, 30 * SEC, 100 * MS, 256 * 1024);
	without = batch(w, 0, 1, 256, 256 * 1024, SEC);
	at_most(w, "in the outage", without, all * 8 / 7 * 11 / 10);
	uccl_sim_go(w, w->net.now + 29 * SEC, false);
	for (int i = 0; i < 20; i++) {
		at_most(w, "after the return", batch(w, 0, 1, 256, 256 * 1024, SEC), without * 105 / 100);
		uccl_sim_go(w, w->net.now + 200 * MS, false);
	}
	at_most(w, "seconds after the return", batch(w, 0, 1, 256, 256 * 1024, SEC), all * 105 / 100);
	all_carry(w, s, 0, 1, 8);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Silence is not death. One of three ranks is stopped for a while, later it computes without calling libfabric, while
 * the others have messages to it and from it in flight. No operation may fail, all bytes must be right after, and to
 * the silent rank goes a probe now and then, never the window again and again.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "mesh.h"
#include "tap.h"

#define RANKS 3
#define SILENT 2
/*
 * A stopped rank takes nothing more, and its peers are quiet soon. A computing one is heard whenever a timer of its
 * own lets the rescue thread look (man fi_uccl), so what was under way still moves, once and slowly.
 */
#define STEP_MS 1000
#define SETTLE_STEPS 2
/*
 * Two probes of a time-out come every 200 ms at the slowest, a keepalive and a HELLO every second, which is 12; half as
 * much again is allowed.
 */
#define RATE_MAX 18
/* The peer is also asked for receive slots, after pauses that double from 10 ms up to 10 s. PROTOCOL R143 */
#define SLOT_ASKS 4

enum { SILENCE_MARK = CTL_USER, SILENCE_COUNT, SILENCE_COMPUTE, SILENCE_AWAKE };

static uint16_t port_of_place(const char *place)
{
	const char *colon = strrchr(place, ':');

	return colon ? (uint16_t)atoi(colon + 1) : 0;
}

void role_silence(struct rank *r)
{
	static struct mesh m;
	/* Most of it in small messages, so that a full window is many packets. */
	struct mesh_cfg cfg = {.window = 24, .size_max = 300000, .limit = UINT64_MAX};
	uint64_t v[4];
	struct ctl c;

	rank_join(r, NULL, RANKS);
	mesh_open(&m, r, &cfg);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	while (mesh_next(&m, &c)) {
		switch (c.type) {
		case SILENCE_MARK:
			v[0] = tap_count(port_of_place(r->place[SILENT]), &v[1]);
			v[2] = m.s[SILENT].received;
			v[3] = r->index < SILENT ? m.s[1 - r->index].received : 0;
			rank_tell(r, SILENCE_COUNT, 0, v, 4);
			break;
		case SILENCE_COMPUTE:
			/* To the provider it is all one whether a program computes or sleeps. */
			sleep_ms((unsigned int)c.v[0]);
			rank_tell(r, SILENCE_AWAKE, 0, NULL, 0);
			break;
		case 0:
			break;
		default:
			rank_fail("the conductor said %u", c.type);
		}
	}
	v[0] = m.bytes >> 20;
	v[1] = r->fab.bad;
	mesh_close(&m);
	fab_close(&r->fab);
	rank_tell(r, CTL_DONE, 0, v, 2);
}

/* Packets to the silent rank between two marks, as its waiters counted them. */
struct quiet {
	uint64_t first, later; /* while the silence settles, and after */
	uint64_t first_bytes, later_bytes, others;
};

static void marks(struct world *w, struct ctl *c)
{
	for (int i = 0; i < SILENT; i++)
		world_tell(w, i, SILENCE_MARK, 0, NULL, 0);
	for (int i = 0; i < SILENT; i++)
		world_expect(w, i, SILENCE_COUNT, 10000, &c[i]);
}

static uint64_t worst_of(const struct ctl *from, const struct ctl *to)
{
	uint64_t worst = 0;

	for (int i = 0; i < SILENT; i++)
		if (to[i].v[0] - from[i].v[0] > worst)
			worst = to[i].v[0] - from[i].v[0];
	return worst;
}

/* Settling ends with the first quiet step after SETTLE_STEPS, or after `settle_max` steps. */
static void quiet_judge(struct world *w, const char *what, unsigned int ms, unsigned int settle_max, struct quiet *q)
{
	struct ctl begin[SILENT] = {0}, mid[SILENT] = {0}, end[SILENT] = {0};
	uint64_t worst, most;
	unsigned int steps = 0;

	marks(w, begin);
	memcpy(end, begin, sizeof(end));
	do {
		memcpy(mid, end, sizeof(mid));
		sleep_ms(STEP_MS);
		marks(w, end);
		steps++;
	} while (steps < SETTLE_STEPS || (steps < settle_max && worst_of(mid, end) > RATE_MAX && !w->failed));
	memcpy(mid, end, sizeof(mid));
	ms -= steps * STEP_MS;
	sleep_ms(ms);
	marks(w, end);
	memset(q, 0, sizeof(*q));
	for (int i = 0; i < SILENT && !w->failed; i++) {
		q->first += mid[i].v[0] - begin[i].v[0];
		q->first_bytes += mid[i].v[1] - begin[i].v[1];
		q->later += end[i].v[0] - mid[i].v[0];
		q->later_bytes += end[i].v[1] - mid[i].v[1];
		q->others += end[i].v[3] - mid[i].v[3];
		world_check(w, end[i].v[2] == mid[i].v[2], "the silent rank was heard: it was not silent");
	}
	worst = worst_of(mid, end);
	most = (uint64_t)ms * RATE_MAX / 1000 + SLOT_ASKS;
	world_check(w, worst <= most, "%s: %llu packets to the silent rank, at most %llu are in order", what,
		    (unsigned long long)worst, (unsigned long long)most);
	/* One probe in each interval, or nobody would find out that it is back. */
	world_check(w, worst >= ms / 2000, "%s: %llu packets: the silent rank is not asked any more", what,
		    (unsigned long long)worst);
	world_check(w, q->others > 0, "%s: traffic among the others stopped", what);
	world_figure(w, "%s_settled_s=%u %s_packets_settling=%llu", what, steps, what, (unsigned long long)q->first);
	world_figure(w, "%s_packets_later=%llu %s_bytes_later=%llu", what, (unsigned long long)q->later, what,
		     (unsigned long long)q->later_bytes);
}

int chaos_silence(void)
{
	unsigned int ms = options.hours ? 120000 : 15000;
	uint64_t limit = 0, v[1] = {ms + 2000}, mib = 0, bad = 0;
	struct ctl c[RANKS_MAX];
	struct quiet q;
	struct world w;

	world_begin(&w, "silence");
	for (int i = 0; i < RANKS; i++)
		world_spawn(&w, "silence", NULL, 2 * ms / 1000 + 120);
	world_join(&w, 0);
	world_expect_all(&w, CTL_READY, 20000, NULL);
	sleep_ms(700);

	world_signal(&w, SILENT, SIGSTOP);
	quiet_judge(&w, "stopped", ms, SETTLE_STEPS, &q);
	world_signal(&w, SILENT, SIGCONT);
	sleep_ms(1500);

	world_tell(&w, SILENT, SILENCE_COMPUTE, 0, v, 1);
	sleep_ms(50);
	quiet_judge(&w, "computing", ms, 2 * ms / 3000, &q);
	world_expect(&w, SILENT, SILENCE_AWAKE, 20000, NULL);
	sleep_ms(700);

	limit = world_agree(&w, RANKS, 50);
	world_expect_all(&w, CTL_DONE, 60000, c);
	for (int i = 0; i < RANKS && !w.failed; i++) {
		mib += c[i].v[0];
		bad += c[i].v[1];
	}
	world_check(&w, !bad, "%llu operations failed", (unsigned long long)bad);
	world_wait(&w, 10000);
	for (int i = 0; i < RANKS && !w.failed; i++)
		world_check(&w, !world_stat(&w, i, "peers_dead"), "rank %d took a silent peer for a dead one", i);
	world_figure(&w, "silent_ms=%u messages=%llu checked_mib=%llu", ms, (unsigned long long)limit,
		     (unsigned long long)mib);
	return world_end(&w);
}

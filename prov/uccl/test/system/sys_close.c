/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many lives of endpoints on a network that loses one packet in twenty. Each ends as MPI_Finalize does: a barrier made
 * of messages, and then everybody closes at once, some with their last acknowledgement lost. Nobody may hang or fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "mesh.h"

#define RANKS 3
#define CLOSE_MS 1000

/* A barrier of messages: everybody to everybody. */
static void barrier(struct rank *r, uint64_t tag)
{
	static struct op in[RANKS], out[RANKS];
	static uint8_t byte[2 * RANKS];
	ssize_t rc;

	for (int p = 0; p < RANKS; p++) {
		if (p == r->index)
			continue;
		op_begin(&in[p]);
		rc = fi_trecv(r->fab.ep, &byte[p], 1, NULL, r->addr[p], tag, 0, &in[p]);
		rank_check(!rc, "fi_trecv: %zd", rc);
		op_begin(&out[p]);
		while ((rc = fi_tsend(r->fab.ep, &byte[RANKS + p], 1, NULL, r->addr[p], tag, &out[p])) == -FI_EAGAIN)
			fab_progress(&r->fab);
		rank_check(!rc, "fi_tsend: %zd", rc);
	}
	for (int p = 0; p < RANKS; p++) {
		if (p == r->index)
			continue;
		rank_check(fab_finish(&r->fab, &in[p], 30000) && !in[p].err, "barrier: from rank %d: %s", p,
			   in[p].open ? "waits" : in[p].text);
		rank_check(fab_finish(&r->fab, &out[p], 30000) && !out[p].err, "barrier: to rank %d: %s", p,
			   out[p].open ? "waits" : out[p].text);
	}
}

void role_close(struct rank *r)
{
	static struct mesh m;
	struct mesh_cfg cfg = {.window = 4, .size_max = 20000, .limit = 12};
	const char *count = getenv("CHAOS_CYCLES");
	uint64_t cycles = count ? strtoull(count, NULL, 10) : 10, sum = 0, longest = 0, took, v[3];

	for (uint64_t i = 0; i < cycles; i++) {
		rank_join(r, NULL, RANKS);
		/* Some lives are short, and close what never was connected. */
		if (i % 4 != 3) {
			mesh_open(&m, r, &cfg);
			while (!mesh_finished(&m))
				mesh_step(&m);
			mesh_close(&m);
			barrier(r, 1ull << 60);
		}
		took = fab_close(&r->fab);
		r->has_fab = false;
		sum += took;
		longest = took > longest ? took : longest;
		v[0] = took / 1000;
		rank_tell(r, CTL_READY, 0, v, 1);
	}
	v[0] = sum / cycles / 1000;
	v[1] = longest / 1000;
	rank_tell(r, CTL_DONE, 0, v, 2);
}

int chaos_close(void)
{
	unsigned int cycles = options.hours ? 500 : 60;
	uint64_t mean = 0, longest = 0;
	struct ctl c[RANKS_MAX];
	char text[64];
	const char *env[] = {"FI_UCCL_FAULT=drop=0.05", text, NULL};
	struct world w;

	snprintf(text, sizeof(text), "CHAOS_CYCLES=%u", cycles);
	world_begin(&w, "close");
	for (int i = 0; i < RANKS; i++)
		world_spawn(&w, "close", env, cycles * 3 + 60);
	for (unsigned int i = 0; i < cycles && !w.failed; i++) {
		world_join(&w, 0);
		world_expect_all(&w, CTL_READY, 60000, NULL);
	}
	world_expect_all(&w, CTL_DONE, 20000, c);
	for (int i = 0; i < RANKS && !w.failed; i++) {
		mean += c[i].v[0] / RANKS;
		longest = c[i].v[1] > longest ? c[i].v[1] : longest;
	}
	world_check(&w, longest <= CLOSE_MS * 1000 * options.slack, "a close took %llu ms",
		    (unsigned long long)longest / 1000);
	world_wait(&w, 10000);
	world_figure(&w, "cycles=%u closes=%u mean_us=%llu longest_us=%llu", cycles, cycles * RANKS,
		     (unsigned long long)mean, (unsigned long long)longest);
	return world_end(&w);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A bad network, made by FI_UCCL_FAULT: losses and disorder, changed bytes, paths that swallow everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "mesh.h"

#define RANKS 3

/* ---- loss: all to all, every kind of message, every byte checked */

static void done_figures(struct rank *r, struct mesh *m, uint64_t ms)
{
	uint64_t v[5] = {m->bytes >> 10, 0, ms, m->wrong, r->fab.bad};

	for (int p = 0; p < r->n; p++)
		v[1] += m->s[p].received;
	mesh_close(m);
	fab_close(&r->fab);
	rank_tell(r, CTL_DONE, 0, v, 5);
}

void role_loss(struct rank *r)
{
	const char *count = getenv("CHAOS_MESSAGES");
	static struct mesh m;
	struct mesh_cfg cfg = {.window = 16, .size_max = 1 << 20, .multi = true};
	uint64_t began;

	cfg.limit = count ? strtoull(count, NULL, 10) : 300;
	rank_join(r, NULL, RANKS);
	mesh_open(&m, r, &cfg);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	rank_wait(r, CTL_GO, NULL);
	began = clock_ns();
	while (!mesh_finished(&m))
		mesh_step(&m);
	done_figures(r, &m, (clock_ns() - began) / 1000000);
}

static int loss_once(const char *name, const char *fault, unsigned int messages, const char *must_count)
{
	char text[2][128];
	const char *env[] = {text[0], text[1], NULL};
	uint64_t kib = 0, n = 0, rtx = 0, spurious = 0, seen = 0;
	struct ctl c[RANKS_MAX];
	struct world w;

	snprintf(text[0], sizeof(text[0]), "FI_UCCL_FAULT=%s", fault);
	snprintf(text[1], sizeof(text[1]), "CHAOS_MESSAGES=%u", messages);
	world_begin(&w, name);
	for (int i = 0; i < RANKS; i++)
		world_spawn(&w, "loss", env, 240);
	world_join(&w, 0);
	world_expect_all(&w, CTL_READY, 20000, NULL);
	world_tell_all(&w, CTL_GO);
	world_expect_all(&w, CTL_DONE, 200000, c);
	world_wait(&w, 10000);
	for (int i = 0; i < RANKS && !w.failed; i++) {
		kib += c[i].v[0];
		n += c[i].v[1];
		world_check(&w, !c[i].v[3] && !c[i].v[4], "rank %d: %llu wrong, %llu failures", i,
			    (unsigned long long)c[i].v[3], (unsigned long long)c[i].v[4]);
		rtx += world_stat(&w, i, "rtx_packets");
		spurious += world_stat(&w, i, "spurious");
		seen += !strcmp(must_count, "dup") ? world_dropped(&w, i, "already received")
						   : world_stat(&w, i, "rtx_packets");
	}
	world_check(&w, n == (uint64_t)messages * RANKS * (RANKS - 1), "%llu messages", (unsigned long long)n);
	/* A fault that nobody noticed was not made. */
	world_check(&w, seen > 0, "no trace of %s in the statistics", must_count);
	world_figure(&w, "fault=%s messages=%llu checked_kib=%llu rtx_packets=%llu spurious=%llu", fault,
		     (unsigned long long)n, (unsigned long long)kib, (unsigned long long)rtx,
		     (unsigned long long)spurious);
	return world_end(&w);
}

int chaos_loss(void)
{
	static const char *const rates[] = {"0.001", "0.01", "0.05"};
	static const struct {
		const char *name, *fault, *count;
		bool ci;
	} kinds[] = {
		{"mixed", "drop=%s,reorder=%s,dup=%s", "drop", true},
		{"drop", "drop=%s", "drop", false},
		{"reorder-dup", "reorder=%s,dup=%s,jitter_us=300", "dup", false},
		{"bursts", "drop=%s,burst=8,drop_control=%s", "drop", false},
	};
	unsigned int messages = options.hours ? 5000 : 1500;
	int failed = 0;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
			char name[64], fault[128];
			const char *p = rates[i];

			if (!options.hours && !kinds[k].ci && i != 2)
				continue;
			snprintf(name, sizeof(name), "loss-%s-%s", kinds[k].name, p);
			snprintf(fault, sizeof(fault), kinds[k].fault, p, p, p);
			failed += loss_once(name, fault, messages, kinds[k].count);
		}
	}
	return failed;
}

/*
 * ---- corrupt: the wrapper changes bits that no checksum sees. UDP's checksum finds most of such damage on a real
 * network; here it is past. What is promised then is safety: no crash, nothing written beside a buffer, an end.
 */

#define CORRUPT_MS 3000

void role_corrupt(struct rank *r)
{
	static struct mesh m;
	struct mesh_cfg cfg = {.window = 16, .size_max = 1 << 18, .multi = true, .hostile = true, .limit = UINT64_MAX};
	uint64_t end;

	rank_join(r, NULL, RANKS);
	mesh_open(&m, r, &cfg);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	rank_wait(r, CTL_GO, NULL);
	end = clock_ns() + CORRUPT_MS * 1000000ull;
	while (clock_ns() < end)
		mesh_step(&m);
	done_figures(r, &m, CORRUPT_MS);
}

int chaos_corrupt(void)
{
	static const char *const rates[] = {"0.001", "0.01", "0.05"};
	int failed = 0;

	for (size_t k = options.hours ? 0 : 1; k < sizeof(rates) / sizeof(rates[0]); k++) {
		char text[64], name[64];
		const char *env[] = {text, NULL};
		uint64_t n = 0, wrong = 0, refused = 0;
		struct ctl c[RANKS_MAX];
		struct world w;

		snprintf(name, sizeof(name), "corrupt-%s", rates[k]);
		snprintf(text, sizeof(text), "FI_UCCL_FAULT=corrupt=%s", rates[k]);
		world_begin(&w, name);
		for (int i = 0; i < RANKS; i++)
			world_spawn(&w, "corrupt", env, 60);
		world_join(&w, 0);
		world_expect_all(&w, CTL_READY, 20000, NULL);
		world_tell_all(&w, CTL_GO);
		world_expect_all(&w, CTL_DONE, CORRUPT_MS + 30000, c);
		world_wait(&w, 10000);
		for (int i = 0; i < RANKS && !w.failed; i++) {
			n += c[i].v[1];
			wrong += c[i].v[3];
			refused += world_dropped(&w, i, NULL);
		}
		world_check(&w, n > 0, "nothing arrived");
		world_check(&w, refused > 0, "nothing was refused: was anything changed?");
		world_figure(&w, "messages=%llu wrong=%llu packets_refused=%llu", (unsigned long long)n,
			     (unsigned long long)wrong, (unsigned long long)refused);
		failed += world_end(&w);
	}
	return failed;
}

/* ---- blackhole: goodput of long messages before, during and after */

#define BIN_MS 100
#define BINS 120
#define HOLE_FROM_MS 2500
#define HOLE_TO_MS 5500
#define END_MS 8000
#define BULK (1u << 20)
#define BULK_OPS 8

static uint64_t hole_bytes[BINS], hole_began;

static void bulk_ended(struct op *op)
{
	uint64_t bin = (op->ended_ns - hole_began) / 1000000 / BIN_MS;

	rank_check(!op->err, "%s", op->text);
	rank_check(op->flags & FI_SEND || op->len == BULK, "%llu bytes", (unsigned long long)op->len);
	if (bin < BINS)
		hole_bytes[bin] += BULK;
}

static uint64_t mean_mbs(unsigned int from_ms, unsigned int to_ms)
{
	uint64_t sum = 0;

	for (unsigned int b = from_ms / BIN_MS; b < to_ms / BIN_MS && b < BINS; b++)
		sum += hole_bytes[b];
	return sum / (to_ms - from_ms) / 1000;
}

/* Rank 0 sends for END_MS, then one message with another tag that ends it; rank 1 receives and compares. */
void role_blackhole(struct rank *r)
{
	static struct op op[BULK_OPS], last;
	static uint8_t mem[BULK_OPS][BULK], end_byte;
	bool sender = r->index == 0;
	uint64_t v[6], checked = 0, longest = 0, gap = 0;
	ssize_t rc;

	/* The wrapper's clock starts when the endpoint opens: so does ours. */
	hole_began = clock_ns();
	rank_join(r, NULL, 2);
	if (!sender) {
		op_begin(&last);
		rank_check(!fi_trecv(r->fab.ep, &end_byte, 1, NULL, r->addr[0], 2, 0, &last), "fi_trecv");
	}
	while (sender ? clock_ns() - hole_began < END_MS * 1000000ull : last.open) {
		for (int i = 0; i < BULK_OPS; i++) {
			if (op[i].open)
				continue;
			if (!sender && op[i].end && checked++ < 1u << 30)
				rank_check(pattern_wrong(mem[i], BULK, 5) == BULK, "wrong bytes");
			if (sender && !op[i].end)
				pattern_fill(mem[i], BULK, 5);
			if (!sender)
				memset(mem[i], 0, BULK);
			op[i].end = bulk_ended;
			op_begin(&op[i]);
			rc = sender ? fi_tsend(r->fab.ep, mem[i], BULK, NULL, r->addr[1], 1, &op[i])
				    : fi_trecv(r->fab.ep, mem[i], BULK, NULL, r->addr[0], 1, 0, &op[i]);
			rank_check(!rc || rc == -FI_EAGAIN, "posting: %s", fi_strerror((int)-rc));
			if (rc) {
				op[i].open = false;
				op[i].end = NULL;
			}
		}
		fab_progress(&r->fab);
	}
	for (int i = 0; sender && i < BULK_OPS; i++)
		rank_check(fab_finish(&r->fab, &op[i], 20000), "a send has not ended");
	if (sender) {
		op_begin(&last);
		rank_check(!fi_tsend(r->fab.ep, &end_byte, 1, NULL, r->addr[1], 2, &last), "fi_tsend");
		rank_check(fab_finish(&r->fab, &last, 20000) && !last.err, "the last message");
	}
	for (unsigned int b = HOLE_FROM_MS / BIN_MS; b < END_MS / BIN_MS; b++) {
		gap = hole_bytes[b] ? 0 : gap + BIN_MS;
		longest = gap > longest ? gap : longest;
	}
	v[0] = mean_mbs(1000, HOLE_FROM_MS);
	v[1] = mean_mbs(HOLE_FROM_MS, HOLE_TO_MS);
	v[2] = mean_mbs(HOLE_TO_MS + 500, END_MS);
	v[3] = longest;
	v[4] = checked;
	for (int i = 0; i < BULK_OPS; i++) {
		if (op[i].open && !sender)
			fi_cancel(&r->fab.ep->fid, &op[i]);
		op[i].end = NULL;
	}
	fab_close(&r->fab);
	rank_tell(r, CTL_DONE, 0, v, 5);
}

static int hole_once(const char *name, const char *fault, bool paths_left)
{
	char text[160];
	const char *env[] = {text, NULL};
	struct ctl c[RANKS_MAX] = {0};
	uint64_t quarantined, rerolled, least;
	struct world w;

	snprintf(text, sizeof(text), "FI_UCCL_FAULT=%s", fault);
	world_begin(&w, name);
	world_spawn(&w, "blackhole", env, 90);
	world_spawn(&w, "blackhole", NULL, 90);
	world_join(&w, 0);
	world_expect_all(&w, CTL_DONE, END_MS + 40000, c);
	world_wait(&w, 10000);
	quarantined = world_stat(&w, 0, "quarantined");
	rerolled = world_stat(&w, 0, "rerolled");
	world_check(&w, w.failed || rerolled > 0, "no path was made anew");
	world_check(&w, w.failed || quarantined > 0 || !paths_left, "no path was put out of service");
	world_check(&w, w.failed || !(world_stat(&w, 0, "peers_dead") + world_stat(&w, 1, "peers_dead")),
		    "a dead path was taken for a dead peer");
	/*
	 * Traffic must have gone on, and come back. One chunk per time-out would be a hundredth of what it was. Where
	 * others want the cores, too, two ranks that take turns on one of them reach a tenth of what two on two do,
	 * for seconds: with four busy loops beside them, 36 to 90 MB/s and 380 to 600, by turns.
	 */
	least = (uint64_t)((double)c[1].v[0] / (10 * options.slack));
	world_check(&w, w.failed || !paths_left || c[1].v[1] > least, "%llu MB/s before, %llu during",
		    (unsigned long long)c[1].v[0], (unsigned long long)c[1].v[1]);
	world_check(&w, w.failed || c[1].v[2] > least, "%llu MB/s before, %llu after",
		    (unsigned long long)c[1].v[0], (unsigned long long)c[1].v[2]);
	world_figure(
		&w, "mbs_before=%llu mbs_during=%llu mbs_after=%llu longest_gap_ms=%llu quarantined=%llu rerolled=%llu",
		(unsigned long long)c[1].v[0], (unsigned long long)c[1].v[1], (unsigned long long)c[1].v[2],
		(unsigned long long)c[1].v[3], (unsigned long long)quarantined, (unsigned long long)rerolled);
	return world_end(&w);
}

int chaos_blackhole(void)
{
	char spec[160];
	int failed = 0;

	/* A quarter of the paths; the new source port of a path does not help while it lasts. */
	snprintf(spec, sizeof(spec),
		 "blackhole_path=0@%d-%d,blackhole_path=5@%d-%d,blackhole_path=9@%d-%d,"
		 "blackhole_path=13@%d-%d",
		 HOLE_FROM_MS, HOLE_TO_MS, HOLE_FROM_MS, HOLE_TO_MS, HOLE_FROM_MS, HOLE_TO_MS, HOLE_FROM_MS,
		 HOLE_TO_MS);
	failed += hole_once("blackhole-4-paths", spec, true);
	/* All of them. */
	snprintf(spec, sizeof(spec), "blackhole=*@%d-%d", HOLE_FROM_MS, HOLE_TO_MS);
	failed += hole_once("blackhole-all", spec, false);
	/* For good. */
	snprintf(spec, sizeof(spec), "blackhole_path=2@%d-,blackhole_path=3@%d-,blackhole_path=7@%d-", HOLE_FROM_MS,
		 HOLE_FROM_MS, HOLE_FROM_MS);
	failed += hole_once("blackhole-3-paths-for-good", spec, true);
	return failed;
}

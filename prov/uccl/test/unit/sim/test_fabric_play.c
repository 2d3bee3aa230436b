/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sim/fabric_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <string.h>
#include <cmocka.h>

#include "base/units.h"

static struct uccl_fab_play p;

static void set__values(void **state)
{
	char text[sizeof(p.names[0]) + 4];

	(void)state;
	assert_int_not_equal(uccl_fab_play_init(&p, "nothing"), 0);
	assert_int_equal(uccl_fab_play_init(&p, "loss"), 0);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=16,bytes=2m,chunk=16k,cc=cubic,loss=1/64,up_gbps=100,paths=8"),
			 0);
	assert_int_equal(p.cfg.topo.hosts, 16);
	assert_int_equal(p.bytes, 2u << 20);
	assert_int_equal(p.cfg.chunk, 16384);
	assert_string_equal(p.names[1], "cubic");
	assert_true(p.loss == 1.0 / 64);
	assert_int_equal(p.cfg.topo.up_bps, 100000000000ull);
	assert_int_equal(p.cfg.paths, 8);
	assert_int_equal(uccl_fab_play_set(&p, "hosts"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "nothing=1"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts="), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=8x"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=-1"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "paths=65536"), -22);
	memset(text, 'x', sizeof(text));
	memcpy(text, "cc=", 3);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(uccl_fab_play_set(&p, text), -22);
	assert_int_equal(uccl_fab_play_set(&p, "cc=swift:beta=0.7:ai=2,path=reps"), 0);
	assert_string_equal(p.names[1], "swift:beta=0.7:ai=2");
	assert_int_equal(uccl_fab_play_set(&p, "stack=nothing"), 0);
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
}

static void play(const char *name, const char *set)
{
	assert_int_equal(uccl_fab_play_init(&p, name), 0);
	assert_int_equal(uccl_fab_play_set(&p, set), 0);
	assert_int_equal(uccl_fab_play_run(&p, NULL), 0);
	assert_int_equal(p.scene.done, p.scene.nops);
	assert_string_equal(p.scene.broken, "");
	/* Nothing is faster than light. */
	assert_true(p.scene.last_ns - p.scene.first_ns >= p.ideal_ns);
}

/* All scenes, small, with writes and with packets, end, with every byte in its place once. */
static void run__all(void **state)
{
	(void)state;
	for (int i = 0; uccl_fab_plays[i][0]; i++) {
		play(uccl_fab_plays[i][0], "hosts=16,bytes=256k,senders=7");
		uccl_fab_play_close(&p);
		play(uccl_fab_plays[i][0], "hosts=16,bytes=256k,senders=7,chunk=0,tiers=2,per_tor=4,spines=3,paths=32");
		uccl_fab_play_close(&p);
		play(uccl_fab_plays[i][0],
		     "hosts=16,bytes=256k,senders=7,tiers=2,per_tor=4,spines=2,rails=4,path=hash");
		uccl_fab_play_close(&p);
		play(uccl_fab_plays[i][0], "hosts=16,bytes=300000,senders=7,engines=3,ranks=2,credit=auto");
		uccl_fab_play_close(&p);
	}
}

static void run__counts(void **state)
{
	(void)state;
	play("incast", "hosts=16,bytes=64k,senders=5");
	assert_int_equal(p.scene.nops, 5 + 6);
	uccl_fab_play_close(&p);
	play("alltoall", "hosts=16,bytes=60k");
	assert_int_equal(p.scene.nops, 16 * 15);
	uccl_fab_play_close(&p);
	play("ring", "hosts=16,bytes=64k");
	assert_int_equal(p.scene.nops, 16 * 30);
	for (uint32_t i = 16; i < p.scene.nops; i++)
		assert_true(p.scene.ops[i].start_ns > 0);
	uccl_fab_play_close(&p);
}

/* Text of a run; the caller frees it. */
static char *text(const char *name, const char *set, void (*print)(const struct uccl_fab_play *, FILE *))
{
	char *buf = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&buf, &len);

	assert_non_null(f);
	play(name, set);
	print(&p, f);
	fclose(f);
	uccl_fab_play_close(&p);
	return buf;
}

static void run__same_seed_same_run(void **state)
{
	char *a = text("loss", "hosts=16,bytes=1m,loss=1/64,burst=0.001,ecn_lo=100k,ecn_hi=300k", uccl_fab_play_json);
	char *b = text("loss", "hosts=16,bytes=1m,loss=1/64,burst=0.001,ecn_lo=100k,ecn_hi=300k", uccl_fab_play_json);
	char *c = text("loss", "hosts=16,bytes=1m,loss=1/64,burst=0.001,ecn_lo=100k,ecn_hi=300k,seed=2",
		       uccl_fab_play_json);

	(void)state;
	assert_string_equal(a, b);
	assert_string_not_equal(a, c);
	free(a);
	free(b);
	free(c);
}

static void csv_with_heads(const struct uccl_fab_play *play, FILE *f)
{
	uccl_fab_play_csv(play, f, true);
}

static void csv__columns(void **state)
{
	char *csv = text("incast", "hosts=16,bytes=64k,senders=5", csv_with_heads), *save, *line;
	uint32_t lines = 0, commas[4] = {0};

	(void)state;
	for (line = strtok_r(csv, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++)
		for (const char *c = line; *c; c++)
			commas[lines] += *c == ',';
	assert_int_equal(lines, 3);
	assert_int_equal(commas[0], commas[1]);
	assert_int_equal(commas[0], commas[2]);
	free(csv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set__values),	cmocka_unit_test(run__all),
		cmocka_unit_test(run__counts),	cmocka_unit_test(run__same_seed_same_run),
		cmocka_unit_test(csv__columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

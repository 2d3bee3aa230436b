/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"

#include <stdio.h>
#include <string.h>

#include "engine/observe/snapshot.h"
#include "../../tests.h"

static uint8_t src[100000], dst[100000];
static char text[8192];

static void report(struct lan *l, uint64_t now)
{
	FILE *f = fmemopen(text, sizeof(text), "w");

	assert_non_null(f);
	uccl_engine_report(l->node[0].e, f, true, now);
	fclose(f);
}

LAN_TEST(report__nobody, lan_new_open(1))
{
	report(l, l->now);
	assert_non_null(strstr(text, "peers 0 open 0; in all: sent 0.0 MB, "));
	assert_null(strstr(text, "srtt"));
	assert_null(strstr(text, "dropped"));
}

static void talk(struct lan *l)
{
	lan_recv(l, 1, dst, sizeof(dst), NULL);
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), NULL), 0);
	lan_run(l, UCCL_NS_PER_S);
	assert_int_equal(lan_waiting(l, 1), 1);
}

LAN_TEST(report__peers_and_paths, lan_new_open(2))
{
	double srtt, heard;
	unsigned int flight;
	char *row;

	talk(l);
	lan_inject(l, 0, 1, "garbage", 7);
	lan_round(l);
	report(l, lan_conn(l, 0, 1)->peer.flow.rx.heard_ns + 5 * UCCL_NS_PER_S);
	assert_non_null(strstr(text, "peers 1 open 1"));
	assert_non_null(strstr(text, "dropped, shorter than the header: 1\n"));
	row = strstr(text, ":4001 ");
	assert_non_null(row);
	assert_int_equal(sscanf(row, ":4001 open %lf %u %*u %*u %*s %*u %*u %*u %*u %lf", &srtt, &flight, &heard), 3);
	assert_true(srtt > 0);
	assert_int_equal(flight, 0);
	assert_true(heard == 5000);
	assert_non_null(strstr(text, "  path 0 label "));
	assert_non_null(strstr(text, "  path 3 label "));
	assert_non_null(strstr(text, " active: packets "));
	assert_int_equal(text[strlen(text) - 1], '\n');
}

/* What the paths of a peer had carried is told after its end. */
LAN_TEST(report__ended, lan_new_open(2))
{
	talk(l);
	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	report(l, l->now);
	assert_non_null(strstr(text, "peers 1 open 0"));
	assert_non_null(strstr(text, ":4001 "));
	assert_non_null(strstr(strstr(text, ":4001 "), " ended "));
	assert_non_null(strstr(strstr(text, ":4001 "), "\n  path "));
}

TEST(report__path_states)
{
	static const char *const word[] = {"active", "suspect", "quarantine", "probation", "?"};
	struct lan *l = lan_new_open(2);

	talk(l);
	for (uint8_t i = 0; i < uccl_array_len(word); i++) {
		char line[64];

		lan_conn(l, 0, 1)->peer.flow.paths.list[1].state = i;
		report(l, l->now);
		assert_true(snprintf(line, sizeof(line), "label %u %s: packets",
				     lan_conn(l, 0, 1)->peer.flow.paths.list[1].label, word[i]) < (int)sizeof(line));
		assert_non_null(strstr(text, line));
	}
	lan_free(l);
}

/* As many peers as are wanted, with paths or without. */
LAN_TEST(print__limits, lan_new_open(3))
{
	static union {
		struct uccl_snapshot v;
		uint64_t words[1024];
	} block;
	FILE *f;

	talk(l);
	lan_recv(l, 2, dst, sizeof(dst), NULL);
	assert_int_equal(lan_send(l, 0, 2, src, sizeof(src), NULL), 0);
	lan_run(l, UCCL_NS_PER_S);
	assert_true(uccl_engine_snapshot(l->node[0].e, &block.v, sizeof(block), l->now) > 0);
	block.v.left_out = 5;
	for (int n = 0; n <= 3; n++) {
		char rest[64];
		int rows = 0;

		memset(text, 0, sizeof(text));
		f = fmemopen(text, sizeof(text), "w");
		uccl_snapshot_print(&block.v, n, n == 3, f);
		fclose(f);
		for (const char *p = text; (p = strstr(p, ":400")); p++)
			rows++;
		assert_int_equal(rows, uccl_min(n, 2));
		assert_int_equal(strstr(text, "  path ") != NULL, n == 3);
		snprintf(rest, sizeof(rest), "\nand %d peers more\n", 7 - rows);
		assert_non_null(strstr(text, rest));
	}
}

TESTS_MAIN

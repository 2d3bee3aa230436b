/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"

#include <stdio.h>
#include <string.h>

static uint8_t src[100000], dst[100000];
static char text[8192];

static void report__nobody(void **state)
{
	struct lan *l = lan_new_open(1);
	size_t n;

	(void)state;
	n = uccl_engine_report(l->node[0].e, text, sizeof(text), l->now);
	assert_int_equal(n, strlen(text));
	assert_non_null(strstr(text, "peers 0 open 0"));
	assert_null(strstr(text, " port "));
	assert_null(strstr(text, "dropped"));
	lan_free(l);
}

static void talk(struct lan *l)
{
	lan_recv(l, 1, dst, sizeof(dst), NULL);
	assert_int_equal(lan_send(l, 0, 1, src, sizeof(src), NULL), 0);
	lan_run(l, UCCL_NS_PER_S);
	assert_int_equal(lan_waiting(l, 1), 1);
}

static void report__peers_and_paths(void **state)
{
	struct lan *l = lan_new_open(2);
	size_t n;

	(void)state;
	talk(l);
	lan_inject(l, 0, 1, "garbage", 7);
	lan_round(l);
	n = uccl_engine_report(l->node[0].e, text, sizeof(text),
			       lan_conn(l, 0, 1)->peer.flow.heard_ns + 5 * UCCL_NS_PER_S);
	assert_int_equal(n, strlen(text));
	assert_non_null(strstr(text, "peers 1 open 1"));
	assert_non_null(strstr(text, "dropped, shorter than the header: 1\n"));
	assert_non_null(strstr(text, " port 4001: srtt "));
	assert_non_null(strstr(text, "in flight 0 B"));
	assert_non_null(strstr(text, "heard 5000 ms ago"));
	assert_non_null(strstr(text, "  path 0 label "));
	assert_non_null(strstr(text, "  path 3 label "));
	assert_non_null(strstr(text, " active: packets "));
	assert_int_equal(text[n - 1], '\n');
	lan_free(l);
}

/* What the paths of a peer had carried is told after its end. */
static void report__ended(void **state)
{
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	conn_fail(lan_conn(l, 0, 1), FI_ECONNABORTED, l->now);
	uccl_engine_report(l->node[0].e, text, sizeof(text), l->now);
	assert_non_null(strstr(text, "peers 1 open 0"));
	assert_non_null(strstr(text, " port 4001: ended\n  path "));
	lan_free(l);
}

static void report__path_states(void **state)
{
	static const char *const word[] = {"active", "suspect", "quarantine", "probation", "?"};
	struct lan *l = lan_new_open(2);

	(void)state;
	talk(l);
	for (uint8_t i = 0; i < uccl_array_len(word); i++) {
		char line[64];

		lan_conn(l, 0, 1)->peer.flow.paths.list[1].state = i;
		uccl_engine_report(l->node[0].e, text, sizeof(text), l->now);
		assert_true(snprintf(line, sizeof(line), "label %u %s: packets",
				     lan_conn(l, 0, 1)->peer.flow.paths.list[1].label, word[i]) < (int)sizeof(line));
		assert_non_null(strstr(text, line));
	}
	lan_free(l);
}

/* Any size: never beyond it, always terminated. */
static void report__short_buffers(void **state)
{
	struct lan *l = lan_new_open(2);
	char all[8192];
	size_t n;

	(void)state;
	talk(l);
	n = uccl_engine_report(l->node[0].e, all, sizeof(all), l->now);
	assert_int_equal(uccl_engine_report(l->node[0].e, NULL, 0, l->now), 0);
	for (size_t size = 1; size <= n + 2; size++) {
		size_t len;

		memset(text, 0x7f, sizeof(text));
		len = uccl_engine_report(l->node[0].e, text, size, l->now);
		assert_int_equal(len, uccl_min(size - 1, n));
		assert_int_equal(text[len], '\0');
		assert_memory_equal(text, all, len);
		assert_int_equal(text[size], 0x7f);
	}
	lan_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(report__nobody),	 cmocka_unit_test(report__peers_and_paths),
		cmocka_unit_test(report__ended),	 cmocka_unit_test(report__path_states),
		cmocka_unit_test(report__short_buffers),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}

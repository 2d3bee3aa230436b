/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../tests.h"

#include "base/units.h"
#include "play.h"

/* The lines of a trace, without that of heads; their number. */
static uint32_t trace(const char *name, const char *set, char **lines)
{
	char file[] = "trace.XXXXXX", option[64];
	int fd = mkstemp(file);
	uint32_t n = 0;
	size_t room = 0, len;
	FILE *f;

	assert_true(fd >= 0);
	close(fd);
	snprintf(option, sizeof(option), "trace=%s", file);
	play_init(name, set);
	assert_int_equal(uccl_fab_play_set(&p, option), 0);
	assert_int_equal(uccl_fab_play_run(&p, NULL), 0);
	play_close(NULL);
	f = fopen(file, "r");
	assert_non_null(f);
	*lines = NULL;
	len = (size_t)getdelim(lines, &room, 0, f);
	assert_true(len > 0 && len < room);
	fclose(f);
	unlink(file);
	assert_int_equal(strncmp(*lines, "time_us,src,dst,engine,window,", 30), 0);
	memmove(*lines, strchr(*lines, '\n') + 1, strlen(strchr(*lines, '\n')));
	for (const char *c = *lines; *c; c++)
		n += *c == '\n';
	return n;
}

/* Each flow at each time, with a window, a round trip that can be, and shares that are the whole together. */
TEST(trace__lines)
{
	double time, window, inflight, srtt, rtt, share, sum, last = 0;
	uint32_t src, dst, engine, paths, path, n, used, lines, seen = 0;
	char *text_, *at;

	lines = trace("permutation", "hosts=16,bytes=1m,profile=verbs,engines=2,trace_every=2000", &text_);
	at = text_;
	assert_true(lines > 200);
	while (*at) {
		int took = 0;

		assert_int_equal(sscanf(at, "%lf,%u,%u,%u,%lf,%lf,%lf,%lf,%u,%n", &time, &src, &dst, &engine, &window,
					&inflight, &srtt, &rtt, &paths, &took),
				 9);
		assert_true(took > 0);
		at += took;
		assert_true(time >= last && window > 0 && inflight >= 0 && src < 16 && dst < 16 && engine < 2);
		assert_true(src != dst && srtt < 200 && rtt < 200);
		last = time;
		seen |= 1u << src;
		for (sum = 0, used = 0; *at != '\n'; used++) {
			assert_int_equal(sscanf(at, "%u:%lf%n", &path, &share, &took), 2);
			assert_true(path < 32 && share > 0 && share <= 100);
			sum += share;
			at += took;
			at += *at == ';';
		}
		at++;
		assert_int_equal(used, paths);
		assert_true(!used || (sum > 98 && sum < 102));
	}
	assert_int_equal(seen, 0xffff);
	free(text_);
	n = trace("permutation", "hosts=16,bytes=1m,profile=verbs,engines=2,trace_every=2000,trace_hosts=3", &text_);
	assert_in_range(n, lines / 16 * 2, lines / 16 * 4);
	for (at = text_; at && *at; at = strchr(at, '\n') + 1)
		assert_true(atoi(strchr(at, ',') + 1) < 3);
	free(text_);
}

/* Who looks changes nothing. */
TEST(trace__changes_nothing)
{
	uint64_t calm;

	play("loss", "hosts=16,bytes=1m");
	calm = p.scene.last_ns;
	play("loss", "hosts=16,bytes=1m,trace_every=777,trace=/dev/null");
	assert_int_equal(p.scene.last_ns, calm);
	play_init("loss", "hosts=16,bytes=1m,trace_every=0,trace=/dev/null");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
	assert_non_null(strstr(p.why, "trace_every=0"));
	play_init("loss", "hosts=16,bytes=1m,trace=/dev/full");
	assert_int_equal(uccl_fab_play_run(&p, NULL), -5);
	assert_non_null(strstr(p.scene.broken, "trace"));
}

TESTS_MAIN_IN(NULL, play_close)

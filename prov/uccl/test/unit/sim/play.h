/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Named scenes of the fabric, run by unit tests. */
#ifndef UCCL_TEST_SIM_PLAY_H
#define UCCL_TEST_SIM_PLAY_H

#include <string.h>

#include "sim/fabric_play.h"

static struct uccl_fab_play p;
static const char *play_file; /* of a list; NULL: none */

static inline int play_close(void **state)
{
	uccl_fab_play_close(&p);
	return 0;
}

/* What was open before is closed; at the end of all tests play_close() does that. */
static inline void play_init(const char *name, const char *set)
{
	play_close(NULL);
	assert_int_equal(uccl_fab_play_init(&p, name), 0);
	/* Unless the scene names another profile; stacks of others have no use for one. */
	if (!strstr(set, "stack="))
		assert_int_equal(uccl_fab_play_set(&p, "profile=lab"), 0);
	assert_int_equal(uccl_fab_play_set(&p, set), 0);
}

static inline void play(const char *name, const char *set)
{
	play_init(name, set);
	if (play_file)
		snprintf(p.file, sizeof(p.file), "%s", play_file);
	assert_int_equal(uccl_fab_play_run(&p, NULL), 0);
	assert_int_equal(p.scene.done, p.scene.nops);
	assert_string_equal(p.scene.broken, "");
	/* Nothing is faster than light. */
	assert_true(p.scene.last_ns - p.scene.first_ns >= p.ideal_ns);
	assert_true(p.bound_ns >= p.ideal_ns && p.scene.last_ns - p.scene.first_ns >= p.bound_ns);
}

/* Text of a run; the caller frees it. */
static inline char *text(const char *name, const char *set, void (*print)(const struct uccl_fab_play *, FILE *))
{
	char *buf = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&buf, &len);

	assert_non_null(f);
	play(name, set);
	print(&p, f);
	fclose(f);
	return buf;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_probe.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "../fake_verbs.h"

static struct fake_verbs *fake;
static struct fake_dev *dev;
static struct uccl_verbs_probe p;
static const char *what;
static uint64_t now;
static uint64_t held_ns; /* when the wire began to hold writes; 0: it holds none */

static uint64_t clock_read(void)
{
	now += UCCL_NS_PER_MS;
	if (held_ns && now >= held_ns + 10 * UCCL_NS_PER_MS)
		fake_verbs_release(fake, false);
	return now;
}

static int begin(void **state)
{
	fake = fake_verbs_new();
	dev = fake_verbs_add(fake, "rxe0", 1, NULL);
	what = NULL;
	held_ns = 0;
	return 0;
}

static int end(void **state)
{
	return fake_verbs_end(fake);
}

static int run(bool only_windows)
{
	const uint8_t any[16] = {0};
	struct uccl_verbs_port port;
	struct ibv_context *ctx;
	int rc;

	assert_int_equal(uccl_verbs_open(fake_verbs_lib(), NULL, any, false, &port, &ctx), 0);
	rc = only_windows ? uccl_verbs_probe_windows(fake_verbs_lib(), ctx, &port, clock_read, &p, &what) :
			    uccl_verbs_probe(fake_verbs_lib(), ctx, &port, false, clock_read, &p, &what);
	fake_verbs_lib()->close_device(ctx);
	return rc;
}

static int probe(void)
{
	return run(false);
}

static int probe_windows(void)
{
	return run(true);
}

/* What verbs promise, and no more. */
TEST_IN(probe__plain, begin, end)
{
	assert_int_equal(probe(), 0);
	assert_int_equal(p.uc, UCCL_PROBE_YES);
	assert_int_equal(p.mtu, 4096);
	assert_int_equal(p.rnr_told, UCCL_PROBE_NO);
	assert_int_equal(p.rnr_bytes, p.large);
	assert_int_equal(p.rnr_ends, UCCL_PROBE_NO);
	assert_int_equal(p.foreign_qp, UCCL_PROBE_YES);
	assert_int_equal(p.key_receives, UCCL_PROBE_YES);
	assert_int_equal(p.key_ends, UCCL_PROBE_NO);
	assert_int_equal(p.dereg_fences, UCCL_PROBE_YES);
	assert_int_equal(p.overrun_ends, UCCL_PROBE_UNKNOWN);
	assert_int_equal(p.qpn_step, 1);
	assert_true(p.cycle_ns > 0);
	assert_int_equal(uccl_verbs_probe_write_max(&p), p.large);
}

/* As Soft-RoCE. */
TEST_IN(probe__wedges, begin, end)
{
	dev->wedges = true;
	assert_int_equal(probe(), 0);
	assert_int_equal(p.rnr_ends, UCCL_PROBE_YES);
	assert_int_equal(p.key_ends, UCCL_PROBE_NO);
	assert_int_equal(uccl_verbs_probe_write_max(&p), 4096);
}

static enum fake_fate lose_all(void *arg, const struct fake_packet *k)
{
	return FAKE_DROP;
}

/* Nothing arrives: nothing may be concluded. */
TEST_IN(probe__deaf, begin, end)
{
	fake->hook = lose_all;
	assert_int_equal(probe(), 0);
	assert_int_equal(p.uc, UCCL_PROBE_NO);
	assert_int_equal(p.foreign_qp, UCCL_PROBE_NO);
	assert_int_equal(uccl_verbs_probe_write_max(&p), 0);
}

/* Without windows nothing is asked of them. */
TEST_IN(probe_windows__none, begin, end)
{
	assert_int_equal(probe(), 0);
	assert_int_equal(fake_verbs_calls(fake, "alloc_mw"), 0);
	assert_int_equal(p.windows, UCCL_PROBE_UNKNOWN);
	assert_int_equal(p.window_bounds, UCCL_PROBE_UNKNOWN);
	assert_int_equal(p.window_fences, UCCL_PROBE_UNKNOWN);
	assert_int_equal(p.window2, UCCL_PROBE_UNKNOWN);
	assert_false(uccl_verbs_probe_window_use(&p, true));
}

/* E13, E11: type 1 serves all queue pairs, type 2 one; what is unbound keeps out. */
TEST_IN(probe_windows__plain, begin, end)
{
	fake_verbs_windows(dev);
	assert_int_equal(probe(), 0);
	assert_int_equal(p.windows, UCCL_PROBE_YES);
	assert_int_equal(p.window_bounds, UCCL_PROBE_YES);
	assert_int_equal(p.window_fences, UCCL_PROBE_YES);
	assert_int_equal(p.window2, UCCL_PROBE_NO);
	assert_true(p.window_ns > 0 && p.registration_ns > 0);
	assert_true(uccl_verbs_probe_window_use(&p, false));
	/* What is asked when a NIC is opened: no more than is needed, in less time than a lost packet takes. */
	now = 0;
	assert_int_equal(probe_windows(), 0);
	assert_true(now < 100 * UCCL_NS_PER_MS);
	assert_int_equal(p.windows, UCCL_PROBE_YES);
	assert_int_equal(p.window_fences, UCCL_PROBE_YES);
	assert_int_equal(p.window2, UCCL_PROBE_UNKNOWN);
	assert_true(uccl_verbs_probe_window_use(&p, false));
}

TEST_IN(probe_windows__faults, begin, end)
{
	fake_verbs_windows(dev);
	dev->loose_windows = true;
	assert_int_equal(probe_windows(), 0);
	assert_int_equal(p.window_bounds, UCCL_PROBE_NO);
	assert_false(uccl_verbs_probe_window_use(&p, false));
	assert_true(uccl_verbs_probe_window_use(&p, true));
	dev->loose_windows = false;
	dev->leaky_windows = true;
	assert_int_equal(probe_windows(), 0);
	assert_int_equal(p.windows, UCCL_PROBE_YES);
	assert_int_equal(p.window_fences, UCCL_PROBE_NO);
	assert_false(uccl_verbs_probe_window_use(&p, true));
	dev->leaky_windows = false;
	fake->hook = lose_all;
	assert_int_equal(probe_windows(), 0);
	assert_int_equal(p.windows, UCCL_PROBE_NO);
	assert_false(uccl_verbs_probe_window_use(&p, true));
}

static enum fake_fate hold_third_on(void *arg, const struct fake_packet *k)
{
	uint32_t *seen = arg;

	if (++*seen <= 2)
		return FAKE_PASS;
	held_ns = held_ns ? held_ns : now;
	return FAKE_HOLD;
}

/* A write beyond a window takes a while; what the writes before it left in the queue does not stand for it. */
TEST_IN(probe_windows__late, begin, end)
{
	uint32_t seen = 0;

	fake_verbs_windows(dev);
	dev->loose_windows = true;
	fake->hook = hold_third_on;
	fake->hook_arg = &seen;
	assert_int_equal(probe_windows(), 0);
	assert_int_equal(p.windows, UCCL_PROBE_YES);
	assert_int_equal(p.window_bounds, UCCL_PROBE_NO);
}

/* Each call fails once, then for good: its error and what it was to do are told, and nothing stays behind. */
TEST_IN(probe__every_failure, begin, end)
{
	static const char *const calls[] = {"alloc_pd",	 "reg_mr",    "reg_mr_iova", "create_cq",
					    "create_srq", "create_qp", "modify_qp"};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fake_verbs_fail(fake, calls[i], 1, ENOMEM);
		assert_int_equal(probe(), -ENOMEM);
		assert_non_null(what);
		fake_verbs_fail(fake, calls[i], 0, ENOMEM);
		assert_int_equal(probe(), -ENOMEM);
		fake_verbs_fail(fake, calls[i], 0, 0);
	}
}

/* A NIC that says it has windows and refuses them: all else is known. */
TEST_IN(probe_windows__refused, begin, end)
{
	static const char *const calls[] = {"alloc_mw", "bind_mw"};
	const char *refused;

	fake_verbs_windows(dev);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fake_verbs_fail(fake, calls[i], 0, EPERM);
		assert_int_equal(probe_windows(), -EPERM);
		refused = what;
		assert_non_null(refused);
		assert_int_equal(probe(), 0);
		assert_int_equal(uccl_verbs_probe_write_max(&p), p.large);
		assert_int_equal(p.windows, UCCL_PROBE_UNKNOWN);
		assert_int_equal(p.window_error, -EPERM);
		assert_string_equal(p.window_what, refused);
		fake_verbs_fail(fake, calls[i], 0, 0);
	}
}

TEST_IN(probe__infiniband, begin, end)
{
	fake_verbs_infiniband(dev, 0x11);
	assert_int_equal(probe(), 0);
	assert_int_equal(p.uc, UCCL_PROBE_YES);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

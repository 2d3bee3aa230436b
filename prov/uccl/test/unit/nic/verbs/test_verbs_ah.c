/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_ah.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "base/units.h"
#include "../fake_verbs.h"

#define LIMIT 8

static struct fake_verbs *fake;
static struct fake_dev *dev;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct uccl_verbs_ahs *ahs;
static const struct uccl_verbs_mark plain, urgent = {.traffic_class = 0xb8, .service_level = 3};

static uint64_t now, step;

/* Time goes on by `step` at each look. */
static uint64_t clock_read(void)
{
	now += step;
	return now;
}

static int begin(void **state)
{
	static const uint8_t any[16];
	struct uccl_verbs_port port;

	now = UCCL_NS_PER_S;
	step = 0;
	fake = fake_verbs_new();
	dev = fake_verbs_add(fake, "mlx5_0", 1, NULL);
	assert_int_equal(uccl_verbs_open(fake_verbs_lib(), NULL, any, false, &port, &ctx), 0);
	pd = fake_verbs_lib()->alloc_pd(ctx);
	assert_int_equal(uccl_verbs_ahs_open(fake_verbs_lib(), pd, &port, LIMIT, clock_read, &ahs), 0);
	return 0;
}

static int end(void **state)
{
	uccl_verbs_ahs_close(ahs);
	fake_verbs_lib()->dealloc_pd(pd);
	fake_verbs_lib()->close_device(ctx);
	return fake_verbs_end(fake);
}

static struct uccl_nic_addr at(uint8_t host)
{
	return (struct uccl_nic_addr){.ip = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = host},
				      .scope = 17,
				      .port = host,
				      .pad = 0xc000};
}

static int get(uint8_t host, uint32_t flow, struct uccl_verbs_ah **out)
{
	struct uccl_nic_addr to = at(host);

	return uccl_verbs_ah_get(ahs, &to, &plain, flow, out);
}

static unsigned int made(void)
{
	return fake_verbs_calls(fake, "create_ah");
}

TEST_IN(ah_get__one_for_each_key, begin, end)
{
	struct uccl_verbs_ah *a, *b;
	struct uccl_nic_addr to = at(2);

	assert_int_equal(get(2, 5, &a), 0);
	/* Port, queue pair and all else of the place but its GID mean nothing to a handle. */
	to.port++;
	to.scope++;
	to.pad++;
	assert_int_equal(uccl_verbs_ah_get(ahs, &to, &plain, 5, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(a->users, 2);
	assert_int_equal(made(), 1);
	assert_int_equal(get(3, 5, &b), 0);
	assert_ptr_not_equal(a, b);
	assert_int_equal(get(2, 6, &b), 0);
	assert_ptr_not_equal(a, b);
	assert_int_equal(uccl_verbs_ah_get(ahs, &to, &urgent, 5, &b), 0);
	assert_ptr_not_equal(a, b);
	assert_int_equal(made(), 4);
}

TEST_IN(ah_get__infiniband, begin, end)
{
	static const uint8_t any[16];
	struct uccl_nic_addr to = at(2);
	struct uccl_verbs_ah *a, *b;
	struct uccl_verbs_port port;
	struct ibv_context *other;

	fake_verbs_infiniband(dev, 9);
	assert_int_equal(uccl_verbs_open(fake_verbs_lib(), NULL, any, false, &port, &other), 0);
	fake_verbs_lib()->close_device(other);
	uccl_verbs_ahs_close(ahs);
	assert_int_equal(uccl_verbs_ahs_open(fake_verbs_lib(), pd, &port, LIMIT, clock_read, &ahs), 0);
	to.pad = 7;
	assert_int_equal(uccl_verbs_ah_get(ahs, &to, &plain, 0, &a), 0);
	to.pad = 8;
	assert_int_equal(uccl_verbs_ah_get(ahs, &to, &plain, 0, &b), 0);
	assert_ptr_not_equal(a, b);
	/* Another's LID is another place: one dead does not speak for the other. */
	uccl_verbs_ah_suspect(ahs, a);
	assert_int_equal(uccl_verbs_ah_get(ahs, &to, &plain, 0, &b), 0);
	to.pad = 7;
	assert_int_equal(uccl_verbs_ah_get(ahs, &to, &plain, 0, &b), -FI_EHOSTUNREACH);
}

TEST_IN(room_make__oldest_goes, begin, end)
{
	struct uccl_verbs_ah *a;
	uint8_t i;

	for (i = 0; i < LIMIT; i++) {
		assert_int_equal(get(i, 0, &a), 0);
		uccl_verbs_ah_put(a);
	}
	/* 0 is used again, so 1 is the oldest. */
	assert_int_equal(get(0, 0, &a), 0);
	uccl_verbs_ah_put(a);
	assert_int_equal(get(100, 0, &a), 0);
	uccl_verbs_ah_put(a);
	assert_int_equal(fake->ahs, LIMIT);
	i = (uint8_t)made();
	assert_int_equal(get(0, 0, &a), 0);
	assert_int_equal(made(), i);
	uccl_verbs_ah_put(a);
	assert_int_equal(get(1, 0, &a), 0);
	assert_int_equal(made(), i + 1);
}

TEST_IN(room_make__never_one_in_use, begin, end)
{
	struct uccl_verbs_ah *a, *last = NULL;
	uint8_t i;

	for (i = 0; i < LIMIT; i++) {
		assert_int_equal(get(i, 0, &a), 0);
		last = i == 5 ? a : last;
	}
	assert_int_equal(get(100, 0, &a), -FI_EAGAIN);
	uccl_verbs_ah_put(last);
	assert_int_equal(get(100, 0, &a), 0);
	assert_int_equal(fake->ahs, LIMIT);
	assert_int_equal(get(101, 0, &a), -FI_EAGAIN);
}

TEST_IN(ah_make__fails, begin, end)
{
	struct uccl_verbs_ah *a;

	fake_verbs_fail(fake, "create_ah", 1, ETIMEDOUT);
	assert_int_equal(get(2, 0, &a), -FI_EHOSTUNREACH);
	/* With no flow label is it asked again so soon; other places are. */
	now += 99 * UCCL_NS_PER_MS;
	assert_int_equal(get(2, 0, &a), -FI_EHOSTUNREACH);
	assert_int_equal(get(2, 1, &a), -FI_EHOSTUNREACH);
	assert_int_equal(made(), 1);
	assert_int_equal(get(3, 0, &a), 0);
	now += UCCL_NS_PER_MS;
	assert_int_equal(get(2, 1, &a), 0);
	assert_int_equal(made(), 3);
}

/* One that takes long to fail may not have more than a tenth of the time. */
TEST_IN(ah_make__fails_slowly, begin, end)
{
	struct uccl_verbs_ah *a;

	fake_verbs_fail(fake, "create_ah", 1, ETIMEDOUT);
	step = UCCL_NS_PER_S;
	assert_int_equal(get(2, 0, &a), -FI_EHOSTUNREACH);
	step = 0;
	now += 9 * UCCL_NS_PER_S;
	assert_int_equal(get(2, 0, &a), -FI_EHOSTUNREACH);
	assert_int_equal(made(), 1);
	now += UCCL_NS_PER_S;
	assert_int_equal(get(2, 0, &a), 0);
}

TEST_IN(dead_add__many, begin, end)
{
	struct uccl_verbs_ah *a;
	int i, still = 0;

	fake_verbs_fail(fake, "create_ah", 0, ETIMEDOUT);
	for (i = 0; i < 200; i++) {
		assert_int_equal(get((uint8_t)i, 0, &a), -FI_EHOSTUNREACH);
		now++;
	}
	fake_verbs_fail(fake, "create_ah", 0, 0);
	for (i = 199; i >= 0; i--) {
		if (get((uint8_t)i, 0, &a))
			still++;
		else
			uccl_verbs_ah_put(a);
	}
	assert_int_equal(still, 64); /* the latest */
	now += UCCL_NS_PER_S;
	for (i = 0; i < 200; i++) {
		assert_int_equal(get((uint8_t)i, 0, &a), 0);
		uccl_verbs_ah_put(a);
	}
}

TEST_IN(ah_suspect__left_alone_then_made_anew, begin, end)
{
	struct uccl_verbs_ah *a, *b, *c;

	assert_int_equal(get(2, 0, &a), 0);
	assert_int_equal(get(2, 1, &b), 0);
	assert_int_equal(get(3, 0, &c), 0);
	uccl_verbs_ah_suspect(ahs, a);
	assert_int_equal(get(2, 0, &a), -FI_EHOSTUNREACH);
	assert_int_equal(get(2, 1, &a), -FI_EHOSTUNREACH);
	assert_int_equal(get(3, 0, &c), 0);
	uccl_verbs_ah_put(b);
	now += UCCL_NS_PER_S;
	assert_int_equal(made(), 3);
	/* In use: as it is. Not in use: a new one. */
	assert_int_equal(get(2, 0, &a), 0);
	assert_int_equal(made(), 3);
	assert_int_equal(a->users, 2);
	assert_int_equal(get(2, 1, &b), 0);
	assert_int_equal(made(), 4);
	assert_false(b->stale);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

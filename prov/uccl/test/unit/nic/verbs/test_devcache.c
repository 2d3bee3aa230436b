/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The cache over a registrar of the test and allocations that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "nic/verbs/devcache.h"

#define MB (1ull << 20)
#define BASE 0x7000000000000000ull
#define ENTRIES 4

static struct uccl_devcache *c;
static int registered, calls, failing;
static uintptr_t last_start;
static uint64_t last_len;

/* The one allocation there is. */
static struct {
	uintptr_t start;
	uint64_t len, id;
	int err;
} there;

static int fake_range(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id)
{
	assert_ptr_equal(arg, &there);
	(void)p;
	*start = there.start;
	*len = there.len;
	*id = there.id;
	return there.err;
}

static struct uccl_nic_device device = {.number = 1, .range = fake_range, .arg = &there};

static int fake_reg(void *arg, void *start, uint64_t len, const struct uccl_nic_device *of, void **mr)
{
	assert_ptr_equal(arg, &calls);
	assert_ptr_equal(of, &device);
	calls++;
	if (failing) {
		failing--;
		return -FI_ENOMEM;
	}
	registered++;
	last_start = (uintptr_t)start;
	last_len = len;
	*mr = start;
	return 0;
}

static void fake_dereg(void *arg, void *mr)
{
	(void)arg;
	(void)mr;
	registered--;
}

static const struct uccl_devcache_ops ops = {.reg = fake_reg, .dereg = fake_dereg};

static int begin(void **state)
{
	(void)state;
	registered = calls = failing = 0;
	device.number = 1;
	device.range = fake_range;
	there.start = BASE + 512;
	there.len = 100 * MB;
	there.id = 7;
	there.err = 0;
	return uccl_devcache_open(&ops, &calls, ENTRIES, 64 * MB, &c);
}

static int end(void **state)
{
	(void)state;
	uccl_devcache_close(c);
	return registered;
}

static struct uccl_devcache_entry *get(uint64_t off, uint64_t len)
{
	struct uccl_devcache_entry *e = NULL;

	assert_int_equal(uccl_devcache_get(c, (void *)(there.start + off), len, &device, &e), 0);
	assert_true(e->start <= there.start + off && there.start + off + len <= e->start + e->len);
	assert_true(e->start >= there.start && e->start + e->len <= there.start + there.len);
	return e;
}

static void get__whole_grains_of_the_allocation(void **state)
{
	struct uccl_devcache_entry *e = get(0, 10), *f;

	(void)state;
	/* Never what lies beside it. */
	assert_int_equal(last_start, BASE + 512);
	assert_int_equal(last_len, 2 * MB - 512);
	f = get(3 * MB, MB);
	assert_int_equal(last_start, BASE + 2 * MB);
	assert_int_equal(last_len, 4 * MB);
	assert_ptr_equal(get(2 * MB, 100), f);
	assert_ptr_equal(get(MB, 100), e);
	assert_int_equal(calls, 2);
	/* Across both is a third. */
	assert_ptr_not_equal(get(MB, 2 * MB), f);
	assert_int_equal(calls, 3);
	assert_int_equal(uccl_devcache_stats(c).hits, 2);
	assert_int_equal(uccl_devcache_stats(c).misses, 3);
	assert_ptr_equal(get(99 * MB, MB), get(99 * MB, MB));
	assert_int_equal(last_start + last_len, there.start + there.len);
	for (int i = 0; i < 2; i++) {
		uccl_devcache_put(c, e);
		uccl_devcache_put(c, f);
	}
	uccl_devcache_put(c, get(MB, 2 * MB));
	uccl_devcache_put(c, get(MB, 2 * MB));
	uccl_devcache_put(c, get(MB, 2 * MB));
	e = get(MB, 2 * MB);
	uccl_devcache_put(c, e);
	uccl_devcache_put(c, e);
	e = get(99 * MB, MB);
	for (int i = 0; i < 3; i++)
		uccl_devcache_put(c, e);
}

static void get__not_in_one_allocation(void **state)
{
	struct uccl_devcache_entry *e;

	(void)state;
	assert_int_equal(uccl_devcache_get(c, (void *)(there.start - 1), 10, &device, &e), -FI_EFAULT);
	assert_int_equal(uccl_devcache_get(c, (void *)there.start, there.len + 1, &device, &e), -FI_EFAULT);
	assert_int_equal(uccl_devcache_get(c, (void *)(there.start + there.len + 1), 1, &device, &e), -FI_EFAULT);
	assert_int_equal(uccl_devcache_get(c, (void *)(there.start + 5), UINT64_MAX, &device, &e), -FI_EFAULT);
	there.err = -FI_EIO;
	assert_int_equal(uccl_devcache_get(c, (void *)there.start, 10, &device, &e), -FI_EIO);
	device.range = NULL;
	assert_int_equal(uccl_devcache_get(c, (void *)there.start, 10, &device, &e), -FI_ENOSYS);
	assert_int_equal(calls, 0);
}

/* PROTOCOL R222 */
static void get__another_allocation_there(void **state)
{
	struct uccl_devcache_entry *used = get(0, 10), *idle = get(10 * MB, 10), *e;

	(void)state;
	uccl_devcache_put(c, idle);
	assert_int_equal(registered, 2);
	there.id = 8;
	/* What nobody uses ends at once, */
	e = get(10 * MB, 10);
	assert_int_equal(calls, 3);
	assert_int_equal(registered, 2);
	uccl_devcache_put(c, e);
	/* and what somebody does with its last user. */
	e = get(0, 10);
	assert_ptr_not_equal(e, used);
	assert_int_equal(registered, 3);
	uccl_devcache_hold(used);
	uccl_devcache_put(c, used);
	assert_int_equal(registered, 3);
	uccl_devcache_put(c, used);
	assert_int_equal(registered, 2);
	assert_ptr_equal(get(0, 10), e);
	assert_int_equal(uccl_devcache_stats(c).gone, 2);
	uccl_devcache_put(c, e);
	uccl_devcache_put(c, e);
	/* The same address of another device is other memory. */
	device.number = 2;
	e = get(0, 10);
	assert_int_equal(registered, 3);
	uccl_devcache_put(c, e);
}

static void put__limits(void **state)
{
	struct uccl_devcache_entry *e[8];

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		e[i] = get(i * 4 * MB, 10);
	assert_int_equal(registered, 8);
	for (int i = 0; i < 8; i++)
		uccl_devcache_put(c, e[i]);
	assert_int_equal(registered, ENTRIES);
	assert_int_equal(uccl_devcache_stats(c).evicted, 8 - ENTRIES);
	/* The latest are there. */
	uccl_devcache_put(c, get(28 * MB, 10));
	assert_int_equal(calls, 8);
	/* One that is too large by itself is not kept. */
	uccl_devcache_put(c, get(0, 80 * MB));
	assert_int_equal(uccl_devcache_stats(c).bytes, 0);
	assert_int_equal(uccl_devcache_stats(c).entries, 0);
}

/* What is kept for nobody gives way to what is needed. */
static void get__registration_fails(void **state)
{
	struct uccl_devcache_entry *e = get(0, 10), *f;

	(void)state;
	uccl_devcache_put(c, get(10 * MB, 10));
	failing = 1;
	f = get(20 * MB, 10);
	assert_int_equal(registered, 2);
	failing = 2;
	assert_int_equal(uccl_devcache_get(c, (void *)(there.start + 30 * MB), 10, &device, &f), -FI_ENOMEM);
	assert_int_equal(failing, 1);
	failing = 0;
	uccl_devcache_put(c, e);
	uccl_devcache_put(c, get(20 * MB, 10));
	uccl_devcache_put(c, get(20 * MB, 10));
	e = get(20 * MB, 10);
	uccl_devcache_put(c, e);
	uccl_devcache_put(c, e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(get__whole_grains_of_the_allocation, begin, end),
		cmocka_unit_test_setup_teardown(get__not_in_one_allocation, begin, end),
		cmocka_unit_test_setup_teardown(get__another_allocation_there, begin, end),
		cmocka_unit_test_setup_teardown(put__limits, begin, end),
		cmocka_unit_test_setup_teardown(get__registration_fails, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

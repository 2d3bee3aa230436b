/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whole engines on the verbs-ud back end, on fake NICs: addresses, handshake and messages fit each other. */
#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>

#include "../nic/fake_verbs.h"
#include "base/rng.h"
#include "base/units.h"
#include "nic/verbs_ud.h"

#define ENGINES 4
#define SECOND UCCL_NS_PER_S
#define LONG 300000

static struct fake_verbs *fake;
static struct fake_dev *dev[2];
static struct uccl_rng rng;
static uint64_t now;
static struct uccl_engine *e[ENGINES];
static int dones[ENGINES], errors;
static uint8_t src[LONG], dst[ENGINES][LONG];

static uint64_t clock_read(void)
{
	return now;
}

static void fill_random(void *arg, void *buf, size_t len)
{
	uint8_t *p = buf;

	(void)arg;
	while (len--)
		*p++ = (uint8_t)uccl_rng_next(&rng);
}

static int begin(void **state)
{
	(void)state;
	now = SECOND;
	uccl_rng_seed(&rng, 7);
	fake = fake_verbs_new();
	dev[0] = fake_verbs_add(fake, "rxe0", 1, NULL);
	dev[1] = fake_verbs_add(fake, "rxe1", 2, NULL);
	memset(e, 0, sizeof(e));
	memset(dones, 0, sizeof(dones));
	errors = 0;
	for (size_t i = 0; i < LONG; i++)
		src[i] = (uint8_t)uccl_rng_next(&rng);
	return 0;
}

static int end(void **state)
{
	bool clean;

	(void)state;
	for (int i = 0; i < ENGINES; i++)
		if (e[i])
			uccl_engine_close(e[i]);
	clean = !fake_verbs_live(fake) && !fake->violations;
	if (!clean)
		print_error("%d objects left, %d violations: %s\n", fake_verbs_live(fake), (int)fake->violations,
			    fake->violation);
	fake_verbs_free(fake);
	return clean ? 0 : -1;
}

static void engine_open(int i, const char *device)
{
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {.config = &cfg, .random = fill_random};
	struct uccl_nic_attr nic = {.ifname = device};

	uccl_config_default(&cfg);
	assert_int_equal(uccl_verbs_ud_open(fake_verbs_lib(), clock_read, &nic, &attr.nic), 0);
	assert_int_equal(uccl_engine_open(&attr, now, &e[i]), 0);
}

static void done(struct uccl_op *op)
{
	int i = (int)(intptr_t)op->api;

	dones[i]++;
	errors += op->err != 0;
	uccl_op_put(e[i], op);
}

static struct uccl_op *op_new(int i, uint8_t type, void *buf, uint64_t len)
{
	struct uccl_op *op = uccl_op_get(e[i]);

	assert_non_null(op);
	op->type = type;
	op->iov[0] = (struct iovec){.iov_base = buf, .iov_len = len};
	op->iov_count = 1;
	op->len = len;
	op->api = (void *)(intptr_t)i;
	op->done = done;
	return op;
}

/* As a program has it: the address went as bytes. */
static struct uccl_peer *peer(int from, int to)
{
	uint8_t wire[UCCL_ADDR_LEN];
	struct uccl_addr a;

	uccl_addr_encode(wire, uccl_engine_addr(e[to]));
	assert_int_equal(uccl_addr_decode(&a, wire), 0);
	return uccl_engine_peer(e[from], &a, true);
}

static void message(int from, int to, uint64_t len)
{
	struct uccl_op *r = op_new(to, UCCL_OP_RECV, dst[to], len), *s = op_new(from, UCCL_OP_SEND, src, len);

	memset(dst[to], 0, len);
	assert_int_equal(uccl_engine_recv(e[to], r, now), 0);
	s->peer = peer(from, to);
	assert_int_equal(uccl_engine_send(e[from], s, now), 0);
}

static void run(uint64_t ns)
{
	for (uint64_t until = now + ns; now < until; now += 20 * UCCL_NS_PER_US) {
		for (int i = 0; i < ENGINES; i++)
			if (e[i])
				uccl_engine_poll(e[i], now);
		if (now % UCCL_NS_PER_MS < 20 * UCCL_NS_PER_US)
			fake_verbs_release(fake, true);
	}
}

/* All pairs, the two endpoints of one NIC and each with itself included. */
static void all_pairs(uint64_t len)
{
	for (int i = 0; i < ENGINES; i++) {
		for (int k = 0; k < ENGINES; k++) {
			int before = dones[i] + dones[k];

			message(i, k, len);
			run(SECOND / 2);
			assert_int_equal(dones[i] + dones[k] - before, i == k ? 4 : 2);
			assert_memory_equal(dst[k], src, len);
		}
	}
	assert_int_equal(errors, 0);
}

static void open_all(void)
{
	for (int i = 0; i < ENGINES; i++)
		engine_open(i, i % 2 ? "rxe1" : "rxe0");
}

static void engines__roce(void **state)
{
	(void)state;
	open_all();
	all_pairs(1000);
	all_pairs(LONG);
	for (int i = 0; i < ENGINES; i++) {
		assert_int_equal(uccl_engine_stats(e[i])->peers_dead, 0);
		assert_int_equal(uccl_engine_stats(e[i])->dropped[UCCL_DROP_SOURCE], 0);
		assert_int_equal(uccl_engine_stats(e[i])->dropped[UCCL_DROP_TOKEN], 0);
	}
}

static void engines__infiniband(void **state)
{
	(void)state;
	fake_verbs_infiniband(dev[0], 0x6d0);
	fake_verbs_infiniband(dev[1], 0x5d6);
	open_all();
	all_pairs(1000);
}

static enum fake_fate chance(void *arg, const struct fake_packet *p)
{
	(void)arg;
	(void)p;
	switch (uccl_rng_below(&rng, 40)) {
	case 0:
	case 1:
		return FAKE_DROP;
	case 2:
		return FAKE_DUP;
	case 3:
		return FAKE_HOLD;
	default:
		return FAKE_PASS;
	}
}

/* 5 % lost, 2.5 % doubled, 2.5 % late; and a queue pair breaks now and then. */
static void engines__bad_network(void **state)
{
	(void)state;
	fake->hook = chance;
	open_all();
	for (int round = 0; round < 30; round++) {
		int from = round % ENGINES, to = (round * 3 + 1) % ENGINES, before = dones[from] + dones[to];

		message(from, to, LONG);
		run(10 * UCCL_NS_PER_MS);
		fake_verbs_break(fake, 0x11 + (uint32_t)uccl_rng_below(&rng, 12));
		run(3 * SECOND);
		assert_int_equal(dones[from] + dones[to] - before, 2 + 2 * (from == to));
		assert_memory_equal(dst[to], src, LONG);
	}
	assert_int_equal(errors, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(engines__roce, begin, end),
		cmocka_unit_test_setup_teardown(engines__infiniband, begin, end),
		cmocka_unit_test_setup_teardown(engines__bad_network, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 77;
}

#endif

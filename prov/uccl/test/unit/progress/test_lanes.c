/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"

#include <dirent.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include "../nic/fake_verbs.h"
#include "api/endpoint/ep.h"
#include "base/shipped.h"
#include "msg/home.h"
#include "nic/verbs_uc.h"
#include "progress/lanes.h"

#define BYTES (3u << 20)

static uint8_t src[BYTES], dst[BYTES];

static void count__leaves_one_to_the_program(void **state)
{
	static const struct {
		uint64_t want;
		uint32_t processors;
		uint8_t lanes;
	} v[] = {
		{0, 16, 0},	       {3, 1, 3},	      {16, 2, 16},	     {17, 64, 16},
		{UCCL_LANES_AUTO, 0, 0}, {UCCL_LANES_AUTO, 1, 0}, {UCCL_LANES_AUTO, 2, 1}, {UCCL_LANES_AUTO, 4, 3},
		{UCCL_LANES_AUTO, 64, 4},
	};

	(void)state;
	for (size_t i = 0; i < uccl_array_len(v); i++)
		assert_int_equal(uccl_lanes_count(v[i].want, v[i].processors), v[i].lanes);
}

static void paths__shared(void **state)
{
	(void)state;
	assert_int_equal(uccl_lane_paths(64, 1), 64);
	assert_int_equal(uccl_lane_paths(64, 4), 16);
	assert_int_equal(uccl_lane_paths(64, 16), 8);
	assert_int_equal(uccl_lane_paths(4, 2), 4);
	assert_int_equal(uccl_lane_paths(1, 16), 1);
}

static uint64_t carried_at_home(struct node *n)
{
	struct uccl_driver *d = &uccl_ep_fid_of(&n->ep->fid)->ep->driver;
	uint64_t bytes;

	uccl_driver_lock(d);
	bytes = uccl_engine_stats(d->engine)->tx_bytes;
	uccl_driver_unlock(d);
	return bytes;
}

/* One message, whoever is asleep. */
static void one_message(struct node *a, struct node *b, fi_addr_t to_b)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_cq_tagged_entry e;
	int left = 2;

	memset(dst, 0, BYTES);
	assert_int_equal(fi_recv(b->ep, dst, BYTES, NULL, FI_ADDR_UNSPEC, dst), 0);
	world_post(fi_send(a->ep, src, BYTES, NULL, to_b, src), a, b);
	while (left) {
		left -= fi_cq_sread(a->cq, &e, 1, NULL, 1) == 1;
		left -= fi_cq_sread(b->cq, &e, 1, NULL, 1) == 1;
		assert_true(uccl_clock() < end);
	}
	assert_memory_equal(src, dst, BYTES);
}

/* Two threads at each side carry what home did before, whoever drives home. */
static void set__carries(void **state)
{
	static const enum fi_progress modes[] = {FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO};

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		src[i] = (uint8_t)(i * 31 + i / 4096);
	setenv("FI_UCCL_LANES", "2", 1);
	for (size_t m = 0; m < uccl_array_len(modes); m++) {
		uint64_t end = uccl_clock() + PATIENCE_NS, before;
		struct fi_info *h = world_hints();
		struct node a, b;
		fi_addr_t to_b;
		struct world w;

		h->domain_attr->data_progress = modes[m];
		world_open_with(&w, h);
		node_open(&a, &w);
		node_open(&b, &w);
		to_b = node_insert(&a, &b);
		/* Lanes find each other some time after the first message. */
		do {
			before = carried_at_home(&a);
			one_message(&a, &b, to_b);
			assert_true(uccl_clock() < end);
		} while (carried_at_home(&a) - before > BYTES / 4);
		for (int i = 0; i < 20; i++)
			one_message(&a, &b, to_b);
		/* Of a message home carries a short unit at most, although a packet of the loopback holds more. */
		before = carried_at_home(&a);
		one_message(&a, &b, to_b);
		assert_true(carried_at_home(&a) - before <= UCCL_LANES_FIRST + 4096);
		/* In the middle of one. */
		world_post(fi_send(a.ep, src, BYTES, NULL, to_b, src), &a, &b);
		node_close(&a);
		node_close(&b);
		world_close(&w);
	}
	unsetenv("FI_UCCL_LANES");
}

#include <dirent.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include "../nic/fake_verbs.h"
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(count__leaves_one_to_the_program),
		cmocka_unit_test(paths__shared),
		cmocka_unit_test(set__carries),
#include <dirent.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include "../nic/fake_verbs.h"
	};

	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}

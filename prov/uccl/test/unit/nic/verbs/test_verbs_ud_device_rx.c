/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Payload that a verbs-ud back end has put into memory of a device, which the processor cannot touch. */
#include "nic/verbs/ud_state.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../fake_verbs.h"

#define MEM (16u << 20)
#define EACH 4032 /* bytes of a slot, for packets of 4096 */

static struct fake_verbs *fake;
static struct fake_dev *dev[2];
static uint64_t now;
static uint8_t payload[8192];
static uint8_t *mem, *shadow; /* of the device: its address, and where its bytes are */
static struct uccl_nic *nic[2];
static struct uccl_nic_addr at[2];
static uint32_t queue;

static void (*meanwhile)(void); /* the next time that somebody looks at the clock; NULL: nothing happens */

static uint64_t clock_read(void)
{
	void (*once)(void) = meanwhile;

	meanwhile = NULL;
	if (once)
		once();
	return now += UCCL_NS_PER_US;
}

static void *reach(void *p)
{
	return (uint8_t *)p >= mem && (uint8_t *)p < mem + MEM ? shadow + ((uint8_t *)p - mem) : p;
}

static const struct uccl_nic_device gpu = {.number = 3, .dmabuf = fake_no_dmabuf};

static int begin(void **state)
{
	now = UCCL_NS_PER_S;
	fake = fake_verbs_new();
	fake->peer_memory = reach;
	dev[0] = fake_verbs_add(fake, "rxe0", 1, NULL);
	dev[1] = fake_verbs_add(fake, "rxe1", 2, NULL);
	mem = mmap(NULL, MEM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	shadow = calloc(1, MEM);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 + i / 251);
	return 0;
}

static void pair_close(void)
{
	for (int i = 0; i < 2; i++)
		if (nic[i])
			nic[i]->ops->close(nic[i]);
	memset(nic, 0, sizeof(nic));
}

static int end(void **state)
{
	pair_close();
	munmap(mem, MEM);
	free(shadow);
	return fake_verbs_end(fake);
}

static struct uccl_nic *open_dev(const char *name, bool lends, uint32_t mtu)
{
	struct uccl_nic_attr attr = {.ifname = name, .device_rx = lends, .mtu = mtu};
	struct uccl_nic *n = NULL;

	assert_int_equal(uccl_verbs_ud_open(fake_verbs_lib(), clock_read, &attr, &n), 0);
	return n;
}

static void nics_open(uint32_t mtu)
{
	nic[0] = open_dev("rxe0", false, 0);
	nic[1] = open_dev("rxe1", true, mtu);
	for (int i = 0; i < 2; i++)
		nic[i]->ops->addr(nic[i], &at[i]);
}

static void pair_open(uint32_t mtu)
{
	nics_open(mtu);
	assert_true(nic[1]->caps.device_rx_bytes <= MEM);
	assert_int_equal(nic[1]->ops->device_rx_open(nic[1], mem, &gpu, &queue), 0);
	assert_int_not_equal(queue, at[1].scope & 0xffffff);
}

static int pair_begin(void **state)
{
	int rc = begin(state);

	pair_open(0);
	return rc;
}

/* To the device, or (to 0) where packets usually go. */
static void send_to(uint32_t to, uint8_t mark, uint32_t len)
{
	struct uccl_tx t = {.kind = UCCL_TX_PACKET,
			    .hdr_len = 64,
			    .payload = payload,
			    .payload_len = len,
			    .queue = to,
			    .to = &at[1]};

	memset(t.hdr, mark, 64);
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
}

static int rx(struct uccl_rx *v, int n)
{
	return nic[1]->ops->rx(nic[1], v, n, NULL, 0);
}

/* Take in up to 16 things, and give slots back; of each queue how many, that for the device second. */
static void drain(int got[2])
{
	struct uccl_rx v[16];

	got[0] = got[1] = 0;
	for (int n = rx(v, 16); n-- > 0;) {
		got[v[n].kind == UCCL_RX_DEVICE]++;
		if (v[n].kind == UCCL_RX_DEVICE)
			nic[1]->ops->device_rx_free(nic[1], v[n].imm);
	}
}

static void device_rx_check(const struct uccl_rx *r, uint8_t mark, uint32_t len)
{
	assert_int_equal(r->kind, UCCL_RX_DEVICE);
	assert_memory_equal(r->src.ip, at[0].ip, 16);
	assert_int_equal(r->len, 64 + len);
	assert_int_equal(r->body_len, len);
	assert_int_equal((uintptr_t)r->data % 64, 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(r->data[i], mark);
	assert_ptr_equal(r->body, mem + (size_t)r->imm * EACH);
	if (len)
		assert_memory_equal(reach(r->body), payload, len);
}

/* All slots but these, which the caller has, are with the NIC or wait for it. */
static void accounts_check(uint32_t held)
{
	const struct ud_rq *q = &ud_of(nic[1])->device.rq;
	uint32_t posted = 0;

	for (uint32_t i = 0; i < q->count; i++)
		posted += q->posted[i];
	for (uint32_t i = 0; i < q->nreturned; i++)
		assert_false(q->posted[q->returned[i]]);
	assert_int_equal(posted, ud_rq_posted(q));
	assert_int_equal(held, q->out);
	assert_true(posted <= q->depth);
	assert_int_equal(posted + q->nreturned + held, q->count);
}

TEST_IN(caps__what_it_takes, begin, end)
{
	struct uccl_nic *n = open_dev("rxe0", true, 0);

	assert_true(n->caps.device_rx_slots >= n->caps.rx_slots);
	assert_true(n->caps.device_rx_bytes >= 2ull * n->caps.device_rx_slots * EACH);
	n->ops->close(n);
	/* Not unless it is wished, nor where the NIC cannot. */
	n = open_dev("rxe0", false, 0);
	assert_int_equal(n->caps.device_rx_slots, 0);
	assert_int_equal(n->ops->device_rx_open(n, mem, &gpu, &queue), -FI_EOPNOTSUPP);
	n->ops->close(n);
	dev[0]->attr.max_sge = 1;
	n = open_dev("rxe0", true, 0);
	assert_int_equal(n->caps.device_rx_slots, 0);
	n->ops->close(n);
	dev[0]->attr.max_sge = 30;
	dev[0]->attr.max_cqe = 1500;
	n = open_dev("rxe0", true, 0);
	assert_int_equal(n->caps.device_rx_slots, 0);
	n->ops->close(n);
}

/* Headers come to the host and payload to the device, of any length, in the order in which they were sent. */
TEST_IN(lend__header_and_payload, pair_begin, end)
{
	static const uint32_t lens[] = {0, 1, 63, 64, 1000, EACH};
	struct uccl_rx v[16];

	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < 6; i++) {
			send_to(queue, (uint8_t)(round + i), lens[i]);
			if (i % 2)
				send_to(0, 7, 100);
		}
		assert_int_equal(rx(v, 16), 9);
		for (int i = 0, k = 0; i < 6; i++) {
			device_rx_check(&v[k++], (uint8_t)(round + i), lens[i]);
			if (i % 2)
				assert_int_equal(v[k++].kind, UCCL_RX_PACKET);
		}
		accounts_check(6);
		for (int k = 0; k < 9; k++)
			if (v[k].kind == UCCL_RX_DEVICE)
				nic[1]->ops->device_rx_free(nic[1], v[k].imm);
	}
	assert_int_equal(fake->stats.no_receive, 0);
	/* Once. */
	assert_int_equal(nic[1]->ops->device_rx_open(nic[1], mem, &gpu, &queue), -FI_EOPNOTSUPP);
}

/* What the caller has stays as it is, whatever comes, and takes no place of the queue away. PROTOCOL R293 */
TEST_IN(reuse__not_before, pair_begin, end)
{
	uint32_t held, slot[2000];
	struct uccl_rx v[16];

	for (held = 0; held < nic[1]->caps.device_rx_slots; held++) {
		send_to(queue, (uint8_t)held, 100);
		assert_int_equal(rx(v, 16), 1);
		device_rx_check(&v[0], (uint8_t)held, 100);
		slot[held] = v[0].imm;
		memset(reach(v[0].body), 0xab, 100);
	}
	accounts_check(held);
	for (int round = 0; round < 5; round++) {
		for (uint32_t i = 0; i < nic[1]->caps.rx_slots; i++)
			send_to(queue, 1, 100);
		assert_int_equal(fake->stats.no_receive, 0);
		for (int n; (n = rx(v, 16)) > 0;)
			while (n--)
				nic[1]->ops->device_rx_free(nic[1], v[n].imm);
		accounts_check(held);
	}
	for (uint32_t i = 0; i < held; i++) {
		const uint8_t *p = reach(mem + (size_t)slot[i] * EACH);

		assert_true(p[0] == 0xab && p[99] == 0xab);
		nic[1]->ops->device_rx_free(nic[1], slot[i]);
	}
	rx(v, 16);
	accounts_check(0);
}

/* What cannot be a packet of a flow is thrown away, and breaks nothing. */
TEST_IN(rx__not_a_packet, begin, end)
{
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .hdr_len = 63, .to = &at[1]};
	struct uccl_rx v[16];

	pair_open(512);
	t.queue = queue;
	assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	send_to(queue, 1, EACH);
	send_to(queue, 1, 449);
	send_to(queue, 2, 448);
	assert_int_equal(rx(v, 16), 1);
	device_rx_check(&v[0], 2, 448);
	assert_int_equal(ud_of(nic[1])->rx.bad, 3);
	accounts_check(1);
}

/* A place that no NIC has is no reason to break our own queue pair. */
TEST_IN(tx__no_such_queue, pair_begin, end)
{
	static const uint32_t bad[] = {1, 1 << 24, UINT32_MAX};
	struct uccl_rx v[16];

	for (int i = 0; i < 3; i++)
		send_to(bad[i], 1, 10);
	assert_int_equal(ud_of(nic[0])->tx.lost, 3);
	send_to(queue, 2, 10);
	assert_int_equal(rx(v, 16), 1);
}

/* Whichever call fails: there is no such queue, all else goes on, and nothing is left. */
TEST_IN(lend__every_call_fails, begin, end)
{
	static const char *const calls[] = {"reg_mr_iova", "reg_mr", "create_qp", "modify_qp", "post_recv"};
	struct uccl_rx v[16];

	for (int i = 0; i < 5; i++) {
		int rc = -1;

		for (unsigned int n = 1; rc; n++) {
			nics_open(0);
			fake_verbs_fail(fake, calls[i], n, ENOMEM);
			rc = nic[1]->ops->device_rx_open(nic[1], mem, &gpu, &queue);
			fake_verbs_fail(fake, calls[i], 0, 0);
			send_to(0, 1, 100);
			assert_int_equal(rx(v, 16), 1);
			assert_true(rc || n > 1);
			pair_close();
		}
	}
}

/* One of the two queue pairs breaks, or both: each is the same again, and no slot or piece is lost. */
TEST_IN(rx__broken, pair_begin, end)
{
	struct uccl_rx v[16];
	int got[2];

	for (int round = 0; round < 12; round++) {
		for (int i = 0; i < 5; i++) {
			send_to(queue, 1, 100);
			send_to(0, 1, 100);
		}
		/* Some are in the caller's hand, some in the completion queue. */
		assert_int_equal(rx(v, 4), 4);
		if (round % 3 != 1)
			assert_true(fake_verbs_break(fake, queue));
		if (round % 3 != 0)
			assert_true(fake_verbs_break(fake, at[1].scope & 0xffffff));
		for (int i = 0; i < 4; i++)
			if (v[i].kind == UCCL_RX_DEVICE)
				nic[1]->ops->device_rx_free(nic[1], v[i].imm);
		for (int i = 0; i < 200; i++) {
			drain(got);
			now += 10 * UCCL_NS_PER_MS;
		}
		accounts_check(0);
		assert_int_equal(ud_rq_posted(&ud_of(nic[1])->device.rq), ud_of(nic[1])->device.rq.depth);
		assert_int_equal(ud_rq_posted(&ud_of(nic[1])->rx.rq), ud_of(nic[1])->rx.rq.depth);
		send_to(queue, 9, 200);
		send_to(0, 8, 200);
		drain(got);
		assert_int_equal(got[0], 1);
		assert_int_equal(got[1], 1);
	}
	assert_true(ud_of(nic[1])->rx.revived >= 16);
}

static bool both_break;

/* The one is being started again: packets to both come, and perhaps the other breaks. */
static void something_comes(void)
{
	for (int i = 0; i < 5; i++) {
		send_to(queue, 1, 100);
		send_to(0, 1, 100);
	}
	if (both_break)
		fake_verbs_break(fake, at[1].scope & 0xffffff);
}

/* What completes while a queue pair is started again is lost, also of the other one; no piece is. */
TEST_IN(rx__broken_while_it_comes, pair_begin, end)
{
	struct uccl_rx v[16];
	int got[2];

	for (int round = 0; round < 6; round++) {
		both_break = round % 2;
		assert_true(fake_verbs_break(fake, queue));
		now += UCCL_NS_PER_S;
		meanwhile = something_comes;
		for (int i = 0; i < 500; i++) {
			drain(got);
			now += UCCL_NS_PER_MS;
		}
		assert_null(meanwhile);
		accounts_check(0);
		assert_int_equal(ud_rq_posted(&ud_of(nic[1])->device.rq), ud_of(nic[1])->device.rq.depth);
		assert_int_equal(ud_of(nic[1])->rx.rq.nreturned, 0);
		for (uint32_t i = 0; i < ud_of(nic[1])->rx.rq.count; i++)
			assert_true(ud_of(nic[1])->rx.rq.posted[i]);
		send_to(0, 2, 100);
		assert_int_equal(rx(v, 16), 1);
		rx(v, 16);
	}
}

/* Nobody says so but an event. */
TEST_IN(rx__broken_by_event, pair_begin, end)
{
	struct uccl_rx v[16];

	fake_verbs_event(fake, IBV_EVENT_QP_FATAL, queue);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(rx(v, 16), 0);
	assert_int_equal(ud_of(nic[1])->rx.revived, 1);
	send_to(queue, 1, 100);
	assert_int_equal(rx(v, 16), 1);
	device_rx_check(&v[0], 1, 100);
}

/* Who sleeps is woken by it. */
TEST_IN(wait_fd__wakes, pair_begin, end)
{
	struct uccl_rx v[16];

	assert_true(nic[1]->ops->wait_fd(nic[1]) >= 0);
	nic[1]->watched = true;
	for (int i = 0; i < 5; i++) {
		unsigned int events = fake_verbs_calls(fake, "get_cq_event");

		while (rx(v, 16) > 0)
			;
		send_to(queue, 1, 100);
		assert_int_equal(rx(v, 16), 1);
		nic[1]->ops->device_rx_free(nic[1], v[0].imm);
		assert_int_equal(rx(v, 16), 0);
		assert_true(fake_verbs_calls(fake, "get_cq_event") > events);
	}
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

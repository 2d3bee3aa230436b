/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fake NIC is as strict, and as treacherous, as a real one: what was measured on Soft-RoCE happens here too. */
#include "fake_verbs.h"

#include "../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <string.h>

#define MTU 1024
#define ENTRIES 8
#define QKEY 0x1234

static struct fake_verbs *fake;
static struct fake_dev *dev;
static const struct uccl_verbs *v;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp[2]; /* 0 sends to 1 */
static struct ibv_mr *mr;
static uint32_t sq_depth;
static uint8_t mem[1 << 16]; /* the first half is sent, the second written to */

#define TARGET (mem + sizeof(mem) / 2)

static int begin(void **state)
{
	struct ibv_device **list;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ENTRIES, .max_sge = 1}};
	size_t i;

	fake = fake_verbs_new();
	dev = fake_verbs_add(fake, "rxe0", 1, NULL);
	v = fake_verbs_lib();
	list = v->get_device_list(NULL);
	ctx = v->open_device(list[0]);
	v->free_device_list(list);
	pd = v->alloc_pd(ctx);
	cq = v->create_cq(ctx, ENTRIES, NULL, NULL, 0);
	srq = v->create_srq(pd, &attr);
	for (i = 0; i < sizeof(mem); i++)
		mem[i] = i < sizeof(mem) / 2 ? (uint8_t)(i * 7 + i / 256) : 0;
	mr = v->reg_mr(pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	qp[0] = qp[1] = NULL;
	sq_depth = 4;
	return 0;
}

static void pair_end(void)
{
	for (int i = 0; i < 2; i++) {
		if (qp[i])
			assert_int_equal(v->destroy_qp(qp[i]), 0);
		qp[i] = NULL;
	}
}

static int end(void **state)
{
	int rc;

	pair_end();
	if (mr)
		v->dereg_mr(mr);
	v->destroy_srq(srq);
	v->destroy_cq(cq);
	v->dealloc_pd(pd);
	v->close_device(ctx);
	rc = fake_verbs_live(fake);
	fake_verbs_free(fake);
	return rc;
}

static struct ibv_qp *qp_new(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type};

	init.cap = (struct ibv_qp_cap){.max_send_wr = sq_depth, .max_send_sge = 1};
	return v->create_qp(pd, &init);
}

static int to_init(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	return v->modify_qp(q, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (q->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int to_rtr(struct ibv_qp *q, uint32_t dest)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest};
	int mask = IBV_QP_STATE;

	a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	a.ah_attr.grh.dgid = dev->port[0].gid[3].gid;
	a.ah_attr.grh.sgid_index = 3;
	if (q->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (q->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return v->modify_qp(q, &a, mask);
}

static int to_rts(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (q->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return v->modify_qp(q, &a, mask);
}

static void to_state(struct ibv_qp *q, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = {.qp_state = s};

	assert_int_equal(v->modify_qp(q, &a, IBV_QP_STATE), 0);
}

static void connect_pair(enum ibv_qp_type type)
{
	int i;

	for (i = 0; i < 2; i++)
		qp[i] = qp_new(type);
	for (i = 0; i < 2; i++) {
		assert_int_equal(to_init(qp[i]), 0);
		assert_int_equal(to_rtr(qp[i], qp[!i]->qp_num), 0);
		assert_int_equal(to_rts(qp[i]), 0);
	}
}

static void receives(int n)
{
	struct ibv_recv_wr wr = {.wr_id = 77}, *bad;

	for (; n; n--)
		assert_int_equal(v->post_srq_recv(srq, &wr, &bad), 0);
}

static int write_imm(uint32_t len, uint32_t imm)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mem, .length = len, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM}, *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	wr.imm_data = imm;
	wr.wr.rdma.remote_addr = (uintptr_t)TARGET;
	wr.wr.rdma.rkey = mr->rkey;
	return v->post_send(qp[0], &wr, &bad);
}

/* The next completion is this. */
static struct ibv_wc completion(enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(v->poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.opcode, opcode);
	return wc;
}

static void no_completion(void)
{
	struct ibv_wc wc;

	assert_int_equal(v->poll_cq(cq, 1, &wc), 0);
}

/* Of a message the packets from `lose` to `until` meet a fate. */
static uint32_t lose, until;
static enum fake_fate fate;

static enum fake_fate some(void *arg, const struct fake_packet *p)
{
	return p->index >= lose && p->index < until ? fate : FAKE_PASS;
}

static void hook(enum fake_fate f, uint32_t from, uint32_t to)
{
	fate = f;
	lose = from;
	until = to;
	fake->hook = some;
}

TEST_IN(modify_qp__transitions, begin, end)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RC};
	size_t i;

	for (i = 0; i < 3; i++) {
		qp[0] = qp_new(types[i]);
		fake->violations = 0;
		assert_int_equal(to_rtr(qp[0], 1), EINVAL);
		assert_int_equal(to_rts(qp[0]), EINVAL);
		assert_int_equal(to_init(qp[0]), 0);
		assert_int_equal(to_rts(qp[0]), EINVAL);
		assert_int_equal(to_rtr(qp[0], 1), 0);
		assert_int_equal(to_init(qp[0]), EINVAL);
		assert_int_equal(to_rts(qp[0]), 0);
		to_state(qp[0], IBV_QPS_ERR);
		assert_int_equal(to_rts(qp[0]), EINVAL);
		to_state(qp[0], IBV_QPS_RESET);
		assert_int_equal(to_init(qp[0]), 0);
		assert_int_equal(fake->violations, 5);
		assert_int_equal(v->destroy_qp(qp[0]), 0);
		qp[0] = NULL;
	}
}

TEST_IN(write__whole, begin, end)
{
	struct ibv_wc wc;

	connect_pair(IBV_QPT_UC);
	receives(1);
	assert_int_equal(write_imm(10 * MTU + 1, 0xabcd), 0);
	wc = completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, 0xabcd);
	assert_int_equal(wc.byte_len, 10 * MTU + 1);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.qp_num, qp[1]->qp_num);
	assert_memory_equal(TARGET, mem, 10 * MTU + 1);
	assert_int_equal(TARGET[10 * MTU + 1], 0);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	assert_int_equal(fake->violations, 0);
}

/* E1, E2: part of it is there, nobody is told, and on Soft-RoCE the queue pair is dead. E3: not after a first packet.
 */
TEST_IN(write__lost_packets, begin, end)
{
	static const uint32_t first[] = {5, 15, 0};
	size_t i;

	for (i = 0; i < 6; i++) {
		dev->wedges = i / 3;
		connect_pair(IBV_QPT_UC);
		receives(3);
		memset(TARGET, 0, 16 * MTU);
		hook(FAKE_DROP, first[i % 3], first[i % 3] + 1);
		assert_int_equal(write_imm(16 * MTU, 1), 0);
		completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
		no_completion();
		assert_memory_equal(TARGET, mem, first[i % 3] * MTU);
		assert_int_equal(TARGET[first[i % 3] * MTU + 1], 0);
		fake->hook = NULL;
		assert_int_equal(write_imm(100, 2), 0);
		if (dev->wedges && first[i % 3]) {
			completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
			no_completion();
		} else {
			assert_int_equal(completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS).imm_data, 2);
			completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
		}
		pair_end();
		v->destroy_srq(srq);
		srq = v->create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = ENTRIES}});
	}
}

/* E4: an empty receive queue costs UC the message without a word, RC its connection with one. */
TEST_IN(write__nothing_posted, begin, end)
{
	connect_pair(IBV_QPT_UC);
	assert_int_equal(write_imm(100, 1), 0);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	no_completion();
	assert_memory_equal(TARGET, mem, 100);
	assert_int_equal(fake->stats.no_receive, 1);
	pair_end();
	connect_pair(IBV_QPT_RC);
	assert_int_equal(write_imm(100, 1), 0);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(write_imm(100, 1), 0);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_WR_FLUSH_ERR);
}

/* E6: UC hands up what the network doubled, twice. RC does not. */
TEST_IN(write__doubled, begin, end)
{
	connect_pair(IBV_QPT_UC);
	receives(3);
	hook(FAKE_DUP, 0, 1);
	assert_int_equal(write_imm(100, 1), 0);
	completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
	completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	pair_end();
	connect_pair(IBV_QPT_RC);
	assert_int_equal(write_imm(100, 1), 0);
	completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	no_completion();
}

/* E8 to E11: a late write hits memory, unless its queue pair or its region is gone; RESET does not help. */
TEST_IN(write__late, begin, end)
{
	struct ibv_qp *late;
	int round;

	for (round = 0; round < 4; round++) {
		connect_pair(IBV_QPT_UC);
		receives(1);
		hook(FAKE_HOLD, 0, 1);
		assert_int_equal(write_imm(100, 1), 0);
		completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
		memset(TARGET, 0xee, 100); /* the application has it back */
		late = qp[1];
		if (round == 1)
			to_state(late, IBV_QPS_ERR);
		if (round == 2) {
			to_state(late, IBV_QPS_RESET);
			assert_int_equal(to_init(late), 0);
			assert_int_equal(to_rtr(late, qp[0]->qp_num), 0);
		}
		if (round == 3) {
			assert_int_equal(v->dereg_mr(mr), 0);
			mr = NULL;
		}
		fake_verbs_release(fake, false);
		if (round == 1 || round == 3)
			assert_int_equal(TARGET[0], 0xee);
		else
			assert_memory_equal(TARGET, mem, 100);
		if (round == 0 || round == 2)
			completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
		/* E14: what is refused burns a receive and a completion. */
		if (round == 3)
			completion(IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_REM_ACCESS_ERR);
		no_completion();
		pair_end();
		if (round == 1) {
			v->destroy_srq(srq);
			srq = v->create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = ENTRIES}});
		}
	}
	assert_int_equal(fake->violations, 0);
}

/* Through queue pair `by`; 0 bytes: to nothing. The key that a peer has to name. */
static uint32_t bind_window(struct ibv_qp *by, struct ibv_mw *mw, void *at, uint64_t len)
{
	struct ibv_mw_bind_info info = {.mr = mr, .addr = (uintptr_t)at, .length = len};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

	info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	bind.bind_info = wr.bind_mw.bind_info = info;
	if (mw->type == IBV_MW_TYPE_1) {
		assert_int_equal(v->bind_mw(by, mw, &bind), 0);
		return mw->rkey;
	}
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	assert_int_equal(v->post_send(by, &wr, &bad), 0);
	return wr.bind_mw.rkey;
}

static void write_to(void *at, uint32_t len, uint32_t key, enum ibv_wc_status status)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mem, .length = len, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM}, *bad;

	receives(1);
	memset(TARGET, 0xee, sizeof(mem) / 2);
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)at;
	wr.wr.rdma.rkey = key;
	assert_int_equal(v->post_send(qp[0], &wr, &bad), 0);
	if (!fake->hook) {
		completion(IBV_WC_RECV_RDMA_WITH_IMM, status);
		completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
		if (status == IBV_WC_SUCCESS)
			assert_memory_equal(at, mem, len);
		else
			assert_int_equal(((uint8_t *)at)[0], 0xee);
	}
}

static void windows_begin(void)
{
	fake_verbs_windows(dev);
	assert_int_equal(v->dereg_mr(mr), 0);
	mr = v->reg_mr(pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	connect_pair(IBV_QPT_UC);
}

/* E13: a window of type 1 is the protection domain's, one of type 2 its queue pair's. */
TEST_IN(bind_mw__both_types, begin, end)
{
	struct ibv_mw *mw[2];
	uint32_t key;

	windows_begin();
	write_to(TARGET, 100, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	mw[0] = v->alloc_mw(pd, IBV_MW_TYPE_1);
	mw[1] = v->alloc_mw(pd, IBV_MW_TYPE_2);
	for (int by = 0; by < 2; by++) {
		key = bind_window(qp[by], mw[0], TARGET + 10, 100);
		completion(IBV_WC_BIND_MW, IBV_WC_SUCCESS);
		write_to(TARGET + 10, 100, key, IBV_WC_SUCCESS);
		write_to(TARGET + 10, 101, key, IBV_WC_REM_ACCESS_ERR);
		write_to(TARGET + 9, 100, key, IBV_WC_REM_ACCESS_ERR);
		write_to(TARGET + 10, 100, key - 1, IBV_WC_REM_ACCESS_ERR);
	}
	key = bind_window(qp[0], mw[1], TARGET + 10, 100);
	completion(IBV_WC_BIND_MW, IBV_WC_SUCCESS);
	write_to(TARGET + 10, 100, key, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(v->dealloc_mw(mw[1]), 0);
	mw[1] = v->alloc_mw(pd, IBV_MW_TYPE_2);
	key = bind_window(qp[1], mw[1], TARGET + 10, 100);
	completion(IBV_WC_BIND_MW, IBV_WC_SUCCESS);
	write_to(TARGET + 10, 100, key, IBV_WC_SUCCESS);
	/* As Soft-RoCE, which asks the region only. */
	dev->loose_windows = true;
	write_to(TARGET, 200, key, IBV_WC_SUCCESS);
	assert_int_equal(fake->violations, 0);
	assert_int_equal(v->dereg_mr(mr), EBUSY);
	assert_int_equal(fake->violations, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(v->dealloc_mw(mw[i]), 0);
}

/* E11: a late write finds an unbound window, or one that is gone. */
TEST_IN(bind_mw__late, begin, end)
{
	struct ibv_mw *mw;
	uint32_t key;

	windows_begin();
	for (int round = 0; round < 3; round++) {
		mw = v->alloc_mw(pd, IBV_MW_TYPE_1);
		key = bind_window(qp[0], mw, TARGET, 100);
		completion(IBV_WC_BIND_MW, IBV_WC_SUCCESS);
		hook(FAKE_HOLD, 0, 1);
		write_to(TARGET, 100, key, IBV_WC_SUCCESS);
		completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
		fake->hook = NULL;
		dev->leaky_windows = round == 2;
		if (round != 1) {
			bind_window(qp[1], mw, TARGET, 0);
			completion(IBV_WC_BIND_MW, IBV_WC_SUCCESS);
		} else {
			assert_int_equal(v->dealloc_mw(mw), 0);
		}
		fake_verbs_release(fake, false);
		completion(IBV_WC_RECV_RDMA_WITH_IMM, round == 2 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(TARGET[0], round == 2 ? mem[0] : 0xee);
		if (round != 1)
			assert_int_equal(v->dealloc_mw(mw), 0);
	}
	assert_int_equal(fake->violations, 0);
}

/* What is bound to a wrong place, or with a wrong old key, ends the queue pair, and the window is as before. */
TEST_IN(bind_mw__refused, begin, end)
{
	struct ibv_mw_bind none = {0};
	struct ibv_mw *mw;
	uint32_t key;

	assert_null(v->alloc_mw(pd, IBV_MW_TYPE_1));
	windows_begin();
	mw = v->alloc_mw(pd, IBV_MW_TYPE_1);
	key = bind_window(qp[1], mw, TARGET, 100);
	completion(IBV_WC_BIND_MW, IBV_WC_SUCCESS);
	assert_int_equal(v->bind_mw(qp[1], mw, &none), EINVAL);
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			mw->rkey = key - 2;
		bind_window(qp[0], mw, i == 0 ? mem + sizeof(mem) - 1 : mem, i == 1 ? sizeof(mem) + 1 : 100);
		completion(IBV_WC_BIND_MW, IBV_WC_MW_BIND_ERR);
		assert_int_equal(qp[0]->state, IBV_QPS_ERR);
		pair_end();
		connect_pair(IBV_QPT_UC);
		mw->rkey = key;
		write_to(TARGET, 100, key, IBV_WC_SUCCESS);
	}
	assert_int_equal(v->dealloc_mw(mw), 0);
	assert_int_equal(fake->violations, 0);
}

/* E15: a full completion queue kills what uses it. */
TEST_IN(cq__overflows, begin, end)
{
	int i;

	sq_depth = 2 * ENTRIES;
	connect_pair(IBV_QPT_UC);
	receives(ENTRIES);
	for (i = 0; i < ENTRIES / 2; i++)
		assert_int_equal(write_imm(1, 1), 0);
	assert_int_equal(fake->violations, 0);
	assert_int_equal(qp[1]->state, IBV_QPS_RTS);
	write_imm(1, 1);
	assert_int_equal(qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(qp[1]->state, IBV_QPS_ERR);
	assert_true(fake->violations > 0);
	for (i = 0; i < ENTRIES; i++)
		completion(i % 2 ? IBV_WC_RDMA_WRITE : IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS);
	no_completion();
}

/* Only what completions told of makes room in the send queue. */
TEST_IN(sq__overflows, begin, end)
{
	int i;

	connect_pair(IBV_QPT_UC);
	for (i = 0; i < 4; i++)
		assert_int_equal(write_imm(1, 1), 0);
	assert_int_equal(write_imm(1, 1), ENOMEM);
	assert_int_equal(fake->violations, 1);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	assert_int_equal(write_imm(1, 1), 0);
	assert_int_equal(write_imm(1, 1), ENOMEM);
}

TEST_IN(send__outside_of_the_region, begin, end)
{
	connect_pair(IBV_QPT_UC);
	mr->length = 50;
	assert_int_equal(write_imm(51, 1), 0);
	completion(IBV_WC_RDMA_WRITE, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(fake->violations, 1);
	assert_int_equal(qp[0]->state, IBV_QPS_ERR);
	mr->length = sizeof(mem);
}

TEST_IN(destroy__in_use, begin, end)
{
	connect_pair(IBV_QPT_UC);
	assert_int_equal(v->destroy_cq(cq), EBUSY);
	assert_int_equal(v->destroy_srq(srq), EBUSY);
	assert_int_equal(v->dealloc_pd(pd), EBUSY);
	assert_int_equal(fake->violations, 3);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

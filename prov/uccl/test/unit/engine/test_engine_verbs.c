/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whole engines on the verbs back ends, on fake NICs: addresses, handshake, messages and writes fit each other. */
#include "engine/engine.h"

#include "../tests.h"

#ifdef HAVE_VERBS

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../fake_cuda/fake_cuda.h"
#include "../nic/fake_verbs.h"
#include "base/rng.h"
#include "base/units.h"
#include "flow/wire/seal.h"
#include "engine/impl.h"
#include "hmem/cuda.h"
#include "hmem/stage.h"
#include "nic/verbs/uc_state.h"

#define ENGINES 4 /* of most tests */
#define ROOM 65
#define SECOND UCCL_NS_PER_S
#define LONG 300000
#define PATHS 16

static struct fake_verbs *fake;
static struct fake_dev *dev[2];
static struct uccl_rng rng;
static uint64_t now;
static struct uccl_engine *e[ROOM];
static int dones[ROOM], errors, last_error;
static uint64_t timeout_ns;
static uint32_t rx_bytes, window;
static int asleep; /* engines before this one are not polled */
static uint8_t src[LONG], dst[ROOM][LONG];
static struct uccl_nic *nics[ROOM];
static enum ibv_qp_type kind;
static uint32_t max_qp;
static bool apart; /* no two engines share queue pairs, as if each were a process */
static struct uccl_qp_budget *budget, shared;
static const struct uccl_addr *identity; /* of the next engine, unless NULL */
static struct uccl_stage *stage;	 /* of the next engine */
static uint8_t security;
static bool liveness;
static struct uccl_engine *late; /* is not polled */

static uint64_t clock_read(void)
{
	return now;
}

static void fill_random(void *arg, void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len--)
		*p++ = (uint8_t)uccl_rng_next(&rng);
}

static int begin(void **state)
{
	now = SECOND;
	uccl_rng_seed(&rng, 7);
	fake = fake_verbs_new();
	dev[0] = fake_verbs_add(fake, "rxe0", 1, NULL);
	dev[1] = fake_verbs_add(fake, "rxe1", 2, NULL);
	memset(e, 0, sizeof(e));
	memset(dones, 0, sizeof(dones));
	errors = last_error = 0;
	timeout_ns = 0;
	rx_bytes = window = 0;
	asleep = 0;
	kind = IBV_QPT_UD;
	max_qp = 0;
	apart = false;
	budget = NULL;
	identity = NULL;
	stage = NULL;
	security = 0;
	liveness = false;
	for (size_t i = 0; i < LONG; i++)
		src[i] = (uint8_t)uccl_rng_next(&rng);
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < ROOM; i++)
		if (e[i])
			uccl_engine_close(e[i]);
	return fake_verbs_end(fake);
}

/* As many queue pairs as these tests count, and nobody waits for credits. */
static void config(struct uccl_config *c)
{
	uccl_config_default(c);
	c->paths = PATHS;
	c->path = "pow2";
	c->credit = "none";
}

static void engine_open(int i, const char *device)
{
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {.config = &cfg, .random = fill_random, .identity = identity};
	struct uccl_nic_attr nic = {.ifname = device,
				    .max_qp = max_qp,
				    .budget = budget,
				    .rx_bytes = rx_bytes,
				    .liveness = liveness,
				    .device_rx = stage};

	attr.device = stage ? &uccl_stage_device : NULL;
	attr.device_arg = stage;
	/* What has a traffic class of its own goes by queue pairs of its own. */
	if (apart)
		nic.data_class = (uint8_t)(i * 4);

	config(&cfg);
	cfg.security = security;
	if (timeout_ns)
		cfg.peer_timeout_ns = cfg.connect_timeout_ns = timeout_ns;
	if (kind == IBV_QPT_UD)
		assert_int_equal(uccl_verbs_ud_open(fake_verbs_lib(), clock_read, &nic, &attr.nic), 0);
	else
		assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, kind, &nic, &attr.nic), 0);
	nics[i] = attr.nic;
	if (window)
		cfg.window_chunks = window;
	assert_int_equal(uccl_engine_open(&attr, now, &e[i]), 0);
}

static void done(struct uccl_op *op)
{
	int i = (int)(intptr_t)op->api;

	dones[i]++;
	errors += op->err != 0;
	last_error = op->err ? op->err : last_error;
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
	s->context = src;
	assert_int_equal(uccl_engine_send(e[from], s, now), 0);
}

static void run(uint64_t ns)
{
	for (uint64_t until = now + ns; now < until; now += 20 * UCCL_NS_PER_US) {
		for (int i = asleep; i < ROOM; i++)
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

TEST_IN(engines__roce, begin, end)
{
	open_all();
	all_pairs(1000);
	all_pairs(LONG);
	for (int i = 0; i < ENGINES; i++) {
		assert_int_equal(uccl_engine_stats(e[i])->peers_dead, 0);
		assert_int_equal(uccl_engine_stats(e[i])->dropped[UCCL_DROP_SOURCE], 0);
		assert_int_equal(uccl_engine_stats(e[i])->dropped[UCCL_DROP_TOKEN], 0);
	}
}

TEST_IN(engines__infiniband, begin, end)
{
	fake_verbs_infiniband(dev[0], 0x6d0);
	fake_verbs_infiniband(dev[1], 0x5d6);
	open_all();
	all_pairs(1000);
}

static enum fake_fate chance(void *arg, const struct fake_packet *p)
{
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
TEST_IN(engines__bad_network, begin, end)
{
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

/* Contexts of a scalable endpoint. */

#define ROW 3

static struct uccl_nic_addr row_at[ROW];

/* Engines 0 to ROW - 1 on one NIC, found by the first; engine ROW on the other. */
static void row_open(void)
{
	struct uccl_addr id;

	for (int i = 0; i < ROW; i++) {
		if (i) {
			id = *uccl_engine_addr(e[0]);
			id.incarnation += (uint64_t)i;
			identity = &id;
		}
		engine_open(i, "rxe0");
		row_at[i] = uccl_engine_addr(e[i])->nic;
	}
	identity = NULL;
	engine_open(ROW, "rxe1");
	uccl_engine_run(e[0], uccl_engine_addr(e[0])->incarnation, row_at, ROW);
}

/* What is known of context i: where the first is. */
static struct uccl_peer *row_peer(int i)
{
	struct uccl_addr a = *uccl_engine_addr(e[0]);

	a.incarnation += (uint64_t)i;
	a.indirect = i;
	return uccl_engine_peer(e[ROW], &a, true);
}

static void row_message(int i, uint64_t len)
{
	struct uccl_op *r = op_new(i, UCCL_OP_RECV, dst[i], len), *s = op_new(ROW, UCCL_OP_SEND, src, len);

	memset(dst[i], 0, len);
	assert_int_equal(uccl_engine_recv(e[i], r, now), 0);
	s->peer = row_peer(i);
	assert_int_equal(uccl_engine_send(e[ROW], s, now), 0);
}

/* To all at once, again and again: each is found, by what was known first, and is one peer. PROTOCOL R117 R118 */
static void row_talk(uint64_t len, uint64_t patience)
{
	for (int round = 1; round <= 3; round++) {
		for (int i = ROW - 1; i >= 0; i--)
			row_message(i, len);
		run(patience);
		for (int i = 0; i < ROW; i++) {
			assert_int_equal(dones[i], round);
			assert_memory_equal(dst[i], src, len);
		}
		assert_int_equal(dones[ROW], ROW * round);
	}
	assert_int_equal(errors, 0);
	assert_int_equal(uccl_engine_stats(e[ROW])->connects, ROW);
	for (int i = 0; i < ROW; i++) {
		assert_int_equal(uccl_engine_stats(e[i])->connects, 1);
		assert_memory_equal(&uccl_peer_addr(row_peer(i))->nic, &row_at[i], sizeof(row_at[i]));
	}
}

TEST_IN(row__told_by_the_first, begin, end)
{
	row_open();
	row_talk(1000, SECOND);
}

TEST_IN(row__bad_network, begin, end)
{
	row_open();
	fake->hook = chance;
	row_talk(LONG, 5 * SECOND);
}

TEST_IN(row__writes, begin, end)
{
	kind = IBV_QPT_UC;
	row_open();
	row_talk(LONG, SECOND);
}

static enum fake_fate drop_all(void *arg, const struct fake_packet *p)
{
	return FAKE_DROP;
}

/* The first one connects while it is still asked for another: it does not take that one's place. */
TEST_IN(row__first_was_faster, begin, end)
{
	row_open();
	fake->hook = drop_all;
	row_message(1, 10);
	fake->hook = NULL;
	run(UCCL_NS_PER_MS);
	row_message(0, 10);
	run(SECOND);
	assert_int_equal(dones[ROW], 2);
	assert_int_equal(dones[0] + dones[1], 2);
	assert_int_equal(errors, 0);
}

/* The endpoint has no such context: whoever answers is another incarnation, and that is an error. */
TEST_IN(row__none_of_it, begin, end)
{
	struct uccl_op *s;

	row_open();
	s = op_new(ROW, UCCL_OP_SEND, src, 10);
	s->peer = row_peer(ROW);
	assert_int_equal(uccl_engine_send(e[ROW], s, now), 0);
	run(SECOND);
	assert_int_equal(dones[ROW], 1);
	assert_int_equal(last_error, FI_ECONNRESET);
}

/* Direct writes. */

static void rxe(void)
{
	dev[0]->attr.vendor_id = dev[1]->attr.vendor_id = 0xffffff;
}

static const struct uccl_stats *st(int i)
{
	return uccl_engine_stats(e[i]);
}

/* That which engine i shares with others, if it is the first of them; else NULL. */
static const struct uc_dev *first_of(int i)
{
	if (!e[i] || !strcmp(nics[i]->ops->name, "verbs-ud"))
		return NULL;
	for (int k = 0; k < i; k++)
		if (e[k] && strcmp(nics[k]->ops->name, "verbs-ud") && uc_of(nics[k])->dev == uc_of(nics[i])->dev)
			return NULL;
	return uc_of(nics[i])->dev;
}

/* Registrations but for those of sources and under windows, which are kept. */
static int mrs_of_messages(void)
{
	int n = fake->mrs;

	for (int i = 0; i < ROOM; i++) {
		const struct uc_dev *d = first_of(i);

		n -= d ? (int)uccl_mrcache_stats(d->tx.sources).entries : 0;
		n -= d && d->windows ? (int)uccl_verbs_mws_places(d->windows).entries : 0;
	}
	return n;
}

/* One message; afterwards the receiver's buffer is its own: whatever still comes leaves it alone. */
static void message_kept(int from, int to, uint64_t ns)
{
	int before = dones[from] + dones[to], mrs = mrs_of_messages();

	message(from, to, LONG);
	for (uint64_t until = now + ns; now < until && dones[from] + dones[to] - before < 2;)
		run(5 * UCCL_NS_PER_MS);
	assert_int_equal(dones[from] + dones[to] - before, 2);
	assert_memory_equal(dst[to], src, LONG);
	assert_int_equal(mrs_of_messages(), mrs);
	memset(dst[to], 0xa5, LONG);
	fake_verbs_release(fake, false);
	run(20 * UCCL_NS_PER_MS);
	for (size_t i = 0; i < LONG; i++)
		assert_int_equal(dst[to][i], 0xa5);
}

/* Memory of the host, and of the GPU if the kernel knows it by its address. */
static void *host_only(void *addr)
{
	return fake_cuda_shadow(addr) ? NULL : addr;
}

static void *peer_or_host(void *addr)
{
	void *at = fake_cuda_shadow(addr);

	return at ? at : addr;
}

static void gpu_message(int from, void *in, bool in_device, int to, void *out, bool out_device)
{
	struct uccl_op *r = op_new(to, UCCL_OP_RECV, out, LONG), *s = op_new(from, UCCL_OP_SEND, in, LONG);

	r->device = out_device;
	s->device = in_device;
	assert_int_equal(uccl_engine_recv(e[to], r, now), 0);
	s->peer = peer(from, to);
	assert_int_equal(uccl_engine_send(e[from], s, now), 0);
	run(SECOND / 4);
}

/*
 * To and from the memory of a GPU beside engine 1; the first message comes while queue pairs are made. `read`: the NIC
 * takes all from there that it sends, also what it sends again; nobody copies.
 */
static void gpu_messages(void *gpu, bool direct, bool read)
{
	unsigned int flushes = fake_cuda_flushes(), copies;

	for (int i = 0; i < 2; i++) {
		memset(fake_cuda_shadow(gpu), 0x33, LONG);
		memset(dst[0], 0, LONG);
		gpu_message(0, src, false, 1, gpu, true);
		assert_memory_equal(fake_cuda_shadow(gpu), src, LONG);
		copies = fake_cuda_copies();
		gpu_message(1, gpu, true, 0, dst[0], false);
		assert_memory_equal(dst[0], src, LONG);
		assert_int_equal(fake_cuda_copies() == copies, read);
	}
	assert_int_equal(errors, 0);
	assert_int_equal(dones[0], 4);
	assert_int_equal(dones[1], 4);
	if (direct)
		assert_true(st(1)->writes_rx >= LONG / 32768 - 2);
	else
		assert_int_equal(st(1)->writes_rx, 0);
	assert_int_equal(fake_cuda_flushes() - flushes, direct ? 1 : 0);
}

/* From that memory only, on a network that loses, doubles and delays. */
static void gpu_bad_network(void *gpu)
{
	unsigned int copies = fake_cuda_copies();

	memcpy(fake_cuda_shadow(gpu), src, LONG);
	fake->hook = chance;
	for (int i = 0; i < 5; i++) {
		memset(dst[0], 0, LONG);
		gpu_message(1, gpu, true, 0, dst[0], false);
		run(SECOND);
		assert_memory_equal(dst[0], src, LONG);
	}
	fake->hook = NULL;
	run(SECOND / 4);
	assert_int_equal(errors, 0);
	assert_int_equal(dones[0], 5);
	assert_int_equal(dones[1], 5);
	assert_true(st(1)->rtx_packets > 0);
	assert_int_equal(fake_cuda_copies(), copies);
	/* All was held once, and by what was sent. */
	assert_int_equal(uccl_mrcache_stats(kind == IBV_QPT_UD ? ud_of(nics[1])->tx.gpu_sources.cache :
								  uc_of(nics[1])->dev->tx.gpu_sources.cache)
				 .entries,
			 1);
}

enum { BY_DMABUF, BY_ADDRESS, UNKNOWN, UNSEEN, PACKETS, SEALED, BAD_NETWORK };

static void gpu_written(int lane_peer)
{
	struct uccl_dmabufs given;
	struct uccl_stage_attr attr = {.hmem = &uccl_cuda_hmem, .given = &given};
	const char *missing;
	void *gpu;

	assert_int_equal(uccl_cuda_open(UCCL_CUDA_FILE, &missing), 0);
	fake_cuda_direct(0, lane_peer != UNSEEN, lane_peer != BY_ADDRESS && lane_peer != UNKNOWN);
	fake->peer_memory = lane_peer == BY_ADDRESS ? peer_or_host : host_only;
	gpu = fake_cuda_alloc(0, LONG);
	kind = lane_peer == PACKETS ? IBV_QPT_UD : IBV_QPT_UC;
	security = lane_peer == SEALED ? UCCL_SECURITY_CONTROL : 0;
	uccl_dmabufs_init(&given);
	engine_open(0, "rxe0");
	assert_int_equal(uccl_stage_open(&attr, &stage), 0);
	engine_open(1, "rxe1");
	if (lane_peer == BAD_NETWORK)
		gpu_bad_network(gpu);
	else
		gpu_messages(gpu, lane_peer <= BY_ADDRESS || lane_peer == SEALED,
			     lane_peer != UNKNOWN && lane_peer != SEALED);
	assert_int_equal(fake->dmabufs > 0, lane_peer != BY_ADDRESS && lane_peer != UNKNOWN);
	for (int i = 0; i < 2; i++) {
		uccl_engine_close(e[i]);
		e[i] = NULL;
	}
	uccl_stage_close(stage);
	uccl_dmabufs_fini(&given);
	fake_cuda_free(gpu);
	fake_cuda_direct(100, 1, 1);
}

/* PROTOCOL R191 R192 */
TEST_IN(gpu__by_dmabuf, begin, end)
{
	gpu_written(BY_DMABUF);
}

TEST_IN(gpu__by_address, begin, end)
{
	gpu_written(BY_ADDRESS);
}

TEST_IN(gpu__not_registered, begin, end)
{
	gpu_written(UNKNOWN);
}

TEST_IN(gpu__nobody_knows_when_it_sees, begin, end)
{
	gpu_written(UNSEEN);
}

/* PROTOCOL R221 */
TEST_IN(gpu__sent_by_packets, begin, end)
{
	gpu_written(PACKETS);
}

/* PROTOCOL R223 */
TEST_IN(gpu__sealed_is_copied, begin, end)
{
	gpu_written(SEALED);
}

/* PROTOCOL R221 */
TEST_IN(gpu__sent_on_a_bad_network, begin, end)
{
	gpu_written(BAD_NETWORK);
}

/* Payload of packets that comes to memory of a GPU by itself. */

static struct uccl_dmabufs given;
static uint8_t *gpu;
static unsigned int copies, launches;

/* Engine 1 has a GPU. What must be otherwise is said before. */
static void device_rx_begin(void)
{
	struct uccl_stage_attr attr = {.hmem = &uccl_cuda_hmem, .given = &given, .scatter = true};
	const char *missing;

	assert_int_equal(uccl_cuda_open(UCCL_CUDA_FILE, &missing), 0);
	fake->peer_memory = host_only;
	gpu = fake_cuda_alloc(0, LONG);
	uccl_dmabufs_init(&given);
	engine_open(0, "rxe0");
	assert_int_equal(uccl_stage_open(&attr, &stage), 0);
	engine_open(1, "rxe1");
	stage = NULL;
	copies = fake_cuda_copies();
	launches = fake_cuda_launches();
}

static void device_rx_end(void)
{
	struct uccl_stage *of = e[1]->msg_ep.device.arg;

	for (int i = 0; i < 2; i++) {
		uccl_engine_close(e[i]);
		e[i] = NULL;
	}
	assert_int_equal(fake_cuda_pending(), 0);
	uccl_stage_close(of);
	uccl_dmabufs_fini(&given);
	fake_cuda_free(gpu);
	fake_cuda_direct(100, 1, 1);
	fake_cuda_delay(3);
}

static struct ud_rq *device_rx_rq(void)
{
	return &ud_of(nics[1])->device.rq;
}

/* Every slot is somewhere, and once; none is with the NIC that is copied from. PROTOCOL R293 */
static void device_rx_check_slots(void)
{
	const struct engine_device_rx *l = &e[1]->device_rx;
	const struct ud_rq *q = device_rx_rq();

	assert_int_equal(l->n, q->out);
	assert_true(ud_rq_posted(q) <= q->depth && l->n <= nics[1]->caps.device_rx_slots);
	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t slot = l->slots[(l->first + i) % nics[1]->caps.device_rx_slots].slot;

		assert_false(q->posted[slot]);
		for (uint32_t k = 0; k < q->nreturned; k++)
			assert_int_not_equal(q->returned[k], slot);
	}
}

/* One message to the GPU, within some seconds, seen all the time. */
static void device_rx_message(uint64_t len, int ms)
{
	struct uccl_op *r = op_new(1, UCCL_OP_RECV, gpu, len), *s = op_new(0, UCCL_OP_SEND, src, len);
	int before = dones[0] + dones[1];

	memset(fake_cuda_shadow(gpu), 0x33, LONG);
	r->device = 1;
	assert_int_equal(uccl_engine_recv(e[1], r, now), 0);
	s->peer = peer(0, 1);
	assert_int_equal(uccl_engine_send(e[0], s, now), 0);
	for (int i = 0; i < ms && dones[0] + dones[1] - before < 2; i++) {
		run(UCCL_NS_PER_MS);
		if (device_rx_rq()->qp)
			device_rx_check_slots();
	}
	assert_int_equal(dones[0] + dones[1] - before, 2);
	assert_int_equal(errors, 0);
	assert_memory_equal(fake_cuda_shadow(gpu), src, len);
	for (uint64_t i = len; i < LONG; i++)
		assert_int_equal(((uint8_t *)fake_cuda_shadow(gpu))[i], 0x33);
}

/* PROTOCOL R291 */
TEST_IN(gpu__gathered, begin, end)
{
	unsigned int flushes = fake_cuda_flushes();
	uint64_t before;

	device_rx_begin();
	for (int i = 0; i < 3; i++) {
		before = st(1)->gathered;
		device_rx_message(LONG, 500);
		/* All but what comes with the envelope: no head comes before it is asked for. PROTOCOL R264 */
		assert_true(st(1)->gathered - before >= LONG - 4096);
	}
	assert_int_equal(st(0)->rtx_packets, 0);
	assert_int_equal(fake_cuda_flushes(), flushes);
	assert_true(fake_cuda_launches() > launches);
	/* Short ones come as they did, and so does what is for memory of the host. */
	before = st(1)->gathered;
	device_rx_message(20000, 500);
	message(0, 1, LONG);
	run(SECOND / 4);
	assert_memory_equal(dst[1], src, LONG);
	assert_int_equal(st(1)->gathered, before);
	device_rx_end();
}

/* There is memory of one device, that of the first message. */
TEST_IN(gpu__gathered_for_one_device, begin, end)
{
	uint8_t *first;

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	device_rx_begin();
	device_rx_message(LONG, 500);
	first = gpu;
	gpu = fake_cuda_alloc(1, LONG);
	e[1]->stats.gathered = 0;
	device_rx_message(LONG, 500);
	assert_int_equal(st(1)->gathered, 0);
	fake_cuda_free(gpu);
	gpu = first;
	device_rx_message(LONG, 500);
	assert_true(st(1)->gathered > 0);
	device_rx_end();
	unsetenv("FAKE_CUDA_DEVICES");
}

/* What is lost, doubled and late: what is sent again comes by the usual queue. */
TEST_IN(gpu__gathered_on_a_bad_network, begin, end)
{
	device_rx_begin();
	device_rx_message(LONG, 500);
	fake->hook = chance;
	for (int i = 0; i < 20; i++)
		device_rx_message(LONG - (uint64_t)i * 1001, 5000);
	fake->hook = NULL;
	assert_true(st(0)->rtx_packets > 0);
	assert_true(st(1)->gathered > 15 * LONG);
	device_rx_end();
}

/* The queue breaks, tells so or not, while something is under way to it. */
TEST_IN(gpu__gathered_by_a_queue_that_breaks, begin, end)
{
	uint64_t before;

	device_rx_begin();
	device_rx_message(LONG, 500);
	for (int i = 0; i < 4; i++) {
		uint32_t qpn = device_rx_rq()->qp->qp_num;

		fake_verbs_break(fake, qpn);
		if (i & 1)
			fake_verbs_event(fake, IBV_EVENT_QP_FATAL, qpn);
		/* The other one, too. */
		if (i & 2)
			fake_verbs_break(fake, ud_of(nics[1])->rx.rq.qp->qp_num);
		device_rx_message(LONG, 5000);
		run(SECOND);
		device_rx_check_slots();
		assert_int_equal(ud_rq_posted(device_rx_rq()), device_rx_rq()->depth);
		assert_int_equal(device_rx_rq()->qp->qp_num, qpn);
		before = st(1)->gathered;
		device_rx_message(LONG, 5000);
		assert_true(st(1)->gathered > before);
	}
	assert_true(ud_of(nics[1])->rx.revived >= 4);
	device_rx_end();
}

/* The NIC takes no receives for a while. */
TEST_IN(gpu__gathered_without_receives, begin, end)
{
	device_rx_begin();
	device_rx_message(LONG, 500);
	fake_verbs_fail(fake, "post_recv", 0, ENOMEM);
	for (int i = 0; i < 4; i++)
		device_rx_message(LONG, 5000);
	fake_verbs_fail(fake, "post_recv", 0, 0);
	device_rx_message(LONG, 5000);
	run(SECOND);
	assert_int_equal(ud_rq_posted(device_rx_rq()), device_rx_rq()->depth);
	device_rx_end();
}

/* Copies take long: what cannot be kept comes again, and nobody is told of the queue any more. PROTOCOL R293 */
TEST_IN(gpu__gathered_slower_than_it_comes, begin, end)
{
	struct uccl_op *r, *s;
	uint64_t before;
	uint32_t most = 0;

	rx_bytes = 1; /* the least */
	device_rx_begin();
	device_rx_message(LONG, 500);
	before = st(1)->gathered;
	fake_cuda_delay(2000);
	for (int i = 0; i < 6; i++) {
		r = op_new(1, UCCL_OP_RECV, gpu, LONG);
		s = op_new(0, UCCL_OP_SEND, src, LONG);
		r->device = 1;
		assert_int_equal(uccl_engine_recv(e[1], r, now), 0);
		s->peer = peer(0, 1);
		assert_int_equal(uccl_engine_send(e[0], s, now), 0);
		/* Two at once: more than can be kept was asked for. */
		for (int k = 0; i % 2 && k < 50; k++) {
			run(UCCL_NS_PER_MS);
			most = e[1]->device_rx.n > most ? e[1]->device_rx.n : most;
			device_rx_check_slots();
			assert_true(ud_rq_posted(device_rx_rq()) + 64 >= device_rx_rq()->depth);
		}
		/* Then no more is, but by the usual queue. */
		if (i == 1) {
			assert_int_equal(most, nics[1]->caps.device_rx_slots);
			assert_true(st(1)->gathered > before);
			assert_true(st(1)->dropped[UCCL_DROP_MEMORY] > 0);
			before = st(1)->gathered + st(1)->dropped[UCCL_DROP_MEMORY];
		} else if (i == 3) {
			assert_int_equal(st(1)->gathered + st(1)->dropped[UCCL_DROP_MEMORY], before);
		}
	}
	fake_cuda_delay(3);
	for (int k = 0; k < 20000 && dones[1] < 7; k++)
		run(UCCL_NS_PER_MS);
	assert_int_equal(dones[0], 7);
	assert_int_equal(dones[1], 7);
	assert_int_equal(errors, 0);
	assert_memory_equal(fake_cuda_shadow(gpu), src, LONG);
	device_rx_message(LONG, 500);
	device_rx_end();
}

/* Where it cannot be, payload is copied as ever. */
TEST_IN(gpu__not_gathered, begin, end)
{
	static const char *const calls[] = {"create_qp", "reg_mr", "post_recv", "modify_qp"};

	for (int i = 0; i < 12; i++) {
		/* No registration; nobody knows when it sees; no program; sealed; few parts or places of the NIC. */
		fake_cuda_direct(i == 1 ? 0 : 100, i == 1 ? 0 : 1, i != 0);
		fake_cuda_programs(i == 2 ? 0 : 1);
		security = i == 3 ? UCCL_SECURITY_CONTROL : 0;
		dev[1]->attr.max_cqe = i == 4 ? 1500 : 65536;
		device_rx_begin();
		if (i >= 8)
			fake_verbs_fail(fake, calls[i - 8], 1, ENOMEM);
		if (i == 5)
			nics[1]->caps.device_rx_slots = 0;
		/* A device that fails the flush. */
		if (i == 6)
			e[1]->device_rx.tried = true;
		for (int k = 0; k < 3; k++)
			device_rx_message(LONG, 5000);
		if (i != 7 && i < 8)
			assert_int_equal(st(1)->gathered, 0);
		/* Nobody was told of a queue. */
		assert_int_equal(st(1)->dropped[UCCL_DROP_RECORD] + st(1)->dropped[UCCL_DROP_SEAL], 0);
		fake_verbs_fail(fake, "create_qp", 0, 0);
		device_rx_end();
		memset(dones, 0, sizeof(dones));
	}
	fake_cuda_programs(1);
	security = 0;
}

/* A device that has to be told to look does not say that it has. PROTOCOL R191 */
TEST_IN(gpu__gathered_and_not_seen, begin, end)
{
	unsigned int flushes;
	uint64_t before;

	fake_cuda_direct(0, 1, 1);
	device_rx_begin();
	flushes = fake_cuda_flushes();
	device_rx_message(LONG, 500);
	/* After each look at the NIC. */
	assert_true(fake_cuda_flushes() - flushes >= st(1)->gathered / 4032 / RX_BATCH);
	assert_true(st(1)->gathered > LONG / 2);
	device_rx_end();
	memset(dones, 0, sizeof(dones));
	fake_cuda_direct(0, 3, 1);
	device_rx_begin();
	for (int i = 0; i < 2; i++) {
		before = st(1)->dropped[UCCL_DROP_MEMORY];
		device_rx_message(LONG, 5000);
		assert_int_equal(st(1)->gathered, 0);
		/* The next one is not told of the queue. */
		assert_int_equal(st(1)->dropped[UCCL_DROP_MEMORY] > before, i == 0);
	}
	device_rx_end();
}

/* Why one packet of engine 0's to the queue for devices is refused, with so much payload. */
static enum uccl_drop device_rx_refused(const struct uccl_hdr *h, uint32_t body)
{
	struct conn *c = TAILQ_FIRST(&e[0]->conns.live);
	struct uccl_tx t = {.kind = UCCL_TX_PACKET,
			    .hdr_len = UCCL_HDR_LEN,
			    .payload = src,
			    .payload_len = body,
			    .queue = device_rx_rq()->qp->qp_num,
			    .to = &c->peer.addr.nic};
	uint64_t before[UCCL_DROP_COUNT];
	enum uccl_drop reason = UCCL_DROP_COUNT;

	memcpy(before, st(1)->dropped, sizeof(before));
	uccl_hdr_encode(t.hdr, h);
	assert_int_equal(nics[0]->ops->tx(nics[0], &t, 1), 1);
	run(UCCL_NS_PER_MS);
	device_rx_check_slots();
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		if (st(1)->dropped[i] != before[i])
			reason = (enum uccl_drop)i;
	return reason;
}

/* Nothing may come there but what was asked for; whatever comes, nobody touches memory of the device. PROTOCOL R292 */
TEST_IN(gpu__gathered_nothing_else, begin, end)
{
	uint8_t rec[UCCL_REC_LEN] = {0};
	struct uccl_hdr h = {.type = UCCL_PKT_CHUNK, .rtype = UCCL_REC_DATA, .rec = rec, .payload_len = 100}, w;
	struct conn *c, *peer_at;
	struct uccl_seal seal;
	uint64_t gathered;

	device_rx_begin();
	device_rx_message(LONG, 500);
	gathered = st(1)->gathered;
	c = TAILQ_FIRST(&e[0]->conns.live);
	peer_at = TAILQ_FIRST(&e[1]->conns.live);
	uccl_seal_init(&seal, (uint8_t[UCCL_LONG_KEY]){0}, (uint8_t[UCCL_LONG_KEY]){0});
	h.token = c->hs.token_remote;
	for (int type = 0; type < 256; type++) {
		w = h;
		w.type = (uint8_t)type;
		if (type != UCCL_PKT_CHUNK && type != UCCL_PKT_SEGMENT)
			assert_int_equal(device_rx_refused(&w, 100),
					 uccl_type_known(w.type) ? UCCL_DROP_RECORD : UCCL_DROP_TYPE);
	}
	for (int rtype = 0; rtype < 256; rtype++) {
		w = h;
		w.rtype = (uint8_t)rtype;
		if (rtype != UCCL_REC_DATA && rtype != UCCL_REC_REPLY)
			assert_int_equal(device_rx_refused(&w, 100), UCCL_DROP_RECORD);
	}
	w = h;
	w.tail_len = 16;
	assert_int_equal(device_rx_refused(&w, 116), UCCL_DROP_RECORD);
	w = h;
	w.flags = UCCL_FLAG_SEALED;
	assert_int_equal(device_rx_refused(&w, 100 + UCCL_SEAL_LEN), UCCL_DROP_RECORD);
	assert_int_equal(device_rx_refused(&h, 99), UCCL_DROP_LENGTH);
	assert_int_equal(device_rx_refused(&h, 0), UCCL_DROP_LENGTH);
	w = h;
	w.token ^= 1;
	assert_int_equal(device_rx_refused(&w, 100), UCCL_DROP_TOKEN);
	w = h;
	w.path = 255;
	assert_int_equal(device_rx_refused(&w, 100), UCCL_DROP_PATH);
	/* Not of a flow that is open, or one whose packets have seals. */
	peer_at->peer.open = false;
	assert_int_equal(device_rx_refused(&h, 100), UCCL_DROP_STATE);
	peer_at->peer.open = true;
	peer_at->opened.seal = &seal;
	assert_int_equal(device_rx_refused(&h, 100), UCCL_DROP_SEAL);
	peer_at->opened.seal = NULL;
	/* Of no message. */
	w = h;
	w.csn = (uint32_t)c->peer.flow.sent.nxt;
	assert_int_equal(device_rx_refused(&w, 100), UCCL_DROP_HANDLE);
	w.csn++;
	w.type = UCCL_PKT_SEGMENT;
	assert_int_equal(device_rx_refused(&w, 100), UCCL_DROP_RECORD);
	/* Nor a sub-segment of one. */
	uccl_segment_encode(rec, (const uint8_t[UCCL_REC_LEN]){0},
			    &(struct uccl_segment){.count = 1, .subs = 2, .total = 200});
	w.rec = rec;
	assert_int_equal(device_rx_refused(&w, 100), UCCL_DROP_RECORD);
	assert_int_equal(st(1)->gathered, gathered);
	assert_int_equal(e[1]->device_rx.n, 0);
	device_rx_end();
}

/* PROTOCOL R80 R81 R82: the first message goes in packets and makes the queue pairs, the next is written, both ways. */
static void first_then_direct(void)
{
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	message_kept(0, 1, SECOND);
	assert_int_equal(st(0)->writes_tx, 0);
	message_kept(0, 1, SECOND);
	assert_true(st(0)->writes_tx > 0);
	assert_int_equal(st(1)->writes_rx, st(0)->writes_tx);
	assert_int_equal(st(1)->writes_tx, 0);
	message_kept(1, 0, SECOND);
	assert_int_equal(st(0)->writes_rx, st(1)->writes_tx);
	assert_true(st(1)->writes_tx > 0);
	assert_int_equal(st(0)->doubtful + st(1)->doubtful + st(0)->rtx_packets + st(1)->rtx_packets, 0);
	/* The one buffer that all comes from is registered once, and kept. */
	if (uccl_mrcache_keeps(uc_of(nics[0])->dev->tx.sources)) {
		assert_int_equal(st(0)->writes_in_place, st(0)->writes_tx);
		assert_int_equal(st(0)->mr_misses, 1 + (uc_of(nics[0])->dev->windows != NULL));
		assert_int_equal(st(0)->mr_hits + 1, st(0)->writes_tx);
	}
	assert_int_equal(st(0)->qp_now, PATHS);
	assert_int_equal(uc_of(nics[0])->dev->sets.made, PATHS);
	assert_int_equal(uc_of(nics[1])->dev->sets.made, PATHS);
	assert_int_equal(errors, 0);
}

TEST_IN(writes__uc_one_packet_each, begin, end)
{
	kind = IBV_QPT_UC;
	rxe();
	first_then_direct();
	/* Nearly all of it, but for what the trials let by. */
	message_kept(0, 1, SECOND);
	assert_in_range(st(0)->writes_tx, 60, 3 * LONG / 4096);
}

TEST_IN(writes__uc_large, begin, end)
{
	kind = IBV_QPT_UC;
	first_then_direct();
	/* Half as long at first. PROTOCOL R277 */
	assert_in_range(st(0)->writes_tx, 1, LONG / 16384 + 1);
}

TEST_IN(writes__rc, begin, end)
{
	kind = IBV_QPT_RC;
	rxe();
	first_then_direct();
}

TEST_IN(writes__infiniband, begin, end)
{
	kind = IBV_QPT_UC;
	fake_verbs_infiniband(dev[0], 0x6d0);
	fake_verbs_infiniband(dev[1], 0x5d6);
	first_then_direct();
}

static void write_qp_break(int i)
{
	const struct uc_peer *peer = TAILQ_FIRST(&((struct uc *)nics[i])->peers);
	const struct uc_path *p = peer && peer->set ? &peer->set->path[uccl_rng_below(&rng, peer->n)] : NULL;

	if (p && p->sq.qp)
		fake_verbs_break(fake, p->qpn);
}

/* As above, but no write is doubled: that ends writes for good (R27). */
static enum fake_fate chance_single(void *arg, const struct fake_packet *p)
{
	enum fake_fate f = chance(arg, p);

	return f == FAKE_DUP && p->type != IBV_QPT_UD ? FAKE_PASS : f;
}

/* Messages through 5 % loss, doubles, latecomers, breaking queue pairs: right, and nobody writes afterwards. */
static void bad_writes(int rounds)
{
	uint64_t writes = 0;

	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	fake->hook = chance_single;
	for (int round = 0; round < rounds; round++) {
		message_kept(round % 3 == 0, round % 3 != 0, 4 * SECOND);
		if (round % 4 == 3)
			write_qp_break(round / 4 % 2);
	}
	for (int i = 0; i < 2; i++)
		writes += st(i)->writes_tx;
	assert_true(writes > 100);
	assert_true(st(0)->doubtful + st(1)->doubtful > 0 || kind == IBV_QPT_RC);
	assert_int_equal(errors, 0);
	assert_int_equal(st(0)->peers_dead + st(1)->peers_dead, 0);
}

TEST_IN(writes__uc_bad_network, begin, end)
{
	kind = IBV_QPT_UC;
	rxe();
	bad_writes(30);
}

/* What they write to is registered once, and kept; who may write there has a window for as long. */
static void windows(void)
{
	fake_verbs_windows(dev[0]);
	fake_verbs_windows(dev[1]);
	rxe();
}

TEST_IN(writes__windows, begin, end)
{
	unsigned int before;

	kind = IBV_QPT_UC;
	windows();
	first_then_direct();
	if (!uc_of(nics[1])->dev->windows)
		skip();
	assert_int_equal(st(1)->mw_bound, 1);
	before = fake_verbs_calls(fake, "reg_mr_iova");
	for (int i = 0; i < 20; i++)
		message_kept(0, 1, SECOND);
	assert_int_equal(st(1)->mw_bound, 21);
	assert_int_equal(st(1)->mw_failed, 0);
	assert_int_equal(fake_verbs_calls(fake, "reg_mr_iova"), before);
	assert_int_equal(fake->mws, 2);
	/* None to be had: memory is registered, and messages are written all the same. */
	fake_verbs_fail(fake, "bind_mw", 1, ENOMEM);
	message_kept(0, 1, SECOND);
	assert_int_equal(st(1)->mw_bound, 21);
	assert_int_equal(st(1)->mw_failed, 1);
	assert_int_equal(fake_verbs_calls(fake, "reg_mr_iova"), before + 1);
	assert_int_equal(st(0)->doubtful + st(1)->doubtful + st(0)->rtx_packets + st(1)->rtx_packets, 0);
	assert_int_equal(errors, 0);
}

static void windows_bad_network(enum ibv_qp_type type)
{
	kind = type;
	windows();
	bad_writes(30);
	if (!uc_of(nics[0])->dev->windows)
		skip();
	for (int i = 0; i < 2; i++) {
		assert_true(st(i)->mw_bound > 5);
		/* Where a write could still come the next one has another number. */
		if (st(i)->doubtful)
			assert_true(st(i)->mr_misses > 2);
	}
}

TEST_IN(writes__windows_bad_network, begin, end)
{
	windows_bad_network(IBV_QPT_UC);
}

TEST_IN(writes__windows_bad_network_rc, begin, end)
{
	windows_bad_network(IBV_QPT_RC);
}

static enum fake_fate doubled(void *arg, const struct fake_packet *p)
{
	return p->type == IBV_QPT_UC && !uccl_rng_below(&rng, 20) ? FAKE_DUP : FAKE_PASS;
}

/* A network that doubles writes gets packets only, from the next message on. PROTOCOL R27 */
TEST_IN(writes__uc_doubled, begin, end)
{
	uint64_t writes;

	kind = IBV_QPT_UC;
	rxe();
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	fake->hook = doubled;
	while (!st(1)->dup_writes)
		message_kept(0, 1, SECOND);
	writes = st(0)->writes_tx;
	for (int i = 0; i < 3; i++)
		message_kept(0, 1, SECOND);
	assert_int_equal(st(0)->writes_tx, writes);
	assert_int_equal(errors, 0);
}

/* A NIC that behaves as Soft-RoCE, and does not say so: writes of many packets, and each loss ends a queue pair. */
TEST_IN(writes__uc_wedged, begin, end)
{
	kind = IBV_QPT_UC;
	dev[0]->wedges = dev[1]->wedges = true;
	bad_writes(60);
	assert_true(st(0)->write_renewed + st(1)->write_renewed > 0);
}

TEST_IN(writes__rc_broken, begin, end)
{
	kind = IBV_QPT_RC;
	rxe();
	bad_writes(30);
	assert_true(uc_of(nics[0])->dev->sets.made > PATHS);
}

static enum fake_fate every_fifth_write(void *arg, const struct fake_packet *p)
{
	return p->type == IBV_QPT_UC && !uccl_rng_below(&rng, 5) ? FAKE_DROP : FAKE_PASS;
}

/* PROTOCOL R101: a message loses more writes than a receiver can keep doubts of: it ends all the same. */
TEST_IN(writes__many_lost, begin, end)
{
	static uint8_t from[3 << 20], to[3 << 20];

	kind = IBV_QPT_UC;
	rxe();
	window = 64;
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	fake->hook = every_fifth_write;
	message_kept(0, 1, SECOND);
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31 + (i >> 12));
	for (int i = 0; i < 3; i++) {
		struct uccl_op *r = op_new(1, UCCL_OP_RECV, to, sizeof(to));
		struct uccl_op *o = op_new(0, UCCL_OP_SEND, from, sizeof(from));

		memset(to, 0, sizeof(to));
		dones[1] = 0;
		assert_int_equal(uccl_engine_recv(e[1], r, now), 0);
		o->peer = peer(0, 1);
		assert_int_equal(uccl_engine_send(e[0], o, now), 0);
		for (int k = 0; k < 200 && !dones[1]; k++)
			run(SECOND / 10);
		assert_int_equal(dones[1], 1);
		assert_memory_equal(from, to, sizeof(to));
	}
	assert_true(st(1)->doubtful > 64);
	assert_true(st(1)->fences > 0);
	assert_int_equal(errors, 0);
}

static enum fake_fate writes_swallowed(void *arg, const struct fake_packet *p)
{
	return p->type == IBV_QPT_UC ? FAKE_DROP : FAKE_PASS;
}

/* PROTOCOL R84: paths that swallow writes get one at a time, more and more seldom; and are back when they work. */
TEST_IN(writes__swallowed, begin, end)
{
	uint64_t writes, made;

	kind = IBV_QPT_UC;
	rxe();
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	message_kept(0, 1, SECOND);
	message_kept(0, 1, SECOND);
	fake->hook = writes_swallowed;
	writes = st(0)->writes_tx;
	made = uc_of(nics[0])->dev->sets.made;
	for (int i = 0; i < 2; i++) {
		message_kept(0, 1, 4 * SECOND);
		run(SECOND);
	}
	/* Three in a row each, one for each that was made anew, and what was under way by then. */
	assert_true(st(0)->writes_tx > writes);
	assert_true(st(0)->writes_tx - writes <= PATHS * 3 + st(0)->write_renewed + 128);
	assert_true(st(0)->write_renewed > 0);
	assert_true(uc_of(nics[0])->dev->sets.made > made);
	assert_true(uc_of(nics[0])->dev->sets.made - made < 200);
	fake->hook = NULL;
	for (int i = 0; i < 6; i++) {
		message_kept(0, 1, SECOND);
		run(SECOND / 2);
	}
	writes = st(0)->writes_tx;
	message_kept(0, 1, SECOND);
	assert_true(st(0)->writes_tx - writes > 40);
	assert_int_equal(errors, 0);
}

/*
 * The peer's host vanished: its NIC acknowledges nothing, so ours would send for seconds. What is taken back ends in
 * time all the same, and nothing reads it any more; when the host answers again all goes on. PROTOCOL R389
 */
TEST_IN(abort__rc_silent, begin, end)
{
	struct uc_dev *d;

	kind = IBV_QPT_RC;
	rxe();
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	for (int i = 0; i < 3; i++)
		message_kept(0, 1, SECOND);
	d = uc_of(nics[0])->dev;
	fake->silence = true;
	message(0, 1, LONG);
	for (uint64_t until = now + SECOND; now < until && d->tx.slab.nunused == d->tx.slab.count;)
		run(1);
	assert_true(d->tx.slab.nunused < d->tx.slab.count);
	fake->hook = drop_all;
	dones[0] = 0;
	assert_int_equal(uccl_engine_abort(e[0], src, now), 0);
	run(SECOND - UCCL_NS_PER_MS);
	assert_int_equal(dones[0], 1);
	assert_int_equal(last_error, FI_ECANCELED);
	assert_int_equal(d->tx.slab.nunused, d->tx.slab.count);
	fake->silence = false;
	fake->hook = NULL;
	run(5 * SECOND);
	assert_int_equal(dones[0], 1);
	message_kept(0, 1, 5 * SECOND);
}

/* Fewer queue pairs than peers could use: sets that nobody needs are taken back, and nothing is lost by it. */
TEST_IN(writes__reclaim, begin, end)
{
	kind = IBV_QPT_UC;
	rxe();
	max_qp = 20;
	apart = true;
	open_all();
	for (int round = 0; round < 3; round++) {
		for (int i = 1; i < ENGINES; i++) {
			for (int k = 0; k < 3; k++)
				message_kept(0, i, SECOND / 2);
			assert_true(st(i)->writes_rx > 0);
			for (int k = 0; k < 3; k++)
				message_kept(i, 0, SECOND / 2);
			assert_true(fake->qps <= ENGINES * (20 + UD_QPS + UD_CONTROL_QPS + 1));
			run(2 * SECOND);
		}
	}
	assert_true(uc_of(nics[0])->dev->sets.reclaimed >= 4);
	for (int i = 0; i < ENGINES; i++)
		assert_true(uc_of(nics[i])->dev->sets.nqps <= 20);
	assert_int_equal(errors, 0);
}

/* A peer that has no such queue pairs. */
static uint32_t qps_now(void)
{
	uint32_t n = 0;

	for (int i = 0; i < ROOM; i++)
		n += first_of(i) ? first_of(i)->sets.nqps : 0;
	return n;
}

/* Endpoints of one process: their queue pairs together are bounded, and go to those that need them. */
TEST_IN(writes__one_budget, begin, end)
{
	uint64_t before[ENGINES];

	kind = IBV_QPT_UC;
	rxe();
	/* One set of PATHS on both sides, and a little. */
	max_qp = 40;
	shared = (struct uccl_qp_budget){0};
	budget = &shared;
	apart = true;
	open_all();
	for (int i = 1; i < ENGINES; i++) {
		/* Nothing is idle yet: what is left, and packets. */
		message_kept(0, i, SECOND / 2);
		assert_true(qps_now() <= 40);
	}
	for (int round = 0; round < 3; round++) {
		for (int i = 1; i < ENGINES; i++) {
			run(2 * SECOND);
			before[i] = st(i)->writes_rx;
			for (int k = 0; k < 4; k++) {
				message_kept(0, i, SECOND / 2);
				assert_true(qps_now() <= 40);
				assert_int_equal(qps_now(), atomic_load(&shared.used));
				run(SECOND / 4);
			}
			assert_true(st(i)->writes_rx > before[i]);
		}
	}
	assert_int_equal(errors, 0);
	for (int i = 0; i < ENGINES; i++) {
		uccl_engine_close(e[i]);
		e[i] = NULL;
	}
	assert_int_equal(atomic_load(&shared.used), 0);
}

TEST_IN(writes__to_packets_only, begin, end)
{
	rxe();
	engine_open(0, "rxe0");
	kind = IBV_QPT_UC;
	engine_open(1, "rxe1");
	for (int i = 0; i < 3; i++) {
		message_kept(0, 1, SECOND);
		message_kept(1, 0, SECOND);
	}
	assert_int_equal(st(0)->writes_tx + st(1)->writes_tx, 0);
	assert_int_equal(errors, 0);
}

/* The NIC itself. */

static enum fake_fate nothing_passes(void *arg, const struct fake_packet *p)
{
	return FAKE_DROP;
}

static void port_set(int i, enum ibv_port_state state)
{
	fake->hook = state == IBV_PORT_ACTIVE ? NULL : nothing_passes;
	dev[i]->port[0].state = state;
	fake_verbs_event(fake, state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 0);
}

/* The link goes in the middle of a message, for longer than any time-out, and comes back: nobody sees an error. */
TEST_IN(link__down_and_up, begin, end)
{
	kind = IBV_QPT_UC;
	rxe();
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	message_kept(0, 1, SECOND);
	for (int i = 0; i < 2; i++) {
		int before = dones[0] + dones[1];

		message(0, 1, LONG);
		/* The first knows nothing of the network. */
		run((i ? 15 : 25) * UCCL_NS_PER_US);
		port_set(i, IBV_PORT_DOWN);
		run(20 * SECOND);
		assert_true(dones[0] + dones[1] - before < 2);
		port_set(i, IBV_PORT_ACTIVE);
		run(SECOND / 2);
		assert_int_equal(dones[0] + dones[1] - before, 2);
		assert_memory_equal(dst[1], src, LONG);
		assert_int_equal(st(i)->link_downs, 1);
		message_kept(0, 1, SECOND);
		message_kept(1, 0, SECOND);
	}
	assert_int_equal(errors, 0);
	assert_int_equal(st(0)->peers_dead + st(1)->peers_dead, 0);
}

/* Coarser: for times in which little happens. */
static void run_long(uint64_t ns)
{
	for (uint64_t until = now + ns; now < until; now += 20 * UCCL_NS_PER_MS)
		for (int i = 0; i < ROOM; i++)
			if (e[i])
				uccl_engine_poll(e[i], now);
}

/*
 * The address of a NIC goes in the middle of a message, as it does when an interface is configured anew, and comes back
 * after longer than any time-out, also with another index: nobody sees an error.
 */
TEST_IN(gid__gone_and_back, begin, end)
{
	rxe();
	kind = IBV_QPT_UC;
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	message_kept(0, 1, SECOND);
	message_kept(0, 1, SECOND);
	assert_true(st(0)->writes_tx > 0);
	for (int k = 0; k < 4; k++) {
		struct fake_port *p = &dev[k % 2]->port[0];
		struct fake_port was = *p;
		int before = dones[0] + dones[1];

		message(0, 1, LONG);
		run(20 * UCCL_NS_PER_US);
		p->ngids = 0;
		fake->hook = nothing_passes;
		fake_verbs_event(fake, IBV_EVENT_GID_CHANGE, 0);
		run(20 * SECOND);
		assert_true(dones[0] + dones[1] - before < 2);
		*p = was;
		for (int i = 0; k >= 2 && i < p->ngids; i++)
			p->gid[i].gid_index += 2;
		fake->hook = NULL;
		fake_verbs_event(fake, IBV_EVENT_GID_CHANGE, 0);
		run(SECOND);
		assert_int_equal(dones[0] + dones[1] - before, 2);
		assert_memory_equal(dst[1], src, LONG);
		message_kept(0, 1, SECOND);
		message_kept(1, 0, SECOND);
	}
	assert_int_equal(errors, 0);
	assert_int_equal(st(0)->peers_dead + st(1)->peers_dead, 0);
}

/*
 * The link comes back after an hour: nothing has failed, of peers that had nothing to say, and, with longer time-outs,
 * of one in the middle of a message; and it does not take long then.
 */
TEST_IN(link__an_hour, begin, end)
{
	for (int busy = 0; busy < 2; busy++) {
		int before;

		timeout_ns = (busy ? 7200u : 600u) * SECOND;
		kind = IBV_QPT_UC;
		if (!busy)
			rxe();
		engine_open(0, "rxe0");
		engine_open(1, "rxe1");
		message_kept(0, 1, SECOND);
		before = dones[0] + dones[1];
		if (busy) {
			message(0, 1, LONG);
			run(40 * UCCL_NS_PER_US);
		}
		port_set(0, IBV_PORT_DOWN);
		run_long(3600 * SECOND);
		assert_int_equal(errors, 0);
		port_set(0, IBV_PORT_ACTIVE);
		if (busy) {
			run(2 * SECOND);
			assert_int_equal(dones[0] + dones[1] - before, 2);
			assert_memory_equal(dst[1], src, LONG);
		}
		message_kept(0, 1, 2 * SECOND);
		message_kept(1, 0, 2 * SECOND);
		assert_int_equal(st(0)->peers_dead + st(1)->peers_dead, 0);
		for (int i = 0; i < 2; i++) {
			uccl_engine_close(e[i]);
			e[i] = NULL;
		}
	}
	assert_int_equal(errors, 0);
}

/* Devices of rails, by the numbers of their queue pairs. */
#define RAIL_QPNS 100000u
static uint32_t dead_rail;
static struct fake_dev *rail_dev[4];

static enum fake_fate rail_dead(void *arg, const struct fake_packet *p)
{
	return p->src_qpn / RAIL_QPNS == dead_rail || p->dst_qpn / RAIL_QPNS == dead_rail ? FAKE_DROP : FAKE_PASS;
}

/* Engines 0 and 1 with two NICs each: rxe0 and rxe2, rxe1 and rxe3; `linkless` has no link. */
static void rails_open(int linkless)
{
	static const char *const name[] = {"rxe0", "rxe1", "rxe2", "rxe3"};
	struct fake_dev *d[4] = {dev[0], dev[1]};
	struct uccl_nic *rail[2];
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {.config = &cfg, .random = fill_random};

	config(&cfg);
	for (uint8_t i = 0; i < 4; i++) {
		if (i >= 2)
			d[i] = fake_verbs_add(fake, name[i], i + 1, NULL);
		d[i]->attr.vendor_id = 0xffffff;
		d[i]->next_qpn = (i + 1) * RAIL_QPNS;
		d[i]->port[0].state = i == linkless ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
		rail_dev[i] = d[i];
	}
	for (int i = 0; i < 2; i++) {
		for (int r = 0; r < 2; r++) {
			struct uccl_nic_attr nic = {.ifname = name[2 * r + i], .linkless = r};

			assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &nic, &rail[r]),
					 0);
		}
		nics[i] = rail[0];
		assert_int_equal(uccl_nic_rails_open(rail, 2, &attr.nic), 0);
		assert_int_equal(uccl_engine_open(&attr, now, &e[i]), 0);
	}
}

/*
 * One rail goes in the middle of a message, on either side, with and without the NIC saying so: the other one carries
 * the rest, and nobody sees an error.
 */
TEST_IN(link__another_rail, begin, end)
{
	rails_open(-1);
	message_kept(0, 1, SECOND);
	message_kept(0, 1, SECOND);
	assert_true(st(0)->writes_tx > 0);
	for (int k = 0; k < 6; k++) {
		int before = dones[0] + dones[1], side = k % 2;

		message(0, 1, LONG);
		run(40 * UCCL_NS_PER_US);
		dead_rail = (uint32_t)(k / 2 == 1 ? side + 2 : side) + 1;
		fake->hook = rail_dead;
		if (k / 2 == 2) {
			dev[side]->port[0].state = IBV_PORT_DOWN;
			fake_verbs_event(fake, IBV_EVENT_PORT_ERR, 0);
		}
		for (int i = 0; i < 50 && dones[0] + dones[1] - before < 2; i++)
			run(SECOND / 10);
		assert_int_equal(dones[0] + dones[1] - before, 2);
		assert_memory_equal(dst[1], src, LONG);
		message_kept(0, 1, 5 * SECOND);
		message_kept(1, 0, 5 * SECOND);
		fake->hook = NULL;
		dev[side]->port[0].state = IBV_PORT_ACTIVE;
		fake_verbs_event(fake, IBV_EVENT_PORT_ACTIVE, 0);
		run(SECOND / 2);
	}
	assert_int_equal(errors, 0);
	assert_int_equal(st(0)->peers_dead + st(1)->peers_dead + st(0)->link_downs + st(1)->link_downs, 0);
}

/* Packets of the second rail, either way. */
static uint64_t second_rail;

static enum fake_fate second_counted(void *arg, const struct fake_packet *p)
{
	second_rail += p->src_qpn / RAIL_QPNS > 2;
	return rail_dead(arg, p);
}

/*
 * A rail that has no link when the endpoint opens, at either side: the other one serves alone, and nobody sees an
 * error; once there is a link it is used, and serves alone when the first one dies. PROTOCOL R252
 */
static void rail_comes(int side)
{
	rails_open(2 + side);
	dead_rail = 0;
	second_rail = 0;
	fake->hook = second_counted;
	for (int i = 0; i < 3; i++) {
		message_kept(0, 1, 5 * SECOND);
		message_kept(1, 0, 5 * SECOND);
	}
	assert_true(st(0)->writes_tx > 0);
	/* What the other side sends there is lost, as it may: it has a link. */
	second_rail = 0;
	rail_dev[2 + side]->port[0].state = IBV_PORT_ACTIVE;
	fake_verbs_event(fake, IBV_EVENT_PORT_ACTIVE, 0);
	for (int i = 0; i < 20 && !second_rail; i++) {
		message_kept(side, !side, 5 * SECOND);
		run(SECOND / 2);
	}
	assert_true(second_rail > 0);
	dead_rail = 1;
	message_kept(0, 1, 10 * SECOND);
	message_kept(1, 0, 10 * SECOND);
	assert_int_equal(errors, 0);
	assert_int_equal(st(0)->peers_dead + st(1)->peers_dead + st(0)->link_downs + st(1)->link_downs, 0);
}

TEST_IN(link__rail_comes_later, begin, end)
{
	rail_comes(0);
}

TEST_IN(link__peers_rail_comes_later, begin, end)
{
	rail_comes(1);
}

/* Device removed: each operation ends once, by an error that says so, and so does each that is posted later. */
TEST_IN(link__gone, begin, end)
{
	struct uccl_op *op;

	kind = IBV_QPT_UC;
	rxe();
	open_all();
	message_kept(0, 1, SECOND);
	memset(dones, 0, sizeof(dones));
	fake->hook = nothing_passes;
	for (int i = 0; i < 2; i++) {
		message(0, 1, LONG);
		message(1, 0, LONG);
	}
	run(SECOND);
	assert_int_equal(dones[0] + dones[1], 0);
	fake_verbs_detach(fake);
	run(SECOND);
	/* Two sends and two receives each. */
	assert_int_equal(dones[0], 4);
	assert_int_equal(dones[1], 4);
	assert_int_equal(errors, 8);
	assert_int_equal(last_error, FI_ENODEV);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(st(i)->peers_dead, 1);
		assert_int_equal(st(i)->link_downs, 1);
	}
	/* Later ones. */
	memset(dones, 0, sizeof(dones));
	errors = last_error = 0;
	assert_int_equal(uccl_engine_recv(e[1], op_new(1, UCCL_OP_RECV, dst[1], LONG), now), 0);
	assert_int_equal(dones[1], 1);
	assert_int_equal(last_error, FI_ENODEV);
	for (int to = 1; to < 3; to++) { /* one that was connected, one that never was */
		op = op_new(0, UCCL_OP_SEND, src, 100);
		op->peer = peer(0, to);
		assert_int_equal(uccl_engine_send(e[0], op, now), -FI_ENODEV);
		uccl_op_put(e[0], op);
	}
}

/* What had come whole can still be received. PROTOCOL R46 */
TEST_IN(link__gone_later_received, begin, end)
{
	struct uccl_op *op;

	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	op = op_new(0, UCCL_OP_SEND, src, 100);
	op->peer = peer(0, 1);
	assert_int_equal(uccl_engine_send(e[0], op, now), 0);
	run(SECOND / 10);
	fake_verbs_event(fake, IBV_EVENT_DEVICE_FATAL, 0);
	run(SECOND / 10);
	assert_int_equal(uccl_engine_recv(e[1], op_new(1, UCCL_OP_RECV, dst[1], 100), now), 0);
	assert_int_equal(dones[1], 1);
	assert_int_equal(errors, 0);
	assert_memory_equal(dst[1], src, 100);
}

/* Time-outs that a person has set hold; the error tells whose link it was. */
TEST_IN(link__down_too_long, begin, end)
{
	timeout_ns = 5 * SECOND;
	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	engine_open(2, "rxe0");
	message(0, 1, 100);
	run(SECOND / 10);
	assert_int_equal(errors, 0);
	port_set(0, IBV_PORT_DOWN);
	message(0, 1, LONG);
	message(2, 1, LONG);
	run(4 * SECOND);
	assert_int_equal(errors, 0);
	run(3 * SECOND);
	/* The message that had begun, and the one to a peer that was never reached. */
	assert_int_equal(errors, 2);
	assert_int_equal(last_error, FI_ENETDOWN);
}

/* Messages to a peer that ends, or does not look, before it ever answered; and others go on. */
static void silent_peer(bool ended)
{
	struct uccl_peer *silent;
	struct uccl_op *op;

	rxe();
	engine_open(1, "rxe1");
	engine_open(0, "rxe0");
	engine_open(2, "rxe1");
	silent = peer(0, 1);
	if (ended)
		uccl_engine_close(e[1]);
	late = ended ? NULL : e[1];
	e[1] = NULL;
	for (int i = 0; i < 3; i++) {
		op = op_new(0, UCCL_OP_SEND, src, i ? LONG : 100);
		op->peer = silent;
		assert_int_equal(uccl_engine_send(e[0], op, now), 0);
	}
	message_kept(0, 2, SECOND);
}

static void silent_peer_failed(void)
{
	assert_int_equal(errors, 3);
	assert_int_equal(last_error, FI_EHOSTUNREACH);
	assert_int_equal(st(0)->peers_dead, 1);
	message_kept(0, 2, SECOND);
	assert_int_equal(errors, 3);
}

/* A peer that ended before it ever answered: nobody says so, and the time to connect is all that ends what waits. */
TEST_IN(peer__ended_before_it_answered, begin, end)
{
	timeout_ns = 5 * SECOND;
	kind = IBV_QPT_UC;
	silent_peer(true);
	run(3 * SECOND);
	assert_int_equal(errors, 0);
	run(4 * SECOND);
	silent_peer_failed();
}

/* But its host, where it can be asked: within seconds, whatever time there is to connect. PROTOCOL R251 */
TEST_IN(peer__its_host_asked, begin, end)
{
	static const enum ibv_qp_type kinds[] = {IBV_QPT_UC, IBV_QPT_UD};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (i) {
			assert_int_equal(end(state), 0);
			begin(state);
		}
		kind = kinds[i];
		liveness = true;
		for (int d = 0; d < 2; d++)
			fake_verbs_local(dev[d], (uint8_t)(d + 1));
		silent_peer(true);
		run(3 * SECOND);
		silent_peer_failed();
	}
}

/* Who listens and does not look is late, not gone. */
TEST_IN(peer__late, begin, end)
{
	kind = IBV_QPT_UC;
	liveness = true;
	for (int d = 0; d < 2; d++)
		fake_verbs_local(dev[d], (uint8_t)(d + 1));
	silent_peer(false);
	run(20 * SECOND);
	assert_int_equal(errors, 0);
	e[1] = late;
	run(3 * SECOND);
	/* The short one of the three is there. */
	assert_int_equal(st(0)->connects, 2);
	assert_int_equal(errors, 0);
}

/*
 * E4: a shared queue of so many receives, `rx_bytes` of packets, and senders of large messages, each a process; and
 * for 50 ms the receiver does not look. No packet and no write of theirs finds it without a receive.
 */
static void many_senders(int senders, int srq, uint64_t len, uint64_t writes)
{
	kind = IBV_QPT_UC;
	rxe();
	max_qp = 2048;
	dev[0]->attr.max_qp = dev[1]->attr.max_qp = 100000;
	dev[0]->attr.max_srq_wr = srq;
	apart = true;
	for (int i = 0; i <= senders; i++)
		engine_open(i, i ? "rxe1" : "rxe0");
	for (int round = 0; round < 2; round++) {
		memset(dones, 0, sizeof(dones));
		for (int i = 1; i <= senders; i++) {
			struct uccl_op *r = op_new(0, UCCL_OP_RECV, dst[i], len);
			struct uccl_op *s = op_new(i, UCCL_OP_SEND, src, len);

			memset(dst[i], 0, len);
			assert_int_equal(uccl_engine_recv(e[0], r, now), 0);
			s->peer = peer(i, 0);
			assert_int_equal(uccl_engine_send(e[i], s, now), 0);
		}
		run(10 * UCCL_NS_PER_MS);
		asleep = 1;
		run(50 * UCCL_NS_PER_MS);
		asleep = 0;
		for (int k = 0; k < 1000 && dones[0] < senders; k++)
			run(5 * UCCL_NS_PER_MS);
		assert_int_equal(dones[0], senders);
		for (int i = 1; i <= senders; i++)
			assert_memory_equal(dst[i], src, len);
	}
	assert_int_equal(errors, 0);
	assert_true(st(0)->writes_rx > writes);
	assert_int_equal(fake->stats.no_receive, 0);
}

TEST_IN(receives__many_senders, begin, end)
{
	rx_bytes = 1;
	many_senders(32, 128, LONG, 500);
}

/* PROTOCOL R95: two at a time write, the others send packets. */
TEST_IN(receives__eight, begin, end)
{
	many_senders(64, 8, LONG / 3, 20);
}

/* Endpoints of two processes, all of which write to all: the queue pairs of one set. */
TEST_IN(endpoints__one_set, begin, end)
{
	kind = IBV_QPT_UC;
	rxe();
	for (int i = 0; i < 8; i++)
		engine_open(i, i % 2 ? "rxe1" : "rxe0");
	for (int round = 0; round < 3; round++)
		for (int a = 0; a < 8; a++)
			for (int b = !(a % 2); b < 8; b += 2)
				message_kept(a, b, SECOND);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(st(i)->qp_now, PATHS);
		assert_true(st(i)->writes_tx > 2 * LONG / 4096);
		assert_true(st(i)->writes_rx > 2 * LONG / 4096);
	}
	assert_int_equal(uc_of(nics[0])->dev->sets.made, PATHS);
	assert_int_equal(uc_of(nics[1])->dev->sets.made, PATHS);
	/* Those that are left go on when others end. */
	for (int i = 0; i < 4; i++) {
		uccl_engine_close(e[i]);
		e[i] = NULL;
	}
	run(SECOND);
	message_kept(4, 5, SECOND);
	message_kept(7, 6, SECOND);
	assert_int_equal(st(4)->qp_now, PATHS);
	assert_int_equal(errors, 0);
}

/* Another process on the peer's host. */

/* E17: packets to the queue pair that all may send to, without its key, or without a token. */
TEST_IN(strangers__packets, begin, end)
{
	struct uccl_hdr h = {.type = UCCL_PKT_CLOSE, .token = 0x1234};
	struct uccl_nic_attr attr = {.ifname = "rxe1"};
	struct uccl_nic_addr to;
	struct uccl_nic *nic;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .hdr_len = UCCL_HDR_LEN, .to = &to};

	engine_open(0, "rxe0");
	engine_open(1, "rxe1");
	message_kept(0, 1, SECOND);
	assert_int_equal(uccl_verbs_ud_open(fake_verbs_lib(), clock_read, &attr, &nic), 0);
	uccl_hdr_encode(t.hdr, &h);
	/* Numbers of queue pairs are easy to guess; what is random in the address is not. */
	for (int bit = 0; bit < 30; bit++) {
		to = uccl_engine_addr(e[0])->nic;
		if (bit < 16)
			to.port ^= (uint16_t)(1u << bit);
		else
			to.pad ^= (uint16_t)(1u << (bit - 16));
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	}
	run(UCCL_NS_PER_MS);
	assert_int_equal(fake->stats.bad_qkey, 30);
	assert_int_equal(st(0)->dropped[UCCL_DROP_TOKEN], 0);
	to = uccl_engine_addr(e[0])->nic;
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	run(UCCL_NS_PER_MS);
	assert_int_equal(st(0)->dropped[UCCL_DROP_TOKEN], 1);
	message_kept(1, 0, SECOND);
	assert_int_equal(errors, 0);
	nic->ops->close(nic);
}

/* A UC queue pair that sends to `qpn` of the first device. */
static struct ibv_qp *stranger_qp(const struct uccl_verbs *lib, struct ibv_pd *pd, struct ibv_cq *cq, uint32_t qpn)
{
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = qpn};
	struct ibv_qp *qp;

	init.cap.max_send_wr = init.cap.max_send_sge = 16;
	qp = lib->create_qp(pd, &init);
	assert_int_equal(lib->modify_qp(qp, &a, init_mask), 0);
	a.qp_state = IBV_QPS_RTR;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.sgid_index = 3;
	memcpy(a.ah_attr.grh.dgid.raw, dev[0]->port[0].gid[3].gid.raw, 16);
	assert_int_equal(lib->modify_qp(qp, &a, rtr_mask), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(lib->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

/*
 * E14, E16: a stranger on the peer's NIC knows a queue pair, and guesses keys that are in use and places of memory. No
 * byte is written, no queue pair ends, and the peers go on.
 */
TEST_IN(strangers__writes, begin, end)
{
	const struct uccl_verbs *lib = fake_verbs_lib();
	struct uc_peer *victim;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint64_t bad, rkey, raddr;
	void *open_mr;

	kind = IBV_QPT_UC;
	rxe();
	first_then_direct();
	victim = TAILQ_FIRST(&((struct uc *)nics[0])->peers);
	memset(dst[0], 0xa5, LONG);
	assert_int_equal(nics[0]->ops->reg(nics[0], dst[0], LONG, &open_mr, &rkey, &raddr), 0);
	ctx = lib->open_device(&dev[1]->dev);
	pd = lib->alloc_pd(ctx);
	cq = lib->create_cq(ctx, 16, NULL, NULL, 0);
	mr = lib->reg_mr(pd, src, LONG, IBV_ACCESS_LOCAL_WRITE);
	qp = stranger_qp(lib, pd, cq, victim->set->path[0].qpn);
	bad = fake->stats.bad_rkey;
	for (int i = 0; i < 1000; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)src, .length = 512, .lkey = mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = (uint32_t)uccl_rng_next(&rng)},
				   *no;

		/* The right key is among the guesses: then the place is what keeps it out. */
		wr.wr.rdma.rkey = i % 2 ? (uint32_t)rkey : (uint32_t)(rkey - 50 + (unsigned int)i / 10);
		wr.wr.rdma.remote_addr = i % 3 ? uccl_rng_next(&rng) >> 1 : (uintptr_t)dst[0];
		assert_int_equal(lib->post_send(qp, &wr, &no), 0);
		assert_int_equal(lib->poll_cq(cq, 1, &wc), 1);
		if (i % 50 == 0)
			run(100 * UCCL_NS_PER_US);
	}
	run(10 * UCCL_NS_PER_MS);
	assert_int_equal(fake->stats.bad_rkey - bad, 1000);
	assert_int_equal(fake->stats.no_receive, 0);
	assert_int_equal(uc_of(nics[0])->dev->rx.errors, 1000);
	for (size_t i = 0; i < LONG; i++)
		assert_int_equal(dst[0][i], 0xa5);
	nics[0]->ops->dereg(nics[0], open_mr, true);
	message_kept(1, 0, SECOND);
	message_kept(0, 1, SECOND);
	assert_int_equal(uc_of(nics[0])->dev->sets.made, PATHS);
	assert_int_equal(errors, 0);
	lib->destroy_qp(qp);
	lib->dereg_mr(mr);
	lib->destroy_cq(cq);
	lib->dealloc_pd(pd);
	lib->close_device(ctx);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

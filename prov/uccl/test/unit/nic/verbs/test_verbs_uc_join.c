/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints of a process that share queue pairs, on fake NICs (verbs_uc_join.c, verbs_uc_dev.c). */
#include "nic/verbs/uc_state.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/rng.h"
#include "../fake_verbs.h"

#define PATHS 4
#define NEPS 40 /* at most */
#define LEN 512

static const char *const device_name[] = {"rxe0", "rxe1", "rxe2"};
static struct fake_verbs *fake;
static struct uccl_rng rng;
static uint64_t now;
static struct uccl_nic *nic[NEPS];
static struct uccl_nic_peer *flow[NEPS][NEPS]; /* [of this one][to that one] */
static int neps;
static uint8_t src[65536], dst[NEPS][65536];
static struct {
	int writes, freed;
	bool on[NEPS][PATHS];
	struct uccl_rx last;
} got[NEPS];
static struct {
	int from, to;
	uint32_t len;
	uint8_t buf[256];
} said[8192];
static int nsaid;

static uint64_t clock_read(void)
{
	return now += UCCL_NS_PER_US;
}

static int begin(void **state)
{
	now = UCCL_NS_PER_S;
	uccl_rng_seed(&rng, 9);
	fake = fake_verbs_new();
	for (uint8_t i = 0; i < 3; i++)
		fake_verbs_add(fake, device_name[i], i + 1, NULL)->attr.max_qp = 100000;
	memset(nic, 0, sizeof(nic));
	memset(flow, 0, sizeof(flow));
	memset(got, 0, sizeof(got));
	neps = nsaid = 0;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)uccl_rng_next(&rng);
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < neps; i++)
		if (nic[i])
			nic[i]->ops->close(nic[i]);
	return fake_verbs_end(fake);
}

static struct uc_dev *dev(int ep)
{
	return uc_of(nic[ep])->dev;
}

static struct uc_peer *peer(int a, int b)
{
	return (struct uc_peer *)flow[a][b];
}

/* An endpoint on rxe0, rxe1 or rxe2, whose process has the number of the device, plus one. */
static int ep_open(int device)
{
	struct uccl_nic_attr attr = {.ifname = device_name[device]};
	int i = neps++;

	assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &nic[i]), 0);
	dev(i)->process = (uint64_t)device + 1;
	return i;
}

static void ep_close(int i)
{
	nic[i]->ops->close(nic[i]);
	nic[i] = NULL;
	for (int k = 0; k < neps; k++)
		flow[i][k] = NULL;
}

static void flow_open(int a, int b)
{
	struct uccl_nic_addr to;

	for (int i = 0; i < 2; i++) {
		int x = i ? b : a, y = i ? a : b;

		nic[y]->ops->addr(nic[y], &to);
		assert_int_equal(nic[x]->ops->connect(nic[x], &to, 1000 * (uint64_t)(x + 1) + (uint64_t)y, PATHS,
						      &flow[x][y]),
				 0);
	}
}

static void events(int i)
{
	struct uccl_rx v[8];
	int n;

	do {
		n = nic[i]->ops->rx(nic[i], v, 8, NULL, 0);
		for (int k = 0; k < n; k++) {
			int other = (int)(v[k].peer_id % 1000);

			assert_int_equal(v[k].peer_id / 1000, i + 1);
			if (v[k].kind == UCCL_RX_SENT) {
				got[i].freed++;
				continue;
			}
			assert_ptr_equal(v[k].peer, flow[i][other]);
			if (v[k].kind == UCCL_RX_WRITE) {
				got[i].writes++;
				got[i].last = v[k];
			} else {
				got[i].on[other][v[k].path] = v[k].kind == UCCL_RX_WRITE_ON;
			}
		}
	} while (n);
}

static void say(int from, int to)
{
	if (!flow[from][to])
		return;
	while ((said[nsaid].len = nic[from]->ops->offer(nic[from], flow[from][to], said[nsaid].buf,
							16 << uccl_rng_below(&rng, 5)))) {
		said[nsaid].from = from;
		said[nsaid++].to = to;
		assert_true(nsaid < 8192);
	}
}

static void hear(int i)
{
	int a = said[i].from, b = said[i].to;

	if (flow[b][a] && flow[a][b])
		assert_int_equal(nic[b]->ops->accept(nic[b], flow[b][a], said[i].buf, said[i].len), 0);
	said[i] = said[--nsaid];
}

/* All is said and heard, in any order. */
static void settle(void)
{
	do {
		while (nsaid)
			hear((int)uccl_rng_below(&rng, (uint64_t)nsaid));
		for (int a = 0; a < neps; a++) {
			if (nic[a])
				events(a);
			for (int b = 0; b < neps; b++)
				say(a, b);
		}
	} while (nsaid);
}

static void prepare_all(void)
{
	for (int a = 0; a < neps; a++)
		for (int b = 0; b < neps; b++)
			if (flow[a][b] && nic[a]->ops->prepare(nic[a], flow[a][b]) == 0)
				nic[a]->ops->finish(nic[a], flow[a][b]);
}

static void join(void)
{
	for (int i = 0; i < 4; i++) {
		prepare_all();
		settle();
		now += 200 * UCCL_NS_PER_MS;
	}
	for (int a = 0; a < neps; a++)
		for (int b = 0; b < neps; b++)
			for (int k = 0; flow[a][b] && k < PATHS; k++)
				assert_true(got[a].on[b][k]);
}

/* Half a kilobyte, to the beginning of what `mr` of b is. */
static void write_one(int a, int b, uint16_t path, uint64_t rkey, uint64_t raddr)
{
	struct uccl_tx t = {.kind = UCCL_TX_WRITE,
			    .path = path,
			    .payload = src,
			    .payload_len = LEN,
			    .rkey = rkey,
			    .raddr = raddr,
			    .peer = flow[a][b]};

	assert_int_equal(nic[a]->ops->tx(nic[a], &t, 1), 1);
}

/* One write on each path: they come to the right endpoint and place, and nowhere else. */
static void writes(int a, int b)
{
	uint64_t rkey, raddr;
	void *mr;

	assert_int_equal(nic[b]->ops->reg(nic[b], dst[b], sizeof(dst[b]), &mr, &rkey, &raddr), 0);
	for (uint16_t k = 0; k < PATHS; k++) {
		uint32_t imm = (uint32_t)uccl_rng_next(&rng) >> (32 - UCCL_IMM_BITS), off = k * 2u * LEN;
		struct uccl_tx t = {.kind = UCCL_TX_WRITE,
				    .path = k,
				    .payload = src + off,
				    .payload_len = LEN,
				    .imm = imm,
				    .rkey = rkey,
				    .raddr = raddr + off,
				    .peer = flow[a][b]};
		int came = got[b].writes, freed = got[a].freed;

		memset(dst[b], 0, sizeof(dst[b]));
		assert_int_equal(nic[a]->ops->tx(nic[a], &t, 1), 1);
		/* Whoever of the process asks first. */
		for (int i = 0; i < neps; i++)
			if (nic[i])
				events(i);
		assert_int_equal(got[b].writes - came, 1);
		assert_int_equal(got[a].freed - freed, 1);
		assert_int_equal(got[b].last.imm, imm);
		assert_int_equal(got[b].last.path, k);
		assert_ptr_equal(got[b].last.peer, flow[b][a]);
		assert_memory_equal(dst[b] + off, src + off, LEN);
	}
	nic[b]->ops->dereg(nic[b], mr, true);
}

/* Two processes of `n` endpoints each, all of which talk to all. */
static void mesh_open(int n)
{
	for (int i = 0; i < 2 * n; i++)
		ep_open(i % 2);
	for (int a = 0; a < 2 * n; a += 2)
		for (int b = 1; b < 2 * n; b += 2)
			flow_open(a, b);
}

TEST_IN(share__one_set, begin, end)
{
	mesh_open(4);
	assert_ptr_equal(dev(0), dev(2));
	assert_ptr_not_equal(dev(0), dev(1));
	join();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(dev(i)->sets.nqps, PATHS);
		assert_int_equal(dev(i)->sets.made, PATHS);
		assert_int_equal(dev(i)->refused, 0);
	}
	for (int a = 0; a < 8; a += 2)
		for (int b = 1; b < 8; b += 2) {
			writes(a, b);
			writes(b, a);
		}
	assert_int_equal(fake->stats.no_receive, 0);
}

/* A set has room for sixteen flows; the next make another one. */
TEST_IN(share__full, begin, end)
{
	mesh_open(5);
	join();
	assert_int_equal(dev(0)->sets.nqps, 2 * PATHS);
	assert_int_equal(dev(1)->sets.nqps, 2 * PATHS);
	for (int a = 0; a < 10; a += 2)
		for (int b = 1; b < 10; b += 2)
			writes(a, b);
}

/* PROTOCOL R97: the number of a flow that left is the last to be given again: a late write may carry it. */
TEST_IN(share__numbers, begin, end)
{
	uint8_t last;

	mesh_open(2);
	join();
	last = peer(0, 1)->number;
	for (int i = 0; i < 12; i++) {
		for (int k = 0; k < 2; k++) {
			nic[k]->ops->disconnect(nic[k], flow[k][!k]);
			flow[k][!k] = NULL;
		}
		memset(got[0].on[1], 0, sizeof(got[0].on[1]));
		memset(got[1].on[0], 0, sizeof(got[1].on[0]));
		flow_open(0, 1);
		join();
		assert_int_not_equal(peer(0, 1)->number, last);
		assert_int_equal(peer(0, 1)->number, peer(1, 0)->number);
		last = peer(0, 1)->number;
		writes(0, 1);
	}
	assert_int_equal(dev(0)->sets.made, PATHS);
}

/* Two endpoints of one process do not share with others. */
TEST_IN(share__not_with_itself, begin, end)
{
	for (int i = 0; i < 3; i++)
		ep_open(i == 2);
	flow_open(0, 1);
	flow_open(0, 2);
	flow_open(1, 2);
	join();
	/* A pair of queue pairs between the two, and the set to the other process. */
	assert_int_equal(dev(0)->sets.nqps, 3 * PATHS);
	assert_int_equal(dev(2)->sets.nqps, PATHS);
	writes(0, 1);
	writes(1, 0);
	writes(0, 2);
	writes(2, 1);
}

/* An endpoint goes while the NIC has writes of it: they end with it, and the others' paths are made anew. */
TEST_IN(leave__writes_under_way, begin, end)
{
	uint64_t rkey, raddr;
	void *mr;

	mesh_open(2);
	join();
	assert_int_equal(nic[1]->ops->reg(nic[1], dst[1], sizeof(dst[1]), &mr, &rkey, &raddr), 0);
	fake->stall = true;
	for (int i = 0; i < 4; i++)
		write_one(0, 1, (uint16_t)(i % 2), rkey, raddr);
	memset(dst[1], 0x5a, sizeof(dst[1]));
	ep_close(0);
	fake->stall = false;
	fake_verbs_run(fake);
	for (int i = 0; i < LEN; i++)
		assert_int_equal(dst[1][i], 0x5a);
	nic[1]->ops->dereg(nic[1], mr, true);
	assert_int_equal(dev(2)->tx.slab.nunused, dev(2)->tx.slab.count);
	for (int b = 1; b < 4; b += 2) {
		nic[b]->ops->disconnect(nic[b], flow[b][0]);
		flow[b][0] = NULL;
	}
	now += UCCL_NS_PER_S;
	join();
	assert_int_equal(dev(2)->sets.made, PATHS + 2);
	assert_int_equal(dev(2)->sets.nqps, PATHS);
	writes(2, 3);
	writes(3, 2);
}

/* What came for a flow and was not taken in goes with it, and gives its receive back. */
TEST_IN(leave__not_taken_in, begin, end)
{
	uint64_t rkey, raddr;
	void *mr;

	mesh_open(2);
	join();
	assert_int_equal(nic[1]->ops->reg(nic[1], dst[1], sizeof(dst[1]), &mr, &rkey, &raddr), 0);
	for (int i = 0; i < 3; i++)
		write_one(i == 1 ? 2 : 0, 1, 0, rkey, raddr);
	events(3);
	assert_int_equal(uc_of(nic[1])->ring.arrived_head - uc_of(nic[1])->ring.arrived_tail, 3);
	nic[1]->ops->disconnect(nic[1], flow[1][0]);
	flow[1][0] = NULL;
	events(1);
	assert_int_equal(got[1].writes, 1);
	assert_ptr_equal(got[1].last.peer, flow[1][2]);
	events(3);
	assert_int_equal(dev(1)->queues.srq_due, 0);
	nic[1]->ops->dereg(nic[1], mr, true);
}

/* What was said by a flow that ended before it was heard is said again by another. */
TEST_IN(leave__before_it_was_heard, begin, end)
{
	int shared = 0;

	for (int seed = 0; seed < 60; seed++) {
		uccl_rng_seed(&rng, (uint64_t)seed);
		mesh_open(2);
		prepare_all();
		for (int step = (int)uccl_rng_below(&rng, 40); step > 0; step--) {
			if (nsaid && uccl_rng_below(&rng, 2))
				hear((int)uccl_rng_below(&rng, (uint64_t)nsaid));
			else
				say((int)uccl_rng_below(&rng, 4), (int)uccl_rng_below(&rng, 4));
		}
		for (int k = 0; k < 2; k++) {
			nic[k]->ops->disconnect(nic[k], flow[k][!k]);
			flow[k][!k] = NULL;
		}
		for (int i = 0; i < nsaid;)
			if (said[i].from + said[i].to == 1)
				said[i] = said[--nsaid];
			else
				i++;
		join();
		for (int a = 0; a < 4; a += 2)
			for (int b = 1; b < 4; b += 2)
				if (flow[a][b]) {
					writes(a, b);
					writes(b, a);
				}
		/* A set that ended on one side while a flow was on its way to it makes another one. */
		assert_true(dev(0)->sets.nqps <= 3 * PATHS);
		shared += dev(0)->sets.nqps == PATHS;
		end(NULL);
		begin(NULL);
	}
	assert_true(shared > 40);
}

/* As above, but in between paths break on both sides. */
TEST_IN(share__any_order, begin, end)
{
	mesh_open(3);
	for (int round = 0; round < 60; round++) {
		prepare_all();
		for (int step = 0; step < 200; step++) {
			int a = (int)uccl_rng_below(&rng, 6), b = (int)uccl_rng_below(&rng, 6);

			if (nsaid && uccl_rng_below(&rng, 2)) {
				hear((int)uccl_rng_below(&rng, (uint64_t)nsaid));
			} else if (flow[a][b] && !uccl_rng_below(&rng, 20)) {
				nic[a]->ops->renew(nic[a], flow[a][b], (uint16_t)uccl_rng_below(&rng, PATHS + 1),
						   uccl_rng_below(&rng, 2));
			} else {
				events(a);
				say(a, b);
			}
		}
		settle();
		now += UCCL_NS_PER_S;
		join();
		assert_int_equal(dev(0)->sets.nqps, PATHS);
		assert_int_equal(dev(1)->sets.nqps, PATHS);
		writes(2, 3);
		writes(3, 4);
	}
}

/* PROTOCOL R98: another process claims to be the one that shares a set: it gets its own set, and ends nothing. */
TEST_IN(unauthenticated__claims, begin, end)
{
	uint8_t buf[UC_ENTRY];
	struct uc_set *theirs;

	mesh_open(1);
	join();
	theirs = peer(0, 1)->set;
	/* rxe2's: it says that it is what rxe1's is. */
	ep_open(2);
	dev(2)->process = dev(1)->process;
	flow_open(0, 2);
	join();
	assert_int_equal(dev(2)->refused, 1);
	assert_ptr_not_equal(peer(0, 2)->set, theirs);
	assert_int_equal(theirs->nflows, 1);
	assert_int_equal(dev(0)->sets.nqps, 2 * PATHS);
	writes(0, 2);
	memset(buf, 0, sizeof(buf));
	buf[0] = UC_WANT;
	uccl_put32(buf + 4, theirs->path[0].gen);
	assert_int_equal(nic[0]->ops->accept(nic[0], flow[0][2], buf, sizeof(buf)), 0);
	assert_int_equal(dev(1)->sets.made, PATHS);
	writes(0, 1);
	writes(1, 0);
	/* Afterwards others of the right process still join the right set. */
	ep_open(1);
	flow_open(0, 3);
	join();
	assert_ptr_equal(peer(0, 3)->set, theirs);
	assert_int_equal(dev(1)->sets.made, PATHS);
}

/* A process that claims so before it is asked to join a set: no proof, none that is made up, nor one of its own. */
TEST_IN(unauthenticated__proves_nothing, begin, end)
{
	for (int kind = 0; kind < 3; kind++) {
		mesh_open(1);
		join();
		ep_open(2);
		dev(2)->process = dev(1)->process;
		flow_open(0, 2);
		prepare_all();
		/* It says who it is, and is asked to join. */
		say(2, 0);
		hear(0);
		say(0, 2);
		assert_true(nsaid > 0);
		assert_int_equal(said[nsaid - 1].buf[said[nsaid - 1].len - UC_ENTRY], UC_JOIN);
		said[0] = said[nsaid - 1];
		memmove(said[0].buf, said[0].buf + said[0].len - UC_ENTRY, UC_ENTRY);
		nsaid = 0;
		said[0].buf[0] = UC_JOINED;
		uccl_put16(said[0].buf + 2, 0);
		if (kind == 0)
			memset(said[0].buf + 8, 0, UC_PROOF);
		else if (kind == 1)
			uccl_put64(said[0].buf + 8, uccl_rng_next(&rng));
		assert_int_equal(nic[0]->ops->accept(nic[0], flow[0][2], said[0].buf, UC_ENTRY), 0);
		assert_int_equal(dev(0)->refused, 1);
		assert_false(peer(0, 2)->joined);
		writes(0, 1);
		end(NULL);
		begin(NULL);
	}
}

/* An unauthenticated process leads: it names a set that it knows of, without its key. */
TEST_IN(unauthenticated__names_a_set, begin, end)
{
	uint8_t buf[UC_ENTRY];

	mesh_open(1);
	join();
	ep_open(2);
	dev(2)->process = dev(0)->process;
	flow_open(1, 2);
	assert_int_equal(nic[2]->ops->prepare(nic[2], flow[2][1]), -FI_EAGAIN);
	say(2, 1);
	hear(0);
	memset(buf, 0, sizeof(buf));
	buf[0] = UC_JOIN;
	uccl_put16(buf + 2, 5);
	uccl_put32(buf + 4, peer(1, 0)->set->serial);
	assert_int_equal(nic[1]->ops->accept(nic[1], flow[1][2], buf, sizeof(buf)), 0);
	assert_int_equal(dev(1)->refused, 1);
	assert_null(peer(1, 2)->set);
	assert_true(nic[1]->ops->offer(nic[1], flow[1][2], said[0].buf, 256) > 0);
	/* It makes one in that name: others are not led astray by it. */
	buf[0] = UC_NEW;
	assert_int_equal(nic[1]->ops->accept(nic[1], flow[1][2], buf, sizeof(buf)), 0);
	assert_true(peer(1, 2)->joined);
	nic[2]->ops->disconnect(nic[2], flow[2][1]);
	flow[2][1] = NULL;
	ep_open(0);
	flow_open(3, 1);
	for (int i = 0; i < 3; i++) {
		nic[3]->ops->prepare(nic[3], flow[3][1]);
		settle();
	}
	assert_ptr_equal(peer(1, 3)->set, peer(1, 0)->set);
	assert_int_equal(dev(0)->sets.made, PATHS);
	flow[1][2] = NULL;
	writes(3, 1);
}

/* What cannot be said now, or not at all. */
TEST_IN(join__nonsense, begin, end)
{
	static const struct {
		uint8_t kind, one;
		uint16_t two;
		uint32_t four;
		uint64_t eight;
	} bad[] = {
		{UC_PROCESS, 1, 0, 1, 1}, {UC_PROCESS, 0, 1, 1, 1}, {UC_PROCESS, 0, 0, 0, 1}, {UC_NEW, 0, 16, 1, 1},
		{UC_NEW, 1, 0, 1, 1},	  {UC_JOIN, 0, 16, 1, 1},   {UC_JOINED, 0, 0, 1, 1},  {UC_REFUSED, 0, 0, 1, 0},
		{UC_NEW, 0, 0, 1, 1},	  {UC_JOIN, 0, 0, 1, 1},    {11, 0, 0, 0, 0},	      {255, 0, 0, 0, 0},
	};
	uint8_t buf[UC_ENTRY];

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < uccl_array_len(bad); i++) {
			if (!round && !i) {
				for (int k = 0; k < 2; k++)
					ep_open(k);
				flow_open(0, 1);
			}
			memset(buf, 0, sizeof(buf));
			buf[0] = bad[i].kind;
			buf[1] = bad[i].one;
			uccl_put16(buf + 2, bad[i].two);
			uccl_put32(buf + 4, bad[i].four);
			uccl_put64(buf + 8, bad[i].eight);
			assert_int_equal(nic[0]->ops->accept(nic[0], flow[0][1], buf, UC_ENTRY), -FI_EINVAL);
			assert_int_equal(nic[1]->ops->accept(nic[1], flow[1][0], buf, UC_ENTRY), -FI_EINVAL);
		}
		/* Again when all is done: then it is said already. */
		join();
		memset(buf, 0, sizeof(buf));
		buf[0] = UC_PROCESS;
		buf[4] = 1;
		assert_int_equal(nic[0]->ops->accept(nic[0], flow[0][1], buf, UC_ENTRY), -FI_EINVAL);
	}
	assert_int_equal(dev(0)->sets.nqps, PATHS);
	writes(0, 1);
}

/* Random bytes break nothing, and make no more than a flow may have. */
TEST_IN(join__random, begin, end)
{
	uint8_t buf[64];

	mesh_open(2);
	for (int i = 0; i < 40000; i++) {
		int a = (int)uccl_rng_below(&rng, 4), b = a ^ (1 | (int)uccl_rng_below(&rng, 2) << 1);
		uint32_t n = 1 + (uint32_t)uccl_rng_below(&rng, 4);

		for (uint32_t k = 0; k < n * UC_ENTRY; k++)
			buf[k] = (uint8_t)(uccl_rng_below(&rng, 3) ? 0 : uccl_rng_below(&rng, 12));
		nic[a]->ops->accept(nic[a], flow[a][b], buf, n * UC_ENTRY);
		if (i % 50)
			continue;
		say(a, b);
		if (nsaid)
			nic[b]->ops->accept(nic[b], flow[b][a], said[0].buf, said[0].len);
		nsaid = 0;
		events(a);
		now += 100 * UCCL_NS_PER_MS;
		assert_true(dev(a)->sets.nqps <= 4 * PATHS);
	}
}

/* Without memory there is no set; it comes when there is, or packets serve. */
TEST_IN(join__no_queue_pairs, begin, end)
{
	mesh_open(2);
	fake_verbs_fail(fake, "create_qp", 0, ENOMEM);
	for (int i = 0; i < 5; i++) {
		prepare_all();
		settle();
		now += UCCL_NS_PER_S;
	}
	assert_int_equal(dev(0)->sets.nqps + dev(1)->sets.nqps, 0);
	fake_verbs_fail(fake, "create_qp", 0, 0);
	join();
	assert_int_equal(dev(0)->sets.nqps, PATHS);
	writes(0, 3);
}

/* One endpoint's thread finds what is for another: that one wakes. */
TEST_IN(wake__by_another, begin, end)
{
	struct pollfd f = {.events = POLLIN};
	uint64_t rkey, raddr;
	void *mr;

	mesh_open(2);
	join();
	f.fd = nic[1]->ops->wait_fd(nic[1]);
	assert_true(f.fd >= 0);
	assert_int_equal(nic[1]->ops->reg(nic[1], dst[1], sizeof(dst[1]), &mr, &rkey, &raddr), 0);
	for (int i = 0; i < 5; i++) {
		events(1);
		assert_int_equal(poll(&f, 1, 0), 0);
		write_one(0, 1, 0, rkey, raddr);
		/* It empties the channel, too. */
		nic[3]->ops->wait_fd(nic[3]);
		events(3);
		assert_int_equal(got[1].writes, i);
		assert_int_equal(poll(&f, 1, 0), 1);
		events(1);
		assert_int_equal(got[1].writes, i + 1);
	}
	nic[1]->ops->dereg(nic[1], mr, true);
}

/* Endpoints share the receives; and no more peers may write than there are receives for. PROTOCOL R95 */
TEST_IN(slots__shared, begin, end)
{
	struct uccl_nic_attr attr = {.ifname = "rxe0", .srq_depth = 32};
	uint32_t alone;
	int ready = 0;

	neps = 1;
	assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &nic[0]), 0);
	dev(0)->process = 1;
	alone = nic[0]->ops->slots(nic[0], 4096);
	assert_int_equal(alone, 16);
	neps = 2;
	assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &nic[1]), 0);
	assert_int_equal(nic[0]->ops->slots(nic[0], 4096), 8);
	for (int i = 2; i < 14; i++) {
		ep_open(1);
		flow_open(0, i);
	}
	join();
	for (int i = 2; i < 14; i++)
		ready += !nic[0]->ops->prepare(nic[0], flow[0][i]);
	assert_int_equal(ready, 4);
	/* One that has been granted some may have more; when it has none, another one may. */
	assert_int_equal(nic[0]->ops->prepare(nic[0], flow[0][2]), 0);
	nic[0]->ops->finish(nic[0], flow[0][2]);
	assert_int_equal(nic[0]->ops->prepare(nic[0], flow[0][13]), -FI_EAGAIN);
	nic[0]->ops->finish(nic[0], flow[0][2]);
	assert_int_equal(nic[0]->ops->prepare(nic[0], flow[0][13]), 0);
	/* And one that goes takes its grants along. */
	nic[0]->ops->disconnect(nic[0], flow[0][3]);
	flow[0][3] = NULL;
	assert_int_equal(nic[0]->ops->prepare(nic[0], flow[0][12]), 0);
	assert_int_equal(nic[0]->ops->prepare(nic[0], flow[0][11]), -FI_EAGAIN);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

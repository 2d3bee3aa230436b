/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What large messages cost on RDMA NICs: two engines on the verbs back ends, over NICs in memory (the fakes of the unit
 * tests), in virtual time. Prints what a NIC charges for, a MiB of payload: calls of libibverbs, requests, completions,
 * doorbells. Both sides are counted each. contrib/check-cost compares that with what was written down, and counts the
 * instructions of cost_sender and cost_receiver, but for those of the NIC itself, which is in functions called
 * nic_sender_* and nic_receiver_*.
 */
#include <stdio.h>
#include <string.h>

#ifdef HAVE_VERBS

#include <stdlib.h>

#include "../../prov/uccl/test/unit/nic/fake_verbs.h"
#include "base/rng.h"
#include "base/defaults.h"
#include "base/units.h"
#include "engine/engine.h"
#include "nic/verbs/uc_state.h"
#include "nic/verbs/ud_state.h"
#include "random_seed.h"

#define MESSAGE (1u << 20)
#define WINDOW 16	 /* messages under way */
#define WARM 64	 /* messages that are not counted: queue pairs are made meanwhile, and windows found */
#define MESSAGES_MAX 100000
/* Virtual time between two rounds: what 100 Gbit/s carry meanwhile is 15 packets. */
#define ROUND_NS (5 * UCCL_NS_PER_US)

/* What one side asked of its NIC. */
static struct counts {
	uint64_t post_send, requests, signalled; /* calls, each a doorbell; and what they brought */
	uint64_t poll, empty, completions;	 /* calls, those that found nothing, and what the others found */
	uint64_t post_recv, receives;
	uint64_t notify;
	uint64_t registrations, binds; /* of memory, and of windows, unbinding included */
} counts[2];

static struct fake_verbs *fake;
static const struct uccl_verbs *fake_lib;
static bool windows;
static unsigned int delay; /* one queue pair of eight is heard every so many rounds only; 0: all are at once */
static struct uccl_verbs lib[2];
static struct uccl_engine *engine[2];
static struct uccl_peer *peer;
static uint8_t *memory[2];
static struct uccl_rng rng;
static uint64_t now = UCCL_NS_PER_MS;
static long long done;
static int under_way[2], next[2];

/* The NIC. */

static void requests_count(struct counts *c, const struct ibv_send_wr *wr)
{
	c->post_send++;
	for (; wr; wr = wr->next) {
		c->requests++;
		c->signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
	}
}

static void receives_count(struct counts *c, const struct ibv_recv_wr *wr)
{
	c->post_recv++;
	for (; wr; wr = wr->next)
		c->receives++;
}

static int poll_count(struct counts *c, int k)
{
	c->poll++;
	c->empty += k == 0;
	c->completions += k > 0 ? (uint64_t)k : 0;
	return k;
}

/* Functions of one side, and nic_`side`_count, from which on they serve. */
#define NIC(side, i)                                                                                                   \
	static int nic_##side##_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)         \
	{                                                                                                              \
		requests_count(&counts[i], wr);                                                                        \
		return fake_lib->post_send(qp, wr, bad);                                                               \
	}                                                                                                              \
	static int nic_##side##_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)                                   \
	{                                                                                                              \
		return poll_count(&counts[i], fake_lib->poll_cq(cq, n, wc));                                           \
	}                                                                                                              \
	static int nic_##side##_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)         \
	{                                                                                                              \
		receives_count(&counts[i], wr);                                                                        \
		return fake_lib->post_recv(qp, wr, bad);                                                               \
	}                                                                                                              \
	static int nic_##side##_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)   \
	{                                                                                                              \
		receives_count(&counts[i], wr);                                                                        \
		return fake_lib->post_srq_recv(srq, wr, bad);                                                          \
	}                                                                                                              \
	static int nic_##side##_req_notify_cq(struct ibv_cq *cq, int solicited)                                        \
	{                                                                                                              \
		counts[i].notify++;                                                                                    \
		return fake_lib->req_notify_cq(cq, solicited);                                                         \
	}                                                                                                              \
	static struct ibv_mr *nic_##side##_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)               \
	{                                                                                                              \
		counts[i].registrations++;                                                                             \
		return fake_lib->reg_mr(pd, addr, len, access);                                                        \
	}                                                                                                              \
	static struct ibv_mr *nic_##side##_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,       \
						       int access)                                                     \
	{                                                                                                              \
		counts[i].registrations++;                                                                             \
		return fake_lib->reg_mr_iova(pd, addr, len, iova, access);                                             \
	}                                                                                                              \
	static int nic_##side##_dereg_mr(struct ibv_mr *mr)                                                            \
	{                                                                                                              \
		return fake_lib->dereg_mr(mr);                                                                         \
	}                                                                                                              \
	static int nic_##side##_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)                \
	{                                                                                                              \
		counts[i].binds++;                                                                                     \
		return fake_lib->bind_mw(qp, mw, bind);                                                                \
	}                                                                                                              \
	static int nic_##side##_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)                \
	{                                                                                                              \
		return fake_lib->get_async_event(ctx, event);                                                          \
	}                                                                                                              \
	static void nic_##side##_count(void)                                                                           \
	{                                                                                                              \
		lib[i].post_send = nic_##side##_post_send;                                                             \
		lib[i].poll_cq = nic_##side##_poll_cq;                                                                 \
		lib[i].post_recv = nic_##side##_post_recv;                                                             \
		lib[i].post_srq_recv = nic_##side##_post_srq_recv;                                                     \
		lib[i].req_notify_cq = nic_##side##_req_notify_cq;                                                     \
		lib[i].get_async_event = nic_##side##_get_async_event;                                                 \
		lib[i].reg_mr = nic_##side##_reg_mr;                                                                   \
		lib[i].reg_mr_iova = nic_##side##_reg_mr_iova;                                                         \
		lib[i].dereg_mr = nic_##side##_dereg_mr;                                                               \
		lib[i].bind_mw = nic_##side##_bind_mw;                                                                 \
	}

NIC(sender, 0)
NIC(receiver, 1)

static uint64_t clock_read(void)
{
	return now;
}

/* Slow paths make holes in what is known to have come. */
static enum fake_fate hold(void *arg, const struct fake_packet *p)
{
	(void)arg;
	return p->src_qpn % 8 ? FAKE_PASS : FAKE_HOLD;
}

static bool fake_begin(void)
{
	fake = fake_verbs_new();
	if (!fake)
		return false;
	fake->hook = delay ? hold : NULL;
	for (int i = 0; i < 2; i++) {
		struct fake_dev *d = fake_verbs_add(fake, i ? "nic1" : "nic0", (uint8_t)(i + 1), NULL);

		if (windows)
			fake_verbs_windows(d);
	}
	fake_lib = fake_verbs_lib();
	lib[0] = lib[1] = *fake_lib;
	return true;
}

/* The engines. */

static void seeded(void *arg, void *buf, size_t len)
{
	for (uint8_t *p = buf; len; len--)
		*p++ = (uint8_t)uccl_rng_next(arg);
}

static void sent(struct uccl_op *op)
{
	under_way[0]--;
	done += !op->err;
	uccl_op_put(engine[0], op);
}

static void received(struct uccl_op *op)
{
	under_way[1]--;
	uccl_op_put(engine[1], op);
}

/* Post until so many are under way. False: no memory, or the peer is gone. */
static bool post(int side)
{
	for (; under_way[side] < WINDOW; under_way[side]++) {
		struct uccl_op *op = uccl_op_get(engine[side]);

		if (!op)
			return false;
		op->type = side ? UCCL_OP_RECV : UCCL_OP_SEND;
		op->iov[0] = (struct iovec){ memory[side] + (size_t)(next[side]++ % WINDOW) * MESSAGE, MESSAGE };
		op->iov_count = 1;
		op->len = MESSAGE;
		op->done = side ? received : sent;
		op->peer = side ? NULL : peer;
		if (side ? uccl_engine_recv(engine[1], op, now) : uccl_engine_send(engine[0], op, now))
			return false;
	}
	return true;
}

static bool turn(int side)
{
	bool ok = post(side);

	uccl_engine_poll(engine[side], now);
	return ok;
}

/* Two names, so that a profiler can tell them apart. */
static __attribute__((noinline)) bool cost_sender(void)
{
	bool ok = turn(0);

	__asm__ volatile("");
	return ok;
}

static __attribute__((noinline)) bool cost_receiver(void)
{
	bool ok = turn(1);

	__asm__ volatile("# not the same function");
	return ok;
}

static bool begin(const char *backend, uint32_t write_bytes)
{
	struct uccl_config cfg;

	uccl_rng_seed(&rng, 3);
	random_seed(3);
	uccl_config_default(&cfg);
	cfg.cc = UCCL_VERBS_CC;
	cfg.path = UCCL_VERBS_PATH;
	cfg.credit = UCCL_VERBS_CREDIT;
	if (!fake_begin())
		return false;
	for (int i = 0; i < 2; i++) {
		struct uccl_engine_attr attr = { .config = &cfg, .random = seeded, .random_arg = &rng };
		struct uccl_nic_attr nic = { .ifname = i ? "nic1" : "nic0", .write_bytes = write_bytes };
		enum ibv_qp_type type = strcmp(backend, "verbs-rc") ? IBV_QPT_UC : IBV_QPT_RC;
		int err;

		if (!strcmp(backend, "verbs-ud"))
			err = uccl_verbs_ud_open(&lib[i], clock_read, &nic, &attr.nic);
		else
			err = uccl_verbs_uc_open(&lib[i], clock_read, type, &nic, &attr.nic);
		memory[i] = calloc(WINDOW, MESSAGE);
		if (err || !memory[i] || uccl_engine_open(&attr, now, &engine[i]))
			return false;
	}
	memset(memory[0], 1, (size_t)WINDOW * MESSAGE);
	peer = uccl_engine_peer(engine[0], uccl_engine_addr(engine[1]), true);
	return peer;
}

/* Until so many messages are done. False: they do not come. */
static bool run(long long messages, bool count)
{
	for (uint64_t rounds = 0; done < messages; rounds++) {
		bool ok = count ? cost_sender() : turn(0);

		ok = (count ? cost_receiver() : turn(1)) && ok;
		if (!ok || rounds > 1000 * (uint64_t)messages)
			return false;
		now += ROUND_NS;
		if (delay && rounds % delay == 0)
			fake_verbs_release(fake, false);
	}
	return true;
}

/* Of a MiB, which is a message. */
static void report(const char *backend, uint32_t write_bytes, long long messages)
{
	for (int i = 0; i < 2; i++) {
		const struct counts *c = &counts[i];
		const struct {
			const char *name;
			uint64_t n;
		} v[] = {
			{ "post_send", c->post_send }, { "requests", c->requests },
			{ "signalled", c->signalled }, { "poll", c->poll },
			{ "empty", c->empty }, { "completions", c->completions },
			{ "post_recv", c->post_recv }, { "receives", c->receives },
			{ "notify", c->notify }, { "registrations", c->registrations },
			{ "binds", c->binds },
		};

		printf("%s %s %u %u %u", i ? "receiver" : "sender", backend, write_bytes, delay, windows);
		for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
			printf(" %s=%.1f", v[k].name, (double)v[k].n / (double)messages);
		printf("\n");
	}
}

/* Everything was put there; and nothing was sent again that no path held up. */
static bool right(void)
{
	const struct uccl_stats *s = uccl_engine_stats(engine[0]);

	return (delay || !s->rtx_packets) && !memcmp(memory[0], memory[1], (size_t)WINDOW * MESSAGE);
}

int main(int argc, char **argv)
{
	const char *backend = argc > 1 ? argv[1] : "verbs-uc";
	uint32_t write_bytes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
	long long messages = argc > 3 ? strtoll(argv[3], NULL, 0) : 64;

	delay = argc > 4 ? (unsigned int)strtoul(argv[4], NULL, 0) : 0;
	windows = argc > 5 && !strcmp(argv[5], "1");
	if (argc > 6 || (argc > 5 && !windows && strcmp(argv[5], "0")) ||
	    (strcmp(backend, "verbs-uc") && strcmp(backend, "verbs-rc") && strcmp(backend, "verbs-ud")) ||
	    messages < 1 || messages > MESSAGES_MAX) {
		fprintf(stderr, "usage: uccl_verbs [BACKEND [BYTES OF A WRITE [MESSAGES [ROUNDS [WINDOWS]]]]]\n"
				"  verbs-uc, verbs-rc or verbs-ud: calls of libibverbs, requests and completions\n"
				"  of a sender and of a receiver for a MiB of payload in messages of 1 MiB, %d\n"
				"  under way, over NICs in memory, which hand on what they are given at once; one\n"
				"  queue pair of eight only every so many rounds of 5 us. WINDOWS is 1 or 0: the NICs\n"
				"  have memory windows.\n"
				"  contrib/check-cost compares them, and counts the instructions.\n", WINDOW);
		return 2;
	}
	if (!begin(backend, write_bytes) || !run(WARM, false)) {
		fprintf(stderr, "uccl_verbs: no engines\n");
		return 1;
	}
	/* Not before: callgrind is told to leave out what is inside of them, and would count that alone. */
	nic_sender_count();
	nic_receiver_count();
	if (!run(WARM + messages, true)) {
		fprintf(stderr, "uccl_verbs: nothing moves\n");
		return 1;
	}
	report(backend, write_bytes, messages);
	if (!right()) {
		fprintf(stderr, "uccl_verbs: what came is not what was sent, or was sent again\n");
		return 1;
	}
	return 0;
}

#else

int main(void)
{
	fprintf(stderr, "uccl_verbs: built without libibverbs\n");
	return 77;
}

#endif

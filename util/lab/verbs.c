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
#include "../bench/random_seed.h"
#include "base/defaults.h"
#include "base/units.h"
#include "engine/engine.h"
#include "lab.h"
#include "nic/verbs/uc_state.h"
#include "nic/verbs/ud_state.h"

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
static uint64_t windows;
static uint64_t delay; /* rounds until packets of one queue pair in eight are delivered; 0: at once */
static struct uccl_verbs lib[2];

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
	return lab.now;
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

static bool begin(const char *backend, uint32_t write_bytes)
{
	struct uccl_config cfg;

	random_seed(4);
	uccl_config_default(&cfg);
	cfg.cc = UCCL_VERBS_CC;
	cfg.path = UCCL_VERBS_PATH;
	cfg.credit = UCCL_VERBS_CREDIT;
	lab.message = MESSAGE;
	lab.window = WINDOW;
	if (!fake_begin())
		return false;
	for (int i = 0; i < 2; i++) {
		struct uccl_nic_attr attr = { .ifname = i ? "nic1" : "nic0", .write_bytes = write_bytes };
		enum ibv_qp_type type = strcmp(backend, "verbs-rc") ? IBV_QPT_UC : IBV_QPT_RC;
		struct uccl_nic *nic;
		int err;

		if (!strcmp(backend, "verbs-ud"))
			err = uccl_verbs_ud_open(&lib[i], clock_read, &attr, &nic);
		else
			err = uccl_verbs_uc_open(&lib[i], clock_read, type, &attr, &nic);
		if (err || !lab_engine_open(i, nic, &cfg))
			return false;
	}
	return true;
}

/* Until so many messages are done. False: they do not come. */
static bool run(uint64_t messages, bool count)
{
	for (uint64_t rounds = 0; lab.done < messages; rounds++) {
		bool ok = count ? cost_sender() : lab_turn(0);

		ok = (count ? cost_receiver() : lab_turn(1)) && ok;
		if (!ok || rounds > 1000 * messages)
			return false;
		lab.now += ROUND_NS;
		if (delay && rounds % delay == 0)
			fake_verbs_release(fake, false);
	}
	return true;
}

/* Figures for a MiB, which is one message. */
static void report(const char *backend, uint64_t write_bytes, uint64_t messages)
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

		printf("%s %s %llu %llu %llu", i ? "receiver" : "sender", backend, (unsigned long long)write_bytes,
		       (unsigned long long)delay, (unsigned long long)windows);
		for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
			printf(" %s=%.1f", v[k].name, (double)v[k].n / (double)messages);
		printf("\n");
	}
}

/* Everything was put there; and nothing was sent again that no path held up. */
static bool right(void)
{
	const struct uccl_stats *s = uccl_engine_stats(lab.engine[0]);

	/* Nothing is lost here, but while it learns the sender guesses wrong now and then. */
	return (delay || s->rtx_packets <= s->tx_packets / 500) &&
	       !memcmp(lab.memory[0], lab.memory[1], (size_t)WINDOW * MESSAGE);
}

int lab_verbs(int argc, char **argv)
{
	const char *backend = "verbs-uc";
	uint64_t write_bytes = 0, messages = 64;
	const struct lab_option options[] = {
		{ 0, "BACKEND", "verbs-uc, verbs-rc or verbs-ud", .text = &backend },
		{ 0, "BYTES", "of a direct write, 0: as many as the back end chooses", .number = &write_bytes,
		  .most = UINT32_MAX },
		{ 0, "MESSAGES", "how many", .number = &messages, .least = 1, .most = MESSAGES_MAX },
		{ 0, "ROUNDS", "of 5 us until one queue pair of eight is heard", .number = &delay, .most = 1000000 },
		{ 0, "WINDOWS", "1: the NICs have memory windows", .number = &windows, .most = 1 },
	};

	lab_options(argc, argv, options, uccl_array_len(options),
		    "  Calls of libibverbs, requests and completions of a sender and a receiver for a MiB of payload\n"
		    "  in messages of 1 MiB, over NICs in memory, which hand on what they are given at once.\n"
		    "  contrib/check-cost compares them, and counts the instructions.");
	if (strcmp(backend, "verbs-uc") && strcmp(backend, "verbs-rc") && strcmp(backend, "verbs-ud"))
		lab_refused("no such back end");
	if (!begin(backend, (uint32_t)write_bytes) || !run(WARM, false))
		die("no engines");
	/* Not before: callgrind is told to leave out what is inside of them, and would count that alone. */
	nic_sender_count();
	nic_receiver_count();
	if (!run(WARM + messages, true))
		die("nothing moves");
	report(backend, write_bytes, messages);
	if (!right())
		die("what came is not what was sent, or too much was sent again");
	return 0;
}

#else

#include "lab.h"

int lab_verbs(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	fprintf(stderr, "uccl_lab verbs: built without libibverbs\n");
	return LAB_NOT_RUN;
}

#endif

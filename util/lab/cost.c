/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What core and policies cost per chunk: two flows over a NIC that does nothing, in virtual time, 400 Gb/s and 6 us one
 * way. Prints ns by the machine's clock, the median of many short stretches, as others may be at work;
 * contrib/check-cost counts the instructions of cost_sender and cost_receiver. What a NIC, the engine and messages cost
 * is not in it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "flow/flow.h"
#include "flow/wire/io.h"
#include "lab.h"

#define LINK_BPS 400000000000ull
#define DELAY_NS (6 * UCCL_NS_PER_US)
#define MTU 4096
#define PATHS 256
#define WINDOW 256
/* A progress loop comes round so often: that many chunks at line rate. */
#define ROUND_CHUNKS 4
/* Of one message. */
#define MESSAGE_CHUNKS 2048
/* Payload is never read: an address is enough. */
#define PAYLOAD ((void *)0x10000000)
#define WIRE_MAX 8192
/* Rounds of one stretch whose time is taken. */
#define STRETCH 256

struct thing {
	uint64_t at;
	uint64_t cookie;
	uint32_t imm, len;
	uint16_t path, tail_len;
	uint8_t kind;
	uint8_t hdr[UCCL_HDR_LEN];
	uint8_t tail[UCCL_TAIL_MAX];
};

struct side {
	struct uccl_flow f;
	struct uccl_stats stats;
	struct uccl_pacer pacer;
	/* what is on its way to this side */
	struct thing wire[WIRE_MAX];
	uint32_t head, tail;
	/* writes that the NIC has to report as read */
	uint64_t sent[WIRE_MAX];
	uint32_t nsent;
};

static struct side sides[2];
static struct uccl_item item;
static struct iovec iov;
static struct uccl_tx tx;
static uint64_t chunk = 32768;
static uint64_t arrived;
static bool done;

static enum uccl_drop flow_deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	(void)f;
	(void)now;
	arrived += in->len;
	return UCCL_DROP_COUNT;
}

static void flow_settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	(void)f;
	(void)id;
	(void)gen;
	(void)now;
}

static void flow_fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uccl_flow_fenced(f, path, now);
}

static void flow_acked(struct uccl_flow *f, struct uccl_item *it, uint64_t now)
{
	(void)f;
	(void)it;
	(void)now;
	done = true;
}

static const struct uccl_flow_ops ops = {
	.deliver = flow_deliver,
	.settled = flow_settled,
	.fence = flow_fence,
	.acked = flow_acked,
};

static void put(struct side *from, struct side *to, uint64_t now)
{
	struct thing *t = &to->wire[to->tail++ % WIRE_MAX];

	if (to->tail - to->head > WIRE_MAX)
		die("too much is under way");
	t->at = now + DELAY_NS;
	t->kind = tx.kind;
	t->path = tx.path;
	t->len = tx.payload_len;
	t->imm = tx.imm;
	t->tail_len = tx.tail_len;
	memcpy(t->hdr, tx.hdr, tx.hdr_len);
	memcpy(t->tail, tx.tail, tx.tail_len);
	if (tx.kind == UCCL_TX_WRITE)
		from->sent[from->nsent++] = tx.cookie;
}

static void take(struct side *s, uint64_t now)
{
	struct uccl_hdr h;

	for (; s->head != s->tail && s->wire[s->head % WIRE_MAX].at <= now; s->head++) {
		struct thing *t = &s->wire[s->head % WIRE_MAX];

		if (t->kind == UCCL_TX_WRITE)
			uccl_flow_rx_write(&s->f, t->imm, t->len, t->path, now);
		else if (uccl_hdr_decode(&h, t->hdr, UCCL_HDR_LEN + t->len + t->tail_len) == UCCL_DROP_COUNT)
			uccl_flow_rx(&s->f, &h, PAYLOAD, t->tail, 0, now);
	}
}

/* One time round the progress loop. */
static void turn(struct side *s, struct side *to, uint64_t now)
{
	uint32_t writes = 0;

	for (uint32_t i = 0; i < s->nsent; i++)
		uccl_flow_sent(&s->f, s->sent[i], now);
	s->nsent = 0;
	take(s, now);
	while (uccl_pacer_next(&s->pacer, now))
		uccl_credit_due(&s->f.credit);
	if (uccl_flow_expiry(&s->f) <= now)
		uccl_flow_expire(&s->f, now);
	while (writes < ROUND_CHUNKS && uccl_flow_tx(&s->f, &tx, now)) {
		put(s, to, now);
		writes += tx.kind == UCCL_TX_WRITE;
	}
}

/* As cost_sender and cost_receiver of engines.c. */
static __attribute__((noinline)) void cost_sender_flow(uint64_t now)
{
	turn(&sides[0], &sides[1], now);
	__asm__ volatile("");
}

static __attribute__((noinline)) void cost_receiver_flow(uint64_t now)
{
	turn(&sides[1], &sides[0], now);
	__asm__ volatile("# not the same function");
}

static void submit(void)
{
	memset(&item, 0, sizeof(item));
	iov = (struct iovec){ .iov_base = PAYLOAD, .iov_len = chunk * MESSAGE_CHUNKS };
	item.rtype = 1;
	item.bulk = item.want_ack = item.direct = true;
	item.iov = &iov;
	item.iov_count = 1;
	item.len = iov.iov_len;
	uccl_rec_set_bulk(item.rec, 1, 1, 0);
	uccl_flow_submit(&sides[0].f, &item);
}

static int side_init(struct side *s, const char *cc, const char *path, const char *credit)
{
	struct uccl_flow_cfg cfg = {
		.policy.cc = uccl_cc_find(cc),
		.policy.pathsel = uccl_path_find(path),
		.policy.credit = uccl_credit_find(credit),
		.pacer = &s->pacer,
		.ops = &ops,
		.stats = &s->stats,
		.wire.token_tx = 1,
		.wire.token_rx = 1,
		.wire.csn_tx = 1000,
		.wire.csn_rx = 1000,
		.packet.chunk_bytes = MTU - UCCL_HDR_LEN,
		.write.bytes = (uint32_t)chunk,
		.packet.mtu = MTU,
		.window = WINDOW,
		.paths_tx = PATHS,
		.paths_rx = PATHS,
		.labels = PATHS,
		.slots_tx = WINDOW,
		.slots_rx = WINDOW,
		.msg_limit_tx = 1,
		.link_bps = LINK_BPS,
		.delay_ns = 2 * DELAY_NS,
		.rto_min_ns = 100 * UCCL_NS_PER_US,
		.seed = 1,
	};

	if (!cfg.policy.cc || !cfg.policy.pathsel || !cfg.policy.credit)
		return -1;
	uccl_pacer_init(&s->pacer, LINK_BPS);
	if (uccl_flow_init(&s->f, &cfg, s, 0))
		return -1;
	uccl_write_rx_rtype(&s->f.rx.write, 1);
	return 0;
}

int lab_cost(int argc, char **argv)
{
	const char *cc = uccl_cc_names()[0], *path = uccl_path_names()[0], *credit = uccl_credit_names()[0];
	uint64_t count = 1000000, now = UCCL_NS_PER_MS, rounds = 0, ns[2] = { 0, 0 }, round_ns, *stretch[2];
	double each[2];
	size_t n = 0;
	const struct lab_option options[] = {
		{ 0, "cc", "congestion control", .text = &cc },
		{ 0, "path", "path choice", .text = &path },
		{ 0, "credit", "credit policy", .text = &credit },
		{ 0, "chunk", "bytes", .number = &chunk, .least = MTU, .most = 1 << 20 },
		{ 0, "chunks", "how many", .number = &count, .least = 1, .most = UINT64_MAX / (1 << 21) },
	};

	lab_options(argc, argv, options, uccl_array_len(options),
		    "  ns per chunk of a sender's and a receiver's flow and policies, over a NIC that does nothing.\n"
		    "  contrib/check-cost counts the instructions.");
	if (side_init(&sides[0], cc, path, credit) || side_init(&sides[1], cc, path, credit))
		lab_refused("no such policy");
	round_ns = chunk * ROUND_CHUNKS * 8 * UCCL_NS_PER_S / LINK_BPS;
	/* Twice as many as the link needs; more and it has stood still. */
	for (int o = 0; o < 2; o++)
		stretch[o] = calloc(2 * count / (STRETCH * ROUND_CHUNKS) + 64, sizeof(*stretch[o]));
	if (!stretch[0] || !stretch[1])
		die("no memory");
	submit();
	for (; arrived < count * chunk; now += round_ns) {
		uint64_t began = lab_clock(CLOCK_MONOTONIC), middle;

		cost_sender_flow(now);
		middle = lab_clock(CLOCK_MONOTONIC);
		cost_receiver_flow(now);
		ns[0] += middle - began;
		ns[1] += lab_clock(CLOCK_MONOTONIC) - middle;
		if (done) {
			done = false;
			submit();
		}
		if (++rounds % STRETCH)
			continue;
		if (rounds * ROUND_CHUNKS > 2 * count + 32 * STRETCH * ROUND_CHUNKS)
			die("nothing moves");
		for (int o = 0; o < 2; o++) {
			stretch[o][n] = ns[o];
			ns[o] = 0;
		}
		n++;
	}
	for (int o = 0; o < 2; o++) {
		each[o] = (double)lab_median(stretch[o], n) / (STRETCH * ROUND_CHUNKS);
		free(stretch[o]);
		uccl_flow_fini(&sides[o].f);
	}
	printf("%s, %s, %s, chunks of %llu: %llu chunks, %.0f %% of the link, sender %.0f ns, receiver %.0f ns a "
	       "chunk\n",
	       cc, path, credit, (unsigned long long)chunk, (unsigned long long)(arrived / chunk),
	       (double)arrived * 800 * 1e9 / (double)(now - UCCL_NS_PER_MS) / (double)LINK_BPS, each[0], each[1]);
	return 0;
}

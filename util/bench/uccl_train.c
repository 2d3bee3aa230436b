/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What large messages in small packets cost: two engines over a NIC that hands packets on and copies no payload, as UDP
 * on an interface of MTU 1500 with trains, in virtual time. Prints ns of processor time for a train of 44 packets,
 * with the acknowledgements for it; contrib/check-cost counts the instructions of cost_sender and cost_receiver. What
 * the kernel does is not in it; the receiver's copy of the payload is.
 *
 * With -u both engines have sockets at that address instead, in real time, so the kernel is in it: at the sender also
 * its half of receiving, as on any interface that leads to this host. Both sides take turns on one processor: so it
 * hardly matters what else the host does, and payload comes from a nearer cache than between two of them. With -f
 * something happens to what the sender sends (FI_UCCL_FAULT).
 *
 *	unshare -n sh -c 'ip link set lo mtu 1500 up && util/uccl_train -u 127.0.0.1 4000 262144 64'
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/units.h"
#include "engine/engine.h"
#include "nic/nic.h"
#include "nic/gso.h"

#define MTU 1472
#define TRAIN 44
#define MESSAGE_MAX (64 << 20)
#define WINDOW_MAX 256
#define RING 1024 /* trains on their way */
#define SLOTS 1724
/* Virtual time between two rounds. */
#define ROUND_NS (5 * UCCL_NS_PER_US)

struct wire {
	struct uccl_nic nic;
	struct wire *other;
	struct uccl_nic_addr addr;
	uint8_t (*train)[UCCL_TRAIN_BYTES]; /* on their way to this side, as the kernel hands them up (UDP_GRO) */
	uint32_t len[RING], each[RING];
	uint32_t head, tail;
	uint64_t sent, calls, trains; /* packets; and those of the kernel that a real NIC would need */
};

static struct wire wire[2];
static struct uccl_engine *engine[2];
static struct uccl_peer *peer;
static uint8_t *memory[2];
static struct uccl_rng rng;
static uint64_t now = UCCL_NS_PER_MS, ns[2];
static long long done;
static int under_way[2], next[2];
static size_t message = 4u << 20;
static int most = 4; /* messages under way at a time */
static const char *udp; /* the address of both sockets; NULL: none */
static const char *fault; /* what happens to what the sender sends; NULL: nothing */

/* Of a long payload nobody looks at the bytes. */
static uint32_t packet_copy(uint8_t *p, const struct uccl_tx *t)
{
	memcpy(p, t->hdr, t->hdr_len);
	if (t->payload_len && t->payload_len < MTU / 2)
		memcpy(p + t->hdr_len, t->payload, t->payload_len);
	if (t->tail_len)
		memcpy(p + t->hdr_len + t->payload_len, t->tail, t->tail_len);
	return uccl_tx_len(t);
}

static int wire_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct wire *w = (struct wire *)nic, *to = w->other;
	int i = 0;

	while (i < n && to->head - to->tail < RING) {
		uint32_t at = to->head++ % RING, len = 0;
		int end = i + uccl_train_len(&v[i], n - i, UCCL_TRAIN_BYTES);

		to->each[at] = end - i > 1 ? uccl_tx_len(&v[i]) : 0;
		for (; i < end; i++)
			len += packet_copy(to->train[at] + len, &v[i]);
		to->len[at] = len;
		w->trains++;
	}
	w->calls += i > 0;
	w->sent += (uint64_t)i;
	return i;
}

/*
 * What the kernel does, which is not counted: a row comes to where it was predicted, and what has no room stays here.
 */
__attribute__((noinline)) static void nic_receiver_row(struct uccl_rx *rx, const struct uccl_rx_placement *hint)
{
	uint32_t len = (uint32_t)uccl_min(rx->len, hint->len);

	memcpy(hint->dst, rx->data, len);
	uccl_rx_run_at(rx, hint->dst, len);
}

static int wire_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
{
	struct wire *w = (struct wire *)nic;
	int i;

	for (i = 0; i < n && w->tail != w->head; i++, w->tail++) {
		v[i] = (struct uccl_rx){ .kind = UCCL_RX_PACKET, .data = w->train[w->tail % RING],
					 .len = w->len[w->tail % RING], .each = w->each[w->tail % RING],
					 .src = w->other->addr };
		if (i < nhints && hints[i].each && hints[i].each == v[i].each)
			nic_receiver_row(&v[i], &hints[i]);
	}
	return i;
}

static uint32_t wire_slots(struct uccl_nic *nic, uint32_t bytes)
{
	(void)nic;
	(void)bytes;
	return SLOTS;
}

static void wire_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = ((struct wire *)nic)->addr;
}

static void wire_close(struct uccl_nic *nic)
{
	(void)nic;
}

static const struct uccl_nic_ops wire_ops = {
	.name = "wire", .tx = wire_tx, .rx = wire_rx, .slots = wire_slots, .addr = wire_addr, .close = wire_close,
};

static void seeded(void *arg, void *buf, size_t len)
{
	for (uint8_t *p = buf; len; len--)
		*p++ = (uint8_t)uccl_rng_next(arg);
}

static void sent(struct uccl_op *op)
{
	under_way[0]--;
	done++;
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
	for (; under_way[side] < most; under_way[side]++) {
		struct uccl_op *op = uccl_op_get(engine[side]);

		if (!op)
			return false;
		op->type = side ? UCCL_OP_RECV : UCCL_OP_SEND;
		op->iov[0] = (struct iovec){ memory[side] + (size_t)(next[side]++ % most) * message, message };
		op->iov_count = 1;
		op->len = message;
		op->done = side ? received : sent;
		op->peer = side ? NULL : peer;
		if (side ? uccl_engine_recv(engine[1], op, now) : uccl_engine_send(engine[0], op, now))
			return false;
	}
	return true;
}

/* Two names, so that a profiler can tell them apart. */
static __attribute__((noinline)) bool cost_sender(void)
{
	bool ok = post(0);

	uccl_engine_poll(engine[0], now);
	__asm__ volatile("");
	return ok;
}

static __attribute__((noinline)) bool cost_receiver(void)
{
	bool ok = post(1);

	uccl_engine_poll(engine[1], now);
	__asm__ volatile("# not the same function");
	return ok;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * UCCL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static struct uccl_nic *wire_open(int side)
{
	struct wire *w = &wire[side];

	w->nic = (struct uccl_nic){
		.ops = &wire_ops,
		.caps = {.mtu = MTU,
			 .labels = 512,
			 .tx_sync = true,
			 .placements = true,
			 .rx_slots = SLOTS,
			 .train_bytes = 65000,
			 .delay_ns = 500 * UCCL_NS_PER_US,
			 .rto_min_ns = 4 * UCCL_NS_PER_MS},
	};
	w->addr = (struct uccl_nic_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 10 }, .port = 99 };
	w->addr.ip[15] = (uint8_t)(1 + side);
	w->other = &wire[!side];
	w->train = calloc(RING, sizeof(*w->train));
	return w->train ? &w->nic : NULL;
}

/* NULL: no socket at that address. */
static struct uccl_nic *udp_open(void)
{
	struct uccl_nic_attr attr = { .bind.ip = { [10] = 0xff, [11] = 0xff }, .timestamps = true };
	struct uccl_nic *nic;

	if (inet_pton(AF_INET, udp, attr.bind.ip + 12) != 1 && inet_pton(AF_INET6, udp, attr.bind.ip) != 1)
		return NULL;
	return uccl_nic_udp_open(&attr, &nic) ? NULL : nic;
}

static uint64_t now_of(void *arg)
{
	(void)arg;
	return now;
}

/* The faults are between the sender and its NIC. NULL: none was opened. */
static struct uccl_nic *nic_open(int side)
{
	struct uccl_nic *nic = udp ? udp_open() : wire_open(side);
	const char *why;

	if (nic && fault && !side && uccl_nic_fault_open(nic, fault, now_of, NULL, &nic, &why)) {
		fprintf(stderr, "uccl_train: %s: %s\n", fault, why);
		return NULL;
	}
	return nic;
}

static bool begin(void)
{
	struct uccl_config cfg;

	uccl_rng_seed(&rng, 3);
	uccl_config_default(&cfg);
	for (int i = 0; i < 2; i++) {
		struct uccl_engine_attr attr = { .config = &cfg, .random = seeded, .random_arg = &rng };

		attr.nic = nic_open(i);
		memory[i] = calloc((size_t)most, message);
		if (!attr.nic || !memory[i])
			return false;
		/* Memory that was never written is one page of zeros for all. */
		memset(memory[i], 1, (size_t)most * message);
		if (uccl_engine_open(&attr, now, &engine[i]))
			return false;
	}
	peer = uccl_engine_peer(engine[0], uccl_engine_addr(engine[1]), true);
	return peer;
}

/* A whole number from 1 to `max`; 0: it is none. */
static long long number(const char *text, long long max)
{
	char *end;
	long long v = strtoll(text, &end, 10);

	return *text && !*end && v > 0 && v <= max ? v : 0;
}

/* Of both engines, what they say of themselves: those of a wire count more. */
static void report_udp(double trains)
{
	const struct uccl_stats *s = uccl_engine_stats(engine[0]);

	printf("%lld messages, %llu packets, %llu of them again, %llu for nothing, %llu acknowledgements: "
	       "sender %.0f ns, receiver %.0f ns a train of %d\n",
	       done, (unsigned long long)s->tx_packets, (unsigned long long)s->rtx_packets,
	       (unsigned long long)s->spurious, (unsigned long long)s->acks_rx, (double)ns[0] / trains,
	       (double)ns[1] / trains, TRAIN);
	printf("lost: %llu seen by order, %llu by time, %llu by silence; %llu probes, %llu time-outs\n",
	       (unsigned long long)s->lost_proof, (unsigned long long)s->lost_rack, (unsigned long long)s->lost_rto,
	       (unsigned long long)s->probes, (unsigned long long)s->rtos);
}

static void report_wire(double trains)
{
	printf("%lld messages, %llu packets and %llu back: sender %.0f ns, receiver %.0f ns a train of %d\n", done,
	       (unsigned long long)wire[0].sent, (unsigned long long)wire[1].sent, (double)ns[0] / trains,
	       (double)ns[1] / trains, TRAIN);
	printf("a message: %.2f packets in %.2f trains and %.2f calls, %.2f packets and %.2f calls back\n",
	       (double)wire[0].sent / (double)done, (double)wire[0].trains / (double)done,
	       (double)wire[0].calls / (double)done, (double)wire[1].sent / (double)done,
	       (double)wire[1].calls / (double)done);
}

int main(int argc, char **argv)
{
	long long messages = 400;

	for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2) {
		if (!strcmp(argv[1], "-u"))
			udp = argv[2];
		else if (!strcmp(argv[1], "-f"))
			fault = argv[2];
		else
			break;
	}
	messages = argc > 1 ? number(argv[1], INT32_MAX) : messages;
	message = argc > 2 ? (size_t)number(argv[2], MESSAGE_MAX) : message;
	most = argc > 3 ? (int)number(argv[3], WINDOW_MAX) : most;
	if (argc > 4 || !messages || !message || !most) {
		fprintf(stderr, "usage: uccl_train [-u ADDRESS] [-f FAULT] [MESSAGES [BYTES [WINDOW]]]\n"
				"  ns for a train of %d packets, of messages of %zu bytes, %d under way, without\n"
				"  the kernel, and how many packets, trains and calls of the NIC a message takes.\n"
				"  With -u between sockets at this address, with the kernel; with -f something\n"
				"  happens to what the sender sends, as with FI_UCCL_FAULT.\n"
				"  contrib/check-cost counts the instructions.\n",
			TRAIN, message, most);
		return 2;
	}
	if (udp)
		now = clock_ns(CLOCK_MONOTONIC);
	if (!begin()) {
		fprintf(stderr, "uccl_train: no engines\n");
		return 1;
	}
	for (uint64_t rounds = 0; done < messages; rounds++) {
		uint64_t began = clock_ns(CLOCK_PROCESS_CPUTIME_ID), middle;
		bool ok = cost_sender();

		middle = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		ok = cost_receiver() && ok;
		ns[0] += middle - began;
		ns[1] += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - middle;
		if (!ok || (!udp && rounds > (uint64_t)messages * (message + 100))) {
			fprintf(stderr, "uccl_train: nothing moves\n");
			return 1;
		}
		now = udp ? clock_ns(CLOCK_MONOTONIC) : now + ROUND_NS;
	}
	if (udp) {
		report_udp((double)done * (double)message / (TRAIN * (MTU - 64)));
		return 0;
	}
	report_wire((double)wire[0].sent / TRAIN);
	/* What it took, and not less: each packet once, with few that are none of payload. */
	return message >= TRAIN * MTU && wire[0].sent * (MTU - 64) > (uint64_t)done * message * 11 / 10;
}

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
 *	unshare -n sh -c 'ip link set lo mtu 1500 up && util/uccl_lab train -u 127.0.0.1 4000 262144 64'
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/engine.h"
#include "lab.h"
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
static const char *udp; /* the address of both sockets; NULL: none */
static const char *fault; /* what happens to what the sender sends; NULL: nothing */

/* The payload of long packets is not read, and not copied. */
static uint32_t packet_copy(uint8_t *p, const struct uccl_tx *t)
{
	uint32_t len = uccl_tx_len(t);

	for (uint32_t i = 0; t->row && i <= t->row; i++)
		uccl_tx_row_hdr(p + i * len, t->hdr, i);
	if (t->row)
		return (t->row + 1u) * len;
	memcpy(p, t->hdr, t->hdr_len);
	if (t->payload_len && t->payload_len < MTU / 2)
		memcpy(p + t->hdr_len, t->payload, t->payload_len);
	if (t->tail_len)
		memcpy(p + t->hdr_len + t->payload_len, t->tail, t->tail_len);
	return len;
}

static int wire_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct wire *w = (struct wire *)nic, *to = w->other;
	int i = 0;

	while (i < n && to->head - to->tail < RING) {
		uint32_t at = to->head++ % RING, len = 0, packets;
		int end = i + uccl_train_rows(&v[i], n - i, UCCL_SEGMENT_COUNT, UCCL_TRAIN_BYTES, &packets);

		to->each[at] = packets > 1 ? uccl_tx_len(&v[i]) : 0;
		w->sent += packets;
		for (; i < end; i++)
			len += packet_copy(to->train[at] + len, &v[i]);
		to->len[at] = len;
		w->trains++;
	}
	w->calls += i > 0;
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
	.name = "wire", .tx_rows = true, .tx = wire_tx, .rx = wire_rx,
	.slots = wire_slots, .addr = wire_addr, .close = wire_close,
};

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
	return lab.now;
}

/* The faults are between the sender and its NIC. NULL: none was opened. */
static struct uccl_nic *nic_open(int side)
{
	struct uccl_nic *nic = udp ? udp_open() : wire_open(side);
	const char *why;

	if (nic && fault && !side && uccl_nic_fault_open(nic, fault, now_of, NULL, &nic, &why))
		die("%s: %s", fault, why);
	return nic;
}

/* Of both engines, what they say of themselves: those of a wire count more. */
static void report_udp(double trains, const uint64_t ns[2])
{
	const struct uccl_stats *s = uccl_engine_stats(lab.engine[0]);

	printf("%llu messages, %llu packets, %llu of them again, %llu for nothing, %llu acknowledgements: "
	       "sender %.0f ns, receiver %.0f ns a train of %d\n",
	       (unsigned long long)lab.done, (unsigned long long)s->tx_packets, (unsigned long long)s->rtx_packets,
	       (unsigned long long)s->spurious, (unsigned long long)s->acks_rx, (double)ns[0] / trains,
	       (double)ns[1] / trains, TRAIN);
	printf("lost: %llu seen by order, %llu by time, %llu by silence; %llu probes, %llu time-outs\n",
	       (unsigned long long)s->lost_proof, (unsigned long long)s->lost_rack, (unsigned long long)s->lost_rto,
	       (unsigned long long)s->probes, (unsigned long long)s->rtos);
}

static void report_wire(double trains, const uint64_t ns[2])
{
	printf("%llu messages, %llu packets and %llu back: sender %.0f ns, receiver %.0f ns a train of %d\n",
	       (unsigned long long)lab.done,
	       (unsigned long long)wire[0].sent, (unsigned long long)wire[1].sent, (double)ns[0] / trains,
	       (double)ns[1] / trains, TRAIN);
	printf("a message: %.2f packets in %.2f trains and %.2f calls, %.2f packets and %.2f calls back\n",
	       (double)wire[0].sent / (double)lab.done, (double)wire[0].trains / (double)lab.done,
	       (double)wire[0].calls / (double)lab.done, (double)wire[1].sent / (double)lab.done,
	       (double)wire[1].calls / (double)lab.done);
}

int lab_train(int argc, char **argv)
{
	uint64_t messages = 400, bytes = 4u << 20, window = 4, ns[2] = { 0, 0 };
	const struct lab_option options[] = {
		{ 'u', "udp", "between sockets at this address, with the kernel", .text = &udp },
		{ 'f', "fault", "happens to what the sender sends, as with FI_UCCL_FAULT", .text = &fault },
		{ 0, "MESSAGES", "how many", .number = &messages, .least = 1, .most = INT32_MAX },
		{ 0, "BYTES", "of a message", .number = &bytes, .least = 1, .most = MESSAGE_MAX },
		{ 0, "WINDOW", "messages under way", .number = &window, .least = 1, .most = WINDOW_MAX },
	};
	struct uccl_config cfg;

	lab_options(argc, argv, options, uccl_array_len(options),
		    "  ns for a train of 44 packets without the kernel, and how many packets, trains and calls of the\n"
		    "  NIC a message takes. contrib/check-cost counts the instructions.");
	uccl_config_default(&cfg);
	lab.message = bytes;
	lab.window = (int)window;
	if (udp)
		lab.now = lab_clock(CLOCK_MONOTONIC);
	for (int i = 0; i < 2; i++)
		if (!lab_engine_open(i, nic_open(i), &cfg))
			die("no engines");
	for (uint64_t rounds = 0; lab.done < messages; rounds++) {
		uint64_t began = lab_clock(CLOCK_PROCESS_CPUTIME_ID), middle;
		bool ok = cost_sender();

		middle = lab_clock(CLOCK_PROCESS_CPUTIME_ID);
		ok = cost_receiver() && ok;
		ns[0] += middle - began;
		ns[1] += lab_clock(CLOCK_PROCESS_CPUTIME_ID) - middle;
		if (!ok || (!udp && rounds > messages * (bytes + 100)))
			die("nothing moves");
		lab.now = udp ? lab_clock(CLOCK_MONOTONIC) : lab.now + ROUND_NS;
	}
	if (udp) {
		report_udp((double)(lab.done * bytes) / (TRAIN * (MTU - 64)), ns);
		return 0;
	}
	report_wire((double)wire[0].sent / TRAIN, ns);
	/* What it took, and not less: each packet once, with few that are none of payload. */
	return bytes >= TRAIN * MTU && wire[0].sent * (MTU - 64) > lab.done * bytes * 11 / 10;
}

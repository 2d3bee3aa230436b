/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What it costs an engine to refuse a packet that reached it: one engine over a NIC that hands it the same packet again
 * and again, in virtual time; "replay" is an old one of a connected peer. Prints ns by the machine's clock, the median
 * of short stretches; contrib/check-cost counts the instructions of cost_refuse. What the kernel needs to bring a
 * packet, or to answer HELLO, is not in it, nor is what its filter keeps away.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"
#include "flow/wire/conn.h"
#include "engine/engine.h"
#include "lab.h"

#define BEGIN UCCL_NS_PER_S
/* Packets between two readings of the clock. */
#define STRETCH 1024
#define BYTES_MAX 1024

static const struct uccl_nic_addr here = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 }, .port = 7000 },
				  there = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 }, .port = 7001 };

/* What to send, and what should become of it; UCCL_DROP_COUNT: each is answered. */
static const struct shape {
	const char *name;
	enum uccl_drop reason;
} shapes[] = {
	{ "short", UCCL_DROP_SHORT },	{ "type", UCCL_DROP_TYPE },   { "length", UCCL_DROP_LENGTH },
	{ "token", UCCL_DROP_TOKEN },	{ "hello", UCCL_DROP_COUNT }, { "answer", UCCL_DROP_TOKEN },
	{ "old", UCCL_DROP_COOKIE },	{ "cookie", UCCL_DROP_COOKIE }, { "key", UCCL_DROP_MAC },
	{ "replay", UCCL_DROP_DUPLICATE },
};

static struct {
	struct uccl_nic nic;
	uint8_t packet[BYTES_MAX];
	uint32_t len, left;
	uint64_t sent;
	uint8_t answer[UCCL_HDR_LEN]; /* the last one */
} wire;

static struct uccl_engine *engine;

static int wire_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	(void)nic;
	wire.sent += (uint64_t)n;
	memcpy(wire.answer, v[n - 1].hdr, UCCL_HDR_LEN);
	return n;
}

static int wire_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
{
	(void)nic;
	(void)hints;
	(void)nhints;
	n = (int)uccl_min((uint32_t)n, wire.left);
	wire.left -= (uint32_t)n;
	for (int i = 0; i < n; i++)
		v[i] = (struct uccl_rx){ .kind = UCCL_RX_PACKET, .data = wire.packet, .len = wire.len,
					 .src = there };
	return n;
}

static void wire_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	(void)nic;
	*out = here;
}

static void wire_close(struct uccl_nic *nic)
{
	(void)nic;
}

static const struct uccl_nic_ops wire_ops = {
	.name = "wire", .tx = wire_tx, .rx = wire_rx, .addr = wire_addr, .close = wire_close,
};

/* A name of its own for the profiler: as many packets as the wire has. */
static __attribute__((noinline)) void cost_refuse(uint64_t now)
{
	while (wire.left)
		uccl_engine_poll(engine, now);
	__asm__ volatile("");
}

static void packet_put(uint8_t type, const uint8_t *rec, uint32_t payload)
{
	struct uccl_hdr h = { .type = type, .token = 0x123456789, .rec = rec, .payload_len = (uint16_t)payload };

	uccl_hdr_encode(wire.packet, &h);
	wire.len = UCCL_HDR_LEN + payload;
}

/* The step of a handshake that is due. */
static void step_put(struct uccl_conn *c, const struct uccl_listener *l)
{
	struct uccl_tx tx;
	uint8_t buf[UCCL_INIT_MAX];

	c->tx_due = true;
	uccl_conn_tx(c, l, &tx, buf, BEGIN);
	memcpy(wire.packet, tx.hdr, UCCL_HDR_LEN);
	memcpy(wire.packet + UCCL_HDR_LEN, buf, tx.payload_len);
	wire.len = UCCL_HDR_LEN + tx.payload_len;
}

/* INIT by somebody who has the key, or not. */
static bool init_put(bool has_key)
{
	struct uccl_listener l = { .local = { .nic = there, .incarnation = 5 } };
	struct uccl_conn_params mine = { .mtu = 1500, .window = 2048, .msg_limit = 64, .paths = 4, .slots = 64,
				   .csn = 100 };
	struct uccl_addr peer = *uccl_engine_addr(engine);
	struct uccl_conn c;
	struct uccl_hdr h;

	peer.key[0] ^= !has_key;
	uccl_conn_init(&c, &peer, &mine, 77, 99);
	uccl_conn_start(&c, BEGIN);
	step_put(&c, &l);
	wire.left = 1;
	cost_refuse(BEGIN);
	if (uccl_hdr_decode(&h, wire.answer, UCCL_HDR_LEN) != UCCL_DROP_COUNT || h.type != UCCL_PKT_COOKIE ||
	    uccl_conn_cookie(&c, &h, BEGIN) != UCCL_DROP_COUNT)
		return false;
	step_put(&c, &l);
	return true;
}

/* A chunk before the first one of a connection, as if it had been received long ago. */
static bool replay_put(const uint8_t *rec)
{
	struct uccl_hdr h = { .type = UCCL_PKT_CHUNK, .rec = rec, .csn = 99, .pseq = 1 };

	if (!init_put(true))
		return false;
	wire.left = 1;
	cost_refuse(BEGIN);
	if (wire.answer[3] != UCCL_PKT_INIT_ACK)
		return false;
	h.token = uccl_get64(wire.answer + 32);
	uccl_hdr_encode(wire.packet, &h);
	wire.len = UCCL_HDR_LEN;
	return true;
}

static bool shape_put(const char *name)
{
	uint8_t rec[UCCL_REC_LEN] = { 1, [8] = 1, [24] = 0x59, 0x1b };

	if (!strcmp(name, "short")) {
		packet_put(UCCL_PKT_CHUNK, rec, 0);
		wire.len = UCCL_HDR_LEN - 1;
	} else if (!strcmp(name, "type")) {
		packet_put(31, rec, 0);
	} else if (!strcmp(name, "length")) {
		packet_put(UCCL_PKT_CHUNK, rec, 200);
		wire.len--;
	} else if (!strcmp(name, "token")) {
		packet_put(UCCL_PKT_CHUNK, rec, 200);
	} else if (!strcmp(name, "hello")) {
		packet_put(UCCL_PKT_HELLO, rec, 0);
	} else if (!strcmp(name, "answer")) {
		packet_put(UCCL_PKT_COOKIE, rec, 0);
	} else if (!strcmp(name, "replay")) {
		return replay_put(rec);
	} else {
		if (!init_put(false))
			return false;
		/* A cookie of another time; one of this time, but not ours; or the right one. */
		if (!strcmp(name, "old"))
			wire.packet[32 + 16 + 6] ^= 1;
		else if (!strcmp(name, "cookie"))
			wire.packet[32 + 24] ^= 1;
	}
	return true;
}

static int measure(const struct shape *s, uint64_t packets)
{
	struct uccl_rng rng;
	struct uccl_config cfg;
	struct uccl_engine_attr attr = { .nic = &wire.nic, .config = &cfg, .random = lab_random, .random_arg = &rng };
	uint64_t stretches = (packets + STRETCH - 1) / STRETCH, *ns = calloc(stretches, sizeof(*ns)), sent, refused;
	const struct uccl_stats *stats;
	bool right;

	uccl_rng_seed(&rng, 1);
	uccl_config_default(&cfg);
	wire.nic = (struct uccl_nic){ .ops = &wire_ops, .caps = { .mtu = BYTES_MAX, .labels = 16, .tx_sync = true } };
	if (!ns || uccl_engine_open(&attr, BEGIN, &engine) || !shape_put(s->name))
		die("no engine");
	stats = uccl_engine_stats(engine);
	sent = wire.sent;
	for (uint64_t i = 0; i < stretches; i++) {
		uint64_t began = lab_clock(CLOCK_MONOTONIC);

		wire.left = STRETCH;
		cost_refuse(BEGIN + i);
		ns[i] = lab_clock(CLOCK_MONOTONIC) - began;
	}
	packets = stretches * STRETCH;
	sent = wire.sent - sent;
	refused = s->reason == UCCL_DROP_COUNT ? 0 : stats->dropped[s->reason];
	/* A peer that repeats a chunk may have missed its acknowledgement: it gets another one, once in a stretch. */
	right = s->reason == UCCL_DROP_COUNT ? sent == packets :
					       refused == packets &&
						       sent <= (s->reason == UCCL_DROP_DUPLICATE ? stretches : 0);
	printf("%s: %llu packets, %.0f ns each%s\n", s->name, (unsigned long long)packets,
	       (double)lab_median(ns, stretches) / STRETCH, right ? "" : ": NOT refused as it should be");
	uccl_engine_close(engine);
	free(ns);
	return !right;
}

int lab_refuse(int argc, char **argv)
{
	const char *name = NULL;
	uint64_t packets = 1 << 20;
	const struct lab_option options[] = {
		{ 0, "SHAPE", "short, type, length, token, hello, answer, old, cookie, key or replay", .text = &name },
		{ 0, "PACKETS", "how many", .number = &packets, .least = 1, .most = UINT32_MAX },
	};

	lab_options(argc, argv, options, uccl_array_len(options),
		    "  ns that an engine needs to refuse a packet of this shape, or to answer a HELLO.\n"
		    "  contrib/check-cost counts the instructions.");
	for (size_t i = 0; name && i < uccl_array_len(shapes); i++)
		if (!strcmp(name, shapes[i].name))
			return measure(&shapes[i], packets);
	lab_refused("no such shape");
}

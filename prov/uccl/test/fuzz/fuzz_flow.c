/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A flow against a peer that knows the token and nothing else: the input drives packets of every type with arbitrary
 * fields, direct writes, fences, the NIC's answers, submissions and time, while the flow itself sends. Afterwards what
 * it delivered must have been inside the packet, doubts must have been settled at most once, and uccl_flow_check must
 * hold after each step.
 */
#include "input.h"

#include "base/units.h"
#include "flow/flow.h"
#include "policy/policies.h"

#define ITEMS 16
#define TX_MAX 2000

static struct {
	const uint8_t *payload; /* of the packet that is looked at now */
	uint32_t len;
	bool pieces;	/* it is one of several */
	uint8_t refuse; /* what deliver answers */
	uint64_t doubtful, settled;
	bool fence_now;
} say;

static uint8_t source[20000];
static struct iovec iov[2] = {{source, 7000}, {source + 7000, 13000}};

static enum uccl_drop deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	assert(in->len <= UINT16_MAX + 1u);
	if (in->placed) {
		assert(f->cfg.write.bytes && in->len <= f->cfg.write.bytes && !in->data);
	} else {
		/* What came in pieces was put together elsewhere. */
		assert(say.pieces || (in->len == say.len && (!in->len || in->data == say.payload)));
		for (uint32_t i = 0; i < in->len; i++)
			assert(in->data[i] == 0x5a);
	}
	switch (say.refuse) {
	case 1:
		return UCCL_DROP_MEMORY;
	case 2:
		return UCCL_DROP_HANDLE;
	default:
		break;
	}
	say.doubtful += in->doubtful;
	/* A message that is complete but for its doubts asks for fences from within. */
	if (in->doubtful && say.refuse == 3)
		uccl_flow_fence_message(f, uccl_get32(in->rec), uccl_get32(in->rec + 4), now);
	return UCCL_DROP_COUNT;
}

static void settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	say.settled++;
}

static void fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	assert(path < f->cfg.paths_rx);
	if (say.fence_now)
		uccl_flow_fenced(f, path, now);
}

static void acked(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	assert(!item->pending && !item->queued);
}

static const struct uccl_flow_ops ops = {.deliver = deliver, .settled = settled, .fence = fence, .acked = acked};

/* Most numbers lie near what the flow expects, or nothing would get past the first check. */
static uint32_t near(struct input *in, uint64_t at, uint32_t span)
{
	uint8_t how = byte(in);

	return how < 240 ? (uint32_t)(at + how % span) : (uint32_t)number(in, 4);
}

static void rx_packet(struct input *in, struct uccl_flow *f, uint64_t now)
{
	static const uint8_t types[] = {
		UCCL_PKT_CHUNK,	  UCCL_PKT_CHUNK,     UCCL_PKT_DESC,	 UCCL_PKT_DESC,	   UCCL_PKT_SEGMENT,
		UCCL_PKT_SEGMENT, UCCL_PKT_SEGMENT,   UCCL_PKT_ACK,	 UCCL_PKT_PROBE,   UCCL_PKT_CREDIT,
		UCCL_PKT_DEMAND,  UCCL_PKT_ACK,	      UCCL_PKT_SEGMENT,	 UCCL_PKT_SEGMENT, UCCL_PKT_SEGMENT,
		UCCL_PKT_SEGMENT, UCCL_PKT_CLOSE_ACK, UCCL_PKT_INIT_ACK,
	};
	uint32_t len = byte(in) & 1 ? byte(in) : 0, tail = 0;
	uint8_t rec[UCCL_REC_LEN] = {0}, tail_bytes[UCCL_TAIL_MAX];
	struct uccl_hdr h = {
		.type = types[byte(in) % sizeof(types)],
		.flags = byte(in),
		.path = byte(in) % (f->cfg.paths_rx + 1u),
		.csn = near(in, f->rx.arrived.nxt, 80),
		.ts = near(in, uccl_ts(now) - 20, 40),
		.rec = rec,
	};
	struct uccl_segment seg = {0};
	uint8_t *body = NULL;

	h.pseq = h.path < f->cfg.paths_rx ? f->rx.ack_tracker.paths[h.path].high_seq + byte(in) % 4 : 1;
	if (h.type == UCCL_PKT_DESC) {
		struct uccl_desc d = {.id = byte(in) % 3,
				      .gen = 1,
				      .count = byte(in) % 40,
				      .chunk = byte(in) % 9 * 64u};

		d.offset = byte(in) & 1 ? number(in, 8) : 0;
		d.len = (uint64_t)d.count * d.chunk - byte(in) % 8;
		uccl_desc_encode(rec, &d);
	} else if (h.type == UCCL_PKT_SEGMENT) {
		uint8_t whole[UCCL_REC_LEN] = {0}, how = byte(in);

		seg = (struct uccl_segment){.index = byte(in) % 5, .count = byte(in) % 5, .total = how / 64 * 64u};
		uccl_put32(whole, byte(in) % 3);
		uccl_put32(whole + 4, 1);
		uccl_put64(whole + 8, how & 1 ? byte(in) * 64u : number(in, 8));
		whole[UCCL_SEGMENT_PATH] = byte(in) % 5;
		len = seg.count ? uccl_segment_len(seg.total, seg.index, seg.count) & 0xff : 0;
		if (how & 2) {
			seg.sub = byte(in) % 3;
			seg.subs = byte(in) % 4;
			len = seg.subs ? uccl_segment_len(len, seg.sub, seg.subs) & 0xff : len;
		}
		len = how & 0x1c ? len : byte(in);
		uccl_segment_encode(rec, whole, &seg);
	} else {
		uccl_put64(rec, number(in, byte(in) % 9));
	}
	/* A block of its own for each payload, so that a sanitizer sees the first byte too many. */
	body = malloc(len ? len : 1);
	assert(body);
	memset(body, 0x5a, len);
	h.payload_len = (uint16_t)len;
	if (byte(in) & 1) {
		struct uccl_ack a;

		memset(&a, 0, sizeof(a));
		a.cum = near(in, f->sent.una, 20);
		a.dups = f->loss.rack.dups + (byte(in) & 1);
		a.slots = byte(in) % 70;
		a.msg_limit = byte(in);
		a.nwords = byte(in) % 3;
		for (int i = 0; i < a.nwords; i++)
			a.sack[i] = number(in, 2);
		a.nsegments = byte(in) % 3;
		for (int i = 0; i < a.nsegments; i++) {
			a.segments[i].ahead = (uint16_t)(i + byte(in) % 3 + (i ? a.segments[i - 1].ahead : 0));
			a.segments[i].of = byte(in) % 5;
			a.segments[i].subs = byte(in) & 1 ? byte(in) % 5 : 0;
			a.segments[i].have = number(in, 2);
		}
		a.npaths = byte(in) % 3;
		for (int i = 0; i < a.npaths; i++) {
			a.paths[i].path = byte(in) % 5;
			a.paths[i].write = byte(in) & 1;
			a.paths[i].seq = a.paths[i].write ? near(in, f->sent.una, 20) : near(in, 1, 40);
			a.paths[i].echo = near(in, uccl_ts(now) - 20, 40);
			a.paths[i].delay = byte(in);
		}
		tail = uccl_ack_encode(tail_bytes, &a);
		if (byte(in) == 0xff)
			tail--;
	}
	h.tail_len = (uint16_t)tail;
	say.payload = body;
	say.len = len;
	say.pieces = seg.subs;
	uccl_flow_rx(f, &h, body, tail_bytes, byte(in) * 64u, now);
	free(body);
}

static void rx_write(struct input *in, struct uccl_flow *f, uint64_t now)
{
	uint32_t csn = near(in, f->rx.arrived.nxt - 4, 80);
	uint8_t epoch = byte(in) < 250 ? f->cfg.wire.epoch_rx : byte(in);

	uccl_flow_rx_write(f, uccl_imm(csn, epoch), byte(in) % 9 * 64u, byte(in) % (f->cfg.paths_rx + 1u), now);
}

static void send_all(struct uccl_flow *f, uint64_t now)
{
	struct uccl_tx tx;
	int n;

	memset(&tx, 0, sizeof(tx));
	for (n = 0; n < TX_MAX && uccl_flow_tx(f, &tx, now); n++) {
		struct uccl_hdr h;
		uint32_t len = tx.hdr_len + tx.payload_len + tx.tail_len;

		assert(!uccl_flow_check(f));
		assert(tx.path < f->cfg.paths_tx && tx.label < f->cfg.labels);
		if (tx.payload_len)
			assert((const uint8_t *)tx.payload >= source &&
			       (const uint8_t *)tx.payload + tx.payload_len <= source + sizeof(source));
		if (tx.kind == UCCL_TX_WRITE)
			continue;
		assert(len <= f->cfg.packet.mtu && tx.hdr_len == UCCL_HDR_LEN);
		assert(uccl_hdr_decode(&h, tx.hdr, len) == UCCL_DROP_COUNT);
		if (tx.tail_len) {
			struct uccl_ack a;

			assert(uccl_ack_decode(&a, tx.tail, tx.tail_len) == UCCL_DROP_COUNT);
			assert(a.cum == (uint32_t)f->rx.arrived.nxt);
		}
	}
	assert(n < TX_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct uccl_stats stats = {0};
	struct uccl_item items[ITEMS] = {0};
	uint8_t shape = byte(&in);
	struct uccl_flow_cfg cfg = {
		.policy.cc = shape & 1 ? &uccl_cc_swift : &uccl_cc_cubic,
		.policy.pathsel = &uccl_path_pow2,
		.policy.credit = shape & 2 ? &uccl_credit_window : &uccl_credit_none,
		.ops = &ops,
		.stats = &stats,
		.wire.token_tx = 1,
		.wire.token_rx = 2,
		.wire.csn_tx = shape & 4 ? UINT32_MAX - 20u : 0,
		.wire.csn_rx = shape & 8 ? (1u << 28) - 20 : 0,
		.packet.chunk_bytes = 512,
		.write.bytes = shape & 16 ? 512 : 0,
		.packet.mtu = shape & 32 ? 2048 : 512 + UCCL_HDR_LEN,
		.window = 64,
		.paths_tx = 4,
		.paths_rx = 4,
		.labels = 8,
		.slots_tx = 60,
		.slots_rx = 60,
		.wire.epoch_rx = 3,
		.tx_sync = !(shape & 16),
		.packet.mtu_rx = shape & 32 ? 2048 : 512 + UCCL_HDR_LEN,
		.train.segments_tx = shape & 16 ? 0 : 1 + (shape & 63),
		.train.segments_rx = !(shape & 16),
		.train.bytes = shape & 16 ? 0 : 20 * 512,
		.write.fifo = shape & 64,
		.rto_min_ns = UCCL_NS_PER_MS,
		.link_bps = 10000000000,
		.delay_ns = 20000,
		.seed = 1,
	};
	struct uccl_flow f;
	uint64_t now = UCCL_NS_PER_S;
	int used = 0;

	memset(&say, 0, sizeof(say));
	say.fence_now = shape & 128;
	assert(!uccl_flow_init(&f, &cfg, NULL, now));
	while (in.at < in.end) {
		switch (byte(&in) % 12) {
		case 0:
			if (used < ITEMS) {
				struct uccl_item *item = &items[used++];

				item->iov = iov;
				item->iov_count = 2;
				item->bulk = byte(&in) & 1;
				item->direct = item->bulk && byte(&in) & 1;
				item->want_ack = byte(&in) & 1;
				item->len = item->bulk ? 1u + byte(&in) * 70u : byte(&in) * 2u;
				uccl_flow_submit(&f, item);
			}
			break;
		case 1:
			send_all(&f, now);
			break;
		case 2:
			now += 64u << byte(&in) % 24;
			break;
		case 3:
			now = uccl_max(now, uccl_flow_expiry(&f) == UCCL_NEVER ? now : uccl_flow_expiry(&f));
			break;
		case 4:
			uccl_flow_sent(&f, f.sent.una + byte(&in) % 64, now);
			break;
		case 5:
			if (f.cfg.write.bytes)
				uccl_flow_fenced(&f, byte(&in) % 5, now);
			break;
		case 6:
			say.refuse = byte(&in) % 5;
			break;
		case 7:
		case 8:
			rx_write(&in, &f, now);
			break;
		default:
			rx_packet(&in, &f, now);
			break;
		}
		assert(!uccl_flow_check(&f));
		if (now >= uccl_flow_expiry(&f)) {
			uccl_flow_expire(&f, now);
			assert(!uccl_flow_check(&f));
		}
		assert(f.rx.write.ndescs <= f.cfg.window && f.rx.write.ndoubts <= f.cfg.window);
		assert(f.rx.ack_tracker.ndirty <= f.cfg.paths_rx);
		assert(say.settled + f.rx.write.ndoubts == say.doubtful);
	}
	send_all(&f, now);
	uccl_flow_fini(&f);
	return 0;
}

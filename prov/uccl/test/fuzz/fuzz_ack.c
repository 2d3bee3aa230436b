/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Acknowledgement blocks of a peer that may lie. A flow with packets and direct writes in flight takes blocks whose
 * numbers are drawn near to what it has sent; a refused one changes nothing, an accepted one nothing but what may
 * change.
 */
#include "input.h"

#include "base/units.h"
#include "flow/flow.h"
#include "policy/policies.h"

#define ITEMS 24
#define BULK_BYTES 60000

static uint8_t payload[BULK_BYTES];
static struct iovec iov = {payload, sizeof(payload)};
static uint32_t acked;

static enum uccl_drop deliver(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now)
{
	return UCCL_DROP_COUNT;
}

static void settled(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
}

static void fence(struct uccl_flow *f, uint16_t path, uint64_t now)
{
}

static void done(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	assert(!item->pending && !item->queued);
	acked++;
}

static const struct uccl_flow_ops ops = {.deliver = deliver, .settled = settled, .fence = fence, .acked = done};

/* A number near `at`, or anything. */
static uint32_t near(struct input *in, uint64_t at)
{
	uint8_t how = byte(in);

	if (how < 200)
		return (uint32_t)(at + how % 40 - 8);
	return (uint32_t)byte(in) << 24 | (uint32_t)byte(in) << 8 | byte(in);
}

static void block(struct input *in, const struct uccl_flow *f, struct uccl_ack *a, uint64_t now)
{
	uint8_t shape = byte(in);

	memset(a, 0, sizeof(*a));
	a->cum = near(in, f->sent.una);
	a->dups = f->loss.rack.dups + byte(in) % 3;
	a->msg_limit = near(in, f->limits.msg_limit);
	a->slots = byte(in);
	a->rcv_short = shape & 1;
	a->npaths = shape >> 1 & 3;
	a->nwords = shape >> 3 & 3;
	for (int i = 0; i < a->npaths; i++) {
		struct uccl_ack_path *p = &a->paths[i];

		p->path = byte(in) % 5;
		p->write = byte(in) & 1;
		p->seq = near(in, p->write		      ? f->sent.nxt - 8
				  : p->path < f->cfg.paths_tx ? f->paths.list[p->path].next_seq - 8
							      : 0);
		p->echo = near(in, uccl_ts(now) - 20);
		p->delay = byte(in) & 1 ? byte(in) : UINT32_MAX;
	}
	for (int i = 0; i < a->nwords; i++)
		a->sack[i] = (uint64_t)byte(in) << byte(in) % 57;
	a->nsegments = shape >> 5 & 3;
	for (int i = 0; i < a->nsegments; i++) {
		a->segments[i].ahead = (uint16_t)((i ? a->segments[i - 1].ahead + 1 : 0) + byte(in) % 3);
		a->segments[i].of = byte(in) % 14;
		a->segments[i].subs = byte(in) & 1 ? byte(in) % 8 : 0;
		a->segments[i].have = (uint64_t)byte(in) << byte(in) % 57;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct uccl_stats stats = {0};
	struct uccl_item items[ITEMS] = {0};
	struct uccl_flow_cfg cfg = {
		.policy.cc = &uccl_cc_swift,
		.policy.pathsel = &uccl_path_pow2,
		.policy.credit = &uccl_credit_none,
		.ops = &ops,
		.stats = &stats,
		.wire.token_tx = 1,
		.wire.token_rx = 2,
		.wire.csn_tx = byte(&in) & 1 ? UINT32_MAX - 20u : 0,
		.packet.chunk_bytes = 1024,
		.packet.mtu = 2048,
		.window = 64,
		.paths_tx = 4,
		.paths_rx = 4,
		.labels = 8,
		.slots_tx = 60,
		.slots_rx = 60,
		.rto_min_ns = UCCL_NS_PER_MS,
		.link_bps = 10000000000,
		.delay_ns = 20000,
		.seed = 1,
	};
	struct uccl_tx tx;
	struct uccl_flow f;
	uint64_t now = UCCL_NS_PER_S;
	int used = 0;

	cfg.write.bytes = byte(&in) & 1 ? 4096 : 0;
	cfg.tx_sync = !cfg.write.bytes;
	cfg.train.segments_tx = cfg.tx_sync ? UCCL_SEGMENT_COUNT : 0;
	cfg.train.bytes = cfg.tx_sync ? 1024u * 12 : 0;
	acked = 0;
	memset(&tx, 0, sizeof(tx));
	assert(!uccl_flow_init(&f, &cfg, NULL, now));
	while (in.at < in.end) {
		uint64_t una = f.sent.una, nxt = f.sent.nxt;
		uint8_t tail[UCCL_TAIL_MAX];
		struct uccl_hdr h = {.type = UCCL_PKT_ACK, .pseq = 1, .rec = payload};
		struct uccl_ack a;
		uint64_t before;

		if (used < ITEMS && byte(&in) & 1) {
			struct uccl_item *item = &items[used++];

			item->iov = &iov;
			item->iov_count = 1;
			item->bulk = byte(&in) & 1;
			item->direct = item->bulk;
			item->len = item->bulk ? BULK_BYTES : 100;
			uccl_flow_submit(&f, item);
		}
		for (int i = byte(&in) % 32; i > 0 && uccl_flow_tx(&f, &tx, now); i--)
			;
		now += 64u * byte(&in);
		if (now >= uccl_flow_expiry(&f))
			uccl_flow_expire(&f, now);
		for (uint64_t c = f.sent.una; byte(&in) & 1 && c < f.sent.nxt; c++)
			uccl_flow_sent(&f, c, now);
		una = f.sent.una;
		nxt = f.sent.nxt;
		before = stats.dropped[UCCL_DROP_ACK] + stats.dropped[UCCL_DROP_PATH];
		block(&in, &f, &a, now);
		h.tail_len = (uint16_t)uccl_ack_encode(tail, &a);
		uccl_flow_rx(&f, &h, NULL, tail, 64u * byte(&in), now);
		assert(f.sent.una >= una && f.sent.nxt == nxt);
		if (stats.dropped[UCCL_DROP_ACK] + stats.dropped[UCCL_DROP_PATH] != before)
			assert(f.sent.una == una);
		assert(!uccl_flow_check(&f));
		assert(f.sent.nxt - f.sent.una <= f.cfg.window && f.sent.high_acked <= f.sent.nxt);
		assert(acked <= (uint32_t)used);
	}
	uccl_flow_fini(&f);
	return 0;
}

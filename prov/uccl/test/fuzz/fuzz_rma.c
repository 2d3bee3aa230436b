/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Records of messages, RMA and atomics from a peer that is authenticated and says what it likes, against an endpoint
 * with registered memory and operations of its own under way. Regions are blocks of their own, so that a sanitizer sees
 * a byte beside them; regions come and go. At the end every operation has ended once and nothing is left over.
 */
#include "input.h"

#include <rdma/fi_errno.h>

#include "base/units.h"
#include "msg/rma/atomic_math.h"
#include "msg/msg_ep.h"
#include "policy/policies.h"

#define REGIONS 3
#define REGION_BYTES 3000
#define OPS 64
#define CHUNK 1024

static struct {
	uint8_t *region[REGIONS];
	int open_ops;
	int locked;
} world;

static int resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	uint64_t i = seg->key - 1, half = REGION_BYTES / 2;

	assert(seg->len);
	if (i >= REGIONS || !world.region[i])
		return -UCCL_REFUSED_KEY;
	if (i == 2 && access & UCCL_ACCESS_WRITE)
		return -UCCL_REFUSED_ACCESS;
	if (seg->addr > REGION_BYTES || seg->len > REGION_BYTES - seg->addr)
		return -UCCL_REFUSED_RANGE;
	*region = world.region[i];
	iov[0] = (struct iovec){ .iov_base = world.region[i] + seg->addr, .iov_len = seg->len };
	if (i != 1 || seg->addr >= half || seg->addr + seg->len <= half)
		return 1;
	/* Region 1 is one of two pieces. */
	iov[0].iov_len = half - seg->addr;
	iov[1] = (struct iovec){ .iov_base = world.region[i] + half, .iov_len = seg->len - iov[0].iov_len };
	return 2;
}

static void lock(void *arg)
{
	assert(!world.locked++);
}

static void unlock(void *arg)
{
	assert(world.locked-- == 1);
}

static void event(void *arg, const struct uccl_rma_event *ev)
{
	assert(ev->nregions <= UCCL_SEG_MAX);
	for (uint8_t i = 0; i < ev->nregions; i++)
		assert(ev->regions[i] == world.region[0] || ev->regions[i] == world.region[1] ||
		       ev->regions[i] == world.region[2]);
}

static const struct uccl_target_ops target = {
	.resolve = resolve, .lock = lock, .unlock = unlock, .event = event,
};

static void ready(struct uccl_peer *p)
{
}

static void start(struct uccl_peer *p, uint64_t now)
{
}

static const struct uccl_engine_ops msg_ep_ops = {.ready = ready, .connect = start};

static void done(struct uccl_op *op)
{
	world.open_ops--;
	uccl_msg_ep_op_put(op->peer->msg_ep, op);
}

static void post(struct input *in, struct uccl_msg_ep *m, struct uccl_peer *p, uint8_t *own)
{
	struct iovec one = { .iov_base = own, .iov_len = 16 };
	struct uccl_atomic_args args = { .operand = &one, .noperand = 1, .compare = &one, .ncompare = 1 };
	struct uccl_op *op = uccl_msg_ep_op_get(m);
	uint8_t what = byte(in);

	if (!op)
		return;
	op->type = (uint8_t)(UCCL_OP_WRITE + what % 5);
	op->peer = p;
	op->done = done;
	op->flags = what & 0x80 ? UCCL_OPF_FENCE : 0;
	op->rma.nseg = 1;
	op->rma.datatype = UCCL_UINT64;
	op->rma.atomic = op->type == UCCL_OP_COMPARE ? UCCL_CSWAP : UCCL_SUM;
	if (op->type > UCCL_OP_READ) {
		op->rma.args = &args;
		args.ncompare = op->type == UCCL_OP_COMPARE;
	}
	op->rma.seg[0].len = op->type > UCCL_OP_READ ? 16 : number(in, 3) % 70000;
	if (op->type != UCCL_OP_ATOMIC) {
		op->iov[0] = (struct iovec){ .iov_base = own, .iov_len = op->rma.seg[0].len };
		op->iov_count = 1;
		op->len = op->rma.seg[0].len;
	}
	world.open_ops++;
	if (uccl_msg_rma(m, op, 1)) {
		world.open_ops--;
		uccl_msg_ep_op_put(m, op);
	}
}

/* A handle that is right most of the time. */
static uint32_t handle(struct input *in, struct uccl_peer *p, bool rx)
{
	struct uccl_op *op = TAILQ_FIRST(&p->tx.sends);
	uint8_t how = byte(in);

	for (int i = how % 4; op && i > 0; i--)
		op = TAILQ_NEXT(op, link);
	if (!op || how > 200)
		return (uint32_t)number(in, 4);
	return !rx ? op->tx.id : op->type >= UCCL_OP_WRITE && op->rma.rx ? op->rma.rx->id : 0;
}

static void record(struct input *in, struct uccl_peer *p)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 }, *payload = malloc(CHUNK);
	struct uccl_chunk_in c = { .rec = rec, .data = payload };
	struct uccl_msg_rx *rx = TAILQ_FIRST(&p->rx.all);
	struct uccl_env env = { 0 };
	struct uccl_req req = { 0 };

	assert(payload);
	memset(payload, byte(in), CHUNK);
	c.rtype = byte(in) % 10;
	c.len = (uint32_t)number(in, 2) % (CHUNK + 1);
	switch (c.rtype) {
	case UCCL_REC_REQ:
		req.kind = byte(in) % 7;
		req.nseg = byte(in) % 6;
		req.datatype = byte(in) % 18;
		req.atomic = byte(in) % 20;
		req.rx = byte(in) & 1 ? (uint32_t)number(in, 4) : 0;
		for (uint8_t i = 0; i < req.nseg && i < UCCL_SEG_MAX; i++) {
			req.seg[i].key = byte(in) % 5;
			req.seg[i].addr = byte(in) & 15 ? number(in, 2) % 3100 : number(in, 8);
			req.seg[i].len = byte(in) & 15 ? number(in, 2) % 1100 : number(in, 8);
			req.len += req.seg[i].len;
		}
		if (req.nseg <= UCCL_SEG_MAX)
			uccl_req_encode(payload, &req);
		env.tag = uccl_req_tag(&req);
		env.len = byte(in) & 7 ? req.kind == UCCL_RMA_READ ? 0 : req.len : number(in, 3);
		env.flags = byte(in) & 7 ? UCCL_ENV_EAGER : byte(in);
		env.mseq = (uint32_t)p->rx.mseq + byte(in) % 4;
		env.id = (uint32_t)number(in, 2);
		uccl_env_encode(rec, &env);
		/* What fits, most of the time. */
		if (byte(in) & 3)
			c.len = (uint32_t)uccl_min(CHUNK, uccl_req_head_len(req.nseg % 5, req.rx) + env.len);
		break;
	case UCCL_REC_MSG:
		env.len = number(in, 2);
		env.flags = byte(in);
		env.mseq = (uint32_t)p->rx.mseq + byte(in) % 4;
		env.id = byte(in);
		uccl_env_encode(rec, &env);
		break;
	case UCCL_REC_EAGER:
		uccl_rec_set_bulk(rec, (uint32_t)p->rx.mseq - 1 + byte(in) % 4, 0, number(in, 2));
		uccl_put64(rec + 16, byte(in) & 1 ? number(in, 2) : 2000);
		break;
	case UCCL_REC_DATA:
	case UCCL_REC_REPLY:
		if (byte(in) & 1 && rx)
			uccl_rec_set_bulk(rec, rx->id, (uint32_t)rx->mseq, number(in, 3));
		else
			uccl_rec_set_bulk(rec, handle(in, p, true), byte(in) % 8, number(in, 3));
		break;
	default:
		uccl_put32(rec, handle(in, p, false));
		for (int i = 4; i < UCCL_REC_LEN; i++)
			rec[i] = byte(in);
		if (byte(in) & 3)
			c.len = 0;
		break;
	}
	uccl_msg_flow_ops.deliver(&p->flow, &c, 1);
	free(payload);
}

/* What leaves is read, as a NIC would. */
static void drain(struct uccl_peer *p)
{
	struct uccl_tx tx;
	volatile uint8_t sum = 0;

	for (int n = 0; n < 100 && uccl_flow_tx(&p->flow, &tx, 1); n++)
		for (uint32_t i = 0; i < tx.payload_len; i++)
			sum = (uint8_t)(sum + ((const uint8_t *)tx.payload)[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct uccl_flow_cfg cfg = {
		.policy.cc = uccl_cc_find("none"),
		.policy.pathsel = uccl_path_find("rr"),
		.policy.credit = uccl_credit_find("none"),
		.ops = &uccl_msg_flow_ops,
		.wire.token_tx = 1,
		.wire.token_rx = 2,
		.packet.chunk_bytes = CHUNK,
		.packet.mtu = UCCL_HDR_LEN + CHUNK + UCCL_TAIL_MAX,
		.window = 256,
		.paths_tx = 2,
		.paths_rx = 2,
		.labels = 4,
		.slots_tx = 200,
		.slots_rx = 200,
		.msg_limit_tx = UCCL_MSG_LIMIT,
		.tx_sync = true,
		.delay_ns = 1000,
		.rto_min_ns = UCCL_NS_PER_MS,
	};
	struct input in = { .at = data, .end = data + size };
	struct uccl_addr addr = { .incarnation = 5 };
	uint8_t *own = calloc(1, 70000);
	struct uccl_stats stats = { 0 };
	struct uccl_peer p;
	struct uccl_msg_ep m;
	int i;

	assert(own);
	world.open_ops = 0;
	uccl_msg_ep_init(&m, &msg_ep_ops, &stats, 8192, 100000, OPS);
	m.target.ops = &target;
	for (i = 0; i < REGIONS; i++) {
		world.region[i] = calloc(1, REGION_BYTES);
		assert(world.region[i]);
	}
	uccl_peer_init(&p, &m, &addr);
	cfg.stats = &stats;
	assert(!uccl_flow_init(&p.flow, &cfg, &p, 1));
	p.flow.timer.at = UCCL_NEVER;
	uccl_peer_opened(&p, 1);
	for (int steps = 0; in.at < in.end && steps < 200; steps++) {
		switch (byte(&in) % 8) {
		case 0:
			post(&in, &m, &p, own);
			break;
		case 1:
			drain(&p);
			break;
		case 2:
			i = byte(&in) % REGIONS;
			if (world.region[i]) {
				uint8_t *gone = world.region[i];

				world.region[i] = NULL;
				uccl_msg_revoke(&m, gone, NULL, 1);
				free(gone);
			} else {
				world.region[i] = calloc(1, REGION_BYTES);
				assert(world.region[i]);
			}
			break;
		default:
			record(&in, &p);
			break;
		}
	}
	uccl_peer_fail(&p, FI_EHOSTDOWN, 1);
	uccl_msg_ep_fini(&m, 1);
	assert(!world.open_ops && !m.reply.staged_bytes && !m.tx.copied_bytes && !m.unexpected.bytes);
	assert(TAILQ_EMPTY(&p.rx.all) && TAILQ_EMPTY(&p.reply.list) && TAILQ_EMPTY(&p.serve.requests) &&
	       !p.rx.by_mseq && !p.rx.lone);
	for (i = 0; i < REGIONS; i++)
		free(world.region[i]);
	free(own);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "duo.h"

#include "flow/policy.h"
#include "msg/rma/atomic_math.h"

static struct duo_side *peer_side(struct uccl_peer *p)
{
	return uccl_container_of(p->msg_ep, struct duo_side, m);
}

static void side_ready(struct uccl_peer *p)
{
	peer_side(p)->readies++;
}

static void side_connect(struct uccl_peer *p, uint64_t now)
{
	peer_side(p)->connects++;
}

static bool on_gpu(const void *p)
{
	return (const uint8_t *)p >= DUO_GPU && (const uint8_t *)p < DUO_GPU + DUO_GPU_BYTES;
}

static int side_reg(struct uccl_peer *p, void *buf, uint64_t len, bool device, void **mr, uint64_t *rkey,
		    uint64_t *raddr)
{
	struct duo_side *s = peer_side(p);
	uint32_t i = s->regs;

	assert_int_equal(device, on_gpu(buf));
	if (s->reg_fails || (device && !s->gpu->direct))
		return -FI_ENOMEM;
	assert_true(i < 64);
	s->regs++;
	s->mr[i] = (struct duo_mr){.buf = buf, .len = len, .live = true};
	*mr = &s->mr[i];
	*rkey = i + 1;
	*raddr = (uintptr_t)buf;
	return 0;
}

static void side_dereg(struct uccl_peer *p, void *mr, bool settled)
{
	struct duo_mr *m = mr;

	assert_true(m->live);
	m->live = false;
	peer_side(p)->deregs++;
	peer_side(p)->unsettled += !settled;
}

static uint32_t side_queue(struct uccl_peer *p, const void *buf)
{
	const struct duo_gpu *g = peer_side(p)->gpu;

	assert_true(on_gpu(buf));
	return g->gathers ? DUO_QUEUE : 0;
}

static int side_source(struct uccl_peer *p, const void *buf, uint64_t len, void **source)
{
	struct duo_gpu *g = peer_side(p)->gpu;

	assert_true(on_gpu(buf) && on_gpu((const uint8_t *)buf + len - 1));
	if (!g->reads)
		return -FI_ENOSYS;
	g->sources++;
	*source = g;
	return 0;
}

static void side_source_put(struct uccl_peer *p, void *source)
{
	assert_ptr_equal(source, peer_side(p)->gpu);
	peer_side(p)->gpu->sources--;
}

static void side_source_stop(struct uccl_peer *p, void *source)
{
	assert_ptr_equal(source, peer_side(p)->gpu);
	peer_side(p)->gpu->unread = false;
}

/* Payload, where it can be read. */
static const uint8_t *payload_at(const struct uccl_tx *tx)
{
	struct duo_gpu *g = tx->mr;

	assert_int_equal(on_gpu(tx->payload), g != NULL);
	if (!g)
		return tx->payload;
	/* Somebody holds it. */
	assert_true(g->sources > 0);
	g->read += tx->payload_len;
	g->unread = true;
	return g->mem + ((const uint8_t *)tx->payload - DUO_GPU);
}

static void side_fence(struct uccl_peer *p, uint16_t path, uint64_t now)
{
	struct duo_side *s = peer_side(p);

	assert_true(s->fences < 64);
	s->fence_path[s->fences++] = path;
}

static void side_stop_writes(struct uccl_peer *p)
{
	peer_side(p)->stops++;
}

static void side_settle(struct uccl_peer *p)
{
	peer_side(p)->settles++;
}

static void side_broken(struct uccl_peer *p, int err)
{
	assert_int_not_equal(err, 0);
	peer_side(p)->broken = err;
}

static const struct uccl_engine_ops side_ops = {
	.ready = side_ready,
	.connect = side_connect,
	.reg = side_reg,
	.dereg = side_dereg,
	.queue = side_queue,
	.source = side_source,
	.source_put = side_source_put,
	.source_stop = side_source_stop,
	.fence = side_fence,
	.stop_writes = side_stop_writes,
	.settle = side_settle,
	.broken = side_broken,
};

static int side_resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	struct duo_side *s = arg;
	struct duo_region *r = &s->region[(seg->key - 1) & 3];
	uint64_t off = seg->addr, len = seg->len;
	int n = 0;

	assert_true(len > 0);
	if (seg->key < 1 || seg->key > 4 || !r->live || s->hidden)
		return -UCCL_REFUSED_KEY;
	if (access & ~r->access)
		return -UCCL_REFUSED_ACCESS;
	if (off > r->len || len > r->len - off)
		return -UCCL_REFUSED_RANGE;
	for (int i = 0; i < r->niov && len; i++) {
		uint64_t part;

		if (off >= r->iov[i].iov_len) {
			off -= r->iov[i].iov_len;
			continue;
		}
		part = uccl_min(len, r->iov[i].iov_len - off);
		iov[n++] = (struct iovec){.iov_base = (uint8_t *)r->iov[i].iov_base + off, .iov_len = part};
		len -= part;
		off = 0;
	}
	*region = r;
	if (s->lookups_left && !--s->lookups_left)
		s->hidden = true;
	return n;
}

static void side_lock(void *arg)
{
	struct duo_side *s = arg;

	assert_int_equal(s->locks++ % 2, 0);
}

static void side_unlock(void *arg)
{
	struct duo_side *s = arg;

	assert_int_equal(s->locks++ % 2, 1);
}

static bool side_claim(void *arg)
{
	struct duo_side *s = arg;

	if (s->claimed || s->claimed_elsewhere)
		return false;
	s->claims++;
	s->claimed = true;
	return true;
}

static void side_release(void *arg)
{
	struct duo_side *s = arg;

	assert_true(s->claimed);
	s->claimed = false;
}

static void side_event(void *arg, const struct uccl_rma_event *ev)
{
	struct duo_side *s = arg;

	s->events++;
	s->event = *ev;
	for (uint8_t i = 0; i < ev->nregions; i++) {
		struct duo_region *r = ev->regions[i];

		assert_true(r->live);
		if (ev->write)
			r->writes++;
		else
			r->reads++;
	}
}

static bool side_device(void *arg, const void *region)
{
	return on_gpu(((const struct duo_region *)region)->iov[0].iov_base);
}

static bool side_sparse(void *arg, const void *region)
{
	return ((const struct duo_region *)region)->sparse;
}

static const struct uccl_target_ops side_target = {
	.resolve = side_resolve,
	.device = side_device,
	.sparse = side_sparse,
	.lock = side_lock,
	.unlock = side_unlock,
	.claim = side_claim,
	.release = side_release,
	.event = side_event,
};

static uint64_t gpu_queue(struct duo_gpu *g, void *dst, const void *src, uint64_t len, bool keep, int *err)
{
	struct duo_gpu_copy *c = calloc(1, sizeof(*c) + (keep ? 0 : len));

	*c = (struct duo_gpu_copy){.dst = dst, .src = src, .len = len, .err = err};
	if (!keep) {
		memcpy(c->own, src, len);
		c->src = c->own;
	}
	TAILQ_INSERT_TAIL(&g->copies, c, link);
	return ++g->queued;
}

static uint64_t gpu_put(void *arg, void *dst, const void *src, uint64_t len, bool keep, int *err)
{
	assert_true(on_gpu(dst) && !on_gpu(src));
	((struct duo_gpu *)arg)->puts++;
	return gpu_queue(arg, dst, src, len, keep, err);
}

static uint64_t gpu_get(void *arg, void *dst, const void *src, uint64_t len, int *err)
{
	assert_true(on_gpu(src) && !on_gpu(dst));
	return gpu_queue(arg, dst, src, len, true, err);
}

static uint64_t gpu_move(void *arg, void *dst, const void *src, uint64_t len, int *err)
{
	assert_true(on_gpu(src) && on_gpu(dst));
	((struct duo_gpu *)arg)->moves++;
	return gpu_queue(arg, dst, src, len, true, err);
}

static uint8_t *gpu_at(struct duo_gpu *g, const uint8_t *p)
{
	return on_gpu(p) ? g->mem + (p - DUO_GPU) : (uint8_t *)(uintptr_t)p;
}

static uint64_t gpu_poll(void *arg)
{
	struct duo_gpu *g = arg;
	struct duo_gpu_copy *c;

	while (!g->stuck && (c = TAILQ_FIRST(&g->copies))) {
		if (g->failing && !g->passing) {
			g->failing--;
			*c->err = FI_EIO;
		} else {
			memcpy(gpu_at(g, c->dst), gpu_at(g, c->src), c->len);
			g->passing -= g->passing > 0;
		}
		TAILQ_REMOVE(&g->copies, c, link);
		free(c);
		g->done++;
	}
	return g->done;
}

static bool gpu_room(void *arg)
{
	return !((struct duo_gpu *)arg)->full;
}

static void *gpu_alloc(void *arg, uint64_t len)
{
	struct duo_gpu *g = arg;

	if (!g->lends)
		return NULL;
	g->loans++;
	return malloc(len);
}

static void gpu_free(void *arg, void *mem)
{
	struct duo_gpu *g = arg;

	assert_true(g->loans-- > 0);
	free(mem);
}

/* Who stays until a copy is done is not kept for ever. */
static uint64_t gpu_wait(void *arg)
{
	struct duo_gpu *g = arg;

	g->waits++;
	return gpu_poll(arg);
}

static int gpu_flush(void *arg, const void *p)
{
	struct duo_gpu *g = arg;

	assert_true(on_gpu(p));
	g->flushes++;
	return g->flush_fails ? -FI_EIO : 0;
}

static const struct uccl_device_ops gpu_ops = {
	.put = gpu_put,
	.get = gpu_get,
	.move = gpu_move,
	.poll = gpu_poll,
	.wait = gpu_wait,
	.alloc = gpu_alloc,
	.free = gpu_free,
	.room = gpu_room,
	.flush = gpu_flush,
};

struct duo_gpu *duo_gpu(struct duo *d, int s)
{
	struct duo_side *side = &d->side[s];

	side->gpu = calloc(1, sizeof(*side->gpu));
	assert_non_null(side->gpu);
	TAILQ_INIT(&side->gpu->copies);
	side->m.device.ops = &gpu_ops;
	side->m.device.arg = side->gpu;
	return side->gpu;
}

struct duo *duo_new(bool writes, uint32_t ops_max)
{
	struct duo *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	d->now = 1000000;
	d->writes = writes;
	d->auto_fence = true;
	TAILQ_INIT(&d->queue);
	TAILQ_INIT(&d->held);
	for (int i = 0; i < 2; i++) {
		struct duo_side *s = &d->side[i];
		struct uccl_addr there = {.incarnation = 100u + !i}, here = {.incarnation = 100u + i};

		s->d = d;
		uccl_msg_ep_init(&s->m, &side_ops, &s->stats, DUO_EAGER, 1 << 20, ops_max);
		uccl_peer_init(&s->peer, &s->m, &there);
		uccl_peer_init(&s->self, &s->m, &here);
		s->self.self = true;
		s->m.target.ops = &side_target;
		s->m.target.arg = s;
	}
	return d;
}

void duo_connect(struct duo *d)
{
	for (int i = 0; i < 2; i++) {
		struct uccl_flow_cfg cfg = {
			.policy.cc = uccl_cc_find("none"),
			.policy.pathsel = uccl_path_find("rr"),
			.policy.credit = uccl_credit_find("none"),
			.ops = &uccl_msg_flow_ops,
			.stats = &d->side[i].stats,
			.wire.token_tx = 7000u + !i,
			.wire.token_rx = 7000u + i,
			/* Near the end of 32 bits: every test crosses it. */
			.wire.csn_tx = 0xfffffffcu - (unsigned int)i,
			.wire.csn_rx = 0xfffffffcu - (unsigned int)!i,
			.packet.chunk_bytes = DUO_CHUNK,
			.write.bytes = d->writes ? DUO_WRITE : 0,
			.packet.mtu = UCCL_HDR_LEN + DUO_CHUNK + UCCL_TAIL_MAX,
			.window = 256,
			.paths_tx = 4,
			.paths_rx = 4,
			.labels = 16,
			.slots_tx = 200,
			.slots_rx = 200,
			.msg_limit_tx = UCCL_MSG_LIMIT,
			.wire.epoch_tx = (uint8_t)(3 + i),
			.wire.epoch_rx = (uint8_t)(3 + !i),
			.tx_sync = !d->writes,
			.delay_ns = 10000,
			.rto_min_ns = UCCL_NS_PER_MS,
			.seed = 42u + (unsigned int)i,
		};

		assert_int_equal(uccl_flow_init(&d->side[i].peer.flow, &cfg, &d->side[i].peer, d->now), 0);
		d->side[i].peer.flow.timer.at = UCCL_NEVER;
		/* Writes are as long as they may be. */
		d->side[i].peer.flow.chunk.begins = 0;
	}
	uccl_peer_opened(&d->side[0].peer, d->now);
	uccl_peer_opened(&d->side[1].peer, d->now);
}

struct duo *duo_open(void)
{
	struct duo *d = duo_new(false, 1024);

	duo_connect(d);
	return d;
}

struct duo *duo_open_writes(void)
{
	struct duo *d = duo_new(true, 1024);

	duo_connect(d);
	return d;
}

struct duo *duo_open_unsolicited(void)
{
	struct duo *d = duo_open();

	for (int s = 0; s < 2; s++) {
		d->side[s].peer.takes_unsolicited = true;
		d->side[s].peer.tx.met_streak = UCCL_UNSOLICITED_MET;
	}
	return d;
}

int duo_teardown(void **state)
{
	duo_free(*state);
	return 0;
}

static void pkts_free(struct duo_pkts *q)
{
	struct duo_pkt *p;

	while ((p = TAILQ_FIRST(q))) {
		TAILQ_REMOVE(q, p, link);
		free(p);
	}
}

void duo_free(struct duo *d)
{
	for (int i = 0; i < 2; i++) {
		struct duo_side *s = &d->side[i];

		uccl_peer_fail(&s->peer, FI_ECANCELED, d->now);
		uccl_peer_fail(&s->self, FI_ECANCELED, d->now);
		uccl_msg_ep_fini(&s->m, d->now);
		assert_int_equal(s->m.unexpected.bytes, 0);
		assert_int_equal(s->m.tx.ids.used, 0);
		assert_int_equal(s->m.tx.copied_bytes, 0);
		assert_int_equal(s->m.reply.staged_bytes, 0);
		assert_int_equal(s->m.pumps.bytes, 0);
		assert_true(TAILQ_EMPTY(&s->m.device.copies));
		assert_true(TAILQ_EMPTY(&s->m.pumps.waiting));
		assert_true(!s->gpu || (s->gpu->done == s->gpu->queued && !s->gpu->loans));
		free(s->gpu);
		assert_int_equal(s->m.reply.pool.used, 0);
		assert_int_equal(s->m.serve.pool.used, 0);
		assert_int_equal(s->locks % 2, 0);
		assert_int_equal(s->regs, s->deregs);
		assert_true(TAILQ_EMPTY(&s->peer.rx.all));
		assert_true(TAILQ_EMPTY(&s->peer.tx.sends));
		assert_true(TAILQ_EMPTY(&s->self.rx.all));
		assert_true(TAILQ_EMPTY(&s->self.tx.sends));
		assert_null(s->peer.rx.by_mseq);
		assert_null(s->peer.rx.lone);
	}
	pkts_free(&d->queue);
	pkts_free(&d->held);
	free(d);
}

void duo_fail(struct duo *d, int err)
{
	uccl_peer_fail(&d->side[1].peer, err, d->now);
	uccl_peer_fail(&d->side[0].peer, err, d->now);
}

static void pkt_add(struct duo *d, int from, const struct uccl_tx *tx)
{
	uint32_t len = tx->kind == UCCL_TX_WRITE ? tx->payload_len : tx->hdr_len + tx->payload_len + tx->tail_len;
	struct duo_pkt *p = malloc(sizeof(*p) + len), *twin;
	uint8_t *to = p->data;

	assert_non_null(p);
	*p = (struct duo_pkt){.to = !from,
			      .kind = tx->kind,
			      .path = tx->path,
			      .imm = tx->imm,
			      .queue = tx->kind == UCCL_TX_PACKET ? tx->queue : 0,
			      .rkey = tx->rkey,
			      .raddr = tx->raddr,
			      .len = len};
	if (tx->kind == UCCL_TX_PACKET) {
		memcpy(to, tx->hdr, tx->hdr_len);
		p->type = to[3];
		p->rtype = to[5];
		to += tx->hdr_len;
	}
	if (tx->payload_len)
		memcpy(to, payload_at(tx), tx->payload_len);
	if (tx->kind == UCCL_TX_PACKET && tx->tail_len)
		memcpy(to + tx->payload_len, tx->tail, tx->tail_len);
	if (d->writes && tx->payload_len && tx->cookie != UCCL_NEVER) {
		assert_true(d->nsent[from] < 512);
		d->sent[from][d->nsent[from]++] = tx->cookie;
	}
	switch (d->filter ? d->filter(d, p) : DUO_PASS) {
	case DUO_DROP:
		free(p);
		return;
	case DUO_HOLD:
		TAILQ_INSERT_TAIL(&d->held, p, link);
		return;
	case DUO_DOUBLE:
		twin = malloc(sizeof(*p) + len);
		assert_non_null(twin);
		memcpy(twin, p, sizeof(*p) + len);
		TAILQ_INSERT_TAIL(&d->queue, twin, link);
		break;
	default:
		break;
	}
	TAILQ_INSERT_TAIL(&d->queue, p, link);
}

/* Its payload comes to the device. */
static const uint8_t *slot_fill(struct duo_gpu *g, const struct uccl_hdr *h, const uint8_t *payload)
{
	uint64_t at = DUO_GPU_BYTES / 2 + g->slot++ % (DUO_GPU_BYTES / 2 / DUO_CHUNK) * DUO_CHUNK;

	assert_true(h->type == UCCL_PKT_CHUNK && h->payload_len <= DUO_CHUNK);
	memcpy(g->mem + at, payload, h->payload_len);
	return DUO_GPU + at;
}

static void pkt_arrive(struct duo *d, const struct duo_pkt *p)
{
	struct duo_side *s = &d->side[p->to];
	struct uccl_flow *f = &s->peer.flow;
	uint32_t limit = f->limits.msg_limit;
	bool was_short = f->limits.envelopes_only;
	struct uccl_hdr h;

	if (!s->peer.open)
		return;
	if (p->kind == UCCL_TX_WRITE) {
		struct duo_mr *mr = &s->mr[p->rkey - 1];

		assert_true(p->rkey >= 1 && p->rkey <= s->regs);
		/* A NIC refuses what lies outside a live registration, and so tears nothing. */
		if (!mr->live || p->raddr < (uintptr_t)mr->buf || p->raddr + p->len > (uintptr_t)mr->buf + mr->len)
			return;
		memcpy(s->gpu ? gpu_at(s->gpu, (uint8_t *)(uintptr_t)p->raddr) : (uint8_t *)(uintptr_t)p->raddr,
		       p->data, p->len);
		uccl_flow_rx_write(f, p->imm, p->len, p->path, d->now);
	} else {
		assert_int_equal(uccl_hdr_decode(&h, p->data, p->len), UCCL_DROP_COUNT);
		assert_int_equal(h.token, f->cfg.wire.token_rx);
		if (p->queue) {
			assert_int_equal(p->queue, DUO_QUEUE);
			h.on_device = true;
			uccl_flow_rx(f, &h, slot_fill(s->gpu, &h, p->data + UCCL_HDR_LEN),
				     p->data + UCCL_HDR_LEN + h.payload_len, 0, d->now);
			return;
		}
		uccl_flow_rx(f, &h, p->data + UCCL_HDR_LEN, p->data + UCCL_HDR_LEN + h.payload_len, 0, d->now);
	}
	if (f->limits.envelopes_only && !was_short)
		uccl_msg_hold(&s->peer);
	if (limit != f->limits.msg_limit)
		uccl_msg_kick(&s->peer, d->now);
}

static void side_check(const struct duo_side *s)
{
	const char *wrong = s->peer.open ? uccl_flow_check(&s->peer.flow) : NULL;

	if (wrong)
		fail_msg("%s", wrong);
}

bool duo_round(struct duo *d)
{
	struct duo_pkts batch = TAILQ_HEAD_INITIALIZER(batch);
	bool moved = false;
	struct uccl_tx tx;
	struct duo_pkt *p;

	for (int i = 0; i < 2; i++) {
		struct uccl_flow *f = &d->side[i].peer.flow;
		uint32_t fences = d->side[i].fences;

		if (uccl_msg_copying(&d->side[i].m))
			moved |= uccl_msg_copies(&d->side[i].m, d->now) > 0;
		if (!d->side[i].peer.open)
			continue;
		if (uccl_flow_expiry(f) <= d->now)
			uccl_flow_expire(f, d->now);
		while (uccl_flow_tx(f, &tx, d->now))
			pkt_add(d, i, &tx);
		for (int k = 0; k < d->nsent[i]; k++)
			uccl_flow_sent(f, d->sent[i][k], d->now);
		d->nsent[i] = 0;
		for (uint32_t k = 0; d->auto_fence && k < fences; k++)
			uccl_flow_fenced(f, d->side[i].fence_path[k], d->now);
		if (d->auto_fence)
			d->side[i].fences = 0;
		side_check(&d->side[i]);
	}
	d->now += DUO_DELAY_NS;
	TAILQ_CONCAT(&batch, &d->queue, link);
	while ((p = TAILQ_FIRST(&batch))) {
		TAILQ_REMOVE(&batch, p, link);
		pkt_arrive(d, p);
		side_check(&d->side[0]);
		side_check(&d->side[1]);
		free(p);
		moved = true;
	}
	return moved;
}

void duo_run(struct duo *d, uint64_t ns)
{
	uint64_t end = d->now + ns;

	while (d->now < end) {
		uint64_t at = UCCL_NEVER;

		if (duo_round(d))
			continue;
		for (int i = 0; i < 2; i++)
			if (d->side[i].peer.open)
				at = uccl_min(at, uccl_flow_expiry(&d->side[i].peer.flow));
		if (at == UCCL_NEVER)
			return;
		d->now = uccl_max(d->now, uccl_min(at, end));
	}
}

void duo_release(struct duo *d, bool reverse)
{
	struct duo_pkt *p;

	d->filter = NULL;
	while ((p = reverse ? TAILQ_LAST(&d->held, duo_pkts) : TAILQ_FIRST(&d->held))) {
		TAILQ_REMOVE(&d->held, p, link);
		TAILQ_INSERT_TAIL(&d->queue, p, link);
	}
}

static void side_done(struct uccl_op *op)
{
	struct duo_side *s = op->api;

	assert_true(s->ncomp < DUO_COMPS);
	s->comp[s->ncomp++] = (struct duo_comp){
		.type = op->type,
		.flags = op->flags,
		.err = op->err,
		.refusal = op->refusal,
		.len = op->done_len,
		.olen = op->recv.olen,
		.tag = op->tag,
		.data = op->data,
		.context = op->context,
		.buf = op->recv.done_buf,
		.from = op->from,
	};
	if (s->hook)
		s->hook(s, op);
	uccl_msg_ep_op_put(&s->m, op);
}

struct uccl_op *duo_op(struct duo *d, int s, uint8_t type, uint32_t flags)
{
	struct uccl_msg_ep *m = &d->side[s].m;
	struct uccl_op *op = type == UCCL_OP_SEND   ? uccl_msg_ep_op_send(m)
			     : type == UCCL_OP_RECV ? uccl_msg_ep_op_recv(m)
						    : uccl_msg_ep_op_get(m);

	if (!op)
		return NULL;
	/* As api fills it. */
	memset(op, 0, offsetof(struct uccl_op, err));
	op->type = type;
	op->flags = flags;
	op->peer = type != UCCL_OP_RECV || (flags & UCCL_OPF_DIRECTED) ? &d->side[s].peer : NULL;
	op->api = &d->side[s];
	op->done = side_done;
	return op;
}

void duo_buffer(struct uccl_op *op, const void *buf, uint64_t len)
{
	op->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	op->iov_count = 1;
	op->device = on_gpu(buf);
	op->len = len;
}

static int post(struct duo *d, int s, struct uccl_op *op)
{
	struct uccl_msg_ep *m = &d->side[s].m;
	int rc;

	rc = op->type == UCCL_OP_SEND	  ? uccl_msg_send(m, op, d->now) :
		 op->type == UCCL_OP_RECV ? uccl_msg_recv(m, op, d->now) :
					    uccl_msg_rma(m, op, d->now);

	if (rc)
		uccl_msg_ep_op_put(m, op);
	return rc;
}

int duo_send(struct duo *d, int s, uint32_t flags, const void *buf, uint64_t len, uint64_t tag, void *context)
{
	struct uccl_op *op = duo_op(d, s, UCCL_OP_SEND, flags);

	assert_non_null(op);
	duo_buffer(op, buf, len);
	op->tag = tag;
	op->context = context;
	return post(d, s, op);
}

int duo_send_self(struct duo *d, int s, uint32_t flags, const void *buf, uint64_t len, void *context)
{
	struct uccl_op *op = duo_op(d, s, UCCL_OP_SEND, flags);

	assert_non_null(op);
	op->peer = &d->side[s].self;
	duo_buffer(op, buf, len);
	op->context = context;
	return post(d, s, op);
}

int duo_recv(struct duo *d, int s, uint32_t flags, void *buf, uint64_t len, uint64_t tag, uint64_t ignore,
	     void *context)
{
	struct uccl_op *op = duo_op(d, s, UCCL_OP_RECV, flags);

	assert_non_null(op);
	duo_buffer(op, buf, len);
	op->tag = tag;
	op->recv.ignore = ignore;
	op->context = context;
	return post(d, s, op);
}

void duo_pass(struct duo *d, bool unexpected, uint32_t flags, const void *from, uint64_t len, void *to, uint64_t room)
{
	if (!unexpected)
		assert_int_equal(duo_recv(d, 1, 0, to, room, 0, 0, DUO_CTX(2)), 0);
	assert_int_equal(duo_send(d, 0, flags, from, len, 0, DUO_CTX(1)), 0);
	duo_run(d, 2 * UCCL_NS_PER_S);
	if (!unexpected)
		return;
	assert_int_equal(duo_waiting(d, 1), 0);
	assert_int_equal(duo_recv(d, 1, 0, to, room, 0, 0, DUO_CTX(2)), 0);
	duo_run(d, 2 * UCCL_NS_PER_S);
}

void duo_passed(struct duo *d, uint64_t len)
{
	duo_expect_from(d, 0, DUO_CTX(1), 0, 0);
	duo_expect_from(d, 1, DUO_CTX(2), 0, len);
	duo_quiet(d);
}

void duo_take(struct duo *d, void *to, uint64_t room, uint64_t len, uint32_t seed)
{
	assert_int_equal(duo_recv(d, 1, 0, to, room, 0, 0, DUO_CTX(2)), 0);
	duo_run(d, UCCL_NS_PER_S);
	duo_expect(d, 1, DUO_CTX(2), 0, len);
	duo_check(to, len, seed);
}

uint64_t duo_region(struct duo *d, int s, int i, void *buf, uint64_t len, uint32_t access)
{
	d->side[s].region[i] = (struct duo_region){
		.iov = {{.iov_base = buf, .iov_len = len}}, .niov = 1, .len = len, .access = access, .live = true};
	return (uint64_t)i + 1;
}

void duo_revoke(struct duo *d, int s, int i)
{
	d->side[s].region[i].live = false;
	uccl_msg_revoke(&d->side[s].m, &d->side[s].region[i], NULL, d->now);
}

int duo_rma(struct duo *d, int s, uint8_t type, uint32_t flags, void *buf, uint64_t len, uint64_t addr, uint64_t key,
	    void *context)
{
	struct uccl_op *op = duo_op(d, s, type, flags);

	assert_non_null(op);
	duo_buffer(op, buf, len);
	op->rma.seg[0] = (struct uccl_seg){.addr = addr, .len = len, .key = key};
	op->rma.nseg = 1;
	op->data = 0xfeedfacecafebeef;
	op->context = context;
	return post(d, s, op);
}

int duo_atomic(struct duo *d, int s, uint8_t type, uint8_t datatype, uint8_t atomic, const void *operand,
	       const void *compare, void *result, uint64_t n, uint64_t addr, uint64_t key, void *context)
{
	return duo_atomic_to(d, &d->side[s].peer, s, type, datatype, atomic, operand, compare, result, n, addr, key,
			     context);
}

int duo_atomic_to(struct duo *d, struct uccl_peer *to, int s, uint8_t type, uint8_t datatype, uint8_t atomic,
		  const void *operand, const void *compare, void *result, uint64_t n, uint64_t addr, uint64_t key,
		  void *context)
{
	uint64_t len = n * uccl_atomic_size(datatype);
	struct iovec from = {.iov_base = (void *)(uintptr_t)operand, .iov_len = len};
	struct iovec with = {.iov_base = (void *)(uintptr_t)compare, .iov_len = len};
	struct uccl_atomic_args args = {
		.operand = &from, .noperand = operand != NULL, .compare = &with, .ncompare = compare != NULL,
		.operand_device = on_gpu(operand), .compare_device = on_gpu(compare)};
	struct uccl_op *op = duo_op(d, s, type, 0);

	assert_non_null(op);
	op->peer = to;
	op->rma.datatype = datatype;
	op->rma.atomic = atomic;
	op->rma.args = &args;
	if (result)
		duo_buffer(op, result, len);
	op->rma.seg[0] = (struct uccl_seg){.addr = addr, .len = len, .key = key};
	op->rma.nseg = 1;
	op->context = context;
	return post(d, s, op);
}

const struct duo_comp *duo_next(struct duo *d, int s)
{
	struct duo_side *side = &d->side[s];

	return side->seen < side->ncomp ? &side->comp[side->seen++] : NULL;
}

int duo_waiting(const struct duo *d, int s)
{
	return d->side[s].ncomp - d->side[s].seen;
}

enum uccl_drop duo_deliver(struct duo *d, int s, uint8_t rtype, const uint8_t *rec, const void *data, uint32_t len)
{
	struct uccl_chunk_in in = {.rtype = rtype, .rec = rec, .data = data, .len = len};

	return uccl_msg_flow_ops.deliver(&d->side[s].peer.flow, &in, d->now);
}

enum uccl_drop duo_envelope(struct duo *d, int s, const struct uccl_env *env, const void *data, uint32_t len)
{
	uint8_t rec[UCCL_REC_LEN];

	uccl_env_encode(rec, env);
	return duo_deliver(d, s, UCCL_REC_MSG, rec, data, len);
}

enum uccl_drop duo_eager(struct duo *d, int s, uint32_t mseq, uint64_t off, uint64_t total, const void *data,
			 uint32_t len)
{
	uint8_t rec[UCCL_REC_LEN] = {0};

	uccl_rec_set_bulk(rec, mseq, 0, off);
	uccl_put64(rec + 16, total);
	return duo_deliver(d, s, UCCL_REC_EAGER, rec, data, len);
}

enum uccl_drop duo_bulk(struct duo *d, int s, uint8_t rtype, uint32_t id, uint32_t gen, uint64_t off, const void *data,
			uint32_t len)
{
	uint8_t rec[UCCL_REC_LEN] = {0};

	uccl_rec_set_bulk(rec, id, gen, off);
	return duo_deliver(d, s, rtype, rec, data, len);
}

static uint8_t pattern(uint64_t i, uint32_t seed)
{
	uint64_t v = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;

	return (uint8_t)(v >> 56 ^ v >> 24);
}

void duo_fill(uint8_t *buf, uint64_t len, uint32_t seed)
{
	for (uint64_t i = 0; i < len; i++)
		buf[i] = pattern(i, seed);
}

void duo_check(const uint8_t *buf, uint64_t len, uint32_t seed)
{
	for (uint64_t i = 0; i < len; i++)
		if (buf[i] != pattern(i, seed))
			fail_msg("byte %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)len);
}

const struct duo_comp *duo_expect(struct duo *d, int s, void *context, int err, uint64_t len)
{
	const struct duo_comp *c = duo_next(d, s);

	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, err);
	assert_int_equal(c->len, len);
	return c;
}

void duo_expect_from(struct duo *d, int s, void *context, int err, uint64_t len)
{
	const struct duo_comp *c = duo_next(d, s);

	assert_non_null(c);
	assert_ptr_equal(c->context, context);
	assert_int_equal(c->err, err);
	if (c->type == UCCL_OP_RECV)
		assert_int_equal(c->len, len);
	assert_ptr_equal(c->from, &d->side[s].peer);
}

void duo_quiet(struct duo *d)
{
	assert_null(duo_next(d, 0));
	assert_null(duo_next(d, 1));
}

void duo_all_done(struct duo *d, int n)
{
	assert_int_equal(duo_waiting(d, 0), n);
	for (int i = 0; i < n; i++)
		assert_int_equal(duo_next(d, 0)->err, 0);
	for (int s = 0; s < 2; s++) {
		assert_int_equal(d->side[s].m.op_pool.used, 0);
		assert_int_equal(d->side[s].m.rx_pool.used, 0);
		assert_int_equal(d->side[s].m.serve.pool.used, 0);
		assert_int_equal(d->side[s].m.reply.pool.used, 0);
	}
	duo_free(d);
}

enum duo_verdict duo_hold_all(struct duo *d, const struct duo_pkt *p)
{
	return DUO_HOLD;
}

struct uccl_env duo_eager_env(uint32_t mseq, uint64_t tag, uint64_t len)
{
	return (struct uccl_env){.flags = UCCL_ENV_TAGGED | UCCL_ENV_EAGER, .mseq = mseq, .tag = tag, .len = len};
}

struct uccl_env duo_unsolicited_env(uint32_t mseq, uint64_t tag, uint64_t len, uint32_t head)
{
	return (struct uccl_env){.flags = UCCL_ENV_TAGGED | UCCL_ENV_UNSOLICITED,
				 .mseq = mseq,
				 .tag = tag,
				 .len = len,
				 .unsolicited = head,
				 .id = 77};
}

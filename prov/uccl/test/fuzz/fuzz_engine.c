/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A whole engine against a peer that is connected, so that it knows every token, key, number and handle, and means
 * harm: the input drives packets of every type, direct writes, acknowledgements, grants, what the engine's program
 * does meanwhile, and time. An honest peer exchanges messages and works on memory of the same engine beside it. After
 * each step both flows are looked at; in the end all that the honest one began must be complete and right, and all
 * that was posted must have ended.
 */
#include "api/lib/sodium.h"
#include "input.h"
#include "../unit/engine/lan.h"

#include "base/seq.h"
#include "msg/rma/atomic_math.h"
#include "msg/msg_ep.h"

#define STEPS_MAX 300
#define OPS_MAX 300
#define TALKS_MAX 40
#define TALK_BYTES 40000
#define REGION_BYTES 30000
#define HOSTILE_BYTES 5000
#define LIVES_MAX 20
/* The honest peer's key, which the other one does not guess. */
#define SECRET_KEY 0x5ec2e7c0ffeeull

enum { VICTIM, HONEST, HOSTILE };

/* One exchange with the honest peer. */
struct talk {
	uint8_t kind; /* 0, 1: message to the victim, from it; 2, 3: write to it, read of it */
	uint32_t len, seed;
	uint8_t *src, *dst;
	int open; /* operations that have not ended */
};

static struct {
	struct lan *l;
	struct talk talk[TALKS_MAX];
	int ntalks;
	int open;	/* of the victim's operations with the hostile one, or with anybody */
	int posted;
	uint8_t *region, *secret;
	uint8_t *bin;	/* what the hostile one may fill */
	uint32_t pseq;
	int lives;
} w;

/* Mostly near what is expected, or nothing would get past the first check. */
static uint64_t near(struct input *in, uint64_t at, uint32_t span)
{
	uint8_t how = byte(in);

	return how < 240 ? at + how % span : number(in, 8);
}

/* The victim's memory */

static int resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	uint8_t *mem = seg->key == SECRET_KEY ? w.secret : seg->key == 1 ? w.region : NULL;
	uint64_t len = mem == w.secret ? TALK_BYTES : REGION_BYTES;

	if (!mem)
		return -UCCL_REFUSED_KEY;
	if (seg->addr > len || seg->len > len - seg->addr)
		return -UCCL_REFUSED_RANGE;
	iov[0] = (struct iovec){.iov_base = mem + seg->addr, .iov_len = seg->len};
	*region = mem;
	return 1;
}

static void lock(void *arg)
{
}

static void event(void *arg, const struct uccl_rma_event *ev)
{
}

static const struct uccl_target_ops target = {.resolve = resolve, .lock = lock, .unlock = lock, .event = event};

/* What programs do */

static void done(struct uccl_op *op)
{
	struct lan_node *n = op->api;
	struct talk *t = op->context;

	if (t) {
		assert(!op->err);
		assert(t->open-- > 0);
	} else if (!(op->flags & UCCL_OPF_CHILD) || op->flags & UCCL_OPF_MULTI) {
		/* Of the messages in a buffer the last one gives it back. */
		assert(w.open-- > 0);
	}
	uccl_op_put(n->e, op);
}

static struct uccl_op *op_new(int node, uint8_t type, uint32_t flags, int peer, void *buf, uint64_t len, struct talk *t)
{
	struct uccl_op *op = lan_op(w.l, node, type, flags, buf, len);

	assert(op);
	op->done = done;
	op->context = t;
	op->peer = peer < 0 ? NULL : lan_peer(w.l, node, peer);
	return op;
}

static void begin(int node, struct uccl_op *op)
{
	struct talk *t = op->context;
	struct uccl_engine *e = w.l->node[node].e;
	int rc;

	*(t ? &t->open : &w.open) += 1;
	w.posted++;
	rc = op->type == UCCL_OP_RECV ? uccl_engine_recv(e, op, w.l->now) :
	     op->type == UCCL_OP_SEND ? uccl_engine_send(e, op, w.l->now) : uccl_engine_rma(e, op, w.l->now);
	if (!rc)
		return;
	assert(!t);
	*(t ? &t->open : &w.open) -= 1;
	uccl_op_put(e, op);
}

static void talk(struct input *in)
{
	static const uint32_t lens[] = {0, 1, 100, 3000, 9000, 20000, TALK_BYTES};
	struct talk *t = &w.talk[w.ntalks];
	struct uccl_op *op;
	uint8_t how = byte(in);

	if (w.ntalks == TALKS_MAX)
		return;
	*t = (struct talk){.kind = how & 3, .len = lens[(how >> 2) % uccl_array_len(lens)]};
	t->seed = (uint32_t)w.ntalks++;
	/* One at a time has the honest peer's memory: who waits for nothing cannot say what is there. */
	for (int i = 0; i < w.ntalks - 1 && t->kind > 1; i++)
		if (w.talk[i].kind > 1 && w.talk[i].open) {
			w.ntalks--;
			return;
		}
	t->src = malloc(TALK_BYTES);
	t->dst = malloc(TALK_BYTES);
	assert(t->src && t->dst);
	lan_fill(t->src, t->len, t->seed);
	if (t->kind < 2) {
		int from = t->kind ? VICTIM : HONEST;

		begin(!from, op_new(!from, UCCL_OP_RECV, UCCL_OPF_DIRECTED, from, t->dst, TALK_BYTES, t));
		begin(from, op_new(from, UCCL_OP_SEND, how & 0x80 ? UCCL_OPF_DELIVERY : 0, !from, t->src, t->len, t));
		return;
	}
	if (t->kind == 3)
		memcpy(w.secret, t->src, t->len);
	op = op_new(HONEST, t->kind == 2 ? UCCL_OP_WRITE : UCCL_OP_READ, 0, VICTIM, t->kind == 2 ? t->src : t->dst,
		    t->len, t);
	op->rma.nseg = 1;
	op->rma.seg[0] = (struct uccl_seg){.len = t->len, .key = SECRET_KEY};
	begin(HONEST, op);
}

static void talks_check(void)
{
	for (int i = 0; i < w.ntalks; i++) {
		struct talk *t = &w.talk[i];

		if (t->open || !t->src)
			continue;
		assert(!memcmp(t->kind == 2 ? w.secret : t->dst, t->src, t->len));
		free(t->src);
		free(t->dst);
		t->src = NULL;
	}
}

/* The victim's program with the hostile peer. */
static void act(struct input *in)
{
	static const uint32_t lens[] = {0, 8, 200, 5000, 5000};
	struct uccl_engine *e = w.l->node[VICTIM].e;
	uint8_t how = byte(in), what = byte(in);
	uint32_t len = lens[what % uccl_array_len(lens)];
	struct uccl_op *op;

	if (w.posted > OPS_MAX)
		return;
	switch (how % 10) {
	case 0:
	case 1:
	case 2:
		op = op_new(VICTIM, UCCL_OP_SEND, what & 0x80 ? UCCL_OPF_DELIVERY : 0, HOSTILE, w.bin, len, NULL);
		op->flags |= what & 0x40 ? UCCL_OPF_EARLY : 0;
		begin(VICTIM, op);
		break;
	case 3:
	case 4:
		op = op_new(VICTIM, UCCL_OP_RECV, UCCL_OPF_TAGGED, -1, w.bin, len, NULL);
		op->tag = what >> 5;
		op->recv.ignore = what & 16 ? UINT64_MAX : 0;
		begin(VICTIM, op);
		break;
	case 5:
		op = op_new(VICTIM, UCCL_OP_RECV, UCCL_OPF_TAGGED | UCCL_OPF_MULTI, -1, w.bin, HOSTILE_BYTES, NULL);
		op->tag = what >> 5;
		op->recv.min_multi = 1000;
		begin(VICTIM, op);
		break;
	case 6:
	case 7:
		op = op_new(VICTIM, how & 16 ? UCCL_OP_READ : UCCL_OP_WRITE, what & 0x80 ? UCCL_OPF_FENCE : 0, HOSTILE,
			    w.bin, len, NULL);
		op->rma.nseg = 1;
		op->rma.seg[0] = (struct uccl_seg){.len = len, .key = 3};
		begin(VICTIM, op);
		break;
	case 8:
		op = op_new(VICTIM, UCCL_OP_RECV, UCCL_OPF_TAGGED, -1, w.bin, HOSTILE_BYTES, NULL);
		op->recv.ignore = UINT64_MAX;
		if (uccl_engine_peek(e, op, what & 1, !(what & 1), w.l->now) || !(what & 1)) {
			uccl_op_put(e, op);
			break;
		}
		w.open++;
		w.posted++;
		if (uccl_engine_recv_claimed(e, op, what & 2, w.l->now))
			assert(0);
		break;
	default:
		if (what & 1)
			uccl_engine_cancel(e, NULL, w.l->now);
		else
			uccl_engine_revoke(e, w.region, NULL, w.l->now);
		break;
	}
}

/* What the hostile peer says */

static struct conn *foe(void)
{
	return lan_conn(w.l, VICTIM, HOSTILE);
}

static uint32_t handle(struct input *in, struct uccl_peer *p, bool rx)
{
	struct uccl_op *op = TAILQ_FIRST(&p->tx.sends);
	uint8_t how = byte(in);

	for (int i = how % 4; op && i > 0; i--)
		op = TAILQ_NEXT(op, link);
	if (!op || how > 230)
		return (uint32_t)number(in, 4);
	return !rx ? op->tx.id : op->type >= UCCL_OP_WRITE && op->rma.rx ? op->rma.rx->id : 0;
}

/* A message that the victim takes in. */
static struct uccl_msg_rx *taken(struct input *in, struct uccl_peer *p)
{
	struct uccl_msg_rx *rx = TAILQ_FIRST(&p->rx.all);

	for (int i = byte(in) % 4; rx && i > 0; i--)
		rx = TAILQ_NEXT(rx, plink);
	return rx;
}

static void env_make(struct input *in, struct uccl_peer *p, uint8_t *rec, uint64_t tag, uint64_t len)
{
	static const uint8_t flags[] = {UCCL_ENV_TAGGED | UCCL_ENV_EAGER, UCCL_ENV_TAGGED | UCCL_ENV_UNSOLICITED,
					UCCL_ENV_EAGER, UCCL_ENV_TAGGED | UCCL_ENV_DELIVERY | UCCL_ENV_EAGER};
	struct uccl_env env = {.tag = tag, .len = len, .mseq = (uint32_t)near(in, p->rx.mseq, 4)};
	uint8_t how = byte(in);

	env.flags = how < 240 ? flags[how % 4] : byte(in);
	if (how & 32)
		env.flags &= (uint8_t)~UCCL_ENV_UNSOLICITED;
	env.unsolicited = (uint32_t)uccl_min(len, 3000);
	env.id = how & 16 ? byte(in) : 77;
	uccl_env_encode(rec, &env);
}

/* A record of the message layer; the length of its payload. */
static uint32_t record(struct input *in, struct uccl_peer *p, struct uccl_hdr *h, uint8_t *rec, uint8_t *payload)
{
	static const uint32_t lens[] = {0, 8, 100, 1000, 3000};
	uint32_t len = lens[byte(in) % uccl_array_len(lens)];
	struct uccl_req req = {0};
	struct uccl_msg_rx *rx;
	uint32_t head;

	h->rtype = byte(in) % 11;
	switch (h->rtype) {
	case 0:
		h->rtype = UCCL_REC_NIC;
		for (int i = 0; i < 32; i++)
			payload[i] = byte(in);
		return 32;
	case UCCL_REC_MSG:
	case 9:
		h->rtype = UCCL_REC_MSG;
		env_make(in, p, rec, byte(in) % 8, byte(in) & 1 ? len : near(in, len, 3000));
		break;
	case UCCL_REC_EAGER:
		rx = taken(in, p);
		uccl_rec_set_bulk(rec, rx ? (uint32_t)rx->mseq : (uint32_t)near(in, p->rx.mseq, 4), 0,
				  rx ? near(in, rx->arrived.hi, 200) : near(in, 0, 3000));
		uccl_put64(rec + 16, rx ? rx->arrived.eager : near(in, 3000, 100));
		break;
	case UCCL_REC_DATA:
	case UCCL_REC_REPLY:
		rx = taken(in, p);
		uccl_rec_set_bulk(rec, rx ? rx->id : handle(in, p, true), rx ? (uint32_t)rx->mseq : byte(in),
				  rx ? near(in, uccl_max(rx->arrived.hi, rx->arrived.eager), 3) : near(in, 0, 3000));
		if (rx && byte(in) & 1)
			len = (uint32_t)uccl_min(3000, rx->place.limit - rx->arrived.got);
		break;
	case UCCL_REC_REQ:
	case 10:
		h->rtype = UCCL_REC_REQ;
		req.kind = (uint8_t)(1 + byte(in) % 5);
		req.nseg = byte(in) & 15 ? 1 : byte(in) % 6;
		req.datatype = UCCL_UINT64;
		req.atomic = req.kind == UCCL_RMA_COMPARE ? UCCL_CSWAP : UCCL_SUM;
		req.rx = req.kind == UCCL_RMA_READ || req.kind > UCCL_RMA_ATOMIC ? 1 + byte(in) : 0;
		for (uint8_t i = 0; i < req.nseg && i < UCCL_SEG_MAX; i++) {
			req.seg[i].key = byte(in) & 15 ? 1 : byte(in);
			req.seg[i].addr = near(in, 0, 100);
			req.seg[i].len = byte(in) & 7 ? byte(in) * 8u : near(in, 25000, 100);
			req.len += req.seg[i].len;
		}
		head = uccl_req_head_len(req.nseg % (UCCL_SEG_MAX + 1), req.rx);
		if (req.nseg <= UCCL_SEG_MAX)
			uccl_req_encode(payload, &req);
		env_make(in, p, rec, uccl_req_tag(&req),
			 req.kind == UCCL_RMA_READ ? 0 : req.kind == UCCL_RMA_COMPARE ? 2 * req.len : req.len);
		if (byte(in) & 7)
			len = (uint32_t)uccl_min(3000, head + (req.kind == UCCL_RMA_READ ? 0 : req.len *
							       (req.kind == UCCL_RMA_COMPARE ? 2 : 1)));
		break;
	default:
		uccl_put32(rec, handle(in, p, false));
		for (int i = 4; i < UCCL_REC_LEN; i++)
			rec[i] = byte(in) & 3 ? 0 : byte(in);
		if (h->rtype == UCCL_REC_CTS && byte(in) & 3)
			uccl_put64(rec + 8, near(in, 4000, 1001));
		return byte(in) & 15 ? 0 : len;
	}
	return len;
}

static uint16_t block(struct input *in, const struct uccl_flow *f, uint8_t *tail)
{
	struct uccl_ack a = {.cum = (uint32_t)near(in, f->sent.una, 3), .dups = byte(in) & 31 ? 0 : byte(in)};
	uint8_t how = byte(in);

	if (how & 1)
		a.cum = (uint32_t)(f->sent.una + (f->sent.nxt - f->sent.una) * byte(in) / 255);
	a.slots = how & 2 ? byte(in) % 4 : 1000;
	a.msg_limit = f->limits.msg_limit + (how & 4 ? byte(in) : 0);
	a.rcv_short = how & 8;
	a.nwords = how & 16 ? byte(in) % 3 : 0;
	for (uint8_t i = 0; i < a.nwords; i++) {
		uint64_t room = f->sent.nxt - uccl_seq_expand(f->sent.una, a.cum, 32);

		a.sack[i] = number(in, 8);
		/* Of what was sent, most of the time. */
		if (how < 224)
			a.sack[i] &= room < 64u * i + 2 ? 0 : room - 64u * i - 2 >= 64 ? UINT64_MAX :
				     (1ull << (room - 64u * i - 2)) - 1;
	}
	a.npaths = how & 32 ? byte(in) % 5 : 0;
	for (uint8_t i = 0; i < a.npaths; i++) {
		uint16_t path = byte(in) % f->cfg.paths_tx;

		a.paths[i] = (struct uccl_ack_path){
			.path = path,
			.write = !(byte(in) & 7),
			.seq = f->paths.list[path].next_seq - 1 - byte(in) % 3,
			.echo = uccl_ts(w.l->now - byte(in) * 1000u),
			.delay = byte(in) & 1 ? UINT32_MAX : byte(in),
		};
		if (a.paths[i].write)
			a.paths[i].seq = (uint32_t)(f->sent.nxt - 1 - byte(in) % 4);
	}
	return (uint16_t)uccl_ack_encode(tail, &a);
}

static void say(struct input *in)
{
	static const uint8_t types[] = {
		UCCL_PKT_CHUNK,	  UCCL_PKT_CHUNK,     UCCL_PKT_CHUNK,	UCCL_PKT_CHUNK,	  UCCL_PKT_CHUNK,
		UCCL_PKT_CHUNK,	  UCCL_PKT_ACK,	      UCCL_PKT_ACK,	UCCL_PKT_PROBE,	  UCCL_PKT_DESC,
		UCCL_PKT_DESC,	  UCCL_PKT_SEGMENT,   UCCL_PKT_SEGMENT, UCCL_PKT_CREDIT,  UCCL_PKT_DEMAND,
		UCCL_PKT_CLOSE,	  UCCL_PKT_CLOSE_ACK, UCCL_PKT_COOKIE,	UCCL_PKT_SEGMENT, UCCL_PKT_SEGMENT,
		UCCL_PKT_SEGMENT,
	};
	uint8_t rec[UCCL_REC_LEN] = {0}, payload[3200], packet[UCCL_HDR_LEN + 3200 + UCCL_TAIL_MAX + UCCL_SEAL_LEN];
	struct conn *c = foe(), *own = lan_conn(w.l, HOSTILE, VICTIM);
	struct uccl_flow *f = &c->peer.flow;
	uint8_t what = byte(in), how = byte(in);
	struct uccl_hdr h = {.type = types[what % sizeof(types)], .rec = rec, .flags = how & 1 ? UCCL_FLAG_AR : 0};
	struct uccl_tx tx = {.hdr_len = UCCL_HDR_LEN, .payload = payload};
	struct uccl_desc d;
	uint32_t n = UCCL_HDR_LEN;

	if (!c->peer.open)
		return;
	memset(payload, what, sizeof(payload));
	h.token = c->hs.token_local;
	h.csn = (uint32_t)near(in, f->rx.arrived.nxt, how & 2 ? 6 : 1);
	h.ts = uccl_ts(w.l->now);
	h.path = how & 4 ? byte(in) % (f->cfg.paths_rx + 1u) : 0;
	h.pseq = ++w.pseq;
	switch (h.type) {
	case UCCL_PKT_CHUNK:
		tx.payload_len = record(in, &c->peer, &h, rec, payload);
		break;
	case UCCL_PKT_SEGMENT: {
		struct uccl_segment seg = {.count = (uint8_t)(1 + byte(in) % 4)};
		uint8_t whole[UCCL_REC_LEN] = {0};

		/* All of what is granted, or a little more, or less. Or of a write, which another one may have
		 * announced. */
		tx.payload_len = record(in, &c->peer, &h, whole, payload);
		if (how & 16) {
			struct uccl_msg_rx *rx = taken(in, &c->peer);

			h.rtype = UCCL_REC_DATA;
			tx.payload_len = 1024u / seg.count / 8 * 8;
			uccl_rec_set_bulk(whole, rx ? rx->id : byte(in), rx ? (uint32_t)rx->mseq : 0,
					  rx ? rx->arrived.hi : 0);
		}
		seg.total = tx.payload_len * seg.count - (how & 8 ? 1 : 0);
		seg.index = byte(in) % (seg.count + 1u);
		if (how & 32) {
			seg.subs = 2 + byte(in) % 2;
			seg.sub = byte(in) % seg.subs;
			tx.payload_len = uccl_segment_len(tx.payload_len, seg.sub, seg.subs) % 3000;
		} else if (!(how & 16)) {
			uccl_put64(whole + 8, uccl_get64(whole + 8) - (uint64_t)seg.index * tx.payload_len);
		}
		tx.payload_len -= how & 8 && seg.index + 1 == seg.count && tx.payload_len;
		uccl_segment_encode(rec, whole, &seg);
		break;
	}
	case UCCL_PKT_DESC: {
		struct uccl_msg_rx *rx = taken(in, &c->peer);
		uint32_t id = rx ? rx->id : byte(in), gen = rx ? (uint32_t)rx->mseq : 0;

		d = (struct uccl_desc){.id = id, .gen = gen, .count = 1 + byte(in) % 4, .chunk = 1024};
		d.offset = rx ? near(in, rx->arrived.hi, 2) : byte(in);
		d.len = (uint64_t)d.count * d.chunk - byte(in) % 2;
		uccl_desc_encode(rec, &d);
		break;
	}
	case UCCL_PKT_CREDIT:
		uccl_put64(rec, near(in, f->credit.used, 200) + byte(in) * 1000u);
		uccl_put64(rec + 8, f->credit.turn + byte(in) % 3);
		break;
	case UCCL_PKT_DEMAND:
		uccl_put64(rec, near(in, f->credit.received, 200) + number(in, 3));
		uccl_put64(rec + 8, f->credit.peer_lost + number(in, 2));
		break;
	case UCCL_PKT_COOKIE:
		uccl_put64(rec, how & 8 ? c->hs.nonce : byte(in));
		uccl_put64(rec + 8, how & 16 ? c->hs.remote.incarnation : 5);
		break;
	default:
		break;
	}
	if (how & 32 || h.type == UCCL_PKT_ACK)
		h.tail_len = tx.tail_len = block(in, f, tx.tail);
	h.payload_len = (uint16_t)tx.payload_len;
	uccl_hdr_encode(tx.hdr, &h);
	if (own->opened.seal && h.type >= UCCL_PKT_ACK && byte(in) < 250)
		uccl_seal_put(own->opened.seal, &tx);
	memcpy(packet, tx.hdr, UCCL_HDR_LEN);
	memcpy(packet + n, payload, tx.payload_len);
	n += tx.payload_len;
	memcpy(packet + n, tx.tail, tx.tail_len);
	n += tx.tail_len;
	lan_inject(w.l, VICTIM, HOSTILE, packet, n - (byte(in) == 255));
	if (how & 64)
		lan_inject(w.l, VICTIM, HOSTILE, packet, n);
}

/* A direct write of which only the immediate and the length are believed. */
static void write_in(struct input *in)
{
	struct conn *c = foe();
	struct uccl_flow *f = &c->peer.flow;

	if (c->peer.open && w.l->writes)
		lan_inject_write(w.l, VICTIM, HOSTILE, uccl_imm(near(in, f->rx.arrived.nxt, 6), f->cfg.wire.epoch_rx),
				 byte(in) & 3 ? 1024 : 1023, byte(in) % (f->cfg.paths_rx + 1u));
}

/* The hostile peer begins a new life. */
static void again(void)
{
	if (++w.lives > LIVES_MAX)
		return;
	lan_kill(w.l, HOSTILE);
	lan_open(w.l, HOSTILE);
	w.l->node[HOSTILE].asleep = false;
	lan_send(w.l, HOSTILE, VICTIM, w.bin, 8, NULL);
	lan_pass(w.l, 2 * UCCL_NS_PER_MS);
	w.l->node[HOSTILE].asleep = true;
	w.pseq = 1000;
}

static const char *any(struct input *in, const char *const *v, size_t n)
{
	return v[byte(in) % n];
}

static void start(struct input *in)
{
	static const char *const cc[] = {"none", "swift", "cubic", "timely", "nscc"};
	static const char *const path[] = {"rr", "pow2", "reps", "hash"};
	static const char *const credit[] = {"none", "window", "eqds", "auto"};
	const char *c = any(in, cc, uccl_array_len(cc)), *p = any(in, path, uccl_array_len(path));
	const char *k = any(in, credit, uccl_array_len(credit));
	uint8_t how = byte(in);

	w.l = lan_new();
	w.l->writes = how & 1;
	w.l->hints = how & 2;
	for (int i = 0; i < 3; i++) {
		struct uccl_config *cfg = &w.l->node[i].cfg;

		cfg->cc = c;
		cfg->path = p;
		cfg->credit = k;
		cfg->security = (how >> 2) % 3;
		cfg->keyless = !cfg->security;
		cfg->window_chunks = 64;
		cfg->chunk_bytes = how & 64 ? 1024 : 0;
		cfg->eager_bytes = how & 128 ? 2000 : 65536;
		/* No time-out ends anybody within the time of a run. */
		cfg->peer_timeout_ns = cfg->connect_timeout_ns = 100000 * UCCL_NS_PER_S;
		w.l->node[i].link_bps = 10000000000;
		w.l->node[i].target = i == VICTIM ? &target : NULL;
		lan_open(w.l, i);
	}
	lan_send(w.l, HOSTILE, VICTIM, w.bin, 8, NULL);
	lan_pass(w.l, 2 * UCCL_NS_PER_MS);
	w.l->node[HOSTILE].asleep = true;
	w.pseq = 1000;
}

static void look(void)
{
	for (int i = HONEST; i <= HOSTILE; i++) {
		struct conn *c = lan_conn(w.l, VICTIM, i);

		assert(!c->peer.open || !uccl_flow_check(&c->peer.flow));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.at = data, .end = data + size};

	assert(!uccl_sodium_load());
	memset(&w, 0, sizeof(w));
	w.region = calloc(1, REGION_BYTES);
	w.secret = calloc(1, TALK_BYTES);
	w.bin = calloc(1, HOSTILE_BYTES);
	assert(w.region && w.secret && w.bin);
	start(&in);
	for (int steps = 0; in.at < in.end && steps < STEPS_MAX; steps++) {
		uint8_t what = byte(&in);

		switch (what % 16) {
		case 0:
			talk(&in);
			break;
		case 1:
		case 2:
			act(&in);
			break;
		case 3:
			lan_pass(w.l, (uint64_t)1000 << byte(&in) % 20);
			break;
		case 4:
		case 5:
			lan_round(w.l);
			break;
		case 6:
			write_in(&in);
			break;
		case 7:
			if (what == 7)
				again();
			break;
		default:
			say(&in);
			break;
		}
		look();
		talks_check();
	}
	/* Whatever was said: the honest peer is served. */
	for (int i = 0; i < 200; i++) {
		bool open = false;

		lan_pass(w.l, 100 * UCCL_NS_PER_MS);
		look();
		talks_check();
		for (int k = 0; k < w.ntalks; k++)
			open |= w.talk[k].open > 0;
		if (!open)
			break;
	}
	for (int k = 0; k < w.ntalks; k++)
		assert(!w.talk[k].open);
	lan_free(w.l);
	assert(!w.open);
	for (int k = 0; k < TALK_BYTES && !w.ntalks; k++)
		assert(!w.secret[k]);
	free(w.region);
	free(w.secret);
	free(w.bin);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/recv/msg_rx.h"

#include <rdma/fi_errno.h>

#include "base/prefetch.h"
#include "base/seq.h"
#include "base/units.h"
#include "lanes/lanes.h"
#include "msg/iov.h"
#include "msg/recv/posted.h"
#include "msg/recv/unexpected.h"

/* False: no memory. */
static bool rx_hash(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;

	if (!p->rx.lone) {
		p->rx.lone = rx;
		rx->hashed = true;
		return true;
	}
	HASH_ADD(hh, p->rx.by_mseq, mseq, sizeof(rx->mseq), rx);
	rx->hashed = rx->hh.tbl != NULL;
	return rx->hashed;
}

static struct uccl_msg_rx *rx_get(struct uccl_peer *p)
{
	struct uccl_msg_rx *rx = uccl_pool_get(&p->msg_ep->rx_pool);

	if (!rx)
		return NULL;
	rx->peer = p;
	TAILQ_INSERT_TAIL(&p->rx.all, rx, plink);
	return rx;
}

struct uccl_msg_rx *msg_rx_new(struct uccl_peer *p, uint64_t mseq, uint64_t eager, bool hashed)
{
	struct uccl_msg_rx *rx = rx_get(p);

	if (!rx)
		return NULL;
	rx->mseq = mseq;
	rx->arrived.eager = eager;
	msg_rx_number(p->rx.numbered, &rx->number_node, mseq, false);
	if (!hashed || rx_hash(rx))
		return rx;
	msg_rx_free(rx);
	return NULL;
}

bool msg_rx_numbers(struct uccl_peer *p)
{
	struct uccl_msg_rx *rx;
	uint64_t secret[2];

	p->rx.numbered = malloc(sizeof(*p->rx.numbered));
	if (!p->rx.numbered)
		return false;
	memcpy(secret, p->msg_ep->range_key, sizeof(secret));
	uccl_multimap_init(p->rx.numbered, secret);
	TAILQ_FOREACH(rx, &p->rx.all, plink) {
		uccl_match_step(&p->msg_ep->match);
		if (!rx->read && !rx->self.send)
			msg_rx_number(p->rx.numbered, &rx->number_node, rx->mseq, false);
	}
	return true;
}

void msg_rx_numbers_end(struct uccl_peer *p)
{
	if (!p->rx.numbered)
		return;
	uccl_multimap_fini(p->rx.numbered);
	free(p->rx.numbered);
	p->rx.numbered = NULL;
}

struct uccl_msg_rx *msg_rx_own(struct uccl_peer *p, const struct msg_rx_ops *ops)
{
	struct uccl_msg_rx *rx = rx_get(p);

	if (!rx)
		return NULL;
	rx->ops = ops;
	rx->env.have = rx->in_order = true;
	return rx;
}

bool msg_rx_id(struct uccl_msg_rx *rx)
{
	if (!rx->id)
		rx->id = uccl_ids_get(&rx->peer->msg_ep->rx_ids, rx);
	return rx->id;
}

void msg_rx_next(struct uccl_peer *p)
{
	p->rx.mseq++;
}

void msg_rx_unhash(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;

	if (!rx->hashed)
		return;
	if (p->rx.lone == rx)
		p->rx.lone = NULL;
	else
		HASH_DEL(p->rx.by_mseq, rx);
	rx->hashed = false;
}

struct uccl_msg_rx *msg_rx_find(struct uccl_peer *p, uint64_t mseq)
{
	struct uccl_msg_rx *rx = p->rx.lone;

	if (rx && rx->mseq == mseq)
		return rx;
	rx = NULL;
	if (p->rx.by_mseq)
		HASH_FIND(hh, p->rx.by_mseq, &mseq, sizeof(mseq), rx);
	return rx;
}

struct uccl_msg_rx *msg_rx_by_id(struct uccl_peer *p, uint32_t id, uint32_t gen)
{
	struct uccl_msg_rx *rx = uccl_ids_find(&p->msg_ep->rx_ids, id);

	return rx && rx->peer == p && (uint32_t)rx->mseq == gen && !rx->finished ? rx : NULL;
}

void msg_rx_set_env(struct uccl_msg_rx *rx, const struct msg_rx_ops *ops, const struct uccl_env *env, uint64_t eager)
{
	rx->ops = ops;
	rx->env.have = true;
	rx->env.tag = env->tag;
	rx->env.data = env->data;
	rx->env.len = env->len;
	rx->env.flags = env->flags;
	rx->env.send_id = env->id;
	rx->arrived.eager = eager;
}

/* All that was written to its place is there. */
static bool rx_settled(const struct uccl_msg_rx *rx)
{
	return !rx->place.in_doubt && rx->arrived.got >= uccl_max(rx->place.limit, rx->arrived.eager);
}

/* Its payload is asked for, and comes to one place by packets: it may be predicted. */
static void stream_begin(struct uccl_msg_rx *rx)
{
	if (rx->stream.listed || !rx->place.iov || rx->place.niov != 1 || rx->place.device || rx->place.mr || !rx->id ||
	    rx->arrived.hi >= rx->place.limit)
		return;
	rx->stream.listed = true;
	TAILQ_INSERT_TAIL(&rx->peer->rx.streams, rx, stream.link);
}

/* What comes after it is that of the next one. */
static void stream_end(struct uccl_msg_rx *rx)
{
	struct uccl_msg_ep *m = rx->peer->msg_ep;

	if (!rx->stream.listed)
		return;
	if (m->predict.stream == rx && TAILQ_NEXT(rx, stream.link))
		m->predict.stream = TAILQ_NEXT(rx, stream.link);
	rx->stream.listed = false;
	TAILQ_REMOVE(&rx->peer->rx.streams, rx, stream.link);
}

void msg_rx_close(struct uccl_msg_rx *rx)
{
	stream_end(rx);
	lanes_rx_close(rx);
	if (rx->place.mr)
		rx->peer->msg_ep->ops->dereg(rx->peer, rx->place.mr, rx_settled(rx));
	rx->place.mr = NULL;
	rx->place.iov = NULL;
}

void msg_rx_free(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_msg_ep *m = p->msg_ep;

	if (rx->place.copy.ticket)
		msg_copy_end(m, &rx->place.copy);
	msg_rx_close(rx);
	msg_rx_unhash(rx);
	msg_rx_buffer_free(rx);
	msg_rx_unhold(rx);
	if (rx->ops && rx->ops->freed)
		rx->ops->freed(rx);
	if (rx->id)
		uccl_ids_put(&m->rx_ids, rx->id);
	if (m->predict.stream == rx)
		m->predict.stream = TAILQ_FIRST(&p->rx.streams);
	msg_rx_unnumber(p->rx.numbered, &rx->number_node);
	TAILQ_REMOVE(&p->rx.all, rx, plink);
	uccl_pool_put(&m->rx_pool, rx);
}

void msg_rx_void(struct uccl_msg_rx *rx, const struct msg_rx_ops *ops)
{
	msg_rx_close(rx);
	if (rx->ops && rx->ops->freed)
		rx->ops->freed(rx);
	msg_rx_buffer_free(rx);
	msg_rx_unhold(rx);
	rx->arrived = (struct uccl_rx_arrived){0};
	rx->env = (struct uccl_rx_env){.have = true};
	rx->lanes.senders = 0;
	rx->serve = NULL;
	rx->ops = ops;
}

void msg_rx_stop(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;

	msg_rx_unhash(rx);
	if (rx->place.in_doubt && p->msg_ep->dereg_fences)
		uccl_flow_forgive(&p->flow, rx->id, (uint32_t)rx->mseq);
	msg_rx_close(rx);
	rx->place.in_doubt = 0;
	msg_rx_release(rx);
}

void msg_rx_release(struct uccl_msg_rx *rx)
{
	rx->finished = true;
	if (rx->place.copy.ticket)
		msg_copy_end(rx->peer->msg_ep, &rx->place.copy);
	if (!rx->cts.queued && !rx->cts.pending && !rx->fin.queued && !rx->fin.pending)
		msg_rx_free(rx);
}

void msg_rx_failed(struct uccl_msg_rx *rx, int err)
{
	msg_rx_close(rx);
	if (rx->ops && rx->ops->failed)
		rx->ops->failed(rx, err);
	else
		msg_rx_free(rx);
}

bool msg_rx_unrelated(const struct uccl_peer *p)
{
	return uccl_sole_peer_bars(&p->msg_ep->sole, p);
}

void msg_rx_drain(struct uccl_peer *p, uint64_t now)
{
	struct uccl_msg_rx *rx;

	while (msg_rx_any(p) && (rx = msg_rx_find(p, p->rx.mseq)) && rx->env.have &&
	       msg_rx_meets(rx->env.flags, rx->arrived.got, rx->arrived.eager)) {
		/* Complete but for the receive: it need not be found by sequence any more. */
		if (rx->arrived.got >= rx->arrived.eager)
			msg_rx_unhash(rx);
		msg_rx_turn(rx);
		rx->ops->turn(rx, now);
	}
	msg_peer_limits(p);
}

void msg_rx_match(struct uccl_msg_ep *m, struct uccl_msg_rx *rx, struct uccl_op *recv, uint64_t now)
{
	struct uccl_op *op = msg_posted_take(m, recv, rx->env.len);

	if (!op)
		return;
	uccl_match_unlist(&m->match, rx);
	rx->ops->matched(rx, op, now);
}

bool msg_rx_range_new(struct uccl_msg_rx *rx, uint64_t off, uint64_t len, uint64_t need)
{
	const uint8_t *key = rx->peer->msg_ep->range_key;

	return uccl_range_set_add(&rx->arrived.ranges, off, off + len, key) &&
	       (rx->arrived.got + len != need || uccl_range_set_whole(&rx->arrived.ranges, need, key));
}

/* To where it was matched to. */
static inline void rx_in(struct uccl_msg_rx *rx, uint64_t off, const uint8_t *data, uint64_t len)
{
	if (rx->place.device)
		msg_put(rx->peer->msg_ep, &rx->place.copy, rx->place.iov, rx->place.niov, rx->place.device, off, data,
			len);
	else
		msg_copy_in(rx->place.iov, rx->place.niov, off, data, len);
}

void msg_rx_place(struct uccl_msg_rx *rx, uint64_t off, const uint8_t *data, uint64_t len)
{
	rx->arrived.got += len;
	rx->arrived.hi = uccl_max(rx->arrived.hi, off + len);
	if (rx->place.iov) {
		if (off < rx->place.limit)
			rx_in(rx, off, data, uccl_min(len, rx->place.limit - off));
	} else if (rx->hold.buf) {
		memcpy(rx->hold.buf + off, data, len);
	}
}

/* A GRO batch whose place lies together, and not on a device: for that there are no batches. */
static void rx_place_run(struct uccl_msg_rx *rx, uint64_t off, const struct uccl_chunk_in *in)
{
	uint8_t *to = (uint8_t *)rx->place.iov[0].iov_base + off;
	const uint8_t *data = in->data;
	/* It lies there, and only its headers are between. Payload moves to the left, what is behind it later. */
	bool there = data == to + UCCL_HDR_LEN;
	uint32_t left;

	for (left = in->len; left > in->each; left -= in->each) {
		/* The last ones ask for the first of the next batch, which comes soon if the message is long. */
		if (!there)
			uccl_prefetch_write(to + 2 * in->each, in->each);
		memmove(to, data, in->each);
		to += in->each;
		data += in->each + UCCL_HDR_LEN;
	}
	memmove(to, data, left);
	if (rx->id)
		uccl_msg_run(rx->peer, in->each);
	rx->arrived.got += in->len;
	rx->arrived.hi = uccl_max(rx->arrived.hi, off + in->len);
}

/* The same of what came in a packet, or in a GRO batch. */
static void rx_place_all(struct uccl_msg_rx *rx, uint64_t off, const struct uccl_chunk_in *in)
{
	uint32_t each = in->segments > 1 ? in->each : in->len;
	const uint8_t *data = in->data;

	/* Of a region that went away there is no place. */
	if (in->segments > 1 && rx->place.iov && rx->place.niov == 1 && off + in->len <= rx->place.limit) {
		rx_place_run(rx, off, in);
		return;
	}
	for (uint32_t left = in->len; left;) {
		uint32_t n = (uint32_t)uccl_min(each, left);

		msg_rx_place(rx, off, data, n);
		off += n;
		left -= n;
		data += n + UCCL_HDR_LEN;
	}
}

void msg_rx_move(struct uccl_msg_rx *rx, uint64_t len)
{
	rx_in(rx, 0, rx->hold.buf, len);
}

void msg_rx_move_first(struct uccl_msg_rx *rx)
{
	if (!rx->hold.first)
		return;
	rx_in(rx, 0, rx->hold.first, rx->hold.first_len);
	msg_rx_first_free(rx);
}

void msg_rx_kept(struct uccl_msg_rx *rx)
{
	if (!rx->hold.buf)
		return;
	if (rx->place.iov)
		msg_rx_move(rx, uccl_min(rx->hold.buf_len, rx->place.limit));
	msg_rx_buffer_free(rx);
}

static void rx_complete(struct uccl_msg_rx *rx, uint64_t now);

static void rx_copied(struct uccl_copy *c, uint64_t now)
{
	rx_complete(uccl_container_of(c, struct uccl_msg_rx, place.copy), now);
}

/* Everything that has a place is in its place. */
static void rx_complete(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;

	if (rx->place.device) {
		if (!msg_copied(p->msg_ep, &rx->place.copy)) {
			msg_copy_wait(p->msg_ep, &rx->place.copy, rx_copied);
			return;
		}
		msg_copy_end(p->msg_ep, &rx->place.copy);
	}
	if (rx->place.in_doubt && p->msg_ep->dereg_fences) {
		/* What still comes finds no place. A message without a place was promised no write. PROTOCOL R26 */
		if (rx->place.mr)
			p->msg_ep->ops->dereg(p, rx->place.mr, false);
		rx->place.mr = NULL;
		rx->place.in_doubt = 0;
		uccl_flow_forgive(&p->flow, rx->id, (uint32_t)rx->mseq);
	}
	if (rx->place.in_doubt) {
		/* A direct write may still come: the buffer stays ours until every path that it may be on is fenced. */
		if (!rx->place.fencing) {
			rx->place.fencing = true;
			uccl_flow_fence_message(&p->flow, rx->id, (uint32_t)rx->mseq, now);
		}
		return;
	}
	/* Memory that was written is not memory that the device sees. PROTOCOL R191 */
	if (rx->place.unseen && p->msg_ep->device.ops->flush(p->msg_ep->device.arg, rx->place.iov[0].iov_base))
		rx->place.copy.err = FI_EIO;
	rx->place.unseen = false;
	msg_rx_close(rx);
	rx->ops->placed(rx, now);
}

void msg_rx_check(struct uccl_msg_rx *rx, uint64_t now)
{
	if (rx->arrived.got >= msg_rx_need(rx))
		rx_complete(rx, now);
}

/* The queue that its payload can come by to memory of the device that it is for; 0: there is none. PROTOCOL R291 */
static uint32_t rx_queue(struct uccl_msg_rx *rx)
{
	struct uccl_peer *p = rx->peer;
	uint32_t queue = 0;

	if (rx->place.device && rx->place.niov == 1 && rx->id && rx->place.limit >= MSG_DIRECT_MIN &&
	    p->msg_ep->ops->queue)
		queue = p->msg_ep->ops->queue(p, rx->place.iov[0].iov_base);
	rx->place.gathers = queue;
	return queue;
}

void msg_rx_expect(struct uccl_msg_rx *rx, uint64_t *rkey, uint64_t *raddr)
{
	struct uccl_peer *p = rx->peer;

	if (rx->place.niov == 1 && p->flow.cfg.write.bytes && !p->flow.rx.write.off &&
	    rx->place.limit >= rx->arrived.eager + MSG_DIRECT_MIN &&
	    p->msg_ep->ops->reg(p, rx->place.iov[0].iov_base, rx->place.limit, rx->place.device, &rx->place.mr, rkey,
				raddr))
		rx->place.mr = NULL;
	if (!rx->place.mr) {
		*rkey = 0;
		*raddr = uccl_place_of_queue(rx_queue(rx));
	}
	stream_begin(rx);
	if (!p->msg_ep->predict.stream)
		p->msg_ep->predict.stream = rx;
}

int msg_rx_cts(struct uccl_msg_rx *rx, uint64_t now)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_cts cts = { .id = rx->env.send_id, .limit = rx->place.limit };

	/* Nothing can be asked for without a handle. */
	if (!msg_rx_id(rx) && rx->place.limit > rx->arrived.eager)
		return -FI_ENOMEM;
	cts.rx = rx->id;
	msg_rx_expect(rx, &cts.rkey, &cts.raddr);
	if (p->lanes.peers && rx->place.niov == 1 && !rx->place.device && !cts.rkey && rx->id)
		cts.raddr |= lanes_rx_post(rx, (uint8_t *)rx->place.iov[0].iov_base + rx->arrived.eager,
					   rx->arrived.eager, rx->place.limit);
	if (rx->lanes.rest)
		stream_end(rx);
	/* Lanes that are known may bring the next unsolicited data. */
	if (rx->lanes.senders && rx->place.limit <= rx->arrived.eager && !cts.rkey)
		cts.raddr = lanes_offer(p);
	/* What lanes bring is asked for there. */
	if (!rx->lanes.rest && rx->place.limit > rx->arrived.eager)
		uccl_flow_asked(&p->flow, rx->place.limit - rx->arrived.eager, now);
	/* Its unsolicited data were copied, or would have been: the next message shall have none. PROTOCOL R264 */
	if (p->takes_unsolicited && !rx->recv.unexpected && !rx->place.gathers)
		cts.flags = UCCL_CTS_MET;
	rx->cts.rtype = UCCL_REC_CTS;
	uccl_cts_encode(rx->cts.rec, &cts);
	uccl_flow_submit(&p->flow, &rx->cts);
	p->msg_ep->ops->ready(p);
	return 0;
}

void msg_rx_fin(struct uccl_msg_rx *rx, uint32_t refusal)
{
	struct uccl_peer *p = rx->peer;
	struct uccl_resp resp = { .id = rx->env.send_id, .err = refusal };

	if (!(rx->env.flags & UCCL_ENV_DELIVERY) || !rx->env.send_id || p->dead)
		return;
	rx->fin.rtype = UCCL_REC_FIN;
	uccl_resp_encode(rx->fin.rec, &resp);
	uccl_flow_submit(&p->flow, &rx->fin);
	p->msg_ep->ops->ready(p);
}

enum uccl_drop msg_rx_eager(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	uint64_t mseq = uccl_seq_expand(p->rx.mseq, uccl_get32(in->rec), 32);
	uint64_t off = uccl_get64(in->rec + 8), total = uccl_get64(in->rec + 16);
	struct uccl_msg_rx *rx = msg_rx_find(p, mseq);
	uint64_t here;

	if (!rx) {
		if (mseq < p->rx.mseq)
			return UCCL_DROP_HANDLE;
		/* It may be of connection management: that tells its envelope. */
		if (msg_rx_unrelated(p) && total > UCCL_CM_MAX)
			return UCCL_DROP_UNWANTED;
		if (mseq - p->rx.mseq >= UCCL_MSG_LIMIT || total > UCCL_UNSOLICITED_MAX || !in->len)
			return UCCL_DROP_RECORD;
		if (off > total || in->len > total - off)
			return UCCL_DROP_RANGE;
		rx = msg_rx_new(p, mseq, total, true);
		if (!rx)
			return UCCL_DROP_MEMORY;
		if (msg_rx_buffer(rx, total, 0)) {
			msg_rx_free(rx);
			return UCCL_DROP_MEMORY;
		}
	}
	/* Some unsolicited data may come behind what was asked for. */
	here = rx->arrived.got - rx->arrived.asked;
	if (rx->lanes.senders)
		return UCCL_DROP_OVERLAP;
	if (total != rx->arrived.eager || off > rx->arrived.eager || in->len > rx->arrived.eager - off ||
	    in->len > rx->arrived.eager - here)
		return UCCL_DROP_RANGE;
	if (rx->hold.unplaced_bytes && !rx->place.iov && msg_rx_buffer_late(rx))
		return UCCL_DROP_MEMORY;
	if (!msg_rx_range_new(rx, off, in->len, msg_rx_need(rx)))
		return UCCL_DROP_OVERLAP;
	if (rx->id && rx->place.iov)
		p->msg_ep->predict.stream = rx;
	rx_place_all(rx, off, in);
	here += in->len;
	if (here == rx->arrived.eager && rx->in_order) {
		msg_rx_unhash(rx);
		rx->ops->whole(rx, now);
	} else if (here == rx->arrived.eager) {
		msg_rx_drain(p, now);
	}
	msg_peer_limits(p);
	return UCCL_DROP_COUNT;
}

/* It is on the device already. */
static void rx_gather(struct uccl_msg_rx *rx, uint64_t off, const struct uccl_chunk_in *in)
{
	msg_gather(rx->peer->msg_ep, &rx->place.copy, rx->place.iov, rx->place.niov, off, in->data, in->len);
	rx->arrived.got += in->len;
}

/*
 * Nothing takes this payload. It is late if it was granted before: to a request that was refused or revoked since, or a
 * read that has failed. PROTOCOL R315
 */
static enum uccl_drop rx_gone(const struct uccl_peer *p, const struct uccl_chunk_in *in)
{
	uint32_t id = uccl_get32(in->rec), gen = uccl_get32(in->rec + 4);
	const struct uccl_msg_rx *rx = uccl_ids_find(&p->msg_ep->rx_ids, id);
	/* Messages come in their order, and answers to what we have sent. */
	uint32_t begun = (uint32_t)(in->rtype == UCCL_REC_REPLY ? p->tx.mseq : p->rx.mseq);

	if (rx && rx->peer == p && (uint32_t)rx->mseq == gen)
		return UCCL_DROP_UNWANTED;
	return uccl_ids_was(&p->msg_ep->rx_ids, id) && (int32_t)(begun - gen) > 0 ? UCCL_DROP_UNWANTED
										  : UCCL_DROP_HANDLE;
}

enum uccl_drop msg_rx_data(struct uccl_peer *p, const struct uccl_chunk_in *in, uint64_t now)
{
	struct uccl_msg_rx *rx = msg_rx_by_id(p, uccl_get32(in->rec), uccl_get32(in->rec + 4));
	uint64_t off = uccl_get64(in->rec + 8);

	if (!rx || !rx->place.iov)
		return rx_gone(p, in);
	if (off < rx->arrived.eager || off > rx->place.limit || in->len > rx->place.limit - off ||
	    in->len > rx->place.limit - uccl_min(rx->arrived.got, rx->place.limit))
		return UCCL_DROP_RANGE;
	/* PROTOCOL R292 */
	if (in->on_device && !rx->place.gathers)
		return UCCL_DROP_STATE;
	/* All of it comes by lanes, or nothing. PROTOCOL R182 */
	if (!lanes_rx_claim(rx))
		return UCCL_DROP_OVERLAP;
	if (!msg_rx_range_new(rx, off, in->len, rx->place.limit))
		return UCCL_DROP_OVERLAP;
	if (in->doubtful)
		rx->place.in_doubt++;
	p->msg_ep->predict.stream = rx;
	rx->arrived.asked += in->len;
	if (in->placed) {
		rx->arrived.got += in->len;
		rx->place.unseen = rx->place.device;
	} else if (in->on_device) {
		rx_gather(rx, off, in);
	} else {
		rx_place_all(rx, off, in);
	}
	rx->arrived.hi = uccl_max(rx->arrived.hi, off + in->len);
	if (rx->arrived.hi >= rx->place.limit)
		stream_end(rx);
	msg_rx_check(rx, now);
	return UCCL_DROP_COUNT;
}

void msg_rx_settled(struct uccl_peer *p, uint32_t id, uint32_t gen, uint64_t now)
{
	struct uccl_msg_rx *rx = msg_rx_by_id(p, id, gen);

	if (rx && rx->place.in_doubt && !--rx->place.in_doubt)
		msg_rx_check(rx, now);
}

void msg_rx_acked(struct uccl_item *item)
{
	struct uccl_msg_rx *rx = item->rtype == UCCL_REC_CTS ? uccl_container_of(item, struct uccl_msg_rx, cts)
							      : uccl_container_of(item, struct uccl_msg_rx, fin);

	if (rx->finished)
		msg_rx_release(rx);
}

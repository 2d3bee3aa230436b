/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/rma/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "msg/iov.h"
#include "msg/recv/msg_rx.h"

/* Shorter replies are copied: keeping track of memory in use costs more than that. */
#define IN_PLACE_MIN 8192
/* What is copied of a large read at once; that and the next ones are on their way together. */
#define BUF_BYTES (256u << 10)

static void in_place_set(struct uccl_feed *f, bool in_place)
{
	f->reply->peer->reply.in_place += (uint32_t)in_place - f->in_place;
	f->in_place = in_place;
}

void msg_reply_free(struct uccl_reply *r)
{
	struct uccl_peer *p = r->peer;
	struct uccl_msg_ep *m = p->msg_ep;

	if (r->feed) {
		in_place_set(r->feed, false);
		for (uint8_t i = 0; i < r->feed->nbufs; i++)
			msg_copy_end(m, &r->feed->bufs[i].copy);
		msg_uses_end(m, &r->feed->uses);
		msg_rx_unnumber(p->rx.numbered, &r->feed->number_node);
		m->reply.staged_bytes -= r->feed->bytes;
		p->reply.staged_bytes -= r->feed->bytes;
		uccl_buf_cache_put(&m->reply.cache, r->feed, sizeof(*r->feed) + r->feed->bytes);
	}
	p->reply.n--;
	TAILQ_REMOVE(&p->reply.list, r, link);
	uccl_pool_put(&m->reply.pool, r);
}

/* May the peer have so much more? Not beyond what it leaves to others: who never acknowledges stops nobody else. */
static bool share_has(uint64_t own, uint64_t more, uint64_t used, uint64_t all)
{
	return used < all && own + more <= all - used;
}

/* Bytes of copies that the reply needs. */
static uint64_t reply_bytes(const struct uccl_req *req)
{
	return req->rx && msg_target_knows(req) ? uccl_min(req->len, 4ull * BUF_BYTES) : 0;
}

struct uccl_reply *msg_reply_get(struct uccl_peer *p, uint32_t id, const struct uccl_req *req, uint32_t gen)
{
	uint64_t bytes = req ? reply_bytes(req) : 0;
	struct uccl_msg_ep *m = p->msg_ep;
	bool staged = p->reply.staged_bytes + bytes <= UCCL_STAGED_PEER_MAX &&
		      share_has(p->reply.staged_bytes, bytes, m->reply.staged_bytes, UCCL_STAGED_MAX);
	struct uccl_reply *r;

	if (p->reply.n && (!share_has(p->reply.n, 1, m->reply.pool.used, m->reply.pool.max) || (bytes && !staged)))
		return NULL;
	if (!staged)
		bytes = uccl_min(bytes, UCCL_EAGER_MAX);
	r = uccl_pool_get(&m->reply.pool);
	if (!r)
		return NULL;
	r->peer = p;
	r->id = id;
	p->reply.n++;
	TAILQ_INSERT_TAIL(&p->reply.list, r, link);
	if (!bytes)
		return r;
	r->feed = uccl_buf_cache_get(&m->reply.cache, sizeof(*r->feed) + bytes, sizeof(*r->feed) + bytes);
	if (!r->feed) {
		msg_reply_free(r);
		return NULL;
	}
	memset(r->feed, 0, sizeof(*r->feed));
	r->feed->reply = r;
	r->feed->req = *req;
	r->feed->gen = gen;
	r->feed->bytes = bytes;
	r->feed->nbufs = (uint8_t)(bytes > BUF_BYTES ? 4 : 1);
	r->feed->buf_bytes = r->feed->nbufs > 1 ? BUF_BYTES : bytes;
	m->reply.staged_bytes += bytes;
	p->reply.staged_bytes += bytes;
	if (req->kind == UCCL_RMA_READ)
		msg_rx_number(p->rx.numbered, &r->feed->number_node, gen, true);
	return r;
}

static void reply_send(struct uccl_reply *r, uint8_t rtype, uint32_t err)
{
	struct uccl_resp resp = { .id = r->id, .err = err };

	r->resp.rtype = rtype;
	uccl_resp_encode(r->resp.rec, &resp);
	uccl_flow_submit(&r->peer->flow, &r->resp);
	r->peer->msg_ep->ops->ready(r->peer);
}

void msg_reply_answer(struct uccl_reply *r, int refusal)
{
	reply_send(r, UCCL_REC_RESP, (uint32_t)refusal);
}

void msg_reply_aborted(struct uccl_reply *r, bool taken)
{
	reply_send(r, UCCL_REC_ABORTED, taken);
}

static void buf_send(struct uccl_feed *f, uint8_t i, uint8_t *from, uint64_t off, uint64_t n)
{
	struct uccl_feed_buf *buf = &f->bufs[i];
	struct uccl_peer *p = f->reply->peer;
	struct uccl_item *item = &buf->item;

	memset(item, 0, sizeof(*item));
	buf->feed = f;
	buf->iov = (struct iovec){ .iov_base = from, .iov_len = n };
	msg_item_bulk(item, UCCL_REC_REPLY, &buf->iov, 1, n);
	/* In a stream replies share trains. PROTOCOL R260 */
	item->each = n == f->req.len && n <= UCCL_EAGER_MAX ? uccl_flow_even(&p->flow, n) : 0;
	item->want_ack = true;
	uccl_peer_place(p, item, f->req.rkey, f->req.raddr);
	uccl_rec_set_bulk(item->rec, f->req.rx, f->gen, off);
	f->busy |= (uint8_t)(1u << i);
	uccl_flow_submit(&p->flow, item);
}

static uint8_t *buf_of(struct uccl_feed *f, uint8_t i)
{
	return f->buf + i * f->buf_bytes;
}

/* No more of it is sent: the initiator gets an error for the whole, once. */
static void feed_refuse(struct uccl_feed *f, int refusal)
{
	f->off = f->req.len;
	if (!f->reply->resp.queued && !f->reply->resp.pending)
		msg_reply_answer(f->reply, refusal);
}

static void feed_tell(struct uccl_feed *f)
{
	struct uccl_peer *p = f->reply->peer;

	f->unreported = false;
	msg_uses_end(p->msg_ep, &f->uses);
	msg_target_tell(p->msg_ep, p, &f->req, f->regions, f->nregions, false, 0);
}

/* Whose it was, if all of it is acknowledged; else NULL. */
static struct uccl_peer *reply_settle(struct uccl_reply *r)
{
	struct uccl_peer *p = r->peer;

	if (r->resp.queued || r->resp.pending || (r->feed && r->feed->busy))
		return NULL;
	if (r->feed && r->feed->in_place)
		feed_tell(r->feed);
	msg_reply_free(r);
	return p;
}

/* It lies in this host's memory. */
static void host_copy(const struct uccl_item *item, uint8_t *to, const uint8_t *from, uint64_t len)
{
	(void)item;
	memcpy(to, from, len);
}

/* What may still leave of it is copied. */
static void feed_copy(struct uccl_feed *f)
{
	struct uccl_peer *p = f->reply->peer;

	if (!f->in_place)
		return;
	in_place_set(f, false);
	p->msg_ep->ops->settle(p);
	uccl_flow_detach(&p->flow, &f->bufs[0].item, &f->bufs[0].iov, buf_of(f, 0), host_copy);
	feed_tell(f);
}

void msg_replies_copy(struct uccl_peer *p)
{
	struct uccl_reply *r;

	for (r = TAILQ_LAST(&p->reply.list, uccl_reply_list); r && p->reply.in_place;
	     r = TAILQ_PREV(r, uccl_reply_list, link))
		if (r->feed)
			feed_copy(r->feed);
}

/* A buffer was filled from a device. */
static void buf_loaded(struct uccl_copy *c, uint64_t now)
{
	struct uccl_feed_buf *buf = uccl_container_of(c, struct uccl_feed_buf, copy);
	struct uccl_feed *f = buf->feed;
	struct uccl_peer *p = f->reply->peer;
	uint64_t n = buf->iov.iov_len;

	(void)now;
	if (f->stopped) {
		f->busy &= (uint8_t)~(1u << (buf - f->bufs));
		reply_settle(f->reply);
		return;
	}
	if (c->err) {
		f->busy &= (uint8_t)~(1u << (buf - f->bufs));
		feed_refuse(f, UCCL_REFUSED_RANGE);
		return;
	}
	if (f->unreported && buf->off + n == uccl_min(f->req.len, f->bytes))
		feed_tell(f);
	buf_send(f, (uint8_t)(buf - f->bufs), buf_of(f, (uint8_t)(buf - f->bufs)), buf->off, n);
	p->msg_ep->ops->ready(p);
}

/* Fill the buffer with what is read next, which lies at `at`, if there is more. */
static void feed_buf(struct uccl_feed *f, uint8_t i, const struct msg_place *at)
{
	uint64_t n = uccl_min(f->buf_bytes, f->req.len - f->off);

	if (!n)
		return;
	if (at->device) {
		struct uccl_feed_buf *buf = &f->bufs[i];
		struct uccl_msg_ep *m = f->reply->peer->msg_ep;

		buf->feed = f;
		buf->off = f->off;
		buf->iov.iov_len = n;
		f->busy |= (uint8_t)(1u << i);
		msg_get(m, &buf->copy, at->iov, at->niov, at->device, f->off, buf_of(f, i), n);
		msg_copy_wait(m, &buf->copy, buf_loaded);
	} else if (f->in_place) {
		buf_send(f, i, at->iov[0].iov_base, 0, n);
	} else {
		msg_copy_out(at->iov, at->niov, f->off, buf_of(f, i), n);
		buf_send(f, i, buf_of(f, i), f->off, n);
	}
	f->off += n;
}

/* Nobody will hear of what was done in this region. */
static void feed_revoked(struct msg_uses *u, const void *region)
{
	struct uccl_feed *f = uccl_container_of(u, struct uccl_feed, uses);

	if (region)
		msg_target_forget(f->regions, &f->nregions, region);
	feed_copy(f);
}

static bool in_sparse(struct uccl_msg_ep *m, const struct msg_place *at)
{
	for (uint8_t i = 0; i < at->nregions; i++)
		if (m->target.ops->sparse && m->target.ops->sparse(m->target.arg, at->regions[i]))
			return true;
	return false;
}

void msg_reply_read(struct uccl_reply *r, const struct msg_place *at)
{
	struct uccl_feed *f = r->feed;

	in_place_set(f, r->peer->reads_in_place && !at->device && at->niov == 1 && f->nbufs == 1 &&
				f->bytes >= uccl_max(f->req.len, IN_PLACE_MIN) && !in_sparse(r->peer->msg_ep, at));
	if (at->device || f->in_place) {
		f->unreported = true;
		f->nregions = at->nregions;
		memcpy(f->regions, at->regions, sizeof(f->regions));
		f->uses.revoked = feed_revoked;
		msg_uses_begin(r->peer, &f->uses, &f->req, f->regions, f->nregions);
	}
	for (uint8_t i = 0; i < f->nbufs; i++)
		feed_buf(f, i, at);
}

void msg_reply_fetched(struct uccl_reply *r)
{
	r->feed->off = r->feed->req.len;
	buf_send(r->feed, 0, buf_of(r->feed, 0), 0, r->feed->req.len);
}

/* Look for the region again, which may have gone meanwhile: then the initiator gets an error for the whole. */
static void feed_next(struct uccl_feed *f, uint8_t i)
{
	struct msg_place at;
	int refusal;

	if (f->off == f->req.len)
		return;
	refusal = msg_target_find(f->reply->peer, &f->req, &at);
	if (!refusal) {
		feed_buf(f, i, &at);
		return;
	}
	feed_refuse(f, refusal);
}

struct uccl_peer *msg_reply_acked(struct uccl_item *item)
{
	struct uccl_feed_buf *buf;
	struct uccl_feed *f;
	uint8_t i;

	if (item->rtype != UCCL_REC_REPLY)
		return reply_settle(uccl_container_of(item, struct uccl_reply, resp));
	buf = uccl_container_of(item, struct uccl_feed_buf, item);
	f = buf->feed;
	i = (uint8_t)(buf - f->bufs);
	f->busy &= (uint8_t)~(1u << i);
	feed_next(f, i);
	if (f->busy)
		f->reply->peer->msg_ep->ops->ready(f->reply->peer);
	return reply_settle(f->reply);
}

bool msg_reply_stop(struct uccl_peer *p, uint32_t id, uint32_t gen)
{
	struct uccl_multinode *n = uccl_multimap_find(p->rx.numbered, gen, true);
	struct uccl_feed *f = n ? uccl_container_of(n, struct uccl_feed, number_node) : NULL;

	if (!f || f->reply->id != id)
		return false;
	f->off = f->req.len;
	f->stopped = true;
	for (uint8_t i = 0; i < f->nbufs; i++)
		if (f->bufs[i].item.queued && uccl_flow_cut(&p->flow, &f->bufs[i].item))
			f->busy &= (uint8_t)~(1u << i);
	reply_settle(f->reply);
	return true;
}

void msg_reply_numbers(struct uccl_peer *p)
{
	struct uccl_reply *r;

	TAILQ_FOREACH(r, &p->reply.list, link)
		if (r->feed && r->feed->req.kind == UCCL_RMA_READ)
			msg_rx_number(p->rx.numbered, &r->feed->number_node, r->feed->gen, true);
}

void msg_replies_free(struct uccl_peer *p)
{
	struct uccl_reply *r;

	while ((r = TAILQ_FIRST(&p->reply.list))) {
		/* Nothing of it leaves any more. */
		if (r->feed && r->feed->in_place)
			feed_tell(r->feed);
		msg_reply_free(r);
	}
}

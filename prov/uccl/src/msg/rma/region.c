/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/rma/region.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "msg/rma/atomic_math.h"
#include "msg/iov.h"
#include "msg/recv/posted.h"

void msg_uses_begin(struct uccl_peer *p, struct msg_uses *u, const struct uccl_req *req, void *const *regions,
		    uint8_t nregions)
{
	struct uccl_msg_ep *m = p->msg_ep;

	if (!m->target.uses.bits)
		uccl_multimap_init(&m->target.uses, (const uint64_t[2]){ 0 });
	u->n = nregions;
	u->req = req;
	u->peer = p;
	for (uint8_t i = 0; i < nregions; i++) {
		u->use[i].uses = u;
		u->use[i].in = true;
		uccl_multimap_add(&m->target.uses, &u->use[i].node, (uintptr_t)regions[i], 0);
	}
}

static void use_end(struct uccl_msg_ep *m, struct msg_use *use)
{
	if (use->in)
		uccl_multimap_remove(&m->target.uses, &use->node);
	use->in = false;
}

void msg_uses_end(struct uccl_msg_ep *m, struct msg_uses *u)
{
	for (uint8_t i = 0; i < u->n; i++)
		use_end(m, &u->use[i]);
	u->n = 0;
}

/* Does it touch this part? NULL: it is all. */
static bool uses_part(const struct msg_uses *u, const struct uccl_revoke *part)
{
	if (!part)
		return true;
	if (part->from)
		return uccl_nic_addr_equal(part->from, &u->peer->addr.nic);
	for (uint8_t i = 0; i < u->req->nseg; i++) {
		const struct uccl_seg *seg = &u->req->seg[i];

		if (seg->key == part->key && seg->len &&
		    (seg->addr < part->addr ? part->addr - seg->addr < seg->len : seg->addr - part->addr < part->len))
			return true;
	}
	return false;
}

void msg_uses_revoke(struct uccl_msg_ep *m, const void *region, const struct uccl_revoke *part)
{
	struct uccl_multinode *n, *next;

	if (!m->target.uses.nodes)
		return;
	for (n = uccl_multimap_find(&m->target.uses, (uintptr_t)region, 0); n; n = next) {
		struct msg_use *use = uccl_container_of(n, struct msg_use, node);
		struct msg_uses *u = use->uses;

		uccl_match_step(&m->match);
		/* A request may touch it twice, and ends as a whole. */
		for (next = n->next; next && uccl_container_of(next, struct msg_use, node)->uses == u;)
			next = next->next;
		if (!part) {
			use_end(m, use);
			u->revoked(u, region);
		} else if (uses_part(u, part)) {
			u->revoked(u, NULL);
		}
	}
}

static enum uccl_op_type op_type(uint8_t kind)
{
	return kind == UCCL_RMA_FETCH ? UCCL_OP_FETCH : kind == UCCL_RMA_COMPARE ? UCCL_OP_COMPARE : UCCL_OP_ATOMIC;
}

static uint32_t req_access(const struct uccl_req *req)
{
	switch (req->kind) {
	case UCCL_RMA_READ:
		return UCCL_ACCESS_READ;
	case UCCL_RMA_FETCH:
		return req->atomic == UCCL_ATOMIC_READ ? UCCL_ACCESS_READ : UCCL_ACCESS_READ | UCCL_ACCESS_WRITE;
	case UCCL_RMA_COMPARE:
		return UCCL_ACCESS_READ | UCCL_ACCESS_WRITE;
	default:
		return UCCL_ACCESS_WRITE;
	}
}

int msg_target_find(struct uccl_peer *p, const struct uccl_req *req, struct msg_place *at)
{
	struct uccl_msg_ep *m = p->msg_ep;

	at->niov = at->nregions = 0;
	at->device = 0;
	for (uint8_t i = 0; i < req->nseg; i++) {
		int n;

		if (!req->seg[i].len)
			continue;
		if (!m->target.ops)
			return UCCL_REFUSED_KEY;
		n = m->target.ops->resolve(m->target.arg, p->self ? NULL : &p->addr.nic, &req->seg[i], req_access(req),
				       at->iov + at->niov, &at->regions[at->nregions]);
		if (n < 0)
			return -n;
		if (m->target.ops->device && m->target.ops->device(m->target.arg, at->regions[at->nregions]))
			at->device |= (uint16_t)(((1u << n) - 1) << at->niov);
		at->niov = (uint8_t)(at->niov + n);
		at->nregions++;
	}
	return UCCL_REFUSED_NOT;
}

bool msg_target_knows(const struct uccl_req *req)
{
	return req->kind <= UCCL_RMA_READ || uccl_atomic_valid(op_type(req->kind), req->datatype, req->atomic);
}

uint64_t msg_target_payload(const struct uccl_req *req)
{
	size_t size;

	switch (req->kind) {
	case UCCL_RMA_WRITE:
		return req->rx ? UINT64_MAX : req->len;
	case UCCL_RMA_READ:
		return !req->rx == !req->len ? 0 : UINT64_MAX;
	default:
		break;
	}
	if (req->kind == UCCL_RMA_ATOMIC ? req->rx : !req->rx != !req->len)
		return UINT64_MAX;
	/* What another version of us may know is refused in words, but its length is right. */
	size = uccl_atomic_size(req->datatype);
	if (req->len > UCCL_ORDER_MAX || (size && req->len % size))
		return UINT64_MAX;
	if (req->kind == UCCL_RMA_FETCH && req->atomic == UCCL_ATOMIC_READ)
		return 0;
	return req->kind == UCCL_RMA_COMPARE ? 2 * req->len : req->len;
}

void msg_target_atomic(struct uccl_msg_ep *m, const struct uccl_req *req, const struct msg_place *at,
		       const uint8_t *body, uint8_t *result)
{
	size_t size = uccl_atomic_size(req->datatype);
	const uint8_t *src = req->atomic == UCCL_ATOMIC_READ ? NULL : body;
	const uint8_t *cmp = req->kind == UCCL_RMA_COMPARE ? body + req->len : NULL;
	uint8_t one[32];

	if (!m->target.ops)
		return;
	m->target.ops->lock(m->target.arg);
	if (at->niov == 1) {
		msg_target_apply(req, body, at->iov[0].iov_base, result);
	} else {
		for (uint64_t off = 0; off < req->len; off += size) {
			msg_copy_out(at->iov, at->niov, off, one, size);
			uccl_atomic_apply(req->datatype, req->atomic, one, src ? src + off : NULL,
					  cmp ? cmp + off : NULL, result ? result + off : NULL, 1);
			if (req->atomic != UCCL_ATOMIC_READ)
				msg_copy_in(at->iov, at->niov, off, one, size);
		}
	}
	m->target.ops->unlock(m->target.arg);
}

bool msg_target_claim(struct uccl_msg_ep *m, const void *claimer)
{
	if (m->target.claimer || (m->target.ops->claim && !m->target.ops->claim(m->target.arg)))
		return false;
	m->target.claimer = claimer;
	return true;
}

void msg_target_release(struct uccl_msg_ep *m, const void *claimer)
{
	if (!m->target.claimer || m->target.claimer != claimer)
		return;
	m->target.claimer = NULL;
	if (m->target.ops->release)
		m->target.ops->release(m->target.arg);
}

void msg_target_apply(const struct uccl_req *req, const uint8_t *body, uint8_t *now, uint8_t *result)
{
	uccl_atomic_apply(req->datatype, req->atomic, now, req->atomic == UCCL_ATOMIC_READ ? NULL : body,
			  req->kind == UCCL_RMA_COMPARE ? body + req->len : NULL, result,
			  req->len / uccl_atomic_size(req->datatype));
}

void msg_target_tell(struct uccl_msg_ep *m, struct uccl_peer *from, const struct uccl_req *req, void *const *regions,
		     uint8_t nregions, bool has_data, uint64_t data)
{
	struct uccl_rma_event ev = {
		.from = from,
		.write = req->kind != UCCL_RMA_READ &&
			 !(req->kind == UCCL_RMA_FETCH && req->atomic == UCCL_ATOMIC_READ),
		.fetch = req->kind == UCCL_RMA_FETCH || req->kind == UCCL_RMA_COMPARE,
		.atomic = req->kind > UCCL_RMA_READ,
		.has_data = has_data,
		.nregions = nregions,
		.data = data,
		.len = req->len,
	};

	if (!m->target.ops)
		return;
	memcpy(ev.regions, regions, nregions * sizeof(*regions));
	ev.recv = has_data ? msg_data_take(m, from, data, req->len) : NULL;
	m->target.ops->event(m->target.arg, &ev);
	if (ev.recv)
		msg_posted_done(ev.recv, from, 0);
}

void msg_target_forget(void **regions, uint8_t *count, const void *region)
{
	uint8_t n = 0;

	for (uint8_t i = 0; i < *count; i++)
		if (regions[i] != region)
			regions[n++] = regions[i];
	*count = n;
}

static void self_tell(struct uccl_msg_ep *m, struct uccl_op *op, const struct uccl_req *req, const struct msg_place *at)
{
	msg_target_tell(m, op->peer, req, at->regions, at->nregions, op->flags & UCCL_OPF_DATA, op->data);
}

void msg_target_self_tell(struct uccl_msg_ep *m, struct uccl_op *op, const struct uccl_req *req)
{
	struct msg_place at;

	/* Its region may have been closed as it was copied. */
	if (!msg_target_find(op->peer, req, &at))
		self_tell(m, op, req, &at);
}

/* The caller stays until each copy is done. 0, or enum uccl_refusal; -FI_EAGAIN. */
static int self_device(struct uccl_msg_ep *m, struct uccl_op *op, const struct uccl_req *req,
		       const struct msg_place *at)
{
	uint8_t *now = malloc(2 * req->len);

	if (!now)
		return -FI_EAGAIN;
	if (!msg_target_claim(m, op)) {
		free(now);
		return -FI_EAGAIN;
	}
	msg_get(m, &op->tx.copy, at->iov, at->niov, at->device, 0, now, req->len);
	msg_copy_end(m, &op->tx.copy);
	if (!op->tx.copy.err) {
		msg_target_apply(req, op->rma.body.iov_base, now, now + req->len);
		if (req->atomic != UCCL_ATOMIC_READ)
			msg_put(m, &op->tx.copy, at->iov, at->niov, at->device, 0, now, req->len);
		if (req->kind != UCCL_RMA_ATOMIC)
			msg_put(m, &op->tx.copy, op->iov, op->iov_count, op->device, 0, now + req->len, req->len);
		msg_copy_end(m, &op->tx.copy);
	}
	msg_target_release(m, op);
	free(now);
	return op->tx.copy.err ? UCCL_REFUSED_RANGE : UCCL_REFUSED_NOT;
}

int msg_target_self(struct uccl_msg_ep *m, struct uccl_op *op, const struct uccl_req *req)
{
	uint8_t *result = NULL;
	struct msg_place at;
	int refusal;

	if (!msg_target_knows(req))
		return UCCL_REFUSED_ATOMIC;
	refusal = msg_target_find(op->peer, req, &at);
	if (refusal)
		return refusal;
	if (req->kind == UCCL_RMA_WRITE) {
		msg_move(m, &op->tx.copy, at.iov, at.niov, at.device, op->iov, op->iov_count, op->device, req->len);
	} else if (req->kind == UCCL_RMA_READ) {
		msg_move(m, &op->tx.copy, op->iov, op->iov_count, op->device, at.iov, at.niov, at.device, req->len);
	} else if (at.device && req->len) {
		refusal = self_device(m, op, req, &at);
		if (refusal)
			return refusal;
	} else if (req->len) {
		if (req->kind != UCCL_RMA_ATOMIC && !(result = malloc(req->len)))
			return -FI_EAGAIN;
		msg_target_atomic(m, req, &at, op->rma.body.iov_base, result);
		if (result)
			msg_put(m, &op->tx.copy, op->iov, op->iov_count, op->device, 0, result, req->len);
		free(result);
	}
	if (msg_copied(m, &op->tx.copy))
		self_tell(m, op, req, &at);
	return UCCL_REFUSED_NOT;
}

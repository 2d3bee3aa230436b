/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See remote.h. */
#include "sim/remote.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "msg/rma/atomic_math.h"
#include "sim/aborted.h"
#include "sim/buffer.h"
#include "sim/check.h"
#include "sim/life.h"

#define ATOMIC_LEN 8

enum remote_state { REMOTE_PLANNED, REMOTE_POSTED, REMOTE_OVER };

struct sim_remote {
	struct uccl_sim_event ev;
	struct uccl_sim_world *w;
	uint32_t id;
	uint8_t type, src, dst; /* type: UCCL_OP_WRITE, _READ or _FETCH */
	uint32_t src_life, dst_life;
	uint8_t state;
	bool closed; /* its region at the target */
	uint64_t len, seed;
	uint8_t *buf, *place; /* at the initiator, at the target */
	uint8_t one[ATOMIC_LEN];
	struct iovec operand;
	struct uccl_atomic_args args;
	struct sim_abort abort;
};

static bool both_alive(const struct sim_remote *r)
{
	return uccl_sim_alive(r->w, r->src, r->src_life) && uccl_sim_alive(r->w, r->dst, r->dst_life);
}

static const char *kind(const struct sim_remote *r)
{
	return r->type == UCCL_OP_WRITE ? "write" : r->type == UCCL_OP_READ ? "read" : "atomic";
}

/* --- the target */

static int target_resolve(void *arg, const struct uccl_nic_addr *from, const struct uccl_seg *seg, uint32_t access,
			  struct iovec *iov, void **region)
{
	struct uccl_sim_life *n = arg;
	struct uccl_sim_world *w = n->w;
	struct sim_remote *r = seg->key && seg->key <= w->remotes.n ? w->remotes.v[seg->key - 1] : NULL;

	(void)from;
	(void)access;
	if (!r || r->dst != n->node || r->dst_life != n->life)
		return -UCCL_REFUSED_KEY;
	if (r->closed)
		return -UCCL_REFUSED_REVOKED;
	if (seg->addr > r->len || seg->len > r->len - seg->addr)
		return -UCCL_REFUSED_RANGE;
	if (r->state != REMOTE_POSTED)
		uccl_sim_violation(w, "I2: %s %u is executed when it is over", kind(r), r->id);
	iov[0] = (struct iovec){.iov_base = r->place + seg->addr, .iov_len = seg->len};
	*region = r;
	return 1;
}

static void target_lock(void *arg)
{
	(void)arg;
}

static void target_event(void *arg, const struct uccl_rma_event *ev)
{
	(void)arg;
	(void)ev;
}

const struct uccl_target_ops sim_remote_target = {
	.resolve = target_resolve, .lock = target_lock, .unlock = target_lock, .event = target_event};

/* The target wants its memory for something else. */
static void place_reuse(struct sim_remote *r)
{
	if (r->place)
		sim_buffer_reuse(r->w, r->place, r->len);
	r->place = NULL;
}

/* Nobody proved that the operation does nothing there any more: so the target closes the region. */
static void place_close(struct sim_remote *r)
{
	struct uccl_sim_life *n = &r->w->node[r->dst];

	r->closed = true;
	if (uccl_sim_alive(r->w, r->dst, r->dst_life))
		uccl_engine_revoke(n->e, r, NULL, r->w->net.now);
	place_reuse(r);
}

/* --- the initiator */

static void remote_over(struct sim_remote *r)
{
	if (r->state == REMOTE_OVER)
		return;
	r->state = REMOTE_OVER;
	r->w->open--;
}

/* What is now at the target, or came back. */
static void success_check(struct sim_remote *r)
{
	const uint8_t *at = r->type == UCCL_OP_READ ? r->buf : r->place;
	uint64_t bad;

	if (!at || r->w->o.corrupt_pass > 0)
		return;
	if (r->type == UCCL_OP_FETCH) {
		if (uccl_get64(at) != 1 || uccl_get64(r->buf) != 0)
			uccl_sim_violation(r->w, "I2: atomic %u made %llu of 0, and found %llu", r->id,
					   (unsigned long long)uccl_get64(at), (unsigned long long)uccl_get64(r->buf));
		return;
	}
	bad = uccl_check_match(r->seed, 0, at, r->len);
	if (bad != r->len)
		uccl_sim_violation(r->w, "I3: %s %u of %llu bytes is wrong from byte %llu on", kind(r), r->id,
				   (unsigned long long)r->len, (unsigned long long)bad);
}

static void remote_done(struct uccl_op *op)
{
	struct sim_remote *r = op->context;
	struct uccl_sim_world *w = r->w;
	struct uccl_sim_life *n = &w->node[r->src];
	bool cancelled = r->abort.taken && op->err == FI_ECANCELED;

	n->posted--;
	uccl_sim_inv_done(n, false);
	uccl_sim_trace(&w->net, w->net.now, (uint64_t)r->id << 16 | (uint64_t)op->err);
	uccl_sim_cancel(&w->net, &r->abort.ev);
	if (r->state != REMOTE_POSTED) {
		uccl_sim_violation(w, "I2: %s %u completed in state %u", kind(r), r->id, r->state);
		uccl_op_put(n->e, op);
		return;
	}
	if (r->abort.taken)
		sim_abort_end(&r->abort, n, r->dst, r->dst_life, op->err == FI_ECANCELED);
	if (op->err && !cancelled && both_alive(r))
		uccl_sim_violation(w, "%s %u (%u -> %u, %llu bytes) failed with %d (%s), refusal %u", kind(r), r->id,
				   r->src, r->dst, (unsigned long long)r->len, op->err, strerror(op->err), op->refusal);
	if (!op->err)
		success_check(r);
	if (cancelled && !op->refusal && r->type == UCCL_OP_FETCH && r->place && uccl_get64(r->place))
		uccl_sim_violation(w, "I2: atomic %u was taken back, and executed", r->id);
	remote_over(r);
	/* What a read reads may be read until its region is closed. */
	if (r->type == UCCL_OP_READ || (op->err && (!cancelled || op->refusal)))
		place_close(r);
	else
		place_reuse(r);
	sim_buffer_reuse(w, r->buf, r->len);
	r->buf = NULL;
	uccl_op_put(n->e, op);
}

static void remote_abort(struct uccl_sim_event *ev)
{
	struct sim_remote *r = uccl_container_of(ev, struct sim_remote, abort.ev);

	if (uccl_sim_alive(r->w, r->src, r->src_life) && r->state == REMOTE_POSTED)
		sim_abort_begin(&r->abort, &r->w->node[r->src], r, r->dst, r->dst_life);
}

/* Both buffers, with the bytes that the operation shall move. False: no memory. */
static bool buffers(struct sim_remote *r)
{
	struct uccl_sim_world *w = r->w;
	bool write = r->type == UCCL_OP_WRITE;

	if (!r->buf)
		r->buf = sim_buffer_new(w, r->len);
	if (!r->place)
		r->place = sim_buffer_new(w, r->len);
	if (!r->buf || !r->place)
		return false;
	memset(r->buf, 0, r->len);
	memset(r->place, 0, r->len);
	if (r->type != UCCL_OP_FETCH)
		uccl_check_fill(r->seed, 0, write ? r->buf : r->place, r->len);
	uccl_owner_give(&w->owner, uccl_check_base(r->buf), write ? UCCL_OWNER_READ : UCCL_OWNER_WRITE);
	uccl_owner_give(&w->owner, uccl_check_base(r->place),
			r->type == UCCL_OP_READ ? UCCL_OWNER_READ : UCCL_OWNER_WRITE);
	return true;
}

static void remote_fill_op(struct sim_remote *r, struct uccl_op *op)
{
	op->type = r->type;
	op->context = r;
	op->done = remote_done;
	sim_op_pieces(r->w, op, r->buf, r->len, 1);
	op->rma.nseg = 1;
	op->rma.seg[0] = (struct uccl_seg){.addr = 0, .len = r->len, .key = r->id + 1};
	if (r->type != UCCL_OP_FETCH)
		return;
	r->one[0] = 1;
	r->operand = (struct iovec){.iov_base = r->one, .iov_len = ATOMIC_LEN};
	r->args = (struct uccl_atomic_args){.operand = &r->operand, .noperand = 1};
	op->rma.datatype = UCCL_UINT64;
	op->rma.atomic = UCCL_SUM;
	op->rma.args = &r->args;
}

static void remote_post(struct uccl_sim_event *ev)
{
	struct sim_remote *r = uccl_container_of(ev, struct sim_remote, ev);
	struct uccl_sim_world *w = r->w;
	struct uccl_sim_life *n = &w->node[r->src];
	struct uccl_op *op;
	int rc;

	if (w->net.now < n->asleep_until) {
		uccl_sim_at(&w->net, &r->ev, n->asleep_until);
		return;
	}
	op = uccl_op_get(n->e);
	if (op)
		op->peer = uccl_sim_peer(n, r->dst, r->dst_life);
	if (!op || !op->peer || !buffers(r)) {
		if (op)
			uccl_op_put(n->e, op);
		uccl_sim_retry(w, &r->ev);
		return;
	}
	remote_fill_op(r, op);
	r->state = REMOTE_POSTED;
	if (uccl_rng_chance(&w->rng, w->o.abort))
		uccl_sim_at(&w->net, &r->abort.ev, w->net.now + sim_abort_after(w));
	n->posted++;
	rc = uccl_engine_rma(n->e, op, w->net.now);
	if (rc) {
		n->posted--;
		r->state = REMOTE_PLANNED;
		uccl_sim_cancel(&w->net, &r->abort.ev);
		uccl_op_put(n->e, op);
		if (rc == -FI_EAGAIN) {
			uccl_sim_retry(w, &r->ev);
		} else {
			if (both_alive(r))
				uccl_sim_violation(w, "%s %u was refused with %d (%s)", kind(r), r->id, rc,
						   strerror(-rc));
			remote_over(r);
		}
	}
	uccl_sim_wake(n);
}

/* --- planning and ends */

void sim_remote_plan(struct uccl_sim_world *w, uint8_t src, uint8_t dst, uint64_t len, uint64_t at)
{
	static const uint8_t types[] = {UCCL_OP_WRITE, UCCL_OP_READ, UCCL_OP_WRITE, UCCL_OP_READ, UCCL_OP_FETCH};
	struct uccl_sim_remotes *k = &w->remotes;
	struct sim_remote **v = k->v, *r = calloc(1, sizeof(*r));

	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 64;
		v = realloc(k->v, k->cap * sizeof(struct sim_remote *));
		k->v = v ? v : k->v;
	}
	if (!r || !v) {
		uccl_sim_violation(w, "no memory for an operation");
		free(r);
		return;
	}
	*r = (struct sim_remote){.w = w, .id = k->n, .src = src, .dst = dst, .src_life = w->node[src].life,
		.dst_life = w->node[dst].life, .seed = uccl_rng_next(&w->rng),
		.type = types[uccl_rng_below(&w->rng, uccl_array_len(types))]};
	r->len = r->type == UCCL_OP_FETCH ? ATOMIC_LEN : uccl_max(len, 1);
	r->ev.fire = remote_post;
	r->abort.ev.fire = remote_abort;
	v[k->n++] = r;
	w->open++;
	uccl_sim_at(&w->net, &r->ev, at);
}

void sim_remote_death(struct uccl_sim_world *w, uint8_t node, uint32_t life)
{
	for (uint32_t i = 0; i < w->remotes.n; i++) {
		struct sim_remote *r = w->remotes.v[i];

		if (r->src == node && r->src_life == life) {
			if (r->state == REMOTE_POSTED)
				uccl_sim_violation(w, "I2: %s %u did not complete when its endpoint closed", kind(r),
						   i);
			uccl_sim_cancel(&w->net, &r->ev);
			uccl_sim_cancel(&w->net, &r->abort.ev);
			remote_over(r);
		}
		/* Nobody has an engine there any more. */
		if (r->dst == node && r->dst_life == life)
			place_reuse(r);
	}
}

void sim_remote_tell_open(struct uccl_sim_world *w)
{
	static const char *const states[] = {"planned", "posted"};

	for (uint32_t i = 0, told = 0; i < w->remotes.n && told < 8; i++) {
		const struct sim_remote *r = w->remotes.v[i];

		if (r->state == REMOTE_OVER)
			continue;
		told++;
		uccl_sim_violation(w, "I17: %s %u (%u life %u -> %u life %u, %llu bytes) is %s", kind(r), r->id,
				   r->src, r->src_life, r->dst, r->dst_life, (unsigned long long)r->len,
				   states[r->state]);
	}
}

void sim_remote_fini(struct uccl_sim_world *w)
{
	for (uint32_t i = 0; i < w->remotes.n; i++) {
		struct sim_remote *r = w->remotes.v[i];

		uccl_sim_cancel(&w->net, &r->ev);
		uccl_sim_cancel(&w->net, &r->abort.ev);
		sim_buffer_free(w, r->buf);
		sim_buffer_free(w, r->place);
		free(r);
	}
	free(w->remotes.v);
}

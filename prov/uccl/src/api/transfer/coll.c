/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See coll.h. What each member does when is in msg/collective/schedule.c; done() only marks what has changed,
 * uccl_coll_run() goes on.
 */
#include "api/transfer/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/event/cq.h"
#include "api/event/eq.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/memory/device.h"
#include "api/object/domain.h"
#include "api/offer/address.h"
#include "api/offer/attr.h"
#include "api/peers/av.h"
#include "api/peers/avset.h"
#include "api/transfer/flags.h"
#include "msg/rma/atomic_math.h"
#include "msg/collective/schedule.h"
#include "progress/thread.h"

/* Descriptors are not used: the address says where memory is. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

_Static_assert((int)UCCL_BARRIER == FI_BARRIER && (int)UCCL_BROADCAST == FI_BROADCAST &&
		       (int)UCCL_ALLTOALL == FI_ALLTOALL && (int)UCCL_ALLREDUCE == FI_ALLREDUCE &&
		       (int)UCCL_ALLGATHER == FI_ALLGATHER && (int)UCCL_REDUCE_SCATTER == FI_REDUCE_SCATTER &&
		       (int)UCCL_REDUCE == FI_REDUCE && (int)UCCL_SCATTER == FI_SCATTER &&
		       (int)UCCL_GATHER == FI_GATHER,
	       "collectives have libfabric's numbers");

/* Messages of one collective under way at one member. */
#define OPEN_MAX 16
/* Collectives of one group under way at one member: numbers of 16 bits must not meet. */
#define COLLS_MAX 1024
/*
 * Tags: who the members are (34 bits of a hash), the group's number among those of the same members (6), the
 * collective's number in its group (16), the phase (8).
 */
#define HASH_SHIFT 30
#define NUMBER_SHIFT 24
#define SEQ_SHIFT 8
/* Numbers of what is not a group yet, and of news about members. */
#define NUMBER_JOIN 63
#define NUMBER_NEWS 62
#define NUMBERS ((1ull << NUMBER_NEWS) - 1)
/* Rounds of uccl_coll_run() in one call. */
#define ROUNDS_MAX 64

struct coll;

/* A place for one message under way; its address is the context by which a receive is cancelled. */
struct slot {
	bool used;
};

struct group {
	struct fid_mc mc;
	TAILQ_ENTRY(group) link;
	struct uccl_ep *ep;
	void *context;		/* of the join */
	uint64_t hash;		/* at its place in a tag */
	uint8_t number;
	bool joined;
	bool closed;		/* by the program; kept because it is broken */
	bool listening;		/* for news */
	uint32_t n, rank;
	fi_addr_t *addrs;
	struct uccl_peer **members;	/* ours is NULL */
	uint16_t seq;
	uint32_t ncolls;
	TAILQ_HEAD(, coll) colls;
	uint64_t free_numbers;	/* joining: of all */
	int err;		/* the group is broken: error, and the lost member */
	uint32_t lost;
	uint32_t nnotified; /* members that we have notified; n: none is needed */
	uint8_t notice[4];
};

/* What the processor must not touch is worked on in memory of the host. */
struct staged {
	struct uccl_copy copy;
	struct coll *c;
	void *device;	/* NULL: it is where the processor can work on it */
	uint64_t len;
};

struct coll {
	TAILQ_ENTRY(coll) link;
	struct group *g;
	struct uccl_coll_plan plan;
	uint8_t datatype, op;
	uint16_t seq;
	bool want;		/* a completion */
	void *context;
	uint32_t step;
	struct uccl_coll_step s;
	bool has_step, asked;	/* the step is known; its receive is posted */
	bool combine;		/* what the last step brought is to be added */
	bool through;		/* no more steps */
	bool begun;		/* what this member gives is there */
	bool stored;		/* what it gets is on its way to a device, or need not be */
	struct staged given, got;
	uint32_t open;
	struct slot slots[OPEN_MAX];
	uint64_t scratch;
	uint8_t memory[];
};

struct uccl_colls {
	TAILQ_HEAD(, group) groups;
	uint64_t scratch;	/* bytes */
	uint32_t broken;	/* groups */
	bool due;		/* something has changed, or could not be posted */
};

static uint64_t tag_of(const struct group *g, uint16_t seq, uint8_t phase)
{
	return g->hash | (uint64_t)g->number << NUMBER_SHIFT | (uint64_t)seq << SEQ_SHIFT | phase;
}

static uint64_t notice_tag(const struct group *g)
{
	return g->hash | (uint64_t)NUMBER_NEWS << NUMBER_SHIFT;
}

static uint32_t member_of(const struct group *g, const struct uccl_peer *p)
{
	uint32_t i = 0;

	while (i < g->n && (i == g->rank || !uccl_peer_same(g->members[i], p)))
		i++;
	return i;
}

/* Break all groups of these members: member `who` is lost. `tell`: we found out, so we notify the others. */
static void members_break(struct uccl_ep *ep, uint64_t hash, int err, uint32_t who, bool tell)
{
	struct group *g;

	TAILQ_FOREACH(g, &ep->colls->groups, link) {
		if (g->hash != hash || g->err)
			continue;
		g->err = err;
		g->lost = who;
		g->nnotified = tell ? 0 : g->n;
		ep->colls->broken++;
		ep->colls->due = true;
		/* The others hear it once, whatever the number of groups. */
		tell = false;
	}
}

static void op_failed(struct group *g, const struct uccl_op *op)
{
	uint32_t who = op->from || op->peer ? member_of(g, op->from ? op->from : op->peer) : g->n;

	members_break(g->ep, g->hash, op->err ? op->err : FI_ETRUNC, who, true);
}

static void coll_done(struct uccl_op *op)
{
	struct coll *c = op->api_more;
	struct uccl_ep *ep = op->api;

	bool bad = op->err ? op->err != FI_ECANCELED : op->type == UCCL_OP_RECV && op->done_len != op->len;

	((struct slot *)op->context)->used = false;
	c->open--;
	ep->colls->due = true;
	if (bad && !ep->closing)
		op_failed(c->g, op);
	uccl_op_put(ep->driver.engine, op);
}

static void notice_done(struct uccl_op *op)
{
	struct group *g = op->api_more;
	struct uccl_ep *ep = op->api;
	uint32_t who = uccl_get32(g->notice);

	g->listening = false;
	ep->colls->due = true;
	/* From nobody but members, and about one of them. */
	if (!ep->closing && !op->err && op->done_len == sizeof(g->notice) && op->from &&
	    member_of(g, op->from) < g->n && who < g->n && who != g->rank)
		members_break(ep, g->hash, FI_ECONNABORTED, who, false);
	uccl_op_put(ep->driver.engine, op);
}

static void notified_done(struct uccl_op *op)
{
	uccl_op_put(((struct uccl_ep *)op->api)->driver.engine, op);
}

/* An operation of a collective; NULL: none can be had now. */
static struct uccl_op *op_get(struct uccl_ep *ep, uint8_t type, uint64_t tag, void *buf, uint64_t len)
{
	struct uccl_op *op = uccl_op_get(ep->driver.engine);

	if (!op)
		return NULL;
	op->type = type;
	op->flags = UCCL_OPF_COLL | (type == UCCL_OP_SEND ? UCCL_OPF_EARLY : 0);
	op->tag = tag;
	op->iov[0] = (struct iovec){ .iov_base = buf, .iov_len = len };
	op->iov_count = 1;
	op->len = len;
	op->api = ep;
	return op;
}

/* 0, or -FI_EAGAIN. That a peer is gone is a failure of the group. */
static int coll_post(struct coll *c, bool send, uint64_t now)
{
	struct group *g = c->g;
	struct uccl_ep *ep = g->ep;
	struct slot *slot = c->slots;
	struct uccl_op *op = op_get(ep, send ? UCCL_OP_SEND : UCCL_OP_RECV, tag_of(g, c->seq, c->s.phase),
				    send ? (void *)(uintptr_t)c->s.send : c->s.recv, c->s.len);
	int rc;

	if (!op)
		return -FI_EAGAIN;
	while (slot->used)
		slot++;
	slot->used = true;
	op->peer = g->members[send ? c->s.to : c->s.from];
	op->flags |= send ? 0 : UCCL_OPF_DIRECTED;
	op->context = slot;
	op->api_more = c;
	op->done = coll_done;
	c->open++;
	rc = send ? uccl_engine_send(ep->driver.engine, op, now) : uccl_engine_recv(ep->driver.engine, op, now);
	if (!rc)
		return 0;
	slot->used = false;
	c->open--;
	if (rc != -FI_EAGAIN) {
		op->err = -rc;
		op_failed(g, op);
	}
	uccl_op_put(ep->driver.engine, op);
	return rc == -FI_EAGAIN ? rc : 0;
}

static void staged_copied(struct uccl_copy *copy, uint64_t now)
{
	struct staged *s = uccl_container_of(copy, struct staged, copy);
	struct group *g = s->c->g;

	(void)now;
	s->c->open--;
	g->ep->colls->due = true;
	/* The others wait for what we cannot give. */
	if (copy->err && !g->ep->closing)
		members_break(g->ep, g->hash, copy->err, g->rank, true);
}

/* Between a device and where it is worked on. */
static void staged_move(struct staged *s, void *host, bool to_device)
{
	struct iovec there = { .iov_base = s->device, .iov_len = s->len };
	struct iovec here = { .iov_base = host, .iov_len = s->len };
	struct uccl_engine *engine = s->c->g->ep->driver.engine;

	if (!s->device || !s->len)
		return;
	s->c->open++;
	if (to_device)
		uccl_engine_copy(engine, &s->copy, there, true, here, false, staged_copied);
	else
		uccl_engine_copy(engine, &s->copy, here, false, there, true, staged_copied);
}

/* The messages of one step. False: not all could be posted now. */
static bool step_post(struct coll *c, uint64_t now)
{
	/* The receive first, so that what comes finds its place. */
	if (c->s.from >= 0 && !c->asked) {
		if (coll_post(c, false, now))
			return false;
		c->asked = true;
	}
	return c->g->err || c->s.to < 0 || !coll_post(c, true, now);
}

static void step_combine(struct coll *c)
{
	uint64_t len;
	uint8_t *total = uccl_coll_total(&c->plan, &len);

	uccl_atomic_apply(c->datatype, c->op, total, c->plan.tmp, NULL, NULL, len / uccl_atomic_size(c->datatype));
	c->combine = false;
}

/* As far as it goes without something else happening. */
static void coll_advance(struct coll *c, uint64_t now)
{
	if (!c->begun) {
		if (c->open || c->g->err)
			return;
		uccl_coll_begin(&c->plan);
		c->begun = true;
	}
	while (!c->g->err && !c->through) {
		if (c->combine && c->open)
			return;
		if (c->combine)
			step_combine(c);
		if (!c->has_step && !uccl_coll_step(&c->plan, c->step, &c->s)) {
			c->through = true;
			break;
		}
		c->has_step = true;
		if ((c->s.wait && c->open && !c->asked) || c->open + 2 > OPEN_MAX)
			return;
		if (!step_post(c, now)) {
			c->g->ep->colls->due = true;
			return;
		}
		c->combine = c->s.combine;
		c->has_step = c->asked = false;
		c->step++;
	}
	if (!c->g->err && c->through && !c->open && !c->stored) {
		c->stored = true;
		uccl_coll_end(&c->plan);
		staged_move(&c->got, c->plan.dst, true);
	}
}

static void failure_text(const struct group *g, char *buf, size_t size)
{
	char who[UCCL_ADDRESS_TEXT] = "a member";

	if (g->lost < g->n && g->members[g->lost])
		uccl_address_text(uccl_peer_addr(g->members[g->lost]), who, sizeof(who));
	snprintf(buf, size, "collective: %s: %s", who, uccl_lib.strerror(g->err));
}

static void group_joined(struct group *g)
{
	struct fi_eq_entry e = { .fid = &g->mc.fid, .context = g->context };
	struct fi_eq_err_entry err = { .fid = &g->mc.fid, .context = g->context, .err = g->err, .prov_errno = g->err };

	if (!g->err && !g->free_numbers)
		err.err = err.prov_errno = FI_ENOSPC;
	if (err.err) {
		uccl_eq_push_error(g->ep->bound.eq, &err);
		return;
	}
	g->number = (uint8_t)__builtin_ctzll(g->free_numbers);
	g->seq = 0;
	g->mc.fi_addr = tag_of(g, 0, 0);
	g->joined = true;
	uccl_eq_push(g->ep->bound.eq, FI_JOIN_COMPLETE, &e, sizeof(e));
}

static void coll_finish(struct coll *c)
{
	struct fi_cq_tagged_entry e = { .op_context = c->context, .flags = FI_COLLECTIVE };
	struct group *g = c->g;
	char text[UCCL_ERR_DATA_MAX];

	TAILQ_REMOVE(&g->colls, c, link);
	g->ncolls--;
	g->ep->colls->scratch -= c->scratch;
	if (!g->joined) {
		group_joined(g);
	} else if (g->err) {
		failure_text(g, text, sizeof(text));
		uccl_cq_push_error(g->ep->bound.tx_cq, g->ep, &e, g->err, 0, text);
	} else if (c->want) {
		uccl_cq_push(g->ep->bound.tx_cq, &e, FI_ADDR_NOTAVAIL);
	}
	free(c);
}

/* Tell the others. False: no more can be sent now. */
static bool group_tell(struct group *g, uint64_t now)
{
	for (; g->nnotified < g->n; g->nnotified++) {
		struct uccl_op *op;
		uint8_t news[4];

		if (g->nnotified == g->rank || g->nnotified == g->lost)
			continue;
		uccl_put32(news, g->lost);
		op = op_get(g->ep, UCCL_OP_SEND, notice_tag(g), news, sizeof(news));
		if (!op)
			return false;
		op->flags |= UCCL_OPF_INJECT;
		op->peer = g->members[g->nnotified];
		op->done = notified_done;
		/* Who is gone, too, need not know. */
		switch (uccl_engine_send(g->ep->driver.engine, op, now)) {
		case 0:
			break;
		case -FI_EAGAIN:
			uccl_op_put(g->ep->driver.engine, op);
			return false;
		default:
			uccl_op_put(g->ep->driver.engine, op);
			break;
		}
	}
	return true;
}

/* Of a broken group nothing is expected any more, and nobody waits for us to take what was sent. */
static void group_clean(struct group *g, uint64_t now)
{
	struct uccl_ep *ep = g->ep;
	struct uccl_op *op;
	struct coll *c;

	TAILQ_FOREACH(c, &g->colls, link)
		for (int i = 0; i < OPEN_MAX; i++)
			if (c->slots[i].used)
				uccl_engine_cancel(ep->driver.engine, &c->slots[i], now);
	if (!group_tell(g, now))
		ep->colls->due = true;
	op = op_get(ep, UCCL_OP_RECV, g->hash, NULL, 0);
	if (!op)
		return;
	op->recv.ignore = (1ull << HASH_SHIFT) - 1;
	while (!uccl_engine_peek(ep->driver.engine, op, false, true, now))
		;
	uccl_op_put(ep->driver.engine, op);
}

static void group_listen(struct group *g, uint64_t now)
{
	struct uccl_op *op;

	if (g->listening || g->err)
		return;
	op = op_get(g->ep, UCCL_OP_RECV, notice_tag(g), g->notice, sizeof(g->notice));
	if (!op)
		return;
	op->context = g;
	op->api_more = g;
	op->done = notice_done;
	g->listening = true;
	uccl_engine_recv(g->ep->driver.engine, op, now);
}

static void group_run(struct group *g, uint64_t now)
{
	struct coll *c, *next;

	group_listen(g, now);
	for (c = TAILQ_FIRST(&g->colls); c; c = next) {
		next = TAILQ_NEXT(c, link);
		coll_advance(c, now);
		if ((c->stored || g->err) && !c->open)
			coll_finish(c);
	}
}

void uccl_coll_run(struct uccl_ep *ep, int n, uint64_t now)
{
	struct uccl_colls *all = ep->colls;
	struct group *g;

	if (n > 0 && all->broken)
		all->due = true;
	for (int i = 0; all->due && i < ROUNDS_MAX; i++) {
		all->due = false;
		TAILQ_FOREACH(g, &all->groups, link) {
			if (g->err)
				group_clean(g, now);
			group_run(g, now);
		}
	}
}

/* The endpoint goes on without its members. */
static void group_let(struct group *g)
{
	for (uint32_t i = 0; g->members && i < g->n; i++)
		if (g->members[i])
			uccl_peer_release(g->members[i]);
}

static void group_free(struct group *g)
{
	TAILQ_REMOVE(&g->ep->colls->groups, g, link);
	free(g->members);
	free(g->addrs);
	free(g);
}

void uccl_coll_fini(struct uccl_ep *ep)
{
	struct group *g;
	struct coll *c;

	if (!ep->colls)
		return;
	while ((g = TAILQ_FIRST(&ep->colls->groups))) {
		while ((c = TAILQ_FIRST(&g->colls))) {
			TAILQ_REMOVE(&g->colls, c, link);
			free(c);
		}
		group_free(g);
	}
	free(ep->colls);
	ep->colls = NULL;
}

static int mc_close(struct fid *fid)
{
	struct group *g = uccl_container_of(fid, struct group, mc.fid);
	struct uccl_ep *ep = g->ep;

	uccl_driver_lock(&ep->driver);
	if (!TAILQ_EMPTY(&g->colls)) {
		uccl_driver_unlock(&ep->driver);
		return -FI_EBUSY;
	}
	uccl_ep_release(ep);
	/* What others still send for a broken one is taken and dropped. */
	g->closed = true;
	if (!g->err) {
		if (g->listening)
			uccl_engine_cancel(ep->driver.engine, g, uccl_clock());
		group_let(g);
		group_free(g);
	}
	uccl_driver_unlock(&ep->driver);
	return 0;
}

static struct fi_ops mc_fid_ops = UCCL_FID_OPS(mc_close, uccl_no_bind, uccl_no_control);

/* A broadcast has one buffer: what the root gives, and what the others get. */
static const void *given_at(const struct uccl_coll_plan *plan)
{
	return plan->kind == UCCL_BROADCAST ? plan->dst : plan->src;
}

/* What of it is on a device. */
static struct staged staged_of(const struct uccl_ep *ep, const void *at, uint64_t len)
{
	if (!len || !uccl_device_has(ep, at))
		return (struct staged){ 0 };
	ep->attr.hmem->sync(at);
	return (struct staged){ .device = (void *)(uintptr_t)at, .len = len };
}

/* Let the plan work on memory of the host, and bring what this member gives there. */
static void coll_stage(struct coll *c, struct staged *given, struct staged *got, uint8_t *memory)
{
	given->c = got->c = c;
	if (given->device && c->plan.kind == UCCL_BROADCAST)
		c->plan.dst = memory;
	else if (given->device)
		c->plan.src = memory;
	if (got->device)
		c->plan.dst = memory + given->len;
	staged_move(given, memory, false);
}

/* A collective of a group; 0, or nothing has happened. The lock is held. */
static int coll_begin(struct group *g, const struct uccl_coll_plan *plan, uint8_t datatype, uint8_t op, bool want,
		      void *context, uint64_t now)
{
	struct staged given = staged_of(g->ep, given_at(plan), uccl_coll_given(plan));
	struct staged got = staged_of(g->ep, plan->dst, uccl_coll_got(plan));
	struct uccl_colls *all = g->ep->colls;
	uint64_t acc = uccl_coll_acc(plan), sum = acc + uccl_coll_tmp(plan), need = sum + given.len + got.len;
	struct coll *c;

	if (g->ncolls >= COLLS_MAX || (need && all->scratch && all->scratch + need > UCCL_COLL_SCRATCH_MAX))
		return -FI_EAGAIN;
	c = calloc(1, sizeof(*c) + need);
	if (!c)
		return -FI_EAGAIN;
	c->g = g;
	c->plan = *plan;
	c->plan.acc = c->memory;
	c->plan.tmp = c->memory + acc;
	c->datatype = datatype;
	c->op = op;
	c->seq = g->seq++;
	c->want = want;
	c->context = context;
	c->scratch = need;
	c->given = given;
	c->got = got;
	all->scratch += need;
	TAILQ_INSERT_TAIL(&g->colls, c, link);
	g->ncolls++;
	coll_stage(c, &c->given, &c->got, c->memory + sum);
	all->due = true;
	uccl_coll_run(g->ep, 0, now);
	uccl_driver_posted(&g->ep->driver, now);
	return 0;
}

/* Look the members up, and ourselves among them; what names them in tags. 0 or an error. */
static int group_members(struct group *g, struct uccl_avset *set)
{
	uint64_t h = 0xcbf29ce484222325ull;
	size_t n;

	g->addrs = uccl_avset_members(set, &n);
	if (!g->addrs)
		return -FI_ENOMEM;
	if (!n || n > UCCL_COLL_MEMBERS)
		return -FI_EINVAL;
	g->n = g->rank = (uint32_t)n;
	g->members = calloc(n, sizeof(*g->members));
	if (!g->members)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < g->n; i++) {
		struct uccl_addr a;

		if (uccl_av_get(g->ep->bound.av, g->addrs[i], &a))
			return -FI_EINVAL;
		for (int k = 0; k < 16; k++)
			h = (h ^ a.nic.ip[k]) * 0x100000001b3ull;
		h = (h ^ a.nic.port) * 0x100000001b3ull;
		h = (h ^ a.incarnation) * 0x100000001b3ull;
		h ^= h >> 29;
		if (g->rank == g->n && uccl_av_like(&a, uccl_engine_addr(g->ep->driver.engine))) {
			g->rank = i;
			continue;
		}
		g->members[i] = uccl_engine_peer(g->ep->driver.engine, &a, true);
		if (!g->members[i])
			return -FI_ENOMEM;
	}
	g->hash = (h ^ h >> 34) << HASH_SHIFT;
	return g->rank < g->n ? 0 : -FI_EINVAL;
}

/* Which numbers have these members left here? One join of the same members at a time. */
static int group_numbers(struct group *g)
{
	struct group *other;

	g->free_numbers = NUMBERS;
	TAILQ_FOREACH(other, &g->ep->colls->groups, link) {
		if (other->hash != g->hash)
			continue;
		if (other->err)
			return -other->err;
		if (!other->joined)
			return -FI_EAGAIN;
		g->free_numbers &= ~(1ull << other->number);
	}
	return 0;
}

static int join_locked(struct uccl_ep *ep, struct uccl_avset *set, struct fid_mc **mc, void *context)
{
	struct uccl_coll_plan plan = { .kind = UCCL_ALLREDUCE, .len = sizeof(uint64_t) };
	struct group *g = calloc(1, sizeof(*g));
	int rc = -FI_ENOMEM;

	if (!ep->colls) {
		ep->colls = calloc(1, sizeof(*ep->colls));
		if (ep->colls)
			TAILQ_INIT(&ep->colls->groups);
	}
	if (!g || !ep->colls)
		goto fail;
	g->ep = ep;
	g->context = context;
	g->number = NUMBER_JOIN;
	TAILQ_INIT(&g->colls);
	rc = group_members(g, set);
	if (!rc)
		rc = group_numbers(g);
	if (rc)
		goto fail;
	g->mc.fid.fclass = FI_CLASS_MC;
	g->mc.fid.context = context;
	g->mc.fid.ops = &mc_fid_ops;
	g->mc.fi_addr = FI_ADDR_NOTAVAIL;
	TAILQ_INSERT_TAIL(&ep->colls->groups, g, link);
	plan.n = g->n;
	plan.rank = g->rank;
	plan.src = plan.dst = (uint8_t *)&g->free_numbers;
	*mc = &g->mc;
	rc = coll_begin(g, &plan, UCCL_UINT64, UCCL_BAND, false, NULL, uccl_clock());
	if (rc) {
		group_let(g);
		group_free(g);
		return rc;
	}
	uccl_ep_hold(ep);
	return 0;
fail:
	if (g) {
		group_let(g);
		free(g->members);
		free(g->addrs);
	}
	free(g);
	return rc;
}

static bool usable(const struct uccl_ep *ep)
{
	return ep && !ep->whole && ep->enabled == (UCCL_TX | UCCL_RX) && ep->driver.forks == uccl_forks &&
	       ep->bound.tx_cq;
}

/* Every handle has the calls; only connectionless endpoints that are no contexts take part. */
static bool takes_part(const struct fid_ep *fid, const struct uccl_ep *ep)
{
	return fid->fid.fclass == FI_CLASS_EP && !ep->cm;
}

int uccl_coll_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
	const struct fi_collective_addr *to = addr;
	struct uccl_ep *ep = uccl_ep_fid_of(&fid->fid)->ep;
	struct uccl_avset *set;
	int rc;

	if (!takes_part(fid, ep) || !(flags & FI_COLLECTIVE))
		return -FI_ENOSYS;
	rc = uccl_flags_check(UCCL_CALL_JOIN, flags);
	if (rc)
		return rc;
	if (!usable(ep))
		return -FI_EOPBADSTATE;
	if (!ep->bound.eq)
		return -FI_ENOEQ;
	if (!to || !to->set || to->coll_addr == FI_ADDR_NOTAVAIL)
		return -FI_EOPNOTSUPP; /* a group that somebody else manages */
	set = uccl_avset_of(&to->set->fid);
	if (set->av != ep->bound.av)
		return -FI_EINVAL;
	uccl_driver_lock(&ep->driver);
	rc = join_locked(ep, set, mc, context);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

/* The arguments of every form together. */
struct call {
	enum fi_collective_op kind;
	const void *buf;
	void *result;
	size_t count;
	fi_addr_t coll, root;
	enum fi_datatype datatype;
	enum fi_op op;
	uint64_t flags;
	void *context;
};

static bool is_reduction(enum fi_collective_op kind)
{
	return kind == FI_ALLREDUCE || kind == FI_REDUCE || kind == FI_REDUCE_SCATTER;
}

static bool is_rooted(enum fi_collective_op kind)
{
	return kind == FI_BROADCAST || kind == FI_REDUCE || kind == FI_SCATTER || kind == FI_GATHER;
}

static bool op_known(enum fi_datatype datatype, enum fi_op op)
{
	return (int)op >= 0 && op <= FI_BXOR && uccl_atomic_valid(UCCL_OP_ATOMIC, datatype, op);
}

static struct group *group_find(struct uccl_ep *ep, fi_addr_t coll)
{
	struct group *g;

	if (!ep->colls)
		return NULL;
	TAILQ_FOREACH(g, &ep->colls->groups, link)
		if (g->joined && !g->closed && g->mc.fi_addr == coll)
			return g;
	return NULL;
}

/* What the arguments mean for this member. 0 or an error. */
static int call_plan(const struct group *g, const struct call *x, struct uccl_coll_plan *plan)
{
	size_t size = x->kind == FI_BARRIER ? 0 : uccl_atomic_size(x->datatype);
	uint32_t root = 0;

	if (x->kind != FI_BARRIER && !size)
		return -FI_EOPNOTSUPP;
	if (is_reduction(x->kind) && !op_known(x->datatype, x->op))
		return -FI_EOPNOTSUPP;
	while (is_rooted(x->kind) && root < g->n && g->addrs[root] != x->root)
		root++;
	if (root == g->n)
		return -FI_EINVAL;
	if (size && x->count > UCCL_COLL_MAX / size / g->n)
		return -FI_EMSGSIZE;
	*plan = (struct uccl_coll_plan){
		.kind = (enum uccl_coll_kind)x->kind,
		.n = g->n,
		.rank = g->rank,
		.root = root,
		.len = x->count * size,
		.src = x->buf,
		.dst = x->result,
	};
	return 0;
}

static ssize_t coll_call(struct fid_ep *fid, const struct call *x)
{
	struct uccl_ep_fid *f = uccl_ep_fid_of(&fid->fid);
	uint64_t flags = x->flags | f->tx_flags, now = uccl_clock();
	struct uccl_ep *ep = f->ep;
	struct uccl_coll_plan plan;
	struct group *g;
	ssize_t rc;

	if (!takes_part(fid, ep))
		return -FI_ENOSYS;
	rc = uccl_flags_check(UCCL_CALL_COLLECTIVE, x->flags);
	if (rc)
		return rc;
	if (!usable(ep))
		return -FI_EOPBADSTATE;
	uccl_driver_lock(&ep->driver);
	g = group_find(ep, x->coll);
	rc = !g ? -FI_EINVAL : g->err ? -g->err : call_plan(g, x, &plan);
	if (!rc && uccl_cq_full(ep->bound.tx_cq))
		rc = -FI_EAGAIN;
	if (!rc)
		rc = coll_begin(g, &plan, (uint8_t)x->datatype, (uint8_t)x->op,
				!ep->bound.tx_selective || flags & FI_COMPLETION, x->context, now);
	if (rc == -FI_EAGAIN)
		uccl_engine_poll(ep->driver.engine, now);
	uccl_driver_unlock(&ep->driver);
	return rc;
}

static ssize_t coll_barrier2(struct fid_ep *ep, fi_addr_t coll, uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_BARRIER, .coll = coll, .flags = flags, .context = context });
}

static ssize_t coll_barrier(struct fid_ep *ep, fi_addr_t coll, void *context)
{
	return coll_barrier2(ep, coll, 0, context);
}

static ssize_t coll_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc, fi_addr_t coll, fi_addr_t root,
			      enum fi_datatype datatype, uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_BROADCAST, .result = buf, .count = count, .coll = coll,
					     .root = root, .datatype = datatype, .flags = flags, .context = context });
}

static ssize_t coll_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			     void *result_desc, fi_addr_t coll, enum fi_datatype datatype, uint64_t flags,
			     void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_ALLTOALL, .buf = buf, .result = result, .count = count,
					     .coll = coll, .datatype = datatype, .flags = flags,
					     .context = context });
}

static ssize_t coll_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			      void *result_desc, fi_addr_t coll, enum fi_datatype datatype, enum fi_op op,
			      uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_ALLREDUCE, .buf = buf, .result = result, .count = count,
					     .coll = coll, .datatype = datatype, .op = op, .flags = flags,
					     .context = context });
}

static ssize_t coll_allgather(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			      void *result_desc, fi_addr_t coll, enum fi_datatype datatype, uint64_t flags,
			      void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_ALLGATHER, .buf = buf, .result = result, .count = count,
					     .coll = coll, .datatype = datatype, .flags = flags,
					     .context = context });
}

static ssize_t coll_reduce_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
				   void *result_desc, fi_addr_t coll, enum fi_datatype datatype, enum fi_op op,
				   uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_REDUCE_SCATTER, .buf = buf, .result = result, .count = count,
					     .coll = coll, .datatype = datatype, .op = op, .flags = flags,
					     .context = context });
}

static ssize_t coll_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			   void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype datatype, enum fi_op op,
			   uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_REDUCE, .buf = buf, .result = result, .count = count,
					     .coll = coll, .root = root, .datatype = datatype, .op = op,
					     .flags = flags, .context = context });
}

static ssize_t coll_scatter(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			    void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype datatype,
			    uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_SCATTER, .buf = buf, .result = result, .count = count,
					     .coll = coll, .root = root, .datatype = datatype, .flags = flags,
					     .context = context });
}

static ssize_t coll_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			   void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype datatype,
			   uint64_t flags, void *context)
{
	return coll_call(ep, &(struct call){ .kind = FI_GATHER, .buf = buf, .result = result, .count = count,
					     .coll = coll, .root = root, .datatype = datatype, .flags = flags,
					     .context = context });
}

/* One buffer on each side; of a broadcast it is the same. */
static ssize_t coll_msg(struct fid_ep *ep, const struct fi_msg_collective *m, struct fi_ioc *result, void **desc,
			size_t nresult, uint64_t flags)
{
	struct call x = { .kind = m->coll, .coll = m->coll_addr, .root = m->root_addr, .datatype = m->datatype,
			  .op = m->op, .flags = flags, .context = m->context };

	if ((unsigned int)m->coll >= UCCL_COLLS || m->iov_count > 1 || nresult > 1)
		return -FI_EINVAL;
	if (m->iov_count) {
		x.buf = m->msg_iov->addr;
		x.count = m->msg_iov->count;
	}
	if (nresult)
		x.result = result->addr;
	/* The count of the result is the size of one part. */
	if (nresult && (m->coll == FI_SCATTER || m->coll == FI_REDUCE_SCATTER))
		x.count = result->count;
	if (m->coll == FI_BROADCAST)
		x.result = (void *)(uintptr_t)x.buf;
	return m->coll == FI_ALLTOALL ? -FI_EOPNOTSUPP : coll_call(ep, &x);
}

struct fi_ops_collective uccl_coll_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = coll_barrier,
	.broadcast = coll_broadcast,
	.alltoall = coll_alltoall,
	.allreduce = coll_allreduce,
	.allgather = coll_allgather,
	.reduce_scatter = coll_reduce_scatter,
	.reduce = coll_reduce,
	.scatter = coll_scatter,
	.gather = coll_gather,
	.msg = coll_msg,
	.barrier2 = coll_barrier2,
};

int uccl_coll_query(struct fid_domain *domain, enum fi_collective_op coll, struct fi_collective_attr *attr,
		    uint64_t flags)
{
	size_t size;

	if (!attr || attr->mode || flags || (unsigned int)coll >= UCCL_COLLS)
		return -FI_EINVAL;
	size = coll == FI_BARRIER ? 0 : uccl_atomic_size(attr->datatype);
	if (coll == FI_BARRIER ? attr->op != FI_NOOP : !size)
		return -FI_EOPNOTSUPP;
	if (is_reduction(coll) ? !op_known(attr->datatype, attr->op) : attr->op != FI_NOOP)
		return -FI_EOPNOTSUPP;
	attr->datatype_attr.count = size ? UCCL_COLL_MAX / size : 0;
	attr->datatype_attr.size = size;
	attr->max_members = UCCL_COLL_MEMBERS;
	return 0;
}

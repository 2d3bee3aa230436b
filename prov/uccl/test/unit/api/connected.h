/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What tests of connections share: one who listens, one who connects, and the endpoint that is made for it. */
#ifndef UCCL_TEST_API_CONNECTED_H
#define UCCL_TEST_API_CONNECTED_H

#include "world.h"

#include "api/endpoint/cm.h"

struct party {
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

struct pair {
	struct world w;
	struct fid_eq *listen_eq;
	struct fid_pep *pep;
	uint8_t name[FI_UCCL_ADDR_LEN]; /* where it listens */
	struct party a, b;		/* who connects; who accepts */
};

/* Room for an event with what came with it. */
struct told {
	uint32_t event;
	ssize_t len; /* of the data */
	union {
		struct fi_eq_cm_entry entry;
		uint8_t room[sizeof(struct fi_eq_cm_entry) + 256];
	};
};

static inline struct fi_info *connected_hints(void)
{
	struct fi_info *h = world_hints();

	h->ep_attr->type = FI_EP_MSG;
	return h;
}

static inline void party_open_with(struct party *p, struct world *w, struct fi_info *info)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_FD };

	assert_int_equal(fi_eq_open(w->fabric, &eq_attr, &p->eq, NULL), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &p->cq, NULL), 0);
	assert_int_equal(fi_endpoint(w->domain, info, &p->ep, p), 0);
	assert_int_equal(fi_ep_bind(p->ep, &p->eq->fid, 0), 0);
	assert_int_equal(fi_ep_bind(p->ep, &p->cq->fid, FI_TRANSMIT | FI_RECV), 0);
}

static inline void party_close(struct party *p)
{
	if (p->ep)
		assert_int_equal(fi_close(&p->ep->fid), 0);
	if (p->cq)
		assert_int_equal(fi_close(&p->cq->fid), 0);
	if (p->eq)
		assert_int_equal(fi_close(&p->eq->fid), 0);
	memset(p, 0, sizeof(*p));
}

static inline struct uccl_ep *party_ep(struct party *p)
{
	return uccl_ep_fid_of(&p->ep->fid)->ep;
}

/* A message of connection management that the library would not send. The rescue thread may use the engine, too. */
static inline void party_say(struct party *p, const struct uccl_addr *to, enum uccl_cm_type type, uint64_t number,
			     const void *data, size_t len)
{
	struct uccl_ep *ep = party_ep(p);

	uccl_driver_lock(&ep->driver);
	assert_int_equal(uccl_cm_send(ep, uccl_engine_peer(ep->driver.engine, to, true), type, number, data, len), 0);
	uccl_driver_unlock(&ep->driver);
}

/* How much `ep` has refused for this reason. */
static inline uint64_t ep_dropped(struct uccl_ep *ep, enum uccl_drop reason)
{
	uint64_t n;

	uccl_driver_lock(&ep->driver);
	n = uccl_engine_stats(ep->driver.engine)->dropped[reason];
	uccl_driver_unlock(&ep->driver);
	return n;
}

/* Somebody listens, somebody can connect; the queue that the listener reports to is open. */
static inline void pair_open(struct pair *p)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_FD };
	size_t len = sizeof(p->name);

	memset(p, 0, sizeof(*p));
	world_open_with(&p->w, connected_hints());
	assert_int_equal(p->w.info->ep_attr->type, FI_EP_MSG);
	assert_int_equal(fi_eq_open(p->w.fabric, &eq_attr, &p->listen_eq, NULL), 0);
	assert_int_equal(fi_passive_ep(p->w.fabric, p->w.info, &p->pep, p), 0);
	assert_int_equal(fi_pep_bind(p->pep, &p->listen_eq->fid, 0), 0);
	assert_int_equal(fi_listen(p->pep), 0);
	assert_int_equal(fi_getname(&p->pep->fid, p->name, &len), 0);
	party_open_with(&p->a, &p->w, p->w.info);
}

static inline void pair_close(struct pair *p)
{
	party_close(&p->a);
	party_close(&p->b);
	if (p->pep)
		assert_int_equal(fi_close(&p->pep->fid), 0);
	assert_int_equal(fi_close(&p->listen_eq->fid), 0);
	world_close(&p->w);
}

WORLD_FIXTURE(pair)

static inline void pair_drive(struct pair *p)
{
	if (p->a.cq)
		(void)fi_cq_read(p->a.cq, NULL, 0);
	if (p->b.cq)
		(void)fi_cq_read(p->b.cq, NULL, 0);
}

/* The next event of this queue; 1, or what fi_eq_read said. */
static inline int pair_event(struct pair *p, struct fid_eq *eq, struct told *t)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fid_eq *all[] = { p->listen_eq, p->a.eq, p->b.eq };

	do {
		for (int i = 0; i < 3; i++)
			if (all[i] && all[i] != eq)
				(void)fi_eq_read(all[i], &t->event, t->room, 0, FI_PEEK);
		pair_drive(p);
		t->len = fi_eq_read(eq, &t->event, t->room, sizeof(t->room), 0);
	} while (t->len == -FI_EAGAIN && uccl_clock() < end);
	if (t->len < 0)
		return (int)t->len;
	t->len -= (ssize_t)sizeof(t->entry);
	return 1;
}

static inline void pair_expect(struct pair *p, struct fid_eq *eq, uint32_t event, struct fid *fid, struct told *t)
{
	assert_int_equal(pair_event(p, eq, t), 1);
	assert_int_equal(t->event, event);
	assert_ptr_equal(t->entry.fid, fid);
}

/* An error: what it is. */
static inline int pair_error(struct pair *p, struct fid_eq *eq, struct fid *fid, struct fi_eq_err_entry *err)
{
	struct told t;

	memset(err, 0, sizeof(*err));
	assert_int_equal(pair_event(p, eq, &t), -FI_EAVAIL);
	assert_int_equal(fi_eq_readerr(eq, err, 0), sizeof(*err));
	assert_ptr_equal(err->fid, fid);
	return err->err;
}

/* a asks, saying so much; the listener's queue tells. */
static inline void pair_ask(struct pair *p, const void *param, size_t len, struct told *t)
{
	assert_int_equal(fi_connect(p->a.ep, p->name, param, len), 0);
	pair_expect(p, p->listen_eq, FI_CONNREQ, &p->pep->fid, t);
	assert_int_equal(t->len, len);
	assert_non_null(t->entry.info);
	assert_int_equal(t->entry.info->ep_attr->type, FI_EP_MSG);
	assert_int_equal(t->entry.info->handle->fclass, FI_CLASS_CONNREQ);
}

/* Likewise without data, and b is made for the request. */
static inline void pair_ask_b(struct pair *p)
{
	struct told t;

	pair_ask(p, NULL, 0, &t);
	party_open_with(&p->b, &p->w, t.entry.info);
	fi_freeinfo(t.entry.info);
}

static inline void pair_connect(struct pair *p)
{
	struct told t;

	pair_ask_b(p);
	assert_int_equal(fi_accept(p->b.ep, NULL, 0), 0);
	pair_expect(p, p->a.eq, FI_CONNECTED, &p->a.ep->fid, &t);
	assert_int_equal(t.len, 0);
	pair_expect(p, p->b.eq, FI_CONNECTED, &p->b.ep->fid, &t);
	assert_int_equal(t.len, 0);
}

/* The next completion of x. */
static inline ssize_t pair_wait(struct pair *p, struct party *x, struct fi_cq_tagged_entry *e)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	ssize_t rc;

	do {
		pair_drive(p);
		rc = fi_cq_read(x->cq, e, 1);
	} while (rc == -FI_EAGAIN && uccl_clock() < end);
	return rc;
}

static inline void pair_done(struct pair *p, struct party *x, void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(pair_wait(p, x, &e), 1);
	assert_ptr_equal(e.op_context, context);
	assert_int_equal(e.flags, flags);
}

static inline void pair_failed(struct pair *p, struct party *x, void *context, int err)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry ce = { 0 };

	assert_int_equal(pair_wait(p, x, &e), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(x->cq, &ce, 0), 1);
	assert_ptr_equal(ce.op_context, context);
	assert_int_equal(ce.err, err);
}

#endif

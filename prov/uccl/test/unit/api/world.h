/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the tests of api share: a provider as libfabric would load it, a domain on loopback, endpoints with queues. */
#ifndef UCCL_TEST_API_WORLD_H
#define UCCL_TEST_API_WORLD_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uccl.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/endpoint/ep.h"
#include "api/lib/lib.h"
#include "api/lib/oldnames.h"
#include "api/prov.h"
#include "progress/wait.h"
#include "../tests.h"

#define API FI_VERSION(1, 17)

/* Nobody but the program drives endpoints of domains that are opened between these two. */
static inline void world_rescue_off(void)
{
	setenv("FI_UCCL_PROGRESS_TIMEOUT", "0", 1);
}

static inline void world_rescue_on(void)
{
	unsetenv("FI_UCCL_PROGRESS_TIMEOUT");
}

/* No test waits longer than this for something that must happen. */
#define PATIENCE_NS (20 * UCCL_NS_PER_S)

/* Hints for an endpoint on loopback; the caller frees them. */
static inline struct fi_info *world_hints(void)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->name = strdup("lo");
	return h;
}

/* What the provider logs between the two, up to this level. */
static struct {
	struct uccl_lib lib;
	enum fi_log_level level;
	char text[1024];
} world_ear;

static inline int world_hears(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys)
{
	return level <= world_ear.level;
}

static inline void world_note(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
			      const char *func, int line, const char *fmt, ...)
{
	size_t n = strlen(world_ear.text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(world_ear.text + n, sizeof(world_ear.text) - n, fmt, ap);
	va_end(ap);
}

static inline void world_listen(enum fi_log_level level)
{
	world_ear.lib = uccl_lib;
	world_ear.level = level;
	world_ear.text[0] = '\0';
	uccl_lib.log_enabled = world_hears;
	uccl_lib.log = world_note;
}

static inline const char *world_heard(void)
{
	uccl_lib = world_ear.lib;
	return world_ear.text;
}

struct world {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

/* hints NULL: world_hints(); otherwise they are freed here. */
static inline void world_open_with(struct world *w, struct fi_info *hints)
{
	struct fi_provider *prov = fi_prov_ini();

	memset(w, 0, sizeof(*w));
	if (!hints)
		hints = world_hints();
	assert_int_equal(prov->getinfo(API, NULL, NULL, 0, hints, &w->info), 0);
	fi_freeinfo(hints);
	w->info->fabric_attr->api_version = API;
	assert_int_equal(prov->fabric(w->info->fabric_attr, &w->fabric, NULL), 0);
	w->fabric->api_version = API; /* the library does this after the provider's part */
	assert_int_equal(fi_domain(w->fabric, w->info, &w->domain, NULL), 0);
}

static inline void world_open(struct world *w)
{
	world_open_with(w, NULL);
}

/* Close these objects, in this order. */
#define world_closes(...) world_close_list((struct fid *[]){ __VA_ARGS__, NULL })

static inline void world_close_list(struct fid **fid)
{
	for (int i = 0, rc; fid[i]; i++) {
		rc = fi_close(fid[i]);
		if (rc)
			fail_msg("object %d of the list is not closed: %d", i, rc);
	}
}

/*
 * A MiB is sent, from a buffer for the test to free after the endpoint: did the call leave to others what has come
 * meanwhile? PROTOCOL R245
 */
static inline bool world_leaves_looks(struct fid_ep *ep, fi_addr_t to, char **buf)
{
	const size_t n = 1u << 20;

	*buf = calloc(1, n);
	assert_non_null(*buf);
	assert_int_equal(fi_send(ep, *buf, n, NULL, to, *buf), 0);
	return uccl_engine_unread(uccl_ep_fid_of(&ep->fid)->ep->driver.engine);
}

static inline void world_close(struct world *w)
{
	assert_int_equal(fi_close(&w->domain->fid), 0);
	assert_int_equal(fi_close(&w->fabric->fid), 0);
	fi_freeinfo(w->info);
}

/* A test with `variable`, an open struct T, which is closed behind it: T has WORLD_FIXTURE, T_open() and T_close(). */
#define WORLD_TEST(name, T, variable) TEST_WITH(name, struct T *variable, T##_new(), T##_teardown)
#define WORLD_FIXTURE(T)                                                                                               \
	static inline struct T *T##_new(void)                                                                          \
	{                                                                                                              \
		struct T *t = calloc(1, sizeof(*t));                                                                   \
		assert_non_null(t);                                                                                    \
		T##_open(t);                                                                                           \
		return t;                                                                                              \
	}                                                                                                              \
	static inline int T##_teardown(void **state)                                                                   \
	{                                                                                                              \
		T##_close(*state);                                                                                     \
		free(*state);                                                                                          \
		return 0;                                                                                              \
	}

WORLD_FIXTURE(world)

struct node {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	uint8_t name[FI_UCCL_ADDR_LEN];
};

static inline void node_open_flags(struct node *n, struct world *w, enum fi_wait_obj wait, uint64_t bind_flags)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	size_t len = sizeof(n->name);

	assert_int_equal(fi_endpoint(w->domain, w->info, &n->ep, NULL), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq_attr, &n->cq, NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av_attr, &n->av, NULL), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV | bind_flags), 0);
	assert_int_equal(fi_enable(n->ep), 0);
	assert_int_equal(fi_getname(&n->ep->fid, n->name, &len), 0);
	assert_int_equal(len, FI_UCCL_ADDR_LEN);
}

static inline void node_open(struct node *n, struct world *w)
{
	node_open_flags(n, w, FI_WAIT_FD, 0);
}

static inline void node_close(struct node *n)
{
	assert_int_equal(fi_close(&n->ep->fid), 0);
	assert_int_equal(fi_close(&n->cq->fid), 0);
	assert_int_equal(fi_close(&n->av->fid), 0);
}

static inline fi_addr_t node_insert(struct node *n, const struct node *peer)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	assert_int_equal(fi_av_insert(n->av, peer->name, 1, &addr, 0, NULL), 1);
	assert_int_not_equal(addr, FI_ADDR_NOTAVAIL);
	return addr;
}

/* Open two endpoints of which `a` knows `b`: returns by which address. */
static inline fi_addr_t node_pair(struct node *a, struct node *b, struct world *w)
{
	node_open(a, w);
	node_open(b, w);
	return node_insert(a, b);
}

/* Read `n`'s queue, and drive `other` (may be NULL), until one entry is there. Returns what fi_cq_readfrom did. */
static inline ssize_t node_wait(struct node *n, struct node *other, struct fi_cq_tagged_entry *e, fi_addr_t *src)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	ssize_t rc;

	do {
		if (other)
			(void)fi_cq_read(other->cq, NULL, 0);
		rc = fi_cq_readfrom(n->cq, e, 1, src);
	} while (rc == -FI_EAGAIN && uccl_clock() < end);
	return rc;
}

/* The next completion of `n` is this one. */
static inline void node_expect(struct node *n, struct node *other, void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(node_wait(n, other, &e, NULL), 1);
	assert_ptr_equal(e.op_context, context);
	assert_int_equal(e.flags, flags);
}

/* Post, as soon as there is room for it. */
#define world_post(call, a, b)                                                                                         \
	do {                                                                                                           \
		ssize_t rc_;                                                                                           \
		while ((rc_ = (call)) == -FI_EAGAIN) {                                                                 \
			(void)fi_cq_read((a)->cq, NULL, 0);                                                            \
			(void)fi_cq_read((b)->cq, NULL, 0);                                                            \
		}                                                                                                      \
		assert_int_equal(rc_, 0);                                                                              \
	} while (0)

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_sq.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "nic/verbs/mrcache.h"

/* Memory. */

/* Constants of the kernel; its header may be older than the kernel. */
#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1	/* the first of the nodes */
#define POLICY_PREFERRED_MANY 5 /* since Linux 5.15: any of them */

/*
 * Pages of these nodes, or of others if these are full. They are taken when they are registered. What cannot be had is
 * no error: the memory is as good, only farther. Nodes that the user chose for the process (numactl) stay.
 */
static void slab_near(void *base, size_t len, uint64_t nodes)
{
	int policy;

	if (!nodes || syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul) || policy != POLICY_DEFAULT)
		return;
	/* The kernel takes one bit less than this number. */
	if (syscall(SYS_mbind, base, len, POLICY_PREFERRED_MANY, &nodes, 65ul, 0u))
		syscall(SYS_mbind, base, len, POLICY_PREFERRED, &nodes, 65ul, 0u);
}

/* Allocate and register all, or nothing. Children do not get the memory: shared pages would be copied on a write. */
static int slab_try(const struct uccl_verbs *lib, struct ibv_pd *pd, struct uccl_verbs_slab *s,
		    const struct uccl_verbs_slab_attr *attr)
{
	void *base;

	s->len = (size_t)s->stride * s->count;
	base = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return -FI_ENOMEM;
	madvise(base, s->len, MADV_DONTFORK);
	slab_near(base, s->len, attr->nodes);
	s->mr = lib->reg_mr(pd, base, s->len, attr->access);
	if (!s->mr) {
		munmap(base, s->len);
		return -FI_ENOMEM;
	}
	s->base = base;
	return 0;
}

static int slab_stack(struct uccl_verbs_slab *s)
{
	uint32_t i;

	s->unused = calloc(s->count, sizeof(*s->unused));
	if (!s->unused)
		return -FI_ENOMEM;
	for (i = 0; i < s->count; i++)
		s->unused[s->nunused++] = i;
	return 0;
}

int uccl_verbs_slab_open(const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name, struct uccl_verbs_slab *s,
			 const struct uccl_verbs_slab_attr *attr)
{
	s->stride = attr->stride;
	s->freed = attr->freed;
	for (s->count = attr->count; s->count >= attr->least; s->count /= 2)
		if (!slab_try(lib, pd, s, attr))
			return attr->sends ? slab_stack(s) : 0;
	UCCL_LOG(UCCL_LOG_WARN, "%s: cannot register memory: %s; is the limit of locked memory (ulimit -l) too low?",
		 name, strerror(errno));
	return -FI_ENOMEM;
}

void uccl_verbs_slab_close(const struct uccl_verbs *lib, struct uccl_verbs_slab *s)
{
	if (s->mr)
		lib->dereg_mr(s->mr);
	if (s->base)
		munmap(s->base, s->len);
	free(s->unused);
}

/* Send queues. */

int uccl_verbs_sq_create(const struct uccl_verbs *lib, struct ibv_pd *pd, struct uccl_verbs_sq *q,
			 struct ibv_qp_init_attr *init, uint16_t generation)
{
	if (!q->sent)
		q->sent = calloc(UCCL_VERBS_SQ_DEPTH, sizeof(*q->sent));
	if (!q->sent)
		return -FI_ENOMEM;
	q->generation = generation;
	q->qp = lib->create_qp(pd, init);
	return q->qp ? 0 : uccl_verbs_error();
}

void uccl_verbs_sq_destroy(const struct uccl_verbs *lib, struct uccl_verbs_sq *q)
{
	lib->destroy_qp(q->qp);
	q->qp = NULL;
}

void uccl_verbs_sq_fini(struct uccl_verbs_sq *q)
{
	free(q->sent);
	q->sent = NULL;
}

static void slab_count(struct uccl_verbs_slab *s, uint64_t bytes)
{
	atomic_store_explicit(&s->bytes, uccl_verbs_slab_backlog(s) + bytes, memory_order_relaxed);
}

static void sent_free(struct uccl_verbs_slab *s, const struct uccl_verbs_sent *sent)
{
	slab_count(s, 0 - (uint64_t)sent->signaled);
	s->unused[s->nunused++] = sent->buffer;
	if (sent->ah)
		uccl_verbs_ah_put(sent->ah);
	if (sent->source)
		uccl_mrcache_put(sent->source);
	if (s->freed)
		s->freed(sent);
}

static void sent_retire(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, uint32_t upto)
{
	for (; q->tail != upto; q->tail++)
		sent_free(s, &q->sent[q->tail % UCCL_VERBS_SQ_DEPTH]);
}

/* The request before head gets a completion, which covers all before it, too. */
static void sq_cover(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s)
{
	q->sent[(q->head - 1) % UCCL_VERBS_SQ_DEPTH].signaled = q->unsignaled_bytes;
	slab_count(s, q->unsignaled_bytes);
	q->signaled = q->head;
	q->unsignalled = 0;
	q->unsignaled_bytes = 0;
}

bool uccl_verbs_sq_add(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, struct ibv_send_wr *wr,
		       struct uccl_verbs_sent sent, bool signal)
{
	bool fresh = !q->last;

	wr->next = NULL;
	wr->send_flags = signal ? IBV_SEND_SIGNALED : 0;
	sent.signaled = 0;
	q->sent[q->head++ % UCCL_VERBS_SQ_DEPTH] = sent;
	q->unsignalled++;
	for (int i = 0; i < wr->num_sge; i++)
		q->unsignaled_bytes += wr->sg_list[i].length;
	if (signal)
		sq_cover(q, s);
	if (fresh)
		q->first = wr;
	else
		q->last->next = wr;
	q->last = wr;
	return fresh;
}

void uccl_verbs_sq_signal(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s)
{
	q->last->send_flags |= IBV_SEND_SIGNALED;
	sq_cover(q, s);
}

int uccl_verbs_sq_post(const struct uccl_verbs *lib, struct uccl_verbs_sq *q, struct uccl_verbs_slab *s,
		       uint64_t *lost)
{
	struct ibv_send_wr *bad = q->first;
	int err = lib->post_send(q->qp, q->first, &bad);

	q->first = q->last = NULL;
	if (!err)
		return 0;
	for (; bad; bad = bad->next) {
		sent_free(s, &q->sent[--q->head % UCCL_VERBS_SQ_DEPTH]);
		++*lost;
	}
	/* The completion that covers earlier requests may be among them: the next request gets one. */
	q->unsignalled = UCCL_VERBS_SQ_DEPTH;
	q->unsignaled_bytes = 0;
	if ((int32_t)(q->signaled - q->head) > 0)
		q->signaled = q->tail;
	return err;
}

bool uccl_verbs_sq_reads(const struct uccl_verbs_sq *q, const struct uccl_mrcache_entry *source)
{
	for (uint32_t i = q->tail; i != q->head; i++)
		if (q->sent[i % UCCL_VERBS_SQ_DEPTH].source == source)
			return true;
	return false;
}

bool uccl_verbs_sq_known(const struct uccl_verbs_sq *q, const struct ibv_wc *wc)
{
	return q->qp && q->generation == wc->wr_id >> 48;
}

void uccl_verbs_sq_done(struct uccl_verbs_sq *q, struct uccl_verbs_slab *s, const struct ibv_wc *wc)
{
	uint32_t upto = (uint32_t)wc->wr_id + 1;

	if (upto - q->tail <= q->head - q->tail)
		sent_retire(q, s, upto);
}

const struct uccl_verbs_sent *uccl_verbs_sq_sent(const struct uccl_verbs_sq *q, const struct ibv_wc *wc)
{
	uint32_t at = (uint32_t)wc->wr_id;

	return at - q->tail < q->head - q->tail ? &q->sent[at % UCCL_VERBS_SQ_DEPTH] : NULL;
}

void uccl_verbs_sq_end(const struct uccl_verbs *lib, struct uccl_verbs_sq *q, struct uccl_verbs_slab *s)
{
	if (!q->qp)
		return;
	uccl_verbs_sq_destroy(lib, q);
	q->generation++;
	sent_retire(q, s, q->head);
	q->signaled = q->head;
	q->unsignalled = 0;
	q->unsignaled_bytes = 0;
}

#endif

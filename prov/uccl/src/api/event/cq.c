/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See cq.h. A failed operation is an entry of the ring in its turn: reading stops in front of it. */
#include "api/event/cq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/event/waitset.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"
#include "api/offer/attr.h"

#define RING_MIN 256
/* A larger buffer for err_data than this is taken for a field that was never set. */
#define ERR_DATA_SANE 65536

struct uccl_cq_error {
	const struct uccl_ep *ep;	/* whose operation it was; compared, never followed: it may be closed */
	int err;
	size_t olen;
	size_t addr_len;	/* not 0: the text is an address */
	char text[UCCL_ERR_DATA_MAX];
};

/* Where fi_cq_err_entry has its fi_addr_t src_addr since 1.20, whichever headers this is built with. */
#define ERR_SRC_ADDR_AT (offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t))

static inline void cq_lock(struct uccl_cq *cq)
{
	if (cq->locking)
		uccl_lock_take(&cq->lock);
}

static inline void cq_unlock(struct uccl_cq *cq)
{
	if (cq->locking)
		uccl_lock_give(&cq->lock);
}

static inline uint32_t get(_Atomic uint32_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static inline void set(_Atomic uint32_t *v, uint32_t to)
{
	atomic_store_explicit(v, to, memory_order_relaxed);
}

static bool ring_grow(struct uccl_cq *cq)
{
	uint32_t n = get(&cq->tail) - get(&cq->head);
	struct uccl_cq_entry *ring;

	if (cq->cap > UINT32_MAX / 4)
		return false;
	ring = malloc(cq->cap * 2 * sizeof(*ring));
	if (!ring)
		return false;
	for (uint32_t i = 0; i < n; i++)
		ring[i] = cq->ring[(get(&cq->head) + i) & (cq->cap - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->cap *= 2;
	set(&cq->head, 0);
	set(&cq->tail, n);
	return true;
}

/* The place for one more; NULL: no memory, and a read reports that. The lock is held. */
static inline struct uccl_cq_entry *ring_next(struct uccl_cq *cq)
{
	struct uccl_cq_entry *slot;

	if (get(&cq->tail) - get(&cq->head) == cq->cap && !ring_grow(cq)) {
		cq->overrun = true;
		return NULL;
	}
	slot = &cq->ring[get(&cq->tail) & (cq->cap - 1)];
	set(&cq->tail, get(&cq->tail) + 1);
	return slot;
}

void uccl_cq_push(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, fi_addr_t src)
{
	struct uccl_cq_entry *slot;

	cq_lock(cq);
	slot = ring_next(cq);
	if (slot) {
		slot->e = *e;
		slot->src = src;
		slot->error = NULL;
	}
	cq_unlock(cq);
	uccl_wait_signal(&cq->wait.w);
}

static void push_failure(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, struct uccl_cq_error *error)
{
	struct uccl_cq_entry *slot;

	cq_lock(cq);
	slot = error ? ring_next(cq) : NULL;
	if (slot) {
		slot->e = *e;
		slot->src = FI_ADDR_NOTAVAIL;
		slot->error = error;
		cq->failures++;
	} else {
		cq->overrun = true;
		free(error);
	}
	cq_unlock(cq);
	uccl_wait_signal(&cq->wait.w);
}

void uccl_cq_push_error(struct uccl_cq *cq, const struct uccl_ep *ep, const struct fi_cq_tagged_entry *e, int err,
			size_t olen, const char *text)
{
	struct uccl_cq_error *error = calloc(1, sizeof(*error));

	if (error) {
		error->ep = ep;
		error->err = err;
		error->olen = olen;
		snprintf(error->text, sizeof(error->text), "%s", text);
	}
	push_failure(cq, e, error);
}

void uccl_cq_push_unknown_source(struct uccl_cq *cq, const struct fi_cq_tagged_entry *e, const void *addr, size_t len)
{
	struct uccl_cq_error *error = calloc(1, sizeof(*error));

	if (error) {
		error->err = FI_EADDRNOTAVAIL;
		error->addr_len = uccl_min(len, sizeof(error->text));
		memcpy(error->text, addr, error->addr_len);
	}
	push_failure(cq, e, error);
}

/* Did this operation of the endpoint end with nothing done, and can the program not know of it yet? */
static bool may_cancel(const struct uccl_cq_error *error, const struct uccl_ep *ep)
{
	return error && error->ep == ep && error->err != FI_ECANCELED && error->err != FI_ETRUNC;
}

int uccl_cq_cancel(struct uccl_cq *cq, const struct uccl_ep *ep, const void *context)
{
	uint32_t n, first;
	int rc = -FI_ENOENT;

	cq_lock(cq);
	n = cq->failures ? get(&cq->tail) - get(&cq->head) : 0;
	first = cq->cancel_next - get(&cq->head);
	first = first < n ? first : 0;
	for (uint32_t i = 0; i < n && rc; i++) {
		uint32_t at = get(&cq->head) + (first + i) % n;
		struct uccl_cq_entry *slot = &cq->ring[at & (cq->cap - 1)];

		if (slot->e.op_context != context || !may_cancel(slot->error, ep))
			continue;
		slot->error->err = FI_ECANCELED;
		slot->error->olen = 0;
		cq->cancel_next = at + 1;
		rc = 0;
	}
	cq_unlock(cq);
	return rc;
}

static size_t entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	default:
		return sizeof(struct fi_cq_entry);
	}
}

/* Each format is the beginning of the next larger one. */
static ssize_t ring_take(struct uccl_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	size_t size = cq->entry_size, n = 0;
	ssize_t rc = -FI_EAGAIN;

	cq_lock(cq);
	for (; n < count && get(&cq->head) != get(&cq->tail); n++) {
		struct uccl_cq_entry *slot = &cq->ring[get(&cq->head) & (cq->cap - 1)];

		if (slot->error) {
			rc = -FI_EAVAIL;
			break;
		}
		memcpy((char *)buf + n * size, &slot->e, size);
		if (src)
			src[n] = slot->src;
		set(&cq->head, get(&cq->head) + 1);
	}
	if (!n && rc == -FI_EAGAIN && cq->overrun)
		rc = -FI_EOVERRUN;
	cq_unlock(cq);
	return n ? (ssize_t)n : rc;
}

/*
 * Nothing for a reader, as far as it knows: what others push meanwhile it finds the next time. Who is about to sleep
 * calls ring_take(), whose lock orders that call and their check for sleepers.
 */
static inline bool ring_bare(struct uccl_cq *cq)
{
	return get(&cq->head) == get(&cq->tail) && !atomic_load_explicit(&cq->overrun, memory_order_relaxed);
}

static ssize_t ring_read(struct uccl_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	return ring_bare(cq) ? -FI_EAGAIN : ring_take(cq, buf, count, src);
}

static bool ring_empty(struct uccl_cq *cq)
{
	bool empty;

	cq_lock(cq);
	empty = get(&cq->head) == get(&cq->tail) && !cq->overrun;
	cq_unlock(cq);
	return empty;
}

/*
 * Many programs read until there is nothing more. If a read gave something just now, the next one would look at the
 * network in vain, so it does not look. Called when there is nothing to read; true only once after such a read.
 */
static bool gave_just_now(struct uccl_cq *cq)
{
	if (!atomic_load_explicit(&cq->gave, memory_order_relaxed))
		return false;
	atomic_store_explicit(&cq->gave, false, memory_order_relaxed);
	return uccl_drivers_fresh(&cq->drivers);
}

/* A read that finds entries does not run the engines, so a round trip costs one round of them. */
static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct uccl_cq *cq = uccl_cq_of(&fid->fid);
	ssize_t n;

	uccl_wait_awake(&cq->wait.w);
	if (!count) {
		uccl_drivers_poll(&cq->drivers);
		uccl_drivers_attend(&cq->domain->drivers, &cq->drivers);
		return ring_empty(cq) ? -FI_EAGAIN : 0;
	}
	for (bool polled = false;; polled = true) {
		n = ring_read(cq, buf, count, src);
		if (n != -FI_EAGAIN || polled)
			break;
		if (gave_just_now(cq))
			return n;
		uccl_drivers_poll(&cq->drivers);
	}
	if (n > 0)
		atomic_store_explicit(&cq->gave, true, memory_order_relaxed);
	if (n == -FI_EAGAIN)
		uccl_drivers_attend(&cq->domain->drivers, &cq->drivers);
	return n;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/*
 * Errors that belong to the normal course of a program come without err_data: many a program reads them into a struct
 * that it did not clear, and a copy would then go anywhere. fi_cq_strerror has the text all the same.
 */
static bool expected(int err)
{
	return err == FI_ENOMSG || err == FI_ECANCELED || err == FI_ETRUNC;
}

/*
 * Before 1.5 there is no err_data_size; since then a program may give a buffer of its own for a copy. What is no
 * address ends with a zero, also if it was cut.
 */
static void give_data(struct uccl_cq *cq, struct uccl_cq_error *error, struct fi_cq_err_entry *out)
{
	bool sized = uccl_fabric_api(cq->domain->fabric, 1, 5);
	size_t len = error->addr_len ? error->addr_len : strlen(error->text) + 1;

	if (expected(error->err)) {
		out->err_data = NULL;
		if (sized)
			out->err_data_size = 0;
	} else if (sized && out->err_data && out->err_data_size && out->err_data_size <= ERR_DATA_SANE) {
		out->err_data_size = uccl_min(len, out->err_data_size);
		memcpy(out->err_data, error->text, out->err_data_size);
		if (!error->addr_len)
			((char *)out->err_data)[out->err_data_size - 1] = '\0';
	} else {
		out->err_data = error->text;
		if (sized)
			out->err_data_size = len;
	}
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
	struct uccl_cq *cq = uccl_cq_of(&fid->fid);
	struct uccl_cq_entry *slot;
	struct uccl_cq_error *error;
	fi_addr_t nobody = FI_ADDR_NOTAVAIL;

	(void)flags;
	cq_lock(cq);
	slot = &cq->ring[get(&cq->head) & (cq->cap - 1)];
	if (get(&cq->head) == get(&cq->tail) || !slot->error) {
		cq_unlock(cq);
		return -FI_EAGAIN;
	}
	error = slot->error;
	out->op_context = slot->e.op_context;
	out->flags = slot->e.flags;
	out->len = slot->e.len;
	out->buf = slot->e.buf;
	out->data = slot->e.data;
	out->tag = slot->e.tag;
	out->olen = error->olen;
	out->err = error->err;
	out->prov_errno = error->err;
	give_data(cq, error, out);
	if (uccl_fabric_api(cq->domain->fabric, 1, 20))
		memcpy((char *)out + ERR_SRC_ADDR_AT, &nobody, sizeof(nobody));
	set(&cq->head, get(&cq->head) + 1);
	cq->failures--;
	free(cq->last);
	cq->last = error;
	cq_unlock(cq);
	return 1;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src, const void *cond, int timeout)
{
	struct uccl_cq *cq = uccl_cq_of(&fid->fid);
	struct uccl_sleep sleep;
	ssize_t n;

	(void)cond; /* a threshold is a wish: returning earlier is allowed */
	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	/* A program that may sleep now polls the network first. */
	atomic_store_explicit(&cq->gave, false, memory_order_relaxed);
	n = cq_readfrom(fid, buf, count, src);
	if (n != -FI_EAGAIN)
		return n;
	uccl_sleep_begin(&sleep, &cq->wait.w, &cq->drivers, &cq->domain->drivers, timeout);
	do {
		/*
		 * With the lock: he who brings something sees that we are about to sleep, or we see it. What others
		 * brought before that was not signalled; what arrived ends the sleep at once.
		 */
		n = count ? ring_take(cq, buf, count, src) : ring_empty(cq) ? -FI_EAGAIN : 0;
		if (n != -FI_EAGAIN || atomic_exchange(&cq->signalled, false) || !uccl_sleep(&sleep))
			break;
		n = cq_readfrom(fid, buf, count, src);
	} while (n == -FI_EAGAIN);
	uccl_sleep_end(&sleep);
	return n;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct uccl_cq *cq = uccl_cq_of(&fid->fid);

	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	atomic_store(&cq->signalled, true);
	uccl_wait_force(&cq->wait.w);
	return 0;
}

/*
 * err_data is not read: older programs pass on what they never set. The latest error is remembered instead; another
 * thread may let go of it when it reads the next one, so a copy is what the caller gets.
 */
static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	struct uccl_cq *cq = uccl_cq_of(&fid->fid);
	int err = prov_errno < 0 ? -prov_errno : prov_errno;
	const char *text = uccl_lib.strerror(err);

	(void)err_data;
	cq_lock(cq);
	if (cq->last && err == cq->last->err && !cq->last->addr_len)
		text = cq->last->text;
	if (buf && len) {
		snprintf(buf, len, "%s", text);
		text = buf;
	}
	cq_unlock(cq);
	return text;
}

bool uccl_cq_ready(struct uccl_cq *cq)
{
	if (!ring_empty(cq))
		return true;
	uccl_drivers_poll(&cq->drivers);
	return !ring_empty(cq);
}

int uccl_cq_trywait(struct uccl_cq *cq)
{
	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	uccl_wait_enter_outside(&cq->wait.w);
	if (uccl_cq_ready(cq)) {
		uccl_wait_leave_outside(&cq->wait.w);
		return -FI_EAGAIN;
	}
	uccl_wait_until_outside(&cq->wait.w,
				uccl_min(uccl_drivers_expiry(&cq->drivers), uccl_drivers_expiry(&cq->domain->drivers)));
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return uccl_waitobj_control(&uccl_cq_of(fid)->wait, command, arg);
}

static int cq_close(struct fid *fid)
{
	struct uccl_cq *cq = uccl_cq_of(fid);

	if (atomic_load(&cq->refs))
		return -FI_EBUSY;
	for (uint32_t i = get(&cq->head); i != get(&cq->tail); i++)
		free(cq->ring[i & (cq->cap - 1)].error);
	atomic_fetch_sub(&cq->domain->refs, 1);
	uccl_drivers_fini(&cq->drivers);
	uccl_waitset_remove(&cq->wait);
	free(cq->last);
	free(cq->ring);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = UCCL_FID_OPS(cq_close, uccl_no_bind, cq_control);

static struct uccl_ops_cq cq_ops = {
	.known = {
		.size = sizeof(struct uccl_ops_cq),
		.read = cq_read,
		.readfrom = cq_readfrom,
		.readerr = cq_readerr,
		.sread = cq_sread,
		.sreadfrom = cq_sreadfrom,
		.signal = cq_signal,
		.strerror = cq_strerror,
	},
	UCCL_XPU_ENTRY(export_xpu, uccl_no_xpu_cq),
};

static int attr_check(const struct fi_cq_attr *attr)
{
	if (attr->format > FI_CQ_FORMAT_TAGGED || attr->flags & ~FI_AFFINITY)
		return -FI_EINVAL;
	return attr->wait_cond > FI_CQ_COND_THRESHOLD ? -FI_EINVAL : 0;
}

int uccl_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	static const struct fi_cq_attr plain;
	const struct fi_cq_attr *a = attr ? attr : &plain;
	struct uccl_cq *cq;
	int rc = attr_check(a);

	if (rc)
		return rc;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->cap = RING_MIN;
	cq->ring = malloc(cq->cap * sizeof(*cq->ring));
	rc = cq->ring ? uccl_waitset_add(&cq->wait, a->wait_obj, a->wait_set, &cq->fid.fid) : -FI_ENOMEM;
	if (rc) {
		free(cq->ring);
		free(cq);
		return rc;
	}
	cq->domain = uccl_domain_of(&domain->fid);
	cq->locking = cq->domain->locking;
	cq->format = a->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : a->format;
	cq->entry_size = entry_size(cq->format);
	cq->limit = uccl_clamp(a->size ? a->size : UCCL_CQ_DEFAULT, UCCL_CQ_MIN, UINT32_MAX / 4);
	uccl_drivers_init(&cq->drivers, cq->locking);
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops.known;
	atomic_fetch_add(&cq->domain->refs, 1);
	*out = &cq->fid;
	return 0;
}

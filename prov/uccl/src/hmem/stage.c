/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See stage.h. A job is what was asked for; it becomes pieces, each of which has its bytes in the ring and is one copy
 * of the device. Pieces are begun together and marked together, so a round of the engine costs one event. Neighbouring
 * small payloads become one piece; short pieces that belong to many places are one launch of a program of the device.
 * So are moves from memory that NICs fill (device_rx), which overlaps with no other.
 */
#include "hmem/stage.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* Pieces, and marks, that are under way at most. */
#define PIECES 1024u
#define MARKS 64u
/* A caller that waits for a copy polls so many times before it sleeps: a short copy is done before it would wake. */
#define POLLS 16
/* Where a piece begins that is not the continuation of the one before. */
#define ALIGN 64u
/* Devices move so many bytes at once, from a multiple of it on: bytes in the ring lie as those of the device. */
#define WORD 16u
/* So many consecutive pieces, of at most so many bytes, are one launch: then it pays (docs/results/bench.md). */
#define RUNS_LEAST 4u
#define RUN_MOST (32u << 10)

enum kind { PUT, GET, MOVE };

struct job {
	TAILQ_ENTRY(job) link;
	uint64_t ticket, len, at;	/* bytes in all, and those that have become pieces */
	uint8_t *dst;
	const uint8_t *src;
	int *err;
	enum kind kind;
	uint8_t own[];			/* src, if it had to be taken */
};

struct piece {
	uint64_t ticket;		/* of the last job that is done with this piece, and all before it */
	uint64_t end;			/* of its bytes in the ring */
	uint64_t len;
	uint8_t *at;			/* its bytes in the ring */
	uint8_t *dst;			/* PUT, MOVE: on the device */
	const uint8_t *src;		/* GET, MOVE: on the device */
	int *err;
	uint8_t kind;
	bool gathers;			/* MOVE: from the slab, on the same device */
	int device;
};

/* Pieces up to `last`, on one device. */
struct mark {
	struct uccl_hmem_mark *mark;	/* NULL: it could not be made, so nothing tells when they are done */
	uint64_t last;
	int device;
};

struct uccl_stage {
	const struct uccl_hmem_ops *hmem;
	struct uccl_dmabufs *given;	/* for NICs; NULL: they must not touch devices */
	struct uccl_hmem_queue **queue;	/* by device; NULL: not used yet */
	int ndevices;
	struct uccl_hmem_queue *pinner;	/* through which the ring was had */
	uint8_t *ring;			/* and behind it the memory that NICs fill, */
	uint32_t loans;			/* by bits */
	uint64_t head, tail;		/* bytes given out, and given back */
	uint64_t queued, done;		/* tickets */
	uint64_t backlog;		/* bytes of payload that jobs own */
	bool plain;			/* nothing is launched */
	uint8_t *slab;			/* of this device, so many bytes, for NICs; NULL: there is none */
	uint64_t slab_bytes;
	int slab_device;
	TAILQ_HEAD(, job) jobs;		/* not all in pieces yet */
	/* Counted from the beginning: made, begun, marked, done. */
	uint64_t made, begun, marked, past;
	uint64_t nmarks, past_marks;
	struct piece piece[PIECES];
	struct mark mark[MARKS];
};

int uccl_stage_open(const struct uccl_stage_attr *attr, struct uccl_stage **out)
{
	struct uccl_stage *s = calloc(1, sizeof(*s));

	if (!s)
		return -FI_ENOMEM;
	s->hmem = attr->hmem;
	s->given = attr->given;
	s->plain = !attr->scatter;
	s->ndevices = s->hmem->count();
	s->queue = calloc((size_t)s->ndevices, sizeof(struct uccl_hmem_queue *));
	if (!s->queue) {
		free(s);
		return -FI_ENOMEM;
	}
	TAILQ_INIT(&s->jobs);
	*out = s;
	return 0;
}

void uccl_stage_close(struct uccl_stage *s)
{
	if (!s)
		return;
	if (s->ring)
		s->hmem->unpin(s->pinner, s->ring);
	for (int i = 0; i < s->ndevices; i++)
		if (s->queue[i])
			s->hmem->close(s->queue[i]);
	free(s->queue);
	free(s);
}

/* The device of an address, ready to be used; -1: there is none, or it does not want to. */
static int device_of(struct uccl_stage *s, const void *p)
{
	int device = s->ndevices > 1 ? s->hmem->where(p) : 0;

	if (device < 0 || device >= s->ndevices)
		return -1;
	if (!s->queue[device]) {
		if (s->hmem->open(device, &s->queue[device])) {
			s->queue[device] = NULL;
			return -1;
		}
		/* The program is made ready now, not when it is needed. */
		s->plain = s->plain || s->hmem->scatter(s->queue[device], NULL, 0);
	}
	if (!s->ring) {
		s->pinner = s->queue[device];
		s->ring = s->hmem->pin(s->pinner, UCCL_STAGE_RING + UCCL_STAGE_LOANS * UCCL_STAGE_LOAN);
	}
	return s->ring ? device : -1;
}

static struct piece *piece_at(struct uccl_stage *s, uint64_t i)
{
	return &s->piece[i % PIECES];
}

/* A place in the ring for `len` bytes of that place on a device, which do not go around its end; NULL: not now. */
static uint8_t *ring_get(struct uccl_stage *s, const uint8_t *at, uint64_t len)
{
	uint64_t in_word = (uintptr_t)at % WORD;
	uint64_t head = ((s->head + ALIGN - 1) & ~(uint64_t)(ALIGN - 1)) + in_word;

	if (head % UCCL_STAGE_RING + len > UCCL_STAGE_RING)
		head += UCCL_STAGE_RING - head % UCCL_STAGE_RING + in_word;
	if (head + len - s->tail > UCCL_STAGE_RING)
		return NULL;
	s->head = head + len;
	return s->ring + head % UCCL_STAGE_RING;
}

/* The next piece; its bytes, if it has some, end where the ring was given out to. */
static struct piece *piece_new(struct uccl_stage *s, const struct job *j, int device, uint64_t len)
{
	struct piece *p = piece_at(s, s->made++);

	*p = (struct piece){
		.ticket = j->ticket - (j->at + len < j->len),
		.end = s->head,
		.len = len,
		.kind = (uint8_t)j->kind,
		.dst = j->dst + j->at,
		.src = j->src + j->at,
		.err = j->err,
		.device = device,
	};
	return p;
}

static uint8_t *loan_at(const struct uccl_stage *s, uint32_t i)
{
	return s->ring + UCCL_STAGE_RING + (size_t)i * UCCL_STAGE_LOAN;
}

static bool is_loan(const struct uccl_stage *s, const uint8_t *p)
{
	return s->ring && p >= loan_at(s, 0) && p < loan_at(s, UCCL_STAGE_LOANS);
}

static bool in_slab(const struct uccl_stage *s, const uint8_t *p)
{
	return s->slab && p >= s->slab && p < s->slab + s->slab_bytes;
}

/* Make the next piece of a job. False: there is no room. */
static bool job_step(struct uccl_stage *s, struct job *j)
{
	uint64_t len = uccl_min(j->len - j->at, UCCL_STAGE_PIECE);
	int device = device_of(s, j->kind == GET ? j->src : j->dst);
	struct piece *p;
	uint8_t *at = NULL;

	if (s->made - s->past == PIECES)
		return false;
	if (j->kind == GET && is_loan(s, j->dst))
		at = j->dst + j->at;
	else if (j->kind == MOVE || device < 0)
		len = j->len - j->at;
	else if (!(at = ring_get(s, (j->kind == GET ? j->src : j->dst) + j->at, len)))
		return false;
	if (device < 0)
		*j->err = FI_EIO;
	p = piece_new(s, j, device, len);
	p->at = at;
	p->gathers = j->kind == MOVE && in_slab(s, p->src) && device == s->slab_device;
	if (j->kind == PUT && at)
		memcpy(at, j->src + j->at, len);
	j->at += len;
	return true;
}

static void jobs_run(struct uccl_stage *s)
{
	struct job *j;

	while ((j = TAILQ_FIRST(&s->jobs))) {
		while (j->at < j->len)
			if (!job_step(s, j))
				return;
		TAILQ_REMOVE(&s->jobs, j, link);
		if (j->src == j->own)
			s->backlog -= j->len;
		free(j);
	}
}

static void piece_begin(struct uccl_stage *s, struct piece *p)
{
	struct uccl_hmem_queue *q = p->device < 0 ? NULL : s->queue[p->device];
	int rc = 0;

	if (!q)
		return;
	if (p->kind == PUT)
		rc = s->hmem->put(q, p->dst, p->at, p->len);
	else if (p->kind == GET)
		rc = s->hmem->get(q, p->at, p->src, p->len);
	else
		rc = s->hmem->move(q, p->dst, p->src, p->len);
	if (rc) {
		*p->err = -rc;
		p->device = -1;
	}
}

/* Does one of them write where that is written? Those of a launch have no order. All of them write to lo..hi. */
static bool runs_meet(const struct uccl_hmem_run *v, unsigned int n, const uint8_t *lo, const uint8_t *hi,
		      const uint8_t *at, uint64_t len)
{
	/* Mostly they are of one message, and come in order. */
	if (at >= hi || at + len <= lo)
		return false;
	for (unsigned int i = 0; i < n; i++)
		if (at < (const uint8_t *)v[i].to + v[i].len && (const uint8_t *)v[i].to < at + len)
			return true;
	return false;
}

/* How many of the pieces that come next can go by one launch: short ones of one kind and device. */
static unsigned int runs_find(struct uccl_stage *s, struct uccl_hmem_run *v)
{
	const struct piece *first = piece_at(s, s->begun), *p;
	const uint8_t *lo = first->dst, *hi = first->dst;
	unsigned int n = 0;

	for (uint64_t i = s->begun; i < s->made && n < UCCL_HMEM_RUNS; i++, n++) {
		p = piece_at(s, i);
		if (p->device < 0 || p->device != first->device || p->kind != first->kind || p->len > RUN_MOST ||
		    (p->kind == MOVE && !p->gathers) ||
		    (p->kind != GET && runs_meet(v, n, lo, hi, p->dst, p->len)))
			break;
		v[n] = (struct uccl_hmem_run){ .to = p->kind == GET ? p->at : p->dst,
					       .from = p->kind == PUT ? p->at : p->src,
					       .len = p->len };
		lo = p->dst < lo ? p->dst : lo;
		hi = p->dst + p->len > hi ? p->dst + p->len : hi;
	}
	return n;
}

/* False: the next piece has to be begun by itself. */
static bool runs_begin(struct uccl_stage *s)
{
	struct uccl_hmem_run v[UCCL_HMEM_RUNS];
	unsigned int n;

	if (s->plain || s->made - s->begun < RUNS_LEAST || (n = runs_find(s, v)) < RUNS_LEAST)
		return false;
	/* What does not work once is not tried for ever. */
	s->plain = s->hmem->scatter(s->queue[piece_at(s, s->begun)->device], v, n) != 0;
	if (!s->plain)
		s->begun += n;
	return !s->plain;
}

static void pieces_mark(struct uccl_stage *s, int device)
{
	if (s->marked == s->begun)
		return;
	s->mark[s->nmarks++ % MARKS] = (struct mark){
		.mark = device < 0 ? NULL : s->hmem->mark(s->queue[device]),
		.last = s->begun,
		.device = device,
	};
	s->marked = s->begun;
}

/* Queues of two devices know nothing of each other: one has to be through before the other goes on. */
static void pieces_begin(struct uccl_stage *s)
{
	int device = -1;

	if (s->past_marks < s->nmarks)
		device = s->mark[(s->nmarks - 1) % MARKS].device;
	if (s->nmarks - s->past_marks == MARKS)
		return;
	while (s->begun < s->made) {
		struct piece *p = piece_at(s, s->begun);

		if (p->device >= 0 && device >= 0 && p->device != device)
			break;
		device = p->device >= 0 ? p->device : device;
		if (!runs_begin(s))
			piece_begin(s, piece_at(s, s->begun++));
	}
	pieces_mark(s, device);
}

static void piece_end(struct uccl_stage *s, struct piece *p, int err)
{
	if (p->device >= 0 && err)
		*p->err = err;
	else if (p->device >= 0 && p->kind == GET && p->at != p->dst)
		memcpy(p->dst, p->at, p->len);
	s->tail = p->end;
	s->done = p->ticket;
}

/* As hmem's passed(). What has no mark, as there was no memory for one, is waited for: its copies may be under way. */
static int mark_passed(struct uccl_stage *s, const struct mark *m)
{
	if (m->device < 0)
		return 1;
	if (m->mark)
		return s->hmem->passed(s->queue[m->device], m->mark);
	return s->hmem->settle(s->queue[m->device]) ? -FI_EIO : 1;
}

static uint64_t stage_poll(void *arg)
{
	struct uccl_stage *s = arg;

	jobs_run(s);
	pieces_begin(s);
	while (s->past_marks < s->nmarks) {
		const struct mark *m = &s->mark[s->past_marks % MARKS];
		int rc = mark_passed(s, m);

		if (!rc)
			break;
		for (; s->past < m->last; s->past++)
			piece_end(s, piece_at(s, s->past), rc < 0 ? -rc : 0);
		s->past_marks++;
	}
	/* What became free is used at once. */
	if (!TAILQ_EMPTY(&s->jobs))
		jobs_run(s);
	pieces_begin(s);
	/* The last one may have been a job for which there was no memory. */
	if (TAILQ_EMPTY(&s->jobs) && s->past == s->made)
		s->done = s->queued;
	return s->done;
}

static uint64_t stage_wait(void *arg)
{
	struct uccl_stage *s = arg;
	uint64_t was = s->done;
	const struct mark *m;

	for (int i = 0; i < POLLS; i++)
		if (stage_poll(s) != was)
			return s->done;
	m = &s->mark[s->past_marks % MARKS];
	if (s->past_marks < s->nmarks && m->mark)
		s->hmem->wait(s->queue[m->device], m->mark);
	return stage_poll(s);
}

static struct job *job_new(struct uccl_stage *s, enum kind kind, void *dst, const void *src, uint64_t len, int *err,
			   uint64_t own)
{
	struct job *j = malloc(sizeof(*j) + own);

	if (!j)
		return NULL;
	*j = (struct job){ .ticket = s->queued, .len = len, .dst = dst, .src = src, .err = err, .kind = kind };
	TAILQ_INSERT_TAIL(&s->jobs, j, link);
	return j;
}

/* Without memory for a job it has failed, and is done with all before it. */
static uint64_t stage_queue(struct uccl_stage *s, enum kind kind, void *dst, const void *src, uint64_t len, int *err)
{
	s->queued++;
	if (!job_new(s, kind, dst, src, len, err, 0))
		*err = FI_ENOMEM;
	return s->queued;
}

/* The last piece, if it is not begun yet and goes on with this place; NULL: it does not. */
static struct piece *piece_before(struct uccl_stage *s, const uint8_t *dst, uint64_t len, const int *err)
{
	struct piece *p;

	if (s->made == s->begun)
		return NULL;
	p = piece_at(s, s->made - 1);
	return p->dst + p->len == dst && p->err == err && p->len + len <= UCCL_STAGE_PIECE ? p : NULL;
}

/* Does what comes next in the ring belong to this one? */
static bool put_joins(const struct uccl_stage *s, const struct piece *p, uint64_t len)
{
	return p && p->kind == PUT && p->at && p->end == s->head && s->head % UCCL_STAGE_RING &&
	       s->head % UCCL_STAGE_RING + len <= UCCL_STAGE_RING && s->head + len - s->tail <= UCCL_STAGE_RING;
}

static uint64_t stage_put(void *arg, void *dst, const void *src, uint64_t len, bool keep, int *err)
{
	struct uccl_stage *s = arg;
	struct piece *p;
	struct job *j;

	if (keep)
		return stage_queue(s, PUT, dst, src, len, err);
	s->queued++;
	p = piece_before(s, dst, len, err);
	if (TAILQ_EMPTY(&s->jobs) && put_joins(s, p, len)) {
		memcpy(p->at + p->len, src, len);
		p->len += len;
		p->ticket = s->queued;
		p->end = s->head = s->head + len;
		return s->queued;
	}
	if (TAILQ_EMPTY(&s->jobs)) {
		struct job now = { .ticket = s->queued, .len = len, .dst = dst, .src = src, .err = err, .kind = PUT };

		if (len <= UCCL_STAGE_PIECE && job_step(s, &now))
			return s->queued;
	}
	j = job_new(s, PUT, dst, NULL, len, err, len);
	if (!j) {
		*err = FI_ENOMEM;
		return s->queued;
	}
	memcpy(j->own, src, len);
	j->src = j->own;
	s->backlog += len;
	return s->queued;
}

static uint64_t stage_get(void *arg, void *dst, const void *src, uint64_t len, int *err)
{
	return stage_queue(arg, GET, dst, src, len, err);
}

static uint64_t stage_move(void *arg, void *dst, const void *src, uint64_t len, int *err)
{
	struct uccl_stage *s = arg;
	struct job now = { .ticket = s->queued + 1, .len = len, .dst = dst, .src = src, .err = err, .kind = MOVE };
	struct piece *p;

	if (!TAILQ_EMPTY(&s->jobs))
		return stage_queue(s, MOVE, dst, src, len, err);
	p = piece_before(s, dst, len, err);
	/* Contiguous on both sides. */
	if (p && p->gathers && p->src + p->len == now.src && in_slab(s, src)) {
		p->len += len;
		p->ticket = ++s->queued;
		return s->queued;
	}
	if (!job_step(s, &now))
		return stage_queue(s, MOVE, dst, src, len, err);
	return ++s->queued;
}

/* What is there comes from many places, so it is worth it only where that is one launch. */
static void *stage_slab(void *arg, const void *p, uint64_t len)
{
	struct uccl_stage *s = arg;
	int device = device_of(s, p);

	if (device < 0 || s->plain || s->slab || !s->hmem->take)
		return NULL;
	s->slab = s->hmem->take(s->queue[device], len);
	s->slab_bytes = len;
	s->slab_device = device;
	return s->slab;
}

static void stage_slab_free(void *arg, void *mem)
{
	struct uccl_stage *s = arg;

	s->hmem->give(s->queue[s->slab_device], mem);
	s->slab = NULL;
}

static void *stage_alloc(void *arg, uint64_t len)
{
	struct uccl_stage *s = arg;

	for (uint32_t i = 0; s->ring && len <= UCCL_STAGE_LOAN && i < UCCL_STAGE_LOANS; i++) {
		if (s->loans >> i & 1)
			continue;
		s->loans |= 1u << i;
		return loan_at(s, i);
	}
	return NULL;
}

static void stage_free(void *arg, void *mem)
{
	struct uccl_stage *s = arg;

	s->loans &= ~(1u << ((size_t)((uint8_t *)mem - loan_at(s, 0)) / UCCL_STAGE_LOAN));
}

static bool stage_room(void *arg)
{
	const struct uccl_stage *s = arg;

	return s->backlog < UCCL_STAGE_BACKLOG;
}

static int stage_direct(void *arg, const void *p)
{
	struct uccl_stage *s = arg;
	int device = s->given ? device_of(s, p) : -1;

	return device >= 0 && s->hmem->direct(s->queue[device]) ? device : -FI_ENOSYS;
}

static int stage_source(void *arg, const void *p)
{
	struct uccl_stage *s = arg;
	int device = s->given ? device_of(s, p) : -1;

	return device >= 0 ? device : -FI_ENOSYS;
}

static int stage_range(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id)
{
	struct uccl_stage *s = arg;

	return s->hmem->range(p, start, len, id);
}

static int stage_dmabuf(void *arg, const void *p, uint64_t len, uint64_t *off)
{
	struct uccl_stage *s = arg;
	int fd = uccl_dmabufs_find(s->given, p, len, off);
	int device;

	if (fd != -FI_ENOENT)
		return fd;
	device = device_of(s, p);
	return device < 0 ? -FI_EIO : s->hmem->dmabuf(s->queue[device], p, len, off);
}

static int stage_flush(void *arg, const void *p)
{
	struct uccl_stage *s = arg;
	int device = device_of(s, p);

	return device < 0 ? -FI_EIO : s->hmem->flush(s->queue[device]);
}

const struct uccl_device_ops uccl_stage_device = {
	.put = stage_put,
	.get = stage_get,
	.move = stage_move,
	.poll = stage_poll,
	.wait = stage_wait,
	.alloc = stage_alloc,
	.free = stage_free,
	.room = stage_room,
	.direct = stage_direct,
	.flush = stage_flush,
	.dmabuf = stage_dmabuf,
	.source = stage_source,
	.slab = stage_slab,
	.slab_free = stage_slab_free,
	.range = stage_range,
};

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Buffers: what is in them, how operations lie in them, and what becomes of them. */
#include <stdlib.h>
#include <string.h>

#include "uccl_torture.h"

#define GUARD 40 /* bytes before the first part, and behind the last one */
#define GAP_MAX 24

static inline uint64_t word_of(uint64_t key, uint64_t i)
{
	uint64_t x = key * 0xff51afd7ed558ccdull + i * 0x9e3779b97f4a7c15ull;

	if (!i)
		return key;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

static inline uint8_t byte_of(uint64_t key, size_t at)
{
	return (uint8_t)(word_of(key, at / 8) >> at % 8 * 8);
}

void content_fill(uint8_t *p, size_t len, uint64_t key, size_t at)
{
	size_t i = 0;

	for (; i < len && (at + i) % 8; i++)
		p[i] = byte_of(key, at + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t x = word_of(key, (at + i) / 8);

		memcpy(p + i, &x, 8);
	}
	for (; i < len; i++)
		p[i] = byte_of(key, at + i);
}

size_t content_wrong(const uint8_t *p, size_t len, uint64_t key, size_t at)
{
	size_t i = 0;

	for (; i < len && (at + i) % 8; i++)
		if (p[i] != byte_of(key, at + i))
			return i;
	for (; i + 8 <= len; i += 8) {
		uint64_t x = word_of(key, (at + i) / 8), y;

		memcpy(&y, p + i, 8);
		if (x != y)
			break;
	}
	for (; i < len; i++)
		if (p[i] != byte_of(key, at + i))
			return i;
	return len;
}

/* ---- shapes */

void shape_draw(struct shape *s, struct uccl_rng *r, size_t len, unsigned int max)
{
	unsigned int n = max > 1 ? 1 + (unsigned int)uccl_rng_below(r, max) : 1, order[PIECES];
	size_t at = 0, off = GUARD;

	s->n = n;
	for (unsigned int i = 0; i < n; i++) {
		s->part[i].len = i + 1 == n ? len - at : uccl_rng_below(r, len - at + 1);
		at += s->part[i].len;
		order[i] = i;
	}
	/* They lie in another order than that of their bytes. */
	for (unsigned int i = n; i > 1; i--) {
		unsigned int k = (unsigned int)uccl_rng_below(r, i), o = order[i - 1];

		order[i - 1] = order[k];
		order[k] = o;
	}
	for (unsigned int i = 0; i < n; i++) {
		off += uccl_rng_below(r, GAP_MAX);
		s->part[order[i]].off = off;
		off += s->part[order[i]].len;
	}
	s->total = off + GUARD;
}

unsigned int shape_iov(const struct shape *s, struct buf *b, struct iovec *iov)
{
	for (unsigned int i = 0; i < s->n; i++)
		iov[i] = (struct iovec){.iov_base = b->mem + s->part[i].off, .iov_len = s->part[i].len};
	return s->n;
}

void shape_fill(const struct shape *s, struct buf *b, uint64_t key)
{
	size_t at = 0;

	for (unsigned int i = 0; i < s->n; i++) {
		content_fill(b->mem + s->part[i].off, s->part[i].len, key, at);
		at += s->part[i].len;
	}
}

void shape_get(const struct shape *s, const struct buf *b, size_t at, void *out, size_t len)
{
	uint8_t *to = out;

	for (unsigned int i = 0; i < s->n && len; i++) {
		size_t part = s->part[i].len, some;

		if (at >= part) {
			at -= part;
			continue;
		}
		some = part - at < len ? part - at : len;
		memcpy(to, b->mem + s->part[i].off + at, some);
		to += some;
		len -= some;
		at = 0;
	}
}

/* ---- buffers */

struct buf *buf_new(size_t total, uint64_t key)
{
	struct buf *b = malloc(sizeof(*b) + total);

	if (!b)
		rank_fail("no memory for a buffer of %zu bytes", total);
	b->key = key;
	b->total = total;
	content_fill(b->mem, total, key, 0);
	return b;
}

/* Bytes from..to are untouched. */
static bool untouched(const struct buf *b, size_t from, size_t to, size_t *where)
{
	size_t k = content_wrong(b->mem + from, to - from, b->key, from);

	*where = from + k;
	return from + k == to;
}

bool buf_check(const struct buf *b, const struct shape *s, uint64_t key, size_t len, size_t *where)
{
	size_t at = 0, end = 0, low = b->total, k;

	for (unsigned int i = 0; i < s->n; i++) {
		size_t off = s->part[i].off, part = s->part[i].len, mine = len - at < part ? len - at : part;

		k = content_wrong(b->mem + off, mine, key, at);
		*where = off + k;
		if (k < mine || !untouched(b, off + mine, off + part, where))
			return false;
		at += mine;
		low = off < low ? off : low;
		end = off + part > end ? off + part : end;
	}
	if (!untouched(b, 0, low, where) || !untouched(b, end, b->total, where))
		return false;
	/* A gap begins where a part ends, and lasts up to the next one. */
	for (unsigned int i = 0; i < s->n; i++) {
		size_t from = s->part[i].off + s->part[i].len, to = end;

		for (unsigned int j = 0; j < s->n; j++)
			if (j != i && s->part[j].off >= from && s->part[j].off < to)
				to = s->part[j].off;
		if (to > from && !untouched(b, from, to, where))
			return false;
	}
	return true;
}

/* ---- quarantine */

bool quarantine_put(struct quarantine *q, struct buf *b, uint64_t key, size_t *where)
{
	b->key = key;
	content_fill(b->mem, b->total, key, 0);
	while (q->n == QUARANTINE_BUFS || (q->n && q->bytes + b->total > QUARANTINE_BYTES)) {
		struct buf *old = q->ring[q->head];

		if (!untouched(old, 0, old->total, where))
			return false;
		q->head = (q->head + 1) % QUARANTINE_BUFS;
		q->n--;
		q->bytes -= old->total;
		free(old);
	}
	q->ring[(q->head + q->n++) % QUARANTINE_BUFS] = b;
	q->bytes += b->total;
	return true;
}

bool quarantine_look(const struct quarantine *q, struct uccl_rng *r, bool all, size_t *where)
{
	for (unsigned int i = 0; i < q->n && (all || i < 4); i++) {
		unsigned int k = all ? i : (unsigned int)uccl_rng_below(r, q->n);
		const struct buf *b = q->ring[(q->head + k) % QUARANTINE_BUFS];

		if (!untouched(b, 0, b->total, where))
			return false;
	}
	return true;
}

void quarantine_free(struct quarantine *q)
{
	for (; q->n; q->n--, q->head = (q->head + 1) % QUARANTINE_BUFS)
		free(q->ring[q->head]);
	q->bytes = 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/multimap.h"

#include <stdlib.h>
#include <string.h>

void uccl_multimap_init(struct uccl_multimap *m, const uint64_t secret[2])
{
	memset(m, 0, sizeof(*m));
	/* Odd factors, so that each bit of a key counts. */
	m->secret[0] = (secret[0] ^ 0x9e3779b97f4a7c15ull) | 1;
	m->secret[1] = (secret[1] ^ 0xc2b2ae3d27d4eb4full) | 1;
	m->bits = UCCL_MULTIMAP_BITS;
}

void uccl_multimap_fini(struct uccl_multimap *m)
{
	free(m->more);
	m->more = NULL;
	m->bits = UCCL_MULTIMAP_BITS;
	m->keys = m->nodes = 0;
	memset(m->few, 0, sizeof(m->few));
}

/* Multiply-shift: of two keys that differ, few factors bring the same upper bits. (Dietzfelbinger et al., 1997.) */
static struct uccl_multinode **bucket(const struct uccl_multimap *m, uint64_t a, uint64_t b)
{
	struct uccl_multinode *const *v = m->more ? m->more : m->few;
	uint64_t h = a * m->secret[0] + (b ^ b >> 32) * m->secret[1];

	return (struct uccl_multinode **)&v[h >> (64 - m->bits)];
}

static struct uccl_multinode *find_in(struct uccl_multinode *n, uint64_t a, uint64_t b)
{
	while (n && (n->a != a || n->b != b))
		n = n->chain;
	return n;
}

/* Twice as many buckets, if there is memory for them. */
static void grow(struct uccl_multimap *m)
{
	struct uccl_multinode **old = m->more ? m->more : m->few, **v;
	uint32_t count = 1u << m->bits;

	v = m->bits < 31 ? calloc(2 * (size_t)count, sizeof(*v)) : NULL;
	if (!v)
		return;
	m->bits++;
	m->more = v;
	for (uint32_t i = 0; i < count; i++) {
		struct uccl_multinode *n = old[i], *next;

		for (; n; n = next) {
			struct uccl_multinode **to = bucket(m, n->a, n->b);

			next = n->chain;
			n->chain = *to;
			*to = n;
		}
	}
	if (old != m->few)
		free(old);
}

void uccl_multimap_add(struct uccl_multimap *m, struct uccl_multinode *n, uint64_t a, uint64_t b)
{
	struct uccl_multinode **to = bucket(m, a, b), *first = find_in(*to, a, b);

	n->a = a;
	n->b = b;
	n->next = NULL;
	m->nodes++;
	if (first) {
		n->chain = NULL;
		n->prev = first->prev;
		first->prev->next = n;
		first->prev = n;
		return;
	}
	n->prev = n;
	n->chain = *to;
	*to = n;
	if (++m->keys > 1u << m->bits)
		grow(m);
}

void uccl_multimap_remove(struct uccl_multimap *m, struct uccl_multinode *n)
{
	struct uccl_multinode **link, *first;

	m->nodes--;
	if (n->prev->next) {
		/* Not the first one. If it is the last, the first has to know. */
		n->prev->next = n->next;
		if (n->next) {
			n->next->prev = n->prev;
			return;
		}
		first = uccl_multimap_find(m, n->a, n->b);
		first->prev = n->prev;
		return;
	}
	link = bucket(m, n->a, n->b);
	while (*link != n)
		link = &(*link)->chain;
	if (!n->next) {
		*link = n->chain;
		m->keys--;
		return;
	}
	n->next->prev = n->prev;
	n->next->chain = n->chain;
	*link = n->next;
}

struct uccl_multinode *uccl_multimap_find(const struct uccl_multimap *m, uint64_t a, uint64_t b)
{
	return find_in(*bucket(m, a, b), a, b);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A hash table in which a key, two words, may have several values; those of a key are kept in the order in which they
 * were added. Nodes are part of what they stand for, so adding one cannot fail: without memory for more buckets the
 * chains grow. Whoever chooses keys cannot choose collisions without the secret. Not thread safe.
 */
#ifndef UCCL_BASE_MULTIMAP_H
#define UCCL_BASE_MULTIMAP_H

#include <stdint.h>

#define UCCL_MULTIMAP_BITS 3	/* this many buckets, as a power of two, need no memory */

struct uccl_multinode {
	struct uccl_multinode *next, *prev; /* of its key; next of the last is NULL, prev of the first is the last */
	struct uccl_multinode *chain;	/* the first of its key: that of another key of the bucket */
	uint64_t a, b;			/* key */
};

struct uccl_multimap {
	uint64_t secret[2];
	uint32_t keys;			/* different ones */
	uint32_t nodes;
	uint8_t bits;			/* 1 << bits buckets */
	struct uccl_multinode **more;	/* the buckets; NULL: these */
	struct uccl_multinode *few[1 << UCCL_MULTIMAP_BITS];
};

/* `secret`: random, or 0 where nobody wants to make it slow. */
void uccl_multimap_init(struct uccl_multimap *m, const uint64_t secret[2]);
/* What is still in it is forgotten. It is empty afterwards, and can be used. */
void uccl_multimap_fini(struct uccl_multimap *m);
/* Behind all others of its key. */
void uccl_multimap_add(struct uccl_multimap *m, struct uccl_multinode *n, uint64_t a, uint64_t b);
void uccl_multimap_remove(struct uccl_multimap *m, struct uccl_multinode *n);
/* The first node of this key, whose `next` are the others; NULL: none. */
struct uccl_multinode *uccl_multimap_find(const struct uccl_multimap *m, uint64_t a, uint64_t b);

#endif

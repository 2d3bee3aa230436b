/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A hash table whose key, two words, may have several values. The values of a key keep the order in which they were
 * added. Each value embeds its node, so adding cannot fail: if no memory is left for more buckets, the chains grow. A
 * peer that chooses keys cannot make them collide, since the hash is keyed by a secret. Not thread safe.
 */
#ifndef UCCL_BASE_MULTIMAP_H
#define UCCL_BASE_MULTIMAP_H

#include <stdint.h>

#define UCCL_MULTIMAP_BITS 3	/* this many buckets, as a power of two, need no memory */

struct uccl_multinode {
	struct uccl_multinode *next, *prev; /* same key; the last has next NULL, the prev of the first is the last */
	struct uccl_multinode *chain;	/* in the first node of a key: first node of the bucket's next key; or NULL */
	uint64_t a, b;			/* key */
};

struct uccl_multimap {
	uint64_t secret[2];
	uint32_t keys;			/* different keys in the table */
	uint32_t nodes;
	uint8_t bits;			/* there are 1 << bits buckets */
	struct uccl_multinode **more;	/* allocated buckets; NULL: `few` is in use */
	struct uccl_multinode *few[1 << UCCL_MULTIMAP_BITS]; /* buckets of a small table */
};

/* `secret`: key of the hash; random if a peer chooses keys, else it may be 0. */
void uccl_multimap_init(struct uccl_multimap *m, const uint64_t secret[2]);
/* Empty the table and free its buckets. The nodes stay their owners'. The table can be used again. */
void uccl_multimap_fini(struct uccl_multimap *m);
/* Add a node as the last one of its key. */
void uccl_multimap_add(struct uccl_multimap *m, struct uccl_multinode *n, uint64_t a, uint64_t b);
void uccl_multimap_remove(struct uccl_multimap *m, struct uccl_multinode *n);
/* The first node of this key; the others follow by `next`. NULL: no such key. */
struct uccl_multinode *uccl_multimap_find(const struct uccl_multimap *m, uint64_t a, uint64_t b);

#endif

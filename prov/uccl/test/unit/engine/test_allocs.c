/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What engines allocate while messages go to and fro, when all that is kept has grown to its size. Nothing for a
 * packet, a chunk or an acknowledgement; one copy for a message that has to be kept.
 */
#include "lan.h"
#include "../tests.h"

#include <stdlib.h>
#include <string.h>


#define MB (1u << 20)
#define ROUNDS 50

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTED 1

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static uint64_t allocs;

void *malloc(size_t n)
{
	allocs++;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocs++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	allocs++;
	return __libc_realloc(p, n);
}
#else
#define COUNTED 0
static uint64_t allocs;
#endif

static uint8_t src[MB], dst[MB];

/* One operation of node 0, complete on both sides. */
struct kind {
	const char *name;
	uint8_t type;
	uint32_t flags;
	uint64_t len;
	bool late; /* the receive is posted when the message is there */
	unsigned int copies; /* allocations for it at most */
};

static void one(struct lan *l, const struct kind *k)
{
	struct uccl_op *op = lan_op(l, 0, k->type, k->flags, src, k->len);

	assert_non_null(op);
	op->peer = lan_peer(l, 0, 1);
	op->context = LAN_CTX(1);
	if (k->type == UCCL_OP_SEND) {
		if (!k->late)
			lan_recv(l, 1, dst, k->len, LAN_CTX(2));
		assert_int_equal(uccl_engine_send(l->node[0].e, op, l->now), 0);
		if (k->late) {
			lan_run(l, UCCL_NS_PER_S);
			lan_recv(l, 1, dst, k->len, LAN_CTX(2));
		}
	} else {
		op->rma.nseg = 1;
		op->rma.seg[0] = (struct uccl_seg){.len = k->len, .key = 1};
		assert_int_equal(uccl_engine_rma(l->node[0].e, op, l->now), 0);
	}
	lan_run(l, UCCL_NS_PER_S);
	lan_expect(l, 0, LAN_CTX(1), 0);
	if (k->type == UCCL_OP_SEND)
		lan_expect(l, 1, LAN_CTX(2), 0);
}

static enum lan_verdict lose_some(struct lan *l, const struct lan_event *ev)
{
	return uccl_rng_below(&l->rng, 50) ? LAN_PASS : LAN_DROP;
}

/* What so many of them allocate; every event of the network is allocated by the test itself. */
static uint64_t count(struct lan *l, const struct kind *k, int rounds)
{
	uint64_t before = allocs - l->packets;

	for (int i = 0; i < rounds; i++)
		one(l, k);
	return allocs - l->packets - before;
}

/*
 * A message of 1 MiB is 54 chunks, and nothing is allocated for them, whether they arrive or not. A message that has to
 * be kept has one copy; one whose chunks overtake each other needs a table to be found in, too.
 */
TEST(engine_poll__allocates_nothing)
{
	static const struct kind kinds[] = {
		{"8 bytes", UCCL_OP_SEND, 0, 8, false, 0},
		{"1 MiB", UCCL_OP_SEND, 0, MB, false, 0},
		{"write of 1 MiB", UCCL_OP_WRITE, 0, MB, false, 0},
		{"64 KiB at once", UCCL_OP_SEND, 0, 65536, false, 3},
		{"8 bytes, injected", UCCL_OP_SEND, UCCL_OPF_INJECT, 8, false, 0},
		{"4 KiB, injected", UCCL_OP_SEND, UCCL_OPF_INJECT, 4096, false, 1},
		{"8 bytes, not expected", UCCL_OP_SEND, 0, 8, true, 1},
		{"1 MiB, not expected", UCCL_OP_SEND, 0, MB, true, 1},
		{"read of 1 MiB", UCCL_OP_READ, 0, MB, false, 1},
	};

	if (!COUNTED)
		skip();
	for (int lossy = 0; lossy < 2; lossy++) {
		struct lan *l = lan_new();

		for (int i = 0; i < 2; i++) {
			l->node[i].target = &lan_target;
			lan_open(l, i);
		}
		l->filter = lossy ? lose_some : NULL;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			/* Its head, or the envelope, may come late, as those of what is sent at once. */
			bool head = kinds[i].type == UCCL_OP_SEND && kinds[i].len == MB;

			/* All that is kept grows to its size. */
			count(l, &kinds[i], ROUNDS);
			assert_in_range(count(l, &kinds[i], ROUNDS), 0,
					(kinds[i].copies + (lossy && head ? 3 : 0)) * ROUNDS);
		}
		assert_true(!lossy || lan_stats(l, 0)->rtx_packets > ROUNDS);
		lan_free(l);
	}
}

TESTS_MAIN

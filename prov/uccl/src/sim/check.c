/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/units.h"
#include "sim/check.h"

#define CANARY_BYTE 0xc9

/* Eight bytes of the pattern. */
static uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t x = (seed ^ index * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;

	x ^= x >> 32;
	return x * 0xd6e8feb86659fd93ull;
}

void uccl_check_fill(uint64_t seed, uint64_t off, void *buf, uint64_t len)
{
	uint8_t *p = buf;
	uint8_t word[8];

	while (len) {
		uint64_t at = off & 7, n = uccl_min(8 - at, len);

		if (n == 8) {
			uccl_put64(p, word_at(seed, off >> 3));
		} else {
			uccl_put64(word, word_at(seed, off >> 3));
			memcpy(p, word + at, n);
		}
		p += n;
		off += n;
		len -= n;
	}
}

uint64_t uccl_check_match(uint64_t seed, uint64_t off, const void *buf, uint64_t len)
{
	const uint8_t *p = buf;
	uint64_t done = 0;

	while (done < len) {
		uint64_t at = (off + done) & 7, n = uccl_min(8 - at, len - done), i;
		uint64_t want = word_at(seed, (off + done) >> 3);

		if (n < 8 || uccl_get64(p + done) != want) {
			for (i = 0; i < n; i++) {
				if (p[done + i] != (uint8_t)(want >> 8 * (at + i)))
					return done + i;
			}
		}
		done += n;
	}
	return len;
}

uint8_t *uccl_check_alloc(uint64_t len)
{
	uint8_t *base = malloc(uccl_check_total(len));

	if (!base)
		return NULL;
	memset(base, CANARY_BYTE, UCCL_CHECK_CANARY);
	memset(base + UCCL_CHECK_CANARY + len, CANARY_BYTE, UCCL_CHECK_CANARY);
	return base + UCCL_CHECK_CANARY;
}

bool uccl_check_whole(const uint8_t *buf, uint64_t len)
{
	const uint8_t *base = uccl_check_base(buf), *end = buf + len;
	uint32_t i;

	for (i = 0; i < UCCL_CHECK_CANARY; i++) {
		if (base[i] != CANARY_BYTE || end[i] != CANARY_BYTE)
			return false;
	}
	return true;
}

void uccl_check_free(uint8_t *buf)
{
	if (buf)
		free(buf - UCCL_CHECK_CANARY);
}

static int pair_compare(const void *a, const void *b)
{
	const struct uccl_check_pair *x = a, *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->sent < y->sent ? -1 : x->sent > y->sent;
}

uint32_t uccl_check_order(struct uccl_check_pair *v, uint32_t n)
{
	uint32_t i;

	qsort(v, n, sizeof(*v), pair_compare);
	for (i = 1; i < n; i++) {
		if (v[i].stream == v[i - 1].stream && v[i].received < v[i - 1].received)
			return i;
	}
	return n;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sequence numbers have 64 bits inside and fewer on the wire. The receiver picks the 64-bit number nearest to a
 * reference, as RFC 9000 appendix A.3 does for packet numbers.
 */
#ifndef UCCL_BASE_SEQ_H
#define UCCL_BASE_SEQ_H

#include <stdint.h>

/*
 * The 64-bit number whose low `bits` bits are `wire` and that lies nearest to `ref`, in
 * [ref - 2^(bits-1), ref + 2^(bits-1)). `bits` is 1..63; a result below 0 is moved up by 2^bits, so a
 * caller near zero sees a number far above its window and refuses it.
 */
static inline uint64_t uccl_seq_expand(uint64_t ref, uint64_t wire, unsigned int bits)
{
	uint64_t span = 1ull << bits, half = span >> 1, mask = span - 1;
	uint64_t delta = ((wire & mask) - ref) & mask;

	if (delta < half || ref < span - delta)
		return ref + delta;
	return ref + delta - span;
}

#endif

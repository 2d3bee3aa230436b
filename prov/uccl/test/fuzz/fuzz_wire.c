/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every decoder of flow/wire/wire.h and the address decoder on arbitrary bytes. What they accept must lie inside the
 * input, within the limits of the headers, and survive encoding and decoding again.
 */
#include "input.h"

#include "flow/wire/wire.h"

static void ack_try(const uint8_t *data, uint32_t len)
{
	struct uccl_ack a, b;
	uint8_t again[UCCL_TAIL_MAX];

	if (uccl_ack_decode(&a, data, len) != UCCL_DROP_COUNT)
		return;
	assert(a.npaths <= UCCL_ACK_PATHS_MAX && a.nwords <= UCCL_ACK_WORDS_MAX);
	assert(uccl_ack_len(a.npaths, a.nwords, a.nsegments) == len && len <= sizeof(again));
	assert(uccl_ack_encode(again, &a) == len);
	assert(uccl_ack_decode(&b, again, len) == UCCL_DROP_COUNT);
	assert(a.cum == b.cum && a.dups == b.dups && a.msg_limit == b.msg_limit && a.slots == b.slots);
	for (int i = 0; i < a.npaths; i++) {
		assert(a.paths[i].path < UCCL_PATHS_MAX);
		assert(a.paths[i].path == b.paths[i].path && a.paths[i].write == b.paths[i].write);
		assert(a.paths[i].seq == b.paths[i].seq && a.paths[i].echo == b.paths[i].echo);
		assert(a.paths[i].delay == b.paths[i].delay);
	}
	for (int i = 0; i < a.nwords; i++)
		assert(a.sack[i] == b.sack[i]);
	for (int i = 0; i < a.nsegments; i++) {
		assert(a.segments[i].subs <= UCCL_SEGMENT_COUNT);
		assert(a.segments[i].ahead == b.segments[i].ahead && a.segments[i].have == b.segments[i].have);
		assert(a.segments[i].of == b.segments[i].of && a.segments[i].subs == b.segments[i].subs);
	}
}

static void segment_try(const uint8_t *rec, uint32_t len)
{
	struct uccl_segment s;
	uint8_t again[UCCL_REC_LEN], whole[UCCL_REC_LEN] = {0};
	uint32_t at, most;

	if (uccl_segment_decode(&s, rec, len) != UCCL_DROP_COUNT)
		return;
	assert(s.index < s.count && s.count <= UCCL_SEGMENT_COUNT && len);
	at = s.index * uccl_segment_each(s.total, s.count);
	most = uccl_segment_len(s.total, s.index, s.count);
	assert((uint64_t)at + most <= s.total && most <= UINT16_MAX);
	if (s.subs) {
		assert(s.sub < s.subs && s.subs > 1 && s.subs <= UCCL_SEGMENT_COUNT);
		assert(s.sub * uccl_segment_each(most, s.subs) + len <= most);
	} else {
		assert(!s.sub && len == most);
	}
	memcpy(whole + (s.sub % 2 ? 8 : 0), rec, UCCL_SEGMENT_REC);
	uccl_segment_encode(again, whole, &s);
	assert(!memcmp(again, rec, sizeof(again)));
}

static void desc_try(const uint8_t *rec)
{
	struct uccl_desc d;
	uint8_t again[UCCL_REC_LEN];

	if (uccl_desc_decode(&d, rec) != UCCL_DROP_COUNT)
		return;
	assert(d.count && d.chunk && d.len && d.offset + d.len > d.offset);
	assert((d.len + d.chunk - 1) / d.chunk == d.count);
	uccl_desc_encode(again, &d);
	assert(!memcmp(again, rec, sizeof(again)));
}

static void addr_try(const uint8_t *data)
{
	struct uccl_addr a, b;
	uint8_t again[UCCL_ADDR_LEN];

	if (uccl_addr_decode(&a, data))
		return;
	assert(a.nic.port);
	uccl_addr_encode(again, &a);
	assert(!uccl_addr_decode(&b, again));
	assert(uccl_nic_addr_equal(&a.nic, &b.nic) && a.incarnation == b.incarnation);
	assert(!memcmp(a.key, b.key, sizeof(a.key)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct uccl_hdr h;

	if (uccl_hdr_decode(&h, data, (uint32_t)size) == UCCL_DROP_COUNT) {
		bool foreign = h.version != UCCL_VERSION && h.version != UCCL_VERSION_FORMER;
		uint8_t again[UCCL_HDR_LEN];
		size_t seal = h.flags & UCCL_FLAG_SEALED && h.type >= UCCL_PKT_ACK ? UCCL_SEAL_LEN : 0;

		/* Of any version, and nothing else of it is read. */
		if (foreign) {
			assert(h.type == UCCL_PKT_HELLO || h.type == UCCL_PKT_COOKIE);
			assert(!h.payload_len && !h.tail_len && !h.flags && !h.path);
			return 0;
		}
		assert(UCCL_HDR_LEN + h.payload_len + h.tail_len + seal == size);
		assert(h.path < UCCL_PATHS_MAX && h.tail_len <= UCCL_TAIL_MAX);
		assert(h.rec == data + UCCL_HDR_LEN - UCCL_REC_LEN);
		uccl_hdr_encode(again, &h);
		/* Handshakes of the former version are read, too. */
		if (h.version != UCCL_VERSION)
			uccl_hdr_former(again);
		assert(!memcmp(again, data, sizeof(again)));
		if (h.tail_len)
			ack_try(data + UCCL_HDR_LEN + h.payload_len, h.tail_len);
		desc_try(h.rec);
		segment_try(h.rec, h.payload_len);
	}
	ack_try(data, (uint32_t)size);
	if (size >= UCCL_REC_LEN)
		desc_try(data);
	if (size >= UCCL_ADDR_LEN)
		addr_try(data);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/wire.h"

#include "../../tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static const uint8_t types[] = {
	UCCL_PKT_HELLO, UCCL_PKT_COOKIE, UCCL_PKT_INIT,	   UCCL_PKT_INIT_ACK,  UCCL_PKT_ACK,
	UCCL_PKT_PROBE, UCCL_PKT_CREDIT, UCCL_PKT_DEMAND,  UCCL_PKT_CLOSE,     UCCL_PKT_CLOSE_ACK,
	UCCL_PKT_CHUNK, UCCL_PKT_DESC,	 UCCL_PKT_SEGMENT, UCCL_PKT_ELSEWHERE,
};

static uint8_t rec[UCCL_REC_LEN];

static struct uccl_hdr header(void)
{
	for (unsigned int i = 0; i < sizeof(rec); i++)
		rec[i] = (uint8_t)(0xa0 + i);
	return (struct uccl_hdr){
		.type = UCCL_PKT_CHUNK,
		.flags = UCCL_FLAG_AR,
		.rtype = 9,
		.path = 0x00fe,
		.token = 0x1122334455667788,
		.csn = 0x99aabbcc,
		.pseq = 0xddeeff01,
		.ts = 0x23456789,
		.payload_len = 0x0a0b,
		.tail_len = 0x0210,
		.rec = rec,
	};
}

TEST(hdr_encode__layout)
{
	static const uint8_t want[32] = {
		0x55, 0x43, 2,	  16,	1,    9,    0xfe, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0xcc, 0xbb, 0xaa, 0x99, 0x01, 0xff, 0xee, 0xdd, 0x89, 0x67, 0x45, 0x23, 0x0b, 0x0a, 0x10, 0x02,
	};
	struct uccl_hdr h = header();
	uint8_t out[UCCL_HDR_LEN];

	uccl_hdr_encode(out, &h);
	assert_memory_equal(out, want, sizeof(want));
	assert_memory_equal(out + 32, rec, UCCL_REC_LEN);
}

TEST(hdr_encode__without_record)
{
	static const uint8_t zero[UCCL_REC_LEN];
	struct uccl_hdr h = header();
	uint8_t out[UCCL_HDR_LEN];

	memset(out, 0xff, sizeof(out));
	h.rec = NULL;
	uccl_hdr_encode(out, &h);
	assert_memory_equal(out + 32, zero, sizeof(zero));
}

static uint32_t whole(const struct uccl_hdr *h)
{
	return (uint32_t)UCCL_HDR_LEN + h->payload_len + h->tail_len;
}

TEST(hdr_decode__round_trip)
{
	struct uccl_hdr h = header(), d;
	uint8_t out[UCCL_HDR_LEN];

	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), UCCL_DROP_COUNT);
	assert_int_equal(d.type, h.type);
	assert_int_equal(d.flags, h.flags);
	assert_int_equal(d.rtype, h.rtype);
	assert_int_equal(d.path, h.path);
	assert_true(d.token == h.token);
	assert_int_equal(d.csn, h.csn);
	assert_int_equal(d.pseq, h.pseq);
	assert_int_equal(d.ts, h.ts);
	assert_int_equal(d.payload_len, h.payload_len);
	assert_int_equal(d.tail_len, h.tail_len);
	assert_ptr_equal(d.rec, out + 32);
}

TEST(hdr_decode__short)
{
	struct uccl_hdr h = header(), d;
	uint8_t out[UCCL_HDR_LEN];

	h.payload_len = h.tail_len = 0;
	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, 0), UCCL_DROP_SHORT);
	assert_int_equal(uccl_hdr_decode(&d, out, UCCL_HDR_LEN - 1), UCCL_DROP_SHORT);
	assert_int_equal(uccl_hdr_decode(&d, out, UCCL_HDR_LEN), UCCL_DROP_COUNT);
}

TEST(hdr_decode__magic_and_version)
{
	struct uccl_hdr h = header(), d;
	uint8_t out[UCCL_HDR_LEN];

	for (int i = 0; i < 3; i++) {
		uccl_hdr_encode(out, &h);
		out[i] ^= 0x40;
		assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), i < 2 ? UCCL_DROP_MAGIC : UCCL_DROP_VERSION);
	}
	/* Of others those packets are read that are answered. PROTOCOL R333 R335 */
	for (int version = 0; version < 256; version++)
		for (unsigned int i = 0; i < sizeof(types); i++) {
			bool other = types[i] == UCCL_PKT_HELLO || types[i] == UCCL_PKT_COOKIE ||
				     (version == UCCL_VERSION_FORMER && types[i] == UCCL_PKT_INIT);

			h.type = types[i];
			uccl_hdr_encode(out, &h);
			out[2] = (uint8_t)version;
			assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)),
					 other || version == UCCL_VERSION ? UCCL_DROP_COUNT : UCCL_DROP_VERSION);
			if (!other && version != UCCL_VERSION)
				continue;
			assert_int_equal(d.version, version);
			if (version != UCCL_VERSION && version != UCCL_VERSION_FORMER)
				assert_int_equal(d.payload_len + d.tail_len + d.flags + d.path, 0);
		}
}

TEST(hdr_decode__types)
{
	struct uccl_hdr h = header(), d;
	uint8_t out[UCCL_HDR_LEN];

	for (unsigned int t = 0; t < 256; t++) {
		bool known = memchr(types, (int)t, sizeof(types));

		assert_int_equal(uccl_type_known((uint8_t)t), known);
		h.type = (uint8_t)t;
		uccl_hdr_encode(out, &h);
		assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), known ? UCCL_DROP_COUNT : UCCL_DROP_TYPE);
	}
}

TEST(hdr_decode__lengths)
{
	struct uccl_hdr h = header(), d;
	uint8_t out[UCCL_HDR_LEN];

	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h) - 1), UCCL_DROP_LENGTH);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h) + 1), UCCL_DROP_LENGTH);
	h.tail_len = UCCL_TAIL_MAX;
	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), UCCL_DROP_COUNT);
	h.tail_len = UCCL_TAIL_MAX + 1;
	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), UCCL_DROP_LENGTH);
	/* The sum does not wrap in 16 bits. */
	h.payload_len = 65535;
	h.tail_len = 640;
	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, (UCCL_HDR_LEN + 65535u + 640u) & 0xffff), UCCL_DROP_LENGTH);
}

TEST(hdr_decode__path)
{
	struct uccl_hdr h = header(), d;
	uint8_t out[UCCL_HDR_LEN];

	h.path = UCCL_PATHS_MAX - 1;
	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), UCCL_DROP_COUNT);
	h.path = UCCL_PATHS_MAX;
	uccl_hdr_encode(out, &h);
	assert_int_equal(uccl_hdr_decode(&d, out, whole(&h)), UCCL_DROP_PATH);
}

static struct uccl_ack block(uint8_t npaths, uint8_t nwords)
{
	struct uccl_ack a = {
		.cum = 0xfffffff0, .dups = 3, .msg_limit = 77, .slots = 0x1234, .npaths = npaths, .nwords = nwords};

	for (int i = 0; i < npaths; i++)
		a.paths[i] = (struct uccl_ack_path){
			.path = (uint16_t)(UCCL_PATHS_MAX - 1 - i),
			.write = i & 1,
			.seq = 0x80000000u + (unsigned int)i,
			.echo = 0x10u * (unsigned int)i,
			.delay = i ? (uint32_t)i : UINT32_MAX,
			.marked = (uint16_t)(UINT16_MAX - i),
		};
	for (int i = 0; i < nwords; i++)
		a.sack[i] = 0x8000000000000001ull + ((uint64_t)i << 8);
	return a;
}

/* Quoted: what is there of the header, whatever it says of lengths that the quote does not have. PROTOCOL R150 */
TEST(quote_decode__segments)
{
	uint8_t buf[UCCL_HDR_LEN], rec[UCCL_REC_LEN] = {7};
	struct uccl_hdr q, h = {.type = UCCL_PKT_CHUNK, .path = 3, .token = 1ull << 60, .pseq = 77, .rec = rec};

	h.payload_len = 1000;
	uccl_hdr_encode(buf, &h);
	for (uint32_t len = 0; len <= sizeof(buf); len++) {
		uint8_t *exact = malloc(len + !len);

		memcpy(exact, buf, len);
		if (len < UCCL_QUOTE_MIN) {
			assert_int_equal(uccl_quote_decode(&q, exact, len), UCCL_DROP_SHORT);
		} else {
			assert_int_equal(uccl_quote_decode(&q, exact, len), UCCL_DROP_COUNT);
			assert_int_equal(q.type, h.type);
			assert_int_equal(q.path, 3);
			assert_true(q.token == h.token);
			assert_int_equal(q.pseq, 77);
			assert_int_equal(q.payload_len, 0);
			if (len < UCCL_HDR_LEN)
				assert_null(q.rec);
			else
				assert_int_equal(q.rec[0], 7);
		}
		free(exact);
	}
	buf[0] ^= 1;
	assert_int_equal(uccl_quote_decode(&q, buf, sizeof(buf)), UCCL_DROP_MAGIC);
	buf[0] ^= 1;
	buf[2]++;
	assert_int_equal(uccl_quote_decode(&q, buf, sizeof(buf)), UCCL_DROP_VERSION);
	buf[2]--;
	buf[3] = 200;
	assert_int_equal(uccl_quote_decode(&q, buf, sizeof(buf)), UCCL_DROP_TYPE);
}

TEST(ack_len__sizes)
{
	assert_int_equal(uccl_ack_len(0, 0, 0), 16);
	assert_int_equal(uccl_ack_len(1, 0, 0), 32);
	assert_int_equal(uccl_ack_len(0, 1, 0), 24);
	assert_int_equal(uccl_ack_len(0, 0, 1), 28);
	assert_true(uccl_ack_len(UCCL_ACK_PATHS_MAX, UCCL_ACK_WORDS_MAX, 0) <= UCCL_TAIL_MAX);
}

/* As many as there is room for, in whatever else is told, and one more would be too long. */
TEST(ack_segments_fit__every_room)
{
	for (uint8_t lines = 0; lines <= UCCL_ACK_PATHS_MAX; lines++)
		for (uint8_t words = 0; words <= UCCL_ACK_WORDS_MAX; words++)
			for (uint32_t room = 0; room <= UCCL_TAIL_MAX + 20; room++) {
				uint8_t n = uccl_ack_segments_fit(lines, words, room);
				uint32_t most = (uint32_t)uccl_min(room, UCCL_TAIL_MAX);

				assert_true(n <= UCCL_ACK_SEGMENTS_MAX);
				assert_true(!n || uccl_ack_len(lines, words, n) <= most);
				assert_true(n == UCCL_ACK_SEGMENTS_MAX ||
					    uccl_ack_len(lines, words, (uint8_t)(n + 1)) > most);
			}
}

TEST(ack_encode__round_trip)
{
	static const uint8_t sizes[][2] = {{0, 0}, {1, 0}, {0, 1}, {5, 7}, {UCCL_ACK_PATHS_MAX, UCCL_ACK_WORDS_MAX}};
	uint8_t out[UCCL_TAIL_MAX];

	for (unsigned int n = 0; n < uccl_array_len(sizes); n++) {
		struct uccl_ack a = block(sizes[n][0], sizes[n][1]), d;
		uint32_t len;

		a.rcv_short = n & 1;
		a.turn = (uint8_t)(n % UCCL_SLOTS_TURNS);
		a.met = (uint8_t)((n + 1) % UCCL_SLOTS_TURNS);
		a.nsegments = (uint8_t)(n * 4 % (UCCL_ACK_SEGMENTS_MAX + 1));
		a.nsegments = (uint8_t)uccl_min(a.nsegments, uccl_ack_segments_fit(a.npaths, a.nwords, UCCL_TAIL_MAX));
		for (uint8_t i = 0; i < a.nsegments; i++)
			a.segments[i] = (struct uccl_ack_segments){(uint16_t)(i * 1000u), i, (uint8_t)(64 - i),
								   UINT64_MAX >> i};
		len = uccl_ack_encode(out, &a);
		assert_int_equal(len, uccl_ack_len(a.npaths, a.nwords, a.nsegments));
		memset(&d, 0xff, sizeof(d));
		assert_int_equal(uccl_ack_decode(&d, out, len), UCCL_DROP_COUNT);
		assert_int_equal(d.cum, a.cum);
		assert_int_equal(d.dups, a.dups);
		assert_int_equal(d.msg_limit, a.msg_limit);
		assert_int_equal(d.slots, a.slots);
		assert_int_equal(d.rcv_short, a.rcv_short);
		assert_int_equal(d.turn, a.turn);
		assert_int_equal(d.met, a.met);
		assert_int_equal(d.npaths, a.npaths);
		assert_int_equal(d.nwords, a.nwords);
		for (int i = 0; i < a.npaths; i++) {
			assert_int_equal(d.paths[i].path, a.paths[i].path);
			assert_int_equal(d.paths[i].write, a.paths[i].write);
			assert_int_equal(d.paths[i].seq, a.paths[i].seq);
			assert_int_equal(d.paths[i].echo, a.paths[i].echo);
			assert_int_equal(d.paths[i].delay, a.paths[i].delay);
			assert_int_equal(d.paths[i].marked, a.paths[i].marked);
		}
		assert_memory_equal(d.sack, a.sack, a.nwords * sizeof(a.sack[0]));
		assert_int_equal(d.nsegments, a.nsegments);
		for (int i = 0; i < a.nsegments; i++) {
			assert_int_equal(d.segments[i].ahead, a.segments[i].ahead);
			assert_int_equal(d.segments[i].of, a.segments[i].of);
			assert_int_equal(d.segments[i].subs, a.segments[i].subs);
			assert_true(d.segments[i].have == a.segments[i].have);
		}
	}
}

TEST(ack_encode__slots_leave_room_for_the_flag)
{
	struct uccl_ack a = block(0, 0), d;
	uint8_t out[UCCL_TAIL_MAX];

	a.slots = UCCL_SLOTS_MAX;
	uccl_ack_encode(out, &a);
	assert_int_equal(uccl_ack_decode(&d, out, UCCL_ACK_FIXED), UCCL_DROP_COUNT);
	assert_int_equal(d.slots, UCCL_SLOTS_MAX);
	assert_false(d.rcv_short);
}

/* In blocks of their own, so that a sanitizer sees what is read behind them. */
TEST(ack_decode__short)
{
	struct uccl_ack a = block(0, 0), d;
	uint8_t out[UCCL_TAIL_MAX];

	uccl_ack_encode(out, &a);
	for (uint32_t n = 0; n < UCCL_ACK_FIXED; n++) {
		uint8_t *exact = malloc(n + 1);

		assert_non_null(exact);
		memcpy(exact + 1, out, n);
		assert_int_equal(uccl_ack_decode(&d, exact + 1, n), UCCL_DROP_LENGTH);
		free(exact);
	}
}

TEST(ack_decode__counts)
{
	struct uccl_ack a = block(2, 2), d;
	uint8_t out[4096] = {0};
	uint32_t len = uccl_ack_encode(out, &a);

	assert_int_equal(uccl_ack_decode(&d, out, len - 1), UCCL_DROP_LENGTH);
	assert_int_equal(uccl_ack_decode(&d, out, len + 1), UCCL_DROP_LENGTH);
	/* More than the decoded block holds, although the length agrees. */
	memset(out, 0, sizeof(out));
	out[14] = UCCL_ACK_PATHS_MAX + 1;
	assert_int_equal(uccl_ack_decode(&d, out, uccl_ack_len(out[14], 0, 0)), UCCL_DROP_LENGTH);
	out[14] = 0;
	out[15] = UCCL_ACK_WORDS_MAX + 1;
	assert_int_equal(uccl_ack_decode(&d, out, uccl_ack_len(0, out[15], 0)), UCCL_DROP_LENGTH);
}

TEST(ack_decode__path)
{
	struct uccl_ack a = block(2, 0), d;
	uint8_t out[UCCL_TAIL_MAX];
	uint32_t len;

	a.paths[1].path = UCCL_PATHS_MAX;
	len = uccl_ack_encode(out, &a);
	assert_int_equal(uccl_ack_decode(&d, out, len), UCCL_DROP_PATH);
}

/* Lines about segments: whole ones, no more than there may be, of a cut that can be. */
TEST(ack_decode__segments)
{
	struct uccl_ack a = block(1, 1), d;
	uint8_t out[4096] = {0};
	uint32_t len;

	a.nsegments = 3;
	for (uint8_t i = 0; i < 3; i++)
		a.segments[i] = (struct uccl_ack_segments){.ahead = (uint16_t)(i * 2u), .have = 1};
	len = uccl_ack_encode(out, &a);
	for (uint32_t cut = 1; cut < 12; cut++)
		assert_int_equal(uccl_ack_decode(&d, out, len - cut), UCCL_DROP_LENGTH);
	assert_int_equal(uccl_ack_decode(&d, out, len - 12), UCCL_DROP_COUNT);
	assert_int_equal(d.nsegments, 2);
	a.segments[2].subs = UCCL_SEGMENT_COUNT;
	len = uccl_ack_encode(out, &a);
	assert_int_equal(uccl_ack_decode(&d, out, len), UCCL_DROP_COUNT);
	a.segments[2].subs = UCCL_SEGMENT_COUNT + 1;
	len = uccl_ack_encode(out, &a);
	assert_int_equal(uccl_ack_decode(&d, out, len), UCCL_DROP_ACK);
	assert_int_equal(uccl_ack_decode(&d, out, uccl_ack_len(1, 1, UCCL_ACK_SEGMENTS_MAX + 1)), UCCL_DROP_LENGTH);
}

TEST(ts__wraps)
{
	assert_int_equal(uccl_ts(63), 0);
	assert_int_equal(uccl_ts(64), 1);
	assert_int_equal(uccl_ts((1ull << 38) + 640), 10);
}

TEST(imm__layout)
{
	assert_int_equal(uccl_imm(0x123456789abcull, 0xf), 0xf789abcu);
	assert_int_equal(uccl_imm(1ull << 24, 2), 0x2000000u);
	assert_int_equal(uccl_imm(5, 0x12), 0x2000005u);
}

TEST(desc_encode__round_trip)
{
	const struct uccl_desc d = {
		.id = 5, .gen = 6, .count = 3, .chunk = 4096, .offset = 1ull << 40, .len = 2 * 4096 + 1};
	struct uccl_desc e;
	uint8_t out[UCCL_REC_LEN];

	uccl_desc_encode(out, &d);
	assert_int_equal(uccl_desc_decode(&e, out), UCCL_DROP_COUNT);
	assert_int_equal(e.id, 5);
	assert_int_equal(e.gen, 6);
	assert_int_equal(e.count, 3);
	assert_int_equal(e.chunk, 4096);
	assert_true(e.offset == 1ull << 40);
	assert_true(e.len == 2 * 4096 + 1);
}

TEST(desc_decode__malformed)
{
	static const struct {
		struct uccl_desc d;
		bool good;
	} v[] = {
		{{.count = 1, .chunk = 100, .len = 100}, true},
		{{.count = 1, .chunk = 100, .len = 1}, true},
		{{.count = 0, .chunk = 100, .len = 0}, false},
		{{.count = 0, .chunk = 100, .len = 100}, false},
		{{.count = 1, .chunk = 0, .len = 0}, false},
		{{.count = 1, .chunk = 100, .len = 0}, false},
		{{.count = 1, .chunk = 100, .len = 101}, false}, /* more than its chunks */
		{{.count = 2, .chunk = 100, .len = 100}, false}, /* an empty chunk */
		{{.count = 2, .chunk = 100, .len = 101}, true},
		{{.count = 1, .chunk = 100, .len = 100, .offset = UINT64_MAX - 99}, false},
		{{.count = 1, .chunk = 100, .len = 100, .offset = UINT64_MAX - 100}, true},
		{{.count = UINT32_MAX, .chunk = UINT32_MAX, .len = (uint64_t)UINT32_MAX * UINT32_MAX}, true},
		{{.count = UINT32_MAX, .chunk = UINT32_MAX, .len = UINT64_MAX}, false},
		{{.count = 1u << 31, .chunk = 2, .len = 1}, false},
	};
	struct uccl_desc e;
	uint8_t out[UCCL_REC_LEN];

	for (unsigned int i = 0; i < uccl_array_len(v); i++) {
		uccl_desc_encode(out, &v[i].d);
		assert_int_equal(uccl_desc_decode(&e, out), v[i].good ? UCCL_DROP_COUNT : UCCL_DROP_RECORD);
	}
}

/* Of a segment, and of its sub-segments: those of odd index bring the end of the record. */
TEST(segment_encode__layout)
{
	static const uint8_t want[3][8] = {{5, 40, 0, 0, 0x44, 0x33, 0x02, 0},
					   {5, 40, 6, 8, 0x44, 0x33, 0x02, 0},
					   {5, 40, 7, 8, 0x44, 0x33, 0x02, 0}};
	uint8_t whole[UCCL_REC_LEN], out[UCCL_REC_LEN];

	for (uint8_t i = 0; i < UCCL_REC_LEN; i++)
		whole[i] = (uint8_t)(100 + i);
	for (int i = 0; i < 3; i++) {
		const struct uccl_segment s = {5, 40, want[i][2], want[i][3], 0x23344};
		struct uccl_segment d;

		uccl_segment_encode(out, whole, &s);
		assert_memory_equal(out, whole + (i == 2 ? 8 : 0), UCCL_SEGMENT_REC);
		assert_memory_equal(out + UCCL_SEGMENT_REC, want[i], sizeof(want[i]));
		uccl_segment_read(&d, out);
		assert_memory_equal(&d, &s, sizeof(s));
		assert_int_equal(uccl_segment_subs(out), s.subs);
	}
}

/* How long is this one of `count`, if it is one? 0: it is none. */
static uint32_t cut_len(uint32_t total, uint32_t index, uint32_t count)
{
	uint32_t each;

	if (!count || count > UCCL_SEGMENT_COUNT || index >= count)
		return 0;
	each = ((total + count - 1) / count + 7) / 8 * 8;
	if ((count - 1) * each >= total)
		return 0;
	return index + 1 == count ? total - index * each : each;
}

/* Of every length and every number of them: exactly those that make up the chunk. PROTOCOL R170 R216 */
TEST(segment_decode__every_cut)
{
	const uint8_t whole[UCCL_REC_LEN] = {0};
	uint8_t out[UCCL_REC_LEN];
	struct uccl_segment d;

	for (uint32_t total = 0; total <= 600; total++)
		for (uint32_t count = 0; count <= 66; count++) {
			uint32_t sum = 0;

			for (uint32_t index = 0; index <= count + 1; index++) {
				const struct uccl_segment s = {(uint8_t)index, (uint8_t)count, 0, 0, total};
				uint32_t is = cut_len(total, index, count);

				uccl_segment_encode(out, whole, &s);
				for (uint32_t len = is > 2 ? is - 2 : 0; len <= is + 2; len++)
					assert_int_equal(uccl_segment_decode(&d, out, len),
							 is && len == is ? UCCL_DROP_COUNT : UCCL_DROP_RECORD);
				sum += is;
				if (is)
					assert_int_equal(uccl_segment_len(total, (uint8_t)index, (uint8_t)count), is);
			}
			assert_true(sum == total || !sum);
		}
}

/* The same of what a segment is cut into; one of them would be the segment itself. PROTOCOL R153 */
TEST(segment_decode__every_sub)
{
	static const struct uccl_segment of[] = {{.index = 0, .count = 1, .total = 300},
						 {.index = 2, .count = 3, .total = 2 * 200 + 77},
						 {.index = 1, .count = 3, .total = 2 * 200 + 77}};
	const uint8_t whole[UCCL_REC_LEN] = {0};
	uint8_t out[UCCL_REC_LEN];
	struct uccl_segment d;

	for (int i = 0; i < 3; i++) {
		uint32_t total = cut_len(of[i].total, of[i].index, of[i].count);

		for (uint32_t subs = 1; subs <= 66; subs++)
			for (uint32_t sub = 0; sub <= subs + 1; sub++) {
				struct uccl_segment s = of[i];
				uint32_t is = subs > 1 ? cut_len(total, sub, subs) : 0;

				s.sub = (uint8_t)sub;
				s.subs = (uint8_t)subs;
				uccl_segment_encode(out, whole, &s);
				for (uint32_t len = is > 2 ? is - 2 : 0; len <= is + 2; len++)
					assert_int_equal(uccl_segment_decode(&d, out, len),
							 is && len == is ? UCCL_DROP_COUNT : UCCL_DROP_RECORD);
			}
	}
	/* One that is none of none, or of a segment that is none. */
	for (int i = 0; i < 3; i++) {
		static const struct uccl_segment bad[] = {{0, 1, 1, 0, 100}, {0, 0, 0, 2, 96}, {3, 3, 0, 2, 96}};

		uccl_segment_encode(out, whole, &bad[i]);
		assert_int_equal(uccl_segment_decode(&d, out, i ? 48 : 100), UCCL_DROP_RECORD);
	}
}

/* None is longer than a packet can be, even if the last one is not. PROTOCOL R170 */
TEST(segment_decode__too_long)
{
	struct uccl_segment s = {.index = 39, .count = 40, .total = 39u * 65536 + 8}, d;
	const uint8_t whole[UCCL_REC_LEN] = {0};
	uint8_t out[UCCL_REC_LEN];

	uccl_segment_encode(out, whole, &s);
	assert_int_equal(uccl_segment_decode(&d, out, 8), UCCL_DROP_RECORD);
	s.total = 40u * 65528;
	uccl_segment_encode(out, whole, &s);
	assert_int_equal(uccl_segment_decode(&d, out, 65528), UCCL_DROP_COUNT);
}

#define ROW_EACH (UCCL_HDR_LEN + 10)
#define ROW_LEN (4 * ROW_EACH + UCCL_HDR_LEN + 7)

/* Five segments of 10 bytes, the last of 7. */
static struct uccl_hdr row_make(uint8_t *data, uint8_t flags)
{
	struct uccl_hdr h, first = {0};

	memset(data, 0xaa, ROW_LEN);
	for (uint8_t i = 0; i < 5; i++) {
		const struct uccl_segment s = {.index = i, .count = 5, .total = 47};
		const uint8_t whole[UCCL_REC_LEN] = {1, 2, 3};
		uint8_t rec[UCCL_REC_LEN];

		uccl_segment_encode(rec, whole, &s);
		h = (struct uccl_hdr){.type = UCCL_PKT_SEGMENT, .flags = flags, .rtype = 66, .path = 3, .token = 9};
		h.csn = 77;
		h.pseq = 0xfffffffe + i;
		h.ts = 99;
		h.payload_len = i < 4 ? 10 : 7;
		h.rec = rec;
		uccl_hdr_encode(data + i * ROW_EACH, &h);
	}
	assert_int_equal(uccl_hdr_decode(&first, data, ROW_EACH), UCCL_DROP_COUNT);
	return first;
}

/* Whatever else differs than what counts segments, the row ends before it; AR is taken along. PROTOCOL R173 */
TEST(segment_row__every_bit)
{
	static uint8_t data[ROW_LEN];
	struct uccl_hdr h;

	for (uint32_t bit = 0; bit < 8 * UCCL_HDR_LEN; bit++)
		for (uint32_t i = 1; i < 5; i++) {
			uint8_t flag = bit >= 32 && bit < 40 ? (uint8_t)(1u << (bit - 32) & UCCL_FLAGS_ROW) : 0;

			h = row_make(data, 0);
			data[i * ROW_EACH + bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_equal(uccl_segment_row(&h, data, ROW_EACH, ROW_LEN), flag ? ROW_LEN : i * ROW_EACH);
			assert_int_equal(h.flags, flag);
		}
}

/* Of each length: no byte behind it is looked at. Nor is there a row of anything else. */
TEST(segment_row__every_length)
{
	struct uccl_hdr h, first;
	uint8_t data[ROW_LEN];

	for (uint32_t len = ROW_EACH; len < ROW_LEN; len++) {
		uint8_t *exact = malloc(len);

		assert_non_null(exact);
		h = row_make(data, UCCL_FLAG_RTX);
		memcpy(exact, data, len);
		assert_int_equal(uccl_segment_row(&h, exact, ROW_EACH, len), len / ROW_EACH * ROW_EACH);
		free(exact);
	}
	first = row_make(data, 0);
	h = first;
	assert_int_equal(uccl_segment_row(&h, data, ROW_EACH, ROW_LEN), ROW_LEN);
	h.type = UCCL_PKT_CHUNK;
	assert_int_equal(uccl_segment_row(&h, data, ROW_EACH, ROW_LEN), ROW_EACH);
	h = first;
	h.tail_len = 1;
	assert_int_equal(uccl_segment_row(&h, data, ROW_EACH, ROW_LEN), ROW_EACH);
	for (int i = 26; i < 28; i++) {
		h = row_make(data, 0);
		for (uint32_t k = 0; k < 5; k++)
			data[k * ROW_EACH + 32u + (uint32_t)i] = 2;
		assert_int_equal(uccl_segment_row(&h, data, ROW_EACH, ROW_LEN), ROW_EACH);
	}
	h = row_make(data, UCCL_FLAG_AR);
	h.flags |= UCCL_FLAG_SEALED;
	assert_int_equal(uccl_segment_row(&h, data, ROW_EACH, ROW_LEN), ROW_EACH);
}

TEST(rec_set_bulk__layout)
{
	static const uint8_t want[16] = {4, 3, 2, 1, 8, 7, 6, 5, 0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 9};
	uint8_t out[UCCL_REC_LEN];

	uccl_rec_set_bulk(out, 0x01020304, 0x05060708, 0x090a0b0c0d0e0f10);
	assert_memory_equal(out, want, sizeof(want));
}

TESTS_MAIN

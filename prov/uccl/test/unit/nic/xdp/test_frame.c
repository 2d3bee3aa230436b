/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/xdp/frame.h"

#include "../../tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define MOST 9000

static const struct uccl_frame_route way4 = {.to_mac = {2, 1, 2, 3, 4, 5},
					     .from_mac = {2, 9, 8, 7, 6, 5},
					     .from.ip = {[10] = 0xff, 0xff, 10, 88, 0, 1}};
static const struct uccl_frame_route way6 = {.to_mac = {2, 1, 2, 3, 4, 5},
					     .from_mac = {2, 9, 8, 7, 6, 5},
					     .from.ip = {0xfd, 1, [15] = 1}};
static const struct uccl_nic_addr to4 = {.ip = {[10] = 0xff, 0xff, 10, 88, 0, 2}, .port = 4791};
static const struct uccl_nic_addr to6 = {.ip = {0xfd, 1, [15] = 2}, .port = 4791};

static uint8_t payload[MOST], frame[MOST + UCCL_FRAME_V6];

static uint32_t make(bool v4, uint32_t len, uint8_t tos)
{
	struct iovec piece = {payload, len};

	memset(frame, 0xa5, sizeof(frame));
	return uccl_frame_build(frame, v4 ? &way4 : &way6, 777, v4 ? &to4 : &to6, tos, &piece, 1);
}

static int setup(void **state)
{
	for (uint32_t i = 0; i < MOST; i++)
		payload[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

/* A copy of exactly its length, so that a sanitizer sees who reads on. */
static enum uccl_frame_fault parse(const uint8_t *f, uint32_t len, struct uccl_frame *out)
{
	uint8_t *exact = malloc(len ? len : 1);
	enum uccl_frame_fault fault;

	assert_non_null(exact);
	memcpy(exact, f, len);
	fault = uccl_frame_parse(exact, len, out);
	if (fault == UCCL_FRAME_GOOD)
		out->data = f + (out->data - exact);
	free(exact);
	return fault;
}

/* Checksums as RFC 1071 has them, byte by byte, to compare with. */
static uint32_t slow_sum(const uint8_t *p, size_t n, uint32_t sum)
{
	for (size_t i = 0; i < n; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* "hello" as it left a socket of Linux, its checksums by the kernel, not the NIC. */
TEST_IN(parse__known, setup, NULL)
{
	static const uint8_t known[] = {
		0x02, 0x01, 0x02, 0x03, 0x04, 0x05, 0x02, 0x09, 0x08, 0x07, 0x06, 0x05, 0x08, 0x00, 0x45, 0x00,
		0x00, 0x21, 0xa5, 0x90, 0x40, 0x00, 0x40, 0x11, 0x80, 0x89, 0x0a, 0x58, 0x00, 0x01, 0x0a, 0x58,
		0x00, 0x02, 0x30, 0x39, 0x12, 0xb7, 0x00, 0x0d, 0x64, 0x5f, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
	};
	struct uccl_frame f;
	uint8_t copy[sizeof(known)];

	memcpy(copy, known, sizeof(known));
	/* The two sums are checked against the slow way first. */
	assert_int_equal(slow_sum(copy + 14, 20, 0), 0xffff);
	assert_int_equal(slow_sum(copy + 34, 13, slow_sum(copy + 26, 8, 17 + 13)), 0xffff);
	assert_int_equal(parse(copy, sizeof(copy), &f), UCCL_FRAME_GOOD);
	assert_int_equal(f.len, 5);
	assert_memory_equal(f.data, "hello", 5);
	assert_memory_equal(f.src.ip, way4.from.ip, 16);
	assert_memory_equal(f.dst.ip, to4.ip, 16);
	assert_int_equal(f.src.port, 12345);
	assert_int_equal(f.dst.port, 4791);
	assert_false(f.marked);
}

/* Whatever was put together is what is read, for each length, and both checksums are right. */
TEST_IN(build__every_length, setup, NULL)
{
	for (int v4 = 0; v4 < 2; v4++)
		for (uint32_t len = 0; len <= MOST; len += len < 2200 ? 1 : 97) {
			uint32_t headers = v4 ? UCCL_FRAME_V4 : UCCL_FRAME_V6;
			uint32_t all = make(v4, len, len % 2 ? 48 << 2 | 2 : 0);
			uint32_t ips = v4 ? 8 : 32, udp = headers - 8, sum;
			struct uccl_frame f;

			assert_int_equal(all, headers + len);
			assert_int_equal(headers, uccl_frame_headers(v4 ? &to4 : &to6));
			assert_int_equal(frame[all], 0xa5);
			assert_memory_equal(frame, "\2\1\2\3\4\5\2\11\10\7\6\5", 12);
			if (v4)
				assert_int_equal(slow_sum(frame + 14, 20, 0), 0xffff);
			sum = slow_sum(frame + udp - ips, ips, 17 + 8 + len);
			assert_int_equal(slow_sum(frame + udp, 8 + len, sum), 0xffff);
			assert_int_equal(parse(frame, all, &f), UCCL_FRAME_GOOD);
			assert_int_equal(f.len, len);
			assert_ptr_equal(f.data, frame + headers);
			assert_memory_equal(f.data, payload, len);
			assert_memory_equal(&f.src.ip, v4 ? way4.from.ip : way6.from.ip, 16);
			assert_memory_equal(&f.dst, v4 ? &to4 : &to6, sizeof(f.dst));
			assert_int_equal(f.src.port, 777);
		}
}

TEST_IN(build__pieces, setup, NULL)
{
	struct iovec piece[4] = {{payload, 3}, {NULL, 0}, {payload + 3, 60}, {payload + 63, 1}};
	uint8_t whole[200];
	uint32_t all = make(true, 64, 0);

	memcpy(whole, frame, all);
	assert_int_equal(uccl_frame_build(frame, &way4, 777, &to4, 0, piece, 4), all);
	assert_memory_equal(frame, whole, all);
}

/* Never a packet that IP cannot hold, or of two families. */
TEST_IN(build__refused, setup, NULL)
{
	uint8_t *big = calloc(1, 1 << 18);
	struct iovec piece = {big, 65507};
	struct uccl_frame f;

	assert_non_null(big);
	assert_int_equal(uccl_frame_build(big + 100000, &way4, 1, &to4, 0, &piece, 1), 65507 + UCCL_FRAME_V4);
	assert_int_equal(uccl_frame_parse(big + 100000, 65507 + UCCL_FRAME_V4, &f), UCCL_FRAME_GOOD);
	piece.iov_len = 65508;
	assert_int_equal(uccl_frame_build(big + 100000, &way4, 1, &to4, 0, &piece, 1), 0);
	piece.iov_len = 65528;
	assert_int_equal(uccl_frame_build(big + 100000, &way6, 1, &to6, 0, &piece, 1), 0);
	piece.iov_len = 1;
	assert_int_equal(uccl_frame_build(big, &way6, 1, &to4, 0, &piece, 1), 0);
	assert_int_equal(uccl_frame_build(big, &way4, 1, &to6, 0, &piece, 1), 0);
	free(big);
}

/* A checksum that happens to be zero is sent as all ones. */
TEST_IN(build__zero_checksum, setup, NULL)
{
	struct iovec piece = {payload, 2};
	struct uccl_frame f;

	for (int i = 0; i < 0x10000; i++) {
		payload[0] = (uint8_t)(i >> 8);
		payload[1] = (uint8_t)i;
		uccl_frame_build(frame, &way6, 777, &to6, 0, &piece, 1);
		assert_false(!frame[UCCL_FRAME_V6 - 2] && !frame[UCCL_FRAME_V6 - 1]);
		assert_int_equal(uccl_frame_parse(frame, UCCL_FRAME_V6 + 2, &f), UCCL_FRAME_GOOD);
	}
}

/* IPv6: other ports are other flows for a network that looks at labels only. */
TEST_IN(build__flow_label, setup, NULL)
{
	struct iovec piece = {payload, 2};
	uint8_t first[4];
	int same = 0;

	uccl_frame_build(frame, &way6, 1000, &to6, 0, &piece, 1);
	memcpy(first, frame + 14, 4);
	for (int i = 1; i < 64; i++) {
		uccl_frame_build(frame, &way6, (uint16_t)(1000 + i), &to6, 0, &piece, 1);
		same += !memcmp(first, frame + 14, 4);
	}
	assert_int_equal(same, 0);
}

TEST_IN(parse__short, setup, NULL)
{
	struct uccl_frame f;

	for (int v4 = 0; v4 < 2; v4++) {
		uint32_t all = make(v4, 100, 0);

		for (uint32_t len = 0; len < all; len++)
			assert_int_equal(parse(frame, len, &f), UCCL_FRAME_SHORT);
		/* Short frames are padded on the wire. */
		assert_int_equal(parse(frame, all + 18, &f), UCCL_FRAME_GOOD);
		assert_int_equal(f.len, 100);
	}
}

/* Every bit that is covered by a checksum, or says what kind of packet it is. */
TEST_IN(parse__each_bit, setup, NULL)
{
	struct uccl_frame f;

	for (int v4 = 0; v4 < 2; v4++) {
		uint32_t all = make(v4, 64, 0), ip = UCCL_FRAME_ETHER, bit;

		for (bit = 12 * 8; bit < all * 8; bit++) {
			uint32_t at = bit / 8;
			/* Traffic class, flow label and hop limit of IPv6 are covered by nothing. */
			bool open = !v4 && ((at == ip && bit % 8 < 4) || (at > ip && at < ip + 4) || at == ip + 7);

			frame[at] ^= (uint8_t)(1 << bit % 8);
			assert_int_equal(parse(frame, all, &f) == UCCL_FRAME_GOOD, open);
			frame[at] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

/* Put the sums of a header right that a test has changed. */
static void sums_mend(bool v4, uint32_t udp_len)
{
	uint32_t udp = (v4 ? UCCL_FRAME_V4 : UCCL_FRAME_V6) - 8, ips = v4 ? 8 : 32, sum;

	if (v4) {
		frame[24] = frame[25] = 0;
		sum = ~slow_sum(frame + 14, 20, 0);
		frame[24] = (uint8_t)(sum >> 8);
		frame[25] = (uint8_t)sum;
	}
	frame[udp + 6] = frame[udp + 7] = 0;
	sum = ~slow_sum(frame + udp, udp_len, slow_sum(frame + udp - ips, ips, 17 + udp_len));
	frame[udp + 6] = (uint8_t)(sum >> 8);
	frame[udp + 7] = (uint8_t)sum;
}

TEST_IN(parse__foreign, setup, NULL)
{
	static const struct {
		bool v4;
		uint32_t at;
		uint8_t value;
	} change[] = {
		{true, 12, 0x81}, {true, 13, 0x06},  {true, 14, 0x46}, {true, 14, 0x65},  {true, 23, 6},
		{true, 20, 0x20}, {true, 21, 0x01},  {false, 14, 0x40}, {false, 20, 6},	  {false, 20, 44},
		{false, 20, 0},
	};
	struct uccl_frame f;

	for (size_t i = 0; i < uccl_array_len(change); i++) {
		uint32_t all = make(change[i].v4, 64, 0);

		frame[change[i].at] = change[i].value;
		if (change[i].at > 13)
			sums_mend(change[i].v4, 72);
		assert_int_equal(parse(frame, all, &f), UCCL_FRAME_FOREIGN);
	}
}

/* Each length that UDP can claim, in an IP packet of one length, and IP lengths that leave no room. */
TEST_IN(parse__lengths, setup, NULL)
{
	struct uccl_frame f;

	for (int v4 = 0; v4 < 2; v4++) {
		uint32_t udp = (v4 ? UCCL_FRAME_V4 : UCCL_FRAME_V6) - 8, all = make(v4, 64, 0);

		for (uint32_t len = 0; len < 300; len++) {
			frame[udp + 4] = (uint8_t)(len >> 8);
			frame[udp + 5] = (uint8_t)len;
			if (len >= 8 && len <= 72) {
				sums_mend(v4, len);
				assert_int_equal(parse(frame, all, &f), UCCL_FRAME_GOOD);
				assert_int_equal(f.len, len - 8);
			} else {
				assert_int_equal(parse(frame, all, &f), UCCL_FRAME_LENGTHS);
			}
		}
		make(v4, 64, 0);
		frame[v4 ? 16 : 18] = 0;
		for (int len = 0; len < (v4 ? 28 : 8); len++) {
			frame[v4 ? 17 : 19] = (uint8_t)len;
			if (v4)
				sums_mend(true, 72);
			assert_int_equal(parse(frame, all, &f), UCCL_FRAME_LENGTHS);
		}
	}
}

/* None is well with IPv4 only; that of the pseudo header alone comes from a neighbour on this host. */
TEST_IN(parse__checksum_forms, setup, NULL)
{
	struct uccl_frame f;

	for (int v4 = 0; v4 < 2; v4++) {
		uint32_t all = make(v4, 64, 0), udp = (v4 ? UCCL_FRAME_V4 : UCCL_FRAME_V6) - 8, ips = v4 ? 8 : 32;
		uint32_t sum = slow_sum(frame + udp - ips, ips, 17 + 72);

		frame[udp + 6] = frame[udp + 7] = 0;
		assert_int_equal(parse(frame, all, &f), v4 ? UCCL_FRAME_GOOD : UCCL_FRAME_CHECKSUM);
		frame[udp + 6] = (uint8_t)(sum >> 8);
		frame[udp + 7] = (uint8_t)sum;
		assert_int_equal(parse(frame, all, &f), UCCL_FRAME_GOOD);
		frame[udp + 7]++;
		assert_int_equal(parse(frame, all, &f), UCCL_FRAME_CHECKSUM);
	}
}

TEST_IN(parse__sources, setup, NULL)
{
	struct uccl_frame f;
	uint32_t all = make(true, 64, 0);

	for (int first = 0; first < 256; first++) {
		frame[26] = (uint8_t)first;
		sums_mend(true, 72);
		assert_int_equal(parse(frame, all, &f), first >= 224 ? UCCL_FRAME_SOURCE : UCCL_FRAME_GOOD);
	}
	memset(frame + 26, 0, 4);
	sums_mend(true, 72);
	assert_int_equal(parse(frame, all, &f), UCCL_FRAME_SOURCE);
	make(true, 64, 0);
	frame[34] = frame[35] = 0;
	sums_mend(true, 72);
	assert_int_equal(parse(frame, all, &f), UCCL_FRAME_SOURCE);
	all = make(false, 64, 0);
	frame[22] = 0xff;
	sums_mend(false, 72);
	assert_int_equal(parse(frame, all, &f), UCCL_FRAME_SOURCE);
	memset(frame + 22, 0, 16);
	sums_mend(false, 72);
	assert_int_equal(parse(frame, all, &f), UCCL_FRAME_SOURCE);
	/* An address of IPv4 in a packet of IPv6 would let others seem to be whom they are not. */
	for (uint32_t at = 22; at <= 38; at += 16) {
		make(false, 64, 0);
		memcpy(frame + at, way4.from.ip, 16);
		sums_mend(false, 72);
		assert_int_equal(parse(frame, all, &f), UCCL_FRAME_SOURCE);
	}
}

/* A traffic class, with what may be marked, and what is. */
TEST_IN(parse__marks, setup, NULL)
{
	struct uccl_frame f;

	for (int v4 = 0; v4 < 2; v4++) {
		uint8_t shift = v4 ? 0 : 4;

		for (int tos = 0; tos < 256; tos++) {
			uint32_t all = make(v4, 64, (uint8_t)tos);

			assert_int_equal(v4 ? frame[15] : (frame[14] << 4 | frame[15] >> 4) & 0xff, tos);
			for (uint8_t ecn = 0; ecn < 4; ecn++) {
				frame[15] = (uint8_t)((frame[15] & ~(3 << shift)) | ecn << shift);
				sums_mend(v4, 72);
				assert_int_equal(parse(frame, all, &f), UCCL_FRAME_GOOD);
				assert_int_equal(f.marked, ecn == 3);
			}
		}
	}
}

TESTS_MAIN

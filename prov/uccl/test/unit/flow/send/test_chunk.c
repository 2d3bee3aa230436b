/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/chunk.h"

#include "../../tests.h"

#include "base/rng.h"

#define KIB 1024u

static struct uccl_chunk c;

TEST(init__sizes)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, false);
	assert_int_equal(c.bytes, 32 * KIB);
	assert_int_equal(c.least, 4 * KIB);
	/* One packet at most: nothing to be made smaller. */
	uccl_chunk_init(&c, 4 * KIB, 4000, false);
	assert_int_equal(c.least, 4 * KIB);
	uccl_chunk_init(&c, 1000, 4000, false);
	assert_int_equal(c.least, 1000);
	/* Halves that are no whole words are none. PROTOCOL R216 */
	uccl_chunk_init(&c, 8 * 12 * 5, 1, false);
	assert_int_equal(c.least, 8 * 15);
}

/* What so many packets of which each is lost by this chance make of it in the long run: the mean of bytes. */
static uint32_t mean(double chance, uint32_t n)
{
	struct uccl_rng rng;
	uint64_t sum = 0;

	uccl_rng_seed(&rng, 5);
	for (uint32_t i = 0; i < n; i++) {
		bool lost = false;

		for (uint32_t p = 0; p < c.bytes / c.least; p++)
			lost |= uccl_rng_chance(&rng, chance);
		uccl_chunk_fate(&c, lost);
		sum += c.bytes;
	}
	return (uint32_t)(sum / n);
}

TEST(fate__shrinks_and_grows)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, false);
	assert_int_equal(mean(0, 10000), 32 * KIB);
	assert_int_equal(mean(1. / 16384, 100000), 32 * KIB);
	mean(1. / 256, 5000);
	assert_in_range(mean(1. / 256, 100000), 4 * KIB, 16 * KIB);
	mean(1. / 16, 5000);
	assert_int_equal(mean(1. / 16, 10000), 4 * KIB);
	mean(1. / 16384, 20000);
	assert_in_range(mean(1. / 16384, 100000), 30 * KIB, 32 * KIB);
}

/* Seven in a row are chance, the eighth is not; but not the eighth of a thousand. */
TEST(fate__chance)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, false);
	for (int i = 0; i < 7; i++)
		uccl_chunk_fate(&c, true);
	assert_int_equal(c.bytes, 32 * KIB);
	uccl_chunk_fate(&c, true);
	assert_int_equal(c.bytes, 16 * KIB);
	for (int i = 0; i < 4000; i++) {
		uccl_chunk_fate(&c, i % 128 == 0);
		assert_int_equal(c.bytes, 16 * KIB);
	}
}

/* A flow that has begun. */
static void begun(uint32_t most)
{
	uccl_chunk_init(&c, most, 4000, false);
	for (uint32_t i = 0; i < UCCL_CHUNK_BEGIN; i++)
		uccl_chunk_fate(&c, false);
}

/* So many packets come, each write as large as it may be. */
static void come(uint32_t packets)
{
	while (packets) {
		uccl_chunk_fate(&c, false);
		packets -= uccl_min(packets, c.bytes / c.least);
	}
}

/* PROTOCOL R255 */
TEST(init__brittle)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	assert_int_equal(c.bytes, 4 * KIB);
	assert_int_equal(c.most, 32 * KIB);
}

/* Twice as large after as many packets each time, however many writes those are. PROTOCOL R255 */
TEST(fate__brittle_grows)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	for (uint32_t kib = 4; kib < 32; kib *= 2) {
		for (uint32_t n = 1; n < 512 * 4 / kib; n++)
			uccl_chunk_fate(&c, false);
		assert_int_equal(c.bytes, kib * KIB);
		uccl_chunk_fate(&c, false);
		assert_int_equal(c.bytes, 2 * kib * KIB);
	}
	come(1 << 20);
	assert_int_equal(c.bytes, 32 * KIB);
}

/* One loss, and they are one packet; each try that ends so makes the next one come later. PROTOCOL R255 */
TEST(fate__brittle_loss)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	for (uint32_t clean = 512; clean <= 65536; clean *= 2) {
		come(clean - 1);
		assert_int_equal(c.bytes, 4 * KIB);
		come(1);
		assert_int_equal(c.bytes, 8 * KIB);
		come(4 * clean);
		assert_int_equal(c.bytes, 32 * KIB);
		/* What else is lost of the same is the same failure. */
		for (int i = 0; i < 20; i++)
			uccl_chunk_fate(&c, true);
		assert_int_equal(c.bytes, 4 * KIB);
	}
	/* Not later than that. */
	come(65536);
	assert_int_equal(c.bytes, 8 * KIB);
}

/* A loss between writes of a packet begins the wait anew. PROTOCOL R255 */
TEST(fate__brittle_wait)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	come(511);
	uccl_chunk_fate(&c, true);
	come(511);
	assert_int_equal(c.bytes, 4 * KIB);
	come(1);
	assert_int_equal(c.bytes, 8 * KIB);
}

/* Many are never lost: of a network that loses one packet in 256 nearly all writes are of one packet. */
TEST(fate__brittle_seldom)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	mean(1. / 256, 20000);
	assert_in_range(mean(1. / 256, 100000), 4 * KIB, 4 * KIB + 40);
	mean(0, 140000);
	assert_int_equal(mean(0, 10000), 32 * KIB);
}

TEST(bytes__few_in_the_window)
{
	begun(32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, UINT64_MAX, 0, 100, 0, 0), 32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 128 * KIB, 0, 100, 0, 0), 32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 128 * KIB - 1, 0, 100, 0, 0), 16 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 0, 0, 100, 0, 0), 4 * KIB);
}

/* So small that all slots hold less than eight windows they are not, whatever is lost. */
TEST(bytes__few_slots)
{
	begun(32 * KIB);
	for (int i = 0; i < 100; i++)
		uccl_chunk_fate(&c, true);
	assert_int_equal(uccl_chunk_bytes(&c, 128 * KIB, 1 << 30, 256, 0, 0), 4 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 128 * KIB + 1, 0, 256, 0, 0), 8 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 8192 * KIB - 1, 0, 256, 0, 0), 32 * KIB);
	/* Without a window that limits anything eight times what is in flight. */
	assert_int_equal(uccl_chunk_bytes(&c, 8192 * KIB, 128 * KIB, 256, 0, 0), 4 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, UINT64_MAX, 128 * KIB + 1, 256, 0, 0), 8 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, UINT64_MAX, 1 << 30, 256, 0, 0), 32 * KIB);
	/* Nor larger than the window has them. */
	assert_int_equal(uccl_chunk_bytes(&c, 64 * KIB, 0, 4, 0, 0), 16 * KIB);
}

/* Half as large while more than two of the largest wait in queues, a quarter from four on. PROTOCOL R277 */
TEST(bytes__queues)
{
	begun(32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 64 * KIB), 32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 64 * KIB + 1), 16 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 128 * KIB), 16 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 128 * KIB + 1), 8 * KIB);
	/* Slots that are few make them larger again, a window that holds few smaller yet. */
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 511, 0, 1 << 30), 32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 64 * KIB - 1, 0, 1024, 0, 1 << 30), 8 * KIB);
	/* Losses have made them so already. */
	for (int i = 0; i < 8; i++)
		uccl_chunk_fate(&c, true);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 128 * KIB), 16 * KIB);
	/* One packet stays one. */
	begun(4 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 4096, 0, 1 << 30), 4 * KIB);
	/* What a peer takes for the size of its choice is not changed. */
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	come(4096);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 1 << 20, 1 << 30), 32 * KIB);
}

/* A flow begins with shorter ones: the mean RTT tells late of queues. PROTOCOL R277 */
TEST(bytes__begin)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, false);
	for (uint32_t i = 0; i < UCCL_CHUNK_BEGIN; i++) {
		assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 0), 8 * KIB);
		uccl_chunk_fate(&c, i == 1);
	}
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 0), 32 * KIB);
	/* One packet stays one. */
	uccl_chunk_init(&c, 4 * KIB, 4000, false);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 0, 1024, 0, 0), 4 * KIB);
}

/* Those that grew take no longer than a moment, and slots that are few make none larger. PROTOCOL R255 */
TEST(bytes__brittle)
{
	uccl_chunk_init(&c, 32 * KIB, 4000, true);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 1 << 20, 16, 1 << 20, 0), 4 * KIB);
	come(4096);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 1 << 20, 16, 32 * KIB, 0), 32 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 1 << 20, 16, 32 * KIB - 1, 0), 16 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 1 << 20, 16, 10000, 0), 8 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 1 << 20, 1 << 20, 16, 0, 0), 4 * KIB);
	assert_int_equal(uccl_chunk_bytes(&c, 64 * KIB, 1 << 20, 16, 1 << 20, 0), 16 * KIB);
}

TESTS_MAIN

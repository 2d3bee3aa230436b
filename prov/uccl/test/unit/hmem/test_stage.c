/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/stage.h"

#include "../tests.h"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../fake_cuda/fake_cuda.h"
#include "hmem/cuda.h"

#define BYTES (40u << 20)

static const struct uccl_device_ops *const d = &uccl_stage_device;
static struct uccl_stage *s;
static struct uccl_dmabufs given;
static struct uccl_stage_attr attr = { .hmem = &uccl_cuda_hmem, .given = &given };
static uint8_t *gpu[2], *in, *out;
static int err;

static int setup(void **state)
{
	const char *missing;

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	assert_int_equal(uccl_cuda_open(UCCL_CUDA_FILE, &missing), 0);
	uccl_dmabufs_init(&given);
	for (int i = 0; i < 2; i++)
		gpu[i] = fake_cuda_alloc(i, BYTES);
	in = malloc(BYTES);
	out = malloc(BYTES);
	for (size_t i = 0; i < BYTES; i++)
		in[i] = (uint8_t)(i * 7 + (i >> 9));
	return 0;
}

static int teardown(void **state)
{
	free(in);
	free(out);
	fake_cuda_free(gpu[0]);
	fake_cuda_free(gpu[1]);
	return 0;
}

static void begin(void)
{
	err = 0;
	memset(out, 0, BYTES);
	assert_int_equal(uccl_stage_open(&attr, &s), 0);
}

static void end(void)
{
	assert_int_equal(fake_cuda_pending(), 0);
	uccl_stage_close(s);
}

static void finish(uint64_t ticket)
{
	while (d->poll(s) < ticket)
		;
	assert_int_equal(d->poll(s), ticket);
}

TEST(stage__there_and_back)
{
	static const size_t sizes[] = {1, 4096, UCCL_STAGE_PIECE, UCCL_STAGE_PIECE + 1, 3u << 20, BYTES};

	for (int i = 0; i < 6; i++)
		for (int keep = 0; keep < 2; keep++) {
			begin();
			assert_int_equal(d->put(s, gpu[0], in, sizes[i], keep, &err), 1);
			assert_int_equal(d->get(s, out, gpu[0], sizes[i], &err), 2);
			finish(2);
			assert_int_equal(err, 0);
			assert_memory_equal(in, out, sizes[i]);
			end();
		}
}

/* Where there is no memory for a mark, what was begun is waited for all the same. */
TEST(stage__no_marks)
{
	begin();
	fake_cuda_events(0);
	assert_int_equal(d->put(s, gpu[0], in, 5000, true, &err), 1);
	assert_int_equal(d->get(s, out, gpu[0], 5000, &err), 2);
	finish(2);
	assert_int_equal(err, 0);
	assert_memory_equal(in, out, 5000);
	assert_int_equal(fake_cuda_pending(), 0);
	fake_cuda_fail(1, 1);
	d->put(s, gpu[0], in, 5000, true, &err);
	finish(3);
	assert_int_equal(err, FI_EIO);
	fake_cuda_events(1);
	end();
}

/* What was queued first is done first, and what is taken at once may change when the call returns. */
TEST(stage__in_order)
{
	uint8_t one[100];
	uint64_t last = 0;

	begin();
	for (int i = 0; i < 3000; i++) {
		memset(one, i, sizeof(one));
		d->put(s, gpu[0], one, sizeof(one), false, &err);
		last = d->get(s, out + i * 100, gpu[0], sizeof(one), &err);
		if (i % 7 == 0)
			d->poll(s);
	}
	finish(last);
	for (int i = 0; i < 3000; i++)
		assert_true(out[i * 100] == (uint8_t)i && out[i * 100 + 99] == (uint8_t)i);
	end();
}

/* Neighbours go together: few copies of the device for many payloads. */
TEST(stage__joins_neighbours)
{
	unsigned int before = fake_cuda_copies();
	uint64_t last = 0;

	begin();
	for (size_t at = 0; at < 1000000; at += 1000)
		last = d->put(s, gpu[0] + at, in + at, 1000, false, &err);
	finish(last);
	assert_true(fake_cuda_copies() - before <= 5);
	fake_cuda_read(out, gpu[0], 1000000);
	assert_memory_equal(in, out, 1000000);
	/* Not those that only seem to be: they end elsewhere, or are somebody else's. */
	before = fake_cuda_copies();
	d->put(s, gpu[0], in, 10, false, &err);
	last = d->put(s, gpu[0] + 11, in + 11, 10, false, &err);
	finish(last);
	assert_int_equal(fake_cuda_copies() - before, 2);
	end();
}

/* More than the ring holds is taken, but says when it should be less. */
TEST(stage__room)
{
	uint64_t last = 0;
	int n = 0;

	begin();
	while (d->room(s)) {
		last = d->put(s, gpu[0] + (n % 600) * 60000, in + (n % 600) * 60000, 60000, false, &err);
		n++;
	}
	assert_in_range((uint64_t)n * 60000, UCCL_STAGE_RING, 3 * UCCL_STAGE_RING);
	finish(last);
	assert_true(d->room(s));
	fake_cuda_read(out, gpu[0], 500 * 60000);
	assert_memory_equal(in, out, 500 * 60000);
	end();
}

TEST(stage__two_devices)
{
	uint64_t last = 0;

	begin();
	for (uint32_t i = 0; i < 100; i++) {
		d->put(s, gpu[0] + i * 100, in + i * 5000, 100, false, &err);
		/* It reads what was put into the other one just before. */
		d->move(s, gpu[1] + i * 100, gpu[0] + i * 100, 100, &err);
		last = d->get(s, out + i * 100, gpu[1] + i * 100, 100, &err);
		/* And this is written after it was read. */
		d->put(s, gpu[1] + i * 100, in, 100, false, &err);
		last++;
	}
	finish(last);
	for (uint32_t i = 0; i < 100; i++)
		assert_memory_equal(out + i * 100, in + i * 5000, 100);
	assert_int_equal(err, 0);
	end();
}

/* What is lent is written by the device itself. */
TEST(stage__loans)
{
	uint8_t *mem[UCCL_STAGE_LOANS];

	begin();
	/* There is none before anything was copied. */
	assert_null(d->alloc(s, 1));
	d->put(s, gpu[0], in, UCCL_STAGE_LOAN, true, &err);
	finish(1);
	assert_null(d->alloc(s, UCCL_STAGE_LOAN + 1));
	for (uint32_t i = 0; i < UCCL_STAGE_LOANS; i++) {
		mem[i] = d->alloc(s, UCCL_STAGE_LOAN);
		assert_non_null(mem[i]);
		memset(mem[i], 0, UCCL_STAGE_LOAN);
		assert_int_equal(d->get(s, mem[i], gpu[0], UCCL_STAGE_LOAN - i, &err), 2 + i);
	}
	assert_null(d->alloc(s, 1));
	finish(1 + UCCL_STAGE_LOANS);
	for (uint32_t i = 0; i < UCCL_STAGE_LOANS; i++) {
		assert_memory_equal(mem[i], in, UCCL_STAGE_LOAN - i);
		assert_true(!i || !mem[i][UCCL_STAGE_LOAN - 1]);
	}
	d->free(s, mem[5]);
	assert_ptr_equal(d->alloc(s, 10), mem[5]);
	end();
}

/* Who asked for what failed hears of it, and nobody else. */
TEST(stage__failures)
{
	int bad = 0;

	begin();
	d->put(s, gpu[0], in, 1000, false, &err);
	d->put(s, gpu[0] + BYTES - 10, in, 1000, false, &bad);
	d->get(s, out, gpu[0], 1000, &err);
	finish(3);
	assert_int_equal(bad, FI_EFAULT);
	assert_int_equal(err, 0);
	assert_memory_equal(in, out, 1000);
	/* It is memory of no device. */
	bad = 0;
	d->put(s, out, in, 1000, false, &bad);
	d->get(s, out, in, 1000, &bad);
	finish(5);
	assert_int_equal(bad, FI_EIO);
	assert_memory_equal(in, out, 1000);
	end();
	begin();
	fake_cuda_fail(2, 1);
	memset(out, 0, 10);
	d->get(s, out, gpu[0], UCCL_STAGE_PIECE + 10, &err);
	finish(1);
	assert_int_equal(err, FI_EIO);
	end();
}

/* Who stays for a copy that is long sleeps; one that is short is seen by looking. */
TEST(stage__wait)
{
	unsigned int queries, sleeps = fake_cuda_sleeps();
	uint64_t last;

	begin();
	fake_cuda_delay(8);
	for (int i = 0; i < 20; i++) {
		last = d->put(s, gpu[0], in, 100, true, &err);
		assert_int_equal(d->wait(s), last);
	}
	assert_int_equal(fake_cuda_sleeps(), sleeps);
	fake_cuda_delay(1000000);
	last = d->put(s, gpu[0], in, 3u << 20, true, &err);
	queries = fake_cuda_queries();
	for (int i = 0; d->poll(s) < last && i < 1000; i++)
		d->wait(s);
	assert_int_equal(d->poll(s), last);
	assert_true(fake_cuda_sleeps() > sleeps);
	assert_true(fake_cuda_queries() - queries < 1000);
	/* Nothing is under way. */
	assert_int_equal(d->wait(s), last);
	assert_int_equal(err, 0);
	fake_cuda_delay(3);
	end();
}

/* Place i of some that do not touch, in an order that is none. */
static size_t spread(size_t i)
{
	return (i * 37 % 200) * 2000 + i % 19;
}

static uint64_t spread_put(size_t n)
{
	uint64_t last = 0;

	for (size_t i = 0; i < n; i++)
		last = d->put(s, gpu[0] + spread(i), in + i * 1500, 1400 + i % 3, false, &err);
	return last;
}

static void spread_check(size_t n)
{
	fake_cuda_read(out, gpu[0], 500000);
	for (size_t i = 0; i < n; i++)
		assert_memory_equal(out + spread(i), in + i * 1500, 1400 + i % 3);
}

/* Short pieces to many places, or from many, take few launches and no copies of their own. */
TEST(stage__launches)
{
	unsigned int copies = fake_cuda_copies(), launches = fake_cuda_launches();
	uint64_t last = 0;

	/* Not unless it is wished. */
	begin();
	finish(spread_put(200));
	assert_int_equal(fake_cuda_copies() - copies, 200);
	copies += 200;
	end();
	attr.scatter = true;
	begin();
	finish(spread_put(200));
	assert_int_equal(err, 0);
	spread_check(200);
	assert_int_equal(fake_cuda_copies() - copies, 0);
	assert_int_equal(fake_cuda_launches() - launches, 2);
	for (size_t i = 0; i < 200; i++)
		last = d->get(s, out + 600000 + i * 1500, gpu[0] + spread(i), 1400, &err);
	finish(last);
	for (size_t i = 0; i < 200; i++)
		assert_memory_equal(out + 600000 + i * 1500, in + i * 1500, 1400);
	assert_int_equal(fake_cuda_copies() - copies, 0);
	assert_int_equal(fake_cuda_launches() - launches, 4);
	end();
	/* Three are not worth it, and long ones are not short. */
	begin();
	finish(spread_put(3));
	assert_int_equal(fake_cuda_launches() - launches, 4);
	for (size_t i = 0; i < 8; i++)
		last = d->put(s, gpu[0] + i * 100000, in, 50000, false, &err);
	finish(last);
	assert_int_equal(fake_cuda_launches() - launches, 4);
	assert_int_equal(fake_cuda_copies() - copies, 11);
	end();
	attr.scatter = false;
}

/* What meets in one place is done in its order; of one launch nothing is. Bytes lie in the ring as on the device. */
TEST(stage__launches_in_order)
{
	unsigned int launches = fake_cuda_launches();
	uint8_t one[64];
	uint64_t last = 0;

	attr.scatter = true;
	begin();
	for (size_t i = 0; i < 3000; i++) {
		memset(one, (int)i, sizeof(one));
		d->put(s, gpu[0] + i % 50 * 40, one, sizeof(one), false, &err);
		memset(one, 0xee, sizeof(one));
		if (i % 50 == 49)
			last = d->get(s, out + i / 50 * 2100, gpu[0], 2024, &err);
		if (i % 170 == 0)
			d->poll(s);
	}
	finish(last);
	for (size_t k = 0; k < 60; k++)
		for (size_t i = 0; i < 49; i++)
			for (size_t b = 0; b < 40; b++)
				assert_int_equal(out[k * 2100 + i * 40 + b], (uint8_t)(k * 50 + i));
	end();
	begin();
	for (size_t i = 0; i < 100; i++)
		last = d->put(s, gpu[0] + i % 2 * 5000 + i % 20 * 100, in + i, 90, false, &err);
	finish(last);
	assert_true(fake_cuda_launches() - launches >= 5);
	fake_cuda_read(out, gpu[0], 10000);
	for (size_t i = 80; i < 100; i++)
		assert_memory_equal(out + i % 2 * 5000 + i % 20 * 100, in + i, 90);
	end();
	attr.scatter = false;
}

/* A device that has no program, or does not run it: one copy each, as ever. */
TEST(stage__launches_fail)
{
	static const int programs[] = {0, 2};

	attr.scatter = true;
	for (int i = 0; i < 2; i++) {
		unsigned int copies = fake_cuda_copies(), launches = fake_cuda_launches();

		fake_cuda_programs(programs[i]);
		begin();
		finish(spread_put(200));
		assert_int_equal(err, 0);
		spread_check(200);
		assert_int_equal(fake_cuda_copies() - copies, 200);
		assert_int_equal(fake_cuda_launches() - launches, 0);
		end();
	}
	fake_cuda_programs(1);
	/* What was launched and fails later is told to whom it concerns. */
	begin();
	fake_cuda_fail(1, 1);
	finish(spread_put(100));
	assert_int_equal(err, FI_EIO);
	end();
	attr.scatter = false;
}

#define SLAB 400000

/* Short runs from what NICs were lent: few launches; what goes on where the last one ended is one run. */
TEST(stage__gathers)
{
	unsigned int copies, launches;
	uint8_t *slab;
	uint64_t last = 0;

	attr.scatter = true;
	begin();
	slab = d->slab(s, gpu[1], SLAB);
	assert_non_null(slab);
	/* There is one. */
	assert_null(d->slab(s, gpu[1], SLAB));
	fake_cuda_write(slab, in, SLAB);
	copies = fake_cuda_copies();
	launches = fake_cuda_launches();
	for (size_t i = 0; i < 200; i++)
		last = d->move(s, gpu[1] + spread(i), slab + i * 1500, 1400 + i % 3, &err);
	finish(last);
	assert_int_equal(err, 0);
	fake_cuda_read(out, gpu[1], 500000);
	for (size_t i = 0; i < 200; i++)
		assert_memory_equal(out + spread(i), in + i * 1500, 1400 + i % 3);
	assert_int_equal(fake_cuda_copies() - copies, 0);
	assert_int_equal(fake_cuda_launches() - launches, 2);
	/* In a row on both sides, and then not. */
	for (size_t i = 0; i < 300; i++)
		last = d->move(s, gpu[1] + i * 1000, slab + i * 1000, 1000, &err);
	finish(last);
	assert_int_equal(fake_cuda_copies() - copies, 2);
	assert_int_equal(fake_cuda_launches() - launches, 2);
	fake_cuda_read(out, gpu[1], 300000);
	assert_memory_equal(out, in, 300000);
	/* What meets in one place is done in its order; of one launch nothing is. */
	for (size_t i = 0; i < 3000; i++) {
		last = d->move(s, gpu[1] + i % 50 * 40, slab + i * 100, 64, &err);
		if (i % 50 == 49)
			last = d->get(s, out + i / 50 * 2100, gpu[1], 2024, &err);
		if (i % 170 == 0)
			d->poll(s);
	}
	finish(last);
	for (size_t k = 0; k < 60; k++)
		for (size_t i = 0; i < 49; i++)
			assert_memory_equal(out + k * 2100 + i * 40, in + (k * 50 + i) * 100, 40);
	/* Other memory of the device may be what another run of the launch writes: each by itself, as ever. */
	copies = fake_cuda_copies();
	launches = fake_cuda_launches();
	for (size_t i = 0; i < 20; i++)
		last = d->move(s, gpu[1] + 100000 + i * 300, gpu[1] + i * 100, 90, &err);
	finish(last);
	assert_int_equal(fake_cuda_copies() - copies, 20);
	/* The program runs on one device. */
	for (size_t i = 0; i < 20; i++)
		last = d->move(s, gpu[0] + i * 300, slab + i * 200, 190, &err);
	finish(last);
	assert_int_equal(fake_cuda_copies() - copies, 40);
	assert_int_equal(fake_cuda_launches() - launches, 0);
	fake_cuda_read(out, gpu[0], 6000);
	for (size_t i = 0; i < 20; i++)
		assert_memory_equal(out + i * 300, in + i * 200, 190);
	assert_int_equal(err, 0);
	d->slab_free(s, slab);
	end();
	/* Many copies instead would cost more than they save. */
	fake_cuda_programs(0);
	begin();
	assert_null(d->slab(s, gpu[1], SLAB));
	end();
	fake_cuda_programs(1);
	attr.scatter = false;
	begin();
	assert_null(d->slab(s, gpu[1], SLAB));
	assert_null(d->slab(s, in, SLAB));
	end();
}

/* There is no room for more pieces: what waits is done later, in its order. */
TEST(stage__gathers_much)
{
	uint8_t *slab;
	uint64_t last = 0;

	attr.scatter = true;
	fake_cuda_delay(50);
	begin();
	slab = d->slab(s, gpu[0], 5000 * 64);
	fake_cuda_write(slab, in, 5000 * 64);
	for (size_t i = 0; i < 5000; i++)
		last = d->move(s, gpu[0] + i * 2503 % 5000 * 64, slab + i * 64, 64, &err);
	finish(last);
	fake_cuda_delay(3);
	fake_cuda_read(out, gpu[0], 5000 * 64);
	for (size_t i = 0; i < 5000; i++)
		assert_memory_equal(out + i * 2503 % 5000 * 64, in + i * 64, 64);
	assert_int_equal(err, 0);
	d->slab_free(s, slab);
	end();
	attr.scatter = false;
}

/* What NICs may write to, and by which dmabuf: one of the program's comes first. */
TEST(stage__direct)
{
	unsigned int flushes = fake_cuda_flushes();
	struct uccl_dmabuf *one;
	int fd, mine = open("/dev/null", O_RDONLY);
	struct stat null, found;
	uintptr_t start;
	uint64_t off, len, id;

	fake_cuda_direct(0, 1, 1);
	begin();
	assert_int_equal(d->source(s, gpu[1] + 5), 1);
	assert_int_equal(d->source(s, in), -FI_ENOSYS);
	assert_int_equal(d->range(s, gpu[1] + 5, &start, &len, &id), 0);
	assert_int_equal(start, (uintptr_t)gpu[1]);
	assert_int_equal(d->range(s, in, &start, &len, &id), -FI_EFAULT);
	assert_int_equal(d->direct(s, gpu[1] + 5), 1);
	assert_int_equal(d->direct(s, gpu[0]), 0);
	assert_int_equal(d->direct(s, in), -FI_ENOSYS);
	assert_int_equal(d->flush(s, gpu[1]), 0);
	assert_int_equal(fake_cuda_flushes() - flushes, 1);
	assert_int_equal(d->flush(s, in), -FI_EIO);
	fd = d->dmabuf(s, gpu[1] + 5000, 100, &off);
	assert_true(fd >= 0);
	assert_int_equal(off, 5000 - 4096);
	close(fd);
	assert_int_equal(d->dmabuf(s, in, 100, &off), -FI_EIO);
	assert_int_equal(uccl_dmabufs_give(&given, gpu[1] + 4096, 8192, mine, 70000, &one), 0);
	fd = d->dmabuf(s, gpu[1] + 5000, 100, &off);
	assert_int_equal(fstat(fd, &found), 0);
	assert_int_equal(fstat(mine, &null), 0);
	assert_int_equal(found.st_rdev, null.st_rdev);
	assert_int_equal(off, 70000 + 5000 - 4096);
	close(fd);
	uccl_dmabufs_take(&given, one);
	close(mine);
	end();
	/* Nobody could say when the device sees it; to read it is well. */
	fake_cuda_direct(0, 0, 1);
	begin();
	assert_int_equal(d->direct(s, gpu[0]), -FI_ENOSYS);
	assert_int_equal(d->source(s, gpu[0]), 0);
	end();
	/* Nor if it is not wished. */
	fake_cuda_direct(100, 1, 1);
	assert_int_equal(uccl_stage_open(&(struct uccl_stage_attr){ .hmem = &uccl_cuda_hmem }, &s), 0);
	assert_int_equal(d->direct(s, gpu[0]), -FI_ENOSYS);
	assert_int_equal(d->source(s, gpu[0]), -FI_ENOSYS);
	end();
}

TESTS_MAIN_IN(setup, teardown)

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/cuda.h"

#include "../tests.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../fake_cuda/fake_cuda.h"

static const struct uccl_hmem_ops *const h = &uccl_cuda_hmem;

TEST(open__what_is_missing)
{
	const char *missing = NULL;

	assert_int_equal(uccl_cuda_open("libno-such-cuda.so.9", &missing), -FI_ENOSYS);
	assert_string_equal(missing, "libno-such-cuda.so.9");
	assert_int_equal(uccl_cuda_open("libm.so.6", &missing), -FI_ENOSYS);
	assert_string_equal(missing, "cuInit");
	setenv("FAKE_CUDA_DEVICES", "0", 1);
	assert_int_equal(uccl_cuda_open(UCCL_CUDA_FILE, &missing), -FI_ENODEV);
	assert_string_equal(missing, "a GPU");
	setenv("FAKE_CUDA_DEVICES", "2", 1);
	assert_int_equal(uccl_cuda_open(UCCL_CUDA_FILE, &missing), 0);
	assert_null(missing);
	assert_int_equal(h->count(), 2);
}

TEST(where__by_the_driver)
{
	void *a = fake_cuda_alloc(0, 100), *b = fake_cuda_alloc(1, 100), *c = malloc(100), *pinned;
	struct uccl_hmem_queue *q;

	assert_int_equal(h->open(0, &q), 0);
	pinned = h->pin(q, 100);
	assert_non_null(pinned);
	assert_int_equal(h->where(a), 0);
	assert_int_equal(h->where((char *)b + 99), 1);
	assert_int_equal(h->where(c), -1);
	assert_int_equal(h->where(NULL), -1);
	assert_int_equal(h->where(pinned), -1);
	h->sync(a);
	h->sync(c);
	assert_true(fake_cuda_synced(a));
	assert_false(fake_cuda_synced(b));
	h->unpin(q, pinned);
	h->close(q);
	fake_cuda_free(a);
	fake_cuda_free(b);
	free(c);
}

static int passed(struct uccl_hmem_queue *q)
{
	struct uccl_hmem_mark *m = h->mark(q);
	int rc;

	assert_non_null(m);
	while (!(rc = h->passed(q, m)))
		;
	return rc;
}

TEST(copies__in_order)
{
	void *a = fake_cuda_alloc(0, 100), *b = fake_cuda_alloc(1, 100);
	struct uccl_hmem_queue *q;
	struct uccl_hmem_mark *m;
	char *host;

	assert_int_equal(h->open(1, &q), 0);
	host = h->pin(q, 300);
	memset(host, 0, 300);
	strcpy(host, "one");
	assert_int_equal(h->put(q, a, host, 100), 0);
	assert_int_equal(h->move(q, b, a, 100), 0);
	assert_int_equal(h->get(q, host + 100, b, 100), 0);
	/* It is not waited for. */
	m = h->mark(q);
	assert_int_equal(fake_cuda_pending(), 3);
	while (!h->passed(q, m))
		assert_int_equal(host[100], 0);
	assert_string_equal(host + 100, "one");
	assert_int_equal(h->put(q, (char *)a + 50, host, 51), -FI_EFAULT);
	assert_int_equal(h->get(q, host, host, 5), -FI_EFAULT);
	assert_int_equal(passed(q), 1);
	fake_cuda_fail(1, 1);
	assert_int_equal(h->put(q, a, host, 100), 0);
	assert_int_equal(passed(q), -FI_EIO);
	h->unpin(q, host);
	h->close(q);
	assert_int_equal(h->open(7, &q), -FI_EIO);
	fake_cuda_free(a);
	fake_cuda_free(b);
}

/* It sleeps until all is done, and does not look again and again. */
TEST(wait__sleeps)
{
	void *a = fake_cuda_alloc(0, 100);
	struct uccl_hmem_queue *q;
	struct uccl_hmem_mark *m;
	unsigned int queries, sleeps;
	char *host;

	assert_int_equal(h->open(0, &q), 0);
	host = h->pin(q, 100);
	for (int late = 0; late < 2; late++) {
		fake_cuda_fail(late, 1);
		assert_int_equal(h->put(q, a, host, 100), 0);
		m = h->mark(q);
		queries = fake_cuda_queries();
		sleeps = fake_cuda_sleeps();
		h->wait(q, m);
		assert_int_equal(fake_cuda_pending(), 0);
		assert_int_equal(fake_cuda_queries(), queries);
		assert_int_equal(fake_cuda_sleeps(), sleeps + 1);
		assert_int_equal(h->passed(q, m), late ? -FI_EIO : 1);
	}
	h->unpin(q, host);
	h->close(q);
	fake_cuda_free(a);
}

/* What NICs wrote is seen at once, after a flush, or nobody knows when. */
TEST(direct__by_the_driver)
{
	static const struct {
		int ordering, options;
		bool direct;
		unsigned int flushes;
		int rc;
	} cases[] = {
		{0, 0, false, 0, 0}, {0, 2, false, 0, 0}, {0, 1, true, 1, 0},	 {0, 3, true, 1, -FI_EIO},
		{99, 1, true, 1, 0}, {100, 0, true, 0, 0}, {100, 1, true, 0, 0}, {200, 0, true, 0, 0},
	};
	struct uccl_hmem_queue *q;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned int before = fake_cuda_flushes();

		fake_cuda_direct(cases[i].ordering, cases[i].options, 1);
		assert_int_equal(h->open(0, &q), 0);
		assert_int_equal(h->direct(q), cases[i].direct);
		if (cases[i].direct)
			assert_int_equal(h->flush(q), cases[i].rc);
		assert_int_equal(fake_cuda_flushes() - before, cases[i].flushes);
		h->close(q);
	}
	fake_cuda_direct(100, 1, 1);
}

/* Whole pages that have the bytes, wherever these begin and end. */
/* Whoever gets an address again gets another number. */
TEST(range__of_the_allocation)
{
	char *a = fake_cuda_alloc(0, 10000), *b = fake_cuda_alloc(0, 10000), host;
	uint64_t len, id, other;
	uintptr_t start;

	assert_int_equal(h->range(a + 9999, &start, &len, &id), 0);
	assert_int_equal(start, (uintptr_t)a);
	assert_int_equal(len, 10000);
	assert_int_equal(h->range(b, &start, &len, &other), 0);
	assert_int_equal(start, (uintptr_t)b);
	assert_int_not_equal(id, other);
	assert_int_equal(h->range(&host, &start, &len, &id), -FI_EFAULT);
	fake_cuda_free(a);
	assert_int_equal(h->range(a, &start, &len, &id), -FI_EFAULT);
	fake_cuda_free(b);
}

TEST(dmabuf__whole_pages)
{
	char *a = fake_cuda_alloc(0, 10000), text[8];
	static const size_t at[] = {0, 1, 4095, 4096, 5000, 9999};
	struct uccl_hmem_queue *q;
	uint64_t off;
	int fd;

	assert_int_equal(h->open(0, &q), 0);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		fake_cuda_write(a + at[i], "x", 1);
		fd = h->dmabuf(q, a + at[i], 10000 - at[i], &off);
		assert_true(fd >= 0);
		assert_int_equal(off, at[i] % 4096);
		/* The fake's dmabufs begin at their position. */
		assert_int_equal(lseek(fd, (off_t)off, SEEK_CUR), (off_t)at[i]);
		assert_int_equal(read(fd, text, 1), 1);
		assert_int_equal(text[0], 'x');
		close(fd);
	}
	assert_int_equal(h->dmabuf(q, a, 16384, &off), -FI_EFAULT);
	assert_int_equal(h->dmabuf(q, text, 4, &off), -FI_EFAULT);
	h->close(q);
	fake_cuda_direct(100, 1, 0);
	assert_int_equal(h->open(0, &q), 0);
	assert_int_equal(h->dmabuf(q, a, 100, &off), -FI_ENOSYS);
	h->close(q);
	fake_cuda_direct(100, 1, 1);
	fake_cuda_free(a);
}

/* Memory of the device for ourselves, from a page on; an old driver has none. */
TEST(take__and_give)
{
	struct uccl_hmem_queue *q;
	uintptr_t start;
	uint64_t len, id;
	uint8_t *mem;

	assert_int_equal(h->open(0, &q), 0);
	mem = h->take(q, 10000);
	assert_non_null(mem);
	assert_int_equal((uintptr_t)mem % 4096, 0);
	assert_int_equal(h->where(mem), 0);
	assert_int_equal(h->range(mem + 9999, &start, &len, &id), 0);
	assert_int_equal(start, (uintptr_t)mem);
	/* Whole pages, of which NICs know. */
	assert_int_equal(len, 12288);
	h->give(q, mem);
	assert_int_equal(h->where(mem), -1);
	h->close(q);
}

/* Short copies of any length, in memory of either kind, by one launch. */
TEST(scatter__runs)
{
	static const uint32_t lens[] = {1, 15, 16, 17, 100, 1000};
	unsigned int launches = fake_cuda_launches(), copies = fake_cuda_copies();
	struct uccl_hmem_run run[UCCL_HMEM_RUNS];
	char *a = fake_cuda_alloc(0, UCCL_HMEM_RUNS * 1024), *host, seen[1024];
	struct uccl_hmem_queue *q;

	assert_int_equal(h->open(0, &q), 0);
	host = h->pin(q, UCCL_HMEM_RUNS * 2048);
	for (int i = 0; i < UCCL_HMEM_RUNS * 1024; i++)
		host[i] = (char)(i * 7 + (i >> 8));
	for (int i = 0; i < UCCL_HMEM_RUNS; i++)
		run[i] = (struct uccl_hmem_run){ a + i * 1024, host + i * 1000, lens[i % 6] };
	assert_int_equal(h->scatter(q, run, UCCL_HMEM_RUNS), 0);
	assert_int_equal(h->scatter(q, run, 0), 0);
	assert_int_equal(passed(q), 1);
	assert_int_equal(fake_cuda_launches() - launches, 1);
	assert_int_equal(fake_cuda_copies() - copies, 0);
	for (int i = 0; i < UCCL_HMEM_RUNS; i++) {
		fake_cuda_read(seen, a + i * 1024, 1024);
		assert_memory_equal(seen, host + i * 1000, lens[i % 6]);
		for (uint32_t k = lens[i % 6]; k < 1024; k++)
			assert_int_equal(seen[k], 0);
	}
	/* And back. */
	for (int i = 0; i < 6; i++)
		run[i] = (struct uccl_hmem_run){ host + UCCL_HMEM_RUNS * 1024 + i * 1000, a + i * 1024, lens[i] };
	assert_int_equal(h->scatter(q, run, 6), 0);
	assert_int_equal(passed(q), 1);
	for (int i = 0; i < 6; i++)
		assert_memory_equal(host + UCCL_HMEM_RUNS * 1024 + i * 1000, host + i * 1000, lens[i]);
	run[3].from = seen;
	assert_int_equal(h->scatter(q, run, 6), -FI_EFAULT);
	fake_cuda_fail(1, 1);
	assert_int_equal(h->scatter(q, run, 3), 0);
	assert_int_equal(passed(q), -FI_EIO);
	h->unpin(q, host);
	h->close(q);
	fake_cuda_free(a);
}

/* A program would end the context of both if it touched memory of another one; copies of the driver may. */
TEST(scatter__other_context)
{
	struct uccl_hmem_run run[2];
	struct uccl_hmem_queue *q;
	char *a = fake_cuda_alloc(0, 1024), *b = fake_cuda_alloc(0, 1024), *host;

	fake_cuda_foreign(b);
	assert_int_equal(h->open(0, &q), 0);
	host = h->pin(q, 2048);
	for (int out = 0; out < 2; out++)
		for (int foreign = 0; foreign < 2; foreign++) {
			char *mine = foreign ? b : a;

			run[0] = out ? (struct uccl_hmem_run){ host, a, 100 } : (struct uccl_hmem_run){ a, host, 100 };
			run[1] = out ? (struct uccl_hmem_run){ host + 100, mine + 100, 100 } :
				       (struct uccl_hmem_run){ mine + 100, host + 100, 100 };
			assert_int_equal(h->scatter(q, run, 2), foreign ? -FI_EFAULT : 0);
			assert_int_equal(passed(q), 1);
		}
	assert_int_equal(h->put(q, b, host, 100), 0);
	assert_int_equal(passed(q), 1);
	h->unpin(q, host);
	h->close(q);
	fake_cuda_free(a);
	fake_cuda_free(b);
}

/* A graph that some thread of the program captures is none of our business, and is not spoilt by us. */
TEST(capture__goes_on)
{
	char *a = fake_cuda_alloc(0, 100), *host, *taken;
	struct uccl_hmem_queue *q;
	int mode = 0;

	assert_int_equal(h->open(0, &q), 0);
	host = h->pin(q, 100);
	fake_cuda_delay(3);
	fake_cuda_capture_begin();
	h->sync(a);
	assert_true(fake_cuda_synced(a));
	assert_int_equal(h->put(q, a, host, 100), 0);
	assert_int_equal(passed(q), 1);
	taken = h->take(q, 4096);
	assert_non_null(taken);
	h->give(q, taken);
	assert_true(fake_cuda_capture_end());
	/* The program's own mode, which is 0, is as it was. */
	assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), 0);
	assert_int_equal(mode, 0);
	h->unpin(q, host);
	h->close(q);
	fake_cuda_free(a);
}

TEST(scatter__no_program)
{
	struct uccl_hmem_run run = {0};
	struct uccl_hmem_queue *q;

	fake_cuda_programs(0);
	assert_int_equal(h->open(0, &q), 0);
	assert_int_equal(h->scatter(q, &run, 0), -FI_ENOSYS);
	assert_int_equal(h->scatter(q, &run, 1), -FI_ENOSYS);
	h->close(q);
	fake_cuda_programs(1);
}

TESTS_MAIN

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cache over a registrar of the test, and the kernel's real reports of memory that goes away. If this user gets no
 * reports, a cache of host memory keeps nothing, and tests that need them are reported as skipped. Device memory comes
 * from an allocation that the test makes up.
 */
#include "../../tests.h"

#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nic/verbs/memwatch.h"
#include "nic/verbs/mrcache.h"

#define PAGE 4096ul

static struct uccl_mrcache *c;
static int registered, calls, fail_at;

static int fake_reg(void *arg, uintptr_t start, uint64_t len, const struct uccl_nic_device *device, void **mr)
{
	assert_null(device);
	assert_int_equal(start % PAGE, 0);
	assert_int_equal(len % PAGE, 0);
	if (++calls == fail_at)
		return -FI_ENOMEM;
	registered++;
	*mr = (void *)start;
	return 0;
}

static void fake_dereg(void *arg, void *mr)
{
	registered--;
}

static const struct uccl_mrcache_ops ops = {.reg = fake_reg, .dereg = fake_dereg};

static int start(uint32_t entries, uint64_t bytes)
{
	registered = calls = fail_at = 0;
	return uccl_mrcache_open(&ops, NULL, false, entries, bytes, &c);
}

static int begin(void **state)
{
	return start(16, 1 << 20);
}

static int end(void **state)
{
	uccl_mrcache_close(c);
	return registered;
}

/* Another cache, with these limits. */
static void limit(uint32_t entries, uint64_t bytes)
{
	uccl_mrcache_close(c);
	assert_int_equal(registered, 0);
	assert_int_equal(start(entries, bytes), 0);
}

/* The rest of a test needs a cache that keeps something; if not, cmocka reports it. */
static void keeps_or_skip(void)
{
	if (!uccl_mrcache_keeps(c))
		skip();
}

static uint8_t *pages(size_t n)
{
	uint8_t *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	memset(p, 1, n * PAGE);
	return p;
}

/* Once there and back; was it a hit? */
static bool use(const void *p, uint64_t len)
{
	uint64_t hits = uccl_mrcache_stats(c).hits;
	const struct uccl_mrcache_entry *e;

	assert_int_equal(uccl_mrcache_get(c, p, len, NULL, &e), 0);
	assert_true(e->start <= (uintptr_t)p && (uintptr_t)p + len <= e->end);
	uccl_mrcache_put(e);
	return uccl_mrcache_stats(c).hits > hits;
}

/* Does the kernel tell of a mapping? Its flags in smaps say so. */
static bool watched(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	char line[512];
	bool here = false, is = false;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (uintptr_t)p >= start && (uintptr_t)p < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			is = strstr(line, " uw");
	}
	fclose(f);
	return is;
}

TEST_IN(get__again, begin, end)
{
	uint8_t *p = pages(8);

	keeps_or_skip();
	assert_false(use(p + 100, 3 * PAGE));
	assert_true(use(p + 100, 3 * PAGE));
	/* A part of it is covered, what begins before it is not. */
	assert_true(use(p + PAGE, 10));
	assert_false(use(p + 2 * PAGE, 4 * PAGE));
	assert_int_equal(registered, 2);
	munmap(p, 8 * PAGE);
}

/* The same address with other pages behind it: never the old registration. */
TEST_IN(gone__unmapped, begin, end)
{
	uint8_t *p = pages(4);

	keeps_or_skip();
	for (int i = 0; i < 200; i++) {
		assert_false(use(p, 4 * PAGE));
		assert_true(use(p, 4 * PAGE));
		assert_int_equal(munmap(p + (i % 4) * PAGE, PAGE), 0);
		assert_true(mmap(p + (i % 4) * PAGE, PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
		memset(p, 2, 4 * PAGE);
	}
	assert_int_equal(uccl_mrcache_stats(c).gone, 200);
	assert_int_equal(registered, 1);
	munmap(p, 4 * PAGE);
}

TEST_IN(gone__emptied_and_moved, begin, end)
{
	uint8_t *p = pages(4), *q;

	keeps_or_skip();
	assert_false(use(p, 4 * PAGE));
	assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
	assert_int_equal(p[PAGE], 0);
	assert_false(use(p, 4 * PAGE));
	q = mremap(p, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED);
	assert_int_equal(uccl_mrcache_stats(c).gone, q == p ? 1 : 2);
	assert_int_equal(use(q, 4 * PAGE), q == p);
	munmap(q, 64 * PAGE);
}

/* In use while its memory goes: it stays for its user, and nobody gets it after that. */
TEST_IN(gone__in_use, begin, end)
{
	const struct uccl_mrcache_entry *e, *again;
	uint8_t *p = pages(2);

	keeps_or_skip();
	assert_int_equal(uccl_mrcache_get(c, p, PAGE, NULL, &e), 0);
	munmap(p, 2 * PAGE);
	assert_true(mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	assert_int_equal(registered, 1);
	assert_int_equal(uccl_mrcache_get(c, p, PAGE, NULL, &again), 0);
	assert_ptr_not_equal(e, again);
	assert_int_equal(registered, 2);
	uccl_mrcache_put(e);
	assert_int_equal(registered, 1);
	uccl_mrcache_put(again);
	munmap(p, 2 * PAGE);
}

TEST_IN(trim__entries_and_bytes, begin, end)
{
	const struct uccl_mrcache_entry *e;
	uint8_t *p = pages(64);

	keeps_or_skip();
	limit(4, 8 * PAGE);
	for (int i = 0; i < 6; i++)
		assert_false(use(p + 2 * i * PAGE, PAGE));
	assert_int_equal(registered, 4);
	assert_int_equal(uccl_mrcache_stats(c).evicted, 2);
	/* The oldest went. */
	assert_true(use(p + 4 * PAGE, PAGE));
	assert_false(use(p, PAGE));
	assert_false(use(p + 20 * PAGE, 7 * PAGE));
	assert_true(uccl_mrcache_stats(c).bytes <= 8 * PAGE);
	/* What is in use does not count, and is not thrown out. */
	assert_int_equal(uccl_mrcache_get(c, p + 40 * PAGE, 20 * PAGE, NULL, &e), 0);
	assert_true(use(p + 20 * PAGE, 7 * PAGE));
	uccl_mrcache_put(e);
	assert_true(uccl_mrcache_stats(c).bytes <= 8 * PAGE);
	munmap(p, 64 * PAGE);
}

/* Two registrations cover a page; when one is thrown out, the page is still watched. */
TEST_IN(trim__overlap_stays_watched, begin, end)
{
	uint8_t *p = pages(8);

	keeps_or_skip();
	limit(1, 1 << 20);
	assert_false(use(p, 2 * PAGE));
	assert_false(use(p + PAGE, 2 * PAGE));
	assert_int_equal(registered, 1);
	assert_true(use(p + PAGE, 2 * PAGE));
	assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
	assert_false(use(p + PAGE, 2 * PAGE));
	munmap(p, 8 * PAGE);
}

/* Its users go on with it, and the next one gets another. */
TEST_IN(spoil__ends_with_its_last_user, begin, end)
{
	const struct uccl_mrcache_entry *e, *f;
	uint8_t *p = pages(2);

	keeps_or_skip();
	assert_int_equal(uccl_mrcache_get(c, p, 2 * PAGE, NULL, &e), 0);
	uccl_mrcache_spoil(e);
	uccl_mrcache_spoil(e);
	assert_int_equal(uccl_mrcache_get(c, p, 2 * PAGE, NULL, &f), 0);
	assert_ptr_not_equal(e, f);
	assert_int_equal(registered, 2);
	uccl_mrcache_put(e);
	assert_int_equal(registered, 1);
	uccl_mrcache_put(f);
	assert_true(use(p, 2 * PAGE));
	munmap(p, 2 * PAGE);
	assert_int_equal(registered, uccl_mrcache_stats(c).entries);
}

/* What one cache gives up another one may keep: it is told still. */
TEST_IN(trim__kept_by_another, begin, end)
{
	uint8_t *p = pages(4);
	struct uccl_mrcache *first;

	keeps_or_skip();
	assert_false(use(p, 4 * PAGE));
	first = c;
	assert_int_equal(uccl_mrcache_open(&ops, NULL, false, 16, 1 << 20, &c), 0);
	assert_false(use(p, 4 * PAGE));
	uccl_mrcache_close(c);
	c = first;
	assert_true(use(p, 4 * PAGE));
	munmap(p, 4 * PAGE);
	assert_int_equal(uccl_mrcache_stats(c).gone, 1);
}

/* Pinned memory has a limit: idle entries make room, and only if that does not help it is an error. */
TEST_IN(reg__fails, begin, end)
{
	const struct uccl_mrcache_entry *e;
	uint8_t *p = pages(8);

	keeps_or_skip();
	assert_false(use(p, PAGE));
	fail_at = calls + 1;
	assert_int_equal(uccl_mrcache_get(c, p + 4 * PAGE, PAGE, NULL, &e), 0);
	uccl_mrcache_put(e);
	assert_int_equal(uccl_mrcache_stats(c).evicted, 1);
	munmap(p, 8 * PAGE);
	limit(16, 1 << 20);
	p = pages(1);
	fail_at = 1;
	assert_int_equal(uccl_mrcache_get(c, p, PAGE, NULL, &e), -FI_ENOMEM);
	/* No report about it is needed. */
	assert_false(watched(p));
	assert_false(use(p, PAGE));
	assert_true(watched(p));
	munmap(p, PAGE);
}

/* Memory of a file: whatever the kernel tells of it, no registration outlives what it covered. */
TEST_IN(get__file, begin, end)
{
	char name[] = "uccl-test-mrcache-XXXXXX";
	const struct uccl_mrcache_entry *e;
	int fd = mkstemp(name), rc;
	uint8_t *p;

	assert_true(fd >= 0);
	unlink(name);
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	keeps_or_skip();
	rc = uccl_mrcache_get(c, p, 2 * PAGE, NULL, &e);
	if (rc)
		assert_int_equal(rc, -FI_ENOSYS);
	else
		uccl_mrcache_put(e);
	munmap(p, 2 * PAGE);
	assert_true(mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	assert_false(use(p, 2 * PAGE));
	munmap(p, 2 * PAGE);
	close(fd);
}

/* A cache without entries, as one without reports, registers nothing. */
TEST_IN(get__not_kept, begin, end)
{
	const struct uccl_mrcache_entry *e;
	uint8_t *p = pages(4);

	limit(0, 0);
	assert_false(uccl_mrcache_keeps(c));
	assert_int_equal(uccl_mrcache_get(c, p, 4 * PAGE, NULL, &e), -FI_ENOSYS);
	assert_int_equal(calls, 0);
	munmap(p, 4 * PAGE);
}

/* Several users of one entry. */
TEST_IN(get__shared, begin, end)
{
	const struct uccl_mrcache_entry *e, *again;
	uint8_t *p = pages(4);

	keeps_or_skip();
	assert_int_equal(uccl_mrcache_get(c, p, 4 * PAGE, NULL, &e), 0);
	assert_int_equal(uccl_mrcache_get(c, p, 4 * PAGE, NULL, &again), 0);
	assert_ptr_equal(e, again);
	uccl_mrcache_hold(e);
	for (int i = 0; i < 3; i++) {
		assert_true(use(p, 4 * PAGE));
		uccl_mrcache_put(e);
	}
	assert_int_equal(registered, 1);
	munmap(p, 4 * PAGE);
}

static atomic_bool stop;

/* An allocator at work: it maps, frees and trims all the time, some of it what the cache watches. */
static void *churn(void *arg)
{
	uint8_t *shared = arg;

	while (!atomic_load(&stop)) {
		uint8_t *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		void *m = malloc(300000);

		memset(p, 3, 16 * PAGE);
		munmap(p, 16 * PAGE);
		madvise(shared, 4 * PAGE, MADV_DONTNEED);
		free(m);
	}
	return NULL;
}

/* Nobody waits for anybody for ever, and what is found is never older than the last time that the memory went. */
TEST_IN(all__threads, begin, end)
{
	uint8_t *shared = pages(4);
	pthread_t t;

	keeps_or_skip();
	limit(8, 1 << 20);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&t, NULL, churn, shared), 0);
	for (int i = 0; i < 3000; i++) {
		void *m = malloc(200000);

		use(shared, 4 * PAGE);
		use(m, 200000);
		free(m);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	munmap(shared, 4 * PAGE);
}

/* A child has no thread: it keeps nothing, and takes nothing from the parent. */
TEST_IN(open__in_a_child, begin, end)
{
	pid_t child;
	int status;

	child = fork();
	if (!child) {
		struct uccl_mrcache *mine;
		uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const struct uccl_mrcache_entry *e;
		bool well;

		registered = 0;
		well = !uccl_mrcache_open(&ops, NULL, false, 8, 1 << 20, &mine) && !uccl_mrcache_keeps(mine);
		well = well && uccl_mrcache_get(mine, p, PAGE, NULL, &e) == -FI_ENOSYS && registered == 0;
		_exit(well ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, uccl_mrcache_keeps(c) ? 0 : status);
}

/* ThreadSanitizer ends a child that starts a thread. */
#ifdef __SANITIZE_THREAD__
#define CHILD_HAS_THREADS false
#else
#define CHILD_HAS_THREADS true
#endif

/* Those that a child inherited can be closed there, in any order, and then it watches its own memory. */
TEST_IN(close__in_a_child, begin, end)
{
	const struct uccl_mrcache_entry *e;
	struct uccl_mrcache *other;
	uint8_t *p = pages(1);
	pid_t child;
	int status;

	keeps_or_skip();
	assert_int_equal(uccl_mrcache_open(&ops, NULL, false, 8, 1 << 20, &other), 0);
	use(p, PAGE);
	child = fork();
	if (!child) {
		bool well;

		uccl_mrcache_close(other);
		uccl_mrcache_close(c);
		if (!CHILD_HAS_THREADS)
			_exit(registered == 0 ? 0 : 1);
		well = registered == 0 && !uccl_mrcache_open(&ops, NULL, false, 8, 1 << 20, &c);
		well = well && uccl_mrcache_keeps(c) && !uccl_mrcache_get(c, p, PAGE, NULL, &e);
		if (well)
			uccl_mrcache_put(e);
		well = well && registered == 1 && !munmap(p, PAGE) && uccl_mrcache_stats(c).gone == 1;
		uccl_mrcache_close(c);
		_exit(well && registered == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* Nobody ended the parent's. */
	assert_true(use(p, PAGE));
	assert_int_equal(munmap(p, PAGE), 0);
	assert_int_equal(uccl_mrcache_stats(c).gone, 1);
	uccl_mrcache_close(other);
}

/* Device memory. */

#define MB (1ull << 20)
#define BASE 0x7000000000000000ull
#define ENTRIES 4

static int failing;
static uintptr_t last_start;
static uint64_t last_len;

/* The one allocation there is. */
static struct {
	uintptr_t start;
	uint64_t len, id;
	int err;
} there;

static int fake_range(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id)
{
	assert_ptr_equal(arg, &there);
	*start = there.start;
	*len = there.len;
	*id = there.id;
	return there.err;
}

static struct uccl_nic_device device = {.number = 1, .range = fake_range, .arg = &there};

static int device_reg(void *arg, uintptr_t start, uint64_t len, const struct uccl_nic_device *of, void **mr)
{
	assert_ptr_equal(arg, &calls);
	assert_ptr_equal(of, &device);
	calls++;
	if (failing) {
		failing--;
		return -FI_ENOMEM;
	}
	registered++;
	last_start = start;
	last_len = len;
	*mr = (void *)start;
	return 0;
}

static const struct uccl_mrcache_ops device_ops = {.reg = device_reg, .dereg = fake_dereg};

static int device_begin(void **state)
{
	registered = calls = failing = 0;
	device.number = 1;
	device.range = fake_range;
	there.start = BASE + 512;
	there.len = 100 * MB;
	there.id = 7;
	there.err = 0;
	return uccl_mrcache_open(&device_ops, &calls, true, ENTRIES, 64 * MB, &c);
}

static const struct uccl_mrcache_entry *get(uint64_t off, uint64_t len)
{
	const struct uccl_mrcache_entry *e = NULL;

	assert_int_equal(uccl_mrcache_get(c, (void *)(there.start + off), len, &device, &e), 0);
	assert_true(e->start <= there.start + off && there.start + off + len <= e->end);
	assert_true(e->start >= there.start && e->end <= there.start + there.len);
	return e;
}

TEST_IN(get__whole_grains_of_the_allocation, device_begin, end)
{
	const struct uccl_mrcache_entry *e = get(0, 10), *f;

	/* Never what lies beside it. */
	assert_int_equal(last_start, BASE + 512);
	assert_int_equal(last_len, 2 * MB - 512);
	f = get(3 * MB, MB);
	assert_int_equal(last_start, BASE + 2 * MB);
	assert_int_equal(last_len, 4 * MB);
	assert_ptr_equal(get(2 * MB, 100), f);
	assert_ptr_equal(get(MB, 100), e);
	assert_int_equal(calls, 2);
	/* Across both is a third. */
	assert_ptr_not_equal(get(MB, 2 * MB), f);
	assert_int_equal(calls, 3);
	assert_int_equal(uccl_mrcache_stats(c).hits, 2);
	assert_int_equal(uccl_mrcache_stats(c).misses, 3);
	assert_ptr_equal(get(99 * MB, MB), get(99 * MB, MB));
	assert_int_equal(last_start + last_len, there.start + there.len);
	for (int i = 0; i < 2; i++) {
		uccl_mrcache_put(e);
		uccl_mrcache_put(f);
	}
	uccl_mrcache_put(get(MB, 2 * MB));
	uccl_mrcache_put(get(MB, 2 * MB));
	uccl_mrcache_put(get(MB, 2 * MB));
	e = get(MB, 2 * MB);
	uccl_mrcache_put(e);
	uccl_mrcache_put(e);
	e = get(99 * MB, MB);
	for (int i = 0; i < 3; i++)
		uccl_mrcache_put(e);
}

TEST_IN(get__not_in_one_allocation, device_begin, end)
{
	const struct uccl_mrcache_entry *e;

	assert_int_equal(uccl_mrcache_get(c, (void *)(there.start - 1), 10, &device, &e), -FI_EFAULT);
	assert_int_equal(uccl_mrcache_get(c, (void *)there.start, there.len + 1, &device, &e), -FI_EFAULT);
	assert_int_equal(uccl_mrcache_get(c, (void *)(there.start + there.len + 1), 1, &device, &e), -FI_EFAULT);
	assert_int_equal(uccl_mrcache_get(c, (void *)(there.start + 5), UINT64_MAX, &device, &e), -FI_EFAULT);
	there.err = -FI_EIO;
	assert_int_equal(uccl_mrcache_get(c, (void *)there.start, 10, &device, &e), -FI_EIO);
	device.range = NULL;
	assert_int_equal(uccl_mrcache_get(c, (void *)there.start, 10, &device, &e), -FI_ENOSYS);
	assert_int_equal(calls, 0);
}

/* PROTOCOL R222 */
TEST_IN(get__another_allocation_there, device_begin, end)
{
	const struct uccl_mrcache_entry *used = get(0, 10), *idle = get(10 * MB, 10), *e;

	uccl_mrcache_put(idle);
	assert_int_equal(registered, 2);
	there.id = 8;
	/* What nobody uses ends at once, */
	e = get(10 * MB, 10);
	assert_int_equal(calls, 3);
	assert_int_equal(registered, 2);
	uccl_mrcache_put(e);
	/* and what somebody does with its last user. */
	e = get(0, 10);
	assert_ptr_not_equal(e, used);
	assert_int_equal(registered, 3);
	uccl_mrcache_hold(used);
	uccl_mrcache_put(used);
	assert_int_equal(registered, 3);
	uccl_mrcache_put(used);
	assert_int_equal(registered, 2);
	assert_ptr_equal(get(0, 10), e);
	assert_int_equal(uccl_mrcache_stats(c).gone, 2);
	uccl_mrcache_put(e);
	uccl_mrcache_put(e);
	/* The same address of another device is other memory. */
	device.number = 2;
	e = get(0, 10);
	assert_int_equal(registered, 3);
	uccl_mrcache_put(e);
}

TEST_IN(put__limits, device_begin, end)
{
	const struct uccl_mrcache_entry *e[8];

	for (uint64_t i = 0; i < 8; i++)
		e[i] = get(i * 4 * MB, 10);
	assert_int_equal(registered, 8);
	for (int i = 0; i < 8; i++)
		uccl_mrcache_put(e[i]);
	assert_int_equal(registered, ENTRIES);
	assert_int_equal(uccl_mrcache_stats(c).evicted, 8 - ENTRIES);
	/* The latest are there. */
	uccl_mrcache_put(get(28 * MB, 10));
	assert_int_equal(calls, 8);
	/* One that is too large by itself is not kept. */
	uccl_mrcache_put(get(0, 80 * MB));
	assert_int_equal(uccl_mrcache_stats(c).bytes, 0);
	assert_int_equal(uccl_mrcache_stats(c).entries, 0);
}

/* What is kept for nobody gives way to what is needed. */
TEST_IN(get__registration_fails, device_begin, end)
{
	const struct uccl_mrcache_entry *e = get(0, 10), *f;

	uccl_mrcache_put(get(10 * MB, 10));
	failing = 1;
	f = get(20 * MB, 10);
	assert_int_equal(registered, 2);
	failing = 2;
	assert_int_equal(uccl_mrcache_get(c, (void *)(there.start + 30 * MB), 10, &device, &f), -FI_ENOMEM);
	assert_int_equal(failing, 1);
	failing = 0;
	uccl_mrcache_put(e);
	uccl_mrcache_put(get(20 * MB, 10));
	uccl_mrcache_put(get(20 * MB, 10));
	e = get(20 * MB, 10);
	uccl_mrcache_put(e);
	uccl_mrcache_put(e);
}

TESTS_MAIN

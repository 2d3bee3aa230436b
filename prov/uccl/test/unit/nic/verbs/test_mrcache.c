/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cache over a registrar of the test, and the kernel's real news of memory that goes away. Where the kernel gives
 * none to this user the cache keeps nothing; what needs the news is then reported as skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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

static int fake_reg(void *arg, uintptr_t start, uint64_t len, void **mr)
{
	(void)arg;
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
	(void)arg;
	(void)mr;
	registered--;
}

static const struct uccl_mrcache_ops ops = {.reg = fake_reg, .dereg = fake_dereg};

static void start(uint32_t entries, uint64_t bytes)
{
	registered = calls = fail_at = 0;
	assert_int_equal(uccl_mrcache_open(&ops, NULL, entries, bytes, &c), 0);
}

static void end(void)
{
	uccl_mrcache_close(c);
	assert_int_equal(registered, 0);
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

	assert_int_equal(uccl_mrcache_get(c, p, len, &e), 0);
	assert_true(e->start <= (uintptr_t)p && (uintptr_t)p + len <= e->end);
	uccl_mrcache_put(c, e);
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

static void get__again(void **state)
{
	uint8_t *p = pages(8);
	bool keeps;

	(void)state;
	start(16, 1 << 20);
	keeps = uccl_mrcache_keeps(c);
	assert_false(use(p + 100, 3 * PAGE));
	assert_int_equal(use(p + 100, 3 * PAGE), keeps);
	/* A part of it is covered, what begins before it is not. */
	assert_int_equal(use(p + PAGE, 10), keeps);
	assert_false(use(p + 2 * PAGE, 4 * PAGE));
	assert_int_equal(registered, keeps ? 2 : 0);
	munmap(p, 8 * PAGE);
	end();
}

/* The same address with other pages behind it: never the old registration. */
static void gone__unmapped(void **state)
{
	uint8_t *p = pages(4);

	(void)state;
	start(16, 1 << 20);
	if (!uccl_mrcache_keeps(c)) {
		end();
		skip(); /* and cmocka says so */
	}
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
	end();
}

static void gone__emptied_and_moved(void **state)
{
	uint8_t *p = pages(4), *q;

	(void)state;
	start(16, 1 << 20);
	if (!uccl_mrcache_keeps(c)) {
		end();
		skip(); /* and cmocka says so */
	}
	assert_false(use(p, 4 * PAGE));
	assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
	assert_int_equal(p[PAGE], 0);
	assert_false(use(p, 4 * PAGE));
	q = mremap(p, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED);
	assert_int_equal(uccl_mrcache_stats(c).gone, q == p ? 1 : 2);
	assert_int_equal(use(q, 4 * PAGE), q == p);
	munmap(q, 64 * PAGE);
	end();
}

/* In use while its memory goes: it stays for its user, and nobody gets it after that. */
static void gone__in_use(void **state)
{
	const struct uccl_mrcache_entry *e, *again;
	uint8_t *p = pages(2);

	(void)state;
	start(16, 1 << 20);
	assert_int_equal(uccl_mrcache_get(c, p, PAGE, &e), 0);
	munmap(p, 2 * PAGE);
	assert_true(mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	assert_int_equal(registered, 1);
	assert_int_equal(uccl_mrcache_get(c, p, PAGE, &again), 0);
	assert_ptr_not_equal(e, again);
	assert_int_equal(registered, 2);
	uccl_mrcache_put(c, e);
	assert_int_equal(registered, 1);
	uccl_mrcache_put(c, again);
	munmap(p, 2 * PAGE);
	end();
}

static void trim__entries_and_bytes(void **state)
{
	const struct uccl_mrcache_entry *e;
	uint8_t *p = pages(64);

	(void)state;
	start(4, 8 * PAGE);
	if (!uccl_mrcache_keeps(c)) {
		end();
		skip(); /* and cmocka says so */
	}
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
	assert_int_equal(uccl_mrcache_get(c, p + 40 * PAGE, 20 * PAGE, &e), 0);
	assert_true(use(p + 20 * PAGE, 7 * PAGE));
	uccl_mrcache_put(c, e);
	assert_true(uccl_mrcache_stats(c).bytes <= 8 * PAGE);
	munmap(p, 64 * PAGE);
	end();
}

/* Two registrations cover a page; when one is thrown out, the page is still watched. */
static void trim__overlap_stays_watched(void **state)
{
	uint8_t *p = pages(8);

	(void)state;
	start(1, 1 << 20);
	if (!uccl_mrcache_keeps(c)) {
		end();
		skip(); /* and cmocka says so */
	}
	assert_false(use(p, 2 * PAGE));
	assert_false(use(p + PAGE, 2 * PAGE));
	assert_int_equal(registered, 1);
	assert_true(use(p + PAGE, 2 * PAGE));
	assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
	assert_false(use(p + PAGE, 2 * PAGE));
	munmap(p, 8 * PAGE);
	end();
}

/* Its users go on with it, and the next one gets another. */
static void spoil__ends_with_its_last_user(void **state)
{
	const struct uccl_mrcache_entry *e, *f;
	uint8_t *p = pages(2);

	(void)state;
	start(16, 1 << 20);
	assert_int_equal(uccl_mrcache_get(c, p, 2 * PAGE, &e), 0);
	uccl_mrcache_spoil(c, e);
	uccl_mrcache_spoil(c, e);
	assert_int_equal(uccl_mrcache_get(c, p, 2 * PAGE, &f), 0);
	assert_ptr_not_equal(e, f);
	assert_int_equal(registered, 2);
	uccl_mrcache_put(c, e);
	assert_int_equal(registered, 1);
	uccl_mrcache_put(c, f);
	if (uccl_mrcache_keeps(c))
		assert_true(use(p, 2 * PAGE));
	munmap(p, 2 * PAGE);
	assert_int_equal(registered, uccl_mrcache_stats(c).entries);
	end();
}

/* A limit of pinned memory: the idle ones give way, and only then is it an error. */
/* What one cache gives up another one may keep: it is told still. */
static void trim__kept_by_another(void **state)
{
	uint8_t *p = pages(4);
	struct uccl_mrcache *first;

	(void)state;
	start(16, 1 << 20);
	if (!uccl_mrcache_keeps(c)) {
		end();
		skip();
	}
	assert_false(use(p, 4 * PAGE));
	first = c;
	assert_int_equal(uccl_mrcache_open(&ops, NULL, 16, 1 << 20, &c), 0);
	assert_false(use(p, 4 * PAGE));
	uccl_mrcache_close(c);
	c = first;
	assert_true(use(p, 4 * PAGE));
	munmap(p, 4 * PAGE);
	assert_int_equal(uccl_mrcache_stats(c).gone, 1);
	end();
}

static void reg__fails(void **state)
{
	const struct uccl_mrcache_entry *e;
	uint8_t *p = pages(8);
	bool keeps;

	(void)state;
	start(16, 1 << 20);
	keeps = uccl_mrcache_keeps(c);
	assert_false(use(p, PAGE));
	fail_at = calls + 1;
	assert_int_equal(uccl_mrcache_get(c, p + 4 * PAGE, PAGE, &e), keeps ? 0 : -FI_ENOMEM);
	if (keeps)
		uccl_mrcache_put(c, e);
	assert_int_equal(uccl_mrcache_stats(c).evicted, keeps);
	munmap(p, 8 * PAGE);
	end();
	start(16, 1 << 20);
	p = pages(1);
	fail_at = 1;
	assert_int_equal(uccl_mrcache_get(c, p, PAGE, &e), -FI_ENOMEM);
	/* Nobody needs to hear of it. */
	assert_false(watched(p));
	assert_false(use(p, PAGE));
	assert_int_equal(watched(p), uccl_mrcache_keeps(c));
	munmap(p, PAGE);
	end();
}

/* Memory of a file: whatever the kernel tells of it, no registration outlives what it covered. */
static void get__file(void **state)
{
	char name[] = "uccl-test-mrcache-XXXXXX";
	int fd = mkstemp(name);
	uint8_t *p;

	(void)state;
	assert_true(fd >= 0);
	unlink(name);
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	start(16, 1 << 20);
	use(p, 2 * PAGE);
	munmap(p, 2 * PAGE);
	assert_true(mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	assert_false(use(p, 2 * PAGE));
	munmap(p, 2 * PAGE);
	close(fd);
	end();
}

/* Who comes again for each piece gets what is kept, or nothing; nothing is registered in vain. */
static void get_kept__or_nothing(void **state)
{
	const struct uccl_mrcache_entry *e, *again;
	uint8_t *p = pages(4);

	(void)state;
	start(16, 1 << 20);
	if (uccl_mrcache_keeps(c)) {
		assert_int_equal(uccl_mrcache_get_kept(c, p, 4 * PAGE, &e), 0);
		assert_int_equal(uccl_mrcache_get_kept(c, p, 4 * PAGE, &again), 0);
		assert_ptr_equal(e, again);
		uccl_mrcache_put(c, e);
		uccl_mrcache_put(c, e);
		assert_int_equal(registered, 1);
	}
	end();
	start(0, 0);
	assert_int_equal(uccl_mrcache_get_kept(c, p, 4 * PAGE, &e), -FI_ENOSYS);
	assert_int_equal(calls, 0);
	munmap(p, 4 * PAGE);
	end();
}

/* A cache that shall keep nothing. */
static void open__no_entries(void **state)
{
	uint8_t *p = pages(1);

	(void)state;
	start(0, 0);
	assert_false(uccl_mrcache_keeps(c));
	assert_false(use(p, PAGE));
	assert_false(use(p, PAGE));
	assert_int_equal(registered, 0);
	munmap(p, PAGE);
	end();
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
static void all__threads(void **state)
{
	uint8_t *shared = pages(4);
	pthread_t t;

	(void)state;
	start(8, 1 << 20);
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
	end();
}

/* A child has no thread: it keeps nothing, and takes nothing from the parent. */
static void open__in_a_child(void **state)
{
	pid_t child;
	int status;

	(void)state;
	start(8, 1 << 20);
	child = fork();
	if (!child) {
		struct uccl_mrcache *mine;
		uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const struct uccl_mrcache_entry *e;
		bool well;

		registered = 0;
		well = !uccl_mrcache_open(&ops, NULL, 8, 1 << 20, &mine) && !uccl_mrcache_keeps(mine);
		well = well && !uccl_mrcache_get(mine, p, PAGE, &e) && registered == 1;
		uccl_mrcache_put(mine, e);
		_exit(well && registered == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, uccl_mrcache_keeps(c) ? 0 : status);
	end();
}

/* ThreadSanitizer ends a child that starts a thread. */
#ifdef __SANITIZE_THREAD__
#define CHILD_HAS_THREADS false
#else
#define CHILD_HAS_THREADS true
#endif

/* Those that a child inherited can be closed there, in any order, and then it watches its own memory. */
static void close__in_a_child(void **state)
{
	const struct uccl_mrcache_entry *e;
	struct uccl_mrcache *other;
	uint8_t *p = pages(1);
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(uccl_mrcache_open(&ops, NULL, 8, 1 << 20, &other), 0);
	start(8, 1 << 20);
	use(p, PAGE);
	child = fork();
	if (!child) {
		bool well, keeps = uccl_mrcache_keeps(c);

		uccl_mrcache_close(other);
		uccl_mrcache_close(c);
		if (!CHILD_HAS_THREADS)
			_exit(registered == 0 ? 0 : 1);
		well = registered == 0 && !uccl_mrcache_open(&ops, NULL, 8, 1 << 20, &c);
		well = well && uccl_mrcache_keeps(c) == keeps && !uccl_mrcache_get(c, p, PAGE, &e);
		if (well)
			uccl_mrcache_put(c, e);
		well = well && registered == keeps && !munmap(p, PAGE) && uccl_mrcache_stats(c).gone == keeps;
		uccl_mrcache_close(c);
		_exit(well && registered == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* Nobody ended the parent's. */
	assert_int_equal(use(p, PAGE), uccl_mrcache_keeps(c));
	assert_int_equal(munmap(p, PAGE), 0);
	assert_int_equal(uccl_mrcache_stats(c).gone, uccl_mrcache_keeps(c));
	uccl_mrcache_close(other);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__again),
		cmocka_unit_test(gone__unmapped),
		cmocka_unit_test(gone__emptied_and_moved),
		cmocka_unit_test(gone__in_use),
		cmocka_unit_test(trim__entries_and_bytes),
		cmocka_unit_test(trim__overlap_stays_watched),
		cmocka_unit_test(trim__kept_by_another),
		cmocka_unit_test(spoil__ends_with_its_last_user),
		cmocka_unit_test(reg__fails),
		cmocka_unit_test(get__file),
		cmocka_unit_test(get_kept__or_nothing),
		cmocka_unit_test(open__no_entries),
		cmocka_unit_test(all__threads),
		cmocka_unit_test(open__in_a_child),
		cmocka_unit_test(close__in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

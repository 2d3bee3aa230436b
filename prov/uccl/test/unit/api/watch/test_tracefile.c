/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/watch/tracefile.h"
#include "flow/observe/trace.h"
#include "../../tests.h"

static char scratch[] = "uccl-test-trace-XXXXXX";
static char name[64];

static int setup(void **state)
{
	if (!mkdtemp(scratch))
		return -1;
	snprintf(name, sizeof(name), "%s/t", scratch);
	return 0;
}

static int teardown(void **state)
{
	return rmdir(scratch);
}

/* The file NAME.PID.<which> in memory; NULL: there is none. The caller frees it. It is removed. */
static struct uccl_trace *take(int pid, const char *which, size_t *len)
{
	struct uccl_trace *t = NULL;
	struct stat st;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s.%d.%s", name, pid, which);
	f = fopen(path, "rb");
	if (!f)
		return NULL;
	assert_int_equal(fstat(fileno(f), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	t = malloc((size_t)st.st_size);
	assert_non_null(t);
	assert_int_equal(fread(t, 1, (size_t)st.st_size, f), st.st_size);
	*len = (size_t)st.st_size;
	fclose(f);
	unlink(path);
	return t;
}

/* Records are rounded up; a process that ends without a word leaves them all the same. */
TEST(tracefile__outlives_its_process)
{
	struct uccl_trace *t;
	pid_t child = fork();
	size_t len;
	int status;

	if (!child) {
		struct uccl_tracefile *file = uccl_tracefile_open(name, 100);

		for (uint32_t i = 0; file && i < 130; i++)
			uccl_trace_put(uccl_tracefile_ring(file), &(struct uccl_trace_rec){.arg = i});
		uccl_tracefile_flush(file);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	t = take(child, "0.trace", &len);
	assert_non_null(t);
	assert_true(t->magic == UCCL_TRACE_MAGIC);
	assert_int_equal(len, uccl_trace_bytes(128));
	assert_int_equal(t->mask, 127);
	assert_int_equal(t->next, 130);
	assert_int_equal(t->pid, child);
	assert_int_equal(t->rec[1].arg, 129);
	assert_int_equal(t->rec[2].arg, 2);
	free(t);
}

/* The only file of this process: they are numbered. */
static void find_trace(char *path, size_t size)
{
	int n = 0;

	do
		snprintf(path, size, "%s.%d.%d.trace", name, (int)getpid(), n);
	while (access(path, F_OK) && ++n < 20);
	assert_true(n < 20);
}

/* The first error keeps the ring; later ones do not touch what was kept. */
TEST(tracefile_error__once)
{
	struct uccl_tracefile *file = uccl_tracefile_open(name, 64);
	struct uccl_trace *t;
	size_t len;

	assert_non_null(file);
	uccl_trace_put(uccl_tracefile_ring(file), &(struct uccl_trace_rec){.arg = 1});
	uccl_tracefile_error(file, FI_ECONNABORTED, 5);
	uccl_tracefile_error(file, FI_ETRUNC, 6);
	uccl_tracefile_close(file);
	t = take(getpid(), "0.error.trace", &len);
	assert_non_null(t);
	assert_int_equal(t->next, 2);
	assert_int_equal(t->rec[1].kind, UCCL_TRACE_ERROR);
	assert_int_equal(t->rec[1].arg, FI_ECONNABORTED);
	free(t);
	t = take(getpid(), "0.trace", &len);
	assert_non_null(t);
	assert_int_equal(t->next, 3);
	free(t);
	uccl_tracefile_error(NULL, 1, 0);
	uccl_tracefile_close(NULL);
}

TEST(tracefile_open__nowhere)
{
	assert_null(uccl_tracefile_open("/nonexistent/folder/t", 64));
}

/* Two endpoints talk, one to a port where nobody is: what they did, and what led to the error. */
TEST(tracefile__of_endpoints)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	struct uccl_trace *t;
	char value[96];
	uint8_t buf[64] = {0}, in[64];
	struct world w;
	struct node a, b;
	fi_addr_t to_b;
	size_t len;
	ssize_t rc = 0;
	int sent = 0, received = 0;

	snprintf(value, sizeof(value), "%s,records=1000", name);
	setenv("FI_UCCL_TRACE", value, 1);
	world_open(&w);
	unsetenv("FI_UCCL_TRACE");
	to_b = node_pair(&a, &b, &w);
	assert_int_equal(fi_trecv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	while ((rc = fi_tsend(a.ep, buf, sizeof(buf), NULL, to_b, 1, NULL)) == -FI_EAGAIN)
		fi_cq_read(a.cq, &e, 1);
	assert_int_equal(rc, 0);
	while (!(sent && received) && uccl_clock() < end) {
		sent += fi_cq_read(a.cq, &e, 1) == 1;
		received += fi_cq_read(b.cq, &e, 1) == 1;
	}
	assert_true(sent && received);
	/* A receive that is too short fails. */
	assert_int_equal(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
	assert_int_equal(fi_tsend(a.ep, buf, sizeof(buf), NULL, to_b, 2, NULL), 0);
	do {
		fi_cq_read(a.cq, &e, 1);
		rc = fi_cq_read(b.cq, &e, 1);
	} while (rc == -FI_EAGAIN && uccl_clock() < end);
	assert_int_equal(rc, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(b.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ETRUNC);
	node_close(&a);
	node_close(&b);
	world_close(&w);
	for (int i = 0; i < 8; i++) {
		char which[32];

		snprintf(which, sizeof(which), "%d.error.trace", i);
		t = take(getpid(), which, &len);
		if (t) {
			bool peer = false;

			for (uint64_t k = 0; k < t->next; k++)
				peer |= t->rec[k].kind == UCCL_TRACE_PEER_OPEN;
			assert_true(peer);
			assert_int_equal(t->rec[t->next - 1].kind, UCCL_TRACE_ERROR);
			assert_int_equal(t->rec[t->next - 1].arg, FI_ETRUNC);
			received++;
		}
		free(t);
		snprintf(which, sizeof(which), "%d.trace", i);
		t = take(getpid(), which, &len);
		sent += t != NULL;
		free(t);
	}
	assert_int_equal(received, 2);
	assert_int_equal(sent, 3);
}

/* Any number of records between two flushes, over the end of the ring too: the file is the ring. */
TEST(tracefile_flush__any_number)
{
	struct uccl_tracefile *file = uccl_tracefile_open(name, 64);
	struct uccl_trace *ring, *t;
	char path[128];
	uint32_t i = 0;
	uint64_t bytes;
	FILE *f;

	assert_non_null(file);
	ring = uccl_tracefile_ring(file);
	find_trace(path, sizeof(path));
	f = fopen(path, "rb");
	assert_non_null(f);
	setbuf(f, NULL);
	bytes = uccl_trace_bytes(64);
	t = malloc(bytes);
	for (uint32_t n = 0; n < 140; n++) {
		for (uint32_t k = 0; k < n; k++)
			uccl_trace_put(ring, &(struct uccl_trace_rec){.arg = i++});
		uccl_tracefile_flush(file);
		rewind(f);
		assert_int_equal(fread(t, 1, bytes, f), bytes);
		assert_memory_equal(t, ring, bytes);
	}
	fclose(f);
	free(t);
	uccl_tracefile_close(file);
	unlink(path);
}

/* Somebody cuts the file off: the process goes on, and what comes later is written. */
TEST(tracefile__cut_off)
{
	struct uccl_tracefile *file = uccl_tracefile_open(name, 64);
	char path[128];
	struct stat st;

	assert_non_null(file);
	find_trace(path, sizeof(path));
	assert_int_equal(truncate(path, 0), 0);
	for (uint32_t i = 0; i < 100; i++)
		uccl_trace_put(uccl_tracefile_ring(file), &(struct uccl_trace_rec){.arg = i});
	uccl_tracefile_close(file);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, uccl_trace_bytes(64));
	unlink(path);
}

TESTS_MAIN_IN(setup, teardown)

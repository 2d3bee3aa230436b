/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "api/event/cq.h"
#include "../../tests.h"

static struct fid_cq *cq_open(struct world *w, enum fi_cq_format format, enum fi_wait_obj wait, size_t size)
{
	struct fi_cq_attr attr = { .format = format, .wait_obj = wait, .size = size };
	struct fid_cq *cq;

	assert_int_equal(fi_cq_open(w->domain, &attr, &cq, NULL), 0);
	return cq;
}

static struct uccl_cq *inside(struct fid_cq *cq)
{
	return uccl_cq_of(&cq->fid);
}

static void push(struct fid_cq *cq, uint64_t i)
{
	struct fi_cq_tagged_entry e = {
		.op_context = (void *)(uintptr_t)(i + 1),
		.flags = FI_RECV | FI_TAGGED,
		.len = i,
		.data = i * 3,
		.tag = i * 5,
	};

	uccl_cq_push(inside(cq), &e, i * 7);
}

WORLD_TEST(open__kinds, world, w)
{
	static const enum fi_wait_obj kinds[] = { FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
						  FI_WAIT_YIELD };
	struct fi_cq_attr bad_format = { .format = (enum fi_cq_format)9 }, bad_wait = { .wait_obj = FI_WAIT_SET };
	struct fid_cq *cq;

	for (size_t i = 0; i < uccl_array_len(kinds); i++)
		for (int f = FI_CQ_FORMAT_UNSPEC; f <= FI_CQ_FORMAT_TAGGED; f++)
			for (size_t size = 0; size <= 65536; size = size * 16 + 1)
				assert_int_equal(fi_close(&cq_open(w, f, kinds[i], size)->fid), 0);
	assert_int_equal(fi_cq_open(w->domain, &bad_format, &cq, NULL), -FI_EINVAL);
	assert_int_equal(fi_cq_open(w->domain, &bad_wait, &cq, NULL), -FI_ENOSYS);
	assert_int_equal(fi_cq_open(w->domain, NULL, &cq, NULL), 0);
	assert_int_equal(fi_close(&w->domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&cq->fid), 0);
}

WORLD_TEST(read__formats, world, w)
{
	struct fi_cq_entry c[2];
	struct fi_cq_msg_entry m[2];
	struct fi_cq_data_entry d[2];
	struct fi_cq_tagged_entry t[2];
	struct fid_cq *cq;

#define CHECK(format, v, last, want)                                                                                   \
	cq = cq_open(w, format, FI_WAIT_NONE, 0);                                                                     \
	push(cq, 1);                                                                                                   \
	push(cq, 2);                                                                                                   \
	assert_int_equal(fi_cq_read(cq, v, 2), 2);                                                                     \
	assert_ptr_equal(v[1].op_context, (void *)3);                                                                  \
	assert_int_equal(last, want);                                                                                  \
	assert_int_equal(fi_close(&cq->fid), 0)
	CHECK(FI_CQ_FORMAT_UNSPEC, c, (uintptr_t)c[0].op_context, 2);
	CHECK(FI_CQ_FORMAT_CONTEXT, c, (uintptr_t)c[0].op_context, 2);
	CHECK(FI_CQ_FORMAT_MSG, m, m[1].len, 2);
	CHECK(FI_CQ_FORMAT_DATA, d, d[1].data, 6);
	CHECK(FI_CQ_FORMAT_TAGGED, t, t[1].tag, 10);
#undef CHECK
}

/* The size that was asked for is where posting stops, never where entries are lost. */
WORLD_TEST(push__beyond_size, world, w)
{
	enum { N = 5000 };
	struct fi_cq_tagged_entry e;
	fi_addr_t src;
	struct fid_cq *cq;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 100);
	for (uint64_t i = 0; i < N; i++) {
		assert_int_equal(uccl_cq_full(inside(cq)), i >= 100);
		push(cq, i);
		/* keep the ring turning */
		if (i == 200) {
			for (uint64_t k = 0; k < 50; k++)
				assert_int_equal(fi_cq_read(cq, &e, 1), 1);
			for (uint64_t k = 0; k < 50; k++)
				push(cq, 0);
		}
	}
	for (uint64_t i = 50; i < N; i++) {
		assert_int_equal(fi_cq_readfrom(cq, &e, 1, &src), 1);
		assert_int_equal(e.tag, i * 5);
		assert_int_equal(src, i * 7);
		for (uint64_t k = 0; i == 200 && k < 50; k++)
			assert_int_equal(fi_cq_read(cq, &e, 1), 1);
	}
	assert_int_equal(fi_cq_read(cq, &e, 1), -FI_EAGAIN);
	assert_false(uccl_cq_full(inside(cq)));
	assert_int_equal(fi_close(&cq->fid), 0);
}

WORLD_TEST(readerr__in_turn, world, w)
{
	struct fi_cq_tagged_entry e = { .op_context = &e, .flags = FI_SEND, .tag = 4 }, got[4];
	struct fi_cq_err_entry err;
	char own[8], text[64];
	struct fid_cq *cq;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 0);
	memset(&err, 0, sizeof(err));
	assert_int_equal(fi_cq_readerr(cq, &err, 0), -FI_EAGAIN);
	push(cq, 1);
	uccl_cq_push_error(inside(cq), NULL, &e, FI_ECONNRESET, 17, "who and why");
	push(cq, 2);
	uccl_cq_push_error(inside(cq), NULL, &e, FI_EIO, 0, "another reason");
	assert_int_equal(fi_cq_readerr(cq, &err, 0), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(cq, got, 4), 1);
	assert_int_equal(fi_cq_read(cq, got, 4), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(cq, &err, 0), 1);
	assert_ptr_equal(err.op_context, &e);
	assert_int_equal(err.err, FI_ECONNRESET);
	assert_int_equal(err.prov_errno, FI_ECONNRESET);
	assert_int_equal(err.olen, 17);
	assert_int_equal(err.tag, 4);
	assert_string_equal(err.err_data, "who and why");
	assert_int_equal(err.err_data_size, sizeof("who and why"));
	assert_string_equal(fi_cq_strerror(cq, err.prov_errno, err.err_data, text, sizeof(text)), "who and why");
	assert_string_equal(text, "who and why");
	assert_string_equal(fi_cq_strerror(cq, FI_ETRUNC, NULL, NULL, 0), fi_strerror(FI_ETRUNC));
	assert_int_equal(fi_cq_read(cq, got, 4), 1);
	/* into a buffer of the program, cut */
	err.err_data = own;
	err.err_data_size = sizeof(own);
	assert_int_equal(fi_cq_readerr(cq, &err, 0), 1);
	assert_ptr_equal(err.err_data, own);
	assert_string_equal(own, "another");
	/* a struct that was never cleared: nothing is written through it */
	for (int i = 0; i < 2; i++) {
		uccl_cq_push_error(inside(cq), NULL, &e, i ? FI_EIO : FI_ENOMSG, 0, "stray");
		memset(&err, 0xa5, sizeof(err));
		assert_int_equal(fi_cq_readerr(cq, &err, 0), 1);
		assert_string_equal(i ? err.err_data : "stray", "stray");
		assert_true(i || (!err.err_data && !err.err_data_size));
		assert_string_equal(fi_cq_strerror(cq, err.prov_errno, NULL, NULL, 0), "stray");
	}
	assert_int_equal(fi_cq_read(cq, got, 4), -FI_EAGAIN);
	uccl_cq_push_error(inside(cq), NULL, &e, FI_EIO, 0, "left unread");
	assert_int_equal(fi_close(&cq->fid), 0);
}

static void *ask_for_text(void *arg)
{
	struct fid_cq *cq = arg;
	char text[64];

	for (int i = 0; i < 2000; i++)
		if (fi_cq_strerror(cq, FI_EIO, NULL, text, sizeof(text)) != text || !text[0])
			return cq;
	return NULL;
}

/* The text stays the caller's, whatever another thread reads meanwhile. */
WORLD_TEST(strerror__beside_readerr, world, w)
{
	struct fi_cq_tagged_entry e = { .op_context = &e, .flags = FI_SEND };
	struct fi_cq_err_entry err;
	struct fid_cq *cq;
	pthread_t t;
	void *bad;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 0);
	assert_int_equal(pthread_create(&t, NULL, ask_for_text, cq), 0);
	for (int i = 0; i < 2000; i++) {
		memset(&err, 0, sizeof(err));
		uccl_cq_push_error(inside(cq), NULL, &e, FI_EIO, 0, "a reason");
		assert_int_equal(fi_cq_readerr(cq, &err, 0), 1);
	}
	pthread_join(t, &bad);
	assert_null(bad);
	assert_int_equal(fi_close(&cq->fid), 0);
}

/* Among many, in any order; the ring grows and turns meanwhile. */
WORLD_TEST(cancel__among_many, world, w)
{
	enum { N = 1000 };
	static const struct uccl_ep *const eps[2] = { (void *)64, (void *)128 };
	struct fi_cq_err_entry err;
	struct fi_cq_tagged_entry e;
	struct fid_cq *cq;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 0);
	assert_int_equal(uccl_cq_cancel(inside(cq), eps[0], NULL), -FI_ENOENT);
	for (uintptr_t i = 0; i < 100; i++) {
		push(cq, i);
		assert_int_equal(fi_cq_read(cq, &e, 1), 1);
	}
	for (uintptr_t i = 0; i < N; i++) {
		e = (struct fi_cq_tagged_entry){ .op_context = (void *)(i / 2) };
		if (i % 3)
			uccl_cq_push_error(inside(cq), eps[i % 2], &e, FI_EIO, 0, "x");
		else
			uccl_cq_push(inside(cq), &e, 0);
		/* those of every fifth one, backwards, are cancelled at once: of this endpoint, and failed */
		if (i % 5 == 4)
			assert_int_equal(uccl_cq_cancel(inside(cq), eps[(i - 2) % 2], (void *)((i - 2) / 2)),
					 (i - 2) % 3 ? 0 : -FI_ENOENT);
	}
	for (uintptr_t i = 0; i < N; i++) {
		if (i % 3 == 0) {
			assert_int_equal(fi_cq_read(cq, &e, 1), 1);
			continue;
		}
		memset(&err, 0, sizeof(err));
		assert_int_equal(fi_cq_readerr(cq, &err, 0), 1);
		assert_ptr_equal(err.op_context, (void *)(i / 2));
		assert_int_equal(err.err, i % 5 == 2 ? FI_ECANCELED : FI_EIO);
	}
	assert_int_equal(uccl_cq_cancel(inside(cq), eps[0], NULL), -FI_ENOENT);
	assert_int_equal(fi_close(&cq->fid), 0);
}

/* The entry of a program for 1.17 ends at 80 bytes, that of one for 1.20 has a source behind them. */
WORLD_TEST(readerr__tail, world, w)
{
	union {
		struct fi_cq_err_entry e;
		fi_addr_t word[16];
	} err;
	struct fi_cq_tagged_entry e = { .tag = 4 };
	struct fid_cq *cq;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 0);
	uccl_cq_push_error(inside(cq), NULL, &e, FI_EIO, 0, "x");
	memset(&err, 0, sizeof(err));
	err.word[10] = err.word[11] = 123;
	assert_int_equal(cq->ops->readerr(cq, &err.e, 0), 1);
	assert_int_equal(err.word[10], 123);
	w->fabric->api_version = FI_VERSION(1, 20);
	uccl_cq_push_error(inside(cq), NULL, &e, FI_EIO, 0, "x");
	assert_int_equal(cq->ops->readerr(cq, &err.e, 0), 1);
	assert_true(err.word[10] == FI_ADDR_NOTAVAIL);
	assert_int_equal(err.word[11], 123);
	assert_int_equal(fi_close(&cq->fid), 0);
}

WORLD_TEST(sread__time, world, w)
{
	struct fi_cq_tagged_entry e;
	struct fid_cq *cq;
	uint64_t t;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 0);
	assert_int_equal(fi_cq_sread(cq, &e, 1, NULL, 10), -FI_ENOSYS);
	assert_int_equal(fi_cq_signal(cq), -FI_ENOSYS);
	assert_int_equal(fi_close(&cq->fid), 0);
	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC, 0);
	t = uccl_clock();
	assert_int_equal(fi_cq_sread(cq, &e, 1, NULL, 30), -FI_EAGAIN);
	assert_true(uccl_clock() - t >= 29 * UCCL_NS_PER_MS);
	push(cq, 1);
	assert_int_equal(fi_cq_sread(cq, &e, 1, NULL, -1), 1);
	/* a signal that came before counts, once */
	assert_int_equal(fi_cq_signal(cq), 0);
	assert_int_equal(fi_cq_sread(cq, &e, 1, NULL, -1), -FI_EAGAIN);
	t = uccl_clock();
	assert_int_equal(fi_cq_sread(cq, &e, 1, NULL, 20), -FI_EAGAIN);
	assert_true(uccl_clock() - t >= 19 * UCCL_NS_PER_MS);
	assert_int_equal(fi_close(&cq->fid), 0);
}

struct sleeper {
	struct fid_cq *cq;
	_Atomic int got;
};

static void *sleep_for_some(void *arg)
{
	struct sleeper *s = arg;
	struct fi_cq_tagged_entry e;

	while (fi_cq_sread(s->cq, &e, 1, NULL, 20000) == 1)
		if (++s->got >= 200)
			break;
	return NULL;
}

/* Several threads sleep on one queue while entries come: none sleeps on. */
WORLD_TEST(sread__many_sleepers, world, w)
{
	struct sleeper s = { 0 };
	pthread_t t[3];
	struct fid_cq *cq;
	uint64_t begin = uccl_clock();

	s.cq = cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleep_for_some, &s), 0);
	for (int i = 0; i < 202; i++) {
		push(cq, i);
		if (i % 16 == 0)
			usleep(1000);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	assert_true(s.got >= 200);
	assert_true(uccl_clock() - begin < 15 * UCCL_NS_PER_S);
	assert_int_equal(fi_close(&cq->fid), 0);
}

WORLD_TEST(trywait__fd, world, w)
{
	struct pollfd pfd = { .events = POLLIN };
	enum fi_wait_obj obj;
	struct fi_wait_pollfd wp = { .nfds = 0 };
	struct fi_cq_tagged_entry e;
	struct fid *fids[1];
	struct fid_cq *cq;

	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 0);
	fids[0] = &cq->fid;
	assert_int_equal(fi_trywait(w->fabric, fids, 1), -FI_EINVAL);
	assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &pfd.fd), -FI_ENODATA);
	assert_int_equal(fi_close(&cq->fid), 0);
	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, 0);
	fids[0] = &cq->fid;
	assert_int_equal(fi_control(&cq->fid, FI_GETWAITOBJ, &obj), 0);
	assert_int_equal(obj, FI_WAIT_FD);
	assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &pfd.fd), 0);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	push(cq, 1);
	assert_int_equal(poll(&pfd, 1, 1000), 1);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(cq, &e, 1), 1);
	assert_int_equal(fi_trywait(w->fabric, fids, 1), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(fi_close(&cq->fid), 0);
	cq = cq_open(w, FI_CQ_FORMAT_TAGGED, FI_WAIT_POLLFD, 0);
	assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &wp), -FI_ETOOSMALL);
	assert_int_equal(wp.nfds, 1);
	wp.fd = &pfd;
	assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &wp), 0);
	assert_int_equal(wp.nfds, 1);
	assert_true(pfd.fd >= 0);
	assert_int_equal(fi_close(&cq->fid), 0);
}

/* The time of the latest round of the queue's endpoints; as if it was this, ns. */
static uint64_t round_at(struct fid_cq *cq)
{
	return atomic_load(&inside(cq)->drivers.began_ns);
}

static void round_was(struct fid_cq *cq, uint64_t ns)
{
	atomic_store(&inside(cq)->drivers.began_ns, ns);
}

/*
 * A program that reads until there is nothing: the last read looks at no network if the network was looked at just now,
 * once. A program that is about to sleep, or has posted what waits for a round, makes the round.
 */
WORLD_TEST(read__until_nothing, world, w)
{
	const uint64_t ahead = uccl_clock() + 3600 * UCCL_NS_PER_S;
	struct fi_cq_tagged_entry e;
	struct node n;

	node_open(&n, w);
	push(n.cq, 1);
	round_was(n.cq, ahead);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), 1);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), -FI_EAGAIN);
	assert_true(round_at(n.cq) == ahead);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), -FI_EAGAIN);
	assert_true(round_at(n.cq) < ahead);

	/* That was long ago. */
	push(n.cq, 1);
	round_was(n.cq, 1);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), 1);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), -FI_EAGAIN);
	assert_true(round_at(n.cq) > 1);

	push(n.cq, 1);
	round_was(n.cq, ahead);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), 1);
	atomic_store(&uccl_ep_fid_of(&n.ep->fid)->ep->driver.waits_ns, 1);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), -FI_EAGAIN);
	assert_true(round_at(n.cq) < ahead);

	push(n.cq, 1);
	round_was(n.cq, ahead);
	assert_int_equal(fi_cq_read(n.cq, &e, 1), 1);
	assert_int_equal(fi_cq_sread(n.cq, &e, 1, NULL, 0), -FI_EAGAIN);
	assert_true(round_at(n.cq) < ahead);
	node_close(&n);
}

TESTS_MAIN

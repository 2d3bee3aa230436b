/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections over the real engine, on loopback. */
#include "../connected.h"

#include <poll.h>
#include <pthread.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/endpoint/cm.h"
#include "../../tests.h"

static uint8_t words[257];

static void fill_words(void)
{
	for (size_t i = 0; i < sizeof(words); i++)
		words[i] = (uint8_t)(i * 5 + 1);
}

/* What both say arrives, of every length that is allowed. */
TEST(connect__data)
{
	static const size_t lens[] = { 0, 1, 100, 256 };
	size_t most, len = sizeof(most);
	struct pair p;
	struct told t;

	fill_words();
	pair_open(&p);
	assert_int_equal(fi_getopt(&p.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &len), 0);
	assert_int_equal(most, 256);
	assert_int_equal(fi_connect(p.a.ep, p.name, words, 257), -FI_EINVAL);
	for (size_t i = 0; i < uccl_array_len(lens); i++) {
		if (i)
			party_open_with(&p.a, &p.w, p.w.info);
		pair_ask(&p, words, lens[i], &t);
		assert_memory_equal(t.entry.data, words, lens[i]);
		party_open_with(&p.b, &p.w, t.entry.info);
		fi_freeinfo(t.entry.info);
		assert_int_equal(fi_accept(p.b.ep, words, 257), -FI_EINVAL);
		assert_int_equal(fi_accept(p.b.ep, words + 1, lens[i]), 0);
		pair_expect(&p, p.a.eq, FI_CONNECTED, &p.a.ep->fid, &t);
		assert_int_equal(t.len, lens[i]);
		assert_memory_equal(t.entry.data, words + 1, lens[i]);
		pair_expect(&p, p.b.eq, FI_CONNECTED, &p.b.ep->fid, &t);
		assert_int_equal(t.len, 0);
		party_close(&p.a);
		party_close(&p.b);
	}
	pair_close(&p);
}

/* Messages of all kinds, receives posted before there is a connection, and remote memory. */
TEST(connected__transfers)
{
	uint8_t *out = malloc(300000), *in = calloc(1, 300000);
	struct fi_info *info;
	struct fid_mr *mr;
	struct pair p;
	struct told t;

	for (int i = 0; i < 300000; i++)
		out[i] = (uint8_t)(i * 3 + i / 251);
	pair_open(&p);
	assert_int_equal(fi_enable(p.a.ep), 0);
	assert_int_equal(fi_recv(p.a.ep, in, 100, NULL, 0, in), 0);
	assert_int_equal(fi_send(p.a.ep, out, 8, NULL, 0, out), -FI_ENOTCONN);
	assert_int_equal(fi_inject(p.a.ep, out, 8, 0), -FI_ENOTCONN);
	pair_ask(&p, NULL, 0, &t);
	info = t.entry.info;
	party_open_with(&p.b, &p.w, info);
	fi_freeinfo(info);
	assert_int_equal(fi_accept(p.b.ep, NULL, 0), 0);
	pair_expect(&p, p.b.eq, FI_CONNECTED, &p.b.ep->fid, &t);
	pair_expect(&p, p.a.eq, FI_CONNECTED, &p.a.ep->fid, &t);
	assert_int_equal(fi_send(p.b.ep, out, 100, NULL, 77, out), 0);
	pair_done(&p, &p.a, in, FI_RECV | FI_MSG);
	pair_done(&p, &p.b, out, FI_SEND | FI_MSG);
	assert_memory_equal(in, out, 100);
	assert_int_equal(fi_trecv(p.b.ep, in, 300000, NULL, 0, 9, 0, in), 0);
	assert_int_equal(fi_tsend(p.a.ep, out, 300000, NULL, FI_ADDR_UNSPEC, 9, out), 0);
	pair_done(&p, &p.b, in, FI_RECV | FI_TAGGED);
	pair_done(&p, &p.a, out, FI_SEND | FI_TAGGED);
	assert_memory_equal(in, out, 300000);
	memset(in, 0, 300000);
	assert_int_equal(fi_mr_reg(p.w.domain, in, 300000, FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
	assert_int_equal(fi_write(p.a.ep, out, 200000, NULL, 0, 100, 5, out), 0);
	pair_done(&p, &p.a, out, FI_WRITE | FI_RMA);
	assert_memory_equal(in + 100, out, 200000);
	assert_int_equal(fi_close(&mr->fid), 0);
	pair_close(&p);
	free(out);
	free(in);
}

/* Requests and goodbyes are told by reads of event queues, so who sends leaves them to these. */
TEST(connected__leaves_looks)
{
	struct pair p;
	char *buf;

	world_rescue_off();
	pair_open(&p);
	world_rescue_on();
	pair_connect(&p);
	assert_true(world_leaves_looks(p.a.ep, 0, &buf));
	pair_close(&p);
	free(buf);
}

TEST(reject__data)
{
	struct fi_eq_err_entry err;
	uint8_t own[4] = { 0 };
	struct pair p;
	struct told t;

	fill_words();
	pair_open(&p);
	for (int i = 0; i < 2; i++) {
		if (i)
			party_open_with(&p.a, &p.w, p.w.info);
		pair_ask(&p, NULL, 0, &t);
		assert_int_equal(fi_reject(p.pep, t.entry.info->handle, words, 257), -FI_EINVAL);
		assert_int_equal(fi_reject(p.pep, t.entry.info->handle, words, 200), 0);
		assert_int_equal(fi_reject(p.pep, t.entry.info->handle, words, 200), -FI_EINVAL);
		fi_freeinfo(t.entry.info);
		assert_int_equal(pair_event(&p, p.a.eq, &t), -FI_EAVAIL);
		memset(&err, 0, sizeof(err));
		if (i) {
			/* as much as fits into the reader's own */
			err.err_data = own;
			err.err_data_size = sizeof(own);
		}
		assert_int_equal(fi_eq_readerr(p.a.eq, &err, 0), sizeof(err));
		assert_int_equal(err.err, FI_ECONNREFUSED);
		assert_ptr_equal(err.fid, &p.a.ep->fid);
		assert_ptr_equal(err.context, &p.a);
		assert_int_equal(err.err_data_size, i ? sizeof(own) : 200);
		assert_memory_equal(err.err_data, words, err.err_data_size);
		/* An endpoint connects once. */
		assert_int_equal(fi_connect(p.a.ep, p.name, NULL, 0), -FI_EOPBADSTATE);
		party_close(&p.a);
	}
	pair_close(&p);
}

/* Where nobody is, where nobody listens any more, and at an endpoint that is no listener. */
WORLD_TEST(connect__refused, pair, p)
{
	struct fi_eq_err_entry err;

	assert_int_equal(fi_close(&p->pep->fid), 0);
	p->pep = NULL;
	assert_int_equal(fi_connect(p->a.ep, p->name, NULL, 0), 0);
	assert_int_equal(pair_error(p, p->a.eq, &p->a.ep->fid, &err), FI_ECONNREFUSED);
	party_close(&p->a);
	party_open_with(&p->a, &p->w, p->w.info);
	assert_int_equal(fi_enable(p->a.ep), 0);
	assert_int_equal(fi_getname(&p->a.ep->fid, p->name, &(size_t){ sizeof(p->name) }), 0);
	assert_int_equal(fi_connect(p->a.ep, p->name, NULL, 0), -FI_ECONNREFUSED);
}

/* Who reads of a request without a buffer has none of it, and nothing to free. */
WORLD_TEST(connect__told_without_a_buffer, pair, p)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	uint32_t event = 0;
	ssize_t rc;

	assert_int_equal(fi_connect(p->a.ep, p->name, NULL, 0), 0);
	do {
		pair_drive(p);
		rc = fi_eq_read(p->listen_eq, &event, NULL, 0, 0);
	} while (rc == -FI_EAGAIN && uccl_clock() < end);
	assert_int_equal(rc, 0);
	assert_int_equal(event, FI_CONNREQ);
}

/* Requests that are not answered end with the listener, and with the endpoint that was made for them. */
WORLD_TEST(connect__forgotten, pair, p)
{
	struct fi_eq_err_entry err;
	struct told t;

	pair_ask_b(p);
	party_close(&p->b);
	assert_int_equal(pair_error(p, p->a.eq, &p->a.ep->fid, &err), FI_ECONNREFUSED);
	assert_int_equal(err.err_data_size, 0);
	party_close(&p->a);
	party_open_with(&p->a, &p->w, p->w.info);
	assert_int_equal(fi_connect(p->a.ep, p->name, NULL, 0), 0);
	/* The request is in the queue, unread. */
	for (uint64_t end = uccl_clock() + PATIENCE_NS; uccl_clock() < end;) {
		pair_drive(p);
		if (fi_eq_read(p->listen_eq, &t.event, t.room, sizeof(t.room), FI_PEEK) > 0)
			break;
	}
	assert_int_equal(fi_close(&p->pep->fid), 0);
	p->pep = NULL;
	assert_int_equal(pair_error(p, p->a.eq, &p->a.ep->fid, &err), FI_ECONNREFUSED);
	assert_int_equal(fi_eq_read(p->listen_eq, &t.event, t.room, sizeof(t.room), 0), -FI_EAGAIN);
}

/* The listener may go as soon as it has handed a request on. */
WORLD_TEST(accept__listener_gone, pair, p)
{
	struct told t;

	pair_ask_b(p);
	assert_int_equal(fi_close(&p->pep->fid), 0);
	p->pep = NULL;
	for (int i = 0; i < 1000; i++)
		pair_drive(p);
	assert_int_equal(fi_accept(p->b.ep, NULL, 0), 0);
	pair_expect(p, p->a.eq, FI_CONNECTED, &p->a.ep->fid, &t);
	pair_expect(p, p->b.eq, FI_CONNECTED, &p->b.ep->fid, &t);
}

/*
 * What was sent before a shutdown arrives, in receives posted before and after; those that meet nothing end. Each side
 * hears of it once. PROTOCOL R113
 */
WORLD_TEST(shutdown__told_once, pair, p)
{
	char in[4][8];
	struct told t;

	assert_int_equal(fi_shutdown(p->a.ep, 0), -FI_ENOTCONN);
	pair_connect(p);
	assert_int_equal(fi_shutdown(p->a.ep, 1), -FI_EINVAL);
	assert_int_equal(fi_recv(p->a.ep, in[0], 8, NULL, 0, in[0]), 0);
	assert_int_equal(fi_recv(p->b.ep, in[1], 8, NULL, 0, in[1]), 0);
	assert_int_equal(fi_inject(p->a.ep, "first", 6, 0), 0);
	assert_int_equal(fi_inject(p->a.ep, "second", 7, 0), 0);
	assert_int_equal(fi_trecv(p->b.ep, in[2], 8, NULL, 0, 1, 0, in[2]), 0);
	assert_int_equal(fi_shutdown(p->a.ep, 0), 0);
	assert_int_equal(fi_shutdown(p->a.ep, 0), 0);
	pair_failed(p, &p->a, in[0], FI_ECANCELED);
	pair_expect(p, p->a.eq, FI_SHUTDOWN, &p->a.ep->fid, &t);
	assert_int_equal(fi_send(p->a.ep, in[0], 8, NULL, 0, NULL), -FI_ENOTCONN);
	pair_done(p, &p->b, in[1], FI_RECV | FI_MSG);
	pair_expect(p, p->b.eq, FI_SHUTDOWN, &p->b.ep->fid, &t);
	pair_failed(p, &p->b, in[2], FI_ECANCELED);
	assert_int_equal(fi_recv(p->b.ep, in[3], 8, NULL, 0, in[3]), 0);
	pair_done(p, &p->b, in[3], FI_RECV | FI_MSG);
	assert_string_equal(in[1], "first");
	assert_string_equal(in[3], "second");
	assert_int_equal(fi_send(p->b.ep, in[0], 8, NULL, 0, NULL), -FI_ENOTCONN);
	assert_int_equal(fi_shutdown(p->b.ep, 0), 0);
	for (int i = 0; i < 1000; i++)
		pair_drive(p);
	assert_int_equal(fi_eq_read(p->a.eq, &t.event, t.room, sizeof(t.room), 0), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(p->b.eq, &t.event, t.room, sizeof(t.room), 0), -FI_EAGAIN);
}

/* A peer that closes without a word is as good. */
WORLD_TEST(close__is_a_shutdown, pair, p)
{
	struct told t;
	char in[8];

	pair_connect(p);
	assert_int_equal(fi_recv(p->a.ep, in, 8, NULL, 0, in), 0);
	assert_int_equal(fi_close(&p->b.ep->fid), 0);
	p->b.ep = NULL;
	pair_expect(p, p->a.eq, FI_SHUTDOWN, &p->a.ep->fid, &t);
	pair_failed(p, &p->a, in, FI_ECANCELED);
	assert_int_equal(fi_send(p->a.ep, in, 8, NULL, 0, NULL), -FI_ENOTCONN);
}

/* What c says to a was refused so often, and a's program was told nothing. */
static void refused(struct pair *p, struct party *c, uint64_t times)
{
	struct uccl_ep *a = party_ep(&p->a);
	struct told t;

	for (uint64_t end = uccl_clock() + PATIENCE_NS; uccl_clock() < end;) {
		pair_drive(p);
		(void)fi_cq_read(c->cq, NULL, 0);
		if (ep_dropped(a, UCCL_DROP_STATE) >= times)
			break;
	}
	assert_int_equal(ep_dropped(a, UCCL_DROP_STATE), times);
	assert_int_equal(fi_eq_read(p->a.eq, &t.event, t.room, 0, FI_PEEK), -FI_EAGAIN);
}

/* What others say to a connected endpoint, or one that connects, changes nothing. PROTOCOL R112 */
WORLD_TEST(heard__of_others, pair, p)
{
	const struct uccl_addr *to;
	struct party c;
	struct told t;

	party_open_with(&c, &p->w, p->w.info);
	assert_int_equal(fi_enable(c.ep), 0);
	assert_int_equal(fi_enable(p->a.ep), 0);
	pair_ask(p, NULL, 0, &t);
	to = uccl_engine_addr(party_ep(&p->a)->driver.engine);
	/* not with the number of the request */
	party_say(&c, to, UCCL_CM_ACCEPT, 12345, "x", 1);
	party_say(&c, to, UCCL_CM_REJECT, 12345, "x", 1);
	party_say(&c, to, UCCL_CM_BYE, 12345, "x", 1);
	party_say(&c, to, 77, 12345, "x", 1);
	party_say(&c, to, UCCL_CM_REQ, 12345, words, 100);
	refused(p, &c, 5);
	party_open_with(&p->b, &p->w, t.entry.info);
	fi_freeinfo(t.entry.info);
	assert_int_equal(fi_accept(p->b.ep, NULL, 0), 0);
	pair_expect(p, p->a.eq, FI_CONNECTED, &p->a.ep->fid, &t);
	pair_expect(p, p->b.eq, FI_CONNECTED, &p->b.ep->fid, &t);
	party_say(&c, to, UCCL_CM_BYE, 12345, NULL, 0);
	refused(p, &c, 6);
	assert_int_equal(fi_inject(p->a.ep, "x", 1, 0), 0);
	party_close(&c);
}

/* Names: of the accepted one that of the listener, as its peer knows it; and what is missing before. */
WORLD_TEST(name__both_sides, pair, p)
{
	uint8_t name[FI_UCCL_ADDR_LEN], other[FI_UCCL_ADDR_LEN];
	size_t len = sizeof(name);
	struct fid_av *av;

	assert_int_equal(fi_getpeer(p->a.ep, name, &len), -FI_ENOTCONN);
	assert_int_equal(fi_av_open(p->w.domain, &(struct fi_av_attr){ .type = FI_AV_TABLE }, &av, NULL), 0);
	assert_int_equal(fi_ep_bind(p->a.ep, &av->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(fi_accept(p->a.ep, NULL, 0), -FI_EOPBADSTATE);
	assert_int_equal(fi_connect(p->a.ep, NULL, NULL, 0), -FI_EINVAL);
	pair_connect(p);
	assert_int_equal(fi_getpeer(p->a.ep, name, &len), 0);
	assert_memory_equal(name, p->name, sizeof(name));
	assert_int_equal(fi_getname(&p->b.ep->fid, name, &len), 0);
	assert_memory_equal(name, p->name, sizeof(name));
	assert_int_equal(fi_getname(&p->a.ep->fid, name, &len), 0);
	assert_int_equal(fi_getpeer(p->b.ep, other, &len), 0);
	assert_memory_equal(name, other, sizeof(name));
}

WORLD_TEST(needs__an_event_queue, pair, p)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct told t;

	assert_int_equal(fi_endpoint(p->w.domain, p->w.info, &ep, NULL), 0);
	assert_int_equal(fi_connect(ep, p->name, NULL, 0), -FI_ENOEQ);
	assert_int_equal(fi_ep_bind(ep, &p->a.eq->fid, 0), 0);
	assert_int_equal(fi_connect(ep, p->name, NULL, 0), -FI_ENOCQ);
	assert_int_equal(fi_cq_open(p->w.domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_connect(ep, p->name, NULL, 0), 0);
	assert_int_equal(fi_connect(ep, p->name, NULL, 0), -FI_EOPBADSTATE);
	pair_expect(p, p->listen_eq, FI_CONNREQ, &p->pep->fid, &t);
	fi_freeinfo(t.entry.info);
	world_closes(&ep->fid, &cq->fid);
}

static void *serve_main(void *arg)
{
	struct pair *p = arg;
	uint32_t event;
	struct told t;

	assert_int_equal(fi_eq_sread(p->listen_eq, &t.event, t.room, sizeof(t.room), 20000, 0), sizeof(t.entry));
	assert_int_equal(t.event, FI_CONNREQ);
	party_open_with(&p->b, &p->w, t.entry.info);
	fi_freeinfo(t.entry.info);
	assert_int_equal(fi_accept(p->b.ep, NULL, 0), 0);
	assert_int_equal(fi_eq_sread(p->b.eq, &event, t.room, sizeof(t.room), 20000, 0), sizeof(t.entry));
	assert_int_equal(event, FI_CONNECTED);
	assert_int_equal(fi_eq_sread(p->b.eq, &event, t.room, sizeof(t.room), 20000, 0), sizeof(t.entry));
	assert_int_equal(event, FI_SHUTDOWN);
	return NULL;
}

/* Nobody reads anything but the event queues, asleep; one of them by its descriptor. */
WORLD_TEST(events__asleep, pair, p)
{
	struct pollfd pfd = { .events = POLLIN };
	struct fid *fids[1];
	pthread_t thread;
	struct told t;
	int rc;

	assert_int_equal(pthread_create(&thread, NULL, serve_main, p), 0);
	assert_int_equal(fi_connect(p->a.ep, p->name, NULL, 0), 0);
	fids[0] = &p->a.eq->fid;
	assert_int_equal(fi_control(fids[0], FI_GETWAIT, &pfd.fd), 0);
	do {
		rc = fi_trywait(p->w.fabric, fids, 1);
		if (!rc)
			assert_int_equal(poll(&pfd, 1, 20000), 1);
		t.len = fi_eq_read(p->a.eq, &t.event, t.room, sizeof(t.room), 0);
	} while (t.len == -FI_EAGAIN);
	assert_int_equal(t.len, sizeof(t.entry));
	assert_int_equal(t.event, FI_CONNECTED);
	assert_int_equal(fi_shutdown(p->a.ep, 0), 0);
	/* Whoever shuts down may go: closing sees to it that the other hears it. */
	assert_int_equal(fi_close(&p->a.ep->fid), 0);
	p->a.ep = NULL;
	pthread_join(thread, NULL);
}

/* Listens, and accepts if it is to, until it is killed; tells by the pipe where it is, and when it has come so far. */
static void child_main(int fd, bool accept)
{
	struct pair p;
	struct told t;

	pair_open(&p);
	if (write(fd, p.name, sizeof(p.name)) != sizeof(p.name))
		_exit(1);
	pair_expect(&p, p.listen_eq, FI_CONNREQ, &p.pep->fid, &t);
	party_open_with(&p.b, &p.w, t.entry.info);
	if (accept) {
		assert_int_equal(fi_accept(p.b.ep, NULL, 0), 0);
		pair_expect(&p, p.b.eq, FI_CONNECTED, &p.b.ep->fid, &t);
	}
	for (;;)
		(void)fi_eq_read(p.listen_eq, &t.event, t.room, 0, FI_PEEK);
}

/* The end of a process ends what was connected to it, and what waited for its answer. */
TEST(killed__heard_of)
{
	for (int accept = 0; accept < 2; accept++) {
		struct fi_eq_err_entry err;
		struct pair p;
		struct told t;
		int fd[2];
		pid_t pid;

		assert_int_equal(pipe(fd), 0);
		pid = fork();
		if (!pid)
			child_main(fd[1], accept);
		pair_open(&p);
		assert_int_equal(read(fd[0], p.name, sizeof(p.name)), sizeof(p.name));
		assert_int_equal(fi_connect(p.a.ep, p.name, NULL, 0), 0);
		if (accept) {
			pair_expect(&p, p.a.eq, FI_CONNECTED, &p.a.ep->fid, &t);
		} else {
			struct fi_uccl_ops_ep *ops;
			struct fi_uccl_peer peer = { 0 };

			/* connected to the listener, that is, not answered */
			fi_open_ops(&p.a.ep->fid, FI_UCCL_OPS_EP, 0, (void **)&ops, NULL);
			for (uint64_t end = uccl_clock() + PATIENCE_NS; uccl_clock() < end;) {
				pair_drive(&p);
				if (ops->peers(p.a.ep, &peer, 1, sizeof(peer)) == 1 &&
				    peer.state == FI_UCCL_PEER_OPEN && !peer.inflight_bytes)
					break;
			}
			assert_int_equal(peer.state, FI_UCCL_PEER_OPEN);
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (accept)
			pair_expect(&p, p.a.eq, FI_SHUTDOWN, &p.a.ep->fid, &t);
		else
			assert_int_equal(pair_error(&p, p.a.eq, &p.a.ep->fid, &err), FI_ECONNREFUSED);
		close(fd[0]);
		close(fd[1]);
		pair_close(&p);
	}
}

TESTS_MAIN

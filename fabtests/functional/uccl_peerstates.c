/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What each operation does in each state of its peer: what the call returns, how and when the operation completes. This
 * is the table of fi_uccl(7), "Peers", for what can be made to happen on one host.
 *
 * Each state is made once for all operations: a process has an endpoint for each of them, all of which know the same
 * peer, another process.
 */
#include "conf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN 64
#define MANY 100000

enum kind {
	SEND, SEND_LARGE, SEND_MATCH, INJECT, TSEND, WRITE, READ, ATOMIC, RECV_FROM, RECV_ANY, CANCEL, KINDS
};

static const char *const kinds[KINDS] = {
	"fi_send", "fi_send of 100000 bytes", "fi_sendmsg with FI_MATCH_COMPLETE", "fi_inject", "fi_tsend", "fi_write",
	"fi_read", "fi_fetch_atomic", "a directed receive", "a receive from anybody", "fi_cancel of a directed receive",
};

/* How an operation goes on that was posted. */
#define PENDS (-1) /* not at all, as long as is watched */
#define WATCH_MS 300

/* What is expected of an operation. */
struct want {
	int rc;		/* of the call: 0 or a negative FI_Exxx */
	int err;	/* its completion: 0, a positive FI_Exxx, or PENDS */
	int or_err;	/* another one that is as good; 0: none */
	unsigned int least_ms, most_ms;
};

static uint8_t out[MANY], in[KINDS][MANY], target[LEN];

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Regions have offsets and keys of the program, receives may name their peer. */
static struct fi_info *hints(bool place)
{
	struct fi_info *h = conf_hints();

	h->caps |= FI_DIRECTED_RECV;
	h->domain_attr->mr_mode = 0;
	h->addr_format = place ? FI_SOCKADDR_IN : FI_FORMAT_UNSPEC;
	return h;
}

/* ---- the peer */

struct peer {
	bool place;		/* its address is a socket address, not one of this endpoint alone */
	uint16_t port;
	pid_t pid;
	int down, up;		/* this goes down, then a byte that closes the endpoint; the name comes up */
	uint8_t name[CONF_NAME_MAX];
};

static void peer_open(struct conf_net *net, bool place, uint16_t port)
{
	struct fi_info *h = hints(place);
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	net->cq_size = 4096;
	conf_good(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", port ? service : NULL, FI_SOURCE, h, &net->info),
		  "fi_getinfo");
	fi_freeinfo(h);
	conf_good(fi_fabric(net->info->fabric_attr, &net->fabric, NULL), "fi_fabric");
	conf_good(fi_domain(net->fabric, net->info, &net->domain, NULL), "fi_domain");
}

/* Takes what comes, for as long as it lives. */
static void peer_run(struct peer *p, int down, int up)
{
	static struct conf_op recv[4 * KINDS];
	uint8_t name[CONF_NAME_MAX] = {0}, byte;
	struct conf_net net;
	struct conf_ep e;
	struct fid_mr *mr;
	size_t n = 0;

	peer_open(&net, p->place, p->port);
	conf_ep_open(&e, &net);
	conf_good(fi_mr_reg(net.domain, target, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, CONF_KEY, 0, &mr, NULL),
		  "fi_mr_reg");
	for (unsigned int i = 0; i < 4 * KINDS; i++) {
		bool tagged = i & 1;

		if (tagged)
			conf_post(&e, (struct conf_ep *)NULL,
				  fi_trecv(e.ep, in[0], MANY, NULL, FI_ADDR_UNSPEC, 7, 0, &recv[n++]));
		else
			conf_post(&e, (struct conf_ep *)NULL,
				  fi_recv(e.ep, in[0], MANY, NULL, FI_ADDR_UNSPEC, &recv[n++]));
	}
	memcpy(name, e.name, e.name_len);
	conf_check(write(up, name, sizeof(name)) == sizeof(name), "the peer cannot tell its name");
	fcntl(down, F_SETFL, O_NONBLOCK);
	while (read(down, &byte, 1) != 1)
		conf_progress(&e);
	conf_good(fi_close(&e.ep->fid), "fi_close endpoint of the peer");
	_exit(0);
}

/* A process that becomes the peer when it is started. It is made before this one has threads: what a thread holds when its
 * process is copied stays held. */
static void peer_make(struct peer *p)
{
	int down[2], up[2];

	conf_check(!pipe(down) && !pipe(up), "no pipes");
	p->pid = fork();
	conf_check(p->pid >= 0, "no process");
	if (!p->pid) {
		alarm(200);
		close(down[1]);
		if (read(down[0], p, sizeof(*p)) != sizeof(*p))
			_exit(0);
		peer_run(p, down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	p->down = down[1];
	p->up = up[0];
}

static void peer_start(struct peer *p)
{
	if (!p->pid)
		peer_make(p);
	conf_check(write(p->down, p, sizeof(*p)) == sizeof(*p) && read(p->up, p->name, sizeof(p->name)) == sizeof(p->name),
		   "the peer did not start");
}

/* The same place, with a process that was made for it. */
static void peer_restart(struct peer *p, struct peer *next)
{
	next->port = p->port;
	*p = *next;
	peer_start(p);
}

static void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

static void peer_close(struct peer *p)
{
	conf_check(write(p->down, "c", 1) == 1, "the peer cannot be told to close");
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

/* A port of this host where nothing listens; or `silent`, where somebody does and never answers. */
static void nobody(struct peer *p, bool silent)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), taken = 1;

	/* The kernel hands out ports from 32768 on, also one whose owner is away for a moment. */
	for (int i = 0; fd >= 0 && taken && i < 100; i++) {
		a.sin_port = htons((uint16_t)(20000 + (getpid() * 31 + i * 7919) % 12000));
		taken = bind(fd, (struct sockaddr *)&a, sizeof(a));
	}
	conf_check(!taken, "no port");
	if (!silent)
		close(fd);
	p->port = ntohs(a.sin_port);
	memset(p->name, 0, sizeof(p->name));
	memcpy(p->name, &a, sizeof(a));
}

/* ---- this side */

struct ends {
	struct conf_net net;
	struct conf_ep ep[KINDS];
	fi_addr_t to[KINDS];
	struct conf_op op[KINDS];
	uint64_t began[KINDS], ended[KINDS];
	int rc[KINDS];
	unsigned int strays[KINDS];	/* completions without a context: of inject */
	int stray_err[KINDS];
};

static struct ends s;

static void ends_open(const struct peer *p)
{
	peer_open(&s.net, p->place, 0);
	for (int k = 0; k < KINDS; k++) {
		conf_ep_open(&s.ep[k], &s.net);
		s.to[k] = conf_insert(&s.ep[k], p->name);
	}
}

/* Everybody's completions, once. */
static void ends_poll(void)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry bad;

	for (int k = 0; k < KINDS; k++) {
		ssize_t n = fi_cq_read(s.ep[k].cq, &e, 1);
		struct conf_op *op = e.op_context;
		int err = 0;

		if (n == -FI_EAGAIN)
			continue;
		if (n == -FI_EAVAIL) {
			memset(&bad, 0, sizeof(bad));
			conf_check(fi_cq_readerr(s.ep[k].cq, &bad, 0) == 1, "%s: fi_cq_readerr", kinds[k]);
			op = bad.op_context;
			err = bad.err;
		}
		if (!op) {
			s.strays[k]++;
			s.stray_err[k] = err;
			s.ended[k] = now_ms();
			continue;
		}
		conf_check(op == &s.op[k] && !op->done, "%s: completed twice, or another did", kinds[k]);
		op->done = true;
		op->err = err;
		s.ended[k] = now_ms();
	}
	sched_yield();
}

static void ends_watch(unsigned int ms)
{
	for (uint64_t end = now_ms() + ms; now_ms() < end;)
		ends_poll();
}

static ssize_t post_once(int k)
{
	struct iovec iov = {out, LEN};
	struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = s.to[k], .context = &s.op[k]};
	struct fid_ep *ep = s.ep[k].ep;
	ssize_t rc;

	switch (k) {
	case SEND:
		return fi_send(ep, out, LEN, NULL, s.to[k], &s.op[k]);
	case SEND_LARGE:
		return fi_send(ep, out, MANY, NULL, s.to[k], &s.op[k]);
	case SEND_MATCH:
		return fi_sendmsg(ep, &m, FI_MATCH_COMPLETE | FI_COMPLETION);
	case INJECT:
		return fi_inject(ep, out, LEN, s.to[k]);
	case TSEND:
		return fi_tsend(ep, out, LEN, NULL, s.to[k], 7, &s.op[k]);
	case WRITE:
		return fi_write(ep, out, LEN, NULL, s.to[k], 0, CONF_KEY, &s.op[k]);
	case READ:
		return fi_read(ep, in[k], LEN, NULL, s.to[k], 0, CONF_KEY, &s.op[k]);
	case ATOMIC:
		return fi_fetch_atomic(ep, out, 1, NULL, in[k], NULL, s.to[k], 0, CONF_KEY, FI_UINT64, FI_SUM, &s.op[k]);
	case RECV_ANY:
		return fi_recv(ep, in[k], LEN, NULL, FI_ADDR_UNSPEC, &s.op[k]);
	default:
		rc = fi_trecv(ep, in[k], LEN, NULL, s.to[k], 9, 0, &s.op[k]);
		return rc || k != CANCEL ? rc : fi_cancel(&ep->fid, &s.op[k]);
	}
}

static void post(int k)
{
	uint64_t end = now_ms() + 5000;

	memset(&s.op[k], 0, sizeof(s.op[k]));
	s.strays[k] = 0;
	s.began[k] = now_ms();
	do {
		ends_poll();
		s.rc[k] = (int)post_once(k);
	} while (s.rc[k] == -FI_EAGAIN && now_ms() < end);
}

static bool ended(int k)
{
	return s.rc[k] || s.op[k].done || s.strays[k];
}

static void judge(const char *state, int k, const struct want *w)
{
	bool done = s.op[k].done || s.strays[k];
	int err = s.strays[k] ? s.stray_err[k] : s.op[k].err;
	uint64_t ms = s.ended[k] - s.began[k];

	conf_check(s.rc[k] == w->rc, "%s, %s: the call returned %d (%s), not %d", state, kinds[k], s.rc[k],
		   fi_strerror(-s.rc[k]), w->rc);
	if (w->rc)
		return;
	if (w->err == PENDS) {
		conf_check(!done, "%s, %s: completed with %d (%s)", state, kinds[k], err, fi_strerror(err));
		return;
	}
	conf_check(done, "%s, %s: not complete after %u ms", state, kinds[k], w->most_ms);
	conf_check(err == w->err || (w->or_err && err == w->or_err), "%s, %s: completed with %d (%s), not %d", state,
		   kinds[k], err, fi_strerror(err), w->err);
	conf_check(ms >= w->least_ms && ms <= w->most_ms, "%s, %s: complete after %llu ms, not in %u to %u", state,
		   kinds[k], (unsigned long long)ms, w->least_ms, w->most_ms);
}

/* What was posted becomes what is expected. */
static void turns_out(const char *state, const struct want *want)
{
	uint64_t began = now_ms(), ms;
	bool waits;

	do {
		ends_poll();
		ms = now_ms() - began;
		waits = ms < WATCH_MS;
		for (int k = 0; k < KINDS; k++)
			waits |= want[k].err != PENDS && !ended(k) && ms < want[k].most_ms;
	} while (waits);
	for (int k = 0; k < KINDS; k++)
		judge(state, k, &want[k]);
}

/* Post one operation of each kind, and compare with what is expected. */
static void state_is(const char *state, const struct want *want)
{
	for (int k = 0; k < KINDS; k++)
		post(k);
	turns_out(state, want);
	/* What still waits is a receive: it goes. */
	for (int k = RECV_FROM; k <= RECV_ANY; k++)
		if (!ended(k)) {
			conf_good(fi_cancel(&s.ep[k].ep->fid, &s.op[k]), "fi_cancel");
			while (!s.op[k].done)
				ends_poll();
			conf_check(s.op[k].err == FI_ECANCELED, "%s, %s: cancelled, and ended with %s", state, kinds[k],
				   fi_strerror(s.op[k].err));
		}
}

static const struct want good = {.most_ms = 20000}, pends = {.err = PENDS};
static const struct want cancelled = {.err = FI_ECANCELED, .most_ms = 1000};

/* All that goes to the peer is expected to do the same; receives go as told. */
static void expect(struct want *w, struct want go, struct want from, struct want any, struct want cancel)
{
	for (int k = 0; k < RECV_FROM; k++)
		w[k] = go;
	/* Whoever injects asks to hear no more of it: what becomes of it later is not told. */
	if (!go.rc)
		w[INJECT] = pends;
	w[RECV_FROM] = from;
	w[RECV_ANY] = any;
	w[CANCEL] = cancel;
}

static void expect_open(struct want *w)
{
	expect(w, good, pends, pends, cancelled);
}

/* Each endpoint has a connection. */
static void meet(const struct peer *p)
{
	struct want w[KINDS];

	ends_open(p);
	/* Receives connect nobody. */
	for (int k = RECV_FROM; k < KINDS; k++) {
		while (fi_inject(s.ep[k].ep, out, LEN, s.to[k]) == -FI_EAGAIN)
			ends_poll();
	}
	expect_open(w);
	state_is("open", w);
}

/* ---- the states */

static void open_place(void)
{
	struct peer p = {.place = true};

	peer_start(&p);
	meet(&p);
	peer_kill(&p);
}

static void open_keyed(void)
{
	struct peer p = {0};

	peer_start(&p);
	meet(&p);
	peer_kill(&p);
}

/* Never seen, and its host answers nothing: operations wait for `connect` of FI_UCCL_PEER_TIMEOUT. */
static void absent(void)
{
	const struct want fails = {.err = FI_EHOSTUNREACH, .least_ms = 900, .most_ms = 10000};
	struct peer p = {.place = true};
	struct want w[KINDS];

	nobody(&p, true);
	ends_open(&p);
	expect(w, fails, pends, pends, cancelled);
	state_is("no answer", w);
}

/* Never seen, and its host answers that nothing listens there. */
static void unreachable(void)
{
	const struct want fails = {.err = FI_EHOSTUNREACH, .most_ms = 8000};
	struct peer p = {.place = true};
	struct want w[KINDS];

	nobody(&p, false);
	ends_open(&p);
	expect(w, fails, pends, pends, cancelled);
	state_is("port unreachable", w);
	/* A receive that names it ends with the attempt to connect that something else makes. */
	post(RECV_FROM);
	while (fi_inject(s.ep[RECV_FROM].ep, out, LEN, s.to[RECV_FROM]) == -FI_EAGAIN)
		ends_poll();
	for (uint64_t end = now_ms() + 8000; !ended(RECV_FROM) && now_ms() < end;)
		ends_poll();
	judge("port unreachable, and asked", RECV_FROM, &fails);
}

/* Connecting: everything waits, and is done when the peer is there. */
static void connecting(void)
{
	struct peer p = {.place = true};
	struct want w[KINDS];

	peer_start(&p);
	kill(p.pid, SIGSTOP);
	ends_open(&p);
	expect(w, pends, pends, pends, cancelled);
	state_is("connecting", w);
	kill(p.pid, SIGCONT);
	expect(w, good, cancelled, cancelled, cancelled);
	turns_out("connected at last", w);
	peer_kill(&p);
}

/* Open and silent: it may be computing, so operations wait. Small RMA and messages alike need its answer. */
static void silent(void)
{
	struct peer p = {.place = true};
	struct want w[KINDS];

	peer_start(&p);
	meet(&p);
	kill(p.pid, SIGSTOP);
	expect(w, pends, pends, pends, cancelled);
	state_is("silent", w);
	kill(p.pid, SIGCONT);
	expect(w, good, cancelled, cancelled, cancelled);
	turns_out("answers again", w);
	peer_kill(&p);
}

/* Silent for FI_UCCL_PEER_TIMEOUT, 2 s here: it has failed. A receive alone asks nothing of it. */
static void silent_too_long(void)
{
	const struct want fails = {.err = FI_ETIMEDOUT, .least_ms = 1500, .most_ms = 20000};
	struct peer p = {.place = true};
	struct want w[KINDS];

	peer_start(&p);
	meet(&p);
	kill(p.pid, SIGSTOP);
	expect(w, fails, pends, pends, cancelled);
	state_is("silent for too long", w);
	peer_kill(&p);
}

/* Not in the address vector any more: the call says so; a receive from it that is posted can be cancelled. */
static void removed(void)
{
	const struct want refused = {.rc = -FI_EINVAL};
	struct peer p = {.place = true};
	struct want w[KINDS];
	struct conf_op op = {0};

	peer_start(&p);
	meet(&p);
	conf_good(fi_trecv(s.ep[RECV_FROM].ep, in[0], LEN, NULL, s.to[RECV_FROM], 9, 0, &s.op[RECV_FROM]), "fi_trecv");
	memset(&s.op[RECV_FROM], 0, sizeof(op));
	for (int k = 0; k < KINDS; k++)
		conf_good(fi_av_remove(s.ep[k].av, &s.to[k], 1, 0), "fi_av_remove");
	ends_watch(50);
	conf_good(fi_cancel(&s.ep[RECV_FROM].ep->fid, &s.op[RECV_FROM]), "fi_cancel");
	while (!s.op[RECV_FROM].done)
		ends_poll();
	expect(w, refused, refused, pends, refused);
	state_is("removed", w);
	peer_kill(&p);
}

/* Operations are under way when the peer ends: each ends once. What the peer had before that may have been good. */
static void ends_under_way(bool place, bool closes)
{
	const struct want fails = {.err = FI_ECONNABORTED, .or_err = closes ? 0 : FI_ECONNRESET, .most_ms = 20000};
	const struct want either = {.or_err = FI_ECONNABORTED, .most_ms = 20000};
	struct peer p = {.place = place};
	struct want w[KINDS];

	peer_start(&p);
	meet(&p);
	kill(p.pid, SIGSTOP);
	for (int k = 0; k < KINDS; k++)
		post(k);
	ends_watch(100);
	if (closes) {
		kill(p.pid, SIGCONT);
		peer_close(&p);
	} else {
		peer_kill(&p);
	}
	/* Some of it may have time to succeed before it closes. */
	expect(w, closes ? either : fails, fails, pends, cancelled);
	turns_out("ended under way", w);
}

static void killed_under_way(void)
{
	ends_under_way(true, false);
}

static void closed_under_way(void)
{
	ends_under_way(true, true);
}

static void keyed_killed_under_way(void)
{
	ends_under_way(false, false);
}

/* A receive from the peer is posted on each endpoint, and ends with it: with that the end is told. */
static void watched(bool begin)
{
	for (int k = 0; k < KINDS; k++) {
		memset(&s.op[k], 0, begin ? sizeof(s.op[k]) : 0);
		if (begin)
			conf_good(fi_trecv(s.ep[k].ep, in[k], LEN, NULL, s.to[k], 11, 0, &s.op[k]), "fi_trecv");
		for (uint64_t end = now_ms() + 20000; !begin && !s.op[k].done && now_ms() < end;)
			ends_poll();
		conf_check(begin || s.op[k].err == FI_ECONNABORTED || s.op[k].err == FI_ECONNRESET,
			   "a receive from a peer that ended: %s", fi_strerror(s.op[k].err));
	}
}

/* The peer ends while nothing is under way to it but receives that are posted, if it is `told`. */
static void ends_idle(struct peer *p, bool closes, bool told)
{
	peer_start(p);
	meet(p);
	if (told)
		watched(true);
	if (closes)
		peer_close(p);
	else
		peer_kill(p);
	if (told)
		watched(false);
	else
		ends_watch(closes ? 500 : 3000);
}

static const struct want tells = {.rc = -FI_ECONNABORTED};
static const struct want ends_now = {.err = FI_ECONNABORTED, .most_ms = 1000};
static const struct want soon = {.most_ms = 2000};
/* The kernel limits how many ICMP errors it answers a second, so a report may come late or not at all. */
static const struct want nobody_there = {.err = FI_EHOSTUNREACH, .most_ms = 20000};

/* The end of a place was not told: the next post tells it, once, and the one behind it connects anew. */
static void place_untold(bool closes)
{
	struct peer p = {.place = true};
	struct want w[KINDS];

	ends_idle(&p, closes, false);
	expect(w, tells, ends_now, pends, cancelled);
	state_is("ended, not told", w);
	expect(w, nobody_there, pends, pends, cancelled);
	state_is("ended, then told", w);
}

static void closed_untold(void)
{
	place_untold(true);
}

static void killed_untold(void)
{
	place_untold(false);
}

/* It was told: the next post connects anew, and so does the one after that, when somebody is there again. */
static void place_told(bool closes)
{
	struct peer p = {.place = true}, next = {.place = true};
	struct want w[KINDS];

	nobody(&p, false);
	peer_make(&next);
	ends_idle(&p, closes, true);
	expect(w, nobody_there, pends, pends, cancelled);
	state_is("ended, told", w);
	peer_restart(&p, &next);
	/* Nothing has told yet that what was injected did not arrive. */
	expect(w, soon, pends, pends, cancelled);
	w[INJECT].rc = -FI_EHOSTUNREACH;
	state_is("there again", w);
	expect(w, soon, pends, pends, cancelled);
	state_is("there again, told", w);
	peer_kill(&p);
}

static void closed_told(void)
{
	place_told(true);
}

static void killed_told(void)
{
	place_told(false);
}

/* Another process is at the place before anybody asks. */
static void restarted(void)
{
	struct peer p = {.place = true}, next = {.place = true};
	struct want w[KINDS];

	nobody(&p, false);
	peer_make(&next);
	ends_idle(&p, false, true);
	peer_restart(&p, &next);
	expect(w, soon, pends, pends, cancelled);
	state_is("restarted, told", w);
	peer_kill(&p);
}

static void restarted_untold(void)
{
	struct peer p = {.place = true}, next = {.place = true};
	struct want w[KINDS];

	nobody(&p, false);
	peer_make(&next);
	ends_idle(&p, false, false);
	peer_restart(&p, &next);
	expect(w, tells, ends_now, pends, cancelled);
	state_is("restarted, not told", w);
	expect(w, soon, pends, pends, cancelled);
	state_is("restarted, then told", w);
	peer_kill(&p);
}

/* An address with a key is one incarnation's: when that has ended, every post says so. */
static void keyed_ended(bool closes)
{
	struct peer p = {0};
	struct want w[KINDS];

	ends_idle(&p, closes, false);
	expect(w, tells, ends_now, pends, cancelled);
	for (int i = 0; i < 3; i++)
		state_is("keyed, ended", w);
}

static void keyed_closed(void)
{
	keyed_ended(true);
}

static void keyed_killed(void)
{
	keyed_ended(false);
}

/* The error of a directed receive lies unread: the receive can be cancelled all the same. */
static void cancel_unread(void)
{
	struct peer p = {.place = true};
	struct fi_cq_err_entry bad = {0};
	struct fi_cq_tagged_entry e;

	peer_start(&p);
	meet(&p);
	memset(&s.op[CANCEL], 0, sizeof(s.op[CANCEL]));
	conf_good(fi_trecv(s.ep[CANCEL].ep, in[0], LEN, NULL, s.to[CANCEL], 9, 0, &s.op[CANCEL]), "fi_trecv");
	peer_close(&p);
	/* Driven without taking anything from the queue. */
	for (uint64_t end = now_ms() + 20000; now_ms() < end && fi_cq_read(s.ep[CANCEL].cq, NULL, 0) == -FI_EAGAIN;)
		;
	conf_check(fi_cq_read(s.ep[CANCEL].cq, &e, 1) == -FI_EAVAIL, "the receive did not fail");
	conf_good(fi_cancel(&s.ep[CANCEL].ep->fid, &s.op[CANCEL]), "fi_cancel of a receive whose error is unread");
	conf_check(fi_cq_readerr(s.ep[CANCEL].cq, &bad, 0) == 1 && bad.err == FI_ECANCELED &&
			   bad.op_context == &s.op[CANCEL], "it ended with %s", fi_strerror(bad.err));
	conf_check(fi_cq_read(s.ep[CANCEL].cq, &e, 1) == -FI_EAGAIN, "it ended twice");
	conf_check(fi_cancel(&s.ep[CANCEL].ep->fid, &s.op[CANCEL]) == -FI_ENOENT, "it can be cancelled twice");
}

static const struct conf_case cases[] = {
	{"open", NULL, open_place},
	{"open-keyed", NULL, open_keyed},
	{"absent", "FI_UCCL_PEER_TIMEOUT=connect=1", absent},
	{"unreachable", NULL, unreachable},
	{"connecting", NULL, connecting},
	{"silent", NULL, silent},
	{"silent-too-long", "FI_UCCL_PEER_TIMEOUT=2,keepalive_ms=200", silent_too_long},
	{"removed", NULL, removed},
	{"killed-under-way", NULL, killed_under_way},
	{"closed-under-way", NULL, closed_under_way},
	{"keyed-killed-under-way", NULL, keyed_killed_under_way},
	{"closed-untold", NULL, closed_untold},
	{"killed-untold", NULL, killed_untold},
	{"closed-told", NULL, closed_told},
	{"killed-told", NULL, killed_told},
	{"restarted", NULL, restarted},
	{"restarted-untold", NULL, restarted_untold},
	{"keyed-closed", NULL, keyed_closed},
	{"keyed-killed", NULL, keyed_killed},
	{"cancel-unread", NULL, cancel_unread},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

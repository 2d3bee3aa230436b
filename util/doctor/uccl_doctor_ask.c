/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The end that asks: it has both ends measure, one thing after the other, and judges what they saw. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/offer/address.h"
#include "base/units.h"
#include "uccl_doctor_cloud.h"
#include "uccl_doctor_judge.h"
#include "uccl_doctor_peer.h"
#include "uccl_doctor_side.h"

#define RESOLVE_MAX 8
#define CONNECT_MS 5000
#define ANSWER_MS 20000
#define WAIT_MS 600000	/* in all, for others at the listener */
#define WAIT_SAID_MS 3000 /* how often to say so */
#define REACH_EACH 6  /* probes of each source port */
#define REACH_BYTES 64
#define PINGS 100
#define PING_MS 250   /* for one */
#define PINGS_MS 5000 /* for all */
#define MTU_PROBES DOCTOR_LABELS /* of one size, one of each source port, as some may be blocked: one is enough */
#define MTU_LEAST 512 /* the provider's least packet */
#define MTU_GRAIN 1
#define LOSS_PROBES 2000
#define LOSS_BURST 20	    /* packets of one flow follow each other closely, or no network would reorder them */
#define LOSS_BYTES_MAX 4000 /* of one: larger ones take long */
#define LOSS_GAP_US 100
#define TRAIN_BYTES 60000
#define ECN_PROBES 64

/* What is measured, in both directions: [0] to the host, [1] from it. */
struct ask {
	struct doctor_side side;
	struct doctor_hello peer;
	const struct doctor_peer_opt *opt;
	struct doctor_report *report;
	uint16_t id;
	uint64_t waited_ms; /* for others at the listener */
	uint64_t said_ms;   /* when that was last said */
	int error;		/* negative errno value: the session is over */
	bool dead[2];		/* nothing arrives */
	uint32_t payload[2];	/* largest that arrives, within what the provider sends; 0: none */
	double loss[2];		/* of single packets */
	bool trains[2];		/* arrive */
	uint32_t sent_all[2], overflowed[2]; /* probes of all runs, and those that found a full receive queue */
	struct doctor_tally tally;
	struct doctor_sent sent;
};

/* The listener serves others first. Say so now and then; the time does not count for the session. */
static int waited(struct ask *a, int len, uint64_t *since_ms)
{
	uint64_t now = doctor_now_ms();
	uint32_t before;

	if (!doctor_get_number(a->side.in, (size_t)len, &before))
		return -EPROTO;
	a->side.end_ms += now - *since_ms;
	a->waited_ms += now - *since_ms;
	*since_ms = now;
	if (a->waited_ms > WAIT_MS)
		return -EBUSY;
	if (!a->opt->quiet && now >= a->said_ms + WAIT_SAID_MS) {
		fprintf(stderr, "uccl_doctor: %s measures with others; %u before us\n", a->opt->host, before);
		a->said_ms = now;
	}
	return 0;
}

static int expect(struct ask *a, enum doctor_msg_type want, struct doctor_tally *tally)
{
	uint64_t since_ms = doctor_now_ms();
	enum doctor_msg_type type;

	for (;;) {
		int n = doctor_receive(&a->side, &type, ANSWER_MS, a->id, tally), rc;

		if (n < 0 || type == want)
			return n;
		rc = type == DOCTOR_WAIT ? waited(a, n, &since_ms) : -EPROTO;
		if (rc)
			return rc;
	}
}

static int say(struct ask *a, size_t len)
{
	return doctor_send(&a->side, len);
}

static int run_to(struct ask *a, const struct doctor_run *run)
{
	struct doctor_side *s = &a->side;
	int n = say(a, doctor_put_run(s->out, run));

	if (n >= 0)
		n = expect(a, DOCTOR_READY, NULL);
	if (n >= 0 && !doctor_run_send(s, run, &a->sent))
		n = -EDQUOT;
	if (n >= 0)
		n = say(a, doctor_put_head(s->out, DOCTOR_END, 0));
	if (n >= 0)
		n = expect(a, DOCTOR_TALLY, NULL);
	if (n >= 0 && !doctor_get_tally(s->in, (size_t)n, &a->tally))
		n = -EPROTO;
	return n;
}

static int run_from(struct ask *a, const struct doctor_run *run)
{
	struct doctor_side *s = &a->side;
	int n;

	memset(&a->tally, 0, sizeof(a->tally));
	doctor_queue_begin(s);
	n = say(a, doctor_put_run(s->out, run));
	if (n >= 0)
		n = expect(a, DOCTOR_SENT, &a->tally);
	if (n >= 0 && !doctor_get_sent(s->in, (size_t)n, &a->sent))
		n = -EPROTO;
	if (n >= 0)
		doctor_settle(s, run->id, &a->tally);
	return n;
}

/* Have a run made; a->sent and a->tally tell of it. False: the session is over. */
static bool run_make(struct ask *a, int dir, struct doctor_run run)
{
	int labels = dir ? a->peer.nlabels : a->side.nlabels, n;

	if (a->error)
		return false;
	run.by_listener = dir;
	run.id = ++a->id;
	run.labels = (uint16_t)uccl_min(run.labels ? run.labels : DOCTOR_LABELS, (uint32_t)labels);
	run.train = run.train ? run.train : 1;
	run.burst = run.burst ? run.burst : run.train;
	n = dir ? run_from(a, &run) : run_to(a, &run);
	if (n < 0) {
		a->error = n;
		return false;
	}
	a->sent_all[dir] += a->sent.sent;
	a->overflowed[dir] += doctor_overflowed(&a->sent, &a->tally);
	return true;
}

/* Largest payload that the provider would send in a direction: the sender's interface, and FI_UCCL_MTU. */
static uint32_t payload_most(const struct ask *a, int dir)
{
	uint32_t mtu = dir ? a->peer.mtu : a->side.mtu, most = mtu - doctor_headers(&a->side);

	if (a->opt->mtu && a->opt->mtu < most)
		most = a->opt->mtu;
	return (uint32_t)uccl_min(most, 65000);
}

static void reach_measure(struct ask *a, int dir)
{
	int labels = dir ? a->peer.nlabels : a->side.nlabels, missing = 0;
	const uint16_t *port = dir ? a->peer.label_port : a->side.label_port;
	struct doctor_run run = { .count = (uint32_t)(labels * REACH_EACH), .size = REACH_BYTES, .gap_us = 1000 };
	char list[DOCTOR_NAME] = "";

	if (!run_make(a, dir, run))
		return;
	for (int i = 0; i < labels; i++) {
		size_t at = strlen(list);

		if (a->tally.by_label[i])
			continue;
		missing++;
		snprintf(list + at, sizeof(list) - at, " %u", port[i]);
	}
	a->dead[dir] = missing == labels;
	doctor_judge_reach(a->report, a->opt->host, dir, labels, missing, list,
			   dir ? a->side.self.port : a->peer.udp_port);
}

static void live_measure(struct ask *a, int dir)
{
	uint32_t err = ENOENT;
	int n;

	if (a->error)
		return;
	if (!dir) {
		if (a->peer.live_port)
			err = (uint32_t)doctor_connect_try(&a->side, a->peer.live_port);
	} else {
		n = say(a, doctor_put_head(a->side.out, DOCTOR_CONNECT, 0));
		if (n >= 0)
			n = expect(a, DOCTOR_CONNECTED, NULL);
		if (n >= 0 && !doctor_get_number(a->side.in, (size_t)n, &err))
			n = -EPROTO;
		if (n < 0) {
			a->error = n;
			return;
		}
	}
	doctor_judge_live(a->report, a->opt->host, dir, (int)(err & 0xfff));
}

/* One PING after the other; a lost one is waited for a moment. */
static void times_measure(struct ask *a)
{
	struct pollfd pf = { .fd = a->side.rx, .events = POLLIN };
	uint64_t over = doctor_now_ms() + PINGS_MS;
	double us[PINGS];
	uint32_t i;
	int n = 0;

	for (i = 0; i < PINGS && doctor_now_ms() < over; i++) {
		uint64_t start = doctor_now_us(), end = start + PING_MS * 1000;
		bool back = false;

		if (!doctor_ping_send(&a->side, (int)(i % (uint32_t)a->side.nlabels), i, 0))
			continue;
		while (!back && doctor_now_us() < end) {
			struct doctor_probe p;
			uint8_t ecn;
			bool right;

			poll(&pf, 1, 1 + (int)((end - doctor_now_us()) / 1000) % PING_MS);
			while (doctor_probe_take(&a->side, &p, &ecn, &right))
				back |= p.kind == DOCTOR_PONG && p.seq == i && !p.ttl;
		}
		if (back)
			us[n++] = (double)(doctor_now_us() - start);
	}
	doctor_judge_times(a->report, a->opt->host, (int)i, n, doctor_spread(us, n));
}

/* Does any packet of this size arrive? */
static bool size_passes(struct ask *a, int dir, uint32_t size, uint32_t *told)
{
	struct doctor_run run = { .count = MTU_PROBES, .size = size, .gap_us = 1000 };

	if (!run_make(a, dir, run))
		return false;
	*told = a->sent.mtu;
	return a->tally.received > 0;
}

static void mtu_measure(struct ask *a, int dir)
{
	uint32_t most = payload_most(a, dir), lo = 0, hi = most, told = 0, next;

	if (size_passes(a, dir, most, &told) || a->error) {
		lo = most;
	} else if (size_passes(a, dir, MTU_LEAST, &told)) {
		lo = MTU_LEAST;
		/* A router may have told what is right. */
		next = told > doctor_headers(&a->side) ? told - doctor_headers(&a->side) : 0;
		if (next > lo && next < hi && size_passes(a, dir, next, &told)) {
			lo = next;
			hi = next + MTU_GRAIN;
		}
		while ((next = doctor_halve(lo, hi, MTU_GRAIN)) && !a->error) {
			if (size_passes(a, dir, next, &told))
				lo = next;
			else
				hi = next;
		}
	}
	if (a->error)
		return;
	a->payload[dir] = lo;
	doctor_judge_mtu(a->report, a->opt->host, dir, most, lo, told, doctor_headers(&a->side));
}

static uint32_t loss_bytes(const struct ask *a, int dir)
{
	return (uint32_t)uccl_min(a->payload[dir], LOSS_BYTES_MAX);
}

static void loss_measure(struct ask *a, int dir)
{
	struct doctor_run run = { .count = LOSS_PROBES, .size = loss_bytes(a, dir), .burst = LOSS_BURST,
				  .gap_us = LOSS_GAP_US };

	if (!run_make(a, dir, run))
		return;
	a->loss[dir] = doctor_loss(&a->sent, &a->tally);
	doctor_judge_loss(a->report, a->opt->host, dir, &a->sent, &a->tally);
}

static void trains_measure(struct ask *a, int dir)
{
	uint32_t size = loss_bytes(a, dir), train = (uint32_t)uccl_min(TRAIN_BYTES / size, 40);
	struct doctor_run run = { .count = LOSS_PROBES / train * train, .size = size, .train = (uint16_t)train,
				  .gap_us = LOSS_GAP_US };

	if (train < 2 || !run_make(a, dir, run))
		return;
	a->trains[dir] = a->tally.received > 0 && !a->tally.damaged;
	doctor_judge_trains(a->report, a->opt->host, dir, train, &a->sent, &a->tally, a->loss[dir]);
}

/* As fast as one thread can send. No fault of the receiver if its queue is full then: the provider would send less. */
static void rate_measure(struct ask *a, int dir)
{
	uint32_t size = loss_bytes(a, dir), train = (uint32_t)uccl_min(TRAIN_BYTES / size, 40);
	uint32_t all = a->sent_all[dir], overflowed = a->overflowed[dir];
	uint32_t count = (uint32_t)uccl_min(DOCTOR_RUN_BYTES / size, DOCTOR_RUN_PACKETS);
	struct doctor_run run = { .size = size, .train = (uint16_t)(a->trains[dir] ? train : 1) };

	run.count = count / run.train * run.train;
	if (!run_make(a, dir, run))
		return;
	a->sent_all[dir] = all;
	a->overflowed[dir] = overflowed;
	doctor_judge_rate(a->report, a->opt->host, dir, size, &a->sent, &a->tally);
}

static void ecn_measure(struct ask *a, int dir)
{
	struct doctor_run run = { .count = ECN_PROBES, .size = REACH_BYTES, .ecn = 2, .gap_us = 200 };

	if (run_make(a, dir, run))
		doctor_judge_ecn(a->report, a->opt->host, dir, &a->tally);
}

static void paths_measure(struct ask *a, int dir)
{
	struct doctor_paths *p = calloc(1, sizeof(*p));
	int n = 0;

	if (!p || a->error) {
		free(p);
		return;
	}
	if (!dir) {
		doctor_trace(&a->side, p);
	} else {
		n = say(a, doctor_put_head(a->side.out, DOCTOR_TRACE, 0));
		if (n >= 0)
			n = expect(a, DOCTOR_TRACED, NULL);
		if (n >= 0 && !doctor_get_paths(a->side.in, (size_t)n, p))
			n = -EPROTO;
	}
	if (n < 0)
		a->error = n;
	else
		doctor_judge_paths(a->report, a->opt->host, dir, p, a->opt->expect);
	free(p);
}

static void direction_measure(struct ask *a, int dir)
{
	mtu_measure(a, dir);
	if (a->error || a->payload[dir] < MTU_LEAST)
		return;
	loss_measure(a, dir);
	trains_measure(a, dir);
	rate_measure(a, dir);
	ecn_measure(a, dir);
}

static void all_measure(struct ask *a)
{
	for (int dir = 0; dir < 2; dir++)
		reach_measure(a, dir);
	for (int dir = 0; dir < 2; dir++)
		live_measure(a, dir);
	if (!a->dead[0] && !a->dead[1] && !a->error)
		times_measure(a);
	for (int dir = 0; dir < 2; dir++) {
		if (!a->dead[dir])
			direction_measure(a, dir);
		if (!a->dead[dir] && !a->error)
			doctor_judge_queue(a->report, a->opt->host, dir, a->sent_all[dir], a->overflowed[dir]);
	}
	/* Last: what routers say about these packets is an error of the socket. */
	for (int dir = 0; dir < 2; dir++)
		if (!a->dead[0] && !a->dead[1])
			paths_measure(a, dir);
	if (!a->error)
		say(a, doctor_put_head(a->side.out, DOCTOR_BYE, 0));
}

/* Why the host cannot be asked. */
static void __attribute__((format(printf, 2, 3))) ask_fail(const struct doctor_peer_opt *opt, const char *fmt, ...)
{
	char text[DOCTOR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (opt->why)
		snprintf(opt->why, DOCTOR_TEXT, "%s", text);
	else
		fprintf(stderr, "uccl_doctor: %s\n", text);
}

/* The TCP connection to one of the host's addresses, or a negative errno value. */
static int connect_one(const struct uccl_nic_addr *to, const struct uccl_ports *ports)
{
	struct uccl_ports_walk walk = uccl_ports_walk();
	struct sockaddr_storage sa, any = { 0 };
	socklen_t len = uccl_ifaddr_to_sock(&sa, to, AF_UNSPEC), size = sizeof(int);
	struct pollfd p = { .events = POLLOUT };
	int err = 0;

	p.fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p.fd < 0)
		return -errno;
	any.ss_family = sa.ss_family;
	if (uccl_ports_limited(ports))
		err = -uccl_ports_bind(p.fd, &any, len, ports, &walk);
	if (!err && connect(p.fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS)
		err = errno;
	if (!err && poll(&p, 1, CONNECT_MS) <= 0)
		err = ETIMEDOUT;
	if (!err && getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &err, &size))
		err = errno;
	if (!err)
		return p.fd;
	close(p.fd);
	return -err;
}

static int host_connect(const struct doctor_peer_opt *opt)
{
	struct uccl_nic_addr to[RESOLVE_MAX];
	char port[16];
	int n, fd = -1;

	snprintf(port, sizeof(port), "%u", opt->port);
	n = uccl_address_resolve(opt->host, port, 0, false, false, to, RESOLVE_MAX);
	if (n <= 0) {
		ask_fail(opt, "no such host: %s", opt->host);
		return -1;
	}
	for (int i = 0; i < n && fd < 0; i++)
		fd = connect_one(&to[i], &opt->ports);
	if (fd < 0)
		ask_fail(opt, "nobody answers at %s TCP port %u (%s); run there: uccl_doctor --listen", opt->host,
			 opt->port, strerror(-fd));
	return fd;
}

static int greet(struct ask *a)
{
	struct doctor_hello h;
	int n;

	doctor_side_hello(&a->side, &h);
	n = say(a, doctor_put_hello(a->side.out, &h));
	if (n >= 0)
		n = expect(a, DOCTOR_HELLO, NULL);
	if (n == -EPIPE) /* a listener hangs up when it hears of another version */
		n = -EPROTO;
	if (n >= 0 && !doctor_get_hello(a->side.in, (size_t)n, &a->peer))
		n = -EPROTO;
	a->side.token = a->peer.token;
	a->side.peer.port = a->peer.udp_port;
	return n;
}

int doctor_ask(const struct doctor_peer_opt *opt, struct doctor_report *r)
{
	struct ask *a = calloc(1, sizeof(*a));
	struct doctor_clouds before, after;
	int tcp, rc;

	if (!a)
		return -1;
	tcp = host_connect(opt);
	if (tcp < 0) {
		free(a);
		return -1;
	}
	a->opt = opt;
	a->said_ms = doctor_now_ms();
	a->report = r;
	rc = doctor_side_open(&a->side, tcp, opt->labels, &opt->ports, opt->rx_bytes);
	if (!rc)
		rc = greet(a);
	if (rc < 0) {
		ask_fail(opt, "%s: %s", opt->host,
			 rc == -EPROTO ? "no uccl_doctor of this version answers" : strerror(-rc));
	} else {
		doctor_clouds_read(&before);
		all_measure(a);
		doctor_clouds_read(&after);
		doctor_clouds_judge(r, &before, &after);
		if (a->error)
			doctor_advise(doctor_add(r, DOCTOR_BAD, "network", "session", opt->host,
						 "the measurement ended early: %s", strerror(-a->error)),
				      "look at what the other uccl_doctor says, and run both again");
		rc = 0;
	}
	doctor_side_close(&a->side);
	free(a);
	return rc < 0 ? -1 : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * It does what one asker wants, within the bounds of uccl_doctor_wire.h: it sends nothing but to the address of the TCP
 * connection, which that side has proven to be its own by setting it up, and probes count only with the session's
 * random token.
 */
#include "uccl_doctor_session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uccl_doctor_side.h"

#define IDLE_MS 20000
#define RUN_MS 3000 /* beyond twice the time that a run takes */

/* The asker's run: what it sends until it says END. */
static int run_receive(struct doctor_side *s, const struct doctor_run *run)
{
	int limit_ms = RUN_MS + (int)((uint64_t)run->count * run->gap_us / 1000) * 2;
	struct doctor_tally *tally = calloc(1, sizeof(*tally));
	enum doctor_msg_type type;
	int n;

	if (!tally)
		return -ENOMEM;
	doctor_queue_begin(s);
	n = doctor_send(s, doctor_put_head(s->out, DOCTOR_READY, 0));
	if (!n)
		n = doctor_receive(s, &type, limit_ms, run->id, tally);
	if (n == 0 && type != DOCTOR_END)
		n = -EPROTO;
	if (n == 0) {
		doctor_settle(s, run->id, tally);
		n = doctor_send(s, doctor_put_tally(s->out, tally));
	}
	free(tally);
	return n < 0 ? n : 0;
}

/*
 * Wait until no other session measures. The asker is told how many are before it, and the time does not count for its
 * session.
 */
static int turn_take(struct doctor_side *s, int listener)
{
	uint64_t began = doctor_now_ms();
	uint8_t c = DOCTOR_TURN_WANTED;
	int rc = send(listener, &c, 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE;

	while (!rc) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		ssize_t n = poll(&p, 1, 100) > 0 ? recv(listener, &c, 1, MSG_DONTWAIT) : -2;

		if (n == 1 && c == DOCTOR_TURN_YOURS)
			break;
		if (n == 1)
			rc = doctor_send(s, doctor_put_number(s->out, DOCTOR_WAIT, c));
		else if (n == 0 || doctor_gone(s))
			rc = -EPIPE;
	}
	s->end_ms += doctor_now_ms() - began;
	return rc;
}

static int run_serve(struct doctor_side *s, int listener, int len)
{
	uint8_t done = DOCTOR_TURN_DONE;
	struct doctor_run run;
	struct doctor_sent sent;
	int rc;

	if (!doctor_get_run(s->in, (size_t)len, &run))
		return -EPROTO;
	rc = turn_take(s, listener);
	if (rc)
		return rc;
	if (!run.by_listener)
		rc = run_receive(s, &run);
	else
		rc = doctor_run_send(s, &run, &sent) ? 0 : -EDQUOT;
	if (send(listener, &done, 1, MSG_NOSIGNAL) != 1)
		return -EPIPE;
	return rc || !run.by_listener ? rc : doctor_send(s, doctor_put_sent(s->out, &sent));
}

static int trace_serve(struct doctor_side *s)
{
	struct doctor_paths *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	doctor_trace(s, p);
	rc = doctor_send(s, doctor_put_paths(s->out, p));
	free(p);
	return rc;
}

/* 0: the asker measured, and said goodbye. */
static int requests_serve(struct doctor_side *s, int listener, const struct doctor_hello *asker)
{
	bool measured = false;

	for (;;) {
		enum doctor_msg_type type;
		int n = doctor_receive(s, &type, IDLE_MS, 0, NULL), rc;

		if (n < 0)
			return n;
		switch (type) {
		case DOCTOR_RUN:
			rc = run_serve(s, listener, n);
			measured = true;
			break;
		case DOCTOR_CONNECT:
			rc = asker->live_port ? doctor_connect_try(s, asker->live_port) : ENOENT;
			rc = doctor_send(s, doctor_put_number(s->out, DOCTOR_CONNECTED, (uint32_t)rc));
			break;
		case DOCTOR_TRACE: rc = trace_serve(s); break;
		case DOCTOR_BYE: return measured ? 0 : -ECANCELED;
		default: return -EPROTO;
		}
		if (rc)
			return rc;
	}
}

int doctor_session(int tcp, int listener, const struct doctor_hello *asker, const struct doctor_peer_opt *opt)
{
	struct doctor_side *s = calloc(1, sizeof(*s));
	struct doctor_hello own;
	int n;

	if (!s) {
		close(tcp);
		return -ENOMEM;
	}
	n = doctor_side_open(s, tcp, opt->labels, &opt->ports, opt->rx_bytes);
	if (!n && getrandom(&s->token, sizeof(s->token), 0) != sizeof(s->token))
		n = -EIO;
	if (n >= 0) {
		s->peer.port = asker->udp_port;
		doctor_side_hello(s, &own);
		n = doctor_send(s, doctor_put_hello(s->out, &own));
	}
	if (n >= 0)
		n = requests_serve(s, listener, asker);
	doctor_side_close(s);
	free(s);
	return n;
}

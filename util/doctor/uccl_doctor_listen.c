/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The end that waits. It does what one asker at a time wants of it, within the bounds of uccl_doctor_wire.h: it sends
 * nothing but to the address of the TCP connection, which that side has proven to be its own by setting it up, and
 * probes count only with the session's random token.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/offer/address.h"
#include "base/units.h"
#include "uccl_doctor_peer.h"
#include "uccl_doctor_side.h"

#define HELLO_MS 3000
#define IDLE_MS 20000
#define RUN_MS 15000

/* The asker's run: what it sends until it says END. */
static int run_receive(struct doctor_side *s, const struct doctor_run *run)
{
	struct doctor_tally *tally = calloc(1, sizeof(*tally));
	enum doctor_msg_type type;
	int n;

	if (!tally)
		return -ENOMEM;
	doctor_queue_begin(s);
	n = doctor_send(s, doctor_put_head(s->out, DOCTOR_READY, 0));
	if (!n)
		n = doctor_receive(s, &type, RUN_MS, run->id, tally);
	if (n == 0 && type != DOCTOR_END)
		n = -EPROTO;
	if (n == 0) {
		doctor_settle(s, run->id, tally);
		n = doctor_send(s, doctor_put_tally(s->out, tally));
	}
	free(tally);
	return n < 0 ? n : 0;
}

static int run_serve(struct doctor_side *s, int len)
{
	struct doctor_run run;
	struct doctor_sent sent;

	if (!doctor_get_run(s->in, (size_t)len, &run))
		return -EPROTO;
	if (!run.by_listener)
		return run_receive(s, &run);
	if (!doctor_run_send(s, &run, &sent))
		return -EDQUOT;
	return doctor_send(s, doctor_put_sent(s->out, &sent));
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

/* 0: the asker said goodbye. */
static int requests_serve(struct doctor_side *s, const struct doctor_hello *asker)
{
	for (;;) {
		enum doctor_msg_type type;
		int n = doctor_receive(s, &type, IDLE_MS, 0, NULL), rc;

		if (n < 0)
			return n;
		switch (type) {
		case DOCTOR_RUN: rc = run_serve(s, n); break;
		case DOCTOR_CONNECT:
			rc = asker->live_port ? doctor_connect_try(s, asker->live_port) : ENOENT;
			rc = doctor_send(s, doctor_put_number(s->out, DOCTOR_CONNECTED, (uint32_t)rc));
			break;
		case DOCTOR_TRACE: rc = trace_serve(s); break;
		case DOCTOR_BYE: return 0;
		default: return -EPROTO;
		}
		if (rc)
			return rc;
	}
}

/* Takes the connection over. 0, or a negative errno value; *greeted: it was an asker. */
static int asker_serve(int tcp, const struct doctor_peer_opt *opt, bool *greeted)
{
	struct doctor_side *s = calloc(1, sizeof(*s));
	struct doctor_hello asker, own;
	enum doctor_msg_type type;
	int n;

	*greeted = false;
	if (!s) {
		close(tcp);
		return -ENOMEM;
	}
	n = doctor_side_open(s, tcp, opt->labels, &opt->ports, opt->rx_bytes);
	if (!n && getrandom(&s->token, sizeof(s->token), 0) != sizeof(s->token))
		n = -EIO;
	if (!n) {
		n = doctor_receive(s, &type, HELLO_MS, 0, NULL);
		if (n >= 0 && (type != DOCTOR_HELLO || !doctor_get_hello(s->in, (size_t)n, &asker)))
			n = -EPROTO;
	}
	if (n >= 0) {
		*greeted = true;
		s->peer.port = asker.udp_port;
		doctor_side_hello(s, &own);
		n = doctor_send(s, doctor_put_hello(s->out, &own));
	}
	if (n >= 0)
		n = requests_serve(s, &asker);
	doctor_side_close(s);
	free(s);
	return n;
}

/* All addresses: IPv6 takes IPv4 as well; a host without IPv6 has IPv4. */
static int listener_open(const struct doctor_peer_opt *opt)
{
	struct uccl_nic_addr at[8] = { { .port = opt->port } };
	char text[16];
	int n = 1, fd = -1, err = 0;

	snprintf(text, sizeof(text), "%u", opt->port);
	if (opt->host)
		n = uccl_address_resolve(opt->host, text, 0, false, true, at, 8);
	if (n <= 0) {
		fprintf(stderr, "uccl_doctor: no such host: %s\n", opt->host);
		return -1;
	}
	for (int i = 0; i < 2; i++) {
		struct sockaddr_storage sa;
		int family = opt->host ? AF_UNSPEC : i ? AF_INET : AF_INET6, one = 1, zero = 0;
		socklen_t len;

		if (!opt->host && i)
			memset(at[0].ip + 10, 0xff, 2);
		len = uccl_ifaddr_to_sock(&sa, &at[0], family);
		fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0) {
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
			if (!opt->host && !i)
				setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
			if (!bind(fd, (struct sockaddr *)&sa, len) && !listen(fd, 4))
				return fd;
		}
		err = errno;
		if (fd >= 0)
			close(fd);
		if (opt->host)
			break;
	}
	fprintf(stderr, "uccl_doctor: cannot listen at TCP port %u: %s\n", opt->port, strerror(err));
	return -1;
}

int doctor_listen(const struct doctor_peer_opt *opt)
{
	uint64_t end = doctor_now_ms() + (uint64_t)opt->wait_s * 1000;
	int fd = listener_open(opt), served = 0, rc = 0;

	if (fd < 0)
		return -1;
	fprintf(stderr, "uccl_doctor: waiting at TCP port %u\n", opt->port);
	while (!opt->clients || served < opt->clients) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct sockaddr_storage sa;
		struct uccl_nic_addr who;
		socklen_t len = sizeof(sa);
		char text[UCCL_ADDRESS_TEXT] = "?";
		bool greeted;
		int tcp;

		if (opt->wait_s && doctor_now_ms() >= end) {
			fprintf(stderr, "uccl_doctor: nobody came for %d s\n", opt->wait_s);
			rc = -1;
			break;
		}
		if (poll(&p, 1, 500) <= 0)
			continue;
		tcp = accept4(fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (tcp < 0)
			continue;
		if (!uccl_ifaddr_from_sock(&who, (struct sockaddr *)&sa, len))
			uccl_address_ip_text(&who, text, sizeof(text));
		rc = asker_serve(tcp, opt, &greeted);
		served += greeted;
		if (greeted)
			end = doctor_now_ms() + (uint64_t)opt->wait_s * 1000;
		fprintf(stderr, "uccl_doctor: %s: %s\n", text,
			!greeted ? "no uccl_doctor asks" : rc ? strerror(-rc) : "done");
		rc = rc ? -1 : 0;
	}
	close(fd);
	return rc;
}

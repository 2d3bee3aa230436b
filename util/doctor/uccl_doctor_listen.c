/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The end that waits: a service that several may ask at the same time, and that strangers may reach. One loop accepts
 * connections and reads their HELLO without ever waiting for one of them; uccl_doctor_guests.h has the bounds. An asker
 * is served by a process of its own (uccl_doctor_session.h), so that nothing that it does or leaves undone holds up
 * another.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/offer/address.h"
#include "base/units.h"
#include "uccl_doctor_guests.h"
#include "uccl_doctor_peer.h"
#include "uccl_doctor_session.h"
#include "uccl_doctor_side.h"

#define LOOK_MS 500	   /* how often those that wait hear of it */
#define FAILURES_MS 10000  /* how often connections that failed are reported */
#define SESSION_SOCKETS 2  /* of a session, beside one for each source port */

/* One connection. */
struct line {
	int tcp;     /* until its session has it; -1: none */
	int channel; /* to its session; -1: none */
	pid_t pid;
	size_t have;
	uint8_t in[DOCTOR_MSG_HEAD + DOCTOR_HELLO_MOST];
	struct doctor_hello hello;
};

struct listener {
	const struct doctor_peer_opt *opt;
	struct doctor_guests guests;
	struct line line[DOCTOR_GUESTS]; /* by the number of the guest */
	int fd;
	int served;	       /* askers that said goodbye */
	uint64_t served_ms;    /* when the last of them did, or the listener began */
	uint64_t told_ms;      /* when those that wait were last told */
	uint64_t failures_ms;  /* when connections that failed were last reported */
	unsigned int failures; /* since then */
};

/* At the port that was asked for; at any of FI_UCCL_PORTS if none was. */
static int port_bind(int fd, struct sockaddr_storage *sa, socklen_t len, const struct doctor_peer_opt *opt)
{
	struct uccl_ports_walk walk = uccl_ports_walk();

	if (opt->port)
		return bind(fd, (struct sockaddr *)sa, len);
	errno = -uccl_ports_bind(fd, sa, len, &opt->ports, &walk);
	return errno ? -1 : 0;
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
		fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0) {
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
			if (!opt->host && !i)
				setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
			if (!port_bind(fd, &sa, len, opt) && !listen(fd, DOCTOR_GUESTS))
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

static const char *who_text(const struct listener *l, int i, char *buf, size_t size)
{
	struct uccl_nic_addr who = {0};

	memcpy(who.ip, l->guests.list[i].ip, sizeof(who.ip));
	uccl_address_ip_text(&who, buf, size);
	return buf;
}

static void line_end(struct listener *l, int i)
{
	struct line *c = &l->line[i];

	if (c->tcp >= 0)
		close(c->tcp);
	if (c->channel >= 0)
		close(c->channel);
	c->tcp = c->channel = -1;
	doctor_guest_end(&l->guests, i);
}

/* Strangers may fail as often as they like: many failures are one line. */
static void failure_say(struct listener *l, int i, const char *why)
{
	char text[UCCL_ADDRESS_TEXT];
	uint64_t now = doctor_now_ms();

	l->failures++;
	if (l->failures_ms && now < l->failures_ms + FAILURES_MS)
		return;
	if (!l->opt->quiet)
		fprintf(stderr, "uccl_doctor: %s: %s (connections that failed: %u)\n",
			who_text(l, i, text, sizeof(text)), why, l->failures);
	l->failures_ms = now;
	l->failures = 0;
}

/* A connection that says nothing, or nothing that an asker says. */
static void stranger_end(struct listener *l, int i)
{
	failure_say(l, i, "no uccl_doctor of this version asks");
	line_end(l, i);
}

/* Read on in the HELLO. 1: it is there; 0: not yet; -1: it is none. */
static int hello_read(struct line *c)
{
	enum doctor_msg_type type;
	int body = 0;
	ssize_t n;

	for (;;) {
		size_t want = DOCTOR_MSG_HEAD;

		if (c->have >= DOCTOR_MSG_HEAD) {
			body = doctor_get_head(c->in, &type);
			if (body < 0 || type != DOCTOR_HELLO || (size_t)body > DOCTOR_HELLO_MOST)
				return -1;
			want += (size_t)body;
		}
		if (c->have >= DOCTOR_MSG_HEAD && c->have == want)
			return doctor_get_hello(c->in + DOCTOR_MSG_HEAD, (size_t)body, &c->hello) ? 1 : -1;
		n = recv(c->tcp, c->in + c->have, want - c->have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0)
			return -1;
		c->have += (size_t)n;
	}
}

static void hello_take(struct listener *l, int i)
{
	int n = hello_read(&l->line[i]);

	if (n < 0)
		stranger_end(l, i);
	else if (n > 0)
		doctor_guest_greeted(&l->guests, i);
}

static void accept_all(struct listener *l)
{
	struct sockaddr_storage sa;
	struct uccl_nic_addr who;
	socklen_t len = sizeof(sa);
	int tcp, gone, i;

	while ((tcp = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		i = uccl_ifaddr_from_sock(&who, (struct sockaddr *)&sa, len) ?
			-1 : doctor_guest_add(&l->guests, who.ip, doctor_now_ms(), &gone);
		len = sizeof(sa);
		if (i < 0) {
			close(tcp);
			continue;
		}
		if (gone >= 0) {
			close(l->line[gone].tcp);
			l->line[gone].tcp = -1;
		}
		l->line[i] = (struct line){.tcp = tcp, .channel = -1};
		hello_take(l, i);
	}
}

/* The process of a session. It ends with the listener. */
static void session_run(struct listener *l, int i, int channel)
{
	int tcp = l->line[i].tcp, rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(l->fd);
	for (int k = 0; k < DOCTOR_GUESTS; k++) {
		if (k != i && l->line[k].tcp >= 0)
			close(l->line[k].tcp);
		if (l->line[k].channel >= 0)
			close(l->line[k].channel);
	}
	rc = doctor_session(tcp, channel, &l->line[i].hello, l->opt);
	_exit(uccl_clamp(-rc, 0, UINT8_MAX));
}

static void session_begin(struct listener *l, int i)
{
	struct line *c = &l->line[i];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		line_end(l, i);
		return;
	}
	c->pid = fork();
	if (!c->pid)
		session_run(l, i, pair[1]);
	close(pair[1]);
	c->channel = pair[0];
	close(c->tcp);
	c->tcp = -1;
	if (c->pid < 0)
		line_end(l, i);
}

/* The session has ended, or is ended: its process is waited for. */
static void session_end(struct listener *l, int i)
{
	char text[UCCL_ADDRESS_TEXT];
	int status = 0;

	waitpid(l->line[i].pid, &status, 0);
	if (!WIFEXITED(status)) {
		failure_say(l, i, "its session was ended");
	} else if (WEXITSTATUS(status)) {
		failure_say(l, i, strerror(WEXITSTATUS(status)));
	} else {
		if (!l->opt->quiet)
			fprintf(stderr, "uccl_doctor: %s: done\n", who_text(l, i, text, sizeof(text)));
		l->served++;
		l->served_ms = doctor_now_ms();
	}
	line_end(l, i);
}

/* A session says something, or has ended. */
static void session_hear(struct listener *l, int i)
{
	uint8_t c[16];
	ssize_t n = recv(l->line[i].channel, c, sizeof(c), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		session_end(l, i);
		return;
	}
	for (ssize_t k = 0; k < n; k++) {
		if (c[k] == DOCTOR_TURN_WANTED)
			doctor_turn_ask(&l->guests, i);
		else
			doctor_turn_end(&l->guests, i);
	}
}

static void byte_send(int fd, uint8_t c)
{
	(void)!send(fd, &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Who waits hears how many are before it, and that the listener lives. */
static void places_tell(struct listener *l, uint64_t now)
{
	if (now < l->told_ms + LOOK_MS)
		return;
	l->told_ms = now;
	for (int i = 0; i < DOCTOR_GUESTS; i++) {
		const struct doctor_guest *g = &l->guests.list[i];
		uint8_t out[DOCTOR_MSG_HEAD + sizeof(uint32_t)];
		int before = g->state >= DOCTOR_GUEST_WAITS ? doctor_guest_before(&l->guests, i) : 0;

		if (g->state == DOCTOR_GUEST_WAITS)
			(void)!send(l->line[i].tcp, out, doctor_put_number(out, DOCTOR_WAIT, (uint32_t)before),
				    MSG_NOSIGNAL | MSG_DONTWAIT);
		else if (g->asked && before)
			byte_send(l->line[i].channel, (uint8_t)before);
	}
}

/* Give out sessions and turns, and end what takes too long. */
static void guests_run(struct listener *l)
{
	uint64_t now = doctor_now_ms();
	int i;

	while ((i = doctor_guest_late(&l->guests, now)) >= 0)
		stranger_end(l, i);
	while ((i = doctor_guest_serve(&l->guests)) >= 0)
		session_begin(l, i);
	i = doctor_turn_late(&l->guests, now);
	if (i >= 0) {
		kill(l->line[i].pid, SIGKILL);
		session_end(l, i);
	}
	i = doctor_turn_give(&l->guests, now);
	if (i >= 0)
		byte_send(l->line[i].channel, DOCTOR_TURN_YOURS);
	places_tell(l, now);
}

/* Wait for news of any connection, and take them. False: the file that says how long to listen has ended. */
static bool news_take(struct listener *l)
{
	struct pollfd p[DOCTOR_GUESTS + 2];
	int guest[DOCTOR_GUESTS], n = 0;
	char unused[64];

	for (int i = 0; i < DOCTOR_GUESTS; i++) {
		const struct line *c = &l->line[i];
		uint8_t state = l->guests.list[i].state;

		if (state == DOCTOR_GUEST_NONE)
			continue;
		/* Of one that waits for a session only its end is news. */
		p[n] = (struct pollfd){.fd = state == DOCTOR_GUEST_SERVED ? c->channel : c->tcp,
				       .events = state == DOCTOR_GUEST_WAITS ? POLLRDHUP : POLLIN};
		guest[n++] = i;
	}
	p[n] = (struct pollfd){.fd = l->fd, .events = POLLIN};
	p[n + 1] = (struct pollfd){.fd = l->opt->until_fd, .events = POLLIN};
	poll(p, (nfds_t)n + 2, LOOK_MS);
	for (int k = 0; k < n; k++) {
		uint8_t state = l->guests.list[guest[k]].state;

		if (!p[k].revents)
			continue;
		if (state == DOCTOR_GUEST_SILENT)
			hello_take(l, guest[k]);
		else if (state == DOCTOR_GUEST_WAITS)
			line_end(l, guest[k]);
		else if (state == DOCTOR_GUEST_SERVED)
			session_hear(l, guest[k]);
	}
	if (p[n].revents)
		accept_all(l);
	return !p[n + 1].revents || read(l->opt->until_fd, unused, sizeof(unused)) > 0;
}

static bool listener_idle(const struct listener *l)
{
	return !doctor_guest_count(&l->guests, DOCTOR_GUEST_WAITS) &&
	       !doctor_guest_count(&l->guests, DOCTOR_GUEST_SERVED);
}

/* Until enough askers were served, or none for too long: strangers do not count. 0 or -1. */
static int listener_run(struct listener *l)
{
	const struct doctor_peer_opt *opt = l->opt;

	while (!opt->clients || l->served < opt->clients || !listener_idle(l)) {
		if (opt->wait_s && listener_idle(l) &&
		    doctor_now_ms() >= l->served_ms + (uint64_t)opt->wait_s * 1000) {
			fprintf(stderr, "uccl_doctor: nobody came for %d s\n", opt->wait_s);
			return -1;
		}
		guests_run(l);
		if (!news_take(l))
			return 0;
	}
	return 0;
}

/* How many sessions at the same time the range of ports has room for. */
static int sessions_most(const struct doctor_peer_opt *opt)
{
	if (!uccl_ports_limited(&opt->ports))
		return DOCTOR_SESSIONS;
	return (int)uccl_ports_count(&opt->ports) / (opt->labels + SESSION_SOCKETS);
}

/* Say that it listens, and where. */
static void listener_say(const struct listener *l)
{
	struct sockaddr_storage sa = {0};
	struct uccl_nic_addr at = {0};
	socklen_t len = sizeof(sa);

	if (!getsockname(l->fd, (struct sockaddr *)&sa, &len))
		uccl_ifaddr_from_sock(&at, (struct sockaddr *)&sa, len);
	if (l->opt->ready_fd < 0)
		fprintf(stderr, "uccl_doctor: waiting at TCP port %u\n", at.port);
	else if (write(l->opt->ready_fd, &at.port, sizeof(at.port)) != sizeof(at.port))
		fprintf(stderr, "uccl_doctor: nobody waits for this listener\n");
}

int doctor_listen(const struct doctor_peer_opt *opt)
{
	struct listener *l = calloc(1, sizeof(*l));
	int rc = -1;

	if (!l)
		return -1;
	l->opt = opt;
	l->served_ms = doctor_now_ms();
	doctor_guests_init(&l->guests, sessions_most(opt));
	for (int i = 0; i < DOCTOR_GUESTS; i++)
		l->line[i].tcp = l->line[i].channel = -1;
	l->fd = listener_open(opt);
	if (l->fd >= 0) {
		listener_say(l);
		rc = listener_run(l);
		close(l->fd);
	}
	free(l);
	return rc;
}

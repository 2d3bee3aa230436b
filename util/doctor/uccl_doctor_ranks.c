/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* --ranks: the workers are the processes of a job, and rank 0 is the coordinator, too. */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/watch/process.h"
#include "base/units.h"
#include "uccl_doctor_cluster_impl.h"
#include "uccl_doctor_side.h"

#define RETRY_MS 200 /* until rank 0 listens */
#define STRANGERS 16 /* connections to rank 0 that have not said which rank they are */

/* How many processes the job has, as its launcher says; -1: not known. */
static int job_size(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};

	for (size_t i = 0; i < uccl_array_len(names); i++) {
		const char *text = getenv(names[i]);

		if (text && isdigit((unsigned char)*text))
			return atoi(text);
	}
	return -1;
}

/* "HOST:PORT", "[HOST]:PORT": true, if it is that. */
static bool place_parse(const char *text, char host[DOCTOR_NAME], char port[8])
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;

	if (!len || len >= DOCTOR_NAME || strlen(colon + 1) >= 8 || atoi(colon + 1) < 1 || atoi(colon + 1) > 65535)
		return false;
	snprintf(port, 8, "%s", colon + 1);
	if (*text == '[' && text[len - 1] == ']')
		snprintf(host, DOCTOR_NAME, "%.*s", (int)len - 2, text + 1);
	else
		snprintf(host, DOCTOR_NAME, "%.*s", (int)len, text);
	return true;
}

/* A socket of rank 0, or one to it: connected or listening. -1: not yet, or not at all. */
static int place_socket(const char *host, const char *port, bool passive)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0}, *list, *a;
	int fd = -1, one = 1;

	if (getaddrinfo(passive ? NULL : host, port, &hints, &list))
		return -1;
	for (a = list; a; a = a->ai_next) {
		/* IPv6 takes IPv4 as well, where there is IPv6. */
		if (passive && a->ai_family != AF_INET6 && a->ai_next)
			continue;
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && passive)
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (fd >= 0 && !(passive ? bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, DOCTOR_HOSTS) :
					   connect(fd, a->ai_addr, a->ai_addrlen)))
			break;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd;
}

/* A rank other than 0. */
static int rank_serve(const struct doctor_cluster_opt *opt, int rank, const char *host, const char *port)
{
	uint64_t end = doctor_now_ms() + (uint64_t)opt->wait_s * 1000;
	int fd, rc;

	while ((fd = place_socket(host, port, false)) < 0 && doctor_now_ms() < end)
		usleep(RETRY_MS * 1000);
	if (fd < 0) {
		fprintf(stderr, "uccl_doctor: rank %d: nobody listens at %s port %s: is rank 0 there?\n", rank, host,
			port);
		return 2;
	}
	rc = doctor_worker(&opt->peer, fd, fd, rank);
	close(fd);
	return rc ? 2 : 0;
}

/* Rank 0's own worker: a process at the other end of a socket pair. */
static int own_start(struct cluster *c, const char *host, int listener)
{
	struct worker *w = &c->worker[0];
	int pair[2];

	snprintf(w->address, sizeof(w->address), "%s", host);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	w->pid = fork();
	if (!w->pid) {
		close(pair[0]);
		close(listener);
		_exit(doctor_worker(&c->opt->peer, pair[1], pair[1], 0) ? 1 : 0);
	}
	close(pair[1]);
	w->in = w->out = pair[0];
	return w->pid > 0 ? 0 : -1;
}

/* Connections to rank 0 that have not said yet which rank they are. */
struct strangers {
	int fd[STRANGERS];
	struct doctor_lines lines[STRANGERS];
	int next; /* to be replaced */
};

static void stranger_add(struct strangers *s, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i = s->next;

	if (fd < 0)
		return;
	if (s->fd[i] >= 0)
		close(s->fd[i]);
	s->fd[i] = fd;
	s->lines[i] = (struct doctor_lines){0};
	s->next = (i + 1) % STRANGERS;
}

/* It said which rank it is. False: it is none that is missing. */
static bool rank_place(struct cluster *c, int fd, const struct doctor_lines *rest, const char *line)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct uccl_nic_addr from;
	int rank;
	char name[DOCTOR_NAME];

	if (sscanf(line, "uccl_doctor %*d %d %*d %79s", &rank, name) != 2 || rank < 1 || rank >= c->hosts.n ||
	    c->worker[rank].in >= 0 || getpeername(fd, (struct sockaddr *)&sa, &len) ||
	    uccl_ifaddr_from_sock(&from, (struct sockaddr *)&sa, len))
		return false;
	from.port = 0;
	uccl_address_ip_text(&from, c->worker[rank].address, sizeof(c->worker[rank].address));
	for (char *p = name; *p; p++)
		*p = isalnum((unsigned char)*p) || *p == '-' || *p == '_' ? *p : *p == '.' ? '\0' : '?';
	snprintf(c->hosts.name[rank], sizeof(c->hosts.name[rank]), "%d %.60s", rank, name);
	c->worker[rank].in = c->worker[rank].out = fd;
	c->worker[rank].lines = *rest;
	cluster_worker_ready(c, rank, line);
	return true;
}

static void strangers_hear(struct cluster *c, struct strangers *s)
{
	char line[DOCTOR_LINE];
	bool whole;
	int rc;

	for (int i = 0; i < STRANGERS; i++) {
		if (s->fd[i] < 0)
			continue;
		rc = doctor_lines_read(&s->lines[i], s->fd[i]);
		whole = doctor_lines_next(&s->lines[i], line);
		if (!whole && rc > 0 && !s->lines[i].skip)
			continue;
		if (!whole || !rank_place(c, s->fd[i], &s->lines[i], line))
			close(s->fd[i]);
		s->fd[i] = -1;
	}
}

/* Until all ranks are there, or it is too late for them. */
static void ranks_wait(struct cluster *c, int listener)
{
	struct strangers *s = calloc(1, sizeof(*s));

	if (!s)
		return;
	for (int i = 0; i < STRANGERS; i++)
		s->fd[i] = -1;
	while (!cluster_all_ready(c)) {
		if (cluster_wait(c, listener))
			stranger_add(s, listener);
		strangers_hear(c, s);
		cluster_late_end(c);
	}
	for (int i = 0; i < STRANGERS; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
	free(s);
}

static int ranks_coordinate(const struct doctor_cluster_opt *opt, int n, const char *host, const char *port)
{
	int listener = place_socket(host, port, true), status;
	struct uccl_process me;
	struct cluster c;

	if (listener < 0) {
		fprintf(stderr, "uccl_doctor: rank 0 cannot listen at port %s: %s\n", port, strerror(errno));
		return 2;
	}
	if (cluster_init(&c, opt, n)) {
		close(listener);
		return 2;
	}
	for (int i = 0; i < n; i++)
		snprintf(c.hosts.name[i], sizeof(c.hosts.name[i]), "%d", i);
	uccl_process_read(&me);
	snprintf(c.hosts.name[0], sizeof(c.hosts.name[0]), "0 %.60s", me.host);
	if (own_start(&c, host, listener))
		cluster_worker_down(&c, 0, "no process for its worker");
	ranks_wait(&c, listener);
	close(listener);
	status = cluster_measure(&c);
	cluster_free(&c);
	return status;
}

int cluster_ranks_measure(const struct doctor_cluster_opt *opt)
{
	int rank, n = job_size();
	struct uccl_process me;
	char host[DOCTOR_NAME], port[8];

	if (!place_parse(opt->ranks, host, port)) {
		fprintf(stderr, "uccl_doctor: --ranks: not HOST:PORT: %s\n", opt->ranks);
		return 2;
	}
	uccl_process_read(&me);
	rank = (int)me.rank;
	if (rank < 0 || n < 2 || rank >= n || n > DOCTOR_HOSTS) {
		fprintf(stderr,
			"uccl_doctor: --ranks: start it as 2 to %d processes by mpirun or srun (rank %d of %d)\n",
			DOCTOR_HOSTS, rank, n);
		return 2;
	}
	return rank ? rank_serve(opt, rank, host, port) : ranks_coordinate(opt, n, host, port);
}

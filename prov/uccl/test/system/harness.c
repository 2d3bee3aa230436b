/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct options options = {.slack = 1};
struct rank *this_rank;

/* A rank looks for words of the conductor so often; between two looks it drives its endpoint. */
#define POLL_EVERY_NS 500000

uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void sleep_ms(unsigned int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* ---- the conductor's side */

int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int port = 0;

	for (int i = 0; i < 100 && !port; i++) {
		/* The kernel hands out ports from 32768 on, also one whose server restarts at that moment. */
		int try = 20000 + (int)((clock_ns() / 1000 + (uint64_t)i * 7919) % 12000);
		int udp = socket(AF_INET, SOCK_DGRAM, 0);

		a.sin_port = htons((uint16_t)try);
		if (udp >= 0 && !bind(udp, (struct sockaddr *)&a, sizeof(a)))
			port = try;
		if (udp >= 0)
			close(udp);
	}
	return port;
}

void world_begin(struct world *w, const char *name)
{
	memset(w, 0, sizeof(*w));
	w->name = name;
	w->began_ns = clock_ns();
	fprintf(stderr, "-- %s\n", name);
}

static void world_vfail(struct world *w, const char *fmt, va_list ap)
{
	if (w->failed)
		return;
	w->failed = true;
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	fprintf(stderr, "   %s: %s\n", w->name, w->why);
}

void world_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	world_vfail(w, fmt, ap);
	va_end(ap);
}

void world_check(struct world *w, bool ok, const char *fmt, ...)
{
	va_list ap;

	if (ok)
		return;
	va_start(ap, fmt);
	world_vfail(w, fmt, ap);
	va_end(ap);
}

void world_figure(struct world *w, const char *fmt, ...)
{
	size_t at = strlen(w->figures);
	va_list ap;

	if (at + 2 >= sizeof(w->figures))
		return;
	w->figures[at] = ' ';
	va_start(ap, fmt);
	vsnprintf(w->figures + at + 1, sizeof(w->figures) - at - 1, fmt, ap);
	va_end(ap);
}

/* In the child, up to its new life. */
static void become_rank(const struct world *w, int index, const char *role, const char *const *env, unsigned int life,
			int fd)
{
	char text[6][64], stats[320];
	char *argv[] = {program_invocation_short_name, "--rank", (char *)role, text[0], text[1], text[2], text[3],
			NULL};
	int err = open(w->p[index].err, O_WRONLY | O_CREAT | O_APPEND, 0644);

	/* Who loses its conductor must not stay behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	fcntl(fd, F_SETFD, 0);
	snprintf(text[0], sizeof(text[0]), "%d", index);
	snprintf(text[1], sizeof(text[1]), "%d", fd);
	snprintf(text[2], sizeof(text[2]), "%g", options.slack);
	snprintf(text[3], sizeof(text[3]), "%llu", (unsigned long long)options.seed);
	snprintf(stats, sizeof(stats), "%s/%s.stats", options.dir, w->name);
	setenv("FI_PROVIDER", "uccl", 1);
	setenv("FI_UCCL_NIC", "lo", 1);
	setenv("FI_UCCL_STATS", stats, 1);
	for (; env && *env; env++)
		putenv((char *)*env);
	alarm((unsigned int)(life * options.slack));
	execv("/proc/self/exe", argv);
	_exit(127);
}

int world_spawn(struct world *w, const char *role, const char *const *env, unsigned int lifetime_s)
{
	struct proc *p = &w->p[w->n];
	int fd[2];

	if (w->failed)
		return w->n ? w->n - 1 : 0;
	if (w->n == RANKS_MAX || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd)) {
		world_fail(w, "cannot start rank %d", w->n);
		return 0;
	}
	*p = (struct proc){.fd = fd[0]};
	snprintf(p->err, sizeof(p->err), "%s/%s.%d.err", options.dir, w->name, w->n);
	unlink(p->err);
	p->pid = fork();
	if (!p->pid)
		become_rank(w, w->n, role, env, lifetime_s, fd[1]);
	close(fd[1]);
	if (p->pid < 0) {
		close(fd[0]);
		world_fail(w, "fork: %s", strerror(errno));
		return 0;
	}
	p->alive = true;
	return w->n++;
}

static const char *ended_text(int status, char *buf, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(buf, size, "%s%s", strsignal(WTERMSIG(status)),
			 WTERMSIG(status) == SIGALRM ? " (it hung)" : "");
	else
		snprintf(buf, size, "exit status %d", WEXITSTATUS(status));
	return buf;
}

/* Take note of the end of a rank, if it came. */
static bool reap(struct world *w, int rank, bool block)
{
	struct proc *p = &w->p[rank];
	char text[64];

	if (!p->alive)
		return true;
	if (waitpid(p->pid, &p->status, block ? 0 : WNOHANG) != p->pid)
		return false;
	p->alive = false;
	if (!p->doomed && p->status)
		world_fail(w, "rank %d: %s, see %s", rank, ended_text(p->status, text, sizeof(text)), p->err);
	return true;
}

/* One message, or the reason why there is none: 0 time-out, -1 the rank has closed its end. */
static int take(struct proc *p, unsigned int ms, struct ctl *out)
{
	struct pollfd f = {.fd = p->fd, .events = POLLIN};
	uint64_t end = clock_ns() + (uint64_t)ms * 1000000;

	for (;;) {
		uint64_t now = clock_ns();
		ssize_t n;

		if (poll(&f, 1, now < end ? (int)((end - now) / 1000000 + 1) : 0) < 1) {
			if (now >= end)
				return 0;
			continue;
		}
		n = recv(p->fd, out, sizeof(*out), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(*out))
			return 1;
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return -1;
	}
}

bool world_expect(struct world *w, int rank, uint32_t type, unsigned int ms, struct ctl *out)
{
	struct ctl c = {0};
	int got;

	if (w->failed || rank >= w->n)
		return false;
	got = take(&w->p[rank], (unsigned int)(ms * options.slack), &c);
	if (got == 1 && c.type == type) {
		if (out)
			*out = c;
		return true;
	}
	if (got == 1 && c.type == CTL_FAIL)
		world_fail(w, "rank %d: %.*s", rank, (int)c.len, (const char *)c.data);
	else if (got == 1)
		world_fail(w, "rank %d said %u, not %u", rank, c.type, type);
	else if (!got)
		world_fail(w, "rank %d did not say %u within %.0f ms", rank, type, ms * options.slack);
	else if (reap(w, rank, true))
		world_fail(w, "rank %d ended early", rank);
	return false;
}

void world_expect_all(struct world *w, uint32_t type, unsigned int ms, struct ctl *out)
{
	for (int i = 0; i < w->n; i++)
		if (!w->p[i].doomed)
			world_expect(w, i, type, ms, out ? &out[i] : NULL);
}

void world_pass(struct world *w, int rank, const struct ctl *c)
{
	if (w->failed || w->p[rank].doomed)
		return;
	if (send(w->p[rank].fd, c, sizeof(*c), MSG_NOSIGNAL) == (ssize_t)sizeof(*c))
		return;
	/* It may have left a word why it went. */
	world_expect(w, rank, CTL_GO, 100, NULL);
	world_fail(w, "rank %d does not listen", rank);
}

void world_tell(struct world *w, int rank, uint32_t type, int32_t arg, const uint64_t *v, int nv)
{
	struct ctl c = {.type = type, .arg = arg};

	for (int i = 0; i < nv; i++)
		c.v[i] = v[i];
	world_pass(w, rank, &c);
}

void world_tell_all(struct world *w, uint32_t type)
{
	for (int i = 0; i < w->n; i++)
		if (!w->p[i].doomed)
			world_tell(w, i, type, 0, NULL, 0);
}

void world_join(struct world *w, int first)
{
	struct ctl c[RANKS_MAX] = {0};

	for (int i = first; i < w->n; i++)
		world_expect(w, i, CTL_ADDR, 30000, &c[i]);
	for (int i = first; i < w->n; i++) {
		for (int k = first; k < w->n && !w->failed; k++) {
			c[k].type = CTL_PEER;
			c[k].arg = k;
			world_pass(w, i, &c[k]);
		}
	}
}

uint64_t world_agree(struct world *w, int n, uint64_t more)
{
	struct ctl c[RANKS_MAX] = {0};
	uint64_t v[8], top = 0;

	for (int i = 0; i < n; i++)
		world_tell(w, i, CTL_STOP, 0, NULL, 0);
	for (int i = 0; i < n; i++)
		if (!w->p[i].doomed)
			world_expect(w, i, CTL_REACHED, 20000, &c[i]);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 8; k++) {
			v[k] = (c[i].v[k] > c[k].v[i] ? c[i].v[k] : c[k].v[i]) + more;
			top = v[k] > top ? v[k] : top;
		}
		world_tell(w, i, CTL_LIMIT, 0, v, 8);
	}
	return top;
}

void world_signal(struct world *w, int rank, int sig)
{
	if (!w->failed && w->p[rank].alive && kill(w->p[rank].pid, sig))
		world_fail(w, "kill: %s", strerror(errno));
}

void world_kill(struct world *w, int rank)
{
	w->p[rank].doomed = true;
	world_signal(w, rank, SIGKILL);
}

void world_forget(struct world *w)
{
	if (w->failed)
		return;
	reap(w, w->n - 1, true);
	close(w->p[--w->n].fd);
}

static bool all_ended(struct world *w)
{
	bool all = true;

	for (int i = 0; i < w->n; i++)
		all &= reap(w, i, false);
	return all;
}

void world_wait(struct world *w, unsigned int ms)
{
	uint64_t end = clock_ns() + (uint64_t)(ms * options.slack * 1e6);
	struct ctl c;

	while (!w->failed && !all_ended(w) && clock_ns() < end)
		sleep_ms(5);
	/* Reasons given on the way out are better than statuses. */
	for (int i = 0; i < w->n; i++)
		if (!w->p[i].doomed && !w->p[i].alive && w->p[i].status && take(&w->p[i], 0, &c) == 1 &&
		    c.type == CTL_FAIL)
			snprintf(w->why, sizeof(w->why), "rank %d: %.*s", i, (int)c.len, (const char *)c.data);
	for (int i = 0; i < w->n; i++) {
		if (!w->p[i].alive)
			continue;
		world_fail(w, "rank %d has not ended", i);
		w->p[i].doomed = true;
		kill(w->p[i].pid, SIGKILL);
		reap(w, i, true);
	}
}

/* The contents of a file, terminated; the caller frees. NULL: not there. */
static char *file_text(const char *name)
{
	FILE *f = fopen(name, "re");
	char *text = NULL;
	size_t len = 0, n;

	if (!f)
		return NULL;
	do {
		char *more = realloc(text, len + 65537);

		if (!more)
			break;
		text = more;
		n = fread(text + len, 1, 65536, f);
		len += n;
		text[len] = '\0';
	} while (n);
	fclose(f);
	return text;
}

static char *stats_text(const struct world *w, int rank)
{
	char name[320];

	snprintf(name, sizeof(name), "%s/%s.stats.%d", options.dir, w->name, (int)w->p[rank].pid);
	return file_text(name);
}

/* Sum of all numbers that follow "key": in text. */
static uint64_t number_sum(const char *text, const char *key)
{
	size_t len = strlen(key);
	uint64_t sum = 0;

	for (; text && (text = strchr(text, '"')); text++)
		if (!strncmp(text + 1, key, len) && !strncmp(text + 1 + len, "\":", 2))
			sum += strtoull(text + len + 3, NULL, 10);
	return sum;
}

uint64_t world_stat(const struct world *w, int rank, const char *name)
{
	char *text = stats_text(w, rank);
	uint64_t v = number_sum(text, name);

	free(text);
	return v;
}

uint64_t world_dropped(const struct world *w, int rank, const char *reason)
{
	char *text = stats_text(w, rank);
	const char *p = text;
	uint64_t sum = 0;

	if (reason) {
		sum = number_sum(text, reason);
		free(text);
		return sum;
	}
	for (; p && (p = strstr(p, "\"dropped\":{")); p++)
		for (const char *q = p + 11; *q && *q != '}'; q++)
			if (*q == ':')
				sum += strtoull(q + 1, NULL, 10);
	free(text);
	return sum;
}

bool world_said(const struct world *w, int rank, const char *text)
{
	char *all = file_text(w->p[rank].err);
	bool found = all && strstr(all, text);

	free(all);
	return found;
}

int world_end(struct world *w)
{
	world_wait(w, w->failed ? 0 : 20000);
	for (int i = 0; i < w->n; i++)
		close(w->p[i].fd);
	printf("%s %s seconds=%.1f%s%s%s\n", w->failed ? "FAILED" : "ok    ", w->name,
	       (double)(clock_ns() - w->began_ns) / 1e9, w->figures, w->failed ? " reason: " : "", w->why);
	fflush(stdout);
	return w->failed;
}

/* ---- the rank's side */

void rank_fail(const char *fmt, ...)
{
	struct ctl c = {.type = CTL_FAIL};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf((char *)c.data, sizeof(c.data), fmt, ap);
	va_end(ap);
	c.len = (uint32_t)strlen((char *)c.data);
	fprintf(stderr, "rank %d: %s\n", this_rank ? this_rank->index : -1, (char *)c.data);
	if (this_rank && this_rank->fd >= 0)
		send(this_rank->fd, &c, sizeof(c), MSG_NOSIGNAL);
	/* The endpoint is left as it is: closing it could hide what is wrong, or hang. */
	_exit(1);
}

void rank_tell_blob(struct rank *r, uint32_t type, int32_t arg, const void *data, size_t len)
{
	struct ctl c = {.type = type, .arg = arg, .len = (uint32_t)len};

	memcpy(c.data, data, len);
	if (send(r->fd, &c, sizeof(c), MSG_NOSIGNAL) != (ssize_t)sizeof(c))
		_exit(2);
}

void rank_tell(struct rank *r, uint32_t type, int32_t arg, const uint64_t *v, int nv)
{
	struct ctl c = {.type = type, .arg = arg};

	for (int i = 0; i < nv; i++)
		c.v[i] = v[i];
	if (send(r->fd, &c, sizeof(c), MSG_NOSIGNAL) != (ssize_t)sizeof(c))
		_exit(2);
}

bool rank_poll(struct rank *r, struct ctl *out)
{
	static uint64_t next;
	uint64_t now = clock_ns();
	ssize_t n;

	if (now < next)
		return false;
	n = recv(r->fd, out, sizeof(*out), MSG_DONTWAIT);
	if (n == (ssize_t)sizeof(*out))
		return true;
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		_exit(2);
	next = now + POLL_EVERY_NS;
	return false;
}

void rank_wait(struct rank *r, uint32_t type, struct ctl *out)
{
	struct ctl c;

	while (!rank_poll(r, &c)) {
		if (r->has_fab)
			fab_progress(&r->fab);
		else
			sleep_ms(1);
	}
	rank_check(c.type == type, "the conductor said %u, not %u", c.type, type);
	if (out)
		*out = c;
}

void rank_learn(struct rank *r, const struct ctl *c)
{
	char text[128] = "";
	const char *begin, *end;
	size_t len = sizeof(text);
	int i = c->arg;

	r->addr[i] = fab_insert(&r->fab, c->data);
	memcpy(r->name[i], c->data, sizeof(r->name[i]));
	fi_av_straddr(r->fab.av, c->data, text, &len);
	begin = strstr(text, "://");
	end = begin ? strchr(begin + 3, '/') : NULL;
	rank_check(end, "fi_av_straddr gave %s", text);
	snprintf(r->place[i], sizeof(r->place[i]), "%.*s", (int)(end - begin - 3), begin + 3);
	if (i >= r->n)
		r->n = i + 1;
}

void rank_join(struct rank *r, const char *service, int n)
{
	struct ctl c;

	fab_open(&r->fab, service);
	r->has_fab = true;
	rank_tell_blob(r, CTL_ADDR, r->index, r->fab.name, r->fab.name_len);
	for (int i = 0; i < n; i++) {
		rank_wait(r, CTL_PEER, &c);
		rank_learn(r, &c);
	}
}

int rank_main(char **argv, const struct role *roles, size_t nroles)
{
	static struct rank rank;

	rank.role = argv[0];
	rank.index = atoi(argv[1]);
	rank.fd = atoi(argv[2]);
	options.slack = atof(argv[3]);
	options.seed = strtoull(argv[4], NULL, 10);
	this_rank = &rank;
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < nroles; i++) {
		if (!strcmp(roles[i].name, rank.role)) {
			roles[i].run(&rank);
			return 0;
		}
	}
	rank_fail("no role %s", rank.role);
}

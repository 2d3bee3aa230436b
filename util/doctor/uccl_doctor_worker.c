/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uccl_doctor_cluster.h"
#include "uccl_doctor_pairs.h"
#include "uccl_doctor_wire.h"

#define READY_MS 10000

int doctor_lines_read(struct doctor_lines *l, int fd)
{
	ssize_t n;

	if (l->have == sizeof(l->buf)) {
		l->skip = true;
		l->have = 0;
	}
	n = read(fd, l->buf + l->have, sizeof(l->buf) - l->have);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	l->have += (size_t)n;
	return n > 0;
}

bool doctor_lines_next(struct doctor_lines *l, char line[DOCTOR_LINE])
{
	char *end;

	while ((end = memchr(l->buf, '\n', l->have))) {
		size_t len = (size_t)(end - l->buf);
		bool skip = l->skip;

		memcpy(line, l->buf, len);
		line[len] = '\0';
		l->have -= len + 1;
		memmove(l->buf, end + 1, l->have);
		l->skip = false;
		/* A terminal of the far side may end lines in its own way. */
		if (len && line[len - 1] == '\r')
			line[len - 1] = '\0';
		if (!skip)
			return true;
	}
	return false;
}

int doctor_line_write(int fd, const char *fmt, ...)
{
	char line[DOCTOR_LINE];
	size_t at = 0, len;
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	strcat(line, "\n");
	for (len = strlen(line); at < len; at += (size_t)n) {
		n = write(fd, line + at, len - at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			n = 0;
	}
	return 0;
}

/* A listener for the other workers, as a process of its own that ends when `until` is closed. Its port; or -1. */
static int listener_begin(const struct doctor_peer_opt *opt, int *until, pid_t *pid)
{
	struct pollfd p = {.events = POLLIN};
	int ready[2], end[2];
	uint16_t port = 0;

	if (pipe(ready) || pipe(end))
		return -1;
	*pid = fork();
	if (!*pid) {
		struct doctor_peer_opt own = *opt;

		close(ready[0]);
		close(end[1]);
		own.host = NULL;
		own.port = 0;
		own.clients = own.wait_s = 0;
		own.quiet = true;
		own.until_fd = end[0];
		own.ready_fd = ready[1];
		_exit(doctor_listen(&own) ? 1 : 0);
	}
	close(ready[1]);
	close(end[0]);
	*until = end[1];
	p.fd = ready[0];
	if (*pid < 0 || poll(&p, 1, READY_MS) <= 0 || read(ready[0], &port, sizeof(port)) != sizeof(port))
		port = 0;
	close(ready[0]);
	return port ? port : -1;
}

/* Measure to another worker; its report becomes one line. */
static int ask_one(const struct doctor_peer_opt *opt, int out, char *host, uint16_t port)
{
	struct doctor_report report = {0};
	char why[DOCTOR_TEXT] = "", line[DOCTOR_LINE];
	struct doctor_peer_opt own = *opt;
	struct doctor_pair pair;

	own.host = host;
	own.port = port;
	own.quiet = true;
	own.why = why;
	if (doctor_ask(&own, &report))
		pair = (struct doctor_pair){.level = DOCTOR_BAD};
	else
		doctor_pair_judge(&report, &pair);
	if (*why)
		snprintf(pair.text, sizeof(pair.text), "%.190s", why);
	doctor_free(&report);
	doctor_pair_put(&pair, line, sizeof(line));
	return doctor_line_write(out, "%s", line);
}

static int orders_serve(const struct doctor_peer_opt *opt, int in, int out)
{
	struct doctor_lines lines = {0};
	char line[DOCTOR_LINE], host[DOCTOR_LINE];
	unsigned int port;
	int rc;

	while ((rc = doctor_lines_read(&lines, in)) > 0) {
		while (doctor_lines_next(&lines, line)) {
			if (sscanf(line, "ask %u %s", &port, host) != 2 || !port || port > UINT16_MAX)
				continue;
			rc = ask_one(opt, out, host, (uint16_t)port);
			if (rc)
				return rc;
		}
	}
	return rc;
}

int doctor_worker(const struct doctor_peer_opt *opt, int in, int out, int rank)
{
	char name[DOCTOR_NAME] = "?";
	int until = -1, port, rc = -1;
	pid_t pid = -1;

	gethostname(name, sizeof(name) - 1);
	port = listener_begin(opt, &until, &pid);
	if (port < 0)
		fprintf(stderr, "uccl_doctor: %s: cannot listen\n", name);
	else if (!doctor_line_write(out, "uccl_doctor %d %d %d %s", DOCTOR_VERSION, rank, port, name))
		rc = orders_serve(opt, in, out) ? -1 : 0;
	close(until);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return rc;
}

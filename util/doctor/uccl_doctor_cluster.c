/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The coordinator: it has workers measure, and prints the table. */
#include "uccl_doctor_cluster_impl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "uccl_doctor_side.h"
#include "uccl_doctor_wire.h"

#define LOOK_MS 500
#define MEASURE_MS 900000 /* one measurement; a worker that takes longer is given up */

/* Text of the end of a worker's stream. */
static const char *end_text(char *buf, size_t size, struct worker *w)
{
	int status = 0;

	snprintf(buf, size, "its uccl_doctor has ended");
	if (!w->pid)
		return buf;
	if (waitpid(w->pid, &status, WNOHANG) != w->pid) {
		usleep(100000);
		if (waitpid(w->pid, &status, WNOHANG) != w->pid)
			return buf;
	}
	w->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status))
		snprintf(buf, size, "cannot run uccl_doctor there: exit status %d", WEXITSTATUS(status));
	return buf;
}

void cluster_worker_close(struct worker *w)
{
	if (w->in >= 0)
		close(w->in);
	if (w->out >= 0 && w->out != w->in)
		close(w->out);
	w->in = w->out = -1;
}

void cluster_worker_down(struct cluster *c, int i, const char *why)
{
	cluster_worker_close(&c->worker[i]);
	doctor_host_down(&c->hosts, i, why);
	c->worker[i].peer = -1;
	for (int k = 0; k < c->hosts.n; k++)
		if (c->worker[k].peer == i)
			c->worker[k].peer = -1;
}

void cluster_worker_ready(struct cluster *c, int i, const char *line)
{
	struct worker *w = &c->worker[i];
	int version, rank, port;

	if (sscanf(line, "uccl_doctor %d %d %d", &version, &rank, &port) != 3)
		return;
	if (version != DOCTOR_VERSION)
		cluster_worker_down(c, i, "its uccl_doctor is of another version");
	else if (port > 0 && port <= UINT16_MAX)
		w->port = (uint16_t)port;
}

static void line_take(struct cluster *c, int i, const char *line)
{
	struct worker *w = &c->worker[i];
	struct doctor_pair pair;

	if (!w->port) {
		cluster_worker_ready(c, i, line);
		return;
	}
	if (w->peer < 0 || !doctor_pair_get(line, &pair))
		return;
	doctor_pair_end(&c->hosts, i, w->peer, &pair);
	w->peer = -1;
}

static void worker_hear(struct cluster *c, int i)
{
	struct worker *w = &c->worker[i];
	char line[DOCTOR_LINE], why[DOCTOR_NAME];
	int rc = doctor_lines_read(&w->lines, w->in);

	while (w->in >= 0 && doctor_lines_next(&w->lines, line))
		line_take(c, i, line);
	if (rc <= 0 && w->in >= 0)
		cluster_worker_down(c, i, end_text(why, sizeof(why), w));
}

/* Begin what can begin. */
static void pairs_begin(struct cluster *c)
{
	int i, k;

	while ((!c->opt->parallel || c->hosts.runs < c->opt->parallel) && doctor_pair_next(&c->hosts, &i, &k)) {
		c->worker[i].peer = k;
		c->worker[i].since_ms = doctor_now_ms();
		if (doctor_line_write(c->worker[i].out, "ask %u %s", c->worker[k].port, c->worker[k].address))
			cluster_worker_down(c, i, "its uccl_doctor has ended");
	}
}

void cluster_late_end(struct cluster *c)
{
	uint64_t now = doctor_now_ms();

	for (int i = 0; i < c->hosts.n; i++) {
		struct worker *w = &c->worker[i];

		if (c->hosts.down[i])
			continue;
		if (!w->port && now >= c->ready_ms)
			cluster_worker_down(c, i, c->opt->hosts ? "no uccl_doctor begins there" :
								  "this rank does not come");
		else if (w->peer >= 0 && now >= w->since_ms + MEASURE_MS)
			cluster_worker_down(c, i, "its measurement does not end");
	}
}

bool cluster_all_ready(const struct cluster *c)
{
	for (int i = 0; i < c->hosts.n; i++)
		if (!c->worker[i].port && !c->hosts.down[i])
			return false;
	return true;
}

bool cluster_wait(struct cluster *c, int listen)
{
	struct pollfd *p = calloc((size_t)c->hosts.n + 1, sizeof(*p));
	bool ready;

	if (!p) {
		usleep(LOOK_MS * 1000);
		return listen >= 0;
	}
	for (int i = 0; i < c->hosts.n; i++)
		p[i] = (struct pollfd){.fd = c->worker[i].in, .events = POLLIN};
	p[c->hosts.n] = (struct pollfd){.fd = listen, .events = POLLIN};
	poll(p, (nfds_t)c->hosts.n + 1, LOOK_MS);
	for (int i = 0; i < c->hosts.n; i++)
		if (p[i].revents && c->worker[i].in >= 0)
			worker_hear(c, i);
	ready = p[c->hosts.n].revents;
	free(p);
	return ready;
}

static void progress_say(const struct cluster *c, uint64_t *said_ms)
{
	int done = 0, all = c->hosts.n * (c->hosts.n - 1) / 2;

	if (doctor_now_ms() < *said_ms + 10000)
		return;
	*said_ms = doctor_now_ms();
	for (int i = 0; i < c->hosts.n; i++)
		for (int k = i + 1; k < c->hosts.n; k++)
			done += doctor_pair(&c->hosts, i, k)->state == DOCTOR_PAIR_DONE;
	fprintf(stderr, "uccl_doctor: %d of %d pairs done\n", done, all);
}

int cluster_measure(struct cluster *c)
{
	uint64_t said_ms = doctor_now_ms();

	while (!cluster_all_ready(c)) {
		cluster_wait(c, -1);
		cluster_late_end(c);
	}
	while (!doctor_pairs_done(&c->hosts)) {
		pairs_begin(c);
		if (doctor_pairs_done(&c->hosts))
			break;
		cluster_wait(c, -1);
		cluster_late_end(c);
		progress_say(c, &said_ms);
	}
	if (c->opt->json)
		doctor_pairs_json(&c->hosts, stdout);
	else
		doctor_pairs_text(&c->hosts, stdout);
	return doctor_pairs_status(&c->hosts);
}

/* The workers end with their streams. One that does not is left alone for a moment, and then ended. */
static void workers_end(struct cluster *c)
{
	uint64_t end = doctor_now_ms() + 5000;

	for (int i = 0; i < c->hosts.n; i++)
		cluster_worker_close(&c->worker[i]);
	for (int i = 0; i < c->hosts.n; i++) {
		struct worker *w = &c->worker[i];

		while (w->pid && waitpid(w->pid, NULL, WNOHANG) == 0 && doctor_now_ms() < end)
			usleep(20000);
		if (w->pid && waitpid(w->pid, NULL, WNOHANG) == 0) {
			kill(w->pid, SIGTERM);
			waitpid(w->pid, NULL, 0);
		}
	}
}

int cluster_init(struct cluster *c, const struct doctor_cluster_opt *opt, int n)
{
	memset(c, 0, sizeof(*c));
	c->opt = opt;
	c->worker = calloc((size_t)n, sizeof(*c->worker));
	if (!c->worker || doctor_hosts_init(&c->hosts, n)) {
		free(c->worker);
		fprintf(stderr, "uccl_doctor: no memory for %d hosts\n", n);
		return -1;
	}
	for (int i = 0; i < n; i++)
		c->worker[i].in = c->worker[i].out = c->worker[i].peer = -1;
	c->ready_ms = doctor_now_ms() + (uint64_t)opt->wait_s * 1000;
	return 0;
}

void cluster_free(struct cluster *c)
{
	workers_end(c);
	free(c->worker);
	doctor_hosts_free(&c->hosts);
}

int doctor_cluster(const struct doctor_cluster_opt *opt)
{
	return opt->hosts ? cluster_hosts_measure(opt) : cluster_ranks_measure(opt);
}

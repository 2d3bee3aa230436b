/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Watch this user's endpoints that run with FI_UCCL_MONITOR=1: what each sends, receives and retransmits in a second,
 * and what it knows of its peers and their paths; or (-w) which peers and paths hold them back. See uccl_top(1).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "progress/shm_dir.h"
#include "snapshot_file.h"
#include "stall_report.h"

#define ENDPOINTS_MAX 1024
#define PEERS_SHOWN 20

/* An endpoint: its latest snapshot and the one before. */
struct endpoint {
	char name[256];
	struct uccl_snapshot *now, *before;
	bool seen;
};

static struct endpoint endpoints[ENDPOINTS_MAX];
static int nendpoints;
static struct {
	double seconds;
	int count, peers;
	long pid;
	bool paths, clean, who, json;
} opt = { .seconds = 1, .peers = PEERS_SHOWN };
static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UCCL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static struct endpoint *endpoint_find(const char *name)
{
	for (int i = 0; i < nendpoints; i++)
		if (!strcmp(endpoints[i].name, name))
			return &endpoints[i];
	if (nendpoints == ENDPOINTS_MAX)
		return NULL;
	snprintf(endpoints[nendpoints].name, sizeof(endpoints[0].name), "%.255s", name);
	return &endpoints[nendpoints++];
}

/* Read the file of an endpoint. */
static void file_read(int dir, const char *name)
{
	struct uccl_snapshot *v;
	struct endpoint *e;
	const char *why;

	errno = 0;
	v = snapshot_file_read(dir, name, &why);
	if (!v) {
		if (errno != ENOENT)
			fprintf(stderr, "uccl_top: %s: %s\n", name, why);
		return;
	}
	/* A process that was killed leaves its file. */
	if (kill((pid_t)v->pid, 0) && errno == ESRCH) {
		if (opt.clean)
			unlinkat(dir, name, 0);
		free(v);
		return;
	}
	e = opt.pid && v->pid != opt.pid ? NULL : endpoint_find(name);
	if (e)
		e->seen = true;
	/* Nothing is measured between a snapshot and itself. */
	if (!e || (e->now && e->now->at_ns == v->at_ns && e->now->pid == v->pid)) {
		free(v);
		return;
	}
	free(e->before);
	e->before = e->now;
	e->now = v;
	/* Another process has the number now. */
	if (e->before && e->before->pid != v->pid) {
		free(e->before);
		e->before = NULL;
	}
}

/* Read all files of the directory, and forget endpoints that have none any more. */
static void files_read(int dir)
{
	DIR *d = fdopendir(dup(dir));
	struct dirent *f;

	if (!d)
		return;
	rewinddir(d);
	for (int i = 0; i < nendpoints; i++)
		endpoints[i].seen = false;
	while ((f = readdir(d)))
		if (f->d_name[0] != '.')
			file_read(dir, f->d_name);
	closedir(d);
	for (int i = 0; i < nendpoints; i++) {
		if (endpoints[i].seen)
			continue;
		free(endpoints[i].now);
		free(endpoints[i].before);
		endpoints[i--] = endpoints[--nendpoints];
	}
}

static void show(const struct endpoint *e)
{
	const struct uccl_snapshot *v = e->now, *b = e->before;
	const struct uccl_stats *s = &v->stats, *o = b ? &b->stats : s;
	double t = b && v->at_ns > b->at_ns ? (double)(v->at_ns - b->at_ns) / 1e9 : 0;

	printf("%" PRId64 " %s on %s (%s), %s %s %s; snapshot %.1f s old\n", v->pid, v->place, v->interface, v->backend,
	       v->cc, v->path, v->credit, (double)(clock_ns() - v->at_ns) / 1e9);
	/* Rates are between two snapshots: there are none the first time, and while nobody writes a new one. */
	if (t > 0)
		printf("a second: sent %.1f MB, received %.1f MB, packets %.0f and %.0f; retransmitted %.0f, lost "
		       "%.0f, spurious %.0f\n",
		       (double)(s->tx_bytes - o->tx_bytes) / t / 1e6, (double)(s->rx_bytes - o->rx_bytes) / t / 1e6,
		       (double)(s->tx_packets - o->tx_packets) / t, (double)(s->rx_packets - o->rx_packets) / t,
		       (double)(s->rtx_packets - o->rtx_packets) / t,
		       (double)(s->lost_proof + s->lost_rack + s->lost_rto - o->lost_proof - o->lost_rack -
				o->lost_rto) / t,
		       (double)(s->spurious - o->spurious) / t);
	uccl_snapshot_print(v, opt.peers, opt.paths, stdout);
}

/* How people name a finding's peer and path. */
static void slow_peer_text(const struct stall_report *s, char *buf, size_t size)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT];
	int n;

	if (!s->peer) {
		snprintf(buf, size, "-");
		return;
	}
	uccl_snapshot_ip_text(s->peer->ip, ip, sizeof(ip));
	n = snprintf(buf, size, "%s:%u", ip, s->peer->port);
	if (s->path)
		snprintf(buf + n, size - (size_t)n, " path %u", s->path->index);
}

/* The endpoint that is this peer, if it is on this host and ours to see. */
static const struct uccl_snapshot *slow_other(const struct stall_report *s)
{
	for (int i = 0; s->peer && i < nendpoints; i++) {
		const struct uccl_snapshot *v = endpoints[i].now;

		if (v->port == s->peer->port && !memcmp(v->ip, s->peer->ip, sizeof(v->ip)))
			return v;
	}
	return NULL;
}

/* Texts have printable characters only (snapshot_check). */
static void json_text(const char *name, const char *text)
{
	printf(", \"%s\": \"", name);
	for (; *text; text++)
		printf("%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
	printf("\"");
}

static void show_slow(const struct stall_report *s)
{
	static const char *const kind[] = { "endpoint", "peer", "path" };
	const struct uccl_snapshot *v = s->kind == STALL_REPORT_PEER ? slow_other(s) : NULL;
	char peer[80], figure[200], share[16] = "-", other[64] = "";

	slow_peer_text(s, peer, sizeof(peer));
	stall_report_figure(s, figure, sizeof(figure));
	if (opt.json) {
		printf("{\"kind\": \"%s\", \"pid\": %" PRId64, kind[s->kind], s->v->pid);
		json_text("endpoint", s->v->place);
		json_text("peer", peer);
		json_text("why", uccl_stall_text(s->why));
		json_text("figure", figure);
		printf(", \"share\": %.4f, \"part\": %.4f, \"lost\": %.4f}\n", s->share, s->fraction, s->lost);
		return;
	}
	if (s->kind != STALL_REPORT_PATH)
		snprintf(share, sizeof(share), "%.0f %%", s->share * 100);
	if (v && v->pid != s->v->pid)
		snprintf(other, sizeof(other), "; it is process %" PRId64, v->pid);
	printf("%8" PRId64 " %-24s %-30s %6s  %-24s %s%s\n", s->v->pid, s->v->place, peer, share,
	       s->kind == STALL_REPORT_PATH && s->why == UCCL_STALL_NOT ? "slow path" : uccl_stall_text(s->why), figure,
	       other);
}

/* Who is slow, over all endpoints. */
static void show_who(void)
{
	size_t n = 0, max = 1, shown;
	struct stall_report *all;
	char text[400];

	for (int i = 0; i < nendpoints; i++)
		max += endpoints[i].now->bytes / sizeof(struct uccl_snapshot_path) + 2;
	all = calloc(max, sizeof(*all));
	if (!all) {
		fprintf(stderr, "uccl_top: no memory\n");
		return;
	}
	for (int i = 0; i < nendpoints; i++)
		n += stall_report_find(endpoints[i].now, endpoints[i].before, clock_ns(), all + n, max - n);
	stall_report_sort(all, n);
	shown = uccl_min(n, (size_t)opt.peers);
	if (shown && !opt.json)
		printf("%8s %-24s %-30s %6s  %-24s %s\n", "process", "endpoint", "peer", "held", "by", "");
	for (size_t i = 0; i < shown; i++)
		show_slow(&all[i]);
	if (!opt.json) {
		if (n > shown)
			printf("and %zu lines more\n", n - shown);
		stall_report_sentence(all, n, text, sizeof(text));
		printf("%s\n", text);
	}
	free(all);
}

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_top [-d SECONDS] [-n COUNT] [-p PID] [-m PEERS] [-P] [-w] [-j] [-c]\n"
		   "  Watch this user's endpoints that run with FI_UCCL_MONITOR=1.\n"
		   "  -d  seconds between two looks (1)\n"
		   "  -n  end after so many looks (0: never)\n"
		   "  -p  only this process\n"
		   "  -m  most peers shown of an endpoint (%d)\n"
		   "  -P  every path, too\n"
		   "  -w  who is slow: the peers and paths that hold these endpoints back, and why, the worst first\n"
		   "  -j  the same as lines of JSON\n"
		   "  -c  remove files of processes that are gone\n", PEERS_SHOWN);
	return f == stdout ? 0 : 2;
}

/* A number of the given range, or the end with a text. */
static double number(char c, const char *arg, double lo, double hi)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= lo && v <= hi)) {
		fprintf(stderr, "uccl_top: -%c: not a number from %g to %g: %s\n", c, lo, hi, arg);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	char path[64];
	int dir = -1, c;

	while ((c = getopt_long(argc, argv, "d:n:p:m:Pwjch", longs, NULL)) != -1) {
		switch (c) {
		case 'd': opt.seconds = number('d', optarg, 0.05, 3600); break;
		case 'n': opt.count = (int)number('n', optarg, 0, 1e9); break;
		case 'p': opt.pid = (long)number('p', optarg, 1, 1e9); break;
		case 'm': opt.peers = (int)number('m', optarg, 0, 1e6); break;
		case 'P': opt.paths = true; break;
		case 'w': opt.who = true; break;
		case 'j': opt.who = opt.json = true; break;
		case 'c': opt.clean = true; break;
		case 'h': return usage(stdout);
		default: return usage(stderr);
		}
	}
	if (optind < argc)
		return usage(stderr);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (uccl_shm_dir_path(path, sizeof(path)))
		return 1;
	for (int i = 0; !stop && (!opt.count || i < opt.count); i++) {
		if (i)
			usleep((useconds_t)(opt.seconds * 1e6));
		if (dir < 0)
			dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0)
			files_read(dir);
		if (isatty(STDOUT_FILENO) && !opt.json)
			printf("\033[H\033[2J");
		if (!nendpoints && !opt.json)
			printf("no endpoint of this user%s runs with FI_UCCL_MONITOR=1\n",
			       opt.pid ? " and process" : "");
		for (int k = 0; k < nendpoints && !opt.who; k++)
			show(&endpoints[k]);
		if (opt.who && nendpoints)
			show_who();
		if (!opt.json)
			printf("\n");
		fflush(stdout);
	}
	return 0;
}

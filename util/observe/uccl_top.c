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

#include "../tool/tool.h"
#include "base/units.h"
#include "progress/shm_dir.h"
#include "snapshot_file.h"
#include "stall_report.h"

#define ENDPOINTS_MAX 1024
#define PEERS_SHOWN 20
/* -w: lines of at most COLUMNS characters. */
#define COLUMNS 80
#define PEER_COLUMN 22
#define HEAD "%5s %7s %-22s %6s %-19s %9s %6s\n"
#define ROW "%5s %7" PRId64 " %-22s %6s %-19s %9s %6s\n"

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

	printf("%s:%" PRId64, v->host, v->pid);
	if (v->rank >= 0)
		printf(" rank %" PRId64, v->rank);
	printf(", %s on %s (%s), %s %s %s; snapshot %.1f s old\n", v->place, v->interface, v->backend, v->cc, v->path,
	       v->credit, (double)(clock_ns() - v->at_ns) / 1e9);
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

/* A finding's peer by its address, which JSON and long lines have. */
static void slow_peer_text(const struct stall_report *s, char *buf, size_t size)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	if (!s->peer) {
		snprintf(buf, size, "-");
		return;
	}
	uccl_snapshot_ip_text(s->peer->ip, ip, sizeof(ip));
	snprintf(buf, size, "%s:%u", ip, s->peer->port);
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

static void json_slow(const struct stall_report *s)
{
	static const char *const kind[] = { "endpoint", "peer", "path" };
	char peer[80], figure[200];

	slow_peer_text(s, peer, sizeof(peer));
	stall_report_figure(s, figure, sizeof(figure));
	printf("{\"kind\": \"%s\"", kind[s->kind]);
	json_text("host", s->v->host);
	printf(", \"pid\": %" PRId64 ", \"rank\": ", s->v->pid);
	if (s->v->rank < 0)
		printf("null");
	else
		printf("%" PRId64, s->v->rank);
	json_text("endpoint", s->v->place);
	json_text("peer", peer);
	if (s->path)
		printf(", \"path\": %u", s->path->index);
	json_text("why", uccl_stall_text(s->why));
	json_text("figure", figure);
	printf(", \"share\": %.4f, \"part\": %.4f, \"lost\": %.4f}\n", s->share, s->fraction, s->lost);
}

/* The peer of a line: a process of this host by its rank and number, others by their address. */
static void row_peer(const struct stall_report *s, char *buf, size_t size)
{
	const struct uccl_snapshot *v = slow_other(s);

	if (!v || v->pid == s->v->pid)
		slow_peer_text(s, buf, size);
	else if (v->rank < 0)
		snprintf(buf, size, "pid %" PRId64, v->pid);
	else
		snprintf(buf, size, "rank %" PRId64 ", pid %" PRId64, v->rank, v->pid);
}

/* One line of at most COLUMNS characters, each column in one unit; a peer whose name is long has a line above it. */
static void row_print(const struct stall_report *s)
{
	char peer[80], rank[24] = "-", share[16] = "-", rtt[24] = "-", lost[16] = "-", by[32];

	row_peer(s, peer, sizeof(peer));
	if (s->v->rank >= 0)
		snprintf(rank, sizeof(rank), "%" PRId64, s->v->rank);
	if (s->kind != STALL_REPORT_PATH)
		snprintf(share, sizeof(share), "%.1f", s->share * 100);
	if (s->peer) {
		snprintf(rtt, sizeof(rtt), "%.1f", (double)(s->path ? s->path->srtt_ns : s->peer->srtt_ns) / 1e3);
		snprintf(lost, sizeof(lost), "%.1f", s->lost * 100);
	}
	snprintf(by, sizeof(by), "%s", uccl_stall_text(s->why));
	if (s->path)
		snprintf(by, sizeof(by), "%s path %u", s->why == UCCL_STALL_NOT ? "slow" : uccl_stall_text(s->why),
			 s->path->index);
	if (strlen(peer) > PEER_COLUMN) {
		printf("%13s %s\n", "", peer);
		peer[0] = '\0';
	}
	printf(ROW, rank, s->v->pid, peer, share, by, rtt, lost);
}

/* A text in lines of at most COLUMNS characters, cut between words. */
static void wrapped_print(const char *text)
{
	size_t at = 0;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (at && at + 1 + word > COLUMNS) {
			printf("\n");
			at = 0;
		}
		at += (size_t)printf("%s%.*s", at ? " " : "", (int)word, text);
		text += word + (text[word] == ' ');
	}
	printf("\n");
}

/* Who is slow, over all endpoints. */
static void show_who(void)
{
	size_t n = 0, max = 1, shown;
	struct stall_report *all;
	char text[800];

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
	if (opt.json) {
		for (size_t i = 0; i < shown; i++)
			json_slow(&all[i]);
	} else {
		printf("host %s, endpoints %d\n", endpoints[0].now->host, nendpoints);
		if (shown)
			printf(HEAD, "RANK", "PID", "PEER", "HELD %", "BY", "RTT us", "LOST %");
		for (size_t i = 0; i < shown; i++)
			row_print(&all[i]);
		if (n > shown)
			printf("and %zu lines more\n", n - shown);
		stall_report_sentence(all, n, text, sizeof(text));
		wrapped_print(text);
	}
	free(all);
}

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_top [-d SECONDS] [-n COUNT] [-p PID] [-m PEERS] [-P] [-w] [-j] [-c]\n"
		   "       uccl_top --help | --version\n"
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

	tool_begin("uccl_top", argc, argv);
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
		if (fflush(stdout))
			return 1;
	}
	return 0;
}

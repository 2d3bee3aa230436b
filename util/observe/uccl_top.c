/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Watch this user's endpoints that run with FI_UCCL_MONITOR=1: what each sends, receives and repeats in a second, and
 * what it knows of its peers and their paths; or (-w) which peers and paths hold them back. See uccl_top(1).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "engine/observe/stall_report.h"
#include "engine/observe/snapshot.h"
#include "progress/shm_dir.h"

#define ENDPOINTS_MAX 1024
#define PEERS_SHOWN 20
#define COPY_TRIES 100
/* More is no picture. */
#define SNAPSHOT_MAX (64 << 20)

/* An endpoint: its latest picture and the one before. */
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

/* How the picture is numbered and how long it is; false: there is not even a head. */
static bool head_read(int fd, uint32_t *seq, uint32_t *bytes)
{
	struct uccl_snapshot head;

	if (pread(fd, &head, offsetof(struct uccl_snapshot, at_ns), 0) !=
	    (ssize_t)offsetof(struct uccl_snapshot, at_ns))
		return false;
	*seq = head.seq;
	*bytes = head.bytes;
	return true;
}

/* So many bytes of the file, of which nothing is believed yet; NULL: it was being drawn, or no memory. */
static struct uccl_snapshot *snapshot_read(int fd, size_t size)
{
	uint32_t seq, after, bytes, unused;
	struct uccl_snapshot *v;

	if (!head_read(fd, &seq, &bytes) || seq % 2)
		return NULL;
	size = uccl_min(size, uccl_max(bytes, sizeof(*v)));
	v = calloc(1, uccl_max(size, sizeof(*v)));
	if (v && pread(fd, v, size, 0) == (ssize_t)size && head_read(fd, &after, &unused) && after == seq)
		return v;
	free(v);
	return NULL;
}

/*
 * A picture that was not being drawn while it was copied, and can be believed; NULL: there is none, *why tells. Read,
 * not mapped: a file that somebody cuts off meanwhile ends no program.
 */
static struct uccl_snapshot *snapshot_copy(int folder, const char *name, const char **why)
{
	struct uccl_snapshot *v = NULL;
	struct stat st;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	*why = "cannot be read";
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || st.st_uid != geteuid() || !S_ISREG(st.st_mode)) {
		close(fd);
		return NULL;
	}
	for (int i = 0; i < COPY_TRIES && !v; i++) {
		size_t size = (size_t)uccl_min(st.st_size, SNAPSHOT_MAX);

		v = snapshot_read(fd, size);
		if (!v) {
			*why = "cut off, or always being written";
			usleep(100);
			continue;
		}
		*why = uccl_snapshot_check(v, size);
		if (*why) {
			free(v);
			v = NULL;
			break;
		}
	}
	close(fd);
	return v;
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

/* Look at all files of the folder. Returns how many endpoints there are. */
static int look(int folder)
{
	DIR *d = fdopendir(dup(folder));
	struct dirent *f;
	int n = 0;

	if (!d)
		return 0;
	rewinddir(d);
	for (int i = 0; i < nendpoints; i++)
		endpoints[i].seen = false;
	while ((f = readdir(d))) {
		struct endpoint *e;
		struct uccl_snapshot *v;
		const char *why;

		if (f->d_name[0] == '.')
			continue;
		v = snapshot_copy(folder, f->d_name, &why);
		if (!v) {
			if (errno != ENOENT)
				fprintf(stderr, "uccl_top: %s: %s\n", f->d_name, why);
			continue;
		}
		/* A process that was killed leaves its file. */
		if (kill((pid_t)v->pid, 0) && errno == ESRCH) {
			if (opt.clean)
				unlinkat(folder, f->d_name, 0);
			free(v);
			continue;
		}
		e = opt.pid && v->pid != opt.pid ? NULL : endpoint_find(f->d_name);
		if (!e) {
			free(v);
			continue;
		}
		/* Nothing is measured between a picture and itself. */
		if (!e->now || e->now->at_ns != v->at_ns || e->now->pid != v->pid) {
			free(e->before);
			e->before = e->now && e->now->pid == v->pid ? e->now : NULL;
			e->now = v;
		} else {
			free(v);
		}
		e->seen = true;
		n++;
	}
	closedir(d);
	for (int i = 0; i < nendpoints; i++) {
		if (endpoints[i].seen)
			continue;
		free(endpoints[i].now);
		free(endpoints[i].before);
		endpoints[i--] = endpoints[--nendpoints];
	}
	return n;
}

static void show_peer(const struct uccl_snapshot_peer *p)
{
	static const char *const word[] = { "connecting", "open", "ended" };
	const struct uccl_snapshot_path *path = uccl_snapshot_paths(p);
	uint64_t lost = 0, bytes = 0, count[5] = { 0 };
	char credit[32] = "-", ip[UCCL_SNAPSHOT_IP_TEXT], place[80];

	for (uint16_t i = 0; i < p->npaths; i++) {
		lost += path[i].lost;
		bytes += path[i].bytes;
		count[uccl_min(path[i].state, 4)]++;
	}
	if (p->credit_limit != UINT64_MAX)
		snprintf(credit, sizeof(credit), "%" PRId64, (int64_t)(p->credit_limit - p->credit_used) / 1024);
	uccl_snapshot_ip_text(p, ip, sizeof(ip));
	snprintf(place, sizeof(place), "%s:%u", ip, p->port);
	printf("  %-28s %-10s %8.1f %9" PRIu64 " %9" PRIu64 " %6u %8s %9" PRIu64 " %7" PRIu64 " %5u %5" PRIu64
	       " %8.0f%s%s\n",
	       place, p->state < 3 ? word[p->state] : "?", (double)p->srtt_ns / 1e3, p->inflight_bytes / 1024,
	       p->window / 1024, p->slots, credit, bytes >> 20, lost, p->nusable, count[2] + count[3],
	       (double)p->heard_ago_ns / 1e6, p->short_of_memory ? " short of memory" : "",
	       p->without_trains ? " without trains" : "");
	for (uint16_t i = 0; opt.paths && i < p->npaths; i++)
		printf("    path %3u label %5u %-10s srtt %8.1f us, in flight %6" PRIu64 " KiB, sent %8" PRIu64
		       " MiB, lost %" PRIu64 ", re-rolled %" PRIu64 "\n",
		       path[i].index, path[i].label, uccl_snapshot_path_state(path[i].state),
		       (double)path[i].srtt_ns / 1e3, path[i].inflight / 1024, path[i].bytes >> 20, path[i].lost,
		       path[i].rerolls);
}

static void show(const struct endpoint *e)
{
	const struct uccl_snapshot *v = e->now, *b = e->before;
	const struct uccl_stats *s = &v->stats, zero = { 0 }, *o = b ? &b->stats : &zero;
	double t = b && v->at_ns > b->at_ns ? (double)(v->at_ns - b->at_ns) / 1e9 : 0;
	uint64_t lost = s->lost_proof + s->lost_rack + s->lost_rto;
	uint64_t olost = o->lost_proof + o->lost_rack + o->lost_rto;
	int shown = 0, left = 0;

	printf("%" PRId64 " %s on %s (%s), %s %s %s; peers %u, open %u; picture %.1f s old\n", v->pid, v->place,
	       v->interface, v->backend, v->cc, v->path, v->credit, v->nconns, v->nopen,
	       (double)(clock_ns() - v->at_ns) / 1e9);
	/* Rates are between two pictures: there are none the first time, and while nobody draws a new one. */
	if (t > 0)
		printf("  a second: sent %.1f MB, received %.1f MB, packets %.0f and %.0f; repeated %.0f, lost %.0f, "
		       "needless %.0f\n",
		       (double)(s->tx_bytes - o->tx_bytes) / t / 1e6, (double)(s->rx_bytes - o->rx_bytes) / t / 1e6,
		       (double)(s->tx_packets - o->tx_packets) / t, (double)(s->rx_packets - o->rx_packets) / t,
		       (double)(s->rtx_packets - o->rtx_packets) / t, (double)(lost - olost) / t,
		       (double)(s->spurious - o->spurious) / t);
	printf("  in all: sent %.1f MB, received %.1f MB, packets %" PRIu64 " and %" PRIu64 "; repeated %" PRIu64
	       ", lost %" PRIu64 ", needless %" PRIu64 "; time-outs %" PRIu64 ", paths left %" PRIu64 "\n",
	       (double)s->tx_bytes / 1e6, (double)s->rx_bytes / 1e6, s->tx_packets, s->rx_packets, s->rtx_packets,
	       lost, s->spurious, s->rtos, s->quarantined);
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		if (s->dropped[i])
			printf("  dropped, %s: %" PRIu64 "\n", uccl_drop_text((enum uccl_drop)i), s->dropped[i]);
	if (v->npeers)
		printf("  %-28s %-10s %8s %9s %9s %6s %8s %9s %7s %5s %5s %8s\n", "peer", "state", "srtt us",
		       "flight K", "window K", "slots", "credit K", "sent MiB", "lost", "paths", "out", "heard ms");
	for (const struct uccl_snapshot_peer *p = uccl_snapshot_first(v); p && shown + left < (int)v->npeers;
	     p = uccl_snapshot_next(v, p)) {
		if (shown < opt.peers) {
			show_peer(p);
			shown++;
		} else {
			left++;
		}
	}
	if (left || v->left_out)
		printf("  and %u peers more\n", (unsigned int)left + v->left_out);
}

/* How people name a finding's endpoint, peer and path. */
static void slow_peer_text(const struct uccl_stall_report *s, char *buf, size_t size)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	if (!s->peer) {
		snprintf(buf, size, "-");
		return;
	}
	uccl_snapshot_ip_text(s->peer, ip, sizeof(ip));
	if (s->path)
		snprintf(buf, size, "%s:%u path %u", ip, s->peer->port, s->path->index);
	else
		snprintf(buf, size, "%s:%u", ip, s->peer->port);
}

/* The endpoint that is this peer, if it is on this host and ours to see. */
static const struct uccl_snapshot *slow_other(const struct uccl_stall_report *s)
{
	for (int i = 0; s->peer && i < nendpoints; i++) {
		const struct uccl_snapshot *v = endpoints[i].now;

		if (v->port == s->peer->port && !memcmp(v->ip, s->peer->ip, sizeof(v->ip)))
			return v;
	}
	return NULL;
}

static void show_slow(const struct uccl_stall_report *s)
{
	char peer[80], figure[200], share[16] = "-", other[64] = "";
	const struct uccl_snapshot *v = s->kind == UCCL_STALL_REPORT_PEER ? slow_other(s) : NULL;

	slow_peer_text(s, peer, sizeof(peer));
	uccl_stall_report_figure(s, figure, sizeof(figure));
	if (s->kind != UCCL_STALL_REPORT_PATH)
		snprintf(share, sizeof(share), "%.0f %%", s->share * 100);
	if (v && v->pid != s->v->pid)
		snprintf(other, sizeof(other), "; it is process %" PRId64, v->pid);
	printf("%8" PRId64 " %-24s %-30s %6s  %-24s %s%s\n", s->v->pid, s->v->place, peer, share,
	       s->kind == UCCL_STALL_REPORT_PATH && s->why == UCCL_STALL_NOT ? "slow path" : uccl_stall_text(s->why),
	       figure, other);
}

/* Texts have printable characters only (uccl_snapshot_check). */
static void json_text(const char *name, const char *text)
{
	printf(", \"%s\": \"", name);
	for (; *text; text++)
		printf("%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
	printf("\"");
}

static void json_slow(const struct uccl_stall_report *s)
{
	static const char *const kind[] = { "endpoint", "peer", "path" };
	char peer[80], figure[200];

	slow_peer_text(s, peer, sizeof(peer));
	uccl_stall_report_figure(s, figure, sizeof(figure));
	printf("{\"kind\": \"%s\", \"pid\": %" PRId64, kind[s->kind], s->v->pid);
	json_text("endpoint", s->v->place);
	json_text("peer", peer);
	json_text("why", uccl_stall_text(s->why));
	json_text("figure", figure);
	printf(", \"share\": %.4f, \"part\": %.4f, \"lost\": %.4f}\n", s->share, s->fraction, s->lost);
}

/* Who is slow, over all endpoints. */
static void show_who(void)
{
	size_t n = 0, max = 0, shown;
	struct uccl_stall_report *all;
	char text[400];

	for (int i = 0; i < nendpoints; i++)
		max += endpoints[i].now->bytes / sizeof(struct uccl_snapshot_path) + 2;
	all = calloc(max ? max : 1, sizeof(*all));
	if (!all) {
		fprintf(stderr, "uccl_top: no memory\n");
		return;
	}
	for (int i = 0; i < nendpoints; i++)
		n += uccl_stall_report_find(endpoints[i].now, endpoints[i].before, clock_ns(), all + n, max - n);
	uccl_stall_report_sort(all, n);
	shown = uccl_min(n, (size_t)opt.peers);
	if (shown && !opt.json)
		printf("%8s %-24s %-30s %6s  %-24s %s\n", "process", "endpoint", "peer", "held", "by", "");
	for (size_t i = 0; i < shown; i++)
		opt.json ? json_slow(&all[i]) : show_slow(&all[i]);
	if (!opt.json) {
		if (n > shown)
			printf("and %zu lines more\n", n - shown);
		uccl_stall_report_sentence(all, n, text, sizeof(text));
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
	char path[64];
	int folder = -1, c;

	while ((c = getopt(argc, argv, "d:n:p:m:Pwjch")) != -1) {
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
		int n;

		if (i)
			usleep((useconds_t)(opt.seconds * 1e6));
		if (folder < 0)
			folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		n = folder < 0 ? 0 : look(folder);
		if (isatty(STDOUT_FILENO) && !opt.json)
			printf("\033[H\033[2J");
		if (!n && !opt.json)
			printf("no endpoint of this user%s runs with FI_UCCL_MONITOR=1\n",
			       opt.pid ? " and process" : "");
		for (int k = 0; k < nendpoints && !opt.who; k++)
			show(&endpoints[k]);
		if (opt.who && n)
			show_who();
		if (!opt.json)
			printf("\n");
		fflush(stdout);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Watch this user's endpoints that run with FI_UCCL_LIVE=1: what each sends, receives and repeats in a second, and what
 * it knows of its peers and their paths. See uccl_top(1).
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/live.h"
#include "base/units.h"
#include "engine/view.h"

#define ENDPOINTS_MAX 1024
#define PEERS_SHOWN 20
#define COPY_TRIES 100

/* An endpoint: its latest picture and the one before. */
struct endpoint {
	char name[256];
	struct uccl_view *now, *before;
	bool seen;
};

static struct endpoint endpoints[ENDPOINTS_MAX];
static int nendpoints;
static struct {
	double seconds;
	int count, peers;
	long pid;
	bool paths, clean;
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

/* Each load comes before those after it, so what is read last, the number of the picture, tells of all. */
static void copy_words(struct uccl_view *to, const struct uccl_view *from, uint32_t bytes)
{
	const uint64_t *src = (const uint64_t *)from;
	uint64_t *dst = (uint64_t *)to;

	for (uint32_t i = 0; i < bytes / sizeof(*src); i++)
		dst[i] = __atomic_load_n(&src[i], __ATOMIC_ACQUIRE);
}

/* A picture that was not being drawn while it was copied; NULL: not one of ours. */
static struct uccl_view *view_copy(int folder, const char *name, const char **why)
{
	const struct uccl_view *map;
	struct uccl_view *v = NULL;
	struct stat st;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	*why = "cannot be read";
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || st.st_uid != geteuid() || !S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(*map)) {
		close(fd);
		return NULL;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return NULL;
	for (int i = 0; i < COPY_TRIES; i++) {
		uint32_t seq = __atomic_load_n(&map->seq, __ATOMIC_ACQUIRE), bytes = map->bytes;

		*why = "always being written";
		if (map->magic != UCCL_VIEW_MAGIC || map->version != UCCL_VIEW_VERSION ||
		    map->stats_bytes != sizeof(map->stats)) {
			*why = "written by another version";
			break;
		}
		if (seq % 2 || bytes % 8 || bytes < sizeof(*map) || bytes > (size_t)st.st_size) {
			usleep(100);
			continue;
		}
		free(v);
		v = malloc(bytes);
		if (!v)
			break;
		copy_words(v, map, bytes);
		if (__atomic_load_n(&map->seq, __ATOMIC_RELAXED) == seq && v->bytes == bytes) {
			munmap((void *)map, (size_t)st.st_size);
			return v;
		}
	}
	munmap((void *)map, (size_t)st.st_size);
	free(v);
	return NULL;
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
		struct uccl_view *v;
		const char *why;

		if (f->d_name[0] == '.')
			continue;
		v = view_copy(folder, f->d_name, &why);
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
		free(e->before);
		e->before = e->now;
		e->now = v;
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

static void show_peer(const struct uccl_view_peer *p)
{
	static const char *const word[] = { "connecting", "open", "ended" };
	const struct uccl_view_path *path = uccl_view_paths(p);
	uint64_t lost = 0, bytes = 0, count[5] = { 0 };
	char credit[32] = "-", ip[UCCL_VIEW_IP_TEXT], place[80];

	for (uint16_t i = 0; i < p->npaths; i++) {
		lost += path[i].lost;
		bytes += path[i].bytes;
		count[uccl_min(path[i].state, 4)]++;
	}
	if (p->credit_limit != UINT64_MAX)
		snprintf(credit, sizeof(credit), "%" PRId64, (int64_t)(p->credit_limit - p->credit_used) / 1024);
	uccl_view_ip_text(p, ip, sizeof(ip));
	snprintf(place, sizeof(place), "%s:%u", ip, p->port);
	printf("  %-28s %-10s %8.1f %9" PRIu64 " %9" PRIu64 " %6u %8s %9" PRIu64 " %7" PRIu64 " %5u %5" PRIu64
	       " %8.0f%s\n",
	       place, p->state < 3 ? word[p->state] : "?", (double)p->srtt_ns / 1e3, p->inflight_bytes / 1024,
	       p->window / 1024, p->slots, credit, bytes >> 20, lost, p->nusable, count[2] + count[3],
	       (double)p->heard_ago_ns / 1e6, p->short_of_memory ? " short of memory" : "");
	for (uint16_t i = 0; opt.paths && i < p->npaths; i++)
		printf("    path %3u label %5u %-10s srtt %8.1f us, in flight %6" PRIu64 " KiB, sent %8" PRIu64
		       " MiB, lost %" PRIu64 ", re-rolled %" PRIu64 "\n",
		       path[i].index, path[i].label, uccl_view_path_state(path[i].state),
		       (double)path[i].srtt_ns / 1e3, path[i].inflight / 1024, path[i].bytes >> 20, path[i].lost,
		       path[i].rerolls);
}

static void show(const struct endpoint *e)
{
	const struct uccl_view *v = e->now, *b = e->before;
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
	for (const struct uccl_view_peer *p = uccl_view_first(v); p && shown + left < (int)v->npeers;
	     p = uccl_view_next(v, p)) {
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

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_top [-d SECONDS] [-n COUNT] [-p PID] [-m PEERS] [-P] [-c]\n"
		   "  Watch this user's endpoints that run with FI_UCCL_LIVE=1.\n"
		   "  -d  seconds between two looks (1)\n"
		   "  -n  end after so many looks (0: never)\n"
		   "  -p  only this process\n"
		   "  -m  most peers shown of an endpoint (%d)\n"
		   "  -P  every path, too\n"
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

	while ((c = getopt(argc, argv, "d:n:p:m:Pch")) != -1) {
		switch (c) {
		case 'd': opt.seconds = number('d', optarg, 0.05, 3600); break;
		case 'n': opt.count = (int)number('n', optarg, 0, 1e9); break;
		case 'p': opt.pid = (long)number('p', optarg, 1, 1e9); break;
		case 'm': opt.peers = (int)number('m', optarg, 0, 1e6); break;
		case 'P': opt.paths = true; break;
		case 'c': opt.clean = true; break;
		case 'h': return usage(stdout);
		default: return usage(stderr);
		}
	}
	if (optind < argc)
		return usage(stderr);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (uccl_live_folder(path, sizeof(path)))
		return 1;
	for (int i = 0; !stop && (!opt.count || i < opt.count); i++) {
		int n;

		if (i)
			usleep((useconds_t)(opt.seconds * 1e6));
		if (folder < 0)
			folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		n = folder < 0 ? 0 : look(folder);
		if (isatty(STDOUT_FILENO))
			printf("\033[H\033[2J");
		if (!n)
			printf("no endpoint of this user%s runs with FI_UCCL_LIVE=1\n", opt.pid ? " and process" : "");
		for (int k = 0; k < nendpoints; k++)
			show(&endpoints[k]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}

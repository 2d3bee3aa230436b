/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint with many peers: what each costs, how long it takes until all are connected, how fast one of them is
 * while all others are idle, whether all are served alike, and what the processor does when nothing happens.
 *
 *   uccl_peers [PEERS [SECONDS [PER_PROCESS [serve]]]]	(1000 5 100; serve: only whether all are served)
 *
 * The peers are endpoints of processes that this one starts, on the interface that FI_UCCL_NIC names (lo), as many in
 * each. One more has a process of its own, and is also the only peer of a second endpoint here: by turns it sends to
 * that one (alone) and to the one with all the peers (among). When all are served it is silent, for its process has
 * more time for it than the others have for each of theirs.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "direct.h"

#define PEERS_MAX 4096
#define LEN 4096
#define DEPTH 2			/* messages that each peer has under way */
#define SETTLE_S 3		/* until no thread looks after what was late */
#define IDLE_S 5
#define RECVS 1024
#define BIG (1 << 20)		/* messages of the one that is active, */
#define BIG_DEPTH 4		/* so many at a time */
#define TURNS 40		/* alone and among, */
#define TURN_S 0.1		/* so long each */

enum phase { OPENING, CONNECT, ALONE, AMONG, SEND, REST, END };

/* What all processes see. */
struct board {
	_Atomic int phase, ready, failed;
	uint8_t hub[FI_UCCL_ADDR_LEN], second[FI_UCCL_ADDR_LEN];
	uint8_t name[PEERS_MAX + 1][FI_UCCL_ADDR_LEN]; /* the first is the one that is active alone */
};

static struct board *board;
static uint8_t buf[RECVS][LEN], big[2 * BIG_DEPTH][BIG];

static void call_failed(void)
{
	board->failed = 1;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* One completion, or none for `ms`; the source of a receive. */
static bool completion(struct fi_cq_msg_entry *e, fi_addr_t *src, int ms)
{
	ssize_t rc = ms ? fi_cq_sreadfrom(cq, e, 1, src, NULL, ms) : fi_cq_readfrom(cq, e, 1, src);

	if (rc == -FI_EAVAIL) {
		struct fi_cq_err_entry err = { 0 };

		fi_cq_readerr(cq, &err, 0);
		fprintf(stderr, "uccl_peers: %s\n", fi_cq_strerror(cq, err.prov_errno, err.err_data, NULL, 0));
		board->failed = 1;
		exit(1);
	}
	return rc == 1;
}

/* ---- a process of peers */

struct peer {
	struct fid_ep *ep;
	int open;
	uint8_t in[LEN], out[LEN];
};

static void peers_send(struct peer *p, int n, fi_addr_t hub)
{
	for (int i = 0; i < n; i++)
		while (p[i].open < DEPTH && !fi_send(p[i].ep, p[i].out, LEN, NULL, hub, &p[i]))
			p[i].open++;
}

static void active_send(struct peer *p, fi_addr_t to)
{
	while (p->open < BIG_DEPTH && !fi_send(p->ep, big[0], BIG, NULL, to, p))
		p->open++;
}

static int peers_main(int first, int n)
{
	struct peer *p = calloc((size_t)n, sizeof(*p));
	struct fi_cq_msg_entry e;
	fi_addr_t hub, second, src;

	domain_open(FI_MSG | FI_SOURCE);
	call(fi_av_insert(av, board->hub, 1, &hub, 0, NULL), 1);
	call(fi_av_insert(av, board->second, 1, &second, 0, NULL), 1);
	for (int i = 0; i < n; i++) {
		p[i].ep = ep_open(board->name[first + i]);
		call(fi_recv(p[i].ep, p[i].in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
	}
	board->ready += n;
	while (board->phase < END) {
		if (board->phase == SEND && first)
			peers_send(p, n, hub);
		else if (!first && (board->phase == ALONE || board->phase == AMONG))
			active_send(p, board->phase == ALONE ? second : hub);
		/* A look at all endpoints is dear: take what it brought. */
		for (int k = 0, ms = 20; k < n && completion(&e, &src, ms); k++, ms = 0)
			if (e.flags & FI_SEND)
				((struct peer *)e.op_context)->open--;
	}
	for (int i = 0; i < n; i++)
		call(fi_close(&p[i].ep->fid), 0);
	return 0;
}

/* ---- the one in the middle */

static long resident(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static void connect_all(struct fid_ep *ep, int n)
{
	long rss = resident(), heap = (long)mallinfo2().uordblks;
	double began = now(), inserted;
	struct fi_cq_msg_entry e;
	fi_addr_t src;
	int open = 0;

	call(fi_av_insert(av, board->name, (size_t)n, NULL, 0, NULL), n);
	inserted = now();
	for (int i = 0; i < n; i++) {
		struct iovec iov = { .iov_base = buf[0], .iov_len = 8 };
		struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = (fi_addr_t)i };
		ssize_t rc;

		while ((rc = fi_sendmsg(ep, &m, FI_DELIVERY_COMPLETE)) == -FI_EAGAIN)
			open -= completion(&e, &src, 0);
		call(rc, 0);
		open++;
	}
	while (open)
		open -= completion(&e, &src, 1000);
	printf("set-up     %d peers inserted in %.1f ms, connected and a message delivered to each in %.0f ms\n", n,
	       (inserted - began) * 1e3, (now() - inserted) * 1e3);
	printf("memory     %.1f KiB resident, %.1f KiB of heap for each peer\n", (double)(resident() - rss) / 1024 / n,
	       (double)((long)mallinfo2().uordblks - heap) / 1024 / n);
}

static double cpu_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Bytes that came until `end`, and then (idle) until nothing more comes. */
static uint64_t active_receive(struct fid_ep *ep, double end, bool idle)
{
	struct fi_cq_msg_entry e;
	uint64_t got = 0;
	fi_addr_t src;

	while (now() < end || idle) {
		if (completion(&e, &src, idle ? 50 : 0)) {
			got += e.len;
			call(fi_recv(ep, e.op_context, BIG, NULL, FI_ADDR_UNSPEC, e.op_context), 0);
		} else if (idle) {
			break;
		}
	}
	return got;
}

/* MB a second of processor time of both sides. */
static double active_turn(struct fid_ep *ep, enum phase phase, clockid_t peer, double *mb)
{
	double cpu, got;

	board->phase = phase;
	active_receive(ep, now() + TURN_S / 5, false);
	cpu = cpu_of(CLOCK_PROCESS_CPUTIME_ID) + cpu_of(peer);
	got = (double)active_receive(ep, now() + TURN_S, false) / 1e6;
	cpu = cpu_of(CLOCK_PROCESS_CPUTIME_ID) + cpu_of(peer) - cpu;
	*mb += got;
	board->phase = CONNECT;
	active_receive(ep, 0, true);
	return got / cpu;
}

/* One sends, all others are connected and silent. */
static void one_active(struct fid_ep *ep, struct fid_ep *second, clockid_t peer)
{
	double alone[TURNS], among[TURNS], share[TURNS], mb[2] = {0};

	for (int i = 0; i < 2 * BIG_DEPTH; i++) {
		call(fi_recv(ep, big[i], BIG, NULL, FI_ADDR_UNSPEC, big[i]), 0);
		call(fi_recv(second, big[i], BIG, NULL, FI_ADDR_UNSPEC, big[i]), 0);
	}
	for (int i = 0; i < TURNS; i++) {
		alone[i] = active_turn(second, ALONE, peer, &mb[0]);
		among[i] = active_turn(ep, AMONG, peer, &mb[1]);
		share[i] = (among[i] + 1) / (alone[i] + 1);
	}
	qsort(alone, TURNS, sizeof(*alone), by_size);
	qsort(among, TURNS, sizeof(*among), by_size);
	qsort(share, TURNS, sizeof(*share), by_size);
	printf("one active %.0f MB/s and %.0f MB for a second of processor time, alone %.0f and %.0f: %.3f of alone "
	       "(median of %d pairs, %.3f to %.3f)\n",
	       mb[1] / TURNS / TURN_S, among[TURNS / 2], mb[0] / TURNS / TURN_S, alone[TURNS / 2], share[TURNS / 2],
	       TURNS, share[0], share[TURNS - 1]);
}

/* Of all processes. */
static double cpu_all(const clockid_t *child, int children)
{
	double sum = cpu_of(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < children; i++)
		sum += cpu_of(child[i]);
	return sum;
}

/* All but the first send as fast as they may, for some seconds. */
static void serve_all(struct fid_ep *ep, int n, int seconds, const clockid_t *child, int children)
{
	uint64_t *got = calloc((size_t)n + 1, sizeof(*got)), all = 0, least = UINT64_MAX, most = 0;
	double began, cpu, own, sum = 0, squares = 0;
	struct fi_cq_msg_entry e;
	fi_addr_t src;

	for (int i = 0; i < RECVS; i++)
		call(fi_recv(ep, buf[i], LEN, NULL, FI_ADDR_UNSPEC, buf[i]), 0);
	board->phase = SEND;
	began = now();
	own = cpu_of(CLOCK_PROCESS_CPUTIME_ID);
	cpu = cpu_all(child, children);
	while (now() < began + seconds) {
		for (int k = 0; k < 256 && completion(&e, &src, 1); k++) {
			if (src <= (fi_addr_t)n)
				got[src]++;
			call(fi_recv(ep, e.op_context, LEN, NULL, FI_ADDR_UNSPEC, e.op_context), 0);
		}
	}
	cpu = cpu_all(child, children) - cpu;
	own = cpu_of(CLOCK_PROCESS_CPUTIME_ID) - own;
	board->phase = REST;
	for (int i = 1; i <= n; i++) {
		all += got[i];
		least = got[i] < least ? got[i] : least;
		most = got[i] > most ? got[i] : most;
		sum += (double)got[i];
		squares += (double)got[i] * (double)got[i];
	}
	printf("fairness   %.0f messages of %d bytes a second (%.0f MB/s); of a peer %.0f on average, %llu to %llu; "
	       "Jain's index %.3f\n",
	       (double)all / seconds, LEN, (double)all * LEN / seconds / 1e6, sum / n, (unsigned long long)least,
	       (unsigned long long)most, sum * sum / (n * squares + !squares));
	printf("cost       %.1f us of processor time a message, %.1f of them here\n", cpu * 1e6 / ((double)all + !all),
	       own * 1e6 / ((double)all + !all));
	/* what is still on its way */
	while (completion(&e, &src, 500))
		call(fi_recv(ep, e.op_context, LEN, NULL, FI_ADDR_UNSPEC, e.op_context), 0);
	free(got);
}

static double used(struct rusage *u)
{
	getrusage(RUSAGE_SELF, u);
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
}

/* Asleep in fi_cq_sread, all peers connected and silent. */
static void sleep_all(void)
{
	struct fi_cq_msg_entry e;
	struct rusage u, v;
	double cpu, began;
	fi_addr_t src;

	for (double end = now() + SETTLE_S; now() < end;)
		completion(&e, &src, 100);
	cpu = used(&u);
	began = now();
	while (now() < began + IDLE_S)
		completion(&e, &src, (int)((began + IDLE_S - now()) * 1e3) + 1);
	cpu = used(&v) - cpu;
	printf("asleep     %.2f ms of processor time in %.1f s of fi_cq_sread (%.3f %%), woken %ld times\n", cpu * 1e3,
	       now() - began, cpu * 100 / (now() - began), v.ru_nvcsw - u.ru_nvcsw);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000, seconds = argc > 2 ? atoi(argv[2]) : 5;
	int each = argc > 3 ? atoi(argv[3]) : 100, processes, children = 0, status, bad = 0;
	bool serve = argc > 4 && !strcmp(argv[4], "serve");
	struct fid_ep *ep, *second;
	struct rlimit files;
	clockid_t child[PEERS_MAX + 1];

	if (n < 1 || n > PEERS_MAX || seconds < 1 || each < 1 || (argc > 4 && !serve)) {
		fprintf(stderr, "usage: uccl_peers [PEERS [SECONDS [PER_PROCESS [serve]]]]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return 1;
	/* The active one; then as few processes as will do, with as many peers in each. */
	processes = (n + each - 1) / each;
	for (int first = 0, count; first <= n; first += count, children++) {
		pid_t pid = fork();

		count = !first ? 1 : n / processes + (children <= n % processes);
		if (pid) {
			call(clock_getcpuclockid(pid, &child[children]), 0);
			continue;
		}
		while (board->phase == OPENING && !board->failed)
			usleep(1000);
		if (!board->failed)
			_exit(peers_main(first, count));
		_exit(1);
	}
	domain_open(FI_MSG | FI_SOURCE);
	ep = ep_open(board->hub);
	second = ep_open(board->second);
	board->phase = CONNECT;
	while (board->ready <= n && !board->failed)
		usleep(1000);
	if (!board->failed) {
		connect_all(ep, n + 1);
		if (!serve)
			one_active(ep, second, child[0]);
		serve_all(ep, n, seconds, child, children);
		if (!serve)
			sleep_all();
	}
	board->phase = END;
	/* Peers say that they go: whoever hears of it answers. */
	for (int left = children; left;) {
		struct fi_cq_msg_entry e;
		fi_addr_t src;

		completion(&e, &src, 10);
		while (left && waitpid(-1, &status, WNOHANG) > 0) {
			bad += !!status;
			left--;
		}
	}
	call(fi_close(&ep->fid), 0);
	call(fi_close(&second->fid), 0);
	domain_close();
	return board->failed || bad;
}

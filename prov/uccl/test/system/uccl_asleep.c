/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the threads of lanes do when nothing happens: nothing but to look twice a second whether a peer is still there
 * (conn_scan of the engine). And what a process that is bound to one processor has with FI_UCCL_LANES=auto: no lanes.
 *
 *   uccl_asleep [SECONDS [LANES]]	(2 2)
 *   uccl_asleep bound MESSAGES BYTES
 *
 * Two endpoints in one process send each other messages that lanes carry; then the program makes no calls. For each
 * thread it is counted how often it went to sleep, and how many clock ticks it had of a processor. Ends with 1 if a
 * lane's thread woke more often than that, or did not sleep, or if not one of them had carried anything.
 *
 * "bound" only sends so many from one endpoint to the other, by one thread on one processor that never sleeps, so that
 * valgrind can count what a message costs:
 *
 *	valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=bound_talk uccl_asleep bound 2000 64
 */
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct.h"

#define BYTES (8u << 20)
#define MESSAGES 4
#define THREADS_MAX 64
#define SIDES 2
#define SETTLE_S 3		/* until nobody looks after what was late, and each path was asked */
#define LOOKS_A_SECOND 2	/* after peers, */
#define LOOKS_MORE 2		/* and so many at the edges of the time; */
#define TICKS_MOST 1		/* each of some microseconds, but a tick may fall on one */

static void call_failed(void)
{
}

/* One thread of this process: how often it went to sleep, and the clock ticks (of 10 ms) that it ran. */
struct task {
	int id;
	unsigned long long sleeps, ticks;
};

static struct fid_ep *ep[SIDES];
static fi_addr_t to[SIDES];
static uint8_t src[BYTES], dst[BYTES];

static unsigned long long task_status(int id, const char *name)
{
	unsigned long long value = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", id);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			value = strtoull(line + strlen(name) + 1, NULL, 10);
	if (f)
		fclose(f);
	return value;
}

static unsigned long long task_ticks(int id)
{
	unsigned long long user = 0, system = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
	f = fopen(path, "r");
	/* The name in brackets is that of the program. */
	if (f && fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		user = system = 0;
	if (f)
		fclose(f);
	return user + system;
}

/* All threads of this process, in the order in which they began. */
static int tasks(struct task *v)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)) && n < THREADS_MAX)
		if (e->d_name[0] != '.')
			v[n++].id = atoi(e->d_name);
	if (d)
		closedir(d);
	for (int i = 0; i < n; i++) {
		v[i].sleeps = task_status(v[i].id, "voluntary_ctxt_switches");
		v[i].ticks = task_ticks(v[i].id);
	}
	return n;
}

static void open_all(void)
{
	uint8_t name[FI_UCCL_ADDR_LEN];

	domain_open(FI_MSG);
	for (int i = 0; i < SIDES; i++) {
		ep[i] = ep_open(name);
		call(fi_av_insert(av, name, 1, &to[i], 0, NULL), 1);
	}
}

static void close_all(void)
{
	for (int i = 0; i < SIDES; i++)
		call(fi_close(&ep[i]->fid), 0);
	domain_close();
}

/* A message each way, `MESSAGES` times. */
static void talk(void)
{
	struct fi_cq_msg_entry e;

	for (int i = 0; i < MESSAGES * SIDES; i++) {
		int from = i % SIDES, left = 2;

		call(fi_recv(ep[!from], dst, BYTES, NULL, FI_ADDR_UNSPEC, NULL), 0);
		call(fi_send(ep[from], src, BYTES, NULL, to[!from], NULL), 0);
		while (left)
			left -= fi_cq_sread(cq, &e, 1, NULL, 100) == 1;
	}
}

static void on_one_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	call(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Threads that a process has beside its own, with this value of FI_UCCL_LANES, on one processor. */
static int threads_bound(const char *lanes)
{
	struct task v[THREADS_MAX];
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid) {
		call(waitpid(pid, &status, 0), pid);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	on_one_processor();
	setenv("FI_UCCL_LANES", lanes, 1);
	open_all();
	talk();
	status = tasks(v);
	close_all();
	exit(status);
}

void bound_talk(int messages, size_t bytes);

/* Valgrind knows it by its name. */
__attribute__((noinline)) void bound_talk(int messages, size_t bytes)
{
	struct fi_cq_msg_entry e;

	for (int i = 0; i < messages; i++) {
		int left = 2;

		call(fi_recv(ep[1], dst, bytes, NULL, FI_ADDR_UNSPEC, NULL), 0);
		call(fi_send(ep[0], src, bytes, NULL, to[1], NULL), 0);
		while (left)
			left -= fi_cq_read(cq, &e, 1) == 1;
	}
}

static int bound(int messages, size_t bytes)
{
	if (messages < 1 || bytes > BYTES)
		return 2;
	on_one_processor();
	/* No thread of the endpoint's own that would poll beside us. */
	progress = FI_PROGRESS_MANUAL;
	open_all();
	talk();
	bound_talk(messages, bytes);
	close_all();
	return 0;
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 2, lanes = argc > 2 ? atoi(argv[2]) : 2;
	struct task before[THREADS_MAX], after[THREADS_MAX], begun[THREADS_MAX];
	int n, own, none, carried = 0, bad = 0;
	char value[16];

	if (argc == 4 && !strcmp(argv[1], "bound"))
		return bound(atoi(argv[2]), strtoul(argv[3], NULL, 10));
	if (seconds < 1 || lanes < 1 || lanes > 16) {
		fprintf(stderr, "usage: uccl_asleep [SECONDS [LANES]]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	none = threads_bound("0");
	own = threads_bound("auto");
	printf("bound      to one processor: %d threads with auto, %d without lanes\n", own, none);
	bad += own != none || none < 1;
	snprintf(value, sizeof(value), "%d", lanes);
	setenv("FI_UCCL_LANES", value, 1);
	open_all();
	tasks(begun);
	talk();
	sleep(SETTLE_S);
	n = tasks(before);
	sleep((unsigned int)seconds);
	if (tasks(after) != n)
		bad++;
	/* The first ones are the program's and, if there is one, that which looks after what is late. */
	for (int i = 0; i < n; i++) {
		bool lane = i >= n - SIDES * lanes;
		unsigned long long woke = after[i].sleeps - before[i].sleeps, ticks = after[i].ticks - before[i].ticks;

		printf("%-10s slept %llu times while messages came, then woke %llu times in %d s and ran %llu ticks\n",
		       lane ? "lane" : i ? "other" : "program", before[i].sleeps - begun[i].sleeps, woke, seconds,
		       ticks);
		if (!lane)
			continue;
		carried += before[i].sleeps > begun[i].sleeps;
		bad += ticks > TICKS_MOST || woke > (unsigned long long)(seconds * LOOKS_A_SECOND + LOOKS_MORE);
	}
	bad += n < SIDES * lanes || !carried;
	printf("%s\n", bad ? "NOT ASLEEP" : "asleep");
	close_all();
	return bad ? 1 : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What happens to a host under its processes: the link goes and comes back, the address is taken away and given back,
 * the clock is set, a process forks. Three ranks exchange messages all the time. None of it may end an operation or
 * change a byte; only at last, when a rank that forked is killed, those with it end, although a child of it lives on.
 *
 * The links are the loopback of a network namespace of this scenario's own, which needs root.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chaos.h"
#include "mesh.h"

#define RANKS 3
#define LAST (RANKS - 1)
#define SEEN_MS 10000 /* within that all know of a death, and traffic goes on after a disturbance */
#define CHILD_S 30

enum { HOST_CLOCK = CTL_USER, HOST_FORK, HOST_OK, HOST_MARK, HOST_MARKED, HOST_DEATH };

/* ---- a clock that is set: the C library's function is behind this one, for the provider too */

static int64_t clock_moved_ns;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, id, t);

	if (rc || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) || !clock_moved_ns)
		return rc;
	t->tv_sec += clock_moved_ns / 1000000000;
	t->tv_nsec += clock_moved_ns % 1000000000;
	if (t->tv_nsec < 0 || t->tv_nsec >= 1000000000) {
		int carry = t->tv_nsec < 0 ? -1 : 1;

		t->tv_sec += carry;
		t->tv_nsec -= carry * 1000000000L;
	}
	return 0;
}

/* ---- a rank */

/* A child that ends, sleeps, becomes another program, or calls what it inherited. */
static void rank_forks(struct rank *r, int how)
{
	struct fi_cq_tagged_entry e;
	pid_t pid = fork();

	rank_check(pid >= 0, "fork: %s", strerror(errno));
	if (pid) {
		if (how % 4 != 1)
			rank_check(waitpid(pid, NULL, 0) == pid, "waitpid");
		return;
	}
	close(r->fd);
	alarm(CHILD_S);
	if (how % 4 == 1)
		pause();
	if (how % 4 == 2)
		execl("/bin/true", "true", (char *)NULL);
	for (int i = 0; how % 4 == 3 && i < 1000; i++)
		if (fi_cq_read(r->fab.cq, &e, 1) > 0)
			break;
	_exit(0);
}

static void rank_mourns(struct mesh *m)
{
	uint64_t end = clock_ns() + (uint64_t)(SEEN_MS * 1e6 * options.slack);

	/* An operation fails, or the next call is refused, if there was none. */
	while (mesh_in_flight(m, LAST) || !m->s[LAST].dead) {
		rank_check(clock_ns() < end, "%u operations with the dead rank have not ended, and %s",
			   mesh_in_flight(m, LAST), m->s[LAST].dead ? "one failed" : "none failed");
		mesh_step(m);
	}
}

void role_host(struct rank *r)
{
	static struct mesh m;
	struct mesh_cfg cfg = {.window = 8, .size_max = 200000, .limit = UINT64_MAX};
	uint64_t v[4] = {0};
	struct ctl c;

	rank_join(r, NULL, RANKS);
	mesh_open(&m, r, &cfg);
	rank_tell(r, CTL_READY, 0, NULL, 0);
	while (mesh_next(&m, &c)) {
		switch (c.type) {
		case HOST_CLOCK:
			clock_moved_ns = (int64_t)c.v[0];
			break;
		case HOST_FORK:
			rank_forks(r, c.arg);
			rank_tell(r, HOST_OK, 0, NULL, 0);
			break;
		case HOST_MARK:
			for (int p = 0; p < RANKS; p++)
				v[p] = m.s[p].received;
			rank_tell(r, HOST_MARKED, 0, v, RANKS);
			break;
		case HOST_DEATH:
			m.s[LAST].may_die = true;
			if (c.arg)
				rank_mourns(&m);
			rank_tell(r, HOST_OK, 0, NULL, 0);
			break;
		case 0:
			break;
		default:
			rank_fail("the conductor said %u", c.type);
		}
	}
	mesh_end(&m);
}

/* ---- the conductor */

static void lo_request(struct world *w, unsigned long what, struct ifreq *r)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(r->ifr_name, "lo");
	world_check(w, fd >= 0 && !ioctl(fd, what, r), "the loopback cannot be changed: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void lo_flags(struct world *w, bool up)
{
	struct ifreq r = {.ifr_flags = (short)(IFF_LOOPBACK | (up ? IFF_UP | IFF_RUNNING : 0))};

	lo_request(w, SIOCSIFFLAGS, &r);
}

static void lo_address(struct world *w, uint32_t ip)
{
	struct ifreq r = {0};
	struct sockaddr_in *sa = (struct sockaddr_in *)&r.ifr_addr;

	sa->sin_family = AF_INET;
	sa->sin_addr.s_addr = htonl(ip);
	lo_request(w, SIOCSIFADDR, &r);
	if (!ip)
		return;
	sa->sin_addr.s_addr = htonl(0xff000000);
	lo_request(w, SIOCSIFNETMASK, &r);
}

static void host_begin(struct world *w, const char *name, bool own_net)
{
	world_begin(w, name);
	if (own_net)
		lo_flags(w, true);
	for (int i = 0; i < RANKS; i++)
		world_spawn(w, "host", NULL, options.hours ? 3600 : 120);
	world_join(w, 0);
	world_expect_all(w, CTL_READY, 20000, NULL);
	sleep_ms(200);
}

/* All streams move on within some time. Returns how many ms that took. */
static unsigned int host_moves(struct world *w, const char *after)
{
	struct ctl first[RANKS], c;
	uint64_t began = clock_ns();
	bool still = true;

	for (int i = 0; i < RANKS; i++) {
		world_tell(w, i, HOST_MARK, 0, NULL, 0);
		world_expect(w, i, HOST_MARKED, SEEN_MS, &first[i]);
	}
	while (still && !w->failed) {
		still = false;
		sleep_ms(5);
		for (int i = 0; i < RANKS && !w->failed; i++) {
			world_tell(w, i, HOST_MARK, 0, NULL, 0);
			world_expect(w, i, HOST_MARKED, SEEN_MS, &c);
			for (int p = 0; p < RANKS; p++)
				still |= p != i && c.v[p] <= first[i].v[p];
		}
		world_check(w, clock_ns() - began < (uint64_t)(SEEN_MS * 1e6 * options.slack),
			    "traffic does not go on after %s", after);
	}
	return (unsigned int)((clock_ns() - began) / 1000000);
}

/* `ranks` of them live. */
static int host_end(struct world *w, int ranks, unsigned int slowest, int rounds)
{
	uint64_t limit = world_agree(w, ranks, 20), kib = 0, wrong = 0, dead = 0;
	struct ctl c[RANKS_MAX];

	world_expect_all(w, CTL_DONE, 60000, c);
	world_wait(w, 10000);
	for (int i = 0; i < ranks && !w->failed; i++) {
		kib += c[i].v[0];
		wrong += c[i].v[1];
		dead += world_stat(w, i, "peers_dead");
	}
	world_check(w, !wrong, "%llu wrong bytes", (unsigned long long)wrong);
	world_check(w, dead == (ranks == RANKS ? 0 : (uint64_t)ranks), "%llu deaths counted", (unsigned long long)dead);
	world_figure(w, "rounds=%d slowest_ms=%u messages=%llu checked_mib=%llu", rounds, slowest,
		     (unsigned long long)limit, (unsigned long long)kib >> 10);
	return world_end(w);
}

int chaos_link(void)
{
	int old = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), rounds = options.hours ? 50 : 4, failed;
	unsigned int slowest = 0, ms;
	struct world w;

	if (old < 0 || unshare(CLONE_NEWNET)) {
		printf("link: not tried, a network namespace needs root\n");
		close(old);
		return 0;
	}
	host_begin(&w, "link", true);
	for (int i = 0; i < rounds && !w.failed; i++) {
		ms = options.hours && i % 10 == 9 ? 20000 : 100u << (i % 4);
		lo_flags(&w, false);
		sleep_ms(ms);
		lo_flags(&w, true);
		ms = host_moves(&w, "the link was down");
		slowest = ms > slowest ? ms : slowest;
		lo_address(&w, 0);
		sleep_ms(100u << (i % 4));
		lo_address(&w, INADDR_LOOPBACK);
		ms = host_moves(&w, "the address was gone");
		slowest = ms > slowest ? ms : slowest;
	}
	failed = host_end(&w, RANKS, slowest, rounds);
	if (setns(old, CLONE_NEWNET))
		failed++;
	close(old);
	return failed;
}

int chaos_clock(void)
{
	static const int64_t moves_s[] = {3600, -3600, 86400 * 365, -86400 * 365, 1, -1, 0};
	int rounds = options.hours ? 350 : 14;
	unsigned int slowest = 0, ms;
	struct world w;

	host_begin(&w, "clock", false);
	for (int i = 0; i < rounds && !w.failed; i++) {
		uint64_t v[1] = {(uint64_t)(moves_s[i % 7] * 1000000000)};

		world_tell(&w, i % RANKS, HOST_CLOCK, 0, v, 1);
		ms = host_moves(&w, "a clock was set");
		slowest = ms > slowest ? ms : slowest;
	}
	return host_end(&w, RANKS, slowest, rounds);
}

int chaos_fork(void)
{
	int rounds = options.hours ? 100 : 8;
	unsigned int slowest = 0, ms;
	struct world w;

	host_begin(&w, "fork", false);
	for (int i = 0; i < rounds && !w.failed; i++) {
		world_tell(&w, LAST, HOST_FORK, i, NULL, 0);
		world_expect(&w, LAST, HOST_OK, 10000, NULL);
		ms = host_moves(&w, "a fork");
		slowest = ms > slowest ? ms : slowest;
	}
	/* A child sleeps; its parent is killed. */
	world_tell(&w, LAST, HOST_FORK, 1, NULL, 0);
	world_expect(&w, LAST, HOST_OK, 10000, NULL);
	for (int i = 0; i < LAST; i++) {
		world_tell(&w, i, HOST_DEATH, 0, NULL, 0);
		world_expect(&w, i, HOST_OK, 10000, NULL);
	}
	world_kill(&w, LAST);
	for (int i = 0; i < LAST; i++)
		world_tell(&w, i, HOST_DEATH, 1, NULL, 0);
	for (int i = 0; i < LAST; i++)
		world_expect(&w, i, HOST_OK, 2 * SEEN_MS, NULL);
	return host_end(&w, LAST, slowest, rounds);
}

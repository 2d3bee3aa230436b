/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A long way between two network namespaces: a TAP interface in each, and between them, each way, a link of a rate with
 * a queue, a delay and a random loss. It serves where the kernel has no netem. Losses follow from a fixed seed.
 * Needs root. It runs until SIGTERM, and then says what it did, a line each way: "long_way: passed N packets, lost N by
 * chance, N in the queue, N for want of room".
 *
 *   long_way NAMESPACE_A NAMESPACE_B INTERFACE MBIT DELAY_US LOSS_PER_MILLION QUEUE_BYTES
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME 1600
#define FRAMES (1u << 15) /* a power of two: most frames under way in one direction */
#define BATCH 64	  /* frames read in a row, so that neither direction waits for the other */
#define ARP_MAX 64	  /* frames so short are not lost by chance: nobody measures them */
#define NS_PER_S 1000000000ull

struct frame {
	uint64_t due; /* when it leaves at the far end, ns */
	uint32_t len;
	char bytes[FRAME];
};

/* One direction. */
struct way {
	int in, out;
	struct frame *ring;
	uint32_t head, tail; /* taken, put */
	uint64_t free_at;    /* when the link has carried all that it took, ns */
	uint64_t passed, lost, overflowed, no_room;
};

static uint64_t ns_per_kbyte, delay_ns, queue_ns, loss_per_million, rng = 0x9e3779b97f4a7c15ull;
static volatile sig_atomic_t ended;

static void on_end(int sig)
{
	(void)sig;
	ended = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "long_way: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static bool chance(uint64_t per_million)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % 1000000 < per_million;
}

/* TAP interfaces say 10 Mb/s. Here they are NICs of 10 Gb/s, before a link that is slower. */
static void speed_set(const char *name)
{
	struct ethtool_cmd cmd = { .cmd = ETHTOOL_GSET };
	struct ifreq req = { .ifr_data = (void *)&cmd };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &req))
		fail("speed");
	cmd.cmd = ETHTOOL_SSET;
	ethtool_cmd_speed_set(&cmd, 10000);
	cmd.duplex = DUPLEX_FULL;
	if (ioctl(fd, SIOCETHTOOL, &req))
		fail("speed");
	close(fd);
}

static int tap_open(const char *ns, const char *name)
{
	struct ifreq req = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", ns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(path);
	close(fd);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &req))
		fail("/dev/net/tun");
	speed_set(name);
	return fd;
}

/* An interface that is gone would be told as readable for ever. */
static ssize_t way_read(const struct way *w, char *to, size_t len)
{
	ssize_t n = read(w->in, to, len);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		ended = 1;
	return n;
}

static void way_take(struct way *w, uint64_t now)
{
	for (int i = 0; i < BATCH; i++) {
		struct frame *f = &w->ring[w->tail % FRAMES];
		ssize_t n;

		if (w->tail - w->head == FRAMES) {
			char waste[FRAME];

			if (way_read(w, waste, sizeof(waste)) <= 0)
				return;
			w->no_room++;
			continue;
		}
		n = way_read(w, f->bytes, FRAME);
		if (n <= 0)
			return;
		if (w->free_at < now)
			w->free_at = now;
		if (w->free_at - now > queue_ns) {
			w->overflowed++;
			continue;
		}
		w->free_at += (uint64_t)n * ns_per_kbyte / 1000;
		if (n > ARP_MAX && chance(loss_per_million)) {
			w->lost++;
			continue;
		}
		f->len = (uint32_t)n;
		f->due = w->free_at + delay_ns;
		w->tail++;
	}
}

static void way_deliver(struct way *w, uint64_t now)
{
	while (w->head != w->tail && w->ring[w->head % FRAMES].due <= now) {
		struct frame *f = &w->ring[w->head++ % FRAMES];

		if (write(w->out, f->bytes, f->len) == (ssize_t)f->len)
			w->passed++;
		else
			w->no_room++;
	}
}

static void wait_for(const struct way *ways, const sigset_t *open_signals)
{
	struct pollfd fds[2] = { { .fd = ways[0].in, .events = POLLIN }, { .fd = ways[1].in, .events = POLLIN } };
	uint64_t now = now_ns(), until = now + NS_PER_S;
	struct timespec t;

	for (int i = 0; i < 2; i++) {
		const struct way *w = &ways[i];

		if (w->head != w->tail && w->ring[w->head % FRAMES].due < until)
			until = w->ring[w->head % FRAMES].due;
	}
	until = until > now ? until - now : 0;
	t = (struct timespec){ .tv_sec = (time_t)(until / NS_PER_S), .tv_nsec = (long)(until % NS_PER_S) };
	ppoll(fds, 2, &t, open_signals);
}

int main(int argc, char **argv)
{
	struct way ways[2] = { { 0 } };
	struct sigaction act = { .sa_handler = on_end };
	sigset_t blocked, open_signals;
	double mbit;
	int a, b;

	if (argc != 8 || (mbit = strtod(argv[4], NULL)) <= 0) {
		fprintf(stderr, "usage: long_way NAMESPACE_A NAMESPACE_B INTERFACE MBIT DELAY_US LOSS_PER_MILLION "
				"QUEUE_BYTES\n");
		return 2;
	}
	ns_per_kbyte = (uint64_t)(8e6 / mbit);
	delay_ns = strtoull(argv[5], NULL, 10) * 1000;
	loss_per_million = strtoull(argv[6], NULL, 10);
	queue_ns = strtoull(argv[7], NULL, 10) * ns_per_kbyte / 1000;
	a = tap_open(argv[1], argv[3]);
	b = tap_open(argv[2], argv[3]);
	for (int i = 0; i < 2; i++) {
		ways[i].in = i ? b : a;
		ways[i].out = i ? a : b;
		ways[i].ring = calloc(FRAMES, sizeof(struct frame));
		if (!ways[i].ring)
			fail("memory");
	}
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, &open_signals);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	puts("long_way: ready");
	fflush(stdout);
	while (!ended) {
		wait_for(ways, &open_signals);
		for (int i = 0; i < 2; i++) {
			uint64_t now = now_ns();

			way_take(&ways[i], now);
			way_deliver(&ways[i], now);
		}
	}
	for (int i = 0; i < 2; i++)
		printf("long_way: passed %" PRIu64 " packets, lost %" PRIu64 " by chance, %" PRIu64
		       " in the queue, %" PRIu64 " for want of room\n",
		       ways[i].passed, ways[i].lost, ways[i].overflowed, ways[i].no_room);
	return 0;
}

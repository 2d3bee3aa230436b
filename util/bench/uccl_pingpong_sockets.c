/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The same messages over plain TCP sockets, as bare bytes: what a program without libfabric could have. One connection
 * is driven by the caller, who never sleeps, as providers do. Of several, each has a thread that sends and one that
 * receives; they sleep in the kernel. Long messages are cut in equal pieces, one for each connection; short ones take
 * the connections by turns. Both sides cut alike, so nothing but the bytes travels.
 */
#include "uccl_pingpong.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LANES_MAX 16
#define PIECE_MIN (64u << 10)
#define QUEUE 256 /* a power of two, more than messages may be under way */

struct piece {
	char *buf;
	size_t len;
	struct slot *slot;
};

/* One direction of a connection. */
struct lane {
	int fd;
	bool out;
	struct piece queue[QUEUE];
	unsigned int head, tail; /* taken, put */
	pthread_mutex_t lock;	 /* with threads: of the queue */
	pthread_cond_t filled;
	pthread_t thread;
	bool end;
};

static struct {
	int n;
	struct lane tx[LANES_MAX], rx[LANES_MAX];
	unsigned int tx_turn, rx_turn;
	pthread_mutex_t lock; /* with threads: of who waits for a slot */
	pthread_cond_t done;
} net = { .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };

/* Moves what goes without waiting, or, if `wait`, something. True: the piece is done. */
static bool piece_move(struct lane *l, struct piece *p, bool wait)
{
	int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
	ssize_t n = l->out ? send(l->fd, p->buf, p->len, flags) : recv(l->fd, p->buf, p->len, flags);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return false;
	if (n <= 0)
		die("the other side is gone: %s", n ? strerror(errno) : "closed");
	p->buf += n;
	p->len -= (size_t)n;
	return !p->len;
}

/* ---- one connection, driven by the caller */

static void lane_move(struct lane *l)
{
	while (l->head != l->tail) {
		struct piece *p = &l->queue[l->head % QUEUE];

		if (!piece_move(l, p, false))
			return;
		slot_set(p->slot, true);
		l->head++;
	}
}

/* ---- several, with threads */

static void *lane_main(void *arg)
{
	struct lane *l = arg;

	for (;;) {
		struct piece *p;

		pthread_mutex_lock(&l->lock);
		while (l->head == l->tail && !l->end)
			pthread_cond_wait(&l->filled, &l->lock);
		if (l->head == l->tail) {
			pthread_mutex_unlock(&l->lock);
			return NULL;
		}
		p = &l->queue[l->head % QUEUE];
		pthread_mutex_unlock(&l->lock);
		while (!piece_move(l, p, true))
			;
		if (atomic_fetch_sub(&p->slot->left, 1) == 1) {
			pthread_mutex_lock(&net.lock);
			slot_set(p->slot, true);
			pthread_cond_broadcast(&net.done);
			pthread_mutex_unlock(&net.lock);
		}
		pthread_mutex_lock(&l->lock);
		l->head++;
		pthread_mutex_unlock(&l->lock);
	}
}

static void lane_put(struct lane *l, struct slot *s, char *buf, size_t len)
{
	pthread_mutex_lock(&l->lock);
	if (l->tail - l->head == QUEUE)
		die("more messages under way than expected");
	l->queue[l->tail++ % QUEUE] = (struct piece){ .buf = buf, .len = len, .slot = s };
	pthread_cond_signal(&l->filled);
	pthread_mutex_unlock(&l->lock);
}

/* ---- the transport */

static void sockets_post(struct lane *lane, unsigned int *turn, struct slot *s, char *buf, size_t len)
{
	size_t n = len / PIECE_MIN < 1 ? 1 : len / PIECE_MIN < (size_t)net.n ? len / PIECE_MIN : (size_t)net.n;

	slot_set(s, false);
	atomic_store(&s->left, (int)n);
	for (size_t i = 0, at = 0; i < n; i++) {
		size_t end = len * (i + 1) / n;

		lane_put(&lane[(*turn)++ % (unsigned int)net.n], s, buf + at, end - at);
		at = end;
	}
	if (net.n == 1)
		lane_move(lane);
}

static void sockets_send(struct bench *b, struct slot *s, const void *buf, size_t len, uint64_t tag)
{
	(void)b;
	(void)tag;
	sockets_post(net.tx, &net.tx_turn, s, (char *)buf, len);
}

static void sockets_recv(struct bench *b, struct slot *s, void *buf, size_t len, uint64_t tag)
{
	(void)b;
	(void)tag;
	sockets_post(net.rx, &net.rx_turn, s, buf, len);
}

static void sockets_progress(struct bench *b)
{
	(void)b;
	if (net.n > 1)
		return;
	lane_move(&net.tx[0]);
	lane_move(&net.rx[0]);
}

static void sockets_wait(struct bench *b, struct slot *s)
{
	if (net.n == 1) {
		while (!slot_done(s))
			sockets_progress(b);
		return;
	}
	pthread_mutex_lock(&net.lock);
	while (!slot_done(s))
		pthread_cond_wait(&net.done, &net.lock);
	pthread_mutex_unlock(&net.lock);
}

/* A port that only this connection knows, at the address that the two talk over already. */
static int sockets_listen(struct bench *b, struct sockaddr_storage *at, socklen_t *len)
{
	int fd;

	*len = sizeof(*at);
	if (getsockname(b->oob.fd, (struct sockaddr *)at, len))
		die("no local address: %s", strerror(errno));
	((struct sockaddr_in *)at)->sin_port = 0; /* sin6_port lies at the same place */
	fd = socket(at->ss_family, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)at, *len) || listen(fd, LANES_MAX) ||
	    getsockname(fd, (struct sockaddr *)at, len))
		die("cannot listen: %s", strerror(errno));
	return fd;
}

static int sockets_dial(struct bench *b, in_port_t port)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	int fd;

	if (getpeername(b->oob.fd, (struct sockaddr *)&at, &len))
		die("no address of the other side: %s", strerror(errno));
	((struct sockaddr_in *)&at)->sin_port = port;
	fd = socket(at.ss_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, len))
		die("cannot connect: %s", strerror(errno));
	return fd;
}

static void lane_open(struct lane *l, int fd, bool out)
{
	l->fd = fd;
	l->out = out;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->filled, NULL);
	if (net.n > 1 && pthread_create(&l->thread, NULL, lane_main, l))
		die("cannot start a thread");
}

void sockets_check(const struct bench *b)
{
	for (int i = 0; i < b->nsizes; i++)
		if (!b->size[i])
			die("no bytes are no message over sockets: choose other sizes");
}

static void sockets_open(struct bench *b)
{
	struct sockaddr_storage at;
	int i, one = 1, listener = -1;
	in_port_t port = 0;
	socklen_t len;

	if (b->client) {
		oob_recv(&b->oob, &port, sizeof(port));
	} else {
		listener = sockets_listen(b, &at, &len);
		port = ((struct sockaddr_in *)&at)->sin_port;
		oob_send(&b->oob, &port, sizeof(port));
	}
	for (i = 0; i < net.n; i++) {
		int fd = b->client ? sockets_dial(b, port) : accept(listener, NULL, NULL);

		if (fd < 0)
			die("accept: %s", strerror(errno));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		lane_open(&net.tx[i], fd, true);
		lane_open(&net.rx[i], fd, false);
		oob_barrier(&b->oob); /* the next one is the next one on both sides */
	}
	if (!b->client)
		close(listener);
	b->open = true;
}

static void lane_end(struct lane *l)
{
	pthread_mutex_lock(&l->lock);
	l->end = true;
	pthread_cond_signal(&l->filled);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
}

static void sockets_close(struct bench *b)
{
	(void)b;
	for (int i = 0; i < net.n; i++) {
		if (net.n > 1) {
			lane_end(&net.tx[i]);
			lane_end(&net.rx[i]);
		}
		close(net.tx[i].fd);
	}
}

bool sockets_named(const char *name)
{
	char *end;
	unsigned long n;

	net.n = 1;
	if (!strcmp(name, "sockets"))
		return true;
	if (strncmp(name, "sockets:", 8))
		return false;
	n = strtoul(name + 8, &end, 10);
	if (name[8] < '0' || name[8] > '9' || *end || n < 1 || n > LANES_MAX)
		die("%s: sockets, or sockets:1 to sockets:%d", name, LANES_MAX);
	net.n = (int)n;
	return true;
}

const struct transport transport_sockets = {
	.open = sockets_open,
	.send = sockets_send,
	.recv = sockets_recv,
	.progress = sockets_progress,
	.wait = sockets_wait,
	.close = sockets_close,
};

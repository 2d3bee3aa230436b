/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What unauthenticated hosts send to the udp back end. Two programs in the kernel keep it from the packets of peers:
 *
 * - A filter refuses packets that are too short, of another magic, version or type (of other versions HELLO and COOKIE
 *   pass), with a token that this endpoint would not choose, or INIT to another incarnation. Such a packet is not
 *   queued and wakes no thread.
 * - HELLO and INIT, which every host may send, go to the handshake sockets: one for HELLO that names this endpoint's
 *   incarnation, one for any other HELLO, one for INIT. However many packets come, they fill the queue of their socket
 *   only, and rx() takes a bounded number a second from each. PROTOCOL R157, R158
 *
 * To read a HELLO costs little, to answer it much. A peer that gets no answer sends the same HELLO again; an attacker
 * that makes up HELLOs from many places sends a new one each time. So a HELLO that came before goes first. Of new ones
 * only few a second are answered; without an attack these are all. A socket knows the HELLOs that it read by 16 bits
 * each, in a table of fixed size, where later ones take the places of earlier ones.
 *
 * Both programs are classic BPF, which needs no privileges. Without them (an old kernel, a sandbox) all packets come by
 * one socket. Then HELLO and INIT are bounded where they are handed up, by the same budgets: they may fill the queue,
 * but not the time. The engine checks all packets again, so the filter only saves work.
 */
#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <linux/sock_diag.h>
#include <rdma/fi_errno.h>

#include "base/le.h"
#include "base/log.h"
#include "nic/ownfd.h"
#include "nic/udp/udp_state.h"

#define HANDSHAKE_QUEUE (256 << 10) /* bytes requested: some hundred packets */
#define HANDSHAKE_BURST 300	       /* of each of these, after a quiet time: */
#define HANDSHAKE_READS 40000       /* packets read from a socket in a second, */
#define HANDSHAKE_ANSWERS 20000     /* HELLOs handed up of them, */
#define HANDSHAKE_FIRSTS 2000       /* and those of them that were not seen before, */
#define HANDSHAKE_FIRST_BURST 200   /* which leave room for those that were */
/*
 * A call of rx() that found no packets counts so many towards UDP_HANDSHAKE_EVERY. Between two polls there is a pause,
 * which is longer if packets wait to be handled.
 */
#define HANDSHAKE_IDLE 3
#define HANDSHAKE_IDLE_NS (20 * UCCL_NS_PER_US)
#define HANDSHAKE_BUSY_NS (200 * UCCL_NS_PER_US)
#define HANDSHAKE_LATE_NS (200 * UCCL_NS_PER_US) /* an idle call after this polls all of them */
/* Handshake packets wake a sleeper so often a second, and so often after a quiet time; then they wait so long. */
#define WAKE_RATE 1000
#define WAKE_BURST 64
#define WAKE_REST_NS (10 * UCCL_NS_PER_MS)

/* Offsets in a packet. FOR: the incarnation to which INIT goes. NONCE, EXPECTED: of HELLO, its nonce and that. */
enum { AT_MAGIC, AT_VERSION = 2, AT_TYPE, AT_TOKEN = 8, AT_NONCE = 32, AT_FOR = 32 + 8, AT_EXPECTED = 32 + 16 };

#define UDP_HEADER 8 /* where a filter's packet begins; to the program that chooses a socket it is cut off */
#define OF_PACKET(at) (UDP_HEADER + (at))

#define LOAD(size, at) BPF_STMT(BPF_LD | BPF_ABS | (size), (at))
/* To the instruction with this number if it holds, or else to that one; `pc` is its own. */
#define JUMP(op, k, pc, yes, no) BPF_JUMP(BPF_JMP | BPF_K | (op), (k), (uint8_t)((yes) - (pc) - 1), \
					  (uint8_t)((no) - (pc) - 1))

/* Fields are little endian, and BPF loads big endian. */
static uint32_t as_loaded(const uint8_t *field)
{
	return (uint32_t)field[0] << 24 | (uint32_t)field[1] << 16 | (uint32_t)field[2] << 8 | field[3];
}

static bool filter_attach(int fd, const struct uccl_nic_guard *g)
{
	enum { INIT = 16, TAKE = 20, REFUSE = 21, OTHER = 22, OTHER_TAKE = 30, OTHER_REFUSE = 31, END = 32 };
	uint8_t magic[4] = {0}, token[4] = {0}, incarnation[8];
	struct sock_fprog prog;

	uccl_put16(magic + 2, g->magic);
	uccl_put16(token + 2, g->token_top);
	uccl_put64(incarnation, g->incarnation);
	struct sock_filter code[END] = {
		/* 0 */ BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		JUMP(BPF_JGE, OF_PACKET(UCCL_HDR_LEN), 1, 2, REFUSE),
		/* 2 */ LOAD(BPF_H, OF_PACKET(AT_MAGIC)),
		JUMP(BPF_JEQ, as_loaded(magic), 3, 4, REFUSE),
		/* 4 */ LOAD(BPF_B, OF_PACKET(AT_VERSION)),
		JUMP(BPF_JEQ, g->version, 5, 6, OTHER),
		/* 6 */ LOAD(BPF_B, OF_PACKET(AT_TYPE)),
		JUMP(BPF_JEQ, g->hello, 7, TAKE, 8),
		JUMP(BPF_JEQ, g->init, 8, INIT, 9),
		JUMP(BPF_JGT, 31, 9, REFUSE, 10),
		/* 10 */ BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_IMM, 1),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0),
		JUMP(BPF_JSET, g->types, 13, 14, REFUSE),
		/* 14: the highest bytes of the token */ LOAD(BPF_H, OF_PACKET(AT_TOKEN + 6)),
		JUMP(BPF_JEQ, as_loaded(token), 15, TAKE, REFUSE),
		/* INIT: in its record, for whom it is */ LOAD(BPF_W, OF_PACKET(AT_FOR)),
		JUMP(BPF_JEQ, as_loaded(incarnation), 17, 18, REFUSE),
		/* 18 */ LOAD(BPF_W, OF_PACKET(AT_FOR + 4)),
		JUMP(BPF_JEQ, as_loaded(incarnation + 4), 19, TAKE, REFUSE),
		/* TAKE */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		/* REFUSE */ BPF_STMT(BPF_RET | BPF_K, 0),
		/* OTHER versions: HELLO and COOKIE are read, and INIT of the first one. Jumps go forwards only. */
		LOAD(BPF_B, OF_PACKET(AT_TYPE)),
		/* 23 */ JUMP(BPF_JEQ, g->hello, 23, OTHER_TAKE, 24),
		JUMP(BPF_JEQ, g->init, 24, 25, 27),
		/* 25 */ LOAD(BPF_B, OF_PACKET(AT_VERSION)),
		JUMP(BPF_JEQ, g->former, 26, OTHER_TAKE, OTHER_REFUSE),
		JUMP(BPF_JEQ, g->cookie, 27, 28, OTHER_REFUSE),
		/* 28 */ LOAD(BPF_H, OF_PACKET(AT_TOKEN + 6)),
		JUMP(BPF_JEQ, as_loaded(token), 29, OTHER_TAKE, OTHER_REFUSE),
		/* OTHER_TAKE */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		/* OTHER_REFUSE */ BPF_STMT(BPF_RET | BPF_K, 0),
	};

	prog = (struct sock_fprog){.len = END, .filter = code};
	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* Sockets are numbered in the order of their bind(). HELLO and INIT go to theirs, all else to the first socket. */
static bool steering_attach(int fd, const struct uccl_nic_guard *g)
{
	uint8_t incarnation[8];

	uccl_put64(incarnation, g->incarnation);
	struct sock_filter code[] = {
		/* 0 */ LOAD(BPF_B, AT_TYPE),
		JUMP(BPF_JEQ, g->hello, 1, 3, 2),
		JUMP(BPF_JEQ, g->init, 2, 9, 10),
		/* 3: in its record, whom it expects */ LOAD(BPF_W, AT_EXPECTED),
		JUMP(BPF_JEQ, as_loaded(incarnation), 4, 5, 8),
		/* 5 */ LOAD(BPF_W, AT_EXPECTED + 4),
		JUMP(BPF_JEQ, as_loaded(incarnation + 4), 6, 7, 8),
		/* 7 */ BPF_STMT(BPF_RET | BPF_K, 1 + UDP_HANDSHAKE_KNOWN),
		/* 8 */ BPF_STMT(BPF_RET | BPF_K, 1 + UDP_HANDSHAKE_UNAUTHENTICATED),
		/* 9 */ BPF_STMT(BPF_RET | BPF_K, 1 + UDP_HANDSHAKE_INIT),
		/* 10 */ BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog));
}

static void messages_init(struct udp_handshake_socket *d)
{
	for (int i = 0; i < UDP_HANDSHAKE_ROOM; i++) {
		struct msghdr *h = &d->msg[i].msg_hdr;

		d->iov[i] = (struct iovec){.iov_base = d->buf[i], .iov_len = sizeof(d->buf[i])};
		h->msg_iov = &d->iov[i];
		h->msg_iovlen = 1;
		h->msg_name = &d->name[i];
		h->msg_namelen = sizeof(d->name[i]);
	}
}

void uccl_udp_handshake_init(struct udp *u)
{
	u->handshake.timer = -1;
	u->handshake.idle = true;
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS; i++)
		u->handshake.socket[i].fd = -1;
}

/* Those that could not all be opened are closed, too, and the endpoint goes on without. */
static void handshake_sockets_close(struct udp *u)
{
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS; i++) {
		if (u->handshake.socket[i].fd >= 0)
			uccl_own_close(u->handshake.socket[i].fd);
		u->handshake.socket[i].fd = -1;
	}
}

void uccl_udp_handshake_close(struct udp *u)
{
	handshake_sockets_close(u);
	if (u->handshake.timer >= 0)
		close(u->handshake.timer);
}

static int handshake_sockets_open(struct udp *u, const struct uccl_nic_guard *g)
{
	struct uccl_nic_addr at = u->local;
	int one = 1;

	at.port = u->self.port;
	/*
	 * The first socket was bound alone, so that a port in use is an error. Only now may other sockets share it.
	 * They must be of this user, and no endpoint asks to share a port before it has bound its own.
	 */
	if (setsockopt(u->rx_fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
		return -errno;
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS; i++) {
		u->handshake.socket[i].fd = uccl_udp_bind(u, &at, NULL, true);
		if (u->handshake.socket[i].fd < 0)
			return u->handshake.socket[i].fd;
		uccl_udp_queue_set(u->handshake.socket[i].fd, SO_RCVBUFFORCE, SO_RCVBUF, HANDSHAKE_QUEUE);
		messages_init(&u->handshake.socket[i]);
	}
	return steering_attach(u->rx_fd, g) ? 0 : -errno;
}

void uccl_udp_guard(struct uccl_nic *nic, const struct uccl_nic_guard *g)
{
	struct udp *u = udp_of(nic);
	int err, none = 0;

	/* A host that knew it could choose whose HELLO its own replaces. Without random numbers it is guessable. */
	if (getrandom(&u->handshake.key, sizeof(u->handshake.key), 0) != sizeof(u->handshake.key))
		u->handshake.key = g->incarnation;
	err = handshake_sockets_open(u, g);
	if (err) {
		UCCL_LOG(UCCL_LOG_INFO, "no sockets of their own for HELLO and INIT: %s", strerror(-err));
		handshake_sockets_close(u);
		u->handshake.guard = *g;
		(void)setsockopt(u->rx_fd, SOL_SOCKET, SO_REUSEPORT, &none, sizeof(none));
	}
	if (!filter_attach(u->rx_fd, g))
		UCCL_LOG(UCCL_LOG_INFO, "no filter for unauthenticated packets: %s", strerror(errno));
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS && u->handshake.socket[i].fd >= 0; i++)
		(void)filter_attach(u->handshake.socket[i].fd, g);
}

/* The tokens that are left, of `rate` a second and `burst` at once. The bucket begins full. */
static uint32_t budget_left(struct udp_budget *b, uint32_t rate, uint32_t burst, uint64_t now)
{
	uint64_t more = (uint64_t)uccl_min(now - b->filled_ns, UCCL_NS_PER_S) * rate / UCCL_NS_PER_S;

	if (more) {
		b->left = (uint32_t)uccl_min(b->left + more, burst);
		b->filled_ns = now;
	}
	return b->left;
}

static uint64_t mix(uint64_t v)
{
	v = (v ^ v >> 32) * 0x9e3779b97f4a7c15;
	v = (v ^ v >> 29) * 0xbf58476d1ce4e5b9;
	return v ^ v >> 32;
}

/* Did this HELLO come before, from the same address? From now on it did. */
static bool seen_before(struct udp_handshake_socket *d, uint64_t key, const struct uccl_rx *r)
{
	uint64_t h = mix(uccl_get64(r->data + AT_NONCE) ^ key);
	uint16_t *slot, mark;
	bool seen;

	h = mix(h ^ uccl_get64(r->src.ip));
	h = mix(h ^ uccl_get64(r->src.ip + 8));
	slot = &d->seen[h % UDP_HANDSHAKE_SEEN];
	mark = (uint16_t)(h >> 48 | 1);
	seen = *slot == mark;
	*slot = mark;
	return seen;
}

static bool hello_may(struct udp_handshake_socket *d, uint64_t key, const struct uccl_rx *r, uint64_t now)
{
	bool seen = r->len >= UCCL_HDR_LEN && seen_before(d, key, r);

	if (!budget_left(&d->answers, HANDSHAKE_ANSWERS, HANDSHAKE_BURST, now) ||
	    (!seen && !budget_left(&d->firsts, HANDSHAKE_FIRSTS, HANDSHAKE_FIRST_BURST, now)))
		return false;
	d->answers.left--;
	d->firsts.left -= !seen;
	return true;
}

static bool one_may(struct udp *u, const struct uccl_rx *r)
{
	struct udp_handshake *h = &u->handshake;
	struct udp_handshake_socket *d = &h->socket[UDP_HANDSHAKE_INIT];
	uint64_t now;
	bool hello;

	if (r->len < UCCL_HDR_LEN || (r->data[AT_TYPE] != h->guard.hello && r->data[AT_TYPE] != h->guard.init))
		return true;
	hello = r->data[AT_TYPE] == h->guard.hello;
	if (hello)
		d = &h->socket[uccl_get64(r->data + AT_EXPECTED) == h->guard.incarnation
				       ? UDP_HANDSHAKE_KNOWN
				       : UDP_HANDSHAKE_UNAUTHENTICATED];
	h->read++;
	now = uccl_udp_now();
	if (budget_left(&d->reads, HANDSHAKE_READS, HANDSHAKE_BURST, now) &&
	    (!hello || hello_may(d, h->key, r, now))) {
		d->reads.left--;
		return true;
	}
	d->refused++;
	return false;
}

bool uccl_udp_guard_may(struct udp *u, const struct uccl_rx *r)
{
	struct uccl_rx one = *r;
	bool may = true;

	if (!r->each)
		return one_may(u, r);
	for (uint32_t left = r->len; left; left -= one.len, one.data += one.len) {
		one.len = (uint32_t)uccl_min(r->each, left);
		may = one_may(u, &one) && may;
	}
	return may;
}

/* One batch, into the room from `first` on and as v[*at..n). Returns whether there may be more. */
static bool handshake_batch(struct udp *u, struct udp_handshake_socket *d, int first, struct uccl_rx *v, int *at, int n,
			    uint64_t now)
{
	uint32_t most = uccl_min(budget_left(&d->reads, HANDSHAKE_READS, HANDSHAKE_BURST, now), UDP_HANDSHAKE_BATCH);
	int got;

	most = uccl_min(most, (uint32_t)(n - *at));
	got = most ? recvmmsg(d->fd, &d->msg[first], most, MSG_DONTWAIT, NULL) : 0;
	for (int i = first; i < first + got; i++) {
		struct msghdr *h = &d->msg[i].msg_hdr;
		struct uccl_rx *r = &v[*at];

		memset(r, 0, sizeof(*r));
		r->kind = UCCL_RX_PACKET;
		r->data = d->buf[i];
		r->len = d->msg[i].msg_len;
		uccl_ifaddr_from_sock(&r->src, h->msg_name, h->msg_namelen);
		h->msg_namelen = sizeof(d->name[i]);
		if (d == &u->handshake.socket[UDP_HANDSHAKE_INIT] || hello_may(d, u->handshake.key, r, now))
			++*at;
		else
			d->refused++;
	}
	if (got > 0) {
		d->reads.left -= (uint32_t)got;
		u->handshake.read += (uint32_t)got;
	}
	return got > 0 && (uint32_t)got == most;
}

static int handshake_take(struct udp *u, struct udp_handshake_socket *d, struct uccl_rx *v, int at, int n)
{
	uint64_t now = uccl_udp_now();

	/* What is refused makes room for more. */
	for (int first = 0; first < UDP_HANDSHAKE_ROOM && at < n; first += UDP_HANDSHAKE_BATCH)
		if (!handshake_batch(u, d, first, v, &at, n, now))
			break;
	return at;
}

/* All of them. Mostly none has anything: one call asks for all, as a read of each costs more. */
static int handshake_take_all(struct udp *u, struct uccl_rx *v, int at, int n)
{
	struct pollfd p[UDP_HANDSHAKE_SOCKETS];

	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS; i++)
		p[i] = (struct pollfd){.fd = u->handshake.socket[i].fd, .events = POLLIN};
	if (poll(p, UDP_HANDSHAKE_SOCKETS, 0) <= 0)
		return at;
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS && at < n; i++)
		if (p[i].revents)
			at = handshake_take(u, &u->handshake.socket[i], v, at, n);
	return at;
}

/* The handshake sockets enter the set of wait_fd, or leave it. */
static int handshake_sockets_wake(struct udp *u, int op)
{
	struct epoll_event ev = {.events = EPOLLIN};

	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS && u->handshake.socket[i].fd >= 0; i++)
		if (epoll_ctl(u->wait_fd, op, u->handshake.socket[i].fd, &ev))
			return -errno;
	return 0;
}

int uccl_udp_handshake_wait(struct udp *u)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int err;

	if (u->handshake.socket[0].fd < 0)
		return 0;
	u->handshake.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (u->handshake.timer < 0)
		return -errno;
	err = epoll_ctl(u->wait_fd, EPOLL_CTL_ADD, u->handshake.timer, &ev) ? -errno
									    : handshake_sockets_wake(u, EPOLL_CTL_ADD);
	if (err) {
		close(u->handshake.timer);
		u->handshake.timer = -1;
	}
	return err;
}

/* By the fine clock: a timer that it does not see yet would keep the sleeper awake. */
static uint64_t fine_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void timer_set(struct udp *u, uint64_t ns)
{
	struct itimerspec in = {.it_value.tv_nsec = (long)ns};

	(void)timerfd_settime(u->handshake.timer, 0, &in, NULL);
}

static void handshake_sockets_return(struct udp *u)
{
	if (!u->handshake.back_ns || fine_now() < u->handshake.back_ns)
		return;
	u->handshake.back_ns = 0;
	timer_set(u, 0);
	(void)handshake_sockets_wake(u, EPOLL_CTL_ADD);
}

/*
 * A sleeper woke, and found nothing but handshake packets, if any: that costs a token. Packets that may not be read now
 * wake no sleeper. PROTOCOL R162
 */
static void handshake_sockets_woke(struct udp *u, bool read)
{
	uint64_t now = uccl_udp_now();
	bool rest = !budget_left(&u->handshake.wakes, WAKE_RATE, WAKE_BURST, now);

	if (read && !rest)
		u->handshake.wakes.left--;
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS; i++)
		rest |= !budget_left(&u->handshake.socket[i].reads, HANDSHAKE_READS, HANDSHAKE_BURST, now);
	if (!rest || u->handshake.back_ns)
		return;
	u->handshake.back_ns = fine_now() + WAKE_REST_NS;
	timer_set(u, WAKE_REST_NS);
	(void)handshake_sockets_wake(u, EPOLL_CTL_DEL);
}

int uccl_udp_handshake_rx(struct udp *u, struct uccl_rx *v, int at, int n, bool idle, uint64_t read_ns)
{
	bool was_idle = u->handshake.idle, woken;
	uint64_t read = u->handshake.read, now, rest;

	if (u->handshake.socket[0].fd < 0)
		return at;
	u->handshake.idle = idle;
	handshake_sockets_return(u);
	/* A thread that sleeps after packets is woken at once if a handshake packet waits: no need to poll before. */
	woken = idle && was_idle && u->nic.watched && !u->handshake.back_ns;
	u->handshake.calls += idle ? HANDSHAKE_IDLE : 1;
	if (at == n || (!idle && u->handshake.calls < UDP_HANDSHAKE_EVERY))
		return at;
	now = read_ns ? read_ns : fine_now();
	rest = now - u->handshake.polled_ns;
	/* A sleeper is not woken a second time, and a caller that comes rarely gets all packets at once. */
	if (woken || (idle && rest >= HANDSHAKE_LATE_NS)) {
		u->handshake.polled_ns = now;
		at = handshake_take_all(u, v, at, n);
		if (woken)
			handshake_sockets_woke(u, u->handshake.read != read);
		return at;
	}
	if (u->handshake.calls < UDP_HANDSHAKE_EVERY)
		return at;
	if (rest < (idle ? HANDSHAKE_IDLE_NS : HANDSHAKE_BUSY_NS)) {
		/* Not before so many calls again: each would look at the clock. */
		if (!idle)
			u->handshake.calls = 0;
		return at;
	}
	u->handshake.polled_ns = now;
	u->handshake.calls = 0;
	return handshake_take(u, &u->handshake.socket[u->handshake.turn++ % UDP_HANDSHAKE_SOCKETS], v, at, n);
}

static uint64_t refused_at(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	return fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) ? info[SK_MEMINFO_DROPS] : 0;
}

void uccl_udp_count(struct uccl_nic *nic, struct uccl_stats *s)
{
	struct udp *u = udp_of(nic);

	s->dropped[UCCL_DROP_KERNEL] = refused_at(u->rx_fd);
	for (int i = 0; i < UDP_HANDSHAKE_SOCKETS; i++)
		s->dropped[UCCL_DROP_KERNEL] += refused_at(u->handshake.socket[i].fd) + u->handshake.socket[i].refused;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What strangers send to the udp back end. Two programs that run in the kernel keep it from the work for peers:
 *
 * - A filter refuses what is for nobody here: too short, of another magic, version or type, with a token that this
 *   endpoint would not choose, or INIT to another incarnation. Such a packet is not queued and wakes nobody.
 * - HELLO, which everybody may send, goes to other sockets at the same port, the doors: one for those who know this
 *   endpoint's incarnation, as who has its whole address does, and one for the rest. However many come, they fill the
 *   queue of their door only, and rx() takes a bounded number a second from each. PROTOCOL R157, R158
 *
 * Both are classic BPF, which needs no privileges. Without them (an old kernel, a sandbox) everything comes by the one
 * socket, as before: the engine checks the same again, and these only make it cheap.
 */
#include <errno.h>
#include <linux/filter.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>

#include <linux/sock_diag.h>

#include "base/le.h"
#include "base/log.h"
#include "nic/ownfd.h"
#include "nic/udp.h"

#define DOOR_QUEUE (256 << 10) /* bytes wished: some hundred HELLOs */
#define DOOR_RATE 20000	       /* HELLOs taken from each a second */
#define DOOR_BURST 300	       /* after a quiet time */
/* Looks at the door cost a system call: one in so many calls of rx() that found packets, or a quarter of it. */
#define DOOR_EVERY 16
#define DOOR_IDLE 4

/* Offsets in a packet: of INIT, for which incarnation it is; of HELLO, which one it expects. */
enum { AT_MAGIC, AT_VERSION = 2, AT_TYPE, AT_TOKEN = 8, AT_FOR = 32 + 8, AT_EXPECTED = 32 + 16 };

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
	enum { INIT = 16, TAKE = 20, REFUSE = 21, END = 22 };
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
		JUMP(BPF_JEQ, g->version, 5, 6, REFUSE),
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
	};

	prog = (struct sock_fprog){.len = END, .filter = code};
	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* Sockets have numbers in the order in which they were bound: HELLO goes to the doors, everything else to the first. */
static bool steering_attach(int fd, const struct uccl_nic_guard *g)
{
	uint8_t incarnation[8];

	uccl_put64(incarnation, g->incarnation);
	struct sock_filter code[] = {
		/* 0 */ LOAD(BPF_B, AT_TYPE),
		JUMP(BPF_JEQ, g->hello, 1, 2, 8),
		/* 2: in its record, whom it expects */ LOAD(BPF_W, AT_EXPECTED),
		JUMP(BPF_JEQ, as_loaded(incarnation), 3, 4, 7),
		/* 4 */ LOAD(BPF_W, AT_EXPECTED + 4),
		JUMP(BPF_JEQ, as_loaded(incarnation + 4), 5, 6, 7),
		/* 6 */ BPF_STMT(BPF_RET | BPF_K, 1 + UDP_DOOR_KNOWN),
		/* 7 */ BPF_STMT(BPF_RET | BPF_K, 1 + UDP_DOOR_STRANGER),
		/* 8 */ BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog));
}

static void messages_init(struct udp_door *d)
{
	for (int i = 0; i < UDP_DOOR_BATCH; i++) {
		struct msghdr *h = &d->msg[i].msg_hdr;

		d->iov[i] = (struct iovec){.iov_base = d->buf[i], .iov_len = sizeof(d->buf[i])};
		h->msg_iov = &d->iov[i];
		h->msg_iovlen = 1;
		h->msg_name = &d->name[i];
		h->msg_namelen = sizeof(d->name[i]);
	}
}

void uccl_udp_door_close(struct udp *u)
{
	for (int i = 0; i < UDP_DOORS; i++) {
		if (u->door[i].fd >= 0)
			uccl_own_close(u->door[i].fd);
		u->door[i].fd = -1;
	}
}

static int doors_open(struct udp *u, const struct uccl_nic_guard *g)
{
	struct uccl_nic_addr at = u->local;
	int one = 1;

	at.port = u->self.port;
	/*
	 * The first socket was bound alone, so that a port that somebody has is an error; only now may others join it.
	 * They would have to be of this user, and no endpoint asks for that before it has bound its own.
	 */
	if (setsockopt(u->rx_fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
		return -errno;
	for (int i = 0; i < UDP_DOORS; i++) {
		u->door[i].fd = uccl_udp_bind(u, &at, NULL, true);
		if (u->door[i].fd < 0)
			return u->door[i].fd;
		uccl_udp_queue_set(u->door[i].fd, SO_RCVBUFFORCE, SO_RCVBUF, DOOR_QUEUE);
		messages_init(&u->door[i]);
		u->door[i].left = DOOR_BURST;
		u->door[i].filled_ns = uccl_udp_now();
	}
	return steering_attach(u->rx_fd, g) ? 0 : -errno;
}

void uccl_udp_guard(struct uccl_nic *nic, const struct uccl_nic_guard *g)
{
	struct udp *u = udp_of(nic);
	int err = doors_open(u, g), none = 0;

	if (err) {
		UCCL_LOG(UCCL_LOG_INFO, "no sockets of their own for HELLO: %s", strerror(-err));
		uccl_udp_door_close(u);
		(void)setsockopt(u->rx_fd, SOL_SOCKET, SO_REUSEPORT, &none, sizeof(none));
	}
	if (!filter_attach(u->rx_fd, g))
		UCCL_LOG(UCCL_LOG_INFO, "no filter for strangers' packets: %s", strerror(errno));
	for (int i = 0; i < UDP_DOORS && u->door[i].fd >= 0; i++)
		(void)filter_attach(u->door[i].fd, g);
}

/* How many may be taken now. */
static uint32_t door_left(struct udp_door *d)
{
	uint64_t now = uccl_udp_now(), more = (now - d->filled_ns) * DOOR_RATE / UCCL_NS_PER_S;

	if (more) {
		d->left = (uint32_t)uccl_min(d->left + more, DOOR_BURST);
		d->filled_ns = now;
	}
	return (uint32_t)uccl_min(d->left, UDP_DOOR_BATCH);
}

static int door_take(struct udp_door *d, struct uccl_rx *v, int at, int n)
{
	int most = (int)uccl_min(door_left(d), (uint32_t)(n - at)), got;

	got = most ? recvmmsg(d->fd, d->msg, (unsigned int)most, MSG_DONTWAIT, NULL) : 0;
	for (int i = 0; i < got; i++) {
		struct msghdr *h = &d->msg[i].msg_hdr;
		struct uccl_rx *r = &v[at++];

		memset(r, 0, sizeof(*r));
		r->kind = UCCL_RX_PACKET;
		r->credit = 1;
		r->data = d->buf[i];
		r->len = d->msg[i].msg_len;
		uccl_ifaddr_from_sock(&r->src, h->msg_name, h->msg_namelen);
		h->msg_namelen = sizeof(d->name[i]);
	}
	if (got > 0)
		d->left -= (uint32_t)got;
	return at;
}

int uccl_udp_door_rx(struct udp *u, struct uccl_rx *v, int at, int n, bool idle)
{
	if (u->door[0].fd < 0)
		return at;
	/* Who sleeps on the descriptor is not woken a second time. */
	u->door_waits += idle ? (u->wait_fd >= 0 ? DOOR_EVERY : DOOR_IDLE) : 1;
	if (u->door_waits < DOOR_EVERY)
		return at;
	u->door_waits = 0;
	for (int i = 0; i < UDP_DOORS && at < n; i++)
		at = door_take(&u->door[i], v, at, n);
	return at;
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
	for (int i = 0; i < UDP_DOORS; i++)
		s->dropped[UCCL_DROP_KERNEL] += refused_at(u->door[i].fd);
}

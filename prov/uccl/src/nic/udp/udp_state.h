/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the udp back end: udp.c opens and closes, udp_tx.c sends, udp_rx.c receives, udp_handshake_socket.c keeps
 * strangers apart. Of the rest, uccl_doctor alone
 * includes this: it compares what is wished for here with what the host grants.
 */
#ifndef UCCL_NIC_UDP_UDP_STATE_H
#define UCCL_NIC_UDP_UDP_STATE_H

#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/defaults.h"
#include "base/units.h"
#include "nic/ifaddr.h"
#include "nic/nic.h"
#include "nic/udp_live.h"

#define UDP_LABELS UCCL_UDP_LABELS
#define UDP_V4_HEADERS 28
#define UDP_V6_HEADERS 48
#define UDP_RX_DEFAULT (4u << 20) /* bytes wished for the receive queue */
#define UDP_TX_QUEUE (2u << 20)	  /* bytes wished for one label's send queue */
#define UDP_EVENTS 64		  /* UNREACH and GONE waiting for rx() */
#define UDP_RX_BATCH 32		  /* messages a system call */
#define UDP_RX_BYTES UCCL_GRO_BYTES_MAX /* room for one message; no UDP datagram or GRO train is longer */
#define UDP_RX_CONTROL 88	  /* room for a time stamp, a segment size and a traffic class */
#define UDP_TX_BATCH 64		  /* packets a system call, and a GSO train */
#define UDP_TX_FLAT 24576	  /* room for short trains as one piece */
#define UDP_TX_CONTROL 48	  /* room for a segment size and a traffic class */
#define UDP_HANDSHAKE_BATCH 16	  /* HELLOs or INITs a system call, */
#define UDP_HANDSHAKE_ROOM 64	  /* and in one look at a door */
#define UDP_HANDSHAKE_BYTES 256	  /* room for one; what is longer is none */
#define UDP_HANDSHAKE_SEEN 65536	  /* HELLOs that a door remembers: those of a second of flood, and more */

/* A transmit socket; its source port is what the network hashes. */
struct udp_sock {
	int fd;
};

/* One message of a receive batch, and what never changes of its msghdr. */
struct udp_slot {
	struct iovec iov[3];
	uint32_t gro_size;	  /* bytes of each packet of the row that was predicted */
	struct sockaddr_in6 name; /* or sockaddr_in, which is smaller */
	_Alignas(size_t) uint8_t control[UDP_RX_CONTROL];
	uint8_t *buf; /* UDP_RX_BYTES */
};

/* A batch of messages. */
struct udp_bank {
	struct mmsghdr msg[UDP_RX_BATCH];
	struct udp_slot slot[UDP_RX_BATCH];
	int used;   /* messages of the last receive, whose lengths the kernel wrote */
	int hinted; /* the first so many slots scatter to a hint */
};

/* What the network, or the peer's kernel, says of somebody. */
struct udp_event {
	uint8_t kind;
	uint8_t quote_len;
	uint32_t bytes;		    /* TOO_LONG: what fits */
	struct uccl_nic_peer *peer; /* NULL: whoever is at src */
	struct uccl_nic_addr src;
	uint8_t quote[UCCL_HDR_LEN]; /* how our packet began that this is about */
};

struct uccl_nic_peer {
	struct uccl_nic_addr to;
	uint64_t id;			 /* as connect() got it */
	struct uccl_udp_live_peer *live; /* NULL: not watched */
};

struct udp_tx_batch {
	struct mmsghdr msg[UDP_TX_BATCH];
	struct iovec iov[3 * UDP_TX_BATCH];
	struct sockaddr_storage name[UDP_TX_BATCH];
	_Alignas(size_t) uint8_t control[UDP_TX_BATCH][UDP_TX_CONTROL];
	uint8_t flat[UDP_TX_FLAT];
	int first[UDP_TX_BATCH + 1]; /* message m carries packets first[m] .. first[m + 1] */
};

/* Sockets at the same port: for HELLO that expects us, for other HELLO, for INIT. */
enum { UDP_HANDSHAKE_KNOWN, UDP_HANDSHAKE_UNAUTHENTICATED, UDP_HANDSHAKE_INIT, UDP_HANDSHAKE_SOCKETS };

/* So much of something in a time. */
struct udp_budget {
	uint32_t left; /* as of filled_ns */
	uint64_t filled_ns;
};

struct udp_handshake_socket {
	int fd; /* -1: all comes by the other one */
	struct udp_budget reads, answers, firsts;
	uint64_t refused;	      /* read and not handed up */
	uint16_t seen
		[UDP_HANDSHAKE_SEEN]; /* HELLO: a mark of each that came, at a place that follows from what it says */
	struct mmsghdr msg[UDP_HANDSHAKE_ROOM];
	struct iovec iov[UDP_HANDSHAKE_ROOM];
	struct sockaddr_in6 name[UDP_HANDSHAKE_ROOM]; /* or sockaddr_in, which is smaller */
	_Alignas(8) uint8_t buf[UDP_HANDSHAKE_ROOM][UDP_HANDSHAKE_BYTES];
};

struct udp {
	struct uccl_nic nic;
	int family; /* of all sockets */
	int rx_fd;
	int wait_fd;  /* epoll, made by the first wait_fd(); -1 */
	int fd_limit; /* label sockets stay below */
	struct uccl_ports ports;
	bool ports_short; /* that the range has no port left for a label was said */
	bool gso, gro, timestamps;
	bool ecn;		    /* packets that say so may be marked by the network */
	uint8_t classes[2];	    /* TOS bytes of data and of control packets; the two bits of ECN are 0 */
	uint8_t tos;		    /* what sockets send with, unless a packet has another one */
	uint64_t full_since;	    /* ENOBUFS from then on; 0: something was taken since */
	uint32_t refused_len;	    /* such packets are refused so for good; UINT32_MAX: none are known */
	bool gso_doubt;		    /* the kernel refused a train: if it is not too long, gso ends */
	uint32_t place_mtu;	    /* UDP payload that the interface carries */
	uint64_t granted;	    /* bytes of the receive queue */
	struct uccl_nic_addr self;  /* what peers use */
	struct uccl_nic_addr local; /* what label sockets bind to; port 0 */

	/* Labels: index into sock, -1 not opened. Several may share a socket when descriptors are short. */
	int16_t sock_of[UDP_LABELS];
	struct udp_sock sock[UDP_LABELS];
	int nsocks;
	uint64_t tx_errors; /* packets that the system refused for good */
	struct udp_tx_batch *tx;

	/* Receiving. */
	struct udp_bank *bank;
	uint8_t *buffers;
	size_t buffers_len;
	struct udp_handshake_socket handshake[UDP_HANDSHAKE_SOCKETS];
	uint32_t handshake_waits;    /* since the last look at one of the doors */
	uint64_t handshake_looked;   /* when that was, by the fine clock */
	bool handshake_idle;	     /* the last rx() found nothing else */
	uint32_t handshake_turn;     /* which one is next */
	uint64_t handshake_key;	     /* of their memory */
	uint64_t handshake_read;     /* packets from all of them so far */
	struct uccl_nic_guard guard; /* without doors: what HELLO and INIT are, to bound them all the same; else zero */
	/* Who sleeps on wait_fd is woken for the doors within a budget; then they leave the set for a time. */
	struct udp_budget wakes;
	int handshake_timer;		    /* in the set of wait_fd; -1 */
	uint64_t handshake_sockets_back_ns; /* 0: they are in the set */

	/* Seldom work: error queues and liveness. */
	uint32_t calls;	       /* of rx() */
	bool tx_seen;	       /* something was sent since the last look at the clock */
	bool unanswered;       /* something was sent, and nothing has come since */
	uint64_t asked_at;     /* since when, */
	uint64_t errors_every; /* and from one look to the next, since then */
	bool errors_due;       /* as of the last look at the clock */
	uint64_t errors_at;    /* next look at the error queues */
	uint64_t errors_until; /* replies to what was sent may come until then */
	struct uccl_udp_live *live;
	uint64_t live_at;      /* the last look at it */
	uint64_t seldom_at;    /* the last look at the clock */
	struct udp_event event[UDP_EVENTS];
	int nevents;
	uint8_t quotes[UDP_EVENTS][UCCL_HDR_LEN]; /* of the events that the last rx() handed up */
};

static inline struct udp *udp_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct udp, nic);
}

/* Bytes before the payload of a UDP packet to there. */
static inline uint32_t uccl_udp_headers(const struct uccl_nic_addr *to)
{
	return uccl_ifaddr_is_v4(to) ? UDP_V4_HEADERS : UDP_V6_HEADERS;
}

/* The transmit socket of a label, opened if need be; there always is one. udp_sock.c */
struct udp_sock *uccl_udp_sock(struct udp *u, uint16_t label);
/*
 * A UDP socket of the back end's family, bound to `at`; without a port there, to the next one of the walk. NULL: to
 * any, which is for sockets that send nothing. `beside`: with another one of ours, of which it is known. The descriptor
 * or a negative error. udp_sock.c
 */
int uccl_udp_bind(const struct udp *u, const struct uccl_nic_addr *at, struct uccl_ports_walk *walk, bool beside);
/* Wish for a queue of so many bytes, by the option that needs a privilege or by the other. udp_sock.c */
void uccl_udp_queue_set(int fd, int force, int plain, uint32_t bytes);
/* The TOS byte of what the socket sends. False: the kernel does not let us. udp_sock.c */
bool uccl_udp_tos_set(const struct udp *u, int fd, uint8_t tos);
/* The TOS byte of a packet: its class (RFC 2474), and whether the network may mark it (RFC 3168, ECT(0)). */
static inline uint8_t uccl_udp_tos(const struct udp *u, const struct uccl_tx *t)
{
	return (uint8_t)(u->classes[t->control] | (u->ecn && t->ect ? IPTOS_ECN_ECT0 : 0));
}
/* CLOCK_MONOTONIC_COARSE in ns: cheap, and good to some milliseconds. udp_sock.c */
uint64_t uccl_udp_now(void);
/* False: the kernel has no such option, or does not let us. udp_sock.c */
bool uccl_udp_option_set(int fd, int level, int name, int value);
/* The first label, so that there always is one to fall back on. udp_sock.c */
int uccl_udp_labels_open(struct udp *u);
/* What to say when the range has no free port: it is the user's to enlarge it. udp_sock.c */
void uccl_udp_ports_short_say(const struct udp *u, const char *what);

/* Queue an event for rx(); one that is already waiting is not doubled. False: no room. udp_rx.c */
bool uccl_udp_event(struct udp *u, const struct udp_event *event);
/* Read the error queue of one socket. udp_rx.c */
void uccl_udp_errors(struct udp *u, struct udp_sock *s);

void uccl_udp_handshake_close(struct udp *u);
/* The doors are to wake who sleeps on wait_fd, too. 0 or a negative error. udp_handshake_socket.c */
int uccl_udp_handshake_wait(struct udp *u);
/*
 * Take HELLO and INIT, as v[at..n), if it is time to. Returns the new `at`. `idle`: nothing else came.
 * udp_handshake_socket.c
 */
int uccl_udp_handshake_rx(struct udp *u, struct uccl_rx *v, int at, int n, bool idle);
/*
 * Packets that came by the one socket, while there are no doors: do the doors' budgets allow it? Of several that came
 * together, all or none: who is a peer of ours sends no HELLO and no INIT with others. udp_handshake_socket.c
 */
bool uccl_udp_guard_may(struct udp *u, const struct uccl_rx *r);

void uccl_udp_guard(struct uccl_nic *nic, const struct uccl_nic_guard *g);
void uccl_udp_count(struct uccl_nic *nic, struct uccl_stats *s);
int uccl_udp_tx(struct uccl_nic *nic, struct uccl_tx *v, int n);
int uccl_udp_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints);

#endif

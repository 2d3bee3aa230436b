/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Internals of the udp back end: udp.c opens and closes, udp_tx.c sends, udp_rx.c receives, udp_sock.c has the sockets,
 * udp_connected.c has those for peers of this host, udp_reports.c polls what the network and peers' kernels report,
 * udp_handshake.c receives HELLO and INIT, which unauthenticated hosts may send. Each of the structs below has one
 * owner, the file that alone writes its fields.
 * Outside of the back end, xdp.c, which stands on it, includes this file, and uccl_doctor, to compare the sizes
 * requested here with those that the host grants.
 *
 * A handshake socket is a socket at the endpoint's port that receives only HELLO or only INIT, so that a flood of them
 * cannot fill the queue of the other packets (PROTOCOL R157, R158).
 */
#ifndef UCCL_NIC_UDP_UDP_STATE_H
#define UCCL_NIC_UDP_UDP_STATE_H

#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/defaults.h"
#include "base/units.h"
#include "nic/ifaddr.h"
#include "nic/nic.h"
#include "nic/udp_live.h"

#define UDP_LABELS UCCL_UDP_LABELS
#define UDP_V4_HEADERS 28	  /* bytes of the IP and UDP headers */
#define UDP_V6_HEADERS 48
#define UDP_RX_DEFAULT (4u << 20) /* bytes requested for the receive queue */
#define UDP_TX_QUEUE (2u << 20)	  /* bytes requested for the send queue of a label's socket */
#define UDP_EVENTS 64		  /* most events that wait for rx() */
#define UDP_RX_BATCH 32		  /* messages of one system call */
#define UDP_RX_BYTES UCCL_GRO_BYTES_MAX /* room for one message; no UDP datagram or GRO train is longer */
#define UDP_RX_CONTROL 88	  /* room for a time stamp, a segment size and a traffic class */
#define UDP_TX_BATCH 64		  /* most packets of one system call, and of a train */
#define UDP_TX_FLAT 24576	  /* bytes for trains that are copied into one buffer */
#define UDP_TX_CONTROL 48	  /* room for a segment size and a traffic class */
#define UDP_TX_NAMES 64		  /* addresses of latest packets; a power of two */
#define UDP_CONNECTED 64	  /* most sockets connected to peers of this host; a power of two */
#define UDP_CLOCK_EVERY 64	  /* one of so many calls of rx() reads the clock */
#define UDP_REPORTS_EVERY_NS (10 * UCCL_NS_PER_MS) /* reports are polled as often while packets come */
#define UDP_HANDSHAKE_BATCH 16	  /* packets of one system call on a handshake socket */
#define UDP_HANDSHAKE_ROOM 64	  /* most packets read from a handshake socket by one rx() */
#define UDP_HANDSHAKE_BYTES 256	  /* room for one packet; a longer one is no HELLO or INIT */
#define UDP_HANDSHAKE_SEEN 65536  /* HELLOs that a handshake socket remembers: those of a flood of one second */

/* A transmit socket; its source port is what the network hashes. */
struct udp_sock {
	int fd;
};

/* One message of a receive batch: its buffers and addresses, to which its msghdr points. */
struct udp_slot {
	struct iovec iov[3];
	uint32_t gro_size;	  /* bytes of each packet of the predicted GRO batch */
	struct sockaddr_in6 name; /* or sockaddr_in, which is smaller */
	_Alignas(size_t) uint8_t control[UDP_RX_CONTROL];
	uint8_t *buf; /* UDP_RX_BYTES */
};

/* A receive batch. */
struct udp_bank {
	struct mmsghdr msg[UDP_RX_BATCH];
	struct udp_slot slot[UDP_RX_BATCH];
	int used;   /* messages of the last receive; the kernel overwrote lengths in their msghdr */
	int hinted; /* slots 0 to hinted - 1 scatter to a predicted place */
};

/* A report of the network or of a peer's kernel: UNREACH, TOO_LONG, GONE. */
struct udp_event {
	uint8_t kind;		    /* enum uccl_rx_kind */
	uint8_t quote_len;	    /* bytes of `quote` */
	uint32_t bytes;		    /* TOO_LONG: most bytes that the network carries */
	struct uccl_nic_peer *peer; /* NULL: any peer at src */
	struct uccl_nic_addr src;
	uint8_t quote[UCCL_HDR_LEN]; /* the first bytes of our packet that caused the report */
};

struct uccl_nic_peer {
	struct uccl_nic_addr to;
	uint64_t id;			 /* argument of uccl_nic_ops.connect() */
	struct uccl_udp_live_peer *live; /* NULL: not watched */
};

/* A packet of those to send: packet `of` of the row v[at]. */
struct udp_tx_place {
	int at;
	uint32_t of;
};

/* Scratch space for sending a batch. */
struct udp_tx_batch {
	struct mmsghdr msg[UDP_TX_BATCH];
	struct iovec iov[3 * UDP_TX_BATCH];
	struct sockaddr_storage name[UDP_TX_BATCH];
	_Alignas(size_t) uint8_t control[UDP_TX_BATCH][UDP_TX_CONTROL];
	uint8_t hdr[UDP_TX_BATCH][UCCL_HDR_LEN];     /* of packets of rows */
	uint8_t flat[UDP_TX_FLAT];		     /* short trains, copied */
	struct udp_tx_place first[UDP_TX_BATCH + 1]; /* message m has the packets from here to before first[m + 1] */
	uint32_t packets[UDP_TX_BATCH];		     /* of a message */
};

/* An address that a packet was sent to, as the kernel knows it. */
struct udp_tx_name {
	struct uccl_nic_addr to;
	struct sockaddr_in6 name; /* or sockaddr_in, which is smaller */
	socklen_t len;		  /* 0: our sockets cannot name it */
	bool v4;
};

/* A packet that leaves alone. What is as it was for the packet before it stays filled in. */
struct udp_tx_lone {
	struct msghdr msg;
	struct iovec iov[3];
	_Alignas(size_t) uint8_t control[UDP_TX_CONTROL];
	uint16_t control_of; /* the TOS byte in `control`, and 0x100 for IPv4; UINT16_MAX: it was not filled in */
	struct udp_tx_name names[UDP_TX_NAMES]; /* by a hash of the address: the latest of each */
};

/* Sending. Owner: udp_tx.c */
struct udp_tx {
	struct udp_tx_batch *batch;
	struct udp_tx_lone *lone;
	bool gso;	      /* trains are sent */
	bool gso_doubt;	      /* a train was refused and its packets are sent singly; if that works, gso ends */
	uint64_t full_since;  /* since then, ns, each send failed with ENOBUFS; 0: the last one succeeded */
	uint32_t refused_len; /* packets from this length on always fail with ENOBUFS; UINT32_MAX: not seen */
	uint64_t errors;      /* packets that the kernel refused and that were dropped */
};

/* Receiving. Owner: udp_rx.c */
struct udp_rx {
	struct udp_bank *bank;
	uint8_t *buffers;
	size_t buffers_len;
	bool gro, timestamps; /* in use: trains received, arrival times */
	uint64_t clocks_apart; /* from CLOCK_MONOTONIC to CLOCK_REALTIME, ns */
};

/* The transmit sockets. Labels share sockets if descriptors are short. Owner: udp_sock.c */
struct udp_labels {
	int16_t sock_of[UDP_LABELS]; /* by label: index into sock; -1: not open */
	struct udp_sock sock[UDP_LABELS];
	int nsocks;
	int fd_limit;	  /* label sockets have descriptors below this */
	bool ports_short; /* it was logged that the range has no port left for a label */
};

/* A place of this host, and the socket connected to it. */
struct udp_connected_socket {
	struct udp_sock sock; /* fd below 0: there is none */
	uint16_t port;	      /* of the place; 0: of none */
	uint8_t tos;	      /* TOS byte set on the socket */
	uint8_t refusals;     /* times that its socket was closed or could not be opened, less those since one works */
	uint32_t fresh;	      /* packets that left by the socket */
	uint32_t again;	      /* packets that were sent again meanwhile, by labels */
	uint32_t sends;	      /* times that something was sent there, less what other places took away */
	uint32_t wait;	      /* sends until it may get a socket */
};

/* Sockets connected to places of this host. Owner: udp_connected.c */
struct udp_connected {
	struct udp_connected_socket socket[UDP_CONNECTED]; /* by a hash of the port */
	int open;					   /* sockets that are open */
	int most;					   /* upper limit of `open`; 0: the back end connects none */
};

/*
 * The handshake sockets: KNOWN for HELLO that names this endpoint's incarnation, UNAUTHENTICATED for any other HELLO,
 * INIT for INIT.
 */
enum { UDP_HANDSHAKE_KNOWN, UDP_HANDSHAKE_UNAUTHENTICATED, UDP_HANDSHAKE_INIT, UDP_HANDSHAKE_SOCKETS };

/* A token bucket: a limit per second. */
struct udp_budget {
	uint32_t left;	    /* tokens as of filled_ns */
	uint64_t filled_ns; /* when it was filled last */
};

struct udp_handshake_socket {
	int fd; /* -1: there is none, so its packets come by the endpoint's first socket */
	struct udp_budget reads, answers, firsts; /* packets read; HELLOs handed up; of these, HELLOs not seen before */
	uint64_t refused;	      /* packets read and not handed up */
	uint16_t seen
		[UDP_HANDSHAKE_SEEN]; /* HELLO sockets: a hash table of received HELLOs, 16 bits of each; 0: empty */
	struct mmsghdr msg[UDP_HANDSHAKE_ROOM];
	struct iovec iov[UDP_HANDSHAKE_ROOM];
	struct sockaddr_in6 name[UDP_HANDSHAKE_ROOM]; /* or sockaddr_in, which is smaller */
	_Alignas(8) uint8_t buf[UDP_HANDSHAKE_ROOM][UDP_HANDSHAKE_BYTES];
};

/* Receiving HELLO and INIT. Owner: udp_handshake.c */
struct udp_handshake {
	struct udp_handshake_socket socket[UDP_HANDSHAKE_SOCKETS];
	uint32_t calls;		     /* calls of rx() since the last read; a call without packets counts more */
	uint64_t polled_ns;	     /* when a handshake socket was last read, by the fine clock */
	bool idle;		     /* the last rx() found no other packets */
	uint32_t turn;		     /* handshake socket to read next */
	uint64_t key;		     /* secret key of their `seen` tables */
	uint64_t read;		     /* packets read from all handshake sockets */
	struct uccl_nic_guard guard; /* without handshake sockets: to recognize HELLO and INIT; else zero */
	struct udp_budget wakes;     /* limits how often handshake packets wake a sleeper on wait_fd */
	int timer;		     /* in the epoll set of wait_fd; -1: none */
	uint64_t back_ns; /* over the limit: when the sockets return to that set; 0: they are in it */
};

/*
 * What the network and peers' kernels report, polled rarely: error queues and liveness connections. Times in ns by
 * uccl_udp_now(). Owner: udp_reports.c
 */
struct udp_reports {
	uint32_t calls;	       /* calls of rx() */
	bool sent;	       /* something was sent since polled_at, and nothing has arrived since */
	bool sent_answered;    /* something was sent since polled_at, and something arrived after it */
	bool unanswered;       /* something was sent, and nothing has arrived since */
	uint64_t asked_at;     /* unanswered: since when */
	uint64_t errors_every; /* interval between polls of the error queues; doubles while unanswered */
	bool errors_due;       /* a poll of the error queues was due at polled_at */
	uint64_t errors_at;    /* next poll of the error queues */
	uint64_t errors_until; /* ICMP replies to sent packets may come until then */
	uint64_t live_at;      /* last uccl_udp_live_poll() */
	uint64_t polled_at;    /* when the clock was read last */
	struct udp_event event[UDP_EVENTS]; /* events that wait for rx() */
	int nevents;
	uint8_t quotes[UDP_EVENTS][UCCL_HDR_LEN]; /* quotes of the events that the last rx() returned */
};

/* The other fields are constant after open, but for wait_fd. Owner: udp.c */
struct udp {
	struct uccl_nic nic;
	int family; /* of all sockets */
	int rx_fd;
	int wait_fd; /* epoll, made by the first wait_fd(); -1 */
	struct uccl_ports ports;
	bool ecn;		    /* packets with uccl_tx.ect are sent as ECN capable */
	uint8_t classes[2];	    /* TOS bytes of data and of control packets; their ECN bits are 0 */
	uint8_t tos;		    /* TOS byte set on the sockets; a packet with another one carries it itself */
	uint32_t place_mtu;	    /* most bytes of UDP payload that the interface carries */
	uint64_t granted;	    /* bytes of the receive queue that the kernel granted */
	struct uccl_nic_addr self;  /* address that peers use */
	struct uccl_nic_addr local; /* address that label sockets bind to; port 0 */
	struct uccl_udp_live *live; /* liveness connections; NULL: none */
	struct udp_tx tx;
	struct udp_rx rx;
	struct udp_labels labels;
	struct udp_connected connected;
	struct udp_handshake handshake;
	struct udp_reports reports;
};

static inline struct udp *udp_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct udp, nic);
}

/* Bytes of the IP and UDP headers of a packet to this address. */
static inline uint32_t uccl_udp_headers(const struct uccl_nic_addr *to)
{
	return uccl_ifaddr_is_v4(to) ? UDP_V4_HEADERS : UDP_V6_HEADERS;
}

/* Open the transmit socket of a label, or let it share another one's. udp_sock.c */
struct udp_sock *uccl_udp_sock_open(struct udp *u, uint16_t label);
/* The transmit socket of a label, opened if necessary; never NULL. */
static inline struct udp_sock *uccl_udp_sock(struct udp *u, uint16_t label)
{
	int16_t i = u->labels.sock_of[label % UDP_LABELS];

	return i >= 0 ? &u->labels.sock[i] : uccl_udp_sock_open(u, label % UDP_LABELS);
}
/*
 * Open a socket that sends and hears of ICMP errors, at a port of its own. Its descriptor, or -FI_EADDRINUSE: ports are
 * short; -FI_EMFILE: descriptors are; or another negative error. udp_sock.c
 */
int uccl_udp_sending_socket(const struct udp *u);

/* There are no connected sockets yet. After u->ports and the number of labels are set. udp_connected.c */
void uccl_udp_connected_open(struct udp *u);
void uccl_udp_connected_close(struct udp *u);
/* Of payload to a place of this host: see uccl_udp_connected() and uccl_udp_connected_left(). udp_connected.c */
struct udp_connected_socket *uccl_udp_connected_find(struct udp *u, const struct uccl_tx *t, uint8_t tos);
void uccl_udp_connected_again(struct udp *u, uint16_t port, uint32_t packets);
/* True if the packet is of this kind and goes to the endpoint's own address. PROTOCOL R397 */
static inline bool uccl_udp_to_own_address(const struct udp *u, const struct uccl_tx *t, enum uccl_tx_control kind)
{
	return t->control == kind && !t->answer && u->connected.most && uccl_nic_addr_same_ip(t->to, &u->self);
}
/*
 * The connected socket by which this packet leaves, whose TOS byte is `tos`. NULL: it leaves by the socket of its
 * label, because its peer is on another host or has no connected socket, or because it has no payload, or payload that
 * was sent before. Valid until the next call. PROTOCOL R397
 */
static inline struct udp_connected_socket *uccl_udp_connected(struct udp *u, const struct uccl_tx *t, uint8_t tos)
{
	return uccl_udp_to_own_address(u, t, UCCL_TX_PAYLOAD) ? uccl_udp_connected_find(u, t, tos) : NULL;
}
/* Count `packets` like `t`, which leave by `connected`; NULL: by another socket. The counts tell whether it works. */
static inline void uccl_udp_connected_left(struct udp *u, struct udp_connected_socket *connected,
					   const struct uccl_tx *t, uint32_t packets)
{
	if (connected)
		connected->fresh += packets;
	else if (uccl_udp_to_own_address(u, t, UCCL_TX_AGAIN))
		uccl_udp_connected_again(u, t->to->port, packets);
}

/*
 * Open a UDP socket of the back end's family and bind it to `at`. If its port is 0, the next free port of the walk is
 * used. walk NULL: any port, for sockets that send nothing. `beside`: the port is shared with another socket of ours
 * (SO_REUSEPORT). Returns the descriptor or a negative error. udp_sock.c
 */
int uccl_udp_bind(const struct udp *u, const struct uccl_nic_addr *at, struct uccl_ports_walk *walk, bool beside);
/* Request a queue of `bytes`, by the option `force`, which needs a privilege, or else by `plain`. udp_sock.c */
void uccl_udp_queue_set(int fd, int force, int plain, uint32_t bytes);
/* Set the TOS byte of packets that the socket sends. False: the kernel refuses. udp_sock.c */
bool uccl_udp_tos_set(const struct udp *u, int fd, uint8_t tos);
/* The TOS byte of a packet: its class (RFC 2474), and ECT(0) if the network may mark it (RFC 3168). */
static inline uint8_t uccl_udp_tos(const struct udp *u, const struct uccl_tx *t)
{
	return (uint8_t)(u->classes[uccl_tx_control_class(t)] | (u->ecn && t->ect ? IPTOS_ECN_ECT0 : 0));
}
/* CLOCK_MONOTONIC_COARSE in ns: cheap, and exact to some milliseconds. udp_sock.c */
uint64_t uccl_udp_now(void);
/* Set a socket option. False: the kernel does not have it, or refuses. udp_sock.c */
bool uccl_udp_option_set(int fd, int level, int name, int value);
/* The receive socket sends the packets of label 0, and is the fallback for other labels. udp_sock.c */
void uccl_udp_labels_open(struct udp *u);
/* Log that the range has no free port for `what`, and that the user may enlarge it. udp_sock.c */
void uccl_udp_ports_short_say(const struct udp *u, const char *what);

/* Allocate, and find out whether the kernel sends trains. 0 or -FI_ENOMEM. After uccl_udp_labels_open(). udp_tx.c */
int uccl_udp_tx_open(struct udp *u);
/* Send no trains. udp_tx.c */
void uccl_udp_tx_trains_off(struct udp *u);
/* Set options of the receive socket. udp_rx.c */
void uccl_udp_rx_tune(struct udp *u, const struct uccl_nic_attr *attr);
/* Allocate. 0 or -FI_ENOMEM; uccl_udp_rx_close() undoes it, and what failed. udp_rx.c */
int uccl_udp_rx_open(struct udp *u);
void uccl_udp_rx_close(struct udp *u);
/* Let the kernel merge no packets. udp_rx.c */
void uccl_udp_rx_trains_off(struct udp *u);

/* There are no handshake sockets yet. udp_handshake.c */
void uccl_udp_handshake_init(struct udp *u);
/* Close the handshake sockets. udp_handshake.c */
void uccl_udp_handshake_close(struct udp *u);
/* Let the handshake sockets wake sleepers on wait_fd, too. 0 or a negative error. udp_handshake.c */
int uccl_udp_handshake_wait(struct udp *u);
/*
 * Read HELLO and INIT from the handshake sockets into v[at..n), if a read is due. Returns the new `at`. `idle`: rx()
 * found no other packets. read_ns: now, by CLOCK_MONOTONIC; 0: not known. udp_handshake.c
 */
int uccl_udp_handshake_rx(struct udp *u, struct uccl_rx *v, int at, int n, bool idle, uint64_t read_ns);
/*
 * To poll a handshake socket costs a system call, which delays other packets. So one of UDP_HANDSHAKE_EVERY calls of
 * rx() that found packets polls one; a call without packets counts more (udp_handshake.c).
 */
#define UDP_HANDSHAKE_EVERY 6
/* rx() found other packets. True: no handshake socket has its turn, so uccl_udp_handshake_rx() would do nothing. */
static inline bool uccl_udp_handshake_rests(struct udp_handshake *h)
{
	if (h->socket[0].fd < 0)
		return true;
	if (h->back_ns || h->calls + 1 >= UDP_HANDSHAKE_EVERY)
		return false;
	h->calls++;
	h->idle = false;
	return true;
}
/*
 * Without handshake sockets, for a packet from the first socket: true if it is no HELLO or INIT, or the limits allow
 * it. If several packets arrived as one (GRO), the answer is for all: a peer sends no HELLO and no INIT together with
 * other packets. udp_handshake.c
 */
bool uccl_udp_guard_may(struct udp *u, const struct uccl_rx *r);

/* The functions of uccl_nic_ops that are not in udp.c. */
void uccl_udp_guard(struct uccl_nic *nic, const struct uccl_nic_guard *g);
void uccl_udp_count(struct uccl_nic *nic, struct uccl_stats *s);
int uccl_udp_tx(struct uccl_nic *nic, struct uccl_tx *v, int n);
int uccl_udp_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces);

#endif

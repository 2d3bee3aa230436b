/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One end of a measurement between two hosts: sockets made as the udp back end makes its own (one that receives, one a
 * source port that sends, a TCP listener on the receiving port), and what both ends do with them.
 */
#ifndef UCCL_DOCTOR_SIDE_H
#define UCCL_DOCTOR_SIDE_H

#include "nic/ifaddr.h"
#include "nic/ports.h"
#include "uccl_doctor_wire.h"

#define DOCTOR_GRACE_MS 150 /* of silence, after which nothing of a run comes any more */

struct doctor_side {
	struct uccl_nic_addr self, peer; /* peer.port: where its probes go, once known */
	int tcp;			 /* to the other end; -1: none */
	int rx;				 /* probes come here, self.port */
	int live;			 /* TCP listener on the same port; -1: none */
	int label[DOCTOR_LABELS];	 /* probes go from here */
	uint16_t label_port[DOCTOR_LABELS];
	int nlabels;
	struct uccl_ports ports; /* of all sockets */
	uint32_t mtu;		/* of the interface that leads to the peer, with IP header */
	uint64_t token;		/* of all probes */
	uint64_t sent_bytes;	/* so far */
	uint64_t end_ms;	/* the session is over then */
	struct {
		uint32_t drops;	    /* of the receiving socket, when the run began */
		uint64_t overflows; /* of all UDP sockets, then */
		uint32_t merged;    /* most probes of the run that came as one message */
	} queue;
	uint8_t out[DOCTOR_MSG_HEAD + DOCTOR_MSG_BODY], in[DOCTOR_MSG_BODY];
};

uint64_t doctor_now_us(void);
static inline uint64_t doctor_now_ms(void)
{
	return doctor_now_us() / 1000;
}

/* IP and UDP headers of the family in use. */
uint32_t doctor_headers(const struct doctor_side *s);

/*
 * Open the sockets of one end whose TCP connection is `tcp` (taken over, also when it fails), within a range of ports;
 * fewer source ports than `nlabels` if there are not so many. rx_bytes: of the receive queue, 0: the provider's
 * default. 0, or a negative errno value.
 */
int doctor_side_open(struct doctor_side *s, int tcp, int nlabels, const struct uccl_ports *ports, uint32_t rx_bytes);
void doctor_side_close(struct doctor_side *s);
/* What we tell the other end. */
void doctor_side_hello(const struct doctor_side *s, struct doctor_hello *h);

/* Send s->out[0..len). 0, or a negative errno value. */
int doctor_send(struct doctor_side *s, size_t len);
/*
 * Wait at most `ms` for a message and answer probes meanwhile; tally, if not NULL, gets those of run `id`. Returns the
 * length of the body in s->in, or a negative errno value: -ETIMEDOUT, -EPIPE (the other end is gone), -EPROTO.
 */
int doctor_receive(struct doctor_side *s, enum doctor_msg_type *type, int ms, uint16_t id, struct doctor_tally *tally);
/* Answer probes that are there. True: the other end has closed the TCP connection. */
bool doctor_gone(struct doctor_side *s);
/* Count and answer probes until none came for DOCTOR_GRACE_MS, at most for a second. The tally is complete then. */
void doctor_settle(struct doctor_side *s, uint16_t id, struct doctor_tally *tally);

/* Before a run that comes to us: how full the receive queue was until now does not matter. uccl_doctor_queue.c */
void doctor_queue_begin(struct doctor_side *s);
/* Probes that came since then, at most, and found the queue full. */
uint32_t doctor_queue_overflowed(const struct doctor_side *s);

/* Send a run. False: the bounds of the session do not allow it. */
bool doctor_run_send(struct doctor_side *s, const struct doctor_run *run, struct doctor_sent *sent);
/* Send one PING from a source port; ttl 0: the usual one. False: the kernel refused. */
bool doctor_ping_send(struct doctor_side *s, int label, uint32_t seq, uint8_t ttl);
/* Take one probe from the receiving socket, without waiting. PINGs are answered here. False: there is none. */
bool doctor_probe_take(struct doctor_side *s, struct doctor_probe *p, uint8_t *ecn, bool *right);
/* Connect to the other end's liveness port: 0, or an errno value. */
int doctor_connect_try(struct doctor_side *s, uint16_t port);
/* Find the ways of our source ports to the other end. uccl_doctor_trace.c */
void doctor_trace(struct doctor_side *s, struct doctor_paths *p);

/* What routing makes of packets from a source port. All 0: the kernel does not say. */
struct doctor_route {
	uint64_t hop;  /* the first hop, as a number */
	int next_hops; /* of the route as it stands in the table */
	int oif;       /* index of the interface */
	uint32_t mtu;  /* that the route's entry sets, with IP header; 0: none */
};
/* uccl_doctor_route.c */
void doctor_route(const struct uccl_nic_addr *from, const struct uccl_nic_addr *to, struct doctor_route *out);

#endif

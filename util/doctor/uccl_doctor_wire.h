/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What two uccl_doctors say to each other: messages over one TCP connection, and UDP probes. All integers are
 * little-endian. Readers check lengths and ranges; what they refuse is not taken at all.
 *
 * A message is 8 bytes (magic, type, length of the body) and the body. The asker sends HELLO and gets HELLO, then asks
 * and gets one answer each, but for END and BYE, which have none. While a listener serves others, it says WAIT before
 * an answer.
 */
#ifndef UCCL_DOCTOR_WIRE_H
#define UCCL_DOCTOR_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uccl_doctor_math.h"

#define DOCTOR_MSG_HEAD 8
#define DOCTOR_MSG_BODY 8192 /* most of a body */
#define DOCTOR_PROBE_HEAD 28
/* 1: a tally does not tell what overflowed; 2: nor how long the run took, and there is no WAIT */
#define DOCTOR_VERSION 3
#define DOCTOR_HELLO_MOST (20 + 2 * DOCTOR_LABELS) /* most of the body of a HELLO */

/* What a listener does for one asker at most. */
#define DOCTOR_RUN_PACKETS 4096		   /* of one run */
#define DOCTOR_RUN_BYTES (16u << 20)	   /* of one run */
#define DOCTOR_RUN_US 5000000u		   /* of one run */
#define DOCTOR_SESSION_BYTES (128ull << 20) /* sent in all */
#define DOCTOR_SESSION_MS 120000

enum doctor_msg_type {
	DOCTOR_HELLO = 1,
	DOCTOR_RUN,	/* struct doctor_run; answered by READY, or after a run by the listener by SENT */
	DOCTOR_READY,
	DOCTOR_END,	/* the asker has sent its run; answered by TALLY */
	DOCTOR_SENT,	/* struct doctor_sent */
	DOCTOR_TALLY,	/* struct doctor_tally without its bits */
	DOCTOR_CONNECT, /* make a TCP connection to my port; answered by CONNECTED: u32 errno value, 0: it works */
	DOCTOR_CONNECTED,
	DOCTOR_TRACE,	/* find out your paths to me; answered by TRACED: struct doctor_paths */
	DOCTOR_TRACED,
	DOCTOR_BYE,
	DOCTOR_WAIT,	/* before an answer, any number of times: u32 askers that come first */
	DOCTOR_MSG_TYPES,
};

struct doctor_hello {
	uint64_t token;	    /* of the sender; the listener's is that of all probes */
	uint16_t version;   /* DOCTOR_VERSION */
	uint16_t udp_port;  /* where probes go */
	uint16_t live_port; /* where a TCP connection goes; 0: none */
	uint32_t mtu;	    /* of the sender's interface, with IP header */
	uint16_t nlabels;   /* source ports of probes */
	uint16_t label_port[DOCTOR_LABELS];
};

/* A number of UDP probes, all alike. */
struct doctor_run {
	bool by_listener; /* it sends; else the asker does */
	uint16_t id;
	uint32_t count;	 /* probes; number i goes from label i / burst % labels */
	uint32_t size;	 /* UDP payload of each */
	uint16_t labels; /* source ports used */
	uint16_t burst;	 /* probes of one source port that follow each other */
	uint16_t train;	 /* of them in one send call, 1: each by itself; divides burst */
	uint8_t ecn;	 /* the two bits of the IP header */
	uint32_t gap_us; /* mean time between probes */
};

/* How sending a run went. */
struct doctor_sent {
	uint32_t sent;	  /* probes that the kernel took */
	uint32_t refused; /* probes that it did not */
	uint32_t error;	  /* errno value of the last refusal; 0: none */
	uint32_t span_us; /* that sending took */
	uint32_t mtu;	  /* of the route, as the kernel knows it after the run, with IP header; 0: not known */
};

enum doctor_probe_kind { DOCTOR_DATA = 1, DOCTOR_PING, DOCTOR_PONG };

struct doctor_probe {
	uint64_t token;
	uint8_t kind;
	uint8_t ttl; /* that a PING was sent with; 0: the usual */
	uint16_t id; /* of the run */
	uint16_t label;
	uint32_t seq;
	uint32_t size; /* of the whole */
};

/* The paths that one end has to the other. */
struct doctor_paths {
	uint16_t next_hops; /* of the route to the peer; 0: not known */
	uint16_t n;
	struct doctor_trail trail[DOCTOR_LABELS];
};

/* Writers return the bytes written, head and all; `buf` has DOCTOR_MSG_HEAD + DOCTOR_MSG_BODY bytes. */
size_t doctor_put_head(uint8_t *buf, enum doctor_msg_type type, size_t body);
size_t doctor_put_hello(uint8_t *buf, const struct doctor_hello *h);
size_t doctor_put_run(uint8_t *buf, const struct doctor_run *r);
size_t doctor_put_sent(uint8_t *buf, const struct doctor_sent *s);
size_t doctor_put_tally(uint8_t *buf, const struct doctor_tally *t);
size_t doctor_put_number(uint8_t *buf, enum doctor_msg_type type, uint32_t number);
size_t doctor_put_paths(uint8_t *buf, const struct doctor_paths *p);

/* The head of a message: its body's length, or -1 if it is none. */
int doctor_get_head(const uint8_t *head, enum doctor_msg_type *type);
/* Readers take a body. False: it is not valid; *out is not to be used then. */
bool doctor_get_hello(const uint8_t *body, size_t len, struct doctor_hello *h);
bool doctor_get_run(const uint8_t *body, size_t len, struct doctor_run *r);
bool doctor_get_sent(const uint8_t *body, size_t len, struct doctor_sent *s);
bool doctor_get_tally(const uint8_t *body, size_t len, struct doctor_tally *t);
bool doctor_get_number(const uint8_t *body, size_t len, uint32_t *number);
bool doctor_get_paths(const uint8_t *body, size_t len, struct doctor_paths *p);

/* Write a probe of p->size bytes, at least DOCTOR_PROBE_HEAD: its head, and bytes that follow from it. */
void doctor_put_probe(uint8_t *buf, const struct doctor_probe *p);
/*
 * Read one. False: it is not of this token, or not a probe. *right is false if its bytes or its length are other than
 * were sent.
 */
bool doctor_get_probe(const uint8_t *buf, size_t len, uint64_t token, struct doctor_probe *p, bool *right);

#endif

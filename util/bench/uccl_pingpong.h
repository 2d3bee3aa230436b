/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parts of uccl_pingpong: the tests (uccl_pingpong.c) over a transport, which is a provider of libfabric
 * (uccl_pingpong_fabric.c) or plain TCP sockets (uccl_pingpong_sockets.c), beside a TCP connection over which both
 * sides talk (oob.h).
 */
#ifndef UCCL_PINGPONG_H
#define UCCL_PINGPONG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

#include "endpoint.h"
#include "oob.h"

#define WINDOW_MAX 64
#define SIZES_MAX 64

/* One operation in flight; the context must be first, providers may use it. */
struct slot {
	struct fi_context2 context;
	_Atomic bool done;
	_Atomic int left; /* pieces that are under way, if the transport cuts messages */
	char *buf;
};

struct bench;

/* What is sent is received in its order, whatever the tags are; both sides know the lengths. */
struct transport {
	void (*open)(struct bench *b);
	void (*send)(struct bench *b, struct slot *s, const void *buf, size_t len, uint64_t tag);
	void (*recv)(struct bench *b, struct slot *s, void *buf, size_t len, uint64_t tag);
	void (*progress)(struct bench *b);	       /* waits a millisecond at most */
	void (*wait)(struct bench *b, struct slot *s); /* until it is done */
	void (*close)(struct bench *b);
};

extern const struct transport transport_fabric, transport_sockets;
/* Does this name plain sockets? It then says how many, too. */
bool sockets_named(const char *name);
/* End the program if something was asked for that plain sockets cannot do. */
void sockets_check(const struct bench *b);

struct bench {
	const char *provider;
	const char *host;
	const char *port;
	bool client, v6;
	bool lat, bw, stream;
	bool events; /* sleep instead of polling */
	bool reads;  /* touch what has come */
	double seconds; /* of one measurement */
	int window;	/* as asked for; 0: by size */
	size_t size[SIZES_MAX];
	int nsizes;
	size_t size_max;

	struct oob oob;
	const struct transport *transport;
	bool open; /* the transport is, and wants progress */
	uint64_t tag;
	char *pool;
	struct slot tx[WINDOW_MAX], rx[WINDOW_MAX], ack;
	char ack_buf[8];
};

static inline bool slot_done(struct slot *s)
{
	return atomic_load_explicit(&s->done, memory_order_acquire);
}

static inline void slot_set(struct slot *s, bool done)
{
	atomic_store_explicit(&s->done, done, memory_order_release);
}

double now_s(void);

#endif

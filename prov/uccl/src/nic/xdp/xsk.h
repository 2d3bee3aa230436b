/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * AF_XDP sockets on a queue of an interface. The first one of a queue owns it, with memory for its frames: it sends,
 * and receives. Others, of other threads, may receive by the same queue, into the same memory. Frames received are
 * lent to the caller until its next uccl_xsk_rx(); room for frames to be sent is asked for one by one. A long packet
 * is several frames on its way to the kernel and from it (multi-buffer), and lies in one piece here.
 */
#ifndef UCCL_NIC_XDP_XSK_H
#define UCCL_NIC_XDP_XSK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#define UCCL_XSK_RX 2048    /* frames that wait for the NIC or for us */
#define UCCL_XSK_TX 1024    /* on their way out */
#define UCCL_XSK_FRAME 4096 /* bytes, of which the kernel keeps 256 in front of what it receives */
#define UCCL_XSK_MOST (UCCL_XSK_FRAME - 256)
#define UCCL_XSK_PARTS 3 /* with multi-buffer a long packet is so many frames, at most */
#define UCCL_XSK_LONG (UCCL_XSK_PARTS * UCCL_XSK_MOST)
#define UCCL_XSK_FRAMES_LENT 64 /* frames that one uccl_xsk_rx() hands out, at most */

struct uccl_xsk_ring {
	uint32_t *producer, *consumer, *flags;
	void *entries;
	uint32_t mask, at; /* our end of it, as far as it was not told yet */
	void *map;
	size_t map_len;
};

struct uccl_xsk;

/* What a socket receives. */
struct uccl_xsk_rx {
	struct uccl_xsk *of; /* whose queue and memory it is */
	int fd;
	struct uccl_xsk_ring ring;
	uint64_t lent[UCCL_XSK_FRAMES_LENT];
	uint32_t nlent;
	uint8_t *joined;    /* room for long packets; NULL: there are none */
	uint64_t oversized; /* packets that were longer */
};

struct uccl_xsk {
	uint32_t queue;
	bool zero_copy;
	uint32_t most; /* bytes of a packet with all headers: UCCL_XSK_MOST or UCCL_XSK_LONG */
	uint8_t *memory;
	size_t memory_len;
	pthread_mutex_t lock; /* of `fill`: who receives gives frames back */
	struct uccl_xsk_ring fill, done, tx;
	struct uccl_xsk_rx rx;	    /* the owner's */
	uint32_t room[UCCL_XSK_TX]; /* frames that nobody uses */
	uint32_t nroom;
	uint8_t *split; /* a long packet before it is cut into frames */
	uint64_t kicks; /* system calls to send */
};

struct uccl_xsk_frame {
	const uint8_t *data;
	uint32_t len;
};

/* May this process have such a socket at all? Else *what says what was refused. */
int uccl_xsk_may(const char **what);
/*
 * On the first of queues 0 .. queues - 1 that nobody has; with `copy` always by copies, else without if the driver can;
 * with `parts` for long packets, too, if kernel and driver can: see uccl_xsk.most.
 * -FI_EBUSY: all are taken. Other errors: *what is a static text that says what was refused.
 */
int uccl_xsk_open(int ifindex, uint32_t queues, bool copy, bool parts, struct uccl_xsk **out, const char **what);
/* After all who receive by its queue. */
void uccl_xsk_close(struct uccl_xsk *x);

/* Another one that receives by that queue of the interface. *what as above. */
int uccl_xsk_rx_open(struct uccl_xsk *of, int ifindex, struct uccl_xsk_rx **out, const char **what);
void uccl_xsk_rx_close(struct uccl_xsk_rx *r);

/* Up to n frames; what was lent before goes back to the NIC. */
int uccl_xsk_rx(struct uccl_xsk_rx *r, struct uccl_xsk_frame *v, int n);

/* Room for a packet of so many bytes, up to x->most; NULL: none now. It is for uccl_xsk_put(), or asked for anew. */
uint8_t *uccl_xsk_room(struct uccl_xsk *x, uint32_t len);
/* The room that was asked for last has the packet, of no more bytes: it is to leave with the next kick. */
void uccl_xsk_put(struct uccl_xsk *x, uint32_t len);
/* Send all that is to leave. 0; -FI_EAGAIN: some of it waits for another kick; or another error: the link is down. */
int uccl_xsk_kick(struct uccl_xsk *x);
/* Does something wait for another kick? */
bool uccl_xsk_waits(const struct uccl_xsk *x);
/* Frames that the kernel threw away because we were too slow, or for other reasons. */
uint64_t uccl_xsk_dropped(const struct uccl_xsk_rx *r);

#endif

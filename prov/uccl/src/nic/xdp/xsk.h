/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * AF_XDP sockets on a queue of an interface. The first socket of a queue owns the queue and the memory for its frames;
 * it sends and receives. Sockets of other threads may also receive by the queue, into the same memory. Received frames
 * are lent to the caller until its next uccl_xsk_rx(). Room to send is requested frame by frame. Between here and the
 * kernel a long packet is several frames (multi-buffer); the functions here give and take it as one.
 */
#ifndef UCCL_NIC_XDP_XSK_H
#define UCCL_NIC_XDP_XSK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#define UCCL_XSK_RX 2048    /* frames for receiving: those that wait for the NIC and those that wait for us */
#define UCCL_XSK_TX 1024    /* frames for sending */
#define UCCL_XSK_FRAME 4096 /* bytes of a frame; the kernel reserves 256 in front of a received packet */
#define UCCL_XSK_MOST (UCCL_XSK_FRAME - 256)
#define UCCL_XSK_PARTS 3 /* most frames of a long packet (multi-buffer) */
#define UCCL_XSK_LONG (UCCL_XSK_PARTS * UCCL_XSK_MOST)
#define UCCL_XSK_FRAMES_LENT 64 /* most frames of one uccl_xsk_rx() */

/* A ring that the kernel shares with us. xsk.c writes it. */
struct uccl_xsk_ring {
	uint32_t *producer, *consumer, *flags;
	void *entries;
	uint32_t mask, at; /* number of entries - 1; our end of the ring, with entries not yet shown to the kernel */
	void *map;
	size_t map_len;
};

struct uccl_xsk;

/* The receiving side of a socket. xsk.c writes it. */
struct uccl_xsk_rx {
	struct uccl_xsk *of; /* owner of the queue and of the memory */
	int fd;
	struct uccl_xsk_ring ring;
	uint64_t lent[UCCL_XSK_FRAMES_LENT]; /* frames that the caller has */
	uint32_t nlent;
	uint8_t *joined;    /* buffer in which long packets are put together; NULL: no long packets */
	uint64_t oversized; /* packets dropped as too long */
};

struct uccl_xsk {
	uint32_t queue;
	bool zero_copy;
	uint32_t most; /* most bytes of a packet with all headers: UCCL_XSK_MOST or UCCL_XSK_LONG */
	uint8_t *memory;
	size_t memory_len;
	pthread_mutex_t lock; /* of `fill`: every receiving thread returns frames there */
	struct uccl_xsk_ring fill, done, tx;
	struct uccl_xsk_rx rx;	    /* the owner's receiving side */
	uint32_t room[UCCL_XSK_TX]; /* free frames for sending */
	uint32_t nroom;
	uint8_t *split; /* buffer for a long packet before it is cut into frames */
	uint64_t kicks; /* system calls to send */
};

/* A received frame. */
struct uccl_xsk_frame {
	const uint8_t *data;
	uint32_t len;
};

/* 0: this process may open such a socket. Else a negative error, and *what says what was refused. */
int uccl_xsk_may(const char **what);
/*
 * Open a socket that owns the first free queue of 0 to queues - 1. `copy`: always copy; else without copies, if the
 * driver can. `parts`: also long packets, if kernel and driver can (see uccl_xsk.most). -FI_EBUSY: all queues are in
 * use. After other errors *what says what was refused, a static text.
 */
int uccl_xsk_open(int ifindex, uint32_t queues, bool copy, bool parts, struct uccl_xsk **out, const char **what);
/* Close it after all others that receive by its queue. */
void uccl_xsk_close(struct uccl_xsk *x);

/* Open another socket that receives by the queue of `of`. Errors and *what as above. */
int uccl_xsk_rx_open(struct uccl_xsk *of, int ifindex, struct uccl_xsk_rx **out, const char **what);
void uccl_xsk_rx_close(struct uccl_xsk_rx *r);

/* Receive up to n frames; returns their number. The frames of the previous call go back to the NIC. */
int uccl_xsk_rx(struct uccl_xsk_rx *r, struct uccl_xsk_frame *v, int n);

/* Room for a packet of `len` bytes, at most x->most. NULL: none now. Then fill it and call uccl_xsk_put(). */
uint8_t *uccl_xsk_room(struct uccl_xsk *x, uint32_t len);
/* Queue the packet, `len` bytes, that is in the room of the last uccl_xsk_room(). It leaves with the next kick. */
void uccl_xsk_put(struct uccl_xsk *x, uint32_t len);
/* Send all queued packets. 0; -FI_EAGAIN: some wait for another kick; another error: the link is down. */
int uccl_xsk_kick(struct uccl_xsk *x);
/* True if packets wait for another kick. */
bool uccl_xsk_waits(const struct uccl_xsk *x);
/* Frames that the kernel dropped, because we were too slow or for other reasons. */
uint64_t uccl_xsk_dropped(const struct uccl_xsk_rx *r);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What goes back for a request: an answer, or what is read, one buffer after the other. Most of that is copied, so that
 * it does not refer to memory that the application may take back. The rest leaves from the region itself, and is copied
 * before that memory changes or is taken back; the memory for the copy is there from the beginning. A peer may have at
 * most as many replies, and as much memory for them, as are left for others. PROTOCOL R121 R393
 *
 *	msg_reply_get			before anything is done
 *	msg_reply_answer, or msg_reply_read, or msg_reply_fetched when feed->buf holds what an atomic found
 *	msg_reply_acked			until it returns whose it was
 */
#ifndef UCCL_MSG_RMA_REPLY_H
#define UCCL_MSG_RMA_REPLY_H

#include "msg/rma/region.h"

/* Payload on its way back: copies, or room for them. */
struct uccl_feed {
	struct uccl_reply *reply;
	struct uccl_req req;
	uint32_t gen;		/* message sequence of the request */
	struct uccl_multinode number_node; /* a read's, by gen: msg_rx_number() */
	uint64_t off;		/* bytes copied so far */
	uint64_t buf_bytes, bytes;
	bool stopped;	/* the initiator took the read back: what devices still load is not sent */
	bool unreported; /* the region's owner has not heard of the read: it does when the first copy is complete, */
	bool in_place;	 /* or, if the payload leaves from the region itself, when nothing of it leaves any more */
	uint8_t nregions;
	void *regions[UCCL_SEG_MAX];
	struct msg_uses uses;	/* until then */
	uint8_t nbufs, busy;
	struct uccl_feed_buf {
		struct uccl_item item;
		struct iovec iov;
		struct uccl_copy copy;	/* from a device */
		uint64_t off;
		struct uccl_feed *feed;
	} bufs[4];
	uint8_t buf[];
};

/* What goes back for one request, until it is acknowledged. */
struct uccl_reply {
	TAILQ_ENTRY(uccl_reply) link;
	struct uccl_peer *peer;
	uint32_t id;		/* the initiator's handle */
	struct uccl_item resp;
	struct uccl_feed *feed;
};

/*
 * Get a reply with room for copies of what the request reads, or of the beginning of it. `req` NULL: an answer without
 * data. NULL: no room now.
 */
struct uccl_reply *msg_reply_get(struct uccl_peer *p, uint32_t id, const struct uccl_req *req, uint32_t gen);
void msg_reply_free(struct uccl_reply *r);
/* 0, or enum uccl_refusal. */
void msg_reply_answer(struct uccl_reply *r, int refusal);
/* Answer an ABORT: the operation is taken back (`taken`), or it was complete. */
void msg_reply_aborted(struct uccl_reply *r, bool taken);
/* Send no more of what this request reads. False: nothing of it is on its way. */
bool msg_reply_stop(struct uccl_peer *p, uint32_t id, uint32_t gen);
/* From now on replies to reads of this peer can be found by their numbers: msg_rx_numbers(). */
void msg_reply_numbers(struct uccl_peer *p);
/* Copy the data and send them. For data on a device, the owner of the region is told when the first copy is done. */
void msg_reply_read(struct uccl_reply *r, const struct msg_place *at);
void msg_reply_fetched(struct uccl_reply *r);
/* The peer changes our memory next: what it has read is copied, as far as it may still leave. PROTOCOL R393 */
void msg_replies_copy(struct uccl_peer *p);
/* RESP, or a buffer of read data, is acknowledged. Returns the peer if this ends the reply; else NULL. */
struct uccl_peer *msg_reply_acked(struct uccl_item *item);
/* The peer is gone, the flow has forgotten its items. */
void msg_replies_free(struct uccl_peer *p);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What goes back for a request: an answer, or copies of what is read, one buffer after the other. As these are copies,
 * nothing on its way refers to memory that the application may take back. A peer may have at most as many replies, and
 * as much memory for them, as are left for others. PROTOCOL R121
 *
 *	msg_reply_get			before anything is done
 *	msg_reply_answer, or msg_reply_read, or msg_reply_fetched when feed->buf holds what an atomic found
 *	msg_reply_acked			until it returns whose it was
 */
#ifndef UCCL_MSG_RMA_REPLY_H
#define UCCL_MSG_RMA_REPLY_H

#include "msg/rma/region.h"

/* Payload on its way back: copies, so that nothing refers to memory that the application may take back. */
struct uccl_feed {
	struct uccl_reply *reply;
	struct uccl_req req;
	uint32_t gen;		/* message sequence of the request */
	struct uccl_multinode number_node; /* a read's, by gen: msg_rx_number() */
	uint64_t off;		/* bytes copied so far */
	uint64_t buf_bytes, bytes;
	bool unreported; /* the region's owner hears of it when what is copied first is there */
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
 * A reply with room for copies of what the request reads, or of its beginning (req NULL: an answer alone). NULL:
 * none can be had now.
 */
struct uccl_reply *msg_reply_get(struct uccl_peer *p, uint32_t id, const struct uccl_req *req, uint32_t gen);
void msg_reply_free(struct uccl_reply *r);
/* 0, or enum uccl_refusal. */
void msg_reply_answer(struct uccl_reply *r, int refusal);
/* What the initiator takes back is taken back, or was complete. */
void msg_reply_aborted(struct uccl_reply *r, bool taken);
/* No more of what the peer reads by this request is sent. False: nothing is on its way. */
bool msg_reply_stop(struct uccl_peer *p, uint32_t id, uint32_t gen);
/* What goes back for its reads can be found by their numbers, too: msg_rx_numbers(). */
void msg_reply_numbers(struct uccl_peer *p);
/* Copy what is read, and send it. If it lies on a device, its owner hears of it when what is copied first is there. */
void msg_reply_read(struct uccl_reply *r, const struct msg_place *at);
void msg_reply_fetched(struct uccl_reply *r);
/* RESP, or a buffer of what is read, is acknowledged. Whose it was, if that was the last of it; else NULL. */
struct uccl_peer *msg_reply_acked(struct uccl_item *item);
/* The peer is gone, the flow has forgotten its items. */
void msg_replies_free(struct uccl_peer *p);

#endif

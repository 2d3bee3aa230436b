/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The registered memory of this side, as a request names it: where it lies, operations on it, and their listeners.
 * Nothing here waits for anything.
 */
#ifndef UCCL_MSG_RMA_REGION_H
#define UCCL_MSG_RMA_REGION_H

#include "msg/msg_ep.h"

/* Local memory of a request. */
struct msg_place {
	struct iovec iov[UCCL_PLACE_IOV_MAX];
	void *regions[UCCL_SEG_MAX];
	uint8_t niov, nregions;
	uint16_t device;	/* which of iov are memory of a device */
};

/* A user of regions: it can be found from each of them, and is called when one goes away. */
struct msg_uses {
	void (*revoked)(struct msg_uses *u, const void *region); /* NULL: a part of it, and it stays */
	const struct uccl_req *req; /* what is done there */
	const struct uccl_peer *peer;
	uint8_t n;
	struct msg_use {
		struct uccl_multinode node; /* in uccl_msg_ep.uses, by region */
		struct msg_uses *uses;
		bool in;			/* it is there */
	} use[UCCL_SEG_MAX];
};

/* From now on, until the region goes away or msg_uses_end(). */
void msg_uses_begin(struct uccl_peer *p, struct msg_uses *u, const struct uccl_req *req, void *const *regions,
		    uint8_t nregions);
/* Does nothing if none was begun. */
void msg_uses_end(struct uccl_msg_ep *m, struct msg_uses *u);
/* This region goes away, or a part of it: all that have to do with it hear of it, and have no more. */
void msg_uses_revoke(struct uccl_msg_ep *m, const void *region, const struct uccl_revoke *part);

/* Every segment is looked up before any is touched. 0, or enum uccl_refusal. */
int msg_target_find(struct uccl_peer *p, const struct uccl_req *req, struct msg_place *at);
/* Is it an operation that we know? */
bool msg_target_knows(const struct uccl_req *req);
/* Bytes that must come with it; UINT64_MAX: it makes no sense. */
uint64_t msg_target_payload(const struct uccl_req *req);
/* The operation itself; an element may lie across two buffers of a region. */
void msg_target_atomic(struct uccl_msg_ep *m, const struct uccl_req *req, const struct msg_place *at,
		       const uint8_t *body, uint8_t *result);
/*
 * Call before an atomic on memory of a device. There is one such atomic at a time. False: wait. PROTOCOL R193
 */
bool msg_target_claim(struct uccl_msg_ep *m, const void *claimer);
/* Does nothing if `claimer` has no claim. */
void msg_target_release(struct uccl_msg_ep *m, const void *claimer);
/*
 * `now` is what was read there. Replace it by the result of the operation, and copy what it was to `result`, unless
 * NULL.
 */
void msg_target_apply(const struct uccl_req *req, const uint8_t *body, uint8_t *now, uint8_t *result);
/* The request is done: tell the owner of the regions, and complete what remote data complete. */
void msg_target_tell(struct uccl_msg_ep *m, struct uccl_peer *from, const struct uccl_req *req, void *const *regions,
		     uint8_t nregions, bool has_data, uint64_t data);
/* The owner of the region is not told of the operation. */
void msg_target_forget(void **regions, uint8_t *count, const void *region);

/*
 * An operation on our own memory; its owner hears of it here unless copies are under way. 0, or enum uccl_refusal;
 * -FI_EAGAIN: another atomic on a device has to be done before, or there is no memory now.
 */
int msg_target_self(struct uccl_msg_ep *m, struct uccl_op *op, const struct uccl_req *req);
/* The operations on ourselves are done, and did not fail. */
void msg_target_self_tell(struct uccl_msg_ep *m, struct uccl_op *op, const struct uccl_req *req);

#endif

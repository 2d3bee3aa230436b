/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connection management. An endpoint of type FI_EP_MSG is a reliable endpoint with one peer. The two sides agree by
 * four kinds of message, which such endpoints and listening ones (pep.h) accept from any peer
 * (docs/protocol/messages.md, Connected endpoints). The caller holds the lock of the endpoint's driver, except for the
 * functions of libfabric's table (the last four).
 */
#ifndef UCCL_API_CM_H
#define UCCL_API_CM_H

#include <rdma/fi_cm.h>

#include "api/endpoint/ep.h"

/* The tags of these messages; their remote data is the number of the request. */
enum uccl_cm_type { UCCL_CM_REQ = 1, UCCL_CM_ACCEPT, UCCL_CM_REJECT, UCCL_CM_BYE };

/* A received message. */
struct uccl_cm_msg {
	struct uccl_peer *from;
	uint64_t type, number;
	const uint8_t *data;
	size_t len;
};

/* The state of an endpoint's connection. The owner frees it with free(). NULL: out of memory. */
struct uccl_cm *uccl_cm_new(void);

/* Set the function that gets the messages of a listening endpoint. */
void uccl_cm_listen(struct uccl_ep *ep, void (*receive)(void *arg, const struct uccl_cm_msg *m), void *arg);
/* Begin to receive these messages. The engine is open. 0 or a negative error. */
int uccl_cm_recv(struct uccl_ep *ep);
/* Send a message; `data` is copied. If the peer ends, the message is lost. 0 or a negative error. */
int uccl_cm_send(struct uccl_ep *ep, struct uccl_peer *to, enum uccl_cm_type type, uint64_t number, const void *data,
		size_t len);

/* The endpoint was made to answer the request `number` of `peer` that arrived at `listener`. */
void uccl_cm_asked(struct uccl_ep *ep, uint64_t number, const struct uccl_addr *peer, const struct uccl_addr *listener);
/* True: the endpoint's name (fi_getname) is *out, the address to which its peer connected, not its engine's address. */
bool uccl_cm_name(const struct uccl_ep *ep, struct uccl_addr *out);

/* Do the work that is due or was deferred. uccl_cm_expiry(): when the next work is due, ns. */
void uccl_cm_run(struct uccl_ep *ep, uint64_t now);
uint64_t uccl_cm_expiry(const struct uccl_ep *ep);
/* The endpoint closes: reject the request that it was to answer, if any. Only the caller drives the endpoint. */
void uccl_cm_leave(struct uccl_ep *ep);

int uccl_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int uccl_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int uccl_cm_shutdown(struct fid_ep *ep, uint64_t flags);
int uccl_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);

#endif

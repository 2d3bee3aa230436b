/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections. An endpoint of type FI_EP_MSG is a reliable endpoint that has to do with one peer; how the two agree
 * is four kinds of message, which endpoints of this type and listening ones (pep.h) take from anybody
 * (docs/protocol/messages.md, Connected endpoints). The functions expect the endpoint's lock to be held, but for those
 * of libfabric's table.
 */
#ifndef UCCL_API_CM_H
#define UCCL_API_CM_H

#include <rdma/fi_cm.h>

#include "api/endpoint/ep.h"

/* The tags of these messages; their remote data is the number of the request. */
enum uccl_cm_type { UCCL_CM_REQ = 1, UCCL_CM_ACCEPT, UCCL_CM_REJECT, UCCL_CM_BYE };

/* One that came. */
struct uccl_cm_msg {
	struct uccl_peer *from;
	uint64_t type, number;
	const uint8_t *data;
	size_t len;
};

/* NULL: out of memory. To be freed with free(). */
struct uccl_cm *uccl_cm_new(void);

/* What a listening endpoint does with what it hears. */
void uccl_cm_listen(struct uccl_ep *ep, void (*hear)(void *arg, const struct uccl_cm_msg *m), void *arg);
/* Take messages of connection management from now on. The engine is there. */
int uccl_cm_hear(struct uccl_ep *ep);
/* Say one; `data` is copied. What is lost with its receiver is lost. */
int uccl_cm_say(struct uccl_ep *ep, struct uccl_peer *to, enum uccl_cm_type type, uint64_t number, const void *data,
		size_t len);

/* The endpoint was made for a request with this number, of `peer`, that came to `listener`. */
void uccl_cm_asked(struct uccl_ep *ep, uint64_t number, const struct uccl_addr *peer, const struct uccl_addr *listener);
/* Its name if that is not the engine's: what its peer connected to. */
bool uccl_cm_name(const struct uccl_ep *ep, struct uccl_addr *out);

/* What could not be done in the middle of something else, or is due; when the next of it is. */
void uccl_cm_run(struct uccl_ep *ep, uint64_t now);
uint64_t uccl_cm_expiry(const struct uccl_ep *ep);
/* The endpoint closes; nothing drives it but the caller. */
void uccl_cm_leave(struct uccl_ep *ep);

int uccl_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int uccl_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int uccl_cm_shutdown(struct fid_ep *ep, uint64_t flags);
int uccl_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One reliable endpoint of any provider with all that belongs to it, for programs that measure. They supply die(),
 * which prints why and ends the program; every failure here ends there.
 */
#ifndef UCCL_UTIL_ENDPOINT_H
#define UCCL_UTIL_ENDPOINT_H

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

struct endpoint {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* End the program if rc, what `what` returned, is an error of libfabric (below 0). */
void check(const char *what, long rc);
/*
 * Open an enabled endpoint for tagged messages, with one queue of completions (only contexts) for both directions.
 * node: the local address, or NULL for any. wait_obj: whether the queue can be slept on.
 */
void endpoint_open(struct endpoint *e, const char *provider, const char *node, enum fi_wait_obj wait_obj);
void endpoint_close(struct endpoint *e);

#endif

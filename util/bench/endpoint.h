/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One reliable endpoint of any provider with all that belongs to it, for programs that measure and test. Every failure
 * ends in die().
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

/* Print the program's name (program_invocation_short_name) and why, and end with 1. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* End the program if rc, what `what` returned, is an error of libfabric (below 0). */
void check(const char *what, long rc);
/* Hints for a provider's reliable endpoint. domain: its name, or NULL for any. */
struct fi_info *endpoint_hints(const char *provider, const char *domain, uint64_t caps);
/*
 * Ask for such an endpoint at a local address and port (NULL: any). Takes the hints over. 0, or an error of libfabric.
 */
int endpoint_find(struct endpoint *e, struct fi_info *hints, const char *node, const char *service);
/* Open what was found, but for what is there: fabric, domain, queue of completions, which serves both directions. */
void endpoint_open(struct endpoint *e, const struct fi_cq_attr *cq);
/* The queue of completions has an error: end the program with its text. */
void endpoint_failed(struct endpoint *e) __attribute__((noreturn));
void endpoint_close(struct endpoint *e);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One libfabric endpoint with what belongs to it, and operations whose ends are counted. */
#ifndef UCCL_TEST_SYSTEM_FAB_H
#define UCCL_TEST_SYSTEM_FAB_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define FAB_NAME_MAX 64

struct fab {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint8_t name[FAB_NAME_MAX];
	size_t name_len;
	uint64_t good, bad; /* completions read */
	unsigned int fds, threads; /* of this process, before all this */
};

/* An operation in flight. Providers may use the context, so it is first. */
struct op {
	struct fi_context2 context;
	bool open;  /* posted and not ended */
	bool multi; /* a multi-receive buffer: ends with FI_MULTI_RECV */
	int err;    /* FI_E*, 0: good */
	uint64_t flags, len, tag, data;
	uint8_t *buf;
	fi_addr_t src;
	uint64_t ended_ns;
	char text[192];		    /* of a failure */
	void (*end)(struct op *op); /* for each completion; may be NULL */
	void *user;
};

/* Hints for everything that these tests use; the caller frees them. */
struct fi_info *fab_hints(void);
/* `service`: a fixed port, or NULL. A failure ends the rank, as do all of the following. */
void fab_open(struct fab *f, const char *service);
/* With addresses of this format: FI_SOCKADDR_IN names places. */
void fab_open_as(struct fab *f, const char *service, uint32_t addr_format);
/* Close everything, of which no descriptor and no thread may stay; returns how many ns the endpoint took. */
uint64_t fab_close(struct fab *f);
fi_addr_t fab_insert(struct fab *f, const void *name);
/* Read completions; returns how many. A completion for an operation that is not open ends the rank. */
int fab_progress(struct fab *f);
/* Before posting. */
void op_begin(struct op *op);
/* Drive until the operation has ended; false after so many ms (times slack). */
bool fab_finish(struct fab *f, struct op *op, unsigned int ms);

#endif

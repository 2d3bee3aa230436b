/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the conformance programs share. A program is a list of cases; each runs in a process of its own, with its own
 * environment, between two endpoints on one host, and ends within a time. Of the provider they know libfabric's API
 * alone, and the variables of its manual.
 *
 *   PROGRAM [-p PROVIDER] [-n FACTOR] [-m MARGIN] [CASE...]
 *
 *   -p   the provider (uccl)
 *   -n   multiplies the number of messages (1)
 *   -m   how far limits of time may be missed on a busy machine (50)
 *
 * Each case prints "pass CASE" or "FAIL CASE: reason", the program "N passed, N failed"; the status is 1 if a case failed.
 */
#ifndef UCCL_FABTESTS_CONF_H
#define UCCL_FABTESTS_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define CONF_NAME_MAX 64
#define CONF_KEY 0x5a

struct conf_case {
	const char *name;
	const char *env; /* "NAME=VALUE NAME=VALUE", or NULL */
	void (*run)(void);
};
int conf_main(int argc, char **argv, const struct conf_case *cases, unsigned int n);

/* The factor of -n, and the margin of -m. */
extern unsigned int conf_factor;
extern double conf_margin;

/* End the case with a reason. */
void conf_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define conf_check(ok, ...)                                                                                            \
	do {                                                                                                           \
		if (!(ok))                                                                                             \
			conf_fail(__VA_ARGS__);                                                                        \
	} while (0)
/* A call that must return 0. */
void conf_good(ssize_t rc, const char *what);

/* An operation: what its completion said. */
struct conf_op {
	struct fi_context2 context; /* first: the provider may use it */
	bool done;
	int err; /* FI_E*, 0: good */
	uint64_t flags, data, tag;
	size_t len, olen;
};

struct conf_ep {
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint8_t name[CONF_NAME_MAX];
	size_t name_len;
	uint64_t completions; /* read so far, good and bad */
};

/* One domain. */
struct conf_net {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	size_t cq_size; /* of endpoints opened from now on */
};

/* Hints for messages, RMA and atomics that promise all the orders that libfabric knows; the caller may change them. */
struct fi_info *conf_hints(void);
/* `hints` is freed. */
void conf_net_open(struct conf_net *n, struct fi_info *hints);
void conf_net_close(struct conf_net *n);
void conf_ep_open(struct conf_ep *e, struct conf_net *n);
void conf_ep_close(struct conf_ep *e);
fi_addr_t conf_insert(struct conf_ep *e, const void *name);

/* Read the completions that are there; false: there are none. */
bool conf_poll(struct conf_ep *e);
/* Likewise, and leave the processor to others if there are none. */
void conf_progress(struct conf_ep *e);
/* Post, driving both endpoints while the provider says -FI_EAGAIN; b may be NULL. */
#define conf_post(a, b, call)                                                                                          \
	do {                                                                                                           \
		ssize_t rc_;                                                                                           \
		while ((rc_ = (call)) == -FI_EAGAIN) {                                                                 \
			conf_progress(a);                                                                              \
			if (b)                                                                                         \
				conf_progress(b);                                                                      \
		}                                                                                                      \
		conf_good(rc_, #call);                                                                                 \
	} while (0)
/* Drive both until the operation has ended; b may be NULL. */
void conf_wait(struct conf_ep *a, struct conf_ep *b, struct conf_op *op);
/* Likewise, and it must have ended well. */
void conf_wait_good(struct conf_ep *a, struct conf_ep *b, struct conf_op *op);

/* Two endpoints that know each other, and what most cases use. */
struct conf_pair {
	struct conf_net net;
	struct conf_ep a, b;
	fi_addr_t to_b, to_a;
};
void conf_pair_open(struct conf_pair *p, struct fi_info *hints);
void conf_pair_close(struct conf_pair *p);
/* A message from a to b, with every byte compared. */
void conf_pair_talk(struct conf_pair *p, size_t len, uint32_t key);
/* A region of b for RMA and atomics; *base is what addresses in it begin with. */
struct fid_mr *conf_region(struct conf_pair *p, void *mem, size_t len, uint64_t access, uint64_t *base);

/* Bytes that depend on where they are and on the key. */
void conf_fill(uint8_t *v, size_t len, uint32_t key);
bool conf_same(const uint8_t *v, size_t len, uint32_t key);

/* Of the reports that endpoints of this process left (CONF_STATS in a case's environment): a counter's sum. */
#define CONF_STATS "FI_UCCL_STATS=conf-stats,paths=1"
uint64_t conf_counter(const char *name);
/* Payload sent over each path to a peer, at most n of them; returns how many paths there were. */
unsigned int conf_paths(uint64_t *bytes, unsigned int n);

#endif

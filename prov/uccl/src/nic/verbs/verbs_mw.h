/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Places for direct writes without a registration each: memory stays registered (mrcache.h), and who may write to a
 * part of it for a while gets a memory window on it, whose key ends with it. Type 1: it is bound through one queue pair
 * and written to through all of the protection domain; windows of type 2 belong to one queue pair each.
 *
 * A window is bound through a queue pair of ours, which is connected to itself. Nobody waits for that: a write that
 * comes before it is refused, as if it were lost. Its end is waited for, as with the end of a registration: after it
 * the memory is the application's. That is one request of the NIC, where to deregister is a call of the kernel. After
 * 10 ms without an answer the window is freed, by such a call.
 *
 * Keys of a window come again after 255 others, and memory that stays registered keeps its number. So where writes may
 * still be under way, its registration is not used again: the next one has another random number. PROTOCOL R241
 */
#ifndef UCCL_NIC_VERBS_VERBS_MW_H
#define UCCL_NIC_VERBS_VERBS_MW_H

#ifdef HAVE_VERBS

#include <stdbool.h>
#include <stdint.h>

#include "nic/verbs/verbs_dev.h"
#include "nic/verbs/verbs_lib.h"

struct uccl_mrcache_stats;

/* Of one protection domain; every call is made by its owner. */
struct uccl_verbs_mws;

struct uccl_verbs_mws_stats {
	uint64_t bound;	 /* windows, so far */
	uint64_t failed; /* that could not be bound, or not be unbound and were thrown away instead */
};

/*
 * A number for [buf, ...) of which the bits above the page are random: knowing a key is not enough to write there. The
 * highest bit is clear, so that no end of it wraps. 0 or -FI_EIO.
 */
int uccl_verbs_iova(const void *buf, uint64_t *iova);

/* Connect a new UC queue pair to another one of the same port, or to itself. 0, or an errno value. */
int uccl_verbs_loop(const struct uccl_verbs *lib, const struct uccl_verbs_port *port, struct ibv_qp *qp, uint32_t to,
		    uint32_t psn, uint32_t their_psn);

/*
 * `port` outlives it. 0; -FI_ENOSYS: the NIC has no windows, or the host does not say when memory goes away; or another
 * error: what the NIC said.
 */
int uccl_verbs_mws_open(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_pd *pd,
			const struct uccl_verbs_port *port, uint64_t (*clock)(void), struct uccl_verbs_mws **m);
/* Windows that are still bound go as well. */
void uccl_verbs_mws_close(struct uccl_verbs_mws *m);

/* Let peers write to [buf, buf + len). -FI_Exxx: not by a window, or not now. */
int uccl_verbs_mw_get(struct uccl_verbs_mws *m, const void *buf, uint64_t len, void **place, uint32_t *rkey,
		      uint64_t *raddr);
/* No write reaches it any more when this returns. `settled`: none is under way either, if peers are honest. */
void uccl_verbs_mw_put(struct uccl_verbs_mws *m, void *place, bool settled);
/* Is it one of ours? */
bool uccl_verbs_mw_is(const struct uccl_verbs_mws *m, const void *place);

struct uccl_verbs_mws_stats uccl_verbs_mws_stats(const struct uccl_verbs_mws *m);
/* Of the registrations. */
struct uccl_mrcache_stats uccl_verbs_mws_places(struct uccl_verbs_mws *m);

#endif

#endif

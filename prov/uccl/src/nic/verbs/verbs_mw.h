/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory windows: places for direct writes that need no registration each. The memory stays registered (mrcache.h). A
 * peer that may write to a part of it gets a memory window on that part; the window's key ends with the window. The
 * windows are of type 1: one queue pair binds a window, and all queue pairs of the protection domain can write to it. A
 * window of type 2 belongs to one queue pair.
 *
 * A queue pair of ours, connected to itself, binds the windows. Nobody waits for a bind: the NIC refuses a write that
 * comes too early, as if it were lost. The caller does wait for the unbind, as for the end of a registration, since
 * afterwards the memory is the application's. An unbind is one request to the NIC, while a deregistration is a call of
 * the kernel. If an unbind has no answer after 10 ms, the window is freed by a call of the kernel.
 *
 * A window's key repeats after 255 others, and registered memory keeps its NIC address. So if writes may still be under
 * way, the registration is not used again: the next one has another random NIC address. PROTOCOL R241
 */
#ifndef UCCL_NIC_VERBS_VERBS_MW_H
#define UCCL_NIC_VERBS_VERBS_MW_H

#ifdef HAVE_VERBS

#include <stdbool.h>
#include <stdint.h>

#include "nic/verbs/verbs_dev.h"
#include "nic/verbs/verbs_lib.h"

struct uccl_mrcache_stats;

/* The windows of a protection domain. Only its owner calls. */
struct uccl_verbs_mws;

struct uccl_verbs_mws_stats {
	uint64_t bound;	 /* windows, so far */
	uint64_t failed; /* windows that could not be bound, or could not be unbound and were freed instead */
};

/*
 * Choose the NIC address for memory at `buf`. Its bits above the page offset are random, so that knowing a key is not
 * enough to write there. Its highest bit is 0, so that no end overflows. 0 or -FI_EIO: no random numbers.
 */
int uccl_verbs_iova(const void *buf, uint64_t *iova);

/*
 * Connect a new UC queue pair to the queue pair `to` of the same port, which may be itself. `psn`, `their_psn`: first
 * packet sequence numbers of both sides. 0, or an errno value.
 */
int uccl_verbs_loop(const struct uccl_verbs *lib, const struct uccl_verbs_port *port, struct ibv_qp *qp, uint32_t to,
		    uint32_t psn, uint32_t their_psn);

/*
 * `port` outlives the windows. 0; -FI_ENOSYS: the NIC has no windows, or the kernel does not report when memory goes
 * away; or an error of the NIC.
 */
int uccl_verbs_mws_open(const struct uccl_verbs *lib, struct ibv_context *ctx, struct ibv_pd *pd,
			const struct uccl_verbs_port *port, uint64_t (*clock)(void), struct uccl_verbs_mws **m);
/* Frees also windows that are still bound. */
void uccl_verbs_mws_close(struct uccl_verbs_mws *m);

/*
 * Let peers write to buf[0..len), with the key *rkey at the address *raddr, until uccl_verbs_mw_put(*place). 0, or
 * -FI_Exxx: not by a window, or not now.
 */
int uccl_verbs_mw_get(struct uccl_verbs_mws *m, const void *buf, uint64_t len, void **place, uint32_t *rkey,
		      uint64_t *raddr);
/* When this returns, no write reaches the memory. `settled`: no write is under way, if peers are honest. */
void uccl_verbs_mw_put(struct uccl_verbs_mws *m, void *place, bool settled);
/* True if `place` comes from uccl_verbs_mw_get(). */
bool uccl_verbs_mw_is(const struct uccl_verbs_mws *m, const void *place);

struct uccl_verbs_mws_stats uccl_verbs_mws_stats(const struct uccl_verbs_mws *m);
/* Counters of the registrations on which the windows are. */
struct uccl_mrcache_stats uccl_verbs_mws_places(struct uccl_verbs_mws *m);

#endif

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an RDMA NIC really does where manuals are silent, found by doing it: queue pairs of one port are connected to
 * each other, so neither a second host nor a bad network is needed. Nobody but the caller's own memory is touched.
 */
#ifndef UCCL_NIC_VERBS_VERBS_PROBE_H
#define UCCL_NIC_VERBS_VERBS_PROBE_H

#include <stdbool.h>

#include "nic/verbs/verbs_dev.h"

#ifdef HAVE_VERBS

#include "nic/verbs/verbs_lib.h"

enum uccl_probe_answer { UCCL_PROBE_UNKNOWN, UCCL_PROBE_NO, UCCL_PROBE_YES };

struct uccl_verbs_probe {
	enum uccl_probe_answer uc;   /* there are UC queue pairs, also on a shared receive queue, and writes arrive */
	enum uccl_probe_answer iova; /* memory can be registered under any number */
	uint32_t inline_bytes;	     /* most payload that a request can carry itself */
	uint32_t mtu, large;	     /* bytes of a write of one packet, and of the one of several that was tried */

	/* A write of several packets that finds no receive. */
	enum uccl_probe_answer rnr_told; /* its sender hears of it */
	uint32_t rnr_bytes;		 /* that are in the memory all the same */
	enum uccl_probe_answer rnr_ends; /* no later write arrives on that queue pair, ever */

	enum uccl_probe_answer
		foreign_qp; /* another queue pair, with another packet sequence number, can write there */

	/* A write with a key of nobody, and one to memory whose registration has ended. */
	enum uccl_probe_answer key_receives; /* each takes a receive, with an error */
	enum uccl_probe_answer key_ends;     /* no later write arrives */
	enum uccl_probe_answer dereg_fences; /* the memory stays as it was */

	/*
	 * Memory windows of type 1, bound through one queue pair and written to through another one; UNKNOWN where the
	 * NIC says that it has none.
	 */
	enum uccl_probe_answer windows;	      /* such a write arrives */
	enum uccl_probe_answer window_bounds; /* one beyond the window, in its region, does not */
	enum uccl_probe_answer window_fences; /* one to a window that was unbound does not */
	enum uccl_probe_answer window2;	      /* type 2: such a write arrives; UNKNOWN: there are none */
	uint64_t window_ns, registration_ns;  /* to bind and unbind one, to register and end that, of `large` bytes */
	int window_error;		      /* that ended the questions about windows; 0: none */
	const char *window_what;	      /* what failed then */

	/* A completion queue that runs over; UNKNOWN if that was not to be tried. */
	enum uccl_probe_answer overrun_ends; /* its queue pair takes no later write */

	int64_t qpn_step, key_step; /* between two queue pairs, two registrations; 0: not the same each time */
	uint64_t cycle_ns;	    /* to make, connect, break and destroy a queue pair */
};

/*
 * Ask the port, whose device is open as `ctx`. `overrun`: try that too, which the kernel may tell in its log. `clock`
 * gives ns. 0, or an error; then *what is what failed, a static text. A NIC that refuses windows is no error.
 */
int uccl_verbs_probe(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct uccl_verbs_port *port,
		     bool overrun, uint64_t (*clock)(void), struct uccl_verbs_probe *p, const char **what);

/* What is needed to know if windows can be used, which takes some milliseconds. What was not asked is UNKNOWN. */
int uccl_verbs_probe_windows(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct uccl_verbs_port *port,
			     uint64_t (*clock)(void), struct uccl_verbs_probe *p, const char **what);
/* Windows serve instead of registrations. `loose`: also if their bounds are not kept. */
bool uccl_verbs_probe_window_use(const struct uccl_verbs_probe *p, bool loose);

/* The largest direct write that does no harm on such a NIC: one packet if it may end a queue pair by losing one. */
uint32_t uccl_verbs_probe_write_max(const struct uccl_verbs_probe *p);

#endif

#endif

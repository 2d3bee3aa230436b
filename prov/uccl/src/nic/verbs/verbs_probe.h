/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tests what an RDMA NIC really does where manuals are silent. Queue pairs of one port are connected to each other, so
 * neither a second host nor a bad network is needed. The tests touch only memory of their own.
 */
#ifndef UCCL_NIC_VERBS_VERBS_PROBE_H
#define UCCL_NIC_VERBS_VERBS_PROBE_H

#include <stdbool.h>

#include "nic/verbs/verbs_dev.h"

#ifdef HAVE_VERBS

#include "nic/verbs/verbs_lib.h"

enum uccl_probe_answer { UCCL_PROBE_UNKNOWN, UCCL_PROBE_NO, UCCL_PROBE_YES };

struct uccl_verbs_probe {
	enum uccl_probe_answer uc;   /* UC queue pairs exist, also on a shared receive queue, and writes arrive */
	enum uccl_probe_answer iova; /* memory can be registered at any NIC address */
	uint32_t inline_bytes;	     /* most payload bytes inside a request */
	uint32_t mtu, large;	     /* bytes of a write of one packet, and of the tried write of several packets */

	/* A write of several packets that finds no posted receive. */
	enum uccl_probe_answer rnr_told; /* its sender gets an error */
	uint32_t rnr_bytes;		 /* bytes of it that reached the memory all the same */
	enum uccl_probe_answer rnr_ends; /* no later write arrives on that queue pair, ever */

	enum uccl_probe_answer
		foreign_qp; /* a third queue pair, with another packet sequence number, can write there */

	/* A write with an invalid key, and a write to memory whose registration has ended. */
	enum uccl_probe_answer key_receives; /* each of them consumes a receive, with an error */
	enum uccl_probe_answer key_ends;     /* no later write arrives */
	enum uccl_probe_answer dereg_fences; /* the memory stays unchanged */

	/*
	 * Memory windows of type 1, bound through one queue pair and written to through another one; UNKNOWN where the
	 * NIC says that it has none.
	 */
	enum uccl_probe_answer windows;	      /* a write to a window arrives */
	enum uccl_probe_answer window_bounds; /* a write beyond the window, but in its region, is refused */
	enum uccl_probe_answer window_fences; /* a write to an unbound window is refused */
	enum uccl_probe_answer window2;	      /* a write to a window of type 2 arrives; UNKNOWN: the NIC has none */
	uint64_t window_ns, registration_ns;  /* ns to bind and unbind; to register and deregister `large` bytes */
	int window_error;		      /* error that ended the tests of windows; 0: none */
	const char *window_what;	      /* the call that failed with it */

	/* An overrun of a completion queue; UNKNOWN if it was not tried. */
	enum uccl_probe_answer overrun_ends; /* its queue pair accepts no later write */

	int64_t qpn_step, key_step; /* difference of successive queue pair numbers, and of keys; 0: it varies */
	uint64_t cycle_ns;	    /* ns to make, connect, break and destroy a queue pair */
};

/*
 * Test a port, whose device is open as `ctx`. `overrun`: also overrun a completion queue, which the kernel may log.
 * `clock` gives ns. 0, or an error; then *what names the call that failed, a static text. A NIC that refuses windows is
 * no error.
 */
int uccl_verbs_probe(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct uccl_verbs_port *port,
		     bool overrun, uint64_t (*clock)(void), struct uccl_verbs_probe *p, const char **what);

/* Run only the tests that uccl_verbs_probe_window_use() needs: some milliseconds. All other answers are UNKNOWN. */
int uccl_verbs_probe_windows(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct uccl_verbs_port *port,
			     uint64_t (*clock)(void), struct uccl_verbs_probe *p, const char **what);
/* True if windows can replace registrations. `loose`: also if the NIC does not enforce their bounds. */
bool uccl_verbs_probe_window_use(const struct uccl_verbs_probe *p, bool loose);

/* Most bytes of a direct write that does no harm on such a NIC: one packet, if a lost packet may end a queue pair. */
uint32_t uccl_verbs_probe_write_max(const struct uccl_verbs_probe *p);

#endif

#endif

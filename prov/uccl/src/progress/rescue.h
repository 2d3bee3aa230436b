/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A thread that stands in for a program which does not call. Under manual progress the program's calls drive the
 * engines; but a program may leave the library with messages in flight (a send that completed early) and wait for
 * something else, which may depend on just these messages. If one of them is lost, nobody would send it again. So while
 * something is in flight and the program stays away, this thread runs the timers that are due. It does not take in
 * messages for a program that has nothing in flight, and it sleeps until the next look at peers as long as nothing is.
 */
#ifndef UCCL_PROGRESS_RESCUE_H
#define UCCL_PROGRESS_RESCUE_H

#include <pthread.h>
#include <stdint.h>

#include "progress/alarm.h"

struct uccl_drivers;

struct uccl_rescue {
	struct uccl_drivers *drivers;
	struct uccl_alarm alarm; /* late_ns: how long a program must have stayed away */
	pthread_t thread;
};

/* After 0 ns: there is no such thread. -FI_EAGAIN: none can be had. The lists' locks must be real ones. */
int uccl_rescue_start(struct uccl_rescue *r, struct uccl_drivers *drivers, uint64_t after_ns);
void uccl_rescue_stop(struct uccl_rescue *r);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A thread that makes progress for a program that does not call. Under manual progress the program's calls drive the
 * engines. But a program may stop calling with messages in flight (a send that completed early), and wait for something
 * that depends on these messages. If one is lost, nobody would retransmit it. So while something is in flight and the
 * program stays away, this thread runs the timers that are due. If nothing is in flight, the thread receives no
 * messages, and sleeps until the next check of a peer is due.
 */
#ifndef UCCL_PROGRESS_RESCUE_H
#define UCCL_PROGRESS_RESCUE_H

#include <pthread.h>
#include <stdint.h>

#include "progress/alarm.h"

struct uccl_drivers;

struct uccl_rescue {
	struct uccl_drivers *drivers;
	struct uccl_alarm alarm; /* late_ns: time without calls after which the thread steps in */
	pthread_t thread;
};

/*
 * Start the thread; it steps in after `after_ns` without calls. after_ns 0: no thread. The drivers must have real locks
 * (uccl_driver.locking). 0, or -FI_EAGAIN: no thread can be made.
 */
int uccl_rescue_start(struct uccl_rescue *r, struct uccl_drivers *drivers, uint64_t after_ns);
void uccl_rescue_stop(struct uccl_rescue *r);

#endif

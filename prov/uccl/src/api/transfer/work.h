/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Deferred work (fi_trigger(3)): operations and changes of counters that wait until a counter reaches a threshold. */
#ifndef UCCL_API_WORK_H
#define UCCL_API_WORK_H

#include "api/object/domain.h"

/* FI_QUEUE_WORK, FI_CANCEL_WORK and FI_FLUSH_WORK of fi_control. */
int uccl_work_control(struct uccl_domain *d, int command, void *arg);

#endif

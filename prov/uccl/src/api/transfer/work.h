/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Deferred work: operations, and changes of counters, that fi_control hands over with the counter they wait for. */
#ifndef UCCL_API_WORK_H
#define UCCL_API_WORK_H

#include "api/object/domain.h"

/* FI_QUEUE_WORK, FI_CANCEL_WORK and FI_FLUSH_WORK of fi_control. */
int uccl_work_control(struct uccl_domain *d, int command, void *arg);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* FI_PROGRESS_AUTO: a driver's own thread, which drives it whenever something arrives or is due. */
#ifndef UCCL_PROGRESS_AUTOMATIC_H
#define UCCL_PROGRESS_AUTOMATIC_H

#include "progress/driver.h"

/* The engine must be there; its lock is held, and uccl_driver_watch comes later. */
int uccl_automatic_start(struct uccl_driver *d);
/* No lock is held. If there is none that is well. */
void uccl_automatic_stop(struct uccl_driver *d);

#endif

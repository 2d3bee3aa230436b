/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* FI_PROGRESS_AUTO: a driver has its own thread, which runs the engine whenever something arrives or is due. */
#ifndef UCCL_PROGRESS_AUTOMATIC_H
#define UCCL_PROGRESS_AUTOMATIC_H

#include "progress/driver.h"

/*
 * Start the thread. The engine is open, and the driver's lock is held. Call uccl_driver_watch() after this. 0 or a
 * negative error.
 */
int uccl_automatic_start(struct uccl_driver *d);
/* End the thread, if there is one. No lock is held. */
void uccl_automatic_stop(struct uccl_driver *d);

#endif

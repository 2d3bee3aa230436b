/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Why fi_getinfo found no match. Programs try several hints, so a refusal is no fault while another attempt gets an
 * answer. If the process ends and none did, a person wants to know the reason.
 */
#ifndef UCCL_API_REFUSAL_H
#define UCCL_API_REFUSAL_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>

/* The hints of this call cannot be met, for this reason: a sentence without its end. The last reason is kept. */
void uccl_refusal(const char *fmt, ...) FI_FORMAT_PRINTF(1, 2);
/* fi_getinfo returned an entry: earlier and later refusals are of no interest. */
void uccl_refusal_forget(void);
/* Somebody asked for this provider (uccl_asked). */
void uccl_refusal_asked(void);
/* The process ends. If the program asked and never got an entry, show the kept reason as a warning. */
void uccl_refusal_report(void);

#endif

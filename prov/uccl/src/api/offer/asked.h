/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Did a person or a program ask for this provider? A program that lists all providers did not. */
#ifndef UCCL_API_ASKED_H
#define UCCL_API_ASKED_H

#include <rdma/fabric.h>
#include <stdbool.h>

/*
 * True if FI_PROVIDER or the provider name in `hints` (which may be NULL) names this provider, or if a variable
 * FI_UCCL_* is set. Then a person wants to know why nothing is offered.
 */
bool uccl_asked(const struct fi_info *hints);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* libsodium, which is loaded when a job asks for keys (FI_UCCL_SECURITY). */
#ifndef UCCL_API_SODIUM_H
#define UCCL_API_SODIUM_H

/*
 * Load libsodium once in a process, and give its functions to base/mac.c. 0, or -FI_ENOSYS: it is missing; then a
 * warning names the library and the remedy. Any thread may call.
 */
int uccl_sodium_load(void);

#endif

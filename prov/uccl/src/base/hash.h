/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * uthash, set up not to end the process when memory runs out. Check hh.tbl after HASH_ADD: NULL means that the element
 * was not added.
 */
#ifndef UCCL_BASE_HASH_H
#define UCCL_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif

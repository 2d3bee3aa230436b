/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* uthash, told not to end the process when memory is out: an element that could not be added has hh.tbl NULL. */
#ifndef UCCL_BASE_HASH_H
#define UCCL_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif

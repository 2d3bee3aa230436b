/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reading the snapshots (engine/observe/snapshot.h) that endpoints with FI_UCCL_MONITOR=1 keep in files. */
#ifndef UCCL_UTIL_SNAPSHOT_FILE_H
#define UCCL_UTIL_SNAPSHOT_FILE_H

#include "engine/observe/snapshot.h"

/*
 * Can these `size` bytes, a copy that nobody changes any more, be believed? NULL, or why not. Then every text ends and
 * has printable characters only, every peer and path is inside, their number is right and every state is known.
 */
const char *snapshot_check(const struct uccl_snapshot *v, size_t size);

/*
 * A snapshot from this file of the directory, whole and checked; the caller frees it. NULL: there is none, and *why
 * tells the reason. It is read, not mapped: a file that somebody cuts off meanwhile ends no program.
 */
struct uccl_snapshot *snapshot_file_read(int dir, const char *name, const char **why);

#endif

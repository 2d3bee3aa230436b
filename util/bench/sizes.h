/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef UCCL_UTIL_SIZES_H
#define UCCL_UTIL_SIZES_H

#include <stddef.h>

/* Read sizes in bytes, with commas between them, k and m known; at most `max`. Returns how many. The text is cut up. */
int sizes_parse(char *text, size_t *size, int max);

#endif

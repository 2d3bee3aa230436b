/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The log of the layers below api. Texts go to one function, which api (libfabric's log) or a test installs.
 * Levels are those of libfabric's FI_LOG_*: 0 warn, 1 trace, 2 info, 3 debug.
 */
#ifndef UCCL_BASE_LOG_H
#define UCCL_BASE_LOG_H

#include <stdarg.h>

enum uccl_log_level { UCCL_LOG_WARN, UCCL_LOG_TRACE, UCCL_LOG_INFO, UCCL_LOG_DEBUG };

/* Install `sink` for levels up to `max`. NULL: texts are discarded. */
void uccl_log_set(void (*sink)(int level, const char *func, int line, const char *text), int max);
void uccl_log_print(int level, const char *func, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
extern int uccl_log_max;

#define UCCL_LOG(level, ...)                                                                                           \
	do {                                                                                                           \
		if ((int)(level) <= uccl_log_max)                                                                      \
			uccl_log_print(level, __func__, __LINE__, __VA_ARGS__);                                        \
	} while (0)

#endif

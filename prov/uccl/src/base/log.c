/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The one sink is process-wide: libfabric's log is, too. It is set once while the provider loads, before any thread of
 * ours runs.
 */
#include "base/log.h"

#include <stddef.h>
#include <stdio.h>

/* Longest line, with its end; what is longer is cut. */
#define LOG_LINE 512

static void (*log_sink)(int level, const char *func, int line, const char *text);

/* Below every level: UCCL_LOG() costs one comparison while nobody listens. */
int uccl_log_max = -1;

void uccl_log_set(void (*sink)(int level, const char *func, int line, const char *text), int max)
{
	log_sink = sink;
	uccl_log_max = sink ? max : -1;
}

void uccl_log_print(int level, const char *func, int line, const char *fmt, ...)
{
	char text[LOG_LINE];
	va_list ap;

	if (!log_sink || level > uccl_log_max)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_sink(level, func, line, text);
}

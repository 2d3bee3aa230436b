/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lines for people. A line goes to libfabric's log if that shows it, else to stderr if FI_UCCL_LOG permits. On stderr a
 * warning appears once in a process, however often its cause comes, and causes of one kind are few.
 */
#ifndef UCCL_API_NOTICE_H
#define UCCL_API_NOTICE_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <stdbool.h>

/* The values of FI_UCCL_LOG, then NULL: off, warn (the default), info. */
extern const char *const uccl_notice_names[];

/* Read FI_UCCL_LOG. Called while the provider loads, before any thread of it runs. */
void uccl_notice_begin(void);

/* True if libfabric's log or stderr shows lines of this level. */
bool uccl_notice_heard(enum fi_log_level level, enum fi_log_subsys subsys);

/* The number of warnings of the calling thread so far: whether a call has told its cause. */
unsigned int uccl_notice_warnings(void);

/*
 * Show a line. `func` and `line` name the place in the source, which is the kind of cause. On stderr the line is one
 * write, which begins with "uccl: ", the host and the process. The text may end in a newline. `errno` stays.
 */
void uccl_notice(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
	FI_FORMAT_PRINTF(5, 6);

#define UCCL_API_LOG(level, subsys, ...)                                                                               \
	do {                                                                                                           \
		if (uccl_notice_heard(level, subsys))                                                                  \
			uccl_notice(level, subsys, __func__, __LINE__, __VA_ARGS__);                                   \
	} while (0)
#define uccl_warn(subsys, ...) UCCL_API_LOG(FI_LOG_WARN, subsys, __VA_ARGS__)
#define uccl_info(subsys, ...) UCCL_API_LOG(FI_LOG_INFO, subsys, __VA_ARGS__)

#endif

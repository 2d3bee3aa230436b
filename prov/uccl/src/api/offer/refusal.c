/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/refusal.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "api/lib/lib.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[512];
static bool asked, answered;

void uccl_refusal(const char *fmt, ...)
{
	char text[sizeof(last)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	uccl_info(FI_LOG_CORE, "no match: %s\n", text);
	pthread_mutex_lock(&lock);
	snprintf(last, sizeof(last), "%s", text);
	pthread_mutex_unlock(&lock);
}

void uccl_refusal_forget(void)
{
	pthread_mutex_lock(&lock);
	answered = true;
	pthread_mutex_unlock(&lock);
}

void uccl_refusal_asked(void)
{
	pthread_mutex_lock(&lock);
	asked = true;
	pthread_mutex_unlock(&lock);
}

void uccl_refusal_report(void)
{
	pthread_mutex_lock(&lock);
	if (asked && !answered && *last)
		uccl_warn(FI_LOG_CORE, "nothing was offered to this program, as its hints cannot be met: %s\n", last);
	pthread_mutex_unlock(&lock);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/thread.h"

#include <signal.h>

#include "base/units.h"

int uccl_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	/* A fault of this thread, as in a buffer of the program, is for the program's handler. */
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	for (unsigned int i = 0; i < uccl_array_len(own); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

unsigned int uccl_forks;

static void count_fork(void)
{
	uccl_forks++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

void uccl_forks_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
}

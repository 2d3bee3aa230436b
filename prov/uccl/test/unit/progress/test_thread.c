/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../tests.h"

#include <signal.h>
#include <stdbool.h>

#include "progress/thread.h"

static void *blocked(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
	return arg;
}

/* If a buffer of the program faults in a thread of ours, the program's handler is called, and may mend it. */
static bool fault(int i)
{
	return i == SIGSEGV || i == SIGBUS || i == SIGFPE || i == SIGILL || i == SIGTRAP || i == SIGSYS;
}

/* Every other signal that can be is blocked in the thread, and who started it takes those that it took. */
TEST(thread_start__no_signals)
{
	sigset_t before, after, inside;
	pthread_t t;
	void *out;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	sigemptyset(&inside);
	assert_int_equal(uccl_thread_start(&t, blocked, &inside), 0);
	assert_int_equal(pthread_join(t, &out), 0);
	assert_ptr_equal(out, &inside);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int i = 1; i < SIGRTMAX; i++) {
		/* libc keeps two of its own from everybody. */
		if (i == SIGKILL || i == SIGSTOP || (i > 31 && i < SIGRTMIN))
			continue;
		assert_int_equal(sigismember(&inside, i), !fault(i));
		assert_int_equal(sigismember(&after, i), i == SIGUSR2);
	}
}

TESTS_MAIN

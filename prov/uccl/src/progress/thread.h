/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of our own in a program that does not know of them, and what becomes of them when it forks. */
#ifndef UCCL_PROGRESS_THREAD_H
#define UCCL_PROGRESS_THREAD_H

#include <pthread.h>

/*
 * As pthread_create, but the thread takes no signals, which are for the program's, but for those of its own faults. 0,
 * or a positive error.
 */
int uccl_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/*
 * Counts the forks that led to this process since the first call of uccl_forks_watch. In a child there are no threads
 * of ours, and locks may be held for ever.
 */
extern unsigned int uccl_forks;
void uccl_forks_watch(void);

#endif

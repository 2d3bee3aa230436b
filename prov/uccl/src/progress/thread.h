/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of the library in a program that does not know of them, and their end when the program forks. */
#ifndef UCCL_PROGRESS_THREAD_H
#define UCCL_PROGRESS_THREAD_H

#include <pthread.h>

/*
 * As pthread_create(3), but the thread blocks all signals except those of its own faults (SIGSEGV and the like): all
 * others are for the program's threads. 0, or a positive errno.
 */
int uccl_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/*
 * The number of forks between the process that first called uccl_forks_watch() and this one. An object notes it when it
 * is made. If it differs later, this is a forked child: the object's threads do not exist here, and its locks may stay
 * locked for ever.
 */
extern unsigned int uccl_forks;
void uccl_forks_watch(void);

#endif

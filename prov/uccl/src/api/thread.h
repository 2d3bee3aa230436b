/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of our own in a program that does not know of them. */
#ifndef UCCL_API_THREAD_H
#define UCCL_API_THREAD_H

#include <pthread.h>

/* As pthread_create, but the thread takes no signals: they are for the program's. 0, or a positive error. */
int uccl_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A CUDA driver without a GPU, as a library of its name. Memory of its devices has an address that the processor cannot
 * touch: whoever does gets SIGSEGV. Copies on a stream read and write when they are done, which is some queries after
 * they were begun. So are small copies from the host by calls that wait, as those of the driver: until
 * cuCtxSynchronize(), or a copy back, unless the memory has the attribute that says otherwise. Streams do not wait for
 * them.
 * FAKE_CUDA_DEVICES says how many devices there are; 1 without it.
 */
#ifndef UCCL_TEST_FAKE_CUDA_H
#define UCCL_TEST_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Memory of a device, without a context; NULL: none. */
void *fake_cuda_alloc(int device, size_t len);
void fake_cuda_free(void *p);
/* It is of another context than that which all share. */
void fake_cuda_foreign(void *p);
/* Some thread of the program captures a graph, in the mode that is the usual one; nonzero: nobody has spoilt it. */
void fake_cuda_capture_begin(void);
int fake_cuda_capture_end(void);
/* Of the driver, for tests that look at the mode of a thread. */
int cuThreadExchangeStreamCaptureMode(int *mode);
/* Between such memory and memory of the host, at once. */
void fake_cuda_write(void *device, const void *host, size_t len);
void fake_cuda_read(void *host, const void *device, size_t len);
/* Copies are done after 0 to n queries; 3 at first. */
void fake_cuda_delay(unsigned int n);
/* The n-th asynchronous copy from now on is refused; or (late) it and its event fail when its time comes. 0: none. */
void fake_cuda_fail(unsigned int n, int late);
/* From now on there is no memory for new events (0), or there is. */
void fake_cuda_events(int some);
/* Has this memory the attribute by which copies are there when calls return? */
int fake_cuda_synced(const void *device);
/* Asynchronous copies that were begun so far, and those that are not done. */
unsigned int fake_cuda_copies(void);
unsigned int fake_cuda_pending(void);
/* How often an event was asked whether it has passed, and how often somebody slept until it had. */
unsigned int fake_cuda_queries(void);
unsigned int fake_cuda_sleeps(void);
/*
 * Calls so far in which a driver may wait for a device: for an event, a stream or all, copies that are on no stream,
 * memory, streams, contexts and programs that come and go, flushes.
 */
unsigned int fake_cuda_blocking(void);
/*
 * What devices are from the next queue on: the order in which they see what NICs wrote (0: none; 100 at first), how
 * that can be flushed (bit 0: by a call, which fails if another bit is set, too), and whether there are dmabufs (2:
 * there are, of no memory).
 */
void fake_cuda_direct(int ordering, int flush_options, int dmabufs);
unsigned int fake_cuda_flushes(void);
/* 0: no program is taken from now on; 2: it is, and cannot be launched; 1 at first. Its launches so far. */
void fake_cuda_programs(int takes);
unsigned int fake_cuda_launches(void);
/* Where the processor, and NICs, can reach memory of a device; NULL: it is none. */
void *fake_cuda_shadow(void *device);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the provider calls of the CUDA driver. It finds the driver's functions by dlsym(), and that of the program comes
 * before that of the C library: the provider is given functions that count, and then call the driver's. So the program
 * must export it (-export-dynamic), and nobody else is counted: not the program, nor libfabric.
 */
#ifndef UCCL_TEST_GPU_CALLS_H
#define UCCL_TEST_GPU_CALLS_H

/* Nothing was called so far. */
void gpu_calls_reset(void);
/* Calls so far; *waiting: of those in which a driver may wait for a GPU. */
unsigned long gpu_calls_count(unsigned long *waiting);
/* A line for each function that was called: how often, and for how long. */
void gpu_calls_print(void);

#endif

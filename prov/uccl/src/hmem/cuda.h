/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of NVIDIA GPUs, by the CUDA driver. The driver's library is loaded at run time, so neither its headers nor the
 * library are needed to build or to start. Most calls do not wait for the GPU. Only these may wait: flush() on a GPU
 * that needs it, and calls that make or free queues and memory.
 */
#ifndef UCCL_HMEM_CUDA_H
#define UCCL_HMEM_CUDA_H

#include "hmem/hmem.h"

#define UCCL_CUDA_FILE "libcuda.so.1"

/*
 * Load the driver's library from `file`; it stays loaded. 0: there is at least one GPU, and uccl_cuda_hmem can be used.
 * -FI_ENOSYS: no such library, or it lacks a function. -FI_ENODEV: it finds no GPU. After an error *missing names, for
 * a person, what is missing; static.
 */
int uccl_cuda_open(const char *file, const char **missing);

extern const struct uccl_hmem_ops uccl_cuda_hmem;

#endif

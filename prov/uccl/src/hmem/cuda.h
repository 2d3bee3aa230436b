/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of NVIDIA's GPUs by the CUDA driver, which is looked for at run time: neither its headers nor its library are
 * needed to build or to run. Nothing here waits for a GPU, but the flush of what NICs wrote on one that needs it,
 * and what is done once: queues, memory.
 */
#ifndef UCCL_HMEM_CUDA_H
#define UCCL_HMEM_CUDA_H

#include "hmem/hmem.h"

#define UCCL_CUDA_FILE "libcuda.so.1"

/*
 * Load the driver's library; it stays. 0: there is at least one GPU, and uccl_cuda_hmem can be used. -FI_ENOSYS: there
 * is no such library, or it lacks a function; -FI_ENODEV: it finds no GPU. *missing says what is not there.
 */
int uccl_cuda_open(const char *file, const char **missing);

extern const struct uccl_hmem_ops uccl_cuda_hmem;

#endif

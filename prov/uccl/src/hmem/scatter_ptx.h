/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A GPU kernel, as PTX, that copies many short runs of bytes at once. */
#ifndef UCCL_HMEM_SCATTER_PTX_H
#define UCCL_HMEM_SCATTER_PTX_H

#include <stdint.h>

#define UCCL_SCATTER_RUNS 128
#define UCCL_SCATTER_ENTRY "uccl_scatter"
/* Threads of a block, at least 15. Each block copies one run of less than 4 GiB. */
#define UCCL_SCATTER_THREADS 512

/* The kernel's parameter. Block i copies len[i] bytes from address from[i] to address to[i]. */
struct uccl_scatter_param {
	uint64_t to[UCCL_SCATTER_RUNS], from[UCCL_SCATTER_RUNS];
	uint32_t len[UCCL_SCATTER_RUNS];
};

extern const char uccl_scatter_ptx[];

#endif

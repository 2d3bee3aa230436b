/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "hmem/hmem.h"

#include <pthread.h>
#include <stddef.h>

#include "base/log.h"
#include "hmem/cuda.h"

static const struct uccl_hmem_ops *found;
static const char *missing;

static void cuda_find(void)
{
	if (uccl_cuda_open(UCCL_CUDA_FILE, &missing))
		UCCL_LOG(UCCL_LOG_INFO, "memory of GPUs cannot be used: %s is missing", missing);
	else
		found = &uccl_cuda_hmem;
}

const struct uccl_hmem_ops *uccl_hmem_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, cuda_find);
	return found;
}

const char *uccl_hmem_missing(void)
{
	uccl_hmem_find();
	return missing;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations on device memory, which the processor must not access itself. Each kind of device is one table of
 * functions (cuda.h). stage.h builds on it what the message layer needs. Errors are -FI_Exxx. If nothing else is said,
 * only one thread at a time may use a queue.
 */
#ifndef UCCL_HMEM_HMEM_H
#define UCCL_HMEM_HMEM_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_hmem_queue; /* a queue of copies of one device, which runs them in order */
struct uccl_hmem_mark;	/* a position in a queue */

/* One copy of scatter(): `len` bytes between memory of the device, or of pin(). */
struct uccl_hmem_run {
	void *to;
	const void *from;
	uint64_t len;
};

/* Most copies of one scatter(). */
#define UCCL_HMEM_RUNS 128

struct uccl_hmem_ops {
	const char *name;
	/* The number of devices. */
	int (*count)(void);
	/* The number of the device that has the memory at this address; -1: host memory. Any thread may call. */
	int (*where)(const void *p);
	/*
	 * The allocation that contains an address: its start, its bytes, and a number that no other allocation of the
	 * process ever gets. -FI_EFAULT: no allocation contains the address. Any thread may call.
	 */
	int (*range)(const void *p, uintptr_t *start, uint64_t *len, uint64_t *id);
	/* Make copies of the program to this memory synchronous: from now on they are done when its call returns. */
	void (*sync)(const void *p);
	/* Open a queue, which does not wait for the program's work on the device. -FI_EIO: the device refused. */
	int (*open)(int device, struct uccl_hmem_queue **q);
	/* Close a queue; all of its copies must be done. */
	void (*close)(struct uccl_hmem_queue *q);
	/* Pinned host memory of `len` bytes, for put(), get() and scatter() of every device. NULL: none left. */
	void *(*pin)(struct uccl_hmem_queue *q, uint64_t len);
	void (*unpin)(struct uccl_hmem_queue *q, void *mem);
	/* Memory of the device of `len` bytes for our own use, page aligned. NULL: none left. Both calls may wait. */
	void *(*take)(struct uccl_hmem_queue *q, uint64_t len);
	void (*give)(struct uccl_hmem_queue *q, void *mem);
	/*
	 * Begin a copy: to the device, from the device, within the device. Never waits. `host` is memory of pin().
	 * -FI_EFAULT: an address is not in memory of the device.
	 */
	int (*put)(struct uccl_hmem_queue *q, void *device, const void *host, uint64_t len);
	int (*get)(struct uccl_hmem_queue *q, void *host, const void *device, uint64_t len);
	int (*move)(struct uccl_hmem_queue *q, void *to, const void *from, uint64_t len);
	/*
	 * Begin n copies by one kernel on the device, in any order. `n` may be 0, up to UCCL_HMEM_RUNS. The first call
	 * may take some ms. -FI_ENOSYS: the device has no such kernel. -FI_EFAULT: the device refused; no copy began.
	 */
	int (*scatter)(struct uccl_hmem_queue *q, const struct uccl_hmem_run *run, unsigned int n);
	/* A mark behind all copies begun so far. NULL: none can be made; use settle() instead. */
	struct uccl_hmem_mark *(*mark)(struct uccl_hmem_queue *q);
	/* 1: all copies before the mark are done. 0: not yet. -FI_EIO: one failed. Except for 0, frees the mark. */
	int (*passed)(struct uccl_hmem_queue *q, struct uccl_hmem_mark *mark);
	/* Sleep until all copies before the mark have ended. The mark stays; passed() then gives the result. */
	void (*wait)(struct uccl_hmem_queue *q, struct uccl_hmem_mark *mark);
	/* Wait until all copies of the queue are done. 0, or -FI_EIO if one failed. */
	int (*settle)(struct uccl_hmem_queue *q);
	/* True: NICs may write to this device, since flush() can make their writes visible to it. */
	bool (*direct)(struct uccl_hmem_queue *q);
	/*
	 * A dmabuf of the pages that hold p[0..len), for a NIC; *off becomes the offset of p in it. Returns a
	 * descriptor, which the caller closes. -FI_ENOSYS: the device makes no dmabufs. -FI_EFAULT: not of this memory.
	 */
	int (*dmabuf)(struct uccl_hmem_queue *q, const void *p, uint64_t len, uint64_t *off);
	/* Wait until all earlier writes of NICs are visible to the device. 0, or -FI_EIO. */
	int (*flush)(struct uccl_hmem_queue *q);
};

/* The table for this host's devices. The first call looks for them. NULL: no usable device. */
const struct uccl_hmem_ops *uccl_hmem_find(void);
/* What uccl_hmem_find() missed, as a text for a person; static. NULL: nothing. */
const char *uccl_hmem_missing(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that the processor must not touch: what is asked of its owner, as a table of functions. Each kind of device is
 * one such table (cuda.h); stage.h makes of it what the layer of messages wants. Errors are -FI_Exxx.
 */
#ifndef UCCL_HMEM_HMEM_H
#define UCCL_HMEM_HMEM_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_hmem_queue; /* copies of one device, done in the order in which they were begun */
struct uccl_hmem_mark;	/* a place in a queue */

/* Bytes to copy, from and to memory of the device, or of pin(). */
struct uccl_hmem_run {
	void *to;
	const void *from;
	uint64_t len;
};

/* Most of them that can be begun by one call. */
#define UCCL_HMEM_RUNS 128

struct uccl_hmem_ops {
	const char *name;
	/* How many devices there are. */
	int (*count)(void);
	/* The device whose memory this address is of; -1: it is the host's. Any thread may ask. */
	int (*where)(const void *p);
	/*
	 * The allocation that an address is of: where it begins, its bytes, and a number that no other one ever gets.
	 * -FI_EFAULT: it is of none. Any thread may ask.
	 */
	int (*range)(const void *p, uintptr_t *start, uint64_t *len, uint64_t *id);
	/* The program's own copies to this memory are there when its calls return, from now on. */
	void (*sync)(const void *p);
	/* A queue of its own, which waits for no work of the program. -FI_EIO: the device does not want to. */
	int (*open)(int device, struct uccl_hmem_queue **q);
	/* What was begun must be done before. */
	void (*close)(struct uccl_hmem_queue *q);
	/* Host memory that copies of every device can use without waiting; NULL: none. */
	void *(*pin)(struct uccl_hmem_queue *q, uint64_t len);
	void (*unpin)(struct uccl_hmem_queue *q, void *mem);
	/* Memory of the device for ourselves, at a multiple of a page; NULL: none. Both calls may wait. */
	void *(*take)(struct uccl_hmem_queue *q, uint64_t len);
	void (*give)(struct uccl_hmem_queue *q, void *mem);
	/* Begin a copy; it never waits. `host` is memory of pin(). -FI_EFAULT: this is no memory of the device. */
	int (*put)(struct uccl_hmem_queue *q, void *device, const void *host, uint64_t len);
	int (*get)(struct uccl_hmem_queue *q, void *host, const void *device, uint64_t len);
	int (*move)(struct uccl_hmem_queue *q, void *to, const void *from, uint64_t len);
	/*
	 * Begin n copies at once, by a program of the device; in which order they are done is open. -FI_ENOSYS: the
	 * device has no such program; -FI_EFAULT: it does not want to, and nothing was begun. The first call may take
	 * some ms; n may be 0.
	 */
	int (*scatter)(struct uccl_hmem_queue *q, const struct uccl_hmem_run *run, unsigned int n);
	/* Mark what was begun so far; NULL: it cannot be, and settle() is left. */
	struct uccl_hmem_mark *(*mark)(struct uccl_hmem_queue *q);
	/* 1: everything before it is done; 0: not yet; -FI_EIO: it failed. The mark is gone unless it is 0. */
	int (*passed)(struct uccl_hmem_queue *q, struct uccl_hmem_mark *mark);
	/* Sleep until everything before it is done or has failed; passed() tells which. */
	void (*wait)(struct uccl_hmem_queue *q, struct uccl_hmem_mark *mark);
	/* Wait until all that was begun is done: 0, or -FI_EIO if it failed. */
	int (*settle)(struct uccl_hmem_queue *q);
	/* May NICs write to this device, since flush() can say when it sees what they wrote? */
	bool (*direct)(struct uccl_hmem_queue *q);
	/*
	 * A dmabuf for such NICs, of the pages that have these bytes, which lie from *off on in it: its descriptor,
	 * which is the caller's to close. -FI_ENOSYS: the device has none; -FI_EFAULT: it makes none of this memory.
	 */
	int (*dmabuf)(struct uccl_hmem_queue *q, const void *p, uint64_t len, uint64_t *off);
	/* Until the device sees what NICs wrote to it before. 0, or -FI_EIO. */
	int (*flush)(struct uccl_hmem_queue *q);
};

/* The devices of this host, looked for by the first call; NULL: there are none that serve. */
const struct uccl_hmem_ops *uccl_hmem_find(void);
/* What it did not find; NULL: nothing was missing. */
const char *uccl_hmem_missing(void);

#endif

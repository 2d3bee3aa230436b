/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Buffers in memory that the processor must not touch. The owner of that memory does copies in the order in which they
 * were queued. An operation that waits for a copy goes on when uccl_msg_copies() finds it done. No function here waits,
 * unless its comment says so.
 */
#ifndef UCCL_MSG_DEVICE_COPY_H
#define UCCL_MSG_DEVICE_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

struct uccl_msg_ep;

/*
 * The owner of the memory of devices. Copies are numbered from 1, without gaps; the calls that queue a copy return its
 * number. A copy that fails sets *err to a positive FI_Exxx; `err` must stay valid until the copy is done.
 */
struct uccl_device_ops {
	/* To the device. `keep`: src stays as it is until the copy is done; else it is taken at once. */
	uint64_t (*put)(void *arg, void *dst, const void *src, uint64_t len, bool keep, int *err);
	/* From the device; dst is written before the copy counts as done, by poll() alone. */
	uint64_t (*get)(void *arg, void *dst, const void *src, uint64_t len, int *err);
	/* Within the device, or to another one. */
	uint64_t (*move)(void *arg, void *dst, const void *src, uint64_t len, int *err);
	/* Go on; the number of the last copy that is done with all before it. Never waits. */
	uint64_t (*poll)(void *arg);
	/* The same, for a caller that waits for a copy: it sleeps if no copy ends soon. */
	uint64_t (*wait)(void *arg);
	/*
	 * Memory of the host that get() fills without another copy, and not much of it; NULL: none now. It is given
	 * back when no copy to it is under way.
	 */
	void *(*alloc)(void *arg, uint64_t len);
	void (*free)(void *arg, void *mem);
	/* May payload of peers be taken that must be copied? */
	bool (*room)(void *arg);
	/*
	 * The number of the device that this address is of, if NICs may write to it; -FI_ENOSYS: they may not. Then
	 * flush() stays until the device sees what they wrote: 0, or -FI_EIO. NULL, all five: they may never.
	 */
	int (*direct)(void *arg, const void *p);
	int (*flush)(void *arg, const void *p);
	/* A dmabuf that has these bytes, from *off on; its descriptor is the caller's to close. -FI_Exxx: none. */
	int (*dmabuf)(void *arg, const void *p, uint64_t len, uint64_t *off);
	/* The number of the device that this address is of, if NICs may read it; -FI_ENOSYS: they may not. */
	int (*source)(void *arg, const void *p);
	/*
	 * Allocate `len` bytes on the device that has the address `p`, at a multiple of a page; NULL: none. NICs write
	 * there, and move() takes many short runs from it at once. If both functions are NULL, no such memory exists.
	 */
	void *(*slab)(void *arg, const void *p, uint64_t len);
	void (*slab_free)(void *arg, void *mem);
	/* The allocation it is of: where it begins, its bytes, its number, which no other one ever gets. -FI_EFAULT */
	int (*range)(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id);
};

/* Waits for copies. */
struct uccl_copy {
	TAILQ_ENTRY(uccl_copy) link;
	uint64_t ticket;	/* of the last one of its own; 0: none yet */
	int err;		/* positive FI_Exxx of one that failed */
	bool queued;
	void (*done)(struct uccl_copy *c, uint64_t now);
};

TAILQ_HEAD(uccl_copy_list, uccl_copy);

/*
 * Copy between plain memory and the pieces `iov`, from their byte `off` on. Bit i of `device`: piece i is on a device.
 * Lengths were checked.
 */
void msg_put(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *iov, int n, uint16_t device, uint64_t off,
	     const uint8_t *data, uint64_t len);
void msg_get(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *iov, int n, uint16_t device, uint64_t off,
	     uint8_t *data, uint64_t len);
/* To pieces of memory of a device, from their byte `off` on, from such memory of it; that stays until it is done. */
void msg_gather(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *iov, int n, uint64_t off,
		const uint8_t *data, uint64_t len);
/* Between two sets of pieces, each from its first byte on; both stay valid until it is done. */
void msg_move(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *to, int nto, uint16_t to_device,
	      const struct iovec *from, int nfrom, uint16_t from_device, uint64_t len);

/* Is all done that c has queued? */
bool msg_copied(const struct uccl_msg_ep *m, const struct uccl_copy *c);
/* Call done() when it is; not before this returns. */
void msg_copy_wait(struct uccl_msg_ep *m, struct uccl_copy *c, void (*done)(struct uccl_copy *c, uint64_t now));
/* Stay until it is, for what ends: some microseconds. done() is not called any more. */
void msg_copy_end(struct uccl_msg_ep *m, struct uccl_copy *c);
/* Stay until everything that was queued is done. */
void msg_copies_settle(struct uccl_msg_ep *m);

/* Continue the operations whose copies are done. Returns how many. */
int uccl_msg_copies(struct uccl_msg_ep *m, uint64_t now);

#endif

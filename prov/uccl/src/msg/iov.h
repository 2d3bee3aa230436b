/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Copies between scattered and plain memory, from byte `off` of it on. Lengths were checked. */
#ifndef UCCL_MSG_IOV_H
#define UCCL_MSG_IOV_H

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/* As msg_copy_in(), to any number of pieces. */
void msg_copy_scattered(const struct iovec *iov, int n, uint64_t off, const uint8_t *data, uint64_t len);
static inline void msg_copy_in(const struct iovec *iov, int n, uint64_t off, const uint8_t *data, uint64_t len)
{
	/* Payload scattered by prediction may be in place already, or overlap its place. */
	if (n != 1 || off > iov[0].iov_len || len > iov[0].iov_len - off)
		msg_copy_scattered(iov, n, off, data, len);
	else if ((uint8_t *)iov[0].iov_base + off != data)
		memmove((uint8_t *)iov[0].iov_base + off, data, len);
}
void msg_copy_out(const struct iovec *iov, int n, uint64_t off, uint8_t *data, uint64_t len);

#endif

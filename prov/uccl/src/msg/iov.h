/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Copies between scattered and plain memory, from byte `off` of it on. Lengths were checked. */
#ifndef UCCL_MSG_IOV_H
#define UCCL_MSG_IOV_H

#include <stdint.h>
#include <sys/uio.h>

void msg_copy_in(const struct iovec *iov, int n, uint64_t off, const uint8_t *data, uint64_t len);
void msg_copy_out(const struct iovec *iov, int n, uint64_t off, uint8_t *data, uint64_t len);

#endif

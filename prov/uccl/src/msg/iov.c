/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/iov.h"

#include <string.h>

#include "base/units.h"

void msg_copy_scattered(const struct iovec *iov, int n, uint64_t off, const uint8_t *data, uint64_t len)
{
	for (int i = 0; i < n && len; i++) {
		uint64_t len_here;

		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		len_here = uccl_min(len, iov[i].iov_len - off);
		/* Payload scattered by prediction may be in place already, or overlap its place. */
		if ((uint8_t *)iov[i].iov_base + off != data)
			memmove((uint8_t *)iov[i].iov_base + off, data, len_here);
		data += len_here;
		len -= len_here;
		off = 0;
	}
}

void msg_copy_out(const struct iovec *iov, int n, uint64_t off, uint8_t *data, uint64_t len)
{
	for (int i = 0; i < n && len; i++) {
		uint64_t len_here;

		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		len_here = uccl_min(len, iov[i].iov_len - off);
		memcpy(data, (uint8_t *)iov[i].iov_base + off, len_here);
		data += len_here;
		len -= len_here;
		off = 0;
	}
}

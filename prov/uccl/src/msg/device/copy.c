/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See copy.h. */
#include "msg/device/copy.h"

#include <string.h>

#include "base/units.h"
#include "msg/msg_ep.h"

static void queued(struct uccl_msg_ep *m, struct uccl_copy *c, uint64_t ticket)
{
	c->ticket = ticket;
	m->device.queued = ticket;
}

/* One run of bytes. */
static void copy_one(struct uccl_msg_ep *m, struct uccl_copy *c, uint8_t *to, bool to_device, const uint8_t *from,
		     bool from_device, uint64_t len, bool keep)
{
	if (to_device && from_device)
		queued(m, c, m->device.ops->move(m->device.arg, to, from, len, &c->err));
	else if (to_device)
		queued(m, c, m->device.ops->put(m->device.arg, to, from, len, keep, &c->err));
	else if (from_device)
		queued(m, c, m->device.ops->get(m->device.arg, to, from, len, &c->err));
	else
		memmove(to, from, len);
}

/* Buffers of which the first `off` bytes are passed over. */
struct cursor {
	const struct iovec *iov;
	int n;
	uint16_t device;
	uint64_t off;
};

/* Bytes that lie together; 0: there are no more. */
static uint64_t run_len(struct cursor *p)
{
	for (; p->n && p->off >= p->iov->iov_len; p->n--) {
		p->off -= p->iov->iov_len;
		p->iov++;
		p->device >>= 1;
	}
	return p->n ? p->iov->iov_len - p->off : 0;
}

static void copy_all(struct uccl_msg_ep *m, struct uccl_copy *c, struct cursor to, struct cursor from, uint64_t len,
		     bool keep)
{
	while (len) {
		uint64_t n = uccl_min(len, uccl_min(run_len(&to), run_len(&from)));

		if (!n)
			return;
		copy_one(m, c, (uint8_t *)to.iov->iov_base + to.off, to.device & 1,
			 (const uint8_t *)from.iov->iov_base + from.off, from.device & 1, n, keep);
		to.off += n;
		from.off += n;
		len -= n;
	}
}

void msg_put(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *iov, int n, uint16_t device, uint64_t off,
	     const uint8_t *data, uint64_t len)
{
	struct iovec plain = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };

	copy_all(m, c, (struct cursor){ iov, n, device, off }, (struct cursor){ &plain, 1, 0, 0 }, len, false);
}

void msg_get(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *iov, int n, uint16_t device, uint64_t off,
	     uint8_t *data, uint64_t len)
{
	struct iovec plain = { .iov_base = data, .iov_len = len };

	copy_all(m, c, (struct cursor){ &plain, 1, 0, 0 }, (struct cursor){ iov, n, device, off }, len, false);
}

void msg_gather(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *iov, int n, uint64_t off,
		const uint8_t *data, uint64_t len)
{
	struct iovec lent = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };

	copy_all(m, c, (struct cursor){ iov, n, UINT16_MAX, off }, (struct cursor){ &lent, 1, 1, 0 }, len, true);
}

void msg_move(struct uccl_msg_ep *m, struct uccl_copy *c, const struct iovec *to, int nto, uint16_t to_device,
	      const struct iovec *from, int nfrom, uint16_t from_device, uint64_t len)
{
	copy_all(m, c, (struct cursor){ to, nto, to_device, 0 }, (struct cursor){ from, nfrom, from_device, 0 }, len,
		 true);
}

bool msg_copied(const struct uccl_msg_ep *m, const struct uccl_copy *c)
{
	return c->ticket <= m->device.done;
}

void msg_copy_wait(struct uccl_msg_ep *m, struct uccl_copy *c, void (*done)(struct uccl_copy *c, uint64_t now))
{
	struct uccl_copy *before;

	c->done = done;
	if (c->queued)
		return;
	c->queued = true;
	/* Mostly it is the last. */
	TAILQ_FOREACH_REVERSE(before, &m->device.copies, uccl_copy_list, link)
		if (before->ticket <= c->ticket)
			break;
	if (before)
		TAILQ_INSERT_AFTER(&m->device.copies, before, c, link);
	else
		TAILQ_INSERT_HEAD(&m->device.copies, c, link);
}

static void stay(struct uccl_msg_ep *m, uint64_t ticket)
{
	while (m->device.done < ticket)
		m->device.done = m->device.ops->wait(m->device.arg);
}

void msg_copy_end(struct uccl_msg_ep *m, struct uccl_copy *c)
{
	stay(m, c->ticket);
	if (c->queued)
		TAILQ_REMOVE(&m->device.copies, c, link);
	c->queued = false;
}

void msg_copies_settle(struct uccl_msg_ep *m)
{
	stay(m, m->device.queued);
}

int uccl_msg_copies(struct uccl_msg_ep *m, uint64_t now)
{
	struct uccl_copy *c;
	int n = 0;

	if (m->device.done != m->device.queued)
		m->device.done = m->device.ops->poll(m->device.arg);
	while ((c = TAILQ_FIRST(&m->device.copies)) && c->ticket <= m->device.done) {
		TAILQ_REMOVE(&m->device.copies, c, link);
		c->queued = false;
		c->done(c, now);
		n++;
	}
	return n;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See xsk.h; what rings are and who may write what in them is in the kernel's Documentation/networking/af_xdp.rst. */
#include "nic/xdp/xsk.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <rdma/fi_errno.h>

#include "base/units.h"
#include "nic/ownfd.h"
#include "nic/xdp/xdp_prog.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4) /* Linux 6.6: packets of several frames */
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9 /* Linux 6.17: frames that one call sends, instead of 32 */
#endif
#define BUSY_TRIES 40
#define BUSY_MS 5
#define FRONT sizeof(struct uccl_xdp_stamp) /* of what the program wrote in front of a packet */
#define JOINED (UCCL_XSK_FRAMES_LENT / 2)	     /* long packets that one call hands out */
#define JOINED_BYTES (FRONT + UCCL_XSK_LONG)
#define TX_QUEUE (4 << 20) /* bytes of the kernel's packets on their way out */

static uint32_t load(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* Opening. */

static int ring_map(int fd, struct uccl_xsk_ring *r, uint32_t n, size_t entry, const struct xdp_ring_offset *at,
		    int option, off_t offset)
{
	uint8_t *map;
	int entries = (int)n;

	if (setsockopt(fd, SOL_XDP, option, &entries, sizeof(entries)))
		return -errno;
	r->map_len = at->desc + n * entry;
	map = mmap(NULL, r->map_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
	if (map == MAP_FAILED)
		return -errno;
	/* A forked child that had it would keep the socket on its queue. */
	(void)madvise(map, r->map_len, MADV_DONTFORK);
	r->map = map;
	r->producer = (uint32_t *)(map + at->producer);
	r->consumer = (uint32_t *)(map + at->consumer);
	r->flags = (uint32_t *)(map + at->flags);
	r->entries = map + at->desc;
	r->mask = n - 1;
	return 0;
}

static int memory_make(struct uccl_xsk *x)
{
	struct xdp_umem_reg reg = {.chunk_size = UCCL_XSK_FRAME};
	struct rlimit limit;

	x->memory_len = (size_t)(UCCL_XSK_RX + UCCL_XSK_TX) * UCCL_XSK_FRAME;
	x->memory = mmap(NULL, x->memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
			 0);
	if (x->memory == MAP_FAILED) {
		x->memory = NULL;
		return -FI_ENOMEM;
	}
	/* The kernel holds these very pages: a fork must not make us write to others. */
	(void)madvise(x->memory, x->memory_len, MADV_DONTFORK);
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_MEMLOCK, &limit);
	}
	reg.addr = (uintptr_t)x->memory;
	reg.len = x->memory_len;
	return setsockopt(x->rx.fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) ? -errno : 0;
}

static int offsets_get(int fd, struct xdp_mmap_offsets *at)
{
	socklen_t len = sizeof(*at);

	if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, at, &len))
		return -errno;
	return len == sizeof(*at) ? 0 : -FI_ENOSYS; /* Linux before 5.4, without need-wakeup */
}

static int rx_ring_make(struct uccl_xsk_rx *r, const struct xdp_mmap_offsets *at)
{
	return ring_map(r->fd, &r->ring, UCCL_XSK_RX, sizeof(struct xdp_desc), &at->rx, XDP_RX_RING,
			XDP_PGOFF_RX_RING);
}

static int rings_make(struct uccl_xsk *x)
{
	struct xdp_mmap_offsets at;
	int err = offsets_get(x->rx.fd, &at);

	if (!err)
		err = ring_map(x->rx.fd, &x->fill, UCCL_XSK_RX, sizeof(uint64_t), &at.fr, XDP_UMEM_FILL_RING,
			       (off_t)XDP_UMEM_PGOFF_FILL_RING);
	if (!err)
		err = ring_map(x->rx.fd, &x->done, UCCL_XSK_TX, sizeof(uint64_t), &at.cr, XDP_UMEM_COMPLETION_RING,
			       (off_t)XDP_UMEM_PGOFF_COMPLETION_RING);
	if (!err)
		err = rx_ring_make(&x->rx, &at);
	if (!err)
		err = ring_map(x->rx.fd, &x->tx, UCCL_XSK_TX, sizeof(struct xdp_desc), &at.tx, XDP_TX_RING,
			       (off_t)XDP_PGOFF_TX_RING);
	return err;
}

static int queue_try(struct uccl_xsk *x, int ifindex, uint32_t queues, bool copy)
{
	struct sockaddr_xdp at = {.sxdp_family = AF_XDP,
				  .sxdp_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | (copy ? XDP_COPY : 0) |
							   (x->most > UCCL_XSK_MOST ? XDP_USE_SG : 0)),
				  .sxdp_ifindex = (uint32_t)ifindex};
	struct xdp_options options = {0};
	socklen_t len = sizeof(options);

	for (x->queue = 0; x->queue < queues; x->queue++) {
		at.sxdp_queue_id = x->queue;
		if (!bind(x->rx.fd, (struct sockaddr *)&at, sizeof(at))) {
			x->zero_copy = !getsockopt(x->rx.fd, SOL_XDP, XDP_OPTIONS, &options, &len) &&
				       options.flags & XDP_OPTIONS_ZEROCOPY;
			return 0;
		}
		/* The interface may use fewer queues than it could have. */
		if (errno == EINVAL && x->queue)
			break;
		if (errno != EBUSY)
			return -errno;
	}
	return -FI_EBUSY;
}

/* The kernel gives back the queue of a socket that was closed, or of a process that ended, some time later. */
static int queue_bind(struct uccl_xsk *x, int ifindex, uint32_t queues, bool copy)
{
	int err = queue_try(x, ifindex, queues, copy);

	for (int i = 0; i < BUSY_TRIES && err == -FI_EBUSY; i++) {
		poll(NULL, 0, BUSY_MS);
		err = queue_try(x, ifindex, queues, copy);
	}
	return err;
}

static void frames_init(struct uccl_xsk *x)
{
	uint64_t *fill = x->fill.entries;

	for (uint32_t i = 0; i < UCCL_XSK_RX; i++)
		fill[i] = (uint64_t)i * UCCL_XSK_FRAME;
	x->fill.at = UCCL_XSK_RX;
	store(x->fill.producer, x->fill.at);
	for (uint32_t i = 0; i < UCCL_XSK_TX; i++)
		x->room[i] = UCCL_XSK_RX + UCCL_XSK_TX - 1 - i;
	x->nroom = UCCL_XSK_TX;
}

static void ring_unmap(struct uccl_xsk_ring *r)
{
	if (r->map)
		munmap(r->map, r->map_len);
}

void uccl_xsk_close(struct uccl_xsk *x)
{
	ring_unmap(&x->fill);
	ring_unmap(&x->done);
	ring_unmap(&x->rx.ring);
	ring_unmap(&x->tx);
	if (x->rx.fd >= 0)
		uccl_own_close(x->rx.fd);
	if (x->memory)
		munmap(x->memory, x->memory_len);
	pthread_mutex_destroy(&x->lock);
	free(x->split);
	free(x->rx.joined);
	free(x);
}

static int socket_make(const char **what)
{
	int fd = uccl_own_socket(AF_XDP, SOCK_RAW);

	*what = "to make an AF_XDP socket (that takes CAP_NET_RAW)";
	return fd < 0 ? -errno : fd;
}

int uccl_xsk_may(const char **what)
{
	int fd = socket_make(what);

	if (fd >= 0)
		uccl_own_close(fd);
	return fd < 0 ? fd : 0;
}

static int joined_make(struct uccl_xsk_rx *r)
{
	if (r->of->most > UCCL_XSK_MOST)
		r->joined = malloc(JOINED * JOINED_BYTES);
	return r->of->most > UCCL_XSK_MOST && !r->joined ? -FI_ENOMEM : 0;
}

int uccl_xsk_open(int ifindex, uint32_t queues, bool copy, bool parts, struct uccl_xsk **out, const char **what)
{
	struct uccl_xsk *x = calloc(1, sizeof(*x));
	int size = TX_QUEUE, budget = UCCL_XSK_TX, err;

	*what = "memory";
	if (!x)
		return -FI_ENOMEM;
	pthread_mutex_init(&x->lock, NULL);
	x->rx.of = x;
	x->rx.fd = socket_make(what);
	err = x->rx.fd < 0 ? x->rx.fd : 0;
	if (!err) {
		*what = "12 MiB of locked memory (ulimit -l, or CAP_IPC_LOCK)";
		err = memory_make(x);
	}
	if (!err) {
		*what = "to make rings (that takes Linux 5.4)";
		err = rings_make(x);
	}
	if (!err) {
		frames_init(x);
		*what = "to bind to a queue";
		x->most = parts ? UCCL_XSK_LONG : UCCL_XSK_MOST;
		err = queue_bind(x, ifindex, queues, copy);
	}
	if (parts && (err == -EINVAL || err == -EOPNOTSUPP)) {
		/* A kernel or a driver without. */
		x->most = UCCL_XSK_MOST;
		err = queue_bind(x, ifindex, queues, copy);
	}
	if (!err) {
		*what = "memory";
		x->split = x->most > UCCL_XSK_MOST ? malloc(UCCL_XSK_LONG) : NULL;
		err = x->most > UCCL_XSK_MOST && !x->split ? -FI_ENOMEM : joined_make(&x->rx);
	}
	if (err) {
		uccl_xsk_close(x);
		return err;
	}
	if (setsockopt(x->rx.fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(x->rx.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(x->rx.fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof(budget));
	*out = x;
	return 0;
}

void uccl_xsk_rx_close(struct uccl_xsk_rx *r)
{
	ring_unmap(&r->ring);
	if (r->fd >= 0)
		uccl_own_close(r->fd);
	free(r->joined);
	free(r);
}

int uccl_xsk_rx_open(struct uccl_xsk *of, int ifindex, struct uccl_xsk_rx **out, const char **what)
{
	struct sockaddr_xdp at = {.sxdp_family = AF_XDP,
				  .sxdp_flags = XDP_SHARED_UMEM,
				  .sxdp_ifindex = (uint32_t)ifindex,
				  .sxdp_queue_id = of->queue,
				  .sxdp_shared_umem_fd = (uint32_t)of->rx.fd};
	struct uccl_xsk_rx *r = calloc(1, sizeof(*r));
	struct xdp_mmap_offsets offsets;
	int err;

	*what = "memory";
	if (!r)
		return -FI_ENOMEM;
	r->of = of;
	r->fd = socket_make(what);
	err = r->fd < 0 ? r->fd : 0;
	if (!err) {
		*what = "to share a queue";
		err = offsets_get(r->fd, &offsets);
	}
	if (!err)
		err = rx_ring_make(r, &offsets);
	if (!err)
		err = joined_make(r);
	if (!err && bind(r->fd, (struct sockaddr *)&at, sizeof(at)))
		err = -errno;
	if (err) {
		uccl_xsk_rx_close(r);
		return err;
	}
	*out = r;
	return 0;
}

/* Receiving. */

static void frames_return(struct uccl_xsk_rx *r)
{
	struct uccl_xsk *x = r->of;
	uint64_t *fill = x->fill.entries;

	if (!r->nlent)
		return;
	pthread_mutex_lock(&x->lock);
	/* There always is room: no more frames exist than the ring can hold. */
	for (uint32_t i = 0; i < r->nlent; i++)
		fill[x->fill.at++ & x->fill.mask] = r->lent[i];
	store(x->fill.producer, x->fill.at);
	pthread_mutex_unlock(&x->lock);
	r->nlent = 0;
	if (*x->fill.flags & XDP_RING_NEED_WAKEUP)
		(void)recvfrom(x->rx.fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/* How many frames the next packet is, of `have`; 0: it does not end there. */
static uint32_t frames_of_next(const struct uccl_xsk_rx *r, uint32_t have)
{
	const struct xdp_desc *desc = r->ring.entries;

	for (uint32_t i = 0; i < have; i++)
		if (!(desc[(r->ring.at + i) & r->ring.mask].options & XDP_PKT_CONTD))
			return i + 1;
	return 0;
}

/* A packet of several frames in one piece, with what stands in front of it. False: it is too long. */
static bool join(struct uccl_xsk_rx *r, uint32_t frames, uint8_t *room, struct uccl_xsk_frame *out)
{
	const struct xdp_desc *desc = r->ring.entries;
	uint32_t len = 0;

	for (uint32_t i = 0; i < frames; i++) {
		const struct xdp_desc *d = &desc[(r->ring.at + i) & r->ring.mask];

		if (d->len > UCCL_XSK_LONG - len)
			return false;
		if (!i)
			memcpy(room, r->of->memory + d->addr - FRONT, FRONT);
		memcpy(room + FRONT + len, r->of->memory + d->addr, d->len);
		len += d->len;
	}
	*out = (struct uccl_xsk_frame){room + FRONT, len};
	return true;
}

int uccl_xsk_rx(struct uccl_xsk_rx *r, struct uccl_xsk_frame *v, int n)
{
	const struct xdp_desc *desc = r->ring.entries;
	uint32_t have, frames, joined = 0;
	int got = 0;

	frames_return(r);
	have = load(r->ring.producer) - r->ring.at;
	have = (uint32_t)uccl_min(have, UCCL_XSK_FRAMES_LENT);
	while (got < n && (frames = frames_of_next(r, have))) {
		const struct xdp_desc *d = &desc[r->ring.at & r->ring.mask];

		if (frames == 1)
			v[got++] = (struct uccl_xsk_frame){r->of->memory + d->addr, d->len};
		else if (r->joined && join(r, frames, r->joined + joined * JOINED_BYTES, &v[got]))
			got++, joined++;
		else
			r->oversized++;
		have -= frames;
		while (frames--)
			r->lent[r->nlent++] =
				desc[r->ring.at++ & r->ring.mask].addr & ~(uint64_t)(UCCL_XSK_FRAME - 1);
	}
	if (r->nlent)
		store(r->ring.consumer, r->ring.at);
	return got;
}

/* Sending. */

static void done_take(struct uccl_xsk *x)
{
	const uint64_t *done = x->done.entries;
	uint32_t end = load(x->done.producer);

	if (x->done.at == end)
		return;
	while (x->done.at != end)
		x->room[x->nroom++] = (uint32_t)(done[x->done.at++ & x->done.mask] / UCCL_XSK_FRAME);
	store(x->done.consumer, x->done.at);
}

uint8_t *uccl_xsk_room(struct uccl_xsk *x, uint32_t len)
{
	uint32_t need = len > UCCL_XSK_FRAME ? UCCL_XSK_PARTS : 1;

	if (x->nroom < need)
		done_take(x);
	if (x->nroom < need)
		return NULL;
	return need > 1 ? x->split : x->memory + (size_t)x->room[x->nroom - 1] * UCCL_XSK_FRAME;
}

void uccl_xsk_put(struct uccl_xsk *x, uint32_t len)
{
	struct xdp_desc *desc = x->tx.entries;
	const uint8_t *from = len > UCCL_XSK_FRAME ? x->split : NULL;

	/* The ring has a place for each frame. */
	for (uint32_t done = 0, part; done < len; done += part) {
		uint64_t addr = (uint64_t)x->room[--x->nroom] * UCCL_XSK_FRAME;

		part = (uint32_t)uccl_min(len - done, UCCL_XSK_FRAME);
		if (from)
			memcpy(x->memory + addr, from + done, part);
		desc[x->tx.at++ & x->tx.mask] = (struct xdp_desc){
			.addr = addr, .len = part, .options = done + part < len ? XDP_PKT_CONTD : 0};
	}
}

bool uccl_xsk_waits(const struct uccl_xsk *x)
{
	return load(x->tx.consumer) != x->tx.at;
}

int uccl_xsk_kick(struct uccl_xsk *x)
{
	uint32_t before;

	store(x->tx.producer, x->tx.at);
	/* Without copies the driver goes on by itself, until it says that it does not. */
	if (x->zero_copy && !(__atomic_load_n(x->tx.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP))
		return 0;
	while ((before = load(x->tx.consumer)) != x->tx.at) {
		int rc = (int)sendto(x->rx.fd, NULL, 0, MSG_DONTWAIT, NULL, 0);

		x->kicks++;
		if (rc < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != EINTR)
			return -errno;
		if (x->zero_copy)
			return 0;
		/* A call sends a number of frames; or none, as too many are on their way. */
		if (load(x->tx.consumer) == before)
			return -FI_EAGAIN;
	}
	return 0;
}

uint64_t uccl_xsk_dropped(const struct uccl_xsk_rx *r)
{
	struct xdp_statistics s = {0};
	socklen_t len = sizeof(s);

	if (getsockopt(r->fd, SOL_XDP, XDP_STATISTICS, &s, &len))
		return 0;
	return r->oversized + s.rx_dropped + s.rx_ring_full + s.rx_fill_ring_empty_descs;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_gpu.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

/* Registrations that are kept while nothing is sent from there. They hold the memory when the program gives it up. */
#define KEPT 256
#define KEPT_BYTES (1ull << 30)

enum way { WAY_UNKNOWN, WAY_DMABUF, WAY_PEER, WAY_NONE };

/* Says nothing of the next registration. */
static bool scarce(int rc)
{
	return rc == -FI_ENOMEM || rc == -FI_EAGAIN || rc == -FI_EMFILE || rc == -ENFILE || rc == -FI_EINTR;
}

static int made(const struct ibv_mr *mr)
{
	return mr ? 0 : uccl_verbs_error();
}

static struct ibv_mr *reg_dmabuf(const struct uccl_verbs *lib, struct ibv_pd *pd, void *buf, uint64_t len,
				 uint64_t iova, int access, const struct uccl_nic_device *device)
{
	struct ibv_mr *mr;
	uint64_t off;
	int fd, err;

	fd = lib->reg_dmabuf_mr ? device->dmabuf(device->arg, buf, len, &off) : -FI_ENOSYS;
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	mr = lib->reg_dmabuf_mr(pd, off, len, iova, fd, access);
	err = errno;
	/* The registration has a reference of its own. */
	close(fd);
	errno = err;
	return mr;
}

static void told(struct uccl_verbs_gpus *g, const char *name, int number, enum way way, int by_dmabuf, int by_peer)
{
	static const char *const how[] = {
		[WAY_DMABUF] = "as a dmabuf",
		[WAY_PEER] = "by its address (peer memory)",
	};

	atomic_store(&g->method[number], way);
	if (way == WAY_NONE)
		UCCL_LOG(UCCL_LOG_WARN,
			 "%s: memory of GPU %d cannot be registered, so payload is copied: as a dmabuf: %s; by its "
			 "address: %s (is nvidia-peermem loaded?)",
			 name, number, strerror(-by_dmabuf), strerror(-by_peer));
	else
		UCCL_LOG(UCCL_LOG_INFO, "%s: memory of GPU %d is registered %s", name, number, how[way]);
}

/* The way that worked once is the only one that is tried again. PROTOCOL R192 */
int uccl_verbs_gpu_reg(struct uccl_verbs_gpus *g, const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name,
		       void *buf, uint64_t len, uint64_t iova, int access, const struct uccl_nic_device *device,
		       struct ibv_mr **out)
{
	int number = device->number, by_dmabuf = -FI_ENOSYS, rc;
	uint8_t way = number < UCCL_VERBS_GPUS ? atomic_load(&g->method[number]) : WAY_NONE;

	if (way == WAY_NONE)
		return -FI_EOPNOTSUPP;
	if (way != WAY_PEER) {
		*out = reg_dmabuf(lib, pd, buf, len, iova, access, device);
		by_dmabuf = rc = made(*out);
		if (!rc && way == WAY_UNKNOWN)
			told(g, name, number, WAY_DMABUF, 0, 0);
		if (!rc || way == WAY_DMABUF || scarce(rc))
			return rc;
	}
	*out = lib->reg_mr_iova(pd, buf, len, iova, access);
	rc = made(*out);
	if (way != WAY_UNKNOWN || scarce(rc))
		return rc;
	if (!rc)
		told(g, name, number, WAY_PEER, 0, 0);
	else if (atomic_fetch_add(&g->failed[number], 1) + 1 == UCCL_VERBS_GPU_TRIES)
		told(g, name, number, WAY_NONE, by_dmabuf, rc);
	return rc;
}

/* The NIC may read it, and nobody else: what is sent from there is called as the program calls it. PROTOCOL R221 */
static int keep_reg(void *arg, void *start, uint64_t len, const struct uccl_nic_device *device, void **mr)
{
	struct uccl_verbs_gpu_keep *k = arg;
	struct ibv_mr *got;
	int rc = uccl_verbs_gpu_reg(k->gpus, k->lib, k->pd, k->name, start, len, (uintptr_t)start, 0, device, &got);

	*mr = got;
	return rc;
}

static void keep_dereg(void *arg, void *mr)
{
	struct uccl_verbs_gpu_keep *k = arg;

	uccl_verbs_dereg(k->lib, mr, k->name);
}

static const struct uccl_devcache_ops keep_ops = {.reg = keep_reg, .dereg = keep_dereg};

int uccl_verbs_gpu_keep_open(struct uccl_verbs_gpu_keep *k, struct uccl_verbs_gpus *gpus, const struct uccl_verbs *lib,
			     struct ibv_pd *pd, const char *name)
{
	*k = (struct uccl_verbs_gpu_keep){.gpus = gpus, .lib = lib, .pd = pd, .name = name};
	return uccl_devcache_open(&keep_ops, k, KEPT, KEPT_BYTES, &k->cache);
}

void uccl_verbs_gpu_keep_close(struct uccl_verbs_gpu_keep *k)
{
	uccl_devcache_close(k->cache);
	k->cache = NULL;
}

#endif

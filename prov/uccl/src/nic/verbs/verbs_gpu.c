/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_gpu.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"

/* Limits on unused registrations. Each keeps its memory from being freed, also after the program has freed it. */
#define KEPT 256
#define KEPT_BYTES (1ull << 30)

enum method { METHOD_UNKNOWN, METHOD_DMABUF, METHOD_PEER, METHOD_NONE };

/* A shortage: the next registration may succeed. */
static bool shortage(int rc)
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

static void method_set(struct uccl_verbs_gpus *g, const char *name, int number, enum method method, int by_dmabuf,
		       int by_peer)
{
	static const char *const how[] = {
		[METHOD_DMABUF] = "as a dmabuf",
		[METHOD_PEER] = "by its address (peer memory)",
	};

	atomic_store(&g->method[number], method);
	if (method == METHOD_NONE)
		UCCL_LOG(UCCL_LOG_WARN,
			 "%s: memory of GPU %d cannot be registered, so payload is copied: as a dmabuf: %s; by its "
			 "address: %s (is nvidia-peermem loaded?)",
			 name, number, strerror(-by_dmabuf), strerror(-by_peer));
	else
		UCCL_LOG(UCCL_LOG_INFO, "%s: memory of GPU %d is registered %s", name, number, how[method]);
}

/* Only the method that worked once is tried again. PROTOCOL R192 */
int uccl_verbs_gpu_reg(struct uccl_verbs_gpus *g, const struct uccl_verbs *lib, struct ibv_pd *pd, const char *name,
		       void *buf, uint64_t len, uint64_t iova, int access, const struct uccl_nic_device *device,
		       struct ibv_mr **out)
{
	int number = device->number, by_dmabuf = -FI_ENOSYS, rc;
	uint8_t method = number < UCCL_VERBS_GPUS ? atomic_load(&g->method[number]) : METHOD_NONE;

	if (method == METHOD_NONE)
		return -FI_EOPNOTSUPP;
	if (method != METHOD_PEER) {
		*out = reg_dmabuf(lib, pd, buf, len, iova, access, device);
		by_dmabuf = rc = made(*out);
		if (!rc && method == METHOD_UNKNOWN)
			method_set(g, name, number, METHOD_DMABUF, 0, 0);
		if (!rc || method == METHOD_DMABUF || shortage(rc))
			return rc;
	}
	*out = lib->reg_mr_iova(pd, buf, len, iova, access);
	rc = made(*out);
	if (method != METHOD_UNKNOWN || shortage(rc))
		return rc;
	if (!rc)
		method_set(g, name, number, METHOD_PEER, 0, 0);
	else if (atomic_fetch_add(&g->failed[number], 1) + 1 == UCCL_VERBS_GPU_TRIES)
		method_set(g, name, number, METHOD_NONE, by_dmabuf, rc);
	return rc;
}

/* Only the NIC may read it, at the program's own addresses. PROTOCOL R221 */
static int keep_reg(void *arg, uintptr_t start, uint64_t len, const struct uccl_nic_device *device, void **mr)
{
	struct uccl_verbs_gpu_keep *k = arg;
	struct ibv_mr *got;
	int rc = uccl_verbs_gpu_reg(k->gpus, k->lib, k->pd, k->name, (void *)start, len, start, 0, device, &got);

	*mr = got;
	return rc;
}

static void keep_dereg(void *arg, void *mr)
{
	struct uccl_verbs_gpu_keep *k = arg;

	uccl_verbs_dereg(k->lib, mr, k->name);
}

static const struct uccl_mrcache_ops keep_ops = {.reg = keep_reg, .dereg = keep_dereg};

int uccl_verbs_gpu_keep_open(struct uccl_verbs_gpu_keep *k, struct uccl_verbs_gpus *gpus, const struct uccl_verbs *lib,
			     struct ibv_pd *pd, const char *name)
{
	*k = (struct uccl_verbs_gpu_keep){.gpus = gpus, .lib = lib, .pd = pd, .name = name};
	return uccl_mrcache_open(&keep_ops, k, true, KEPT, KEPT_BYTES, &k->cache);
}

void uccl_verbs_gpu_keep_close(struct uccl_verbs_gpu_keep *k)
{
	uccl_mrcache_close(k->cache);
	k->cache = NULL;
}

#endif

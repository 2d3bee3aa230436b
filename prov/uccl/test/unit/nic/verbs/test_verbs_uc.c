/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* verbs-uc and verbs-rc back ends on fake NICs (verbs_uc.c, verbs_uc_set.c, verbs_sq.c). */
#include "nic/verbs/uc_state.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/le.h"
#include "base/log.h"
#include "base/rng.h"
#include "../fake_verbs.h"

#define PATHS 4

struct place {
	void *mr;
	uint64_t rkey, raddr;
};

static struct fake_verbs *fake;
static struct fake_dev *dev[2];
static uint64_t now;
static struct uccl_rng rng;
static struct uccl_nic *nic[2];
static struct uccl_nic_peer *peer[2];
static uint8_t src[65536], dst[2][65536];
static bool on[2][PATHS]; /* what the events said last */
static int fenced[2][PATHS];
static int freed[2];	  /* writes whose payload is free again */
static uint64_t freed_last[2];
static uint32_t label_seen; /* of the latest write */
static struct place target; /* dst[1], in tests that begin_joined() prepares */

/* Memory of a device: a file, of which the processor has no address; `dst[0]` is what it seems to be at. */
static struct {
	int fd, calls, err;
	uint8_t *bytes;
	uint64_t number;
} gpu;

static uint64_t clock_read(void)
{
	return now += UCCL_NS_PER_US;
}

static int begin(void **state)
{
	now = UCCL_NS_PER_S;
	uccl_rng_seed(&rng, 5);
	fake = fake_verbs_new();
	dev[0] = fake_verbs_add(fake, "rxe0", 1, NULL);
	dev[1] = fake_verbs_add(fake, "rxe1", 2, NULL);
	dev[0]->attr.vendor_id = dev[1]->attr.vendor_id = 0xffffff;
	memset(nic, 0, sizeof(nic));
	memset(on, 0, sizeof(on));
	memset(fenced, 0, sizeof(fenced));
	memset(freed, 0, sizeof(freed));
	memset(&target, 0, sizeof(target));
	gpu.bytes = NULL;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)uccl_rng_next(&rng);
	return 0;
}

static int end(void **state)
{
	if (target.mr)
		nic[1]->ops->dereg(nic[1], target.mr, true);
	for (int i = 0; i < 2; i++)
		if (nic[i])
			nic[i]->ops->close(nic[i]);
	if (gpu.bytes) {
		munmap(gpu.bytes, sizeof(dst[0]) + 8192);
		close(gpu.fd);
	}
	return fake_verbs_end(fake);
}

static int open_rc(int i, enum ibv_qp_type type, uint32_t max_qp)
{
	struct uccl_nic_attr attr = {.ifname = i ? "rxe1" : "rxe0", .max_qp = max_qp};

	return uccl_verbs_uc_open(fake_verbs_lib(), clock_read, type, &attr, &nic[i]);
}

static void open_both(enum ibv_qp_type type)
{
	struct uccl_nic_addr to;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(open_rc(i, type, 0), 0);
		/* The first one leads. */
		uc_of(nic[i])->dev->process = (uint64_t)i + 1;
	}
	for (int i = 0; i < 2; i++) {
		nic[!i]->ops->addr(nic[!i], &to);
		assert_int_equal(nic[i]->ops->connect(nic[i], &to, 100 + (uint64_t)i, PATHS, &peer[i]), 0);
	}
}

static const struct uc_dev *shared(int i)
{
	return uc_of(nic[i])->dev;
}

static struct uc_path *path(int i, int k)
{
	return &((struct uc_peer *)peer[i])->set->path[k];
}

static enum fake_fate label_hook(void *arg, const struct fake_packet *p)
{
	if (p->type != IBV_QPT_UD)
		label_seen = p->flow_label;
	return FAKE_PASS;
}

/* Events until there are none. Returns how many writes came; the last of them is in *last. */
static int events(int i, struct uccl_rx *last)
{
	struct uccl_rx v[16];
	int writes = 0, n;

	do {
		n = nic[i]->ops->rx(nic[i], v, 16, NULL, 0);
		for (int k = 0; k < n; k++) {
			assert_int_equal(v[k].peer_id, 100 + i);
			if (v[k].kind == UCCL_RX_SENT) {
				freed[i]++;
				freed_last[i] = v[k].cookie;
				continue;
			}
			assert_ptr_equal(v[k].peer, peer[i]);
			if (v[k].kind == UCCL_RX_WRITE) {
				writes++;
				if (last)
					*last = v[k];
				continue;
			}
			if (v[k].kind == UCCL_RX_FENCED) {
				fenced[i][v[k].path]++;
				continue;
			}
			assert_true(v[k].kind == UCCL_RX_WRITE_ON || v[k].kind == UCCL_RX_WRITE_OFF);
			on[i][v[k].path] = v[k].kind == UCCL_RX_WRITE_ON;
		}
	} while (n);
	return writes;
}

/* What has been said and not heard yet, each of them once, in an order that a test chooses. */
static struct {
	int to;
	uint32_t len;
	uint8_t buf[256];
} said[4096];
static int nsaid;

static void say(int from, uint32_t room)
{
	while ((said[nsaid].len = nic[from]->ops->offer(nic[from], peer[from], said[nsaid].buf, room))) {
		assert_true(said[nsaid].len <= room);
		said[nsaid++].to = !from;
		assert_true(nsaid < 4096);
	}
}

static void hear(int i)
{
	int to = said[i].to;

	assert_int_equal(nic[to]->ops->accept(nic[to], peer[to], said[i].buf, said[i].len), 0);
	said[i] = said[--nsaid];
}

/* All is said and heard, any order. */
static void settle(void)
{
	do {
		for (int i = 0; i < 2; i++) {
			events(i, NULL);
			say(i, 64);
		}
		while (nsaid)
			hear((int)uccl_rng_below(&rng, (uint64_t)nsaid));
		for (int i = 0; i < 2; i++) {
			events(i, NULL);
			say(i, 256);
		}
	} while (nsaid);
}

/* Both know which set they use; of its queue pairs nothing was said yet. */
static void meet(void)
{
	nic[0]->ops->prepare(nic[0], peer[0]);
	for (int i = 0; i < 4; i++) {
		say(i % 2, 256);
		assert_int_equal(nsaid, 1);
		hear(0);
	}
	assert_true(((struct uc_peer *)peer[0])->joined && ((struct uc_peer *)peer[1])->joined);
}

static void join(enum ibv_qp_type type)
{
	open_both(type);
	assert_int_equal(nic[0]->ops->prepare(nic[0], peer[0]), -FI_EAGAIN);
	settle();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(nic[i]->ops->prepare(nic[i], peer[i]), 0);
		for (int k = 0; k < PATHS; k++)
			assert_true(on[i][k]);
	}
}

static struct place place(int i)
{
	struct place p;

	assert_int_equal(nic[i]->ops->reg(nic[i], dst[i], sizeof(dst[i]), &p.mr, &p.rkey, &p.raddr), 0);
	return p;
}

/* Two UC back ends that may write; `target` is a place for such writes. */
static int begin_joined(void **state)
{
	int rc = begin(state);

	join(IBV_QPT_UC);
	target = place(1);
	return rc;
}

static struct uccl_tx write_of(int from, const struct place *p, uint16_t k, uint32_t imm, uint32_t off, uint32_t len)
{
	return (struct uccl_tx){.kind = UCCL_TX_WRITE,
				.path = k,
				.payload = src + off,
				.payload_len = len,
				.imm = imm,
				.rkey = p->rkey,
				.raddr = p->raddr + off,
				.cookie = imm,
				.peer = peer[from]};
}

/* Send one write, which is taken. */
static void write_one(int from, const struct place *p, uint16_t k, uint32_t imm, uint32_t off, uint32_t len)
{
	struct uccl_tx t = write_of(from, p, k, imm, off, len);

	assert_int_equal(nic[from]->ops->tx(nic[from], &t, 1), 1);
}

TEST_IN(open__caps, begin, end)
{
	open_both(IBV_QPT_UC);
	/* PROTOCOL R255 */
	assert_int_equal(nic[0]->caps.write_max, 32768);
	assert_true(nic[0]->caps.write_brittle);
	assert_true(nic[0]->caps.tx_sync && nic[0]->caps.write_async);
	assert_true(nic[0]->caps.dereg_fences);
	/* As many receives for writes as are granted, and as many again. */
	assert_true(uc_of(nic[0])->dev->queues.srq_depth >= 2 * nic[0]->caps.rx_slots);
	assert_string_equal(nic[0]->ops->name, "verbs-uc");
	nic[0]->ops->close(nic[0]);
	assert_int_equal(open_rc(0, IBV_QPT_RC, 0), 0);
	assert_int_equal(nic[0]->caps.write_max, 32768);
	assert_false(nic[0]->caps.write_brittle);
	assert_string_equal(nic[0]->ops->name, "verbs-rc");
	nic[0]->ops->close(nic[0]);
	dev[0]->attr.vendor_id = 0x2c9;
	assert_int_equal(open_rc(0, IBV_QPT_UC, 0), 0);
	assert_int_equal(nic[0]->caps.write_max, 32768);
	assert_false(nic[0]->caps.write_brittle);
}

/* What a person wishes, from one packet to 32. */
TEST_IN(open__write_bytes, begin, end)
{
	static const uint32_t wanted[][2] = {{1, 4096}, {8192, 8192}, {131072, 131072}, {1u << 30, 131072}};

	for (size_t i = 0; i < uccl_array_len(wanted); i++) {
		struct uccl_nic_attr attr = {.ifname = "rxe0", .write_bytes = wanted[i][0]};

		assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &nic[0]), 0);
		assert_int_equal(nic[0]->caps.write_max, wanted[i][1]);
		assert_false(nic[0]->caps.write_brittle);
		assert_int_equal(uc_of(nic[0])->dev->tx.slab.stride, wanted[i][1]);
		nic[0]->ops->close(nic[0]);
		nic[0] = NULL;
	}
}

/* The headers and bodies of writes that are copied are on the nodes of the NIC, as the memory of UD is. */
TEST_IN(open__memory_near, begin, end)
{
	struct uccl_nic_attr attr = {.ifname = "rxe0", .nodes = 1};

	if (!fake_verbs_numa())
		skip();
	assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &nic[0]), 0);
	assert_int_equal(fake->near, 3);
}

/* A shared receive queue that holds less: fewer slots, or none at all. */
TEST_IN(open__small_srq, begin, end)
{
	dev[0]->attr.max_srq_wr = 300;
	assert_int_equal(open_rc(0, IBV_QPT_UC, 0), 0);
	assert_int_equal(nic[0]->caps.rx_slots, 150);
	nic[0]->ops->close(nic[0]);
	nic[0] = NULL;
	dev[0]->attr.max_srq_wr = 7;
	assert_int_equal(open_rc(0, IBV_QPT_UC, 0), -FI_ENOSPC);
}

TEST_IN(open__none_of_that_kind, begin, end)
{
	/* Three of verbs-ud. */
	fake_verbs_fail(fake, "create_qp", 4, EOPNOTSUPP);
	assert_int_equal(open_rc(0, IBV_QPT_UC, 0), -FI_ENOSYS);
	assert_int_equal(fake_verbs_live(fake), 0);
}

/* Whatever fails, nothing is left. */
TEST_IN(open__errors, begin, end)
{
	static const char *const calls[] = {"open_device", "alloc_pd", "reg_mr", "create_comp_channel", "create_cq",
					    "create_srq", "create_qp", "modify_qp", "post_srq_recv", "post_recv"};
	int failed = 0;

	for (size_t c = 0; c < uccl_array_len(calls); c++) {
		for (unsigned int n = 1; n < 8; n++) {
			fake_verbs_fail(fake, calls[c], n, EIO);
			if (open_rc(0, IBV_QPT_UC, 0))
				failed++;
			else
				nic[0]->ops->close(nic[0]);
			nic[0] = NULL;
			assert_int_equal(fake_verbs_live(fake), 0);
			fake_verbs_fail(fake, calls[c], 0, 0);
		}
	}
	assert_true(failed > 15);
}

TEST_IN(reg__elsewhere, begin, end)
{
	struct place p, q;

	open_both(IBV_QPT_UC);
	p = place(0);
	q = place(0);
	assert_true(p.rkey && q.rkey);
	assert_true(p.raddr != (uintptr_t)dst[0] && p.raddr != q.raddr);
	assert_int_equal(p.raddr & 4095, (uintptr_t)dst[0] & 4095);
	nic[0]->ops->dereg(nic[0], p.mr, true);
	nic[0]->ops->dereg(nic[0], q.mr, true);
	fake_verbs_fail(fake, "reg_mr_iova", 1, ENOMEM);
	assert_int_equal(nic[0]->ops->reg(nic[0], dst[0], 10, &p.mr, &p.rkey, &p.raddr), -ENOMEM);
}

/* Windows where the NIC has such that keep writes out and within bounds, or as a person wishes. */
TEST_IN(reg__windows, begin, end)
{
	static const struct {
		bool loose, leaky, none;
		enum uccl_windows wanted;
		bool used;
	} cases[] = {
		{.used = true},
		{.wanted = UCCL_WINDOWS_ON, .used = true},
		{.wanted = UCCL_WINDOWS_OFF},
		{.loose = true},
		{.loose = true, .wanted = UCCL_WINDOWS_ON, .used = true},
		{.leaky = true},
		{.leaky = true, .wanted = UCCL_WINDOWS_ON},
		{.none = true},
		{.none = true, .wanted = UCCL_WINDOWS_ON},
	};

	for (size_t i = 0; i < uccl_array_len(cases); i++) {
		struct uccl_nic_attr attr = {.ifname = "rxe0", .windows = cases[i].wanted};
		struct uccl_stats s;
		struct place p, q;

		fake_verbs_windows(dev[0]);
		if (cases[i].none)
			dev[0]->attr.device_cap_flags = 0;
		dev[0]->loose_windows = cases[i].loose;
		dev[0]->leaky_windows = cases[i].leaky;
		assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &nic[0]), 0);
		if (!i && !uc_of(nic[0])->dev->windows)
			skip(); /* the host does not say when memory goes away */
		p = place(0);
		q = place(0);
		assert_true(p.rkey > UINT32_MAX && q.rkey > UINT32_MAX && p.rkey != q.rkey);
		assert_true(p.raddr != (uintptr_t)dst[0]);
		assert_int_equal(p.raddr & 4095, (uintptr_t)dst[0] & 4095);
		memset(&s, 0, sizeof(s));
		nic[0]->ops->count(nic[0], &s);
		assert_int_equal(s.mw_bound, cases[i].used ? 2 : 0);
		assert_int_equal(s.mw_failed, 0);
		assert_int_equal(fake->mws, cases[i].used ? 2 : 0);
		nic[0]->ops->dereg(nic[0], p.mr, true);
		nic[0]->ops->dereg(nic[0], q.mr, true);
		/* The number stays, unless somebody may still write by it. */
		p = place(0);
		assert_int_equal(p.raddr == q.raddr, cases[i].used);
		nic[0]->ops->dereg(nic[0], p.mr, false);
		q = place(0);
		assert_true(p.raddr != q.raddr);
		nic[0]->ops->dereg(nic[0], q.mr, true);
		nic[0]->ops->close(nic[0]);
		nic[0] = NULL;
		assert_int_equal(fake_verbs_live(fake), 0);
	}
}

static char logged[256]; /* the latest about windows */

static void log_read(int level, const char *func, int line, const char *text)
{
	if (strstr(text, "windows"))
		snprintf(logged, sizeof(logged), "%s", text);
}

/* Where they cannot be had the log says why, whatever failed, and all else works. */
TEST_IN(open__why_no_windows, begin, end)
{
	unsigned int calls;

	fake_verbs_windows(dev[0]);
	assert_int_equal(open_rc(0, IBV_QPT_UC, 0), 0);
	nic[0]->ops->close(nic[0]);
	calls = fake_verbs_calls(fake, "create_qp");
	uccl_log_set(log_read, UCCL_LOG_INFO);
	for (unsigned int n = calls; n > calls - 5; n--) {
		logged[0] = '\0';
		fake_verbs_fail(fake, "create_qp", n, EMFILE);
		assert_int_equal(open_rc(0, IBV_QPT_UC, 0), 0);
		assert_null(uc_of(nic[0])->dev->windows);
		assert_non_null(strstr(logged, "rxe0: no memory windows: cannot "));
		nic[0]->ops->close(nic[0]);
		nic[0] = NULL;
		fake_verbs_fail(fake, "create_qp", 0, 0);
	}
	uccl_log_set(NULL, 0);
}

static int gpu_dmabuf(void *arg, const void *p, uint64_t len, uint64_t *off)
{
	uintptr_t start = (uintptr_t)dst[0] & ~(uintptr_t)4095;
	int fd;

	assert_ptr_equal(arg, &gpu);
	assert_true((uint8_t *)p >= dst[0] && (uint8_t *)p + len <= dst[0] + sizeof(dst[0]));
	gpu.calls++;
	if (gpu.err)
		return gpu.err;
	fd = dup(gpu.fd);
	*off = (uintptr_t)p - start;
	return fd;
}

static void *gpu_peer_memory(void *addr)
{
	return gpu.bytes + ((uintptr_t)addr - ((uintptr_t)dst[0] & ~(uintptr_t)4095));
}

static void *no_peer_memory(void *addr)
{
	return NULL;
}

static int gpu_range(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id)
{
	assert_ptr_equal(arg, &gpu);
	*start = (uintptr_t)dst[0];
	*len = sizeof(dst[0]);
	*id = gpu.number;
	return 0;
}

static const struct uccl_nic_device gpu_device = {
	.number = 3, .dmabuf = gpu_dmabuf, .range = gpu_range, .arg = &gpu};

static void gpu_begin(void)
{
	size_t bytes = sizeof(dst[0]) + 8192;

	memset(&gpu, 0, sizeof(gpu));
	gpu.fd = memfd_create("gpu", 0);
	assert_int_equal(ftruncate(gpu.fd, (off_t)bytes), 0);
	gpu.bytes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, gpu.fd, 0);
	fake->peer_memory = no_peer_memory;
}

static int gpu_reg(int i, uint32_t off, uint32_t len, struct place *p)
{
	return nic[i]->ops->reg_device(nic[i], dst[0] + off, len, &gpu_device, &p->mr, &p->rkey, &p->raddr);
}

/* A way that works is the one for all that comes; the other one is not tried again. PROTOCOL R192 */
TEST_IN(reg_device__dmabuf, begin, end)
{
	struct place p, q;
	unsigned int calls;
	int free_fd;

	open_both(IBV_QPT_UC);
	gpu_begin();
	free_fd = dup(gpu.fd);
	close(free_fd);
	assert_int_equal(gpu_reg(0, 777, 9000, &p), 0);
	assert_int_equal(fake->dmabufs, 1);
	assert_true(p.rkey && p.raddr != (uintptr_t)dst[0] + 777);
	assert_int_equal(p.raddr & 4095, ((uintptr_t)dst[0] + 777) & 4095);
	/* The descriptor was given back, the region is there still. */
	assert_int_equal(dup(gpu.fd), free_fd);
	close(free_fd);
	assert_int_equal(gpu_reg(0, 0, 10, &q), 0);
	assert_int_equal(fake->dmabufs, 2);
	nic[0]->ops->dereg(nic[0], p.mr, true);
	nic[0]->ops->dereg(nic[0], q.mr, true);
	/* One that fails is of this memory. */
	calls = fake_verbs_calls(fake, "reg_mr_iova");
	gpu.err = -FI_EFAULT;
	for (int i = 0; i < 10; i++)
		assert_int_equal(gpu_reg(0, 0, 10, &p), -FI_EFAULT);
	gpu.err = 0;
	fake_verbs_fail(fake, "reg_dmabuf_mr", 1, EINVAL);
	assert_int_equal(gpu_reg(0, 0, 10, &p), -FI_EINVAL);
	assert_int_equal(fake_verbs_calls(fake, "reg_mr_iova"), calls);
	assert_int_equal(gpu_reg(0, 0, 10, &p), 0);
	nic[0]->ops->dereg(nic[0], p.mr, true);
}

TEST_IN(reg_device__peer_memory, begin, end)
{
	struct place p;

	open_both(IBV_QPT_RC);
	gpu_begin();
	gpu.err = -FI_ENOSYS;
	fake->peer_memory = gpu_peer_memory;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(gpu_reg(0, 100, 5000, &p), 0);
		assert_int_equal(gpu.calls, 1);
		nic[0]->ops->dereg(nic[0], p.mr, true);
	}
	/* Each device has its own way, and each NIC. */
	gpu.err = 0;
	assert_int_equal(gpu_reg(1, 100, 5000, &p), 0);
	nic[1]->ops->dereg(nic[1], p.mr, true);
	assert_int_equal(fake->dmabufs, 1);
	fake->peer_memory = no_peer_memory;
	assert_int_equal(gpu_reg(0, 100, 5000, &p), -FI_EFAULT);
}

/* Neither way works: after some tries nobody asks any more, but for want of something nothing is concluded. */
TEST_IN(reg_device__neither, begin, end)
{
	static const int scarce[] = {ENOMEM, EAGAIN, EMFILE, ENFILE, EINTR};
	struct uccl_nic_device far = gpu_device;
	unsigned int calls;
	struct place p;

	open_both(IBV_QPT_UC);
	gpu_begin();
	far.number = UCCL_VERBS_GPUS;
	assert_int_equal(nic[0]->ops->reg_device(nic[0], dst[0], 10, &far, &p.mr, &p.rkey, &p.raddr), -FI_EOPNOTSUPP);
	assert_int_equal(gpu.calls, 0);
	for (int i = 0; i < 50; i++) {
		gpu.err = -scarce[i % 5];
		assert_int_equal(gpu_reg(0, 0, 10, &p), gpu.err);
		gpu.err = -FI_EFAULT;
		fake_verbs_fail(fake, "reg_mr_iova", 1, scarce[i % 5]);
		assert_int_equal(gpu_reg(0, 0, 10, &p), -scarce[i % 5]);
	}
	for (int i = 0; i < UCCL_VERBS_GPU_TRIES; i++)
		assert_int_equal(gpu_reg(0, 0, 10, &p), -FI_EFAULT);
	gpu.calls = 0;
	gpu.err = 0;
	calls = fake_verbs_calls(fake, "reg_mr_iova");
	assert_int_equal(gpu_reg(0, 0, 10, &p), -FI_EOPNOTSUPP);
	assert_int_equal(gpu.calls, 0);
	assert_int_equal(fake_verbs_calls(fake, "reg_mr_iova"), calls);
}

/* A way that works later is found as well, if it was not too late. */
TEST_IN(reg_device__one_bad_memory, begin, end)
{
	struct place p;

	open_both(IBV_QPT_UC);
	gpu_begin();
	gpu.err = -FI_EFAULT;
	for (int i = 0; i < UCCL_VERBS_GPU_TRIES - 1; i++)
		assert_int_equal(gpu_reg(0, 0, 10, &p), -FI_EFAULT);
	gpu.err = 0;
	assert_int_equal(gpu_reg(0, 0, 10, &p), 0);
	nic[0]->ops->dereg(nic[0], p.mr, true);
	gpu.err = -FI_EFAULT;
	for (int i = 0; i < 10; i++)
		assert_int_equal(gpu_reg(0, 0, 10, &p), -FI_EFAULT);
	gpu.err = 0;
	assert_int_equal(gpu_reg(0, 0, 10, &p), 0);
	nic[0]->ops->dereg(nic[0], p.mr, true);
}

/* Writes and packets of memory that only the NIC can read, which is held until it has. PROTOCOL R221 */
TEST_IN(source__writes_and_packets, begin, end)
{
	size_t page = (uintptr_t)dst[0] & 4095;
	struct uccl_nic_addr to;
	struct uccl_rx v[16];
	struct uccl_tx tx;
	struct place p;
	void *source;
	int mrs;

	join(IBV_QPT_UC);
	assert_int_equal(nic[0]->ops->reg(nic[0], dst[1], sizeof(dst[1]), &p.mr, &p.rkey, &p.raddr), 0);
	gpu_begin();
	mrs = fake->mrs;
	assert_int_equal(nic[1]->ops->source(nic[1], dst[0] + 100, 5000, &gpu_device, &source), 0);
	/* One for packets, one for writes. */
	assert_int_equal(fake->mrs, mrs + 2);
	for (size_t i = 0; i < sizeof(dst[0]); i++)
		gpu.bytes[page + i] = (uint8_t)(i * 7 + 1);
	memset(dst[0], 0x11, sizeof(dst[0]));
	memset(dst[1], 0, sizeof(dst[1]));
	tx = write_of(1, &p, 1, 5, 0, 4096);
	tx.payload = dst[0] + 100;
	tx.mr = source;
	assert_int_equal(nic[1]->ops->tx(nic[1], &tx, 1), 1);
	assert_int_equal(events(0, NULL), 1);
	assert_memory_equal(dst[1], gpu.bytes + page + 100, 4096);
	events(1, NULL);
	/* The packet leaves late, after its owner has put the source back and the memory became another one. */
	fake->stall = true;
	nic[0]->ops->addr(nic[0], &to);
	tx = (struct uccl_tx){.kind = UCCL_TX_PACKET, .hdr_len = 64, .payload = dst[0] + 300, .payload_len = 1000,
			      .tail_len = 20, .to = &to, .mr = source};
	memset(tx.hdr, 0x22, 64);
	memset(tx.tail, 0x33, 20);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(nic[1]->ops->tx(nic[1], &tx, 1), 1);
		tx.tail_len = 0;
	}
	memset(tx.hdr, 0, 64);
	nic[1]->ops->source_put(nic[1], source);
	gpu.number++;
	assert_int_equal(nic[1]->ops->source(nic[1], dst[0] + 100, 5000, &gpu_device, &source), 0);
	assert_int_equal(fake->mrs, mrs + 3);
	nic[1]->ops->source_put(nic[1], source);
	fake_verbs_run(fake);
	fake->stall = false;
	assert_int_equal(nic[0]->ops->rx(nic[0], v, 16, NULL, 0), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(v[i].kind, UCCL_RX_PACKET);
		assert_int_equal(v[i].len, i ? 1064 : 1084);
		assert_int_equal(v[i].data[63], 0x22);
		assert_memory_equal(v[i].data + 64, gpu.bytes + page + 300, 1000);
		assert_true(i || v[i].data[1083] == 0x33);
	}
	/* A peer that guesses the key can do nothing with it. */
	assert_int_equal(nic[1]->ops->source(nic[1], dst[0] + 100, 5000, &gpu_device, &source), 0);
	p.rkey = ((struct ibv_mr *)((struct uccl_verbs_source *)source)->writes->mr)->rkey | 1ull << 32;
	p.raddr = (uintptr_t)dst[0] + 100;
	tx = write_of(0, &p, 2, 5, 0, 100);
	assert_int_equal(nic[0]->ops->tx(nic[0], &tx, 1), 1);
	assert_int_equal(events(1, NULL), 0);
	assert_int_equal(fake->stats.bad_rkey, 1);
	assert_int_equal(gpu.bytes[page + 100], (uint8_t)(100 * 7 + 1));
	nic[1]->ops->source_put(nic[1], source);
	nic[0]->ops->dereg(nic[0], p.mr, true);
}

/*
 * Packets that the NIC has not read yet are never read after that, whether a completion was asked for or not, and
 * later ones leave. PROTOCOL R364
 */
TEST_IN(source__stopped, begin, end)
{
	struct uccl_tx tx = {.kind = UCCL_TX_PACKET, .hdr_len = 64, .payload_len = 1000};
	struct uccl_nic_addr to;
	struct uccl_rx v[16];

	join(IBV_QPT_UC);
	gpu_begin();
	assert_int_equal(nic[1]->ops->source(nic[1], dst[0] + 100, 5000, &gpu_device, &tx.mr), 0);
	fake->stall = true;
	nic[0]->ops->addr(nic[0], &to);
	tx.to = &to;
	tx.payload = dst[0] + 300;
	for (int i = 0; i < 5; i++) {
		tx.label = (uint16_t)(i / 2);
		assert_int_equal(nic[1]->ops->tx(nic[1], &tx, 1), 1);
	}
	nic[1]->ops->source_stop(nic[1], tx.mr);
	nic[1]->ops->source_put(nic[1], tx.mr);
	fake->stall = false;
	fake_verbs_run(fake);
	assert_int_equal(nic[0]->ops->rx(nic[0], v, 16, NULL, 0), 0);
	tx.mr = NULL;
	tx.payload = src;
	for (int i = 0; i < 3; i++) {
		tx.label = (uint16_t)i;
		assert_int_equal(nic[1]->ops->tx(nic[1], &tx, 1), 1);
	}
	fake_verbs_run(fake);
	assert_int_equal(nic[0]->ops->rx(nic[0], v, 16, NULL, 0), 3);
}

/* It is for both or for none, and what cannot be had leaves nothing behind. */
TEST_IN(source__refused, begin, end)
{
	struct uccl_nic_device no_range = gpu_device;
	void *source;
	int mrs;

	open_both(IBV_QPT_RC);
	gpu_begin();
	mrs = fake->mrs;
	no_range.range = NULL;
	assert_int_equal(nic[0]->ops->source(nic[0], dst[0], 10, &no_range, &source), -FI_ENOSYS);
	for (unsigned int i = 1; i < 3; i++) {
		fake_verbs_fail(fake, "reg_dmabuf_mr", i, ENOMEM);
		assert_int_equal(nic[0]->ops->source(nic[0], dst[0], 10, &gpu_device, &source), -FI_ENOMEM);
	}
	/* That for packets is kept. */
	assert_int_equal(fake->mrs, mrs + 1);
	assert_int_equal(nic[0]->ops->source(nic[0], dst[0], 10, &gpu_device, &source), 0);
	assert_int_equal(fake->mrs, mrs + 2);
	nic[0]->ops->source_put(nic[0], source);
	nic[0]->ops->close(nic[0]);
	/* A NIC whose requests have two parts cannot put payload between header and tail. */
	dev[0]->attr.max_sge = 2;
	assert_int_equal(open_rc(0, IBV_QPT_RC, 0), 0);
	assert_int_equal(nic[0]->ops->source(nic[0], dst[0], 10, &gpu_device, &source), -FI_EOPNOTSUPP);
}

/* A library from before dmabufs. */
TEST_IN(reg_device__old_library, begin, end)
{
	struct uccl_verbs old = *fake_verbs_lib();
	struct uccl_nic_attr attr = {.ifname = "rxe0"};
	struct place p;

	old.reg_dmabuf_mr = NULL;
	assert_int_equal(uccl_verbs_uc_open(&old, clock_read, IBV_QPT_UC, &attr, &nic[0]), 0);
	gpu_begin();
	fake->peer_memory = gpu_peer_memory;
	assert_int_equal(gpu_reg(0, 100, 5000, &p), 0);
	assert_int_equal(gpu.calls, 0);
	nic[0]->ops->dereg(nic[0], p.mr, true);
	nic[0]->ops->close(nic[0]);
	nic[0] = NULL;
}

/* What a peer writes is in the device, whichever way it was registered; and nowhere else. */
TEST_IN(reg_device__written, begin, end)
{
	size_t page = (uintptr_t)dst[0] & 4095;
	struct uccl_rx last;
	struct uccl_tx tx;
	struct place p;

	join(IBV_QPT_UC);
	gpu_begin();
	assert_int_equal(gpu_reg(0, 1000, 5000, &p), 0);
	assert_int_equal(fake->dmabufs, 1);
	tx = write_of(1, &p, 1, 5, 0, 4096);
	tx.raddr = p.raddr + 100;
	memset(dst[0], 0x11, sizeof(dst[0]));
	assert_int_equal(nic[1]->ops->tx(nic[1], &tx, 1), 1);
	assert_int_equal(events(0, &last), 1);
	assert_int_equal(last.imm, 5);
	assert_memory_equal(gpu.bytes + page + 1100, src, 4096);
	for (size_t i = 0; i < sizeof(dst[0]); i++) {
		assert_int_equal(dst[0][i], 0x11);
		if (i < 1100 || i >= 1100 + 4096)
			assert_int_equal(gpu.bytes[page + i], 0);
	}
	events(1, NULL);
	nic[0]->ops->dereg(nic[0], p.mr, true);
}

/* Bytes, immediate, path and length of a write, and what it does not touch. */
static void tx__writes(enum ibv_qp_type type)
{
	struct uccl_rx r;
	struct place p;

	join(type);
	p = place(1);
	for (uint16_t k = 0; k < PATHS; k++) {
		uint32_t off = 5000u * k, len = 4000u + k;

		memset(dst[1], 0x5a, sizeof(dst[1]));
		write_one(0, &p, k, 0xa0b0c0d + k, off, len);
		assert_int_equal(events(1, &r), 1);
		assert_int_equal(r.imm, 0xa0b0c0d + k);
		assert_int_equal(r.path, k);
		assert_int_equal(r.len, len);
		assert_memory_equal(dst[1] + off, src + off, len);
		assert_int_equal(dst[1][off + len], 0x5a);
		assert_true(!off || dst[1][off - 1] == 0x5a);
	}
	nic[1]->ops->dereg(nic[1], p.mr, true);
}

TEST_IN(tx__uc, begin, end)
{
	tx__writes(IBV_QPT_UC);
}

TEST_IN(tx__rc, begin, end)
{
	tx__writes(IBV_QPT_RC);
}

/* Several writes of a path are one doorbell; more than there is room for wait; no receive is ever missing. */
TEST_IN(tx__chains, begin_joined, end)
{
	struct uccl_tx v[32];
	uint64_t doorbells;
	int sent = 0, got = 0;

	for (int i = 0; i < 32; i++)
		v[i] = write_of(0, &target, (uint16_t)(i / 16), (uint32_t)i, (uint32_t)i * 1024, 1024);
	doorbells = shared(0)->tx.doorbells;
	assert_int_equal(nic[0]->ops->tx(nic[0], v, 32), 32);
	assert_int_equal(shared(0)->tx.doorbells - doorbells, 2);
	assert_int_equal(events(1, NULL), 32);
	assert_memory_equal(dst[1], src, 32 * 1024);
	fake->stall = true;
	for (int k; (k = nic[0]->ops->tx(nic[0], v, 16));)
		sent += k;
	assert_int_equal(sent, UCCL_VERBS_SQ_DEPTH);
	fake_verbs_run(fake);
	fake->stall = false;
	assert_int_equal(events(1, NULL), sent);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(nic[0]->ops->tx(nic[0], v, 32), 32);
		got += events(1, NULL);
		events(0, NULL);
	}
	assert_int_equal(got, 32000);
	assert_int_equal(freed[0], 32 + sent + 32000);
	assert_int_equal(fake->stats.no_receive, 0);
	assert_int_equal(shared(0)->tx.lost, 0);
	assert_int_equal(uc_of(nic[0])->dev->tx.slab.nunused, uc_of(nic[0])->dev->tx.slab.count);
}

/* Neither before, nor a path that there is not, nor without a peer. PROTOCOL R82 */
TEST_IN(tx__only_when_both_are_connected, begin, end)
{
	struct place p;
	struct uccl_tx t;
	uint64_t sent;

	open_both(IBV_QPT_UC);
	p = place(1);
	sent = fake->stats.sent;
	meet();
	say(0, 256);
	hear(0);
	say(1, 256);
	/* 0 leads. 1 is connected and may not write yet; 0 is not. */
	for (int i = 0; i < 2; i++) {
		write_one(i, &p, 0, 1, 0, 1000);
		assert_int_equal(shared(i)->tx.lost, 1);
		events(i, NULL);
		assert_false(on[i][0]);
	}
	/* Now 0 is, and has heard that 1 is. */
	hear(0);
	events(0, NULL);
	events(1, NULL);
	assert_true(on[0][0] && !on[1][0]);
	settle();
	assert_true(on[1][0]);
	t = write_of(0, &p, PATHS, 1, 0, 1000);
	nic[0]->ops->tx(nic[0], &t, 1);
	t = write_of(0, &p, 0, 1, 0, 1000);
	t.peer = NULL;
	nic[0]->ops->tx(nic[0], &t, 1);
	t = write_of(0, &p, 0, 1, 0, 32769);
	nic[0]->ops->tx(nic[0], &t, 1);
	assert_int_equal(shared(0)->tx.lost, 4);
	assert_int_equal(fake->stats.sent, sent);
	nic[1]->ops->dereg(nic[1], p.mr, true);
}

/* A late write to a place that is closed: nothing is touched or told, and UC goes on; RC is made anew. */
static void late_write(enum ibv_qp_type type)
{
	struct place p, q;

	join(type);
	p = place(1);
	q = place(1);
	nic[1]->ops->dereg(nic[1], p.mr, true);
	memset(dst[1], 0x5a, sizeof(dst[1]));
	for (int i = 0; i < 50; i++) {
		write_one(0, &p, 1, (uint32_t)i, 0, 1000);
		assert_int_equal(events(1, NULL), 0);
		now += UCCL_NS_PER_S;
		if (type == IBV_QPT_RC)
			settle();
	}
	for (size_t i = 0; i < sizeof(dst[1]); i++)
		assert_int_equal(dst[1][i], 0x5a);
	settle();
	assert_true(on[0][1]);
	write_one(0, &q, 1, 7, 0, 1000);
	assert_int_equal(events(1, NULL), 1);
	assert_memory_equal(dst[1], src, 1000);
	nic[1]->ops->dereg(nic[1], q.mr, true);
}

/* The same of places that are windows. */
static void late_write_window(enum ibv_qp_type type)
{
	fake_verbs_windows(dev[1]);
	late_write(type);
	if (!uc_of(nic[1])->dev->windows)
		skip();
	assert_int_equal(fake->mws, 2);
}

TEST_IN(rx__late_write_window_uc, begin, end)
{
	late_write_window(IBV_QPT_UC);
	assert_int_equal(shared(0)->sets.made, PATHS);
	assert_int_equal(shared(1)->rx.errors, 50);
}

TEST_IN(rx__late_write_window_rc, begin, end)
{
	late_write_window(IBV_QPT_RC);
}

TEST_IN(rx__late_write_uc, begin, end)
{
	late_write(IBV_QPT_UC);
	assert_int_equal(shared(0)->sets.made, PATHS);
	assert_int_equal(shared(1)->rx.errors, 50);
}

TEST_IN(rx__late_write_rc, begin, end)
{
	late_write(IBV_QPT_RC);
	assert_true(shared(0)->sets.made >= PATHS + 50);
}

static enum fake_fate hold_uc(void *arg, const struct fake_packet *p)
{
	return p->type == IBV_QPT_UC ? FAKE_HOLD : FAKE_PASS;
}

/* What is on its way on a fenced path never lands; the path is made anew. PROTOCOL R101 */
TEST_IN(fence__late_write, begin_joined, end)
{
	fake->hook = hold_uc;
	for (uint16_t k = 0; k < PATHS; k++) {
		write_one(0, &target, k, k, k * 4096u, 1000);
	}
	memset(dst[1], 0x5a, sizeof(dst[1]));
	assert_int_equal(nic[1]->ops->fence(nic[1], peer[1], PATHS), -FI_EINVAL);
	assert_int_equal(nic[1]->ops->fence(nic[1], peer[1], 2), 0);
	fake->hook = NULL;
	events(1, NULL);
	for (int k = 0; k < PATHS; k++)
		assert_int_equal(fenced[1][k], k == 2);
	fake_verbs_release(fake, false);
	assert_int_equal(events(1, NULL), PATHS - 1);
	for (int k = 0; k < PATHS; k++)
		for (int i = 0; i < 1000; i++)
			assert_int_equal(dst[1][k * 4096 + i], k == 2 ? 0x5a : src[k * 4096 + i]);
	now += UCCL_NS_PER_S;
	settle();
	assert_true(on[0][2] && on[1][2]);
	write_one(0, &target, 2, 1, 0, 1000);
	assert_int_equal(events(1, NULL), 1);
}

/* PROTOCOL R80 */
TEST_IN(accept__nonsense, begin, end)
{
	static const struct {
		uint8_t kind, mtu;
		uint16_t path;
		uint32_t gen, a, b;
	} bad[] = {
		{0, 5, 0, 9, 50, 1},	       {6, 5, 0, 9, 50, 1},	      {UC_ANSWER, 0, 0, 9, 50, 1},
		{UC_ANSWER, 6, 0, 9, 50, 1},   {UC_ANSWER, 5, PATHS, 9, 50, 1},   {UC_ANSWER, 5, 0xffff, 9, 50, 1},
		{UC_ANSWER, 5, 0, 0, 50, 1},   {UC_ANSWER, 5, 0, 9, 0, 1},	      {UC_ANSWER, 5, 0, 9, 1, 1},
		{UC_ANSWER, 5, 0, 9, 1 << 24, 1}, {UC_ANSWER, 5, 0, 9, 50, 1 << 24}, {UC_WANT, 1, 0, 9, 0, 0},
		{UC_WANT, 0, 0, 9, 1, 0},      {UC_WANT, 0, 0, 9, 0, 1},	      {UC_GONE, 0, 0, 0, 0, 0},
		{UC_GONE, 0, 0, 9, 1, 0},      {UC_GONE, 0, 0, 9, 0, 1},	      {UC_GONE, 1, 0, 9, 0, 0},
		/* What only the leader says, and this is the leader. */
		{UC_OFFER, 5, 0, 9, 50, 1},    {UC_READY, 0, 0, 9, 0, 0},
	};
	uint8_t buf[48];

	open_both(IBV_QPT_UC);
	meet();
	for (size_t i = 0; i < uccl_array_len(bad); i++) {
		memset(buf, 0, sizeof(buf));
		/* A good one before it is not taken either. */
		buf[0] = UC_WANT;
		uccl_put32(buf + 4, 1);
		buf[16] = bad[i].kind;
		buf[17] = bad[i].mtu;
		uccl_put16(buf + 18, bad[i].path);
		uccl_put32(buf + 20, bad[i].gen);
		uccl_put32(buf + 24, bad[i].a);
		uccl_put32(buf + 28, bad[i].b);
		assert_int_equal(nic[0]->ops->accept(nic[0], peer[0], buf, 32), -FI_EINVAL);
		assert_non_null(path(0, 0)->sq.qp);
	}
	for (uint32_t len = 0; len < 48; len++)
		if (len % 16)
			assert_int_equal(nic[0]->ops->accept(nic[0], peer[0], buf, len), -FI_EINVAL);
	assert_int_equal(nic[0]->ops->accept(nic[0], peer[0], buf, 0), -FI_EINVAL);
	assert_int_equal(nic[0]->ops->accept(nic[0], peer[0], buf, 16), 0);
	assert_null(path(0, 0)->sq.qp);
}

/* Random bytes break nothing. */
TEST_IN(accept__random, begin, end)
{
	uint8_t buf[256];

	join(IBV_QPT_UC);
	for (int i = 0; i < 20000; i++) {
		uint32_t n = 1 + (uint32_t)uccl_rng_below(&rng, 4);

		for (uint32_t b = 0; b < n * UC_ENTRY; b++)
			buf[b] = (uint8_t)(uccl_rng_below(&rng, 3) ? 0 : uccl_rng_below(&rng, 8));
		nic[0]->ops->accept(nic[0], peer[0], buf, n * UC_ENTRY);
		if (i % 100 == 0) {
			events(0, NULL);
			now += UCCL_NS_PER_S;
		}
		assert_true(uc_of(nic[0])->dev->sets.nqps <= PATHS);
	}
	say(0, 256);
	nsaid = 0;
}

/*
 * Both sides make and remake queue pairs whenever they like, and hear of each other in any order: in the end every path
 * is a pair of queue pairs that are connected to each other and to nothing else. PROTOCOL R81 R82
 */
TEST_IN(accept__any_order, begin, end)
{
	open_both(IBV_QPT_UC);
	for (int round = 0; round < 400; round++) {
		nic[0]->ops->prepare(nic[0], peer[0]);
		if (round % 2)
			nic[1]->ops->prepare(nic[1], peer[1]);
		for (int step = 0; step < 60; step++) {
			int i = (int)uccl_rng_below(&rng, 2);

			switch (uccl_rng_below(&rng, 5)) {
			case 0:
				nic[i]->ops->renew(nic[i], peer[i], (uint16_t)uccl_rng_below(&rng, PATHS + 1),
						   uccl_rng_below(&rng, 2));
				break;
			case 1:
				now += uccl_rng_below(&rng, 150 * UCCL_NS_PER_MS);
				events(i, NULL);
				break;
			case 2:
				say(i, 16 << uccl_rng_below(&rng, 4));
				break;
			default:
				if (nsaid)
					hear((int)uccl_rng_below(&rng, (uint64_t)nsaid));
				break;
			}
		}
		for (int i = 0; i < 10; i++) {
			now += 200 * UCCL_NS_PER_MS;
			settle();
		}
		for (int k = 0; k < PATHS; k++) {
			assert_true(on[0][k] && on[1][k]);
			assert_int_equal(path(0, k)->theirs.qpn, path(1, k)->qpn);
			assert_int_equal(path(1, k)->theirs.qpn, path(0, k)->qpn);
		}
		assert_int_equal(uc_of(nic[0])->dev->sets.nqps, PATHS);
	}
}

/* Errors while queue pairs are made and connected: they come when the errors end. */
TEST_IN(accept__errors, begin, end)
{
	static const char *const calls[] = {"create_qp", "modify_qp"};

	open_both(IBV_QPT_UC);
	for (unsigned int n = 1; n < 30; n++) {
		fake_verbs_fail(fake, calls[n % 2], 1 + n / 2, n % 3 ? ENOMEM : EINVAL);
		for (int i = 0; i < 6; i++) {
			nic[0]->ops->prepare(nic[0], peer[0]);
			settle();
			now += 200 * UCCL_NS_PER_MS;
		}
		for (int k = 0; k < PATHS; k++) {
			assert_true(on[0][k] && on[1][k]);
			nic[k % 2]->ops->renew(nic[k % 2], peer[k % 2], (uint16_t)k, false);
		}
	}
}

/* A queue pair that breaks, by a completion or by an event, is made anew. */
TEST_IN(rx__broken, begin, end)
{
	struct uccl_rx v[4];

	join(IBV_QPT_UC);
	fake_verbs_event(fake, IBV_EVENT_QP_FATAL, path(0, 2)->qpn);
	for (int i = 0; i < 1100; i++)
		nic[0]->ops->rx(nic[0], v, 0, NULL, 0);
	now += UCCL_NS_PER_S;
	settle();
	assert_int_equal(path(0, 2)->gen, 2);
	assert_int_equal(path(1, 2)->gen, 2);
	assert_true(on[0][2] && on[1][2]);
	assert_int_equal(path(0, 1)->gen, 1);
}

/* Sleepers are woken by writes as by packets. */
TEST_IN(wait_fd__write, begin_joined, end)
{
	struct pollfd f = {.events = POLLIN};

	f.fd = nic[1]->ops->wait_fd(nic[1]);
	assert_true(f.fd >= 0);
	assert_int_equal(nic[1]->ops->wait_fd(nic[1]), f.fd);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(events(1, NULL), 0);
		assert_int_equal(poll(&f, 1, 0), 0);
		write_one(0, &target, (uint16_t)(i % PATHS), 1, 0, 100);
		assert_int_equal(poll(&f, 1, 0), 1);
		assert_int_equal(events(1, NULL), 1);
	}
}

/* Only readable descriptors are read, and only a queue that had an event is armed again. */
TEST_IN(wait_fd__reads_what_is_there, begin_joined, end)
{
	static const char *const calls[] = {"get_cq_event", "get_async_event", "req_notify_cq"};
	unsigned int before[3];

	assert_true(nic[1]->ops->wait_fd(nic[1]) >= 0);
	assert_true(nic[0]->ops->wait_fd(nic[0]) >= 0);
	for (int i = 0; i < 5; i++) {
		for (int side = 0; side < 2; side++)
			events(side, NULL);
		for (int k = 0; k < 3; k++)
			before[k] = fake_verbs_calls(fake, calls[k]);
		for (int side = 0; side < 2; side++)
			events(side, NULL);
		for (int k = 0; k < 3; k++)
			assert_int_equal(fake_verbs_calls(fake, calls[k]), before[k]);
		write_one(0, &target, (uint16_t)(i % PATHS), 1, 0, 100);
		/* Of the write, at the receiver; that it was read, at the sender. */
		for (int side = 0; side < 2; side++)
			events(side, NULL);
		assert_in_range(fake_verbs_calls(fake, "get_cq_event"), before[0] + 2, before[0] + 4);
		assert_int_equal(fake_verbs_calls(fake, "get_async_event"), before[1]);
		assert_int_equal(fake_verbs_calls(fake, "req_notify_cq"), before[2] + 2);
	}
}

/* Writes of path 2 go by this label now. */
static uint32_t label_of(const struct place *p)
{
	label_seen = 0;
	write_one(0, p, 2, 1, 0, 1000);
	assert_int_equal(events(1, NULL), 1);
	assert_int_not_equal(label_seen, 0);
	return label_seen;
}

static void anew(void)
{
	now += UCCL_NS_PER_S;
	settle();
	assert_true(on[0][2] && on[1][2]);
}

/* Where one packet is a write, its loss breaks nothing: the queue pair stays with its way. PROTOCOL R250 */
TEST_IN(renew__stays, begin, end)
{
	uint32_t qpn;

	join(IBV_QPT_UC);
	qpn = path(0, 2)->qpn;
	on[0][2] = false;
	nic[0]->ops->renew(nic[0], peer[0], 2, true);
	events(0, NULL);
	assert_true(on[0][2]);
	assert_int_equal(path(0, 2)->qpn, qpn);
	nic[0]->ops->renew(nic[0], peer[0], 2, false);
	anew();
	assert_int_not_equal(path(0, 2)->qpn, qpn);
	qpn = path(0, 2)->qpn;
	/* Nor does it stay with a smaller packet than it was made for. */
	path(0, 2)->theirs.mtu--;
	nic[0]->ops->renew(nic[0], peer[0], 2, true);
	anew();
	assert_int_not_equal(path(0, 2)->qpn, qpn);
}

/* One that may be broken is made anew with the same label, and so is one that was fenced. */
TEST_IN(renew__same_label, begin, end)
{
	uint32_t label, qpn;

	dev[0]->attr.vendor_id = dev[1]->attr.vendor_id = 0x2c9;
	join(IBV_QPT_UC);
	target = place(1);
	fake->hook = label_hook;
	label = label_of(&target);
	for (int i = 0; i < 2; i++) {
		qpn = path(0, 2)->qpn;
		if (i)
			assert_int_equal(nic[1]->ops->fence(nic[1], peer[1], 2), 0);
		else
			nic[0]->ops->renew(nic[0], peer[0], 2, true);
		anew();
		assert_int_not_equal(path(0, 2)->qpn, qpn);
		assert_int_equal(label_of(&target), label);
	}
	nic[0]->ops->renew(nic[0], peer[0], 2, false);
	anew();
	assert_int_not_equal(label_of(&target), label);
}

/* A peer that goes takes its queue pairs along, and what was in the NIC. */
TEST_IN(disconnect__all_of_it, begin_joined, end)
{
	fake->stall = true;
	for (int i = 0; i < 20; i++)
		write_one(0, &target, (uint16_t)(i % PATHS), 1, 0, 100);
	nic[0]->ops->renew(nic[0], peer[0], 1, false);
	nic[0]->ops->disconnect(nic[0], peer[0]);
	assert_int_equal(uc_of(nic[0])->dev->sets.nqps, 0);
	assert_int_equal(uc_of(nic[0])->dev->tx.slab.nunused, uc_of(nic[0])->dev->tx.slab.count);
	assert_true(TAILQ_EMPTY(&uc_of(nic[0])->ring.events) && TAILQ_EMPTY(&uc_of(nic[0])->dev->sets.waiting));
	/* Nobody knows the peer any more; it is told all the same, by number. */
	events(0, NULL);
	assert_int_equal(freed[0], 20);
}

/* Sources. */

#define PAGE 4096ul

static uint8_t *pages(size_t n)
{
	uint8_t *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	for (size_t i = 0; i < n * PAGE; i++)
		p[i] = (uint8_t)uccl_rng_next(&rng);
	return p;
}

/* Where the kernel does not say that memory goes away, all is copied; then this says so. */
static void needs_reports(void)
{
	if (!uccl_mrcache_keeps(uc_of(nic[0])->dev->tx.sources))
		skip();
}

static int write_from(const struct iovec *buffer, uint32_t off, uint32_t cookie)
{
	struct uccl_tx t = write_of(0, &target, 0, cookie, off, 4096);

	t.buffer = buffer;
	t.payload = (uint8_t *)buffer->iov_base + off;
	return nic[0]->ops->tx(nic[0], &t, 1);
}

/* The NIC reads what lies there when it sends, and all of the buffer is one registration, which is kept. */
TEST_IN(source__in_place, begin_joined, end)
{
	struct iovec buffer = {.iov_len = 16 * PAGE};
	uint8_t *mem;
	int mrs;

	needs_reports();
	mrs = fake->mrs;
	mem = pages(17);
	buffer.iov_base = mem + 100;
	for (uint32_t i = 0; i < 15; i++) {
		fake->stall = true;
		assert_int_equal(write_from(&buffer, i * 4096, i), 1);
		assert_int_equal(events(0, NULL), 0);
		assert_int_equal(freed[0], i);
		mem[100 + i * 4096] ^= 0xff;
		fake->stall = false;
		fake_verbs_run(fake);
		assert_int_equal(events(1, NULL), 1);
		assert_memory_equal(dst[1] + i * 4096, mem + 100 + i * 4096, 4096);
		events(0, NULL);
		assert_int_equal(freed[0], i + 1);
		assert_int_equal(freed_last[0], i);
	}
	assert_int_equal(shared(0)->tx.direct, 15);
	assert_int_equal(fake->mrs, mrs + 1);
	assert_int_equal(uccl_mrcache_stats(uc_of(nic[0])->dev->tx.sources).hits, 14);
	munmap(mem, 17 * PAGE);
}

/* Four writes from 16 pages, of which the NIC has read nothing yet. *mrs: registrations before. */
static void four_in_flight(struct iovec *buffer, int *mrs)
{
	needs_reports();
	*mrs = fake->mrs;
	*buffer = (struct iovec){.iov_base = pages(16), .iov_len = 16 * PAGE};
	fake->stall = true;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(write_from(buffer, i * 4096, i), 1);
}

/*
 * The memory goes away while the NIC has writes from it: its registration lives until they are done, and what comes to
 * the same address later is registered anew.
 */
TEST_IN(source__unmapped_in_flight, begin_joined, end)
{
	struct iovec buffer;
	int mrs;

	four_in_flight(&buffer, &mrs);
	assert_int_equal(munmap(buffer.iov_base, 16 * PAGE), 0);
	assert_int_equal(fake->mrs, mrs + 1);
	assert_true(mmap(buffer.iov_base, 16 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == buffer.iov_base);
	memset(buffer.iov_base, 0x77, 16 * PAGE);
	assert_int_equal(write_from(&buffer, 5 * 4096, 5), 1);
	assert_int_equal(fake->mrs, mrs + 2);
	fake->stall = false;
	fake_verbs_run(fake);
	assert_int_equal(events(1, NULL), 5);
	events(0, NULL);
	assert_int_equal(freed[0], 5);
	assert_int_equal(fake->mrs, mrs + 1);
	assert_int_equal(dst[1][5 * 4096], 0x77);
	assert_int_equal(uccl_mrcache_stats(uc_of(nic[0])->dev->tx.sources).gone, 1);
	munmap(buffer.iov_base, 16 * PAGE);
}

/* Memory that the NIC refuses, short buffers, memory of files: copied, and for a while the NIC is not asked again. */
TEST_IN(source__copied, begin_joined, end)
{
	struct iovec buffer = {.iov_len = 16 * PAGE}, small = {.iov_base = src, .iov_len = 8192};
	unsigned int calls;

	needs_reports();
	buffer.iov_base = pages(16);
	fake_verbs_fail(fake, "reg_mr", 0, ENOMEM);
	calls = fake_verbs_calls(fake, "reg_mr");
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(write_from(&buffer, i * 4096, i), 1);
	assert_int_equal(fake_verbs_calls(fake, "reg_mr") - calls, 1);
	fake_verbs_fail(fake, "reg_mr", 0, 0);
	assert_int_equal(write_from(&small, 4096, 8), 1);
	assert_int_equal(events(1, NULL), 9);
	assert_memory_equal(dst[1] + 2 * 4096, (uint8_t *)buffer.iov_base + 2 * 4096, 6 * 4096);
	assert_memory_equal(dst[1] + 4096, src + 4096, 4096);
	events(0, NULL);
	assert_int_equal(freed[0], 9);
	assert_int_equal(shared(0)->tx.direct, 0);
	now += UCCL_NS_PER_S;
	assert_int_equal(write_from(&buffer, 0, 9), 1);
	assert_int_equal(shared(0)->tx.direct, 1);
	munmap(buffer.iov_base, 16 * PAGE);
}

/* A lost write is reported as a sent one is; a queue pair that breaks releases its registrations. */
TEST_IN(source__lost, begin_joined, end)
{
	struct iovec buffer;
	int mrs;

	four_in_flight(&buffer, &mrs);
	nic[0]->ops->renew(nic[0], peer[0], 0, false);
	events(0, NULL);
	assert_int_equal(freed[0], 4);
	assert_int_equal(write_from(&buffer, 0, 4), 1);
	events(0, NULL);
	assert_int_equal(freed[0], 5);
	assert_int_equal(freed_last[0], 4);
	assert_int_equal(fake->mrs, mrs + 1);
	/* Until those are heard of which were told of, the room for them bounds what is taken. */
	for (int i = 0; i < UC_DONE; i++)
		assert_int_equal(write_from(&buffer, 0, 5), 1);
	assert_int_equal(write_from(&buffer, 0, 5), 0);
	events(0, NULL);
	assert_int_equal(freed[0], 5 + UC_DONE);
	fake->stall = false;
	settle();
	munmap(buffer.iov_base, 16 * PAGE);
}

/* A thread that sleeps until the payload is free is woken. */
TEST_IN(source__wakes, begin_joined, end)
{
	struct pollfd f = {.events = POLLIN};

	f.fd = nic[0]->ops->wait_fd(nic[0]);
	for (int i = 0; i < 3; i++) {
		fake->stall = true;
		write_one(0, &target, 0, 1, 0, 100);
		events(0, NULL);
		assert_int_equal(poll(&f, 1, 0), 0);
		fake->stall = false;
		fake_verbs_run(fake);
		assert_int_equal(poll(&f, 1, 0), 1);
		events(0, NULL);
		assert_int_equal(freed[0], i + 1);
	}
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

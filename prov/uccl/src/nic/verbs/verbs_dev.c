/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_dev.h"

#include <stddef.h>

#include <rdma/fi_errno.h>

#ifdef HAVE_VERBS

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/units.h"
#include "nic/ifaddr.h"
#include "nic/verbs/verbs_lib.h"

#define MBPS 1000000ull
#define RXE_VENDOR 0xffffff

static bool all_zero(const uint8_t ip[16])
{
	static const uint8_t zero[16];

	return !memcmp(ip, zero, sizeof(zero));
}

/* GIDs. */

static bool gid_v4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
}

static bool gid_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* The higher the better; 0: not usable. Every network routes IPv4, none routes link-local addresses. */
static int gid_rank(const struct ibv_gid_entry *g, bool infiniband)
{
	if (all_zero(g->gid.raw))
		return 0;
	if (infiniband)
		return g->gid_type == IBV_GID_TYPE_IB ? 1 : 0;
	if (g->gid_type == IBV_GID_TYPE_ROCE_V2)
		return gid_v4(g->gid.raw) ? 6 : gid_link_local(g->gid.raw) ? 4 : 5;
	if (g->gid_type == IBV_GID_TYPE_ROCE_V1)
		return gid_v4(g->gid.raw) ? 3 : gid_link_local(g->gid.raw) ? 1 : 2;
	return 0;
}

/* Restricts the choice. */
struct gid_want {
	const uint8_t *ip; /* NULL: any */
	uint32_t ifindex;  /* of its network interface, which may be a VLAN or a bond; 0: any */
	bool linkless;	   /* ports without link are usable, too */
};

/* The best entry of the port's table. False: none. */
static bool gid_choose(const struct uccl_verbs *lib, struct ibv_context *ctx, uint8_t port, int count, bool infiniband,
		       const struct gid_want *want, struct ibv_gid_entry *best)
{
	struct ibv_gid_entry g;
	int i, rank, best_rank = 0;

	for (i = 0; i < count; i++) {
		if (lib->query_gid(ctx, port, (uint32_t)i, &g))
			continue;
		if ((want->ip && memcmp(g.gid.raw, want->ip, 16)) || (want->ifindex && want->ifindex != g.ndev_ifindex))
			continue;
		rank = gid_rank(&g, infiniband);
		if (rank > best_rank) {
			best_rank = rank;
			*best = g;
		}
	}
	return best_rank;
}

/* Rates. */

/* The entry of a table that belongs to a code with one bit set; 0: no such code. */
static uint64_t by_bit(const uint32_t *table, uint32_t n, uint8_t code)
{
	uint32_t bit = code && !(code & (code - 1)) ? (uint32_t)__builtin_ctz(code) : n;

	return bit < n ? table[bit] : 0;
}

/* Bits per second of one lane. InfiniBand up to QDR spends every fifth bit on its code; Ethernet names net rates. */
static uint64_t lane_bps(uint8_t speed, bool infiniband)
{
	static const uint32_t mbps[] = {2500, 5000, 10000, 10000 /* FDR10 */, 14000, 25000, 50000, 100000};
	uint64_t gross = by_bit(mbps, uccl_array_len(mbps), speed);

	return (infiniband && speed <= 4 ? gross / 5 * 4 : gross) * MBPS;
}

static uint64_t lanes_of(uint8_t width)
{
	static const uint32_t lanes[] = {1, 4, 8, 12, 2};

	return by_bit(lanes, uccl_array_len(lanes), width);
}

/* The driver is what device/driver points to; Soft-RoCE has no device below it. */
static void driver_find(const struct ibv_device *dev, uint32_t vendor, char out[UCCL_VERBS_DRIVER])
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *last;
	ssize_t n;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/device/driver", dev->ibdev_path);
	n = readlink(path, target, sizeof(target) - 1);
	if (n > 0) {
		target[n] = '\0';
		last = strrchr(target, '/');
		snprintf(out, UCCL_VERBS_DRIVER, "%.*s", UCCL_VERBS_DRIVER - 1, last ? last + 1 : target);
	} else if (vendor == RXE_VENDOR) {
		snprintf(out, UCCL_VERBS_DRIVER, "rxe");
	}
}

/* Ports. */

static bool device_fits(const struct ibv_device *dev)
{
	return dev->node_type == IBV_NODE_CA && dev->transport_type == IBV_TRANSPORT_IB;
}

static void limits_fill(struct uccl_verbs_port *p, const struct ibv_device_attr *a)
{
	p->vendor_id = a->vendor_id;
	p->part_id = a->vendor_part_id;
	p->max_qp = (uint32_t)a->max_qp;
	p->max_qp_wr = (uint32_t)a->max_qp_wr;
	p->max_sge = (uint32_t)a->max_sge;
	p->max_cq = (uint32_t)a->max_cq;
	p->max_cqe = (uint32_t)a->max_cqe;
	p->max_mr = (uint32_t)a->max_mr;
	p->max_ah = (uint32_t)a->max_ah;
	p->max_srq = (uint32_t)a->max_srq;
	p->max_srq_wr = (uint32_t)a->max_srq_wr;
	p->max_mw = a->device_cap_flags & IBV_DEVICE_MEM_WINDOW && a->max_mw > 0 ? (uint32_t)a->max_mw : 0;
}

/* 0; -FI_ENODEV: not usable; -FI_EADDRNOTAVAIL: has no GID that is wanted. */
static int port_read(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct ibv_device_attr *dev,
		     uint8_t port, const struct gid_want *want, struct uccl_verbs_port *p)
{
	struct ibv_port_attr a;
	struct ibv_gid_entry g;

	memset(p, 0, sizeof(*p));
	if (lib->query_port(ctx, port, &a) || (a.state != IBV_PORT_ACTIVE && !want->linkless))
		return -FI_ENODEV;
	if (a.active_mtu < IBV_MTU_256 || a.active_mtu > IBV_MTU_4096)
		return -FI_ENODEV;
	if (a.link_layer != IBV_LINK_LAYER_INFINIBAND && a.link_layer != IBV_LINK_LAYER_ETHERNET)
		return -FI_ENODEV;
	p->infiniband = a.link_layer == IBV_LINK_LAYER_INFINIBAND;
	if (!gid_choose(lib, ctx, port, a.gid_tbl_len, p->infiniband, want, &g))
		return -FI_EADDRNOTAVAIL;
	if (dev->phys_port_cnt > 1)
		snprintf(p->name, sizeof(p->name), "%s:%u", ctx->device->name, port);
	else
		snprintf(p->name, sizeof(p->name), "%s", ctx->device->name);
	limits_fill(p, dev);
	driver_find(ctx->device, p->vendor_id, p->driver);
	p->port = port;
	p->up = a.state == IBV_PORT_ACTIVE;
	p->roce_v2 = g.gid_type == IBV_GID_TYPE_ROCE_V2;
	p->gid_index = g.gid_index;
	p->lid = p->infiniband ? a.lid : 0;
	memcpy(p->addr.ip, g.gid.raw, sizeof(p->addr.ip));
	p->mtu = 128u << a.active_mtu;
	p->mtu_code = (uint8_t)a.active_mtu;
	if (g.ndev_ifindex && !if_indextoname(g.ndev_ifindex, p->netdev))
		p->netdev[0] = '\0';
	p->link_bps = p->infiniband ? 0 : uccl_ifaddr_link_bps(p->netdev);
	if (!p->link_bps)
		p->link_bps = lane_bps(a.active_speed, p->infiniband) * lanes_of(a.active_width);
	return 0;
}

/* "mlx5_0" and "mlx5_0:1" are port 1 of mlx5_0. */
static bool name_fits(const char *name, const struct ibv_device *dev, int port)
{
	size_t len = strlen(dev->name);
	char number[16];

	snprintf(number, sizeof(number), ":%d", port);
	return !strncmp(name, dev->name, len) && (!name[len] || !strcmp(name + len, number));
}

/* A device that cannot be opened is skipped: another user owns it, or it is being removed. */
static struct ibv_context *device_open(const struct uccl_verbs *lib, struct ibv_device *dev,
				       struct ibv_device_attr *attr)
{
	struct ibv_context *ctx;

	if (!device_fits(dev))
		return NULL;
	ctx = lib->open_device(dev);
	if (!ctx) {
		UCCL_LOG(errno == EACCES || errno == EPERM ? UCCL_LOG_WARN : UCCL_LOG_INFO,
			 "%s: cannot open the device: %s; this user needs the right to read and write /dev/infiniband",
			 dev->name, strerror(errno));
		return NULL;
	}
	if (lib->query_device(ctx, attr)) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: cannot query the device", dev->name);
		lib->close_device(ctx);
		return NULL;
	}
	return ctx;
}

int uccl_verbs_list(const struct uccl_verbs *lib, bool linkless, struct uccl_verbs_port **list)
{
	const struct gid_want any = {.linkless = linkless};
	struct uccl_verbs_port *v = NULL, *more;
	struct ibv_device **devs;
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	int i, port, n = 0, err = 0;

	*list = NULL;
	lib = lib ? lib : uccl_verbs_lib();
	devs = lib ? lib->get_device_list(NULL) : NULL;
	for (i = 0; devs && devs[i] && !err; i++) {
		ctx = device_open(lib, devs[i], &attr);
		if (!ctx)
			continue;
		more = realloc(v, ((size_t)n + attr.phys_port_cnt + 1) * sizeof(*v));
		if (more)
			v = more;
		else
			err = -FI_ENOMEM;
		for (port = 1; !err && port <= attr.phys_port_cnt; port++)
			if (!port_read(lib, ctx, &attr, (uint8_t)port, &any, &v[n]))
				n++;
		lib->close_device(ctx);
	}
	if (devs)
		lib->free_device_list(devs);
	if (err || !n) {
		free(v);
		return err;
	}
	*list = v;
	return n;
}

/* The port of an open device that fits. */
static int port_find(const struct uccl_verbs *lib, struct ibv_context *ctx, const struct ibv_device_attr *attr,
		     const char *name, const uint8_t *ip, bool linkless, struct uccl_verbs_port *p)
{
	int port, rc, err = -FI_ENODEV;

	for (port = 1; port <= attr->phys_port_cnt; port++) {
		struct gid_want want = {.ip = ip, .linkless = linkless};

		if (name && !name_fits(name, ctx->device, port)) {
			want.ifindex = if_nametoindex(name);
			if (!want.ifindex)
				continue;
		}
		rc = port_read(lib, ctx, attr, (uint8_t)port, &want, p);
		if (!rc)
			return 0;
		if (rc == -FI_EADDRNOTAVAIL && ip)
			err = rc;
	}
	return err;
}

int uccl_verbs_open(const struct uccl_verbs *lib, const char *name, const uint8_t ip[16], bool linkless,
		    struct uccl_verbs_port *p, struct ibv_context **out)
{
	struct ibv_device **devs;
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	int i, rc, err = -FI_ENODEV;

	lib = lib ? lib : uccl_verbs_lib();
	devs = lib ? lib->get_device_list(NULL) : NULL;
	for (i = 0; devs && devs[i] && err; i++) {
		ctx = device_open(lib, devs[i], &attr);
		if (!ctx)
			continue;
		rc = port_find(lib, ctx, &attr, name, all_zero(ip) ? NULL : ip, linkless, p);
		if (rc)
			lib->close_device(ctx);
		else
			*out = ctx;
		if (rc != -FI_ENODEV)
			err = rc;
	}
	if (devs)
		lib->free_device_list(devs);
	return err;
}

bool uccl_verbs_present(const struct ibv_context *ctx)
{
	const char *path = ctx->device->dev_path;

	return !path[0] || !access(path, F_OK) || errno != ENOENT;
}

enum uccl_link uccl_verbs_port_state(const struct uccl_verbs *lib, struct ibv_context *ctx, struct uccl_verbs_port *p)
{
	struct gid_want want = {.ip = p->addr.ip};
	struct ibv_gid_entry g;
	struct ibv_port_attr a;

	if (lib->query_port(ctx, p->port, &a) || a.state != IBV_PORT_ACTIVE || (p->infiniband && a.lid != p->lid) ||
	    !gid_choose(lib, ctx, p->port, a.gid_tbl_len, p->infiniband, &want, &g))
		return UCCL_LINK_DOWN;
	/* The table may have an address twice, for RoCE version 1 and 2. */
	if (!p->infiniband && (g.gid_type == IBV_GID_TYPE_ROCE_V2) != p->roce_v2)
		return UCCL_LINK_DOWN;
	p->gid_index = g.gid_index;
	return UCCL_LINK_UP;
}

#else

int uccl_verbs_list(const struct uccl_verbs *lib, bool linkless, struct uccl_verbs_port **list)
{
	(void)lib;
	(void)linkless;
	*list = NULL;
	return 0;
}

int uccl_verbs_open(const struct uccl_verbs *lib, const char *name, const uint8_t ip[16], bool linkless,
		    struct uccl_verbs_port *p, struct ibv_context **out)
{
	(void)lib;
	(void)linkless;
	(void)name;
	(void)ip;
	(void)p;
	(void)out;
	return -FI_ENODEV;
}

#endif

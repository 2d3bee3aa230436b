/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For programs that look for RDMA devices before they open libfabric, on hosts that have none. Loaded by LD_PRELOAD:
 * one device, with the name of the network interface $ONE_IBV, which opens, has an active port, and carries nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_device device;
static struct ibv_context context;

static const char *name(void)
{
	const char *text = getenv("ONE_IBV");

	return text ? text : "lo";
}

#undef ibv_get_device_list
struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	if (!list)
		return NULL;
	snprintf(device.name, sizeof(device.name), "%s", name());
	snprintf(device.dev_name, sizeof(device.dev_name), "%s", name());
	snprintf(device.ibdev_path, sizeof(device.ibdev_path), "/sys/class/net/%s", name());
	list[0] = &device;
	if (n)
		*n = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	context.device = dev;
	return &context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	attr->max_mr_size = ~0ull;
	return 0;
}

/* Programs have less room than today's ibv_port_attr has. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr attr = {
		.state = IBV_PORT_ACTIVE,
		.gid_tbl_len = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	memcpy(out, &attr, offsetof(struct ibv_port_attr, flags));
	return 0;
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	memset(gid, 1, sizeof(*gid));
	return 0;
}

/* Where the device would be in sysfs, whose view may be that of another network namespace. */
char *realpath(const char *path, char *out)
{
	static char *(*real)(const char *, char *);
	static const char devices[] = "/sys/class/infiniband/";

	if (!real)
		real = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
	return real(strncmp(path, devices, sizeof(devices) - 1) ? path : "/sys/class/net/lo", out);
}

char *__realpath_chk(const char *path, char *out, size_t size);
char *__realpath_chk(const char *path, char *out, size_t size)
{
	return realpath(path, out);
}

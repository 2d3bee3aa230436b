/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_dev.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fake_verbs.h"

static struct fake_verbs *fake;

static int begin(void **state)
{
	fake = fake_verbs_new();
	return 0;
}

/* Every test leaves nothing behind. */
static int end(void **state)
{
	return fake_verbs_end(fake);
}

static const uint8_t any[16];

static void v4(uint8_t out[16], uint8_t host)
{
	memset(out, 0, 16);
	out[10] = out[11] = 0xff;
	out[12] = 10;
	out[15] = host;
}

/* The only port that is listed. */
static struct uccl_verbs_port only(void)
{
	struct uccl_verbs_port *list, one;

	assert_int_equal(uccl_verbs_list(fake_verbs_lib(), false, &list), 1);
	one = *list;
	free(list);
	return one;
}

static void assert_none(void)
{
	struct uccl_verbs_port *list;

	assert_int_equal(uccl_verbs_list(fake_verbs_lib(), false, &list), 0);
	assert_null(list);
}

TEST_IN(list__none, begin, end)
{
	assert_none();
	/* The kernel has no such support. */
	fake_verbs_fail(fake, "get_device_list", 1, ENOSYS);
	assert_none();
}

TEST_IN(list__host, begin, end)
{
	struct uccl_verbs_port *list;
	int n = uccl_verbs_list(NULL, false, &list);

	/* Whatever this host has, libibverbs included. */
	assert_true(n >= 0);
	assert_int_equal(!list, n == 0);
	free(list);
}

TEST_IN(list__roce, begin, end)
{
	struct fake_dev *d = fake_verbs_add(fake, "mlx5_0", 7, NULL);
	struct uccl_verbs_port p;
	uint8_t ip[16];

	d->attr.max_mw = 12;
	p = only();
	assert_string_equal(p.name, "mlx5_0");
	assert_int_equal(p.max_mw, 0); /* it does not say that it has any */
	d->attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW;
	p = only();
	assert_int_equal(p.max_mw, 12);
	assert_int_equal(p.port, 1);
	assert_false(p.infiniband);
	assert_true(p.roce_v2);
	v4(ip, 7);
	assert_memory_equal(p.addr.ip, ip, 16);
	assert_int_equal(p.addr.port, 0);
	assert_int_equal(p.gid_index, 3);
	assert_string_equal(p.netdev, "lo"); /* interface 1 */
	assert_int_equal(p.lid, 0);
	assert_int_equal(p.mtu, 4096);
	assert_true(p.link_bps == 100000000000ull);
	assert_int_equal(p.max_qp, 1000);
	assert_int_equal(p.max_qp_wr, 4096);
	assert_int_equal(p.max_sge, 30);
	assert_int_equal(p.max_cqe, 65536);
	assert_int_equal(p.max_srq_wr, 4096);
	assert_string_equal(p.driver, "");
}

TEST_IN(list__infiniband, begin, end)
{
	struct uccl_verbs_port p;

	fake_verbs_infiniband(fake_verbs_add(fake, "mlx5_0", 7, NULL), 0x6d0);
	p = only();
	assert_true(p.infiniband);
	assert_false(p.roce_v2);
	assert_int_equal(p.lid, 0x6d0);
	assert_int_equal(p.gid_index, 0);
	assert_int_equal(p.addr.ip[0], 0xfe);
	assert_string_equal(p.netdev, ""); /* no IP on it, and none needed */
}

TEST_IN(list__unusable, begin, end)
{
	struct fake_dev *d = fake_verbs_add(fake, "mlx5_0", 7, NULL);

	d->port[0].state = IBV_PORT_DOWN;
	assert_none();
	d->port[0].state = IBV_PORT_ACTIVE;
	d->dev.transport_type = IBV_TRANSPORT_IWARP;
	assert_none();
	d->dev.transport_type = IBV_TRANSPORT_IB;
	d->dev.node_type = IBV_NODE_RNIC;
	assert_none();
	d->dev.node_type = IBV_NODE_CA;
	d->port[0].link_layer = IBV_LINK_LAYER_UNSPECIFIED;
	assert_none();
	d->port[0].link_layer = IBV_LINK_LAYER_ETHERNET;
	d->port[0].ngids = 0;
	assert_none();
	d->port[0].ngids = 4;
	d->port[0].mtu = 0;
	assert_none();
	d->port[0].mtu = IBV_MTU_1024;
	assert_int_equal(only().mtu, 1024);
	assert_int_equal(only().mtu_code, IBV_MTU_1024);
}

/* Who asks for them gets ports without a link, but none without an address. */
TEST_IN(list__linkless, begin, end)
{
	struct fake_dev *d = fake_verbs_add(fake, "mlx5_0", 7, NULL);
	struct uccl_verbs_port *list, port;
	struct ibv_context *ctx;

	fake_verbs_add(fake, "mlx5_1", 8, NULL);
	d->port[0].state = IBV_PORT_DOWN;
	assert_string_equal(only().name, "mlx5_1");
	assert_true(only().up);
	assert_int_equal(uccl_verbs_list(fake_verbs_lib(), true, &list), 2);
	assert_string_equal(list[0].name, "mlx5_0");
	assert_false(list[0].up);
	assert_int_equal(list[0].addr.ip[15], 7);
	assert_true(list[1].up);
	free(list);
	assert_int_equal(uccl_verbs_open(fake_verbs_lib(), "mlx5_0", any, false, &port, &ctx), -FI_ENODEV);
	assert_int_equal(uccl_verbs_open(fake_verbs_lib(), "mlx5_0", any, true, &port, &ctx), 0);
	assert_false(port.up);
	fake_verbs_lib()->close_device(ctx);
	d->port[0].ngids = 0;
	assert_int_equal(uccl_verbs_list(fake_verbs_lib(), true, &list), 1);
	free(list);
}

/* One device that cannot be asked does not hide the others. */
TEST_IN(list__failing_device, begin, end)
{
	static const char *const calls[] = {"open_device", "query_device", "query_port"};
	size_t i;

	fake_verbs_add(fake, "mlx5_0", 7, NULL);
	fake_verbs_add(fake, "mlx5_1", 8, NULL);
	for (i = 0; i < 3; i++) {
		fake_verbs_fail(fake, calls[i], 1, EACCES);
		assert_string_equal(only().name, "mlx5_1");
	}
	fake_verbs_fail(fake, "query_gid", 0, EIO);
	assert_none();
}

TEST_IN(list__ports, begin, end)
{
	struct fake_dev *d = fake_verbs_add(fake, "mlx4_0", 7, NULL);
	struct uccl_verbs_port *list;

	d->attr.phys_port_cnt = 2;
	d->port[1] = d->port[0];
	fake_verbs_add(fake, "mlx5_1", 8, NULL);
	assert_int_equal(uccl_verbs_list(fake_verbs_lib(), false, &list), 3);
	assert_string_equal(list[0].name, "mlx4_0:1");
	assert_string_equal(list[1].name, "mlx4_0:2");
	assert_int_equal(list[1].port, 2);
	assert_string_equal(list[2].name, "mlx5_1");
	free(list);
}

TEST_IN(gid_choose__order, begin, end)
{
	struct fake_dev *d = fake_verbs_add(fake, "mlx5_0", 7, NULL);
	struct fake_port *p = &d->port[0];
	uint8_t v6[16] = {0x20, 0x01, [15] = 9}, ip[16];

	/* All of them: IPv4 by UDP. Then without it, step by step. */
	p->gid[4] = p->gid[1];
	p->gid[4].gid_index = 4;
	memcpy(p->gid[4].gid.raw, v6, 16);
	p->ngids = 5;
	assert_int_equal(only().gid_index, 3);
	memset(p->gid[3].gid.raw, 0, 16); /* an empty entry that is not told as such */
	assert_int_equal(only().gid_index, 4);
	p->ngids = 3;
	assert_int_equal(only().gid_index, 1); /* link-local over UDP still goes before version 1 */
	p->gid[1].gid_type = IBV_GID_TYPE_ROCE_V1;
	assert_int_equal(only().gid_index, 2);
	assert_false(only().roce_v2);
	v4(ip, 7);
	assert_memory_equal(only().addr.ip, ip, 16);
	p->ngids = 1;
	assert_int_equal(only().gid_index, 0);
	/* Of equals the first. */
	p->ngids = 4;
	p->gid[3] = p->gid[2] = (struct ibv_gid_entry){.gid_type = IBV_GID_TYPE_ROCE_V2, .gid_index = 3};
	p->gid[2].gid_index = 2;
	v4(p->gid[2].gid.raw, 1);
	v4(p->gid[3].gid.raw, 2);
	assert_int_equal(only().gid_index, 2);
}

TEST_IN(link_bps__speeds, begin, end)
{
	static const struct {
		uint8_t speed, width;
		bool infiniband;
		uint64_t mbps;
	} want[] = {
		{1, 1, false, 2500},	{4, 1, false, 10000},	{4, 2, false, 40000},	 {32, 1, false, 25000},
		{32, 2, false, 100000}, {64, 2, false, 200000}, {128, 2, false, 400000}, {0, 2, false, 0},
		{32, 0, false, 0},	{4, 2, true, 32000},	{8, 2, true, 40000},	 {16, 2, true, 56000},
		{32, 2, true, 100000},	{128, 2, true, 400000}, {128, 16, true, 200000}, {2, 8, true, 48000},
		{32, 4, true, 200000},	{3, 2, false, 0},	{32, 32, false, 0},	 {32, 3, false, 0},
	};
	struct fake_dev *d = fake_verbs_add(fake, "mlx5_0", 7, NULL);
	size_t i;

	d->port[0].gid[3].ndev_ifindex = 0;
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		if (want[i].infiniband)
			fake_verbs_infiniband(d, 1);
		d->port[0].speed = want[i].speed;
		d->port[0].width = want[i].width;
		assert_true(only().link_bps == want[i].mbps * 1000000);
	}
}

TEST_IN(driver_find__sysfs, begin, end)
{
	char dir[] = "verbs-dev-XXXXXX", path[64], link[64];
	struct fake_dev *d;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/device", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(link, sizeof(link), "%s/device/driver", dir);
	assert_int_equal(symlink("../../../../bus/pci/drivers/mlx5_core", link), 0);
	d = fake_verbs_add(fake, "mlx5_0", 7, dir);
	assert_string_equal(only().driver, "mlx5_core");
	unlink(link);
	/* Longer than there is room for. */
	assert_int_equal(symlink("drivers/a_driver_with_quite_a_long_name_indeed", link), 0);
	assert_string_equal(only().driver, "a_driver_with_quite_a_l");
	unlink(link);
	assert_string_equal(only().driver, "");
	d->attr.vendor_id = 0xffffff;
	assert_string_equal(only().driver, "rxe");
	rmdir(path);
	rmdir(dir);
}

/* Opens and closes again; the name of what was opened, or the error. */
static int open_name(const char *name, const uint8_t *ip, struct uccl_verbs_port *p)
{
	struct ibv_context *ctx = NULL;
	int rc = uccl_verbs_open(fake_verbs_lib(), name, ip ? ip : any, false, p, &ctx);

	assert_int_equal(!rc, ctx != NULL);
	if (ctx)
		fake_verbs_lib()->close_device(ctx);
	return rc;
}

TEST_IN(open__by_name, begin, end)
{
	struct fake_dev *d;
	struct uccl_verbs_port p;

	assert_int_equal(open_name(NULL, NULL, &p), -FI_ENODEV);
	d = fake_verbs_add(fake, "mlx5_1", 1, NULL);
	d->attr.phys_port_cnt = 2;
	d->port[1] = d->port[0];
	d->port[0].gid[3].ndev_ifindex = 0;
	fake_verbs_add(fake, "mlx5_10", 10, NULL);
	assert_int_equal(open_name(NULL, NULL, &p), 0);
	assert_string_equal(p.name, "mlx5_1:1");
	assert_int_equal(open_name("mlx5_10", NULL, &p), 0);
	assert_string_equal(p.name, "mlx5_10");
	assert_int_equal(open_name("mlx5_10:1", NULL, &p), 0);
	assert_int_equal(open_name("mlx5_1:2", NULL, &p), 0);
	assert_int_equal(p.port, 2);
	assert_int_equal(open_name("mlx5_1:3", NULL, &p), -FI_ENODEV);
	assert_int_equal(open_name("mlx5_", NULL, &p), -FI_ENODEV);
	assert_int_equal(open_name("mlx5_100", NULL, &p), -FI_ENODEV);
	/* The first port of a device that carries traffic. */
	d->port[0].state = IBV_PORT_DOWN;
	assert_int_equal(open_name("mlx5_1", NULL, &p), 0);
	assert_int_equal(p.port, 2);
	assert_int_equal(open_name("mlx5_1:1", NULL, &p), -FI_ENODEV);
}

TEST_IN(open__by_interface, begin, end)
{
	struct fake_dev *d = fake_verbs_add(fake, "mlx5_0", 1, NULL);
	struct uccl_verbs_port p;
	uint32_t i;

	for (i = 0; i < 4; i++)
		d->port[0].gid[i].ndev_ifindex = 0;
	assert_int_equal(open_name("lo", NULL, &p), -FI_ENODEV);
	/* Not the best GID of the port, but the interface's. */
	d->port[0].gid[1].ndev_ifindex = 1;
	assert_int_equal(open_name("lo", NULL, &p), 0);
	assert_int_equal(p.gid_index, 1);
	assert_string_equal(p.netdev, "lo");
	assert_int_equal(open_name("mlx5_0", NULL, &p), 0);
	assert_int_equal(p.gid_index, 3);
}

TEST_IN(open__by_gid, begin, end)
{
	struct uccl_verbs_port p;
	uint8_t ip[16];

	fake_verbs_add(fake, "mlx5_0", 1, NULL);
	fake_verbs_add(fake, "mlx5_1", 2, NULL);
	v4(ip, 2);
	assert_int_equal(open_name(NULL, ip, &p), 0);
	assert_string_equal(p.name, "mlx5_1");
	assert_int_equal(p.gid_index, 3); /* of the two with this address the one over UDP */
	assert_int_equal(open_name("mlx5_1", ip, &p), 0);
	assert_int_equal(open_name("mlx5_0", ip, &p), -FI_EADDRNOTAVAIL);
	ip[15] = 3;
	assert_int_equal(open_name(NULL, ip, &p), -FI_EADDRNOTAVAIL);
	assert_int_equal(open_name("mlx5_2", ip, &p), -FI_ENODEV);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

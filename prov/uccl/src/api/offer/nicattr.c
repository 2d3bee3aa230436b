/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Network interface attributes. The library closes and duplicates them through the object's own operations, never by
 * knowing how they were made. What sysfs does not have stays NULL or unknown.
 */
#include "api/offer/nicattr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/offer/address.h"
#include "api/offer/hwloc.h"
#include "api/offer/near.h"
#include "api/offer/sysfs.h"

static struct fi_ops nic_ops;

static int nic_close(struct fid *fid)
{
	struct fid_nic *nic = uccl_container_of(fid, struct fid_nic, fid);

	if (nic->device_attr) {
		free(nic->device_attr->name);
		free(nic->device_attr->device_id);
		free(nic->device_attr->device_version);
		free(nic->device_attr->vendor_id);
		free(nic->device_attr->driver);
		free(nic->device_attr->firmware);
	}
	free(nic->device_attr);
	free(nic->bus_attr);
	if (nic->link_attr) {
		free(nic->link_attr->address);
		free(nic->link_attr->network_type);
	}
	free(nic->link_attr);
	free(nic);
	return 0;
}

static struct fid_nic *nic_alloc(void)
{
	struct fid_nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return NULL;
	nic->fid.fclass = FI_CLASS_NIC;
	nic->fid.ops = &nic_ops;
	nic->device_attr = calloc(1, sizeof(*nic->device_attr));
	nic->bus_attr = calloc(1, sizeof(*nic->bus_attr));
	nic->link_attr = calloc(1, sizeof(*nic->link_attr));
	if (nic->device_attr && nic->bus_attr && nic->link_attr)
		return nic;
	nic_close(&nic->fid);
	return NULL;
}

static bool copy_text(char **dst, const char *src)
{
	*dst = src ? strdup(src) : NULL;
	return *dst || !src;
}

static int nic_dup(const struct fid_nic *nic, struct fid_nic **out)
{
	const struct fi_device_attr *d = nic->device_attr;
	struct fid_nic *dup = nic_alloc();

	if (!dup)
		return -FI_ENOMEM;
	*dup->bus_attr = *nic->bus_attr;
	dup->link_attr->mtu = nic->link_attr->mtu;
	dup->link_attr->speed = nic->link_attr->speed;
	dup->link_attr->state = nic->link_attr->state;
	if (copy_text(&dup->device_attr->name, d->name) && copy_text(&dup->device_attr->device_id, d->device_id) &&
	    copy_text(&dup->device_attr->device_version, d->device_version) &&
	    copy_text(&dup->device_attr->vendor_id, d->vendor_id) &&
	    copy_text(&dup->device_attr->driver, d->driver) &&
	    copy_text(&dup->device_attr->firmware, d->firmware) &&
	    copy_text(&dup->link_attr->address, nic->link_attr->address) &&
	    copy_text(&dup->link_attr->network_type, nic->link_attr->network_type)) {
		*out = dup;
		return 0;
	}
	nic_close(&dup->fid);
	return -FI_ENOMEM;
}

static int nic_control(struct fid *fid, int command, void *arg)
{
	if (command != FI_DUP)
		return -FI_ENOSYS;
	return nic_dup(uccl_container_of(fid, struct fid_nic, fid), arg);
}

static const char *or_none(const char *text)
{
	return text ? text : "(none)";
}

/* The distance from this process, for the log. It is no attribute, since other processes may run elsewhere. */
static void place_text(const char *name, char *buf, size_t size)
{
	uint64_t nodes = uccl_near_nic(UCCL_SYSFS, uccl_hwloc_find(), name);
	struct uccl_near near;
	char text[64];

	uccl_near_here(UCCL_SYSFS, &near);
	uccl_near_text(nodes, text, sizeof(text));
	snprintf(buf, size, "numa_node: %s\n            distance: %u", text, uccl_near_distance(&near, nodes));
}

/* Appends to what buf holds, as the library expects of an object inside the text of an fi_info. */
static int nic_tostr(const struct fid *fid, char *buf, size_t len)
{
	const struct fid_nic *nic = (const struct fid_nic *)fid;
	const struct fi_link_attr *l = nic->link_attr;
	size_t at = strnlen(buf, len);
	char bus[32] = "unknown", place[128];

	if (nic->bus_attr->bus_type == FI_BUS_PCI)
		snprintf(bus, sizeof(bus), "%04x:%02x:%02x.%x", nic->bus_attr->attr.pci.domain_id,
			 nic->bus_attr->attr.pci.bus_id, nic->bus_attr->attr.pci.device_id,
			 nic->bus_attr->attr.pci.function_id);
	place_text(nic->device_attr->name, place, sizeof(place));
	snprintf(buf + at, len - at,
		 "    fid_nic:\n"
		 "        fi_device_attr:\n"
		 "            name: %s\n            device_id: %s\n            vendor_id: %s\n            driver: %s\n"
		 "        fi_bus_attr:\n            pci: %s\n            %s\n"
		 "        fi_link_attr:\n"
		 "            address: %s\n            mtu: %zu\n            speed: %zu\n            state: %s\n"
		 "            network_type: %s\n",
		 or_none(nic->device_attr->name), or_none(nic->device_attr->device_id),
		 or_none(nic->device_attr->vendor_id), or_none(nic->device_attr->driver), bus, place,
		 or_none(l->address), l->mtu, l->speed, l->state == FI_LINK_UP ? "FI_LINK_UP" : "FI_LINK_UNKNOWN",
		 or_none(l->network_type));
	return 0;
}

static struct fi_ops nic_ops = {
	.size = sizeof(struct fi_ops),
	.close = nic_close,
	.bind = uccl_no_bind,
	.control = nic_control,
	.ops_open = uccl_no_ops_open,
	.tostr = nic_tostr,
	.ops_set = uccl_no_ops_set,
};

/*
 * MPICH looks for the address of each NIC in its own list of devices (MPIR_hwtopo_is_dev_close_by_pci), and ends the
 * program if it is not there. That of PyPI has no PCI devices at all. Without an address it takes the first NIC, which
 * is the nearest (order.h). The symbol is one that programs use, so it is in every MPICH, and what was made from it.
 */
bool uccl_nicattr_pci(const char *choice)
{
	if (strcmp(choice, "auto"))
		return !strcmp(choice, "all");
	return !uccl_lib_loaded("libmpi", "MPIR_Dup_fn");
}

struct fid_nic *uccl_nicattr_new(const char *sys, const struct uccl_ifaddr *ifa, bool pci)
{
	struct fid_nic *nic = nic_alloc();
	char text[UCCL_ADDRESS_TEXT], device[PATH_MAX];
	struct uccl_pci at;

	if (!nic)
		return NULL;
	if (pci && uccl_sysfs_device(sys, ifa->name, device) && uccl_sysfs_pci(device, &at)) {
		nic->bus_attr->bus_type = FI_BUS_PCI;
		nic->bus_attr->attr.pci = (struct fi_pci_attr){ .domain_id = at.domain, .bus_id = at.bus,
								.device_id = at.device, .function_id = at.function };
	}
	if (uccl_sysfs_link(sys, ifa->name, "device/driver", text, sizeof(text)))
		nic->device_attr->driver = strdup(text);
	nic->device_attr->name = strdup(ifa->name);
	nic->device_attr->device_id = uccl_sysfs_line(sys, ifa->name, "device/device");
	nic->device_attr->vendor_id = uccl_sysfs_line(sys, ifa->name, "device/vendor");
	uccl_address_ip_text(&ifa->addr, text, sizeof(text));
	nic->link_attr->address = strdup(text);
	nic->link_attr->mtu = ifa->mtu;
	nic->link_attr->speed = ifa->link_bps;
	nic->link_attr->state = FI_LINK_UP;
	nic->link_attr->network_type = uccl_sysfs_line(sys, ifa->name, "ports/1/link_layer"); /* only RDMA devices */
	if (!nic->link_attr->network_type)
		nic->link_attr->network_type = strdup("Ethernet");
	if (nic->device_attr->name && nic->link_attr->address && nic->link_attr->network_type)
		return nic;
	nic_close(&nic->fid);
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Private counters of NICs, asked of the kernel (SIOCETHTOOL). This needs no privileges. */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uccl_doctor_cloud.h"
#include "uccl_doctor_side.h"

#define COUNTERS_MAX 65536
#define COUNTERS_SPARE 4096 /* queues may be added between two questions, and the kernel writes what there is then */

_Static_assert(ETH_GSTRING_LEN == DOCTOR_CLOUD_NAME, "names are read as the kernel writes them");

int doctor_ethtool(const char *nic, void *question)
{
	struct ifreq req = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", nic);
	req.ifr_data = question;
	rc = fd < 0 ? -1 : ioctl(fd, SIOCETHTOOL, &req);
	if (fd >= 0)
		close(fd);
	return rc ? -1 : 0;
}

static bool nic_read(struct doctor_cloud *c, const char *nic)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ethtool_gstrings *names;
	struct ethtool_stats *values;
	size_t room;
	bool got = false;

	if (doctor_ethtool(nic, &info) || !info.n_stats || info.n_stats > COUNTERS_MAX)
		return false;
	info.driver[sizeof(info.driver) - 1] = '\0';
	room = (size_t)info.n_stats + COUNTERS_SPARE;
	names = calloc(1, sizeof(*names) + room * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + room * sizeof(uint64_t));
	if (names && values) {
		names->cmd = ETHTOOL_GSTRINGS;
		names->string_set = ETH_SS_STATS;
		names->len = info.n_stats;
		values->cmd = ETHTOOL_GSTATS;
		values->n_stats = info.n_stats;
		/* Another number of values than of names: queues came or went. */
		got = !doctor_ethtool(nic, names) && !doctor_ethtool(nic, values) && names->len == values->n_stats &&
		      values->n_stats <= room &&
		      doctor_cloud_take(c, nic, info.driver, (const char *)names->data,
					(const uint64_t *)values->data, values->n_stats);
	}
	free(names);
	free(values);
	return got;
}

void doctor_clouds_read(struct doctor_clouds *c)
{
	struct if_nameindex *nics = if_nameindex();

	memset(c, 0, sizeof(*c));
	for (struct if_nameindex *p = nics; p && p->if_index && c->n < DOCTOR_CLOUD_NICS; p++)
		c->n += nic_read(&c->list[c->n], p->if_name);
	if (nics)
		if_freenameindex(nics);
	c->us = doctor_now_us();
}

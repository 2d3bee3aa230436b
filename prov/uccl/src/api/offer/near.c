/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/offer/hwloc.h"
#include "api/offer/sysfs.h"
#include "base/units.h"

#define CPUS_MAX UCCL_NEAR_CPUS
#define DISTANCE_SAME 10 /* ACPI's numbers, for a machine without a table */
#define DISTANCE_OTHER 20

/* A file of one line; "" if it is not there. */
static void line_read(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(line, (int)size, f))
		*line = '\0';
	if (f)
		fclose(f);
}

/* The next range of a list like "0-3,8"; false: that was all. */
static bool range_next(const char **s, long *first, long *last)
{
	char *end;

	*first = *last = strtol(*s, &end, 10);
	if (end == *s || *first < 0)
		return false;
	if (*end == '-')
		*last = strtol(end + 1, &end, 10);
	*s = end + (*end == ',');
	return true;
}

/* A file of /sys/devices/system/node as a set of nodes. */
static uint64_t nodes_read(const char *sys, const char *file)
{
	char path[256], line[4096];
	const char *s = line;
	long first, last;
	uint64_t nodes = 0;

	snprintf(path, sizeof(path), "%s/devices/system/node/%s", sys, file);
	line_read(path, line, sizeof(line));
	while (range_next(&s, &first, &last))
		for (long i = first; i <= last && i < UCCL_NEAR_NODES; i++)
			nodes |= 1ull << i;
	return nodes;
}

/* Processors of a node that are in the set; those are added to `*out`, as large a set, if it is not NULL. */
static uint32_t node_count(const char *sys, int node, const cpu_set_t *set, size_t bytes, cpu_set_t *out)
{
	char path[256], line[4096];
	const char *s = line;
	long first, last;
	uint32_t n = 0;

	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sys, node);
	line_read(path, line, sizeof(line));
	while (range_next(&s, &first, &last))
		for (long i = first; i <= last && i < CPUS_MAX; i++) {
			if (!CPU_ISSET_S((size_t)i, bytes, set))
				continue;
			n++;
			if (out)
				CPU_SET_S((size_t)i, bytes, out);
		}
	return n;
}

/* Lower the distances to those of this node. Its file has a number for each node that is online. */
static void distance_read(const char *sys, int node, uint64_t online, struct uccl_near *near)
{
	char path[256], line[4096], *end;
	const char *s = line;

	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/distance", sys, node);
	line_read(path, line, sizeof(line));
	for (int i = 0; i < UCCL_NEAR_NODES; i++) {
		unsigned int d = i == node ? DISTANCE_SAME : DISTANCE_OTHER;

		if (!(online & 1ull << i))
			continue;
		if (*s)
			d = (unsigned int)strtoul(s, &end, 10);
		s = *s ? end : s;
		near->distance[i] = (unsigned int)uccl_min(near->distance[i], d);
	}
}

void uccl_near_from(const char *sys, const cpu_set_t *set, size_t bytes, struct uccl_near *near)
{
	uint64_t online = nodes_read(sys, "online");

	memset(near, 0, sizeof(*near));
	memset(near->distance, 0xff, sizeof(near->distance));
	near->nodes = nodes_read(sys, "has_cpu") & online;
	for (int i = 0; i < UCCL_NEAR_NODES; i++) {
		if (!(near->nodes & 1ull << i) || !node_count(sys, i, set, bytes, NULL))
			continue;
		near->here |= 1ull << i;
		distance_read(sys, i, online, near);
	}
	for (int i = 0; i < UCCL_NEAR_NODES; i++)
		if (near->here && online & 1ull << i)
			near->farthest = (unsigned int)uccl_max(near->farthest, near->distance[i]);
	if (!near->farthest)
		near->farthest = DISTANCE_SAME;
}

void uccl_near_here(const char *sys, struct uccl_near *near)
{
	struct uccl_near_cpus may;

	/* A kernel with more processors than that refuses. */
	if (sched_getaffinity(0, sizeof(may.set), may.set))
		memset(may.set, 0xff, sizeof(may.set));
	uccl_near_from(sys, may.set, sizeof(may.set), near);
}

bool uccl_near_bound(const struct uccl_near *near)
{
	return near->here && near->here != near->nodes;
}

uint64_t uccl_near_nodes(const struct uccl_hwloc *hwloc, const char *device)
{
	struct uccl_pci pci;
	uint64_t nodes = hwloc && uccl_sysfs_pci(device, &pci) ? uccl_hwloc_nodes(hwloc, &pci) : 0;
	int node = nodes ? -1 : uccl_sysfs_node(device);

	return node >= 0 && node < UCCL_NEAR_NODES ? 1ull << node : nodes;
}

uint64_t uccl_near_nic(const char *sys, const struct uccl_hwloc *hwloc, const char *nic)
{
	char device[PATH_MAX];

	return uccl_sysfs_device(sys, nic, device) ? uccl_near_nodes(hwloc, device) : 0;
}

bool uccl_near_cpus_from(const char *sys, const struct uccl_near_cpus *may, uint64_t nodes, uint32_t ours,
			 uint32_t least, struct uccl_near_cpus *out)
{
	uint64_t all = (uint64_t)CPU_COUNT_S(sizeof(may->set), may->set), n = 0;

	memset(out, 0, sizeof(*out));
	for (int i = 0; i < UCCL_NEAR_NODES; i++)
		if (nodes & 1ull << i)
			n += node_count(sys, i, may->set, sizeof(may->set), out->set);
	return n && n < all && n * ours / all >= least;
}

bool uccl_near_cpus(const char *sys, uint64_t nodes, uint32_t ours, uint32_t least, struct uccl_near_cpus *out)
{
	struct uccl_near_cpus may;

	return !sched_getaffinity(0, sizeof(may.set), memset(may.set, 0, sizeof(may.set))) &&
	       uccl_near_cpus_from(sys, &may, nodes, ours, least, out);
}

void uccl_near_text(uint64_t nodes, char *buf, size_t size)
{
	size_t at = 0;

	snprintf(buf, size, "unknown");
	for (int i = 0; i < UCCL_NEAR_NODES && at < size; i++)
		if (nodes & 1ull << i)
			at += (size_t)snprintf(buf + at, size - at, "%s%d", at ? "," : "", i);
}

unsigned int uccl_near_distance(const struct uccl_near *near, uint64_t nodes)
{
	unsigned int d = near->farthest;

	if ((nodes & near->nodes) == near->nodes)
		return d;
	for (int i = 0; i < UCCL_NEAR_NODES; i++)
		if (nodes & 1ull << i)
			d = (unsigned int)uccl_min(d, near->distance[i]);
	return d;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* NUMA distance between NICs and the processors on which a thread may run. `sys` is the directory of sysfs. */
#ifndef UCCL_API_NEAR_H
#define UCCL_API_NEAR_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uccl_hwloc; /* hwloc.h */

#define UCCL_NEAR_NODES 64 /* NUMA nodes with higher numbers are ignored */
#define UCCL_NEAR_CPUS 8192 /* processors with higher numbers are ignored */

/* The machine, seen from a set of processors. In a set of nodes bit i is node i. */
struct uccl_near {
	uint64_t nodes; /* nodes with processors */
	uint64_t here;	/* nodes with a processor of the set */
	/* To each node from the nearest node of `here`, from the firmware: 10 is the same node, more is farther. */
	unsigned int distance[UCCL_NEAR_NODES];
	unsigned int farthest; /* greatest value of `distance` */
};

void uccl_near_from(const char *sys, const cpu_set_t *set, size_t bytes, struct uccl_near *near);
/* From the processors that the calling thread may run on. */
void uccl_near_here(const char *sys, struct uccl_near *near);

/* True if the set has no processor of some node, so that distances may differ. */
bool uccl_near_bound(const struct uccl_near *near);

/* Nodes near a directory of uccl_sysfs_device(), from hwloc (NULL: none) or else from sysfs. 0: unknown. */
uint64_t uccl_near_nodes(const struct uccl_hwloc *hwloc, const char *device);

/* Nodes near a NIC, named as in sysfs.h. 0: unknown. */
uint64_t uccl_near_nic(const char *sys, const struct uccl_hwloc *hwloc, const char *nic);

struct uccl_near_cpus {
	cpu_set_t set[UCCL_NEAR_CPUS / CPU_SETSIZE];
};

/*
 * *out becomes those processors of `may` (all that the process may use) that are on `nodes`. The process counts on
 * `ours` of the processors in `may`, since others share them. True: *out is a real subset, and the process's share of
 * it is at least `least` processors.
 */
bool uccl_near_cpus_from(const char *sys, const struct uccl_near_cpus *may, uint64_t nodes, uint32_t ours,
			 uint32_t least, struct uccl_near_cpus *out);
/* As above, for the processors on which the calling thread may run. */
bool uccl_near_cpus(const char *sys, uint64_t nodes, uint32_t ours, uint32_t least, struct uccl_near_cpus *out);

/* A set of nodes as "0,1", "unknown" if it is empty. */
void uccl_near_text(uint64_t nodes, char *buf, size_t size);

/* Distance to the nearest of `nodes`. If `nodes` is 0 (unknown) or has all nodes: the distance of the farthest node. */
unsigned int uccl_near_distance(const struct uccl_near *near, uint64_t nodes);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where NICs are in this machine, and how far that is from where a thread may run. `sys` is the folder of sysfs. */
#ifndef UCCL_API_NEAR_H
#define UCCL_API_NEAR_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uccl_hwloc; /* hwloc.h */

#define UCCL_NEAR_NODES 64 /* NUMA nodes with higher numbers are not known */
#define UCCL_NEAR_CPUS 8192 /* nor processors with these */

/* The machine, seen from the processors of a set. Sets of nodes have a bit per number. */
struct uccl_near {
	uint64_t nodes; /* that have processors */
	uint64_t here;	/* of these, those with a processor of the set */
	/* As the firmware says: 10 within a node, more to others. From the nearest node of `here`. */
	unsigned int distance[UCCL_NEAR_NODES];
	unsigned int farthest;
};

void uccl_near_from(const char *sys, const cpu_set_t *set, size_t bytes, struct uccl_near *near);
/* From the processors that the calling thread may run on. */
void uccl_near_here(const char *sys, struct uccl_near *near);

/* True: the set has no processor of some node, so something may be nearer than something else. */
bool uccl_near_bound(const struct uccl_near *near);

/* The nodes near a folder of uccl_sysfs_device(), as `hwloc` (NULL: none) or else sysfs knows. 0: not known. */
uint64_t uccl_near_nodes(const struct uccl_hwloc *hwloc, const char *device);

/* The same of a NIC (sysfs.h). */
uint64_t uccl_near_nic(const char *sys, const struct uccl_hwloc *hwloc, const char *nic);

struct uccl_near_cpus {
	cpu_set_t set[UCCL_NEAR_CPUS / CPU_SETSIZE];
};

/*
 * Of the processors `may`, which are those of a process, those of these nodes. True: others are left out, and the part
 * of this process has `least` or more, where it may count with `ours` of all, and others with the rest.
 */
bool uccl_near_cpus_from(const char *sys, const struct uccl_near_cpus *may, uint64_t nodes, uint32_t ours,
			 uint32_t least, struct uccl_near_cpus *out);
/* The same of the processors that the calling thread may run on. */
bool uccl_near_cpus(const char *sys, uint64_t nodes, uint32_t ours, uint32_t least, struct uccl_near_cpus *out);

/* A set of nodes as "0,1", "unknown" if it is empty. */
void uccl_near_text(uint64_t nodes, char *buf, size_t size);

/* To the nearest of these nodes. What is nowhere (0), or everywhere, is as far as the farthest node. */
unsigned int uccl_near_distance(const struct uccl_near *near, uint64_t nodes);

#endif

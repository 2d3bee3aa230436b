/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* uccl_doctor --nics: where the NICs of this host are, and which GPU is near each. */
#ifndef UCCL_DOCTOR_NICS_H
#define UCCL_DOCTOR_NICS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "api/offer/near.h"
#include "nic/ifaddr.h"

/*
 * What a packet from one PCI device to another passes, from near to far, as GPU tools call it: one switch, several
 * switches, the host bridge (a processor's PCI root), the node's own interconnect, the one between nodes.
 */
enum doctor_way { DOCTOR_PIX, DOCTOR_PXB, DOCTOR_PHB, DOCTOR_NODE, DOCTOR_SYS };

struct doctor_gpu {
	char device[PATH_MAX]; /* folder in sysfs */
	uint64_t nodes;	       /* NUMA nodes near it, a bit per number; 0: not known */
};

struct doctor_nic {
	struct uccl_ifaddr ifa;
	bool rdma;
	int place;	       /* among what fi_getinfo offers, from 1; 0: it is not offered */
	char device[PATH_MAX]; /* folder in sysfs; empty: none */
	uint64_t nodes;
	unsigned int distance;
};

/* The devices in folder `sys` that compute: how many; *list is the caller's to free(). */
int doctor_gpus(const char *sys, const struct uccl_hwloc *hwloc, struct doctor_gpu **list);
enum doctor_way doctor_way(const char *device, uint64_t nodes, const struct doctor_gpu *gpu);
const char *doctor_way_text(enum doctor_way way);
/* The nearest, of equals the first by PCI address; NULL: there is none, or the NIC has no device. */
const struct doctor_gpu *doctor_gpu_nearest(const struct doctor_nic *nic, const struct doctor_gpu *list, int n);

/* A table for people, or one object for programs (uccl_doctor(1)). `source` is who said where NICs are. */
void doctor_nics_text(const struct doctor_nic *nic, int n, const struct doctor_gpu *gpu, int ngpu,
		      const struct uccl_near *near, const char *source, FILE *f);
void doctor_nics_json(const struct doctor_nic *nic, int n, const struct doctor_gpu *gpu, int ngpu,
		      const struct uccl_near *near, const char *source, FILE *f);

#endif

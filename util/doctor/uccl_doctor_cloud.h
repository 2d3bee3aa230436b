/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What NICs of clouds count of packets that they held back or dropped. The counters are private ones of the drivers
 * (ethtool -S); a NIC without them is not in the list.
 */
#ifndef UCCL_DOCTOR_CLOUD_H
#define UCCL_DOCTOR_CLOUD_H

#include <stdint.h>

#include "uccl_doctor_report.h"

#define DOCTOR_CLOUD_COUNTERS 16
#define DOCTOR_CLOUD_NICS 32
#define DOCTOR_CLOUD_NAME 32 /* of an interface, a driver, a counter */

struct doctor_cloud {
	char nic[DOCTOR_CLOUD_NAME];
	char driver[DOCTOR_CLOUD_NAME];
	uint64_t value[DOCTOR_CLOUD_COUNTERS]; /* by the table of counters; queues are added up */
	uint32_t known;			       /* bits of that table: counters that the NIC has */
};

struct doctor_clouds {
	struct doctor_cloud list[DOCTOR_CLOUD_NICS];
	int n;
	uint64_t us; /* time of the reading */
};

/*
 * Take what a driver counts: n names of DOCTOR_CLOUD_NAME bytes each, which need not end in a zero, and their values.
 * False: it has none of the counters that tell of a cloud's limits.
 */
bool doctor_cloud_take(struct doctor_cloud *c, const char *nic, const char *driver, const char *names,
		       const uint64_t *values, uint32_t n);
/* A finding for each limit that was exceeded between two readings, or before; one for each NIC where none was. */
void doctor_clouds_judge(struct doctor_report *r, const struct doctor_clouds *before,
			 const struct doctor_clouds *after);

/* The rest is in uccl_doctor_ethtool.c. Read the counters of all interfaces. */
void doctor_clouds_read(struct doctor_clouds *c);
/* Ask the kernel about an interface; `question` is a structure of linux/ethtool.h with its cmd. 0, or -1. */
int doctor_ethtool(const char *nic, void *question);

#endif

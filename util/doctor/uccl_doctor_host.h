/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* uccl_doctor on one host: what would be offered and what limits it. */
#ifndef UCCL_DOCTOR_HOST_H
#define UCCL_DOCTOR_HOST_H

#include "api/offer/param.h"
#include "nic/ifaddr.h"
#include "uccl_doctor_report.h"

#define DOCTOR_PLACES 64

/* What the provider would use on this host. */
struct doctor_host {
	struct uccl_params params;
	int peers;			 /* how many peers descriptors should suffice for */
	struct uccl_ifaddr place[DOCTOR_PLACES]; /* the entries that are offered */
	int nplaces;
	bool rdma; /* the back end wants RDMA NICs */
};

/*
 * What the provider's own code offers, by interface and back end, and why not more. Fills in *h but for `peers`. False:
 * the variables are not valid, so nothing more can be said.
 */
bool doctor_offer(struct doctor_host *h, struct doctor_report *r);
/* Print where the NICs of this host are (--nics). The exit status. Fills in *h, too. */
int doctor_nics(struct doctor_host *h, bool json, FILE *f);
/* What limits a process here: buffers, descriptors, memory, processors, the kernel's trains. */
void doctor_limits(const struct doctor_host *h, struct doctor_report *r);
/* The ports that sockets of the provider get: FI_UCCL_PORTS, or those that the kernel gives out. */
void doctor_ports(const struct doctor_host *h, unsigned int *lo, unsigned int *hi);
/* Packets and connections to ourselves, over each address and the ports that the provider uses. */
void doctor_own_ports(const struct doctor_host *h, struct doctor_report *r);

#endif

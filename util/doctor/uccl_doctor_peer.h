/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* uccl_doctor between two hosts. */
#ifndef UCCL_DOCTOR_PEER_H
#define UCCL_DOCTOR_PEER_H

#include "nic/ports.h"
#include "uccl_doctor_report.h"

#define DOCTOR_PORT 18516

struct doctor_peer_opt {
	const char *host; /* whom to ask; for the listener the address to listen at, NULL: all */
	uint16_t port;	  /* of the TCP connection */
	struct uccl_ports ports; /* that sockets may have; all zero: any */
	int labels;	  /* source ports to measure with */
	int expect;	  /* paths that there should be; 0: not known */
	uint32_t mtu;	  /* most bytes of a packet's payload that the provider sends, 0: what the interface carries */
	uint32_t rx_bytes; /* of the receive queue, rcvbuf of FI_UCCL_BACKEND; 0: the provider's default */
	bool quiet;	  /* only errors are lines on standard error */
	char *why;	  /* DOCTOR_TEXT bytes for why a host cannot be asked; NULL: a line on standard error */
	int clients;	  /* the listener ends after so many; 0: never */
	int wait_s;	  /* the listener ends when nobody came for so long; 0: never */
	int until_fd;	  /* it ends when this file does; -1: there is none */
	int ready_fd;	  /* it writes its port there (uint16_t) and no line on standard error; -1: the line */
};

/* Measure to the host and back. 0; or -1 after a line on standard error: it cannot be asked. */
int doctor_ask(const struct doctor_peer_opt *opt, struct doctor_report *r);
/* Serve askers. 0; or -1 after a line on standard error. */
int doctor_listen(const struct doctor_peer_opt *opt);

#endif

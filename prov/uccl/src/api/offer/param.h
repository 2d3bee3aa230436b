/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The FI_UCCL_* variables: one table says name, form, default, range and help of each (param.c). */
#ifndef UCCL_API_PARAM_H
#define UCCL_API_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/config.h"
#include "nic/nic.h"

#define UCCL_PARAM_OWNER "uccl"
#define UCCL_PARAM_TEXT 512
#define UCCL_PARAM_NAME 32

enum uccl_switch { UCCL_SWITCH_NO, UCCL_SWITCH_YES, UCCL_SWITCH_AUTO };

/* The values, in the units of the engine. Plain data: copied freely. */
struct uccl_params {
	char backend[UCCL_PARAM_NAME];
	char cuda[UCCL_PARAM_NAME];
	char pci[UCCL_PARAM_NAME];	/* "auto", "all", "none": see uccl_nicattr_pci */
	char nic[UCCL_PARAM_TEXT];	/* interface names with commas between; empty: any */
	char cc[UCCL_PARAM_TEXT];
	char path[UCCL_PARAM_TEXT];
	char credit[UCCL_PARAM_TEXT];
	char path_order[UCCL_PARAM_NAME];
	char security[UCCL_PARAM_NAME];
	char alias[UCCL_PARAM_TEXT];	/* see uccl_params_alias */
	char fault[UCCL_PARAM_TEXT];	/* empty: none */
	char stats[UCCL_PARAM_TEXT];	/* empty: none */
	char trace[UCCL_PARAM_TEXT];	/* empty: none */
	uint64_t live, trace_records;
	uint64_t rescue_ns;
	uint64_t paths, chunk_bytes, eager_bytes, inject_bytes, window_chunks, unexpected_bytes;
	uint64_t peer_timeout_ns, connect_timeout_ns, keepalive_ns, linger_ns;
	uint64_t keyless;		/* enum uccl_keyless */
	uint64_t rx_cq_data;
	uint64_t lanes;			/* see uccl_lanes_count */
	char xdp[UCCL_PARAM_NAME];
	struct uccl_ports ports;
	uint64_t mtu, rcvbuf_bytes, liveness, ecn, dscp, control_dscp, max_qp, srq_depth, write_bytes, scatter;
	uint64_t windows; /* enum uccl_switch */
};

/* Make the variables known to the library (fi_info -e), and warn of those in the environment that there are not. */
void uccl_params_define(void);

/* FI_UCCL_ALIAS, if it is a name that a provider can have; "" if it is not set, or, after a warning, if it is not. */
void uccl_params_alias(char *buf, size_t size);

/*
 * Read all variables. -FI_EINVAL: at least one has a bad value; every bad one was told as a warning, and `why` holds
 * the first such text.
 */
int uccl_params_read(struct uccl_params *p, char *why, size_t size);
/*
 * Forget the names of files, with a warning. uccl_params_read does so in a program that has other rights than who
 * started it (setuid, capabilities): the environment is its caller's.
 */
void uccl_params_distrust(struct uccl_params *p);

/* The engine's part. Strings of *c point into *p. */
void uccl_params_config(const struct uccl_params *p, struct uccl_config *c);

/* FI_UCCL_XDP. */
enum uccl_xdp_mode uccl_params_xdp_mode(const struct uccl_params *p);

/* FI_UCCL_WINDOWS. */
enum uccl_windows uccl_params_windows(const struct uccl_params *p);

/* True if `name` is allowed by FI_UCCL_NIC; *rank is its place in that list (0 without a list). */
bool uccl_params_nic_wanted(const struct uccl_params *p, const char *name, unsigned int *rank);

#endif

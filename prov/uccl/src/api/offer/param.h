/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The FI_UCCL_* variables: one table says name, form, default, range and help of each, and the names of earlier
 * versions (param.c). A variable has a value, parts that are set as key=value, or both; base/keyvalue.h has the syntax.
 */
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

/* The values, in the units of the engine. Plain data: copied freely. A part's field begins with its variable's name. */
struct uccl_params {
	char backend[UCCL_PARAM_NAME];
	char backend_mode[UCCL_PARAM_NAME];	/* see uccl_params_xdp_mode */
	uint64_t backend_rcvbuf;		/* bytes */
	char nic[UCCL_PARAM_TEXT];		/* interface names with commas between; empty: any */
	char nic_pci[UCCL_PARAM_NAME];		/* "auto", "all", "none": see uccl_nicattr_pci */
	struct uccl_ports ports;
	uint64_t mtu;
	uint64_t verbs_max_qp, verbs_srq, verbs_write;
	uint64_t verbs_mw;			/* enum uccl_switch, see uccl_params_windows */
	char cuda[UCCL_PARAM_NAME];
	uint64_t cuda_scatter;
	uint64_t ecn;
	uint64_t dscp, dscp_control;
	char cc[UCCL_PARAM_TEXT];
	char path[UCCL_PARAM_TEXT];
	char credit[UCCL_PARAM_TEXT];
	uint64_t paths, paths_window;
	char paths_order[UCCL_PARAM_NAME];
	uint64_t lanes;				/* see uccl_lanes_count */
	uint64_t eager_bytes, unexpected_bytes;
	uint64_t peer_timeout_ns, peer_connect_ns, peer_keepalive_ns, peer_liveness;
	uint64_t progress_timeout_ns;
	uint64_t linger_ns;
	char security[UCCL_PARAM_NAME];
	uint64_t security_keyless;		/* enum uccl_switch */
	char stats[UCCL_PARAM_TEXT];		/* empty: none */
	uint64_t monitor;
	char trace[UCCL_PARAM_TEXT];		/* empty: none */
	uint64_t trace_records;
	char fault[UCCL_PARAM_TEXT];		/* empty: none */
	char alias[UCCL_PARAM_TEXT];		/* see uccl_params_alias */
	/* Nobody need choose these: tests do, by FI_UCCL_TEST. */
	uint64_t chunk_bytes, inject_bytes;
	uint64_t rx_cq_data;			/* enum uccl_switch */
};

/*
 * Make the variables known to the library (fi_info -e). Warn of those in the environment that there are not, and once
 * in a process of each name of an earlier version, with today's spelling.
 */
void uccl_params_define(void);

/* FI_UCCL_ALIAS, if it is a name that a provider can have; "" if it is not set, or, after a warning, if it is not. */
void uccl_params_alias(char *buf, size_t size);

/*
 * Read all variables, and for what they do not say those of earlier versions. -FI_EINVAL: at least one has a bad value;
 * every bad one was told as a warning, by the name that the person used, and `why` holds the first such text.
 */
int uccl_params_read(struct uccl_params *p, char *why, size_t size);
/*
 * Forget the names of files, with a warning. uccl_params_read does so in a program that has other rights than who
 * started it (setuid, capabilities): the environment is its caller's.
 */
void uccl_params_distrust(struct uccl_params *p);

/* The engine's part. Strings of *c point into *p. */
void uccl_params_config(const struct uccl_params *p, struct uccl_config *c);

/* FI_UCCL_BACKEND=xdp,mode=... */
enum uccl_xdp_mode uccl_params_xdp_mode(const struct uccl_params *p);

/* FI_UCCL_VERBS=mw=... */
enum uccl_windows uccl_params_windows(const struct uccl_params *p);

/* True if `name` is allowed by FI_UCCL_NIC; *rank is its place in that list (0 without a list). */
bool uccl_params_nic_wanted(const struct uccl_params *p, const char *name, unsigned int *rank);

#endif

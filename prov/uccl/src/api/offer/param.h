/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The FI_UCCL_* variables. The tables in param.c, param_nic.c and param_conn.c have name, form, default, range and help
 * of each, and the names of earlier versions. A variable has a value, parts that are set as key=value, or both;
 * base/keyvalue.h has the syntax.
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

/* Values are in the units of the engine. The name of a field begins with that of its variable: paths_idle_ns. */

/* NICs and their packets. param_nic.c writes it. */
struct uccl_nic_params {
	char backend[UCCL_PARAM_NAME];
	char backend_mode[UCCL_PARAM_NAME];	/* see uccl_params_xdp_mode */
	uint64_t backend_rcvbuf;		/* bytes */
	char names[UCCL_PARAM_TEXT];		/* FI_UCCL_NIC: see nicnames.h; empty: any */
	char pci[UCCL_PARAM_NAME];		/* "auto", "all", "none": see uccl_nicattr_pci */
	struct uccl_ports ports;
	uint64_t mtu;
	uint64_t verbs_max_qp, verbs_srq, verbs_write;
	uint64_t verbs_mw;			/* enum uccl_switch, see uccl_params_windows */
	char cuda[UCCL_PARAM_NAME];
	uint64_t cuda_scatter;
	uint64_t ecn;
	uint64_t dscp, dscp_control;
};

/* Most of FI_UCCL_OP_TIMEOUT, and of FI_OPT_UCCL_OP_TIMEOUT: a day. */
#define UCCL_OP_TIMEOUT_MAX_MS 86400000ull

/* Connections: how long they wait, and whom they trust. param_conn.c writes it. */
struct uccl_params_conn {
	uint64_t peer_timeout_ns, peer_connect_ns, peer_keepalive_ns, peer_liveness;
	uint64_t progress_timeout_ns, op_timeout_ns;
	uint64_t linger_ns;
	char security[UCCL_PARAM_NAME];
	uint64_t security_keyless;		/* enum uccl_switch */
};

/* All values; param.c writes the fields that are in no part. Plain data: copied freely. */
struct uccl_params {
	struct uccl_nic_params nic;
	struct uccl_params_conn conn;
	char cc[UCCL_PARAM_TEXT];
	char path[UCCL_PARAM_TEXT];
	char credit[UCCL_PARAM_TEXT];
	uint64_t paths, paths_window, paths_host;
	char paths_order[UCCL_PARAM_NAME];
	uint64_t lanes;				/* see uccl_lanes_count */
	uint64_t lanes_leave;			/* 0: lanes are used however late they come */
	uint64_t eager_bytes, unexpected_bytes;
	char log[UCCL_PARAM_NAME];		/* checked here; uccl_notice_begin() reads it for itself */
	char stats[UCCL_PARAM_TEXT];		/* empty: none */
	uint64_t stats_paths;			/* not 0: each path, too */
	uint64_t monitor;
	char trace[UCCL_PARAM_TEXT];		/* empty: none */
	uint64_t trace_records;
	char fault[UCCL_PARAM_TEXT];		/* empty: none */
	char alias[UCCL_PARAM_TEXT];		/* see uccl_params_alias */
	/* For tests only, set by FI_UCCL_TEST. */
	uint64_t chunk_bytes, inject_bytes;
	uint64_t rx_cq_data;			/* enum uccl_switch */
};

/*
 * Define the variables in the library (fi_info -e). Warn once in a process of each name of an earlier version, with
 * today's spelling.
 */
void uccl_params_define(void);

/* FI_UCCL_ALIAS. "": it is not set, or is no valid name of a provider, which is logged as a warning. */
void uccl_params_alias(char *buf, size_t size);

/*
 * Read all variables. If one is not set, the names of earlier versions are read. -FI_EINVAL: at least one has a bad
 * value. Each bad one is logged as a warning, by the name that the user set, and `why` has the first of these texts.
 */
int uccl_params_read(struct uccl_params *p, char *why, size_t size);
/*
 * Clear the variables that name files, with a warning. uccl_params_read() does so in a program that has more rights
 * than the user that started it (setuid, capabilities), since that user controls the environment.
 */
void uccl_params_distrust(struct uccl_params *p);

/* The engine's part. Strings of *c point into *p. */
void uccl_params_config(const struct uccl_params *p, struct uccl_config *c);

/* True if FI_UCCL_SECURITY asks for keys, which need libsodium. */
bool uccl_params_want_keys(const struct uccl_params *p);

/* FI_UCCL_BACKEND=xdp,mode=... */
enum uccl_xdp_mode uccl_params_xdp_mode(const struct uccl_params *p);

/* FI_UCCL_VERBS=mw=... */
enum uccl_windows uccl_params_windows(const struct uccl_params *p);

#endif

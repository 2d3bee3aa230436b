/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See param.h. The variables of NICs and their packets. */
#include <string.h>

#include "api/offer/param_row.h"
#include "base/defaults.h"

static const char *const backend_names[] = { "udp", "xdp", "verbs-uc", "verbs-rc", "verbs-ud", NULL };
static const char *const pci_names[] = { "auto", "all", "none", NULL };
static const char *const cuda_names[] = { "auto", "on", "off", NULL };
/* In the order of enum uccl_xdp_mode. */
static const char *const xdp_names[] = { "auto", "native", "generic", NULL };

enum uccl_xdp_mode uccl_params_xdp_mode(const struct uccl_params *p)
{
	int mode = UCCL_XDP_AUTO;

	while (xdp_names[mode] && strcmp(xdp_names[mode], p->nic.backend_mode))
		mode++;
	return xdp_names[mode] ? (enum uccl_xdp_mode)mode : UCCL_XDP_AUTO;
}

/*
 * Keys of windows are used again, and memory that stays registered keeps its key: a hostile peer could write there
 * when the memory has another use. Other settings of FI_UCCL_SECURITY register memory for each message.
 */
enum uccl_windows uccl_params_windows(const struct uccl_params *p)
{
	if (p->nic.verbs_mw != UCCL_SWITCH_AUTO)
		return p->nic.verbs_mw == UCCL_SWITCH_YES ? UCCL_WINDOWS_ON : UCCL_WINDOWS_OFF;
	return strcmp(p->conn.security, "trusted") ? UCCL_WINDOWS_OFF : UCCL_WINDOWS_AUTO;
}

const struct uccl_param uccl_param_nic[] = {
	{VAR("FI_UCCL_BACKEND", FORM_CHOICE, "udp", nic.backend), .names = backend_names,
	 .help = "what moves the packets"},
	{PART("FI_UCCL_BACKEND", "mode", FORM_CHOICE, "auto", nic.backend_mode), .names = xdp_names,
	 .old = "FI_UCCL_XDP",
	 .help = "where the program of the back end xdp runs: in the NIC's driver (native), in the kernel (generic, "
		 "slower), or in the driver if possible"},
	{PART("FI_UCCL_BACKEND", "rcvbuf", FORM_BYTES, "0", nic.backend_rcvbuf), RANGE(0, 1 << 30),
	 .old = "FI_UCCL_RCVBUF", .help = "receive queue of an endpoint; 0: the provider chooses"},
	{VAR("FI_UCCL_NIC", FORM_TEXT, "", nic.names),
	 .help = "network interfaces (RDMA back ends: devices) that may be used, by name or pattern, with commas "
		 "between; ^ before a pattern excludes; empty: any"},
	{PART("FI_UCCL_NIC", "pci", FORM_CHOICE, "auto", nic.pci), .names = pci_names, .old = "FI_UCCL_PCI",
	 .help = "which programs get PCI addresses of NICs: all but MPICH's, all, or none"},
	{VAR("FI_UCCL_PORTS", FORM_PORTS, "", nic.ports), RANGE(1, 65535),
	 .help = "ports of this host that the provider's sockets may use, as first-last; empty: any"},
	{VAR("FI_UCCL_MTU", FORM_BYTES, "0", nic.mtu), RANGE(512, 65535),
	 .help = "cap on the packet size; 0: the interface's"},
	{VAR("FI_UCCL_VERBS", FORM_PARTS, "", nic.verbs_max_qp),
	 .help = "direct writes of RDMA NICs (verbs-uc, verbs-rc)"},
	{PART("FI_UCCL_VERBS", "max_qp", FORM_NUMBER, "1024", nic.verbs_max_qp), RANGE(1, 16384),
	 .old = "FI_UCCL_MAX_QP", .help = "queue pairs of a process, to all its peers together"},
	{PART("FI_UCCL_VERBS", "srq", FORM_NUMBER, "0", nic.verbs_srq), RANGE(8, 32768), .old = "FI_UCCL_SRQ",
	 .help = "receives for all endpoints of a process on a NIC; 0: enough for all slots"},
	{PART("FI_UCCL_VERBS", "write", FORM_BYTES, "0", nic.verbs_write), RANGE(256, 131072), .old = "FI_UCCL_WRITE",
	 .help = "most bytes of one write; 0: what suits the NIC"},
	{PART("FI_UCCL_VERBS", "mw", FORM_SWITCH, "auto", nic.verbs_mw), .old = "FI_UCCL_WINDOWS",
	 .help = "peers write to memory windows, not to memory that is registered for each message; auto: where these "
		 "keep writes within their bounds, with FI_UCCL_SECURITY=trusted"},
	{VAR("FI_UCCL_CUDA", FORM_CHOICE, "auto", nic.cuda), .names = cuda_names,
	 .help = "memory of GPUs: auto: for programs that ask for FI_HMEM; on: also for those that name no "
		 "capabilities"},
	{PART("FI_UCCL_CUDA", "scatter", FORM_BOOL, "0", nic.cuda_scatter), .old = "FI_UCCL_SCATTER",
	 .help = "short copies to and from many places of a GPU are one launch of a kernel; see fi_uccl(7) before"},
	{VAR("FI_UCCL_ECN", FORM_BOOL, "1", nic.ecn),
	 .help = "let the network mark packets instead of dropping them, if back end and congestion control "
		 "can"},
	{VAR("FI_UCCL_DSCP", FORM_NUMBER, "0", nic.dscp), RANGE(0, 63), .help = "traffic class (DSCP) of data"},
	{PART("FI_UCCL_DSCP", "control", FORM_NUMBER, "48", nic.dscp_control), RANGE(0, 63),
	 .old = "FI_UCCL_CONTROL_DSCP",
	 .help = "the same of acknowledgements, credits and the like; 48 is where RoCE has its own control packets"},
	{.name = NULL},
};

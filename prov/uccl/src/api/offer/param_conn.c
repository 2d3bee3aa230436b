/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See param.h. The variables of connections. */
#include <string.h>

#include "api/offer/param_row.h"

#define YEAR_S 31536000

const char *const uccl_param_security_names[] = { "trusted", "control", "packets", NULL };

bool uccl_params_want_keys(const struct uccl_params *p)
{
	return strcmp(p->conn.security, uccl_param_security_names[0]);
}

const struct uccl_param uccl_param_conn[] = {
	{VAR("FI_UCCL_PEER_TIMEOUT", FORM_SECONDS, "600", conn.peer_timeout_ns), RANGE(0, YEAR_S),
	 .help = "a peer that does not answer for this time has failed; 0: never"},
	{PART("FI_UCCL_PEER_TIMEOUT", "connect", FORM_SECONDS, "600", conn.peer_connect_ns), RANGE(1, YEAR_S),
	 .old = "FI_UCCL_CONNECT_TIMEOUT", .help = "a peer that never answered has failed after this"},
	{PART("FI_UCCL_PEER_TIMEOUT", "keepalive_ms", FORM_MILLIS, "1000", conn.peer_keepalive_ns), RANGE(0, 3600000),
	 .old = "FI_UCCL_KEEPALIVE", .help = "time between probes of a quiet peer with work pending; 0: never"},
	{PART("FI_UCCL_PEER_TIMEOUT", "liveness", FORM_BOOL, "1", conn.peer_liveness), .old = "FI_UCCL_LIVENESS",
	 .help = "hold a TCP connection to each peer, so that the end of a process is noticed at once"},
	{VAR("FI_UCCL_PROGRESS_TIMEOUT", FORM_MILLIS, "10", conn.progress_timeout_ns), RANGE(0, 60000),
	 .old = "FI_UCCL_RESCUE",
	 .help = "if a program with messages in flight makes no call for this time, a thread repeats what was lost; "
		 "0: none"},
	{VAR("FI_UCCL_OP_TIMEOUT", FORM_MILLIS, "0", conn.op_timeout_ns), RANGE(0, UCCL_OP_TIMEOUT_MAX_MS),
	 .help = "a send, read, write or atomic that is not complete after this time is taken back; 0: never"},
	{VAR("FI_UCCL_LINGER", FORM_MILLIS, "200", conn.linger_ns), RANGE(0, 600000),
	 .help = "most time that closing an endpoint waits until its peers know"},
	{VAR("FI_UCCL_SECURITY", FORM_CHOICE, "trusted", conn.security), .names = uccl_param_security_names,
	 .help = "what proves that packets are genuine: tokens, codes, or codes and no direct writes; equal on all "
		 "sides"},
	{PART("FI_UCCL_SECURITY", "keyless", FORM_SWITCH, "auto", conn.security_keyless), .old = "FI_UCCL_KEYLESS",
	 .help = "accept peers that know IP and port but not the connect key; auto: endpoints with a port of the "
		 "program's choice or with socket addresses do"},
	{.name = NULL},
};

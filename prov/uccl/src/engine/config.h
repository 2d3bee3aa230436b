/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a person can set; api/offer/param.c fills one from the FI_UCCL_* variables, tests from defaults. */
#ifndef UCCL_ENGINE_CONFIG_H
#define UCCL_ENGINE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct uccl_config {
	const char *cc;			/* congestion control, see uccl_policy_values */
	const char *path;		/* name of the path choice */
	const char *credit;		/* name of the credit policy */
	uint16_t paths;			/* paths per peer, 1..256 */
	uint32_t chunk_bytes;		/* largest chunk; 0: what the NIC's packet holds */
	uint32_t eager_bytes;		/* messages up to this go without rendezvous */
	uint32_t inject_bytes;		/* most bytes of an injected message */
	uint32_t window_chunks;		/* most chunks in flight, 64..16384 */
	uint32_t unexpected_bytes;	/* payload of unexpected messages an endpoint buffers */
	uint64_t peer_timeout_ns;	/* a silent peer fails after this; 0: never */
	uint64_t connect_timeout_ns;	/* a peer that never answered fails after this */
	uint64_t keepalive_ns;		/* a quiet peer is probed this often; 0: never */
	uint64_t linger_ns;		/* close waits at most this long for peers to hear of it */
	bool keyless;			/* accept connects that do not know our key */
	uint8_t security;		/* enum uccl_security of flow/wire/seal.h */
	bool fifo_paths;		/* operator's word: a path never reorders (order of FI_UCCL_PATHS) */
	/* For peers that no network separates from this endpoint. PROTOCOL R395 */
	bool host_cc, host_credit;	/* cc and credit apply to them, too; else these peers have none */
	uint16_t host_paths;		/* most paths to such a peer */
};

void uccl_config_default(struct uccl_config *c);
/* Is credit handed out by the rate of a link? */
bool uccl_config_pulls(const struct uccl_config *c);

#endif

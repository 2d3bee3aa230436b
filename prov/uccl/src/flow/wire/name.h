/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of RDMA NICs have no ports. ASK and ANSWER find the endpoint behind a host's port: UDP datagrams of one
 * length, beside the packets of endpoints (docs/protocol/connection.md, Names). Bytes alone; the sockets are in
 * api/offer/named.c.
 */
#ifndef UCCL_FLOW_WIRE_NAME_H
#define UCCL_FLOW_WIRE_NAME_H

#include "flow/wire/addr.h"
#include "flow/observe/stats.h"

#define UCCL_NAME_LEN 72

/* `nonce` is random and not 0, so that only the receiver of the question can answer it. */
void uccl_name_ask(uint8_t out[UCCL_NAME_LEN], uint64_t nonce);
/*
 * Answer what came, `len` bytes of it, with this address; `out` may be `in`. Anything but UCCL_DROP_COUNT: it is no
 * question, and gets no answer.
 */
enum uccl_drop uccl_name_answer(uint8_t out[UCCL_NAME_LEN], const uint8_t *in, size_t len,
				const uint8_t address[UCCL_ADDR_LEN]);
/* The address in an answer to the question with this nonce. Anything but UCCL_DROP_COUNT: it is none. */
enum uccl_drop uccl_name_read(struct uccl_addr *out, const uint8_t *in, size_t len, uint64_t nonce);

#endif

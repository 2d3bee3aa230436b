/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A tap on what this process sends: the program's own sendmsg() and sendmmsg() stand before the C library's, so the
 * provider's datagrams are counted, and kept if wanted, without privileges and without changing the provider.
 */
#ifndef UCCL_TEST_SYSTEM_TAP_H
#define UCCL_TEST_SYSTEM_TAP_H

#include <stddef.h>
#include <stdint.h>

/* Datagrams that were sent to this UDP port so far, trains counted by their parts; *bytes may be NULL. */
uint64_t tap_count(uint16_t port, uint64_t *bytes);

struct tap_packet {
	uint16_t port; /* where it went */
	uint16_t len;
	uint8_t data[2048]; /* its beginning */
	uint32_t full;	    /* its length */
};

/* Keep the packets to this port from now on, the first n of them. */
void tap_keep(uint16_t port, struct tap_packet *v, size_t n);
/* How many were kept. */
size_t tap_kept(void);

#endif

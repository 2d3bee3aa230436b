/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The constants of EQDS (Olteanu et al., NSDI 2022). Other policies with a receiver's pacer begin their own tables with
 * them.
 */
#ifndef UCCL_POLICY_CREDIT_EQDS_H
#define UCCL_POLICY_CREDIT_EQDS_H

#include <stdint.h>

struct uccl_policy_cfg;

#define EQDS_CONSTANTS(X)											\
	X(link_gbps, 10, 0.001, 1e5, "Gb/s",									\
	  "line rate, if the NIC does not know its own")							\
	X(delay_us, 25, 0.1, 1e6, "us",										\
	  "round trip, if the back end does not know it")							\
	X(speculative_share, 16, 1, 1e6, "",									\
	  "the speculative window is this part (1/N) of the bandwidth-delay product (see "			\
	  "credit_eqds.c; EQDS: 1)")										\
	X(speculative_bytes, 65536, 0, 1e9, "bytes",								\
	  "most bytes of that window: the normal delay of a host is no room in a queue (ours)")			\
	X(speculative_chunks, 2, 1, 1e4, "chunks",								\
	  "least chunks of that window: those of fifteen senders fit into a queue of 1 MB")		\
	X(long_share, 2, 1, 1e6, "",										\
	  "if a message does not fit into the speculative window, the sender sends only this part (1/N) "	\
	  "of the window without asking, because the rest waits for credit anyway (ours; 64 senders of "	\
	  "1 MiB repeat half as many bytes, and other senders do not wait)")					\
	X(window_bdps, 2, 0.1, 100, "BDPs",									\
	  "how far a sender may be ahead: one product in flight, one in queues (UEC: 1.5)")			\
	X(window_chunks, 8, 0, 1e4, "chunks",									\
	  "added to window_bdps: chunks before the NIC, in the next acknowledgement, and where chunks "		\
	  "collide")												\
	X(quantum_bytes, 16384, 1024, 1e9, "bytes",								\
	  "size of one grant (UCCL)")										\
	X(quantum_chunks, 1, 0, 1e4, "chunks",									\
	  "a grant of this many chunks, if that is more: a CREDIT takes 154 bytes on the wire, half a "		\
	  "percent of a chunk of 32 KiB")

/* Bytes that uccl_credit_ops.whole returns in these policies. */
uint64_t uccl_eqds_whole(const struct uccl_policy_cfg *cfg);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/times.h"

void uccl_times_init(struct uccl_times *t, uint64_t rto_min_ns, uint64_t first_ns)
{
	*t = (struct uccl_times){ .rto_min_ns = rto_min_ns, .first_ns = first_ns, .min_rtt_ns = UCCL_NEVER };
}

/*
 * What the peer's host takes is no matter of paths, so it is taken off their RTTs; but who does not wait for it asks
 * again and again, and a busy host gets busier. So its mean and its deviation are kept, as RFC 6298 has them for RTTs.
 * One long pause (the peer computed) says little of the next answer, so a sample counts for no more than twice of what
 * is waited for already; several in a row are believed. All that was sent before the last sample came waited for the
 * same.
 */
void uccl_times_host(struct uccl_times *t, uint64_t delay_ns, uint64_t now)
{
	uint64_t most = 2 * uccl_max(uccl_times_host_wait(t), t->rto_min_ns);
	uint64_t host = uccl_min(delay_ns > UCCL_ACK_DELAY_NS ? delay_ns - UCCL_ACK_DELAY_NS : 0, most);
	uint64_t off = host > t->host_ns ? host - t->host_ns : t->host_ns - host;

	uccl_rtt_smooth(&t->prompt_ns, &t->promptvar_ns, uccl_clamp(delay_ns, 1, UCCL_ACK_DELAY_NS));
	t->host_heard_ns = now;
	t->hostvar_ns = t->hostvar_ns - t->hostvar_ns / 4 + off / 4;
	t->host_ns = t->host_ns - t->host_ns / 8 + host / 8;
}

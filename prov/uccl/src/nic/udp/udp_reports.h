/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reports of the udp back end: ICMP errors, the end of processes, and when to look for them. */
#ifndef UCCL_NIC_UDP_UDP_REPORTS_H
#define UCCL_NIC_UDP_UDP_REPORTS_H

#include "nic/udp/udp_state.h"

/* As UDP_CLOCK_EVERY, if something was sent, and packets arrived after it. Both are powers of two. */
#define UDP_CLOCK_EVERY_SENT 16

/* Queue an event for rx(), unless the same one waits already. False: the queue is full. */
bool uccl_udp_event(struct udp *u, const struct udp_event *event);
/* Hand waiting events up as v[0..n); returns their number. */
int uccl_udp_events_take(struct udp *u, struct uccl_rx *v, int n);
/* The peer ends: drop its events. */
void uccl_udp_events_forget(struct udp *u, const struct uccl_nic_peer *peer);
/* Read the error queue of one socket, and queue events for its ICMP errors. */
void uccl_udp_errors(struct udp *u, struct udp_sock *s);
/* Read the clock, and poll what is due. */
void uccl_udp_reports_poll_now(struct udp *u);
/* rx() got no packets: poll what is due then. Returns whether something was polled. */
bool uccl_udp_reports_poll_empty(struct udp *u);
/* A peer came: poll the liveness connections at the next occasion. */
void uccl_udp_reports_live_soon(struct udp *u);
/* When the liveness connections need a call of rx() although nothing arrives, ns; UCCL_NEVER: they do not. */
uint64_t uccl_udp_reports_expiry(const struct udp *u);
/* Something was sent: reports of it may come. */
static inline void uccl_udp_reports_sent(struct udp *u)
{
	u->reports.sent = true;
}
/* Packets arrived: what was sent may have been answered. */
static inline void uccl_udp_reports_received(struct udp *u)
{
	u->reports.sent_answered |= u->reports.sent;
	u->reports.sent = u->reports.unanswered = false;
}
/* Packets were read at `now`, ns; 0: that is not known. However seldom rx() is called, what is due is polled. */
static inline void uccl_udp_reports_read(struct udp *u, uint64_t now)
{
	if (now >= u->reports.polled_at + UDP_REPORTS_EVERY_NS)
		uccl_udp_reports_poll_now(u);
}
/* rx() begins. Most calls poll nothing, and do not read the clock. */
static inline void uccl_udp_reports_poll(struct udp *u)
{
	uint32_t every = u->reports.sent_answered ? UDP_CLOCK_EVERY_SENT : UDP_CLOCK_EVERY;

	if (!(++u->reports.calls & (every - 1)) || u->wait_fd >= 0)
		uccl_udp_reports_poll_now(u);
}

#endif

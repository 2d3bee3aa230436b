/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Log messages about a peer. */
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"
#include "engine/impl.h"
#include "engine/observe/snapshot.h"

/* Least time between two messages about peers of the former version. */
#define FORMER_EVERY_NS (10 * UCCL_NS_PER_S)

static const char *close_text(const struct conn *c)
{
	switch (c->state.reason) {
	case UCCL_CLOSE_ENDPOINT:
		return "it closed its endpoint";
	case UCCL_CLOSE_MEMORY:
		return "it ended the connection: it had no memory for an operation";
	case UCCL_CLOSE_BUFFER:
		return "it ended the connection: one of its buffers cannot be read";
	case UCCL_CLOSE_SILENT:
		return "it ended the connection: this endpoint did not answer for too long (FI_UCCL_PEER_TIMEOUT)";
	default:
		return "it ended the connection";
	}
}

static const char *end_text(const struct conn *c, int err)
{
	if (c->state.closed)
		return close_text(c);
	switch (err) {
	case FI_ENOMEM:
		return "this process had no memory for an operation";
	case FI_ECONNRESET:
		return "another process or endpoint answers at its address";
	case FI_ETIMEDOUT:
		return "it did not answer for too long (FI_UCCL_PEER_TIMEOUT)";
	case FI_ENETDOWN:
		return "it did not answer for too long, and the link of this host's NIC is down";
	case FI_ENODEV:
		return "this host's NIC was removed, or it failed";
	case FI_EACCES:
		return "its FI_UCCL_SECURITY differs, or its address has no key";
	case FI_ENOPROTOOPT:
		return "it speaks version 1 of the wire protocol, and this process version 2: both sides need the same "
		       "release";
	case FI_EFAULT:
		return "an operation to it was posted with a buffer that cannot be read";
	default:
		return "its process ended, or never listened there";
	}
}

void conn_end_reported(struct conn *c, int err)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	uccl_snapshot_ip_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	UCCL_LOG(err != FI_EACCES && (c->state.closed || TAILQ_EMPTY(&c->peer.tx.sends)) ? UCCL_LOG_INFO :
											   UCCL_LOG_WARN,
		 "peer %s port %u ended: %s", ip, c->peer.addr.nic.port, end_text(c, err));
}

void engine_former_reported(struct uccl_engine *e, const struct uccl_nic_addr *at, uint64_t now)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	/* A peer repeats its INIT, and there may be many such peers. */
	if (e->peer_log.former_ns && now - e->peer_log.former_ns < FORMER_EVERY_NS)
		return;
	e->peer_log.former_ns = now;
	uccl_snapshot_ip_text(at->ip, ip, sizeof(ip));
	UCCL_LOG(UCCL_LOG_WARN,
		 "%s port %u was refused: it speaks version %d of the wire protocol, and this process version %d; it "
		 "is told that there is no memory, as it understands nothing else",
		 ip, at->port, UCCL_VERSION_FORMER, UCCL_VERSION);
}

/* The cause is this host, its NIC or the network. Each peer shows it; one warning is enough. */
void conn_trains(struct conn *c)
{
	struct uccl_engine *e = c->e;
	struct uccl_train *t = &c->peer.flow.train;
	uint16_t port = c->peer.addr.nic.port;
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	t->changed = false;
	uccl_snapshot_ip_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	if (t->state == UCCL_TRAINS_ON) {
		UCCL_LOG(UCCL_LOG_INFO, "packet trains (UDP GSO) to %s port %u%s%s arrive again", ip, port,
			 e->identity.interface ? " on " : "", e->identity.interface ? e->identity.interface : "");
		return;
	}
	UCCL_LOG(e->peer_log.trains_reported ? UCCL_LOG_INFO : UCCL_LOG_WARN,
		 "packet trains (UDP GSO) to %s port %u%s%s are lost while single packets arrive: a kernel or network "
		 "card cuts them wrong; sending packet by packet, which costs processor time",
		 ip, port, e->identity.interface ? " on " : "", e->identity.interface ? e->identity.interface : "");
	e->peer_log.trains_reported = true;
}

void conn_pmtu(struct conn *c)
{
	struct uccl_engine *e = c->e;
	struct uccl_flow *f = &c->peer.flow;
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	uccl_snapshot_ip_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	UCCL_LOG(e->peer_log.mtu_reported ? UCCL_LOG_INFO : UCCL_LOG_WARN,
		 "packets to %s port %u may have %u bytes from now on, the interface would carry %u: %s", ip,
		 c->peer.addr.nic.port, f->pmtu.bytes, f->pmtu.most,
		 f->pmtu.from_network		? "the network says that it carries no more"
		 : f->pmtu.bytes < f->pmtu.most ? "longer ones were lost, or not tried yet"
						: "they arrive again");
	e->peer_log.mtu_reported = true;
}

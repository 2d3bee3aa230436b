/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Log messages about a peer. */
#include <rdma/fi_errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/units.h"
#include "engine/impl.h"
#include "engine/observe/snapshot.h"
#include "nic/ifaddr.h"

/* Least time between two messages about peers of another version. */
#define VERSION_EVERY_NS (10 * UCCL_NS_PER_S)

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

/* Where packets to peers leave: "10.0.0.1 port 4000 on eth0". */
static void here_text(const struct uccl_engine *e, char *buf, size_t size)
{
	const struct uccl_nic_addr *at = &e->identity.addr.nic;
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	uccl_snapshot_ip_text(at->ip, ip, sizeof(ip));
	snprintf(buf, size, "%s port %u%s%s", ip, at->port, e->identity.interface ? " on " : "",
		 e->identity.interface ? e->identity.interface : "");
}

/* Why a peer that was never connected may not answer. */
static const char *cause_text(const struct conn *c, enum silent_process process)
{
	const struct uccl_engine *e = c->e;

	if (e->conns.link != UCCL_LINK_UP)
		return "the link of this host's NIC is down";
	if (uccl_ifaddr_is_loopback(&e->identity.addr.nic) && !uccl_ifaddr_is_loopback(&c->peer.addr.nic))
		return "this endpoint is on the loopback interface, which leads to no other host: name another one in "
		       "FI_UCCL_NIC";
	if (!uccl_ifaddr_is_loopback(&e->identity.addr.nic) && uccl_ifaddr_is_loopback(&c->peer.addr.nic))
		return "the peer is on the loopback interface of its host, which no other host reaches: name another "
		       "one in FI_UCCL_NIC there";
	if (c->hs.state == UCCL_CONN_INIT)
		return "it is there, and does not take the connection: its FI_UCCL_SECURITY or its authorization key "
		       "differs, it has too many connections, or it is too busy to answer";
	if (process == SILENT_ANSWERS)
		return "its process answers by TCP at this port, so a firewall between the hosts drops UDP, "
		       "or it is too busy to answer";
	return "it has not started or has ended, a firewall drops UDP, FI_UCCL_NIC names the wrong interface here "
	       "or there, or it speaks another version; uccl_doctor between both hosts finds out";
}

/* The peer never answered. */
static const char *never_text(const struct conn *c)
{
	if (c->liveness.unreach && uccl_ifaddr_is_loopback(&c->peer.addr.nic))
		return "nothing listens there: it has not started or has ended, or it is on the loopback interface of "
		       "another host, where FI_UCCL_NIC must name another interface";
	if (c->liveness.unreach)
		return "it never answered, and its host or a firewall reports (ICMP) that nothing listens there: it "
		       "has not started or has ended, or a firewall rejects UDP";
	return "it never answered: it has not started or has ended, a firewall drops UDP, or FI_UCCL_NIC names the "
	       "wrong interface here or there";
}

/* `buf` has room for a text that is made. */
static const char *end_text(const struct conn *c, int err, char *buf, size_t size)
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
		return "its FI_UCCL_SECURITY differs from this process's: set the same value everywhere; or its "
		       "address has no key, and FI_UCCL_SECURITY=keyless=0 is set here or there";
	case FI_ENOPROTOOPT:
		snprintf(buf, size,
			 "it speaks version %d of the wire protocol, and this process version %d: both sides need "
			 "releases of one version",
			 c->handshake.peer_version, UCCL_VERSION);
		return buf;
	case FI_EFAULT:
		return "an operation to it was posted with a buffer that cannot be read";
	default:
		return c->opened.number ? "its process ended without closing its endpoint" : never_text(c);
	}
}

/* Does anything here wait for this peer, or go to it? Then its end is a loss. */
static bool conn_in_use(const struct conn *c)
{
	const struct uccl_peer *p = &c->peer;

	for (int t = 0; t < UCCL_KINDS; t++)
		if (!TAILQ_EMPTY(&p->directed[t]))
			return true;
	return !TAILQ_EMPTY(&p->tx.pending) || !TAILQ_EMPTY(&p->tx.sends) || !TAILQ_EMPTY(&p->rx.all) ||
	       (p->open && !uccl_flow_idle(&p->flow));
}

/* Is it a warning? A peer that closed its endpoint has done what peers do. */
static bool end_is_loss(const struct conn *c, int err)
{
	if (c->state.closed)
		return c->state.reason != UCCL_CLOSE_ENDPOINT;
	return err == FI_EACCES || err == FI_ENOPROTOOPT || conn_in_use(c);
}

void conn_end_reported(struct conn *c, int err, uint64_t now)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT], here[UCCL_SNAPSHOT_IP_TEXT + 64], text[160];
	uint64_t s = (now - c->hs.started_ns) / UCCL_NS_PER_S;
	enum uccl_log_level level = end_is_loss(c, err) ? UCCL_LOG_WARN : UCCL_LOG_INFO;

	uccl_snapshot_ip_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	here_text(c->e, here, sizeof(here));
	if (c->opened.number || c->hs.state == UCCL_CONN_IDLE)
		UCCL_LOG(level, "peer %s port %u ended (seen from %s): %s", ip, c->peer.addr.nic.port, here,
			 end_text(c, err, text, sizeof(text)));
	else
		UCCL_LOG(level, "no connection to peer %s port %u from %s, tried for %llu s: %s", ip,
			 c->peer.addr.nic.port, here, (unsigned long long)s, end_text(c, err, text, sizeof(text)));
	if (c->e->peer_log.ended)
		c->e->peer_log.ended(c->e->peer_log.ended_arg, &c->peer, err);
}

void conn_silent_reported(struct conn *c, uint64_t silent_ns, enum silent_process process)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT], here[UCCL_SNAPSHOT_IP_TEXT + 64];

	uccl_snapshot_ip_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	here_text(c->e, here, sizeof(here));
	UCCL_LOG(process == SILENT_COMPUTES ? UCCL_LOG_INFO : UCCL_LOG_WARN,
		 "peer %s port %u has not answered %s for %llu s: %s", ip, c->peer.addr.nic.port, here,
		 (unsigned long long)(silent_ns / UCCL_NS_PER_S),
		 process == SILENT_COMPUTES ? "its process lives, and computes or is stopped"
		 : c->peer.open		    ? "its host is down, or the network between is cut"
					    : cause_text(c, process));
}

void conn_answered_reported(struct conn *c, uint64_t silent_ns, bool warned)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	uccl_snapshot_ip_text(c->peer.addr.nic.ip, ip, sizeof(ip));
	UCCL_LOG(warned ? UCCL_LOG_WARN : UCCL_LOG_INFO, "peer %s port %u answers after all, after %llu s", ip,
		 c->peer.addr.nic.port, (unsigned long long)(silent_ns / UCCL_NS_PER_S));
}

void engine_version_reported(struct uccl_engine *e, const struct uccl_nic_addr *at, uint8_t version, uint64_t now)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT], here[UCCL_SNAPSHOT_IP_TEXT + 64];

	/* A peer asks again and again, and there may be many such peers. */
	if (e->peer_log.version_ns && now - e->peer_log.version_ns < VERSION_EVERY_NS)
		return;
	e->peer_log.version_ns = now;
	uccl_snapshot_ip_text(at->ip, ip, sizeof(ip));
	here_text(e, here, sizeof(here));
	UCCL_LOG(UCCL_LOG_WARN,
		 "%s port %u was refused by %s: it speaks version %d of the wire protocol, and this process version "
		 "%d: both sides need releases of one version%s",
		 ip, at->port, here, version, UCCL_VERSION,
		 version == UCCL_VERSION_FORMER ? "; it is told that there is no memory, as it knows no more" : "");
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
		 "card cuts them wrong; sending packet by packet, which costs processor time; update the kernel, or "
		 "turn this off: ethtool -K %s tx-udp-segmentation off",
		 ip, port, e->identity.interface ? " on " : "", e->identity.interface ? e->identity.interface : "",
		 e->identity.interface ? e->identity.interface : "INTERFACE");
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

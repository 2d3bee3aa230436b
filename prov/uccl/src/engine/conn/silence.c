/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer that does not answer is named after 5 s, and again after 60 s, because its time-out is minutes. A peer whose
 * process computes under manual progress does not answer either, and is healthy: its kernel takes a liveness
 * connection, and the process says nothing there. Then the line is of level info. A process that answers by TCP and not
 * by UDP is behind a firewall.
 */
#include "base/units.h"
#include "engine/impl.h"

#define FIRST_NS (5 * UCCL_NS_PER_S)
#define AGAIN_NS (60 * UCCL_NS_PER_S)
/* Before the first line, with time enough for an answer, the peer's kernel is asked whether the process is there. */
#define ASK_NS (3 * UCCL_NS_PER_S)
/*
 * A look counts at most so much: a program that was away asked nothing meanwhile. Looks come each second, and later
 * where the host is busy or the program makes few calls; that time counts, too.
 */
#define LOOK_NS (2 * UCCL_NS_PER_S)

static void ask_kernel(struct conn *c)
{
	struct uccl_nic *nic = c->e->nic;

	if (c->silence.asked || !nic->caps.connect_early || !nic->ops->alive)
		return;
	/* Without memory nothing is known, as on NICs that cannot ask. */
	if (nic->ops->connect(nic, &c->peer.addr.nic, c->hs.token_local, 1, &c->silence.asked))
		c->silence.asked = NULL;
}

/* Does the peer's kernel say that the process is there? */
static enum silent_process process(const struct conn *c)
{
	struct uccl_nic_peer *peer = c->peer.open ? c->opened.nic_peer : c->silence.asked;
	const struct uccl_nic_ops *ops = c->e->nic->ops;

	if (peer && ops->held && ops->held(c->e->nic, peer))
		return SILENT_COMPUTES;
	if (!peer || !ops->alive || !ops->alive(c->e->nic, peer))
		return SILENT_UNKNOWN;
	/* A process that never answered says by TCP that it makes calls; a connected one said so long ago. */
	return c->peer.open ? SILENT_COMPUTES : SILENT_ANSWERS;
}

static void report(struct conn *c)
{
	struct conn_silence *s = &c->silence;
	enum silent_process found = process(c);

	if (found == SILENT_COMPUTES && s->noted)
		return;
	s->noted |= found == SILENT_COMPUTES;
	if (found != SILENT_COMPUTES && !s->warned++)
		s->warned_ns = s->silent_ns;
	conn_silent_reported(c, s->silent_ns, found);
}

void conn_silence_answered(struct conn *c)
{
	struct conn_silence *s = &c->silence;

	if (s->warned || s->noted)
		conn_answered_reported(c, s->silent_ns, s->warned);
	s->silent_ns = 0;
	s->warned = 0;
	s->noted = false;
}

void conn_silence_end(struct conn *c)
{
	if (c->silence.asked)
		c->e->nic->ops->disconnect(c->e->nic, c->silence.asked);
	c->silence.asked = NULL;
}

/*
 * Silence after which the first line is written. ICMP reports of the peer's host soon end the connection, which writes
 * a line of its own. So after a report the first line comes later.
 */
static uint64_t first_ns(const struct conn *c)
{
	return FIRST_NS + (!c->peer.open && c->liveness.unreach ? LOOK_NS : 0);
}

void conn_silence_look(struct conn *c, bool due, uint64_t now)
{
	struct conn_silence *s = &c->silence;
	uint64_t last = s->checked_ns;

	/* A lane has the peers of its primary, which tells of them. */
	if (c->e->msg_ep.lane || c->peer.self)
		return;
	s->checked_ns = due ? now : 0;
	/* The first look comes a second after the first hello. */
	if (!last && !c->peer.open)
		last = c->hs.started_ns;
	if (c->peer.open && (!due || c->peer.flow.rx.heard_ns > last))
		conn_silence_answered(c);
	else if (due && last)
		s->silent_ns += uccl_min(now - last, LOOK_NS);
	if (s->silent_ns >= ASK_NS && !c->peer.open)
		ask_kernel(c);
	if (s->silent_ns >= (s->warned ? s->warned_ns + AGAIN_NS - FIRST_NS : first_ns(c)) && s->warned < 2)
		report(c);
}

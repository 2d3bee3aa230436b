/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer that does not answer is named after 5 s, and again after 60 s, because its time-out is minutes. A peer whose
 * process computes under manual progress does not answer either, and is healthy: if its kernel holds a liveness
 * connection of the process, the line is of level info.
 */
#include "base/units.h"
#include "engine/impl.h"

#define FIRST_NS (5 * UCCL_NS_PER_S)
#define AGAIN_NS (60 * UCCL_NS_PER_S)
/* Before the first line, with time enough for an answer, the peer's kernel is asked whether the process is there. */
#define ASK_NS (3 * UCCL_NS_PER_S)
/* A look counts at most so much: a program that was away asked nothing meanwhile. */
#define LOOK_NS UCCL_NS_PER_S

static void ask_kernel(struct conn *c)
{
	struct uccl_nic *nic = c->e->nic;

	if (c->silence.asked || !nic->caps.connect_early || !nic->ops->alive)
		return;
	/* Without memory nothing is known, as on NICs that cannot ask. */
	if (nic->ops->connect(nic, &c->peer.addr.nic, c->hs.token_local, 1, &c->silence.asked))
		c->silence.asked = NULL;
}

static bool process_lives(const struct conn *c)
{
	const struct uccl_nic *nic = c->e->nic;
	struct uccl_nic_peer *peer = c->peer.open ? c->opened.nic_peer : c->silence.asked;

	return peer && nic->ops->alive && nic->ops->alive(c->e->nic, peer);
}

static void report(struct conn *c)
{
	struct conn_silence *s = &c->silence;
	bool lives = process_lives(c);

	if (lives && s->noted)
		return;
	s->noted |= lives;
	if (!lives && !s->warned++)
		s->warned_ns = s->silent_ns;
	conn_silent_reported(c, s->silent_ns, lives);
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

void conn_silence_look(struct conn *c, bool due, uint64_t now)
{
	struct conn_silence *s = &c->silence;
	uint64_t last = s->checked_ns;

	/* A lane has the peers of its primary, which tells of them. */
	if (c->e->msg_ep.lane || c->peer.self)
		return;
	s->checked_ns = due ? now : 0;
	if (c->peer.open && (!due || c->peer.flow.rx.heard_ns > last))
		conn_silence_answered(c);
	else if (due && last)
		s->silent_ns += uccl_min(now - last, LOOK_NS);
	if (s->silent_ns >= ASK_NS && !c->peer.open)
		ask_kernel(c);
	if (s->silent_ns >= (s->warned ? s->warned_ns + AGAIN_NS - FIRST_NS : FIRST_NS) && s->warned < 2)
		report(c);
}

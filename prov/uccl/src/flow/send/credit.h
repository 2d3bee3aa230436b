/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: the books of credit, of both directions, in bytes since the flow began. What a policy makes of them
 * is not known here.
 *
 * The grammar: all zero at first. Sending: `spend` or `spend_free` for what leaves, `lost` for what was declared lost,
 * `answered` and `turn` for a credit that came; then, when nothing else may leave, `starve` and, if `wants` says so,
 * `tell`. Receiving: `received` for what came, `sane` and then `heard` for a demand; `due` when a grant is to be told,
 * `take_due` when one can be.
 */
#ifndef UCCL_FLOW_SEND_CREDIT_H
#define UCCL_FLOW_SEND_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/ack/times.h"
#include "flow/send/pacer.h"

/* A time grows by no more than this factor, as a shift. */
#define UCCL_CREDIT_DOUBLINGS_MAX 16

struct uccl_credit {
	/* sending */
	uint64_t used;		/* payload sent; with paced credit, each time that it was sent */
	uint64_t renewed;	/* end of the speculative window; 0: where the policy has it */
	uint64_t free;		/* of that, what could leave without credit, for checks */
	uint64_t lost;		/* of chunks declared lost, each time */
	uint64_t turn;		/* the peer's latest; see uccl_credit_ops.on_credit */
	bool starved;		/* something waits for credit */
	uint64_t told_ns;	/* when the demand was told or answered; 0: it was not yet */
	uint32_t again;		/* times in a row that the same was told, and not answered */
	uint32_t vain;		/* answers in a row that granted nothing more */
	uint64_t demand_sent;	/* the highest demand that was told, */
	uint64_t lost_sent;	/* of `lost`, */
	uint64_t message;	/* and where the message that was to leave next ends */
	/* receiving */
	uint64_t received;	/* bulk payload */
	uint64_t demand;	/* what the peer wants to send in all, */
	uint64_t peer_lost;	/* and what it told to have lost of that */
	bool due;		/* a grant is to be told */
	struct uccl_pull pull;	/* the pacer's, for credit policies that have one */
};

/* Lost bytes that are told without waiting for another reason: a grant. */
#define UCCL_CREDIT_LOST_STEP 16384

/* The receiver takes what was lost for under way, and grants no further, until it is told. */
static inline bool uccl_credit_owes_loss(const struct uccl_credit *c)
{
	return c->lost - c->lost_sent >= UCCL_CREDIT_LOST_STEP;
}

/* More bytes wait than `left` bytes of credit allow, and most of the credit that was asked for is used. PROTOCOL R60 */
bool uccl_credit_wants(const struct uccl_credit *c, uint64_t backlog, uint64_t left);
/* A demand for `backlog` more bytes leaves; the next `left` of them are of one message. Returns the demand. */
uint64_t uccl_credit_tell(struct uccl_credit *c, uint64_t backlog, uint64_t left, uint64_t now);
/*
 * When the demand may be told again, by what is known of round trips now. The peer answers a demand at once. So without
 * an answer it is told again as a probe is: later each time, up to a time-out, and ever more seldom if nothing answers.
 * After an answer it is told again when an acknowledgement would be late, and later each time that an answer grants
 * nothing. Then other senders have their turn, and only a credit that came unasked can be lost. PROTOCOL R21 R346
 */
uint64_t uccl_credit_tell_at(const struct uccl_credit *c, const struct uccl_times *t);
/*
 * Has the receiver a wrong idea of the bytes that leave next: does it believe in less than half, or more than twice, of
 * `left`?
 */
bool uccl_credit_misjudged(const struct uccl_credit *c, uint64_t left);
/* Does what the peer tells make sense? */
bool uccl_credit_sane(const struct uccl_credit *c, uint64_t demand, uint64_t lost);
/* The peer demands `demand` bytes in all, and lost `lost` of them. True: one of the two is news. */
bool uccl_credit_heard(struct uccl_credit *c, uint64_t demand, uint64_t lost);

/* So many bytes leave, and cost credit. */
static inline void uccl_credit_spend(struct uccl_credit *c, uint32_t bytes)
{
	c->used += bytes;
}

/* So many leave that need none, but count. */
static inline void uccl_credit_spend_free(struct uccl_credit *c, uint32_t bytes)
{
	c->used += bytes;
	c->free += bytes;
}

/*
 * All payload that left has come, or is known to be lost, but for `inflight` bytes. The speculative window of `idle`
 * bytes begins there, unless more was asked for, or the peer does not know of some loss. PROTOCOL R375
 */
static inline void uccl_credit_renew(struct uccl_credit *c, uint64_t inflight, uint64_t idle)
{
	uint64_t out = inflight + c->lost - c->lost_sent, end = c->used + idle;

	if (c->demand_sent <= c->used && end > out)
		c->renewed = uccl_max(c->renewed, end - out);
}

static inline void uccl_credit_lost(struct uccl_credit *c, uint32_t bytes)
{
	c->lost += bytes;
}

/* A credit came: the demand was heard. `more`: it grants more than was known. */
static inline void uccl_credit_answered(struct uccl_credit *c, bool more, uint64_t now)
{
	c->again = 0;
	c->vain = more ? 0 : c->vain + (c->vain < UCCL_CREDIT_DOUBLINGS_MAX);
	c->told_ns = now;
}

/* A credit of this turn came. False: it is older than what came before. Packets overtake each other. PROTOCOL R65 */
static inline bool uccl_credit_turn(struct uccl_credit *c, uint64_t turn)
{
	if (turn < c->turn)
		return false;
	c->turn = turn;
	return true;
}

/* Does something wait for credit now? */
static inline void uccl_credit_starve(struct uccl_credit *c, bool starved)
{
	c->starved = starved;
}

/* What has come, or never will. */
static inline uint64_t uccl_credit_settled(const struct uccl_credit *c)
{
	return c->received + c->peer_lost;
}

static inline void uccl_credit_received(struct uccl_credit *c, uint32_t bytes)
{
	c->received += bytes;
}

static inline void uccl_credit_due(struct uccl_credit *c)
{
	c->due = true;
}

/* Take it, if a grant is due. */
static inline bool uccl_credit_take_due(struct uccl_credit *c)
{
	bool due = c->due;

	c->due = false;
	return due;
}

#endif

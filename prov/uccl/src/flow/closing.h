/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: its end. The side that ends it repeats CLOSE until the peer answers CLOSE_ACK. A side that gets
 * CLOSE answers each time, and sends nothing else any more.
 *
 * The grammar: init first. Then `begin` when the owner wants to end, `heard` and `answered` for what the peer says,
 * `expire` at `at`, and `next` whenever something may leave, in any order.
 */
#ifndef UCCL_FLOW_CLOSING_H
#define UCCL_FLOW_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

/* Why a connection ends, as CLOSE says it. On the wire; a receiver takes one that it does not know for OTHER. */
enum uccl_close_reason {
	UCCL_CLOSE_ENDPOINT,	/* the endpoint closes */
	UCCL_CLOSE_MEMORY,	/* the sender of CLOSE had no memory for an operation */
	UCCL_CLOSE_BUFFER,	/* a buffer at the sender of CLOSE cannot be read */
	UCCL_CLOSE_SILENT,	/* the receiver of CLOSE did not answer for too long */
	UCCL_CLOSE_OTHER,
	UCCL_CLOSE_COUNT
};

enum uccl_flow_close { UCCL_FLOW_OPEN, UCCL_FLOW_CLOSING, UCCL_FLOW_CLOSED };

struct uccl_closing {
	enum uccl_flow_close state;
	bool seen;		/* the peer said CLOSE, */
	uint8_t reason;		/* and why: enum uccl_close_reason */
	bool due, ack_due;	/* CLOSE, CLOSE_ACK is to be sent */
	uint32_t tries;		/* CLOSEs sent */
	uint64_t at;		/* when CLOSE is said again; UCCL_NEVER: not at all */
	uint64_t began_ns;
};

void uccl_closing_init(struct uccl_closing *c);
/* Say CLOSE until it is answered: `state` becomes CLOSED. rto_ns: the time-out now. */
void uccl_closing_begin(struct uccl_closing *c, uint64_t rto_ns, uint64_t now);
/* The reason in the record of a CLOSE. */
enum uccl_close_reason uccl_close_reason_read(const uint8_t *rec);
/* What operations with the peer end with (positive FI_Exxx) when it has said CLOSE for this reason. */
int uccl_close_error(enum uccl_close_reason reason);
/* The reason that CLOSE gives for the end of a connection with this error. */
enum uccl_close_reason uccl_close_reason_of(int err);
/* The peer said CLOSE, for this reason. The first one counts. */
void uccl_closing_heard(struct uccl_closing *c, enum uccl_close_reason reason);
/* The peer said CLOSE_ACK. */
void uccl_closing_answered(struct uccl_closing *c);
/* The time `at` has come. */
void uccl_closing_expire(struct uccl_closing *c, uint64_t rto_ns, uint64_t now);
/* Take the type of the packet that is to be sent; 0: none. Only if one is due. */
uint8_t uccl_closing_take(struct uccl_closing *c);

/* The type of the packet that leaves now, for the sake of the end; 0: none. */
static inline uint8_t uccl_closing_next(struct uccl_closing *c)
{
	return c->due || c->ack_due ? uccl_closing_take(c) : 0;
}

#endif

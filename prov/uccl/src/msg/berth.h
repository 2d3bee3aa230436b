/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where lanes may put the payload of one message, the bytes behind its envelope, in units of one size. Home
 * makes it and frees it. Several lanes put bytes there at once, without a lock: a unit is the first one's that brings
 * some of it, and with its last byte nobody can write there any more. Home may shut the whole at any time, also to
 * lanes that are just writing, which it waits for. PROTOCOL R181 R182 R183
 */
#ifndef UCCL_MSG_BERTH_H
#define UCCL_MSG_BERTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "base/cover.h"
#include "base/gate.h"
#include "base/mailbox.h"
#include "core/conn.h"
#include "core/flow.h"
#include "core/stats.h"

/*
 * What one lane carries of a message at a time, from a multiple of it behind the first byte on: less of a short one, so
 * that several lanes have something to do. UCCL_UNIT_FULL fills one packet of the loopback, or one train of shorter
 * packets; a few bytes more would cost another one. On the wire. PROTOCOL R224
 */
#define UCCL_UNIT_LEAST 30720u
#define UCCL_UNIT_FULL 61440u
#define UCCL_UNIT_MOST (4 * UCCL_UNIT_FULL)
/* Units that there are to be at least, of messages of some length. */
#define UCCL_UNIT_SHARES 4u
/* Of a peer that knows no others. */
#define UCCL_UNIT_BYTES 262144u

struct uccl_berth;
struct uccl_peer;

/* A letter that must leave, and waits where there is no room for it. */
struct uccl_note {
	TAILQ_ENTRY(uccl_note) link;
	struct uccl_letter letter;
};

/* What one lane knows of it. */
struct uccl_berth_lane {
	struct uccl_berth *berth;
	struct uccl_peer *from;		/* who may put bytes there, as the lane knows it */
	struct uccl_gate gate;
	/* The lane's own. */
	uint64_t key;			/* handle and message sequence number, see msg_berth_key() */
	LIST_ENTRY(uccl_berth_lane) same; /* in the lane's table */
	bool known;			/* it is there */
	TAILQ_ENTRY(uccl_berth_lane) news;
	uint32_t whole;			/* units that home does not know of yet: in the list of news */
	/* Home's own. */
	struct uccl_note note, land;
};

struct uccl_berth_unit {
	_Atomic uint8_t owner;		/* lane + 1; 0: nobody's */
	/* The owner's. */
	uint32_t got;			/* bytes */
	struct uccl_cover cover;
};

#define UCCL_UNIT_HOME UINT8_MAX

struct uccl_berth {
	uint8_t *to;			/* of byte `from`, */
	const struct iovec *iov;	/* or of byte 0, unless these are none */
	uint8_t niov;
	uint64_t room;			/* bytes of the message that have a place; what is behind goes nowhere */
	uint64_t from, limit;		/* of the message: [from, limit) */
	uint32_t id, gen;		/* the message's handle at home, 0: ahead of CTS; its sequence number */
	uint32_t units;			/* so many, */
	uint32_t unit_bytes;		/* of so many bytes, the last perhaps fewer */
	/* Home's own. */
	void *rx;			/* whose it is; NULL: nobody's any more */
	uint32_t whole;
	uint16_t told;			/* lanes that know it, by bits */
	bool mine;			/* home has all units */
	struct uccl_berth_lane lane[UCCL_LANES_MAX];
	struct uccl_berth_unit unit[];
};

/* As the records that bring it name it, to the lane of one peer. */
static inline uint64_t msg_berth_key(uint32_t id, uint32_t gen)
{
	return (uint64_t)id << 32 | gen;
}

/* How so many bytes are cut, which are not none; `units`: both sides know short ones. */
uint32_t msg_unit_bytes(uint64_t bytes, bool units);
/* For bytes [from, limit), which are not none. NULL: no memory. */
struct uccl_berth *msg_berth_new(uint8_t *to, uint64_t from, uint64_t limit, uint32_t unit, uint32_t id, uint32_t gen);
/* Lane k may be told of it, of bytes that `from` brings. */
struct uccl_berth_lane *msg_berth_lane(struct uccl_berth *b, uint8_t k, struct uccl_peer *from);
/* Home brings the bytes itself. False: lanes have begun. */
bool msg_berth_claim(struct uccl_berth *b);
/* When this returns no lane writes there any more. `rest`: see base/gate.h. */
void msg_berth_shut(struct uccl_berth *b, void (*rest)(uint32_t times));

/* Bytes of unit i, and its end in the message. */
uint32_t msg_berth_unit(const struct uccl_berth *b, uint32_t i, uint64_t *end);

/*
 * Lane k brings bytes from `off` on of the message: the payload of `in`, perhaps of several parts. UCCL_DROP_COUNT:
 * they are in place; *whole: with them a unit is whole. Else why they are refused, and nothing was touched. `key`: of
 * the lane's covers.
 */
enum uccl_drop msg_berth_put(struct uccl_berth *b, uint8_t k, uint64_t off, const struct uccl_chunk_in *in,
			     const uint8_t key[UCCL_KEY_LEN], bool *whole);

#endif

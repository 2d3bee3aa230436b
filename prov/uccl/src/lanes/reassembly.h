/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where lanes may put the payload of one message, the bytes behind its envelope, in stripes of one size. The primary
 * makes it and frees it. Several lanes put bytes there at once, without a lock: the first lane that delivers bytes of a
 * stripe owns it. The stripe closes with its last byte. The primary may close the whole buffer at any time, and waits
 * for lanes that are just writing. PROTOCOL R181 R182 R183
 */
#ifndef UCCL_LANES_REASSEMBLY_H
#define UCCL_LANES_REASSEMBLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "base/range_set.h"
#include "base/rundown.h"
#include "base/mailbox.h"
#include "flow/wire/conn.h"
#include "flow/flow.h"
#include "flow/observe/stats.h"
#include "lanes/lanes.h"

struct uccl_reassembly;
struct uccl_peer;

/* A command that must leave, and waits where there is no room for it. */
struct uccl_lane_cmd_waiting {
	TAILQ_ENTRY(uccl_lane_cmd_waiting) link;
	struct uccl_lane_cmd cmd;
};

/* What one lane knows of a reassembly buffer. reassembly.c writes it. */
struct uccl_reassembly_lane {
	struct uccl_reassembly *reassembly;
	struct uccl_peer *from;		/* who may put bytes there, as the lane knows it */
	struct uccl_rundown rundown;
	/* The lane's own. */
	uint64_t key;			       /* handle and message sequence number, see reassembly_key() */
	LIST_ENTRY(uccl_reassembly_lane) same; /* in the lane's table */
	bool known;			/* it is there, */
	bool taken;			/* and RX_POST has left the mailbox */
	uint32_t told;			/* stripes that the primary knows are whole */
	TAILQ_ENTRY(uccl_reassembly_lane) whole_link;
	uint32_t whole; /* stripes that the primary does not know of yet: in the list of what to report */
	/* The primary's own. */
	struct uccl_lane_cmd_waiting cancel_cmd, post_cmd;
};

struct uccl_stripe {
	_Atomic uint8_t owner;		/* lane + 1; 0: nobody's */
	/* The owner's. */
	uint32_t got;			/* bytes */
	struct uccl_range_set ranges;
};

#define UCCL_STRIPE_PRIMARY UINT8_MAX

struct uccl_reassembly {
	uint8_t *to;			/* of byte `from`, */
	const struct iovec *iov;	/* or of byte 0, unless these are none */
	uint8_t niov;
	uint64_t room;			/* bytes of the message that have a place; what is behind goes nowhere */
	uint64_t from, limit;		/* of the message: [from, limit) */
	uint32_t id, gen;		/* the message's handle at the primary, 0: ahead of CTS; its sequence number */
	uint32_t nstripes;		/* of the message */
	uint32_t stripe_bytes;		/* length of each stripe; the last may be shorter */
	/* The primary's own. */
	void *rx;			/* whose it is; NULL: nobody's any more */
	uint32_t whole;
	uint16_t known_by; /* lanes that know it, by bits */
	bool mine;	   /* the primary has all stripes */
	bool sole;	   /* one lane alone knows it: with the last stripe that lane forgets it */
	uint8_t nlanes;
	struct uccl_reassembly_lane *lane; /* behind `stripe` */
	struct uccl_stripe stripe[];
};

/* As the records that bring it name it, to the lane of one peer. */
static inline uint64_t reassembly_key(uint32_t id, uint32_t gen)
{
	return (uint64_t)id << 32 | gen;
}

/* Length of the stripes of a message of `bytes` bytes, more than 0. `short_stripes`: both sides know short ones. */
uint32_t lanes_stripe_bytes(uint64_t bytes, bool short_stripes);
/* For bytes [from, limit), which are not none, from lanes below `nlanes`. NULL: no memory. */
struct uccl_reassembly *reassembly_new(uint8_t *to, uint64_t from, uint64_t limit, uint32_t stripe, uint32_t id,
				       uint32_t gen, uint8_t nlanes);
/* What lane k is to be told: it may take bytes of `from` for this buffer. */
struct uccl_reassembly_lane *reassembly_lane(struct uccl_reassembly *b, uint8_t k, struct uccl_peer *from);
/* The primary brings the bytes itself. False: lanes have begun. */
bool reassembly_claim(struct uccl_reassembly *b);
/* When this returns no lane writes there any more. `rest`: see base/rundown.h. */
void reassembly_close(struct uccl_reassembly *b, void (*rest)(uint32_t times));

/* Bytes of stripe i, and its end in the message. */
uint32_t reassembly_stripe(const struct uccl_reassembly *b, uint32_t i, uint64_t *end);

/*
 * Lane k brings bytes from `off` on of the message: the payload of `in`, perhaps of several parts. UCCL_DROP_COUNT:
 * they are in place; *whole: with them a stripe is whole. Else why they are refused, and nothing was touched. `key`: of
 * the lane's range sets.
 */
enum uccl_drop reassembly_put(struct uccl_reassembly *b, uint8_t k, uint64_t off, const struct uccl_chunk_in *in,
			      const uint8_t key[UCCL_KEY_LEN], bool *whole);

#endif

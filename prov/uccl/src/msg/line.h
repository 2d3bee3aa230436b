/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an endpoint, home, and its lanes say to each other. A lane is an engine of its own, on another core: it carries
 * payload of large messages, and knows nothing of messages. Home says who there is, where payload may land and what is
 * to be sent; lanes answer. Each side has a mailbox that only the other one puts letters in.
 *
 *	home to lane					lane to home
 *	MEET who: a way					MET who, what: its peer there; NULL: none
 *							OPENED who; ENDED who, err
 *	PART who					PARTED who: the last about this way
 *	LAND what: a berth's part			UNITS what, len: so many more are whole
 *	FORGET what					FORGOT what: the last about this berth
 *	SEND who: a peer there, at, len,		SENT what, len, err
 *	     off, id, gen, what: home's,
 *	     more: bytes behind it; id 0: ahead of CTS
 *
 * MEET and SEND are said only if there is room at once, LAND too, if CTS is to say so; PART and FORGET wait for it, and
 * LAND of what comes ahead of CTS. What a lane has to answer it always has room for: home counts what is unanswered,
 * and the lane says the rest only where half of the box is free. PROTOCOL R184 R185
 */
#ifndef UCCL_MSG_LINE_H
#define UCCL_MSG_LINE_H

#include "core/addr.h"
#include "msg/berth.h"

struct uccl_unplaced;

enum uccl_letter_kind {
	UCCL_LETTER_MEET, UCCL_LETTER_PART, UCCL_LETTER_LAND, UCCL_LETTER_FORGET, UCCL_LETTER_SEND,
	UCCL_LETTER_MET, UCCL_LETTER_OPENED, UCCL_LETTER_ENDED, UCCL_LETTER_PARTED, UCCL_LETTER_UNITS,
	UCCL_LETTER_FORGOT, UCCL_LETTER_SENT
};

/* Letters that a box holds. */
#define UCCL_LINE_LETTERS 1024
/* Of these so many may lie there unread while the lane sleeps. */
#define UCCL_LINE_LIE 128
/* Slices that one lane has at once: enough to fill a window while home looks elsewhere. */
#define UCCL_LINE_SLICES 16

/* Between home and one lane. Who makes it frees it, with nobody at either end any more. */
struct uccl_line {
	struct uccl_mailbox down, up;
	/*
	 * There is a letter for home, or one for the lane that somebody waits for; in the thread of the other. NULL:
	 * both look by themselves.
	 */
	void (*wake)(void *arg, bool home);
	void *arg;
	/* Home waits for what the lane does right now; see base/gate.h. NULL: lanes have no threads. */
	void (*rest)(uint32_t times);
	/* The lane has so many payloads that wait for LAND; of all lanes of the endpoint: */
	_Atomic uint32_t parked;
	struct uccl_unplaced *unplaced;
	/* Home's own. */
	TAILQ_HEAD(, uccl_note) later;	/* what waits for room */
	uint32_t unanswered;		/* letters to which an answer must come */
	uint32_t slices;		/* those of them that are to be sent, */
	uint64_t bytes;			/* and their bytes */
};

/* The way to a peer over one lane. Home makes it, and frees it with PARTED. */
struct uccl_way {
	/* As home has made it. */
	uint8_t lane;
	struct uccl_addr addr;		/* of the peer's lane */
	bool connect;			/* we are to begin: we know its key */
	/* Home's own. */
	struct uccl_peer *peer;		/* as home knows it; NULL: it has ended there */
	struct uccl_peer *there;	/* as the lane knows it; NULL: not yet */
	bool open;			/* payload may go that way, */
	bool named;			/* and ahead of CTS: the peer knows it, as one CTS of its has said */
	struct uccl_note note;
	/* The lane's own. */
	struct uccl_peer *here;
	TAILQ_ENTRY(uccl_way) news;
	bool in_news, opened, ended;	/* what home does not know yet */
	int err;
};

/* False: no memory. */
bool uccl_line_init(struct uccl_line *l);
void uccl_line_fini(struct uccl_line *l);

/* Home's: as soon as there is room, behind all that waits. */
void msg_line_say(struct uccl_line *l, struct uccl_note *n);
/* At once; `answer`: one will come. False: there is no room. */
bool msg_line_try(struct uccl_line *l, const struct uccl_letter *letter, bool answer);
/* What waited and has room now. */
void msg_line_go(struct uccl_line *l);

#endif

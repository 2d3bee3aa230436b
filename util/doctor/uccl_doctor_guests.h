/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who may do what at a listener: a table of its connections, with bounds in sum and for one address. No I/O, no clock.
 *
 * A connection is silent until its HELLO came, and for DOCTOR_HELLO_MS at most. Then it waits until it gets a session;
 * there are several at the same time. What needs a quiet machine is done by one session at a time: the one that has
 * the turn. Sessions get the turn in the order in which they ask, but an address does not get it twice in a row while
 * another address waits.
 */
#ifndef UCCL_DOCTOR_GUESTS_H
#define UCCL_DOCTOR_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#define DOCTOR_GUESTS 128	 /* connections */
#define DOCTOR_GUESTS_EACH 8	 /* of one address */
#define DOCTOR_SESSIONS 16
#define DOCTOR_SESSIONS_EACH 4
#define DOCTOR_HELLO_MS 3000
#define DOCTOR_TURN_MS 20000	 /* a session that keeps the turn for longer is ended if others want it */

enum doctor_guest_state { DOCTOR_GUEST_NONE, DOCTOR_GUEST_SILENT, DOCTOR_GUEST_WAITS, DOCTOR_GUEST_SERVED };

struct doctor_guest {
	uint8_t state; /* enum doctor_guest_state */
	uint8_t ip[16];
	uint64_t came_ms;
	uint64_t order; /* of the connection, or of its HELLO */
	uint64_t asked; /* order in which it asked for the turn; 0: it does not want it */
};

struct doctor_guests {
	struct doctor_guest list[DOCTOR_GUESTS];
	int sessions;	     /* most at the same time, 1 to DOCTOR_SESSIONS */
	uint64_t order;	     /* given out so far */
	int turn;	     /* who has it; -1: nobody */
	uint64_t turn_ms;    /* since then */
	uint8_t turn_ip[16]; /* who had it last */
};

void doctor_guests_init(struct doctor_guests *g, int sessions);
/*
 * A new connection. Its number; or -1: its address, or all together, have as many as may be that are not silent.
 * *gone: the oldest silent connection, which has lost its place to the new one and is to be closed; -1: none.
 */
int doctor_guest_add(struct doctor_guests *g, const uint8_t ip[16], uint64_t now_ms, int *gone);
/* Its HELLO came. */
void doctor_guest_greeted(struct doctor_guests *g, int i);
/* The next that gets a session now; -1: none. */
int doctor_guest_serve(struct doctor_guests *g);
void doctor_guest_end(struct doctor_guests *g, int i);
/* A connection that was silent for too long; -1: none. */
int doctor_guest_late(const struct doctor_guests *g, uint64_t now_ms);
/* How many have that state. */
int doctor_guest_count(const struct doctor_guests *g, enum doctor_guest_state state);

void doctor_turn_ask(struct doctor_guests *g, int i);
/* If nobody has the turn, the next gets it: its number; else -1. */
int doctor_turn_give(struct doctor_guests *g, uint64_t now_ms);
/* It does not need the turn any more, or does not want it any more. */
void doctor_turn_end(struct doctor_guests *g, int i);
/* Who keeps the turn for too long while others want it; -1: nobody. */
int doctor_turn_late(const struct doctor_guests *g, uint64_t now_ms);

/* How many are before it: in the queue for a session, or for the turn, with the one that has it. */
int doctor_guest_before(const struct doctor_guests *g, int i);

#endif

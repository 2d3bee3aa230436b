/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* silence.c: a peer that does not answer is named to a person, long before its time-out. */
#ifndef UCCL_ENGINE_CONN_SILENCE_IMPL_H
#define UCCL_ENGINE_CONN_SILENCE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/nic.h"

struct conn;

/* A part of struct conn. */
struct conn_silence {
	uint64_t checked_ns;		/* last look while an answer was due; 0: none was */
	uint64_t silent_ns;		/* how long the peer has not answered, without our own absences */
	uint64_t warned_ns;		/* silent_ns at the first warning */
	uint8_t warned;			/* warnings since the peer last answered */
	bool noted;			/* a line of level info said that the process lives and does not answer */
	struct uccl_nic_peer *asked;	/* before it is connected: a liveness connection to its process; NULL: none */
};

/* A look at a peer. `due`: an answer of this peer is. */
void conn_silence_look(struct conn *c, bool due, uint64_t now);
/* The peer answered, and if a line said before that it did not, another one says so. */
void conn_silence_answered(struct conn *c);
/* The connection ends, or has another one instead of it. */
void conn_silence_end(struct conn *c);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a listener does for one asker, in a process of its own. The process and the listener talk over a socket pair, a
 * byte at a time.
 */
#ifndef UCCL_DOCTOR_SESSION_H
#define UCCL_DOCTOR_SESSION_H

#include "uccl_doctor_peer.h"
#include "uccl_doctor_wire.h"

/* To the listener. */
#define DOCTOR_TURN_WANTED 'w'
#define DOCTOR_TURN_DONE 'd'
/* From it: the turn; another value: so many sessions come before. */
#define DOCTOR_TURN_YOURS 0

/* Takes the asker's TCP connection over. 0: the asker measured and said goodbye; or a negative errno value. */
int doctor_session(int tcp, int listener, const struct doctor_hello *asker, const struct doctor_peer_opt *opt);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scenarios, and the roles that their ranks play. */
#ifndef UCCL_TEST_SYSTEM_CHAOS_H
#define UCCL_TEST_SYSTEM_CHAOS_H

#include "harness.h"

int chaos_kill(void);
void role_kill(struct rank *r);
int chaos_silence(void);
void role_silence(struct rank *r);
int chaos_restart(void);
void role_restart_client(struct rank *r);
void role_restart_server(struct rank *r);
int chaos_storm(void);
void role_storm_server(struct rank *r);
void role_storm_client(struct rank *r);
int chaos_link(void);
int chaos_clock(void);
int chaos_fork(void);
void role_host(struct rank *r);
int chaos_loss(void);
int chaos_corrupt(void);
int chaos_blackhole(void);
void role_loss(struct rank *r);
void role_corrupt(struct rank *r);
void role_blackhole(struct rank *r);
int chaos_wire(void);
void role_wire_rank(struct rank *r);
void role_wire_attacker(struct rank *r);
int chaos_misuse(void);
void role_misuse_env(struct rank *r);
void role_misuse_hints(struct rank *r);
void role_misuse_address(struct rank *r);
int chaos_close(void);
void role_close(struct rank *r);

#endif

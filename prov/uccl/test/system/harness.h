/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * System tests with real processes. The conductor runs a scenario: it starts ranks (this program again, in a
 * role), talks to each over a socket pair, stops or kills some, and judges. Ranks use libfabric's API alone.
 *
 * A scenario is straight-line code: after the first failure every call of the conductor returns at once, and
 * world_end() kills what still runs, by process number. No wait is without an end.
 */
#ifndef UCCL_TEST_SYSTEM_HARNESS_H
#define UCCL_TEST_SYSTEM_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fab.h"

#define RANKS_MAX 16
#define BLOB_MAX 256

/* What is said over a socket pair. Numbers from CTL_USER on belong to the scenario. */
enum {
	CTL_FAIL = 1, /* rank: data is the reason; it ends */
	CTL_ADDR,     /* rank: data is the name of its endpoint */
	CTL_PEER,     /* conductor: data is the name of rank `arg`'s endpoint */
	CTL_READY,    /* rank */
	CTL_GO,	      /* conductor */
	CTL_DONE,     /* rank: v are its figures */
	CTL_STOP,     /* conductor: begin no more messages (mesh.h) */
	CTL_REACHED,  /* rank: v[i] messages were begun with rank i */
	CTL_LIMIT,    /* conductor: go on to v[i] with rank i */
	CTL_USER = 32,
};

struct ctl {
	uint32_t type;
	int32_t arg;
	uint64_t v[8];
	uint32_t len; /* of data */
	uint8_t data[BLOB_MAX];
};

/* ---- the conductor's side */

struct proc {
	pid_t pid;
	int fd;	       /* -1: closed */
	bool alive;    /* not reaped */
	bool doomed;   /* killed by us: its end is no failure */
	int status;    /* of waitpid, once it is not alive */
	char err[256]; /* name of the file with its standard error */
};

/* Options of the program. */
struct options {
	const char *dir; /* for logs and statistics; exists */
	bool hours;	 /* the long forms of the scenarios */
	double slack;	 /* every limit of time is multiplied by it */
	uint64_t seed;
};
extern struct options options;

struct world {
	const char *name;
	int n;
	struct proc p[RANKS_MAX];
	bool failed;
	char why[512];
	char figures[1024]; /* key=value ..., printed with the verdict */
	uint64_t began_ns;
};

uint64_t clock_ns(void);
void sleep_ms(unsigned int ms);

/* A UDP port of the loopback that nobody has now. */
int free_port(void);

void world_begin(struct world *w, const char *name);
/* The first reason is kept. */
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fail unless ok. */
void world_check(struct world *w, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void world_figure(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Start a rank in a role; `env` is a list of NAME=VALUE with NULL at its end, or NULL. FI_PROVIDER, FI_UCCL_NIC and
 * FI_UCCL_STATS are set. The rank gets `lifetime_s` (times slack), then a signal ends it. Returns its index.
 */
int world_spawn(struct world *w, const char *role, const char *const *env, unsigned int lifetime_s);
/* Collect the addresses of ranks first..n-1 and tell all of them to all of these. */
void world_join(struct world *w, int first);
void world_tell(struct world *w, int rank, uint32_t type, int32_t arg, const uint64_t *v, int nv);
/* Pass on what another rank said. */
void world_pass(struct world *w, int rank, const struct ctl *c);
void world_tell_all(struct world *w, uint32_t type);
/* Wait for a message of this type; another type, the end of the rank or the time are failures. */
bool world_expect(struct world *w, int rank, uint32_t type, unsigned int ms, struct ctl *out);
/* From every rank that was not killed. */
void world_expect_all(struct world *w, uint32_t type, unsigned int ms, struct ctl *out);
/*
 * Bring the streams of ranks 0..n-1 to an end: what the further of two has begun, and `more` messages, are done by
 * both. Returns the largest number of a stream.
 */
uint64_t world_agree(struct world *w, int n, uint64_t more);
void world_signal(struct world *w, int rank, int sig);
void world_kill(struct world *w, int rank);
/* The last rank, which was killed, leaves: the next one that is started has its number. */
void world_forget(struct world *w);
/* Wait until all ranks that are left have ended with status 0, or kill them. */
void world_wait(struct world *w, unsigned int ms);
/* Sum of a counter over what the rank's endpoints wrote under FI_UCCL_STATS; call after its end. */
uint64_t world_stat(const struct world *w, int rank, const char *name);
/* Packets refused under one reason, or with NULL under any. */
uint64_t world_dropped(const struct world *w, int rank, const char *reason);
/* True if the standard error of the rank has this text. */
bool world_said(const struct world *w, int rank, const char *text);
/* End what is left, print the verdict. Returns 0, or 1 for a failure. */
int world_end(struct world *w);

/* ---- the rank's side */

struct rank {
	int index, n; /* n: how many addresses are known */
	int fd;
	const char *role;
	struct fab fab;
	fi_addr_t addr[RANKS_MAX];
	char place[RANKS_MAX][64];	       /* "IP:port" of each, as messages about it must say */
	uint8_t name[RANKS_MAX][FAB_NAME_MAX]; /* the addresses themselves */
	bool has_fab;
};

extern struct rank *this_rank;

/* Tell the conductor why and end. Safe to call anywhere in a rank. */
void rank_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define rank_check(ok, ...)                                                                                            \
	do {                                                                                                           \
		if (!(ok))                                                                                             \
			rank_fail(__VA_ARGS__);                                                                        \
	} while (0)

void rank_tell(struct rank *r, uint32_t type, int32_t arg, const uint64_t *v, int nv);
void rank_tell_blob(struct rank *r, uint32_t type, int32_t arg, const void *data, size_t len);
/* False: nothing there. The end of the conductor ends the rank. */
bool rank_poll(struct rank *r, struct ctl *out);
/* Wait for a message of this type, driving the endpoint meanwhile. */
void rank_wait(struct rank *r, uint32_t type, struct ctl *out);
/* Note the address of a rank. */
void rank_learn(struct rank *r, const struct ctl *c);
/* Open the endpoint (fab_open), exchange addresses of `n` ranks. */
void rank_join(struct rank *r, const char *service, int n);

struct role {
	const char *name;
	void (*run)(struct rank *r);
};
/* The life of a program that was started as a rank: --rank and ROLE INDEX FD SLACK SEED, from ROLE on. */
int rank_main(char **argv, const struct role *roles, size_t nroles);
struct scenario {
	const char *name;
	int (*run)(void);
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parts of uccl_lab: measurements and tests of our own, one in a file, and what they share. Each is called with its
 * arguments (argv[0] is its name) and returns the exit status.
 */
#ifndef UCCL_UTIL_LAB_H
#define UCCL_UTIL_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "../bench/endpoint.h"

#define LAB_NOT_RUN 77 /* exit status: this machine lacks what is needed */

int lab_cost(int argc, char **argv);
int lab_ghost(int argc, char **argv);
int lab_refuse(int argc, char **argv);
int lab_message(int argc, char **argv);
int lab_replay(int argc, char **argv);
int lab_scatter(int argc, char **argv);
int lab_train(int argc, char **argv);
int lab_verbs(int argc, char **argv);

/* ---- options */

/* "-x VALUE" or "--name VALUE", or an argument without dashes: its name has capitals. Either text or number is set. */
struct lab_option {
	char letter; /* 0: none */
	const char *name;
	const char *help;
	const char **text;
	uint64_t *number;
	uint64_t least, most; /* of a number */
};

/*
 * Read all arguments. --help prints `about`, and the options with their defaults, which are the present values, and
 * ends the program; so does, with a status of 2, what is not right.
 */
void lab_options(int argc, char **argv, const struct lab_option *options, size_t n, const char *about);
/* The same for whatever else is wrong with the arguments. */
void lab_refused(const char *why) __attribute__((noreturn));

/* ---- numbers */

uint64_t lab_clock(clockid_t clock);
/* Sorts them. */
uint64_t lab_median(uint64_t *v, size_t n);
/* Random numbers for an engine that follow from a struct uccl_rng. */
void lab_random(void *rng, void *buf, size_t len);

/* ---- two engines, one of which sends messages to the other, in virtual or real time (engines.c) */

struct uccl_config;
struct uccl_nic;

extern struct lab_engines {
	struct uccl_engine *engine[2];
	struct uccl_peer *peer;	 /* of the first */
	uint8_t *memory[2];	 /* a buffer for each message that is under way */
	size_t message;		 /* bytes */
	int window;		 /* messages under way */
	int under_way[2], next[2];
	uint64_t now;
	uint64_t done;		 /* messages that were sent */
} lab;

/* Open the engine of a side, the sender's (0) first. False: no memory. */
bool lab_engine_open(int side, struct uccl_nic *nic, const struct uccl_config *cfg);
/* Post until the window is full, then one round of progress. False: no memory, or the peer is gone. */
bool lab_turn(int side);
/* lab_turn(0) and lab_turn(1) under names that a profiler can tell apart. */
bool cost_sender(void);
bool cost_receiver(void);

#endif

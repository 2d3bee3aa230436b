/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Named scenes on the fabric: options by name, what they do, and their results as a table, CSV or JSON. */
#ifndef UCCL_SIM_FABRIC_PLAY_H
#define UCCL_SIM_FABRIC_PLAY_H

#include <stdio.h>

#include "sim/fabric_scene.h"
#include "sim/fabric_trace.h"

/* Groups of operations. */
enum { UCCL_FAB_MAIN, UCCL_FAB_OTHER };

/* Options that there may be. */
#define UCCL_FAB_OPTIONS 96

/* Transfers that begin by chance. fabric_play.c writes it. */
struct uccl_fab_arrivals {
	double load;	  /* of every host's link */
	uint64_t span_ns; /* in which they begin */
	char sizes[16];	  /* name of a distribution */
};

/* What a link does to packets. fabric_play.c writes it. */
struct uccl_fab_lossy {
	double chance, burst, mean;
};

/* Switches that fall ill: what is asked for, and how it is now. fabric_script.c writes it. */
struct uccl_fab_illness {
	uint64_t victims;    /* number of them */
	uint64_t at_ns;	     /* then */
	uint64_t flap_ns;    /* they come and go in this rhythm; 0: they stay away */
	uint64_t reroute_ns; /* routing leaves them after this time; 0: never */
	double rate;	     /* what is left of their rate; 0: they swallow everything */
	uint32_t first;	     /* victim */
	bool sick;
};

/* Looks at flows, written to a file. fabric_play.c writes it. */
struct uccl_fab_look {
	char file[256]; /* empty: none */
	uint64_t every_ns;
	uint64_t hosts; /* number of hosts; 0: all */
	struct uccl_fab_trace trace;
};

struct uccl_fab_play {
	struct uccl_fab_scene scene;
	struct uccl_fab_cfg cfg;
	const char *name;
	/* options that are not of uccl_fab_cfg */
	uint64_t bytes;	     /* per host */
	uint64_t senders;    /* incast: of one receiver */
	uint64_t alone;	     /* incast: only what is beside it */
	uint64_t stagger_ns; /* stagger: between two that begin */
	uint64_t messages;   /* turns: number of messages */
	double skew;	     /* alltoall: exponent of Zipf's law */
	uint64_t pieces;     /* tree: that a host's bytes are cut into */
	char file[256];	     /* list: of transfers */
	struct uccl_fab_arrivals arrivals;
	struct uccl_fab_illness spine;
	struct uccl_fab_lossy loss;
	struct uccl_fab_look look;
	char names[4][256]; /* of stack and policies */
	char profile[16];
	bool given[UCCL_FAB_OPTIONS]; /* options that were set, in the order of the table */
	/* state */
	struct uccl_fab_turn turns[2];
	uint64_t *seen; /* stagger: bytes of each operation at the last look */
	/* results */
	int rc;		   /* of uccl_fab_scene_run */
	char why[512];	   /* what is wrong with its input; empty: nothing is */
	double least;	   /* stagger: the least share, of an even one, between the two looks */
	uint64_t ideal_ns; /* what no transport can beat, had the network no faults, */
	uint64_t bound_ns; /* and with what faults of switches leave of it */
};

/* The defaults of a scene, with what is shipped for sockets (profile=udp). -FI_ENOENT: there is none of this name. */
int uccl_fab_play_init(struct uccl_fab_play *p, const char *name);
/* "name=value,...". -FI_EINVAL: no such option, or not a number. */
int uccl_fab_play_set(struct uccl_fab_play *p, const char *text);
/* An option that was set and changes nothing in this scene, or beside the others. NULL: there is none. */
const char *uccl_fab_play_useless(const struct uccl_fab_play *p);
/* Call before the run. True: no tree has these hosts and switches; prints which trees have nearly as many. */
bool uccl_fab_play_unfit(const struct uccl_fab_play *p, FILE *out);
/* Run it; p->scene stays open for a look. What uccl_fab_scene_open or _run return. */
int uccl_fab_play_run(struct uccl_fab_play *p, void (*progress)(const struct uccl_fab_scene *s));
void uccl_fab_play_close(struct uccl_fab_play *p);

/* What it has to say (fabric_report.c). */

/* What a run of many seeds is told by. */
enum uccl_fab_figure {
	UCCL_FAB_OVER,	  /* %, of the last operation over the ideal */
	UCCL_FAB_MEDIAN,  /* %, of the median operation */
	UCCL_FAB_BESIDE,  /* us, of the last one beside */
	UCCL_FAB_LEAST,	  /* stagger: the least share */
	UCCL_FAB_AGAIN,	  /* % of all bytes that were sent again */
	UCCL_FAB_DROPPED, /* packets, by full queues */
	UCCL_FAB_SLOW50,  /* median of how many times its time alone an operation took */
	UCCL_FAB_SLOW99,
	UCCL_FAB_SHORT99, /* of those up to 100 KB */
	UCCL_FAB_BOUND,	  /* %, over the ideal, that no transport can be below: faults of switches leave no more */
	UCCL_FAB_FIGURES,
};

void uccl_fab_play_figures(const struct uccl_fab_play *p, double v[UCCL_FAB_FIGURES]);

/* One line per group. Nothing in it depends on the machine. */
void uccl_fab_play_table(const struct uccl_fab_play *p, FILE *out);
void uccl_fab_play_csv(const struct uccl_fab_play *p, FILE *out, bool heads);
void uccl_fab_play_json(const struct uccl_fab_play *p, FILE *out);

extern const char *const uccl_fab_plays[][2]; /* name and text; ends with NULL */
/* A line for each option: its name, its meaning, and in brackets its value if it is not set. */
void uccl_fab_play_options(FILE *out);

#endif

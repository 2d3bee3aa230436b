/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Named scenes on the fabric: options by name, what they do, and their results as a table, CSV or JSON. */
#ifndef UCCL_SIM_FABRIC_PLAY_H
#define UCCL_SIM_FABRIC_PLAY_H

#include <stdio.h>

#include "sim/fabric_scene.h"

struct uccl_fab_play {
	struct uccl_fab_scene scene;
	struct uccl_fab_cfg cfg;
	const char *name;
	/* options that are not of uccl_fab_cfg */
	uint64_t bytes;	     /* per host */
	uint64_t senders;    /* incast: of one receiver */
	uint64_t at_ns;	     /* when the fault strikes */
	uint64_t flap_ns;    /* spine: it comes and goes in this rhythm; 0: it stays away */
	uint64_t reroute_ns; /* spine: routing leaves it after this time; 0: never */
	double rate;	     /* spine: what is left of its rate; 0: it swallows everything */
	double loss, burst, mean;
	char names[4][256]; /* of stack and policies */
	/* state */
	struct uccl_fab_turn turns[2];
	uint32_t victim;
	bool sick;
	/* results */
	int rc;		   /* of uccl_fab_scene_run */
	uint64_t ideal_ns; /* of the longest operation of the main group, alone */
};

/* The defaults of a scene. -FI_ENOENT: there is none of this name. */
int uccl_fab_play_init(struct uccl_fab_play *p, const char *name);
/* "name=value,...". -FI_EINVAL: no such option, or not a number. */
int uccl_fab_play_set(struct uccl_fab_play *p, const char *text);
/* Run it; p->scene stays open for a look. What uccl_fab_scene_open or _run return. */
int uccl_fab_play_run(struct uccl_fab_play *p, void (*progress)(const struct uccl_fab_scene *s));
void uccl_fab_play_close(struct uccl_fab_play *p);

/* One line per group. Nothing in it depends on the machine. */
void uccl_fab_play_table(const struct uccl_fab_play *p, FILE *out);
void uccl_fab_play_csv(const struct uccl_fab_play *p, FILE *out, bool heads);
void uccl_fab_play_json(const struct uccl_fab_play *p, FILE *out);

extern const char *const uccl_fab_plays[][2]; /* name and text; ends with NULL */
void uccl_fab_play_options(FILE *out);

#endif

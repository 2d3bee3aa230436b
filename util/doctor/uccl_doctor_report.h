/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What uccl_doctor found: a list of findings, and how it is printed for people (text) and for programs (JSON). */
#ifndef UCCL_DOCTOR_REPORT_H
#define UCCL_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DOCTOR_NAME 80
#define DOCTOR_TEXT 512
#define DOCTOR_VALUES 16

/* From good to bad. A note is worth knowing and nothing is wrong; warn and bad make the exit status 1. */
enum doctor_level { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_WARN, DOCTOR_BAD };

/* A measured or configured quantity of a finding, for JSON; a number, or a text if `text` is not empty. */
struct doctor_value {
	char key[32];
	char text[DOCTOR_NAME];
	double number;
};

struct doctor_finding {
	enum doctor_level level;
	char section[16];	   /* "host", "offer", "network" */
	char check[24];		   /* what was looked at: one of the names in uccl_doctor(1) */
	char subject[DOCTOR_NAME]; /* an interface, a back end, a direction; empty: the host as a whole */
	char text[DOCTOR_TEXT];
	char advice[DOCTOR_TEXT]; /* what to do; empty: nothing */
	struct doctor_value value[DOCTOR_VALUES];
	int nvalues;
};

struct doctor_report {
	struct doctor_finding *finding; /* in the order in which they were added */
	int n, room;
	bool short_of_memory; /* findings were lost */
	struct doctor_finding lost;
};

/* Add a finding. It is the report's, good until the next is added; never NULL. */
struct doctor_finding *doctor_add(struct doctor_report *r, enum doctor_level level, const char *section,
				  const char *check, const char *subject, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
void doctor_advise(struct doctor_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* More than DOCTOR_VALUES are left out. */
void doctor_number(struct doctor_finding *f, const char *key, double number);
void doctor_string(struct doctor_finding *f, const char *key, const char *text);

/* How many findings of a level there are. */
int doctor_count(const struct doctor_report *r, enum doctor_level level);
/* 1: something limits; 0: all is good. */
int doctor_status(const struct doctor_report *r);
const char *doctor_level_text(enum doctor_level level);
/* The worst first, then in the order in which they were found; a last line counts them. */
void doctor_print_text(const struct doctor_report *r, FILE *f);
/* One object, see uccl_doctor(1). */
void doctor_print_json(const struct doctor_report *r, FILE *f);
/* One JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void doctor_print_quoted(const char *text, FILE *f);
void doctor_free(struct doctor_report *r);

#endif

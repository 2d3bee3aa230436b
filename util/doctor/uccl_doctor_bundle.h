/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a report of a fault needs, as one text: versions, the host, its NICs and routes, limits, variables, what
 * endpoints count now, and findings. Of the environment only variables of a list are in it, and no value that may be a
 * secret.
 */
#ifndef UCCL_DOCTOR_BUNDLE_H
#define UCCL_DOCTOR_BUNDLE_H

#include <stdbool.h>
#include <stdio.h>

/* The variables of `env` (NAME=VALUE, NULL at the end) that may be told, a line each. */
void doctor_bundle_variables(char *const *env, FILE *f);
/* True: a variable of this name is in the list. */
bool doctor_bundle_listed(const char *name, size_t len);
/* True: the variable (NAME=VALUE) has something that may be a secret. */
bool doctor_bundle_hidden(const char *variable);
/* All but the findings. */
void doctor_bundle_print(FILE *f);

#endif

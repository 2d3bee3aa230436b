/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of interfaces in FI_UCCL_NIC. Its entries are names or patterns (glob(7)), with commas between. An entry
 * that begins with ^ excludes what it matches. If the first entry excludes, all others do so, too, with or without ^;
 * FI_PROVIDER, NCCL and Open MPI read such lists in this way. Else an interface is used if an entry names it and none
 * excludes it. An empty list allows all.
 */
#ifndef UCCL_API_NICNAMES_H
#define UCCL_API_NICNAMES_H

#include <stdbool.h>

#include "nic/ifaddr.h"

/* An entry. Longer ones match nothing. */
struct uccl_nicname {
	char text[UCCL_IFADDR_NAME]; /* without ^ */
	bool excludes;
};

/* The entry at *at, which is moved to the one behind it; begin with *at = list. False: there are no more. */
bool uccl_nicnames_next(const char *list, const char **at, struct uccl_nicname *one);
bool uccl_nicname_matches(const struct uccl_nicname *one, const char *name);

/* True if the list allows the interface; *rank is the place of the first entry that names it (0: none does). */
bool uccl_nicnames_allow(const char *list, const char *name, unsigned int *rank);

/* True if the list has an entry that names interfaces; true if it has one that excludes some. */
bool uccl_nicnames_name(const char *list);
bool uccl_nicnames_exclude(const char *list);

#endif

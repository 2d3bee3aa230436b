/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rows of the tables of variables. Only param.c and the owners of its parts include this. */
#ifndef UCCL_API_PARAM_ROW_H
#define UCCL_API_PARAM_ROW_H

#include "api/offer/param.h"

enum uccl_param_form {
	FORM_TEXT,	/* up to UCCL_PARAM_TEXT - 1 characters */
	FORM_CHOICE,	/* one of a list of names */
	FORM_POLICY,	/* see uccl_policy_values; lo is its kind */
	FORM_NUMBER,
	FORM_POWER,	/* a power of two */
	FORM_BYTES,	/* k, m, g: times 1024, 1024^2, 1024^3 */
	FORM_SECONDS,	/* kept as ns */
	FORM_MILLIS,	/* kept as ns */
	FORM_BOOL,
	FORM_SWITCH,	/* a boolean or "auto" */
	FORM_PORTS,	/* see uccl_ports_parse */
	FORM_LANES,	/* a number or "auto" */
	FORM_PARTS,	/* no value of its own: parts only */
};

/* A variable, or a part of one: a row of the table. */
struct uccl_param {
	const char *name;	/* of the variable; the rows of its parts follow its own */
	const char *key;	/* of the part; NULL: what the variable's text begins with */
	enum uccl_param_form form;
	const char *def;
	size_t offset;
	uint64_t lo, hi;	/* in the unit of the text; the default may lie outside */
	const char *const *names;	/* FORM_CHOICE: the possible values, then NULL */
	const char *const *(*choices)(void); /* FORM_POLICY: returns the same */
	const char *rdma_def;	/* with RDMA NICs; NULL: the same */
	bool nearest;		/* a number out of range becomes the nearest in it */
	const char *help;
	const char *old;	/* name of a variable of earlier versions, which is read for one release */
};

/* The tables of the parts of struct uccl_params; a row without name is the last. */
extern const struct uccl_param uccl_param_nic[], uccl_param_conn[];

/* What the library itself puts before the names of this provider's variables. */
#define UCCL_PARAM_PREFIX "FI_UCCL_"

/* Row i of all tables; NULL: there are fewer. */
const struct uccl_param *uccl_param_at(size_t i);
/* True if only tests set the variable of this row. */
bool uccl_param_for_tests(const struct uccl_param *t);

/* The names of enum uccl_security, in its order, then NULL. */
extern const char *const uccl_param_security_names[];

/* The first of a row's fields: a variable, a part of one; then the field of struct uccl_params that it sets. */
#define VAR(name, form, def, field) name, NULL, form, def, offsetof(struct uccl_params, field)
#define PART(name, key, form, def, field) name, key, form, def, offsetof(struct uccl_params, field)
#define RANGE(lowest, highest) .lo = (lowest), .hi = (highest)

#endif

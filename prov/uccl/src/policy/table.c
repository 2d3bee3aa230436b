/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Policies by name. The lists themselves are in policies.h. */
#include "policy/policies.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyvalue.h"
#include "base/units.h"

#define X(name) &uccl_cc_##name,
static const struct uccl_cc_ops *const cc_table[] = {UCCL_CC_POLICIES(X)};
#undef X

#define X(name) &uccl_path_##name,
static const struct uccl_path_ops *const path_table[] = {UCCL_PATH_POLICIES(X)};
#undef X

#define X(name) &uccl_credit_##name,
static const struct uccl_credit_ops *const credit_table[] = {UCCL_CREDIT_POLICIES(X)};
#undef X

#define X(name) #name,
static const char *const cc_names[] = {UCCL_CC_POLICIES(X) NULL};
static const char *const path_names[] = {UCCL_PATH_POLICIES(X) NULL};
static const char *const credit_names[] = {UCCL_CREDIT_POLICIES(X) NULL};
#undef X

#define X(name) &uccl_cc_##name.constants,
static const struct uccl_constant *const *const cc_constants[] = {UCCL_CC_POLICIES(X)};
#undef X

#define X(name) &uccl_path_##name.constants,
static const struct uccl_constant *const *const path_constants[] = {UCCL_PATH_POLICIES(X)};
#undef X

#define X(name) &uccl_credit_##name.constants,
static const struct uccl_constant *const *const credit_constants[] = {UCCL_CREDIT_POLICIES(X)};
#undef X

/* In the order of enum uccl_policy_kind. */
static const struct kind {
	const char *what;
	const char *const *names;
	const struct uccl_constant *const *const *constants;
} kinds[UCCL_POLICY_KINDS] = {
	{"congestion control", cc_names, cc_constants},
	{"path choice", path_names, path_constants},
	{"credit policy", credit_names, credit_constants},
};

/* The place of the policy that `text` begins with in a list that ends with NULL, -1 if it is not there. */
static int names_index(const char *const *names, const char *text)
{
	size_t len = text ? uccl_keyvalue_head(text) : 0;

	for (int i = 0; text && names[i]; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], text, len))
			return i;
	return -1;
}

const struct uccl_cc_ops *uccl_cc_find(const char *name)
{
	int i = names_index(cc_names, name);

	return i < 0 ? NULL : cc_table[i];
}

const struct uccl_path_ops *uccl_path_find(const char *name)
{
	int i = names_index(path_names, name);

	return i < 0 ? NULL : path_table[i];
}

const struct uccl_credit_ops *uccl_credit_find(const char *name)
{
	int i = names_index(credit_names, name);

	return i < 0 ? NULL : credit_table[i];
}

const char *const *uccl_cc_names(void)
{
	return cc_names;
}

const char *const *uccl_path_names(void)
{
	return path_names;
}

const char *const *uccl_credit_names(void)
{
	return credit_names;
}

const struct uccl_constant *uccl_policy_constants(enum uccl_policy_kind kind, const char *text)
{
	int i = names_index(kinds[kind].names, text);

	return i < 0 ? NULL : *kinds[kind].constants[i];
}

/* "one two three" of what there is. */
static void list_names(const char *const *names, const struct uccl_constant *constants, char *buf, size_t size)
{
	const char *name;
	size_t n = 0;

	*buf = 0;
	for (int i = 0; n < size && (name = names ? names[i] : constants ? constants[i].name : NULL); i++)
		n += (size_t)snprintf(buf + n, size - n, " %s", name);
}

static int read_constant(const struct uccl_constant *constants, const struct uccl_keyvalue *item, double *k, char *why,
			 size_t size)
{
	const struct uccl_constant *c = constants;
	int len = (int)item->len;
	char list[512], *end;
	double value;

	while (c && c->name && !uccl_keyvalue_is(item, c->name))
		c++;
	if (!c || !c->name) {
		list_names(NULL, constants, list, sizeof(list));
		snprintf(why, size, "\"%.*s\" sets no constant; there are:%s", len, item->key, *list ? list : " none");
		return -FI_EINVAL;
	}
	value = strtod(item->value, &end);
	if (end != item->key + item->len || end == item->value || !(value >= c->lo && value <= c->hi)) {
		snprintf(why, size, "\"%.*s\": %s is %g to %g%s%s", len, item->key, c->name, c->lo, c->hi,
			 *c->unit ? " " : "", c->unit);
		return -FI_EINVAL;
	}
	if (k)
		k[c - constants] = value;
	return 0;
}

int uccl_policy_values(enum uccl_policy_kind kind, const char *text, double *k, char *why, size_t size)
{
	int place = names_index(kinds[kind].names, text), rc;
	const struct uccl_constant *constants;
	struct uccl_keyvalue item;
	char none[1], list[512];

	if (!why) {
		why = none;
		size = sizeof(none);
	}
	if (place < 0) {
		list_names(kinds[kind].names, NULL, list, sizeof(list));
		snprintf(why, size, "no such %s; there are:%s", kinds[kind].what, list);
		return -FI_EINVAL;
	}
	constants = *kinds[kind].constants[place];
	for (size_t i = 0; k && constants && constants[i].name; i++)
		k[i] = constants[i].def;
	text += uccl_keyvalue_head(text);
	text = *text ? text + 1 : NULL;
	while (uccl_keyvalue_next(&text, &item)) {
		rc = read_constant(constants, &item, k, why, size);
		if (rc)
			return rc;
	}
	return 0;
}

int uccl_policies_values(const char *const texts[UCCL_POLICY_KINDS], double k[][UCCL_CONSTANTS_MAX])
{
	int rc = 0;

	for (int kind = 0; !rc && kind < UCCL_POLICY_KINDS; kind++)
		rc = uccl_policy_values(kind, texts[kind], k[kind], NULL, 0);
	return rc;
}

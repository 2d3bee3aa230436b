/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Policies by name. The lists themselves are in policies.h. */
#include "policy/policies.h"

#include <string.h>

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

/* The place of `name` in a list that ends with NULL, -1 if it is not there. */
static int names_index(const char *const *names, const char *name)
{
	for (int i = 0; name && names[i]; i++)
		if (!strcmp(names[i], name))
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

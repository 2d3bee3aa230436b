/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/param_names.h"

#include <string.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/offer/param_row.h"

#define PREFIX_LEN (sizeof(UCCL_PARAM_PREFIX) - 1)
/* Two names with more differences than this are not alike. */
#define ALIKE 2

/* Letters to insert, delete or replace between `a`, of a_len letters, and `b` (Levenshtein). */
static size_t differences(const char *a, size_t a_len, const char *b)
{
	size_t row[UCCL_PARAM_NAME + 1], b_len = strlen(b);

	if (b_len > UCCL_PARAM_NAME)
		return SIZE_MAX;
	for (size_t k = 0; k <= b_len; k++)
		row[k] = k;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t k = 1; k <= b_len; k++) {
			size_t replaced = diagonal + (a[i - 1] != b[k - 1]);

			diagonal = row[k];
			row[k] = uccl_min(replaced, uccl_min(row[k], row[k - 1]) + 1);
		}
	}
	return row[b_len];
}

static bool is_name(const char *name, const char *var, size_t len)
{
	return name && strlen(name) == len && !memcmp(name, var, len);
}

static bool known(const char *var, size_t len)
{
	const struct uccl_param *t;

	for (size_t i = 0; (t = uccl_param_at(i)); i++)
		if (is_name(t->name, var, len) || is_name(t->old, var, len))
			return true;
	return false;
}

/* The variable whose name is most like this one; NULL: none is. */
static const char *nearest(const char *var, size_t len)
{
	size_t least = ALIKE + 1;
	const char *found = NULL;
	const struct uccl_param *t;

	for (size_t i = 0; (t = uccl_param_at(i)); i++) {
		size_t n;

		if (t->key || uccl_param_for_tests(t))
			continue;
		n = differences(var, len, t->name);
		if (n < least) {
			least = n;
			found = t->name;
		}
	}
	return found;
}

static void check(const char *var)
{
	size_t len = strcspn(var, "=");
	const char *like;

	if (strncmp(var, UCCL_PARAM_PREFIX, PREFIX_LEN) || known(var, len))
		return;
	like = nearest(var, len);
	uccl_warn(FI_LOG_CORE, "%.*s is not a variable of this provider, so it has no effect: %s%s%s\n",
		  (int)uccl_min(len, (size_t)200), var, like ? "did you mean " : "see fi_info -e and fi_uccl(7)",
		  like ? like : "", like ? "?" : "");
}

void uccl_params_check_names(void)
{
	for (char **var = environ; var && *var; var++)
		check(*var);
}

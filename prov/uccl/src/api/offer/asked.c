/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/asked.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/offer/param_row.h"

/* Is `name` one of the names in `list`, which commas or semicolons separate? A list that begins with ^ excludes. */
static bool names(const char *list, const char *name)
{
	size_t len = strlen(name);

	if (!list || *list == '^')
		return false;
	for (;;) {
		size_t n = strcspn(list, ",;");

		if (n == len && !strncasecmp(list, name, n))
			return true;
		if (!list[n])
			return false;
		list += n + 1;
	}
}

static bool variable_set(void)
{
	for (char **var = environ; var && *var; var++)
		if (!strncmp(*var, UCCL_PARAM_PREFIX, strlen(UCCL_PARAM_PREFIX)))
			return true;
	return false;
}

bool uccl_asked(const struct fi_info *hints)
{
	const char *wanted = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;

	return names(getenv("FI_PROVIDER"), uccl_prov.name) || names(wanted, uccl_prov.name) || variable_set();
}

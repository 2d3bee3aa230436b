/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/joined.h"

#include <string.h>

#include "base/units.h"
#include "nic/nic.h"

/* Could it be joined to the first of the list? */
static bool alike(const struct uccl_ifaddr *first, const struct uccl_ifaddr *a)
{
	return !a->loopback && !uccl_ifaddr_shared(a) && a->class == first->class &&
	       uccl_ifaddr_is_v4(&a->addr) == uccl_ifaddr_is_v4(&first->addr);
}

/* Is it in the name already, by another address? */
static bool named(const struct uccl_ifaddr *list, int i)
{
	for (int k = 0; k < i; k++)
		if (!strcmp(list[k].name, list[i].name))
			return true;
	return false;
}

bool uccl_joined_auto(const struct uccl_ifaddr *list, const unsigned int *distance, int n, char name[UCCL_IFADDR_NAME])
{
	unsigned int nearest = UINT32_MAX;
	uint64_t fastest = 0;
	size_t len = 0;
	int joined = 0;

	for (int i = 0; i < n; i++)
		if (alike(list, &list[i]))
			nearest = (unsigned int)uccl_min(nearest, distance[i]);
	for (int i = 0; i < n; i++)
		if (alike(list, &list[i]) && distance[i] == nearest)
			fastest = uccl_max(fastest, list[i].link_bps);
	for (int i = 0; i < n && joined < UCCL_RAILS_MAX; i++) {
		size_t more = strlen(list[i].name);

		if (!alike(list, &list[i]) || distance[i] != nearest || list[i].link_bps != fastest || named(list, i) ||
		    len + more + 2 > UCCL_IFADDR_NAME)
			continue;
		if (joined++)
			name[len++] = '+';
		memcpy(name + len, list[i].name, more);
		len += more;
	}
	name[len] = '\0';
	return joined > 1;
}

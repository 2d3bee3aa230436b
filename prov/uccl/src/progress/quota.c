/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* The text of a small file; false: there is none. */
static bool file_read(const char *folder, const char *name, char *text, size_t size)
{
	char path[PATH_MAX + 32];
	FILE *f;
	bool done;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	done = fgets(text, (int)size, f);
	fclose(f);
	return done;
}

/* "max" and -1 are no limit. */
static uint32_t quota(long long us, long long period_us)
{
	if (us <= 0 || period_us <= 0)
		return UINT32_MAX;
	return (uint32_t)uccl_clamp(us / period_us, 1, (long long)UINT32_MAX);
}

/* "200000 100000" */
static uint32_t quota_unified(const char *folder)
{
	char text[64], *end;
	long long us;

	if (!file_read(folder, "cpu.max", text, sizeof(text)))
		return UINT32_MAX;
	us = strtoll(text, &end, 10);
	return quota(end == text ? 0 : us, strtoll(end, NULL, 10));
}

/* Version 1: one file each. */
static uint32_t quota_of_cpu(const char *folder)
{
	char us[32], period[32];

	if (!file_read(folder, "cpu.cfs_quota_us", us, sizeof(us)) ||
	    !file_read(folder, "cpu.cfs_period_us", period, sizeof(period)))
		return UINT32_MAX;
	return quota(strtoll(us, NULL, 10), strtoll(period, NULL, 10));
}

/*
 * The least of a group and those above it. A container may have mounted its own group where the path begins: folders
 * that are not there are left out.
 */
static uint32_t quota_upwards(const char *root, const char *group, uint32_t (*of)(const char *folder))
{
	size_t base = strlen(root);
	char folder[PATH_MAX];
	uint32_t least = UINT32_MAX;
	char *cut;

	if (snprintf(folder, sizeof(folder), "%s%s", root, group) >= (int)sizeof(folder))
		return UINT32_MAX;
	while (strlen(folder) > base) {
		least = uccl_min(least, of(folder));
		cut = strrchr(folder + base, '/');
		if (!cut)
			break;
		*cut = 0;
	}
	return uccl_min(least, of(root));
}

/* Is `name` one of those in `list`, which commas separate? */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
			return true;
	}
	return false;
}

/* A line: "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1. */
static uint32_t quota_of_line(char *line, const char *mount)
{
	char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
	char root[PATH_MAX];
	uint32_t least;

	if (!group)
		return UINT32_MAX;
	*controllers++ = 0;
	*group++ = 0;
	group[strcspn(group, "\n")] = 0;
	if (!*controllers) {
		/* Beside version 1 it has a folder of its own. */
		least = quota_upwards(mount, group, quota_unified);
		snprintf(root, sizeof(root), "%s/unified", mount);
		return uccl_min(least, quota_upwards(root, group, quota_unified));
	}
	if (!listed(controllers, "cpu"))
		return UINT32_MAX;
	snprintf(root, sizeof(root), "%s/%s", mount, controllers);
	least = quota_upwards(root, group, quota_of_cpu);
	snprintf(root, sizeof(root), "%s/cpu", mount);
	return uccl_min(least, quota_upwards(root, group, quota_of_cpu));
}

uint32_t uccl_quota_processors(const char *groups, const char *mount)
{
	uint32_t least = UINT32_MAX;
	char line[PATH_MAX];
	FILE *f = fopen(groups, "re");

	if (!f)
		return UINT32_MAX;
	while (fgets(line, sizeof(line), f))
		least = uccl_min(least, quota_of_line(line, mount));
	fclose(f);
	return least;
}

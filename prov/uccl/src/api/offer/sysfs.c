/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/sysfs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void nic_path(const char *sys, const char *nic, const char *what, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/class/net/%s", sys, nic);

	if (access(path, F_OK))
		n = snprintf(path, size, "%s/class/infiniband/%.*s", sys, (int)strcspn(nic, ":"), nic);
	snprintf(path + n, size - (size_t)n, "/%s", what);
}

bool uccl_sysfs_link(const char *sys, const char *nic, const char *what, char *out, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *last;
	ssize_t n;

	nic_path(sys, nic, what, path, sizeof(path));
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	last = strrchr(target, '/');
	last = last ? last + 1 : target;
	if (strlen(last) >= size)
		return false;
	memcpy(out, last, strlen(last) + 1);
	return true;
}

char *uccl_sysfs_line(const char *sys, const char *nic, const char *what)
{
	char path[PATH_MAX], line[64];
	FILE *f;
	char *got;

	nic_path(sys, nic, what, path, sizeof(path));
	f = fopen(path, "re");
	if (!f)
		return NULL;
	got = fgets(line, sizeof(line), f);
	fclose(f);
	if (!got)
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return strdup(line);
}

bool uccl_sysfs_running(const char *sys, const char *nic)
{
	char *state = uccl_sysfs_line(sys, nic, "operstate");
	bool down = state && !strcmp(state, "down");

	free(state);
	return !down;
}

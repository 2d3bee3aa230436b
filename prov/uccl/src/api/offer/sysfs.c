/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/sysfs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Interfaces on interfaces: more than anybody stacks. */
#define LOWER_DEPTH 6
/* Most members of a bond or bridge that are read. */
#define LOWER_MAX 256

static void nic_path(const char *sys, const char *nic, const char *what, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/class/net/%s", sys, nic);

	if (access(path, F_OK))
		n = snprintf(path, size, "%s/class/infiniband/%.*s", sys, (int)strcspn(nic, ":+"), nic);
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

/* "0000:3b:00.1" and nothing else: similar parts of a path belong to other buses. */
static bool pci_read(const char *part, size_t len, struct uccl_pci *pci)
{
	unsigned int domain, bus, device, function;
	char text[16];
	int end = 0;

	if (len >= sizeof(text))
		return false;
	memcpy(text, part, len);
	text[len] = '\0';
	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 || (size_t)end != len ||
	    len != strlen("0000:00:00.0"))
		return false;
	*pci = (struct uccl_pci){(uint16_t)domain, (uint8_t)bus, (uint8_t)device, (uint8_t)function};
	return true;
}

bool uccl_sysfs_pci(const char *device, struct uccl_pci *pci)
{
	struct uccl_pci one;
	bool found = false;

	/* The last one: bridges are before it. */
	for (const char *s = device; *s; s += strcspn(s, "/")) {
		s += *s == '/';
		if (pci_read(s, strcspn(s, "/"), &one)) {
			*pci = one;
			found = true;
		}
	}
	return found;
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(a, b);
}

typedef char lower_name[NAME_MAX + 1];

/* The names of the interfaces below one, sorted; how many. *list is the caller's to free(). */
static int lower_list(const char *sys, const char *nic, lower_name **list)
{
	static const char prefix[] = "lower_";
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;
	int n = 0;

	*list = NULL;
	nic_path(sys, nic, "", path, sizeof(path));
	d = opendir(path);
	while (d && n < LOWER_MAX && (e = readdir(d))) {
		lower_name *more;

		if (strncmp(e->d_name, prefix, sizeof(prefix) - 1))
			continue;
		more = realloc(*list, (size_t)(n + 1) * sizeof(**list));
		if (!more)
			break;
		*list = more;
		strcpy(more[n++], e->d_name + sizeof(prefix) - 1);
	}
	if (d)
		closedir(d);
	if (n)
		qsort(*list, (size_t)n, sizeof(**list), name_cmp);
	return n;
}

static bool pci_device(const char *sys, const char *nic, int depth, char device[PATH_MAX]);

/* One that a file names: the active part of a bond, the interface that an RDMA device is made on. */
static bool pci_named(const char *sys, const char *nic, const char *what, int depth, char device[PATH_MAX])
{
	char *name = uccl_sysfs_line(sys, nic, what);
	bool found = name && *name && pci_device(sys, name, depth, device);

	free(name);
	return found;
}

static bool pci_lower(const char *sys, const char *nic, int depth, char device[PATH_MAX])
{
	lower_name *lower;
	bool found = pci_named(sys, nic, "bonding/active_slave", depth, device);
	int n = found ? 0 : lower_list(sys, nic, &lower);

	if (!n)
		return found || pci_named(sys, nic, "ports/1/gid_attrs/ndevs/0", depth, device);
	for (int i = 0; i < n && !found; i++)
		found = uccl_sysfs_running(sys, lower[i]) && pci_device(sys, lower[i], depth, device);
	for (int i = 0; i < n && !found; i++)
		found = pci_device(sys, lower[i], depth, device);
	free(lower);
	return found;
}

/* Its own comes first. A device without PCI may be a mere front: Hyper-V puts a virtual function below it. */
static bool pci_device(const char *sys, const char *nic, int depth, char device[PATH_MAX])
{
	char path[PATH_MAX];
	struct uccl_pci pci;

	if (!depth || strchr(nic, '/'))
		return false;
	nic_path(sys, nic, "device", path, sizeof(path));
	return (realpath(path, device) && uccl_sysfs_pci(device, &pci)) || pci_lower(sys, nic, depth - 1, device);
}

bool uccl_sysfs_device(const char *sys, const char *nic, char device[PATH_MAX])
{
	char path[PATH_MAX];

	if (pci_device(sys, nic, LOWER_DEPTH, device))
		return true;
	nic_path(sys, nic, "device", path, sizeof(path));
	return realpath(path, device);
}

int uccl_sysfs_node(const char *device)
{
	char path[PATH_MAX + 16];
	int node = -1;

	for (size_t len = strlen(device); len && node < 0; len--) {
		FILE *f;

		if (device[len] != '/' && device[len] != '\0')
			continue;
		snprintf(path, sizeof(path), "%.*s/numa_node", (int)len, device);
		f = fopen(path, "re");
		if (f && fscanf(f, "%d", &node) != 1)
			node = -1;
		if (f)
			fclose(f);
	}
	return node;
}

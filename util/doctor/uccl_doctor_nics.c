/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_nics.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "api/offer/hwloc.h"
#include "api/offer/sysfs.h"
#include "uccl_doctor_report.h"

/* Of PCI: by class and vendor. A VGA controller of others is a server's console. */
static bool computes(unsigned int class, unsigned int vendor)
{
	switch (class >> 8) {
	case 0x0300: return vendor == 0x10de || vendor == 0x1002;
	case 0x0302:
	case 0x0380:
	case 0x1200: return true;
	}
	return false;
}

static unsigned int hex_read(const char *folder, const char *file)
{
	char path[PATH_MAX + 16], line[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	f = fopen(path, "re");
	if (f && !fgets(line, sizeof(line), f))
		*line = '\0';
	if (f)
		fclose(f);
	return (unsigned int)strtoul(line, NULL, 16);
}

/* By PCI address. */
static int gpu_cmp(const void *a, const void *b)
{
	return strcmp(((const struct doctor_gpu *)a)->device, ((const struct doctor_gpu *)b)->device);
}

int doctor_gpus(const char *sys, const struct uccl_hwloc *hwloc, struct doctor_gpu **list)
{
	char folder[PATH_MAX], path[PATH_MAX], device[PATH_MAX];
	struct dirent *e;
	DIR *d;
	int n = 0;

	*list = NULL;
	snprintf(folder, sizeof(folder), "%s/bus/pci/devices", sys);
	d = opendir(folder);
	while (d && (e = readdir(d))) {
		struct doctor_gpu *more;

		if (*e->d_name == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) >= (int)sizeof(path) ||
		    !realpath(path, device) || !computes(hex_read(device, "class"), hex_read(device, "vendor")))
			continue;
		more = realloc(*list, (size_t)(n + 1) * sizeof(**list));
		if (!more)
			break;
		*list = more;
		memcpy(more[n].device, device, sizeof(device));
		more[n++].nodes = uccl_near_nodes(hwloc, device);
	}
	if (d)
		closedir(d);
	if (n)
		qsort(*list, (size_t)n, sizeof(**list), gpu_cmp);
	return n;
}

static size_t part_len(const char *s)
{
	return strcspn(s, "/");
}

/* How many PCI devices a path has from here on. */
static int pci_parts(const char *s)
{
	struct uccl_pci pci;
	char part[NAME_MAX + 1];
	int n = 0;

	for (; *s; s += part_len(s)) {
		s += *s == '/';
		snprintf(part, sizeof(part), "%.*s", (int)part_len(s), s);
		n += uccl_sysfs_pci(part, &pci);
	}
	return n;
}

enum doctor_way doctor_way(const char *device, uint64_t nodes, const struct doctor_gpu *gpu)
{
	const char *a = device, *b = gpu->device;
	int bridges = 0;
	bool root = false;

	/* Folders of bridges that both are below; that of the PCI root is the first of them. */
	while (*a && part_len(a) == part_len(b) && !strncmp(a, b, part_len(a))) {
		char part[NAME_MAX + 1];
		struct uccl_pci pci;

		snprintf(part, sizeof(part), "%.*s", (int)part_len(a), a);
		root |= !strncmp(part, "pci", 3);
		bridges += uccl_sysfs_pci(part, &pci);
		a += part_len(a);
		b += part_len(b);
		a += *a == '/';
		b += *b == '/';
	}
	/* Below one switch are its port and the device. */
	if (bridges)
		return pci_parts(a) <= 2 && pci_parts(b) <= 2 ? DOCTOR_PIX : DOCTOR_PXB;
	if (root)
		return DOCTOR_PHB;
	return nodes & gpu->nodes ? DOCTOR_NODE : DOCTOR_SYS;
}

const char *doctor_way_text(enum doctor_way way)
{
	static const char *const text[] = { "PIX", "PXB", "PHB", "NODE", "SYS" };

	return text[way];
}

const struct doctor_gpu *doctor_gpu_nearest(const struct doctor_nic *nic, const struct doctor_gpu *list, int n)
{
	const struct doctor_gpu *best = NULL;

	for (int i = 0; i < n && *nic->device; i++)
		if (!best || doctor_way(nic->device, nic->nodes, &list[i]) < doctor_way(nic->device, nic->nodes, best))
			best = &list[i];
	return best;
}

#define CELL 96
enum { ORDER, NAME, BACKEND, KIND, SPEED, MTU, PCI, NUMA, DISTANCE, GPU, COLUMNS };

typedef char row[COLUMNS][CELL];

static void pci_text(const char *device, char *buf, size_t size)
{
	struct uccl_pci p;

	if (uccl_sysfs_pci(device, &p))
		snprintf(buf, size, "%04x:%02x:%02x.%x", p.domain, p.bus, p.device, p.function);
	else
		snprintf(buf, size, "-");
}

static void row_fill(row r, const struct doctor_nic *nic, const struct doctor_gpu *gpu, int ngpu)
{
	const struct doctor_gpu *g = doctor_gpu_nearest(nic, gpu, ngpu);
	size_t at;

	snprintf(r[ORDER], CELL, nic->place ? "%d" : "-", nic->place);
	snprintf(r[NAME], CELL, "%s", nic->ifa.name);
	snprintf(r[BACKEND], CELL, "%s", nic->rdma ? "verbs" : "udp");
	snprintf(r[KIND], CELL, "%s", uccl_ifclass_text(nic->ifa.class));
	snprintf(r[SPEED], CELL, nic->ifa.link_bps ? "%gG" : "-", (double)nic->ifa.link_bps / 1e9);
	snprintf(r[MTU], CELL, "%u", (unsigned int)nic->ifa.mtu);
	pci_text(nic->device, r[PCI], CELL);
	if (nic->nodes)
		uccl_near_text(nic->nodes, r[NUMA], CELL);
	else
		snprintf(r[NUMA], CELL, "-");
	snprintf(r[DISTANCE], CELL, "%u", nic->distance);
	pci_text(g ? g->device : "", r[GPU], CELL);
	at = strlen(r[GPU]);
	if (g)
		snprintf(r[GPU] + at, CELL - at, " %s", doctor_way_text(doctor_way(nic->device, nic->nodes, g)));
}

void doctor_nics_text(const struct doctor_nic *nic, int n, const struct doctor_gpu *gpu, int ngpu,
		      const struct uccl_near *near, const char *source, FILE *f)
{
	static const row head = { "ORDER", "NIC", "BACKEND",  "KIND", "SPEED",
				  "MTU",   "PCI", "NUMA", "DISTANCE", "GPU" };
	row *rows = calloc((size_t)n + 1, sizeof(*rows));
	size_t width[COLUMNS] = { 0 };
	char here[CELL];

	if (!rows)
		return;
	memcpy(rows[0], head, sizeof(head));
	for (int i = 0; i < n; i++)
		row_fill(rows[i + 1], &nic[i], gpu, ngpu);
	for (int i = 0; i <= n; i++)
		for (int k = 0; k < COLUMNS; k++)
			if (strlen(rows[i][k]) > width[k])
				width[k] = strlen(rows[i][k]);
	for (int i = 0; i <= n; i++)
		for (int k = 0; k < COLUMNS; k++)
			fprintf(f, "%-*s%s", k + 1 < COLUMNS ? (int)width[k] : 0, rows[i][k],
				k + 1 < COLUMNS ? "  " : "\n");
	uccl_near_text(near->here, here, sizeof(here));
	fprintf(f, "\nThis process may run on NUMA nodes %s%s. Where the NICs are says %s.\n", here,
		uccl_near_bound(near) ? "" : " (all)", source);
	free(rows);
}

static void nodes_json(uint64_t nodes, FILE *f)
{
	const char *comma = "";

	fputc('[', f);
	for (int i = 0; i < UCCL_NEAR_NODES; i++) {
		if (!(nodes & 1ull << i))
			continue;
		fprintf(f, "%s%d", comma, i);
		comma = ",";
	}
	fputc(']', f);
}

static void nic_json(const struct doctor_nic *nic, const struct doctor_gpu *gpu, FILE *f)
{
	char text[CELL];

	fprintf(f, "{\"order\":%d,\"nic\":", nic->place);
	doctor_print_quoted(nic->ifa.name, f);
	fprintf(f, ",\"backend\":\"%s\",\"kind\":\"%s\",\"link_bps\":%llu,\"mtu\":%u",
		nic->rdma ? "verbs" : "udp", uccl_ifclass_text(nic->ifa.class), (unsigned long long)nic->ifa.link_bps,
		(unsigned int)nic->ifa.mtu);
	pci_text(nic->device, text, sizeof(text));
	fprintf(f, ",\"pci\":\"%s\",\"numa\":", *text == '-' ? "" : text);
	nodes_json(nic->nodes, f);
	pci_text(gpu ? gpu->device : "", text, sizeof(text));
	fprintf(f, ",\"distance\":%u,\"gpu\":\"%s\",\"gpu_way\":\"%s\"}", nic->distance, *text == '-' ? "" : text,
		gpu ? doctor_way_text(doctor_way(nic->device, nic->nodes, gpu)) : "");
}

void doctor_nics_json(const struct doctor_nic *nic, int n, const struct doctor_gpu *gpu, int ngpu,
		      const struct uccl_near *near, const char *source, FILE *f)
{
	fprintf(f, "{\"program\":\"uccl_doctor\",\"version\":1,\"source\":\"%s\",\"here\":", source);
	nodes_json(near->here, f);
	fprintf(f, ",\"nics\":[");
	for (int i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", f);
		nic_json(&nic[i], doctor_gpu_nearest(&nic[i], gpu, ngpu), f);
	}
	fprintf(f, "\n]}\n");
}

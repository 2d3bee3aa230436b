/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See hwloc.h. Names, numbers and the layout of objects are those of hwloc 2, whose header is not needed. */
#include "api/offer/hwloc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <rdma/fi_errno.h>

#include "api/lib/lib.h"
#include "base/units.h"

#define API_MAJOR(version) ((version) >> 16)
#define INCLUDE_DISALLOWED 1ul /* processors that this process may not use are part of the machine, too */
#define TYPE_PCI_DEVICE 15
#define DEPTH_PCI_DEVICE -5
#define KEEP_ALL 0

/* The beginning of an object of any type; its members are not to be moved before hwloc 3. */
struct object {
	int type;
	char *subtype;
	unsigned int os_index;
	char *name;
	uint64_t total_memory;
	const struct {
		unsigned short domain;
		unsigned char bus, device, function;
	} *pci;
	int depth;
	unsigned int logical_index;
	struct object *next_cousin, *prev_cousin, *parent;
	unsigned int sibling_rank;
	struct object *next_sibling, *prev_sibling;
	unsigned int arity;
	struct object **children, *first_child, *last_child;
	int symmetric_subtree;
	unsigned int memory_arity;
	struct object *memory_first_child;
	unsigned int io_arity;
	struct object *io_first_child;
	unsigned int misc_arity;
	struct object *misc_first_child;
	void *cpuset, *complete_cpuset;
	void *nodeset; /* NULL: of devices */
};

struct uccl_hwloc {
	unsigned int (*version)(void);
	int (*init)(void **topology);
	int (*set_flags)(void *topology, unsigned long flags);
	int (*set_filter)(void *topology, int type, int filter);
	int (*load)(void *topology);
	void (*destroy)(void *topology);
	unsigned int (*count)(void *topology, int depth);
	struct object *(*at)(void *topology, int depth, unsigned int i);
	int (*next)(const void *bitmap, int prev);
	void *topology;
};

#define FUNCTION(name, field)                                                                                          \
	{                                                                                                              \
		"hwloc_" name, offsetof(struct uccl_hwloc, field)                                                      \
	}

static const struct {
	const char *name;
	size_t at;
} functions[] = {
	FUNCTION("get_api_version", version),
	FUNCTION("topology_init", init),
	FUNCTION("topology_set_flags", set_flags),
	FUNCTION("topology_set_type_filter", set_filter),
	FUNCTION("topology_load", load),
	FUNCTION("topology_destroy", destroy),
	FUNCTION("get_nbobjs_by_depth", count),
	FUNCTION("get_obj_by_depth", at),
	FUNCTION("bitmap_next", next),
};

static int library_load(struct uccl_hwloc *h, const char *file, const char **missing)
{
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	*missing = file;
	if (!lib)
		return -FI_ENOSYS;
	for (size_t i = 0; i < uccl_array_len(functions); i++) {
		void *at = dlsym(lib, functions[i].name);

		*missing = functions[i].name;
		memcpy((char *)h + functions[i].at, &at, sizeof(at));
		if (!at)
			goto fail;
	}
	*missing = "version 2 of hwloc";
	if (API_MAJOR(h->version()) == 2)
		return 0;
fail:
	dlclose(lib);
	return -FI_ENOSYS;
}

/* No devices but those of PCI: hwloc would start the drivers of GPUs to know theirs. */
static int topology_load(struct uccl_hwloc *h, const char **missing)
{
	*missing = "hwloc_topology_load";
	if (h->init(&h->topology))
		return -FI_EIO;
	if (!h->set_flags(h->topology, INCLUDE_DISALLOWED) && !h->set_filter(h->topology, TYPE_PCI_DEVICE, KEEP_ALL) &&
	    !h->load(h->topology))
		return 0;
	h->destroy(h->topology);
	return -FI_EIO;
}

int uccl_hwloc_open(const char *file, struct uccl_hwloc **hwloc, const char **missing)
{
	struct uccl_hwloc *h = calloc(1, sizeof(*h));
	int rc;

	*missing = "memory";
	if (!h)
		return -FI_ENOMEM;
	rc = library_load(h, file, missing);
	if (!rc)
		rc = topology_load(h, missing);
	if (rc) {
		free(h);
		return rc;
	}
	*missing = NULL;
	*hwloc = h;
	return 0;
}

void uccl_hwloc_close(struct uccl_hwloc *hwloc)
{
	hwloc->destroy(hwloc->topology);
	free(hwloc);
}

uint64_t uccl_hwloc_nodes(const struct uccl_hwloc *hwloc, const struct uccl_pci *pci)
{
	unsigned int n = hwloc->count(hwloc->topology, DEPTH_PCI_DEVICE);
	const struct object *o;
	uint64_t nodes = 0;

	for (unsigned int i = 0; i < n; i++) {
		o = hwloc->at(hwloc->topology, DEPTH_PCI_DEVICE, i);
		if (!o || !o->pci || o->pci->domain != pci->domain || o->pci->bus != pci->bus ||
		    o->pci->device != pci->device || o->pci->function != pci->function)
			continue;
		while (o && !o->nodeset)
			o = o->parent;
		for (int k = -1; o && (k = hwloc->next(o->nodeset, k)) >= 0 && k < 64;)
			nodes |= 1ull << k;
		return nodes;
	}
	return 0;
}

static struct uccl_hwloc *of_process;

static void process_open(void)
{
	const char *missing;

	/* The environment names the folder of plug-ins, so a program with more rights than its caller loads none. */
	if (getauxval(AT_SECURE)) {
		uccl_info(FI_LOG_CORE, "hwloc is not used: this program has other rights than its caller\n");
		return;
	}
	if (uccl_hwloc_open(UCCL_HWLOC_FILE, &of_process, &missing))
		uccl_info(FI_LOG_CORE, "hwloc cannot be used, NICs are located by sysfs: %s is missing\n", missing);
}

const struct uccl_hwloc *uccl_hwloc_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, process_open);
	return of_process;
}

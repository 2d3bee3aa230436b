/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A machine for hwloc: two packages, each a NUMA node, with 0000:01:00.0 at node 0 and 0000:81:00.0 at node 1. */
#ifndef UCCL_TEST_API_MACHINE_H
#define UCCL_TEST_API_MACHINE_H

#include "tree.h"

#define SETS(cpus, nodes)                                                                                              \
	" cpuset=\"" cpus "\" complete_cpuset=\"" cpus "\" nodeset=\"" nodes "\" complete_nodeset=\"" nodes "\""
#define SOCKET(n, cpus, nodes, bus)                                                                                   \
	"<object type=\"Package\" os_index=\"" n "\"" SETS(cpus, nodes) " gp_index=\"1" n "\">"                       \
	"<object type=\"NUMANode\" os_index=\"" n "\"" SETS(cpus, nodes) " gp_index=\"2" n "\"/>"                     \
	"<object type=\"PU\" os_index=\"" n "\"" SETS(cpus, nodes) " gp_index=\"3" n "\"/>"                           \
	"<object type=\"Bridge\" gp_index=\"4" n "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" bus "-" bus \
	"]\"><object type=\"PCIDev\" gp_index=\"5" n "\" pci_busid=\"0000:" bus                                       \
	":00.0\" pci_type=\"0200 [15b3:1021] [15b3:0001] 00\" pci_link_speed=\"0.000000\"/></object></object>"

/* Writes it into the tree as hwloc 2 reads it (HWLOC_XMLFILE). */
static inline void machine_xml(const char *name)
{
	tree_file(name, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
			"<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\"" SETS("0x3", "0x3")
			" allowed_cpuset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">"
			SOCKET("0", "0x1", "0x1", "01") SOCKET("1", "0x2", "0x2", "81") "</object></topology>\n");
}

#endif

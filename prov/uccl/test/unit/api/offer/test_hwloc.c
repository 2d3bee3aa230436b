/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* With the library itself; where it is not installed, what needs it is skipped. */
#include "../machine.h"

#include <dlfcn.h>

#include <rdma/fi_errno.h>

#include "api/offer/hwloc.h"
#include "../../tests.h"

static bool installed(void)
{
	void *lib = dlopen(UCCL_HWLOC_FILE, RTLD_NOW | RTLD_LOCAL);

	if (lib)
		dlclose(lib);
	return lib;
}

TEST_IN(open__missing, tree_make, tree_remove)
{
	struct uccl_hwloc *h = NULL;
	const char *missing;

	assert_int_equal(uccl_hwloc_open("libhwloc-of-nobody.so", &h, &missing), -FI_ENOSYS);
	assert_string_equal(missing, "libhwloc-of-nobody.so");
	/* a library, but not that one */
	assert_int_equal(uccl_hwloc_open("libc.so.6", &h, &missing), -FI_ENOSYS);
	assert_string_equal(missing, "hwloc_get_api_version");
	assert_null(h);
}

/* The layout of hwloc's objects is what we think it is. */
TEST_IN(nodes__of_a_machine, tree_make, tree_remove)
{
	const struct uccl_pci first = {0, 0x01, 0, 0}, second = {0, 0x81, 0, 0};
	const struct uccl_pci none[] = {{1, 0x81, 0, 0}, {0, 0x80, 0, 0}, {0, 0x81, 1, 0}, {0, 0x81, 0, 1}};
	struct uccl_hwloc *h;
	const char *missing;

	if (!installed())
		skip();
	machine_xml("machine.xml");
	setenv("HWLOC_XMLFILE", tree_path("machine.xml"), 1);
	assert_int_equal(uccl_hwloc_open(UCCL_HWLOC_FILE, &h, &missing), 0);
	assert_null(missing);
	assert_int_equal(uccl_hwloc_nodes(h, &first), 1);
	assert_int_equal(uccl_hwloc_nodes(h, &second), 2);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(uccl_hwloc_nodes(h, &none[i]), 0);
	uccl_hwloc_close(h);
	unsetenv("HWLOC_XMLFILE");
}


TEST_IN(find__this_machine, tree_make, tree_remove)
{
	const struct uccl_hwloc *h = uccl_hwloc_find();

	assert_int_equal(h != NULL, installed());
	assert_ptr_equal(uccl_hwloc_find(), h);
}

TESTS_MAIN

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/verbs/verbs_lib.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <dlfcn.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static char said[200];

static void hear(int level, const char *func, int line, const char *text)
{
	(void)level, (void)func, (void)line;
	snprintf(said, sizeof(said), "%s", text);
}

/* It returns why; what is in errno is of another call. */
static int busy(struct ibv_mr *mr)
{
	errno = ENOENT;
	return mr ? EBUSY : 0;
}

TEST(verbs_dereg__says_why)
{
	const struct uccl_verbs v = {.dereg_mr = busy};
	char want[200];
	struct ibv_mr mr;

	uccl_log_set(hear, UCCL_LOG_WARN);
	uccl_verbs_dereg(&v, NULL, "rxe0");
	assert_string_equal(said, "");
	uccl_verbs_dereg(&v, &mr, "rxe0");
	uccl_log_set(NULL, 0);
	snprintf(want, sizeof(want), "rxe0: cannot deregister memory: %s", strerror(EBUSY));
	assert_string_equal(said, want);
}

TEST(verbs_load__no_library)
{
	const char *missing = NULL;
	struct uccl_verbs v;

	assert_int_equal(uccl_verbs_load(&v, "libno-such-verbs.so.9", &missing), -FI_ENOSYS);
	assert_string_equal(missing, "libno-such-verbs.so.9");
}

/* A library that is there and is not libibverbs, or an old one. */
TEST(verbs_load__lacks_a_function)
{
	const char *missing = NULL;
	struct uccl_verbs v;

	assert_int_equal(uccl_verbs_load(&v, "libm.so.6", &missing), -FI_ENOSYS);
	assert_string_equal(missing, "ibv_get_device_list");
}

TEST(verbs_load__whole)
{
	void *lib = dlopen(UCCL_VERBS_FILE, RTLD_NOW | RTLD_LOCAL);
	const char *missing = "?";
	void *const *field;
	struct uccl_verbs v;
	size_t i;

	if (!lib)
		skip(); /* headers alone */
	memset(&v, 0, sizeof(v));
	assert_int_equal(uccl_verbs_load(&v, UCCL_VERBS_FILE, &missing), 0);
	assert_null(missing);
	_Static_assert(sizeof(v) % sizeof(*field) == 0, "functions only");
	for (i = 0, field = (void *const *)&v; i < sizeof(v) / sizeof(*field); i++)
		assert_non_null(field[i]);
	/* What the library exports is what the table has, in its place. */
	assert_ptr_equal((void *)v.create_ah, dlsym(lib, "ibv_create_ah"));
	assert_ptr_equal((void *)v.get_cq_event, dlsym(lib, "ibv_get_cq_event"));
	dlclose(lib);
}

TEST(verbs_lib__once)
{
	const struct uccl_verbs *v = uccl_verbs_lib();
	struct ibv_device **list;

	assert_ptr_equal(v, uccl_verbs_lib());
	if (!v)
		skip();
	/* With or without devices, or even support of the kernel: no crash. */
	list = v->get_device_list(NULL);
	if (list)
		v->free_device_list(list);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

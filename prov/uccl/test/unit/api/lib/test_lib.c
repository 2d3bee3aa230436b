/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/info.h"
#include "api/offer/param.h"
#include "../../tests.h"

#include <dlfcn.h>
#include <stdio.h>

TEST(init__finds_library)
{
	assert_ptr_equal(fi_prov_ini(), &uccl_prov);
	assert_int_equal(uccl_lib.version, fi_version());
	assert_int_equal(uccl_prov.fi_version, fi_version());
	assert_ptr_equal((void *)uccl_lib.freeinfo, (void *)fi_freeinfo);
	assert_string_equal(uccl_lib.strerror(FI_ENODATA), fi_strerror(FI_ENODATA));
}

/* The stand-ins, which serve when the library hides its functions, in a copy of the table made before any init. */
static struct uccl_lib standin;

TEST(standin__dupinfo)
{
	struct fi_info *info = standin.dupinfo(NULL), *dup;
	struct fi_info *found;

	assert_non_null(info);
	assert_non_null(info->tx_attr);
	assert_non_null(info->fabric_attr);
	standin.freeinfo(info);
	fi_prov_ini();
	assert_int_equal(uccl_getinfo(API, "127.0.0.1", "7000", 0, NULL, &found), 0);
	dup = standin.dupinfo(found);
	assert_non_null(dup);
	assert_null(dup->next);
	assert_string_equal(dup->domain_attr->name, found->domain_attr->name);
	assert_ptr_not_equal(dup->domain_attr->name, found->domain_attr->name);
	assert_int_equal(dup->src_addrlen, found->src_addrlen);
	assert_memory_equal(dup->src_addr, found->src_addr, found->src_addrlen);
	assert_memory_equal(dup->dest_addr, found->dest_addr, found->dest_addrlen);
	assert_non_null(dup->nic);
	assert_ptr_not_equal(dup->nic, found->nic);
	assert_string_equal(dup->nic->device_attr->name, found->nic->device_attr->name);
	standin.freeinfo(dup);
	uccl_lib.freeinfo(found);
}

TEST(standin__strerror)
{
	assert_string_equal(standin.strerror(FI_ETRUNC), "Truncation error");
	assert_string_equal(standin.strerror(FI_EINVAL), strerror(FI_EINVAL));
	assert_string_equal(standin.strerror(9999), "Unknown error");
}

TEST(standin__log_enabled)
{
	unsetenv("FI_LOG_LEVEL");
	assert_false(standin.log_enabled(&uccl_prov, FI_LOG_WARN, FI_LOG_CORE));
	setenv("FI_LOG_LEVEL", "warn", 1);
	assert_true(standin.log_enabled(&uccl_prov, FI_LOG_WARN, FI_LOG_CORE));
	assert_false(standin.log_enabled(&uccl_prov, FI_LOG_INFO, FI_LOG_CORE));
	setenv("FI_LOG_LEVEL", "debug", 1);
	assert_true(standin.log_enabled(&uccl_prov, FI_LOG_DEBUG, FI_LOG_CORE));
	unsetenv("FI_LOG_LEVEL");
}

TEST(standin__param_get)
{
	char *value = NULL;

	unsetenv("FI_UCCL_PATHS");
	assert_int_equal(standin.param_get(&uccl_prov, "paths", &value), -FI_ENODATA);
	setenv("FI_UCCL_PATHS", "7", 1);
	assert_int_equal(standin.param_get(&uccl_prov, "paths", &value), 0);
	assert_string_equal(value, "7");
	unsetenv("FI_UCCL_PATHS");
	setenv("FI_PROVIDER_PATH", "/", 1);
	assert_int_equal(standin.param_get(NULL, "provider_path", &value), -FI_ENODATA);
	unsetenv("FI_PROVIDER_PATH");
}

/* A program that takes only providers of certain names gets one; the variables keep theirs. */
TEST(init__alias)
{
	struct fi_provider *prov = fi_prov_ini();
	struct uccl_params p;
	char why[256];

	assert_string_equal(prov->name, "uccl");
	setenv("FI_UCCL_ALIAS", "tcp", 1);
	setenv("FI_UCCL_PATHS", "5", 1);
	assert_string_equal(fi_prov_ini()->name, "tcp");
	assert_true(FI_VERSION_GE(prov->version, FI_VERSION(10000, 0)));
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	assert_int_equal(p.paths, 5);
	unsetenv("FI_UCCL_PATHS");
	setenv("FI_UCCL_ALIAS", "tcp;ofi_rxm", 1);
	assert_string_equal(fi_prov_ini()->name, "ofi_rxm");
	setenv("FI_UCCL_ALIAS", "No Name", 1);
	assert_string_equal(fi_prov_ini()->name, "uccl");
	setenv("FI_UCCL_ALIAS", "a-name-that-is-longer-than-any-provider-has", 1);
	assert_string_equal(fi_prov_ini()->name, "uccl");
	unsetenv("FI_UCCL_ALIAS");
	assert_string_equal(fi_prov_ini()->name, "uccl");
	assert_int_equal(prov->version, UCCL_PROV_VERSION);
}

/* What fi_info shows is what the packages and the manual say. */
TEST(ini__version)
{
	struct fi_provider *prov = fi_prov_ini();
	char text[32];

	snprintf(text, sizeof(text), "%u.%u", FI_MAJOR(prov->version), FI_MINOR(prov->version));
	assert_string_equal(text, PACKAGE_VERSION);
}

/* What nobody else in the program sees is found, too, and only as long as it is there. */
TEST(loaded__local)
{
	static const char file[] = "libthread_db.so.1"; /* of the C library, and nothing here needs it */
	void *lib;

	assert_true(uccl_lib_loaded("libc.so", "printf"));
	assert_false(uccl_lib_loaded("libc.so", "td_init"));
	assert_false(uccl_lib_loaded("libthread_db", "td_init"));
	lib = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		skip();
	assert_true(uccl_lib_loaded("libthread_db", "td_init"));
	assert_true(uccl_lib_loaded("lib", "td_init"));
	assert_false(uccl_lib_loaded("libthread_db", "MPIR_Dup_fn"));
	dlclose(lib);
	assert_false(uccl_lib_loaded("libthread_db", "td_init"));
}

int main(void)
{
	standin = uccl_lib;
	return tests_run(NULL, NULL);
}

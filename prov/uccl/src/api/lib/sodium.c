/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/lib/sodium.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/lib/lib.h"
#include "base/crypto.h"
#include "base/mac.h"

/* The functions that are called did not change between these. */
static const char *const files[] = { "libsodium.so.26", "libsodium.so.23" };

/* A wheel brings the library beside the module, where the system's loader does not look. */
static void *beside_module(const char *file)
{
	char path[PATH_MAX];
	Dl_info here;
	char *slash;

	if (!dladdr(files, &here) || !here.dli_fname)
		return NULL;
	slash = strrchr(here.dli_fname, '/');
	if (!slash || snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname, file) >=
			      (int)sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *library_open(void)
{
	void *lib = NULL;

	for (size_t i = 0; i < uccl_array_len(files) && !lib; i++)
		lib = beside_module(files[i]);
	for (size_t i = 0; i < uccl_array_len(files) && !lib; i++)
		lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	return lib;
}

static bool find(void *lib, const char *name, void *slot)
{
	void *at = dlsym(lib, name);

	memcpy(slot, &at, sizeof(at));
	return at;
}

static bool all_found(void *lib, struct uccl_crypto *c)
{
#define FIND(name) &&find(lib, "crypto_" #name, &c->name)
	return true UCCL_CRYPTO(FIND);
#undef FIND
}

static void load(void)
{
	static struct uccl_crypto functions;
	void *lib = library_open();
	int (*init)(void);

	if (!lib)
		return;
	if (!find(lib, "sodium_init", &init) || !all_found(lib, &functions)) {
		dlclose(lib);
		return;
	}
	/* It chooses its fastest code. An error means that there are no random numbers, which nobody asks it for. */
	(void)!init();
	uccl_crypto_use(&functions);
}

int uccl_sodium_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (uccl_mac_has_keys())
		return 0;
	uccl_warn(FI_LOG_CORE, "FI_UCCL_SECURITY needs libsodium, but neither %s nor %s can be loaded: install it "
			       "(libsodium23 in Debian), or set FI_UCCL_SECURITY=trusted on all sides\n",
		  files[0], files[1]);
	return -FI_ENOSYS;
}

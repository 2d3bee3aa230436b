/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See uccl_gpu_calls.h. */
#include "uccl_gpu_calls.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLOTS 40
/* No function of the driver that the provider uses has more arguments; all are integers or addresses. */
#define PARAMETERS                                                                                                     \
	uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g, uintptr_t h,        \
		uintptr_t i, uintptr_t j, uintptr_t k
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k

typedef void *finder(void *lib, const char *name);
typedef int function(PARAMETERS);

static struct slot {
	char name[40];
	function *real;
	bool waits;
	_Atomic unsigned long n, ns, longest;
} slot[SLOTS];
static _Atomic unsigned int used;

/*
 * By what the driver's documentation says of them, or by what they are: for what was begun, or for memory, contexts and
 * programs that come and go.
 */
static const char *const waiting[] = {
	"cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpy", "cuMemcpyHtoD_v2",
	"cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost",
	"cuMemHostRegister_v2", "cuMemHostUnregister", "cuStreamCreate", "cuStreamDestroy_v2", "cuModuleLoadData",
	"cuModuleUnload", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuFlushGPUDirectRDMAWrites",
};

static unsigned long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long)t.tv_sec * 1000000000ul + (unsigned long)t.tv_nsec;
}

static int called(struct slot *s, PARAMETERS)
{
	unsigned long t = now_ns(), before;
	int rc = s->real(ARGUMENTS);

	t = now_ns() - t;
	s->n++;
	s->ns += t;
	before = s->longest;
	while (before < t && !atomic_compare_exchange_weak(&s->longest, &before, t))
		;
	return rc;
}

/* What a caller did not give is read from its stack and given on, and nobody looks at it. */
#define ONE(x)                                                                                                         \
	static int call##x(PARAMETERS)                                                                                 \
	{                                                                                                              \
		return called(&slot[x], ARGUMENTS);                                                                    \
	}
#define TEN(x) ONE(x##0) ONE(x##1) ONE(x##2) ONE(x##3) ONE(x##4) ONE(x##5) ONE(x##6) ONE(x##7) ONE(x##8) ONE(x##9)
#define NAMES(x)                                                                                                       \
	call##x##0, call##x##1, call##x##2, call##x##3, call##x##4, call##x##5, call##x##6, call##x##7, call##x##8,    \
		call##x##9

TEN()
TEN(1)
TEN(2)
TEN(3)

static function *const calls[SLOTS] = { NAMES(), NAMES(1), NAMES(2), NAMES(3) };

static finder *real_finder(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *at = NULL;
	finder *f;

	for (int i = 0; i < 3 && !at; i++)
		at = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	memcpy(&f, &at, sizeof(f));
	return f;
}

static void *counting(const char *name, void *at)
{
	unsigned int n = used++;
	void *instead;

	if (n >= SLOTS)
		return at;
	snprintf(slot[n].name, sizeof(slot[n].name), "%s", name);
	memcpy(&slot[n].real, &at, sizeof(at));
	for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
		slot[n].waits |= !strcmp(name, waiting[i]);
	memcpy(&instead, &calls[n], sizeof(instead));
	return instead;
}

/* Does the provider look for a function of the driver? Apart from dlsym(), which has to end by a jump. */
__attribute__((noinline)) static bool is_for_provider(const void *code, const char *name)
{
	Dl_info who;

	return name[0] == 'c' && name[1] == 'u' && isupper((unsigned char)name[2]) && dladdr(code, &who) &&
	       who.dli_fname && strstr(who.dli_fname, "libuccl");
}

__attribute__((visibility("default"), used)) void *dlsym(void *restrict lib, const char *restrict name)
{
	static finder *_Atomic real;
	finder *f = real;

	if (!f)
		real = f = real_finder();
	if (is_for_provider(__builtin_return_address(0), name)) {
		void *at = f(lib, name);

		return at ? counting(name, at) : NULL;
	}
	/* As the last thing that is done it is a jump: RTLD_NEXT goes by who called. */
	return f(lib, name);
}

void gpu_calls_reset(void)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		slot[i].n = slot[i].ns = slot[i].longest = 0;
}

unsigned long gpu_calls_count(unsigned long *waits)
{
	unsigned long n = 0;

	*waits = 0;
	for (unsigned int i = 0; i < SLOTS; i++) {
		n += slot[i].n;
		*waits += slot[i].waits ? slot[i].n : 0;
	}
	return n;
}

void gpu_calls_print(void)
{
	printf("%-32s %10s %10s %10s\n", "", "calls", "mean us", "longest us");
	for (unsigned int i = 0; i < SLOTS; i++)
		if (slot[i].n)
			printf("%-32s %10lu %10.2f %10.2f%s\n", slot[i].name, slot[i].n,
			       (double)slot[i].ns / (double)slot[i].n * 1e-3, (double)slot[i].longest * 1e-3,
			       slot[i].waits ? "  may wait" : "");
}

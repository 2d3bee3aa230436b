/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The functions of libfabric that the provider calls. The module is not linked to libfabric. It looks the functions up
 * in the library that loaded it, so one binary works with every version and every bundled copy of libfabric.
 */
#ifndef UCCL_API_LIB_H
#define UCCL_API_LIB_H

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>

#include "api/lib/notice.h"
#include "base/units.h"

struct uccl_lib {
	uint32_t version; /* version of the library, which determines the size of its structs */
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	const char *(*strerror)(int err);
	int (*log_enabled)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys);
	void (*log)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		    const char *func, int line, const char *fmt, ...) FI_FORMAT_PRINTF(6, 7);
	int (*param_define)(const struct fi_provider *prov, const char *name, enum fi_param_type type,
			    const char *help, ...);
	int (*param_get)(struct fi_provider *prov, const char *name, void *value);
	char *(*tostr)(const void *data, enum fi_type type);
};

/* Has stand-ins before uccl_lib_init(), and afterwards for functions that the library does not export. */
extern struct uccl_lib uccl_lib;
/* Version of the provider, in libfabric's form; the numbers are configure.ac's. */
#define UCCL_PROV_VERSION FI_VERSION(UCCL_PROV_MAJOR, UCCL_PROV_MINOR)

/* The provider as libfabric knows it: name, version, functions. */
extern struct fi_provider uccl_prov;

/* Look the functions up in the object that holds the code address `caller`. */
void uccl_lib_init(const void *caller);

/* True if this process has loaded, in any way, a library whose file name begins with `file` and that has `symbol`. */
bool uccl_lib_loaded(const char *file, const char *symbol);

#endif

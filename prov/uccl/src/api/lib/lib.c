/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finding libfabric. The module is opened by libfabric itself, so the return address of fi_prov_ini lies in it:
 * dladdr names its file, dlopen(RTLD_NOLOAD) gives a handle without a second copy, dlsym the newest version of each
 * function. The stand-ins serve a program that holds libfabric inside with its symbols hidden.
 */
#include "api/lib/lib.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <rdma/fi_ext_uccl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress/thread.h"

/*
 * A stand-in cannot know how large the library's structs are: it allocates this many zeroed bytes more, so that
 * fields added since read as zero.
 */
#define TAIL_ROOM 256

static void *dup_bytes(const void *src, size_t size, size_t room)
{
	void *p = calloc(1, size + room);

	if (p && src)
		memcpy(p, src, size);
	return p;
}

static int dup_string(char **dst, const char *src)
{
	*dst = src ? strdup(src) : NULL;
	return src && !*dst ? -FI_ENOMEM : 0;
}

static void fallback_freeinfo(struct fi_info *info)
{
	while (info) {
		struct fi_info *next = info->next;

		free(info->src_addr);
		free(info->dest_addr);
		free(info->tx_attr);
		free(info->rx_attr);
		if (info->ep_attr)
			free(info->ep_attr->auth_key);
		free(info->ep_attr);
		if (info->domain_attr) {
			free(info->domain_attr->auth_key);
			free(info->domain_attr->name);
		}
		free(info->domain_attr);
		if (info->fabric_attr) {
			free(info->fabric_attr->name);
			free(info->fabric_attr->prov_name);
		}
		free(info->fabric_attr);
		if (info->nic)
			fi_close(&info->nic->fid);
		free(info);
		info = next;
	}
}

/* Everything that is owned is cut off the copy before it is duplicated, so that a failure can free the copy. */
static int dup_owned(struct fi_info *dup, const struct fi_info *info)
{
	if (info->src_addr && !(dup->src_addr = dup_bytes(info->src_addr, info->src_addrlen, 1)))
		return -FI_ENOMEM;
	if (info->dest_addr && !(dup->dest_addr = dup_bytes(info->dest_addr, info->dest_addrlen, 1)))
		return -FI_ENOMEM;
	if (info->ep_attr && info->ep_attr->auth_key &&
	    !(dup->ep_attr->auth_key = dup_bytes(info->ep_attr->auth_key, info->ep_attr->auth_key_size, 1)))
		return -FI_ENOMEM;
	if (info->domain_attr) {
		const struct fi_domain_attr *d = info->domain_attr;

		if (dup_string(&dup->domain_attr->name, d->name))
			return -FI_ENOMEM;
		if (d->auth_key && !(dup->domain_attr->auth_key = dup_bytes(d->auth_key, d->auth_key_size, 1)))
			return -FI_ENOMEM;
	}
	if (info->fabric_attr && (dup_string(&dup->fabric_attr->name, info->fabric_attr->name) ||
				  dup_string(&dup->fabric_attr->prov_name, info->fabric_attr->prov_name)))
		return -FI_ENOMEM;
	if (info->nic)
		return fi_control(&info->nic->fid, FI_DUP, &dup->nic);
	return 0;
}

static struct fi_info *fallback_dupinfo(const struct fi_info *info)
{
	struct fi_info *dup = dup_bytes(info, sizeof(*dup), TAIL_ROOM);

	if (!dup)
		return NULL;
	dup->next = NULL;
	dup->src_addr = dup->dest_addr = NULL;
	dup->nic = NULL;
	dup->tx_attr = dup_bytes(info ? info->tx_attr : NULL, sizeof(*dup->tx_attr), TAIL_ROOM);
	dup->rx_attr = dup_bytes(info ? info->rx_attr : NULL, sizeof(*dup->rx_attr), TAIL_ROOM);
	dup->ep_attr = dup_bytes(info ? info->ep_attr : NULL, sizeof(*dup->ep_attr), TAIL_ROOM);
	dup->domain_attr = dup_bytes(info ? info->domain_attr : NULL, sizeof(*dup->domain_attr), TAIL_ROOM);
	dup->fabric_attr = dup_bytes(info ? info->fabric_attr : NULL, sizeof(*dup->fabric_attr), TAIL_ROOM);
	if (dup->ep_attr)
		dup->ep_attr->auth_key = NULL;
	if (dup->domain_attr) {
		dup->domain_attr->name = NULL;
		dup->domain_attr->auth_key = NULL;
	}
	if (dup->fabric_attr)
		dup->fabric_attr->name = dup->fabric_attr->prov_name = NULL;
	if (!dup->tx_attr || !dup->rx_attr || !dup->ep_attr || !dup->domain_attr || !dup->fabric_attr ||
	    (info && dup_owned(dup, info))) {
		fallback_freeinfo(dup);
		return NULL;
	}
	return dup;
}

static const char *fallback_strerror(int err)
{
	switch (err) {
	case FI_EOTHER:
		return "Unspecified error";
	case FI_ETOOSMALL:
		return "Provided buffer is too small";
	case FI_EOPBADSTATE:
		return "Operation not permitted in current state";
	case FI_EAVAIL:
		return "Error available";
	case FI_EADDRNOTAVAIL:
		return "Address not available";
	case FI_ETRUNC:
		return "Truncation error";
	case FI_ENOCQ:
		return "Missing or unavailable completion queue";
	case FI_ENOAV:
		return "Missing or unavailable address vector";
	case FI_ENOEQ:
		return "Missing or unavailable event queue";
	default:
		return err < FI_ERRNO_OFFSET ? strerror(err) : "Unknown error";
	}
}

static int fallback_log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys)
{
	const char *want = getenv("FI_LOG_LEVEL");

	(void)prov;
	(void)subsys;
	if (!want)
		return 0;
	if (!strcasecmp(want, "warn"))
		return level <= FI_LOG_WARN;
	if (!strcasecmp(want, "trace"))
		return level <= FI_LOG_TRACE;
	if (!strcasecmp(want, "info"))
		return level <= FI_LOG_INFO;
	return !strcasecmp(want, "debug");
}

static void FI_FORMAT_PRINTF(6, 7)
	fallback_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		     const char *func, int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	(void)level;
	(void)subsys;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "libfabric:%s:%s():%d %s", prov->name, func, line, text);
}

static int fallback_param_define(const struct fi_provider *prov, const char *name, enum fi_param_type type,
				 const char *help, ...)
{
	(void)prov;
	(void)name;
	(void)type;
	(void)help;
	return 0;
}

static int fallback_param_get(struct fi_provider *prov, const char *name, void *value)
{
	char var[64];
	int n;

	if (!prov)
		return -FI_ENODATA; /* a variable of the library, which knows what it is worth */
	n = snprintf(var, sizeof(var), "FI_%s_%s", prov->name, name);
	if (n < 0 || (size_t)n >= sizeof(var))
		return -FI_EINVAL;
	for (char *p = var; *p; p++)
		*p = *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p;
	*(char **)value = getenv(var);
	return *(char **)value ? 0 : -FI_ENODATA;
}

static char *fallback_tostr(const void *data, enum fi_type type)
{
	static char none[] = "?";

	(void)data;
	(void)type;
	return none;
}

struct uccl_lib uccl_lib = {
	.version = FI_VERSION(1, 17),
	.dupinfo = fallback_dupinfo,
	.freeinfo = fallback_freeinfo,
	.strerror = fallback_strerror,
	.log_enabled = fallback_log_enabled,
	.log = fallback_log,
	.param_define = fallback_param_define,
	.param_get = fallback_param_get,
	.tostr = fallback_tostr,
};

struct fi_provider uccl_prov = {
	.version = UCCL_PROV_VERSION,
	.fi_version = FI_VERSION(1, 17),
	.name = FI_UCCL_PROV_NAME,
};

/* A function pointer cannot be cast from void * in ISO C; the representation is the same on every POSIX system. */
static void find(void *lib, const char *name, void *slot)
{
	void *sym = dlsym(lib, name);

	if (sym)
		memcpy(slot, &sym, sizeof(sym));
}

void uccl_lib_init(const void *caller)
{
	struct uccl_lib found = uccl_lib;
	uint32_t (*version)(void) = NULL;
	Dl_info where;
	void *lib = NULL;

	uccl_forks_watch();
	if (dladdr(caller, &where) && where.dli_fname)
		lib = dlopen(where.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
	if (!lib)
		lib = dlopen(NULL, RTLD_LAZY); /* the caller is the program itself */
	if (!lib)
		return;
	find(lib, "fi_version", &version);
	if (version) {
		found.version = version();
		/* The two belong together: what one makes the other frees. */
		find(lib, "fi_dupinfo", &found.dupinfo);
		find(lib, "fi_freeinfo", &found.freeinfo);
		find(lib, "fi_strerror", &found.strerror);
		find(lib, "fi_log_enabled", &found.log_enabled);
		find(lib, "fi_log", &found.log);
		find(lib, "fi_param_define", &found.param_define);
		find(lib, "fi_param_get", &found.param_get);
		find(lib, "fi_tostr", &found.tostr);
		uccl_lib = found;
	}
	dlclose(lib); /* it stays: it is the one that called */
}

/* The library number `skip` whose file name begins so. */
struct search {
	const char *begin;
	int skip;
	char path[PATH_MAX];
};

static int search_look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	if (strncmp(file, s->begin, strlen(s->begin)) || s->skip--)
		return 0;
	snprintf(s->path, sizeof(s->path), "%s", info->dlpi_name);
	return 1;
}

bool uccl_lib_loaded(const char *file, const char *symbol)
{
	/* Of what was loaded for one part of a program only (RTLD_LOCAL, as Python does) dlsym alone knows nothing. */
	for (int i = 0;; i++) {
		struct search s = { .begin = file, .skip = i };
		void *lib, *at = NULL;

		if (!dl_iterate_phdr(search_look, &s))
			return false;
		lib = dlopen(s.path, RTLD_NOLOAD | RTLD_LAZY);
		if (!lib)
			continue;
		find(lib, symbol, &at);
		dlclose(lib);
		if (at)
			return true;
	}
}

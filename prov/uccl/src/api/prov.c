/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The entry point of the module. */
#include "api/prov.h"

#include <rdma/fi_ext_uccl.h>

#include "api/fabric.h"
#include "api/info.h"
#include "api/lib/lib.h"
#include "api/offer/param.h"
#include "api/offer/param_names.h"
#include "api/offer/persona.h"
#include "api/offer/refusal.h"
#include "base/log.h"

/* Later than any other's. */
#define ALIAS_VERSION FI_VERSION(32767, 0)

/* Every thread ends with its endpoint, so nothing is left when the library unloads the module. */
static void prov_cleanup(void)
{
	uccl_refusal_report();
	uccl_persona_end();
	uccl_log_set(NULL, 0);
}

static void log_sink(int level, const char *func, int line, const char *text)
{
	if (uccl_notice_heard(level, FI_LOG_EP_DATA))
		uccl_notice(level, FI_LOG_EP_DATA, func, line, "%s", text);
}

struct fi_provider *fi_prov_ini(void)
{
	char alias[UCCL_PARAM_NAME];
	int level = FI_LOG_DEBUG;

	uccl_lib_init(__builtin_return_address(0));
	uccl_prov.getinfo = uccl_getinfo;
	uccl_prov.fabric = uccl_fabric_open;
	uccl_prov.cleanup = prov_cleanup;
	/*
	 * The library hides a provider from every program that asks for a newer interface than fi_version says, and a
	 * program may ask for anything up to the library's own.
	 */
	uccl_prov.fi_version = uccl_lib.version;
	uccl_notice_begin();
	while (level >= 0 && !uccl_notice_heard(level, FI_LOG_EP_DATA))
		level--;
	uccl_log_set(log_sink, level);
	uccl_params_check_names();
	uccl_params_define();
	uccl_params_alias(alias, sizeof(alias));
	uccl_persona_begin(alias);
	/* Of two providers of one name the library takes the one of the later version. */
	uccl_prov.name = uccl_persona_name();
	uccl_prov.version = uccl_persona_borrowed() ? ALIAS_VERSION : UCCL_PROV_VERSION;
	return &uccl_prov;
}

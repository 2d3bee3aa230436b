/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/offer/persona.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/lib/lib.h"
#include "api/offer/param_row.h"

/* Constants of libfabric versions after the headers that we build with. */
#define PROTO_CXI_RNR (FI_PROTO_XNET + 4)

/* Options of efa: negative numbers are provider specific, and no other provider has these. */
#define OPT_EFA_RNR_RETRY (-(0xefa << 16))
#define OPT_EFA_EMULATED_READ (OPT_EFA_RNR_RETRY + 1)
#define OPT_EFA_EMULATED_WRITE (OPT_EFA_RNR_RETRY + 2)
#define OPT_EFA_EMULATED_ATOMICS (OPT_EFA_RNR_RETRY + 3)
#define OPT_EFA_SENDRECV_IN_ORDER (OPT_EFA_RNR_RETRY + 5)
#define OPT_EFA_WRITE_IN_ORDER (OPT_EFA_RNR_RETRY + 6)
#define OPT_EFA_HOMOGENEOUS_PEERS (OPT_EFA_RNR_RETRY + 7)
#define OPT_EFA_UNSOLICITED_WRITE_RECV (OPT_EFA_RNR_RETRY + 8)

#define EFA_RNR_RETRY_INFINITE 7

/* A boolean or size_t that a program may set, and the values whose promise holds. `get`: it may read it. */
struct option {
	int name;
	size_t size;
	size_t least, most;
	bool get;
};

static const struct option efa_options[] = {
	/* To a receiver that has no receive posted a sender repeats without limit, while the receiver lives. */
	{ OPT_EFA_RNR_RETRY, sizeof(size_t), EFA_RNR_RETRY_INFINITE, EFA_RNR_RETRY_INFINITE, false },
	/* Software takes part in each of these operations. */
	{ OPT_EFA_EMULATED_READ, sizeof(bool), true, true, true },
	{ OPT_EFA_EMULATED_WRITE, sizeof(bool), true, true, true },
	{ OPT_EFA_EMULATED_ATOMICS, sizeof(bool), true, true, true },
	/* The bytes of a message come in any order. */
	{ OPT_EFA_SENDRECV_IN_ORDER, sizeof(bool), false, false, false },
	{ OPT_EFA_WRITE_IN_ORDER, sizeof(bool), false, false, false },
	/* A promise of the program, which needs nothing of us. */
	{ OPT_EFA_HOMOGENEOUS_PEERS, sizeof(bool), false, true, false },
	/* A feature of efa's hardware. */
	{ OPT_EFA_UNSOLICITED_WRITE_RECV, sizeof(bool), false, false, false },
	{ 0, 0, 0, 0, false },
};

/*
 * mr_mode has no column: it is answered from the hints, and what programs offer under each of these names is met.
 * No column for "cxi" addresses either: they have 4 bytes, too few for ours.
 */
struct persona {
	const char *alias;
	/* A layered provider: the library asks the provider of the second name, and puts the first one before it. */
	const char *name, *core;
	uint32_t protocols[2];		/* the first one is the default; UNSPEC: no second one */
	uint32_t format;
	const char *suffix;		/* of names of domains */
	const struct option *options;
};

static const struct persona own = {
	"", FI_UCCL_PROV_NAME, NULL, { FI_PROTO_UCCL, FI_PROTO_UNSPEC }, FI_ADDR_UCCL, "", NULL,
};

static const struct persona personas[] = {
	{ "tcp", "tcp", NULL, { FI_PROTO_XNET, FI_PROTO_UNSPEC }, FI_SOCKADDR, "", NULL },
	{ "tcp;ofi_rxm", "ofi_rxm", "tcp", { FI_PROTO_RXM, FI_PROTO_RXM_TCP }, FI_SOCKADDR, "", NULL },
	{ "verbs;ofi_rxm", "ofi_rxm", "verbs", { FI_PROTO_RXM, FI_PROTO_UNSPEC }, FI_SOCKADDR, "", NULL },
	{ "sockets", "sockets", NULL, { FI_PROTO_SOCK_TCP, FI_PROTO_UNSPEC }, FI_SOCKADDR, "", NULL },
	{ "efa", "efa", NULL, { FI_PROTO_EFA, FI_PROTO_UNSPEC }, FI_ADDR_UCCL, "-rdm", efa_options },
	{ "cxi", "cxi", NULL, { FI_PROTO_CXI, PROTO_CXI_RNR }, FI_ADDR_UCCL, "-rdm", NULL },
};

/* A name that no row has: the program knows nothing more of it. */
static struct persona named = {
	.protocols = { FI_PROTO_UCCL, FI_PROTO_UNSPEC }, .format = FI_ADDR_UCCL, .suffix = "",
};
static char named_text[UCCL_PARAM_NAME];
static const struct persona *is = &own;
static _Atomic bool heard;

/* How FI_PROVIDER lists names: with commas; ^ excludes those that follow. */
static bool provider_filter_has(const char *filter, const struct persona *p)
{
	size_t len;

	for (const char *at = filter; *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		if (len == strlen(p->alias) && !strncasecmp(at, p->alias, len))
			return true;
		if (p->core && len == strlen(p->core) && !strncasecmp(at, p->core, len))
			return true;
	}
	return false;
}

/*
 * The library hides what its filter leaves out without a word. Without a filter it lists other providers first, and
 * programs that look for a name often open the first provider that has the interface. So both variables are needed.
 */
static void warn_filter(const struct persona *p)
{
	const char *filter = getenv("FI_PROVIDER");
	bool excludes = filter && *filter == '^';

	if (!filter || !*filter)
		uccl_warn(FI_LOG_CORE,
			  "FI_UCCL_ALIAS=%s: set FI_PROVIDER=%s, too, or the program may open another provider\n",
			  p->alias, p->alias);
	else if (provider_filter_has(filter + excludes, p) == excludes)
		uccl_warn(FI_LOG_CORE, "FI_PROVIDER=%.100s leaves out FI_UCCL_ALIAS=%s: set it to %s\n", filter,
			  p->alias, p->alias);
}

static const struct persona *find(const char *alias)
{
	for (size_t i = 0; i < uccl_array_len(personas); i++)
		if (!strcmp(personas[i].alias, alias))
			return &personas[i];
	if (strchr(alias, ';'))
		return NULL;
	snprintf(named_text, sizeof(named_text), "%s", alias);
	named.alias = named.name = named_text;
	return &named;
}

bool uccl_persona_begin(const char *alias)
{
	const struct persona *p;

	is = &own;
	atomic_store(&heard, false);
	if (!alias || !*alias)
		return true;
	if (!strcmp(alias, "shm")) {
		uccl_warn(FI_LOG_CORE,
			  "FI_UCCL_ALIAS=shm is refused: programs use shm for peers on their own host only\n");
		return false;
	}
	p = find(alias);
	if (!p) {
		uccl_warn(FI_LOG_CORE, "FI_UCCL_ALIAS=%s: only tcp;ofi_rxm and verbs;ofi_rxm can have layers\n",
			  alias);
		return false;
	}
	is = p;
	warn_filter(p);
	return true;
}

const char *uccl_persona_name(void)
{
	return is->name;
}

bool uccl_persona_borrowed(void)
{
	return is != &own;
}

const char *uccl_persona_core(void)
{
	return is->core;
}

/* The library compares a name without layers itself. A layered provider it also asks for names of other cores. */
bool uccl_persona_wanted(const char *prov_name)
{
	size_t len;

	atomic_store(&heard, true);
	if (!is->core || !prov_name)
		return true;
	for (const char *at = prov_name; *at; at += len + (at[len] == ';')) {
		len = strcspn(at, ";");
		if (*at == '^' || (len == strlen(is->core) && !strncasecmp(at, is->core, len)) ||
		    (len == strlen(is->name) && !strncasecmp(at, is->name, len)))
			continue;
		return false;
	}
	return true;
}

void uccl_persona_end(void)
{
	if (uccl_persona_borrowed() && !atomic_load(&heard))
		uccl_warn(FI_LOG_CORE,
			  "FI_UCCL_ALIAS=%s had no effect: FI_PROVIDER leaves it out, the program asked for other "
			  "names only, or libfabric took its own provider of this name (FI_PROVIDER_PATH)\n",
			  is->alias);
}

bool uccl_persona_protocol_ok(uint32_t asked)
{
	return asked == FI_PROTO_UNSPEC || asked == FI_PROTO_UCCL || asked == FI_PROTO_UCCL_1_0 ||
	       asked == is->protocols[0] || asked == is->protocols[1];
}

uint32_t uccl_persona_protocol(uint32_t asked)
{
	return asked == FI_PROTO_UNSPEC ? is->protocols[0] : asked;
}

uint32_t uccl_persona_format(void)
{
	return is->format;
}

void uccl_persona_interface(const char *domain, char out[UCCL_IFADDR_NAME])
{
	size_t len = strlen(domain), end = strlen(is->suffix);

	if (len > end && !strcmp(domain + len - end, is->suffix))
		len -= end;
	snprintf(out, UCCL_IFADDR_NAME, "%.*s", (int)len, domain);
}

/* The library compares the name in the answer with the one in the hints once more. */
void uccl_persona_domain(const char *interface, const char *asked, char out[UCCL_IFADDR_NAME])
{
	snprintf(out, UCCL_IFADDR_NAME, "%s%s", interface, asked && !strcmp(asked, interface) ? "" : is->suffix);
}

static const struct option *option_find(int name)
{
	const struct option *o = is->options;

	while (o && o->name && o->name != name)
		o++;
	return o && o->name ? o : NULL;
}

int uccl_persona_setopt(int name, const void *optval, size_t optlen)
{
	const struct option *o = option_find(name);
	size_t value = 0;

	if (!o || o->get)
		return -FI_ENOPROTOOPT;
	if (optlen != o->size)
		return -FI_EINVAL;
	if (o->size == sizeof(bool))
		value = *(const unsigned char *)optval != 0;
	else
		memcpy(&value, optval, sizeof(value));
	return value >= o->least && value <= o->most ? 0 : -FI_EOPNOTSUPP;
}

int uccl_persona_getopt(int name, bool *value)
{
	const struct option *o = option_find(name);

	if (!o || !o->get)
		return -FI_ENOPROTOOPT;
	*value = o->least;
	return 0;
}

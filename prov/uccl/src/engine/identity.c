/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who an engine is to others: address, incarnation, key; and what makes its secrets. */
#include <string.h>

#include "base/le.h"
#include "engine/impl.h"

/*
 * All tokens of this endpoint begin alike, so that the NIC can tell without a list of them what is for nobody here. The
 * rest of a token is as good a secret. PROTOCOL R158
 */
static void token_top(struct engine_identity *s)
{
	uint8_t mac[UCCL_MAC_LEN];

	uccl_mac(mac, "token", 5, s->listener.secret);
	s->token_top = uccl_get16(mac);
}

static void nic_guard(const struct engine_identity *s, struct uccl_nic *nic)
{
	struct uccl_nic_guard g = { .magic = UCCL_MAGIC, .version = UCCL_VERSION, .former = UCCL_VERSION_FORMER,
				    .hello = UCCL_PKT_HELLO, .cookie = UCCL_PKT_COOKIE, .init = UCCL_PKT_INIT,
				    .token_top = s->token_top, .incarnation = s->listener.local.incarnation };

	/* The filter has a bit for each type. */
	for (uint8_t type = 0; type < 32; type++)
		if (uccl_type_known(type) && type != g.hello && type != g.init)
			g.types |= 1u << type;
	if (nic->ops->guard)
		nic->ops->guard(nic, &g);
}

void engine_identity_init(struct engine_identity *s, const struct uccl_engine_attr *attr)
{
	s->random = attr->random;
	s->random_arg = attr->random_arg;
	s->interface = attr->interface;
	attr->nic->ops->addr(attr->nic, &s->listener.local.nic);
	if (attr->identity) {
		s->listener.local.incarnation = attr->identity->incarnation;
		memcpy(s->listener.local.key, attr->identity->key, UCCL_KEY_LEN);
	}
	while (!s->listener.local.incarnation) {
		engine_random(s, &s->listener.local.incarnation, sizeof(s->listener.local.incarnation));
		engine_random(s, s->listener.local.key, UCCL_KEY_LEN);
	}
	s->addr = s->listener.local;
	if (attr->group)
		memcpy(s->listener.group, attr->group, UCCL_KEY_LEN);
	uccl_key_mix(s->listener.local.key, s->listener.group);
	engine_random(s, s->listener.secret, UCCL_KEY_LEN);
	token_top(s);
	nic_guard(s, attr->nic);
	s->listener.two_way = attr->nic->caps.two_way;
	s->listener.rails = attr->nic->caps.rails;
	s->listener.keyless = attr->config->keyless;
	s->listener.security = attr->config->security;
}

const struct uccl_addr *uccl_engine_addr(const struct uccl_engine *e)
{
	return &e->identity.addr;
}

void uccl_engine_run(struct uccl_engine *e, uint64_t first, const struct uccl_nic_addr *at, uint32_t n)
{
	e->identity.listener.port_range = (struct uccl_port_range){.first = first, .n = n, .at = at};
}

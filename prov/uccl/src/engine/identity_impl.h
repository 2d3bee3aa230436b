/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* identity.c: name and keys of this endpoint, as peers see it. */
#ifndef UCCL_ENGINE_IDENTITY_IMPL_H
#define UCCL_ENGINE_IDENTITY_IMPL_H

#include "flow/wire/conn.h"

struct uccl_engine_attr;

/* A part of struct uccl_engine. */
struct engine_identity {
	void (*random)(void *arg, void *buf, size_t len);
	void *random_arg;
	struct uccl_addr addr;		/* as others are given it */
	uint16_t token_top;		/* the highest bits of all our tokens */
	struct uccl_listener listener;
	const char *interface;		/* see uccl_engine_attr */
};

/* The engine's address is that of the NIC. Tell the NIC which packets to keep. */
void engine_identity_init(struct engine_identity *s, const struct uccl_engine_attr *attr);

/* Fills buf with unpredictable bytes. */
static inline void engine_random(struct engine_identity *s, void *buf, size_t len)
{
	s->random(s->random_arg, buf, len);
}

static inline uint64_t engine_random64(struct engine_identity *s)
{
	uint64_t v;

	do
		engine_random(s, &v, sizeof(v));
	while (!v);
	return v;
}

#endif

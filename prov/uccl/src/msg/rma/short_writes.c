/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/rma/short_writes.h"

#include <stdlib.h>

#include "base/units.h"

/* Bytes [from, to) of our memory; if a write has several pieces, what is between them, too. */
struct uccl_short_write {
	uintptr_t from, to;
	uint16_t *index; /* the owner's, its number here + 1 */
};

bool msg_short_writes_meets(const struct uccl_peer *p, const struct msg_place *at)
{
	for (uint8_t i = 0; i < at->niov; i++) {
		uintptr_t from = (uintptr_t)at->iov[i].iov_base, to = from + at->iov[i].iov_len;

		for (uint16_t k = 0; k < p->serve.nshort_writes; k++)
			if (from < p->serve.short_writes[k].to && p->serve.short_writes[k].from < to)
				return true;
	}
	return false;
}

bool msg_short_writes_add(struct uccl_peer *p, const struct msg_place *at, uint16_t *index)
{
	struct uccl_short_write *g;

	if (!p->serve.short_writes)
		p->serve.short_writes = malloc(UCCL_SHORT_WRITES_MAX * sizeof(*g));
	if (!p->serve.short_writes)
		return false;
	g = &p->serve.short_writes[p->serve.nshort_writes++];
	*g = (struct uccl_short_write){.from = UINTPTR_MAX, .index = index};
	for (uint8_t i = 0; i < at->niov; i++) {
		uintptr_t from = (uintptr_t)at->iov[i].iov_base;

		g->from = uccl_min(g->from, from);
		g->to = uccl_max(g->to, from + at->iov[i].iov_len);
	}
	*index = p->serve.nshort_writes;
	return true;
}

void msg_short_writes_end(struct uccl_peer *p, uint16_t *index)
{
	struct uccl_short_write *g;

	if (!*index)
		return;
	/* The last one takes its place. */
	g = &p->serve.short_writes[*index - 1];
	*g = p->serve.short_writes[--p->serve.nshort_writes];
	*g->index = *index;
	*index = 0;
	if (p->serve.nshort_writes)
		return;
	free(p->serve.short_writes);
	p->serve.short_writes = NULL;
}

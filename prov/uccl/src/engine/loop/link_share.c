/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an engine may have of the link: it shares it with other endpoints, and with its lanes. */
#include "base/units.h"
#include "engine/impl.h"

#define SHARERS_NS UCCL_NS_PER_MS /* between two counts of those that share the line rate */

void engine_share_init(struct engine_share *s, const struct uccl_engine_attr *attr)
{
	uccl_pacer_init(&s->pacer, attr->nic->caps.link_bps);
	s->tuples = attr->budget;
	s->sharers = attr->sharers;
	s->sharers_arg = attr->sharers_arg;
	s->nsharers = s->nbusy[UCCL_LOAD_OUT] = s->nbusy[UCCL_LOAD_IN] = 1;
	s->load_at = UCCL_NEVER;
	s->pacer_timer.at = UCCL_NEVER;
	s->pacer_timer.kind = TIMER_PACER;
}

_Static_assert(UCCL_LOAD_ENTRIES == UCCL_LANES_MAX + 1, "an entry for the primary, and for each lane");

static void engine_load_entry(struct engine_share *s, struct uccl_load_table *load, uint8_t entry)
{
	s->load = load;
	s->load_entry = entry;
	s->load_at = 0;
}

void engine_share_lanes(struct engine_share *s, struct uccl_engine *const *lane, uint8_t n,
			struct uccl_load_table *load)
{
	uccl_load_table_init(load, n);
	engine_load_entry(s, load, 0);
	for (uint8_t k = 0; k < n; k++) {
		engine_load_entry(&lane[k]->share, load, (uint8_t)(k + 1));
		lane[k]->share.sharers = s->sharers;
		lane[k]->share.sharers_arg = s->sharers_arg;
	}
}

/* Endpoints have equal parts of the link, and the engines of an endpoint have parts of its part. PROTOCOL R289 */
static void pacer_share(struct uccl_engine *e)
{
	uccl_pacer_link(&e->share.pacer, e->nic->caps.link_bps / e->share.nsharers / e->share.nbusy[UCCL_LOAD_IN]);
}

void engine_link_share(struct uccl_engine *e, uint64_t now)
{
	if (!e->share.sharers || now < e->share.sharers_at)
		return;
	e->share.sharers_at = now + SHARERS_NS;
	e->share.nsharers = (uint32_t)uccl_max(1, e->share.sharers(e->share.sharers_arg, now));
	pacer_share(e);
}

/* Lanes share the link, too: flows of each have a part of what they would have alone, see engine_tx. PROTOCOL R289 */
void engine_load_update(struct uccl_engine *e, uint64_t now)
{
	const uint64_t all[] = {[UCCL_LOAD_OUT] = e->stats.tx_bytes, [UCCL_LOAD_IN] = e->stats.rx_bytes};
	uint64_t moved[UCCL_LOAD_DIRS];

	e->share.load_at = now + SHARERS_NS;
	for (int dir = 0; dir < UCCL_LOAD_DIRS; dir++) {
		moved[dir] = all[dir] - e->share.moved[dir];
		e->share.moved[dir] = all[dir];
	}
	uccl_load_table_update(e->share.load, e->share.load_entry, moved, e->share.nbusy, now);
	pacer_share(e);
}

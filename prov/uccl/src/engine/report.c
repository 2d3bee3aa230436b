/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What happened on an endpoint, for a person. */
#include <stdarg.h>
#include <stdio.h>

#include "base/units.h"
#include "engine/impl.h"

struct text {
	char *p;
	size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->len + 1 >= t->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(t->p + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len = (size_t)uccl_min(t->len + (size_t)n, t->size - 1);
}

static const char *path_state_text(uint8_t state)
{
	static const char *const text[] = { "active", "suspect", "quarantine", "probation" };

	return state < uccl_array_len(text) ? text[state] : "?";
}

static void add_paths(struct text *t, const struct uccl_path *paths, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		const struct uccl_path *p = &paths[i];

		if (p->tx_packets)
			add(t,
			    "  path %u label %u %s: packets %llu, bytes %llu, srtt %llu us, lost %llu, re-rolled "
			    "%llu\n",
			    i, p->label, path_state_text(p->state), (unsigned long long)p->tx_packets,
			    (unsigned long long)p->tx_bytes, (unsigned long long)(p->srtt_ns / 1000),
			    (unsigned long long)p->lost, (unsigned long long)p->rerolls);
	}
}

size_t uccl_engine_report(const struct uccl_engine *e, char *buf, size_t size, uint64_t now)
{
	const struct uccl_stats *s = &e->stats;
	struct text t = { .p = buf, .size = size };
	const struct conn *c;

	if (!size)
		return 0;
	buf[0] = '\0';
	add(&t, "peers %u open %u, packets sent %llu received %llu, retransmitted %llu (%llu bytes), spurious %llu\n",
	    e->nconns, e->nopen, (unsigned long long)s->tx_packets, (unsigned long long)s->rx_packets,
	    (unsigned long long)s->rtx_packets, (unsigned long long)s->rtx_bytes, (unsigned long long)s->spurious);
	add(&t,
	    "lost: proof %llu, time %llu, time-out %llu; probes %llu, time-outs %llu; paths quarantined %llu, "
	    "re-rolled %llu\n",
	    (unsigned long long)s->lost_proof, (unsigned long long)s->lost_rack, (unsigned long long)s->lost_rto,
	    (unsigned long long)s->probes, (unsigned long long)s->rtos, (unsigned long long)s->quarantined,
	    (unsigned long long)s->rerolled);
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		if (s->dropped[i])
			add(&t, "dropped, %s: %llu\n", uccl_drop_text((enum uccl_drop)i),
			    (unsigned long long)s->dropped[i]);
	TAILQ_FOREACH(c, &e->conns, all) {
		const struct uccl_flow *f = &c->peer.flow;

		if (c->peer.open) {
			add(&t,
			    "peer port %u: srtt %llu us, in flight %llu B, window %llu B, slots %u, heard %llu ms "
			    "ago\n",
			    c->peer.addr.nic.port, (unsigned long long)(f->srtt_ns / 1000),
			    (unsigned long long)f->inflight_bytes, (unsigned long long)f->cfg.cc->window(f->cc),
			    f->slots, (unsigned long long)((now - f->heard_ns) / UCCL_NS_PER_MS));
			add_paths(&t, f->paths, f->cfg.paths_tx);
		} else if (c->peer.dead) {
			add(&t, "peer port %u: ended\n", c->peer.addr.nic.port);
			add_paths(&t, c->last_paths, c->nlast_paths);
		}
	}
	return t.len;
}

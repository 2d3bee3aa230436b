/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What happened on an endpoint, for a person. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "engine/impl.h"
#include "engine/observe/snapshot.h"

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

#define U(x) ((unsigned long long)(x))

static void add_peer(struct text *t, const struct uccl_snapshot_peer *p)
{
	const struct uccl_snapshot_path *path = uccl_snapshot_paths(p);
	char ip[UCCL_SNAPSHOT_IP_TEXT];

	uccl_snapshot_ip_text(p, ip, sizeof(ip));
	add(t, "peer %s port %u: ", ip, p->port);
	if (p->state == UCCL_SNAPSHOT_OPEN)
		add(t, "srtt %llu us, in flight %llu B, window %llu B, slots %u, heard %llu ms ago%s%s\n",
		    U(p->srtt_ns / 1000), U(p->inflight_bytes), U(p->window), p->slots,
		    U(p->heard_ago_ns / UCCL_NS_PER_MS), p->short_of_memory ? ", short of memory" : "",
		    p->without_trains ? ", without trains" : "");
	else
		add(t, "%s\n", p->state == UCCL_SNAPSHOT_ENDED ? "ended" : "connecting");
	if (p->credit_limit != UCCL_NEVER)
		add(t, "  credit: %llu of %llu B used\n", U(p->credit_used), U(p->credit_limit));
	for (uint16_t i = 0; i < p->npaths; i++, path++)
		add(t, "  path %u label %u %s: packets %llu, bytes %llu, srtt %llu us, lost %llu, re-rolled %llu\n",
		    path->index, path->label, uccl_snapshot_path_state(path->state), U(path->packets), U(path->bytes),
		    U(path->srtt_ns / 1000), U(path->lost), U(path->rerolls));
}

size_t uccl_snapshot_text(const struct uccl_snapshot *v, char *buf, size_t size)
{
	const struct uccl_stats *s = &v->stats;
	struct text t = { .p = buf, .size = size };

	if (!size)
		return 0;
	buf[0] = '\0';
	add(&t, "peers %u open %u, packets sent %llu received %llu, retransmitted %llu (%llu bytes), spurious %llu\n",
	    v->nconns, v->nopen, U(s->tx_packets), U(s->rx_packets), U(s->rtx_packets), U(s->rtx_bytes),
	    U(s->spurious));
	add(&t,
	    "lost: proof %llu, time %llu, time-out %llu; probes %llu, time-outs %llu; paths quarantined %llu, "
	    "re-rolled %llu\n",
	    U(s->lost_proof), U(s->lost_rack), U(s->lost_rto), U(s->probes), U(s->rtos), U(s->quarantined),
	    U(s->rerolled));
	if (s->writes_tx || s->writes_rx || s->qp_made)
		add(&t,
		    "direct writes: sent %llu, of them in place %llu, received %llu; registrations: found %llu, "
		    "made %llu, memory gone %llu, evicted %llu; windows bound %llu, failed %llu; queue pairs %llu, "
		    "made %llu, sets reclaimed %llu\n",
		    U(s->writes_tx), U(s->writes_in_place), U(s->writes_rx), U(s->mr_hits), U(s->mr_misses),
		    U(s->mr_gone), U(s->mr_evicted), U(s->mw_bound), U(s->mw_failed),
		    U(s->qp_now), U(s->qp_made), U(s->qp_reclaimed));
	if (s->train_tests || s->trains_off)
		add(&t, "trains: compared with single packets %llu times, found broken %llu, tried again %llu\n",
		    U(s->train_tests), U(s->trains_off), U(s->train_trials));
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		if (s->dropped[i])
			add(&t, "dropped, %s: %llu\n", uccl_drop_text((enum uccl_drop)i), U(s->dropped[i]));
	for (const struct uccl_snapshot_peer *p = uccl_snapshot_first(v); p; p = uccl_snapshot_next(v, p))
		add_peer(&t, p);
	if (v->left_out)
		add(&t, "and %u peers more\n", v->left_out);
	return t.len;
}

size_t uccl_engine_report(const struct uccl_engine *e, char *buf, size_t size, uint64_t now)
{
	size_t room = sizeof(struct uccl_snapshot), len;
	struct uccl_snapshot *v;

	room += e->conns.n * (sizeof(struct uccl_snapshot_peer) + UCCL_PATHS_MAX * sizeof(struct uccl_snapshot_path));
	if (!size)
		return 0;
	buf[0] = '\0';
	v = calloc(1, room);
	if (!v)
		return 0;
	uccl_engine_snapshot(e, v, room, now);
	len = uccl_snapshot_text(v, buf, size);
	free(v);
	return len;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A snapshot as text for a person. */
#include <limits.h>
#include <stdlib.h>

#include "base/units.h"
#include "engine/impl.h"
#include "engine/observe/snapshot.h"

#define U(x) ((unsigned long long)(x))
#define PEER_COLUMNS "%-28s %-10s %8s %9s %9s %6s %8s %9s %7s %5s %5s %8s\n"

static void print_path(const struct uccl_snapshot_path *p, FILE *f)
{
	fprintf(f,
		"  path %u label %u %s: packets %llu, bytes %llu, in flight %llu B, srtt %.1f us, lost %llu, "
		"re-rolled %llu\n",
		p->index, p->label, uccl_snapshot_path_state(p->state), U(p->packets), U(p->bytes), U(p->inflight),
		(double)p->srtt_ns / 1e3, U(p->lost), U(p->rerolls));
}

static void print_peer(const struct uccl_snapshot_peer *p, bool each_path, FILE *f)
{
	static const char *const state[] = { "connecting", "open", "ended" };
	const struct uccl_snapshot_path *path = uccl_snapshot_paths(p);
	char credit[32] = "-", ip[UCCL_SNAPSHOT_IP_TEXT], place[80];
	uint64_t lost = 0, bytes = 0, out = 0;

	for (uint16_t i = 0; i < p->npaths; i++) {
		lost += path[i].lost;
		bytes += path[i].bytes;
		out += path[i].state >= UCCL_PATH_QUARANTINE;
	}
	if (p->credit_limit != UCCL_NEVER)
		snprintf(credit, sizeof(credit), "%lld", (long long)(p->credit_limit - p->credit_used) / 1024);
	uccl_snapshot_ip_text(p->ip, ip, sizeof(ip));
	snprintf(place, sizeof(place), "%s:%u", ip, p->port);
	fprintf(f, "%-28s %-10s %8.1f %9llu %9llu %6u %8s %9llu %7llu %5u %5llu %8.0f%s%s\n", place,
		p->state < uccl_array_len(state) ? state[p->state] : "?", (double)p->srtt_ns / 1e3,
		U(p->inflight_bytes / 1024), U(p->window / 1024), p->slots, credit, U(bytes >> 20), U(lost),
		p->nusable, U(out), (double)p->heard_ago_ns / 1e6, p->short_of_memory ? " short of memory" : "",
		p->without_trains ? " without trains" : "");
	for (uint16_t i = 0; each_path && i < p->npaths; i++)
		print_path(&path[i], f);
}

static void print_counters(const struct uccl_stats *s, FILE *f)
{
	fprintf(f,
		"in all: sent %.1f MB, received %.1f MB, packets %llu and %llu, retransmitted %llu (%llu bytes), "
		"spurious %llu\n",
		(double)s->tx_bytes / 1e6, (double)s->rx_bytes / 1e6, U(s->tx_packets), U(s->rx_packets),
		U(s->rtx_packets), U(s->rtx_bytes), U(s->spurious));
	fprintf(f,
		"lost: proof %llu, time %llu, time-out %llu; probes %llu, time-outs %llu; paths quarantined %llu, "
		"re-rolled %llu; trains shortened %llu times\n",
		U(s->lost_proof), U(s->lost_rack), U(s->lost_rto), U(s->probes), U(s->rtos), U(s->quarantined),
		U(s->rerolled), U(s->trains_short));
	if (s->writes_tx || s->writes_rx || s->qp_made)
		fprintf(f,
			"direct writes: sent %llu, of them in place %llu, received %llu; registrations: found %llu, "
			"made %llu, memory gone %llu, evicted %llu; windows bound %llu, failed %llu; queue pairs %llu, "
			"made %llu, sets reclaimed %llu\n",
			U(s->writes_tx), U(s->writes_in_place), U(s->writes_rx), U(s->mr_hits), U(s->mr_misses),
			U(s->mr_gone), U(s->mr_evicted), U(s->mw_bound), U(s->mw_failed), U(s->qp_now), U(s->qp_made),
			U(s->qp_reclaimed));
	if (s->train_tests || s->trains_off)
		fprintf(f, "trains: compared with single packets %llu times, found broken %llu, tried again %llu\n",
			U(s->train_tests), U(s->trains_off), U(s->train_trials));
	for (int i = 0; i < UCCL_DROP_COUNT; i++)
		if (s->dropped[i])
			fprintf(f, "dropped, %s: %llu\n", uccl_drop_text((enum uccl_drop)i), U(s->dropped[i]));
}

void uccl_snapshot_print(const struct uccl_snapshot *v, int peers_max, bool each_path, FILE *f)
{
	uint32_t left = v->npeers + v->left_out;

	fprintf(f, "peers %u open %u; ", v->nconns, v->nopen);
	print_counters(&v->stats, f);
	if (v->npeers)
		fprintf(f, PEER_COLUMNS, "peer", "state", "srtt us", "flight K", "window K", "slots", "credit K",
			"sent MiB", "lost", "paths", "out", "heard ms");
	for (const struct uccl_snapshot_peer *p = uccl_snapshot_first(v); p && peers_max > 0;
	     p = uccl_snapshot_next(v, p), peers_max--, left--)
		print_peer(p, each_path, f);
	if (left)
		fprintf(f, "and %u peers more\n", left);
}

void uccl_engine_report(const struct uccl_engine *e, FILE *f, bool each_path, uint64_t now)
{
	size_t room = sizeof(struct uccl_snapshot) +
		      e->conns.n * (sizeof(struct uccl_snapshot_peer) +
				    UCCL_PATHS_MAX * sizeof(struct uccl_snapshot_path));
	struct uccl_snapshot *v = calloc(1, room);

	if (!v)
		return;
	uccl_engine_snapshot(e, v, room, now);
	uccl_snapshot_print(v, INT_MAX, each_path, f);
	free(v);
}

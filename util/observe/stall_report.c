/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See stall_report.h.
 *
 * DESIGN NOTES
 * - A full pipe is no fault: who sends as fast as the network goes has a full window all the time. So of two peers that
 *   are held back for about as long, the one whose reason is not the network's speed comes first.
 * - While this process itself is late, nobody knows what would have held its peers back: that is a line of the
 *   endpoint, and none of a peer.
 * - Losses make windows small. Where many packets are lost, a full window is therefore named "losses".
 */
#include "stall_report.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "flow/path/path.h"

/* Shares of the time that differ by less count as equal. */
#define STEPS 10
/* How bad a path can be at most that is not in quarantine. */
#define IN_SERVICE 0.9

static uint64_t stall_sum(const struct uccl_snapshot_peer *p)
{
	uint64_t all = 0;

	for (int w = 0; w < UCCL_STALL_COUNT; w++)
		all += p->stall_ns[w];
	return all;
}

/*
 * How much longer one reason held it back. Time that was counted for a reason may later count as this process's own
 * absence, so the sum may become less.
 */
static uint64_t stall_grown(const struct uccl_snapshot_peer *p, const struct uccl_snapshot_peer *q, uint8_t why)
{
	uint64_t before = q ? q->stall_ns[why] : 0;

	return p->stall_ns[why] > before ? p->stall_ns[why] - before : 0;
}

/* The same peer in the snapshot before; NULL: it was not there, or began anew. */
static const struct uccl_snapshot_peer *peer_before(const struct uccl_snapshot *before,
						    const struct uccl_snapshot_peer *p)
{
	const struct uccl_snapshot_peer *q = before ? uccl_snapshot_first(before) : NULL;

	for (uint32_t i = 0; q && i < before->npeers; i++, q = uccl_snapshot_next(before, q)) {
		if (memcmp(q->ip, p->ip, sizeof(q->ip)) || q->port != p->port)
			continue;
		return stall_sum(q) <= stall_sum(p) ? q : NULL;
	}
	return NULL;
}

/* A counter's growth; what went back began anew. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

/* What a path sent and lost between the snapshots. */
static void path_grown(const struct uccl_snapshot_peer *q, const struct uccl_snapshot_path *path, uint64_t *packets,
		       uint64_t *lost)
{
	const struct uccl_snapshot_path *old = q ? uccl_snapshot_paths(q) : NULL;

	*packets = path->packets;
	*lost = path->lost;
	for (uint16_t i = 0; q && i < q->npaths; i++)
		if (old[i].index == path->index) {
			*packets = grown(path->packets, old[i].packets);
			*lost = grown(path->lost, old[i].lost);
		}
}

static double share_of(uint64_t part, uint64_t all)
{
	return all ? fmin((double)part / (double)all, 1) : 0;
}

static bool is_speed(uint8_t why)
{
	return why == UCCL_STALL_WINDOW || why == UCCL_STALL_PACE;
}

/* May `ns` of `all` be blamed on the peer? See STALL_REPORT_SILENT_NS. */
static bool stall_counts(const struct uccl_snapshot_peer *p, uint8_t why, uint64_t ns, uint64_t all)
{
	switch (why) {
	case UCCL_STALL_NOT:
	case UCCL_STALL_AWAY:
		return false;
	case UCCL_STALL_SILENT:
		return (p->stall == why && p->heard_ago_ns >= STALL_REPORT_SILENT_NS) ||
		       (ns >= STALL_REPORT_SILENT_NS && share_of(ns, all) >= STALL_REPORT_SILENT);
	case UCCL_STALL_ANSWER:
		return ns >= STALL_REPORT_SILENT_NS;
	case UCCL_STALL_CONNECT:
		return p->state == UCCL_SNAPSHOT_CONNECTING && ns >= STALL_REPORT_SILENT_NS;
	default:
		return true;
	}
}

/* *away: share of the time in which this process was late for it. */
static bool slow_peer(const struct uccl_snapshot *v, const struct uccl_snapshot_peer *p,
		      const struct uccl_snapshot_peer *q, struct stall_report *s, double *away)
{
	const struct uccl_snapshot_path *path = uccl_snapshot_paths(p);
	uint64_t all = 0, held = 0, most = 0, packets = 0, lost = 0;
	uint8_t why = UCCL_STALL_NOT;

	for (uint8_t w = 0; w < UCCL_STALL_COUNT; w++)
		all += stall_grown(p, q, w);
	for (uint8_t w = 0; w < UCCL_STALL_COUNT; w++) {
		uint64_t ns = stall_grown(p, q, w);

		if (!stall_counts(p, w, ns, all))
			continue;
		held += ns;
		if (ns > most) {
			most = ns;
			why = w;
		}
	}
	for (uint16_t i = 0; i < p->npaths; i++) {
		uint64_t sent, gone;

		path_grown(q, &path[i], &sent, &gone);
		packets += sent;
		lost += gone;
	}
	*away = share_of(stall_grown(p, q, UCCL_STALL_AWAY), all);
	*s = (struct stall_report){
		.kind = STALL_REPORT_PEER,
		.why = why,
		.v = v,
		.peer = p,
		.share = share_of(held, all),
		.fraction = share_of(most, all),
		.lost = packets >= STALL_REPORT_PACKETS ? share_of(lost, packets) : 0,
	};
	if (s->lost >= STALL_REPORT_LOST && (is_speed(why) || s->share < STALL_REPORT_SHARE)) {
		s->why = UCCL_STALL_LOSS;
		s->fraction = s->share;
	}
	return p->state != UCCL_SNAPSHOT_ENDED &&
	       (s->share >= STALL_REPORT_SHARE || s->lost >= STALL_REPORT_LOST);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n ? v[n / 2] : 0;
}

/*
 * Paths that are far from the median of their peer's. Their `share` is how bad they are among paths: 1 in quarantine,
 * else what part of the RTT, or of the losses, is beyond the median.
 */
static size_t slow_paths(const struct uccl_snapshot *v, const struct uccl_snapshot_peer *p,
			 const struct uccl_snapshot_peer *q, struct stall_report *out, size_t max)
{
	const struct uccl_snapshot_path *path = uccl_snapshot_paths(p);
	double rtts[UCCL_PATHS_MAX], losses[UCCL_PATHS_MAX], rtt, loss;
	size_t n = 0, nrtts = 0, nlosses = 0;
	uint64_t sent, lost;

	for (uint16_t i = 0; i < p->npaths && i < UCCL_PATHS_MAX; i++) {
		path_grown(q, &path[i], &sent, &lost);
		if (sent >= STALL_REPORT_PACKETS)
			losses[nlosses++] = share_of(lost, sent);
		if (path[i].srtt_ns)
			rtts[nrtts++] = (double)path[i].srtt_ns;
	}
	rtt = median(rtts, nrtts);
	loss = median(losses, nlosses);
	for (uint16_t i = 0; i < p->npaths && n < max; i++) {
		struct stall_report s = {.kind = STALL_REPORT_PATH, .v = v, .peer = p, .path = &path[i]};
		bool bad;

		path_grown(q, &path[i], &sent, &lost);
		s.lost = sent >= STALL_REPORT_PACKETS ? share_of(lost, sent) : 0;
		s.times = rtt > 0 ? (double)path[i].srtt_ns / rtt : 0;
		bad = s.lost >= STALL_REPORT_LOST && s.lost >= STALL_REPORT_LOSSES * loss;
		if (bad || path[i].state == UCCL_PATH_QUARANTINE)
			s.why = UCCL_STALL_LOSS;
		if (path[i].state == UCCL_PATH_QUARANTINE)
			s.share = 1;
		else if (bad)
			s.share = IN_SERVICE * (1 - loss / s.lost);
		if (nrtts > 2 && s.times >= STALL_REPORT_RTT && sent >= STALL_REPORT_PACKETS &&
		    (double)path[i].srtt_ns - rtt >= (double)STALL_REPORT_RTT_NS)
			s.share = fmax(s.share, IN_SERVICE * (1 - 1 / s.times));
		if (s.share > 0)
			out[n++] = s;
	}
	return n;
}

/* Has this endpoint anything to do for anybody? */
static bool snapshot_busy(const struct uccl_snapshot *v)
{
	const struct uccl_snapshot_peer *p = uccl_snapshot_first(v);

	for (uint32_t i = 0; p && i < v->npeers; i++, p = uccl_snapshot_next(v, p))
		if (p->state != UCCL_SNAPSHOT_ENDED && (p->stall != UCCL_STALL_NOT || p->inflight_chunks))
			return true;
	return false;
}

static struct stall_report slow_endpoint(const struct uccl_snapshot *v, uint8_t why, double share)
{
	return (struct stall_report){
		.kind = STALL_REPORT_ENDPOINT, .why = why, .v = v, .share = share, .fraction = share};
}

size_t stall_report_find(const struct uccl_snapshot *now, const struct uccl_snapshot *before, uint64_t clock_ns,
			 struct stall_report *out, size_t max)
{
	uint64_t old = clock_ns > now->at_ns ? clock_ns - now->at_ns : 0, span, nic;
	const struct uccl_snapshot_peer *p = uccl_snapshot_first(now);
	double away = 0, one;
	struct stall_report s;
	size_t n = 0;

	if (before && before->at_ns >= now->at_ns && old < STALL_REPORT_STALE_NS)
		before = NULL;
	/* Nobody writes snapshots, so nobody measures: what the last one says is long ago. */
	if (old >= STALL_REPORT_STALE_NS) {
		if (!max || !snapshot_busy(now))
			return 0;
		*out = slow_endpoint(now, UCCL_STALL_AWAY, 1);
		out->stale_ns = old;
		return 1;
	}
	span = before ? now->at_ns - before->at_ns : 0;
	nic = before ? grown(now->nic_ns, before->nic_ns) : 0;
	if (n < max && share_of(nic, span) >= STALL_REPORT_SHARE)
		out[n++] = slow_endpoint(now, UCCL_STALL_NIC, share_of(nic, span));
	for (uint32_t i = 0; p && i < now->npeers; i++, p = uccl_snapshot_next(now, p)) {
		const struct uccl_snapshot_peer *q = peer_before(before, p);

		if (slow_peer(now, p, q, &s, &one) && n < max)
			out[n++] = s;
		away = fmax(away, one);
		if (p->state == UCCL_SNAPSHOT_OPEN)
			n += slow_paths(now, p, q, out + n, max - n);
	}
	if (n < max && away >= STALL_REPORT_SHARE)
		out[n++] = slow_endpoint(now, UCCL_STALL_AWAY, away);
	return n;
}

/* Which of two comes first, if they are held back for about as long? */
static int rank(const struct stall_report *s)
{
	/* What the other side does not do, before what follows from it elsewhere. */
	if (s->why == UCCL_STALL_SILENT)
		return 0;
	return is_speed(s->why) ? 2 : 1;
}

static int by_badness(const void *a, const void *b)
{
	const struct stall_report *x = a, *y = b;
	int paths = (x->kind == STALL_REPORT_PATH) - (y->kind == STALL_REPORT_PATH);
	int steps = (int)lround(y->share * STEPS) - (int)lround(x->share * STEPS);

	if (paths)
		return paths;
	if (steps)
		return steps;
	if (rank(x) != rank(y))
		return rank(x) - rank(y);
	if (x->share != y->share)
		return x->share < y->share ? 1 : -1;
	return (x->lost < y->lost) - (x->lost > y->lost);
}

void stall_report_sort(struct stall_report *s, size_t n)
{
	if (n)
		qsort(s, n, sizeof(*s), by_badness);
}

/* A length of time, or a number of bytes, as people write it. */
static const char *ns_text(char *buf, size_t size, uint64_t ns)
{
	if (ns >= UCCL_NS_PER_S)
		snprintf(buf, size, "%.1f s", (double)ns / 1e9);
	else if (ns >= UCCL_NS_PER_MS)
		snprintf(buf, size, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, size, "%.0f us", (double)ns / 1e3);
	return buf;
}

static const char *bytes_text(char *buf, size_t size, uint64_t bytes)
{
	if (bytes >= 1000000)
		snprintf(buf, size, "%.1f MB", (double)bytes / 1e6);
	else
		snprintf(buf, size, "%.1f KB", (double)bytes / 1e3);
	return buf;
}

void stall_report_figure(const struct stall_report *s, char *buf, size_t size)
{
	const struct uccl_snapshot_peer *p = s->peer;
	char a[32], b[32], rtt[32] = "";

	if (p)
		ns_text(rtt, sizeof(rtt), s->path ? s->path->srtt_ns : p->srtt_ns);
	if (s->kind == STALL_REPORT_PATH) {
		snprintf(buf, size, "%s, RTT %s (%.1f times the median), %.1f %% lost",
			 uccl_snapshot_path_state(s->path->state), rtt, s->times, s->lost * 100);
		return;
	}
	switch (s->why) {
	case UCCL_STALL_WINDOW:
	case UCCL_STALL_PACE:
		snprintf(buf, size, "window %s, RTT %s", bytes_text(a, sizeof(a), p->window), rtt);
		break;
	case UCCL_STALL_CREDIT:
		snprintf(buf, size, "%s granted and used", bytes_text(a, sizeof(a), p->credit_used));
		break;
	case UCCL_STALL_SLOTS:
		snprintf(buf, size, "slots %u, RTT %s", p->slots, rtt);
		break;
	case UCCL_STALL_CHUNKS:
		snprintf(buf, size, "%u chunks under way, RTT %s", p->inflight_chunks, rtt);
		break;
	case UCCL_STALL_LOSS:
		snprintf(buf, size, "%.1f %% lost and sent again", s->lost * 100);
		break;
	case UCCL_STALL_SILENT:
		snprintf(buf, size, "silent for %s%s", ns_text(a, sizeof(a), p->heard_ago_ns),
			 p->suspect ? ", perhaps gone" : "");
		break;
	case UCCL_STALL_ANSWER:
	case UCCL_STALL_LIMIT:
	case UCCL_STALL_CONNECT:
		if (p->stall == s->why)
			snprintf(buf, size, "so for %s", ns_text(a, sizeof(a), p->stall_for_ns));
		else
			snprintf(buf, size, "not now, heard for %s", ns_text(b, sizeof(b), p->heard_ago_ns));
		break;
	case UCCL_STALL_AWAY:
		if (s->stale_ns)
			snprintf(buf, size, "no call for %s", ns_text(a, sizeof(a), s->stale_ns));
		else
			snprintf(buf, size, "calls came too late while data waited");
		break;
	default:
		snprintf(buf, size, "%.0f %% of the time", s->fraction * 100);
		break;
	}
}

/* What each reason means, for the sentence. */
#define SPEED "sending goes as fast as congestion control finds the network to be; nothing else holds it back"
static const char *const meaning[UCCL_STALL_COUNT] = {
	[UCCL_STALL_NOT] = "something holds it back",
	[UCCL_STALL_WINDOW] = SPEED,
	[UCCL_STALL_PACE] = SPEED,
	[UCCL_STALL_CREDIT] = "the receiver hands out credit more slowly than we could send: its link is busy, or "
			      "its line rate is set too low",
	[UCCL_STALL_SLOTS] = "the receiver has too few places for packets: more socket buffer or fewer peers there "
			     "would help",
	[UCCL_STALL_CHUNKS] = "too few chunks may be under way for this network's speed and distance: raise "
			      "FI_UCCL_PATHS=window=N",
	[UCCL_STALL_LIMIT] = "the peer's program has not yet taken the messages that were sent",
	[UCCL_STALL_LOSS] = "the network loses packets on the way to this peer",
	[UCCL_STALL_SILENT] = "the peer does not answer: its program makes no calls or is stopped, or the network to "
			      "it is cut",
	[UCCL_STALL_ANSWER] = "the peer has got everything, but its program has posted no receive for it, or has not "
			      "replied yet",
	[UCCL_STALL_CONNECT] = "the peer does not answer the handshake: it has not started, makes no calls, or "
			       "cannot be reached",
	[UCCL_STALL_NIC] = "this host's NIC, or the socket's send buffer, takes no more: the link is full",
	[UCCL_STALL_AWAY] = "this process itself comes too late to its work for the network: its program makes no "
			    "calls meanwhile, has no processor, or is stopped",
};

/* The process as people know it. */
static const char *process_text(char *buf, size_t size, const struct uccl_snapshot *v)
{
	if (v->rank < 0)
		snprintf(buf, size, "process %lld", (long long)v->pid);
	else
		snprintf(buf, size, "rank %lld (process %lld)", (long long)v->rank, (long long)v->pid);
	return buf;
}

void stall_report_sentence(const struct stall_report *s, size_t n, char *buf, size_t size)
{
	char ip[UCCL_SNAPSHOT_IP_TEXT], me[64], figure[200];

	if (!n) {
		snprintf(buf, size, "Nothing is held back.");
		return;
	}
	process_text(me, sizeof(me), s->v);
	stall_report_figure(s, figure, sizeof(figure));
	if (s->peer)
		uccl_snapshot_ip_text(s->peer->ip, ip, sizeof(ip));
	if (s->kind == STALL_REPORT_PATH)
		snprintf(buf, size,
			 "No peer is held back, but path %u of %s to %s port %u is worse than the others: %s.",
			 s->path->index, me, ip, s->peer->port, figure);
	else if (s->peer)
		snprintf(buf, size, "Worst: %s and its peer %s port %u: %s (%s).", me, ip, s->peer->port,
			 meaning[s->why], figure);
	else
		snprintf(buf, size, "Worst: %s: %s (%s).", me, meaning[s->why], figure);
}

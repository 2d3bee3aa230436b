/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "flow/ack/times.h"

/* A path is suspected after this many losses in a row while others moved. PROTOCOL R17 */
#define PATH_LOSSES_MAX 3
/*
 * Of so many paths each carries something too seldom to wait for three: a dead eighth of 256 would take 25 MB to be
 * found. To be without one of them for a round trip costs nothing.
 */
#define PATHS_MANY 32
/* Longer than what control packets and probes are: that these come through says nothing of it. */
#define PATH_LONG 512
/* So many times in a row is a path left for it. PROTOCOL R102 */
#define PATH_LONG_LOSSES_MAX 3
/* The back-off of what fails ends with so many times. */
#define STRIKES_MAX 8
/* Tries of a path whose NIC may not know that it is broken: more than a link takes that is cut for a second or two. */
#define BRITTLE_TRIES 4
/* What has so many times the RTT of the quickest is slow. Where no queue is longer than the way all paths are quick. */
#define QUICK_TIMES 2
/*
 * So many paths asked in vain, with as many of their opposites, stand for all: time-outs back off, and of 64 paths or
 * more the last would be asked minutes later. PROTOCOL R55
 */
#define ASKED_ENOUGH 8
/*
 * So many paths are compared before one is kept for little payload. They are the same for all peers, which share
 * sockets. Each of them is a 5-tuple, which flow tables must hold.
 */
#define WARM_TRIES 2
/*
 * A rail that has been without a path in service for a while is tried again after this part (1/N) of the while, at the
 * latest after TRIAL_NS: it carries again soon, and is asked seldom. At first the tries are this part of an RTO apart.
 */
#define TRIAL_PART 32
#define TRIAL_RTO_PART 4
#define TRIAL_NS (250 * UCCL_NS_PER_MS)
/* One in so many control packets leaves on any path in service. */
#define CONTROL_OTHERS 8
/* New labels for each answer that was lost: flow_rx.c sends an answer on this many paths. */
#define CONTROL_ROLLS 4

/* When a path that is out of service comes next. In quarantine on a rail that is tried it waits for its turn. */
static uint64_t path_due(const struct uccl_paths *s, uint16_t path)
{
	const struct uccl_path *p = &s->list[path];
	const struct uccl_rail_trial *t = &s->rails.trial[p->rail];

	if (!t->at || p->state != UCCL_PATH_QUARANTINE)
		return p->until;
	return t->path == path ? t->at : UCCL_NEVER;
}

void uccl_paths_refresh(struct uccl_paths *s)
{
	uint16_t n = 0;

	s->at = UCCL_NEVER;
	for (uint16_t i = 0; i < s->n; i++) {
		if (!uccl_path_usable(&s->list[i]))
			s->at = uccl_min(s->at, path_due(s, i));
		else if (n < s->tuples.width)
			s->usable[n++] = i;
	}
	for (uint16_t i = 0; !n && i < s->n; i++)
		if (s->list[i].state != UCCL_PATH_QUARANTINE)
			s->usable[n++] = i;
	for (uint16_t i = 0; !n && i < s->n; i++)
		s->usable[i] = i;
	s->nusable = n ? n : s->n;
	s->rails.usable = 0;
	for (uint16_t i = 0; i < s->nusable; i++)
		s->rails.usable |= (uint8_t)(1u << s->list[s->usable[i]].rail);
	uccl_burst_end(&s->burst);
}

bool uccl_paths_init(struct uccl_paths *s, const struct uccl_paths_cfg *cfg)
{
	memset(s, 0, sizeof(*s));
	s->n = cfg->n;
	s->labels = cfg->labels;
	s->rails.n = (uint8_t)(cfg->n >= cfg->rails ? uccl_clamp(cfg->rails, 1, UCCL_RAILS_MAX) : 1);
	s->first_stays = cfg->first_stays;
	s->write_later = cfg->write_later;
	s->kept_acked = UINT32_MAX; /* so path 0 is the first */
	s->write_tries = cfg->write_brittle ? BRITTLE_TRIES : STRIKES_MAX;
	s->stats = cfg->stats;
	s->ops = cfg->ops;
	s->list = calloc(cfg->n, sizeof(*s->list));
	s->usable = calloc(cfg->n, sizeof(*s->usable));
	if (!s->list || !s->usable)
		return false;
	for (uint16_t i = 0; i < cfg->n; i++) {
		uccl_path_init(&s->list[i], (uint16_t)((cfg->first_label + i) % cfg->labels));
		s->list[i].rail = (uint8_t)(s->list[i].label % s->rails.n);
		uccl_path_writes_init(&s->list[i].writes, cfg->writes && !cfg->write_later);
	}
	s->next_label = (uint16_t)((cfg->first_label + cfg->n) % cfg->labels);
	uccl_tuples_init(&s->tuples, cfg->budget, cfg->n);
	uccl_paths_refresh(s);
	return true;
}

void uccl_paths_fini(struct uccl_paths *s)
{
	uccl_tuples_fini(&s->tuples);
	free(s->list);
	free(s->usable);
	s->list = NULL;
	s->usable = NULL;
}

struct uccl_path *uccl_paths_take_list(struct uccl_paths *s, uint16_t *n)
{
	struct uccl_path *list = s->list;

	*n = s->n;
	s->list = NULL;
	return list;
}

void uccl_paths_spread(struct uccl_paths *s, uint64_t now)
{
	if (uccl_tuples_spread(&s->tuples, now))
		uccl_paths_refresh(s);
}

void uccl_paths_scan(struct uccl_paths *s, uint64_t now)
{
	if (uccl_tuples_scan(&s->tuples, now))
		uccl_paths_refresh(s);
}

void uccl_paths_reroll(struct uccl_paths *s, uint16_t path)
{
	/* One that left its rail would not be there when the rail works again. PROTOCOL R385 */
	uint16_t stay = (uint16_t)((s->list[path].rail + s->rails.n - s->next_label % s->rails.n) % s->rails.n);

	/* A firewall may let nothing through but what has this label. PROTOCOL R370 */
	if (!path && s->first_stays && s->n > 1)
		return;
	s->list[path].label = (uint16_t)((s->next_label + stay) % s->labels);
	s->list[path].fresh_seq = s->list[path].next_seq;
	s->list[path].min_rtt_ns = UCCL_NEVER;
	uccl_path_asks_end(&s->list[path].asks);
	s->next_label = (uint16_t)((s->list[path].label + 1) % s->labels);
	s->list[path].counters.rerolls++;
	s->stats->rerolled++;
}

void uccl_paths_probe(struct uccl_paths *s, uint16_t path)
{
	s->probes_due += !s->list[path].probe_due;
	s->list[path].probe_due = true;
}

static bool works(const struct uccl_path *p, bool writes)
{
	return writes ? p->writes.state == UCCL_WRITE_ON : uccl_path_usable(p);
}

/*
 * May a path that failed so often wait where it is until it works again? Others have another way, and what leaves a
 * link that fails for a while does not come back to it: it would carry nothing afterwards. But where many fail, or
 * one for long, new ways may be all that is left. PROTOCOL R250
 */
static bool path_stays(const struct uccl_paths *s, uint16_t path, bool writes)
{
	const struct uccl_path *p = &s->list[path];
	bool young = writes ? p->writes.strikes < s->write_tries : p->strikes < STRIKES_MAX;
	uint32_t n = 0;

	for (uint16_t i = 0; i < s->n; i++)
		n += i != path && works(&s->list[i], writes);
	return young && 4 * n > 3u * s->n;
}

/*
 * The NIC makes the path anew for writes, by another way or by the same. Then one of them has to show that it works,
 * the later the more often not.
 */
static void write_renew(struct uccl_paths *s, uint16_t path, bool stays, uint64_t now)
{
	struct uccl_path *p = &s->list[path];

	if (!s->write_later || p->writes.state == UCCL_WRITE_OFF)
		return;
	uccl_path_writes_off(&p->writes);
	s->stats->write_renewed++;
	s->ops->renew(s, path, stays, now);
}

void uccl_paths_write_lost(struct uccl_paths *s, uint16_t path, uint64_t csn, uint64_t now)
{
	if (uccl_path_writes_lost(&s->list[path].writes, csn))
		write_renew(s, path, path_stays(s, path, true), now);
}

void uccl_paths_write_seen(struct uccl_paths *s, uint16_t path, uint64_t csn)
{
	/* One that had failed works: its link may be back, so the others are tried now. */
	if (uccl_path_writes_came(&s->list[path].writes, csn))
		for (uint16_t i = 0; i < s->n; i++)
			uccl_path_writes_hasten(&s->list[i].writes);
}

static void control_add(struct uccl_paths *s, uint16_t path)
{
	uint8_t i = s->control.old;

	if (s->control.n < UCCL_CONTROL_PATHS) {
		i = s->control.n++;
	} else {
		s->list[s->control.list[i]].control = false;
		s->control.old = (uint8_t)((i + 1) % UCCL_CONTROL_PATHS);
	}
	s->control.list[i] = path;
	s->list[path].control = true;
}

static void control_remove(struct uccl_paths *s, uint16_t path)
{
	for (uint8_t i = 0; s->list[path].control && i < s->control.n; i++)
		if (s->control.list[i] == path) {
			s->control.list[i] = s->control.list[--s->control.n];
			s->list[path].control = false;
		}
}

void uccl_paths_least_anew(struct uccl_paths *s)
{
	for (uint16_t i = 0; i < s->n; i++)
		s->list[i].min_rtt_ns = UCCL_NEVER;
}

void uccl_paths_forget(struct uccl_paths *s)
{
	while (s->control.n)
		control_remove(s, s->control.list[0]);
}

void uccl_paths_unheard(struct uccl_paths *s, uint64_t now)
{
	uccl_tuples_silent(&s->tuples, now);
	if (s->unheard < UINT16_MAX)
		s->unheard++;
	s->control.rolls = 0;
	if (s->unheard > 1)
		uccl_paths_forget(s);
}

static void path_state(struct uccl_paths *s, struct uccl_path *p, enum uccl_path_state state, uint64_t until,
		       uint64_t now)
{
	s->ops->changed(s, (uint16_t)(p - s->list), state, now);
	p->state = (uint8_t)state;
	p->until = until;
	p->losses = 0;
	if (state != UCCL_PATH_ACTIVE)
		p->fresh_seq = p->next_seq;
}

/* The next path of a rail that is tried, after this one, which is the next if there is no other. */
static void trial_path(struct uccl_paths *s, uint16_t path)
{
	uint8_t rail = s->list[path].rail;
	uint16_t last = path;

	do {
		path = (uint16_t)((path + 1) % s->n);
	} while (path != last && (s->list[path].rail != rail || s->list[path].state != UCCL_PATH_QUARANTINE));
	s->rails.trial[rail].path = path;
}

/* When it is tried. PROTOCOL R377 */
static void trial_next(struct uccl_paths *s, uint16_t path, uint64_t rto_ns, uint64_t now)
{
	struct uccl_rail_trial *t = &s->rails.trial[s->list[path].rail];

	t->at = now + uccl_max(uccl_min((now - t->since_ns) / TRIAL_PART, TRIAL_NS), rto_ns / TRIAL_RTO_PART);
	trial_path(s, path);
}

/* Has this rail a path in service, within the budget of 5-tuples? A rail alone always serves. */
static bool rail_serves(const struct uccl_paths *s, uint8_t rail)
{
	uint16_t n = 0;

	if (s->rails.n == 1)
		return true;
	for (uint16_t i = 0; i < s->n && n < s->tuples.width; i++) {
		if (!uccl_path_usable(&s->list[i]))
			continue;
		if (s->list[i].rail == rail)
			return true;
		n++;
	}
	return false;
}

/*
 * The last path of a rail is left: all of them take turns. If the rail returned, and then lost long chunks (`lost`), it
 * was not back. PROTOCOL R401
 */
static void trial_begin(struct uccl_paths *s, uint16_t path, bool lost, uint64_t rto_ns, uint64_t now)
{
	struct uccl_rail_trial *t = &s->rails.trial[s->list[path].rail];

	if (t->at || rail_serves(s, s->list[path].rail))
		return;
	t->doubted = lost && t->unproved;
	t->since_ns = now - (t->doubted ? t->away_ns : 0);
	trial_next(s, path, rto_ns, now);
}

/* `lost`: for long chunks that were lost. */
static void path_quarantine(struct uccl_paths *s, struct uccl_path *p, bool lost, uint64_t rto_ns, uint64_t now)
{
	path_state(s, p, UCCL_PATH_QUARANTINE, now + (rto_ns << p->strikes), now);
	if (p->strikes < STRIKES_MAX)
		p->strikes++;
	s->stats->quarantined++;
	trial_begin(s, (uint16_t)(p - s->list), lost, rto_ns, now);
}

/* The time-out of a path that may be slower than most. */
static uint64_t path_rto(const struct uccl_path *p, uint64_t rto_ns)
{
	uint64_t rto = p->srtt_ns ? p->srtt_ns + 4 * p->rttvar_ns + UCCL_ACK_DELAY_NS : 0;

	return uccl_clamp(rto, rto_ns, UCCL_RTO_MAX_NS);
}

/* `n` losses more; `most` of them in a row are suspicious. */
static void path_losses(struct uccl_paths *s, uint16_t path, uint32_t n, uint32_t most, uint64_t rto_ns,
			uint64_t now)
{
	struct uccl_path *p = &s->list[path];

	p->losses = (uint8_t)uccl_min(p->losses + n, UINT8_MAX);
	if (p->state != UCCL_PATH_ACTIVE || p->losses < most || s->nusable < 2)
		return;
	path_state(s, p, UCCL_PATH_SUSPECT, now + path_rto(p, rto_ns), now);
	control_remove(s, path);
	uccl_paths_probe(s, path);
	uccl_paths_refresh(s);
}

void uccl_paths_overdue(struct uccl_paths *s, uint64_t reported_ns, uint64_t rto_ns, uint64_t now)
{
	s->control.at = reported_ns + rto_ns / 2;
	for (uint16_t i = 0; i < s->n; i++) {
		struct uccl_path *p = &s->list[i];

		if (!p->asks.since_ns || reported_ns < p->asks.since_ns + rto_ns)
			continue;
		uccl_path_asks_end(&p->asks);
		control_remove(s, i);
		/* Reports name twelve paths at a time, so of many one says little. */
		path_losses(s, i, 1, PATH_LOSSES_MAX, rto_ns, now);
	}
}

void uccl_paths_loss(struct uccl_paths *s, uint16_t path, bool silent, uint64_t rto_ns, uint64_t now)
{
	path_losses(s, path, silent ? PATH_LOSSES_MAX : 1, s->nusable < PATHS_MANY ? PATH_LOSSES_MAX : 1, rto_ns,
		    now);
}

void uccl_paths_long_lost(struct uccl_paths *s, uint16_t path, uint32_t len, uint64_t sent_ns, uint64_t rto_ns,
			  uint64_t now)
{
	struct uccl_path *p = &s->list[path];

	if (len <= PATH_LONG || sent_ns < p->long_ns)
		return;
	p->long_ns = now;
	if (p->long_losses < UINT8_MAX)
		p->long_losses++;
	if (p->long_losses < PATH_LONG_LOSSES_MAX || s->nusable < 2 ||
	    (p->state != UCCL_PATH_ACTIVE && p->state != UCCL_PATH_SUSPECT))
		return;
	control_remove(s, path);
	path_quarantine(s, p, true, rto_ns, now);
	uccl_paths_refresh(s);
}

/*
 * The first path of a rail works again: its others are tried at once. One that was only suspected was not away. The
 * answer may be older than what is known of the outage. PROTOCOL R388 R401
 */
static void rail_returns(struct uccl_paths *s, uint8_t rail, uint64_t now)
{
	struct uccl_rail_trial *t = &s->rails.trial[rail];

	if (t->at || t->doubted) {
		t->away_ns = now > t->since_ns ? now - t->since_ns : 0;
		t->unproved = true;
	}
	t->at = 0;
	t->doubted = false;
	for (uint16_t i = 0; i < s->n; i++)
		if (s->list[i].rail == rail && s->list[i].state == UCCL_PATH_QUARANTINE)
			s->list[i].until = now;
}

/* A path of a rail in doubt works again: it shows whether long chunks come through. PROTOCOL R401 */
static void rail_doubted(struct uccl_paths *s, uint16_t path)
{
	struct uccl_rail_trial *t = &s->rails.trial[s->list[path].rail];

	if (t->path == path)
		trial_path(s, path);
	/* There is no other path to try. */
	if (t->path == path)
		t->at = 0;
}

/* A long chunk came through on this rail. */
static void rail_proved(struct uccl_paths *s, uint8_t rail, uint64_t now)
{
	struct uccl_rail_trial *t = &s->rails.trial[rail];

	if (t->doubted) {
		rail_returns(s, rail, now);
		uccl_paths_refresh(s);
	}
	t->unproved = false;
}

void uccl_paths_long_acked(struct uccl_paths *s, uint16_t path, uint32_t len, uint64_t now)
{
	if (len <= PATH_LONG)
		return;
	s->list[path].long_losses = 0;
	if (s->rails.n > 1)
		rail_proved(s, s->list[path].rail, now);
}

void uccl_paths_returns(struct uccl_paths *s, uint16_t path, uint64_t arrived)
{
	struct uccl_path *p = &s->list[path];

	if (p->state != UCCL_PATH_ACTIVE) {
		if (p->state == UCCL_PATH_PROBATION) {
			p->srtt_ns = 0;
			p->min_rtt_ns = UCCL_NEVER;
			if (p->strikes)
				p->strikes--;
		}
		if (s->rails.trial[p->rail].doubted)
			rail_doubted(s, path);
		else if (s->rails.trial[p->rail].at || !rail_serves(s, p->rail))
			rail_returns(s, p->rail, arrived);
		path_state(s, p, UCCL_PATH_ACTIVE, 0, arrived);
		uccl_paths_refresh(s);
	}
	if (!p->control && p->state == UCCL_PATH_ACTIVE)
		control_add(s, path);
}

/* Another label may be another path: one time more that long chunks alone are lost, and it is left. */
static void path_move(struct uccl_paths *s, uint16_t path, uint64_t now)
{
	uccl_paths_reroll(s, path);
	s->list[path].long_losses = PATH_LONG_LOSSES_MAX - 1;
	s->list[path].long_ns = now;
	write_renew(s, path, false, now);
}

/*
 * Quarantine ends: on probation, with a new label if it should not stay where it is, or answers nothing but PROBEs
 * there. Suspicion or probation ends without an answer: quarantine, the longer the more often.
 */
void uccl_paths_expire(struct uccl_paths *s, uint64_t rto_ns, uint64_t now)
{
	for (uint16_t i = 0; i < s->n; i++) {
		struct uccl_path *p = &s->list[i];

		if (uccl_path_usable(p) || now < path_due(s, i))
			continue;
		if (p->state == UCCL_PATH_QUARANTINE) {
			if (s->rails.trial[p->rail].at)
				trial_next(s, i, rto_ns, now);
			if (p->long_losses >= PATH_LONG_LOSSES_MAX || !path_stays(s, i, false))
				path_move(s, i, now);
			path_state(s, p, UCCL_PATH_PROBATION, now + 2 * rto_ns, now);
			uccl_paths_probe(s, i);
		} else {
			path_quarantine(s, p, false, rto_ns, now);
		}
	}
	uccl_paths_refresh(s);
}

uint16_t uccl_paths_of_rail(const struct uccl_paths *s, uint8_t rail, uint16_t *list)
{
	uint16_t n = 0;

	for (uint16_t i = 0; i < s->nusable; i++)
		if (s->list[s->usable[i]].rail == rail)
			list[n++] = s->usable[i];
	return n;
}

uint16_t uccl_paths_next(struct uccl_paths *s)
{
	s->control.rr = (uint16_t)((s->control.rr + 1) % s->nusable);
	return s->usable[s->control.rr];
}

void uccl_paths_keepalive(struct uccl_paths *s, uint64_t now)
{
	/* Going from path to path would take a 5-tuple for each. PROTOCOL R372 R374 */
	if (s->list[s->kept].acked_seq == s->kept_acked) {
		uccl_tuples_silent(&s->tuples, now);
		s->kept = (uint16_t)((s->kept + 1) % s->tuples.reach);
	}
	s->kept_acked = s->list[s->kept].acked_seq;
	uccl_paths_probe(s, s->kept);
}

uint16_t uccl_paths_take_probe(struct uccl_paths *s)
{
	for (uint16_t i = 0; s->probes_due && i < s->n; i++)
		if (s->list[i].probe_due) {
			s->list[i].probe_due = false;
			s->probes_due--;
			return i;
		}
	return UCCL_PATHS_MAX;
}

/*
 * May a path have a new label? It may after this many questions in a row without an answer, as one dead route may carry
 * all labels in use. PROTOCOL R55 R374
 */
static bool label_may(struct uccl_paths *s, uint32_t questions)
{
	return s->tuples.reach == s->n && questions >= uccl_min((s->n + 1u) / 2, ASKED_ENOUGH) + 2 &&
	       uccl_tuples_label(&s->tuples, s->labels);
}

uint16_t uccl_paths_control(struct uccl_paths *s)
{
	if (s->unheard > 1) {
		/* Nothing comes through: any path may be the one that does, and then any label. PROTOCOL R57 R374 */
		s->control.rr = (uint16_t)((s->control.rr + 1) % s->tuples.reach);
		/* Each answer that was lost is worth as many labels as it had packets, however often it is asked. */
		if (s->control.rolls < CONTROL_ROLLS && label_may(s, s->unheard - 1)) {
			s->control.rolls++;
			uccl_paths_reroll(s, s->control.rr);
		}
		return s->control.rr;
	}
	if (s->control.n && ++s->control.turn % CONTROL_OTHERS)
		return uccl_paths_control_next(s);
	return uccl_paths_next(s);
}

uint16_t uccl_paths_control_warm(struct uccl_paths *s)
{
	if (!uccl_paths_warm_works(s))
		return uccl_paths_control(s);
	return s->list[s->warm].control || !s->control.n ? s->warm : s->control.list[0];
}

/*
 * The quickest of those that the peer reported lately; `working`: and that lost nothing since. UCCL_PATHS_MAX: there is
 * none.
 */
static uint16_t paths_quickest(const struct uccl_paths *s, bool working)
{
	uint16_t best = UCCL_PATHS_MAX;

	for (uint8_t i = 0; i < s->control.n; i++) {
		const struct uccl_path *p = &s->list[s->control.list[i]];

		if (p->packet_rtt_ns && (!working || (uccl_path_usable(p) && !p->losses)) &&
		    (best == UCCL_PATHS_MAX || p->packet_rtt_ns < s->list[best].packet_rtt_ns))
			best = s->control.list[i];
	}
	return best;
}

uint16_t uccl_paths_choose_warm(struct uccl_paths *s)
{
	const struct uccl_path *p;
	uint16_t best;

	while (s->control.n < WARM_TRIES && s->warm_tried < WARM_TRIES && s->warm_tried < s->n) {
		p = &s->list[s->warm_tried++];
		if (uccl_path_usable(p) && !p->losses)
			return (uint16_t)(p - s->list);
	}
	best = paths_quickest(s, true);
	if (best != UCCL_PATHS_MAX &&
	    (!uccl_paths_warm_works(s) || s->list[s->warm].packet_rtt_ns > QUICK_TIMES * s->list[best].packet_rtt_ns))
		s->warm = best;
	return uccl_paths_warm_works(s) ? s->warm : UCCL_PATHS_MAX;
}

uint16_t uccl_paths_quick(struct uccl_paths *s)
{
	uint16_t path = uccl_paths_control(s), best = paths_quickest(s, false);
	bool slow = best != UCCL_PATHS_MAX &&
		    s->list[path].packet_rtt_ns > QUICK_TIMES * s->list[best].packet_rtt_ns;

	return slow ? best : path;
}

uint16_t uccl_paths_control_next(struct uccl_paths *s)
{
	s->control.next = (uint8_t)((s->control.next + 1) % s->control.n);
	return s->control.list[s->control.next];
}

static void ask_on(struct uccl_paths *s, uint16_t path, uint32_t unanswered)
{
	if (label_may(s, unanswered))
		uccl_paths_reroll(s, path);
	uccl_paths_probe(s, path);
}

/* Another path than this one, if possible one that has a 5-tuple already. PROTOCOL R372 */
static uint16_t paths_other_known(struct uccl_paths *s, uint16_t path)
{
	uint16_t other = s->control.n ? uccl_paths_control_next(s) : path;

	if (other == path && s->control.n > 1)
		other = uccl_paths_control_next(s);
	return other == path ? uccl_paths_next(s) : other;
}

void uccl_paths_ask(struct uccl_paths *s, uint16_t path, uint32_t unanswered, uint64_t now)
{
	uint16_t reach;

	uccl_tuples_silent(&s->tuples, now);
	reach = s->tuples.reach;
	if (!unanswered) {
		uccl_paths_probe(s, path);
		/* If the path is dead, another one's answer tells of it: if possible that which answered last. */
		if (s->alive != path && uccl_path_usable(&s->list[s->alive]))
			uccl_paths_probe(s, s->alive);
		else
			uccl_paths_probe(s, paths_other_known(s, path));
		return;
	}
	/* First where the last answer came from, and on another one that has a 5-tuple already. */
	if (unanswered == 1 && s->control.n > 1) {
		uccl_paths_probe(s, s->alive);
		uccl_paths_probe(s, paths_other_known(s, s->alive));
		uccl_paths_forget(s);
		return;
	}
	uccl_paths_forget(s);
	path = unanswered == 1 && s->alive != path ? s->alive : (uint16_t)((path + unanswered) % reach);
	ask_on(s, path, unanswered);
	if (reach > 1)
		ask_on(s, (uint16_t)((path + reach / 2) % reach), unanswered);
}

uint32_t uccl_paths_writes_allowed(const struct uccl_paths *s, uint32_t most, uint64_t now)
{
	uint32_t n = 0;

	for (uint16_t i = 0; i < s->nusable; i++) {
		const struct uccl_path *p = &s->list[s->usable[i]];

		if (p->writes.state == UCCL_WRITE_ON)
			return most;
		n += uccl_path_writes_may(&p->writes, now);
	}
	return (uint32_t)uccl_min(n, most);
}

uint16_t uccl_paths_for_write(struct uccl_paths *s, uint16_t path, uint64_t now)
{
	for (uint16_t i = 0; i <= s->nusable; i++) {
		if (uccl_path_writes_may(&s->list[path].writes, now))
			return path;
		s->write_rr = (uint16_t)((s->write_rr + 1) % s->nusable);
		path = s->usable[s->write_rr];
	}
	return UCCL_PATHS_MAX;
}

void uccl_paths_set_writable(struct uccl_paths *s, uint16_t path, bool on, uint64_t rto_ns, uint64_t now)
{
	uccl_path_writes_ready(&s->list[path].writes, on, rto_ns, now);
}

const char *uccl_paths_check(const struct uccl_paths *s)
{
	uint32_t due = 0, control = 0, active = 0;

	for (uint16_t i = 0; i < s->n; i++) {
		const struct uccl_path *p = &s->list[i];

		due += p->probe_due;
		control += p->control;
		active += p->state == UCCL_PATH_ACTIVE;
		if (p->state != UCCL_PATH_ACTIVE && (p->control || path_due(s, i) < s->at))
			return "a path out of service is used, or has no timer";
	}
	for (uint8_t i = 0; i < s->control.n; i++)
		if (!s->list[s->control.list[i]].control)
			return "list of paths for control";
	for (uint8_t rail = 0; rail < s->rails.n; rail++) {
		const struct uccl_path *p = &s->list[s->rails.trial[rail].path];

		if (s->rails.trial[rail].at && (p->rail != rail || uccl_path_usable(p)))
			return "no path of a rail is tried";
	}
	if (due != s->probes_due || control != s->control.n)
		return "count of probes or of paths for control";
	if (!s->nusable || (active && uccl_min(active, s->tuples.width) != s->nusable))
		return "paths in service";
	return NULL;
}

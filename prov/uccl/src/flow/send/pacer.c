/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/pacer.h"

#include <string.h>

#include "base/units.h"

/*
 * Share of the link, in thousandths, that is handed out as payload. Headers of RoCE take 2.0 % at 4 KiB a packet, a
 * sender's own credits and acknowledgements 0.5 %; the rest empties what speculation, retransmissions and collisions
 * have queued (UCCL's EFA pacer leaves 1 %).
 */
#define PACER_SHARE 970
/* A progress loop that was late catches up by so many quanta at most: the queue that this makes. */
#define PACER_LATE 4
/*
 * So far ahead the link is taken at most. More that is sent unsolicited at once fits into no queue, is lost, and its
 * time would pass unused: 1.2 MB at 400 Gb/s. On a slow link it is one quantum that was handed out.
 */
#define PACER_AHEAD_NS (25 * UCCL_NS_PER_US)
/* A sender that was not heard for so long has its grants written off: twenty round trips of a slow fabric. */
#define PACER_SILENCE_NS (500 * UCCL_NS_PER_US)
/* So many windows may be lost beyond what comes, and such senders have one grant in so many. PROTOCOL R322 */
#define WASTE_WINDOWS 2
#define WASTE_TURNS 16
/* So many quiet senders may begin freely: the neighbours in a ring or tree. PROTOCOL R347 */
#define PACER_QUIET 2
#define PS_PER_NS 1000

void uccl_pacer_init(struct uccl_pacer *p, uint64_t link_bps)
{
	memset(p, 0, sizeof(*p));
	p->round = 1;
	for (int i = 0; i < UCCL_PULL_NONE; i++)
		TAILQ_INIT(&p->lists[i]);
	TAILQ_INIT(&p->owing);
	TAILQ_INIT(&p->busy);
	TAILQ_INIT(&p->kept);
	uccl_pacer_link(p, link_bps);
}

void uccl_pacer_fini(struct uccl_pacer *p)
{
	uccl_heap_fini(&p->ranked);
}

void uccl_pacer_rank(struct uccl_pacer *p, uint64_t (*rank)(const struct uccl_sender *s))
{
	p->rank = rank;
}

void uccl_pacer_link(struct uccl_pacer *p, uint64_t link_bps)
{
	p->bps = link_bps / 1000 * PACER_SHARE;
}

static uint64_t pacer_ps(const struct uccl_pacer *p, uint64_t bytes)
{
	return bytes * 8 * UCCL_NS_PER_S / (p->bps / PS_PER_NS);
}

static uint64_t pull_ahead(const struct uccl_pull *u)
{
	return u->granted > u->received ? u->granted - u->received : 0;
}

/* Of one grant to somebody who wants nothing. */
static uint64_t pull_back(const struct uccl_pull *u)
{
	return uccl_min(u->cfg.quantum, u->cfg.idle);
}

static void pull_list(struct uccl_pacer *p, struct uccl_pull *u, uint8_t list)
{
	if (u->list == list)
		return;
	if (u->list != UCCL_PULL_NONE)
		TAILQ_REMOVE(&p->lists[u->list], u, link);
	u->list = list;
	if (list != UCCL_PULL_NONE)
		TAILQ_INSERT_TAIL(&p->lists[list], u, link);
}

/* Until the next quantum may be handed out. (Times in ps would overflow after 213 days.) */
static uint64_t pacer_wait_ps(const struct uccl_pacer *p, uint64_t now)
{
	return p->next_ns >= now ? (p->next_ns - now) * PS_PER_NS + p->next_ps : 0;
}

/* The bytes that will come for certain take their time on the link. PROTOCOL R61 */
static void pacer_charge(struct uccl_pacer *p, struct uccl_pull *u, uint64_t now)
{
	uint64_t sure = uccl_max(u->received, uccl_min(u->demand, u->granted));
	uint64_t bytes = sure > u->charged ? sure - u->charged : 0, quantum, catch_up, behind, ahead, ps;

	u->charged += bytes;
	if (!p->bps || !bytes)
		return;
	quantum = pacer_ps(p, u->cfg.quantum);
	catch_up = PACER_LATE * quantum;
	behind = p->next_ns < now ? now - p->next_ns : 0;
	if (behind > catch_up / PS_PER_NS + 1 || (behind && behind * PS_PER_NS - p->next_ps > catch_up)) {
		p->next_ns = now - (catch_up + PS_PER_NS - 1) / PS_PER_NS;
		p->next_ps = (uint32_t)((PS_PER_NS - catch_up % PS_PER_NS) % PS_PER_NS);
	}
	ps = p->next_ps + pacer_ps(p, bytes);
	p->next_ns += ps / PS_PER_NS;
	p->next_ps = (uint32_t)(ps % PS_PER_NS);
	ahead = uccl_max(PACER_AHEAD_NS * PS_PER_NS, quantum);
	if (pacer_wait_ps(p, now) > ahead) {
		p->next_ns = now + ahead / PS_PER_NS;
		p->next_ps = (uint32_t)(ahead % PS_PER_NS);
	}
}

/* Its place among those that want more. PROTOCOL R199 */
static void pull_rank(struct uccl_pacer *p, struct uccl_pull *u)
{
	struct uccl_sender s = {
		.left = uccl_pull_rank_left(&u->rank, u->received, u->demand),
		.demand = u->demand > u->received ? u->demand - u->received : 0,
		.ahead = pull_ahead(u),
		.turn = u->rank.turn,
		.lost = u->rtx,
	};

	uccl_pull_rank_set(&u->rank, &p->ranked, p->rank(&s), u->list == UCCL_PULL_ACTIVE);
}

/* Next to nothing comes of what it is granted. PROTOCOL R322 */
static bool pull_wastes(const struct uccl_pull *u)
{
	return u->wasted > WASTE_WINDOWS * u->cfg.window;
}

/* Where it belongs now, and what of its grants counts. */
static void pull_sort(struct uccl_pacer *p, struct uccl_pull *u)
{
	bool off = u->silent || uccl_pull_free(u);
	uint64_t ahead, extra = 0;

	/* Who waits for what it asked for gets grants: they say once more what may have been lost. PROTOCOL R375 */
	if (u->cfg.renews && u->demand <= u->received)
		u->granted = uccl_max(u->granted, u->received + u->cfg.idle);
	ahead = pull_ahead(u);
	if (ahead > u->cfg.idle && !off)
		extra = ahead - u->cfg.idle;

	p->out += extra - u->counted;
	u->counted = extra;
	if (u->owes != (extra > 0)) {
		u->owes = extra > 0;
		if (u->owes)
			TAILQ_INSERT_TAIL(&p->owing, u, owing);
		else
			TAILQ_REMOVE(&p->owing, u, owing);
	}
	if (u->tell)
		pull_list(p, u, UCCL_PULL_TELL);
	else if (off || ahead + u->cfg.quantum > u->cfg.window)
		pull_list(p, u, UCCL_PULL_NONE);
	else if (u->demand > u->granted && pull_wastes(u))
		pull_list(p, u, UCCL_PULL_IDLE);
	else if (u->demand > u->granted)
		pull_list(p, u, u->rtx && u->served != p->round && !p->rank ? UCCL_PULL_RTX : UCCL_PULL_ACTIVE);
	else if (ahead + pull_back(u) <= u->cfg.idle)
		pull_list(p, u, UCCL_PULL_IDLE);
	else
		pull_list(p, u, UCCL_PULL_NONE);
	if (p->rank)
		pull_rank(p, u);
}

/* Convergence */

/* Held ones get their idle window on top if nothing of theirs is under way. */
static void pull_turn(struct uccl_pacer *p, struct uccl_pull *u, uint64_t window)
{
	u->turn++;
	u->tell = true;
	u->answered = false;
	if (!uccl_pull_free(u))
		u->granted = uccl_max(u->granted, u->received + window);
	pull_sort(p, u);
}

/* A quiet one is free: it stays so while few are busy. */
static void pacer_keep(struct uccl_pacer *p, struct uccl_pull *u)
{
	p->nkept++;
	TAILQ_INSERT_TAIL(&p->kept, u, busy);
}

static void pacer_unkeep(struct uccl_pacer *p, struct uccl_pull *u)
{
	if (u->is_busy || !uccl_pull_free(u))
		return;
	TAILQ_REMOVE(&p->kept, u, busy);
	p->nkept--;
}

static void pacer_hold(struct uccl_pacer *p, struct uccl_pull *u)
{
	pacer_unkeep(p, u);
	pull_turn(p, u, u->cfg.idle);
}

/* All that may send freely, busy or not, do not converge. PROTOCOL R347 */
static void pacer_few(struct uccl_pacer *p)
{
	while (p->nkept && (p->nkept > PACER_QUIET || p->nkept + p->nbusy >= p->senders))
		pacer_hold(p, TAILQ_FIRST(&p->kept));
}

/* Quiet ones of which nothing has come yet are held. */
static void pacer_unproven(struct uccl_pacer *p)
{
	struct uccl_pull *u, *next;

	for (u = TAILQ_FIRST(&p->kept); u; u = next) {
		next = TAILQ_NEXT(u, busy);
		if (!u->received)
			pacer_hold(p, u);
	}
}

static void pull_busy(struct uccl_pacer *p, struct uccl_pull *u, uint64_t now)
{
	pacer_unkeep(p, u);
	if (u->is_busy)
		TAILQ_REMOVE(&p->busy, u, busy);
	else
		p->nbusy++;
	u->is_busy = true;
	u->busy_ns = now;
	TAILQ_INSERT_TAIL(&p->busy, u, busy);
}

static void pull_calm(struct uccl_pacer *p, struct uccl_pull *u)
{
	if (!u->is_busy)
		return;
	TAILQ_REMOVE(&p->busy, u, busy);
	u->is_busy = false;
	p->nbusy--;
	u->base = u->received;
	if (uccl_pull_free(u))
		pacer_keep(p, u);
	pacer_few(p);
}

/* All that are busy are let go or held. */
static void pacer_turn(struct uccl_pacer *p, bool converged)
{
	struct uccl_pull *u;

	p->converged = converged;
	TAILQ_FOREACH(u, &p->busy, busy)
		if (uccl_pull_free(u) == converged)
			pull_turn(p, u, 0);
}

/* Who has been quiet does not count any more, but for those that wait for their grants. PROTOCOL R65 */
static void pacer_calm(struct uccl_pacer *p, uint64_t now)
{
	struct uccl_pull *u;

	while ((u = TAILQ_FIRST(&p->busy)) && now - u->busy_ns >= u->cfg.quiet_ns) {
		if (u->demand > u->received && !u->silent && !uccl_pull_free(u))
			pull_busy(p, u, now);
		else
			pull_calm(p, u);
	}
	if (p->converged && p->nbusy < p->senders)
		pacer_turn(p, false);
}

/*
 * What it sent before a pause says nothing of how busy it is: one that sends a little now and then never is, and hears
 * of no turns.
 */
static void pull_rested(struct uccl_pull *u, uint64_t now)
{
	if (!u->is_busy && now - u->heard_ns >= u->cfg.quiet_ns)
		u->base = u->received;
}

/* Something new has come of it. PROTOCOL R65 */
static void pacer_converge(struct uccl_pacer *p, struct uccl_pull *u, uint64_t now)
{
	bool beyond;

	if (!u->is_busy && u->demand <= u->granted && u->received - u->base <= u->cfg.idle)
		return;
	pull_busy(p, u, now);
	pacer_few(p);
	if (!p->converged && p->nbusy >= p->senders)
		pacer_turn(p, true);
	else if (uccl_pull_free(u) == p->converged)
		pull_turn(p, u, 0);
	if (uccl_pull_free(u))
		return;
	/*
	 * What was under way when it was held needs no grant. If it goes on beyond that, it has not heard of its turn.
	 * As long as it sends what it may, nothing tells whether it has.
	 */
	beyond = u->received > u->granted;
	u->granted = uccl_max(u->granted, u->received);
	u->tell |= beyond && !u->answered && now - u->turn_sent_ns >= u->cfg.quiet_ns;
}

int uccl_pull_init(struct uccl_pacer *p, struct uccl_pull *u, const struct uccl_pull_cfg *cfg, uint64_t now)
{
	int rc = p->rank ? uccl_heap_reserve(&p->ranked, p->pulls + 1) : 0;

	if (rc)
		return rc;
	memset(u, 0, sizeof(*u));
	p->pulls++;
	uccl_pull_rank_init(&u->rank);
	u->cfg = *cfg;
	u->granted = cfg->idle;
	u->heard_ns = now;
	u->list = UCCL_PULL_NONE;
	/* Two that answer at once must not wait for each other: room for one that does not, and the others. */
	p->out_max = uccl_max(p->out_max, 4 * (cfg->window - cfg->idle));
	p->senders = cfg->senders;
	/* So few peers cannot converge. Where there are more, only those that were alone before begin freely. */
	if (p->pulls < p->senders && p->nkept < PACER_QUIET && p->nkept + p->nbusy + 1 < p->senders) {
		pull_turn(p, u, 0);
		pacer_keep(p, u);
	} else if (p->pulls == p->senders) {
		pacer_unproven(p);
	}
	return 0;
}

void uccl_pull_fini(struct uccl_pacer *p, struct uccl_pull *u)
{
	pull_calm(p, u);
	pacer_unkeep(p, u);
	u->tell = false;
	u->silent = true;
	pull_sort(p, u);
	p->pulls--;
}

/* May it be granted something beside the others that have grants under way? PROTOCOL R199 */
static bool pull_may(const struct uccl_pacer *p, const struct uccl_pull *u)
{
	const struct uccl_pull *o;
	uint32_t before = 0;

	if (!u->cfg.at_once || u->owes)
		return true;
	/* Who has been granted all that it wants is as good as through. */
	TAILQ_FOREACH(o, &p->owing, owing)
		before += o->rank.value <= u->rank.value && o->demand > o->granted;
	return before < u->cfg.at_once;
}

/* Who of those that want more is next. PROTOCOL R199 */
static struct uccl_pull *pacer_ranked(const struct uccl_pacer *p)
{
	const struct uccl_timer *t = uccl_heap_min(&p->ranked);
	struct uccl_pull *u = t ? uccl_container_of(t, struct uccl_pull, rank.place) : NULL;

	if (!u || (u->cfg.fair && (p->grants + 1) % u->cfg.fair == 0))
		return TAILQ_FIRST(&p->lists[UCCL_PULL_ACTIVE]);
	return pull_may(p, u) ? u : NULL;
}

static struct uccl_pull *pacer_first(const struct uccl_pacer *p)
{
	struct uccl_pull *u = NULL;

	/* Mostly nobody, and each poll asks. */
	if (TAILQ_EMPTY(&p->lists[UCCL_PULL_TELL]) && TAILQ_EMPTY(&p->lists[UCCL_PULL_RTX]) &&
	    TAILQ_EMPTY(&p->lists[UCCL_PULL_ACTIVE]) && TAILQ_EMPTY(&p->lists[UCCL_PULL_IDLE]))
		return NULL;
	/* Last, but not for ever. */
	if ((p->grants + 1) % WASTE_TURNS == 0 && TAILQ_EMPTY(&p->lists[UCCL_PULL_TELL])) {
		u = TAILQ_FIRST(&p->lists[UCCL_PULL_IDLE]);
		if (u && u->demand <= u->granted)
			u = NULL;
	}
	for (int i = 0; !u && i < UCCL_PULL_NONE; i++) {
		u = TAILQ_FIRST(&p->lists[i]);
		if (u && i == UCCL_PULL_ACTIVE && p->rank)
			u = pacer_ranked(p);
	}
	return u;
}

void uccl_pacer_heard(struct uccl_pacer *p, struct uccl_pull *u, uint64_t received, uint64_t demand, bool lost,
		      uint64_t now)
{
	bool fresh = u->cfg.senders > 1 && (received > u->received || demand > u->demand);

	/* Nobody waited and nothing was to come: that was no lateness, so there is nothing to catch up. PROTOCOL R61 */
	if (p->next_ns < now && !p->out && !pacer_first(p)) {
		p->next_ns = now;
		p->next_ps = 0;
	}
	if (fresh) {
		pacer_calm(p, now);
		pull_rested(u, now);
		u->answered |= demand > u->demand;
	}
	/* What was lost without a grant took no room here, and none is to be made up for it. PROTOCOL R61 */
	if (lost) {
		u->granted = uccl_max(u->granted, received);
		u->charged = uccl_max(u->charged, received);
	}
	if (received > u->received && lost)
		u->wasted += received - u->received;
	else if (received > u->received)
		u->wasted -= uccl_min(u->wasted, received - u->received);
	u->received = uccl_max(u->received, received);
	u->demand = uccl_max(u->demand, demand);
	u->rtx |= lost;
	u->silent = false;
	u->heard_ns = now;
	if (fresh)
		pacer_converge(p, u, now);
	pacer_charge(p, u, now);
	/* The owing ones stay in the order in which they were heard. */
	if (u->owes) {
		TAILQ_REMOVE(&p->owing, u, owing);
		TAILQ_INSERT_TAIL(&p->owing, u, owing);
	}
	pull_sort(p, u);
}

void uccl_pacer_asked(struct uccl_pacer *p, struct uccl_pull *u, uint64_t demand, uint64_t now)
{
	bool answered = u->answered;

	uccl_pacer_heard(p, u, u->received, demand, false, now);
	u->answered &= answered;
}

/* PROTOCOL R62 */
static void pacer_write_off(struct uccl_pacer *p, uint64_t now)
{
	struct uccl_pull *u;

	while ((u = TAILQ_FIRST(&p->owing)) && now - u->heard_ns >= PACER_SILENCE_NS) {
		u->silent = true;
		p->expired++;
		pull_sort(p, u);
	}
}

/* PROTOCOL R61 */
struct uccl_pull *uccl_pacer_next(struct uccl_pacer *p, uint64_t now)
{
	struct uccl_pull *u;

	pacer_write_off(p, now);
	if (p->senders > 1)
		pacer_calm(p, now);
	u = TAILQ_FIRST(&p->lists[UCCL_PULL_TELL]);
	if (u) {
		u->tell = false;
		u->turn_sent_ns = now;
		pull_sort(p, u);
		return u;
	}
	u = pacer_first(p);
	if (!u || p->out >= p->out_max || pacer_wait_ps(p, now))
		return NULL;
	/* All that were there had their turn: it is at the head of its list again. */
	if (u->served == p->round)
		p->round++;
	u->served = p->round;
	u->granted += u->demand <= u->granted ? pull_back(u) : u->cfg.quantum;
	pacer_charge(p, u, now);
	uccl_pull_rank_turn(&u->rank, ++p->grants);
	u->rtx = false;
	/* The end of its list, whichever that is now. */
	pull_list(p, u, UCCL_PULL_NONE);
	pull_sort(p, u);
	return u;
}

uint64_t uccl_pacer_expiry(const struct uccl_pacer *p, uint64_t now)
{
	const struct uccl_pull *owing = TAILQ_FIRST(&p->owing), *busy = TAILQ_FIRST(&p->busy);
	uint64_t at = UCCL_NEVER;

	if (!TAILQ_EMPTY(&p->lists[UCCL_PULL_TELL]))
		return now;
	/* Some may have to be held, or let go. */
	if (busy || p->converged)
		at = busy ? uccl_max(now, busy->busy_ns + busy->cfg.quiet_ns) : now;
	if (pacer_first(p) && p->out < p->out_max)
		at = uccl_min(at, uccl_max(now, p->next_ns + !!p->next_ps));
	/* Somebody silent may be all that holds it up. */
	if (owing)
		at = uccl_min(at, owing->heard_ns + PACER_SILENCE_NS);
	return at;
}

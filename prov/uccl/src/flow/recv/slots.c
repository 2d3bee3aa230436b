/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See slots.h. Peers may send packets of different sizes, so a slot costs a part of the queue: QUEUE divided by the
 * number of its peer's packets that the queue holds.
 */
#include "flow/recv/slots.h"

#include <string.h>

#include "base/units.h"
#include "flow/wire/wire.h"

#define QUEUE ((uint64_t)1 << 32)
/* So much is granted in all: acknowledgements, and what was taken for lost too early, need places, too. */
#define GRANTED (QUEUE / 4 * 3)
/* Of that, the part of tokens; and what only those get who have less than a token. */
#define TOKENS (GRANTED / 4)
#define RESERVE (QUEUE / 16)
/* More than that is never granted, but to those who waited long: as much as RESERVE. */
#define GRANTED_MAX (QUEUE - RESERVE)
/* So much, and not more, is for one slot of each peer. */
#define FLOORS_MAX (GRANTED_MAX - (GRANTED - TOKENS))
/* A peer that waits for so long is starved: peers that have slots do not answer. */
#define STARVED_NS UCCL_GRANT_TURN_NS
/* The sender of a turn may have to wait for others at its host, so it has time, unless a peer waited for so long. */
#define PATIENCE_NS (60 * UCCL_NS_PER_MS)
/* A peer that was told less, and asks so often without meeting that, is deaf: an honest one asks once a time-out. */
#define DEAF 8
/* What a handshake grants at most: many may connect at once, and some never say anything. */
#define FIRST_SLOTS 16
/* A shortage ends when no peer lacked slots for so long. */
#define SHORT_NS UCCL_GRANT_QUIET_NS
/* So many quiet peers are looked at in a row, and one is asked again after so long, then twice as long, up to 10 s. */
#define LOOKS 16
#define LOOK_NS UCCL_NS_PER_MS
#define ASK_NS (10 * UCCL_NS_PER_MS)
#define ASK_DOUBLINGS 10
/* A part that is off by less than one of so many is right. */
#define NEARLY 8

void uccl_slots_init(struct uccl_slots *s)
{
	memset(s, 0, sizeof(*s));
	TAILQ_INIT(&s->busy);
	TAILQ_INIT(&s->quiet);
	TAILQ_INIT(&s->waiting);
	s->ask_at = UCCL_NEVER;
}

/*
 * If one slot for each is more than tokens may take, it is granted all the same: busy peers need the rest. As long as
 * everything fits.
 */
static uint64_t slots_granted(const struct uccl_slots *s)
{
	return uccl_clamp(GRANTED - TOKENS + s->floors, GRANTED, GRANTED_MAX);
}

/* Not every peer can have one: those who might send something, but do not, take nothing from those who do. */
static bool slots_scarce(const struct uccl_slots *s)
{
	return s->npeers > 1 && s->floors > FLOORS_MAX;
}

static uint64_t slots_left(const struct uccl_slots *s, uint64_t reserve)
{
	uint64_t all = slots_granted(s) - reserve;

	return all - uccl_min(s->used, all);
}

static uint64_t slots_token(const struct uccl_slots *s)
{
	return uccl_clamp(s->floors, TOKENS, FLOORS_MAX) / s->npeers;
}

/* Somebody lacks a slot, or would if it had something to send. */
static bool slots_pressed(const struct uccl_slots *s)
{
	return s->nwaiting || (slots_scarce(s) && (s->quiet_used > TOKENS || !slots_left(s, RESERVE)));
}

/*
 * Can it have its first slot now? In a queue so short that one slot is more than may be granted there is one all the
 * same. PROTOCOL R177
 */
static bool slots_first(const struct uccl_slots *s, const struct uccl_grant *g, bool starved)
{
	uint64_t all = GRANTED_MAX + (starved ? uccl_max(RESERVE, g->share.first_cost) : 0);

	return !s->used || s->used + g->share.first_cost <= uccl_min(all, QUEUE);
}

/* Its part if it is busy, in the unit of cost. Who waits in the line is about to be. */
static uint64_t grant_part(const struct uccl_grant *g)
{
	const struct uccl_slots *s = g->of;
	uint32_t active = s->nbusy + s->nwaiting;
	uint64_t all = slots_granted(s) - RESERVE, tokens = slots_token(s) * (s->npeers - active);

	if (slots_scarce(s))
		tokens = uccl_min(tokens, TOKENS);
	return (all - uccl_min(tokens, all)) * 4 / (4 * uccl_max(active, 1) + (s->npeers > active));
}

static void grant_parts(struct uccl_grant *g)
{
	const struct uccl_slots *s = g->of;

	if (g->share.change != s->change)
		uccl_grant_share_set(&g->share, slots_token(s), grant_part(g), s->change);
}

/* What counts of so many slots. */
static uint64_t grant_cost(const struct uccl_grant *g, uint32_t told)
{
	return g->written_off ? 0 : uccl_grant_share_cost(&g->share, told, g->overbooked);
}

/* So many more slots fit into what is left. */
static uint32_t grant_fits(const struct uccl_grant *g, uint64_t left)
{
	return uccl_grant_share_fits(&g->share, g->believed, left);
}

/* It may believe to have so many from now on. */
static void grant_told(struct uccl_grant *g, uint32_t told)
{
	struct uccl_slots *s = g->of;
	uint64_t was = grant_cost(g, g->believed), is = grant_cost(g, told);

	s->used += is - was;
	if (!g->busy)
		s->quiet_used += is - was;
	g->believed = told;
}

/* What it was told counts no more, or again. PROTOCOL R135 R320 */
static void grant_write_off(struct uccl_grant *g, bool off)
{
	uint32_t told = g->believed;

	if (g->written_off == off)
		return;
	grant_told(g, 0);
	g->written_off = off;
	grant_told(g, told);
}

/* Last in the list where it belongs. */
static void grant_list(struct uccl_grant *g, bool busy)
{
	struct uccl_slots *s = g->of;
	uint64_t used = grant_cost(g, g->believed);

	TAILQ_REMOVE(g->busy ? &s->busy : &s->quiet, g, link);
	TAILQ_INSERT_TAIL(busy ? &s->busy : &s->quiet, g, link);
	if (g->busy == busy)
		return;
	s->change++;
	s->nbusy += busy ? 1 : -1;
	s->quiet_used += busy ? -used : used;
	g->busy = busy;
}

/* Something came back: who is first in the line may have it. */
static void slots_freed(struct uccl_slots *s)
{
	if (s->nwaiting)
		s->ask_at = 0;
}

/* PROTOCOL R135 R320 */
void uccl_slots_write_off(struct uccl_grant *g)
{
	grant_write_off(g, true);
	slots_freed(g->of);
}

static void slots_calm(struct uccl_slots *s, uint64_t now)
{
	struct uccl_grant *g;

	while ((g = TAILQ_FIRST(&s->busy)) && uccl_grant_need_over(&g->need, now)) {
		g->ask_at = 0;
		g->asks = 0;
		grant_list(g, false);
	}
}

static void line_enter(struct uccl_grant *g, uint64_t now)
{
	struct uccl_slots *s = g->of;

	if (g->waits)
		return;
	grant_list(g, false);
	g->waits = true;
	g->wait_ns = now;
	TAILQ_INSERT_TAIL(&s->waiting, g, wait_link);
	s->nwaiting++;
	s->change++;
}

static void line_leave(struct uccl_grant *g)
{
	struct uccl_slots *s = g->of;

	if (!g->waits)
		return;
	g->waits = false;
	TAILQ_REMOVE(&s->waiting, g, wait_link);
	s->nwaiting--;
	s->change++;
}

/* Of packets of which the queue holds so many. */
static uint64_t slot_cost(uint32_t room)
{
	return QUEUE / uccl_max(room, 1);
}

void uccl_slots_open(struct uccl_slots *s, struct uccl_grant *g, uint32_t room, uint32_t max_slots)
{
	uint64_t left;
	uint32_t least;

	memset(g, 0, sizeof(*g));
	g->of = s;
	g->share.max_slots = (uint32_t)uccl_clamp(max_slots, 1, UCCL_SLOTS_MAX);
	uccl_grant_share_price(&g->share, slot_cost(room), slot_cost(room));
	uccl_grant_need_init(&g->need);
	s->npeers++;
	s->change++;
	s->floors += g->share.first_cost;
	TAILQ_INSERT_TAIL(&s->quiet, g, link);
	grant_parts(g);
	/* Those who only connect have no more than all tokens, or they would take it from who is busy. */
	left = uccl_min(TOKENS - uccl_min(s->quiet_used, TOKENS), s->nwaiting ? 0 : slots_left(s, 0));
	/* Beyond that one for each, while everybody can have one. */
	least = !s->nwaiting && (!slots_scarce(s) || !s->used) && slots_first(s, g, false);
	grant_told(g, (uint32_t)uccl_clamp(grant_fits(g, left), least, uccl_min(g->share.token, FIRST_SLOTS)));
	g->slots = g->believed;
}

/* PROTOCOL R180 */
void uccl_slots_least(struct uccl_grant *g)
{
	g->need.never_zero = true;
	line_leave(g);
	if (!g->believed) {
		g->overbooked = !slots_first(g->of, g, false);
		grant_told(g, 1);
	}
	g->slots = uccl_max(g->slots, 1);
}

static void grant_price(struct uccl_grant *g, uint64_t cost, uint64_t first_cost, uint32_t times)
{
	struct uccl_slots *s = g->of;
	uint32_t told = g->believed * times;

	grant_told(g, 0);
	s->floors -= g->share.first_cost;
	uccl_grant_share_price(&g->share, cost, first_cost);
	g->share.max_slots = (uint32_t)uccl_min((uint64_t)g->share.max_slots * times, UCCL_SLOTS_MAX);
	s->floors += g->share.first_cost;
	s->change++;
	g->slots *= times;
	grant_told(g, told);
	slots_freed(s);
}

/* PROTOCOL R247 */
void uccl_slots_resize(struct uccl_grant *g, uint32_t room, uint32_t usual)
{
	grant_price(g, slot_cost(room), slot_cost(uccl_max(usual, room)), 1);
}

/* PROTOCOL R376 */
void uccl_slots_resize_units(struct uccl_grant *g, uint32_t units, uint32_t usual, uint32_t packet)
{
	grant_price(g, slot_cost(units), slot_cost(usual), packet);
}

void uccl_slots_close(struct uccl_grant *g)
{
	struct uccl_slots *s = g->of;

	if (!s)
		return;
	line_leave(g);
	grant_list(g, false);
	grant_told(g, 0);
	TAILQ_REMOVE(&s->quiet, g, link);
	s->floors -= g->share.first_cost;
	s->npeers--;
	s->change++;
	slots_freed(s);
	g->of = NULL;
}

/* From now on, and for a while, everybody gives back what is too much. */
static void slots_short(struct uccl_slots *s, uint64_t now)
{
	s->short_ns = now;
	s->ask_at = uccl_min(s->ask_at, now);
}

/* Whoever is first in the line has waited for so long. */
static bool slots_waited(const struct uccl_slots *s, uint64_t ns, uint64_t now)
{
	const struct uccl_grant *first = TAILQ_FIRST(&s->waiting);

	return first && now - first->wait_ns >= ns;
}

static bool slots_starved(const struct uccl_slots *s, uint64_t now)
{
	return slots_waited(s, STARVED_NS, now);
}

/* May it go on with its turn though others have to wait? */
static bool grant_has_turn(const struct uccl_grant *g, uint64_t now)
{
	return uccl_grant_turn_lasts(&g->turns, slots_waited(g->of, PATIENCE_NS, now), g->need.quiet_ns, now);
}

/* What it should have now. PROTOCOL R178 */
static uint32_t grant_want(const struct uccl_grant *g, uint64_t now)
{
	const struct uccl_slots *s = g->of;
	bool more = g->need.has_more || g->need.never_zero, turns = g->share.too_small || slots_starved(s, now);
	uint32_t want = g->busy ? g->share.fair : g->share.token;

	if (!slots_pressed(s))
		return want;
	if (!more || (turns ? s->nwaiting && !grant_has_turn(g, now) : !g->busy && !grant_has_turn(g, now)))
		want = 0;
	return uccl_max(want, g->need.never_zero);
}

/* PROTOCOL R20 R140 */
static void grant_raise(struct uccl_grant *g, uint32_t want, uint64_t now)
{
	struct uccl_slots *s = g->of;
	uint32_t top = g->believed;

	/* Nobody passes the line. PROTOCOL R178 */
	if (want > g->believed && !g->returning && !s->nwaiting) {
		top += uccl_min(grant_fits(g, slots_left(s, RESERVE)), want - top);
		if (top < g->share.token)
			top = uccl_min(g->share.token, g->believed + grant_fits(g, slots_left(s, 0)));
		grant_told(g, top);
	}
	/* What it did not give back yet it may as well use. */
	g->slots = (uint32_t)uccl_min(want, top);
	if (g->slots + want / NEARLY < want)
		slots_short(s, now);
}

uint16_t uccl_slots_tell(struct uccl_grant *g, uint32_t came, uint64_t srtt_ns, uint64_t now)
{
	struct uccl_slots *s = g->of;
	uint32_t want;

	slots_calm(s, now);
	grant_parts(g);
	if (came) {
		g->deaf = 0;
		uccl_grant_turn_came(&g->turns, came, now);
		if (uccl_grant_need_came(&g->need, came, g->share.token, g->busy, srtt_ns, now)) {
			grant_list(g, true);
			grant_parts(g);
		}
	}
	/* The queue became smaller, or many connected at once. */
	if (s->used > slots_granted(s) || slots_pressed(s))
		slots_short(s, now);
	want = g->waits || g->written_off ? g->need.never_zero : grant_want(g, now);
	/* It has no more than it always has: nothing comes back that would end this. */
	if (g->written_off && want && g->slots <= want)
		grant_write_off(g, false);
	if (want > g->slots) {
		grant_raise(g, want, now);
	} else if (want + g->slots / NEARLY < g->slots && !g->returning &&
		   (s->ask_at != UCCL_NEVER || g->written_off) &&
		   uccl_ts(now) != uccl_ts(g->told_ns)) {
		/* Blocks of one instant could not be told apart by age. PROTOCOL R141 */
		g->turn = (uint8_t)((g->turn + 1) % UCCL_SLOTS_TURNS);
		g->returning = true;
		g->deaf = 0;
		g->slots = want;
	}
	g->told_ns = now;
	return (uint16_t)g->slots;
}

/* PROTOCOL R142 */
void uccl_slots_met(struct uccl_grant *g, uint8_t turn)
{
	if (!g->returning || turn != g->turn)
		return;
	g->returning = false;
	g->deaf = 0;
	g->asks = 0;
	g->of->returned++;
	grant_told(g, g->slots);
	grant_write_off(g, false);
	slots_freed(g->of);
}

/* It hears us, as it asks again and again, and does not give back. PROTOCOL R320 */
static bool grant_deaf(struct uccl_grant *g)
{
	if (!g->returning || g->written_off)
		return g->written_off;
	if (++g->deaf < DEAF)
		return false;
	line_leave(g);
	uccl_slots_write_off(g);
	return true;
}

bool uccl_slots_want(struct uccl_grant *g, uint64_t now)
{
	bool answer = uccl_grant_turn_answers(&g->turns, g->told_ns, now);
	struct uccl_slots *s = g->of;

	g->need.has_more = true;
	if (grant_deaf(g))
		return answer;
	if (!g->slots) {
		if (!g->waits && uccl_grant_turn_barred(&g->turns, now))
			return answer;
		line_enter(g, now);
		slots_short(s, now);
	} else {
		uccl_grant_turn_renew(&g->turns, now);
	}
	return answer;
}

struct uccl_grant *uccl_slots_serve(struct uccl_slots *s, uint64_t now)
{
	struct uccl_grant *g = TAILQ_FIRST(&s->waiting);

	/* What it has not given back yet it may as well use. */
	if (!g || (!g->believed && !slots_first(s, g, slots_starved(s, now))))
		return NULL;
	line_leave(g);
	grant_told(g, uccl_max(g->believed, 1));
	g->slots = 1;
	uccl_grant_turn_begin(&g->turns, now);
	return g;
}

struct uccl_grant *uccl_slots_ask(struct uccl_slots *s, uint64_t now)
{
	struct uccl_grant *g;

	if (now < s->ask_at)
		return NULL;
	slots_calm(s, now);
	if (s->nwaiting)
		s->short_ns = now;
	if (now - s->short_ns >= SHORT_NS) {
		s->ask_at = UCCL_NEVER;
		return NULL;
	}
	while (s->looked < uccl_min(LOOKS, s->npeers - s->nbusy)) {
		s->looked++;
		g = TAILQ_FIRST(&s->quiet);
		grant_list(g, false);
		grant_parts(g);
		if (now < g->ask_at || (!g->returning && g->believed <= grant_want(g, now) + g->believed / NEARLY))
			continue;
		g->ask_at = now + (ASK_NS << g->asks);
		g->asks = (uint8_t)uccl_min(g->asks + 1, ASK_DOUBLINGS);
		s->asked++;
		return g;
	}
	s->looked = 0;
	s->ask_at = now + LOOK_NS;
	return NULL;
}

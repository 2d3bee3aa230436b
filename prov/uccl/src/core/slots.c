/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See slots.h. Peers may send packets of different sizes, so a slot costs a part of the queue: QUEUE divided by the
 * number of its peer's packets that the queue holds.
 */
#include "core/slots.h"

#include <string.h>

#include "base/units.h"
#include "core/wire.h"

#define QUEUE ((uint64_t)1 << 32)
/* So much is granted in all: acknowledgements, and what was taken for lost too early, need places, too. */
#define GRANTED (QUEUE / 4 * 3)
/* Of that, the part of tokens; and what only those get who have less than a token. */
#define TOKENS (GRANTED / 4)
#define RESERVE (QUEUE / 16)
/* What a handshake grants at most: many may connect at once, and some never say anything. */
#define FIRST_SLOTS 16
/* Who sent less than half a token for so long, and for so many round trips, is not busy. */
#define QUIET_NS (10 * UCCL_NS_PER_MS)
#define QUIET_RTTS 4
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
	s->ask_at = UCCL_NEVER;
}

/*
 * If one slot for each is more than tokens may take, it is granted all the same: busy peers need the rest. As long as
 * everything fits. With still more peers the queue may overflow, whatever is done; so those who might send something,
 * but do not, take nothing from those who do.
 */
static uint64_t slots_granted(const struct uccl_slots *s)
{
	if (s->floors > QUEUE - (GRANTED - TOKENS))
		return GRANTED + s->floors;
	return uccl_max(GRANTED, GRANTED - TOKENS + s->floors);
}

static uint64_t slots_left(const struct uccl_slots *s, uint64_t reserve)
{
	uint64_t all = slots_granted(s) - reserve;

	return all - uccl_min(s->used, all);
}

static uint64_t slots_token(const struct uccl_slots *s)
{
	return uccl_max(TOKENS, s->floors) / s->npeers;
}

/* Powers of two: so tokens change seldom as peers come and go. */
static uint32_t grant_token(const struct uccl_grant *g)
{
	uint64_t n = uccl_clamp(slots_token(g->of) / g->cost, 1, g->most);

	return 1u << (63 - __builtin_clzll(n));
}

/* Its part if it is busy. */
static uint32_t grant_fair(const struct uccl_grant *g)
{
	const struct uccl_slots *s = g->of;
	uint64_t all = slots_granted(s) - RESERVE, tokens = slots_token(s) * (s->npeers - s->nbusy);
	uint64_t part = (all - uccl_min(tokens, all)) * 4 / (4 * uccl_max(s->nbusy, 1) + (s->npeers > s->nbusy));

	return (uint32_t)uccl_clamp(part / g->cost, 1, g->most);
}

static void grant_parts(struct uccl_grant *g)
{
	if (g->fair_change == g->of->change)
		return;
	g->fair_change = g->of->change;
	g->token = grant_token(g);
	g->fair = uccl_max(grant_fair(g), g->token);
}

/* It may believe to have so many from now on. */
static void grant_told(struct uccl_grant *g, uint32_t told)
{
	struct uccl_slots *s = g->of;
	uint64_t was = g->told * g->cost, is = told * g->cost;

	s->used += is - was;
	if (!g->busy)
		s->quiet_used += is - was;
	g->told = told;
}

/* Last in the list where it belongs. */
static void grant_list(struct uccl_grant *g, bool busy)
{
	struct uccl_slots *s = g->of;
	uint64_t used = g->told * g->cost;

	TAILQ_REMOVE(g->busy ? &s->busy : &s->quiet, g, link);
	TAILQ_INSERT_TAIL(busy ? &s->busy : &s->quiet, g, link);
	if (g->busy == busy)
		return;
	s->change++;
	s->nbusy += busy ? 1 : -1;
	s->quiet_used += busy ? -used : used;
	g->busy = busy;
}

static void slots_calm(struct uccl_slots *s, uint64_t now)
{
	struct uccl_grant *g;

	while ((g = TAILQ_FIRST(&s->busy)) && now - g->busy_ns >= g->quiet_ns) {
		g->ask_at = 0;
		g->asks = 0;
		grant_list(g, false);
	}
}

void uccl_slots_open(struct uccl_slots *s, struct uccl_grant *g, uint32_t room, uint32_t most)
{
	uint64_t left;

	memset(g, 0, sizeof(*g));
	g->of = s;
	g->most = (uint32_t)uccl_clamp(most, 1, UCCL_SLOTS_MAX);
	g->cost = QUEUE / uccl_max(room, 1);
	g->quiet_ns = QUIET_NS;
	s->npeers++;
	s->change++;
	s->floors += g->cost;
	TAILQ_INSERT_TAIL(&s->quiet, g, link);
	grant_parts(g);
	/* Those who only connect have no more than all tokens, or they would take it from who is busy. */
	left = uccl_min(TOKENS - uccl_min(s->quiet_used, TOKENS), slots_left(s, 0));
	grant_told(g, (uint32_t)uccl_clamp(left / g->cost, 1, uccl_min(g->token, FIRST_SLOTS)));
	g->slots = g->told;
}

void uccl_slots_resize(struct uccl_grant *g, uint32_t room)
{
	struct uccl_slots *s = g->of;
	uint32_t told = g->told;

	grant_told(g, 0);
	s->floors -= g->cost;
	g->cost = QUEUE / uccl_max(room, 1);
	s->floors += g->cost;
	s->change++;
	grant_told(g, told);
}

void uccl_slots_close(struct uccl_grant *g)
{
	struct uccl_slots *s = g->of;

	if (!s)
		return;
	grant_list(g, false);
	grant_told(g, 0);
	TAILQ_REMOVE(&s->quiet, g, link);
	s->floors -= g->cost;
	s->npeers--;
	s->change++;
	g->of = NULL;
}

/* Half a token in a while is no need of more. */
static void grant_came(struct uccl_grant *g, uint32_t came, uint64_t srtt_ns, uint64_t now)
{
	uint32_t need = (uint32_t)uccl_max(uccl_min(g->token, 2), g->token / 2);

	if (now - g->from_ns >= g->quiet_ns) {
		g->from_ns = now;
		g->came = 0;
	}
	g->came += came;
	if (g->came < need)
		return;
	g->quiet_ns = uccl_max(QUIET_NS, QUIET_RTTS * srtt_ns);
	g->from_ns = now;
	g->came = 0;
	/* The order of the list need not be finer than what it is for. */
	if (g->busy && now - g->busy_ns < g->quiet_ns / 4)
		return;
	g->busy_ns = now;
	grant_list(g, true);
}

/* From now on, and for a while, everybody gives back what is too much. */
static void slots_short(struct uccl_slots *s, uint64_t now)
{
	s->short_ns = now;
	s->ask_at = uccl_min(s->ask_at, now);
}

/* PROTOCOL R20 R140 */
static void grant_raise(struct uccl_grant *g, uint32_t want, uint64_t now)
{
	struct uccl_slots *s = g->of;
	uint32_t top = g->told;

	if (want > g->told && !g->returning) {
		top += (uint32_t)uccl_min(slots_left(s, RESERVE) / g->cost, want - top);
		if (top < g->token)
			top = (uint32_t)uccl_min(g->token, g->told + slots_left(s, 0) / g->cost);
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
		grant_came(g, came, srtt_ns, now);
		grant_parts(g);
	}
	/* The queue became smaller, or many connected at once. */
	if (s->used > slots_granted(s))
		slots_short(s, now);
	want = g->busy ? g->fair : g->token;
	if (want > g->slots) {
		grant_raise(g, want, now);
	} else if (want + g->slots / NEARLY < g->slots && !g->returning && s->ask_at != UCCL_NEVER &&
		   uccl_ts(now) != uccl_ts(g->told_ns)) {
		/* Blocks of one instant could not be told apart by age. PROTOCOL R141 */
		g->turn = (uint8_t)((g->turn + 1) % UCCL_SLOTS_TURNS);
		g->returning = true;
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
	g->asks = 0;
	g->of->returned++;
	grant_told(g, g->slots);
}

struct uccl_grant *uccl_slots_ask(struct uccl_slots *s, uint64_t now)
{
	struct uccl_grant *g;

	if (now < s->ask_at)
		return NULL;
	slots_calm(s, now);
	if (now - s->short_ns >= QUIET_NS) {
		s->ask_at = UCCL_NEVER;
		return NULL;
	}
	while (s->looked < uccl_min(LOOKS, s->npeers - s->nbusy)) {
		s->looked++;
		g = TAILQ_FIRST(&s->quiet);
		grant_list(g, false);
		grant_parts(g);
		if (now < g->ask_at || (!g->returning && g->told <= g->token + g->told / NEARLY))
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

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which set of queue pairs a flow uses. Both sides name their process (and its NIC); the leader then begins a new set,
 * or names one that it has with that process already, of which the other side has to know as well.
 *
 * A name of a process proves nothing: whoever talks to it has it. So each set has a key, which only its two processes
 * have seen, and both prove that they know it before a flow joins; the proof is bound to both sides' nonces and places,
 * so that nobody can pass it on. PROTOCOL R98
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <string.h>
#include <sys/random.h>

#include "base/le.h"
#include "base/log.h"

#define WAIT_NS UCCL_NS_PER_S /* for the other side to know a new set, before another one is made */
#define REFUSALS 2 /* of one flow; afterwards it stays with packets */
#define PROOF_TEXT (1 + 1 + 4 + 2 * (4 + 16 + 4 + 2))

/* An order of all places that both sides agree on. */
static int place_compare(const struct uccl_nic_addr *a, const struct uccl_nic_addr *b)
{
	int c = memcmp(a->ip, b->ip, sizeof(a->ip));

	if (!c)
		c = (a->scope > b->scope) - (a->scope < b->scope);
	return c ? c : (a->port > b->port) - (a->port < b->port);
}

/* Two endpoints of one process do not share: each side has a set of its own. */
static bool same_process(const struct uc_dev *d, const struct uc_peer *peer)
{
	return peer->process == d->process;
}

/* Of processes the lower one, for all their flows alike. */
static bool we_lead(const struct uc_dev *d, const struct uc_peer *peer)
{
	if (same_process(d, peer))
		return place_compare(&peer->w->ud->self, &peer->to) < 0;
	return d->process < peer->process;
}

static uint8_t *side_put(uint8_t *at, uint32_t nonce, const struct uccl_nic_addr *place)
{
	uccl_put32(at, nonce);
	memcpy(at + 4, place->ip, sizeof(place->ip));
	uccl_put32(at + 20, place->scope);
	uccl_put16(at + 24, place->port);
	return at + 26;
}

/* What shows that we, or they (`mine` false), know the set that the flow joins under a number. */
static void proof_make(uint8_t out[UC_PROOF], const struct uc_peer *peer, const struct uc_set *s, uint8_t number,
		       bool mine)
{
	const struct uccl_nic_addr *self = &peer->w->ud->self;
	uint8_t text[PROOF_TEXT], mac[UCCL_MAC_LEN], *at = text;

	*at++ = s->leads == mine ? UC_JOIN : UC_JOINED;
	*at++ = number;
	uccl_put32(at, s->serial);
	at = side_put(at + 4, s->leads ? peer->nonce : peer->their_nonce, s->leads ? self : &peer->to);
	side_put(at, s->leads ? peer->their_nonce : peer->nonce, s->leads ? &peer->to : self);
	uccl_mac(mac, text, sizeof(text), s->key);
	memcpy(out, mac, UC_PROOF);
}

static bool proved(const struct uc_peer *peer, const struct uc_set *s, uint8_t number, const uint8_t proof[UC_PROOF])
{
	uint8_t good[UC_PROOF], differ = 0;

	proof_make(good, peer, s, number, false);
	for (int i = 0; i < UC_PROOF; i++)
		differ |= good[i] ^ proof[i];
	return !differ;
}

static bool set_fits(const struct uc_set *s, const struct uc_peer *peer, bool leads)
{
	return s->process == peer->process && s->n == peer->n && s->leads == leads;
}

/*
 * One that we lead, with room; NULL: there is none. *wait: there will be one, which the other side does not know yet:
 * what names it could come before what makes it.
 */
static struct uc_set *set_known(struct uc_dev *d, const struct uc_peer *peer, bool *wait)
{
	struct uc_set *s;

	*wait = false;
	TAILQ_FOREACH(s, &d->sets, all) {
		if (!set_fits(s, peer, true) || uccl_uc_set_room(s) < 0)
			continue;
		if (s->known)
			return s;
		*wait |= d->clock() - s->used_ns < WAIT_NS;
	}
	return NULL;
}

/* The one that the leader names, and shows to know. Others may have made sets in its name. */
static struct uc_set *set_named(struct uc_dev *d, const struct uc_peer *peer, const uint8_t *at)
{
	uint8_t number = (uint8_t)uccl_get16(at + 2);
	struct uc_set *s;

	TAILQ_FOREACH(s, &d->sets, all)
		if (set_fits(s, peer, false) && s->serial == uccl_get32(at + 4) && !s->flow[number] &&
		    proved(peer, s, number, at + 8))
			return s;
	return NULL;
}

/* A key as it goes over the wire, made longer. NULL: no memory. */
static struct uc_set *set_make(struct uc_dev *d, const struct uc_peer *peer, bool leads, uint32_t serial,
			       const uint8_t secret[8])
{
	struct uc_set *s = uccl_uc_set_new(d, peer, leads);

	if (!s)
		return NULL;
	s->serial = serial;
	s->used_ns = d->clock();
	memcpy(s->key, secret, 8);
	return s;
}

/* The leader's choice, when both are known: one that there is, or a new one. */
static void choose(struct uc_dev *d, struct uc_peer *peer)
{
	struct uc_set *s = NULL;
	uint8_t secret[8];
	bool wait = false;

	if (!same_process(d, peer) && !peer->refusals)
		s = set_known(d, peer, &wait);
	if (!s && wait)
		return;
	peer->old = s;
	if (!s && getrandom(secret, sizeof(secret), 0) == sizeof(secret))
		s = set_make(d, peer, true, ++d->serials, secret);
	if (!s)
		return;
	uccl_uc_set_add(s, peer, (uint8_t)uccl_uc_set_room(s));
	peer->choice_due = true;
}

static void chosen_check(struct uc_dev *d, struct uc_peer *peer)
{
	if (peer->nonce && peer->their_nonce && !peer->set && peer->refusals < REFUSALS && we_lead(d, peer))
		choose(d, peer);
}

void uccl_uc_join_begin(struct uc_dev *d, struct uc_peer *peer)
{
	if (!peer->nonce) {
		if (getrandom(&peer->nonce, sizeof(peer->nonce), 0) != sizeof(peer->nonce) || !peer->nonce) {
			peer->nonce = 0;
			return;
		}
		peer->process_due = true;
	}
	chosen_check(d, peer);
}

bool uccl_uc_join_say(struct uc_dev *d, struct uc_peer *peer, uint8_t *at)
{
	memset(at, 0, UC_ENTRY);
	if (peer->process_due) {
		peer->process_due = false;
		at[0] = UC_PROCESS;
		uccl_put32(at + 4, peer->nonce);
		uccl_put64(at + 8, d->process);
	} else if (peer->choice_due) {
		peer->choice_due = false;
		at[0] = peer->old ? UC_JOIN : UC_NEW;
		uccl_put16(at + 2, peer->number);
		uccl_put32(at + 4, peer->set->serial);
		if (peer->old)
			proof_make(at + 8, peer, peer->set, peer->number, true);
		else
			memcpy(at + 8, peer->set->key, 8);
	} else if (peer->joined_due) {
		peer->joined_due = false;
		at[0] = UC_JOINED;
		uccl_put32(at + 4, peer->set->serial);
		proof_make(at + 8, peer, peer->set, peer->number, true);
	} else if (peer->refused_due) {
		peer->refused_due = false;
		at[0] = UC_REFUSED;
		uccl_put32(at + 4, peer->refused_serial);
	} else {
		return false;
	}
	return true;
}

/*
 * Each is said once by a flow, a choice after both have named themselves, which may come in another order, and what
 * answers it after it: all else is nonsense.
 */
bool uccl_uc_join_valid(const struct uc_peer *peer, const uint8_t *at)
{
	bool asked = peer->set && peer->set->leads && !peer->joined && !peer->choice_due;
	uint16_t number = uccl_get16(at + 2);
	uint32_t second = uccl_get32(at + 4);

	if (at[1])
		return false;
	switch (at[0]) {
	case UC_PROCESS:
		return !number && second && !peer->their_nonce;
	case UC_NEW:
	case UC_JOIN:
		return number < UC_FLOWS && peer->nonce && !peer->set && !peer->early[0];
	case UC_JOINED:
		return asked && !number && second == peer->set->serial;
	case UC_REFUSED:
		return asked && !number && second == peer->set->serial && !uccl_get64(at + 8);
	default:
		return false;
	}
}

/* A choice. Without memory there is none: packets serve. */
static void choice_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	struct uc_set *s = NULL;

	if (peer->set || we_lead(d, peer)) {
		d->stats.refused++;
		return;
	}
	if (at[0] == UC_NEW)
		s = set_make(d, peer, false, uccl_get32(at + 4), at + 8);
	else
		s = set_named(d, peer, at);
	if (!s || s->flow[uccl_get16(at + 2)]) {
		d->stats.refused++;
		peer->refused_due = true;
		peer->refused_serial = uccl_get32(at + 4);
		return;
	}
	uccl_uc_set_add(s, peer, (uint8_t)uccl_get16(at + 2));
	peer->joined_due = true;
	peer->joined = true;
	uccl_uc_set_event(peer);
}

/* The other side has joined as well, and shows that it knows the set. */
static void joined_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	if (!proved(peer, peer->set, peer->number, at + 8)) {
		d->stats.refused++;
		return;
	}
	peer->joined = peer->set->known = true;
	uccl_uc_set_event(peer);
	uccl_uc_set_prepare(d, peer->set);
}

void uccl_uc_join_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	switch (at[0]) {
	case UC_PROCESS:
		peer->process = uccl_get64(at + 8);
		peer->their_nonce = uccl_get32(at + 4);
		uccl_uc_join_begin(d, peer);
		if (peer->early[0])
			choice_take(d, peer, peer->early);
		break;
	case UC_NEW:
	case UC_JOIN:
		if (peer->their_nonce)
			choice_take(d, peer, at);
		else
			memcpy(peer->early, at, UC_ENTRY);
		break;
	case UC_JOINED:
		joined_take(d, peer, at);
		break;
	default:
		uccl_uc_set_leave(d, peer);
		peer->refusals++;
		chosen_check(d, peer);
	}
}

#endif

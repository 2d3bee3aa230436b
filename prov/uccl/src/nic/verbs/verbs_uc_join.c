/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds the set of queue pairs that a flow uses. Both sides name their process (and its NIC). The leader then begins a
 * new set, or names one that both processes already have.
 *
 * The name of a process proves nothing: each of its peers knows it. So each set has a key, which only its two processes
 * have seen, and both prove that they know the key before a flow joins. The proof covers both sides' nonces and
 * addresses, so nobody can use it elsewhere. PROTOCOL R98
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

/* Two endpoints of one process do not share: each side has its own set. */
static bool same_process(const struct uc_dev *d, const struct uc_peer *peer)
{
	return peer->join.process == d->process;
}

/* The process with the lower name leads, for all flows alike. */
static bool we_lead(const struct uc_dev *d, const struct uc_peer *peer)
{
	if (same_process(d, peer))
		return place_compare(&peer->w->ud->self, &peer->to) < 0;
	return d->process < peer->join.process;
}

static uint8_t *side_put(uint8_t *at, uint32_t nonce, const struct uccl_nic_addr *place)
{
	uccl_put32(at, nonce);
	memcpy(at + 4, place->ip, sizeof(place->ip));
	uccl_put32(at + 20, place->scope);
	uccl_put16(at + 24, place->port);
	return at + 26;
}

/* The proof that we, or the peer (`mine` false), know the set that the flow joins under a number. */
static void proof_make(uint8_t out[UC_PROOF], const struct uc_peer *peer, const struct uc_set *s, uint8_t number,
		       bool mine)
{
	const struct uccl_nic_addr *self = &peer->w->ud->self;
	uint8_t text[PROOF_TEXT], mac[UCCL_MAC_LEN], *at = text;

	*at++ = s->leads == mine ? UC_JOIN : UC_JOINED;
	*at++ = number;
	uccl_put32(at, s->serial);
	at = side_put(at + 4, s->leads ? peer->join.nonce : peer->join.their_nonce, s->leads ? self : &peer->to);
	side_put(at, s->leads ? peer->join.their_nonce : peer->join.nonce, s->leads ? &peer->to : self);
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
	return s->process == peer->join.process && s->n == peer->n && s->leads == leads;
}

/*
 * A set that we lead, with room; NULL: there is none. *wait: there will be one, which the other side does not know yet:
 * JOIN could arrive before the NEW that makes it.
 */
static struct uc_set *set_known(struct uc_dev *d, const struct uc_peer *peer, bool *wait)
{
	struct uc_set *s;

	*wait = false;
	TAILQ_FOREACH(s, &d->sets.all, all) {
		if (!set_fits(s, peer, true) || uccl_uc_set_room(s) < 0)
			continue;
		if (s->known)
			return s;
		*wait |= d->clock() - s->used_ns < WAIT_NS;
	}
	return NULL;
}

/* The set that the leader names, with a valid proof. Another process may have made a set with the same name. */
static struct uc_set *set_named(struct uc_dev *d, const struct uc_peer *peer, const uint8_t *at)
{
	uint8_t number = (uint8_t)uccl_get16(at + 2);
	struct uc_set *s;

	TAILQ_FOREACH(s, &d->sets.all, all)
		if (set_fits(s, peer, false) && s->serial == uccl_get32(at + 4) && !s->flow[number] &&
		    proved(peer, s, number, at + 8))
			return s;
	return NULL;
}

/* The leader chooses a set, when both processes are known: an existing one, or a new one. */
static void choose(struct uc_dev *d, struct uc_peer *peer)
{
	struct uc_set *s = NULL;
	uint8_t secret[8];
	bool wait = false;

	if (!same_process(d, peer) && !peer->join.refusals)
		s = set_known(d, peer, &wait);
	if (!s && wait)
		return;
	peer->join.old = s;
	if (!s && getrandom(secret, sizeof(secret), 0) == sizeof(secret))
		s = uccl_uc_set_new(d, peer, true, 0, secret);
	if (!s)
		return;
	uccl_uc_set_add(s, peer, (uint8_t)uccl_uc_set_room(s));
	peer->join.choice_due = true;
}

static void chosen_check(struct uc_dev *d, struct uc_peer *peer)
{
	const struct uc_join *j = &peer->join;

	if (j->nonce && j->their_nonce && !peer->set && j->refusals < REFUSALS && we_lead(d, peer))
		choose(d, peer);
}

void uccl_uc_join_begin(struct uc_dev *d, struct uc_peer *peer)
{
	struct uc_join *j = &peer->join;

	if (!j->nonce) {
		if (getrandom(&j->nonce, sizeof(j->nonce), 0) != sizeof(j->nonce) || !j->nonce) {
			j->nonce = 0;
			return;
		}
		j->process_due = true;
	}
	chosen_check(d, peer);
}

bool uccl_uc_join_say(struct uc_dev *d, struct uc_peer *peer, uint8_t *at)
{
	memset(at, 0, UC_ENTRY);
	if (peer->join.process_due) {
		peer->join.process_due = false;
		at[0] = UC_PROCESS;
		uccl_put32(at + 4, peer->join.nonce);
		uccl_put64(at + 8, d->process);
	} else if (peer->join.choice_due) {
		peer->join.choice_due = false;
		at[0] = peer->join.old ? UC_JOIN : UC_NEW;
		uccl_put16(at + 2, peer->number);
		uccl_put32(at + 4, peer->set->serial);
		if (peer->join.old)
			proof_make(at + 8, peer, peer->set, peer->number, true);
		else
			memcpy(at + 8, peer->set->key, 8);
	} else if (peer->join.joined_due) {
		peer->join.joined_due = false;
		at[0] = UC_JOINED;
		uccl_put32(at + 4, peer->set->serial);
		proof_make(at + 8, peer, peer->set, peer->number, true);
	} else if (peer->join.refused_due) {
		peer->join.refused_due = false;
		at[0] = UC_REFUSED;
		uccl_put32(at + 4, peer->join.refused_serial);
	} else {
		return false;
	}
	return true;
}

/*
 * A flow gets each entry once: PROCESS; NEW or JOIN, after both sides have sent PROCESS, whichever comes first; then
 * the answer to that. All else is invalid.
 */
bool uccl_uc_join_valid(const struct uc_peer *peer, const uint8_t *at)
{
	bool chosen = peer->set && peer->set->leads && !peer->joined && !peer->join.choice_due;
	uint16_t number = uccl_get16(at + 2);
	uint32_t second = uccl_get32(at + 4);

	if (at[1])
		return false;
	switch (at[0]) {
	case UC_PROCESS:
		return !number && second && !peer->join.their_nonce;
	case UC_NEW:
	case UC_JOIN:
		return number < UC_FLOWS && peer->join.nonce && !peer->set && !peer->join.early[0];
	case UC_JOINED:
		return chosen && !number && second == peer->set->serial;
	case UC_REFUSED:
		return chosen && !number && second == peer->set->serial && !uccl_get64(at + 8);
	default:
		return false;
	}
}

/* NEW or JOIN. Without memory no set is joined, and packets serve. */
static void choice_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	struct uc_set *s = NULL;

	if (peer->set || we_lead(d, peer)) {
		d->refused++;
		return;
	}
	if (at[0] == UC_NEW)
		s = uccl_uc_set_new(d, peer, false, uccl_get32(at + 4), at + 8);
	else
		s = set_named(d, peer, at);
	if (!s || s->flow[uccl_get16(at + 2)]) {
		d->refused++;
		peer->join.refused_due = true;
		peer->join.refused_serial = uccl_get32(at + 4);
		return;
	}
	uccl_uc_set_add(s, peer, (uint8_t)uccl_get16(at + 2));
	peer->join.joined_due = true;
	uccl_uc_set_joined(peer);
}

/* The other side has joined, too, and proves that it knows the set. */
static void joined_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	if (!proved(peer, peer->set, peer->number, at + 8)) {
		d->refused++;
		return;
	}
	uccl_uc_set_joined(peer);
	uccl_uc_set_prepare(d, peer->set);
}

void uccl_uc_join_take(struct uc_dev *d, struct uc_peer *peer, const uint8_t *at)
{
	switch (at[0]) {
	case UC_PROCESS:
		peer->join.process = uccl_get64(at + 8);
		peer->join.their_nonce = uccl_get32(at + 4);
		uccl_uc_join_begin(d, peer);
		if (peer->join.early[0])
			choice_take(d, peer, peer->join.early);
		break;
	case UC_NEW:
	case UC_JOIN:
		if (peer->join.their_nonce)
			choice_take(d, peer, at);
		else
			memcpy(peer->join.early, at, UC_ENTRY);
		break;
	case UC_JOINED:
		joined_take(d, peer, at);
		break;
	default:
		uccl_uc_set_leave(d, peer);
		peer->join.refusals++;
		chosen_check(d, peer);
	}
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A receiver's pacer and its senders' credit policies. The input makes senders send and lose, tell what they want or
 * nonsense, come and go; credits and demands are lost, kept back and overtake each other. What is checked after each
 * step: the pacer's sums and lists agree, its bounds hold, who sends freely gets no grants, it says when it wants to be
 * called; and senders that obey never send beyond what they were granted.
 */
#include "input.h"

#include "base/units.h"
#include "flow/send/pacer.h"
#include "policy/policies.h"

#define SENDERS 12
#define STEPS 3000

struct credit {
	uint64_t granted, turn;
};

static struct sender {
	struct uccl_pull pull;
	bool there;
	uint64_t cs[UCCL_CREDIT_STATE / 8];
	uint64_t sent, wants, lost; /* bytes in all */
	uint64_t arrived;	    /* of them, at the receiver */
	uint64_t turn;		    /* latest that it heard of */
	struct credit late;	    /* one that was kept back */
} senders[SENDERS];

static struct uccl_pacer pacer;
static const struct uccl_credit_ops *ops;
static struct uccl_policy_cfg cfg;
static uint64_t now;

static void come(struct sender *s)
{
	struct uccl_pull_cfg pull;

	memset(s, 0, sizeof(*s));
	s->there = true;
	ops->init(s->cs, &cfg, now);
	ops->pull(&cfg, &pull);
	uccl_pacer_rank(&pacer, ops->rank);
	assert(!uccl_pull_init(&pacer, &s->pull, &pull, now));
}

static void leave(struct sender *s)
{
	uccl_pull_fini(&pacer, &s->pull);
	memset(s, 0xee, sizeof(*s));
	s->there = false;
}

/* As flow does it: turns that are over count no more. */
static void credit(struct sender *s, const struct credit *c)
{
	uint64_t before = ops->limit(s->cs);

	if (c->turn < s->turn)
		return;
	ops->on_credit(s->cs, c->granted, c->turn, now);
	/* Within a turn nothing is taken back. */
	assert(c->turn != s->turn || ops->limit(s->cs) >= before);
	s->turn = c->turn;
}

static void hear(struct sender *s, bool lost)
{
	uccl_pacer_heard(&pacer, &s->pull, s->arrived + s->lost, s->wants, lost, now);
}

static void pump(struct input *in)
{
	struct uccl_pull *u;

	for (int i = 0; i < 64; i++) {
		uint64_t grants = pacer.grants;

		u = uccl_pacer_next(&pacer, now);
		if (!u)
			break;
		struct sender *s = uccl_container_of(u, struct sender, pull);
		struct credit c = {uccl_pull_free(u) ? UINT64_MAX : u->granted, u->turn};
		uint8_t fate = byte(in);

		assert(s->there);
		/* Those that were silent count again when they are heard, so that it may be beyond the bound before. */
		assert(pacer.grants == grants || pacer.out < pacer.out_max + u->cfg.quantum);
		if (fate < 160)
			credit(s, &c);
		else if (fate < 208)
			s->late = c;
	}
}

static void check(void)
{
	uint64_t out = 0;
	uint32_t busy = 0, listed = 0, there = 0, ranked = 0, quiet = 0;
	struct uccl_pull *u;

	for (int i = 0; i < SENDERS; i++) {
		struct sender *s = &senders[i];
		uint64_t ahead;

		if (!s->there)
			continue;
		u = &s->pull;
		there++;
		ahead = u->granted > u->received ? u->granted - u->received : 0;
		out += u->counted;
		busy += u->is_busy;
		assert(ahead <= u->cfg.window);
		assert(u->counted ==
		       (!u->silent && !uccl_pull_free(u) && ahead > u->cfg.idle ? ahead - u->cfg.idle : 0));
		assert(u->owes == (u->counted > 0));
		assert(u->tell == (u->list == UCCL_PULL_TELL));
		assert(u->tell || u->list == UCCL_PULL_NONE || (!u->silent && !uccl_pull_free(u)));
		/* Nobody is free while too many are busy. A few that are quiet may be. PROTOCOL R347 */
		assert(!uccl_pull_free(u) || !pacer.converged);
		quiet += uccl_pull_free(u) && !u->is_busy;
	}
	assert(out == pacer.out && busy == pacer.nbusy);
	assert(pacer.senders < 2 || pacer.nbusy < pacer.senders || pacer.converged);
	assert(quiet == pacer.nkept && quiet <= 2 && (!quiet || quiet + busy < pacer.senders));
	TAILQ_FOREACH(u, &pacer.kept, busy)
		assert(!u->is_busy && uccl_pull_free(u) && ++listed <= quiet);
	assert(listed == quiet);
	listed = 0;
	for (int l = 0; l < UCCL_PULL_NONE; l++)
		TAILQ_FOREACH(u, &pacer.lists[l], link) {
			assert(u->list == l);
			assert(++listed <= there);
			ranked += l == UCCL_PULL_ACTIVE && pacer.rank;
			assert(!u->rank.place.index == !(l == UCCL_PULL_ACTIVE && pacer.rank));
		}
	assert(pacer.ranked.n == ranked && pacer.pulls == there);
	listed = 0;
	TAILQ_FOREACH(u, &pacer.busy, busy)
		assert(u->is_busy && ++listed <= busy);
	assert(listed == busy);
}

static void step(struct input *in)
{
	struct sender *s = &senders[byte(in) % SENDERS];
	uint8_t what = byte(in);
	uint64_t n = (uint64_t)(byte(in) + 1) * (cfg.chunk_bytes / 4), at;

	if (!s->there) {
		come(s);
		return;
	}
	switch (what % 16) {
	default: /* send what may be sent, and it arrives */
		s->wants += n;
		/* fall through */
	case 1: /* go on with what is wanted */
		n = s->wants > s->sent ? uccl_min(n, s->wants - s->sent) : 0;
		n = uccl_min(n, ops->limit(s->cs) > s->sent ? ops->limit(s->cs) - s->sent : 0);
		s->sent += n;
		if (what & 0x80) {
			/* It is lost: it comes to be known with the next demand, and is wanted again. */
			s->wants += n;
			s->lost += n;
		} else {
			s->arrived += n;
		}
		assert(s->sent == s->arrived + s->lost);
		hear(s, what & 0x80);
		break;
	case 2: /* want more, and say so */
		s->wants += n;
		hear(s, false);
		break;
	case 3: /* nonsense, as far as flow lets it pass */
		uccl_pacer_heard(&pacer, &s->pull, s->arrived + s->lost, n << (what >> 4) * 2, what & 0x10, now);
		break;
	case 4:
		credit(s, &s->late);
		break;
	case 5:
		if (what & 0x10)
			leave(s);
		break;
	case 6: /* when it asks to be called, it has something to do, or the time has come soon after */
		at = uccl_pacer_expiry(&pacer, now);
		if (at != UCCL_NEVER) {
			assert(at - now <= 1000 * UCCL_NS_PER_MS || at <= now);
			now = uccl_max(now, at);
		}
		break;
	case 7:
		now += (uint64_t)byte(in) << (what >> 4);
		break;
	case 8: /* what it sends next ends anywhere; it counts when something is heard */
		uccl_pull_rank_message(&s->pull.rank, n << (what >> 4) * 2);
		hear(s, false);
		break;
	}
	pump(in);
	check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	uint8_t shape = byte(&in);

	ops = shape & 32 ? &uccl_credit_srpt : shape & 1 ? &uccl_credit_auto : &uccl_credit_eqds;
	cfg = (struct uccl_policy_cfg){
		.chunk_bytes = shape & 2 ? 32768 : 1024,
		.window_max = 8u << 20,
		.link_bps = shape & 4 ? 400000000000ull : shape & 8 ? 1000000000 : 0,
		.delay_ns = shape & 16 ? 12 * UCCL_NS_PER_US : 0,
	};
	now = 1000 * UCCL_NS_PER_US;
	memset(senders, 0, sizeof(senders));
	uccl_pacer_init(&pacer, cfg.link_bps);
	for (int i = 0; i < STEPS && in.at < in.end; i++)
		step(&in);
	for (int i = 0; i < SENDERS; i++)
		if (senders[i].there)
			leave(&senders[i]);
	assert(!pacer.out && !pacer.nbusy && !pacer.pulls && !pacer.ranked.n);
	uccl_pacer_fini(&pacer);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Flows of one policy of congestion control over a link with a queue. Include after cmocka.h. */
#ifndef UCCL_TEST_POLICY_LINK_H
#define UCCL_TEST_POLICY_LINK_H

#include <string.h>

#include "base/rng.h"
#include "base/units.h"
#include "flow/ack/rate.h"
#include "policy/policies.h"

#define CHUNK 4096u
#define US UCCL_NS_PER_US
#define RATE 5.0	/* bytes a ns of the link */
#define DELAY (20 * US) /* there and back */
#define FLOWS 5
#define RING 65536u
#define STEP 50

struct flow {
	uint64_t cc[UCCL_CC_STATE / 8];
	struct uccl_rate rate;
	uint64_t next_ns, inflight, got, srtt_ns;
};

/* What is under way, in the order in which it comes back. */
struct packet {
	struct flow *f;
	struct uccl_rate_stamp stamp;
	uint64_t sent_ns, back_ns;
	bool lost, marked;
};

static struct {
	const struct uccl_cc_ops *cc;
	bool (*loses)(uint64_t queue_ns); /* the packet that comes now, behind such a queue */
	uint64_t mark_ns;		  /* a longer queue marks */
	struct flow flow[FLOWS];
	struct packet ring[RING];
	uint32_t head, tail;
	uint64_t now, busy_ns, queue_max, lost;
} s;

/* On NICs whose links carry `times` what is in the way. */
static inline void link_start(const struct uccl_cc_ops *cc, uint64_t times, bool (*loses)(uint64_t queue_ns))
{
	const struct uccl_policy_cfg cfg = {
		.chunk_bytes = CHUNK,
		.window_max = 4096 * CHUNK,
		.link_bps = (uint64_t)(RATE * 8) * UCCL_NS_PER_S * times,
		.delay_ns = DELAY,
	};

	memset(&s, 0, sizeof(s));
	s.cc = cc;
	s.loses = loses;
	s.mark_ns = UCCL_NEVER;
	s.now = s.busy_ns = 1000 * US;
	for (int i = 0; i < FLOWS; i++)
		cc->init(s.flow[i].cc, &cfg, s.now);
}

static inline void send_chunk(struct flow *f)
{
	struct packet *p = &s.ring[s.tail++ % RING];
	uint64_t queue = s.busy_ns > s.now ? s.busy_ns - s.now : 0;

	assert_true(s.tail - s.head < RING);
	s.queue_max = uccl_max(s.queue_max, queue);
	*p = (struct packet){.f = f, .sent_ns = s.now, .lost = s.loses(queue), .marked = queue > s.mark_ns};
	uccl_rate_sent(&f->rate, &p->stamp, !f->inflight, s.now);
	f->inflight += CHUNK;
	if (!p->lost)
		s.busy_ns = uccl_max(s.busy_ns, s.now) + (uint64_t)(CHUNK / RATE);
	p->back_ns = uccl_max(s.busy_ns, s.now) + DELAY;
	f->next_ns = s.cc->pace ? s.cc->pace(f->cc, CHUNK, f->srtt_ns, s.now) : s.now;
}

static inline void come_back(const struct packet *p)
{
	struct flow *f = p->f;
	uint64_t rtt_ns = s.now - p->sent_ns;
	struct uccl_ack_info info = {.bytes = CHUNK, .rtt_ns = rtt_ns, .srtt_ns = rtt_ns, .min_rtt_ns = DELAY};
	struct uccl_loss_info loss = {.kind = UCCL_LOSS_PROOF,
				      .bytes = CHUNK,
				      .srtt_ns = f->srtt_ns,
				      .last_rtt_ns = f->srtt_ns};

	f->inflight -= CHUNK;
	if (p->lost) {
		s.lost++;
		loss.inflight = f->inflight;
		s.cc->on_loss(f->cc, &loss, s.now);
		return;
	}
	f->got += CHUNK;
	f->srtt_ns = rtt_ns;
	uccl_rate_acked(&f->rate, &p->stamp, p->sent_ns, CHUNK);
	info.rate = uccl_rate_sample(&f->rate, DELAY, s.now);
	info.delivered = f->rate.delivered;
	info.inflight = f->inflight;
	info.marked = p->marked ? CHUNK : 0;
	s.cc->on_ack(f->cc, &info, s.now);
}

/* Flows [from, end) send all that they may, for so long. */
static inline void run(int from, int end, uint64_t ns)
{
	uint64_t until = s.now + ns;
	unsigned int n = (unsigned int)(end - from);

	for (; s.now < until; s.now += STEP) {
		while (s.head != s.tail && s.ring[s.head % RING].back_ns <= s.now)
			come_back(&s.ring[s.head++ % RING]);
		for (unsigned int i = 0; i < n; i++) {
			struct flow *f = &s.flow[(unsigned int)from + (i + (unsigned int)(s.now / STEP)) % n];

			while (s.now >= f->next_ns && (f->inflight + CHUNK <= s.cc->window(f->cc) || !f->inflight))
				send_chunk(f);
		}
	}
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Other transports on the same fabric, to compare with. They are models of what NICs do, not of any one of them:
 *
 *   gbn    go-back-N over one path per queue pair, with DCQCN (Zhu et al., SIGCOMM 2015), as RoCE NICs have it;
 *          cfg.qps queue pairs share the bytes of a connection
 *   sr     selective repeat with a fixed window of 128 packets, one path per queue pair, no other control
 *   spray  every packet takes a path of its own: REPS by ECN marks, and NSCC with all four cases; where the fabric
 *          trims, what was cut is asked for at once
 *
 * Their window of sequence numbers has no end, their acknowledgements are control packets of the smallest size.
 */
#include <math.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/fabric_stacks.h"

#define PORT_FIRST 0xc000
#define PORTS 4096
/* Smallest Ethernet frame with preamble and gap. */
#define ACK_BYTES 84
/* Packets in flight: of go-back-N, twice what 400 Gb/s and 12 us hold; of selective repeat (the comparison asks). */
#define GBN_WINDOW 300
#define SR_WINDOW 128
/* Acknowledged at least every so many packets in order. */
#define GBN_ACK_EVERY 16
/* Time-out: UCCL's constant. */
#define RTO_NS (500 * UCCL_NS_PER_US)
/* Selective repeat: later packets of the same path that must have come. */
#define SR_DUPS 3

/* DCQCN: the paper's constants, increases scaled from 40 Gb/s to the link. */
#define CNP_NS (50 * UCCL_NS_PER_US)
#define DCQCN_G (1.0 / 256)
#define DCQCN_TIMER_NS (55 * UCCL_NS_PER_US)
#define DCQCN_AI_SHARE 0.001
#define DCQCN_HAI_SHARE 0.01
#define DCQCN_FAST 5
#define DCQCN_MIN_SHARE 0.001

/* NSCC: see policy/cc_nscc.c. */
#define NSCC_REF_BDP 150000.0
#define NSCC_REF_RTT_NS 12000.0
#define REPS_RING 8

enum { DATA, ACK, NAK, CNP };
enum { FREE, FLIGHT, LOST, ACKED };
enum { EV_PACE = UCCL_FAB_STACK, EV_RTO };

struct bhost;

/* Rate by DCQCN, of go-back-N: the sender's side, and when the receiver last told of marks. Rates are bytes per ns. */
struct dcqcn {
	double link; /* of its host's NIC */
	double rate, target, alpha;
	uint64_t alpha_at, inc_at;
	uint32_t rounds;
	uint64_t next_ns; /* the next packet leaves no earlier */
	uint64_t cnp_ns;
};

/* Window by NSCC: bytes, ns. */
struct nscc_window {
	double link; /* of its host's NIC, bytes per ns */
	double bytes, avg_ns, inc, acked, achieved;
	uint64_t round_at, cut_at;
	bool lossy;
};

/* What is under way, and how it fares. */
struct qp_tx {
	uint32_t una, nxt, flying, highest;
	uint32_t lost_from; /* search for lost ones begins here */
	uint32_t nlost;
	uint8_t *state; /* per packet: not go-back-N */
	uint64_t *sent_ns;
	uint64_t progress_ns;
};

struct qp_rx {
	uint32_t nxt, owed;
	uint8_t *came; /* per packet: not go-back-N */
	bool nak_sent;
};

/* REPS: source ports that were not marked. */
struct reps {
	uint16_t sport[REPS_RING];
	uint8_t n;
};

struct qp {
	struct uccl_fab_event pace, rto;
	struct bhost *host; /* sender */
	struct qp *ring;    /* of the host's active ones; NULL: it is not active */
	uint32_t op;
	uint32_t dst;
	uint64_t first, bytes; /* part of the operation */
	uint32_t packets;
	uint16_t sport;
	bool paced, timed;
	struct qp_tx tx;
	struct qp_rx rx;
	struct dcqcn dcqcn;
	struct nscc_window window;
	struct reps reps;
};

struct bhost {
	struct uccl_fab_scene *s;
	struct qp *active; /* the last of a ring */
	uint32_t id;
};

struct bstack {
	struct bhost *hosts;
	struct qp **qps;
	uint32_t nqps, cap;
	bool gbn, spray;
	double base_ns;
};

static struct bstack *stack_of(const struct uccl_fab_scene *s)
{
	return s->st;
}

static uint32_t packet_len(const struct qp *q, uint32_t mtu, uint32_t psn)
{
	return (uint32_t)uccl_min(mtu, q->bytes - (uint64_t)psn * mtu);
}

static struct uccl_fab_pkt *packet(struct uccl_fab_scene *s, struct qp *q, bool back, uint8_t type, uint32_t psn)
{
	struct uccl_fab_pkt *p = uccl_fab_pkt_new(&s->net);

	p->src = back ? q->dst : q->host->id;
	p->dst = back ? q->host->id : q->dst;
	p->unit = q;
	p->part = psn;
	p->type = type;
	p->sport = q->sport;
	p->bytes = ACK_BYTES;
	p->cls = UCCL_FAB_CONTROL;
	return p;
}

static void dcqcn_init(struct dcqcn *d, double link, uint64_t now)
{
	d->link = d->rate = d->target = link;
	d->alpha = 1;
	d->alpha_at = d->inc_at = now + DCQCN_TIMER_NS;
}

/* DCQCN: what time has done to the rate since it was last looked at. */
static void dcqcn_time(struct dcqcn *d, uint64_t now)
{
	while (now >= d->alpha_at) {
		d->alpha *= 1 - DCQCN_G;
		d->alpha_at += DCQCN_TIMER_NS;
	}
	while (now >= d->inc_at) {
		d->inc_at += DCQCN_TIMER_NS;
		d->rounds++;
		if (d->rounds > DCQCN_FAST)
			d->target += d->link * (d->rounds > 2 * DCQCN_FAST ? DCQCN_HAI_SHARE : DCQCN_AI_SHARE);
		d->target = fmin(d->target, d->link);
		d->rate = (d->rate + d->target) / 2;
	}
}

static void dcqcn_cut(struct dcqcn *d, uint64_t now)
{
	dcqcn_time(d, now);
	d->target = d->rate;
	d->rate = fmax(d->rate * (1 - d->alpha / 2), d->link * DCQCN_MIN_SHARE);
	d->alpha = (1 - DCQCN_G) * d->alpha + DCQCN_G;
	d->alpha_at = d->inc_at = now + DCQCN_TIMER_NS;
	d->rounds = 0;
}

/* So many bytes leave. */
static void dcqcn_sent(struct dcqcn *d, uint32_t bytes, uint64_t now)
{
	dcqcn_time(d, now);
	d->next_ns = uccl_max(d->next_ns, now) + (uint64_t)(bytes / d->rate);
}

static uint64_t dcqcn_next(const struct dcqcn *d)
{
	return d->next_ns;
}

/* The receiver got a marked packet. Is the sender to be told? */
static bool dcqcn_marked(struct dcqcn *d, uint64_t now)
{
	if (d->cnp_ns && now - d->cnp_ns < CNP_NS)
		return false;
	d->cnp_ns = now;
	return true;
}

static void nscc_init(struct nscc_window *w, double link, double base_ns, uint64_t now)
{
	w->link = link;
	w->bytes = 1.5 * link * base_ns;
	w->round_at = now + (uint64_t)base_ns;
}

static bool nscc_holds(const struct nscc_window *w, double bytes)
{
	return bytes <= w->bytes;
}

/* What was cut takes its size from the window, or all would send it again at once, for ever. */
static void nscc_cut(struct nscc_window *w, uint32_t bytes, uint32_t mtu)
{
	w->bytes = fmax(mtu, w->bytes - bytes);
}

static void nscc_lost(struct nscc_window *w)
{
	w->lossy = true;
}

/* NSCC with marks, per acknowledged packet. */
static void nscc_ack(double base_ns, struct nscc_window *w, uint32_t bytes, double rtt, bool ecn, uint64_t now)
{
	double bdp = w->link * base_ns, a = bdp / NSCC_REF_BDP, target = base_ns * 0.75, most = 1.5 * bdp;
	double delay = fmax(0, rtt - base_ns), mss = bytes;

	w->avg_ns += 0.0125 * (delay - w->avg_ns);
	w->achieved += bytes;
	w->acked += bytes;
	if (now >= w->round_at) {
		if (w->achieved < most / 8 && (w->lossy || delay > 4 * target))
			w->bytes = fmin(w->bytes, fmax(w->achieved, mss));
		w->achieved = 0;
		w->lossy = false;
		w->round_at = now + (uint64_t)(base_ns + target);
	}
	if (!ecn && delay >= target)
		w->inc += 5 * mss * a * bytes;
	else if (!ecn)
		w->inc += 4 * mss * a * (target / NSCC_REF_RTT_NS) / target * (target - delay) * bytes;
	else if (delay >= target && w->avg_ns > target && now >= w->cut_at) {
		w->bytes *= fmax(1 - 0.8 * (w->avg_ns - target) / w->avg_ns, 0.5);
		w->cut_at = now + (uint64_t)(base_ns + target);
		w->inc = 0;
	}
	if (w->acked >= 8 * mss) {
		w->bytes += w->inc / w->bytes;
		w->inc = w->acked = 0;
	}
	w->bytes = fmax(mss, fmin(w->bytes, most));
}

static void reps_put(struct reps *r, uint16_t sport)
{
	if (r->n < REPS_RING)
		r->sport[r->n++] = sport;
}

/* A port that was not marked, or a random one. */
static uint16_t reps_take(struct reps *r, struct uccl_rng *rng)
{
	return r->n ? r->sport[--r->n] : (uint16_t)(PORT_FIRST + uccl_rng_below(rng, PORTS));
}

/* Sending */

/* The packet to send next; packets: nothing may be sent. */
static uint32_t qp_next(const struct bstack *st, struct qp *q, uint32_t mtu)
{
	uint32_t limit = st->gbn ? GBN_WINDOW : SR_WINDOW;

	if (st->spray) {
		if (q->tx.flying && !nscc_holds(&q->window, (double)(q->tx.flying + 1) * mtu))
			return q->packets;
	} else if (st->gbn ? q->tx.nxt - q->tx.una >= limit : q->tx.nxt - q->tx.una >= limit && !q->tx.nlost) {
		return q->packets;
	}
	for (; q->tx.nlost && q->tx.lost_from < q->tx.nxt; q->tx.lost_from++)
		if (q->tx.state[q->tx.lost_from] == LOST)
			return q->tx.lost_from;
	return q->tx.nxt;
}

static void qp_arm_rto(struct uccl_fab_scene *s, struct qp *q, uint64_t at)
{
	if (q->timed)
		return;
	q->timed = true;
	uccl_fab_queue_put(&s->net.q, &q->rto, at * UCCL_PS_PER_NS);
}

static void qp_send(struct uccl_fab_scene *s, struct qp *q, uint32_t psn)
{
	struct bstack *st = s->st;
	uint64_t now = uccl_fab_now(s);
	struct uccl_fab_pkt *p = packet(s, q, false, DATA, psn);
	uint32_t len = packet_len(q, s->cfg.mtu, psn);

	p->bytes = len + UCCL_FAB_ROCE_BYTES;
	p->cls = UCCL_FAB_DATA;
	p->stamp = now;
	if (psn < q->tx.highest)
		s->rtx_bytes += len;
	q->tx.highest = (uint32_t)uccl_max(q->tx.highest, psn + 1);
	if (st->spray)
		p->sport = reps_take(&q->reps, &s->net.rng);
	if (psn == q->tx.nxt)
		q->tx.nxt++;
	if (q->tx.state) {
		q->tx.nlost -= q->tx.state[psn] == LOST;
		q->tx.state[psn] = FLIGHT;
		q->tx.sent_ns[psn] = now;
		q->tx.flying++;
	}
	if (st->gbn)
		dcqcn_sent(&q->dcqcn, p->bytes, now);
	uccl_fab_send(&s->net, p);
	qp_arm_rto(s, q, now + RTO_NS);
}

static void ring_add(struct bhost *h, struct qp *q)
{
	if (q->ring)
		return;
	if (h->active) {
		q->ring = h->active->ring;
		h->active->ring = q;
	} else {
		q->ring = q;
	}
	h->active = q;
}

/* Queue pairs take turns, a packet each. Those that may not send leave the ring until something happens to them. */
static void host_pump(struct bhost *h)
{
	struct uccl_fab_scene *s = h->s;
	uint64_t now = uccl_fab_now(s);

	while (h->active && uccl_fab_backlog(&s->net, h->id) < s->cfg.post_bytes) {
		struct qp *q = h->active->ring;
		uint32_t psn = qp_next(stack_of(s), q, s->cfg.mtu);
		bool wait = psn >= q->packets || now < dcqcn_next(&q->dcqcn);

		if (!wait) {
			qp_send(s, q, psn);
			h->active = q;
			continue;
		}
		if (q == h->active)
			h->active = NULL;
		else
			h->active->ring = q->ring;
		q->ring = NULL;
		if (psn < q->packets && !q->paced) {
			q->paced = true;
			uccl_fab_queue_put(&s->net.q, &q->pace, dcqcn_next(&q->dcqcn) * UCCL_PS_PER_NS);
		}
	}
}

/* What the network says */

static void qp_lost(struct qp *q, uint32_t psn)
{
	if (q->tx.state[psn] != FLIGHT)
		return;
	q->tx.state[psn] = LOST;
	q->tx.flying--;
	q->tx.nlost++;
	q->tx.lost_from = (uint32_t)uccl_min(q->tx.lost_from, psn);
	nscc_lost(&q->window);
}

/* Selective repeat: later ones of the path came. Spraying: it is overdue by three round trips. */
static void qp_detect(struct bstack *st, struct qp *q, uint32_t acked, uint64_t now)
{
	uint64_t late = (uint64_t)(3 * st->base_ns);

	for (uint32_t i = q->tx.una; i < q->tx.nxt && i < q->tx.una + 4096; i++) {
		if (q->tx.state[i] != FLIGHT)
			continue;
		if (st->spray ? now - q->tx.sent_ns[i] > late && i < acked
			      : i + SR_DUPS <= acked && q->tx.sent_ns[i] < q->tx.sent_ns[acked])
			qp_lost(q, i);
		else if (!st->spray || now - q->tx.sent_ns[i] <= late)
			break;
	}
}

static void on_ack(struct uccl_fab_scene *s, struct qp *q, struct uccl_fab_pkt *p, uint64_t now)
{
	struct bstack *st = s->st;
	uint32_t before = q->tx.una, psn = p->part;

	if (p->type == CNP) {
		dcqcn_cut(&q->dcqcn, now);
	} else if (st->gbn) {
		q->tx.una = (uint32_t)uccl_max(q->tx.una, psn);
		q->tx.nxt = (uint32_t)uccl_max(q->tx.nxt, q->tx.una);
		if (p->type == NAK && psn >= q->tx.una)
			q->tx.nxt = psn;
	} else if (p->type == NAK) {
		if (q->tx.state[psn] == FLIGHT)
			nscc_cut(&q->window, packet_len(q, s->cfg.mtu, psn), s->cfg.mtu);
		qp_lost(q, psn);
	} else {
		if (q->tx.state[psn] != ACKED) {
			q->tx.flying -= q->tx.state[psn] == FLIGHT;
			q->tx.nlost -= q->tx.state[psn] == LOST;
			q->tx.state[psn] = ACKED;
			if (st->spray)
				nscc_ack(st->base_ns, &q->window, packet_len(q, s->cfg.mtu, psn),
					 (double)(now - p->stamp), p->note, now);
		}
		if (st->spray && !p->note)
			reps_put(&q->reps, p->echo);
		while (q->tx.una < q->tx.nxt && q->tx.state[q->tx.una] == ACKED)
			q->tx.una++;
		qp_detect(st, q, psn, now);
	}
	if (q->tx.una != before)
		q->tx.progress_ns = now;
	if (q->tx.una == q->packets && !s->ops[q->op].acked_ns)
		s->ops[q->op].acked_ns = now;
	ring_add(q->host, q);
	host_pump(q->host);
}

/* Receiving */

/* Not go-back-N: this packet did not come before. */
static bool rx_first(struct qp_rx *rx, uint32_t psn)
{
	bool first = !rx->came[psn];

	rx->came[psn] = 1;
	return first;
}

/* Go-back-N: the packet that is taken next. */
static uint32_t rx_next(const struct qp_rx *rx)
{
	return rx->nxt;
}

/* Go-back-N: this packet came. ACK or NAK up to rx_next; -1: no answer. */
static int rx_answer(struct qp_rx *rx, uint32_t psn, uint32_t packets)
{
	if (psn > rx->nxt) {
		if (rx->nak_sent)
			return -1;
		rx->nak_sent = true;
		return NAK;
	}
	if (psn == rx->nxt) {
		rx->nak_sent = false;
		rx->nxt++;
	}
	if (++rx->owed < GBN_ACK_EVERY && rx->nxt != packets && psn + 1 >= rx->nxt)
		return -1;
	rx->owed = 0;
	return ACK;
}

/* The sender's time-out: what was told may be lost. */
static void rx_forget(struct qp_rx *rx)
{
	rx->nak_sent = false;
}

static bool rx_open(struct qp_rx *rx, uint32_t packets)
{
	rx->came = calloc(packets, 1);
	return rx->came;
}

static void rx_close(struct qp_rx *rx)
{
	free(rx->came);
}

static void on_data(struct uccl_fab_scene *s, struct qp *q, struct uccl_fab_pkt *p, uint64_t now)
{
	struct bstack *st = s->st;
	uint32_t psn = p->part, mtu = s->cfg.mtu;
	struct uccl_fab_pkt *r;
	int answer;

	if (st->gbn && p->ecn && dcqcn_marked(&q->dcqcn, now))
		uccl_fab_send(&s->net, packet(s, q, true, CNP, 0));
	if (p->trimmed) {
		uccl_fab_send(&s->net, packet(s, q, true, NAK, psn));
		return;
	}
	if (!st->gbn) {
		r = packet(s, q, true, ACK, psn);
		r->note = p->ecn;
		r->stamp = p->stamp;
		r->echo = p->sport;
		if (st->spray)
			r->sport = p->sport;
		uccl_fab_send(&s->net, r);
		if (rx_first(&q->rx, psn))
			uccl_fab_arrived(s, q->op, q->first + (uint64_t)psn * mtu, packet_len(q, mtu, psn));
		return;
	}
	if (rx_next(&q->rx) == psn)
		uccl_fab_arrived(s, q->op, q->first + (uint64_t)psn * mtu, packet_len(q, mtu, psn));
	answer = rx_answer(&q->rx, psn, q->packets);
	if (answer >= 0)
		uccl_fab_send(&s->net, packet(s, q, true, (uint8_t)answer, rx_next(&q->rx)));
}

static void stack_deliver(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;
	uint64_t now = uccl_fab_now(s);

	if (p->type == DATA)
		on_data(s, p->unit, p, now);
	else
		on_ack(s, p->unit, p, now);
	uccl_fab_pkt_free(n, p);
}

static void stack_lost(struct uccl_fab *n, struct uccl_fab_pkt *p)
{
	uccl_fab_pkt_free(n, p);
}

static void stack_sent(struct uccl_fab *n, uint32_t host, struct uccl_fab_pkt *p)
{
	struct uccl_fab_scene *s = n->user;

	(void)p;
	host_pump(&stack_of(s)->hosts[host]);
}

static void qp_timeout(struct uccl_fab_scene *s, struct qp *q, uint64_t now)
{
	struct bstack *st = s->st;

	q->tx.progress_ns = now;
	if (st->gbn)
		q->tx.nxt = q->tx.una;
	else
		for (uint32_t i = q->tx.una; i < q->tx.nxt; i++)
			if (now - q->tx.sent_ns[i] >= RTO_NS)
				qp_lost(q, i);
	rx_forget(&q->rx);
}

static void stack_event(struct uccl_fab *n, struct uccl_fab_event *e)
{
	struct uccl_fab_scene *s = n->user;
	uint64_t now = uccl_fab_now(s);
	struct qp *q;

	if (e->kind == EV_PACE) {
		q = uccl_container_of(e, struct qp, pace);
		q->paced = false;
	} else {
		q = uccl_container_of(e, struct qp, rto);
		q->timed = false;
		if (q->tx.una == q->packets)
			return;
		if (now - q->tx.progress_ns >= RTO_NS)
			qp_timeout(s, q, now);
		qp_arm_rto(s, q, q->tx.progress_ns + RTO_NS);
	}
	ring_add(q->host, q);
	host_pump(q->host);
}

/* Queue pairs */

static void qp_free(struct qp *q)
{
	if (!q)
		return;
	free(q->tx.state);
	free(q->tx.sent_ns);
	rx_close(&q->rx);
	free(q);
}

static struct qp *qp_new(struct uccl_fab_scene *s, uint32_t op, uint64_t first, uint64_t bytes)
{
	struct bstack *st = s->st;
	struct qp *q = calloc(1, sizeof(*q)), **more;
	uint64_t now = uccl_fab_now(s);
	double link;

	if (!q)
		return NULL;
	if (st->nqps == st->cap) {
		more = realloc(st->qps, (st->cap * 2 + 64) * sizeof(*st->qps));
		if (!more)
			goto nomem;
		st->cap = st->cap * 2 + 64;
		st->qps = more;
	}
	q->pace.kind = EV_PACE;
	q->rto.kind = EV_RTO;
	q->op = op;
	q->dst = s->ops[op].dst;
	q->host = &st->hosts[s->ops[op].src];
	q->first = first;
	q->bytes = bytes;
	q->packets = (uint32_t)((bytes + s->cfg.mtu - 1) / s->cfg.mtu);
	q->sport = (uint16_t)(PORT_FIRST + uccl_rng_below(&s->net.rng, PORTS));
	if (!st->gbn) {
		q->tx.state = calloc(q->packets, 1);
		q->tx.sent_ns = calloc(q->packets, sizeof(*q->tx.sent_ns));
		if (!rx_open(&q->rx, q->packets) || !q->tx.state || !q->tx.sent_ns)
			goto nomem;
	}
	link = (double)uccl_fab_host_bps(&s->net, q->host->id) / 8e9;
	q->tx.progress_ns = now;
	dcqcn_init(&q->dcqcn, link, now);
	nscc_init(&q->window, link, st->base_ns, now);
	st->qps[st->nqps++] = q;
	return q;
nomem:
	qp_free(q);
	return NULL;
}

static int stack_send(struct uccl_fab_scene *s, uint32_t i)
{
	const struct uccl_fab_op *op = &s->ops[i];
	uint32_t host = op->src,
		 n = (uint32_t)uccl_min(uccl_max(s->cfg.qps, 1), (op->bytes + s->cfg.mtu - 1) / s->cfg.mtu);
	uint64_t packets = (op->bytes + s->cfg.mtu - 1) / s->cfg.mtu, at = 0;

	for (uint32_t k = 0; k < n; k++) {
		/* Whole packets each, the last one takes the rest. */
		uint64_t part = uccl_min(packets * (k + 1) / n * s->cfg.mtu, op->bytes) - at;
		struct qp *q = qp_new(s, i, at, part);

		if (!q)
			return -FI_ENOMEM;
		at += part;
		ring_add(q->host, q);
	}
	s->flows += n;
	host_pump(&stack_of(s)->hosts[host]);
	return 0;
}

static int stack_open(struct uccl_fab_scene *s)
{
	struct bstack *st = calloc(1, sizeof(*st));
	const struct uccl_fab_topo *t = &s->cfg.topo;

	if (!st)
		return -FI_ENOMEM;
	s->st = st;
	st->gbn = s->stack == &uccl_fab_stack_gbn;
	st->spray = s->stack == &uccl_fab_stack_spray;
	st->base_ns = 2.0 * (double)uccl_fab_one_way(&s->net, 0, t->hosts - 1, s->cfg.mtu) / UCCL_PS_PER_NS;
	st->hosts = calloc(t->hosts, sizeof(*st->hosts));
	if (!st->hosts)
		return -FI_ENOMEM;
	for (uint32_t i = 0; i < t->hosts; i++) {
		st->hosts[i].s = s;
		st->hosts[i].id = i;
	}
	s->flow_bytes = sizeof(struct qp);
	return 0;
}

static void stack_close(struct uccl_fab_scene *s)
{
	struct bstack *st = s->st;

	for (uint32_t i = 0; i < st->nqps; i++)
		qp_free(st->qps[i]);
	free(st->qps);
	free(st->hosts);
	free(st);
}

#define BASE(id)                                                                                                       \
	const struct uccl_fab_stack uccl_fab_stack_##id = {                                                            \
		.name = #id,                                                                                           \
		.open = stack_open,                                                                                    \
		.close = stack_close,                                                                                  \
		.send = stack_send,                                                                                    \
		.net = {.deliver = stack_deliver, .lost = stack_lost, .sent = stack_sent, .event = stack_event},       \
	}

BASE(gbn);
BASE(sr);
BASE(spray);

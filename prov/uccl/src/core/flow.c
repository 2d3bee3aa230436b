/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a flow: set-up, queues, health of paths. Sending is in tx.c, receiving in rx.c, acknowledgements and loss in
 * ack.c, timers in timer.c, direct writes in direct.c.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"

#define LOG_CAP_MIN 64
/* Packets of a path that the network may still send news of: what 100 Gb/s carry in half a second. */
#define RECENT_PACKETS (1u << 22)

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
/* So many time-outs at most are not repetition: they ask on other paths, then on the same ones with other labels. */
#define PROBES_EAGER_MAX 16
/* A path carries no direct writes any more after so many losses of them in a row. PROTOCOL R84 */
#define WRITE_LOSSES_MAX 3

static void flow_mtu_set(struct uccl_flow *f);

int uccl_flow_init(struct uccl_flow *f, const struct uccl_flow_cfg *cfg, void *user, uint64_t now)
{
	struct uccl_policy_cfg pcfg = {
		.chunk_bytes = cfg->write_bytes > cfg->chunk_bytes ? cfg->write_bytes : cfg->chunk_bytes,
		.link_bps = cfg->link_bps,
		.delay_ns = cfg->delay_ns,
	};
	struct uccl_pull_cfg pull;

	assert(cfg->window && !(cfg->window & (cfg->window - 1)));
	assert(cfg->pacer || !cfg->credit->pull);
	memset(f, 0, sizeof(*f));
	f->cfg = *cfg;
	f->user = user;
	TAILQ_INIT(&f->small);
	TAILQ_INIT(&f->records);
	TAILQ_INIT(&f->bulk);
	uccl_rng_seed(&f->rng, cfg->seed);
	f->log_cap = LOG_CAP_MIN;
	f->log = calloc(f->log_cap, sizeof(*f->log));
	for (int i = 0; i < UCCL_RTX_KINDS; i++)
		f->rtxq[i].csns = calloc(f->log_cap, sizeof(*f->rtxq[i].csns));
	f->paths = calloc(cfg->paths_tx, sizeof(*f->paths));
	f->usable = calloc(cfg->paths_tx, sizeof(*f->usable));
	if (!f->log || !f->rtxq[UCCL_RTX_SMALL].csns || !f->rtxq[UCCL_RTX_LONG].csns || !f->paths || !f->usable ||
	    !uccl_arrived_init(&f->rcv, cfg->window, cfg->csn_rx) || !uccl_owed_init(&f->owed, cfg->paths_rx, now))
		goto nomem;
	if (cfg->write_bytes) {
		f->rx_slots = calloc(cfg->window, sizeof(*f->rx_slots));
		f->descs = calloc(cfg->window, sizeof(*f->descs));
		f->doubts = calloc(cfg->window, sizeof(*f->doubts));
		if (!f->rx_slots || !f->descs || !f->doubts)
			goto nomem;
		/* What is lost must fit into the fragments that there may be. */
		uccl_chunk_init(&f->chunk,
				(uint32_t)uccl_min(cfg->write_bytes, (uint64_t)UCCL_FRAG_MAX * cfg->chunk_bytes),
				cfg->chunk_bytes);
	}
	/* Neighbouring flows begin at different labels, so that few flows already use many routes. */
	f->next_label = (uint16_t)uccl_rng_below(&f->rng, cfg->labels);
	for (uint16_t i = 0; i < cfg->paths_tx; i++)
		uccl_path_init(&f->paths[i], (uint16_t)((f->next_label + i) % cfg->labels));
	for (uint16_t i = 0; i < cfg->paths_tx && cfg->write_bytes && !cfg->write_later; i++)
		f->paths[i].write = UCCL_WRITE_ON;
	f->next_label = (uint16_t)((f->next_label + cfg->paths_tx) % cfg->labels);
	f->path_at = UCCL_NEVER;
	flow_path_refresh(f);

	uccl_pmtu_init(&f->pmtu, cfg->mtu);
	if (cfg->find_mtu && cfg->mtu_known)
		uccl_pmtu_told(&f->pmtu, cfg->mtu_known, now);
	flow_mtu_set(f);
	f->una = f->nxt = f->high_acked = f->grant_cum = cfg->csn_tx;
	f->slots = cfg->slots_tx;
	f->msg_limit = cfg->msg_limit_tx;
	uccl_times_init(&f->times, cfg->rto_min_ns);
	f->rack_at = f->probe_at = UCCL_NEVER;
	uccl_closing_init(&f->close);
	f->heard_ns = now;
	f->fifo = cfg->fifo_paths;

	pcfg.window_max = (uint64_t)pcfg.chunk_bytes * uccl_min(cfg->window, cfg->slots_tx ? 4096 : 64);
	pcfg.k = cfg->k[UCCL_POLICY_CC];
	cfg->cc->init(f->cc, &pcfg, now);
	pcfg.k = cfg->k[UCCL_POLICY_PATH];
	if (cfg->pathsel->init)
		cfg->pathsel->init(f->ps, &pcfg, cfg->paths_tx);
	pcfg.k = cfg->k[UCCL_POLICY_CREDIT];
	if (cfg->credit->init)
		cfg->credit->init(f->cs, &pcfg, now);
	if (cfg->credit->pull) {
		cfg->credit->pull(&pcfg, &pull);
		uccl_pull_init(cfg->pacer, &f->credit.pull, &pull, now);
	}
	return 0;
nomem:
	uccl_flow_fini(f);
	return -FI_ENOMEM;
}

void uccl_flow_fini(struct uccl_flow *f)
{
	if (f->credit.pull.cfg.quantum)
		uccl_pull_fini(f->cfg.pacer, &f->credit.pull);
	free(f->log);
	for (int i = 0; i < UCCL_RTX_KINDS; i++)
		free(f->rtxq[i].csns);
	free(f->paths);
	free(f->usable);
	uccl_arrived_fini(&f->rcv);
	uccl_owed_fini(&f->owed);
	free(f->rx_slots);
	free(f->descs);
	free(f->doubts);
	for (int i = 0; i < UCCL_PIECED_MAX; i++)
		free(f->pieces[i]);
	memset(f, 0, sizeof(*f));
}

static struct uccl_item_list *item_queue(struct uccl_flow *f, const struct uccl_item *item)
{
	if (item->bulk)
		return &f->bulk;
	return item->len > UCCL_CONTROL_BYTES ? &f->records : &f->small;
}

void uccl_flow_submit(struct uccl_flow *f, struct uccl_item *item)
{
	assert(!item->queued && !item->pending);
	assert(item->bulk ? item->len > 0 : item->len <= f->cfg.chunk_bytes);
	item->queued = true;
	item->off = 0;
	item->deficit = 0;
	item->order = f->order++;
	TAILQ_INSERT_TAIL(item_queue(f, item), item, link);
}

/* What follows from the length of packets. */
static void flow_mtu_set(struct uccl_flow *f)
{
	f->chunk_bytes = flow_payload(f, f->pmtu.bytes);
	/* As many packets as of the full length. */
	f->train_bytes = f->cfg.train_bytes / f->cfg.chunk_bytes * f->chunk_bytes;
	f->burst_left = f->burst_bytes = 0;
	/* Pieces are of another length now: those that left may stay, what is under way begins anew. */
	f->frag_next = 0;
}

static void mtu_changed(struct uccl_flow *f, bool cut)
{
	f->pmtu_news = true;
	f->cfg.stats->mtu_cuts += cut;
	f->cfg.stats->mtu_raises += !cut;
	flow_mtu_set(f);
}

/*
 * Only packets that left alone tell how long packets may be: some links between virtual machines let a train pass as
 * one whose packets would be too long for them, and lose every single one.
 */
bool flow_mtu_lost(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	if (!f->cfg.find_mtu)
		return false;
	if (f->pmtu.trial == csn + 1 && e->ntx == 1) {
		uccl_pmtu_tried(&f->pmtu, false, now);
		return true;
	}
	if (e->alone && uccl_pmtu_lost(&f->pmtu, e->packet, e->sent_ns, now))
		mtu_changed(f, true);
	return false;
}

void flow_mtu_acked(struct uccl_flow *f, const struct uccl_sent *e, uint64_t csn, uint64_t now)
{
	if (!f->cfg.find_mtu)
		return;
	if (f->pmtu.trial == csn + 1) {
		if (uccl_pmtu_tried(&f->pmtu, true, now))
			mtu_changed(f, false);
		return;
	}
	if (e->alone)
		uccl_pmtu_arrived(&f->pmtu, e->packet);
}

void uccl_flow_mtu_told(struct uccl_flow *f, uint32_t bytes, uint64_t now)
{
	if (f->cfg.find_mtu && uccl_pmtu_told(&f->pmtu, bytes, now))
		mtu_changed(f, true);
}

void flow_item_unqueue(struct uccl_flow *f, struct uccl_item *item)
{
	TAILQ_REMOVE(item_queue(f, item), item, link);
	item->queued = false;
}

bool uccl_flow_withdraw(struct uccl_flow *f, struct uccl_item *item)
{
	if (!item->queued || item->off || item->pending || f->desc_item == item)
		return false;
	flow_item_unqueue(f, item);
	return true;
}

void flow_item_done(struct uccl_flow *f, struct uccl_item *item, uint64_t now)
{
	if (!item->pending && !item->queued)
		f->cfg.ops->acked(f, item, now);
}

bool uccl_flow_idle(const struct uccl_flow *f)
{
	return TAILQ_EMPTY(&f->small) && TAILQ_EMPTY(&f->records) && TAILQ_EMPTY(&f->bulk) && f->una == f->nxt;
}

bool uccl_flow_acked(const struct uccl_flow *f, uint64_t cookie)
{
	return cookie < f->una || (cookie < f->nxt && flow_sent(f, cookie)->state == UCCL_SENT_ACKED);
}

bool uccl_flow_recent(const struct uccl_flow *f, uint16_t path, uint32_t pseq)
{
	return path < f->cfg.paths_tx && pseq && f->paths[path].next_seq - 1 - pseq < RECENT_PACKETS;
}

/* Two paths are asked per time-out, so as many time-outs as there are paths ask each of them twice. */
static uint32_t probe_doublings(const struct uccl_flow *f)
{
	uint32_t eager = (uint32_t)uccl_min(f->cfg.paths_tx, PROBES_EAGER_MAX);

	return f->backoff - 1 > eager ? (uint32_t)uccl_min(f->backoff - 1 - eager, 16) : 0;
}

/* Exactly one timer runs whenever something is not acknowledged. */
void flow_probe_arm(struct uccl_flow *f, uint64_t now)
{
	f->armed_ns = now;
	if (!flow_outstanding(f))
		f->probe_at = UCCL_NEVER;
	else if (!f->backoff)
		f->probe_at = now + uccl_times_pto(&f->times);
	else
		f->probe_at = now + uccl_min(uccl_flow_rto(f) << probe_doublings(f), UCCL_RTO_MAX_NS);
}

/* Rebuild the list of paths in service; with none left, all that are not in quarantine, then simply all. */
void flow_path_refresh(struct uccl_flow *f)
{
	uint16_t n = 0;

	f->path_at = UCCL_NEVER;
	for (uint16_t i = 0; i < f->cfg.paths_tx; i++) {
		if (uccl_path_usable(&f->paths[i]))
			f->usable[n++] = i;
		else
			f->path_at = uccl_min(f->path_at, f->paths[i].until);
	}
	for (uint16_t i = 0; !n && i < f->cfg.paths_tx; i++)
		if (f->paths[i].state != UCCL_PATH_QUARANTINE)
			f->usable[n++] = i;
	for (uint16_t i = 0; !n && i < f->cfg.paths_tx; i++)
		f->usable[i] = i;
	f->nusable = n ? n : f->cfg.paths_tx;
	f->burst_left = 0;
}

void flow_path_reroll(struct uccl_flow *f, uint16_t path)
{
	f->paths[path].label = f->next_label;
	f->paths[path].fresh_seq = f->paths[path].next_seq;
	f->paths[path].ask_ns = 0;
	f->next_label = (uint16_t)((f->next_label + 1) % f->cfg.labels);
	f->paths[path].rerolls++;
	f->cfg.stats->rerolled++;
}

void flow_path_probe(struct uccl_flow *f, uint16_t path)
{
	f->probes_due += !f->paths[path].probe_due;
	f->paths[path].probe_due = true;
}

/* The NIC makes the path anew for writes; then one of them has to show that it works, the later the more often not. */
static void write_renew(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	struct uccl_path *p = &f->paths[path];

	if (!f->cfg.write_later || p->write == UCCL_WRITE_OFF)
		return;
	if (p->write == UCCL_WRITE_TRYING && p->write_strikes < 8)
		p->write_strikes++;
	p->write = UCCL_WRITE_OFF;
	p->write_losses = 0;
	f->cfg.stats->write_renewed++;
	f->cfg.ops->renew(f, path, now);
}

void flow_write_lost(struct uccl_flow *f, uint16_t path, uint64_t csn, uint64_t now)
{
	struct uccl_path *p = &f->paths[path];

	/* A later one came: the path works. */
	if (csn < p->acked_csn)
		return;
	if (p->write_losses < UINT8_MAX)
		p->write_losses++;
	if (p->write == UCCL_WRITE_TRYING || p->write_losses >= WRITE_LOSSES_MAX)
		write_renew(f, path, now);
}

void flow_write_seen(struct uccl_flow *f, uint16_t path, uint64_t csn)
{
	struct uccl_path *p = &f->paths[path];

	p->write_losses = 0;
	/* What was written before tells of what the path was before. */
	if (p->write != UCCL_WRITE_TRYING || csn < p->write_csn)
		return;
	p->write = UCCL_WRITE_ON;
	p->write_strikes = 0;
}

static void control_add(struct uccl_flow *f, uint16_t path)
{
	uint8_t i = f->control_old;

	if (f->ncontrol < UCCL_CONTROL_PATHS) {
		i = f->ncontrol++;
	} else {
		f->paths[f->control[i]].control = false;
		f->control_old = (uint8_t)((i + 1) % UCCL_CONTROL_PATHS);
	}
	f->control[i] = path;
	f->paths[path].control = true;
}

static void control_remove(struct uccl_flow *f, uint16_t path)
{
	for (uint8_t i = 0; f->paths[path].control && i < f->ncontrol; i++)
		if (f->control[i] == path) {
			f->control[i] = f->control[--f->ncontrol];
			f->paths[path].control = false;
		}
}

void flow_control_forget(struct uccl_flow *f)
{
	while (f->ncontrol)
		control_remove(f, f->control[0]);
}

static void path_losses(struct uccl_flow *f, uint16_t path, uint32_t n, uint32_t most, uint64_t now);

void flow_control_check(struct uccl_flow *f, uint64_t now)
{
	uint64_t rto = uccl_flow_rto(f);

	/* All paths, but only now and then. */
	if (f->rack_ns < f->control_at)
		return;
	f->control_at = f->rack_ns + rto / 2;
	for (uint16_t i = 0; i < f->cfg.paths_tx; i++) {
		struct uccl_path *p = &f->paths[i];

		if (!p->ask_ns || f->rack_ns < p->ask_ns + rto)
			continue;
		p->ask_ns = 0;
		control_remove(f, i);
		/* Reports name twelve paths at a time, so of many one says little. */
		path_losses(f, i, 1, PATH_LOSSES_MAX, now);
	}
}

void flow_control_unheard(struct uccl_flow *f)
{
	if (f->unheard < UINT16_MAX)
		f->unheard++;
	if (f->unheard > 1)
		flow_control_forget(f);
}

static void path_state(struct uccl_flow *f, struct uccl_path *p, enum uccl_path_state state, uint64_t until,
		       uint64_t now)
{
	flow_trace(f, UCCL_TRACE_PATH, (uint8_t)state, (uint16_t)(p - f->paths), 0, 0, 0, now);
	p->state = (uint8_t)state;
	p->until = until;
	p->losses = 0;
	if (state != UCCL_PATH_ACTIVE)
		p->fresh_seq = p->next_seq;
}

static void path_quarantine(struct uccl_flow *f, struct uccl_path *p, uint64_t now)
{
	path_state(f, p, UCCL_PATH_QUARANTINE, now + (uccl_flow_rto(f) << p->strikes), now);
	if (p->strikes < 8)
		p->strikes++;
	f->cfg.stats->quarantined++;
}

/* The time-out of a path that may be slower than most. */
static uint64_t path_rto(const struct uccl_flow *f, const struct uccl_path *p)
{
	uint64_t rto = p->srtt_ns ? p->srtt_ns + 4 * p->rttvar_ns + UCCL_ACK_DELAY_NS : 0;

	return uccl_clamp(rto, uccl_flow_rto(f), UCCL_RTO_MAX_NS);
}

/* `n` losses more; `most` of them in a row are suspicious. */
static void path_losses(struct uccl_flow *f, uint16_t path, uint32_t n, uint32_t most, uint64_t now)
{
	struct uccl_path *p = &f->paths[path];

	p->losses = (uint8_t)uccl_min(p->losses + n, UINT8_MAX);
	if (p->state != UCCL_PATH_ACTIVE || p->losses < most || f->nusable < 2)
		return;
	path_state(f, p, UCCL_PATH_SUSPECT, now + path_rto(f, p), now);
	control_remove(f, path);
	flow_path_probe(f, path);
	flow_path_refresh(f);
}

void flow_path_loss(struct uccl_flow *f, uint16_t path, bool silent, uint64_t now)
{
	path_losses(f, path, silent ? PATH_LOSSES_MAX : 1, f->nusable < PATHS_MANY ? PATH_LOSSES_MAX : 1, now);
}

/* Losses of one round trip are one: a full queue takes many. PROTOCOL R102 */
void flow_path_long_lost(struct uccl_flow *f, const struct uccl_sent *e, uint64_t now)
{
	struct uccl_path *p = &f->paths[e->path];

	if (e->len <= PATH_LONG || e->sent_ns < p->long_ns)
		return;
	p->long_ns = now;
	if (p->long_losses < UINT8_MAX)
		p->long_losses++;
	if (p->long_losses < PATH_LONG_LOSSES_MAX || f->nusable < 2 ||
	    (p->state != UCCL_PATH_ACTIVE && p->state != UCCL_PATH_SUSPECT))
		return;
	control_remove(f, e->path);
	path_quarantine(f, p, now);
	flow_path_refresh(f);
}

void flow_path_long_acked(struct uccl_flow *f, const struct uccl_sent *e)
{
	if (e->len > PATH_LONG)
		f->paths[e->path].long_losses = 0;
}

void flow_path_alive(struct uccl_flow *f, uint16_t path, uint64_t arrived)
{
	struct uccl_path *p = &f->paths[path];

	f->reacted_ns = arrived;
	f->unheard = 0;
	/* What was sent before tells of the label before, or of better times. */
	if ((int32_t)(p->acked_seq - p->fresh_seq) < 0)
		return;
	p->fresh_seq = p->acked_seq;
	p->losses = 0;
	if (p->ask_ns && (int32_t)(p->acked_seq - p->ask_seq) >= 0)
		p->ask_ns = 0;
	f->alive_path = path;
	if (p->state != UCCL_PATH_ACTIVE) {
		if (p->state == UCCL_PATH_PROBATION) {
			p->srtt_ns = 0;
			if (p->strikes)
				p->strikes--;
		}
		path_state(f, p, UCCL_PATH_ACTIVE, 0, arrived);
		flow_path_refresh(f);
	}
	if (!p->control && p->state == UCCL_PATH_ACTIVE)
		control_add(f, path);
}

/*
 * Quarantine ends: a new label, on probation. Suspicion or probation ends without an answer: quarantine, the longer the
 * more often.
 */
void flow_paths_expire(struct uccl_flow *f, uint64_t now)
{
	for (uint16_t i = 0; i < f->cfg.paths_tx; i++) {
		struct uccl_path *p = &f->paths[i];

		if (uccl_path_usable(p) || now < p->until)
			continue;
		if (p->state == UCCL_PATH_QUARANTINE) {
			flow_path_reroll(f, i);
			/* Another label on another path, perhaps: one more such time, and it is left. */
			p->long_losses = PATH_LONG_LOSSES_MAX - 1;
			p->long_ns = now;
			write_renew(f, i, now);
			path_state(f, p, UCCL_PATH_PROBATION, now + 2 * uccl_flow_rto(f), now);
			flow_path_probe(f, i);
		} else {
			path_quarantine(f, p, now);
		}
	}
	flow_path_refresh(f);
}

uint16_t flow_next_path(struct uccl_flow *f)
{
	f->control_rr = (uint16_t)((f->control_rr + 1) % f->nusable);
	return f->usable[f->control_rr];
}

void uccl_flow_keepalive(struct uccl_flow *f, uint64_t now)
{
	f->control_rr = (uint16_t)((f->control_rr + 1) % f->cfg.paths_tx);
	flow_path_probe(f, f->control_rr);
	(void)now;
}

void uccl_flow_close(struct uccl_flow *f, uint64_t now)
{
	uccl_closing_begin(&f->close, uccl_flow_rto(f), now);
}

static const char *flow_check_paths(const struct uccl_flow *f)
{
	uint32_t due = 0, control = 0, active = 0;

	for (uint16_t i = 0; i < f->cfg.paths_tx; i++) {
		const struct uccl_path *p = &f->paths[i];

		due += p->probe_due;
		control += p->control;
		active += p->state == UCCL_PATH_ACTIVE;
		if (p->state != UCCL_PATH_ACTIVE && (p->control || p->until < f->path_at))
			return "a path out of service is used, or has no timer";
	}
	for (uint8_t i = 0; i < f->ncontrol; i++)
		if (!f->paths[f->control[i]].control)
			return "list of paths for control";
	if (due != f->probes_due || control != f->ncontrol)
		return "count of probes or of paths for control";
	if (!f->nusable || (active && active != f->nusable))
		return "paths in service";
	return NULL;
}

const char *uccl_flow_check(const struct uccl_flow *f)
{
	uint64_t bytes = 0;
	uint32_t chunks = 0, unacked = 0, repairs = 0, pieced = 0, more = 0;

	if (f->una > f->nxt || f->nxt - f->una > f->log_cap || f->log_cap > f->cfg.window)
		return "send window bounds";
	if (f->high_acked > f->nxt || f->rcv.nxt > f->rcv.high || f->rcv.high - f->rcv.nxt > f->cfg.window)
		return "receive window bounds";
	for (uint64_t c = f->una; c != f->nxt; c++) {
		const struct uccl_sent *e = flow_sent(f, c);

		if (e->state == UCCL_SENT_FREE)
			return "free entry inside the window";
		if (e->state == UCCL_SENT_INFLIGHT) {
			bytes += e->len;
			chunks++;
		}
		unacked += e->state != UCCL_SENT_ACKED;
		repairs += e->repair;
		pieced += e->pieces > 0;
		more += e->pieces;
	}
	if (bytes != f->inflight_bytes || chunks != f->inflight_chunks)
		return "bytes in flight are not the sum of the chunks";
	if (f->una != f->nxt && flow_sent(f, f->una)->state == UCCL_SENT_ACKED && !flow_sent(f, f->una)->nic_reads)
		return "first chunk of the window is acknowledged";
	if (repairs != f->repairs)
		return "count of lost chunks";
	if (pieced != f->pieced || pieced > UCCL_PIECED_MAX || more != f->pieces_more)
		return "count of chunks in pieces";
	if (unacked && f->probe_at == UCCL_NEVER)
		return "something is not acknowledged and no timer runs";
	if (uccl_arrived_has(&f->rcv, f->rcv.nxt))
		return "first missing chunk is marked received";
	return flow_check_paths(f);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Part of a flow: its paths. Which are in service, which ones control packets take, where probes wait to leave, which
 * carry direct writes, and the burst under way. Time-outs come as arguments.
 *
 * The grammar: init. `alive`, `loss`, `long_lost`, `long_acked`, `write_lost`, `write_seen`, `overdue` and `unheard`
 * for what the peer reported or did not; `expire` at `at`; `control`, `next`, `for_write`, `take_probe` and the burst
 * when something leaves.
 */
#ifndef UCCL_FLOW_PATH_PATHS_H
#define UCCL_FLOW_PATH_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/path/burst.h"
#include "flow/path/path.h"
#include "flow/path/tuples.h"
#include "flow/observe/stats.h"

/* Control packets prefer the paths that the peer reported last, this many. */
#define UCCL_CONTROL_PATHS 8

struct uccl_paths;

struct uccl_paths_ops {
	/* A path enters this state. */
	void (*changed)(struct uccl_paths *s, uint16_t path, enum uccl_path_state state, uint64_t now);
	/*
	 * With write_later: what is written on this path seems to be swallowed, it is to be made anew, or to be tried
	 * again; `stays`: by the same way through the network.
	 */
	void (*renew)(struct uccl_paths *s, uint16_t path, bool stays, uint64_t now);
};

struct uccl_paths_cfg {
	uint16_t n, labels;
	uint16_t first_label;
	bool first_stays;	/* path 0 keeps its label, unless it is the only one */
	uint8_t rails;		/* label l is of rail l % rails; `labels` is a multiple; 0, 1: there is one */
	struct uccl_tuple_budget *budget; /* of 5-tuples; NULL: no limit */
	bool writes;		/* there may be direct writes, */
	bool write_later;	/* but no path carries them before uccl_paths_set_writable */
	bool write_brittle;	/* and one that lost some may be broken, where the NIC does not know of it */
	struct uccl_stats *stats;
	const struct uccl_paths_ops *ops;
};

/* The paths that control packets prefer. paths.c writes it. */
struct uccl_control_paths {
	uint16_t list[UCCL_CONTROL_PATHS]; /* in service, and the peer reported them lately */
	uint8_t n;
	uint8_t old;	/* the next of them to make room */
	uint8_t next;	/* the next of them to carry something */
	uint8_t turn;	/* now and then another path is tried, */
	uint16_t rr;	/* one after the other */
	uint8_t rolls;	/* new labels that acknowledgements got since the peer last heard one */
	uint64_t at;	/* next look at control packets that were not reported */
};

/* A rail without a path in service is tried as a whole: one path after the other. PROTOCOL R377 R401 */
struct uccl_rail_trial {
	uint64_t since_ns;
	uint64_t at;	/* the next path is tried; 0: there is no trial */
	uint64_t away_ns;	/* how long it was away when it returned last */
	uint16_t path;	/* that is this one */
	bool unproved;	/* no long chunk came through since it returned, */
	bool doubted;	/* and such were lost */
};

/* The rails of the paths. paths.c writes it. */
struct uccl_paths_rails {
	uint8_t n;	/* a path stays on its rail, if each has one; 1: none has to */
	uint8_t usable;	/* rails that have a path in service, by bits */
	struct uccl_rail_trial trial[UCCL_RAILS_MAX];
};

struct uccl_paths {
	struct uccl_path *list;
	uint16_t *usable;	/* indices of those in service, as many as may be used */
	uint16_t n, nusable;
	struct uccl_paths_rails rails;
	uint16_t labels, next_label;
	bool first_stays;
	bool write_later;
	uint8_t write_tries;	/* in vain, after which one that was left for lost writes gets another way */
	struct uccl_control_paths control;
	uint16_t alive;		/* reported last */
	uint16_t kept;		/* the last keepalive left on it, */
	uint32_t kept_acked;	/* when the peer had reported this number of it */
	uint16_t warm;		/* payload leaves on it while little is in flight */
	uint8_t warm_tried;	/* paths that were tried for that */
	uint16_t probes_due;	/* paths with a probe to send */
	uint16_t write_rr;	/* where the next path that may carry writes is looked for */
	uint32_t unheard;	/* answers in a row that the peer does not know of */
	uint64_t reacted_ns;	/* the peer reported something new of ours */
	uint64_t at;		/* earliest end of a quarantine or probation */
	struct uccl_tuples tuples; /* how many are in use */
	struct uccl_burst burst;
	struct uccl_stats *stats;
	const struct uccl_paths_ops *ops;
};

/* False: no memory. */
bool uccl_paths_init(struct uccl_paths *s, const struct uccl_paths_cfg *cfg);
void uccl_paths_fini(struct uccl_paths *s);
/* The paths as they are, `*n` of them: the caller's, who frees them. Nothing may follow but fini. */
struct uccl_path *uccl_paths_take_list(struct uccl_paths *s, uint16_t *n);

/* Rebuild the list of those in service; with none left, all that are not in quarantine, then simply all. */
void uccl_paths_refresh(struct uccl_paths *s);
/* Payload is spread over paths now; about once a second: whether it still is. PROTOCOL R374 */
void uccl_paths_spread(struct uccl_paths *s, uint64_t now);
void uccl_paths_scan(struct uccl_paths *s, uint64_t now);
/* Another label for this path, but not for path 0 if it stays. */
void uccl_paths_reroll(struct uccl_paths *s, uint16_t path);
/* A PROBE leaves on this path as soon as it can. */
void uccl_paths_probe(struct uccl_paths *s, uint16_t path);
/* The next path with a PROBE to send: it leaves now. UCCL_PATHS_MAX: none. */
uint16_t uccl_paths_take_probe(struct uccl_paths *s);
/* A PROBE on the path of the last one if the peer has reported something of it since, else on the next path. */
void uccl_paths_keepalive(struct uccl_paths *s, uint64_t now);
/*
 * The peer does not report what left on this path, nor did it answer the last `unanswered` questions: ask it by PROBEs
 * on two paths. At first on the same path, where a PROBE is also a later packet, and on the one that answered last;
 * then on path after path, as many as the budget of 5-tuples and the silence allow, at last with new labels. PROTOCOL
 * R54 R55 R374
 */
void uccl_paths_ask(struct uccl_paths *s, uint16_t path, uint32_t unanswered, uint64_t now);

/* Something sent on this path was lost although others moved; `silent`: through a whole time-out. PROTOCOL R17 */
void uccl_paths_loss(struct uccl_paths *s, uint16_t path, bool silent, uint64_t rto_ns, uint64_t now);
/* A chunk that was sent on it then is lost: losses of one round trip are one, a full queue takes many. PROTOCOL R102 */
void uccl_paths_long_lost(struct uccl_paths *s, uint16_t path, uint32_t len, uint64_t sent_ns, uint64_t rto_ns,
			  uint64_t now);
/* A chunk of this path was acknowledged: a rail in doubt is back, if it is a long one. PROTOCOL R102 R401 */
void uccl_paths_long_acked(struct uccl_paths *s, uint16_t path, uint32_t len, uint64_t now);
/* The rest of uccl_paths_alive: it was out of service, or control packets do not prefer it yet. */
void uccl_paths_returns(struct uccl_paths *s, uint16_t path, uint64_t arrived);
/* A block that came at `arrived` reports a packet of this path for the first time. */
static inline void uccl_paths_alive(struct uccl_paths *s, uint16_t path, uint64_t arrived)
{
	struct uccl_path *p = &s->list[path];

	s->reacted_ns = arrived;
	s->unheard = 0;
	uccl_tuples_heard(&s->tuples);
	/* What was sent before tells of the label before, or of better times. */
	if ((int32_t)(p->acked_seq - p->fresh_seq) < 0)
		return;
	p->fresh_seq = p->acked_seq;
	p->losses = 0;
	uccl_path_asks_reported(&p->asks, p->acked_seq);
	s->alive = path;
	if (p->state != UCCL_PATH_ACTIVE || !p->control)
		uccl_paths_returns(s, path, arrived);
}
/* Paths that were out of service for their time. PROTOCOL R17 */
void uccl_paths_expire(struct uccl_paths *s, uint64_t rto_ns, uint64_t now);

/*
 * The path for payload while little is in flight: at first one after the other of a few, then the same, `warm`. It is
 * left for the quickest one that the peer reported lately, if it lost something or takes twice as long. UCCL_PATHS_MAX:
 * none is known to work. PROTOCOL R341
 */
uint16_t uccl_paths_choose_warm(struct uccl_paths *s);
/* Payload leaves on this one from now on while little is in flight. */
static inline void uccl_paths_set_warm(struct uccl_paths *s, uint16_t path)
{
	s->warm = path;
}

/* Is `warm` in service, and did it lose nothing since the peer reported it last? */
static inline bool uccl_paths_warm_works(const struct uccl_paths *s)
{
	const struct uccl_path *p = &s->list[s->warm];

	return uccl_path_usable(p) && !p->losses;
}

/* Those in service that leave by this rail, how many there are; `list` has room for UCCL_PATHS_MAX. */
uint16_t uccl_paths_of_rail(const struct uccl_paths *s, uint8_t rail, uint16_t *list);
/* This rail answers, and loses long chunks. PROTOCOL R401 */
static inline bool uccl_paths_rail_doubted(const struct uccl_paths *s, uint8_t rail)
{
	return s->rails.trial[rail].doubted;
}

/* The next of those in service, one after the other. */
uint16_t uccl_paths_next(struct uccl_paths *s);
/* Paths that the peer reported lately, and a small share of the others, so that they can be. PROTOCOL R56 */
uint16_t uccl_paths_control(struct uccl_paths *s);
/* Likewise, but if that is slow the quickest of those reported lately: for what others wait for. PROTOCOL R210 */
uint16_t uccl_paths_quick(struct uccl_paths *s);
/*
 * One of the paths that the peer reported lately, the same as long as it is one of them: `warm`, if that is one. If the
 * peer reported none, `warm`, too. PROTOCOL R341
 */
uint16_t uccl_paths_control_warm(struct uccl_paths *s);
/* The next of those that the peer reported lately; there must be one. */
uint16_t uccl_paths_control_next(struct uccl_paths *s);
/* The least RTT of each path is learnt anew. */
void uccl_paths_least_anew(struct uccl_paths *s);
/* No path is known to work any more. */
void uccl_paths_forget(struct uccl_paths *s);
/*
 * Control packets that left long before what the peer reports now, and were not reported: to be looked for if
 * uccl_paths_look says so. PROTOCOL R56
 */
void uccl_paths_overdue(struct uccl_paths *s, uint64_t reported_ns, uint64_t rto_ns, uint64_t now);
/* A PROBE was answered and the peer asks again as if it had not been. PROTOCOL R57 */
void uccl_paths_unheard(struct uccl_paths *s, uint64_t now);

/* A direct write on this path was lost, or one was reported. */
void uccl_paths_write_lost(struct uccl_paths *s, uint16_t path, uint64_t csn, uint64_t now);
void uccl_paths_write_seen(struct uccl_paths *s, uint16_t path, uint64_t csn);
/* With write_later: the NIC can, or can no longer, write on it. */
void uccl_paths_set_writable(struct uccl_paths *s, uint16_t path, bool on, uint64_t rto_ns, uint64_t now);
/* How many writes may be announced now: one for each path that is to be tried, if there is none that works. */
uint32_t uccl_paths_writes_allowed(const struct uccl_paths *s, uint32_t most, uint64_t now);
/* The path that was chosen if it may carry writes, else the next in service that may; UCCL_PATHS_MAX: none. */
uint16_t uccl_paths_for_write(struct uccl_paths *s, uint16_t path, uint64_t now);

/* Is something reported that left so late? All paths are looked at, but only now and then. */
static inline bool uccl_paths_look(const struct uccl_paths *s, uint64_t reported_ns)
{
	return reported_ns >= s->control.at;
}

/* Check what must always hold: NULL, or a text that says what does not. For tests. */
const char *uccl_paths_check(const struct uccl_paths *s);

#endif

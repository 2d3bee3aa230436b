/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The three plugs of the transport: congestion control, path choice, credits. Each is a table of
 * functions with a block of private state that the flow embeds; all hooks are optional unless marked.
 * They see plain numbers, never the flow or the NIC, and are chosen by name at run time. The events of
 * the paper's Appendix A are in flow/events.c, one function each, each called from exactly one place.
 */
#ifndef UCCL_FLOW_POLICY_H
#define UCCL_FLOW_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow/path/path.h"
#include "flow/ack/rate.h"

#define UCCL_CC_STATE 272
#define UCCL_PATHSEL_STATE 512
#define UCCL_CREDIT_STATE 128

/*
 * A constant of a policy that a person may set: the table is the only place that knows of it. The values of a policy
 * are doubles, in the order of its table.
 */
struct uccl_constant {
	const char *name;
	double def, lo, hi;
	const char *unit;   /* empty: none */
	const char *source; /* what it means, and where the default comes from */
};

/* Of one policy, at most. */
#define UCCL_CONSTANTS_MAX 32

enum uccl_policy_kind { UCCL_POLICY_CC, UCCL_POLICY_PATH, UCCL_POLICY_CREDIT, UCCL_POLICY_KINDS };

/* Constants of a flow that a policy may need. */
struct uccl_policy_cfg {
	const double *params;	/* values of the policy's constants, which outlive the flow; NULL: the defaults */
	uint32_t chunk_bytes;	/* largest chunk */
	uint32_t burst_bytes;	/* what leaves at once on one path: such a chunk, or packets in a row (a train) */
	uint64_t window_max;	/* bytes: more can never be in flight */
	uint64_t link_bps;	/* 0: unknown */
	uint64_t delay_ns;	/* normal fabric delay of this back end */
};

/* A group of chunks newly acknowledged by one ACK. */
struct uccl_ack_info {
	uint64_t bytes;		/* newly acknowledged */
	uint64_t inflight;	/* bytes still in flight after it */
	uint64_t rtt_ns;	/* fabric RTT sample (turnaround taken off), 0: none in this ACK */
	uint16_t path;		/* of which path; the least one of an ACK that has several */
	uint64_t srtt_ns;	/* smoothed, of all paths */
	uint64_t min_rtt_ns;
	uint64_t marked;	/* bytes newly reported as marked by the network (ECN); 0 where nobody counts marks */
	uint64_t backlog;	/* as in struct uccl_chunk_info */
	bool app_limited;	/* the window was not what held the sender back */
	/*
	 * A sample of the delivery rate (flow/ack/rate.h). A round trip is over when rate.prior reaches what was
	 * `delivered` when it began.
	 */
	uint64_t delivered;	/* bytes since the flow began */
	struct uccl_rate_sample rate;
};

enum uccl_loss_kind {
	UCCL_LOSS_PROOF, /* a later packet of the same path arrived */
	UCCL_LOSS_RACK,	 /* a packet sent later was acknowledged long enough ago */
	UCCL_LOSS_RTO,	 /* nothing was heard for the whole time-out */
};

/* Chunks declared lost together. */
struct uccl_loss_info {
	enum uccl_loss_kind kind;
	uint16_t path;
	uint64_t bytes;
	uint64_t inflight;	/* bytes still in flight after it */
	uint64_t srtt_ns;
	uint64_t last_rtt_ns;	/* latest fabric RTT sample of the flow: tells congestion from corruption */
};

struct uccl_cc_ops {
	const char *name;
	bool marks; /* it slows down for marks: the network may mark packets instead of throwing them away (RFC 3168) */
	const struct uccl_constant *constants; /* ends with a NULL name; NULL: none */
	void (*init)(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now);
	/* Bytes allowed in flight; required. May be below one chunk: then pace() spreads chunks. */
	uint64_t (*window)(const void *cc);
	/* A chunk of `bytes` leaves at `now`: the earliest time for the next one (now: not paced). */
	uint64_t (*pace)(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now);
	void (*on_ack)(void *cc, const struct uccl_ack_info *ack, uint64_t now);
	void (*on_loss)(void *cc, const struct uccl_loss_info *loss, uint64_t now);
	/*
	 * From now on it is one of `of` flows of an endpoint, of its busy lanes. Together they have what one would have
	 * of the link, of the largest window, and of what it grows. At first it is alone. NULL: it does not share, and
	 * each lane is a flow like others.
	 */
	void (*share)(void *cc, uint32_t of);
};

struct uccl_rng;

/* A chunk, or a burst of packets, that is about to leave. */
struct uccl_chunk_info {
	uint32_t bytes;	  /* of it */
	uint64_t left;	  /* of its message, these included; of a burst, of that which begins it. 0: sent before */
	uint64_t backlog; /* bytes that the NIC was handed and has not sent; 0 also where it does not tell */
};

struct uccl_path_ops {
	const char *name;
	const struct uccl_constant *constants; /* as above */
	void (*init)(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths);
	/*
	 * The path for the next chunk; required. `usable` lists the indices (n >= 1 of them) of paths in service,
	 * `paths` is indexed by them. Returns one of usable[].
	 */
	uint16_t (*select)(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			   const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now);
	/*
	 * A sample of a path; what it reports still counts as in flight. `marked`: bytes on it that the network was
	 * reported to have marked (ECN) since the last one, to the next KiB; 0 where nobody counts marks.
	 */
	void (*on_ack)(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t rtt_ns, uint64_t marked,
		       uint64_t now);
	/*
	 * Payload of this path was acknowledged, and counts as in flight no more. Not every one has a sample, and a
	 * sample may come before it or after.
	 */
	void (*on_land)(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t now);
	void (*on_loss)(void *ps, uint16_t path, enum uccl_loss_kind kind, uint64_t now);
};

/* How a receiver's pacer (flow/send/pacer.h) treats one sender, bytes. */
struct uccl_pull_cfg {
	uint32_t quantum; /* of one grant */
	uint64_t idle;	  /* that it may send unsolicited, and gets back when it has */
	uint64_t window;  /* that it may be ahead of what was received at most; idle + 2 quanta at least */
	uint32_t senders; /* fewer that are busy at once send freely; 0, 1: nobody does */
	uint64_t quiet_ns; /* a sender is busy until it was not heard for so long */
	/* with rank() */
	uint32_t at_once;  /* only so many of the lowest rank have grants under way; 0: as many as there are */
	uint32_t fair;	   /* of so many grants one goes to who has waited longest, whatever its rank; 0: none does */
};

/* One of the senders that want more than they were granted, as the receiver knows it; bytes. */
struct uccl_sender {
	uint64_t left;	 /* of the message that it sends next, or is sending: what has not come; see PROTOCOL R198 */
	uint64_t demand; /* what it wants to send, and has not come */
	uint64_t ahead;	 /* what it was granted, and has not come */
	uint64_t turn;	 /* grants that all senders had got when it had its latest */
	bool lost;	 /* something of it was lost since then */
};

/*
 * Bandwidth credit. All counters are cumulative bytes since the flow began, so that a lost or late
 * credit is harmless (EQDS). Retransmissions and control are never gated by it.
 */
struct uccl_credit_ops {
	const char *name;
	const struct uccl_constant *constants; /* as above */
	void (*init)(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now);
	/* Sender: the most bytes that may have been sent in all (UINT64_MAX: no limit); required. */
	uint64_t (*limit)(const void *cs);
	/*
	 * Sender: so many bytes more than that, if all that waits ends within them and the receiver was asked for
	 * nothing. NULL: none.
	 */
	uint64_t (*whole)(const void *cs);
	/*
	 * Sender: the receiver's cumulative grant arrived. `turn` counts how often the receiver has changed between
	 * holding us to its grants (even) and letting us send freely (odd), 0 of those that never change; it never goes
	 * back.
	 */
	void (*on_credit)(void *cs, uint64_t granted, uint64_t turn, uint64_t now);
	/* Receiver: new data arrived in all / the sender demands this much in all. Returns the
	 * cumulative grant to announce; 0: this policy announces none. */
	uint64_t (*grant)(void *cs, uint64_t received, uint64_t demand, uint64_t now);
	/* Receiver, instead of grant: the NIC's pacer grants, by these numbers. */
	void (*pull)(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull);
	/* Sender: of messages to one receiver those with much less left than others go first; else they take turns. */
	bool shortest;
	/*
	 * Receiver, with pull: who of those that want more is granted first: the lowest, equal ones in any order. Asked
	 * when something of this sender has changed. NULL: those whose data was lost first, and else in turns.
	 */
	uint64_t (*rank)(const struct uccl_sender *s);
};

/*
 * A policy is chosen by a text: its name, or name:constant=value,... with ',' or ':' between. These find it by its
 * name; NULL if there is none. Names in order for help texts: uccl_*_names().
 */
const struct uccl_cc_ops *uccl_cc_find(const char *name);
const struct uccl_path_ops *uccl_path_find(const char *name);
const struct uccl_credit_ops *uccl_credit_find(const char *name);
const char *const *uccl_cc_names(void);
const char *const *uccl_path_names(void);
const char *const *uccl_credit_names(void);
/* The constants of the policy that a text chooses; NULL: it has none. */
const struct uccl_constant *uccl_policy_constants(enum uccl_policy_kind kind, const char *text);
/*
 * The values that such a text says. k[UCCL_CONSTANTS_MAX] may be NULL. -FI_EINVAL: no such policy or constant, no
 * number or out of its range; `why` (may be NULL) tells, for people.
 */
int uccl_policy_values(enum uccl_policy_kind kind, const char *text, double *k, char *why, size_t size);
/* Those of one text of each kind. */
int uccl_policies_values(const char *const texts[UCCL_POLICY_KINDS], double k[][UCCL_CONSTANTS_MAX]);

#endif

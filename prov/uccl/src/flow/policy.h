/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The interface of a policy. There are three kinds: congestion control, path choice, credit. A policy is a table of
 * functions, chosen by name at run time, and a block of private state that the flow embeds. Hooks may be NULL unless
 * marked as required. A policy sees plain numbers, never the flow or the NIC, and has no clock: `now` is in ns.
 *
 * flow/events.c calls the hooks. It has one function for each event of the UCCL paper's Appendix A, and each of them
 * has exactly one caller. Only the owner of the flow's engine calls them, one at a time.
 */
#ifndef UCCL_FLOW_POLICY_H
#define UCCL_FLOW_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow/path/path.h"
#include "flow/ack/rate.h"
#include "flow/ack/spread.h"

struct uccl_cc_ops;
struct uccl_path_ops;
struct uccl_credit_ops;

/* Bytes of private state of a policy, by kind. */
#define UCCL_CC_STATE 432
#define UCCL_PATHSEL_STATE 512
#define UCCL_CREDIT_STATE 128

/*
 * A constant of a policy that the user may set. A policy has a table of these, which ends with a NULL name. Its values
 * are doubles in the order of the table.
 */
struct uccl_constant {
	const char *name;
	double def, lo, hi; /* default, least and greatest value */
	const char *unit;   /* "": none */
	const char *source; /* its meaning and the source of the default, for the manual */
};

/* Most constants of one policy. */
#define UCCL_CONSTANTS_MAX 32

enum uccl_policy_kind { UCCL_POLICY_CC, UCCL_POLICY_PATH, UCCL_POLICY_CREDIT, UCCL_POLICY_KINDS };

/* The policies of a flow. */
struct uccl_policies {
	const struct uccl_cc_ops *cc;
	const struct uccl_path_ops *pathsel;
	const struct uccl_credit_ops *credit;
	const double *params[UCCL_POLICY_KINDS]; /* values of their constants, the owner's; NULL: the defaults */
};

struct uccl_rail;

/* The private state of a flow's policies. flow_setup.c writes what is not theirs. */
struct uccl_policy_state {
	struct uccl_rail *rail; /* each has congestion control and path choice of its own (flow/rail.h); NULL: one */
	uint8_t rails;		/* 1 at least */
	uint64_t cc[UCCL_CC_STATE / 8];
	uint64_t path[UCCL_PATHSEL_STATE / 8];
	uint64_t credit[UCCL_CREDIT_STATE / 8];
};

/* What init() learns of the flow; constant for its life. */
struct uccl_policy_cfg {
	const double *params;	/* values of the policy's constants; outlive the flow. NULL: the defaults */
	uint32_t chunk_bytes;	/* largest chunk */
	uint32_t burst_bytes;	/* most bytes that leave at once on one path: a chunk, or a packet train */
	uint64_t window_max;	/* most bytes that can be in flight */
	uint64_t long_max;	/* the same on a long way, where packets leave in trains */
	uint64_t link_bps;	/* bits per second; 0: unknown */
	uint64_t delay_ns;	/* normal fabric delay of this back end; 0: unknown */
};

/* The chunks that one ACK newly acknowledges. */
struct uccl_ack_info {
	uint64_t bytes;		/* bytes newly acknowledged */
	uint64_t inflight;	/* bytes still in flight after this ACK */
	uint64_t rtt_ns;	/* RTT sample without the peer's turnaround time; 0: this ACK has none */
	uint16_t path;		/* path of the sample; if the ACK has samples of several, the one with the least RTT */
	uint64_t srtt_ns;	/* smoothed RTT of all paths */
	uint64_t min_rtt_ns;	/* least RTT of the flow */
	uint64_t marked;	/* bytes newly reported as ECN marked; 0 if nobody counts marks */
	uint64_t backlog;	/* as in struct uccl_chunk_info */
	bool app_limited;	/* something other than the window limited the sender */
	/*
	 * A sample of the delivery rate (flow/ack/rate.h). To count round trips, remember `delivered`: one round trip
	 * has passed when rate.prior reaches that value.
	 */
	uint64_t delivered;	/* bytes acknowledged since the flow began */
	struct uccl_rate_sample rate;
	struct uccl_spread_sample spread; /* of a burst, on a long way: how fast the slowest link let it through */
};

enum uccl_loss_kind {
	UCCL_LOSS_PROOF, /* a packet that was sent later on the same path arrived */
	UCCL_LOSS_RACK,	 /* a packet sent later was acknowledged, and the reordering time has passed (RFC 8985) */
	UCCL_LOSS_RTO,	 /* nothing was heard for the whole retransmission time-out */
};

/* Chunks declared lost together. */
struct uccl_loss_info {
	enum uccl_loss_kind kind;
	uint16_t path;
	uint64_t bytes;
	uint64_t inflight;	/* bytes still in flight after the loss */
	uint64_t srtt_ns;	/* smoothed RTT of all paths */
	uint64_t last_rtt_ns;	/* latest RTT sample of the flow; a low one hints at corruption, not congestion */
};

/* A congestion control policy. `cc` is its state of UCCL_CC_STATE bytes. */
struct uccl_cc_ops {
	const char *name;
	bool marks; /* it slows down for ECN marks, so packets may allow the network to mark them (RFC 3168) */
	const struct uccl_constant *constants; /* its table; NULL: none */
	void (*init)(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now);
	/* Required. Bytes allowed in flight. If less than one chunk, pace() spreads the chunks in time. */
	uint64_t (*window)(const void *cc);
	/* A chunk of `bytes` leaves at `now`. Returns the earliest time for the next chunk; `now`: no pacing. */
	uint64_t (*pace)(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now);
	void (*on_ack)(void *cc, const struct uccl_ack_info *ack, uint64_t now);
	void (*on_loss)(void *cc, const struct uccl_loss_info *loss, uint64_t now);
	/*
	 * From now on the flow is one of `of` flows that the busy lanes of an endpoint have to a peer. Together these
	 * must take no more than one flow would: of the link, in largest window, and in growth. The initial value is 1.
	 * NULL: the policy does not share, and each lane competes as a flow of its own.
	 */
	void (*share)(void *cc, uint32_t of);
};

struct uccl_rng;

/* A chunk, or a packet train, that is about to leave. */
struct uccl_chunk_info {
	uint32_t bytes;	  /* of the chunk or train */
	uint64_t left;	  /* unsent bytes of the (first) message in it, these included; 0: a retransmission */
	uint64_t backlog; /* bytes that the NIC holds and has not sent yet; 0 also if the NIC does not know */
	bool policed;	  /* the network drops what exceeds a limit of each path: all should carry the same */
};

/* A path policy. `ps` is its state of UCCL_PATHSEL_STATE bytes. */
struct uccl_path_ops {
	const char *name;
	bool warm; /* while little is in flight it is not asked: payload stays on one path that works (PROTOCOL R341) */
	const struct uccl_constant *constants; /* its table; NULL: none */
	void (*init)(void *ps, const struct uccl_policy_cfg *cfg, uint16_t npaths);
	/*
	 * Required. Choose the path for the next chunk: an element of usable[0..n), n >= 1, the indices of the paths in
	 * service. `paths` holds all paths, by index.
	 */
	uint16_t (*select)(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			   const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now);
	/*
	 * An RTT sample of a path. The acknowledged bytes still count as in flight. `marked`: bytes of this path newly
	 * reported as ECN marked, rounded up to a KiB; 0 if nobody counts marks.
	 */
	void (*on_ack)(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t rtt_ns, uint64_t marked,
		       uint64_t now);
	/*
	 * Payload of this path was acknowledged, and no longer counts as in flight. An on_ack() for it may come before,
	 * after, or not at all.
	 */
	void (*on_land)(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t now);
	void (*on_loss)(void *ps, uint16_t path, enum uccl_loss_kind kind, uint64_t now);
};

/* How the receiver's pacer (flow/send/pacer.h) treats one sender. Bytes, if nothing else is said. */
struct uccl_pull_cfg {
	uint32_t quantum; /* size of one grant */
	uint64_t idle;	  /* speculative window: bytes sent unsolicited; granted again once the sender has used them */
	uint64_t window;  /* most bytes granted and not received; idle + 2 quanta at least */
	uint32_t senders; /* fewer busy senders than this send freely; 0 or 1: nobody sends freely */
	uint64_t quiet_ns; /* ns without a packet after which a sender is not busy any more */
	bool renews;	   /* acknowledgements renew the speculative window, so that it needs no grant */
	/* The next two apply only if the policy has rank(). */
	uint32_t at_once;  /* only this many senders, those of lowest rank, have grants under way; 0: no limit */
	uint32_t fair;	   /* every fair-th grant goes to the sender that waited longest, whatever its rank; 0: none */
};

/* A sender that wants more than it was granted, as the receiver knows it. Bytes, if nothing else is said. */
struct uccl_sender {
	uint64_t left;	 /* bytes not received of the message that it sends now or next (PROTOCOL R198) */
	uint64_t demand; /* bytes that it wants to send and that have not arrived */
	uint64_t ahead;	 /* bytes that were granted to it and have not arrived */
	uint64_t turn;	 /* number of grants to all senders at the time of its latest grant */
	bool lost;	 /* some of its data was lost since its latest grant */
};

/*
 * A credit policy. `cs` is its state of UCCL_CREDIT_STATE bytes. All counters are cumulative bytes since the flow
 * began, so a lost or late credit does no harm (EQDS, NSDI 2022). Credit never delays retransmissions and control.
 */
struct uccl_credit_ops {
	const char *name;
	const struct uccl_constant *constants; /* its table; NULL: none */
	void (*init)(void *cs, const struct uccl_policy_cfg *cfg, uint64_t now);
	/* Sender; required. The total of bytes that may be sent since the flow began; UINT64_MAX: no limit. */
	uint64_t (*limit)(const void *cs);
	/*
	 * Sender: bytes that may be sent beyond limit(). They may be used only if all waiting data ends within them and
	 * the receiver was not asked for credit yet. NULL: 0.
	 */
	uint64_t (*whole)(const void *cs);
	/*
	 * Sender: the receiver's cumulative grant arrived. A receiver may alternate between two modes: the sender needs
	 * grants (`turn` even), or it sends freely (`turn` odd). `turn` counts the changes, so it never decreases; 0: a
	 * receiver that never changes.
	 */
	void (*on_credit)(void *cs, uint64_t granted, uint64_t turn, uint64_t now);
	/*
	 * Receiver: called when data arrives or the sender demands more. `received` and `demand` are totals. Returns
	 * the cumulative grant to announce; 0: announce none.
	 */
	uint64_t (*grant)(void *cs, uint64_t received, uint64_t demand, uint64_t now);
	/* Receiver: fill *pull; the NIC's pacer then grants instead of grant(). NULL: no pacer. */
	void (*pull)(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull);
	/* Sender: messages with much less left than others go first. False: messages to a receiver take turns. */
	bool shortest;
	/*
	 * Receiver, if pull is set: the rank of a sender that wants more. The pacer grants to the lowest rank first,
	 * and calls this again when the sender's state changes. NULL: first senders whose data was lost, then in turns.
	 */
	uint64_t (*rank)(const struct uccl_sender *s);
};

/*
 * The user chooses a policy by a text: "name", or "name:constant=value,constant=value" with ',' or ':' between
 * constants. These functions find the policy of such a text; NULL: no such policy. uccl_*_names() give all names, for
 * help texts; the list ends with NULL.
 */
const struct uccl_cc_ops *uccl_cc_find(const char *name);
const struct uccl_path_ops *uccl_path_find(const char *name);
const struct uccl_credit_ops *uccl_credit_find(const char *name);
const char *const *uccl_cc_names(void);
const char *const *uccl_path_names(void);
const char *const *uccl_credit_names(void);
/* The table of constants of the policy that `text` chooses; NULL: it has none. */
const struct uccl_constant *uccl_policy_constants(enum uccl_policy_kind kind, const char *text);
/*
 * Read the values of a text into k[UCCL_CONSTANTS_MAX], which may be NULL. 0, or -FI_EINVAL: an unknown policy or
 * constant, or a value that is no number or out of range. Then `why`, `size` bytes (may be NULL), has the reason as a
 * text.
 */
int uccl_policy_values(enum uccl_policy_kind kind, const char *text, double *k, char *why, size_t size);
/* Read the values of three texts, one of each kind, into k[kind]. Errors as above. */
int uccl_policies_values(const char *const texts[UCCL_POLICY_KINDS], double k[][UCCL_CONSTANTS_MAX]);

#endif

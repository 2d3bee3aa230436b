/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One reliable multipath flow between two engines: a stream of chunks, each delivered exactly once, in any order.
 *
 * The grammar (all calls by the owner; `now` in ns, last, never backwards):
 *   commands   uccl_flow_submit
 *   inputs     uccl_flow_rx, uccl_flow_rx_segments, uccl_flow_sent, uccl_flow_fenced, uccl_flow_expire
 *   outputs    uccl_flow_tx (call until it returns 0), uccl_flow_expiry, and the upcalls in uccl_flow_ops
 * After any command or input, call uccl_flow_tx until 0, then ask uccl_flow_expiry.
 *
 * A chunk travels as a packet (header and payload), or, where the NIC can write remote memory and the peer has granted
 * it, as a direct write whose 32-bit immediate is the header. Retransmissions always travel as packets.
 */
#ifndef UCCL_FLOW_FLOW_H
#define UCCL_FLOW_FLOW_H

#include <assert.h>
#include <sys/queue.h>

#include "base/heap.h"
#include "base/rng.h"
#include "flow/write/write_tx.h"
#include "flow/send/chunk.h"
#include "flow/closing.h"
#include "flow/ack/loss_state.h"
#include "flow/recv/rx_state.h"
#include "flow/send/credit.h"
#include "flow/send/peer_limits.h"
#include "flow/send/item.h"
#include "flow/send/pace.h"
#include "flow/send/pacer.h"
#include "flow/path/paths.h"
#include "flow/path/pmtu.h"
#include "flow/policy.h"
#include "flow/send/sendq.h"
#include "flow/send/sent.h"
#include "flow/recv/slots.h"
#include "flow/observe/stats.h"
#include "flow/send/train.h"
#include "flow/wire/wire.h"

struct uccl_flow;

/* A chunk that arrived for msg. */
struct uccl_chunk_in {
	uint8_t rtype;
	const uint8_t *rec;	/* UCCL_REC_LEN bytes */
	const uint8_t *data;	/* payload, perhaps already where it belongs; NULL if placed */
	uint32_t len;
	uint32_t segments;	/* number of segments of a chunk in a row; 0: it is a whole chunk */
	uint32_t each;		/* of more than one: bytes of each but the last. Before each is a header */
	bool placed;		/* written directly by the NIC */
	bool on_device;		/* `data` is memory of a device */
	bool doubtful;		/* a direct write of the same bytes may still come (uccl_flow_ops.settled) */
};

struct uccl_flow_ops {
	/*
	 * A chunk, once. UCCL_DROP_COUNT: taken. UCCL_DROP_UNWANTED: thrown away for good, and acknowledged: the same
	 * bytes would find no use again. Any other reason: it counts as not received, as if it had never come. The
	 * sender sends that CSN again. So an honest peer's chunk is refused for want of memory only. Several
	 * segments are taken together or not at all; if not, they come one by one.
	 */
	enum uccl_drop (*deliver)(struct uccl_flow *f, const struct uccl_chunk_in *in, uint64_t now);
	/* Direct: the doubt about one earlier doubtful chunk of handle id is over. */
	void (*settled)(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now);
	/* Direct: please make the NIC fence this path and call uccl_flow_fenced. */
	void (*fence)(struct uccl_flow *f, uint16_t path, uint64_t now);
	/*
	 * Direct: what is written on this path seems to be swallowed; please make it anew, by the same way through the
	 * network if it `stays`, else by another (uccl_flow_set_writable follows). Needed with cfg.write.later.
	 */
	void (*renew)(struct uccl_flow *f, uint16_t path, bool stays, uint64_t now);
	/* Every byte of the item was received by the peer and no NIC read of it is left. */
	void (*acked)(struct uccl_flow *f, struct uccl_item *item, uint64_t now);
};

/* engine/conn/open.c writes it. */
struct uccl_flow_cfg {
	struct uccl_policies policy;
	struct uccl_wire_cfg wire;	/* what headers carry */
	struct uccl_packet_cfg packet;	/* how long packets may be */
	struct uccl_train_cfg train;	/* trains, and chunks in segments */
	struct uccl_write_cfg write;	/* direct writes */
	struct uccl_pacer *pacer;    /* of the NIC; needed by credit policies that have pull */
	const uint64_t *backlog;     /* of the NIC, the owner's: see uccl_chunk_info; NULL: nobody knows */
	const struct uccl_flow_ops *ops;
	struct uccl_stats *stats;
	struct uccl_trace *trace;	/* NULL: none */
	uint32_t trace_peer;		/* this flow's number there */
	uint32_t window;	/* chunks, a power of two, 64..16384 */
	uint16_t paths_tx, paths_rx;
	uint16_t labels;	/* entropy labels that the NIC offers */
	uint16_t slots_tx;	/* first grant of receive slots by the peer; 0: ask for them */
	uint16_t slots_rx;	/* what we grant now: send/tx_packet.c */
	struct uccl_grant *grant; /* decides on that, the owner's; NULL: it stays as it is */
	uint32_t msg_limit_tx;	/* first grant of message sequence numbers by the peer */
	bool tx_sync;		/* NIC: payload is free when tx returns, that of writes perhaps later (write.async) */
	uint64_t link_bps, delay_ns, rto_min_ns;
	uint64_t first_rtt_ns;		/* round trip of the handshake; 0: not known */
	uint64_t seed;
};

struct uccl_flow {
	struct uccl_flow_cfg cfg;
	void *user;			/* the owner's */
	struct uccl_timer timer;	/* the owner's, for its heap */
	TAILQ_ENTRY(uccl_flow) ready;	/* the owner's, its list of flows to transmit */
	bool is_ready;
	uint32_t share;			/* flows that share what one would have: see uccl_flow_share */

	/* sending */
	struct uccl_sendq sendq;
	struct uccl_sent_log sent;
	struct uccl_peer_limits limits; /* by the peer; msg reads what is about messages */
	struct uccl_pace pace;		/* when new payload may leave */
	struct uccl_write_tx write_tx;	 /* a descriptor was sent: its writes come first */
	struct uccl_chunk chunk;	 /* of direct writes */
	struct uccl_pmtu pmtu;		/* how long packets may be; as cfg.packet.mtu without cfg.packet.find_mtu */
	uint32_t chunk_bytes;		/* payload of the largest packet that leaves now, and of a train of them: */
	uint32_t train_bytes;		/* as in cfg, or less */
	uint64_t since_ar;		/* bytes in flight that left since the last request for an acknowledgement */
	bool app_limited;

	struct uccl_paths paths;
	struct uccl_train train;	/* do trains reach the peer? */
	struct uccl_rng rng;
	struct uccl_flow_loss loss;
	struct uccl_flow_rx rx;
	struct uccl_credit credit;	/* of both directions */
	struct uccl_closing close;
	struct uccl_policy_state policy;
};

/* 0 or -FI_ENOMEM, then nothing is held. */
int uccl_flow_init(struct uccl_flow *f, const struct uccl_flow_cfg *cfg, void *user, uint64_t now);
/* Items still queued are forgotten: their owner gets no upcall. */
void uccl_flow_fini(struct uccl_flow *f);

/* Queue an item. In which order they leave: flow/send/sendq.h. */
static inline void uccl_flow_submit(struct uccl_flow *f, struct uccl_item *item)
{
	assert(!item->queued && !item->pending);
	assert(item->bulk ? item->len > 0 : item->len <= f->cfg.packet.chunk_bytes);
	uccl_sendq_add(&f->sendq, item);
}
/* Take back an item that has never been sent from (off == 0, pending == 0). False: too late. */
bool uccl_flow_withdraw(struct uccl_flow *f, struct uccl_item *item);
/* Nothing more of it leaves, but for direct writes that were announced. True: nothing of it is under way. */
bool uccl_flow_cut(struct uccl_flow *f, struct uccl_item *item);
/* Bytes of it, after uccl_flow_cut, that may still be read where they lie; UINT64_MAX: the NIC reads some. */
uint64_t uccl_flow_unread(const struct uccl_flow *f, const struct uccl_item *item);
/*
 * These are copied to `to` by copy(), and read there from now on, by the processor: what has not left by `left`, which
 * stays until then.
 */
void uccl_flow_detach(struct uccl_flow *f, struct uccl_item *item, struct iovec *left, uint8_t *to,
		      void (*copy)(const struct uccl_item *item, uint8_t *to, const uint8_t *from, uint64_t len));

/*
 * A packet whose header decoded well and whose token is this flow's; or (uccl_flow_rx_write) a direct write.
 */
void uccl_flow_rx(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *payload, const uint8_t *tail,
		  uint64_t age_ns, uint64_t now);
/*
 * Packets that uccl_segment_run found to be segments in a row: `len` bytes, and the header of the first. All are taken
 * in in one go, or false: nothing happened.
 */
bool uccl_flow_rx_run(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *data, uint32_t len, uint64_t age_ns,
		      uint64_t now);
/* The same, or else each by itself. */
void uccl_flow_rx_segments(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *data, uint32_t len,
			   uint64_t age_ns, uint64_t now);
void uccl_flow_rx_write(struct uccl_flow *f, uint32_t imm, uint32_t len, uint16_t path, uint64_t now);

/* Fill one thing to send; 0: nothing now. tx->to and tx->peer are the caller's to set. */
int uccl_flow_tx(struct uccl_flow *f, struct uccl_tx *tx, uint64_t now);
/*
 * The usual state between messages: nothing waits to leave, neither payload nor what control packets tell, nothing is
 * to be repaired, and the peer answers. So uccl_flow_tx() would fill nothing and change nothing, and uccl_flow_stall()
 * would find nothing. False: ask them.
 */
static inline bool uccl_flow_rests(struct uccl_flow *f)
{
	const struct uccl_ack_tracker *acks = &f->rx.ack_tracker;

	if (!uccl_sendq_empty(&f->sendq) || uccl_sent_waits(&f->sent) || f->write_tx.item || f->sent.out.left ||
	    ((uint32_t)f->sendq.records_ahead | f->sendq.bulk_turn | f->paths.probes_due | f->sent.repairs |
	     f->close.due | f->close.ack_due | f->close.seen | acks->now | acks->answers_more | f->credit.due |
	     f->credit.starved) ||
	    uccl_credit_owes_loss(&f->credit) || uccl_pto_repeated(&f->loss.pto))
		return false;
	f->app_limited = true;
	return true;
}
/*
 * tx[0] is what uccl_flow_tx filled last, and nothing was done with it but for `to`, `peer` and `ect`. If packets of
 * its train follow, fill tx[1] and so on with those that are like it, also in these three, `n` at most. Returns how
 * many; the last one of a train, at least, is left to uccl_flow_tx.
 */
int uccl_flow_tx_follow(struct uccl_flow *f, struct uccl_tx *tx, int n);
/* The same for NICs that make packets themselves (ops.tx_rows): those that follow become a row of `tx`. */
int uccl_flow_tx_row(struct uccl_flow *f, struct uccl_tx *tx);
/* The NIC no longer reads the payload of tx->cookie (with cfg.tx_sync for writes only, if cfg.write.async). */
void uccl_flow_sent(struct uccl_flow *f, uint64_t cookie, uint64_t now);
/* No earlier direct write on this path can land any more. */
void uccl_flow_fenced(struct uccl_flow *f, uint16_t path, uint64_t now);

/*
 * Direct, with cfg.write.later: the NIC can, or can no longer, write on this path. What was written on one that ended
 * is sent again as packets at once.
 */
void uccl_flow_set_writable(struct uccl_flow *f, uint16_t path, bool on, uint64_t now);
/*
 * The place of message id was closed, so that writes which are not here yet cannot land: its doubts are over, without
 * upcalls.
 */
void uccl_flow_forgive(struct uccl_flow *f, uint32_t id, uint32_t gen);

/*
 * From now on it is one of `of` flows, of busy lanes of this endpoint, that share what one may have in flight and the
 * rate at which that grows. At first it is alone: 1.
 */
void uccl_flow_share(struct uccl_flow *f, uint32_t of);

/*
 * The peer is asked for `bytes` bytes, and will want credit for them: it need not say so. Before that record.
 * PROTOCOL R248
 */
void uccl_flow_asked(struct uccl_flow *f, uint64_t bytes, uint64_t now);

/* The network says that it carries packets of at most `bytes` bytes (PROTOCOL R152). */
void uccl_flow_mtu_reported(struct uccl_flow *f, uint32_t bytes, uint64_t now);

/* Ask for fences on every path that has a doubt about message id; settled() follows for each doubt. */
void uccl_flow_fence_message(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now);

/* Did a packet with this number leave on this path, not long ago? */
bool uccl_flow_recent(const struct uccl_flow *f, uint16_t path, uint32_t pseq);

/* All payload that is in flight is of one buffer, and was copied: it is sent again from the copy. */
void uccl_flow_moved(struct uccl_flow *f, const void *from, const uint8_t *to);

/* Was the chunk in tx->cookie acknowledged? Then its payload may be gone. */
bool uccl_flow_acked(const struct uccl_flow *f, uint64_t cookie);

/* When uccl_flow_expire must be called; UCCL_NEVER: no timer runs. */
uint64_t uccl_flow_expiry(const struct uccl_flow *f);
void uccl_flow_expire(struct uccl_flow *f, uint64_t now);

/* About once a second: how many paths may it use? */
void uccl_flow_scan(struct uccl_flow *f, uint64_t now);
/* Send a probe (keepalive). */
void uccl_flow_keepalive(struct uccl_flow *f, uint64_t now);
/* An acknowledgement block leaves at once: it has news for the peer. */
void uccl_flow_tell(struct uccl_flow *f);
/* Say CLOSE until it is answered; uccl_flow.close.state becomes CLOSED. */
void uccl_flow_close(struct uccl_flow *f, uint64_t now);
/*
 * May a message of `len` bytes wait for the next messages, to leave in one train with them? It may if it leaves in
 * several packets that fit a train, and if the flow has already asked for an acknowledgement of what is in flight.
 * Returns the payload of each of its packets, for uccl_item.each; the last packet is hardly shorter. 0: it may not.
 * PROTOCOL R260 R262
 */
uint32_t uccl_flow_even(const struct uccl_flow *f, uint64_t len);
/* No burst is shorter than this: a train, or the longest packet. */
static inline uint32_t uccl_flow_burst_least(const struct uccl_flow *f)
{
	return (uint32_t)uccl_max(f->train_bytes, f->chunk_bytes);
}
/* What waited leaves now, and as one train if it fits: it does not go on where others have left before. */
void uccl_flow_gathered(struct uccl_flow *f);
/*
 * `on`: from now on the owner waits until all is acknowledged, so no acknowledgement may wait for payload. If one was
 * allowed to, the flow asks the peer, unless `now` is 0 (the time is not known). PROTOCOL R340
 */
void uccl_flow_hurry(struct uccl_flow *f, bool on, uint64_t now);
/* While no more than this is in flight, it stays on one path. PROTOCOL R341 */
#define UCCL_LITTLE_BYTES 16384
/*
 * While no more than this is in flight, the sender needs no acknowledgement to free memory. It is two short messages:
 * the answer to the first one carries its acknowledgement, and comes after the second has left. PROTOCOL R340
 */
#define UCCL_RIDE_BYTES (2 * UCCL_LITTLE_BYTES)
/* Nothing waits to be sent, and at most `most` bytes are in flight. */
static inline bool uccl_flow_little(const struct uccl_flow *f, uint64_t most)
{
	return uccl_sendq_empty(&f->sendq) && f->sent.inflight_bytes <= most;
}

/*
 * Window, credit and receive slots have room for `bytes` more than those that wait. Pacing may still hold them back.
 */
bool uccl_flow_has_room(const struct uccl_flow *f, uint64_t bytes);
/* What congestion control allows in flight, bytes, of all rails together. */
uint64_t uccl_flow_cc_window(const struct uccl_flow *f);
/* Everything submitted was acknowledged. */
bool uccl_flow_idle(const struct uccl_flow *f);
/* The time-out. */
static inline uint64_t uccl_flow_rto(const struct uccl_flow *f)
{
	return uccl_times_rto(&f->loss.times);
}

/* Checks of the state that must always hold (invariant I6); a text if one is broken, else NULL. For tests. */
const char *uccl_flow_check(const struct uccl_flow *f);

#endif

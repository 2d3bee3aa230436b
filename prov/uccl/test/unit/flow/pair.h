/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two flows, one virtual clock, and a wire between them which a test holds in its hand: every packet and every direct
 * write can be dropped, doubled, delayed, overtaken or damaged, one by one (filter) or by chance (faults).
 *
 * On both sides sits a small messenger. A record must arrive once and unchanged. The buffer of a bulk message goes back
 * to its application when every byte is there and no doubt is left; from then on it holds poison, and whoever writes to
 * it is caught. So is whoever acknowledges what is not complete, or reads a source after its acknowledgement. After
 * every step both flows must pass uccl_flow_check and keep to the slots that they were granted. A violation ends the
 * program with a text.
 */
#ifndef UCCL_TEST_UNIT_FLOW_PAIR_H
#define UCCL_TEST_UNIT_FLOW_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/range_set.h"
#include "base/rng.h"
#include "base/units.h"
#include "flow/flow.h"

#define PAIR_GEN 7 /* of all bulk messages */

enum pair_rtype { PAIR_RECORD = 1, PAIR_BULK = 2, PAIR_RAW = 3 /* delivered to nobody, counted */ };

/* What happens to a thing on the wire. */
enum pair_fate { PAIR_PASS, PAIR_DROP, PAIR_DOUBLE };

struct pair;

/* A packet, a direct write, or an event of a NIC, on its way to side `to`. */
struct pair_pkt {
	uint8_t kind; /* enum uccl_rx_kind: PACKET, WRITE, SENT, FENCED */
	uint8_t fate; /* enum pair_fate; the filter sets it */
	uint8_t to;
	bool single; /* PACKET: must not leave in a train */
	bool control; /* may leave in the class of control packets */
	uint16_t path, label;
	uint32_t queue; /* PACKET: that of the peer, for memory of a device */
	uint64_t due, order; /* when it arrives; ties in the order of sending */
	uint64_t born;	     /* when it was sent */
	struct uccl_hdr h;   /* PACKET: decoded at sending */
	uint32_t imm;	     /* WRITE */
	uint64_t raddr;
	uint64_t cookie;    /* SENT */
	const uint8_t *src; /* SENT: what the NIC read */
	uint32_t len;
	uint8_t data[];
};

/* A record or a bulk message. */
struct pair_obj {
	struct uccl_item item;
	uint32_t id; /* place in pair_side.objs */
	uint8_t from;
	uint8_t *src, *dst, *ref; /* ref: what src held at first */
	uint32_t len;
	struct iovec iov[8];
	uint64_t got;	/* bytes delivered, */
	struct uccl_range_set cover; /* and which */
	uint32_t times; /* record: deliveries */
	uint32_t doubts;
	bool fencing, acked, complete;
};

struct pair_side {
	struct uccl_flow f;
	struct uccl_stats stats;
	struct uccl_pacer pacer;
	struct pair *pair;
	uint8_t id;
	uint64_t host_ns;	/* what arrives waits so long until the flow sees it, and the flow is told */
	bool stopped;		/* the host does not run: nothing leaves, no timer, what arrives waits */
	struct pair_obj **objs; /* sent by this side */
	uint32_t nobjs;
	uint32_t raw; /* PAIR_RAW chunks that arrived */
	uint64_t raw_bytes;
	uint32_t acked, complete, fences, renews;
	uint32_t doubtful, settled; /* doubtful chunks delivered, and doubts settled */
};

struct pair_cfg {
	uint32_t window, chunk_bytes, write_bytes, mtu, train_bytes;
	uint16_t paths, labels, slots;
	uint64_t csn[2];
	uint64_t delay_ns; /* one way */
	uint64_t rto_min_ns;
	uint64_t link_bps;
	const struct uccl_cc_ops *cc;
	const struct uccl_path_ops *pathsel;
	const struct uccl_credit_ops *credit;
	bool write_brittle;
	bool write_begins; /* writes are short at first. PROTOCOL R277 */
	bool tx_async; /* the NIC reads payload until it says SENT */
	bool write_async; /* that of direct writes only */
	bool fifo;
	bool find_mtu;
	bool segments;	  /* trains are chunks; not with tx_async or writes */
	bool pads;	  /* packets may be padded; with parts */
	bool delays;	  /* acknowledgements may wait for payload */
	bool renews;	  /* acknowledgements renew the speculative window */
	bool train_short; /* the link is real */
	bool fence_sync;  /* a fence is done when the upcall returns */
	bool fence_never; /* a fence is never done */
	uint64_t seed;
};

struct pair {
	struct pair_cfg cfg;
	uint64_t now;
	struct pair_side side[2];
	struct pair_pkt **wire;
	uint32_t nwire, wire_cap;
	uint64_t order;
	uint64_t sent_delay, fence_delay;
	/* Called for every packet and write that is sent; may change fate, due and data. */
	void (*filter)(struct pair *p, struct pair_pkt *k);
	void *arg;	/* the filter's */
	uint32_t count; /* likewise */
	/* Called before a chunk is delivered; anything but UCCL_DROP_COUNT is what the flow is told. */
	enum uccl_drop (*refuse)(struct pair *p, struct pair_side *s, const struct uccl_chunk_in *in);
	uint32_t refusals; /* pair_refuse_some */
	struct {
		double loss, dup, reorder;
		uint64_t reorder_ns; /* extra delay of what is overtaken, at most */
	} faults;
	struct uccl_rng rng;
	uint64_t steps;
};

/* A pair like UDP: 256 chunks of 1 KiB, 4 paths, 10 us one way, no congestion control, round robin, no credit. */
struct pair_cfg pair_packets(void);
/* A pair like RDMA: direct writes of 4 KiB in 4 segments. */
struct pair_cfg pair_direct(void);

void pair_init(struct pair *p, const struct pair_cfg *cfg);
/* Frees all; looks once more at every buffer that went back. */
void pair_fini(struct pair *p);

/* Submit; bytes are made up from the id. The object belongs to the pair. */
struct pair_obj *pair_record(struct pair *p, int from, uint32_t len);
struct pair_obj *pair_bulk(struct pair *p, int from, uint32_t len);
/* The same, not submitted yet; parts: number of iovecs, of different sizes. */
struct pair_obj *pair_make(struct pair *p, int from, uint32_t len, bool bulk, int segments);

/* Take from side `from` what it wants to send now and put it on the wire. Returns how many packets and writes. */
int pair_pump_one(struct pair *p, int from);
void pair_pump(struct pair *p);
/* One event: the next arrival or timer. False: nothing is under way and no timer runs. */
bool pair_step(struct pair *p);
/* Run until the given time (events at it included); the clock stands there afterwards. */
void pair_run(struct pair *p, uint64_t until);
/* Run until everything submitted is acknowledged and complete; false: stalled, or not within `ns`. */
bool pair_finish(struct pair *p, uint64_t ns);
/* Everything submitted is acknowledged and complete. */
bool pair_done(const struct pair *p);

/* By hand: item `i` of the wire arrives now, or is lost. */
void pair_arrive(struct pair *p, uint32_t i);
void pair_lose(struct pair *p, uint32_t i);
/* Everything on the wire to `to` arrives now, in order. */
void pair_arrive_all(struct pair *p, int to);
/* First packet of `type` on the wire to `to`; -1: none. UCCL_PKT_SEGMENT is a packet; writes: pair_find_write. */
int pair_find(const struct pair *p, int to, uint8_t type);
int pair_find_write(const struct pair *p, int to);

/* A made-up packet arrives at side `to` now. Token, path sequence and time stamp are filled in; ack may be NULL. */
void pair_feed(struct pair *p, int to, struct uccl_hdr *h, const void *payload, const struct uccl_ack *ack);
/* A made-up acknowledgement block: cumulative number, slots as granted, everything else empty. */
struct uccl_ack pair_ack(const struct pair *p, int to, uint64_t cum);

/* For pair.refuse: there is no memory for the next pair.refusals chunks. */
enum uccl_drop pair_refuse_some(struct pair *p, struct pair_side *s, const struct uccl_chunk_in *in);
/* Things that this side refused for this reason. */
uint64_t pair_dropped(const struct pair *p, int side, enum uccl_drop reason);

/* End the program with a text. */
void pair_fail(const char *file, int line, const char *what) __attribute__((noreturn));
#define PAIR_CHECK(cond)                                                                                               \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			pair_fail(__FILE__, __LINE__, #cond);                                                          \
	} while (0)

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two message endpoints joined by two real flows on one virtual clock. Packets wait in one queue in the order they
 * left; a test's filter may drop or hold each, or double it. Nothing here depends on real time or chance.
 */
#ifndef UCCL_TEST_MSG_DUO_H
#define UCCL_TEST_MSG_DUO_H

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "msg/msg_ep.h"
#include "../tests.h"

#define MS UCCL_NS_PER_MS
#define SECOND UCCL_NS_PER_S
#define BOTH (UCCL_ACCESS_READ | UCCL_ACCESS_WRITE)

#define DUO_CHUNK 1024
#define DUO_WRITE 4096
#define DUO_EAGER 8192
#define DUO_COMPS 4096
#define DUO_DELAY_NS 5000ull

/* What a test sees of a completed operation. */
struct duo_comp {
	uint8_t type;
	uint32_t flags;
	int err;
	uint8_t refusal;
	uint64_t len, olen, tag, data;
	void *context, *buf;
	struct uccl_peer *from;
};

struct duo_pkt {
	TAILQ_ENTRY(duo_pkt) link;
	int to;		     /* side */
	uint8_t kind;	     /* UCCL_TX_PACKET or UCCL_TX_WRITE */
	uint8_t type, rtype; /* packet: of its header */
	uint16_t path;
	uint32_t imm;
	uint32_t queue;	     /* packet: for memory of a device */
	uint64_t rkey, raddr;
	uint32_t len;
	uint8_t data[];
};

TAILQ_HEAD(duo_pkts, duo_pkt);

struct duo;

enum duo_verdict { DUO_PASS, DUO_DROP, DUO_HOLD, DUO_DOUBLE };

struct duo_mr {
	uint8_t *buf;
	uint64_t len;
	bool live;
};

/* Memory of a side that its peer may reach: key i + 1 is region i, addresses are offsets. */
struct duo_region {
	struct iovec iov[UCCL_IOV_MAX];
	int niov;
	uint64_t len;
	uint32_t access;
	bool live;
	int reads, writes; /* events */
	bool sparse; /* parts of it may be unmapped */
};

struct duo_side {
	struct duo *d;
	struct uccl_msg_ep m;
	struct uccl_stats stats;
	struct uccl_peer peer; /* the other side */
	struct uccl_peer self; /* this side */
	uint32_t connects;     /* times msg asked to connect, */
	uint32_t readies;      /* and said that something may leave */
	uint32_t regs, deregs, fences, stops, settles;
	uint32_t unsettled; /* of deregs: writes may still come */
	bool reg_fails;
	int broken;	       /* why the peer was to be ended: FI_Exxx; 0: it was not */
	struct duo_mr mr[64];
	uint16_t fence_path[64];
	struct duo_comp comp[DUO_COMPS];
	int ncomp, seen;				      /* seen: taken by duo_next */
	uint32_t lookups_left; /* not 0: after so many lookups nothing is found any more, though it is alive still */
	bool hidden;
	struct duo_region region[4];
	int locks;
	bool claimed, claimed_elsewhere; /* its atomics on devices */
	int claims;
	int events;
	struct uccl_rma_event event; /* the last one */
	void (*hook)(struct duo_side *s, struct uccl_op *op); /* runs inside done() */
	struct duo_gpu *gpu; /* NULL: it has none */
};

/* Addresses of a device's memory: nobody but the device can do anything with them. */
#define DUO_GPU ((uint8_t *)(uintptr_t)0x7000000000000000)
#define DUO_GPU_BYTES (8u << 20)
#define DUO_QUEUE 77

struct duo_gpu_copy {
	TAILQ_ENTRY(duo_gpu_copy) link;
	uint8_t *dst;
	const uint8_t *src;
	uint64_t len;
	int *err;
	uint8_t own[];
};

/* A device whose copies are done when a test lets them. */
struct duo_gpu {
	uint8_t mem[DUO_GPU_BYTES];
	TAILQ_HEAD(, duo_gpu_copy) copies;
	uint64_t queued, done;
	bool stuck;  /* none is done */
	bool full;   /* takes no more payload */
	bool lends;  /* memory, and counts it */
	int loans;
	int waits;   /* calls that stayed for a copy */
	int failing; /* so many of the next ones fail, */
	int passing; /* but for so many before them */
	bool direct; /* the NIC may write to it */
	bool reads;  /* the NIC may read it */
	int sources; /* so many hold what it reads */
	uint64_t read; /* bytes that it read */
	bool unread; /* it may still read some of what left */
	int flushes; /* of what it wrote */
	bool gathers; /* the NIC has a queue for it, and puts payload into its upper half, slot by slot */
	uint32_t slot;
	uint64_t puts, moves; /* copies from the host, and within */
	bool flush_fails;
};

struct duo {
	struct duo_side side[2];
	uint64_t now;
	bool writes;
	bool auto_fence; /* fences are answered in the next round */
	struct duo_pkts queue, held;
	enum duo_verdict (*filter)(struct duo *d, const struct duo_pkt *p);
	int n;		       /* the filter's own */
	uint64_t sent[2][512]; /* cookies whose payload the NIC has read, not told yet */
	int nsent[2];
};

/* Both sides ready, not connected. writes: the NICs can write remote memory. ops_max: operations of each side. */
struct duo *duo_new(bool writes, uint32_t ops_max);
/* The same, connected. */
struct duo *duo_open(void);
struct duo *duo_open_writes(void);
void duo_connect(struct duo *d);
/* Connected, and both think that the other has posted its receives. */
struct duo *duo_open_unsolicited(void);
/* Ends both sides; every op must have been given back, every message freed. */
void duo_free(struct duo *d);
/* A test with the two sides `d` that `made` returns; they end behind the test. */
#define DUO_TEST(name, made) TEST_WITH(name, struct duo *d, made, duo_teardown)
int duo_teardown(void **state);

/* Both sides hear that the other one ended, with this FI_Exxx. */
void duo_fail(struct duo *d, int err);

/* Send what wants to leave and deliver it, once; the clock moves on by DUO_DELAY_NS. True if a packet moved. */
bool duo_round(struct duo *d);
/* Go on until nothing is left to do, or `ns` of virtual time are over. */
void duo_run(struct duo *d, uint64_t ns);
/* Put the held packets into the queue again, in order or in reverse; there is no filter any more. */
void duo_release(struct duo *d, bool reverse);

/* An op of side s with duo's done(); NULL if none can be had. */
struct uccl_op *duo_op(struct duo *d, int s, uint8_t type, uint32_t flags);
/* It has this one buffer, of the host or a device. */
void duo_buffer(struct uccl_op *op, const void *buf, uint64_t len);
/* Post with a single buffer. `context` names it in the completion. Returns what the post returned. */
int duo_send(struct duo *d, int s, uint32_t flags, const void *buf, uint64_t len, uint64_t tag, void *context);
/* The same to ourselves. */
int duo_send_self(struct duo *d, int s, uint32_t flags, const void *buf, uint64_t len, void *context);
int duo_recv(struct duo *d, int s, uint32_t flags, void *buf, uint64_t len, uint64_t tag, uint64_t ignore,
	     void *context);
/*
 * A message of side 0, DUO_CTX(1), for a receive of side 1, DUO_CTX(2), that is posted before it, or behind it
 * (`unexpected`); until nothing more happens.
 */
void duo_pass(struct duo *d, bool unexpected, uint32_t flags, const void *from, uint64_t len, void *to, uint64_t room);
/* Both are complete, and nothing else. */
void duo_passed(struct duo *d, uint64_t len);
/* Side 1 posts a receive for what came: all of it is there, and filled with `seed`. */
void duo_take(struct duo *d, void *to, uint64_t room, uint64_t len, uint32_t seed);
/* Open region i of side s over one buffer; its key. */
uint64_t duo_region(struct duo *d, int s, int i, void *buf, uint64_t len, uint32_t access);
/* Region i of side s goes away. */
void duo_revoke(struct duo *d, int s, int i);
/* Post a write or read of one buffer and one segment. */
int duo_rma(struct duo *d, int s, uint8_t type, uint32_t flags, void *buf, uint64_t len, uint64_t addr, uint64_t key,
	    void *context);
/* Post an atomic of n elements; compare and result as the type needs. */
int duo_atomic(struct duo *d, int s, uint8_t type, uint8_t datatype, uint8_t atomic, const void *operand,
	       const void *compare, void *result, uint64_t n, uint64_t addr, uint64_t key, void *context);
/* The same, to a peer of side s. */
int duo_atomic_to(struct duo *d, struct uccl_peer *to, int s, uint8_t type, uint8_t datatype, uint8_t atomic,
		  const void *operand, const void *compare, void *result, uint64_t n, uint64_t addr, uint64_t key,
		  void *context);
/* The oldest completion of side s not looked at yet; NULL: none. */
const struct duo_comp *duo_next(struct duo *d, int s);
/* Number of completions not looked at. */
int duo_waiting(const struct duo *d, int s);
/* The next completion of side s is this one. */
const struct duo_comp *duo_expect(struct duo *d, int s, void *context, int err, uint64_t len);
/* The same, with the other side as its peer; of what is sent the length is not looked at. */
void duo_expect_from(struct duo *d, int s, void *context, int err, uint64_t len);
/* Neither side has a completion. */
void duo_quiet(struct duo *d);
/* Side 0 has n completions, all good, and nothing is left in memory; ends both. */
void duo_all_done(struct duo *d, int n);
/* A filter. */
enum duo_verdict duo_hold_all(struct duo *d, const struct duo_pkt *p);
/* Hand a record straight to side s, as its flow would. */
enum uccl_drop duo_deliver(struct duo *d, int s, uint8_t rtype, const uint8_t *rec, const void *data, uint32_t len);
struct uccl_env duo_eager_env(uint32_t mseq, uint64_t tag, uint64_t len);
struct uccl_env duo_unsolicited_env(uint32_t mseq, uint64_t tag, uint64_t len, uint32_t head);
enum uccl_drop duo_envelope(struct duo *d, int s, const struct uccl_env *env, const void *data, uint32_t len);
enum uccl_drop duo_eager(struct duo *d, int s, uint32_t mseq, uint64_t off, uint64_t total, const void *data,
			 uint32_t len);
/* DATA or REPLY. */
enum uccl_drop duo_bulk(struct duo *d, int s, uint8_t rtype, uint32_t id, uint32_t gen, uint64_t off, const void *data,
			uint32_t len);

/* Side s has a device; what is posted, and regions, at DUO_GPU and behind are its memory. */
struct duo_gpu *duo_gpu(struct duo *d, int s);
/* Fill with a pattern that depends on seed and place; compare with it. */
void duo_fill(uint8_t *buf, uint64_t len, uint32_t seed);
void duo_check(const uint8_t *buf, uint64_t len, uint32_t seed);

#define DUO_CTX(n) ((void *)(uintptr_t)(n))

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Torture of the libfabric API by several processes. See uccl_torture.c for what it checks.
 *
 * Words: a rank is a process, with one endpoint; a worker is one of its threads. Time is cut into rounds. In a round
 * each worker makes ROUND_CALLS random calls, and then all come to rest, check and begin anew. What ranks must know of
 * each other is in memory that all of them map (struct shared): addresses, the list of messages of this round, marks,
 * and the windows, which are the targets of RMA and atomics. So an initiator can look into the memory of its target.
 *
 * Files, each calls only what stands before it: _buf (buffers, their content and their quarantine), _core (operations,
 * failure, draws), _msg (messages), _rma (remote memory), _cell (atomics that ranks share), _region (regions closed
 * under traffic), _victim (a peer that is killed and started again), _drain (completions), _ep (the endpoint), _rank
 * (rounds).
 */
#ifndef UCCL_TEST_SYSTEM_TORTURE_H
#define UCCL_TEST_SYSTEM_TORTURE_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/units.h"
#include "harness.h"

#define TORTURE_RANKS 8
#define TORTURE_WORKERS 8 /* of a rank */
#define TORTURE_OPS 256	  /* of a worker, open at once */
#define ROUND_CALLS 500
#define TORTURE_MSGS (TORTURE_WORKERS * ROUND_CALLS) /* of a pair in a round */
#define TORTURE_MARKS 64			     /* of a rank, not looked at yet */
#define PIECES 4				     /* of a scattered buffer; the provider's limit */
#define TAGS 4
#define INJECT_MAX 4096
#define ORDER_MAX 65536 /* operations on remote memory of up to so many bytes are ordered */
#define ATOMIC_MAX 16
#define ANYBODY (-1)
#define TORTURE_PATIENCE_S 60 /* times slack: so long an operation may be open */

/* A window has a slice for each worker of each rank, and cells. Of a slice the begin is for short operations. */
#define SMALL_AREA (256u << 10)
#define CELLS 8	       /* of each kind */
#define CELL_MAX 16384 /* numbers that a cell gives in a round */
#define REGIONS 4
#define REGION_BYTES (1536u << 10)

enum kind { SEND, RECV, WRITE, READ, ATOMIC, PEEK, REGION, VICTIM, KINDS };
extern const char *const kind_names[KINDS];

/* ---- _buf: content and buffers */

/* Where the bytes of an operation lie in a buffer: parts in any order, with gaps between and around them. */
struct shape {
	unsigned int n;
	size_t total; /* bytes of the buffer */
	struct {
		size_t off, len;
	} part[PIECES];
};

/* Filled with the pattern of its key, which is its content where nothing else belongs. */
struct buf {
	uint64_t key;
	size_t total;
	uint8_t mem[];
};

/* Bytes at..at+len of the pattern of a key. The first eight are the key itself. */
void content_fill(uint8_t *p, size_t len, uint64_t key, size_t at);
/* Index in p of the first byte that is wrong; len: none. */
size_t content_wrong(const uint8_t *p, size_t len, uint64_t key, size_t at);

/* len bytes in up to `max` parts. */
void shape_draw(struct shape *s, struct uccl_rng *r, size_t len, unsigned int max);
unsigned int shape_iov(const struct shape *s, struct buf *b, struct iovec *iov);
void shape_fill(const struct shape *s, struct buf *b, uint64_t key);
/* Copy bytes at..at+len of what the shape holds. */
void shape_get(const struct shape *s, const struct buf *b, size_t at, void *out, size_t len);

struct buf *buf_new(size_t total, uint64_t key);
/*
 * The first `len` bytes of the shape are the pattern of `key`, everything else is untouched. If not, false, and where
 * is the offset in the buffer.
 */
bool buf_check(const struct buf *b, const struct shape *s, uint64_t key, size_t len, size_t *where);

/* Buffers that were given back: filled with a pattern, looked at now and then. Of one worker. */
#define QUARANTINE_BUFS 512
#define QUARANTINE_BYTES (48u << 20)
struct quarantine {
	struct buf *ring[QUARANTINE_BUFS];
	unsigned int head, n;
	size_t bytes;
};
/* Takes the buffer. False: one that was let go for it was written to; *where as above. */
bool quarantine_put(struct quarantine *q, struct buf *b, uint64_t key, size_t *where);
/* Look at some buffers, or at all. */
bool quarantine_look(const struct quarantine *q, struct uccl_rng *r, bool all, size_t *where);
void quarantine_free(struct quarantine *q);

/* ---- what ranks share */

enum msg_state { MSG_VOID, MSG_SENT, MSG_GONE, MSG_DISCARDED };

struct msg {
	_Atomic uint32_t state;
	uint32_t mark;	  /* of the sender, plus one: what must be in place when the message came; 0: nothing */
	uint64_t id, tag; /* the id is the key of its content */
	size_t len;
	bool tagged, has_data;
	/* Of its receiver: which receive took it, in the order of posting, and where in a multi-receive buffer. */
	uint64_t recv_no, recv_tag, recv_ignore;
	int recv_from;
	size_t place;
	bool claimed;
};

struct range {
	size_t off, len; /* in a slice */
};

/* Bytes in a window that the target looks at, when it hears of remote CQ data or of a fenced message. */
enum mark_state { MARK_FREE, MARK_SET, MARK_FENCED /* a message behind a fence tells of it */ };
struct mark {
	_Atomic uint32_t state;
	int target, worker;
	uint64_t key, gen;
	struct range range[PIECES];
	unsigned int n;
};

struct region_info {
	_Atomic uint64_t gen; /* odd: open */
	_Atomic uint64_t addr, rkey;
	_Atomic bool readable; /* holds the pattern of gen; else peers write to it */
};

struct cell {
	_Atomic uint32_t tickets;	 /* taken */
	_Atomic uint8_t seen[CELL_MAX];	 /* tickets that somebody has got */
	_Atomic uint64_t sum;		 /* of all that was added */
	_Atomic uint32_t ids, linked;	 /* of a chain: numbers given, exchanges that succeeded */
	_Atomic uint32_t next[CELL_MAX]; /* what replaced this number */
};

/* A peer that is killed and started again. Its member and window are those behind the ranks'. */
enum victim_op { VICTIM_SEND, VICTIM_WRITE, VICTIM_READ, VICTIM_TICKET, VICTIM_RECV };
#define VICTIM_SEEN 65536
#define VICTIM_SMALL 8	/* slots in the small area of a slice, */
#define VICTIM_SLOTS 10 /* and all of them */
#define VICTIM_RKEY 7
struct victim {
	_Atomic uint32_t incarnation;  /* 0: there was none */
	_Atomic uint64_t ready_ns;     /* since when it is there; 0: it is killed */
	uint8_t name[2][FAB_NAME_MAX]; /* of an even and an odd incarnation */
	_Atomic uint64_t failed, recover_ns;
	_Atomic uint64_t received[TORTURE_RANKS][VICTIM_SEEN], sent[TORTURE_RANKS][VICTIM_SEEN], tickets[VICTIM_SEEN];
};

struct member {
	uint8_t name[FAB_NAME_MAX];
	uint64_t addr, rkey; /* of its window */
	bool tells, tags;    /* its completions have data, and tags */
	_Atomic uint64_t done[KINDS], bytes, checks, refused, canceled;
	_Atomic uint32_t anonymous[2]; /* untagged, tagged: messages that were thrown away without a look at which */
	struct region_info region[REGIONS];
	struct cell cell[CELLS];
	struct mark mark[TORTURE_MARKS];
};

struct config {
	uint64_t seed, ops, seconds, ends_ns;
	uint64_t life_ms;		 /* an eighth to four times of this the victim lives; 0: there is none */
	int ranks, workers, lanes, port; /* port: the victim's */
	size_t size_max, slice, window, cells_at, regions_at; /* bytes; the last two are places in a window */
	char fault[128];
};

struct shared {
	struct config cfg;
	_Atomic uint32_t arrived; /* workers at barriers, ever */
	_Atomic uint32_t stop, round;
	struct victim victim;
	struct member member[TORTURE_RANKS + 1];
	_Atomic uint32_t nmsgs[TORTURE_RANKS][TORTURE_RANKS];
	struct msg msg[TORTURE_RANKS][TORTURE_RANKS][TORTURE_MSGS]; /* from, to */
								    /* Then the windows. */
};
uint8_t *shared_window(struct shared *s, int rank);
size_t shared_bytes(const struct config *c);
struct shared *shared_map(int fd, size_t bytes);

/* ---- a rank */

enum op_state { OP_FREE, OP_OPEN, OP_HELD /* claimed a message */, OP_DONE /* its worker has to look at it */ };

struct request {
	struct fi_context2 context; /* first: the provider hands it back */
	_Atomic uint32_t state;
	enum kind kind;
	struct worker *w;
	int peer;
	uint64_t no, began_ns;
	struct buf *buf;
	struct shape shape;
	uint64_t key;
	size_t len;
	/* messages */
	bool tagged, multi, wild, claim, discard, keyed;
	_Atomic bool canceled;
	uint64_t recv_no, tag, ignore, flags;
	size_t multi_end; /* how far a multi-receive buffer was filled */
	/* remote memory */
	struct range range[PIECES];
	unsigned int n;
	uint8_t *want; /* what must come back */
	bool no_look;  /* a later operation may have changed it */
	struct mark *mark;
	uint64_t gen;	/* REGION */
	int what, cell; /* ATOMIC; cell: -1, in a slice */
	uint64_t v[ATOMIC_MAX], cmp[ATOMIC_MAX];
	struct fi_cq_err_entry end;
};

struct history {
	uint64_t no;
	const char *what;
	int peer;
	size_t len;
	uint64_t arg;
};

#define HISTORY 16
struct worker {
	struct torture *t;
	int index;
	struct uccl_rng poll; /* for polls; calls have one each */
	uint64_t calls, posted;
	struct request op[TORTURE_OPS];
	unsigned int next_op, recvs; /* recvs: open */
	struct quarantine quarantine;
	struct history history[HISTORY];
	char error[200];		/* what the provider said of the last failure that this worker read */
	uint8_t *shadow[TORTURE_RANKS]; /* of this worker's slices */
	bool read_behind[TORTURE_RANKS];
	uint32_t guess[TORTURE_RANKS][CELLS]; /* last known numbers of chains */
	uint32_t barriers;		      /* passed */
	uint64_t next_look_ns;		      /* for operations that are open for too long */
};

struct torture {
	struct shared *s;
	struct member *me;
	struct rank *r;
	int rank, ranks, workers;
	/* Drawn from the seed. */
	enum fi_cq_format format;
	enum fi_wait_obj wait;
	bool two_cqs, serial, counted, virtual_mr;
	uint64_t op_flags;
	size_t min_multi, cq_size;
	enum fi_threading threading;
	enum fi_progress progress;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq[2];	  /* of transmissions, of receives; may be one */
	struct fid_cntr *cntr[3]; /* sends, reads, writes */
	_Atomic uint64_t counted_ops[3];
	struct fid_mr *mr;
	fi_addr_t addr[TORTURE_RANKS];
	/* What the first worker knows of the victim: by its port, and by name. */
	fi_addr_t place, keyed;
	uint32_t keyed_of, reached;
	uint64_t victim_seq, slot_key[VICTIM_SLOTS];
	bool slot_busy[VICTIM_SLOTS];
	pthread_mutex_t rx_lock;		/* receives have an order */
	pthread_mutex_t tx_lock[TORTURE_RANKS]; /* and messages to a rank */
	pthread_mutex_t cq_lock;		/* if serial: completions are handled one after another */
	uint64_t recvs;
	struct fid_mr *region_mr[REGIONS];
	uint64_t region_gen[REGIONS];
	struct worker worker[TORTURE_WORKERS];
};

/* ---- _core */

uint64_t key_mix(uint64_t a, uint64_t b);
void op_text(const struct request *op, char *out, size_t size);
void worker_dump(struct worker *w, bool all);
void torture_fail(struct worker *w, const struct request *op, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define must(w, op, ok, ...)                                                                                           \
	do {                                                                                                           \
		if (!(ok))                                                                                             \
			torture_fail(w, op, __VA_ARGS__);                                                              \
	} while (0)
#define call(w, rc, want)                                                                                              \
	do {                                                                                                           \
		long long rc_ = (rc);                                                                                  \
		must(w, NULL, rc_ == (want), "%s: %lld, not %lld", #rc, rc_, (long long)(want));                       \
	} while (0)

/* Small sizes are the most frequent ones; up to size_max. */
size_t size_draw(struct uccl_rng *r, size_t max);
/* NULL: all are open. */
struct request *op_new(struct worker *w, enum kind kind, int peer, size_t len);
/* It is to have a buffer for len bytes. */
void op_buf(struct request *op, struct uccl_rng *r, size_t len, unsigned int max_parts);
/* Before posting: from now on other threads may see its end. */
void op_go(struct request *op, const char *what);
/* A receive, which may wait for a message for ever. */
bool op_waits(const struct request *op);
/* After posting: 0 or -FI_EAGAIN, all else is a failure. True: it was posted. */
bool op_posted(struct worker *w, struct request *op, ssize_t rc, const char *what);
/* It has ended: `w` (the one that runs) takes its buffer. */
void op_end(struct worker *w, struct request *op);
/* fi_inject and its like: no completion comes, and the buffer is ours already. */
void op_injected(struct worker *w, struct request *op);
void worker_note(struct worker *w, const char *what, int peer, size_t len, uint64_t arg);
/* The buffer was given back. */
void worker_retire(struct worker *w, struct buf *b);
void count_check(struct worker *w, size_t bytes);
/*
 * Take the endpoint's lock once. Threads of the provider write to our windows, before or after we look: the order is
 * that of what other processes say, which ThreadSanitizer does not see.
 */
void meet_provider(struct worker *w);

/* ---- _msg */

void msg_send(struct worker *w, struct uccl_rng *r);
void msg_recv(struct worker *w, struct uccl_rng *r);
void msg_cancel(struct worker *w, struct uccl_rng *r);
void msg_peek(struct worker *w, struct uccl_rng *r);
/* Receive or throw away what was claimed. All: of this worker; else one, perhaps. */
void msg_claims(struct worker *w, struct uccl_rng *r, bool all);
/* Send a message behind a fence: once it came, the bytes of the mark are in place. */
void msg_send_fenced(struct worker *w, struct uccl_rng *r, int to, struct mark *mark);
void msg_ended(struct worker *w, struct request *op, const struct fi_cq_err_entry *e, fi_addr_t src);
/* Messages to this rank that nobody has received. */
unsigned int msg_waiting(struct torture *t, bool tagged, size_t *longest);
/* Receives that take everything, as many as messages wait. */
void msg_recv_rest(struct worker *w, struct uccl_rng *r);
void msg_cancel_all(struct worker *w);
/* At rest: the order of all that came. And forget what was sent by this rank. */
void msg_check(struct worker *w);
void msg_reset(struct worker *w);

/* ---- _rma */

size_t slice_offset(const struct torture *t, int initiator, int worker);
void rma_write(struct worker *w, struct uccl_rng *r);
void rma_read(struct worker *w, struct uccl_rng *r);
void rma_atomic(struct worker *w, struct uccl_rng *r);
void rma_ended(struct worker *w, struct request *op);
/* Remote CQ data: look at the bytes that they tell of. */
void mark_told(struct worker *w, uint64_t data);
void mark_look(struct worker *w, int initiator, unsigned int i);
/* Marks of this rank whose remote CQ data have not come yet. (Messages behind a fence may be thrown away unseen.) */
unsigned int marks_open(const struct torture *t);
/* A read behind each injected write, whose end nobody tells. */
void rma_read_behind(struct worker *w, struct uccl_rng *r);
/* full: whole slices, not only the area where most happens. */
void rma_check(struct worker *w, bool full);
void rma_reset(struct worker *w);

/* ---- _cell */

void cell_atomic(struct worker *w, struct uccl_rng *r);
void cell_ended(struct worker *w, struct request *op);
void cell_check(struct worker *w);
void cell_reset(struct worker *w);

/* ---- _region */

/* Open, close, or look at one that is closed. */
void region_turn(struct worker *w, struct uccl_rng *r);
void region_access(struct worker *w, struct uccl_rng *r);
void region_ended(struct worker *w, struct request *op);
void region_check(struct worker *w);
void region_close_all(struct worker *w);

/* ---- _victim */

void victim_meet(struct worker *w);
void victim_call(struct worker *w, struct uccl_rng *r);
void victim_ended(struct worker *w, struct request *op);
/* At the end: cancel what waits. */
void victim_leave(struct worker *w);
/* Of the victim itself: tell the ranks that it is there; post what it has to. */
void victim_ready(struct worker *w);
void victim_turn(struct worker *w);

/* ---- _drain */

/* Read what is there; how many. wait: as the rank has drawn, for a moment. */
int drain(struct worker *w, bool wait);
/* An operation that is open for too long is a failure. */
void look_at_clock(struct worker *w);
/* SIGUSR1: say what is open. */
void dump_on_signal(void);

/* ---- _ep */

void endpoint_draw(struct torture *t);
/* service: a port, or NULL. */
void endpoint_info(struct torture *t, const char *service);
void endpoint_open(struct torture *t);
void endpoint_close(struct torture *t);

/* ---- _rank */

void role_victim(struct rank *r);

void role_torture(struct rank *r);

#endif

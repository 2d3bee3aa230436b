/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an endpoint (the primary) and its lanes say to each other. A lane is an engine of its own, on another core. It
 * carries payload of large messages and of writes, and knows nothing of either. The primary says which peers there are,
 * where payload may land and what is to be sent; lanes answer. Each side has a mailbox that only the other one fills.
 *
 *	primary to lane					lane to primary
 *	PEER_ADD who: a lane_peer			PEER_ADDED who, what: its peer there; NULL: none
 *							PEER_OPENED who; PEER_ENDED who, err
 *	PEER_DEL who					PEER_DELETED who: the last about this lane_peer
 *	RX_POST what: a reassembly buffer's part	RX_STRIPES what, len: more stripes that are whole; id 1: they
 *							are the last, and the lane knows the buffer no more
 *	RX_CANCEL what					RX_CANCELLED what: the last about this buffer
 *	TX_POST who: a peer there, at, len,		TX_DONE what, len, err
 *	     off, id, gen, what: the primary's,
 *	     more: bytes behind it; id 0: ahead of CTS
 *	TX_ABORT who, what: as TX_POST,			TX_ABORTED what, id: no stripe of it is read any more
 *	     off: when, id: the lane's number
 *
 * PEER_ADD, TX_POST, TX_ABORT, and an RX_POST that a CTS will announce are sent only if the mailbox has room now.
 * PEER_DEL, RX_CANCEL and the RX_POST of what comes ahead of CTS wait for room. A lane always has room for an answer:
 * the primary counts what is unanswered, and the lane says the rest only where half of the mailbox is free. PROTOCOL
 * R184 R185
 */
#ifndef UCCL_LANES_LANE_CHANNEL_H
#define UCCL_LANES_LANE_CHANNEL_H

#include "flow/wire/addr.h"
#include "lanes/reassembly.h"

struct uccl_unplaced_data;

enum uccl_lane_cmd_type {
	UCCL_LANE_PEER_ADD, UCCL_LANE_PEER_DEL, UCCL_LANE_RX_POST, UCCL_LANE_RX_CANCEL, UCCL_LANE_TX_POST,
	UCCL_LANE_TX_ABORT,
	UCCL_LANE_PEER_ADDED, UCCL_LANE_PEER_OPENED, UCCL_LANE_PEER_ENDED, UCCL_LANE_PEER_DELETED,
	UCCL_LANE_RX_STRIPES, UCCL_LANE_RX_CANCELLED, UCCL_LANE_TX_DONE,
	UCCL_LANE_TX_ABORTED
};

/*
 * A lane that is no later than this is on time: threads need some 10 us to wake up, and more in a virtual machine whose
 * processor sleeps. In a trial processors may sleep deeper than they do between messages, and long messages can wait
 * for that; what is later waits for a time slice of another thread, of some ms.
 */
#define UCCL_LANE_ON_TIME_NS (100 * UCCL_NS_PER_US)
#define UCCL_LANE_ON_TIME_TRIAL_NS (500 * UCCL_NS_PER_US)
/* Commands that a box holds. */
#define UCCL_LANE_CHANNEL_CMDS 1024
/* Commands that may lie there unread while the lane sleeps. */
#define UCCL_LANE_CHANNEL_UNREAD 128
/* Stripes that one lane has at once: enough to fill a window while the primary looks elsewhere. */
#define UCCL_LANE_CHANNEL_STRIPES 16

/* Between the primary and one lane. Its creator frees it, after both have stopped using it. */
struct uccl_lane_channel {
	struct uccl_mailbox down, up;
	/*
	 * A command waits for the primary, or for the lane while somebody waits; in the thread of the other. NULL:
	 * both look by themselves.
	 */
	void (*wake)(void *arg, bool primary);
	void *arg;
	/* The primary waits for what the lane does right now; see base/rundown.h. NULL: lanes have no threads. */
	void (*rest)(uint32_t times);
	/* Payloads at the lane that wait for RX_POST. Then those of all lanes of the endpoint: */
	_Atomic uint32_t nunplaced;
	struct uccl_unplaced_data *unplaced;
	/* How late the lane was since the primary read this, ns in sum; and the primary's latest trial that it saw. */
	_Atomic uint64_t late_ns;
	_Atomic uint32_t trial, tried;
	/* The primary's own. */
	TAILQ_HEAD(, uccl_lane_cmd_waiting) later;	/* what waits for room */
	uint32_t unanswered;		/* commands to which an answer must come */
	uint32_t stripes;		/* those of them that are to be sent, */
	uint64_t bytes;			/* and their bytes */
};

/* A peer as one lane knows it. The primary makes it, and frees it with PEER_DELETED. */
struct uccl_lane_peer {
	/* As the primary has made it. */
	uint8_t lane;
	struct uccl_addr addr;		/* of the peer's lane */
	bool connect;			/* we are to begin: we know its key */
	/* The primary's own. */
	struct uccl_peer *peer;		/* as the primary knows it; NULL: it has ended there */
	struct uccl_peer *worker_peer;	/* as the lane knows it; NULL: not yet */
	bool open;			/* payload may go to it, */
	bool named;			/* and ahead of CTS: the peer knows it, as one CTS of its has said */
	struct uccl_lane_cmd_waiting cmd;
	/* The lane's own. */
	struct uccl_peer *here;
	TAILQ_ENTRY(uccl_lane_peer) changed_link;
	bool in_changed, opened, ended;	/* what the primary does not know yet */
	int err;
};

/* False: no memory. */
bool uccl_lane_channel_init(struct uccl_lane_channel *l);
void uccl_lane_channel_fini(struct uccl_lane_channel *l);

/* The lane's: it came to work so late, after it had been woken. */
void lane_channel_late(struct uccl_lane_channel *l, uint64_t late_ns);
/* The lane's, at the beginning of a turn, behind that: it is up. */
void lane_channel_up(struct uccl_lane_channel *l);
/* The primary's: wake the lane to see how late it is. lane_channel_tried(): it was up since. */
void lane_channel_try_wake(struct uccl_lane_channel *l);
bool lane_channel_tried(const struct uccl_lane_channel *l);
/* The primary's: how late the lane was since the last call, in sum, beyond what counts as on time. */
uint64_t lane_channel_lateness(struct uccl_lane_channel *l);

/* The primary's: as soon as there is room, behind all that waits. */
void lane_channel_send(struct uccl_lane_channel *l, struct uccl_lane_cmd_waiting *n);
/* At once; `answer`: one will come. False: there is no room. */
bool lane_channel_try(struct uccl_lane_channel *l, const struct uccl_lane_cmd *cmd, bool answer);
/* What waited and has room now. */
void lane_channel_flush(struct uccl_lane_channel *l);

#endif

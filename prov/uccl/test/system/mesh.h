/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Traffic whose every byte is checked. A rank has a stream to and from each of its peers: messages 0, 1, 2, ... of
 * sizes and kinds that both sides compute from the number; a window of them is in flight in both directions. Streams
 * do not wait for each other, so the end of one peer must not be felt by the others.
 */
#ifndef UCCL_TEST_SYSTEM_MESH_H
#define UCCL_TEST_SYSTEM_MESH_H

#include "harness.h"

#define MESH_WINDOW_MAX 64

struct mesh_cfg {
	uint32_t window;   /* messages in flight a stream and direction, at most MESH_WINDOW_MAX */
	uint32_t size_max; /* bytes */
	bool multi;	   /* untagged messages go to shared multi-receive buffers; else to receives for that peer */
	bool hostile;	   /* the network changes bytes unseen: count what is wrong instead of failing */
	uint64_t limit;	   /* messages of each stream; UINT64_MAX: until the conductor says CTL_LIMIT */
};

struct slot {
	struct op op;
	struct stream *s;
	uint64_t k;	 /* number of the message */
	uint32_t posted; /* bytes that the operation may touch */
	uint8_t *mem;
};

struct stream {
	struct mesh *m;
	int peer;
	bool used;
	bool may_die;		       /* failures of its operations are expected, and must name the peer */
	bool hostile;		       /* as in mesh_cfg, for this stream */
	uint64_t limit;		       /* likewise */
	bool dead;		       /* a failure came: nothing more is posted */
	uint64_t next_send, next_recv; /* numbers to post */
	uint64_t sent, received;       /* that ended well */
	uint64_t errors;	       /* that failed */
	uint64_t first_error_ns, last_error_ns;
	uint64_t multi_base, multi_mask; /* untagged messages received: all below base, and these after it */
	struct slot send[MESH_WINDOW_MAX], recv[MESH_WINDOW_MAX];
};

#define MESH_MULTI 4
struct mesh {
	struct rank *r;
	struct mesh_cfg cfg;
	bool frozen;  /* post nothing new */
	bool limited; /* streams have an end */
	uint64_t bytes, wrong;
	struct op multi[MESH_MULTI];
	uint8_t *multi_mem[MESH_MULTI];
	struct stream s[RANKS_MAX];
};

/* Streams with all other ranks that r knows. */
void mesh_open(struct mesh *m, struct rank *r, const struct mesh_cfg *cfg);
/* Post what may be posted and read completions. */
void mesh_step(struct mesh *m);
/* All streams that did not die have done their messages in both directions. */
bool mesh_finished(const struct mesh *m);
/*
 * One round of a rank that has nothing else to do: a step, or what the conductor said. That is in c if it is of the
 * scenario's own; if it was about the mesh, or nothing, c->type is 0. False: all is done.
 */
bool mesh_next(struct mesh *m, struct ctl *c);
/* At the end of the rank: mesh and endpoint are closed, and CTL_DONE says KiB checked, wrong bytes, ms for closing. */
void mesh_end(struct mesh *m);
/* Operations in flight of one stream. */
uint32_t mesh_in_flight(const struct mesh *m, int peer);
/* Cancel the multi-receive buffers, free memory. */
void mesh_close(struct mesh *m);

/* Contents of message k. */
void pattern_fill(uint8_t *buf, size_t len, uint64_t key);
/* Offset of the first wrong byte; len: none. */
size_t pattern_wrong(const uint8_t *buf, size_t len, uint64_t key);

#endif

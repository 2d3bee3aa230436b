/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* records.c: what back ends tell each other in records of a flow. */
#ifndef UCCL_ENGINE_CONN_RECORDS_IMPL_H
#define UCCL_ENGINE_CONN_RECORDS_IMPL_H

#include <sys/queue.h>
#include "flow/flow.h"

/* Record type of what back ends say to each other; docs/protocol/direct-writes.md. The rest belongs to msg. */
#define UCCL_REC_NIC 64
/* Where a lane is; docs/protocol/lanes.md. */
#define UCCL_REC_LANE 65

/* Small enough to pass as control, wherever payload has to wait. */
#define CONN_RECORD_MAX 256

struct conn;

struct conn_record {
	struct uccl_item item;
	struct iovec iov;
	LIST_ENTRY(conn_record) link;
	uint8_t data[CONN_RECORD_MAX];
};

/* A part of struct conn. */
struct conn_records {
	LIST_HEAD(, conn_record) list;	/* of the back end and about lanes, not acknowledged yet */
};

/* For flows on a NIC that has to agree with its peer before it writes. */
extern const struct uccl_flow_ops conn_flow_ops;
/* Queue this record of `len` bytes. It is freed when the peer has it. */
void conn_record_submit(struct conn *c, struct conn_record *r, uint8_t rtype, uint32_t len);
/* Send what the back end has to say to its like at the peer. */
void conn_say(struct conn *c);
void conn_records_free(struct conn *c);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Per-path state of a flow's sending side: RTT, bytes in flight, health. A path is one entropy label
 * (UDP source port, QP, flow label), so one route through an ECMP network.
 */
#ifndef UCCL_FLOW_PATH_PATH_H
#define UCCL_FLOW_PATH_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "flow/path/path_asks.h"
#include "flow/path/path_counters.h"
#include "flow/path/path_writes.h"

/* Most paths between two endpoints. */
#define UCCL_PATHS_MAX 256
/* NICs that can be joined, at most. */
#define UCCL_RAILS_MAX 8

enum uccl_path_state {
	UCCL_PATH_ACTIVE,	/* in service */
	UCCL_PATH_SUSPECT,	/* lost several in a row while others moved: no new data, one probe, until `until` */
	UCCL_PATH_QUARANTINE,	/* out of service until `until` */
	UCCL_PATH_PROBATION,	/* probed; in service again at the first answer, out again at `until` */
};

struct uccl_path {
	uint8_t state;
	uint8_t losses;		/* in a row, without an acknowledgement between */
	uint8_t strikes;	/* times put in quarantine lately: the back-off */
	uint8_t long_losses;	/* times in a row that a chunk too long for a probe was lost, whatever probes say */
	bool probe_due;		/* a probe wants to leave on it */
	bool control;		/* among those that control packets prefer */
	uint8_t rail;		/* the NIC that it leaves by; 0 if paths have none */
	uint16_t marks;		/* as reported last, see struct uccl_ack_path */
	uint16_t marks_new;	/* of them, since its last RTT sample */
	uint16_t label;		/* the NIC's entropy label now in use */
	uint32_t next_seq;	/* sequence number of the next packet on this path, starts at 1 */
	uint32_t fresh_seq;	/* packets from here on tell of the present label, and are later than a suspicion */
	uint32_t acked_seq;	/* highest number the peer reported; nothing reported: 0 */
	uint64_t srtt_ns;	/* 0: no sample yet */
	uint64_t rttvar_ns;
	uint64_t last_rtt_ns;	/* the latest sample, */
	uint64_t sampled_ns;	/* and when it came */
	uint64_t min_rtt_ns;	/* UINT64_MAX: no sample yet */
	uint64_t packet_rtt_ns;	/* the latest sample of a packet, which may take another route than a write; 0: none */
	uint64_t inflight;	/* bytes */
	uint64_t long_ns;	/* the latest of these times: what was sent before says nothing new */
	uint64_t until;		/* end of quarantine, or when the probe is overdue */
	struct uccl_path_writes writes;
	struct uccl_path_asks asks;
	struct uccl_path_counters counters;
};

/* Begin life with the given label. */
void uccl_path_init(struct uccl_path *p, uint16_t label);
/* RFC 6298 smoothing with alpha 1/8, beta 1/4. *srtt_ns 0: no sample yet; rtt_ns > 0. */
static inline void uccl_rtt_smooth(uint64_t *srtt_ns, uint64_t *rttvar_ns, uint64_t rtt_ns)
{
	unsigned int gain = 2; /* as a shift */
	uint64_t err;

	if (!*srtt_ns) {
		*srtt_ns = rtt_ns;
		*rttvar_ns = rtt_ns / 2;
		return;
	}
	err = *srtt_ns > rtt_ns ? *srtt_ns - rtt_ns : rtt_ns - *srtt_ns;
	/* As Linux has it: what came sooner than ever says little of how late something may come. */
	if (*srtt_ns > rtt_ns && err > *rttvar_ns)
		gain = 5;
	/* The old value's share goes first: the other way round the mean settles at 7/8 of what is measured. */
	*rttvar_ns = *rttvar_ns - (*rttvar_ns >> gain) + (err >> gain);
	*srtt_ns = *srtt_ns - *srtt_ns / 8 + rtt_ns / 8;
}

/* Take in a sample of this path. rtt_ns > 0. */
static inline void uccl_path_rtt(struct uccl_path *p, uint64_t rtt_ns, uint64_t now)
{
	p->last_rtt_ns = rtt_ns;
	p->sampled_ns = now;
	p->min_rtt_ns = uccl_min(p->min_rtt_ns, rtt_ns);
	uccl_rtt_smooth(&p->srtt_ns, &p->rttvar_ns, rtt_ns);
}

/* `n` packets with `bytes` of payload each leave on the path. Returns the number of the first. */
static inline uint32_t uccl_path_sent(struct uccl_path *p, uint32_t n, uint32_t bytes)
{
	uccl_path_counters_left(&p->counters, n, (uint64_t)n * bytes);
	p->next_seq += n;
	return p->next_seq - n;
}

/* A direct write of `bytes` bytes leaves on the path. A path on trial tries with this CSN. */
static inline void uccl_path_wrote(struct uccl_path *p, uint32_t bytes, uint64_t csn)
{
	uccl_path_counters_left(&p->counters, 1, bytes);
	uccl_path_writes_left(&p->writes, csn);
}

/* What left last is a control packet: it should be reported. */
static inline void uccl_path_asked(struct uccl_path *p, uint64_t now)
{
	uccl_path_asks_left(&p->asks, p->next_seq - 1, now);
}

/* What left last asks for no answer. */
static inline void uccl_path_quiet(struct uccl_path *p)
{
	uccl_path_asks_quiet(&p->asks, p->next_seq - 1);
}

/* Bytes in flight: more of them, or less. */
static inline void uccl_path_fly(struct uccl_path *p, uint32_t bytes)
{
	p->inflight += bytes;
}

static inline void uccl_path_land(struct uccl_path *p, uint32_t bytes)
{
	p->inflight -= bytes;
}

static inline void uccl_path_lost(struct uccl_path *p)
{
	p->counters.lost++;
}

/*
 * The peer reports the sum of all marks, in units of UCCL_MARK_BYTES. Returns how many are new: none if the report is
 * older than the last one. PROTOCOL R190
 */
static inline uint16_t uccl_path_marked(struct uccl_path *p, uint16_t marks)
{
	int16_t fresh = (int16_t)(marks - p->marks);

	if (fresh <= 0)
		return 0;
	p->marks = marks;
	p->marks_new = (uint16_t)uccl_min(p->marks_new + (uint32_t)fresh, UINT16_MAX);
	return (uint16_t)fresh;
}

/* How many were reported since this was asked last? */
static inline uint16_t uccl_path_take_marks(struct uccl_path *p)
{
	uint16_t marks = p->marks_new;

	p->marks_new = 0;
	return marks;
}

/* The peer reports this number. False: no news. */
static inline bool uccl_path_acked(struct uccl_path *p, uint32_t seq)
{
	if ((int32_t)(seq - p->acked_seq) <= 0)
		return false;
	p->acked_seq = seq;
	return true;
}

static inline bool uccl_path_usable(const struct uccl_path *p)
{
	return p->state == UCCL_PATH_ACTIVE;
}

#endif

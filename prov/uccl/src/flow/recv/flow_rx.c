/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What arrived in packets: checks, duplicates, placement. No acknowledgement is sent here: the flow owes one
 * (received.c), and uccl_flow_tx lets any packet carry it.
 */
#include <string.h>

#include "base/seq.h"
#include "flow/internal.h"
#include "base/slot_unit.h"

/* Answers to a peer that does not hear us, at most; tiny packets, each on another path. PROTOCOL R57 */
#define ANSWERS_MAX 4

/*
 * After so many answers in a row that were not heard, the next one that may be several waits twice as long each time.
 * An honest peer asks more and more seldom, too; another one would get four packets for each of its own. PROTOCOL R321
 */
#define UNHEARD_FREE 4
#define UNHEARD_DOUBLINGS 10
#define UNHEARD_GAP_MAX_NS (200 * UCCL_NS_PER_MS)

/* An answer is due; if the last one was lost, several. PROTOCOL R57 */
static void rx_probe(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	uint64_t gap = uccl_max(f->cfg.rto_min_ns / 2, f->loss.times.srtt_ns);
	uint8_t answers;

	if (f->paths.unheard > UNHEARD_FREE)
		gap = uccl_max(gap, uccl_min(gap << uccl_min(f->paths.unheard - UNHEARD_FREE, UNHEARD_DOUBLINGS),
					     UNHEARD_GAP_MAX_NS));

	if (!uccl_ack_tracker_answer(&f->rx.ack_tracker, path, gap, f->paths.reacted_ns, now))
		return;
	uccl_paths_unheard(&f->paths, now);
	uccl_ack_tracker_again(&f->rx.ack_tracker, f->paths.reacted_ns);
	answers = (uint8_t)uccl_min(f->paths.unheard < 3 ? 2 : ANSWERS_MAX, f->cfg.paths_tx);
	uccl_ack_tracker_answer_more(&f->rx.ack_tracker, (uint8_t)(answers - 1));
}

/* The slots that so many packets like this one take. */
static uint32_t rx_slots(const struct uccl_flow *f, const struct uccl_hdr *h, uint32_t packets)
{
	return packets * uccl_slot_count(f->cfg.wire.unit_rx, UCCL_HDR_LEN + h->payload_len + h->tail_len);
}

/* What segments that were taken in, `s` and those behind it, leave behind. */
static void rx_segments_taken(struct uccl_flow *f, const struct uccl_hdr *h, uint64_t csn, const struct uccl_segment *s,
			      const struct uccl_chunk_in *in, bool whole, uint64_t now)
{
	/* One of them may have begun to come in sub-segments. */
	for (uint32_t i = 0; f->rx.subsegments.n && !s->subs && i < in->segments; i++)
		uccl_subsegments_segment_end(&f->rx.subsegments, csn, (uint8_t)(s->index + i));
	f->cfg.stats->rx_bytes += in->len;
	flow_taken(f, csn, in->len, whole, rx_slots(f, h, in->segments), h->flags, now);
}

/* A segment, all of it. Of one that was sent as such, `in` is what counts; else it was put together. */
static enum uccl_drop rx_segment_whole(struct uccl_flow *f, uint64_t csn, const struct uccl_segment *s,
				       const struct uccl_chunk_in *in, bool *whole, uint64_t now)
{
	const struct uccl_segment all = { .index = s->index, .count = s->count, .total = s->total };
	enum uccl_drop reason;
	bool taken;

	/* A chunk that was not cut, but in sub-segments. */
	*whole = s->subs && s->count == 1;
	if (*whole)
		return f->cfg.ops->deliver(f, in, now);
	reason = flow_segment_rx(f, csn, &all, in, &taken, now);
	*whole = taken && flow_segments_whole(f, csn);
	return reason;
}

/* A sub-segment. If its segment is whole with it, that is `in`; else in->data is NULL. */
static enum uccl_drop rx_sub(struct uccl_flow *f, const struct uccl_hdr *h, uint64_t csn, const struct uccl_segment *s,
			     struct uccl_chunk_in *in)
{
	const uint8_t *payload = in->data;
	const struct uccl_partial_segment *kept;
	enum uccl_drop reason;

	in->data = NULL;
	if (!uccl_segment_fits(s, h->payload_len))
		return UCCL_DROP_RECORD;
	/* What was cut is not one segment, and what was written never comes so. */
	if (uccl_write_rx_desc(&f->rx.write, csn) || (s->count == 1 && flow_segments_begun(f, csn)))
		return UCCL_DROP_RECORD;
	if (flow_segments_had(f, csn, s->index))
		return UCCL_DROP_DUPLICATE;
	reason = uccl_subsegments_take(&f->rx.subsegments, s, h, csn, payload, &kept);
	f->cfg.stats->subsegments_rx += reason == UCCL_DROP_COUNT;
	if (kept) {
		in->rec = kept->rec;
		in->data = kept->data;
		in->len = kept->segments.total;
		in->segments = s->count > 1;
	}
	return reason;
}

/* PROTOCOL R170 R332 */
static void rx_segment(struct uccl_flow *f, const struct uccl_hdr *h, uint64_t csn, struct uccl_chunk_in *in,
		       uint64_t now)
{
	struct uccl_chunk_in came = *in;
	enum uccl_drop reason;
	struct uccl_segment s;
	bool whole = false;

	came.segments = in->segments = 1;
	uccl_segment_read(&s, h->rec);
	reason = s.subs ? rx_sub(f, h, csn, &s, in) : UCCL_DROP_COUNT;
	if (reason == UCCL_DROP_COUNT && in->data)
		reason = rx_segment_whole(f, csn, &s, in, &whole, now);
	if (reason == UCCL_DROP_DUPLICATE) {
		flow_rx_dup(f, false, now);
		return;
	}
	if (reason != UCCL_DROP_COUNT)
		flow_drop(f, reason, h->path, now);
	/* A segment that is not taken comes again by its last sub-segment: the peer knows of the others. PROTOCOL R315
	 */
	if (s.subs && in->data && flow_took(reason))
		uccl_subsegments_segment_end(&f->rx.subsegments, csn, s.index);
	else if (s.subs && in->data)
		uccl_subsegments_untake(&f->rx.subsegments, csn, &s);
	if (flow_took(reason))
		rx_segments_taken(f, h, csn, &s, &came, whole, now);
}

static void rx_chunk(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *payload, uint64_t now)
{
	uint64_t csn = uccl_seq_expand(f->rx.arrived.nxt, h->csn, 32);
	struct uccl_chunk_in in = {
		.rtype = h->rtype,
		.rec = h->rec,
		.data = payload,
		.len = h->payload_len,
		.on_device = h->on_device,
	};
	enum uccl_drop reason = UCCL_DROP_COUNT;
	struct uccl_desc d;

	if (csn < f->rx.arrived.nxt ||
	    (csn - f->rx.arrived.nxt < f->cfg.window && uccl_arrived_has(&f->rx.arrived, csn))) {
		/* A write that came after all has its segments behind it: the first tells enough. PROTOCOL R257 */
		flow_rx_dup(f, h->type == UCCL_PKT_SEGMENT && f->cfg.write.bytes && uccl_segment_index(h->rec), now);
		return;
	}
	if (csn - f->rx.arrived.nxt >= f->cfg.window) {
		flow_drop(f, UCCL_DROP_WINDOW, h->path, now);
		return;
	}
	if (h->type == UCCL_PKT_SEGMENT) {
		rx_segment(f, h, csn, &in, now);
		return;
	}
	if (h->type == UCCL_PKT_DESC)
		reason = uccl_desc_decode(&d, h->rec);
	if (h->type == UCCL_PKT_DESC && reason == UCCL_DROP_COUNT)
		reason = uccl_write_rx_check(&f->rx.write, &f->rx.arrived, csn, &d);
	if (uccl_write_rx_desc(&f->rx.write, csn) || flow_segments_begun(f, csn))
		reason = UCCL_DROP_RECORD;
	if (reason == UCCL_DROP_COUNT && h->type == UCCL_PKT_CHUNK)
		reason = f->cfg.ops->deliver(f, &in, now);
	/* What is refused leaves no trace, so that the chunk that has this number is taken. PROTOCOL R315 */
	if (reason != UCCL_DROP_COUNT)
		flow_drop(f, reason, h->path, now);
	if (!flow_took(reason))
		return;
	f->cfg.stats->rx_bytes += in.len;
	flow_taken(f, csn, in.len, true, rx_slots(f, h, 1), h->flags, now);
	if (h->type == UCCL_PKT_DESC)
		flow_desc_rx(f, csn, &d, now);
}

/* Of chunks those that ask for something say whether more waits for a slot. PROTOCOL R178 */
static void rx_more(struct uccl_flow *f, const struct uccl_hdr *h)
{
	if (h->flags && f->cfg.grant)
		uccl_slots_more(f->cfg.grant, h->flags & UCCL_FLAG_WANT);
}

static void rx_trace(const struct uccl_flow *f, const struct uccl_hdr *h, uint32_t n, uint64_t now)
{
	for (uint32_t i = 0; i < n; i++)
		flow_trace(f, UCCL_TRACE_RX, h->type, h->path, h->csn, h->payload_len, h->pseq + i, now);
}

/* So many packets with numbers in a row came, this the first, with so many bytes of payload in all. */
static inline __attribute__((always_inline)) void rx_heard(struct uccl_flow *f, const struct uccl_hdr *h, uint32_t n,
							   uint32_t bytes, uint64_t age_ns, uint64_t now)
{
	f->cfg.stats->rx_packets += n;
	if (f->cfg.trace)
		rx_trace(f, h, n, now);
	uccl_flow_rx_heard(&f->rx, now);
	uccl_ack_tracker_packet(&f->rx.ack_tracker, h->path, h->pseq + n - 1, h->ts, now > age_ns ? now - age_ns : now);
	if (h->marked && bytes) {
		f->cfg.stats->marked_rx += bytes;
		uccl_ack_tracker_marked(&f->rx.ack_tracker, h->path, bytes);
	}
}

/* Is the tail nothing but what makes the packet as long as others? PROTOCOL R259 */
static bool rx_padding(const struct uccl_hdr *h, const uint8_t *tail)
{
	return h->flags & UCCL_FLAG_PADDED && h->type == UCCL_PKT_CHUNK && !tail[0] &&
	       !memcmp(tail, tail + 1, h->tail_len - 1u);
}

void uccl_flow_rx(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *payload, const uint8_t *tail,
		  uint64_t age_ns, uint64_t now)
{
	struct uccl_ack ack;
	enum uccl_drop reason;
	uint64_t demand, lost;

	if (h->path >= f->cfg.paths_rx) {
		flow_drop(f, UCCL_DROP_PATH, h->path, now);
		return;
	}
	if (h->tail_len && !rx_padding(h, tail)) {
		reason = uccl_ack_decode(&ack, tail, h->tail_len);
		if (reason == UCCL_DROP_COUNT)
			reason = flow_ack_rx(f, &ack, h->ts, age_ns, now);
		if (reason != UCCL_DROP_COUNT) {
			flow_drop(f, reason, h->path, now);
			return;
		}
	}
	rx_heard(f, h, 1, h->payload_len, age_ns, now);

	/* CHUNK, DESC, SEGMENT. */
	if (h->type >= UCCL_PKT_CHUNK) {
		rx_more(f, h);
		rx_chunk(f, h, payload, now);
		return;
	}
	switch (h->type) {
	case UCCL_PKT_PROBE:
		if (f->cfg.grant && h->flags & UCCL_FLAG_WANT && !uccl_slots_want(f->cfg.grant, now))
			flow_drop(f, UCCL_DROP_WANT, h->path, now);
		else
			rx_probe(f, h->path, now);
		break;
	case UCCL_PKT_CREDIT:
		uccl_event_rx_credit(f, uccl_get64(h->rec), uccl_get64(h->rec + 8), now);
		break;
	case UCCL_PKT_DEMAND:
		demand = uccl_get64(h->rec);
		lost = uccl_get64(h->rec + 8);
		if (!uccl_credit_sane(&f->credit, demand, lost)) {
			flow_drop(f, UCCL_DROP_CREDIT, h->path, now);
			break;
		}
		uccl_event_rx_demand(f, demand, lost, uccl_get64(h->rec + 16), now);
		break;
	case UCCL_PKT_CLOSE:
		uccl_closing_heard(&f->close, uccl_close_reason_read(h->rec));
		break;
	case UCCL_PKT_CLOSE_ACK:
		uccl_closing_answered(&f->close);
		break;
	case UCCL_PKT_ACK:
		break;
	default:
		flow_drop(f, UCCL_DROP_STATE, h->path, now);
		break;
	}
}

/* PROTOCOL R173 */
bool uccl_flow_rx_run(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *data, uint32_t len, uint64_t age_ns,
		      uint64_t now)
{
	uint64_t csn = uccl_seq_expand(f->rx.arrived.nxt, h->csn, 32);
	uint32_t each = UCCL_HDR_LEN + h->payload_len, n = (len + each - 1) / each;
	struct uccl_chunk_in in = {
		.rtype = h->rtype,
		.rec = h->rec,
		.data = data + UCCL_HDR_LEN,
		.len = len - n * UCCL_HDR_LEN,
		.segments = n,
		.each = h->payload_len,
	};
	struct uccl_segment s;
	bool taken;

	if (h->path >= f->cfg.paths_rx || csn < f->rx.arrived.nxt || csn - f->rx.arrived.nxt >= f->cfg.window ||
	    uccl_arrived_has(&f->rx.arrived, csn))
		return false;
	uccl_segment_read(&s, h->rec);
	flow_segment_rx(f, csn, &s, &in, &taken, now);
	if (!taken)
		return false;
	rx_heard(f, h, n, in.len, age_ns, now);
	rx_more(f, h);
	rx_segments_taken(f, h, csn, &s, &in, flow_segments_whole(f, csn), now);
	return true;
}

void uccl_flow_rx_segments(struct uccl_flow *f, const struct uccl_hdr *h, const uint8_t *data, uint32_t len,
			   uint64_t age_ns, uint64_t now)
{
	uint32_t each = UCCL_HDR_LEN + h->payload_len;
	struct uccl_hdr one;

	if (uccl_flow_rx_run(f, h, data, len, age_ns, now))
		return;
	for (uint32_t at = 0; at < len; at += each)
		if (uccl_hdr_decode(&one, data + at, (uint32_t)uccl_min(each, len - at)) == UCCL_DROP_COUNT) {
			one.marked = h->marked;
			uccl_flow_rx(f, &one, data + at + UCCL_HDR_LEN, NULL, age_ns, now);
		}
}

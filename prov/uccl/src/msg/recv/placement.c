/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where payload will probably belong, before it is received: it need not be copied then. */
#include "base/seq.h"
#include "base/units.h"
#include "msg/msg_ep.h"

/*
 * A right guess saves a copy, a wrong one costs one. So with more wrong than right, of the latest MISS_GAIN
 * receptions or so, nothing is predicted for REST receptions; of the next ones a few must be right. (Each reception
 * counts once: a packet that is lost makes all behind it wrong.)
 */
#define MISS_GAIN 8
#define MISS_MAX 128
#define MISS_AGAIN 96
#define REST 256

/* A batch of fewer packets is not worth a guess. */
#define ROW_MIN 4

/* A matched message whose rest is on its way. Where lanes put bytes nothing may be that was only predicted. */
static bool rx_streams(const struct uccl_msg_rx *rx)
{
	return rx->place.iov && rx->place.niov == 1 && !rx->place.device && !rx->place.mr && !rx->lanes.rest &&
	       !rx->lanes.unsolicited && rx->id && rx->arrived.hi < rx->place.limit;
}

/*
 * Two payloads at one place would destroy each other before either can be moved away. Receives have no memory in
 * common, but reads and writes may. PROTOCOL R276
 */
static bool apart(const struct uccl_rx_placement *places, int n, const uint8_t *dst, uint64_t len)
{
	for (int i = 0; i < n; i++) {
		const uint8_t *other = places[i].dst;

		if (dst < other + places[i].len && other < dst + len)
			return false;
	}
	return true;
}

void uccl_msg_predicted(struct uccl_msg_ep *m, int right, int wrong)
{
	struct uccl_peer *p;

	if (!m->predict.stream || right + wrong == 0)
		return;
	p = m->predict.stream->peer;
	if (wrong <= right) {
		p->predict.miss_rate = (uint8_t)(p->predict.miss_rate - p->predict.miss_rate / MISS_GAIN);
		return;
	}
	p->predict.miss_rate = (uint8_t)(p->predict.miss_rate + (UINT8_MAX - p->predict.miss_rate) / MISS_GAIN);
	if (p->predict.miss_rate < MISS_MAX)
		return;
	p->predict.miss_rate = MISS_AGAIN;
	p->predict.miss_pause = REST;
}

/* The next GRO batch. Its message may be the next one only when the last packet of this one has come. */
static int predict_row(struct uccl_msg_ep *m, const struct uccl_msg_rx *rx, struct uccl_rx_placement *place)
{
	uint32_t each = rx->peer->predict.run_each + UCCL_HDR_LEN;
	uint64_t len = 0;

	if (m->predict.runs_soon && rx->peer->predict.run_each && rx_streams(rx))
		len = uccl_min(rx->place.limit - rx->arrived.hi, UCCL_GRO_BYTES_MAX);
	if (len < (uint64_t)ROW_MIN * each)
		return 0;
	*place = (struct uccl_rx_placement){.dst = (uint8_t *)rx->place.iov[0].iov_base + rx->arrived.hi,
					   .len = (uint32_t)(len - len % each),
					   .each = each};
	return 1;
}

int uccl_msg_predict(struct uccl_msg_ep *m, struct uccl_rx_placement *places, int n)
{
	struct uccl_msg_rx *rx = m->predict.stream;
	uint64_t off, chunk;
	int i = 0;

	if (!rx)
		return 0;
	if (rx->peer->predict.miss_pause) {
		rx->peer->predict.miss_pause--;
		return 0;
	}
	/* The kernel merges small packets, and nothing is predicted of them but the batch that they come in. */
	if (rx->peer->flow.cfg.packet.chunk_bytes < UCCL_PLACEMENT_MIN)
		return predict_row(m, rx, places);
	chunk = rx->peer->flow.cfg.packet.chunk_bytes;
	/* When this message is through, the peer goes on with the one that was granted next. */
	for (rx = rx->stream.listed ? rx : TAILQ_FIRST(&rx->peer->rx.streams); rx && i < n;
	     rx = TAILQ_NEXT(rx, stream.link)) {
		uccl_match_step(&m->match);
		if (!rx_streams(rx))
			continue;
		for (off = rx->arrived.hi; i < n && off < rx->place.limit; off += chunk) {
			uint8_t *dst = (uint8_t *)rx->place.iov[0].iov_base + off;
			uint64_t len = uccl_min(chunk, rx->place.limit - off);

			/* Behind one that is left out nothing is predicted rightly. */
			if (!apart(places, i, dst, len))
				return i;
			places[i++] = (struct uccl_rx_placement){.dst = dst, .len = (uint32_t)len};
		}
	}
	return i;
}

uint8_t *uccl_msg_place(struct uccl_peer *p, const struct uccl_hdr *h, uint64_t len)
{
	uint64_t off = uccl_get64(h->rec + 8);
	struct uccl_segment s;
	struct uccl_msg_rx *rx;

	if (h->type == UCCL_PKT_SEGMENT) {
		if (uccl_segment_decode(&s, h->rec, h->payload_len) != UCCL_DROP_COUNT || s.subs)
			return NULL;
		off += (uint64_t)s.index * uccl_segment_each(s.total, s.count);
	} else if (h->type != UCCL_PKT_CHUNK) {
		return NULL;
	}
	if (h->rtype == UCCL_REC_EAGER)
		rx = msg_rx_find(p, uccl_seq_expand(p->rx.mseq, uccl_get32(h->rec), 32));
	else if (h->rtype == UCCL_REC_DATA || h->rtype == UCCL_REC_REPLY)
		rx = msg_rx_by_id(p, uccl_get32(h->rec), uccl_get32(h->rec + 4));
	else
		return NULL;
	if (!rx || !rx->place.iov || rx->place.niov != 1 || rx->place.device || rx->lanes.rest ||
	    rx->lanes.unsolicited || off > rx->place.limit || len > rx->place.limit - off)
		return NULL;
	return (uint8_t *)rx->place.iov[0].iov_base + off;
}

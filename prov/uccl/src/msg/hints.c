/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where payload will probably belong, before it is received: it need not be copied then. */
#include "base/seq.h"
#include "base/units.h"
#include "msg/mep.h"

/*
 * A right guess saves a copy, a wrong one costs one. So with more wrong than right, of the latest SURPRISE_GAIN
 * receptions or so, there is no guess for REST receptions; of the next ones a few must be right. (Each reception counts
 * once: a packet that is lost makes all behind it wrong.)
 */
#define SURPRISE_GAIN 8
#define SURPRISE_MAX 128
#define SURPRISE_AGAIN 96
#define REST 256

/* A matched message whose rest is on its way. Where lanes put bytes nothing may be that was only foreseen. */
static bool rx_streams(const struct uccl_msg_rx *rx)
{
	return rx->iov && rx->niov == 1 && !rx->device && !rx->mr && !rx->berth && !rx->ahead && rx->id &&
	       rx->hi < rx->limit;
}

/*
 * Two payloads at one place would destroy each other before either can be moved away. Receives have no memory in
 * common, but reads and writes may. PROTOCOL R276
 */
static bool hint_apart(const struct uccl_rx_hint *hints, int n, const uint8_t *dst, uint64_t len)
{
	for (int i = 0; i < n; i++) {
		const uint8_t *other = hints[i].dst;

		if (dst < other + hints[i].len && other < dst + len)
			return false;
	}
	return true;
}

void uccl_msg_hinted(struct uccl_mep *m, int right, int wrong)
{
	struct uccl_peer *p;

	if (!m->stream || right + wrong == 0)
		return;
	p = m->stream->peer;
	if (wrong <= right) {
		p->surprise = (uint8_t)(p->surprise - p->surprise / SURPRISE_GAIN);
		return;
	}
	p->surprise = (uint8_t)(p->surprise + (UINT8_MAX - p->surprise) / SURPRISE_GAIN);
	if (p->surprise < SURPRISE_MAX)
		return;
	p->surprise = SURPRISE_AGAIN;
	p->unforeseen = REST;
}

int uccl_msg_hints(struct uccl_mep *m, struct uccl_rx_hint *hints, int n)
{
	struct uccl_msg_rx *rx = m->stream;
	uint64_t off, chunk;
	int i = 0;

	/* The kernel merges small packets; copying them costs less than undoing a wrong guess. */
	if (!rx || rx->peer->flow.cfg.chunk_bytes < UCCL_HINT_MIN)
		return 0;
	if (rx->peer->unforeseen) {
		rx->peer->unforeseen--;
		return 0;
	}
	chunk = rx->peer->flow.cfg.chunk_bytes;
	/* When this message is through, the peer goes on with the one that was granted next. */
	for (; rx && i < n; rx = TAILQ_NEXT(rx, plink)) {
		if (!rx_streams(rx))
			continue;
		for (off = rx->hi; i < n && off < rx->limit; off += chunk) {
			uint8_t *dst = (uint8_t *)rx->iov[0].iov_base + off;
			uint64_t len = uccl_min(chunk, rx->limit - off);

			if (!hint_apart(hints, i, dst, len))
				break;
			hints[i].dst = dst;
			hints[i++].len = (uint32_t)len;
		}
	}
	return i;
}

uint8_t *uccl_msg_place(struct uccl_peer *p, const struct uccl_hdr *h)
{
	uint64_t off = uccl_get64(h->rec + 8);
	struct uccl_msg_rx *rx;

	if (h->type != UCCL_PKT_CHUNK)
		return NULL;
	if (h->rtype == UCCL_REC_EAGER)
		rx = msg_rx_find(p, uccl_seq_expand(p->rx_mseq, uccl_get32(h->rec), 32));
	else if (h->rtype == UCCL_REC_DATA || h->rtype == UCCL_REC_REPLY)
		rx = msg_rx_by_id(p, uccl_get32(h->rec), uccl_get32(h->rec + 4));
	else
		return NULL;
	if (!rx || !rx->iov || rx->niov != 1 || rx->device || rx->berth || rx->ahead || off > rx->limit ||
	    h->payload_len > rx->limit - off)
		return NULL;
	return (uint8_t *)rx->iov[0].iov_base + off;
}

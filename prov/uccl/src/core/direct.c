/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receiving side of direct writes. A write has 32 bits of header, so a descriptor in the packet stream tells where the
 * chunks that follow it belong. The NIC writes before software can look; therefore:
 *  - a chunk is written directly at most once (tx.c), what is sent again comes as packets (FRAG) and is copied here;
 *  - a chunk completed by packets whose write was not seen leaves a doubt: the write may still land. The message's
 * buffer stays ours until the doubt is settled: the write arrives, or the path is fenced, or, only if the operator
 * declared paths FIFO, a later write on the same path arrives. One step backwards on any path ends FIFO for good.
 */
#include "base/seq.h"
#include "core/internal.h"

/*
 * Writes cannot ask for an acknowledgement, and sixteen of them may be more than a short network holds at once: so many
 * bytes that came are told at once (the paper's implementation tells after four chunks).
 */
#define OWED_BYTES 131072
/*
 * The immediate has the low bits of a write's CSN, so one that comes a whole wrap late would be taken for another. What
 * may still come is cut off when so many later ones have come. PROTOCOL R146
 */
#define DOUBT_AGE ((uint64_t)1 << (UCCL_IMM_CSN_BITS - 2))
/* So often is looked for such: they are few, and seldom. */
#define DOUBT_LOOK 65536

static struct uccl_doubt *doubt_find(struct uccl_flow *f, uint64_t csn)
{
	for (uint32_t i = 0; i < f->ndoubts; i++)
		if (f->doubts[i].csn == csn)
			return &f->doubts[i];
	return NULL;
}

/* Was this one expected to come late, after its place was closed? It is, once. */
static bool late_take(struct uccl_flow *f, uint64_t csn)
{
	for (int i = 0; i < UCCL_LATE_MAX; i++)
		if (f->late[i] == csn + 1) {
			f->late[i] = 0;
			return true;
		}
	return false;
}

static void doubt_settle(struct uccl_flow *f, struct uccl_doubt *d, uint64_t now)
{
	uint32_t id = d->id, gen = d->gen;

	*d = f->doubts[--f->ndoubts];
	f->cfg.ops->settled(f, id, gen, now);
}

static struct uccl_rx_desc *desc_find(struct uccl_flow *f, uint64_t csn)
{
	for (uint32_t i = 0; i < f->ndescs; i++)
		if (csn >= f->descs[i].first && csn - f->descs[i].first < f->descs[i].d.count)
			return &f->descs[i];
	return NULL;
}

static void desc_take(struct uccl_flow *f, struct uccl_rx_desc *d)
{
	if (!--d->left)
		*d = f->descs[--f->ndescs];
}

/* Offset of chunk csn from the descriptor's begin, and its length. */
static uint32_t desc_chunk(const struct uccl_rx_desc *d, uint64_t csn, uint64_t *off)
{
	*off = (csn - d->first) * d->d.chunk;
	return (uint32_t)uccl_min(d->d.chunk, d->d.len - *off);
}

static struct uccl_rx_slot *rx_slot(struct uccl_flow *f, uint64_t csn)
{
	return &f->rx_slots[csn & (f->cfg.window - 1)];
}

/* Hand up bytes `from` to `to` of a chunk that the NIC has written. */
static enum uccl_drop write_part(struct uccl_flow *f, const struct uccl_rx_desc *d, uint64_t off, uint64_t from,
				 uint64_t to, uint64_t now)
{
	uint8_t rec[UCCL_REC_LEN] = { 0 };
	struct uccl_chunk_in in = { .rtype = f->write_rtype, .rec = rec, .placed = true, .len = (uint32_t)(to - from) };

	enum uccl_drop reason;

	uccl_rec_set_bulk(rec, d->d.id, d->d.gen, d->d.offset + off + from);
	reason = f->cfg.ops->deliver(f, &in, now);
	if (reason != UCCL_DROP_MEMORY)
		f->cfg.stats->rx_bytes += in.len;
	return reason;
}

/* What fragments brought already is not counted again: the rest of the chunk, each gap between them by itself. */
static enum uccl_drop write_parts(struct uccl_flow *f, const struct uccl_rx_desc *d, const struct uccl_rx_slot *s,
				  uint64_t off, uint32_t len, uint64_t now)
{
	enum uccl_drop reason = UCCL_DROP_COUNT;
	struct uccl_rx_slot had = *s;
	uint8_t i = 0, n;

	while (reason == UCCL_DROP_COUNT && i < had.nfrags) {
		if (had.frags >> i & 1) {
			i++;
			continue;
		}
		for (n = (uint8_t)(i + 1); n < had.nfrags && !(had.frags >> n & 1); n++)
			;
		reason = write_part(f, d, off, (uint64_t)i * had.piece,
				    n == had.nfrags ? len : (uint64_t)n * had.piece, now);
		i = n;
	}
	return reason;
}

/* A write whose descriptor is known. */
static void write_deliver(struct uccl_flow *f, struct uccl_rx_desc *d, uint64_t csn, uint32_t len, uint64_t now)
{
	const struct uccl_rx_slot *s = rx_slot(f, csn);
	enum uccl_drop reason;
	uint64_t off;

	if (desc_chunk(d, csn, &off) != len) {
		/* Not what was announced: it counts as lost, and comes again as packets. */
		flow_drop(f, UCCL_DROP_RANGE, 0, now);
		return;
	}
	reason = s->frags ? write_parts(f, d, s, off, len, now) : write_part(f, d, off, 0, len, now);
	if (reason != UCCL_DROP_COUNT)
		flow_drop(f, reason, 0, now);
	if (reason == UCCL_DROP_MEMORY)
		return;
	desc_take(f, d);
	flow_received(f, csn, len, false, now);
	flow_doubts_age(f, csn, now);
	/* Writes carry no request for an acknowledgement: the last one announced is taken for one. */
	flow_owe_ack(f, csn, !desc_find(f, csn + 1) || (f->owed.chunks + 1ull) * len >= OWED_BYTES, now);
}

bool flow_desc_claims(struct uccl_flow *f, uint64_t csn)
{
	return desc_find(f, csn);
}

/*
 * Ranges that are disjoint and inside the window bound the table: each descriptor waits for a chunk of its own. A range
 * begins right behind its descriptor, so of two that meet one holds the other's descriptor: it was received, or is
 * refused (rx.c).
 */
enum uccl_drop flow_desc_check(const struct uccl_flow *f, uint64_t csn, const struct uccl_desc *d)
{
	uint64_t first = csn + 1;

	if (!f->cfg.write_bytes)
		return UCCL_DROP_STATE;
	if (d->chunk > f->cfg.write_bytes || d->count >= f->cfg.window - (csn - f->rcv.nxt))
		return UCCL_DROP_RECORD;
	for (uint64_t c = first; c < first + d->count; c++)
		if (uccl_arrived_has(&f->rcv, c))
			return UCCL_DROP_RECORD;
	return UCCL_DROP_COUNT;
}

void flow_desc_rx(struct uccl_flow *f, uint64_t csn, const struct uccl_desc *d, uint64_t now)
{
	uint64_t first = csn + 1;

	f->descs[f->ndescs++] = (struct uccl_rx_desc){ .first = first, .d = *d, .left = d->count };
	for (uint64_t c = first; c < first + d->count; c++) {
		struct uccl_rx_slot *s;
		struct uccl_rx_desc *rd;

		if (c < f->rcv.nxt || c - f->rcv.nxt >= f->cfg.window || uccl_arrived_has(&f->rcv, c))
			continue;
		s = rx_slot(f, c);
		rd = desc_find(f, c);
		if (s->early && rd) {
			s->early = false;
			uccl_owed_write(&f->owed, s->wpath, c, s->came);
			s->came = 0;
			write_deliver(f, rd, c, s->wlen, now);
		}
	}
}

/* Doubts that a write on `path` settles: the same chunk, and with FIFO paths every earlier one. */
static void doubts_after_write(struct uccl_flow *f, uint64_t csn, uint16_t path, uint64_t now)
{
	for (uint32_t i = f->ndoubts; i-- > 0;) {
		struct uccl_doubt *d = &f->doubts[i];

		if (d->csn == csn || (f->fifo && d->path == path && d->csn < csn))
			doubt_settle(f, d, now);
	}
}

void uccl_flow_rx_write(struct uccl_flow *f, uint32_t imm, uint32_t len, uint16_t path, uint64_t now)
{
	uint64_t csn = uccl_seq_expand(f->rcv.nxt, imm, UCCL_IMM_CSN_BITS);
	struct uccl_rx_desc *d;
	struct uccl_rx_slot *s;
	bool late, had_doubt;

	if (path >= f->cfg.paths_rx || !f->cfg.write_bytes) {
		flow_drop(f, UCCL_DROP_PATH, path, now);
		return;
	}
	if (imm >> UCCL_IMM_CSN_BITS != f->cfg.epoch_rx) {
		flow_drop(f, UCCL_DROP_EPOCH, path, now);
		return;
	}
	late = csn < f->rcv.nxt;
	if (csn < f->cfg.csn_rx || (!late && csn - f->rcv.nxt >= f->cfg.window)) {
		flow_drop(f, UCCL_DROP_WINDOW, path, now);
		return;
	}
	f->heard_ns = now;
	f->cfg.stats->writes_rx++;
	flow_trace(f, UCCL_TRACE_RX_WRITE, 0, path, csn, len, 0, now);
	if (uccl_owed_seen(&f->owed, path, csn, late) && f->fifo) {
		f->fifo = false;
		f->cfg.stats->fifo_broken++;
	}
	had_doubt = doubt_find(f, csn);
	doubts_after_write(f, csn, path, now);
	if (late || uccl_arrived_has(&f->rcv, csn)) {
		/* The late original of a chunk is expected once; anything else the network doubled. PROTOCOL R27 */
		had_doubt = had_doubt || late_take(f, csn);
		if (!had_doubt) {
			f->direct_off = true;
			f->cfg.stats->dup_writes++;
		}
		if (!late)
			uccl_owed_write(&f->owed, path, csn, now);
		flow_rx_dup(f, had_doubt, now);
		return;
	}
	d = desc_find(f, csn);
	if (d) {
		uccl_owed_write(&f->owed, path, csn, now);
		write_deliver(f, d, csn, len, now);
		return;
	}
	s = rx_slot(f, csn);
	if (s->early) {
		f->direct_off = true;
		f->cfg.stats->dup_writes++;
		flow_rx_dup(f, false, now);
		return;
	}
	*s = (struct uccl_rx_slot){ .came = now, .early = true, .wlen = len, .wpath = path };
}

/*
 * No room for another doubt: a message may have any number of them, and cannot end before they are settled. One path's
 * are, by a fence; what came now comes again. PROTOCOL R101
 */
static void doubts_make_room(struct uccl_flow *f, uint64_t now)
{
	uint16_t path = f->doubts[0].path;

	if (f->fencing == path + 1)
		return;
	f->fencing = (uint16_t)(path + 1);
	f->cfg.stats->fences++;
	f->cfg.ops->fence(f, path, now);
}

/*
 * All fragments of a chunk but the last are of one length, so that index and count say where each lies, and all of them
 * are the chunk. PROTOCOL R23
 */
static bool frag_fits(struct uccl_rx_slot *s, uint8_t index, uint8_t count, uint64_t off, uint32_t bytes, uint32_t len)
{
	bool last = index + 1 == count;
	uint64_t piece = count == 1 ? len : last ? off / (count - 1u) : bytes;

	if (s->piece && (s->piece != piece || s->nfrags != count))
		return false;
	if (!piece || piece * (count - 1u) >= len || off != piece * index || bytes != (last ? len - off : piece))
		return false;
	s->piece = (uint32_t)piece;
	s->nfrags = count;
	return true;
}

enum uccl_drop flow_frag_rx(struct uccl_flow *f, const struct uccl_hdr *h, uint64_t csn, const uint8_t *payload,
			    uint32_t *complete, uint64_t now)
{
	struct uccl_chunk_in in = { .rtype = h->rtype, .rec = h->rec, .data = payload, .len = h->payload_len };
	uint8_t index = h->rec[16], count = h->rec[17];
	uint64_t at = uccl_get64(h->rec + 8);
	uint16_t path = uccl_get16(h->rec + 18);
	struct uccl_rx_desc *d;
	struct uccl_rx_slot *s;
	enum uccl_drop reason;
	uint64_t all, off;
	uint32_t len;

	*complete = 0;
	if (!f->cfg.write_bytes)
		return UCCL_DROP_STATE;
	if (!count || count > UCCL_FRAG_MAX || index >= count || path >= f->cfg.paths_rx)
		return UCCL_DROP_RECORD;
	d = desc_find(f, csn);
	/* Without its descriptor it cannot be taken now: it will come again. */
	if (!d)
		return UCCL_DROP_MEMORY;
	if (f->ndoubts == f->cfg.window)
		doubts_make_room(f, now);
	if (f->ndoubts == f->cfg.window)
		return UCCL_DROP_MEMORY;
	/* The fragment must lie inside the chunk that the descriptor announced. PROTOCOL R23 */
	len = desc_chunk(d, csn, &off);
	off += d->d.offset;
	if (uccl_get32(h->rec) != d->d.id || uccl_get32(h->rec + 4) != d->d.gen || at - off > len ||
	    h->payload_len > len - (at - off))
		return UCCL_DROP_RANGE;
	s = rx_slot(f, csn);
	if (s->frags >> index & 1)
		return UCCL_DROP_DUPLICATE;
	if (!frag_fits(s, index, count, at - off, h->payload_len, len))
		return UCCL_DROP_RANGE;
	all = count == 64 ? UINT64_MAX : (1ull << count) - 1;
	in.doubtful = (s->frags | 1ull << index) == all;
	if (in.doubtful) {
		/* Before delivery: the message that this chunk completes asks for fences of all its doubts. */
		f->doubts[f->ndoubts++] = (struct uccl_doubt){ .csn = csn, .id = uccl_get32(h->rec),
							       .gen = uccl_get32(h->rec + 4), .path = path };
	}
	reason = f->cfg.ops->deliver(f, &in, now);
	if (in.doubtful && reason != UCCL_DROP_COUNT)
		f->ndoubts--;
	if (reason == UCCL_DROP_MEMORY)
		return reason;
	s->frags |= 1ull << index;
	f->cfg.stats->rx_bytes += h->payload_len;
	if (!in.doubtful)
		return reason;
	*complete = len;
	desc_take(f, d);
	if (reason == UCCL_DROP_COUNT) {
		/* Delivery may have fenced the path; and a later write may have been seen on it already. */
		struct uccl_doubt *doubt = doubt_find(f, csn);

		f->cfg.stats->doubtful++;
		if (doubt && f->fifo && f->owed.paths[path].seen_csn > csn + 1)
			doubt_settle(f, doubt, now);
	}
	return reason;
}

void uccl_flow_fenced(struct uccl_flow *f, uint16_t path, uint64_t now)
{
	if (f->fencing == path + 1)
		f->fencing = 0;
	for (uint32_t i = f->ndoubts; i-- > 0;)
		if (f->doubts[i].path == path)
			doubt_settle(f, &f->doubts[i], now);
}

void uccl_flow_forgive(struct uccl_flow *f, uint32_t id, uint32_t gen)
{
	for (uint32_t i = f->ndoubts; i-- > 0;) {
		struct uccl_doubt *d = &f->doubts[i];

		if (d->id != id || d->gen != gen)
			continue;
		f->late[f->nlate++ % UCCL_LATE_MAX] = d->csn + 1;
		*d = f->doubts[--f->ndoubts];
	}
}

struct path_set {
	uint64_t bits[UCCL_PATHS_MAX / 64];
};

static void paths_add(struct path_set *s, uint16_t path)
{
	s->bits[path / 64] |= 1ull << (path % 64);
}

/* A fence that is done at once takes doubts out of the list, so the list is not walked here. */
static void paths_fence(struct uccl_flow *f, const struct path_set *s, uint64_t now)
{
	for (uint16_t path = 0; path < f->cfg.paths_rx; path++)
		if (s->bits[path / 64] >> (path % 64) & 1) {
			f->cfg.stats->fences++;
			f->cfg.ops->fence(f, path, now);
		}
}

void uccl_flow_fence_message(struct uccl_flow *f, uint32_t id, uint32_t gen, uint64_t now)
{
	struct path_set s = { 0 };

	for (uint32_t i = 0; i < f->ndoubts; i++)
		if (f->doubts[i].id == id && f->doubts[i].gen == gen)
			paths_add(&s, f->doubts[i].path);
	paths_fence(f, &s, now);
}

void flow_doubts_age(struct uccl_flow *f, uint64_t csn, uint64_t now)
{
	struct path_set s = { 0 };

	if (!f->ndoubts || csn % DOUBT_LOOK)
		return;
	for (uint32_t i = 0; i < f->ndoubts; i++)
		if (csn > f->doubts[i].csn + DOUBT_AGE)
			paths_add(&s, f->doubts[i].path);
	paths_fence(f, &s, now);
}

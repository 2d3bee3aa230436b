/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Encoding and decoding of packets. Nothing here has state. */
#include "flow/wire/io.h"
#include "flow/wire/wire.h"

#include "base/units.h"

bool uccl_type_known(uint8_t type)
{
	switch (type) {
	case UCCL_PKT_HELLO:
	case UCCL_PKT_COOKIE:
	case UCCL_PKT_INIT:
	case UCCL_PKT_INIT_ACK:
	case UCCL_PKT_ELSEWHERE:
	case UCCL_PKT_ACK:
	case UCCL_PKT_PROBE:
	case UCCL_PKT_CREDIT:
	case UCCL_PKT_DEMAND:
	case UCCL_PKT_CLOSE:
	case UCCL_PKT_CLOSE_ACK:
	case UCCL_PKT_CHUNK:
	case UCCL_PKT_DESC:
	case UCCL_PKT_SEGMENT:
		return true;
	default:
		return false;
	}
}

bool uccl_packet_begins(const uint8_t *data, uint32_t len)
{
	return len >= UCCL_HDR_LEN && (data[3] == UCCL_PKT_HELLO || data[3] == UCCL_PKT_INIT);
}

void uccl_hdr_encode(uint8_t out[UCCL_HDR_LEN], const struct uccl_hdr *h)
{
	uccl_put16(out, UCCL_MAGIC);
	out[2] = UCCL_VERSION;
	out[3] = h->type;
	out[4] = h->flags;
	out[5] = h->rtype;
	uccl_put16(out + 6, h->path);
	uccl_put64(out + 8, h->token);
	uccl_put32(out + 16, h->csn);
	uccl_put32(out + 20, h->pseq);
	uccl_put32(out + 24, h->ts);
	uccl_put16(out + 28, h->payload_len);
	uccl_put16(out + 30, h->tail_len);
	if (h->rec)
		memcpy(out + 32, h->rec, UCCL_REC_LEN);
	else
		memset(out + 32, 0, UCCL_REC_LEN);
}

/* Handshake packets have codes of their own. */
static uint32_t seal_len(const struct uccl_hdr *h)
{
	return h->flags & UCCL_FLAG_SEALED && h->type >= UCCL_PKT_ACK ? UCCL_SEAL_LEN : 0;
}

static bool hdr_former(const uint8_t *data)
{
	return data[2] == UCCL_VERSION_FORMER;
}

/* May a packet of another version be read? HELLO and COOKIE have the same beginnings in all. PROTOCOL R333 R335 */
static bool hdr_readable(const uint8_t *data)
{
	return data[3] == UCCL_PKT_HELLO || data[3] == UCCL_PKT_COOKIE ||
	       (data[3] == UCCL_PKT_INIT && hdr_former(data));
}

enum uccl_drop uccl_hdr_decode(struct uccl_hdr *h, const uint8_t *data, uint32_t len)
{
	if (len < UCCL_HDR_LEN)
		return UCCL_DROP_SHORT;
	if (uccl_get16(data) != UCCL_MAGIC)
		return UCCL_DROP_MAGIC;
	if (data[2] != UCCL_VERSION && !hdr_readable(data))
		return UCCL_DROP_VERSION;
	h->version = data[2];
	h->type = data[3];
	h->flags = data[4];
	h->rtype = data[5];
	h->path = uccl_get16(data + 6);
	h->token = uccl_get64(data + 8);
	h->csn = uccl_get32(data + 16);
	h->pseq = uccl_get32(data + 20);
	h->ts = uccl_get32(data + 24);
	h->payload_len = uccl_get16(data + 28);
	h->tail_len = uccl_get16(data + 30);
	h->marked = h->on_device = false;
	h->rec = data + 32;
	if (h->version != UCCL_VERSION && !hdr_former(data)) {
		/* What the other fields mean in that version is not known. */
		h->flags = h->rtype = 0;
		h->path = h->payload_len = h->tail_len = 0;
		return UCCL_DROP_COUNT;
	}
	if (!uccl_type_known(h->type))
		return UCCL_DROP_TYPE;
	if ((uint32_t)UCCL_HDR_LEN + h->payload_len + h->tail_len + seal_len(h) != len || h->tail_len > UCCL_TAIL_MAX)
		return UCCL_DROP_LENGTH;
	if (h->path >= UCCL_PATHS_MAX)
		return UCCL_DROP_PATH;
	return UCCL_DROP_COUNT;
}

enum uccl_drop uccl_quote_decode(struct uccl_hdr *h, const uint8_t *data, uint32_t len)
{
	if (len < UCCL_QUOTE_MIN)
		return UCCL_DROP_SHORT;
	if (uccl_get16(data) != UCCL_MAGIC)
		return UCCL_DROP_MAGIC;
	if (data[2] != UCCL_VERSION && !(hdr_former(data) && hdr_readable(data)))
		return UCCL_DROP_VERSION;
	*h = (struct uccl_hdr){
		.version = data[2],
		.type = data[3],
		.path = uccl_get16(data + 6),
		.token = uccl_get64(data + 8),
		.pseq = uccl_get32(data + 20),
		.rec = len < UCCL_HDR_LEN ? NULL : data + 32,
	};
	return uccl_type_known(h->type) ? UCCL_DROP_COUNT : UCCL_DROP_TYPE;
}

#define ACK_PATH_WRITE 0x8000

uint8_t uccl_ack_segments_fit(uint8_t npaths, uint8_t nwords, uint32_t room)
{
	uint32_t len = uccl_ack_len(npaths, nwords, 0), most = (uint32_t)uccl_min(room, UCCL_TAIL_MAX);

	return len < most ? (uint8_t)uccl_min((most - len) / UCCL_ACK_SEGMENTS_LEN, UCCL_ACK_SEGMENTS_MAX) : 0;
}

_Static_assert(UCCL_ACK_FIXED + UCCL_ACK_PATHS_MAX * UCCL_ACK_PATH_LEN + UCCL_ACK_WORDS_MAX * 8 <= UCCL_TAIL_MAX,
	       "the largest acknowledgement block must fit the tail");

uint32_t uccl_ack_encode(uint8_t *out, const struct uccl_ack *a)
{
	uint8_t *p = out + UCCL_ACK_FIXED;

	uccl_put32(out, a->cum);
	uccl_put32(out + 4, a->dups);
	uccl_put32(out + 8, a->msg_limit);
	uccl_put16(out + 12, (uint16_t)(a->slots | (a->rcv_short ? UCCL_SLOTS_MAX + 1 : 0)));
	out[14] = (uint8_t)(a->npaths | a->turn << 4 | a->met << 6);
	out[15] = a->nwords;
	for (int i = 0; i < a->npaths; i++, p += UCCL_ACK_PATH_LEN) {
		uccl_put16(p, (uint16_t)(a->paths[i].path | (a->paths[i].write ? ACK_PATH_WRITE : 0)));
		uccl_put16(p + 2, a->paths[i].marked);
		uccl_put32(p + 4, a->paths[i].seq);
		uccl_put32(p + 8, a->paths[i].echo);
		uccl_put32(p + 12, a->paths[i].delay);
	}
	for (int i = 0; i < a->nwords; i++, p += 8)
		uccl_put64(p, a->sack[i]);
	for (int i = 0; i < a->nsegments; i++, p += UCCL_ACK_SEGMENTS_LEN) {
		uccl_put16(p, a->segments[i].ahead);
		p[2] = a->segments[i].of;
		p[3] = a->segments[i].subs;
		uccl_put64(p + 4, a->segments[i].have);
	}
	return (uint32_t)(p - out);
}

enum uccl_drop uccl_ack_decode(struct uccl_ack *a, const uint8_t *in, uint32_t len)
{
	const uint8_t *p = in + UCCL_ACK_FIXED;
	uint32_t least, segments;

	if (len < UCCL_ACK_FIXED)
		return UCCL_DROP_LENGTH;
	a->cum = uccl_get32(in);
	a->dups = uccl_get32(in + 4);
	a->msg_limit = uccl_get32(in + 8);
	a->slots = uccl_get16(in + 12) & UCCL_SLOTS_MAX;
	a->rcv_short = uccl_get16(in + 12) > UCCL_SLOTS_MAX;
	a->npaths = in[14] & 15;
	a->turn = in[14] >> 4 & (UCCL_SLOTS_TURNS - 1);
	a->met = in[14] >> 6;
	a->nwords = in[15];
	least = uccl_ack_len(a->npaths, a->nwords, 0);
	if (a->npaths > UCCL_ACK_PATHS_MAX || a->nwords > UCCL_ACK_WORDS_MAX || least > len)
		return UCCL_DROP_LENGTH;
	segments = (len - least) / UCCL_ACK_SEGMENTS_LEN;
	if (segments > UCCL_ACK_SEGMENTS_MAX || least + segments * UCCL_ACK_SEGMENTS_LEN != len)
		return UCCL_DROP_LENGTH;
	a->nsegments = (uint8_t)segments;
	for (int i = 0; i < a->npaths; i++, p += UCCL_ACK_PATH_LEN) {
		uint16_t path = uccl_get16(p);

		a->paths[i].write = path & ACK_PATH_WRITE;
		a->paths[i].path = path & (uint16_t)~ACK_PATH_WRITE;
		a->paths[i].marked = uccl_get16(p + 2);
		a->paths[i].seq = uccl_get32(p + 4);
		a->paths[i].echo = uccl_get32(p + 8);
		a->paths[i].delay = uccl_get32(p + 12);
		if (a->paths[i].path >= UCCL_PATHS_MAX)
			return UCCL_DROP_PATH;
	}
	for (int i = 0; i < a->nwords; i++, p += 8)
		a->sack[i] = uccl_get64(p);
	for (int i = 0; i < a->nsegments; i++, p += UCCL_ACK_SEGMENTS_LEN) {
		a->segments[i].ahead = uccl_get16(p);
		a->segments[i].of = p[2];
		a->segments[i].subs = p[3];
		a->segments[i].have = uccl_get64(p + 4);
		if (a->segments[i].subs > UCCL_SEGMENT_COUNT)
			return UCCL_DROP_ACK;
	}
	return UCCL_DROP_COUNT;
}

void uccl_desc_encode(uint8_t rec[UCCL_REC_LEN], const struct uccl_desc *d)
{
	uccl_rec_set_bulk(rec, d->id, d->gen, d->offset);
	uccl_put64(rec + 16, d->len);
	uccl_put32(rec + 24, d->count);
	uccl_put32(rec + 28, d->chunk);
}

enum uccl_drop uccl_desc_decode(struct uccl_desc *d, const uint8_t rec[UCCL_REC_LEN])
{
	d->id = uccl_get32(rec);
	d->gen = uccl_get32(rec + 4);
	d->offset = uccl_get64(rec + 8);
	d->len = uccl_get64(rec + 16);
	d->count = uccl_get32(rec + 24);
	d->chunk = uccl_get32(rec + 28);
	if (!d->count || !d->chunk || !d->len || d->offset + d->len < d->offset ||
	    d->len > (uint64_t)d->count * d->chunk || d->len <= (uint64_t)(d->count - 1) * d->chunk)
		return UCCL_DROP_RECORD;
	return UCCL_DROP_COUNT;
}

/*
 * Is it number `index` of `count` segments, or sub-segments, that have `total` bytes together? All but the last have
 * one length, and none is empty.
 */
static bool segment_len_fits(uint8_t index, uint8_t count, uint32_t total, uint32_t len)
{
	uint32_t each, before;

	/* No packet is longer than 65535 bytes, so no sum overflows. */
	if (!count || count > UCCL_SEGMENT_COUNT || index >= count || total > (uint32_t)count * uccl_words(UINT16_MAX))
		return false;
	each = uccl_segment_each(total, count);
	before = index * each;
	if (index + 1u == count)
		return len && before + len == total;
	/* And then it is before the last one, too. */
	return len && len == each && before + len < total;
}

void uccl_segment_encode(uint8_t out[UCCL_REC_LEN], const uint8_t rec[UCCL_REC_LEN], const struct uccl_segment *s)
{
	memcpy(out, rec + uccl_segment_rec_at(s->sub), UCCL_SEGMENT_REC);
	out[24] = s->index;
	out[25] = s->count;
	out[26] = s->sub;
	out[27] = s->subs;
	uccl_put32(out + 28, s->total);
}

bool uccl_segment_fits(const struct uccl_segment *s, uint32_t len)
{
	uint32_t whole = len;

	if (s->subs && s->count && s->count <= UCCL_SEGMENT_COUNT)
		whole = uccl_segment_len(s->total, s->index, s->count);
	if (!segment_len_fits(s->index, s->count, s->total, whole) || s->subs == 1)
		return false;
	return s->subs ? segment_len_fits(s->sub, s->subs, whole, len) : !s->sub;
}

enum uccl_drop uccl_segment_decode(struct uccl_segment *s, const uint8_t rec[UCCL_REC_LEN], uint32_t len)
{
	uccl_segment_read(s, rec);
	return uccl_segment_fits(s, len) ? UCCL_DROP_COUNT : UCCL_DROP_RECORD;
}

/* Two words of a header, which are compared as one. Sums are of each. */
typedef uint64_t pair_of_words __attribute__((vector_size(16)));

static inline pair_of_words words_at(const uint8_t *p)
{
	return (pair_of_words){uccl_get64(p), uccl_get64(p + 8)};
}

/*
 * Those of a header. Of the segment behind it the packet number, the segment and, in the last one, the length differ.
 * PROTOCOL R173
 */
struct row_words {
	pair_of_words w[4];
};

static inline bool row_has(const struct row_words *r, const uint8_t *p)
{
	static const pair_of_words each = {~((uint64_t)UCCL_FLAGS_ROW << 32), ~0ull};
	pair_of_words differs = ((words_at(p) ^ r->w[0]) & each) | (words_at(p + 16) ^ r->w[1]) |
				(words_at(p + 32) ^ r->w[2]) | (words_at(p + 48) ^ r->w[3]);

	return !(differs[0] | differs[1]);
}

static inline void row_next(struct row_words *r)
{
	r->w[1] += (pair_of_words){1ull << 32, 0};
	r->w[3] += (pair_of_words){0, 1};
}

static inline void row_length(struct row_words *r, uint32_t len)
{
	r->w[1][1] = (uint32_t)r->w[1][1] | (uint64_t)(len - UCCL_HDR_LEN) << 32;
}

uint32_t uccl_segment_row(struct uccl_hdr *h, const uint8_t *data, uint32_t each, uint32_t len)
{
	uint32_t at = (uint32_t)uccl_min(each, len), n = each;
	uint8_t flags = 0;
	struct row_words r;

	if (h->type != UCCL_PKT_SEGMENT || h->tail_len || h->flags & UCCL_FLAG_SEALED || uccl_get16(h->rec + 26))
		return at;
	r = (struct row_words){{words_at(data), words_at(data + 16), words_at(data + 32), words_at(data + 48)}};
	row_length(&r, each);
	for (; len - at > UCCL_HDR_LEN; at += n) {
		if (len - at < each) {
			n = len - at;
			row_length(&r, n);
		}
		row_next(&r);
		if (!row_has(&r, data + at))
			break;
		flags |= data[at + 4];
	}
	h->flags |= flags & UCCL_FLAGS_ROW;
	return at;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_wire.h"

#include <string.h>

#include "base/le.h"
#include "base/rng.h"

#define MSG_MAGIC 0x44524455u	/* "UDRD" */
#define PROBE_MAGIC 0x50524455u /* "UDRP" */
#define HELLO_FIXED 20
#define RUN_LEN 22
#define SENT_LEN 20
#define TALLY_FIXED 40
#define TALLY_LEN (TALLY_FIXED + 4 * DOCTOR_LABELS)
#define TRAIL_LEN (2 + 8 * DOCTOR_HOPS)
#define MTU_LEAST 68
#define MTU_MOST 65536
#define SIZE_MOST 65507

_Static_assert(4 + DOCTOR_LABELS * TRAIL_LEN <= DOCTOR_MSG_BODY, "room for all trails");

size_t doctor_put_head(uint8_t *buf, enum doctor_msg_type type, size_t body)
{
	uccl_put32(buf, MSG_MAGIC);
	uccl_put16(buf + 4, (uint16_t)type);
	uccl_put16(buf + 6, (uint16_t)body);
	return DOCTOR_MSG_HEAD + body;
}

int doctor_get_head(const uint8_t *head, enum doctor_msg_type *type)
{
	uint16_t kind = uccl_get16(head + 4), len = uccl_get16(head + 6);

	if (uccl_get32(head) != MSG_MAGIC || !kind || kind >= DOCTOR_MSG_TYPES || len > DOCTOR_MSG_BODY)
		return -1;
	*type = (enum doctor_msg_type)kind;
	return len;
}

size_t doctor_put_hello(uint8_t *buf, const struct doctor_hello *h)
{
	uint8_t *b = buf + DOCTOR_MSG_HEAD;

	uccl_put64(b, h->token);
	uccl_put16(b + 8, h->version);
	uccl_put16(b + 10, h->udp_port);
	uccl_put16(b + 12, h->live_port);
	uccl_put32(b + 14, h->mtu);
	uccl_put16(b + 18, h->nlabels);
	for (int i = 0; i < h->nlabels; i++)
		uccl_put16(b + HELLO_FIXED + 2 * i, h->label_port[i]);
	return doctor_put_head(buf, DOCTOR_HELLO, HELLO_FIXED + 2 * (size_t)h->nlabels);
}

bool doctor_get_hello(const uint8_t *b, size_t len, struct doctor_hello *h)
{
	if (len < HELLO_FIXED)
		return false;
	memset(h, 0, sizeof(*h));
	h->token = uccl_get64(b);
	h->version = uccl_get16(b + 8);
	h->udp_port = uccl_get16(b + 10);
	h->live_port = uccl_get16(b + 12);
	h->mtu = uccl_get32(b + 14);
	h->nlabels = uccl_get16(b + 18);
	if (h->version != DOCTOR_VERSION || !h->udp_port || h->mtu < MTU_LEAST || h->mtu > MTU_MOST || !h->nlabels ||
	    h->nlabels > DOCTOR_LABELS || len != HELLO_FIXED + 2 * (size_t)h->nlabels)
		return false;
	for (int i = 0; i < h->nlabels; i++)
		h->label_port[i] = uccl_get16(b + HELLO_FIXED + 2 * i);
	return true;
}

size_t doctor_put_run(uint8_t *buf, const struct doctor_run *r)
{
	uint8_t *b = buf + DOCTOR_MSG_HEAD;

	b[0] = r->by_listener;
	b[1] = r->ecn;
	uccl_put16(b + 2, r->id);
	uccl_put32(b + 4, r->count);
	uccl_put32(b + 8, r->size);
	uccl_put16(b + 12, r->labels);
	uccl_put16(b + 14, r->train);
	uccl_put16(b + 16, r->burst);
	uccl_put32(b + 18, r->gap_us);
	return doctor_put_head(buf, DOCTOR_RUN, RUN_LEN);
}

bool doctor_get_run(const uint8_t *b, size_t len, struct doctor_run *r)
{
	if (len != RUN_LEN)
		return false;
	r->by_listener = b[0];
	r->ecn = b[1];
	r->id = uccl_get16(b + 2);
	r->count = uccl_get32(b + 4);
	r->size = uccl_get32(b + 8);
	r->labels = uccl_get16(b + 12);
	r->train = uccl_get16(b + 14);
	r->burst = uccl_get16(b + 16);
	r->gap_us = uccl_get32(b + 18);
	if (b[0] > 1 || r->ecn > 3 || !r->count || r->count > DOCTOR_RUN_PACKETS || r->size < DOCTOR_PROBE_HEAD ||
	    r->size > SIZE_MOST || !r->labels || r->labels > DOCTOR_LABELS || !r->train ||
	    !r->burst || r->burst % r->train)
		return false;
	/* None of the factors is larger than 2^32. */
	return (uint64_t)r->count * r->size <= DOCTOR_RUN_BYTES && (uint64_t)r->train * r->size <= SIZE_MOST &&
	       (uint64_t)r->count * r->gap_us <= DOCTOR_RUN_US;
}

size_t doctor_put_sent(uint8_t *buf, const struct doctor_sent *s)
{
	uint8_t *b = buf + DOCTOR_MSG_HEAD;

	uccl_put32(b, s->sent);
	uccl_put32(b + 4, s->refused);
	uccl_put32(b + 8, s->error);
	uccl_put32(b + 12, s->mtu);
	uccl_put32(b + 16, s->span_us);
	return doctor_put_head(buf, DOCTOR_SENT, SENT_LEN);
}

bool doctor_get_sent(const uint8_t *b, size_t len, struct doctor_sent *s)
{
	if (len != SENT_LEN)
		return false;
	s->sent = uccl_get32(b);
	s->refused = uccl_get32(b + 4);
	s->error = uccl_get32(b + 8);
	s->mtu = uccl_get32(b + 12);
	s->span_us = uccl_get32(b + 16);
	return s->sent <= DOCTOR_RUN_PACKETS && s->refused <= DOCTOR_RUN_PACKETS && s->error < 4096 &&
	       s->mtu <= MTU_MOST;
}

size_t doctor_put_tally(uint8_t *buf, const struct doctor_tally *t)
{
	uint8_t *b = buf + DOCTOR_MSG_HEAD;

	uccl_put32(b, t->received);
	uccl_put32(b + 4, t->duplicates);
	uccl_put32(b + 8, t->damaged);
	uccl_put32(b + 12, t->reordered);
	for (int i = 0; i < 4; i++)
		uccl_put32(b + 16 + 4 * i, t->ecn[i]);
	uccl_put32(b + 32, t->overflowed);
	uccl_put32(b + 36, t->span_us);
	for (int i = 0; i < DOCTOR_LABELS; i++)
		uccl_put32(b + TALLY_FIXED + 4 * i, t->by_label[i]);
	return doctor_put_head(buf, DOCTOR_TALLY, TALLY_LEN);
}

bool doctor_get_tally(const uint8_t *b, size_t len, struct doctor_tally *t)
{
	uint64_t labels = 0, marks = 0;

	if (len != TALLY_LEN)
		return false;
	memset(t, 0, sizeof(*t));
	t->received = uccl_get32(b);
	t->duplicates = uccl_get32(b + 4);
	t->damaged = uccl_get32(b + 8);
	t->reordered = uccl_get32(b + 12);
	for (int i = 0; i < 4; i++)
		marks += t->ecn[i] = uccl_get32(b + 16 + 4 * i);
	t->overflowed = uccl_get32(b + 32);
	t->span_us = uccl_get32(b + 36);
	for (int i = 0; i < DOCTOR_LABELS; i++)
		labels += t->by_label[i] = uccl_get32(b + TALLY_FIXED + 4 * i);
	return t->received <= DOCTOR_RUN_PACKETS && t->damaged <= t->received && t->reordered <= t->received &&
	       t->overflowed <= DOCTOR_RUN_PACKETS && marks == t->received && labels == t->received;
}

size_t doctor_put_number(uint8_t *buf, enum doctor_msg_type type, uint32_t number)
{
	uccl_put32(buf + DOCTOR_MSG_HEAD, number);
	return doctor_put_head(buf, type, 4);
}

bool doctor_get_number(const uint8_t *b, size_t len, uint32_t *number)
{
	if (len != 4)
		return false;
	*number = uccl_get32(b);
	return true;
}

size_t doctor_put_paths(uint8_t *buf, const struct doctor_paths *p)
{
	uint8_t *b = buf + DOCTOR_MSG_HEAD, *t = b + 4;

	uccl_put16(b, p->next_hops);
	uccl_put16(b + 2, p->n);
	for (int i = 0; i < p->n; i++, t += TRAIL_LEN) {
		t[0] = p->trail[i].n;
		t[1] = p->trail[i].arrived;
		for (int k = 0; k < DOCTOR_HOPS; k++)
			uccl_put64(t + 2 + 8 * k, p->trail[i].hop[k]);
	}
	return doctor_put_head(buf, DOCTOR_TRACED, 4 + (size_t)p->n * TRAIL_LEN);
}

bool doctor_get_paths(const uint8_t *b, size_t len, struct doctor_paths *p)
{
	const uint8_t *t = b + 4;

	if (len < 4)
		return false;
	memset(p, 0, sizeof(*p));
	p->next_hops = uccl_get16(b);
	p->n = uccl_get16(b + 2);
	if (p->n > DOCTOR_LABELS || len != 4 + (size_t)p->n * TRAIL_LEN)
		return false;
	for (int i = 0; i < p->n; i++, t += TRAIL_LEN) {
		if (t[0] > DOCTOR_HOPS || t[1] > 1)
			return false;
		p->trail[i].n = t[0];
		p->trail[i].arrived = t[1];
		for (int k = 0; k < DOCTOR_HOPS; k++)
			p->trail[i].hop[k] = uccl_get64(t + 2 + 8 * k);
	}
	return true;
}

/* Bytes that nobody else would send, and no two probes have in common. */
static void fill(uint8_t *b, size_t n, uint64_t token, uint32_t seq, uint32_t size)
{
	struct uccl_rng rng;
	uint8_t last[8];

	uccl_rng_seed(&rng, token ^ ((uint64_t)seq << 32 | size));
	for (; n >= 8; b += 8, n -= 8)
		uccl_put64(b, uccl_rng_next(&rng));
	uccl_put64(last, uccl_rng_next(&rng));
	memcpy(b, last, n);
}

void doctor_put_probe(uint8_t *buf, const struct doctor_probe *p)
{
	uccl_put32(buf, PROBE_MAGIC);
	uccl_put64(buf + 4, p->token);
	buf[12] = p->kind;
	buf[13] = p->ttl;
	uccl_put16(buf + 14, p->id);
	uccl_put16(buf + 16, p->label);
	uccl_put16(buf + 18, 0);
	uccl_put32(buf + 20, p->seq);
	uccl_put32(buf + 24, p->size);
	fill(buf + DOCTOR_PROBE_HEAD, p->size - DOCTOR_PROBE_HEAD, p->token, p->seq, p->size);
}

bool doctor_get_probe(const uint8_t *buf, size_t len, uint64_t token, struct doctor_probe *p, bool *right)
{
	uint8_t want[SIZE_MOST];

	if (len < DOCTOR_PROBE_HEAD || uccl_get32(buf) != PROBE_MAGIC || uccl_get64(buf + 4) != token)
		return false;
	p->token = token;
	p->kind = buf[12];
	p->ttl = buf[13];
	p->id = uccl_get16(buf + 14);
	p->label = uccl_get16(buf + 16);
	p->seq = uccl_get32(buf + 20);
	p->size = uccl_get32(buf + 24);
	if (p->kind < DOCTOR_DATA || p->kind > DOCTOR_PONG)
		return false;
	*right = p->size == len && len <= sizeof(want);
	if (*right) {
		fill(want, len - DOCTOR_PROBE_HEAD, token, p->seq, p->size);
		*right = !memcmp(want, buf + DOCTOR_PROBE_HEAD, len - DOCTOR_PROBE_HEAD);
	}
	return true;
}

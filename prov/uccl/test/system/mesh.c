/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "mesh.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64
#define GUARD_BYTE 0xa5
#define MULTI_ROOM 6 /* largest messages in a multi-receive buffer */

enum kind { KIND_TAGGED, KIND_TAGGED_ANY, KIND_UNTAGGED };

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t message_key(int from, int to, uint64_t k)
{
	return mix(options.seed + mix(((uint64_t)from << 56 | (uint64_t)to << 48) + k));
}

static enum kind message_kind(uint64_t k)
{
	return (enum kind)(k % 3);
}

/* Empty, tiny, eager, some packets, and long ones, in this order of frequency. */
static uint32_t message_size(int from, int to, uint64_t k, uint32_t max)
{
	uint64_t r = message_key(from, to, k), n;

	switch (r % 20) {
	case 0:
		return 0;
	case 1 ... 7:
		n = r >> 8 & 255;
		break;
	case 8 ... 13:
		n = (r >> 8) % 8193;
		break;
	case 14 ... 18:
		n = (r >> 8) % 100001;
		break;
	default:
		n = (r >> 8) % (max + 1ull);
	}
	return (uint32_t)(n > max ? n % max : n);
}

static uint64_t message_tag(int from, uint64_t k)
{
	return (uint64_t)from << 48 | k;
}

void pattern_fill(uint8_t *buf, size_t len, uint64_t key)
{
	uint64_t x = key | 1;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(buf + i, &x, 8);
	}
	for (; i < len; i++)
		buf[i] = (uint8_t)(key >> (i & 7) * 8);
}

size_t pattern_wrong(const uint8_t *buf, size_t len, uint64_t key)
{
	uint64_t x = key | 1;
	size_t i, b;

	for (i = 0; i + 8 <= len; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		if (!memcmp(buf + i, &x, 8))
			continue;
		for (b = 0; buf[i + b] == (uint8_t)(x >> b * 8); b++)
			;
		return i + b;
	}
	for (; i < len; i++)
		if (buf[i] != (uint8_t)(key >> (i & 7) * 8))
			return i;
	return len;
}

/* What the traffic promises, broken. In a hostile network it is only counted. */
#define must(m, lax, ok, ...)                                                                                          \
	do {                                                                                                           \
		if (!(ok) && (lax))                                                                                    \
			(m)->wrong++;                                                                                  \
		else                                                                                                   \
			rank_check(ok, __VA_ARGS__);                                                                   \
	} while (0)

static void stream_error(struct stream *s, const struct op *op)
{
	const char *place = s->m->r->place[s->peer];

	if (s->hostile) {
		s->m->wrong++;
		s->dead = true;
		return;
	}
	rank_check(s->may_die, "rank %d, which lives: %s", s->peer, op->text);
	rank_check(op->err == FI_ECONNABORTED || op->err == FI_ECONNRESET || op->err == FI_EHOSTUNREACH ||
			   op->err == FI_ECONNREFUSED || op->err == FI_ETIMEDOUT,
		   "a failure of an unsuitable kind: %s", fi_strerror(op->err));
	rank_check(strstr(op->text, place), "\"%s\" does not name %s", op->text, place);
	s->dead = true;
	if (!s->errors++)
		s->first_error_ns = op->ended_ns;
	s->last_error_ns = op->ended_ns;
}

static void send_ended(struct op *op)
{
	struct slot *slot = op->user;

	if (op->err)
		stream_error(slot->s, op);
	else
		slot->s->sent++;
}

static void check_contents(struct stream *s, uint64_t k, const uint8_t *buf, uint64_t len)
{
	struct mesh *m = s->m;
	int self = m->r->index;
	uint32_t size = message_size(s->peer, self, k, m->cfg.size_max);
	size_t wrong;

	must(m, s->hostile, len == size, "message %llu of rank %d has %llu bytes, not %u", (unsigned long long)k,
	     s->peer, (unsigned long long)len, size);
	wrong = pattern_wrong(buf, size < len ? size : len, message_key(s->peer, self, k));
	must(m, s->hostile, wrong >= size, "message %llu of rank %d: byte %zu of %u is wrong", (unsigned long long)k,
	     s->peer, wrong, size);
	s->received++;
	m->bytes += size;
}

static void recv_ended(struct op *op)
{
	struct slot *slot = op->user;
	struct stream *s = slot->s;
	struct mesh *m = s->m;

	for (int i = 0; i < GUARD; i++)
		rank_check(slot->mem[slot->posted + i] == GUARD_BYTE, "written %d bytes behind a buffer of %u", i,
			   slot->posted);
	if (op->err) {
		stream_error(s, op);
		return;
	}
	if (message_kind(slot->k) != KIND_UNTAGGED)
		must(m, s->hostile, op->tag == message_tag(s->peer, slot->k), "tag %llx", (unsigned long long)op->tag);
	else
		must(m, s->hostile, op->flags & FI_REMOTE_CQ_DATA && op->data == slot->k, "remote data %llx, not %llx",
		     (unsigned long long)op->data, (unsigned long long)slot->k);
	must(m, s->hostile, op->src == m->r->addr[s->peer], "source %llx, not %llx", (unsigned long long)op->src,
	     (unsigned long long)m->r->addr[s->peer]);
	check_contents(s, slot->k, slot->mem, op->len);
}

static void multi_ended(struct op *op)
{
	struct mesh *m = op->user;
	struct stream *s = NULL;
	uint64_t i;

	if (op->err) {
		must(m, m->cfg.hostile, op->err == FI_ECANCELED, "multi-receive buffer: %s", op->text);
		return;
	}
	for (int p = 0; p < m->r->n; p++)
		if (m->s[p].used && m->r->addr[p] == op->src)
			s = &m->s[p];
	if (m->cfg.hostile && (!s || message_kind(op->data) != KIND_UNTAGGED)) {
		m->wrong++;
		return;
	}
	rank_check(s, "a message from nobody (%llx)", (unsigned long long)op->src);
	i = op->data / 3;
	must(m, s->hostile,
	     op->flags & FI_REMOTE_CQ_DATA && message_kind(op->data) == KIND_UNTAGGED && i >= s->multi_base &&
		     i - s->multi_base < 64 && !(s->multi_mask >> (i - s->multi_base) & 1),
	     "message %llu of rank %d came twice, or never was", (unsigned long long)op->data, s->peer);
	if (i >= s->multi_base && i - s->multi_base < 64)
		s->multi_mask |= 1ull << (i - s->multi_base);
	while (s->multi_mask & 1) {
		s->multi_mask >>= 1;
		s->multi_base++;
	}
	check_contents(s, op->data, op->buf, op->len);
}

static uint8_t *memory(size_t len)
{
	uint8_t *p = malloc(len);

	rank_check(p, "no memory");
	return p;
}

static void multi_post(struct mesh *m, int i)
{
	size_t len = (size_t)m->cfg.size_max * MULTI_ROOM;
	struct op *op = &m->multi[i];
	struct iovec iov = {.iov_base = m->multi_mem[i], .iov_len = len};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = op};
	ssize_t rc;

	op->multi = true;
	op->end = multi_ended;
	op->user = m;
	op_begin(op);
	rc = fi_recvmsg(m->r->fab.ep, &msg, FI_MULTI_RECV | FI_COMPLETION);
	if (rc == -FI_EAGAIN)
		op->open = false;
	else
		rank_check(!rc, "fi_recvmsg FI_MULTI_RECV: %zd", rc);
}

void mesh_open(struct mesh *m, struct rank *r, const struct mesh_cfg *cfg)
{
	size_t room = (size_t)cfg->size_max + GUARD;

	memset(m, 0, sizeof(*m));
	m->r = r;
	m->cfg = *cfg;
	m->limited = cfg->limit != UINT64_MAX;
	for (int p = 0; p < r->n; p++) {
		struct stream *s = &m->s[p];

		if (p == r->index)
			continue;
		s->m = m;
		s->peer = p;
		s->used = true;
		s->hostile = cfg->hostile;
		s->limit = cfg->limit;
		for (uint32_t i = 0; i < cfg->window; i++) {
			s->send[i].s = s->recv[i].s = s;
			s->send[i].op.user = &s->send[i];
			s->recv[i].op.user = &s->recv[i];
			s->send[i].op.end = send_ended;
			s->recv[i].op.end = recv_ended;
			s->send[i].mem = memory(room);
			s->recv[i].mem = memory(room);
		}
	}
	if (!cfg->multi)
		return;
	rank_check(!fi_setopt(&r->fab.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &(size_t){cfg->size_max},
			      sizeof(size_t)),
		   "FI_OPT_MIN_MULTI_RECV");
	for (int i = 0; i < MESH_MULTI; i++) {
		m->multi_mem[i] = memory((size_t)cfg->size_max * MULTI_ROOM);
		multi_post(m, i);
	}
}

/* 0, or what the call said; -FI_EAGAIN: nothing happened. */
static ssize_t post_failed(struct slot *slot, ssize_t rc, const char *what)
{
	struct stream *s = slot->s;

	slot->op.open = false;
	if (rc == -FI_EAGAIN)
		return rc;
	if (s->hostile || s->may_die) {
		s->dead = true;
		return rc;
	}
	rank_fail("%s with rank %d: %s", what, s->peer, fi_strerror((int)-rc));
}

static bool post_send(struct stream *s)
{
	struct slot *slot = &s->send[s->next_send % s->m->cfg.window];
	int self = s->m->r->index;
	fi_addr_t to = s->m->r->addr[s->peer];
	uint64_t k = s->next_send;
	ssize_t rc;

	if (slot->op.open)
		return false;
	slot->k = k;
	slot->posted = message_size(self, s->peer, k, s->m->cfg.size_max);
	pattern_fill(slot->mem, slot->posted, message_key(self, s->peer, k));
	op_begin(&slot->op);
	if (message_kind(k) != KIND_UNTAGGED)
		rc = fi_tsend(s->m->r->fab.ep, slot->mem, slot->posted, NULL, to, message_tag(self, k), &slot->op);
	else
		rc = fi_senddata(s->m->r->fab.ep, slot->mem, slot->posted, NULL, k, to, &slot->op);
	if (rc) {
		post_failed(slot, rc, "sending");
		return false;
	}
	s->next_send++;
	return true;
}

static bool post_recv(struct stream *s)
{
	struct slot *slot = &s->recv[s->next_recv % s->m->cfg.window];
	int self = s->m->r->index;
	fi_addr_t from = s->m->r->addr[s->peer];
	uint64_t k = s->next_recv;
	ssize_t rc;

	if (slot->op.open)
		return false;
	if (s->m->cfg.multi && message_kind(k) == KIND_UNTAGGED) {
		s->next_recv++;
		return true;
	}
	slot->k = k;
	slot->posted = k & 1 ? s->m->cfg.size_max : message_size(s->peer, self, k, s->m->cfg.size_max);
	memset(slot->mem + slot->posted, GUARD_BYTE, GUARD);
	op_begin(&slot->op);
	if (message_kind(k) == KIND_UNTAGGED)
		rc = fi_recv(s->m->r->fab.ep, slot->mem, slot->posted, NULL, from, &slot->op);
	else
		rc = fi_trecv(s->m->r->fab.ep, slot->mem, slot->posted, NULL,
			      message_kind(k) == KIND_TAGGED_ANY && s->m->cfg.multi ? FI_ADDR_UNSPEC : from,
			      message_tag(s->peer, k), 0, &slot->op);
	if (rc) {
		post_failed(slot, rc, "receiving");
		return false;
	}
	s->next_recv++;
	return true;
}

void mesh_step(struct mesh *m)
{
	for (int p = 0; p < m->r->n && !m->frozen; p++) {
		struct stream *s = &m->s[p];

		if (!s->used)
			continue;
		while (!s->dead && s->next_recv < s->limit && post_recv(s))
			;
		while (!s->dead && s->next_send < s->limit && post_send(s))
			;
	}
	for (int i = 0; i < MESH_MULTI && m->cfg.multi; i++)
		if (!m->multi[i].open)
			multi_post(m, i);
	fab_progress(&m->r->fab);
}

bool mesh_finished(const struct mesh *m)
{
	if (m->frozen || !m->limited)
		return false;
	for (int p = 0; p < m->r->n; p++) {
		const struct stream *s = &m->s[p];

		if (s->used && !s->dead && (s->sent < s->limit || s->received < s->limit))
			return false;
	}
	return true;
}

/* Obey CTL_STOP and CTL_LIMIT; false: it was something else. */
static bool mesh_control(struct mesh *m, const struct ctl *c)
{
	uint64_t v[8] = {0};

	rank_check(m->r->n <= 8, "too many ranks");
	if (c->type == CTL_STOP) {
		m->frozen = true;
		for (int p = 0; p < m->r->n; p++)
			v[p] = m->s[p].next_send > m->s[p].next_recv ? m->s[p].next_send : m->s[p].next_recv;
		rank_tell(m->r, CTL_REACHED, 0, v, 8);
		return true;
	}
	if (c->type != CTL_LIMIT)
		return false;
	for (int p = 0; p < m->r->n; p++)
		m->s[p].limit = c->v[p];
	m->frozen = false;
	m->limited = true;
	return true;
}

bool mesh_next(struct mesh *m, struct ctl *c)
{
	if (rank_poll(m->r, c)) {
		if (mesh_control(m, c))
			c->type = 0;
		return true;
	}
	c->type = 0;
	mesh_step(m);
	return !mesh_finished(m);
}

uint32_t mesh_in_flight(const struct mesh *m, int peer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->cfg.window && m->s[peer].used; i++)
		n += m->s[peer].send[i].op.open + m->s[peer].recv[i].op.open;
	return n;
}

void mesh_close(struct mesh *m)
{
	for (int i = 0; i < MESH_MULTI && m->cfg.multi; i++) {
		if (!m->multi[i].open)
			continue;
		fi_cancel(&m->r->fab.ep->fid, &m->multi[i]);
		rank_check(fab_finish(&m->r->fab, &m->multi[i], 5000) || m->cfg.hostile,
			   "a cancelled receive does not end");
	}
	for (int p = 0; p < m->r->n; p++) {
		for (uint32_t i = 0; i < m->cfg.window && m->s[p].used; i++) {
			/* What the endpoint may still use stays: the end of the process frees it. */
			if (!m->s[p].send[i].op.open)
				free(m->s[p].send[i].mem);
			if (!m->s[p].recv[i].op.open)
				free(m->s[p].recv[i].mem);
		}
		m->s[p].used = false;
	}
	for (int i = 0; i < MESH_MULTI; i++)
		if (!m->multi[i].open)
			free(m->multi_mem[i]);
}

void mesh_end(struct mesh *m)
{
	struct rank *r = m->r;
	uint64_t v[3] = {m->bytes >> 10, m->wrong};

	mesh_close(m);
	v[2] = fab_close(&r->fab) / 1000000;
	rank_tell(r, CTL_DONE, 0, v, 3);
}

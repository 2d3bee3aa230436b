/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Events that wait for an endpoint. The thread that holds the lock reads the shared completion queues for all
 * endpoints, queues here what belongs to another one, and wakes that one's thread.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

int uccl_uc_ring_open(struct uc *w)
{
	struct uc_ring *r = &w->ring;

	r->kick_fd = -1;
	TAILQ_INIT(&r->events);
	r->done = calloc(UC_DONE, sizeof(*r->done));
	for (r->arrived_size = 1; r->arrived_size < w->dev->queues.srq_depth; r->arrived_size *= 2)
		;
	r->arrived = calloc(r->arrived_size, sizeof(*r->arrived));
	return r->done && r->arrived ? 0 : -FI_ENOMEM;
}

void uccl_uc_ring_close(struct uc *w)
{
	struct uc_ring *r = &w->ring;

	if (r->done && r->kick_fd >= 0)
		close(r->kick_fd);
	free(r->done);
	free(r->arrived);
}

int uccl_uc_ring_fd(struct uc *w)
{
	if (w->ring.kick_fd < 0)
		w->ring.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return w->ring.kick_fd < 0 ? -errno : w->ring.kick_fd;
}

void uccl_uc_ring_wait(struct uc *w)
{
	w->ring.waiting_fd = true;
}

void uccl_uc_kick(struct uc *w)
{
	uint64_t one = 1;

	if (w == w->dev->serving || !w->ring.waiting_fd || w->ring.kicked)
		return;
	w->ring.kicked = write(w->ring.kick_fd, &one, sizeof(one)) == sizeof(one);
}

void uccl_uc_kick_read(struct uc *w)
{
	uint64_t count;

	if (w->ring.kicked && (read(w->ring.kick_fd, &count, sizeof(count)) > 0 || errno == EAGAIN))
		w->ring.kicked = false;
}

void uccl_uc_event(struct uc_peer *peer, uint16_t path, bool fenced)
{
	struct uc_events *e = &peer->events;
	uint64_t bit = 1ull << (path % 64);

	e->changed[path / 64] |= bit;
	if (fenced)
		e->fenced[path / 64] |= bit;
	if (!e->queued)
		TAILQ_INSERT_TAIL(&peer->w->ring.events, peer, events.link);
	e->queued = true;
	uccl_uc_kick(peer->w);
}

void uccl_uc_done(struct uc *w, uint64_t cookie, uint64_t id)
{
	w->ring.done[w->ring.done_head++ % UC_DONE] = (struct uc_done){.cookie = cookie, .id = id};
}

void uccl_uc_arrived(struct uc_peer *peer, uint32_t imm, uint32_t len, uint16_t path)
{
	struct uc_ring *r = &peer->w->ring;

	r->arrived[r->arrived_head++ % r->arrived_size] =
		(struct uc_arrived){.peer = peer, .imm = imm, .len = len, .path = path};
	uccl_uc_kick(peer->w);
}

void uccl_uc_ring_renew(struct uc *w)
{
	w->ring.arrived_tail = w->ring.arrived_head;
}

void uccl_uc_ring_forget(struct uc *w, struct uc_peer *peer)
{
	struct uc_ring *r = &w->ring;

	for (uint32_t i = r->arrived_tail; i != r->arrived_head; i++)
		if (r->arrived[i % r->arrived_size].peer == peer)
			r->arrived[i % r->arrived_size].peer = NULL;
	if (peer->events.queued)
		TAILQ_REMOVE(&r->events, peer, events.link);
}

static void event_fill(struct uccl_rx *v, enum uccl_rx_kind kind, struct uc_peer *peer, uint16_t path)
{
	memset(v, 0, sizeof(*v));
	v->kind = kind;
	v->path = path;
	v->peer = (struct uccl_nic_peer *)peer;
	v->peer_id = peer->id;
	v->src = peer->to;
}

static int events_report(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_peer *peer;
	uint16_t path;
	int k = 0;

	while (k < n && (peer = TAILQ_FIRST(&w->ring.events))) {
		struct uc_events *e = &peer->events;

		for (path = 0; path < peer->n && k < n; path++) {
			uint64_t bit = 1ull << (path % 64);

			if (!(e->changed[path / 64] & bit))
				continue;
			if (e->fenced[path / 64] & bit) {
				e->fenced[path / 64] &= ~bit;
				event_fill(&v[k++], UCCL_RX_FENCED, peer, path);
				if (k == n)
					break;
			}
			e->changed[path / 64] &= ~bit;
			event_fill(&v[k++],
				   peer->set->path[path].able ? UCCL_RX_WRITE_ON : UCCL_RX_WRITE_OFF, peer, path);
		}
		if (path < peer->n)
			break;
		TAILQ_REMOVE(&w->ring.events, peer, events.link);
		e->queued = false;
	}
	return k;
}

static int done_report(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_ring *r = &w->ring;
	int k;

	for (k = 0; k < n && r->done_tail != r->done_head; k++) {
		const struct uc_done *t = &r->done[r->done_tail++ % UC_DONE];

		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = UCCL_RX_SENT;
		v[k].cookie = t->cookie;
		v[k].peer_id = t->id;
	}
	return k;
}

static int arrived_report(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_ring *r = &w->ring;
	int k = 0;

	while (k < n && r->arrived_tail != r->arrived_head) {
		const struct uc_arrived *a = &r->arrived[r->arrived_tail++ % r->arrived_size];

		uc_queues_return(w->dev, 1);
		if (!a->peer)
			continue;
		event_fill(&v[k], UCCL_RX_WRITE, a->peer, a->path);
		v[k].imm = a->imm;
		v[k++].len = a->len;
	}
	return k;
}

int uccl_uc_ring_report(struct uc *w, struct uccl_rx *v, int n)
{
	int k = events_report(w, v, n);

	k += done_report(w, v + k, n - k);
	return k + arrived_report(w, v + k, n - k);
}

#endif

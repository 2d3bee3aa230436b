/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is to be told to an endpoint, until it asks: whoever has the lock finds it in the shared completion queues,
 * whose ever it is, and wakes the endpoint's thread.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

int uccl_uc_ring_open(struct uc *w)
{
	w->done_size = UC_DONE;
	w->done = calloc(w->done_size, sizeof(*w->done));
	for (w->arrived_size = 1; w->arrived_size < w->dev->srq_depth; w->arrived_size *= 2)
		;
	w->arrived = calloc(w->arrived_size, sizeof(*w->arrived));
	return w->done && w->arrived ? 0 : -FI_ENOMEM;
}

void uccl_uc_ring_close(struct uc *w)
{
	free(w->done);
	free(w->arrived);
}

void uccl_uc_kick(struct uc *w)
{
	uint64_t one = 1;

	if (w == w->dev->serving || !w->waiting_fd || w->kicked)
		return;
	w->kicked = write(w->kick_fd, &one, sizeof(one)) == sizeof(one);
}

void uccl_uc_done(struct uc *w, uint64_t cookie, uint64_t id)
{
	w->done[w->done_head++ % w->done_size] = (struct uc_done){.cookie = cookie, .id = id};
}

void uccl_uc_arrived(struct uc_peer *peer, uint32_t imm, uint32_t len, uint16_t path)
{
	struct uc *w = peer->w;

	w->arrived[w->arrived_head++ % w->arrived_size] =
		(struct uc_arrived){.peer = peer, .imm = imm, .len = len, .path = path};
	uccl_uc_kick(w);
}

void uccl_uc_arrived_forget(struct uc *w, const struct uc_peer *peer)
{
	uint32_t i;

	for (i = w->arrived_tail; i != w->arrived_head; i++)
		if (w->arrived[i % w->arrived_size].peer == peer)
			w->arrived[i % w->arrived_size].peer = NULL;
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

static int events_tell(struct uc *w, struct uccl_rx *v, int n)
{
	struct uc_peer *peer;
	uint16_t path;
	int k = 0;

	while (k < n && (peer = TAILQ_FIRST(&w->events))) {
		for (path = 0; path < peer->n && k < n; path++) {
			uint64_t bit = 1ull << (path % 64);

			if (!(peer->events[path / 64] & bit))
				continue;
			if (peer->fenced[path / 64] & bit) {
				peer->fenced[path / 64] &= ~bit;
				event_fill(&v[k++], UCCL_RX_FENCED, peer, path);
				if (k == n)
					break;
			}
			peer->events[path / 64] &= ~bit;
			event_fill(&v[k++],
				   peer->set->path[path].able ? UCCL_RX_WRITE_ON : UCCL_RX_WRITE_OFF, peer, path);
		}
		if (path < peer->n)
			break;
		TAILQ_REMOVE(&w->events, peer, events_link);
		peer->has_events = false;
	}
	return k;
}

static int told_tell(struct uc *w, struct uccl_rx *v, int n)
{
	int k;

	for (k = 0; k < n && w->done_tail != w->done_head; k++) {
		const struct uc_done *t = &w->done[w->done_tail++ % w->done_size];

		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = UCCL_RX_SENT;
		v[k].cookie = t->cookie;
		v[k].peer_id = t->id;
	}
	return k;
}

static int arrived_tell(struct uc *w, struct uccl_rx *v, int n)
{
	int k = 0;

	while (k < n && w->arrived_tail != w->arrived_head) {
		const struct uc_arrived *a = &w->arrived[w->arrived_tail++ % w->arrived_size];

		w->dev->srq_due++;
		if (!a->peer)
			continue;
		event_fill(&v[k], UCCL_RX_WRITE, a->peer, a->path);
		v[k].imm = a->imm;
		v[k++].len = a->len;
	}
	return k;
}

int uccl_uc_tell(struct uc *w, struct uccl_rx *v, int n)
{
	int k = events_tell(w, v, n);

	k += told_tell(w, v + k, n - k);
	return k + arrived_tell(w, v + k, n - k);
}

#endif

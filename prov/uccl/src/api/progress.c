/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See progress.h. Order of locks: endpoint list, endpoint, completion queue. */
#include "api/progress.h"

#include <stdlib.h>

#include "api/ep.h"
#include "api/lib.h"
#include "api/thread.h"

void uccl_ep_list_init(struct uccl_ep_list *l, bool locking)
{
	*l = (struct uccl_ep_list){ .locking = locking };
	pthread_mutex_init(&l->lock, NULL);
}

void uccl_ep_list_fini(struct uccl_ep_list *l)
{
	pthread_mutex_destroy(&l->lock);
	free(l->v);
}

int uccl_ep_list_add(struct uccl_ep_list *l, struct uccl_ep *ep)
{
	struct uccl_ep **v;
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	for (unsigned int i = 0; i < l->n; i++)
		if (l->v[i] == ep)
			goto out;
	if (l->n == l->cap) {
		v = realloc(l->v, (l->cap * 2 + 1) * sizeof(*v));
		if (!v) {
			rc = -FI_ENOMEM;
			goto out;
		}
		l->v = v;
		l->cap = l->cap * 2 + 1;
	}
	l->v[l->n++] = ep;
out:
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void uccl_ep_list_remove(struct uccl_ep_list *l, struct uccl_ep *ep)
{
	pthread_mutex_lock(&l->lock);
	for (unsigned int i = 0; i < l->n; i++) {
		if (l->v[i] == ep) {
			l->v[i] = l->v[--l->n];
			break;
		}
	}
	pthread_mutex_unlock(&l->lock);
}

void uccl_ep_list_poll(struct uccl_ep_list *l)
{
	if (l->locking && pthread_mutex_trylock(&l->lock))
		return;
	for (unsigned int i = 0; i < l->n; i++)
		uccl_ep_progress(l->v[i]);
	if (l->locking)
		pthread_mutex_unlock(&l->lock);
}

void uccl_ep_list_poll_due(struct uccl_ep_list *l, bool all)
{
	uint64_t now = all ? UCCL_NEVER : uccl_clock();

	if (l->locking && pthread_mutex_trylock(&l->lock))
		return;
	for (unsigned int i = 0; i < l->n; i++)
		if (all || uccl_ep_expiry(l->v[i]) <= now)
			uccl_ep_progress(l->v[i]);
	if (l->locking)
		pthread_mutex_unlock(&l->lock);
}

uint64_t uccl_ep_list_expiry(struct uccl_ep_list *l)
{
	uint64_t at = UCCL_NEVER;

	pthread_mutex_lock(&l->lock);
	for (unsigned int i = 0; i < l->n; i++)
		at = uccl_min(at, uccl_ep_expiry(l->v[i]));
	pthread_mutex_unlock(&l->lock);
	return at;
}

void uccl_sleep_begin(struct uccl_sleep *s, struct uccl_wait *w, struct uccl_ep_list *eps, struct uccl_ep_list *others,
		      int timeout)
{
	s->wait = w;
	s->eps = eps;
	s->others = others;
	s->until = timeout < 0 ? UCCL_NEVER : uccl_clock() + timeout * UCCL_NS_PER_MS;
	uccl_wait_enter(w);
}

bool uccl_sleep(struct uccl_sleep *s)
{
	uint64_t wake = s->until;

	if (wake != UCCL_NEVER && uccl_clock() >= wake)
		return false;
	if (s->eps)
		wake = uccl_min(wake, uccl_ep_list_expiry(s->eps));
	if (s->others)
		wake = uccl_min(wake, uccl_ep_list_expiry(s->others));
	uccl_wait_sleep(s->wait, wake);
	uccl_wait_leave(s->wait);
	uccl_wait_enter(s->wait);
	return true;
}

void uccl_sleep_end(struct uccl_sleep *s)
{
	uccl_wait_leave(s->wait);
}

static void *auto_main(void *arg)
{
	struct uccl_ep *ep = arg;
	struct uccl_auto *a = &ep->autop;

	while (!atomic_load(&a->stop)) {
		uccl_wait_enter(&a->wait);
		if (uccl_ep_progress(ep) <= 0 && !atomic_load(&a->stop))
			uccl_wait_sleep(&a->wait, uccl_ep_expiry(ep));
		uccl_wait_leave(&a->wait);
	}
	return NULL;
}

int uccl_auto_start(struct uccl_auto *a, struct uccl_ep *ep)
{
	int rc;

	rc = uccl_wait_open(&a->wait, FI_WAIT_FD);
	if (rc)
		return rc;
	rc = uccl_wait_add(&a->wait, uccl_ep_fd(ep));
	if (rc)
		goto fail;
	atomic_store(&a->stop, false);
	rc = -uccl_thread_start(&a->thread, auto_main, ep);
	if (rc)
		goto fail;
	a->running = true;
	return 0;
fail:
	uccl_wait_close(&a->wait);
	return rc;
}

void uccl_auto_stop(struct uccl_auto *a)
{
	if (!a->running)
		return;
	atomic_store(&a->stop, true);
	uccl_wait_force(&a->wait);
	pthread_join(a->thread, NULL);
	uccl_wait_close(&a->wait);
	a->running = false;
}

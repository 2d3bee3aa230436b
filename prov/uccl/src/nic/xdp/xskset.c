/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See xskset.h. */
#include "nic/xdp/xskset.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/units.h"

struct uccl_xsk_member {
	struct uccl_xsk_set *set;
	uint32_t number;
	struct uccl_nic_addr at;
	struct uccl_xdp_rule rule;
	struct uccl_xsk *own;
	/* By the queue of each member; its owner's thread reads it, whoever brings a queue adds to it. */
	struct uccl_xsk_rx *_Atomic rx[UCCL_XDP_SOCKETS];
	_Atomic uint32_t end; /* beyond the last of them */
	uint32_t turn;
	int epoll_fd; /* -1 */
};

struct uccl_xsk_set {
	struct uccl_xsk_set **shared;
	pthread_mutex_t lock; /* of all but what members read while they receive */
	int ifindex;
	struct uccl_xdp_prog prog;
	struct uccl_xsk_member *member[UCCL_XDP_SOCKETS];
	/* By number of who brought it: others may receive by it for longer than he stays. */
	struct uccl_xsk *queue[UCCL_XDP_SOCKETS];
	uint32_t members;
};

static int set_make(struct uccl_xsk_set **shared, int ifindex, enum uccl_xdp_mode mode, struct uccl_xsk_set **out,
		    const char **what)
{
	struct uccl_xsk_set *s = calloc(1, sizeof(*s));
	int err;

	*what = "memory";
	if (!s)
		return -FI_ENOMEM;
	err = uccl_xdp_prog_open(ifindex, mode, &s->prog, what);
	if (err) {
		free(s);
		return err;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->ifindex = ifindex;
	s->shared = shared;
	if (shared)
		*shared = s;
	*out = s;
	return 0;
}

static void set_free(struct uccl_xsk_set *s)
{
	for (uint32_t i = 0; i < UCCL_XDP_SOCKETS; i++)
		if (s->queue[i])
			uccl_xsk_close(s->queue[i]);
	uccl_xdp_prog_close(&s->prog);
	pthread_mutex_destroy(&s->lock);
	if (s->shared)
		*s->shared = NULL;
	free(s);
}

int uccl_xsk_join(struct uccl_xsk_set **shared, int ifindex, enum uccl_xdp_mode mode, const struct uccl_nic_addr *at,
		  struct uccl_xsk_member **out, const char **what)
{
	struct uccl_xsk_member *m = calloc(1, sizeof(*m));
	struct uccl_xsk_set *s = shared ? *shared : NULL;
	uint32_t i = 0;
	int err;

	*what = "memory";
	if (!m)
		return -FI_ENOMEM;
	err = s ? 0 : set_make(shared, ifindex, mode, &s, what);
	if (err) {
		free(m);
		return err;
	}
	pthread_mutex_lock(&s->lock);
	/* A queue that outlived who brought it keeps the number. */
	while (i < UCCL_XDP_SOCKETS && (s->member[i] || s->queue[i]))
		i++;
	if (i < UCCL_XDP_SOCKETS) {
		s->member[i] = m;
		s->members++;
	}
	pthread_mutex_unlock(&s->lock);
	if (i == UCCL_XDP_SOCKETS) {
		*what = "another lane";
		free(m);
		return -FI_ENOSPC;
	}
	m->set = s;
	m->number = i;
	m->at = *at;
	m->epoll_fd = -1;
	*out = m;
	return 0;
}

void uccl_xsk_leave(struct uccl_xsk_member *m)
{
	struct uccl_xsk_set *s = m->set;
	bool last;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < UCCL_XDP_SOCKETS; i++) {
		struct uccl_xsk_rx *r = atomic_load(&m->rx[i]);

		if (!r)
			continue;
		uccl_xdp_prog_forget(&s->prog, &m->at, s->queue[i]->queue);
		if (i != m->number)
			uccl_xsk_rx_close(r);
	}
	s->member[m->number] = NULL;
	last = !--s->members;
	pthread_mutex_unlock(&s->lock);
	free(m);
	if (last)
		set_free(s);
}

const struct uccl_xdp_prog *uccl_xsk_prog(const struct uccl_xsk_member *m)
{
	return &m->set->prog;
}

struct uccl_xsk *uccl_xsk_own(const struct uccl_xsk_member *m)
{
	return m->own;
}

/* From now on the member receives from the i-th queue. The lock is held. */
static int ear_add(struct uccl_xsk_member *m, uint32_t i, struct uccl_xsk_rx *r)
{
	struct epoll_event ev = {.events = EPOLLIN};
	const struct uccl_xdp_prog *prog = &m->set->prog;
	int err;

	if (m->epoll_fd >= 0 && epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, r->fd, &ev))
		return -errno;
	atomic_store(&m->rx[i], r);
	if (i >= m->end)
		m->end = i + 1;
	err = uccl_xdp_prog_steer(prog, &m->at, r->of->queue, m->number, r->fd, &m->rule);
	if (err && m->epoll_fd >= 0)
		(void)epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, r->fd, &ev);
	return err;
}

/* What comes for the member by somebody else's queue is a frame, too; if that cannot be, sockets have it. */
static void ear_open(struct uccl_xsk_member *m, uint32_t i)
{
	struct uccl_xsk_rx *r = NULL;
	const char *what;
	int err = uccl_xsk_rx_open(m->set->queue[i], m->set->ifindex, &r, &what);

	if (!err) {
		what = "to steer packets to the socket";
		err = ear_add(m, i, r);
	}
	if (err && r && !atomic_load(&m->rx[i]))
		uccl_xsk_rx_close(r);
	/* Else it stays, and nothing is steered to it: its thread may have seen it. */
	if (err)
		UCCL_LOG(UCCL_LOG_INFO, "xdp: what comes by queue %u for another lane is received by sockets: %s: %s",
			 m->set->queue[i]->queue, what, strerror(-err));
}

int uccl_xsk_take(struct uccl_xsk_member *m, bool parts, const struct uccl_xdp_rule *rule, const char **what)
{
	struct uccl_xsk_set *s = m->set;
	struct uccl_xsk *x;
	int err;

	pthread_mutex_lock(&s->lock);
	m->rule = *rule;
	err = uccl_xsk_open(s->ifindex, s->prog.queues, !s->prog.native, parts, &x, what);
	if (!err) {
		m->rule.most = x->most;
		uccl_xdp_prog_clear(&s->prog, x->queue);
		*what = "to steer packets to the socket";
		err = ear_add(m, m->number, &x->rx);
		if (err) {
			atomic_store(&m->rx[m->number], NULL);
			uccl_xsk_close(x);
		}
	}
	if (!err) {
		m->own = s->queue[m->number] = x;
		for (uint32_t i = 0; i < UCCL_XDP_SOCKETS; i++) {
			if (i == m->number)
				continue;
			if (s->queue[i])
				ear_open(m, i);
			if (s->member[i] && s->member[i]->own)
				ear_open(s->member[i], m->number);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

int uccl_xsk_rule(struct uccl_xsk_member *m, const struct uccl_xdp_rule *rule)
{
	struct uccl_xsk_set *s = m->set;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	m->rule = *rule;
	for (uint32_t i = 0; i < m->end && !err; i++)
		if (atomic_load(&m->rx[i]))
			err = uccl_xdp_prog_rule(&s->prog, &m->at, s->queue[i]->queue, m->number, rule);
	pthread_mutex_unlock(&s->lock);
	return err;
}

int uccl_xsk_member_rx(struct uccl_xsk_member *m, struct uccl_xsk_frame *v, int n)
{
	uint32_t end = atomic_load_explicit(&m->end, memory_order_acquire);
	int got = 0;

	/* Not always the same one first; and each takes back what it lent, whether or not there is room for more. */
	if (++m->turn >= end)
		m->turn = 0;
	for (uint32_t k = 0; k < end; k++) {
		uint32_t i = m->turn + k < end ? m->turn + k : m->turn + k - end;
		struct uccl_xsk_rx *r = atomic_load_explicit(&m->rx[i], memory_order_acquire);

		if (r)
			got += uccl_xsk_rx(r, v + got, uccl_min(n, UCCL_XSK_FRAMES_LENT) - got);
	}
	return got;
}

int uccl_xsk_watch(struct uccl_xsk_member *m, int epoll_fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int err = 0;

	pthread_mutex_lock(&m->set->lock);
	for (uint32_t i = 0; i < m->end && !err; i++) {
		struct uccl_xsk_rx *r = atomic_load(&m->rx[i]);

		if (r && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, r->fd, &ev))
			err = -errno;
	}
	if (!err)
		m->epoll_fd = epoll_fd;
	pthread_mutex_unlock(&m->set->lock);
	return err;
}

uint32_t uccl_xsk_heard(const struct uccl_xsk_member *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < UCCL_XDP_SOCKETS; i++)
		n += !!atomic_load(&m->rx[i]);
	return n;
}

uint64_t uccl_xsk_member_dropped(const struct uccl_xsk_member *m)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < UCCL_XDP_SOCKETS; i++) {
		const struct uccl_xsk_rx *r = atomic_load(&m->rx[i]);

		n += r ? uccl_xsk_dropped(r) : 0;
	}
	return n;
}

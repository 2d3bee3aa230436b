/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See buffer.h. */
#include "sim/buffer.h"

#include <stdlib.h>

#include "sim/check.h"
#include "sim/life.h"

#define QUARANTINE_NS (12 * UCCL_NS_PER_S)

/* A buffer that the application has back. */
struct sim_reuse {
	struct uccl_sim_event ev;
	LIST_ENTRY(sim_reuse) link;
	struct uccl_sim_world *w;
	uint8_t *buf;
	uint64_t len, seed;
};

uint8_t *sim_buffer_new(struct uccl_sim_world *w, uint64_t len)
{
	uint8_t *buf = uccl_check_alloc(len);

	if (buf && uccl_owner_add(&w->owner, uccl_check_base(buf), uccl_check_total(len), UCCL_CHECK_CANARY, len)) {
		uccl_check_free(buf);
		return NULL;
	}
	return buf;
}

void sim_buffer_free(struct uccl_sim_world *w, uint8_t *buf)
{
	if (!buf)
		return;
	uccl_owner_remove(&w->owner, uccl_check_base(buf));
	uccl_check_free(buf);
}

static void reuse_fire(struct uccl_sim_event *ev)
{
	struct sim_reuse *u = uccl_container_of(ev, struct sim_reuse, ev);
	uint64_t bad = uccl_check_match(u->seed, 0, u->buf, u->len);

	if (bad != u->len)
		uccl_sim_violation(u->w, "I1: byte %llu of a buffer of %llu was overwritten after its completion",
				   (unsigned long long)bad, (unsigned long long)u->len);
	if (!uccl_check_whole(u->buf, u->len))
		uccl_sim_violation(u->w, "I1: memory around a buffer of %llu was overwritten after its completion",
				   (unsigned long long)u->len);
	sim_buffer_free(u->w, u->buf);
	u->w->buffers.reuses--;
	LIST_REMOVE(u, link);
	free(u);
}

void sim_buffer_reuse(struct uccl_sim_world *w, uint8_t *buf, uint64_t len)
{
	struct sim_reuse *u = calloc(1, sizeof(*u));

	uccl_owner_give(&w->owner, uccl_check_base(buf), UCCL_OWNER_NONE);
	if (!uccl_check_whole(buf, len))
		uccl_sim_violation(w, "I1: memory around a buffer of %llu was overwritten", (unsigned long long)len);
	if (!u) {
		sim_buffer_free(w, buf);
		return;
	}
	u->w = w;
	u->buf = buf;
	u->len = len;
	u->seed = uccl_rng_next(&w->rng);
	u->ev.fire = reuse_fire;
	uccl_check_fill(u->seed, 0, buf, len);
	w->buffers.reuses++;
	LIST_INSERT_HEAD(&w->buffers.reuse_list, u, link);
	uccl_sim_at(&w->net, &u->ev, w->net.now + 1 + uccl_rng_below(&w->rng, QUARANTINE_NS));
}

void sim_op_pieces(struct uccl_sim_world *w, struct uccl_op *op, uint8_t *buf, uint64_t len, uint8_t n)
{
	uint64_t at = 0, part;
	uint8_t i;

	op->len = len;
	op->iov_count = n ? n : 1;
	for (i = 0; i < op->iov_count; i++) {
		part = i + 1 == op->iov_count ? len - at : uccl_rng_below(&w->rng, len - at + 1);
		op->iov[i] = (struct iovec){.iov_base = buf + at, .iov_len = part};
		at += part;
	}
}

void sim_buffers_fini(struct uccl_sim_world *w)
{
	struct sim_reuse *u;

	while ((u = LIST_FIRST(&w->buffers.reuse_list))) {
		uccl_sim_cancel(&w->net, &u->ev);
		sim_buffer_free(w, u->buf);
		LIST_REMOVE(u, link);
		free(u);
	}
}

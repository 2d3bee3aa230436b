/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/engine.h"
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine/impl.h"
#include "msg/msg_ep.h"

/* Operations that an endpoint may have open. */
#define OPS_MAX 65536

static bool power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

void uccl_engine_budget(struct uccl_tuple_budget *b, uint32_t tuples_max)
{
	atomic_store_explicit(&b->tuples_max, tuples_max, memory_order_relaxed);
}

int uccl_engine_open(const struct uccl_engine_attr *attr, uint64_t now, struct uccl_engine **out)
{
	struct uccl_engine *e = calloc(1, sizeof(*e));
	const struct uccl_config *cfg = attr->config;
	int rc = -FI_ENOMEM;

	if (!e)
		goto fail;
	rc = -FI_EINVAL;
	e->nic = attr->nic;
	e->cfg = *cfg;
	e->cc = uccl_cc_find(cfg->cc);
	e->pathsel = uccl_path_find(cfg->path);
	e->credit = uccl_credit_find(cfg->credit);
	if (uccl_policies_values((const char *const[]){cfg->cc, cfg->path, cfg->credit}, e->params) || !cfg->paths ||
	    cfg->paths > UCCL_PATHS_MAX || !power_of_two(cfg->window_chunks) || cfg->window_chunks < 64 ||
	    cfg->window_chunks > 16384 || cfg->security >= UCCL_SECURITY_COUNT)
		goto fail;
	e->cfg.paths = (uint16_t)uccl_min(cfg->paths, attr->nic->caps.labels);
	e->trace = attr->trace;
	rc = engine_rx_open(&e->rx, attr);
	if (rc)
		goto fail;
	engine_identity_init(&e->identity, attr);
	uccl_msg_ep_init(&e->msg_ep, &engine_msg_ops, &e->stats, cfg->eager_bytes, cfg->unexpected_bytes, OPS_MAX);
	uccl_mac(e->msg_ep.range_key, "range", 5, e->identity.listener.secret);
	e->msg_ep.target.ops = attr->target;
	e->msg_ep.target.arg = attr->target_arg;
	e->peer_log.ended = attr->ended;
	e->peer_log.ended_arg = attr->ended_arg;
	e->msg_ep.posted.room = attr->room;
	e->msg_ep.posted.room_arg = attr->room_arg;
	e->msg_ep.posted.data_takes = attr->data_takes;
	e->msg_ep.device.ops = attr->device;
	e->msg_ep.device.arg = attr->device_arg;
	uccl_sole_peer_init(&e->msg_ep.sole, attr->connected);
	e->msg_ep.dereg_fences = attr->nic->caps.dereg_fences;
	uccl_heap_init(&e->heap);
	uccl_slots_init(&e->slots.queue);
	engine_time(e, now);
	engine_scan_first(e, UCCL_NEVER);
	engine_poll_init(&e->poll, attr->may_gather, now);
	engine_share_init(&e->share, attr);
	engine_conns_init(&e->conns);
	engine_table_init(&e->table);
	engine_drain_init(&e->drain);
	engine_out_init(&e->out, now);
	if (uccl_lanes_built() && attr->lane_channel)
		rc = uccl_lanes_built()->attach(&e->msg_ep, attr->lane_channel, attr->lane_number);
	if (rc)
		uccl_engine_close(e);
	else
		*out = e;
	return rc;
fail:
	free(e);
	attr->nic->ops->close(attr->nic);
	return rc;
}

void uccl_engine_close(struct uccl_engine *e)
{
	conns_end(e);
	if (e->msg_ep.lanes_ops)
		e->msg_ep.lanes_ops->detach(&e->msg_ep, e->now);
	uccl_msg_ep_fini(&e->msg_ep, e->now);
	conns_free(e);
	e->nic->ops->close(e->nic);
	engine_device_rx_close(e);
	if (e->msg_ep.lanes_ops)
		e->msg_ep.lanes_ops->free(&e->msg_ep);
	uccl_heap_fini(&e->heap);
	uccl_pacer_fini(&e->share.pacer);
	engine_rx_close(&e->rx);
	free(e);
}

int uccl_engine_wait_fd(const struct uccl_engine *e)
{
	return e->nic->ops->wait_fd ? e->nic->ops->wait_fd(e->nic) : -FI_ENOSYS;
}

int uccl_engine_nap_fd(const struct uccl_engine *e)
{
	return e->nic->ops->nap_fd ? e->nic->ops->nap_fd(e->nic) : uccl_engine_wait_fd(e);
}

void uccl_engine_watched(struct uccl_engine *e, bool yes)
{
	e->nic->watched = yes;
}

void uccl_engine_empty(struct uccl_engine *e, bool yes)
{
	e->nic->empty = yes;
}

uint64_t uccl_engine_first_age(const struct uccl_engine *e)
{
	return e->rx.first_age_ns;
}

bool uccl_engine_marks(const struct uccl_engine *e)
{
	return e->nic->caps.marks;
}

const struct uccl_stats *uccl_engine_stats(struct uccl_engine *e)
{
	if (e->nic->ops->count)
		e->nic->ops->count(e->nic, &e->stats);
	e->stats.slots_asked = e->slots.queue.asked;
	e->stats.slots_returned = e->slots.queue.returned;
	return &e->stats;
}

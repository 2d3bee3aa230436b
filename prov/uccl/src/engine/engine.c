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

/*
 * All tokens of this endpoint begin alike, so that the NIC can tell without a list of them what is for nobody here. The
 * rest of a token is as good a secret. PROTOCOL R158
 */
static void token_top(struct uccl_engine *e)
{
	uint8_t mac[UCCL_MAC_LEN];

	uccl_mac(mac, "token", 5, e->listener.secret);
	e->token_top = uccl_get16(mac);
}

static void nic_guard(struct uccl_engine *e)
{
	struct uccl_nic_guard g = { .magic = UCCL_MAGIC, .version = UCCL_VERSION, .hello = UCCL_PKT_HELLO,
				    .init = UCCL_PKT_INIT, .token_top = e->token_top,
				    .incarnation = e->listener.local.incarnation };

	/* The filter has a bit for each type. */
	for (uint8_t type = 0; type < 32; type++)
		if (uccl_type_known(type) && type != g.hello && type != g.init)
			g.types |= 1u << type;
	if (e->nic->ops->guard)
		e->nic->ops->guard(e->nic, &g);
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
	e->random = attr->random;
	e->random_arg = attr->random_arg;
	e->trace = attr->trace;
	e->interface = attr->interface;
	/* What is scattered cannot be proven before it is placed. */
	if (attr->nic->caps.placements && !cfg->security) {
		rc = -FI_ENOMEM;
		e->bounce = malloc(uccl_max((size_t)RX_BATCH * attr->nic->caps.mtu, UCCL_GRO_BYTES_MAX));
		if (!e->bounce)
			goto fail;
	}
	attr->nic->ops->addr(attr->nic, &e->listener.local.nic);
	if (attr->identity) {
		e->listener.local.incarnation = attr->identity->incarnation;
		memcpy(e->listener.local.key, attr->identity->key, UCCL_KEY_LEN);
	}
	while (!e->listener.local.incarnation) {
		e->random(e->random_arg, &e->listener.local.incarnation, sizeof(e->listener.local.incarnation));
		e->random(e->random_arg, e->listener.local.key, UCCL_KEY_LEN);
	}
	e->addr = e->listener.local;
	if (attr->group)
		memcpy(e->listener.group, attr->group, UCCL_KEY_LEN);
	uccl_key_mix(e->listener.local.key, e->listener.group);
	e->random(e->random_arg, e->listener.secret, UCCL_KEY_LEN);
	token_top(e);
	nic_guard(e);
	e->listener.keyless = cfg->keyless;
	e->listener.security = cfg->security;
	uccl_msg_ep_init(&e->msg_ep, &engine_msg_ops, &e->stats, cfg->eager_bytes, cfg->unexpected_bytes, OPS_MAX);
	uccl_mac(e->msg_ep.range_key, "range", 5, e->listener.secret);
	e->msg_ep.target.ops = attr->target;
	e->msg_ep.target.arg = attr->target_arg;
	e->msg_ep.posted.room = attr->room;
	e->msg_ep.posted.room_arg = attr->room_arg;
	e->msg_ep.posted.data_takes = attr->data_takes;
	e->msg_ep.device.ops = attr->device;
	e->msg_ep.device.arg = attr->device_arg;
	e->msg_ep.cm = attr->connected;
	e->msg_ep.dereg_fences = attr->nic->caps.dereg_fences;
	uccl_heap_init(&e->heap);
	uccl_slots_init(&e->slots);
	uccl_pacer_init(&e->pacer, attr->nic->caps.link_bps);
	e->sharers = attr->sharers;
	e->sharers_arg = attr->sharers_arg;
	e->nsharers = e->nbusy[UCCL_LOAD_OUT] = e->nbusy[UCCL_LOAD_IN] = 1;
	e->load_at = UCCL_NEVER;
	e->pacer_timer.at = UCCL_NEVER;
	e->pacer_timer.kind = TIMER_PACER;
	TAILQ_INIT(&e->conns);
	TAILQ_INIT(&e->half);
	TAILQ_INIT(&e->dead);
	TAILQ_INIT(&e->kept);
	TAILQ_INIT(&e->unreferenced);
	TAILQ_INIT(&e->hsq);
	TAILQ_INIT(&e->ready);
	TAILQ_INIT(&e->close_unsent);
	TAILQ_INIT(&e->close_sent);
	if (attr->lane_channel)
		uccl_lane_init(&e->msg_ep, &e->lane, &engine_lane_ops, attr->lane_channel, attr->lane_number);
	e->now = e->polled_ns = now;
	uccl_stall_init(&e->nic_stall, 0, now);
	e->scan_at = UCCL_NEVER;
	*out = e;
	return 0;
fail:
	if (e)
		free(e->bounce);
	free(e);
	attr->nic->ops->close(attr->nic);
	return rc;
}

void uccl_engine_close(struct uccl_engine *e)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->half)))
		conns_half_leave(c);
	while ((c = TAILQ_FIRST(&e->conns))) {
		c->closed = true;
		conn_fail(c, FI_ECANCELED, e->now);
	}
	if (e->msg_ep.lanes)
		uccl_lanes_fini(&e->msg_ep, e->now);
	uccl_msg_ep_fini(&e->msg_ep, e->now);
	TAILQ_CONCAT(&e->dead, &e->kept, all);
	TAILQ_FOREACH(c, &e->dead, all)
		c->peer.first = NULL;
	while ((c = TAILQ_FIRST(&e->dead)))
		conn_free(c, &e->dead);
	e->nic->ops->close(e->nic);
	engine_device_rx_close(e);
	uccl_heap_fini(&e->heap);
	uccl_pacer_fini(&e->pacer);
	free(e->lane_addr);
	free(e->bounce);
	free(e);
}

const struct uccl_addr *uccl_engine_addr(const struct uccl_engine *e)
{
	return &e->addr;
}

void uccl_engine_run(struct uccl_engine *e, uint64_t first, const struct uccl_nic_addr *at, uint32_t n)
{
	e->listener.port_range = (struct uccl_port_range){.first = first, .n = n, .at = at};
}

_Static_assert(UCCL_LOAD_ENTRIES == UCCL_LANES_MAX + 1, "a seat for home, and for each lane");

static void engine_load_entry(struct uccl_engine *e, struct uccl_load_table *b, uint8_t seat)
{
	e->load = b;
	e->load_entry = seat;
	e->load_at = 0;
}

int uccl_engine_lanes(struct uccl_engine *e, struct uccl_engine *const *lane, struct uccl_lane_channel *const *channel,
		      uint8_t n)
{
	e->lane_addr = calloc(n, sizeof(*e->lane_addr));
	if (!e->lane_addr)
		return -FI_ENOMEM;
	uccl_load_table_init(&e->lanes_load, n);
	engine_load_entry(e, &e->lanes_load, 0);
	for (uint8_t k = 0; k < n; k++) {
		e->lane_addr[k] = lane[k]->addr;
		engine_load_entry(lane[k], &e->lanes_load, (uint8_t)(k + 1));
		lane[k]->sharers = e->sharers;
		lane[k]->sharers_arg = e->sharers_arg;
	}
	uccl_lanes_init(&e->msg_ep, &e->lanes, channel, n);
	return 0;
}

struct uccl_lane_channel *uccl_lane_channel_new(void (*wake)(void *arg, bool primary), void (*rest)(uint32_t times),
						void *arg)
{
	struct uccl_lane_channel *l = aligned_alloc(_Alignof(struct uccl_lane_channel), sizeof(*l));

	if (!l || !uccl_lane_channel_init(l)) {
		free(l);
		return NULL;
	}
	l->wake = wake;
	l->rest = rest;
	l->arg = arg;
	return l;
}

void uccl_lane_channel_free(struct uccl_lane_channel *l)
{
	uccl_lane_channel_fini(l);
	free(l);
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

bool uccl_engine_marks(const struct uccl_engine *e)
{
	return e->nic->caps.marks;
}

const struct uccl_stats *uccl_engine_stats(struct uccl_engine *e)
{
	if (e->nic->ops->count)
		e->nic->ops->count(e->nic, &e->stats);
	e->stats.slots_asked = e->slots.asked;
	e->stats.slots_returned = e->slots.returned;
	return &e->stats;
}

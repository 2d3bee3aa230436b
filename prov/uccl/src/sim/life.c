/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See life.h. */
#include "sim/life.h"

#include <rdma/fi_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Rounds of one poll at most; more means that the engine never comes to rest. */
#define POLL_ROUNDS 256
/* Polls in a row that achieve nothing although the engine asked for each at once. */
#define SPINS_MAX 2000
/* An engine that the NIC keeps waiting looks again this much later, unless the NIC wakes it before. */
#define BUSY_NS (20 * UCCL_NS_PER_US)
#define MS(x) ((uint64_t)((x)*1e6))
#define US(x) ((uint64_t)((x)*1e3))

/*
 * With flipped bits that pass, operations may fail and bytes be wrong. What must still hold: memory is safe (I1), each
 * operation completes once (I2), flows stay consistent (I6), nobody spins or sleeps for ever (I10).
 */
static bool excused(const struct uccl_sim_world *w, const char *text)
{
	static const char *const always[] = {"I1:", "I2:", "I6:", "I10:"};
	uint32_t i;

	if (w->o.corrupt_pass <= 0)
		return false;
	for (i = 0; i < uccl_array_len(always); i++) {
		if (!strncmp(text, always[i], strlen(always[i])))
			return false;
	}
	return true;
}

void uccl_sim_violation(struct uccl_sim_world *w, const char *fmt, ...)
{
	char text[sizeof(w->first)];
	va_list ap;
	int n;

	if (excused(w, fmt))
		return;
	n = snprintf(text, sizeof(text), "[%.6f s] ", (double)(w->net.now - (uint64_t)w->o.start_ns) / 1e9);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	if (!w->violations++)
		memcpy(w->first, text, sizeof(text));
	if (w->print && w->violations <= 20)
		w->print(text);
}

void uccl_sim_say(struct uccl_sim_world *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	if (!w->print || !w->verbose)
		return;
	n = snprintf(text, sizeof(text), "[%.6f s] ", (double)(w->net.now - (uint64_t)w->o.start_ns) / 1e9);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	w->print(text);
}

/* --- one endpoint --- */

static void life_random(void *arg, void *buf, size_t len)
{
	struct uccl_sim_life *n = arg;
	uint8_t *p = buf;

	while (len--)
		*p++ = (uint8_t)uccl_rng_next(&n->random);
}

static void life_violation(void *arg, const char *text)
{
	struct uccl_sim_life *n = arg;

	uccl_sim_violation(n->w, "I1: at endpoint %u: %s", n->node, text);
}

void uccl_sim_wake(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	uint64_t at = uccl_max(w->net.now, n->asleep_until);

	if (!n->alive)
		return;
	if (w->o.poll_us > 0)
		at += uccl_rng_below(&w->rng, US(w->o.poll_us) + 1);
	if (!n->poll.place || n->poll.at > at)
		uccl_sim_at(&w->net, &n->poll, at);
}

static void life_wake(void *arg)
{
	uccl_sim_wake(arg);
}

/* When the engine wants to be called again: at once only if it waits for the NIC. */
static void life_schedule(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	uint64_t at = uccl_engine_expiry(n->e), refused = uccl_sim_nic_stats(n->nic)->tx_refused;

	if (at > w->net.now) {
		n->spins = 0;
	} else {
		if (refused == n->refused && ++n->spins > SPINS_MAX) {
			uccl_sim_violation(w, "I10: endpoint %u asks to be called at once again and again", n->node);
			n->spins = 0;
		}
		at = w->net.now + (refused != n->refused ? BUSY_NS : 1000);
	}
	n->refused = refused;
	if (at == UCCL_NEVER)
		return;
	if (w->o.poll_us > 0 && at > w->net.now + BUSY_NS)
		at += uccl_rng_below(&w->rng, US(w->o.poll_us) + 1);
	if (!n->poll.place || n->poll.at > at)
		uccl_sim_at(&w->net, &n->poll, at);
}

static void life_poll(struct uccl_sim_event *ev)
{
	struct uccl_sim_life *n = uccl_container_of(ev, struct uccl_sim_life, poll);
	struct uccl_sim_world *w = n->w;
	int i;

	if (!n->alive)
		return;
	if (w->net.now < n->asleep_until) {
		uccl_sim_at(&w->net, &n->poll, n->asleep_until);
		return;
	}
	/* As a program does: what is there is read, and only when nothing is the engine runs. */
	for (i = 0; i < POLL_ROUNDS; i++) {
		n->unread = 0;
		if (uccl_engine_poll(n->e, w->net.now) <= 0 && !n->unread)
			break;
	}
	if (i == POLL_ROUNDS)
		uccl_sim_violation(w, "I10: endpoint %u finds events without end", n->node);
	life_schedule(n);
}

static bool life_room(void *arg)
{
	const struct uccl_sim_life *n = arg;

	return n->unread < (uint32_t)n->w->o.cq;
}

static void nic_config(const struct uccl_sim_world *w, struct uccl_sim_life *n, struct uccl_sim_nic_cfg *c)
{
	const struct uccl_sim_options *o = &w->o;
	bool write = o->nic > 0;

	*c = (struct uccl_sim_nic_cfg){
		.mtu = (uint32_t)o->mtu,
		.write_max = write ? (uint32_t)o->write_max : 0,
		.labels = (uint16_t)o->labels,
		.tx_sync = !write && o->tx_sync > 0,
		.hints = o->hints > 0,
		.ages = o->ages > 0,
		.shared_slots = o->shared > 0,
		.liveness = o->liveness > 0,
		.icmp = o->icmp > 0,
		.train_bytes = !write && o->tx_sync > 0 && o->trains > 0 ? UCCL_TRAIN_BYTES : 0,
		.train_fault = (enum uccl_train_fault)o->train_fault,
		.leaky = o->leaky > 0,
		.rx_slots = (uint32_t)o->slots,
		.tx_depth = (uint32_t)o->tx_depth,
		.read_ns = US(o->read_us),
		.fence_ns = US(o->fence_us),
		.proof_ns = US(o->proof_us),
		.link_bps = (uint64_t)o->rate_mbps * 1000000,
		/* There and back on the slowest route, and a little for those who poll late. */
		.delay_ns = US(20 + 2 * (o->delay_us + o->spread_us + o->jitter_us) + o->poll_us),
		.rto_min_ns = 2 * UCCL_NS_PER_MS,
		.owner = (struct uccl_owner *)(uintptr_t)&w->owner,
		.wake = life_wake,
		.violation = life_violation,
		.arg = n,
	};
}

static void engine_config(const struct uccl_sim_world *w, struct uccl_config *c)
{
	const struct uccl_sim_options *o = &w->o;

	uccl_config_default(c);
	c->cc = uccl_cc_names()[(int)o->cc];
	c->path = uccl_path_names()[(int)o->path];
	c->credit = uccl_credit_names()[(int)o->credit];
	c->paths = (uint16_t)o->paths;
	c->chunk_bytes = (uint32_t)o->chunk;
	c->eager_bytes = (uint32_t)o->eager;
	c->inject_bytes = (uint32_t)o->inject;
	c->window_chunks = (uint32_t)o->window;
	c->unexpected_bytes = (uint32_t)o->unexpected_kb * 1024;
	c->peer_timeout_ns = MS(o->peer_timeout_ms);
	c->connect_timeout_ns = MS(o->connect_timeout_ms);
	c->keepalive_ns = MS(o->keepalive_ms);
	c->keyless = o->keyless > 0;
	c->fifo_paths = o->fifo > 0;
}

int uccl_sim_life_open(struct uccl_sim_life *n)
{
	struct uccl_sim_world *w = n->w;
	struct uccl_sim_nic_cfg nic;
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {
		.config = &cfg,
		.random = life_random,
		.random_arg = n,
		.room = life_room,
		.room_arg = n,
	};
	int rc;

	n->poll.fire = life_poll;
	nic_config(w, n, &nic);
	engine_config(w, &cfg);
	rc = uccl_sim_nic_open(&w->net, n->node, &nic, &n->nic);
	if (rc)
		return rc;
	attr.nic = n->nic;
	return uccl_engine_open(&attr, w->net.now, &n->e);
}

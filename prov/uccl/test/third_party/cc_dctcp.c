/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* DCTCP (RFC 8257): once a round trip the window shrinks by half of the share of bytes that were marked. */
#include <math.h>
#include "policy/policies.h"

#define DCTCP_CONSTANTS(X)											\
	X(g, 0.0625, 0.001, 1, "share", "weight of the marks of one round trip (RFC 8257)")
UCCL_CONSTANTS(dctcp, DCTCP_CONSTANTS);

struct dctcp {
	const struct dctcp_k *k;
	double window, most, chunk, alpha, acked, marked; /* bytes, but for alpha */
	uint64_t round;					  /* it is over when that much is delivered */
	bool grown;					  /* slow start has ended */
};

static void dctcp_init(void *cc, const struct uccl_policy_cfg *cfg, uint64_t now)
{
	struct dctcp *d = cc;

	(void)now;
	*d = (struct dctcp){.k = UCCL_K(dctcp, cfg), .chunk = cfg->chunk_bytes, .most = (double)cfg->window_max};
	d->window = fmin(10 * d->chunk, d->most);
}

static uint64_t dctcp_window(const void *cc)
{
	return (uint64_t)((const struct dctcp *)cc)->window;
}

static void dctcp_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	struct dctcp *d = cc;

	(void)now;
	d->acked += (double)ack->bytes;
	d->marked += (double)ack->marked;
	d->grown |= ack->marked > 0;
	d->window += ack->app_limited ? 0 : (double)ack->bytes * (d->grown ? d->chunk / d->window : 1);
	if (ack->rate.prior >= d->round && d->acked > 0) {
		d->alpha += d->k->g * (fmin(d->marked / d->acked, 1) - d->alpha);
		d->window *= d->marked > 0 ? 1 - d->alpha / 2 : 1;
		d->acked = d->marked = 0;
		d->round = ack->delivered;
	}
	d->window = fmin(fmax(d->window, d->chunk), d->most);
}

static void dctcp_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	struct dctcp *d = cc;

	(void)now;
	d->grown = true;
	d->window = fmax(loss->kind == UCCL_LOSS_RTO ? d->chunk : d->window - (double)loss->bytes / 2, d->chunk);
}

const struct uccl_cc_ops uccl_cc_dctcp = {.name = "dctcp", .marks = true, .constants = dctcp_constants,
	.init = dctcp_init, .window = dctcp_window, .on_ack = dctcp_on_ack, .on_loss = dctcp_on_loss};

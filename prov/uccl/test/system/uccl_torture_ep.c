/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The endpoint of a rank, with everything that the seed draws for it. */
#include <stdio.h>
#include <string.h>

#include "uccl_torture.h"

void endpoint_draw(struct torture *t)
{
	static const enum fi_cq_format formats[] = {FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_TAGGED,
						    FI_CQ_FORMAT_DATA,	 FI_CQ_FORMAT_DATA,   FI_CQ_FORMAT_MSG,
						    FI_CQ_FORMAT_CONTEXT};
	static const enum fi_wait_obj waits[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD};
	static const uint64_t levels[] = {0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE};
	struct uccl_rng r;

	uccl_rng_seed(&r, key_mix(t->s->cfg.seed, (uint64_t)t->rank));
	t->format = formats[uccl_rng_below(&r, sizeof(formats) / sizeof(formats[0]))];
	t->wait = waits[uccl_rng_below(&r, 3)];
	t->op_flags = levels[uccl_rng_below(&r, 4)];
	t->two_cqs = uccl_rng_below(&r, 2);
	t->serial = t->workers > 1 && uccl_rng_below(&r, 2);
	t->counted = uccl_rng_below(&r, 2);
	t->virtual_mr = uccl_rng_below(&r, 2);
	t->min_multi = (size_t)64 << uccl_rng_below(&r, 7);
	t->cq_size = uccl_rng_below(&r, 3) ? 0 : 64;
	t->progress = uccl_rng_below(&r, 4) ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;
	t->threading = t->workers > 1 || uccl_rng_below(&r, 2) ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	fprintf(stderr,
		"rank %d: format %d, wait %d, op_flags %llx, %d queues of %zu%s%s, %s keys, min_multi %zu, "
		"threading %d, progress %d\n",
		t->rank, t->format, t->wait, (unsigned long long)t->op_flags, t->two_cqs + 1, t->cq_size,
		t->serial ? ", serial" : "", t->counted ? ", counters" : "", t->virtual_mr ? "provider's" : "own",
		t->min_multi, t->threading, t->progress);
}

static void good(int rc, const char *what)
{
	rank_check(!rc, "%s: %d (%s)", what, rc, fi_strerror(-rc));
}

void endpoint_info(struct torture *t, const char *service)
{
	struct fi_info *h = fab_hints();

	h->caps |= FI_RMA | FI_ATOMIC;
	h->tx_attr->msg_order = h->rx_attr->msg_order = 0;
	h->tx_attr->op_flags = t->op_flags;
	h->domain_attr->threading = t->threading;
	h->domain_attr->control_progress = h->domain_attr->data_progress = t->progress;
	h->domain_attr->mr_mode = t->virtual_mr ? FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY : 0;
	good(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", service, FI_SOURCE, h, &t->info), "fi_getinfo");
	fi_freeinfo(h);
	rank_check(!strcmp(t->info->fabric_attr->prov_name, "uccl"), "the provider is %s",
		   t->info->fabric_attr->prov_name);
	rank_check(!!(t->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) == t->virtual_mr, "mr_mode is %x",
		   t->info->domain_attr->mr_mode);
	rank_check(t->info->ep_attr->max_order_raw_size >= ORDER_MAX &&
			   t->info->ep_attr->max_order_war_size >= ORDER_MAX &&
			   t->info->ep_attr->max_order_waw_size >= ORDER_MAX &&
			   t->info->tx_attr->inject_size >= INJECT_MAX,
		   "less order or shorter injects than these tests need");
}

void endpoint_open(struct torture *t)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = t->format, .size = t->cq_size, .wait_obj = t->wait};
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
	static const uint64_t counted[] = {FI_SEND, FI_READ, FI_WRITE};
	size_t len = sizeof(t->me->name);

	good(fi_fabric(t->info->fabric_attr, &t->fabric, NULL), "fi_fabric");
	good(fi_domain(t->fabric, t->info, &t->domain, NULL), "fi_domain");
	good(fi_av_open(t->domain, &av, &t->av, NULL), "fi_av_open");
	good(fi_endpoint(t->domain, t->info, &t->ep, NULL), "fi_endpoint");
	good(fi_ep_bind(t->ep, &t->av->fid, 0), "fi_ep_bind av");
	for (int i = 0; i <= t->two_cqs; i++) {
		uint64_t flags = !t->two_cqs ? FI_TRANSMIT | FI_RECV : i ? FI_RECV : FI_TRANSMIT;

		good(fi_cq_open(t->domain, &cq, &t->cq[i], NULL), "fi_cq_open");
		good(fi_ep_bind(t->ep, &t->cq[i]->fid, flags), "fi_ep_bind cq");
	}
	for (int i = 0; i < 3 && t->counted; i++) {
		good(fi_cntr_open(t->domain, &cntr, &t->cntr[i], NULL), "fi_cntr_open");
		good(fi_ep_bind(t->ep, &t->cntr[i]->fid, counted[i]), "fi_ep_bind counter");
	}
	good(fi_setopt(&t->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &t->min_multi, sizeof(t->min_multi)),
	     "fi_setopt");
	/* Peers may come as soon as it is enabled. */
	good(fi_mr_reg(t->domain, shared_window(t->s, t->rank), t->s->cfg.regions_at, FI_REMOTE_READ | FI_REMOTE_WRITE,
		       0, 7, 0, &t->mr, NULL),
	     "fi_mr_reg");
	good(fi_enable(t->ep), "fi_enable");
	good(fi_getname(&t->ep->fid, t->me->name, &len), "fi_getname");
	t->me->addr = t->virtual_mr ? (uint64_t)(uintptr_t)shared_window(t->s, t->rank) : 0;
	t->me->rkey = fi_mr_key(t->mr);
	t->me->tells = t->format >= FI_CQ_FORMAT_DATA;
	t->me->tags = t->format == FI_CQ_FORMAT_TAGGED;
}

void endpoint_close(struct torture *t)
{
	good(fi_close(&t->mr->fid), "fi_close region");
	good(fi_close(&t->ep->fid), "fi_close endpoint");
	for (int i = 0; i <= t->two_cqs; i++)
		good(fi_close(&t->cq[i]->fid), "fi_close queue");
	for (int i = 0; i < 3 && t->counted; i++)
		good(fi_close(&t->cntr[i]->fid), "fi_close counter");
	good(fi_close(&t->av->fid), "fi_close av");
	good(fi_close(&t->domain->fid), "fi_close domain");
	good(fi_close(&t->fabric->fid), "fi_close fabric");
	fi_freeinfo(t->info);
}

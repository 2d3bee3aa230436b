/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fab.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define BATCH 16
/* Rounds without a completion before the processor is left to others. */
#define IDLE_ROUNDS 4

struct fi_info *fab_hints(void)
{
	struct fi_info *h = fi_allocinfo();

	rank_check(h, "no memory for hints");
	h->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
	/* Every send is to end in success or in an error that tells of its peer: not when it was copied. */
	h->tx_attr->op_flags = FI_TRANSMIT_COMPLETE;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	return h;
}

static void good(int rc, const char *what)
{
	rank_check(!rc, "%s: %s", what, fi_strerror(-rc));
}

/* Entries of a folder of /proc/self. */
static unsigned int own(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned int n = 0;

	rank_check(d, "%s cannot be read", folder);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

void fab_open_as(struct fab *f, const char *service, uint32_t addr_format)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 4096};
	struct fi_info *hints = fab_hints();

	memset(f, 0, sizeof(*f));
	hints->addr_format = addr_format;
	good(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", service, FI_SOURCE, hints, &f->info), "fi_getinfo");
	fi_freeinfo(hints);
	rank_check(!strcmp(f->info->fabric_attr->prov_name, "uccl"), "the provider is %s",
		   f->info->fabric_attr->prov_name);
	f->fds = own("/proc/self/fd");
	f->threads = own("/proc/self/task");
	good(fi_fabric(f->info->fabric_attr, &f->fabric, NULL), "fi_fabric");
	good(fi_domain(f->fabric, f->info, &f->domain, NULL), "fi_domain");
	good(fi_av_open(f->domain, &av, &f->av, NULL), "fi_av_open");
	good(fi_cq_open(f->domain, &cq, &f->cq, NULL), "fi_cq_open");
	good(fi_endpoint(f->domain, f->info, &f->ep, NULL), "fi_endpoint");
	good(fi_ep_bind(f->ep, &f->av->fid, 0), "fi_ep_bind av");
	good(fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind cq");
	good(fi_enable(f->ep), "fi_enable");
	f->name_len = sizeof(f->name);
	good(fi_getname(&f->ep->fid, f->name, &f->name_len), "fi_getname");
}

void fab_open(struct fab *f, const char *service)
{
	fab_open_as(f, service, FI_FORMAT_UNSPEC);
}

uint64_t fab_close(struct fab *f)
{
	uint64_t began = clock_ns(), took;
	unsigned int left;

	good(fi_close(&f->ep->fid), "fi_close endpoint");
	took = clock_ns() - began;
	good(fi_close(&f->cq->fid), "fi_close cq");
	good(fi_close(&f->av->fid), "fi_close av");
	good(fi_close(&f->domain->fid), "fi_close domain");
	good(fi_close(&f->fabric->fid), "fi_close fabric");
	left = own("/proc/self/fd");
	rank_check(left == f->fds, "%u descriptors before, %u after", f->fds, left);
	/* Who joins a thread may go on a moment before the kernel has taken it out of the list. */
	for (int i = 0; (left = own("/proc/self/task")) != f->threads && i < 1000; i++)
		usleep(1000);
	rank_check(left == f->threads, "%u threads before, %u after", f->threads, left);
	fi_freeinfo(f->info);
	memset(f, 0, sizeof(*f));
	return took;
}

fi_addr_t fab_insert(struct fab *f, const void *name)
{
	fi_addr_t a = FI_ADDR_NOTAVAIL;
	int rc = fi_av_insert(f->av, name, 1, &a, 0, NULL);

	rank_check(rc == 1 && a != FI_ADDR_NOTAVAIL, "fi_av_insert: %d", rc);
	return a;
}

void op_begin(struct op *op)
{
	rank_check(!op->open, "the test posts an operation that is in flight");
	op->open = true;
	op->err = 0;
	op->text[0] = '\0';
	op->ended_ns = 0;
}

static void op_ended(struct op *op, bool last)
{
	rank_check(op->open, "a completion for an operation that has ended: it completed twice (error %d)", op->err);
	if (last) {
		op->open = false;
		op->ended_ns = clock_ns();
	}
	if (op->end)
		op->end(op);
}

static void read_failure(struct fab *f)
{
	struct fi_cq_err_entry e = {0};
	ssize_t rc = fi_cq_readerr(f->cq, &e, 0);
	struct op *op = e.op_context;

	rank_check(rc == 1, "fi_cq_readerr: %zd", rc);
	rank_check(op && e.err, "a failure without context or error");
	f->bad++;
	op->err = e.err;
	op->flags = e.flags;
	op->len = e.len;
	op->tag = e.tag;
	op->data = e.data;
	op->buf = e.buf;
	op->src = FI_ADDR_NOTAVAIL;
	fi_cq_strerror(f->cq, e.prov_errno, e.err_data, op->text, sizeof(op->text));
	op_ended(op, !op->multi || e.flags & FI_MULTI_RECV || e.err == FI_ECANCELED);
}

int fab_progress(struct fab *f)
{
	static unsigned int idle;
	struct fi_cq_tagged_entry e[BATCH];
	fi_addr_t src[BATCH];
	ssize_t n = fi_cq_readfrom(f->cq, e, BATCH, src);

	if (n == -FI_EAGAIN) {
		if (++idle >= IDLE_ROUNDS) {
			idle = 0;
			sched_yield();
		}
		return 0;
	}
	idle = 0;
	if (n == -FI_EAVAIL) {
		read_failure(f);
		return 1;
	}
	rank_check(n > 0, "fi_cq_readfrom: %zd", n);
	for (ssize_t i = 0; i < n; i++) {
		struct op *op = e[i].op_context;

		rank_check(op, "a completion without context");
		f->good++;
		op->err = 0;
		op->flags = e[i].flags;
		op->len = e[i].len;
		op->tag = e[i].tag;
		op->data = e[i].data;
		op->buf = e[i].buf;
		op->src = src[i];
		op_ended(op, !op->multi || e[i].flags & FI_MULTI_RECV);
	}
	return (int)n;
}

bool fab_finish(struct fab *f, struct op *op, unsigned int ms)
{
	uint64_t end = clock_ns() + (uint64_t)(ms * options.slack * 1e6);

	while (op->open) {
		if (clock_ns() > end)
			return false;
		fab_progress(f);
	}
	return true;
}

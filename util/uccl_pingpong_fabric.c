/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tagged messages between two libfabric RDM endpoints. */
#include "uccl_pingpong.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define ADDR_MAX 256

static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
} fab;

static void check(const char *what, long rc)
{
	if (rc < 0)
		die("%s: %s (%ld)", what, fi_strerror((int)-rc), rc);
}

static void error_report(void)
{
	struct fi_cq_err_entry err = {0};
	char text[256] = "";
	ssize_t n = fi_cq_readerr(fab.cq, &err, 0);

	if (n < 0)
		check("fi_cq_readerr", n);
	die("operation failed: %s; %s", fi_strerror(err.err),
	    fi_cq_strerror(fab.cq, err.prov_errno, err.err_data, text, sizeof(text)));
}

/* idle_ms: how long to sleep at most if there is nothing, with -e */
static void completions(const struct bench *b, int idle_ms)
{
	struct fi_cq_entry entry[16];
	ssize_t i, n = b->events ? fi_cq_sread(fab.cq, entry, 16, NULL, idle_ms) : fi_cq_read(fab.cq, entry, 16);

	if (n == -FI_EAGAIN)
		return;
	if (n == -FI_EAVAIL)
		error_report();
	check("fi_cq_read", n);
	for (i = 0; i < n; i++)
		slot_set(entry[i].op_context, true);
}

/* Who calls it looks at something else in between. */
static void fabric_progress(struct bench *b)
{
	completions(b, 1);
}

static void fabric_wait(struct bench *b, struct slot *s)
{
	while (!slot_done(s))
		completions(b, 1000);
}

static void fabric_send(struct bench *b, struct slot *s, const void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	slot_set(s, false);
	while ((rc = fi_tsend(fab.ep, buf, len, NULL, fab.peer, tag, s)) == -FI_EAGAIN)
		fabric_progress(b);
	check("fi_tsend", rc);
}

static void fabric_recv(struct bench *b, struct slot *s, void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	slot_set(s, false);
	while ((rc = fi_trecv(fab.ep, buf, len, NULL, fab.peer, tag, 0, s)) == -FI_EAGAIN)
		fabric_progress(b);
	check("fi_trecv", rc);
}

static void endpoint_open(struct bench *b)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {0};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024};
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	char node[NI_MAXHOST];

	cq.wait_obj = b->events ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
	if (!hints)
		die("out of memory");
	if (getsockname(b->oob, (struct sockaddr *)&local, &len) ||
	    getnameinfo((struct sockaddr *)&local, len, node, sizeof(node), NULL, 0, NI_NUMERICHOST))
		die("no local address");
	hints->caps = FI_MSG | FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(b->provider);
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), node, NULL, FI_SOURCE, hints, &fab.info));
	fi_freeinfo(hints);
	check("fi_fabric", fi_fabric(fab.info->fabric_attr, &fab.fabric, NULL));
	check("fi_domain", fi_domain(fab.fabric, fab.info, &fab.domain, NULL));
	av.type = fab.info->domain_attr->av_type ? fab.info->domain_attr->av_type : FI_AV_MAP;
	check("fi_av_open", fi_av_open(fab.domain, &av, &fab.av, NULL));
	check("fi_endpoint", fi_endpoint(fab.domain, fab.info, &fab.ep, NULL));
	check("fi_cq_open", fi_cq_open(fab.domain, &cq, &fab.cq, NULL));
	check("bind av", fi_ep_bind(fab.ep, &fab.av->fid, 0));
	check("bind cq", fi_ep_bind(fab.ep, &fab.cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(fab.ep));
}

static void addresses_swap(struct bench *b)
{
	char mine[ADDR_MAX], theirs[ADDR_MAX];
	size_t len = sizeof(mine);
	uint32_t n;

	check("fi_getname", fi_getname(&fab.ep->fid, mine, &len));
	n = (uint32_t)len;
	oob_send(b, &n, sizeof(n));
	oob_send(b, mine, len);
	oob_recv(b, &n, sizeof(n));
	if (n > sizeof(theirs))
		die("the other side's address is too long: %u", n);
	oob_recv(b, theirs, n);
	if (fi_av_insert(fab.av, theirs, 1, &fab.peer, 0, NULL) != 1)
		die("fi_av_insert refused the other side's address");
}

static void fabric_close(struct bench *b)
{
	(void)b;
	check("close ep", fi_close(&fab.ep->fid));
	check("close cq", fi_close(&fab.cq->fid));
	check("close av", fi_close(&fab.av->fid));
	check("close domain", fi_close(&fab.domain->fid));
	check("close fabric", fi_close(&fab.fabric->fid));
	fi_freeinfo(fab.info);
}

static void fabric_open(struct bench *b)
{
	endpoint_open(b);
	b->open = true;
	addresses_swap(b);
}

const struct transport transport_fabric = {
	.open = fabric_open,
	.send = fabric_send,
	.recv = fabric_recv,
	.progress = fabric_progress,
	.wait = fabric_wait,
	.close = fabric_close,
};

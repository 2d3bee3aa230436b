/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What all endpoints of a process share of one NIC for direct writes: a context and a protection domain, one shared
 * receive queue and two completion queues, pieces to send from, registrations of memory to send from. Made by the first
 * endpoint, gone with the last.
 *
 * Writes take receives without a buffer off one shared queue. There are as many as peers were granted, and as many
 * again for what comes late, is refused, or was granted before another endpoint took its share.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/defaults.h"
#include "nic/verbs/verbs_probe.h"

#define SRQ_MIN 8
#define TX_MIN 64
/* Registrations of the caller's memory that are kept while nothing is sent from it. */
#define SOURCES 1024
#define SOURCE_BYTES (1ull << 30)
/* Packets of a write, where the NIC stands losing one of them. */
#define WRITE_PACKETS 32 /* what is sent again has room for 64 pieces, which are a little smaller */

static TAILQ_HEAD(, uc_dev) devs = TAILQ_HEAD_INITIALIZER(devs);
static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;

/* Memory that writes are sent from. */

static int source_reg(void *arg, uintptr_t start, uint64_t len, void **mr)
{
	struct uc_dev *d = arg;

	*mr = d->lib->reg_mr(d->pd, (void *)start, len, 0);
	return *mr ? 0 : uccl_verbs_error();
}

static void source_dereg(void *arg, void *mr)
{
	struct uc_dev *d = arg;

	uccl_verbs_dereg(d->lib, mr, d->port.name);
}

static const struct uccl_mrcache_ops source_ops = {.reg = source_reg, .dereg = source_dereg};

/* The NIC reads a write's payload no more. */
static void write_freed(void *arg, const struct uccl_verbs_sent *sent)
{
	struct uc_dev *d = arg;
	struct uc_peer *peer = sent->owner;
	struct uc *w = peer->w;

	if (sent->source)
		uccl_mrcache_put(d->sources, sent->source);
	if (sent->gpu)
		uccl_devcache_put(d->gpu_sources.cache, sent->gpu);
	uccl_uc_done(w, sent->cookie, peer->id);
	uccl_uc_kick(w);
}

/* Queues. */

void uccl_uc_dev_post(struct uc_dev *d)
{
	struct ibv_recv_wr wr[UC_CHAIN], *bad;
	uint32_t n, i;
	int err;

	while (d->srq_due) {
		n = (uint32_t)uccl_min(d->srq_due, UC_CHAIN);
		memset(wr, 0, n * sizeof(wr[0]));
		for (i = 0; i + 1 < n; i++)
			wr[i].next = &wr[i + 1];
		bad = wr;
		err = d->lib->post_srq_recv(d->srq, wr, &bad);
		d->srq_due -= err ? (uint32_t)(bad - wr) : n;
		if (!err)
			continue;
		UCCL_LOG(UCCL_LOG_INFO, "%s: the NIC refuses receives for direct writes: %s", d->port.name,
			 strerror(err));
		return;
	}
}

static int queues_make(struct uc_dev *d)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = d->srq_depth, .max_sge = 1}};

	/* Neither overflows: there are no more sends than pieces, and what ended queue pairs left is read before. */
	d->tx_cq = d->lib->create_cq(d->ctx, (int)(2 * d->tx.count), NULL, d->channel, 0);
	d->rx_cq = d->tx_cq ? d->lib->create_cq(d->ctx, (int)d->srq_depth, NULL, d->channel, 0) : NULL;
	d->srq = d->rx_cq ? d->lib->create_srq(d->pd, &attr) : NULL;
	if (!d->srq)
		return uccl_verbs_error();
	d->srq_due = d->srq_depth;
	uccl_uc_dev_post(d);
	return d->srq_due ? -FI_EIO : 0;
}

static void queues_end(struct uc_dev *d)
{
	if (d->srq)
		d->lib->destroy_srq(d->srq);
	if (d->rx_cq)
		d->lib->destroy_cq(d->rx_cq);
	if (d->tx_cq)
		d->lib->destroy_cq(d->tx_cq);
	d->srq = NULL;
	d->rx_cq = d->tx_cq = NULL;
	d->rx_armed = d->tx_armed = false;
}

/*
 * One of them broke, and with it all that stands there: new ones, and the queue pairs are made anew with the peers.
 * Meanwhile packets serve; for ever if there are no new ones.
 */
static void queues_renew(struct uc_dev *d)
{
	struct uc *w;

	uccl_uc_paths_end(d);
	queues_end(d);
	/* Their receives went with the queue. */
	TAILQ_FOREACH(w, &d->endpoints, all)
		w->arrived_tail = w->arrived_head;
	if (!queues_make(d)) {
		d->stats.renewed++;
		return;
	}
	UCCL_LOG(UCCL_LOG_WARN, "%s: cannot make the queues for direct writes again; packets are used from now on",
		 d->port.name);
	d->link = UCCL_LINK_GONE;
	uccl_uc_paths_end(d);
}

void uccl_uc_dev_arm(struct uc_dev *d, bool ready)
{
	struct ibv_cq *cq;
	void *user;

	/* Each queue has one event for each time that one was asked for. */
	for (int i = 0; i < 2 && ready && !d->lib->get_cq_event(d->channel, &cq, &user); i++) {
		d->lib->ack_cq_events(cq, 1);
		*(cq == d->rx_cq ? &d->rx_armed : &d->tx_armed) = false;
	}
	if (!d->rx_armed)
		d->rx_armed = !d->lib->req_notify_cq(d->rx_cq, 0);
	if (!d->tx_armed)
		d->tx_armed = !d->lib->req_notify_cq(d->tx_cq, 0);
}

/* The NIC itself. */

static void event_take(struct uc_dev *d, const struct ibv_async_event *e)
{
	uint32_t before = d->port.gid_index;
	struct uc_path *p;

	switch (e->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		p = uccl_uc_path_find(d, e->element.qp->qp_num);
		if (p)
			uccl_uc_path_broke(d, p);
		break;
	case IBV_EVENT_CQ_ERR:
		if (e->element.cq == d->tx_cq || e->element.cq == d->rx_cq)
			queues_renew(d);
		break;
	case IBV_EVENT_SRQ_ERR:
		if (e->element.srq == d->srq)
			queues_renew(d);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		d->link = UCCL_LINK_GONE;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		d->link = uccl_verbs_look(d->lib, d->ctx, &d->port);
		if (d->port.gid_index != before)
			uccl_uc_paths_end(d);
		break;
	default:
		break;
	}
}

void uccl_uc_dev_events(struct uc_dev *d)
{
	struct ibv_async_event e;

	errno = 0;
	while (d->link != UCCL_LINK_GONE && !d->lib->get_async_event(d->ctx, &e)) {
		/* Before a queue or a queue pair goes, all news of it must be acknowledged. */
		d->lib->ack_async_event(&e);
		event_take(d, &e);
		errno = 0;
	}
	if (errno && errno != EAGAIN && errno != EINTR)
		d->link = UCCL_LINK_GONE;
}

uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, uint32_t wanted)
{
	return wanted ? (uint32_t)uccl_clamp(wanted, port->mtu, WRITE_PACKETS * port->mtu) : UCCL_VERBS_WRITE;
}

/*
 * Soft-RoCE's UC is dead for ever after the loss of a packet in the middle of a write, or of its last. Of other NICs
 * nothing is known: a path that swallows writes is made anew (PROTOCOL R84).
 */
bool uccl_verbs_write_brittle(const struct uccl_verbs_port *port, enum ibv_qp_type type, uint32_t wanted)
{
	return !wanted && type == IBV_QPT_UC && !strcmp(port->driver, "rxe");
}

/* Opening and closing; devs_lock is held. */

static int queues_open(struct uc_dev *d, uint32_t write_max)
{
	int err = uccl_verbs_slab_open(d->lib, d->pd, d->port.name, &d->tx, write_max,
				       (uint32_t)uccl_min(UC_TX_SLOTS, d->port.max_cqe / 2), TX_MIN, 0, true);

	if (!err)
		err = uccl_mrcache_open(&source_ops, d, SOURCES, SOURCE_BYTES, &d->sources);
	d->gpu_sources = (struct uccl_verbs_gpu_keep){.gpus = &d->gpus, .lib = d->lib, .pd = d->pd,
						      .name = d->port.name};
	if (!err)
		err = uccl_verbs_gpu_keep_open(&d->gpu_sources);
	if (err)
		return err;
	d->tx.freed = write_freed;
	d->tx.freed_arg = d;
	d->channel = d->lib->create_comp_channel(d->ctx);
	if (!d->channel || fcntl(d->channel->fd, F_SETFL, fcntl(d->channel->fd, F_GETFL) | O_NONBLOCK) ||
	    fcntl(d->ctx->async_fd, F_SETFL, fcntl(d->ctx->async_fd, F_GETFL) | O_NONBLOCK))
		return uccl_verbs_error();
	err = queues_make(d);
	return !err && uccl_uc_probe(d) ? -FI_ENOSYS : err;
}

/*
 * Windows, if the NIC's do what the manuals say. Without them memory is registered for each message that is written:
 * no error.
 */
static void windows_open(struct uc_dev *d, enum uccl_windows wanted)
{
	struct uccl_verbs_probe p;
	const char *what;
	int err;

	if (wanted == UCCL_WINDOWS_OFF || !d->port.max_mw || d->link != UCCL_LINK_UP)
		return;
	err = uccl_verbs_probe_windows(d->lib, d->ctx, &d->port, d->clock, &p, &what);
	if (!err && !uccl_verbs_probe_window_use(&p, wanted == UCCL_WINDOWS_ON)) {
		UCCL_LOG(UCCL_LOG_INFO, "%s: no memory windows: writes %s", d->port.name,
			 p.windows != UCCL_PROBE_YES	     ? "do not arrive through them" :
			 p.window_fences != UCCL_PROBE_YES ? "arrive when they have ended" :
							     "arrive beyond their bounds");
		return;
	}
	if (!err) {
		what = "keep memory registered for them";
		err = uccl_verbs_mws_open(d->lib, d->ctx, d->pd, &d->port, d->clock, &d->windows);
	}
	if (err)
		UCCL_LOG(UCCL_LOG_INFO, "%s: no memory windows: cannot %s: %s", d->port.name, what, strerror(-err));
}

static void dev_close(struct uc_dev *d)
{
	queues_end(d);
	if (d->windows)
		uccl_verbs_mws_close(d->windows);
	if (d->channel)
		d->lib->destroy_comp_channel(d->channel);
	if (d->sources)
		uccl_mrcache_close(d->sources);
	uccl_verbs_gpu_keep_close(&d->gpu_sources);
	uccl_verbs_slab_close(d->lib, &d->tx);
	if (d->pd)
		d->lib->dealloc_pd(d->pd);
	if (d->ctx)
		d->lib->close_device(d->ctx);
	pthread_mutex_destroy(&d->lock);
	free(d->slot);
	free(d);
}

static int dev_open(struct uc_dev *d, const struct uccl_nic_attr *attr, uint32_t slots)
{
	uint32_t depth = attr->srq_depth ? attr->srq_depth : 4 * slots;
	int err = uccl_verbs_open(d->lib, attr->ifname, attr->bind.ip, attr->linkless, &d->port, &d->ctx);

	if (err)
		return err;
	d->link = d->port.up ? UCCL_LINK_UP : UCCL_LINK_DOWN;
	d->pd = d->lib->alloc_pd(d->ctx);
	if (!d->pd)
		return uccl_verbs_error();
	if (getrandom(&d->process, sizeof(d->process), 0) != sizeof(d->process))
		return -FI_EIO;
	d->srq_depth = (uint32_t)uccl_min(depth, uccl_min(d->port.max_srq_wr, d->port.max_cqe));
	d->slot = calloc(d->max_qp, sizeof(*d->slot));
	if (!d->slot)
		return -FI_ENOMEM;
	if (d->srq_depth < SRQ_MIN)
		return -FI_ENOSPC;
	err = queues_open(d, uccl_verbs_write_max(&d->port, attr->write_bytes));
	if (!err)
		windows_open(d, attr->windows);
	return err;
}

static struct uc_dev *dev_new(const struct uc_dev_key *key, const struct uccl_nic_attr *attr, const struct ud *u)
{
	struct uc_dev *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->key = *key;
	d->lib = key->lib;
	d->clock = key->clock;
	d->type = key->type;
	d->mark = key->mark;
	d->labels = u->flows > 1;
	d->tx.nodes = attr->nodes;
	d->max_qp = (uint32_t)uccl_clamp(attr->max_qp ? attr->max_qp : UC_QPS, 1, UC_QPS_MAX);
	d->budget = attr->budget ? attr->budget : &d->own_budget;
	pthread_mutex_init(&d->lock, NULL);
	TAILQ_INIT(&d->endpoints);
	TAILQ_INIT(&d->sets);
	TAILQ_INIT(&d->waiting);
	return d;
}

int uccl_uc_dev_get(const struct uccl_verbs *lib, uint64_t (*clock)(void), enum ibv_qp_type type,
		    const struct uccl_nic_attr *attr, struct uc *w)
{
	const struct ud *u = w->ud;
	struct uc_dev_key key;
	struct uc_dev *d;
	int err = 0;

	memset(&key, 0, sizeof(key));
	key.lib = lib;
	key.clock = clock;
	key.type = type;
	key.budget = attr->budget;
	key.max_qp = attr->max_qp;
	key.srq_depth = attr->srq_depth;
	key.write_bytes = attr->write_bytes;
	key.windows = attr->windows;
	key.mark = u->mark[0];
	key.port = u->port.port;
	memcpy(key.name, u->port.name, sizeof(key.name));
	memcpy(key.ip, u->port.addr.ip, sizeof(key.ip));
	pthread_mutex_lock(&devs_lock);
	TAILQ_FOREACH(d, &devs, all)
		if (!memcmp(&d->key, &key, sizeof(key)))
			break;
	if (!d) {
		d = dev_new(&key, attr, u);
		err = d ? dev_open(d, attr, u->nic.caps.rx_slots) : -FI_ENOMEM;
		if (!err)
			TAILQ_INSERT_TAIL(&devs, d, all);
		else if (d)
			dev_close(d);
	}
	if (!err) {
		w->dev = d;
		uc_lock(w);
		TAILQ_INSERT_TAIL(&d->endpoints, w, all);
		d->nendpoints++;
		uc_unlock(w);
	}
	pthread_mutex_unlock(&devs_lock);
	return err;
}

void uccl_uc_dev_put(struct uc *w)
{
	struct uc_dev *d = w->dev;

	pthread_mutex_lock(&devs_lock);
	uc_lock(w);
	TAILQ_REMOVE(&d->endpoints, w, all);
	d->nendpoints--;
	uc_unlock(w);
	if (!d->nendpoints) {
		TAILQ_REMOVE(&devs, d, all);
		dev_close(d);
	}
	pthread_mutex_unlock(&devs_lock);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What all endpoints of a process share of one NIC for direct writes: a context, a protection domain, queues, buffers,
 * and registrations of memory to send from. The first endpoint makes it, the last one frees it.
 */
#include "nic/verbs/uc_state.h"

#ifdef HAVE_VERBS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/defaults.h"
#include "nic/verbs/verbs_probe.h"

#define SRQ_MIN 8
/* Most packets of a write, on a NIC that stands losing one. Sent again, it has up to 64 segments, a little smaller. */
#define WRITE_PACKETS 32

static TAILQ_HEAD(, uc_dev) devs = TAILQ_HEAD_INITIALIZER(devs);
static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;

/* The NIC itself. */

/* Without new queues packets serve for ever. */
static void queues_renew(struct uc_dev *d)
{
	if (uccl_uc_queues_renew(d))
		return;
	UCCL_LOG(UCCL_LOG_WARN, "%s: cannot make the queues for direct writes again; packets are used from now on",
		 d->port.name);
	uc_dev_gone(d);
	uccl_uc_paths_end(d);
}

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
		if (e->element.cq == d->queues.tx_cq || e->element.cq == d->queues.rx_cq)
			queues_renew(d);
		break;
	case IBV_EVENT_SRQ_ERR:
		if (e->element.srq == d->queues.srq)
			queues_renew(d);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		uc_dev_gone(d);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		d->link = uccl_verbs_port_state(d->lib, d->ctx, &d->port);
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
	int rc = 0;

	while (d->link != UCCL_LINK_GONE && (rc = uccl_verbs_event(d->lib, d->ctx, &e)) > 0)
		event_take(d, &e);
	if (rc < 0)
		uc_dev_gone(d);
}

uint32_t uccl_verbs_write_max(const struct uccl_verbs_port *port, uint32_t wanted)
{
	return wanted ? (uint32_t)uccl_clamp(wanted, port->mtu, WRITE_PACKETS * port->mtu) : UCCL_VERBS_WRITE;
}

/*
 * On Soft-RoCE, a UC queue pair never works again after the loss of a packet in the middle or at the end of a write. On
 * other NICs this is unknown: a path on which writes vanish is replaced (PROTOCOL R84).
 */
bool uccl_verbs_write_brittle(const struct uccl_verbs_port *port, enum ibv_qp_type type, uint32_t wanted)
{
	return !wanted && type == IBV_QPT_UC && !strcmp(port->driver, "rxe");
}

/* Opening and closing; devs_lock is held. */

/*
 * Memory windows, if those of the NIC do what the manuals say. Without them memory is registered for each message: that
 * is no error.
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
	uccl_uc_queues_close(d);
	if (d->windows)
		uccl_verbs_mws_close(d->windows);
	uccl_uc_tx_close(d);
	if (d->pd)
		d->lib->dealloc_pd(d->pd);
	if (d->ctx)
		d->lib->close_device(d->ctx);
	pthread_mutex_destroy(&d->lock);
	uccl_uc_sets_close(d);
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
	depth = (uint32_t)uccl_min(depth, uccl_min(d->port.max_srq_wr, d->port.max_cqe));
	if (depth < SRQ_MIN)
		return -FI_ENOSPC;
	err = uccl_uc_sets_open(d, attr->max_qp, attr->budget);
	if (!err)
		err = uccl_uc_tx_open(d, uccl_verbs_write_max(&d->port, attr->write_bytes), attr->nodes);
	if (!err)
		err = uccl_uc_queues_open(d, depth);
	if (!err && uccl_uc_probe(d))
		err = -FI_ENOSYS;
	if (!err)
		windows_open(d, attr->windows);
	return err;
}

static struct uc_dev *dev_new(const struct uc_dev_key *key, const struct ud *u)
{
	struct uc_dev *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->key = *key;
	d->lib = key->lib;
	d->clock = key->clock;
	d->labels = u->flows > 1;
	pthread_mutex_init(&d->lock, NULL);
	TAILQ_INIT(&d->endpoints);
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
		d = dev_new(&key, u);
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

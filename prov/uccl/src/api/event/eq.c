/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See eq.h. A list of events in order; an error is one of them. */
#include "api/event/eq.h"

#include <rdma/fi_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/event/waitset.h"
#include "api/lib/lib.h"
#include "api/lib/nosys.h"
#include "api/object/fabric.h"
#include "progress/drivers.h"

struct uccl_event {
	STAILQ_ENTRY(uccl_event) link;
	bool error;
	bool peer;		/* the end of a peer */
	uint32_t event;
	size_t len;
	const struct fid *cm;	/* of a connection or a peer of this endpoint */
	struct fi_info *info;	/* FI_CONNREQ: the reader's when it is read */
	struct fi_eq_err_entry err;
	uint8_t data[];		/* of an error: err_data */
};

static void event_free(struct uccl_event *ev)
{
	if (ev && ev->info)
		uccl_lib.freeinfo(ev->info);
	free(ev);
}

static int event_put(struct uccl_eq *eq, struct uccl_event *ev)
{
	if (!ev)
		return -FI_ENOMEM;
	pthread_mutex_lock(&eq->lock);
	STAILQ_INSERT_TAIL(&eq->events, ev, link);
	pthread_mutex_unlock(&eq->lock);
	uccl_wait_signal(&eq->wait.w);
	return 0;
}

int uccl_eq_push(struct uccl_eq *eq, uint32_t event, const void *entry, size_t len)
{
	struct uccl_event *ev = calloc(1, sizeof(*ev) + len);

	if (ev) {
		ev->event = event;
		ev->len = len;
		memcpy(ev->data, entry, len);
	}
	return event_put(eq, ev);
}

int uccl_eq_push_error(struct uccl_eq *eq, const struct fi_eq_err_entry *err)
{
	struct uccl_event *ev = calloc(1, sizeof(*ev));

	if (ev) {
		ev->error = true;
		ev->err = *err;
	}
	return event_put(eq, ev);
}

int uccl_eq_push_cm(struct uccl_eq *eq, uint32_t event, struct fid *fid, struct fi_info *info, const void *data,
		    size_t len)
{
	struct fi_eq_cm_entry entry = { .fid = fid, .info = info };
	struct uccl_event *ev = calloc(1, sizeof(*ev) + sizeof(entry) + len);

	if (ev) {
		ev->event = event;
		ev->cm = fid;
		ev->info = info;
		ev->len = sizeof(entry) + len;
		memcpy(ev->data, &entry, sizeof(entry));
		if (len)
			memcpy(ev->data + sizeof(entry), data, len);
	} else if (info) {
		uccl_lib.freeinfo(info);
	}
	return event_put(eq, ev);
}

int uccl_eq_push_cm_error(struct uccl_eq *eq, struct fid *fid, int err, const void *data, size_t len)
{
	struct uccl_event *ev = calloc(1, sizeof(*ev) + len);

	if (ev) {
		ev->error = true;
		ev->cm = fid;
		ev->err.fid = fid;
		ev->err.context = fid->context;
		ev->err.err = ev->err.prov_errno = err;
		ev->len = len;
		if (len)
			memcpy(ev->data, data, len);
	}
	return event_put(eq, ev);
}

void uccl_eq_push_peer(struct uccl_eq *eq, struct fid *fid, fi_addr_t peer, int err)
{
	struct uccl_event *ev = calloc(1, sizeof(*ev));
	bool room;

	pthread_mutex_lock(&eq->lock);
	room = ev && eq->npeers < UCCL_EQ_PEERS;
	eq->npeers += room;
	pthread_mutex_unlock(&eq->lock);
	if (!room) {
		free(ev);
		return;
	}
	ev->error = ev->peer = true;
	ev->cm = fid;
	ev->err = (struct fi_eq_err_entry){
		.fid = fid, .context = fid->context, .data = peer, .err = err, .prov_errno = err};
	event_put(eq, ev);
}

/* The first event is not in the queue any more. */
static struct uccl_event *event_take(struct uccl_eq *eq)
{
	struct uccl_event *ev = STAILQ_FIRST(&eq->events);

	STAILQ_REMOVE_HEAD(&eq->events, link);
	eq->npeers -= ev->peer;
	return ev;
}

void uccl_eq_forget(struct uccl_eq *eq, const struct fid *fid)
{
	STAILQ_HEAD(, uccl_event) kept = STAILQ_HEAD_INITIALIZER(kept);
	struct uccl_event *ev;

	pthread_mutex_lock(&eq->lock);
	while ((ev = STAILQ_FIRST(&eq->events))) {
		if (ev->cm == fid) {
			event_free(event_take(eq));
		} else {
			STAILQ_REMOVE_HEAD(&eq->events, link);
			STAILQ_INSERT_TAIL(&kept, ev, link);
		}
	}
	STAILQ_CONCAT(&eq->events, &kept);
	pthread_mutex_unlock(&eq->lock);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct uccl_eq *eq = uccl_eq_of(&fid->fid);
	struct uccl_event *ev;
	ssize_t rc;

	uccl_wait_awake(&eq->wait.w);
	if (eq->drivers.n)
		uccl_drivers_poll(&eq->drivers);
	pthread_mutex_lock(&eq->lock);
	ev = STAILQ_FIRST(&eq->events);
	if (!ev) {
		rc = -FI_EAGAIN;
	} else if (ev->error) {
		rc = -FI_EAVAIL;
	} else if (buf && len < ev->len) {
		rc = -FI_ETOOSMALL;
	} else {
		/* Without a buffer the program gets only the kind of event, as from libfabric's own event queue. */
		rc = buf ? (ssize_t)ev->len : 0;
		*event = ev->event;
		if (buf)
			memcpy(buf, ev->data, ev->len);
		if (!(flags & FI_PEEK)) {
			STAILQ_REMOVE_HEAD(&eq->events, link);
			/* Who has read it has the fi_info now. */
			if (buf)
				ev->info = NULL;
			event_free(ev);
		}
	}
	pthread_mutex_unlock(&eq->lock);
	return rc;
}

/* Into the reader's own buffer if there is one, as since interface 1.5; else ours is lent. */
static void give_err_data(const struct uccl_eq *eq, struct uccl_event *ev, struct fi_eq_err_entry *buf)
{
	bool sized = uccl_fabric_api(eq->fabric, 1, 5);

	if (sized && buf->err_data && buf->err_data_size) {
		buf->err_data_size = uccl_min(buf->err_data_size, ev->len);
		memcpy(buf->err_data, ev->data, buf->err_data_size);
		return;
	}
	buf->err_data = ev->len ? ev->data : NULL;
	if (sized)
		buf->err_data_size = ev->len;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct uccl_eq *eq = uccl_eq_of(&fid->fid);
	ssize_t rc = -FI_EAGAIN;
	struct uccl_event *ev;

	pthread_mutex_lock(&eq->lock);
	ev = STAILQ_FIRST(&eq->events);
	if (ev && ev->error) {
		buf->fid = ev->err.fid;
		buf->context = ev->err.context;
		buf->data = ev->err.data;
		buf->err = ev->err.err;
		buf->prov_errno = ev->err.prov_errno;
		give_err_data(eq, ev, buf);
		rc = sizeof(*buf);
		if (!(flags & FI_PEEK)) {
			event_free(eq->last_err);
			eq->last_err = event_take(eq);
		}
	}
	pthread_mutex_unlock(&eq->lock);
	return rc;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct uccl_eq *eq = uccl_eq_of(&fid->fid);
	int rc;

	(void)flags;
	if (!eq->writable)
		return -FI_EINVAL;
	rc = uccl_eq_push(eq, event, buf, len);
	return rc ? rc : (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	struct uccl_eq *eq = uccl_eq_of(&fid->fid);
	struct uccl_sleep sleep;
	ssize_t rc;

	if (eq->wait.obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	uccl_sleep_begin(&sleep, &eq->wait.w, &eq->drivers, NULL, timeout);
	do {
		rc = eq_read(fid, event, buf, len, flags);
	} while (rc == -FI_EAGAIN && uccl_sleep(&sleep));
	uccl_sleep_end(&sleep);
	return rc;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	const char *text = uccl_lib.strerror(prov_errno < 0 ? -prov_errno : prov_errno);

	(void)fid;
	(void)err_data;
	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static int eq_close(struct fid *fid)
{
	struct uccl_eq *eq = uccl_eq_of(fid);
	struct uccl_event *ev;

	if (atomic_load(&eq->refs))
		return -FI_EBUSY;
	while ((ev = STAILQ_FIRST(&eq->events))) {
		STAILQ_REMOVE_HEAD(&eq->events, link);
		event_free(ev);
	}
	event_free(eq->last_err);
	uccl_drivers_fini(&eq->drivers);
	atomic_fetch_sub(&eq->fabric->refs, 1);
	uccl_waitset_remove(&eq->wait);
	pthread_mutex_destroy(&eq->lock);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return uccl_waitobj_control(&uccl_eq_of(fid)->wait, command, arg);
}

static struct fi_ops eq_fid_ops = UCCL_FID_OPS(eq_close, uccl_no_bind, eq_control);

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int uccl_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	struct uccl_eq *eq = calloc(1, sizeof(*eq));
	int rc;

	if (!eq)
		return -FI_ENOMEM;
	rc = uccl_waitset_add(&eq->wait, attr ? attr->wait_obj : FI_WAIT_NONE, attr ? attr->wait_set : NULL,
			      &eq->fid.fid);
	if (rc) {
		free(eq);
		return rc;
	}
	eq->fabric = uccl_fabric_of(&fabric->fid);
	eq->writable = attr && attr->flags & FI_WRITE;
	pthread_mutex_init(&eq->lock, NULL);
	STAILQ_INIT(&eq->events);
	uccl_drivers_init(&eq->drivers, true);
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	atomic_fetch_add(&eq->fabric->refs, 1);
	*out = &eq->fid;
	return 0;
}

int uccl_eq_trywait(struct uccl_eq *eq)
{
	bool empty;

	if (eq->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	uccl_wait_enter_outside(&eq->wait.w);
	if (eq->drivers.n)
		uccl_drivers_poll(&eq->drivers);
	pthread_mutex_lock(&eq->lock);
	empty = STAILQ_EMPTY(&eq->events);
	pthread_mutex_unlock(&eq->lock);
	if (empty) {
		uccl_wait_until_outside(&eq->wait.w, uccl_drivers_expiry(&eq->drivers));
		return 0;
	}
	uccl_wait_leave_outside(&eq->wait.w);
	return -FI_EAGAIN;
}

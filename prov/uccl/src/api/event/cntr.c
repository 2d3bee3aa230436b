/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See cntr.h. */
#include "api/event/cntr.h"

#include <sched.h>
#include <stdlib.h>

#include "api/event/waitset.h"
#include "api/lib/nosys.h"
#include "api/object/domain.h"

/* Who moves it. */
static struct uccl_drivers *movers(struct uccl_cntr *c)
{
	return atomic_load_explicit(&c->of_mr, memory_order_relaxed) ? &c->domain->all : &c->drivers;
}

void uccl_cntr_of_mr(struct uccl_cntr *c)
{
	if (!atomic_exchange(&c->of_mr, true))
		uccl_domain_add_sleeper(c->domain, &c->sleeper);
}

void uccl_cntr_count(struct uccl_cntr *cntr, bool good)
{
	atomic_fetch_add(good ? &cntr->good : &cntr->bad, 1);
	uccl_triggers_moved(&cntr->domain->triggers);
	uccl_wait_signal(&cntr->wait.w);
}

/* The program reads this value now. */
static uint64_t value_read(const _Atomic uint64_t *v, _Atomic uint64_t *read)
{
	uint64_t value = atomic_load(v);

	atomic_store(read, value);
	return value;
}

/* Programs spin on this, so it runs the engines. */
static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);

	uccl_wait_awake(&c->wait.w);
	uccl_drivers_poll(movers(c));
	uccl_drivers_attend(&c->domain->drivers, movers(c));
	return value_read(&c->good, &c->good_read);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);

	uccl_drivers_poll(movers(c));
	return value_read(&c->bad, &c->bad_read);
}

static int change(struct uccl_cntr *c, _Atomic uint64_t *v, uint64_t value, bool add)
{
	if (add)
		atomic_fetch_add(v, value);
	else
		atomic_store(v, value);
	uccl_wait_signal(&c->wait.w);
	uccl_triggers_moved(&c->domain->triggers);
	if (uccl_triggers_due(&c->domain->triggers))
		uccl_triggers_run(&c->domain->triggers);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);

	return change(c, &c->good, value, true);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);

	return change(c, &c->good, value, false);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);

	return change(c, &c->bad, value, true);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);

	return change(c, &c->bad, value, false);
}

/* A program that waits although it said that it never would (FI_WAIT_NONE) waits awake. */
static int cntr_spin(struct uccl_cntr *c, uint64_t threshold, int timeout)
{
	uint64_t bad = atomic_load(&c->bad), end = uccl_clock() + (uint64_t)timeout * UCCL_NS_PER_MS;

	while (cntr_read(&c->fid) < threshold) {
		if (atomic_load(&c->bad) != bad)
			return -FI_EAVAIL;
		if (timeout >= 0 && uccl_clock() >= end)
			return -FI_ETIMEDOUT;
		sched_yield();
	}
	return 0;
}

/* Ends when the threshold is reached, when another operation failed, or when the time is over. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct uccl_cntr *c = uccl_cntr_of(&fid->fid);
	uint64_t bad = atomic_load(&c->bad);
	struct uccl_sleep sleep;
	int rc = 1;

	if (c->wait.obj == FI_WAIT_NONE)
		return cntr_spin(c, threshold, timeout);
	uccl_sleep_begin(&sleep, &c->wait.w, movers(c), &c->domain->drivers, timeout);
	do {
		if (cntr_read(fid) >= threshold)
			rc = 0;
		else if (atomic_load(&c->bad) != bad)
			rc = -FI_EAVAIL;
	} while (rc > 0 && uccl_sleep(&sleep));
	uccl_sleep_end(&sleep);
	return rc > 0 ? -FI_ETIMEDOUT : rc;
}

int uccl_cntr_trywait(struct uccl_cntr *c)
{
	uint64_t good, bad;
	bool moved;

	if (c->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	uccl_wait_enter_outside(&c->wait.w);
	uccl_drivers_poll(movers(c));
	good = atomic_load(&c->good);
	bad = atomic_load(&c->bad);
	/* Also what another thread counted, or a round for another object, before this call. */
	moved = atomic_exchange(&c->good_read, good) != good;
	moved |= atomic_exchange(&c->bad_read, bad) != bad;
	if (moved) {
		uccl_wait_leave_outside(&c->wait.w);
		return -FI_EAGAIN;
	}
	uccl_wait_until_outside(&c->wait.w,
				uccl_min(uccl_drivers_expiry(movers(c)), uccl_drivers_expiry(&c->domain->drivers)));
	return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	return uccl_waitobj_control(&uccl_cntr_of(fid)->wait, command, arg);
}

static int cntr_close(struct fid *fid)
{
	struct uccl_cntr *c = uccl_cntr_of(fid);

	if (atomic_load(&c->refs))
		return -FI_EBUSY;
	uccl_domain_remove_sleeper(c->domain, &c->sleeper);
	atomic_fetch_sub(&c->domain->refs, 1);
	uccl_drivers_fini(&c->drivers);
	uccl_waitset_remove(&c->wait);
	free(c);
	return 0;
}

static struct fi_ops cntr_fid_ops = UCCL_FID_OPS(cntr_close, uccl_no_bind, cntr_control);

static struct uccl_ops_cntr cntr_ops = {
	.known = {
		.size = sizeof(struct uccl_ops_cntr),
		.read = cntr_read,
		.readerr = cntr_readerr,
		.add = cntr_add,
		.set = cntr_set,
		.wait = cntr_wait,
		.adderr = cntr_adderr,
		.seterr = cntr_seterr,
	},
	UCCL_XPU_ENTRY(export_xpu, uccl_no_xpu_cntr),
};

int uccl_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
	struct uccl_cntr *c;
	int rc;

	if (attr && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags))
		return -FI_EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	rc = uccl_waitset_add(&c->wait, attr ? attr->wait_obj : FI_WAIT_NONE, attr ? attr->wait_set : NULL,
			      &c->fid.fid);
	if (rc) {
		free(c);
		return rc;
	}
	c->domain = uccl_domain_of(&domain->fid);
	c->sleeper.wait = &c->wait.w;
	uccl_drivers_init(&c->drivers, c->domain->locking);
	c->fid.fid.fclass = FI_CLASS_CNTR;
	c->fid.fid.context = context;
	c->fid.fid.ops = &cntr_fid_ops;
	c->fid.ops = &cntr_ops.known;
	atomic_fetch_add(&c->domain->refs, 1);
	*out = &c->fid;
	return 0;
}

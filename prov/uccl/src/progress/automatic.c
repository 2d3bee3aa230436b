/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "progress/automatic.h"

#include "progress/thread.h"

static int driver_poll(void *arg)
{
	return uccl_driver_run(arg);
}

static uint64_t driver_expiry(void *arg)
{
	return uccl_driver_expiry(arg);
}

static void *automatic_main(void *arg)
{
	const struct uccl_wait_work work = { .poll = driver_poll, .expiry = driver_expiry, .arg = arg };
	struct uccl_driver *d = arg;

	uccl_wait_serve(&d->own, &d->stop, &work);
	return NULL;
}

int uccl_automatic_start(struct uccl_driver *d)
{
	int rc;

	rc = uccl_wait_open(&d->own);
	if (rc)
		return rc;
	rc = uccl_driver_wakes(d, &d->own);
	if (rc)
		goto fail;
	atomic_store(&d->stop, false);
	rc = -uccl_thread_start(&d->thread, automatic_main, d);
	if (rc)
		goto fail;
	d->automatic = true;
	uccl_driver_add_wait(d, &d->own);
	return 0;
fail:
	uccl_wait_close(&d->own);
	return rc;
}

void uccl_automatic_stop(struct uccl_driver *d)
{
	if (!d->automatic)
		return;
	atomic_store(&d->stop, true);
	uccl_wait_force(&d->own);
	pthread_join(d->thread, NULL);
	uccl_wait_close(&d->own);
	d->automatic = false;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See domain.h. */
#include "api/object/domain.h"

#include <string.h>

#include "api/offer/device.h"
#include "progress/driver.h"

int uccl_domain_join(struct uccl_domain *d, struct uccl_driver *driver)
{
	int rc = uccl_drivers_add(&d->all, driver);

	uccl_lock_take(&d->all.lock);
	for (struct uccl_sleeper *s = d->sleepers; s; s = s->next)
		uccl_driver_watch_by(driver, s->wait);
	uccl_lock_give(&d->all.lock);
	if (!rc)
		rc = uccl_drivers_add(&d->drivers, driver);
	return rc;
}

void uccl_domain_leave(struct uccl_domain *d, struct uccl_driver *driver)
{
	uccl_drivers_remove(&d->drivers, driver);
	uccl_drivers_remove(&d->all, driver);
	uccl_lock_take(&d->all.lock);
	for (struct uccl_sleeper *s = d->sleepers; s; s = s->next)
		uccl_driver_unwatch_by(driver, s->wait);
	uccl_lock_give(&d->all.lock);
}

void uccl_domain_add_sleeper(struct uccl_domain *d, struct uccl_sleeper *s)
{
	uccl_lock_take(&d->all.lock);
	s->next = d->sleepers;
	d->sleepers = s;
	for (unsigned int i = 0; i < d->all.n; i++)
		uccl_driver_watch_by(d->all.v[i], s->wait);
	uccl_lock_give(&d->all.lock);
}

void uccl_domain_remove_sleeper(struct uccl_domain *d, struct uccl_sleeper *s)
{
	uccl_lock_take(&d->all.lock);
	for (struct uccl_sleeper **p = &d->sleepers; *p; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
	uccl_lock_give(&d->all.lock);
}

void uccl_domain_find_devices(struct uccl_domain *d)
{
	if (!d->hmem)
		d->hmem = uccl_device_find(&d->params);
}

void uccl_domain_group(uint8_t group[UCCL_KEY_LEN], const uint8_t *auth_key, size_t size)
{
	static const uint8_t label[UCCL_KEY_LEN] = "uccl group of 1";

	memset(group, 0, UCCL_KEY_LEN);
	if (auth_key && size)
		uccl_mac(group, auth_key, size, label);
}

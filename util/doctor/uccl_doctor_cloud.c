/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_cloud.h"

#include <string.h>

#define TRACKED_FEW 24576 /* 5-tuples that the ranks of a host take by default (FI_UCCL_PATHS, part host) */

#define FEWER_PACKETS "longer packets (MTU 9001 on all hosts of the VPC), fewer peers or paths, or a larger instance"
#define LESS_TRAFFIC "a larger instance; other programs of this instance use the same allowance"
#define MORE_BUFFERS "ethtool -G DEV rx with a larger number, or fewer senders at a time"

/*
 * Sources of names and meanings:
 * - ena: Amazon EC2 User Guide, "Monitor network performance for ENA settings on your EC2 instance". Counts are since
 *   the last reset of the driver.
 * - gve (gVNIC), mana, hv_netvsc: Linux, gve_ethtool.c, mana_ethtool.c, netvsc_drv.c. These drivers count no allowance.
 */
static const struct {
	const char *driver, *name, *text, *advice;
} counters[] = {
	{"ena", "bw_in_allowance_exceeded", "the inbound bandwidth exceeded the instance's allowance", LESS_TRAFFIC},
	{"ena", "bw_out_allowance_exceeded", "the outbound bandwidth exceeded the instance's allowance", LESS_TRAFFIC},
	{"ena", "pps_allowance_exceeded", "the packets per second of both directions exceeded the instance's allowance",
	 FEWER_PACKETS},
	{"ena", "conntrack_allowance_exceeded", "the 5-tuples exceeded those that the instance may track",
	 "lower host of FI_UCCL_PATHS=64,host=24576; or a larger instance"},
	{"ena", "linklocal_allowance_exceeded",
	 "the packets per second to local services (DNS, instance metadata, time) exceeded the interface's allowance",
	 "let programs cache names and metadata; the provider's packets do not count here"},
	{"gve", "rx_queue_drop_cnt", "the NIC dropped packets that arrived for a queue", MORE_BUFFERS},
	{"gve", "rx_no_buffers_posted", "the NIC had no buffer for packets that arrived", MORE_BUFFERS},
	{"mana", "hc_rx_discards_no_wqe", "the NIC had no buffer for packets that arrived", MORE_BUFFERS},
	{"hv_netvsc", "vf_tx_dropped", "the virtual function did not take packets to send",
	 "look at the counters of the virtual function: ethtool -S VF"},
	{"hv_netvsc", "rx_no_memory", "the kernel had no memory for packets that arrived", "free memory on this host"},
	/* No count of events, but what is left. */
	{"ena", "conntrack_allowance_available", "5-tuples can still be tracked",
	 "lower host of FI_UCCL_PATHS=64,host=24576; or a larger instance"},
};

enum { COUNTERS = sizeof(counters) / sizeof(counters[0]), AVAILABLE = COUNTERS - 1 };

_Static_assert(COUNTERS <= DOCTOR_CLOUD_COUNTERS, "doctor_cloud.value has one for each");

/* Is it this counter, as a whole or of one queue ("name[3]")? */
static bool name_is(const char *name, const char *want)
{
	size_t len = strnlen(name, DOCTOR_CLOUD_NAME), n = strlen(want);

	return len >= n && !memcmp(name, want, n) && (len == n || name[n] == '[');
}

bool doctor_cloud_take(struct doctor_cloud *c, const char *nic, const char *driver, const char *names,
		       const uint64_t *values, uint32_t n)
{
	memset(c, 0, sizeof(*c));
	snprintf(c->nic, sizeof(c->nic), "%.31s", nic);
	snprintf(c->driver, sizeof(c->driver), "%.31s", driver);
	for (uint32_t i = 0; i < n; i++)
		for (int k = 0; k < COUNTERS; k++) {
			if (strcmp(counters[k].driver, c->driver) != 0 ||
			    !name_is(names + (size_t)i * DOCTOR_CLOUD_NAME, counters[k].name))
				continue;
			c->value[k] += values[i];
			c->known |= 1u << k;
		}
	return c->known != 0;
}

/* Of a limit: `more` packets between two readings, `all` in all. */
static void exceeded(struct doctor_report *r, const struct doctor_cloud *c, int k, uint64_t more, double seconds)
{
	enum doctor_level level = more ? DOCTOR_WARN : DOCTOR_NOTE;
	struct doctor_finding *f = doctor_add(r, level, "host", "allowance", c->nic, "%s", "");
	unsigned long long all = c->value[k];

	if (more)
		snprintf(f->text, sizeof(f->text),
			 "%s now: %llu packets in %.1f s, %llu since the driver was reset (%s)", counters[k].text,
			 (unsigned long long)more, seconds, all, counters[k].name);
	else
		snprintf(f->text, sizeof(f->text),
			 "%s earlier: %llu packets since the driver was reset, none in the last %.1f s (%s)",
			 counters[k].text, all, seconds, counters[k].name);
	doctor_advise(f, "%s", counters[k].advice);
	doctor_string(f, "counter", counters[k].name);
	doctor_number(f, "total", (double)all);
	doctor_number(f, "measured", (double)more);
	doctor_number(f, "seconds", seconds);
}

static void nic_judge(struct doctor_report *r, const struct doctor_cloud *was, const struct doctor_cloud *c,
		      double seconds)
{
	const bool tracked = c->known >> AVAILABLE & 1, few = tracked && c->value[AVAILABLE] < TRACKED_FEW;
	bool any = false;

	for (int k = 0; k < AVAILABLE; k++) {
		if (!c->value[k])
			continue;
		/* A driver that was reset meanwhile begins with 0 again. */
		exceeded(r, c, k, c->value[k] >= was->value[k] ? c->value[k] - was->value[k] : c->value[k], seconds);
		any = true;
	}
	if (few) {
		struct doctor_finding *f = doctor_add(r, DOCTOR_NOTE, "host", "allowance", c->nic,
						      "only %llu more %s (%s)", (unsigned long long)c->value[AVAILABLE],
						      counters[AVAILABLE].text, counters[AVAILABLE].name);

		doctor_advise(f, "%s", counters[AVAILABLE].advice);
		doctor_number(f, "available", (double)c->value[AVAILABLE]);
	} else if (!any) {
		struct doctor_finding *f = doctor_add(r, DOCTOR_OK, "host", "allowance", c->nic,
						      strcmp(c->driver, "ena") != 0 ?
						      "%s counts no dropped packet, and no limits of the instance" :
						      "%s counts no packet that a limit held back", c->driver);

		if (tracked)
			doctor_number(f, "available", (double)c->value[AVAILABLE]);
	}
}

void doctor_clouds_judge(struct doctor_report *r, const struct doctor_clouds *before, const struct doctor_clouds *after)
{
	double seconds = (double)(after->us - before->us) / 1e6;

	/* An interface that came or went between the readings is left out. */
	for (int i = 0; i < after->n; i++)
		for (int k = 0; k < before->n; k++)
			if (!strcmp(before->list[k].nic, after->list[i].nic))
				nic_judge(r, &before->list[k], &after->list[i], seconds);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See rescue.h. */
#include "progress/rescue.h"

#include <rdma/fi_errno.h>

#include "base/units.h"
#include "progress/driver.h"
#include "progress/drivers.h"
#include "progress/thread.h"

/* The thread stays awake for so many rounds after nothing is in flight: to wake it costs the program a system call. */
#define LINGER_ROUNDS 64
/* If something is due soon in so many consecutive rounds, it is in flight, and no check of a peer now and then. */
#define BUSY_ROUNDS 3
/*
 * Packets bring about more packets: a handshake is two round trips, and a new peer grants a few packets at first. So
 * after a round that found packets the thread makes another one soon, and one more after twice that time, as long as a
 * peer may take to answer. HASTE_ROUNDS such rounds are enough: all other packets are the program's to receive.
 */
#define HASTE_NS (200 * UCCL_NS_PER_US)
#define HASTE_ROUNDS 16
/*
 * In a program whose messages wait for each other (R420) such a wait may begin tens of thousands of times a second. So
 * after a post that woke the thread it looks this often by itself for some rounds: the next posts need not wake it.
 */
#define STREAM_NS UCCL_WAITS_NS
#define STREAM_ROUNDS 16

/* The pauses between rounds after one that found packets. */
struct haste {
	uint64_t pause_ns; /* 0: none, a round is due with a timer */
	unsigned int found; /* rounds that found packets, with such pauses between them */
};

/* After a round of this outcome: is the next one in haste? */
static bool haste_goes_on(struct haste *h, bool found, uint64_t late_ns)
{
	h->pause_ns = found ? HASTE_NS : 2 * h->pause_ns;
	h->found += found;
	if (h->pause_ns && h->pause_ns < late_ns && h->found <= HASTE_ROUNDS)
		return true;
	*h = (struct haste){0};
	return false;
}

/*
 * One round over the drivers; `haste`: also over those that found packets not long ago. *found: it brought packets.
 * Returns when the next is due; UCCL_NEVER: never.
 */
static uint64_t rescue_round(struct uccl_rescue *r, bool haste, bool *found)
{
	uint64_t now = uccl_clock(), next = UCCL_NEVER, after_ns = r->alarm.late_ns;

	*found = false;
	uccl_lock_take(&r->drivers->lock);
	for (unsigned int i = 0; i < r->drivers->n; i++) {
		struct uccl_driver *d = r->drivers->v[i];
		uint64_t called = atomic_load_explicit(&d->called_ns, memory_order_relaxed);
		uint64_t at = uccl_driver_expiry(d);
		uint64_t waits = atomic_load(&d->waits_ns);
		bool due = waits && waits + UCCL_WAITS_NS <= now, recent = called + after_ns > now && !due, found_now;

		d->rescue_more &= haste;
		/* Answers that found packets set off more: waiting for a timer between them would take seconds. */
		if (!recent && (at <= now || (d->rescue_more && at != UCCL_NEVER))) {
			found_now = uccl_driver_run(d) > 0;
			d->rescue_more |= found_now;
			*found |= found_now;
			at = found_now ? now : uccl_driver_expiry(d);
		}
		/* A program that waits for this time itself is left to do so. */
		if (at != UCCL_NEVER)
			next = uccl_min(next, uccl_max(at, recent ? called : now) + after_ns);
		if (waits && !due)
			next = uccl_min(next, waits + UCCL_WAITS_NS);
	}
	uccl_lock_give(&r->drivers->lock);
	return next;
}

/*
 * Sleep until something is due, or is posted. A thread that posts from now on sees that we sleep, and wakes us; what
 * was posted before is seen by another round. True: woken.
 */
static bool rescue_sleep(struct uccl_rescue *r)
{
	bool found;

	uccl_alarm_lie_down(&r->alarm);
	return uccl_alarm_doze(&r->alarm, rescue_round(r, false, &found));
}

static void *rescue_main(void *arg)
{
	struct uccl_rescue *r = arg;
	unsigned int quiet = 0, busy = 0, streams = 0;
	struct haste haste = {0};
	bool found;

	while (!uccl_alarm_stopped(&r->alarm)) {
		uint64_t next;

		uccl_alarm_look(&r->alarm);
		next = rescue_round(r, haste.pause_ns != 0, &found);

		if (haste_goes_on(&haste, found, r->alarm.late_ns)) {
			uccl_alarm_sleep(&r->alarm, uccl_min(next, uccl_clock() + haste.pause_ns));
			continue;
		}
		busy = !streams && next != UCCL_NEVER && next <= uccl_clock() + 2 * r->alarm.late_ns ? busy + 1 : 0;
		if (busy >= BUSY_ROUNDS)
			quiet = 0;
		if (streams || quiet < LINGER_ROUNDS) {
			uint64_t pause_ns = streams ? uccl_min(STREAM_NS, r->alarm.late_ns) : r->alarm.late_ns;

			if (streams)
				streams--;
			else
				quiet++;
			/* This sleep ends early only if a post waits. */
			if (uccl_alarm_sleep(&r->alarm, uccl_min(next, uccl_clock() + pause_ns)))
				streams = STREAM_ROUNDS;
		} else if (rescue_sleep(r)) {
			quiet = busy = 0;
		}
	}
	return NULL;
}

int uccl_rescue_start(struct uccl_rescue *r, struct uccl_drivers *drivers, uint64_t after_ns)
{
	*r = (struct uccl_rescue){ .drivers = drivers };
	if (!after_ns)
		return 0;
	uccl_alarm_init(&r->alarm, after_ns);
	if (!uccl_thread_start(&r->thread, rescue_main, r))
		return 0;
	uccl_alarm_fini(&r->alarm);
	return -FI_EAGAIN;
}

void uccl_rescue_stop(struct uccl_rescue *r)
{
	/* In a child the thread is not there, and its lock may be held for ever. */
	if (!r->alarm.running || r->alarm.forks != uccl_forks)
		return;
	uccl_alarm_stop(&r->alarm);
	pthread_join(r->thread, NULL);
	uccl_alarm_fini(&r->alarm);
}

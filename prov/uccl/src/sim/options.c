/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Drawing, reading and writing the options of a run. */
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "flow/policy.h"
#include "lanes/lanes.h"
#include "sim/options.h"
#include "sim/state.h"

static const struct option {
	const char *name;
	size_t at;
	double value;
	const char *text;
} options[] = {
#define X(name, value, text) {#name, offsetof(struct uccl_sim_options, name), value, text},
	UCCL_SIM_OPTIONS(X)
#undef X
};

/*
 * What the options cc, path and credit mean. New policies come last and are not among those that pick_names draws, so
 * that a seed means what it meant before there were any; what draws them comes last in uccl_sim_options_draw.
 */
const char *const uccl_sim_cc[] = {"swift", "cubic", "timely", "nscc", "none", "bbr", NULL};
const char *const uccl_sim_path[] = {"pow2", "reps", "rr", "hash", NULL};
const char *const uccl_sim_credit[] = {"none", "window", "eqds", "auto", "srpt", NULL};

/* Of an option whose values are policies; NULL: they are numbers. */
static const char *const *option_names(const char *option)
{
	if (!strcmp(option, "cc"))
		return uccl_sim_cc;
	if (!strcmp(option, "path"))
		return uccl_sim_path;
	return !strcmp(option, "credit") ? uccl_sim_credit : NULL;
}

static double *option_at(const struct uccl_sim_options *o, const struct option *opt)
{
	return (double *)((char *)(uintptr_t)o + opt->at);
}

void uccl_sim_options_default(struct uccl_sim_options *o)
{
	size_t i;

	for (i = 0; i < uccl_array_len(options); i++)
		*option_at(o, &options[i]) = options[i].value;
}

/* A policy by its name or its place among them, or a number. False: it is none. *end: what comes behind it. */
static bool value_read(const struct option *opt, const char *text, double *value, char **end)
{
	const char *const *names = option_names(opt->name);
	size_t len = strcspn(text, ", "), n = 0;

	for (; names && names[n]; n++) {
		if (strlen(names[n]) != len || memcmp(names[n], text, len))
			continue;
		*value = (double)n;
		*end = (char *)(uintptr_t)text + len;
		return true;
	}
	*value = strtod(text, end);
	if (*end == text || *end != text + len)
		return false;
	return !names || (*value >= 0 && *value < (double)n && *value == (double)(size_t)*value);
}

int uccl_sim_options_set(struct uccl_sim_options *o, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "="), i;
		char *end;
		double value;

		if (*text == ',' || *text == ' ') {
			text++;
			continue;
		}
		for (i = 0; i < uccl_array_len(options); i++) {
			if (strlen(options[i].name) == len && !memcmp(options[i].name, text, len))
				break;
		}
		if (i == uccl_array_len(options) || text[len] != '=')
			return -FI_EINVAL;
		if (!value_read(&options[i], text + len + 1, &value, &end))
			return -FI_EINVAL;
		*option_at(o, &options[i]) = value;
		text = end;
	}
	return 0;
}

size_t uccl_sim_options_print(const struct uccl_sim_options *o, char *buf, size_t size)
{
	size_t n = 0, i;

	if (size)
		*buf = 0;
	for (i = 0; i < uccl_array_len(options); i++) {
		double value = *option_at(o, &options[i]);
		const char *const *names = option_names(options[i].name);
		char text[32];

		/* Policies always: which is the default may change. */
		if (!names && value == options[i].value)
			continue;
		snprintf(text, sizeof(text), "%.17g", value);
		n += (size_t)snprintf(n < size ? buf + n : NULL, n < size ? size - n : 0, "%s%s=%s", n ? " " : "",
				      options[i].name, names ? names[(size_t)value] : text);
	}
	return n;
}

void uccl_sim_options_help(void (*channel)(const char *name, double value, const char *text))
{
	size_t i;

	for (i = 0; i < uccl_array_len(options); i++)
		channel(options[i].name, options[i].value, options[i].text);
}

/* One of the values, each as likely. */
#define pick(r, ...)                                                                                                   \
	((const double[]){__VA_ARGS__})[uccl_rng_below(r, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))]

/* The first is the default: half of all runs. */
static double pick_names(struct uccl_rng *r, uint64_t n)
{
	return uccl_rng_chance(r, 0.5) ? 0 : (double)uccl_rng_below(r, n);
}

static void draw_nic(struct uccl_sim_options *o, struct uccl_rng *r)
{
	o->nic = pick(r, 0, 1);
	o->mtu = pick(r, 1024, 1500, 4096, 9000, 60000);
	o->write_max = pick(r, 4096, 8192, 32768, 65536);
	o->tx_sync = !uccl_rng_chance(r, 0.2);
	o->labels = pick(r, 16, 64, 512);
	o->placements = pick(r, 0, 1);
	o->ages = pick(r, 0, 1);
	o->shared = uccl_rng_chance(r, 0.2);
	o->liveness = pick(r, 0, 1, 1);
	o->icmp = pick(r, 0, 1, 1);
	o->slots = pick(r, 2, 3, 16, 64, 256, 256, 1024);
	o->slot_unit = o->liveness > 0 && o->icmp > 0 ? 10 + 2 * (o->slots > 64) : 0;
	o->tx_depth = pick(r, 4, 64, 256, 256);
	o->read_us = pick(r, 0, 2, 20, 1000);
	o->fence_us = pick(r, 1, 100, 5000);
	o->proof_us = pick(r, 10, 1000, 100000);
}

static void draw_net(struct uccl_sim_options *o, struct uccl_rng *r)
{
	o->rate_mbps = pick(r, 100, 1000, 10000, 10000, 100000, 0);
	o->queue_kb = pick(r, 64, 256, 1024, 8192);
	o->delay_us = pick(r, 1, 5, 5, 50, 1000);
	o->spread_us = pick(r, 0, 5, 100, 2000);
	o->jitter_us = pick(r, 0, 1, 10, 100);
	o->routes = pick(r, 1, 4, 16, 64);
	o->fifo = uccl_rng_chance(r, 0.25);
}

static void draw_engine(struct uccl_sim_options *o, struct uccl_rng *r)
{
	o->cc = pick_names(r, 5);
	o->path = pick_names(r, 4);
	o->credit = pick_names(r, 4);
	o->paths = pick(r, 1, 4, 8, 32, 256);
	o->chunk = pick(r, 0, 0, 0, 512, 2048);
	o->eager = pick(r, 256, 4096, 16384, 16384, 65536);
	o->inject = pick(r, 64, 4096);
	o->window = pick(r, 64, 256, 2048);
	o->unexpected_kb = pick(r, 4, 64, 65536, 65536);
	o->keepalive_ms = pick(r, 10, 1000, 1000);
	o->keyless = uccl_rng_chance(r, 0.1);
	/* Near the wraps of 32 bits of microseconds, of wire time stamps, and of half the clock. */
	o->start_ns = pick(r, 1e9, 1e9, 4294967296.0 * 64 - 2e6, 4294967296.0 * 1000 - 2e6, 4294967296.0 - 1e6, 4e18);
	o->poll_us = pick(r, 0, 2, 20, 300);
}

static void draw_work(struct uccl_sim_options *o, struct uccl_rng *r)
{
	o->nodes = pick(r, 2, 2, 2, 3, 4, 8);
	o->messages = pick(r, 10, 40, 100, 200);
	o->size_max = pick(r, 64, 4096, 65536, 262144, 1048576);
	o->big = pick(r, 0, 0.05, 0.1, 0.3);
	if (o->size_max > 65536)
		o->messages = uccl_min((uint64_t)o->messages, 40);
	o->work_ms = pick(r, 1, 5, 50, 2000);
	o->late = pick(r, 0, 0.2, 0.5, 1);
	o->truncate_recv = pick(r, 0, 0.05, 0.2);
	o->inject_share = pick(r, 0, 0.2, 0.6);
	o->early = pick(r, 0, 0.1, 0.5);
	o->delivery = pick(r, 0, 0.2, 0.5);
	o->with_data = pick(r, 0.1, 0.5, 1);
	o->vector = pick(r, 0, 0.2, 0.5);
	o->self = pick(r, 0, 0.05);
	o->untagged = pick(r, 0, 0.3, 1);
	o->exact = pick(r, 0, 0.3, 1);
	o->directed = pick(r, 0, 0.3, 1);
	o->peek = pick(r, 0, 0.1);
	o->multi = pick(r, 0, 0.5);
	o->cancel = pick(r, 0, 0.05, 0.2);
}

static void draw_loss(struct uccl_sim_options *o, struct uccl_rng *r)
{
	if (uccl_rng_chance(r, 0.4))
		o->loss = pick(r, 0.001, 0.01, 0.05, 0.3);
	if (uccl_rng_chance(r, 0.15)) {
		o->burst = pick(r, 0.001, 0.01);
		o->burst_end = pick(r, 0.02, 0.2);
	}
	if (uccl_rng_chance(r, 0.2)) {
		o->kind = pick(r, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 16, 17, 18, 63);
		o->kind_loss = pick(r, 0.1, 0.5, 1);
		if (o->kind == 17) /* a lost descriptor is repeated: its share is what matters */
			o->kind_loss = 0.3;
	}
	if (uccl_rng_chance(r, 0.1))
		o->nth = pick(r, 2, 3, 10, 100);
	if (uccl_rng_chance(r, 0.2)) {
		o->dup = pick(r, 0.01, 0.1, 0.5);
		o->old_stay = pick(r, 0, 0.1, 1);
	}
	if (uccl_rng_chance(r, 0.2)) {
		o->reorder = pick(r, 0.01, 0.2);
		o->reorder_us = pick(r, 10, 100, 5000);
	}
	if (uccl_rng_chance(r, 0.15))
		o->stall = pick(r, 0.001, 0.02);
	o->stall_ms = pick(r, 50, 1000, 10000);
	if (uccl_rng_chance(r, 0.15))
		o->corrupt = pick(r, 0.001, 0.05);
	if (uccl_rng_chance(r, 0.15))
		o->truncate = pick(r, 0.001, 0.05);
	o->torn = pick(r, 0, 0.5, 1);
}

static void draw_disasters(struct uccl_sim_options *o, struct uccl_rng *r)
{
	o->fault_ms = pick(r, 5, 30, 300, 3000);
	if (uccl_rng_chance(r, 0.1))
		o->flap_ms = pick(r, 1, 20, 200);
	if (uccl_rng_chance(r, 0.2))
		o->holes = pick(r, 1, 3, 10);
	if (uccl_rng_chance(r, 0.15))
		o->cuts = pick(r, 1, 3);
	o->hole_ms = pick(r, 1, 20, 1000);
	if (uccl_rng_chance(r, 0.1))
		o->breaks = pick(r, 1, 10);
	if (uccl_rng_chance(r, 0.15))
		o->restarts = pick(r, 1, 3);
	if (uccl_rng_chance(r, 0.1))
		o->kills = 1;
	if (uccl_rng_chance(r, 0.15)) {
		o->sleeps = pick(r, 1, 5);
		o->sleep_ms = pick(r, 1, 100, 5000);
	}
}

static void draw_links(struct uccl_sim_options *o, struct uccl_rng *r)
{
	if (uccl_rng_chance(r, 0.15)) {
		o->shrinks = pick(r, 1, 3);
		o->shrink_to = pick(r, 512, 1280, 1500, 4000);
	}
	if (uccl_rng_chance(r, 0.15)) {
		o->pause = pick(r, 0.001, 0.01);
		o->pause_us = pick(r, 10, 100, 5000);
	}
}

static void draw_trains(struct uccl_sim_options *o, struct uccl_rng *r, bool faults)
{
	if (!uccl_rng_chance(r, 0.15))
		return;
	o->trains = 1;
	if (faults && uccl_rng_chance(r, 0.3))
		o->train_fault = pick(r, 1, 2, 3, 4);
}

/* With marks by the queue, and some by chance, or the faster half of the networks would have none. */
static void draw_marks(struct uccl_sim_options *o, struct uccl_rng *r)
{
	if (!uccl_rng_chance(r, 0.3))
		return;
	o->mark_kb = pick(r, 1, 16, 64, 256);
	o->mark = pick(r, 0, 0.01, 0.3, 1);
}

/* Who has lanes has messages for them, some before lanes have met. */
static void draw_lanes(struct uccl_sim_options *o, struct uccl_rng *r)
{
	o->size_max = pick(r, 3, 6, 10) * UCCL_STRIPE_BYTES;
	o->messages = uccl_min((uint64_t)o->messages, 30);
	o->work_ms = pick(r, 5, 50, 300);
	o->big = pick(r, 0.4, 0.7);
	o->vector *= 0.3;
	/* A NIC that tells late what it has read takes minutes for these. */
	o->read_us = uccl_min((uint64_t)o->read_us, 20);
	o->cmd_us = pick(r, 0, 2, 50, 1000);
	o->lane_sleeps = pick(r, 0, 1, 3);
}

/*
 * Places are predicted of packets of 16 KiB and more, and of rows of parts, and where messages meet receives. What then
 * comes in another order, or from somebody else, is written where something else belongs.
 */
static void draw_predictions(struct uccl_sim_options *o, uint64_t seed, bool faults)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, seed ^ 0xf02e5ee4ull);
	o->nic = 0;
	o->placements = pick(&r, 1, 1, 0.5);
	o->placements_most = pick(&r, 0, 0, 1, 3);
	o->misplaced = pick(&r, 0, 0.01, 0.1, 0.5);
	o->mtu = pick(&r, 1500, 4096, 9000, 17408, 20000, 33000, 60000);
	o->trains = o->trains > 0 || o->mtu < 17408;
	o->chunk = 0;
	o->eager = pick(&r, 4096, 16384, 65536);
	o->size_max = pick(&r, 262144, 1048576);
	o->messages = uccl_min((uint64_t)o->messages, 40);
	o->big = pick(&r, 0.5, 0.9);
	o->late = pick(&r, 0, 0, 0.2);
	o->exact = pick(&r, 0, 0.5, 1);
	o->vector = pick(&r, 0, 0.1);
	o->poll_us = pick(&r, 2, 20, 100, 300);
	if (faults && uccl_rng_chance(&r, 0.7)) {
		o->reorder = pick(&r, 0.02, 0.1, 0.3);
		o->reorder_us = pick(&r, 10, 100, 1000);
	}
}

/* What is new, by numbers of its own: neither what is drawn before nor what is after means something else. */
static void draw_newest(struct uccl_sim_options *o, uint64_t seed)
{
	struct uccl_rng r;

	uccl_rng_seed(&r, seed ^ 0x70011c135eedull);
	if (uccl_rng_chance(&r, 0.1))
		o->credit = 4;
	o->brittle = uccl_rng_chance(&r, 0.3);
	o->predict = uccl_rng_chance(&r, 0.1);
	if (uccl_rng_chance(&r, 0.1))
		o->lanes = pick(&r, 1, 2);
	if (uccl_rng_chance(&r, 0.5))
		o->abort = pick(&r, 0.1, 0.3, 0.6);
	if (uccl_rng_chance(&r, 0.3))
		o->rma = pick(&r, 0.1, 0.5, 0.9);
}

/*
 * A calm network, with loss of one kind at most, on which most operations are taken back: soon after they were posted,
 * or when much of them has come. Of some runs an endpoint dies, comes back or stops for a while.
 */
static void draw_aborts(struct uccl_sim_options *o, uint64_t seed)
{
	double aborts = o->aborts;
	struct uccl_rng r;

	uccl_rng_seed(&r, seed ^ 0xab0a7ab0a7ull);
	uccl_sim_options_default(o);
	o->aborts = aborts;
	o->abort = 0.9;
	o->rma = 0.7;
	o->messages = 1000;
	o->big = 0.3;
	o->work_ms = o->fault_ms = 200;
	o->loss = pick(&r, 0, 0.01, 0.05);
	o->nic = pick(&r, 0, 0, 1);
	o->mtu = pick(&r, 1500, 4096, 9000);
	o->delay_us = pick(&r, 2, 10, 100);
	o->nodes = pick(&r, 2, 3);
	if (o->nic <= 0)
		o->lanes = pick(&r, 0, 2);
	if (o->lanes > 0)
		o->size_max = 3 * UCCL_STRIPE_BYTES;
	switch (uccl_rng_below(&r, 6)) {
	case 0:
		o->kills = 1;
		break;
	case 1:
		o->restarts = 2;
		break;
	case 2:
		o->sleeps = 2;
		o->sleep_ms = pick(&r, 100, 3000);
		break;
	default:
		break;
	}
}

/*
 * Lanes that were drawn are for NICs that carry packets, for peers with keys, and for builds that have lanes. What is
 * forced stays.
 */
static void lanes_withdraw(struct uccl_sim_options *o, const char *forced)
{
	if (uccl_lanes_built() && o->nic <= 0 && o->keyless <= 0)
		return;
	o->lanes = 0;
	uccl_sim_options_set(o, forced);
}

/*
 * A peer with one slot, or one whose packets are all marked, sends a packet a round trip. Long messages must come
 * through so, too, before the run is over: if need be they are shorter, and then fewer.
 */
static void lanes_bound(struct uccl_sim_options *o)
{
	double rtt_ms = (2 * (o->delay_us + o->spread_us + o->jitter_us + o->poll_us + o->read_us) + 1) / 1e3;
	double packet = o->chunk > 0 && o->chunk < o->mtu ? o->chunk : o->mtu - UCCL_HDR_LEN;
	double all = packet / rtt_ms * o->bound_ms / 2;

	while (o->size_max > 3 * UCCL_STRIPE_BYTES && o->messages * o->big * o->size_max / 2 > all)
		o->size_max -= UCCL_STRIPE_BYTES;
	while (o->messages > 4 && o->messages * o->big * o->size_max / 2 > all)
		o->messages--;
}

/* Combinations that promise nothing, or would test only the simulator. */
static void reconcile(struct uccl_sim_options *o)
{
	if (o->fifo)
		o->reorder = o->stall = o->dup = 0;
	if (o->lanes > 0) {
		o->lanes = uccl_min((uint64_t)o->lanes, UCCL_SIM_LANES);
		o->nic = o->keyless = 0;
		o->nodes = uccl_min((uint64_t)o->nodes, UCCL_SIM_NODES / (1 + (uint64_t)o->lanes));
	}
	if (o->nodes < 2)
		o->kills = o->restarts = 0;
	if (o->keyless)
		o->restarts = o->kills = 0;
	if (o->mtu < 1500 && o->chunk > 512)
		o->chunk = 0;
	/* Without proof of a death only the time-out ends operations. */
	if (o->kills || o->restarts)
		o->peer_timeout_ms = o->connect_timeout_ms = o->sleeps ? 60000 : 20000;
	if (o->restarts && o->peer_timeout_ms < 20000)
		o->peer_timeout_ms = 20000;
}

void uccl_sim_options_draw(struct uccl_sim_options *o, uint64_t seed, const char *forced)
{
	struct uccl_rng r;
	bool faults;

	uccl_rng_seed(&r, seed ^ 0x5eed0f0b710052ull);
	uccl_sim_options_default(o);
	draw_nic(o, &r);
	draw_net(o, &r);
	draw_engine(o, &r);
	draw_work(o, &r);
	/* A tenth of all runs is without faults: what then fails is not the faults' doing. */
	faults = !uccl_rng_chance(&r, 0.1);
	if (faults) {
		draw_loss(o, &r);
		draw_disasters(o, &r);
	}
	o->cq = pick(&r, 65536, 65536, 4, 1);
	/* Last, so that what seeds meant before they mean still. */
	if (faults)
		draw_links(o, &r);
	draw_trains(o, &r, faults);
	draw_marks(o, &r);
	/* The other seeds keep their policy. */
	if (uccl_rng_chance(&r, 0.1))
		o->cc = 5;
	draw_newest(o, seed);
	if (!forced)
		forced = "";
	uccl_sim_options_set(o, forced);
	if (o->aborts > 0) {
		draw_aborts(o, seed);
		uccl_sim_options_set(o, forced);
	}
	if (o->predict > 0) {
		draw_predictions(o, seed, faults);
		uccl_sim_options_set(o, forced);
	}
	lanes_withdraw(o, forced);
	if (o->lanes > 0 && o->aborts <= 0) {
		draw_lanes(o, &r);
		lanes_bound(o);
		uccl_sim_options_set(o, forced);
	}
	reconcile(o);
}

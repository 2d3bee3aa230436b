/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fault wrapper around a back end that only writes down what it is given. */
#include "nic/fault/fault.h"

#include "../../tests.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define SEEN_MAX 20000

/* A packet as the inner back end saw it. */
struct seen {
	uint16_t label, hdr_len, tail_len;
	uint32_t payload_len;
	uint64_t cookie;
	uint8_t hdr[8], payload[8], tail[8];
};

struct fake {
	struct uccl_nic nic;
	struct seen seen[SEEN_MAX];
	int n;
	int room;   /* packets taken before the queue is full */
	int calls;  /* of tx */
	int error;  /* tx returns it if negative */
	int sent;   /* how many of seen[] rx has told as sent */
	int nplaces; /* as rx got it */
	bool closed, fenced, stopped, source_stopped, registered, settled, disconnected;
};

static struct fake *fake_of(struct uccl_nic *nic)
{
	return uccl_container_of(nic, struct fake, nic);
}

static int fake_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct fake *f = fake_of(nic);
	int i;

	f->calls++;
	if (f->error)
		return f->error;
	for (i = 0; i < n && f->room > 0; i++, f->room--) {
		struct seen *s = &f->seen[f->n++];

		assert_true(f->n < SEEN_MAX);
		*s = (struct seen){.label = v[i].label,
				   .hdr_len = v[i].hdr_len,
				   .tail_len = v[i].tail_len,
				   .payload_len = v[i].payload_len,
				   .cookie = v[i].cookie};
		memcpy(s->hdr, v[i].hdr, 8);
		memcpy(s->tail, v[i].tail, 8);
		if (v[i].payload_len)
			memcpy(s->payload, v[i].payload, v[i].payload_len < 8 ? v[i].payload_len : 8);
		assert_int_equal(v[i].to->port, 77);
	}
	return i;
}

static int fake_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *places, int nplaces)
{
	struct fake *f = fake_of(nic);
	int k;

	f->nplaces = nplaces;
	if (f->nic.caps.tx_sync)
		return 0;
	for (k = 0; k < n && f->sent < f->n; k++) {
		memset(&v[k], 0, sizeof(v[k]));
		v[k].kind = UCCL_RX_SENT;
		v[k].cookie = f->seen[f->sent++].cookie;
	}
	return k;
}

static int fake_connect(struct uccl_nic *nic, const struct uccl_nic_addr *to, uint64_t id, uint16_t paths,
			struct uccl_nic_peer **peer)
{
	*peer = (struct uccl_nic_peer *)(uintptr_t)(id + paths);
	return 0;
}

static void fake_disconnect(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	fake_of(nic)->disconnected = true;
}

static uint64_t fake_backlog(struct uccl_nic *nic)
{
	return (uint64_t)fake_of(nic)->n;
}

static int fake_fence(struct uccl_nic *nic, struct uccl_nic_peer *peer, uint16_t path)
{
	fake_of(nic)->fenced = true;
	return 0;
}

static void fake_stop_writes(struct uccl_nic *nic, struct uccl_nic_peer *peer)
{
	fake_of(nic)->stopped = true;
}

static int fake_reg(struct uccl_nic *nic, void *buf, uint64_t len, void **mr, uint64_t *rkey, uint64_t *raddr)
{
	fake_of(nic)->registered = true;
	*mr = buf;
	*rkey = len;
	*raddr = 5;
	return 0;
}

static void fake_dereg(struct uccl_nic *nic, void *mr, bool settled)
{
	fake_of(nic)->registered = false;
	fake_of(nic)->settled = settled;
}

static int fake_source(struct uccl_nic *nic, const void *buf, uint64_t len, const struct uccl_nic_device *device,
		       void **source)
{
	fake_of(nic)->registered = true;
	assert_int_equal(device->number, 3);
	*source = (uint8_t *)(uintptr_t)buf + len;
	return 0;
}

static void fake_source_stop(struct uccl_nic *nic, void *source)
{
	fake_of(nic)->source_stopped = source != NULL;
}

static void fake_source_put(struct uccl_nic *nic, void *source)
{
	fake_of(nic)->registered = false;
}

static int fake_device_rx_open(struct uccl_nic *nic, void *mem, const struct uccl_nic_device *device, uint32_t *key)
{
	fake_of(nic)->registered = mem;
	*key = (uint32_t)device->number;
	return 7;
}

static void fake_device_rx_free(struct uccl_nic *nic, uint32_t slot)
{
	fake_of(nic)->registered = slot != 5;
}

static int fake_wait_fd(struct uccl_nic *nic)
{
	return 42;
}

static int fake_nap_fd(struct uccl_nic *nic)
{
	return 43;
}

static void fake_addr(struct uccl_nic *nic, struct uccl_nic_addr *out)
{
	*out = (struct uccl_nic_addr){.port = 123};
}

static void fake_close(struct uccl_nic *nic)
{
	fake_of(nic)->closed = true;
}

static const struct uccl_nic_ops all_ops = {
	.name = "fake",
	.tx = fake_tx,
	.rx = fake_rx,
	.connect = fake_connect,
	.disconnect = fake_disconnect,
	.backlog = fake_backlog,
	.fence = fake_fence,
	.stop_writes = fake_stop_writes,
	.reg = fake_reg,
	.dereg = fake_dereg,
	.source = fake_source,
	.source_put = fake_source_put,
	.source_stop = fake_source_stop,
	.device_rx_open = fake_device_rx_open,
	.device_rx_free = fake_device_rx_free,
	.wait_fd = fake_wait_fd,
	.nap_fd = fake_nap_fd,
	.addr = fake_addr,
	.close = fake_close,
};

static const struct uccl_nic_ops few_ops = {.name = "few", .tx = fake_tx, .rx = fake_rx, .close = fake_close};

static const struct uccl_nic_addr there = {.port = 77};
static struct fake fake;
static uint64_t now_ns;

static uint64_t clock_read(void *arg)
{
	return *(uint64_t *)arg;
}

static struct uccl_nic *opened;

static int nic_close(void **state)
{
	opened->ops->close(opened);
	return 0;
}

static struct uccl_nic *open_spec(const char *spec, bool tx_sync)
{
	struct uccl_nic *nic = NULL;
	const char *why = NULL;

	memset(&fake, 0, sizeof(fake));
	fake.nic.ops = &all_ops;
	fake.nic.caps = (struct uccl_nic_caps){.mtu = 1400, .labels = 9, .tx_sync = tx_sync};
	fake.room = SEEN_MAX;
	now_ns = 1000 * UCCL_NS_PER_S;
	if (uccl_nic_fault_open(&fake.nic, spec, clock_read, &now_ns, &nic, &why))
		fail_msg("%s: %s", spec, why);
	opened = nic;
	return nic;
}

/* Packet number i: found again in hdr, payload and tail. */
static struct uccl_tx packet(int i)
{
	static const uint8_t payload[1024] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct uccl_tx t = {.kind = UCCL_TX_PACKET,
			    .hdr_len = 64,
			    .tail_len = 8,
			    .payload = payload,
			    .payload_len = 100,
			    .to = &there,
			    .label = (uint16_t)(i % 4),
			    .cookie = 1 + (uint64_t)i};

	t.path = (uint16_t)(i % 3);
	memcpy(t.hdr, &i, sizeof(i));
	memcpy(t.tail, "tailtail", 8);
	return t;
}

static int number(const struct seen *s)
{
	int i;

	memcpy(&i, s->hdr, sizeof(i));
	return i;
}

static void send_range(struct uccl_nic *nic, int from, int to)
{
	struct uccl_tx v[32];
	int n;

	for (; from < to; from += n) {
		for (n = 0; n < 32 && from + n < to; n++)
			v[n] = packet(from + n);
		assert_int_equal(nic->ops->tx(nic, v, n), n);
	}
}

TEST(open__bad_specs)
{
	static const char *const bad[] = {
		"drop",
		"drop=",
		"drop=2",
		"drop=-1",
		"drop=0.1x",
		"drop=nan",
		"drop=.",
		"drop=1e",
		"drop=1e999",
		"drop=0,1",
		"drop=0.1,",
		",",
		"drop=0.1,,dup=0.1",
		"frob=1",
		"train=",
		"train=1",
		"train=firsts",
		"train=fir",
		"drops=0.1",
		"dro=0.1",
		"=1",
		"delay_us=1.5",
		"delay_us=-5",
		"delay_us=9999999999999",
		"delay_us=99999999999999999999999",
		"path=65536",
		"path=*",
		"seed=x",
		"burst=0.5,drop=0.1",
		"burst=4",
		"blackhole=3",
		"blackhole=3@",
		"blackhole=3@5",
		"blackhole=3@5-4",
		"blackhole=x@5-6",
		"blackhole=3@-6",
		"blackhole=70000@1-2",
		"blackhole=1@1-2x",
		"blackhole_path=1@",
		" drop=0.1",
		"drop=0.1 ",
		"blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,"
		"blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,"
		"blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-,blackhole=1@1-",
	};
	struct uccl_nic *nic = NULL;
	const char *why;
	size_t i;

	memset(&fake, 0, sizeof(fake));
	fake.nic.ops = &all_ops;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		if (uccl_nic_fault_open(&fake.nic, bad[i], clock_read, &now_ns, &nic, &why) != -FI_EINVAL)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(why);
		assert_null(nic);
	}
	assert_false(fake.closed); /* still ours */
}

TEST(open__good_specs)
{
	static const char *const good[] = {
		"drop=0.1:blackhole=3@5-:train=drop,blackhole=*@1-2:dup=0.5",
		"",
		"drop=0",
		"drop=1",
		"drop=1e-3,seed=18446744073709551615",
		"drop=.5",
		"drop=1.",
		"drop=0.01,dup=0.001,reorder=0.01,delay_us=500,corrupt=0,blackhole=3@2000-5000,seed=7",
		"blackhole=*@0-,blackhole_path=255@10-20",
		"drop=0.5,burst=8",
		"jitter_us=10,reorder_us=5,path=0",
		"drop_control=1E-2",
	};
	struct uccl_nic *nic;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		nic = open_spec(good[i], true);
		nic->ops->close(nic);
		assert_true(fake.closed);
	}
}

TEST(open__passes_all_else_through)
{
	struct uccl_nic *nic = open_spec("", true);
	struct uccl_nic_peer *peer;
	struct uccl_nic_addr a;
	struct uccl_nic_device device = {.number = 3};
	uint32_t queue;
	uint64_t rkey, raddr;
	const char *why;
	void *mr;

	assert_int_equal(nic->caps.mtu, 1400);
	assert_int_equal(nic->caps.labels, 9);
	assert_int_equal(nic->ops->connect(nic, &there, 40, 2, &peer), 0);
	assert_int_equal((uintptr_t)peer, 42);
	assert_int_equal(nic->ops->fence(nic, peer, 0), 0);
	assert_true(fake.fenced);
	nic->ops->stop_writes(nic, peer);
	assert_true(fake.stopped);
	assert_int_equal(nic->ops->backlog(nic), fake.n);
	assert_int_equal(nic->ops->reg(nic, &a, 9, &mr, &rkey, &raddr), 0);
	assert_true(fake.registered && mr == &a && rkey == 9 && raddr == 5);
	nic->ops->dereg(nic, mr, true);
	assert_true(fake.settled && !fake.registered);
	nic->ops->dereg(nic, mr, false);
	assert_false(fake.settled);
	assert_int_equal(nic->ops->source(nic, &a, 1, &device, &mr), 0);
	assert_true(fake.registered && mr == (uint8_t *)&a + 1);
	nic->ops->source_stop(nic, mr);
	assert_true(fake.source_stopped);
	nic->ops->source_put(nic, mr);
	assert_false(fake.registered);
	assert_int_equal(nic->ops->device_rx_open(nic, &a, &device, &queue), 7);
	assert_true(fake.registered && queue == 3);
	nic->ops->device_rx_free(nic, 5);
	assert_false(fake.registered);
	assert_int_equal(nic->ops->wait_fd(nic), 42);
	assert_int_equal(nic->ops->nap_fd(nic), 43);
	nic->ops->addr(nic, &a);
	assert_int_equal(a.port, 123);
	nic->ops->disconnect(nic, peer);
	assert_true(fake.disconnected);
	nic->ops->close(nic);
	/* What the inner one lacks, the wrapper lacks. */
	fake.nic.ops = &few_ops;
	assert_int_equal(uccl_nic_fault_open(&fake.nic, "", clock_read, &now_ns, &nic, &why), 0);
	assert_null(nic->ops->fence);
	assert_null(nic->ops->stop_writes);
	assert_null(nic->ops->reg);
	assert_null(nic->ops->device_rx_open);
	assert_null(nic->ops->device_rx_free);
	assert_null(nic->ops->connect);
	nic->ops->close(nic);
}

TEST_IN(tx__untouched_go_together, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("", true);
	int i;

	send_range(nic, 0, 32);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake.n, 32);
	for (i = 0; i < 32; i++) {
		assert_int_equal(number(&fake.seen[i]), i);
		assert_int_equal(fake.seen[i].cookie, 1 + i);
	}
	assert_int_equal(uccl_nic_fault_stats(nic)->passed, 32);
}

TEST(tx__full_and_failing)
{
	struct uccl_nic *nic = open_spec("", true);
	struct uccl_tx v[4] = {packet(0), packet(1), packet(2), packet(3)};

	fake.room = 2;
	assert_int_equal(nic->ops->tx(nic, v, 4), 2);
	assert_int_equal(nic->ops->tx(nic, v + 2, 2), 0);
	fake.error = -FI_EIO;
	assert_int_equal(nic->ops->tx(nic, v + 2, 2), -FI_EIO);
	nic->ops->close(nic);
	/* A packet that is doubled is not taken when its original finds no room. */
	nic = open_spec("dup=1", true);
	fake.room = 0;
	assert_int_equal(nic->ops->tx(nic, v, 4), 0);
	fake.room = 100;
	assert_int_equal(nic->ops->tx(nic, v, 4), 4);
	assert_int_equal(fake.n, 8);
	assert_int_equal(uccl_nic_fault_stats(nic)->duplicated, 4);
	nic->ops->close(nic);
}

TEST_IN(tx__drop_share, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=0.1,seed=1", true);

	send_range(nic, 0, 10000);
	/* 1000 expected, standard deviation 30. */
	assert_in_range(uccl_nic_fault_stats(nic)->dropped, 850, 1150);
	assert_int_equal(fake.n, 10000 - uccl_nic_fault_stats(nic)->dropped);
}

TEST(tx__same_seed_same_faults)
{
	static struct seen first[SEEN_MAX];
	struct uccl_nic *nic;
	int n, i;

	nic = open_spec("drop=0.2,dup=0.1,corrupt=0.1,seed=5", true);
	send_range(nic, 0, 2000);
	nic->ops->close(nic);
	n = fake.n;
	memcpy(first, fake.seen, sizeof(first));
	nic = open_spec("drop=0.2,dup=0.1,corrupt=0.1,seed=5", true);
	send_range(nic, 0, 2000);
	nic->ops->close(nic);
	assert_int_equal(fake.n, n);
	assert_memory_equal(first, fake.seen, sizeof(first[0]) * (size_t)n);
	nic = open_spec("drop=0.2,dup=0.1,corrupt=0.1,seed=6", true);
	send_range(nic, 0, 2000);
	nic->ops->close(nic);
	for (i = 0; i < n && i < fake.n && number(&first[i]) == number(&fake.seen[i]); i++)
		;
	assert_true(i < n);
}

/* Loss alone is drawn in a quick way: the same packets are lost as beside faults that never come about. */
TEST(tx__only_loss_draws_alike)
{
	static struct seen first[SEEN_MAX];
	struct uccl_nic *nic;
	char spec[100];
	int n;

	for (int drop = 0; drop <= 10; drop++) {
		snprintf(spec, sizeof(spec), "drop=%.1f,seed=5", drop / 10.0);
		nic = open_spec(spec, true);
		send_range(nic, 0, 2000);
		nic->ops->close(nic);
		n = fake.n;
		memcpy(first, fake.seen, sizeof(first));
		snprintf(spec, sizeof(spec), "drop=%.1f,seed=5,blackhole=0@900000000-900000001", drop / 10.0);
		nic = open_spec(spec, true);
		send_range(nic, 0, 2000);
		nic->ops->close(nic);
		assert_int_equal(fake.n, n);
		assert_memory_equal(first, fake.seen, sizeof(first[0]) * (size_t)n);
	}
}

/* Bursts: the share stays, the number of separate gaps falls by the mean length. */
TEST_IN(tx__burst, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=0.1,burst=10,seed=3", true);
	uint64_t lost;
	int i, gaps = 0;

	send_range(nic, 0, 19000);
	lost = uccl_nic_fault_stats(nic)->dropped;
	for (i = 1; i < fake.n; i++)
		gaps += number(&fake.seen[i]) != number(&fake.seen[i - 1]) + 1;
	/* About 190 bursts, each of mean 10: the deviation of the sum is some 200. */
	assert_in_range(lost, 1100, 2700);
	assert_in_range(gaps, 110, 270);
	assert_in_range(lost / (uint64_t)gaps, 7, 13);
}

TEST_IN(tx__drop_control, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop_control=1", true);
	struct uccl_tx v[4] = {packet(0), packet(1), packet(2), packet(3)};

	v[1].control = v[2].control = true;
	assert_int_equal(nic->ops->tx(nic, v, 4), 4);
	assert_int_equal(fake.n, 2);
	assert_int_equal(number(&fake.seen[0]), 0);
	assert_int_equal(number(&fake.seen[1]), 3);
}

TEST_IN(tx__path_filter, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=1,path=2", true);
	int i;

	send_range(nic, 0, 100);
	assert_int_equal(fake.n, 75);
	for (i = 0; i < fake.n; i++)
		assert_int_not_equal(fake.seen[i].label, 2);
}

/* A network that loses one packet of a train delivers the others as they were sent: in one go. */
TEST_IN(tx__drop_keeps_neighbours, NULL, nic_close)
{
	static const int through[] = {0, 1, 3, 4, 5, 7};
	struct uccl_nic *nic = open_spec("drop=1,path=2", true);
	struct uccl_tx v[8];
	int i;

	for (i = 0; i < 8; i++)
		v[i] = packet(i);
	assert_int_equal(nic->ops->tx(nic, v, 8), 8);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake.n, 6);
	/* The queue is full in between: what is left is left in order. */
	for (i = 0; i < 8; i++)
		v[i] = packet(i);
	fake.room = 3;
	assert_int_equal(nic->ops->tx(nic, v, 8), 5);
	assert_int_equal(fake.n, 9);
	fake.room = 100;
	assert_int_equal(nic->ops->tx(nic, v + 5, 3), 3);
	assert_int_equal(fake.n, 12);
	for (i = 0; i < 12; i++)
		assert_int_equal(number(&fake.seen[i]), through[i % 6]);
	assert_int_equal(uccl_nic_fault_stats(nic)->dropped, 4);
}

/* Trains that are cut wrong: what the inner back end would have sent as one is hit, single packets are not. */
TEST(tx__broken_trains)
{
	/* Of 8: a train of three, one by itself, a train of four whose last is shorter. */
	static const struct {
		const char *spec;
		const char *through;
	} t[] = {{"train=drop", "3"}, {"train=first", "034"}, {"train=last", "237"}, {"train=equal", "34567"},
		 {"seed=1", "01234567"}};
	struct uccl_tx v[8];
	int i;

	for (size_t k = 0; k < uccl_array_len(t); k++) {
		struct uccl_nic *nic;

		fake.nic.caps.train_bytes = 0;
		nic = open_spec(t[k].spec, true);
		nic->caps.train_bytes = 60000;
		for (i = 0; i < 8; i++) {
			v[i] = packet(i);
			v[i].label = 1;
			v[i].single = i == 3;
		}
		v[7].payload_len = 20;
		assert_int_equal(nic->ops->tx(nic, v, 8), 8);
		assert_int_equal(fake.n, strlen(t[k].through));
		for (i = 0; i < fake.n; i++)
			assert_int_equal(number(&fake.seen[i]), t[k].through[i] - '0');
		assert_int_equal(uccl_nic_fault_stats(nic)->dropped, 8 - fake.n);
		/* A back end that sends each by itself has no trains. */
		nic->caps.train_bytes = 0;
		fake.n = 0;
		for (i = 0; i < 8; i++)
			v[i] = packet(i);
		assert_int_equal(nic->ops->tx(nic, v, 8), 8);
		assert_int_equal(fake.n, 8);
		nic->ops->close(nic);
	}
}

TEST_IN(tx__damaged_trains, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("train=corrupt", true);
	struct uccl_tx v[6];

	nic->caps.train_bytes = 60000;
	for (int i = 0; i < 6; i++) {
		v[i] = packet(i);
		v[i].label = 1;
		v[i].single = i > 3;
	}
	assert_int_equal(nic->ops->tx(nic, v, 6), 6);
	assert_int_equal(fake.n, 6);
	assert_int_equal(uccl_nic_fault_stats(nic)->corrupted, 4);
	assert_int_equal(uccl_nic_fault_stats(nic)->dropped, 0);
}

TEST_IN(tx__blackhole_window, NULL, nic_close)
{
	/* ms after open, and the packets of 0..11 that must come through: label is i % 4, path i % 3. */
	static const struct {
		uint64_t ms;
		int through;
	} t[] = {{0, 12}, {9, 12}, {10, 9}, {19, 9}, {20, 8}, {30, 8}, {99, 8}, {100, 0}, {1000000, 0}};
	struct uccl_nic *nic = open_spec("blackhole=3@10-20,blackhole_path=1@20-,blackhole=*@100-", true);
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		now_ns = 1000 * UCCL_NS_PER_S + t[i].ms * UCCL_NS_PER_MS;
		fake.n = 0;
		send_range(nic, 0, 12);
		assert_int_equal(fake.n, t[i].through);
	}
	assert_int_equal(uccl_nic_fault_stats(nic)->blackholed, 3 + 3 + 4 + 4 + 4 + 12 + 12);
	assert_int_equal(uccl_nic_fault_stats(nic)->dropped, 0);
}

TEST_IN(tx__corrupt_one_bit_of_a_copy, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("corrupt=1", true);
	struct uccl_tx t = packet(1), before;
	uint8_t payload[8] = "payload";
	int i, j, bits, hdr = 0, body = 0, tail = 0;

	t.hdr_len = t.tail_len = 8;
	t.payload = payload;
	t.payload_len = 8;
	before = t;
	for (i = 0; i < 300; i++) {
		fake.n = 0;
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
		assert_int_equal(fake.n, 1);
		for (bits = 0, j = 0; j < 8; j++) {
			int h = __builtin_popcount(fake.seen[0].hdr[j] ^ t.hdr[j]);
			int p = __builtin_popcount(fake.seen[0].payload[j] ^ payload[j]);
			int e = __builtin_popcount(fake.seen[0].tail[j] ^ t.tail[j]);

			bits += h + p + e;
			hdr += h;
			body += p;
			tail += e;
		}
		assert_int_equal(bits, 1);
	}
	assert_memory_equal(&before, &t, sizeof(t));
	assert_string_equal((char *)payload, "payload");
	assert_true(hdr > 50 && body > 50 && tail > 50);
	/* Nothing to flip in an empty packet. */
	t.hdr_len = t.tail_len = 0;
	t.payload_len = 0;
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
}

TEST_IN(rx__delay_keeps_order, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("delay_us=500", true);
	struct uccl_rx v[4];
	int i;

	send_range(nic, 0, 50);
	assert_int_equal(fake.n, 0);
	now_ns += 499 * UCCL_NS_PER_US;
	assert_int_equal(nic->ops->rx(nic, v, 4, NULL, 0), 0);
	assert_int_equal(fake.n, 0);
	now_ns += 2 * UCCL_NS_PER_US;
	assert_int_equal(nic->ops->rx(nic, v, 4, NULL, 0), 0);
	assert_int_equal(fake.n, 50);
	for (i = 0; i < 50; i++) {
		assert_int_equal(number(&fake.seen[i]), i);
		assert_int_equal(fake.seen[i].payload_len, 100);
		assert_memory_equal(fake.seen[i].payload, "\1\2\3\4\5\6\7\10", 8);
		assert_memory_equal(fake.seen[i].tail, "tailtail", 8);
	}
}

/* When the next of them is due; what the inner back end cannot take is due at once. */
TEST_IN(expiry__delayed, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("delay_us=500", true);
	uint64_t start = now_ns;
	struct uccl_rx v[4];

	assert_true(nic->ops->expiry(nic) == UCCL_NEVER);
	send_range(nic, 0, 2);
	now_ns += UCCL_NS_PER_US;
	send_range(nic, 2, 3);
	assert_true(nic->ops->expiry(nic) == start + 500 * UCCL_NS_PER_US);
	now_ns = nic->ops->expiry(nic);
	fake.room = 0;
	nic->ops->rx(nic, v, 4, NULL, 0);
	assert_true(nic->ops->expiry(nic) <= now_ns);
	fake.room = 100;
	for (int i = 0; i < 3; i++) {
		now_ns = uccl_max(now_ns, nic->ops->expiry(nic));
		nic->ops->rx(nic, v, 4, NULL, 0);
	}
	assert_int_equal(fake.n, 3);
	assert_true(nic->ops->expiry(nic) == UCCL_NEVER);
}

/* Nor does anybody else tell of packets that were lost here, or copied. */
TEST_IN(expiry__sent, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=1", false);
	struct uccl_rx v[4];

	send_range(nic, 0, 1);
	assert_int_equal(nic->ops->expiry(nic), 0);
	assert_int_equal(nic->ops->rx(nic, v, 4, NULL, 0), 1);
	assert_int_equal(v[0].kind, UCCL_RX_SENT);
	assert_true(nic->ops->expiry(nic) == UCCL_NEVER);
}

TEST_IN(rx__full_keeps_held, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("delay_us=1", true);
	struct uccl_rx v[4];

	send_range(nic, 0, 10);
	now_ns += UCCL_NS_PER_MS;
	fake.room = 3;
	nic->ops->rx(nic, v, 4, NULL, 0);
	assert_int_equal(fake.n, 3);
	fake.room = 100;
	nic->ops->rx(nic, v, 4, NULL, 0);
	assert_int_equal(fake.n, 10);
	assert_int_equal(number(&fake.seen[9]), 9);
	/* An inner error loses the packet and nothing else. */
	send_range(nic, 10, 12);
	now_ns += UCCL_NS_PER_MS;
	fake.error = -FI_EIO;
	nic->ops->rx(nic, v, 4, NULL, 0);
	fake.error = 0;
	nic->ops->rx(nic, v, 4, NULL, 0);
	assert_int_equal(fake.n, 10);
}

TEST_IN(rx__held_is_bounded, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("delay_us=1000", true);
	struct uccl_rx v[1];

	send_range(nic, 0, 5000);
	assert_int_equal(uccl_nic_fault_stats(nic)->overflow, 5000 - 4096);
	now_ns += UCCL_NS_PER_S;
	nic->ops->rx(nic, v, 1, NULL, 0);
	assert_int_equal(fake.n, 4096);
	/* And room again. */
	send_range(nic, 0, 10);
	now_ns += UCCL_NS_PER_S;
	nic->ops->rx(nic, v, 1, NULL, 0);
	assert_int_equal(fake.n, 4106);
}

TEST(tx__reorder_and_jitter_lose_nothing)
{
	static const char *const spec[] = {"reorder=0.1,seed=2", "jitter_us=50,seed=2"};
	static uint8_t have[2000];
	struct uccl_rx v[1];
	struct uccl_nic *nic;
	int i, k, back;

	for (k = 0; k < 2; k++) {
		nic = open_spec(spec[k], true);
		memset(have, 0, sizeof(have));
		for (i = 0; i < 2000; i++) {
			send_range(nic, i, i + 1);
			now_ns += UCCL_NS_PER_US;
		}
		now_ns += UCCL_NS_PER_S;
		nic->ops->rx(nic, v, 1, NULL, 0);
		assert_int_equal(fake.n, 2000);
		for (i = 0, back = 0; i < 2000; i++) {
			have[number(&fake.seen[i])]++;
			back += i && number(&fake.seen[i]) < number(&fake.seen[i - 1]);
		}
		for (i = 0; i < 2000; i++)
			assert_int_equal(have[i], 1);
		assert_true(back > 100);
		if (!k)
			assert_in_range(uccl_nic_fault_stats(nic)->reordered, 140, 260);
		nic->ops->close(nic);
	}
}

TEST_IN(tx__dup_follows, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("dup=1,delay_us=10", true);
	struct uccl_rx v[1];

	send_range(nic, 0, 3);
	now_ns += UCCL_NS_PER_MS;
	nic->ops->rx(nic, v, 1, NULL, 0);
	assert_int_equal(fake.n, 6);
	assert_int_equal(number(&fake.seen[0]), 0);
	assert_int_equal(number(&fake.seen[1]), 0);
	assert_int_equal(number(&fake.seen[5]), 2);
}

/* Every cookie comes back exactly once, whatever happened to its packet; ours never show. */
TEST_IN(rx__sent_once_each, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=0.3,dup=0.3,corrupt=0.3,reorder=0.3,blackhole=1@0-,seed=4", false);
	static uint8_t sent[1001];
	struct uccl_rx v[7];
	int i, k, n;

	memset(sent, 0, sizeof(sent));
	for (i = 0; i < 1200; i++) {
		if (i < 1000)
			send_range(nic, i, i + 1);
		now_ns += 5 * UCCL_NS_PER_US;
		n = nic->ops->rx(nic, v, 7, NULL, 0);
		for (k = 0; k < n; k++) {
			assert_int_equal(v[k].kind, UCCL_RX_SENT);
			assert_in_range(v[k].cookie, 1, 1000);
			sent[v[k].cookie]++;
		}
	}
	for (i = 1; i <= 1000; i++)
		assert_int_equal(sent[i], 1);
}

/* Who waits for a cookie knows it by the peer; the handle may be gone, the id stays. */
TEST_IN(rx__sent_names_peer, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=1", false);
	struct uccl_nic_peer *peer[20];
	struct uccl_rx v[20];
	struct uccl_tx t;
	int i;

	for (i = 0; i < 20; i++) {
		assert_int_equal(nic->ops->connect(nic, &there, 100 + (uint64_t)i, 1, &peer[i]), 0);
		t = packet(i);
		t.peer = peer[i];
		assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	}
	nic->ops->disconnect(nic, peer[3]);
	nic->ops->disconnect(nic, peer[19]);
	assert_int_equal(nic->ops->rx(nic, v, 20, NULL, 0), 20);
	for (i = 0; i < 20; i++) {
		assert_int_equal(v[i].cookie, 1 + i);
		assert_int_equal(v[i].peer_id, 100 + i);
		assert_ptr_equal(v[i].peer, i == 3 || i == 19 ? NULL : peer[i]);
	}
	t.peer = peer[3]; /* no longer known */
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
	assert_int_equal(nic->ops->rx(nic, v, 20, NULL, 0), 1);
	assert_int_equal(v[0].peer_id, 0);
}

/* Cookies wait in a bounded queue: beyond it tx says full. */
TEST_IN(tx__sent_queue_bounded, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=1", false);
	struct uccl_rx v[32];
	struct uccl_tx t = packet(8192);
	int i, n;

	send_range(nic, 0, 8192);
	assert_int_equal(nic->ops->tx(nic, &t, 1), 0);
	for (i = 0; i < 8192; i += n) {
		n = nic->ops->rx(nic, v, 32, NULL, 0);
		assert_true(n > 0);
	}
	assert_int_equal(nic->ops->tx(nic, &t, 1), 1);
}

/* What only the NIC can read is not copied, so such packets are lost or pass, and nothing else. */
TEST(tx__writes_only_drop)
{
	for (int sync = 0; sync < 2; sync++) {
		struct uccl_nic *nic = open_spec("dup=1,corrupt=1,delay_us=100,reorder=1", sync);
		struct uccl_tx v[2] = {packet(0), packet(1)};

		v[0].kind = UCCL_TX_WRITE;
		v[1].mr = &fake;
		assert_int_equal(nic->ops->tx(nic, v, 2), 2);
		assert_int_equal(fake.n, 2);
		assert_int_equal(fake.seen[0].cookie, 1);
		assert_int_equal(fake.seen[1].cookie, 2);
		nic->ops->close(nic);
	}
}

/* Packets were copied by the inner back end, writes were not: of those that are lost here it is told. */
TEST_IN(rx__sent_of_lost_writes, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=1", true);
	struct uccl_tx v[3] = {packet(0), packet(1), packet(2)};
	struct uccl_rx r[4];

	nic->caps.write_async = true;
	v[1].kind = UCCL_TX_WRITE;
	assert_int_equal(nic->ops->tx(nic, v, 3), 3);
	assert_int_equal(fake.n, 0);
	assert_int_equal(nic->ops->rx(nic, r, 4, NULL, 0), 1);
	assert_int_equal(r[0].kind, UCCL_RX_SENT);
	assert_int_equal(r[0].cookie, 2);
}

TEST_IN(rx__hints_move_on, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("drop=1", false);
	struct uccl_rx_placement hint[4] = {{0}};
	struct uccl_rx v[4];

	send_range(nic, 0, 3);
	assert_int_equal(nic->ops->rx(nic, v, 4, hint, 4), 3);
	assert_int_equal(fake.nplaces, 1); /* three places went to cookies */
	send_range(nic, 0, 4);
	fake.nplaces = -1;
	assert_int_equal(nic->ops->rx(nic, v, 4, hint, 4), 4);
	assert_int_equal(fake.nplaces, -1);
}

TEST_IN(disconnect__forgets_held, NULL, nic_close)
{
	struct uccl_nic *nic = open_spec("delay_us=10", true);
	struct uccl_tx v[2] = {packet(0), packet(1)};
	struct uccl_rx r[1];

	v[0].peer = (struct uccl_nic_peer *)8;
	v[1].peer = (struct uccl_nic_peer *)16;
	assert_int_equal(nic->ops->tx(nic, v, 2), 2);
	nic->ops->disconnect(nic, v[0].peer);
	now_ns += UCCL_NS_PER_MS;
	nic->ops->rx(nic, r, 1, NULL, 0);
	assert_int_equal(fake.n, 1);
	assert_int_equal(number(&fake.seen[0]), 1);
}

TESTS_MAIN

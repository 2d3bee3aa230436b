/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_wire.h"

#include "../tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static uint8_t buf[DOCTOR_MSG_HEAD + DOCTOR_MSG_BODY];

/* The body of what was written, after a look at its head. */
static const uint8_t *body_of(size_t len, enum doctor_msg_type want, size_t *body)
{
	enum doctor_msg_type type;
	int n = doctor_get_head(buf, &type);

	assert_true(n >= 0);
	assert_int_equal(type, want);
	assert_int_equal((size_t)n + DOCTOR_MSG_HEAD, len);
	*body = (size_t)n;
	return buf + DOCTOR_MSG_HEAD;
}

static struct doctor_hello hello_good(void)
{
	struct doctor_hello h = { .token = 0x0123456789abcdefull, .version = DOCTOR_VERSION, .udp_port = 40000,
				  .live_port = 40000, .mtu = 1500, .nlabels = 3, .label_port = { 1, 2, 65535 } };

	return h;
}

static struct doctor_run run_good(void)
{
	struct doctor_run r = { .by_listener = true, .id = 7, .count = 2000, .size = 1472, .labels = 16, .burst = 40,
				.train = 20, .ecn = 2, .gap_us = 100 };

	return r;
}

TEST(head__refuses)
{
	enum doctor_msg_type type;

	doctor_put_head(buf, DOCTOR_BYE, 0);
	assert_int_equal(doctor_get_head(buf, &type), 0);
	buf[0] ^= 1;
	assert_int_equal(doctor_get_head(buf, &type), -1);
	doctor_put_head(buf, DOCTOR_MSG_TYPES, 0);
	assert_int_equal(doctor_get_head(buf, &type), -1);
	doctor_put_head(buf, (enum doctor_msg_type)0, 0);
	assert_int_equal(doctor_get_head(buf, &type), -1);
	doctor_put_head(buf, DOCTOR_RUN, DOCTOR_MSG_BODY + 1);
	assert_int_equal(doctor_get_head(buf, &type), -1);
}

TEST(hello__there_and_back)
{
	struct doctor_hello h = hello_good(), got;
	size_t n;
	const uint8_t *b = body_of(doctor_put_hello(buf, &h), DOCTOR_HELLO, &n);

	assert_true(doctor_get_hello(b, n, &got));
	/* Not the structs: there is a gap in them. */
	assert_true(h.token == got.token);
	assert_int_equal(h.version, got.version);
	assert_int_equal(h.udp_port, got.udp_port);
	assert_int_equal(h.live_port, got.live_port);
	assert_int_equal(h.mtu, got.mtu);
	assert_int_equal(h.nlabels, got.nlabels);
	assert_memory_equal(h.label_port, got.label_port, h.nlabels * sizeof(h.label_port[0]));
	assert_false(doctor_get_hello(b, n - 1, &got));
	assert_false(doctor_get_hello(b, 0, &got));
}

static bool hello_taken(const struct doctor_hello *h)
{
	struct doctor_hello got;
	size_t len = doctor_put_hello(buf, h);

	return doctor_get_hello(buf + DOCTOR_MSG_HEAD, len - DOCTOR_MSG_HEAD, &got);
}

TEST(hello__refuses)
{
	struct doctor_hello h = hello_good();

	h.version++;
	assert_false(hello_taken(&h));
	h.version = DOCTOR_VERSION - 1;
	assert_false(hello_taken(&h));
	h = hello_good();
	h.udp_port = 0;
	assert_false(hello_taken(&h));
	h = hello_good();
	h.mtu = 67;
	assert_false(hello_taken(&h));
	h.mtu = 65537;
	assert_false(hello_taken(&h));
	h = hello_good();
	h.nlabels = 0;
	assert_false(hello_taken(&h));
	h = hello_good();
	doctor_put_hello(buf, &h);
	buf[DOCTOR_MSG_HEAD + 18] = DOCTOR_LABELS + 1; /* more ports than there is room for */
	assert_false(doctor_get_hello(buf + DOCTOR_MSG_HEAD, 20 + 2 * (DOCTOR_LABELS + 1), &h));
}

static bool run_taken(const struct doctor_run *r)
{
	struct doctor_run got;
	size_t n;
	const uint8_t *b = body_of(doctor_put_run(buf, r), DOCTOR_RUN, &n);

	return doctor_get_run(b, n, &got);
}

TEST(run__there_and_back)
{
	struct doctor_run r = run_good(), got;
	size_t n;
	const uint8_t *b = body_of(doctor_put_run(buf, &r), DOCTOR_RUN, &n);

	assert_true(doctor_get_run(b, n, &got));
	assert_int_equal(got.by_listener, r.by_listener);
	assert_int_equal(got.id, r.id);
	assert_int_equal(got.count, r.count);
	assert_int_equal(got.size, r.size);
	assert_int_equal(got.labels, r.labels);
	assert_int_equal(got.burst, r.burst);
	assert_int_equal(got.train, r.train);
	assert_int_equal(got.ecn, r.ecn);
	assert_int_equal(got.gap_us, r.gap_us);
	assert_false(doctor_get_run(b, n - 1, &got));
}

/* Nobody can have a listener send more than the bounds say. */
TEST(run__refuses_what_is_too_much)
{
	struct doctor_run r;

#define REFUSED(field, value) \
	do { r = run_good(); r.field = (value); assert_false(run_taken(&r)); } while (0)
	REFUSED(count, 0);
	REFUSED(count, DOCTOR_RUN_PACKETS + 1);
	REFUSED(count, UINT32_MAX);
	REFUSED(size, DOCTOR_PROBE_HEAD - 1);
	REFUSED(size, 65508);
	REFUSED(size, UINT32_MAX);
	REFUSED(labels, 0);
	REFUSED(labels, DOCTOR_LABELS + 1);
	REFUSED(burst, 0);
	REFUSED(burst, 30); /* no multiple of a train */
	REFUSED(train, 0);
	REFUSED(train, 65535);
	REFUSED(ecn, 4);
	REFUSED(gap_us, UINT32_MAX);
	REFUSED(gap_us, DOCTOR_RUN_US / 2000 + 1);
	r = run_good();
	r.count = DOCTOR_RUN_PACKETS;
	r.train = r.burst = 1;
	r.size = DOCTOR_RUN_BYTES / DOCTOR_RUN_PACKETS;
	assert_true(run_taken(&r));
	r.size++;
	assert_false(run_taken(&r));
	r = run_good();
	doctor_put_run(buf, &r);
	buf[DOCTOR_MSG_HEAD] = 2;
	assert_false(doctor_get_run(buf + DOCTOR_MSG_HEAD, 22, &r));
}

TEST(sent__there_and_back)
{
	struct doctor_sent s = { .sent = 10, .refused = 2, .error = 90, .mtu = 1400 }, got;
	size_t n;
	const uint8_t *b = body_of(doctor_put_sent(buf, &s), DOCTOR_SENT, &n);

	assert_true(doctor_get_sent(b, n, &got));
	assert_memory_equal(&s, &got, sizeof(s));
	assert_false(doctor_get_sent(b, n + 1, &got));
	s.sent = DOCTOR_RUN_PACKETS + 1;
	body_of(doctor_put_sent(buf, &s), DOCTOR_SENT, &n);
	assert_false(doctor_get_sent(b, n, &got));
	s.sent = 10;
	s.error = 4096;
	body_of(doctor_put_sent(buf, &s), DOCTOR_SENT, &n);
	assert_false(doctor_get_sent(b, n, &got));
}

TEST(tally__sums_must_agree)
{
	struct doctor_tally t = { 0 }, got;
	const uint8_t *b = buf + DOCTOR_MSG_HEAD;
	size_t n;

	for (uint32_t i = 0; i < 100; i++)
		doctor_tally_add(&t, (uint16_t)(i % 5), i, (uint8_t)(i % 4), i % 10);
	t.overflowed = 7;
	t.span_us = 1234567;
	body_of(doctor_put_tally(buf, &t), DOCTOR_TALLY, &n);
	assert_true(doctor_get_tally(b, n, &got));
	assert_int_equal(got.overflowed, 7);
	assert_int_equal(got.span_us, 1234567);
	assert_int_equal(got.received, 100);
	assert_int_equal(got.damaged, 10);
	assert_memory_equal(got.by_label, t.by_label, sizeof(t.by_label));
	assert_memory_equal(got.ecn, t.ecn, sizeof(t.ecn));
	assert_false(doctor_get_tally(b, n - 4, &got));
	t.by_label[0]++;
	doctor_put_tally(buf, &t);
	assert_false(doctor_get_tally(b, n, &got));
	t.by_label[0]--;
	t.ecn[1] -= 1;
	doctor_put_tally(buf, &t);
	assert_false(doctor_get_tally(b, n, &got));
	t.ecn[1] += 1;
	t.damaged = 101;
	doctor_put_tally(buf, &t);
	assert_false(doctor_get_tally(b, n, &got));
	t.damaged = 10;
	t.overflowed = DOCTOR_RUN_PACKETS + 1;
	doctor_put_tally(buf, &t);
	assert_false(doctor_get_tally(b, n, &got));
}

TEST(paths__there_and_back)
{
	struct doctor_paths p = { .next_hops = 4, .n = DOCTOR_LABELS }, got;
	const uint8_t *b = buf + DOCTOR_MSG_HEAD;
	size_t n;

	for (int i = 0; i < DOCTOR_LABELS; i++) {
		p.trail[i].n = DOCTOR_HOPS;
		p.trail[i].arrived = i % 2;
		for (int k = 0; k < DOCTOR_HOPS; k++)
			p.trail[i].hop[k] = (uint64_t)i << 32 | (uint64_t)k;
	}
	body_of(doctor_put_paths(buf, &p), DOCTOR_TRACED, &n);
	assert_true(doctor_get_paths(b, n, &got));
	assert_int_equal(got.next_hops, 4);
	assert_int_equal(got.n, DOCTOR_LABELS);
	for (int i = 0; i < DOCTOR_LABELS; i++) {
		assert_int_equal(got.trail[i].arrived, i % 2);
		assert_memory_equal(got.trail[i].hop, p.trail[i].hop, sizeof(p.trail[i].hop));
	}
	assert_false(doctor_get_paths(b, n - 1, &got));
	p.trail[3].n = DOCTOR_HOPS + 1;
	doctor_put_paths(buf, &p);
	assert_false(doctor_get_paths(b, n, &got));
	assert_false(doctor_get_paths(b, 0, &got));
}

TEST(probe__bytes_are_proven)
{
	struct doctor_probe p = { .token = 42, .kind = DOCTOR_DATA, .id = 3, .label = 5, .seq = 77 }, got;
	uint8_t packet[2000];
	bool right;

	for (p.size = DOCTOR_PROBE_HEAD; p.size < 200; p.size++) {
		doctor_put_probe(packet, &p);
		assert_true(doctor_get_probe(packet, p.size, 42, &got, &right));
		assert_true(right);
		assert_int_equal(got.seq, 77);
		assert_int_equal(got.label, 5);
		assert_int_equal(got.id, 3);
	}
	p.size = 1400;
	doctor_put_probe(packet, &p);
	assert_false(doctor_get_probe(packet, 1400, 43, &got, &right)); /* another's token */
	assert_false(doctor_get_probe(packet, DOCTOR_PROBE_HEAD - 1, 42, &got, &right));
	assert_true(doctor_get_probe(packet, 1399, 42, &got, &right)); /* cut off */
	assert_false(right);
	for (uint32_t i = DOCTOR_PROBE_HEAD; i < 1400; i += 97) {
		packet[i] ^= 0x10;
		assert_true(doctor_get_probe(packet, 1400, 42, &got, &right));
		assert_false(right);
		packet[i] ^= 0x10;
	}
	/* Two packets that changed places within a train are not right either. */
	packet[20] ^= 1;
	assert_true(doctor_get_probe(packet, 1400, 42, &got, &right));
	assert_false(right);
	packet[20] ^= 1;
	packet[12] = 0;
	assert_false(doctor_get_probe(packet, 1400, 42, &got, &right));
}

/* What a stranger may send: readers answer, and what they take is within its bounds. */
TEST(readers__any_bytes)
{
	struct doctor_paths *paths = malloc(sizeof(*paths));
	struct uccl_rng rng;

	assert_non_null(paths);
	uccl_rng_seed(&rng, 20261122);
	for (int i = 0; i < 20000; i++) {
		size_t len = uccl_rng_below(&rng, i % 8 ? 300 : DOCTOR_MSG_BODY + 1);
		uint8_t *body = malloc(len + 1); /* exact, so that a sanitizer sees what is read beyond */
		enum doctor_msg_type type;
		struct doctor_hello h;
		struct doctor_run r;
		struct doctor_sent s;
		struct doctor_tally t;
		struct doctor_probe p;
		uint32_t number;
		bool right;

		assert_non_null(body);
		for (size_t k = 0; k < len; k++)
			body[k] = (uint8_t)(uccl_rng_below(&rng, 3) ? uccl_rng_below(&rng, 4) : uccl_rng_next(&rng));
		if (len >= DOCTOR_MSG_HEAD)
			assert_true(doctor_get_head(body, &type) <= DOCTOR_MSG_BODY);
		if (doctor_get_hello(body, len, &h))
			assert_true(h.nlabels && h.nlabels <= DOCTOR_LABELS && h.udp_port);
		if (doctor_get_run(body, len, &r))
			assert_true(r.count <= DOCTOR_RUN_PACKETS && (uint64_t)r.count * r.size <= DOCTOR_RUN_BYTES);
		if (doctor_get_sent(body, len, &s))
			assert_true(s.sent <= DOCTOR_RUN_PACKETS);
		if (doctor_get_tally(body, len, &t))
			assert_true(t.received <= DOCTOR_RUN_PACKETS && t.overflowed <= DOCTOR_RUN_PACKETS);
		if (doctor_get_paths(body, len, paths))
			assert_true(paths->n <= DOCTOR_LABELS);
		doctor_get_number(body, len, &number);
		doctor_get_probe(body, len, 1, &p, &right);
		free(body);
	}
	free(paths);
}

TESTS_MAIN

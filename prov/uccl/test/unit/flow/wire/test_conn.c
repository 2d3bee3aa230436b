/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/conn.h"

#include "../../tests.h"
#include "base/slot_unit.h"

#include <string.h>

#include "base/units.h"

#define MS UCCL_NS_PER_MS
#define LIFE_NS (20 * UCCL_NS_PER_S) /* of a cookie */

/* A packet on its way. */
struct pkt {
	uint32_t len;
	uint8_t data[UCCL_HDR_LEN + UCCL_INIT_MAX];
	struct uccl_hdr h;
	const uint8_t *payload;
	struct uccl_nic_addr src, to;
};

/* Two endpoints; conn[i] is that of endpoint i to the other one. */
static struct uccl_listener l[2];
static struct uccl_conn conn[2];
static uint64_t now;
static bool nat; /* endpoint 0 is behind one */

static struct uccl_conn_params params(int i)
{
	return (struct uccl_conn_params){
		.mtu = 1500,
		.write_bytes = 32768,
		.window = 1024,
		.msg_limit = 500,
		.paths = (uint16_t)(32 + i),
		.slots = 900,
		.csn = 0xffff0000 + (unsigned int)i,
		.epoch = (uint8_t)(3 + i),
		.segments = 64,
	};
}

static int start(void **state)
{
	now = 1000 * UCCL_NS_PER_S;
	nat = false;
	memset(l, 0, sizeof(l));
	for (int i = 0; i < 2; i++) {
		l[i].local.nic.ip[10] = l[i].local.nic.ip[11] = 0xff;
		l[i].two_way = true;
		l[i].local.nic.ip[12] = 10;
		l[i].local.nic.ip[15] = (uint8_t)(1 + i);
		l[i].local.nic.port = (uint16_t)(5000 + i);
		l[i].local.incarnation = 0x1111111111111111u * (unsigned int)(i + 1);
		memset(l[i].local.key, 0x40 + i, UCCL_KEY_LEN);
		memset(l[i].secret, 0x70 + i, UCCL_KEY_LEN);
	}
	for (int i = 0; i < 2; i++) {
		const struct uccl_conn_params mine = params(i);

		uccl_conn_init(&conn[i], &l[!i].local, &mine, 0xa0 + (unsigned int)i, 0xb0 + (unsigned int)i);
	}
	return 0;
}

/* What endpoint i wants to send; false: nothing. Its first label is its own port, all others are other ports. */
static bool take(int i, struct pkt *k)
{
	uint8_t buf[UCCL_INIT_MAX];
	struct uccl_tx tx;

	memset(&tx, 0xff, sizeof(tx));
	if (!uccl_conn_tx(&conn[i], &l[i], &tx, buf, now))
		return false;
	assert_int_equal(tx.kind, UCCL_TX_PACKET);
	assert_int_equal(tx.hdr_len, UCCL_HDR_LEN);
	assert_int_equal(tx.tail_len, 0);
	assert_true(tx.cookie == UCCL_NEVER);
	memcpy(k->data, tx.hdr, UCCL_HDR_LEN);
	if (tx.payload_len)
		memcpy(k->data + UCCL_HDR_LEN, tx.payload, tx.payload_len);
	k->len = UCCL_HDR_LEN + tx.payload_len;
	k->src = l[i].local.nic;
	k->src.port += tx.label ? 100 : 0;
	if (nat && !i) {
		k->src.ip[15] = 99;
		k->src.port += 2000;
	}
	assert_int_equal(uccl_hdr_decode(&k->h, k->data, k->len), UCCL_DROP_COUNT);
	k->payload = k->data + UCCL_HDR_LEN;
	return true;
}

/* The listener of endpoint i answers a HELLO. */
static enum uccl_drop answer(int i, const struct pkt *hello, struct pkt *cookie)
{
	enum uccl_drop reason = uccl_listener_hello(&l[i], &hello->h, &hello->src, cookie->data, &cookie->to, now);

	if (reason != UCCL_DROP_COUNT)
		return reason;
	cookie->len = UCCL_HDR_LEN;
	cookie->src = l[i].local.nic;
	assert_int_equal(uccl_hdr_decode(&cookie->h, cookie->data, cookie->len), UCCL_DROP_COUNT);
	return reason;
}

/* Endpoint 0 begins and gets as far as its INIT. */
static void until_init(struct pkt *init)
{
	struct pkt hello, cookie;

	uccl_conn_start(&conn[0], now);
	assert_true(take(0, &hello));
	assert_int_equal(hello.h.type, UCCL_PKT_HELLO);
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
	assert_true(take(0, init));
	assert_int_equal(init->h.type, UCCL_PKT_INIT);
}

static enum uccl_drop init_at(int i, const struct pkt *k, struct uccl_init *out)
{
	return uccl_listener_init(&l[i], &k->h, k->payload, &k->src, out, now);
}

static enum uccl_drop ack_at(int i, const struct pkt *k, struct uccl_init *out)
{
	return uccl_conn_check_ack(&conn[i], &l[i], &k->h, k->payload, &k->src, out);
}

TEST_IN(conn_start__once, start, NULL)
{
	struct pkt k;

	assert_int_equal(conn[0].state, UCCL_CONN_IDLE);
	assert_true(uccl_conn_expiry(&conn[0]) == UCCL_NEVER);
	assert_false(take(0, &k));
	uccl_conn_start(&conn[0], now);
	assert_int_equal(conn[0].state, UCCL_CONN_HELLO);
	assert_int_equal(uccl_conn_expiry(&conn[0]), now + 5 * MS);
	assert_true(take(0, &k));
	assert_false(take(0, &k));
	uccl_conn_start(&conn[0], now + 1);
	assert_false(take(0, &k));
	assert_int_equal(conn[0].started_ns, now);
}

TEST_IN(conn_expire__back_off, start, NULL)
{
	uint64_t gap = 5 * MS;
	struct pkt k;

	uccl_conn_start(&conn[0], now);
	take(0, &k);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(uccl_conn_expiry(&conn[0]), now + gap);
		uccl_conn_expire(&conn[0], now + gap - 1);
		assert_false(take(0, &k));
		now += gap;
		uccl_conn_expire(&conn[0], now);
		assert_true(take(0, &k));
		assert_int_equal(k.h.type, UCCL_PKT_HELLO);
		gap = uccl_min(gap + gap / 4, 500 * MS);
	}
	assert_true(gap > 400 * MS);
}

/* Its first packet leaves at the time that was asked for, and what follows counts from there. PROTOCOL R295 */
TEST_IN(conn_delay__first_hello, start, NULL)
{
	struct pkt k;

	uccl_conn_start(&conn[0], now);
	uccl_conn_delay(&conn[0], now + 70 * MS);
	assert_false(take(0, &k));
	assert_int_equal(uccl_conn_expiry(&conn[0]), now + 70 * MS);
	now += 70 * MS;
	uccl_conn_expire(&conn[0], now);
	assert_true(take(0, &k));
	assert_int_equal(k.h.type, UCCL_PKT_HELLO);
	assert_in_range(uccl_conn_expiry(&conn[0]), now + 5 * MS, now + 10 * MS);
}

/* Answers take longer than the first wait: nothing is repeated sooner, also what was due already. PROTOCOL R416 */
TEST_IN(conn_pace__waits_for_answers, start, NULL)
{
	uint64_t began = now;
	struct pkt k;

	uccl_conn_start(&conn[0], now);
	take(0, &k);
	uccl_conn_pace(&conn[0], 40 * MS);
	now = uccl_conn_expiry(&conn[0]);
	assert_int_equal(now, began + 5 * MS);
	uccl_conn_expire(&conn[0], now);
	assert_false(take(0, &k));
	assert_int_equal(uccl_conn_expiry(&conn[0]), began + 40 * MS);
	now = began + 40 * MS;
	uccl_conn_expire(&conn[0], now);
	assert_true(take(0, &k));
	assert_int_equal(uccl_conn_expiry(&conn[0]), now + 50 * MS);
	/* Never longer than that. */
	uccl_conn_pace(&conn[0], 5000 * MS);
	now += 50 * MS;
	uccl_conn_expire(&conn[0], now);
	assert_false(take(0, &k));
	assert_int_equal(uccl_conn_expiry(&conn[0]), began + 140 * MS);
}

/* Who is asked for by place may be about to start: it is asked more often for some seconds. PROTOCOL R295 */
TEST_IN(conn_expire__by_place, start, NULL)
{
	const struct uccl_conn_params mine = params(0);
	struct uccl_addr place = l[1].local;
	uint64_t began = now, last = now;
	struct pkt k;

	place.incarnation = 0;
	uccl_conn_init(&conn[0], &place, &mine, 0x1234, 0x5678);
	uccl_conn_start(&conn[0], now);
	take(0, &k);
	for (int i = 0; i < 60; i++) {
		now = uccl_conn_expiry(&conn[0]);
		assert_true(now - last <= (last - began < 4000 * MS ? 150 : 500) * MS);
		last = now;
		uccl_conn_expire(&conn[0], now);
		assert_true(take(0, &k));
	}
	assert_true(uccl_conn_expiry(&conn[0]) - now > 400 * MS);
}

/* Of the HELLOs under a flood one in five is answered: that is enough to get in within a second, nearly always. */
TEST_IN(conn_expire__many_hellos_at_first, start, NULL)
{
	uint64_t end = now + 1000 * MS;
	int hellos = 0;
	struct pkt k;

	uccl_conn_start(&conn[0], now);
	for (; now <= end; now = uccl_conn_expiry(&conn[0])) {
		uccl_conn_expire(&conn[0], now);
		hellos += take(0, &k);
	}
	assert_in_range(hellos, 16, 20);
}

/* INIT is not one of many: its waits double. */
TEST_IN(conn_expire__init_backs_off, start, NULL)
{
	struct pkt k;

	until_init(&k);
	for (uint64_t gap = 5 * MS; gap < 160 * MS; gap *= 2) {
		assert_int_equal(uccl_conn_expiry(&conn[0]), now + gap);
		now += gap;
		uccl_conn_expire(&conn[0], now);
		assert_true(take(0, &k));
		assert_int_equal(k.h.type, UCCL_PKT_INIT);
	}
}

/* A cookie grows old, and a responder may have restarted: after six tries a new cookie is asked for. */
TEST_IN(conn_expire__new_cookie, start, NULL)
{
	struct pkt k;
	int inits = 1;

	until_init(&k);
	for (int i = 0; i < 6; i++) {
		now = uccl_conn_expiry(&conn[0]);
		uccl_conn_expire(&conn[0], now);
		assert_true(take(0, &k));
		inits += k.h.type == UCCL_PKT_INIT;
	}
	assert_int_equal(inits, 6);
	assert_int_equal(k.h.type, UCCL_PKT_HELLO);
	assert_int_equal(conn[0].state, UCCL_CONN_HELLO);
	assert_true(uccl_conn_expiry(&conn[0]) > now + 15 * MS); /* still patient */
}

TEST_IN(conn_tx__hello, start, NULL)
{
	struct pkt k;

	uccl_conn_start(&conn[0], now);
	assert_true(take(0, &k));
	assert_int_equal(k.len, UCCL_HDR_LEN);
	assert_int_equal(k.h.token, 0xa0);
	assert_int_equal(uccl_get64(k.h.rec), 0xb0);
	assert_true(uccl_get64(k.h.rec + 8) == l[0].local.incarnation);
	assert_true(uccl_get64(k.h.rec + 16) == l[1].local.incarnation);
	assert_int_equal(uccl_get16(k.h.rec + 24), 5000);
}

/* Both become endpoints of RDMA NICs: packets come from another queue pair than the one that receives. */
static void rdma(void)
{
	for (int i = 0; i < 2; i++) {
		l[i].local.nic.scope = 0x12000011 + (uint32_t)i;
		l[i].local.nic.pad = (uint16_t)(0xc123 + i);
		conn[!i].remote.nic = l[i].local.nic;
	}
}

TEST_IN(conn_tx__hello_rdma, start, NULL)
{
	struct pkt k;

	l[0].local.nic.scope = 9; /* IPv6's, which means nothing to others */
	uccl_conn_start(&conn[0], now);
	assert_true(take(0, &k));
	assert_int_equal(uccl_get64(k.h.rec + 24), 5000);
	rdma();
	uccl_conn_expire(&conn[0], uccl_conn_expiry(&conn[0]));
	assert_true(take(0, &k));
	assert_int_equal(uccl_get16(k.h.rec + 24), 5000);
	assert_int_equal(uccl_get16(k.h.rec + 26), 0xc123);
	assert_int_equal(uccl_get32(k.h.rec + 28), 0x12000011);
}

/* Every fourth packet opens the way for what comes to our port; the others go by other labels. PROTOCOL R370 */
TEST_IN(conn_tx__labels_rotate, start, NULL)
{
	uint8_t buf[UCCL_INIT_MAX];
	struct uccl_tx tx;

	uccl_conn_start(&conn[0], now);
	for (int i = 0; i < 24; i++) {
		assert_int_equal(uccl_conn_tx(&conn[0], &l[0], &tx, buf, now), 1);
		assert_int_equal(tx.label, i % 4 ? (i - 1 - i / 4) % 16 + 1 : 0);
		now = uccl_conn_expiry(&conn[0]);
		uccl_conn_expire(&conn[0], now);
	}
}

/* HELLOs take turns over all rails; INIT and INIT_ACK leave by the one on which the peer was heard. PROTOCOL R390 */
TEST_IN(conn_tx__rail_that_works, start, NULL)
{
	uint8_t buf[UCCL_INIT_MAX];
	bool seen[2] = {false, false};
	struct pkt hello, cookie;
	struct uccl_tx tx;

	l[0].rails = 2;
	uccl_conn_start(&conn[0], now);
	assert_true(take(0, &hello));
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
	for (int i = 0; i < 4; i++) {
		now = uccl_conn_expiry(&conn[0]);
		uccl_conn_expire(&conn[0], now);
		assert_int_equal(uccl_conn_tx(&conn[0], &l[0], &tx, buf, now), 1);
		seen[tx.label % 2] = true;
	}
	assert_true(seen[0] && seen[1]);
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
	uccl_conn_rail(&conn[0], 1);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(uccl_conn_tx(&conn[0], &l[0], &tx, buf, now), 1);
		assert_int_equal(tx.label % 2, 1);
		now = uccl_conn_expiry(&conn[0]);
		uccl_conn_expire(&conn[0], now);
	}
	/* One that has a single NIC says what it always said. */
	uccl_conn_rail(&conn[1], 1);
	uccl_conn_ack(&conn[1]);
	assert_int_equal(uccl_conn_tx(&conn[1], &l[1], &tx, buf, now), 1);
	assert_int_equal(tx.label, 0);
}

/* Only HELLO goes where perhaps nobody is. */
TEST_IN(conn_tx__hello_only, start, NULL)
{
	uint8_t buf[UCCL_INIT_MAX];
	struct uccl_tx tx = {.row = 9};

	uccl_conn_start(&conn[0], now);
	assert_int_equal(uccl_conn_tx(&conn[0], &l[0], &tx, buf, now), 1);
	assert_int_equal(tx.control, UCCL_TX_HELLO);
	assert_int_equal(tx.row, 0);
	conn[0].state = UCCL_CONN_INIT;
	conn[0].tx_due = true;
	assert_int_equal(uccl_conn_tx(&conn[0], &l[0], &tx, buf, now), 1);
	assert_int_equal(tx.control, UCCL_TX_CONTROL);
}

/* Keys are never on the wire. */
TEST_IN(conn_tx__no_key, start, NULL)
{
	struct pkt k;

	until_init(&k);
	assert_int_equal(k.h.payload_len, UCCL_INIT_PAYLOAD);
	for (int i = 0; i < 2; i++)
		assert_null(memmem(k.data, k.len, l[i].local.key, 8));
	assert_null(memmem(k.data, k.len, l[1].secret, 8));
}

TEST_IN(conn_cookie__states, start, NULL)
{
	static const enum uccl_conn_state states[] = {UCCL_CONN_IDLE, UCCL_CONN_HELLO, UCCL_CONN_INIT, UCCL_CONN_OPEN,
						      UCCL_CONN_DEAD};
	struct pkt hello, cookie;

	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
	for (unsigned int i = 0; i < uccl_array_len(states); i++) {
		conn[0].state = states[i];
		assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now),
				 states[i] == UCCL_CONN_HELLO ? UCCL_DROP_COUNT : UCCL_DROP_STATE);
		if (states[i] == UCCL_CONN_HELLO)
			assert_int_equal(conn[0].state, UCCL_CONN_INIT);
		else
			assert_int_equal(conn[0].state, states[i]);
	}
}

TEST_IN(conn_cookie__not_ours, start, NULL)
{
	struct pkt hello, cookie;

	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	answer(1, &hello, &cookie);
	cookie.data[32] ^= 1; /* nonce */
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COOKIE);
	cookie.data[32] ^= 1;
	memset(cookie.data + 40, 0, 8); /* nobody */
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COOKIE);
	assert_int_equal(conn[0].state, UCCL_CONN_HELLO);
}

TEST_IN(conn_cookie__another_incarnation, start, NULL)
{
	struct pkt hello, cookie, k;

	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	l[1].local.incarnation++;
	answer(1, &hello, &cookie);
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_STALE);
	assert_int_equal(conn[0].state, UCCL_CONN_DEAD);
	assert_true(uccl_conn_expiry(&conn[0]) == UCCL_NEVER);
	assert_false(take(0, &k));
}

/* Without an incarnation in the address whoever answers last is meant, until it is open. PROTOCOL R295 */
TEST_IN(conn_cookie__by_place, start, NULL)
{
	const struct uccl_conn_params mine = params(0);
	struct uccl_addr place = l[1].local;
	struct pkt hello, cookie, k;

	place.incarnation = 0;
	uccl_conn_init(&conn[0], &place, &mine, 0x1234, 0x5678);
	uccl_conn_start(&conn[0], now);
	for (int life = 0; life < 3; life++) {
		while (conn[0].state != UCCL_CONN_HELLO || !take(0, &hello)) {
			now = uccl_conn_expiry(&conn[0]);
			uccl_conn_expire(&conn[0], now);
		}
		answer(1, &hello, &cookie);
		assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
		assert_int_equal(conn[0].remote.incarnation, l[1].local.incarnation);
		assert_true(take(0, &k));
		assert_int_equal(k.h.type, UCCL_PKT_INIT);
		l[1].local.incarnation++;
	}
}

/* Nothing seals it: it counts when nobody says otherwise for a while. PROTOCOL R94 */
TEST_IN(conn_cookie__unproven, start, NULL)
{
	struct pkt hello, cookie, lie, k;

	for (int lives = 0; lives < 2; lives++) {
		start(state);
		conn[0].mine.security = UCCL_SECURITY_CONTROL;
		uccl_conn_start(&conn[0], now);
		assert_true(take(0, &hello));
		answer(1, &hello, &cookie);
		l[1].local.incarnation++;
		answer(1, &hello, &lie);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(uccl_conn_cookie(&conn[0], &lie.h, now), UCCL_DROP_COOKIE);
			now += UCCL_NS_PER_S / 100;
		}
		assert_int_equal(conn[0].state, UCCL_CONN_HELLO);
		if (lives) {
			assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
			assert_int_equal(conn[0].state, UCCL_CONN_INIT);
			assert_int_equal(conn[0].in_doubt_ns, 0);
			continue;
		}
		now += 2 * UCCL_NS_PER_S;
		assert_int_equal(uccl_conn_cookie(&conn[0], &lie.h, now), UCCL_DROP_STALE);
		assert_int_equal(conn[0].state, UCCL_CONN_DEAD);
		assert_false(take(0, &k));
	}
}

/* One HELLO of four is of the former version, and says that its sender speaks ours. PROTOCOL R333 R334 */
TEST_IN(conn_tx__former_hello, start, NULL)
{
	uccl_conn_start(&conn[0], now);
	for (int i = 0; i < 16; i++) {
		struct pkt hello, cookie;

		assert_true(take(0, &hello));
		assert_int_equal(hello.h.version, i % 4 == 3 ? UCCL_VERSION_FORMER : UCCL_VERSION);
		assert_int_equal(hello.h.rtype, i % 4 == 3 ? UCCL_VERSION : 0);
		/* Who speaks ours is answered in it; who does not, in its own. */
		for (int speaks = 0; speaks < 2; speaks++) {
			hello.h.rtype = speaks ? UCCL_VERSION : 0;
			assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
			assert_int_equal(cookie.h.version, speaks || hello.h.version == UCCL_VERSION
								   ? UCCL_VERSION
								   : UCCL_VERSION_FORMER);
		}
		now = uccl_conn_expiry(&conn[0]);
		uccl_conn_expire(&conn[0], now);
	}
}

/* Any other version is told ours, and nothing that makes a connection. PROTOCOL R335 */
TEST_IN(listener_hello__other_version, start, NULL)
{
	uccl_conn_start(&conn[0], now);
	for (int version = 0; version < 256; version++) {
		struct pkt hello, cookie;

		if (version == UCCL_VERSION || version == UCCL_VERSION_FORMER)
			continue;
		for (int as_former = 0; as_former < 2; as_former++) {
			if (as_former && !version)
				continue;
			assert_true(take(0, &hello));
			hello.h.version = as_former ? UCCL_VERSION_FORMER : (uint8_t)version;
			hello.h.rtype = as_former ? (uint8_t)version : 0;
			assert_int_equal(uccl_hello_version(&hello.h), version);
			assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_VERSION);
			now = uccl_conn_expiry(&conn[0]);
			uccl_conn_expire(&conn[0], now);
		}
	}
}

/* An answer of another version ends the attempt; with security if nothing else answers. PROTOCOL R94 R334 */
TEST_IN(conn_other_version__ends, start, NULL)
{
	for (int security = 0; security < 2; security++) {
		struct pkt hello, cookie;

		start(state);
		conn[0].mine.security = security ? UCCL_SECURITY_CONTROL : UCCL_SECURITY_TRUSTED;
		uccl_conn_start(&conn[0], now);
		assert_true(take(0, &hello));
		answer(1, &hello, &cookie);
		cookie.data[32] ^= 1; /* nonce */
		assert_int_equal(uccl_conn_other_version(&conn[0], &cookie.h, now), UCCL_DROP_COOKIE);
		cookie.data[32] ^= 1;
		if (security) {
			assert_int_equal(uccl_conn_other_version(&conn[0], &cookie.h, now), UCCL_DROP_COOKIE);
			assert_int_equal(conn[0].state, UCCL_CONN_HELLO);
			now += 10 * UCCL_NS_PER_S;
		}
		assert_int_equal(uccl_conn_other_version(&conn[0], &cookie.h, now), UCCL_DROP_VERSION);
		assert_int_equal(conn[0].state, UCCL_CONN_DEAD);
		for (int i = UCCL_CONN_INIT; i <= UCCL_CONN_DEAD; i++) {
			conn[0].state = (enum uccl_conn_state)i;
			assert_int_equal(uccl_conn_other_version(&conn[0], &cookie.h, now), UCCL_DROP_STATE);
		}
	}
}

TEST_IN(conn_cookie__learns_the_incarnation, start, NULL)
{
	struct pkt hello, cookie;

	conn[0].remote.incarnation = 0;
	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	answer(1, &hello, &cookie);
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
	assert_true(conn[0].remote.incarnation == l[1].local.incarnation);
}

TEST_IN(conn_open__states, start, NULL)
{
	static const enum uccl_conn_state states[] = {UCCL_CONN_IDLE, UCCL_CONN_HELLO, UCCL_CONN_INIT, UCCL_CONN_OPEN,
						      UCCL_CONN_DEAD};
	const struct uccl_init in = {.from = l[0].local, .params = params(0), .token = 0xa0};

	for (unsigned int i = 0; i < uccl_array_len(states); i++)
		for (int is_ack = 0; is_ack < 2; is_ack++) {
			bool dead = states[i] == UCCL_CONN_DEAD;
			struct uccl_init now_in = in;

			start(state);
			now_in.from = l[0].local;
			conn[1].state = states[i];
			conn[1].tx_due = states[i] == UCCL_CONN_HELLO || states[i] == UCCL_CONN_INIT;
			assert_int_equal(uccl_conn_open(&conn[1], &now_in, is_ack, now),
					 dead ? UCCL_DROP_STATE : UCCL_DROP_COUNT);
			assert_int_equal(conn[1].state, dead ? UCCL_CONN_DEAD : UCCL_CONN_OPEN);
			/* An INIT is answered, an INIT_ACK is not, or the two would never end. */
			assert_int_equal(conn[1].ack_due, !dead && !is_ack);
			assert_int_equal(conn[1].token_remote, dead ? 0 : 0xa0);
			assert_false(conn[1].tx_due && !dead);
			assert_true(uccl_conn_expiry(&conn[1]) == UCCL_NEVER);
			if (!dead && states[i] != UCCL_CONN_OPEN)
				assert_int_equal(conn[1].theirs.paths, 32);
		}
}

TEST_IN(conn_open__contradictions, start, NULL)
{
	struct uccl_init in = {.from = l[0].local, .params = params(0), .token = 0xa0};

	in.from.incarnation++;
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_STATE);
	assert_int_equal(conn[1].state, UCCL_CONN_IDLE);
	in.from = l[0].local;
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_COUNT);
	in.token++;
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_STATE);
	assert_int_equal(conn[1].token_remote, 0xa0);
	/* An address without incarnation takes the first that proves itself, and no other. */
	conn[0].remote.incarnation = 0;
	in = (struct uccl_init){.from = l[1].local, .params = params(1), .token = 0xa1};
	assert_int_equal(uccl_conn_open(&conn[0], &in, true, now), UCCL_DROP_COUNT);
	in.from.incarnation++;
	assert_int_equal(uccl_conn_open(&conn[0], &in, true, now), UCCL_DROP_STATE);
}

/* The same INIT again, or an older one with other figures: the same answer, and nothing else happens. */
/* What the answer took is known, unless it may be that to a repetition; a later packet tells nothing. PROTOCOL R231 */
TEST_IN(conn_open__round_trip, start, NULL)
{
	struct uccl_init in = {.from = l[0].local, .params = params(0), .token = 0xa0};

	for (int is_ack = 0; is_ack < 2; is_ack++) {
		start(state);
		in.from = l[0].local;
		in.asked_ns = now;
		now += 30000;
		assert_int_equal(uccl_conn_open(&conn[1], &in, is_ack, now), UCCL_DROP_COUNT);
		assert_int_equal(conn[1].rtt_ns, 30000);
		now += 30000;
		assert_int_equal(uccl_conn_open(&conn[1], &in, is_ack, now), UCCL_DROP_COUNT);
		assert_int_equal(conn[1].rtt_ns, 30000);
		start(state);
		in.from = l[0].local;
		in.asked_ns = now;
		now += 5 * MS;
		assert_int_equal(uccl_conn_open(&conn[1], &in, is_ack, now), UCCL_DROP_COUNT);
		assert_int_equal(conn[1].rtt_ns, 0);
	}
}

TEST_IN(conn_open__replay, start, NULL)
{
	struct uccl_init in;
	struct pkt init, k, again;

	until_init(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_COUNT);
	assert_true(take(1, &k));
	assert_int_equal(k.h.type, UCCL_PKT_INIT_ACK);
	assert_false(take(1, &again));
	in.params.paths = 1;
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_COUNT);
	assert_int_equal(conn[1].theirs.paths, 32);
	assert_true(take(1, &again));
	assert_int_equal(again.len, k.len);
	assert_memory_equal(again.data, k.data, k.len);
	assert_false(take(1, &again));
}

/* A late INIT of one who was here before does not end the connection of one who came after. */
TEST_IN(conn_superseded__by_the_later_only, start, NULL)
{
	struct uccl_init in = {.from = l[0].local, .params = params(0), .token = 0xa0};

	in.asked_ns = now + 1;
	assert_false(uccl_conn_superseded(&conn[1], in.asked_ns));
	uccl_conn_start(&conn[1], now);
	assert_true(uccl_conn_superseded(&conn[1], in.asked_ns));
	in.asked_ns = now;
	assert_false(uccl_conn_superseded(&conn[1], in.asked_ns));
	in.asked_ns = ++now;
	assert_true(uccl_conn_superseded(&conn[1], in.asked_ns));
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_COUNT);
	assert_int_equal(conn[1].opened_ns, now);
	assert_false(uccl_conn_superseded(&conn[1], in.asked_ns));
	in.asked_ns = now + 1;
	assert_true(uccl_conn_superseded(&conn[1], in.asked_ns));
	/* Opened once, however often it is said again. */
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now + 5), UCCL_DROP_COUNT);
	assert_int_equal(conn[1].opened_ns, now);
	conn[1].state = UCCL_CONN_DEAD;
	assert_false(uccl_conn_superseded(&conn[1], in.asked_ns));
}

TEST_IN(listener_hello__reply, start, NULL)
{
	struct pkt hello, cookie;

	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
	/* No larger than the question; to the asker's own port; with what only the asker knows. */
	assert_true(cookie.len <= hello.len);
	assert_int_equal(cookie.h.type, UCCL_PKT_COOKIE);
	assert_int_equal(cookie.h.token, 0xa0);
	assert_int_equal(uccl_get64(cookie.h.rec), 0xb0);
	assert_true(uccl_get64(cookie.h.rec + 8) == l[1].local.incarnation);
	assert_int_equal(cookie.to.port, 5000);
	assert_memory_equal(cookie.to.ip, l[0].local.nic.ip, 16);
}

/* As seen by the NIC of the other: the queue pair that sends, and no more of RoCE's word than that it is one. */
static void seen_by_nic(struct pkt *k)
{
	k->src.scope = 0x77;
	k->src.port = 0;
	k->src.pad = 0xc000;
}

TEST_IN(listener_hello__rdma, start, NULL)
{
	struct pkt hello, cookie, init;
	struct uccl_init in;

	rdma();
	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	seen_by_nic(&hello);
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
	assert_memory_equal(&cookie.to, &l[0].local.nic, sizeof(cookie.to));
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
	take(0, &init);
	seen_by_nic(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
	assert_memory_equal(&in.from.nic, &l[0].local.nic, sizeof(in.from.nic));
	/* The cookie is good for the very queue pair that it was sent to. */
	l[0].local.nic.scope++;
	conn[0].tx_due = true;
	take(0, &init);
	seen_by_nic(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
	l[0].local.nic.scope--;
	l[0].local.nic.pad++;
	conn[0].tx_due = true;
	take(0, &init);
	seen_by_nic(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
}

/* Who claims to be on an RDMA NIC, and is not, or the reverse. */
/* Endpoint 1 has two more beside it, with the next incarnations. PROTOCOL R117 */
static const struct uccl_nic_addr row[3] = {
	{ .port = 7001, .pad = 0xc201, .scope = 0x21000001 },
	{ .port = 7002, .pad = 0xc202, .scope = 0x22000002 },
	{ .port = 7003, .pad = 0xc203, .scope = 0x23000003 },
};

static void row_of_1(void)
{
	rdma();
	l[1].port_range = (struct uccl_port_range){.first = l[1].local.incarnation, .n = 3, .at = row};
}

TEST_IN(listener_hello__elsewhere, start, NULL)
{
	struct pkt hello, reply;

	row_of_1();
	for (uint64_t i = 0; i < 5; i++) {
		conn[0].remote.incarnation = l[1].local.incarnation + i - 1;
		uccl_conn_start(&conn[0], now);
		conn[0].tx_due = true;
		take(0, &hello);
		seen_by_nic(&hello);
		assert_int_equal(answer(1, &hello, &reply), UCCL_DROP_COUNT);
		assert_true(reply.len <= hello.len);
		assert_memory_equal(&reply.to, &l[0].local.nic, sizeof(reply.to));
		assert_true(uccl_get64(reply.h.rec) == conn[0].nonce);
		/* Itself, and who is not in the row, as ever. */
		if (i < 2 || i > 3) {
			assert_int_equal(reply.h.type, UCCL_PKT_COOKIE);
			assert_true(uccl_get64(reply.h.rec + 8) == l[1].local.incarnation);
			continue;
		}
		assert_int_equal(reply.h.type, UCCL_PKT_ELSEWHERE);
		assert_true(uccl_get64(reply.h.rec + 8) == conn[0].remote.incarnation);
		assert_int_equal(uccl_get16(reply.h.rec + 16), row[i - 1].port);
		assert_int_equal(uccl_get16(reply.h.rec + 18), row[i - 1].pad);
		assert_int_equal(uccl_get32(reply.h.rec + 20), row[i - 1].scope);
		assert_true(!uccl_get64(reply.h.rec + 24));
	}
}

/* Endpoint 0 asks endpoint 1 for the one behind it, and is told. PROTOCOL R118 */
static void until_elsewhere(struct pkt *told)
{
	struct pkt hello;

	row_of_1();
	conn[0].remote.incarnation = l[1].local.incarnation + 1;
	conn[0].remote.indirect = true;
	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	seen_by_nic(&hello);
	assert_int_equal(answer(1, &hello, told), UCCL_DROP_COUNT);
	assert_int_equal(told->h.type, UCCL_PKT_ELSEWHERE);
}

TEST_IN(conn_elsewhere__begins_again, start, NULL)
{
	struct pkt told, k;

	until_elsewhere(&told);
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_COUNT);
	assert_int_equal(conn[0].remote.nic.port, 7002);
	assert_int_equal(conn[0].remote.nic.pad, 0xc202);
	assert_int_equal(conn[0].remote.nic.scope, 0x22000002);
	assert_memory_equal(conn[0].remote.nic.ip, l[1].local.nic.ip, 16);
	assert_false(conn[0].remote.indirect);
	assert_true(take(0, &k));
	assert_int_equal(k.h.type, UCCL_PKT_HELLO);
	assert_true(uccl_get64(k.h.rec + 16) == l[1].local.incarnation + 1);
	/* Once: whoever is there now is it. */
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_STATE);
}

TEST_IN(conn_elsewhere__malformed, start, NULL)
{
	struct pkt told;

	until_elsewhere(&told);
	told.data[32] ^= 1; /* nonce */
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_COOKIE);
	told.data[32] ^= 1;
	told.data[40] ^= 1; /* another one than was asked for */
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_COOKIE);
	told.data[40] ^= 1;
	memset(told.data + 48, 0, 2); /* port */
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_RECORD);
	told.data[48] = 1;
	memset(told.data + 50, 0, 2); /* a socket's */
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_RECORD);
	told.data[50] = 1;
	told.h.payload_len = 1;
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_RECORD);
	told.h.payload_len = 0;
	assert_int_equal(conn[0].state, UCCL_CONN_HELLO);
	assert_true(conn[0].remote.indirect);
	assert_int_equal(conn[0].remote.nic.scope, l[1].local.nic.scope);
	/* Nor whoever asked for the one that is there, nor later. */
	conn[0].remote.indirect = false;
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_STATE);
	conn[0].remote.indirect = true;
	conn[0].state = UCCL_CONN_INIT;
	assert_int_equal(uccl_conn_elsewhere(&conn[0], &told.h, now), UCCL_DROP_STATE);
}

TEST_IN(listener_hello__other_kind, start, NULL)
{
	struct pkt hello, cookie;

	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	hello.src.pad = 0xc000;
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_RECORD);
	rdma();
	conn[0].tx_due = true;
	take(0, &hello);
	hello.src.pad = 0;
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_RECORD);
}

TEST_IN(listener_hello__malformed, start, NULL)
{
	struct pkt hello, cookie;
	struct uccl_hdr h;
	struct uccl_nic_addr to;
	uint8_t reply[UCCL_HDR_LEN];

	uccl_conn_start(&conn[0], now);
	take(0, &hello);
	h = hello.h;
	h.payload_len = 1;
	assert_int_equal(uccl_listener_hello(&l[1], &h, &hello.src, reply, &to, now), UCCL_DROP_LENGTH);
	h = hello.h;
	h.tail_len = 16;
	assert_int_equal(uccl_listener_hello(&l[1], &h, &hello.src, reply, &to, now), UCCL_DROP_LENGTH);
	h = hello.h;
	h.token = 0;
	assert_int_equal(uccl_listener_hello(&l[1], &h, &hello.src, reply, &to, now), UCCL_DROP_RECORD);
	memset(hello.data + 40, 0, 8); /* its incarnation */
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_RECORD);
	memset(hello.data + 40, 1, 8);
	memset(hello.data + 56, 0, 2); /* its port */
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_RECORD);
}

TEST_IN(listener_init__good, start, NULL)
{
	struct uccl_init in;
	struct pkt init;

	until_init(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
	assert_true(uccl_nic_addr_equal(&in.from.nic, &l[0].local.nic));
	assert_true(in.from.incarnation == l[0].local.incarnation);
	assert_int_equal(in.token, 0xa0);
	assert_int_equal(in.params.mtu, 1500);
	assert_int_equal(in.params.write_bytes, 32768);
	assert_int_equal(in.params.window, 1024);
	assert_int_equal(in.params.msg_limit, 500);
	assert_int_equal(in.params.paths, 32);
	assert_int_equal(in.params.slots, 900);
	assert_true(in.params.csn == 0xffff0000);
	assert_int_equal(in.params.epoch, 3);
	assert_int_equal(in.params.segments, 64);
}

/*
 * Behind a NAT: COOKIE goes where HELLO came from, and INIT is believed from there alone, with what it says of itself.
 * That holds for packets from the own port only: other ports lead nowhere. PROTOCOL R373
 */
TEST_IN(listener_init__translated, start, NULL)
{
	struct uccl_init got;
	struct pkt hello, cookie, init;

	nat = true;
	uccl_conn_start(&conn[0], now);
	assert_true(take(0, &hello));
	assert_int_equal(hello.h.flags, UCCL_FLAG_OWN_PORT);
	assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
	assert_true(uccl_nic_addr_equal(&cookie.to, &hello.src));
	assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
	assert_true(take(0, &init));
	assert_int_equal(init.h.flags, UCCL_FLAG_OWN_PORT);
	assert_int_equal(init_at(1, &init, &got), UCCL_DROP_COUNT);
	assert_true(got.translated && !got.keyless);
	assert_true(uccl_nic_addr_equal(&got.at, &init.src));
	assert_true(uccl_nic_addr_equal(&got.from.nic, &l[0].local.nic));
	/* Recorded, and sent from elsewhere: the cookie is of another place. */
	init.src.port++;
	assert_int_equal(init_at(1, &init, &got), UCCL_DROP_COOKIE);
	init.src = l[0].local.nic;
	assert_int_equal(init_at(1, &init, &got), UCCL_DROP_COOKIE);
	/* The next INIT leaves from another port. */
	now = uccl_conn_expiry(&conn[0]);
	uccl_conn_expire(&conn[0], now);
	assert_true(take(0, &init));
	assert_int_equal(init.h.flags, 0);
	assert_int_equal(init_at(1, &init, &got), UCCL_DROP_SOURCE);
	/* Without NAT nothing is translated. */
	start(NULL);
	until_init(&init);
	assert_int_equal(init_at(1, &init, &got), UCCL_DROP_COUNT);
	assert_false(got.translated);
	assert_true(uccl_nic_addr_equal(&got.at, &l[0].local.nic));
}

/*
 * The address tells the second rail: what comes from there is the same peer's, and its cookie is of that place. Who
 * does not know our key could name another's first place. PROTOCOL R379
 */
TEST_IN(listener_init__second_rail, start, NULL)
{
	struct uccl_nic_addr first, second = l[0].local.nic, out;
	struct pkt hello, cookie, init;
	struct uccl_init got;

	second.ip[13] = 7;
	uccl_nic_addr_tell(&l[0].local.nic, &second);
	assert_true(uccl_nic_addr_second(&l[0].local.nic, &out));
	assert_memory_equal(&out, &second, sizeof(out));
	first = l[0].local.nic;
	l[0].two_way = false;
	l[1].rails = 2;
	for (int keyed = 1; keyed >= 0; keyed--) {
		const struct uccl_conn_params mine = params(0);
		struct uccl_addr to = l[1].local;

		l[1].keyless = true;
		if (!keyed)
			memset(to.key, 0, sizeof(to.key));
		uccl_conn_init(&conn[0], &to, &mine, 0xa0, 0xb0);
		uccl_conn_start(&conn[0], now);
		assert_true(take(0, &hello));
		hello.src = second;
		assert_int_equal(answer(1, &hello, &cookie), UCCL_DROP_COUNT);
		assert_true(uccl_nic_addr_equal(&cookie.to, &second));
		assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
		assert_true(take(0, &init));
		init.src = second;
		assert_int_equal(init_at(1, &init, &got), keyed ? UCCL_DROP_COUNT : UCCL_DROP_KEYLESS);
		if (!keyed)
			continue;
		assert_true(got.second && !got.translated);
		assert_true(uccl_nic_addr_equal(&got.heard, &second));
		/* Without rails of our own nobody is asked to come from there. */
		l[1].rails = 0;
		assert_int_equal(init_at(1, &init, &got), UCCL_DROP_SOURCE);
		l[1].rails = 2;
		assert_int_equal(init_at(1, &init, &got), UCCL_DROP_COUNT);
		assert_true(uccl_nic_addr_equal(&got.at, &first));
		assert_true(uccl_nic_addr_equal(&got.from.nic, &first));
		/* The cookie was for the second place. */
		init.src = first;
		assert_int_equal(init_at(1, &init, &got), UCCL_DROP_COOKIE);
		/* A place that it did not tell. */
		init.src.ip[13] = 8;
		assert_int_equal(init_at(1, &init, &got), UCCL_DROP_SOURCE);
	}
}

TEST_IN(listener_init__cookie_age, start, NULL)
{
	struct uccl_init in;
	struct pkt init;

	until_init(&init);
	now += LIFE_NS;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
	assert_int_equal(in.asked_ns, now - LIFE_NS);
	now += 1;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
	/* Nor before it was made, nor with another time than it was made for. */
	now -= LIFE_NS + 2;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
	now += 2;
	init.data[50]--;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
}

TEST_IN(listener_init__cookie_of_another, start, NULL)
{
	struct uccl_init in;
	struct pkt init, hello, cookie;

	until_init(&init);
	/* Another host sends what it overheard. */
	init.src.ip[15]++;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
	init.src.ip[15]--;
	/* Another secret: a responder that restarted. */
	l[1].secret[0] ^= 1;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
	l[1].secret[0] ^= 1;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
	/* A cookie that was made for another port, another incarnation, another host. */
	for (int what = 0; what < 3; what++) {
		start(state);
		uccl_conn_start(&conn[0], now);
		take(0, &hello);
		if (what == 0)
			hello.src.port ^= 1;
		if (what == 1)
			hello.data[40] ^= 1;
		if (what == 2)
			hello.src.ip[15] ^= 4;
		answer(1, &hello, &cookie);
		assert_int_equal(uccl_conn_cookie(&conn[0], &cookie.h, now), UCCL_DROP_COUNT);
		take(0, &init);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COOKIE);
	}
}

TEST_IN(listener_init__keys, start, NULL)
{
	struct uccl_init in;
	struct pkt init;

	conn[0].remote.key[3] ^= 1;
	until_init(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_MAC);
	l[1].keyless = true; /* a wrong key is not the same as none */
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_MAC);

	start(state);
	memset(conn[0].remote.key, 0, UCCL_KEY_LEN);
	until_init(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_KEYLESS);
	l[1].keyless = true;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
}

/*
 * Of two that know the connect key, or need none, only those of one group connect, whichever of them has one.
 * PROTOCOL R114
 */
TEST_IN(listener_init__groups, start, NULL)
{
	static const uint8_t groups[3][UCCL_KEY_LEN] = { { 0 }, { 1, 2, 3 }, { 1, 2, 4 } };

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			for (int keyless = 0; keyless < 2; keyless++) {
				struct uccl_init in;
				struct pkt init;

				start(state);
				if (keyless)
					memset(conn[0].remote.key, 0, UCCL_KEY_LEN);
				l[1].keyless = keyless;
				memcpy(l[1].group, groups[k], UCCL_KEY_LEN);
				uccl_key_mix(conn[0].remote.key, groups[i]);
				uccl_key_mix(l[1].local.key, groups[k]);
				until_init(&init);
				assert_int_equal(init_at(1, &init, &in), i == k ? UCCL_DROP_COUNT : UCCL_DROP_MAC);
			}
}

/* Every bit of record and payload is under the cookie, the code or a check. */
TEST_IN(listener_init__every_bit, start, NULL)
{
	struct uccl_init in;
	struct pkt init;

	until_init(&init);
	l[1].keyless = true;
	for (uint32_t bit = 32 * 8; bit < init.len * 8; bit++) {
		init.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		init.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
}

TEST_IN(listener_init__malformed, start, NULL)
{
	struct uccl_init in;
	struct pkt init;

	until_init(&init);
	init.h.payload_len--;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_LENGTH);
	init.h.payload_len += 2;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_LENGTH);
	init.h.payload_len--;
	init.h.tail_len = 16;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_LENGTH);
	init.h.tail_len = 0;
	init.data[UCCL_HDR_LEN] ^= 1;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_RECORD);

	start(state);
	conn[0].token_local = 0;
	uccl_conn_start(&conn[0], now);
	conn[0].state = UCCL_CONN_INIT;
	take(0, &init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_RECORD);

	/* Nobody's incarnation. */
	start(state);
	l[0].local.incarnation = 0;
	uccl_conn_start(&conn[0], now);
	conn[0].state = UCCL_CONN_INIT;
	take(0, &init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_RECORD);
}

/* It was meant for the one who was here before. */
TEST_IN(listener_init__stale, start, NULL)
{
	struct uccl_init in;
	struct pkt init;

	until_init(&init);
	l[1].local.incarnation++;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_STALE);
}

/* No slots, for those who take that; others are told of one. PROTOCOL R180 */
TEST_IN(params__no_slots, start, NULL)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct uccl_init in;
		struct pkt init;
		const uint8_t *p;

		start(state);
		conn[0].mine.waits = i & 1;
		conn[0].mine.slots = i & 2 ? 7 : 0;
		until_init(&init);
		/* Of the parameters, behind the address. */
		p = init.payload + UCCL_ADDR_LEN;
		assert_int_equal(uccl_get16(p + 18), i & 2 ? 7 : 1);
		assert_int_equal(p[32], i & 1 ? (i & 2 ? 1 : 3) : 0);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_int_equal(in.params.waits, i & 1);
		assert_int_equal(in.params.slots, i & 2 ? 7 : !(i & 1));
	}
}

TEST_IN(listener_init__params, start, NULL)
{
	static const struct {
		size_t at;
		unsigned int size;
		uint64_t value;
		bool good;
	} v[] = {
#define P(field, value, good)                                                                                          \
	{offsetof(struct uccl_conn_params, field), sizeof(((struct uccl_conn_params *)0)->field), value, good}
		P(mtu, 255, false),
		P(mtu, 256, true),
		P(mtu, 65535, true),
		P(mtu, 65536, false),
		P(window, 32, false),
		P(window, 64, true),
		P(window, 100, false),
		P(window, 16384, true),
		P(window, 32768, false),
		P(window, 0, false),
		P(segments, 0, true),
		P(segments, 64, true),
		P(segments, 65, false),
		P(paths, 0, false),
		P(paths, 1, true),
		P(paths, 256, true),
		P(paths, 257, false),
		P(slots, 0, true),
		P(slots, 1, true),
		P(write_bytes, 0, true),
		P(write_bytes, 1u << 30, true),
		P(write_bytes, (1u << 30) + 1, false),
		P(csn, (1ull << 48) - 1, true),
		P(csn, 1ull << 48, false),
		P(epoch, 15, true),
		P(epoch, 16, false),
#undef P
	};

	for (unsigned int i = 0; i < uccl_array_len(v); i++) {
		struct uccl_init in;
		struct pkt init;

		start(state);
		memcpy((uint8_t *)&conn[0].mine + v[i].at, &v[i].value, v[i].size);
		until_init(&init);
		assert_int_equal(init_at(1, &init, &in), v[i].good ? UCCL_DROP_COUNT : UCCL_DROP_RANGE);
	}
}

/* Endpoint 1 has opened and answers. */
static void until_ack(struct pkt *ack)
{
	struct uccl_init in;
	struct pkt init;

	until_init(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
	assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_COUNT);
	assert_true(take(1, ack));
	assert_int_equal(ack->h.type, UCCL_PKT_INIT_ACK);
	assert_int_equal(ack->h.token, 0xa0);
}

TEST_IN(check_ack__good, start, NULL)
{
	struct uccl_init in;
	struct pkt ack;

	until_ack(&ack);
	now += 100;
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_COUNT);
	assert_int_equal(in.asked_ns, now - 100);
	assert_int_equal(uccl_conn_open(&conn[0], &in, true, now), UCCL_DROP_COUNT);
	assert_int_equal(conn[0].state, UCCL_CONN_OPEN);
	assert_int_equal(conn[0].token_remote, 0xa1);
	assert_int_equal(conn[1].token_remote, 0xa0);
	assert_int_equal(conn[0].theirs.paths, 33);
	assert_false(conn[0].ack_due);
}

/* Who does not know the key of the address is not who the address names. */
TEST_IN(check_ack__impostor, start, NULL)
{
	struct uccl_init in;
	struct pkt ack;

	until_ack(&ack);
	for (uint32_t bit = 32 * 8; bit < ack.len * 8; bit++) {
		ack.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(ack_at(0, &ack, &in), UCCL_DROP_COUNT);
		ack.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	start(state);
	conn[1].remote.incarnation = 0;
	until_init(&ack);
	assert_int_equal(init_at(1, &ack, &in), UCCL_DROP_COUNT);
	l[1].local.key[0] ^= 1;
	uccl_conn_open(&conn[1], &in, false, now);
	take(1, &ack);
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_MAC);
}

TEST_IN(check_ack__keyless, start, NULL)
{
	struct uccl_init in;
	struct pkt ack;

	l[1].keyless = true;
	memset(conn[0].remote.key, 0, UCCL_KEY_LEN);
	conn[0].remote.incarnation = 0;
	until_ack(&ack);
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_COUNT);
	assert_int_equal(uccl_conn_open(&conn[0], &in, true, now), UCCL_DROP_COUNT);
}

TEST_IN(check_ack__elsewhere, start, NULL)
{
	struct uccl_init in;
	struct pkt ack;

	until_ack(&ack);
	ack.src.ip[15]++;
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_SOURCE);
	ack.src.ip[15]--;
	conn[0].remote.nic.port++;
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_SOURCE);
	conn[0].remote.nic.port--;
	l[0].local.incarnation++;
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_STALE);
}

/* Both begin at once: one connection, the same tokens. */
TEST_IN(all__simultaneous, start, NULL)
{
	struct pkt hello[2], cookie[2], init[2], ack[2];
	struct uccl_init in;

	for (int i = 0; i < 2; i++) {
		uccl_conn_start(&conn[i], now);
		assert_true(take(i, &hello[i]));
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(answer(!i, &hello[i], &cookie[i]), UCCL_DROP_COUNT);
		assert_int_equal(uccl_conn_cookie(&conn[i], &cookie[i].h, now), UCCL_DROP_COUNT);
		assert_true(take(i, &init[i]));
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(init_at(!i, &init[i], &in), UCCL_DROP_COUNT);
		assert_int_equal(uccl_conn_open(&conn[!i], &in, false, now), UCCL_DROP_COUNT);
	}
	for (int i = 0; i < 2; i++) {
		assert_true(take(i, &ack[i]));
		assert_int_equal(ack[i].h.type, UCCL_PKT_INIT_ACK);
		assert_int_equal(ack_at(!i, &ack[i], &in), UCCL_DROP_COUNT);
		assert_int_equal(uccl_conn_open(&conn[!i], &in, true, now), UCCL_DROP_COUNT);
		assert_int_equal(conn[i].state, UCCL_CONN_OPEN);
	}
	assert_int_equal(conn[0].token_remote, 0xa1);
	assert_int_equal(conn[1].token_remote, 0xa0);
	for (int i = 0; i < 2; i++)
		assert_false(take(i, &ack[i]));
}

static void secure(int i, uint8_t security)
{
	l[i].security = conn[i].mine.security = security;
	memset(conn[i].mine.key, 0xc0 + i, UCCL_LONG_KEY);
}

/* PROTOCOL R92: keys for seals are told each other, and nobody else. */
TEST_IN(security__agreed, start, NULL)
{
	struct uccl_init in;
	struct pkt init, ack;

	for (uint8_t mode = UCCL_SECURITY_CONTROL; mode < UCCL_SECURITY_COUNT; mode++) {
		start(state);
		secure(0, mode);
		secure(1, mode);
		until_init(&init);
		assert_int_equal(init.len, UCCL_HDR_LEN + UCCL_INIT_MAX);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_memory_equal(in.params.key, conn[0].mine.key, UCCL_LONG_KEY);
		assert_int_equal(uccl_conn_open(&conn[1], &in, false, now), UCCL_DROP_COUNT);
		assert_true(take(1, &ack));
		assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_COUNT);
		assert_memory_equal(in.params.key, conn[1].mine.key, UCCL_LONG_KEY);
		for (uint32_t at = 0; at + 8 <= init.len; at++) {
			assert_memory_not_equal(init.data + at, conn[0].mine.key, 8);
			assert_memory_not_equal(ack.data + at, conn[1].mine.key, 8);
		}
		for (uint32_t bit = 32 * 8; bit < init.len * 8; bit++) {
			init.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_not_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
			init.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			ack.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_not_equal(ack_at(0, &ack, &in), UCCL_DROP_COUNT);
			ack.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

/* All pairs that differ are told apart, by both sides, when the other's word is proven and not before. */
TEST_IN(security__differs, start, NULL)
{
	struct uccl_init in;
	struct pkt init, ack;

	for (uint8_t a = 0; a < UCCL_SECURITY_COUNT; a++) {
		for (uint8_t b = 0; b < UCCL_SECURITY_COUNT; b++) {
			if (a == b)
				continue;
			start(state);
			secure(0, a);
			secure(1, b);
			until_init(&init);
			assert_int_equal(init_at(1, &init, &in), UCCL_DROP_SECURITY);
			conn[1].token_remote = in.token;
			conn[1].ack_due = true;
			assert_true(take(1, &ack));
			assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_SECURITY);
			/* Who is in between cannot say so. */
			init.data[init.len - 1] ^= 1;
			ack.data[ack.len - 1] ^= 1;
			assert_int_equal(init_at(1, &init, &in), UCCL_DROP_MAC);
			assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_MAC);
		}
	}
}

/* An attacker writes that the initiator asks for none: the code tells. */
TEST_IN(security__no_downgrade, start, NULL)
{
	struct uccl_init in;
	struct pkt init;
	const uint32_t at = UCCL_HDR_LEN + UCCL_ADDR_LEN + 29, text = UCCL_HDR_LEN + UCCL_ADDR_LEN + UCCL_PARAMS_LEN;

	secure(0, UCCL_SECURITY_CONTROL);
	until_init(&init);
	assert_int_equal(init.data[at], UCCL_SECURITY_CONTROL);
	init.data[at] = UCCL_SECURITY_TRUSTED;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_LENGTH);
	memmove(init.data + text, init.data + text + UCCL_WRAP_LEN, UCCL_MAC_LEN);
	init.h.payload_len = UCCL_INIT_PAYLOAD;
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_MAC);
}

/* Who has no key proves nothing, and gets no security. */
TEST_IN(security__keyless, start, NULL)
{
	struct uccl_init in;
	struct pkt init, ack;

	secure(0, UCCL_SECURITY_CONTROL);
	secure(1, UCCL_SECURITY_CONTROL);
	l[1].keyless = true;
	memset(conn[0].remote.key, 0, UCCL_KEY_LEN);
	until_init(&init);
	assert_int_equal(init_at(1, &init, &in), UCCL_DROP_KEYLESS);
	conn[1].token_remote = conn[0].token_local;
	conn[1].ack_due = true;
	assert_true(take(1, &ack));
	assert_int_equal(ack_at(0, &ack, &in), UCCL_DROP_KEYLESS);
}

/* What is said in byte `at` of the parameters is `field` of both sides, a bool. */
static void params_told(void **state, int at, size_t field)
{
	for (int i = 0; i < 2; i++) {
		struct uccl_init in;
		struct pkt init;

		start(state);
		*(bool *)((char *)&conn[0].mine + field) = i;
		until_init(&init);
		assert_int_equal(init.payload[UCCL_ADDR_LEN + at], i);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_int_equal(*(bool *)((char *)&in.params + field), i);
	}
}

/* PROTOCOL R188 */
TEST_IN(params__marks, start, NULL)
{
	params_told(state, 33, offsetof(struct uccl_conn_params, marks));
}

/* PROTOCOL R231 */
TEST_IN(params__units, start, NULL)
{
	params_told(state, 34, offsetof(struct uccl_conn_params, lane.short_stripes));
}

/* PROTOCOL R259 */
TEST_IN(params__pads, start, NULL)
{
	params_told(state, 35, offsetof(struct uccl_conn_params, pads));
}

/* PROTOCOL R255 */
TEST_IN(params__brittle, start, NULL)
{
	params_told(state, 36, offsetof(struct uccl_conn_params, brittle));
}

/* PROTOCOL R263 */
TEST_IN(params__unsolicited, start, NULL)
{
	params_told(state, 37, offsetof(struct uccl_conn_params, unsolicited));
}

/* PROTOCOL R265 */
TEST_IN(params__slices, start, NULL)
{
	params_told(state, 38, offsetof(struct uccl_conn_params, lane.lanes_unsolicited));
}

/* PROTOCOL R360 */
TEST_IN(params__aborts, start, NULL)
{
	for (int i = 0; i < 2; i++) {
		struct uccl_init in;
		struct pkt init;

		start(state);
		conn[0].mine.aborts = i;
		until_init(&init);
		assert_int_equal(init.payload[UCCL_ADDR_LEN + 38], 2 * i);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_int_equal(in.params.aborts, i);
	}
}

/* PROTOCOL R407 */
TEST_IN(params__orders_short, start, NULL)
{
	for (int i = 0; i < 2; i++) {
		struct uccl_init in;
		struct pkt init;

		start(state);
		conn[0].mine.lane.orders_short = i;
		until_init(&init);
		assert_int_equal(init.payload[UCCL_ADDR_LEN + 38], 4 * i);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_int_equal(in.params.lane.orders_short, i);
	}
}

/* What a slot is, and whether it is known what that means. PROTOCOL R376 */
TEST_IN(params__slot_unit, start, NULL)
{
	for (uint8_t unit = UCCL_SLOT_UNIT_BASE; unit <= UCCL_SLOT_UNIT_MAX; unit++) {
		struct uccl_init in;
		struct pkt init;

		start(state);
		conn[0].mine.units = unit & 1;
		conn[0].mine.slot_unit = unit == UCCL_SLOT_UNIT_BASE ? 0 : unit;
		until_init(&init);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_int_equal(in.params.units, unit & 1);
		assert_int_equal(in.params.slot_unit, conn[0].mine.slot_unit);
	}
}

/* PROTOCOL R340 R375 R384 */
TEST_IN(params__delays_renews_and_rails, start, NULL)
{
	for (int i = 0; i < 8; i++) {
		struct uccl_init in;
		struct pkt init;

		start(state);
		conn[0].mine.delays = i & 1;
		conn[0].mine.renews = i >> 1 & 1;
		conn[0].mine.rails = i >> 2;
		until_init(&init);
		assert_int_equal(init.payload[UCCL_ADDR_LEN + 39], (i & 3) | i >> 2 << 7);
		assert_int_equal(init_at(1, &init, &in), UCCL_DROP_COUNT);
		assert_int_equal(in.params.delays, i & 1);
		assert_int_equal(in.params.renews, i >> 1 & 1);
		assert_int_equal(in.params.rails, i >> 2);
	}
}

TESTS_MAIN

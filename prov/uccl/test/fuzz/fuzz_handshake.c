/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The handshake against an attacker on the path who does not know the keys: genuine packets of both sides pass through
 * the input's hands, which changes, repeats, swaps or keeps them, and makes up others. Neither side may open to anybody
 * but the other, with another token or other parameters than the other has; keys never travel.
 */
#include "api/lib/sodium.h"
#include "input.h"

#include "base/units.h"
#include "flow/wire/conn.h"

#define KEPT 8

struct pkt {
	uint32_t len;
	uint8_t from;
	uint8_t data[UCCL_HDR_LEN + UCCL_INIT_MAX];
};

static struct uccl_listener l[2];
static struct uccl_conn conn[2];
static struct pkt kept[KEPT];
static uint32_t nkept;

static void keep(const struct pkt *k)
{
	/* Secrets are not on the wire. */
	for (int i = 0; i < 2; i++) {
		assert(!memmem(k->data, k->len, conn[i].mine.key, UCCL_LONG_KEY));
		assert(!memmem(k->data, k->len, l[i].local.key, UCCL_KEY_LEN));
		assert(!memmem(k->data, k->len, l[i].secret, UCCL_KEY_LEN));
	}
	kept[nkept++ % KEPT] = *k;
}

static void drain(int i, uint64_t now)
{
	uint8_t buf[UCCL_INIT_MAX];
	struct uccl_tx tx;
	int n;

	memset(&tx, 0, sizeof(tx));
	for (n = 0; n < 4 && uccl_conn_tx(&conn[i], &l[i], &tx, buf, now); n++) {
		struct pkt k = {.from = (uint8_t)i, .len = UCCL_HDR_LEN + tx.payload_len};

		memcpy(k.data, tx.hdr, UCCL_HDR_LEN);
		if (tx.payload_len)
			memcpy(k.data + UCCL_HDR_LEN, tx.payload, tx.payload_len);
		keep(&k);
	}
	assert(n < 4);
}

static void arrive(int i, const struct pkt *in, const struct uccl_nic_addr *src, uint64_t now)
{
	uint8_t *exact = malloc(in->len ? in->len : 1);
	struct uccl_nic_addr to;
	struct uccl_init init;
	struct uccl_hdr h;
	struct pkt reply = {.from = (uint8_t)i, .len = UCCL_HDR_LEN};

	assert(exact);
	memcpy(exact, in->data, in->len);
	if (uccl_hdr_decode(&h, exact, in->len) == UCCL_DROP_COUNT) {
		switch (h.type) {
		case UCCL_PKT_HELLO:
			if (uccl_listener_hello(&l[i], &h, src, reply.data, &to, now) == UCCL_DROP_COUNT)
				keep(&reply);
			break;
		case UCCL_PKT_COOKIE:
			if (h.token == conn[i].token_local)
				uccl_conn_cookie(&conn[i], &h, now);
			break;
		case UCCL_PKT_ELSEWHERE:
			if (h.token == conn[i].token_local)
				uccl_conn_elsewhere(&conn[i], &h, now);
			break;
		case UCCL_PKT_INIT:
			if (uccl_listener_init(&l[i], &h, exact + UCCL_HDR_LEN, src, &init, now) == UCCL_DROP_COUNT)
				uccl_conn_open(&conn[i], &init, false, now);
			break;
		case UCCL_PKT_INIT_ACK:
			if (h.token == conn[i].token_local && conn[i].state >= UCCL_CONN_INIT &&
			    uccl_conn_check_ack(&conn[i], &l[i], &h, exact + UCCL_HDR_LEN, src, &init) ==
				    UCCL_DROP_COUNT)
				uccl_conn_open(&conn[i], &init, true, now);
			break;
		default:
			break;
		}
	}
	free(exact);
	drain(i, now);
}

static bool params_equal(const struct uccl_conn_params *a, const struct uccl_conn_params *b)
{
	return a->mtu == b->mtu && a->write_bytes == b->write_bytes && a->window == b->window &&
	       a->msg_limit == b->msg_limit && a->paths == b->paths && a->slots == b->slots && a->csn == b->csn &&
	       a->epoch == b->epoch && a->security == b->security &&
	       (!a->security || !memcmp(a->key, b->key, UCCL_LONG_KEY));
}

static void look(int i)
{
	const struct uccl_conn *c = &conn[i], *other = &conn[!i];

	if (c->state == UCCL_CONN_HELLO || c->state == UCCL_CONN_INIT)
		assert(c->at != UCCL_NEVER);
	else
		assert(c->at == UCCL_NEVER);
	if (c->state != UCCL_CONN_OPEN)
		return;
	assert(c->token_remote == other->token_local);
	assert(c->remote.incarnation == l[!i].local.incarnation);
	assert(params_equal(&c->theirs, &other->mine));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	uint64_t now = 100 * UCCL_NS_PER_S;

	assert(!uccl_sodium_load());
	memset(l, 0, sizeof(l));
	memset(kept, 0, sizeof(kept));
	nkept = 0;
	for (int i = 0; i < 2; i++) {
		l[i].local.nic.ip[15] = (uint8_t)(1 + i);
		l[i].local.nic.port = (uint16_t)(1000 + i);
		l[i].local.incarnation = 0x1234567800000001u + (unsigned int)i;
		for (int b = 0; b < UCCL_KEY_LEN; b++) {
			l[i].local.key[b] = (uint8_t)(0x31 + 7 * b + i);
			l[i].secret[b] = (uint8_t)(0x92 + 11 * b + i);
		}
	}
	for (int i = 0; i < 2; i++) {
		struct uccl_conn_params mine;

		memset(&mine, 0, sizeof(mine));
		mine.mtu = 1500 + (uint32_t)i;
		mine.window = 64;
		mine.paths = 4;
		mine.slots = 60;
		mine.csn = 77;
		mine.epoch = (uint8_t)i;
		memset(mine.key, 0x5a + i, sizeof(mine.key));
		uccl_conn_init(&conn[i], &l[!i].local, &mine, 0xabcdef1234567890u + (unsigned int)i,
			       0x1357924680u + (unsigned int)i);
	}
	while (in.at < in.end) {
		uint8_t what = byte(&in);
		int i = what >> 7;
		struct uccl_nic_addr src = l[!i].local.nic;
		struct pkt k = kept[byte(&in) % KEPT];

		switch (what % 8) {
		case 0:
			uccl_conn_start(&conn[i], now);
			drain(i, now);
			break;
		case 1:
			if (uccl_conn_expiry(&conn[i]) != UCCL_NEVER)
				now = uccl_max(now, uccl_conn_expiry(&conn[i]));
			uccl_conn_expire(&conn[i], now);
			drain(i, now);
			break;
		case 2:
			now += (uint64_t)byte(&in) << byte(&in) % 32;
			/* Before anything was said, so the two may differ: then they never open. */
			if (!nkept) {
				uint8_t how = byte(&in);

				l[i].security = conn[i].mine.security = how % UCCL_SECURITY_COUNT;
				conn[i].remote.indirect = how & 0x80;
			}
			break;
		case 3: /* as it was, perhaps to the wrong side, or back to its sender */
			arrive(i, &k, &src, now);
			break;
		case 4:
			arrive(i, &k, &l[k.from].local.nic, now);
			break;
		case 5: /* from elsewhere */
			src.ip[byte(&in) % 16] ^= byte(&in);
			arrive(i, &k, &src, now);
			break;
		case 6: { /* two packets crossed */
			const struct pkt *b = &kept[byte(&in) % KEPT];
			uint32_t from = byte(&in), len = byte(&in);

			for (uint32_t n = from; n < from + len && n < k.len && n < b->len; n++)
				k.data[n] = b->data[n];
			arrive(i, &k, &src, now);
			break;
		}
		default: /* changed */
			for (int n = byte(&in) % 4; n >= 0; n--)
				k.data[byte(&in) % sizeof(k.data)] ^= byte(&in);
			if (byte(&in) & 1)
				k.len = byte(&in) % (sizeof(k.data) + 1);
			arrive(i, &k, &src, now);
			break;
		}
		look(0);
		look(1);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

#define SECOND UCCL_NS_PER_S

static uint8_t src[1 << 18], dst[1 << 18];

static enum lan_verdict lose_write(struct lan *l, const struct lan_event *ev)
{
	return ev->rx.kind == UCCL_RX_WRITE && l->n++ == 3 ? LAN_DROP : LAN_PASS;
}

/* The NIC that writes: registration, fence, their end. PROTOCOL R24 R26 */
LAN_TEST(writes__through_the_engine, lan_new())
{
	l->writes = true;
	lan_open(l, 0);
	lan_open(l, 1);
	lan_fill(src, 200000, 1);
	lan_recv(l, 1, dst, 200000, LAN_CTX(1));
	assert_int_equal(lan_send(l, 0, 1, src, 200000, LAN_CTX(2)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(2), 0);
	lan_expect(l, 1, LAN_CTX(1), 0);
	lan_check(dst, 200000, 1);
	assert_true(lan_stats(l, 0)->writes_tx > 10);
	assert_int_equal(lan_stats(l, 1)->writes_rx, lan_stats(l, 0)->writes_tx);
	l->filter = lose_write;
	lan_fill(src, 100000, 2);
	lan_recv(l, 1, dst, 100000, LAN_CTX(3));
	assert_int_equal(lan_send(l, 0, 1, src, 100000, LAN_CTX(4)), 0);
	lan_run(l, SECOND);
	lan_expect(l, 0, LAN_CTX(4), 0);
	lan_expect(l, 1, LAN_CTX(3), 0);
	lan_check(dst, 100000, 2);
	assert_int_equal(l->node[1].nic->nfences, 1);
}

TESTS_MAIN

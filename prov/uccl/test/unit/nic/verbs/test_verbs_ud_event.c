/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a fake NIC says of itself, and what verbs-ud and verbs-uc make of it (verbs_ud_event.c). */
#include "nic/verbs/uc_state.h"

#include "../../tests.h"

#ifdef HAVE_VERBS

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "flow/wire/addr.h"
#include "../fake_verbs.h"

#define ROUNDS 3000 /* of rx(): more than lie between two reads of events */
#define PATHS 4

static struct fake_verbs *fake;
static struct fake_dev *dev[2];
static uint64_t now;
static struct uccl_nic *nic[2];
static struct uccl_nic_peer *peer[2];
static int link_seen[2], link_reports; /* what was reported last, -1: nothing */
static char shown[64];

static uint64_t clock_read(void)
{
	return now += UCCL_NS_PER_US;
}

static int begin(void **state)
{
	now = UCCL_NS_PER_S;
	fake = fake_verbs_new();
	dev[0] = fake_verbs_add(fake, "rxe0", 1, NULL);
	dev[1] = fake_verbs_add(fake, "rxe1", 2, NULL);
	dev[0]->attr.vendor_id = dev[1]->attr.vendor_id = 0xffffff;
	memset(nic, 0, sizeof(nic));
	link_seen[0] = link_seen[1] = -1;
	link_reports = 0;
	shown[0] = '\0';
	return 0;
}

static int end(void **state)
{
	int rc;

	for (int i = 0; i < 2; i++)
		if (nic[i])
			nic[i]->ops->close(nic[i]);
	rc = fake_verbs_end(fake);
	if (shown[0])
		rmdir(shown);
	return rc;
}

static int open_rc(int i, enum ibv_qp_type type, struct uccl_nic_attr attr)
{
	attr.ifname = i ? "rxe1" : "rxe0";
	if (type == IBV_QPT_UD)
		return uccl_verbs_ud_open(fake_verbs_lib(), clock_read, &attr, &nic[i]);
	return uccl_verbs_uc_open(fake_verbs_lib(), clock_read, type, &attr, &nic[i]);
}

static void open_both(enum ibv_qp_type type)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(open_rc(i, type, (struct uccl_nic_attr){.mtu = 0}), 0);
}

static int begin_ud(void **state)
{
	int rc = begin(state);

	open_both(IBV_QPT_UD);
	return rc;
}

static struct ud *ud(int i)
{
	return nic[i]->ops->prepare ? uc_of(nic[i])->ud : ud_of(nic[i]);
}

/* Receive for a while: how many packets or writes came. */
static int hear(int i)
{
	struct uccl_rx v[16];
	int n = 0;

	for (int round = 0; round < ROUNDS; round++) {
		int k = nic[i]->ops->rx(nic[i], v, 16, NULL, 0);

		assert_true(k >= 0);
		for (int j = 0; j < k; j++) {
			n += v[j].kind == UCCL_RX_PACKET || v[j].kind == UCCL_RX_WRITE;
			if (v[j].kind != UCCL_RX_LINK)
				continue;
			link_seen[i] = (int)v[j].imm;
			link_reports++;
		}
	}
	return n;
}

/* Send a packet: does it come? */
static bool packet_comes(int from)
{
	struct uccl_nic_addr to;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .hdr_len = 64, .to = &to};

	nic[!from]->ops->addr(nic[!from], &to);
	assert_int_equal(nic[from]->ops->tx(nic[from], &t, 1), 1);
	hear(from);
	return hear(!from) == 1;
}

static void link_check(int i, int link)
{
	hear(i);
	assert_int_equal(link_seen[i], link);
	assert_int_equal(ud(i)->link.state, link < 0 ? UCCL_LINK_UP : link);
}

/* The link of NIC 0 changes, and the NIC reports it. */
static void link_change(bool up)
{
	dev[0]->port[0].state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	fake_verbs_event(fake, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 0);
}

TEST_IN(link__down_and_up, begin_ud, end)
{
	unsigned int sends;

	assert_true(packet_comes(0));
	link_check(0, -1);
	for (int round = 0; round < 3; round++) {
		link_change(false);
		link_check(0, UCCL_LINK_DOWN);
		link_check(1, -1);
		sends = fake_verbs_calls(fake, "post_send");
		assert_false(packet_comes(0));
		assert_int_equal(fake_verbs_calls(fake, "post_send"), sends);
		link_change(true);
		link_check(0, UCCL_LINK_UP);
		assert_true(packet_comes(0));
		assert_true(packet_comes(1));
	}
	assert_int_equal(ud(0)->link.lost, 3);
	assert_int_equal(ud(0)->tx.errors, 0);
	/* Each change is reported once. */
	assert_int_equal(link_reports, 6);
}

/* Opened without a link: that is told first, and nothing is handed to the NIC before it has one. PROTOCOL R252 */
static void none_yet(enum ibv_qp_type type)
{
	unsigned int sends = fake_verbs_calls(fake, "post_send");

	dev[0]->port[0].state = IBV_PORT_DOWN;
	for (int i = 0; i < 2; i++)
		for (int linkless = i; linkless < 2; linkless++)
			assert_int_equal(open_rc(i, type, (struct uccl_nic_attr){.linkless = linkless}),
					 linkless ? 0 : -FI_ENODEV);
	assert_false(packet_comes(0));
	link_check(0, UCCL_LINK_DOWN);
	link_check(1, -1);
	if (type != IBV_QPT_UD)
		assert_int_equal(uc_of(nic[0])->dev->link, UCCL_LINK_DOWN);
	assert_false(packet_comes(1));
	assert_int_equal(fake_verbs_calls(fake, "post_send"), sends + 1);
	link_change(true);
	link_check(0, UCCL_LINK_UP);
	if (type != IBV_QPT_UD)
		assert_int_equal(uc_of(nic[0])->dev->link, UCCL_LINK_UP);
	assert_int_equal(link_reports, 2);
	assert_true(packet_comes(0));
	assert_true(packet_comes(1));
}

TEST_IN(link__none_yet, begin, end)
{
	none_yet(IBV_QPT_UD);
}

TEST_IN(link__none_yet_uc, begin, end)
{
	none_yet(IBV_QPT_UC);
}

/* Events that change nothing, and of ports that are as before. */
TEST_IN(link__no_change, begin_ud, end)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE, IBV_EVENT_PKEY_CHANGE,
						    IBV_EVENT_SM_CHANGE,   IBV_EVENT_PORT_ERR,   IBV_EVENT_COMM_EST};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fake_verbs_event(fake, types[i], 0);
		link_check(0, -1);
	}
	assert_int_equal(link_reports, 0);
	assert_true(packet_comes(0));
}

/* An event wakes whoever sleeps. */
TEST_IN(link__wakes, begin_ud, end)
{
	struct pollfd p = {.events = POLLIN};
	struct uccl_rx r;

	p.fd = nic[0]->ops->wait_fd(nic[0]);
	assert_true(p.fd >= 0);
	hear(0);
	assert_int_equal(poll(&p, 1, 0), 0);
	link_change(false);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(nic[0]->ops->rx(nic[0], &r, 1, NULL, 0), 1);
	assert_int_equal(r.kind, UCCL_RX_LINK);
	assert_int_equal(r.imm, UCCL_LINK_DOWN);
	assert_int_equal(nic[0]->ops->rx(nic[0], &r, 1, NULL, 0), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

/* A place that could not be reached while the link was down is tried at once when it is back. */
TEST_IN(link__forgets_dead_places, begin_ud, end)
{
	fake_verbs_fail(fake, "create_ah", 1, ETIMEDOUT);
	assert_false(packet_comes(0));
	assert_false(packet_comes(0));
	now += 10 * UCCL_NS_PER_MS;
	fake_verbs_event(fake, IBV_EVENT_PORT_ACTIVE, 0);
	hear(0);
	assert_true(packet_comes(0));
}

/* Numbers of the entries of the table: one more before ours. */
static void gids_shift(struct fake_port *p, int by)
{
	for (int i = 0; i < p->ngids; i++)
		p->gid[i].gid_index = (uint32_t)((int)p->gid[i].gid_index + by);
}

TEST_IN(gid__moved, begin_ud, end)
{
	assert_true(packet_comes(0));
	assert_int_equal(ud(0)->port.gid_index, 3);
	gids_shift(&dev[0]->port[0], 2);
	fake_verbs_event(fake, IBV_EVENT_GID_CHANGE, 0);
	link_check(0, -1);
	assert_int_equal(ud(0)->port.gid_index, 5);
	assert_int_equal(ud(0)->tx.cq_renewed, 1);
	assert_true(packet_comes(0));
	assert_true(packet_comes(1));
}

/* Our address is another's, or nobody's, for a while. */
TEST_IN(gid__gone_and_back, begin_ud, end)
{
	struct ibv_gid_entry was;

	was = dev[0]->port[0].gid[3];
	dev[0]->port[0].gid[3].gid.raw[15] ^= 9;
	fake_verbs_event(fake, IBV_EVENT_GID_CHANGE, 0);
	link_check(0, UCCL_LINK_DOWN);
	dev[0]->port[0].gid[3] = was;
	fake_verbs_event(fake, IBV_EVENT_GID_CHANGE, 0);
	link_check(0, UCCL_LINK_UP);
	assert_true(packet_comes(0));
}

TEST_IN(lid__another, begin, end)
{
	fake_verbs_infiniband(dev[0], 0x10);
	fake_verbs_infiniband(dev[1], 0x11);
	open_both(IBV_QPT_UD);
	assert_true(packet_comes(0));
	dev[0]->port[0].lid = 0x12;
	fake_verbs_event(fake, IBV_EVENT_LID_CHANGE, 0);
	link_check(0, UCCL_LINK_DOWN);
	dev[0]->port[0].lid = 0x10;
	fake_verbs_event(fake, IBV_EVENT_LID_CHANGE, 0);
	link_check(0, UCCL_LINK_UP);
	assert_true(packet_comes(0));
}

/* Whatever is called then does nothing, and no news comes any more. */
static void gone_check(int i)
{
	unsigned int events, posts = fake_verbs_calls(fake, "post_send");

	link_check(i, UCCL_LINK_GONE);
	events = fake_verbs_calls(fake, "get_async_event");
	fake_verbs_event(fake, IBV_EVENT_PORT_ACTIVE, 0);
	assert_false(packet_comes(i));
	link_check(i, UCCL_LINK_GONE);
	assert_int_equal(fake_verbs_calls(fake, "post_send"), posts);
	/* The other one, which takes the event, is not meant. */
	assert_true(fake_verbs_calls(fake, "get_async_event") >= events);
	assert_int_equal(ud(i)->link.lost, 1);
}

TEST_IN(gone__by_event, begin_ud, end)
{
	fake_verbs_event(fake, IBV_EVENT_DEVICE_FATAL, 0);
	gone_check(0);
}

/* E20: who has changed its user since has no device any more, and hears so. */
TEST_IN(gone__credentials, begin_ud, end)
{
	assert_true(packet_comes(0));
	fake_verbs_fail(fake, "post_send", 1, EACCES);
	assert_false(packet_comes(0));
	gone_check(0);
	link_check(1, -1);
}

TEST_IN(gone__by_error, begin_ud, end)
{
	fake_verbs_detach(fake);
	link_check(0, UCCL_LINK_GONE);
}

/* As Soft-RoCE's goes: nothing is said, but sysfs does not show it any more. */
TEST_IN(gone__unsaid, begin, end)
{
	strcpy(shown, "verbs_ud_event_XXXXXX");
	assert_non_null(mkdtemp(shown));
	strcpy(dev[0]->dev.dev_path, shown);
	open_both(IBV_QPT_UD);
	now += 2 * UCCL_NS_PER_S;
	link_check(0, -1);
	rmdir(shown);
	now += UCCL_NS_PER_S;
	gone_check(0);
	link_check(1, -1);
}

/* A host that does not show its devices: that is no sign. */
TEST_IN(gone__never_shown, begin, end)
{
	strcpy(dev[0]->dev.dev_path, "/nonexistent/uverbs0");
	open_both(IBV_QPT_UD);
	now += 2 * UCCL_NS_PER_S;
	link_check(0, -1);
	assert_true(packet_comes(0));
}

TEST_IN(cq__of_sends, begin_ud, end)
{
	assert_true(packet_comes(0));
	fake_verbs_queue_event(fake, IBV_EVENT_CQ_ERR, ud(0)->tx.cq);
	link_check(0, -1);
	assert_int_equal(ud(0)->tx.cq_renewed, 1);
	assert_true(packet_comes(0));
	assert_true(packet_comes(1));
}

/* Its queue pair's number is our address: there is no other. */
TEST_IN(cq__of_receives, begin_ud, end)
{
	fake_verbs_queue_event(fake, IBV_EVENT_CQ_ERR, ud(0)->rx.cq);
	gone_check(0);
}

TEST_IN(cq__not_again, begin_ud, end)
{
	fake_verbs_queue_event(fake, IBV_EVENT_CQ_ERR, ud(0)->tx.cq);
	fake_verbs_fail(fake, "create_cq", 1, ENOMEM);
	gone_check(0);
}

/* Peers. */

/* GIDs of this host's own: then hosts hold connections. */
static void open_local(int i, enum ibv_qp_type type)
{
	fake_verbs_local(dev[i], (uint8_t)(i + 1));
	assert_int_equal(open_rc(i, type, (struct uccl_nic_attr){.liveness = true}), 0);
}

/* How many ends of the other one are told within some time; whether it sleeps makes no difference. */
static int ends_heard(int i, const struct uccl_nic_addr *of)
{
	struct uccl_rx v[4];
	int n = 0;

	for (int round = 0; round < 3000 && !n; round++) {
		int k = nic[i]->ops->rx(nic[i], v, 4, NULL, 0);

		now += UCCL_NS_PER_MS;
		for (int j = 0; j < k; j++) {
			if (v[j].kind != UCCL_RX_GONE)
				continue;
			n++;
			assert_true(uccl_nic_addr_equal(&v[j].src, of));
		}
		usleep(100);
	}
	return n;
}

static void peer_ends(enum ibv_qp_type type)
{
	struct uccl_nic_addr to;

	for (int i = 0; i < 2; i++)
		open_local(i, type);
	assert_non_null(ud(0)->live.udp);
	nic[1]->ops->addr(nic[1], &to);
	assert_true(to.port >= 0x8000);
	assert_int_equal(nic[0]->ops->connect(nic[0], &to, 1, PATHS, &peer[0]), 0);
	/* It has to be there first. */
	for (int round = 0; round < 100; round++) {
		hear(0);
		hear(1);
		now += UCCL_NS_PER_MS;
		usleep(100);
	}
	nic[1]->ops->close(nic[1]);
	nic[1] = NULL;
	assert_int_equal(ends_heard(0, &to), 1);
	nic[0]->ops->disconnect(nic[0], peer[0]);
}

/*
 * HELLO to a place leaves so often, and 100 ms go by after each: how many reports there are that nobody listens there,
 * each with the packet's header. In the first `early` of these times there may be none.
 */
static int refusals(const struct uccl_nic_addr *to, int hellos, int early)
{
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .control = UCCL_TX_HELLO, .hdr_len = UCCL_HDR_LEN, .to = to};
	struct uccl_rx v[4];
	int reports = 0;

	for (int i = 0; i < hellos; i++) {
		t.hdr[0] = (uint8_t)i;
		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
		for (int round = 0; round < 1000; round++) {
			int k = nic[0]->ops->rx(nic[0], v, 4, NULL, 0);

			if (nic[1])
				nic[1]->ops->rx(nic[1], v + 1, 3, NULL, 0);
			now += 100 * UCCL_NS_PER_US;
			if (k != 1 || v[0].kind != UCCL_RX_UNREACH)
				continue;
			reports++;
			assert_true(uccl_nic_addr_equal(&v[0].src, to));
			assert_int_equal(v[0].len, UCCL_HDR_LEN);
			assert_memory_equal(v[0].data, t.hdr, UCCL_HDR_LEN);
		}
		assert_true(i >= early || !reports);
	}
	return reports;
}

/* Two NICs of this host; with `ended` the second is no more. Returns where it is, or was. */
static struct uccl_nic_addr open_pair(enum ibv_qp_type type, bool ended)
{
	struct uccl_nic_addr to;

	for (int i = 0; i < 2; i++)
		open_local(i, type);
	nic[1]->ops->addr(nic[1], &to);
	if (ended) {
		nic[1]->ops->close(nic[1]);
		nic[1] = NULL;
	}
	return to;
}

/* Nobody answers HELLO: the host is asked after some, and says each time that nobody is there. PROTOCOL R251 */
TEST_IN(ask__refused, begin, end)
{
	struct uccl_nic_addr to = open_pair(IBV_QPT_UD, true);

	assert_int_equal(refusals(&to, 20, 15), 5);
	/* What begins after a while is another story. */
	now += 3 * UCCL_NS_PER_S;
	assert_int_equal(refusals(&to, 20, 15), 5);
}

/* Who listens is late, until it ends. */
TEST_IN(ask__late, begin, end)
{
	struct uccl_nic_addr to = open_pair(IBV_QPT_UC, false);

	assert_int_equal(refusals(&to, 60, 60), 0);
	nic[1]->ops->close(nic[1]);
	nic[1] = NULL;
	assert_true(refusals(&to, 10, 0) >= 3);
}

/* The address does not say that it listens, or it was no HELLO, or it has answered. */
TEST_IN(ask__unsolicited, begin, end)
{
	struct uccl_nic_addr to = open_pair(IBV_QPT_UD, true), silent = to;
	struct uccl_tx t = {.kind = UCCL_TX_PACKET, .control = true, .hdr_len = UCCL_HDR_LEN, .to = &to};
	struct uccl_rx v[4];

	assert_true(silent.pad & UD_LISTENS);
	silent.pad &= (uint16_t)~UD_LISTENS;
	assert_int_equal(refusals(&silent, 40, 40), 0);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
		for (int round = 0; round < 100; round++, now += UCCL_NS_PER_MS)
			assert_int_equal(nic[0]->ops->rx(nic[0], v, 4, NULL, 0), 0);
	}
	assert_int_equal(refusals(&to, 15, 15), 0);
	assert_int_equal(nic[0]->ops->connect(nic[0], &to, 1, PATHS, &peer[0]), 0);
	assert_int_equal(refusals(&to, 15, 15), 0);
	nic[0]->ops->disconnect(nic[0], peer[0]);
}

/* More places than there is room for: one has to wait until others are asked for no more. */
TEST_IN(ask__many, begin, end)
{
	struct uccl_nic_addr to = open_pair(IBV_QPT_UD, true), other = to;

	for (int i = 0; i < UD_ASKS; i++) {
		struct uccl_tx t = {.kind = UCCL_TX_PACKET, .control = UCCL_TX_HELLO, .hdr_len = UCCL_HDR_LEN,
				    .to = &other};

		other.scope += 1u << 24;
		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	}
	assert_int_equal(refusals(&to, 18, 18), 0);
	now += 2 * UCCL_NS_PER_S;
	assert_int_equal(refusals(&to, 18, 15), 3);
}

TEST_IN(live__ud, begin, end)
{
	peer_ends(IBV_QPT_UD);
}

TEST_IN(live__uc, begin, end)
{
	peer_ends(IBV_QPT_UC);
}

/* Addresses that are not this host's, or none that are IP: it goes without. */
TEST_IN(live__none, begin, end)
{
	struct uccl_nic_attr attr = {.liveness = true};
	struct uccl_nic_addr to = {.port = 1, .ip = {1}};

	assert_int_equal(open_rc(0, IBV_QPT_UD, attr), 0);
	assert_null(ud(0)->live.udp);
	assert_int_equal(nic[0]->ops->connect(nic[0], &to, 1, PATHS, &peer[0]), 0);
	assert_null(peer[0]);
	fake_verbs_infiniband(dev[1], 0x5d6);
	assert_int_equal(open_rc(1, IBV_QPT_UD, attr), 0);
	assert_null(ud(1)->live.udp);
}

/* Queue pairs for writes. */

static void say(int i)
{
	uint8_t buf[UCCL_NIC_RECORD];
	uint32_t len;

	while ((len = nic[i]->ops->offer(nic[i], peer[i], buf, sizeof(buf))))
		assert_int_equal(nic[!i]->ops->accept(nic[!i], peer[!i], buf, len), 0);
}

static void settle(void)
{
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 2; i++) {
			hear(i);
			say(i);
		}
		now += 200 * UCCL_NS_PER_MS;
	}
}

static int begin_uc(void **state)
{
	struct uccl_nic_addr to;
	int rc = begin(state);

	open_both(IBV_QPT_UC);
	for (int i = 0; i < 2; i++) {
		nic[!i]->ops->addr(nic[!i], &to);
		assert_int_equal(nic[i]->ops->connect(nic[i], &to, 1, PATHS, &peer[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		nic[i]->ops->prepare(nic[i], peer[i]);
	settle();
	return rc;
}

/* A write on each path: how many come. */
static int writes_come(int from)
{
	static uint8_t src[512], dst[512];
	uint64_t rkey, raddr;
	int came;
	void *mr;

	assert_int_equal(nic[!from]->ops->reg(nic[!from], dst, sizeof(dst), &mr, &rkey, &raddr), 0);
	for (uint16_t k = 0; k < PATHS; k++) {
		struct uccl_tx t = {.kind = UCCL_TX_WRITE,
				    .path = k,
				    .payload = src,
				    .payload_len = sizeof(src),
				    .rkey = rkey,
				    .raddr = raddr,
				    .peer = peer[from]};

		assert_int_equal(nic[from]->ops->tx(nic[from], &t, 1), 1);
	}
	hear(from);
	came = hear(!from);
	nic[!from]->ops->dereg(nic[!from], mr, true);
	return came;
}

/* Whichever breaks: queues are made anew on this side, queue pairs on both. */
TEST_IN(uc__queues, begin_uc, end)
{
	assert_int_equal(writes_come(0), PATHS);
	for (int i = 0; i < 2; i++) {
		for (int which = 0; which < 3; which++) {
			struct uc_dev *d = uc_of(nic[i])->dev;

			if (which == 2)
				fake_verbs_queue_event(fake, IBV_EVENT_SRQ_ERR, d->queues.srq);
			else
				fake_verbs_queue_event(fake, IBV_EVENT_CQ_ERR,
						       which ? d->queues.rx_cq : d->queues.tx_cq);
			settle();
			assert_int_equal(d->queues.renewed, which + 1);
			assert_int_equal(writes_come(0), PATHS);
			assert_int_equal(writes_come(1), PATHS);
			assert_true(packet_comes(i));
		}
	}
	assert_int_equal(link_reports, 0);
}

/* Without them all goes in packets. */
TEST_IN(uc__queues_not_again, begin_uc, end)
{
	fake_verbs_fail(fake, "create_srq", 0, ENOMEM);
	fake_verbs_queue_event(fake, IBV_EVENT_SRQ_ERR, uc_of(nic[0])->dev->queues.srq);
	settle();
	assert_int_equal(writes_come(0), 0);
	assert_int_equal(writes_come(1), 0);
	assert_int_equal(link_reports, 0);
	assert_true(packet_comes(0) && packet_comes(1));
	fake_verbs_fail(fake, "create_srq", 0, 0);
}

/* Queue pairs hold the number of their GID: new ones. */
TEST_IN(uc__gid_moved, begin_uc, end)
{
	gids_shift(&dev[1]->port[0], 1);
	fake_verbs_event(fake, IBV_EVENT_GID_CHANGE, 0);
	settle();
	assert_int_equal(uc_of(nic[1])->dev->sets.made, 2 * PATHS);
	assert_int_equal(writes_come(0), PATHS);
	assert_int_equal(writes_come(1), PATHS);
}

TEST_IN(uc__down, begin_uc, end)
{
	link_change(false);
	link_check(0, UCCL_LINK_DOWN);
	assert_int_equal(writes_come(0), 0);
	link_change(true);
	link_check(0, UCCL_LINK_UP);
	assert_int_equal(writes_come(0), PATHS);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

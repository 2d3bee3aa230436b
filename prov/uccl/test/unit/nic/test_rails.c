/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Several NICs as one (rails.c), on the fake RDMA NICs. */
#include "nic/nic.h"

#include "../tests.h"

#ifdef HAVE_VERBS

#include <poll.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "base/le.h"
#include "base/rng.h"
#include "base/units.h"
#include "fake_verbs.h"
#include "nic/verbs/uc_state.h"

#define SIDES 2
#define RAILS 2
#define PATHS 4

static struct fake_verbs *fake;
static struct fake_dev *dev[SIDES][RAILS];
static struct uccl_nic *nic[SIDES], *inner[SIDES][RAILS];
static struct uccl_nic_peer *peer[SIDES];
static struct uccl_nic_addr place[SIDES];
static uint64_t now;
static int packets[SIDES], links[SIDES], last_link, ons[SIDES];
static uint64_t by_device[SIDES * RAILS];

static uint64_t clock_read(void)
{
	return now += UCCL_NS_PER_US;
}

/* Which devices packets come from: queue pairs are numbered by device. */
static enum fake_fate count(void *arg, const struct fake_packet *p)
{
	for (int s = 0; s < SIDES; s++)
		for (int r = 0; r < RAILS; r++)
			if (p->type == IBV_QPT_UD && p->src_qpn / 10000 == (uint32_t)(s * RAILS + r + 1))
				by_device[s * RAILS + r]++;
	return FAKE_PASS;
}

static int begin(void **state)
{
	static const char *const name[SIDES][RAILS] = {{"rxe0", "rxe1"}, {"rxe2", "rxe3"}};

	(void)state;
	now = UCCL_NS_PER_S;
	fake = fake_verbs_new();
	memset(nic, 0, sizeof(nic));
	memset(packets, 0, sizeof(packets));
	memset(links, 0, sizeof(links));
	memset(ons, 0, sizeof(ons));
	memset(by_device, 0, sizeof(by_device));
	for (int s = 0; s < SIDES; s++) {
		for (int r = 0; r < RAILS; r++) {
			struct uccl_nic_attr attr = {.ifname = name[s][r]};

			dev[s][r] = fake_verbs_add(fake, name[s][r], (uint8_t)(s * RAILS + r + 1), NULL);
			dev[s][r]->next_qpn = (uint32_t)(s * RAILS + r + 1) * 10000;
			assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr,
							    &inner[s][r]),
					 0);
		}
		inner[s][RAILS - 1]->caps.write_brittle = s;
		assert_int_equal(uccl_nic_rails_open(inner[s], RAILS, &nic[s]), 0);
		nic[s]->ops->addr(nic[s], &place[s]);
	}
	for (int s = 0; s < SIDES; s++)
		assert_int_equal(nic[s]->ops->connect(nic[s], &place[!s], 100 + (uint64_t)s, PATHS, &peer[s]), 0);
	fake->hook = count;
	return 0;
}

static int end(void **state)
{
	bool clean;

	(void)state;
	for (int s = 0; s < SIDES; s++)
		if (nic[s])
			nic[s]->ops->close(nic[s]);
	clean = !fake_verbs_live(fake) && !fake->violations;
	fake_verbs_free(fake);
	return clean ? 0 : -1;
}

static void events(int s)
{
	struct uccl_rx v[8];
	int n;

	do {
		n = nic[s]->ops->rx(nic[s], v, 8, NULL, 0);
		for (int i = 0; i < n; i++) {
			switch (v[i].kind) {
			case UCCL_RX_PACKET:
				packets[s]++;
				assert_memory_equal(v[i].src.ip, place[!s].ip, 16);
				break;
			case UCCL_RX_LINK:
				links[s]++;
				last_link = (int)v[i].imm;
				break;
			case UCCL_RX_WRITE_ON:
				ons[s]++;
				assert_ptr_equal(v[i].peer, peer[s]);
				break;
			default:
				break;
			}
		}
	} while (n);
}

static void talk(void)
{
	uint8_t buf[256];
	uint32_t len;

	for (int round = 0; round < 8; round++)
		for (int s = 0; s < SIDES; s++) {
			events(s);
			while ((len = nic[s]->ops->offer(nic[s], peer[s], buf, UCCL_NIC_RECORD)))
				assert_int_equal(nic[!s]->ops->accept(nic[!s], peer[!s], buf, len), 0);
		}
}

/* A packet of each label from 0 to 15; how many arrive. */
static int sixteen(int s)
{
	static uint8_t text[64];
	int before = packets[!s];

	for (uint16_t label = 0; label < 16; label++) {
		struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = label, .hdr_len = UCCL_HDR_LEN, .peer = peer[s],
				    .to = &place[!s]};

		memcpy(t.hdr, text, sizeof(text));
		assert_int_equal(nic[s]->ops->tx(nic[s], &t, 1), 1);
		/* As it was: what is not taken is given again. */
		assert_ptr_equal(t.peer, peer[s]);
		assert_ptr_equal(t.to, &place[!s]);
		assert_int_equal(t.label, label);
	}
	events(s);
	events(!s);
	return packets[!s] - before;
}

/* The busy look at the NIC itself now and then only. */
static void look(void)
{
	for (int i = 0; i < 1100; i++)
		for (int s = 0; s < SIDES; s++)
			events(s);
}

static void link_set(int s, int r, enum ibv_port_state state)
{
	dev[s][r]->port[0].state = state;
	fake_verbs_event(fake, state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 0);
	look();
}

/* Until the places are known all goes over the first; then half of it over each. */
TEST_IN(tx__both_rails, begin, end)
{
	assert_int_equal(nic[0]->caps.labels % RAILS, 0);
	assert_false(nic[0]->caps.marks);
	/* If it is so with one of them. PROTOCOL R255 */
	assert_true(nic[1]->caps.write_brittle && !nic[0]->caps.write_brittle);
	assert_int_equal(nic[0]->caps.link_bps, 2 * inner[0][0]->caps.link_bps);
	assert_int_equal(sixteen(0), 16);
	assert_int_equal(by_device[0], 16);
	talk();
	assert_int_equal(sixteen(0), 16);
	assert_int_equal(by_device[0], 24);
	assert_int_equal(by_device[1], 8);
	assert_int_equal(sixteen(1), 16);
	assert_int_equal(by_device[2], 8);
	assert_int_equal(by_device[3], 8);
}

/* Writes go by the first one, as with it alone. */
TEST_IN(writes__first_rail, begin, end)
{
	static uint8_t src[4096], dst[4096];
	struct uccl_rx v[8];
	uint64_t rkey, raddr, unsent;
	void *mr;
	int n;

	assert_int_equal(nic[0]->ops->prepare(nic[0], peer[0]), -FI_EAGAIN);
	talk();
	assert_int_equal(nic[1]->ops->prepare(nic[1], peer[1]), 0);
	assert_int_equal(ons[0], PATHS);
	assert_int_equal(nic[1]->ops->reg(nic[1], dst, sizeof(dst), &mr, &rkey, &raddr), 0);
	memset(src, 0x42, sizeof(src));
	for (uint16_t k = 0; k < PATHS; k++) {
		struct uccl_tx t = {.kind = UCCL_TX_WRITE, .path = k, .label = k, .payload = src + k * 1024,
				    .payload_len = 1024, .imm = 7, .rkey = rkey, .raddr = raddr + k * 1024u,
				    .peer = peer[0]};

		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
		/* What is not sent yet, of all rails, is looked up when there is something to be done. */
		unsent = nic[0]->ops->backlog(nic[0]);
		nic[0]->ops->rx(nic[0], v, 8, NULL, 0);
		assert_int_equal(unsent - nic[0]->ops->backlog(nic[0]), 1024);
		n = nic[1]->ops->rx(nic[1], v, 8, NULL, 0);
		assert_int_equal(n, 1);
		assert_int_equal(v[0].kind, UCCL_RX_WRITE);
		assert_ptr_equal(v[0].peer, peer[1]);
	}
	assert_memory_equal(src, dst, sizeof(src));
	nic[1]->ops->dereg(nic[1], mr, true);
	nic[1]->ops->finish(nic[1], peer[1]);
	/* None are granted while it has no link. */
	link_set(1, 0, IBV_PORT_DOWN);
	assert_int_equal(nic[1]->ops->prepare(nic[1], peer[1]), -FI_EAGAIN);
	link_set(1, 0, IBV_PORT_ACTIVE);
	assert_int_equal(nic[1]->ops->prepare(nic[1], peer[1]), 0);
}

/* Any rail may go: what has a link carries all, and nobody is told before the last is gone. */
TEST_IN(link__one_of_two, begin, end)
{
	talk();
	for (int r = 0; r < RAILS; r++) {
		uint64_t before = by_device[!r];

		link_set(0, r, IBV_PORT_DOWN);
		assert_int_equal(sixteen(0), 16);
		assert_int_equal(by_device[!r] - before, 16);
		assert_int_equal(links[0], 0);
		link_set(0, r, IBV_PORT_ACTIVE);
	}
	for (int r = 0; r < RAILS; r++)
		link_set(0, r, IBV_PORT_DOWN);
	assert_int_equal(links[0], 1);
	assert_int_equal(last_link, UCCL_LINK_DOWN);
	link_set(0, 1, IBV_PORT_ACTIVE);
	assert_int_equal(links[0], 2);
	assert_int_equal(last_link, UCCL_LINK_UP);
	link_set(0, 0, IBV_PORT_ACTIVE);
	assert_int_equal(links[0], 2);
	assert_int_equal(links[1], 0);
	assert_int_equal(sixteen(0), 16);
}

TEST_IN(link__all_gone, begin, end)
{
	talk();
	fake_verbs_detach(fake);
	look();
	assert_int_equal(links[0], 1);
	assert_int_equal(links[1], 1);
	assert_int_equal(last_link, UCCL_LINK_GONE);
}

TEST_IN(accept__nonsense, begin, end)
{
	uint8_t good[64] = {0}, buf[64];

	assert_int_equal(nic[0]->ops->offer(nic[0], peer[0], good, sizeof(good)), 32);
	for (uint32_t len = 1; len < 64; len++)
		if (len != 32)
			assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, len), -FI_EINVAL);
	for (int i = 0; i < 16; i++) {
		memcpy(buf, good, sizeof(buf));
		if (i < 2 || i > 9)
			buf[i] ^= 0x11;
		else
			memset(buf + (i < 4 ? 2 : i < 8 ? 4 : 8), 0, i < 4 || i > 7 ? 2 : 4);
		assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], buf, 32), -FI_EINVAL);
	}
	memset(buf + 16, 0, 16);
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], buf, 32), -FI_EINVAL);
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, 32), 0);
	/* Once only. */
	assert_int_equal(nic[1]->ops->accept(nic[1], peer[1], good, 32), -FI_EINVAL);
	/* Somebody else cannot claim that address for a host of its own. */
	{
		struct uccl_nic_addr other = place[0];
		struct uccl_nic_peer *p;

		other.ip[15] = 99;
		assert_int_equal(nic[1]->ops->connect(nic[1], &other, 7, PATHS, &p), 0);
		assert_int_equal(nic[1]->ops->accept(nic[1], p, good, 32), 0);
		nic[1]->ops->disconnect(nic[1], p);
	}
	talk();
	assert_int_equal(sixteen(0), 16);
}

TEST_IN(open__refused, begin, end)
{
	struct uccl_nic_attr attr = {.ifname = "rxe0"};
	struct uccl_nic *two[2], *out;

	assert_int_equal(uccl_verbs_ud_open(fake_verbs_lib(), clock_read, &attr, &two[0]), 0);
	assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &two[1]), 0);
	assert_int_equal(uccl_nic_rails_open(two, 2, &out), -FI_EINVAL);
	assert_int_equal(uccl_verbs_uc_open(fake_verbs_lib(), clock_read, IBV_QPT_UC, &attr, &two[0]), 0);
	assert_int_equal(uccl_nic_rails_open(two, 1, &out), -FI_EINVAL);
}

TEST_IN(wait_fd__either, begin, end)
{
	struct pollfd f = {.events = POLLIN};

	talk();
	f.fd = nic[1]->ops->wait_fd(nic[1]);
	assert_true(f.fd >= 0);
	assert_int_equal(nic[1]->ops->wait_fd(nic[1]), f.fd);
	for (uint16_t label = 0; label < 2; label++) {
		struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = label, .hdr_len = UCCL_HDR_LEN, .peer = peer[0],
				    .to = &place[1]};

		events(1);
		assert_int_equal(poll(&f, 1, 0), 0);
		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
		assert_int_equal(poll(&f, 1, 0), 1);
	}
}

/* Memory that only NICs can read, and its bytes. */
static uint8_t ghost[5000], bytes[5000];

static void *bytes_of(void *addr)
{
	return bytes + ((uint8_t *)addr - ghost);
}

static int ghost_range(void *arg, const void *p, uintptr_t *start, uint64_t *len, uint64_t *id)
{
	*start = (uintptr_t)ghost;
	*len = sizeof(ghost);
	*id = 1;
	return 0;
}

static const struct uccl_nic_device ghost_device = {.dmabuf = fake_no_dmabuf, .range = ghost_range};

/* Each rail reads it by a registration of its own. PROTOCOL R221 */
TEST_IN(source__of_each_rail, begin, end)
{
	struct uccl_rx v[16];
	uint64_t came = 0;
	void *source;
	int mrs = fake->mrs;

	talk();
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 11 + 3);
	memset(by_device, 0, sizeof(by_device));
	/* What one of them cannot have none has. */
	fake->peer_memory = bytes_of;
	fake_verbs_fail(fake, "reg_mr_iova", 3, ENOMEM);
	assert_int_equal(nic[0]->ops->source(nic[0], ghost, 2000, &ghost_device, &source), -FI_ENOMEM);
	mrs = fake->mrs - mrs;
	assert_int_equal(mrs, 2);
	assert_int_equal(nic[0]->ops->source(nic[0], ghost, 2000, &ghost_device, &source), 0);
	for (uint16_t label = 0; label < 16; label++) {
		struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = label, .hdr_len = UCCL_HDR_LEN, .peer = peer[0],
				    .to = &place[1], .payload = ghost + 100, .payload_len = 1000, .mr = source};
		int n = 0;

		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
		assert_ptr_equal(t.mr, source);
		for (int i = 0; i < 8 && !n; i++)
			n = nic[1]->ops->rx(nic[1], v, 16, NULL, 0);
		for (int i = 0; i < n; i++) {
			if (v[i].kind != UCCL_RX_PACKET)
				continue;
			assert_memory_equal(v[i].data + UCCL_HDR_LEN, bytes + 100, 1000);
			came++;
		}
	}
	assert_int_equal(came, 16);
	assert_int_equal(by_device[0], 8);
	/* None of them reads it any more. */
	fake->stall = true;
	for (uint16_t label = 0; label < 4; label++) {
		struct uccl_tx t = {.kind = UCCL_TX_PACKET, .label = label, .hdr_len = UCCL_HDR_LEN, .peer = peer[0],
				    .to = &place[1], .payload = ghost + 100, .payload_len = 1000, .mr = source};

		assert_int_equal(nic[0]->ops->tx(nic[0], &t, 1), 1);
	}
	nic[0]->ops->source_stop(nic[0], source);
	fake->stall = false;
	fake_verbs_run(fake);
	assert_int_equal(nic[1]->ops->rx(nic[1], v, 16, NULL, 0), 0);
	assert_int_equal(by_device[1], 8);
	nic[0]->ops->source_put(nic[0], source);
	assert_int_equal(fake->violations, 0);
}

TESTS_MAIN

#else

TESTS_MAIN_SKIPPED

#endif

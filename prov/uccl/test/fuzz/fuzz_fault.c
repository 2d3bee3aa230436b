/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The text of FI_UCCL_FAULT: whatever it says, it is refused with a reason or makes a wrapper that keeps its count of
 * packets: each one given to it is passed on, lost, or still held when it closes.
 */
#include "input.h"

#include <rdma/fi_errno.h>

#include "nic/fault/fault.h"

#define PACKETS 32

struct sink {
	struct uccl_nic nic;
	uint64_t taken;
	uint64_t now;
	int closed;
};

static int sink_tx(struct uccl_nic *nic, struct uccl_tx *v, int n)
{
	struct sink *s = (struct sink *)nic;
	uint8_t sum = 0;

	for (int i = 0; i < n; i++)
		for (uint32_t k = 0; k < v[i].payload_len; k++)
			sum ^= ((const uint8_t *)v[i].payload)[k];
	s->taken += (uint64_t)n + (sum & 0); /* the bytes had to be readable */
	return n;
}

static int sink_rx(struct uccl_nic *nic, struct uccl_rx *v, int n, const struct uccl_rx_placement *hints, int nhints)
{
	return 0;
}

static void sink_close(struct uccl_nic *nic)
{
	((struct sink *)nic)->closed++;
}

static uint64_t sink_clock(void *arg)
{
	return ((struct sink *)arg)->now;
}

static const struct uccl_nic_ops sink_ops = {
	.name = "sink",
	.tx = sink_tx,
	.rx = sink_rx,
	.close = sink_close,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sink s = {.nic = {.ops = &sink_ops, .caps = {.mtu = 1400, .labels = 16, .tx_sync = true}}};
	const struct uccl_fault_stats *st;
	static uint8_t payload[256];
	struct uccl_nic_addr to = {.port = 1};
	struct uccl_nic *nic = NULL;
	const char *why = NULL;
	char *spec = malloc(size + 1);
	int rc;

	if (!spec)
		return 0;
	memcpy(spec, data, size);
	spec[size] = '\0';
	rc = uccl_nic_fault_open(&s.nic, spec, sink_clock, &s, &nic, &why);
	free(spec);
	if (rc) {
		assert(rc == -FI_EINVAL && why && *why && !nic);
		return 0;
	}
	for (int i = 0; i < PACKETS; i++) {
		struct uccl_tx tx = {.kind = UCCL_TX_PACKET, .control = i % 3 == 0, .path = (uint16_t)(i % 4)};
		struct uccl_rx rx[4];

		tx.label = (uint16_t)(i % 16);
		tx.hdr_len = UCCL_HDR_LEN;
		tx.payload = payload;
		tx.payload_len = tx.control ? 0 : (uint32_t)(i * 8);
		tx.to = &to;
		assert(nic->ops->tx(nic, &tx, 1) == 1);
		s.now += 1000000;
		assert(nic->ops->rx(nic, rx, 4, NULL, 0) == 0);
	}
	st = uccl_nic_fault_stats(nic);
	assert(st->passed == s.taken);
	assert(st->passed + st->dropped + st->blackholed + st->overflow <= PACKETS + st->duplicated);
	nic->ops->close(nic);
	assert(s.closed == 1);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Frames from the network: what is taken for good lies inside the frame, and a frame that is put together from it is
 * taken apart to the same. For some of the inputs headers and sums are put right, so that the checks behind them are
 * reached.
 */
#include "input.h"

#include "nic/xdp/frame.h"

static uint32_t sum(const uint8_t *p, size_t n, uint32_t s)
{
	for (size_t i = 0; i < n; i++)
		s += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

static void put(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void try(const uint8_t *frame, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1), *again;
	struct uccl_frame f, g;
	struct uccl_frame_route route;
	struct iovec piece;
	uint32_t len;

	assert(exact);
	if (size)
		memcpy(exact, frame, size);
	if (uccl_frame_parse(exact, (uint32_t)size, &f) == UCCL_FRAME_GOOD) {
		assert(f.data >= exact + UCCL_FRAME_V4 && f.data + f.len <= exact + size);
		assert(f.src.port && !f.src.scope && !f.dst.scope && !f.src.pad && !f.dst.pad);
		memset(&route, 0, sizeof(route));
		memcpy(route.to_mac, exact, sizeof(route.to_mac));
		memcpy(route.from_mac, exact + sizeof(route.to_mac), sizeof(route.from_mac));
		route.from = f.src;
		piece = (struct iovec){(void *)f.data, f.len};
		again = malloc(f.len + UCCL_FRAME_V6);
		assert(again);
		len = uccl_frame_build(again, &route, f.src.port, &f.dst, true, &piece, 1);
		assert(len && uccl_frame_parse(again, len, &g) == UCCL_FRAME_GOOD);
		assert(g.len == f.len && !memcmp(g.data, f.data, f.len) && !g.marked);
		assert(!memcmp(&g.src, &f.src, sizeof(f.src)) && !memcmp(&g.dst, &f.dst, sizeof(f.dst)));
		free(again);
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t in[2048];
	size_t udp;

	try(data, size);
	if (size < UCCL_FRAME_V6 || size > sizeof(in))
		return 0;
	memcpy(in, data, size);
	put(in + 12, 0x0800);
	in[14] = 0x45;
	put(in + 16, (uint32_t)size - 14);
	put(in + 20, 0);
	in[23] = 17;
	put(in + 24, 0);
	put(in + 24, ~sum(in + 14, 20, 0));
	try(in, size);
	udp = size - 34;
	put(in + 38, (uint32_t)udp);
	put(in + 40, 0);
	put(in + 40, ~sum(in + 34, udp, sum(in + 26, 8, 17 + (uint32_t)udp)));
	try(in, size);

	memcpy(in, data, size);
	put(in + 12, 0x86dd);
	in[14] = (uint8_t)(0x60 | (in[14] & 15));
	udp = size - 54;
	put(in + 18, (uint32_t)udp);
	in[20] = 17;
	try(in, size);
	put(in + 58, (uint32_t)udp);
	put(in + 60, 0);
	put(in + 60, ~sum(in + 54, udp, sum(in + 22, 32, 17 + (uint32_t)udp)));
	try(in, size);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What fuzz targets have in common: they assert, and take numbers from their input until it ends. */
#ifndef UCCL_TEST_FUZZ_INPUT_H
#define UCCL_TEST_FUZZ_INPUT_H

#undef NDEBUG
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Functions in tables have the parameters that the tables give them, and need not use all of them. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at, *end;
};

/* 0 behind the end. */
static inline uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static inline uint64_t number(struct input *in, int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | byte(in);
	return v;
}

/* The sum of an address (docs/protocol/packets.md). */
static inline uint32_t fnv(const uint8_t *p, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}

#endif

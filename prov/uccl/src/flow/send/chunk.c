/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/send/chunk.h"

#include <assert.h>

#include "flow/wire/wire.h"

/*
 * Shrinks when more than one of so many is lost, grows when fewer than one of eight times as many is: twice the size,
 * twice the share that is lost, so there is a factor of four between that nobody swings over.
 */
#define SHRINK_ONE_OF 64
#define GROW_ONE_OF 512
/* Losses that are no chance yet; chunks after which growing is thought of. */
#define LOST_MIN 8
#define SENT_MIN 512
/* Chunks that the window holds at least, or losses are noticed late and paths are few. */
#define WINDOW_CHUNKS 4
/*
 * The window is to fit so many times into the chunks that may be in flight: what is sent again is behind for several
 * round trips, and holds all that came after it (16 hosts of 400 Gb/s, 256 chunks, 1/256 lost: 27 % over the ideal, 8
 * with large chunks).
 */
#define SLOTS_SHARE 8
/*
 * Chunks are half as large if as many of the largest wait in queues, and a quarter if twice as many do. In a full
 * network some chunks of each flow wait, and what decides how long queues are is the size of what meets in them. A
 * processor that cannot keep up with small ones makes no queues.
 */
#define QUEUED_CHUNKS 2
/*
 * Brittle: packets without a loss until chunks grow, at first and after many tries that ended with a loss. With one of
 * 1024 lost four of ten first tries fail, of those after the third loss one succeeds in fifty.
 */
#define CLEAN_MIN 512
#define CLEAN_MAX 65536

void uccl_chunk_init(struct uccl_chunk *c, uint32_t most, uint32_t packet, bool brittle)
{
	assert(most && packet);
	*c = (struct uccl_chunk){ .bytes = most, .most = most, .least = most };
	while (c->least % (2 * UCCL_WORD) == 0 && c->least / 2 >= packet)
		c->least /= 2;
	c->begins = UCCL_CHUNK_BEGIN;
	if (!brittle)
		return;
	c->bytes = c->least;
	c->clean = CLEAN_MIN;
}

static void chunk_set(struct uccl_chunk *c, uint32_t bytes)
{
	c->bytes = bytes;
	c->sent = c->lost = 0;
}

static void chunk_fate_brittle(struct uccl_chunk *c, bool lost)
{
	if (lost) {
		/* What was lost with one packet each says nothing against longer ones when that is over. */
		if (c->bytes > c->least)
			c->clean = uccl_min(2 * c->clean, CLEAN_MAX);
		chunk_set(c, c->least);
		return;
	}
	c->sent += c->bytes / c->least;
	if (c->sent >= c->clean && c->bytes < c->most)
		chunk_set(c, c->bytes * 2);
}

void uccl_chunk_fate(struct uccl_chunk *c, bool lost)
{
	if (c->clean) {
		chunk_fate_brittle(c, lost);
		return;
	}
	c->sent++;
	c->begins -= c->begins > 0;
	c->lost += lost;
	if (c->lost >= LOST_MIN && c->lost * SHRINK_ONE_OF > c->sent)
		chunk_set(c, c->bytes > c->least ? c->bytes / 2 : c->bytes);
	else if (c->sent >= SENT_MIN)
		chunk_set(c, c->lost * GROW_ONE_OF <= c->sent && c->bytes < c->most ? c->bytes * 2 : c->bytes);
}

/* The largest that the beginning of the flow and its queues allow. PROTOCOL R277 */
static uint32_t chunk_queues(const struct uccl_chunk *c, uint64_t queued)
{
	uint64_t many = (uint64_t)QUEUED_CHUNKS * c->most;
	uint32_t bytes = c->most;

	if (c->begins || queued > 2 * many)
		bytes /= 4;
	else if (queued > many)
		bytes /= 2;
	return uccl_max(bytes, c->least);
}

uint32_t uccl_chunk_bytes(const struct uccl_chunk *c, uint64_t window, uint64_t inflight, uint32_t slots,
			  uint64_t quick, uint64_t queued)
{
	/* A window that all slots cannot fill limits nothing. */
	uint64_t need = SLOTS_SHARE * (window < (uint64_t)c->most * slots ? window : inflight);
	uint32_t bytes = c->clean ? c->bytes : uccl_min(c->bytes, chunk_queues(c, queued));

	while (!c->clean && bytes < c->most && (uint64_t)bytes * slots < need)
		bytes *= 2;
	while (bytes > c->least && (window / WINDOW_CHUNKS < bytes || (c->clean && quick < bytes)))
		bytes /= 2;
	return bytes;
}

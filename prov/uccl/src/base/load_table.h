/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many engines of an endpoint are busy. The primary and the lanes share one link, so each may use its share. Each
 * engine has an entry in the table. The engine writes there how many bytes it moved lately, and reads how many engines
 * share the link. Threads need no lock, since each writes its own entry only.
 *
 * The number of busy engines is the sum of all recent bytes, divided by those of the busiest engine, rounded. So an
 * engine with little traffic takes no share from the others: the primary, which sends only the envelopes of messages
 * that lanes carry, or a lane that sends the last bytes of a message. Sent and received bytes are counted separately,
 * since a link is full duplex.
 */
#ifndef UCCL_BASE_LOAD_TABLE_H
#define UCCL_BASE_LOAD_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

/* Bytes count less as they age, linearly, and not at all after this time in ns. */
#define UCCL_LOAD_NS 4000000ull

#define UCCL_LOAD_ENTRIES 17

enum uccl_load_dir { UCCL_LOAD_OUT, UCCL_LOAD_IN, UCCL_LOAD_DIRS };

struct uccl_load_entry {
	_Atomic uint64_t at_ns;			 /* time of the engine's last update */
	_Atomic uint64_t bytes[UCCL_LOAD_DIRS];	 /* recent bytes as of at_ns */
	uint32_t busy[UCCL_LOAD_DIRS];		 /* result of that update; used by this engine only */
};

struct uccl_load_table {
	uint8_t n; /* entries in use */
	struct uccl_load_entry entry[UCCL_LOAD_ENTRIES];
};

/* Entry 0 belongs to the primary, entries 1 to `lanes` to the lanes. lanes < UCCL_LOAD_ENTRIES. */
void uccl_load_table_init(struct uccl_load_table *b, uint8_t lanes);

/*
 * Called by the engine's owner at `now`: its engine moved `moved` bytes each way since its last update. busy[] becomes
 * the number of busy engines each way, at least 1. If no engine is busy, the engine's last result stays: an engine that
 * starts again uses the share it had. The first result is 1 for the primary, and the number of lanes for a lane.
 */
void uccl_load_table_update(struct uccl_load_table *b, uint8_t entry, const uint64_t moved[UCCL_LOAD_DIRS],
			    uint32_t busy[UCCL_LOAD_DIRS], uint64_t now);

#endif

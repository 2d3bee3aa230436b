/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/observe/trace.h"

#include "base/units.h"

void uccl_trace_init(struct uccl_trace *t, uint64_t records)
{
	t->version = UCCL_TRACE_VERSION;
	t->rec_bytes = sizeof(t->rec[0]);
	t->mask = records - 1;
	t->next = 0;
	t->magic = UCCL_TRACE_MAGIC;
}

void uccl_trace_put(struct uccl_trace *t, const struct uccl_trace_rec *rec)
{
	t->rec[t->next & t->mask] = *rec;
	/* A reader of the file after a crash must find whole records only. */
	__atomic_store_n(&t->next, t->next + 1, __ATOMIC_RELEASE);
}

const char *uccl_trace_kind_text(uint8_t kind)
{
	static const char *const text[] = {
#define X(sym, str) [UCCL_TRACE_##sym] = str,
		UCCL_TRACE_KINDS(X)
#undef X
	};

	return kind < uccl_array_len(text) ? text[kind] : NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/observe/stats.h"

const char *uccl_drop_text(enum uccl_drop reason)
{
	static const char *const text[] = {
#define X(sym, str) [UCCL_DROP_##sym] = str,
		UCCL_DROP_REASONS(X)
#undef X
	};

	return (unsigned int)reason < UCCL_DROP_COUNT ? text[reason] : "accepted";
}

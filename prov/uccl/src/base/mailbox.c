/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/mailbox.h"

#include <stdlib.h>
#include <string.h>

bool uccl_mailbox_init(struct uccl_mailbox *b, uint32_t cap)
{
	memset(b, 0, sizeof(*b));
	b->ring = calloc(cap, sizeof(*b->ring));
	b->cap = cap;
	return b->ring;
}

void uccl_mailbox_fini(struct uccl_mailbox *b)
{
	free(b->ring);
	b->ring = NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/path/path.h"

#include <string.h>

#include "base/units.h"

void uccl_path_init(struct uccl_path *p, uint16_t label)
{
	memset(p, 0, sizeof(*p));
	p->state = UCCL_PATH_ACTIVE;
	p->label = label;
	p->next_seq = 1;
	p->min_rtt_ns = UCCL_NEVER;
}


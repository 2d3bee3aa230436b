/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See fid.h. */
#include "api/endpoint/fid.h"

#include "api/transfer/atomic.h"
#include "api/transfer/coll.h"
#include "api/transfer/msg.h"
#include "api/transfer/rma.h"
#include "api/transfer/tagged.h"

void uccl_ep_fid_init(struct uccl_ep_fid *f, size_t fclass, void *context, struct fi_ops *fid_ops,
		      struct fi_ops_ep *ops, struct fi_ops_cm *cm)
{
	f->fid = (struct fid_ep){
		.fid = { .fclass = fclass, .context = context, .ops = fid_ops },
		.ops = ops,
		.cm = cm,
		.msg = &uccl_msg_ops,
		.rma = &uccl_rma_ops,
		.tagged = &uccl_tagged_ops,
		.atomic = &uccl_atomic_ops,
		.collective = &uccl_coll_ops,
	};
}

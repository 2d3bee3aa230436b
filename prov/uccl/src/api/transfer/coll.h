/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Collectives, which use their own kind of messages. Joining a group is itself a collective: the members agree on a
 * number that none of them uses for the same members. If a member cannot reach another one, it tells all members. Then
 * every collective of the group ends at every member, with an error that names the lost one, and no new one can begin.
 */
#ifndef UCCL_API_COLL_H
#define UCCL_API_COLL_H

#include <rdma/fi_collective.h>

#include "api/object/ep_object.h"

/* Most bytes of one collective at one member; most bytes of temporary copies for reductions of one endpoint. */
#define UCCL_COLL_MAX (1u << 30)
#define UCCL_COLL_SCRATCH_MAX (256u << 20)
/* Most members of a group. */
#define UCCL_COLL_MEMBERS (1u << 20)

extern struct fi_ops_collective uccl_coll_ops;

/* fi_ops_cm.join */
int uccl_coll_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context);
int uccl_coll_query(struct fid_domain *domain, enum fi_collective_op coll, struct fi_collective_attr *attr,
		    uint64_t flags);

/* Continue the collectives after a round of the engine that handled n events. The endpoint's lock is held. */
void uccl_coll_run(struct uccl_ep *ep, int n, uint64_t now);
/* Free the endpoint's groups. The engine is closed. */
void uccl_coll_fini(struct uccl_ep *ep);

#endif

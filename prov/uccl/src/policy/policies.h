/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All policies. To add one, write cc_<name>.c (path_<name>.c, credit_<name>.c), which defines uccl_cc_<name>
 * (uccl_path_<name>, uccl_credit_<name>), and add a line X(<name>) to its list here. The order of a list means nothing.
 *
 * Defaults, on every kind of NIC: cc=nscc, path=reps, credit=auto. base/defaults.h has them, with the constants that
 * differ between sockets and RDMA NICs. contrib/check-man compares this line with it.
 *
 * A policy leaves out (NULL) the hooks that it does not need. What the flow does then:
 *
 * any kind	init		the state is all zero
 * cc		window		required
 *		pace		a chunk leaves as soon as the window has room
 *		on_ack, on_loss	the policy hears of no acknowledgement, of no loss
 *		share		each lane competes as a flow of its own
 * path		select		required
 *		on_ack, on_land, on_loss	the policy hears of no sample, of no chunk that came, of no loss
 * credit	limit		required
 *		whole		nothing is sent beyond limit()
 *		on_credit	grants of the receiver change nothing
 *		grant		the receiver announces no credit by itself
 *		pull		the receiver has no pacer, and retransmissions spend no credit
 *		rank		the pacer first serves senders whose data was lost, then all in turns
 */
#ifndef UCCL_POLICY_POLICIES_H
#define UCCL_POLICY_POLICIES_H

#include "flow/policy.h"

#define UCCL_CC_POLICIES(X)                                                                                            \
	X(swift)                                                                                                       \
	X(cubic)                                                                                                       \
	X(timely)                                                                                                      \
	X(nscc)                                                                                                        \
	X(none)                                                                                                        \
	X(bbr)

#define UCCL_PATH_POLICIES(X)                                                                                          \
	X(pow2)                                                                                                        \
	X(reps)                                                                                                        \
	X(rr)                                                                                                          \
	X(hash)

#define UCCL_CREDIT_POLICIES(X)                                                                                        \
	X(none)                                                                                                        \
	X(window)                                                                                                      \
	X(eqds)                                                                                                        \
	X(auto)                                                                                                        \
	X(srpt)

/*
 * A policy declares its constants by a table of lines X(name, default, least, greatest, "unit", "meaning (source)").
 * UCCL_CONSTANTS(policy, table) defines from it: struct <policy>_k, with a double for each constant; the array
 * <policy>_constants; and the values <policy>_defaults.
 */
#define UCCL_CONSTANT_FIELD(name, def, lo, hi, unit, source) double name;
#define UCCL_CONSTANT_ROW(name, def, lo, hi, unit, source) {#name, def, lo, hi, unit, source},
#define UCCL_CONSTANT_VALUE(name, def, lo, hi, unit, source) def,
#define UCCL_CONSTANTS(policy, list)                                                                                   \
	struct policy##_k {                                                                                            \
		list(UCCL_CONSTANT_FIELD)                                                                              \
	};                                                                                                             \
	_Static_assert(sizeof(struct policy##_k) <= UCCL_CONSTANTS_MAX * sizeof(double), "too many");                  \
	static const struct uccl_constant policy##_constants[] = {list(UCCL_CONSTANT_ROW){.name = NULL}};              \
	static const struct policy##_k policy##_defaults = {list(UCCL_CONSTANT_VALUE)}

/* The values that a flow uses, as const struct <policy>_k *; `cfg`: its struct uccl_policy_cfg. */
#define UCCL_K(policy, cfg)                                                                                            \
	((cfg)->params ? (const struct policy##_k *)(const void *)(cfg)->params : &policy##_defaults)

/* If flows share a link (uccl_cc_ops.share), the largest window of each is at least this many chunks or trains. */
#define UCCL_SHARED_LEAST 2

#define X(name) extern const struct uccl_cc_ops uccl_cc_##name;
UCCL_CC_POLICIES(X)
#undef X

#define X(name) extern const struct uccl_path_ops uccl_path_##name;
UCCL_PATH_POLICIES(X)
#undef X

#define X(name) extern const struct uccl_credit_ops uccl_credit_##name;
UCCL_CREDIT_POLICIES(X)
#undef X

#endif

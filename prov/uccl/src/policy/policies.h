/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every policy there is, the default first. To add one: write cc_<name>.c (path_<name>.c, credit_<name>.c) that
 * defines uccl_cc_<name> and so on, and add its line here. Finding it by name and listing it follow from that line.
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
 * What a policy makes of its table of constants, X(name, default, least, greatest, "unit", "meaning (source)"):
 * struct <policy>_k with a double for each, and the defaults.
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

/* The values that a flow is to use, as const struct <policy>_k *. */
#define UCCL_K(policy, cfg)                                                                                            \
	((cfg)->params ? (const struct policy##_k *)(const void *)(cfg)->params : &policy##_defaults)

/* The largest window of one of several flows that share (uccl_cc_ops.share) holds so many chunks or trains at least. */
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

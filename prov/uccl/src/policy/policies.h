/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every policy there is, the default first. To add one: write cc_<name>.c (path_<name>.c, credit_<name>.c) that
 * defines uccl_cc_<name> and so on, and add its line here. Finding it by name and listing it follow from that line.
 */
#ifndef UCCL_POLICY_POLICIES_H
#define UCCL_POLICY_POLICIES_H

#include "core/policy.h"

#define UCCL_CC_POLICIES(X)                                                                                            \
	X(swift)                                                                                                       \
	X(cubic)                                                                                                       \
	X(timely)                                                                                                      \
	X(nscc)                                                                                                        \
	X(none)

#define UCCL_PATH_POLICIES(X)                                                                                          \
	X(pow2)                                                                                                        \
	X(reps)                                                                                                        \
	X(rr)                                                                                                          \
	X(hash)

#define UCCL_CREDIT_POLICIES(X)                                                                                        \
	X(none)                                                                                                        \
	X(window)                                                                                                      \
	X(eqds)                                                                                                        \
	X(auto)

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

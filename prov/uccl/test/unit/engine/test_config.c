/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/config.h"

#include "../tests.h"

#include <string.h>

#include "base/units.h"
#include "flow/wire/io.h"
#include "flow/policy.h"
#include "msg/msg_ep.h"

TEST(default__names_exist)
{
	struct uccl_config c;

	uccl_config_default(&c);
	assert_non_null(uccl_cc_find(c.cc));
	assert_non_null(uccl_path_find(c.path));
	assert_non_null(uccl_credit_find(c.credit));
}

TEST(default__within_bounds)
{
	struct uccl_config c;

	memset(&c, 0xff, sizeof(c));
	uccl_config_default(&c);
	assert_in_range(c.paths, 1, UCCL_PATHS_MAX);
	assert_in_range(c.window_chunks, 1024, 16384);
	assert_int_equal(c.window_chunks & (c.window_chunks - 1), 0);
	assert_int_equal(c.chunk_bytes, 0);
	assert_true(c.eager_bytes <= UCCL_EAGER_MAX);
	assert_true(c.inject_bytes <= c.eager_bytes);
	assert_true(c.unexpected_bytes >= UCCL_EAGER_MAX);
}

/* Silence is not death: what is wrong only because it takes long must not be short. PROTOCOL R47 */
TEST(default__patient)
{
	struct uccl_config c;

	uccl_config_default(&c);
	assert_true(c.peer_timeout_ns >= 600 * UCCL_NS_PER_S);
	assert_true(c.connect_timeout_ns >= 600 * UCCL_NS_PER_S);
	assert_in_range(c.keepalive_ns, UCCL_NS_PER_MS, 60 * UCCL_NS_PER_S);
	assert_in_range(c.linger_ns, UCCL_NS_PER_MS, 5 * UCCL_NS_PER_S);
}

/* Nobody connects without the key, and no order of paths is taken for granted, unless a person says so. */
TEST(default__cautious)
{
	struct uccl_config c;

	memset(&c, 0xff, sizeof(c));
	uccl_config_default(&c);
	assert_false(c.keyless);
	assert_false(c.fifo_paths);
}

TEST(pulls__eqds)
{
	struct uccl_config c;

	uccl_config_default(&c);
	c.credit = "none";
	assert_false(uccl_config_pulls(&c));
	c.credit = "eqds";
	assert_true(uccl_config_pulls(&c));
	c.credit = "nothing";
	assert_false(uccl_config_pulls(&c));
}

TESTS_MAIN

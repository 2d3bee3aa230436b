/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../lan.h"
#include "../../tests.h"

/* Two nodes with the policies of networks, and few paths to peers on their host. */
static struct lan *host_new(bool one_host, bool own)
{
	struct lan *l = lan_new();

	l->one_host = one_host;
	for (int i = 0; i < 2; i++) {
		struct uccl_config *c = &l->node[i].cfg;

		c->cc = "nscc";
		c->credit = "auto";
		c->host_cc = c->host_credit = own;
		c->host_paths = own ? 256 : 2;
		lan_open(l, i);
	}
	lan_talk(l);
	return l;
}

static void policies_are(struct lan *l, const char *cc, const char *credit, uint16_t paths)
{
	for (int i = 0; i < 2; i++) {
		const struct uccl_flow_cfg *cfg = &lan_conn(l, i, 1 - i)->peer.flow.cfg;

		assert_string_equal(cfg->policy.cc->name, cc);
		assert_string_equal(cfg->policy.credit->name, credit);
		assert_int_equal(cfg->paths_tx, paths);
	}
}

/* PROTOCOL R395 */
LAN_TEST(open__on_one_host, host_new(true, false))
{
	policies_are(l, "none", "none", 2);
}

/* What somebody set is for all peers. PROTOCOL R395 */
LAN_TEST(open__set_for_all, host_new(true, true))
{
	policies_are(l, "nscc", "auto", 4);
}

/* PROTOCOL R395 */
LAN_TEST(open__across_a_network, host_new(false, false))
{
	policies_are(l, "nscc", "auto", 4);
}

/* A NIC that cannot tell. PROTOCOL R395 */
LAN_TEST(open__unknown, lan_new())
{
	l->writes = true;
	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.cc = "nscc";
		l->node[i].cfg.credit = "auto";
		l->node[i].cfg.host_cc = l->node[i].cfg.host_credit = false;
		lan_open(l, i);
	}
	lan_talk(l);
	policies_are(l, "nscc", "auto", 4);
}

TESTS_MAIN

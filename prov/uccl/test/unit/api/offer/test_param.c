/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include "api/offer/param.h"
#include "flow/wire/seal.h"
#include "progress/lanes.h"

static struct uccl_params p;
static char why[UCCL_PARAM_TEXT];

static int read_with(const char *name, const char *value)
{
	int rc;

	setenv(name, value, 1);
	why[0] = '\0';
	rc = uccl_params_read(&p, why, sizeof(why));
	unsetenv(name);
	return rc;
}

static void define__warns_of_unknown(void **state)
{
	const char *warned;

	(void)state;
	world_listen(FI_LOG_WARN);
	setenv("FI_UCCL_PATHS", "4", 1);
	setenv("FI_UCCL_PATHZ", "4", 1);
	setenv("FI_UCCL_PAT", "", 1);
	uccl_params_define();
	warned = world_heard();
	unsetenv("FI_UCCL_PATHS");
	unsetenv("FI_UCCL_PATHZ");
	unsetenv("FI_UCCL_PAT");
	assert_non_null(strstr(warned, "FI_UCCL_PATHZ is not a variable"));
	assert_non_null(strstr(warned, "FI_UCCL_PAT is not a variable"));
	assert_null(strstr(warned, "FI_UCCL_PATHS "));
}

/* The defaults that a person is told are those of the engine. */
static void read__defaults(void **state)
{
	struct uccl_config c, d;

	(void)state;
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	uccl_params_config(&p, &c);
	uccl_config_default(&d);
	assert_string_equal(c.cc, d.cc);
	assert_string_equal(c.path, d.path);
	assert_string_equal(c.credit, d.credit);
	assert_int_equal(c.paths, d.paths);
	assert_int_equal(c.chunk_bytes, d.chunk_bytes);
	assert_int_equal(c.eager_bytes, d.eager_bytes);
	assert_int_equal(c.inject_bytes, d.inject_bytes);
	assert_int_equal(c.window_chunks, d.window_chunks);
	assert_int_equal(c.unexpected_bytes, d.unexpected_bytes);
	assert_int_equal(c.peer_timeout_ns, d.peer_timeout_ns);
	assert_int_equal(c.connect_timeout_ns, d.connect_timeout_ns);
	assert_int_equal(c.keepalive_ns, d.keepalive_ns);
	assert_int_equal(c.linger_ns, d.linger_ns);
	assert_false(c.keyless);
	assert_false(c.fifo_paths);
	assert_string_equal(p.backend, "udp");
	assert_string_equal(p.nic, "");
	assert_int_equal(uccl_params_xdp_mode(&p), UCCL_XDP_AUTO);
	assert_string_equal(p.fault, "");
	assert_int_equal(p.liveness, 1);
	assert_int_equal(p.keyless, UCCL_SWITCH_AUTO);
}

/* Windows are for those who trust their peers, unless somebody says otherwise. */
static void windows__by_security(void **state)
{
	(void)state;
	assert_int_equal(read_with("FI_UCCL_WINDOWS", "auto"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_AUTO);
	assert_int_equal(read_with("FI_UCCL_WINDOWS", "0"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_OFF);
	assert_int_equal(read_with("FI_UCCL_SECURITY", "control"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_OFF);
	setenv("FI_UCCL_SECURITY", "control", 1);
	assert_int_equal(read_with("FI_UCCL_WINDOWS", "1"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_ON);
	unsetenv("FI_UCCL_SECURITY");
}

/* RDMA NICs have other defaults; what is set holds all the same. */
static void read__defaults_of_rdma(void **state)
{
	(void)state;
	setenv("FI_UCCL_BACKEND", "verbs-uc", 1);
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	assert_string_equal(p.cc, "nscc");
	assert_string_equal(p.path, "reps:draws=12");
	assert_string_equal(p.credit, "auto");
	assert_int_equal(p.paths, 64);
	setenv("FI_UCCL_CC", "cubic", 1);
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	assert_string_equal(p.cc, "cubic");
	assert_string_equal(p.path, "reps:draws=12");
	unsetenv("FI_UCCL_CC");
	unsetenv("FI_UCCL_BACKEND");
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	assert_string_equal(p.cc, "nscc:blind_chunks=16:loss_share=0.05:max_chunks=12");
	assert_string_equal(p.path, "reps");
	assert_string_equal(p.credit, "auto");
	assert_int_equal(p.paths, 64);
}

static void read__values(void **state)
{
	(void)state;
	assert_int_equal(read_with("FI_UCCL_XDP", "native"), 0);
	assert_int_equal(uccl_params_xdp_mode(&p), UCCL_XDP_NATIVE);
	assert_int_equal(read_with("FI_UCCL_XDP", "generic"), 0);
	assert_int_equal(uccl_params_xdp_mode(&p), UCCL_XDP_GENERIC);
	assert_int_equal(read_with("FI_UCCL_EAGER", "32k"), 0);
	assert_int_equal(p.eager_bytes, 32768);
	assert_int_equal(read_with("FI_UCCL_UNEXPECTED", "2M"), 0);
	assert_int_equal(p.unexpected_bytes, 2 << 20);
	assert_int_equal(read_with("FI_UCCL_MTU", "0"), 0);
	assert_int_equal(p.mtu, 0);
	assert_int_equal(read_with("FI_UCCL_MTU", "512"), 0);
	assert_int_equal(p.mtu, 512);
	assert_int_equal(read_with("FI_UCCL_RCVBUF", "1g"), 0);
	assert_int_equal(p.rcvbuf_bytes, 1 << 30);
	assert_int_equal(read_with("FI_UCCL_PEER_TIMEOUT", "2"), 0);
	assert_int_equal(p.peer_timeout_ns, 2 * UCCL_NS_PER_S);
	assert_int_equal(read_with("FI_UCCL_LINGER", "0x10"), 0);
	assert_int_equal(p.linger_ns, 16 * UCCL_NS_PER_MS);
	assert_int_equal(read_with("FI_UCCL_CC", "cubic"), 0);
	assert_string_equal(p.cc, "cubic");
	assert_int_equal(read_with("FI_UCCL_CC", "swift:target_us=40,beta=0.7"), 0);
	assert_string_equal(p.cc, "swift:target_us=40,beta=0.7");
	assert_int_equal(read_with("FI_UCCL_LIVENESS", "off"), 0);
	assert_int_equal(p.liveness, 0);
	assert_int_equal(p.ecn, 1);
	assert_int_equal(p.dscp, 0);
	assert_int_equal(p.control_dscp, 48);
	assert_int_equal(read_with("FI_UCCL_CONTROL_DSCP", "64"), -FI_EINVAL);
	assert_int_equal(read_with("FI_UCCL_CONTROL_DSCP", "63"), 0);
	assert_int_equal(p.control_dscp, 63);
	assert_int_equal(read_with("FI_UCCL_ECN", "0"), 0);
	assert_int_equal(p.ecn, 0);
	assert_int_equal(read_with("FI_UCCL_KEYLESS", "yes"), 0);
	assert_int_equal(p.keyless, UCCL_SWITCH_YES);
	assert_int_equal(read_with("FI_UCCL_RX_CQ_DATA", "auto"), 0);
	assert_int_equal(p.rx_cq_data, UCCL_SWITCH_AUTO);
	assert_int_equal(read_with("FI_UCCL_RX_CQ_DATA", "0"), 0);
	assert_int_equal(p.rx_cq_data, UCCL_SWITCH_NO);
	assert_int_equal(read_with("FI_UCCL_LANES", "16"), 0);
	assert_int_equal(p.lanes, 16);
	assert_int_equal(read_with("FI_UCCL_LANES", "auto"), 0);
	assert_true(p.lanes == UCCL_LANES_AUTO);
	assert_int_equal(read_with("FI_UCCL_PATH_ORDER", "fifo"), 0);
	assert_string_equal(p.path_order, "fifo");
	assert_int_equal(read_with("FI_UCCL_PORTS", "47000-47015"), 0);
	assert_int_equal(uccl_ports_count(&p.ports), 16);
	assert_int_equal(read_with("FI_UCCL_PORTS", ""), 0);
	assert_false(uccl_ports_limited(&p.ports));
	assert_int_equal(read_with("FI_UCCL_SECURITY", "packets"), 0);
	assert_string_equal(p.security, "packets");
	assert_int_equal(read_with("FI_UCCL_FAULT", "drop=0.01,seed=7"), 0);
	assert_string_equal(p.fault, "drop=0.01,seed=7");
}

/* How much leaves unsolicited is a wish: the nearest that is possible is used, and told of. */
static void read__nearest(void **state)
{
	(void)state;
	world_listen(FI_LOG_WARN);
	assert_int_equal(read_with("FI_UCCL_EAGER", "65536"), 0);
	assert_int_equal(p.eager_bytes, 65536);
	assert_int_equal(read_with("FI_UCCL_EAGER", "0"), 0);
	assert_int_equal(p.eager_bytes, 0);
	assert_string_equal(world_heard(), "");
	world_listen(FI_LOG_WARN);
	assert_int_equal(read_with("FI_UCCL_EAGER", "128k"), 0);
	assert_int_equal(p.eager_bytes, 65536);
	assert_string_equal(world_heard(), "FI_UCCL_EAGER=128k is out of range (0 to 65536): 65536 is used\n");
}

/* Each refusal names the variable and the value. */
static void read__refuses(void **state)
{
	static const struct {
		const char *name, *value;
	} bad[] = {
		{ "FI_UCCL_PATHS", "0" },      { "FI_UCCL_PATHS", "257" },	{ "FI_UCCL_PATHS", "abc" },
		{ "FI_UCCL_PATHS", "" },       { "FI_UCCL_PATHS", "-1" },	{ "FI_UCCL_PATHS", "16k" },
		{ "FI_UCCL_PATHS", "4 " },     { "FI_UCCL_EAGER", "1t" },	{ "FI_UCCL_EAGER", "1kk" },
		{ "FI_UCCL_CC", "reno" },      { "FI_UCCL_PATH", "" },		{ "FI_UCCL_CREDIT", "NONE" },
		{ "FI_UCCL_BACKEND", "rdma" }, { "FI_UCCL_PATH_ORDER", "lifo" }, { "FI_UCCL_LIVENESS", "2" },
		{ "FI_UCCL_KEYLESS", "maybe" }, { "FI_UCCL_WINDOW", "63" },	{ "FI_UCCL_INJECT", "65537" },
		{ "FI_UCCL_LINGER", "99999999999999999999" }, { "FI_UCCL_EAGER", "18446744073709551615g" },
		{ "FI_UCCL_MTU", "511" },      { "FI_UCCL_MTU", "64k" },
		{ "FI_UCCL_CC", "swift:bta=1" }, { "FI_UCCL_CC", "swift:beta=-1" }, { "FI_UCCL_CREDIT", "none:x=1" },
		{ "FI_UCCL_PORTS", "5-1" },     { "FI_UCCL_PORTS", "0-99999" },	{ "FI_UCCL_PORTS", "abc" },
		{ "FI_UCCL_LANES", "17" },      { "FI_UCCL_LANES", "all" },	{ "FI_UCCL_LANES", "-1" },
		{ "FI_UCCL_SECURITY", "0" },   { "FI_UCCL_FAULT", "drop=2" }, { "FI_UCCL_FAULT", "nonsense" },
	};

	(void)state;
	for (size_t i = 0; i < uccl_array_len(bad); i++) {
		char want[128];

		assert_int_equal(read_with(bad[i].name, bad[i].value), -FI_EINVAL);
		snprintf(want, sizeof(want), "%s=%s is not valid", bad[i].name, bad[i].value);
		if (!strstr(why, want))
			fail_msg("\"%s\" does not say \"%s\"", why, want);
	}
}

/* And says what would be. */
static void read__policy_constants(void **state)
{
	(void)state;
	read_with("FI_UCCL_CC", "swift:beta=7");
	assert_non_null(strstr(why, "(\"beta=7\": beta is 0.01 to 1)"));
	read_with("FI_UCCL_PORTS", "7-7");
	assert_non_null(strstr(why, "FI_UCCL_PORTS=7-7 is not valid (first-last, two numbers, 1 to 65535"));
	read_with("FI_UCCL_PATH", "pow2:draws=3");
	assert_non_null(strstr(why, "(\"draws=3\" sets no constant; there are: none)"));
	read_with("FI_UCCL_CREDIT", "nonesuch");
	assert_non_null(strstr(why, "(no such credit policy; there are: none window eqds auto srpt)"));
}

static void read__too_long(void **state)
{
	char text[UCCL_PARAM_TEXT + 1];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(read_with("FI_UCCL_STATS", text), -FI_EINVAL);
	text[sizeof(text) - 2] = '\0';
	assert_int_equal(read_with("FI_UCCL_STATS", text), 0);
	assert_string_equal(p.stats, text);
}

/* A program with more rights than its caller writes no file that the caller names. */
static void distrust__files(void **state)
{
	(void)state;
	setenv("FI_UCCL_TRACE", "/dev/shm/x", 1);
	assert_int_equal(read_with("FI_UCCL_STATS", "/dev/shm/x"), 0);
	unsetenv("FI_UCCL_TRACE");
	assert_string_equal(p.stats, "/dev/shm/x");
	uccl_params_distrust(&p);
	assert_string_equal(p.stats, "");
	assert_string_equal(p.trace, "");
	assert_int_equal(read_with("FI_UCCL_STATS", "stderr"), 0);
	uccl_params_distrust(&p);
	assert_string_equal(p.stats, "stderr");
}

static void config__takes_all(void **state)
{
	struct uccl_config c;

	(void)state;
	setenv("FI_UCCL_PATHS", "8", 1);
	setenv("FI_UCCL_CHUNK", "2k", 1);
	setenv("FI_UCCL_WINDOW", "128", 1);
	setenv("FI_UCCL_KEYLESS", "1", 1);
	setenv("FI_UCCL_PATH_ORDER", "fifo", 1);
	setenv("FI_UCCL_SECURITY", "control", 1);
	assert_int_equal(read_with("FI_UCCL_CC", "none"), 0);
	uccl_params_config(&p, &c);
	assert_int_equal(c.security, UCCL_SECURITY_CONTROL);
	assert_int_equal(c.paths, 8);
	assert_int_equal(c.chunk_bytes, 2048);
	assert_int_equal(c.window_chunks, 128);
	assert_true(c.keyless);
	assert_true(c.fifo_paths);
	assert_string_equal(c.cc, "none");
	unsetenv("FI_UCCL_PATHS");
	unsetenv("FI_UCCL_CHUNK");
	unsetenv("FI_UCCL_WINDOW");
	unsetenv("FI_UCCL_KEYLESS");
	unsetenv("FI_UCCL_PATH_ORDER");
	unsetenv("FI_UCCL_SECURITY");
}

static void nic_wanted__list(void **state)
{
	unsigned int rank;

	(void)state;
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	assert_true(uccl_params_nic_wanted(&p, "eth0", &rank));
	assert_int_equal(rank, 0);
	assert_int_equal(read_with("FI_UCCL_NIC", "eth1,eth10,lo"), 0);
	assert_true(uccl_params_nic_wanted(&p, "lo", &rank));
	assert_int_equal(rank, 2);
	assert_true(uccl_params_nic_wanted(&p, "eth1", &rank));
	assert_int_equal(rank, 0);
	assert_false(uccl_params_nic_wanted(&p, "eth", &rank));
	assert_false(uccl_params_nic_wanted(&p, "eth100", &rank));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(define__warns_of_unknown),
		cmocka_unit_test(read__defaults),
		cmocka_unit_test(windows__by_security),
		cmocka_unit_test(read__defaults_of_rdma),
		cmocka_unit_test(read__values),
		cmocka_unit_test(read__nearest),
		cmocka_unit_test(read__policy_constants),
		cmocka_unit_test(read__refuses),     cmocka_unit_test(read__too_long),
		cmocka_unit_test(distrust__files), cmocka_unit_test(nic_wanted__list),
		cmocka_unit_test(config__takes_all), cmocka_unit_test(nic_wanted__list),
	};

	fi_prov_ini();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <sys/wait.h>
#include <unistd.h>

#include "api/offer/param.h"
#include "api/offer/param_names.h"
#include "flow/wire/seal.h"
#include "progress/lane_set.h"
#include "../../tests.h"

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

static int defined;
static char paths_help[1024];

static int define_note(const struct fi_provider *prov, const char *name, enum fi_param_type type, const char *help, ...)
{
	va_list ap;

	assert_string_equal(prov->name, "uccl");
	assert_int_equal(type, FI_PARAM_STRING);
	/* Those of tests are not for people. */
	assert_string_not_equal(name, "test");
	defined++;
	if (strcmp(name, "paths"))
		return 0;
	va_start(ap, help);
	vsnprintf(paths_help, sizeof(paths_help), help, ap);
	va_end(ap);
	return 0;
}

/* What fi_info -e shows: every variable with its parts, and no old name. */
TEST(define__shows_parts)
{
	struct uccl_lib lib = uccl_lib;

	uccl_lib.param_define = define_note;
	uccl_params_define();
	uccl_lib = lib;
	assert_int_equal(defined, 26);
	assert_string_equal(paths_help,
			    "paths to each peer (number, 1 to 256; default: 64); order=: fifo: you promise that no "
			    "path ever reorders packets (one of any fifo; default: any); window=: most chunks in "
			    "flight to a peer, on all paths together (power of two, 64 to 16384; default: 2048); "
			    "host=: UDP 5-tuples that the endpoints of this host may open, all ranks and peers "
			    "together (number, 64 to 16777216; default: 24576)");
}

/* The defaults that a person is told are those of the engine. */
TEST(read__defaults)
{
	struct uccl_config c, d;

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
	assert_string_equal(p.nic.backend, "udp");
	assert_string_equal(p.nic.names, "");
	assert_int_equal(uccl_params_xdp_mode(&p), UCCL_XDP_AUTO);
	assert_string_equal(p.fault, "");
	assert_int_equal(p.conn.peer_liveness, 1);
	assert_int_equal(p.conn.security_keyless, UCCL_SWITCH_AUTO);
}

/* The names of earlier versions, with a value that is not the default, and the field that it sets. */
#define AT(field) offsetof(struct uccl_params, field)
#define NUMBER(old, value, new, key, field, want) { old, value, new, key, AT(field), NULL, want }
#define WORD(old, value, new, key, field) { old, value, new, key, AT(field), value, 0 }

static const struct old {
	const char *name, *value, *var, *key; /* key NULL: it is the variable's own value */
	size_t at;
	const char *word; /* NULL: a number */
	uint64_t number;
} olds[] = {
	WORD("FI_UCCL_XDP", "native", "FI_UCCL_BACKEND", "mode", nic.backend_mode),
	NUMBER("FI_UCCL_RCVBUF", "64k", "FI_UCCL_BACKEND", "rcvbuf", nic.backend_rcvbuf, 65536),
	WORD("FI_UCCL_PCI", "none", "FI_UCCL_NIC", "pci", nic.pci),
	NUMBER("FI_UCCL_MAX_QP", "3", "FI_UCCL_VERBS", "max_qp", nic.verbs_max_qp, 3),
	NUMBER("FI_UCCL_SRQ", "9", "FI_UCCL_VERBS", "srq", nic.verbs_srq, 9),
	NUMBER("FI_UCCL_WRITE", "4k", "FI_UCCL_VERBS", "write", nic.verbs_write, 4096),
	NUMBER("FI_UCCL_WINDOWS", "1", "FI_UCCL_VERBS", "mw", nic.verbs_mw, UCCL_SWITCH_YES),
	NUMBER("FI_UCCL_SCATTER", "1", "FI_UCCL_CUDA", "scatter", nic.cuda_scatter, 1),
	NUMBER("FI_UCCL_CONTROL_DSCP", "7", "FI_UCCL_DSCP", "control", nic.dscp_control, 7),
	WORD("FI_UCCL_PATH_ORDER", "fifo", "FI_UCCL_PATHS", "order", paths_order),
	NUMBER("FI_UCCL_WINDOW", "64", "FI_UCCL_PATHS", "window", paths_window, 64),
	NUMBER("FI_UCCL_CONNECT_TIMEOUT", "5", "FI_UCCL_PEER_TIMEOUT", "connect", conn.peer_connect_ns,
	       5 * UCCL_NS_PER_S),
	NUMBER("FI_UCCL_KEEPALIVE", "6", "FI_UCCL_PEER_TIMEOUT", "keepalive_ms", conn.peer_keepalive_ns,
	       6 * UCCL_NS_PER_MS),
	NUMBER("FI_UCCL_LIVENESS", "0", "FI_UCCL_PEER_TIMEOUT", "liveness", conn.peer_liveness, 0),
	NUMBER("FI_UCCL_RESCUE", "8", "FI_UCCL_PROGRESS_TIMEOUT", NULL, conn.progress_timeout_ns, 8 * UCCL_NS_PER_MS),
	NUMBER("FI_UCCL_KEYLESS", "no", "FI_UCCL_SECURITY", "keyless", conn.security_keyless, UCCL_SWITCH_NO),
	NUMBER("FI_UCCL_LIVE", "1", "FI_UCCL_MONITOR", NULL, monitor, 1),
	NUMBER("FI_UCCL_TRACE_RECORDS", "100", "FI_UCCL_TRACE", "records", trace_records, 100),
	NUMBER("FI_UCCL_CHUNK", "2k", "FI_UCCL_TEST", "chunk", chunk_bytes, 2048),
	NUMBER("FI_UCCL_INJECT", "128", "FI_UCCL_TEST", "inject", inject_bytes, 128),
	NUMBER("FI_UCCL_RX_CQ_DATA", "1", "FI_UCCL_TEST", "rx_cq_data", rx_cq_data, UCCL_SWITCH_YES),
};

static bool has(const struct old *o, const struct uccl_params *from)
{
	const char *field = (const char *)from + o->at;
	uint64_t number;

	if (o->word)
		return !strcmp(field, o->word);
	memcpy(&number, field, sizeof(number));
	return number == o->number;
}

/* What to write instead of an old name. */
static const char *advice(const struct old *o, const char *now)
{
	static char text[256];

	snprintf(text, sizeof(text), "%s is an old name, which the next version will not know: %s %s=%s\n", o->name,
		 strcmp(o->var, "FI_UCCL_TEST") ? "write" : "the provider chooses; only tests set", o->var, now);
	return text;
}

/* What the provider says when it is loaded. */
static const char *heard_at_load(void)
{
	world_listen(FI_LOG_WARN);
	uccl_params_define();
	return world_heard();
}

/* A value of a variable that says nothing of its parts. */
static const char *own_value(const char *var)
{
	static const char *const own[][2] = {
		{ "FI_UCCL_BACKEND", "udp" }, { "FI_UCCL_NIC", "lo" },	    { "FI_UCCL_VERBS", "" },
		{ "FI_UCCL_CUDA", "on" },     { "FI_UCCL_DSCP", "1" },	    { "FI_UCCL_PATHS", "5" },
		{ "FI_UCCL_TEST", "" },	      { "FI_UCCL_TRACE", "x:y" },   { "FI_UCCL_PEER_TIMEOUT", "5" },
		{ "FI_UCCL_SECURITY", "trusted" },
	};

	for (size_t i = 0; i < uccl_array_len(own); i++)
		if (!strcmp(own[i][0], var))
			return own[i][1];
	fail_msg("%s has no value here", var);
	return NULL;
}

/* In a process of its own, as each is told once: NULL if the provider says `want` when it is loaded. */
static const char *told_by_new_process(const char *want)
{
	static char heard[256];
	int pipes[2], status;
	ssize_t n = 0;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		const char *text = heard_at_load();

		_exit(write(pipes[1], text, strlen(text)) < 0);
	}
	close(pipes[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = read(pipes[0], heard, sizeof(heard) - 1);
	close(pipes[0]);
	assert_true(n >= 0);
	heard[n] = '\0';
	return strcmp(heard, want) ? heard : NULL;
}

/* Both names: the new one holds and the warning says so. An old value does no harm then, whatever it is. */
TEST(old_names__new_one_wins)
{
	char now[96], want[256];
	const char *heard;

	for (size_t i = 0; i < uccl_array_len(olds); i++) {
		const struct old *o = &olds[i];

		snprintf(now, sizeof(now), "%s%s%s", o->key ? o->key : "", o->key ? "=" : "", o->value);
		setenv(o->name, "wrong", 1);
		assert_int_equal(read_with(o->var, now), 0);
		assert_true(has(o, &p));
		setenv(o->var, now, 1);
		snprintf(want, sizeof(want), "%s=wrong is an old name and ignored: %s=%s is set\n", o->name, o->var,
			 now);
		heard = told_by_new_process(want);
		if (heard)
			fail_msg("\"%s\" is not \"%s\"", heard, want);
		unsetenv(o->var);
		unsetenv(o->name);
	}
}

/* A new variable that says nothing of this part leaves the old name alone, and the advice has both. */
TEST(old_names__beside_other_parts)
{
	const char *heard, *own;
	char now[96];

	for (size_t i = 0; i < uccl_array_len(olds); i++) {
		const struct old *o = &olds[i];

		if (!o->key)
			continue;
		own = own_value(o->var);
		setenv(o->name, o->value, 1);
		assert_int_equal(read_with(o->var, own), 0);
		if (!has(o, &p))
			fail_msg("%s is lost beside %s=%s", o->name, o->var, own);
		setenv(o->var, own, 1);
		snprintf(now, sizeof(now), "%s%s%s=%s", own, *own ? "," : "", o->key, o->value);
		heard = told_by_new_process(advice(o, now));
		if (heard)
			fail_msg("\"%s\" is not \"%s\"", heard, advice(o, now));
		unsetenv(o->var);
		unsetenv(o->name);
	}
}

/* Each old name sets what it set, is told once in a process with today's spelling, and yields to that. */
TEST(old_names__map)
{
	struct uccl_params defaults, by_name;
	char now[96];

	assert_int_equal(uccl_params_read(&defaults, why, sizeof(why)), 0);
	for (size_t i = 0; i < uccl_array_len(olds); i++) {
		const struct old *o = &olds[i];

		assert_false(has(o, &defaults));
		snprintf(now, sizeof(now), "%s%s%s", o->key ? o->key : "", o->key ? "=" : "", o->value);
		assert_int_equal(read_with(o->var, now), 0);
		by_name = p;
		if (!has(o, &p))
			fail_msg("%s=%s does not set the field of %s", o->var, now, o->name);
		assert_int_equal(read_with(o->name, o->value), 0);
		if (memcmp(&p, &by_name, sizeof(p)))
			fail_msg("%s=%s is not the same as %s=%s", o->name, o->value, o->var, now);

		setenv(o->name, o->value, 1);
		assert_string_equal(heard_at_load(), advice(o, now));
		assert_string_equal(heard_at_load(), "");
		world_listen(FI_LOG_WARN);
		uccl_params_check_names();
		assert_string_equal(world_heard(), "");
		unsetenv(o->name);
	}
}

/* Windows are for those who trust their peers, unless somebody says otherwise. */
TEST(windows__by_security)
{
	assert_int_equal(read_with("FI_UCCL_VERBS", "mw=auto"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_AUTO);
	assert_int_equal(read_with("FI_UCCL_VERBS", "mw=0"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_OFF);
	assert_int_equal(read_with("FI_UCCL_SECURITY", "control"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_OFF);
	setenv("FI_UCCL_SECURITY", "control", 1);
	assert_int_equal(read_with("FI_UCCL_VERBS", "mw=1"), 0);
	assert_int_equal(uccl_params_windows(&p), UCCL_WINDOWS_ON);
	unsetenv("FI_UCCL_SECURITY");
}

/* RDMA NICs have other defaults; what is set holds all the same. */
TEST(read__defaults_of_rdma)
{
	setenv("FI_UCCL_BACKEND", "verbs-uc", 1);
	assert_int_equal(uccl_params_read(&p, why, sizeof(why)), 0);
	assert_string_equal(p.cc, "nscc:start=4");
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
	assert_string_equal(p.cc, "nscc:blind_chunks=16:loss_share=0.05:max_chunks=12:start=3");
	assert_string_equal(p.path, "reps");
	assert_string_equal(p.credit, "auto");
	assert_int_equal(p.paths, 64);
}

TEST(read__values)
{
	assert_int_equal(read_with("FI_UCCL_BACKEND", "xdp:mode=native"), 0);
	assert_int_equal(uccl_params_xdp_mode(&p), UCCL_XDP_NATIVE);
	assert_int_equal(read_with("FI_UCCL_BACKEND", "mode=generic"), 0);
	assert_int_equal(uccl_params_xdp_mode(&p), UCCL_XDP_GENERIC);
	assert_int_equal(read_with("FI_UCCL_EAGER", "32k"), 0);
	assert_int_equal(p.eager_bytes, 32768);
	assert_int_equal(read_with("FI_UCCL_UNEXPECTED", "2M"), 0);
	assert_int_equal(p.unexpected_bytes, 2 << 20);
	assert_int_equal(read_with("FI_UCCL_MTU", "0"), 0);
	assert_int_equal(p.nic.mtu, 0);
	assert_int_equal(read_with("FI_UCCL_MTU", "512"), 0);
	assert_int_equal(p.nic.mtu, 512);
	assert_int_equal(read_with("FI_UCCL_BACKEND", "udp,rcvbuf=1g"), 0);
	assert_string_equal(p.nic.backend, "udp");
	assert_int_equal(p.nic.backend_rcvbuf, 1 << 30);
	assert_int_equal(read_with("FI_UCCL_PEER_TIMEOUT", "2"), 0);
	assert_int_equal(p.conn.peer_timeout_ns, 2 * UCCL_NS_PER_S);
	assert_int_equal(read_with("FI_UCCL_LINGER", "0x10"), 0);
	assert_int_equal(p.conn.linger_ns, 16 * UCCL_NS_PER_MS);
	assert_int_equal(read_with("FI_UCCL_CC", "cubic"), 0);
	assert_string_equal(p.cc, "cubic");
	assert_int_equal(read_with("FI_UCCL_CC", "swift:target_us=40,beta=0.7"), 0);
	assert_string_equal(p.cc, "swift:target_us=40,beta=0.7");
	assert_int_equal(read_with("FI_UCCL_PEER_TIMEOUT", "3:liveness=off,connect=4,keepalive_ms=5"), 0);
	assert_int_equal(p.conn.peer_liveness, 0);
	assert_int_equal(p.conn.peer_timeout_ns, 3 * UCCL_NS_PER_S);
	assert_int_equal(p.conn.peer_connect_ns, 4 * UCCL_NS_PER_S);
	assert_int_equal(p.conn.peer_keepalive_ns, 5 * UCCL_NS_PER_MS);
	assert_int_equal(p.nic.ecn, 1);
	assert_int_equal(p.nic.dscp, 0);
	assert_int_equal(p.nic.dscp_control, 48);
	assert_int_equal(read_with("FI_UCCL_DSCP", "control=64"), -FI_EINVAL);
	assert_int_equal(read_with("FI_UCCL_DSCP", "9,control=63"), 0);
	assert_int_equal(p.nic.dscp, 9);
	assert_int_equal(p.nic.dscp_control, 63);
	assert_int_equal(read_with("FI_UCCL_ECN", "0"), 0);
	assert_int_equal(p.nic.ecn, 0);
	assert_int_equal(read_with("FI_UCCL_SECURITY", "keyless=yes"), 0);
	assert_int_equal(p.conn.security_keyless, UCCL_SWITCH_YES);
	assert_int_equal(read_with("FI_UCCL_TEST", "rx_cq_data=auto"), 0);
	assert_int_equal(p.rx_cq_data, UCCL_SWITCH_AUTO);
	assert_int_equal(read_with("FI_UCCL_TEST", "rx_cq_data=0"), 0);
	assert_int_equal(p.rx_cq_data, UCCL_SWITCH_NO);
	assert_int_equal(read_with("FI_UCCL_LANES", "16"), 0);
	assert_int_equal(p.lanes, 16);
	assert_int_equal(read_with("FI_UCCL_LANES", "auto"), 0);
	assert_true(p.lanes == UCCL_LANES_AUTO);
	assert_int_equal(read_with("FI_UCCL_PATHS", "order=fifo,window=4096"), 0);
	assert_string_equal(p.paths_order, "fifo");
	assert_int_equal(p.paths, 64);
	assert_int_equal(p.paths_window, 4096);
	assert_int_equal(read_with("FI_UCCL_VERBS", "max_qp=7,srq=9,write=16k,mw=1,max_qp=8"), 0);
	assert_int_equal(p.nic.verbs_max_qp, 8);
	assert_int_equal(p.nic.verbs_srq, 9);
	assert_int_equal(p.nic.verbs_write, 16384);
	assert_int_equal(p.nic.verbs_mw, UCCL_SWITCH_YES);
	assert_int_equal(read_with("FI_UCCL_VERBS", ""), 0);
	assert_int_equal(read_with("FI_UCCL_CUDA", "on,scatter=1"), 0);
	assert_string_equal(p.nic.cuda, "on");
	assert_int_equal(p.nic.cuda_scatter, 1);
	assert_int_equal(read_with("FI_UCCL_NIC", "mlx5_0:2,eth1,pci=none"), 0);
	assert_string_equal(p.nic.names, "mlx5_0:2,eth1");
	assert_string_equal(p.nic.pci, "none");
	assert_int_equal(read_with("FI_UCCL_TRACE", "/dev/shm/a,b:C=1:records=128"), 0);
	assert_string_equal(p.trace, "/dev/shm/a,b:C=1");
	assert_int_equal(p.trace_records, 128);
	assert_int_equal(read_with("FI_UCCL_STATS", "/dev/shm/a,b:C=c"), 0);
	assert_string_equal(p.stats, "/dev/shm/a,b:C=c");
	assert_false(p.stats_paths);
	assert_int_equal(read_with("FI_UCCL_STATS", "stderr,paths=1"), 0);
	assert_string_equal(p.stats, "stderr");
	assert_true(p.stats_paths);
	assert_int_equal(read_with("FI_UCCL_PORTS", "47000-47015"), 0);
	assert_int_equal(uccl_ports_count(&p.nic.ports), 16);
	assert_int_equal(read_with("FI_UCCL_PORTS", ""), 0);
	assert_false(uccl_ports_limited(&p.nic.ports));
	assert_int_equal(read_with("FI_UCCL_SECURITY", "packets"), 0);
	assert_string_equal(p.conn.security, "packets");
	assert_int_equal(read_with("FI_UCCL_FAULT", "drop=0.01,seed=7"), 0);
	assert_string_equal(p.fault, "drop=0.01,seed=7");
}

/* How much leaves unsolicited is a wish: the nearest that is possible is used, and told of. */
TEST(read__nearest)
{
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
TEST(read__refuses)
{
	static const struct {
		const char *name, *value;
	} bad[] = {
		{ "FI_UCCL_PATHS", "0" },      { "FI_UCCL_PATHS", "257" },	{ "FI_UCCL_PATHS", "abc" },
		{ "FI_UCCL_PATHS", "" },       { "FI_UCCL_PATHS", "-1" },	{ "FI_UCCL_PATHS", "16k" },
		{ "FI_UCCL_PATHS", "4 " },     { "FI_UCCL_EAGER", "1t" },	{ "FI_UCCL_EAGER", "1kk" },
		{ "FI_UCCL_CC", "reno" },      { "FI_UCCL_PATH", "" },		{ "FI_UCCL_CREDIT", "NONE" },
		{ "FI_UCCL_BACKEND", "rdma" }, { "FI_UCCL_PATHS", "order=lifo" }, { "FI_UCCL_MONITOR", "2" },
		{ "FI_UCCL_PEER_TIMEOUT", "liveness=2" }, { "FI_UCCL_BACKEND", "udp,rcvbuf=2g" },
		{ "FI_UCCL_SECURITY", "keyless=maybe" }, { "FI_UCCL_PATHS", "window=63" },
		{ "FI_UCCL_PATHS", "window=96" }, { "FI_UCCL_TEST", "inject=65537" }, { "FI_UCCL_TEST", "64" },
		{ "FI_UCCL_LINGER", "99999999999999999999" }, { "FI_UCCL_EAGER", "18446744073709551615g" },
		{ "FI_UCCL_MTU", "511" },      { "FI_UCCL_MTU", "64k" },	{ "FI_UCCL_MTU", "mtu=1500" },
		{ "FI_UCCL_CC", "swift:bta=1" }, { "FI_UCCL_CC", "swift:beta=-1" }, { "FI_UCCL_CREDIT", "none:x=1" },
		{ "FI_UCCL_PORTS", "5-1" },     { "FI_UCCL_PORTS", "0-99999" },	{ "FI_UCCL_PORTS", "abc" },
		{ "FI_UCCL_LANES", "17" },      { "FI_UCCL_LANES", "all" },	{ "FI_UCCL_LANES", "-1" },
		{ "FI_UCCL_SECURITY", "0" },   { "FI_UCCL_FAULT", "drop=2" }, { "FI_UCCL_FAULT", "nonsense" },
		{ "FI_UCCL_PATHS", "8," },     { "FI_UCCL_PATHS", "8,fifo" },	{ "FI_UCCL_PATHS", "8,oder=fifo" },
		{ "FI_UCCL_PATHS", "order=" }, { "FI_UCCL_VERBS", "1024" },	{ "FI_UCCL_VERBS", "max_qp" },
		{ "FI_UCCL_TRACE", "/x,record=9" }, { "FI_UCCL_NIC", "lo,pic=all" },
		/* By the name that a person used. */
		{ "FI_UCCL_WINDOW", "63" },    { "FI_UCCL_KEYLESS", "maybe" },	{ "FI_UCCL_PATH_ORDER", "" },
		{ "FI_UCCL_CONNECT_TIMEOUT", "0" },
	};

	for (size_t i = 0; i < uccl_array_len(bad); i++) {
		char want[128];

		assert_int_equal(read_with(bad[i].name, bad[i].value), -FI_EINVAL);
		snprintf(want, sizeof(want), "%s=%s is not valid", bad[i].name, bad[i].value);
		if (!strstr(why, want))
			fail_msg("\"%s\" does not say \"%s\"", why, want);
	}
}

/* And says what would be. */
TEST(read__says_what_would_do)
{
	read_with("FI_UCCL_CC", "swift:beta=7");
	assert_non_null(strstr(why, "(\"beta=7\": beta is 0.01 to 1)"));
	read_with("FI_UCCL_PORTS", "7-7");
	assert_non_null(strstr(why, "FI_UCCL_PORTS=7-7 is not valid (first-last, two numbers, 1 to 65535"));
	read_with("FI_UCCL_PATH", "pow2:draws=3");
	assert_non_null(strstr(why, "(\"draws=3\" sets no constant; there are: none)"));
	read_with("FI_UCCL_PATHS", "8,oder=fifo");
	assert_non_null(strstr(why, "(\"oder=fifo\" sets no part of it; there are, as key=value: order window host)"));
	read_with("FI_UCCL_PATHS", "8,order=lifo");
	assert_non_null(strstr(why, "(\"order=lifo\": one of any fifo)"));
	read_with("FI_UCCL_VERBS", "7");
	assert_non_null(strstr(why, "FI_UCCL_VERBS=7 is not valid (key=value,key=value)"));
	read_with("FI_UCCL_CONNECT_TIMEOUT", "0");
	assert_string_equal(why, "FI_UCCL_CONNECT_TIMEOUT=0 is not valid (seconds, 1 to 31536000)");
	read_with("FI_UCCL_CREDIT", "nonesuch");
	assert_non_null(strstr(why, "(no such credit policy; there are: none window eqds auto srpt)"));
}

TEST(read__too_long)
{
	char text[UCCL_PARAM_TEXT + 1];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(read_with("FI_UCCL_STATS", text), -FI_EINVAL);
	assert_int_equal(read_with("FI_UCCL_TRACE", text), -FI_EINVAL);
	assert_int_equal(read_with("FI_UCCL_PATH_ORDER", text), -FI_EINVAL);
	text[sizeof(text) - 2] = '\0';
	assert_int_equal(read_with("FI_UCCL_TRACE", text), 0);
	assert_string_equal(p.trace, text);
	assert_int_equal(read_with("FI_UCCL_STATS", text), 0);
	assert_string_equal(p.stats, text);
}

/* A program with more rights than its caller writes no file that the caller names. */
TEST(distrust__files)
{
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

TEST(config__takes_all)
{
	struct uccl_config c;

	setenv("FI_UCCL_PATHS", "8,window=128,order=fifo", 1);
	setenv("FI_UCCL_TEST", "chunk=2k,inject=64", 1);
	setenv("FI_UCCL_SECURITY", "control,keyless=1", 1);
	setenv("FI_UCCL_PEER_TIMEOUT", "7,connect=8,keepalive_ms=9", 1);
	assert_int_equal(read_with("FI_UCCL_CC", "none"), 0);
	uccl_params_config(&p, &c);
	assert_int_equal(c.security, UCCL_SECURITY_CONTROL);
	assert_int_equal(c.paths, 8);
	assert_int_equal(c.chunk_bytes, 2048);
	assert_int_equal(c.window_chunks, 128);
	assert_true(c.keyless);
	assert_true(c.fifo_paths);
	assert_string_equal(c.cc, "none");
	assert_int_equal(c.inject_bytes, 64);
	assert_int_equal(c.peer_timeout_ns, 7 * UCCL_NS_PER_S);
	assert_int_equal(c.connect_timeout_ns, 8 * UCCL_NS_PER_S);
	assert_int_equal(c.keepalive_ns, 9 * UCCL_NS_PER_MS);
	unsetenv("FI_UCCL_PATHS");
	unsetenv("FI_UCCL_TEST");
	unsetenv("FI_UCCL_SECURITY");
	unsetenv("FI_UCCL_PEER_TIMEOUT");
}

int main(void)
{
	fi_prov_ini();
	return tests_run(NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What keeps the provider from its best on this host or between two, and what to do about it. See uccl_doctor(1). */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tool/tool.h"
#include "base/units.h"
#include "uccl_doctor_bundle.h"
#include "uccl_doctor_cluster.h"
#include "uccl_doctor_host.h"
#include "uccl_doctor_math.h"
#include "uccl_doctor_pairs.h"
#include "uccl_doctor_peer.h"

#define PEERS_DEFAULT 16
#define WAIT_DEFAULT 600
#define READY_DEFAULT 60 /* of workers */
#define REPORT_DEFAULT "uccl-report.txt"

enum { OPT_HOSTS = 256, OPT_RSH, OPT_REMOTE, OPT_RANKS, OPT_PARALLEL, OPT_WORKER, OPT_REPORT };

static struct {
	bool json, listen, nics, report, worker, wait_set;
	int peers;
	struct doctor_cluster_opt cluster;
	struct doctor_peer_opt peer;
} opt = { .peers = PEERS_DEFAULT,
	  .cluster = { .rsh = "ssh -o BatchMode=yes" },
	  .peer = { .clients = 1, .wait_s = WAIT_DEFAULT, .until_fd = -1, .ready_fd = -1 } };

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_doctor [--json] [--peers N]            examine this host\n"
		   "       uccl_doctor --help | --version\n"
		   "       uccl_doctor --nics [--json]                 where its NICs are, and how far\n"
		   "       uccl_doctor --listen [ADDRESS] [--port P] [--clients N] [--wait S]\n"
		   "       uccl_doctor HOST [--json] [--port P] [--labels N] [--expect N]\n"
		   "                                                   measure to HOST, which listens, and back\n"
		   "       uccl_doctor --hosts FILE [--rsh COMMAND] [--remote PATH] [--parallel N] [--wait S]\n"
		   "                                                   measure all pairs of the hosts in FILE\n"
		   "       mpirun ... uccl_doctor --ranks HOST:PORT [--parallel N] [--wait S]\n"
		   "                                                   the same in a job; HOST has rank 0\n"
		   "       uccl_doctor --report [FILE]                 all that a report of a fault needs (%s)\n"
		   "  -j, --json       the same facts for programs\n"
		   "  -n, --peers N    peers that descriptors should suffice for (%d)\n"
		   "  -i, --nics       a table of the NICs\n"
		   "  -s, --listen     wait for another host's uccl_doctor\n"
		   "  -p, --port P     TCP port to meet at (%d, or the first of FI_UCCL_PORTS)\n"
		   "  -c, --clients N  end after so many (1; 0: never)\n"
		   "  -w, --wait S     end when nobody came for so many seconds (%d; 0: never)\n"
		   "  -l, --labels N   source ports to measure with (as FI_UCCL_PATHS, up to %d)\n"
		   "  -e, --expect N   warn if they take fewer different paths\n"
		   "  --rsh COMMAND    what runs a command on a host: COMMAND HOST ... (ssh -o BatchMode=yes)\n"
		   "  --remote PATH    uccl_doctor there (as it was called here)\n"
		   "  --parallel N     most measurements at the same time (0: as many as hosts allow)\n",
		REPORT_DEFAULT, PEERS_DEFAULT, DOCTOR_PORT, WAIT_DEFAULT, DOCTOR_LABELS);
	return f == stdout ? 0 : 2;
}

/* A number of the given range, or the end with a text. */
static int number(const char *name, const char *arg, long lo, long hi)
{
	char *end;
	long v = strtol(arg, &end, 10);

	if (end == arg || *end || v < lo || v > hi) {
		fprintf(stderr, "uccl_doctor: --%s: not a number from %ld to %ld: %s\n", name, lo, hi, arg);
		exit(2);
	}
	return (int)v;
}

static void host_examine(struct doctor_report *r)
{
	struct doctor_host *h = calloc(1, sizeof(*h));

	if (!h) {
		r->short_of_memory = true;
		return;
	}
	h->peers = opt.peers;
	if (doctor_offer(h, r)) {
		doctor_limits(h, r);
		doctor_own_ports(h, r);
	}
	free(h);
}

static int nics_print(void)
{
	struct doctor_host *h = calloc(1, sizeof(*h));
	int status = h ? doctor_nics(h, opt.json, stdout) : 2;

	free(h);
	return status;
}

/* What the variables say about paths and packets. False: they are not valid. */
static bool variables_read(void)
{
	char why[UCCL_PARAM_TEXT] = "";
	struct uccl_params p;

	if (uccl_params_read(&p, why, sizeof(why))) {
		fprintf(stderr, "uccl_doctor: %s\n", why);
		return false;
	}
	if (!opt.peer.labels)
		opt.peer.labels = (int)uccl_min(p.paths, DOCTOR_LABELS);
	opt.peer.mtu = (uint32_t)p.nic.mtu;
	opt.peer.rx_bytes = (uint32_t)p.nic.backend_rcvbuf;
	opt.peer.ports = p.nic.ports;
	if (!opt.peer.port)
		opt.peer.port = uccl_ports_limited(&p.nic.ports) ? p.nic.ports.first : DOCTOR_PORT;
	return true;
}

/* Findings quote variables that are not valid. What they must not quote is not there any more. */
static void secrets_forget(void)
{
	char name[64];

	for (char **var = environ; *var; var++) {
		size_t len = strcspn(*var, "=");

		if (strncmp(*var, "FI_", 3) || len >= sizeof(name) || !doctor_bundle_hidden(*var))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)len, *var);
		unsetenv(name);
		var = environ - 1;
	}
}

/* Everything for a report of a fault, in a file of the user's own. */
static int report_write(const char *name)
{
	struct doctor_report report = { 0 };
	struct doctor_host *h = calloc(1, sizeof(*h));
	int fd = h ? open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		fprintf(stderr, "uccl_doctor: %s: %s\n", name, strerror(errno));
		free(h);
		return 2;
	}
	doctor_bundle_print(f);
	secrets_forget();
	fputs("\n== NICs\n", f);
	doctor_nics(h, false, f);
	fputs("\n== findings\n", f);
	host_examine(&report);
	doctor_print_text(&report, f);
	doctor_free(&report);
	free(h);
	if (ferror(f) | fclose(f)) {
		fprintf(stderr, "uccl_doctor: cannot write %s: %s\n", name, strerror(errno));
		return 2;
	}
	printf("%s has been written. It has addresses of this host; read it before you send it.\n", name);
	return 0;
}

/* The program as other hosts can call it: by its whole path if it was called by a path. */
static const char *own_path(const char *called)
{
	const char *path = strchr(called, '/') ? realpath(called, NULL) : NULL;

	return path ? path : called;
}

static int cluster_run(const char *called)
{
	struct doctor_cluster_opt *c = &opt.cluster;

	if (!c->remote)
		c->remote = own_path(called);
	c->json = opt.json;
	c->wait_s = opt.wait_set ? opt.peer.wait_s : READY_DEFAULT;
	c->peer = opt.peer;
	return doctor_cluster(c);
}

static void options_read(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },	   { "peers", required_argument, NULL, 'n' },
		{ "nics", no_argument, NULL, 'i' },
		{ "listen", no_argument, NULL, 's' },	   { "port", required_argument, NULL, 'p' },
		{ "clients", required_argument, NULL, 'c' }, { "wait", required_argument, NULL, 'w' },
		{ "labels", required_argument, NULL, 'l' },  { "expect", required_argument, NULL, 'e' },
		{ "hosts", required_argument, NULL, OPT_HOSTS }, { "rsh", required_argument, NULL, OPT_RSH },
		{ "remote", required_argument, NULL, OPT_REMOTE }, { "ranks", required_argument, NULL, OPT_RANKS },
		{ "parallel", required_argument, NULL, OPT_PARALLEL }, { "worker", no_argument, NULL, OPT_WORKER },
		{ "report", no_argument, NULL, OPT_REPORT }, { "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "jn:isp:c:w:l:e:h", longs, NULL)) != -1) {
		switch (c) {
		case 'j': opt.json = true; break;
		case 'n': opt.peers = number("peers", optarg, 1, 1000000); break;
		case 'i': opt.nics = true; break;
		case 's': opt.listen = true; break;
		case 'p': opt.peer.port = (uint16_t)number("port", optarg, 1, 65535); break;
		case 'c': opt.peer.clients = number("clients", optarg, 0, 1000000000); break;
		case 'w':
			opt.peer.wait_s = number("wait", optarg, 0, 1000000000);
			opt.wait_set = true;
			break;
		case 'l': opt.peer.labels = number("labels", optarg, 1, DOCTOR_LABELS); break;
		case 'e': opt.peer.expect = number("expect", optarg, 1, DOCTOR_LABELS); break;
		case OPT_HOSTS: opt.cluster.hosts = optarg; break;
		case OPT_RSH: opt.cluster.rsh = optarg; break;
		case OPT_REMOTE: opt.cluster.remote = optarg; break;
		case OPT_RANKS: opt.cluster.ranks = optarg; break;
		case OPT_PARALLEL: opt.cluster.parallel = number("parallel", optarg, 0, DOCTOR_HOSTS); break;
		case OPT_WORKER: opt.worker = true; break;
		case OPT_REPORT: opt.report = true; break;
		case 'h': exit(usage(stdout));
		default: exit(usage(stderr));
		}
	}
	if (argc - optind > 1)
		exit(usage(stderr));
	opt.peer.host = argv[optind];
}

int main(int argc, char **argv)
{
	struct doctor_report report = { 0 };
	bool cluster;
	int status;

	tool_begin("uccl_doctor", argc, argv);
	options_read(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	if (opt.nics)
		return opt.listen || opt.peer.host ? usage(stderr) : nics_print();
	if (opt.report)
		return opt.listen ? usage(stderr) : report_write(opt.peer.host ? opt.peer.host : REPORT_DEFAULT);
	cluster = opt.cluster.hosts || opt.cluster.ranks;
	if ((cluster || opt.worker) && (opt.listen || opt.peer.host || (opt.cluster.hosts && opt.cluster.ranks)))
		return usage(stderr);
	if ((opt.listen || opt.peer.host || cluster || opt.worker) && !variables_read())
		return 2;
	if (cluster)
		return cluster_run(argv[0]);
	if (opt.worker)
		return doctor_worker(&opt.peer, STDIN_FILENO, STDOUT_FILENO, -1) ? 2 : 0;
	if (opt.listen)
		return doctor_listen(&opt.peer) ? 2 : 0;
	if (!opt.peer.host)
		host_examine(&report);
	else if (doctor_ask(&opt.peer, &report))
		return 2;
	if (opt.json)
		doctor_print_json(&report, stdout);
	else
		doctor_print_text(&report, stdout);
	status = doctor_status(&report);
	doctor_free(&report);
	return status;
}

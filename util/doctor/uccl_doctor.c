/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What keeps the provider from its best on this host or between two, and what to do about it. See uccl_doctor(1). */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../tool/tool.h"
#include "base/units.h"
#include "uccl_doctor_host.h"
#include "uccl_doctor_math.h"
#include "uccl_doctor_peer.h"

#define PEERS_DEFAULT 16
#define WAIT_DEFAULT 600

static struct {
	bool json, listen, nics;
	int peers;
	struct doctor_peer_opt peer;
} opt = { .peers = PEERS_DEFAULT, .peer = { .clients = 1, .wait_s = WAIT_DEFAULT, .until_fd = -1, .ready_fd = -1 } };

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_doctor [--json] [--peers N]            examine this host\n"
		   "       uccl_doctor --help | --version\n"
		   "       uccl_doctor --nics [--json]                 where its NICs are, and how far\n"
		   "       uccl_doctor --listen [ADDRESS] [--port P] [--clients N] [--wait S]\n"
		   "       uccl_doctor HOST [--json] [--port P] [--labels N] [--expect N]\n"
		   "                                                   measure to HOST, which listens, and back\n"
		   "  -j, --json       the same facts for programs\n"
		   "  -n, --peers N    peers that descriptors should suffice for (%d)\n"
		   "  -i, --nics       a table of the NICs\n"
		   "  -s, --listen     wait for another host's uccl_doctor\n"
		   "  -p, --port P     TCP port to meet at (%d, or the first of FI_UCCL_PORTS)\n"
		   "  -c, --clients N  end after so many (1; 0: never)\n"
		   "  -w, --wait S     end when nobody came for so many seconds (%d; 0: never)\n"
		   "  -l, --labels N   source ports to measure with (as FI_UCCL_PATHS, up to %d)\n"
		   "  -e, --expect N   warn if they take fewer different paths\n",
		PEERS_DEFAULT, DOCTOR_PORT, WAIT_DEFAULT, DOCTOR_LABELS);
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
	int status = h ? doctor_nics(h, opt.json) : 2;

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

static void options_read(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },	   { "peers", required_argument, NULL, 'n' },
		{ "nics", no_argument, NULL, 'i' },
		{ "listen", no_argument, NULL, 's' },	   { "port", required_argument, NULL, 'p' },
		{ "clients", required_argument, NULL, 'c' }, { "wait", required_argument, NULL, 'w' },
		{ "labels", required_argument, NULL, 'l' },  { "expect", required_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },	   { 0 },
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
		case 'w': opt.peer.wait_s = number("wait", optarg, 0, 1000000000); break;
		case 'l': opt.peer.labels = number("labels", optarg, 1, DOCTOR_LABELS); break;
		case 'e': opt.peer.expect = number("expect", optarg, 1, DOCTOR_LABELS); break;
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
	int status;

	tool_begin("uccl_doctor", argc, argv);
	options_read(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	if (opt.nics)
		return opt.listen || opt.peer.host ? usage(stderr) : nics_print();
	if ((opt.listen || opt.peer.host) && !variables_read())
		return 2;
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

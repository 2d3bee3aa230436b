/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What keeps the provider from its best on this host, and what to do about it. See uccl_doctor(1). */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "uccl_doctor_host.h"

#define PEERS_DEFAULT 16

static struct {
	bool json;
	int peers;
} opt = { .peers = PEERS_DEFAULT };

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_doctor [--json] [--peers N]\n"
		   "  Tell what the provider would offer on this host and what limits it, with advice.\n"
		   "  -j, --json     the same facts for programs\n"
		   "  -n, --peers N  peers that descriptors should suffice for (%d)\n", PEERS_DEFAULT);
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

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "peers", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct doctor_report report = { 0 };
	int c, status;

	while ((c = getopt_long(argc, argv, "jn:h", longs, NULL)) != -1) {
		switch (c) {
		case 'j': opt.json = true; break;
		case 'n': opt.peers = number("peers", optarg, 1, 1000000); break;
		case 'h': return usage(stdout);
		default: return usage(stderr);
		}
	}
	if (optind < argc)
		return usage(stderr);
	host_examine(&report);
	if (opt.json)
		doctor_print_json(&report, stdout);
	else
		doctor_print_text(&report, stdout);
	status = doctor_status(&report);
	doctor_free(&report);
	return status;
}

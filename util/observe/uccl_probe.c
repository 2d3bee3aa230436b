/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the RDMA NICs of this host really do, and what verbs-uc makes of it. See uccl_probe(1). */
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../tool/tool.h"
#include "base/units.h"
#include "nic/verbs/verbs_probe.h"

#ifdef HAVE_VERBS

#include "nic/verbs/uc_state.h"

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UCCL_NS_PER_S + (uint64_t)t.tv_nsec;
}

static const char *text(enum uccl_probe_answer a)
{
	return a == UCCL_PROBE_YES ? "yes" : a == UCCL_PROBE_NO ? "no" : "not tried";
}

/* A step between numbers; 0: it differs. */
static void step(const char *name, int64_t n)
{
	if (n)
		printf("%s=%+lld\n", name, (long long)n);
	else
		printf("%s=irregular\n", name);
}

/* 0; 1: it could not be asked; 3: it is not what verbs-uc assumes. */
static int port_probe(const struct uccl_verbs_port *list, bool overrun)
{
	const struct uccl_verbs *lib = uccl_verbs_lib();
	uint32_t assumed = uccl_verbs_write_brittle(list, IBV_QPT_UC, 0) ? list->mtu : uccl_verbs_write_max(list, 0);
	uint32_t measured;
	struct uccl_verbs_port port;
	struct uccl_verbs_probe p;
	struct ibv_context *ctx;
	const char *what = "the device";
	int rc = uccl_verbs_open(lib, list->name, list->addr.ip, false, &port, &ctx);

	if (!rc) {
		rc = uccl_verbs_probe(lib, ctx, &port, overrun, clock_ns, &p, &what);
		lib->close_device(ctx);
	}
	if (rc) {
		fprintf(stderr, "uccl_probe: %s: cannot %s: %s\n", list->name, what, strerror(-rc));
		return 1;
	}
	measured = uccl_verbs_probe_write_max(&p);
	printf("nic=%s\ndriver=%s\nvendor=%#x\npart=%#x\n", port.name, port.driver[0] ? port.driver : "unknown",
	       port.vendor_id, port.part_id);
	printf("link=%s\nmbit_s=%llu\npacket_bytes=%u\n",
	       port.infiniband ? "infiniband" : port.roce_v2 ? "roce2" : "roce1",
	       (unsigned long long)(port.link_bps / 1000000), port.mtu);
	printf("max_qp=%u\nmax_qp_wr=%u\nmax_sge=%u\nmax_cqe=%u\n", port.max_qp, port.max_qp_wr, port.max_sge,
	       port.max_cqe);
	printf("max_srq_wr=%u\nmax_mr=%u\nmax_ah=%u\ninline_bytes=%u\n", port.max_srq_wr, port.max_mr, port.max_ah,
	       p.inline_bytes);
	printf("uc_writes=%s\n", text(p.uc));
	printf("random_place=%s\n", text(p.iova));
	printf("no_receive_is_told=%s\n", text(p.rnr_told));
	printf("no_receive_placed_bytes=%u\n", p.rnr_bytes);
	printf("no_receive_ends_queue_pair=%s\n", text(p.rnr_ends));
	printf("strangers_can_write=%s\n", text(p.foreign_qp));
	printf("bad_key_takes_receive=%s\n", text(p.key_receives));
	printf("bad_key_ends_queue_pair=%s\n", text(p.key_ends));
	printf("deregistration_keeps_out=%s\n", text(p.dereg_fences));
	printf("full_completion_queue_ends_queue_pair=%s\n", text(p.overrun_ends));
	printf("windows=%s\nwindow_bounds_hold=%s\n", text(p.windows), text(p.window_bounds));
	printf("unbound_window_keeps_out=%s\n", text(p.window_fences));
	printf("type2_window_serves_other_queue_pairs=%s\n", text(p.window2));
	printf("windows_used=%s\n", uccl_verbs_probe_window_use(&p, false) ? "yes" : "no");
	printf("window_cycle_us=%llu\nregistration_cycle_us=%llu\n", (unsigned long long)(p.window_ns / 1000),
	       (unsigned long long)(p.registration_ns / 1000));
	step("queue_pair_number_step", p.qpn_step);
	step("key_step", p.key_step);
	printf("queue_pair_cycle_us=%llu\n", (unsigned long long)(p.cycle_ns / 1000));
	printf("write_bytes=%u\nwrite_bytes_assumed=%u\n", measured, assumed);
	fflush(stdout);
	if (p.window_error)
		fprintf(stderr, "uccl_probe: %s: no memory windows: cannot %s: %s\n", port.name, p.window_what,
			strerror(-p.window_error));
	if (p.dereg_fences == UCCL_PROBE_NO)
		fprintf(stderr, "uccl_probe: %s: writes reach memory that is not registered any more: use "
			"FI_UCCL_SECURITY=packets\n", port.name);
	if (measured < assumed)
		fprintf(stderr, "uccl_probe: %s: a lost packet may end a queue pair; verbs-uc will make a new one each "
			"time\n", port.name);
	return p.dereg_fences == UCCL_PROBE_NO || measured < assumed ? 3 : 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	const char *name = NULL;
	struct uccl_verbs_port *list;
	bool overrun = false;
	int i, n, worst = 0, asked = 0, opt;

	tool_begin("uccl_probe", argc, argv);
	while ((opt = getopt_long(argc, argv, "oh", longs, NULL)) != -1) {
		if (opt == 'o') {
			overrun = true;
			continue;
		}
		fprintf(opt == 'h' ? stdout : stderr, "usage: uccl_probe [-o] [NIC] | --help | --version\n"
			"  Find out by trying what RDMA NICs of this host do, and print it.\n"
			"  -o  let a completion queue run over too, which the kernel may tell in its log\n");
		return opt == 'h' ? 0 : 2;
	}
	name = argv[optind];
	n = uccl_verbs_list(NULL, false, &list);
	for (i = 0; i < n; i++) {
		int rc;

		if (name && strcmp(name, list[i].name))
			continue;
		if (asked++)
			printf("\n");
		rc = port_probe(&list[i], overrun);
		worst = rc > worst ? rc : worst;
	}
	if (n > 0)
		free(list);
	if (!asked) {
		fprintf(stderr, "uccl_probe: no RDMA NIC with an active port%s%s\n", name ? ": " : "",
			name ? name : "");
		return 1;
	}
	return worst;
}

#else

int main(int argc, char **argv)
{
	tool_begin("uccl_probe", argc, argv);
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		puts("usage: uccl_probe: built without libibverbs, it can only say so | --help | --version");
		return 0;
	}
	fprintf(stderr, "uccl_probe: built without libibverbs\n");
	return 1;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages, remote memory and atomics over a network that loses, doubles and delays: right bytes, each exactly once. */
#include "conf.h"

#include <string.h>

/* Packets as on Ethernet: enough of them for some to be lost. */
#define SMALL " FI_UCCL_MTU=1450"
#define TARGET_LEN (1u << 18)

static uint8_t target[TARGET_LEN], local[TARGET_LEN];

static const size_t sizes[] = {0, 1, 63, 1000, 1500, 4096, 9001, 65536, 100000, 262144};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

/* What was made on purpose must have been noticed. */
static void noticed(const char *counter)
{
	conf_check(conf_counter(counter) > 0, "nothing was counted as %s", counter);
}

static void messages(struct conf_pair *p)
{
	for (uint32_t i = 0; i < 6 * SIZES * conf_factor; i++)
		conf_pair_talk(p, sizes[i % SIZES], i);
}

static void messages_lost(void)
{
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	messages(&p);
	conf_pair_close(&p);
	noticed("rtx_packets");
}

static void messages_disordered(void)
{
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	messages(&p);
	conf_pair_close(&p);
}

static void remote_memory(void)
{
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	conf_pair_open(&p, NULL);
	mr = conf_region(&p, target, sizeof(target), FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	for (uint32_t i = 0; i < 5 * SIZES * conf_factor; i++) {
		struct conf_op put = {0}, get = {0};
		size_t len = sizes[i % SIZES];

		conf_fill(local, len, i);
		conf_post(&p.a, &p.b,
			  fi_write(p.a.ep, local, len, NULL, p.to_b, base, fi_mr_key(mr), &put));
		conf_wait_good(&p.a, &p.b, &put);
		conf_check(conf_same(target, len, i), "%zu bytes were written wrong", len);
		memset(local, 0, len);
		conf_post(&p.a, &p.b, fi_read(p.a.ep, local, len, NULL, p.to_b, base, fi_mr_key(mr), &get));
		conf_wait_good(&p.a, &p.b, &get);
		conf_check(conf_same(local, len, i), "%zu bytes were read wrong", len);
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
	noticed("rtx_packets");
}

#define WINDOW 16

/* An addition that is done twice, or not at all, shows in the sum and in what was fetched. */
static void atomics(void)
{
	static uint64_t one = 1, result[WINDOW];
	uint64_t n = 400 * conf_factor, sum = 0, base, value = 0;
	struct conf_op op[WINDOW];
	struct conf_pair p;
	struct fid_mr *mr;

	conf_pair_open(&p, NULL);
	mr = conf_region(&p, &value, sizeof(value), FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	for (uint64_t i = 0; i < n + WINDOW; i++) {
		unsigned int s = (unsigned int)(i % WINDOW);

		if (i >= WINDOW) {
			conf_wait_good(&p.a, &p.b, &op[s]);
			sum += result[s];
		}
		if (i >= n)
			continue;
		memset(&op[s], 0, sizeof(op[s]));
		conf_post(&p.a, &p.b,
			  fi_fetch_atomic(p.a.ep, &one, 1, NULL, &result[s], NULL, p.to_b, base, fi_mr_key(mr),
					  FI_UINT64, FI_SUM, &op[s]));
	}
	conf_check(value == n, "%llu additions of 1 made %llu", (unsigned long long)n, (unsigned long long)value);
	conf_check(sum == n * (n - 1) / 2, "the values that were fetched add up to %llu", (unsigned long long)sum);
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
	noticed("rtx_packets");
}

static const struct conf_case cases[] = {
	{"messages-drop", CONF_STATS SMALL " FI_UCCL_FAULT=drop=0.02", messages_lost},
	{"messages-burst", CONF_STATS SMALL " FI_UCCL_FAULT=drop=0.05,burst=4", messages_lost},
	{"messages-control", CONF_STATS SMALL " FI_UCCL_FAULT=drop=0.01,drop_control=0.2", messages_lost},
	{"messages-reorder-dup", CONF_STATS " FI_UCCL_FAULT=reorder=0.2,dup=0.2,jitter_us=200", messages_disordered},
	{"rma-drop-dup", CONF_STATS SMALL " FI_UCCL_FAULT=drop=0.02,dup=0.05", remote_memory},
	{"atomics-drop-dup", CONF_STATS " FI_UCCL_FAULT=drop=0.05,dup=0.1,reorder=0.1", atomics},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

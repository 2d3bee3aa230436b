/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The orders that fi_info promises hold while the network delivers out of order and loses. */
#include "conf.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define FAULT "FI_UCCL_FAULT=reorder=0.3,jitter_us=300,drop=0.01"

static void promised(const struct conf_pair *p, uint64_t order)
{
	conf_check((p->net.info->tx_attr->msg_order & order) == order, "the orders %llx are promised",
		   (unsigned long long)p->net.info->tx_attr->msg_order);
}

/* Messages of sizes by which they travel in different ways, to receives any of which would take any of them. */
static void send_after_send(void)
{
	static const size_t sizes[] = {8, 20000, 100, 300000, 3000, 8, 8, 70000};
	static struct conf_op send[WINDOW], recv[WINDOW];
	static uint8_t *out[WINDOW], *in[WINDOW];
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	promised(&p, FI_ORDER_SAS);
	for (int i = 0; i < WINDOW; i++) {
		out[i] = malloc(300000);
		in[i] = malloc(300000);
		conf_check(out[i] && in[i], "no memory");
	}
	for (uint32_t round = 0; round < 2 * conf_factor; round++) {
		for (uint32_t i = 0; i < WINDOW; i++) {
			memset(&recv[i], 0, sizeof(recv[i]));
			conf_post(&p.b, &p.a, fi_recv(p.b.ep, in[i], 300000, NULL, FI_ADDR_UNSPEC, &recv[i]));
		}
		for (uint32_t i = 0; i < WINDOW; i++) {
			memset(&send[i], 0, sizeof(send[i]));
			conf_fill(out[i], sizes[i % 8], round * WINDOW + i);
			conf_post(&p.a, &p.b, fi_send(p.a.ep, out[i], sizes[i % 8], NULL, p.to_b, &send[i]));
		}
		for (uint32_t i = 0; i < WINDOW; i++) {
			conf_wait_good(&p.a, &p.b, &send[i]);
			conf_wait_good(&p.b, &p.a, &recv[i]);
			conf_check(recv[i].len == sizes[i % 8], "receive %u got %zu bytes", i, recv[i].len);
			conf_check(conf_same(in[i], recv[i].len, round * WINDOW + i), "receive %u got another message",
				   i);
		}
	}
	conf_pair_close(&p);
}

/* Writes to one place, of which the last must stay, and reads that must see all writes before them and none after. */
static void write_and_read(void)
{
	static uint64_t out[WINDOW], seen[WINDOW], cell;
	static struct conf_op put[WINDOW], get[WINDOW];
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	conf_pair_open(&p, NULL);
	promised(&p, FI_ORDER_WAW | FI_ORDER_RAW | FI_ORDER_WAR);
	mr = conf_region(&p, &cell, sizeof(cell), FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	for (uint64_t round = 0; round < 5 * conf_factor; round++) {
		for (uint64_t i = 0; i < WINDOW; i++) {
			out[i] = round * WINDOW + i + 1;
			memset(&put[i], 0, sizeof(put[i]));
			memset(&get[i], 0, sizeof(get[i]));
			conf_post(&p.a, &p.b,
				  fi_write(p.a.ep, &out[i], 8, NULL, p.to_b, base, fi_mr_key(mr), &put[i]));
			conf_post(&p.a, &p.b,
				  fi_read(p.a.ep, &seen[i], 8, NULL, p.to_b, base, fi_mr_key(mr), &get[i]));
		}
		for (uint64_t i = 0; i < WINDOW; i++) {
			conf_wait_good(&p.a, &p.b, &put[i]);
			conf_wait_good(&p.a, &p.b, &get[i]);
			conf_check(seen[i] == out[i], "a read after write %llu saw %llu", (unsigned long long)out[i],
				   (unsigned long long)seen[i]);
		}
		conf_check(cell == out[WINDOW - 1], "write %llu stayed", (unsigned long long)cell);
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
}

/* Writes of the largest size for which order is promised, which overlap. */
static void write_large(void)
{
	static struct conf_op put[8];
	static uint8_t *out[8], *in;
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;
	size_t len;

	conf_pair_open(&p, NULL);
	promised(&p, FI_ORDER_WAW);
	len = p.net.info->ep_attr->max_order_waw_size;
	conf_check(len >= 8, "an order of %zu bytes is promised", len);
	len = len > 65536 ? 65536 : len;
	in = malloc(len);
	for (int i = 0; i < 8; i++)
		conf_check((out[i] = malloc(len)) && in, "no memory");
	mr = conf_region(&p, in, len, FI_REMOTE_WRITE, &base);
	for (uint32_t round = 0; round < 4 * conf_factor; round++) {
		for (uint32_t i = 0; i < 8; i++) {
			conf_fill(out[i], len, round * 8 + i);
			memset(&put[i], 0, sizeof(put[i]));
			conf_post(&p.a, &p.b,
				  fi_write(p.a.ep, out[i], len, NULL, p.to_b, base, fi_mr_key(mr), &put[i]));
		}
		for (uint32_t i = 0; i < 8; i++)
			conf_wait_good(&p.a, &p.b, &put[i]);
		conf_check(conf_same(in, len, round * 8 + 7), "the last of 8 writes did not stay");
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
}

/* Of fetches and stores in turn each sees what the one before it left. */
static void atomics(void)
{
	static uint64_t out[WINDOW], seen[WINDOW], cell;
	static struct conf_op op[WINDOW];
	uint64_t base, last = 0;
	struct conf_pair p;
	struct fid_mr *mr;

	conf_pair_open(&p, NULL);
	promised(&p, FI_ORDER_WAW | FI_ORDER_RAW);
	mr = conf_region(&p, &cell, sizeof(cell), FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	for (uint64_t round = 0; round < 5 * conf_factor; round++) {
		for (uint64_t i = 0; i < WINDOW; i++) {
			out[i] = round * WINDOW + i + 1;
			memset(&op[i], 0, sizeof(op[i]));
			conf_post(&p.a, &p.b,
				  fi_fetch_atomic(p.a.ep, &out[i], 1, NULL, &seen[i], NULL, p.to_b, base, fi_mr_key(mr),
						  FI_UINT64, FI_ATOMIC_WRITE, &op[i]));
		}
		for (uint64_t i = 0; i < WINDOW; i++) {
			conf_wait_good(&p.a, &p.b, &op[i]);
			conf_check(seen[i] == last, "swap %llu found %llu", (unsigned long long)out[i],
				   (unsigned long long)seen[i]);
			last = out[i];
		}
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
}

static const struct conf_case cases[] = {
	{"send-after-send", FAULT, send_after_send},
	{"write-and-read", FAULT, write_and_read},
	{"write-largest", FAULT, write_large},
	{"atomics", FAULT, atomics},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

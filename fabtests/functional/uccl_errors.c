/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What goes wrong ends in the error that the manual names, touches nothing, and the endpoint works afterwards. */
#include "conf.h"

#include <string.h>

#define LEN 4096

static uint8_t mem[3 * LEN], buf[64 * LEN];

static void open_pair(struct conf_pair *p, struct fid_mr **mr, uint64_t access, uint64_t *base)
{
	conf_pair_open(p, NULL);
	memset(mem, 0xee, sizeof(mem));
	*mr = conf_region(p, mem + LEN, LEN, access, base);
}

static void close_pair(struct conf_pair *p, struct fid_mr *mr)
{
	if (mr)
		conf_good(fi_close(&mr->fid), "fi_close region");
	for (uint32_t i = 0; i < sizeof(mem); i++)
		conf_check(mem[i] == 0xee, "byte %u was touched", i);
	conf_pair_talk(p, 100000, 1);
	conf_pair_close(p);
}

/* Small and large, which travel in different ways. */
static void truncated(void)
{
	static const size_t sizes[] = {65, 4096, 262144};
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	memset(mem, 0xee, sizeof(mem));
	for (unsigned int i = 0; i < 3; i++) {
		struct conf_op send = {0}, recv = {0};

		conf_post(&p.b, &p.a, fi_recv(p.b.ep, mem, 64, NULL, FI_ADDR_UNSPEC, &recv));
		conf_post(&p.a, &p.b, fi_send(p.a.ep, buf, sizes[i], NULL, p.to_b, &send));
		conf_wait(&p.b, &p.a, &recv);
		conf_wait(&p.a, &p.b, &send);
		conf_check(recv.err == FI_ETRUNC, "the receive ended with: %s", fi_strerror(recv.err));
		conf_check(recv.len == 64 && recv.olen == sizes[i] - 64, "%zu bytes, %zu too many", recv.len,
			   recv.olen);
		conf_check(mem[64] == 0xee, "bytes behind the buffer were touched");
	}
	memset(mem, 0xee, 64);
	close_pair(&p, NULL);
}

static void write_expect(struct conf_pair *p, uint64_t addr, size_t len, uint64_t key, int err)
{
	struct conf_op op = {0};

	conf_post(&p->a, &p->b, fi_write(p->a.ep, buf, len, NULL, p->to_b, addr, key, &op));
	conf_wait(&p->a, &p->b, &op);
	conf_check(op.err == err, "the write ended with: %s", fi_strerror(op.err));
}

static void read_expect(struct conf_pair *p, uint64_t addr, size_t len, uint64_t key, int err)
{
	struct conf_op op = {0};

	conf_post(&p->a, &p->b, fi_read(p->a.ep, buf, len, NULL, p->to_b, addr, key, &op));
	conf_wait(&p->a, &p->b, &op);
	conf_check(op.err == err, "the read ended with: %s", fi_strerror(op.err));
}

static void bad_key(void)
{
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	open_pair(&p, &mr, FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	write_expect(&p, base, 8, fi_mr_key(mr) ^ 0x10000, FI_EKEYREJECTED);
	read_expect(&p, base, 8, fi_mr_key(mr) ^ 0x10000, FI_EKEYREJECTED);
	close_pair(&p, mr);
}

static void out_of_bounds(void)
{
	static const struct {
		int64_t at;
		size_t len;
	} bad[] = {{LEN, 8}, {LEN - 4, 8}, {0, LEN + 1}, {-4, 8}, {INT64_MAX, 8}, {0, sizeof(buf)}};
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	open_pair(&p, &mr, FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		write_expect(&p, base + (uint64_t)bad[i].at, bad[i].len, fi_mr_key(mr), FI_EACCES);
		read_expect(&p, base + (uint64_t)bad[i].at, bad[i].len, fi_mr_key(mr), FI_EACCES);
	}
	close_pair(&p, mr);
}

static void no_access(void)
{
	uint64_t base, operand = 1;
	struct conf_op op = {0};
	struct conf_pair p;
	struct fid_mr *mr;

	open_pair(&p, &mr, FI_REMOTE_READ, &base);
	write_expect(&p, base, 8, fi_mr_key(mr), FI_EACCES);
	conf_post(&p.a, &p.b,
		  fi_atomic(p.a.ep, &operand, 1, NULL, p.to_b, base, fi_mr_key(mr), FI_UINT64, FI_SUM, &op));
	conf_wait(&p.a, &p.b, &op);
	conf_check(op.err == FI_EACCES, "the atomic ended with: %s", fi_strerror(op.err));
	read_expect(&p, base, 8, fi_mr_key(mr), 0);
	close_pair(&p, mr);
}

static void closed_region(void)
{
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base, key;

	open_pair(&p, &mr, FI_REMOTE_READ | FI_REMOTE_WRITE, &base);
	key = fi_mr_key(mr);
	read_expect(&p, base, 8, key, 0);
	conf_good(fi_close(&mr->fid), "fi_close region");
	write_expect(&p, base, 8, key, FI_EKEYREJECTED);
	close_pair(&p, NULL);
}

/* An address that nobody was inserted for. */
static void unknown_address(void)
{
	struct conf_pair p;
	struct conf_op op = {0};
	ssize_t rc;

	conf_pair_open(&p, NULL);
	memset(mem, 0xee, sizeof(mem));
	rc = fi_send(p.a.ep, buf, 8, NULL, p.to_b + 1000, &op);
	conf_check(rc < 0 && rc != -FI_EAGAIN, "a send to nobody returned %zd", rc);
	close_pair(&p, NULL);
}

/* An endpoint that is closed before anybody talked to it. */
static void gone_address(void)
{
	struct conf_op op = {0};
	struct conf_pair p;
	struct conf_ep c;
	fi_addr_t to_c;

	conf_pair_open(&p, NULL);
	memset(mem, 0xee, sizeof(mem));
	conf_ep_open(&c, &p.net);
	to_c = conf_insert(&p.a, c.name);
	conf_ep_close(&c);
	conf_post(&p.a, &p.b, fi_send(p.a.ep, buf, 8, NULL, to_c, &op));
	conf_wait(&p.a, &p.b, &op);
	conf_check(op.err == FI_EHOSTUNREACH || op.err == FI_ECONNABORTED, "the send ended with: %s",
		   fi_strerror(op.err));
	close_pair(&p, NULL);
}

static void cancelled(void)
{
	struct conf_op one = {0}, other = {0}, send = {0};
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	memset(mem, 0xee, sizeof(mem));
	conf_post(&p.b, &p.a, fi_trecv(p.b.ep, mem, 8, NULL, FI_ADDR_UNSPEC, 7, 0, &one));
	conf_post(&p.b, &p.a, fi_trecv(p.b.ep, buf, 8, NULL, FI_ADDR_UNSPEC, 7, 0, &other));
	conf_good(fi_cancel(&p.b.ep->fid, &one), "fi_cancel");
	conf_wait(&p.b, &p.a, &one);
	conf_check(one.err == FI_ECANCELED, "the receive ended with: %s", fi_strerror(one.err));
	conf_post(&p.a, &p.b, fi_tsend(p.a.ep, buf + LEN, 8, NULL, p.to_b, 7, &send));
	conf_wait_good(&p.a, &p.b, &send);
	conf_wait_good(&p.b, &p.a, &other);
	close_pair(&p, NULL);
}

static void nothing_to_peek(void)
{
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = 9};
	struct conf_op op = {0};
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	memset(mem, 0xee, sizeof(mem));
	m.context = &op;
	conf_post(&p.b, &p.a, fi_trecvmsg(p.b.ep, &m, FI_PEEK | FI_COMPLETION));
	conf_wait(&p.b, &p.a, &op);
	conf_check(op.err == FI_ENOMSG, "the peek ended with: %s", fi_strerror(op.err));
	close_pair(&p, NULL);
}

static const struct conf_case cases[] = {
	{"truncated", NULL, truncated},
	{"bad-key", NULL, bad_key},
	{"out-of-bounds", NULL, out_of_bounds},
	{"no-access", NULL, no_access},
	{"closed-region", NULL, closed_region},
	{"unknown-address", NULL, unknown_address},
	{"gone-address", "FI_UCCL_PEER_TIMEOUT=connect=5", gone_address},
	{"cancelled", NULL, cancelled},
	{"nothing-to-peek", NULL, nothing_to_peek},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What fi_cancel takes back ends once, nothing of it lands later, and what is posted next goes on. */
#include "conf.h"

#include <string.h>

#define LEN (1u << 20)
#define ROUNDS (250 * conf_factor)
#define POISON 0x5e

static uint8_t src[LEN], dst[LEN];

static const size_t sizes[] = {1, 900, 5000, 20000, 65536, 100000, LEN};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static uint64_t taken, complete, random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % n;
}

static void some_rounds(struct conf_pair *p)
{
	for (uint32_t n = random_below(4) ? random_below(8) : random_below(300); n; n--) {
		conf_poll(&p->a);
		conf_poll(&p->b);
	}
}

/* Take it back; it ends once, with success or FI_ECANCELED. */
static bool took_back(struct conf_pair *p, struct conf_op *op)
{
	ssize_t rc;

	conf_poll(&p->a);
	rc = fi_cancel(&p->a.ep->fid, op);
	conf_check(!rc || rc == -FI_ENOENT, "fi_cancel: %s", fi_strerror((int)-rc));
	conf_wait(&p->a, &p->b, op);
	conf_check(!op->err || op->err == FI_ECANCELED, "it ended with: %s", fi_strerror(op->err));
	taken += op->err != 0;
	complete += !op->err;
	return op->err;
}

static void poisoned(const char *what, size_t len)
{
	for (size_t i = 0; i < len; i++)
		conf_check(dst[i] == POISON, "%s: byte %zu was written later", what, i);
}

/* Both happened: else nothing was tried. */
static void both(void)
{
	conf_check(taken > ROUNDS / 50 && complete, "%llu taken back, %llu complete", (unsigned long long)taken,
		   (unsigned long long)complete);
}

static void sends(void)
{
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	conf_pair_talk(&p, 1000, 1);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct conf_op send = {0}, recv = {0};
		size_t len = sizes[i % SIZES];
		bool posted = random_below(2);

		conf_fill(src, len, i);
		memset(dst, POISON, len);
		if (posted)
			conf_post(&p.b, &p.a, fi_trecv(p.b.ep, dst, LEN, NULL, FI_ADDR_UNSPEC, i, 0, &recv));
		conf_post(&p.a, &p.b, fi_tsend(p.a.ep, src, len, NULL, p.to_b, i, &send));
		some_rounds(&p);
		if (took_back(&p, &send)) {
			conf_poll(&p.b);
			conf_check(!recv.done || recv.err == FI_ECANCELED, "the receive ended with: %s",
				   fi_strerror(recv.err));
			/* Both sides may use their buffers again. */
			memset(src, 0xee, len);
			memset(dst, POISON, len);
			if (posted && !recv.done) {
				conf_good(fi_cancel(&p.b.ep->fid, &recv), "fi_cancel of a receive");
				conf_wait(&p.b, &p.a, &recv);
			}
			some_rounds(&p);
			poisoned("send", len);
			continue;
		}
		if (!posted)
			conf_post(&p.b, &p.a, fi_trecv(p.b.ep, dst, LEN, NULL, FI_ADDR_UNSPEC, i, 0, &recv));
		conf_wait_good(&p.b, &p.a, &recv);
		conf_check(recv.len == len && conf_same(dst, len, i), "message %u is wrong", i);
	}
	conf_pair_talk(&p, 100000, 2);
	conf_pair_close(&p);
	both();
}

static void remote_memory(void)
{
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	conf_pair_open(&p, NULL);
	mr = conf_region(&p, dst, sizeof(dst), FI_REMOTE_WRITE | FI_REMOTE_READ, &base);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		size_t len = sizes[i % SIZES];
		struct conf_op op = {0};
		bool back;

		if (i & 1) {
			conf_fill(src, len, i);
			conf_post(&p.a, &p.b, fi_write(p.a.ep, src, len, NULL, p.to_b, base, fi_mr_key(mr), &op));
		} else {
			conf_fill(dst, len, i);
			conf_post(&p.a, &p.b, fi_read(p.a.ep, src, len, NULL, p.to_b, base, fi_mr_key(mr), &op));
		}
		some_rounds(&p);
		back = took_back(&p, &op);
		conf_check(back || conf_same(i & 1 ? dst : src, len, i), "operation %u is wrong", i);
		memset(dst, POISON, len);
		memset(src, POISON, len);
		some_rounds(&p);
		poisoned("write", len);
		conf_check(!memcmp(src, dst, len), "read: it was written later");
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
	both();
}

/* Each addition is made once, or not and said so. */
static void atomics(void)
{
	uint64_t value = 0, was, one = 1, made = 0;
	struct conf_pair p;
	struct fid_mr *mr;
	uint64_t base;

	conf_pair_open(&p, NULL);
	mr = conf_region(&p, &value, sizeof(value), FI_REMOTE_WRITE | FI_REMOTE_READ, &base);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct conf_op op = {0};

		conf_post(&p.a, &p.b,
			  fi_fetch_atomic(p.a.ep, &one, 1, NULL, &was, NULL, p.to_b, base, fi_mr_key(mr), FI_UINT64,
					  FI_SUM, &op));
		for (uint32_t n = random_below(4); n; n--)
			conf_poll(i & 1 ? &p.a : &p.b);
		if (!took_back(&p, &op))
			conf_check(was == made++, "the atomic found %llu", (unsigned long long)was);
		conf_check(value == made, "%llu additions of 1 made %llu", (unsigned long long)made,
			   (unsigned long long)value);
	}
	conf_good(fi_close(&mr->fid), "fi_close region");
	conf_pair_close(&p);
	conf_check(complete, "none was made");
}

#define SMALL "FI_UCCL_MTU=1450"

static const struct conf_case cases[] = {
	{"sends", NULL, sends},
	{"sends-drop-1", SMALL " FI_UCCL_FAULT=drop=0.01", sends},
	{"sends-drop-5", SMALL " FI_UCCL_FAULT=drop=0.05", sends},
	{"sends-lanes", "FI_UCCL_LANES=2", sends},
	{"sends-lanes-drop-5", SMALL " FI_UCCL_LANES=2 FI_UCCL_FAULT=drop=0.05", sends},
	{"rma", NULL, remote_memory},
	{"rma-drop-5", SMALL " FI_UCCL_FAULT=drop=0.05", remote_memory},
	{"rma-lanes", "FI_UCCL_LANES=2", remote_memory},
	{"atomics", NULL, atomics},
	{"atomics-drop-5", "FI_UCCL_FAULT=drop=0.05", atomics},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

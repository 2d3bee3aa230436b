/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"
#include "../../tests.h"

static char buf[4096];

WORLD_TEST(reg__keys, world, w)
{
	struct fid_mr *a, *b, *c;

	assert_int_equal(fi_mr_reg(w->domain, buf, sizeof(buf), FI_REMOTE_WRITE, 0, 0x1122334455667788, 0, &a, NULL),
			 0);
	assert_true(fi_mr_key(a) == 0x1122334455667788);
	assert_non_null(fi_mr_desc(a));
	/* one key, one region that peers reach; local ones do not count */
	assert_int_equal(fi_mr_reg(w->domain, buf, 8, FI_REMOTE_READ, 0, 0x1122334455667788, 0, &b, NULL), -FI_ENOKEY);
	assert_int_equal(fi_mr_reg(w->domain, buf, 8, FI_SEND | FI_RECV, 0, 0x1122334455667788, 0, &b, NULL), 0);
	assert_int_equal(fi_mr_reg(w->domain, buf, 8, FI_SEND | FI_RECV, 0, 0x1122334455667788, 0, &c, NULL), 0);
	assert_int_equal(fi_close(&w->domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&a->fid), 0);
	assert_int_equal(fi_mr_reg(w->domain, buf, 8, FI_REMOTE_READ, 0, 0x1122334455667788, 0, &a, NULL), 0);
	world_closes(&b->fid, &a->fid, &c->fid);
}

TEST(reg__prov_key)
{
	struct fi_info *h = world_hints();
	struct fid_mr *a, *b;
	struct world w;

	h->domain_attr->mr_mode = FI_MR_BASIC;
	world_open_with(&w, h);
	assert_int_equal(fi_mr_reg(w.domain, buf, 8, FI_REMOTE_READ, 0, 5, 0, &a, NULL), 0);
	assert_int_equal(fi_mr_reg(w.domain, buf, 8, FI_REMOTE_READ, 0, 5, 0, &b, NULL), 0);
	assert_true(fi_mr_key(a) != fi_mr_key(b));
	world_closes(&a->fid, &b->fid);
	world_close(&w);
}

WORLD_TEST(regattr__forms, world, w)
{
	struct iovec iov[5] = { { buf, 8 }, { buf + 8, 8 }, { buf, 1 }, { buf, 1 }, { buf, 1 } };
	/* what lies behind the fields of 1.17 without FI_HMEM is not ours to judge */
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = 2, .access = FI_SEND, .requested_key = 9,
				   .iface = (enum fi_hmem_iface)77 };
	struct fid_mr *mr;

	assert_int_equal(fi_mr_regattr(w->domain, &attr, 0, &mr), 0);
	assert_int_equal(fi_mr_key(mr), 9);
	assert_int_equal(fi_mr_enable(mr), 0);
	assert_int_equal(fi_mr_refresh(mr, iov, 1, 0), 0);
	assert_int_equal(fi_mr_bind(mr, &w->domain->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_mr_regattr(w->domain, &attr, 1ull << 40, &mr), -FI_EOPNOTSUPP);
	assert_int_equal(fi_mr_regv(w->domain, iov, 4, FI_SEND, 0, 1, 0, &mr, NULL), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_mr_regv(w->domain, iov, 5, FI_SEND, 0, 1, 0, &mr, NULL), -FI_EINVAL);
	assert_int_equal(fi_mr_regv(w->domain, iov, 0, FI_SEND, 0, 1, 0, &mr, NULL), -FI_EINVAL);
}

TESTS_MAIN

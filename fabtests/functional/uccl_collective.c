/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Collectives of five endpoints, with and without a bad network: every kind, with every type and operation that the
 * provider says it has, against a serial reference that is computed here.
 */
#include "conf.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_collective.h>
#include <rdma/fi_eq.h>

#define MEMBERS 5
/* Collectives that a member may have begun and not ended. */
#define WINDOW 8
#define SIZE_MAX_ELEMENT 32
#define BAD_NET " FI_UCCL_FAULT=drop=0.05,dup=0.05,reorder=0.1,jitter_us=100"

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

/* FI_INT128 and FI_UINT128 have these numbers; libfabric's headers before 2.0 call one of them FI_VOID. */
enum { INT128 = 14, UINT128 = 15, TYPES = 16, OPS = FI_BXOR + 1 };

/* A number of any type: the numbers that are used here are whole. */
struct number {
	wide re, im;
};

/* Integers wrap. */
#define CODE_SCALAR(T)                                                                                                 \
	if (store) {                                                                                                   \
		T v = (T)x->re;                                                                                        \
		memcpy(at, &v, sizeof(v));                                                                             \
	} else {                                                                                                       \
		T v;                                                                                                   \
		memcpy(&v, at, sizeof(v));                                                                             \
		*x = (struct number){.re = (wide)v};                                                                   \
	}                                                                                                              \
	return sizeof(T)
#define CODE_COMPLEX(T)                                                                                                \
	if (store) {                                                                                                   \
		T v[2] = {(T)x->re, (T)x->im};                                                                         \
		memcpy(at, v, sizeof(v));                                                                              \
	} else {                                                                                                       \
		T v[2];                                                                                                \
		memcpy(v, at, sizeof(v));                                                                              \
		*x = (struct number){.re = (wide)v[0], .im = (wide)v[1]};                                              \
	}                                                                                                              \
	return 2 * sizeof(T)

/* Read or write an element; how many bytes it has. */
static size_t code(int type, uint8_t *at, struct number *x, bool store)
{
	switch (type) {
	case FI_INT8:
		CODE_SCALAR(int8_t);
	case FI_UINT8:
		CODE_SCALAR(uint8_t);
	case FI_INT16:
		CODE_SCALAR(int16_t);
	case FI_UINT16:
		CODE_SCALAR(uint16_t);
	case FI_INT32:
		CODE_SCALAR(int32_t);
	case FI_UINT32:
		CODE_SCALAR(uint32_t);
	case FI_INT64:
		CODE_SCALAR(int64_t);
	case FI_UINT64:
		CODE_SCALAR(uint64_t);
	case INT128:
		CODE_SCALAR(wide);
	case UINT128:
		CODE_SCALAR(uwide);
	case FI_FLOAT:
		CODE_SCALAR(float);
	case FI_DOUBLE:
		CODE_SCALAR(double);
	case FI_LONG_DOUBLE:
		CODE_SCALAR(long double);
	case FI_FLOAT_COMPLEX:
		CODE_COMPLEX(float);
	case FI_DOUBLE_COMPLEX:
		CODE_COMPLEX(double);
	case FI_LONG_DOUBLE_COMPLEX:
		CODE_COMPLEX(long double);
	default:
		conf_fail("type %d is not known", type);
	}
}

static bool is_complex(int type)
{
	return type == FI_FLOAT_COMPLEX || type == FI_DOUBLE_COMPLEX || type == FI_LONG_DOUBLE_COMPLEX;
}

static bool is_real(int type)
{
	return type == FI_FLOAT || type == FI_DOUBLE || type == FI_LONG_DOUBLE;
}

/* What libfabric's manual says of atomic operations: bits are of integers, an order is not of complex numbers. */
static bool has_op(int type, int op)
{
	if (op == FI_BOR || op == FI_BAND || op == FI_BXOR)
		return !is_complex(type) && !is_real(type);
	return !is_complex(type) || (op != FI_MIN && op != FI_MAX);
}

static bool less(int type, wide a, wide b)
{
	return type == UINT128 ? (uwide)a < (uwide)b : a < b;
}

static struct number apply(int type, int op, struct number a, struct number b)
{
	bool ta = a.re || a.im, tb = b.re || b.im;
	struct number r = {0};

	switch (op) {
	case FI_MIN:
		return less(type, b.re, a.re) ? b : a;
	case FI_MAX:
		return less(type, a.re, b.re) ? b : a;
	case FI_SUM:
		r.re = (wide)((uwide)a.re + (uwide)b.re);
		r.im = a.im + b.im;
		return r;
	case FI_PROD:
		r.re = (wide)((uwide)a.re * (uwide)b.re - (uwide)a.im * (uwide)b.im);
		r.im = (wide)((uwide)a.re * (uwide)b.im + (uwide)a.im * (uwide)b.re);
		return r;
	case FI_LOR:
		r.re = ta || tb;
		return r;
	case FI_LAND:
		r.re = ta && tb;
		return r;
	case FI_LXOR:
		r.re = ta != tb;
		return r;
	case FI_BOR:
		r.re = a.re | b.re;
		return r;
	case FI_BAND:
		r.re = a.re & b.re;
		return r;
	case FI_BXOR:
		r.re = a.re ^ b.re;
		return r;
	default:
		conf_fail("operation %d is not known", op);
	}
}

static uint64_t state = 1;

static uint64_t random64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}

/* Any integer, zero often; of other types small ones, as their sums and products are then exact in any order. */
static void element(int type, uint8_t *at)
{
	struct number x = {0};

	if (is_real(type) || is_complex(type)) {
		x.re = (wide)(random64() % 7) - 3;
		x.im = is_complex(type) ? (wide)(random64() % 7) - 3 : 0;
	} else if (random64() % 4) {
		x.re = (wide)((uwide)random64() << 64 | random64());
	}
	code(type, at, &x, true);
}

/* x = x op y, for n elements. */
static void combine(int type, int op, uint8_t *x, uint8_t *y, size_t n)
{
	while (n--) {
		struct number a, b;
		size_t size = code(type, x, &a, false);

		code(type, y, &b, false);
		a = apply(type, op, a, b);
		code(type, x, &a, true);
		x += size;
		y += size;
	}
}

/* long double has bytes that mean nothing, so elements are compared by value. */
static bool equal(int type, uint8_t *x, uint8_t *y, size_t n)
{
	while (n--) {
		struct number a, b;
		size_t size = code(type, x, &a, false);

		code(type, y, &b, false);
		if (a.re != b.re || a.im != b.im)
			return false;
		x += size;
		y += size;
	}
	return true;
}

struct member {
	struct conf_ep e;
	struct fid_eq *eq;
	struct fid_av_set *set;
	struct fid_mc *mc;
	fi_addr_t addr[MEMBERS];
	uint64_t begun;
};

/* A collective: its arguments at every member, and what must come out. */
struct job {
	enum fi_collective_op kind;
	int type, op, root;
	size_t count, in_parts, out_parts; /* elements of a part, parts of a member's buffers */
	uint8_t *in[MEMBERS], *out[MEMBERS], *want[MEMBERS];
	struct conf_op done[MEMBERS];
};

static struct conf_net net;
static struct member members[MEMBERS];
static struct job jobs[WINDOW];
static uint64_t made; /* jobs */

static void member_open(struct member *m)
{
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = net.cq_size};
	struct conf_ep *e = &m->e;

	conf_good(fi_av_open(net.domain, &av, &e->av, NULL), "fi_av_open");
	conf_good(fi_cq_open(net.domain, &cq, &e->cq, NULL), "fi_cq_open");
	conf_good(fi_eq_open(net.fabric, &eq, &m->eq, NULL), "fi_eq_open");
	conf_good(fi_endpoint(net.domain, net.info, &e->ep, NULL), "fi_endpoint");
	conf_good(fi_ep_bind(e->ep, &e->av->fid, 0), "fi_ep_bind av");
	conf_good(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind cq");
	conf_good(fi_ep_bind(e->ep, &m->eq->fid, 0), "fi_ep_bind eq");
	conf_good(fi_enable(e->ep), "fi_enable");
	e->name_len = sizeof(e->name);
	conf_good(fi_getname(&e->ep->fid, e->name, &e->name_len), "fi_getname");
}

static void drive(void)
{
	bool idle = true;

	for (int r = 0; r < MEMBERS; r++)
		idle &= !conf_poll(&members[r].e);
	if (idle)
		sched_yield();
}

static void member_join(struct member *m)
{
	fi_addr_t all;

	conf_good(fi_av_set_addr(m->set, &all), "fi_av_set_addr");
	conf_good(fi_join_collective(m->e.ep, all, m->set, 0, &m->mc, m), "fi_join_collective");
}

static void member_joined(struct member *m)
{
	struct fi_eq_entry e;
	uint32_t event = 0;
	ssize_t rc;

	while ((rc = fi_eq_read(m->eq, &event, &e, sizeof(e), 0)) == -FI_EAGAIN)
		drive();
	conf_check(rc == sizeof(e) && event == FI_JOIN_COMPLETE && e.fid == &m->mc->fid, "a join brought event %u: %zd",
		   event, rc);
}

static void group_open(void)
{
	struct fi_av_set_attr attr = {.count = MEMBERS, .end_addr = MEMBERS - 1, .stride = 1};
	struct fi_info *hints = conf_hints();

	hints->caps = FI_MSG | FI_COLLECTIVE;
	hints->tx_attr->op_flags = 0;
	hints->domain_attr->mr_mode = 0;
	conf_net_open(&net, hints);
	for (int r = 0; r < MEMBERS; r++)
		member_open(&members[r]);
	for (int r = 0; r < MEMBERS; r++) {
		for (int s = 0; s < MEMBERS; s++)
			members[r].addr[s] = conf_insert(&members[r].e, members[s].e.name);
		conf_good(fi_av_set(members[r].e.av, &attr, &members[r].set, NULL), "fi_av_set");
	}
	for (int r = 0; r < MEMBERS; r++)
		member_join(&members[r]);
	for (int r = 0; r < MEMBERS; r++)
		member_joined(&members[r]);
}

static void group_close(void)
{
	for (int r = 0; r < MEMBERS; r++) {
		conf_good(fi_close(&members[r].mc->fid), "fi_close group");
		conf_good(fi_close(&members[r].set->fid), "fi_close set");
		conf_good(fi_close(&members[r].e.ep->fid), "fi_close endpoint");
		conf_good(fi_close(&members[r].eq->fid), "fi_close eq");
		conf_good(fi_close(&members[r].e.cq->fid), "fi_close cq");
		conf_good(fi_close(&members[r].e.av->fid), "fi_close av");
	}
	conf_net_close(&net);
}

/* Parts in the buffers of each member, 0: it has none. */
static void job_shape(struct job *j)
{
	bool many_in = j->kind == FI_ALLTOALL || j->kind == FI_SCATTER || j->kind == FI_REDUCE_SCATTER;
	bool many_out = j->kind == FI_ALLTOALL || j->kind == FI_ALLGATHER || j->kind == FI_GATHER;

	j->in_parts = j->kind == FI_BARRIER || j->kind == FI_BROADCAST ? 0 : many_in ? MEMBERS : 1;
	j->out_parts = j->kind == FI_BARRIER ? 0 : many_out ? MEMBERS : 1;
}

static bool only_at_root(enum fi_collective_op kind)
{
	return kind == FI_REDUCE || kind == FI_GATHER;
}

/* The serial reference. */
static void job_reference(struct job *j)
{
	size_t part = j->count * code(j->type, (uint8_t[SIZE_MAX_ELEMENT]){0}, &(struct number){0}, true);

	for (int r = 0; r < MEMBERS; r++) {
		uint8_t *want = j->want[r];

		if (only_at_root(j->kind) && r != j->root) {
			memcpy(want, j->out[r], j->out_parts * part);
			continue;
		}
		for (int s = 0; s < MEMBERS; s++) {
			switch (j->kind) {
			case FI_BROADCAST:
				memcpy(want, j->out[j->root], part);
				break;
			case FI_ALLTOALL:
				memcpy(want + (size_t)s * part, j->in[s] + (size_t)r * part, part);
				break;
			case FI_ALLGATHER:
			case FI_GATHER:
				memcpy(want + (size_t)s * part, j->in[s], part);
				break;
			case FI_SCATTER:
				memcpy(want, j->in[j->root] + (size_t)r * part, part);
				break;
			case FI_ALLREDUCE:
			case FI_REDUCE:
			case FI_REDUCE_SCATTER: {
				uint8_t *from = j->in[s] + (j->kind == FI_REDUCE_SCATTER ? (size_t)r * part : 0);

				if (s)
					combine(j->type, j->op, want, from, j->count);
				else
					memcpy(want, from, part);
				break;
			}
			default:
				break;
			}
		}
	}
}

static uint8_t *elements(int type, size_t n)
{
	uint8_t *v = calloc(n + 1, SIZE_MAX_ELEMENT), *at = v;

	conf_check(v, "no memory");
	for (size_t i = 0; i < n; i++) {
		element(type, at);
		at += code(type, at, &(struct number){0}, false);
	}
	return v;
}

static void job_make(struct job *j, enum fi_collective_op kind, int type, int op, size_t count)
{
	memset(j, 0, sizeof(*j));
	j->kind = kind;
	j->type = type;
	j->op = op;
	j->count = kind == FI_BARRIER ? 0 : count;
	j->root = (int)(random64() % MEMBERS);
	job_shape(j);
	for (int r = 0; r < MEMBERS; r++) {
		j->in[r] = elements(type, j->in_parts * j->count);
		/* What is not to be written must stay. */
		j->out[r] = elements(type, j->out_parts * j->count);
		j->want[r] = elements(type, j->out_parts * j->count);
	}
	job_reference(j);
}

static void job_end(struct job *j)
{
	for (int r = 0; r < MEMBERS; r++) {
		while (!j->done[r].done)
			drive();
		conf_check(!j->done[r].err, "collective %d failed at member %d: %s", (int)j->kind, r,
			   fi_strerror(j->done[r].err));
		conf_check(j->done[r].flags & FI_COLLECTIVE, "a completion without FI_COLLECTIVE");
		conf_check(equal(j->type, j->out[r], j->want[r], j->out_parts * j->count),
			   "collective %d, type %d, operation %d, %zu elements, root %d: wrong at member %d",
			   (int)j->kind, j->type, j->op, j->count, j->root, r);
		free(j->in[r]);
		free(j->out[r]);
		free(j->want[r]);
	}
}

static ssize_t begin(struct member *m, int r, struct job *j)
{
	fi_addr_t g = fi_mc_addr(m->mc), root = m->addr[j->root];
	void *in = j->in[r], *out = j->out[r];
	enum fi_datatype type = (enum fi_datatype)j->type;
	struct conf_op *done = &j->done[r];
	enum fi_op op = (enum fi_op)j->op;
	struct fid_ep *ep = m->e.ep;
	size_t n = j->count;

	switch (j->kind) {
	case FI_BARRIER:
		return fi_barrier(ep, g, done);
	case FI_BROADCAST:
		return fi_broadcast(ep, out, n, NULL, g, root, type, 0, done);
	case FI_ALLTOALL:
		return fi_alltoall(ep, in, n, NULL, out, NULL, g, type, 0, done);
	case FI_ALLREDUCE:
		return fi_allreduce(ep, in, n, NULL, out, NULL, g, type, op, 0, done);
	case FI_ALLGATHER:
		return fi_allgather(ep, in, n, NULL, out, NULL, g, type, 0, done);
	case FI_REDUCE_SCATTER:
		return fi_reduce_scatter(ep, in, n, NULL, out, NULL, g, type, op, 0, done);
	case FI_REDUCE:
		return fi_reduce(ep, in, n, NULL, out, NULL, g, root, type, op, 0, done);
	case FI_SCATTER:
		return fi_scatter(ep, in, n, NULL, out, NULL, g, root, type, 0, done);
	case FI_GATHER:
		return fi_gather(ep, in, n, NULL, out, NULL, g, root, type, 0, done);
	default:
		conf_fail("collective %d is not known", (int)j->kind);
	}
}

/* Members begin the same collectives in the same order, but not at the same time. */
static void members_begin(bool all)
{
	bool behind;

	do {
		behind = false;
		for (int r = 0; r < MEMBERS; r++) {
			struct member *m = &members[r];

			if (m->begun < made && random64() % 2) {
				ssize_t rc = begin(m, r, &jobs[m->begun % WINDOW]);

				conf_check(!rc || rc == -FI_EAGAIN, "a collective cannot begin: %s",
					   fi_strerror((int)-rc));
				m->begun += !rc;
			}
			behind |= m->begun < made;
			conf_poll(&members[random64() % MEMBERS].e);
		}
	} while (all && behind);
}

static void add(enum fi_collective_op kind, int type, int op, size_t count)
{
	struct job *j = &jobs[made % WINDOW];

	if (made >= WINDOW) {
		members_begin(true);
		job_end(j);
	}
	job_make(j, kind, type, op, count);
	made++;
	members_begin(false);
}

static void finish(void)
{
	members_begin(true);
	for (uint64_t i = made < WINDOW ? 0 : made - WINDOW; i < made; i++)
		job_end(&jobs[i % WINDOW]);
}

static bool offered(enum fi_collective_op kind, int type, int op)
{
	struct fi_collective_attr attr = {.op = (enum fi_op)op, .datatype = (enum fi_datatype)type};
	int rc = fi_query_collective(net.domain, kind, &attr, 0);

	conf_check(!rc || rc == -FI_EOPNOTSUPP, "fi_query_collective: %s", fi_strerror(-rc));
	conf_check(rc || kind == FI_BARRIER || attr.max_members >= MEMBERS, "only %zu members", attr.max_members);
	return !rc;
}

static bool reduces(enum fi_collective_op kind)
{
	return kind == FI_ALLREDUCE || kind == FI_REDUCE || kind == FI_REDUCE_SCATTER;
}

static const enum fi_collective_op kinds[] = {FI_BROADCAST, FI_ALLTOALL, FI_ALLREDUCE, FI_ALLGATHER, FI_REDUCE_SCATTER,
					      FI_REDUCE,    FI_SCATTER,  FI_GATHER};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* Each kind with each type and operation, and the network's faults in statistics if there are some. */
static void every(void)
{
	group_open();
	for (unsigned int i = 0; i < conf_factor; i++) {
		for (unsigned int k = 0; k < KINDS; k++) {
			for (int type = 0; type < TYPES; type++) {
				for (int op = 0; op < OPS && reduces(kinds[k]); op++) {
					conf_check(offered(kinds[k], type, op) == has_op(type, op),
						   "collective %d, type %d, operation %d: there, or not", (int)kinds[k],
						   type, op);
					if (has_op(type, op))
						add(kinds[k], type, op, 1 + random64() % 40);
				}
				if (reduces(kinds[k]))
					continue;
				conf_check(offered(kinds[k], type, FI_NOOP), "collective %d has no type %d",
					   (int)kinds[k], type);
				add(kinds[k], type, FI_NOOP, 1 + random64() % 40);
			}
			add(FI_BARRIER, FI_UINT8, FI_NOOP, 0);
		}
	}
	finish();
	group_close();
}

/* From nothing to more than what goes without asking. */
static void sizes(void)
{
	static const size_t counts[] = {0, 1, 1000, 4000, 12000};
	static const int types[] = {FI_UINT8, FI_UINT64, FI_DOUBLE, FI_LONG_DOUBLE_COMPLEX};

	group_open();
	for (unsigned int i = 0; i < 8 * conf_factor; i++) {
		int type = types[i % 4];
		size_t count = counts[random64() % 5];

		for (unsigned int k = 0; k < KINDS; k++)
			add(kinds[k], type, reduces(kinds[k]) ? FI_SUM : FI_NOOP, count);
	}
	finish();
	group_close();
}

static void every_lost(void)
{
	every();
	conf_check(conf_counter("rtx_packets") > 0, "nothing was sent again");
}

static void sizes_lost(void)
{
	sizes();
	conf_check(conf_counter("rtx_packets") > 0, "nothing was sent again");
}

static const struct conf_case cases[] = {
	{"every-type-op", NULL, every},
	{"sizes", NULL, sizes},
	{"every-type-op-bad-net", CONF_STATS BAD_NET, every_lost},
	{"sizes-bad-net", CONF_STATS " FI_UCCL_MTU=1450" BAD_NET, sizes_lost},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

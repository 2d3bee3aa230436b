/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Bad settings, bad hints, bad addresses, calls out of order: a clear answer each, and never a crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "mesh.h"

/* ---- variables: the provider offers nothing, and says which variable and why */

void role_misuse_env(struct rank *r)
{
	struct fi_info *hints = fab_hints(), *info = NULL;
	int rc;

	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (!rc)
		fi_freeinfo(info);
	rank_tell(r, CTL_DONE, -rc, NULL, 0);
}

static const struct setting {
	const char *env, *text;
	bool works; /* the provider warns and goes on */
} settings[] = {
	{"FI_UCCL_CC=bogus", "FI_UCCL_CC=bogus is not valid (no such congestion control; there are: swift", false},
	{"FI_UCCL_PATH=", "FI_UCCL_PATH= is not valid", false},
	{"FI_UCCL_CREDIT=yes", "FI_UCCL_CREDIT=yes is not valid", false},
	{"FI_UCCL_BACKEND=verbs-xx", "FI_UCCL_BACKEND=verbs-xx is not valid (one of udp", false},
	{"FI_UCCL_PATHS=order=lifo", "FI_UCCL_PATHS=order=lifo is not valid (\"order=lifo\": one of any fifo", false},
	{"FI_UCCL_PATHS=8,oder=fifo",
	 "is not valid (\"oder=fifo\" sets no part of it; there are, as key=value: order", false},
	{"FI_UCCL_PATHS=0", "FI_UCCL_PATHS=0 is not valid (number, 1 to 256)", false},
	{"FI_UCCL_PATHS=257", "FI_UCCL_PATHS=257 is not valid", false},
	{"FI_UCCL_PATHS=-1", "FI_UCCL_PATHS=-1 is not valid", false},
	{"FI_UCCL_PATHS=sixteen", "FI_UCCL_PATHS=sixteen is not valid", false},
	{"FI_UCCL_TEST=chunk=99999999999999999999", "chunk=99999999999999999999\": bytes, 0 or 128 to", false},
	{"FI_UCCL_EAGER=16kk", "FI_UCCL_EAGER=16kk is not valid", false},
	{"FI_UCCL_EAGER= 16", "FI_UCCL_EAGER= 16 is not valid", false},
	{"FI_UCCL_TEST=inject=1g", "FI_UCCL_TEST=inject=1g is not valid", false},
	{"FI_UCCL_PATHS=window=63",
	 "FI_UCCL_PATHS=window=63 is not valid (\"window=63\": power of two, 64 to 16384)", false},
	{"FI_UCCL_PATHS=window=100", "is not valid (\"window=100\": power of two", false},
	{"FI_UCCL_UNEXPECTED=1", "FI_UCCL_UNEXPECTED=1 is not valid", false},
	{"FI_UCCL_PEER_TIMEOUT=never", "FI_UCCL_PEER_TIMEOUT=never is not valid (seconds, 0 to", false},
	{"FI_UCCL_PEER_TIMEOUT=connect=0",
	 "FI_UCCL_PEER_TIMEOUT=connect=0 is not valid (\"connect=0\": seconds, 1 to", false},
	{"FI_UCCL_PEER_TIMEOUT=keepalive_ms=1s", "is not valid (\"keepalive_ms=1s\": milliseconds, 0 to", false},
	{"FI_UCCL_LINGER=0x", "FI_UCCL_LINGER=0x is not valid", false},
	{"FI_UCCL_SECURITY=keyless=maybe",
	 "FI_UCCL_SECURITY=keyless=maybe is not valid (\"keyless=maybe\": 0, 1 or auto)", false},
	{"FI_UCCL_PEER_TIMEOUT=liveness=2",
	 "FI_UCCL_PEER_TIMEOUT=liveness=2 is not valid (\"liveness=2\": 0 or 1)", false},
	{"FI_UCCL_MTU=70000", "FI_UCCL_MTU=70000 is not valid", false},
	{"FI_UCCL_MTU=10", "FI_UCCL_MTU=10 is not valid (bytes, 0 or 512 to", false},
	{"FI_UCCL_BACKEND=udp,rcvbuf=2g", "FI_UCCL_BACKEND=udp,rcvbuf=2g is not valid", false},
	{"FI_UCCL_FAULT=drop", "FI_UCCL_FAULT=drop is not valid: want key=value", false},
	{"FI_UCCL_FAULT=drop=2", "FI_UCCL_FAULT=drop=2 is not valid: a probability must be", false},
	{"FI_UCCL_FAULT=drop=0.1,", "is not valid: nothing after the last comma", false},
	{"FI_UCCL_FAULT=explode=1", "is not valid: unknown key", false},
	{"FI_UCCL_FAULT=blackhole=3@5-1", "is not valid: blackhole: bad end time", false},
	{"FI_UCCL_NIC=nosuch0", "FI_UCCL_NIC: no interface nosuch0", false},
	{"FI_UCCL_STATS=/nonexistent/folder/x", NULL, true},
	{"FI_UCCL_VERBS=12", "FI_UCCL_VERBS=12 is not valid (key=value,key=value)", false},
	/* Names of earlier versions: read, told, and refused by the name that was used. */
	{"FI_UCCL_LIVE=0", "FI_UCCL_LIVE is an old name, which the next version will not know: write FI_UCCL_MONITOR=0",
	 true},
	{"FI_UCCL_CONNECT_TIMEOUT=5", "write FI_UCCL_PEER_TIMEOUT=connect=5", true},
	{"FI_UCCL_CONNECT_TIMEOUT=0", "FI_UCCL_CONNECT_TIMEOUT=0 is not valid (seconds, 1 to", false},
	{"FI_UCCL_KEYLESS=maybe", "FI_UCCL_KEYLESS=maybe is not valid (0, 1 or auto)", false},
	{"FI_UCCL_PAHTS=4", "FI_UCCL_PAHTS is not a variable of this provider", true},
};

static int env_case(const struct setting *s, unsigned int i)
{
	const char *env[] = {s->env, "FI_LOG_LEVEL=warn", "FI_LOG_PROV=uccl", NULL};
	struct ctl c = {0};
	char name[64];
	struct world w;

	snprintf(name, sizeof(name), "misuse-variable-%u", i);
	world_begin(&w, name);
	world_spawn(&w, "misuse-env", env, 20);
	world_expect(&w, 0, CTL_DONE, 20000, &c);
	world_wait(&w, 10000);
	world_check(&w, w.failed || (c.arg == 0) == s->works, "%s: fi_getinfo said %d", s->env, c.arg);
	world_check(&w, w.failed || !s->text || world_said(&w, 0, s->text), "%s: did not say \"%s\"", s->env, s->text);
	world_figure(&w, "%s", s->env);
	return world_end(&w);
}

/* A text of the greatest length and more, with formats in it. */
static int env_long(void)
{
	static const char *const names[] = {"FI_UCCL_FAULT", "FI_UCCL_NIC", "FI_UCCL_STATS", "FI_UCCL_CC",
					    "FI_UCCL_PATHS"};
	static char text[5][70000];
	const char *env[] = {NULL, "FI_LOG_LEVEL=warn", "FI_LOG_PROV=uccl", NULL};
	int failed = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct ctl c = {0};
		char name[64];
		struct world w;

		snprintf(text[i], sizeof(text[i]), "%s=", names[i]);
		for (size_t k = strlen(text[i]); k + 3 < sizeof(text[i]); k += 2)
			memcpy(text[i] + k, "%n", 3);
		env[0] = text[i];
		snprintf(name, sizeof(name), "misuse-long-%s", names[i]);
		world_begin(&w, name);
		world_spawn(&w, "misuse-env", env, 20);
		world_expect(&w, 0, CTL_DONE, 20000, &c);
		world_wait(&w, 10000);
		world_check(&w, w.failed || c.arg == FI_ENODATA, "fi_getinfo said %d", c.arg);
		world_check(&w, w.failed || world_said(&w, 0, names[i]), "the variable was not named");
		failed += world_end(&w);
	}
	return failed;
}

/* ---- hints */

static int ask(const struct fi_info *h, const char *node, const char *service, uint64_t flags)
{
	struct fi_info *info = NULL;
	int rc = fi_getinfo(FI_VERSION(1, 17), node, service, flags, h, &info);

	if (!rc)
		fi_freeinfo(info);
	return rc;
}

#define expect_none(text, change)                                                                                      \
	do {                                                                                                           \
		struct fi_info *h = fab_hints();                                                                       \
		int rc_;                                                                                               \
		change;                                                                                                \
		rc_ = ask(h, NULL, NULL, 0);                                                                           \
		rank_check(rc_ == -FI_ENODATA, "%s: fi_getinfo said %d", text, rc_);                                   \
		fi_freeinfo(h);                                                                                        \
		n++;                                                                                                   \
	} while (0)

void role_misuse_hints(struct rank *r)
{
	uint64_t n = 0, v[1];
	struct fi_info *h;

	expect_none("multicast", h->caps |= FI_MULTICAST);
	expect_none("device memory", h->caps |= FI_HMEM);
	expect_none("all capabilities", h->caps = ~0ull);
	expect_none("FI_EP_SOCK_STREAM", h->ep_attr->type = (enum fi_ep_type)4);
	expect_none("no such type", h->ep_attr->type = (enum fi_ep_type)77);
	expect_none("protocol", h->ep_attr->protocol = FI_PROTO_RXM);
	expect_none("long messages", h->ep_attr->max_msg_size = SIZE_MAX);
	expect_none("prefix", h->ep_attr->msg_prefix_size = 16);
	expect_none("many contexts", h->ep_attr->tx_ctx_cnt = 17);
	expect_none("contexts and directed receives", (h->caps |= FI_DIRECTED_RECV, h->ep_attr->rx_ctx_cnt = 2));
	expect_none("inject", h->tx_attr->inject_size = 1 << 20);
	expect_none("iov", h->tx_attr->iov_limit = 1000);
	expect_none("order", h->tx_attr->msg_order = ~0ull);
	expect_none("queue", h->rx_attr->size = SIZE_MAX);
	expect_none("op flags", h->tx_attr->op_flags = FI_MULTICAST);
	expect_none("threading", h->domain_attr->threading = (enum fi_threading)99);
	expect_none("progress", h->domain_attr->data_progress = (enum fi_progress)99);
	expect_none("av type", h->domain_attr->av_type = (enum fi_av_type)99);
	expect_none("key size", h->domain_attr->mr_key_size = 4096);
	expect_none("interface", h->domain_attr->name = strdup("nosuch0"));
	expect_none("fabric", h->fabric_attr->name = strdup("nosuch"));
	expect_none("format", h->addr_format = FI_SOCKADDR_IB);
	expect_none("address of no format", (h->src_addr = calloc(1, 3), h->src_addrlen = 3));
	expect_none("garbage address",
		    (h->addr_format = FI_SOCKADDR_IN, h->dest_addr = calloc(1, 16), h->dest_addrlen = 16));
	h = fab_hints();
	rank_check(ask(h, "no.such.host.invalid", "1", 0) == -FI_ENODATA, "a name that does not exist");
	rank_check(ask(h, "127.0.0.1", "no-such-service", 0) == -FI_ENODATA, "a service that does not exist");
	rank_check(ask(h, "127.0.0.1", "99999", FI_SOURCE) == -FI_ENODATA, "a port that does not exist");
	rank_check(ask(h, "192.0.2.1", "1", FI_SOURCE) == -FI_ENODATA, "an address of somebody else");
	rank_check(!ask(h, "127.0.0.1", NULL, FI_SOURCE), "good hints");
	fi_freeinfo(h);
	v[0] = n;
	rank_tell(r, CTL_DONE, 0, v, 1);
}

/* ---- addresses and calls */

static void reseal(uint8_t *name)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 52; i++)
		h = (h ^ name[i]) * 16777619u;
	for (int i = 0; i < 4; i++)
		name[52 + i] = (uint8_t)(h >> 8 * i);
}

static int insert(struct rank *r, const void *name, fi_addr_t *a)
{
	*a = 0;
	return fi_av_insert(r->fab.av, name, 1, a, 0, NULL);
}

/* Whatever it ends in, it must end. */
static int send_to(struct rank *r, fi_addr_t to, unsigned int ms)
{
	static uint8_t byte[64];
	static struct op op;
	ssize_t rc;

	op_begin(&op);
	rc = fi_tsend(r->fab.ep, byte, sizeof(byte), NULL, to, 3, &op);
	if (rc) {
		op.open = false;
		return (int)-rc;
	}
	rank_check(fab_finish(&r->fab, &op, ms), "a send to a bad address does not end");
	return op.err;
}

void role_misuse_address(struct rank *r)
{
	uint8_t name[FAB_NAME_MAX], many[8 * 56];
	uint64_t x = options.seed | 1, v[3] = {0};
	fi_addr_t a, list[8];
	struct op op = {0};
	uint8_t byte[8] = {0};
	size_t len;
	char text[128];
	int rc, errs[8];

	rank_join(r, NULL, 0);
	rank_check(r->fab.name_len == 56, "an address has %zu bytes", r->fab.name_len);
	/* Garbage: not one byte of 56 may be wrong. */
	for (int i = 0; i < 20000; i++) {
		for (int k = 0; k < 56; k++) {
			x = x * 6364136223846793005ull + 1442695040888963407ull;
			name[k] = (uint8_t)(x >> 56);
		}
		rc = insert(r, name, &a);
		rank_check(rc == 0 && a == FI_ADDR_NOTAVAIL, "garbage was inserted");
		v[0]++;
	}
	for (int k = 0; k < 56; k++) {
		memcpy(name, r->fab.name, 56);
		name[k] ^= 1u << (k % 8);
		rank_check(insert(r, name, &a) == 0 && a == FI_ADDR_NOTAVAIL, "a changed byte %d was not noticed", k);
		len = sizeof(text);
		fi_av_straddr(r->fab.av, name, text, &len);
		v[0]++;
	}
	/* One bad among good ones, with errors told one by one. */
	for (int i = 0; i < 8; i++)
		memcpy(many + 56 * i, r->fab.name, 56);
	many[56 * 3 + 20] ^= 1;
	rc = fi_av_insert(r->fab.av, many, 8, list, FI_SYNC_ERR, errs);
	rank_check(rc == 7 && list[3] == FI_ADDR_NOTAVAIL && errs[3] == FI_EINVAL && !errs[4], "one of eight: %d", rc);
	/* Sealed, and of nobody: nobody's port, nobody's host, port 0, all ones, another incarnation of ourselves. */
	memcpy(name, r->fab.name, 56);
	name[6] = 1, name[7] = 0;
	reseal(name);
	rank_check(insert(r, name, &a) == 1, "port 1");
	rc = send_to(r, a, 20000);
	rank_check(rc == FI_EHOSTUNREACH || rc == FI_ECONNREFUSED, "a port without listener: %s", fi_strerror(rc));
	v[1]++;
	memset(name + 6, 0, 2);
	reseal(name);
	rank_check(insert(r, name, &a) == 0, "port 0 was inserted");
	memcpy(name, r->fab.name, 56);
	name[30] ^= 0x55;
	reseal(name);
	rank_check(insert(r, name, &a) == 1, "another incarnation");
	rc = send_to(r, a, 20000);
	rank_check(rc == FI_ECONNRESET || rc == FI_ECONNABORTED || rc == FI_EHOSTUNREACH || rc == FI_ECONNREFUSED,
		   "another incarnation: %s", rc ? fi_strerror(rc) : "went well");
	v[1]++;
	memcpy(name, r->fab.name, 56);
	memset(name + 8, 0xff, 16);
	reseal(name);
	if (insert(r, name, &a) == 1) {
		rc = send_to(r, a, 60000);
		rank_check(rc, "sending to everybody went well");
		v[1]++;
	}
	memcpy(name, r->fab.name, 56);
	memset(name + 8, 0, 16);
	reseal(name);
	if (insert(r, name, &a) == 1) {
		rc = send_to(r, a, 60000);
		rank_check(rc, "sending to the wildcard went well");
		v[1]++;
	}
	/* Handles that are none. */
	rank_check(send_to(r, 12345678, 1000) == FI_EINVAL, "no such handle");
	rank_check(send_to(r, FI_ADDR_UNSPEC, 1000) == FI_EINVAL, "FI_ADDR_UNSPEC as destination");
	a = 999;
	rank_check(fi_av_remove(r->fab.av, &a, 1, 0) == -FI_EINVAL, "removing no handle");
	len = sizeof(name);
	rank_check(fi_av_lookup(r->fab.av, 999, name, &len) == -FI_EINVAL, "looking up no handle");
	/* Calls. */
	rank_check(fi_inject(r->fab.ep, many, (size_t)1 << 30, list[0]) == -FI_EMSGSIZE, "an inject of 1 GiB");
	rank_check(fi_tsend(r->fab.ep, byte, SIZE_MAX, NULL, list[0], 0, &op) == -FI_EMSGSIZE, "a send of 2^64 bytes");
	rank_check(fi_cancel(&r->fab.ep->fid, &op) != 0, "cancelling nothing");
	rank_check(fi_close(&r->fab.domain->fid) == -FI_EBUSY, "closing a domain in use");
	rank_check(fi_close(&r->fab.cq->fid) == -FI_EBUSY, "closing a completion queue in use");
	rank_check(fi_enable(r->fab.ep) < 0, "enabling twice");
	rank_check(fi_ep_bind(r->fab.ep, &r->fab.av->fid, 0) < 0, "binding after enabling");
	rank_check(fi_setname(&r->fab.ep->fid, name, 3) < 0, "a name of 3 bytes");
	len = 3;
	rank_check(fi_getname(&r->fab.ep->fid, name, &len) == -FI_ETOOSMALL && len == 56, "3 bytes of room for a name");
	/* After all that it still works: a message to ourselves. */
	op_begin(&op);
	rank_check(!fi_trecv(r->fab.ep, byte, sizeof(byte), NULL, FI_ADDR_UNSPEC, 77, 0, &op), "fi_trecv");
	rank_check(!fi_tinject(r->fab.ep, "12345678", 8, list[0], 77), "fi_tinject");
	rank_check(fab_finish(&r->fab, &op, 10000) && !op.err && !memcmp(byte, "12345678", 8),
		   "a message to ourselves");
	v[2] = fab_close(&r->fab) / 1000000;
	rank_tell(r, CTL_DONE, 0, v, 3);
}

static int simple(const char *name, const char *role, const char *const *env)
{
	struct ctl c = {0};
	struct world w;

	world_begin(&w, name);
	world_spawn(&w, role, env, 200);
	if (!strcmp(role, "misuse-address"))
		world_expect(&w, 0, CTL_ADDR, 20000, NULL);
	world_expect(&w, 0, CTL_DONE, 180000, &c);
	world_wait(&w, 20000);
	world_figure(&w, "cases=%llu ends=%llu", (unsigned long long)c.v[0], (unsigned long long)c.v[1]);
	return world_end(&w);
}

int chaos_misuse(void)
{
	static const char *const env[] = {"FI_UCCL_PEER_TIMEOUT=connect=5", NULL};
	int failed = 0;

	for (unsigned int i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		failed += env_case(&settings[i], i);
	failed += env_long();
	failed += simple("misuse-hints", "misuse-hints", NULL);
	failed += simple("misuse-address", "misuse-address", env);
	return failed;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/domain.h"
#include "api/peers/av.h"
#include "progress/shm_dir.h"
#include "../../tests.h"

/* libfabric 2 calls these functions deprecated; programs written for 1.x use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct uccl_addr addr_of(uint8_t last, uint16_t port, uint64_t incarnation)
{
	struct uccl_addr a = { .incarnation = incarnation };

	a.nic.ip[10] = a.nic.ip[11] = 0xff;
	a.nic.ip[12] = 10;
	a.nic.ip[15] = last;
	a.nic.port = port;
	a.key[0] = incarnation ? 1 : 0;
	return a;
}

static struct fid_av *av_open(struct world *w, uint64_t flags)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = flags };
	struct fid_av *av;

	assert_int_equal(fi_av_open(w->domain, &attr, &av, NULL), 0);
	return av;
}

static struct uccl_av *inside(struct fid_av *av)
{
	return uccl_av_of(&av->fid);
}

static fi_addr_t insert(struct fid_av *av, const struct uccl_addr *a)
{
	uint8_t raw[UCCL_ADDR_LEN];
	fi_addr_t out = 12345;

	uccl_addr_encode(raw, a);
	assert_int_equal(fi_av_insert(av, raw, 1, &out, 0, NULL), 1);
	return out;
}

WORLD_TEST(open__attr, world, w)
{
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC };
	struct fid_av *av;

	assert_int_equal(fi_av_open(w->domain, &attr, &av, NULL), 0);
	assert_int_equal(attr.type, FI_AV_TABLE);
	assert_int_equal(fi_close(&w->domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&av->fid), 0);
	attr.flags = FI_READ;
	assert_int_equal(fi_av_open(w->domain, &attr, &av, NULL), -FI_EINVAL);
}

/* As two processes would have it, and with a third that dies without a word. */
TEST(open__named)
{
	struct fi_av_attr attr = { .type = FI_AV_MAP, .count = 10 }, seen = { .flags = FI_READ };
	struct uccl_addr one = addr_of(1, 1000, 1), two = addr_of(2, 1000, 2), keyless = addr_of(1, 1000, 0), out;
	struct fid_av *av, *other, *again;
	uint8_t raw[UCCL_ADDR_LEN];
	fi_addr_t gone, a1, a2;
	uint32_t generation;
	struct world w;
	char name[64];
	int status;
	pid_t pid;

	snprintf(name, sizeof(name), "test/%ld", (long)getpid());
	attr.name = seen.name = name;
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		world_open(&w);
		_exit(fi_av_open(w.domain, &attr, &av, NULL) || insert(av, &two));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	world_open(&w);
	assert_int_equal(fi_av_open(w.domain, &seen, &other, NULL), -FI_ENOENT);
	assert_int_equal(fi_av_open(w.domain, &attr, &av, NULL), 0);
	assert_int_equal(uccl_av_get(inside(av), 0, &out), -FI_EINVAL);
	assert_int_equal(fi_av_open(w.domain, &seen, &other, NULL), 0);
	a1 = insert(av, &one);
	a2 = insert(av, &two);
	assert_int_equal(((fi_addr_t *)seen.map_addr)[0], a1);
	assert_int_equal(((fi_addr_t *)seen.map_addr)[1], a2);
	assert_int_equal(uccl_av_get(inside(other), a2, &out), 0);
	assert_int_equal(out.incarnation, 2);
	assert_int_equal(uccl_av_find(inside(other), &two), a2);
	assert_int_equal(uccl_av_find(inside(other), &keyless), a1);
	uccl_addr_encode(raw, &one);
	assert_int_equal(fi_av_insert(other, raw, 1, &gone, 0, NULL), 0);
	assert_int_equal(gone, FI_ADDR_NOTAVAIL);
	generation = *inside(other)->generation;
	assert_int_equal(fi_av_remove(av, &a1, 1, 0), 0);
	assert_int_equal(fi_av_remove(av, &a1, 1, 0), -FI_EINVAL);
	assert_int_not_equal(*inside(other)->generation, generation);
	assert_int_equal(uccl_av_get(inside(other), a1, &out), -FI_EINVAL);
	/* whoever opens it to write, too, goes on with what is there */
	assert_int_equal(fi_av_open(w.domain, &attr, &again, NULL), 0);
	assert_int_equal(insert(again, &keyless), a1);
	assert_int_equal(uccl_av_find(inside(av), &keyless), a1);
	world_closes(&av->fid, &again->fid);
	assert_int_equal(uccl_av_get(inside(other), a2, &out), 0);
	assert_int_equal(fi_close(&other->fid), 0);
	assert_int_equal(fi_av_open(w.domain, &seen, &other, NULL), -FI_ENOENT);
	world_close(&w);
}

static void find_share(char *path, size_t size)
{
	char folder[64];
	struct dirent *f;
	DIR *d;

	*path = '\0';
	assert_int_equal(uccl_shm_dir_path(folder, sizeof(folder)), 0);
	d = opendir(folder);
	assert_non_null(d);
	while ((f = readdir(d)))
		if (!strncmp(f->d_name, "av.", 3) && strstr(f->d_name, "cut"))
			snprintf(path, size, "%s/%s", folder, f->d_name);
	closedir(d);
}

/* Somebody cuts the file of a named one off: who has it open goes on, and who comes later is refused. */
TEST(open__cut_off)
{
	struct fi_av_attr attr = { .type = FI_AV_MAP, .count = 10 }, seen = { .flags = FI_READ };
	struct uccl_addr one = addr_of(1, 1000, 1), two = addr_of(2, 1000, 2), out;
	char name[64], path[400];
	struct fid_av *av, *other;
	struct world w;
	fi_addr_t a;

	snprintf(name, sizeof(name), "cut%ld", (long)getpid());
	attr.name = seen.name = name;
	world_open(&w);
	assert_int_equal(fi_av_open(w.domain, &attr, &av, NULL), 0);
	a = insert(av, &one);
	find_share(path, sizeof(path));
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(uccl_av_get(inside(av), a, &out), 0);
	a = insert(av, &two);
	assert_int_equal(uccl_av_get(inside(av), a, &out), 0);
	assert_int_equal(((fi_addr_t *)attr.map_addr)[1], a);
	assert_int_equal(fi_av_open(w.domain, &seen, &other, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_open(w.domain, &attr, &other, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_remove(av, &a, 1, 0), 0);
	assert_int_equal(fi_close(&av->fid), 0);
	/* With the last one the file goes, and all begins anew. */
	assert_int_equal(fi_av_open(w.domain, &attr, &other, NULL), 0);
	assert_int_equal(fi_close(&other->fid), 0);
	world_close(&w);
}

WORLD_TEST(insert__many, world, w)
{
	enum { N = 1000 };
	struct fid_av *av;

	av = av_open(w, 0);
	for (int i = 0; i < N; i++) {
		struct uccl_addr a = addr_of(i % 250, 1000 + i, i + 1);

		assert_int_equal(insert(av, &a), i);
	}
	for (int i = 0; i < N; i++) {
		struct uccl_addr a = addr_of(i % 250, 1000 + i, i + 1), got;

		assert_int_equal(uccl_av_get(inside(av), i, &got), 0);
		assert_memory_equal(&got, &a, sizeof(a));
		assert_int_equal(uccl_av_find(inside(av), &a), i);
	}
	assert_int_equal(fi_close(&av->fid), 0);
}

WORLD_TEST(insert__bad_ones, world, w)
{
	uint8_t raw[3][UCCL_ADDR_LEN];
	struct uccl_addr a = addr_of(1, 1, 1), b = addr_of(2, 2, 2);
	fi_addr_t out[3] = { 7, 7, 7 };
	int errs[3] = { 9, 9, 9 };
	struct fid_av *av;

	av = av_open(w, 0);
	uccl_addr_encode(raw[0], &a);
	uccl_addr_encode(raw[2], &b);
	memcpy(raw[1], raw[0], sizeof(raw[1]));
	raw[1][20] ^= 1; /* the checksum fails */
	assert_int_equal(fi_av_insert(av, raw, 3, out, FI_SYNC_ERR, errs), 2);
	assert_int_equal(out[0], 0);
	assert_true(out[1] == FI_ADDR_NOTAVAIL);
	assert_int_equal(out[2], 1);
	assert_int_equal(errs[0], 0);
	assert_int_equal(errs[1], FI_EINVAL);
	assert_int_equal(errs[2], 0);
	assert_int_equal(fi_av_insert(av, raw, 3, NULL, 0, NULL), 2);
	assert_int_equal(fi_av_insert(av, raw, 0, NULL, 0, NULL), 0);
	assert_int_equal(fi_av_insert(av, NULL, 1, NULL, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_insert(av, raw, 1, out, FI_SYNC_ERR, NULL), -FI_EINVAL);
	assert_int_equal(fi_av_insert(av, raw, 1, out, FI_AV_USER_ID, NULL), -FI_ENOSYS);
	/* a queue pair of an RDMA NIC, which no socket reaches */
	b.nic.pad = 0xc123;
	uccl_addr_encode(raw[0], &b);
	assert_int_equal(fi_av_insert(av, raw, 1, out, 0, NULL), 0);
	/* "any port" is no place to send to */
	assert_int_equal(fi_av_insert(av, w->info->src_addr, 1, out, 0, NULL), 0);
	assert_int_equal(fi_close(&av->fid), 0);
}

WORLD_TEST(find__incarnations, world, w)
{
	struct uccl_addr old = addr_of(1, 1, 1), young = addr_of(1, 1, 2), keyless = addr_of(1, 1, 0);
	struct uccl_addr other = addr_of(1, 2, 1), third = addr_of(1, 1, 3);
	struct fid_av *av;

	av = av_open(w, 0);
	assert_true(uccl_av_find(inside(av), &old) == FI_ADDR_NOTAVAIL);
	assert_int_equal(insert(av, &old), 0);
	assert_int_equal(insert(av, &young), 1);
	assert_int_equal(insert(av, &young), 2);
	assert_int_equal(uccl_av_find(inside(av), &old), 0);
	assert_int_equal(uccl_av_find(inside(av), &young), 1);
	assert_int_equal(uccl_av_find(inside(av), &keyless), 0);
	assert_true(uccl_av_find(inside(av), &third) == FI_ADDR_NOTAVAIL);
	assert_true(uccl_av_find(inside(av), &other) == FI_ADDR_NOTAVAIL);
	assert_int_equal(insert(av, &keyless), 3);
	assert_int_equal(uccl_av_find(inside(av), &third), 3);
	assert_int_equal(uccl_av_find(inside(av), &keyless), 3);
	assert_int_equal(fi_close(&av->fid), 0);
}

/* Queue pairs of a scalable endpoint's contexts are in no order: incarnations are, and the first place is known. */
TEST(context__of_an_rdma_nic)
{
	struct uccl_addr first = addr_of(1, 1, 100), found, other = addr_of(1, 1, 300), keyless = addr_of(1, 1, 0);
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = 3 };
	uint8_t raw[UCCL_ADDR_LEN];
	fi_addr_t handle;
	struct world w;
	struct fid_av *av;

	first.nic.pad = other.nic.pad = keyless.nic.pad = 0xc001;
	first.nic.scope = 0x1000011;
	world_open(&w);
	snprintf(uccl_domain_of(&w.domain->fid)->params.nic.backend, UCCL_PARAM_NAME, "verbs-ud");
	assert_int_equal(fi_av_open(w.domain, &attr, &av, NULL), 0);
	assert_int_equal(insert(av, &other), 0);
	assert_int_equal(insert(av, &first), 1);
	handle = fi_rx_addr(1, 2, attr.rx_ctx_bits);
	assert_int_equal(uccl_av_get(inside(av), handle, &found), 0);
	assert_memory_equal(&found.nic, &first.nic, sizeof(first.nic));
	assert_true(found.incarnation == 102);
	assert_true(found.indirect);
	assert_int_equal(uccl_av_get(inside(av), 1, &found), 0);
	assert_false(found.indirect);
	/* Whoever it is comes from a place of its own. */
	found.nic.scope = 0x2000022;
	found.nic.port++;
	found.incarnation = 104;
	assert_true(uccl_av_find(inside(av), &found) == 1);
	found.nic.ip[15] ^= 1;
	assert_true(uccl_av_find(inside(av), &found) == FI_ADDR_NOTAVAIL);
	found.nic.ip[15] ^= 1;
	found.incarnation = 99;
	assert_true(uccl_av_find(inside(av), &found) == FI_ADDR_NOTAVAIL);
	found.incarnation = 100;
	assert_true(uccl_av_find(inside(av), &found) == FI_ADDR_NOTAVAIL);
	/* Nobody there is without one. */
	uccl_addr_encode(raw, &keyless);
	assert_int_equal(fi_av_insert(av, raw, 1, &handle, 0, NULL), 0);
	assert_int_equal(fi_close(&av->fid), 0);
	world_close(&w);
}

WORLD_TEST(remove__and_reuse, world, w)
{
	struct uccl_addr a[4], got;
	fi_addr_t gone[2] = { 1, 2 };
	struct fid_av *av;
	uint32_t gen;

	av = av_open(w, 0);
	for (int i = 0; i < 4; i++) {
		a[i] = addr_of(i, 5, 1);
		insert(av, &a[i]);
	}
	gen = *inside(av)->generation;
	assert_int_equal(fi_av_remove(av, gone, 2, 0), 0);
	assert_int_not_equal(*inside(av)->generation, gen);
	assert_int_equal(uccl_av_get(inside(av), 1, &got), -FI_EINVAL);
	assert_int_equal(uccl_av_get(inside(av), 3, &got), 0);
	assert_true(uccl_av_find(inside(av), &a[2]) == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_remove(av, gone, 1, 0), -FI_EINVAL);
	gone[0] = FI_ADDR_NOTAVAIL;
	assert_int_equal(fi_av_remove(av, gone, 1, 0), -FI_EINVAL);
	assert_int_equal(insert(av, &a[2]), 1);
	assert_int_equal(insert(av, &a[1]), 2);
	assert_int_equal(insert(av, &a[1]), 4);
	assert_int_equal(uccl_av_find(inside(av), &a[2]), 1);
	assert_int_equal(fi_close(&av->fid), 0);
}

WORLD_TEST(lookup__lengths, world, w)
{
	struct uccl_addr a = addr_of(1, 1, 1);
	uint8_t raw[UCCL_ADDR_LEN], got[UCCL_ADDR_LEN] = { 0 };
	size_t len = sizeof(got);
	struct fid_av *av;

	av = av_open(w, 0);
	uccl_addr_encode(raw, &a);
	insert(av, &a);
	assert_int_equal(fi_av_lookup(av, 0, got, &len), 0);
	assert_int_equal(len, sizeof(got));
	assert_memory_equal(got, raw, sizeof(raw));
	memset(got, 0xee, sizeof(got));
	len = 10;
	assert_int_equal(fi_av_lookup(av, 0, got, &len), 0);
	assert_int_equal(len, UCCL_ADDR_LEN);
	assert_memory_equal(got, raw, 10);
	assert_int_equal(got[10], 0xee);
	assert_int_equal(fi_av_lookup(av, 9, got, &len), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
}

WORLD_TEST(straddr__text, world, w)
{
	struct uccl_addr a = addr_of(7, 7000, 0xabc);
	uint8_t raw[UCCL_ADDR_LEN];
	char text[128];
	size_t len = sizeof(text);
	struct fid_av *av;

	av = av_open(w, 0);
	uccl_addr_encode(raw, &a);
	assert_ptr_equal(fi_av_straddr(av, raw, text, &len), text);
	assert_string_equal(text, "fi_addr_uccl://10.0.0.7:7000/0000000000000abc");
	assert_int_equal(len, strlen(text) + 1);
	len = 8;
	fi_av_straddr(av, raw, text, &len);
	assert_string_equal(text, "fi_addr");
	assert_int_equal(len, sizeof("fi_addr_uccl://10.0.0.7:7000/0000000000000abc"));
	assert_int_equal(fi_close(&av->fid), 0);
}

static void sock_world(struct world *w)
{
	struct fi_info *h = world_hints();

	h->addr_format = FI_SOCKADDR_IN;
	world_open_with(w, h);
}

static void expect(struct fid_av *av, fi_addr_t i, const char *text)
{
	struct sockaddr_in sin;
	size_t len = sizeof(sin), tlen = 128;
	char buf[128], want[128];

	assert_int_equal(fi_av_lookup(av, i, &sin, &len), 0);
	assert_int_equal(len, sizeof(sin));
	fi_av_straddr(av, &sin, buf, &tlen);
	snprintf(want, sizeof(want), "fi_sockaddr_in://%s", text);
	assert_string_equal(buf, want);
	assert_int_equal(tlen, strlen(want) + 1);
}

TEST(insertsvc__names)
{
	fi_addr_t out = 5;
	struct world w;
	struct fid_av *av;

	sock_world(&w);
	av = av_open(&w, 0);
	assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "7001", &out, 0, NULL), 1);
	expect(av, out, "127.0.0.1:7001");
	assert_int_equal(fi_av_insertsvc(av, "localhost", "7002", &out, 0, NULL), 1);
	expect(av, out, "127.0.0.1:7002");
	assert_int_equal(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.1:7003", NULL, &out, 0, NULL), 1);
	expect(av, out, "127.0.0.1:7003");
	assert_int_equal(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.1:7003", "7004", &out, 0, NULL), 0);
	assert_true(out == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_insertsvc(av, "no.such.host.invalid", "1", &out, 0, NULL), 0);
	assert_true(out == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_insertsvc(av, NULL, NULL, &out, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
	world_close(&w);
}

TEST(insertsym__counts)
{
	fi_addr_t out[6];
	struct world w;
	struct fid_av *av;

	sock_world(&w);
	av = av_open(&w, 0);
	assert_int_equal(fi_av_insertsym(av, "10.1.255.254", 3, "5000", 2, out, 0, NULL), 6);
	expect(av, out[0], "10.1.255.254:5000");
	expect(av, out[1], "10.1.255.254:5001");
	expect(av, out[3], "10.1.255.255:5001");
	expect(av, out[4], "10.2.0.0:5000");
	expect(av, out[5], "10.2.0.0:5001");
	/* past the last port */
	assert_int_equal(fi_av_insertsym(av, "10.1.0.1", 1, "65535", 2, out, 0, NULL), 1);
	assert_true(out[1] == FI_ADDR_NOTAVAIL);
	/* a name that cannot be counted is good for one */
	assert_int_equal(fi_av_insertsym(av, "localhost", 1, "5000", 1, out, 0, NULL), 1);
	assert_int_equal(fi_av_insertsym(av, "localhost", 2, "5000", 1, out, 0, NULL), 1);
	assert_int_equal(fi_av_insertsym(av, "10.1.0.1", 1, "http", 1, out, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
	world_close(&w);
}

WORLD_TEST(insert__event_queue, world, w)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_eq_err_entry err;
	struct fi_eq_entry entry;
	uint8_t raw[2][UCCL_ADDR_LEN] = { { 0 } };
	struct uccl_addr a = addr_of(1, 1, 1);
	fi_addr_t out[2];
	struct fid_eq *eq;
	struct fid_av *av;
	uint32_t event;
	int ctx;

	av = av_open(w, FI_EVENT);
	assert_int_equal(fi_av_insert(av, raw, 1, out, 0, &ctx), -FI_ENOEQ);
	assert_int_equal(fi_eq_open(w->fabric, &eq_attr, &eq, NULL), 0);
	assert_int_equal(fi_av_bind(av, &eq->fid, 0), 0);
	assert_int_equal(fi_close(&eq->fid), -FI_EBUSY);
	uccl_addr_encode(raw[0], &a);
	assert_int_equal(fi_av_insert(av, raw, 2, out, 0, &ctx), 0);
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	memset(&err, 0, sizeof(err));
	assert_int_equal(fi_eq_readerr(eq, &err, 0), sizeof(err));
	assert_ptr_equal(err.fid, &av->fid);
	assert_ptr_equal(err.context, &ctx);
	assert_int_equal(err.data, 1);
	assert_int_equal(err.err, FI_EINVAL);
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(event, FI_AV_COMPLETE);
	assert_ptr_equal(entry.context, &ctx);
	assert_int_equal(entry.data, 1);
	assert_int_equal(out[0], 0);
	world_closes(&av->fid, &eq->fid);
}

TESTS_MAIN

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/wire/addr.h"

#include "../../tests.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "base/le.h"

static struct uccl_addr sample(void)
{
	struct uccl_addr a;

	memset(&a, 0, sizeof(a));
	for (int i = 0; i < 16; i++) {
		a.nic.ip[i] = (uint8_t)(i + 1);
		a.key[i] = (uint8_t)(0x80 + i);
	}
	a.nic.scope = 3;
	a.nic.port = 47000;
	a.incarnation = 0x0102030405060708;
	return a;
}

TEST(addr_encode__layout)
{
	struct uccl_addr a = sample();
	uint8_t out[UCCL_ADDR_LEN];

	uccl_addr_encode(out, &a);
	assert_memory_equal(out, "CLUC", 4);
	assert_int_equal(uccl_get16(out + 4), 1);
	assert_int_equal(uccl_get16(out + 6), 47000);
	assert_memory_equal(out + 8, a.nic.ip, 16);
	assert_int_equal(uccl_get32(out + 24), 3);
	assert_true(uccl_get64(out + 28) == a.incarnation);
	assert_memory_equal(out + 36, a.key, UCCL_KEY_LEN);
}

TEST(addr_decode__round_trip)
{
	struct uccl_addr a = sample(), d;
	uint8_t out[UCCL_ADDR_LEN];

	uccl_addr_encode(out, &a);
	memset(&d, 0xff, sizeof(d));
	assert_int_equal(uccl_addr_decode(&d, out), 0);
	assert_memory_equal(&d, &a, sizeof(a));
}

/* PROTOCOL R379 */
TEST(nic_addr_second__ipv4_only)
{
	struct uccl_nic_addr a = {.port = 7}, b = {.port = 7}, out;

	a.ip[10] = a.ip[11] = b.ip[10] = b.ip[11] = 0xff;
	a.ip[12] = b.ip[12] = 10;
	b.ip[14] = 3;
	b.ip[15] = 0xfe;
	assert_false(uccl_nic_addr_second(&a, &out));
	uccl_nic_addr_tell(&a, &b);
	assert_true(uccl_nic_addr_second(&a, &out));
	assert_memory_equal(&out, &b, sizeof(b));
	/* Another port, an RDMA NIC, IPv6: it tells none. */
	a.scope = 0;
	b.port = 8;
	uccl_nic_addr_tell(&a, &b);
	assert_int_equal(a.scope, 0);
	b.port = 7;
	a.pad = b.pad = 1;
	uccl_nic_addr_tell(&a, &b);
	assert_int_equal(a.scope, 0);
	a.pad = b.pad = 0;
	b.ip[0] = 0x20;
	uccl_nic_addr_tell(&a, &b);
	assert_int_equal(a.scope, 0);
	a.ip[0] = 0x20;
	a.scope = 5;
	assert_false(uccl_nic_addr_second(&a, &out));
	/* An IPv6 place keeps its scope id; the word of an IPv4 one is none. */
	uccl_nic_addr_tell(&a, &b);
	assert_int_equal(a.scope, 5);
	assert_int_equal(uccl_nic_addr_scope_id(&a), 5);
	a.ip[0] = 0;
	assert_int_equal(uccl_nic_addr_scope_id(&a), 0);
}

/* On an RDMA NIC bytes 2 and 3 are the back end's too; without it they are as they always were. */
TEST(addr_encode__rdma)
{
	struct uccl_addr a = sample(), d;
	uint8_t out[UCCL_ADDR_LEN];

	for (uint32_t pad = 1; pad < 0x10000; pad += 0x3f) {
		a.nic.pad = (uint16_t)pad;
		uccl_addr_encode(out, &a);
		assert_memory_equal(out, "CL", 2);
		assert_int_equal(uccl_get16(out + 2), 0x4355 ^ pad);
		assert_int_equal(uccl_addr_decode(&d, out), 0);
		assert_memory_equal(&d, &a, sizeof(a));
	}
}

/* The sum finds every single wrong bit. */
TEST(addr_decode__damaged)
{
	struct uccl_addr a = sample(), d;
	uint8_t out[UCCL_ADDR_LEN];

	uccl_addr_encode(out, &a);
	for (int bit = 0; bit < UCCL_ADDR_LEN * 8; bit++) {
		out[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(uccl_addr_decode(&d, out), -FI_EINVAL);
		out[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(uccl_addr_decode(&d, out), 0);
}

/* FNV-1a, so that a wrong magic, version or port is met with a right sum. */
static void resum(uint8_t *out)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 52; i++)
		h = (h ^ out[i]) * 16777619u;
	uccl_put32(out + 52, h);
}

TEST(addr_decode__foreign)
{
	struct uccl_addr a = sample(), d;
	uint8_t out[UCCL_ADDR_LEN];

	uccl_addr_encode(out, &a);
	out[0] ^= 1;
	resum(out);
	assert_int_equal(uccl_addr_decode(&d, out), -FI_EINVAL);
	uccl_addr_encode(out, &a);
	out[4] = 2;
	resum(out);
	assert_int_equal(uccl_addr_decode(&d, out), -FI_EINVAL);
	uccl_addr_encode(out, &a);
	uccl_put16(out + 6, 0);
	resum(out);
	assert_int_equal(uccl_addr_decode(&d, out), -FI_EINVAL);
	uccl_addr_encode(out, &a);
	uccl_put16(out + 6, 1);
	resum(out);
	assert_int_equal(uccl_addr_decode(&d, out), 0);
	assert_int_equal(d.nic.port, 1);
}

TEST(nic_addr_equal__place_only)
{
	struct uccl_addr a = sample(), b = sample();

	b.nic.scope = 9;
	b.incarnation = 1;
	assert_true(uccl_nic_addr_equal(&a.nic, &b.nic));
	b.nic.port++;
	assert_false(uccl_nic_addr_equal(&a.nic, &b.nic));
	b = sample();
	b.nic.ip[15] ^= 1;
	assert_false(uccl_nic_addr_equal(&a.nic, &b.nic));
}

/* Two queue pairs of one RDMA NIC are two places; neither is one of UDP. What names the NIC's port may change. */
TEST(nic_addr_equal__rdma)
{
	struct uccl_addr a = sample(), b = sample();

	a.nic.pad = 7;
	assert_false(uccl_nic_addr_equal(&a.nic, &b.nic));
	assert_false(uccl_nic_addr_equal(&b.nic, &a.nic));
	b.nic.pad = 8;
	assert_true(uccl_nic_addr_equal(&a.nic, &b.nic));
	b.nic.scope++;
	assert_false(uccl_nic_addr_equal(&a.nic, &b.nic));
}

TEST(addr_keyless__without_incarnation)
{
	struct uccl_addr a = sample();

	assert_false(uccl_addr_keyless(&a));
	a.incarnation = 0;
	assert_true(uccl_addr_keyless(&a));
}

TESTS_MAIN

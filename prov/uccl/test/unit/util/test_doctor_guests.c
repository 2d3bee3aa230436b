/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_guests.h"

#include <string.h>

#include "../tests.h"

static struct doctor_guests g;
static int gone;

static int add(uint8_t host, uint64_t now_ms)
{
	uint8_t ip[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = host};

	return doctor_guest_add(&g, ip, now_ms, &gone);
}

/* A guest that has said HELLO. */
static int greeted(uint8_t host)
{
	int i = add(host, 0);

	assert_true(i >= 0);
	doctor_guest_greeted(&g, i);
	return i;
}

/* Silent connections of one address take no place from others, and none from an asker of the same address. */
TEST(add__silent_ones_of_one_address)
{
	int first, mine;

	doctor_guests_init(&g, 4);
	first = add(1, 0);
	for (int i = 1; i < DOCTOR_GUESTS_EACH; i++) {
		assert_true(add(1, (uint64_t)i) >= 0);
		assert_int_equal(gone, -1);
	}
	mine = add(1, 100);
	assert_true(mine >= 0);
	assert_int_equal(gone, first);
	doctor_guest_greeted(&g, mine);
	for (int i = 0; i < 1000; i++) {
		assert_true(add(1, 200) >= 0);
		assert_true(gone >= 0 && gone != mine);
	}
	assert_int_equal(doctor_guest_count(&g, DOCTOR_GUEST_SILENT), DOCTOR_GUESTS_EACH - 1);
	assert_int_equal(doctor_guest_serve(&g), mine);
}

TEST(add__refuses_what_is_too_much)
{
	doctor_guests_init(&g, 4);
	for (int i = 0; i < DOCTOR_GUESTS_EACH; i++)
		greeted(1);
	assert_int_equal(add(1, 0), -1);
	assert_int_equal(gone, -1);
	assert_true(add(2, 0) >= 0);
	/* All places are taken: a silent one goes first, and where there is none the new one does. */
	doctor_guests_init(&g, 4);
	for (int i = 0; i < DOCTOR_GUESTS - 1; i++)
		greeted((uint8_t)(i / DOCTOR_GUESTS_EACH));
	assert_true(add(200, 0) >= 0);
	assert_int_equal(gone, -1);
	assert_true(add(201, 0) >= 0);
	assert_true(gone >= 0);
	doctor_guest_greeted(&g, gone);
	assert_int_equal(add(202, 0), -1);
}

TEST(late__silent_only)
{
	int a, b;

	doctor_guests_init(&g, 4);
	assert_int_equal(doctor_guest_late(&g, 1000000), -1);
	a = add(1, 1000);
	b = add(2, 1001);
	doctor_guest_greeted(&g, a);
	assert_int_equal(doctor_guest_late(&g, 1001 + DOCTOR_HELLO_MS - 1), -1);
	assert_int_equal(doctor_guest_late(&g, 1001 + DOCTOR_HELLO_MS), b);
	doctor_guest_end(&g, b);
	assert_int_equal(doctor_guest_late(&g, 1000000), -1);
}

/* Sessions: in the order of the HELLOs, up to the bounds. */
TEST(serve__order_and_bounds)
{
	int a[DOCTOR_SESSIONS_EACH + 1], other, late;

	doctor_guests_init(&g, DOCTOR_SESSIONS_EACH + 1);
	assert_int_equal(doctor_guest_serve(&g), -1);
	for (int i = 0; i <= DOCTOR_SESSIONS_EACH; i++)
		a[i] = greeted(1);
	other = greeted(2);
	late = greeted(3);
	assert_int_equal(doctor_guest_before(&g, late), DOCTOR_SESSIONS_EACH + 2);
	for (int i = 0; i < DOCTOR_SESSIONS_EACH; i++)
		assert_int_equal(doctor_guest_serve(&g), a[i]);
	assert_int_equal(doctor_guest_serve(&g), other);
	assert_int_equal(doctor_guest_serve(&g), -1);
	assert_int_equal(doctor_guest_before(&g, late), 1);
	doctor_guest_end(&g, other);
	assert_int_equal(doctor_guest_serve(&g), late);
	doctor_guest_end(&g, a[0]);
	assert_int_equal(doctor_guest_serve(&g), a[DOCTOR_SESSIONS_EACH]);
	doctor_guests_init(&g, 0);
	assert_int_equal(g.sessions, 1);
	doctor_guests_init(&g, 10000);
	assert_int_equal(g.sessions, DOCTOR_SESSIONS);
}

/* One at a time, in order; an address that has just had the turn lets others go first. */
TEST(turn__one_after_the_other)
{
	int a, b, c;

	doctor_guests_init(&g, 8);
	a = greeted(1);
	b = greeted(1);
	c = greeted(2);
	while (doctor_guest_serve(&g) >= 0)
		;
	assert_int_equal(doctor_turn_give(&g, 0), -1);
	doctor_turn_ask(&g, a);
	doctor_turn_ask(&g, a);
	assert_int_equal(doctor_turn_give(&g, 5), a);
	doctor_turn_ask(&g, a);
	doctor_turn_ask(&g, b);
	doctor_turn_ask(&g, c);
	assert_int_equal(doctor_turn_give(&g, 6), -1);
	assert_int_equal(doctor_guest_before(&g, c), 1);
	assert_int_equal(doctor_guest_before(&g, b), 2);
	doctor_turn_end(&g, a);
	assert_int_equal(doctor_turn_give(&g, 7), c);
	doctor_turn_end(&g, c);
	assert_int_equal(doctor_turn_give(&g, 8), b);
	doctor_turn_end(&g, b);
	assert_int_equal(doctor_turn_give(&g, 9), -1);
}

TEST(turn__ends_with_its_guest)
{
	int a, b;

	doctor_guests_init(&g, 8);
	a = greeted(1);
	b = greeted(2);
	doctor_turn_ask(&g, a);
	doctor_turn_ask(&g, b);
	assert_int_equal(doctor_turn_give(&g, 1), a);
	doctor_guest_end(&g, a);
	assert_int_equal(doctor_turn_give(&g, 2), b);
	doctor_turn_ask(&g, greeted(3));
	doctor_guest_end(&g, b);
	assert_true(doctor_turn_give(&g, 3) >= 0);
}

/* Nobody keeps the turn for ever from others; alone it may. */
TEST(turn__late)
{
	int a, b;

	doctor_guests_init(&g, 8);
	a = greeted(1);
	b = greeted(2);
	doctor_turn_ask(&g, a);
	assert_int_equal(doctor_turn_give(&g, 100), a);
	assert_int_equal(doctor_turn_late(&g, 1000000), -1);
	doctor_turn_ask(&g, b);
	assert_int_equal(doctor_turn_late(&g, 100 + DOCTOR_TURN_MS - 1), -1);
	assert_int_equal(doctor_turn_late(&g, 100 + DOCTOR_TURN_MS), a);
}

TESTS_MAIN

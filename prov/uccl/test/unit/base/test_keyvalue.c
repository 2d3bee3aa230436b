/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/keyvalue.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "../tests.h"

/* The items of a text as "[key=value]", or "[key]" where there is no '='. */
static const char *items(const char *text)
{
	static char out[256];
	struct uccl_keyvalue item;
	const char *at = text;
	int n = 0;

	out[0] = '\0';
	while (uccl_keyvalue_next(&at, &item)) {
		assert_int_equal(item.len, item.value ? item.key_len + 1 + item.value_len : item.key_len);
		n += snprintf(out + n, sizeof(out) - n, "[%.*s%s%.*s]", (int)item.key_len, item.key,
			      item.value ? "=" : "", (int)item.value_len, item.value ? item.value : "");
	}
	assert_null(at);
	return out;
}

TEST(next__items)
{
	assert_string_equal(items(NULL), "");
	assert_string_equal(items("a=1"), "[a=1]");
	assert_string_equal(items("a=1,b=x:c_2=3k"), "[a=1][b=x][c_2=3k]");
	assert_string_equal(items("a,b="), "[a][b=]");
	assert_string_equal(items("a=b=c"), "[a=b=c]");
	/* What is empty is an item, too: who reads refuses it. */
	assert_string_equal(items(""), "[]");
	assert_string_equal(items("a=1,"), "[a=1][]");
	assert_string_equal(items(",:"), "[][][]");
}

TEST(head__ends)
{
	assert_int_equal(uccl_keyvalue_head(""), 0);
	assert_int_equal(uccl_keyvalue_head("swift"), 5);
	assert_int_equal(uccl_keyvalue_head("swift:beta=1"), 5);
	assert_int_equal(uccl_keyvalue_head("64,order=any"), 2);
	assert_int_equal(uccl_keyvalue_long_head(""), 0);
	assert_int_equal(uccl_keyvalue_long_head("eth0,eth1"), 9);
	assert_int_equal(uccl_keyvalue_long_head("mlx5_0:2,eth1,pci=all"), 13);
	assert_int_equal(uccl_keyvalue_long_head("a,B=c,=,9x=:d"), 13);
	assert_int_equal(uccl_keyvalue_long_head("a:b,c=1,d"), 3);
	assert_int_equal(uccl_keyvalue_long_head("a,"), 2);
}

TEST(is__whole_keys)
{
	struct uccl_keyvalue item;
	const char *at = "order=any";

	assert_true(uccl_keyvalue_next(&at, &item));
	assert_true(uccl_keyvalue_is(&item, "order"));
	assert_false(uccl_keyvalue_is(&item, "orde"));
	assert_false(uccl_keyvalue_is(&item, "order="));
	assert_false(uccl_keyvalue_is(&item, "ordering"));
	at = "order";
	assert_true(uccl_keyvalue_next(&at, &item));
	assert_false(uccl_keyvalue_is(&item, "order"));
}

TEST(begins__a_key)
{
	assert_true(uccl_keyvalue_begins("a="));
	assert_true(uccl_keyvalue_begins("max_qp2=1"));
	assert_false(uccl_keyvalue_begins(""));
	assert_false(uccl_keyvalue_begins("="));
	assert_false(uccl_keyvalue_begins("a"));
	assert_false(uccl_keyvalue_begins("_a=1"));
	assert_false(uccl_keyvalue_begins("2a=1"));
	assert_false(uccl_keyvalue_begins("A=1"));
	assert_false(uccl_keyvalue_begins("a b=1"));
}

TESTS_MAIN

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_report.h"

#include "../tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *quoted(const char *text)
{
	char *buf = NULL;
	size_t size;
	FILE *f = open_memstream(&buf, &size);

	assert_non_null(f);
	doctor_print_quoted(text, f);
	fclose(f);
	return buf;
}

static char *printed(const struct doctor_report *r, void (*print)(const struct doctor_report *, FILE *))
{
	char *buf = NULL;
	size_t size;
	FILE *f = open_memstream(&buf, &size);

	assert_non_null(f);
	print(r, f);
	fclose(f);
	return buf;
}

static void quoted_is(const char *text, const char *want)
{
	char *got = quoted(text);

	assert_string_equal(got, want);
	free(got);
}

TEST(quoted__plain_and_escaped)
{
	quoted_is("", "\"\"");
	quoted_is("eth0", "\"eth0\"");
	quoted_is("a\"b\\c", "\"a\\\"b\\\\c\"");
	quoted_is("tab\tend\n\x01\x7f", "\"tab\\u0009end\\u000a\\u0001\\u007f\"");
}

TEST(quoted__utf8_is_kept)
{
	quoted_is("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST(quoted__what_is_no_utf8_is_replaced)
{
	quoted_is("\xff", "\"\\ufffd\"");
	quoted_is("\xc3", "\"\\ufffd\"");		/* cut off */
	quoted_is("\xc0\x80", "\"\\ufffd\\ufffd\"");	/* overlong */
	quoted_is("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
	quoted_is("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* beyond Unicode */
	quoted_is("a\x80z", "\"a\\ufffdz\"");
}

TEST(status__warn_and_bad_limit)
{
	struct doctor_report r = { 0 };

	assert_int_equal(doctor_status(&r), 0);
	doctor_add(&r, DOCTOR_OK, "host", "mtu", "eth0", "1500 bytes");
	doctor_add(&r, DOCTOR_NOTE, "host", "gro", "eth0", "off");
	assert_int_equal(doctor_status(&r), 0);
	doctor_add(&r, DOCTOR_WARN, "host", "shm", NULL, "none");
	assert_int_equal(doctor_status(&r), 1);
	doctor_free(&r);
	doctor_add(&r, DOCTOR_BAD, "host", "shm", NULL, "none");
	assert_int_equal(doctor_status(&r), 1);
	doctor_free(&r);
}

TEST(status__lost_findings_limit)
{
	struct doctor_report r = { .short_of_memory = true };
	char *json = printed(&r, doctor_print_json);

	assert_int_equal(doctor_status(&r), 1);
	assert_non_null(strstr(json, "\"complete\": false"));
	free(json);
}

TEST(text__worst_first)
{
	struct doctor_report r = { 0 };
	char *text;

	doctor_add(&r, DOCTOR_OK, "host", "one", NULL, "fine");
	doctor_advise(doctor_add(&r, DOCTOR_WARN, "host", "two", "eth0", "so so"), "do %d things", 2);
	doctor_add(&r, DOCTOR_BAD, "host", "three", NULL, "broken");
	doctor_add(&r, DOCTOR_WARN, "host", "four", NULL, "later");
	text = printed(&r, doctor_print_text);
	assert_string_equal(text, "bad   three        broken\n"
				  "warn  two          eth0: so so\n"
				  "                   -> do 2 things\n"
				  "warn  four         later\n"
				  "ok    one          fine\n"
				  "1 bad, 2 warn, 0 note, 1 ok\n");
	free(text);
	doctor_free(&r);
}

TEST(json__has_all_facts)
{
	struct doctor_report r = { 0 };
	struct doctor_finding *f = doctor_add(&r, DOCTOR_WARN, "host", "mtu", "e\"0", "%u bytes", 900u);
	char *json;

	doctor_advise(f, "more");
	doctor_number(f, "mtu", 900);
	doctor_number(f, "loss", 0.25);
	doctor_number(f, "unknown", NAN);
	doctor_number(f, "large", 1e18);
	doctor_string(f, "name", "x");
	doctor_string(f, "empty", "");
	json = printed(&r, doctor_print_json);
	assert_string_equal(json, "{\"program\": \"uccl_doctor\", \"version\": 1, \"status\": 1, \"complete\": true,\n"
				  " \"bad\": 0, \"warn\": 1, \"note\": 0, \"ok\": 0,\n"
				  " \"findings\": [\n"
				  "  {\"level\": \"warn\", \"section\": \"host\", \"check\": \"mtu\", "
				  "\"subject\": \"e\\\"0\",\n"
				  "   \"text\": \"900 bytes\",\n"
				  "   \"advice\": \"more\",\n"
				  "   \"values\": {\"mtu\": 900, \"loss\": 0.25, \"unknown\": null, \"large\": 1e+18, "
				  "\"name\": \"x\", \"empty\": \"-\"}}\n"
				  " ]}\n");
	free(json);
	doctor_free(&r);
}

TEST(add__keeps_what_came_before)
{
	struct doctor_report r = { 0 };

	for (int i = 0; i < 1000; i++)
		doctor_number(doctor_add(&r, DOCTOR_OK, "host", "n", NULL, "number %d", i), "i", i);
	assert_int_equal(r.n, 1000);
	for (int i = 0; i < 1000; i++)
		assert_true(r.finding[i].value[0].number == i);
	assert_int_equal(doctor_count(&r, DOCTOR_OK), 1000);
	doctor_free(&r);
}

TEST(add__long_texts_are_cut)
{
	struct doctor_report r = { 0 };
	char big[4096];
	struct doctor_finding *f;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	f = doctor_add(&r, DOCTOR_OK, big, big, big, "%s", big);
	doctor_advise(f, "%s", big);
	for (int i = 0; i < 2 * DOCTOR_VALUES; i++)
		doctor_string(f, big, big);
	assert_int_equal(f->nvalues, DOCTOR_VALUES);
	assert_int_equal(strlen(f->text), DOCTOR_TEXT - 1);
	assert_int_equal(strlen(f->advice), DOCTOR_TEXT - 1);
	assert_int_equal(strlen(f->value[0].text), DOCTOR_NAME - 1);
	doctor_free(&r);
}

TESTS_MAIN

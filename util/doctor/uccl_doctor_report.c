/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define JSON_VERSION 1

static struct doctor_finding *finding_new(struct doctor_report *r)
{
	struct doctor_finding *more;

	if (r->n == r->room) {
		more = realloc(r->finding, (size_t)(r->room + 64) * sizeof(*more));
		if (!more) {
			r->short_of_memory = true;
			return &r->lost;
		}
		r->finding = more;
		r->room += 64;
	}
	return &r->finding[r->n++];
}

struct doctor_finding *doctor_add(struct doctor_report *r, enum doctor_level level, const char *section,
				  const char *check, const char *subject, const char *fmt, ...)
{
	struct doctor_finding *f = finding_new(r);
	va_list ap;

	memset(f, 0, sizeof(*f));
	f->level = level;
	snprintf(f->section, sizeof(f->section), "%s", section);
	snprintf(f->check, sizeof(f->check), "%s", check);
	snprintf(f->subject, sizeof(f->subject), "%s", subject ? subject : "");
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

void doctor_advise(struct doctor_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->advice, sizeof(f->advice), fmt, ap);
	va_end(ap);
}

static struct doctor_value *value_new(struct doctor_finding *f, const char *key)
{
	static struct doctor_value lost;
	struct doctor_value *v = f->nvalues < DOCTOR_VALUES ? &f->value[f->nvalues++] : &lost;

	memset(v, 0, sizeof(*v));
	snprintf(v->key, sizeof(v->key), "%s", key);
	return v;
}

void doctor_number(struct doctor_finding *f, const char *key, double number)
{
	value_new(f, key)->number = number;
}

void doctor_string(struct doctor_finding *f, const char *key, const char *text)
{
	struct doctor_value *v = value_new(f, key);

	/* An empty text would read as a number. */
	snprintf(v->text, sizeof(v->text), "%s", *text ? text : "-");
}

int doctor_count(const struct doctor_report *r, enum doctor_level level)
{
	int n = 0;

	for (int i = 0; i < r->n; i++)
		n += r->finding[i].level == level;
	return n;
}

int doctor_status(const struct doctor_report *r)
{
	return doctor_count(r, DOCTOR_WARN) || doctor_count(r, DOCTOR_BAD) || r->short_of_memory;
}

const char *doctor_level_text(enum doctor_level level)
{
	static const char *const text[] = {"ok", "note", "warn", "bad"};

	return text[level];
}

static void print_one(const struct doctor_finding *f, FILE *out)
{
	fprintf(out, "%-5s %-12s %s%s%s\n", doctor_level_text(f->level), f->check, f->subject, *f->subject ? ": " : "",
		f->text);
	if (*f->advice)
		fprintf(out, "                   -> %s\n", f->advice);
}

void doctor_print_text(const struct doctor_report *r, FILE *f)
{
	for (int level = DOCTOR_BAD; level >= DOCTOR_OK; level--)
		for (int i = 0; i < r->n; i++)
			if (r->finding[i].level == (enum doctor_level)level)
				print_one(&r->finding[i], f);
	if (r->short_of_memory)
		fprintf(f, "out of memory: findings were lost\n");
	fprintf(f, "%d bad, %d warn, %d note, %d ok\n", doctor_count(r, DOCTOR_BAD), doctor_count(r, DOCTOR_WARN),
		doctor_count(r, DOCTOR_NOTE), doctor_count(r, DOCTOR_OK));
}

/* Bytes of the UTF-8 character at s; 0: it is none. */
static int utf8_len(const unsigned char *s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t code;

	if (n < 2)
		return n;
	code = *s & (0x7fu >> n);
	for (int i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

void doctor_print_quoted(const char *text, FILE *f)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', f);
	while (*s) {
		int n = utf8_len(s);

		if (!n) {
			fputs("\\ufffd", f);
			s++;
		} else if (*s == '"' || *s == '\\') {
			fprintf(f, "\\%c", *s++);
		} else if (*s < 0x20 || *s == 0x7f) {
			fprintf(f, "\\u%04x", *s++);
		} else {
			fwrite(s, 1, (size_t)n, f);
			s += n;
		}
	}
	fputc('"', f);
}

static void print_field(const char *key, const char *text, FILE *f)
{
	doctor_print_quoted(key, f);
	fputs(": ", f);
	doctor_print_quoted(text, f);
}

/* Whole numbers without a fraction; what JSON has no number for is null. */
static void print_number(double v, FILE *f)
{
	if (!isfinite(v))
		fputs("null", f);
	else if (v == floor(v) && fabs(v) < 1e15)
		fprintf(f, "%.0f", v);
	else
		fprintf(f, "%.6g", v);
}

void doctor_print_json(const struct doctor_report *r, FILE *f)
{
	fprintf(f, "{\"program\": \"uccl_doctor\", \"version\": %d, \"status\": %d, \"complete\": %s,\n", JSON_VERSION,
		doctor_status(r), r->short_of_memory ? "false" : "true");
	for (int level = DOCTOR_BAD; level >= DOCTOR_OK; level--)
		fprintf(f, "%s\"%s\": %d", level == DOCTOR_BAD ? " " : ", ",
			doctor_level_text((enum doctor_level)level), doctor_count(r, (enum doctor_level)level));
	fputs(",\n \"findings\": [", f);
	for (int i = 0; i < r->n; i++) {
		const struct doctor_finding *d = &r->finding[i];

		fputs(i ? ",\n  {" : "\n  {", f);
		print_field("level", doctor_level_text(d->level), f);
		fputs(", ", f);
		print_field("section", d->section, f);
		fputs(", ", f);
		print_field("check", d->check, f);
		fputs(", ", f);
		print_field("subject", d->subject, f);
		fputs(",\n   ", f);
		print_field("text", d->text, f);
		fputs(",\n   ", f);
		print_field("advice", d->advice, f);
		fputs(",\n   \"values\": {", f);
		for (int k = 0; k < d->nvalues; k++) {
			fputs(k ? ", " : "", f);
			doctor_print_quoted(d->value[k].key, f);
			fputs(": ", f);
			if (*d->value[k].text)
				doctor_print_quoted(d->value[k].text, f);
			else
				print_number(d->value[k].number, f);
		}
		fputs("}}", f);
	}
	fputs("\n ]}\n", f);
}

void doctor_free(struct doctor_report *r)
{
	free(r->finding);
	memset(r, 0, sizeof(*r));
}

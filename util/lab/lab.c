/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Measurements and tests of our own, which users do not need: uccl_lab NAME. */
#include "../tool/tool.h"
#include "lab.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"

static const struct {
	const char *name, *about;
	int (*run)(int argc, char **argv);
} programs[] = {
	{"cost", "what flow and policies cost for a chunk", lab_cost},
	{"train", "what engines cost for a train of packets on UDP", lab_train},
	{"message", "what a short message costs a program", lab_message},
	{"verbs", "what large messages cost on RDMA NICs", lab_verbs},
	{"refuse", "what a hostile packet costs", lab_refuse},
	{"scatter", "what copies to many places of a GPU cost", lab_scatter},
	{"replay", "a list of transfers over real endpoints", lab_replay},
	{"ghost", "look for writes to buffers that are not posted any more", lab_ghost},
};

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_lab NAME [ARGUMENT...]\n"
		   "       uccl_lab NAME --help\n"
		   "       uccl_lab --help | --version\n");
	for (size_t i = 0; i < uccl_array_len(programs); i++)
		fprintf(f, "  %-8s %s\n", programs[i].name, programs[i].about);
	return f == stdout ? 0 : 2;
}

void lab_refused(const char *why)
{
	fprintf(stderr, "%s: %s; see %s --help\n", program_invocation_short_name, why, program_invocation_short_name);
	exit(2);
}

static bool is_place(const struct lab_option *o)
{
	return isupper((unsigned char)o->name[0]);
}

static void help(const struct lab_option *options, size_t n, const char *about)
{
	printf("usage: %s [OPTION VALUE...]", program_invocation_short_name);
	for (size_t i = 0; i < n; i++)
		if (is_place(&options[i]))
			printf(" [%s]", options[i].name);
	printf("\n%s\n", about);
	for (size_t i = 0; i < n; i++) {
		const struct lab_option *o = &options[i];
		char flag[32];

		if (o->letter)
			snprintf(flag, sizeof(flag), "-%c, --%s", o->letter, o->name);
		else
			snprintf(flag, sizeof(flag), "%s%s", is_place(o) ? "" : "--", o->name);
		printf("  %-16s %s", flag, o->help);
		if (o->number)
			printf(" (%llu)", (unsigned long long)*o->number);
		else if (*o->text)
			printf(" (%s)", *o->text);
		printf("\n");
	}
	exit(0);
}

static void option_set(const struct lab_option *o, const char *value)
{
	unsigned long long v;
	char why[128], *end;

	if (o->text) {
		*o->text = value;
		return;
	}
	v = strtoull(value, &end, 0);
	if (!isdigit((unsigned char)*value) || *end || v < o->least || v > o->most) {
		snprintf(why, sizeof(why), "%s is no number from %llu to %llu: %.40s", o->name,
			 (unsigned long long)o->least, (unsigned long long)o->most, value);
		lab_refused(why);
	}
	*o->number = v;
}

void lab_options(int argc, char **argv, const struct lab_option *options, size_t n, const char *about)
{
	size_t place = 0;

	for (int i = 1; i < argc; i++) {
		const struct lab_option *o = options;
		const char *arg = argv[i];

		if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
			help(options, n, about);
		if (*arg == '-') {
			while (o < options + n && (is_place(o) || strcmp(arg + 1 + (arg[1] == '-'), o->name)) &&
			       (!o->letter || arg[1] != o->letter || arg[2]))
				o++;
			if (o == options + n || ++i == argc)
				lab_refused(o == options + n ? "no such option" : "an option without a value");
		} else {
			for (; o < options + n && (!is_place(o) || (size_t)(o - options) < place); o++)
				;
			if (o == options + n)
				lab_refused("too many arguments");
			place = (size_t)(o - options) + 1;
		}
		option_set(o, argv[i]);
	}
}

uint64_t lab_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * UCCL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t lab_median(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_size);
	return n ? v[n / 2] : 0;
}

void lab_random(void *rng, void *buf, size_t len)
{
	for (uint8_t *p = buf; len; len--)
		*p++ = (uint8_t)uccl_rng_next(rng);
}

int main(int argc, char **argv)
{
	static char name[32];

	tool_begin("uccl_lab", argc, argv);
	for (size_t i = 0; argc > 1 && i < uccl_array_len(programs); i++)
		if (!strcmp(argv[1], programs[i].name)) {
			snprintf(name, sizeof(name), "uccl_lab %s", programs[i].name);
			program_invocation_short_name = name;
			return programs[i].run(argc - 1, argv + 1);
		}
	return usage(argc > 1 && !strcmp(argv[1], "--help") ? stdout : stderr);
}

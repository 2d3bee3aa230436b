/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Many paths are used, none carries half; one if that was asked for; dead ones are left: by what endpoints report. */
#include "conf.h"

#include <stdlib.h>

#define PATHS_MAX 1024
#define MESSAGES 20
#define MIB (1u << 20)

static uint64_t bytes[PATHS_MAX];

/* Messages, and then the reports. Returns how many paths carried at least `least` bytes of them. */
static unsigned int used(uint64_t least, unsigned int messages, uint64_t *most, uint64_t *sum)
{
	unsigned int n, count = 0;
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	for (uint32_t i = 0; i < messages * conf_factor; i++)
		conf_pair_talk(&p, MIB, i);
	conf_pair_close(&p);
	n = conf_paths(bytes, PATHS_MAX);
	*most = *sum = 0;
	for (unsigned int i = 0; i < n; i++) {
		count += bytes[i] >= least;
		*most = bytes[i] > *most ? bytes[i] : *most;
		*sum += bytes[i];
	}
	return count;
}

/* Where little is in flight, as at the start of each message, payload stays on one path (PROTOCOL R341): less than half. */
static void spread(void)
{
	uint64_t most, sum;
	unsigned int n = used(65536, MESSAGES, &most, &sum);

	conf_check(n >= 6, "%u paths carried 64 KiB", n);
	conf_check(most * 2 < sum, "one path carried %llu of %llu bytes", (unsigned long long)most,
		   (unsigned long long)sum);
}

static void one_path(void)
{
	uint64_t most, sum;
	unsigned int n = used(65536, MESSAGES, &most, &sum);

	conf_check(n == 1, "%u paths carried 64 KiB", n);
}

static void dead_paths(void)
{
	uint64_t most, sum, seen;

	used(1, 4, &most, &sum);
	seen = conf_counter("quarantined");
	conf_check(seen > 0, "no path was left");
}

static const struct conf_case cases[] = {
	{"spread-pow2", CONF_STATS " FI_UCCL_PATHS=16 FI_UCCL_PATH=pow2", spread},
	{"spread-rr", CONF_STATS " FI_UCCL_PATHS=16 FI_UCCL_PATH=rr", spread},
	{"spread-reps", CONF_STATS " FI_UCCL_PATHS=16 FI_UCCL_PATH=reps", spread},
	{"one-path", CONF_STATS " FI_UCCL_PATH=hash", one_path},
	/* By turns: reps, which goes back where it was well, may meet none of the three. */
	{"dead-paths",
	 CONF_STATS " FI_UCCL_PATH=rr FI_UCCL_FAULT=blackhole_path=3@0-,blackhole_path=5@0-,blackhole_path=9@0-",
	 dead_paths},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Drives a fuzz target without libFuzzer, so that `make check` runs it with any compiler: first every file of its
 * corpus (prov/uccl/test/fuzz/corpus/<target>/), or those named on the command line, then inputs made up from a
 * fixed seed, half of them mutations of the corpus. A finding is a crash, an assertion or a sanitizer's report.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define INPUT_MAX 4096
#define CORPUS_MAX 1024
#define ROUNDS_DEFAULT 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	uint8_t *data;
	size_t size;
};

static struct input corpus[CORPUS_MAX];
static size_t ncorpus;

static int file_run(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *buf;
	size_t n;

	if (!f) {
		perror(path);
		return 1;
	}
	buf = malloc(INPUT_MAX);
	if (!buf) {
		fclose(f);
		return 1;
	}
	n = fread(buf, 1, INPUT_MAX, f);
	fclose(f);
	LLVMFuzzerTestOneInput(buf, n);
	if (ncorpus == CORPUS_MAX) {
		free(buf);
		return 0;
	}
	corpus[ncorpus].data = buf;
	corpus[ncorpus].size = n;
	ncorpus++;
	return 0;
}

static int folder_run(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *ent;
	char name[4096 + 256 + 2];
	int bad = 0;

	if (!dir)
		return 0; /* a target may have no corpus */
	while ((ent = readdir(dir))) {
		if (ent->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, ent->d_name);
		bad |= file_run(name);
	}
	closedir(dir);
	return bad;
}

/* Lengths are drawn small most of the time: that is where headers end. */
static size_t input_make(struct uccl_rng *rng, uint8_t *out)
{
	static const uint8_t edge[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	size_t n = 0, i, edits;

	if (ncorpus && uccl_rng_below(rng, 2)) {
		const struct input *in = &corpus[uccl_rng_below(rng, ncorpus)];

		n = in->size;
		memcpy(out, in->data, n);
	} else {
		n = uccl_rng_below(rng, uccl_rng_below(rng, 8) ? 256 : INPUT_MAX);
		for (i = 0; i < n; i++)
			out[i] = (uint8_t)uccl_rng_next(rng);
	}
	edits = uccl_rng_below(rng, 8);
	while (n && edits--) {
		i = uccl_rng_below(rng, n);
		out[i] = uccl_rng_below(rng, 2) ? edge[uccl_rng_below(rng, sizeof(edge))] : (uint8_t)uccl_rng_next(rng);
	}
	if (n && !uccl_rng_below(rng, 4))
		n = uccl_rng_below(rng, n);
	return n;
}

int main(int argc, char **argv)
{
	const char *rounds_env = getenv("FUZZ_ROUNDS");
	const char *top = getenv("TOP_SRCDIR");
	const char *name = strrchr(argv[0], '/');
	unsigned long rounds = rounds_env ? strtoul(rounds_env, NULL, 10) : ROUNDS_DEFAULT;
	struct uccl_rng rng;
	char path[4096];
	unsigned long k;
	int i, bad = 0;

	name = name ? name + 1 : argv[0];
	if (!strncmp(name, "lt-", 3))
		name += 3;
	if (argc > 1) {
		for (i = 1; i < argc; i++)
			bad |= file_run(argv[i]);
		rounds = 0;
	} else {
		snprintf(path, sizeof(path), "%s/prov/uccl/test/fuzz/corpus/%s", top ? top : ".", name);
		bad |= folder_run(path);
	}

	uccl_rng_seed(&rng, 1);
	for (k = 0; k < rounds; k++) {
		/* A block of its own, exactly as long as the input, lets a sanitizer see the first byte too many. */
		uint8_t scratch[INPUT_MAX], *exact;
		size_t n = input_make(&rng, scratch);

		exact = malloc(n ? n : 1);
		if (!exact)
			return 1;
		memcpy(exact, scratch, n);
		LLVMFuzzerTestOneInput(exact, n);
		free(exact);
	}
	printf("%s: %zu files, %lu made-up inputs\n", name, ncorpus, rounds);
	while (ncorpus)
		free(corpus[--ncorpus].data);
	return bad;
}

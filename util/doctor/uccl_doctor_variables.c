/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which variables a report may tell. No I/O but printing. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"
#include "uccl_doctor_bundle.h"

#define SEPARATORS ",:; " /* of the parts of a value */

/* Names, or beginnings of names that end in a '*'. */
static const char *const listed[] = {
	"FI_*",		       "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_btl", "OMPI_MCA_mtl",
	"OMPI_MCA_pml",	       "PMI_RANK",	       "PMI_SIZE",	       "PMIX_RANK",    "MPICH_*",
	"SLURM_PROCID",	       "SLURM_NTASKS",	       "SLURM_NNODES",	       "NCCL_*",       "CUDA_VISIBLE_DEVICES",
	"OMP_NUM_THREADS",     "LANG",		       "LC_ALL",
};

/* What names of secrets have in them, in variables and in parts of their values. */
static const char *const secret[] = {"key", "token", "secret", "passw", "cred", "auth", "cookie", "private"};

/* Of our own variables that have such a word in them: policies of credit, no secret. */
static const char *const open_names[] = {"FI_UCCL_CREDIT"};

static bool has_word(const char *text, size_t len)
{
	for (size_t i = 0; i < uccl_array_len(secret); i++)
		for (size_t at = 0; at + strlen(secret[i]) <= len; at++)
			if (!strncasecmp(text + at, secret[i], strlen(secret[i])))
				return true;
	return false;
}

static bool name_is(const char *want, const char *name, size_t len)
{
	size_t n = strlen(want);

	if (want[n - 1] == '*')
		return len >= n - 1 && !strncmp(want, name, n - 1);
	return n == len && !strncmp(want, name, n);
}

bool doctor_bundle_listed(const char *name, size_t len)
{
	for (size_t i = 0; i < uccl_array_len(listed); i++)
		if (name_is(listed[i], name, len))
			return true;
	return false;
}

static bool may_be_secret(const char *name, size_t len)
{
	for (size_t i = 0; i < uccl_array_len(open_names); i++)
		if (name_is(open_names[i], name, len))
			return false;
	return has_word(name, len);
}

static bool part_is_secret(const char *part, size_t len)
{
	size_t key = strcspn(part, "=");

	return key < len && has_word(part, key);
}

/* A value, part by part: of a part whose key may name a secret only the key. What cannot be printed is '?'. */
static void value_print(const char *value, FILE *f)
{
	while (*value) {
		size_t len = strcspn(value, SEPARATORS);

		if (part_is_secret(value, len)) {
			fprintf(f, "%.*s=(left out)", (int)strcspn(value, "="), value);
		} else {
			for (size_t i = 0; i < len; i++)
				fputc(isprint((unsigned char)value[i]) ? value[i] : '?', f);
		}
		value += len;
		if (*value)
			fputc(*value++, f);
	}
}

bool doctor_bundle_hidden(const char *variable)
{
	size_t len = strcspn(variable, "=");

	if (may_be_secret(variable, len))
		return true;
	for (const char *at = variable + len; *at; at += strcspn(at, SEPARATORS)) {
		at++;
		if (part_is_secret(at, strcspn(at, SEPARATORS)))
			return true;
	}
	return false;
}

void doctor_bundle_variables(char *const *env, FILE *f)
{
	for (; *env; env++) {
		size_t len = strcspn(*env, "=");

		if (!doctor_bundle_listed(*env, len) || (*env)[len] != '=')
			continue;
		fprintf(f, "%.*s=", (int)len, *env);
		if (may_be_secret(*env, len))
			fputs("(left out)", f);
		else
			value_print(*env + len + 1, f);
		fputc('\n', f);
	}
}

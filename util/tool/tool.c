/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "tool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *tool_name = "uccl";

static void output_close(void)
{
	bool failed = ferror(stdout);

	errno = 0;
	/* A standard output that was closed from the beginning is not an error, unless something was written to it. */
	if (fclose(stdout) && errno != EBADF)
		failed = true;
	if (!failed)
		return;
	fprintf(stderr, "%s: cannot write to standard output%s%s\n", tool_name, errno ? ": " : "",
		errno ? strerror(errno) : "");
	_exit(EXIT_FAILURE);
}

void tool_begin(const char *name, int argc, char **argv)
{
	tool_name = name;
	atexit(output_close);
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (strcmp(argv[i], "--version"))
			continue;
		printf("%s (uccl) " PACKAGE_VERSION "\n", name);
		exit(EXIT_SUCCESS);
	}
}

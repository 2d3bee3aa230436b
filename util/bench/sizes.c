/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "sizes.h"

#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

#define SIZE_MOST (1ul << 30)

int sizes_parse(char *text, size_t *size, int max)
{
	char *word;
	int n = 0;

	for (word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		char *end;
		unsigned long bytes = strtoul(word, &end, 10);

		if (*end == 'k' || *end == 'K')
			bytes <<= 10, end++;
		else if (*end == 'm' || *end == 'M')
			bytes <<= 20, end++;
		if (end == word || *end || bytes > SIZE_MOST || n == max)
			die("bad size: %s", word);
		size[n++] = bytes;
	}
	return n;
}

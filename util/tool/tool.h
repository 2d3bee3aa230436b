/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What all programs of util/ have in common. */
#ifndef UCCL_UTIL_TOOL_H
#define UCCL_UTIL_TOOL_H

/*
 * To be called first in main. With --version among the arguments, print the version and end. At the end of the program,
 * output that could not be written (a full disk) becomes a line on standard error and the exit status 1.
 */
void tool_begin(const char *name, int argc, char **argv);

#endif

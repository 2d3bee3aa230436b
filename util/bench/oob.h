/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A TCP connection beside the transport, over which the two sides of a test talk. Failures end in die(). */
#ifndef UCCL_UTIL_OOB_H
#define UCCL_UTIL_OOB_H

#include <stdbool.h>
#include <stddef.h>

struct oob {
	int fd;
	/* Called while oob_recv waits, as the other side may need an answer of the transport's; NULL: it just waits. */
	void (*progress)(void *arg);
	void *arg;
};

/* Connect to this host, or wait for a connection (NULL). */
void oob_open(struct oob *o, const char *host, const char *port, bool v6);
void oob_send(const struct oob *o, const void *buf, size_t len);
void oob_recv(const struct oob *o, void *buf, size_t len);
/* The address that the other side reached us by, as text. */
void oob_local(const struct oob *o, char *node, size_t size);
/* What the other side has sent, if it is there in whole. */
bool oob_ready(const struct oob *o, void *buf, size_t len);
/* Both sides have come so far. */
void oob_barrier(const struct oob *o);

#endif

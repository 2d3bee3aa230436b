/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What reached this host, and was thrown away because the receiving socket's queue was full. */
#include <inttypes.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/units.h"
#include "uccl_doctor_side.h"

#define ROW 512

/* A row of names and a row of values below it. */
static uint64_t value_named(char *names, char *values, const char *want)
{
	char *a, *b, *name = strtok_r(names, " \n", &a), *value = strtok_r(values, " \n", &b);

	while (name && value && strcmp(name, want)) {
		name = strtok_r(NULL, " \n", &a);
		value = strtok_r(NULL, " \n", &b);
	}
	return name && value ? strtoull(value, NULL, 10) : 0;
}

/* UDP messages that found a full queue, of all sockets of this network namespace. */
static uint64_t overflows_of_all(bool v4)
{
	FILE *f = fopen(v4 ? "/proc/net/snmp" : "/proc/net/snmp6", "re");
	char line[ROW], names[ROW] = "";
	uint64_t n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (!v4 && sscanf(line, "Udp6RcvbufErrors %" SCNu64, &n) == 1)
			break;
		if (!v4 || strncmp(line, "Udp:", 4))
			continue;
		if (*names) {
			n = value_named(names, line, "RcvbufErrors");
			break;
		}
		memcpy(names, line, sizeof(names));
	}
	if (f)
		fclose(f);
	return n;
}

static uint32_t drops_of(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) ? 0 : info[SK_MEMINFO_DROPS];
}

void doctor_queue_begin(struct doctor_side *s)
{
	s->queue.drops = drops_of(s->rx);
	s->queue.overflows = overflows_of_all(uccl_ifaddr_is_v4(&s->self));
	s->queue.merged = 1;
}

uint32_t doctor_queue_overflowed(const struct doctor_side *s)
{
	/*
	 * A socket's drops include packets with wrong checksums: those were lost on the way. The namespace has other
	 * sockets. So it is the lesser of the two.
	 */
	uint64_t messages = uccl_min((uint32_t)(drops_of(s->rx) - s->queue.drops),
				     overflows_of_all(uccl_ifaddr_is_v4(&s->self)) - s->queue.overflows);

	/* What was merged on the way up (UDP_GRO) is dropped, and counted, as one. */
	return (uint32_t)uccl_min(messages * s->queue.merged, DOCTOR_RUN_PACKETS);
}

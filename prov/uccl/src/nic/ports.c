/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/ports.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

/* Digits only: strtoul() would take blanks and signs. Returns what follows, NULL: no port. */
static const char *port_read(const char *text, uint16_t *out)
{
	unsigned long value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return NULL;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || !value || value > UINT16_MAX)
		return NULL;
	*out = (uint16_t)value;
	return end;
}

int uccl_ports_parse(const char *text, struct uccl_ports *out)
{
	struct uccl_ports p = {0};

	if (*text) {
		text = port_read(text, &p.first);
		if (!text || *text != '-')
			return -FI_EINVAL;
		text = port_read(text + 1, &p.last);
		if (!text || *text || p.first >= p.last)
			return -FI_EINVAL;
	}
	*out = p;
	return 0;
}

struct uccl_ports_walk uccl_ports_walk(void)
{
	struct uccl_ports_walk walk = {0};

	/* Without randomness all begin at the first port: slower, not wrong. */
	if (getrandom(&walk.start, sizeof(walk.start), GRND_NONBLOCK) != sizeof(walk.start))
		walk.start = 0;
	return walk;
}

uint16_t uccl_ports_next(const struct uccl_ports *ports, struct uccl_ports_walk *walk)
{
	uint32_t n = uccl_ports_count(ports);

	return walk->tried < n ? (uint16_t)(ports->first + (walk->start % n + walk->tried++) % n) : 0;
}

static in_port_t *port_of(struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)sa)->sin6_port :
					   &((struct sockaddr_in *)sa)->sin_port;
}

int uccl_ports_bind(int fd, const struct sockaddr_storage *at, socklen_t len, const struct uccl_ports *ports,
		    struct uccl_ports_walk *walk)
{
	struct sockaddr_storage sa = *at;
	in_port_t *port = port_of(&sa);

	if (*port || !uccl_ports_limited(ports))
		return bind(fd, (struct sockaddr *)&sa, len) ? -errno : 0;
	while ((*port = htons(uccl_ports_next(ports, walk)))) {
		if (!bind(fd, (struct sockaddr *)&sa, len))
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -FI_EADDRINUSE;
}

/* Sockets of a network namespace, as the system counts them. */
static bool sockets_count(int family, uint32_t *n)
{
	const char *name = family == AF_INET6 ? "UDP6: inuse" : "UDP: inuse";
	FILE *f = fopen(family == AF_INET6 ? "/proc/net/sockstat6" : "/proc/net/sockstat", "re");
	size_t len = strlen(name);
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, name, len) && sscanf(line + len, "%" SCNu32, n) == 1;
	if (f)
		fclose(f);
	return found;
}

static bool range_read(uint32_t *first, uint32_t *last)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	bool read = f && fscanf(f, "%" SCNu32 " %" SCNu32, first, last) == 2 && *first <= *last;

	if (f)
		fclose(f);
	return read;
}

bool uccl_ports_spare(int family)
{
	uint32_t used, first, last;

	return !range_read(&first, &last) || !sockets_count(family, &used) || used < (last - first + 1) / 4 * 3;
}

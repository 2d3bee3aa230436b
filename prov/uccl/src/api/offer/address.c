/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address formats. fi_info.src_addr of an endpoint that may take any port has port 0, which the 56-byte form refuses on
 * purpose (nobody can send there); it is written as port 1 with an incarnation that no endpoint has.
 */
#include "api/offer/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/fi_ext_uccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "api/lib/lib.h"
#include "api/offer/persona.h"
#include "base/units.h"
#include "nic/ifaddr.h"

#define ANY_PORT 1
#define ANY_INCARNATION UINT64_MAX

bool uccl_address_format_ok(uint32_t format)
{
	return format == FI_ADDR_UCCL || uccl_address_is_sock(format);
}

bool uccl_address_is_sock(uint32_t format)
{
	return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

static int format_family(uint32_t format)
{
	return format == FI_SOCKADDR_IN ? AF_INET : format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_UNSPEC;
}

uint32_t uccl_address_format_default(void)
{
	static const struct {
		const char *name;
		uint32_t format;
	} socks[] = {
		{ "FI_SOCKADDR", FI_SOCKADDR },
		{ "FI_SOCKADDR_IN", FI_SOCKADDR_IN },
		{ "FI_SOCKADDR_IN6", FI_SOCKADDR_IN6 },
	};
	char *name = NULL;

	/* A library that has no such filter does not know the variable either. */
	if (uccl_lib.param_get(NULL, "addr_format", &name) || !name)
		return uccl_persona_format();
	for (size_t i = 0; i < uccl_array_len(socks); i++)
		if (!strcasecmp(name, socks[i].name))
			return socks[i].format;
	uccl_info(FI_LOG_CORE,
		  "FI_ADDR_FORMAT=%s: this provider has FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6 and its own\n",
		  name);
	return uccl_persona_format();
}

uint32_t uccl_address_format_family(uint32_t format, const struct uccl_nic_addr *nic)
{
	return format != FI_SOCKADDR ? format : uccl_ifaddr_is_v4(nic) ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
}

size_t uccl_address_len(uint32_t format, const struct uccl_nic_addr *nic)
{
	switch (format) {
	case FI_ADDR_UCCL:
		return UCCL_ADDR_LEN;
	case FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	case FI_SOCKADDR:
		return uccl_ifaddr_is_v4(nic) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	default:
		return sizeof(struct sockaddr_in);
	}
}

int uccl_address_pack(uint32_t format, const struct uccl_addr *a, void *buf, size_t *len)
{
	uint8_t own[UCCL_ADDR_LEN];
	struct sockaddr_storage ss;
	size_t room = *len;
	const void *src;

	if (format == FI_ADDR_UCCL) {
		struct uccl_addr any = *a;

		if (!any.nic.port) {
			any.nic.port = ANY_PORT;
			any.incarnation = ANY_INCARNATION;
		}
		uccl_addr_encode(own, &any);
		src = own;
		*len = sizeof(own);
	} else {
		*len = uccl_ifaddr_to_sock(&ss, &a->nic, format_family(format));
		src = &ss;
		if (!*len)
			return -FI_EINVAL;
	}
	if (room)
		memcpy(buf, src, uccl_min(room, *len));
	return room < *len ? -FI_ETOOSMALL : 0;
}

int uccl_address_new(uint32_t format, const struct uccl_addr *a, void **out, size_t *len)
{
	int rc;

	*len = uccl_address_len(format, &a->nic);
	*out = malloc(*len);
	if (!*out)
		return -FI_ENOMEM;
	rc = uccl_address_pack(format, a, *out, len);
	if (rc) {
		free(*out);
		*out = NULL;
		*len = 0;
	}
	return rc;
}

int uccl_address_unpack(uint32_t format, const void *buf, size_t len, struct uccl_addr *a, size_t *used)
{
	sa_family_t family;
	size_t need;
	int rc;

	if (!buf)
		return -FI_EINVAL;
	if (format == FI_ADDR_UCCL) {
		if (used)
			*used = UCCL_ADDR_LEN;
		if (len < UCCL_ADDR_LEN)
			return -FI_EINVAL;
		rc = uccl_addr_decode(a, buf);
		if (!rc && a->incarnation == ANY_INCARNATION && a->nic.port == ANY_PORT) {
			a->incarnation = 0;
			a->nic.port = 0;
		}
		return rc;
	}
	/* The slot of a foreign family is as the format defines it, so that its neighbours can still be read. */
	if (used)
		*used = format == FI_SOCKADDR_IN6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	if (len < sizeof(family))
		return -FI_EINVAL;
	memcpy(&family, buf, sizeof(family));
	if (family != AF_INET && family != AF_INET6)
		return -FI_EINVAL;
	if (format_family(format) != AF_UNSPEC && family != format_family(format))
		return -FI_EINVAL;
	need = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (used)
		*used = need;
	if (len < need)
		return -FI_EINVAL;
	memset(a, 0, sizeof(*a));
	return uccl_ifaddr_from_sock(&a->nic, buf, need);
}

/* A number that is no port: getaddrinfo() would take its lower 16 bits. */
static bool port_too_large(const char *service)
{
	char *end;
	unsigned long v;

	if (!service || *service < '0' || *service > '9')
		return false;
	errno = 0;
	v = strtoul(service, &end, 10);
	return !*end && (errno || v > UINT16_MAX);
}

/* The parts of a text address. */
struct text_addr {
	int family;
	char node[NI_MAXHOST], service[NI_MAXSERV];
};

/* Names of the formats in text addresses; fi_av_straddr writes the two with a family of their own. */
static const struct {
	const char *name;
	int family;
} text_formats[] = {
	{ "fi_sockaddr_in", AF_INET },
	{ "fi_sockaddr_in6", AF_INET6 },
	{ "fi_sockaddr", AF_UNSPEC },
};

static bool text_copy(char *out, size_t size, const char *from, size_t len)
{
	if (len >= size)
		return false;
	memcpy(out, from, len);
	out[len] = '\0';
	return true;
}

/* What follows "://": a node, which an IPv6 address brackets, and a service behind a colon. Either may be absent. */
static bool text_split(const char *s, struct text_addr *t)
{
	bool bracket = *s == '[';
	size_t len;

	s += bracket;
	len = strcspn(s, bracket ? "]" : ":/?");
	if (!text_copy(t->node, sizeof(t->node), s, len))
		return false;
	s += len;
	if (bracket && *s++ != ']')
		return false;
	if (!*s)
		return *t->node;
	len = strcspn(s, "/?");
	return *s == ':' && len > 1 && !s[len] && text_copy(t->service, sizeof(t->service), s + 1, len - 1);
}

/*
 * Read a text address (FI_ADDR_STR in fi_getinfo(3)). One with a field or an option behind the service is refused:
 * what they ask for would not be done. The text of the provider's own format has no key, so it is no address.
 */
static bool text_parse(const char *text, struct text_addr *t)
{
	size_t len = strstr(text, "://") - text;

	memset(t, 0, sizeof(*t));
	for (size_t i = 0; i < uccl_array_len(text_formats); i++) {
		if (strlen(text_formats[i].name) != len || strncmp(text_formats[i].name, text, len))
			continue;
		t->family = text_formats[i].family;
		return text_split(text + len + 3, t);
	}
	return false;
}

bool uccl_address_is_text(const char *node)
{
	return node && strstr(node, "://");
}

int uccl_address_resolve(const char *node, const char *service, uint32_t format, bool numeric, bool passive,
			 struct uccl_nic_addr *out, int max)
{
	struct addrinfo hints = { .ai_family = format_family(format), .ai_socktype = SOCK_DGRAM };
	struct addrinfo *list, *ai;
	struct text_addr text;
	int rc, n = 0;

	if (uccl_address_is_text(node)) {
		if (service || !text_parse(node, &text) ||
		    (hints.ai_family && text.family && hints.ai_family != text.family)) {
			uccl_info(FI_LOG_CORE, "%s%s: not the text of a socket address of this format\n", node,
				  service ? " with a service beside it" : "");
			return -FI_ENODATA;
		}
		hints.ai_family = text.family ? text.family : hints.ai_family;
		node = *text.node ? text.node : NULL;
		service = *text.service ? text.service : NULL;
	}
	hints.ai_flags = (numeric ? AI_NUMERICHOST : 0) | (passive ? AI_PASSIVE : 0);
	rc = port_too_large(service) ? EAI_SERVICE : getaddrinfo(node, service, &hints, &list);
	if (rc) {
		uccl_info(FI_LOG_CORE, "node %s service %s: %s\n", node ? node : "(none)",
			  service ? service : "(none)", gai_strerror(rc));
		return -FI_ENODATA;
	}
	for (ai = list; ai && n < max; ai = ai->ai_next)
		if (!uccl_ifaddr_from_sock(&out[n], ai->ai_addr, ai->ai_addrlen))
			n++;
	freeaddrinfo(list);
	return n ? n : -FI_ENODATA;
}

void uccl_address_ip_text(const struct uccl_nic_addr *a, char *buf, size_t size)
{
	struct sockaddr_storage ss;
	const void *ip = &((struct sockaddr_in6 *)&ss)->sin6_addr;

	if (!size)
		return;
	buf[0] = '\0';
	if (!uccl_ifaddr_to_sock(&ss, a, AF_UNSPEC))
		return;
	if (ss.ss_family == AF_INET)
		ip = &((struct sockaddr_in *)&ss)->sin_addr;
	if (!inet_ntop(ss.ss_family, ip, buf, size))
		buf[0] = '\0';
}

size_t uccl_address_place_text(const struct uccl_nic_addr *a, char *buf, size_t size)
{
	char ip[INET6_ADDRSTRLEN];

	uccl_address_ip_text(a, ip, sizeof(ip));
	if (a->pad)
		return snprintf(buf, size, "[%s]/qp%u", ip, a->scope & 0xffffff);
	return snprintf(buf, size, uccl_ifaddr_is_v4(a) ? "%s:%u" : "[%s]:%u", ip, a->port);
}

size_t uccl_address_text(const struct uccl_addr *a, char *buf, size_t size)
{
	char place[UCCL_ADDRESS_TEXT];

	uccl_address_place_text(&a->nic, place, sizeof(place));
	return snprintf(buf, size, "fi_addr_uccl://%s/%016llx", place, (unsigned long long)a->incarnation);
}

size_t uccl_address_straddr(uint32_t format, const void *addr, char *buf, size_t size)
{
	char place[UCCL_ADDRESS_TEXT];
	struct uccl_addr a;
	bool v4;

	if (uccl_address_unpack(format, addr, SIZE_MAX, &a, NULL))
		return snprintf(buf, size, "%s://(not an address)",
				uccl_address_is_sock(format) ? "fi_sockaddr" : "fi_addr_uccl");
	if (!uccl_address_is_sock(format))
		return uccl_address_text(&a, buf, size);
	v4 = uccl_ifaddr_is_v4(&a.nic);
	uccl_address_place_text(&a.nic, place, sizeof(place));
	/* The family is that of the format: an IPv4 address in a socket address of IPv6 is mapped. */
	if (v4 && format == FI_SOCKADDR_IN6)
		return snprintf(buf, size, "fi_sockaddr_in6://[::ffff:%.*s]:%u", (int)strcspn(place, ":"), place,
				a.nic.port);
	return snprintf(buf, size, "fi_sockaddr_%s://%s", v4 ? "in" : "in6", place);
}

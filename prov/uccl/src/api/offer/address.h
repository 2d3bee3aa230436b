/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Addresses as they cross libfabric's interface: the provider's own 56 bytes, or socket addresses. */
#ifndef UCCL_API_ADDRESS_H
#define UCCL_API_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow/wire/addr.h"

/* Longest text of an address, with its end. */
#define UCCL_ADDRESS_TEXT 96

/* True for the formats that the provider can speak. */
bool uccl_address_format_ok(uint32_t format);
/* True for formats of socket addresses, which have no key. */
bool uccl_address_is_sock(uint32_t format);
/*
 * The format for a program whose hints name none: FI_ADDR_UCCL, or that of FI_ADDR_FORMAT. This variable of libfabric
 * 2.7 drops all offers with another format.
 */
uint32_t uccl_address_format_default(void);
/* FI_SOCKADDR becomes the format of this address's family. */
uint32_t uccl_address_format_family(uint32_t format, const struct uccl_nic_addr *nic);
/* Bytes of an address in this format. FI_SOCKADDR: it depends on the family of `nic`. */
size_t uccl_address_len(uint32_t format, const struct uccl_nic_addr *nic);

/*
 * Write an address in `format` to buf, at most *len bytes of it; *len becomes the whole length. -FI_ETOOSMALL: it did
 * not fit. -FI_EINVAL: the format cannot name it. A port of 0 ("any", in fi_info.src_addr) is allowed.
 */
int uccl_address_pack(uint32_t format, const struct uccl_addr *a, void *buf, size_t *len);
/* As uccl_address_pack(), into new memory, which the caller frees; *out is NULL after an error. -FI_ENOMEM. */
int uccl_address_new(uint32_t format, const struct uccl_addr *a, void **out, size_t *len);
/*
 * Read one. `len` is what may be read (SIZE_MAX: as much as the format needs); *used, if not NULL, becomes the
 * bytes that it takes. -FI_EINVAL: not an address.
 */
int uccl_address_unpack(uint32_t format, const void *buf, size_t len, struct uccl_addr *a, size_t *used);

/* True if `node` is the text of an address, "format://...". False for NULL. */
bool uccl_address_is_text(const char *node);
/*
 * Resolve node and service, either of which may be NULL (not both). A node may be the text of a socket address,
 * "fi_sockaddr_in://192.0.2.1:7000"; then there is no service beside it. `format` restricts the family, `numeric`
 * forbids name look-ups, `passive` makes a NULL node the wildcard instead of the loopback address. Returns how many
 * addresses were written to out, at least 1, or -FI_ENODATA.
 */
int uccl_address_resolve(const char *node, const char *service, uint32_t format, bool numeric, bool passive,
			 struct uccl_nic_addr *out, int max);

/*
 * "fi_addr_uccl://192.0.2.1:7000/0123456789abcdef", with the incarnation and without the key; IPv6 in brackets. Cut to
 * size bytes with an end. Returns the length it needs without the end.
 */
size_t uccl_address_text(const struct uccl_addr *a, char *buf, size_t size);
/*
 * As uccl_address_text(), for an address in `format`. A socket address is "fi_sockaddr_in://192.0.2.1:7000" or
 * "fi_sockaddr_in6://[2001:db8::1]:7000", as libfabric's other providers write it. For bytes that are no address the
 * text says so.
 */
size_t uccl_address_straddr(uint32_t format, const void *addr, char *buf, size_t size);
/* "192.0.2.1:7000" */
size_t uccl_address_place_text(const struct uccl_nic_addr *a, char *buf, size_t size);
/* "192.0.2.1" */
void uccl_address_ip_text(const struct uccl_nic_addr *a, char *buf, size_t size);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_UCCL_ALIAS: some programs know only certain providers. Under the name of one of them the provider shows what
 * programs know that one by. The table is in persona.c, and no other file depends on which names there are.
 */
#ifndef UCCL_API_PERSONA_H
#define UCCL_API_PERSONA_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic/ifaddr.h"

/*
 * Choose, while the provider loads. NULL or "": the provider's own name. False, and a warning: this name cannot be
 * borrowed, and the provider has its own.
 */
bool uccl_persona_begin(const char *alias);

/* The name by which the library registers the provider. */
const char *uccl_persona_name(void);
bool uccl_persona_borrowed(void);

/* The prefix that libfabric puts before the borrowed name in answers; NULL: none. */
const char *uccl_persona_core(void);

/* Called for each fi_getinfo. False: it asks for another provider, whose name (may be NULL) is not this one's. */
bool uccl_persona_wanted(const char *prov_name);

/* Called when the library unloads the provider: warn if it never asked a provider that has an alias. */
void uccl_persona_end(void);

/* True if a program may ask for this protocol. The protocol of the answer. */
bool uccl_persona_protocol_ok(uint32_t asked);
uint32_t uccl_persona_protocol(uint32_t asked);

/* Format of addresses where the program and the library's filter leave it open. */
uint32_t uccl_persona_format(void);

/* The name of a domain on this interface; `asked` (may be NULL) is the name that the program gave. */
void uccl_persona_domain(const char *interface, const char *asked, char out[UCCL_IFADDR_NAME]);
/* The interface of a domain of this name. */
void uccl_persona_interface(const char *domain, char out[UCCL_IFADDR_NAME]);

/*
 * Options of the other provider. 0: what the option promises always holds here. -FI_EOPNOTSUPP: this value's promise
 * does not. -FI_ENOPROTOOPT: the option is not known.
 */
int uccl_persona_setopt(int name, const void *optval, size_t optlen);
/* The value of a boolean option of the other provider. -FI_ENOPROTOOPT. */
int uccl_persona_getopt(int name, bool *value);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the program chose for an endpoint: by fi_info at the open, by fi_setopt afterwards. */
#ifndef UCCL_API_OPTION_H
#define UCCL_API_OPTION_H

#include "api/object/ep_object.h"

/* Take over what the program chose in `info`. `dirs`: UCCL_TX, UCCL_RX or both. */
void uccl_ep_configure(struct uccl_ep *ep, const struct fi_info *info, uint8_t dirs);
/* A context of a scalable endpoint has an own size: most operations that may be open. */
void uccl_ep_set_size(struct uccl_ep *ep, size_t size);

/* fi_getopt and fi_setopt. */
int uccl_ep_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen);
int uccl_ep_setopt(fid_t fid, int level, int name, const void *optval, size_t optlen);

/* Return `value`, an option of type size_t, as fi_getopt(3) does. 0, or -FI_ETOOSMALL: *optlen is too small. */
int uccl_ep_give_size(void *optval, size_t *optlen, size_t value);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_getopt and fi_setopt. */
#ifndef UCCL_API_OPTION_H
#define UCCL_API_OPTION_H

#include "api/object/ep_object.h"

int uccl_ep_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen);
int uccl_ep_setopt(fid_t fid, int level, int name, const void *optval, size_t optlen);

/* Return `value`, an option of type size_t, as fi_getopt(3) does. 0, or -FI_ETOOSMALL: *optlen is too small. */
int uccl_ep_give_size(void *optval, size_t *optlen, size_t value);

#endif

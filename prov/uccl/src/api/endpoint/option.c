/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/endpoint/option.h"

#include <rdma/fi_ext_uccl.h>
#include <string.h>

#include "api/endpoint/cm.h"
#include "api/object/domain.h"
#include "api/offer/attr.h"
#include "api/offer/place.h"

/* Options of libfabric versions after 1.17. */
#define OPT_CUDA_API_PERMITTED 10
#define OPT_SHARED_MEMORY_PERMITTED 11
#define OPT_MAX_MSG_SIZE 12
#define OPT_MAX_TAGGED_SIZE 13
#define OPT_MAX_RMA_SIZE 14
#define OPT_MAX_ATOMIC_SIZE 15
#define OPT_INJECT_MSG_SIZE 16
#define OPT_INJECT_TAGGED_SIZE 17
#define OPT_INJECT_RMA_SIZE 18
#define OPT_INJECT_ATOMIC_SIZE 19

int uccl_ep_give_size(void *optval, size_t *optlen, size_t value)
{
	if (*optlen < sizeof(value)) {
		*optlen = sizeof(value);
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

static int give_bool(void *optval, size_t *optlen, bool value)
{
	if (*optlen < sizeof(value)) {
		*optlen = sizeof(value);
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

static int give_p2p(const struct uccl_ep *ep, void *optval, size_t *optlen)
{
	int p2p = ep->direct ? FI_HMEM_P2P_ENABLED : FI_HMEM_P2P_DISABLED;

	if (*optlen < sizeof(p2p)) {
		*optlen = sizeof(p2p);
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &p2p, sizeof(p2p));
	*optlen = sizeof(p2p);
	return 0;
}

/* Small messages, and all that is sent, are copied even where NICs write to devices: so it cannot be required. */
static int take_p2p(struct uccl_ep *ep, const void *optval, size_t optlen)
{
	int p2p;

	if (optlen != sizeof(p2p))
		return -FI_EINVAL;
	memcpy(&p2p, optval, sizeof(p2p));
	if (p2p < FI_HMEM_P2P_ENABLED || p2p > FI_HMEM_P2P_DISABLED)
		return -FI_EINVAL;
	if (p2p == FI_HMEM_P2P_REQUIRED)
		return -FI_EOPNOTSUPP;
	/* What was granted to peers cannot be taken back. */
	if (ep->stage && p2p == FI_HMEM_P2P_DISABLED && ep->direct)
		return -FI_EOPBADSTATE;
	if (!ep->stage)
		ep->direct = p2p != FI_HMEM_P2P_DISABLED && uccl_place_rdma(&ep->domain->params);
	return 0;
}

/* Without calls of CUDA memory of GPUs cannot be reached; who has none of it may forbid them. */
static int take_cuda(const struct uccl_ep *ep, const void *optval, size_t optlen)
{
	bool may;

	if (optlen != sizeof(may))
		return -FI_EINVAL;
	memcpy(&may, optval, sizeof(may));
	return ep->hmem && !may ? -FI_EOPNOTSUPP : 0;
}

/* The most that can be asked for in options of a size, which is what an endpoint has; 0: no such option. */
static size_t opt_size(const struct uccl_ep *ep, int name)
{
	switch (name) {
	case OPT_MAX_MSG_SIZE:
		return ep->msg_max;
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE:
		return UCCL_MSG_MAX;
	case OPT_MAX_ATOMIC_SIZE:
		return UCCL_ORDER_MAX;
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE:
	case OPT_INJECT_ATOMIC_SIZE:
		return ep->inject_max;
	case FI_OPT_TX_SIZE:
		return ep->tx_size;
	case FI_OPT_RX_SIZE:
		return ep->rx_size;
	default:
		return 0;
	}
}

int uccl_ep_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_MIN_MULTI_RECV)
		return uccl_ep_give_size(optval, optlen, ep->min_multi);
	if (name == OPT_CUDA_API_PERMITTED || name == OPT_SHARED_MEMORY_PERMITTED)
		return give_bool(optval, optlen, name == OPT_CUDA_API_PERMITTED && ep->hmem);
	if (name == FI_OPT_FI_HMEM_P2P && ep->hmem)
		return give_p2p(ep, optval, optlen);
	if (name == FI_OPT_CM_DATA_SIZE && ep->cm)
		return uccl_ep_give_size(optval, optlen, UCCL_CM_DATA_MAX);
	return opt_size(ep, name) ? uccl_ep_give_size(optval, optlen, opt_size(ep, name)) : -FI_ENOPROTOOPT;
}

/* Allowing or forbidding what is never done changes nothing, and so does asking for less than there is. */
int uccl_ep_setopt(fid_t fid, int level, int name, const void *optval, size_t optlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;
	size_t size;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == OPT_CUDA_API_PERMITTED)
		return take_cuda(ep, optval, optlen);
	if (name == OPT_SHARED_MEMORY_PERMITTED)
		return optlen == sizeof(bool) ? 0 : -FI_EINVAL;
	if (name == FI_OPT_FI_HMEM_P2P && ep->hmem)
		return take_p2p(ep, optval, optlen);
	if (name != FI_OPT_MIN_MULTI_RECV && !opt_size(ep, name))
		return -FI_ENOPROTOOPT;
	if (optlen != sizeof(size))
		return -FI_EINVAL;
	memcpy(&size, optval, sizeof(size));
	if (name != FI_OPT_MIN_MULTI_RECV)
		return size <= opt_size(ep, name) ? 0 : -FI_EINVAL;
	ep->min_multi = size;
	return 0;
}

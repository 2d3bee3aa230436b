/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "api/endpoint/option.h"

#include <rdma/fi_ext_uccl.h>
#include <string.h>

#include "api/endpoint/cm.h"
#include "api/object/domain.h"
#include "api/offer/attr.h"
#include "api/offer/persona.h"
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

void uccl_ep_configure(struct uccl_ep *ep, const struct fi_info *info, uint8_t dirs)
{
	const struct fi_tx_attr *tx = info->tx_attr;
	const struct fi_rx_attr *rx = info->rx_attr;
	uint64_t tx_caps = tx && tx->caps ? tx->caps : info->caps;
	uint64_t rx_caps = rx && rx->caps ? rx->caps : info->caps;

	if (!info->caps)
		tx_caps = rx_caps = ~0ull;
	ep->attr.dirs = dirs;
	/* FI_SEND and FI_RECV have no meaning without messages. No capabilities at all mean all of them. */
	ep->attr.can_send = tx_caps & FI_SEND && tx_caps & (FI_MSG | FI_TAGGED);
	ep->attr.can_recv = rx_caps & FI_RECV && rx_caps & (FI_MSG | FI_TAGGED);
	ep->attr.can_rma = tx_caps & (FI_RMA | FI_ATOMIC) && !ep->attr.can_send;
	ep->attr.rx_shared = info->ep_attr && info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->attr.data_takes = (info->mode | (rx ? rx->mode : 0)) & FI_RX_CQ_DATA;
	ep->attr.directed = !ep->cm && rx_caps & FI_DIRECTED_RECV;
	ep->attr.source_err = !ep->cm && info->caps && (rx_caps | info->caps) & FI_SOURCE_ERR;
	ep->attr.source = rx_caps & FI_SOURCE || info->caps & FI_SOURCE;
	memcpy(ep->attr.group, ep->domain->group, sizeof(ep->attr.group));
	if (info->ep_attr && info->ep_attr->auth_key_size)
		uccl_domain_group(ep->attr.group, info->ep_attr->auth_key, info->ep_attr->auth_key_size);
	ep->attr.tx_size = tx && tx->size ? tx->size : UCCL_OPS_DEFAULT;
	ep->attr.rx_size = rx && rx->size ? rx->size : UCCL_OPS_DEFAULT;
	ep->attr.msg_max = UCCL_MSG_MAX;
	if (info->ep_attr && info->ep_attr->type == FI_EP_DGRAM && info->ep_attr->max_msg_size)
		ep->attr.msg_max = uccl_min(ep->attr.msg_max, info->ep_attr->max_msg_size);
	ep->attr.inject_max = uccl_min(ep->attr.msg_max, ep->domain->params.inject_bytes);
	ep->attr.min_multi = UCCL_MIN_MULTI_DEFAULT;
	ep->attr.op_timeout_ns = ep->domain->params.conn.op_timeout_ns;
	/* Peers reach all regions of the domain through each of its endpoints. */
	if (info->caps & FI_HMEM)
		uccl_domain_find_devices(ep->domain);
	ep->attr.hmem = ep->domain->hmem;
	ep->attr.direct = ep->attr.hmem && uccl_place_rdma(&ep->domain->params);
	ep->attr.addr_format = info->addr_format ? info->addr_format : ep->domain->addr_format;
}

void uccl_ep_set_size(struct uccl_ep *ep, size_t size)
{
	if (ep->attr.dirs & UCCL_RX)
		ep->attr.rx_size = (uint32_t)size;
	else
		ep->attr.tx_size = (uint32_t)size;
}

static int give(void *optval, size_t *optlen, const void *value, size_t size)
{
	bool fits = *optlen >= size;

	*optlen = size;
	if (!fits)
		return -FI_ETOOSMALL;
	memcpy(optval, value, size);
	return 0;
}

int uccl_ep_give_size(void *optval, size_t *optlen, size_t value)
{
	return give(optval, optlen, &value, sizeof(value));
}

/* Small messages, and everything sent, are copied even if NICs write to devices. So it cannot be required. */
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
	/* Peers have keys already, which cannot be revoked. */
	if (ep->run.stage && p2p == FI_HMEM_P2P_DISABLED && ep->attr.direct)
		return -FI_EOPBADSTATE;
	if (!ep->run.stage)
		ep->attr.direct = p2p != FI_HMEM_P2P_DISABLED && uccl_place_rdma(&ep->domain->params);
	return 0;
}

/* Memory of GPUs needs calls of CUDA. An endpoint without such memory can forbid them. */
static int take_cuda(const struct uccl_ep *ep, const void *optval, size_t optlen)
{
	bool may;

	if (optlen != sizeof(may))
		return -FI_EINVAL;
	memcpy(&may, optval, sizeof(may));
	return ep->attr.hmem && !may ? -FI_EOPNOTSUPP : 0;
}

/* The value of an option that is a size, which is also the most that can be set. 0: no such option. */
static size_t opt_size(const struct uccl_ep *ep, int name)
{
	switch (name) {
	case OPT_MAX_MSG_SIZE:
		return ep->attr.msg_max;
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE:
		return UCCL_MSG_MAX;
	case OPT_MAX_ATOMIC_SIZE:
		return UCCL_ORDER_MAX;
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE:
	case OPT_INJECT_ATOMIC_SIZE:
		return ep->attr.inject_max;
	case FI_OPT_TX_SIZE:
		return ep->attr.tx_size;
	case FI_OPT_RX_SIZE:
		return ep->attr.rx_size;
	default:
		return 0;
	}
}

int uccl_ep_getopt(fid_t fid, int level, int name, void *optval, size_t *optlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;
	bool cuda = name == OPT_CUDA_API_PERMITTED && ep->attr.hmem, value;
	int p2p = ep->attr.direct ? FI_HMEM_P2P_ENABLED : FI_HMEM_P2P_DISABLED, events = ep->attr.peer_events;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_MIN_MULTI_RECV)
		return uccl_ep_give_size(optval, optlen, ep->attr.min_multi);
	if (name == FI_OPT_UCCL_OP_TIMEOUT)
		return give(optval, optlen, &ep->attr.op_timeout_ns, sizeof(ep->attr.op_timeout_ns));
	if (name == FI_OPT_UCCL_PEER_EVENTS)
		return give(optval, optlen, &events, sizeof(events));
	if (name == OPT_CUDA_API_PERMITTED || name == OPT_SHARED_MEMORY_PERMITTED)
		return give(optval, optlen, &cuda, sizeof(cuda));
	if (name == FI_OPT_FI_HMEM_P2P && ep->attr.hmem)
		return give(optval, optlen, &p2p, sizeof(p2p));
	if (name == FI_OPT_CM_DATA_SIZE && ep->cm)
		return uccl_ep_give_size(optval, optlen, UCCL_CM_DATA_MAX);
	if (opt_size(ep, name))
		return uccl_ep_give_size(optval, optlen, opt_size(ep, name));
	return uccl_persona_getopt(name, &value) ? -FI_ENOPROTOOPT : give(optval, optlen, &value, sizeof(value));
}

static int take_peer_events(struct uccl_ep *ep, const void *optval, size_t optlen)
{
	int yes;

	if (optlen != sizeof(yes))
		return -FI_EINVAL;
	memcpy(&yes, optval, sizeof(yes));
	/* A connected endpoint has FI_SHUTDOWN. */
	if (yes != !!yes || (yes && ep->cm))
		return -FI_EINVAL;
	ep->attr.peer_events = yes;
	return 0;
}

static int take_op_timeout(struct uccl_ep *ep, const void *optval, size_t optlen)
{
	uint64_t ns;

	if (optlen != sizeof(ns))
		return -FI_EINVAL;
	memcpy(&ns, optval, sizeof(ns));
	if (ns > UCCL_OP_TIMEOUT_MAX_MS * UCCL_NS_PER_MS)
		return -FI_EINVAL;
	ep->attr.op_timeout_ns = ns;
	return 0;
}

/* Options that permit what the provider never does, or that lower a size, change nothing. */
int uccl_ep_setopt(fid_t fid, int level, int name, const void *optval, size_t optlen)
{
	struct uccl_ep *ep = uccl_ep_fid_of(fid)->ep;
	size_t size;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_UCCL_OP_TIMEOUT)
		return take_op_timeout(ep, optval, optlen);
	if (name == FI_OPT_UCCL_PEER_EVENTS)
		return take_peer_events(ep, optval, optlen);
	if (name == OPT_CUDA_API_PERMITTED)
		return take_cuda(ep, optval, optlen);
	if (name == OPT_SHARED_MEMORY_PERMITTED)
		return optlen == sizeof(bool) ? 0 : -FI_EINVAL;
	if (name == FI_OPT_FI_HMEM_P2P && ep->attr.hmem)
		return take_p2p(ep, optval, optlen);
	if (name != FI_OPT_MIN_MULTI_RECV && !opt_size(ep, name))
		return uccl_persona_setopt(name, optval, optlen);
	if (optlen != sizeof(size))
		return -FI_EINVAL;
	memcpy(&size, optval, sizeof(size));
	if (name != FI_OPT_MIN_MULTI_RECV)
		return size <= opt_size(ep, name) ? 0 : -FI_EINVAL;
	ep->attr.min_multi = size;
	return 0;
}

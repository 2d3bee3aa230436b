/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Attributes. Where a program says nothing it gets the default; where it names one of several ways it gets that way
 * echoed (threading, progress, AV type); more than we can do is refused with the reason in the log.
 */
#include "api/offer/attr.h"

#include <rdma/fi_ext_uccl.h>
#include <stdlib.h>
#include <string.h>

#include "api/lib/lib.h"
#include "api/lib/oldnames.h"
#include "api/offer/device.h"
#include "api/offer/persona.h"
#include "api/offer/place.h"
#include "api/offer/refusal.h"
#include "msg/op.h"

/* Constants of libfabric versions after the headers that we build with. */
#define PROGRESS_CONTROL_UNIFIED 3
#define CAP_XPU (1ull << 44) /* FI_XPU; FI_XPU_TRIGGER until libfabric 2.6 */

#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV)
#define MSG_CAPS (FI_MSG | FI_TAGGED)
#define RMA_CAPS (FI_RMA | FI_ATOMIC)
#define TX_CAPS (MSG_CAPS | FI_SEND | RMA_CAPS | FI_READ | FI_WRITE | FI_FENCE | FI_TRIGGER | FI_NAMED_RX_CTX | \
		 FI_COLLECTIVE)
#define RX_CAPS                                                                                                        \
	(MSG_CAPS | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | RMA_CAPS |                \
	 FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_TRIGGER | FI_COLLECTIVE)
#define ALL_CAPS (TX_CAPS | RX_CAPS | DOMAIN_CAPS)
/* Of datagram endpoints: untagged messages only. */
#define DGRAM_CAPS                                                                                                     \
	(FI_MSG | FI_SEND | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | DOMAIN_CAPS)
/* Connected endpoints: all capabilities but those for more than one peer. */
#define CONNECTED_CAPS (ALL_CAPS & ~(FI_COLLECTIVE | FI_NAMED_RX_CTX | FI_SOURCE_ERR | FI_SHARED_AV))
/* Given whether or not they are asked for: they cost nothing. */
#define FREE_CAPS (FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
/* What messages and RMA mean if no direction is named. */
#define RX_RMA (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define MSG_DIRECTIONS (FI_SEND | FI_RECV)
#define RMA_DIRECTIONS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

#define TX_OP_FLAGS                                                                                                    \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |                \
	 FI_MATCH_COMPLETE)
#define RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
/*
 * RMA and atomics among themselves, up to UCCL_ORDER_MAX bytes; messages among themselves. Between the two there is no
 * order.
 */
#define RMA_ORDER                                                                                                      \
	(FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |             \
	 FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |                             \
	 FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define MSG_ORDER (FI_ORDER_SAS | RMA_ORDER)

#define MR_RMA_MODE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* Bits of a tag format: alternate, so that all 64 count. */
#define TAG_FORMAT 0xaaaaaaaaaaaaaaaaull

#define EP_COUNT 1024
#define CQ_COUNT 65536
#define MR_COUNT (1u << 20)

#define refuse(...)                                                                                                    \
	do {                                                                                                           \
		uccl_refusal(__VA_ARGS__);                                                                             \
		return false;                                                                                          \
	} while (0)

#define check_bits(what, asked, have)                                                                                  \
	do {                                                                                                           \
		uint64_t missing_ = (asked) & ~(uint64_t)(have);                                                       \
		if (missing_)                                                                                          \
			refuse("%s: bits 0x%llx are not supported", what, (unsigned long long)missing_);            \
	} while (0)

#define check_max(what, asked, most)                                                                                   \
	do {                                                                                                           \
		if ((uint64_t)(asked) > (uint64_t)(most))                                                              \
			refuse("%s is %llu, the most is %llu", what, (unsigned long long)(asked),                   \
			       (unsigned long long)(most));                                                            \
	} while (0)

/* The endpoint type that hints ask for; the others are for those that name them. */
static enum fi_ep_type type_of(const struct fi_info *hints)
{
	return hints && hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC ? hints->ep_attr->type : FI_EP_RDM;
}

/* Most that can be asked for. */
static uint64_t caps_of(enum fi_ep_type type)
{
	return type == FI_EP_DGRAM ? DGRAM_CAPS : type == FI_EP_MSG ? CONNECTED_CAPS : ALL_CAPS;
}

bool uccl_attr_type_ok(enum fi_ep_type type)
{
	return type == FI_EP_UNSPEC || type == FI_EP_RDM || type == FI_EP_DGRAM || type == FI_EP_MSG;
}

/* Memory of devices is offered to programs that ask for it, if there are devices. */
static bool caps_match(const char *what, uint64_t caps, enum fi_ep_type type, const struct uccl_params *p)
{
	char why[UCCL_DEVICE_WHY];

	if (caps & FI_HMEM && !uccl_device_find(p)) {
		uccl_device_why_not(p, why, sizeof(why));
		refuse("%s has FI_HMEM, but memory of GPUs cannot be used: %s", what, why);
	}
	if (caps & CAP_XPU)
		refuse("%s has FI_XPU, but no program on a GPU can start transfers of this provider\n", what);
	check_bits(what, caps, caps_of(type) | FI_HMEM);
	return true;
}

bool uccl_attr_tx_flags(uint64_t flags)
{
	check_bits("tx_attr->op_flags", flags, TX_OP_FLAGS);
	return true;
}

bool uccl_attr_rx_flags(uint64_t flags)
{
	check_bits("rx_attr->op_flags", flags, RX_OP_FLAGS);
	return true;
}

static bool tx_match(const struct fi_tx_attr *a, enum fi_ep_type type, const struct uccl_params *p)
{
	if (!caps_match("tx_attr->caps", a->caps, type, p))
		return false;
	if (!uccl_attr_tx_flags(a->op_flags))
		return false;
	check_bits("tx_attr->msg_order", a->msg_order, MSG_ORDER);
	check_bits("tx_attr->comp_order", a->comp_order, 0);
	check_max("tx_attr->inject_size", a->inject_size, p->inject_bytes);
	check_max("tx_attr->size", a->size, UCCL_OPS_DEFAULT);
	check_max("tx_attr->iov_limit", a->iov_limit, UCCL_IOV_LIMIT);
	check_max("tx_attr->rma_iov_limit", a->rma_iov_limit, UCCL_IOV_LIMIT);
	return true;
}

static bool rx_match(const struct fi_rx_attr *a, enum fi_ep_type type, const struct uccl_params *p)
{
	if (!caps_match("rx_attr->caps", a->caps, type, p))
		return false;
	if (!uccl_attr_rx_flags(a->op_flags))
		return false;
	check_bits("rx_attr->msg_order", a->msg_order, MSG_ORDER);
	check_bits("rx_attr->comp_order", a->comp_order, 0);
	check_max("rx_attr->total_buffered_recv", a->total_buffered_recv, p->unexpected_bytes);
	check_max("rx_attr->size", a->size, UCCL_OPS_DEFAULT);
	check_max("rx_attr->iov_limit", a->iov_limit, UCCL_IOV_LIMIT);
	return true;
}

size_t uccl_attr_contexts(enum fi_ep_type type, uint64_t caps)
{
	if (type != FI_EP_UNSPEC && type != FI_EP_RDM)
		return 1;
	/* A directed receive names one port of many that the peer's messages come from: it might wait for ever. */
	return caps & FI_DIRECTED_RECV ? 1 : UCCL_CONTEXTS_MAX;
}

static size_t contexts(size_t asked)
{
	return asked == FI_SHARED_CONTEXT ? 1 : asked;
}

static bool ep_match(const struct fi_ep_attr *a, uint64_t caps)
{
	if (!uccl_attr_type_ok(a->type))
		refuse("endpoint type %d is not supported", a->type);
	if (!uccl_persona_protocol_ok(a->protocol))
		refuse("protocol %u is not supported", a->protocol);
	check_max("ep_attr->protocol_version", a->protocol_version, FI_UCCL_PROTO_VERSION);
	check_max("ep_attr->max_msg_size", a->max_msg_size, UCCL_MSG_MAX);
	check_max("ep_attr->msg_prefix_size", a->msg_prefix_size, 0);
	check_max("ep_attr->max_order_raw_size", a->max_order_raw_size, UCCL_ORDER_MAX);
	check_max("ep_attr->max_order_war_size", a->max_order_war_size, UCCL_ORDER_MAX);
	check_max("ep_attr->max_order_waw_size", a->max_order_waw_size, UCCL_ORDER_MAX);
	check_max("ep_attr->tx_ctx_cnt", contexts(a->tx_ctx_cnt), uccl_attr_contexts(a->type, caps));
	check_max("ep_attr->rx_ctx_cnt", contexts(a->rx_ctx_cnt), uccl_attr_contexts(a->type, caps));
	check_max("ep_attr->auth_key_size", a->auth_key_size, UCCL_AUTH_KEY_MAX);
	return true;
}

static bool domain_match(const struct fi_domain_attr *a, enum fi_ep_type type, uint64_t caps)
{
	if ((int)a->threading < FI_THREAD_UNSPEC || (int)a->threading > FI_THREAD_ENDPOINT)
		refuse("threading model %d is not supported", a->threading);
	if ((int)a->control_progress < 0 || (int)a->control_progress > PROGRESS_CONTROL_UNIFIED)
		refuse("control progress %d is not supported", a->control_progress);
	if ((int)a->data_progress < 0 || (int)a->data_progress > PROGRESS_CONTROL_UNIFIED)
		refuse("data progress %d is not supported", a->data_progress);
	if ((int)a->resource_mgmt < FI_RM_UNSPEC || (int)a->resource_mgmt > FI_RM_ENABLED)
		refuse("resource management %d is not supported", a->resource_mgmt);
	if ((int)a->av_type < FI_AV_UNSPEC || (int)a->av_type > FI_AV_TABLE)
		refuse("address vector type %d is not supported", a->av_type);
	check_max("domain_attr->mr_key_size", a->mr_key_size, 8);
	check_max("domain_attr->cq_data_size", a->cq_data_size, 8);
	check_max("domain_attr->cq_cnt", a->cq_cnt, CQ_COUNT);
	check_max("domain_attr->ep_cnt", a->ep_cnt, EP_COUNT);
	check_max("domain_attr->tx_ctx_cnt", a->tx_ctx_cnt, EP_COUNT);
	check_max("domain_attr->rx_ctx_cnt", a->rx_ctx_cnt, EP_COUNT);
	check_max("domain_attr->max_ep_tx_ctx", a->max_ep_tx_ctx, uccl_attr_contexts(type, caps));
	check_max("domain_attr->max_ep_rx_ctx", a->max_ep_rx_ctx, uccl_attr_contexts(type, caps));
	check_max("domain_attr->max_ep_stx_ctx", a->max_ep_stx_ctx, EP_COUNT);
	check_max("domain_attr->max_ep_srx_ctx", a->max_ep_srx_ctx, EP_COUNT);
	check_max("domain_attr->cntr_cnt", a->cntr_cnt, CQ_COUNT);
	check_max("domain_attr->mr_iov_limit", a->mr_iov_limit, UCCL_IOV_LIMIT);
	check_bits("domain_attr->caps", a->caps, DOMAIN_CAPS);
	check_max("domain_attr->auth_key_size", a->auth_key_size, UCCL_AUTH_KEY_MAX);
	check_max("domain_attr->max_err_data", a->max_err_data, UCCL_ERR_DATA_MAX);
	check_max("domain_attr->mr_cnt", a->mr_cnt, MR_COUNT);
	return true;
}

static uint64_t answer_caps(const struct fi_info *hints)
{
	uint64_t caps = hints ? hints->caps : 0;

	/* FI_SOURCE_ERR and collectives are for programs that ask for them. */
	if (!caps)
		return caps_of(type_of(hints)) & ~(FI_SOURCE_ERR | FI_COLLECTIVE);
	if (!(caps & (MSG_CAPS | RMA_CAPS)))
		caps |= caps & RMA_DIRECTIONS ? RMA_CAPS : MSG_CAPS;
	if (caps & MSG_CAPS) {
		caps |= FI_MULTI_RECV;
		if (!(caps & MSG_DIRECTIONS))
			caps |= MSG_DIRECTIONS;
	}
	if (caps & RMA_CAPS && !(caps & RMA_DIRECTIONS))
		caps |= RMA_DIRECTIONS;
	return caps | FREE_CAPS;
}

/*
 * Most programs that offer it do not want its cost, and some need what they offered (NCCL's GIN). Those of the first
 * kind that we know are MPIs, and these have tags.
 */
static uint64_t answer_mode(const struct fi_info *hints, const struct uccl_params *p)
{
	uint64_t caps = hints ? hints->caps : 0;

	if (!hints || p->rx_cq_data == UCCL_SWITCH_NO ||
	    (p->rx_cq_data == UCCL_SWITCH_AUTO && (caps & (FI_MSG | FI_RMA | FI_TAGGED)) != (FI_MSG | FI_RMA)))
		return 0;
	return hints->mode & FI_RX_CQ_DATA;
}

bool uccl_attr_match(const struct fi_info *hints, uint32_t version, const struct uccl_params *p)
{
	uint64_t caps = answer_caps(hints);
	enum fi_ep_type type = type_of(hints);

	(void)version;
	if (!hints)
		return true;
	/* The endpoint type first: what else is allowed depends on it. */
	if (hints->ep_attr && !ep_match(hints->ep_attr, caps))
		return false;
	if (!caps_match("caps", hints->caps, type, p))
		return false;
	if (hints->tx_attr && !tx_match(hints->tx_attr, type, p))
		return false;
	if (hints->rx_attr && !rx_match(hints->rx_attr, type, p))
		return false;
	return !hints->domain_attr || domain_match(hints->domain_attr, type, caps);
}

static void fill_tx(struct fi_info *info, const struct fi_tx_attr *h, const struct uccl_params *p)
{
	struct fi_tx_attr *a = info->tx_attr;

	a->caps = info->caps & (TX_CAPS | FI_HMEM);
	if (h && h->caps)
		a->caps &= h->caps | FI_SEND | (h->caps & (FI_READ | FI_WRITE) ? 0 : FI_READ | FI_WRITE);
	a->op_flags = h ? h->op_flags : 0;
	a->msg_order = h && h->msg_order ? h->msg_order : MSG_ORDER;
	a->comp_order = FI_ORDER_NONE;
	a->inject_size = p->inject_bytes;
	a->size = h && h->size ? h->size : UCCL_OPS_DEFAULT;
	a->iov_limit = UCCL_IOV_LIMIT;
	a->rma_iov_limit = info->caps & RMA_CAPS ? UCCL_IOV_LIMIT : 0;
	a->tclass = h ? h->tclass : 0;
}

static void fill_rx(struct fi_info *info, const struct fi_rx_attr *h, const struct uccl_params *p)
{
	struct fi_rx_attr *a = info->rx_attr;

	a->caps = info->caps & (RX_CAPS | FI_HMEM);
	if (h && h->caps)
		a->caps &= h->caps | FI_RECV | (h->caps & RX_RMA ? 0 : RX_RMA);
	a->op_flags = h ? h->op_flags : 0;
	a->msg_order = h && h->msg_order ? h->msg_order : MSG_ORDER;
	a->comp_order = FI_ORDER_NONE;
	a->total_buffered_recv = p->unexpected_bytes;
	a->size = h && h->size ? h->size : UCCL_OPS_DEFAULT;
	a->iov_limit = UCCL_IOV_LIMIT;
}

static void fill_ep(struct fi_ep_attr *a, const struct fi_ep_attr *h, enum fi_ep_type type)
{
	a->type = type;
	a->protocol = uccl_persona_protocol(h ? h->protocol : FI_PROTO_UNSPEC);
	a->protocol_version = FI_UCCL_PROTO_VERSION;
	a->max_msg_size = UCCL_MSG_MAX;
	a->mem_tag_format = h && h->mem_tag_format ? h->mem_tag_format : TAG_FORMAT;
	a->max_order_raw_size = UCCL_ORDER_MAX;
	a->max_order_war_size = UCCL_ORDER_MAX;
	a->max_order_waw_size = UCCL_ORDER_MAX;
	a->tx_ctx_cnt = h && h->tx_ctx_cnt ? h->tx_ctx_cnt : 1;
	a->rx_ctx_cnt = h && h->rx_ctx_cnt ? h->rx_ctx_cnt : 1;
}

/*
 * Nothing is required of a program's memory. Those that ask for RMA get the addressing that they offer in full or
 * none of it: some insist on what they offer. Who could even map raw keys insists on nothing, and gets nothing. Before
 * interface 1.5 there were two whole modes.
 */
static int answer_mr_mode(uint64_t caps, int asked, uint32_t version)
{
	if (asked == FI_MR_BASIC || asked == FI_MR_SCALABLE)
		return asked;
	if (version && FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return FI_MR_SCALABLE;
	if (caps & RMA_CAPS && (asked & (MR_RMA_MODE | FI_MR_RAW)) == MR_RMA_MODE)
		return MR_RMA_MODE;
	return 0;
}

/*
 * Fields that came after 1.17, at fixed places behind the struct that we know: size_t max_ep_auth_key (1.20), uint32_t
 * max_group_id (2.0), uint64_t max_cntr_value and max_err_cntr_value (2.5). Zero is right for the first two.
 */
static void fill_domain_tail(struct fi_domain_attr *a)
{
	uint64_t most[2] = { UINT64_MAX, UINT64_MAX };

	_Static_assert(sizeof(struct fi_domain_attr) >= 192, "the tail begins at byte 192");
	if (FI_VERSION_GE(uccl_lib.version, FI_VERSION(2, 5)))
		memcpy((char *)a + 208, most, sizeof(most));
}

static void fill_domain(struct fi_info *info, const struct fi_domain_attr *h, uint32_t version)
{
	struct fi_domain_attr *a = info->domain_attr;

	a->threading = h && h->threading != FI_THREAD_UNSPEC ? h->threading : FI_THREAD_SAFE;
	a->control_progress = h && h->control_progress ? h->control_progress : FI_PROGRESS_MANUAL;
	a->data_progress = h && h->data_progress ? h->data_progress : FI_PROGRESS_MANUAL;
	a->resource_mgmt = FI_RM_ENABLED;
	a->av_type = h ? h->av_type : FI_AV_UNSPEC; /* unspecified: both are the same here */
	a->mr_mode = answer_mr_mode(info->caps, h ? h->mr_mode : 0, version);
	a->mr_key_size = 8;
	a->cq_data_size = 8;
	a->cq_cnt = CQ_COUNT;
	a->ep_cnt = EP_COUNT;
	a->tx_ctx_cnt = EP_COUNT;
	a->rx_ctx_cnt = EP_COUNT;
	a->max_ep_tx_ctx = uccl_attr_contexts(info->ep_attr->type, info->caps);
	a->max_ep_rx_ctx = uccl_attr_contexts(info->ep_attr->type, info->caps);
	a->max_ep_stx_ctx = EP_COUNT;
	a->max_ep_srx_ctx = EP_COUNT;
	a->cntr_cnt = CQ_COUNT;
	a->mr_iov_limit = UCCL_IOV_LIMIT;
	a->caps = DOMAIN_CAPS;
	a->max_err_data = UCCL_ERR_DATA_MAX;
	a->mr_cnt = MR_COUNT;
	a->tclass = h ? h->tclass : 0;
	fill_domain_tail(a);
}

/* A key is handed back, so that it is there when the object is opened. False: no memory. */
static bool fill_key(uint8_t **key, size_t *size, const uint8_t *asked, size_t asked_size)
{
	if (!asked || !asked_size)
		return true;
	*key = malloc(asked_size);
	if (!*key)
		return false;
	memcpy(*key, asked, asked_size);
	*size = asked_size;
	return true;
}

static bool fill_keys(struct fi_info *info, const struct fi_ep_attr *e, const struct fi_domain_attr *d)
{
	struct fi_domain_attr *own = info->domain_attr;
	struct fi_ep_attr *ep = info->ep_attr;

	return (!e || fill_key(&ep->auth_key, &ep->auth_key_size, e->auth_key, e->auth_key_size)) &&
	       (!d || fill_key(&own->auth_key, &own->auth_key_size, d->auth_key, d->auth_key_size));
}

int uccl_attr_fill(struct fi_info *info, const struct fi_info *hints, uint32_t version, const struct uccl_params *p)
{
	info->caps = answer_caps(hints);
	/* A program that names no capabilities may not know GPUs, and the search takes long: only if the user asks. */
	if ((!hints || !hints->caps) && !strcmp(p->nic.cuda, "on") && uccl_device_find(p))
		info->caps |= FI_HMEM;
	info->mode = answer_mode(hints, p);
	info->rx_attr->mode = info->mode;
	fill_tx(info, hints ? hints->tx_attr : NULL, p);
	fill_rx(info, hints ? hints->rx_attr : NULL, p);
	fill_ep(info->ep_attr, hints ? hints->ep_attr : NULL, type_of(hints));
	fill_domain(info, hints ? hints->domain_attr : NULL, version);
	info->fabric_attr->name = strdup(FI_UCCL_FABRIC_NAME);
	/* The library fills prov_name, or makes "name;name" of what it finds. */
	if (uccl_persona_core()) {
		info->fabric_attr->prov_name = strdup(uccl_persona_core());
		if (!info->fabric_attr->prov_name)
			return -FI_ENOMEM;
	}
	info->fabric_attr->prov_version = UCCL_PROV_VERSION;
	info->fabric_attr->api_version = version;
	if (hints && FI_VERSION_GE(version, (uint32_t)FI_VERSION(1, 5)) &&
	    !fill_keys(info, hints->ep_attr, hints->domain_attr))
		return -FI_ENOMEM;
	return info->fabric_attr->name ? 0 : -FI_ENOMEM;
}

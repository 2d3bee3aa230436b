/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "world.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <unistd.h>

#include "api/info.h"
#include "api/offer/address.h"
#include "api/offer/param.h"
#include "api/offer/source.h"
#include "nic/ifaddr.h"

static int ask(struct fi_info *hints, struct fi_info **info)
{
	return uccl_getinfo(API, NULL, NULL, 0, hints, info);
}

/* The hints are refused for the one thing that `set` does to them. */
#define refused(set)                                                                                                   \
	do {                                                                                                           \
		struct fi_info *h = world_hints(), *info = NULL;                                                       \
		set;                                                                                                   \
		assert_int_equal(ask(h, &info), -FI_ENODATA);                                                          \
		assert_null(info);                                                                                     \
		fi_freeinfo(h);                                                                                        \
	} while (0)

/* They are met, and the answer has what `check` wants. */
#define granted(set, check)                                                                                            \
	do {                                                                                                           \
		struct fi_info *h = world_hints(), *info = NULL;                                                       \
		set;                                                                                                   \
		assert_int_equal(ask(h, &info), 0);                                                                    \
		assert_true(check);                                                                                    \
		fi_freeinfo(info);                                                                                     \
		fi_freeinfo(h);                                                                                        \
	} while (0)

TEST(getinfo__no_hints)
{
	struct fi_info *info;
	struct uccl_addr a;

	assert_int_equal(uccl_getinfo(FI_VERSION(0, 0), NULL, NULL, 0, NULL, &info), 0);
	for (struct fi_info *i = info; i; i = i->next) {
		assert_int_equal(i->mode, 0);
		assert_int_equal(i->ep_attr->type, FI_EP_RDM);
		assert_null(i->fabric_attr->prov_name);
		assert_string_equal(i->fabric_attr->name, "uccl");
		assert_non_null(i->domain_attr->name);
		assert_int_equal(i->addr_format, FI_ADDR_UCCL);
		assert_int_equal(i->src_addrlen, UCCL_ADDR_LEN);
		assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, i->src_addr, i->src_addrlen, &a, NULL), 0);
		assert_int_equal(a.nic.port, 0);
		assert_null(i->dest_addr);
		assert_non_null(i->nic);
		assert_string_equal(i->nic->device_attr->name, i->domain_attr->name);
		assert_int_equal(i->domain_attr->mr_mode, 0);
	}
	uccl_lib.freeinfo(info);
}

/* What one list offers can reach each other: Open MPI gives its entries to different ranks. */
TEST(getinfo__one_network)
{
	struct uccl_ifaddr *list;
	int n = uccl_ifaddr_list(&list);
	bool outside = false;
	struct fi_info *info;
	struct uccl_addr first, a;

	for (int i = 0; i < n; i++)
		outside |= !list[i].loopback;
	free(list);
	assert_int_equal(ask(NULL, &info), 0);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->src_addr, info->src_addrlen, &first, NULL), 0);
	for (struct fi_info *i = info; i; i = i->next) {
		assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, i->src_addr, i->src_addrlen, &a, NULL), 0);
		assert_int_equal(uccl_ifaddr_is_v4(&a.nic), uccl_ifaddr_is_v4(&first.nic));
		assert_int_equal(uccl_ifaddr_is_loopback(&a.nic), !outside);
	}
	uccl_lib.freeinfo(info);
}

TEST(getinfo__refuses)
{
	refused(h->ep_attr->type = (enum fi_ep_type)4);
	refused(h->caps = FI_RMA | FI_RMA_PMEM);
	refused(h->caps = FI_MULTICAST);
	refused(h->caps = FI_HMEM);
	refused(h->caps = FI_MSG | 1ull << 44); /* FI_XPU */
	refused(h->tx_attr->caps = FI_MULTICAST);
	refused(h->rx_attr->caps = FI_MULTICAST);
	refused(h->addr_format = FI_ADDR_STR);
	refused(h->addr_format = FI_SOCKADDR_IB);
	refused(h->tx_attr->op_flags = FI_COMMIT_COMPLETE);
	refused(h->rx_attr->op_flags = FI_INJECT);
	refused(h->tx_attr->msg_order = FI_ORDER_RAS);
	refused(h->tx_attr->msg_order = FI_ORDER_SAR);
	refused(h->tx_attr->msg_order = FI_ORDER_WAS);
	refused(h->rx_attr->msg_order = FI_ORDER_SAW);
	refused(h->tx_attr->comp_order = FI_ORDER_STRICT);
	refused(h->rx_attr->comp_order = FI_ORDER_DATA);
	refused(h->tx_attr->inject_size = 4097);
	refused(h->tx_attr->size = 1 << 20);
	refused(h->rx_attr->size = 1 << 20);
	refused(h->tx_attr->iov_limit = 5);
	refused(h->rx_attr->iov_limit = 5);
	refused(h->tx_attr->rma_iov_limit = 5);
	refused(h->rx_attr->total_buffered_recv = 1ul << 40);
	refused(h->ep_attr->protocol = FI_PROTO_RXM);
	refused(h->ep_attr->protocol_version = 2);
	refused(h->ep_attr->max_msg_size = (1ull << 40) + 1);
	refused(h->ep_attr->msg_prefix_size = 8);
	refused(h->ep_attr->max_order_raw_size = 65537);
	refused(h->ep_attr->max_order_war_size = 65537);
	refused(h->ep_attr->max_order_waw_size = 65537);
	refused(h->ep_attr->tx_ctx_cnt = 17);
	refused(h->ep_attr->rx_ctx_cnt = 17);
	refused((h->caps = FI_TAGGED | FI_DIRECTED_RECV, h->ep_attr->tx_ctx_cnt = 2));
	refused((h->caps = FI_TAGGED | FI_DIRECTED_RECV, h->domain_attr->max_ep_rx_ctx = 2));
	refused(h->domain_attr->threading = (enum fi_threading)9);
	refused(h->domain_attr->control_progress = (enum fi_progress)4);
	refused(h->domain_attr->data_progress = (enum fi_progress)4);
	refused(h->domain_attr->resource_mgmt = (enum fi_resource_mgmt)3);
	refused(h->domain_attr->av_type = (enum fi_av_type)3);
	refused(h->domain_attr->mr_key_size = 9);
	refused(h->domain_attr->cq_data_size = 9);
	refused(h->domain_attr->cq_cnt = 1 << 20);
	refused(h->domain_attr->ep_cnt = 1 << 20);
	refused(h->domain_attr->max_ep_tx_ctx = 17);
	refused(h->domain_attr->max_ep_srx_ctx = 2000);
	refused(h->domain_attr->mr_iov_limit = 5);
	refused(h->domain_attr->caps = FI_AV_USER_ID);
	refused(h->domain_attr->auth_key_size = 257);
	refused(h->ep_attr->auth_key_size = 257);
	refused(free(h->domain_attr->name); h->domain_attr->name = strdup("no-such-interface"));
	refused(h->fabric_attr->name = strdup("elsewhere"));
}

/* A datagram is a message that one packet holds, and nothing else. */
TEST(getinfo__dgram)
{
	size_t most = 0;

	granted(h->ep_attr->type = FI_EP_DGRAM,
		info->ep_attr->type == FI_EP_DGRAM && info->caps & FI_MSG &&
			!(info->caps & (FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_NAMED_RX_CTX)) &&
			(most = info->ep_attr->max_msg_size) >= 512 - 64 && most < 65536 &&
			info->tx_attr->inject_size <= most && info->ep_attr->msg_prefix_size == 0);
	granted((h->ep_attr->type = FI_EP_DGRAM, h->ep_attr->max_msg_size = most), !info->next);
	refused((h->ep_attr->type = FI_EP_DGRAM, h->ep_attr->max_msg_size = most + 1));
	refused((h->ep_attr->type = FI_EP_DGRAM, h->caps = FI_TAGGED));
	refused((h->ep_attr->type = FI_EP_DGRAM, h->caps = FI_MSG | FI_RMA));
	refused((h->ep_attr->type = FI_EP_DGRAM, h->tx_attr->caps = FI_ATOMIC));
	refused((h->ep_attr->type = FI_EP_DGRAM, h->rx_attr->caps = FI_TAGGED));
	refused((h->ep_attr->type = FI_EP_DGRAM, h->ep_attr->tx_ctx_cnt = 2));
	setenv("FI_UCCL_MTU", "1024", 1);
	granted(h->ep_attr->type = FI_EP_DGRAM,
		info->ep_attr->max_msg_size < 1024 && info->tx_attr->inject_size == info->ep_attr->max_msg_size);
	refused((h->ep_attr->type = FI_EP_DGRAM, h->tx_attr->inject_size = 1024));
	unsetenv("FI_UCCL_MTU");
}

/* A connection is between two: no groups, no contexts to choose from; what the program hands in is handed back. */
TEST(getinfo__connected)
{
	struct fid fid = { .fclass = FI_CLASS_PEP };

	granted(h->ep_attr->type = FI_EP_MSG,
		info->ep_attr->type == FI_EP_MSG && info->caps & FI_TAGGED && info->caps & FI_RMA &&
			!(info->caps & (FI_COLLECTIVE | FI_NAMED_RX_CTX)) && !info->handle &&
			info->ep_attr->max_msg_size == 1ull << 40);
	granted((h->ep_attr->type = FI_EP_MSG, h->handle = &fid), info->handle == &fid);
	granted(h->handle = &fid, !info->handle);
	refused((h->ep_attr->type = FI_EP_MSG, h->caps = FI_MSG | FI_COLLECTIVE));
	refused((h->ep_attr->type = FI_EP_MSG, h->ep_attr->rx_ctx_cnt = 2));
}

/* The library's own providers would put theirs above ours. */
TEST(getinfo__for_utilities)
{
	static const enum fi_ep_type types[] = { FI_EP_DGRAM, FI_EP_MSG };
	struct fi_info *h = world_hints(), *info;

	for (size_t i = 0; i < uccl_array_len(types); i++) {
		h->ep_attr->type = types[i];
		assert_int_equal(uccl_getinfo(API, NULL, NULL, 1ull << 59, h, &info), -FI_ENODATA);
		assert_int_equal(uccl_getinfo(API, NULL, NULL, 0, h, &info), 0);
		uccl_lib.freeinfo(info);
	}
	h->ep_attr->type = FI_EP_RDM;
	assert_int_equal(uccl_getinfo(API, NULL, NULL, 1ull << 59, h, &info), 0);
	uccl_lib.freeinfo(info);
	fi_freeinfo(h);
}

/* Who asks for memory of GPUs hears why there is none. */
TEST(getinfo__says_why_no_gpu)
{
	static const char *const set[][3] = {
		{ "FI_UCCL_CUDA", "off", "memory of GPUs cannot be used: FI_UCCL_CUDA is off\n" },
		{ "FI_UCCL_CUDA", "auto", " is missing\n" },
	};

	for (size_t i = 0; i < uccl_array_len(set); i++) {
		setenv(set[i][0], set[i][1], 1);
		world_listen(FI_LOG_INFO);
		refused(h->caps = FI_MSG | FI_HMEM);
		if (!strstr(world_heard(), set[i][2]))
			fail_msg("\"%s\" does not say \"%s\"", world_ear.text, set[i][2]);
		unsetenv(set[i][0]);
	}
}

TEST(getinfo__grants)
{
	granted(h->caps = FI_MSG, info->caps & FI_SEND && info->caps & FI_RECV && !(info->caps & FI_TAGGED));
	granted(h->caps = FI_MSG, !(info->caps & FI_DIRECTED_RECV) && info->caps & FI_SOURCE);
	granted(h->caps = FI_TAGGED | FI_DIRECTED_RECV, info->caps & FI_DIRECTED_RECV && !(info->caps & FI_MSG));
	granted(h->caps = FI_MSG | FI_SEND, !(info->caps & FI_RECV) && info->tx_attr->caps & FI_SEND);
	granted(h->caps = FI_SOURCE, info->caps & FI_MSG && info->caps & FI_TAGGED);
	granted(h->caps = 0, info->caps & FI_TAGGED && info->caps & FI_DIRECTED_RECV);
	granted(h->mode = FI_CONTEXT | FI_RX_CQ_DATA, info->mode == 0);
	/* Who has no tags, and remote memory: NCCL's GIN must have what it offers. */
	granted((h->mode = FI_RX_CQ_DATA, h->caps = FI_MSG | FI_RMA), info->mode == FI_RX_CQ_DATA);
	granted((h->mode = FI_RX_CQ_DATA, h->caps = FI_MSG | FI_RMA | FI_TAGGED), info->mode == 0);
	granted((h->mode = FI_RX_CQ_DATA, h->caps = FI_MSG), info->mode == 0);
	granted((h->mode = FI_RX_CQ_DATA, h->caps = FI_RMA), info->mode == 0);
	granted(h->caps = FI_MSG | FI_RMA, info->mode == 0);
	setenv("FI_UCCL_TEST", "rx_cq_data=0", 1);
	granted((h->mode = FI_RX_CQ_DATA, h->caps = FI_MSG | FI_RMA), info->mode == 0);
	setenv("FI_UCCL_TEST", "rx_cq_data=1", 1);
	granted(h->mode = FI_CONTEXT | FI_RX_CQ_DATA, info->mode == FI_RX_CQ_DATA && !info->next);
	granted(h->mode = FI_CONTEXT, info->mode == 0 && info->rx_attr->mode == 0);
	unsetenv("FI_UCCL_TEST");
	granted(h->domain_attr->threading = FI_THREAD_DOMAIN, info->domain_attr->threading == FI_THREAD_DOMAIN);
	granted(h->domain_attr->threading = FI_THREAD_COMPLETION,
		info->domain_attr->threading == FI_THREAD_COMPLETION);
	granted(h->domain_attr->threading = FI_THREAD_UNSPEC, info->domain_attr->threading == FI_THREAD_SAFE);
	granted(h->domain_attr->data_progress = FI_PROGRESS_AUTO,
		info->domain_attr->data_progress == FI_PROGRESS_AUTO);
	granted(h->domain_attr->control_progress = FI_PROGRESS_MANUAL,
		info->domain_attr->data_progress == FI_PROGRESS_MANUAL);
	granted(h->domain_attr->av_type = FI_AV_MAP, info->domain_attr->av_type == FI_AV_MAP);
	granted(h->domain_attr->av_type = FI_AV_UNSPEC, info->domain_attr->av_type == FI_AV_UNSPEC);
	/* What is offered in full is taken, if remote memory is asked for at all. */
	granted(h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
		info->domain_attr->mr_mode == (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY));
	granted(h->caps = FI_COLLECTIVE, (info->caps & (FI_COLLECTIVE | FI_MSG)) == (FI_COLLECTIVE | FI_MSG));
	granted(h->caps = FI_MSG, !(info->caps & FI_COLLECTIVE));
	granted(h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RAW,
		info->domain_attr->mr_mode == 0);
	granted((h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, h->caps = FI_MSG),
		info->domain_attr->mr_mode == 0);
	granted((h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED, h->caps = FI_RMA),
		info->domain_attr->mr_mode == 0);
	granted(h->caps = FI_RMA, info->caps & FI_READ && info->caps & FI_REMOTE_WRITE && !(info->caps & FI_MSG) &&
					  !(info->caps & FI_SEND) && info->tx_attr->rma_iov_limit == 4);
	granted(h->caps = FI_ATOMIC | FI_WRITE, info->caps & FI_WRITE && !(info->caps & FI_READ));
	granted(h->caps = FI_MSG, !(info->caps & FI_WRITE) && info->tx_attr->rma_iov_limit == 0);
	granted(h->caps = FI_MSG | FI_RMA | FI_RMA_EVENT | FI_FENCE,
		info->rx_attr->caps & FI_RMA_EVENT && info->tx_attr->caps & FI_FENCE);
	granted(h->tx_attr->msg_order = FI_ORDER_RAW, info->tx_attr->msg_order == FI_ORDER_RAW &&
							      info->ep_attr->max_order_raw_size == 65536);
	granted(h->ep_attr->max_order_waw_size = 4096, info->ep_attr->max_order_waw_size == 65536);
	granted(h->tx_attr->msg_order = 0, info->tx_attr->msg_order & FI_ORDER_SAS &&
						   info->tx_attr->msg_order & FI_ORDER_ATOMIC_WAW);
	granted(h->domain_attr->mr_mode = FI_MR_BASIC, info->domain_attr->mr_mode == FI_MR_BASIC);
	granted(h->tx_attr->msg_order = FI_ORDER_SAS, info->tx_attr->msg_order == FI_ORDER_SAS);
	granted(h->tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION,
		info->tx_attr->op_flags == (FI_DELIVERY_COMPLETE | FI_COMPLETION));
	granted(h->ep_attr->mem_tag_format = 0x00c000007fffffff, info->ep_attr->mem_tag_format == 0x00c000007fffffff);
	granted(h->ep_attr->protocol = FI_PROTO_UCCL, info->ep_attr->protocol == FI_PROTO_UCCL);
	granted(h->tx_attr->size = 512, info->tx_attr->size == 512 && info->rx_attr->size == 4096);
	granted(h->domain_attr->mr_key_size = 4, info->domain_attr->mr_key_size == 8);
	granted(h->fabric_attr->name = strdup("uccl"), !strcmp(info->domain_attr->name, "lo"));
}

#define MR_FULL (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define COMM (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define CONTEXTS (FI_CONTEXT | FI_CONTEXT2)
#define ATOMIC_ORDER (FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

/* What the programs that use libfabric ask for, without GPUs, and the size of the completion queue that they open. */
static const struct consumer {
	const char *name;
	int minor;		/* interface 1.minor */
	uint64_t caps;		/* 0: all that is there without hints */
	uint64_t mode;
	int mr_mode, want_mr;	/* offered, and what must come back */
	enum fi_threading threading;
	enum fi_progress progress;
	enum fi_av_type av;
	uint64_t op_flags, order;
	size_t cq_data, key_size, inject, ctx_size, cq_size;
} consumers[] = {
	{ "MPICH", 17, 0, CONTEXTS | FI_ASYNC_IOV | FI_RX_CQ_DATA, FI_MR_ENDPOINT, 0, FI_THREAD_DOMAIN,
	  FI_PROGRESS_MANUAL, FI_AV_TABLE, FI_COMPLETION | FI_DELIVERY_COMPLETE, FI_ORDER_SAS | ATOMIC_ORDER, 4, 0, 0,
	  0, 0 },
	{ "Intel MPI", 5, 0, CONTEXTS | FI_ASYNC_IOV | FI_RX_CQ_DATA, MR_FULL, MR_FULL, FI_THREAD_DOMAIN,
	  FI_PROGRESS_MANUAL, FI_AV_TABLE, FI_COMPLETION, FI_ORDER_SAS, 0, 0, 0, 0, 0 },
	{ "Intel MPI, named", 8, 0, CONTEXTS | FI_ASYNC_IOV | FI_RX_CQ_DATA, MR_FULL, MR_FULL, FI_THREAD_DOMAIN,
	  FI_PROGRESS_MANUAL, FI_AV_MAP, FI_COMPLETION, FI_ORDER_SAS, 0, 0, 0, 0, 0 },
	{ "Open MPI mtl", 18, FI_MSG | FI_TAGGED | COMM | FI_DIRECTED_RECV, CONTEXTS, FI_MR_ALLOCATED, 0,
	  FI_THREAD_SAFE, FI_PROGRESS_UNSPEC, FI_AV_MAP, FI_COMPLETION, FI_ORDER_SAS, 4, 0, 0, 0, 100 },
	{ "Open MPI btl", 18, FI_RMA | FI_ATOMIC, CONTEXTS, MR_FULL | FI_MR_ENDPOINT, MR_FULL, FI_THREAD_DOMAIN,
	  FI_PROGRESS_UNSPEC, FI_AV_MAP, FI_DELIVERY_COMPLETE | FI_COMPLETION, 0, 0, 0, 0, 0, 0 },
	{ "NCCL sendrecv", 18, FI_TAGGED | FI_MSG | COMM, CONTEXTS, MR_FULL | FI_MR_LOCAL | FI_MR_ENDPOINT, 0,
	  FI_THREAD_SAFE, FI_PROGRESS_UNSPEC, FI_AV_TABLE, 0, FI_ORDER_SAS, 0, 2, 0, 0, 12288 },
	{ "NCCL rdma", 18, FI_MSG | FI_RMA | COMM, CONTEXTS, MR_FULL | FI_MR_LOCAL | FI_MR_ENDPOINT, MR_FULL,
	  FI_THREAD_COMPLETION, FI_PROGRESS_UNSPEC, FI_AV_TABLE, 0, 0, 4, 2, 0, 0, 12288 },
	{ "NIXL", 18, FI_MSG | FI_RMA | COMM, FI_CONTEXT, MR_FULL | FI_MR_LOCAL | FI_MR_HMEM, MR_FULL,
	  FI_THREAD_COMPLETION, FI_PROGRESS_UNSPEC, FI_AV_TABLE, 0, 0, 0, 2, 0, 0, 12288 },
	{ "NVSHMEM", 5, FI_RMA | FI_ATOMIC, 0, MR_FULL, MR_FULL, FI_THREAD_SAFE, FI_PROGRESS_UNSPEC, FI_AV_TABLE,
	  FI_DELIVERY_COMPLETE, 0, 0, 0, 16, 0, 0 },
	{ "Sandia OpenSHMEM", 5, FI_RMA | FI_ATOMIC | FI_RMA_EVENT, 0, 0, 0, FI_THREAD_DOMAIN, FI_PROGRESS_AUTO,
	  FI_AV_UNSPEC, FI_DELIVERY_COMPLETE, 0, 0, 0, 16, 0, 0 },
	{ "Sandia OpenSHMEM, virtual addresses", 5, FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_FENCE, 0, MR_FULL, MR_FULL,
	  FI_THREAD_COMPLETION, FI_PROGRESS_AUTO, FI_AV_UNSPEC, FI_DELIVERY_COMPLETE, 0, 0, 0, 16, 0, 0 },
	{ "Mercury", 13, FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR,
	  FI_ASYNC_IOV | FI_CONTEXT, MR_FULL | FI_MR_LOCAL | FI_MR_ENDPOINT, MR_FULL, FI_THREAD_SAFE,
	  FI_PROGRESS_MANUAL, FI_AV_TABLE, FI_INJECT_COMPLETE, 0, 0, 0, 0, 512, 131072 },
};

static struct fi_info *consumer_hints(const struct consumer *c, uint64_t all)
{
	struct fi_info *h = world_hints();

	h->caps = c->caps ? c->caps : all;
	h->mode = c->mode;
	h->domain_attr->mr_mode = c->mr_mode;
	h->domain_attr->threading = c->threading;
	h->domain_attr->control_progress = h->domain_attr->data_progress = c->progress;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->av_type = c->av;
	h->domain_attr->cq_data_size = c->cq_data;
	h->domain_attr->mr_key_size = c->key_size;
	h->tx_attr->op_flags = c->op_flags;
	h->tx_attr->msg_order = h->rx_attr->msg_order = c->order;
	h->tx_attr->inject_size = c->inject;
	h->tx_attr->size = h->rx_attr->size = c->ctx_size;
	return h;
}

/* One answer that all of them accept, and with it an endpoint as they open it. */
TEST(getinfo__consumers)
{
	struct fi_info *all, *info;

	assert_int_equal(ask(NULL, &all), 0);
	/* by what MPICH rates a provider */
	assert_true(all->domain_attr->cq_data_size >= 4 && all->caps & FI_TAGGED && all->caps & FI_RMA);
	assert_true(all->caps & FI_MSG && all->caps & FI_MULTI_RECV && all->caps & FI_ATOMIC);
	assert_true((all->tx_attr->msg_order & ATOMIC_ORDER) == ATOMIC_ORDER);
	for (size_t i = 0; i < uccl_array_len(consumers); i++) {
		const struct consumer *c = &consumers[i];
		struct fi_info *h = consumer_hints(c, all->caps);
		struct fi_cq_attr cq_attr = { .size = c->cq_size, .format = FI_CQ_FORMAT_TAGGED };
		struct fi_av_attr av_attr = { .type = c->av };
		struct fid_fabric *fabric;
		struct fid_domain *domain;
		struct fid_ep *ep;
		struct fid_cq *cq;
		struct fid_av *av;

		print_message("%s\n", c->name);
		assert_int_equal(uccl_getinfo(FI_VERSION(1, c->minor), NULL, NULL, 0, h, &info), 0);
		assert_int_equal(info->caps & h->caps, h->caps);
		assert_int_equal(info->mode, 0);
		assert_int_equal(info->domain_attr->mr_mode, c->want_mr);
		assert_int_equal(info->domain_attr->threading, c->threading);
		assert_true(!c->progress || info->domain_attr->data_progress == c->progress);
		assert_int_equal(info->domain_attr->av_type, c->av);
		assert_int_equal(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
		assert_true(info->domain_attr->cq_data_size >= c->cq_data);
		assert_true(info->domain_attr->mr_key_size >= c->key_size);
		assert_int_equal(info->tx_attr->op_flags, c->op_flags);
		assert_int_equal(info->tx_attr->msg_order & c->order, c->order);
		assert_true(info->tx_attr->inject_size >= uccl_max(c->inject, 64));
		assert_true(info->tx_attr->iov_limit >= 4 && info->tx_attr->size >= c->ctx_size);
		assert_true(info->ep_attr->max_msg_size >= 1u << 30);
		assert_true(info->src_addrlen && info->src_addrlen <= 56);
		assert_non_null(info->nic->device_attr->name);
		assert_int_equal(info->nic->link_attr->state, FI_LINK_UP);
		for (struct fi_info *k = info->next; k; k = k->next) {
			assert_int_equal(k->caps, info->caps);
			assert_int_equal(k->addr_format, info->addr_format);
			assert_string_equal(k->fabric_attr->name, info->fabric_attr->name);
		}
		assert_int_equal(fi_prov_ini()->fabric(info->fabric_attr, &fabric, NULL), 0);
		assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
		assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
		assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
		assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
		assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION), 0);
		assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
		assert_int_equal(fi_enable(ep), 0);
		world_closes(&ep->fid, &av->fid, &cq->fid, &domain->fid, &fabric->fid);
		uccl_lib.freeinfo(info);
		fi_freeinfo(h);
	}
	uccl_lib.freeinfo(all);
}

TEST(getinfo__null_parts)
{
	struct fi_info h = { .caps = FI_MSG }, *info;
	struct fid_nic zero = { .device_attr = NULL };

	h.nic = &zero;
	assert_int_equal(ask(&h, &info), 0);
	uccl_lib.freeinfo(info);
}

TEST(getinfo__old_api)
{
	struct fi_info *h = world_hints(), *info;

	assert_int_equal(uccl_getinfo(FI_VERSION(1, 4), NULL, NULL, 0, h, &info), 0);
	assert_int_equal(info->domain_attr->mr_mode, FI_MR_SCALABLE);
	uccl_lib.freeinfo(info);
	h->domain_attr->mr_mode = FI_MR_BASIC;
	assert_int_equal(uccl_getinfo(FI_VERSION(1, 4), NULL, NULL, 0, h, &info), 0);
	assert_int_equal(info->domain_attr->mr_mode, FI_MR_BASIC);
	uccl_lib.freeinfo(info);
	fi_freeinfo(h);
}

/* Fields that only exist in the structs of later libraries are written for those alone. */
static void getinfo__tail(void **state)
{
	uint32_t version = uccl_lib.version;
	struct fi_info *info;
	uint64_t tail[4];

	assert_int_equal(ask(NULL, &info), 0);
	uccl_lib.freeinfo(info);
	/* As if a 2.5 had loaded us: its structs are longer, which the stand-ins allow for. */
	uccl_lib.version = FI_VERSION(2, 5);
	assert_int_equal(ask(NULL, &info), 0);
	memcpy(tail, (char *)info->domain_attr + 192, sizeof(tail));
	assert_int_equal(tail[0], 0);
	assert_int_equal(tail[1], 0);
	assert_true(tail[2] == UINT64_MAX && tail[3] == UINT64_MAX);
	uccl_lib.freeinfo(info);
	uccl_lib.version = FI_VERSION(2, 4);
	assert_int_equal(ask(NULL, &info), 0);
	memcpy(tail, (char *)info->domain_attr + 192, sizeof(tail));
	assert_true(tail[2] == 0 && tail[3] == 0);
	uccl_lib.freeinfo(info);
	uccl_lib.version = version;
}

TEST(getinfo__node)
{
	struct fi_info *info;
	struct uccl_addr a;

	assert_int_equal(uccl_getinfo(API, "127.0.0.1", "7471", 0, NULL, &info), 0);
	assert_string_equal(info->domain_attr->name, "lo");
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->dest_addr, info->dest_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.port, 7471);
	assert_true(uccl_addr_keyless(&a));
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->src_addr, info->src_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.port, 0);
	uccl_lib.freeinfo(info);
	assert_int_equal(uccl_getinfo(API, "localhost", "7471", 0, NULL, &info), 0);
	assert_non_null(info->dest_addr);
	uccl_lib.freeinfo(info);
	assert_int_equal(uccl_getinfo(API, "localhost", NULL, FI_NUMERICHOST, NULL, &info), -FI_ENODATA);
	/* the text of an address, for which the service must be NULL */
	assert_int_equal(uccl_getinfo(API, "fi_sockaddr_in://127.0.0.1:7471", NULL, 0, NULL, &info), 0);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->dest_addr, info->dest_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.port, 7471);
	uccl_lib.freeinfo(info);
	assert_int_equal(uccl_getinfo(API, "fi_sockaddr_in://127.0.0.1:7471", NULL, FI_SOURCE, NULL, &info), 0);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->src_addr, info->src_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.port, 7471);
	uccl_lib.freeinfo(info);
	assert_int_equal(uccl_getinfo(API, "fi_sockaddr_in://127.0.0.1:7471", "1", 0, NULL, &info), -FI_ENODATA);
	assert_int_equal(uccl_getinfo(API, "no.such.host.invalid", "1", 0, NULL, &info), -FI_ENODATA);
	assert_int_equal(uccl_getinfo(API, "no.such.host.invalid", "1", FI_SOURCE, NULL, &info), -FI_ENODATA);
}

TEST(getinfo__source)
{
	struct fi_info *info;
	struct uccl_addr a;

	assert_int_equal(uccl_getinfo(API, "127.0.0.1", "7471", FI_SOURCE, NULL, &info), 0);
	assert_null(info->next);
	assert_string_equal(info->domain_attr->name, "lo");
	assert_null(info->dest_addr);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->src_addr, info->src_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.port, 7471);
	assert_true(uccl_ifaddr_is_loopback(&a.nic));
	uccl_lib.freeinfo(info);
	/* any interface, this port */
	assert_int_equal(uccl_getinfo(API, NULL, "7471", FI_SOURCE, NULL, &info), 0);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->src_addr, info->src_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.port, 7471);
	assert_false(uccl_ifaddr_is_any(&a.nic));
	uccl_lib.freeinfo(info);
	/* an address of loopback that no list has */
	assert_int_equal(uccl_getinfo(API, "127.0.0.9", NULL, FI_SOURCE, NULL, &info), 0);
	assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, info->src_addr, info->src_addrlen, &a, NULL), 0);
	assert_int_equal(a.nic.ip[15], 9);
	uccl_lib.freeinfo(info);
	/* not ours */
	assert_int_equal(uccl_getinfo(API, "192.0.2.77", NULL, FI_SOURCE, NULL, &info), -FI_ENODATA);
}

TEST(getinfo__sockaddr)
{
	struct fi_info *h = world_hints(), *info;
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7471) };

	h->addr_format = FI_SOCKADDR_IN;
	assert_int_equal(ask(h, &info), 0);
	assert_int_equal(info->addr_format, FI_SOCKADDR_IN);
	assert_int_equal(info->src_addrlen, sizeof(sin));
	assert_int_equal(((struct sockaddr_in *)info->src_addr)->sin_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)info->src_addr)->sin_port, 0);
	uccl_lib.freeinfo(info);
	/* the source and the peer as hints */
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	h->src_addr = malloc(sizeof(sin));
	h->dest_addr = malloc(sizeof(sin));
	assert_non_null(h->src_addr);
	assert_non_null(h->dest_addr);
	memcpy(h->src_addr, &sin, sizeof(sin));
	sin.sin_port = htons(7472);
	memcpy(h->dest_addr, &sin, sizeof(sin));
	h->src_addrlen = h->dest_addrlen = sizeof(sin);
	assert_int_equal(ask(h, &info), 0);
	assert_int_equal(((struct sockaddr_in *)info->src_addr)->sin_port, htons(7471));
	assert_int_equal(((struct sockaddr_in *)info->dest_addr)->sin_port, htons(7472));
	uccl_lib.freeinfo(info);
	/* only the attributes: addresses do not matter */
	((struct sockaddr_in *)h->src_addr)->sin_family = 99;
	assert_int_equal(ask(h, &info), -FI_ENODATA);
	assert_int_equal(uccl_getinfo(API, NULL, NULL, FI_PROV_ATTR_ONLY, h, &info), 0);
	uccl_lib.freeinfo(info);
	fi_freeinfo(h);
}

TEST(getinfo__nic_variable)
{
	struct fi_info *info;

	setenv("FI_UCCL_NIC", "no-such,lo", 1);
	assert_int_equal(ask(NULL, &info), 0);
	for (struct fi_info *i = info; i; i = i->next)
		assert_string_equal(i->domain_attr->name, "lo");
	uccl_lib.freeinfo(info);
	setenv("FI_UCCL_NIC", "no-such", 1);
	assert_int_equal(ask(NULL, &info), -FI_ENODATA);
	unsetenv("FI_UCCL_NIC");
	setenv("FI_UCCL_PATHS", "window=many", 1);
	assert_int_equal(ask(NULL, &info), -FI_ENODATA);
	unsetenv("FI_UCCL_PATHS");
}

WORLD_TEST(getinfo__open_objects, world, w)
{
	struct fi_info *h = world_hints(), *info;
	struct fid_domain foreign = { .fid.fclass = FI_CLASS_DOMAIN };

	h->domain_attr->domain = w->domain;
	h->fabric_attr->fabric = w->fabric;
	assert_int_equal(ask(h, &info), 0);
	assert_ptr_equal(info->domain_attr->domain, w->domain);
	assert_ptr_equal(info->fabric_attr->fabric, w->fabric);
	uccl_lib.freeinfo(info);
	h->domain_attr->domain = &foreign;
	assert_int_equal(ask(h, &info), -FI_ENODATA);
	fi_freeinfo(h);
}

TEST(nicattr__dup_and_text)
{
	struct fi_info *info, *dup;
	char text[4096] = "before\n";

	assert_int_equal(ask(NULL, &info), 0);
	dup = fi_dupinfo(info);
	assert_non_null(dup);
	assert_ptr_not_equal(dup->nic, info->nic);
	assert_string_equal(dup->nic->link_attr->address, info->nic->link_attr->address);
	assert_int_equal(dup->nic->link_attr->state, FI_LINK_UP);
	assert_int_equal(dup->nic->fid.ops->tostr(&dup->nic->fid, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "before\n    fid_nic:"));
	assert_non_null(strstr(text, info->nic->device_attr->name));
	fi_freeinfo(dup);
	uccl_lib.freeinfo(info);
}

static int stand_ins(void **state)
{
	/* What is refused without a GPU is refused on machines with one, too. */
	setenv("FI_UCCL_CUDA", "off", 1);
	fi_prov_ini();
	return 0;
}

/* This process may or may not have RDMA NICs; what they cannot do is refused either way. */
TEST(getinfo__rdma)
{
	struct fi_info *h = fi_allocinfo(), *info = NULL;
	struct uccl_addr a;
	int rc;

	setenv("FI_UCCL_BACKEND", "verbs-ud", 1);
	h->ep_attr->type = FI_EP_RDM;
	rc = ask(h, &info);
	assert_true(rc == 0 || rc == -FI_ENODATA);
	for (struct fi_info *i = info; i; i = i->next) {
		assert_int_equal(i->addr_format, FI_ADDR_UCCL);
		assert_string_equal(i->nic->device_attr->name, i->domain_attr->name);
	}
	fi_freeinfo(info);
	info = NULL;
	/* A port to be found by is as good as none to find what there is. */
	assert_int_equal(uccl_getinfo(API, NULL, "7000", FI_SOURCE, h, &info), rc);
	for (struct fi_info *i = info; i; i = i->next) {
		assert_int_equal(uccl_address_unpack(FI_ADDR_UCCL, i->src_addr, i->src_addrlen, &a, NULL), 0);
		assert_int_equal(a.nic.port, 7000);
	}
	fi_freeinfo(info);
	info = NULL;
	/* A host alone can be reached by what there is, but is nobody's address. */
	assert_int_equal(uccl_getinfo(API, "127.0.0.1", NULL, 0, h, &info), rc);
	for (struct fi_info *i = info; i; i = i->next)
		assert_null(i->dest_addr);
	fi_freeinfo(info);
	info = NULL;
	assert_int_equal(uccl_getinfo(API, "no such host", NULL, 0, h, &info), -FI_ENODATA);
	/* Nobody is asked where the own address is told to nobody. */
	setenv("FI_UCCL_SECURITY", "keyless=no", 1);
	assert_int_equal(uccl_getinfo(API, "127.0.0.1", "7000", 0, h, &info), -FI_ENODATA);
	assert_int_equal(uccl_getinfo(API, NULL, "7000", FI_SOURCE, h, &info), -FI_ENODATA);
	unsetenv("FI_UCCL_SECURITY");
	h->addr_format = FI_SOCKADDR_IN;
	assert_int_equal(ask(h, &info), -FI_ENODATA);
	h->addr_format = FI_FORMAT_UNSPEC;
	h->domain_attr->name = strdup("lo"); /* an interface of sockets, no device */
	assert_int_equal(ask(h, &info), -FI_ENODATA);
	assert_null(info);
	fi_freeinfo(h);
	unsetenv("FI_UCCL_BACKEND");
}

/* Who shares an open domain must hear how its regions are addressed, whatever else was possible. */
TEST(getinfo__open_domain)
{
	enum { all = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY };
	static const int modes[] = { 0, FI_MR_BASIC, FI_MR_SCALABLE, all, FI_MR_LOCAL };
	static const bool virtual[] = { false, true, false, true, false };
	/* by what the domain does, and what is offered; -1: they cannot agree */
	static const int want[2][5] = { { 0, -1, FI_MR_SCALABLE, 0, 0 }, { -1, FI_MR_BASIC, -1, all, -1 } };

	for (size_t d = 0; d < uccl_array_len(modes); d++) {
		struct fi_info *h = world_hints();
		struct world w;

		h->caps = FI_MSG | FI_RMA;
		h->domain_attr->mr_mode = modes[d];
		world_open_with(&w, h);
		for (size_t i = 0; i < uccl_array_len(modes); i++) {
			struct fi_info *info = NULL;
			int rc;

			h = world_hints();
			h->caps = FI_RMA | FI_ATOMIC;
			h->domain_attr->mr_mode = modes[i];
			h->domain_attr->domain = w.domain;
			rc = ask(h, &info);
			assert_int_equal(rc, want[virtual[d]][i] < 0 ? -FI_ENODATA : 0);
			if (!rc) {
				assert_int_equal(info->domain_attr->mr_mode, want[virtual[d]][i]);
				uccl_lib.freeinfo(info);
			}
			/* Messages alone need no regions. */
			h->caps = FI_MSG;
			assert_int_equal(ask(h, &info), 0);
			uccl_lib.freeinfo(info);
			fi_freeinfo(h);
		}
		world_close(&w);
	}
}

/* The names of what is offered, "a b c"; `node` is a peer, NULL: none. */
static const char *offered(const char *nics, const char *node)
{
	static char text[256];
	struct fi_info *info = NULL;
	int rc;

	setenv("FI_UCCL_NIC", nics, 1);
	rc = uccl_getinfo(API, node, NULL, 0, NULL, &info);
	unsetenv("FI_UCCL_NIC");
	snprintf(text, sizeof(text), "%s", rc ? "nothing" : "");
	for (struct fi_info *i = info; i; i = i->next)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%.32s", i == info ? "" : " ",
			 i->domain_attr->name);
	fi_freeinfo(info);
	return text;
}

/* The address of an endpoint whose fi_info has neither an address nor the name of a domain. */
static const char *source_text(void)
{
	static char text[UCCL_ADDRESS_TEXT];
	struct fi_domain_attr domain = { 0 };
	struct fi_info info = { .domain_attr = &domain };
	struct uccl_params params;
	struct uccl_nic_addr src;
	char why[UCCL_PARAM_TEXT];

	assert_int_equal(uccl_params_read(&params, why, sizeof(why)), 0);
	assert_int_equal(uccl_source(&info, &params, &src), 0);
	uccl_address_ip_text(&src, text, sizeof(text));
	return text;
}

/*
 * A host with a NIC that says no speed (a bridge without ports stands in), and docker0 with one container, which says
 * 10 Gbit/s. Without privileges nothing can be said here.
 */
TEST(getinfo__host_with_containers)
{
	static const char *const not_joined[] = { "nic0+", "+nic0", "+", "nic0+nic0", "nic0++docker0", "nic0+eth7" };
	int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	bool ready = !unshare(CLONE_NEWNET) &&
		     !system("ip link set lo up && ip link add nic0 type bridge && ip link set nic0 up && "
			     "ip addr add 10.1.0.1/24 dev nic0 && ip route add default via 10.1.0.254 && "
			     "ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && "
			     "ip link set docker0 up && ip link add c1 type veth peer name p1 && "
			     "ip link set c1 master docker0 up && ip link set p1 up");

	if (ready) {
		assert_string_equal(offered("", NULL), "nic0");
		assert_string_equal(offered("^nic0", NULL), "docker0");
		assert_string_equal(offered("docker0", NULL), "docker0");
		assert_string_equal(offered("docker*,nic0", NULL), "docker0 nic0");
		/* An endpoint that names neither an interface nor an address gives out the NIC's. */
		assert_string_equal(source_text(), "10.1.0.1");
		/* A peer behind the bridge is reached by it, others are not. */
		assert_string_equal(offered("", "172.17.0.9"), "nic0 docker0");
		assert_string_equal(offered("", "10.9.9.9"), "nic0");
		world_listen(FI_LOG_WARN);
		assert_string_equal(offered("^docker0,^virbr*", NULL), "nic0");
		assert_string_equal(world_heard(), "");
		world_listen(FI_LOG_WARN);
		assert_string_equal(offered("^nic*,docker0,virbr*", NULL), "lo");
		assert_non_null(strstr(world_heard(), "FI_UCCL_NIC=^nic*,docker0,virbr* excludes every interface"));
		world_listen(FI_LOG_WARN);
		assert_string_equal(offered("^*", NULL), "nothing");
		assert_non_null(strstr(world_heard(), "exclude fewer, or name one (nic0"));
		world_listen(FI_LOG_WARN);
		assert_string_equal(offered("nic*,^nic0,eth?", NULL), "nothing");
		assert_non_null(strstr(world_heard(), "no interface eth? with an address is up here; those"));
		world_listen(FI_LOG_WARN);
		assert_string_equal(offered("nic0,eth?", NULL), "nic0");
		assert_non_null(strstr(world_heard(), "no interface eth? with an address is up here; nic0 is used"));
		assert_string_equal(offered("nic0+docker0", NULL), "nic0+docker0");
		for (size_t i = 0; i < uccl_array_len(not_joined); i++) {
			world_listen(FI_LOG_WARN);
			assert_string_equal(offered(not_joined[i], NULL), "nothing");
			assert_non_null(strstr(world_heard(), not_joined[i]));
			assert_non_null(strstr(world_heard(), "cannot be joined: that takes 2 to 8 different"));
		}
	}
	if (home >= 0)
		assert_int_equal(setns(home, CLONE_NEWNET) && ready, 0);
	close(home);
	if (!ready)
		skip();
}

int main(void)
{
	/* Before the library is found, for the sake of the longer structs. */
	const struct CMUnitTest early[] = { cmocka_unit_test(getinfo__tail) };

	return cmocka_run_group_tests(early, NULL, NULL) + tests_run(stand_ins, NULL);
}

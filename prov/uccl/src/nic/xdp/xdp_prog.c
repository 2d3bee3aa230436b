/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See xdp_prog.h. The calls are the kernel's own (bpf(2), rtnetlink): nothing has to be installed for them. */
#include "nic/xdp/xdp_prog.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/le.h"
#include "base/log.h"
#include "base/units.h"
#include "nic/netlink.h"
#include "nic/ownfd.h"

/* A number in the name keeps versions apart that do not agree about the rule. */
#define NAME_PROG "uccl_xdp2"
#define NAME_XSKS "uccl_xsks2"
#define NAME_RULES "uccl_rules2"
#define TRIES 20 /* others come and go while we search */

static long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* The program. */

/* Jumps name their target; a mark of that name, which is no instruction, stands before it. */
enum { TO_PASS = 0x7f00, TO_V4, TO_UDP, TO_TAKE, TO_REDIRECT, TO_END };

#define OP(c, d, s, o, i) {.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)}
#define MARK(target) OP(0, 0, 0, (target), 0)
#define LOAD(size, d, s, o) OP(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define MOVE(d, s) OP(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define SET(d, i) OP(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD(d, i) OP(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define AND(d, i) OP(BPF_ALU64 | BPF_AND | BPF_K, d, 0, 0, i)
#define CALL(f) OP(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* `cond` of two registers, or of the low half of one and a number. */
#define IF(cond, d, s, target) OP(BPF_JMP | (cond) | BPF_X, d, s, target, 0)
#define IF_NUMBER(cond, d, i, target) OP(BPF_JMP32 | (cond) | BPF_K, d, 0, target, (int32_t)(i))
#define GOTO(target) OP(BPF_JMP | BPF_JA, 0, 0, target, 0)
#define MAP(d, fd) OP(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), OP(0, 0, 0, 0, 0)
#define STORE(size, at, s) OP(BPF_STX | BPF_MEM | (size), BPF_REG_10, s, at, 0)
#define STORE_NUMBER(size, at, i) OP(BPF_ST | BPF_MEM | (size), BPF_REG_10, 0, at, (int32_t)(i))
/* 32 bits of the packet become some of the key. */
#define COPY(packet, at, key_at) LOAD(BPF_W, BPF_REG_2, packet, at), STORE(BPF_W, key_at, BPF_REG_2)
/* The same 8 or 16 bits of packet and rule, or else it is not ours. */
#define SAME(size, packet, at, rule_at)                                                                                \
	LOAD(size, BPF_REG_2, packet, at), LOAD(size, BPF_REG_3, BPF_REG_7, rule_at),                                  \
		IF(BPF_JNE, BPF_REG_2, BPF_REG_3, TO_PASS)

#define RULE(field) ((int16_t)offsetof(struct uccl_xdp_rule, field))
/* The key lies at the top of the stack. */
#define KEY(field) ((int16_t)((int)offsetof(struct uccl_xdp_key, field) - (int)sizeof(struct uccl_xdp_key)))

/* As a 16-bit load of a little or big endian host sees these two bytes. */
static uint32_t bytes16(uint8_t first, uint8_t second)
{
	uint8_t b[2] = {first, second};
	uint16_t v;

	memcpy(&v, b, sizeof(v));
	return v;
}

static uint32_t bytes32(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	uint8_t v4[4] = {a, b, c, d};
	uint32_t v;

	memcpy(&v, v4, sizeof(v));
	return v;
}

/* Put jumps right and take marks out. Returns how many instructions are left. */
static uint32_t marks_resolve(struct bpf_insn *code, uint32_t n)
{
	int16_t at[TO_END - TO_PASS] = {0};
	uint32_t k = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!code[i].code && code[i].off)
			at[code[i].off - TO_PASS] = (int16_t)k;
		else
			code[k++] = code[i];
	}
	for (uint32_t i = 0; i < k; i++) {
		uint8_t class = BPF_CLASS(code[i].code);

		if ((class == BPF_JMP || class == BPF_JMP32) && code[i].off >= TO_PASS)
			code[i].off = (int16_t)(at[code[i].off - TO_PASS] - (int16_t)i - 1);
	}
	return k;
}

static int prog_load(int xsks_fd, int rules_fd)
{
	struct bpf_insn code[] = {
		/* r6 context, r7 rule, r8 and r9 the frame's begin and end, and r9 later where UDP begins. */
		MOVE(BPF_REG_6, BPF_REG_1),
		LOAD(BPF_W, BPF_REG_8, BPF_REG_6, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, BPF_REG_9, BPF_REG_6, offsetof(struct xdp_md, data_end)),
		/* Headers of IPv4, and 16 bytes of what is ours. */
		MOVE(BPF_REG_1, BPF_REG_8),
		ADD(BPF_REG_1, 14 + 20 + 8 + 16),
		IF(BPF_JGT, BPF_REG_1, BPF_REG_9, TO_PASS),
		LOAD(BPF_H, BPF_REG_2, BPF_REG_8, 12),
		IF_NUMBER(BPF_JEQ, BPF_REG_2, bytes16(0x08, 0x00), TO_V4),
		IF_NUMBER(BPF_JNE, BPF_REG_2, bytes16(0x86, 0xdd), TO_PASS),
		MOVE(BPF_REG_1, BPF_REG_8),
		ADD(BPF_REG_1, 14 + 40 + 8 + 16),
		IF(BPF_JGT, BPF_REG_1, BPF_REG_9, TO_PASS),
		LOAD(BPF_B, BPF_REG_2, BPF_REG_8, 14),
		AND(BPF_REG_2, 0xf0),
		IF_NUMBER(BPF_JNE, BPF_REG_2, 0x60, TO_PASS),
		LOAD(BPF_B, BPF_REG_2, BPF_REG_8, 14 + 6),
		IF_NUMBER(BPF_JNE, BPF_REG_2, IPPROTO_UDP, TO_PASS),
		COPY(BPF_REG_8, 14 + 24, KEY(ip)),
		COPY(BPF_REG_8, 14 + 28, KEY(ip) + 4),
		COPY(BPF_REG_8, 14 + 32, KEY(ip) + 8),
		COPY(BPF_REG_8, 14 + 36, KEY(ip) + 12),
		MOVE(BPF_REG_9, BPF_REG_8),
		ADD(BPF_REG_9, 14 + 40),
		GOTO(TO_UDP),
		MARK(TO_V4),
		LOAD(BPF_B, BPF_REG_2, BPF_REG_8, 14),
		IF_NUMBER(BPF_JNE, BPF_REG_2, 0x45, TO_PASS),
		LOAD(BPF_H, BPF_REG_2, BPF_REG_8, 14 + 6),
		IF_NUMBER(BPF_JSET, BPF_REG_2, bytes16(0x3f, 0xff), TO_PASS),
		LOAD(BPF_B, BPF_REG_2, BPF_REG_8, 14 + 9),
		IF_NUMBER(BPF_JNE, BPF_REG_2, IPPROTO_UDP, TO_PASS),
		STORE_NUMBER(BPF_DW, KEY(ip), 0),
		STORE_NUMBER(BPF_W, KEY(ip) + 8, bytes32(0, 0, 0xff, 0xff)),
		COPY(BPF_REG_8, 14 + 16, KEY(ip) + 12),
		MOVE(BPF_REG_9, BPF_REG_8),
		ADD(BPF_REG_9, 14 + 20),
		MARK(TO_UDP),
		LOAD(BPF_W, BPF_REG_2, BPF_REG_6, offsetof(struct xdp_md, rx_queue_index)),
		STORE(BPF_W, KEY(queue), BPF_REG_2),
		LOAD(BPF_H, BPF_REG_2, BPF_REG_9, 2),
		STORE(BPF_H, KEY(port), BPF_REG_2),
		STORE_NUMBER(BPF_H, KEY(zero), 0),
		MAP(BPF_REG_1, rules_fd),
		MOVE(BPF_REG_2, BPF_REG_10),
		ADD(BPF_REG_2, -(int)sizeof(struct uccl_xdp_key)),
		CALL(BPF_FUNC_map_lookup_elem),
		OP(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, TO_PASS, 0),
		MOVE(BPF_REG_7, BPF_REG_0),
		/* Also what does not lie in one piece has a length. */
		MOVE(BPF_REG_1, BPF_REG_6),
		CALL(BPF_FUNC_xdp_get_buff_len),
		LOAD(BPF_W, BPF_REG_2, BPF_REG_7, RULE(most)),
		IF(BPF_JGT, BPF_REG_0, BPF_REG_2, TO_PASS),
		LOAD(BPF_B, BPF_REG_2, BPF_REG_7, RULE(guarded)),
		IF_NUMBER(BPF_JEQ, BPF_REG_2, 0, TO_TAKE),
		SAME(BPF_H, BPF_REG_9, 8, RULE(magic)),
		SAME(BPF_B, BPF_REG_9, 8 + 2, RULE(version)),
		LOAD(BPF_B, BPF_REG_2, BPF_REG_9, 8 + 3),
		IF_NUMBER(BPF_JGT, BPF_REG_2, 31, TO_PASS),
		LOAD(BPF_W, BPF_REG_3, BPF_REG_7, RULE(types)),
		OP(BPF_ALU64 | BPF_RSH | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0),
		AND(BPF_REG_3, 1),
		IF_NUMBER(BPF_JEQ, BPF_REG_3, 0, TO_PASS),
		SAME(BPF_H, BPF_REG_9, 8 + 14, RULE(token_top)),
		MARK(TO_TAKE),
		MOVE(BPF_REG_1, BPF_REG_6),
		SET(BPF_REG_2, -(int)sizeof(struct uccl_xdp_stamp)),
		CALL(BPF_FUNC_xdp_adjust_meta),
		IF_NUMBER(BPF_JNE, BPF_REG_0, 0, TO_REDIRECT),
		CALL(BPF_FUNC_ktime_get_ns),
		LOAD(BPF_W, BPF_REG_2, BPF_REG_6, offsetof(struct xdp_md, data_meta)),
		LOAD(BPF_W, BPF_REG_3, BPF_REG_6, offsetof(struct xdp_md, data)),
		MOVE(BPF_REG_1, BPF_REG_2),
		ADD(BPF_REG_1, sizeof(struct uccl_xdp_stamp)),
		IF(BPF_JGT, BPF_REG_1, BPF_REG_3, TO_REDIRECT),
		OP(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_2, BPF_REG_0, offsetof(struct uccl_xdp_stamp, at_ns), 0),
		SET(BPF_REG_0, UCCL_XDP_STAMPED),
		OP(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_2, BPF_REG_0, offsetof(struct uccl_xdp_stamp, mark), 0),
		MARK(TO_REDIRECT),
		/* Without that socket any more it is the kernel's. */
		MAP(BPF_REG_1, xsks_fd),
		LOAD(BPF_W, BPF_REG_2, BPF_REG_7, RULE(slot)),
		SET(BPF_REG_3, XDP_PASS),
		CALL(BPF_FUNC_redirect_map),
		EXIT,
		MARK(TO_PASS),
		SET(BPF_REG_0, XDP_PASS),
		EXIT,
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_XDP;
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = marks_resolve(code, uccl_array_len(code));
	attr.license = (uintptr_t) "Dual BSD/GPL";
	attr.prog_flags = BPF_F_XDP_HAS_FRAGS;
	memcpy(attr.prog_name, NAME_PROG, sizeof(NAME_PROG));
	return (int)bpf(BPF_PROG_LOAD, &attr);
}

static int map_create(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t entries, const char *name)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = type;
	attr.key_size = key_size;
	attr.value_size = value_size;
	attr.max_entries = entries;
	strncpy(attr.map_name, name, sizeof(attr.map_name) - 1);
	return (int)bpf(BPF_MAP_CREATE, &attr);
}

/* `value`: or the next key, or NULL where the call takes none. */
static int map_call(int cmd, int fd, const void *key, const void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	return bpf(cmd, &attr) ? -errno : 0;
}

/* What is on the interface. */

struct on_link {
	uint32_t queues;
	uint32_t prog_id; /* 0: none */
	bool native;
};

static void xdp_read(const struct rtattr *nest, struct on_link *out)
{
	const struct rtattr *a = RTA_DATA(nest);
	int left = (int)RTA_PAYLOAD(nest);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		uint32_t id = 0;

		if (RTA_PAYLOAD(a) >= sizeof(id))
			memcpy(&id, RTA_DATA(a), sizeof(id));
		if (a->rta_type == IFLA_XDP_DRV_PROG_ID || a->rta_type == IFLA_XDP_SKB_PROG_ID ||
		    a->rta_type == IFLA_XDP_HW_PROG_ID)
			out->prog_id = id;
		out->native |= a->rta_type == IFLA_XDP_DRV_PROG_ID;
	}
}

static int link_read(int ifindex, struct on_link *out)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg body;
	} ask = {.h = {.nlmsg_len = sizeof(ask), .nlmsg_type = RTM_GETLINK}, .body.ifi_index = ifindex};
	_Alignas(struct nlmsghdr) uint8_t answer[UCCL_NETLINK_ROOM];
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	const struct rtattr *a;
	int fd = uccl_netlink_open(0), left, err;

	memset(out, 0, sizeof(*out));
	out->queues = 1;
	if (fd < 0)
		return fd;
	err = uccl_netlink_ask(fd, &ask.h, answer, sizeof(answer), RTM_NEWLINK);
	close(fd);
	if (err)
		return err;
	left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(struct ifinfomsg)));
	for (a = IFLA_RTA(NLMSG_DATA(h)); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFLA_NUM_RX_QUEUES && RTA_PAYLOAD(a) >= sizeof(out->queues))
			memcpy(&out->queues, RTA_DATA(a), sizeof(out->queues));
		else if ((a->rta_type & NLA_TYPE_MASK) == IFLA_XDP)
			xdp_read(a, out);
	}
	return 0;
}

/* Joining. */

static int fd_by_id(int cmd, uint32_t id)
{
	union bpf_attr attr;
	long fd;

	memset(&attr, 0, sizeof(attr));
	attr.prog_id = id; /* the same place as map_id and link_id */
	fd = bpf(cmd, &attr);
	return fd < 0 ? -errno : (int)fd;
}

static int info_get(int fd, void *info, uint32_t len)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = len;
	attr.info.info = (uintptr_t)info;
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) ? -errno : 0;
}

/* The link that holds the program on the interface: links have no list by interface, so all are searched. */
static int link_find(uint32_t prog_id)
{
	union bpf_attr attr;
	struct bpf_link_info info;

	memset(&attr, 0, sizeof(attr));
	while (!bpf(BPF_LINK_GET_NEXT_ID, &attr)) {
		int fd = fd_by_id(BPF_LINK_GET_FD_BY_ID, attr.next_id);

		attr.start_id = attr.next_id;
		if (fd == -EPERM)
			return fd;
		if (fd < 0)
			continue;
		memset(&info, 0, sizeof(info));
		if (!info_get(fd, &info, sizeof(info)) && info.type == BPF_LINK_TYPE_XDP && info.prog_id == prog_id)
			return fd;
		close(fd);
	}
	return errno == EPERM ? -FI_EPERM : -FI_ENOENT;
}

static int maps_join(struct uccl_xdp_prog *p, const uint32_t *id, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int fd = fd_by_id(BPF_MAP_GET_FD_BY_ID, id[i]);
		struct bpf_map_info info;

		if (fd < 0)
			return fd;
		memset(&info, 0, sizeof(info));
		if (info_get(fd, &info, sizeof(info))) {
			close(fd);
		} else if (info.type == BPF_MAP_TYPE_XSKMAP && p->xsks_fd < 0) {
			p->xsks_fd = fd;
			p->queues = info.max_entries / UCCL_XDP_SOCKETS;
		} else if (info.type == BPF_MAP_TYPE_HASH && info.key_size == sizeof(struct uccl_xdp_key) &&
			   info.value_size == sizeof(struct uccl_xdp_rule) && p->rules_fd < 0) {
			p->rules_fd = fd;
		} else {
			close(fd);
		}
	}
	return p->xsks_fd >= 0 && p->rules_fd >= 0 ? 0 : -FI_EBUSY;
}

static int prog_join(int ifindex, struct uccl_xdp_prog *p, const char **what)
{
	struct bpf_prog_info info;
	uint32_t maps[4] = {0};
	struct on_link on;
	int fd, err = link_read(ifindex, &on);

	if (err)
		return err;
	if (!on.prog_id)
		return -FI_ENOENT;
	*what = "to join the program of another process (that takes CAP_SYS_ADMIN)";
	fd = fd_by_id(BPF_PROG_GET_FD_BY_ID, on.prog_id);
	if (fd < 0)
		return fd;
	memset(&info, 0, sizeof(info));
	info.nr_map_ids = uccl_array_len(maps);
	info.map_ids = (uintptr_t)maps;
	err = info_get(fd, &info, sizeof(info));
	close(fd);
	if (err)
		return err;
	*what = "another XDP program is on it";
	if (strcmp(info.name, NAME_PROG))
		return -FI_EBUSY;
	p->link_fd = link_find(on.prog_id);
	if (p->link_fd < 0)
		return p->link_fd;
	p->native = on.native;
	p->joined = true;
	return maps_join(p, maps, (uint32_t)uccl_min(info.nr_map_ids, uccl_array_len(maps)));
}

/* Attaching. */

static int link_create(int prog_fd, int ifindex, uint32_t flags)
{
	union bpf_attr attr;
	long fd;

	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)prog_fd;
	attr.link_create.target_ifindex = (uint32_t)ifindex;
	attr.link_create.attach_type = BPF_XDP;
	attr.link_create.flags = flags;
	fd = bpf(BPF_LINK_CREATE, &attr);
	return fd < 0 ? -errno : (int)fd;
}

static bool taken(int err)
{
	return err == -EBUSY || err == -EEXIST;
}

static int prog_attach(int ifindex, enum uccl_xdp_mode mode, struct uccl_xdp_prog *p, const char **what)
{
	struct on_link on;
	uint32_t n;
	int prog_fd, err = link_read(ifindex, &on);

	*what = "to ask for its queues";
	if (err)
		return err;
	if (on.prog_id)
		return -FI_EBUSY;
	p->queues = (uint32_t)uccl_max(on.queues, 1);
	*what = "to make maps for BPF (that takes CAP_BPF and CAP_NET_ADMIN)";
	n = p->queues * UCCL_XDP_SOCKETS;
	p->xsks_fd = map_create(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), sizeof(int), n, NAME_XSKS);
	if (p->xsks_fd >= 0)
		p->rules_fd = map_create(BPF_MAP_TYPE_HASH, sizeof(struct uccl_xdp_key), sizeof(struct uccl_xdp_rule),
					 n, NAME_RULES);
	if (p->xsks_fd < 0 || p->rules_fd < 0)
		return -errno;
	*what = "to load the XDP program (that takes Linux 5.18, CAP_BPF and CAP_NET_ADMIN)";
	prog_fd = prog_load(p->xsks_fd, p->rules_fd);
	if (prog_fd < 0)
		return -errno;
	*what = "to attach the XDP program (that takes CAP_NET_ADMIN)";
	err = -FI_ENOSYS;
	if (mode != UCCL_XDP_GENERIC) {
		err = p->link_fd = link_create(prog_fd, ifindex, XDP_FLAGS_DRV_MODE);
		p->native = err >= 0;
	}
	if (mode == UCCL_XDP_GENERIC || (mode == UCCL_XDP_AUTO && err < 0 && !taken(err)))
		err = p->link_fd = link_create(prog_fd, ifindex, XDP_FLAGS_SKB_MODE);
	close(prog_fd);
	return err < 0 ? err : 0;
}

void uccl_xdp_prog_close(struct uccl_xdp_prog *p)
{
	if (p->rules_fd >= 0)
		uccl_own_close(p->rules_fd);
	if (p->xsks_fd >= 0)
		uccl_own_close(p->xsks_fd);
	if (p->link_fd >= 0)
		uccl_own_close(p->link_fd);
	p->link_fd = p->xsks_fd = p->rules_fd = -1;
}

int uccl_xdp_prog_open(int ifindex, enum uccl_xdp_mode mode, struct uccl_xdp_prog *p, const char **what)
{
	int err = -FI_EBUSY;

	memset(p, 0, sizeof(*p));
	p->link_fd = p->xsks_fd = p->rules_fd = -1;
	for (int i = 0; i < TRIES; i++) {
		err = prog_attach(ifindex, mode, p, what);
		if (taken(err)) {
			uccl_xdp_prog_close(p);
			err = prog_join(ifindex, p, what);
		}
		if (!err) {
			/* A forked child that kept them would keep the program there. */
			uccl_own_take(p->link_fd);
			uccl_own_take(p->xsks_fd);
			uccl_own_take(p->rules_fd);
			return 0;
		}
		uccl_xdp_prog_close(p);
		/* Its owner left while we searched: from the start. */
		if (err != -FI_ENOENT)
			break;
	}
	return err;
}

void uccl_xdp_key_fill(struct uccl_xdp_key *key, const struct uccl_nic_addr *at, uint32_t queue)
{
	memset(key, 0, sizeof(*key));
	key->queue = queue;
	key->port[0] = (uint8_t)(at->port >> 8);
	key->port[1] = (uint8_t)at->port;
	memcpy(key->ip, at->ip, sizeof(key->ip));
}

void uccl_xdp_rule_fill(struct uccl_xdp_rule *rule, uint32_t most, const struct uccl_nic_guard *guard)
{
	memset(rule, 0, sizeof(*rule));
	rule->most = most;
	if (!guard)
		return;
	uccl_put16(rule->magic, guard->magic);
	uccl_put16(rule->token_top, guard->token_top);
	rule->version = guard->version;
	rule->types = guard->types;
	rule->guarded = 1;
}

int uccl_xdp_prog_rule(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue, uint32_t number,
		       const struct uccl_xdp_rule *rule)
{
	struct uccl_xdp_rule with = *rule;
	struct uccl_xdp_key key;

	uccl_xdp_key_fill(&key, at, queue);
	with.slot = queue * UCCL_XDP_SOCKETS + number;
	return map_call(BPF_MAP_UPDATE_ELEM, p->rules_fd, &key, &with);
}

int uccl_xdp_prog_steer(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue, uint32_t number,
			int xsk_fd, const struct uccl_xdp_rule *rule)
{
	uint32_t slot = queue * UCCL_XDP_SOCKETS + number;
	int err = map_call(BPF_MAP_UPDATE_ELEM, p->xsks_fd, &slot, &xsk_fd);

	return err ? err : uccl_xdp_prog_rule(p, at, queue, number, rule);
}

void uccl_xdp_prog_forget(const struct uccl_xdp_prog *p, const struct uccl_nic_addr *at, uint32_t queue)
{
	struct uccl_xdp_key key;

	uccl_xdp_key_fill(&key, at, queue);
	(void)map_call(BPF_MAP_DELETE_ELEM, p->rules_fd, &key, NULL);
}

void uccl_xdp_prog_clear(const struct uccl_xdp_prog *p, uint32_t queue)
{
	struct uccl_xdp_key key, next;
	const void *from = NULL;

	/* What is deleted is no place to go on from; others may delete, too, and then it begins anew. */
	for (uint32_t i = 0; i < 4 * p->queues * UCCL_XDP_SOCKETS; i++) {
		if (map_call(BPF_MAP_GET_NEXT_KEY, p->rules_fd, from, &next))
			return;
		if (next.queue == queue)
			(void)map_call(BPF_MAP_DELETE_ELEM, p->rules_fd, &next, NULL);
		else
			from = memcpy(&key, &next, sizeof(key));
	}
}

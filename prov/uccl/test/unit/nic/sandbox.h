/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A sandbox (seccomp) for this process and its children: from now on no program can be attached to a socket. */
#ifndef UCCL_TEST_UNIT_NIC_SANDBOX_H
#define UCCL_TEST_UNIT_NIC_SANDBOX_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* setsockopt() of this SOL_SOCKET option is refused with EPERM. False: this host has no seccomp. */
static inline bool sandbox_refuse(unsigned int option)
{
	/* The lower half of an argument; all hosts that have these tests are little endian. */
	enum { NR = offsetof(struct seccomp_data, nr), LEVEL = offsetof(struct seccomp_data, args[1]),
	       NAME = offsetof(struct seccomp_data, args[2]) };
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_ABS | BPF_W, NR),
		BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, SYS_setsockopt, 0, 5),
		BPF_STMT(BPF_LD | BPF_ABS | BPF_W, LEVEL),
		BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, SOL_SOCKET, 0, 3),
		BPF_STMT(BPF_LD | BPF_ABS | BPF_W, NAME),
		BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, option, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two hosts for a test: network namespaces A and B of this process's own, joined by a veth pair ("va" and "vb") of
 * one queue and one of two ("wa" and "wb"). What is opened while a thread is on a host stays there. They end with the
 * process.
 */
#ifndef UCCL_TEST_UNIT_NIC_TWO_HOSTS_H
#define UCCL_TEST_UNIT_NIC_TWO_HOSTS_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int hosts[2] = {-1, -1};

/* From now on the calls are of host A (0) or B (1). */
static inline bool on_host(int i)
{
	return !setns(hosts[i], CLONE_NEWNET);
}

/* A shell line on a host. */
static inline bool host_run(int i, const char *line)
{
	return on_host(i) && !system(line);
}

/* False: that takes privileges, or a kernel with veth, or ip(8). */
static inline bool two_hosts(void)
{
	char line[512], path[64], c;
	int told[2];
	pid_t holder;
	bool ok;

	if (pipe(told) || unshare(CLONE_NEWNET))
		return false;
	hosts[0] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	holder = fork();
	if (!holder) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ok = !unshare(CLONE_NEWNET) && write(told[1], "+", 1) == 1;
		alarm(300);
		if (ok)
			pause();
		_exit(0);
	}
	close(told[1]);
	ok = holder > 0 && read(told[0], &c, 1) == 1;
	close(told[0]);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)holder);
	hosts[1] = open(path, O_RDONLY | O_CLOEXEC);
	/* The kernel asks a new address whether it is in use, for a second, unless told not to (nodad). */
	snprintf(line, sizeof(line),
		 "exec 2>/dev/null; ip link add va type veth peer name vb netns %d && ip link set lo up && "
		 "ip addr add 10.88.0.1/24 dev va && ip addr add fd88::1/64 dev va nodad && ip link set va up && "
		 "ip link add wa numrxqueues 2 numtxqueues 2 type veth peer name wb numrxqueues 2 numtxqueues 2 "
		 "netns %d && ip addr add 10.89.0.1/24 dev wa && ip link set wa up",
		 (int)holder, (int)holder);
	ok = ok && host_run(0, line) &&
	     host_run(1, "exec 2>/dev/null; ip link set lo up && ip addr add 10.88.0.2/24 dev vb && "
			 "ip addr add fd88::2/64 dev vb nodad && ip link set vb up && "
			 "ip addr add 10.89.0.2/24 dev wb && ip link set wb up");
	if (holder > 0) {
		kill(holder, SIGKILL);
		waitpid(holder, NULL, 0);
	}
	return ok;
}

#endif

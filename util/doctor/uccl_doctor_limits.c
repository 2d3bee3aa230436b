/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What limits a process on this host. Each figure is asked of the kernel in the way the provider asks for it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/units.h"
#include "nic/udp/udp_state.h"
#include "uccl_doctor_cloud.h"
#include "uccl_doctor_host.h"

#define MTU_LEAST 1280	    /* what every IPv6 link carries */
#define MTU_JUMBO 4096	    /* fast links want more than 1500 */
#define FAST_LINK_BPS 20000000000ull
#define FD_OWN 24	    /* of a process and an endpoint, besides labels and peers */
#define LOCKED_LEAST (64ull << 20)
#define SHM_LEAST (16ull << 20)
#define SHM_TRIED (1u << 20)
#define SHM_DIR "/dev/shm"
#define PORTS_LEAST 2048
#define CAP_IPC_LOCK_BIT 14
#define TRAIN_PACKETS 8
#define TRAIN_BYTES 1200
#define TRAIN_PATIENCE_MS 500

/* The first line of a file without its end; false: there is none. */
static bool line_read(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool got = f && fgets(buf, (int)size, f);

	if (f)
		fclose(f);
	if (!got)
		return false;
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

/* A number in /proc/sys; 0: not known. */
static uint64_t sysctl_read(const char *path)
{
	char line[64];

	return line_read(path, line, sizeof(line)) ? strtoull(line, NULL, 10) : 0;
}

/* What the kernel grants of `wanted` bytes. It doubles what it grants, for its own needs. */
static uint64_t queue_granted(int force, int plain, int ask, uint32_t wanted)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), value = (int)wanted, got = 0;
	socklen_t len = sizeof(got);

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, force, &value, sizeof(value)))
		setsockopt(fd, SOL_SOCKET, plain, &value, sizeof(value));
	if (getsockopt(fd, SOL_SOCKET, ask, &got, &len))
		got = 0;
	close(fd);
	return (uint64_t)got / 2;
}

static void queue_check(struct doctor_report *r, const char *check, const char *sysctl, uint64_t wanted,
			uint64_t granted)
{
	char path[64];
	struct doctor_finding *f;
	uint64_t most;

	snprintf(path, sizeof(path), "/proc/sys/net/core/%s", sysctl);
	most = sysctl_read(path);
	if (granted >= wanted) {
		f = doctor_add(r, DOCTOR_OK, "host", check, NULL, "%llu KiB asked for and granted",
			       (unsigned long long)wanted >> 10);
	} else {
		f = doctor_add(r, granted < wanted / 8 ? DOCTOR_BAD : DOCTOR_WARN, "host", check, NULL,
			       "%llu KiB asked for, %llu KiB granted (net.core.%s is %llu): bursts will be lost",
			       (unsigned long long)wanted >> 10, (unsigned long long)granted >> 10, sysctl,
			       (unsigned long long)most);
		doctor_advise(f, "sysctl -w net.core.%s=%llu", sysctl, (unsigned long long)wanted);
	}
	doctor_number(f, "asked_bytes", (double)wanted);
	doctor_number(f, "granted_bytes", (double)granted);
	doctor_number(f, sysctl, (double)most);
}

static void queues_check(const struct doctor_host *h, struct doctor_report *r)
{
	uint32_t rx = h->params.nic.backend_rcvbuf ? (uint32_t)h->params.nic.backend_rcvbuf : UDP_RX_DEFAULT;

	queue_check(r, "receive-buffer", "rmem_max", rx, queue_granted(SO_RCVBUFFORCE, SO_RCVBUF, SO_RCVBUF, rx));
	queue_check(r, "send-buffer", "wmem_max", UDP_TX_QUEUE,
		    queue_granted(SO_SNDBUFFORCE, SO_SNDBUF, SO_SNDBUF, UDP_TX_QUEUE));
}

static void mtu_check(const struct uccl_ifaddr *p, struct doctor_report *r)
{
	struct doctor_finding *f;

	if (p->mtu < MTU_LEAST) {
		f = doctor_add(r, DOCTOR_WARN, "host", "mtu", p->name,
			       "%u bytes: less than IPv6 and most programs need", p->mtu);
		doctor_advise(f, "ip link set %s mtu 1500, if the network carries that", p->name);
	} else if (p->link_bps >= FAST_LINK_BPS && p->mtu < MTU_JUMBO) {
		f = doctor_add(r, DOCTOR_NOTE, "host", "mtu", p->name,
			       "%u bytes: a link of %g Gbit/s wants larger packets", p->mtu, (double)p->link_bps / 1e9);
		doctor_advise(f, "ip link set %s mtu 9000, on all hosts and where the switches carry it", p->name);
	} else {
		f = doctor_add(r, DOCTOR_OK, "host", "mtu", p->name, "%u bytes", p->mtu);
	}
	doctor_number(f, "mtu", p->mtu);
}

/* Does the interface merge packets that it receives? -1: not known. */
static int gro_of(const char *name)
{
	struct ethtool_value v = { .cmd = ETHTOOL_GGRO };

	return doctor_ethtool(name, &v) ? -1 : v.data != 0;
}

static void gro_check(const struct uccl_ifaddr *p, struct doctor_report *r)
{
	int on = p->loopback ? -1 : gro_of(p->name);

	if (on < 0)
		return;
	if (on)
		doctor_add(r, DOCTOR_OK, "host", "gro", p->name, "packets that arrive are merged");
	else
		doctor_advise(doctor_add(r, DOCTOR_NOTE, "host", "gro", p->name,
					 "packets that arrive are not merged: each costs the host more"),
			      "ethtool -K %s gro on", p->name);
}

/* A train over loopback. */

static int loop_pair(int fd[2], struct sockaddr_storage *to, socklen_t *len)
{
	static const int families[] = { AF_INET, AF_INET6 };

	for (int i = 0; i < 2; i++) {
		struct uccl_nic_addr at = { 0 };

		if (families[i] == AF_INET) {
			memset(at.ip + 10, 0xff, 2);
			at.ip[12] = 127;
		}
		at.ip[15] = 1;
		*len = uccl_ifaddr_to_sock(to, &at, families[i]);
		fd[0] = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
		fd[1] = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd[0] >= 0 && fd[1] >= 0 && !bind(fd[1], (struct sockaddr *)to, *len) &&
		    !getsockname(fd[1], (struct sockaddr *)to, len))
			return 0;
		for (int k = 0; k < 2; k++)
			if (fd[k] >= 0)
				close(fd[k]);
	}
	return -1;
}

static void train_fill(uint8_t *buf)
{
	uint32_t x = 12345;

	for (int i = 0; i < TRAIN_PACKETS * TRAIN_BYTES; i++) {
		x = x * 1103515245u + 12345u;
		buf[i] = (uint8_t)(x >> 16);
	}
}

static int train_send(int fd, const struct sockaddr_storage *to, socklen_t len, uint8_t *buf)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = TRAIN_PACKETS * TRAIN_BYTES };
	struct msghdr m = { .msg_name = (void *)to, .msg_namelen = len, .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	uint16_t size = TRAIN_BYTES;

	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)iov.iov_len ? 0 : -errno;
}

static void train_judge(struct doctor_report *r, int sent, bool gro, int got, bool right)
{
	struct doctor_finding *f;

	if (sent)
		f = doctor_add(r, DOCTOR_WARN, "host", "trains", NULL,
			       "the kernel cannot cut trains of packets (UDP_SEGMENT: %s): every packet is a call",
			       strerror(-sent));
	else if (got != TRAIN_PACKETS * TRAIN_BYTES)
		f = doctor_add(r, DOCTOR_BAD, "host", "trains", NULL,
			       "of a train of %d bytes over loopback %d arrived: something drops or breaks trains",
			       TRAIN_PACKETS * TRAIN_BYTES, got);
	else if (!right)
		f = doctor_add(r, DOCTOR_BAD, "host", "trains", NULL,
			       "a train over loopback arrived with other bytes than were sent: this kernel breaks it");
	else if (!gro)
		f = doctor_add(r, DOCTOR_WARN, "host", "trains", NULL,
			       "the kernel sends trains, but does not merge what it receives (UDP_GRO)");
	else
		f = doctor_add(r, DOCTOR_OK, "host", "trains", NULL,
			       "the kernel cuts trains of packets and merges them again (UDP_SEGMENT, UDP_GRO)");
	if (f->level != DOCTOR_OK)
		doctor_advise(f, f->level == DOCTOR_BAD ? "use another kernel release; look for drop rules on lo" :
							  "use Linux 5.0 or later");
	doctor_number(f, "sent_bytes", sent ? 0 : TRAIN_PACKETS * TRAIN_BYTES);
	doctor_number(f, "received_bytes", got);
}

static void trains_check(struct doctor_report *r)
{
	static uint8_t out[TRAIN_PACKETS * TRAIN_BYTES], in[65536];
	struct timeval patience = { .tv_usec = TRAIN_PATIENCE_MS * 1000 };
	struct sockaddr_storage to;
	int fd[2], one = 1, got = 0, sent;
	bool gro = false, right;
	socklen_t len;

	if (loop_pair(fd, &to, &len)) {
		doctor_advise(doctor_add(r, DOCTOR_BAD, "host", "trains", "lo", "no UDP socket on loopback: %s",
					 strerror(errno)), "ip link set lo up");
		return;
	}
	setsockopt(fd[1], IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	train_fill(out);
	sent = train_send(fd[0], &to, len, out);
	while (!sent && got < (int)sizeof(out)) {
		ssize_t n = recv(fd[1], in + got, sizeof(in) - (size_t)got, 0);

		if (n <= 0)
			break;
		got += (int)n;
		gro |= n > TRAIN_BYTES;
	}
	right = got == (int)sizeof(out) && !memcmp(in, out, sizeof(out));
	close(fd[0]);
	close(fd[1]);
	train_judge(r, sent, gro, got, right);
}

static void descriptors_check(const struct doctor_host *h, struct doctor_report *r)
{
	uint64_t labels = uccl_min(h->params.paths * (uint64_t)h->peers, UDP_LABELS);
	/* As if all peers were on this host. */
	uint64_t connected = uccl_min(uccl_min(h->params.paths, (uint64_t)h->peers), UDP_CONNECTED);
	uint64_t live = h->params.conn.peer_liveness ? 2 * (uint64_t)h->peers : 0;
	uint64_t need = FD_OWN + labels + connected + live, least = FD_OWN + h->params.paths + 2;
	struct doctor_finding *f;
	struct rlimit limit;

	if (h->rdma || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	/* Connections to peers stay in the lower half of the table, sockets that send in the lower three quarters. */
	if (need <= limit.rlim_cur / 2) {
		f = doctor_add(r, DOCTOR_OK, "host", "descriptors", NULL, "%llu: enough for %d peers on %llu paths",
			       (unsigned long long)limit.rlim_cur, h->peers, (unsigned long long)h->params.paths);
	} else {
		f = doctor_add(r, least > limit.rlim_cur / 2 ? DOCTOR_BAD : DOCTOR_WARN, "host", "descriptors", NULL,
			       "%llu: half of them is for sockets, and %d peers on %llu paths take %llu. Paths will "
			       "share sockets, peers go unwatched", (unsigned long long)limit.rlim_cur, h->peers,
			       (unsigned long long)h->params.paths, (unsigned long long)need);
		doctor_advise(f, "ulimit -n %llu%s", (unsigned long long)(need > 2048 ? 4 * need : 4096),
			      limit.rlim_max / 2 < need ? " (as root: raise nofile in /etc/security/limits.conf)" : "");
	}
	doctor_number(f, "soft_limit", (double)limit.rlim_cur);
	doctor_number(f, "hard_limit", (double)limit.rlim_max);
	doctor_number(f, "needed", (double)need);
	doctor_number(f, "peers", h->peers);
}

/* Processes with this capability may lock what they like. */
static bool may_lock_all(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t caps = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			caps = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return caps >> CAP_IPC_LOCK_BIT & 1;
}

static void locked_check(const struct doctor_host *h, struct doctor_report *r)
{
	struct doctor_finding *f;
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= LOCKED_LEAST || may_lock_all()) {
		f = doctor_add(r, DOCTOR_OK, "host", "locked-memory", NULL, "enough may be locked");
	} else {
		f = doctor_add(r, h->rdma ? DOCTOR_BAD : DOCTOR_NOTE, "host", "locked-memory", NULL,
			       "%llu KiB may be locked: %s", (unsigned long long)limit.rlim_cur >> 10,
			       h->rdma ? "RDMA NICs take all memory that they read and write" :
					 "enough for udp, not for RDMA NICs");
		doctor_advise(f, "ulimit -l unlimited (as root first: raise memlock in /etc/security/limits.conf)");
	}
	doctor_number(f, "limit_bytes", limit.rlim_cur == RLIM_INFINITY ? -1 : (double)limit.rlim_cur);
}

/* The processors that the group of processes may use by its quota; 0: no quota. */
static double quota_cpus(void)
{
	char group[256], path[320], line[64];
	long long quota, period;

	if (!line_read("/proc/self/cgroup", group, sizeof(group)) || strncmp(group, "0::", 3))
		return 0;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group + 3);
	if (!line_read(path, line, sizeof(line)) || sscanf(line, "%lld %lld", &quota, &period) != 2 || period <= 0)
		return 0;
	return (double)quota / (double)period;
}

static void processors_check(struct doctor_report *r)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	double quota = quota_cpus();
	struct doctor_finding *f;
	int allowed = 0;
	cpu_set_t *set;
	size_t size;

	/* Hosts may have more processors than a cpu_set_t. */
	for (int n = 1024; n <= 1 << 16 && !allowed; n *= 2) {
		set = CPU_ALLOC((size_t)n);
		size = CPU_ALLOC_SIZE((size_t)n);
		if (set && !sched_getaffinity(0, size, set))
			allowed = CPU_COUNT_S(size, set);
		CPU_FREE(set);
	}
	if (allowed == 1 && online > 1) {
		f = doctor_add(r, DOCTOR_WARN, "host", "processors", NULL,
			       "the affinity mask allows 1 of %ld: program and provider share it", online);
		doctor_advise(f, "taskset -c 0-%ld; mpirun --bind-to none, or two processors a rank",
			      online - 1);
	} else if (quota > 0 && quota < 1.5) {
		f = doctor_add(r, DOCTOR_WARN, "host", "processors", NULL,
			       "a quota of %.2f processors: when it is used up the process stands still", quota);
		doctor_advise(f, "raise cpu.max of the control group (in a pod: the CPU limit)");
	} else {
		f = doctor_add(r, DOCTOR_OK, "host", "processors", NULL, "%d of %ld may be used", allowed, online);
	}
	doctor_number(f, "allowed", allowed);
	doctor_number(f, "online", (double)online);
	doctor_number(f, "quota", quota);
}

static void shm_check(struct doctor_report *r)
{
	char name[] = SHM_DIR "/uccl-doctor-XXXXXX";
	struct doctor_finding *f;
	struct statvfs fs = { 0 };
	uint64_t room = 0;
	int fd = mkostemp(name, O_CLOEXEC), rc = fd < 0 ? errno : 0;

	if (fd >= 0) {
		unlink(name);
		rc = posix_fallocate(fd, 0, SHM_TRIED);
		close(fd);
	}
	if (!statvfs(SHM_DIR, &fs))
		room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (rc) {
		f = doctor_add(r, DOCTOR_WARN, "host", "shm", SHM_DIR,
			       "cannot be written: %s. uccl_top sees nothing, and MPI libraries want it", strerror(rc));
		doctor_advise(f, "mount -t tmpfs tmpfs " SHM_DIR " (in a container: --shm-size=1g)");
	} else if (room < SHM_LEAST) {
		f = doctor_add(r, DOCTOR_WARN, "host", "shm", SHM_DIR, "only %llu MiB of room",
			       (unsigned long long)room >> 20);
		doctor_advise(f, "mount -o remount,size=1g " SHM_DIR " (in a container: --shm-size=1g)");
	} else {
		f = doctor_add(r, DOCTOR_OK, "host", "shm", SHM_DIR, "%llu MiB of room",
			       (unsigned long long)room >> 20);
	}
	doctor_number(f, "room_bytes", (double)room);
}

void doctor_ports(const struct doctor_host *h, unsigned int *lo, unsigned int *hi)
{
	char line[64];

	if (uccl_ports_limited(&h->params.nic.ports)) {
		*lo = h->params.nic.ports.first;
		*hi = h->params.nic.ports.last;
		return;
	}
	*lo = 32768;
	*hi = 60999;
	if (line_read("/proc/sys/net/ipv4/ip_local_port_range", line, sizeof(line)))
		sscanf(line, "%u %u", lo, hi);
}

/* Of FI_UCCL_PORTS each process takes one for each path; it receives at the first of them. */
static void own_range_check(const struct doctor_host *h, unsigned int lo, unsigned int hi, struct doctor_report *r)
{
	unsigned int ports = hi - lo + 1, need = (unsigned int)h->params.paths;
	struct doctor_finding *f;

	if (ports >= need) {
		f = doctor_add(r, DOCTOR_OK, "host", "port-range", NULL,
			       "FI_UCCL_PORTS has %u ports, %u to %u: room for %u process%s on this host", ports, lo,
			       hi, ports / need, ports / need == 1 ? "" : "es");
	} else {
		f = doctor_add(r, DOCTOR_WARN, "host", "port-range", NULL,
			       "FI_UCCL_PORTS has %u ports, %u to %u: a process with %u paths takes %u", ports, lo, hi,
			       need, need);
		doctor_advise(f, "FI_UCCL_PORTS=%u-%u, or FI_UCCL_PATHS=%u", lo, lo + need - 1, ports);
	}
	doctor_number(f, "first", lo);
	doctor_number(f, "last", hi);
}

static void range_check(const struct doctor_host *h, struct doctor_report *r)
{
	struct doctor_finding *f;
	unsigned int lo, hi;

	doctor_ports(h, &lo, &hi);
	if (uccl_ports_limited(&h->params.nic.ports)) {
		own_range_check(h, lo, hi, r);
		return;
	}
	if (hi - lo + 1 >= PORTS_LEAST) {
		f = doctor_add(r, DOCTOR_OK, "host", "port-range", NULL,
			       "the kernel gives ports from %u to %u: open these for UDP and TCP between hosts",
			       lo, hi);
	} else {
		f = doctor_add(r, DOCTOR_WARN, "host", "port-range", NULL,
			       "the kernel gives only %u ports, %u to %u: an endpoint takes up to %u", hi - lo + 1,
			       lo, hi, UDP_LABELS + 2);
		doctor_advise(f, "sysctl -w net.ipv4.ip_local_port_range='32768 60999'");
	}
	doctor_number(f, "first", lo);
	doctor_number(f, "last", hi);
}

/* Only where a NIC has such counters do two readings take a second. */
static void clouds_check(struct doctor_report *r)
{
	struct doctor_clouds before, after;

	doctor_clouds_read(&before);
	if (!before.n)
		return;
	sleep(1);
	doctor_clouds_read(&after);
	doctor_clouds_judge(r, &before, &after);
}

void doctor_limits(const struct doctor_host *h, struct doctor_report *r)
{
	if (!h->rdma) {
		queues_check(h, r);
		trains_check(r);
		range_check(h, r);
	}
	for (int i = 0; i < h->nplaces; i++) {
		mtu_check(&h->place[i], r);
		if (!h->rdma)
			gro_check(&h->place[i], r);
	}
	clouds_check(r);
	descriptors_check(h, r);
	locked_check(h, r);
	processors_check(r);
	shm_check(r);
}

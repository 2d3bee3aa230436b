/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_bundle.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <rdma/fabric.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "../observe/snapshot_file.h"
#include "base/units.h"
#include "lanes/lanes.h"
#include "progress/shm_dir.h"
#include "uccl_doctor_host.h"

#define PEERS_SHOWN 64

static const char *const sysctls[] = {
	"net/core/rmem_max",	       "net/core/rmem_default",	       "net/core/wmem_max",
	"net/core/wmem_default",       "net/core/netdev_max_backlog",  "net/core/busy_poll",
	"net/ipv4/udp_mem",	       "net/ipv4/udp_rmem_min",	       "net/ipv4/ip_local_port_range",
	"net/ipv4/ip_no_pmtu_disc",    "net/ipv4/conf/all/rp_filter",  "net/ipv4/fib_multipath_hash_policy",
	"net/ipv4/tcp_keepalive_time", "net/ipv6/conf/all/disable_ipv6", "kernel/yama/ptrace_scope",
	"kernel/numa_balancing",       "vm/max_map_count",	       "fs/file-max",
};

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{"open files", RLIMIT_NOFILE}, {"locked memory", RLIMIT_MEMLOCK}, {"processes", RLIMIT_NPROC},
	{"address space", RLIMIT_AS},  {"stack", RLIMIT_STACK},
};

static void head(FILE *f, const char *title)
{
	fprintf(f, "\n== %s\n", title);
}

/* The first line of a file that begins with `begin`, without that; empty: there is none. */
static const char *line_of(const char *path, const char *begin, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool found = false;

	while (f && !found && fgets(buf, (int)size, f))
		found = !strncmp(buf, begin, strlen(begin));
	if (f)
		fclose(f);
	if (!found)
		return "";
	buf[strcspn(buf, "\n")] = '\0';
	return buf + strlen(begin);
}

static void versions_print(FILE *f)
{
	struct utsname u = {0};
	char os[256];

	head(f, "versions");
	uname(&u);
	fprintf(f, "uccl %s%s\n", PACKAGE_VERSION, uccl_lanes_built() ? "" : ", without lanes");
	fprintf(f, "libfabric %u.%u\n", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	fprintf(f, "kernel %s %s %s\n", u.sysname, u.release, u.machine);
	fprintf(f, "distribution %s\n", line_of("/etc/os-release", "PRETTY_NAME=", os, sizeof(os)));
}

static void host_print(FILE *f)
{
	char line[256], when[64] = "";
	time_t now = time(NULL);
	struct tm tm;
	cpu_set_t set;

	head(f, "host");
	if (gmtime_r(&now, &tm))
		strftime(when, sizeof(when), "%F %T UTC", &tm);
	fprintf(f, "time %s\n", when);
	fprintf(f, "processors %ld, this process may use %d\n", sysconf(_SC_NPROCESSORS_ONLN),
		sched_getaffinity(0, sizeof(set), &set) ? -1 : CPU_COUNT(&set));
	fprintf(f, "processor%s\n", line_of("/proc/cpuinfo", "model name", line, sizeof(line)));
	fprintf(f, "memory %s\n", line_of("/proc/meminfo", "MemTotal:", line, sizeof(line)));
	fprintf(f, "free %s\n", line_of("/proc/meminfo", "MemAvailable:", line, sizeof(line)));
	fprintf(f, "load %s\n", line_of("/proc/loadavg", "", line, sizeof(line)));
}

static void limits_print(FILE *f)
{
	head(f, "limits (ulimit)");
	for (size_t i = 0; i < uccl_array_len(limits); i++) {
		struct rlimit r;

		if (getrlimit((__rlimit_resource_t)limits[i].resource, &r))
			continue;
		if (r.rlim_cur == RLIM_INFINITY)
			fprintf(f, "%s unlimited\n", limits[i].name);
		else
			fprintf(f, "%s %llu\n", limits[i].name, (unsigned long long)r.rlim_cur);
	}
}

static void sysctls_print(FILE *f)
{
	head(f, "sysctl");
	for (size_t i = 0; i < uccl_array_len(sysctls); i++) {
		char path[128], line[256], name[128];

		snprintf(path, sizeof(path), "/proc/sys/%s", sysctls[i]);
		snprintf(name, sizeof(name), "%s", sysctls[i]);
		for (char *c = name; *c; c++)
			*c = *c == '/' ? '.' : *c;
		if (!access(path, R_OK))
			fprintf(f, "%s = %s\n", name, line_of(path, "", line, sizeof(line)));
	}
}

/* What sysfs says of an interface. */
static void interface_print(const char *name, FILE *f)
{
	static const char *const files[] = {"operstate", "mtu", "speed", "tx_queue_len"};
	char path[PATH_MAX], line[256], driver[PATH_MAX];
	ssize_t n;

	fprintf(f, "%s:", name);
	for (size_t i = 0; i < uccl_array_len(files); i++) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, files[i]);
		fprintf(f, " %s %s", files[i], line_of(path, "", line, sizeof(line)));
	}
	snprintf(path, sizeof(path), "/sys/class/net/%s/device/driver", name);
	n = readlink(path, driver, sizeof(driver) - 1);
	driver[n > 0 ? n : 0] = '\0';
	fprintf(f, " driver %s\n", n > 0 && strrchr(driver, '/') ? strrchr(driver, '/') + 1 : "-");
}

static void interfaces_print(FILE *f)
{
	struct if_nameindex *all = if_nameindex();
	struct ifaddrs *list = NULL;
	char text[INET6_ADDRSTRLEN];

	head(f, "interfaces");
	for (struct if_nameindex *i = all; i && i->if_index; i++)
		interface_print(i->if_name, f);
	if (all)
		if_freenameindex(all);
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *a = list; a; a = a->ifa_next) {
		int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
		const void *ip = family == AF_INET ? (void *)&((struct sockaddr_in *)a->ifa_addr)->sin_addr :
						     (void *)&((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;

		if ((family == AF_INET || family == AF_INET6) && inet_ntop(family, ip, text, sizeof(text)))
			fprintf(f, "%s address %s\n", a->ifa_name, text);
	}
	freeifaddrs(list);
}

static const char *ip4_text(uint32_t ip, char buf[INET_ADDRSTRLEN])
{
	struct in_addr a = {.s_addr = ip};

	return inet_ntop(AF_INET, &a, buf, INET_ADDRSTRLEN);
}

/* The main table as the kernel's file has it. */
static void routes_print(FILE *f)
{
	FILE *in = fopen("/proc/net/route", "re");
	char line[512], dev[64], to[INET_ADDRSTRLEN], via[INET_ADDRSTRLEN];
	unsigned int dest, gateway, mask, mtu, metric;

	head(f, "routes");
	while (in && fgets(line, sizeof(line), in))
		if (sscanf(line, "%63s %x %x %*s %*s %*s %u %x %u", dev, &dest, &gateway, &metric, &mask, &mtu) == 6)
			fprintf(f, "%s/%d via %s dev %s metric %u mtu %u\n", ip4_text(dest, to),
				__builtin_popcount(mask), ip4_text(gateway, via), dev, metric, mtu);
	if (in)
		fclose(in);
	in = fopen("/proc/net/ipv6_route", "re");
	while (in && fgets(line, sizeof(line), in))
		fprintf(f, "ipv6 %s", line);
	if (in)
		fclose(in);
}

/* Endpoints of this user that can be watched now (FI_UCCL_MONITOR=1). */
static void endpoints_print(FILE *f)
{
	char path[64];
	int none = uccl_shm_dir_path(path, sizeof(path));
	int dir = none ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;
	const char *why;

	head(f, "endpoints that run with FI_UCCL_MONITOR=1");
	while (d && (e = readdir(d))) {
		struct uccl_snapshot *v = *e->d_name == '.' ? NULL : snapshot_file_read(dirfd(d), e->d_name, &why);

		if (!v)
			continue;
		fprintf(f, "%lld on %s (%s), %s %s %s\n", (long long)v->pid, v->interface, v->backend, v->cc, v->path,
			v->credit);
		uccl_snapshot_print(v, PEERS_SHOWN, false, f);
		free(v);
	}
	if (d)
		closedir(d);
}

void doctor_bundle_print(FILE *f)
{
	fputs("Report of uccl_doctor. It has addresses of this host; read it before you send it.\n", f);
	versions_print(f);
	host_print(f);
	limits_print(f);
	sysctls_print(f);
	interfaces_print(f);
	routes_print(f);
	head(f, "variables");
	doctor_bundle_variables(environ, f);
	endpoints_print(f);
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What would be offered on this host, what not, and why: the provider's own functions are asked, and what they log is
 * the reason that is shown.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uccl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/info.h"
#include "api/lib/lib.h"
#include "api/offer/address.h"
#include "api/offer/hwloc.h"
#include "api/offer/near.h"
#include "api/offer/nicnames.h"
#include "api/offer/param_names.h"
#include "api/offer/place.h"
#include "api/offer/sysfs.h"
#include "api/prov.h"
#include "base/log.h"
#include "nic/verbs/verbs_dev.h"
#include "nic/verbs/verbs_lib.h"
#include "uccl_doctor_host.h"
#include "uccl_doctor_nics.h"

#define API FI_VERSION(1, 17)
#define WARNINGS 16
#define MODULE_NAME "libuccl-fi.so"

/* What the provider logged during the last call. */
static struct {
	char reason[DOCTOR_TEXT];
	char warning[WARNINGS][DOCTOR_TEXT];
	int nwarnings;
} logged;

/* The reason begins with these words: they go. */
static void reason_shorten(const char *words)
{
	size_t n = strlen(words);

	if (!strncmp(logged.reason, words, n))
		memmove(logged.reason, logged.reason + n, strlen(logged.reason + n) + 1);
}

static void logged_add(bool warning, const char *text)
{
	static const char no_match[] = "no match: ", nothing[] = "nothing is offered: ";
	char line[DOCTOR_TEXT];

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	/* That nothing is offered is a finding of its own, which has this text as its reason. */
	if (warning && strncmp(line, nothing, sizeof(nothing) - 1)) {
		for (int i = 0; i < logged.nwarnings; i++)
			if (!strcmp(logged.warning[i], line))
				return;
		if (logged.nwarnings < WARNINGS)
			memcpy(logged.warning[logged.nwarnings++], line, sizeof(line));
	}
	memcpy(logged.reason, line, sizeof(line));
	reason_shorten(no_match);
	reason_shorten(nothing);
}

static int log_level_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys)
{
	(void)prov;
	(void)subsys;
	return level <= FI_LOG_INFO;
}

static void FI_FORMAT_PRINTF(6, 7) log_api(const struct fi_provider *prov, enum fi_log_level level,
					   enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
	char text[DOCTOR_TEXT];
	va_list ap;

	(void)prov;
	(void)subsys;
	(void)func;
	(void)line;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	logged_add(level == FI_LOG_WARN, text);
}

/* Log messages of the layers below api. */
static void log_low(int level, const char *func, int line, const char *text)
{
	(void)func;
	(void)line;
	logged_add(level == UCCL_LOG_WARN, text);
}

/* The provider's code, linked into this program, as the library would start it; what it logs comes here. */
static void provider_start(void)
{
	uccl_lib_init((const void *)(uintptr_t)provider_start);
	uccl_lib.log = log_api;
	uccl_lib.log_enabled = log_level_enabled;
	uccl_log_set(log_low, UCCL_LOG_INFO);
	uccl_params_define();
	uccl_params_check_names();
}

static void warnings_add(struct doctor_report *r, const char *check, const char *advice)
{
	for (int i = 0; i < logged.nwarnings; i++)
		doctor_advise(doctor_add(r, DOCTOR_WARN, "offer", check, NULL, "%s", logged.warning[i]), "%s", advice);
	logged.nwarnings = 0;
}

static void rate_text(uint64_t bps, char *buf, size_t size)
{
	if (bps)
		snprintf(buf, size, "%g Gbit/s", (double)bps / 1e9);
	else
		snprintf(buf, size, "rate not known");
}

/* Open and close a NIC as an endpoint does. 0, or the error of the back end. */
static int place_try(const struct uccl_params *p, const struct uccl_ifaddr *place, struct uccl_nic_caps *caps,
		     uint32_t *slots)
{
	static struct uccl_qp_budget budget;
	struct uccl_nic_attr attr = {
		.ifname = place->name,
		.bind = place->addr,
		.mtu = (uint32_t)p->nic.mtu,
		.rx_bytes = (uint32_t)p->nic.backend_rcvbuf,
		.max_qp = (uint32_t)p->nic.verbs_max_qp,
		.srq_depth = (uint32_t)p->nic.verbs_srq,
		.write_bytes = (uint32_t)p->nic.verbs_write,
		.budget = &budget,
		.ports = p->nic.ports,
		.liveness = p->conn.peer_liveness,
		.timestamps = true,
	};
	struct uccl_nic *nic;
	int rc;

	if (uccl_ports_limited(&p->nic.ports))
		attr.labels = (uint16_t)p->paths;
	rc = uccl_place_open(p, &attr, &nic);
	if (rc)
		return rc;
	*caps = nic->caps;
	*slots = nic->ops->slots ? nic->ops->slots(nic, (uint32_t)uccl_min(nic->caps.mtu, place->mtu)) :
				   nic->caps.rx_slots;
	nic->ops->close(nic);
	return 0;
}

static void shared_warn(const struct uccl_ifaddr *place, const char *ip, struct doctor_report *r)
{
	doctor_advise(doctor_add(r, DOCTOR_WARN, "offer", "shared-address", place->name,
				 "other hosts may have its address %s for themselves: peers there cannot reach this "
				 "host by it",
				 ip),
		      "if peers are on other hosts: set FI_UCCL_NIC to an interface that leads to them");
}

static void place_add(struct doctor_host *h, const struct uccl_ifaddr *place, struct doctor_report *r)
{
	char rate[32], ip[UCCL_ADDRESS_TEXT];
	struct uccl_nic_caps caps;
	struct doctor_finding *f;
	uint32_t slots = 0;
	int rc = place_try(&h->params, place, &caps, &slots);

	uccl_address_ip_text(&place->addr, ip, sizeof(ip));
	if (rc) {
		f = doctor_add(r, DOCTOR_BAD, "offer", "offered", place->name,
			       "offered by back end %s at %s, but it cannot be opened: %s", h->params.nic.backend, ip,
			       uccl_lib.strerror(-rc));
		doctor_advise(f, rc == -FI_EMFILE ? "ulimit -n 65536" :
				 "FI_LOG_LEVEL=info fi_pingpong -p uccl -e rdm tells more");
		return;
	}
	rate_text(caps.link_bps, rate, sizeof(rate));
	f = doctor_add(r, DOCTOR_OK, "offer", "offered", place->name,
		       "back end %s at %s, %s; packets up to %u bytes, room for %u of them, trains %s",
		       h->params.nic.backend, ip, rate, (unsigned int)uccl_min(caps.mtu, place->mtu), slots,
		       caps.train_bytes ? "yes" : "no");
	doctor_string(f, "backend", h->params.nic.backend);
	doctor_string(f, "address", ip);
	doctor_number(f, "mtu", place->mtu);
	doctor_number(f, "link_bps", (double)caps.link_bps);
	doctor_number(f, "rx_slots", slots);
	doctor_number(f, "labels", caps.labels);
	doctor_number(f, "train_bytes", caps.train_bytes);
	doctor_number(f, "write_max", caps.write_max);
	doctor_string(f, "kind", uccl_ifclass_text(place->class));
	if (h->nplaces < DOCTOR_PLACES)
		h->place[h->nplaces++] = *place;
	if (uccl_ifaddr_shared(place) && !place->loopback)
		shared_warn(place, ip, r);
}

/* The interface that an entry of fi_getinfo stands for. */
static bool place_of(const struct doctor_host *h, const struct fi_info *info, struct uccl_ifaddr *out)
{
	struct uccl_ifaddr *list;
	struct uccl_addr a;
	int n;
	bool found = false;

	if (uccl_address_unpack(info->addr_format, info->src_addr, info->src_addrlen, &a, NULL))
		return false;
	n = uccl_place_list(&h->params, &list);
	for (int i = 0; i < n && !found; i++) {
		if (strcmp(list[i].name, info->domain_attr->name) ||
		    memcmp(list[i].addr.ip, a.nic.ip, sizeof(a.nic.ip)))
			continue;
		*out = list[i];
		found = true;
	}
	if (n > 0)
		free(list);
	return found;
}

static void entries_add(struct doctor_host *h, struct doctor_report *r)
{
	struct uccl_ifaddr place;
	struct fi_info *info;
	int rc = uccl_getinfo(API, NULL, NULL, 0, NULL, &info);

	warnings_add(r, "variables", "correct the variable's name or value, see fi_uccl(7)");
	if (rc) {
		struct doctor_finding *f = doctor_add(r, DOCTOR_BAD, "offer", "offered", NULL,
						      "nothing is offered: %s",
						      *logged.reason ? logged.reason : uccl_lib.strerror(-rc));

		doctor_advise(f, "%s", *h->params.nic.names ? "set FI_UCCL_NIC to an interface of this host" : h->rdma ?
			      "use FI_UCCL_BACKEND=udp, or make an RDMA port active" :
			      "bring an interface with an IP address up");
		return;
	}
	for (const struct fi_info *i = info; i; i = i->next)
		if (place_of(h, i, &place))
			place_add(h, &place, r);
	uccl_lib.freeinfo(info);
}

static bool is_offered(const struct doctor_host *h, const char *name)
{
	for (int i = 0; i < h->nplaces; i++)
		if (!strcmp(h->place[i].name, name))
			return true;
	return false;
}

static bool is_up(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = { 0 };
	bool up;

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	up = fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &req) && req.ifr_flags & IFF_UP;
	if (fd >= 0)
		close(fd);
	return up;
}

/* Would a program get something that asks for these capabilities (0: for none), on this interface (NULL: on any)? */
static bool offered_to(uint64_t caps, const char *name)
{
	struct fi_info *hints = uccl_lib.dupinfo(NULL), *info = NULL;
	int rc = -FI_ENOMEM;

	logged.reason[0] = '\0';
	if (!hints)
		return false;
	hints->caps = caps;
	hints->domain_attr->name = name ? strdup(name) : NULL;
	if (!name || hints->domain_attr->name)
		rc = uccl_getinfo(API, NULL, NULL, 0, hints, &info);
	if (!rc)
		uccl_lib.freeinfo(info);
	uccl_lib.freeinfo(hints);
	return !rc;
}

/* The first address of an interface; NULL: none that the provider can use. */
static const struct uccl_ifaddr *address_of(const struct uccl_ifaddr *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

static void not_allowed_add(const struct doctor_host *h, const char *name, struct doctor_report *r)
{
	struct doctor_finding *f;

	f = doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name, "FI_UCCL_NIC leaves it out");

	if (uccl_nicnames_exclude(h->params.nic.names))
		doctor_advise(f, "if it should be used: take what excludes it out of FI_UCCL_NIC=%.200s",
			      h->params.nic.names);
	else
		doctor_advise(f, "if it should be used: FI_UCCL_NIC=%.200s,%s", h->params.nic.names, name);
}

/* An interface that is not offered because peers could not use its address. */
static void shared_add(const char *name, const struct uccl_ifaddr *a, struct doctor_report *r)
{
	char ip[UCCL_ADDRESS_TEXT];
	struct doctor_finding *f;

	uccl_address_ip_text(&a->addr, ip, sizeof(ip));
	f = doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name,
		       "other hosts may have its address %s for themselves, and this host has a better one", ip);
	doctor_string(f, "address", ip);
	doctor_advise(f, "if all peers are on this host: FI_UCCL_NIC=%s", name);
}

static void left_out_add(const struct doctor_host *h, const char *name, const struct uccl_ifaddr *a,
			 struct doctor_report *r)
{
	unsigned int rank;
	struct doctor_finding *f;

	if (!is_up(name)) {
		doctor_advise(doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name, "the interface is down"),
			      "if it should be used: ip link set %s up", name);
		return;
	}
	if (!a) {
		doctor_advise(doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name,
					 "it has no IP address (link-local IPv6 ones do not count)"),
			      "if it should be used: ip address add ADDRESS/LENGTH dev %s", name);
		return;
	}
	if (!uccl_nicnames_allow(h->params.nic.names, name, &rank)) {
		not_allowed_add(h, name, r);
		return;
	}
	if (!uccl_sysfs_running(UCCL_SYSFS, name)) {
		doctor_advise(doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name, "it has no carrier"),
			      "look at the cable and at the other end's port");
		return;
	}
	if (!offered_to(0, name)) {
		doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name, "%s",
			   *logged.reason ? logged.reason : "the provider does not say why");
		return;
	}
	if (uccl_ifaddr_shared(a) && !a->loopback) {
		shared_add(name, a, r);
		return;
	}
	f = doctor_add(r, DOCTOR_NOTE, "offer", "not-offered", name, "%s",
		       a->loopback ? "loopback is for programs that name it where other interfaces lead outside" :
				     "only for programs that name it: others of this host have IPv4, this has IPv6");
	doctor_advise(f, "if it should be used: FI_UCCL_NIC=%s", name);
}

/* FI_HMEM, for programs that ask for it. */
static void gpu_memory_add(struct doctor_report *r)
{
	if (offered_to(FI_MSG | FI_HMEM, NULL))
		doctor_add(r, DOCTOR_OK, "offer", "gpu-memory", NULL, "offered to programs that ask for it (FI_HMEM)");
	else
		doctor_advise(doctor_add(r, DOCTOR_NOTE, "offer", "gpu-memory", NULL, "not offered: %s", logged.reason),
			      "nothing, if no program passes memory of GPUs");
}

static void left_out(const struct doctor_host *h, struct doctor_report *r)
{
	struct if_nameindex *all = if_nameindex();
	struct uccl_ifaddr *list;
	int n = uccl_ifaddr_list(&list);

	for (const struct if_nameindex *i = all; n >= 0 && i && i->if_index; i++)
		if (!is_offered(h, i->if_name))
			left_out_add(h, i->if_name, address_of(list, n, i->if_name), r);
	if (n > 0)
		free(list);
	if (all)
		if_freenameindex(all);
	logged.nwarnings = 0;
}

/* The name of the first entry of a directory that begins with `prefix`, or an empty text. */
static void entry_first(const char *dir, const char *prefix, char *name, size_t size)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	*name = '\0';
	while (d && !*name && (e = readdir(d)))
		if (e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix)))
			snprintf(name, size, "%.200s", e->d_name);
	if (d)
		closedir(d);
}

/* Why no RDMA NIC is usable here; *advice is what would help. */
static void rdma_why_not(char *why, size_t size, const char **advice)
{
	char device[256], node[256], path[512];

	*advice = "nothing, if this host has no RDMA NIC";
	entry_first("/sys/class/infiniband", "", device, sizeof(device));
#ifdef HAVE_VERBS
	if (!uccl_verbs_lib()) {
		struct uccl_verbs v;
		const char *missing = "";

		uccl_verbs_load(&v, UCCL_VERBS_FILE, &missing);
		snprintf(why, size, "libibverbs cannot be loaded: %s is missing%s%s", missing,
			 *device ? ", though the kernel has the device " : "", device);
		*advice = *device ? "install Debian's libibverbs1 and ibverbs-providers" : *advice;
		return;
	}
#else
	snprintf(why, size, "the provider was built without libibverbs' headers");
	*advice = "install libibverbs-dev and build again, if this host has RDMA NICs";
	return;
#endif
	if (!*device) {
		snprintf(why, size, "the kernel has no RDMA device");
		return;
	}
	entry_first("/dev/infiniband", "uverbs", node, sizeof(node));
	if (!*node) {
		snprintf(why, size, "the kernel has %s, but /dev/infiniband has no uverbs device", device);
		*advice = "modprobe ib_uverbs; in a container pass /dev/infiniband on to it";
		return;
	}
	snprintf(path, sizeof(path), "/dev/infiniband/%s", node);
	if (access(path, R_OK | W_OK)) {
		snprintf(why, size, "%.300s may not be opened: %s", path, strerror(errno));
		*advice = "make the user a member of the group that owns /dev/infiniband/uverbs*";
		return;
	}
	snprintf(why, size, "no port of %s and others is active with an address that can be used", device);
	*advice = "ibv_devinfo shows the state of the ports; ip link set NETDEV up";
}

/* Each back end: where it can be opened, whatever FI_UCCL_BACKEND says. */
static void backend_add(const struct doctor_host *h, const char *backend, struct doctor_report *r)
{
	bool chosen = !strcmp(backend, h->params.nic.backend);
	enum doctor_level miss = chosen ? DOCTOR_BAD : DOCTOR_NOTE;
	struct uccl_params p = h->params;
	struct doctor_finding *f;
	const char *subject;
	struct uccl_ifaddr *list;
	int n, good = 0;

	snprintf(p.nic.backend, sizeof(p.nic.backend), "%s", backend);
	n = uccl_place_list(&p, &list);
	if (n <= 0) {
		const char *advice = "";
		char why[DOCTOR_TEXT] = "";

		if (uccl_place_rdma(&p))
			rdma_why_not(why, sizeof(why), &advice);
		/* The reason is that of all verbs back ends: once is enough. */
		subject = chosen || !uccl_place_rdma(&p) ? backend : "verbs-*";
		if (!chosen && uccl_place_rdma(&p) && (h->rdma || strcmp(backend, "verbs-uc")))
			return;
		doctor_advise(doctor_add(r, miss, "offer", "backend", subject, "not usable: %s",
					 *why ? why : "no interface with an IP address is up"), "%s", advice);
		return;
	}
	for (int i = 0; i < n; i++) {
		struct uccl_nic_caps caps;
		uint32_t slots;
		unsigned int rank;
		int rc;

		if (!uccl_nicnames_allow(h->params.nic.names, list[i].name, &rank) && chosen)
			continue;
		rc = place_try(&p, &list[i], &caps, &slots);
		good += !rc;
		if (rc)
			doctor_add(r, DOCTOR_NOTE, "offer", "backend", backend, "not on %s: %s", list[i].name,
				   rc == -FI_ENOSYS ? "the NIC has no queue pairs of that kind" :
						      uccl_lib.strerror(-rc));
	}
	free(list);
	if (good)
		f = doctor_add(r, DOCTOR_OK, "offer", "backend", backend, "%s: opens at %d address%s",
			       chosen ? "in use" : "could be used", good, good == 1 ? "" : "es");
	else
		f = doctor_add(r, miss, "offer", "backend", backend, "no interface can be opened");
	doctor_number(f, "places", good);
}

/* Does the libfabric of this program find the module at all, and is it of the same version? */
static void library_add(const struct doctor_host *h, struct doctor_report *r)
{
	const char *path = getenv("FI_PROVIDER_PATH"), *filter = getenv("FI_PROVIDER");
	const char *name = *h->params.alias ? h->params.alias : FI_UCCL_PROV_NAME;
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	uint32_t version = fi_version();
	struct doctor_finding *f;
	int rc = -FI_ENOMEM;

	if (hints) {
		hints->fabric_attr->prov_name = strdup(name);
		rc = fi_getinfo(API, NULL, NULL, 0, hints, &info);
		fi_freeinfo(hints);
	}
	if (rc) {
		f = doctor_add(r, h->nplaces ? DOCTOR_BAD : DOCTOR_NOTE, "offer", "library", NULL,
			       "libfabric %u.%u does not offer the provider to programs: %s", FI_MAJOR(version),
			       FI_MINOR(version), fi_strerror(-rc));
		if (filter && !strstr(filter, name))
			doctor_advise(f, "FI_PROVIDER is set to %.100s: unset it, or name %s in it", filter, name);
		else
			doctor_advise(f, "set FI_PROVIDER_PATH to the folder of " MODULE_NAME " (it is %.200s)",
				      path ? path : "not set");
	} else {
		uint32_t v = info->fabric_attr->prov_version;

		if (!*h->params.alias && v != UCCL_PROV_VERSION) {
			f = doctor_add(r, DOCTOR_WARN, "offer", "library", NULL,
				       "libfabric finds version %u.%u of the provider, this program is of %u.%u",
				       FI_MAJOR(v), FI_MINOR(v), FI_MAJOR(UCCL_PROV_VERSION),
				       FI_MINOR(UCCL_PROV_VERSION));
			doctor_advise(f, "look at FI_PROVIDER_PATH, and remove the older " MODULE_NAME);
		} else {
			f = doctor_add(r, DOCTOR_OK, "offer", "library", NULL,
				       "libfabric %u.%u finds the provider as %s", FI_MAJOR(version),
				       FI_MINOR(version), name);
		}
		fi_freeinfo(info);
	}
	doctor_number(f, "major", FI_MAJOR(version));
	doctor_number(f, "minor", FI_MINOR(version));
}

bool doctor_offer(struct doctor_host *h, struct doctor_report *r)
{
	static const char *const backends[] = { "udp", "verbs-uc", "verbs-rc", "verbs-ud" };
	char why[UCCL_PARAM_TEXT] = "";

	provider_start();
	if (uccl_params_read(&h->params, why, sizeof(why))) {
		logged.nwarnings = 0;
		doctor_advise(doctor_add(r, DOCTOR_BAD, "offer", "variables", NULL, "nothing is offered: %s", why),
			      "correct the variable, see fi_uccl(7)");
		return false;
	}
	h->rdma = uccl_place_rdma(&h->params);
	if (*h->params.fault)
		doctor_advise(doctor_add(r, DOCTOR_WARN, "offer", "variables", NULL,
					 "FI_UCCL_FAULT is set: faults are put into what is sent"),
			      "unset FI_UCCL_FAULT, it is for tests");
	entries_add(h, r);
	gpu_memory_add(r);
	library_add(h, r);
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		backend_add(h, backends[i], r);
	left_out(h, r);
	return true;
}

static void nic_add(struct doctor_nic *nic, int *n, const struct uccl_ifaddr *ifa, bool rdma, int place)
{
	/* One address of each is enough. */
	for (int i = 0; i < *n; i++)
		if (nic[i].rdma == rdma && !strcmp(nic[i].ifa.name, ifa->name))
			return;
	if (*n == DOCTOR_PLACES)
		return;
	nic[*n].ifa = *ifa;
	nic[*n].rdma = rdma;
	nic[(*n)++].place = place;
}

/* All that a back end of this name could use, behind what is offered. */
static void nics_of(const char *backend, struct uccl_params p, struct doctor_nic *nic, int *n)
{
	struct uccl_ifaddr *list;
	int all;

	snprintf(p.nic.backend, sizeof(p.nic.backend), "%s", backend);
	all = uccl_place_list(&p, &list);
	for (int i = 0; i < all; i++)
		nic_add(nic, n, &list[i], uccl_place_rdma(&p), 0);
	if (all > 0)
		free(list);
}

static int nics_find(struct doctor_host *h, struct doctor_nic *nic)
{
	struct uccl_ifaddr ifa;
	struct fi_info *info;
	int n = 0, place = 0;

	if (!uccl_getinfo(API, NULL, NULL, 0, NULL, &info)) {
		for (const struct fi_info *i = info; i; i = i->next)
			if (place_of(h, i, &ifa))
				nic_add(nic, &n, &ifa, h->rdma, ++place);
		uccl_lib.freeinfo(info);
	}
	nics_of("udp", h->params, nic, &n);
	nics_of("verbs-uc", h->params, nic, &n);
	return n;
}

int doctor_nics(struct doctor_host *h, bool json, FILE *f)
{
	struct doctor_nic *nic = calloc(DOCTOR_PLACES, sizeof(*nic));
	const struct uccl_hwloc *hwloc;
	char why[UCCL_PARAM_TEXT] = "";
	struct doctor_gpu *gpu = NULL;
	struct uccl_near near;
	int n, ngpu;

	provider_start();
	if (!nic || uccl_params_read(&h->params, why, sizeof(why))) {
		fprintf(stderr, "uccl_doctor: %s\n", nic ? why : "no memory");
		free(nic);
		return 2;
	}
	h->rdma = uccl_place_rdma(&h->params);
	hwloc = uccl_hwloc_find();
	uccl_near_here(UCCL_SYSFS, &near);
	n = nics_find(h, nic);
	for (int i = 0; i < n; i++) {
		if (!uccl_sysfs_device(UCCL_SYSFS, nic[i].ifa.name, nic[i].device))
			*nic[i].device = '\0';
		nic[i].nodes = *nic[i].device ? uccl_near_nodes(hwloc, nic[i].device) : 0;
		nic[i].distance = uccl_near_distance(&near, nic[i].nodes);
	}
	ngpu = doctor_gpus(UCCL_SYSFS, hwloc, &gpu);
	(json ? doctor_nics_json : doctor_nics_text)(nic, n, gpu, ngpu, &near, hwloc ? "hwloc" : "sysfs", f);
	free(gpu);
	free(nic);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Run-time variables. All are registered as strings and read here, because the library's own readers take "16k" for an
 * error, "abc" for nothing, and know no ranges.
 */
#include "api/offer/param.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "base/defaults.h"
#include "flow/policy.h"
#include "progress/lanes.h"

/* The prefix that the library itself puts before the names of this provider's variables. */
#define PREFIX_LEN (sizeof("FI_UCCL_") - 1)

enum form {
	FORM_TEXT,	/* up to UCCL_PARAM_TEXT - 1 characters */
	FORM_CHOICE,	/* one of a list of names */
	FORM_POLICY,	/* see uccl_policy_values; lo says which kind */
	FORM_NUMBER,
	FORM_BYTES,	/* k, m, g: times 1024, 1024^2, 1024^3 */
	FORM_SECONDS,	/* kept as ns */
	FORM_MILLIS,	/* kept as ns */
	FORM_BOOL,
	FORM_SWITCH,	/* a boolean or "auto" */
	FORM_PORTS,	/* see uccl_ports_parse */
	FORM_LANES,	/* a number or "auto" */
};

struct param {
	const char *name;
	enum form form;
	const char *def;
	uint64_t lo, hi;	/* in the unit that a person writes; the default may lie outside */
	const char *const *(*choices)(void);
	size_t offset;
	const char *help;
	const char *rdma_def;	/* with RDMA NICs; NULL: the same */
	bool nearest;		/* a number out of range becomes the nearest in it: a wish, not a promise */
};

static const char *const *backend_names(void)
{
	static const char *const names[] = { "udp", "xdp", "verbs-uc", "verbs-rc", "verbs-ud", NULL };

	return names;
}

static const char *const *order_names(void)
{
	static const char *const names[] = { "any", "fifo", NULL };

	return names;
}

static const char *const *pci_names(void)
{
	static const char *const names[] = { "auto", "all", "none", NULL };

	return names;
}

static const char *const *cuda_names(void)
{
	static const char *const names[] = { "auto", "on", "off", NULL };

	return names;
}

/* In the order of enum uccl_xdp_mode. */
static const char *const *xdp_names(void)
{
	static const char *const names[] = {"auto", "native", "generic", NULL};

	return names;
}

enum uccl_xdp_mode uccl_params_xdp_mode(const struct uccl_params *p)
{
	const char *const *names = xdp_names();
	int mode = UCCL_XDP_AUTO;

	while (names[mode] && strcmp(names[mode], p->xdp))
		mode++;
	return names[mode] ? (enum uccl_xdp_mode)mode : UCCL_XDP_AUTO;
}

/* In the order of enum uccl_security. */
static const char *const *security_names(void)
{
	static const char *const names[] = {"trusted", "control", "packets", NULL};

	return names;
}

/*
 * A key of a window comes again, and memory that stays registered keeps its number: a hostile peer could write there
 * when that is another's. Who asks for more than trust gets a registration for each message.
 */
enum uccl_windows uccl_params_windows(const struct uccl_params *p)
{
	if (p->windows != UCCL_SWITCH_AUTO)
		return p->windows == UCCL_SWITCH_YES ? UCCL_WINDOWS_ON : UCCL_WINDOWS_OFF;
	return strcmp(p->security, "trusted") ? UCCL_WINDOWS_OFF : UCCL_WINDOWS_AUTO;
}

#define AT(field) offsetof(struct uccl_params, field)
#define TEXT(name, field, help) { name, FORM_TEXT, "", 0, 0, NULL, AT(field), help, NULL, false }
#define CHOICE(name, def, names, field, help) { name, FORM_CHOICE, def, 0, 0, names, AT(field), help, NULL, false }
#define POLICY(name, def, rdma, kind, names, field, help) \
	{ name, FORM_POLICY, def, kind, 0, names, AT(field), help, rdma, false }
#define RANGE(name, form, def, lo, hi, field, help) { name, form, def, lo, hi, NULL, AT(field), help, NULL, false }
#define RANGE_BY(name, form, def, rdma, lo, hi, field, help) \
	{ name, form, def, lo, hi, NULL, AT(field), help, rdma, false }
#define NEAREST(name, form, def, lo, hi, field, help) { name, form, def, lo, hi, NULL, AT(field), help, NULL, true }

static const struct param table[] = {
	CHOICE("FI_UCCL_BACKEND", "udp", backend_names, backend, "what moves the packets"),
	TEXT("FI_UCCL_NIC", nic,
	     "network interfaces (RDMA back ends: devices) that may be used, by name, with commas between; empty: any"),
	CHOICE("FI_UCCL_PCI", "auto", pci_names, pci,
	       "PCI addresses of NICs; auto: told to all programs but MPICH's, all: to these, too, none: to nobody"),
	/* The back end comes first: defaults of others depend on it. */
	POLICY("FI_UCCL_CC", UCCL_UDP_CC, UCCL_VERBS_CC, UCCL_POLICY_CC, uccl_cc_names, cc, "congestion control"),
	POLICY("FI_UCCL_PATH", UCCL_UDP_PATH, UCCL_VERBS_PATH, UCCL_POLICY_PATH, uccl_path_names, path,
	       "how the path of a packet is chosen"),
	POLICY("FI_UCCL_CREDIT", UCCL_UDP_CREDIT, UCCL_VERBS_CREDIT, UCCL_POLICY_CREDIT, uccl_credit_names, credit,
	       "receiver-driven credits"),
	CHOICE("FI_UCCL_PATH_ORDER", "any", order_names, path_order,
	       "fifo: you promise that no path ever reorders packets"),
	RANGE_BY("FI_UCCL_PATHS", FORM_NUMBER, UCCL_TEXT(UCCL_UDP_PATHS), UCCL_TEXT(UCCL_VERBS_PATHS), 1, 256, paths,
		 "paths to each peer"),
	RANGE("FI_UCCL_CHUNK", FORM_BYTES, UCCL_TEXT(UCCL_CHUNK), 0, 1 << 20, chunk_bytes,
	      "largest piece of a message that is sent, acknowledged and repeated as one; 0: what a packet holds"),
	NEAREST("FI_UCCL_EAGER", FORM_BYTES, "65536", 0, 65536, eager_bytes,
		"messages up to this size are sent without asking the receiver first"),
	RANGE("FI_UCCL_INJECT", FORM_BYTES, "4096", 8, 1 << 16, inject_bytes, "largest injected message"),
	RANGE("FI_UCCL_WINDOW", FORM_NUMBER, UCCL_TEXT(UCCL_WINDOW), 64, 16384, window_chunks,
	      "most chunks in flight to a peer"),
	RANGE("FI_UCCL_UNEXPECTED", FORM_BYTES, "64m", 1 << 16, UINT32_MAX, unexpected_bytes,
	      "payload of messages without a posted receive that an endpoint keeps"),
	RANGE("FI_UCCL_PEER_TIMEOUT", FORM_SECONDS, "600", 0, 31536000, peer_timeout_ns,
	      "a peer that was asked and says nothing for so long has failed; 0: never"),
	RANGE("FI_UCCL_CONNECT_TIMEOUT", FORM_SECONDS, "600", 1, 31536000, connect_timeout_ns,
	      "a peer that never answered has failed after this"),
	RANGE("FI_UCCL_KEEPALIVE", FORM_MILLIS, "1000", 0, 3600000, keepalive_ns,
	      "a quiet peer with work pending is probed this often; 0: never"),
	RANGE("FI_UCCL_RESCUE", FORM_MILLIS, "10", 0, 60000, rescue_ns,
	      "when a program with messages in flight does not call for so long, a thread repeats what was lost; "
	      "0: none"),
	RANGE("FI_UCCL_LINGER", FORM_MILLIS, "200", 0, 600000, linger_ns,
	      "closing an endpoint waits at most so long for its peers to hear of it"),
	RANGE("FI_UCCL_KEYLESS", FORM_SWITCH, "auto", 0, 0, keyless,
	      "accept peers that know IP and port but not the connect key; auto: endpoints with a port of the "
	      "program's choice or with socket addresses do"),
	CHOICE("FI_UCCL_SECURITY", "trusted", security_names, security,
	       "what proves that packets are genuine: tokens, codes, or codes and no direct writes; the same on all "
	       "sides"),
	TEXT("FI_UCCL_FAULT", fault, "faults put into what is sent, for tests; see fi_uccl(7)"),
	RANGE("FI_UCCL_MTU", FORM_BYTES, "0", 512, 65535, mtu, "cap on the packet size; 0: the interface's"),
	RANGE("FI_UCCL_MAX_QP", FORM_NUMBER, "1024", 1, 16384, max_qp,
	      "queue pairs of a process for direct writes (verbs-uc, verbs-rc), to all its peers together"),
	RANGE("FI_UCCL_SRQ", FORM_NUMBER, "0", 8, 32768, srq_depth,
	      "receives for direct writes to all endpoints of a process on a NIC; 0: enough for all slots"),
	RANGE("FI_UCCL_WRITE", FORM_BYTES, "0", 256, 131072, write_bytes,
	      "most bytes of one direct write (verbs-uc, verbs-rc); 0: what suits the NIC"),
	RANGE("FI_UCCL_WINDOWS", FORM_SWITCH, "auto", 0, 0, windows,
	      "peers write to memory windows, not to memory that is registered for each message (verbs-uc, verbs-rc); "
	      "auto: where these keep writes within their bounds, with FI_UCCL_SECURITY=trusted"),
	CHOICE("FI_UCCL_CUDA", "auto", cuda_names, cuda,
	       "memory of GPUs: auto: for programs that ask for FI_HMEM; on: also for those that name no capabilities"),
	RANGE("FI_UCCL_SCATTER", FORM_BOOL, "0", 0, 1, scatter,
	      "short copies to and from many places of a GPU are one launch of a kernel; see fi_uccl(7) before"),
	CHOICE("FI_UCCL_XDP", "auto", xdp_names, xdp,
	       "who runs the program of the back end xdp: native: the NIC's driver; generic: the kernel, slower; auto: "
	       "the driver if it can"),
	RANGE("FI_UCCL_RCVBUF", FORM_BYTES, "0", 0, 1 << 30, rcvbuf_bytes,
	      "receive buffer of an endpoint's socket; 0: the provider chooses"),
	RANGE("FI_UCCL_PORTS", FORM_PORTS, "", 1, 65535, ports,
	      "ports of this host that the provider's sockets may use, as first-last; empty: any"),
	RANGE("FI_UCCL_LANES", FORM_LANES, "0", 0, UCCL_LANES_MAX, lanes,
	      "threads of an endpoint that carry payload of large messages (udp); auto: by the processors that the "
	      "process may use"),
	RANGE("FI_UCCL_RX_CQ_DATA", FORM_SWITCH, "auto", 0, 0, rx_cq_data,
	      "1: programs that offer the mode FI_RX_CQ_DATA get it, and remote CQ data of RMA use a receive; auto: "
	      "those that ask for messages and RMA, not for tags"),
	RANGE("FI_UCCL_ECN", FORM_BOOL, "1", 0, 1, ecn,
	      "let the network mark packets instead of throwing them away, where back end and congestion control can"),
	RANGE("FI_UCCL_DSCP", FORM_NUMBER, "0", 0, 63, dscp,
	      "traffic class (DSCP) of data"),
	RANGE("FI_UCCL_CONTROL_DSCP", FORM_NUMBER, "48", 0, 63, control_dscp,
	      "traffic class (DSCP) of acknowledgements, credits and the like; 48 is where RoCE has its own control "
	      "packets"),
	RANGE("FI_UCCL_LIVENESS", FORM_BOOL, "1", 0, 1, liveness,
	      "hold a TCP connection to each peer, so that the end of a process is noticed at once"),
	TEXT("FI_UCCL_STATS", stats,
	     "where an endpoint writes its counters when it closes: a file name, to which the process number is added, "
	     "or stderr"),
	TEXT("FI_UCCL_ALIAS", alias,
	     "name to use instead of uccl, for programs that take only providers of certain names"),
	RANGE("FI_UCCL_LIVE", FORM_BOOL, "0", 0, 1, live, "let uccl_top watch this user's endpoints"),
	TEXT("FI_UCCL_TRACE", trace,
	     "beginning of the names of files to which endpoints write what happens packet by packet; see "
	     "uccl_trace(1)"),
	RANGE("FI_UCCL_TRACE_RECORDS", FORM_NUMBER, "65536", 64, 1 << 24, trace_records,
	      "how many of the latest records a trace file holds, rounded up to a power of two"),
};

static void unit_text(const struct param *t, char *buf, size_t size)
{
	int n;

	switch (t->form) {
	case FORM_TEXT:
		snprintf(buf, size, "text");
		return;
	case FORM_BOOL:
		snprintf(buf, size, "0 or 1");
		return;
	case FORM_SWITCH:
		snprintf(buf, size, "0, 1 or auto");
		return;
	case FORM_LANES:
		snprintf(buf, size, "auto, or number, %llu to %llu", (unsigned long long)t->lo,
			 (unsigned long long)t->hi);
		return;
	case FORM_PORTS:
		snprintf(buf, size, "first-last, two numbers, %llu to %llu, the second larger than the first",
			 (unsigned long long)t->lo, (unsigned long long)t->hi);
		return;
	case FORM_CHOICE:
	case FORM_POLICY:
		n = snprintf(buf, size, "one of");
		for (const char *const *c = t->choices(); *c && n > 0 && (size_t)n < size; c++)
			n += snprintf(buf + n, size - n, " %s", *c);
		if (t->form == FORM_POLICY && n > 0 && (size_t)n < size)
			snprintf(buf + n, size - n, ", with constants as name:constant=value,...");
		return;
	default:
		snprintf(buf, size, "%s, %s%llu to %llu",
			 t->form == FORM_BYTES ? "bytes" : t->form == FORM_SECONDS ? "seconds" :
			 t->form == FORM_MILLIS ? "milliseconds" : "number",
			 t->lo && !strcmp(t->def, "0") ? "0 or " : "", (unsigned long long)t->lo,
			 (unsigned long long)t->hi);
	}
}

/* The library makes a variable's full name from this one's, whatever name the provider goes by, and the short one. */
static struct fi_provider owner = { .name = UCCL_PARAM_OWNER };

static void short_name(const struct param *t, char *buf, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && t->name[PREFIX_LEN + i]; i++)
		buf[i] = tolower((unsigned char)t->name[PREFIX_LEN + i]);
	buf[i] = '\0';
}

/* A misspelt variable would quietly do nothing. */
static void warn_unknown(const char *var)
{
	size_t len = strcspn(var, "=");

	if (strncmp(var, "FI_UCCL_", PREFIX_LEN))
		return;
	for (size_t i = 0; i < uccl_array_len(table); i++)
		if (strlen(table[i].name) == len && !memcmp(table[i].name, var, len))
			return;
	uccl_warn(FI_LOG_CORE, "%.*s is not a variable of this provider: is it misspelt?\n", (int)len, var);
}

void uccl_params_define(void)
{
	for (char **var = environ; var && *var; var++)
		warn_unknown(*var);
	for (size_t i = 0; i < uccl_array_len(table); i++) {
		const char *def = table[i].def, *rdma = table[i].rdma_def ? table[i].rdma_def : def;
		bool differs = strcmp(rdma, def);
		char name[UCCL_PARAM_NAME], unit[256];

		short_name(&table[i], name, sizeof(name));
		unit_text(&table[i], unit, sizeof(unit));
		uccl_lib.param_define(&owner, name, FI_PARAM_STRING, "%s (%s; default: %s%s%s)", table[i].help, unit,
				      *def ? def : "none", differs ? ", with RDMA NICs " : "",
				      differs ? rdma : "");
	}
}

void uccl_params_alias(char *buf, size_t size)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	char *value = NULL;

	buf[0] = '\0';
	if (uccl_lib.param_get(&owner, "alias", &value) || !value || !*value)
		return;
	if (strlen(value) < size && strlen(value) < UCCL_PARAM_NAME && value[strspn(value, ok)] == '\0')
		snprintf(buf, size, "%s", value);
	else
		uccl_warn(FI_LOG_CORE, "FI_UCCL_ALIAS=%.200s is not valid (up to %d characters of a-z 0-9 _ -)\n",
			  value, UCCL_PARAM_NAME - 1);
}

static int read_bool(const char *text, uint64_t *out)
{
	static const char *const yes[] = { "1", "yes", "true", "on" }, *const no[] = { "0", "no", "false", "off" };

	for (size_t i = 0; i < uccl_array_len(yes); i++) {
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*out = !strcasecmp(text, yes[i]);
			return 0;
		}
	}
	return -FI_EINVAL;
}

/* Digits, and for sizes one letter after them. No sign, no blanks. */
static int read_number(const char *text, bool bytes, uint64_t *out)
{
	unsigned int shift = 0;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -FI_EINVAL;
	errno = 0;
	*out = strtoull(text, &end, 0);
	if (errno)
		return -FI_EINVAL;
	if (bytes && *end) {
		switch (tolower((unsigned char)*end++)) {
		case 'k':
			shift = 10;
			break;
		case 'm':
			shift = 20;
			break;
		case 'g':
			shift = 30;
			break;
		default:
			return -FI_EINVAL;
		}
	}
	if (*end || *out > UINT64_MAX >> shift)
		return -FI_EINVAL;
	*out <<= shift;
	return 0;
}

static int read_choice(const struct param *t, const char *text, char *out)
{
	for (const char *const *c = t->choices(); *c; c++) {
		if (!strcmp(text, *c)) {
			snprintf(out, UCCL_PARAM_NAME, "%s", *c);
			return 0;
		}
	}
	return -FI_EINVAL;
}

/* Some other number may do: say which. */
static int read_nearest(const struct param *t, const char *text, uint64_t *num)
{
	uint64_t near = uccl_clamp(*num, t->lo, t->hi);

	if (!t->nearest)
		return -FI_EINVAL;
	uccl_warn(FI_LOG_CORE, "%s=%.200s is out of range (%llu to %llu): %llu is used\n", t->name, text,
		  (unsigned long long)t->lo, (unsigned long long)t->hi, (unsigned long long)near);
	*num = near;
	return 0;
}

/* why: what is wrong, where more is known than what the help says. */
static int read_value(const struct param *t, const char *text, struct uccl_params *p, char *why, size_t size)
{
	void *field = (char *)p + t->offset;
	uint64_t *num = field;

	switch (t->form) {
	case FORM_TEXT:
		if (strlen(text) >= UCCL_PARAM_TEXT)
			return -FI_EINVAL;
		memcpy(field, text, strlen(text) + 1);
		return 0;
	case FORM_CHOICE:
		return read_choice(t, text, field);
	case FORM_POLICY:
		if (strlen(text) >= UCCL_PARAM_TEXT || uccl_policy_values((int)t->lo, text, NULL, why, size))
			return -FI_EINVAL;
		memcpy(field, text, strlen(text) + 1);
		return 0;
	case FORM_BOOL:
		return read_bool(text, num);
	case FORM_SWITCH:
		if (strcasecmp(text, "auto"))
			return read_bool(text, num);
		*num = UCCL_SWITCH_AUTO;
		return 0;
	case FORM_LANES:
		if (!strcasecmp(text, "auto")) {
			*num = UCCL_LANES_AUTO;
			return 0;
		}
		return read_number(text, false, num) || *num > t->hi ? -FI_EINVAL : 0;
	case FORM_PORTS:
		return uccl_ports_parse(text, field);
	default:
		if (read_number(text, t->form == FORM_BYTES, num))
			return -FI_EINVAL;
		if ((*num < t->lo || *num > t->hi) && strcmp(text, t->def) && read_nearest(t, text, num))
			return -FI_EINVAL;
		if (t->form == FORM_SECONDS)
			*num *= UCCL_NS_PER_S;
		if (t->form == FORM_MILLIS)
			*num *= UCCL_NS_PER_MS;
		return 0;
	}
}

/* What the fault wrapper needs of a NIC to read its text. */
static void idle_close(struct uccl_nic *nic)
{
	(void)nic;
}

static uint64_t no_clock(void *arg)
{
	(void)arg;
	return 0;
}

static int check_fault(const char *spec, const char **why)
{
	static const struct uccl_nic_ops ops = { .name = "none", .close = idle_close };
	struct uccl_nic idle = { .ops = &ops }, *nic;
	int rc;

	if (!*spec)
		return 0;
	*why = "not understood";
	rc = uccl_nic_fault_open(&idle, spec, no_clock, NULL, &nic, why);
	if (!rc)
		nic->ops->close(nic);
	return rc;
}

static const char *default_of(const struct param *t, const struct uccl_params *p)
{
	return t->rdma_def && !strncmp(p->backend, "verbs", 5) ? t->rdma_def : t->def;
}

void uccl_params_distrust(struct uccl_params *p)
{
	if (*p->stats && strcmp(p->stats, "stderr")) {
		uccl_warn(FI_LOG_CORE, "FI_UCCL_STATS names a file: ignored in a program with other rights than its "
				       "caller's\n");
		*p->stats = '\0';
	}
	if (*p->trace) {
		uccl_warn(FI_LOG_CORE, "FI_UCCL_TRACE names files: ignored in a program with other rights than its "
				       "caller's\n");
		*p->trace = '\0';
	}
}

int uccl_params_read(struct uccl_params *p, char *why, size_t size)
{
	const char *fault_why;
	int bad = 0;
	char text[1024], unit[640];

	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < uccl_array_len(table); i++) {
		const struct param *t = &table[i];
		char name[UCCL_PARAM_NAME], *value = NULL;

		short_name(t, name, sizeof(name));
		if (uccl_lib.param_get(&owner, name, &value) || !value)
			value = NULL;
		*unit = '\0';
		if (!read_value(t, value ? value : default_of(t, p), p, unit, sizeof(unit)))
			continue;
		if (!*unit)
			unit_text(t, unit, sizeof(unit));
		snprintf(text, sizeof(text), "%s=%.200s is not valid (%s)", t->name, value, unit);
		uccl_warn(FI_LOG_CORE, "%s\n", text);
		if (!bad++)
			snprintf(why, size, "%s", text);
	}
	if (!bad && check_fault(p->fault, &fault_why)) {
		snprintf(text, sizeof(text), "FI_UCCL_FAULT=%.200s is not valid: %s", p->fault, fault_why);
		uccl_warn(FI_LOG_CORE, "%s\n", text);
		if (!bad++)
			snprintf(why, size, "%s", text);
	}
	/* Who starts a program with more rights must not choose what it writes. */
	if (getauxval(AT_SECURE))
		uccl_params_distrust(p);
	return bad ? -FI_EINVAL : 0;
}

void uccl_params_config(const struct uccl_params *p, struct uccl_config *c)
{
	uccl_config_default(c);
	c->cc = p->cc;
	c->path = p->path;
	c->credit = p->credit;
	c->paths = p->paths;
	c->chunk_bytes = p->chunk_bytes;
	c->eager_bytes = p->eager_bytes;
	c->inject_bytes = p->inject_bytes;
	c->window_chunks = p->window_chunks;
	c->unexpected_bytes = p->unexpected_bytes;
	c->peer_timeout_ns = p->peer_timeout_ns;
	c->connect_timeout_ns = p->connect_timeout_ns;
	c->keepalive_ns = p->keepalive_ns;
	c->linger_ns = p->linger_ns;
	c->keyless = p->keyless == UCCL_SWITCH_YES;
	c->fifo_paths = !strcmp(p->path_order, "fifo");
	while (strcmp(p->security, security_names()[c->security]))
		c->security++;
}

bool uccl_params_nic_wanted(const struct uccl_params *p, const char *name, unsigned int *rank)
{
	size_t len = strlen(name);

	*rank = 0;
	if (!*p->nic)
		return true;
	for (const char *s = p->nic; *s; (*rank)++) {
		size_t n = strcspn(s, ",");

		if (n == len && !strncmp(s, name, n))
			return true;
		s += n + (s[n] == ',');
	}
	return false;
}

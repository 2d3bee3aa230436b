/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Run-time variables. All are registered as strings and read here, because the library's own readers take "16k" for an
 * error, "abc" for nothing, and know no ranges.
 */
#include "api/offer/param.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/offer/param_row.h"
#include "base/keyvalue.h"
#include "base/defaults.h"
#include "flow/policy.h"
#include "progress/lane_set.h"

#define PREFIX_LEN (sizeof(UCCL_PARAM_PREFIX) - 1)

#define TEST "FI_UCCL_TEST" /* not for users: CONTRIBUTING.md has it, fi_info -e and the manual do not */

static const char *const order_names[] = { "any", "fifo", NULL };

static const struct uccl_param rest[] = {
	{VAR("FI_UCCL_CC", FORM_POLICY, UCCL_UDP_CC, cc), .lo = UCCL_POLICY_CC, .choices = uccl_cc_names,
	 .rdma_def = UCCL_VERBS_CC, .help = "congestion control"},
	{VAR("FI_UCCL_PATH", FORM_POLICY, UCCL_UDP_PATH, path), .lo = UCCL_POLICY_PATH, .choices = uccl_path_names,
	 .rdma_def = UCCL_VERBS_PATH, .help = "how the path of a packet is chosen"},
	{VAR("FI_UCCL_CREDIT", FORM_POLICY, UCCL_UDP_CREDIT, credit), .lo = UCCL_POLICY_CREDIT,
	 .choices = uccl_credit_names, .rdma_def = UCCL_VERBS_CREDIT, .help = "receiver-driven credits"},
	{VAR("FI_UCCL_PATHS", FORM_NUMBER, UCCL_TEXT(UCCL_UDP_PATHS), paths), RANGE(1, 256),
	 .rdma_def = UCCL_TEXT(UCCL_VERBS_PATHS), .help = "paths to each peer"},
	{PART("FI_UCCL_PATHS", "order", FORM_CHOICE, "any", paths_order), .names = order_names,
	 .old = "FI_UCCL_PATH_ORDER", .help = "fifo: you promise that no path ever reorders packets"},
	{PART("FI_UCCL_PATHS", "window", FORM_POWER, UCCL_TEXT(UCCL_WINDOW), paths_window), RANGE(64, 16384),
	 .old = "FI_UCCL_WINDOW", .help = "most chunks in flight to a peer, on all paths together"},
	{PART("FI_UCCL_PATHS", "host", FORM_NUMBER, UCCL_TEXT(UCCL_HOST_TUPLES), paths_host), RANGE(64, 1 << 24),
	 .help = "UDP 5-tuples that the endpoints of this host may open, all ranks and peers together"},
	{VAR("FI_UCCL_LANES", FORM_LANES, "auto", lanes), RANGE(0, UCCL_LANES_MAX),
	 .help = "threads of an endpoint that carry payload of large messages; auto: by the processors that the "
		 "process may use"},
	{PART("FI_UCCL_LANES", "leave", FORM_BOOL, "1", lanes_leave),
	 .help = "0: use lanes however late they come, as tests need it"},
	{VAR("FI_UCCL_EAGER", FORM_BYTES, "65536", eager_bytes), RANGE(0, 65536), .nearest = true,
	 .help = "messages up to this size are sent without asking the receiver first"},
	{VAR("FI_UCCL_UNEXPECTED", FORM_BYTES, "64m", unexpected_bytes), RANGE(1 << 16, UINT32_MAX),
	 .help = "payload of messages without a posted receive that an endpoint keeps"},
	{VAR("FI_UCCL_LOG", FORM_CHOICE, "warn", log), .names = uccl_notice_names,
	 .help = "lines that the provider writes to stderr, unless libfabric's log shows them"},
	{VAR("FI_UCCL_STATS", FORM_TEXT, "", stats),
	 .help = "where an endpoint writes its counters when it closes: a file name, to which the process number is "
		 "added, a folder (DIR/), or stderr"},
	{PART("FI_UCCL_STATS", "paths", FORM_BOOL, "0", stats_paths),
	 .help = "1: a line for each path, too, not only one for each peer"},
	{VAR("FI_UCCL_MONITOR", FORM_BOOL, "0", monitor), .old = "FI_UCCL_LIVE",
	 .help = "let uccl_top watch this user's endpoints"},
	{VAR("FI_UCCL_TRACE", FORM_TEXT, "", trace),
	 .help = "beginning of the names of files to which endpoints write what happens packet by packet; see "
		 "uccl_trace(1)"},
	{PART("FI_UCCL_TRACE", "records", FORM_NUMBER, "65536", trace_records), RANGE(64, 1 << 24),
	 .old = "FI_UCCL_TRACE_RECORDS",
	 .help = "how many of the latest records a trace file holds, rounded up to a power of two"},
	{VAR("FI_UCCL_FAULT", FORM_TEXT, "", fault), .help = "faults put into what is sent, for tests; see fi_uccl(7)"},
	{VAR("FI_UCCL_ALIAS", FORM_TEXT, "", alias),
	 .help = "name to use instead of uccl, for programs that take only providers of certain names"},
	{VAR(TEST, FORM_PARTS, "", chunk_bytes), .help = "settings for tests"},
	{PART(TEST, "chunk", FORM_BYTES, UCCL_TEXT(UCCL_CHUNK), chunk_bytes), RANGE(UCCL_CHUNK_MIN, 1 << 20),
	 .nearest = true, .old = "FI_UCCL_CHUNK",
	 .help = "largest piece of a message that is sent, acknowledged and repeated as one; 0: what a packet holds"},
	{PART(TEST, "inject", FORM_BYTES, "4096", inject_bytes), RANGE(8, 1 << 16), .old = "FI_UCCL_INJECT",
	 .help = "largest injected message"},
	{PART(TEST, "rx_cq_data", FORM_SWITCH, "auto", rx_cq_data), .old = "FI_UCCL_RX_CQ_DATA",
	 .help = "programs that offer the mode FI_RX_CQ_DATA get it; auto: those that ask for messages and RMA, not "
		 "for tags"},
	{.name = NULL},
};

/* The back end comes first, since defaults depend on it. */
const struct uccl_param *uccl_param_at(size_t i)
{
	static const struct uccl_param *const tables[] = { uccl_param_nic, rest, uccl_param_conn };

	for (size_t k = 0; k < uccl_array_len(tables); k++)
		for (const struct uccl_param *t = tables[k]; t->name; t++)
			if (!i--)
				return t;
	return NULL;
}

/* The row after those of the variable that begins at `t`. */
static const struct uccl_param *param_end(const struct uccl_param *t)
{
	const char *name = t->name;

	while (t->name && !strcmp(t->name, name))
		t++;
	return t;
}

static const struct uccl_param *param_begin(const struct uccl_param *t)
{
	while (t->key)
		t--;
	return t;
}

static bool has_parts(const struct uccl_param *t)
{
	return param_end(t) - param_begin(t) > 1;
}

bool uccl_param_for_tests(const struct uccl_param *t)
{
	return !strcmp(t->name, TEST);
}

static const char *const *choices_of(const struct uccl_param *t)
{
	return t->choices ? t->choices() : t->names;
}

static const char *number_text(enum uccl_param_form form)
{
	switch (form) {
	case FORM_POWER:
		return "power of two";
	case FORM_BYTES:
		return "bytes";
	case FORM_SECONDS:
		return "seconds";
	case FORM_MILLIS:
		return "milliseconds";
	default:
		return "number";
	}
}

static void unit_text(const struct uccl_param *t, char *buf, size_t size)
{
	int n;

	switch (t->form) {
	case FORM_TEXT:
		snprintf(buf, size, "text of at most %d bytes", UCCL_PARAM_TEXT - 1);
		return;
	case FORM_BOOL:
		snprintf(buf, size, "0 or 1");
		return;
	case FORM_SWITCH:
		snprintf(buf, size, "0, 1 or auto");
		return;
	case FORM_PARTS:
		snprintf(buf, size, "key=value,key=value");
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
		for (const char *const *c = choices_of(t); *c && n > 0 && (size_t)n < size; c++)
			n += snprintf(buf + n, size - n, " %s", *c);
		if (t->form == FORM_POLICY && n > 0 && (size_t)n < size)
			snprintf(buf + n, size - n, ", with constants as name:constant=value,...");
		return;
	default:
		snprintf(buf, size, "%s, %s%llu to %llu", number_text(t->form),
			 t->lo && !strcmp(t->def, "0") ? "0 or " : "", (unsigned long long)t->lo,
			 (unsigned long long)t->hi);
	}
}

/* The library makes a variable's full name from this one's, whatever name the provider goes by, and the short one. */
static struct fi_provider owner = { .name = UCCL_PARAM_OWNER };

static void short_name(const struct uccl_param *t, char *buf, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && t->name[PREFIX_LEN + i]; i++)
		buf[i] = tolower((unsigned char)t->name[PREFIX_LEN + i]);
	buf[i] = '\0';
}

/* The whole text of a variable; NULL: it is not set. The library reads only variables that it lists. */
static const char *variable(const struct uccl_param *t)
{
	char name[UCCL_PARAM_NAME], *value = NULL;

	if (uccl_param_for_tests(t))
		return getenv(t->name);
	short_name(t, name, sizeof(name));
	return uccl_lib.param_get(&owner, name, &value) ? NULL : value;
}

/* The length of a variable's own value, which comes before its parts. */
static size_t own_length(const struct uccl_param *t, const char *text)
{
	if (!has_parts(t))
		return strlen(text);
	if (uccl_keyvalue_begins(text))
		return 0;
	return t->form == FORM_TEXT ? uccl_keyvalue_long_head(text) : uccl_keyvalue_head(text);
}

/* The first of its parts; NULL: there is none. */
static const char *parts_of(const struct uccl_param *var, const char *text)
{
	size_t len = own_length(var, text);

	if (!len && has_parts(var) && uccl_keyvalue_begins(text))
		return text;
	return text[len] ? text + len + 1 : NULL;
}

/* The value of `t` under its name of today. *len is its length; NULL: it is not set. */
static const char *current_value(const struct uccl_param *t, size_t *len)
{
	const struct uccl_param *var = param_begin(t);
	const char *text = variable(var), *at, *last = NULL;
	struct uccl_keyvalue item;

	if (!text)
		return NULL;
	if (!t->key) {
		*len = own_length(t, text);
		return *len || !parts_of(t, text) ? text : NULL;
	}
	at = parts_of(var, text);
	while (uccl_keyvalue_next(&at, &item)) {
		if (!uccl_keyvalue_is(&item, t->key))
			continue;
		last = item.value;
		*len = item.value_len;
	}
	return last;
}

/* Once in a process: the spelling of today for a name of an earlier version. Rows have a bit of `warned` each. */
static void warn_old(const struct uccl_param *t, size_t row)
{
	static _Atomic uint64_t warned;
	const char *value = t->old ? getenv(t->old) : NULL, *whole = variable(t), *now;
	const char *key = t->key ? t->key : "", *equals = t->key ? "=" : "";
	size_t len = 0;

	if (!value || atomic_fetch_or(&warned, 1ull << row % 64) >> row % 64 & 1)
		return;
	now = current_value(t, &len);
	if (now) {
		uccl_warn(FI_LOG_CORE, "%s=%.200s is an old name and ignored: %s=%s%s%.*s is set\n",
			  t->old, value, t->name, key, equals, (int)uccl_min(len, (size_t)200), now);
		return;
	}
	uccl_warn(FI_LOG_CORE,
		  "%s is an old name, which the next version will not know: %s %s=%.200s%s%s%s%.200s\n", t->old,
		  uccl_param_for_tests(t) ? "the provider chooses; only tests set" : "write", t->name,
		  whole ? whole : "", whole && *whole ? "," : "", key, equals, value);
}

/* "part=value: what it is (unit; default: ...)", or the same of what is not a part. Returns its length. */
static size_t help_text(const struct uccl_param *t, char *buf, size_t size)
{
	const char *def = t->def, *rdma = t->rdma_def ? t->rdma_def : def;
	bool differs = strcmp(rdma, def);
	char unit[256];
	int n;

	unit_text(t, unit, sizeof(unit));
	if (t->form == FORM_PARTS)
		n = snprintf(buf, size, "%s: %s", t->help, unit);
	else
		n = snprintf(buf, size, "%s%s%s%s (%s; default: %s%s%s)", t->key ? "; " : "", t->key ? t->key : "",
			     t->key ? "=: " : "", t->help, unit, *def ? def : "none",
			     differs ? ", with RDMA NICs " : "", differs ? rdma : "");
	return n < 0 ? 0 : uccl_min((size_t)n, size - 1);
}

void uccl_params_define(void)
{
	const struct uccl_param *t;

	for (size_t i = 0; (t = uccl_param_at(i)); i++) {
		char name[UCCL_PARAM_NAME], help[2048];
		size_t n = 0;

		if (t->key || uccl_param_for_tests(t))
			continue;
		for (const struct uccl_param *part = t; part < param_end(t); part++)
			n += help_text(part, help + n, sizeof(help) - n);
		short_name(t, name, sizeof(name));
		uccl_lib.param_define(&owner, name, FI_PARAM_STRING, "%s", help);
	}
	for (size_t i = 0; (t = uccl_param_at(i)); i++)
		warn_old(t, i);
}

void uccl_params_alias(char *buf, size_t size)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyz0123456789_-;";
	char *value = NULL;

	buf[0] = '\0';
	if (uccl_lib.param_get(&owner, "alias", &value) || !value || !*value)
		return;
	if (strlen(value) < size && strlen(value) < UCCL_PARAM_NAME && value[strspn(value, ok)] == '\0')
		snprintf(buf, size, "%s", value);
	else
		uccl_warn(FI_LOG_CORE, "FI_UCCL_ALIAS=%.200s is not valid (up to %d characters of a-z 0-9 _ - ;)\n",
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

/* Digits, without sign and blanks. A size may end in one letter. */
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

static int read_choice(const struct uccl_param *t, const char *text, char *out)
{
	for (const char *const *c = choices_of(t); *c; c++) {
		if (!strcmp(text, *c)) {
			snprintf(out, UCCL_PARAM_NAME, "%s", *c);
			return 0;
		}
	}
	return -FI_EINVAL;
}

/* Use the nearest valid number if the row allows that, and warn. */
static int read_nearest(const struct uccl_param *t, const char *text, uint64_t *num)
{
	uint64_t near = uccl_clamp(*num, t->lo, t->hi);

	if (!t->nearest)
		return -FI_EINVAL;
	uccl_warn(FI_LOG_CORE, "%s=%s%s%.200s is out of range (%llu to %llu): %llu is used\n", t->name,
		  t->key ? t->key : "", t->key ? "=" : "", text, (unsigned long long)t->lo,
		  (unsigned long long)t->hi, (unsigned long long)near);
	*num = near;
	return 0;
}

/* why: what is wrong, if more is known than the help text. */
static int read_value(const struct uccl_param *t, const char *text, struct uccl_params *p, char *why, size_t size)
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
	case FORM_PARTS:
		return *text ? -FI_EINVAL : 0;
	case FORM_PORTS:
		return uccl_ports_parse(text, field);
	default:
		if (read_number(text, t->form == FORM_BYTES, num))
			return -FI_EINVAL;
		if ((*num < t->lo || *num > t->hi) && strcmp(text, t->def) && read_nearest(t, text, num))
			return -FI_EINVAL;
		if (t->form == FORM_POWER && *num & (*num - 1))
			return -FI_EINVAL;
		if (t->form == FORM_SECONDS)
			*num *= UCCL_NS_PER_S;
		if (t->form == FORM_MILLIS)
			*num *= UCCL_NS_PER_MS;
		return 0;
	}
}

/* A NIC that does nothing, to let the fault wrapper check its text. */
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

static const char *default_of(const struct uccl_param *t, const struct uccl_params *p)
{
	return t->rdma_def && !strncmp(p->nic.backend, "verbs", 5) ? t->rdma_def : t->def;
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

/* Each bad value is logged; the caller gets the first text, too. */
struct complaints {
	char *why;
	size_t size;
	int n;
};

static void complain(struct complaints *c, const char *name, const char *value, const char *what)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s=%.200s is not valid%s", name, value, what);
	uccl_warn(FI_LOG_CORE, "%s; the provider offers nothing until this is corrected\n", text);
	if (!c->n++)
		snprintf(c->why, c->size, "%s", text);
}

/* Check that the variable has every part that its text sets. */
static void check_keys(const struct uccl_param *var, struct complaints *c)
{
	const char *text = has_parts(var) ? variable(var) : NULL, *at = text ? parts_of(var, text) : NULL;
	char what[640], keys[256];
	struct uccl_keyvalue item;
	const struct uccl_param *t;
	size_t n;

	while (uccl_keyvalue_next(&at, &item)) {
		n = 0;
		*keys = '\0';
		for (t = var + 1; t < param_end(var) && !uccl_keyvalue_is(&item, t->key); t++)
			n += (size_t)snprintf(keys + n, sizeof(keys) - n, " %s", t->key);
		if (t < param_end(var))
			continue;
		snprintf(what, sizeof(what), " (\"%.*s\" sets no part of it; there are, as key=value:%s)",
			 (int)uccl_min(item.len, (size_t)200), item.key, keys);
		complain(c, var->name, text, what);
	}
}

/* Read a value: by today's name, else by that of an earlier version, else the default. */
static void read_param(const struct uccl_param *t, struct uccl_params *p, struct complaints *c)
{
	const char *old = t->old ? getenv(t->old) : NULL, *name = t->name, *value;
	char text[UCCL_PARAM_TEXT], unit[640] = "", what[1024];
	size_t len = 0;

	value = current_value(t, &len);
	if (!value) {
		name = old ? t->old : t->name;
		value = old ? old : default_of(t, p);
		len = strlen(value);
	}
	snprintf(text, sizeof(text), "%.*s", (int)uccl_min(len, sizeof(text)), value);
	if (len < sizeof(text) && !read_value(t, text, p, unit, sizeof(unit)))
		return;
	if (!*unit)
		unit_text(t, unit, sizeof(unit));
	if (name == t->name && has_parts(t) && t->key)
		snprintf(what, sizeof(what), " (\"%s=%.200s\": %s)", t->key, text, unit);
	else
		snprintf(what, sizeof(what), " (%s)", unit);
	complain(c, name, name == t->name ? variable(t) : value, what);
}

int uccl_params_read(struct uccl_params *p, char *why, size_t size)
{
	struct complaints c = {.why = why, .size = size};
	const struct uccl_param *t;
	const char *fault_why;
	char what[256];

	memset(p, 0, sizeof(*p));
	for (size_t i = 0; (t = uccl_param_at(i)); i++) {
		if (!t->key)
			check_keys(t, &c);
		read_param(t, p, &c);
	}
	if (!c.n && check_fault(p->fault, &fault_why)) {
		snprintf(what, sizeof(what), ": %s", fault_why);
		complain(&c, "FI_UCCL_FAULT", p->fault, what);
	}
	/* The caller of a program with more rights must not choose what it writes. */
	if (getauxval(AT_SECURE))
		uccl_params_distrust(p);
	return c.n ? -FI_EINVAL : 0;
}

void uccl_params_config(const struct uccl_params *p, struct uccl_config *c)
{
	uccl_config_default(c);
	c->cc = p->cc;
	c->path = p->path;
	c->credit = p->credit;
	c->paths = p->paths;
	/* What somebody sets is for all peers. */
	c->host_cc = strcmp(p->cc, UCCL_UDP_CC);
	c->host_credit = strcmp(p->credit, UCCL_UDP_CREDIT);
	c->host_paths = p->paths == UCCL_UDP_PATHS ? UCCL_HOST_PATHS : p->paths;
	c->chunk_bytes = p->chunk_bytes;
	c->eager_bytes = p->eager_bytes;
	c->inject_bytes = p->inject_bytes;
	c->window_chunks = p->paths_window;
	c->unexpected_bytes = p->unexpected_bytes;
	c->peer_timeout_ns = p->conn.peer_timeout_ns;
	c->connect_timeout_ns = p->conn.peer_connect_ns;
	c->keepalive_ns = p->conn.peer_keepalive_ns;
	c->linger_ns = p->conn.linger_ns;
	c->keyless = p->conn.security_keyless == UCCL_SWITCH_YES;
	c->fifo_paths = !strcmp(p->paths_order, "fifo");
	while (strcmp(p->conn.security, uccl_param_security_names[c->security]))
		c->security++;
}

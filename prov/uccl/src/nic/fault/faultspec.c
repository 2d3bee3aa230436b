/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/fault/faultspec.h"

#include <stddef.h>
#include <string.h>

#include "base/keyvalue.h"
#include "base/units.h"

#define REORDER_NS (100 * UCCL_NS_PER_US)
#define TIME_MAX 1000000000000ull /* ms or us */

static bool digits_read(const char **p, uint64_t *out)
{
	const char *s = *p;
	uint64_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		uint64_t digit = (uint64_t)(*s - '0');

		if (v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	if (s == *p)
		return false;
	*p = s;
	*out = v;
	return true;
}

/* A decimal number such as 0.01 or 1e-3. Not strtod(), which obeys the application's locale. */
static bool decimal_read(const char **p, double *out)
{
	uint64_t whole = 0, exponent;
	double v, unit = 1;
	bool any, minus;

	any = digits_read(p, &whole);
	v = (double)whole;
	if (**p == '.') {
		(*p)++;
		for (; **p >= '0' && **p <= '9'; (*p)++) {
			unit /= 10;
			v += unit * (**p - '0');
			any = true;
		}
	}
	if (!any)
		return false;
	if (**p == 'e' || **p == 'E') {
		(*p)++;
		minus = **p == '-';
		if (minus || **p == '+')
			(*p)++;
		if (!digits_read(p, &exponent) || exponent > 300)
			return false;
		for (; exponent; exponent--)
			v = minus ? v / 10 : v * 10;
	}
	*out = v;
	return true;
}

static const char *hole_read(struct uccl_fault_spec *spec, const char **p, bool by_path)
{
	struct uccl_fault_hole *h = &spec->hole[spec->holes];
	uint64_t from, to;

	if (spec->holes == UCCL_FAULT_BLACKHOLES)
		return "too many blackholes";
	h->by_path = by_path;
	h->which = UCCL_FAULT_ANY;
	h->to_ns = UCCL_NEVER;
	if (**p == '*')
		(*p)++;
	else if (!digits_read(p, &h->which) || h->which > UINT16_MAX)
		return "blackhole: bad label or path";
	if (*(*p)++ != '@' || !digits_read(p, &from) || from > TIME_MAX || *(*p)++ != '-')
		return "blackhole: want WHICH@START-END, times in ms";
	h->from_ns = from * UCCL_NS_PER_MS;
	if (**p && !strchr(",:", **p)) {
		if (!digits_read(p, &to) || to > TIME_MAX || to < from)
			return "blackhole: bad end time";
		h->to_ns = to * UCCL_NS_PER_MS;
	}
	spec->holes++;
	return NULL;
}

static const char *train_read(struct uccl_fault_spec *spec, const char **p)
{
	static const char *const names[] = {[UCCL_TRAIN_DROP] = "drop",	  [UCCL_TRAIN_FIRST] = "first",
					    [UCCL_TRAIN_LAST] = "last",	  [UCCL_TRAIN_EQUAL] = "equal",
					    [UCCL_TRAIN_CORRUPT] = "corrupt"};
	size_t len = uccl_keyvalue_head(*p), i;

	for (i = UCCL_TRAIN_DROP; i < UCCL_TRAIN_FAULTS; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], *p, len)) {
			spec->train = (enum uccl_train_fault)i;
			*p += len;
			return NULL;
		}
	return "train must be drop, first, last, equal or corrupt";
}

enum key_kind { KEY_TRAIN, KEY_CHANCE, KEY_MEAN, KEY_TIME, KEY_LABEL, KEY_NUMBER, KEY_HOLE, KEY_HOLE_PATH };

static const struct key {
	const char *name;
	enum key_kind kind;
	size_t at; /* of the field in the specification */
} keys[] = {
	{"drop", KEY_CHANCE, offsetof(struct uccl_fault_spec, drop)},
	{"drop_control", KEY_CHANCE, offsetof(struct uccl_fault_spec, drop_control)},
	{"burst", KEY_MEAN, offsetof(struct uccl_fault_spec, burst)},
	{"dup", KEY_CHANCE, offsetof(struct uccl_fault_spec, dup)},
	{"reorder", KEY_CHANCE, offsetof(struct uccl_fault_spec, reorder)},
	{"reorder_us", KEY_TIME, offsetof(struct uccl_fault_spec, reorder_ns)},
	{"corrupt", KEY_CHANCE, offsetof(struct uccl_fault_spec, corrupt)},
	{"delay_us", KEY_TIME, offsetof(struct uccl_fault_spec, delay_ns)},
	{"jitter_us", KEY_TIME, offsetof(struct uccl_fault_spec, jitter_ns)},
	{"train", KEY_TRAIN, 0},
	{"path", KEY_LABEL, offsetof(struct uccl_fault_spec, label)},
	{"seed", KEY_NUMBER, offsetof(struct uccl_fault_spec, seed)},
	{"blackhole", KEY_HOLE, 0},
	{"blackhole_path", KEY_HOLE_PATH, 0},
};

static const char *value_read(struct uccl_fault_spec *spec, const struct key *key, const char **p)
{
	double *real = (double *)((char *)spec + key->at);
	uint64_t *number = (uint64_t *)((char *)spec + key->at);

	switch (key->kind) {
	case KEY_CHANCE:
		return decimal_read(p, real) && *real <= 1 ? NULL : "a probability must be a number from 0 to 1";
	case KEY_MEAN:
		return decimal_read(p, real) && *real >= 1 && *real <= 1e6 ? NULL : "burst must be 1 to 1000000";
	case KEY_TIME:
		if (!digits_read(p, number) || *number > TIME_MAX)
			return "a time must be a whole number of us";
		*number *= UCCL_NS_PER_US;
		return NULL;
	case KEY_LABEL:
		return digits_read(p, number) && *number <= UINT16_MAX ? NULL : "path must be 0 to 65535";
	case KEY_NUMBER:
		return digits_read(p, number) ? NULL : "seed must be a whole number";
	case KEY_TRAIN:
		return train_read(spec, p);
	case KEY_HOLE:
		return hole_read(spec, p, false);
	case KEY_HOLE_PATH:
		return hole_read(spec, p, true);
	}
	return "unknown key";
}

static const struct key *key_find(const struct uccl_keyvalue *item)
{
	for (size_t i = 0; i < uccl_array_len(keys); i++)
		if (uccl_keyvalue_is(item, keys[i].name))
			return &keys[i];
	return NULL;
}

const char *uccl_fault_spec_read(struct uccl_fault_spec *spec, const char *text)
{
	const char *at = *text ? text : NULL, *why, *end;
	struct uccl_keyvalue item;
	const struct key *key;

	*spec = (struct uccl_fault_spec){.burst = 1, .reorder_ns = REORDER_NS, .label = UCCL_FAULT_ANY};
	while (uccl_keyvalue_next(&at, &item)) {
		if (!item.len && !at)
			return "nothing after the last comma";
		if (!item.value)
			return "want key=value,key=value,...";
		key = key_find(&item);
		if (!key)
			return "unknown key";
		end = item.value;
		why = value_read(spec, key, &end);
		if (why)
			return why;
		if (end != item.value + item.value_len)
			return "rubbish after a value";
	}
	if (spec->burst > 1 && !(spec->drop > 0))
		return "burst needs drop";
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "uccl_doctor_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "uccl_doctor_math.h"

#define JSON_VERSION 1

int doctor_hosts_init(struct doctor_hosts *h, int n)
{
	memset(h, 0, sizeof(*h));
	h->n = n;
	h->name = calloc((size_t)n, sizeof(*h->name));
	h->busy = calloc((size_t)n, sizeof(*h->busy));
	h->down = calloc((size_t)n, sizeof(*h->down));
	h->pair = calloc((size_t)n * (size_t)n, sizeof(*h->pair));
	if (h->name && h->busy && h->down && h->pair)
		return 0;
	doctor_hosts_free(h);
	return -1;
}

void doctor_hosts_free(struct doctor_hosts *h)
{
	free(h->name);
	free(h->busy);
	free(h->down);
	free(h->pair);
	memset(h, 0, sizeof(*h));
}

struct doctor_pair *doctor_pair(const struct doctor_hosts *h, int i, int k)
{
	return &h->pair[i * h->n + k];
}

/* The partner of host i in a round of a tournament in which each meets each once; itself: it rests. */
static int partner(int n, int round, int i)
{
	int m = n + n % 2, last = m - 1, k;

	if (i == last)
		k = round % last * (m / 2) % last;
	else
		k = ((round - i) % last + last) % last;
	if (k == i)
		k = last;
	return k < n ? k : i;
}

static int rounds(const struct doctor_hosts *h)
{
	return h->n + h->n % 2 - 1;
}

/* Begin a pair of this round that can begin. *open: some pair of it has not begun. */
static bool round_next(struct doctor_hosts *h, int round, int *i, int *k, bool *open)
{
	*open = false;
	for (*i = 0; *i < h->n; (*i)++) {
		*k = partner(h->n, round, *i);
		if (*k <= *i || doctor_pair(h, *i, *k)->state != DOCTOR_PAIR_OPEN)
			continue;
		*open = true;
		if (h->busy[*i] || h->busy[*k])
			continue;
		doctor_pair(h, *i, *k)->state = DOCTOR_PAIR_RUNS;
		h->busy[*i] = h->busy[*k] = true;
		h->runs++;
		return true;
	}
	return false;
}

bool doctor_pair_next(struct doctor_hosts *h, int *i, int *k)
{
	bool open;

	for (int round = h->round; round < rounds(h); round++) {
		if (round_next(h, round, i, k, &open))
			return true;
		if (!open && round == h->round)
			h->round++;
	}
	return false;
}

void doctor_pair_end(struct doctor_hosts *h, int i, int k, const struct doctor_pair *found)
{
	struct doctor_pair *p = doctor_pair(h, i, k);

	if (p->state != DOCTOR_PAIR_RUNS)
		return;
	*p = *found;
	p->state = DOCTOR_PAIR_DONE;
	h->busy[i] = h->busy[k] = false;
	h->runs--;
}

void doctor_host_down(struct doctor_hosts *h, int i, const char *why)
{
	struct doctor_pair gone = {.level = DOCTOR_BAD, .state = DOCTOR_PAIR_DONE};

	if (h->down[i])
		return;
	h->down[i] = true;
	snprintf(gone.text, sizeof(gone.text), "%s: %.140s", h->name[i], why);
	for (int k = 0; k < h->n; k++) {
		int a = i < k ? i : k, b = i < k ? k : i;

		if (k == i || doctor_pair(h, a, b)->state == DOCTOR_PAIR_DONE)
			continue;
		if (doctor_pair(h, a, b)->state == DOCTOR_PAIR_RUNS)
			doctor_pair_end(h, a, b, &gone);
		else
			*doctor_pair(h, a, b) = gone;
	}
}

bool doctor_pairs_done(const struct doctor_hosts *h)
{
	for (int i = 0; i < h->n; i++)
		for (int k = i + 1; k < h->n; k++)
			if (doctor_pair(h, i, k)->state != DOCTOR_PAIR_DONE)
				return false;
	return true;
}

static double value_of(const struct doctor_finding *f, const char *key)
{
	for (int i = 0; i < f->nvalues; i++)
		if (!strcmp(f->value[i].key, key))
			return f->value[i].number;
	return 0;
}

void doctor_pair_judge(const struct doctor_report *r, struct doctor_pair *p)
{
	memset(p, 0, sizeof(*p));
	for (int i = 0; i < r->n; i++) {
		const struct doctor_finding *f = &r->finding[i];
		int dir = !strncmp(f->subject, "from ", 5);

		if (!strcmp(f->check, "round-trip"))
			p->us = value_of(f, "median_us");
		if (!strcmp(f->check, "bandwidth"))
			p->bps[dir] = value_of(f, "bits_per_s");
		if (!strcmp(f->check, "loss") && value_of(f, "sent") > 0)
			p->loss[dir] = value_of(f, "lost") / value_of(f, "sent");
		if (f->level < DOCTOR_WARN || f->level <= p->level)
			continue;
		p->level = f->level;
		snprintf(p->text, sizeof(p->text), "%s %.60s: %.100s", f->check, f->subject, f->text);
	}
	/* What is less than a warning is no concern of a table of pairs. */
	if (r->short_of_memory)
		p->level = DOCTOR_BAD;
}

void doctor_pair_put(const struct doctor_pair *p, char *buf, size_t size)
{
	snprintf(buf, size, "pair %d %.1f %.0f %.0f %.6f %.6f %s", p->level, p->us, p->bps[0], p->bps[1], p->loss[0],
		 p->loss[1], p->text);
}

static bool is_share(double v)
{
	return v >= 0 && v <= 1;
}

bool doctor_pair_get(const char *line, struct doctor_pair *p)
{
	int level, at = 0;

	memset(p, 0, sizeof(*p));
	if (sscanf(line, "pair %d %lf %lf %lf %lf %lf%n", &level, &p->us, &p->bps[0], &p->bps[1], &p->loss[0],
		   &p->loss[1], &at) != 6 || !at || line[at] != ' ')
		return false;
	if (level < DOCTOR_OK || level > DOCTOR_BAD || !(p->us >= 0 && isfinite(p->us)) ||
	    !(p->bps[0] >= 0 && isfinite(p->bps[0])) || !(p->bps[1] >= 0 && isfinite(p->bps[1])) ||
	    !is_share(p->loss[0]) || !is_share(p->loss[1]))
		return false;
	p->level = (enum doctor_level)level;
	snprintf(p->text, sizeof(p->text), "%s", line + at + 1);
	/* It goes to a terminal. */
	for (char *c = p->text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return true;
}

static int count(const struct doctor_hosts *h, enum doctor_level level)
{
	int n = 0;

	for (int i = 0; i < h->n; i++)
		for (int k = i + 1; k < h->n; k++)
			n += doctor_pair(h, i, k)->level == level;
	return n;
}

int doctor_pairs_status(const struct doctor_hosts *h)
{
	return count(h, DOCTOR_WARN) || count(h, DOCTOR_BAD) || !doctor_pairs_done(h);
}

/* A number with `digits` behind the point; "-": it was not measured. */
static const char *cell(char buf[24], double v, int digits)
{
	if (v > 0)
		snprintf(buf, 24, "%.*f", digits, v);
	else
		snprintf(buf, 24, "-");
	return buf;
}

static void row_print(const struct doctor_hosts *h, int i, int k, FILE *f)
{
	const struct doctor_pair *p = doctor_pair(h, i, k);
	char us[24], to[24], from[24], loss[24] = "-";

	if (p->bps[0] > 0 || p->bps[1] > 0 || p->loss[0] > 0 || p->loss[1] > 0)
		snprintf(loss, sizeof(loss), "%.2f", fmax(p->loss[0], p->loss[1]) * 100);
	fprintf(f, "%-16s %-16s %9s %9s %9s %7s  %s", h->name[i], h->name[k], cell(us, p->us, 1),
		cell(to, p->bps[0] / 1e9, 3), cell(from, p->bps[1] / 1e9, 3), loss, doctor_level_text(p->level));
	fprintf(f, "%s%s\n", *p->text ? ": " : "", p->text);
}

/* The hosts of which every pair is bad: the fault is theirs. */
static void culprits_print(const struct doctor_hosts *h, FILE *f)
{
	for (int i = 0; i < h->n && h->n > 2; i++) {
		int bad = 0;

		for (int k = 0; k < h->n; k++)
			bad += k != i && doctor_pair(h, i < k ? i : k, i < k ? k : i)->level == DOCTOR_BAD;
		if (bad == h->n - 1)
			fprintf(f, "all pairs of %s are bad\n", h->name[i]);
	}
}

/* Least, median and most of what was measured; which: the round trip, or the rates. */
static void spread_print(const struct doctor_hosts *h, bool rate, FILE *f)
{
	double *v = calloc((size_t)h->n * (size_t)h->n, sizeof(*v));
	struct doctor_spread s;
	double most = 0;
	int n = 0;

	for (int i = 0; v && i < h->n; i++)
		for (int k = i + 1; k < h->n; k++)
			for (int dir = 0; dir <= rate; dir++) {
				double x = rate ? doctor_pair(h, i, k)->bps[dir] / 1e9 : doctor_pair(h, i, k)->us;

				if (x > 0)
					v[n++] = x;
				most = fmax(most, x);
			}
	if (n) {
		s = doctor_spread(v, n);
		fprintf(f, rate ? "bandwidth %.3f to %.3f Gb/s, median %.3f\n" :
				  "round trip %.1f to %.1f us, median %.1f\n", s.least, most, s.median);
	}
	free(v);
}

void doctor_pairs_text(const struct doctor_hosts *h, FILE *f)
{
	fprintf(f, "%-16s %-16s %9s %9s %9s %7s  %s\n", "HOST", "PEER", "us", "Gb/s to", "Gb/s from", "loss %",
		"RESULT");
	for (int level = DOCTOR_BAD; level >= DOCTOR_OK; level--)
		for (int i = 0; i < h->n; i++)
			for (int k = i + 1; k < h->n; k++)
				if (doctor_pair(h, i, k)->level == (enum doctor_level)level)
					row_print(h, i, k, f);
	spread_print(h, false, f);
	spread_print(h, true, f);
	culprits_print(h, f);
	fprintf(f, "%d hosts, %d pairs: %d bad, %d warn, %d ok\n", h->n, h->n * (h->n - 1) / 2, count(h, DOCTOR_BAD),
		count(h, DOCTOR_WARN), count(h, DOCTOR_OK) + count(h, DOCTOR_NOTE));
}

static void json_pair(const struct doctor_hosts *h, int i, int k, FILE *f)
{
	const struct doctor_pair *p = doctor_pair(h, i, k);

	fputs("  {\"host\": ", f);
	doctor_print_quoted(h->name[i], f);
	fputs(", \"peer\": ", f);
	doctor_print_quoted(h->name[k], f);
	fprintf(f, ", \"level\": \"%s\", \"us\": %.1f, \"bits_per_s_to\": %.0f, \"bits_per_s_from\": %.0f, "
		"\"loss_to\": %.6f, \"loss_from\": %.6f, \"text\": ",
		doctor_level_text(p->level), p->us, p->bps[0], p->bps[1], p->loss[0], p->loss[1]);
	doctor_print_quoted(p->text, f);
	fputs("}", f);
}

void doctor_pairs_json(const struct doctor_hosts *h, FILE *f)
{
	const char *sep = "\n";

	fprintf(f, "{\"program\": \"uccl_doctor\", \"version\": %d, \"status\": %d, \"hosts\": %d,\n \"pairs\": [",
		JSON_VERSION, doctor_pairs_status(h), h->n);
	for (int i = 0; i < h->n; i++)
		for (int k = i + 1; k < h->n; k++) {
			fputs(sep, f);
			json_pair(h, i, k, f);
			sep = ",\n";
		}
	fputs("\n ]}\n", f);
}

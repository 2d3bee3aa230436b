/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Print the records of a trace that an endpoint left behind (FI_UCCL_TRACE). See uccl_trace(1). */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../tool/tool.h"
#include "base/le.h"
#include "base/units.h"
#include "flow/path/path.h"
#include "flow/policy.h"
#include "flow/observe/stats.h"
#include "flow/observe/trace.h"
#include "flow/wire/wire.h"
#include "engine/observe/snapshot.h"

static struct {
	long peer, path;
	uint64_t last;
	bool kind[UCCL_TRACE_COUNT], any_kind, summary;
} opt = { .peer = -1, .path = -1 };

static int usage(FILE *f)
{
	fprintf(f, "usage: uccl_trace [-n COUNT] [-p PEER] [-P PATH] [-k KIND,...] [-s] FILE | --help | --version\n"
		   "  Print a trace that FI_UCCL_TRACE left behind.\n"
		   "  -n  only the latest COUNT records\n"
		   "  -p  only this peer, by its number\n"
		   "  -P  only this path\n"
		   "  -k  only these kinds:");
	for (uint8_t i = 0; i < UCCL_TRACE_COUNT; i++)
		fprintf(f, " %s", uccl_trace_kind_text(i));
	fprintf(f, "\n  -s  how many of each kind, no records\n");
	return f == stdout ? 0 : 2;
}

static int die(const char *file, const char *why)
{
	fprintf(stderr, "uccl_trace: %s: %s\n", file, why);
	return 1;
}

/* The whole file; NULL, and a text, if it is not a trace. */
static struct uccl_trace *load(const char *file)
{
	struct uccl_trace head, *t;
	FILE *f = fopen(file, "rb");
	const char *why = NULL;

	if (!f) {
		die(file, strerror(errno));
		return NULL;
	}
	if (fread(&head, sizeof(head), 1, f) != 1 || head.magic != UCCL_TRACE_MAGIC)
		why = "not a trace";
	else if (head.version != UCCL_TRACE_VERSION || head.rec_bytes != sizeof(struct uccl_trace_rec))
		why = "a trace of another version";
	else if (head.mask & (head.mask + 1) || head.mask >= 1u << 24)
		why = "damaged";
	t = why ? NULL : malloc(uccl_trace_bytes(head.mask + 1));
	if (t) {
		*t = head;
		if (fread(t->rec, sizeof(t->rec[0]), head.mask + 1, f) != head.mask + 1) {
			why = "cut off";
			free(t);
			t = NULL;
		}
	} else if (!why) {
		why = "no memory";
	}
	fclose(f);
	if (why)
		die(file, why);
	return t;
}

static const char *type_text(uint8_t type)
{
	static const char *const text[] = {
		[UCCL_PKT_HELLO] = "hello",	  [UCCL_PKT_COOKIE] = "cookie",	      [UCCL_PKT_INIT] = "init",
		[UCCL_PKT_INIT_ACK] = "init-ack", [UCCL_PKT_ELSEWHERE] = "elsewhere", [UCCL_PKT_ACK] = "ack",
		[UCCL_PKT_PROBE] = "probe",	  [UCCL_PKT_CREDIT] = "credit",	      [UCCL_PKT_DEMAND] = "demand",
		[UCCL_PKT_CLOSE] = "close",	  [UCCL_PKT_CLOSE_ACK] = "close-ack", [UCCL_PKT_CHUNK] = "chunk",
		[UCCL_PKT_DESC] = "desc",	  [UCCL_PKT_SEGMENT] = "segment",
	};

	return type < uccl_array_len(text) && text[type] ? text[type] : "?";
}

static const char *loss_text(uint8_t kind)
{
	return kind == UCCL_LOSS_PROOF ? "overtaken on its path" : kind == UCCL_LOSS_RACK ? "later ones came" :
	       kind == UCCL_LOSS_RTO   ? "time-out" : "?";
}

static void print_peer(const struct uccl_trace_rec *r)
{
	uint8_t ip[8];

	uccl_put64(ip, r->seq);
	if (ip[0] == 0 && ip[1] == 0 && ip[2] == 0xff && ip[3] == 0xff)
		printf("%u.%u.%u.%u:%u", ip[4], ip[5], ip[6], ip[7], r->len);
	else
		printf("...%02x%02x:%02x%02x:%02x%02x:%02x%02x port %u", ip[0], ip[1], ip[2], ip[3], ip[4], ip[5],
		       ip[6], ip[7], r->len);
}

static void print(const struct uccl_trace_rec *r, uint64_t first)
{
	const char *kind = uccl_trace_kind_text(r->kind);

	printf("%14.3f us  ", (double)(int64_t)(r->ns - first) / 1e3);
	if (r->peer)
		printf("peer %-4u ", r->peer);
	else
		printf("%-9s ", "");
	printf("%-8s ", kind ? kind : "?");
	switch (r->kind) {
	case UCCL_TRACE_TX:
	case UCCL_TRACE_TX_AGAIN:
	case UCCL_TRACE_RX:
		printf("path %-3u #%-8u %-9s csn %-10" PRIu64 " %u B", r->path, r->arg, type_text(r->what), r->seq,
		       r->len);
		break;
	case UCCL_TRACE_TX_WRITE:
	case UCCL_TRACE_RX_WRITE:
		printf("path %-3u csn %" PRIu64 " %u B", r->path, r->seq, r->len);
		break;
	case UCCL_TRACE_DROP:
		printf("path %-3u %s", r->path, uccl_drop_text((enum uccl_drop)r->what));
		break;
	case UCCL_TRACE_ACK:
		printf("csn below %u, %u B new", (uint32_t)r->seq, r->len);
		break;
	case UCCL_TRACE_RTT:
		printf("path %-3u %.1f us", r->path, (double)r->seq / 1e3);
		break;
	case UCCL_TRACE_LOST:
		printf("path %-3u csn %-10u %u B: %s", r->path, (uint32_t)r->seq, r->len, loss_text(r->what));
		break;
	case UCCL_TRACE_TIMEOUT:
		printf("path %-3u oldest csn %u, %u in a row", r->path, (uint32_t)r->seq, r->what);
		break;
	case UCCL_TRACE_PATH:
		printf("path %-3u %s", r->path, uccl_snapshot_path_state(r->what));
		break;
	case UCCL_TRACE_PEER_OPEN:
		print_peer(r);
		break;
	case UCCL_TRACE_PEER_END:
		print_peer(r);
		if (r->arg)
			printf(": error %u", r->arg);
		break;
	case UCCL_TRACE_ERROR:
		printf("an operation failed: error %u", r->arg);
		break;
	default:
		break;
	}
	printf("\n");
}

static bool wanted(const struct uccl_trace_rec *r)
{
	if (opt.any_kind && (r->kind >= UCCL_TRACE_COUNT || !opt.kind[r->kind]))
		return false;
	return (opt.peer < 0 || r->peer == (uint32_t)opt.peer) && (opt.path < 0 || r->path == (uint16_t)opt.path);
}

static void head(const struct uccl_trace *t, uint64_t have, const struct uccl_trace_rec *first)
{
	time_t s = (time_t)((t->wall_ns + (first->ns - t->clock_ns)) / UCCL_NS_PER_S);
	char when[64] = "?";
	struct tm tm;

	if (t->wall_ns && localtime_r(&s, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	printf("process %" PRId64 ", %" PRIu64 " of %" PRIu64 " records, the first at %s\n", t->pid, have, t->next,
	       when);
}

static bool kinds(char *list)
{
	opt.any_kind = true;
	for (char *save, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		uint8_t i = 0;

		while (i < UCCL_TRACE_COUNT && strcmp(word, uccl_trace_kind_text(i)))
			i++;
		if (i == UCCL_TRACE_COUNT) {
			fprintf(stderr, "uccl_trace: no such kind: %s\n", word);
			return false;
		}
		opt.kind[i] = true;
	}
	return true;
}

static bool number(const char *arg, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(arg, &end, 10);
	if (!errno && end != arg && !*end && *out <= max && *arg != '-')
		return true;
	fprintf(stderr, "uccl_trace: not a number up to %" PRIu64 ": %s\n", max, arg);
	return false;
}

int main(int argc, char **argv)
{
	uint64_t counts[UCCL_TRACE_COUNT + 1] = { 0 }, have, skip = 0, match = 0, v;
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct uccl_trace *t;
	int c;

	tool_begin("uccl_trace", argc, argv);
	while ((c = getopt_long(argc, argv, "n:p:P:k:sh", longs, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (!number(optarg, UINT64_MAX, &opt.last))
				return 2;
			break;
		case 'p':
			if (!number(optarg, UINT32_MAX, &v))
				return 2;
			opt.peer = (long)v;
			break;
		case 'P':
			if (!number(optarg, UCCL_PATHS_MAX - 1, &v))
				return 2;
			opt.path = (long)v;
			break;
		case 'k':
			if (!kinds(optarg))
				return 2;
			break;
		case 's': opt.summary = true; break;
		case 'h': return usage(stdout);
		default: return usage(stderr);
		}
	}
	if (optind + 1 != argc)
		return usage(stderr);
	t = load(argv[optind]);
	if (!t)
		return 1;
	have = uccl_min(t->next, t->mask + 1);
	for (uint64_t i = t->next - have; i < t->next; i++) {
		const struct uccl_trace_rec *r = &t->rec[i & t->mask];

		match += wanted(r);
		counts[uccl_min(r->kind, UCCL_TRACE_COUNT)] += wanted(r);
	}
	if (have)
		head(t, have, &t->rec[(t->next - have) & t->mask]);
	else
		printf("process %" PRId64 ", no records\n", t->pid);
	if (opt.last && match > opt.last)
		skip = match - opt.last;
	for (uint64_t i = t->next - have; !opt.summary && i < t->next; i++) {
		const struct uccl_trace_rec *r = &t->rec[i & t->mask];

		if (!wanted(r))
			continue;
		if (skip)
			skip--;
		else
			print(r, t->rec[(t->next - have) & t->mask].ns);
	}
	for (uint8_t i = 0; opt.summary && i < UCCL_TRACE_COUNT; i++)
		if (counts[i])
			printf("%-8s %" PRIu64 "\n", uccl_trace_kind_text(i), counts[i]);
	free(t);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See stats.h. */
#include "api/watch/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/object/domain.h"
#include "api/object/ep_object.h"
#include "api/offer/address.h"
#include "api/watch/process.h"
#include "base/units.h"

#define DRAIN_MS 100
#define NAME_ROOM (UCCL_PARAM_TEXT + UCCL_PROCESS_HOST + 64)

/*
 * A file of this user alone, new or from before. What others laid at this name, a link, a pipe or another name of some
 * file, is not written to.
 */
static int file_open(const char *name)
{
	int fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/* A folder: one that is there, or DIR/, which may have to be made. */
static bool is_folder(const char *where)
{
	size_t len = strlen(where);
	struct stat st;

	return (len && where[len - 1] == '/') || (!stat(where, &st) && S_ISDIR(st.st_mode));
}

/* The file of this process: a folder gets one whose name says the rank. */
static void stats_name(char *name, size_t size, const char *where, const struct uccl_process *me)
{
	if (!is_folder(where)) {
		snprintf(name, size, "%s.%" PRId64, where, me->pid);
		return;
	}
	/* Other processes of the job make it at the same time. If it cannot be made, open() tells why. */
	(void)mkdir(where, 0700);
	if (me->rank < 0)
		snprintf(name, size, "%s/%s.%" PRId64, where, me->host, me->pid);
	else
		snprintf(name, size, "%s/rank-%" PRId64 ".%s.%" PRId64, where, me->rank, me->host, me->pid);
}

/* True if a file can be made there; otherwise errno says why not. */
static bool folder_is_writable(const char *where)
{
	const char *slash = is_folder(where) ? where + strlen(where) : strrchr(where, '/');
	size_t len = slash ? (size_t)(slash - where) : 0;
	char folder[UCCL_PARAM_TEXT];

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)uccl_max(len, (size_t)1) : 1, slash ? where : ".");
	/* Other processes of the job make DIR/ at the same time. */
	if (is_folder(where))
		(void)mkdir(folder, 0700);
	return !faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS);
}

void uccl_stats_check(const char *where)
{
	if (*where && strcmp(where, "stderr") && !folder_is_writable(where))
		uccl_warn(FI_LOG_EP_CTRL,
			  "FI_UCCL_STATS: no report can be written to %s: %s; name a file in a folder that exists, or "
			  "stderr\n",
			  where, strerror(errno));
}

static int stats_open(const char *where, const struct uccl_process *me)
{
	char name[NAME_ROOM] = "stderr";
	int fd;

	if (!strcmp(where, "stderr")) {
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	} else {
		stats_name(name, sizeof(name), where, me);
		fd = file_open(name);
	}
	if (fd < 0) {
		int err = errno;

		/* A folder that is missing was named when the endpoint opened. */
		UCCL_API_LOG(folder_is_writable(where) ? FI_LOG_WARN : FI_LOG_INFO, FI_LOG_EP_CTRL,
			     "FI_UCCL_STATS: cannot write %s: %s\n", name, strerror(err));
	}
	return fd;
}

static void write_rank(FILE *f, int64_t rank)
{
	if (rank < 0)
		fputs("null", f);
	else
		fprintf(f, "%" PRId64, rank);
}

/* Reasons for which nothing was dropped are left out. */
static void write_json(FILE *f, const struct uccl_ep *ep, const struct uccl_process *me)
{
	const struct uccl_stats *s = uccl_engine_stats(ep->driver.engine);
	char place[UCCL_ADDRESS_TEXT];
	const char *sep = "";

	uccl_address_place_text(&uccl_engine_addr(ep->driver.engine)->nic, place, sizeof(place));
	fprintf(f, "{\"host\":\"%s\",\"pid\":%" PRId64 ",\"rank\":", me->host, me->pid);
	write_rank(f, me->rank);
	fprintf(f, ",\"endpoint\":\"%s\",\"marks\":%s,\"interface\":\"%s\"", place,
		uccl_engine_marks(ep->driver.engine) ? "true" : "false", ep->domain->name);
#define X(name) fprintf(f, ",\"" #name "\":%" PRIu64, s->name);
	UCCL_COUNTERS(X)
#undef X
	fprintf(f, ",\"dropped\":{");
	for (int i = 0; i < UCCL_DROP_COUNT; i++) {
		if (!s->dropped[i])
			continue;
		fprintf(f, "%s\"%s\":%" PRIu64, sep, uccl_drop_text(i), s->dropped[i]);
		sep = ",";
	}
	fprintf(f, "}}\n");
}

/* Each line tells whose it is: lines of many ranks come mixed. */
static void write_lines(FILE *f, const char *text, const struct uccl_process *me)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		fprintf(f, "%s:%" PRId64 " ", me->host, me->pid);
		if (me->rank >= 0)
			fprintf(f, "rank %" PRId64 " ", me->rank);
		fprintf(f, "%.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
}

/* The whole report in memory, the caller's to free(); NULL: no memory. */
static char *report_make(const struct uccl_ep *ep, const struct uccl_process *me, size_t *len)
{
	char *text = NULL, *out = NULL;
	size_t text_len = 0;
	FILE *f = open_memstream(&text, &text_len);

	if (!f)
		return NULL;
	uccl_engine_report(ep->driver.engine, f, ep->domain->params.stats_paths, uccl_clock());
	if (fclose(f) || !(f = open_memstream(&out, len))) {
		free(text);
		return NULL;
	}
	write_lines(f, text, me);
	write_json(f, ep, me);
	free(text);
	if (!fclose(f))
		return out;
	free(out);
	return NULL;
}

/* Most bytes of whole lines that fit into `max`; one line that is longer. */
static size_t lines_fit(const char *text, size_t len, size_t max)
{
	const char *end;

	if (len <= max)
		return len;
	end = memrchr(text, '\n', max);
	if (!end)
		end = memchr(text, '\n', len);
	return end ? (size_t)(end - text) + 1 : len;
}

/*
 * Wait until the reader has taken what is in the pipe, but not for long. A launcher of jobs reads a rank's pipe in
 * pieces of PIPE_BUF bytes, and mixes those of all ranks. What is written into an empty pipe is a piece of its own.
 */
static void pipe_drain(int fd)
{
	int waiting = 0;

	for (int i = 0; i < DRAIN_MS && !ioctl(fd, FIONREAD, &waiting) && waiting > 0; i++)
		poll(NULL, 0, 1);
}

/*
 * One write for all of it, so that no line of another process comes between. A pipe promises that for PIPE_BUF bytes
 * only, so what is longer goes in pieces of whole lines there.
 */
static bool report_write(int fd, const char *text, size_t len)
{
	struct stat st = {0};
	size_t max = !fstat(fd, &st) && S_ISREG(st.st_mode) ? len : PIPE_BUF;

	while (len) {
		size_t want = lines_fit(text, len, max);
		ssize_t n;

		if (S_ISFIFO(st.st_mode))
			pipe_drain(fd);
		n = write(fd, text, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

void uccl_stats_write(struct uccl_ep *ep)
{
	const char *where = ep->domain->params.stats;
	struct uccl_process me;
	size_t len = 0;
	char *text;
	int fd;

	if (!*where)
		return;
	uccl_process_read(&me);
	fd = stats_open(where, &me);
	if (fd < 0)
		return;
	text = report_make(ep, &me, &len);
	if (!text || !report_write(fd, text, len))
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_STATS: writing to %s failed: %s\n", where, strerror(errno));
	free(text);
	close(fd);
}

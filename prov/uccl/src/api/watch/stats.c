/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See stats.h. */
#include "api/watch/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/lib/lib.h"
#include "api/object/domain.h"
#include "api/object/ep_object.h"
#include "api/offer/address.h"

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

static FILE *stats_open(const char *where)
{
	char name[UCCL_PARAM_TEXT + 16] = "stderr";
	FILE *f;
	int fd;

	if (!strcmp(where, "stderr")) {
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	} else {
		snprintf(name, sizeof(name), "%s.%d", where, (int)getpid());
		fd = file_open(name);
	}
	f = fd < 0 ? NULL : fdopen(fd, "a");
	if (f)
		return f;
	uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_STATS: cannot write %s: %s\n", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* Reasons for which nothing was dropped are left out. */
static void write_json(FILE *f, const struct uccl_ep *ep)
{
	const struct uccl_stats *s = uccl_engine_stats(ep->driver.engine);
	char place[UCCL_ADDRESS_TEXT];
	const char *sep = "";

	uccl_address_place_text(&uccl_engine_addr(ep->driver.engine)->nic, place, sizeof(place));
	fprintf(f, "{\"pid\":%d,\"endpoint\":\"%s\",\"marks\":%s,\"interface\":\"%s\"", (int)getpid(), place,
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

void uccl_stats_write(struct uccl_ep *ep)
{
	const char *where = ep->domain->params.stats;
	FILE *f = *where ? stats_open(where) : NULL;

	if (!f)
		return;
	uccl_engine_report(ep->driver.engine, f, uccl_clock());
	write_json(f, ep);
	if (fclose(f))
		uccl_warn(FI_LOG_EP_CTRL, "FI_UCCL_STATS: writing to %s failed\n", where);
}

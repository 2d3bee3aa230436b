/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lines for people, see notice.h. Threads share the two tables below without a lock: an entry is taken once by a
 * compare-and-swap and never given back, so what a process writes to stderr is bounded.
 */
#include "api/lib/notice.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "api/lib/lib.h"

#define TEXT_MAX 1024
#define LINE_MAX_BYTES (TEXT_MAX + 256)
#define TEXTS 128 /* different warnings in a process */
#define SITES 64  /* kinds of them */
#define EACH 4	  /* warnings of one kind */

const char *const uccl_notice_names[] = { "off", "warn", "info", NULL };

/* Lines up to this level go to stderr; below all levels until uccl_notice_begin(): nothing does. */
static int stderr_max = -1;

static _Atomic uint64_t texts[TEXTS];
static struct {
	_Atomic uint64_t key;
	_Atomic unsigned int n;
} sites[SITES];

/* FNV-1a; never 0, which marks a free entry. */
static uint64_t hash(const char *s, uint64_t seed)
{
	uint64_t h = 0xcbf29ce484222325 ^ seed;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3;
	return h ? h : 1;
}

/* The key is in this entry now; *isnew if it was put there by this call. False: another key has the entry. */
static bool entry_take(_Atomic uint64_t *entry, uint64_t key, bool *isnew)
{
	uint64_t old = 0;

	*isnew = atomic_compare_exchange_strong(entry, &old, key);
	return *isnew || old == key;
}

/* False: this text was shown before, or there is no room for more texts. */
static bool text_is_new(const char *text)
{
	uint64_t key = hash(text, 0);
	bool isnew = false;

	for (int i = 0; i < TEXTS; i++)
		if (entry_take(&texts[i], key, &isnew))
			return isnew;
	return false;
}

/* How many warnings of this place in the source there were; NULL: there is no room for more places. */
static _Atomic unsigned int *site_of(const char *func, int line)
{
	uint64_t key = hash(func, (uint64_t)line << 32);
	bool isnew;

	for (int i = 0; i < SITES; i++)
		if (entry_take(&sites[i].key, key, &isnew))
			return &sites[i].n;
	return NULL;
}

/* May this warning go to stderr? Then *last says whether no other one of its kind will. */
static bool warning_may(const char *func, int line, const char *text, bool *last)
{
	_Atomic unsigned int *n = site_of(func, line);
	unsigned int before;

	/* A kind with many texts must not take the room of other kinds. */
	if (!n || atomic_load(n) >= EACH || !text_is_new(text))
		return false;
	before = atomic_fetch_add(n, 1);
	*last = before == EACH - 1;
	return before < EACH;
}

void uccl_notice_begin(void)
{
	/* Complaints about other variables may come first, so this one is not read with them. */
	const char *value = getenv("FI_UCCL_LOG");

	stderr_max = FI_LOG_WARN;
	if (value && !strcmp(value, "off"))
		stderr_max = -1;
	else if (value && !strcmp(value, "info"))
		stderr_max = FI_LOG_INFO;
}

bool uccl_notice_heard(enum fi_log_level level, enum fi_log_subsys subsys)
{
	return (int)level <= stderr_max || uccl_lib.log_enabled(&uccl_prov, level, subsys);
}

/* A closed pipe must not end the process: SIGPIPE of this write is taken back. */
static void line_write(const char *line, size_t len)
{
	const struct timespec none = { 0 };
	sigset_t broken, before, pending;
	bool was_pending;

	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &broken, &before);
	if (write(STDERR_FILENO, line, len) < 0 && errno == EPIPE && !was_pending)
		sigtimedwait(&broken, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stderr_show(const char *text, bool last)
{
	char line[LINE_MAX_BYTES], host[65] = "";
	int n;

	if (gethostname(host, sizeof(host) - 1))
		snprintf(host, sizeof(host), "this host");
	n = snprintf(line, sizeof(line), "uccl: %s pid %d: %s%s\n", host, (int)getpid(), text,
		     last ? " (no more lines of this kind follow; FI_LOG_LEVEL=warn shows all)" : "");
	if (n > 0)
		line_write(line, uccl_min((size_t)n, sizeof(line) - 1));
}

static _Thread_local unsigned int warnings;

unsigned int uccl_notice_warnings(void)
{
	return warnings;
}

/* One line, whatever is in a value that it quotes: no other lines, and no commands for a terminal. */
static void line_make(char *text)
{
	size_t len = strlen(text);

	if (len && text[len - 1] == '\n')
		text[--len] = '\0';
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
			text[i] = '?';
}

void uccl_notice(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
	int saved = errno;
	char text[TEXT_MAX];
	bool last = false;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	line_make(text);
	warnings += level == FI_LOG_WARN;
	if (uccl_lib.log_enabled(&uccl_prov, level, subsys))
		uccl_lib.log(&uccl_prov, level, subsys, func, line, "%s\n", text);
	else if (level != FI_LOG_WARN || warning_may(func, line, text, &last))
		stderr_show(text, last);
	errno = saved;
}

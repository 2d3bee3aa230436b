/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../world.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/domain.h"
#include "api/endpoint/ep.h"
#include "api/watch/stats.h"
#include "../../tests.h"

static char text[64 * 1024];

/* What is in the file, which is removed. */
static void slurp(const char *name)
{
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	unlink(name);
}

/* One message from a to b, and a is closed with FI_UCCL_STATS as `where`; what its engine had counted. */
static struct uccl_stats close_with(const char *where)
{
	char out[100] = "x", in[100];
	struct uccl_stats s;
	struct uccl_ep *ep;
	struct world w;
	struct node a, b;
	fi_addr_t to_b;

	setenv("FI_UCCL_STATS", where, 1);
	/* Nobody else works on the endpoint while it is looked at. */
	world_rescue_off();
	world_open(&w);
	world_rescue_on();
	unsetenv("FI_UCCL_STATS");
	to_b = node_pair(&a, &b, &w);
	assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
	world_post(fi_send(a.ep, out, sizeof(out), NULL, to_b, out), &a, &b);
	node_expect(&b, &a, in, FI_RECV | FI_MSG);
	node_expect(&a, &b, out, FI_SEND | FI_MSG);
	/* Of a only: b writes nothing. */
	ep = uccl_ep_fid_of(&a.ep->fid)->ep;
	ep->domain->params.stats[0] = '\0';
	node_close(&b);
	ep->domain->params.stats[0] = where[0];
	uccl_driver_lock(&ep->driver);
	s = *uccl_engine_stats(ep->driver.engine);
	uccl_driver_unlock(&ep->driver);
	node_close(&a);
	world_close(&w);
	return s;
}

static uint64_t counter(const char *name)
{
	char key[64];
	char *at;

	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(text, key);
	if (!at)
		fail_msg("no %s in %s", key, text);
	return strtoull(at + strlen(key), NULL, 10);
}

/* A report for a person, then a line for a program with every counter there is. */
TEST(write__file)
{
	char where[] = "test_stats.XXXXXX", name[64];
	struct uccl_stats s;
	unsigned int n = 0;
	char *json, *end;

	close(mkstemp(where));
	unlink(where);
	s = close_with(where);
	snprintf(name, sizeof(name), "%s.%d", where, (int)getpid());
	slurp(name);
	assert_non_null(strstr(text, "peer "));
	json = strstr(text, "{\"host\":\"");
	assert_non_null(json);
	assert_int_equal(counter("pid"), getpid());
	assert_non_null(strstr(json, "\"interface\":\"lo\""));
	assert_non_null(strstr(json, "\"marks\":true"));
	assert_int_equal(counter("tx_bytes"), 100);
	assert_int_equal(counter("connects"), s.connects);
	assert_true(counter("tx_packets") >= s.tx_packets);
	assert_int_equal(counter("rtx_packets"), s.rtx_packets);
	end = strstr(json, "\"dropped\":{");
	assert_non_null(end);
	for (char *at = strstr(json, "\"interface\""); at < end; at++)
		n += *at == ':';
	/* Without the interface itself. */
	assert_int_equal(n - 1, (sizeof(s) - sizeof(s.dropped)) / sizeof(uint64_t));
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_int_equal(text[strlen(text) - 2], '}');
}

TEST(write__stderr)
{
	char name[] = "test_stats.XXXXXX";
	int fd = mkstemp(name), keep = dup(STDERR_FILENO);

	assert_true(fd >= 0 && keep >= 0);
	fflush(stderr);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	setenv("FI_UCCL_ECN", "0", 1);
	close_with("stderr");
	unsetenv("FI_UCCL_ECN");
	assert_int_equal(dup2(keep, STDERR_FILENO), STDERR_FILENO);
	close(keep);
	close(fd);
	slurp(name);
	assert_int_equal(counter("tx_bytes"), 100);
	assert_non_null(strstr(text, "\"marks\":false"));
}

/*
 * Lines of many ranks come mixed. So a report is one write, and more only on a pipe that does not promise that much;
 * each of them ends with a line, and each line says whose it is.
 */
static unsigned int writes_of(const char *where, unsigned int *paths)
{
	int fd[2], keep = dup(STDERR_FILENO);
	char head[128], host[64] = "";
	unsigned int n = 0;
	ssize_t len;

	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	snprintf(head, sizeof(head), "%.*s:%d rank 3 ", (int)strcspn(host, "."), host, (int)getpid());
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	fflush(stderr);
	assert_int_equal(dup2(fd[1], STDERR_FILENO), STDERR_FILENO);
	close_with(where);
	assert_int_equal(dup2(keep, STDERR_FILENO), STDERR_FILENO);
	close(keep);
	close(fd[1]);
	*paths = 0;
	for (; (len = recv(fd[0], text, sizeof(text) - 1, 0)) > 0; n++) {
		assert_true(len <= PIPE_BUF);
		assert_int_equal(text[len - 1], '\n');
		text[len] = '\0';
		for (char *line = text; *line; line = strchr(line, '\n') + 1) {
			assert_true(*line == '{' || !strncmp(line, head, strlen(head)));
			*paths += *line != '{' && !strncmp(line + strlen(head), "  path ", 7);
		}
	}
	close(fd[0]);
	return n;
}

TEST(write__whole_lines)
{
	unsigned int paths;

	setenv("OMPI_COMM_WORLD_RANK", "3", 1);
	/* No line for each path unless they are asked for. */
	assert_int_equal(writes_of("stderr", &paths), 1);
	assert_int_equal(paths, 0);
	writes_of("stderr,paths=1", &paths);
	assert_true(paths > 0);
	unsetenv("OMPI_COMM_WORLD_RANK");
}

/* As a launcher reads a rank's pipe: PIPE_BUF bytes at most, and late. */
static void *slow_reader(void *arg)
{
	int fd = *(int *)arg;
	static char piece[PIPE_BUF];
	long whole = 0;
	ssize_t n;

	while (usleep(60000), (n = read(fd, piece, sizeof(piece))) > 0) {
		if (piece[n - 1] != '\n')
			return (void *)-1;
		whole++;
	}
	return (void *)whole;
}

/* A pipe of a launcher: each piece that it reads has whole lines, also where several reports follow each other. */
TEST(write__pieces_of_a_pipe)
{
	int fd[2], keep = dup(STDERR_FILENO);
	pthread_t reader;
	struct world w;
	struct node a;
	void *pieces;

	world_rescue_off();
	world_open(&w);
	world_rescue_on();
	node_open(&a, &w);
	snprintf(uccl_ep_fid_of(&a.ep->fid)->ep->domain->params.stats, UCCL_PARAM_TEXT, "stderr");
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pthread_create(&reader, NULL, slow_reader, &fd[0]), 0);
	fflush(stderr);
	assert_int_equal(dup2(fd[1], STDERR_FILENO), STDERR_FILENO);
	close(fd[1]);
	for (int i = 0; i < 3; i++)
		uccl_stats_write(uccl_ep_fid_of(&a.ep->fid)->ep);
	assert_int_equal(dup2(keep, STDERR_FILENO), STDERR_FILENO);
	close(keep);
	uccl_ep_fid_of(&a.ep->fid)->ep->domain->params.stats[0] = '\0';
	node_close(&a);
	world_close(&w);
	assert_int_equal(pthread_join(reader, &pieces), 0);
	close(fd[0]);
	assert_true((long)pieces >= 3);
}

/* A pipe that nobody reads delays a close for a moment and does not hang it. */
TEST(write__nobody_reads)
{
	int fd[2], keep = dup(STDERR_FILENO);

	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], "x", 1), 1);
	fflush(stderr);
	assert_int_equal(dup2(fd[1], STDERR_FILENO), STDERR_FILENO);
	close(fd[1]);
	close_with("stderr");
	assert_int_equal(dup2(keep, STDERR_FILENO), STDERR_FILENO);
	close(keep);
	memset(text, 0, sizeof(text));
	assert_true(read(fd[0], text, sizeof(text) - 1) > 1);
	close(fd[0]);
	assert_int_equal(counter("tx_bytes"), 100);
}

/* DIR/ gets a file for each process; its name says the rank, if there is one. */
TEST(write__folder)
{
	char where[] = "test_stats.XXXXXX", slash[32], name[160], host[64] = "";

	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	host[strcspn(host, ".")] = '\0';
	close(mkstemp(where));
	unlink(where);
	snprintf(slash, sizeof(slash), "%s/", where);
	close_with(slash);
	snprintf(name, sizeof(name), "%s/%s.%d", where, host, (int)getpid());
	slurp(name);
	assert_non_null(strstr(text, ",\"rank\":null,"));
	setenv("PMI_RANK", "12", 1);
	close_with(slash);
	unsetenv("PMI_RANK");
	snprintf(name, sizeof(name), "%s/rank-12.%s.%d", where, host, (int)getpid());
	slurp(name);
	assert_int_equal(counter("rank"), 12);
	/* One that is there needs no slash. */
	close_with(where);
	snprintf(name, sizeof(name), "%s/%s.%d", where, host, (int)getpid());
	slurp(name);
	world_listen(FI_LOG_WARN);
	uccl_stats_check(where);
	assert_string_equal(world_heard(), "");
	assert_int_equal(rmdir(where), 0);
}

/* Where nothing can be written, the endpoint closes all the same. */
TEST(write__nowhere)
{
	close_with("/nonexistent/folder/x");
	close_with("");
}

/* The warning comes when the endpoint opens; DIR/ is made. */
TEST(check__folder)
{
	char where[] = "test_stats.XXXXXX/";
	static const struct {
		const char *where, *line;
	} cases[] = {
		{ "", "" },
		{ "stderr", "" },
		{ "report", "" },
		{ "/nonexistent/folder/x", "no report can be written to /nonexistent/folder/x: No such" },
		{ "/nonexistent/folder/", "no report can be written to /nonexistent/folder/: No such" },
	};

	for (size_t i = 0; i < uccl_array_len(cases); i++) {
		world_listen(FI_LOG_WARN);
		uccl_stats_check(cases[i].where);
		if (*cases[i].line)
			assert_non_null(strstr(world_heard(), cases[i].line));
		else
			assert_string_equal(world_heard(), "");
	}
	where[17] = '\0';
	close(mkstemp(where));
	unlink(where);
	where[17] = '/';
	world_listen(FI_LOG_WARN);
	uccl_stats_check(where);
	assert_string_equal(world_heard(), "");
	assert_int_equal(rmdir(where), 0);
}

/* Only its user may read it. */
TEST(write__private)
{
	char where[] = "test_stats.XXXXXX", name[64];
	struct stat st;

	close(mkstemp(where));
	unlink(where);
	close_with(where);
	snprintf(name, sizeof(name), "%s.%d", where, (int)getpid());
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	slurp(name);
}

/* What somebody laid at that name is left alone: a link, another name of a file, a pipe (which would also hang). */
TEST(write__traps)
{
	char where[] = "test_stats.XXXXXX", name[64], victim[80];
	struct stat st;
	int fd;

	close(mkstemp(where));
	unlink(where);
	snprintf(name, sizeof(name), "%s.%d", where, (int)getpid());
	snprintf(victim, sizeof(victim), "%s.victim", where);
	close(open(victim, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(symlink(victim, name), 0);
	close_with(where);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(link(victim, name), 0);
	close_with(where);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 0);
	unlink(victim);
	assert_int_equal(mkfifo(name, 0600), 0);
	close_with(where);
	/* With a reader, too. */
	fd = open(name, O_RDONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	close_with(where);
	assert_int_equal(read(fd, text, sizeof(text)), 0);
	close(fd);
	unlink(name);
}

TESTS_MAIN

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* --hosts: the workers of hosts that a file names, each started by a program such as ssh. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uccl_doctor_cluster_impl.h"

#define WORDS_MAX 64

/* Letters that no shell takes for something else. */
static bool is_plain(const char *text)
{
	return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/+^-")];
}

/* The command that runs a worker: words of rsh, the host, env, our own FI_ variables, the program. */
static void command_make(const struct cluster *c, const char *name, char *rsh, char **word)
{
	static char labels[16];
	int n = 0;

	for (char *save, *at = strtok_r(rsh, " ", &save); at && n < 16; at = strtok_r(NULL, " ", &save))
		word[n++] = at;
	word[n++] = (char *)name;
	word[n++] = "env";
	for (char **var = environ; *var && n < WORDS_MAX - 5; var++)
		if ((!strncmp(*var, "FI_UCCL_", 8) || !strncmp(*var, "FI_PROVIDER_PATH=", 17)) && is_plain(*var))
			word[n++] = *var;
	word[n++] = (char *)c->opt->remote;
	word[n++] = "--worker";
	if (c->opt->peer.labels) {
		snprintf(labels, sizeof(labels), "--labels=%d", c->opt->peer.labels);
		word[n++] = labels;
	}
	word[n] = NULL;
}

/* Run a worker there; its standard error is ours. */
static int worker_start(struct cluster *c, int i)
{
	struct worker *w = &c->worker[i];
	int to[2], from[2];
	char *word[WORDS_MAX], rsh[512];

	if (pipe(to))
		return -1;
	if (pipe(from)) {
		close(to[0]);
		close(to[1]);
		return -1;
	}
	w->pid = fork();
	if (!w->pid) {
		/* Streams of other workers must end when we close them. */
		for (int k = 0; k < c->hosts.n; k++)
			cluster_worker_close(&c->worker[k]);
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		close(to[0]);
		close(to[1]);
		close(from[0]);
		close(from[1]);
		signal(SIGPIPE, SIG_DFL);
		snprintf(rsh, sizeof(rsh), "%s", c->opt->rsh);
		command_make(c, c->hosts.name[i], rsh, word);
		execvp(word[0], word);
		fprintf(stderr, "uccl_doctor: cannot run %s: %s\n", word[0], strerror(errno));
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	w->out = to[1];
	w->in = from[0];
	if (w->pid > 0)
		return 0;
	w->pid = 0;
	return -1;
}

/* A line of the file: a name, and the address of its listener if that is another. False: none. */
static bool host_parse(char *line, char **name, char **address)
{
	char *save;

	line[strcspn(line, "#\n")] = '\0';
	*name = strtok_r(line, " \t", &save);
	*address = *name ? strtok_r(NULL, " \t", &save) : NULL;
	/* Hostfiles of MPI have "slots=4" there. */
	if (!*address || strchr(*address, '='))
		*address = *name;
	return *name;
}

/* The lines of the file, each of which the caller frees; how many, or -1. */
static int hosts_read(const char *file, char *line[DOCTOR_HOSTS])
{
	FILE *f = strcmp(file, "-") ? fopen(file, "re") : stdin;
	char buf[1024], copy[1024], *name, *address;
	int n = 0;

	if (!f) {
		fprintf(stderr, "uccl_doctor: %s: %s\n", file, strerror(errno));
		return -1;
	}
	while (n < DOCTOR_HOSTS && fgets(buf, sizeof(buf), f)) {
		memcpy(copy, buf, sizeof(copy));
		if (host_parse(copy, &name, &address))
			line[n++] = strdup(buf);
	}
	if (fgets(buf, sizeof(buf), f))
		fprintf(stderr, "uccl_doctor: %s: only the first %d hosts are measured\n", file, DOCTOR_HOSTS);
	if (f != stdin)
		fclose(f);
	return n;
}

/* The stream begins with what the host's name says. A name is no option of the program that runs the worker. */
static bool host_start(struct cluster *c, int i, char *line)
{
	char *name, *address;

	if (!line || !host_parse(line, &name, &address))
		return false;
	snprintf(c->hosts.name[i], sizeof(c->hosts.name[i]), "%s", name);
	snprintf(c->worker[i].address, sizeof(c->worker[i].address), "%s", address);
	return *name != '-' && !worker_start(c, i);
}

int cluster_hosts_measure(const struct doctor_cluster_opt *opt)
{
	char *line[DOCTOR_HOSTS];
	struct cluster c;
	int n = hosts_read(opt->hosts, line), status = 2;

	if (n >= 0 && n < 2)
		fprintf(stderr, "uccl_doctor: %s: two hosts are needed\n", opt->hosts);
	if (n >= 2 && !cluster_init(&c, opt, n)) {
		for (int i = 0; i < n; i++)
			if (!host_start(&c, i, line[i]))
				cluster_worker_down(&c, i, "no process to run uccl_doctor there");
		status = cluster_measure(&c);
		cluster_free(&c);
	}
	for (int i = 0; i < n; i++)
		free(line[i]);
	return status;
}

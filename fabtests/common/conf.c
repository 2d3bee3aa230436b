/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "conf.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 300
#define REPORT_LINE 1024

unsigned int conf_factor = 1;
double conf_margin = 50;
static const char *provider = "uccl";
static int reason_fd = -1;

void conf_fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(text) - 1)
		n = (int)sizeof(text) - 1;
	if (n < 0 || write(reason_fd, text, (size_t)n) != n)
		_exit(2);
	_exit(1);
}

void conf_good(ssize_t rc, const char *what)
{
	conf_check(!rc, "%.200s: %s", what, fi_strerror((int)-rc));
}

/* In the folder of the case. */
static void case_env(const char *env)
{
	char *copy = strdup(env), *save = NULL;

	for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(s, '=');

		*eq = '\0';
		setenv(s, eq + 1, 1);
	}
	free(copy);
}

static bool run_case(const struct conf_case *c)
{
	char why[512] = "", dir[] = "/tmp/uccl-conf-XXXXXX", cmd[64];
	int fd[2], status = 0;
	ssize_t n = 0;
	pid_t pid;

	if (!mkdtemp(dir) || pipe(fd))
		return false;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		reason_fd = fd[1];
		if (c->env)
			case_env(c->env);
		if (chdir(dir))
			_exit(2);
		alarm(CASE_SECONDS * conf_factor);
		c->run();
		_exit(0);
	}
	close(fd[1]);
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		n = read(fd[0], why, sizeof(why) - 1);
		why[n > 0 ? n : 0] = '\0';
	}
	close(fd[0]);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		fprintf(stderr, "%s is left\n", dir);
	if (pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) {
		printf("pass %s\n", c->name);
		return true;
	}
	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "%s",
			 WTERMSIG(status) == SIGALRM ? "not done in time" : strsignal(WTERMSIG(status)));
	printf("FAIL %s: %s\n", c->name, why);
	return false;
}

int conf_main(int argc, char **argv, const struct conf_case *cases, unsigned int n)
{
	unsigned int passed = 0, failed = 0;
	int opt;

	while ((opt = getopt(argc, argv, "p:n:m:")) != -1) {
		if (opt == 'p')
			provider = optarg;
		else if (opt == 'n' && atoi(optarg) > 0)
			conf_factor = (unsigned int)atoi(optarg);
		else if (opt == 'm' && atof(optarg) > 0)
			conf_margin = atof(optarg);
		else
			return 2;
	}
	for (unsigned int i = 0; i < n; i++) {
		bool wanted = optind == argc;

		for (int a = optind; a < argc; a++)
			wanted |= !strcmp(argv[a], cases[i].name);
		if (!wanted)
			continue;
		if (run_case(&cases[i]))
			passed++;
		else
			failed++;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}

struct fi_info *conf_hints(void)
{
	struct fi_info *h = fi_allocinfo();

	conf_check(h, "no memory for hints");
	h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR |
							FI_ORDER_WAW;
	h->tx_attr->op_flags = FI_TRANSMIT_COMPLETE;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->fabric_attr->prov_name = strdup(provider);
	return h;
}

void conf_net_open(struct conf_net *n, struct fi_info *hints)
{
	n->cq_size = 4096;
	conf_good(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &n->info), "fi_getinfo");
	fi_freeinfo(hints);
	conf_good(fi_fabric(n->info->fabric_attr, &n->fabric, NULL), "fi_fabric");
	conf_good(fi_domain(n->fabric, n->info, &n->domain, NULL), "fi_domain");
}

void conf_net_close(struct conf_net *n)
{
	conf_good(fi_close(&n->domain->fid), "fi_close domain");
	conf_good(fi_close(&n->fabric->fid), "fi_close fabric");
	fi_freeinfo(n->info);
}

void conf_ep_open(struct conf_ep *e, struct conf_net *n)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = n->cq_size};

	memset(e, 0, sizeof(*e));
	conf_good(fi_av_open(n->domain, &av, &e->av, NULL), "fi_av_open");
	conf_good(fi_cq_open(n->domain, &cq, &e->cq, NULL), "fi_cq_open");
	conf_good(fi_endpoint(n->domain, n->info, &e->ep, NULL), "fi_endpoint");
	conf_good(fi_ep_bind(e->ep, &e->av->fid, 0), "fi_ep_bind av");
	conf_good(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind cq");
	conf_good(fi_enable(e->ep), "fi_enable");
	e->name_len = sizeof(e->name);
	conf_good(fi_getname(&e->ep->fid, e->name, &e->name_len), "fi_getname");
}

void conf_ep_close(struct conf_ep *e)
{
	conf_good(fi_close(&e->ep->fid), "fi_close endpoint");
	conf_good(fi_close(&e->cq->fid), "fi_close cq");
	conf_good(fi_close(&e->av->fid), "fi_close av");
}

fi_addr_t conf_insert(struct conf_ep *e, const void *name)
{
	fi_addr_t a = FI_ADDR_NOTAVAIL;

	conf_check(fi_av_insert(e->av, name, 1, &a, 0, NULL) == 1, "fi_av_insert");
	return a;
}

static void ended(struct conf_ep *e, struct conf_op *op)
{
	conf_check(op, "a completion without a context");
	conf_check(!op->done, "an operation completed twice");
	op->done = true;
	e->completions++;
}

bool conf_poll(struct conf_ep *e)
{
	struct fi_cq_tagged_entry v[8];
	struct fi_cq_err_entry bad = {0};
	ssize_t n = fi_cq_read(e->cq, v, 8);
	struct conf_op *op;

	if (n == -FI_EAGAIN)
		return false;
	if (n == -FI_EAVAIL) {
		conf_check(fi_cq_readerr(e->cq, &bad, 0) == 1, "fi_cq_readerr");
		op = bad.op_context;
		ended(e, op);
		op->err = bad.err;
		op->flags = bad.flags;
		op->len = bad.len;
		op->olen = bad.olen;
		return true;
	}
	conf_check(n > 0, "fi_cq_read: %zd", n);
	for (ssize_t i = 0; i < n; i++) {
		op = v[i].op_context;
		ended(e, op);
		op->err = 0;
		op->flags = v[i].flags;
		op->len = v[i].len;
		op->data = v[i].data;
		op->tag = v[i].tag;
	}
	return true;
}

void conf_progress(struct conf_ep *e)
{
	if (!conf_poll(e))
		sched_yield();
}

void conf_wait(struct conf_ep *a, struct conf_ep *b, struct conf_op *op)
{
	while (!op->done) {
		conf_progress(a);
		if (b)
			conf_progress(b);
	}
}

void conf_wait_good(struct conf_ep *a, struct conf_ep *b, struct conf_op *op)
{
	conf_wait(a, b, op);
	conf_check(!op->err, "an operation failed: %s", fi_strerror(op->err));
}

void conf_pair_open(struct conf_pair *p, struct fi_info *hints)
{
	conf_net_open(&p->net, hints ? hints : conf_hints());
	conf_ep_open(&p->a, &p->net);
	conf_ep_open(&p->b, &p->net);
	p->to_b = conf_insert(&p->a, p->b.name);
	p->to_a = conf_insert(&p->b, p->a.name);
}

void conf_pair_close(struct conf_pair *p)
{
	conf_ep_close(&p->a);
	conf_ep_close(&p->b);
	conf_net_close(&p->net);
}

void conf_pair_talk(struct conf_pair *p, size_t len, uint32_t key)
{
	struct conf_op send = {0}, recv = {0};
	uint8_t *out = malloc(len + 1), *in = calloc(1, len + 1);

	conf_check(out && in, "no memory");
	conf_fill(out, len, key);
	conf_post(&p->b, &p->a, fi_trecv(p->b.ep, in, len, NULL, p->to_a, key, 0, &recv));
	conf_post(&p->a, &p->b, fi_tsend(p->a.ep, out, len, NULL, p->to_b, key, &send));
	conf_wait_good(&p->a, &p->b, &send);
	conf_wait_good(&p->b, &p->a, &recv);
	conf_check(recv.len == len && recv.tag == key, "%zu bytes of tag %llx came", recv.len,
		   (unsigned long long)recv.tag);
	conf_check(conf_same(in, len, key) && !in[len], "a message of %zu bytes came with other bytes", len);
	free(out);
	free(in);
}

struct fid_mr *conf_region(struct conf_pair *p, void *mem, size_t len, uint64_t access, uint64_t *base)
{
	struct fid_mr *mr;

	conf_good(fi_mr_reg(p->net.domain, mem, len, access, 0, CONF_KEY, 0, &mr, NULL), "fi_mr_reg");
	*base = p->net.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)mem : 0;
	return mr;
}

static uint8_t byte_at(size_t i, uint32_t key)
{
	uint64_t x = (i ^ ((uint64_t)key << 32)) * 0x9e3779b97f4a7c15ull;

	return (uint8_t)(x >> 56);
}

void conf_fill(uint8_t *v, size_t len, uint32_t key)
{
	for (size_t i = 0; i < len; i++)
		v[i] = byte_at(i, key);
}

bool conf_same(const uint8_t *v, size_t len, uint32_t key)
{
	for (size_t i = 0; i < len; i++) {
		if (v[i] != byte_at(i, key))
			return false;
	}
	return true;
}

static FILE *reports(void)
{
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "conf-stats.%d", (int)getpid());
	f = fopen(name, "r");
	conf_check(f, "no statistics were written");
	return f;
}

uint64_t conf_counter(const char *name)
{
	char line[1 << 14], want[64];
	FILE *f = reports();
	uint64_t sum = 0;

	snprintf(want, sizeof(want), "\"%s\":", name);
	while (fgets(line, sizeof(line), f)) {
		const char *at = line[0] == '{' ? strstr(line, want) : NULL;

		if (at)
			sum += strtoull(at + strlen(want), NULL, 10);
	}
	fclose(f);
	return sum;
}

unsigned int conf_paths(uint64_t *bytes, unsigned int n)
{
	char line[REPORT_LINE];
	FILE *f = reports();
	unsigned int paths = 0;

	while (paths < n && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "   path ") ? strstr(line, " bytes ") : NULL;

		if (at)
			bytes[paths++] = strtoull(at + strlen(" bytes "), NULL, 10);
	}
	fclose(f);
	return paths;
}

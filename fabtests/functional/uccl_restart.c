/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer whose process is killed and started again: what is for the old one ends in an error, also when the new one has
 * the same port; others are not harmed; the new one is a new peer.
 */
#include "conf.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 100000

/* A process that sends back what it gets. */
struct server {
	pid_t pid;
	uint8_t name[CONF_NAME_MAX];
	fi_addr_t addr;
};

static uint8_t out[LEN], in[LEN];

/* Ends by a signal, or with its parent. */
static void serve(int fd, int up)
{
	struct conf_op recv, send;
	struct conf_net net;
	struct conf_ep e;
	fi_addr_t back;
	uint8_t name[CONF_NAME_MAX] = {0};

	conf_net_open(&net, conf_hints());
	conf_ep_open(&e, &net);
	memcpy(name, e.name, e.name_len);
	conf_check(write(up, name, sizeof(name)) == sizeof(name) && read(fd, name, sizeof(name)) == sizeof(name),
		   "the address of a server was not exchanged");
	back = conf_insert(&e, name);
	for (;;) {
		memset(&recv, 0, sizeof(recv));
		memset(&send, 0, sizeof(send));
		conf_post(&e, (struct conf_ep *)NULL, fi_recv(e.ep, in, LEN, NULL, FI_ADDR_UNSPEC, &recv));
		conf_wait_good(&e, NULL, &recv);
		conf_post(&e, (struct conf_ep *)NULL, fi_send(e.ep, in, recv.len, NULL, back, &send));
		conf_wait(&e, NULL, &send);
	}
}

/* Before this process has opened anything. */
static void server_start(struct server *s, int down[2], int up[2])
{
	conf_check(!pipe(down) && !pipe(up), "no pipes");
	s->pid = fork();
	conf_check(s->pid >= 0, "no process");
	if (s->pid)
		return;
	alarm(200);
	close(down[1]);
	serve(down[0], up[1]);
}

static void server_meet(struct server *s, struct conf_ep *e, int down[2], int up[2])
{
	uint8_t name[CONF_NAME_MAX] = {0};

	memcpy(name, e->name, e->name_len);
	conf_check(read(up[0], s->name, sizeof(s->name)) == sizeof(s->name) &&
			   write(down[1], name, sizeof(name)) == sizeof(name),
		   "a server did not start");
	s->addr = conf_insert(e, s->name);
}

static void server_kill(struct server *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
}

static void talk(struct conf_ep *e, const struct server *s, size_t len, uint32_t key)
{
	struct conf_op send = {0}, recv = {0};

	conf_fill(out, len, key);
	memset(in, 0, len);
	conf_post(e, (struct conf_ep *)NULL, fi_recv(e->ep, in, LEN, NULL, FI_ADDR_UNSPEC, &recv));
	conf_post(e, (struct conf_ep *)NULL, fi_send(e->ep, out, len, NULL, s->addr, &send));
	conf_wait_good(e, NULL, &send);
	conf_wait_good(e, NULL, &recv);
	conf_check(recv.len == len && conf_same(in, len, key), "%zu bytes came back, or other ones", recv.len);
}

/* A message to a process that is not there any more: refused if that is known, else it ends in an error. */
static void fails(struct conf_ep *e, const struct server *s, size_t len)
{
	struct conf_op send = {0};
	ssize_t rc;

	while ((rc = fi_send(e->ep, out, len, NULL, s->addr, &send)) == -FI_EAGAIN)
		conf_progress(e);
	if (!rc)
		conf_wait(e, NULL, &send);
	else
		send.err = (int)-rc;
	conf_check(send.err == FI_ECONNABORTED || send.err == FI_ECONNRESET || send.err == FI_EHOSTUNREACH,
		   "a message to a dead process ended with: %s", fi_strerror(send.err));
}

#define SERVERS 3

static void restart(void)
{
	int down[SERVERS][2], up[SERVERS][2];
	struct server s[SERVERS] = {0};
	struct conf_net net;
	struct conf_ep e;

	/* The last is there from the start, and is met when the first is dead. */
	for (int i = 0; i < SERVERS; i++)
		server_start(&s[i], down[i], up[i]);
	conf_net_open(&net, conf_hints());
	conf_ep_open(&e, &net);
	server_meet(&s[0], &e, down[0], up[0]);
	server_meet(&s[1], &e, down[1], up[1]);
	for (uint32_t i = 0; i < 20 * conf_factor; i++) {
		talk(&e, &s[0], 1 + i * 997 % LEN, i);
		talk(&e, &s[1], 1 + i * 991 % LEN, i);
	}
	server_kill(&s[0]);
	fails(&e, &s[0], 8);
	fails(&e, &s[0], LEN);
	talk(&e, &s[1], LEN, 1000);
	server_meet(&s[2], &e, down[2], up[2]);
	for (uint32_t i = 0; i < 20 * conf_factor; i++) {
		talk(&e, &s[2], 1 + i * 997 % LEN, i);
		talk(&e, &s[1], 1 + i * 991 % LEN, i);
	}
	fails(&e, &s[0], 8);
	server_kill(&s[1]);
	server_kill(&s[2]);
	fails(&e, &s[2], 8);
	conf_ep_close(&e);
	conf_net_close(&net);
}

/* Killed while messages to it are under way: each ends once, and those to another arrive. */
static void in_flight(void)
{
	static struct conf_op send[64];
	int down[2][2], up[2][2];
	struct server s[2] = {0};
	unsigned int bad = 0;
	struct conf_net net;
	struct conf_ep e;

	server_start(&s[0], down[0], up[0]);
	server_start(&s[1], down[1], up[1]);
	conf_net_open(&net, conf_hints());
	conf_ep_open(&e, &net);
	server_meet(&s[0], &e, down[0], up[0]);
	server_meet(&s[1], &e, down[1], up[1]);
	talk(&e, &s[0], LEN, 1);
	talk(&e, &s[1], LEN, 2);
	kill(s[0].pid, SIGSTOP);
	for (int i = 0; i < 64; i++)
		conf_post(&e, (struct conf_ep *)NULL,
			  fi_tsend(e.ep, out, i % 2 ? LEN : 8, NULL, s[0].addr, (uint64_t)i, &send[i]));
	talk(&e, &s[1], LEN, 3);
	server_kill(&s[0]);
	for (int i = 0; i < 64; i++) {
		conf_wait(&e, NULL, &send[i]);
		bad += send[i].err != 0;
	}
	/* It was stopped: of what needs its answer nothing can have ended well. */
	conf_check(bad >= 32, "%u of 64 messages to a dead process failed", bad);
	talk(&e, &s[1], LEN, 4);
	server_kill(&s[1]);
	conf_ep_close(&e);
	conf_net_close(&net);
}

static const struct conf_case cases[] = {
	{"restart", NULL, restart},
	{"in-flight", NULL, in_flight},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One tagged message over the provider that FI_PROVIDER names (uccl), without any other connection between both sides:
 *
 *	fi_one take ADDRESS PORT SECONDS	receive it at this address
 *	fi_one send ADDRESS PORT SECONDS	send it there
 *	fi_one nap ADDRESS PORT SECONDS		open an endpoint there, and make no call until the time is over
 *	fi_one stay ADDRESS PORT SECONDS	open an endpoint there, and answer, but receive no message
 *	fi_one ask ADDRESS PORT SECONDS		send it there, make no call for SECONDS, and receive an answer then
 *	fi_one late ADDRESS PORT SECONDS	receive it there, make no call for SECONDS less 3, and answer then
 *
 * A fifth argument is the length of the message in bytes, the same on both sides (64).
 *
 * It ends with "ok" when the message has come or was received by the peer, with "error: ..." when an operation failed
 * or nothing was offered, or with "nothing" when the time is over. FI_UCCL_* and FI_PROVIDER hold as for any program.
 */
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG 7
#define ANSWER_S 10 /* how long ask and late wait for a message */

static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	printf("error: %s: %s\n", what, fi_strerror(-rc));
	exit(2);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* `node` NULL: any address. */
static void endpoint_open(const char *node, const char *service)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_domain *domain;
	struct fid_fabric *fabric;
	const char *name;

	if (!hints)
		exit(2);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->addr_format = FI_SOCKADDR_IN;
	name = getenv("FI_PROVIDER");
	hints->fabric_attr->prov_name = strdup(name ? name : "uccl");
	must(fi_getinfo(FI_VERSION(1, 17), node, service, node ? FI_SOURCE : 0, hints, &info), "fi_getinfo");
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	must(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	must(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	must(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
	must(fi_enable(ep), "fi_enable");
}

static void message_send_to(const struct sockaddr_in *to, char *buf, size_t bytes, double seconds)
{
	struct iovec iov = { buf, bytes };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = TAG };
	double end = now() + seconds;
	ssize_t rc;

	must(fi_av_insert(av, to, 1, &msg.addr, 0, NULL), "fi_av_insert");
	/* Its completion says that the peer has it. */
	while ((rc = fi_tsendmsg(ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION)) == -FI_EAGAIN && now() < end)
		fi_cq_read(cq, NULL, 0);
	must((int)rc, "fi_tsendmsg");
}

static void message_send(const char *address, const char *port, char *buf, size_t bytes, double seconds)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		exit(2);
	message_send_to(&to, buf, bytes, seconds);
}

static int wait_end(double seconds)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry e;
	double end = now() + seconds;
	ssize_t n;

	while ((n = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN && now() < end)
		usleep(1000);
	if (n == -FI_EAVAIL && fi_cq_readerr(cq, &err, 0) == 1)
		printf("error: %s\n", fi_strerror(err.err));
	else
		puts(n == 1 ? "ok" : "nothing");
	return n == 1 ? 0 : 1;
}

static void receive(char *buf, size_t bytes)
{
	must((int)fi_trecv(ep, buf, bytes, NULL, FI_ADDR_UNSPEC, TAG, 0, NULL), "fi_trecv");
}

/* A message each way, with a pause between them in which neither side makes a call. */
static int both_ways(bool asks, unsigned int pause, char *buf, size_t bytes)
{
	struct sockaddr_in to;

	if (wait_end(ANSWER_S))
		return 1;
	sleep(pause);
	if (asks) {
		receive(buf, bytes);
	} else {
		memcpy(&to, buf, sizeof(to));
		message_send_to(&to, buf, bytes, ANSWER_S);
	}
	return wait_end(ANSWER_S);
}

int main(int argc, char **argv)
{
	bool asks = argc > 1 && !strcmp(argv[1], "ask"), late = argc > 1 && !strcmp(argv[1], "late");
	size_t bytes = argc == 6 ? strtoul(argv[5], NULL, 10) : 64, name = bytes;
	char *buf = calloc(1, bytes);
	int rc = 0;

	if ((argc != 5 && argc != 6) || !buf)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (asks || !strcmp(argv[1], "send")) {
		endpoint_open(NULL, NULL);
		/* For the answer. */
		if (asks)
			must(fi_getname(&ep->fid, buf, &name), "fi_getname");
		message_send(argv[2], argv[3], buf, bytes, atof(argv[4]));
	} else {
		endpoint_open(argv[2], argv[3]);
		if (strcmp(argv[1], "stay"))
			receive(buf, bytes);
	}
	puts("open");
	if (asks || late)
		rc = both_ways(asks, (unsigned int)atoi(argv[4]) - (late ? 3 : 0), buf, bytes);
	else if (!strcmp(argv[1], "nap"))
		sleep((unsigned int)atoi(argv[4]));
	else
		rc = wait_end(atof(argv[4]));
	fi_close(&ep->fid);
	free(buf);
	return rc;
}

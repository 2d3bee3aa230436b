/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What fi_info promises as a limit is served up to it, and refused beyond; small queues lose nothing. */
#include "conf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define SMALL_CQ 8

static uint8_t out[1 << 20], in[1 << 20];

static void refused(ssize_t rc, const char *what)
{
	conf_check(rc < 0 && rc != -FI_EAGAIN, "%s returned %zd", what, rc);
}

/* The buffer of an inject may be overwritten at once. */
static void inject_size(void)
{
	struct conf_op recv = {0};
	struct conf_pair p;
	size_t max;

	conf_pair_open(&p, NULL);
	max = p.net.info->tx_attr->inject_size;
	conf_check(max >= 64 && max < sizeof(out), "inject_size is %zu", max);
	conf_fill(out, max, 1);
	conf_post(&p.b, &p.a, fi_recv(p.b.ep, in, max, NULL, FI_ADDR_UNSPEC, &recv));
	conf_post(&p.a, &p.b, fi_inject(p.a.ep, out, max, p.to_b));
	memset(out, 0, max);
	conf_wait_good(&p.b, &p.a, &recv);
	conf_check(recv.len == max && conf_same(in, max, 1), "%zu bytes came, or other ones", recv.len);
	conf_check(!p.a.completions, "an inject completed");
	refused(fi_inject(p.a.ep, out, max + 1, p.to_b), "an inject of more than inject_size");
	refused(fi_tinject(p.a.ep, out, max + 1, p.to_b, 1), "a tagged inject of more than inject_size");
	conf_pair_talk(&p, 1000, 2);
	conf_pair_close(&p);
}

/* As many places as allowed at each side, in pieces that do not match each other. */
static void iov_limit(void)
{
	struct conf_op send = {0}, recv = {0};
	struct iovec to[64], from[64];
	size_t tx, rx, at = 0, len = 0;
	struct conf_pair p;

	conf_pair_open(&p, NULL);
	tx = p.net.info->tx_attr->iov_limit;
	rx = p.net.info->rx_attr->iov_limit;
	conf_check(tx && tx < 64 && rx && rx < 64, "iov_limit is %zu and %zu", tx, rx);
	for (size_t i = 0; i <= tx; i++) {
		from[i] = (struct iovec){.iov_base = out + len, .iov_len = 10007};
		len += i < tx ? 10007 : 0;
	}
	for (size_t i = 0; i <= rx; i++) {
		to[i] = (struct iovec){.iov_base = in + at, .iov_len = i + 1 < rx ? 5001 : sizeof(in) - at};
		at += i + 1 < rx ? 5001 : 0;
	}
	conf_fill(out, len, 3);
	conf_post(&p.b, &p.a, fi_recvv(p.b.ep, to, NULL, rx, FI_ADDR_UNSPEC, &recv));
	conf_post(&p.a, &p.b, fi_sendv(p.a.ep, from, NULL, tx, p.to_b, &send));
	conf_wait_good(&p.a, &p.b, &send);
	conf_wait_good(&p.b, &p.a, &recv);
	conf_check(recv.len == len && conf_same(in, len, 3), "%zu of %zu bytes came, or other ones", recv.len, len);
	refused(fi_sendv(p.a.ep, from, NULL, tx + 1, p.to_b, &send), "a send from more places than iov_limit");
	refused(fi_recvv(p.b.ep, to, NULL, rx + 1, FI_ADDR_UNSPEC, &recv), "a receive into more places than iov_limit");
	conf_pair_talk(&p, 1000, 4);
	conf_pair_close(&p);
}

/* Nothing of what is refused is looked at. */
static void max_msg_size(void)
{
	struct conf_op op = {0};
	struct conf_pair p;
	size_t max;

	conf_pair_open(&p, NULL);
	max = p.net.info->ep_attr->max_msg_size;
	conf_check(max >= 1u << 30 && max < SIZE_MAX, "max_msg_size is %zu", max);
	refused(fi_send(p.a.ep, out, max + 1, NULL, p.to_b, &op), "a send of more than max_msg_size");
	refused(fi_tsend(p.a.ep, out, max + 1, NULL, p.to_b, 1, &op), "a tagged send of more than max_msg_size");
	refused(fi_write(p.a.ep, out, max + 1, NULL, p.to_b, 0, 0, &op), "a write of more than max_msg_size");
	conf_check(!op.done, "a call that was refused completed");
	conf_pair_talk(&p, 1000, 5);
	conf_pair_close(&p);
}

/* So many receives and sends may be open as the sizes say, and all of them complete. */
static void queue_sizes(void)
{
	struct conf_op *recv, *send;
	struct conf_pair p;
	size_t rx, tx, n, sent = 0;

	conf_pair_open(&p, NULL);
	rx = p.net.info->rx_attr->size;
	tx = p.net.info->tx_attr->size;
	n = rx < tx ? rx : tx;
	conf_check(n >= 64 && n <= 1u << 20, "sizes are %zu and %zu", tx, rx);
	recv = calloc(n, sizeof(*recv));
	send = calloc(n, sizeof(*send));
	conf_check(recv && send, "no memory");
	/* Not one -FI_EAGAIN until the queue is as full as it may be. */
	for (size_t i = 0; i < n; i++)
		conf_good(fi_trecv(p.b.ep, in + i % 1000 * 8, 8, NULL, FI_ADDR_UNSPEC, i, 0, &recv[i]), "fi_trecv");
	for (; sent < n; sent++) {
		ssize_t rc = fi_tsend(p.a.ep, out + sent % 1000 * 8, 8, NULL, p.to_b, sent, &send[sent]);

		conf_good(rc, "a send of those that tx_attr->size allows");
	}
	for (size_t i = 0; i < n; i++) {
		conf_wait_good(&p.a, &p.b, &send[i]);
		conf_wait_good(&p.b, &p.a, &recv[i]);
	}
	free(recv);
	free(send);
	conf_pair_close(&p);
}

/* A queue of 8 completions, and 500 operations that complete there before it is read: none is lost. */
static void small_cq(void)
{
	static struct conf_op recv[500], send[500];
	struct conf_pair p;
	unsigned int posted = 0, received = 0;

	conf_net_open(&p.net, conf_hints());
	p.net.cq_size = SMALL_CQ;
	conf_ep_open(&p.a, &p.net);
	conf_ep_open(&p.b, &p.net);
	p.to_b = conf_insert(&p.a, p.b.name);
	p.to_a = conf_insert(&p.b, p.a.name);
	while (posted < 500 || received < 500) {
		ssize_t rc = -FI_EAGAIN;

		if (received < 500 && (rc = fi_recv(p.b.ep, in + received * 8, 8, NULL, FI_ADDR_UNSPEC,
						    &recv[received])) != -FI_EAGAIN) {
			conf_good(rc, "fi_recv");
			received++;
			continue;
		}
		if (posted < 500 && (rc = fi_send(p.a.ep, out + posted * 8, 8, NULL, p.to_b, &send[posted])) !=
					    -FI_EAGAIN) {
			conf_good(rc, "fi_send");
			posted++;
			continue;
		}
		conf_progress(&p.a);
		conf_progress(&p.b);
	}
	for (int i = 0; i < 500; i++) {
		conf_wait_good(&p.a, &p.b, &send[i]);
		conf_wait_good(&p.b, &p.a, &recv[i]);
	}
	conf_check(p.a.completions == 500 && p.b.completions == 500, "%llu and %llu completions",
		   (unsigned long long)p.a.completions, (unsigned long long)p.b.completions);
	conf_pair_close(&p);
}

/* A sender that is never waited for, and a receiver that posts late. */
static void unexpected(void)
{
	unsigned int n = 200 * conf_factor;
	struct conf_op *recv = calloc(n, sizeof(*recv)), *send = calloc(n, sizeof(*send));
	struct conf_pair p;

	conf_check(recv && send, "no memory");
	conf_pair_open(&p, NULL);
	for (uint32_t i = 0; i < n; i++) {
		conf_fill(out + i % 200 * 4096, 4096, i % 200);
		conf_post(&p.a, &p.b, fi_tsend(p.a.ep, out + i % 200 * 4096, 4096, NULL, p.to_b, i, &send[i]));
	}
	for (uint32_t i = n; i-- > 0;) {
		conf_post(&p.b, &p.a, fi_trecv(p.b.ep, in, 4096, NULL, FI_ADDR_UNSPEC, i, 0, &recv[i]));
		conf_wait_good(&p.b, &p.a, &recv[i]);
		conf_check(recv[i].len == 4096 && conf_same(in, 4096, i % 200), "message %u came wrong", i);
	}
	for (uint32_t i = 0; i < n; i++)
		conf_wait_good(&p.a, &p.b, &send[i]);
	free(recv);
	free(send);
	conf_pair_close(&p);
}

static const struct conf_case cases[] = {
	{"inject-size", NULL, inject_size},
	{"iov-limit", NULL, iov_limit},
	{"max-msg-size", NULL, max_msg_size},
	{"queue-sizes", NULL, queue_sizes},
	{"small-cq", NULL, small_cq},
	{"unexpected", NULL, unexpected},
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}

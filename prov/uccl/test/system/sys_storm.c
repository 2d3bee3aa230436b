/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A restart storm. A server at a fixed port is killed, or closes, again and again, and comes back a moment later.
 * Clients know it by its place alone and keep their fi_addr_t. Each must reach every life of the server soon after its
 * start; no request may come twice; and no client may keep memory of those lives that ended.
 */
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos.h"

#define CLIENTS 8
#define RECVS 64
/* A request that gets no reply for so long is made again. */
#define AGAIN_NS 50000000ull
/* A client reaches a server that is there within this time (times slack). */
#define REACH_MS 500
/* A life is short, and nobody is away for long: who hears nothing for so long (times slack) hangs. */
#define HUNG_S 8
/* Of so many ended peers an endpoint may remember something, each of this size at most. */
#define REMEMBERED 256
#define REMEMBERED_BYTES 20000

enum { STORM_PLACE = CTL_USER, STORM_LIVES, STORM_HEAP };

struct note {
	uint32_t client, life;
	uint64_t seq, ready_ns;
	uint8_t name[sizeof(struct sockaddr_in)]; /* whom to answer */
};

/* ---- a life of the server; what its lives have in common is in memory that they share with their parent */

struct lives {
	uint32_t life;
	volatile uint32_t reached;	/* clients, by bits, that this life has answered */
	uint64_t seq[CLIENTS];		/* the latest of each that came to any life */
};

static struct lives *lives;
static volatile sig_atomic_t closing;

static void on_term(int sig)
{
	(void)sig;
	closing = 1;
}

struct answer {
	struct op op;
	struct note note;
};

static fi_addr_t client_addr[CLIENTS];

static uint64_t ready_ns;

/* Completions of receives come in the order of the requests. */
static void serve_one(struct op *in)
{
	static struct answer answers[RECVS];
	const struct note *n = in->user;
	struct rank *r = this_rank;
	struct answer *a = NULL;

	if (in->err)
		return;
	rank_check(n->client < CLIENTS, "a request that nobody made");
	rank_check(n->seq > lives->seq[n->client], "request %llu of client %u came twice, or late",
		   (unsigned long long)n->seq, n->client);
	lives->seq[n->client] = n->seq;
	/* Its next request says that it had the answer to one of this life. */
	if (n->life == lives->life)
		lives->reached |= 1u << n->client;
	if (client_addr[n->client] == FI_ADDR_NOTAVAIL)
		client_addr[n->client] = fab_insert(&r->fab, n->name);
	for (int i = 0; i < RECVS && !a; i++)
		a = answers[i].op.open ? NULL : &answers[i];
	/* All are under way: it asks again. */
	if (!a)
		return;
	op_begin(&a->op);
	a->note = *n;
	a->note.life = lives->life;
	a->note.ready_ns = ready_ns;
	if (fi_send(r->fab.ep, &a->note, sizeof(a->note), NULL, client_addr[n->client], &a->op))
		a->op.open = false;
}

static void serve(struct rank *r, const char *port)
{
	static struct answer in[RECVS];

	signal(SIGTERM, on_term);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < CLIENTS; i++)
		client_addr[i] = FI_ADDR_NOTAVAIL;
	fab_open_as(&r->fab, port, FI_SOCKADDR_IN);
	ready_ns = clock_ns();
	while (!closing) {
		for (int i = 0; i < RECVS; i++) {
			if (in[i].op.open)
				continue;
			in[i].op.user = &in[i].note;
			in[i].op.end = serve_one;
			op_begin(&in[i].op);
			rank_check(!fi_recv(r->fab.ep, &in[i].note, sizeof(in[i].note), NULL, FI_ADDR_UNSPEC,
					    &in[i].op), "fi_recv");
		}
		fab_progress(&r->fab);
	}
	fi_close(&r->fab.ep->fid);
	_exit(0);
}

/* ---- the parent of all lives */

static void life(struct rank *r, const char *port, uint32_t number)
{
	uint64_t end = clock_ns() + (uint64_t)(20e9 * options.slack);
	pid_t pid;

	lives->life = number;
	lives->reached = 0;
	pid = fork();
	rank_check(pid >= 0, "fork");
	if (!pid)
		serve(r, port);
	while (lives->reached != (1u << CLIENTS) - 1) {
		rank_check(clock_ns() < end, "life %u was reached by %#x only", number, lives->reached);
		rank_check(!waitpid(pid, NULL, WNOHANG), "life %u ended by itself", number);
		sleep_ms(1);
	}
	/* Also in the middle of what it does, and with what is under way unfinished. */
	sleep_ms((unsigned int)rand() % 20);
	kill(pid, number % 3 ? SIGKILL : SIGTERM);
	waitpid(pid, NULL, 0);
	sleep_ms((unsigned int)rand() % 60);
}

void role_storm_server(struct rank *r)
{
	char port[16];
	struct ctl c;

	lives = mmap(NULL, sizeof(*lives), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	rank_check(lives != MAP_FAILED, "no memory");
	rank_wait(r, STORM_PLACE, &c);
	snprintf(port, sizeof(port), "%d", c.arg);
	rank_wait(r, STORM_LIVES, &c);
	srand((unsigned int)options.seed);
	for (int i = 1; i <= c.arg; i++) {
		life(r, port, (uint32_t)i);
		if (i == c.arg / 2)
			rank_tell(r, STORM_HEAP, 0, NULL, 0);
	}
	rank_tell(r, CTL_DONE, 0, NULL, 0);
}

/* ---- a client */

struct client {
	struct note out, in;
	struct op send, recv;
	uint64_t heard_ns, asked_ns, replies, failures, refused, worst_ns, lives;
	uint64_t answered;	/* the latest request that was */
	uint32_t life;
};

static void client_heard(struct client *s)
{
	uint64_t waited = clock_ns() - s->in.ready_ns;

	rank_check(!s->recv.err, "receiving: %s", s->recv.text);
	rank_check(s->in.client == s->out.client && s->in.seq <= s->out.seq, "an answer to what was not asked");
	rank_check(s->in.seq > s->answered, "an answer came twice");
	rank_check(s->in.life >= s->life, "life %u answered after life %u", s->in.life, s->life);
	s->answered = s->in.seq;
	s->replies++;
	if (s->in.life != s->life) {
		s->lives++;
		/* Before the first life nobody was there to be told that it begins. */
		if (s->life && waited > s->worst_ns)
			s->worst_ns = waited;
	}
	s->out.life = s->life = s->in.life;
	s->asked_ns = 0;
	s->heard_ns = clock_ns();
}

static void client_step(struct rank *r, struct client *s, fi_addr_t to)
{
	ssize_t rc;

	if (!s->recv.open) {
		if (s->recv.user)
			client_heard(s);
		s->recv.user = s;
		op_begin(&s->recv);
		rank_check(!fi_recv(r->fab.ep, &s->in, sizeof(s->in), NULL, FI_ADDR_UNSPEC, &s->recv), "fi_recv");
	}
	fab_progress(&r->fab);
	rank_check(clock_ns() - s->heard_ns < (uint64_t)(HUNG_S * 1e9 * options.slack),
		   "no answer for %d s: request %llu %s, %s; a receive %s", HUNG_S, (unsigned long long)s->out.seq,
		   s->send.open ? "is under way" : s->send.err ? "failed" : "was sent", s->send.text,
		   s->recv.open ? "waits" : "is due");
	if (s->send.open || (s->asked_ns && !s->send.err && clock_ns() - s->asked_ns < AGAIN_NS))
		return;
	s->failures += s->send.err != 0;
	s->out.seq++;
	op_begin(&s->send);
	rc = fi_send(r->fab.ep, &s->out, sizeof(s->out), NULL, to, &s->send);
	s->asked_ns = clock_ns();
	if (!rc)
		return;
	s->send.open = false;
	s->asked_ns = 0;
	s->refused += rc != -FI_EAGAIN;
}

void role_storm_client(struct rank *r)
{
	static struct client s;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint64_t heap = 0;
	fi_addr_t to;
	struct ctl c;

	rank_wait(r, STORM_PLACE, &c);
	at.sin_port = htons((uint16_t)c.arg);
	fab_open_as(&r->fab, NULL, FI_SOCKADDR_IN);
	rank_check(r->fab.name_len == sizeof(s.out.name), "the name has %zu bytes", r->fab.name_len);
	memcpy(s.out.name, r->fab.name, sizeof(s.out.name));
	s.out.client = (uint32_t)r->index;
	to = fab_insert(&r->fab, &at);
	s.heard_ns = clock_ns();
	for (;;) {
		if (!rank_poll(r, &c))
			client_step(r, &s, to);
		else if (c.type == STORM_HEAP)
			heap = mallinfo2().uordblks;
		else
			break;
	}
	heap = mallinfo2().uordblks > heap ? mallinfo2().uordblks - heap : 0;
	rank_tell(r, CTL_DONE, 0, (uint64_t[]){s.replies, s.failures, s.refused, s.worst_ns, heap, s.lives}, 6);
}

/* ---- the conductor */

int chaos_storm(void)
{
	int port = free_port(), n = options.hours ? 1000 : 60;
	uint64_t worst = 0, heap = 0, failures = 0, refused = 0, fewest = UINT64_MAX;
	unsigned int seconds = (unsigned int)n * 2 + 60;
	struct world w;
	struct ctl c;

	world_begin(&w, "storm");
	for (int i = 0; i < CLIENTS; i++)
		world_spawn(&w, "storm-client", NULL, seconds);
	world_spawn(&w, "storm-server", NULL, seconds);
	for (int i = 0; i <= CLIENTS; i++)
		world_tell(&w, i, STORM_PLACE, port, NULL, 0);
	world_tell(&w, CLIENTS, STORM_LIVES, n, NULL, 0);
	world_expect(&w, CLIENTS, STORM_HEAP, seconds * 1000, NULL);
	for (int i = 0; i < CLIENTS; i++)
		world_tell(&w, i, STORM_HEAP, 0, NULL, 0);
	world_expect(&w, CLIENTS, CTL_DONE, seconds * 1000, NULL);
	for (int i = 0; i < CLIENTS; i++)
		world_tell(&w, i, CTL_GO, 0, NULL, 0);
	for (int i = 0; i < CLIENTS && !w.failed; i++) {
		world_expect(&w, i, CTL_DONE, 20000, &c);
		failures += c.v[1];
		refused += c.v[2];
		worst = c.v[3] > worst ? c.v[3] : worst;
		heap = c.v[4] > heap ? c.v[4] : heap;
		fewest = c.v[5] < fewest ? c.v[5] : fewest;
	}
	world_wait(&w, 10000);
	world_check(&w, fewest >= (uint64_t)n, "a client had answers of %llu lives of %d",
		    (unsigned long long)fewest, n);
	world_check(&w, worst <= (uint64_t)(REACH_MS * 1e6 * options.slack), "a client waited %llu ms for a new life",
		    (unsigned long long)worst / 1000000);
	world_check(&w, heap < REMEMBERED * REMEMBERED_BYTES, "in half of the lives a client's heap grew by %llu bytes",
		    (unsigned long long)heap);
	world_figure(&w, "lives=%d failed=%llu refused=%llu worst_ms=%llu heap_growth_kib=%llu", n,
		     (unsigned long long)failures, (unsigned long long)refused, (unsigned long long)worst / 1000000,
		     (unsigned long long)heap / 1024);
	return world_end(&w);
}

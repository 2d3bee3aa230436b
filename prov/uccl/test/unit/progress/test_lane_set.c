/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../api/world.h"
#include "../tests.h"

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../nic/fake_verbs.h"
#include "api/endpoint/ep.h"
#include "base/mailbox.h"
#include "base/defaults.h"
#include "engine/impl.h"
#include "lanes/primary.h"
#include "nic/verbs/uc_state.h"
#include "progress/lane_set.h"

#define BYTES (3u << 20)

static uint8_t src[BYTES], dst[BYTES];

TEST(count__half_of_the_processors)
{
	static const struct {
		uint64_t want;
		uint32_t processors, others;
		uint8_t lanes;
	} v[] = {
		{0, 16, 0, 0},
		{3, 1, 9, 3},
		{16, 2, 0, 16},
		{17, 64, 0, 16},
		{UCCL_LANES_AUTO, 0, 0, 0},
		{UCCL_LANES_AUTO, 1, 0, 0},
		{UCCL_LANES_AUTO, 3, 0, 0},
		{UCCL_LANES_AUTO, 4, 0, 2},
		{UCCL_LANES_AUTO, 7, 0, 3},
		{UCCL_LANES_AUTO, 8, 0, 4},
		{UCCL_LANES_AUTO, 16, 0, 8},
		{UCCL_LANES_AUTO, 64, 0, 8},
		{UCCL_LANES_AUTO, 4, 4, 2},
		{UCCL_LANES_AUTO, 4, 6, 2},
		{UCCL_LANES_AUTO, 16, 24, 8},
		{UCCL_LANES_AUTO, 16, 28, 4},
		{UCCL_LANES_AUTO, 16, 29, 3},
		{UCCL_LANES_AUTO, 16, 31, 0},
		{UCCL_LANES_AUTO, 16, 70, 0},
	};

	for (size_t i = 0; i < uccl_array_len(v); i++)
		assert_int_equal(uccl_lanes_count(v[i].want, v[i].processors, v[i].others), v[i].lanes);
}

TEST(paths__shared)
{
	assert_int_equal(uccl_lane_paths(64, 1), 64);
	assert_int_equal(uccl_lane_paths(64, 4), 16);
	assert_int_equal(uccl_lane_paths(64, 16), 8);
	assert_int_equal(uccl_lane_paths(4, 2), 4);
	assert_int_equal(uccl_lane_paths(1, 16), 1);
}

static uint64_t carried_at_primary(struct node *n)
{
	struct uccl_driver *d = &uccl_ep_fid_of(&n->ep->fid)->ep->driver;
	uint64_t bytes;

	uccl_driver_lock(d);
	bytes = uccl_engine_stats(d->engine)->tx_bytes;
	uccl_driver_unlock(d);
	return bytes;
}

/* One message, whoever is asleep. */
static void one_message(struct node *a, struct node *b, fi_addr_t to_b)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct fi_cq_tagged_entry e;
	int left = 2;

	memset(dst, 0, BYTES);
	assert_int_equal(fi_recv(b->ep, dst, BYTES, NULL, FI_ADDR_UNSPEC, dst), 0);
	world_post(fi_send(a->ep, src, BYTES, NULL, to_b, src), a, b);
	while (left) {
		left -= fi_cq_sread(a->cq, &e, 1, NULL, 1) == 1;
		left -= fi_cq_sread(b->cq, &e, 1, NULL, 1) == 1;
		assert_true(uccl_clock() < end);
	}
	assert_memory_equal(src, dst, BYTES);
}

/* Two threads at each side carry what the primary did before, whatever thread drives the primary. */
TEST(set__carries)
{
	static const enum fi_progress modes[] = {FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO};

	for (size_t i = 0; i < BYTES; i++)
		src[i] = (uint8_t)(i * 31 + i / 4096);
	setenv("FI_UCCL_LANES", "2,leave=0", 1);
	for (size_t m = 0; m < uccl_array_len(modes); m++) {
		uint64_t end = uccl_clock() + PATIENCE_NS, before;
		struct fi_info *h = world_hints();
		struct node a, b;
		fi_addr_t to_b;
		struct world w;

		h->domain_attr->data_progress = modes[m];
		world_open_with(&w, h);
		to_b = node_pair(&a, &b, &w);
		/* Lanes find each other some time after the first message. */
		do {
			before = carried_at_primary(&a);
			one_message(&a, &b, to_b);
			assert_true(uccl_clock() < end);
		} while (carried_at_primary(&a) - before > BYTES / 4);
		for (int i = 0; i < 20; i++)
			one_message(&a, &b, to_b);
		/* Of a message the primary carries a short stripe, although a packet of the loopback holds more. */
		before = carried_at_primary(&a);
		one_message(&a, &b, to_b);
		assert_true(carried_at_primary(&a) - before <= UCCL_LANES_FIRST + 4096);
		/* In the middle of one. */
		world_post(fi_send(a.ep, src, BYTES, NULL, to_b, src), &a, &b);
		node_close(&a);
		node_close(&b);
		world_close(&w);
	}
	unsetenv("FI_UCCL_LANES");
}

/* For this thread it is so much earlier, ns. */
static _Thread_local uint64_t earlier_ns;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int (*get)(clockid_t id, struct timespec *ts) =
		(int (*)(clockid_t id, struct timespec *ts))dlsym(RTLD_NEXT, "clock_gettime");
	int rc = get(id, ts);

	if (earlier_ns && id == CLOCK_MONOTONIC) {
		uint64_t ns = (uint64_t)ts->tv_sec * UCCL_NS_PER_S + (uint64_t)ts->tv_nsec - earlier_ns;

		ts->tv_sec = (time_t)(ns / UCCL_NS_PER_S);
		ts->tv_nsec = (long)(ns % UCCL_NS_PER_S);
	}
	return rc;
}

/* Lanes that have slept see that they were woken some ms ago, and are left; with leave=0 nobody asks for that. */
TEST(set__late)
{
	static const char *const lanes[] = {"2", "2,leave=0"};
	const struct timespec asleep = {.tv_nsec = 10 * UCCL_NS_PER_MS};

	for (size_t i = 0; i < uccl_array_len(lanes); i++) {
		uint64_t end = uccl_clock() + PATIENCE_NS, left = 0;
		struct node a, b;
		fi_addr_t to_b;
		struct world w;

		setenv("FI_UCCL_LANES", lanes[i], 1);
		world_open(&w);
		to_b = node_pair(&a, &b, &w);
		unsetenv("FI_UCCL_LANES");
		earlier_ns = 5 * UCCL_NS_PER_MS;
		for (int n = 0; i ? n < 20 : !left; n++) {
			struct uccl_driver *d = &uccl_ep_fid_of(&a.ep->fid)->ep->driver;

			one_message(&a, &b, to_b);
			nanosleep(&asleep, NULL);
			uccl_driver_lock(d);
			left = uccl_engine_stats(d->engine)->lanes_left;
			uccl_driver_unlock(d);
			assert_true(uccl_clock() < end);
		}
		earlier_ns = 0;
		assert_int_equal(left > 0, !i);
		node_close(&a);
		node_close(&b);
		world_close(&w);
	}
}

/* Threads of this process, other than the calling one, that may run on processor `cpu` alone. */
static int threads_bound(int cpu)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	cpu_set_t may;
	int n = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		pid_t tid = (pid_t)atoi(e->d_name);

		if (tid && tid != gettid() && !sched_getaffinity(tid, sizeof(may), &may))
			n += CPU_COUNT(&may) == 1 && CPU_ISSET((size_t)cpu, &may);
	}
	closedir(d);
	return n;
}

/* Threads of lanes go where they are told, and nobody else does. */
TEST(bind__threads_of_lanes)
{
	cpu_set_t may, one, after;
	struct world w;
	struct node a;
	int last = -1;

	assert_int_equal(sched_getaffinity(0, sizeof(may), &may), 0);
	if (CPU_COUNT(&may) < 2)
		skip();
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &may))
			last = i;
	CPU_SET((size_t)last, &one);
	setenv("FI_UCCL_LANES", "3,leave=0", 1);
	world_open(&w);
	node_open(&a, &w);
	unsetenv("FI_UCCL_LANES");
	assert_int_equal(threads_bound(last), 0);
	uccl_lane_set_bind(uccl_ep_fid_of(&a.ep->fid)->ep->driver.lanes, &one, sizeof(one));
	assert_int_equal(threads_bound(last), 3);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&may, &after));
	uccl_lane_set_bind(NULL, &one, sizeof(one));
	node_close(&a);
	world_close(&w);
}

/* A counter of a region, which hears of whatever any endpoint of the domain does. */
static void region_open(struct world *w, struct fid_mr **mr, struct fid_cntr **cntr)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

	assert_int_equal(fi_cntr_open(w->domain, &attr, cntr, NULL), 0);
	assert_int_equal(fi_mr_reg(w->domain, dst, BYTES, FI_REMOTE_WRITE, 0, 1, 0, mr, NULL), 0);
	assert_int_equal(fi_mr_bind(*mr, &(*cntr)->fid, FI_REMOTE_WRITE), 0);
	assert_int_equal(fi_mr_enable(*mr), 0);
}

/*
 * An endpoint is closed while a child has its descriptors, too, of which some are readable: who sleeps on a counter is
 * not kept awake by them.
 */
TEST(set__closed_after_a_fork)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;
	struct timespec from, to;
	struct fi_info *h = world_hints();
	struct fid_cntr *cntr;
	struct node a, b;
	struct fid_mr *mr;
	struct world w;
	fi_addr_t to_b;
	pid_t child;

	setenv("FI_UCCL_LANES", "2,leave=0", 1);
	h->caps = FI_MSG | FI_RMA | FI_RMA_EVENT;
	h->domain_attr->mr_mode = FI_MR_RMA_EVENT;
	world_open_with(&w, h);
	node_open(&a, &w);
	node_open(&b, &w);
	unsetenv("FI_UCCL_LANES");
	region_open(&w, &mr, &cntr);
	to_b = node_insert(&a, &b);
	while (!uccl_engine_stats(uccl_ep_fid_of(&a.ep->fid)->ep->driver.engine)->tx_lane_bytes) {
		one_message(&a, &b, to_b);
		assert_true(uccl_clock() < end);
	}
	child = fork();
	if (!child) {
		for (;;)
			pause();
	}
	assert_true(child > 0);
	node_close(&a);
	node_close(&b);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	assert_int_equal(fi_cntr_wait(cntr, 1, 300), -FI_ETIMEDOUT);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true((to.tv_sec - from.tv_sec) * UCCL_NS_PER_S + (uint64_t)(to.tv_nsec - from.tv_nsec) <
		    50 * UCCL_NS_PER_MS);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	world_close(&w);
}

/* What is written to this descriptor waits until it is another one. */
static _Atomic int held_fd = -1;
static _Atomic bool held;

ssize_t write(int fd, const void *buf, size_t len)
{
	while (atomic_load(&held_fd) == fd) {
		atomic_store(&held, true);
		sched_yield();
	}
	return syscall(SYS_write, fd, buf, len);
}

static void *lane_says(void *arg)
{
	struct uccl_lane_channel *line = arg;

	line->wake(line->arg, true);
	return NULL;
}

static bool readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

/* Home looks while a lane is about to wake it: it is woken, and once. */
TEST(heard__while_it_is_said)
{
	struct uccl_driver *d;
	pthread_t lane;
	struct world w;
	struct node a;
	int fd;

	world_rescue_off();
	setenv("FI_UCCL_LANES", "1,leave=0", 1);
	world_open(&w);
	node_open(&a, &w);
	unsetenv("FI_UCCL_LANES");
	d = &uccl_ep_fid_of(&a.ep->fid)->ep->driver;
	fd = d->lanes->fd;
	assert_false(readable(fd));
	atomic_store(&held, false);
	atomic_store(&held_fd, fd);
	assert_int_equal(pthread_create(&lane, NULL, lane_says, d->engine->msg_ep.lanes->channel[0]), 0);
	while (!atomic_load(&held))
		sched_yield();
	uccl_lane_set_heard(d->lanes);
	atomic_store(&held_fd, -1);
	pthread_join(lane, NULL);
	assert_true(readable(fd));
	uccl_lane_set_heard(d->lanes);
	assert_false(readable(fd));
	/* And the next time. */
	lane_says(d->engine->msg_ep.lanes->channel[0]);
	assert_true(readable(fd));
	uccl_lane_set_heard(d->lanes);
	assert_false(readable(fd));
	node_close(&a);
	world_close(&w);
	world_rescue_on();
}

/* One side puts commands in, the other sleeps while there are none: as the primary and the thread of a lane. */
static struct {
	struct uccl_mailbox box;
	struct uccl_wait wait;
	_Atomic uint32_t told, taken;
	_Atomic bool stop;
	uint32_t slept_over;
} post;

/* He gets up after this time although he was not told of a letter; nobody waits for a processor as long. */
#define POST_NS UCCL_NS_PER_S

/* Is there a letter whose sender thinks that he is up, or will look? */
static bool post_untold(void)
{
	const struct uccl_lane_cmd *l = uccl_mailbox_peek(&post.box, 0);

	return l && atomic_load(&post.told) == l->id && !atomic_load(&post.wait.forced) &&
	       !atomic_load(&post.wait.signalled);
}

static void *post_main(void *arg)
{
	struct uccl_lane_cmd l;

	while (!atomic_load(&post.stop)) {
		uccl_wait_enter(&post.wait);
		if (uccl_mailbox_take(&post.box, &l)) {
			atomic_store(&post.taken, l.id);
		} else {
			uint64_t until = uccl_clock() + POST_NS;

			uccl_wait_sleep(&post.wait, until);
			post.slept_over += uccl_clock() >= until && post_untold();
		}
		uccl_wait_leave(&post.wait);
	}
	return arg;
}

/* No letter is put in just when the other side goes to sleep, and lies there. PROTOCOL R185 */
TEST(cmds__wake)
{
	uint64_t end = uccl_clock() + 3 * UCCL_NS_PER_S;
	pthread_t thread;
	uint32_t n;

	assert_true(uccl_mailbox_init(&post.box, 2));
	assert_int_equal(uccl_wait_open(&post.wait), 0);
	assert_int_equal(pthread_create(&thread, NULL, post_main, NULL), 0);
	for (n = 1; uccl_clock() < end; n++) {
		struct uccl_lane_cmd l = {.id = n};

		for (volatile uint32_t i = n % 400; i; i--)
			;
		assert_true(uccl_mailbox_put(&post.box, &l));
		uccl_wait_signal(&post.wait);
		atomic_store(&post.told, n);
		for (uint32_t looks = 0; atomic_load(&post.taken) != n; looks++)
			if (looks > 10000)
				sched_yield();
	}
	atomic_store(&post.stop, true);
	uccl_wait_force(&post.wait);
	pthread_join(thread, NULL);
	assert_int_equal(post.slept_over, 0);
	uccl_wait_close(&post.wait);
	uccl_mailbox_fini(&post.box);
}

/* So many threads may still be made; -1: any. */
static int threads_left = -1;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg)
{
	int (*make)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT,
											       "pthread_create");

	if (!threads_left)
		return EAGAIN;
	threads_left -= threads_left > 0;
	return make(thread, attr, run, arg);
}

/* A lane that cannot have a thread is none: commands of the primary would wait for ever. */
TEST(set__without_threads)
{
	struct world w;
	struct node a;

	world_rescue_off();
	setenv("FI_UCCL_LANES", "3,leave=0", 1);
	for (int n = 0; n < 3; n++) {
		const struct uccl_lanes *lanes;

		world_open(&w);
		threads_left = n;
		node_open(&a, &w);
		threads_left = -1;
		lanes = uccl_ep_fid_of(&a.ep->fid)->ep->driver.engine->msg_ep.lanes;
		assert_int_equal(lanes ? lanes->n : 0, n);
		node_close(&a);
		world_close(&w);
	}
	unsetenv("FI_UCCL_LANES");
	world_rescue_on();
}

#ifdef HAVE_VERBS

/* Two endpoints on RDMA NICs in memory: a thread for each lane, and this one for both primaries. */
static struct {
	struct fake_verbs *fake;
	enum ibv_qp_type kind;
	uint8_t security;
	struct side {
		struct uccl_engine *primary;
		struct uccl_nic *nic;
		struct uccl_lane_set *lanes;
		int done, err;
	} side[2];
} r;

static void r_random(void *arg, void *buf, size_t len)
{
	assert_int_equal(getrandom(buf, len, 0), len);
}

static int r_nic(const struct side *s, bool lane, struct uccl_nic **nic)
{
	const struct uccl_nic_attr attr = {
		.ifname = s == r.side ? "rxe0" : "rxe1", .packets = lane, .liveness = true};

	if (r.kind == IBV_QPT_UD)
		return uccl_verbs_ud_open(fake_verbs_locked(), uccl_clock, &attr, nic);
	return uccl_verbs_uc_open(fake_verbs_locked(), uccl_clock, r.kind, &attr, nic);
}

static int r_lane_nic(void *arg, struct uccl_nic **nic)
{
	return r_nic(arg, true, nic);
}

static void r_side_open(struct side *s)
{
	struct uccl_config cfg;
	struct uccl_engine_attr attr = {.config = &cfg, .random = r_random};

	uccl_config_default(&cfg);
	cfg.paths = 16;
	cfg.credit = "none";
	cfg.security = r.security;
	assert_int_equal(r_nic(s, false, &s->nic), 0);
	attr.nic = s->nic;
	assert_int_equal(uccl_engine_open(&attr, uccl_clock(), &s->primary), 0);
	s->lanes = uccl_lane_set_open(s->primary, &attr, 2, r_lane_nic, s);
	assert_non_null(s->lanes);
	uccl_lane_set_keep(s->lanes);
}

static void r_open(enum ibv_qp_type kind, uint8_t security)
{
	memset(&r, 0, sizeof(r));
	r.kind = kind;
	r.security = security;
	r.fake = fake_verbs_new();
	fake_verbs_local(fake_verbs_add(r.fake, "rxe0", 1, NULL), 1);
	fake_verbs_local(fake_verbs_add(r.fake, "rxe1", 2, NULL), 2);
	r_side_open(&r.side[0]);
	r_side_open(&r.side[1]);
}

static void r_side_close(struct side *s)
{
	uccl_lane_set_close(s->lanes);
	uccl_engine_close(s->primary);
	uccl_lane_set_free(s->lanes);
	s->primary = NULL;
}

static void r_close(void)
{
	for (int i = 0; i < 2; i++)
		if (r.side[i].primary)
			r_side_close(&r.side[i]);
	assert_int_equal(fake_verbs_end(r.fake), 0);
}

static void r_done(struct uccl_op *op)
{
	struct side *s = op->api;

	s->done++;
	s->err = op->err ? op->err : s->err;
	uccl_op_put(s->primary, op);
}

static void r_post(struct side *s, uint8_t type, void *buf, struct uccl_peer *to)
{
	struct uccl_op *op = uccl_op_get(s->primary);

	assert_non_null(op);
	op->type = type;
	op->iov[0] = (struct iovec){.iov_base = buf, .iov_len = BYTES};
	op->iov_count = 1;
	op->len = BYTES;
	op->api = s;
	op->done = r_done;
	op->peer = to;
	assert_int_equal((to ? uccl_engine_send : uccl_engine_recv)(s->primary, op, uccl_clock()), 0);
}

static void r_begin(void)
{
	memset(dst, 0, BYTES);
	r.side[0].done = r.side[1].done = 0;
	r_post(&r.side[1], UCCL_OP_RECV, dst, NULL);
	r_post(&r.side[0], UCCL_OP_SEND, src,
	       uccl_engine_peer(r.side[0].primary, uccl_engine_addr(r.side[1].primary), true));
}

static void r_poll(void)
{
	for (int i = 0; i < 2; i++) {
		if (!r.side[i].primary)
			continue;
		uccl_lane_set_heard(r.side[i].lanes);
		uccl_engine_poll(r.side[i].primary, uccl_clock());
	}
}

/* Until it is over at this side. */
static void r_wait(const struct side *s)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;

	while (!s->done) {
		r_poll();
		assert_true(uccl_clock() < end);
	}
}

static const struct uccl_stats *r_stats(int i)
{
	return uccl_engine_stats(r.side[i].primary);
}

/* One message; how much of it went over lanes. */
static uint64_t r_message(void)
{
	uint64_t before = r_stats(0)->tx_lane_bytes;

	r_begin();
	r_wait(&r.side[0]);
	r_wait(&r.side[1]);
	assert_int_equal(r.side[0].err | r.side[1].err, 0);
	assert_memory_equal(src, dst, BYTES);
	return r_stats(0)->tx_lane_bytes - before;
}

/* Lanes find each other some time after the first message. */
static void r_meet(void)
{
	uint64_t end = uccl_clock() + PATIENCE_NS;

	while (r_message() < BYTES / 2)
		assert_true(uccl_clock() < end);
}

/* With the lock held. */
static enum fake_fate r_lossy(void *arg, const struct fake_packet *p)
{
	unsigned int *n = arg;

	return ++*n % 61 ? FAKE_PASS : *n % 2 ? FAKE_DUP : FAKE_DROP;
}

static const struct {
	enum ibv_qp_type kind;
	uint8_t security;
} r_kinds[] = {
	{IBV_QPT_UD, UCCL_SECURITY_TRUSTED},
	{IBV_QPT_UC, UCCL_SECURITY_PACKETS},
	{IBV_QPT_RC, UCCL_SECURITY_PACKETS},
};

/* Packets of RDMA NICs go over lanes as those of sockets do. */
TEST(set__carries_over_verbs)
{
	for (size_t k = 0; k < 2 * uccl_array_len(r_kinds); k++) {
		unsigned int n = 0;

		r_open(r_kinds[k / 2].kind, r_kinds[k / 2].security);
		fake_verbs_lock();
		r.fake->hook = k % 2 ? r_lossy : NULL;
		r.fake->hook_arg = &n;
		fake_verbs_unlock();
		r_meet();
		for (int i = 0; i < 10; i++)
			assert_true(r_message() >= BYTES - UCCL_LANES_FIRST);
		assert_true(r_stats(1)->rx_lane_bytes == r_stats(0)->tx_lane_bytes);
		assert_int_equal(r_stats(0)->writes_tx, 0);
		/* In the middle of one. */
		r_begin();
		r_close();
	}
}

/*
 * What NICs write into memory the primary hands to them. A lane has no part in it: neither of the queue pairs, nor of
 * the receives for writes.
 */
TEST(set__leaves_writes_to_primary)
{
	static const enum ibv_qp_type kinds[] = {IBV_QPT_UC, IBV_QPT_RC};

	for (size_t k = 0; k < uccl_array_len(kinds); k++) {
		uint64_t end = uccl_clock() + PATIENCE_NS, made;

		r_open(kinds[k], UCCL_SECURITY_TRUSTED);
		/* Until there are queue pairs. */
		do {
			made = r_stats(0)->writes_tx;
			r_message();
			assert_true(uccl_clock() < end);
		} while (r_stats(0)->writes_tx - made < BYTES / UCCL_VERBS_WRITE / 2);
		for (int i = 0; i < 10; i++)
			assert_true(r_message() == 0);
		for (int i = 0; i < 2; i++) {
			struct uc_dev *d = uc_of(r.side[i].nic)->dev;

			assert_int_equal(d->nendpoints, 1);
			assert_true(d->sets.nqps <= 16);
		}
		r_close();
	}
}

/* Nobody sends anything: no lane's thread looks for it. */
TEST(set__sleeps_over_verbs)
{
	const struct timespec settle = {.tv_nsec = 300 * UCCL_NS_PER_MS}, quiet = {.tv_nsec = 500 * UCCL_NS_PER_MS};
	unsigned int polls;

	r_open(IBV_QPT_UD, UCCL_SECURITY_TRUSTED);
	r_meet();
	nanosleep(&settle, NULL);
	fake_verbs_lock();
	polls = fake_verbs_calls(r.fake, "poll_cq");
	fake_verbs_unlock();
	nanosleep(&quiet, NULL);
	fake_verbs_lock();
	polls = fake_verbs_calls(r.fake, "poll_cq") - polls;
	fake_verbs_unlock();
	/* Four threads, each of which looks after its peers twice a second. */
	assert_in_range(polls, 0, 40);
	r_close();
}

/* With the lock held: what lanes send is late. */
static enum fake_fate r_late(void *arg, const struct fake_packet *p)
{
	const uint32_t *home = arg;

	return p->type != IBV_QPT_UD || p->dst_qpn == home[0] || p->dst_qpn == home[1] ? FAKE_PASS : FAKE_HOLD;
}

/* One side is gone while payload is at lanes: the other one is told, and gets its memory back. PROTOCOL R186 */
TEST(set__peer_ends_over_verbs)
{
	uint32_t home[2];

	for (size_t k = 0; k < uccl_array_len(r_kinds); k++) {
		for (int i = 0; i < 2; i++) {
			uint64_t packets;

			r_open(r_kinds[k].kind, r_kinds[k].security);
			r_meet();
			for (int s = 0; s < 2; s++)
				home[s] = uccl_engine_addr(r.side[s].primary)->nic.scope & 0xffffff;
			fake_verbs_lock();
			r.fake->hook = r_late;
			r.fake->hook_arg = home;
			fake_verbs_unlock();
			packets = r_stats(1)->rx_packets;
			r_begin();
			/* Its envelope has met the receive. */
			while (r_stats(1)->rx_packets == packets)
				r_poll();
			assert_int_equal(r.side[0].done + r.side[1].done, 0);
			r_side_close(&r.side[!i]);
			r_wait(&r.side[i]);
			assert_true(r.side[i].err);
			r_close();
		}
	}
}

#endif

TESTS_MAIN

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "../engine/lan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot_file.h"
#include "stall_report.h"
#include "../tests.h"

#define MS UCCL_NS_PER_MS
#define S UCCL_NS_PER_S
#define FOUND_MAX 64

/* Snapshots by hand: one endpoint, peers of the same number of paths. */
struct made {
	struct uccl_snapshot v;
	uint64_t room[1024];
};

static struct made now_, before_;
static struct stall_report found[FOUND_MAX];
static char text[600];

static struct uccl_snapshot_peer *made_add(struct made *m, uint16_t port, uint16_t npaths)
{
	struct uccl_snapshot_peer *p = (void *)((uint8_t *)&m->v + m->v.bytes);
	struct uccl_snapshot_path *path = (struct uccl_snapshot_path *)(p + 1);

	m->v.bytes += (uint32_t)(sizeof(*p) + npaths * sizeof(*path));
	assert_true(m->v.bytes <= sizeof(*m));
	m->v.npeers++;
	*p = (struct uccl_snapshot_peer){.port = port,
					 .state = UCCL_SNAPSHOT_OPEN,
					 .npaths = npaths,
					 .slots = 2,
					 .window = 18000,
					 .srtt_ns = 4 * MS};
	p->ip[10] = p->ip[11] = 0xff;
	p->ip[12] = 10;
	for (uint16_t i = 0; i < npaths; i++)
		path[i] = (struct uccl_snapshot_path){.index = i, .packets = 1000, .srtt_ns = MS};
	return p;
}

static struct uccl_snapshot_path *path_of(struct uccl_snapshot_peer *p, int i)
{
	return (struct uccl_snapshot_path *)(p + 1) + i;
}

static void made_new(struct made *m, uint64_t at_ns)
{
	memset(m, 0, sizeof(*m));
	m->v = (struct uccl_snapshot){.magic = UCCL_SNAPSHOT_MAGIC,
				      .version = UCCL_SNAPSHOT_VERSION,
				      .pid = 77,
				      .rank = -1,
				      .stats_bytes = sizeof(m->v.stats),
				      .bytes = sizeof(m->v),
				      .at_ns = at_ns};
}

static size_t find(const struct uccl_snapshot *before)
{
	size_t n;

	assert_null(snapshot_check(&now_.v, sizeof(now_)));
	n = stall_report_find(&now_.v, before, now_.v.at_ns, found, FOUND_MAX);
	stall_report_sort(found, n);
	return n;
}

TEST(stall_report_find__nothing)
{
	struct uccl_snapshot_peer *p;

	made_new(&now_, 10 * S);
	p = made_add(&now_, 1, 4);
	p->stall_ns[UCCL_STALL_NOT] = 96 * MS;
	p->stall_ns[UCCL_STALL_WINDOW] = 4 * MS;
	assert_int_equal(find(NULL), 0);
	stall_report_sentence(found, 0, text, sizeof(text));
	assert_string_equal(text, "Nothing is held back.");
	made_new(&now_, 10 * S);
	assert_int_equal(find(NULL), 0);
}

/* Every reason alone is the one that is named, with its number. */
TEST(stall_report_find__each_reason)
{
	static const struct {
		uint8_t why;
		const char *figure;
	} want[] = {
		{UCCL_STALL_WINDOW, "window 18.0 KB, RTT 4.0 ms"},
		{UCCL_STALL_PACE, "window 18.0 KB, RTT 4.0 ms"},
		{UCCL_STALL_CREDIT, "5.0 KB granted and used"},
		{UCCL_STALL_SLOTS, "slots 2, RTT 4.0 ms"},
		{UCCL_STALL_CHUNKS, "9 chunks under way, RTT 4.0 ms"},
		{UCCL_STALL_LIMIT, "so for 2.0 s"},
		{UCCL_STALL_LOSS, "0.0 % lost and sent again"},
		{UCCL_STALL_SILENT, "silent for 3.1 s"},
		{UCCL_STALL_ANSWER, "so for 2.0 s"},
		{UCCL_STALL_CONNECT, "so for 2.0 s"},
	};

	for (size_t i = 0; i < uccl_array_len(want); i++) {
		struct uccl_snapshot_peer *p;

		made_new(&now_, 10 * S);
		p = made_add(&now_, 1, 0);
		p->stall = want[i].why;
		p->stall_for_ns = 2 * S;
		p->heard_ago_ns = 3100 * MS;
		p->credit_used = 5000;
		p->inflight_chunks = 9;
		p->state = want[i].why == UCCL_STALL_CONNECT ? UCCL_SNAPSHOT_CONNECTING : UCCL_SNAPSHOT_OPEN;
		p->stall_ns[UCCL_STALL_NOT] = 400 * MS;
		p->stall_ns[want[i].why] = 600 * MS;
		assert_int_equal(find(NULL), 1);
		assert_int_equal(found[0].why, want[i].why);
		assert_true(found[0].share > 0.59 && found[0].share < 0.61);
		stall_report_figure(found, text, sizeof(text));
		assert_string_equal(text, want[i].figure);
		stall_report_sentence(found, 1, text, sizeof(text));
		assert_non_null(strstr(text, "Worst: process 77 and its peer 10.0.0.0 port 1: "));
		assert_null(strstr(text, "something"));
		now_.v.rank = 5;
		stall_report_sentence(found, 1, text, sizeof(text));
		assert_non_null(strstr(text, "Worst: rank 5 (process 77) and its peer 10.0.0.0 port 1: "));
	}
}

/*
 * Ranks of a healthy job that wait for their processor: each is silent for a moment again and again, was connecting
 * once, and has not yet taken a message. None of that is a fault. What is long is one.
 */
TEST(stall_report_find__moments)
{
	static const struct {
		uint8_t why, now, state;
		uint64_t ms, heard_ms;
		bool told;
	} tries[] = {
		{UCCL_STALL_SILENT, UCCL_STALL_SILENT, UCCL_SNAPSHOT_OPEN, 199, 199, false},
		{UCCL_STALL_SILENT, UCCL_STALL_NOT, UCCL_SNAPSHOT_OPEN, 450, 0, false},
		{UCCL_STALL_SILENT, UCCL_STALL_NOT, UCCL_SNAPSHOT_OPEN, 550, 0, true},
		{UCCL_STALL_SILENT, UCCL_STALL_SILENT, UCCL_SNAPSHOT_OPEN, 201, 201, true},
		{UCCL_STALL_ANSWER, UCCL_STALL_ANSWER, UCCL_SNAPSHOT_OPEN, 190, 0, false},
		{UCCL_STALL_ANSWER, UCCL_STALL_ANSWER, UCCL_SNAPSHOT_OPEN, 210, 0, true},
		{UCCL_STALL_CONNECT, UCCL_STALL_NOT, UCCL_SNAPSHOT_OPEN, 400, 0, false},
		{UCCL_STALL_CONNECT, UCCL_STALL_CONNECT, UCCL_SNAPSHOT_CONNECTING, 400, 0, true},
		{UCCL_STALL_CREDIT, UCCL_STALL_CREDIT, UCCL_SNAPSHOT_OPEN, 49, 0, false},
		{UCCL_STALL_CREDIT, UCCL_STALL_CREDIT, UCCL_SNAPSHOT_OPEN, 51, 0, true},
	};

	for (size_t i = 0; i < uccl_array_len(tries); i++) {
		struct uccl_snapshot_peer *p;

		made_new(&now_, 10 * S);
		p = made_add(&now_, 1, 0);
		p->stall = tries[i].now;
		p->state = tries[i].state;
		p->heard_ago_ns = tries[i].heard_ms * MS;
		p->stall_ns[UCCL_STALL_NOT] = S - tries[i].ms * MS;
		p->stall_ns[tries[i].why] = tries[i].ms * MS;
		assert_int_equal(find(NULL), tries[i].told);
		if (tries[i].told)
			assert_int_equal(found[0].why, tries[i].why);
	}
}

/* 163 us where the median is 20 us is what a processor's queue does. A path that carries nothing is not slow. */
TEST(stall_report_find__short_trips)
{
	struct uccl_snapshot_peer *p;

	made_new(&now_, 10 * S);
	p = made_add(&now_, 1, 8);
	p->stall_ns[UCCL_STALL_NOT] = S;
	for (int i = 0; i < 8; i++)
		path_of(p, i)->srtt_ns = 20000;
	path_of(p, 2)->srtt_ns = 163000;
	path_of(p, 3)->srtt_ns = 5 * MS;
	path_of(p, 3)->packets = 63;
	assert_int_equal(find(NULL), 0);
	path_of(p, 3)->packets = 64;
	assert_int_equal(find(NULL), 1);
	assert_int_equal(found[0].path->index, 3);
}

/* Only what came since the snapshot before counts. */
TEST(stall_report_find__since)
{
	struct uccl_snapshot_peer *p, *q;

	made_new(&before_, 10 * S);
	q = made_add(&before_, 1, 1);
	q->stall_ns[UCCL_STALL_CREDIT] = 900 * MS;
	path_of(q, 0)->lost = 900;
	now_ = before_;
	now_.v.at_ns = 11 * S;
	p = (struct uccl_snapshot_peer *)uccl_snapshot_first(&now_.v);
	p->stall_ns[UCCL_STALL_NOT] = 300 * MS;
	p->stall_ns[UCCL_STALL_SLOTS] = 700 * MS;
	path_of(p, 0)->packets = 2000;
	path_of(p, 0)->lost = 905;
	assert_int_equal(find(&before_.v), 1);
	assert_int_equal(found[0].why, UCCL_STALL_SLOTS);
	assert_true(found[0].share > 0.69 && found[0].share < 0.71);
	assert_true(found[0].lost > 0.0049 && found[0].lost < 0.0051);
	/* Its connection began anew: what is there now is all that counts. */
	q->stall_ns[UCCL_STALL_CREDIT] = 2 * S;
	assert_int_equal(find(&before_.v), 1);
	assert_int_equal(found[0].why, UCCL_STALL_CREDIT);
}

TEST(stall_report_find__losses_make_windows_small)
{
	struct uccl_snapshot_peer *p;

	made_new(&now_, 10 * S);
	p = made_add(&now_, 1, 1);
	p->stall_ns[UCCL_STALL_WINDOW] = 100 * MS;
	path_of(p, 0)->lost = 52;
	assert_int_equal(find(NULL), 1);
	assert_int_equal(found[0].why, UCCL_STALL_LOSS);
	stall_report_figure(found, text, sizeof(text));
	assert_string_equal(text, "5.2 % lost and sent again");
	/* Few packets say nothing. */
	path_of(p, 0)->packets = 10;
	path_of(p, 0)->lost = 5;
	assert_int_equal(find(NULL), 1);
	assert_int_equal(found[0].why, UCCL_STALL_WINDOW);
}

TEST(stall_report_find__paths)
{
	struct uccl_snapshot_peer *p;

	made_new(&now_, 10 * S);
	p = made_add(&now_, 1, 8);
	p->stall_ns[UCCL_STALL_NOT] = S;
	path_of(p, 2)->srtt_ns = 10 * MS;
	path_of(p, 3)->state = UCCL_PATH_QUARANTINE;
	path_of(p, 5)->lost = 20;
	path_of(p, 6)->srtt_ns = 2 * MS;
	assert_int_equal(find(NULL), 3);
	assert_int_equal(found[0].path->index, 3);
	assert_int_equal(found[1].path->index, 5);
	assert_int_equal(found[1].why, UCCL_STALL_LOSS);
	assert_int_equal(found[2].path->index, 2);
	assert_int_equal(found[2].why, UCCL_STALL_NOT);
	stall_report_figure(&found[2], text, sizeof(text));
	assert_string_equal(text, "active, RTT 10.0 ms (10.0 times the median), 0.0 % lost");
	stall_report_sentence(found, 3, text, sizeof(text));
	assert_non_null(strstr(text, "path 3 of process 77 to 10.0.0.0 port 1"));
	/* All the same: none is worse than the others. */
	for (int i = 0; i < 8; i++)
		*path_of(p, i) =
			(struct uccl_snapshot_path){.index = (uint16_t)i, .packets = 1000, .lost = 9, .srtt_ns = MS};
	assert_int_equal(find(NULL), 0);
}

TEST(stall_report_find__endpoint)
{
	struct uccl_snapshot_peer *p;

	made_new(&before_, 10 * S);
	made_new(&now_, 11 * S);
	p = made_add(&now_, 1, 0);
	p->stall_ns[UCCL_STALL_NOT] = 100 * MS;
	p->stall_ns[UCCL_STALL_AWAY] = 900 * MS;
	now_.v.nic_ns = 500 * MS;
	assert_int_equal(find(&before_.v), 2);
	assert_int_equal(found[0].why, UCCL_STALL_AWAY);
	assert_null(found[0].peer);
	assert_int_equal(found[1].why, UCCL_STALL_NIC);
	assert_true(found[1].share > 0.49 && found[1].share < 0.51);
	/* An old snapshot says nothing but that it is old; and that only if something is to be done. */
	assert_int_equal(stall_report_find(&now_.v, &before_.v, 14 * S, found, FOUND_MAX), 0);
	p->stall = UCCL_STALL_WINDOW;
	assert_int_equal(stall_report_find(&now_.v, &before_.v, 14 * S, found, FOUND_MAX), 1);
	stall_report_figure(found, text, sizeof(text));
	assert_string_equal(text, "no call for 3.0 s");
	stall_report_sentence(found, 1, text, sizeof(text));
	assert_non_null(strstr(text, "Worst: process 77: this process itself"));
}

/* Whatever room there is. */
TEST(stall_report_find__room)
{
	made_new(&now_, 10 * S);
	for (uint16_t i = 0; i < 4; i++) {
		struct uccl_snapshot_peer *p = made_add(&now_, (uint16_t)(i + 1), 4);

		p->stall_ns[UCCL_STALL_SLOTS] = p->stall_ns[UCCL_STALL_AWAY] = MS;
		path_of(p, 0)->state = UCCL_PATH_QUARANTINE;
	}
	for (size_t room = 0; room < 12; room++) {
		memset(found, 0x5a, sizeof(found));
		assert_int_equal(stall_report_find(&now_.v, NULL, 10 * S, found, room), uccl_min(room, 9));
		assert_int_equal(found[room].kind, 0x5a);
	}
	for (size_t size = 1; size < 60; size++) {
		memset(text, 0x5a, sizeof(text));
		stall_report_figure(found, text, size);
		assert_true(strlen(text) < size);
		assert_int_equal(text[size], 0x5a);
		stall_report_sentence(found, 1, text, size);
		assert_true(strlen(text) < size);
		assert_int_equal(text[size], 0x5a);
	}
}

TEST(stall_report_sort__worst_first)
{
	const struct uccl_snapshot_peer peer = {.port = 1};
	struct stall_report v[] = {
		{.kind = STALL_REPORT_PATH, .share = 1, .peer = &peer},
		{.kind = STALL_REPORT_PEER, .share = 0.5, .why = UCCL_STALL_LOSS, .peer = &peer},
		{.kind = STALL_REPORT_PEER, .share = 0.97, .why = UCCL_STALL_WINDOW, .peer = &peer},
		{.kind = STALL_REPORT_ENDPOINT, .share = 1, .why = UCCL_STALL_AWAY},
		{.kind = STALL_REPORT_PEER, .share = 0.96, .why = UCCL_STALL_SILENT, .peer = &peer},
		{.kind = STALL_REPORT_PEER, .share = 0.95, .why = UCCL_STALL_CREDIT, .peer = &peer},
	};
	static const uint8_t want[] = {UCCL_STALL_SILENT, UCCL_STALL_AWAY, UCCL_STALL_CREDIT, UCCL_STALL_WINDOW,
				       UCCL_STALL_LOSS};

	stall_report_sort(v, uccl_array_len(v));
	for (size_t i = 0; i < uccl_array_len(want); i++)
		assert_int_equal(v[i].why, want[i]);
	assert_int_equal(v[5].kind, STALL_REPORT_PATH);
	stall_report_sort(v, 0);
}

/* Engines: what they measure is what is found. */
static uint8_t src[4 << 20], dst[4 << 20];

/* The only line that peer 1 of node 0 gets. */
static struct stall_report seen(struct lan *l)
{
	size_t n;

	assert_true(uccl_engine_snapshot(l->node[0].e, &now_.v, sizeof(now_), l->now) > 0);
	assert_null(snapshot_check(&now_.v, sizeof(now_)));
	n = stall_report_find(&now_.v, NULL, l->now, found, FOUND_MAX);
	stall_report_sort(found, n);
	return n ? found[0] : (struct stall_report){0};
}

static uint64_t sum_held(void)
{
	const struct uccl_snapshot_peer *p = uccl_snapshot_first(&now_.v);
	uint64_t all = 0;

	for (int i = 0; i < UCCL_STALL_COUNT; i++)
		all += p->stall_ns[i];
	return all;
}

LAN_TEST(stall_report__not_there_yet, lan_new())
{
	uint64_t began;

	lan_open(l, 0);
	lan_open(l, 1);
	began = l->now;
	lan_peer(l, 0, 1);
	lan_kill(l, 1);
	assert_int_equal(lan_send_to(l, 0, TAILQ_FIRST(&l->node[0].e->conns.live) ?
				     &TAILQ_FIRST(&l->node[0].e->conns.live)->peer : NULL, src, 10, NULL), 0);
	lan_pass(l, 300 * MS);
	assert_int_equal(seen(l).why, UCCL_STALL_CONNECT);
	assert_int_equal(sum_held(), l->now - began);
}

/* Some of what was sent has arrived, more is on its way. */
static void half_way(struct lan *l)
{
	uint64_t had = lan_stats(l, 1)->rx_bytes;

	while (lan_stats(l, 1)->rx_bytes < had + sizeof(src) / 4)
		lan_round(l);
	assert_true(lan_conn(l, 0, 1)->peer.flow.sent.inflight_chunks > 0);
}

LAN_TEST(stall_report__peer_stopped, lan_new_open(2))
{
	lan_recv(l, 1, dst, sizeof(dst), NULL);
	lan_send(l, 0, 1, src, sizeof(src), NULL);
	half_way(l);
	l->node[1].asleep = true;
	lan_pass(l, 300 * MS);
	assert_int_equal(seen(l).why, UCCL_STALL_SILENT);
	assert_true(found[0].share > 0.9);
	l->node[1].asleep = false;
	lan_run(l, S);
	lan_pass(l, 10 * S);
	seen(l);
	assert_true(uccl_snapshot_first(&now_.v)->stall_ns[UCCL_STALL_NOT] > 9 * S);
	assert_int_equal(uccl_snapshot_first(&now_.v)->stall, UCCL_STALL_NOT);
}

/* The envelope is acknowledged, and nobody takes the message. */
LAN_TEST(stall_report__no_receive, lan_new_open(2))
{
	lan_send(l, 0, 1, src, sizeof(src), NULL);
	lan_pass(l, 300 * MS);
	assert_int_equal(seen(l).why, UCCL_STALL_ANSWER);
	lan_recv(l, 1, dst, sizeof(dst), NULL);
	lan_run(l, S);
	seen(l);
	assert_int_equal(uccl_snapshot_first(&now_.v)->stall, UCCL_STALL_NOT);
}

static enum lan_verdict drop_some(struct lan *l, const struct lan_event *ev)
{
	return ev->type == UCCL_PKT_CHUNK && uccl_rng_chance(&l->rng, 0.05) ? LAN_DROP : LAN_PASS;
}

static struct lan *stream(const char *cc, const char *credit, uint64_t link_bps, bool lossy)
{
	struct lan *l = lan_new();

	for (int i = 0; i < 2; i++) {
		l->node[i].cfg.cc = cc;
		l->node[i].cfg.credit = credit;
		l->node[i].link_bps = link_bps;
		lan_open(l, i);
	}
	l->filter = lossy ? drop_some : NULL;
	for (int i = 0; i < 3; i++) {
		lan_recv(l, 1, dst, sizeof(dst), NULL);
		lan_send(l, 0, 1, src, sizeof(src), NULL);
	}
	lan_run(l, 20 * MS);
	return l;
}

TEST(stall_report__streams)
{
	static const struct {
		const char *cc, *credit;
		uint64_t link_bps;
		bool lossy;
		uint8_t why;
	} want[] = {
		{"none", "eqds", 100000000, false, UCCL_STALL_CREDIT},
		{"none", "none", 0, true, UCCL_STALL_LOSS},
		{"nscc:max_bdps=0.1,max_chunks=1", "none", 0, false, UCCL_STALL_WINDOW},
	};

	for (size_t i = 0; i < uccl_array_len(want); i++) {
		struct lan *l = stream(want[i].cc, want[i].credit, want[i].link_bps, want[i].lossy);

		assert_int_equal(seen(l).why, want[i].why);
		assert_true(found[0].fraction > 0.1);
		lan_free(l);
	}
}

/* The NIC takes no more; and then nobody calls us. */
LAN_TEST(stall_report__our_own, lan_new())
{
	struct stall_report s;

	l->node[0].cfg.cc = "nscc:max_bdps=0.1,max_chunks=1";
	lan_open(l, 0);
	lan_open(l, 1);
	lan_recv(l, 1, dst, sizeof(dst), NULL);
	lan_send(l, 0, 1, src, 100, NULL);
	lan_run(l, S);
	assert_true(uccl_engine_snapshot(l->node[0].e, &before_.v, sizeof(before_), l->now) > 0);
	lan_recv(l, 1, dst, sizeof(dst), NULL);
	l->node[0].nic->room = 0;
	lan_send(l, 0, 1, src, sizeof(src), NULL);
	lan_pass(l, 100 * MS);
	assert_true(uccl_engine_snapshot(l->node[0].e, &now_.v, sizeof(now_), l->now) > 0);
	assert_int_equal(stall_report_find(&now_.v, &before_.v, l->now, found, FOUND_MAX), 1);
	assert_int_equal(found[0].why, UCCL_STALL_NIC);
	assert_true(found[0].share > 0.9);
	l->node[0].nic->room = -1;
	half_way(l);
	l->node[0].asleep = true;
	lan_pass(l, S);
	l->node[0].asleep = false;
	lan_round(l);
	s = seen(l);
	assert_int_equal(s.why, UCCL_STALL_AWAY);
	assert_int_equal(s.kind, STALL_REPORT_ENDPOINT);
}

TESTS_MAIN

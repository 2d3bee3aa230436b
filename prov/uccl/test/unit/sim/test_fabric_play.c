/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../tests.h"

#include "base/defaults.h"
#include "base/units.h"
#include "play.h"
#include "sim/fabric_memory.h"

TEST(set__values)
{
	char text[sizeof(p.names[0]) + 4];

	assert_int_not_equal(uccl_fab_play_init(&p, "nothing"), 0);
	assert_int_equal(uccl_fab_play_init(&p, "loss"), 0);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=16,bytes=2m,chunk=16k,cc=cubic,loss=1/64,up_gbps=100,paths=8"),
			 0);
	assert_int_equal(p.cfg.topo.hosts, 16);
	assert_int_equal(p.bytes, 2u << 20);
	assert_int_equal(p.cfg.chunk, 16384);
	assert_string_equal(p.names[1], "cubic");
	assert_true(p.loss.chance == 1.0 / 64);
	assert_int_equal(p.cfg.topo.up_bps, 100000000000ull);
	assert_int_equal(p.cfg.paths, 8);
	assert_int_equal(uccl_fab_play_set(&p, "hosts"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "nothing=1"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts="), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=8x"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=99999999999"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "bytes=1/0"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "bytes=0/0"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "bytes=17592186044416m"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "hosts=-1"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "paths=65536"), -22);
	memset(text, 'x', sizeof(text));
	memcpy(text, "cc=", 3);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(uccl_fab_play_set(&p, text), -22);
	assert_int_equal(uccl_fab_play_set(&p, "cc=swift:beta=0.7:ai=2,path=reps"), 0);
	assert_string_equal(p.names[1], "swift:beta=0.7:ai=2");
	assert_int_equal(uccl_fab_play_set(&p, "stack=nothing"), 0);
	assert_int_equal(uccl_fab_play_run(&p, NULL), -22);
}

/* Rates of spines, as a list. */
TEST(set__rates)
{
	char all[256] = "spine_gbps=1", more[sizeof(all) + 2];

	for (int i = 1; i < UCCL_FAB_SPINE_RATES; i++)
		strcat(all, "/1");
	snprintf(more, sizeof(more), "%s/1", all);
	assert_int_equal(uccl_fab_play_init(&p, "turns"), 0);
	assert_int_equal(uccl_fab_play_set(&p, all), 0);
	assert_int_equal(uccl_fab_play_set(&p, more), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=100/250/250/0.4"), 0);
	assert_int_equal(p.cfg.topo.spine_bps[0], 100000000000ull);
	assert_int_equal(p.cfg.topo.spine_bps[2], 250000000000ull);
	assert_int_equal(p.cfg.topo.spine_bps[3], 400000000ull);
	assert_int_equal(p.cfg.topo.spine_bps[4], 0);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps="), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=1/"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=1/0/1"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=1/-1"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=1/2x"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=1/nan"), -22);
	assert_int_equal(uccl_fab_play_set(&p, "spine_gbps=1e9"), -22);
}

/* A profile is what the product has as defaults; what was asked for by name stays, before or after it. */
TEST(set__profile)
{
	const struct uccl_defaults *udp = uccl_defaults_find("udp"), *verbs = uccl_defaults_find("verbs");

	assert_int_equal(uccl_fab_play_init(&p, "permutation"), 0);
	assert_string_equal(p.profile, "udp");
	assert_string_equal(p.names[1], udp->cc);
	assert_int_equal(p.cfg.paths, udp->paths);
	assert_int_equal(p.cfg.told.rto_min_ns, udp->rto_min_ns);
	assert_int_equal(uccl_fab_play_set(&p, "profile=verbs"), 0);
	assert_string_equal(p.names[1], verbs->cc);
	assert_string_equal(p.names[2], verbs->path);
	assert_string_equal(p.names[3], verbs->credit);
	assert_int_equal(p.cfg.paths, verbs->paths);
	assert_int_equal(p.cfg.labels, verbs->labels);
	assert_int_equal(p.cfg.chunk, verbs->write_bytes);
	assert_int_equal(p.cfg.window, verbs->window);
	assert_int_equal(p.cfg.told.delay_ns, verbs->delay_ns);
	assert_int_equal(p.cfg.told.rto_min_ns, verbs->rto_min_ns);
	assert_int_equal(p.cfg.train, 0);
	assert_int_equal(p.cfg.marks, verbs->marks);
	assert_int_equal(p.cfg.control, verbs->control_apart);
	assert_int_equal(uccl_fab_play_set(&p, "paths=77,profile=udp,cc=cubic,rto_ns=5000000"), 0);
	assert_int_equal(p.cfg.paths, 77);
	assert_string_equal(p.names[1], "cubic");
	assert_string_equal(p.names[2], udp->path);
	assert_int_equal(p.cfg.chunk, 0);
	assert_true(p.cfg.train > 0);
	assert_int_equal(p.cfg.told.delay_ns, udp->delay_ns);
	assert_int_equal(p.cfg.told.rto_min_ns, 5 * UCCL_NS_PER_MS);
	assert_int_equal(p.cfg.control, udp->control_apart);
	assert_int_equal(uccl_fab_play_set(&p, "profile=lab"), 0);
	assert_int_equal(p.cfg.paths, 77);
	assert_int_equal(p.cfg.control, 1);
	assert_int_equal(uccl_fab_play_set(&p, "profile=nothing"), -22);
}

/* All scenes, small, with writes and with packets, end, with every byte in its place once. */
TEST(run__all)
{
	char file[] = "list.XXXXXX";
	int fd = mkstemp(file);
	FILE *f = fdopen(fd, "w");

	assert_non_null(f);
	fputs("3 1 2 70000\n0 15 0 5\n0.5 0 15 300000\n", f);
	fclose(f);
	/* The transfers of a list where a spine swallows everything, too. */
	play_file = file;
	play("spine", "hosts=16,tiers=2,per_tor=4,spines=4,at=0");
	assert_int_equal(p.scene.nops, 3);
	assert_true(p.scene.net.lost > 0);
	for (int i = 0; uccl_fab_plays[i][0]; i++) {
		play_file = !strcmp(uccl_fab_plays[i][0], "list") ? file : NULL;
		play(uccl_fab_plays[i][0], "hosts=16,bytes=256k,senders=7,span=20000");
		play(uccl_fab_plays[i][0],
		     "hosts=16,bytes=256k,senders=7,span=20000,chunk=0,tiers=2,per_tor=4,spines=3,paths=32");
		play(uccl_fab_plays[i][0],
		     "hosts=16,bytes=256k,senders=7,span=20000,tiers=2,per_tor=4,spines=2,rails=4,path=hash");
		play(uccl_fab_plays[i][0], "hosts=16,bytes=300000,senders=7,span=20000,engines=3,ranks=2,credit=auto");
		play(uccl_fab_plays[i][0], "hosts=16,bytes=300000,senders=7,span=20000,profile=verbs");
		play(uccl_fab_plays[i][0], "hosts=16,bytes=300000,senders=7,span=20000,profile=udp,credit=auto");
	}
	play_file = NULL;
	unlink(file);
}

/* Of one scene, which fills queues: packets dropped. */
static uint64_t dropped(const char *set)
{
	uint64_t n;

	play("incast", set);
	n = p.scene.net.dropped;
	assert_true(!p.cfg.topo.pfc || p.scene.net.mem->most_over <= p.cfg.topo.headroom_bytes);
	return n;
}

/* Whoever carries it: where links are stopped nothing is dropped, with the headroom that is taken by default. */
TEST(pfc__nothing_is_dropped)
{
#define SCENE "hosts=16,senders=14,bytes=1m,ecn_lo=200k,ecn_hi=800k,"
	assert_true(dropped(SCENE "stack=gbn") > 0);
	assert_int_equal(dropped(SCENE "stack=gbn,pfc=1"), 0);
	assert_int_equal(dropped(SCENE "stack=gbn,qps=8,pfc=1,xoff=50k"), 0);
	assert_int_equal(dropped(SCENE "stack=sr,pfc=1,shared=2m"), 0);
	assert_int_equal(dropped(SCENE "profile=udp,pfc=1,xoff=50k"), 0);
	assert_int_equal(dropped(SCENE "profile=verbs,credit=none,pfc=1,xoff=50k"), 0);
	assert_true(dropped(SCENE "stack=gbn,pfc=1,headroom=10k") > 0);
}

TEST(run__same_seed_same_run)
{
	char *a = text("loss", "hosts=16,bytes=1m,loss=1/64,burst=0.001,ecn_lo=100k,ecn_hi=300k", uccl_fab_play_json);
	char *b = text("loss", "hosts=16,bytes=1m,loss=1/64,burst=0.001,ecn_lo=100k,ecn_hi=300k", uccl_fab_play_json);
	char *c = text("loss", "hosts=16,bytes=1m,loss=1/64,burst=0.001,ecn_lo=100k,ecn_hi=300k,seed=2",
		       uccl_fab_play_json);

	assert_string_equal(a, b);
	assert_string_not_equal(a, c);
	free(a);
	free(b);
	free(c);
}

/* In the class of data acknowledgements wait behind it: somewhere a queue holds more, and it takes longer. */
TEST(control__in_class_of_data)
{
	char *apart = text("permutation", "hosts=16,bytes=1m,profile=verbs,control=1", uccl_fab_play_json);
	char *same = text("permutation", "hosts=16,bytes=1m,profile=verbs,control=0", uccl_fab_play_json);
	char *defaults = text("permutation", "hosts=16,bytes=1m,profile=verbs", uccl_fab_play_json);

	assert_string_not_equal(apart, same);
	assert_string_equal(defaults, uccl_defaults_find("verbs")->control_apart ? apart : same);
	free(apart);
	free(same);
	free(defaults);
}

static const char *useless(const char *name, const char *set)
{
	play_init(name, set);
	return uccl_fab_play_useless(&p);
}

/* What changes nothing is told. */
TEST(useless__options)
{
	assert_null(useless("permutation", "hosts=16,profile=udp,paths=8,chunk=0,train=9000"));
	assert_null(useless("loss", "loss=1/64,burst=0.01,mean=4"));
	assert_null(useless("incast", "senders=3,credit=eqds,credit_loss=0.1"));
	assert_null(useless("stagger", "senders=3,stagger=5"));
	assert_null(useless("alltoall", "skew=0.6"));
	assert_null(useless("tree", "bytes=1m,pieces=3"));
	assert_null(useless("arrivals", "load=0.3,span=5,sizes=ai"));
	assert_null(useless("list", "file=x"));
	assert_null(useless("spine", "file=x,rate=0.5"));
	assert_string_equal(useless("spine", "file=x,bytes=1m"), "bytes");
	assert_string_equal(useless("loss", "file=x"), "file");
	assert_null(useless("permutation", "shared=8m,alpha=2,trim=1"));
	assert_null(useless("permutation", "pfc=1,xoff=300k,headroom=100k,stack=gbn"));
	assert_null(useless("permutation", "pfc=1,shared=8m,alpha=2"));
	assert_string_equal(useless("permutation", "shared=8m,queue=1m"), "queue");
	assert_string_equal(useless("permutation", "pfc=1,queue=1m"), "queue");
	assert_string_equal(useless("permutation", "pfc=1,trim=1"), "trim");
	assert_string_equal(useless("permutation", "alpha=2"), "alpha");
	assert_string_equal(useless("permutation", "pfc=1,alpha=2"), "alpha");
	assert_string_equal(useless("permutation", "shared=8m,xoff=1k"), "xoff");
	assert_string_equal(useless("permutation", "pfc=1,shared=8m,xoff=1k"), "xoff");
	assert_string_equal(useless("permutation", "headroom=1k"), "headroom");
	assert_null(useless("ring", "slow_hosts=1,slow_gbps=10,ecmp=1,jitter=5000,jitter_every=50000"));
	assert_null(useless("ring", "trace=x,trace_every=5,trace_hosts=1"));
	assert_string_equal(useless("ring", "trace_every=5"), "trace_every");
	assert_string_equal(useless("ring", "trace_hosts=5"), "trace_hosts");
	assert_string_equal(useless("ring", "trace=x,stack=gbn"), "trace");
	assert_string_equal(useless("ring", "slow_gbps=10"), "slow_gbps");
	assert_string_equal(useless("ring", "jitter_every=50000"), "jitter_every");
	assert_string_equal(useless("arrivals", "bytes=1m"), "bytes");
	assert_string_equal(useless("list", "bytes=1m"), "bytes");
	assert_string_equal(useless("permutation", "load=0.1"), "load");
	assert_string_equal(useless("list", "sizes=ai"), "sizes");
	assert_string_equal(useless("ring", "pieces=2"), "pieces");
	assert_null(useless("spine", "victims=2,rate=0.1,at=0,flap=7,reroute=5"));
	assert_null(useless("permutation", "stack=gbn,qps=4,ecn_lo=1k,ecn_hi=2k"));
	assert_null(useless("permutation", "ecn_lo=1k,ecn_hi=2k,marks=1"));
	assert_string_equal(useless("permutation", "loss=1/64"), "loss");
	assert_string_equal(useless("loss", "mean=4"), "mean");
	assert_string_equal(useless("loss", "senders=4"), "senders");
	assert_string_equal(useless("incast", "skew=1"), "skew");
	assert_string_equal(useless("incast", "credit_loss=0.1"), "credit_loss");
	assert_string_equal(useless("ring", "stagger=1"), "stagger");
	assert_string_equal(useless("permutation", "victims=1"), "victims");
	assert_string_equal(useless("permutation", "qps=4"), "qps");
	assert_string_equal(useless("permutation", "stack=gbn,paths=4"), "paths");
	assert_string_equal(useless("permutation", "ecn_lo=1k,ecn_hi=2k"), "ecn_lo");
	assert_string_equal(useless("permutation", "marks=1"), "marks");
	assert_string_equal(useless("permutation", "train=9000"), "train");
	assert_null(useless("permutation", "brittle=1"));
	assert_null(useless("permutation", "profile=verbs,brittle=1"));
	assert_string_equal(useless("permutation", "brittle=1,chunk=0"), "brittle");
	assert_string_equal(useless("permutation", "profile=udp,brittle=1"), "brittle");
	assert_string_equal(useless("permutation", "background_flows=2"), "background_flows");
	assert_string_equal(useless("permutation", "tiers=2,cores_per_agg=2"), "cores_per_agg");
	assert_null(useless("turns", "tiers=2,spine_gbps=1/2"));
	assert_string_equal(useless("turns", "spine_gbps=1/2"), "spine_gbps");
	assert_string_equal(useless("turns", "tiers=2,up_gbps=1,spine_gbps=1/2"), "up_gbps");
}

/* What the network marks reaches congestion control, where the profile says so. */
TEST(marks__heard)
{
	play("incast", "hosts=16,bytes=1m,profile=udp,ecn_lo=50k,ecn_hi=200k");
	assert_true(p.scene.net.marked > 0);
	assert_true(p.scene.stats.marked_rx > 0 && p.scene.stats.marked_tx > 0);
	play("incast", "hosts=16,bytes=1m,profile=udp,ecn_lo=50k,ecn_hi=200k,marks=0");
	assert_true(p.scene.net.marked > 0);
	assert_int_equal(p.scene.stats.marked_rx, 0);
}

TESTS_MAIN_IN(NULL, play_close)

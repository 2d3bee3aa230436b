/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/events.h"

#include "../tests.h"

#include <string.h>

#include "base/units.h"
#include "flow/rail.h"
#include "policy/policies.h"

/* Policies that write down what they are told, and answer what the test has set. */
static struct {
	uint64_t window, limit, next, grant_value;
	struct uccl_ack_info ack;
	struct uccl_loss_info loss;
	struct uccl_chunk_info chunk;
	uint64_t rtt_ns, credit, turn, received, demand, bytes;
	uint16_t path;
	enum uccl_loss_kind kind;
	int acks, losses, samples, landed, path_losses, credits, grants;
	uint64_t marked;
} say;

/* A rail's is what its state begins with, if that is set. */
static uint64_t cc_window(const void *cc)
{
	const uint64_t *own = cc;

	return *own ? *own : say.window;
}

static uint64_t cc_pace(void *cc, uint32_t bytes, uint64_t srtt_ns, uint64_t now)
{
	say.bytes = bytes;
	say.rtt_ns = srtt_ns;
	return say.next ? say.next : now;
}

static void cc_on_ack(void *cc, const struct uccl_ack_info *ack, uint64_t now)
{
	say.acks++;
	say.ack = *ack;
}

static void cc_on_loss(void *cc, const struct uccl_loss_info *loss, uint64_t now)
{
	say.losses++;
	say.loss = *loss;
}

static uint16_t ps_select(void *ps, const struct uccl_path *paths, const uint16_t *usable, uint16_t n,
			  const struct uccl_chunk_info *chunk, struct uccl_rng *rng, uint64_t now)
{
	say.chunk = *chunk;
	return usable[n - 1];
}

static void ps_on_ack(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t rtt_ns, uint64_t marked,
		      uint64_t now)
{
	say.samples++;
	say.marked = marked;
	say.path = path;
	say.rtt_ns = rtt_ns;
}

static void ps_on_land(void *ps, const struct uccl_path *paths, uint16_t path, uint64_t now)
{
	say.landed++;
	say.path = path;
}

static void ps_on_loss(void *ps, uint16_t path, enum uccl_loss_kind kind, uint64_t now)
{
	say.path_losses++;
	say.path = path;
	say.kind = kind;
}

static uint64_t cr_limit(const void *cs)
{
	return say.limit;
}

static void cr_on_credit(void *cs, uint64_t granted, uint64_t turn, uint64_t now)
{
	say.credits++;
	say.credit = granted;
	say.turn = turn;
}

static uint64_t cr_grant(void *cs, uint64_t received, uint64_t demand, uint64_t now)
{
	say.grants++;
	say.received = received;
	say.demand = demand;
	return say.grant_value;
}

static const struct uccl_cc_ops cc = {.window = cc_window, .pace = cc_pace, .on_ack = cc_on_ack, .on_loss = cc_on_loss};
static const struct uccl_path_ops ps = {
	.select = ps_select, .on_ack = ps_on_ack, .on_land = ps_on_land, .on_loss = ps_on_loss};
static const struct uccl_credit_ops cr = {.limit = cr_limit, .on_credit = cr_on_credit, .grant = cr_grant};
/* Every hook that may be missing is missing. */
static const struct uccl_cc_ops cc_bare = {.window = cc_window};
static const struct uccl_path_ops ps_bare = {.select = ps_select};
static const struct uccl_credit_ops cr_bare = {.limit = cr_limit};

static struct uccl_flow f;

static int start(void **state)
{
	memset(&say, 0, sizeof(say));
	memset(&f, 0, sizeof(f));
	say.window = 10000;
	say.limit = UINT64_MAX;
	f.cfg.packet.chunk_bytes = 1000;
	f.policy.rails = 1;
	f.cfg.policy.cc = &cc;
	f.cfg.policy.pathsel = &ps;
	f.cfg.policy.credit = &cr;
	return 0;
}

static int start_bare(void **state)
{
	start(state);
	f.cfg.policy.cc = &cc_bare;
	f.cfg.policy.pathsel = &ps_bare;
	f.cfg.policy.credit = &cr_bare;
	return 0;
}

TEST_IN(chunk_size__window, start, NULL)
{
	f.sent.inflight_bytes = 9000;
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 5), 1000);
	assert_int_equal(uccl_event_chunk_size(&f, 1001, 5), 0);
	/* A window below one chunk still lets one chunk fly. */
	say.window = 10;
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 5), 0);
	f.sent.inflight_bytes = 0;
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 5), 1000);
	/* A train is not one packet, and a direct write is. */
	assert_int_equal(uccl_event_chunk_size(&f, 1001, 5), 0);
	say.window = 1001;
	assert_int_equal(uccl_event_chunk_size(&f, 1001, 5), 1001);
	f.cfg.write.bytes = 8000;
	assert_int_equal(uccl_event_chunk_size(&f, 8000, 5), 8000);
	assert_int_equal(uccl_event_chunk_size(&f, 8001, 5), 0);
}

TEST_IN(chunk_size__pacing, start, NULL)
{
	f.pace.next_ns = 100;
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 99), 0);
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 100), 1000);
}

TEST_IN(chunk_size__credit, start, NULL)
{
	say.limit = 5000;
	f.credit.used = 4999;
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 5), 1000);
	f.credit.used = 5000;
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 5), 0);
}

TEST_IN(pacing_chunk__spends_credit, start, NULL)
{
	say.next = 777;
	f.loss.times.srtt_ns = 55;
	f.credit.used = 10;
	assert_int_equal(uccl_event_pacing_chunk(&f, 0, 1000, 5), 777);
	assert_int_equal(f.credit.used, 1010);
	assert_int_equal(say.bytes, 1000);
	assert_int_equal(say.rtt_ns, 55);
}

/* What an acknowledgement says of the rate shortens a wait that is longer than a time-out, and lengthens none. */
TEST_IN(rx_ack__ends_a_long_wait, start, NULL)
{
	struct uccl_ack_info info = { .bytes = 1000, .rtt_ns = 20 };
	const uint64_t far = UCCL_NS_PER_S * 1000;

	f.pace.bytes = 1234;
	f.pace.sent_ns = 3;
	say.next = far + 1;
	f.pace.next_ns = far;
	uccl_event_rx_ack(&f, 0, &info, 5);
	assert_true(f.pace.next_ns == far);
	say.next = 777;
	uccl_event_rx_ack(&f, 0, &info, 5);
	assert_int_equal(f.pace.next_ns, 777);
	assert_int_equal(say.bytes, 1234);
	say.next = 1;
	uccl_event_rx_ack(&f, 0, &info, 777 - uccl_flow_rto(&f));
	assert_int_equal(f.pace.next_ns, 777);
}

TEST_IN(pacing_chunk__without_pacer, start_bare, NULL)
{
	assert_int_equal(uccl_event_pacing_chunk(&f, 0, 1000, 5), 5);
	assert_int_equal(f.credit.used, 1000);
}

TEST_IN(select_path__of_the_usable, start, NULL)
{
	uint16_t usable[] = {3, 5, 8};

	f.paths.usable = usable;
	f.paths.nusable = 3;
	assert_int_equal(uccl_event_select_path(&f, 42, 99, 5), 8);
	assert_int_equal(say.chunk.bytes, 42);
	assert_int_equal(say.chunk.left, 99);
	assert_int_equal(say.chunk.backlog, 0);
}

/* A policer drops trains: the policy hears of it. PROTOCOL R406 */
TEST_IN(select_path__policed, start, NULL)
{
	uint16_t usable[] = {3};

	f.paths.usable = usable;
	f.paths.nusable = 1;
	for (int i = 0; i < 4; i++) {
		f.train.wait.dropped = i & 1;
		f.train.wait.quick = UCCL_TRAIN_QUICK;
		f.cfg.train.shorten = i & 2;
		uccl_event_select_path(&f, 42, 99, 5);
		assert_int_equal(say.chunk.policed, i == 1);
	}
}

/* What the NIC has not sent yet is what its owner says at that moment. */
TEST_IN(select_path__backlog, start, NULL)
{
	uint16_t usable[] = {3};
	uint64_t backlog = 7000;

	f.paths.usable = usable;
	f.paths.nusable = 1;
	f.cfg.backlog = &backlog;
	uccl_event_select_path(&f, 42, 99, 5);
	assert_int_equal(say.chunk.backlog, 7000);
	backlog = 5;
	uccl_event_select_path(&f, 42, 99, 5);
	assert_int_equal(say.chunk.backlog, 5);
}

/* Neither window nor credit nor pacing; receive slots alone. */
TEST_IN(tx_rtx_chunk__slots_only, start, NULL)
{
	say.window = say.limit = 0;
	f.credit.used = 1000;
	f.pace.next_ns = UCCL_NEVER;
	f.sent.inflight_bytes = 1 << 20;
	f.limits.slots = 4;
	f.sent.slots = f.sent.inflight_chunks = 3;
	assert_true(uccl_event_tx_rtx_chunk(&f, 1000, false, 5));
	f.sent.slots = f.sent.inflight_chunks = 4;
	assert_false(uccl_event_tx_rtx_chunk(&f, 1000, false, 5));
	assert_true(uccl_event_tx_rtx_chunk(&f, 0, true, 5));
	/* Nothing to a peer that grants nothing, but a descriptor that its own writes wait for. PROTOCOL R177 */
	f.limits.slots = 0;
	assert_false(uccl_event_tx_rtx_chunk(&f, 1000, false, 5));
	assert_true(uccl_event_tx_rtx_chunk(&f, 0, true, 5));
	f.sent.slots = f.sent.inflight_chunks = 0;
	assert_false(uccl_event_tx_rtx_chunk(&f, 1000, false, 5));
	assert_false(uccl_event_tx_rtx_chunk(&f, 0, true, 5));
	f.limits.slots = 1;
	assert_true(uccl_event_tx_rtx_chunk(&f, 1000, false, 5));
}

static void pull_none(const struct uccl_policy_cfg *cfg, struct uccl_pull_cfg *pull)
{
}

/* A descriptor is small, and writes in flight may wait for it. */
TEST_IN(tx_rtx_chunk__small_needs_no_credit, start, NULL)
{
	struct uccl_credit_ops ops = *f.cfg.policy.credit;

	ops.pull = pull_none;
	f.cfg.policy.credit = &ops;
	f.limits.slots = 4;
	f.sent.inflight_chunks = 1;
	f.credit.used = say.limit = 1000;
	assert_true(uccl_event_tx_rtx_chunk(&f, 0, false, 5));
	assert_true(uccl_event_tx_rtx_chunk(&f, UCCL_CONTROL_BYTES, false, 5));
	assert_int_equal(f.credit.used, 1000 + UCCL_CONTROL_BYTES);
	assert_int_equal(f.credit.free, UCCL_CONTROL_BYTES);
	assert_false(uccl_event_tx_rtx_chunk(&f, UCCL_CONTROL_BYTES + 1, false, 5));
}

/* Paced credit is spent by them too, unless nothing is in flight. PROTOCOL R63 */
TEST_IN(tx_rtx_chunk__paced_credit, start, NULL)
{
	struct uccl_credit_ops ops = *f.cfg.policy.credit;

	ops.pull = pull_none;
	f.cfg.policy.credit = &ops;
	f.limits.slots = 4;
	f.sent.inflight_chunks = 1;
	f.credit.used = 1000;
	say.limit = 1001;
	assert_true(uccl_event_tx_rtx_chunk(&f, 500, false, 5));
	assert_int_equal(f.credit.used, 1500);
	assert_false(uccl_event_tx_rtx_chunk(&f, 500, false, 5));
	assert_int_equal(f.credit.used, 1500);
	f.sent.inflight_chunks = 0;
	assert_int_equal(f.credit.free, 0);
	assert_true(uccl_event_tx_rtx_chunk(&f, 500, false, 5));
	assert_int_equal(f.credit.used, 2000);
	assert_int_equal(f.credit.free, 500);
}

TEST_IN(rx_chunk__counts, start, NULL)
{
	uccl_event_rx_chunk(&f, 100, 5);
	assert_int_equal(f.credit.received, 100);
	assert_true(f.credit.due);
	f.credit.due = false;
	uccl_event_rx_rtx_chunk(&f, 20, 6);
	assert_int_equal(f.credit.received, 120);
	assert_true(f.credit.due);
}

TEST_IN(rx_chunk__no_grants, start_bare, NULL)
{
	uccl_event_rx_chunk(&f, 100, 5);
	assert_int_equal(f.credit.received, 100);
	assert_false(f.credit.due);
}

TEST_IN(rx_ack__passed_on, start, NULL)
{
	struct uccl_ack_info info = {.bytes = 7, .rtt_ns = 9};
	uint64_t backlog = 7000;

	uccl_event_rx_ack(&f, 0, &info, 5);
	assert_int_equal(say.acks, 1);
	assert_int_equal(say.ack.bytes, 7);
	assert_int_equal(say.ack.rtt_ns, 9);
	assert_int_equal(say.ack.backlog, 0);
	f.cfg.backlog = &backlog;
	uccl_event_rx_ack(&f, 0, &info, 5);
	assert_int_equal(say.ack.backlog, 7000);
}

TEST_IN(path_sample__passed_on, start, NULL)
{
	uccl_event_path_sample(&f, 3, 900, 2048, 5);
	assert_int_equal(say.samples, 1);
	assert_int_equal(say.path, 3);
	assert_int_equal(say.rtt_ns, 900);
	assert_int_equal(say.marked, 2048);
	uccl_event_path_sample(&f, 3, 900, 0, 5);
	assert_int_equal(say.marked, 0);
}

TEST_IN(path_landed__passed_on, start, NULL)
{
	uccl_event_path_landed(&f, 3, 5);
	assert_int_equal(say.landed, 1);
	assert_int_equal(say.path, 3);
}

/* What has come is in the network no more, though its acknowledgement waits. A window without end stays one. */
TEST_IN(window__grows_with_the_way_back, start, NULL)
{
	say.window = 1 << 20;
	assert_int_equal(uccl_event_window(&f), 1 << 20);
	f.loss.ack_delay.share = UCCL_ACK_DELAY_WHOLE / 4;
	assert_int_equal(uccl_event_window(&f), (1 << 20) + (1 << 18));
	say.window = UINT64_MAX;
	assert_int_equal(uccl_event_window(&f), UINT64_MAX);
}

TEST_IN(rx_credit__passed_on, start, NULL)
{
	uccl_event_rx_credit(&f, 12345, 7, 5);
	assert_int_equal(say.credits, 1);
	assert_int_equal(say.credit, 12345);
	assert_int_equal(say.turn, 7);
}

/* PROTOCOL R65 */
TEST_IN(rx_credit__earlier_turn, start, NULL)
{
	uccl_event_rx_credit(&f, 12345, 2, 5);
	uccl_event_rx_credit(&f, UINT64_MAX, 1, 6);
	uccl_event_rx_credit(&f, 99999, 0, 6);
	assert_int_equal(say.credits, 1);
	assert_int_equal(f.credit.turn, 2);
	/* Within a turn it is the policy that knows. */
	uccl_event_rx_credit(&f, 12000, 2, 7);
	assert_int_equal(say.credits, 2);
	assert_int_equal(say.credit, 12000);
	assert_int_equal(say.turn, 2);
}

TEST_IN(loss__told_to_both, start, NULL)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_RACK, .path = 6, .bytes = 11};

	uccl_event_loss(&f, &loss, 5);
	assert_int_equal(say.losses, 1);
	assert_int_equal(say.loss.bytes, 11);
	assert_int_equal(say.path_losses, 1);
	assert_int_equal(say.path, 6);
	assert_int_equal(say.kind, UCCL_LOSS_RACK);
}

TEST_IN(grant__what_it_is_told, start, NULL)
{
	uint64_t turn = 3;

	f.credit.received = 50;
	f.credit.demand = 70;
	say.grant_value = 99;
	assert_int_equal(uccl_event_grant(&f, &turn, 5), 99);
	assert_int_equal(turn, 0);
	assert_int_equal(say.received, 50);
	assert_int_equal(say.demand, 70);
}

/* Of DEMANDs that overtake each other the later one says what leaves next. PROTOCOL R198 */
TEST_IN(rx_demand__message, start, NULL)
{
	uccl_event_rx_demand(&f, 1000, 0, 700, 5);
	assert_int_equal(f.credit.pull.rank.message, 700);
	uccl_event_rx_demand(&f, 2000, 0, 1500, 5);
	uccl_event_rx_demand(&f, 1000, 0, 700, 5);
	assert_int_equal(f.credit.pull.rank.message, 1500);
	uccl_event_rx_demand(&f, 2000, 0, 0, 5);
	assert_int_equal(f.credit.pull.rank.message, 0);
}

/* What has come, or never will, and what it is asked for beyond that. PROTOCOL R248 */
TEST_IN(asked__counts_from_what_came, start, NULL)
{
	struct uccl_credit_ops pulls = cr;
	struct uccl_pacer pacer;
	struct uccl_pull_cfg pull;

	uccl_event_asked(&f, 1000, 5);
	assert_int_equal(f.credit.pull.demand, 0);
	pulls.pull = uccl_credit_eqds.pull;
	pulls.pull(&(struct uccl_policy_cfg){.chunk_bytes = 1000}, &pull);
	uccl_pacer_init(&pacer, 1000000000);
	uccl_pull_init(&pacer, &f.credit.pull, &pull, 5);
	f.cfg.policy.credit = &pulls;
	f.cfg.pacer = &pacer;
	f.credit.received = 70;
	f.credit.peer_lost = 7;
	uccl_event_asked(&f, 100000, 5);
	assert_int_equal(f.credit.pull.demand, 100077);
	/* What it says itself is another matter. */
	assert_int_equal(f.credit.demand, 0);
	uccl_pull_fini(&pacer, &f.credit.pull);
	uccl_pacer_fini(&pacer);
}

/* PROTOCOL R64 */
TEST_IN(grant__no_policy, start_bare, NULL)
{
	uint64_t turn;

	uccl_event_rx_demand(&f, 1000, 0, 0, 5);
	assert_true(f.credit.due);
	assert_true(uccl_event_grant(&f, &turn, 5) == UINT64_MAX);
}

/* PROTOCOL R65 */
TEST_IN(grant__of_a_turn, start, NULL)
{
	struct uccl_credit_ops pulls = cr;
	uint64_t turn;

	pulls.pull = uccl_credit_auto.pull;
	f.cfg.policy.credit = &pulls;
	f.credit.pull.granted = 77;
	f.credit.pull.turn = 4;
	assert_int_equal(uccl_event_grant(&f, &turn, 5), 77);
	assert_int_equal(turn, 4);
	f.credit.pull.turn = 5;
	assert_true(uccl_event_grant(&f, &turn, 5) == UINT64_MAX);
	assert_int_equal(turn, 5);
}

TEST_IN(all__hooks_are_optional, start_bare, NULL)
{
	struct uccl_ack_info info = {.bytes = 7};
	const struct uccl_loss_info loss = {.bytes = 7};
	uint64_t turn;

	uccl_event_rx_ack(&f, 0, &info, 5);
	uccl_event_path_sample(&f, 0, 9, false, 5);
	uccl_event_path_landed(&f, 0, 5);
	uccl_event_rx_credit(&f, 9, 0, 5);
	uccl_event_loss(&f, &loss, 5);
	uccl_event_grant(&f, &turn, 5);
	assert_int_equal(say.acks + say.samples + say.landed + say.credits + say.losses + say.grants, 0);
}

/* --- rails. PROTOCOL R387 --- */

static struct uccl_rail rails[3];
static struct uccl_path rail_paths[6];
static uint16_t rail_usable[6];

/* Three rails with windows of 1000, 4000 and 8000 bytes, and six paths that leave by them in turn. */
static int start_rails(void **state)
{
	start(state);
	memset(rails, 0, sizeof(rails));
	for (uint16_t i = 0; i < 6; i++) {
		uccl_path_init(&rail_paths[i], i);
		rail_paths[i].rail = (uint8_t)(i % 3);
		rail_usable[i] = i;
	}
	rails[0].cc[0] = 1000;
	rails[1].cc[0] = 4000;
	rails[2].cc[0] = 8000;
	f.policy.rail = rails;
	f.policy.rails = 3;
	f.paths.list = rail_paths;
	f.paths.usable = rail_usable;
	f.paths.nusable = 6;
	f.paths.rails.usable = 7;
	f.chunk_bytes = 1000;
	return 0;
}

/* One whose window is full holds back no other, and the emptiest comes first. */
TEST_IN(rail__emptiest_window, start_rails, NULL)
{
	assert_int_equal(uccl_event_window(&f), 13000);
	assert_int_equal(uccl_event_rail(&f, 1000, 5), 2);
	rails[2].inflight = 4000;
	assert_int_equal(uccl_event_rail(&f, 1000, 5), 1);
	assert_int_equal(uccl_event_select_path(&f, 1000, 99, 5), 4);
	rails[1].inflight = 3000;
	assert_int_equal(uccl_event_rail(&f, 1000, 5), 2);
	rails[2].inflight = 8000;
	rails[0].inflight = 1;
	assert_int_equal(uccl_event_rail(&f, 1000, 5), 1);
	assert_int_equal(uccl_event_chunk_size(&f, 1000, 5), 1000);
	assert_int_equal(uccl_event_chunk_size(&f, 1001, 5), 0);
	/* What must leave without room leaves. */
	rails[1].inflight = 4000;
	assert_int_equal(uccl_event_rail(&f, 1000, 5), UCCL_RAIL_NONE);
	assert_in_range(uccl_event_select_path(&f, 1000, 99, 5), 0, 5);
}

/* One without paths in service gets nothing; nor one that waits for its time, which holds back itself only. */
TEST_IN(rail__usable_and_paced, start_rails, NULL)
{
	f.paths.rails.usable = 3;
	assert_int_equal(uccl_event_rail(&f, 1000, 5), 1);
	say.next = 100;
	rails[1].srtt_ns = 77;
	assert_int_equal(uccl_event_pacing_chunk(&f, 4, 1000, 5), 100);
	assert_int_equal(say.rtt_ns, 77);
	rails[1].pace.next_ns = 100;
	assert_int_equal(uccl_event_rail(&f, 1000, 99), 0);
	assert_int_equal(uccl_event_rail(&f, 1000, 100), 1);
}

/* One that loses all gets one packet at a time, until something of it is reported. */
TEST_IN(rail__in_doubt, start_rails, NULL)
{
	const struct uccl_loss_info loss = {.kind = UCCL_LOSS_RACK, .path = 5, .bytes = 11};

	for (int i = 1; i < UCCL_RAIL_LOSSES; i++)
		uccl_event_loss(&f, &loss, 5);
	rails[2].inflight = 1000;
	assert_true(uccl_event_rail_room(&f, 2, 1000, 5));
	uccl_event_loss(&f, &loss, 5);
	assert_false(uccl_event_rail_room(&f, 2, 1000, 5));
	assert_true(uccl_event_rail_room(&f, 1, 4000, 5));
	rails[2].inflight = 0;
	assert_true(uccl_event_rail_room(&f, 2, 1000, 5));
	assert_false(uccl_event_rail_room(&f, 2, 1001, 5));
	rails[2].losses = 0;
	assert_true(uccl_event_rail_room(&f, 2, 8000, 5));
}

/* Where all are full, what must leave goes by a rail that works, as long as there is one. PROTOCOL R401 */
TEST_IN(rail__full_and_doubted, start_rails, NULL)
{
	for (int i = 0; i < 3; i++)
		rails[i].inflight = 9000;
	f.paths.rails.trial[0].doubted = true;
	rails[1].losses = UCCL_RAIL_LOSSES;
	assert_int_equal(rail_paths[uccl_event_select_path(&f, 1000, 99, 5)].rail, 2);
	f.paths.rails.trial[2].doubted = true;
	assert_int_equal(rail_paths[uccl_event_select_path(&f, 1000, 99, 5)].rail, 0);
	f.paths.rails.trial[0].doubted = f.paths.rails.trial[2].doubted = false;
}

/* One that answers and loses long chunks gets one packet at a time. PROTOCOL R401 */
TEST_IN(rail__doubted, start_rails, NULL)
{
	f.paths.rails.trial[2].doubted = true;
	assert_true(uccl_event_rail_room(&f, 2, 1000, 5));
	rails[2].inflight = 1000;
	assert_false(uccl_event_rail_room(&f, 2, 1000, 5));
	f.paths.rails.trial[2].doubted = false;
	assert_true(uccl_event_rail_room(&f, 2, 1000, 5));
}

TESTS_MAIN

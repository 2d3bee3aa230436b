/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lanes/lane_channel.h"

bool uccl_lane_channel_init(struct uccl_lane_channel *l)
{
	*l = (struct uccl_lane_channel){.wake = NULL};
	TAILQ_INIT(&l->later);
	if (uccl_mailbox_init(&l->down, UCCL_LANE_CHANNEL_CMDS) && uccl_mailbox_init(&l->up, UCCL_LANE_CHANNEL_CMDS))
		return true;
	uccl_lane_channel_fini(l);
	return false;
}

void uccl_lane_channel_fini(struct uccl_lane_channel *l)
{
	uccl_mailbox_fini(&l->down);
	uccl_mailbox_fini(&l->up);
}

void lane_channel_late(struct uccl_lane_channel *l, uint64_t late_ns)
{
	bool trial = atomic_load_explicit(&l->trial, memory_order_relaxed) !=
		     atomic_load_explicit(&l->tried, memory_order_relaxed);
	uint64_t on_time = trial ? UCCL_LANE_ON_TIME_TRIAL_NS : UCCL_LANE_ON_TIME_NS;

	if (late_ns > on_time)
		atomic_fetch_add(&l->late_ns, late_ns - on_time);
}

void lane_channel_up(struct uccl_lane_channel *l)
{
	uint32_t trial = atomic_load_explicit(&l->trial, memory_order_relaxed);

	if (trial != atomic_load_explicit(&l->tried, memory_order_relaxed))
		atomic_store(&l->tried, trial);
}

void lane_channel_try_wake(struct uccl_lane_channel *l)
{
	atomic_fetch_add(&l->trial, 1);
	if (l->wake)
		l->wake(l->arg, false);
}

bool lane_channel_tried(const struct uccl_lane_channel *l)
{
	return atomic_load(&l->tried) == atomic_load_explicit(&l->trial, memory_order_relaxed);
}

uint64_t lane_channel_lateness(struct uccl_lane_channel *l)
{
	return atomic_load_explicit(&l->late_ns, memory_order_relaxed) ? atomic_exchange(&l->late_ns, 0) : 0;
}

/* Nobody waits for it: the lane reads it with what comes next. Too many of them would fill the box. PROTOCOL R185 */
static bool may_stay_unread(struct uccl_lane_channel *l, const struct uccl_lane_cmd *cmd)
{
	if (cmd->kind != UCCL_LANE_RX_POST && cmd->kind != UCCL_LANE_RX_CANCEL)
		return false;
	if (uccl_mailbox_room(&l->down) <= UCCL_LANE_CHANNEL_CMDS - UCCL_LANE_CHANNEL_UNREAD)
		return false;
	/*
	 * Either we see that the lane waits for it, or the lane sees the command: both change one number, and who does
	 * so later sees what the other did before. PROTOCOL R267
	 */
	return !atomic_fetch_add(&l->nunplaced, 0);
}

/* Half of the other box is for answers. */
static bool channel_put(struct uccl_lane_channel *l, const struct uccl_lane_cmd *cmd, bool answer)
{
	if (l->unanswered + answer > UCCL_LANE_CHANNEL_CMDS / 2 || !uccl_mailbox_put(&l->down, cmd))
		return false;
	l->unanswered += answer;
	if (l->wake && !may_stay_unread(l, cmd))
		l->wake(l->arg, false);
	return true;
}

bool lane_channel_try(struct uccl_lane_channel *l, const struct uccl_lane_cmd *cmd, bool answer)
{
	return TAILQ_EMPTY(&l->later) && channel_put(l, cmd, answer);
}

/* Of RX_POST nothing comes back. */
static bool cmd_put(struct uccl_lane_channel *l, const struct uccl_lane_cmd_waiting *n)
{
	return channel_put(l, &n->cmd, n->cmd.kind != UCCL_LANE_RX_POST);
}

void lane_channel_send(struct uccl_lane_channel *l, struct uccl_lane_cmd_waiting *n)
{
	if (!TAILQ_EMPTY(&l->later) || !cmd_put(l, n))
		TAILQ_INSERT_TAIL(&l->later, n, link);
}

void lane_channel_flush(struct uccl_lane_channel *l)
{
	struct uccl_lane_cmd_waiting *n;

	while ((n = TAILQ_FIRST(&l->later)) && cmd_put(l, n))
		TAILQ_REMOVE(&l->later, n, link);
}

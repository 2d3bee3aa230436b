/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/units.h"
#include "engine/engine.h"
#include "lab.h"

struct lab_engines lab = {.now = UCCL_NS_PER_MS};

static struct uccl_rng rng;

static void sent(struct uccl_op *op)
{
	lab.under_way[0]--;
	lab.done += !op->err;
	uccl_op_put(lab.engine[0], op);
}

static void received(struct uccl_op *op)
{
	lab.under_way[1]--;
	uccl_op_put(lab.engine[1], op);
}

static bool post(int side)
{
	for (; lab.under_way[side] < lab.window; lab.under_way[side]++) {
		struct uccl_op *op = uccl_op_get(lab.engine[side]);
		uint8_t *buf = lab.memory[side] + (size_t)(lab.next[side]++ % lab.window) * lab.message;

		if (!op)
			return false;
		op->type = side ? UCCL_OP_RECV : UCCL_OP_SEND;
		op->iov[0] = (struct iovec){ buf, lab.message };
		op->iov_count = 1;
		op->len = lab.message;
		op->done = side ? received : sent;
		op->peer = side ? NULL : lab.peer;
		if (side ? uccl_engine_recv(lab.engine[1], op, lab.now) : uccl_engine_send(lab.engine[0], op, lab.now))
			return false;
	}
	return true;
}

bool lab_turn(int side)
{
	bool ok = post(side);

	uccl_engine_poll(lab.engine[side], lab.now);
	return ok;
}

__attribute__((noinline)) bool cost_sender(void)
{
	bool ok = lab_turn(0);

	__asm__ volatile("");
	return ok;
}

__attribute__((noinline)) bool cost_receiver(void)
{
	bool ok = lab_turn(1);

	__asm__ volatile("# not the same function");
	return ok;
}

bool lab_engine_open(int side, struct uccl_nic *nic, const struct uccl_config *cfg)
{
	struct uccl_engine_attr attr = { .nic = nic, .config = cfg, .random = lab_random, .random_arg = &rng };

	if (!side)
		uccl_rng_seed(&rng, 3);
	lab.memory[side] = calloc((size_t)lab.window, lab.message);
	if (!nic || !lab.memory[side])
		return false;
	/* Memory that was never written is one page of zeros for all. */
	memset(lab.memory[side], 1 + side, (size_t)lab.window * lab.message);
	if (uccl_engine_open(&attr, lab.now, &lab.engine[side]))
		return false;
	if (side)
		lab.peer = uccl_engine_peer(lab.engine[0], uccl_engine_addr(lab.engine[1]), true);
	return !side || lab.peer;
}

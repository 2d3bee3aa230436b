/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Matching against a model that knows nothing but libfabric's rules: two arrays in the order of posting and of
 * arrival. The input is a list of receives, messages, cancels, peeks, claims and claimed receives.
 */
#include "input.h"

#include "msg/recv/match.h"
#include "msg/msg_ep.h"
#include "msg/record.h"

#define ITEMS 64
#define STEP 6 /* bytes of the input for one step */

struct model {
	struct uccl_op *posted[ITEMS];
	struct uccl_msg_rx *unexpected[ITEMS];
	int nposted, nunexpected;
};

static bool fits(const struct uccl_op *op, const struct uccl_msg_rx *rx)
{
	bool tagged = rx->env.flags & UCCL_ENV_TAGGED;

	if (tagged != !!(op->flags & UCCL_OPF_TAGGED) || (op->flags & UCCL_OPF_DIRECTED && op->peer != rx->peer))
		return false;
	return !tagged || (op->tag & ~op->recv.ignore) == (rx->env.tag & ~op->recv.ignore);
}

static struct uccl_op *model_posted(const struct model *m, const struct uccl_msg_rx *rx)
{
	for (int i = 0; i < m->nposted; i++)
		if (fits(m->posted[i], rx))
			return m->posted[i];
	return NULL;
}

static struct uccl_msg_rx *model_unexpected(const struct model *m, const struct uccl_op *op)
{
	for (int i = 0; i < m->nunexpected; i++)
		if (fits(op, m->unexpected[i]))
			return m->unexpected[i];
	return NULL;
}

static void posted_remove(struct model *m, const struct uccl_op *op)
{
	for (int i = 0; i < m->nposted; i++)
		if (m->posted[i] == op) {
			memmove(m->posted + i, m->posted + i + 1, (size_t)(--m->nposted - i) * sizeof(*m->posted));
			return;
		}
	assert(!"a receive that was never posted");
}

static void unexpected_remove(struct model *m, const struct uccl_msg_rx *rx)
{
	for (int i = 0; i < m->nunexpected; i++)
		if (m->unexpected[i] == rx) {
			memmove(m->unexpected + i, m->unexpected + i + 1,
				(size_t)(--m->nunexpected - i) * sizeof(*m->unexpected));
			return;
		}
	assert(!"a message that was never listed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct uccl_peer peers[3];
	struct uccl_op ops[ITEMS], *op;
	struct uccl_msg_rx rxs[ITEMS], *rx;
	struct uccl_match match;
	struct model model = { .nposted = 0 };
	int nops = 0, nrxs = 0;

	memset(ops, 0, sizeof(ops));
	memset(rxs, 0, sizeof(rxs));
	uccl_match_init(&match);
	for (int i = 0; i < 3; i++)
		for (int t = 0; t < UCCL_KINDS; t++)
			TAILQ_INIT(&peers[i].directed[t]);
	for (; size >= STEP; data += STEP, size -= STEP) {
		struct uccl_peer *peer = &peers[data[1] % 3];
		bool tagged = data[2] & 1;

		switch (data[0] % 4) {
		case 0: /* a receive */
			if (nops == ITEMS)
				goto out;
			op = &ops[nops++];
			op->flags = (tagged ? UCCL_OPF_TAGGED : 0) | (data[2] & 2 ? UCCL_OPF_DIRECTED : 0);
			op->peer = peer;
			op->tag = data[3];
			op->recv.ignore = data[4];
			op->context = op;
			rx = uccl_match_unexpected(&match, op);
			assert(rx == model_unexpected(&model, op));
			if (rx && data[5] & 1) {
				/* Peeked at and claimed: found by its context alone, and only once. */
				uccl_match_claim(&match, rx, op->context);
				unexpected_remove(&model, rx);
				assert(uccl_match_claimed(&match, op->context) == rx);
				assert(!uccl_match_claimed(&match, op->context));
			} else if (rx) {
				uccl_match_unlist(&match, rx);
				unexpected_remove(&model, rx);
			} else {
				uccl_match_post(&match, op);
				model.posted[model.nposted++] = op;
			}
			break;
		case 1:
		case 2: /* a message */
			if (nrxs == ITEMS)
				goto out;
			rx = &rxs[nrxs++];
			rx->env.flags = tagged ? UCCL_ENV_TAGGED : 0;
			rx->peer = peer;
			rx->env.tag = data[3];
			op = uccl_match_posted(&match, tagged, peer, rx->env.tag);
			assert(op == model_posted(&model, rx));
			if (op) {
				uccl_match_unpost(&match, op);
				posted_remove(&model, op);
			} else {
				uccl_match_list(&match, rx);
				assert(rx->match.listed);
				model.unexpected[model.nunexpected++] = rx;
			}
			break;
		default: /* a cancel */
			if (!model.nposted)
				break;
			op = model.posted[data[1] % model.nposted];
			uccl_match_unpost(&match, op);
			posted_remove(&model, op);
			break;
		}
	}
out:
	/* What is left is what the model has left, in its order; of a peer's own, too. */
	for (int t = 0; t < 2; t++) {
		struct uccl_op *own[3];
		int i = 0;

		for (int p = 0; p < 3; p++)
			own[p] = TAILQ_FIRST(&peers[p].directed[t]);
		TAILQ_FOREACH(op, &match.posted[t], link) {
			while (!!(model.posted[i]->flags & UCCL_OPF_TAGGED) != t)
				i++;
			assert(op == model.posted[i++]);
			if (op->flags & UCCL_OPF_DIRECTED) {
				assert(op == own[op->peer - peers]);
				own[op->peer - peers] = TAILQ_NEXT(op, recv.match.directed_link);
			}
		}
		for (int p = 0; p < 3; p++)
			assert(!own[p]);
	}
	uccl_match_fini(&match);
	return 0;
}

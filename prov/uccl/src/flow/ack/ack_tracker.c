/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "flow/ack/ack_tracker.h"

#include <stdlib.h>
#include <string.h>

bool uccl_ack_tracker_init(struct uccl_ack_tracker *o, uint16_t npaths, uint64_t now)
{
	memset(o, 0, sizeof(*o));
	o->npaths = npaths;
	o->at = UCCL_NEVER;
	o->sent_ns = now;
	o->paths = calloc(npaths, sizeof(*o->paths));
	o->dirty = calloc(npaths, sizeof(*o->dirty));
	return o->paths && o->dirty;
}

void uccl_ack_tracker_fini(struct uccl_ack_tracker *o)
{
	free(o->paths);
	free(o->dirty);
	o->paths = NULL;
	o->dirty = NULL;
}

void uccl_ack_tracker_write(struct uccl_ack_tracker *o, uint16_t path, uint64_t csn, uint64_t came)
{
	struct uccl_rx_path *r = &o->paths[path];

	if (csn + 1 <= r->high_csn)
		return;
	r->high_csn = csn + 1;
	r->write_ns = came;
	uccl_ack_tracker_mark(o, path);
	r->write_dirty = true;
}

bool uccl_ack_tracker_seen(struct uccl_ack_tracker *o, uint16_t path, uint64_t csn, bool old)
{
	struct uccl_rx_path *r = &o->paths[path];

	if (csn + 1 > r->seen_csn && !old) {
		r->seen_csn = csn + 1;
		return false;
	}
	return csn + 1 < r->seen_csn;
}

void uccl_ack_tracker_dup(struct uccl_ack_tracker *o, bool excused, uint64_t now)
{
	if (!excused)
		o->dups++;
	o->slots++;
	uccl_ack_tracker_until(o, now + 1);
}

bool uccl_ack_tracker_answer(struct uccl_ack_tracker *o, uint16_t path, uint64_t gap_ns, uint64_t reacted_ns,
			     uint64_t now)
{
	bool lost = o->answer_ns && o->answer_ns >= reacted_ns;
	uint16_t i = 0;

	while (i < o->ndirty && o->dirty[i] != path)
		i++;
	if (i < o->ndirty) {
		memmove(o->dirty + 1, o->dirty, i * sizeof(*o->dirty));
		o->dirty[0] = path;
	}
	o->now = o->answer = true;
	if (o->answer_ns && now - o->answer_ns < gap_ns)
		return false;
	o->answer_ns = now;
	return lost;
}

void uccl_ack_tracker_answer_more(struct uccl_ack_tracker *o, uint8_t more)
{
	o->answers_more = more;
}

bool uccl_ack_tracker_take_answer(struct uccl_ack_tracker *o)
{
	if (!o->answers_more)
		return false;
	o->answers_more--;
	return true;
}

void uccl_ack_tracker_again(struct uccl_ack_tracker *o, uint64_t reacted_ns)
{
	for (uint16_t i = 0; i < o->npaths; i++) {
		struct uccl_rx_path *r = &o->paths[i];
		bool packet = r->arrived_ns && r->arrived_ns >= reacted_ns;
		bool write = r->high_csn && r->write_ns >= reacted_ns;

		if (packet || write)
			uccl_ack_tracker_mark(o, i);
		r->dirty |= packet;
		r->write_dirty |= write;
	}
}

static uint16_t ack_tracker_marks(const struct uccl_rx_path *r)
{
	return (uint16_t)((r->marked + UCCL_MARK_BYTES - 1) / UCCL_MARK_BYTES);
}

void uccl_ack_tracker_tell(struct uccl_ack_tracker *o, struct uccl_ack *ack, uint32_t lines, bool sure, uint64_t now)
{
	uint16_t kept = 0;

	ack->npaths = 0;
	for (uint16_t i = 0; i < o->ndirty; i++) {
		struct uccl_rx_path *r = &o->paths[o->dirty[i]];

		if ((uint32_t)ack->npaths + r->dirty + r->write_dirty > lines) {
			if (sure)
				o->dirty[kept++] = o->dirty[i];
			continue;
		}
		if (r->dirty)
			ack->paths[ack->npaths++] = (struct uccl_ack_path){
				.path = o->dirty[i],
				.seq = r->high_seq,
				.echo = r->echo,
				.delay = (uint32_t)((now - r->arrived_ns) >> UCCL_TS_SHIFT),
				.marked = ack_tracker_marks(r),
			};
		if (r->write_dirty)
			ack->paths[ack->npaths++] = (struct uccl_ack_path){
				.path = o->dirty[i],
				.write = true,
				.seq = (uint32_t)(r->high_csn - 1),
				.delay = (uint32_t)((now - r->write_ns) >> UCCL_TS_SHIFT),
				.marked = ack_tracker_marks(r),
			};
		if (sure)
			r->dirty = r->write_dirty = false;
	}
	ack->dups = o->dups;
	ack->msg_limit = o->msg_limit;
	ack->rcv_short = o->rcv_short;
	if (!sure)
		return;
	o->ndirty = kept;
	o->slots = 0;
	o->sent_ns = now;
	o->now = o->passed = o->answer = false;
	o->at = UCCL_NEVER;
}

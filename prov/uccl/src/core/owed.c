/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "core/owed.h"

#include <stdlib.h>
#include <string.h>

bool uccl_owed_init(struct uccl_owed *o, uint16_t npaths, uint64_t now)
{
	memset(o, 0, sizeof(*o));
	o->npaths = npaths;
	o->at = UCCL_NEVER;
	o->told_ns = now;
	o->paths = calloc(npaths, sizeof(*o->paths));
	o->dirty = calloc(npaths, sizeof(*o->dirty));
	return o->paths && o->dirty;
}

void uccl_owed_fini(struct uccl_owed *o)
{
	free(o->paths);
	free(o->dirty);
	o->paths = NULL;
	o->dirty = NULL;
}

void uccl_owed_write(struct uccl_owed *o, uint16_t path, uint64_t csn, uint64_t came)
{
	struct uccl_rx_path *r = &o->paths[path];

	if (csn + 1 <= r->high_csn)
		return;
	r->high_csn = csn + 1;
	r->write_ns = came;
	uccl_owed_mark(o, path);
	r->write_dirty = true;
}

bool uccl_owed_seen(struct uccl_owed *o, uint16_t path, uint64_t csn, bool late)
{
	struct uccl_rx_path *r = &o->paths[path];

	if (csn + 1 > r->seen_csn && !late) {
		r->seen_csn = csn + 1;
		return false;
	}
	return csn + 1 < r->seen_csn;
}

void uccl_owed_dup(struct uccl_owed *o, bool excused, uint64_t now)
{
	if (!excused)
		o->dups++;
	o->chunks++;
	uccl_owed_until(o, now + 1);
}

bool uccl_owed_answer(struct uccl_owed *o, uint16_t path, uint64_t gap_ns, uint64_t reacted_ns, uint64_t now)
{
	bool lost = o->answer_ns && o->answer_ns >= reacted_ns;
	uint16_t i = 0;

	while (i < o->ndirty && o->dirty[i] != path)
		i++;
	if (i < o->ndirty) {
		memmove(o->dirty + 1, o->dirty, i * sizeof(*o->dirty));
		o->dirty[0] = path;
	}
	o->now = true;
	if (o->answer_ns && now - o->answer_ns < gap_ns)
		return false;
	o->answer_ns = now;
	return lost;
}

void uccl_owed_answer_more(struct uccl_owed *o, uint8_t more)
{
	o->answers_more = more;
}

bool uccl_owed_take_answer(struct uccl_owed *o)
{
	if (!o->answers_more)
		return false;
	o->answers_more--;
	return true;
}

void uccl_owed_again(struct uccl_owed *o, uint64_t reacted_ns)
{
	for (uint16_t i = 0; i < o->npaths; i++) {
		struct uccl_rx_path *r = &o->paths[i];
		bool packet = r->arrived_ns && r->arrived_ns >= reacted_ns;
		bool write = r->high_csn && r->write_ns >= reacted_ns;

		if (packet || write)
			uccl_owed_mark(o, i);
		r->dirty |= packet;
		r->write_dirty |= write;
	}
}

static uint16_t owed_marks(const struct uccl_rx_path *r)
{
	return (uint16_t)((r->marked + UCCL_MARK_BYTES - 1) / UCCL_MARK_BYTES);
}

void uccl_owed_tell(struct uccl_owed *o, struct uccl_ack *ack, uint32_t lines, bool sure, uint64_t now)
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
				.marked = owed_marks(r),
			};
		if (r->write_dirty)
			ack->paths[ack->npaths++] = (struct uccl_ack_path){
				.path = o->dirty[i],
				.write = true,
				.seq = (uint32_t)(r->high_csn - 1),
				.delay = (uint32_t)((now - r->write_ns) >> UCCL_TS_SHIFT),
				.marked = owed_marks(r),
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
	o->chunks = 0;
	o->told_ns = now;
	o->now = false;
	o->at = UCCL_NEVER;
}

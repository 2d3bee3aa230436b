/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "msg/line.h"

bool uccl_line_init(struct uccl_line *l)
{
	*l = (struct uccl_line){ .wake = NULL };
	TAILQ_INIT(&l->later);
	if (uccl_mailbox_init(&l->down, UCCL_LINE_LETTERS) && uccl_mailbox_init(&l->up, UCCL_LINE_LETTERS))
		return true;
	uccl_line_fini(l);
	return false;
}

void uccl_line_fini(struct uccl_line *l)
{
	uccl_mailbox_fini(&l->down);
	uccl_mailbox_fini(&l->up);
}

/* Nobody waits for it: the lane reads it with what comes next. Too many of them would fill the box. PROTOCOL R185 */
static bool may_lie(struct uccl_line *l, const struct uccl_letter *letter)
{
	if (letter->kind != UCCL_LETTER_LAND && letter->kind != UCCL_LETTER_FORGET)
		return false;
	if (uccl_mailbox_room(&l->down) <= UCCL_LINE_LETTERS - UCCL_LINE_LIE)
		return false;
	/*
	 * Either we see that the lane waits for it, or the lane sees the letter: both change one number, and who does
	 * so later sees what the other did before. PROTOCOL R267
	 */
	return !atomic_fetch_add(&l->parked, 0);
}

/* Half of the other box is for answers. */
static bool line_put(struct uccl_line *l, const struct uccl_letter *letter, bool answer)
{
	if (l->unanswered + answer > UCCL_LINE_LETTERS / 2 || !uccl_mailbox_put(&l->down, letter))
		return false;
	l->unanswered += answer;
	if (l->wake && !may_lie(l, letter))
		l->wake(l->arg, false);
	return true;
}

bool msg_line_try(struct uccl_line *l, const struct uccl_letter *letter, bool answer)
{
	return TAILQ_EMPTY(&l->later) && line_put(l, letter, answer);
}

/* Of LAND nothing comes back. */
static bool note_put(struct uccl_line *l, const struct uccl_note *n)
{
	return line_put(l, &n->letter, n->letter.kind != UCCL_LETTER_LAND);
}

void msg_line_say(struct uccl_line *l, struct uccl_note *n)
{
	if (!TAILQ_EMPTY(&l->later) || !note_put(l, n))
		TAILQ_INSERT_TAIL(&l->later, n, link);
}

void msg_line_go(struct uccl_line *l)
{
	struct uccl_note *n;

	while ((n = TAILQ_FIRST(&l->later)) && note_put(l, n))
		TAILQ_REMOVE(&l->later, n, link);
}

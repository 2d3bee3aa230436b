/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nic/gso.h"

#include "nic/ifaddr.h"

static bool may_join(const struct uccl_tx *t)
{
	return t->kind == UCCL_TX_PACKET && !t->single;
}

/* From v[k] on, packets that their flow made from the one before, so that nothing of kind, length and way differs. */
static int follow(const struct uccl_tx *v, int k, int n)
{
	while (k < n && v[k].burst == UCCL_BURST_FOLLOWS && v[k].cookie == v[k - 1].cookie && v[k].to == v[k - 1].to)
		k++;
	return k;
}

/* To one place, by one way, and in one class. */
static bool goes_alike(const struct uccl_tx *a, const struct uccl_tx *b)
{
	return a->label == b->label && a->ect == b->ect && uccl_tx_control_class(a) == uccl_tx_control_class(b) &&
	       (a->to == b->to || uccl_ifaddr_equal(a->to, b->to));
}

int uccl_train_len(const struct uccl_tx *v, int n, uint32_t bytes)
{
	uint32_t size = uccl_tx_len(&v[0]), len;
	int k;

	if (!bytes || n < 2 || !size || size > UCCL_TRAIN_PACKET || !may_join(&v[0]))
		return 1;
	n = (int)uccl_min(n, bytes / size + 1);
	for (k = follow(v, 1, n); k < n; k = follow(v, k + 1, n)) {
		len = uccl_tx_len(&v[k]);
		if (!len || len > size || (uint32_t)k * size + len > bytes || !may_join(&v[k]) ||
		    !goes_alike(&v[0], &v[k]))
			return k;
		if (len < size)
			return k + 1;
	}
	/* The last of them may have had room only if it was short. */
	return (int)uccl_min(k, uccl_max(bytes / size, 1));
}

int uccl_train_rows(const struct uccl_tx *v, int n, uint32_t most, uint32_t bytes, uint32_t *packets)
{
	uint32_t size = uccl_tx_len(&v[0]), len = size;
	int k;

	*packets = v[0].row + 1u;
	if (!bytes || !size || size > UCCL_TRAIN_PACKET || !may_join(&v[0]))
		return 1;
	for (k = 1; k < n && len == size; k++) {
		len = uccl_tx_len(&v[k]);
		if (!len || len > size || (len < size && v[k].row) || *packets + v[k].row + 1u > most ||
		    (*packets + v[k].row) * size + len > bytes || !may_join(&v[k]) || !goes_alike(&v[0], &v[k]))
			return k;
		*packets += v[k].row + 1u;
	}
	return k;
}

bool uccl_train_hit(struct uccl_train_walk *w, const struct uccl_tx *v, int n, int i, uint32_t bytes,
		    enum uccl_train_fault fault)
{
	if (fault == UCCL_TRAIN_WHOLE)
		return false;
	if (i >= w->end) {
		w->first = i;
		w->end = i + uccl_train_len(&v[i], n - i, bytes);
		w->equal = uccl_tx_len(&v[w->end - 1]) == uccl_tx_len(&v[i]);
	}
	if (w->end - w->first == 1)
		return false;
	switch (fault) {
	case UCCL_TRAIN_FIRST:
		return i > w->first;
	case UCCL_TRAIN_LAST:
		return i < w->end - 1;
	case UCCL_TRAIN_EQUAL:
		return w->equal;
	default:
		return true;
	}
}

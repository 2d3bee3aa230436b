/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Collectives as point-to-point messages: what each member sends to whom, and when, as a function of its rank. The
 * schedules are the usual ones: dissemination (Hensgen, Finkel and Manber 1988) for barriers, binomial trees for
 * broadcast and reduction, a ring for allgather, pairs for alltoall, the root one by one for scatter and gather. An
 * allreduce is a reduction to member 0 and a broadcast, so all members get the same bits.
 */
#ifndef UCCL_MSG_COLLECTIVE_SCHEDULE_H
#define UCCL_MSG_COLLECTIVE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* libfabric's numbers (api/transfer/coll.c compares). */
enum uccl_coll_kind {
	UCCL_BARRIER, UCCL_BROADCAST, UCCL_ALLTOALL, UCCL_ALLREDUCE, UCCL_ALLGATHER, UCCL_REDUCE_SCATTER, UCCL_REDUCE,
	UCCL_SCATTER, UCCL_GATHER, UCCL_COLLS
};

/* One member's part in a collective. Memory belongs to the caller and stays until all steps are done. */
struct uccl_coll_plan {
	enum uccl_coll_kind kind;
	uint32_t n, rank, root;	/* members; `root` where there is one */
	uint64_t len;		/* bytes of one member's part: of everything in broadcast and reductions */
	const uint8_t *src;	/* ALLTOALL, REDUCE_SCATTER, at the root SCATTER: n parts. Not of BARRIER, BROADCAST */
	uint8_t *dst;		/* ALLTOALL, ALLGATHER, at the root GATHER: n parts. Unused if nothing comes here */
	uint8_t *acc, *tmp;	/* uccl_coll_acc() and uccl_coll_tmp() bytes; acc may be NULL if that is 0 */
};

struct uccl_coll_step {
	int64_t to, from;	/* members; -1: none */
	const uint8_t *send;
	uint8_t *recv;
	uint64_t len;		/* of each */
	bool wait;		/* not before all earlier steps are done */
	bool combine;		/* what came is combined into uccl_coll_total() before anything else happens */
	uint8_t phase;		/* messages between the same two members in different phases must not meet */
};

/* Bytes of memory of its own that this member needs: for what it has added up, and for what comes to be added. */
uint64_t uccl_coll_acc(const struct uccl_coll_plan *p);
uint64_t uccl_coll_tmp(const struct uccl_coll_plan *p);
/* Where a reduction adds up, and how many bytes that are. */
uint8_t *uccl_coll_total(const struct uccl_coll_plan *p, uint64_t *len);

/* Bytes that this member has to give, and that it gets: of BROADCAST the same memory, which the root gives. */
uint64_t uccl_coll_given(const struct uccl_coll_plan *p);
uint64_t uccl_coll_got(const struct uccl_coll_plan *p);

/* Before the first step, and after the last: what stays with this member. */
void uccl_coll_begin(const struct uccl_coll_plan *p);
void uccl_coll_end(const struct uccl_coll_plan *p);
/* Step i; it may have neither `to` nor `from`. False: there are no more. */
bool uccl_coll_step(const struct uccl_coll_plan *p, uint32_t i, struct uccl_coll_step *s);

#endif

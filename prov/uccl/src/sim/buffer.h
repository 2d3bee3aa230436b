/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Buffers of the applications. One that comes back is overwritten at once, as an application would, and looked at again
 * up to twelve seconds later: whoever still writes into it, or still sends from it, is found out.
 */
#ifndef UCCL_SIM_BUFFER_H
#define UCCL_SIM_BUFFER_H

#include "sim/state.h"

/* The application's at first, with canaries around it. NULL: no memory. */
uint8_t *sim_buffer_new(struct uccl_sim_world *w, uint64_t len);
void sim_buffer_free(struct uccl_sim_world *w, uint8_t *buf);
/* The application has the buffer back and uses it for something else. It is freed after the last look. */
void sim_buffer_reuse(struct uccl_sim_world *w, uint8_t *buf, uint64_t len);
/* Cut a buffer into n pieces at random places; some may be empty. */
void sim_op_pieces(struct uccl_sim_world *w, struct uccl_op *op, uint8_t *buf, uint64_t len, uint8_t n);
void sim_buffers_fini(struct uccl_sim_world *w);

#endif

/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef UCCL_UTIL_SIM_FABRIC_H
#define UCCL_UTIL_SIM_FABRIC_H

/* `uccl_sim fabric ...`: argv[0] is "fabric". The exit status. */
int uccl_sim_fabric(int argc, char **argv);

#endif

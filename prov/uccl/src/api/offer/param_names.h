/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Names of FI_UCCL_* variables in the environment that the provider does not know. */
#ifndef UCCL_API_PARAM_NAMES_H
#define UCCL_API_PARAM_NAMES_H

/* Warn of each variable in the environment that has no effect, and say which name is like it. */
void uccl_params_check_names(void);

#endif

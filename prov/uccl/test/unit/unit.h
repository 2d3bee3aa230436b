/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What every unit test includes. A test, and a function of a table, need not use all that it is handed. */
#ifndef UCCL_TEST_UNIT_UNIT_H
#define UCCL_TEST_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif

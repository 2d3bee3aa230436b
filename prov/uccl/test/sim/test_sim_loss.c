/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Loss packet by packet, exhaustively. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "holds.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLDS_PACKET("loss-eager"),
		HOLDS_ASYNC("loss-eager"),
		HOLDS_PACKET("loss-rendezvous"),
		HOLDS_ASYNC("loss-rendezvous"),
		HOLDS_WRITE("loss-write"),
		HOLDS_PACKET("loss-handshake"),
		HOLDS("loss-credit", ""),
		HOLDS("loss-credit", "credit=auto"),
		HOLDS_WRITE("loss-handshake"),
		HOLDS_BOTH("last-k"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

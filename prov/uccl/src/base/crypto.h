/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The functions of libsodium that base/mac.c calls. The library is loaded at run time, and only if a job asks for keys
 * (api/lib/sodium.c): the provider does without it otherwise.
 */
#ifndef UCCL_BASE_CRYPTO_H
#define UCCL_BASE_CRYPTO_H

#include <sodium.h>

/* X(name): a function of libsodium is crypto_<name>, and the field that points to it <name>. */
#define UCCL_CRYPTO(X)                                                                                                 \
	X(stream_chacha20_ietf)                                                                                        \
	X(onetimeauth_init)                                                                                            \
	X(onetimeauth_update)                                                                                          \
	X(onetimeauth_final)                                                                                           \
	X(generichash)                                                                                                 \
	X(secretbox_easy)                                                                                              \
	X(secretbox_open_easy)

#define UCCL_CRYPTO_FIELD(name) __typeof__(crypto_##name) *name;
struct uccl_crypto {
	UCCL_CRYPTO(UCCL_CRYPTO_FIELD)
};

/* From now on codes and keys are made by these functions. Called before any engine with security is opened. */
void uccl_crypto_use(const struct uccl_crypto *functions);

#endif

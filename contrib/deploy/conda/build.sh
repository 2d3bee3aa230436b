#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
set -eu
./autogen.sh
./configure --prefix="$PREFIX" --with-provdir="$PREFIX/lib/libfabric"
make -j"${CPU_COUNT:-2}"
make install

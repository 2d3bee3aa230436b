#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Make ./configure from configure.ac.
set -e
cd "$(dirname "$0")"
for tool in autoreconf:autoconf automake:automake libtoolize:libtool pkg-config:pkg-config; do
	command -v "${tool%:*}" >/dev/null || missing="${missing-} ${tool#*:}"
done
[ -z "${missing-}" ] || {
	echo "autogen.sh: these Debian packages are missing:$missing; see util/install-deps" >&2
	exit 1
}
mkdir -p config
exec autoreconf -if

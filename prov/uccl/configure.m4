dnl SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
dnl
dnl What configure must know of the provider. Two trees read this file: this project's configure.ac, and the configure.ac of
dnl libfabric, where prov/uccl is a copy of this folder (contrib/intree has the lines that libfabric needs).

dnl The version number, for a build inside libfabric's tree. contrib/check-version writes and compares it.
m4_define([UCCL_TREE_VERSION], [0.1])

dnl Headers of libibverbs, rdma-core 33 or later; the library itself is loaded when one is there. Sets $have_verbs.
AC_DEFUN([UCCL_CHECK_VERBS], [
	AC_CHECK_TYPE([struct ibv_gid_entry], [have_verbs=yes], [have_verbs=no], [[#include <infiniband/verbs.h>]])
])

dnl UCCL_VERSION_PART(VERSION, N): part N of MAJOR.MINOR
m4_define([UCCL_VERSION_PART], [m4_bregexp([$1], [^\([0-9]+\)\.\([0-9]+\)$], [[\$2]])])

dnl Called by libfabric: $1 if the provider can be built, $2 if not. libsodium is loaded when a job asks for keys, so only its
dnl header is needed and nothing is linked to it. --enable-uccl=PATH names where the header is installed.
AC_DEFUN([FI_UCCL_CONFIGURE], [
	uccl_happy=0
	AC_ARG_ENABLE([uccl-lanes],
		[AS_HELP_STRING([--disable-uccl-lanes], [uccl: build without lanes: an endpoint uses one core])],
		[], [enable_uccl_lanes=yes])
	AS_IF([test x"$enable_uccl" != x"no"], [
		AS_IF([test -n "$uccl_PREFIX"], [uccl_CPPFLAGS="-I$uccl_PREFIX/include"])
		uccl_saved_CPPFLAGS=$CPPFLAGS
		CPPFLAGS="$CPPFLAGS $uccl_CPPFLAGS"
		AS_CASE([$host_os], [linux*], [AC_CHECK_HEADER([sodium.h], [uccl_happy=1])])
		CPPFLAGS=$uccl_saved_CPPFLAGS
		UCCL_CHECK_VERBS
		uccl_DEFS="-DUCCL_PROV_MAJOR=UCCL_VERSION_PART(UCCL_TREE_VERSION, 1)"
		uccl_DEFS="$uccl_DEFS -DUCCL_PROV_MINOR=UCCL_VERSION_PART(UCCL_TREE_VERSION, 2)"
		AS_IF([test "$have_verbs" = yes], [uccl_DEFS="$uccl_DEFS -DHAVE_VERBS=1"])
		AS_IF([test "$enable_uccl_lanes" != no], [uccl_DEFS="$uccl_DEFS -DHAVE_LANES=1"])
		uccl_LIBS=-lm
	])
	AC_SUBST([uccl_CPPFLAGS])
	AC_SUBST([uccl_DEFS])
	AC_SUBST([uccl_LDFLAGS])
	AC_SUBST([uccl_LIBS])
	AS_IF([test $uccl_happy = 1], [$1], [$2])
])

AC_DEFUN([FI_UCCL_CONDITIONALS], [
	AM_CONDITIONAL([UCCL_LANES], [test "$enable_uccl_lanes" != no])
])

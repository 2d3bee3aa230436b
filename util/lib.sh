# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Shared by the scripts beside it (sourced, bash).

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${JOBS:-$(nproc)}

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
note() { printf '   %s\n' "$*" >&2; }
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# build_tree DIR LOG [CONFIGURE OPTION...]: configure (once per set of options) and make in DIR
build_tree() {
	local dir=$1 log=$2 want
	shift 2
	want="$TOP $*"
	{
		[ -x "$TOP/configure" ] && [ "$TOP/configure" -nt "$TOP/configure.ac" ] || "$TOP/autogen.sh" || return 1
		mkdir -p "$dir" || return 1
		if [ ! -f "$dir/Makefile" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$want" ]; then
			(cd "$dir" && "$TOP/configure" -q "$@") || return 1
			printf '%s\n' "$want" >"$dir/.configured"
		fi
		make -C "$dir" -j "$JOBS"
	} >"$log" 2>&1
}

# with_life LOG COMMAND...: run a command that writes to LOG, and show that it lives: on a terminal the number of lines of the
# log so far, elsewhere a dot each five seconds. The command runs in the foreground, so that it hears of an interrupt.
with_life() {
	local log=$1 watcher rc
	shift
	: >"$log"
	(
		began=$SECONDS
		while sleep 1 && kill -0 $$ 2>/dev/null; do
			if [ -t 2 ]; then
				printf '\r   %d lines in the log, %d s ' "$(wc -l <"$log")" $((SECONDS - began)) >&2
			elif [ $(((SECONDS - began) % 5)) = 0 ]; then
				printf . >&2
			fi
		done
	) &
	watcher=$!
	"$@"
	rc=$?
	kill $watcher 2>/dev/null
	wait $watcher 2>/dev/null
	if [ -t 2 ]; then printf '\r%50s\r' '' >&2; else echo >&2; fi
	return $rc
}

# version: the number that configure.ac gives to all
version() { sed -n 's/^AC_INIT(\[uccl\], \[\([^]]*\)\])$/\1/p' "$TOP/configure.ac"; }

# Every script says its version; --help is its own.
if [ "${1-}" = --version ]; then
	printf '%s (uccl) %s\n' "${0##*/}" "$(version)"
	exit 0
fi

# source_copy DIR: the source as it is now, changes included, without what was built: what git does not ignore, or all of it
# where there is no git repository, as in an unpacked archive
source_copy() {
	mkdir -p "$1" || return
	if [ -e "$TOP/.git" ]; then
		git -c safe.directory="$TOP" -C "$TOP" ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
			[ ! -e "$TOP/$file" ] || printf '%s\0' "$file"
		done | tar -C "$TOP" --null -T - -cf - | tar -C "$1" -xf -
	else
		tar -C "$TOP" --exclude=./build --exclude='./build-*' -cf - . | tar -C "$1" -xf -
	fi
	[ -f "$1/configure.ac" ]
}

# python_env DIR PACKAGE...: a Python environment with packages of PyPI, made once
python_env() {
	local dir=$1
	shift
	[ -f "$dir/.ready" ] && [ "$(cat "$dir/.ready")" = "$*" ] && return
	rm -rf "$dir" && python3 -m venv "$dir" && "$dir/bin/pip" -q install "$@" && echo "$*" >"$dir/.ready"
}

# Open MPI refuses to run as root unless told twice, and counts its cores.
MPIRUN_FLAGS=(--oversubscribe --mca btl ^openib --bind-to none)
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# No prefix and no remote shell is needed on one host.
export OMPI_MCA_plm_rsh_agent=/bin/false PRTE_MCA_plm_ssh_agent=/bin/false
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# ompi_run PROVIDER RANKS PROGRAM...: Debian's Open MPI with the OFI MTL over one provider. FI_UCCL_* of the
# caller's environment reach the ranks, as all of them run on this host. Open MPI 4 reads the first of the two names of
# the provider, Open MPI 5 the second, and each leaves the other alone.
ompi_run() {
	local prov=$1 ranks=$2
	shift 2
	mpirun "${MPIRUN_FLAGS[@]}" -n "$ranks" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "$prov" \
		--mca opal_common_ofi_provider_include "$prov" "$@"
}

# counter NAME FILE...: sum of a counter over the reports that FI_UCCL_STATS left
counter() {
	local name=$1
	shift
	cat "$@" 2>/dev/null | grep -o "\"$name\": *[0-9]*" | awk -F: '{ s += $2 } END { print s + 0 }'
}

# paths_used FILE...: the most paths that carried packets to one peer, by the same reports (FI_UCCL_STATS=FILE,paths=1)
paths_used() {
	cat "$@" 2>/dev/null | awk '
		/   path [0-9]+ label / { if (match($0, /packets [1-9]/) && ++n > m) m = n; next }
		{ n = 0 }
		END { print m + 0 }'
}

# cause_first LOG CAUSE OTHER: a line of the provider that has the text CAUSE stands above the first that the pattern OTHER
# matches
cause_first() {
	awk -v cause="$2" -v other="$3" '
		/^uccl: / && index($0, cause) { found = 1; exit }
		$0 ~ other { exit }
		END { exit !found }' "$1"
}

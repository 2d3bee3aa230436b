# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# What the steps of util/clients share (sourced, bash): each runs one client over libfabric's own provider and over this
# one under its name, clean and with 1 % loss. FI_PROVIDER_PATH names the folder of libuccl-fi.so.

[ -n "${FI_PROVIDER_PATH:-}" ] || { echo "${0##*/}: set FI_PROVIDER_PATH to the folder of libuccl-fi.so" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# client_run WHAT COMMAND...: run it, judge it by its exit status, keep what a failed one said
client_run() {
	local what=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		echo "right  $what"
	else
		echo "WRONG  $what: exit status $?"
		tail -n 20 "$work/out"
		failed=1
	fi
}

# client_uccl_used: a run over this provider left its counters, so no other provider carried it
client_uccl_used() { ls "$work"/stats.* >/dev/null 2>&1; rc=$?; rm -f "$work"/stats.*; return $rc; }

# client_all NAME FUNCTION...: FUNCTION runs a test of the client; beside NAME, then clean and with loss over uccl
client_all() {
	local name=$1 test fault
	shift
	for test; do
		(unset FI_PROVIDER_PATH FI_UCCL_ALIAS; FI_PROVIDER=$name client_run "$test over $name" "$test"; exit $failed) || failed=1
		for fault in "" drop=0.01; do
			export FI_PROVIDER=$name FI_UCCL_ALIAS=$name FI_UCCL_STATS=$work/stats
			[ -z "$fault" ] && unset FI_UCCL_FAULT || export FI_UCCL_FAULT=$fault
			client_run "$test over uccl as $name${fault:+, $fault}" "$test"
			client_uccl_used || { echo "WRONG  $test: another provider carried it"; failed=1; }
			unset FI_UCCL_FAULT
		done
	done
}

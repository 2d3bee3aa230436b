# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# What the steps of util/clients share (sourced, bash): each runs one client over libfabric's own provider and over this
# one, under its name if need be, clean and with 1 % loss. FI_PROVIDER_PATH names the folder of libuccl-fi.so; a script
# reads util/lib.sh first.

[ -n "${FI_PROVIDER_PATH:-}" ] || { echo "${0##*/}: set FI_PROVIDER_PATH to the folder of libuccl-fi.so" >&2; exit 2; }
work=$(mktemp -d) || exit 2
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

# client_uccl_used: by its counters, a run sent packets over this provider, so no other provider carried it
client_uccl_used() {
	local sent
	sent=$(counter tx_packets "$work"/stats.*)
	rm -f "$work"/stats.*
	[ "$sent" -gt 0 ]
}

# client_beside NAME FUNCTION...: FUNCTION runs a test of the client, over libfabric's own provider NAME
client_beside() {
	local name=$1 test
	shift
	for test; do
		(unset FI_PROVIDER_PATH FI_UCCL_ALIAS; FI_PROVIDER=$name client_run "$test over $name" "$test"; exit $failed) || failed=1
	done
}

# client_over NAME FUNCTION...: over this provider under NAME, clean and with 1 % loss
client_over() {
	local name=$1 test fault what
	shift
	for test; do
		for fault in "" drop=0.01; do
			what="$test over uccl${fault:+, $fault}"
			export FI_PROVIDER=$name FI_UCCL_ALIAS=$name FI_UCCL_STATS=$work/stats
			[ "$name" != uccl ] && what="$test over uccl as $name${fault:+, $fault}" || unset FI_UCCL_ALIAS
			[ -z "$fault" ] && unset FI_UCCL_FAULT || export FI_UCCL_FAULT=$fault
			client_run "$what" "$test"
			client_uccl_used || { echo "WRONG  $what: another provider carried it"; failed=1; }
			unset FI_UCCL_FAULT
		done
	done
}

# client_all NAME FUNCTION...: both, in turn
client_all() {
	local name=$1 test
	shift
	for test; do client_beside "$name" "$test" && client_over "$name" "$test"; done
}

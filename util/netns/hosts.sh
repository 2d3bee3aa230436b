# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Shared by scripts that run Open MPI on several network namespaces, as on so many hosts (sourced after lib.sh, bash).

# switch_up PREFIX HOSTS [MTU]: the namespaces PREFIX-1 to PREFIX-HOSTS with the addresses 10.9.8.1 and so on, at a switch in
# PREFIX-0
switch_up() {
	local prefix=$1 hosts=$2 mtu=${3:-1500} i
	ip netns add "$prefix-0" && ip -n "$prefix-0" link add br0 type bridge && ip -n "$prefix-0" link set br0 up || return
	for ((i = 1; i <= hosts; i++)); do
		ip netns add "$prefix-$i" &&
			ip link add v0 netns "$prefix-$i" mtu "$mtu" type veth peer name "v$i" netns "$prefix-0" mtu "$mtu" &&
			ip -n "$prefix-0" link set "v$i" master br0 up &&
			ip -n "$prefix-$i" addr add "10.9.8.$i/24" dev v0 &&
			ip -n "$prefix-$i" link set lo up && ip -n "$prefix-$i" link set v0 up || return
	done
}

# switch_down PREFIX HOSTS: end what runs in them and remove them
switch_down() {
	local i p
	for ((i = 0; i <= $2; i++)); do
		for p in $(ip netns pids "$1-$i" 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done
		ip netns del "$1-$i" 2>/dev/null
	done
	wait 2>/dev/null
}

# switch_list PREFIX HOSTS RANKS: the hosts of a switch as hosts_mpirun takes them, with RANKS ranks on each
switch_list() {
	local i list=
	for ((i = 1; i <= $2; i++)); do list="$list 10.9.8.$i=$1-$i:$3"; done
	echo "${list# }"
}

# hosts_mpirun AGENT SECONDS 'ADDRESS=NAMESPACE:RANKS ...' ARGUMENT...: mpirun in the first of these namespaces, with its
# daemons in the others, for at most SECONDS. Each namespace is a host of its own name. AGENT is the file for the script that
# starts the daemons.
hosts_mpirun() {
	local agent=$1 seconds=$2 hosts=$3 h first list=
	shift 3
	first=${hosts%% *} first=${first#*=} first=${first%:*}
	{
		echo '#!/bin/bash'
		echo 'case $1 in'
		for h in $hosts; do echo "${h%%=*}) ns=$(h=${h#*=}; echo "${h%:*}") ;;"; done
		echo 'esac'
		echo 'shift'
		echo 'exec ip netns exec "$ns" unshare -u bash -c '\''hostname "$1"; exec bash -c "$0"'\'' "$*" "$ns"'
	} >"$agent"
	chmod +x "$agent"
	for h in $hosts; do list=$list,${h%%=*}:${h##*:}; done
	ip netns exec "$first" unshare -u bash -c 'hostname "$0"; exec "$@"' "$first" timeout -k 5 "$seconds" mpirun \
		--host "${list#,}" --mca plm_rsh_agent "$agent" "$@"
}

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Shared by nccl and nccl-ddp (sourced after lib.sh, bash).

# one_of OPTION WORD WORDS: is it one of them?
one_of() {
	[[ " $3 " == *" $2 "* ]] || die "$1: '$2' is not one of: $3"
}

number() { [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || die "$1: '$2' is not a number from 1 on"; }

# folder OPTION DIR FILE WHAT: an absolute name of DIR, which has FILE
folder() {
	[ -n "$2" ] || die "$1 is missing: the folder of $4"
	[ -d "$2" ] || die "$1: no such folder: $2"
	[ -e "$2/$3" ] || die "$1: $2 has no $3, so it is not the folder of $4"
	(cd "$2" && pwd)
}

# fault_ok OPTION TEXT: keys and values of FI_UCCL_FAULT, so far as that can be seen from outside
fault_ok() {
	[[ $2 =~ ^[a-z_]+=[a-z0-9.@-]+(,[a-z_]+=[a-z0-9.@-]+)*$ ]] ||
		die "$1: '$2' is not KEY=VALUE,KEY=VALUE..., such as drop=0.01,reorder=0.05"
}

lanes_ok() {
	[ "$2" = auto ] || { [[ $2 =~ ^[0-9]{1,2}$ ]] && [ "$2" -le 16 ]; } || die "$1: '$2' is not auto or a number up to 16"
}

# stack_found: whole names of $plugin, $libfabric and $build, which have what they must have
stack_found() {
	[ -n "$plugin" ] || die "--plugin is missing: the file libnccl-net-ofi.so or libnccl-net.so"
	[ -f "$plugin" ] || die "--plugin: no such file: $plugin"
	plugin=$(cd "$(dirname "$plugin")" && pwd)/${plugin##*/}
	[ -z "$libfabric" ] || libfabric=$(folder --libfabric "$libfabric" libfabric.so.1 "libfabric") || exit
	build=$(folder --build "$build" .libs/libuccl-fi.so "the built provider") || exit
}

# callers_variables: variables of the caller would change one of those that are compared, or all
callers_variables() {
	local name
	for name in ${!NCCL_*} ${!OFI_NCCL_*} ${!FI_UCCL_*}; do
		note "$name=${!name} is passed on to all runs"
	done
}

# variables TRANSPORT LOSS: what makes NCCL use it, in $vars; of $nccl_proto, $libfabric, $nccl, $plugin, $build. The loss is a
# share of packets, or a value of FI_UCCL_FAULT.
variables() {
	local protocol=${1#*:}
	protocol=${protocol%/*}
	vars=(NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET
		LD_LIBRARY_PATH="${libfabric:+$libfabric:}${nccl:+$nccl:}${plugin%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
		${nccl_proto:+NCCL_PROTO=$nccl_proto})
	case $1 in
	socket:*) vars+=(NCCL_NET_PLUGIN=none NCCL_NET=Socket) ;;
	*) vars+=(NCCL_NET_PLUGIN="$plugin") ;;
	esac
	case $1 in
	socket:*x*) vars+=(NCCL_SOCKET_NTHREADS=${1//[!0-9x]/}) ;;&
	socket:*x*) vars[-1]=${vars[-1]%x*} vars+=(NCCL_NSOCKS_PERTHREAD=${1##*x}) ;;
	tcp) vars+=(FI_PROVIDER=tcp OFI_NCCL_PROTOCOL=SENDRECV) ;;
	uccl:*) vars+=(FI_PROVIDER=uccl FI_PROVIDER_PATH="$build/.libs" OFI_NCCL_PROTOCOL=$protocol) ;;&
	uccl:*/*) vars+=(FI_UCCL_LANES=${1#*/}) ;;&
	uccl:*)
		case $2 in
		0) ;;
		*=*) vars+=(FI_UCCL_FAULT="$2") ;;
		*) vars+=(FI_UCCL_FAULT="drop=$2") ;;
		esac
		;;
	esac
}

# network TRANSPORT LOG: did NCCL use what it was to use? If not, says what it did.
network() {
	local want did
	case $1 in
	socket:*) want='Using network Socket' ;;
	*) want="Selected provider is ${1%%:*}" ;;
	esac
	grep -q "$want" "$2" && return
	did=$(grep -oE 'Using network .*|Selected provider is [^,]*' "$2" | sort -u | paste -sd ';')
	echo "its output does not say '$want'${did:+, but: $did}"
	return 1
}

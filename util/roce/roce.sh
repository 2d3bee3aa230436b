# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Virtual machines with Soft-RoCE, shared by roce-run and roce-net (sourced, bash, after lib.sh).
#
# A machine is Debian's kernel under QEMU; its root is this host's own root, read through 9p below an overlay in memory:
# whatever is installed or built here runs there, and what it writes is gone afterwards, but for the folders that are
# mounted for writing. Nothing of this needs privileges.

# Environment: ROCE_ACCEL (kvm or tcg; by default kvm where it really boots), ROCE_KERNEL (Debian package of the kernel).
ROCE_KERNEL=${ROCE_KERNEL:-linux-image-amd64}
ROCE_CACHE=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/uccl
ROCE_MODULES="virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net virtio_rng veth bridge 8021q ifb sch_ingress
	cls_matchall act_mirred sch_netem sch_tbf nf_tables nft_hash nft_numgen nft_objref af_packet crc32_generic crc32_pclmul rdma_rxe ib_uverbs rdma_ucm"
# What a sealed machine always has: its own start, and what commands usually need.
ROCE_SEALED="bash sh awk cat chrt cp cut date dd env ethtool grep head ip kill ls mkdir mkfifo mount mv nft printf rdma rm sed seq setsid
	sleep sort sync sysctl tail tc timeout touch tr uname wc ib_send_bw ib_send_lat ib_write_bw ib_write_lat ibv_devinfo ibv_rc_pingpong
	ibv_uc_pingpong ibv_ud_pingpong"
# What of the environment reaches the commands.
ROCE_ENV='^((FI|UCCL|OMPI|PRTE|PMIX|MPIR|MPICH|HYDRA|NCCL|UCX|IBV|RDMAV|LD)_.*|[A-Z]+SAN_OPTIONS'
ROCE_ENV+='|PATH|HOME|USER|LANG|TERM|PYTHONPATH)$'

# The first program of a machine, from the initial file system.
ROCE_INIT='#!/busybox sh
/busybox mkdir -p /proc /sys /dev /host /mem /new
/busybox mount -t devtmpfs dev /dev
/busybox mount -t proc proc /proc
/busybox mount -t sysfs sys /sys
[ ! -e /run/roce/idler ] || chrt -i 0 /run/roce/idler &
while read -r m; do
	# A sealed machine has its files with it and knows no device that would make it wait, until it has ended.
	[ $m = virtio_pci.ko ] && [ -e /run/roce/init ] && continue
	/busybox insmod /modules/$m 2>/dev/null || echo "cannot load $m"
done </modules/order
[ ! -e /run/roce/init ] || exec /bin/bash /run/roce/init
o=trans=virtio,version=9p2000.L,msize=262144
/busybox mount -t 9p -o $o,ro,cache=loose root /host || echo "cannot mount the root"
/busybox mount -t tmpfs mem /mem
/busybox mkdir /mem/up /mem/work
/busybox mount -t overlay -o lowerdir=/host,upperdir=/mem/up,workdir=/mem/work overlay /new || echo "no overlay"
for d in dev proc sys; do /busybox mount -o move /$d /new/$d; done
/busybox mount -t tmpfs -o mode=755 run /new/run
/busybox mkdir -p /new/run/roce
/busybox mount -t 9p -o $o,cache=none job /new/run/roce || echo "cannot mount the job"
exec /busybox switch_root /new /bin/bash /run/roce/init
'

# roce_packages: what is missing is installed, or named
roce_packages() {
	local missing="" p
	[ "$(uname -m)" = x86_64 ] || die "Soft-RoCE machines are made for x86_64 only, this is $(uname -m)"
	for p in qemu-system-x86_64 busybox perl chrt modprobe depmod cpio ip tc nft rdma ethtool setpriv ibv_devinfo ib_write_bw; do
		PATH=$PATH:/usr/sbin:/sbin command -v $p >/dev/null || missing="$missing $p"
	done
	[ -z "$missing" ] && return
	[ -n "${install-1}" ] || die "missing:$missing; util/install-deps roce installs them"
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "missing:$missing; as root: util/install-deps roce"
	"$TOP/util/install-deps" roce || die "packages are missing:$missing"
	for p in $missing; do
		PATH=$PATH:/usr/sbin:/sbin command -v $p >/dev/null || die "$p is still missing after the installation"
	done
}

# roce_kernel: set $kernel and $initrd, made once from Debian's package and kept in $ROCE_CACHE
roce_kernel() {
	local dir=$ROCE_CACHE/$ROCE_KERNEL
	mkdir -p "$dir" || die "cannot make the folder $dir for the kernel; set XDG_CACHE_HOME to another folder"
	kernel=$dir/vmlinux
	initrd=$dir/initrd-$(printf '%s' "$ROCE_INIT $ROCE_MODULES" | cksum | tr -d ' ')
	[ -s "$kernel" ] && [ -s "$initrd" ] && return
	note "kernel of Debian's $ROCE_KERNEL to $dir, once"
	(
		# Two runs at once must not unpack into one folder.
		exec 9>"$dir/lock"
		flock -w 300 9 && { [ -s "$kernel" -a -s "$initrd" ] || kernel_make "$dir" "$initrd"; }
	) >"$dir/log" 2>&1 || {
		tail -n 5 "$dir/log" | sed 's/^/   | /' >&2
		die "cannot get the kernel package $ROCE_KERNEL from Debian; see $dir/log"
	}
}

kernel_make() {
	local dir=$1 initrd=$2 pkg version tree=$1/tree m file
	PATH=$PATH:/usr/sbin:/sbin
	if ldd "$(command -v busybox)" >/dev/null 2>&1; then
		echo "busybox is not static: install busybox-static"
		return 1
	fi
	rm -rf "$tree" && mkdir -p "$tree/root/modules" && cd "$dir" || return 1
	if ! compgen -G "*.deb" >/dev/null; then
		# The package of that name is empty: the kernel is what it depends on.
		pkg=$(LC_ALL=C apt-cache depends "$ROCE_KERNEL" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
		pkg=${pkg:-$ROCE_KERNEL}
		timeout 300 apt-get download "$pkg" || {
			$([ "$(id -u)" = 0 ] || echo sudo -n) timeout 300 apt-get update -q
			timeout 300 apt-get download "$pkg"
		} || return 1
	fi
	dpkg -x ./*.deb "$tree" || return 1
	version=$(ls "$tree/lib/modules")
	depmod -b "$tree" "$version" || return 1
	for m in $ROCE_MODULES; do
		# Newer kernels have it in nf_tables.
		modprobe -d "$tree" -S "$version" --show-depends "$m" || [ "$m" = nft_objref ] || return 1
	done >"$tree/wanted"
	# In the order of loading; a file of the initial file system, unpacked.
	for file in $(sed -n 's/^insmod \([^ ]*\).*/\1/p' "$tree/wanted" | awk '!seen[$0]++'); do
		m=$(basename "$file" | sed 's/\.ko.*/.ko/')
		case $file in
		*.xz) xz -dc "$file" ;;
		*.zst) zstd -dc "$file" ;;
		*) cat "$file" ;;
		esac >"$tree/root/modules/$m" || return 1
		echo "$m" >>"$tree/root/modules/order"
	done
	cp "$(command -v busybox)" "$tree/root/busybox" && printf '%s' "$ROCE_INIT" >"$tree/root/init" &&
		chmod 755 "$tree/root/init" || return 1
	mkdir "$tree/root/dev" || return 1
	(set -o pipefail; cd "$tree/root" && find . | cpio -o -H newc -R 0:0 | gzip -1 >"$tree/initrd") || return 1
	kernel_unpack "$tree/boot/vmlinuz-$version" >"$tree/vmlinux" || cp "$tree/boot/vmlinuz-$version" "$tree/vmlinux"
	mv "$tree/vmlinux" "$dir/vmlinux" && mv "$tree/initrd" "$initrd" && rm -rf "$tree"
}

# kernel_unpack FILE: what a bzImage carries compressed, to stdout. A machine under emulation unpacks it in six seconds.
kernel_unpack() {
	local at
	u() { od -An -t "u$2" -j "$1" -N "$2" "$bz" | tr -d ' '; }
	local bz=$1
	at=$((($(u 497 1) + 1) * 512 + $(u 584 4)))
	case $(od -An -tx1 -j $at -N 4 "$bz" | tr -d ' ') in
	fd377a58) tail -c +$((at + 1)) "$bz" | head -c "$(u 588 4)" | xz -dc --single-stream ;;
	28b52ffd) tail -c +$((at + 1)) "$bz" | head -c "$(u 588 4)" | zstd -dc ;;
	*) return 1 ;;
	esac
}

# roce_accel: set $accel, $cpu and $clock. A /dev/kvm can be there and yet hang a stock kernel, so it is tried, once in each
# boot of this host. With $virtual the machine's clock counts instructions, a nanosecond each, and leaps over idle time,
# from tick to tick (nohz=off). While a file of this host is waited for roce-pace keeps it from leaping. That of a sealed machine
# never leaps: roce_idler.
roce_accel() {
	local seen=$ROCE_CACHE/kvm-$(cat /proc/sys/kernel/random/boot_id)
	accel=${ROCE_ACCEL:-} clock=() tick=""
	if [ -n "${virtual-}" ]; then
		accel=tcg,thread=single cpu=max,-erms,-pclmulqdq tick=nohz=off
		clock=(-icount "shift=0,sleep=off" -rtc clock=vm)
		[ -z "${sealed-}" ] || clock=(-icount "shift=0,sleep=off" -rtc base=2026-01-01,clock=vm -seed "${seed:-1}")
		return
	fi
	if [ -z "$accel" ]; then
		accel=tcg
		if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
			[ -f "$seen" ] || kvm_probe "$seen"
			[ "$(cat "$seen")" = no ] || accel=kvm
		fi
	fi
	case $accel in
	kvm) cpu=host ;;
	# What the kernel takes for fast is slow when emulated: without these two 1.7 times less time goes to a packet.
	tcg) accel=tcg,thread=multi cpu=max,-erms,-pclmulqdq ;;
	*) die "ROCE_ACCEL must be kvm or tcg, not $accel" ;;
	esac
}

# The initial file system without a root does nothing but end.
kvm_probe() {
	local out
	rm -f "$ROCE_CACHE"/kvm-*
	out=$(timeout -k 2 15 qemu-system-x86_64 -M q35 -accel kvm -cpu host -m 256 -nodefaults -no-user-config \
		-display none -no-reboot -serial stdio -kernel "$kernel" -initrd "$initrd" \
		-append "console=ttyS0 panic=-1 quiet rdinit=/busybox -- echo kvm-works" 2>&1 </dev/null)
	case $out in
	*kvm-works*) echo yes >"$1" ;;
	*) echo no >"$1" && note "/dev/kvm is there but boots nothing: software emulation" ;;
	esac
}

# roce_begin: packages, kernel, folder of the job; set $job, and remove all again at the end
roce_begin() {
	roce_packages
	roce_kernel
	roce_accel
	job=$(mktemp -d "${TMPDIR:-/tmp}/uccl-roce.XXXXXX") || exit 1
	vms=() cats=()
	trap roce_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	cp "$TOP/util/roce/roce-init" "$job/init" && cp "$TOP/util/roce/roce-pace" "$job/pace" || exit 1
	{
		compgen -e | grep -E "$ROCE_ENV" | while read -r v; do printf 'export %s=%q\n' "$v" "${!v}"; done
		printf 'cd %q\n' "$PWD"
	} >"$job/env"
}

roce_end() {
	trap - EXIT INT TERM HUP
	local p
	for p in "${vms[@]}"; do kill -TERM "$p" 2>/dev/null; done
	for p in "${vms[@]}"; do wait "$p" 2>/dev/null; done
	for p in "${cats[@]}"; do kill "$p" 2>/dev/null; done
	rm -rf "$job"
}

# roce_idler: a program, to stdout, that does nothing for ever: an ELF file of 64-bit x86, headers, 62 NOPs and a jump to the first.
# It runs below all else in a sealed machine, so its processor never stops. When it stops, QEMU's main thread adds the time until the
# next timer to the clock. It may do so before the processor's thread has added the instructions of its last turn: then the timer
# comes late by these, and the host decides whether it does. NOPs cost the host next to nothing.
roce_idler() {
	local zero='\0\0\0\0' begin='\0\0\0100\0\0\0\0\0' size='\0270\0\0\0\0\0\0\0'
	printf %b '\0177ELF\02\01\01\0' $zero$zero '\02\0\076\0\01\0\0\0' '\0170\0\0100\0' $zero '\0100\0\0\0' $zero $zero$zero \
		$zero '\0100\0\070\0\01\0\0\0' $zero '\01\0\0\0\05\0\0\0' $zero$zero $begin $begin $size $size '\0\020\0\0' $zero
	printf '\220%.0s' {1..62}
	printf '\353\300'
}

# roce_seal DIR FILE...: the initial file system, $initrd, with these programs, libraries and folders and all that they are linked
# with, and the job. Whatever could differ from run to run is left out: numbers and times of files, their order.
roce_seal() {
	local dir=$1 tree=$1/tree f real
	shift
	mkdir -p "$tree/run" "$tree/tmp" "$tree/root" "$tree/etc" "$tree$PWD" || return 1
	for f in bin sbin lib lib64; do [ ! -L /$f ] || { mkdir -p "$tree/usr/$f" && ln -s usr/$f "$tree/$f"; } || return 1; done
	# What is loaded by name is linked with other libraries in turn.
	set -- "$@" /etc/libibverbs.d/rxe.driver "$(ldconfig -p | sed -n 's/.* => //p' | grep -m 1 -F libibverbs.so.1)"
	set -- "$@" "$(dirname "$(realpath "${!#}")")/libibverbs/"librxe-*.so
	for f in $ROCE_SEALED; do
		real=$(PATH=$PATH:/usr/sbin:/sbin type -P "$f") || { echo "no $f" && return 1; }
		set -- "$@" "$real"
	done
	for f; do
		[ -e "$f" ] || { echo "no such file: $f" && return 1; }
		find -L "$f" -type f
	done | sort -u >"$dir/files"
	xargs -d '\n' ldd <"$dir/files" 2>/dev/null | sed -n 's/^\t\(.* => \)\?\(\/[^ ]*\) (0x.*/\2/p' | sort -u - "$dir/files" |
		while read -r f; do
			real=$(realpath "$(dirname "$f")")
			mkdir -p "$tree$real" && cp -L "$f" "$tree$real/" || return 1
		done || return 1
	for f in passwd group nsswitch.conf hosts; do [ ! -e /etc/$f ] || cp /etc/$f "$tree/etc/"; done
	ldconfig -r "$tree" 2>/dev/null
	mkdir "$tree/run/roce" && roce_idler >"$tree/run/roce/idler" && chmod 755 "$tree/run/roce/idler" || return 1
	find "$job" -maxdepth 1 -type f -exec cp -t "$tree/run/roce" {} + || return 1
	find "$tree" -exec touch -h -d @0 {} +
	(set -o pipefail; cd "$tree" && find . | sort | cpio -o -H newc -R 0:0 --reproducible --quiet) >"$dir/initrd" &&
		cat "$initrd" >>"$dir/initrd" && rm -rf "$tree" && initrd=$dir/initrd
}

# vm_start HOST CPUS MEMORY LIMIT [QEMU OPTION...]: start a machine; its number goes to vms[HOST]. Folders in $mounts
# are mounted for writing.
vm_start() {
	local host=$1 cpus=$2 mem=$3 limit=$4 out dir n=0 qemu mount=()
	shift 4
	for dir in "${mounts[@]}"; do
		[ -z "${sealed-}" ] || break
		mount+=(-fsdev "local,id=rw$n,path=${dir//,/,,},security_model=none,multidevs=remap"
			-device "virtio-9p-pci,fsdev=rw$n,mount_tag=rw$n")
		printf '%q %q\n' rw$n "$dir"
		n=$((n + 1))
	done >"$job/mounts"
	if [ -n "${sealed-}" ]; then
		mkdir "$job/seal" && roce_seal "$job/seal" $sealed >"$job/seal/log" 2>&1 || { cat "$job/seal/log" >&2; die "cannot seal the machine"; }
	else
		mount+=(-fsdev "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on"
			-device virtio-9p-pci,fsdev=root,mount_tag=root -device virtio-rng-pci)
	fi
	qemu=(qemu-system-x86_64 -M q35 -accel "$accel" -cpu "$cpu" "${clock[@]}" -smp "$cpus" -m "$mem" -nodefaults -no-user-config
		-display none -no-reboot -kernel "$kernel" -initrd "$initrd"
		-append "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check mitigations=off $tick roce=$host"
		-serial "file:$job/console.$host" "${mount[@]}"
		-fsdev "local,id=job,path=${job//,/,,},security_model=none,multidevs=remap"
		-device virtio-9p-pci,fsdev=job,mount_tag=job)
	if [ -z "${sealed-}" ]; then
		qemu+=(-device virtio-serial-pci)
		n=1
		for out in out err; do
			mkfifo "$job/$out.$host"
			qemu+=(-chardev "file,id=$out,path=${job//,/,,}/$out.$host" -device "virtserialport,chardev=$out,nr=$n")
			n=$((n + 1))
		done
		cat "$job/out.$host" &
		cats+=($!)
		cat "$job/err.$host" >&2 &
		cats+=($!)
	fi
	# The machine ends when its time is up, and when this script is killed.
	setpriv --pdeathsig TERM timeout -k 2 $((limit + 15)) "${qemu[@]}" "$@" >"$job/qemu.$host" 2>&1 </dev/null &
	vms[host]=$!
}

# vms_wait LIMIT: until all commands have ended, or some for so long that the others' time is up, or all time is up; then
# all are told to stop. Sets $first, the host that failed first, and $late.
vms_wait() {
	local until=$((SECONDS + $1)) grace="" ended h r
	first="" late=""
	while :; do
		ended=0
		for ((h = 1; h <= hosts; h++)); do
			r=""
			if [ -s "$job/status.$h" ]; then
				r=$(cat "$job/status.$h")
			else
				kill -0 "${vms[h]}" 2>/dev/null || r=125
			fi
			[ -z "$r" ] || ended=$((ended + 1))
			[ "${r:-0}" = 0 ] || first=${first:-$h}
		done
		[ $ended -lt "$hosts" ] || break
		if [ -n "$first" ]; then
			grace=${grace:-$((SECONDS + 5))}
		elif [ $ended = $((hosts - 1)) ] && [ ! -s "$job/status.1" ] && [ "$hosts" != 1 ]; then
			grace=${grace:-$((SECONDS + 10))}
		fi
		[ $SECONDS -lt $until ] || { late=1; break; }
		[ -z "$grace" ] || [ $SECONDS -lt "$grace" ] || break
		sleep 0.2
	done
	touch "$job/stop"
}

# vm_wait HOST: wait for its end; its command's status, 124 when time was up, 125 when the machine ended otherwise
vm_wait() {
	local host=$1 rc out
	wait "${vms[host]}"
	rc=$?
	unset "vms[host]"
	if [ -n "${sealed-}" ]; then
		cat "$job/out.$host" 2>/dev/null
		cat "$job/err.$host" >&2 2>/dev/null
	else
		# A machine that did not get to opening its outputs leaves their readers waiting.
		for out in out err; do : <>"$job/$out.$host"; done
		wait "${cats[@]:2*(host-1):2}" 2>/dev/null
	fi
	[ ! -s "$job/status.$host" ] || return "$(cat "$job/status.$host")"
	if [ $rc = 124 ] || [ $rc = 137 ]; then
		note "host $host: its machine did not stop${virtual:+ within $real real seconds}"
		rc=124
	else
		note "host $host: its machine ended (status $rc) without a result"
		rc=125
	fi
	tail -qn 15 "$job/console.$host" "$job/qemu.$host" 2>/dev/null | sed 's/^/   | /' >&2
	return $rc
}

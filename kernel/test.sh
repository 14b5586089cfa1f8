#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# test.sh [RUN...]: builds Debian's kernel with our patches and boots it in an emulator with two sockets, once for each
# RUN, where it tests its own locks. A RUN is ORDER[:PHASE,PHASE...]: the order that qspinlock= selects, and what is
# done: a type of locktorture's (spin_lock_irq with CPUs that go off and on) or a workload of bench/.
#
# The kernel is that of $KERNEL_VERSION (6.1). What is built is kept in $KERNEL_CACHE (~/.cache/lockswap-kernel) under a
# hash of all that it depends on. Installs missing packages if LOCKSWAP_TESTS_MUST_RUN=1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${KERNEL_VERSION:-6.1}
all=spin_lock,spin_lock_irq,rwsem_lock,mutex_lock,lock1,lock2,open1,open2,memory
[ $# -gt 0 ] || set -- native cna shfl ron ron-array auto:spin_lock

# The emulator's CPU time in seconds for a run, many times what it takes: one that gets there hangs.
cpu_limit=600

missing=
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio flex:flex bison:bison bc:bc; do
	command -v "${tool%:*}" >/dev/null || missing="$missing ${tool#*:}"
done
[ -e /usr/src/linux-source-$version.tar.xz ] || missing="$missing linux-source-$version xz-utils patch"
[ -e /usr/include/gelf.h ] || missing="$missing libelf-dev"
if [ "$missing" ] && [ "${LOCKSWAP_TESTS_MUST_RUN-}" = 1 ]; then
	apt-get -qq update
	apt-get -qq install --no-install-recommends --yes $missing >/dev/null
elif [ "$missing" ]; then
	echo "kernel: apt-get install$missing" >&2
	exit 3
fi

hash=$(cat "$here/config" "$here/patches/$version"/*.patch /usr/src/linux-source-$version.tar.xz | sha256sum | cut -c1-16)
dir=${KERNEL_CACHE:-$HOME/.cache/lockswap-kernel}/$version-$hash
mkdir -p "$dir"
# The folder's name is left out of what ccache looks at, so that a change of one file compiles little.
export CCACHE_BASEDIR="$dir" CCACHE_NOHASHDIR=1
cc=gcc
if command -v ccache >/dev/null; then cc='ccache gcc'; fi
if [ ! -e "$dir/built" ]; then
	[ -d "$dir/src" ] || "$here/unpack" $version "$dir/src"
	make -s -C "$dir/src" O="$dir/obj" KCONFIG_ALLCONFIG="$here/config" allnoconfig
	for option in $(grep -o '^CONFIG_[A-Z0-9_]*=.*' "$here/config"); do
		grep -qx "$option" "$dir/obj/.config" || { echo "kernel: $option did not get into .config" >&2; exit 1; }
	done
	make -s -C "$dir/src" O="$dir/obj" CC="$cc" -j"$(nproc)" bzImage modules
	touch "$dir/built"
fi

root=$dir/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
cp "$(command -v busybox)" "$root/bin/"
cp "$here/initramfs/init" "$dir/obj/kernel/torture.ko" "$dir/obj/kernel/locking/locktorture.ko" "$root/"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -static -pthread "$here/bench/bench.c" -o "$root/bench"
(cd "$root" && find . | cpio --quiet --create --format=newc --owner=0:0 | gzip -1) >"$dir/initramfs.gz"

# fail RUN REASON: the end of the serial line's log, and the reason.
fail() {
	tail -n 40 "$dir/$1.log" >&2
	echo "kernel: $1: $2" >&2
	exit 1
}

# count RUN PHASE EVENT: how often it happened.
count() {
	n=$(sed -n "s/.*test: $2: $3 \([0-9]*\).*/\1/p" "$dir/$1.log")
	echo "${n:-0}"
}

# at_least RUN PHASE EVENT N
at_least() { [ "$(count "$1" "$2" "$3")" -ge "$4" ] || fail "$1" "$2: $3 is $(count "$1" "$2" "$3"), not at least $4"; }

# Two sockets with four CPUs each. CPUs take turns in the order in which they are named here: from one socket to the
# other, which is no order's, so that there is something to put into order.
machine='-smp 1,maxcpus=8,sockets=2,cores=4 -m 512 -object memory-backend-ram,id=m0,size=256M
	-object memory-backend-ram,id=m1,size=256M -numa node,memdev=m0,cpus=0-3 -numa node,memdev=m1,cpus=4-7
	-numa dist,src=0,dst=1,val=21'
for cpu in 1:0 0:1 1:1 0:2 1:2 0:3 1:3; do
	machine="$machine -device max-x86_64-cpu,socket-id=${cpu%:*},die-id=0,core-id=${cpu#*:},thread-id=0"
done

for run; do
	order=${run%%:*} phases=$all
	case $run in *:*) phases=${run#*:} ;; esac
	log=$dir/$run.log
	# One host thread for all CPUs: with more, an emulated CPU hardly ever finds a lock taken. The guest's clock is the
	# host's, and little may happen in a second of it: so no watchdog in the guest, but a limit on the CPU time.
	(
		ulimit -t $cpu_limit
		exec qemu-system-x86_64 -accel tcg,thread=single -machine q35 -cpu max,-hypervisor $machine \
			-display none -serial "file:$log" -no-reboot -nodefaults \
			-kernel "$dir/obj/arch/x86/boot/bzImage" -initrd "$dir/initramfs.gz" \
			-append "console=ttyS0 panic=-1 oops=panic nowatchdog no_timer_check qspinlock=$order test.phases=$phases"
	) || fail "$run" 'the emulator did not end'

	grep -q 'test: done' "$log" || fail "$run" 'the test did not end'
	grep -q 'test: tainted 0' "$log" || fail "$run" 'the kernel is tainted'
	! grep 'was accepted' "$log" >&2 || fail "$run" 'a bad parameter was accepted'
	grep -q 'test: nodes 0-1, CPUs 0-7' "$log" || fail "$run" 'not the nodes and CPUs of this machine'
	grep -q 'test: route 0 1 2 3 4 5 6 7' "$log" || fail "$run" 'not the route of this machine'
	grep -q 'test: written 7 6 5 4 3 2 1 0' "$log" || fail "$run" 'not the route that was written'
	grep -q 'test: again 0 1 2 3 4 5 6 7' "$log" || fail "$run" 'not the route of the topology'
	grep -q 'test: fair_ms 1' "$log" || fail "$run" 'not the default of fair_ms'

	[ $order != auto ] || order=cna
	grep -q "qspinlock: waiters are ordered by '$order'" "$log" || fail "$run" 'another order'
	case $order in
	cna) events='cna_moved cna_local' ;;
	shfl) events='shfl_groups shfl_moved shfl_handed' ;;
	ron) events='ron_rounds ron_moved' ;;
	ron-array) events=ron_passed ;;
	native) events= ;;
	esac
	work=0 workloads=0
	for phase in $(echo $phases | tr , ' '); do
		case $phase in
		*_lock | *_irq)
			grep -q "$phase-torture:--- End of test: SUCCESS" "$log" || fail "$run" "$phase did not succeed"
			;;
		*)
			grep -q "bench: $phase: 16 threads did [1-9][0-9]*00 operations" "$log" || fail "$run" "$phase did not succeed"
			workloads=1 work=$((work + $(count "$run" $phase lock_slowpath)))
			;;
		esac
		case $phase in
		spin_lock*)
			for event in $events; do at_least "$run" $phase $event 1; done
			at_least "$run" $phase lock_slowpath 10000
			;;
		esac
		[ $phase != spin_lock_irq ] || [ "$(grep -c 'torture_onoff task: offlined' "$log")" -ge 3 ] ||
			fail "$run" 'hardly a CPU went off'
		for event in cna_moved shfl_groups ron_rounds ron_passed; do
			case " $events " in *" $event "*) continue ;; esac
			[ "$(count "$run" $phase $event)" -eq 0 ] || fail "$run" "$phase: $event happened, with another order"
		done
		echo "kernel: $run: $phase: $(sed -n "s/.*test: $phase: \(\(lock_slowpath\|${order%-array}_[a-z_]*\) [0-9]*\).*/\1/p" \
			"$log" | tr '\n' ',' | sed 's/,$//; s/,/, /g')"
	done
	[ $workloads = 0 ] || [ $work -ge 10000 ] || fail "$run" "the workloads queued $work times only"
done

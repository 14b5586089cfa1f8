#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# test.sh [RUN...]: builds Debian's kernel with our patches, boots it in an emulator with two sockets once for each RUN,
# and lets the kernel's own locktorture test its spinlocks. A RUN is ORDER:TYPE[:hotplug], such as cna:spin_lock_irq.
# What is built is kept in $KERNEL_CACHE (~/.cache/lockswap-kernel) under a hash of all that it depends on. The kernel is
# that of $KERNEL_VERSION (6.1).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${KERNEL_VERSION:-6.1}
order_default="native:spin_lock cna:spin_lock shfl:spin_lock ron:spin_lock"
order_default="$order_default cna:spin_lock_irq:hotplug shfl:spin_lock_irq:hotplug ron:spin_lock_irq:hotplug auto:spin_lock"
[ $# -gt 0 ] || set -- $order_default

for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio flex:flex bison:bison bc:bc; do
	command -v "${tool%:*}" >/dev/null || { echo "kernel: apt-get install ${tool#*:}" >&2; exit 3; }
done

hash=$(cat "$here/config" "$here/patches/$version"/*.patch /usr/src/linux-source-$version.tar.xz | sha256sum | cut -c1-16)
dir=${KERNEL_CACHE:-$HOME/.cache/lockswap-kernel}/$version-$hash
mkdir -p "$dir"
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
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev"
cp "$(command -v busybox)" "$root/bin/"
cp "$here/initramfs/init" "$dir/obj/kernel/torture.ko" "$dir/obj/kernel/locking/locktorture.ko" "$root/"
(cd "$root" && find . | cpio --quiet --create --format=newc --owner=0:0 | gzip -1) >"$dir/initramfs.gz"

# fail RUN REASON: the end of the serial line's log, and the reason.
fail() {
	tail -n 40 "$dir/$1.log" >&2
	echo "kernel: $1: $2" >&2
	exit 1
}

# count RUN EVENT: how often it happened.
count() { sed -n "s/.*test: count $2 \([0-9]*\).*/\1/p" "$dir/$1.log"; }

# at_least RUN EVENT N
at_least() { [ "$(count "$1" "$2")" -ge "$3" ] || fail "$1" "$2 is $(count "$1" "$2"), not at least $3"; }

for run; do
	order=${run%%:*} rest=${run#*:}
	type=${rest%%:*} onoff=0
	case $run in *:hotplug) onoff=250 ;; esac
	# One host thread for all CPUs: with more, an emulated CPU hardly ever finds a lock taken.
	timeout 600 qemu-system-x86_64 -accel tcg,thread=single -machine q35 -cpu max,-hypervisor \
		-smp 8,sockets=2,cores=4 -m 512 \
		-object memory-backend-ram,id=m0,size=256M -numa node,memdev=m0,cpus=0-3 \
		-object memory-backend-ram,id=m1,size=256M -numa node,memdev=m1,cpus=4-7 -numa dist,src=0,dst=1,val=21 \
		-display none -serial "file:$dir/$run.log" -no-reboot -nodefaults \
		-kernel "$dir/obj/arch/x86/boot/bzImage" -initrd "$dir/initramfs.gz" \
		-append "console=ttyS0 panic=-1 oops=panic softlockup_panic=1 watchdog_thresh=60 no_timer_check qspinlock=$order \
torture.type=$type torture.onoff=$onoff" ||
		fail "$run" "the emulator did not end"

	log=$dir/$run.log
	grep -q 'test: done' "$log" || fail "$run" 'the test did not end'
	grep -q 'End of test: SUCCESS' "$log" || fail "$run" 'locktorture did not succeed'
	grep -q 'test: tainted 0' "$log" || fail "$run" 'the kernel is tainted'
	! grep 'was accepted' "$log" >&2 || fail "$run" 'a bad parameter was accepted'
	grep -q 'test: route 0 1 2 3 4 5 6 7' "$log" || fail "$run" 'not the route of this machine'
	grep -q 'test: written 7 6 5 4 3 2 1 0' "$log" || fail "$run" 'not the route that was written'
	grep -q 'test: again 0 1 2 3 4 5 6 7' "$log" || fail "$run" 'not the route of the topology'
	grep -q 'test: fair_ms 1' "$log" || fail "$run" 'not the default of fair_ms'
	[ "$onoff" = 0 ] || grep -q 'Onoff: [1-9]' "$log" || grep -q 'onoff: [1-9]' "$log" || fail "$run" 'no CPU went off'

	at_least "$run" lock_slowpath 10000
	case $order in
	auto) order=cna ;;
	esac
	grep -q "qspinlock: waiters are ordered by '$order'" "$log" || fail "$run" 'another order'
	case $order in
	# The emulated CPUs take turns of milliseconds, so hardly any waiter can be moved before the lock is free, and
	# those that take turns in the order of their numbers are in the order of RON's route already.
	cna) events='cna_moved cna_local' ;;
	shfl) events='shfl_groups shfl_moved shfl_handed' ;;
	ron) events='ron_rounds' ;;
	native) events= ;;
	esac
	for event in $events; do at_least "$run" "$event" 1; done
	for event in cna_moved shfl_groups ron_rounds; do
		case " $events " in *" $event "*) continue ;; esac
		[ "$(count "$run" $event)" -eq 0 ] || fail "$run" "$event happened, with another order"
	done
	echo "kernel: $run: $(count "$run" lock_slowpath) slow paths$(for event in $(sed -n \
		"s/.*test: count \(${order}_[a-z]*\) .*/\1/p" "$log"); do printf ', %s %s' "$event" "$(count "$run" "$event")"; done)"
done

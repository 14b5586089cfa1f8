#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# test.sh [RUN...]: builds Debian's kernel with our patches and boots it in an emulator, where it tests its own locks:
# once for each order, or as each RUN says (see boot). `test.sh build` only builds it.
#
# The kernel is that of $KERNEL_VERSION (6.1). What is built is kept in $KERNEL_CACHE (~/.cache/lockswap-kernel) under a
# hash of all that it depends on. Installs missing packages if LOCKSWAP_TESTS_MUST_RUN=1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${KERNEL_VERSION:-6.1}
[ $# -gt 0 ] || set -- native cna shfl ron ron-array auto:spin_lock

missing=
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio flex bison bc sparse; do
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

tar=/usr/src/linux-source-$version.tar.xz
hash=$(cat "$here/config" "$here/patches/$version"/*.patch "$tar" | sha256sum | cut -c1-16)
dir=${KERNEL_CACHE:-$HOME/.cache/lockswap-kernel}/$version-$hash
mkdir -p "$dir"
# Another test.sh with the same kernel waits here until this one has ended.
exec 9>"$dir/lock"
flock 9

# A build that was broken off goes on where it was. The folder's name is left out of what ccache looks at, so that a
# change of one file compiles little.
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
	"$here/lint" $version "$dir/src" "$dir/obj"
	touch "$dir/built"
fi
[ "$*" != build ] || exit 0

root=$dir/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
cp "$(command -v busybox)" "$root/bin/"
cp "$here/initramfs/init" "$dir/obj/kernel/torture.ko" "$dir/obj/kernel/locking/locktorture.ko" "$root/"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -static -pthread "$here/bench/bench.c" -o "$root/bench"
(cd "$root" && find . | cpio --quiet --create --format=newc --owner=0:0 | gzip -1) >"$dir/initramfs.gz"

# An emulator is one thread, so there are as many at a time as there are CPUs.
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 "$here/boot" "$dir/obj/arch/x86/boot/bzImage" "$dir/initramfs.gz" "$dir"

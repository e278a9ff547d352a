#!/usr/bin/env bash
# Cross-builds qbench for arm64 on an amd64 machine, tries it under qemu-user and makes the Debian package:
#   scripts/arm64.sh [FOLDER]     (default: build/arm64; needs root, debootstrap and a gigabyte and a half)
# FOLDER becomes a Debian 12 with the cross compiler and the libraries of arm64; nothing outside it
# changes. What it checks: unit and op tests under an emulated Neoverse N1 (QEMU_CPU for another), INT8
# bytes of the demo's model like those of this machine's qbench ($QBENCH or build/release/qbench, where
# it is), and that apt installs the package with its dependencies. The package: FOLDER/out/qbench_*_arm64.deb.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$root/build/arm64}
mirror=${MIRROR:-http://deb.debian.org/debian}
jobs=${JOBS:-$(nproc)}
tests=${TESTS:-'^(op\.|unit\.(base|datasets|kernels|quant)\.)'}
amd64=${QBENCH:-$root/build/release/qbench}
# What qemu or its speed breaks: /proc files of known size, limits of memory, oneDNN without fast kernels, minutes of
# scalar code, the tiers of x86.
leave_out=${LEAVE_OUT:-'^(unit\.base\.(apart|file)|unit\.kernels\.dnnl.*|op\.tactics.*|op\.bytes_of_tiers)$'}

say() { printf '\n== %s: %s\n' "$(date +%T)" "$*"; }

inside() { chroot "$folder" env DEBIAN_FRONTEND=noninteractive LC_ALL=C QEMU_CPU="${QEMU_CPU:-neoverse-n1}" "$@"; }

# names ARCHITECTURE: the libraries of packages.txt, as that architecture has them.
libraries() { sed -n 's/^\(lib[a-z0-9-]*-dev\|zlib1g-dev\).*/\1:'"$1"'/p' "$root/scripts/packages.txt" | grep -v openmpi; }

if [ ! -e "$folder/ready" ]; then
    say "a Debian 12 in $folder"
    mkdir -p "$folder"
    [ -e "$folder/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$folder" "$mirror" >"$folder.log"
    cp /etc/resolv.conf "$folder/etc/"
    inside dpkg --add-architecture arm64
    inside apt-get update -q >>"$folder.log"
    say "the cross compiler, qemu and libraries of arm64"
    # shellcheck disable=SC2046 # a word each
    inside apt-get install -q -y --no-install-recommends gcc g++ gcc-aarch64-linux-gnu g++-aarch64-linux-gnu \
        cmake ninja-build pkg-config file protobuf-c-compiler dpkg-dev qemu-user-static $(libraries arm64) \
        libgomp1:arm64 >>"$folder.log"
    touch "$folder/ready"
fi

# A mount of one's own namespace: it goes with this script.
if [ "${IN_NAMESPACE:-}" != 1 ]; then
    exec env IN_NAMESPACE=1 unshare --mount "$0" "$@"
fi
mkdir -p "$folder/source" "$folder/out" "$folder/answers"
mount --bind "$root" "$folder/source"
mount -t proc proc "$folder/proc"

say build
inside cmake -S /source -B /out -G Ninja -DCMAKE_BUILD_TYPE=Release -DQB_CUDA=OFF \
    --toolchain /source/cmake/aarch64-linux-gnu.cmake >"$folder.log"
inside cmake --build /out -j "$jobs" >>"$folder.log" || { tail -30 "$folder.log"; exit 1; }
inside qemu-aarch64-static /out/qbench doctor || true # it notes what is missing by its exit code

say "tests under qemu"
inside ctest --test-dir /out -j "$jobs" -R "$tests" -E "$leave_out" --timeout 600 --output-on-failure | tail -40

say "the package"
inside sh -c 'cd /out && rm -f *.deb && cpack' | tail -1
inside sh -c 'apt-get install -q -y --no-install-recommends /out/qbench_*_arm64.deb' | tail -3
inside dpkg -s qbench:arm64 | grep -E '^(Status|Architecture|Depends)'
inside qemu-aarch64-static /usr/bin/qbench version

say "INT8 bytes of both"
arm64() { inside sh -c 'cd /answers && exec qemu-aarch64-static /usr/bin/qbench "$@"' qbench "$@"; }
rm -rf "${folder:?}/answers/"*
# Of a program that is not there (gnuplot) qemu says that it failed, so the demo ends with an error of its charts.
arm64 demo -o demo --calibration-images 2 --test-images 1 >"$folder.log" 2>&1 ||
    grep -q 'gnuplot failed' "$folder.log" || { tail -30 "$folder.log"; exit 1; }
arm64 optimize demo/model.onnx --outputs logits -o logits.onnx -q
arm64 calibrate --model logits.onnx --data demo/calib --config '' -q
bytes() { # QBENCH... : what an INT8 engine of it computes, in numbers
    "$@" bench --model logits.onnx --precision int8 --duration=0 --iterations=1 --warmUp=0 --exportOutput=answer.json \
        >"$folder.log" 2>&1
}
bytes arm64
mv "$folder/answers/answer.json" "$folder/answers/arm64.json"
if [ -x "$amd64" ]; then
    (cd "$folder/answers" && bytes "$amd64")
    cmp "$folder/answers/answer.json" "$folder/answers/arm64.json"
    echo "the same: $(md5sum <"$folder/answers/arm64.json" | cut -c1-8)"
else
    echo "no $amd64: not compared"
fi
say "$folder/out/$(basename "$folder"/out/qbench_*_arm64.deb)"

#!/usr/bin/env bash
# ctest-timeout: 300, ctest-labels: plain
# What `cmake --install` puts in place is found and used by the projects of others: by CMake, by
# pkg-config, for programs and for plugins.
. "$1/tests/support/cli.sh"
source=$1
command -v cmake >/dev/null || skip 'no cmake'
[ "$(nm -D "$QB_BUILD/libqbench.so.0" | grep -c __asan_init)" = 0 ] || skip 'a build with sanitizers'

expect 0 cmake --install "$QB_BUILD" --prefix "$work/usr"
installed=$(find "$work/usr" -name qbench.pc -printf '%h')/..
[ -e "$work/usr/include/qbench/plugin.h" ] || fail 'no header for plugins'
[ -s "$work/usr/share/man/man1/qbench.1" ] || fail 'no man page'
export LD_LIBRARY_PATH=$installed

expect 0 "$work/usr/bin/qbench" demo -o demo --calibration-images 3 --test-images 2
expect 0 "$work/usr/bin/qbench" build --model demo/model.onnx --precision fp32 -o demo/model.qbe
image=$(find demo/test -name '*.png' | sort | head -1)

# CMake
mkdir user && cp "$source/examples/classify.c" user
cat >user/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(qbench 0.1 REQUIRED)
add_executable(classify classify.c)
target_link_libraries(classify PRIVATE qbench::qbench)
add_executable(classify_static classify.c)
target_link_libraries(classify_static PRIVATE qbench::qbench_static)
END
expect 0 cmake -S user -B user/build -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_C_COMPILER="${CC:-cc}"
expect 0 cmake --build user/build
expect 0 user/build/classify demo/model.qbe demo/model.json "$image"
says "^$image: [0-9]+ [a-z]+"
cp "$work/.out" first.out
expect 0 env -u LD_LIBRARY_PATH user/build/classify_static demo/model.qbe demo/model.json "$image"
same_bytes "$work/.out" first.out
checks=$((checks + 1))
if objdump -p user/build/classify_static | grep -q 'NEEDED.*libqbench'; then fail 'the static program needs libqbench.so'; fi
sed -i 's/qbench 0.1/qbench 7.0/' user/CMakeLists.txt
expect 1 cmake -S user -B user/other -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_C_COMPILER="${CC:-cc}"
complains 'requested version "7.0"'

# pkg-config
export PKG_CONFIG_PATH=$installed/pkgconfig
read -ra flags < <(pkg-config --cflags --libs qbench)
expect 0 "${CC:-cc}" user/classify.c "${flags[@]}" -o classify
expect 0 ./classify demo/model.qbe demo/model.json "$image"
same_bytes "$work/.out" first.out

read -ra flags < <(pkg-config --static --cflags --libs qbench | sed 's/-lqbench//')
expect 0 "${CC:-cc}" user/classify.c -Wl,-Bstatic -lqbench -Wl,-Bdynamic "${flags[@]}" -o classify_static
expect 0 env -u LD_LIBRARY_PATH ./classify_static demo/model.qbe demo/model.json "$image"
same_bytes "$work/.out" first.out

# A plugin needs the header alone, which is found beside the program.
expect 0 "$work/usr/bin/qbench" plugin new mine
expect 0 env PATH="$work/usr/bin:$PATH" cmake -S mine -B mine/build -DCMAKE_C_COMPILER="${CC:-cc}"
expect 0 cmake --build mine/build
expect 0 "$work/usr/bin/qbench" inspect mine/test.onnx --plugin mine/build/mine.so --steps
says 'plugin.mine 0.1'
if command -v c++ >/dev/null; then
    echo '#include <qbench/plugin.h>' >header.cpp
    expect 0 c++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -I "$work/usr/include" header.cpp
fi

# Python finds the installed library.
if python3 -c 'import numpy' 2>/dev/null; then
    export PYTHONPATH=$work/usr/lib/python3/dist-packages
    expect 0 python3 -c 'import qbench; print(qbench.version(), qbench.Engine.load("demo/model.qbe").outputs)'
fi
done_testing

#!/usr/bin/env bash
# One calibration, many ways: any batch, threads, order of the samples, processes; cut off and resumed;
# in parts that are merged. The file is always the same. On the demo's data, so that it runs everywhere,
# and on CIFAR-10 where that is.
# ctest-timeout: 300, ctest-cost: 100, ctest-labels: slow
. "$1/tests/support/cli.sh"

# MPI has leaks of its own and wants to be asked before it runs as root.
ranks() {
    ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe -n "$@"
}

# cut_off COMMAND...: kills it when it has saved its progress for the second time.
cut_off() {
    local pid
    rm -f x.calib.h5 x.calib.h5.part
    "$@" >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 1000); do
        [ ! -e x.calib.h5.part ] || break
        sleep 0.01
    done
    sleep 0.05
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    checks=$((checks + 1))
    [ -e x.calib.h5.part ] && [ ! -e x.calib.h5 ] || fail 'no progress was saved before the end'
}

# all_ways MODEL LIST [OPTION]: LIST names images by absolute paths.
all_ways() {
    local model=$1 list=$2
    local run=("$QBENCH" calibrate "$model" --method minmax,entropy --threads 2 "${@:3}")
    rm -f ./*.calib.h5
    expect 0 "${run[@]}" --data "$list" -o one.calib.h5
    for batch in 7 32; do
        expect 0 "${run[@]}" --data "$list" --batch $batch -o x.calib.h5
        same_bytes one.calib.h5 x.calib.h5
    done
    expect 0 "${run[@]}" --data "$list" --threads 1 -o x.calib.h5
    same_bytes one.calib.h5 x.calib.h5

    mkdir -p shuffled
    sort -R --random-source="$model" "$list" >"shuffled/$list"
    expect 0 "${run[@]}" --data "shuffled/$list" -o x.calib.h5
    same_bytes one.calib.h5 x.calib.h5

    cut_off "${run[@]}" --data "$list" --checkpoint 0.01 -o x.calib.h5
    expect 0 "${run[@]}" --data "$list" --resume -o x.calib.h5
    complains 'going on at sample'
    same_bytes one.calib.h5 x.calib.h5
    absent x.calib.h5.part
    expect 0 "${run[@]}" --data "$list" --resume -o x.calib.h5
    complains 'no checkpoint'

    for i in 1 2 3 4; do
        expect 0 "${run[@]}" --data "$list" --shard $i/4 -o part$i.calib.h5
    done
    expect 0 "$QBENCH" calib merge part3.calib.h5 part1.calib.h5 -o some.calib.h5
    says 'shards 1,3/4'
    expect 0 "$QBENCH" calib merge part4.calib.h5 some.calib.h5 part2.calib.h5 -o x.calib.h5
    same_bytes one.calib.h5 x.calib.h5

    command -v mpirun >/dev/null && [ -e "$QB_BUILD/qbench_mpi.so" ] || return
    for n in 2 3; do
        rm -f x.calib.h5
        expect 0 ranks $n "${run[@]}" --data "$list" --threads 1 -o x.calib.h5
        same_bytes one.calib.h5 x.calib.h5
        absent x.calib.h5.part.0
    done
}

expect 0 "$QBENCH" demo -o demo --test-images 2 --calibration-images 12
for image in demo/calib/*/*.png; do echo "$PWD/$image"; done >list.txt
black_image black.png
echo "$PWD/black.png" >>list.txt
# Long enough to be cut off; under sanitizers a quarter of it is.
repeats=12 cifar_step=4
[ -z "${QB_SANITIZE:-}" ] || repeats=3 cifar_step=16
for _ in $(seq $repeats); do cat list.txt; done >many.txt && mv many.txt list.txt
all_ways demo/model.onnx list.txt --per-channel

expect 0 "$QBENCH" calib show one.calib.h5 --tensor none
says "^note  duplicates $(((repeats - 1) * 121)) of $((repeats * 121)) samples are copies"
says "^note  blank +$repeats of $((repeats * 121)) images "

# What must not be merged.
expect 1 "$QBENCH" calib merge part1.calib.h5 some.calib.h5 -o y.calib.h5
complains 'both hold shard 1/4'
expect 1 "$QBENCH" calib merge part1.calib.h5 one.calib.h5 -o y.calib.h5
complains 'not parts of one run: 1/4 and all of the data'
head -5 list.txt >few.txt
expect 0 "$QBENCH" calibrate demo/model.onnx --data few.txt --method minmax,entropy -o few.calib.h5
expect 1 "$QBENCH" calib merge few.calib.h5 one.calib.h5 -o y.calib.h5
complains 'they overlap: 5 of 5 samples are in both'
cp demo/model.onnx other.onnx
sed 's/"RGB"/"BGR"/' demo/model.json >other.json
tail -5 list.txt >last.txt
expect 0 "$QBENCH" calibrate other.onnx --data last.txt --method minmax,entropy -o y.calib.h5
expect 1 "$QBENCH" calib merge few.calib.h5 y.calib.h5 -o z.calib.h5
complains 'different preprocessing: .*RGB.* and BGR'
absent z.calib.h5
expect 0 "$QBENCH" calibrate other.onnx --data last.txt --method mse -o y.calib.h5
expect 1 "$QBENCH" calib merge few.calib.h5 y.calib.h5 -o z.calib.h5
complains 'different preprocessing: .*RGB.* and BGR' # before that the methods are others
expect 2 "$QBENCH" calib merge few.calib.h5 -o z.calib.h5
expect 2 "$QBENCH" calibrate demo/model.onnx --data few.txt --shard 3/2
complains 'expected I/N'
expect 2 "$QBENCH" calibrate demo/model.onnx --data few.txt --shard 1/2 --method auto

# A checkpoint of another run.
cut_off "$QBENCH" calibrate demo/model.onnx --data list.txt --checkpoint 0.01 -o x.calib.h5
expect 1 "$QBENCH" calibrate demo/model.onnx --data few.txt --resume -o x.calib.h5
complains 'the checkpoint is of another run'
head -c 700 x.calib.h5.part >cut && mv cut x.calib.h5.part
expect 1 "$QBENCH" calibrate demo/model.onnx --data list.txt --resume -o x.calib.h5
complains 'x.calib.h5.part'

# Samples that are others under the same names than those that a checkpoint was made from: images,
# one that could not be read, and those of a tar archive.
mkdir -p images && i=0
for image in demo/calib/*/*.png; do cp "$image" "images/$((100000 + i++)).png"; done
for k in $(seq 400); do cp images/100003.png images/2$k.png; done
printf 'no image' >images/100001.png
tar --sort=name -cf images.tar images
reached() { head -c 512 x.calib.h5.part | tr -d '\0' | sed -n 's/^next //p'; }
resumed() { # resumed DATA STATUS
    expect "$2" "$QBENCH" calibrate demo/model.onnx --data "$1" --threads 2 --resume -o x.calib.h5
}
for data in images images.tar; do
    for _ in 1 2 3 4 5; do # behind the samples that change
        cut_off "$QBENCH" calibrate demo/model.onnx --data $data --threads 2 --checkpoint 0.01 -o x.calib.h5
        [ "$(reached)" -lt 4 ] || break
    done
    cp x.calib.h5.part kept.part
    cp -r images as_they_were && cp images.tar as_they_were.tar
    cp images/100007.png images/100002.png && tar --sort=name -cf images.tar images
    resumed $data 1
    complains "x.calib.h5.part: what it was made from has changed: .*sample '.*100002.png': it is another one"
    absent x.calib.h5
    cp as_they_were/100002.png images && cp images/100007.png images/100001.png && tar --sort=name -cf images.tar images
    resumed $data 1
    complains "sample '.*100001.png': it could not be read before, and now it can"
    rm -r images images.tar && mv as_they_were images && mv as_they_were.tar images.tar
    touch images/*.png # the same content at another time
    cp kept.part x.calib.h5.part
    resumed $data 0
    complains 'going on at sample'
    expect 0 "$QBENCH" calibrate demo/model.onnx --data $data --threads 2 -o y.calib.h5
    same_bytes y.calib.h5 x.calib.h5
done

if [ -d "${QB_SHARED:-}/cifar10/train" ]; then
    find "$QB_SHARED/cifar10/train" -name '*.jpg' | sort | awk "NR % $cifar_step == 0" >cifar.txt
    all_ways "$QB_SHARED/models/resnet8_cifar10.onnx" cifar.txt
fi
done_testing

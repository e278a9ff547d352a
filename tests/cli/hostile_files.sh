#!/usr/bin/env bash
# Files that other files name, and what is not a file at all, over every reader: links, hard links,
# FIFOs, files with holes, outputs that are links. Nothing may hang, and no byte of another file may
# get into an output.
# ctest-timeout: 300, ctest-cost: 40
. "$1/tests/support/cli.sh"
. "$1/tests/support/onnx.sh"

demo 3 4
cp demo/model.onnx demo/model.json . && cp -r demo/calib data
secret='a line of a secret file 4711'
mkdir -p outside && for _ in $(seq 64); do echo "$secret"; done >outside/secret.txt

# quick CODE COMMAND...: as expect, but it neither waits nor computes for more than two seconds. A
# busy machine stretches the clock's time: that is only bounded where something hangs.
quick() {
    local wanted=$1
    shift
    expect "$wanted" bash -c 'ulimit -t 2; exec timeout -s KILL 20 "$@"' - "$@"
}
no_secret() { # in what was printed or written here
    checks=$((checks + 1))
    ! grep -rlq 'secret file 4711' --exclude-dir=outside --exclude='w.bin' --exclude='hard.*' . || fail 'bytes of the secret file got out'
}

# ---- a model with external data, by hand: y = x + w, w of 1 x 4 floats in the file LOCATION ----

external_model() { # FILE LOCATION [DIMENSIONS [ENTRIES]]
    local dims=${3:-1 4} graph
    graph=$(field 0a "$(node Add '' y x w)")$(text 12 g)
    graph+=$(field 2a "$(tensor w "$dims" "$(pair location "$2")${4:-}7001")")
    graph+="$(field 5a "$(port x "$dims")")$(field 62 "$(port y "$dims")")"
    model "$1" "$graph"
}

mkdir -p ext/sub && cd ext || exit 1
head -c 16 ../outside/secret.txt >w.bin
cp w.bin sub/
external_model inside.onnx w.bin
quick 0 "$QBENCH" optimize inside.onnx -o out.onnx
rm -f out.onnx
ln -s ../outside/secret.txt linked.bin
ln -s ../outside dir
ln ../outside/secret.txt hard.bin
mkfifo fifo.bin
ln -s sub/w.bin near.bin
for location in linked.bin dir/secret.txt hard.bin ../outside/secret.txt "$work/outside/secret.txt" \
    sub/../../outside/secret.txt /etc/passwd fifo.bin /dev/zero /proc/self/environ . sub; do
    external_model bad.onnx "$location" '4' "$(pair length 16)"
    for command in inspect optimize build; do
        quick 1 "$QBENCH" $command bad.onnx
        complains 'bad.onnx.*initializer 0 .w.'
    done
    # Nor with the file as it is, without a length.
    external_model bad.onnx "$location" 16
    quick 1 "$QBENCH" optimize bad.onnx
done
absent bad.opt.onnx
no_secret
external_model good.onnx near.bin
quick 0 "$QBENCH" optimize good.onnx -o near.onnx
external_model good.onnx linked.bin 4 "$(pair length 16)"
quick 0 "$QBENCH" inspect good.onnx --allow-outside ../outside
quick 0 "$QBENCH" inspect good.onnx --allow-outside ../outside/secret.txt
quick 1 "$QBENCH" inspect good.onnx --allow-outside ../elsewhere
complains "outside/secret.txt, which is not inside the model's folder.*--allow-outside"
external_model good.onnx ../outside/secret.txt 4 "$(pair length 16)"
quick 0 "$QBENCH" inspect good.onnx --allow-outside=../outside

# A Hugging Face cache: links into blobs/.
mkdir -p hub/blobs hub/snapshots/1f
external_model hub/blobs/aa model.onnx_data
cp w.bin hub/blobs/bb
ln -s ../../blobs/aa hub/snapshots/1f/model.onnx
ln -s ../../blobs/bb hub/snapshots/1f/model.onnx_data
quick 0 "$QBENCH" inspect hub/snapshots/1f/model.onnx

# A file that is all hole is not read through, and neither is one of another size.
truncate -s 16G hole.bin
external_model hole.onnx hole.bin
quick 1 "$QBENCH" inspect hole.onnx
complains 'expected 16 bytes, got 17179869184'
external_model hole.onnx hole.bin '1024 1024 4096'
quick 1 "$QBENCH" inspect hole.onnx
complains 'nearly all hole'
external_model hole.onnx hole.bin 4 "$(pair offset 17179869180)$(pair length 16)"
quick 1 "$QBENCH" inspect hole.onnx
complains 'the file has 17179869184'
rm hole.bin
cd .. || exit 1

# ---- labels that a sidecar or the settings name ----

label() { sed -z 's|"labels": *\[[^]]*\]|"labels": "'"$1"'"|' demo/model.json >model.json; }
ln -s outside/secret.txt link.txt
ln outside/secret.txt hard.txt
mkfifo fifo.txt
for file in /etc/passwd "$work/outside/secret.txt" ../"${work##*/}"/outside/secret.txt hard.txt fifo.txt /dev/zero; do
    label "$file"
    grep -q "\"labels\": \"$file\"" model.json || fail 'the sidecar names no file'
    quick 1 "$QBENCH" compare fp32 --model model.onnx --data demo/test --duration 0.01 --no-figures
    complains "model.json: key 'labels'"
    cp demo/model.json model.json
    printf 'model: model.onnx\ndata: {evaluation: demo/test, labels: %s}\n' "$file" >settings.yaml
    quick 1 "$QBENCH" compare fp32 --config settings.yaml --duration 0.01 --no-figures
    complains 'settings.yaml: data.labels'
    no_secret
    ! grep -q root: .err || fail 'lines of /etc/passwd in a message'
done
mkdir -p own && cp model.onnx own/ && ln -s ../outside/secret.txt own/link.txt
label link.txt && mv model.json own/
quick 1 "$QBENCH" compare fp32 --model own/model.onnx --data demo/test --duration 0.01 --no-figures
complains "'link.txt' is a link to .*outside/secret.txt, which is not inside the sidecar's folder"
# A table of classes may lie elsewhere, as data sets have it.
tr -d '\n" ' <demo/model.json | sed 's/.*labels:\[\([^]]*\)\].*/\1/' | tr , '\n' |
    awk '{print NR - 1 "\t" $0}' >outside/table.txt
label ../outside/table.txt && mv model.json own/
quick 0 "$QBENCH" compare fp32 --model own/model.onnx --data demo/test --duration 0.01 --no-figures \
    --backends dnnl,cpu # whose convolutions no sanitizer slows down
says '^fp32 +9'
cp demo/model.json model.json
no_secret

# ---- FIFOs and devices in the place of files ----

mkfifo pipe pipe.json pipe.h5 pipe.png pipe.onnx pipe.qbe pipe.yaml pipe.npy pipe.so
for what in pipe /dev/zero; do
    quick 1 "$QBENCH" inspect $what
    quick 1 "$QBENCH" calib show $what
    quick 1 "$QBENCH" gate $what
    quick 1 "$QBENCH" report $what
    quick 1 "$QBENCH" check --for trt $what
    quick 1 "$QBENCH" bench --loadEngine=$what
    quick 1 "$QBENCH" compare fp32 --config $what
    quick 1 "$QBENCH" compare fp32 --model model.onnx --data demo/test --labels $what
    quick 1 "$QBENCH" calibrate model.onnx --data $what
    quick 1 "$QBENCH" calib import $what --model model.onnx
    quick 1 "$QBENCH" calib diff $what $what
    quick 1 "$QBENCH" migrate model.onnx $what
    quick 1 "$QBENCH" bench model.onnx --loadInputs=$what --duration=0
    quick 1 "$QBENCH" inspect model.onnx --plugin ./pipe.so
done
for file in pipe.h5 pipe.npy; do quick 1 "$QBENCH" calibrate model.onnx --data $file; done
for file in pipe.onnx pipe.qbe; do quick 1 "$QBENCH" inspect $file; done
quick 1 "$QBENCH" gate pipe.json
mkfifo pipe.txt && quick 1 "$QBENCH" calibrate model.onnx --data pipe.txt
printf 'pipe.png\n' >list.txt
quick 1 "$QBENCH" calibrate model.onnx --data list.txt
complains 'pipe.png.*FIFO'
mkdir -p beside && cp model.onnx beside/
mkfifo beside/model.json
quick 1 "$QBENCH" calibrate beside/model.onnx --data data
complains 'beside/model.json: expected a regular file, got a FIFO'
rm beside/model.json && mkfifo beside/qbench.yaml
quick 1 sh -c 'cd beside && "$1" calibrate --data ../data' sh "$QBENCH"
complains 'qbench.yaml: expected a regular file, got a FIFO'
rm beside/qbench.yaml
mkfifo beside/compare.json
quick 1 sh -c 'cd beside && "$1" gate --max-drop 1' sh "$QBENCH"
complains 'compare.json: expected a regular file, got a FIFO'
rm beside/compare.json
mkdir -p images && cp "$(find data -name '*.png' | head -1)" images/a.png && mkfifo images/b.png
quick 0 "$QBENCH" calibrate model.onnx --data images -o images.calib.h5 # no sample, as a folder is none

# ---- outputs ----

echo precious >outside/precious
for name in out.calib.h5 out.json; do ln -s outside/precious $name; done
quick 0 "$QBENCH" calibrate model.onnx --data images -o out.calib.h5 --json out.json
checks=$((checks + 1))
[ "$(cat outside/precious)" = precious ] && [ ! -L out.calib.h5 ] && [ ! -L out.json ] ||
    fail 'an output was written through a link'
mkfifo out.fifo
quick 1 "$QBENCH" version --json out.fifo
complains 'write out.fifo: No such device'
cat out.fifo >read.json &
quick 0 "$QBENCH" version --json out.fifo
wait $!
checks=$((checks + 1))
grep -q '"schema"' read.json || fail 'a pipe with a reader'
mkdir drawn && ln -s ../outside drawn/figures
quick 1 "$QBENCH" report demo/compare.json -o drawn
complains 'drawn/figures: there is a link of that name'
ln -s /dev/full dev.json
quick 0 "$QBENCH" version --json dev.json
checks=$((checks + 1))
[ -f dev.json ] && [ ! -L dev.json ] || fail 'a link to a device was followed'

done_testing

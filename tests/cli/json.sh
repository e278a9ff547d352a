#!/usr/bin/env bash
# ctest-timeout: 300, ctest-cost: 40, ctest-labels: plain
# Every command's --json, as it really comes, against its JSON Schema in docs/formats/schema; and the
# schemas against the program: none is missing, none describes what no command writes.
. "$1/tests/support/cli.sh"
schemas=$1/docs/formats/schema
check=$QB_BUILD/tests/json_check
seen=$work/seen
: >"$seen"

# fits SCHEMA FILE
fits() {
    checks=$((checks + 1))
    echo "$1" >>"$seen"
    "$check" "$schemas/$1.json" "$2" >"$work/.out" 2>"$work/.err" || fail "$2 does not fit $1.json"
}

# gives CODE SCHEMA ARGUMENTS...: what --json prints, alone on standard output.
gives() {
    local code=$1 schema=$2
    shift 2
    expect "$code" "$QBENCH" "$@" --json -
    cp "$work/.out" result.json
    fits "$schema" result.json
}

# The check itself: what is planted must be found.
for wrong in '{"schema": "qbench.version/1", "version": 1, "libraries": ""}' \
    '{"schema": "qbench.version/2", "version": "", "libraries": ""}' \
    '{"schema": "qbench.version/1", "version": ""}' \
    '{"schema": "qbench.version/1", "version": "", "libraries": "", "more": 0}'; do
    echo "$wrong" >wrong.json
    expect 1 "$check" "$schemas/version.json" wrong.json
done
echo '{"patern": "x"}' >wrong.json
expect 1 "$check" wrong.json wrong.json

expect 0 "$QBENCH" demo -o demo --test-images 3 --calibration-images 3 --json demo.json
fits compare demo.json
cd demo || exit 1
gives 0 init init --model model.onnx --data calib --force
rm qbench.yaml
gives 0 inspect inspect model.onnx
gives 0 optimize optimize model.onnx -o optimized.onnx
rm optimized.onnx
gives 0 calibrate calibrate --model model.onnx --data calib --method minmax,entropy
gives 0 calibrate calibrate --model model.onnx --data calib --method auto --per-channel --doctor
cp model.calib.h5 other.calib.h5
gives 0 calib-show calib show model.calib.h5
gives 0 calib-diff calib diff model.calib.h5 other.calib.h5
gives 0 calib-export calib export model.calib.h5 --format trt -o model.cache
gives 0 calib-import calib import model.cache --model model.onnx -o imported.calib.h5
for part in 1 2; do
    expect 0 "$QBENCH" calibrate --model model.onnx --data calib --shard $part/2 -o part$part.calib.h5
done
gives 0 calib-merge calib merge part1.calib.h5 part2.calib.h5 -o merged.calib.h5
rm part?.calib.h5
! command -v gnuplot >/dev/null || gives 0 calib-plot calib plot model.calib.h5 --tensor image -o plots
gives 0 quantize quantize --model model.onnx
gives 3 check check model.qdq.onnx --for trt
gives 0 migrate migrate model.onnx model.cache -o migrated.onnx
gives 0 check check migrated.onnx --for trt
gives 0 compare compare fp32 int8 int8:minmax --model model.onnx --data test --duration 0.01 --layers --batches 1,2 --no-figures
fits compare compare.json
gives 0 compare-part compare fp32 int8 --model model.onnx --data test --duration 0.01 --shard 1/1 -o part_1.json
fits part part_1.json
gives 0 compare merge part_1.json -o merged.json --no-figures
rm part_1.json merged.json
gives 0 search search --model model.onnx --data test --samples 2 --max-latency 100x --time-budget 1 --no-figures
fits search model.search.json
gives 0 gate gate --max-drop 90 --min-agreement 1 --min-sqnr 1 --max-latency-ratio 1000 --max-engine-size 64 --allow unstable --allow contention
gives 3 gate gate --max-drop -100 --confidence pass
gives 0 compare report
gives 0 build build --model model.onnx --precision int8
gives 0 engine inspect model.int8.qbe
expect 0 "$QBENCH" inspect model.int8.qbe --plan
cp "$work/.out" result.json
fits plan result.json
gives 0 bench bench --loadEngine=model.int8.qbe --duration=0 --iterations=3 --warmUp=0 \
    --exportTimes=times.json --exportProfile=profile.json --exportLayerInfo=layers.json --exportOutput=output.json
for part in times profile layers output; do fits bench-$part $part.json; done
gives 0 doctor doctor
gives 0 data-doctor data doctor --model model.onnx --data test
gives 0 zoo zoo
gives 0 zoo zoo mobilenet_v2 -o zoo.onnx
gives 0 plugins plugin inspect "$QB_BUILD/plugins/gate.so"
gives 0 plugin-new plugin new sampler
rm -r sampler
gives 0 completion completion bash
gives 0 manual manual gate
gives 0 manual manual -o man
gives 0 version version
mkdir -p case/test_data_set_0 && cp model.onnx case # a case without data: it fails
echo '{"images": [{"id": 1, "width": 9, "height": 9}], "categories": [{"id": 1}]}' >gt.json
echo '[{"image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2], "score": 0.5}]' >dt.json
gives 0 score score --annotations gt.json --results dt.json
gives 3 verify verify case
if [ -d "$QB_SHARED/onnx-node-tests/test_add" ]; then gives 0 verify verify "$QB_SHARED/onnx-node-tests/test_add"; fi
cat >qbench.yaml <<END
model: model.onnx
data: {calibration: calib, evaluation: test}
compare: {duration: 0.01}
gate: {max_drop: 100}
END
gives 0 flow run
fits run qbench.run.json

# The program's schemas, those described, and those seen above are the same.
checks=$((checks + 1))
grep -rhoE '"qbench\.[a-z-]+/[0-9]+"' "$1"/{base,calib,quant,engine,eval,cli} --include=*.[ch] | sort -u >"$work/named"
cat "$schemas"/*.json | grep -oE '"qbench\.[a-z-]+/[0-9]+"' | sort -u >"$work/described"
diff "$work/named" "$work/described" >"$work/.out" || fail 'schemas named in the sources (<) and described in docs/formats/schema (>) differ'
checks=$((checks + 1))
diff <(sort -u "$seen") <(ls "$schemas" | sed 's/\.json$//' | sort -u) >"$work/.out" || fail 'schemas checked here (<) and described (>) differ'
done_testing

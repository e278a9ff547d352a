#!/usr/bin/env bash
# Input that lies about itself, or that is given as an output as well: each ends with an error that names
# the file, soon, and leaves what was there.
# ctest-timeout: 200, ctest-cost: 10
. "$1/tests/support/cli.sh"
. "$1/tests/support/onnx.sh"

demo 3 4
cp demo/model.onnx demo/model.json . && cp -r demo/calib data
expect 0 "$QBENCH" calibrate model.onnx --data data -n 4
expect 0 "$QBENCH" compare fp32 --data data -n 4 --duration 0.01 --no-figures
mkdir before && cp model.onnx model.json model.calib.h5 compare.json before/

# refused CODE TEXT COMMAND...: within 3 s of processor time, nothing half-written, no file changed.
refused() {
    local code=$1 text=$2 file
    shift 2
    expect "$code" bash -c 'ulimit -t 3; exec timeout -s KILL 60 "$@"' - "$@"
    complains "$text"
    for file in model.onnx model.json model.calib.h5 compare.json; do same_bytes "$file" before/"$file"; done
    checks=$((checks + 1))
    file=$(find . -name '*.tmp*' | head -3)
    [ -z "$file" ] || fail "left over: $file"
}

# ---- outputs that are inputs ----

short=(--iterations 1 --warmUp 0 --duration 0)
ln model.onnx hard.onnx
ln -s model.onnx soft.onnx
for name in model.onnx ./model.onnx hard.onnx soft.onnx; do
    refused 2 "--json $name: would replace model.onnx" "$QBENCH" inspect model.onnx --json "$name"
    refused 2 "--dot $name: would replace" "$QBENCH" inspect model.onnx --dot="$name"
    refused 2 "--dot $name: would replace" "$QBENCH" inspect --dot="$name" model.onnx
    refused 2 "--dot $name: would replace" "$QBENCH" inspect --json out.json --dot "$name" model.onnx
    refused 2 "-o $name: would replace model.onnx" "$QBENCH" quantize model.onnx -o "$name"
done
rm hard.onnx soft.onnx
for option in exportTimes exportOutput exportProfile exportLayerInfo; do
    refused 2 "--$option model.onnx: would replace" "$QBENCH" bench --onnx=model.onnx "${short[@]}" --$option=model.onnx
done
# -oFILE and -qo FILE are -o FILE.
expect 0 "$QBENCH" build model.onnx --precision fp32 -o net.qbe
"$QBENCH" inspect net.qbe --plan >plan.json 2>/dev/null && cp plan.json before && head -c 12288 /dev/zero >in.bin
for option in saveEngine output timingCacheFile; do
    refused 2 "--$option plan.json: would replace plan.json" "$QBENCH" build model.onnx --precision fp32 --plan plan.json --$option plan.json
done
refused 2 '--timingCacheFile x.qbe: --saveEngine names the same file|--saveEngine x.qbe: --timing' "$QBENCH" build model.onnx --precision fp32 --timingCacheFile x.qbe --saveEngine x.qbe
refused 2 '--exportTimes in.bin: would replace in.bin' "$QBENCH" bench --onnx=model.onnx "${short[@]}" --loadInputs=image:in.bin --exportTimes in.bin
refused 2 '--saveEngine in.bin: would replace in.bin' "$QBENCH" bench --onnx=model.onnx "${short[@]}" --saveEngine=in.bin --loadInputs image:in.bin
same_bytes plan.json before/plan.json
refused 2 '-o model.onnx: would replace' "$QBENCH" quantize model.onnx -omodel.onnx
refused 2 '-qo model.onnx: would replace' "$QBENCH" quantize model.onnx -qo model.onnx
# A JSON file of the model's name is its sidecar.
mkdir alone
cp model.onnx alone/
for option in exportTimes exportOutput exportProfile exportLayerInfo json; do
    refused 2 "--$option alone/model.json: would be read as the sidecar of alone/model.onnx" \
        "$QBENCH" bench alone/model.onnx "${short[@]}" --$option=alone/model.json
done
refused 2 'would be read as the sidecar' "$QBENCH" report --format json -oalone/model.json
[ ! -e alone/model.json ] || fail 'a sidecar was written'
expect 0 "$QBENCH" inspect alone/model.onnx --json alone/model2.json
rm -r alone
refused 2 "--loadInputs: 'a:b' would replace 'image:x.bin'" \
    "$QBENCH" bench model.onnx "${short[@]}" --loadInputs image:x.bin --loadInputs a:b
refused 2 "--shapes: input 'image' is given twice" "$QBENCH" bench model.onnx "${short[@]}" --shapes image:1x3x32x32,image:2x3x32x32
refused 2 "--loadInputs: input 'image' is given twice" "$QBENCH" bench model.onnx "${short[@]}" --loadInputs image:in.bin,in.bin
refused 2 '--json model.onnx: would' "$QBENCH" data doctor data --model model.onnx --json model.onnx
refused 2 '-o model.calib.h5: would' "$QBENCH" calib export model.calib.h5 --format trt -o model.calib.h5
refused 2 '--json model.calib.h5: would' "$QBENCH" calib show model.calib.h5 --json model.calib.h5
refused 2 '--junit compare.json: would' "$QBENCH" gate compare.json --max-drop 9 --precision fp32 --junit compare.json
refused 2 '--json ./compare.json: would' "$QBENCH" gate compare.json --max-drop 9 --json ./compare.json
refused 2 '--json x: --junit names the same file' "$QBENCH" gate compare.json --max-drop 9 --json x --junit=x
# Read without being named.
printf 'model: model.onnx\n' >qbench.yaml
for name in compare.json ./compare.json; do
    refused 2 "--json $name: would replace compare.json" "$QBENCH" gate --max-drop 9 --json $name
    refused 2 "--junit $name: would replace compare.json" "$QBENCH" gate --max-drop 9 --junit $name
    refused 2 'would replace compare.json' "$QBENCH" report --format json -o $name
done
refused 2 '--json qbench.yaml: would' "$QBENCH" calibrate --data data -o other.calib.h5 --json qbench.yaml
refused 2 '--json model.onnx: would' "$QBENCH" calibrate --data data -o other.calib.h5 --json model.onnx
printf 'model: model.onnx\ngate: {baseline: compare.json}\n' >qbench.yaml
cp compare.json judged.json
refused 2 '--junit compare.json: would replace ./compare.json' "$QBENCH" gate judged.json --junit compare.json
refused 2 '--json ./compare.json: would replace' "$QBENCH" gate judged.json --json ./compare.json
rm qbench.yaml judged.json
# A search's cache is written line by line, but not through a link.
mkdir searched && echo precious >precious && ln -s ../precious searched/model.search.part
expect 0 "$QBENCH" search --model model.onnx --data data -n 4 --max-drop 100 --time-budget 1 --no-figures -o searched
checks=$((checks + 1))
[ "$(cat precious)" = precious ] || fail 'a cache was written through a link'
# A cache is taken as a whole, but for a last line that was cut, and only for what it was measured on.
resumed=(search --model model.onnx --data data -n 4 --max-drop 100 --time-budget 1 --no-figures -o searched --resume)
cp searched/model.search.part whole.part
sed -i '2s/.*/garbage/' searched/model.search.part
refused 1 'searched/model.search.part: line 2: damaged; without --resume' "$QBENCH" "${resumed[@]}"
cp whole.part searched/model.search.part
sed -i 's/128\.0/1.0/' model.json
expect 1 "$QBENCH" "${resumed[@]}"
complains 'of another search: its preparation is ".*mean 128 128 128.*", not ".*mean 1 1 1'
cp before/model.json model.json
expect 1 "$QBENCH" "${resumed[@]}" --disable-pass fold-constants
complains 'its passes_left_out is \[\], not \["fold-constants"\]'
printf '{"kind": "sco' >>searched/model.search.part
expect 0 "$QBENCH" "${resumed[@]}"
# A search's record with names that rule terminals and are none.
rm searched/model.search.part whole.part
sed -i 's/"float": *\[/"float": ["\\u001b[31m\\n::error::x", 5], "was": [/; s/"float_type": *"f32"/"float_type": 5/' searched/model.search.json
cp model.calib.h5 searched/
expect 0 "$QBENCH" compare fp32 int8 --model model.onnx --data data -n 4 --duration 0.01 --no-figures --layers -o searched
checks=$((checks + 1))
grep -q 'measured by qbench search: .*x1b\[31m' searched/compare.json || fail 'the search was not read'
! grep -q $'\x1b' .out .err searched/compare.json || fail 'a name rules the terminal'
# What makes another of what it reads may replace it.
cp model.onnx again.onnx && cp model.calib.h5 again.calib.h5
expect 0 "$QBENCH" optimize again.onnx -o again.onnx
expect 1 "$QBENCH" calib merge again.calib.h5 model.calib.h5 -o again.calib.h5
complains 'cannot merge .*they overlap'

# ---- records whose numbers contradict each other ----

cat >edit.py <<'PY'
import json, sys
record = json.load(open("compare.json"))
record["rows"].append(json.loads(json.dumps(record["rows"][0])))
row = record["rows"][1]
row["precision"] = "int8"
row["metrics"] = [m for m in row["metrics"] if m["name"] in ("top1", "agreement")]
exec(sys.argv[1])
json.dump(record, open("edited.json", "w"))
PY
edited() { python3 edit.py "$1" || fail "edit: $1"; }
edited 'pass'
expect 0 "$QBENCH" report edited.json --format tsv -o edited.tsv
while IFS='|' read -r wanted edit; do
    edited "$edit"
    refused 1 "edited.json: $wanted" "$QBENCH" gate edited.json --max-drop 9
    refused 1 "edited.json: $wanted" "$QBENCH" report edited.json -o edited.html
done <<'CASES'
rows.1.: top1: expected 0 to 100, got 200|row["top1"] = 200
rows.1.: agreement: expected 0 to 100, got 300|row["agreement_top1"] = 300
rows.1.: top1: 1 in the row|row["top1"] = 1
rows.1.: top1: nan in the row|row["top1"] = None
rows.1.: top1: [0-9.]+ in the row, nan in|row["metrics"][0]["value"] = None
.*paired: expected an object|row["paired"] = 0.5
.*time: expected an object|row["time"] = "int8"
.*disturbance: expected an object|record["disturbance"] = []
.*samples: expected a list of objects|record["samples"] = [[]]
rows.1.: drop: -50, but top1 is|row["drop"] = -50
rows.1.: metrics: 'top1' is given twice|row["metrics"].append(row["metrics"][0])
rows.1.: top1: the interval's ends|row["metrics"][0]["low"] = 101
rows.1.: paired: more than the 4 samples|row["paired"]["lost"] = 2**62
rows.1.: paired: the interval's ends|row["paired"].update(drop_low=5, drop_high=-5)
rows.1.: recall: 9 of 1 are right|row["recall"] = [{"label": 0, "n": 1, "right": 9}]
rows.1.: latency_ms: expected 0 or more, got -1|row["latency_ms"]["median"] = -1
rows.1.: speedup: expected 0 or more|row["speedup"] = -2
rows.2.: 'int8' has other scores than in rows.1.|record["rows"].append(dict(row, top1=50, drop=row["top1"] - 50, metrics=[]))
warnings: touches: expected accuracy or latency, got 'all'|record["warnings"] = [{"name": "chance", "touches": "all", "text": "x"}]
CASES
# What a warning touches is known, whatever the record says of it.
edited 'record["warnings"] = [{"name": "nan", "touches": "", "row": "int8", "text": "int8: NaN"}]'
refused 3 'checks did not hold' "$QBENCH" gate edited.json --max-drop 100 --precision int8 --allow chance --allow calibration-data
checks=$((checks + 1))
grep -q '^BLOCKED int8 max-drop: .*--allow nan' .out || fail 'a warning without what it touches does not block'
rm edited.json edited.tsv edit.py

# ---- folders of outputs: none is left where nothing could be written ----

printf 'no model' >bad.onnx
mkdir kept
for folder in new/deep/er kept/new kept; do
    refused 1 'bad.onnx' "$QBENCH" quantize bad.onnx -o $folder
    refused 1 'bad.onnx' "$QBENCH" compare fp32 --model bad.onnx --data data -o $folder
    refused 1 'bad.onnx' "$QBENCH" search --model bad.onnx --data data --max-drop 1 -o $folder
    refused 1 'bad.onnx' "$QBENCH" init --model bad.onnx -o $folder
    refused 1 'nowhere' "$QBENCH" compare fp32 --model model.onnx --data nowhere -o $folder
    printf 'model: bad.onnx\ndata: {calibration: data, evaluation: data}\n' >bad.yaml
    refused 1 'bad.onnx' "$QBENCH" run --config bad.yaml -o $folder
    absent new
    checks=$((checks + 1))
    [ -d kept ] && [ -z "$(ls -A kept)" ] || fail "$folder: $(ls -A kept)"
done

# ---- settings ----

while IFS='|' read -r wanted text; do
    printf '%b\n' "$text" >bad.yaml
    refused "${wanted%% *}" "bad.yaml.*${wanted#* }" "$QBENCH" gate compare.json --config bad.yaml
done <<'CASES'
2 expected METRIC=V|gate: {min: ["top1=nan"]}
2 --allow: expected|gate: {max_drop: 1, allow: ["\\n::error::x"]}
1 expected a finite number|gate: {max_drop: .nan}
1 expected a finite number|gate: {max_drop: 1e999}
1 given twice|gate: {max_drop: 1, max_drop: 2}
1 anchors are not supported|a: &a [x]\nb: &b [*a, *a]
1 aliases are not supported|a: *nope
1 tags are not supported|!!python/object/apply:os.system ["id"]
1 nested more than 32 deep|gate: {min: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
1 unknown key 'gate.5'|gate: {max_drop: 1,5}
1 expected a mapping|gate: [1, 2]
CASES

# ---- what a sidecar says of a detector in words of another type ----

cp model.onnx side.onnx
while IFS='|' read -r wanted text; do
    printf '{"detection": {%s}}' "$text" >side.json
    refused 1 "side.json: key 'detection.$wanted" "$QBENCH" compare fp32 --model side.onnx --data data -o sided
done <<'CASES'
top_k': expected a whole number from 0 on|"top_k": -1
max_det': expected a whole number from 0 on|"max_det": "9"
top_k': expected a whole number from 0 on|"top_k": 1.5
decode': expected a text|"decode": 5
box_format': expected a text|"box_format": ["xyxy"]
nms_per_class': expected true or false|"nms_per_class": 1
class_agnostic': expected true or false|"class_agnostic": "no"
strides': expected numbers above 0|"strides": [8, 0]
anchors': expected numbers above 0|"anchors": [[10, -13], [16, 30]]
min_sizes': expected numbers above 0|"min_sizes": [0]
category_ids': expected whole numbers|"category_ids": [1, 2.5]
CASES
# Names of inputs and outputs are the model's, and so are its shape and type.
while IFS='|' read -r wanted text; do
    printf '{%s}' "$text" >side.json
    for command in inspect 'bench --iterations 1' "calibrate --data data -n 4 -o sided.calib.h5"; do
        # shellcheck disable=SC2086
        refused 1 "side.json: key '$wanted" "$QBENCH" $command --model side.onnx
    done
    absent sided.calib.h5
done <<'CASES'
input': side.onnx has no input 'imaeg', but 'image'|"input": "imaeg"
input': side.onnx has no input '', but 'image'|"input": ""
output': side.onnx has no output 'image', but|"output": "image"
shape': .x3x64x64, but input 'image' is .x3x32x32|"shape": ["N", 3, 64, 64]
shape': .x32x32x3, but input 'image' is|"shape": ["N", 32, 32, 3]
shape': .x3072, but input 'image' is|"input": "image", "shape": ["N", 3072]
dtype': uint8, but input 'image' is f32|"dtype": "uint8"
dtype': expected a string, got a number|"dtype": 1
layout': expected NCHW or NHWC, got 'HWC'|"layout": "HWC", "color": "RGB"
layout': expected a string, got a list|"layout": ["NHWC"], "color": "RGB"
CASES
printf '{"dtype": "fp32", "task": "bogus", "shape": [7, 3, "H", 32]}' >side.json
expect 0 "$QBENCH" inspect side.onnx
complains "side.json: key 'dtype': 'fp32' is no type's name"
complains "side.json: key 'task': no task is called 'bogus'"
printf '{"input": "image"}' >side.json
expect 0 "$QBENCH" inspect side.onnx
rm side.onnx side.json

# ---- models that fail when they are built, or run: the error has the file ----

axis=$(field 2a "$(text 0a axis)1800a00102") # an attribute: 0
growing() {                                  # FILE TIMES: concatenated with itself, again and again
    local graph='' i from=x
    for i in $(seq "$2"); do
        graph+=$(field 0a "$(node Concat "n$i" "t$i" "$from" "$from")$axis")
        from=t$i
    done
    model "$1" "$graph$(text 12 g)$(field 5a "$(port x 2)")$(field 62 "$(text 0a "$from")")"
}
growing grows.onnx 45
refused 1 'grows.onnx: .*out of memory: .*--max-memory' "$QBENCH" bench grows.onnx "${short[@]}"
growing wraps.onnx 64
refused 1 'wraps.onnx: node [0-9]+ Concat .*too large' "$QBENCH" inspect wraps.onnx
index="08011007$(text 42 i)$(field 4a ffffffffffffff3f)" # one s64 of 2^62 - 1
model outside.onnx "$(field 0a "$(node Gather pick y x i)")$(text 12 g)$(field 2a "$index")$(field 5a "$(port x 3)")$(field 62 "$(text 0a y)")"
refused 1 'outside.onnx: .*(pick|Gather).*index 4611686018427387903' "$QBENCH" bench outside.onnx "${short[@]}"

# Sizes far beyond any memory take no longer to plan for: what runs is small.
for most in 10000000000 1099511627776; do
    expect 0 bash -c 'ulimit -t 5; exec "$@"' - "$QBENCH" build model.onnx -o wide.qbe --minShapes=image:1x3x32x32 \
        --optShapes=image:2x3x32x32 --maxShapes=image:${most}x3x32x32
done
rm wide.qbe

# ---- tensors that hold their elements twice, operator sets of two versions: readers differ in which they take ----

ones=0000803f twos=00000040
twice() { # FILE FIELDS: y = x + w, where w has these
    model "$1" "$(field 0a "$(node Add a y x w)")$(text 12 g)$(field 2a "$(tensor w 1 "$2")")$(field 5a "$(port x 1)")$(field 62 "$(port y 1)")"
}
twice once.onnx "$(field 4a $ones)"
expect 0 "$QBENCH" bench once.onnx "${short[@]}"
twice raw_and_typed.onnx "$(field 4a $ones)$(field 22 $twos)"
refused 1 "raw_and_typed.onnx: initializer 0 'w': its elements are given twice: in raw_data and in float_data" "$QBENCH" inspect raw_and_typed.onnx
printf '\0\0\0\0' >w.bin
twice raw_and_file.onnx "$(field 4a $ones)$(pair location w.bin)7001"
refused 1 "its elements are given twice: in raw_data and in a file" "$QBENCH" inspect raw_and_file.onnx
twice typed_and_file.onnx "$(field 22 $twos)$(pair location w.bin)7001"
refused 1 "its elements are given twice: in float_data and in a file" "$QBENCH" inspect typed_and_file.onnx
twice segment.onnx "$(field 4a $ones)$(field 1a 08001001)"
refused 1 "segment.onnx: initializer 0 '': segments of tensors are not supported" "$QBENCH" inspect segment.onnx
{ cat once.onnx && printf '\x42\x02\x10\x07'; } >opsets.onnx
refused 1 "opsets.onnx: opset of domain '': version 17 and 7" "$QBENCH" inspect opsets.onnx

sparse="$(node Constant none c)$(field 2a "$(text 0a sparse_value)a0010b")"
model sparse.onnx "$(field 0a "$sparse")$(field 0a "$(node Add '' y x c)")$(text 12 g)$(field 5a "$(port x 1)")$(field 62 "$(port y 1)")"
refused 1 "Constant .opset 17.: attribute sparse_value is not supported; node 0 'none'" "$QBENCH" inspect sparse.onnx

# What a run gives is not shown in the shape of the most that it may give.
model fewer.onnx "$(field 0a "$(node Compress c y x m)")$(text 12 g)$(field 5a "$(port x 4)")$(field 5a "$(text 0a m)$(field 12 "$(field 0a "0809$(field 12 "$(field 0a 0804)")")")")$(field 62 "$(text 0a y)")"
printf '\0\1\0\0' >mask.bin
printf '\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40' >x.bin
expect 0 "$QBENCH" bench fewer.onnx "${short[@]}" --loadInputs=m:mask.bin,x:x.bin --exportOutput=fewer.out.json
checks=$((checks + 1))
[ "$(tr -d ' \n' <fewer.out.json)" = '[{"name":"y","dtype":"f32","dimensions":"1","values":[2.0]}]' ] || fail "$(cat fewer.out.json)"

# ---- branches, loops and functions that contradict themselves ----

truth="$(text 0a c)$(field 12 "$(field 0a 08091200)")" # an input: a scalar of bools
branch() {                                            # NAME NODE [GRAPH FIELDS]: a body that gives t
    field 2a "$(text 0a "$1")$(field 32 "$(field 0a "$2")$(text 12 b)${3:-}$(field 62 "$(text 0a t)")")a00105"
}
choice() { # FILE THEN ELSE [CONDITION]
    model "$1" "$(field 0a "$(node If pick y c)$2$3")$(text 12 g)$(field 5a "${4:-$truth}")$(field 5a "$(port x 4)")$(field 62 "$(port y 4)")"
}
as_integers="$(node Cast '' t x)$(field 2a "$(text 0a to)1807a00102")"
absolute=$(branch else_branch "$(node Abs '' t x)")
choice good.onnx "$(branch then_branch "$(node Neg '' t x)")" "$absolute"
expect 0 "$QBENCH" inspect good.onnx
choice types.onnx "$(branch then_branch "$as_integers")" "$absolute"
refused 1 "types.onnx: node 0 If 'pick': output 0 is s64 in one branch, f32 in the other" "$QBENCH" inspect types.onnx
choice given.onnx "$(branch then_branch "$(node Neg '' t x)" "$(field 5a "$(port q 4)")")" "$absolute"
refused 1 "given.onnx: node 0 If 'pick': then_branch has 1 inputs, expected none" "$QBENCH" inspect given.onnx
choice floats.onnx "$(branch then_branch "$(node Neg '' t x)")" "$absolute" "$(port c 1)"
refused 1 "floats.onnx: node 0 If 'pick': input 0 'c': expected type bool, got f32" "$QBENCH" inspect floats.onnx
choice two.onnx "$(branch then_branch "$(node Neg '' t x)")" "$absolute" "$(text 0a c)$(field 12 "$(field 0a "0809$(field 12 "$(field 0a 0802)")")")"
refused 1 "two.onnx: node 0 If 'pick': input 0 'c': expected one element, got 2" "$QBENCH" inspect two.onnx
turns() { # FILE NODE [COUNT]: a loop whose body takes i, c and v and gives k and t
    local body
    body="$(field 0a "$(node Identity '' k c)")$(field 0a "$2")$(text 12 b)$(field 5a "$(text 0a i)")$(field 5a "$(text 0a c)")$(field 5a "$(text 0a v)")"
    body+="$(field 62 "$(text 0a k)")$(field 62 "$(text 0a t)")"
    model "$1" "$(field 0a "$(node Loop turn y n '' x)$(field 2a "$(text 0a body)$(field 32 "$body")a00105")")$(text 12 g)$(field 5a "$(text 0a n)$(field 12 "$(field 0a "${3:-08071200}")")")$(field 5a "$(port x 4)")$(field 62 "$(text 0a y)")"
}
turns good.onnx "$(node Neg '' t v)"
expect 0 "$QBENCH" inspect good.onnx
turns changes.onnx "$(node Cast '' t v)$(field 2a "$(text 0a to)1807a00102")"
refused 1 "changes.onnx: node 0 Loop 'turn': value 0 goes into an iteration as f32, comes out as s64" "$QBENCH" inspect changes.onnx
turns counts.onnx "$(node Neg '' t v)" 08011200
refused 1 "counts.onnx: node 0 Loop 'turn': input 0 'n': expected type s64, got f32" "$QBENCH" inspect counts.onnx
function="$(field ca01 "$(text 0a f)$(text 22 a)$(text 2a b)$(field 3a "$(node Neg '' b a)")$(field 4a 1011)$(text 52 own)")"
calls="$(field 0a "$(node f call y x)$(text 3a own)")$(text 12 g)$(field 5a "$(port x 4)")$(field 62 "$(port y 4)")"
model called.onnx "$calls" "$function"
expect 0 "$QBENCH" inspect called.onnx
model twice.onnx "$calls" "$function$function"
refused 1 "twice.onnx: node 0 f 'call': function 'f' is defined twice" "$QBENCH" inspect twice.onnx

# ---- a record whose row has a name of a megabyte ----

name=$(head -c 1000000 /dev/zero | tr '\0' x)
printf 's/"precision": "fp32"/"precision": "%s"/' "$name" >name.sed
sed -f name.sed compare.json >named.json
for command in 'gate named.json --max-drop 1' 'report named.json -o named.html' 'report named.json --format md'; do
    # shellcheck disable=SC2086
    refused 1 'named.json: rows.0.: precision: expected at most 16384 bytes, got 1000000' "$QBENCH" $command
done

# ---- arrays ----

model tensors.onnx "$(field 0a "$(node Relu r y x)")$(text 12 g)$(field 5a "$(port x '1 3')")$(field 62 "$(port y '1 3')")"
npy() { # FILE DICTIONARY [BYTES]
    printf '\x93NUMPY\x01\x00%b%s' "$(printf '\\x%02x\\x%02x' $((${#2} % 256)) $((${#2} / 256)))" "$2" >"$1"
    head -c "${3:-24}" /dev/zero >>"$1"
}
good="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
npy good.npy "$good"
expect 0 "$QBENCH" calibrate tensors.onnx --data good.npy -o arrays.calib.h5
rm arrays.calib.h5
while IFS='|' read -r wanted dictionary; do
    npy bad.npy "$dictionary"
    refused 1 "bad.npy.*$wanted" "$QBENCH" calibrate tensors.onnx --data bad.npy -o bad.calib.h5
    absent bad.calib.h5
done <<'CASES'
neither True nor False|{'descr': '<f4', 'fortran_order': __import__('os').system('id'), 'shape': (2, 3), }
neither True nor False|{'descr': '<f4', 'fortran_order': Falsely, 'shape': (2, 3), }
expected one 'descr'|{'descr': '<f4', 'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }
expected one 'shape'|{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'shape': (6, 1), }
elements of type|{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }
expected one 'descr'|{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }
no tuple of numbers|{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }
too large|{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3), }
expected [0-9]+ bytes|{'descr': '<f4', 'fortran_order': False, 'shape': (281474976710656, 281474976710656), }
more than 8 dimensions|{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,6), }
no tuple of numbers|{'descr': '<f4', 'fortran_order': False, 'shape': ((((((2, 3), }
CASES

# As many samples as a file may have: only those that are used take time.
many="{'descr': '<f4', 'fortran_order': False, 'shape': (8000000, 3), }"
npy many.npy "$many" 0
truncate -s $((96000000 + $(stat -c %s many.npy))) many.npy
expect 0 bash -c 'ulimit -t 4; exec "$@"' - "$QBENCH" calibrate tensors.onnx --data many.npy -n 4 -o many.calib.h5
# What no calibration of them could do is said before they are read.
refused 1 'moving-average:0.01 needs the extremes of each sample.* this calibration has 8000000' \
    "$QBENCH" calibrate tensors.onnx --data many.npy --method moving-average
refused 2 '--method mse,entropy,mse: mse is given twice' "$QBENCH" calibrate tensors.onnx --data many.npy --method mse,entropy,mse
rm many.npy

done_testing

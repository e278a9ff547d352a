#!/usr/bin/env bash
# The plan of an engine: printed by inspect, realized by build, edited by hand.
. "$1/tests/support/cli.sh"

demo 3 2
cd demo || exit 1

# build, inspect --plan, build --plan: the same bytes.
shapes=(--minShapes=image:1x3x32x32 --optShapes=image:2x3x32x32 --maxShapes=image:4x3x32x32)
round_trip() { # options
    expect 0 "$QBENCH" build "$@" -o a.qbe
    expect 0 "$QBENCH" inspect a.qbe --plan
    cp "$work/.out" plan.json
    expect 0 "$QBENCH" build "$@" --plan plan.json -o b.qbe
    same_bytes a.qbe b.qbe
}
round_trip --precision fp32
round_trip --precision int8 --batch 2 --threads 1
round_trip --precision int8 --time-tactics
round_trip --precision int8 --backends cpu,ref
round_trip --precision fp32 "${shapes[@]}"
round_trip --precision int8 --time-tactics "${shapes[@]}"
round_trip --precision int8
grep -q '"schema": "qbench.plan/1"' plan.json || fail 'no schema'

# Another tactic, by hand: the engine has it, and the plan of that engine is the edited one.
edited() { sed "$1" plan.json >edited.json; }
edited 's/"cpu.softmax_[a-z0-9_]*"/"ref.softmax"/'
expect 0 "$QBENCH" build --precision int8 --plan edited.json -o edited.qbe --steps
says ' ref\.softmax'
expect 0 "$QBENCH" inspect edited.qbe --plan
cmp -s "$work/.out" edited.json || fail 'the plan is not the one that was realized'
expect 0 "$QBENCH" bench --loadEngine=edited.qbe --duration=0.02 --warmUp=1 --iterations=2

# What cannot be had is named, with its reason.
refused() { # message
    expect 1 "$QBENCH" build --precision int8 --plan edited.json -o no.qbe
    complains "$1"
    [ ! -e no.qbe ] || fail 'a refused plan left a file'
}
edited 's/"cpu.softmax_[a-z0-9_]*"/"cpu.softmax_s4"/'
refused "edited.json: .*row '[^']+' cannot be had: this qbench has no tactic cpu.softmax_s4"
edited 's/"cpu.softmax_[a-z0-9_]*"/"ref.pool"/'
refused 'cannot be had: tactic ref.pool does not run softmax'
edited '/"op": "Softmax"/,/"output"/s/"f32:row"/"u8:row"/'
refused 'tactic cpu.softmax_[a-z0-9_]* does not take u8:row'
edited '/"op": "Softmax"/,/"output"/s/"space": "host"/"space": "device"/'
refused 'cannot be had: it runs on the host here'
edited 's/"value": "stem.relu6"/"value": "stem.relu7"/'
refused "the plan has no row for 'stem.relu6'"
edited 's/"op": "Softmax"/"operator": "Softmax"/'
refused "edited.json: plan: row '[^']+': "

# What no kernel is asked for, but people read.
edited '/"value": "stem.relu6"/,/"precision"/s/"precision": "s8"/"precision": "f32"/'
refused "row 'stem.relu6' cannot be had: it computes in s8 here, not f32"
edited 's/"op": "Conv+Clip"/"op": "MatMul"/'
refused "cannot be had: it is Conv\+Clip here, not MatMul"
edited 's/"op": "Softmax",/"op": "Softmax", "fuses": "stem.relu6",/'
refused "it is fused with nothing here, not with 'stem.relu6'"
edited 's/"parts": 1/"parts": 2/'
refused '2 parts of a batch of 1 do not fit'
edited 's/"threads": [0-9]*/"threads": 0/'
refused 'edited.json: plan: threads: expected 1 to 4096, got 0'
edited 's/"excluded_sources": 0/"excluded_sources": 99/'
refused 'plan: excluded_sources: expected at most [0-9]+, got 99'

# A plan for another build is told apart.
expect 2 "$QBENCH" build --precision int8 --batch 2 --plan plan.json -o no.qbe
complains 'the plan was made for inputs of 1x3x32x32, the build asks for 2x3x32x32'
expect 2 "$QBENCH" build --precision int8 --backends ref --plan plan.json -o no.qbe
complains 'made for backends cpu,.*ref, the build asks for ref'
expect 2 "$QBENCH" build --precision int8 "${shapes[@]}" --plan plan.json -o no.qbe
complains 'the plan has 0 profiles, the build asks for 1'
expect 1 "$QBENCH" build --precision int8 --plan nowhere.json -o no.qbe
complains 'nowhere.json'
expect 2 "$QBENCH" inspect model.onnx --plan
complains 'expected an engine file'

done_testing

#!/usr/bin/env bash
# One detector in ten exports: layouts, types, opsets, normalization and heads differ, FP32's AP does not. Nobody
# tells anything but the decoder where shapes are another's, and the labels of decoded boxes stay.
# QB_PYTHON: a python that has onnx (default: python3).
# ctest-timeout: 600, ctest-labels: slow, ctest-cost: 60
. "$1/tests/support/cli.sh"

sample=$QB_SHARED/tasks/coco-sample models=$QB_SHARED/tasks/models python=${QB_PYTHON:-python3}
[ -d "$sample" ] && [ -e "$models/FastestDet.onnx" ] || skip "no coco-sample in $QB_SHARED"
"$python" -c 'import onnx' 2>/dev/null || skip "$python has no onnx"
expect 0 "$python" "$1/tests/e2e/detector_exports.py" "$models/FastestDet.onnx" exports

# score FOLDER: AP of fp32 and int8 into ap_fp32 and ap_int8
score() {
    cd "$work/$1" || exit 1
    expect 0 "$QBENCH" calibrate --data "$sample/instances_calib.json" --samples 8 --method minmax
    expect 0 "$QBENCH" compare fp32 int8 --data "$sample/instances_val.json" --samples 16 --duration 0.02 --no-figures
    ap_fp32=$(awk '$1 == "fp32" {print $2; exit}' "$work/.out")
    ap_int8=$(awk '$1 == "int8" {print $2; exit}' "$work/.out")
    grep -q 'agree %' "$work/.out" && fail "$1: a detector has no first class to agree on"
}
near() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN {d = a - b; exit !(a != "" && d <= by && -d <= by)}'; }

init() {
    expect 0 "$QBENCH" init model.onnx --data "$sample/instances_calib.json" --evaluation "$sample/instances_val.json"
}
mkdir plain && cp "$models/FastestDet.onnx" plain/model.onnx && cd plain || exit 1
init
says '^80 classes, 80 categories: class 0 is .person., id 1 \(by rank\)$'
score plain
plain=$ap_fp32

for export in channels_last own_normalization bytes half three_outputs logits rows two_inputs_ranks two_inputs_ids three_inputs; do
    cd "$work/exports/$export" || exit 1
    init
    awk 'length > 80 && !/^wrote/ {print; bad = 1} END {exit bad}' "$work/.out" || fail "$export: init is wider than 80 columns"
    by=0.01
    case $export in
    own_normalization) complains 'normalizes its images itself: it is given pixels in 0..255' ;;
    half) by=0.5 ;; # weights are rounded
    rows) sed -i 's/^  decode: .*/  decode: fastestdet/; s/std: .*/std: [255, 255, 255]/' qbench.yaml ;;
    two_inputs_*)
        says '^input fixed: orig_target_sizes=352,352 '
        says '^classes stand in values: ids if any is above 79, else ranks$'
        ;;
    three_inputs)
        says '^input fixed: im_shape=352,352 '
        says '^input fixed: scale_factor=1,1 '
        ;;
    esac
    case $export in
    *_inputs*) sed -i "s/color: .*/color: BGR/; s/mode: letterbox/mode: stretch/" qbench.yaml ;;
    rows) sed -i "s/mode: letterbox/mode: stretch/" qbench.yaml ;;
    esac
    [ "$export" = rows ] || grep -q "mode: stretch" qbench.yaml || fail "$export: init does not stretch"
    score "exports/$export"
    case $export in
    *_inputs_*) # without suppression: all exports of this kind find the same
        decoded=${decoded:-$ap_fp32}
        near "$ap_fp32" "$decoded" 0.01 || fail "$export: AP $ap_fp32, of ranks $decoded"
        ;;
    three_inputs) near "$ap_fp32" "$decoded" 0.01 || fail "$export: AP $ap_fp32, of ranks $decoded" ;;
    *) near "$ap_fp32" "$plain" $by || fail "$export: AP $ap_fp32, the same network has $plain" ;;
    esac
    near "$ap_int8" "$ap_fp32" 6 || fail "$export: INT8 has AP $ap_int8, FP32 $ap_fp32"
done

# Without data the same is told of the model.
cd "$work/exports/channels_last" || exit 1
rm qbench.yaml
expect 0 "$QBENCH" init
says '^outputs look like fastestdet:$'
for line in '  layout: NHWC' '  color: BGR ' '    mode: stretch ' '  decode: fastestdet'; do
    grep -q "^$line" qbench.yaml || fail "init without data: no '$line'"
done

# Inputs that nobody fixed, or that are fixed wrongly.
cd "$work/exports/two_inputs_ids" || exit 1
sed -i "s/orig_target_sizes=352,352/orig_target_size=352,352/" qbench.yaml
expect 2 "$QBENCH" calibrate
complains "fixed_inputs: 'orig_target_size=352,352': the model has no such input"
sed -i "s/orig_target_size=352,352/orig_target_sizes=1,2,3/" qbench.yaml
expect 2 "$QBENCH" calibrate
complains "fixed_inputs: 'orig_target_sizes=1,2,3': the input is 1x2, got 3 numbers"
rm qbench.yaml
expect 1 "$QBENCH" compare fp32 --data "$sample/instances_val.json"
complains "images feed models with one input, this one has 2: fix the others, .* by fixed_inputs"
done_testing

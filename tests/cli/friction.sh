#!/usr/bin/env bash
# The small things that make a person stop: an interrupted calibration that begins anew, work done
# twice, tables that wrap, options that are ignored, files that must be named though they are there.
# ctest-timeout: 300, ctest-cost: 40, ctest-labels: slow
. "$1/tests/support/cli.sh"
unset GITHUB_ACTIONS

demo 5 20
cd demo || exit 1

# Ctrl-C keeps what was done and says how to go on; the result is the same bytes.
find "$PWD/test" -name '*.png' | sort >some.txt
for _ in $(seq 20); do cat some.txt; done >many.txt
expect 0 "$QBENCH" calibrate model.onnx --data many.txt -o whole.calib.h5
"$QBENCH" calibrate model.onnx --data many.txt -o cut.calib.h5 >"$work/.out" 2>"$work/.err" &
pid=$!
sleep 0.4
kill -INT $pid
code=0
wait $pid || code=$?
if [ "$code" = 130 ]; then
    complains 'progress is saved in cut.calib.h5.part: the same command with --resume goes on'
    [ -s cut.calib.h5.part ] || fail 'no checkpoint was written'
    absent cut.calib.h5
    expect 0 "$QBENCH" calibrate model.onnx --data many.txt -o cut.calib.h5 --resume
    complains '^going on at sample [0-9]+ of 4000'
    absent cut.calib.h5.part
fi
same_bytes cut.calib.h5 whole.calib.h5
rm ./*.calib.h5 many.txt some.txt

# run takes what calibrate made of the same settings, and only that.
expect 0 "$QBENCH" init --model model.onnx --data calib --evaluation test --force
sed -i 's/duration: 2/duration: 0.05/; s/max_drop: .*/max_drop: 90/' qbench.yaml
expect 0 "$QBENCH" calibrate
expect 0 "$QBENCH" run
complains '^calibrate: up to date'
complains '^quantize: running'
expect 0 "$QBENCH" calibrate --samples 20
expect 0 "$QBENCH" run
complains '^calibrate: running'

# The calibration is found where export finds it.
expect 0 "$QBENCH" calib show
says ' values'
! command -v gnuplot >/dev/null || expect 0 "$QBENCH" calib plot --tensor image
mkdir ../empty && (cd ../empty && "$QBENCH" calib show 2>"$work/.err")
complains 'expected a .calib.h5 file, or one model'

# Tables keep within 80 columns, wherever they go.
expect 0 "$QBENCH" compare fp32 int8 int8:entropy int8:entropy+s8-symmetric+per-tensor --data test --duration 0.05 --no-figures
awk '/^warning: |^model |, batch / {next} length > 80 {print length ": " $0; bad = 1} END {exit bad}' "$work/.out" ||
    fail 'a table is wider than 80 columns'
fits() { # fits COMMAND...: no line of its tables is wider
    expect 0 "$QBENCH" "$@"
    awk '/^operators |samples, drawn/ {next} length > 80 {print length ": " $0; bad = 1} END {exit bad}' "$work/.out" ||
        fail "wider than 80 columns: $*"
}
fits inspect --steps
fits calibrate --data calib --samples 40 --method auto -o auto.calib.h5
says '^SQNR dB  over minmax  method +tensor$'
says '^ +[0-9.]+ +[-+][0-9.]+  [a-z:0-9.-]+ +[a-z_0-9]+$'
fits calib show auto.calib.h5
rm auto.calib.h5
expect 1 "$QBENCH" calibrate --data model.onnx
complains '^.{1,300}$' # names of forms, not a page of them
complains "no data set of a known kind .*see 'qbench help data'"
expect 0 "$QBENCH" report -o tables.txt
[ -f tables.txt ] || fail '-o NAME.txt makes no file'
grep -q '^int8:entropy' tables.txt || fail 'tables.txt holds no table'

# One default precision, said in the help.
for command in build bench; do
    expect 0 "$QBENCH" $command --help
    says 'fp32 \(default\)'
done
expect 0 "$QBENCH" build model.onnx
[ -s model.fp32.qbe ] || fail 'build without --precision makes another engine than bench'

# Common options stand once, below the command's own.
expect 0 "$QBENCH" gate --help
says '^common options, of every command:$'
checks=$((checks + 1))
awk '/^options:/ {own = NR} /--max-drop/ {drop = NR} /^common options/ {common = NR} /--json/ {json = NR; n++}
    END {exit !(own < drop && drop < common && common < json && n == 1)}' "$work/.out" ||
    fail 'common options are not below the own ones'

# Options that would be ignored are refused: of the gate all but --model where a record is there, and that too
# where it is named; limits that there are not.
for option in '--data test' '--images test' '--task classify' '--labels l.txt' '--shapes image:1x3x32x32' '--samples 0' \
    '--batch 1' --strict '--decoder cpu' --no-mixing '--backends ref' '--providers cpu' '--timingCacheFile t' \
    '--tacticSources +CUDNN' '--disable-pass fold-constants'; do
    # shellcheck disable=SC2086
    expect 2 "$QBENCH" gate --max-drop 90 $option
    complains "gate: compare.json is judged as it is: ${option%% *} would be ignored"
    # shellcheck disable=SC2086
    expect 2 "$QBENCH" gate compare.json --max-drop 90 $option
    complains "gate: compare.json is judged as it is: ${option%% *} would be ignored"
done
expect 2 "$QBENCH" gate compare.json --model model.onnx --max-drop 90
complains 'compare.json is judged as it is: --model would be ignored'
expect 0 "$QBENCH" gate --model model.onnx --max-drop 90
cp qbench.yaml kept.yaml
sed -i '/max_drop/d' qbench.yaml
for option in '--baseline-drop 1' '--baseline-ratio 2' --baseline-accuracy --relative '--metric top1'; do
    # shellcheck disable=SC2086
    expect 2 "$QBENCH" gate --min-samples 10 $option
    complains "gate: no (--baseline|limit of a drop): ${option%% *} would be ignored"
done
expect 2 "$QBENCH" gate --baseline compare.json --baseline-accuracy --baseline-ratio 2
complains 'of the baseline accuracy alone: --baseline-ratio would be ignored'
expect 0 "$QBENCH" gate --baseline compare.json --baseline-accuracy --relative
mv kept.yaml qbench.yaml

# Of other commands.
refused() { # refused OPTION COMMAND...: the option would be ignored
    local option=$1
    shift
    expect 2 "$QBENCH" "$@"
    complains ": $option would be ignored"
}
for option in '--shard 1/2' --resume --per-channel '--samples 5' '--checkpoint 5' '--labels l.txt' '--backends ref'; do
    # shellcheck disable=SC2086
    refused "${option%% *}" calibrate --from model.calib.h5 --method minmax $option
done
refused --backends quantize --backends ref
refused --providers quantize --providers cpu
for option in '--activations u8-affine' '--weights mse' --per-tensor-weights '--keep-float x' '--activations-16 x'; do
    # shellcheck disable=SC2086
    refused "${option%% *}" build $option
    # shellcheck disable=SC2086
    refused "${option%% *}" bench --fp16 $option
    # shellcheck disable=SC2086
    refused "${option%% *}" compare fp32 bf16 $option --data test
done
refused --precision build --precision fp16 --int8
refused --precision bench --precision int8:minmax --int8
for option in '--batch 2' --passes '--dot x.dot' --graph '--precision fp16' '--backends ref' '--model model.onnx'; do
    # shellcheck disable=SC2086
    refused "${option%% *}" inspect model.fp32.qbe $option
done
for form in md json tsv; do
    refused --no-figures report --format $form --no-figures
done
refused --no-figures report -o tables.txt --no-figures
refused --evaluation init --sidecar --evaluation test
# A model that is named twice is not one of the two in silence.
cp model.onnx other.onnx
for command in inspect quantize calibrate optimize build bench init; do
    expect 2 "$QBENCH" $command model.onnx --model other.onnx
    complains 'model.onnx and --model other.onnx: name one of them'
done
rm other.onnx

# doctor tells what can be had, not what lies idle.
expect 0 "$QBENCH" doctor
says '^(note|good) +holes +(no version|.* \(CVE-.*mended in [0-9.]+\))'
says 'memory .*GiB available'
done_testing

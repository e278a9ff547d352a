#!/usr/bin/env bash
# The small things that make a person stop: an interrupted calibration that begins anew, work done
# twice, tables that wrap, options that are ignored, files that must be named though they are there.
# ctest-timeout: 200, ctest-cost: 30
. "$1/tests/support/cli.sh"
unset GITHUB_ACTIONS

demo 5 20
cd demo || exit 1

# Ctrl-C keeps what was done and says how to go on; the result is the same bytes.
find "$PWD/test" -name '*.png' | sort >some.txt
for _ in $(seq 60); do cat some.txt; done >many.txt
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
    complains '^going on at sample [0-9]+ of 12000'
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

# Options that would be ignored are refused.
expect 2 "$QBENCH" gate compare.json --data test --max-drop 90
complains 'compare.json is judged as it is: --data would be ignored'
for option in '--shard 1/2' --resume --per-channel '--samples 5'; do
    # shellcheck disable=SC2086
    expect 2 "$QBENCH" calibrate --from model.calib.h5 --method minmax $option
    complains 'would be ignored'
done

# doctor tells what can be had, not what lies idle.
expect 0 "$QBENCH" doctor
says '^(note|good) +holes +(no version|.* \(CVE-.*mended in [0-9.]+\))'
says 'memory .*GiB available'
done_testing

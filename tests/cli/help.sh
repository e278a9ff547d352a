#!/usr/bin/env bash
# Help, slips of the fingers, exit codes of usage errors.
. "$1/tests/support/cli.sh"

expect 2 "$QBENCH"
complains 'usage: qbench COMMAND'
expect 0 "$QBENCH" help
says 'qbench calibrate --data imagenet_val/ --method entropy'
expect 0 "$QBENCH" --help
expect 0 "$QBENCH" version
says '^qbench [0-9]+\.[0-9]+\.[0-9]+ \(oneDNN'
expect 0 "$QBENCH" version --json -
says '"version": "[0-9.]+"'

for command in init run inspect calibrate quantize compare gate report build bench demo zoo doctor completion manual version; do
    expect 0 "$QBENCH" help "$command"
    says "^usage: qbench $command"
    says '^example:'
    expect 0 "$QBENCH" "$command" --help
    says '--json'
done

expect 0 "$QBENCH" data --help
says '^usage: qbench data COMMAND'
expect 0 "$QBENCH" help data # the topic of this name
says "qbench data doctor"
for format in $(sed -n 's/^X(\(.*\))$/\1/p' "$1/datasets/formats.def"); do # what --data can be
    says "^  $format +[a-zA-Z.]"
done
expect 0 "$QBENCH" help data doctor
says '^usage: qbench data doctor'

expect 0 "$QBENCH" calib --help
says '^usage: qbench calib COMMAND'
for command in show diff plot; do
    expect 0 "$QBENCH" help calib $command
    says "^usage: qbench calib $command"
    expect 0 "$QBENCH" calib $command --help
    says '--json'
    expect 2 "$QBENCH" calib $command
    complains 'expected .* .calib.h5 file.*see .qbench calib '$command' --help'
done
expect 2 "$QBENCH" calib
complains 'expected a command'
expect 2 "$QBENCH" calib shwo
complains "did you mean 'show'"

# No line of any help is wider than 80 columns.
wide() {
    checks=$((checks + 1))
    awk -v of="$*" 'length > 80 { print of ": " length " columns: " $0; bad = 1 } END { exit bad }' "$work/.out" ||
        fail "lines of more than 80 columns: $*"
}
expect 0 "$QBENCH" help
wide help
commands=$(sed -n '/^usage/,/^The main job/s/^  \([a-z]*\) .*/\1/p' "$work/.out")
topics=$(sed -n '/^.qbench help TOPIC/,$s/^  \([a-z-]*\) .*/\1/p' "$work/.out")
[ "$(wc -w <<<"$commands")" -gt 20 ] || fail "commands: $commands"
[ "$(wc -w <<<"$topics")" -gt 8 ] || fail "topics: $topics"
for topic in $topics; do
    expect 0 "$QBENCH" help "$topic"
    wide "$topic"
done
for command in $commands; do
    expect 0 "$QBENCH" "$command" --help
    wide "$command"
    for member in $(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$work/.out"); do
        expect 0 "$QBENCH" "$command" "$member" --help
        wide "$command $member"
    done
done

# What is missing or wrong behind an option is named.
expect 2 "$QBENCH" calibrate --threads
complains 'option --threads: expected N, got the end'
expect 2 "$QBENCH" compare --threads --data x
complains 'option --threads: expected N, got the option --data \(write --threads=--data if meant\)'
expect 2 "$QBENCH" compare --threads four
complains "option --threads: expected an integer, got 'four'"
expect 2 "$QBENCH" compare --threads=
complains "option --threads: expected an integer, got ''"
expect 2 "$QBENCH" compare -j 5000
complains 'option --threads: expected 0 to 4096, got 5000'

expect 2 "$QBENCH" calibrat
complains "did you mean 'calibrate'"
expect 2 "$QBENCH" calibrate --methd entropy
complains 'did you mean --method'
expect 2 "$QBENCH" calibrate --samples many
complains 'expected an integer'
expect 2 "$QBENCH" gate a b
complains 'takes 1 argument'
expect 2 "$QBENCH" calibrate
complains 'no model'
done_testing

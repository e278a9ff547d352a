#!/usr/bin/env bash
# Completion scripts, man pages, topics, doctor.
. "$1/tests/support/cli.sh"

# What bash would offer after these words; the last one is being typed.
offered() {
    bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _qbench
        printf "%s\n" "${COMPREPLY[@]}"' - completion.bash "$@" >.out 2>.err
}
expect 0 "$QBENCH" completion bash
cp .out completion.bash
offered qbench cali
says '^calibrate$'
offered qbench calibrate --met
says '^--method$'
offered qbench help comp
says '^compare$'
offered qbench calib sh
says '^show$'
offered qbench calib sh
says '^show$'
offered qbench calib show --js
says '^--json$'
mkdir -p data_folder
offered qbench calibrate --data dat
says '^data_folder$'
offered qbench calibrate --samples ''
[ ! -s .out ] || [ "$(tr -d '\n' <.out)" = '' ] || fail 'a number has no completion'

expect 0 "$QBENCH" completion zsh
says '^#compdef qbench'
! command -v zsh >/dev/null || expect 0 zsh -n .out
expect 0 "$QBENCH" completion fish
says "^complete -c qbench -n '__fish_seen_subcommand_from calibrate' -l method"
! command -v fish >/dev/null || expect 0 fish -n .out
expect 2 "$QBENCH" completion
expect 2 "$QBENCH" completion tcsh

expect 0 "$QBENCH" manual -o pages
says 'wrote [0-9]+ pages'
for page in qbench qbench-calibrate qbench-gate qbench-calib-show; do
    [ -s pages/$page.1 ] || fail "no page $page.1"
    command -v groff >/dev/null || continue
    expect 0 groff -man -Tascii -P-cbou -ww pages/$page.1
    [ ! -s .err ] || fail "groff complains about $page.1"
    says 'EXIT'
done
expect 0 "$QBENCH" manual gate
says '\.SH SYNOPSIS'
says 'max.-drop'
expect 2 "$QBENCH" manual nothing

expect 0 "$QBENCH" help exit-codes
says '^3 +a check did not hold'
expect 0 "$QBENCH" help
says '^  exit-codes'

expect 0 "$QBENCH" doctor --json -
says '"schema": "qbench.doctor/1"'
says '"check": "processor"'
if [ "$(id -u)" != 0 ]; then # root writes everywhere
    mkdir locked && chmod a-w locked && cd locked || exit 1
    expect 3 "$QBENCH" doctor
    says '^bad +folder'
fi
done_testing

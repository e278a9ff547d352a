#!/usr/bin/env bash
# No CUDA kernel spills registers. Skips without CUDA.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

library=$QB_BUILD/libqb_cuda.a
[ -e "$library" ] || skip "built without CUDA"
python3 "$QB_SOURCE/scripts/kernel_report.py" "$library" > /dev/null

#!/usr/bin/env bash
# Installs what is missing, builds qbench and runs its main job on the model and the images that it
# brings itself, on the CPU:
#   scripts/demo.sh [FOLDER]     (default: qbench-demo in the current folder)
# It ends with the gate: exit code 0 when INT8 keeps within one point of FP32, 3 otherwise.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-qbench-demo}

"$root/scripts/install_packages.sh"
(cd "$root" && cmake --preset release >/dev/null)
cmake --build "$root/build/release" --parallel "${JOBS:-$(nproc)}" --target qbench
qbench=$root/build/release/qbench

"$qbench" demo -o "$folder"
printf '\n$ qbench gate --max-drop 1.0\n'
cd "$folder"
"$qbench" gate --max-drop 1.0 --precision int8

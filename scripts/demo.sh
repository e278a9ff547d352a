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

# said COMMAND...: the command as it can be typed, then what it does.
said() {
    printf '\n$'
    printf ' %q' "$@"
    printf '\n'
    "$@"
}

said "$qbench" demo -o "$folder"
code=0
said "$qbench" gate "$folder/compare.json" --max-drop 1.0 --precision int8 || code=$?
cat <<END

Next, in any folder:
  export PATH=$root/build/release:\$PATH
  qbench init --model YOUR.onnx --data FOLDER && qbench run
The page for whoever decides: $(cd "$folder" && pwd)/report.html
END
exit "$code"

#!/usr/bin/env bash
# The include order of the design: a folder includes itself and the folders before it; what is
# *_internal.h stays in its folder; headers of vendors stay in the folders that wrap them.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

check() {
    local base=$1
    source_files "$base" '*.c' '*.h' '*.cu' '*.cuh' '*.def' | (cd "$base" && awk '
        function dirname(path) { sub(/\/?[^\/]*$/, "", path); return path }
        function exists(path,   line, ok) { ok = (getline line < path) >= 0; close(path); return ok }
        function bad(text) { printf "%s:%d: %s\n", file, n, text; failed = 1 }
        BEGIN {
            allowed["base"]     = "^base/"
            allowed["kernels"]  = "^(base|kernels)/"
            allowed["graph"]    = "^(base|kernels|include|graph)/"
            allowed["datasets"] = "^(base|datasets)/|^kernels/(tensor|ref|cuda/vendor/jpeg_batch)[.]h$|^graph/(graph|wire)[.]h$"
            allowed["engine"]   = "^(base|kernels|include|graph|engine)/"
            below = "^(base|kernels|include|graph)/|^engine/[^/]*$|^engine/cuda/"
            allowed["engine/plan"]    = below "|^engine/plan/"
            allowed["engine/realize"] = below "|^engine/(plan|realize)/"
            allowed["engine/run"]     = below "|^engine/(plan|realize|run)/"
            allowed["engine/tune"]    = below "|^engine/(plan|realize|run|tune)/"
            allowed["engine/file"]    = below "|^engine/(plan|realize|run|tune|file)/"
            allowed["include"]  = "^include/"
            allowed["api"]      = "^(base|kernels|graph|datasets|engine|include|api)/"
            allowed["examples"] = "^examples/"
            allowed["stream"]   = "^(base|kernels|graph|datasets|engine|stream)/"
            allowed["calib"]    = "^(base|kernels|graph|datasets|engine|stream|calib)/"
            allowed["quant"]    = "^(base|kernels|graph|quant)/|^calib/table[.]h$"
            allowed["quant/recover"] = "^(base|kernels|graph|datasets|engine|stream|calib|quant)/"
            allowed["eval"]     = "^(base|kernels|graph|datasets|engine|stream|calib|quant|eval)/"
            allowed["search"]   = "^(base|kernels|graph|datasets|engine|stream|calib|quant|eval|search)/"
            allowed["reports"]  = "^(base|reports)/|^eval/run[.]h$"
            allowed["demo"]     = "^(base|kernels|graph|datasets|demo)/"
            allowed["cli"]      = "^"
            generated["onnx.pb-c.h"] = "^graph/"
            generated["records.pb-c.h"] = "^datasets/"
        }
        function check_vendor(name) {
            if (name ~ /^(dnnl|oneapi\/)/ && file !~ /^(kernels|engine)\/dnnl\//)
                bad("<" name "> belongs into kernels/dnnl or engine/dnnl")
            if (name ~ /^(cuda|cudnn|cublas|nvml|nvrtc|cutlass|cute|mma)/ && file !~ /^(kernels|engine)\/cuda\/|^examples\/plugins\//)
                bad("<" name "> belongs into kernels/cuda or engine/cuda")
            if (name == "mpi.h" && file !~ /^(calib|eval)\/distribute[.]c$/)
                bad("<mpi.h> belongs into calib/distribute.c or eval/distribute.c")
        }
        function file_root(  top) { top = file; sub(/\/.*/, "", top); return top }
        function check_own(name,   folder, path) {
            folder = dirname(file)
            if (!(folder in allowed)) sub(/\/.*/, "", folder)
            if (name in generated) {
                if (file !~ generated[name]) bad("\"" name "\" belongs into " generated[name])
                return
            }
            if (name ~ /(^|\/)[.][.]?\//) { bad("\"" name "\": write the path from the root"); return }
            path = dirname(file) "/" name
            if (!exists(path)) path = name
            if (!exists(path)) { bad("\"" name "\" is not there"); return }
            if (path !~ allowed[folder]) bad(folder " may not include " path)
            if (path ~ /_internal[.]h$/ && path !~ "^" file_root() "/")
                bad(path " is internal to its folder")
        }
        {
            file = $0; n = 0
            while ((getline line < file) > 0) {
                n++
                if (!match(line, /^[ \t]*#[ \t]*include[ \t]*["<][^">]*[">]/)) continue
                name = line; sub(/^[^"<]*["<]/, "", name); sub(/[">].*/, "", name)
                check_vendor(name)
                if (line ~ /include[ \t]*"/ && name !~ /^(dnnl|cuda|cudnn)/) check_own(name)
            }
            close(file)
        }
        END { exit failed }')
}

# Code in a folder that the table does not know would go unchecked.
check_folders() {
    local d failed=0
    for d in "$1"/*/; do
        d=$(basename "$d")
        case " $folders tests docs build build-release " in *" $d "*) continue ;; esac
        if [ -n "$(find "$1/$d" -name '*.[ch]' -print -quit)" ]; then
            echo "$d/: a code folder without a place in the include order"
            failed=1
        fi
    done
    return $failed
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{base,kernels/ref,graph,reports,engine/realize,engine/tune}
touch "$tree"/{base/ctx.h,kernels/k_internal.h,kernels/tensor.h,graph/graph.h}
touch "$tree"/engine/{engine_internal.h,realize/r_internal.h,tune/t_internal.h}
try() { # description, file, line: refused?
    echo "$3" >"$tree/$2"
    self_check "$1" check "$tree"
    rm "$tree/$2"
}
echo '#include "ctx.h"' >"$tree/base/ctx.c"
echo '#include "k_internal.h"' >"$tree/kernels/k.c"
echo '#include "kernels/k_internal.h"' >"$tree/kernels/ref/k.c"
echo '#include "engine/realize/r_internal.h"' >"$tree/engine/tune/t.c"
check "$tree" # all of these are legal
try "a folder above includes one below" base/a.c '#include "graph/graph.h"'
try "an internal header leaves its folder" graph/a.c '#include "kernels/k_internal.h"'
try "a vendor header in the wrong place" graph/a.c '#include <dnnl.h>'
try "realizing a plan knows how plans are tuned" engine/realize/a.c '#include "engine/tune/t_internal.h"'
try "a folder with a short list" reports/a.c '#include "graph/graph.h"'
try "a path through .." kernels/ref/a.c '#include "../tensor.h"'
try "a header that is not there" graph/a.c '  #  include "graph/none.h"'
mkdir "$tree/new" && touch "$tree/new/a.c"
self_check "an unknown folder" check_folders "$tree"

check "$root"
check_folders "$root"

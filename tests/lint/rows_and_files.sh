#!/usr/bin/env bash
# "One row + one file": each row of a .def list has its file with the descriptor, and each
# descriptor has its row; a file without a row would be compiled and never used.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

# list, plug-in folder, prefix of the descriptors, "own": the file is called like the row;
# "shared": one file may hold the descriptors of several rows; "folder": a row is the name of a
# folder of plug-ins; "made": the preprocessor makes what a row names.
lists="
graph/ops.def            graph/ops            qb_op_             shared
graph/passes.def         graph/passes         qb_pass_           own
graph/zoo.def            graph/zoo            qb_zoo_            own
kernels/tactics.def      kernels              qb_tactic_         shared
kernels/functions.def            kernels            -            made
kernels/integers.def             kernels            -            made
kernels/cuda/conv/tiles.def      kernels/cuda/conv  -            made
kernels/cuda/conv/epilogues.def  kernels/cuda/conv  -            made
engine/backends.def      kernels              -                  folder
calib/formats.def        calib/formats        qb_calib_format_   own
calib/methods.def        calib/methods        qb_calib_method_   own
quant/rules.def          quant/rules          qb_rule_            shared
quant/targets.def        quant/targets        qb_target_          own
quant/steps.def          quant/steps          qb_quant_step_     own
quant/weight_ranges.def  quant/weight_ranges  qb_weight_range_   own
quant/recover.def        quant/recover        qb_recovery_       own
datasets/formats.def     datasets/formats     qb_format_         own
datasets/transforms.def  datasets/transforms  qb_transform_      own
eval/metrics.def         eval/metrics         qb_metric_         own
eval/tasks.def           eval/tasks           qb_task_           own
eval/warnings.def        eval                 -                  made
eval/decoders.def        eval/decoders        qb_box_decoder_    own
reports/figures.def      reports/figures      qb_figure_         own
cli/commands.def         cli/commands         qb_command_        own
cli/doctor/checks.def    cli/doctor/checks    qb_check_          own
cli/calib.def            cli/calib            qb_calib_command_  own
cli/plugin.def           cli/plugin           qb_plugin_command_  own
cli/data.def             cli/data             qb_data_command_   own
cli/data/checks.def      cli/data/checks      qb_data_check_     own
"

# The first argument of each row: "X(resize)", "QB_OP_ROW(conv, ...)".
rows_of() {
    sed -E -n 's/^[A-Z][A-Z_]*\( *([a-z][a-z0-9_]*).*/\1/p' "$1"
}

# The names of the descriptors that a file defines: "const qb_pass qb_pass_x = {" at the start of
# a line; or by a macro that takes the name first and the text that users see second, or the
# macro of the reference tactics. Embedded files are none.
definitions_in() {
    sed -E -n -e '/^QB_EMBED\(/d' -e "s/^const [a-z_]+ $2([a-z0-9_]+)(\\[\\])? *=.*/\\1/p" \
        -e 's/^[A-Z_]+\(([a-z][a-z0-9_]*), *".*/\1/p' \
        -e 's/^QB_REF_TACTIC\(([a-z][a-z0-9_]*),.*/ref_\1/p' "$1"
}

# Each row has a folder with sources, and each folder a row.
check_folders() {
    local base=$1 def=$2 folder=$3 rows=$4 failed=0 row dir
    for row in $rows; do
        [ -n "$(find "$base/$folder/$row" -name '*.c' -o -name '*.cu' 2>/dev/null)" ] && continue
        echo "$def: row $row: no sources in $folder/$row"
        failed=1
    done
    for dir in $(cd "$base/$folder" && find . -mindepth 2 \( -name '*.c' -o -name '*.cu' \) |
        cut -d/ -f2 | sort -u); do
        grep -qx "$dir" <<<"$rows" && continue
        echo "$folder/$dir has no row in $def"
        failed=1
    done
    return $failed
}

# No two rows are the same but for what stands behind the first six columns: the names they make.
check_made() {
    local names
    names=$(sed -E -n 's/^[A-Z][A-Z_]*\((([^,]*,){1,6}).*/\1/p' "$1" | sort)
    [ -n "$names" ] || { echo "$2: no rows"; return 1; }
    [ -z "$(uniq -d <<<"$names")" ] || { echo "$2: given twice: $(uniq -d <<<"$names")"; return 1; }
}

check_list() {
    local base=$1 def=$2 folder=$3 prefix=$4 kind=$5 failed=0 rows row defined file name
    [ -f "$base/$def" ] || return 0
    if [ "$kind" = made ]; then
        check_made "$base/$def" "$def"
        return
    fi
    rows=$(rows_of "$base/$def")
    [ -n "$rows" ] || { echo "$def: no rows"; return 1; }
    if [ "$kind" = folder ]; then
        check_folders "$base" "$def" "$folder" "$rows"
        return
    fi
    defined=$(find "$base/$folder" -name '*.c' -o -name '*.cu' | sort | while read -r file; do
        definitions_in "$file" "$prefix"
    done)
    for row in $(sort <<<"$rows" | uniq -d); do
        echo "$def: row $row is given twice"
        failed=1
    done
    for row in $rows; do
        grep -qx "$row" <<<"$defined" && continue
        echo "$def: row $row: no file of $folder defines $prefix$row"
        failed=1
    done
    for name in $defined; do
        grep -qx "$name" <<<"$rows" && continue
        echo "$folder: $prefix$name has no row in $def"
        failed=1
    done
    [ "$kind" = own ] || return $failed
    for row in $rows; do
        [ -f "$base/$folder/$row.c" ] && [ -n "$(definitions_in "$base/$folder/$row.c" "$prefix")" ] &&
            continue
        echo "$def: row $row: expected its descriptor in $folder/$row.c"
        failed=1
    done
    return $failed
}

check() {
    local failed=0 def folder prefix kind
    while read -r def folder prefix kind; do
        [ -n "$def" ] || continue
        check_list "$1" "$def" "$folder" "$prefix" "$kind" || failed=1
    done <<<"$lists"
    return $failed
}

# Every list of the project is in the table above.
check_table() {
    local failed=0 def
    for def in $(source_files "$1" '*.def'); do
        grep -q "^$def " <<<"$lists" || { echo "$def: unknown to this check"; failed=1; }
    done
    return $failed
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/graph/passes"
echo 'X(fold)' >"$tree/graph/passes.def"
self_check "a row without a file" check "$tree"
echo 'const qb_pass qb_pass_fold = {' >"$tree/graph/passes/fold.c"
check "$tree"
echo 'const qb_pass qb_pass_prune = {' >"$tree/graph/passes/prune.c"
self_check "a file without a row" check "$tree"
echo 'X(prune)' >>"$tree/graph/passes.def"
check "$tree"
mv "$tree/graph/passes/prune.c" "$tree/graph/passes/other.c"
self_check "a file with the wrong name" check "$tree"
mkdir -p "$tree/engine" "$tree/kernels/ref"
echo 'QB_BACKEND(ref, "reference")' >"$tree/engine/backends.def"
self_check "a row without a folder" check "$tree"
touch "$tree/kernels/ref/conv.c"
mv "$tree/graph/passes/other.c" "$tree/graph/passes/prune.c"
check "$tree"
mkdir "$tree/kernels/dnnl" && touch "$tree/kernels/dnnl/conv.c"
self_check "a folder without a row" check "$tree"
rm -r "$tree/kernels/dnnl" && mkdir -p "$tree/kernels/cuda/conv"
for n in 64 128; do echo "QB_CUDA_TILE(90a, wgmma, s8, 64, $n, 64, 3)"; done >"$tree/kernels/cuda/conv/tiles.def"
check "$tree"
echo 'QB_CUDA_TILE(90a, wgmma, s8, 64, 128, 64, 2)' >>"$tree/kernels/cuda/conv/tiles.def"
self_check "a tile that is given twice" check "$tree"
touch "$tree/graph/new.def"
self_check "a list that the table does not know" check_table "$tree"

check "$root"
check_table "$root"

#!/usr/bin/env bash
# Runs everything that needs a GPU and leaves logs and JSON in a folder.
#
#   tests/gpu/run_all.sh BINARIES OUT [test] [memcheck] [racecheck] [bench] [small] [ours] [models]
#     [profile]
#
# BINARIES holds test_gpu_*, bench_cuda and bench_cuda_convs, and in lib/ the shared libraries that
# the machine does not have. cuDNN and NVRTC are looked for among Python's packages.
set -uo pipefail
bin=$1 out=$2
shift 2
mkdir -p "$out"
libraries=$(python3 - <<'PY' 2>/dev/null || true
import glob, os, site
found = [d for s in site.getsitepackages() for d in glob.glob(os.path.join(s, "nvidia/*/lib"))]
print(":".join(found))
PY
)
export LD_LIBRARY_PATH=$bin/lib${libraries:+:$libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

step() { # name, seconds, command...
    local name=$1 seconds=$2 started=$SECONDS
    shift 2
    timeout "$seconds" "$@" >"$out/$name.log" 2>&1
    local rc=$?
    echo "== $name: exit code $rc, $((SECONDS - started)) s"
    tail -n "${lines:-25}" "$out/$name.log"
}

for what in "${@:-test}"; do
    case $what in
    test) for t in "$bin"/test_gpu_*; do lines=60 step "$(basename "$t")" 120 "$t"; done ;;
    memcheck | racecheck)
        for t in "$bin"/test_gpu_*; do
            # cuDNN's own kernels take very long under the checkers
            QB_TEST_NO_CUDNN=1 QB_TEST_CASES=${cases:-10} lines=6 step "$what-$(basename "$t")" 100 \
                compute-sanitizer --tool "$what" --error-exitcode 9 "$t"
        done
        ;;
    bench) lines=240 step bench 170 "$bin/bench_cuda_convs" --json "$out/cuda_convs.json" ;;
    small) lines=240 step small 100 "$bin/bench_cuda_convs" --batch 1 --json "$out/small.json" ;;
    models) lines=80 step models "${seconds:-200}" "$bin/bench_cuda" --json "$out/cuda_models.json" ;;
    ours) lines=240 step ours 60 "$bin/bench_cuda_convs" --no-cudnn --json "$out/ours.json" ;;
    profile) # of the first kernels of one shape: only=I
        lines=${profile_lines:-130} step "profile-${only:-2}" 90 ncu --clock-control none \
            --section SpeedOfLight --section MemoryWorkloadAnalysis --section SchedulerStats \
            --section WarpStateStats --section ComputeWorkloadAnalysis \
            --launch-count "${launches:-1}" --kill yes --kernel-name "regex:conv_(wgmma|mma)" \
            "$bin/bench_cuda_convs" --only "${only:-2}" --no-cudnn
        ;;
    esac
done

#include "cli/check.h"

static qb_status look(qb_ctx *cx, qb_finding *out) {
    const int threads = qb_threads(cx);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vnni"))
        return qb_found(cx, out, QB_FINDING_GOOD, NULL, "%d threads, AVX-512 with VNNI", threads);
    if (__builtin_cpu_supports("avx512f") || __builtin_cpu_supports("avx2"))
        return qb_found(cx, out, QB_FINDING_NOTE,
                        "INT8 gains less than it would with AVX512-VNNI: measure on the machine "
                        "that will serve",
                        "%d threads, %s without VNNI", threads,
                        __builtin_cpu_supports("avx512f") ? "AVX-512" : "AVX2");
#endif
    return qb_found(cx, out, QB_FINDING_NOTE, "expect portable code's speed", "%d threads, no AVX2",
                    threads);
}

const qb_check qb_check_processor = {"processor", look};

/* What the command line asks of an engine: one table of options, one function that makes a build
 * spec of them. What follows from the model or the precision (shapes, types) its readers add. */
#ifndef QB_CLI_SETTINGS_BUILD_FLAGS_H
#define QB_CLI_SETTINGS_BUILD_FLAGS_H

#include "base/opt.h"
#include "engine/devices.h"

typedef struct qb_build_flags {
    const char *backends, *providers, *devices, *timing_cache, *tactic_sources, *pools, *max_sizes;
    bool no_mixed_precision, time_tactics, no_check;
} qb_build_flags;

/* Rows of an option struct with a member `qb_project_flags project`: of every command that opens a
 * project. */
#define QB_BUILD_OPTIONS(STRUCT)                                                                   \
    QB_TEXT(STRUCT, "backends", project.build.backends, "LIST",                                    \
            "kernels in order of preference (default: cpu,dnnl,ref; cuda: on a GPU)"),             \
        QB_TEXT(STRUCT, "backend", project.build.backends, "LIST", "the same as --backends"),      \
        QB_TEXT(STRUCT, "providers", project.build.providers, "LIST",                              \
                "where nodes run, in order of preference: cuda,cpu (see help providers)"),         \
        QB_TEXT(STRUCT, "timingCacheFile", project.build.timing_cache, "FILE",                     \
                "keep the times of a GPU's kernels here for the next build"),                      \
        QB_FLAG(STRUCT, "no-mixing", project.build.no_mixed_precision,                             \
                "best on a GPU: no step in FP16, also where that is faster"),                      \
        QB_TEXT(STRUCT, "tacticSources", project.build.tactic_sources, "LIST",                     \
                "libraries of a GPU's kernels: -CUDNN leaves cuDNN's out, +CUDNN does not "        \
                "(default: all; also CUBLAS_LT)"),                                                 \
        QB_TEXT(STRUCT, "max-size", project.build.max_sizes, "NAME=N,...",                         \
                "the largest size of a value whose size comes with the data "                      \
                "(NAME=100x4: of all dimensions)")

#define QB_BUILD_OPTION_NAMES                                                                      \
    "backends", "providers", "timingCacheFile", "no-mixing", "tacticSources"

/* Of commands that run samples. */
#define QB_DEVICES_OPTION(STRUCT)                                                                  \
    QB_TEXT(STRUCT, "devices", project.build.devices, "N,...",                                     \
            "GPUs that share the samples, counted from 0: the same result, sooner (default: 0)")

/* Of commands whose engines are used. */
#define QB_CHECK_OPTION(STRUCT)                                                                    \
    QB_FLAG(STRUCT, "no-check", project.build.no_check,                                            \
            "do not hold the steps of a new engine against the reference")

/* Of commands whose result is one engine. */
#define QB_TUNE_OPTIONS(STRUCT)                                                                    \
    QB_TEXT(STRUCT, "memPoolSize", project.build.pools, "workspace:MIB",                           \
            "most scratch memory of a kernel; 64M, 1G and 512K are understood, too"),              \
        QB_FLAG(STRUCT, "time-tactics", project.build.time_tactics,                                \
                "choose the processor's kernels by timing them here (a GPU's always are): "        \
                "faster, but two builds may differ"),                                              \
        QB_CHECK_OPTION(STRUCT)

/* *devices: those of --devices, the first of them the spec's; n == 0: not told. *missing: why the
 * first of --providers is not used, as qb_providers_choose tells it. The spec's texts are those of
 * the flags. */
qb_status qb_build_flags_parse(qb_ctx *cx, const qb_build_flags *flags, qb_build_spec *spec,
                               qb_devices *devices, char **missing);
/* "0,1,3"; NULL: zeroed. */
qb_status qb_devices_parse(qb_ctx *cx, const char *text, qb_devices *out);

#endif

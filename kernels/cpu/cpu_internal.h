/* What the CPU kernels share: instruction sets, work sharing, the end of a fused step. */
#ifndef QB_CPU_INTERNAL_H
#define QB_CPU_INTERNAL_H

#include "base/processor.h"
#include "kernels/tactic.h"

/* What functions of a tier are marked with; base/processor.h says where they may run. */
#if defined(__x86_64__) && defined(__GNUC__)
#define QB_X86 1
#define QB_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define QB_AVX512_VNNI                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define QB_AVX512_BF16                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma")))
#define QB_AVX512_VBMI                                                                             \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma")))
#define QB_AVX2 __attribute__((target("avx2,fma")))
#define QB_AVX2_VNNI __attribute__((target("avx2,fma,avxvnni")))
#else
#define QB_X86 0
#endif
#define QB_FORCE_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define QB_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QB_UNROLL _Pragma("GCC unroll 64")
#endif

/* erf(x) = x P(x^2) / Q(x^2) up to QB_ERF_BOUND, where it is 1 in floats. Coefficients fitted by
 * least squares whose weights grow where the error is largest: 5e-8 off, 4e-7 with the roundings of
 * floats. Without an exponential it takes a third of the time of Abramowitz and Stegun 7.1.26. The
 * highest power comes first. */
#define QB_ERF_BOUND 3.9f
#define QB_ERF_P                                                                                   \
    {                                                                                              \
        2.01070876e-08f, -1.98390808e-06f, 0.000145079539f, 0.00380739546f, 0.0508834124f,         \
            0.202204168f, 1.12837899f                                                              \
    }
#define QB_ERF_Q                                                                                   \
    { 0.000984057551f, 0.0145567758f, 0.11595013f, 0.512529254f, 1.0f }

/* qb_tactic.is_portable of plain C, and of what has vectors from a tier on. */
bool qb_cpu_always(void);
bool qb_cpu_lacks_avx2(void);

/* The end of a fused step, in the terms of problem.h; made once at build. Bounds are applied to the
 * value as it will be stored: floats for f32, quantized values minus the zero point for integers.
 * RELU and CLIP become such bounds, which is exact because scaling and rounding are monotone. */
typedef struct qb_epilogue {
    qb_dtype out, residual; /* residual NONE: there is none */
    float residual_scale;
    int32_t residual_zero;
    float inverse; /* 1 / scale of the output; 1 for f32 and bf16 */
    int32_t zero;
    float low, high;
    int32_t low_q, high_q; /* integers: the bounds as quantized values */
    /* before the residual */
    bool clamp_first; /* bounds, on the dequantized value or, where it `rounds`, as `low` and `high`
                       */
    bool rounds;      /* to integers by their scale, and back */
    float first_low, first_high, first_inverse, first_scale;
    qb_act act; /* what bounds cannot express, else NONE */
    bool act_first;
} qb_epilogue;

/* Can qb_epilogue express the problem's output and residual? (f32, or u8/s8 with one scale) */
bool qb_epilogue_supports(const qb_problem *p);
qb_epilogue qb_epilogue_of(const qb_problem *p);
/* Portable: n values of one row. The residual is at the same element index. */
void qb_epilogue_run(const qb_epilogue *f, const float *f32, int64_t n, const void *residual,
                     void *out);

/* A kernel with `bytes` of cleared state, which goes with it. */
qb_status qb_cpu_kernel_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                               size_t bytes, qb_kernel **out);
/* The `create` of a tactic with `state_bytes` and `fill`. */
qb_status qb_cpu_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out);

/* What the tasks of a launch are told that reads input 0 and writes the result; runs n of them. */
typedef struct qb_cpu_job {
    const void *state; /* of the kernel */
    const char *data;
    char *out;
} qb_cpu_job;
qb_status qb_cpu_run(const qb_kernel *kernel, const qb_launch *args, int64_t n, qb_task_fn task);

/* Windows slide over three dimensions at most: planes, rows and pixels of a row. What has fewer is
 * a row, or a plane, of a volume of depth 1: these are the window and the sizes with those that it
 * lacks, in front. */
#define QB_SPATIAL 3
qb_window qb_cpu_window(const qb_window *window);
void qb_cpu_spatial(const qb_shape *shape, int64_t size[QB_SPATIAL]);

/* Layout helpers: channels of the tensor in memory (those of the larger one for a slice), and
 * whether the desc is channels last (or the same in memory). */
int64_t qb_cpu_channels(const qb_desc *desc);
/* Channels last: the byte of the first channel, and bytes from pixel to pixel. */
void qb_cpu_pixels_of(const qb_desc *desc, int64_t *first, int64_t *step);
bool qb_cpu_is_nhwc(const qb_desc *desc);
/* The dimension that is number d from outside in memory. */
int32_t qb_cpu_dimension(qb_layout layout, int32_t rank, int32_t d);
/* Row-major and no slice of a larger tensor; the second also has elements. */
bool qb_cpu_is_rows(const qb_desc *desc);
bool qb_cpu_is_filled_rows(const qb_desc *desc);
/* An 8-bit tensor with one scale. */
bool qb_cpu_is_quantized(const qb_desc *desc);
bool qb_cpu_is_f32(const qb_desc *desc);  /* plain f32 */
bool qb_cpu_is_bf16(const qb_desc *desc); /* plain bf16 */
int32_t qb_cpu_zero(const qb_desc *desc);
/* An 8-bit weight with one scale, or one for each index of `axis`, whose numbers less their zero
 * points fit into 8 bits with a sign; `wide`: or into 16, as all do. */
bool qb_cpu_is_weight(const qb_desc *desc, int32_t axis, bool wide);
/* Element `at` of such a weight, of output channel `output`, less its zero point. */
int32_t qb_cpu_weight_at(const qb_desc *desc, const void *data, int64_t at, int64_t output);

static inline int64_t qb_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t qb_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t qb_ceil64(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline size_t qb_pad64(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Parts of a loop for the workers. Part i of n things cut into `parts` begins here (and the last
 * one ends at i == parts): sizes differ by one at most. */
static inline int64_t qb_part_begin(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }
/* About `wanted` parts of n things, `most` things in each at most: as many for each thread, so that
 * threads keep to the same part of the image from layer to layer, and such that the things, which
 * are done `at_once` together, leave few such groups unfilled. */
int64_t qb_parts(int64_t n, int64_t wanted, int64_t most, int64_t at_once, int threads);

#endif

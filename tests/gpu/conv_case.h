/* A random convolution of 8-bit values, or of f16 values whose sums are exact in any order, with a
 * max pool behind it or not, its result by kernels/ref, and a run of a tactic on the device. */
#ifndef CONV_CASE_H
#define CONV_CASE_H

#include "base/rng.h"
#include "kernels/cuda/common/device.h"
#include "kernels/tactic.h"

typedef struct conv_spec {
    int64_t batch, in_c, in_h, in_w, out_c, kernel_h, kernel_w, stride, dilation, group;
    int64_t pad_top, pad_left, pad_bottom, pad_right;
    qb_dtype in, out, weight; /* weight U8 has zero points; F32 is for data in F16 */
    qb_dtype bias, residual;  /* NONE: absent */
    int32_t in_zero, out_zero, residual_zero;
    qb_act act;
    bool act_first, per_channel;
    qb_dtype rounding; /* before the residual; NONE: there is none */
    int32_t rounding_zero;
    qb_window pool;                              /* n = 2: a max pool behind it; 0: none */
    int64_t in_slice, out_slice, residual_slice; /* channels before the slice; as many behind it */
    bool padded; /* pixels end on a boundary of 16 bytes, in channels that are nobody's; no slices
                  */
} conv_spec;

typedef struct conv_case {
    conv_spec spec;
    qb_problem problem;
    qb_desc in[4];
    bool constant[4];
    const void *constants[4];
    float scale[3]; /* data, result, residual */
    float *weight_scale;
    int32_t *weight_zero;
    char *data, *weight, *bias, *residual; /* row-major, without slices */
    char *expected;
    int64_t n_out;
} conv_case;

/* A problem without surprises: u8 to u8, ReLU, per-channel weights, int32 bias. */
conv_spec conv_spec_plain(int64_t batch, int64_t in_c, int64_t side, int64_t out_c, int64_t kernel,
                          int64_t stride);
/* Anything the tactics claim, small enough for the reference. */
conv_spec conv_spec_random(qb_rng *rng);
/* The same problem of f16 values: weight and bias in floats, the result f16 where it was quantized,
 * and so a residual. */
void conv_spec_as_f16(conv_spec *spec);
char *conv_spec_text(const conv_spec *spec, char *text, size_t n);

qb_status conv_case_init(qb_ctx *cx, conv_case *c, const conv_spec *spec, qb_rng *rng);
void conv_case_release(conv_case *c);

/* The problem as the device gets it: channels last, in slices. */
void conv_case_on_device(const conv_case *c, qb_problem *problem, qb_desc in[4]);
/* Runs a tactic on fresh buffers with guard bytes around each and a poisoned result; the result,
 * row-major and without its slice, goes to got[n_out] elements. UNSUPPORTED when the tactic does
 * not take the problem; CHECK when a guard was overwritten. */
qb_status conv_case_run(qb_ctx *cx, const conv_case *c, const qb_tactic *tactic, char *got);
/* How far `got` is from what is expected: the largest difference in quantized values; of floats, as
 * a share of what a smooth activation may be off by at that value. */
double conv_case_distance(const conv_case *c, const char *got);

#endif

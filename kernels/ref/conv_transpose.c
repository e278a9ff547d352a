/* Transposed convolution, float and integer: output o of a row gets input i through kernel element
 * k where o = i stride + k dilation - pad. Sums run in the order channel, kernel z, y, x. */
#include "ref_internal.h"

typedef struct deconv {
    const qb_problem *p;
    ref_geometry g;
    int64_t channels;     /* input channels of one group */
    int64_t per_group;    /* output channels of one group */
    int64_t kernel_count; /* elements of one kernel plane */
    int64_t in_plane;
} deconv;

/* The input position that reaches output `out` through kernel element `kernel`, or -1. */
QB_INLINE int64_t source(const ref_geometry *g, int32_t d, int64_t out, int64_t kernel) {
    int64_t at = out + g->pad[d] - kernel * g->dilation[d];
    if (at < 0 || at % g->stride[d] != 0) return -1;
    at /= g->stride[d];
    return at < g->in[d] ? at : -1;
}

#define DEFINE_CHUNK(NAME, T, SUM, WEIGHT, VALUE)                                                  \
    QB_LOOP(NAME,                                                                                  \
            (const deconv *k, const ref_integer *integer, const T *in, const void *weight,         \
             int64_t weight_at, int64_t channel, int64_t z, int64_t y, int64_t x0, int64_t n,      \
             SUM *sums),                                                                           \
            (k, integer, in, weight, weight_at, channel, z, y, x0, n, sums)) {                     \
        const ref_geometry *g = &k->g;                                                             \
        int32_t zero = integer ? integer->data_zero : 0;                                           \
        int32_t weight_zero = integer ? qb_ref_weight_zero(integer, channel) : 0;                  \
        (void)zero, (void)weight_zero;                                                             \
        for (int64_t i = 0; i < n; i++) sums[i] = 0;                                               \
        for (int64_t c = 0; c < k->channels; c++)                                                  \
            for (int64_t kz = 0; kz < g->kernel[0]; kz++) {                                        \
                int64_t iz = source(g, 0, z, kz);                                                  \
                for (int64_t ky = 0; ky < g->kernel[1] && iz >= 0; ky++) {                         \
                    int64_t iy = source(g, 1, y, ky);                                              \
                    if (iy < 0) continue;                                                          \
                    const T *row = in + c * k->in_plane + (iz * g->in[1] + iy) * g->in[2];         \
                    int64_t w_at = weight_at + c * k->per_group * k->kernel_count +                \
                                   (kz * g->kernel[1] + ky) * g->kernel[2];                        \
                    for (int64_t kx = 0; kx < g->kernel[2]; kx++) {                                \
                        SUM w = (SUM)(WEIGHT);                                                     \
                        int64_t s = g->stride[2], shift = kx * g->dilation[2] - g->pad[2];         \
                        int64_t low = qb_ceil_div(x0 - shift, s);                                  \
                        int64_t high = qb_ceil_div(x0 + n - shift, s);                             \
                        if (low < 0) low = 0;                                                      \
                        if (high > g->in[2]) high = g->in[2];                                      \
                        for (int64_t i = low; i < high; i++)                                       \
                            sums[i * s + shift - x0] += w * (SUM)VALUE(row[i]);                    \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
    }

#define FLOAT_VALUE(v) (v)
#define CODE_VALUE(v) ((int32_t)(v)-zero)
DEFINE_CHUNK(chunk_f32, float, double, ((const float *)weight)[w_at + kx], FLOAT_VALUE)
DEFINE_CHUNK(chunk_u8, uint8_t, uint32_t,
             qb_ref_quantized(k->p->in[QB_IN_WEIGHT].dtype, weight, w_at + kx) - weight_zero,
             CODE_VALUE)
DEFINE_CHUNK(chunk_s8, int8_t, uint32_t,
             qb_ref_quantized(k->p->in[QB_IN_WEIGHT].dtype, weight, w_at + kx) - weight_zero,
             CODE_VALUE)

/* `in_group`: output channel within its group, which is also the weight's axis of scales. */
static void one_chunk(const deconv *k, const ref_integer *integer, const void *const *in,
                      int64_t in_at, int64_t weight_at, int64_t channel, int64_t in_group,
                      const int64_t at[3], int64_t n, float *f32) {
    if (!integer) {
        double sums[QB_REF_CHUNK];
        const float *bias = qb_problem_has(k->p, QB_IN_BIAS) ? in[QB_IN_BIAS] : NULL;
        chunk_f32(k, NULL, (const float *)in[QB_IN_DATA] + in_at, in[QB_IN_WEIGHT], weight_at,
                  in_group, at[0], at[1], at[2], n, sums);
        double add = bias ? (double)bias[channel] : 0.0;
        for (int64_t i = 0; i < n; i++) f32[i] = (float)(sums[i] + add);
        return;
    }
    uint32_t sums[QB_REF_CHUNK];
    if (k->p->in[QB_IN_DATA].dtype == QB_DTYPE_U8)
        chunk_u8(k, integer, (const uint8_t *)in[QB_IN_DATA] + in_at, in[QB_IN_WEIGHT], weight_at,
                 in_group, at[0], at[1], at[2], n, sums);
    else
        chunk_s8(k, integer, (const int8_t *)in[QB_IN_DATA] + in_at, in[QB_IN_WEIGHT], weight_at,
                 in_group, at[0], at[1], at[2], n, sums);
    qb_ref_rescale(k->p, integer, in, channel, 0, n, sums, f32);
}

static void one_plane(const deconv *k, const ref_integer *integer, const void *const *in, void *out,
                      int64_t image, int64_t channel) {
    const qb_problem *p = k->p;
    const ref_geometry *g = &k->g;
    int64_t group = channel / k->per_group, in_group = channel % k->per_group;
    int64_t in_at = qb_ref_plane_at(&p->in[QB_IN_DATA], image, group * k->channels);
    int64_t weight_at = (group * k->channels * k->per_group + in_group) * k->kernel_count;
    int64_t out_at = qb_ref_plane_at(&p->out, image, channel);
    const void *residual = qb_problem_has(p, QB_IN_RESIDUAL) ? in[QB_IN_RESIDUAL] : NULL;
    int64_t residual_at = residual ? qb_ref_plane_at(&p->in[QB_IN_RESIDUAL], image, channel) : 0;
    float f32[QB_REF_CHUNK];
    int64_t at[3];
    for (at[0] = 0; at[0] < g->out[0]; at[0]++)
        for (at[1] = 0; at[1] < g->out[1]; at[1]++)
            for (at[2] = 0; at[2] < g->out[2]; at[2] += QB_REF_CHUNK) {
                int64_t left = g->out[2] - at[2], n = left < QB_REF_CHUNK ? left : QB_REF_CHUNK;
                int64_t inside = (at[0] * g->out[1] + at[1]) * g->out[2] + at[2];
                one_chunk(k, integer, in, in_at, weight_at, channel, in_group, at, n, f32);
                qb_ref_epilogue(p, residual, residual_at + inside, out, out_at + inside, n, f32);
            }
}

void qb_ref_conv_transpose(const qb_problem *p, const void *const *in, void *out, int threads) {
    const qb_shape *weight = &p->in[QB_IN_WEIGHT].shape;
    deconv k = {.p = p, .channels = weight->dim[0] / p->group, .per_group = weight->dim[1]};
    qb_ref_geometry(&p->window, &p->in[QB_IN_DATA].shape, &p->out.shape, &k.g);
    k.kernel_count = k.g.kernel[0] * k.g.kernel[1] * k.g.kernel[2];
    k.in_plane = qb_ref_plane(&p->in[QB_IN_DATA]);
    bool is_integer = qb_ref_is_integer(p);
    ref_integer integer = {0};
    if (is_integer) integer = qb_ref_integer(p);
    int64_t images = p->out.shape.dim[0], outs = p->out.shape.dim[1];
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < images * outs; i++)
        one_plane(&k, is_integer ? &integer : NULL, in, out, i / outs, i % outs);
}

/* Convolution and transposed convolution, float and integer. Each chunk of outputs along the last
 * spatial dimension adds up weight times input row in the order channel, kernel z, y, x; the inner
 * loop runs over outputs (transposed: over inputs), so it vectorizes without changing any element's
 * order of summation. */
#include "ref_internal.h"

typedef struct conv {
    const qb_problem *p;
    ref_geometry g;
    int64_t channels, per_group; /* of one group: input and output channels */
    int64_t kernel_count;        /* elements of one kernel plane */
    int64_t in_plane;
} conv;

/* One chunk: sums[i] for outputs x0 + i of row (z, y). `weight_at`: the first weight of the output
 * channel, whose place on the weight's axis of scales is `scale`. */
#define CHUNK_PARAMETERS(T, SUM)                                                                   \
    (const conv *k, const ref_integer *integer, const T *in, const void *weight,                   \
     int64_t weight_at, int64_t scale, int64_t z, int64_t y, int64_t x0, int64_t n, SUM *sums)
#define CHUNK_ARGUMENTS (k, integer, in, weight, weight_at, scale, z, y, x0, n, sums)
#define CHUNK_BEGIN                                                                                \
    const ref_geometry *g = &k->g;                                                                 \
    int32_t zero = integer ? integer->data_zero : 0;                                               \
    int32_t weight_zero = integer ? qb_ref_weight_zero(integer, scale) : 0;                        \
    (void)zero, (void)weight_zero;                                                                 \
    for (int64_t i = 0; i < n; i++) sums[i] = 0;
#define FLOAT_VALUE(v) (v)
#define CODE_VALUE(v) ((int32_t)(v)-zero)
/* Integer sums wrap modulo 2^32 as every int32 accumulator does. */
#define DEFINE_CHUNKS(DEFINE, NAME)                                                                \
    DEFINE(NAME##_f32, float, double, ((const float *)weight)[w_at + kx], FLOAT_VALUE)             \
    DEFINE(NAME##_u8, uint8_t, uint32_t,                                                           \
           qb_ref_quantized(k->p->in[QB_IN_WEIGHT].dtype, weight, w_at + kx) - weight_zero,        \
           CODE_VALUE)                                                                             \
    DEFINE(NAME##_s8, int8_t, uint32_t,                                                            \
           qb_ref_quantized(k->p->in[QB_IN_WEIGHT].dtype, weight, w_at + kx) - weight_zero,        \
           CODE_VALUE)

/* ---- convolution ---- */

/* Outputs [begin, end) of a row for which the input position out * stride - shift lies in the row.
 */
QB_INLINE void valid_range(int64_t shift, int64_t stride, int64_t in, int64_t *begin,
                           int64_t *end) {
    int64_t low = qb_ceil_div(shift, stride);
    int64_t high = in - 1 + shift < 0 ? 0 : (in - 1 + shift) / stride + 1;
    if (*begin < low) *begin = low;
    if (*end > high) *end = high;
}

#define DEFINE_CHUNK(NAME, T, SUM, WEIGHT, VALUE)                                                  \
    QB_LOOP(NAME, CHUNK_PARAMETERS(T, SUM), CHUNK_ARGUMENTS) {                                     \
        CHUNK_BEGIN                                                                                \
        for (int64_t c = 0; c < k->channels; c++)                                                  \
            for (int64_t kz = 0; kz < g->kernel[0]; kz++) {                                        \
                int64_t iz = z * g->stride[0] - g->pad[0] + kz * g->dilation[0];                   \
                if (iz < 0 || iz >= g->in[0]) continue;                                            \
                for (int64_t ky = 0; ky < g->kernel[1]; ky++) {                                    \
                    int64_t iy = y * g->stride[1] - g->pad[1] + ky * g->dilation[1];               \
                    if (iy < 0 || iy >= g->in[1]) continue;                                        \
                    const T *row = in + c * k->in_plane + (iz * g->in[1] + iy) * g->in[2];         \
                    int64_t w_at =                                                                 \
                        weight_at + c * k->kernel_count + (kz * g->kernel[1] + ky) * g->kernel[2]; \
                    for (int64_t kx = 0; kx < g->kernel[2]; kx++) {                                \
                        SUM w = (SUM)(WEIGHT);                                                     \
                        int64_t shift = g->pad[2] - kx * g->dilation[2], s = g->stride[2];         \
                        int64_t begin = x0, end = x0 + n;                                          \
                        valid_range(shift, s, g->in[2], &begin, &end);                             \
                        int64_t count = end - begin;                                               \
                        if (count <= 0) continue;                                                  \
                        SUM *to = sums + (begin - x0);                                             \
                        const T *from = row + begin * s - shift;                                   \
                        if (s == 1)                                                                \
                            for (int64_t i = 0; i < count; i++) to[i] += w * (SUM)VALUE(from[i]);  \
                        else                                                                       \
                            for (int64_t i = 0; i < count; i++)                                    \
                                to[i] += w * (SUM)VALUE(from[i * s]);                              \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
    }

DEFINE_CHUNKS(DEFINE_CHUNK, chunk)

/* A 1x1 window without padding sees the whole plane as one long row. */
static void flatten_pointwise(ref_geometry *g) {
    for (int32_t d = 0; d < 3; d++) {
        if (g->kernel[d] != 1 || g->stride[d] != 1 || g->pad[d] != 0 || g->in[d] != g->out[d])
            return;
    }
    g->in[2] *= g->in[0] * g->in[1];
    g->out[2] *= g->out[0] * g->out[1];
    g->in[0] = g->in[1] = g->out[0] = g->out[1] = 1;
}

/* ---- transposed: output o of a row gets input i through kernel element k where
 * o = i stride + k dilation - pad ---- */

/* The input position that reaches output `out` through kernel element `kernel`, or -1. */
QB_INLINE int64_t source(const ref_geometry *g, int32_t d, int64_t out, int64_t kernel) {
    int64_t at = out + g->pad[d] - kernel * g->dilation[d];
    if (at < 0 || at % g->stride[d] != 0) return -1;
    at /= g->stride[d];
    return at < g->in[d] ? at : -1;
}

#define DEFINE_TRANSPOSED(NAME, T, SUM, WEIGHT, VALUE)                                             \
    QB_LOOP(NAME, CHUNK_PARAMETERS(T, SUM), CHUNK_ARGUMENTS) {                                     \
        CHUNK_BEGIN                                                                                \
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

DEFINE_CHUNKS(DEFINE_TRANSPOSED, transposed)

/* ---- both ---- */

/* The chunk of either, for each type of data. */
typedef struct chunks {
    bool transposed;
    void(*f32) CHUNK_PARAMETERS(float, double);
    void(*u8) CHUNK_PARAMETERS(uint8_t, uint32_t);
    void(*s8) CHUNK_PARAMETERS(int8_t, uint32_t);
} chunks;

static void one_chunk(const conv *k, const chunks *of, const ref_integer *integer,
                      const void *const *in, int64_t in_at, int64_t weight_at, int64_t channel,
                      int64_t scale, const int64_t at[3], int64_t n, float *f32) {
    const void *weight = in[QB_IN_WEIGHT];
    if (!integer) {
        double sums[QB_REF_CHUNK];
        const float *bias = qb_problem_has(k->p, QB_IN_BIAS) ? in[QB_IN_BIAS] : NULL;
        of->f32(k, NULL, (const float *)in[QB_IN_DATA] + in_at, weight, weight_at, scale, at[0],
                at[1], at[2], n, sums);
        double add = bias ? (double)bias[channel] : 0.0;
        for (int64_t i = 0; i < n; i++) f32[i] = (float)(sums[i] + add);
        return;
    }
    uint32_t sums[QB_REF_CHUNK];
    if (k->p->in[QB_IN_DATA].dtype == QB_DTYPE_U8)
        of->u8(k, integer, (const uint8_t *)in[QB_IN_DATA] + in_at, weight, weight_at, scale, at[0],
               at[1], at[2], n, sums);
    else
        of->s8(k, integer, (const int8_t *)in[QB_IN_DATA] + in_at, weight, weight_at, scale, at[0],
               at[1], at[2], n, sums);
    qb_ref_rescale(k->p, integer, in, channel, 0, n, sums, f32);
}

static void one_plane(const conv *k, const chunks *of, const ref_integer *integer,
                      const void *const *in, void *out, int64_t image, int64_t channel) {
    const qb_problem *p = k->p;
    const ref_geometry *g = &k->g;
    int64_t group = channel / k->per_group, in_group = channel % k->per_group;
    int64_t in_at = qb_ref_plane_at(&p->in[QB_IN_DATA], image, group * k->channels);
    /* weights: [outputs, channels of a group], or transposed [channels, outputs of a group] */
    int64_t weight_at =
        (of->transposed ? group * k->channels * k->per_group + in_group : channel * k->channels) *
        k->kernel_count;
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
                one_chunk(k, of, integer, in, in_at, weight_at, channel,
                          of->transposed ? in_group : channel, at, n, f32);
                qb_ref_epilogue(p, residual, residual_at + inside, out, out_at + inside, n, f32);
            }
}

/* With g, channels and per_group set. */
static void run(conv *k, const chunks *of, const void *const *in, void *out, int threads) {
    const qb_problem *p = k->p;
    k->kernel_count = k->g.kernel[0] * k->g.kernel[1] * k->g.kernel[2];
    k->in_plane = qb_ref_plane(&p->in[QB_IN_DATA]);
    bool is_integer = qb_ref_is_integer(p);
    ref_integer integer = {0};
    if (is_integer) integer = qb_ref_integer(p);
    int64_t images = p->out.shape.dim[0], outs = p->out.shape.dim[1];
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < images * outs; i++)
        one_plane(k, of, is_integer ? &integer : NULL, in, out, i / outs, i % outs);
}

void qb_ref_conv(const qb_problem *p, const void *const *in, void *out, int threads) {
    static const chunks of = {false, chunk_f32, chunk_u8, chunk_s8};
    conv k = {.p = p,
              .channels = p->in[QB_IN_WEIGHT].shape.dim[1],
              .per_group = p->out.shape.dim[1] / p->group};
    qb_ref_geometry(&p->window, &p->in[QB_IN_DATA].shape, &p->out.shape, &k.g);
    flatten_pointwise(&k.g);
    run(&k, &of, in, out, threads);
}

void qb_ref_conv_transpose(const qb_problem *p, const void *const *in, void *out, int threads) {
    static const chunks of = {true, transposed_f32, transposed_u8, transposed_s8};
    const qb_shape *weight = &p->in[QB_IN_WEIGHT].shape;
    conv k = {.p = p, .channels = weight->dim[0] / p->group, .per_group = weight->dim[1]};
    qb_ref_geometry(&p->window, &p->in[QB_IN_DATA].shape, &p->out.shape, &k.g);
    run(&k, &of, in, out, threads);
}

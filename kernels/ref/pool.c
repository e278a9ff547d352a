/* Maximum and average pooling. Averages sum in double, those of quantized values what they are less
 * their zero point: one multiply by scale / count follows. Maxima are of dequantized values. */
#include <math.h>

#include "ref_internal.h"

typedef struct pool {
    const qb_problem *p;
    ref_geometry g;
    int64_t pad_end[3];
} pool;

/* Elements of one window along one dimension: those inside the data, and those that count for
 * AVG_INCLUDE_PAD (inside the data and the declared padding; not what ceil_mode adds beyond it). */
typedef struct span {
    int64_t first, n; /* kernel elements first .. first + n - 1 lie inside the data */
    int64_t counted;
} span;

static span window_span(const pool *w, int32_t d, int64_t out) {
    const ref_geometry *g = &w->g;
    int64_t start = out * g->stride[d] - g->pad[d], kernel = g->kernel[d];
    int64_t first = qb_ceil_div(-start, g->dilation[d]);
    int64_t end = qb_ceil_div(g->in[d] - start, g->dilation[d]);
    int64_t counted = qb_ceil_div(g->in[d] + w->pad_end[d] - start, g->dilation[d]);
    if (first < 0) first = 0;
    if (end > kernel) end = kernel;
    span s = {.first = first, .n = end > first ? end - first : 0};
    s.counted = counted < 0 ? 0 : counted > kernel ? kernel : counted;
    return s;
}

static float one_window(const pool *w, const void *data, int64_t plane_at, const int64_t at[3],
                        int64_t *index) {
    const ref_geometry *g = &w->g;
    span s[3];
    for (int32_t d = 0; d < 3; d++) s[d] = window_span(w, d, at[d]);
    const qb_desc *x = &w->p->in[0];
    const bool is_max = w->p->pool == QB_POOL_MAX, is_whole = !is_max && x->q.n > 0;
    qb_desc whole = *x;
    const float one = 1.0f;
    if (is_whole) whole.q.scale = &one;
    float best = -INFINITY, value[64];
    double sum = 0.0;
    int64_t best_at = -1;
    for (int64_t z = s[0].first; z < s[0].first + s[0].n; z++)
        for (int64_t y = s[1].first; y < s[1].first + s[1].n; y++) {
            int64_t iz = at[0] * g->stride[0] - g->pad[0] + z * g->dilation[0];
            int64_t iy = at[1] * g->stride[1] - g->pad[1] + y * g->dilation[1];
            int64_t ix = at[2] * g->stride[2] - g->pad[2] + s[2].first * g->dilation[2];
            int64_t from = plane_at + (iz * g->in[1] + iy) * g->in[2] + ix;
            for (int64_t done = 0; done < s[2].n; done += 64) {
                int64_t n = s[2].n - done < 64 ? s[2].n - done : 64;
                int64_t first = from + done * g->dilation[2];
                qb_ref_load(&whole, data, first, g->dilation[2], n, value);
                for (int64_t i = 0; i < n; i++) {
                    sum += (double)value[i];
                    if (value[i] > best || best_at < 0 || isnan(value[i]))
                        best = value[i], best_at = first + i * g->dilation[2];
                }
            }
        }
    if (index) *index = best_at;
    if (is_max) return best;
    bool include = w->p->pool == QB_POOL_AVG_INCLUDE_PAD;
    int64_t count = include ? s[0].counted * s[1].counted * s[2].counted : s[0].n * s[1].n * s[2].n;
    if (count <= 0) return 0.0f;
    return is_whole ? (float)((double)x->q.scale[0] / (double)count) * (float)sum
                    : (float)(sum / (double)count);
}

static void one_plane(const pool *w, const void *data, void *out, int64_t *indices, int64_t image,
                      int64_t channel) {
    const qb_problem *p = w->p;
    const ref_geometry *g = &w->g;
    int64_t in_at = qb_ref_plane_at(&p->in[0], image, channel);
    int64_t out_at = qb_ref_plane_at(&p->out, image, channel);
    float f32[QB_REF_CHUNK];
    int64_t at[3], n = 0;
    for (at[0] = 0; at[0] < g->out[0]; at[0]++)
        for (at[1] = 0; at[1] < g->out[1]; at[1]++)
            for (at[2] = 0; at[2] < g->out[2]; at[2]++) {
                f32[n] = one_window(w, data, in_at, at, indices ? indices + out_at + n : NULL);
                if (++n < QB_REF_CHUNK) continue;
                qb_ref_epilogue(p, NULL, 0, out, out_at, n, f32);
                out_at += n, n = 0;
            }
    if (n > 0) qb_ref_epilogue(p, NULL, 0, out, out_at, n, f32);
}

void qb_ref_pool(const qb_problem *p, const void *const *in, void *out, int64_t *indices,
                 int threads) {
    pool w = {.p = p};
    qb_ref_geometry(&p->window, &p->in[0].shape, &p->out.shape, &w.g);
    for (int32_t d = 0; d < p->window.n; d++) w.pad_end[3 - p->window.n + d] = p->window.pad_end[d];
    int64_t images = p->out.shape.dim[0], channels = p->out.shape.dim[1];
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < images * channels; i++)
        one_plane(&w, in[0], out, indices, i / channels, i % channels);
}

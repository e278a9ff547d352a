/* Binary and unary functions on dequantized values. */
#include <math.h>

#include "ref_internal.h"

#define RUN(expr)                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                              \
        float x = a[i], y = b[i];                                                                  \
        a[i] = (expr);                                                                             \
    }                                                                                              \
    break

void qb_ref_combine(qb_binary_kind kind, int64_t n, float *a, const float *b) {
    switch (kind) {
    case QB_BINARY_ADD: RUN(x + y);
    case QB_BINARY_SUB: RUN(x - y);
    case QB_BINARY_MUL: RUN(x * y);
    case QB_BINARY_DIV: RUN(x / y);
    case QB_BINARY_MIN: RUN(isnan(x) || x < y ? x : y);
    case QB_BINARY_MAX: RUN(isnan(x) || x > y ? x : y);
    }
}

void qb_ref_binary(const qb_problem *p, const void *const *in, void *out) {
    const qb_shape *shapes[2] = {&p->in[0].shape, &p->in[1].shape};
    float a[QB_REF_CHUNK], b[QB_REF_CHUNK];
    qb_walk w;
    for (qb_walk_broadcast(&w, &p->out.shape, shapes, 2); w.left > 0; qb_walk_next(&w))
        for (int64_t done = 0; done < w.run; done += QB_REF_CHUNK) {
            int64_t n = w.run - done < QB_REF_CHUNK ? w.run - done : QB_REF_CHUNK;
            qb_ref_load(&p->in[0], in[0], w.at[0] + done * w.step[0], w.step[0], n, a);
            qb_ref_load(&p->in[1], in[1], w.at[1] + done * w.step[1], w.step[1], n, b);
            qb_ref_combine(p->binary, n, a, b);
            qb_ref_act_run(p->act, a, n);
            qb_ref_store(&p->out, out, w.out + done, n, a);
        }
}

static void unary_run(const qb_problem *p, const void *in, int64_t in_at, void *out, int64_t out_at,
                      int64_t count) {
    float f32[QB_REF_CHUNK];
    for (int64_t done = 0; done < count; done += QB_REF_CHUNK) {
        int64_t n = count - done < QB_REF_CHUNK ? count - done : QB_REF_CHUNK;
        qb_ref_load(&p->in[0], in, in_at + done, 1, n, f32);
        qb_ref_act_run(p->act, f32, n);
        qb_ref_store(&p->out, out, out_at + done, n, f32);
    }
}

void qb_ref_unary(const qb_problem *p, const void *const *in, void *out) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    int64_t count = qb_shape_count(&x->shape);
    if ((x->channel_total <= 0 && y->channel_total <= 0) || count == 0) {
        unary_run(p, in[0], 0, out, 0, count);
        return;
    }
    int64_t images = x->shape.dim[0];
    for (int64_t n = 0; n < images; n++)
        unary_run(p, in[0], qb_ref_plane_at(x, n, 0), out, qb_ref_plane_at(y, n, 0),
                  count / images);
}

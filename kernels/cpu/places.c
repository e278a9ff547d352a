#include "base/vector_loop.h"
#include "cpu_internal.h"
#include "places_internal.h"

bool qb_cpu_places_supports(const qb_problem *p) {
    const qb_desc *x = &p->in[0], *i = &p->in[1];
    return (i->dtype == QB_DTYPE_S64 || i->dtype == QB_DTYPE_S32) && i->q.n == 0 &&
           qb_places_count(&p->places) > 0 && p->places.run > 0 && qb_shape_count(&x->shape) > 0;
}

qb_cpu_places qb_cpu_places_of(const qb_problem *p) {
    qb_cpu_places out = {p->places, p->in[1].dtype == QB_DTYPE_S64};
    qb_places_simplify(&out.places);
    return out;
}

static int64_t index_at(const qb_cpu_places *p, const void *indices, int64_t i) {
    return p->wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* Negative indices count from the end. */
#define DEFINE_ADD(NAME, TYPE)                                                                     \
    QB_LOOP(NAME,                                                                                  \
            (const TYPE *indices, int64_t step, int64_t n, int64_t size, int64_t stride,           \
             int64_t *begin, int64_t *outside),                                                    \
            (indices, step, n, size, stride, begin, outside)) {                                    \
        int64_t any = 0;                                                                           \
        if (step == 1 && stride == 1) { /* which most are */                                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                int64_t index = indices[i];                                                        \
                index += index < 0 ? size : 0;                                                     \
                any |= (index < 0) | (index >= size);                                              \
                begin[i] += index;                                                                 \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                int64_t index = indices[i * step];                                                 \
                index += index < 0 ? size : 0;                                                     \
                any |= (index < 0) | (index >= size);                                              \
                begin[i] += index * stride;                                                        \
            }                                                                                      \
        }                                                                                          \
        *outside |= any;                                                                           \
    }
DEFINE_ADD(add_wide, int64_t)
DEFINE_ADD(add_narrow, int32_t)

int64_t qb_cpu_places_next(const qb_cpu_places *p, const void *indices, qb_place *at, int64_t most,
                           int64_t *begin) {
    const qb_places *s = &p->places;
    const int32_t last = s->rank - 1;
    const int64_t left = qb_min64(most, s->dim[last] - at->at[last]);
    const int64_t n = qb_min64(QB_PLACES_BLOCK, left);
    const int64_t step = s->named[last] * s->depth;
    int64_t outside = 0;
    for (int64_t i = 0; i < n; i++) begin[i] = at->base + i * s->along[last];
    for (int32_t k = 0; k < s->depth; k++) {
        const int64_t size = s->size[k], stride = s->stride[k];
        const int64_t first = at->tuple * s->depth + k;
        if (p->wide)
            add_wide((const int64_t *)indices + first, step, n, size, stride, begin, &outside);
        else
            add_narrow((const int32_t *)indices + first, step, n, size, stride, begin, &outside);
    }
    qb_places_next(s, at, n);
    return outside ? 0 : n;
}

qb_status qb_cpu_places_error(qb_ctx *cx, const qb_cpu_places *p, const void *indices, int64_t n) {
    for (int64_t i = 0; i < n * p->places.depth; i++) {
        const int64_t index = index_at(p, indices, i), size = p->places.size[i % p->places.depth];
        if (index < -size || index >= size)
            return qb_fail(cx, QB_STATUS_INVALID, "index %lld: expected -%lld to %lld",
                           (long long)index, (long long)size, (long long)(size - 1));
    }
    return QB_OK;
}

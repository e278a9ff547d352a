#include "cpu_internal.h"
#include "reduce_internal.h"

#define ELEMENTS_PER_TASK 32768 /* of the data */

int64_t qb_reduce_place(const qb_reduce_loops *l, int64_t index) {
    int64_t at = 0;
    for (int32_t d = l->rank - 1; d >= 0; index /= l->dim[d--])
        at += index % l->dim[d] * l->stride[d];
    return at;
}

static void add_loop(qb_reduce_loops *l, int64_t dim, int64_t stride) {
    if (dim == 1) return;
    if (l->rank > 0 && l->stride[l->rank - 1] == stride * dim) {
        l->dim[l->rank - 1] *= dim;
        l->stride[l->rank - 1] = stride;
    } else {
        l->dim[l->rank] = dim;
        l->stride[l->rank++] = stride;
    }
    l->count *= dim;
}

static bool ends_in_run(const qb_reduce_loops *l) {
    return l->rank > 0 && l->stride[l->rank - 1] == 1;
}

/* The loop over what lies side by side leaves its list and becomes the run; single elements where a
 * slice of one channel has none. */
static void take_run(qb_reduce_walk *r) {
    r->run_kept = ends_in_run(&r->kept);
    qb_reduce_loops *inner = r->run_kept ? &r->kept : &r->reduced;
    r->run = 1;
    if (!ends_in_run(inner)) return;
    r->run = inner->dim[--inner->rank];
    inner->count /= r->run;
}

qb_reduce_walk qb_reduce_walk_of(const qb_problem *p, int threads) {
    const qb_desc *x = &p->in[0];
    const qb_channel_view view = qb_desc_channels(x);
    const bool nhwc = x->layout == QB_LAYOUT_NHWC;
    int64_t stride = x->shape.dim[0] * view.stored;
    qb_reduce_walk w = {.kept.count = 1, .reduced.count = 1, .n = qb_shape_count(&p->out.shape)};
    w.size = qb_shape_count(&x->shape) / w.n;
    for (int32_t i = 0; i < x->shape.rank; i++) { /* as they lie: channels last */
        const int32_t d = !nhwc || i == 0 ? i : i + 1 < x->shape.rank ? i + 1 : 1;
        stride /= nhwc && d == 1 ? view.total : x->shape.dim[d];
        add_loop(p->axes >> d & 1u ? &w.reduced : &w.kept, x->shape.dim[d], stride);
    }
    take_run(&w);
    /* as many side by side as threads leave: what is read is long pieces of lines */
    const int64_t together =
        qb_ceil64(qb_ceil64(w.run, threads), QB_REDUCE_LANES) * QB_REDUCE_LANES;
    w.results_a_task = qb_max64(w.run_kept ? together : 1, ELEMENTS_PER_TASK / w.size);
    w.first = nhwc ? view.offset : 0;
    return w;
}

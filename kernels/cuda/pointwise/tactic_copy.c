/* Copies, transposition and concatenation: between types, layouts, quantizations, channel slices.
 */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/elementwise.h"

#define MAX_PLANES 4 /* channels of a copy by planes */

/* Does the result lie in one piece that begins on a word? */
static bool is_whole(const qb_cuda_walk *w) {
    int64_t together = 1;
    for (int32_t d = w->rank - 1; d >= 0; d--) {
        if (w->stride[0][d] != together) return false;
        together *= w->dim[d];
    }
    return w->first[0] % 4 == 0;
}

/* A tile of elements that stay as they are has 64 x 64: what fills less than an eighth of it is not
 * worth its blocks, and of few tiles each takes longer than single reads from L2. */
#define TILE 64
#define THIN_ELEMENTS (TILE * TILE / 8)
#define FEW_TILES 64

static int64_t tiles_of(int64_t width, int64_t height) {
    return ((width + TILE - 1) / TILE) * ((height + TILE - 1) / TILE);
}

/* How the operands lie to each other. */
static void choose_way(qb_cuda_elementwise *e) {
    const qb_cuda_walk *w = &e->walk;
    int32_t last = w->rank - 1;
    e->way = QB_CUDA_COPY_FLAT;
    if (last < 1 || w->stride[0][last] != 1 || w->stride[1][last] == 1) return;
    for (e->unit = 0; e->unit < last; e->unit++)
        if (w->stride[1][e->unit] == 1) break;
    if (e->unit == last) return;
    const int64_t tile = (int64_t)w->dim[last] * w->dim[e->unit], outer = w->count / tile;
    const bool few = tiles_of(w->dim[last], w->dim[e->unit]) * outer <= FEW_TILES;
    if ((tile < THIN_ELEMENTS || few) && !e->divide && is_whole(w)) {
        e->way = QB_CUDA_COPY_GATHER;
        return;
    }
    if (outer > 65535) return;
    bool pieces = w->dim[e->unit] % 4 == 0 && w->first[1] % 4 == 0;
    for (int32_t d = 0; d <= last; d++)
        pieces = pieces && (d == e->unit || w->stride[1][d] % 4 == 0);
    e->way = pieces && w->dim[last] <= MAX_PLANES ? QB_CUDA_COPY_PLANES : QB_CUDA_COPY_TRANSPOSE;
}

/* Elements of eight bytes move as two of four. */
static void split_elements(qb_desc *in, qb_desc *out, qb_shape *shape, qb_cuda_strides *strides) {
    if (qb_dtype_size(in->dtype) != 8 || in->dtype != out->dtype || shape->rank == QB_MAX_RANK)
        return;
    in->dtype = out->dtype = QB_DTYPE_S32;
    for (int32_t k = 0; k < 2; k++) {
        strides[k].first *= 2;
        for (int32_t d = 0; d < shape->rank; d++) strides[k].stride[d] *= 2;
        strides[k].stride[shape->rank] = 1;
    }
    shape->dim[shape->rank++] = 2;
}

bool qb_cuda_copy_plan(const qb_desc *in, const qb_strided *strided, const qb_desc *out,
                       int64_t skip, qb_cuda_elementwise *e) {
    qb_cuda_strides strides[2];
    qb_shape shape = in->shape;
    qb_desc from = *in, to = *out;
    *e = (qb_cuda_elementwise){.n_in = 1};
    if (!qb_cuda_strides_of(out, &strides[0]) || !qb_cuda_strides_of(in, &strides[1])) return false;
    strides[0].first += skip;
    if (strided) {
        qb_strided_loops loops;
        if (!qb_strided_loops_of(strided, in, out, &loops)) return false;
        shape.rank = loops.rank;
        strides[0].first = loops.to_first + skip;
        strides[1].first = loops.from_first;
        for (int32_t d = 0; d < loops.rank; d++) {
            shape.dim[d] = loops.dim[d];
            strides[0].stride[d] = loops.to[d];
            strides[1].stride[d] = loops.from[d];
        }
    }
    split_elements(&from, &to, &shape, strides);
    if (!qb_cuda_values_of(&from, &to, &e->in[0], &e->out, &e->divide)) return false;
    if (!qb_cuda_walk_make(&shape, strides, 2, &e->walk)) return false;
    choose_way(e);
    return true;
}

/* ---- COPY, STRIDED_COPY --------------------------------------------------------------------- */

static bool lower(const qb_problem *p, qb_problem *finalized, qb_desc *in, qb_cuda_elementwise *e) {
    if (p->n_in != 1) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    const bool strided = p->kind == QB_KIND_STRIDED_COPY;
    return qb_cuda_copy_plan(in, strided ? &p->strided : NULL, &finalized->out, 0, e);
}

static qb_status copy_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_copy_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_copy, "copy", QB_KIND_COPY, QB_EXACT, qb_cuda_elementwise, lower,
                       copy_launch, NULL);
QB_CUDA_TACTIC_LOWERED(cuda_strided_copy, "strided_copy", QB_KIND_STRIDED_COPY, QB_EXACT,
                       qb_cuda_elementwise, lower, copy_launch, NULL);

/* ---- CONCAT: copies of the parts ------------------------------------------------------------- */

static bool cuda_concat_supports(const qb_problem *p, const bool *constant) {
    qb_problem finalized;
    qb_desc in[QB_MAX_INPUTS];
    qb_cuda_elementwise e;
    qb_cuda_strides whole;
    (void)constant;
    if (p->kind != QB_KIND_CONCAT || p->n_in < 1 || p->n_in > QB_MAX_INPUTS) return false;
    qb_cuda_choose_layouts(p, &finalized, in);
    if (!qb_cuda_strides_of(&finalized.out, &whole)) return false;
    for (int32_t i = 0; i < p->n_in; i++)
        if (!qb_cuda_copy_plan(&in[i], NULL, &finalized.out, 0, &e)) return false;
    return true;
}

static qb_status concat_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx,
        qb_cuda_parts_run(kernel->state, kernel->problem.n_in, args->in, args->out, args->stream),
        kernel->tactic->name);
}

static qb_status cuda_concat_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                    const bool *constant, int threads, qb_kernel **out) {
    qb_problem finalized;
    qb_desc in[QB_MAX_INPUTS];
    qb_cuda_strides whole;
    (void)threads;
    if (!cuda_concat_supports(problem, constant)) return qb_cuda_not_for(cx, tactic);
    qb_cuda_choose_layouts(problem, &finalized, in);
    qb_cuda_strides_of(&finalized.out, &whole);
    qb_cuda_elementwise *parts = qb_alloc(cx, (size_t)problem->n_in, sizeof *parts);
    if (!parts) return QB_STATUS_NOMEM;
    int64_t at = 0;
    for (int32_t i = 0; i < problem->n_in; i++) {
        qb_cuda_copy_plan(&in[i], NULL, &finalized.out, at * whole.stride[problem->axis],
                          &parts[i]);
        at += in[i].shape.dim[problem->axis];
    }
    qb_status status =
        qb_cuda_create(cx, tactic, &finalized, parts, (size_t)problem->n_in * sizeof *parts, out);
    qb_free(parts);
    QB_TRY(status);
    (*out)->launch = concat_launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_concat, "concat", QB_KIND_CONCAT, QB_EXACT);

/* Reductions over any dimensions as a tactic, ROW or NHWC. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/reduce.h"

#define PART 16384 /* elements */
/* Where a thread's elements lie far apart, each is a read by itself: fewer of them, until the parts
 * are too many to be added up one after the other. */
#define WHOLE_ACROSS 256
#define PART_ACROSS 64
#define PARTS_ACROSS 64
#define SHARE 4 /* pieces of a thread, at least, while a result has fewer threads */
#define WARP 32 /* neighbours that read neighbours */
#define WIDTH 8

/* The next power of 2, at most `most`. */
static int32_t power_of_2(uint32_t n, int32_t most) {
    int32_t power = 1;
    while (power < most && (uint32_t)power < n) power *= 2;
    return power;
}

static uint32_t part_across(uint32_t size) {
    uint32_t part = size <= WHOLE_ACROSS ? WHOLE_ACROSS : PART_ACROSS;
    while (part < PART && size / part >= PARTS_ACROSS) part *= 2;
    return part;
}

void qb_cuda_reduce_plan(qb_cuda_reduce *p) {
    const uint32_t size = p->reduced.count;
    const uint32_t whole = p->across ? part_across(size) : PART;
    const uint32_t part = size < whole ? size : whole, pieces = part / (uint32_t)p->width;
    const int32_t most = p->across ? QB_CUDA_REDUCE_THREADS / WARP : QB_CUDA_REDUCE_THREADS;
    p->results = QB_CUDA_REDUCE_THREADS / power_of_2((pieces + SHARE - 1) / SHARE, most);
    p->part = whole;
    p->parts = size > whole ? (size + whole - 1) / whole : 1;
}

size_t qb_cuda_reduce_bytes(const qb_cuda_reduce *p) {
    return p->parts > 1 ? (size_t)p->parts * p->kept.count * 2 * sizeof(float) : 0;
}

/* Dimensions that lie together in data (and result) are one. */
static void add_loop(qb_cuda_reduce_loops *l, int64_t dim, int64_t from, int64_t to) {
    const int32_t last = l->rank - 1;
    if (dim == 1) return;
    const bool joins = last >= 0 && l->from[last] == from * dim && l->to[last] == to * dim;
    const int32_t at = joins ? last : l->rank++;
    l->dim[at] = (uint32_t)(joins ? l->dim[at] * dim : dim);
    l->from[at] = from;
    l->to[at] = to;
    l->count *= (uint32_t)dim;
}

/* The data's dimensions from the widest stride to the narrowest, and those of the result: the same
 * ones, or without those that are reduced. */
static bool lower_loops(const qb_problem *p, const qb_desc *x, qb_cuda_reduce *r) {
    qb_cuda_strides from, to;
    int32_t order[QB_MAX_RANK] = {0}, place[QB_MAX_RANK], kept = 0;
    const int32_t rank = x->shape.rank;
    if (!qb_cuda_strides_of(x, &from) || !qb_cuda_strides_of(&p->out, &to)) return false;
    for (int32_t d = 0; d < rank; d++) {
        const bool reduced = p->axes >> d & 1u;
        place[d] = p->out.shape.rank == rank ? d : reduced ? -1 : kept++;
        int32_t at = d;
        for (; at > 0 && from.stride[order[at - 1]] < from.stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    r->in_first = from.first;
    r->out_first = to.first;
    r->kept.count = r->reduced.count = 1;
    for (int32_t i = 0; i < rank; i++) {
        const int32_t d = order[i];
        if (p->axes >> d & 1u)
            add_loop(&r->reduced, x->shape.dim[d], from.stride[d], 0);
        else
            add_loop(&r->kept, x->shape.dim[d], from.stride[d], to.stride[place[d]]);
    }
    return true;
}

/* Do the reduced dimensions come in pieces? */
static bool is_wide(const qb_cuda_reduce *r) {
    const qb_cuda_reduce_loops *in = &r->reduced;
    const int32_t last = in->rank - 1;
    if (last < 0 || in->from[last] != 1 || in->dim[last] % WIDTH) return false;
    int64_t all = r->in_first;
    for (int32_t d = 0; d < last; d++) all |= in->from[d];
    for (int32_t d = 0; d < r->kept.rank; d++) all |= r->kept.from[d];
    return all % WIDTH == 0;
}

static bool lower(const qb_problem *p, qb_problem *finalized, qb_desc *in, qb_cuda_reduce *r) {
    *r = (qb_cuda_reduce){.kind = (int32_t)p->reduce};
    if (p->kind != QB_KIND_REDUCE || p->n_in != 1 || p->reduce == QB_REDUCE_NONE) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    if (!qb_cuda_is_countable(in) || qb_shape_count(&in->shape) == 0 ||
        !qb_cuda_value_of(in, &r->in) || !qb_cuda_value_of(&finalized->out, &r->out) ||
        !lower_loops(finalized, in, r))
        return false;
    const qb_cuda_reduce_loops *k = &r->kept;
    r->across = k->rank > 0 && k->from[k->rank - 1] == 1;
    r->width = is_wide(r) ? WIDTH : 1;
    qb_cuda_reduce_plan(r);
    return r->parts <= UINT16_MAX;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx,
        qb_cuda_reduce_run(kernel->state, args->in[0], args->out, args->workspace, args->stream),
        kernel->tactic->name);
}

static void set_up(qb_kernel *kernel) {
    kernel->workspace_bytes = qb_cuda_reduce_bytes(kernel->state);
}

QB_CUDA_TACTIC_LOWERED(cuda_reduce, "reduce", QB_KIND_REDUCE, QB_WITHIN_1_LSB, qb_cuda_reduce,
                       lower, launch, set_up);

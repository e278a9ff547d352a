#include "kernels/cuda/common/tactic_common.h"

#include <string.h>

#include "kernels/ref.h"

static bool is_image(const qb_desc *d) { return d->shape.rank >= 3 && d->shape.rank <= 5; }

void qb_cuda_choose_layouts(const qb_problem *from, qb_problem *to, qb_desc *in) {
    qb_layout images = from->out.layout;
    for (int32_t i = 0; i < from->n_in; i++) {
        in[i] = from->in[i];
        if (images == QB_LAYOUT_ANY && is_image(&in[i]) && in[i].dtype != QB_DTYPE_NONE)
            images = in[i].layout;
    }
    if (images == QB_LAYOUT_ANY) images = QB_LAYOUT_NHWC;
    *to = *from;
    to->in = in;
    for (int32_t i = 0; i <= from->n_in; i++) {
        qb_desc *d = i < from->n_in ? &in[i] : &to->out;
        bool weight = i == QB_IN_WEIGHT && i < from->n_in &&
                      (from->kind == QB_KIND_CONV || from->kind == QB_KIND_CONV_POOL ||
                       from->kind == QB_KIND_CONV_TRANSPOSE);
        bool follows = is_image(d) && d->shape.rank == to->out.shape.rank && !weight &&
                       from->kind != QB_KIND_MATMUL;
        if (d->layout == QB_LAYOUT_ANY) d->layout = follows ? images : QB_LAYOUT_ROW;
    }
}

static void destroy(qb_kernel *kernel) { qb_free(kernel->state); }

qb_status qb_cuda_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *finalized,
                         const void *state, size_t bytes, qb_kernel **out) {
    qb_kernel *kernel;
    if (qb_cuda_count() == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no CUDA device on this machine");
    QB_TRY(qb_kernel_alloc(cx, tactic, finalized, &kernel));
    kernel->state = qb_alloc(cx, 1, bytes);
    if (!kernel->state) {
        qb_kernel_free(kernel);
        return QB_STATUS_NOMEM;
    }
    memcpy(kernel->state, state, bytes);
    kernel->destroy = destroy;
    *out = kernel;
    return QB_OK;
}

qb_status qb_cuda_not_for(qb_ctx *cx, const qb_tactic *tactic) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
}

qb_status qb_cuda_set_up(qb_kernel *kernel, void (*setup)(qb_kernel *)) {
    if (setup) setup(kernel);
    return QB_OK;
}

bool qb_cuda_is_countable(const qb_desc *d) {
    const int64_t count = qb_shape_count(&d->shape);
    return qb_shape_known(&d->shape) && count >= 0 && count <= INT32_MAX;
}

bool qb_cuda_is_row(const qb_desc *d) {
    return (d->layout == QB_LAYOUT_ROW || d->layout == QB_LAYOUT_ANY) && d->channel_total == 0 &&
           qb_cuda_is_countable(d);
}

bool qb_cuda_is_channels_last(const qb_desc *d) {
    return d->layout == QB_LAYOUT_NHWC || d->layout == QB_LAYOUT_ANY;
}

void qb_cuda_set_channels_last(qb_kernel *kernel) {
    for (int32_t i = 0; i < kernel->problem.n_in; i++)
        kernel->in[i].layout =
            i == QB_IN_DATA || i == QB_IN_RESIDUAL ? QB_LAYOUT_NHWC : QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_NHWC;
}

qb_status qb_cuda_create_row(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                             const void *state, size_t bytes, qb_kernel **out) {
    QB_TRY(qb_cuda_create(cx, tactic, problem, state, bytes, out));
    for (int32_t i = 0; i < problem->n_in; i++) (*out)->in[i].layout = QB_LAYOUT_ROW;
    (*out)->problem.out.layout = QB_LAYOUT_ROW;
    return QB_OK;
}

static void destroy_both(qb_kernel *kernel) {
    qb_kernel_free(*(qb_kernel **)kernel->state);
    qb_free(kernel->state);
}

qb_status qb_cuda_create_around(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                const qb_tactic *tactic_in, const qb_problem *in,
                                const bool *constant, int threads, void *state, size_t bytes,
                                qb_kernel **out) {
    qb_kernel **inner = state;
    QB_TRY(tactic_in->create(cx, tactic_in, in, constant, threads, inner));
    qb_status status = qb_cuda_create(cx, tactic, problem, state, bytes, out);
    if (status != QB_OK) {
        qb_kernel_free(*inner);
        return status;
    }
    (*out)->problem.variant = (*inner)->problem.variant;
    memcpy((*out)->impl, (*inner)->impl, sizeof(*out)->impl);
    (*out)->packed_bytes = (*inner)->packed_bytes;
    (*out)->packing_id = (*inner)->packing_id;
    (*out)->packed_inputs = (*inner)->packed_inputs;
    (*out)->workspace_bytes = (*inner)->workspace_bytes;
    (*out)->destroy = destroy_both;
    return QB_OK;
}

qb_status qb_cuda_pack_table(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                             void *packed) {
    (void)cx, (void)constants;
    const qb_problem *p = &kernel->problem;
    uint8_t quantized[256];
    for (int i = 0; i < 256; i++) quantized[i] = (uint8_t)i;
    qb_desc in = {.dtype = p->in[0].dtype, .shape = qb_shape_of(1, 256), .q = p->in[0].q};
    qb_problem every = {
        .kind = p->kind, .n_in = 1, .in = &in, .act = p->act, .chain = p->chain, .out = in};
    every.out.dtype = p->out.dtype;
    every.out.q = p->out.q;
    const void *inputs[1] = {quantized};
    (p->kind == QB_KIND_CHAIN ? qb_ref_chain : qb_ref_unary)(&every, inputs, packed);
    return QB_OK;
}

int64_t qb_cuda_reserve(int64_t *end, int64_t bytes) {
    int64_t at = *end;
    *end = (at + bytes + 255) / 256 * 256;
    return at;
}

/* DYNAMIC_QUANTIZE as a tactic. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/nodes.h"

static bool lower(const qb_problem *p, qb_cuda_dynamic_quantize *q) {
    const qb_desc *x = p->in, *y = &p->out;
    *q = (qb_cuda_dynamic_quantize){.width = 1};
    if (p->kind != QB_KIND_DYNAMIC_QUANTIZE || !qb_cuda_is_row(x) || !qb_cuda_is_row(y) ||
        x->q.n > 0 || y->dtype != QB_DTYPE_U8 || y->q.n > 0)
        return false;
    const int64_t n = qb_shape_count(&x->shape);
    if (!qb_cuda_value_of(x, &q->in)) return false;
    q->count = (uint32_t)n;
    if (n % 16 == 0) q->width = 16;
    return true;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    void *scale = args->more ? args->more[0] : NULL, *zero = args->more ? args->more[1] : NULL;
    return qb_cuda_check(cx,
                         qb_cuda_dynamic_quantize_run(kernel->state, args->in[0], args->workspace,
                                                      args->out, scale, zero,
                                                      qb_cuda_multiprocessors(), args->stream),
                         kernel->tactic->name);
}

static void set_up(qb_kernel *kernel) { kernel->workspace_bytes = QB_CUDA_RANGE_BYTES; }

QB_CUDA_TACTIC_LOWERED_ROW(cuda_dynamic_quantize, "dynamic_quantize", QB_KIND_DYNAMIC_QUANTIZE,
                           QB_EXACT, qb_cuda_dynamic_quantize, lower, launch, set_up);

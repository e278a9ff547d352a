/* Descriptions, parts of loops. */
#include "cpu_internal.h"

bool qb_cpu_always(void) { return true; }
bool qb_cpu_lacks_avx2(void) { return !qb_processor_has(QB_TIER_AVX2); }

static void free_state(qb_kernel *kernel) { qb_free(kernel->state); }

qb_status qb_cpu_kernel_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                               size_t bytes, qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    kernel->destroy = free_state;
    QB_TRY_NEW(cx, kernel->state = qb_alloc(cx, 1, bytes));
    *out = QB_MOVE(kernel);
    return QB_OK;
}

qb_status qb_cpu_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, tactic->state_bytes, out));
    tactic->fill(p, threads, *out);
    return QB_OK;
}

qb_status qb_cpu_run(const qb_kernel *kernel, const qb_launch *args, int64_t n, qb_task_fn task) {
    qb_cpu_job job = {kernel->state, args->in[0], args->out};
    qb_workers_run(args->workers, n, task, &job);
    return QB_OK;
}

qb_window qb_cpu_window(const qb_window *window) {
    qb_window w = {.n = QB_SPATIAL};
    for (int32_t d = 0; d < QB_SPATIAL; d++) {
        const int32_t s = d - (QB_SPATIAL - window->n);
        w.kernel[d] = s < 0 ? 1 : window->kernel[s];
        w.stride[d] = s < 0 ? 1 : window->stride[s];
        w.dilation[d] = s < 0 ? 1 : window->dilation[s];
        w.pad_begin[d] = s < 0 ? 0 : window->pad_begin[s];
        w.pad_end[d] = s < 0 ? 0 : window->pad_end[s];
    }
    return w;
}

void qb_cpu_spatial(const qb_shape *shape, int64_t size[QB_SPATIAL]) {
    for (int32_t d = 0; d < QB_SPATIAL; d++) {
        const int32_t s = d - (QB_SPATIAL + 2 - shape->rank);
        size[d] = s < 0 ? 1 : shape->dim[2 + s];
    }
}

int64_t qb_cpu_channels(const qb_desc *desc) {
    return desc->channel_total > 0 ? desc->channel_total : desc->shape.dim[1];
}

void qb_cpu_pixels_of(const qb_desc *desc, int64_t *first, int64_t *step) {
    const int64_t size = (int64_t)qb_dtype_size(desc->dtype);
    *first = desc->channel_offset * size;
    *step = qb_cpu_channels(desc) * size;
}

bool qb_cpu_is_nhwc(const qb_desc *desc) {
    return desc->layout == QB_LAYOUT_NHWC || desc->layout == QB_LAYOUT_ANY;
}

int32_t qb_cpu_dimension(qb_layout layout, int32_t rank, int32_t d) {
    if (layout != QB_LAYOUT_NHWC || d == 0) return d;
    return d == rank - 1 ? 1 : d + 1;
}

bool qb_cpu_is_rows(const qb_desc *desc) {
    return desc->layout == QB_LAYOUT_ROW && desc->channel_total == 0;
}

bool qb_cpu_is_filled_rows(const qb_desc *desc) {
    return qb_cpu_is_rows(desc) && qb_shape_count(&desc->shape) > 0;
}

bool qb_cpu_is_quantized(const qb_desc *desc) {
    return (desc->dtype == QB_DTYPE_U8 || desc->dtype == QB_DTYPE_S8) && desc->q.n == 1;
}

bool qb_cpu_is_f32(const qb_desc *desc) { return desc->dtype == QB_DTYPE_F32 && desc->q.n == 0; }

bool qb_cpu_is_bf16(const qb_desc *desc) { return desc->dtype == QB_DTYPE_BF16 && desc->q.n == 0; }

int32_t qb_cpu_zero(const qb_desc *desc) {
    return desc->q.n > 0 && desc->q.zero ? desc->q.zero[0] : 0;
}

bool qb_cpu_is_weight(const qb_desc *desc, int32_t axis, bool wide) {
    const int32_t middle = desc->dtype == QB_DTYPE_U8 ? 128 : 0;
    if ((desc->dtype != QB_DTYPE_S8 && desc->dtype != QB_DTYPE_U8) || desc->q.n < 1 ||
        (desc->q.n > 1 && desc->q.axis != axis))
        return false;
    for (int32_t i = 0; !wide && i < desc->q.n; i++)
        if ((desc->q.zero ? desc->q.zero[i] : 0) != middle) return false;
    return true;
}

int32_t qb_cpu_weight_at(const qb_desc *desc, const void *data, int64_t at, int64_t output) {
    const int32_t zero = desc->q.zero ? desc->q.zero[desc->q.n > 1 ? output : 0] : 0;
    return (desc->dtype == QB_DTYPE_U8 ? (int32_t)((const uint8_t *)data)[at]
                                       : (int32_t)((const int8_t *)data)[at]) -
           zero;
}

int64_t qb_parts(int64_t n, int64_t wanted, int64_t most, int64_t at_once, int threads) {
    enum { LOOKS_MAX = 4096 }; /* of so many parts one more or less makes no difference */
    if (wanted <= 1 && n <= most) return 1;
    int64_t least = qb_max64(qb_max64(1, wanted / 2), qb_ceil64(n, most));
    int64_t parts = qb_ceil64(qb_max64(wanted, least), threads) * threads, best = parts;
    int64_t fewest = INT64_MAX;
    least = qb_max64(least, parts - LOOKS_MAX * (int64_t)threads);
    for (; parts >= least; parts -= threads) {
        int64_t groups = parts * qb_ceil64(qb_ceil64(n, parts), at_once);
        if (groups >= fewest) continue;
        fewest = groups;
        best = parts;
    }
    return qb_min64(best, n);
}

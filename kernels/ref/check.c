/* Which problems the reference runs. */
#include "kernels/heads.h"
#include "ref_internal.h"

#define TEXT_MAX 128

static bool is_quantized_type(qb_dtype dtype) {
    return dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8 || dtype == QB_DTYPE_U16 ||
           dtype == QB_DTYPE_S16 || dtype == QB_DTYPE_S32;
}

static bool is_row(const qb_desc *desc) {
    return desc->layout == QB_LAYOUT_ROW || desc->layout == QB_LAYOUT_ANY;
}

static qb_status check_slice(qb_ctx *cx, const char *what, const qb_desc *desc) {
    if (desc->channel_total <= 0 && desc->channel_offset == 0) return QB_OK;
    if (desc->shape.rank < 2 || desc->channel_offset < 0 ||
        desc->channel_offset > desc->channel_total - desc->shape.dim[1])
        return qb_fail(cx, QB_STATUS_INVALID, "%s: no channel slice at %lld of %lld", what,
                       (long long)desc->channel_offset, (long long)desc->channel_total);
    return QB_OK;
}

/* A row-major tensor that the kernels read or write as dequantized values; slices only when
 * `slices`. */
static qb_status check_float(qb_ctx *cx, const char *what, const qb_desc *desc, bool slices) {
    if (!qb_shape_known(&desc->shape))
        return qb_fail(cx, QB_STATUS_INVALID, "%s: the shape is not known", what);
    if (!is_row(desc))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: expected layout row, got %s", what,
                       qb_layout_text(desc->layout));
    bool is_float = desc->dtype == QB_DTYPE_F32 || desc->dtype == QB_DTYPE_F16;
    if (!(is_float && desc->q.n == 0) && !(is_quantized_type(desc->dtype) && desc->q.n == 1))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected f32, f16 or integers with one scale, got %s with %d scales",
                       what, qb_dtype_text(desc->dtype), desc->q.n);
    if (desc->channel_total > 0 && !slices)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: channel slices are not supported", what);
    return check_slice(cx, what, desc);
}

static qb_status expect_size(qb_ctx *cx, const char *what, int64_t expected, int64_t got) {
    if (expected == got) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "%s: expected %lld, got %lld", what, (long long)expected,
                   (long long)got);
}

static qb_status expect_shape(qb_ctx *cx, const char *what, const qb_shape *expected,
                              const qb_shape *got) {
    if (qb_shape_equal(expected, got)) return QB_OK;
    char a[TEXT_MAX], b[TEXT_MAX];
    return qb_fail(cx, QB_STATUS_INVALID, "%s: expected shape %s, got %s", what,
                   qb_shape_text(expected, a, sizeof a), qb_shape_text(got, b, sizeof b));
}

/* Data, weight, bias and residual of the anchors with a weight; `channels` outputs. */
static qb_status check_operands(qb_ctx *cx, const qb_problem *p, int64_t channels,
                                int64_t weight_scales) {
    const qb_desc *weight = &p->in[QB_IN_WEIGHT];
    bool slices = p->kind != QB_KIND_MATMUL;
    QB_TRY(check_float(cx, "data", &p->in[QB_IN_DATA], slices));
    QB_TRY(check_float(cx, "output", &p->out, slices));
    if (!is_row(weight) || !qb_shape_known(&weight->shape))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "weight: expected a known shape in layout row");
    bool integer = qb_ref_is_integer(p);
    if (!integer && (p->in[QB_IN_DATA].dtype != QB_DTYPE_F32 || weight->dtype != QB_DTYPE_F32))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "expected data and weight both f32 or both quantized to 8 bits, got %s and "
                       "%s",
                       qb_dtype_text(p->in[QB_IN_DATA].dtype), qb_dtype_text(weight->dtype));
    if (integer && weight->q.n != 1)
        QB_TRY(expect_size(cx, "weight scales", weight_scales, weight->q.n));
    if (qb_problem_has(p, QB_IN_BIAS)) {
        const qb_desc *bias = &p->in[QB_IN_BIAS];
        if (bias->dtype != QB_DTYPE_F32 && !(integer && bias->dtype == QB_DTYPE_S32))
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "bias: expected f32%s, got %s",
                           integer ? " or s32" : "", qb_dtype_text(bias->dtype));
        QB_TRY(expect_size(cx, "bias", channels, qb_shape_count(&bias->shape)));
    }
    if (!qb_problem_has(p, QB_IN_RESIDUAL)) return QB_OK;
    QB_TRY(check_float(cx, "residual", &p->in[QB_IN_RESIDUAL], slices));
    return expect_shape(cx, "residual", &p->out.shape, &p->in[QB_IN_RESIDUAL].shape);
}

static qb_status check_window(qb_ctx *cx, const qb_problem *p) {
    const qb_shape *x = &p->in[0].shape;
    if (x->rank < 3 || x->rank > 5 || p->window.n != x->rank - 2)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected rank %d, got %d", p->window.n + 2,
                       x->rank);
    QB_TRY(expect_size(cx, "output rank", x->rank, p->out.shape.rank));
    QB_TRY(expect_size(cx, "output batch", x->dim[0], p->out.shape.dim[0]));
    for (int32_t d = 0; d < p->window.n; d++)
        if (p->window.kernel[d] < 1 || p->window.stride[d] < 1 || p->window.dilation[d] < 1)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "window dimension %d: expected sizes of at least 1", d);
    return QB_OK;
}

static qb_status check_conv(qb_ctx *cx, const qb_problem *p) {
    bool transpose = p->kind == QB_KIND_CONV_TRANSPOSE;
    const qb_shape *x = &p->in[QB_IN_DATA].shape, *w = &p->in[QB_IN_WEIGHT].shape;
    const qb_shape *out = &p->out.shape;
    QB_TRY(check_window(cx, p));
    QB_TRY(expect_size(cx, "weight rank", x->rank, w->rank));
    for (int32_t d = 0; d < p->window.n; d++)
        QB_TRY(expect_size(cx, "kernel size", w->dim[2 + d], p->window.kernel[d]));
    if (p->group < 1 || x->dim[1] % p->group || out->dim[1] % p->group)
        return qb_fail(cx, QB_STATUS_INVALID, "group %lld does not divide %lld and %lld channels",
                       (long long)p->group, (long long)x->dim[1], (long long)out->dim[1]);
    QB_TRY(expect_size(cx, "weight dimension 0", transpose ? x->dim[1] : out->dim[1], w->dim[0]));
    QB_TRY(
        expect_size(cx, "weight dimension 1", (transpose ? out : x)->dim[1] / p->group, w->dim[1]));
    return check_operands(cx, p, out->dim[1], w->dim[transpose ? 1 : 0]);
}

static qb_status check_pool(qb_ctx *cx, const qb_problem *p) {
    QB_TRY(check_window(cx, p));
    QB_TRY(expect_size(cx, "output channels", p->in[0].shape.dim[1], p->out.shape.dim[1]));
    QB_TRY(check_float(cx, "input", &p->in[0], true));
    return check_float(cx, "output", &p->out, true);
}

static qb_status check_conv_pool(qb_ctx *cx, const qb_problem *p) {
    qb_problem conv, pool;
    qb_desc between;
    QB_TRY(check_window(cx, p)); /* so that there is a size between them */
    qb_problem_parts(p, &between, &conv, &pool);
    if (qb_problem_has(p, QB_IN_RESIDUAL))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "a residual before the pool");
    QB_TRY(check_conv(cx, &conv));
    return check_pool(cx, &pool);
}

static qb_status check_matmul(qb_ctx *cx, const qb_problem *p) {
    const qb_shape *a = &p->in[QB_IN_DATA].shape, *b = &p->in[QB_IN_WEIGHT].shape;
    const qb_shape *out = &p->out.shape;
    if (a->rank < 2 || b->rank < 2 || out->rank < 2)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected ranks of at least 2, got %d and %d",
                       a->rank, b->rank);
    QB_TRY(expect_size(cx, "output rank", a->rank > b->rank ? a->rank : b->rank, out->rank));
    int64_t m = a->dim[a->rank - (p->transpose_a ? 1 : 2)];
    int64_t k = a->dim[a->rank - (p->transpose_a ? 2 : 1)];
    int64_t n = b->dim[b->rank - (p->transpose_b ? 2 : 1)];
    QB_TRY(expect_size(cx, "inner dimension", k, b->dim[b->rank - (p->transpose_b ? 1 : 2)]));
    QB_TRY(expect_size(cx, "output rows", m, out->dim[out->rank - 2]));
    QB_TRY(expect_size(cx, "output columns", n, out->dim[out->rank - 1]));
    for (int32_t d = 0; d < out->rank - 2; d++) {
        int32_t da = d - (out->rank - a->rank), db = d - (out->rank - b->rank);
        int64_t size_a = da < 0 ? 1 : a->dim[da], size_b = db < 0 ? 1 : b->dim[db];
        int64_t expected = size_a == 1 ? size_b : size_a;
        if (size_b != 1) QB_TRY(expect_size(cx, "leading dimension", expected, size_b));
        QB_TRY(expect_size(cx, "leading dimension of the output", expected, out->dim[d]));
    }
    return check_operands(cx, p, n, n);
}

static qb_status check_binary(qb_ctx *cx, const qb_problem *p) {
    for (int32_t i = 0; i < 2; i++) {
        const qb_shape *x = &p->in[i].shape, *out = &p->out.shape;
        QB_TRY(check_float(cx, i ? "input 1" : "input 0", &p->in[i], false));
        bool fits = x->rank <= out->rank;
        for (int32_t d = 0; d < x->rank && fits; d++) {
            int64_t size = out->dim[d + out->rank - x->rank];
            fits = x->dim[d] == size || x->dim[d] == 1;
        }
        if (!fits) return expect_shape(cx, "broadcast input", out, x);
    }
    return check_float(cx, "output", &p->out, false);
}

static qb_status check_concat(qb_ctx *cx, const qb_problem *p) {
    const qb_shape *out = &p->out.shape;
    int64_t sum = 0;
    if (p->axis < 0 || p->axis >= out->rank)
        return qb_fail(cx, QB_STATUS_INVALID, "axis: expected 0 to %d, got %d", out->rank - 1,
                       p->axis);
    for (int32_t i = 0; i < p->n_in; i++) {
        const qb_desc *x = &p->in[i];
        if (!is_row(x) || x->channel_total > 0 || x->q.n > 1)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "input %d: expected a whole tensor in layout row with one scale", i);
        QB_TRY(expect_size(cx, "rank of an input", out->rank, x->shape.rank));
        for (int32_t d = 0; d < out->rank; d++)
            if (d != p->axis) QB_TRY(expect_size(cx, "dimension", out->dim[d], x->shape.dim[d]));
        sum += x->shape.dim[p->axis];
    }
    if (!is_row(&p->out) || p->out.channel_total > 0 || p->out.q.n > 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "output: expected a whole tensor in layout row with one scale");
    return expect_size(cx, "sum of sizes", out->dim[p->axis], sum);
}

static qb_status check_copy(qb_ctx *cx, const qb_problem *p) {
    const qb_desc *side[2] = {&p->in[0], &p->out};
    QB_TRY(expect_shape(cx, "output", &p->in[0].shape, &p->out.shape));
    for (int32_t i = 0; i < 2; i++) {
        const qb_desc *desc = side[i];
        const char *what = i ? "output" : "input";
        if (!is_row(desc) && (desc->shape.rank < 3 || desc->shape.rank > 5))
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: layout %s has rank 3 to 5, got %d", what,
                           qb_layout_text(desc->layout), desc->shape.rank);
        if (desc->q.n > 0 && !is_quantized_type(desc->dtype))
            return qb_fail(cx, QB_STATUS_INVALID, "%s: quantized values of type %s", what,
                           qb_dtype_text(desc->dtype));
        if (desc->q.n > 1) {
            if (desc->q.axis < 0 || desc->q.axis >= desc->shape.rank)
                return qb_fail(cx, QB_STATUS_INVALID, "%s: quantized along axis %d of %d", what,
                               desc->q.axis, desc->shape.rank);
            QB_TRY(expect_size(cx, "scales", desc->shape.dim[desc->q.axis], desc->q.n));
        }
        QB_TRY(check_slice(cx, what, desc));
    }
    return QB_OK;
}

static qb_status check_attention(qb_ctx *cx, const qb_problem *p) {
    qb_attention a;
    int64_t mask[4];
    if (!qb_attention_of(p, &a))
        return qb_fail(cx, QB_STATUS_INVALID, "heads of queries, keys, values and result differ");
    if (qb_problem_has(p, 3) && !qb_attention_mask(p, &a, mask))
        return qb_fail(cx, QB_STATUS_INVALID, "the mask does not broadcast to the scores");
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_problem_has(p, i)) QB_TRY(check_float(cx, "input", &p->in[i], false));
    return check_float(cx, "output", &p->out, false);
}

qb_status qb_ref_check(qb_ctx *cx, const qb_problem *p) {
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_problem_has(p, i) && !qb_shape_known(&p->in[i].shape))
            return qb_fail(cx, QB_STATUS_INVALID, "input %d: the shape is not known", i);
    if (!qb_shape_known(&p->out.shape))
        return qb_fail(cx, QB_STATUS_INVALID, "output: the shape is not known");
    switch (p->kind) {
    case QB_KIND_CONV:
    case QB_KIND_CONV_TRANSPOSE: return check_conv(cx, p);
    case QB_KIND_MATMUL: return check_matmul(cx, p);
    case QB_KIND_POOL: return check_pool(cx, p);
    case QB_KIND_CONV_POOL: return check_conv_pool(cx, p);
    case QB_KIND_BINARY: return check_binary(cx, p);
    case QB_KIND_SOFTMAX:
        if (p->axis < 0 || p->axis >= p->in[0].shape.rank)
            return qb_fail(cx, QB_STATUS_INVALID, "axis: expected 0 to %d, got %d",
                           p->in[0].shape.rank - 1, p->axis);
        /* fall through */
    case QB_KIND_UNARY:
        QB_TRY(check_float(cx, "input", &p->in[0], p->kind == QB_KIND_UNARY));
        QB_TRY(check_float(cx, "output", &p->out, p->kind == QB_KIND_UNARY));
        return expect_shape(cx, "output", &p->in[0].shape, &p->out.shape);
    case QB_KIND_ATTENTION: return check_attention(cx, p);
    case QB_KIND_CONCAT: return check_concat(cx, p);
    case QB_KIND_COPY: return check_copy(cx, p);
    default: break; /* eval runs it */
    }
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no reference kernel for %s", qb_kind_text(p->kind));
}

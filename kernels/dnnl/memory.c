/* Tensors in oneDNN's terms. */
#include "dnnl_internal.h"

static const dnnl_format_tag_t row_tags[] = {
    dnnl_format_tag_undef, dnnl_a,       dnnl_ab,      dnnl_abc, dnnl_abcd, dnnl_abcde,
    dnnl_abcdef,           dnnl_abcdefg, dnnl_abcdefgh};
_Static_assert(sizeof row_tags / sizeof *row_tags == QB_MAX_RANK + 1, "one tag for each rank");

dnnl_data_type_t qb_dnnl_type(qb_dtype dtype) {
    switch (dtype) {
    case QB_DTYPE_F32: return dnnl_f32;
    case QB_DTYPE_BF16: return dnnl_bf16;
    case QB_DTYPE_U8: return dnnl_u8;
    case QB_DTYPE_S8: return dnnl_s8;
    case QB_DTYPE_S32: return dnnl_s32;
    default: return dnnl_data_type_undef;
    }
}

static dnnl_format_tag_t tag_of(qb_layout layout, int rank) {
    static const dnnl_format_tag_t images[][3] = {
        [QB_LAYOUT_NHWC] = {dnnl_acb, dnnl_acdb, dnnl_acdeb},
        [QB_LAYOUT_C8] = {dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b},
        [QB_LAYOUT_C16] = {dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b}};
    if (layout == QB_LAYOUT_ANY) return dnnl_format_tag_any;
    if (layout == QB_LAYOUT_ROW)
        return rank >= 0 && rank <= QB_MAX_RANK ? row_tags[rank] : dnnl_format_tag_undef;
    return rank >= 3 && rank <= 5 ? images[layout][rank - 3] : dnnl_format_tag_undef;
}

qb_status qb_dnnl_check_size(qb_ctx *cx, int rank, const int64_t *dims) {
    for (int d = 0; d < rank; d++)
        if (dims[d] > INT32_MAX)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "oneDNN has no dimension of %lld",
                           (long long)dims[d]);
    return QB_OK;
}

qb_status qb_dnnl_row(qb_ctx *cx, dnnl_data_type_t type, int rank, const int64_t *dims,
                      dnnl_memory_desc_t *md) {
    QB_TRY(qb_dnnl_check_size(cx, rank, dims));
    return qb_dnnl_check(cx, dnnl_memory_desc_init_by_tag(md, rank, dims, type, row_tags[rank]),
                         "describing a row-major tensor");
}

qb_status qb_dnnl_desc(qb_ctx *cx, const qb_desc *desc, dnnl_memory_desc_t *md) {
    dnnl_format_tag_t tag = tag_of(desc->layout, desc->shape.rank);
    dnnl_data_type_t type = qb_dnnl_type(desc->dtype);
    bool slice = desc->channel_total > 0 && desc->channel_total != desc->shape.dim[1];
    if (tag == dnnl_format_tag_undef || type == dnnl_data_type_undef ||
        (slice && tag == dnnl_format_tag_any))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no oneDNN form of %s, rank %d, %s%s",
                       qb_dtype_text(desc->dtype), (int)desc->shape.rank,
                       qb_layout_text(desc->layout), slice ? ", slice" : "");
    QB_TRY(qb_dnnl_check_size(cx, desc->shape.rank, desc->shape.dim));
    dnnl_dims_t dims = {0}, from = {0};
    for (int32_t d = 0; d < desc->shape.rank; d++) dims[d] = desc->shape.dim[d];
    if (!slice)
        return qb_dnnl_check(cx,
                             dnnl_memory_desc_init_by_tag(md, desc->shape.rank, dims, type, tag),
                             "describing a tensor");
    dnnl_memory_desc_t whole;
    dims[1] = desc->channel_total;
    QB_TRY(qb_dnnl_check(cx,
                         dnnl_memory_desc_init_by_tag(&whole, desc->shape.rank, dims, type, tag),
                         "describing a tensor"));
    dims[1] = desc->shape.dim[1];
    from[1] = desc->channel_offset;
    return qb_dnnl_check(cx, dnnl_memory_desc_init_submemory(md, &whole, dims, from),
                         "describing a channel slice");
}

bool qb_dnnl_finalize(qb_desc *desc, const dnnl_memory_desc_t *md) {
    if (desc->layout != QB_LAYOUT_ANY) return true;
    static const qb_layout layouts[] = {QB_LAYOUT_NHWC, QB_LAYOUT_ROW, QB_LAYOUT_C16, QB_LAYOUT_C8};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        dnnl_memory_desc_t ours;
        dnnl_format_tag_t tag = tag_of(layouts[i], md->ndims);
        if (tag == dnnl_format_tag_undef ||
            dnnl_memory_desc_init_by_tag(&ours, md->ndims, md->dims, md->data_type, tag) !=
                dnnl_success ||
            !dnnl_memory_desc_equal(&ours, md))
            continue;
        desc->layout = layouts[i];
        return true;
    }
    return false;
}

bool qb_dnnl_window_of(const qb_window *window, const qb_shape *big, const qb_shape *small,
                       qb_dnnl_window *out) {
    for (int32_t d = 0; d < window->n; d++) {
        int64_t extent = (window->kernel[d] - 1) * window->dilation[d] + 1;
        int64_t reach = (small->dim[2 + d] - 1) * window->stride[d] + extent;
        int64_t sum = big->dim[2 + d] + window->pad_begin[d] + window->pad_end[d] - extent;
        out->kernel[d] = window->kernel[d];
        out->stride[d] = window->stride[d];
        out->dilation[d] = window->dilation[d] - 1;
        out->pad_begin[d] = window->pad_begin[d];
        /* The declared padding where it gives this size, else what the last window reaches. */
        bool declared = sum >= 0 && sum / window->stride[d] + 1 == small->dim[2 + d];
        out->pad_end[d] =
            declared ? window->pad_end[d] : reach - big->dim[2 + d] - window->pad_begin[d];
        if (small->dim[2 + d] < 1 || window->pad_begin[d] < 0) return false;
    }
    return true;
}

bool qb_dnnl_is_f32(const qb_desc *desc) { return desc->dtype == QB_DTYPE_F32 && desc->q.n == 0; }

bool qb_dnnl_is_bf16(const qb_desc *desc) { return desc->dtype == QB_DTYPE_BF16 && desc->q.n == 0; }

bool qb_dnnl_is_quantized(const qb_desc *desc) {
    return (desc->dtype == QB_DTYPE_U8 || desc->dtype == QB_DTYPE_S8) && desc->q.n == 1;
}

int32_t qb_dnnl_zero(const qb_desc *desc) {
    return desc->q.n > 0 && desc->q.zero ? desc->q.zero[0] : 0;
}

bool qb_dnnl_same_params(const qb_desc *a, const qb_desc *b) {
    return a->dtype == b->dtype && a->q.scale[0] == b->q.scale[0] &&
           qb_dnnl_zero(a) == qb_dnnl_zero(b);
}

bool qb_dnnl_is_empty(const qb_problem *p) {
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_problem_has(p, i) &&
            (!qb_shape_known(&p->in[i].shape) || qb_shape_count(&p->in[i].shape) <= 0))
            return true;
    return !qb_shape_known(&p->out.shape) || qb_shape_count(&p->out.shape) <= 0;
}

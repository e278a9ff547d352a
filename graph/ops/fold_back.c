/* The ways back to an image: Col2Im adds up blocks, MaxUnpool puts maxima where they came from. */
#include "graph/rewrite_internal.h"
#include "ops_internal.h"

typedef struct fold_attrs {
    qb_ints kernel_shape, strides, pads, dilations;
} fold_attrs;
QB_ATTRS(col2im_table, QB_A_INTS(fold_attrs, dilations, "dilations", 1, QB_ATTR_BIG),
         QB_A_INTS(fold_attrs, pads, "pads", 0, QB_ATTR_BIG),
         QB_A_INTS(fold_attrs, strides, "strides", 1, QB_ATTR_BIG));
QB_ATTRS(unpool_table, QB_A_INTS(fold_attrs, kernel_shape, "kernel_shape", 1, QB_ATTR_BIG),
         QB_A_INTS(fold_attrs, pads, "pads", 0, QB_ATTR_BIG),
         QB_A_INTS(fold_attrs, strides, "strides", 1, QB_ATTR_BIG));

static int64_t or_else(const qb_ints *list, int32_t i, int64_t otherwise) {
    return i < list->n ? list->v[i] : otherwise;
}

/* --- Col2Im ---------------------------------------------------------------------------------- */

#define SPATIAL_MAX (QB_MAX_RANK - 2)

/* The image, its blocks and how many of them lie along each dimension. */
typedef struct blocks {
    int32_t n;
    int64_t image[SPATIAL_MAX], block[SPATIAL_MAX], count[SPATIAL_MAX];
    int64_t block_size, n_blocks;
} blocks;

static qb_status blocks_of(qb_ctx *cx, const fold_attrs *attrs, blocks *b) {
    QB_TRY(qb_attr_list_check(cx, "dilations", &attrs->dilations, b->n, 1));
    QB_TRY(qb_attr_list_check(cx, "strides", &attrs->strides, b->n, 1));
    QB_TRY(qb_attr_list_check(cx, "pads", &attrs->pads, 2 * b->n, 0));
    b->block_size = b->n_blocks = 1;
    for (int32_t d = 0; d < b->n; d++) {
        if (b->image[d] < 0 || b->image[d] > QB_ATTR_BIG || b->block[d] < 1 ||
            b->block[d] > QB_ATTR_BIG)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "dimension %d: expected an image and a block up to %d, got %lld and "
                           "%lld",
                           d, QB_ATTR_BIG, (long long)b->image[d], (long long)b->block[d]);
        const int64_t pads = or_else(&attrs->pads, d, 0) + or_else(&attrs->pads, b->n + d, 0);
        const int64_t extent = or_else(&attrs->dilations, d, 1) * (b->block[d] - 1) + 1;
        if (b->image[d] + pads < extent)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "dimension %d: size %lld with padding %lld is smaller than the block's "
                           "extent %lld",
                           d, (long long)b->image[d], (long long)pads, (long long)extent);
        b->count[d] = (b->image[d] + pads - extent) / or_else(&attrs->strides, d, 1) + 1;
        QB_TRY(qb_dim_mul(cx, b->block_size, b->block[d], &b->block_size));
        QB_TRY(qb_dim_mul(cx, b->n_blocks, b->count[d], &b->n_blocks));
    }
    return QB_OK;
}

static qb_status check_columns(qb_ctx *cx, const qb_shape *x, const blocks *b) {
    if (x->dim[1] >= 0 && x->dim[1] % b->block_size)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "%lld rows are not divisible by the block's size %lld", (long long)x->dim[1],
                       (long long)b->block_size);
    if (x->dim[2] >= 0 && x->dim[2] != b->n_blocks)
        return qb_fail(cx, QB_STATUS_INVALID, "columns: expected %lld blocks, got %lld",
                       (long long)b->n_blocks, (long long)x->dim[2]);
    return QB_OK;
}

static qb_status infer_col2im(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    blocks b;
    int32_t n_block;
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 3));
    QB_TRY(qb_infer_ints(cx, args, 1, b.image, SPATIAL_MAX, &b.n));
    QB_TRY(qb_infer_ints(cx, args, 2, b.block, SPATIAL_MAX, &n_block));
    if (b.n >= 0 && n_block >= 0 && (b.n != n_block || b.n < 1))
        return qb_fail(cx, QB_STATUS_INVALID, "block_shape: expected %d sizes, got %d", b.n,
                       n_block);
    const int64_t known = b.n >= 0 ? b.n : qb_infer_length(args, 1);
    qb_shape out = qb_shape_unknown(known >= 0 && known <= SPATIAL_MAX ? 2 + (int32_t)known : -1);
    if (out.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    if (x->shape.rank == 3) out.dim[0] = x->shape.dim[0];
    for (int32_t d = 0; d < b.n; d++) {
        if (b.image[d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "image_shape: expected at least 0, got %lld",
                           (long long)b.image[d]);
        out.dim[2 + d] = b.image[d];
    }
    if (b.n >= 0 && n_block >= 0) {
        QB_TRY(blocks_of(cx, qb_infer_at(args)->attrs, &b));
        if (x->shape.rank == 3) {
            QB_TRY(check_columns(cx, &x->shape, &b));
            if (x->shape.dim[1] >= 0) out.dim[1] = x->shape.dim[1] / b.block_size;
        }
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* Where element `inside` of block `block` lies in the image; -1: outside. */
static int64_t place_of(const fold_attrs *attrs, const blocks *b, int64_t inside, int64_t block) {
    int64_t at = 0, stride = 1;
    for (int32_t d = b->n - 1; d >= 0; d--) {
        const int64_t x = block % b->count[d] * or_else(&attrs->strides, d, 1) -
                          or_else(&attrs->pads, d, 0) +
                          inside % b->block[d] * or_else(&attrs->dilations, d, 1);
        if (x < 0 || x >= b->image[d]) return -1;
        at += x * stride;
        stride *= b->image[d];
        block /= b->count[d];
        inside /= b->block[d];
    }
    return at;
}

static qb_status eval_col2im(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const fold_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_col2im);
    const qb_shape *y = &out[0].desc.shape;
    blocks b;
    int64_t pixels = 1;
    QB_TRY(qb_eval_ints(cx, &in[1], b.image, SPATIAL_MAX, &b.n));
    QB_TRY(qb_eval_ints(cx, &in[2], b.block, SPATIAL_MAX, &b.n));
    QB_TRY(blocks_of(cx, attrs, &b));
    for (int32_t d = 0; d < b.n; d++) pixels *= b.image[d];
    QB_RELEASED(qb_temp_give_at) double *sum = qb_temp_take(cx, (size_t)pixels, sizeof *sum);
    if (!sum) return cx->code;
    const float *from = in[0].data;
    float *to = out[0].data;
    for (int64_t plane = 0; plane < y->dim[0] * y->dim[1]; plane++) {
        memset(sum, 0, (size_t)pixels * sizeof *sum);
        for (int64_t i = 0; i < b.block_size * b.n_blocks; i++, from++) {
            const int64_t at = place_of(attrs, &b, i / b.n_blocks, i % b.n_blocks);
            if (at >= 0) sum[at] += (double)*from;
        }
        for (int64_t i = 0; i < pixels; i++) *to++ = (float)sum[i];
    }
    return QB_OK;
}

QB_OP_SIMPLE(col2im, "Col2Im", 18, 3, 3, 1, sizeof(fold_attrs), col2im_table, FLOAT, infer_col2im,
             eval_col2im, .bound = qb_bound_none, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_ITEMWISE, .kernel = {QB_KIND_FOLD});

bool qb_node_fold(const qb_graph *graph, const qb_node *node, qb_window *out) {
    const fold_attrs *attrs = node->attrs;
    int32_t n;
    *out = (qb_window){0};
    if (!qb_value_int_list(graph, node->in[2], out->kernel, 3, &n)) return false;
    out->n = n;
    for (int32_t d = 0; d < n; d++) {
        out->stride[d] = or_else(&attrs->strides, d, 1);
        out->dilation[d] = or_else(&attrs->dilations, d, 1);
        out->pad_begin[d] = or_else(&attrs->pads, d, 0);
        out->pad_end[d] = or_else(&attrs->pads, n + d, 0);
    }
    return true;
}

/* --- MaxUnpool ------------------------------------------------------------------------------- */

/* The shape that MaxPool had before it, as far as the window tells. */
static qb_status unpooled(qb_ctx *cx, const fold_attrs *attrs, const qb_shape *x, qb_shape *out) {
    const int32_t n = x->rank - 2;
    *out = *x;
    if (attrs->kernel_shape.n == 0)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute kernel_shape is required");
    QB_TRY(qb_attr_list_check(cx, "kernel_shape", &attrs->kernel_shape, n, 1));
    QB_TRY(qb_attr_list_check(cx, "strides", &attrs->strides, n, 1));
    QB_TRY(qb_attr_list_check(cx, "pads", &attrs->pads, 2 * n, 0));
    for (int32_t d = 0; d < n; d++) {
        const int64_t size = x->dim[2 + d];
        if (size < 0) {
            out->dim[2 + d] = QB_DIM_UNKNOWN;
            continue;
        }
        if (size > QB_ATTR_BIG)
            return qb_fail(cx, QB_STATUS_INVALID, "spatial dimension %d: %lld is too large", d,
                           (long long)size);
        out->dim[2 + d] = (size - 1) * or_else(&attrs->strides, d, 1) + attrs->kernel_shape.v[d] -
                          or_else(&attrs->pads, d, 0) - or_else(&attrs->pads, n + d, 0);
        if (size == 0 || out->dim[2 + d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "spatial dimension %d: size %lld cannot be unpooled", d,
                           (long long)size);
    }
    return QB_OK;
}

static qb_status infer_unpool(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0), *index = qb_infer_in(args, 1);
    const qb_shape *shape = &x->shape;
    qb_shape out = {.rank = -1}, inner;
    int64_t given[QB_MAX_RANK];
    int32_t n;
    if (shape->rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 5));
    if (qb_shape_known(shape) && qb_shape_known(&index->shape) &&
        !qb_shape_equal(shape, &index->shape))
        return qb_fail(cx, QB_STATUS_INVALID, "I: expected the shape of X");
    QB_TRY(unpooled(cx, qb_infer_at(args)->attrs, shape, &inner));
    out = inner;
    if (qb_infer_in(args, 2)) {
        QB_TRY(qb_infer_ints(cx, args, 2, given, QB_MAX_RANK, &n));
        if (n >= 0 && n != shape->rank)
            return qb_fail(cx, QB_STATUS_INVALID, "output_shape: expected %d sizes, got %d",
                           shape->rank, n);
        out = qb_shape_unknown(shape->rank);
        for (int32_t d = 0; d < n; d++) {
            if (given[d] < 0 || (inner.dim[d] >= 0 && given[d] < inner.dim[d]))
                return qb_fail(cx, QB_STATUS_INVALID,
                               "output_shape: dimension %d: expected at least %lld, got %lld", d,
                               (long long)inner.dim[d], (long long)given[d]);
            out.dim[d] = given[d];
        }
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* The indices count in the unpooled shape; a larger output has that in its first corner. */
static qb_status eval_unpool(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_desc *y = &out[0].desc;
    const size_t size = qb_dtype_size(y->dtype);
    qb_shape inner;
    int64_t stride[QB_MAX_RANK];
    QB_TRY(unpooled(cx, node->attrs, &in[0].desc.shape, &inner));
    qb_strides_of(&y->shape, stride);
    memset(out[0].data, 0, qb_desc_bytes(y));
    const int64_t n = qb_shape_count(&inner);
    for (int64_t i = 0; i < qb_shape_count(&in[0].desc.shape); i++) {
        int64_t rest, at = 0;
        QB_TRY_WRAP(cx, qb_eval_index(cx, &in[1], i, n, &rest), "I");
        for (int32_t d = inner.rank - 1; d >= 0; d--) {
            at += rest % inner.dim[d] * stride[d];
            rest /= inner.dim[d];
        }
        memcpy((char *)out[0].data + (size_t)at * size, (const char *)in[0].data + (size_t)i * size,
               size);
    }
    return QB_OK;
}

QB_OP_SIMPLE(max_unpool, "MaxUnpool", 9, 2, 3, 1, sizeof(fold_attrs), unpool_table, FLOAT,
             infer_unpool, eval_unpool, .bound = qb_bound_none, .types = QB_TYPES_FLOATS);

/* Operators that keep the elements in place: Reshape, Flatten, Squeeze, Unsqueeze, Identity,
 * Dropout. */
#include "ops_internal.h"

/* --- Reshape ---------------------------------------------------------------------------------- */

QB_ATTRS(reshape_attrs, QB_A_INT(qb_reshape_attrs, allowzero, "allowzero", 0, 0, 1));

/* A product of known sizes and symbols. */
typedef struct product {
    int64_t number;
    int32_t n_symbols;
    int64_t symbol[2 * QB_MAX_RANK];
    bool unknown;
} product;

static qb_status product_add(qb_ctx *cx, product *p, int64_t dim) {
    if (dim >= 0) return qb_dim_mul(cx, p->number, dim, &p->number);
    if (dim == QB_DIM_UNKNOWN)
        p->unknown = true;
    else
        p->symbol[p->n_symbols++] = dim;
    return QB_OK;
}

/* total / part as one dimension: a number, a symbol, or unknown when it is neither. */
static qb_status product_divide(qb_ctx *cx, product total, const product *part, int64_t *out) {
    *out = QB_DIM_UNKNOWN;
    if (total.unknown || part->unknown || part->number == 0) return QB_OK;
    for (int32_t i = 0; i < part->n_symbols; i++) {
        int32_t at = 0;
        while (at < total.n_symbols && total.symbol[at] != part->symbol[i]) at++;
        if (at == total.n_symbols) return QB_OK;
        total.symbol[at] = total.symbol[--total.n_symbols];
    }
    if (total.n_symbols == 0) {
        if (total.number % part->number != 0)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "%lld elements do not divide into rows of %lld for dimension -1",
                           (long long)total.number, (long long)part->number);
        *out = total.number / part->number;
    } else if (total.n_symbols == 1 && total.number == part->number) {
        *out = total.symbol[0];
    }
    return QB_OK;
}

static qb_status check_count(qb_ctx *cx, const qb_shape *x, const qb_shape *out) {
    if (!qb_shape_known(x) || !qb_shape_known(out) || qb_shape_count(x) == qb_shape_count(out))
        return QB_OK;
    char from[QB_TEXT_MAX], to[QB_TEXT_MAX];
    return qb_fail(cx, QB_STATUS_INVALID, "shape %s (%lld elements) cannot become %s (%lld)",
                   qb_shape_text(x, from, sizeof from), (long long)qb_shape_count(x),
                   qb_shape_text(out, to, sizeof to), (long long)qb_shape_count(out));
}

static qb_status reshape_dims(qb_ctx *cx, const qb_shape *x, const qb_sizes *wanted,
                              bool allow_zero, qb_shape *out) {
    const int32_t n = wanted->n;
    product total = {.number = 1}, part = {.number = 1};
    int32_t free_at = -1;
    *out = (qb_shape){.rank = n};
    if (x->rank < 0) total.unknown = true;
    for (int32_t d = 0; d < x->rank; d++) QB_TRY(product_add(cx, &total, x->dim[d]));
    for (int32_t d = 0; d < n; d++) {
        int64_t dim = wanted->v[d];
        if (!qb_size_is_number(dim)) {
            out->dim[d] = qb_dim_of_size(dim);
            QB_TRY(product_add(cx, &part, out->dim[d]));
            continue;
        }
        if (dim == -1) {
            if (free_at >= 0)
                return qb_fail(cx, QB_STATUS_INVALID, "shape: -1 at %d and %d", free_at, d);
            free_at = d;
            continue;
        }
        if (dim < -1)
            return qb_fail(cx, QB_STATUS_INVALID, "shape: expected at least -1 at %d, got %lld", d,
                           (long long)dim);
        if (dim == 0 && !allow_zero) {
            if (x->rank >= 0 && d >= x->rank)
                return qb_fail(cx, QB_STATUS_INVALID, "shape: 0 at %d, but the data has rank %d", d,
                               x->rank);
            dim = x->rank < 0 ? QB_DIM_UNKNOWN : x->dim[d];
        }
        out->dim[d] = dim;
        QB_TRY(product_add(cx, &part, dim));
    }
    if (free_at >= 0) QB_TRY(product_divide(cx, total, &part, &out->dim[free_at]));
    return check_count(cx, x, out);
}

static qb_status infer_reshape(qb_ctx *cx, const qb_infer_args *args) {
    const qb_reshape_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_sizes wanted;
    qb_shape out = {.rank = -1};
    QB_TRY(qb_infer_sizes(cx, args, 1, &wanted));
    if (wanted.n >= 0) QB_TRY(reshape_dims(cx, &x->shape, &wanted, attrs->allowzero != 0, &out));
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

QB_OP_SIMPLE(reshape, "Reshape", 7, 2, 2, 1, sizeof(qb_reshape_attrs), reshape_attrs, SAME_SCALE,
             infer_reshape, qb_eval_same_bytes, .traits = QB_TRAIT_VIEW);

/* --- Flatten ---------------------------------------------------------------------------------- */

QB_ATTRS(flatten_attrs, QB_A_INT(qb_axis_attrs, axis, "axis", 1, 0, 0));

static qb_status infer_flatten(qb_ctx *cx, const qb_infer_args *args) {
    const qb_axis_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = qb_shape_unknown(2);
    int32_t rank = x->shape.rank;
    if (rank >= 0) {
        if (attrs->axis < -rank || attrs->axis > rank)
            return qb_fail(cx, QB_STATUS_INVALID, "axis: expected %d to %d for rank %d, got %lld",
                           -rank, rank, rank, (long long)attrs->axis);
        int64_t axis = attrs->axis < 0 ? attrs->axis + rank : attrs->axis;
        out.dim[0] = out.dim[1] = 1;
        for (int32_t d = 0; d < rank; d++) {
            int64_t *part = &out.dim[d < axis ? 0 : 1];
            QB_TRY(qb_dim_mul(cx, *part, x->shape.dim[d], part));
        }
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

QB_OP_SIMPLE(flatten, "Flatten", 7, 1, 1, 1, sizeof(qb_axis_attrs), flatten_attrs, SAME_SCALE,
             infer_flatten, qb_eval_same_bytes, .traits = QB_TRAIT_VIEW);

/* --- Squeeze and Unsqueeze -------------------------------------------------------------------- */

QB_ATTRS(axes_attrs, QB_A_OLD_INTS(qb_axes_attrs, axes, "axes"));

static qb_status upgrade_axes(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    if (version >= 13) return QB_OK;
    qb_axes_attrs *attrs = graph->nodes[node].attrs;
    return qb_node_axes_to_input(cx, graph, node, &attrs->axes, 1);
}

static qb_status infer_squeeze(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    int64_t axes[QB_MAX_RANK];
    int32_t n;
    uint32_t mask = 0;
    qb_shape out = {.rank = -1};
    QB_TRY(qb_infer_ints(cx, args, 1, axes, QB_MAX_RANK, &n));
    bool all = !qb_infer_in(args, 1);
    if (x->shape.rank < 0 || (n < 0 && !all)) return qb_infer_set(cx, args, 0, x->dtype, &out);
    if (n >= 0) QB_TRY(qb_axes_resolve(cx, axes, n, x->shape.rank, &mask));
    out.rank = 0;
    for (int32_t d = 0; d < x->shape.rank; d++) {
        int64_t dim = x->shape.dim[d];
        bool drop = all ? dim == 1 : mask >> d & 1u;
        if (all && dim < 0) { /* it may be 1: not even the rank is known */
            out.rank = -1;
            break;
        }
        if (drop && dim >= 0 && dim != 1)
            return qb_fail(cx, QB_STATUS_INVALID, "axis %d: expected size 1, got %lld", d,
                           (long long)dim);
        if (!drop) out.dim[out.rank++] = dim;
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status infer_unsqueeze(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    int64_t axes[QB_MAX_RANK];
    int32_t n;
    uint32_t mask = 0;
    qb_shape out = {.rank = -1};
    QB_TRY(qb_infer_ints(cx, args, 1, axes, QB_MAX_RANK, &n));
    if (x->shape.rank < 0 || n < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    out.rank = x->shape.rank + n;
    if (out.rank > QB_MAX_RANK) return qb_infer_set(cx, args, 0, x->dtype, &out);
    QB_TRY(qb_axes_resolve(cx, axes, n, out.rank, &mask));
    for (int32_t d = 0, from = 0; d < out.rank; d++)
        out.dim[d] = mask >> d & 1u ? 1 : x->shape.dim[from++];
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

QB_OP_SIMPLE(squeeze, "Squeeze", 7, 1, 2, 1, sizeof(qb_axes_attrs), axes_attrs, SAME_SCALE,
             infer_squeeze, qb_eval_same_bytes, .upgrade = upgrade_axes, .traits = QB_TRAIT_VIEW);
QB_OP_SIMPLE(unsqueeze, "Unsqueeze", 7, 2, 2, 1, sizeof(qb_axes_attrs), axes_attrs, SAME_SCALE,
             infer_unsqueeze, qb_eval_same_bytes, .upgrade = upgrade_axes, .traits = QB_TRAIT_VIEW);

/* --- Identity and Dropout --------------------------------------------------------------------- */

QB_OP_SIMPLE(identity, "Identity", 7, 1, 1, 1, 0, NULL, SAME_SCALE, qb_infer_same,
             qb_eval_same_bytes, .traits = QB_TRAIT_ELEMENTWISE | QB_TRAIT_VIEW,
             .kernel = {.function = QB_FUNCTION_COPY});

typedef struct dropout_attrs {
    int64_t seed;
    float ratio; /* before opset 12; of no effect in inference */
} dropout_attrs;
QB_ATTRS(dropout_table, QB_A_INT(dropout_attrs, seed, "seed", 0, 0, 0),
         QB_A_OLD_FLOAT(dropout_attrs, ratio, "ratio", 0.5f));

/* Training drops elements at random, which nobody can check: only a ratio of 0 is let through. */
static bool drops(const qb_tensor *ratio, const qb_tensor *training) {
    if (!training->data || qb_shape_count(&training->desc.shape) < 1) return false;
    if (*(const uint8_t *)training->data == 0) return false;
    if (!ratio->data || qb_shape_count(&ratio->desc.shape) < 1) return true; /* 0.5 */
    return qb_number_get(ratio->desc.dtype, ratio->data, 0) != 0.0;
}

static qb_status infer_dropout(qb_ctx *cx, const qb_infer_args *args) {
    qb_tensor ratio = {0}, training = {0};
    bool open = qb_infer_in(args, 1) && !qb_infer_const(args, 1, &ratio);
    if (qb_infer_const(args, 2, &training) && !open && drops(&ratio, &training))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "training_mode: expected false, got true");
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_BOOL, &qb_infer_in(args, 0)->shape));
    return qb_infer_same(cx, args);
}

static qb_status eval_dropout(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    static const qb_tensor none = {0};
    if (drops(qb_eval_has(node, in, 1) ? &in[1] : &none, qb_eval_has(node, in, 2) ? &in[2] : &none))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "training_mode: expected false, got true");
    if (node->n_out > 1 && node->out[1] >= 0)
        memset(out[1].data, 1, (size_t)qb_shape_count(&out[1].desc.shape));
    return qb_eval_same_bytes(cx, node, in, out);
}

QB_OP_SIMPLE(dropout, "Dropout", 7, 1, 3, 2, sizeof(dropout_attrs), dropout_table, SAME_SCALE,
             infer_dropout, eval_dropout, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_VIEW | QB_TRAIT_ELEMENTWISE);

/* Cast, CastLike and BitCast. */
#include <math.h>

#include "ops_internal.h"

QB_ATTRS(cast_attrs, QB_A_NEED_INT(qb_cast_attrs, to, "to", 0, 0),
         QB_A_INT(qb_cast_attrs, saturate, "saturate", 1, 0, 1),
         QB_A_STRING(qb_cast_attrs, round_mode, "round_mode", "up"));
QB_ATTRS(cast_like_attrs, QB_A_INT(qb_cast_attrs, saturate, "saturate", 1, 0, 1),
         QB_A_STRING(qb_cast_attrs, round_mode, "round_mode", "up"));

static qb_status infer_cast(qb_ctx *cx, const qb_infer_args *args) {
    const qb_cast_attrs *attrs = qb_infer_at(args)->attrs;
    qb_dtype dtype =
        attrs->to > 0 && attrs->to < 64 ? qb_dtype_from_onnx((int)attrs->to) : QB_DTYPE_NONE;
    if (dtype == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute to: type %lld is not supported",
                       (long long)attrs->to);
    return qb_infer_set(cx, args, 0, dtype, &qb_infer_in(args, 0)->shape);
}

static qb_status infer_cast_like(qb_ctx *cx, const qb_infer_args *args) {
    return qb_infer_set(cx, args, 0, qb_infer_in(args, 1)->dtype, &qb_infer_in(args, 0)->shape);
}

/* Integers keep their low bits; floats lose their fraction and saturate, NaN becomes 0. */
static qb_status eval_cast(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    qb_dtype from = in[0].desc.dtype, to = out[0].desc.dtype;
    int64_t n = qb_shape_count(&in[0].desc.shape);
    if (from == to) return qb_eval_same_bytes(cx, node, in, out);
    if (qb_dtype_is_integer(from) && qb_dtype_is_integer(to)) {
        for (int64_t i = 0; i < n; i++)
            qb_integer_put(to, out[0].data, i, qb_integer_get(from, in[0].data, i));
        return QB_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = qb_number_get(from, in[0].data, i);
        qb_number_put(to, out[0].data, i, qb_dtype_is_integer(to) ? trunc(v) : v);
    }
    return QB_OK;
}

QB_OP_SIMPLE(cast, "Cast", 7, 1, 1, 1, sizeof(qb_cast_attrs), cast_attrs, FLOAT, infer_cast,
             eval_cast, .traits = QB_TRAIT_ELEMENTWISE | QB_TRAIT_CONVERT,
             .kernel = {QB_KIND_COPY, .function = QB_FUNCTION_COPY});
QB_OP_SIMPLE(cast_like, "CastLike", 15, 2, 2, 1, sizeof(qb_cast_attrs), cast_like_attrs, FLOAT,
             infer_cast_like, eval_cast, .traits = QB_TRAIT_CONVERT | QB_TRAIT_ITEMWISE);

/* --- BitCast: the same bytes as another type of the same size -------------------------------- */

QB_ATTRS(bit_cast_attrs, QB_A_NEED_INT(qb_cast_attrs, to, "to", 0, 0));

static qb_status infer_bit_cast(qb_ctx *cx, const qb_infer_args *args) {
    const qb_cast_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    QB_TRY(infer_cast(cx, args));
    const qb_dtype to = qb_dtype_from_onnx((int)attrs->to);
    if (x->dtype == QB_DTYPE_NONE || qb_dtype_size(x->dtype) == qb_dtype_size(to)) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "attribute to: %s has another size than %s",
                   qb_dtype_text(to), qb_dtype_text(x->dtype));
}

QB_OP_SIMPLE(bit_cast, "BitCast", 26, 1, 1, 1, sizeof(qb_cast_attrs), bit_cast_attrs, FLOAT,
             infer_bit_cast, qb_eval_same_bytes);

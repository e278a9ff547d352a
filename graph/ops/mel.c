/* MelWeightMatrix: triangles that add up the bins of a spectrum to bands of equal width on the mel
 * scale, mel(f) = 2595 log10(1 + f / 700). */
#include <math.h>

#include "ops_internal.h"

typedef struct mel_attrs {
    int64_t output_datatype;
} mel_attrs;
QB_ATTRS(mel_table, QB_A_INT(mel_attrs, output_datatype, "output_datatype", 1, 0, 63));

enum { BANDS, LENGTH, RATE, LOW, HIGH, N_INPUTS };

static qb_status infer_mel(qb_ctx *cx, const qb_infer_args *args) {
    const mel_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_dtype dtype = qb_dtype_from_onnx((int)attrs->output_datatype);
    qb_shape out = qb_shape_unknown(2);
    if (dtype == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "attribute output_datatype: type %lld is not supported",
                       (long long)attrs->output_datatype);
    for (int32_t i = BANDS; i <= LENGTH; i++) {
        int64_t v;
        int32_t n;
        QB_TRY(qb_infer_ints(cx, args, i, &v, 1, &n));
        if (n < 0) continue;
        if (n != 1 || v < 0 || v > QB_ATTR_BIG)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d: expected one number from 0 to %d", i,
                           QB_ATTR_BIG);
        out.dim[i == BANDS ? 1 : 0] = i == BANDS ? v : v / 2 + 1;
    }
    return qb_infer_set(cx, args, 0, dtype, &out);
}

/* One triangle, from `left` over `middle` to `right`. */
static void draw_band(qb_tensor *out, int64_t band, int64_t left, int64_t middle, int64_t right) {
    const qb_shape *shape = &out->desc.shape;
    for (int64_t i = left; i <= right && i < shape->dim[0]; i++) {
        double height = 0.0;
        if (i == middle)
            height = 1.0;
        else if (i < middle)
            height = (double)(i - left) / (double)(middle - left);
        else
            height = (double)(right - i) / (double)(right - middle);
        qb_number_put(out->desc.dtype, out->data, i * shape->dim[1] + band, height);
    }
}

static qb_status eval_mel(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    double v[N_INPUTS];
    (void)node;
    for (int32_t i = 0; i < N_INPUTS; i++) {
        if (qb_shape_count(&in[i].desc.shape) != 1)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d: expected one number, got %lld", i,
                           (long long)qb_shape_count(&in[i].desc.shape));
        v[i] = qb_number_get(in[i].desc.dtype, in[i].data, 0);
    }
    if (!(v[RATE] > 0.0 && v[RATE] <= QB_ATTR_BIG) || !(v[LOW] >= 0.0) || !(v[HIGH] >= v[LOW]) ||
        !(v[HIGH] <= v[RATE]))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "expected 0 <= lower_edge_hertz <= upper_edge_hertz <= sample_rate <= %d, "
                       "got %g, %g and %g",
                       QB_ATTR_BIG, v[LOW], v[HIGH], v[RATE]);
    memset(out[0].data, 0, qb_desc_bytes(&out[0].desc));
    const double low = 2595.0 * log10(1.0 + v[LOW] / 700.0);
    const double step = (2595.0 * log10(1.0 + v[HIGH] / 700.0) - low) / (v[BANDS] + 2.0);
    int64_t bin[3] = {0};
    for (int64_t i = 0; i < out[0].desc.shape.dim[1] + 2; i++) {
        const double hertz = 700.0 * (pow(10.0, ((double)i * step + low) / 2595.0) - 1.0);
        bin[0] = bin[1], bin[1] = bin[2];
        bin[2] = (int64_t)floor((v[LENGTH] + 1.0) * hertz / v[RATE]);
        if (i >= 2) draw_band(&out[0], i - 2, bin[0], bin[1], bin[2]);
    }
    return QB_OK;
}

QB_OP_SIMPLE(mel_weight_matrix, "MelWeightMatrix", 17, 5, 5, 1, sizeof(mel_attrs), mel_table, FLOAT,
             infer_mel, eval_mel, .types = QB_TYPES_NUMBERS);

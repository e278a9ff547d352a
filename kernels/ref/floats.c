/* Tensors in any layout as row-major floats. */
#include "kernels/ref.h"

/* n elements from number `at` on, `step` apart. */
static void run(const qb_tensor *t, int64_t at, int64_t step, int64_t n, float *out) {
    const qb_qparams *q = &t->desc.q;
    const float scale = q->n > 0 ? q->scale[0] : 1;
    const int32_t zero = q->n > 0 && q->zero ? q->zero[0] : 0;
    const uint8_t *u8 = t->data;
    const int8_t *s8 = t->data;
    const float *f32 = t->data;
    switch (t->desc.dtype) {
    case QB_DTYPE_U8:
        for (int64_t k = 0; k < n; k++) out[k] = scale * (float)(u8[at + k * step] - zero);
        break;
    case QB_DTYPE_S8:
        for (int64_t k = 0; k < n; k++) out[k] = scale * (float)(s8[at + k * step] - zero);
        break;
    case QB_DTYPE_F32:
        for (int64_t k = 0; k < n; k++) out[k] = f32[at + k * step];
        break;
    default:
        for (int64_t k = 0; k < n; k++)
            out[k] = (float)qb_number_get(t->desc.dtype, t->data, at + k * step);
    }
}

void qb_tensor_floats(const qb_tensor *tensor, float *out) {
    const qb_shape *s = &tensor->desc.shape;
    const int64_t items = s->rank > 0 ? s->dim[0] : 1, channels = s->rank > 1 ? s->dim[1] : 1;
    const int64_t count = qb_shape_count(s);
    const int64_t spatial = items * channels > 0 ? count / (items * channels) : 0;
    const int64_t all = tensor->desc.channel_total > 0 ? tensor->desc.channel_total : channels;
    const int64_t block = tensor->desc.layout == QB_LAYOUT_C8    ? 8
                          : tensor->desc.layout == QB_LAYOUT_C16 ? 16
                                                                 : 1;
    const int64_t item = (all + block - 1) / block * block * spatial;
    for (int64_t n = 0; n < items; n++)
        for (int64_t c = 0; c < channels; c++) {
            const int64_t channel = tensor->desc.channel_offset + c;
            int64_t at = n * item, step = 1;
            if (tensor->desc.layout == QB_LAYOUT_NHWC) {
                at += channel;
                step = all;
            } else {
                at += channel / block * spatial * block + channel % block;
                step = block;
            }
            run(tensor, at, step, spatial, out);
            out += spatial;
        }
}

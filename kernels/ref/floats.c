/* Tensors in any layout as row-major floats. */
#include "kernels/ref.h"

static float element(const qb_tensor *t, int64_t i) {
    const qb_qparams *q = &t->desc.q;
    const float scale = q->n > 0 ? q->scale[0] : 1;
    const int32_t zero = q->n > 0 && q->zero ? q->zero[0] : 0;
    switch (t->desc.dtype) {
    case QB_DTYPE_U8: return scale * (float)(((const uint8_t *)t->data)[i] - zero);
    case QB_DTYPE_S8: return scale * (float)(((const int8_t *)t->data)[i] - zero);
    case QB_DTYPE_F32: return ((const float *)t->data)[i];
    default: return (float)qb_number_get(t->desc.dtype, t->data, i);
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
            for (int64_t k = 0; k < spatial; k++) *out++ = element(tensor, at + k * step);
        }
}

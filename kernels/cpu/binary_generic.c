/* Rows of binary functions in plain C. */
#include "binary_internal.h"
#include "kernels/ref.h"

#define CHUNK 64 /* values at once, in floats */

static void load(const qb_operand *o, const char *from, int64_t n, float *to) {
    const int64_t step = o->step;
    switch (o->dtype) {
    case QB_DTYPE_F32:
        for (int64_t i = 0; i < n; i++) to[i] = ((const float *)(const void *)from)[i * step];
        break;
    case QB_DTYPE_U8:
        for (int64_t i = 0; i < n; i++)
            to[i] = o->scale * (float)(((const uint8_t *)from)[i * step] - o->zero);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            to[i] = o->scale * (float)(((const int8_t *)from)[i * step] - o->zero);
    }
}

void qb_binary_row_generic(const qb_binary *s, const char *const from[2], char *out, int64_t n) {
    float a[CHUNK], b[CHUNK];
    const int64_t size[2] = {(int64_t)qb_dtype_size(s->in[0].dtype) * s->in[0].step,
                             (int64_t)qb_dtype_size(s->in[1].dtype) * s->in[1].step};
    const int64_t out_size = (int64_t)qb_dtype_size(s->epilogue.out);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = qb_min64(CHUNK, n - done);
        load(&s->in[0], from[0] + done * size[0], some, a);
        load(&s->in[1], from[1] + done * size[1], some, b);
        qb_ref_combine(s->kind, some, a, b);
        qb_epilogue_run(&s->epilogue, a, some, NULL, out + done * out_size);
    }
}

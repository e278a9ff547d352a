/* Copies between any dtype, layout, quantization and channel slice, and concatenation of copies. */
#include <string.h>

#include "ref_internal.h"

typedef struct place {
    int64_t block;           /* channels in a block; 1 for ROW and NHWC */
    int64_t image, channels; /* stride of an image; channels of the whole buffer */
    int64_t plane;
    bool channels_last;
} place;

static place place_of(const qb_desc *desc) {
    const qb_shape *shape = &desc->shape;
    place p = {.block = desc->layout == QB_LAYOUT_C8    ? 8
                        : desc->layout == QB_LAYOUT_C16 ? 16
                                                        : 1,
               .channels_last = desc->layout == QB_LAYOUT_NHWC,
               .plane = qb_ref_plane(desc)};
    p.channels = desc->channel_total > 0 ? desc->channel_total
                 : shape->rank > 1       ? shape->dim[1]
                                         : 1;
    p.image = (p.channels + p.block - 1) / p.block * p.block * p.plane;
    return p;
}

/* Element (n, c, s) where c counts in the whole buffer. */
QB_INLINE int64_t element(const place *p, int64_t n, int64_t c, int64_t s) {
    if (p->channels_last) return n * p->image + s * p->channels + c;
    return n * p->image + (c / p->block * p->plane + s) * p->block + c % p->block;
}

static bool same_params(const qb_desc *a, const qb_desc *b) {
    if (a->dtype != b->dtype || a->q.n != b->q.n) return false;
    if (a->q.n > 1 && a->q.axis != b->q.axis) return false;
    for (int32_t i = 0; i < a->q.n; i++) {
        int32_t zero_a = a->q.zero ? a->q.zero[i] : 0, zero_b = b->q.zero ? b->q.zero[i] : 0;
        if (a->q.scale[i] != b->q.scale[i] || zero_a != zero_b) return false;
    }
    return true;
}

/* The conversion of one element; k: index on the quantization axis. */
static void convert(const qb_desc *from, const qb_desc *to, int64_t from_k, int64_t to_k,
                    const void *in, int64_t in_at, void *out, int64_t out_at) {
    double v = qb_number_get(from->dtype, in, in_at);
    if (from->q.n > 0) {
        int64_t zero = from->q.zero ? from->q.zero[from_k] : 0;
        v = (double)(from->q.scale[from_k] * (float)((int64_t)v - zero));
    }
    if (to->q.n > 0) {
        int32_t zero = to->q.zero ? to->q.zero[to_k] : 0;
        v = qb_quantize_value((float)v, to->q.scale[to_k], zero, to->dtype);
    }
    qb_number_put(to->dtype, out, out_at, v);
}

static void move(size_t size, const void *in, int64_t in_at, void *out, int64_t out_at) {
    memcpy((char *)out + (size_t)out_at * size, (const char *)in + (size_t)in_at * size, size);
}

/* Index on the quantization axis of the row-major element `at`. */
static int64_t axis_index(const qb_desc *desc, int64_t at) {
    if (desc->q.n <= 1) return 0;
    const int64_t inner = qb_shape_span(&desc->shape, desc->q.axis + 1, desc->shape.rank);
    return at / inner % desc->shape.dim[desc->q.axis];
}

/* The lanes between the last channel and the end of its block hold zero (the code 0, whatever the
 * zero point: weights there are zero too). The copy that writes the last channel clears them. */
static void clear_lanes(const place *p, const qb_desc *to, void *out, int64_t images) {
    int64_t end = to->channel_offset + to->shape.dim[1];
    int64_t padded = (p->channels + p->block - 1) / p->block * p->block;
    if (end < p->channels || padded == p->channels) return;
    size_t size = qb_dtype_size(to->dtype);
    for (int64_t n = 0; n < images; n++)
        for (int64_t s = 0; s < p->plane; s++) {
            char *lane = (char *)out + (size_t)element(p, n, p->channels, s) * size;
            memset(lane, 0, (size_t)(padded - p->channels) * size);
        }
}

static void copy_flat(const qb_desc *from, const qb_desc *to, const void *in, void *out) {
    int64_t count = qb_shape_count(&from->shape);
    size_t size = qb_dtype_size(to->dtype);
    if (same_params(from, to)) {
        memcpy(out, in, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        convert(from, to, axis_index(from, i), axis_index(to, i), in, i, out, i);
}

static bool is_flat(const qb_desc *desc) {
    return desc->layout == QB_LAYOUT_ROW && desc->channel_total <= 0;
}

static void copy_tensor(const qb_desc *from, const qb_desc *to, const void *in, void *out) {
    if (qb_shape_count(&from->shape) == 0) return;
    if (is_flat(from) && is_flat(to)) {
        copy_flat(from, to, in, out);
        return;
    }
    place a = place_of(from), b = place_of(to);
    const qb_shape *shape = &from->shape;
    bool same = same_params(from, to);
    size_t size = qb_dtype_size(to->dtype);
    for (int64_t n = 0; n < shape->dim[0]; n++)
        for (int64_t c = 0; c < shape->dim[1]; c++)
            for (int64_t s = 0; s < a.plane; s++) {
                int64_t in_at = element(&a, n, from->channel_offset + c, s);
                int64_t out_at = element(&b, n, to->channel_offset + c, s);
                int64_t row = (n * shape->dim[1] + c) * a.plane + s;
                if (same)
                    move(size, in, in_at, out, out_at);
                else
                    convert(from, to, axis_index(from, row), axis_index(to, row), in, in_at, out,
                            out_at);
            }
    clear_lanes(&b, to, out, shape->dim[0]);
}

void qb_ref_copy(const qb_problem *p, const void *const *in, void *out) {
    copy_tensor(&p->in[0], &p->out, in[0], out);
}

/* Each input fills a run of every row of the output, a row being all that lies at and behind the
 * axis.
 */
void qb_ref_concat(const qb_problem *p, const void *const *in, void *out) {
    const qb_shape *shape = &p->out.shape;
    int64_t outer = 1, inner = 1, at = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d < p->axis) outer *= shape->dim[d];
        if (d > p->axis) inner *= shape->dim[d];
    }
    int64_t row = shape->dim[p->axis] * inner;
    size_t size = qb_dtype_size(p->out.dtype);
    for (int32_t k = 0; k < p->n_in; k++) {
        const qb_desc *from = &p->in[k];
        int64_t part = from->shape.dim[p->axis] * inner;
        bool same = same_params(from, &p->out);
        for (int64_t o = 0; o < outer; o++) {
            int64_t in_at = o * part, out_at = o * row + at;
            if (same)
                memcpy((char *)out + (size_t)out_at * size,
                       (const char *)in[k] + (size_t)in_at * size, (size_t)part * size);
            else
                for (int64_t i = 0; i < part; i++)
                    convert(from, &p->out, 0, 0, in[k], in_at + i, out, out_at + i);
        }
        at += part;
    }
}

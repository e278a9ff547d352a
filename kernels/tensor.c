#include "tensor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct dtype_row {
    const char *text;
    size_t bytes;
    int onnx;
} dtype_row;

static const dtype_row dtypes[QB_DTYPE_COUNT] = {
#define X(name, text, bytes, onnx) [QB_DTYPE_##name] = {text, bytes, onnx},
    QB_DTYPE_LIST(X)
#undef X
};

static bool dtype_valid(qb_dtype dtype) { return (int)dtype >= 0 && (int)dtype < QB_DTYPE_COUNT; }

const char *qb_dtype_text(qb_dtype dtype) {
    return dtype_valid(dtype) ? dtypes[dtype].text : "invalid";
}

size_t qb_dtype_size(qb_dtype dtype) { return dtype_valid(dtype) ? dtypes[dtype].bytes : 0; }

int qb_dtype_to_onnx(qb_dtype dtype) { return dtype_valid(dtype) ? dtypes[dtype].onnx : 0; }

qb_dtype qb_dtype_from_onnx(int onnx) {
    for (int i = 0; i < QB_DTYPE_COUNT; i++)
        if (dtypes[i].onnx == onnx) return (qb_dtype)i;
    return QB_DTYPE_NONE;
}

bool qb_dtype_is_float(qb_dtype dtype) {
    return dtype == QB_DTYPE_F32 || dtype == QB_DTYPE_F16 || dtype == QB_DTYPE_F64 ||
           dtype == QB_DTYPE_BF16;
}

bool qb_dtype_is_16bit_float(qb_dtype dtype) {
    return dtype == QB_DTYPE_F16 || dtype == QB_DTYPE_BF16;
}

const char *qb_layout_text(qb_layout layout) {
    switch (layout) {
    case QB_LAYOUT_ROW: return "row";
    case QB_LAYOUT_NHWC: return "nhwc";
    case QB_LAYOUT_C8: return "c8";
    case QB_LAYOUT_C16: return "c16";
    case QB_LAYOUT_ANY: return "any";
    }
    return "invalid";
}

qb_shape qb_shape_of(int rank, ...) {
    qb_shape shape = {.rank = rank > QB_MAX_RANK ? QB_MAX_RANK : rank};
    va_list args;
    va_start(args, rank);
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = va_arg(args, int);
    va_end(args);
    return shape;
}

bool qb_shape_equal(const qb_shape *a, const qb_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

bool qb_shape_known(const qb_shape *shape) {
    if (shape->rank < 0) return false;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 0) return false;
    return true;
}

int64_t qb_shape_count(const qb_shape *shape) {
    /* A zero makes the product zero, but the others must fit all the same: they become strides. */
    int64_t count = 1;
    bool empty = false;
    for (int i = 0; i < shape->rank; i++) {
        const int64_t size = shape->dim[i];
        empty |= size == 0;
        if (size != 0 && __builtin_mul_overflow(count, size, &count)) return -1;
    }
    return empty ? 0 : count;
}

char *qb_shape_text(const qb_shape *shape, char *text, size_t n) {
    if (n == 0) return text;
    if (shape->rank <= 0) {
        snprintf(text, n, "%s", shape->rank == 0 ? "scalar" : "?");
        return text;
    }
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < shape->rank && used < n; i++) {
        const char *times = i ? "x" : "";
        int more = shape->dim[i] < 0
                       ? snprintf(text + used, n - used, "%s?", times)
                       : snprintf(text + used, n - used, "%s%lld", times, (long long)shape->dim[i]);
        if (more < 0) break;
        used += (size_t)more;
    }
    return text;
}

int64_t qb_shape_span(const qb_shape *shape, int32_t from, int32_t to) {
    int64_t n = 1;
    for (int32_t d = from; d < to; d++) n *= shape->dim[d];
    return n;
}

static int64_t channel_block(qb_layout layout) {
    return layout == QB_LAYOUT_C8 ? 8 : layout == QB_LAYOUT_C16 ? 16 : 1;
}

qb_channel_view qb_desc_channels(const qb_desc *desc) {
    const qb_shape *shape = &desc->shape;
    qb_channel_view view = {.n = shape->rank > 1 ? shape->dim[1] : 1,
                            .spatial = qb_shape_span(shape, 2, shape->rank)};
    view.offset = desc->channel_total > 0 ? desc->channel_offset : 0;
    view.total = desc->channel_total > 0 ? desc->channel_total : view.n;
    view.block = channel_block(desc->layout);
    view.stored = (view.total + view.block - 1) / view.block * view.block * view.spatial;
    return view;
}

size_t qb_desc_bytes(const qb_desc *desc) {
    if (!qb_shape_known(&desc->shape)) return SIZE_MAX;
    qb_shape buffer = desc->shape;
    if (buffer.rank >= 2) {
        int64_t *channels = &buffer.dim[1];
        if (desc->channel_total > 0) *channels = desc->channel_total;
        int64_t block = channel_block(desc->layout);
        if (*channels > INT64_MAX - block) return SIZE_MAX;
        *channels = (*channels + block - 1) / block * block;
    }
    int64_t count = qb_shape_count(&buffer);
    size_t bytes;
    if (count < 0 || __builtin_mul_overflow((size_t)count, qb_dtype_size(desc->dtype), &bytes))
        return SIZE_MAX;
    return bytes;
}

qb_tensor qb_tensor_of(qb_dtype dtype, qb_shape shape, void *data) {
    qb_tensor tensor = {
        .desc = {.dtype = dtype, .layout = QB_LAYOUT_ROW, .shape = shape, .q = {.axis = -1}},
        .data = data};
    return tensor;
}

static void quantized_bounds(qb_dtype dtype, double *low, double *high) {
    switch (dtype) {
    case QB_DTYPE_U8: *low = 0, *high = UINT8_MAX; break;
    case QB_DTYPE_S8: *low = INT8_MIN, *high = INT8_MAX; break;
    case QB_DTYPE_U16: *low = 0, *high = UINT16_MAX; break;
    case QB_DTYPE_S16: *low = INT16_MIN, *high = INT16_MAX; break;
    default: *low = INT32_MIN, *high = INT32_MAX; break;
    }
}

int32_t qb_quantize_value(float v, float scale, int32_t zero, qb_dtype dtype) {
    double low, high;
    quantized_bounds(dtype, &low, &high);
    float steps = nearbyintf(v / scale);
    if (isnan(steps)) steps = 0.0f;
    double q = (double)steps + zero; /* exact wherever the clamp below leaves it alone */
    return (int32_t)(q < low ? low : q > high ? high : q);
}

uint16_t qb_f32_to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) /* NaN: quiet, keeps the upper payload bits */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and up: infinity */
    if (magnitude >= 0x38800000u) {                                  /* normal: 2^-14 and up */
        uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
        return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
    }
    if (magnitude < 0x33000000u) return sign; /* below 2^-25: zero */
    uint32_t shift = 126u - (magnitude >> 23);
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t f16 = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    if (rest > tie || (rest == tie && (f16 & 1u))) f16++;
    return (uint16_t)(sign | f16);
}

float qb_f16_to_f32(uint16_t f16) {
    uint32_t sign = (uint32_t)(f16 & 0x8000u) << 16;
    uint32_t exponent = f16 >> 10 & 31u, mantissa = f16 & 0x3ffu, bits;
    if (exponent == 31u) {
        bits = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112u) << 23 | mantissa << 13;
    } else {
        float tiny = (float)mantissa * 0x1p-24f; /* zero and subnormals, exact */
        memcpy(&bits, &tiny, sizeof bits);
        bits |= sign;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

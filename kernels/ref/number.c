/* Elements of any type as numbers. */
#include <math.h>
#include <string.h>

#include "ref_internal.h"

double qb_number_get(qb_dtype dtype, const void *data, int64_t at) {
    switch (dtype) {
    case QB_DTYPE_F32: return (double)((const float *)data)[at];
    case QB_DTYPE_F64: return ((const double *)data)[at];
    case QB_DTYPE_F16: return (double)qb_f16_to_f32(((const uint16_t *)data)[at]);
    case QB_DTYPE_BF16: {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    case QB_DTYPE_U8: return ((const uint8_t *)data)[at];
    case QB_DTYPE_S8: return ((const int8_t *)data)[at];
    case QB_DTYPE_U16: return ((const uint16_t *)data)[at];
    case QB_DTYPE_S16: return ((const int16_t *)data)[at];
    case QB_DTYPE_S32: return ((const int32_t *)data)[at];
    case QB_DTYPE_U32: return ((const uint32_t *)data)[at];
    case QB_DTYPE_S64: return (double)((const int64_t *)data)[at];
    case QB_DTYPE_U64: return (double)((const uint64_t *)data)[at];
    case QB_DTYPE_BOOL: return ((const uint8_t *)data)[at] != 0;
    case QB_DTYPE_NONE:
    case QB_DTYPE_COUNT: break;
    }
    return 0.0;
}

static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Round half even, then saturate; NaN becomes 0. */
static double to_integer(double value, double low, double high) {
    double rounded = nearbyint(value);
    return isnan(rounded) ? 0.0 : rounded < low ? low : rounded > high ? high : rounded;
}

void qb_number_put(qb_dtype dtype, void *data, int64_t at, double value) {
    switch (dtype) {
    case QB_DTYPE_F32: ((float *)data)[at] = (float)value; break;
    case QB_DTYPE_F64: ((double *)data)[at] = value; break;
    case QB_DTYPE_F16: ((uint16_t *)data)[at] = qb_f32_to_f16((float)value); break;
    case QB_DTYPE_BF16: ((uint16_t *)data)[at] = to_bf16((float)value); break;
    case QB_DTYPE_U8: ((uint8_t *)data)[at] = (uint8_t)to_integer(value, 0, UINT8_MAX); break;
    case QB_DTYPE_S8: ((int8_t *)data)[at] = (int8_t)to_integer(value, INT8_MIN, INT8_MAX); break;
    case QB_DTYPE_U16: ((uint16_t *)data)[at] = (uint16_t)to_integer(value, 0, UINT16_MAX); break;
    case QB_DTYPE_S16:
        ((int16_t *)data)[at] = (int16_t)to_integer(value, INT16_MIN, INT16_MAX);
        break;
    case QB_DTYPE_S32:
        ((int32_t *)data)[at] = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        break;
    case QB_DTYPE_U32: ((uint32_t *)data)[at] = (uint32_t)to_integer(value, 0, UINT32_MAX); break;
    case QB_DTYPE_S64: /* the bounds are the outermost doubles inside the type */
        ((int64_t *)data)[at] = (int64_t)to_integer(value, -0x1p63, 0x1.fffffffffffffp62);
        break;
    case QB_DTYPE_U64:
        ((uint64_t *)data)[at] = (uint64_t)to_integer(value, 0.0, 0x1.fffffffffffffp63);
        break;
    case QB_DTYPE_BOOL: ((uint8_t *)data)[at] = value != 0.0; break;
    case QB_DTYPE_NONE:
    case QB_DTYPE_COUNT: break;
    }
}

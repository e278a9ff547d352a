// What the kernels of recurrent layers share: a team's items, where they lie, the usual cells.
#ifndef QB_CUDA_RECURRENT_CUH
#define QB_CUDA_RECURRENT_CUH

#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/recurrent/recurrent.h"

// The items of a direction that some blocks walk over together.
struct team {
    int direction, first_item, items;
    bool back;
};

QB_DEVICE team team_of(const qb_cuda_recurrent &p, int number) {
    const int direction = number / p.groups, first = number % p.groups * p.items;
    return {direction, first, min(p.items, p.batch - first), direction == 1 || p.layer.reverse};
}

QB_DEVICE int64_t row_of(const qb_cuda_recurrent &p, const team &b, int item, int t) {
    const int64_t number = b.first_item + item;
    return p.layer.batch_first ? number * p.steps + t : (int64_t)t * p.batch + number;
}

// Where an item's units begin in Y, and in a state of the caller's.
QB_DEVICE int64_t y_at(const qb_cuda_recurrent &p, const team &b, int item, int t) {
    const int64_t number = b.first_item + item;
    const int64_t row = p.layer.batch_first
                            ? (number * p.steps + t) * p.directions + b.direction
                            : ((int64_t)t * p.directions + b.direction) * p.batch + number;
    return row * p.hidden;
}
QB_DEVICE int64_t state_at(const qb_cuda_recurrent &p, const team &b, int item) {
    const int64_t number = b.first_item + item;
    return (p.layer.batch_first ? number * p.directions + b.direction
                                : (int64_t)b.direction * p.batch + number) *
           p.hidden;
}

QB_DEVICE float load(int dtype, const void *from, int64_t at) {
    return dtype == QB_DTYPE_F16 ? __half2float(((const __half *)from)[at])
                                 : ((const float *)from)[at];
}
QB_DEVICE void store(int dtype, void *to, int64_t at, float v) {
    if (dtype == QB_DTYPE_F16)
        ((__half *)to)[at] = __float2half_rn(v);
    else
        ((float *)to)[at] = v;
}

// Sigmoid and tanh for states that are rounded to f16: to a few ulp of f32 where they are large,
// and tanh by its series (Abramowitz and Stegun 1964, 4.5.64) where it is about its argument.
QB_DEVICE float fast_sigmoid(float x) {
    return qb_reciprocal(1.0f + qb_power_of_2(x * -1.44269504f));
}
QB_DEVICE float fast_tanh(float x) {
    const float s = x * x, far = 1.0f - 2.0f * qb_reciprocal(1.0f + qb_power_of_2(x * 2.88539008f));
    const float near = __fmaf_rn(
        __fmaf_rn(__fmaf_rn(-0.0539682540f, s, 0.133333333f), s, -0.333333333f), s * x, x);
    return s < 0.0625f ? near : far;
}
template <class T> QB_DEVICE float sigmoid(float x) {
    return sizeof(T) == 2 ? fast_sigmoid(x) : qb_act_of(QB_ACT_SIGMOID, 0.0f, 0.0f, x);
}
template <class T> QB_DEVICE float hyperbolic(float x) {
    return sizeof(T) == 2 ? fast_tanh(x) : tanhf(x);
}

QB_DEVICE void gru(float update, float candidate, float &h) {
    h = (1.0f - update) * candidate + update * h;
}

#endif

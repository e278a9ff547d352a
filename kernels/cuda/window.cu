// The plain convolution and transposed convolution: one thread an output element, neighbours in the
// order in which the result lies in memory, so that either the data (ROW) or the weight (NHWC) is
// read together. Bound by load instructions; it stands last among the device's tactics.
#include "kernels/cuda/real.cuh"
#include "kernels/cuda/window.h"

#define THREADS 128

// Data position under tap `k` of output `out`, or -1.
QB_DEVICE int source(const qb_cuda_direct &p, int d, int out, int k) {
    const qb_cuda_window &w = p.w;
    int at = p.transposed ? out + w.pad[d] - k * w.dilation[d]
                          : out * w.stride[d] - w.pad[d] + k * w.dilation[d];
    if (p.transposed) {
        if (at < 0 || at % w.stride[d] != 0) return -1;
        at /= w.stride[d];
    }
    return at >= 0 && at < w.in[d] ? at : -1;
}

// Sum of one tap over the channels of the group.
QB_DEVICE void add(const qb_cuda_direct &p, const void *in, int64_t at, const int16_t *weight,
                   int channels, int &sum) {
    const uint8_t *x = (const uint8_t *)in;
    bool is_signed = p.in.dtype == QB_DTYPE_S8;
    for (int c = 0; c < channels; c++, at += p.w.in_stride[1], weight += p.w.out_c)
        sum += (qb_code_at(x[at], 0, is_signed) - p.in.zero) * *weight;
}

QB_DEVICE void add(const qb_cuda_direct &p, const void *in, int64_t at, const float *weight,
                   int channels, float &sum) {
    bool half = p.in.dtype == QB_DTYPE_F16;
    for (int c = 0; c < channels; c++, at += p.w.in_stride[1], weight += p.w.out_c)
        sum = fmaf(half ? __half2float(((const __half *)in)[at]) : ((const float *)in)[at], *weight,
                   sum);
}

template <class T, class W>
static __global__ void __launch_bounds__(THREADS)
    direct(const __grid_constant__ qb_cuda_direct p, uint32_t count, const void *in,
           const void *residual, const char *packed, void *out) {
    const qb_cuda_window &w = p.w;
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    int m = 0;
    if (w.channels_last) m = i % w.out_c, i /= w.out_c;
    int x = i % w.out[2], y = i / w.out[2] % w.out[1], z = i / w.out[2] / w.out[1] % w.out[0];
    int n = i / w.out[2] / w.out[1] / w.out[0];
    if (!w.channels_last) m = n % w.out_c, n /= w.out_c;
    int channels = w.in_c / w.group, first = m / (w.out_c / w.group) * channels;
    int64_t image = w.in_first + n * w.in_stride[0] + first * w.in_stride[1];
    const W *weight = (const W *)packed + m;
    T sum = 0;
    for (int kz = 0; kz < w.kernel[0]; kz++)
        for (int ky = 0; ky < w.kernel[1]; ky++)
            for (int kx = 0; kx < w.kernel[2]; kx++, weight += (int64_t)channels * w.out_c) {
                int iz = source(p, 0, z, kz), iy = source(p, 1, y, ky), ix = source(p, 2, x, kx);
                if (iz < 0 || iy < 0 || ix < 0) continue;
                int64_t at =
                    image + iz * w.in_stride[2] + iy * w.in_stride[3] + ix * w.in_stride[4];
                add(p, in, at, weight, channels, sum);
            }
    float real = (float)sum;
    if (p.integer) {
        if (p.has_bias && !p.has_float_bias)
            real = (float)((int)sum + ((const int *)(packed + p.at_bias))[m]);
        real = __fmul_rn(real, ((const float *)(packed + p.at_multiplier))[m]);
    }
    if (p.has_float_bias) real = __fadd_rn(real, ((const float *)(packed + p.at_bias))[m]);
    int64_t pixel[5] = {n, m, z, y, x}, to = w.out_first, res = w.res_first;
#pragma unroll
    for (int d = 0; d < 5; d++) {
        to += pixel[d] * w.out_stride[d];
        res += pixel[d] * w.res_stride[d];
    }
    qb_end_one(p.end, residual, res, out, to, real);
}

extern "C" int qb_cuda_direct_run(const qb_cuda_direct *p, const void *in, const void *residual,
                                  const char *packed, void *out, void *stream) {
    const qb_cuda_window *w = &p->w;
    uint32_t count = (uint32_t)((int64_t)w->batch * w->out_c * w->out[0] * w->out[1] * w->out[2]);
    unsigned blocks = (count + THREADS - 1) / THREADS;
    cudaStream_t s = (cudaStream_t)stream;
    if (p->integer)
        direct<int, int16_t><<<blocks, THREADS, 0, s>>>(*p, count, in, residual, packed, out);
    else
        direct<float, float><<<blocks, THREADS, 0, s>>>(*p, count, in, residual, packed, out);
    return (int)cudaGetLastError();
}

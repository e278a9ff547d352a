// The plain convolution and transposed convolution: one thread an output element, neighbours in the
// order in which the result lies in memory, so that either the data (ROW) or the weight (NHWC) is
// read together. Bound by load instructions; it stands last among the device's tactics.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/conv/direct.h"

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
        sum += (qb_q8_at(x[at], 0, is_signed) - p.in.zero) * *weight;
}

QB_DEVICE void add(const qb_cuda_direct &p, const void *in, int64_t at, const float *weight,
                   int channels, float &sum) {
    bool half = p.in.dtype == QB_DTYPE_F16;
    for (int c = 0; c < channels; c++, at += p.w.in_stride[1], weight += p.w.out_c)
        sum = fmaf(half ? __half2float(((const __half *)in)[at]) : ((const float *)in)[at], *weight,
                   sum);
}

// One sum to the result.
template <class T>
QB_DEVICE void epilogue(const qb_cuda_direct &p, const void *residual, const char *packed,
                        void *out, T sum, int n, int m, int z, int y, int x) {
    const qb_cuda_window &w = p.w;
    float f32 = (float)sum;
    if (p.integer) {
        if (p.has_bias && !p.has_float_bias)
            f32 = (float)((int)sum + ((const int *)(packed + p.at_bias))[m]);
        f32 = __fmul_rn(f32, ((const float *)(packed + p.at_multiplier))[m]);
    }
    if (p.has_float_bias) f32 = __fadd_rn(f32, ((const float *)(packed + p.at_bias))[m]);
    int64_t pixel[5] = {n, m, z, y, x}, to = w.out_first, res = w.res_first;
#pragma unroll
    for (int d = 0; d < 5; d++) {
        to += pixel[d] * w.out_stride[d];
        res += pixel[d] * w.res_stride[d];
    }
    qb_epilogue_of_value(p.end, residual, res, out, to, f32);
}

template <class T, class W>
static __global__ void __launch_bounds__(THREADS)
    direct(const __grid_constant__ qb_cuda_direct p, uint32_t count, const void *in,
           const void *residual, const char *packed, void *out) {
    qb_wait_for_dependencies();
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
    epilogue(p, residual, packed, out, sum, n, m, z, y, x);
}

extern "C" int qb_cuda_direct_run(const qb_cuda_direct *p, const void *in, const void *residual,
                                  const char *packed, void *out, void *stream) {
    const qb_cuda_window *w = &p->w;
    uint32_t count = (uint32_t)((int64_t)w->batch * w->out_c * w->out[0] * w->out[1] * w->out[2]);
    unsigned blocks = (count + THREADS - 1) / THREADS;
    cudaStream_t s = (cudaStream_t)stream;
    if (p->integer)
        return qb_launch(direct<int, int16_t>, blocks, THREADS, 0, s, *p, count, in, residual,
                         packed, out);
    return qb_launch(direct<float, float>, blocks, THREADS, 0, s, *p, count, in, residual, packed,
                     out);
}

// ---- weights that are computed ------------------------------------------------------------------

QB_DEVICE float float_at(const void *from, int64_t at, bool f16) {
    return f16 ? __half2float(((const __half *)from)[at]) : ((const float *)from)[at];
}

// An element of the packed weight a thread; the first ones write the bias, too.
static __global__ void __launch_bounds__(THREADS)
    pack(const __grid_constant__ qb_cuda_direct p, int taps, uint32_t count, const void *weight,
         const void *bias, char *packed) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    qb_wait_for_dependencies();
    if (i >= count) return;
    const int channels = p.w.in_c / p.w.group, outs = p.w.out_c / p.w.group;
    const int m = i % p.w.out_c, c = i / p.w.out_c % channels, tap = i / p.w.out_c / channels;
    const int64_t row = p.transposed ? (int64_t)(m / outs * channels + c) * outs + m % outs
                                     : (int64_t)m * channels + c;
    ((float *)packed)[i] = float_at(weight, row * taps + tap, p.f16_weight);
    if (i < p.w.out_c && bias) ((float *)(packed + p.at_bias))[i] = float_at(bias, i, p.f16_bias);
}

extern "C" int qb_cuda_direct_pack_run(const qb_cuda_direct *p, const void *weight,
                                       const void *bias, char *packed, void *stream) {
    const int taps = p->w.kernel[0] * p->w.kernel[1] * p->w.kernel[2];
    const uint32_t count = (uint32_t)taps * (p->w.in_c / p->w.group) * p->w.out_c;
    return qb_launch(pack, (count + THREADS - 1) / THREADS, THREADS, 0, stream, *p, taps, count,
                     weight, bias, packed);
}

// ---- by tiles: 64 pixels x 64 channels, 4 x 4 a thread, 16 of K at a time ----------------------

#define SIDE 64
#define DEPTH 16
#define TILE_THREADS 256
#define PITCH (SIDE + 4)
#define PIXELS (SIDE * DEPTH / TILE_THREADS) // that a thread loads for one place of K

// Output pixel `at`, in the order image, z, y, x.
QB_DEVICE void pixel_of(const qb_cuda_window &w, int at, int &n, int &z, int &y, int &x) {
    x = at % w.out[2], at /= w.out[2];
    y = at % w.out[1], at /= w.out[1];
    z = at % w.out[0];
    n = at / w.out[0];
}

QB_DEVICE int load_one(const qb_cuda_direct &p, const void *in, int64_t at, int) {
    return qb_q8_at(((const uint8_t *)in)[at], 0, p.in.dtype == QB_DTYPE_S8) - p.in.zero;
}
QB_DEVICE float load_one(const qb_cuda_direct &p, const void *in, int64_t at, float) {
    return p.in.dtype == QB_DTYPE_F16 ? __half2float(((const __half *)in)[at])
                                      : ((const float *)in)[at];
}

QB_DEVICE int multiply_add(int x, int y, int sum) { return sum + x * y; }
QB_DEVICE float multiply_add(float x, float y, float sum) { return fmaf(x, y, sum); }

template <class T, class W>
static __global__ void __launch_bounds__(TILE_THREADS)
    tile(const __grid_constant__ qb_cuda_direct p, int pixels, const void *in, const void *residual,
         const char *packed, void *out) {
    __shared__ __align__(16) T left[DEPTH][PITCH], right[DEPTH][PITCH];
    const qb_cuda_window &w = p.w;
    int columns = (w.out_c + SIDE - 1) / SIDE;
    int pixel0 = blockIdx.x / columns * SIDE, channel0 = blockIdx.x % columns * SIDE;
    int down = threadIdx.x % DEPTH, k_all = w.kernel[0] * w.kernel[1] * w.kernel[2] * w.in_c;
    int origin[PIXELS][3];
    int64_t image[PIXELS];
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        int at = pixel0 + threadIdx.x / DEPTH + i * (TILE_THREADS / DEPTH), n, to[3];
        pixel_of(w, at < pixels ? at : 0, n, to[0], to[1], to[2]);
        image[i] = w.in_first + n * w.in_stride[0];
#pragma unroll
        for (int d = 0; d < 3; d++) origin[i][d] = to[d] * w.stride[d] - w.pad[d];
    }
    T sum[4][4] = {};
    qb_wait_for_dependencies();
    for (int k0 = 0; k0 < k_all; k0 += DEPTH) {
        int k = k0 + down, c = k % w.in_c, tap = k / w.in_c;
        int kx = tap % w.kernel[2], ky = tap / w.kernel[2] % w.kernel[1];
        int kz = tap / w.kernel[2] / w.kernel[1];
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            int z = origin[i][0] + kz * w.dilation[0], y = origin[i][1] + ky * w.dilation[1];
            int x = origin[i][2] + kx * w.dilation[2];
            bool inside = k < k_all && (unsigned)z < (unsigned)w.in[0] &&
                          (unsigned)y < (unsigned)w.in[1] && (unsigned)x < (unsigned)w.in[2];
            int64_t at = image[i] + c * w.in_stride[1] + z * w.in_stride[2] + y * w.in_stride[3] +
                         x * w.in_stride[4];
            left[down][threadIdx.x / DEPTH + i * (TILE_THREADS / DEPTH)] =
                inside ? load_one(p, in, at, (T)0) : (T)0;
        }
#pragma unroll
        for (int i = 0; i < SIDE * DEPTH / TILE_THREADS; i++) {
            int row = k0 + threadIdx.x / SIDE + i * (TILE_THREADS / SIDE);
            int m = channel0 + threadIdx.x % SIDE;
            bool inside = row < k_all && m < w.out_c;
            right[row - k0][threadIdx.x % SIDE] =
                inside ? (T)((const W *)packed)[(int64_t)row * w.out_c + m] : (T)0;
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] = multiply_add(left[step][threadIdx.x / 16 * 4 + i],
                                             right[step][threadIdx.x % 16 * 4 + j], sum[i][j]);
        __syncthreads();
    }
    T *mine = &left[0][0] + threadIdx.x; // sums go by shared memory: the end is long, written once
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int n, z, y, x, at = pixel0 + threadIdx.x / 16 * 4 + i;
        pixel_of(w, at < pixels ? at : 0, n, z, y, x);
#pragma unroll
        for (int j = 0; j < 4; j++) mine[j * TILE_THREADS] = sum[i][j];
#pragma unroll 1
        for (int j = 0; j < 4; j++) {
            int m = channel0 + threadIdx.x % 16 * 4 + j;
            if (at < pixels && m < w.out_c)
                epilogue(p, residual, packed, out, mine[j * TILE_THREADS], n, m, z, y, x);
        }
    }
}

extern "C" int qb_cuda_direct_tile_run(const qb_cuda_direct *p, const void *in,
                                       const void *residual, const char *packed, void *out,
                                       void *stream) {
    const qb_cuda_window *w = &p->w;
    int pixels = w->batch * w->out[0] * w->out[1] * w->out[2];
    int columns = (w->out_c + SIDE - 1) / SIDE;
    int64_t blocks = (int64_t)(pixels + SIDE - 1) / SIDE * columns;
    cudaStream_t s = (cudaStream_t)stream;
    if (p->integer)
        return qb_launch(tile<int, int16_t>, (unsigned)blocks, TILE_THREADS, 0, s, *p, pixels, in,
                         residual, packed, out);
    return qb_launch(tile<float, float>, (unsigned)blocks, TILE_THREADS, 0, s, *p, pixels, in,
                     residual, packed, out);
}

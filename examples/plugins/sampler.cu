/* The sampler's kernel: one thread a point and channel, points fastest, so that a warp writes one
 * line. Bound by the memory that it reads around its points. */
#include <cuda_fp16.h>

#include "sampler.h"

#define THREADS 256

__device__ static float value_of(float x) { return x; }
__device__ static float value_of(__half x) { return __half2float(x); }
__device__ static void put(float *to, float x) { *to = x; }
__device__ static void put(__half *to, float x) { *to = __float2half_rn(x); }

__device__ static float position(float at, int64_t size, int align_corners) {
    float p = align_corners ? (at + 1) / 2 * (float)(size - 1) : ((at + 1) * (float)size - 1) / 2;
    return fminf(fmaxf(p, -2), (float)size + 1);
}

template <typename T>
__device__ static float pixel(const sampling &s, const T *plane, int64_t y, int64_t x) {
    bool inside = y >= 0 && y < s.in_height && x >= 0 && x < s.in_width;
    return inside ? value_of(plane[y * s.in_width + x]) : 0;
}

template <typename T>
__global__ static void sample(sampling s, const T *image, const float *grid, T *out) {
    const int64_t points = s.height * s.width, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= s.items * s.channels * points) return;
    const int64_t plane = i / points, item = plane / s.channels;
    const float *at = grid + (item * points + i % points) * 2;
    const T *from = image + plane * s.in_height * s.in_width;
    const float x = position(at[0], s.in_width, s.align_corners);
    const float y = position(at[1], s.in_height, s.align_corners);
    const float left = floorf(x), top = floorf(y), dx = x - left, dy = y - top;
    const int64_t x0 = (int64_t)left, y0 = (int64_t)top;
    const float above = (1 - dx) * pixel(s, from, y0, x0) + dx * pixel(s, from, y0, x0 + 1);
    const float below = (1 - dx) * pixel(s, from, y0 + 1, x0) + dx * pixel(s, from, y0 + 1, x0 + 1);
    put(&out[i], (1 - dy) * above + dy * below);
}

const char *sampler_launch(const sampling *s, const void *image, const float *grid, void *out,
                           int half, void *stream) {
    const int64_t n = s->items * s->channels * s->height * s->width;
    const unsigned blocks = (unsigned)((n + THREADS - 1) / THREADS);
    if (n == 0) return NULL;
    if (half)
        sample<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(*s, (const __half *)image, grid,
                                                             (__half *)out);
    else
        sample<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(*s, (const float *)image, grid,
                                                             (float *)out);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? NULL : cudaGetErrorString(error);
}

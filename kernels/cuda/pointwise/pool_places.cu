// Where the maxima of a pool lie: a thread takes a window.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/pool.h"

#define THREADS 256

// Of equal elements the first one stays; NaN counts as larger.
static __global__ void __launch_bounds__(THREADS)
    pool_places(const __grid_constant__ qb_cuda_pool_places p, uint32_t count, const void *in,
                int64_t *out) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    qb_wait_for_dependencies();
    if (i >= count) return;
    const qb_cuda_window &w = p.w;
    const int x = i % w.out[2], y = i / w.out[2] % w.out[1], z = i / w.out[2] / w.out[1] % w.out[0];
    const int plane = i / w.out[2] / w.out[1] / w.out[0], c = plane % w.in_c, n = plane / w.in_c;
    const int64_t image = w.in_first + n * w.in_stride[0] + c * w.in_stride[1];
    float best = 0;
    int place = -1;
    for (int kz = 0; kz < w.kernel[0]; kz++)
        for (int ky = 0; ky < w.kernel[1]; ky++)
            for (int kx = 0; kx < w.kernel[2]; kx++) {
                const int iz = z * w.stride[0] - w.pad[0] + kz * w.dilation[0];
                const int iy = y * w.stride[1] - w.pad[1] + ky * w.dilation[1];
                const int ix = x * w.stride[2] - w.pad[2] + kx * w.dilation[2];
                if ((unsigned)iz >= (unsigned)w.in[0] || (unsigned)iy >= (unsigned)w.in[1] ||
                    (unsigned)ix >= (unsigned)w.in[2])
                    continue;
                float v[1];
                qb_load_floats<1>(
                    p.in, in,
                    image + iz * w.in_stride[2] + iy * w.in_stride[3] + ix * w.in_stride[4], v);
                if (place >= 0 && !(v[0] > best) && v[0] == v[0]) continue;
                best = v[0];
                place = (iz * w.in[1] + iy) * w.in[2] + ix;
            }
    const int64_t elements = (int64_t)w.in[0] * w.in[1] * w.in[2];
    out[i] = place < 0 ? -1 : plane * elements + place;
}

extern "C" int qb_cuda_pool_places_run(const qb_cuda_pool_places *p, const void *in, void *out,
                                       void *stream) {
    const qb_cuda_window *w = &p->w;
    const uint32_t count = (uint32_t)w->batch * w->in_c * w->out[0] * w->out[1] * w->out[2];
    return qb_launch(pool_places, (count + THREADS - 1) / THREADS, THREADS, 0, stream, *p, count,
                     in, (int64_t *)out);
}

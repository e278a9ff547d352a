// Quantization by the range of the data themselves: one kernel finds it, one makes quantized
// values. Bound by device memory; the second mostly finds the data in L2.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/nodes.h"

#define THREADS 256
#define BLOCKS 4 // for each multiprocessor

// Integers in the order of the values: 0 is 0, so that a range begins as zeros.
QB_DEVICE int key_of(float v) {
    const int bits = __float_as_int(v);
    return bits ^ (bits < 0 ? 0x7fffffff : 0);
}

QB_DEVICE float value_of(int key) { return __int_as_float(key ^ (key < 0 ? 0x7fffffff : 0)); }

// NaN passes by.
template <int V>
static __global__ void __launch_bounds__(THREADS)
    find_range(const __grid_constant__ qb_cuda_dynamic_quantize p, const void *in, int *range) {
    qb_wait_for_dependencies();
    float low = 0.0f, high = 0.0f;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < p.count / V;
         i += gridDim.x * THREADS) {
        float v[V];
        qb_load_floats<V>(p.in, in, (int64_t)i * V, v);
#pragma unroll
        for (int k = 0; k < V; k++) low = fminf(low, v[k]), high = fmaxf(high, v[k]);
    }
    const int least = __reduce_min_sync(0xffffffffu, key_of(low));
    const int most = __reduce_max_sync(0xffffffffu, key_of(high));
    if (threadIdx.x % 32) return;
    if (least < 0) atomicMin(&range[0], least);
    if (most > 0) atomicMax(&range[1], most);
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    make_quantized(const __grid_constant__ qb_cuda_dynamic_quantize p, const void *in,
                   const int *range, void *out, float *scale, uint8_t *zero) {
    qb_wait_for_dependencies();
    const float low = value_of(range[0]), high = value_of(range[1]);
    qb_cuda_value quantized = {QB_DTYPE_U8};
    quantized.scale = low == high ? 1.0f : __fdiv_rn(__fsub_rn(high, low), 255.0f);
    const float point = __fsub_rn(0.0f, __fdiv_rn(low, quantized.scale));
    quantized.zero = (int)rintf(fminf(fmaxf(point, 0.0f), 255.0f));
    quantized.lowest = (float)-quantized.zero;
    quantized.highest = (float)(255 - quantized.zero);
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i == 0 && scale) *scale = quantized.scale;
    if (i == 0 && zero) *zero = (uint8_t)quantized.zero;
    if (i >= p.count / V || !out) return;
    float v[V];
    qb_load_floats<V>(p.in, in, (int64_t)i * V, v);
    qb_store_floats<V, true>(quantized, out, (int64_t)i * V, v);
}

template <int V>
static int run(const qb_cuda_dynamic_quantize *p, const void *in, int *range, void *out,
               float *scale, uint8_t *zero, int32_t multiprocessors, cudaStream_t stream) {
    const unsigned blocks = (p->count / V + THREADS - 1) / THREADS;
    const unsigned most = (unsigned)multiprocessors * BLOCKS, some = blocks < most ? blocks : most;
    const cudaError_t cleared = cudaMemsetAsync(range, 0, QB_CUDA_RANGE_BYTES, stream);
    if (cleared != cudaSuccess) return (int)cleared;
    const int code =
        some > 0 ? qb_launch(find_range<V>, some, THREADS, 0, stream, *p, in, range) : 0;
    // One block at least: nothing has a scale, too.
    return code ? code
                : qb_launch(make_quantized<V>, max(blocks, 1u), THREADS, 0, stream, *p, in, range,
                            out, scale, zero);
}

extern "C" int qb_cuda_dynamic_quantize_run(const qb_cuda_dynamic_quantize *p, const void *in,
                                            void *range, void *out, float *scale, void *zero,
                                            int32_t multiprocessors, void *stream) {
    const auto with = p->width == 16 ? run<16> : run<1>;
    return with(p, in, (int *)range, out, scale, (uint8_t *)zero, multiprocessors,
                (cudaStream_t)stream);
}

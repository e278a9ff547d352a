// INT8 and f16 convolution on mma.sync for few output pixels, as at batch 1: a block has 16 pixels
// x 64 channels, and its warps share out K (sliced K), so that all of it is under way at once. What
// such a launch takes is latency, of loads and of instructions that no cache has yet: constants and
// residuals are read before the sums are there, and the code of activations and stores, which
// elements go through one by one, is there once.
//
//   threads   GROUPS times four warps
//   shared    3 steps of (16 + 64) x 64 bytes for each warp, filled by cp.async, then its sums
//   bound by  latency
#ifndef QB_CUDA_CONV_MMA_SLICED_CUH
#define QB_CUDA_CONV_MMA_SLICED_CUH

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/conv_mma_loop.cuh"
#include "kernels/cuda/conv/tile.cuh"

#define QB_SCHEDULE_SLICED true
#define QB_SLICED_TILES 1024 // most; with more of them larger tiles fill the device

// The constants of EACH results of one channel, read before there are sums. Of which class a pixel
// is takes two loads, and its bias another one that waits for them.
template <class Sum, int EACH> struct held_constants {
    float multiplier, more;
    int bias[EACH];

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                         const int (&cls)[EACH]) {
        multiplier = __ldg((const float *)(io.packed + p.at_multiplier) + channel);
        more = p.has_float_bias ? __ldg((const float *)(io.packed + p.at_float_bias) + channel) : 0;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            bias[i] = __ldg((const int *)(io.packed + p.at_bias) + cls[i] * p.n_pad + channel);
    }

    __device__ float scale(const qb_cuda_conv &p, int i, int sum) const {
        const float f32 = __fmul_rn((float)(sum + bias[i]), multiplier);
        return p.has_float_bias ? __fadd_rn(f32, more) : f32;
    }
};
template <int EACH> struct held_constants<float, EACH> {
    float bias;

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                         const int (&)[EACH]) {
        bias = __ldg((const float *)(io.packed + p.at_float_bias) + channel);
    }

    __device__ float scale(const qb_cuda_conv &, int, float sum) const {
        return __fadd_rn(sum, bias);
    }
};

template <class T, class Sum>
static __global__ void __launch_bounds__(T::threads)
    conv_mma_sliced(const __grid_constant__ qb_cuda_conv p,
                    const __grid_constant__ qb_cuda_conv_io io) {
    extern __shared__ __align__(128) char memory[];
    const int columns = p.n_pad / T::channels, warp = threadIdx.x >> 5;
    const int row0 = blockIdx.x / columns * T::rows, channel0 = blockIdx.x % columns * T::channels;
    const int all = p.taps * (p.k_pad * T::element / T::k);
    const int begin = all * warp / T::warps, end = all * (warp + 1) / T::warps;
    // in the epilogue
    constexpr int each = T::rows * T::channels / T::threads; // results of a thread
    const int channel = channel0 + threadIdx.x % T::channels;
    const int first = row0 + threadIdx.x / T::channels, step = T::threads / T::channels;
    int cls[each];
#pragma unroll
    for (int i = 0; i < each; i++)
        cls[i] =
            T::element == 1 && first + i * step < p.rows ? qb_class(p, io, first + i * step) : 0;
    char *slice = memory + warp * T::slice_bytes;
    Sum acc[T::mt][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    load_first_weights<T>(p, from, end - begin, qb_shared_address_of(slice));
    held_constants<Sum, each> held;
    held.init(p, io, channel, cls);
    qb_wait_for_dependencies();
    uint32_t residual[each];
#pragma unroll
    for (int i = 0; i < each; i++) {
        const bool there = channel < p.out_c && first + i * step < p.rows;
        residual[i] = there ? qb_residual_bits(p, io, first + i * step, channel) : 0;
    }
    if (T::element == 1 && p.in_signed)
        main_loop<T, true>(p, from, end - begin, qb_shared_address_of(slice), 0, 0, acc);
    else
        main_loop<T, false>(p, from, end - begin, qb_shared_address_of(slice), 0, 0, acc);
    qb_launch_dependents();
    leave_sums<T>(slice, acc);
    __syncthreads();
    if (channel >= p.out_c) return;
    float v[each];
#pragma unroll
    for (int i = 0; i < each; i++) {
        const int row = first + i * step;
        v[i] = held.scale(p, i, take_sum<T, Sum>(memory, row - row0, channel - channel0));
    }
#pragma unroll 1
    for (int row = first; row < row0 + T::rows && row < p.rows; row += step) {
        qb_store_one(p, io, row, channel, qb_activate_one(p, v[0], residual[0]));
#pragma unroll
        for (int i = 1; i < each; i++) v[i - 1] = v[i], residual[i - 1] = residual[i];
    }
}

static int64_t tiles_of(const qb_cuda_conv *p, int rows, int channels) {
    return (int64_t)(p->n_pad / channels) * ((p->rows + rows - 1) / rows);
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    return tiles_of(p, M, N) <= QB_SLICED_TILES;
}

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    typedef qb_epilogue_of<EPILOGUE> E;
    typedef sliced_tile<M, N, K, GROUPS, E::f16 ? 2 : 1> T;
    static_assert(T::shared_bytes == QB_CUDA_SHARED_SLICED(M, N, K, GROUPS), "what it asks for");
    const auto kernel = conv_mma_sliced<T, typename E::sum>;
    if (!call->io) return qb_reserve_shared(kernel, T::shared_bytes);
    return qb_launch(kernel, (unsigned)tiles_of(call->conv, M, N), T::threads, T::shared_bytes,
                     call->stream, *call->conv, *call->io);
}

#endif

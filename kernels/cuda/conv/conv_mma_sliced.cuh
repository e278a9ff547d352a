// INT8 and f16 convolution on mma.sync for few output pixels, as at batch 1: a block has 16 pixels
// x 64 channels, and its warps share out K (sliced K), so that all of it is under way at once. What
// such a launch takes is latency, of loads and of instructions that no cache has yet: residuals are
// read before the sums are there, and the code of activations and stores, which elements go through
// one by one, is there once.
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

// The constants of a channel are in the first-level cache when its sums are there.
QB_DEVICE void prefetch_constants(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel) {
    const char *at = io.packed + (size_t)channel * 4;
    asm volatile("prefetch.global.L1 [%0];" ::"l"(at + p.at_multiplier));
    asm volatile("prefetch.global.L1 [%0];" ::"l"(at + p.at_bias + p.middle * p.n_pad * 4));
    asm volatile("prefetch.global.L1 [%0];" ::"l"(at + p.at_float_bias));
}

template <class T, class Sum>
static __global__ void __launch_bounds__(T::threads)
    conv_mma_sliced(const __grid_constant__ qb_cuda_conv p,
                    const __grid_constant__ qb_cuda_conv_io io) {
    extern __shared__ __align__(128) char memory[];
    const int columns = p.n_pad / T::channels, warp = threadIdx.x >> 5;
    const int row0 = blockIdx.x / columns * T::rows, channel0 = blockIdx.x % columns * T::channels;
    const int all = p.taps * (p.k_pad * T::element / T::k);
    const int begin = all * warp / T::warps, end = all * (warp + 1) / T::warps;
    const int channel = channel0 + threadIdx.x % T::channels; // in the epilogue
    prefetch_constants(p, io, channel);
    char *slice = memory + warp * T::slice_bytes;
    Sum acc[T::mt][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    load_first_weights<T>(p, from, end - begin, qb_shared_address_of(slice));
    qb_wait_for_dependencies();
    constexpr int each = T::rows * T::channels / T::threads; // results of a thread
    const int first = row0 + threadIdx.x / T::channels, step = T::threads / T::channels;
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
        const Sum sum = take_sum<T, Sum>(memory, row - row0, channel - channel0);
        v[i] = qb_scale_sum(p, io, sum, row < p.rows ? qb_class(p, io, row) : 0, channel);
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

// INT8 and f16 convolution on mma.sync for few output pixels, as at batch 1: a block has 16 pixels
// x 64 channels, and its warps share out K (sliced K), so that all of it is under way at once. What
// such a launch takes is latency, of loads and of instructions that no cache has yet: code is
// short, and elements go through the epilogue one by one.
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
    if (T::element == 1 && p.in_signed)
        main_loop<T, true>(p, from, end - begin, qb_shared_address_of(slice), 0, 0, acc);
    else
        main_loop<T, false>(p, from, end - begin, qb_shared_address_of(slice), 0, 0, acc);
    qb_launch_dependents();
    leave_sums<T>(slice, acc);
    __syncthreads();
    if (channel >= p.out_c) return;
#pragma unroll 1
    for (int i = threadIdx.x / T::channels; i < T::rows; i += T::threads / T::channels) {
        if (row0 + i >= p.rows) break;
        const Sum sum = take_sum<T, Sum>(memory, i, channel - channel0);
        qb_epilogue_one(p, io, sum, row0 + i, qb_class(p, io, row0 + i), channel);
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

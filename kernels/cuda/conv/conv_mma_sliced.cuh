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

#define QB_SLICED_EACH 4 // channels of a pixel that a thread adds up and stores

// The constants of a thread's channels, read before there are sums. Of which class the pixel is
// takes two loads, and its biases another one that waits for them.
template <class Sum> struct held_constants {
    float multiplier[QB_SLICED_EACH], more[QB_SLICED_EACH];
    int bias[QB_SLICED_EACH];

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel, int cls) {
        const uint4 none = {};
        read(qb_load16(io.packed + p.at_multiplier + channel * 4), multiplier);
        read(qb_load16(io.packed + p.at_bias + (cls * p.n_pad + channel) * 4), bias);
        read(p.has_float_bias ? qb_load16(io.packed + p.at_float_bias + channel * 4) : none, more);
    }

    template <class T> static __device__ void read(uint4 words, T (&to)[QB_SLICED_EACH]) {
        memcpy(to, &words, sizeof to);
    }

    __device__ float scale(const qb_cuda_conv &p, int i, int sum) const {
        const float f32 = __fmul_rn((float)(sum + bias[i]), multiplier[i]);
        return p.has_float_bias ? __fadd_rn(f32, more[i]) : f32;
    }
};
template <> struct held_constants<float> {
    float bias[QB_SLICED_EACH];

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel, int) {
        held_constants<int>::read(qb_load16(io.packed + p.at_float_bias + channel * 4), bias);
    }

    __device__ float scale(const qb_cuda_conv &, int i, float sum) const {
        return __fadd_rn(sum, bias[i]);
    }
};

// A thread's elements of the residual: with one load where they lie on a boundary of four.
QB_DEVICE void read_residual(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row, int channel,
                             uint32_t (&to)[QB_SLICED_EACH]) {
    const size_t at = (size_t)row * p.res_total + p.res_offset + channel;
    if (p.eights && p.res_dtype != QB_DTYPE_F32) {
        const bool half = p.res_dtype == QB_DTYPE_F16;
        const uint2 two = half ? *(const uint2 *)((const uint16_t *)io.residual + at)
                               : make_uint2(*(const uint32_t *)((const char *)io.residual + at), 0);
#pragma unroll
        for (int i = 0; i < QB_SLICED_EACH; i++)
            to[i] = half ? (i < 2 ? two.x : two.y) >> i % 2 * 16 & 0xffffu : two.x >> i * 8 & 0xffu;
        return;
    }
#pragma unroll
    for (int i = 0; i < QB_SLICED_EACH; i++)
        to[i] = channel + i < p.out_c ? qb_residual_bits(p, io, row, channel + i) : 0;
}

// Four channels of a pixel, on a boundary of four, that no activation but bounds follows: side by
// side, for each waits for itself alone.
template <bool MAYBE_NAN>
QB_DEVICE void store_bounded(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row, int channel,
                             const uint32_t (&residual)[QB_SLICED_EACH],
                             float (&v)[QB_SLICED_EACH]) {
    const size_t at = (size_t)row * p.out_total + p.out_offset + channel;
    if (p.res_dtype != QB_DTYPE_NONE) {
#pragma unroll
        for (int i = 0; i < QB_SLICED_EACH; i++) {
            if (p.rounds) v[i] = qb_round_first(p, v[i]);
            v[i] = __fadd_rn(v[i], qb_residual_value(p, residual[i]));
        }
    }
    if (p.out_dtype == QB_DTYPE_F16) {
#pragma unroll
        for (int i = 0; i < QB_SLICED_EACH; i++)
            v[i] = qb_at_most(qb_at_least(v[i], p.lowest), p.highest);
        *(uint2 *)((__half *)io.out + at) =
            make_uint2(qb_f16_pair(v[0], v[1]), qb_f16_pair(v[2], v[3]));
        return;
    }
    uint32_t bits[QB_SLICED_EACH];
#pragma unroll
    for (int i = 0; i < QB_SLICED_EACH; i++) bits[i] = qb_quantized_bits<MAYBE_NAN>(p, v[i]);
    *(uint32_t *)((char *)io.out + at) = __vadd4(qb_pack4(bits[0], bits[1], bits[2], bits[3]),
                                                 (uint32_t)(p.out_zero & 0xff) * 0x01010101u);
}

template <class T, class Sum>
static __global__ void __launch_bounds__(T::threads)
    conv_mma_sliced(const __grid_constant__ qb_cuda_conv p,
                    const __grid_constant__ qb_cuda_conv_io io, bool bounded) {
    extern __shared__ __align__(128) char memory[];
    const int row0 = blockIdx.y * T::rows, channel0 = blockIdx.x * T::channels;
    const int warp = threadIdx.x >> 5, all = p.taps * (p.k_pad * T::element / T::k);
    const int begin = all * warp / T::warps, end = all * (warp + 1) / T::warps;
    // in the epilogue
    constexpr int across = T::channels / QB_SLICED_EACH;
    static_assert(across * T::rows == T::threads, "results of a thread");
    const int channel = channel0 + threadIdx.x % across * QB_SLICED_EACH;
    const int row = row0 + threadIdx.x / across;
    const bool there = channel < p.out_c && row < p.rows;
    const int cls = T::element == 1 && row < p.rows ? qb_class(p, io, row) : 0;
    char *slice = memory + warp * T::slice_bytes;
    Sum acc[T::mt][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    load_first_weights<T>(p, from, end - begin, qb_shared_address_of(slice));
    held_constants<Sum> held;
    held.init(p, io, channel, cls);
    qb_wait_for_dependencies();
    uint32_t residual[QB_SLICED_EACH] = {};
    if (there && p.res_dtype != QB_DTYPE_NONE) read_residual(p, io, row, channel, residual);
    load_first_data<T>(p, from, end - begin, qb_shared_address_of(slice));
    if (T::element == 1 && p.in_signed)
        main_loop<T, true>(p, from, end - begin, qb_shared_address_of(slice), 0, 0, acc);
    else
        main_loop<T, false>(p, from, end - begin, qb_shared_address_of(slice), 0, 0, acc);
    qb_launch_dependents();
    leave_sums<T>(slice, acc);
    __syncthreads();
    if (!there) return;
    Sum sum[QB_SLICED_EACH];
    float v[QB_SLICED_EACH];
    take_sums<T>(memory, row - row0, (channel - channel0) / QB_SLICED_EACH, sum);
#pragma unroll
    for (int i = 0; i < QB_SLICED_EACH; i++) v[i] = held.scale(p, i, sum[i]);
    if (bounded) {
        store_bounded<T::element != 1>(p, io, row, channel, residual, v);
        return;
    }
#pragma unroll 1
    for (int i = channel; i < channel + QB_SLICED_EACH && i < p.out_c; i++) {
        qb_store_one(p, io, row, i, qb_activate_one(p, v[0], residual[0]));
#pragma unroll
        for (int j = 1; j < QB_SLICED_EACH; j++) v[j - 1] = v[j], residual[j - 1] = residual[j];
    }
}

// Does nothing but bounds stand in the epilogue, of eight channels on a boundary?
static bool is_bounded(const qb_cuda_conv *p) {
    const bool none = p->act == QB_ACT_NONE, adds = p->res_dtype != QB_DTYPE_NONE;
    const bool q8 = p->res_dtype == QB_DTYPE_U8 || p->res_dtype == QB_DTYPE_S8;
    const bool last = !adds || (!p->act_first && (q8 || p->out_dtype == QB_DTYPE_F16));
    return p->eights && p->out_dtype != QB_DTYPE_F32 &&
           (none || (last && (p->act == QB_ACT_RELU || p->act == QB_ACT_CLIP)));
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    return taps_fit(p) && (int64_t)(p->n_pad / N) * ((p->rows + M - 1) / M) <= QB_SLICED_TILES;
}

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    typedef qb_epilogue_of<EPILOGUE> E;
    typedef sliced_tile<M, N, K, GROUPS, E::f16 ? 2 : 1> T;
    static_assert(T::shared_bytes == QB_CUDA_SHARED_SLICED(M, N, K, GROUPS), "what it asks for");
    const auto kernel = conv_mma_sliced<T, typename E::sum>;
    if (!call->io) return qb_reserve_shared(kernel, T::shared_bytes);
    const qb_cuda_conv *p = call->conv;
    const dim3 blocks((unsigned)(p->n_pad / N), (unsigned)((p->rows + M - 1) / M));
    return qb_launch(kernel, blocks, T::threads, T::shared_bytes, call->stream, *p, *call->io,
                     is_bounded(p));
}

#endif

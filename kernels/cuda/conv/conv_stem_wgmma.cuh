// What the first layer's kernels on wgmma share: how weight and pixels lie in shared memory, and
// the sums of a row; see conv_stem_wgmma.cu.
#ifndef QB_CUDA_CONV_STEM_WGMMA_CUH
#define QB_CUDA_CONV_STEM_WGMMA_CUH

#include "kernels/cuda/common/hopper.cuh"
#include "kernels/cuda/conv/conv_stem_pixels.cuh"
#include "kernels/cuda/conv/tile_epilogue.cuh"

#define THREADS 256
#define ENTRIES QB_CUDA_STEM_ENTRIES // of a line; the last four are for the other half of K
#define WIDTH (ENTRIES - 4)
#define ENTRY_BYTES 16
#define WEIGHT_BYTES 2048 // of a row of the kernel: two halves of K, 64 channels

// The packed words of lane 4 g + t, row g of a tile: t and t + 4, one of either half.
QB_DEVICE void load_weight(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                           uint32_t *to) {
    int words = p.kernel_h * (WEIGHT_BYTES / 8);
    const uint2 *packed = (const uint2 *)io.packed + (size_t)(channel / 64) * words;
    for (int i = threadIdx.x; i < words; i += THREADS) {
        uint2 v = packed[i];
        uint32_t *row = to + i / 256 * 512 + i % 256;
        row[0] = v.x;
        row[256] = v.y;
    }
}

// Fills `lines` lines with the data from (iy, ix) on. AT_ONCE entries of a thread are on their way
// at a time.
template <int AT_ONCE>
QB_DEVICE void load_lines(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int image, int iy,
                          int ix, int lines, uint4 *entries) {
    for (int i = threadIdx.x; i < lines * ENTRIES; i += AT_ONCE * THREADS) {
        pixels v[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int at = i + k * THREADS;
            v[k] = fetch_pixels<false>(p, io, image, at < lines * ENTRIES ? iy + at / ENTRIES : -1,
                                       ix + at % ENTRIES * p.stride_w);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (i + k * THREADS < lines * ENTRIES)
                entries[i + k * THREADS] = arrange_pixels<false>(p, v[k]);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

// An operand of cores that are `half` bytes apart along K and follow each other along the rows.
QB_DEVICE uint64_t operand(uint32_t address, int half) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(half >> 4) << 16 |
           (uint64_t)(8 * ENTRY_BYTES >> 4) << 32;
}

template <bool SIGNED>
QB_DEVICE void multiply(const qb_cuda_conv &p, uint32_t line, uint32_t weight, int (&sum)[32]) {
    uint64_t a = operand(line, 4 / p.stride_w * ENTRY_BYTES), b = operand(weight, WEIGHT_BYTES / 2);
    qb_wgmma_fence();
    qb_wgmma<64, SIGNED>(sum, a, b, 0);
#pragma unroll 1
    for (int r = 1; r < p.kernel_h; r++) {
        a += ENTRIES * ENTRY_BYTES / 16;
        b += WEIGHT_BYTES / 16;
        qb_wgmma<64, SIGNED>(sum, a, b, 1);
    }
    qb_wgmma_commit();
    qb_wgmma_wait<0>();
}

#endif

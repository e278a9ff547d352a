// What the first layer's kernels on wgmma share: how weight and pixels lie in shared memory, and
// the sums of a row; see conv_stem_wgmma.cu.
#ifndef QB_CUDA_CONV_STEM_WGMMA_CUH
#define QB_CUDA_CONV_STEM_WGMMA_CUH

#include "kernels/cuda/common/hopper.cuh"
#include "kernels/cuda/common/launch.cuh"
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

// The word at `at`, a multiple of 4 in memory; bytes outside the data are 0.
QB_DEVICE uint32_t load_word(const uint8_t *data, int64_t size, int64_t at) {
    if (at >= 0 && at + 4 <= size) return __ldg((const uint32_t *)(data + at));
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        if (at + i >= 0 && at + i < size) word |= (uint32_t)data[at + i] << i * 8;
    return word;
}

// Four pixels from `ix` on as they were read: words from a multiple of 4 on, of which the first
// `past` bytes are others'.
struct pixels {
    uint32_t word[5];
    int past, ix; // ix: far outside where the line does not exist
};

QB_DEVICE pixels fetch_pixels(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int image, int iy,
                              int ix) {
    pixels v = {{}, 0, -8};
    if (iy < 0 || iy >= p.in_h || ix + 3 < 0 || ix >= p.in_w) return v;
    const uint8_t *data = (const uint8_t *)io.in;
    int64_t size = (int64_t)p.batch * p.in_h * p.in_w * p.in_c;
    int64_t at = (((int64_t)image * p.in_h + iy) * p.in_w + ix) * p.in_c;
    v.ix = ix;
    v.past = (int)((uintptr_t)(data + at) & 3);
    at -= v.past;
    if (at >= 0 && at + 20 <= size) {
#pragma unroll
        for (int i = 0; i < 5; i++)
            if (i <= p.in_c) v.word[i] = __ldg((const uint32_t *)(data + at) + i);
    } else {
#pragma unroll
        for (int i = 0; i < 5; i++)
            if (i <= p.in_c) v.word[i] = load_word(data, size, at + i * 4);
    }
    return v;
}

// A word a pixel; those outside the line are the zero point.
QB_DEVICE uint4 arrange_pixels(const qb_cuda_conv &p, const pixels &v) {
    uint32_t packed[4], pixel[4];
#pragma unroll
    for (int i = 0; i < 4; i++) packed[i] = __funnelshift_r(v.word[i], v.word[i + 1], v.past * 8);
    pixel[0] = packed[0];
    switch (p.in_c) {
    case 1:
        pixel[1] = packed[0] >> 8, pixel[2] = packed[0] >> 16, pixel[3] = packed[0] >> 24;
        break;
    case 2: pixel[1] = packed[0] >> 16, pixel[2] = packed[1], pixel[3] = packed[1] >> 16; break;
    case 3:
        pixel[1] = __funnelshift_r(packed[0], packed[1], 24);
        pixel[2] = __funnelshift_r(packed[1], packed[2], 16);
        pixel[3] = packed[2] >> 8;
        break;
    default: pixel[1] = packed[1], pixel[2] = packed[2], pixel[3] = packed[3];
    }
    if (v.ix < 0 || v.ix + 3 >= p.in_w) {
        uint32_t fill = (uint32_t)(p.fill & 255) * 0x01010101u;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (v.ix + i < 0 || v.ix + i >= p.in_w) pixel[i] = fill;
    }
    return make_uint4(pixel[0], pixel[1], pixel[2], pixel[3]);
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
            v[k] = fetch_pixels(p, io, image, at < lines * ENTRIES ? iy + at / ENTRIES : -1,
                                ix + at % ENTRIES * p.stride_w);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (i + k * THREADS < lines * ENTRIES)
                entries[i + k * THREADS] = arrange_pixels(p, v[k]);
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

// Pixels of at most four channels as the first layer's kernels lay them down: four channels each,
// four pixels of 8-bit values or two of f16 in 16 bytes.
#ifndef QB_CUDA_CONV_STEM_PIXELS_CUH
#define QB_CUDA_CONV_STEM_PIXELS_CUH

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/conv.h"

template <bool F16> static constexpr int pixels_of_16_bytes = F16 ? 2 : 4;

// The word at `at`, a multiple of 4 in memory; bytes outside the data are 0.
QB_DEVICE uint32_t load_word(const uint8_t *data, int64_t size, int64_t at) {
    if (at >= 0 && at + 4 <= size) return __ldg((const uint32_t *)(data + at));
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        if (at + i >= 0 && at + i < size) word |= (uint32_t)data[at + i] << i * 8;
    return word;
}

// Pixels from `ix` on as they were read: words from a multiple of 4 on, of which the first `past`
// bytes are others'.
struct pixels {
    uint32_t word[5];
    int past, ix; // ix: far outside where the line does not exist
};

// For channels that lie together.
template <bool F16>
QB_DEVICE pixels fetch_pixels(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int image, int iy,
                              int ix) {
    constexpr int ELEMENT = F16 ? 2 : 1;
    pixels v = {{}, 0, -8};
    if (iy < 0 || iy >= p.in_h || ix + pixels_of_16_bytes<F16> <= 0 || ix >= p.in_w) return v;
    const uint8_t *data = (const uint8_t *)io.in;
    int64_t size = (int64_t)p.batch * p.in_h * p.in_w * p.in_c * ELEMENT;
    int64_t at = (((int64_t)image * p.in_h + iy) * p.in_w + ix) * p.in_c * ELEMENT;
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

// Those outside the line are the padding's value. Channels that do not exist are multiplied by
// weight 0: of f16 they are 0, for another pixel's may be infinite.
template <bool F16> QB_DEVICE uint4 arrange_pixels(const qb_cuda_conv &p, const pixels &v) {
    uint32_t packed[4], word[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++) packed[i] = __funnelshift_r(v.word[i], v.word[i + 1], v.past * 8);
    word[0] = packed[0];
    switch (p.in_c) {
    case 1:
        if (F16)
            word[0] = packed[0] & 0xffffu, word[2] = packed[0] >> 16;
        else
            word[1] = packed[0] >> 8, word[2] = packed[0] >> 16, word[3] = packed[0] >> 24;
        break;
    case 2:
        if (F16)
            word[2] = packed[1];
        else
            word[1] = packed[0] >> 16, word[2] = packed[1], word[3] = packed[1] >> 16;
        break;
    case 3:
        if (F16) {
            word[1] = packed[1] & 0xffffu;
            word[2] = __funnelshift_r(packed[1], packed[2], 16);
            word[3] = packed[2] >> 16;
        } else {
            word[1] = __funnelshift_r(packed[0], packed[1], 24);
            word[2] = __funnelshift_r(packed[1], packed[2], 16);
            word[3] = packed[2] >> 8;
        }
        break;
    default: word[1] = packed[1], word[2] = packed[2], word[3] = packed[3];
    }
    constexpr int COUNT = pixels_of_16_bytes<F16>;
    if (v.ix < 0 || v.ix + COUNT > p.in_w) {
        uint32_t fill = (uint32_t)(p.fill & 255) * 0x01010101u;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int x = v.ix + i * COUNT / 4;
            if (x < 0 || x >= p.in_w) word[i] = fill;
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// The same of channels among others', one by one.
template <bool F16>
QB_DEVICE uint4 gather_pixels(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int image, int iy,
                              int ix) {
    constexpr int COUNT = pixels_of_16_bytes<F16>, BITS = F16 ? 16 : 8;
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int x = ix + i * COUNT / 4;
        bool there = iy >= 0 && iy < p.in_h && x >= 0 && x < p.in_w;
        size_t at = there ? (((size_t)image * p.in_h + iy) * p.in_w + x) * p.in_total : 0;
        word[i] = there ? 0u : (uint32_t)(p.fill & 255) * 0x01010101u;
#pragma unroll
        for (int k = 0; k < COUNT; k++) { // a word has as many channels as 16 bytes have pixels
            int c = i * COUNT % 4 + k;
            if (!there || c >= p.in_c) continue;
            uint32_t v = F16 ? (uint32_t)((const uint16_t *)io.in)[at + p.in_offset + c]
                             : (uint32_t)((const uint8_t *)io.in)[at + p.in_offset + c];
            word[i] |= v << k * BITS;
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

#endif

// Results whose channels lie on no boundary, as a detector's 255 or a classifier's 1000: rows are
// gathered in shared memory and leave by words.
#ifndef QB_CUDA_EPILOGUE_UNALIGNED_CUH
#define QB_CUDA_EPILOGUE_UNALIGNED_CUH

#include "kernels/cuda/conv/epilogue.cuh"

// A warp's eight rows of 64 channels lie side by side in shared memory, and go to where they belong
// in the result, from element (`row`, `channel`) on: row r begins at `to` + r `pitch`, and has
// `bytes` that count. Three ways: rows begin at words; at halves of words; anywhere. Steps that do
// not wait for each other are unrolled.
struct qb_unaligned_rows {
    char *to;
    size_t pitch;
    int rows, bytes;
};

QB_DEVICE void qb_store_rows_of_words(const qb_unaligned_rows &p, const uint32_t *box, int size) {
    int words = 16 * size; // of a row: a power of two
#pragma unroll 4
    for (int it = 0; it < 4 * size; it++) {
        int at = it * 32 + (int)(threadIdx.x & 31), r = at / words, k = at % words;
        if (r >= p.rows || 4 * k >= p.bytes) continue;
        char *end = p.to + r * p.pitch + 4 * k;
        uint32_t word = box[at];
        if (4 * k + 4 <= p.bytes)
            *(uint32_t *)end = word;
        else
            for (int b = 0; b < p.bytes - 4 * k; b++) end[b] = (char)(word >> 8 * b);
    }
}

// A row that begins in the middle of a word: its first and last halves go by themselves.
QB_DEVICE void qb_store_rows_of_f16(const qb_unaligned_rows &p, const uint32_t *box) {
    int k = threadIdx.x & 31, n = p.bytes / 2; // f16 values
#pragma unroll
    for (int r = 0; r < 8; r++) {
        if (r >= p.rows) break;
        char *to = p.to + r * p.pitch;
        int odd = (int)((uintptr_t)to >> 1 & 1), first = 2 * k + odd; // of this word's halves
        uint32_t low = box[r * 32 + k], high = box[r * 32 + (k < 31 ? k + 1 : k)];
        uint32_t word = odd ? __funnelshift_r(low, high, 16) : low;
        if (first + 1 < n)
            *(uint32_t *)(to + 2 * first) = word;
        else if (first < n)
            *(uint16_t *)(to + 2 * first) = (uint16_t)word;
        if (odd && k == 0) *(uint16_t *)to = (uint16_t)low;
    }
}

QB_DEVICE void qb_store_rows_of_bytes(const qb_unaligned_rows &p, const uint32_t *box, int size) {
    const char *bytes = (const char *)box;
#pragma unroll 1
    for (int at = threadIdx.x & 31; at < 512 * size; at += 32) {
        int r = at / (64 * size), k = at % (64 * size);
        if (r < p.rows && k < p.bytes) p.to[r * p.pitch + k] = bytes[at];
    }
}

QB_DEVICE void qb_store_unaligned_rows(const qb_cuda_conv &p, void *out, const uint32_t *box,
                                       int row, int channel, int size) {
    size_t first = (size_t)row * p.out_total + p.out_offset + channel;
    const qb_unaligned_rows rows = {(char *)out + first * size, (size_t)p.out_total * size,
                                    min(8, p.rows - row), min(64, p.out_c - channel) * size};
    int steps = (p.out_total | p.out_offset) * size; // of all rows, from a word on
    if (steps % 4 == 0)
        qb_store_rows_of_words(rows, box, size);
    else if (size == 2)
        qb_store_rows_of_f16(rows, box);
    else
        qb_store_rows_of_bytes(rows, box, size);
}

// A thread's sums, clamped, to channels on no boundary; see qb_epilogue. `box`: 2
// KiB of shared memory for each warp, all lanes of which call together.
template <class E, int ROWS, int BLOCKS, class Acc, class RowOf>
QB_DEVICE void qb_epilogue_unaligned(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                                     RowOf row_of, Acc acc, void *box) {
    const int lane = threadIdx.x & 31;
    const int size = p.out_dtype == QB_DTYPE_F32 ? 4 : p.out_dtype == QB_DTYPE_F16 ? 2 : 1;
    uint4 *mine = (uint4 *)box + lane * size;
#pragma unroll 1
    for (int unit = 0; unit < BLOCKS * ROWS; unit++) {
        int first = channel + unit / ROWS * 64, row = row_of(unit % ROWS) - lane / 4;
        if (first >= p.out_c) break;
        qb_float_constants<E> constants;
        constants.read(p, io.packed + (size_t)(first + lane % 4 * 16) * 4, true);
        typename E::sum sum[16];
        qb_take16<ROWS, BLOCKS>(unit, acc, sum);
        float v[16];
#pragma unroll
        for (int j = 0; j < 16; j++) v[j] = constants.value(sum[j], j);
        if (size > 1 && p.act != QB_ACT_NONE) {
#pragma unroll
            for (int j = 0; j < 16; j++) v[j] = qb_at_most(qb_at_least(v[j], p.lowest), p.highest);
        }
        __syncwarp(); // the box is free
        if (size == 1) {
            mine[0] = qb_pack_q8<true>(p, v);
        } else if (size == 2) {
#pragma unroll
            for (int j = 0; j < 16; j += 8)
                mine[j / 8] =
                    make_uint4(qb_f16_pair(v[j], v[j + 1]), qb_f16_pair(v[j + 2], v[j + 3]),
                               qb_f16_pair(v[j + 4], v[j + 5]), qb_f16_pair(v[j + 6], v[j + 7]));
        } else {
#pragma unroll
            for (int j = 0; j < 16; j += 4)
                mine[j / 4] = make_uint4(__float_as_uint(v[j]), __float_as_uint(v[j + 1]),
                                         __float_as_uint(v[j + 2]), __float_as_uint(v[j + 3]));
        }
        __syncwarp();
        qb_store_unaligned_rows(p, io.out, (const uint32_t *)box, row, first, size);
    }
}

#endif

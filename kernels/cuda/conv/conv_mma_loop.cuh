// The sums of a tile on mma.sync, see conv_mma.cuh: copies to shared memory, multiplication,
// partial sums. Plain C++ above the instructions of mma.cuh and copies.cuh, in whose place a test
// puts its own to run this on the host (tests/device/mma_tiles.cpp).
#ifndef QB_CUDA_CONV_MMA_LOOP_CUH
#define QB_CUDA_CONV_MMA_LOOP_CUH

#include <string.h>

#include "kernels/cuda/common/copies.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/tile_tactics.h"

// Byte offset of 16-byte piece `piece` of row `row` of K bytes.
template <int K> QB_DEVICE uint32_t swizzled(int row, int piece) {
    return (uint32_t)(row * K + ((piece ^ (K == 64 ? row >> 1 & 3 : row & 7)) << 4));
}

// A tile of ROWS x CHANNELS and a step of K bytes of elements of ELEMENT bytes, for GROUPS times
// four warps.
template <int ROWS, int CHANNELS, int K, int GROUPS, int ELEMENT> struct tile {
    static constexpr int rows = ROWS, channels = CHANNELS, k = K, element = ELEMENT;
    static constexpr int warps = 4 * GROUPS, threads = 32 * warps;
    static constexpr int warps_m = warps / (CHANNELS / 64); // warps side by side along the rows
    static constexpr int mt = ROWS / warps_m / 16;          // of 16 rows for each warp
    static constexpr int stages = QB_CUDA_MMA_STAGES(K);
    static constexpr int pieces = K / 16;          // of a row of a step
    static constexpr int lines = threads / pieces; // that a piece of each thread makes up
    static constexpr int a_pieces = ROWS / lines, b_pieces = CHANNELS / lines; // of a thread
    static constexpr int stage_bytes = (ROWS + CHANNELS) * K;
    static constexpr int shared_bytes = stages * stage_bytes;
    static_assert(K == 64 || K == 128, "permutation");
    static_assert(warps_m * mt * 16 == ROWS && mt <= 4, "warps");
    static_assert(lines % 8 == 0 && a_pieces * lines == ROWS && b_pieces * lines == CHANNELS,
                  "pieces");
    static_assert(shared_bytes == QB_CUDA_MMA_SHARED(ROWS, CHANNELS, K), "what tactics ask for");
    static_assert(threads * 64 <= shared_bytes, "staging of the general epilogue");
    QB_DEVICE int thread() { return threadIdx.x; }
    QB_DEVICE void sync() { __syncthreads(); }
};

// A tile whose warps share out K: each computes sums of all of it, from steps in a slice of shared
// memory of its own, and waits for no other until they are added up.
template <int ROWS, int CHANNELS, int K, int GROUPS, int ELEMENT> struct sliced_tile {
    static constexpr int rows = ROWS, channels = CHANNELS, k = K, element = ELEMENT;
    static constexpr int warps = 4 * GROUPS, threads = 32 * warps;
    static constexpr int mt = ROWS / 16, stages = QB_CUDA_SLICED_STAGES;
    static constexpr int pieces = K / 16, lines = 32 / pieces;
    static constexpr int a_pieces = ROWS / lines, b_pieces = CHANNELS / lines; // of a lane
    static constexpr int stage_bytes = (ROWS + CHANNELS) * K, slice_bytes = stages * stage_bytes;
    static constexpr int shared_bytes = warps * slice_bytes;
    static_assert(K == 64 && CHANNELS == 64 && mt * 16 == ROWS, "layout of a warp's sums");
    static_assert(ROWS * CHANNELS * 4 <= slice_bytes, "sums take the place of the steps");
    QB_DEVICE int thread() { return threadIdx.x & 31; }
    QB_DEVICE void sync() { __syncwarp(); }
};

// Which taps of a window lie inside of the data: two words, of a line's taps (fields of 15 bits)
// and of rows and planes (7 bits), have the first tap and how far the last one is from the field's
// largest value. Less than a tap's own word, whose fields have a guard bit above them, that leaves
// all guards where the tap is one of them.
static constexpr int line_field = 0x7fff, field = 0x7f;
static constexpr uint32_t line_guards = 0x80008000u, guards = 0x80808080u;
static constexpr uint32_t no_tap = line_field; // no line is as long

QB_DEVICE uint32_t line_taps_of(int first, int last) {
    return (uint32_t)first | (uint32_t)(line_field - last) << 16;
}
QB_DEVICE uint32_t taps_of(int first_row, int last_row, int first_plane, int last_plane) {
    return (uint32_t)first_row | (uint32_t)(field - last_row) << 8 | (uint32_t)first_plane << 16 |
           (uint32_t)(field - last_plane) << 24;
}

struct tap_range {
    int first, last; // last < first: none
    // Of a window of `taps` whose first one is at `at` of `size`.
    __device__ tap_range(int at, int size, int taps, int dilation) {
        first = at < 0 ? -at : 0, last = size - 1 - at;
        if (dilation > 1)
            first = (first + dilation - 1) / dilation, last = last < 0 ? -1 : last / dilation;
        last = min(last, taps - 1);
    }
};

// Do the fields hold the window?
static inline bool taps_fit(const qb_cuda_conv *p) {
    return p->kernel_w < line_field && p->kernel_h < field && p->kernel_d < field;
}

// Is the data a matrix as it lies, a row for each of the result? Then nothing has to be divided by
// sizes, which takes as long as a small product itself.
QB_DEVICE bool is_matrix(const qb_cuda_conv &p) {
    return p.taps == 1 && (p.stride_d | p.stride_h | p.stride_w) == 1 &&
           (p.pad_d | p.pad_h | p.pad_w) == 0 && p.in_d == p.out_d && p.in_h == p.out_h &&
           p.in_w == p.out_w;
}

// What one thread copies: fixed rows, one 16-byte column of K. K is counted in bytes.
template <class T> struct loader {
    const char *window[T::a_pieces]; // its first pixel, which may lie in the padding
    uint32_t line_taps[T::a_pieces], taps[T::a_pieces];
    const char *weight;
    int64_t offset;             // of the next step in a window: of its tap's pixel and of k
    int tap_t, tap_r, tap_s, k; // next step
    int channels;               // from the first that the tile meets on
    uint32_t to;

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row0, int channel0,
                         int step) {
        int piece = T::thread() % T::pieces, line = T::thread() / T::pieces;
        const bool matrix = is_matrix(p);
        int tap_bytes = p.k_pad * T::element, tap = 0;
        tap_t = tap_r = tap_s = 0;
        k = step * T::k;
        if (!matrix) {
            const int k_steps = tap_bytes / T::k;
            tap = step / k_steps;
            tap_t = tap / p.kernel_w / p.kernel_h;
            tap_r = tap / p.kernel_w % p.kernel_h;
            tap_s = tap % p.kernel_w;
            k -= tap * tap_bytes;
        }
        k += piece * 16;
        offset = offset_of_tap(p) + k;
        int first = T::channels == 64 && p.group > 1 ? QB_CUDA_CONV_FIRST(&p, channel0) : 0;
        channels = (p.in_c - first) * T::element;
        to = swizzled<T::k>(line, piece); // rows apart by a multiple of 8 share the permutation
        weight = io.packed + (size_t)(channel0 + line) * p.taps * tap_bytes +
                 (size_t)tap * tap_bytes + k;
        const char *data = (const char *)io.in + (size_t)(p.in_offset + first) * T::element;
#pragma unroll
        for (int i = 0; i < T::a_pieces; i++) {
            const int row = row0 + line + i * T::lines;
            int64_t pixel = row;
            line_taps[i] = taps[i] = 0;
            if (!matrix) {
                int ox = row % p.out_w, line_of = row / p.out_w, oy = line_of % p.out_h;
                int plane = line_of / p.out_h, oz = plane % p.out_d, n = plane / p.out_d;
                int z = oz * p.stride_d - p.pad_d, y = oy * p.stride_h - p.pad_h;
                int x = ox * p.stride_w - p.pad_w;
                pixel = (int64_t)((n * p.in_d + z) * p.in_h + y) * p.in_w + x;
                const tap_range of_z(z, p.in_d, p.kernel_d, p.dilation_d);
                const tap_range of_y(y, p.in_h, p.kernel_h, p.dilation_h);
                const tap_range of_x(x, p.in_w, p.kernel_w, p.dilation_w);
                const bool some =
                    of_z.first <= of_z.last && of_y.first <= of_y.last && of_x.first <= of_x.last;
                line_taps[i] = some ? line_taps_of(of_x.first, of_x.last) : no_tap;
                if (some) taps[i] = taps_of(of_y.first, of_y.last, of_z.first, of_z.last);
            }
            if (row >= p.rows) line_taps[i] = no_tap;
            window[i] = data + pixel * p.in_total * T::element;
        }
    }

    __device__ int64_t offset_of_tap(const qb_cuda_conv &p) const {
        const int dz = tap_t * p.dilation_d, dy = tap_r * p.dilation_h, dx = tap_s * p.dilation_w;
        return (int64_t)((dz * p.in_h + dy) * p.in_w + dx) * p.in_total * T::element;
    }

    // Both move on to the next step. The 16 bytes of integers that end with channels of others meet
    // weights of 0; of f16, where NaN would stay, they end with zeros.
    __device__ void load_data(const qb_cuda_conv &p, uint32_t stage) {
        const uint32_t line_tap = line_taps_of(tap_s, tap_s) | line_guards;
        const uint32_t tap = taps_of(tap_r, tap_r, tap_t, tap_t) | guards;
        const bool some = k < channels;
        auto is_inside = [&](int i) {
            const uint32_t along = (line_tap - line_taps[i]) | (guards & ~line_guards);
            return (along & (tap - taps[i]) & guards) == guards && some;
        };
        auto slot = [&](int i) { return stage + to + i * (T::lines * T::k); };
        if (T::element == 1 && p.in_pieces_of_8) {
            const bool second = k + 8 < channels;
#pragma unroll
            for (int i = 0; i < T::a_pieces; i++) {
                const bool inside = is_inside(i);
                qb_copy8_if(slot(i), window[i] + offset, inside);
                qb_copy8_if(slot(i) + 8, window[i] + offset + 8, inside && second);
            }
        } else if (T::element == 2 && channels % 16 != 0) {
#pragma unroll
            for (int i = 0; i < T::a_pieces; i++) {
                const bool inside = is_inside(i);
                qb_copy16(slot(i), inside ? window[i] + offset : weight,
                          inside ? min(channels - k, 16) : 0);
            }
        } else {
#pragma unroll
            for (int i = 0; i < T::a_pieces; i++)
                qb_copy16_if(slot(i), window[i] + offset, is_inside(i));
        }
        const int tap_bytes = p.k_pad * T::element;
        k += T::k, offset += T::k;
        if (k < tap_bytes) return;
        k -= tap_bytes;
        if (++tap_s == p.kernel_w) {
            tap_s = 0;
            if (++tap_r == p.kernel_h) tap_r = 0, tap_t++;
        }
        offset = offset_of_tap(p) + k;
    }

    __device__ void load_weight(const qb_cuda_conv &p, uint32_t stage) {
        int tap_bytes = p.k_pad * T::element;
#pragma unroll
        for (int i = 0; i < T::b_pieces; i++)
            qb_copy16_if(stage + T::rows * T::k + to + i * (T::lines * T::k),
                         weight + (size_t)i * T::lines * p.taps * tap_bytes, true);
        weight += T::k;
    }
};

template <class T, bool SIGNED, class Sum>
QB_DEVICE void multiply_step(uint32_t stage, int warp_row, int warp_channel,
                             Sum (&acc)[T::mt][8][4]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < T::k / 32; k++) {
        uint32_t a[T::mt][4];
#pragma unroll
        for (int i = 0; i < T::mt; i++)
            qb_load_matrices(
                a[i], stage + swizzled<T::k>(warp_row + i * 16 + (lane & 15), k * 2 + (lane >> 4)));
#pragma unroll
        for (int j = 0; j < 4; j++) { // 16 channels at a time
            uint32_t b[4];
            qb_load_matrices(
                b, stage + T::rows * T::k +
                       swizzled<T::k>(warp_channel + j * 16 + (lane & 7) + (lane >> 4) * 8,
                                      k * 2 + (lane >> 3 & 1)));
#pragma unroll
            for (int i = 0; i < T::mt; i++) {
                qb_mma<SIGNED>(acc[i][2 * j], a[i], b[0], b[1]);
                qb_mma<SIGNED>(acc[i][2 * j + 1], a[i], b[2], b[3]);
            }
        }
    }
}

// The weights of the steps that are under way first: constants, read while the kernel before this
// one ends.
template <class T>
QB_DEVICE void load_first_weights(const qb_cuda_conv &p, loader<T> &from, int steps,
                                  uint32_t shared) {
#pragma unroll
    for (int s = 0; s < T::stages - 1; s++)
        if (s < steps) from.load_weight(p, shared + s * T::stage_bytes);
}

// Their data, behind load_first_weights.
template <class T>
QB_DEVICE void load_first_data(const qb_cuda_conv &p, loader<T> &from, int steps, uint32_t shared) {
#pragma unroll
    for (int s = 0; s < T::stages - 1; s++) {
        if (s < steps) from.load_data(p, shared + s * T::stage_bytes);
        qb_copies_commit(); // the first: all weights, too
    }
}

// Behind load_first_data. At its end all stages are free.
template <class T, bool SIGNED, class Sum>
QB_DEVICE void main_loop(const qb_cuda_conv &p, loader<T> &from, int steps, uint32_t shared,
                         int warp_row, int warp_channel, Sum (&acc)[T::mt][8][4]) {
    int stage = 0, next = T::stages - 1;
    for (int s = 0; s < steps; s++) {
        qb_copies_wait<T::stages - 2>();
        T::sync();
        if (s + T::stages - 1 < steps) {
            from.load_data(p, shared + next * T::stage_bytes);
            from.load_weight(p, shared + next * T::stage_bytes);
        }
        qb_copies_commit();
        multiply_step<T, SIGNED>(shared + stage * T::stage_bytes, warp_row, warp_channel, acc);
        stage = stage + 1 == T::stages ? 0 : stage + 1;
        next = next + 1 == T::stages ? 0 : next + 1;
    }
    qb_copies_wait<0>();
    T::sync();
}

// Four sums, of either type, as they lie in the workspace.
template <class Sum> QB_DEVICE uint4 words_of(const Sum *low, const Sum *high) {
    uint4 v;
    memcpy(&v.x, low, 8);
    memcpy(&v.z, high, 8);
    return v;
}

template <class T, class Sum>
QB_DEVICE void store_partial(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row0,
                             int channel, Sum (&acc)[T::mt][8][4]) {
    Sum *base = (Sum *)io.workspace + (size_t)blockIdx.y * p.rows * p.n_pad;
#pragma unroll
    for (int i = 0; i < T::mt * 2; i++) {
        int row = row0 + i * 8;
        if (row >= p.rows) continue;
        uint4 *to = (uint4 *)(base + (size_t)row * p.n_pad + channel);
#pragma unroll
        for (int j = 0; j < 4; j++)
            to[j] = words_of(&acc[i / 2][2 * j][i % 2 * 2], &acc[i / 2][2 * j + 1][i % 2 * 2]);
    }
}

// Where four channels' sums of a row lie in a slice: no two lanes that write at once, nor those
// that read a row, meet in a bank.
QB_DEVICE int exchanged(int row, int four) {
    return row * 256 + ((four ^ (four >> 3 & 1) ^ (row & 1) << 1) << 4);
}

// A lane's sums into its warp's slice.
template <class T, class Sum> QB_DEVICE void leave_sums(char *slice, Sum (&acc)[T::mt][8][4]) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < T::mt * 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            *(uint4 *)(slice + exchanged((lane >> 2) + i * 8, (lane & 3) * 4 + j)) =
                words_of(&acc[i / 2][2 * j][i % 2 * 2], &acc[i / 2][2 * j + 1][i % 2 * 2]);
}

// Four sums of all slices, in their order, of channels from 4 `four` on.
template <class T, class Sum>
QB_DEVICE void take_sums(const char *slices, int row, int four, Sum (&sum)[4]) {
    const char *at = slices + exchanged(row, four);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = 0;
#pragma unroll
    for (int w = 0; w < T::warps; w++) {
        Sum part[4];
        memcpy(part, at + w * T::slice_bytes, sizeof part);
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i] += part[i];
    }
}

#endif

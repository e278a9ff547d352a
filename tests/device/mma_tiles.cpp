// The sums of the mma.sync tiles (kernels/cuda/conv/conv_mma_loop.cuh) compiled for the host:
// threads of a block take turns at each barrier, and what a warp does together is computed from
// what its lanes left. Random convolutions, exact in any order, against the definition; no two rows
// that ldmatrix reads at once may lie in the same banks.
#define QB_CUDA_MMA_CUH // in their place:
#define QB_CUDA_COPIES_CUH
#define QB_DEVICE static inline
#define __device__
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

struct uint4 {
    uint32_t x, y, z, w;
};
static struct { int x, y; } threadIdx, blockIdx;

// ---- a block ----

constexpr int THREADS = 256, WARPS = THREADS / 32;
static char memory[163840]; // of a block on 8.0
static size_t shared_bytes; // that the kernel asks for
static ucontext_t threads[THREADS], scheduler;
static bool finished[THREADS];
static int running; // the thread at work
static int warp_waits[WARPS], warp_round[WARPS], block_waits, block_round, block_threads;

static void refuse(const char *what) {
    std::printf("%s\n", what);
    std::exit(1);
}

static void wait_for(int &waits, int &round, int all) {
    const int own = round;
    if (++waits == all) {
        waits = 0;
        round++;
    } else {
        while (round == own) swapcontext(&threads[running], &scheduler);
    }
}

static void sync_warp() { wait_for(warp_waits[running / 32], warp_round[running / 32], 32); }
static void __syncwarp() { sync_warp(); }
static void __syncthreads() { wait_for(block_waits, block_round, block_threads); }

static std::function<void()> program;
static void run_thread() {
    program();
    finished[running] = true;
    swapcontext(&threads[running], &scheduler);
}

static void run_block(int n) {
    static std::vector<char> stacks[THREADS];
    block_threads = n;
    for (int i = 0; i < n; i++) {
        stacks[i].resize(65536);
        finished[i] = false;
        getcontext(&threads[i]);
        threads[i].uc_stack.ss_sp = stacks[i].data();
        threads[i].uc_stack.ss_size = stacks[i].size();
        makecontext(&threads[i], run_thread, 0);
    }
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < n; i++) {
            if (finished[i]) continue;
            any = true;
            running = threadIdx.x = i;
            swapcontext(&scheduler, &threads[i]);
        }
    }
}

// ---- instructions ----

static int min(int a, int b) { return a < b ? a : b; }

static void qb_copy16(uint32_t to, const void *from, int bytes) {
    if (to % 16 || to + 16 > shared_bytes) refuse("a copy outside of shared memory");
    if (bytes < 0 || bytes > 16) refuse("a copy of other than 0 to 16 bytes");
    if (bytes > 0 && (uintptr_t)from % 16) refuse("a copy from no boundary of 16 bytes");
    std::memset(memory + to, 0, 16);
    std::memcpy(memory + to, from, bytes);
}

static struct { const char *begin, *end; } readable[2]; // data, weights

static void copy_if(uint32_t to, const void *from, bool there, int bytes) {
    const char *at = (const char *)from;
    bool inside = !there;
    for (auto &r : readable) inside = inside || (at >= r.begin && at + bytes <= r.end);
    if (!inside) refuse("a copy from outside of the data");
    if (to % bytes || to + bytes > shared_bytes) refuse("a copy outside of shared memory");
    if (there && (uintptr_t)from % bytes) refuse("a copy from no boundary");
    std::memset(memory + to, 0, bytes);
    if (there) std::memcpy(memory + to, from, bytes);
}
static void qb_copy16_if(uint32_t to, const void *from, bool there) {
    copy_if(to, from, there, 16);
}
static void qb_copy8_if(uint32_t to, const void *from, bool there) { copy_if(to, from, there, 8); }

static void qb_copies_commit() {}
template <int N> static void qb_copies_wait() {}

static void qb_load_matrices(uint32_t (&r)[4], uint32_t from) {
    static uint32_t rows[WARPS][32];
    const int lane = running % 32;
    uint32_t(&row)[32] = rows[running / 32];
    row[lane] = from;
    sync_warp();
    for (int m = 0; m < 4 && lane == 0; m++) {
        unsigned seen = 0;
        for (int i = 0; i < 8; i++) seen |= 1u << row[m * 8 + i] % 128 / 16;
        if (seen != 255) refuse("two rows of a matrix in the same banks");
    }
    for (int i = 0; i < 4; i++)
        std::memcpy(&r[i], memory + row[8 * i + lane / 4] + lane % 4 * 4, sizeof r[i]);
    sync_warp();
}

struct operands {
    uint32_t a[4], b[2];
};

// Byte `k` of row (or column) `line` of an operand, as PTX lays out m16n8k32 and m16n8k16.
static uint8_t a_byte(const operands *lanes, int line, int k) {
    return (uint8_t)(lanes[line % 8 * 4 + k % 16 / 4].a[line / 8 + k / 16 * 2] >> k % 4 * 8);
}
static uint8_t b_byte(const operands *lanes, int line, int k) {
    return (uint8_t)(lanes[line * 4 + k % 16 / 4].b[k / 16] >> k % 4 * 8);
}
static float half_of(uint8_t low, uint8_t high) {
    const uint16_t bits = (uint16_t)(low | high << 8);
    const int exponent = bits >> 10 & 31, sign = bits >> 15;
    float v = (float)(bits & 1023) / 1024.0f + (exponent ? 1.0f : 0.0f);
    for (int i = exponent ? exponent : 1; i < 15; i++) v /= 2;
    for (int i = 15; i < exponent; i++) v *= 2;
    return sign ? -v : v;
}

static void add(int &sum, const operands *lanes, int row, int column, bool is_signed) {
    for (int k = 0; k < 32; k++) {
        const uint8_t x = a_byte(lanes, row, k);
        sum += (is_signed ? (int8_t)x : x) * (int8_t)b_byte(lanes, column, k);
    }
}
static void add(float &sum, const operands *lanes, int row, int column, bool) {
    for (int k = 0; k < 32; k += 2)
        sum += half_of(a_byte(lanes, row, k), a_byte(lanes, row, k + 1)) *
               half_of(b_byte(lanes, column, k), b_byte(lanes, column, k + 1));
}

template <bool SIGNED, class Sum>
static void qb_mma(Sum (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    static operands warps[WARPS][32];
    const int lane = running % 32;
    operands *lanes = warps[running / 32];
    lanes[lane] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    sync_warp();
    for (int i = 0; i < 4; i++)
        add(d[i], lanes, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, SIGNED);
    sync_warp();
}

#include "kernels/cuda/conv/conv_mma_loop.cuh"

// ---- convolutions ----

#define PADDED -1 // a slice of its channels and padding up to 16 bytes

struct problem {
    int in_c, out_c, side, kernel, stride, pad, splits, slice, group, depth, dilation = 1;
    bool same = false; // a result as large as the data, by padding behind its end
};

static int below(int n) {
    static uint32_t state = 20261124;
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)n);
}

static qb_cuda_conv conv_of(const problem &t, int block_k, int block_n, int element) {
    qb_cuda_conv p = {};
    p.batch = 2;
    p.in_c = t.in_c, p.out_c = t.out_c, p.group = t.group;
    const bool volume = t.depth > 1;
    p.in_d = t.depth, p.in_h = t.side, p.in_w = t.side + 3;
    p.kernel_d = volume ? t.kernel : 1, p.kernel_h = p.kernel_w = t.kernel;
    p.taps = p.kernel_d * p.kernel_h * p.kernel_w;
    p.stride_d = volume ? t.stride : 1, p.stride_h = p.stride_w = t.stride;
    p.pad_d = volume ? t.pad : 0, p.pad_h = p.pad_w = t.pad;
    p.dilation_d = p.dilation_h = p.dilation_w = t.dilation;
    const int reach = (t.kernel - 1) * t.dilation + 1;
    p.out_d = (p.in_d + 2 * p.pad_d - (volume ? reach : 1)) / p.stride_d + 1;
    p.out_h = (p.in_h + 2 * t.pad - reach) / t.stride + 1;
    p.out_w = (p.in_w + 2 * t.pad - reach) / t.stride + 1;
    if (t.same) p.out_d = p.in_d, p.out_h = p.in_h, p.out_w = p.in_w;
    const int unit = 16 / element;
    p.in_total = t.slice == PADDED ? (t.in_c + unit - 1) / unit * unit : t.in_c + 2 * t.slice;
    p.in_offset = t.slice == PADDED ? 0 : t.slice;
    p.rows = p.batch * p.out_d * p.out_h * p.out_w;
    p.splits = t.splits;
    p.in_signed = element == 1 && below(2);
    p.in_pieces_of_8 = (p.in_total | p.in_offset) * element % 16 != 0;
    int span = t.group > 1 ? 0 : t.in_c;
    const int ins = t.in_c / t.group, outs = t.out_c / t.group;
    for (int m = 0; t.group > 1 && m < t.out_c; m += 64) {
        const int last = (m + 63 < t.out_c ? m + 63 : t.out_c - 1) / outs;
        const int own = (last + 1) * ins - QB_CUDA_CONV_FIRST(&p, m);
        span = own > span ? own : span;
    }
    p.k_pad = (span + block_k - 1) / block_k * block_k;
    p.n_pad = (t.out_c + block_n - 1) / block_n * block_n;
    return p;
}

// Small integers as bytes, or as binary16.
static void put(char *to, size_t at, int element, int v) {
    if (element == 1) {
        to[at] = (char)v;
        return;
    }
    const int size = std::abs(v);
    int exponent = 0;
    while (size >> (exponent + 1)) exponent++;
    uint16_t bits =
        size ? (uint16_t)((exponent + 15) << 10 | ((size << (10 - exponent)) & 1023)) : 0;
    if (v < 0) bits |= 0x8000;
    std::memcpy(to + 2 * at, &bits, 2);
}

struct buffer {
    char *data;
    explicit buffer(size_t bytes) : data((char *)std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {
        std::memset(data, 0, (bytes + 127) / 64 * 64);
    }
    ~buffer() { std::free(data); }
};

template <class T, class Sum>
static void run_tile(const qb_cuda_conv &p, const qb_cuda_conv_io &io) {
    const int columns = p.n_pad / T::channels, warp = running / 32, lane = running % 32;
    const int row0 = blockIdx.x / columns * T::rows, channel0 = blockIdx.x % columns * T::channels;
    const int warp_row = warp % T::warps_m * (T::mt * 16), warp_channel = warp / T::warps_m * 64;
    const int all = p.taps * (p.k_pad * T::element / T::k);
    const int begin = all * blockIdx.y / p.splits, end = all * (blockIdx.y + 1) / p.splits;
    Sum acc[T::mt][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    load_first_weights<T>(p, from, end - begin, 0);
    load_first_data<T>(p, from, end - begin, 0);
    if (p.in_signed)
        main_loop<T, true>(p, from, end - begin, 0, warp_row, warp_channel, acc);
    else
        main_loop<T, false>(p, from, end - begin, 0, warp_row, warp_channel, acc);
    store_partial<T>(p, io, row0 + warp_row + lane / 4, channel0 + warp_channel + lane % 4 * 16,
                     acc);
}

template <class T, class Sum>
static void run_sliced(const qb_cuda_conv &p, const qb_cuda_conv_io &io) {
    const int columns = p.n_pad / T::channels, warp = running / 32;
    const int row0 = blockIdx.x / columns * T::rows, channel0 = blockIdx.x % columns * T::channels;
    const int all = p.taps * (p.k_pad * T::element / T::k);
    const int begin = all * warp / T::warps, end = all * (warp + 1) / T::warps;
    const uint32_t slice = (uint32_t)(warp * T::slice_bytes);
    Sum acc[T::mt][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    load_first_weights<T>(p, from, end - begin, slice);
    load_first_data<T>(p, from, end - begin, slice);
    if (p.in_signed)
        main_loop<T, true>(p, from, end - begin, slice, 0, 0, acc);
    else
        main_loop<T, false>(p, from, end - begin, slice, 0, 0, acc);
    leave_sums<T>(memory + slice, acc);
    __syncthreads();
    for (int at = running * 4; at < T::rows * T::channels; at += T::threads * 4) {
        const int row = at / T::channels, channel = at % T::channels;
        Sum sum[4];
        take_sums<T>(memory, row, channel / 4, sum);
        if (row0 + row < p.rows)
            memcpy((Sum *)io.workspace + (size_t)(row0 + row) * p.n_pad + channel0 + channel, sum,
                   sizeof sum);
    }
}

static int tensor_row(int m) { // QB_CUDA_PACKING_TENSOR
    const int lane = m % 64;
    return m - lane + lane % 16 / 2 * 8 + lane / 16 * 2 + lane % 2;
}

template <class T, void RUN(const qb_cuda_conv &p, const qb_cuda_conv_io &io)>
static void test_tile(const problem &t) {
    constexpr int M = T::rows, N = T::channels, K = T::k, ELEMENT = T::element;
    typedef typename std::conditional<ELEMENT == 2, float, int>::type Sum;
    const qb_cuda_conv p = conv_of(t, K / ELEMENT, N, ELEMENT);
    const int taps = p.taps, ins = t.in_c / t.group, outs = t.out_c / t.group;
    const size_t pixels = (size_t)p.batch * p.in_d * p.in_h * p.in_w;
    std::vector<int> x(pixels * p.in_total), w((size_t)t.out_c * ins * taps);
    buffer in(x.size() * ELEMENT), packed((size_t)p.n_pad * taps * p.k_pad * ELEMENT);
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = ELEMENT == 2 ? below(17) - 8 : below(256) - (p.in_signed ? 128 : 0);
        put(in.data, i, ELEMENT, x[i]);
        if (ELEMENT == 2 && t.slice == PADDED && (int)(i % p.in_total) >= t.in_c)
            std::memcpy(in.data + 2 * i, "\xff\x7f", 2); // NaN
    }
    for (int m = 0; m < t.out_c; m++) {
        const int first = t.group > 1 ? m / outs * ins - QB_CUDA_CONV_FIRST(&p, m / 64 * 64) : 0;
        for (int k = 0; k < ins; k++)
            for (int tap = 0; tap < taps; tap++) {
                int &v = w[((size_t)m * ins + k) * taps + tap];
                v = below(17) - 8;
                put(packed.data, ((size_t)tensor_row(m) * taps + tap) * p.k_pad + first + k,
                    ELEMENT, v);
            }
    }
    std::vector<Sum> sums((size_t)t.splits * p.rows * p.n_pad, (Sum)12345);
    qb_cuda_conv_io io = {};
    io.in = in.data, io.packed = packed.data, io.workspace = sums.data();
    program = [&] { RUN(p, io); };
    readable[0] = {in.data, in.data + x.size() * ELEMENT};
    readable[1] = {packed.data, packed.data + (size_t)p.n_pad * taps * p.k_pad * ELEMENT};
    shared_bytes = T::shared_bytes;
    for (blockIdx.y = 0; blockIdx.y < t.splits; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < p.n_pad / N * ((p.rows + M - 1) / M); blockIdx.x++)
            run_block(T::threads);
    int wrong = 0;
    for (int r = 0; r < p.rows; r++)
        for (int m = 0; m < t.out_c; m++) {
            const int ox = r % p.out_w, oy = r / p.out_w % p.out_h, plane = r / p.out_w / p.out_h;
            const int oz = plane % p.out_d, n = plane / p.out_d;
            double expected = 0, got = 0;
            for (int tap = 0; tap < taps; tap++) {
                const int iz = oz * p.stride_d - p.pad_d + tap / t.kernel / t.kernel * t.dilation;
                const int iy = oy * t.stride - t.pad + tap / t.kernel % t.kernel * t.dilation;
                const int ix = ox * t.stride - t.pad + tap % t.kernel * t.dilation;
                if (iz < 0 || iy < 0 || ix < 0 || iz >= p.in_d || iy >= p.in_h || ix >= p.in_w)
                    continue;
                const size_t pixel = (((size_t)n * p.in_d + iz) * p.in_h + iy) * p.in_w + ix;
                for (int k = 0; k < ins; k++)
                    expected += x[pixel * p.in_total + p.in_offset + m / outs * ins + k] *
                                w[((size_t)m * ins + k) * taps + tap];
            }
            for (int s = 0; s < t.splits; s++)
                got += (double)sums[((size_t)s * p.rows + r) * p.n_pad + m];
            wrong += got != expected;
        }
    std::printf("%d x %d x %d, %d warps, %s: %d rows, %d wrong\n", M, N, K, T::warps,
                ELEMENT == 2 ? "f16" : "8 bits", p.rows, wrong);
    if (wrong) refuse("sums differ");
}

template <int M, int N, int K, int GROUPS, int ELEMENT> static void test(const problem &t) {
    typedef tile<M, N, K, GROUPS, ELEMENT> T;
    static_assert(T::shared_bytes <= 101376, "a block on 8.6 has no more");
    test_tile<T, run_tile<T, typename std::conditional<ELEMENT == 2, float, int>::type>>(t);
}

template <int ELEMENT> static void test_sliced(const problem &t) {
    typedef sliced_tile<16, 64, 64, 2, ELEMENT> T;
    test_tile<T, run_sliced<T, typename std::conditional<ELEMENT == 2, float, int>::type>>(t);
}

int main() {
    // channels in and out, side, window, stride, padding, parts of K, slice, groups, depth,
    // dilation, same
    test<128, 64, 64, 1, 1>({48, 80, 7, 3, 1, 1, 1, 0, 1, 1});
    test<64, 64, 64, 1, 1>({24, 64, 6, 3, 2, 1, 2, 8, 1, 1});
    test<128, 128, 64, 2, 1>({80, 128, 9, 3, 1, 1, 1, 0, 1, 1});
    test<128, 128, 128, 1, 1>({200, 140, 7, 1, 1, 0, 1, 8, 1, 1});
    test<256, 128, 64, 2, 1>({72, 130, 12, 3, 1, 1, 1, 8, 1, 1});
    test<64, 64, 128, 1, 2>({72, 80, 7, 3, 1, 1, 2, 8, 1, 1});
    test<64, 64, 128, 1, 2>({128, 128, 5, 3, 1, 1, 1, 0, 32, 1});
    test<128, 64, 64, 1, 2>({40, 100, 9, 3, 2, 1, 1, 8, 1, 1});
    test<128, 128, 64, 1, 2>({72, 130, 8, 3, 1, 1, 1, 0, 1, 1});
    test<128, 128, 128, 1, 2>({200, 128, 7, 1, 1, 0, 1, 8, 1, 1});
    test<256, 128, 64, 2, 2>({72, 130, 12, 3, 1, 1, 1, 0, 1, 1});
    test<128, 64, 64, 1, 1>({26, 80, 7, 3, 1, 1, 1, PADDED, 1, 1});
    test<64, 64, 64, 1, 1>({58, 58, 6, 3, 2, 1, 2, PADDED, 1, 1});
    test<64, 64, 128, 1, 2>({58, 80, 7, 3, 1, 1, 1, PADDED, 1, 1});
    test<64, 64, 64, 1, 1>({48, 40, 5, 3, 1, 1, 1, 0, 1, 4});
    test<64, 64, 64, 1, 1>({40, 64, 5, 3, 2, 1, 3, 8, 1, 5});
    test<64, 64, 128, 1, 2>({72, 80, 4, 3, 1, 1, 1, 0, 1, 3});
    test<128, 128, 64, 2, 1>({72, 128, 4, 3, 1, 1, 1, PADDED, 1, 3});
    test<64, 64, 64, 1, 1>({24, 40, 9, 3, 1, 2, 1, 8, 1, 1, 2});
    test<64, 64, 64, 1, 1>({16, 40, 8, 5, 2, 4, 1, 0, 1, 1, 3}); // some windows have no first taps
    test<64, 64, 128, 1, 2>({16, 40, 5, 3, 1, 3, 1, 0, 1, 4, 2});
    test<64, 64, 64, 1, 1>({16, 40, 5, 2, 1, 3, 1, 0, 1, 1, 2}); // and some none
    test<64, 64, 64, 1, 1>({16, 16, 140, 3, 40, 1, 1, 0, 1, 1});
    test<128, 128, 64, 1, 1>({112, 192, 2, 1, 3, 0, 1, 0, 1, 1, 1, true}); // most pixels: padding
    test_sliced<1>({480, 20, 1, 1, 1, 0, 1, 0, 1, 1});
    test_sliced<1>({48, 80, 4, 3, 2, 1, 1, 8, 1, 1});
    test_sliced<1>({26, 64, 5, 3, 1, 1, 1, PADDED, 2, 1});
    test_sliced<1>({696, 130, 3, 1, 1, 0, 1, 0, 1, 1});
    test_sliced<1>({40, 64, 3, 3, 1, 2, 1, 0, 1, 1});
    test_sliced<2>({72, 80, 4, 3, 1, 1, 1, 8, 1, 3});
    test_sliced<2>({200, 10, 2, 1, 1, 0, 1, 0, 1, 1});
    test_sliced<2>({128, 128, 5, 3, 1, 1, 1, 0, 32, 1});
    return 0;
}

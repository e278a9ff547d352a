// INT8 convolution of images with at most four channels and the max pool behind it on Hopper's
// wgmma (sm_90a only): conv_stem_wgmma.cu says how lines, weight and sums lie. A block computes
// `rows` rows x `columns` pixels x 64 channels of the pool's result; what lies between is never in
// memory.
//
// Requantization keeps the order, and so does the bias, added as the reference does: the greatest
// of a window's sums gives the greatest quantized value. A thread has the same pixels and channels
// of each row of the convolution, so that maxima down a window are maxima of its registers, and one
// of two rows of a 3x3 window with stride 2 is requantized at all. The quantized rows, as unsigned
// values, go through shared memory, where those beside each other meet; the second of two places is
// written while the first is read. Rows and pixels that the convolution does not have take no part.
//
//   threads   two groups of four warps, each 64 pixels of every row; two blocks a multiprocessor
//   shared    the weight, 2 KiB a row of the kernel, the lines under the block, two quantized rows
//   bound by  the arithmetic of the epilogue
#include <limits.h>

#include "kernels/cuda/conv/conv_stem_wgmma.cuh"

#define F16_STAGE (QB_CUDA_STEM_POOL_STAGE / 2) // pixels of even number, those of odd number

// Where the values of a pixel of the block lie: even and odd ones apart, so that windows with
// stride 2 read without conflicts.
QB_DEVICE char *staged(char *stage, int x) { return stage + (x & 1) * F16_STAGE + x / 2 * 64; }

// Adds the bias of the thread's channels to a row's sums.
QB_DEVICE void add_bias(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                        int (&sum)[32]) {
    const char *at = io.packed + p.at_bias + (uint32_t)(channel + (threadIdx.x & 3) * 16) * 4;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
        int4 bias = qb_ints(qb_load16(at + j * 4));
        int add[4] = {bias.x, bias.y, bias.z, bias.w};
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int &to = sum[(j + k % 4) / 2 * 4 + k / 4 * 2 + k % 2];
            to = (int)((unsigned)to + (unsigned)add[k % 4]);
        }
    }
}

// The quantized values of the greater of two rows of sums, as unsigned ones: signed ones plus 128.
template <class E>
QB_DEVICE void stage_quantized(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                               const int (&a)[32], const int (&b)[32], char *stage, int x) {
    uint32_t zero = (uint32_t)(p.out_zero + (p.out_dtype == QB_DTYPE_S8 ? 128 : 0)) & 0xff;
    zero *= 0x01010101u;
    const char *at = io.packed + p.at_multiplier + (channel + (threadIdx.x & 3) * 16) * 4;
    uint32_t word[2][4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float4 m = qb_floats(qb_load16(at + j * 16));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int sum[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                int at = (4 * j + k) / 2 * 4 + i * 2 + k % 2;
                sum[k] = max(a[at], b[at]);
            }
            word[i][j] = qb_epilogue4<E>(p, sum, make_int4(0, 0, 0, 0), m, 0u, qb_residual_q8{});
        }
    }
    if (zero != 0) {
        asm volatile("" ::: "memory"); // a jump, not predicates: most results have none
#pragma unroll
        for (int i = 0; i < 8; i++) word[i / 4][i % 4] = __vadd4(word[i / 4][i % 4], zero);
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
        *(uint4 *)(staged(stage, x + i * 8) + (threadIdx.x & 3) * 16) =
            make_uint4(word[i][0], word[i][1], word[i][2], word[i][3]);
}

// The greatest of the pixels first ... end - 1, unsigned values. The high byte of a half decides
// what is greater: odd bytes are compared beside the even ones, and the even ones by themselves.
QB_DEVICE uint4 greatest(char *stage, int first, int end) {
    uint32_t odd[4] = {}, even[4] = {};
    for (int x = first; x < end; x++) {
        uint4 v = *(const uint4 *)(staged(stage, x) + (threadIdx.x & 3) * 16);
        uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            odd[i] = __vmaxu2(odd[i], word[i]);
            even[i] = __vmaxu2(even[i], word[i] & 0x00ff00ffu);
        }
    }
    auto both = [&](int i) { return (odd[i] & 0xff00ff00u) | even[i]; };
    return make_uint4(both(0), both(1), both(2), both(3));
}

// The pool's row `y`, columns from `x` on, of what is staged from the convolution's pixel x0 on.
QB_DEVICE void store_row(const qb_cuda_stem_pool &p, const qb_cuda_conv_io &io, int image, int y,
                         int x, int x0, int channel, char *stage) {
    const qb_cuda_conv &c = p.conv;
    int piece = channel + (threadIdx.x & 3) * 16;
    if (piece >= c.out_c) return;
    uint32_t flip = c.out_dtype == QB_DTYPE_S8 ? 0x80808080u : 0u;
    for (int column = threadIdx.x / 4; column < p.columns && x + column < p.out_w;
         column += THREADS / 4) {
        int first = column * p.stride_w;
        uint4 v = greatest(stage, max(first, -x0), min(first + p.kernel_w, c.out_w - x0));
        size_t pixel = ((size_t)image * p.out_h + y) * p.out_w + x + column;
        *(uint4 *)((char *)io.out + pixel * c.out_total + c.out_offset + piece) =
            make_uint4(v.x ^ flip, v.y ^ flip, v.z ^ flip, v.w ^ flip);
    }
}

template <qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(THREADS, 2)
    stem_pool(const __grid_constant__ qb_cuda_stem_pool p,
              const __grid_constant__ qb_cuda_conv_io io) {
    extern __shared__ __align__(128) char memory[];
    const qb_cuda_conv &c = p.conv;
    uint4 *entries = (uint4 *)(memory + c.kernel_h * WEIGHT_BYTES);
    int y = blockIdx.y * p.rows, x = blockIdx.x * p.columns, rows = min(p.rows, p.out_h - y);
    int y0 = y * p.stride_h - p.pad_h, x0 = x * p.stride_w - p.pad_w; // of the convolution
    int blocks = c.n_pad / 64, image = blockIdx.z / blocks, channel = blockIdx.z % blocks * 64;
    int lines = QB_CUDA_STEM_POOL_LINES(&p, rows);
    char *stage = (char *)(entries + lines * ENTRIES);
    load_weight(c, io, channel, (uint32_t *)memory);
    qb_launch_dependents();
    qb_wait_for_dependencies(); // the data may come from the kernel before
    load_lines<4>(c, io, image, y0 * c.stride_h - c.pad_h, x0 * c.stride_w - c.pad_w, lines,
                  entries);
    int group = qb_warp_group_of(128);
    int at = group * 64 + threadIdx.x / 32 % 4 * 16 + (threadIdx.x & 31) / 4; // and 8 pixels on
    bool busy = x0 + group * 64 < c.out_w;
    uint32_t weight = qb_shared_address(memory);
    uint32_t line = qb_shared_address(entries) + group * 64 * ENTRY_BYTES;
    int sum[32], before[32]; // of this row, and the greatest of the window's rows before it
#pragma unroll
    for (int i = 0; i < 32; i++) before[i] = INT_MIN;
    const bool overlap = p.kernel_h > p.stride_h;
    for (int row = y0, tap = 0, end = y + rows; y < end;
         row++, line += c.stride_h * (ENTRIES * ENTRY_BYTES)) {
        if (busy && row >= 0 && row < c.out_h) {
            if (c.in_signed)
                multiply<true>(c, line, weight, sum);
            else
                multiply<false>(c, line, weight, sum);
            add_bias(c, io, channel, sum);
        } else {
#pragma unroll
            for (int i = 0; i < 32; i++) sum[i] = INT_MIN;
        }
        if (++tap < p.kernel_h) {
#pragma unroll
            for (int i = 0; i < 32; i++) before[i] = max(before[i], sum[i]);
            continue;
        }
        char *to = stage + (y & 1) * QB_CUDA_STEM_POOL_STAGE;
        if (busy) stage_quantized<qb_epilogue_of<EPILOGUE>>(c, io, channel, before, sum, to, at);
        __syncthreads(); // those who read the other row are through with it, too, next time
        store_row(p, io, image, y++, x, x0, channel, to);
        tap = overlap;
#pragma unroll
        for (int i = 0; i < 32; i++) before[i] = overlap ? sum[i] : INT_MIN;
    }
}

extern "C" int qb_cuda_conv_stem_pool_wgmma(const qb_cuda_stem_pool *p, const qb_cuda_conv_io *io,
                                            void *stream) {
    const dim3 grid((p->out_w + p->columns - 1) / p->columns, (p->out_h + p->rows - 1) / p->rows,
                    p->conv.batch * (p->conv.n_pad / 64));
    return qb_dispatch_epilogue<QB_EPILOGUES_PLAIN>(&p->conv, [&](auto epilogue) {
        const auto kernel = stem_pool<epilogue()>;
        if (!io) return qb_reserve_shared(kernel, QB_CUDA_STEM_POOL_SHARED_MOST);
        return qb_launch(kernel, grid, THREADS, QB_CUDA_STEM_POOL_SHARED(p, p->rows), stream, *p,
                         *io);
    });
}

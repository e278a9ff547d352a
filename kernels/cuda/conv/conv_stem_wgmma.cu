// INT8 convolution of images with at most four channels on Hopper's wgmma (sm_90a only): the first
// layer of a network, windows up to 8 wide and strides of 1, 2 or 4. A block computes ROWS rows x
// WIDTH pixels x 64 channels.
//
// A pixel is a word of four channels, so that 32 bytes of K are the eight pixels under one row of
// the kernel. Without swizzling an operand is made of cores of 8 rows x 16 bytes that lie anywhere
// 16 bytes apart: entry x of a line holds the four pixels from stride x on, 8 entries are a core,
// and the other half of K is the core 4 / stride entries further. A row of the kernel is then one
// multiplication of a line as it lies, with no im2col.
//
// Padding is filled with the zero point, so that all results have the same bias. What stands in a
// channel or tap that does not exist is multiplied by weight 0. Of 32 channels, two results are
// taken together: see pair_results in conv_setup.c.
//
//   threads   two groups of four warps, each 64 pixels of every row; three blocks a multiprocessor
//   shared    the weight, 2 KiB a row of the kernel, and the lines under the block
//   bound by  the arithmetic of the epilogue
#include "kernels/cuda/conv/conv_stem_wgmma.cuh"

#define ROWS QB_CUDA_STEM_ROWS

// Blocks that a multiprocessor has registers for.
template <qb_cuda_epilogue EPILOGUE>
static constexpr int blocks_of = qb_epilogue_of<EPILOGUE>::bounds ? 3 : 2;

template <qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(THREADS, blocks_of<EPILOGUE>)
    stem_wgmma(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    extern __shared__ __align__(128) char memory[];
    uint4 *entries = (uint4 *)(memory + p.kernel_h * WEIGHT_BYTES);
    int y0 = blockIdx.y * ROWS, x0 = blockIdx.x * WIDTH, blocks = p.n_pad / 64;
    int image = blockIdx.z / blocks, channel = blockIdx.z % blocks * 64;
    load_weight(p, io, channel, (uint32_t *)memory);
    qb_launch_dependents();
    qb_wait_for_dependencies(); // the data may come from the kernel before
    load_lines<1>(p, io, image, y0 * p.stride_h - p.pad_h, x0 * p.stride_w - p.pad_w,
                  QB_CUDA_STEM_LINES(&p), entries);
    int group = qb_warp_group_of(128), lane = threadIdx.x & 31;
    uint32_t weight = qb_shared_address(memory);
    uint32_t line = qb_shared_address(entries) + group * 64 * ENTRY_BYTES;
    int ox = x0 + group * 64 + threadIdx.x / 32 % 4 * 16 + (lane >> 2);
    if (x0 + group * 64 >= p.out_w) return;
    for (int oy = y0; oy < y0 + ROWS && oy < p.out_h;
         oy++, line += p.stride_h * (ENTRIES * ENTRY_BYTES)) {
        int sum[32];
        if (p.in_signed)
            multiply<true>(p, line, weight, sum);
        else
            multiply<false>(p, line, weight, sum);
        int row = (image * p.out_h + oy) * p.out_w + ox;
        auto row_of = [&](int i) { return ox + i * 8 < p.out_w ? row + i * 8 : p.rows; };
        auto value = [&](int i, int, int j) -> auto & { return sum[j / 2 * 4 + i * 2 + j % 2]; };
        qb_epilogue<qb_epilogue_of<EPILOGUE>, 2, 1, THREADS>(p, io, channel, row_of, value, NULL);
    }
}

extern "C" int qb_cuda_conv_stem_wgmma(const qb_cuda_conv_call *call) {
    const qb_cuda_conv *p = call->conv;
    const dim3 grid((p->out_w + WIDTH - 1) / WIDTH, (p->out_h + ROWS - 1) / ROWS,
                    p->batch * (p->n_pad / 64));
    return qb_dispatch_epilogue<QB_EPILOGUES_STEM_WGMMA>(p, [&](auto epilogue) {
        const auto kernel = stem_wgmma<epilogue()>;
        if (!call->io) return qb_reserve_shared(kernel, QB_CUDA_STEM_SHARED_MOST);
        return qb_launch(kernel, grid, THREADS, QB_CUDA_STEM_SHARED(p), call->stream, *p,
                         *call->io);
    });
}

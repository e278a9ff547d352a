// Split-K: the sums that blocks of conv_mma.cuh, or cuBLASLt, leave in the workspace become
// results.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/tile_epilogue.cuh"

#define REDUCE_THREADS 128

// Adds up the partial sums of 16 channels of one row and turns them into results.
template <qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(REDUCE_THREADS)
    reduce(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    qb_wait_for_dependencies();
    typedef qb_epilogue_of<EPILOGUE> E;
    typedef typename E::sum sum;
    __shared__ int memory[16 * REDUCE_THREADS];
    int pieces = (p.out_c + 15) / 16;
    int64_t at = (int64_t)blockIdx.x * REDUCE_THREADS + threadIdx.x;
    if (at >= (int64_t)p.rows * pieces) return;
    int row = (int)(at / pieces), channel = (int)(at % pieces) * 16;
    sum acc[16] = {};
    for (int s = 0; s < p.splits; s++) {
        const uint4 *from = (const uint4 *)((const sum *)io.workspace +
                                            ((size_t)s * p.rows + row) * p.n_pad + channel);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint4 words = from[j];
            sum v[4];
            memcpy(v, &words, sizeof v);
#pragma unroll
            for (int i = 0; i < 4; i++) acc[4 * j + i] += v[i];
        }
    }
    // one row whose channels begin where this thread's would in a tile
    auto row_of = [&](int) { return row; };
    auto value = [&](int, int, int j) { return acc[j]; };
    qb_epilogue<E, 1, 1, REDUCE_THREADS>(p, io, channel - (threadIdx.x & 3) * 16, row_of, value,
                                         (char *)memory);
}

extern "C" int qb_cuda_conv_reduce(const qb_cuda_conv *p, const qb_cuda_conv_io *io, void *stream) {
    int64_t n = (int64_t)p->rows * ((p->out_c + 15) / 16);
    return qb_dispatch_epilogue<QB_EPILOGUES_SPLITK>(p, [&](auto epilogue) {
        return qb_launch(reduce<epilogue()>, (unsigned)((n + REDUCE_THREADS - 1) / REDUCE_THREADS),
                         REDUCE_THREADS, 0, stream, *p, *io);
    });
}

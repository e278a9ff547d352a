// The epilogue of a thread's part of a tile: one dispatch over the policies for all kernels.
#ifndef QB_CUDA_TILE_EPILOGUE_CUH
#define QB_CUDA_TILE_EPILOGUE_CUH

#include "kernels/cuda/conv/epilogue_unaligned.cuh"

// ROWS rows, row_of(0), row_of(1), ... (behind p.rows: not there), times BLOCKS blocks of 64
// channels from `channel` on, of which this thread has 16 each: acc(i, block, j), j = 0 ... 15, is
// row i's sum of channel j of them. `residual`(i, block): its 16 bytes of a row that exists, for
// policies with a residual of Q8. `held`: constants that were read before (HELD). `staging`:
// E::staging bytes of shared memory for each of THREADS threads. All lanes of a warp call together.
template <class E, int ROWS, int BLOCKS, int THREADS, bool HELD, class Acc, class RowOf,
          class Residual>
QB_DEVICE void qb_epilogue(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                           const qb_constants<HELD ? BLOCKS : 1> *held, RowOf row_of, Acc acc,
                           Residual residual, char *staging) {
    typedef typename E::sum sum_type;
    typedef typename E::store store;
    if constexpr (E::template is<store, qb_store_VECTOR>) {
        qb_epilogue_vector<ROWS, BLOCKS, sum_type>(p, io, channel, row_of, acc);
    } else if constexpr (E::template is<store, qb_store_UNALIGNED>) {
        qb_epilogue_unaligned<E, ROWS, BLOCKS>(p, io, channel, row_of, acc,
                                               staging + threadIdx.x / 32 * (32 * E::staging));
    } else if constexpr (E::template is<store, qb_store_ELEMENT>) {
        sum_type *slot = (sum_type *)staging + threadIdx.x; // a thread reads only what it wrote
#pragma unroll 1
        for (int unit = 0; unit < ROWS * BLOCKS; unit++) {
            int row = row_of(unit % ROWS);
            int first = channel + unit / ROWS * 64 + threadIdx.x % 32 % 4 * 16;
            sum_type sum[16];
            qb_take16<ROWS, BLOCKS>(unit, acc, sum);
#pragma unroll
            for (int j = 0; j < 16; j++) slot[j * THREADS] = sum[j];
            if (row < p.rows) qb_epilogue_elements(p, io, slot, THREADS, row, first);
        }
    } else if constexpr (E::holds || E::template is<typename E::bias, qb_bias_FLOAT> && !E::f16) {
        qb_epilogue_q8<E, ROWS, BLOCKS, HELD>(p, io, channel, held, row_of, acc, residual);
    } else if constexpr (E::f16 && E::bounds) {
        qb_epilogue_f16<E, ROWS, BLOCKS>(p, io, channel, row_of, acc);
    } else if constexpr (E::by_class) {
        qb_epilogue_by_class<E, ROWS, BLOCKS>(p, io, channel, row_of, acc);
    } else {
        qb_epilogue_floats<E, ROWS, BLOCKS>(p, io, channel, row_of, acc, residual);
    }
}

// The same with constants and residual from where they lie in memory.
template <class E, int ROWS, int BLOCKS, int THREADS, class Acc, class RowOf>
QB_DEVICE void qb_epilogue(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                           RowOf row_of, Acc acc, char *staging) {
    const qb_residual_rows<RowOf> residual = {p, io.residual, channel, row_of};
    qb_epilogue<E, ROWS, BLOCKS, THREADS, false>(p, io, channel, NULL, row_of, acc, residual,
                                                 staging);
}

#endif

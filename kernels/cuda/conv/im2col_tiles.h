/* Tiles of tiles.def, and products of cuBLASLt, that convolutions and products with a copy of their
 * windows or rows (im2col) go through, and transposed convolutions (sub-pixel): ROW(type, tile,
 * suffix, exactness) for each, in order of preference. */
#ifndef QB_CUDA_IM2COL_TILES_H
#define QB_CUDA_IM2COL_TILES_H

#define QB_CUDA_IM2COL_MATMULS(ROW)                                                                \
    ROW(s8, wgmma_128x64x128, , QB_EXACT)                                                          \
    ROW(s8, mma_128x64x64, , QB_EXACT)                                                             \
    ROW(s8, mma_sliced_16x64x64, , QB_EXACT)                                                       \
    ROW(s8, wgmma_128x64x64, _smooth, QB_WITHIN_1_LSB)                                             \
    ROW(s8, mma_64x64x64, _smooth, QB_WITHIN_1_LSB)                                                \
    ROW(s8, mma_sliced_16x64x64, _smooth, QB_WITHIN_1_LSB)                                         \
    ROW(f16, wgmma_128x64x128, , QB_EXACT)                                                         \
    ROW(f16, mma_128x64x64, , QB_EXACT)                                                            \
    ROW(f16, mma_sliced_16x64x64, , QB_EXACT)
#define QB_CUDA_IM2COL_CONVS(ROW)                                                                  \
    ROW(s8, wgmma_128x128x128, , QB_EXACT)                                                         \
    ROW(s8, mma_128x128x64, , QB_EXACT)                                                            \
    ROW(f16, wgmma_128x128x128, , QB_EXACT)                                                        \
    ROW(f16, mma_128x128x64, , QB_EXACT)                                                           \
    ROW(tf32, cublaslt, , QB_EXACT)                                                                \
    ROW(f32, cublaslt, , QB_EXACT)                                                                 \
    QB_CUDA_IM2COL_MATMULS(ROW)

#endif

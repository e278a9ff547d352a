/* The tactics of a tile, as rows of tiles.def name them: ROW(suffix, smooth, splitk, exactness,
 * ...) for each. */
#ifndef QB_CUDA_TILE_TACTICS_H
#define QB_CUDA_TILE_TACTICS_H

/* Shared memory of a block of the portable kernels, by schedule; SLICED: for each warp. */
#define QB_CUDA_SLICED_STAGES 3
#define QB_CUDA_SHARED_COOPERATIVE(M, N, K, GROUPS) QB_CUDA_MMA_SHARED(M, N, K)
#define QB_CUDA_SHARED_SLICED(M, N, K, GROUPS)                                                     \
    (4 * (GROUPS)*QB_CUDA_SLICED_STAGES * ((M) + (N)) * (K))

/* Sets of one epilogue, that takes all problems. */
#define QB_EPILOGUES_ANY QB_EPILOGUE_BIT(GENERAL)
#define QB_EPILOGUES_F16_ANY QB_EPILOGUE_BIT(F16_GENERAL)

#define QB_TILE_NONE(ROW, ...)
#define QB_TILE_EXACT(ROW, ...) ROW(, false, false, QB_EXACT, __VA_ARGS__)
#define QB_TILE_SPLITK(ROW, ...) ROW(_splitk, false, true, QB_EXACT, __VA_ARGS__)
#define QB_TILE_SMOOTH(ROW, ...) ROW(_smooth, true, false, QB_WITHIN_1_LSB, __VA_ARGS__)
#define QB_TILE_EXACT_SMOOTH(ROW, ...)                                                             \
    QB_TILE_EXACT(ROW, __VA_ARGS__) QB_TILE_SMOOTH(ROW, __VA_ARGS__)
#define QB_TILE_SPLITK_SMOOTH(ROW, ...)                                                            \
    QB_TILE_SPLITK(ROW, __VA_ARGS__) QB_TILE_SMOOTH(ROW, __VA_ARGS__)
#define QB_TILE_EXACT_SPLITK(ROW, ...)                                                             \
    QB_TILE_EXACT(ROW, __VA_ARGS__) QB_TILE_SPLITK(ROW, __VA_ARGS__)
#define QB_TILE_EXACT_SPLITK_SMOOTH(ROW, ...)                                                      \
    QB_TILE_EXACT(ROW, __VA_ARGS__) QB_TILE_SPLITK_SMOOTH(ROW, __VA_ARGS__)

#endif

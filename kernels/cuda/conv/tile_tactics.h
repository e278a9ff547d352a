/* The tactics of a tile, as rows of tiles.def name them: ROW(suffix, smooth, splitk, exactness,
 * ...) for each. */
#ifndef QB_CUDA_TILE_TACTICS_H
#define QB_CUDA_TILE_TACTICS_H

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

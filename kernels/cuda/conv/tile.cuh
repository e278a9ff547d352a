// What the kernels of tiles.def share: conv_<kernel>.cuh defines qb_tile_fits and qb_launch_tile, a
// source that CMake writes for each row has the row, which becomes the launcher of the tile.
#ifndef QB_CUDA_TILE_CUH
#define QB_CUDA_TILE_CUH

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/tile_epilogue.cuh"

// Do the warp groups share a tile?
#define QB_SCHEDULE_COOPERATIVE true
#define QB_SCHEDULE_PINGPONG false

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call);
// Does the kernel take the problem?
template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *conv);

#define QB_CUDA_TILE(ARCHITECTURE, KERNEL, TYPE, M, N, K, GROUPS, SCHEDULE, EPILOGUES, ...)        \
    extern "C" int qb_cuda_conv_##TYPE##_##KERNEL##_##M##x##N##x##K(                               \
        const qb_cuda_conv_call *call) {                                                           \
        return qb_dispatch_epilogue<QB_EPILOGUES_##EPILOGUES>(call->conv, [&](auto epilogue) {     \
            return qb_launch_tile<M, N, K, GROUPS, QB_SCHEDULE_##SCHEDULE, epilogue()>(call);      \
        });                                                                                        \
    }                                                                                              \
    extern "C" bool qb_cuda_fits_##TYPE##_##KERNEL##_##M##x##N##x##K(const qb_cuda_conv *conv) {   \
        return qb_tile_fits<M, N, K, GROUPS>(conv);                                                \
    }

#endif

#include "kernels/grid.h"

int32_t qb_grid_axes(const qb_grid_sampling *grid, const qb_shape *x,
                     qb_grid_axis out[QB_GRID_SPATIAL]) {
    int64_t stride = 1;
    for (int32_t d = x->rank - 1; d >= 2; d--) {
        const float half = grid->corners ? 0 : 0.5f;
        const int64_t size = x->dim[d];
        out[d - 2] = (qb_grid_axis){*grid, size, stride, -half, (float)(size - 1) + half};
        stride *= size;
    }
    return x->rank - 2;
}

int32_t qb_grid_taps_of(qb_grid_mode mode) {
    return mode == QB_GRID_NEAREST ? 1 : mode == QB_GRID_LINEAR ? 2 : QB_GRID_TAPS;
}

// Values of images at places between their pixels: a thread finds the pixels of one place, and
// makes the elements of some channels of them.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/grid_sample.h"
#include "kernels/grid.h"

#define THREADS 128
#define EACH 4 // channels

// The taps along one dimension; a single one where the image has none. Mode and number of
// dimensions are known to the compiler, so that taps stay in registers.
template <int MODE>
QB_DEVICE void find_taps(const qb_cuda_grid_sample &p, const void *at, int64_t coordinate, int size,
                         int64_t stride, bool there, qb_grid_tap (&tap)[QB_GRID_TAPS]) {
    tap[0] = qb_grid_tap_of(0, 1.0);
    if (!there) return;
    const float half = p.grid.corners ? 0.0f : 0.5f;
    qb_grid_axis axis = {p.grid, size, stride, -half, (float)(size - 1) + half};
    axis.grid.mode = (qb_grid_mode)MODE;
    float place[1];
    qb_load_floats<1>(p.at, at, coordinate, place);
    qb_grid_taps(&axis, place[0], tap);
}

template <int MODE, int DIMS>
static __global__ void __launch_bounds__(THREADS)
    grid_sample(const __grid_constant__ qb_cuda_grid_sample p, const void *in, const void *at,
                void *out) {
    qb_wait_for_dependencies();
    constexpr int taps = MODE == QB_GRID_NEAREST ? 1 : MODE == QB_GRID_LINEAR ? 2 : QB_GRID_TAPS;
    const uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
    const uint32_t groups = (p.channels + EACH - 1) / EACH;
    const uint32_t place = thread % p.places, rest = thread / p.places;
    const uint32_t image = rest / groups, channel = rest % groups * EACH;
    if (image >= p.batch) return;
    // the last dimension is the place's first coordinate
    const int64_t first_of_place = ((int64_t)image * p.places + place) * DIMS;
    const int64_t row = p.size[2], plane = row * p.size[1], pixels = plane * p.size[0];
    qb_grid_tap column[QB_GRID_TAPS], line[QB_GRID_TAPS], slice[QB_GRID_TAPS];
    find_taps<MODE>(p, at, first_of_place, p.size[2], 1, true, column);
    find_taps<MODE>(p, at, first_of_place + 1, p.size[1], row, DIMS > 1, line);
    find_taps<MODE>(p, at, first_of_place + 2, p.size[0], plane, DIMS > 2, slice);
    float sum[EACH] = {0.0f};
    const int64_t first = ((int64_t)image * p.channels + channel) * pixels;
#pragma unroll
    for (int z = 0; z < (DIMS > 2 ? taps : 1); z++)
#pragma unroll
        for (int y = 0; y < (DIMS > 1 ? taps : 1); y++)
#pragma unroll
            for (int x = 0; x < taps; x++) {
                if (slice[z].at < 0 || line[y].at < 0 || column[x].at < 0) continue;
                const int64_t from = first + slice[z].at + line[y].at + column[x].at;
                const float weight = (float)(slice[z].weight * line[y].weight * column[x].weight);
#pragma unroll
                for (int k = 0; k < EACH; k++) {
                    float v[1];
                    if (channel + k >= p.channels) continue;
                    qb_load_floats<1>(p.in, in, from + k * pixels, v);
                    sum[k] += weight * v[0];
                }
            }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const float v[1] = {sum[k]};
        const int64_t to = ((int64_t)image * p.channels + channel + k) * p.places + place;
        if (channel + k < p.channels) qb_store_floats<1, true>(p.out, out, to, v);
    }
}

extern "C" int qb_cuda_grid_sample_run(const qb_cuda_grid_sample *p, const void *in, const void *at,
                                       void *out, void *stream) {
    const uint64_t threads = (uint64_t)p->batch * ((p->channels + EACH - 1) / EACH) * p->places;
    const unsigned blocks = (unsigned)((threads + THREADS - 1) / THREADS);
    const bool nearest = p->grid.mode == QB_GRID_NEAREST;
    if (blocks == 0) return 0;
    const auto kernel =
        p->grid.mode == QB_GRID_CUBIC
            ? (p->dims == 1 ? grid_sample<QB_GRID_CUBIC, 1> : grid_sample<QB_GRID_CUBIC, 2>)
        : p->dims == 1
            ? (nearest ? grid_sample<QB_GRID_NEAREST, 1> : grid_sample<QB_GRID_LINEAR, 1>)
        : p->dims == 2
            ? (nearest ? grid_sample<QB_GRID_NEAREST, 2> : grid_sample<QB_GRID_LINEAR, 2>)
            : (nearest ? grid_sample<QB_GRID_NEAREST, 3> : grid_sample<QB_GRID_LINEAR, 3>);
    return qb_launch(kernel, blocks, THREADS, 0, stream, *p, in, at, out);
}

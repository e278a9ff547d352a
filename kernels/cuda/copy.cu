// Copies that change the order of the dimensions.
//
// By tiles: 32 x 32 elements through shared memory, read along the data's fastest dimension and
// written along the result's. By planes: a thread takes four pixels of at most four channels, reads
// four consecutive elements of each plane and writes the pixels; that is how images come in. On the
// way a factor and a term for each channel may be applied.
#include "kernels/cuda/elementwise.cuh"

#define TILE 32
#define TILE_ROWS 8
#define THREADS 256
#define PIXELS 4
#define MAX_PLANES 4

// Offsets of the dimensions that are neither `unit` nor the last, for place `at` among them.
QB_DEVICE void place_outer(const qb_cuda_elementwise &p, uint32_t at, int64_t (&to)[2]) {
    to[0] = p.walk.first[0];
    to[1] = p.walk.first[1];
    for (int d = p.walk.rank - 2; d >= 0; d--) {
        if (d == p.unit) continue;
        uint32_t rest = at / p.walk.dim[d], i = at - rest * p.walk.dim[d];
        to[0] += i * p.walk.stride[0][d];
        to[1] += i * p.walk.stride[1][d];
        at = rest;
    }
}

QB_DEVICE float applied(const float *affine, uint32_t channels, uint32_t c, float v) {
    return affine ? fmaf(v, affine[c], affine[channels + c]) : v;
}

static __global__ void __launch_bounds__(TILE *TILE_ROWS)
    transpose(const __grid_constant__ qb_cuda_elementwise p, uint32_t columns, const void *in,
              const float *affine, void *out) {
    __shared__ float tile[TILE][TILE + 1];
    int last = p.walk.rank - 1;
    uint32_t width = p.walk.dim[last], height = p.walk.dim[p.unit];
    uint32_t x0 = blockIdx.x % columns * TILE, y0 = blockIdx.x / columns * TILE;
    uint32_t across = threadIdx.x % TILE, down = threadIdx.x / TILE;
    int64_t from = p.walk.stride[1][last], to = p.walk.stride[0][p.unit], place[2];
    place_outer(p, blockIdx.y, place);
    for (uint32_t i = down; i < TILE; i += TILE_ROWS) {
        if (y0 + across >= height || x0 + i >= width) continue;
        float v[1];
        qb_load_real<1>(p.in[0], in, place[1] + (x0 + i) * from + y0 + across, v);
        tile[i][across] = applied(affine, width, x0 + i, v[0]);
    }
    __syncthreads();
    for (uint32_t i = down; i < TILE; i += TILE_ROWS) {
        if (x0 + across >= width || y0 + i >= height) continue;
        float v[1] = {tile[across][i]};
        int64_t at = place[0] + (y0 + i) * to + x0 + across;
        if (p.divide)
            qb_store_real<1, true>(p.out, out, at, v);
        else
            qb_store_real<1, false>(p.out, out, at, v);
    }
}

template <int C>
static __global__ void __launch_bounds__(THREADS)
    planes(const __grid_constant__ qb_cuda_elementwise p, const void *in, const float *affine,
           void *out) {
    int last = p.walk.rank - 1;
    uint32_t pixel = (blockIdx.x * THREADS + threadIdx.x) * PIXELS;
    if (pixel >= p.walk.dim[p.unit]) return;
    int64_t place[2], step = p.walk.stride[0][p.unit];
    place_outer(p, blockIdx.y, place);
    float v[C * PIXELS];
#pragma unroll
    for (int c = 0; c < C; c++) {
        float plane[PIXELS];
        qb_load_real<PIXELS>(p.in[0], in, place[1] + c * p.walk.stride[1][last] + pixel, plane);
#pragma unroll
        for (int i = 0; i < PIXELS; i++) v[i * C + c] = applied(affine, C, c, plane[i]);
    }
    int64_t at = place[0] + pixel * step;
    if (step == C && at % PIXELS == 0) { // the pixels lie together
#pragma unroll
        for (int i = 0; i < C; i++) {
            float four[4];
#pragma unroll
            for (int k = 0; k < 4; k++) four[k] = v[i * 4 + k];
            if (p.divide)
                qb_store_real<4, true>(p.out, out, at + i * 4, four);
            else
                qb_store_real<4, false>(p.out, out, at + i * 4, four);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < C * PIXELS; i++) {
        float one[1] = {v[i]};
        if (p.divide)
            qb_store_real<1, true>(p.out, out, at + i / C * step + i % C, one);
        else
            qb_store_real<1, false>(p.out, out, at + i / C * step + i % C, one);
    }
}

extern "C" int qb_cuda_image_run(const qb_cuda_elementwise *p, const void *in, const float *affine,
                                 void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    const qb_cuda_walk *w = &p->walk;
    if (w->count == 0) return 0;
    uint32_t width = w->dim[w->rank - 1], height = w->dim[p->unit];
    unsigned outer = w->count / width / height;
    if (p->way == QB_CUDA_COPY_TRANSPOSE) {
        uint32_t columns = (width + TILE - 1) / TILE, rows = (height + TILE - 1) / TILE;
        dim3 grid(columns * rows, outer);
        transpose<<<grid, TILE * TILE_ROWS, 0, s>>>(*p, columns, in, affine, out);
        return (int)cudaGetLastError();
    }
    dim3 grid((height + THREADS * PIXELS - 1) / (THREADS * PIXELS), outer);
    switch (width) {
    case 2: planes<2><<<grid, THREADS, 0, s>>>(*p, in, affine, out); break;
    case 3: planes<3><<<grid, THREADS, 0, s>>>(*p, in, affine, out); break;
    default: planes<MAX_PLANES><<<grid, THREADS, 0, s>>>(*p, in, affine, out); break;
    }
    return (int)cudaGetLastError();
}

extern "C" int qb_cuda_copy_run(const qb_cuda_elementwise *p, const void *in, void *out,
                                void *stream) {
    return p->way == QB_CUDA_COPY_FLAT ? qb_cuda_elementwise_run(p, in, NULL, out, stream)
                                       : qb_cuda_image_run(p, in, NULL, out, stream);
}

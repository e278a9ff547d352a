// Copies that change the order of the dimensions.
//
// By tiles: 32 x 32 elements through shared memory, read along the data's fastest dimension and
// written along the result's; elements that stay as they are by tiles of 64 x 64, and written by
// words. By planes: a thread takes four pixels of at most four channels, reads
// four consecutive elements of each plane and writes the pixels; that is how images come in. On the
// way a factor and a term for each channel may be applied. Of tiles that would be nearly empty, a
// thread gathers the elements of a word.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/pointwise/elementwise.cuh"

#define TILE 32
#define TILE_ROWS 8
#define WIDE_TILE 64
#define THREADS 256
#define PIXELS 4
#define MAX_PLANES 4

// Offsets of the dimensions that are neither `unit` nor the last, for place `at` among them.
QB_DEVICE void place_outer(const qb_cuda_elementwise &p, uint32_t at, int64_t (&to)[2]) {
    to[0] = p.walk.first[0];
    to[1] = p.walk.first[1];
    for (int d = p.walk.rank - 2; d >= 0; d--) {
        if (d == p.unit) continue;
        uint32_t rest = qb_quotient(p.walk, at, d), i = at - rest * p.walk.dim[d];
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
    qb_wait_for_dependencies();
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
        qb_load_floats<1>(p.in[0], in, place[1] + (x0 + i) * from + y0 + across, v);
        tile[i][across] = applied(affine, width, x0 + i, v[0]);
    }
    __syncthreads();
    for (uint32_t i = down; i < TILE; i += TILE_ROWS) {
        if (x0 + across >= width || y0 + i >= height) continue;
        float v[1] = {tile[across][i]};
        int64_t at = place[0] + (y0 + i) * to + x0 + across;
        if (p.divide)
            qb_store_floats<1, true>(p.out, out, at, v);
        else
            qb_store_floats<1, false>(p.out, out, at, v);
    }
}

// Elements that stay as they are. Lines of the tile are an odd count of words apart, so that a
// warp's words lie in different banks (but for one of 32, of bytes on the way out).
template <class T>
static __global__ void __launch_bounds__(THREADS)
    transpose_bits(const __grid_constant__ qb_cuda_elementwise p, uint32_t columns, const T *in,
                   T *out) {
    qb_wait_for_dependencies();
    constexpr uint32_t each = 4 / sizeof(T), words = WIDE_TILE / each;
    __shared__ __align__(4) T tile[WIDE_TILE][WIDE_TILE + each];
    int last = p.walk.rank - 1;
    uint32_t width = p.walk.dim[last], height = p.walk.dim[p.unit];
    uint32_t x0 = blockIdx.x % columns * WIDE_TILE, y0 = blockIdx.x / columns * WIDE_TILE;
    int64_t from = p.walk.stride[1][last], to = p.walk.stride[0][p.unit], place[2];
    place_outer(p, blockIdx.y, place);
    uint32_t across = threadIdx.x % WIDE_TILE;
#pragma unroll
    for (uint32_t i = threadIdx.x / WIDE_TILE; i < WIDE_TILE; i += THREADS / WIDE_TILE)
        if (y0 + across < height && x0 + i < width)
            tile[across][i] = in[place[1] + (x0 + i) * from + y0 + across];
    __syncthreads();
    bool whole = (place[0] | to) % each == 0;
    uint32_t x = threadIdx.x % words * each;
#pragma unroll
    for (uint32_t i = threadIdx.x / words; i < WIDE_TILE; i += THREADS / words) {
        if (y0 + i >= height) break;
        T *end = out + (place[0] + (y0 + i) * to + x0 + x);
        if (whole && x0 + x + each <= width) {
            *(uint32_t *)end = *(const uint32_t *)&tile[i][x];
            continue;
        }
#pragma unroll
        for (uint32_t k = 0; k < each; k++)
            if (x0 + x + k < width) end[k] = tile[i][x + k];
    }
}

template <int C>
static __global__ void __launch_bounds__(THREADS)
    planes(const __grid_constant__ qb_cuda_elementwise p, const void *in, const float *affine,
           void *out) {
    qb_wait_for_dependencies();
    int last = p.walk.rank - 1;
    uint32_t pixel = (blockIdx.x * THREADS + threadIdx.x) * PIXELS;
    if (pixel >= p.walk.dim[p.unit]) return;
    int64_t place[2], step = p.walk.stride[0][p.unit];
    place_outer(p, blockIdx.y, place);
    float v[C * PIXELS];
#pragma unroll
    for (int c = 0; c < C; c++) {
        float plane[PIXELS];
        qb_load_floats<PIXELS>(p.in[0], in, place[1] + c * p.walk.stride[1][last] + pixel, plane);
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
                qb_store_floats<4, true>(p.out, out, at + i * 4, four);
            else
                qb_store_floats<4, false>(p.out, out, at + i * 4, four);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < C * PIXELS; i++) {
        float one[1] = {v[i]};
        if (p.divide)
            qb_store_floats<1, true>(p.out, out, at + i / C * step + i % C, one);
        else
            qb_store_floats<1, false>(p.out, out, at + i / C * step + i % C, one);
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    gather(const __grid_constant__ qb_cuda_walk walk, const T *in, T *out) {
    qb_wait_for_dependencies();
    constexpr uint32_t each = 4 / sizeof(T);
    uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * each;
    T v[each];
#pragma unroll
    for (uint32_t k = 0; k < each; k++) {
        int64_t place[2];
        qb_place<2>(walk, min(at + k, walk.count - 1), place);
        v[k] = in[place[1]];
    }
    T *to = out + walk.first[0] + at;
    if (at + each <= walk.count) {
        uint32_t word;
        memcpy(&word, v, sizeof word);
        *(uint32_t *)to = word;
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < each; k++)
        if (at + k < walk.count) to[k] = v[k];
}

// T: as many bits as an element has.
template <class T>
static int gather_run(const qb_cuda_walk *w, const void *in, void *out, cudaStream_t s) {
    const uint32_t each = THREADS * (4 / sizeof(T));
    return qb_launch(gather<T>, (w->count + each - 1) / each, THREADS, 0, s, *w, (const T *)in,
                     (T *)out);
}

// The blocks that tiles of `side` take, `columns` of them side by side.
static dim3 tiles_of(const qb_cuda_walk *w, int unit, uint32_t side, uint32_t *columns) {
    uint32_t width = w->dim[w->rank - 1], height = w->dim[unit];
    *columns = (width + side - 1) / side;
    return dim3(*columns * ((height + side - 1) / side), w->count / width / height);
}

// T: as many bits as an element has.
template <class T>
static int run_bits(const qb_cuda_elementwise *p, const void *in, void *out, cudaStream_t s) {
    uint32_t columns;
    const dim3 grid = tiles_of(&p->walk, p->unit, WIDE_TILE, &columns);
    return qb_launch(transpose_bits<T>, grid, THREADS, 0, s, *p, columns, (const T *)in, (T *)out);
}

static int transpose_run(const qb_cuda_elementwise *p, const void *in, const float *affine,
                         void *out, cudaStream_t s) {
    if (p->divide || affine) {
        uint32_t columns;
        const dim3 grid = tiles_of(&p->walk, p->unit, TILE, &columns);
        return qb_launch(transpose, grid, TILE * TILE_ROWS, 0, s, *p, columns, in, affine, out);
    }
    switch (p->out.dtype) { // qb_cuda_values_of: bits of one, two or four bytes
    case QB_DTYPE_U8: return run_bits<uint8_t>(p, in, out, s);
    case QB_DTYPE_U16: return run_bits<uint16_t>(p, in, out, s);
    default: return run_bits<uint32_t>(p, in, out, s);
    }
}

extern "C" int qb_cuda_image_run(const qb_cuda_elementwise *p, const void *in, const float *affine,
                                 void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    const qb_cuda_walk *w = &p->walk;
    if (w->count == 0) return 0;
    uint32_t width = w->dim[w->rank - 1], height = w->dim[p->unit];
    unsigned outer = w->count / width / height;
    if (p->way == QB_CUDA_COPY_TRANSPOSE) return transpose_run(p, in, affine, out, s);
    dim3 grid((height + THREADS * PIXELS - 1) / (THREADS * PIXELS), outer);
    const auto kernel = width == 2 ? planes<2> : width == 3 ? planes<3> : planes<MAX_PLANES>;
    return qb_launch(kernel, grid, THREADS, 0, s, *p, in, affine, out);
}

extern "C" int qb_cuda_copy_run(const qb_cuda_elementwise *p, const void *in, void *out,
                                void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    if (p->way == QB_CUDA_COPY_FLAT) return qb_cuda_elementwise_run(p, in, NULL, out, stream);
    if (p->way != QB_CUDA_COPY_GATHER) return qb_cuda_image_run(p, in, NULL, out, stream);
    switch (p->out.dtype) { // qb_cuda_values_of: bits of one, two or four bytes
    case QB_DTYPE_U8: return gather_run<uint8_t>(&p->walk, in, out, s);
    case QB_DTYPE_U16: return gather_run<uint16_t>(&p->walk, in, out, s);
    default: return gather_run<uint32_t>(&p->walk, in, out, s);
    }
}

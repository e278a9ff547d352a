// Functions of one or two tensors, flat copies, and several of these at once. A thread takes 16, 4
// or 1 consecutive elements, so that quantized values move in 16-byte pieces; bound by device
// memory. The wide kernel has the exact activations only: exp and its like unrolled 16 times would
// be slow to compile and to fetch.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/pointwise/elementwise.cuh"

#define THREADS 256
#define TABLE_ROUNDS 4 // pieces of 16 elements for each thread, to spread the loading of the table

// One element for all where the operand is broadcast along the fastest dimension.
template <int V>
QB_DEVICE void load_or_spread(const qb_cuda_value &p, const void *data, int64_t at, bool spread,
                              float (&v)[V]) {
    if (!spread) {
        qb_load_floats<V>(p, data, at, v);
        return;
    }
    float one[1];
    qb_load_floats<1>(p, data, at, one);
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = one[0];
}

#define EACH(expr)                                                                                 \
    _Pragma("unroll") for (int i = 0; i < V; i++) x[i] = (expr);                                   \
    break

template <int V> QB_DEVICE void combine(int kind, float (&x)[V], const float (&y)[V]) {
    switch (kind) {
    case QB_BINARY_ADD: EACH(__fadd_rn(x[i], y[i]));
    case QB_BINARY_SUB: EACH(__fsub_rn(x[i], y[i]));
    case QB_BINARY_MUL: EACH(__fmul_rn(x[i], y[i]));
    case QB_BINARY_DIV: EACH(__fdiv_rn(x[i], y[i]));
    case QB_BINARY_MIN: EACH(x[i] != x[i] || x[i] < y[i] ? x[i] : y[i]);
    default: EACH(x[i] != x[i] || x[i] > y[i] ? x[i] : y[i]);
    }
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    elementwise(const __grid_constant__ qb_cuda_elementwise p, const void *a, const void *b,
                void *out) {
    qb_wait_for_dependencies();
    uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (at >= p.walk.count) return;
    int64_t place[3];
    qb_place<3>(p.walk, at, place);
    float x[V];
    load_or_spread<V>(p.in[0], a, place[1], V > 1 && qb_step(p.walk, 1) == 0, x);
    if (p.n_in == 2) {
        float y[V];
        load_or_spread<V>(p.in[1], b, place[2], V > 1 && qb_step(p.walk, 2) == 0, y);
        combine<V>(p.binary, x, y);
    }
    if (p.act != QB_ACT_NONE) {
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] = V > 4 ? qb_act_exact(p.act, p.alpha, p.beta, x[i])
                         : qb_act_of(p.act, p.alpha, p.beta, x[i]);
    }
    if (p.divide)
        qb_store_floats<V, true>(p.out, out, place[0], x);
    else
        qb_store_floats<V, false>(p.out, out, place[0], x);
}

static unsigned blocks_of(uint32_t count, uint32_t each) {
    return (unsigned)(((uint64_t)count + each - 1) / each);
}

extern "C" int qb_cuda_elementwise_run(const qb_cuda_elementwise *p, const void *a, const void *b,
                                       void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    uint32_t n = p->walk.count;
    if (n == 0) return 0;
    if (p->walk.width == 16 && !qb_cuda_is_smooth((qb_act_kind)p->act))
        return qb_launch(elementwise<16>, blocks_of(n, THREADS * 16), THREADS, 0, s, *p, a, b, out);
    else if (p->walk.width >= 4)
        return qb_launch(elementwise<4>, blocks_of(n, THREADS * 4), THREADS, 0, s, *p, a, b, out);
    return qb_launch(elementwise<1>, blocks_of(n, THREADS), THREADS, 0, s, *p, a, b, out);
}

struct parts {
    int32_t n;
    const void *in[QB_CUDA_PARTS];
    qb_cuda_elementwise part[QB_CUDA_PARTS];
};
static_assert(sizeof(parts) <= 4000, "what a kernel takes");

// A line of blocks for each part.
template <int V>
static __global__ void __launch_bounds__(THREADS)
    copy_parts(const __grid_constant__ parts p, void *out) {
    qb_wait_for_dependencies();
    const qb_cuda_elementwise &part = p.part[blockIdx.y];
    uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (at >= part.walk.count) return;
    int64_t place[2];
    qb_place<2>(part.walk, at, place);
    float x[V];
    qb_load_floats<V>(part.in[0], p.in[blockIdx.y], place[1], x);
    if (part.divide)
        qb_store_floats<V, true>(part.out, out, place[0], x);
    else
        qb_store_floats<V, false>(part.out, out, place[0], x);
}

static int parts_run(const parts *p, void *out, cudaStream_t s) {
    uint32_t most = 0;
    int32_t width = 16;
    for (int32_t i = 0; i < p->n; i++) {
        most = p->part[i].walk.count > most ? p->part[i].walk.count : most;
        width = p->part[i].walk.width < width ? p->part[i].walk.width : width;
    }
    const dim3 grid(blocks_of(most, (uint32_t)(THREADS * width)), (unsigned)p->n);
    if (width == 16)
        return qb_launch(copy_parts<16>, grid, THREADS, 0, s, *p, out);
    else if (width == 4)
        return qb_launch(copy_parts<4>, grid, THREADS, 0, s, *p, out);
    return qb_launch(copy_parts<1>, grid, THREADS, 0, s, *p, out);
}

extern "C" int qb_cuda_parts_run(const qb_cuda_elementwise *each, int32_t n, const void *const *in,
                                 void *out, void *stream) {
    parts p = {};
    for (int32_t i = 0; i < n; i++) {
        int code = 0;
        if (each[i].walk.count == 0) continue;
        if (each[i].way != QB_CUDA_COPY_FLAT) {
            code = qb_cuda_copy_run(&each[i], in[i], out, stream);
        } else {
            p.in[p.n] = in[i];
            p.part[p.n++] = each[i];
        }
        if (code == 0 && p.n == QB_CUDA_PARTS) {
            code = parts_run(&p, out, (cudaStream_t)stream);
            p.n = 0;
        }
        if (code != 0) return code;
    }
    return p.n > 0 ? parts_run(&p, out, (cudaStream_t)stream) : 0;
}

template <int V, int SIZE>
static __global__ void __launch_bounds__(THREADS)
    table(const __grid_constant__ qb_cuda_walk walk, const void *from, const void *in, void *out) {
    qb_wait_for_dependencies();
    __shared__ uint32_t memory[256 * SIZE / 4];
    for (int i = threadIdx.x; i < 256 * SIZE / 4; i += THREADS)
        memory[i] = ((const uint32_t *)from)[i];
    __syncthreads();
    uint32_t at = (blockIdx.x * (THREADS * TABLE_ROUNDS) + threadIdx.x) * V;
#pragma unroll 1
    for (int round = 0; round < TABLE_ROUNDS && at < walk.count; round++, at += THREADS * V) {
        int64_t place[2];
        qb_place<2>(walk, at, place);
        qb_words<V> quantized = qb_read<V>((const uint8_t *)in + place[1]);
        qb_words<V *SIZE> result = {};
#pragma unroll
        for (int i = 0; i < V; i++) {
            uint32_t code = quantized.word[i / 4] >> i % 4 * 8 & 255u;
            uint32_t v = SIZE == 1   ? ((const uint8_t *)memory)[code]
                         : SIZE == 2 ? ((const uint16_t *)memory)[code]
                                     : memory[code];
            result.word[i * SIZE / 4] |= v << i * SIZE % 4 * 8;
        }
        qb_write<V * SIZE>((char *)out + place[0] * SIZE, result);
    }
}

template <int SIZE>
static int table_size(const qb_cuda_walk *w, const void *from, const void *in, void *out,
                      cudaStream_t s) {
    const uint32_t each = THREADS * TABLE_ROUNDS;
    if (w->width == 16)
        return qb_launch(table<16, SIZE>, blocks_of(w->count, each * 16), THREADS, 0, s, *w, from,
                         in, out);
    return qb_launch(table<1, SIZE>, blocks_of(w->count, each), THREADS, 0, s, *w, from, in, out);
}

extern "C" int qb_cuda_table_run(const qb_cuda_walk *walk, const void *from, int32_t size,
                                 const void *in, void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    if (walk->count == 0) return 0;
    return size == 1   ? table_size<1>(walk, from, in, out, s)
           : size == 2 ? table_size<2>(walk, from, in, out, s)
                       : table_size<4>(walk, from, in, out, s);
}

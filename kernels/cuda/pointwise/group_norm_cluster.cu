// Group normalization in one kernel: a block, or a cluster of up to eight (compute capability 9.0),
// holds a group in shared memory, measures its mean, then the squares around it, and writes the
// result. The data are read once; the blocks of a cluster tell each other their sums.
#include "kernels/cuda/common/copies.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/pointwise/group_norm.h"

#define THREADS 512
#define WARP 32
#define WARPS (THREADS / WARP)
#define MOST_BLOCKS 8      // of a cluster that runs everywhere
#define LEAST_VECTORS 1024 // of a block, before a group is worth more blocks
#define SECTOR 32          // bytes that memory is read by
#define MOST_TRAFFIC 16e6  // bytes of sectors that are read for a part of each

// What stands in front of a block's elements.
struct head {
    float warp[WARPS];
    float sums[2][MOST_BLOCKS]; // of each block of the cluster: of elements, of squares
};

QB_DEVICE void tell(const float *mine, float sum, int block) {
#if __CUDA_ARCH__ >= 900
    uint32_t to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to)
        : "r"(qb_shared_address_of(mine)), "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(sum) : "memory");
#endif
}

QB_DEVICE void await_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// The sum over all threads of the cluster's `blocks`, in the order of lanes, warps and blocks.
QB_DEVICE float sum_of(head *h, float v, int round, int block, int blocks) {
    for (int d = WARP / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (threadIdx.x % WARP == 0) h->warp[threadIdx.x / WARP] = v;
    __syncthreads();
    float sum = 0.0f;
    for (int w = 0; w < WARPS; w++) sum += h->warp[w];
    if (blocks > 1) {
        if (threadIdx.x < (unsigned)blocks) tell(&h->sums[round][block], sum, threadIdx.x);
        await_cluster();
        sum = 0.0f;
        for (int b = 0; b < blocks; b++) sum += h->sums[round][b];
    }
    __syncthreads(); // h->warp is free
    return sum;
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    normalize(const __grid_constant__ qb_cuda_group_norm p, uint32_t vectors, uint32_t share,
              const void *in, const float *scale, const float *bias, void *out) {
    extern __shared__ __align__(16) char shared[];
    head *h = (head *)shared;
    float *kept = (float *)(h + 1);
    const int blocks = p.blocks, block = blockIdx.x % blocks;
    const uint32_t number = blockIdx.x / blocks, image = number / p.groups;
    const uint32_t each = p.channels / p.groups, first = number % p.groups * each;
    const uint32_t line = (p.channels_last ? each : p.plane) / V; // vectors side by side
    const int64_t pitch = p.channels_last ? p.channels : p.plane;
    const int64_t start = p.channels_last ? (int64_t)image * p.plane * p.channels + first
                                          : ((int64_t)image * p.channels + first) * p.plane;
    const uint32_t begin = min(vectors, block * share), end = min(vectors, begin + share);
    const float count = (float)vectors * V;
    qb_launch_dependents();
    qb_wait_for_dependencies();
    if (blocks > 1) await_cluster(); // all have begun: their shared memory is there
    float sum = 0.0f;
    for (uint32_t i = begin + threadIdx.x; i < end; i += THREADS) {
        float v[V];
        qb_load_floats<V>(p.in, in, start + i / line * pitch + i % line * V, v);
#pragma unroll
        for (int k = 0; k < V; k++) {
            kept[(i - begin) * V + k] = v[k];
            sum += v[k];
        }
    }
    const float mean = __fdiv_rn(sum_of(h, sum, 0, block, blocks), count);
    float squares = 0.0f;
    for (uint32_t i = begin + threadIdx.x; i < end; i += THREADS)
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float d = kept[(i - begin) * V + k] - mean;
            squares += d * d;
        }
    const float variance = __fdiv_rn(sum_of(h, squares, 1, block, blocks), count);
    const float inverse = __fdiv_rn(1.0f, __fsqrt_rn(variance + p.epsilon));
    for (uint32_t i = begin + threadIdx.x; i < end; i += THREADS) {
        const uint32_t row = i / line, column = i % line * V;
        float v[V];
#pragma unroll
        for (int k = 0; k < V; k++) {
            const uint32_t c = first + (p.channels_last ? column + k : row);
            v[k] = (kept[(i - begin) * V + k] - mean) * (scale[c] * inverse) + bias[c];
        }
        qb_store_floats<V, true>(p.out, out, start + row * pitch + column, v);
    }
}

static int width_of(const qb_cuda_group_norm *p) {
    const uint32_t run = p->channels_last ? p->channels / p->groups : p->plane;
    const uint32_t all = p->channels_last ? p->channels : run; // where the next line begins
    int width = 8;
    while (run % width != 0 || all % width != 0) width /= 2;
    return width;
}

static uint32_t vectors_of(const qb_cuda_group_norm *p) {
    return p->channels / p->groups * p->plane / width_of(p);
}

static size_t shared_of(const qb_cuda_group_norm *p, int blocks) {
    const uint32_t share = (vectors_of(p) + blocks - 1) / blocks;
    return sizeof(head) + (size_t)share * width_of(p) * sizeof(float);
}

// Would lines of few channels, each a part of a sector, make too much to read?
static bool is_scattered(const qb_cuda_group_norm *p) {
    const double size = p->in.dtype == QB_DTYPE_F32 ? 4 : p->in.dtype == QB_DTYPE_F16 ? 2 : 1;
    const double line = p->channels / p->groups * size;
    const double sectors = (double)p->images * p->groups * p->plane * SECTOR;
    return p->channels_last && line < SECTOR / 2 && sectors > MOST_TRAFFIC;
}

extern "C" int32_t qb_cuda_group_norm_blocks(const qb_cuda_group_norm *p,
                                             const qb_cuda_device *device, bool clusters) {
    const int most = clusters ? MOST_BLOCKS : 1;
    const uint32_t groups = (uint32_t)p->images * p->groups;
    int blocks = 1;
    if (is_scattered(p)) return 0;
    while (blocks < most && (shared_of(p, blocks) > (size_t)device->shared_per_block ||
                             (groups * blocks < (uint32_t)device->multiprocessors &&
                              vectors_of(p) / blocks > LEAST_VECTORS)))
        blocks *= 2;
    return shared_of(p, blocks) <= (size_t)device->shared_per_block ? blocks : 0;
}

template <int V>
static int run(const qb_cuda_group_norm *p, const void *in, const float *scale, const float *bias,
               void *out, void *stream) {
    const uint32_t vectors = vectors_of(p), share = (vectors + p->blocks - 1) / p->blocks;
    const size_t shared = shared_of(p, p->blocks);
    const int code = qb_reserve_shared(normalize<V>, (int)shared);
    if (code != 0) return code;
    return qb_launch_clusters(normalize<V>, dim3((unsigned)(p->images * p->groups * p->blocks)),
                              (unsigned)p->blocks, THREADS, shared, stream, *p, vectors, share, in,
                              scale, bias, out);
}

extern "C" int qb_cuda_group_norm_cluster_run(const qb_cuda_group_norm *p, const void *in,
                                              const float *scale, const float *bias, void *out,
                                              void *stream) {
    switch (width_of(p)) {
    case 8: return run<8>(p, in, scale, bias, out, stream);
    case 4: return run<4>(p, in, scale, bias, out, stream);
    case 2: return run<2>(p, in, scale, bias, out, stream);
    default: return run<1>(p, in, scale, bias, out, stream);
    }
}

// Group and instance normalization in three kernels: sums of each channel's chunks, mean and
// variance of each group from those, and the result. Sums are of differences from the channel's
// first element, so that little is lost where the mean is far from 0.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/group_norm.h"

#define THREADS 256
#define WARP 32

struct sums {
    float first, squares;
};

// What a channel's elements become: (x - mean) factor + shift.
struct affine {
    float mean, factor, shift, unused;
};

QB_DEVICE float element(const qb_cuda_group_norm &p, const void *in, int64_t at) {
    float v[1];
    qb_load_floats<1>(p.in, in, at, v);
    return v[0];
}

// Where a channel's plane begins.
QB_DEVICE int64_t plane_of(const qb_cuda_group_norm &p, int64_t image, int64_t channel) {
    return p.channels_last ? image * p.plane * p.channels + channel
                           : (image * p.channels + channel) * p.plane;
}

QB_DEVICE sums more(sums a, sums b) { return {a.first + b.first, a.squares + b.squares}; }

// Row-major: a block takes a chunk of a channel.
template <int V>
static __global__ void __launch_bounds__(THREADS)
    measure_planes(const __grid_constant__ qb_cuda_group_norm p, const void *in, sums *parts) {
    qb_wait_for_dependencies();
    __shared__ sums memory[THREADS];
    const uint32_t chunk = blockIdx.y, channel = blockIdx.x % p.channels;
    const uint32_t image = blockIdx.x / p.channels;
    const int64_t from = plane_of(p, image, channel);
    const uint32_t end = min(p.plane, (chunk + 1) * p.chunk);
    const float pivot = element(p, in, from);
    sums s = {0.0f, 0.0f};
    for (uint32_t at = chunk * p.chunk + threadIdx.x * V; at < end; at += THREADS * V) {
        float v[V];
        qb_load_floats<V>(p.in, in, from + at, v);
#pragma unroll
        for (int i = 0; i < V; i++) {
            const float d = v[i] - pivot;
            s = more(s, {d, d * d});
        }
    }
    memory[threadIdx.x] = s;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            memory[threadIdx.x] = more(memory[threadIdx.x], memory[threadIdx.x + half]);
    }
    if (threadIdx.x == 0)
        parts[((int64_t)image * p.chunks + chunk) * p.channels + channel] = memory[0];
}

// Channels last: `columns` threads (a power of 2) side by side take V channels each, the others the
// pixels below.
template <int V>
static __global__ void __launch_bounds__(THREADS)
    measure_pixels(const __grid_constant__ qb_cuda_group_norm p, uint32_t columns, const void *in,
                   sums *parts) {
    qb_wait_for_dependencies();
    __shared__ sums memory[THREADS * V];
    const uint32_t column = threadIdx.x % columns, row = threadIdx.x / columns;
    const uint32_t rows = THREADS / columns, chunk = blockIdx.y;
    const uint32_t blocks = (p.channels / V + columns - 1) / columns;
    const uint32_t channel = (blockIdx.x % blocks * columns + column) * V;
    const uint32_t image = blockIdx.x / blocks;
    const uint32_t end = min(p.plane, (chunk + 1) * p.chunk);
    const int64_t from = plane_of(p, image, channel);
    const bool mine = channel < (uint32_t)p.channels;
    sums s[V];
    float pivot[V];
#pragma unroll
    for (int i = 0; i < V; i++) s[i] = {0.0f, 0.0f};
    if (mine) qb_load_floats<V>(p.in, in, from, pivot);
    for (uint32_t at = chunk * p.chunk + row; mine && at < end; at += rows) {
        float v[V];
        qb_load_floats<V>(p.in, in, from + (int64_t)at * p.channels, v);
#pragma unroll
        for (int i = 0; i < V; i++) {
            const float d = v[i] - pivot[i];
            s[i] = more(s[i], {d, d * d});
        }
    }
#pragma unroll
    for (int i = 0; i < V; i++) memory[i * THREADS + threadIdx.x] = s[i];
    for (uint32_t half = rows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row >= half) continue;
#pragma unroll
        for (int i = 0; i < V; i++) {
            sums *to = &memory[i * THREADS + threadIdx.x];
            *to = more(*to, to[half * columns]);
        }
    }
    if (row > 0 || !mine) return;
    sums *to = parts + ((int64_t)image * p.chunks + chunk) * p.channels + channel;
#pragma unroll
    for (int i = 0; i < V; i++) to[i] = memory[i * THREADS + threadIdx.x];
}

// How many elements, their mean, and the sum of their squared distances from it.
struct moments {
    float n;
    double mean, squares;
};

// Of both together (Chan, Golub, LeVeque 1979).
QB_DEVICE moments both(moments a, moments b) {
    const float n = a.n + b.n, share = n > 0.0f ? __fdividef(b.n, n) : 0.0f;
    const double apart = b.mean - a.mean;
    return {n, a.mean + apart * share, a.squares + b.squares + apart * apart * (a.n * share)};
}

QB_DEVICE moments moments_of(const qb_cuda_group_norm &p, const void *in, const sums *parts,
                             uint32_t image, uint32_t channel, uint32_t chunk) {
    const sums s = parts[((int64_t)image * p.chunks + chunk) * p.channels + channel];
    const double pivot = element(p, in, plane_of(p, image, channel));
    const float n = min(p.chunk, p.plane - chunk * p.chunk);
    const double off = __fdividef(s.first, n);
    return {n, pivot + off, s.squares - n * off * off};
}

// Of a warp, in its first lane.
QB_DEVICE moments of_warp(moments m) {
    for (int d = WARP / 2; d > 0; d /= 2) {
        const moments other = {__shfl_down_sync(0xffffffffu, m.n, d),
                               __shfl_down_sync(0xffffffffu, m.mean, d),
                               __shfl_down_sync(0xffffffffu, m.squares, d)};
        m = both(m, other);
    }
    return m;
}

// T threads take a group: a warp, or a block where there are many chunks and channels to wait for.
template <int T>
static __global__ void __launch_bounds__(THREADS)
    join(const __grid_constant__ qb_cuda_group_norm p, const void *in, const sums *parts,
         const float *scale, const float *bias, affine *norms) {
    qb_wait_for_dependencies();
    __shared__ moments of[THREADS / WARP];
    const uint32_t number = blockIdx.x * (THREADS / T) + threadIdx.x / T;
    const uint32_t lane = threadIdx.x % T, each = p.channels / p.groups;
    const bool mine = number < (uint32_t)(p.images * p.groups);
    const uint32_t image = number / p.groups, first = number % p.groups * each;
    moments m = {0.0f, 0.0, 0.0};
    for (uint32_t i = lane; mine && i < each * p.chunks; i += T)
        m = both(m, moments_of(p, in, parts, image, first + i % each, i / each));
    m = of_warp(m);
    if (threadIdx.x % WARP == 0) of[threadIdx.x / WARP] = m;
    __syncthreads();
    if (!mine) return;
    m = of[threadIdx.x / T * (T / WARP)];
    for (int w = 1; w < T / WARP; w++) m = both(m, of[w]);
    const double variance = fmax(m.squares, 0.0) / m.n;
    const double inverse = 1.0 / sqrt(variance + (double)p.epsilon);
    for (uint32_t c = first + lane; c < first + each; c += T)
        norms[(int64_t)image * p.channels + c] = {(float)m.mean, (float)(scale[c] * inverse),
                                                  bias[c], 0.0f};
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    apply(const __grid_constant__ qb_cuda_group_norm p, uint32_t count, const void *in,
          const affine *norms, void *out) {
    qb_wait_for_dependencies();
    const uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (at >= count) return;
    const uint32_t channels = p.channels;
    const uint32_t image = at / p.plane / channels;
    const uint32_t own = p.channels_last ? image * channels + at % channels : at / p.plane;
    float v[V];
    qb_load_floats<V>(p.in, in, at, v);
#pragma unroll
    for (int i = 0; i < V; i++) {
        const float4 n = ((const float4 *)norms)[own + (p.channels_last ? i : 0)];
        v[i] = (v[i] - n.x) * n.y + n.z;
    }
    qb_store_floats<V, true>(p.out, out, at, v);
}

static size_t bytes_of_parts(const qb_cuda_group_norm *p) {
    const size_t bytes = (size_t)p->images * p->chunks * p->channels * sizeof(sums);
    return (bytes + 255) / 256 * 256;
}

extern "C" size_t qb_cuda_group_norm_bytes(const qb_cuda_group_norm *p) {
    return bytes_of_parts(p) + (size_t)p->images * p->channels * sizeof(affine);
}

template <int V>
static int run(const qb_cuda_group_norm *p, const void *in, const float *scale, const float *bias,
               void *out, void *scratch, cudaStream_t stream) {
    sums *parts = (sums *)scratch;
    affine *norms = (affine *)((char *)scratch + bytes_of_parts(p));
    const uint32_t count = (uint32_t)p->images * p->channels * p->plane;
    const uint32_t pieces = (uint32_t)p->channels / V;
    uint32_t columns = 1;
    while (columns < WARP && columns < pieces) columns *= 2;
    const dim3 pixels((unsigned)p->images * ((pieces + columns - 1) / columns), p->chunks);
    const dim3 planes((unsigned)(p->images * p->channels), p->chunks);
    int code =
        p->channels_last
            ? qb_launch(measure_pixels<V>, pixels, THREADS, 0, stream, *p, columns, in, parts)
            : qb_launch(measure_planes<V>, planes, THREADS, 0, stream, *p, in, parts);
    const unsigned groups = (unsigned)(p->images * p->groups), warps = THREADS / WARP;
    const bool many = p->channels / p->groups * p->chunks > WARP;
    if (code == 0)
        code = qb_launch(many ? join<THREADS> : join<WARP>,
                         many ? groups : (groups + warps - 1) / warps, THREADS, 0, stream, *p, in,
                         parts, scale, bias, norms);
    const uint32_t each = THREADS * V;
    if (code != 0) return code;
    return qb_launch(apply<V>, (count + each - 1) / each, THREADS, 0, stream, *p, count, in, norms,
                     out);
}

extern "C" int qb_cuda_group_norm_run(const qb_cuda_group_norm *p, const void *in,
                                      const float *scale, const float *bias, void *out,
                                      void *scratch, void *stream) {
    const auto with = p->width == 8 ? run<8> : run<1>;
    return with(p, in, scale, bias, out, scratch, (cudaStream_t)stream);
}

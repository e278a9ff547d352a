// Fused attention in f16 on Hopper's wgmma (sm_90a only), for up to 256 keys of up to 64 elements:
// all scores of 64 queries fit into the registers of four warps, so that the softmax sees whole
// rows and nothing is ever scaled down.
//
//   tile      64 queries x KEYS (64, 128, 200, 256) keys, those that do not exist are zero
//   threads   128 a block, three or four blocks a multiprocessor: one multiplies while others
//             exponentiate. A block stays with a head and takes every PARTS-th tile of its queries
//   shared    keys and values, and one tile of queries, copied asynchronously, 128-byte rows
//             swizzled as wgmma wants them; the next queries arrive during the softmax
//   registers KEYS / 2 scores, which become KEYS / 4 pairs of f16 weights, and 32 results
//   bound by  the unit of exponentials (16 a cycle), about as long as the multiplications
//
// A row whose keys are all masked with minus infinity gives zeros.
#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/common/hopper.cuh"
#include "kernels/cuda/common/launch.cuh"

#define SIZE 64 // elements of a head, with zeros at the end where there are fewer
#define ROW_BYTES (SIZE * 2)
#define QUERIES 64

// Tokens first ... first + n - 1 of one head, of which `limit` exist; the others are zero.
QB_DEVICE void load_rows(const uint16_t *from, int64_t step, int first, int n, int limit, int size,
                         uint32_t to) {
#pragma unroll 1 // registers are scarce
    for (int i = threadIdx.x; i < n * (SIZE / 8); i += 128) {
        int row = i / (SIZE / 8), piece = i % (SIZE / 8);
        bool valid = first + row < limit && piece * 8 < size;
        const uint16_t *at = valid ? from + (first + row) * step + piece * 8 : from;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         to + row * ROW_BYTES + ((piece ^ (row & 7)) << 4)),
                     "l"(at), "r"(valid ? 16 : 0)
                     : "memory");
    }
}

// Until the copies of all threads have arrived, and the matrix unit may read them.
QB_DEVICE void await_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

QB_DEVICE float mask_at(const qb_cuda_attention &p, const void *mask, int64_t at) {
    return p.mask_value.dtype == QB_DTYPE_F16 ? __half2float(((const __half *)mask)[at])
                                              : ((const float *)mask)[at];
}

// What the mask adds to the scores of each key, to base 2; minus infinity for keys that do not
// exist.
template <int KEYS>
QB_DEVICE void load_mask(const qb_cuda_attention &p, const void *mask, int64_t first,
                         float *shift) {
    for (int key = threadIdx.x; key < KEYS; key += 128) {
        float v = key < p.keys ? 0.0f : -INFINITY;
        if (mask && key < p.keys) v = LOG2E * mask_at(p, mask, first + key * p.mask[3]);
        shift[key] = v;
    }
}

// Scores scaled to base 2, the mask added. `s`: element 4 j + 2 h + i of lane 4 g + t is row g + 8
// h and key 8 j + 2 t + i, in the 16 rows of a warp.
template <int KEYS> QB_DEVICE void add_mask(float scale, const float *shift, float (&s)[KEYS / 2]) {
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
        float2 add = *(const float2 *)(shift + j * 8 + (threadIdx.x & 3) * 2);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            s[j * 4 + h * 2] = __fmaf_rn(s[j * 4 + h * 2], scale, add.x);
            s[j * 4 + h * 2 + 1] = __fmaf_rn(s[j * 4 + h * 2 + 1], scale, add.y);
        }
    }
}

// Scores to weights 2^(factor (score - largest)) in fragments of mma, and the sums of a lane's
// weights. Keys from `keys` on do not exist; those before FEWEST do, or have scores of minus
// infinity.
template <int KEYS, int FEWEST, int STEPS>
QB_DEVICE void soften(float factor, int keys, float (&s)[KEYS / 2], uint32_t (&weights)[STEPS][4],
                      float (&sum)[2]) {
    int t = threadIdx.x & 3;
    float from[2];
#pragma unroll
    for (int j = FEWEST / 8; j < KEYS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (j * 8 + t * 2 + i % 2 >= keys) s[j * 4 + i] = -INFINITY;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = -INFINITY;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            most = fmaxf(most, fmaxf(s[j * 4 + h * 2], s[j * 4 + h * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        from[h] = most == -INFINITY ? 0.0f : most * factor;
        sum[h] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float a = qb_power_of_2(__fmaf_rn(s[j * 4 + h * 2], factor, -from[h]));
            float b = qb_power_of_2(__fmaf_rn(s[j * 4 + h * 2 + 1], factor, -from[h]));
            sum[h] += a + b;
            weights[j / 2][j % 2 * 2 + h] = qb_f16_pair(a, b);
        }
}

// Four lanes with four values each: lane t gets value t of each.
QB_DEVICE void exchange(float (&v)[4]) {
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
        bool upper = threadIdx.x & d;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & d) continue;
            float other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + d], d);
            if (upper)
                v[i] = other;
            else
                v[i + d] = other;
        }
    }
}

// Rows `row` and row + 8 of the results, times their shares: each lane stores eight elements at a
// time, so that four lanes fill whole sectors.
QB_DEVICE void store(const qb_cuda_attention &p, const float (&result)[32], const float (&share)[2],
                     int row, void *out, int first) {
    int t = threadIdx.x & 3;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int part = 0; part < 2; part++) {
            float v[8];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float four[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    four[j] = result[(part * 4 + j) * 4 + h * 2 + i] * share[h];
                exchange(four);
#pragma unroll
                for (int j = 0; j < 4; j++) v[j * 2 + i] = four[j];
            }
            int column = part * 32 + t * 8;
            if (row + h * 8 < p.rows && column < p.value_size)
                qb_store_floats<8, false>(p.out_value, out,
                                          first + (row + h * 8) * (int)p.out.stride[3] + column, v);
        }
}

template <int KEYS, int FEWEST, int BLOCKS, bool MASKED>
static __global__ void __launch_bounds__(128, BLOCKS)
    attention(const __grid_constant__ qb_cuda_attention p, int parts, const uint16_t *q,
              const uint16_t *k, const uint16_t *v, const void *mask, void *out) {
    constexpr int STEPS = (KEYS + 15) / 16; // of the second multiplication
    extern __shared__ char memory[];
    uint32_t queries = (qb_shared_address(memory) + 1023) & ~1023u;
    uint32_t keys = queries + QUERIES * ROW_BYTES, values = keys + KEYS * ROW_BYTES;
    int item = blockIdx.x / parts, b = item / p.heads, head = item % p.heads;
    k += head_at(p.k, b, head);
    v += head_at(p.v, b, head);
    int q_first = (int)head_at(p.q, b, head); // no tensor has more than 2^31 elements
    int out_first = (int)head_at(p.out, b, head);
    __shared__ __align__(8) float shift[MASKED ? KEYS : 1];
    qb_launch_dependents();
    qb_wait_for_dependencies();
    if (MASKED) load_mask<KEYS>(p, mask, b * p.mask[0] + head * p.mask[1], shift);
    int begin = blockIdx.x % parts * QUERIES, step = parts * QUERIES;
    int in_tile = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4; // this lane's first row
    float factor = MASKED ? 1.0f : p.scale * LOG2E;
    load_rows(q + q_first, p.q.stride[3], begin, QUERIES, p.rows, p.size, queries);
    load_rows(k, p.k.stride[3], 0, KEYS, p.keys, p.size, keys);
    load_rows(v, p.v.stride[3], 0, STEPS * 16, p.keys, p.value_size, values);
    for (int first = begin; first < p.rows; first += step) {
        float s[KEYS / 2], sum[2], result[32];
        await_copies();
        qb_wgmma_fence();
#pragma unroll
        for (int i = 0; i < SIZE / 16; i++)
            qb_wgmma_f16<KEYS>(s, qb_smem_descriptor<ROW_BYTES>(queries) + i * 2,
                               qb_smem_descriptor<ROW_BYTES>(keys) + i * 2, i > 0);
        qb_wgmma_commit();
        qb_wgmma_wait<0>();
        __syncthreads(); // the queries have been read
        if (first + step < p.rows)
            load_rows(q + q_first, p.q.stride[3], first + step, QUERIES, p.rows, p.size, queries);
        int row = first + in_tile;
        if (MASKED) add_mask<KEYS>(p.scale * LOG2E, shift, s);
        uint32_t weights[STEPS][4] = {};
        soften<KEYS, MASKED ? KEYS : FEWEST>(factor, p.keys, s, weights, sum);
        qb_wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            qb_wgmma_f16_transposed(result, weights[i],
                                    qb_smem_descriptor<ROW_BYTES>(values + i * 16 * ROW_BYTES),
                                    i > 0);
        qb_wgmma_commit();
        float share[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
            sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
            share[h] = sum[h] == 0.0f ? 0.0f : qb_reciprocal(sum[h]);
        }
        qb_wgmma_wait<0>();
        store(p, result, share, row, out, out_first);
    }
}

template <int KEYS, int FEWEST, int BLOCKS, bool MASKED>
static int launch(const qb_cuda_attention *p, int32_t multiprocessors, const void *q, const void *k,
                  const void *v, const void *mask, void *out, void *stream) {
    constexpr int SHARED = 1024 + (QUERIES + KEYS + (KEYS + 15) / 16 * 16) * ROW_BYTES;
    static_assert(SHARED <= QB_CUDA_ATTENTION_WGMMA_SHARED, "what tactics ask for");
    if (!q) // only prepares
        return (int)cudaFuncSetAttribute(attention<KEYS, FEWEST, BLOCKS, MASKED>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    int64_t items = (int64_t)p->batch * p->heads;
    int32_t tiles = (p->rows + QUERIES - 1) / QUERIES, parts = 1;
    if (items == 0 || p->rows == 0) return 0;
    while (parts < tiles && items * parts < (int64_t)multiprocessors * BLOCKS) parts++;
    return qb_launch(attention<KEYS, FEWEST, BLOCKS, MASKED>, (unsigned)(items * parts), 128,
                     SHARED, stream, *p, parts, (const uint16_t *)q, (const uint16_t *)k,
                     (const uint16_t *)v, mask, out);
}

template <bool MASKED>
static int launch_sized(const qb_cuda_attention *p, int32_t multiprocessors, const void *q,
                        const void *k, const void *v, const void *mask, void *out, void *stream) {
    auto run = p->keys <= 64    ? launch<64, 0, 4, MASKED>
               : p->keys <= 128 ? launch<128, 64, 4, MASKED>
               : p->keys <= 200 ? launch<200, 128, 3, MASKED>
                                : launch<256, 200, 2, MASKED>;
    return run(p, multiprocessors, q, k, v, mask, out, stream);
}

extern "C" int qb_cuda_attention_wgmma_run(const qb_cuda_attention *p, const void *q, const void *k,
                                           const void *v, const void *mask, void *out,
                                           int32_t multiprocessors, void *stream) {
    // without a mask the largest product is the largest score
    return mask || p->scale <= 0.0f
               ? launch_sized<true>(p, multiprocessors, q, k, v, mask, out, stream)
               : launch_sized<false>(p, multiprocessors, q, k, v, mask, out, stream);
}

extern "C" int qb_cuda_attention_wgmma_prepare(const qb_cuda_attention *p) {
    int code = launch_sized<false>(p, 0, NULL, NULL, NULL, NULL, NULL, NULL);
    return code ? code : launch_sized<true>(p, 0, NULL, NULL, NULL, NULL, NULL, NULL);
}

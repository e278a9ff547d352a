// Fused attention in f16 on mma.sync m16n8k16 (compute capability 8.0 and later): scores never
// reach memory. Keys come in tiles, and the softmax is kept up to date as they do (the largest
// score so far, the sum of exponentials, and the result, scaled down when a larger score turns up).
//
//   tile      16 queries a warp, up to 6, 7 or 8 warps, or 32 and up to 4; 64 keys a step
//   shared    two steps of keys and values, copied asynchronously, 16-byte pieces swizzled
//   registers scores of 16 (32) x 64 and results of 16 (32) x SIZE as floats in fragments of mma
//   bound by  shared memory reads of keys and values, which every warp makes for its queries
//
// A row whose keys are all masked with minus infinity gives zeros.
#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"

#define KEYS 64

struct yes {
    static constexpr bool value = true;
};
struct no {
    static constexpr bool value = false;
};

QB_DEVICE uint32_t address_of(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// 16 bytes or 4, or zeros.
template <int BYTES> QB_DEVICE void copy_async(uint32_t to, const void *from, bool valid) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(valid ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                     "r"(valid ? 4 : 0)
                     : "memory");
}

template <bool TRANSPOSED> QB_DEVICE void load_matrices(uint32_t (&to)[4], uint32_t from) {
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(from)
                     : "memory");
}

// Where 16-byte piece `piece` of row `row` lies: pieces change places so that eight rows of a
// column of pieces fall into different banks.
template <int SIZE> QB_DEVICE uint32_t piece_at(int row, int piece) {
    return (uint32_t)(row * SIZE * 2 + ((piece ^ (row & 7)) << 4));
}

// Keys (or values) first ... first + 63 of one head; what does not exist is zero, as far as any
// multiplication looks. In pieces of BYTES, on multiples of which all heads lie.
template <int SIZE, int BYTES>
QB_DEVICE void load_pieces(const uint16_t *from, int step, int first, int keys, int size,
                           uint32_t to) {
    constexpr int EACH = BYTES / 2, PIECES = SIZE / EACH;
    const int rows = BYTES == 16 ? KEYS : min((keys - first + 15) & ~15, KEYS);
#pragma unroll 1 // registers are scarce
    for (int i = threadIdx.x; i < rows * PIECES; i += blockDim.x) {
        int row = i / PIECES, column = i % PIECES * EACH;
        bool valid = first + row < keys && column < size;
        copy_async<BYTES>(to + piece_at<SIZE>(row, column / 8) + column % 8 * 2,
                          valid ? from + (first + row) * step + column : from, valid);
    }
}

template <int SIZE>
QB_DEVICE void load_tile(const qb_cuda_attention &p, const uint16_t *from, int step, int first,
                         int size, uint32_t to) {
    if (p.pairs)
        load_pieces<SIZE, 4>(from, step, first, p.keys, size, to);
    else
        load_pieces<SIZE, 16>(from, step, first, p.keys, size, to);
}

// The queries of a warp as fragments: lane 4 g + t holds rows g and g + 8 of each group of 16.
template <int SIZE, int GROUPS>
QB_DEVICE void load_queries(const qb_cuda_attention &p, const uint16_t *from, int row,
                            uint32_t (&q)[GROUPS][SIZE / 16][4]) {
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int k = 0; k < SIZE / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = row + group * 16 + g + i % 2 * 8, column = k * 16 + i / 2 * 8 + t * 2;
                q[group][k][i] =
                    r < p.rows && column < p.size
                        ? __ldg((const uint32_t *)(from + r * (int)p.q.stride[3] + column))
                        : 0u;
            }
}

// Products of queries and keys; those of keys from `live` on, which do not exist, are minus
// infinity where no mask comes behind (MASKED).
template <int SIZE, int COLUMNS, int GROUPS, bool MASKED, bool FULL>
QB_DEVICE void scores_of(const uint32_t (&q)[GROUPS][SIZE / 16][4], uint32_t keys, int live,
                         float (&s)[GROUPS][COLUMNS / 8][4]) {
    int lane = threadIdx.x & 31, t = lane & 3;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) {
#pragma unroll
        for (int i = 0; i < GROUPS * 4; i++)
            s[i / 4][j][i % 4] = FULL || j * 8 < live ? 0.0f : -INFINITY;
        if (!FULL && j * 8 >= live) continue;
#pragma unroll
        for (int k = 0; k < SIZE / 16; k += 2) {
            uint32_t b[4];
            load_matrices<false>(b, keys + piece_at<SIZE>(j * 8 + (lane & 7), k * 2 + (lane >> 3)));
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                qb_mma<false>(s[group][j], q[group][k], b[0], b[1]);
                qb_mma<false>(s[group][j], q[group][k + 1], b[2], b[3]);
            }
        }
#pragma unroll
        for (int i = 0; i < GROUPS * 4; i++)
            if (!MASKED && !FULL && j * 8 + t * 2 + i % 2 >= live) s[i / 4][j][i % 4] = -INFINITY;
    }
}

// What a mask without elements adds.
struct nothing {};
QB_DEVICE float mask_value(const float *mask, int at) { return mask[at]; }
QB_DEVICE float mask_value(const __half *mask, int at) { return __half2float(mask[at]); }
QB_DEVICE float mask_value(const nothing *, int) { return 0.0f; }

// Scores scaled to base 2 and with the mask added. Loads are without conditions, so that many are
// under way at once: rows and keys that do not exist read the last ones.
template <int COLUMNS, int GROUPS, bool FULL, class T>
QB_DEVICE void add_mask(const qb_cuda_attention &p, const T *mask, int row, int key, int live,
                        float (&s)[GROUPS][COLUMNS / 8][4]) {
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const float scale = p.scale * LOG2E;
    const int along = (int)p.mask[3];
    int line[GROUPS * 2];
#pragma unroll
    for (int h = 0; h < GROUPS * 2; h++)
        line[h] = min(row + h / 2 * 16 + g + h % 2 * 8, p.rows - 1) * (int)p.mask[2] + key * along;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
        for (int i = 0; i < GROUPS * 4; i++) {
            const int column = j * 8 + t * 2 + i % 2;
            const int there = FULL ? column : min(column, live - 1);
            const float add = LOG2E * mask_value(mask, line[i / 2] + there * along);
            float &v = s[i / 4][j][i % 4];
            v = FULL || column < live ? __fmaf_rn(v, scale, add) : -INFINITY;
        }
}

// Scores become weights 2^(factor (score - top)): top and sum as they are after this step, for rows
// g and g + 8. The results so far are scaled where a row has a new top.
template <int TILES, int COLUMNS, bool FULL>
QB_DEVICE void soften(float factor, int live, float (&s)[COLUMNS / 8][4], float (&top)[2],
                      float (&sum)[2], float (&result)[TILES][4]) {
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = top[h];
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            most = fmaxf(most, fmaxf(s[j][h * 2], s[j][h * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        float from = most == -INFINITY ? 0.0f : most * factor;
        shrink[h] = qb_power_of_2(__fmaf_rn(top[h], factor, -from));
        top[h] = most;
        sum[h] *= shrink[h];
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) {
            if (!FULL && j * 8 >= live) continue; // mix does not look at them
#pragma unroll
            for (int i = 0; i < 2; i++) {
                s[j][h * 2 + i] = qb_power_of_2(__fmaf_rn(s[j][h * 2 + i], factor, -from));
                sum[h] += s[j][h * 2 + i];
            }
        }
    }
    if (__all_sync(0xffffffffu, shrink[0] == 1.0f && shrink[1] == 1.0f)) return;
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) result[j][i] *= shrink[i / 2];
}

// result += weights x values.
template <int SIZE, int COLUMNS, int GROUPS, bool FULL>
QB_DEVICE void mix(float (&s)[GROUPS][COLUMNS / 8][4], uint32_t values, int live,
                   float (&result)[GROUPS][SIZE / 8][4]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < COLUMNS / 16; k++) {
        if (!FULL && k * 16 >= live) continue;
        uint32_t a[GROUPS][4];
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float(&from)[4] = s[group][2 * k + i / 2];
                a[group][i] = FULL || k * 16 + i / 2 * 8 < live
                                  ? qb_f16_pair(from[i % 2 * 2], from[i % 2 * 2 + 1])
                                  : 0u;
            }
#pragma unroll
        for (int j = 0; j < SIZE / 8; j += 2) {
            uint32_t b[4];
            load_matrices<true>(b, values + piece_at<SIZE>(k * 16 + (lane & 15), j + (lane >> 4)));
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                qb_mma<false>(result[group][j], a[group], b[0], b[1]);
                qb_mma<false>(result[group][j + 1], a[group], b[2], b[3]);
            }
        }
    }
}

// EACH elements at a time of 16 rows, the sums of what PARTS warps have.
template <int SIZE, int PARTS, int EACH>
QB_DEVICE void store_pieces(const qb_cuda_attention &p, const float *room, int row, void *out,
                            int64_t first) {
#pragma unroll 1
    for (int i = threadIdx.x % (32 * PARTS); i < 16 * (SIZE / EACH); i += 32 * PARTS) {
        int r = i / (SIZE / EACH), column = i % (SIZE / EACH) * EACH;
        if (row + r >= p.rows || column >= p.value_size) continue;
        const float *from = room + r * SIZE + ((column / 8) ^ (r & 7)) * 8 + column % 8;
        float v[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j += 2) {
            float2 pair = *(const float2 *)(from + j);
#pragma unroll
            for (int part = 1; part < PARTS; part++) {
                const float2 more = *(const float2 *)(from + part * 16 * SIZE + j);
                pair.x += more.x;
                pair.y += more.y;
            }
            v[j] = pair.x;
            v[j + 1] = pair.y;
        }
        qb_store_floats<EACH, false>(p.out_value, out,
                                     first + (row + r) * (int)p.out.stride[3] + column, v);
    }
}

// By way of shared memory to whole rows. Each warp has room for 16 rows of floats, those of a row's
// PARTS warps, which fill the block, behind each other.
template <int SIZE, int PARTS>
QB_DEVICE void store(const qb_cuda_attention &p, float (&result)[SIZE / 8][4], float *rooms,
                     int row, void *out, int64_t first) {
    float *room = rooms + threadIdx.x / 32 * 16 * SIZE;
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < SIZE / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(float2 *)(room + (g + h * 8) * SIZE + (j ^ g) * 8 + t * 2) =
                make_float2(result[j][h * 2], result[j][h * 2 + 1]);
    if (PARTS > 1) {
        __syncthreads();
        room = rooms;
    } else {
        __syncwarp();
    }
    if (p.pairs)
        store_pieces<SIZE, PARTS, 2>(p, room, row, out, first);
    else
        store_pieces<SIZE, PARTS, 8>(p, room, row, out, first);
}

// What each row's weights are to be multiplied with: one over their sum; among PARTS warps that had
// a part of its keys each, relative to the largest score of all of them.
template <int PARTS>
QB_DEVICE void shares_of(const float (&top)[2], const float (&sum)[2], float factor, float *room,
                         float (&share)[2]) {
    const int lane = threadIdx.x & 31, g = lane >> 2, part = threadIdx.x / 32;
    float total[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        total[h] = sum[h] + __shfl_xor_sync(0xffffffffu, sum[h], 1);
        total[h] += __shfl_xor_sync(0xffffffffu, total[h], 2);
        share[h] = total[h] == 0.0f ? 0.0f : 1.0f / total[h];
    }
    if constexpr (PARTS > 1) {
        float2(*all)[16] = (float2(*)[16])room;
        if ((lane & 3) == 0)
            for (int h = 0; h < 2; h++) all[part][g + h * 8] = make_float2(top[h], total[h]);
        __syncthreads();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float most = -INFINITY, whole = 0.0f;
            for (int i = 0; i < PARTS; i++) most = fmaxf(most, all[i][g + h * 8].x);
            const float from = most == -INFINITY ? 0.0f : most * factor;
            for (int i = 0; i < PARTS; i++)
                whole += all[i][g + h * 8].y *
                         qb_power_of_2(__fmaf_rn(all[i][g + h * 8].x, factor, -from));
            share[h] =
                whole == 0.0f ? 0.0f : qb_power_of_2(__fmaf_rn(top[h], factor, -from)) / whole;
        }
    }
}

// WARPS warps with GROUPS times 16 queries each, at most; or PARTS warps with the same queries and
// each with a part of the keys of a step.
template <int SIZE, int GROUPS, int WARPS, bool MASKED, int PARTS>
static __global__ void __maxnreg__(PARTS > 1 || (SIZE == 64 && GROUPS == 1 && MASKED) ? 168
                                   : SIZE == 64 && GROUPS == 1                        ? 144
                                                                                      : 255)
    attention(const __grid_constant__ qb_cuda_attention p, int blocks, const uint16_t *q,
              const uint16_t *k, const uint16_t *v, const void *mask, void *out) {
    extern __shared__ __align__(128) char memory[]; // [step][keys, values][64][SIZE] halves
    constexpr uint32_t TILE = KEYS * SIZE * 2;
    const uint32_t item = blockIdx.x / blocks, b = item / p.heads, head = item % p.heads;
    constexpr int COLUMNS = KEYS / PARTS;
    const int warp = threadIdx.x / 32, part = warp % PARTS * COLUMNS; // its first key of a step
    int row = (blockIdx.x % blocks * (blockDim.x / 32 / PARTS) + warp / PARTS) * (GROUPS * 16);
    uint32_t tiles = address_of(memory);
    qb_launch_dependents();
    qb_wait_for_dependencies();
    k += head_at(p.k, b, head);
    v += head_at(p.v, b, head);
    auto load = [&](int step) {
        uint32_t to = tiles + step % 2 * 2 * TILE;
        load_tile<SIZE>(p, k, (int)p.k.stride[3], step * KEYS, p.size, to);
        load_tile<SIZE>(p, v, (int)p.v.stride[3], step * KEYS, p.value_size, to + TILE);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    load(0);
    uint32_t queries[GROUPS][SIZE / 16][4];
    load_queries<SIZE, GROUPS>(p, q + head_at(p.q, b, head), row, queries);
    float result[GROUPS][SIZE / 8][4] = {}, top[GROUPS][2], sum[GROUPS][2] = {};
    for (int i = 0; i < GROUPS * 2; i++) top[i / 2][i % 2] = -INFINITY;
    int steps = (p.keys + KEYS - 1) / KEYS;
    int mask_first = b * (int)p.mask[0] + head * (int)p.mask[1];
    float factor = MASKED ? 1.0f : p.scale * LOG2E;
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) {
            load(step + 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        uint32_t here = tiles + step % 2 * 2 * TILE + part * SIZE * 2;
        int live = min(p.keys - step * KEYS - part, COLUMNS), key = step * KEYS + part;
        auto take = [&](auto full) { // a step without branches where all keys exist
            constexpr bool FULL = decltype(full)::value;
            float s[GROUPS][COLUMNS / 8][4];
            scores_of<SIZE, COLUMNS, GROUPS, MASKED, FULL>(queries, here, live, s);
            if (MASKED && !mask)
                add_mask<COLUMNS, GROUPS, FULL>(p, (const nothing *)nullptr, row, key, live, s);
            else if (MASKED && p.mask_value.dtype == QB_DTYPE_F16)
                add_mask<COLUMNS, GROUPS, FULL>(p, (const __half *)mask + mask_first, row, key,
                                                live, s);
            else if (MASKED)
                add_mask<COLUMNS, GROUPS, FULL>(p, (const float *)mask + mask_first, row, key, live,
                                                s);
#pragma unroll
            for (int group = 0; group < GROUPS; group++)
                soften<SIZE / 8, COLUMNS, FULL>(factor, live, s[group], top[group], sum[group],
                                                result[group]);
            mix<SIZE, COLUMNS, GROUPS, FULL>(s, here + TILE, live, result);
        };
        if (live == COLUMNS)
            take(yes{});
        else if (live > 0)
            take(no{});
        __syncthreads(); // the next copies overwrite this step
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        float share[2];
        shares_of<PARTS>(top[group], sum[group], factor, (float *)memory + WARPS * 16 * SIZE,
                         share);
#pragma unroll
        for (int j = 0; j < SIZE / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) result[group][j][i] *= share[i / 2];
        store<SIZE, PARTS>(p, result[group], (float *)memory, row + group * 16, out,
                           head_at(p.out, b, head));
        __syncwarp();
    }
}

template <int SIZE, int GROUPS, int WARPS, bool MASKED, int PARTS = 1>
static int launch(const qb_cuda_attention *p, int32_t multiprocessors, const void *q, const void *k,
                  const void *v, const void *mask, void *out, void *stream) {
    constexpr int SHARED = 2 * 2 * KEYS * SIZE * 2;
    static_assert(SHARED == QB_CUDA_ATTENTION_SHARED(SIZE), "what tactics ask for");
    static_assert(WARPS * 16 * SIZE * 4 + (PARTS > 1 ? PARTS * 16 * 8 : 0) <= SHARED,
                  "room for the results");
    static_assert(PARTS == 1 || (PARTS == WARPS && GROUPS == 1), "a row's warps are a block");
    if (!q) // only prepares
        return (int)cudaFuncSetAttribute(attention<SIZE, GROUPS, WARPS, MASKED, PARTS>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    int64_t items = (int64_t)p->batch * p->heads;
    int32_t tiles = (p->rows + GROUPS * 16 - 1) / (GROUPS * 16), most = WARPS / PARTS;
    if (items == 0 || p->rows == 0) return 0;
    while (most > 1 && items * ((tiles + most - 1) / most) < multiprocessors) most /= 2;
    int32_t blocks = (tiles + most - 1) / most, warps = (tiles + blocks - 1) / blocks;
    return qb_launch(attention<SIZE, GROUPS, WARPS, MASKED, PARTS>, (unsigned)(items * blocks),
                     (unsigned)(warps * PARTS) * 32, SHARED, stream, *p, blocks,
                     (const uint16_t *)q, (const uint16_t *)k, (const uint16_t *)v, mask, out);
}

template <bool MASKED>
static int launch_sized(const qb_cuda_attention *p, int32_t multiprocessors, const void *q,
                        const void *k, const void *v, const void *mask, void *out, void *stream) {
    const bool large = qb_cuda_attention_longest(p) > 64;
    if (p->split)
        return (large
                    ? launch<128, 1, 4, MASKED, 4>
                    : launch<64, 1, 4, MASKED, 4>)(p, multiprocessors, q, k, v, mask, out, stream);
    auto run = large ? launch<128, 1, 8, MASKED> : p->queries == 16 ? launch < 64, 1,
         MASKED ? 6 : 7, MASKED > : launch<64, 2, 4, MASKED>;
    return run(p, multiprocessors, q, k, v, mask, out, stream);
}

extern "C" int qb_cuda_attention_run(const qb_cuda_attention *p, const void *q, const void *k,
                                     const void *v, const void *mask, void *out,
                                     int32_t multiprocessors, void *stream) {
    // without a mask the largest product is the largest score
    return mask || p->scale <= 0.0f
               ? launch_sized<true>(p, multiprocessors, q, k, v, mask, out, stream)
               : launch_sized<false>(p, multiprocessors, q, k, v, mask, out, stream);
}

extern "C" int qb_cuda_attention_prepare(const qb_cuda_attention *p) {
    // the way with more than the 48 KiB that a block has without asking
    if (qb_cuda_attention_longest(p) <= 64) return 0;
    int code = launch_sized<false>(p, 0, NULL, NULL, NULL, NULL, NULL, NULL);
    return code ? code : launch_sized<true>(p, 0, NULL, NULL, NULL, NULL, NULL, NULL);
}

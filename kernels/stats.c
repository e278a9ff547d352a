#include "kernels/stats_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Bins are located run by run and counted by the chunk, which stays in the first-level cache.
 * Counting uses 16-bit counters, two a bin in turn, so that runs of equal values wait less for
 * their own stores, and all that are in use stay in that cache, too; they are emptied into the
 * 64-bit bins before any can overflow. */
#define CHUNK 1024
#define WAYS 2
#define COUNTER_MAX 65535u
#define CHUNK_PER_COUNTER (2 * CHUNK / WAYS + 4) /* most that one count adds to one counter */
#define DIRECT_BELOW 4096 /* fewer values than this are not worth clearing the counters */
#define HALF QB_STATS_ZERO_BIN

typedef struct accumulator {
    qb_stats *stats;
    const qb_stats_path *path;
    float scale;      /* 2^-exponent HALF */
    bool direct;      /* count straight into the bins */
    uint32_t pending; /* no counter is above this */
    float low,
        high; /* extent of what was located since the counters were empty; low > high: none */
    size_t n_located; /* below CHUNK between runs */
    uint16_t index[2 * CHUNK + QB_STATS_INDEX_SLACK];
    float finite[CHUNK]; /* a run without its NaNs and infinities */
    _Alignas(64) uint16_t counter[QB_STATS_BINS][WAYS];
} accumulator;

void qb_stats_init(qb_stats *stats) {
    memset(stats, 0, sizeof *stats);
    stats->exponent = QB_STATS_MIN_EXPONENT;
    stats->min = INFINITY;
    stats->max = -INFINITY;
}

double qb_stats_edge(const qb_stats *stats, int32_t bin) {
    return ldexp((double)(bin - HALF) / HALF, stats->exponent);
}

/* The smallest exponent whose range [-2^e, 2^e) holds both values. */
static int32_t exponent_for(float low, float high) {
    int above, below;
    frexpf(high, &above); /* |high| < 2^above */
    if (high <= 0.0f) above = QB_STATS_MIN_EXPONENT;
    float mantissa = frexpf(low, &below);
    if (mantissa == -0.5f) below--; /* -2^e itself is inside */
    if (low >= 0.0f) below = QB_STATS_MIN_EXPONENT;
    int32_t exponent = above > below ? above : below;
    return exponent > QB_STATS_MIN_EXPONENT ? exponent : QB_STATS_MIN_EXPONENT;
}

static int32_t bin_of(float value, int32_t exponent) {
    return (int32_t)floor(ldexp((double)value, -exponent) * HALF) + HALF;
}

/* After `doublings` of the range bin HALF + i is at HALF + floor(i / 2^doublings). */
static void grow(qb_stats *stats, int32_t exponent) {
    int32_t doublings = exponent - stats->exponent;
    stats->exponent = exponent;
    if (doublings <= 0 || stats->count == 0) return;
    int32_t width = doublings < 12 ? 1 << doublings : HALF;
    for (int32_t i = 0; i < HALF; i++) {
        uint64_t right = 0, left = 0;
        for (int32_t k = i * width; k < (i + 1) * width && k < HALF; k++) {
            right += stats->bin[HALF + k];
            left += stats->bin[HALF - 1 - k];
        }
        stats->bin[HALF + i] = right; /* reads run ahead of writes */
        stats->bin[HALF - 1 - i] = left;
    }
}

static void flush(accumulator *acc) {
    if (acc->pending == 0) return;
    qb_stats *stats = acc->stats;
    int32_t first = bin_of(acc->low, stats->exponent), last = bin_of(acc->high, stats->exponent);
    for (int32_t b = first; b <= last; b++) {
        uint32_t sum = 0;
        for (int w = 0; w < WAYS; w++) sum += acc->counter[b][w];
        stats->bin[b] += sum;
    }
    memset(acc->counter[first], 0, (size_t)(last - first + 1) * sizeof acc->counter[0]);
    acc->pending = 0;
    acc->low = INFINITY;
    acc->high = -INFINITY;
}

/* Counts what was located. */
static void count(accumulator *acc) {
    const size_t n = acc->n_located;
    const uint16_t *index = acc->index;
    size_t i = 0;
    if (n == 0) return;
    acc->n_located = 0;
    if (acc->direct) {
        for (; i < n; i++) acc->stats->bin[index[i]]++;
        return;
    }
    acc->pending += CHUNK_PER_COUNTER;
    for (; i + 4 <= n; i += 4) {
        uint64_t four;
        memcpy(&four, index + i, sizeof four);
        acc->counter[four & 0xffff][0]++;
        acc->counter[four >> 16 & 0xffff][1]++;
        acc->counter[four >> 32 & 0xffff][0]++;
        acc->counter[four >> 48][1]++;
    }
    for (; i < n; i++) acc->counter[index[i]][0]++;
    if (acc->pending > COUNTER_MAX - CHUNK_PER_COUNTER) flush(acc);
}

/* Copies the finite values to acc->finite and counts the others. */
static size_t keep_finite(accumulator *acc, const float *value, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(value[i]))
            acc->stats->nan++;
        else if (isinf(value[i]))
            (*(value[i] > 0 ? &acc->stats->pos_inf : &acc->stats->neg_inf))++;
        else
            acc->finite[kept++] = value[i];
    }
    return kept;
}

/* The range grows until it holds these n >= 1 finite values. */
static void widen(accumulator *acc, const float *value, size_t n) {
    float low = value[0], high = value[0];
    for (size_t i = 1; i < n; i++) {
        low = value[i] < low ? value[i] : low;
        high = value[i] > high ? value[i] : high;
    }
    const int32_t exponent = exponent_for(low, high);
    if (exponent <= acc->stats->exponent) return;
    count(acc);
    flush(acc);
    grow(acc->stats, exponent);
    acc->scale = ldexpf(HALF, -exponent);
}

/* At most CHUNK values, n >= 1. */
static void add_part(accumulator *acc, const float *value, size_t n) {
    qb_stats *stats = acc->stats;
    qb_stats_found found = acc->path->locate(value, n, acc->scale, acc->index + acc->n_located);
    if (!found.inside) {
        n = keep_finite(acc, value, n);
        if (n == 0) return;
        widen(acc, acc->finite, n);
        found = acc->path->locate(acc->finite, n, acc->scale, acc->index + acc->n_located);
    }
    found.min += 0.0f; /* -0 becomes 0: which zero came first must not show */
    found.max += 0.0f;
    acc->low = found.min < acc->low ? found.min : acc->low;
    acc->high = found.max > acc->high ? found.max : acc->high;
    stats->min = found.min < stats->min ? found.min : stats->min;
    stats->max = found.max > stats->max ? found.max : stats->max;
    stats->count += n;
    stats->zeros += n - found.used;
    stats->bin[HALF] += n - found.used;
    acc->n_located += found.used;
    if (acc->n_located >= CHUNK) count(acc);
}

static void begin(accumulator *acc, qb_stats *stats, const qb_stats_path *path, size_t n) {
    acc->stats = stats;
    acc->path = path;
    acc->scale = ldexpf(HALF, -stats->exponent);
    acc->direct = n < DIRECT_BELOW;
    acc->pending = 0;
    acc->low = INFINITY;
    acc->high = -INFINITY;
    acc->n_located = 0;
    if (!acc->direct) memset(acc->counter, 0, sizeof acc->counter);
}

static void add_run(accumulator *acc, const float *value, size_t n) {
    for (size_t i = 0; i < n; i += CHUNK) add_part(acc, value + i, n - i < CHUNK ? n - i : CHUNK);
}

static void finish(accumulator *acc) {
    count(acc);
    flush(acc);
}

static const qb_stats_path *fastest(void) {
    int32_t n;
    const qb_stats_path *path = qb_stats_paths(&n);
    while (!path->supported()) path++;
    return path;
}

void qb_stats_add_by(qb_stats *stats, const qb_stats_path *path, const float *value, size_t n) {
    accumulator acc;
    begin(&acc, stats, path, n);
    add_run(&acc, value, n);
    finish(&acc);
}

void qb_stats_add(qb_stats *stats, const float *value, size_t n) {
    qb_stats_add_by(stats, fastest(), value, n);
}

/* `lanes` neighbouring values at each of `n` places `stride` apart. */
static void add_strided(accumulator *acc, const float *value, int64_t n, int64_t lanes,
                        int64_t stride) {
    if (lanes == stride) {
        add_run(acc, value, (size_t)(n * lanes));
        return;
    }
    for (int64_t i = 0; i < n; i++) add_run(acc, value + i * stride, (size_t)lanes);
}

static void add_item(accumulator *acc, const float *item, const qb_channel_view *c,
                     qb_layout layout) {
    if (layout == QB_LAYOUT_ROW) {
        add_run(acc, item + c->offset * c->spatial, (size_t)(c->n * c->spatial));
    } else if (layout == QB_LAYOUT_NHWC) {
        add_strided(acc, item + c->offset, c->spatial, c->n, c->total);
    } else {
        int64_t end = c->offset + c->n;
        for (int64_t first = c->offset; first < end;) {
            int64_t block = first / c->block, next = (block + 1) * c->block;
            int64_t lanes = (next < end ? next : end) - first;
            add_strided(acc, item + block * c->block * c->spatial + first % c->block, c->spatial,
                        lanes, c->block);
            first += lanes;
        }
    }
}

void qb_stats_add_tensor(qb_stats *stats, const qb_tensor *tensor, int64_t n_items) {
    const qb_desc *desc = &tensor->desc;
    assert(desc->dtype == QB_DTYPE_F32 && desc->layout != QB_LAYOUT_ANY);
    int64_t items = desc->shape.rank > 0 ? desc->shape.dim[0] : 1;
    if (n_items >= 0 && n_items < items) items = n_items;
    const qb_channel_view c = qb_desc_channels(desc);
    accumulator acc;
    begin(&acc, stats, fastest(), (size_t)(items * c.n * c.spatial));
    if (desc->channel_total == 0 && c.stored == c.n * c.spatial)
        add_run(&acc, tensor->data, (size_t)(items * c.stored));
    else
        for (int64_t i = 0; i < items; i++)
            add_item(&acc, (const float *)tensor->data + i * c.stored, &c, desc->layout);
    finish(&acc);
}

void qb_stats_merge(qb_stats *into, const qb_stats *from) {
    if (from->exponent > into->exponent) grow(into, from->exponent);
    int32_t doublings = into->exponent - from->exponent;
    int32_t shift = doublings < 12 ? doublings : 12; /* 12 sends all to the two middle bins */
    if (from->count > 0)
        for (int32_t i = 0; i < HALF; i++) {
            into->bin[HALF + (i >> shift)] += from->bin[HALF + i];
            into->bin[HALF - 1 - (i >> shift)] += from->bin[HALF - 1 - i];
        }
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
    into->count += from->count;
    into->zeros += from->zeros;
    into->nan += from->nan;
    into->pos_inf += from->pos_inf;
    into->neg_inf += from->neg_inf;
}

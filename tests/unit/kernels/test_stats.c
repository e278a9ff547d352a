/* qb_stats against a model that sees all values at once. */
#include "qb_test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/stats_internal.h"

static void *need(size_t n, size_t size) {
    void *memory = calloc(n, size);
    assert_non_null(memory);
    return memory;
}

/* What the header promises, in double and by the whole multiset of values. */
static void model(qb_stats *out, const float *value, size_t n) {
    qb_stats_init(out);
    for (size_t i = 0; i < n; i++) {
        if (isnan(value[i]) || isinf(value[i])) {
            out->nan += isnan(value[i]) != 0;
            out->pos_inf += value[i] == INFINITY;
            out->neg_inf += value[i] == -INFINITY;
            continue;
        }
        out->count++;
        out->zeros += value[i] == 0.0f;
        if (value[i] < out->min) out->min = value[i] == 0.0f ? 0.0f : value[i];
        if (value[i] > out->max) out->max = value[i] == 0.0f ? 0.0f : value[i];
    }
    if (out->count == 0) return;
    while (out->min < -ldexp(1, out->exponent) || out->max >= ldexp(1, out->exponent))
        out->exponent++;
    for (size_t i = 0; i < n; i++)
        if (isfinite(value[i])) {
            double part = (double)value[i] / ldexp(1, out->exponent);
            /* (part + 1) is not exact for tiny values: floor first, on an exact product. */
            out->bin[(int)floor(part * QB_STATS_BINS / 2) + QB_STATS_BINS / 2]++;
        }
}

static void assert_same(const qb_stats *got, const qb_stats *expected, const char *what) {
    if (memcmp(got, expected, sizeof *got) == 0) return;
    print_error("%s: exponent %d/%d min %a/%a max %a/%a count %llu/%llu zeros %llu/%llu\n", what,
                got->exponent, expected->exponent, got->min, expected->min, got->max, expected->max,
                (unsigned long long)got->count, (unsigned long long)expected->count,
                (unsigned long long)got->zeros, (unsigned long long)expected->zeros);
    for (int b = 0; b < QB_STATS_BINS; b++)
        if (got->bin[b] != expected->bin[b])
            print_error("  bin %d: %llu, expected %llu\n", b, (unsigned long long)got->bin[b],
                        (unsigned long long)expected->bin[b]);
    fail();
}

/* All instruction sets, and several ways to cut the data, give the model's result. */
static void check_all(const float *value, size_t n, const char *what) {
    qb_stats *expected = need(1, sizeof *expected), *got = need(1, sizeof *got);
    qb_stats *other = need(1, sizeof *other);
    model(expected, value, n);
    int32_t n_paths;
    const qb_stats_path *path = qb_stats_paths(&n_paths);
    for (int32_t p = 0; p < n_paths; p++) {
        if (!path[p].supported()) continue;
        qb_stats_init(got);
        qb_stats_add_by(got, &path[p], value, n);
        assert_same(got, expected, what);
    }
    static const size_t cuts[] = {1, 7, 333, 2048, 5000};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        size_t cut = cuts[c];
        if (n / cut > 5000) continue;
        qb_stats_init(got);
        qb_stats_init(other);
        for (size_t i = 0, k = 0; i < n; i += cut, k++) /* every other piece into another one */
            qb_stats_add(k % 2 ? got : other, value + i, n - i < cut ? n - i : cut);
        qb_stats_merge(got, other);
        assert_same(got, expected, what);
    }
    free(expected);
    free(got);
    free(other);
}

static float any_bits(qb_rng *rng) {
    uint32_t bits = (uint32_t)qb_rng_u64(rng);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void equals_the_model_on_every_path_and_split(void **state) {
    (void)state;
    enum { N = 20011 };
    float *value = need(N, sizeof *value);
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    for (int kind = 0; kind < 6; kind++) {
        for (int i = 0; i < N; i++) {
            double g = qb_rng_normal(&rng);
            switch (kind) {
            case 0: value[i] = (float)g; break;
            case 1: value[i] = g > 0 ? (float)g : 0.0f; break;
            case 2: value[i] = (float)(g * exp2(qb_rng_uniform(&rng) * 200 - 140)); break;
            case 3: value[i] = any_bits(&rng); break; /* NaNs, infinities, denormals and all */
            case 4: value[i] = 2.5f; break;
            default: value[i] = i % 3 ? -0.0f : 0.0f; break;
            }
        }
        static const char *names[] = {"normal", "relu", "wide", "any bits", "constant", "zeros"};
        check_all(value, N, names[kind]);
        check_all(value, 31, names[kind]);
        check_all(value + 1, 16, names[kind]);
    }
    free(value);
}

static void counters_do_not_overflow_on_long_constant_input(void **state) {
    (void)state;
    enum { N = 700000 }; /* more than four 16-bit counters hold */
    float *value = need(N, sizeof *value);
    for (int i = 0; i < N; i++) value[i] = i % 2 ? 1.0f : -3.0f;
    check_all(value, N, "two values");
    for (int i = 0; i < N; i++) value[i] = 1.0f;
    check_all(value, N, "one value");
    free(value);
}

static void range_edges_belong_where_the_header_says(void **state) {
    (void)state;
    for (int k = -40; k <= 127; k++) {
        float edge = ldexpf(1, k);
        float one[] = {edge};
        float two[] = {-edge};
        float around[] = {edge, -edge, nextafterf(edge, 0), nextafterf(-edge, 0), -0.0f};
        check_all(one, 1, "2^k");
        check_all(two, 1, "-2^k");
        check_all(around, 5, "around 2^k");
        qb_stats *stats = need(1, sizeof *stats);
        qb_stats_init(stats);
        qb_stats_add(stats, two, 1); /* -2^k is the left end of [-2^k, 2^k) */
        assert_int_equal(stats->exponent, k < -32 ? -32 : k);
        qb_stats_add(stats, one, 1); /* 2^k is outside */
        assert_int_equal(stats->exponent, k + 1 < -32 ? -32 : k + 1);
        free(stats);
    }
}

static void extreme_values_are_counted(void **state) {
    (void)state;
    const float value[] = {
        FLT_MAX, -FLT_MAX, FLT_MIN,  -FLT_MIN,  FLT_TRUE_MIN, -FLT_TRUE_MIN,   0.0f, -0.0f,
        NAN,     -NAN,     INFINITY, -INFINITY, -INFINITY,    ldexpf(-1, 127), 1.0f, -1.0f};
    enum { N = sizeof value / sizeof *value };
    check_all(value, N, "extremes");
    float many[N * 40];
    for (int i = 0; i < N * 40; i++) many[i] = value[(i * 7) % N];
    check_all(many, N * 40, "many extremes");
    qb_stats *stats = need(1, sizeof *stats);
    qb_stats_init(stats);
    qb_stats_add(stats, value, N);
    assert_int_equal(stats->exponent, QB_STATS_MAX_EXPONENT);
    assert_int_equal(stats->nan, 2);
    assert_int_equal(stats->pos_inf, 1);
    assert_int_equal(stats->neg_inf, 2);
    assert_int_equal(stats->count, N - 5);
    assert_int_equal(stats->zeros, 2);
    /* Tiny negative values stay left of zero however wide the range is. */
    assert_int_equal(stats->bin[QB_STATS_BINS / 2 - 1], 3); /* -1, -FLT_MIN, -FLT_TRUE_MIN */
    free(stats);
}

static void nothing_finite_leaves_min_above_max(void **state) {
    (void)state;
    const float value[] = {NAN, INFINITY};
    qb_stats *stats = need(1, sizeof *stats);
    qb_stats_init(stats);
    qb_stats_add(stats, value, 0);
    qb_stats_add(stats, value, 2);
    assert_int_equal(stats->count, 0);
    assert_true(stats->min > stats->max);
    check_all(value, 2, "not finite");
    free(stats);
}

static void merge_is_commutative_and_associative(void **state) {
    (void)state;
    enum { N = 3000, PARTS = 4 };
    qb_rng rng;
    qb_rng_seed(&rng, 5);
    float *value = need(N, sizeof *value);
    qb_stats *part = need(PARTS + 2, sizeof *part);
    qb_stats *left = part + PARTS, *right = part + PARTS + 1;
    for (int p = 0; p < PARTS; p++) {
        qb_stats_init(&part[p]);
        for (int i = 0; i < N; i++) value[i] = (float)(qb_rng_normal(&rng) * exp2(p * 9 - 20.0));
        if (p != 2) qb_stats_add(&part[p], value, N); /* one stays empty */
    }
    qb_stats_init(left);
    qb_stats_init(right);
    for (int p = 0; p < PARTS; p++) qb_stats_merge(left, &part[p]);
    for (int p = PARTS; p-- > 0;) qb_stats_merge(right, &part[p]);
    assert_same(left, right, "order of merges");
    qb_stats_merge(&part[3], &part[1]);
    qb_stats_merge(&part[0], &part[3]);
    assert_same(&part[0], left, "tree of merges");
    free(part);
    free(value);
}

/* Writes the items of a logical row-major tensor into a channel slice of a buffer whose other
 * elements are `junk`. */
static void store(const qb_desc *desc, const float *row, float *buffer, float junk) {
    int64_t n = desc->shape.dim[0], c = desc->shape.dim[1], s = 1;
    for (int i = 2; i < desc->shape.rank; i++) s *= desc->shape.dim[i];
    int64_t total = desc->channel_total ? desc->channel_total : c;
    int64_t block = desc->layout == QB_LAYOUT_C16 ? 16 : desc->layout == QB_LAYOUT_C8 ? 8 : 1;
    int64_t padded = (total + block - 1) / block * block;
    for (int64_t i = 0; i < n * padded * s; i++) buffer[i] = junk;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t j = 0; j < s; j++) {
                int64_t ch = k + desc->channel_offset;
                int64_t at = desc->layout == QB_LAYOUT_NHWC ? (i * s + j) * total + ch
                             : block > 1
                                 ? ((i * padded / block + ch / block) * s + j) * block + ch % block
                                 : (i * total + ch) * s + j;
                buffer[at] = row[(i * c + k) * s + j];
            }
}

static void tensors_count_the_same_in_every_layout_and_slice(void **state) {
    (void)state;
    static const int64_t slices[][2] = {{0, 0}, {0, 40}, {16, 56}, {5, 50}, {8, 39}};
    static const int channels[] = {1, 16, 19, 24};
    enum { N = 3, H = 7, W = 11, MOST = N * 64 * H * W };
    float *row = need(MOST, sizeof *row), *buffer = need(MOST, sizeof *buffer);
    qb_stats *expected = need(1, sizeof *expected), *got = need(1, sizeof *got);
    qb_rng rng;
    qb_rng_seed(&rng, 9);
    for (int i = 0; i < MOST; i++) row[i] = (float)qb_rng_normal(&rng);
    for (size_t s = 0; s < sizeof slices / sizeof *slices; s++)
        for (size_t k = 0; k < sizeof channels / sizeof *channels; k++)
            for (int layout = QB_LAYOUT_ROW; layout <= QB_LAYOUT_C16; layout++)
                for (int items = -1; items <= N + 1; items++) {
                    int c = channels[k];
                    if (slices[s][1] && slices[s][0] + c > slices[s][1]) continue;
                    qb_desc desc = {.dtype = QB_DTYPE_F32,
                                    .layout = (qb_layout)layout,
                                    .shape = qb_shape_of(4, N, c, H, W),
                                    .channel_offset = slices[s][0],
                                    .channel_total = slices[s][1]};
                    store(&desc, row, buffer, 1000.0f);
                    int seen = items < 0 || items > N ? N : items;
                    qb_stats_init(expected);
                    qb_stats_add(expected, row, (size_t)(seen * c * H * W));
                    qb_stats_init(got);
                    qb_tensor tensor = {desc, buffer};
                    qb_stats_add_tensor(got, &tensor, items);
                    assert_same(got, expected, qb_layout_text(desc.layout));
                }
    free(row);
    free(buffer);
    free(expected);
    free(got);
}

static void tensors_of_any_rank_count(void **state) {
    (void)state;
    float value[24];
    for (int i = 0; i < 24; i++) value[i] = (float)(i - 5);
    qb_stats *stats = need(1, sizeof *stats);
    const qb_shape shapes[] = {qb_shape_of(0), qb_shape_of(1, 24), qb_shape_of(2, 4, 6),
                               qb_shape_of(5, 2, 3, 2, 2, 1), qb_shape_of(3, 0, 4, 2)};
    const uint64_t counts[] = {1, 24, 24, 24, 0};
    for (int i = 0; i < 5; i++) {
        qb_stats_init(stats);
        qb_tensor tensor = qb_tensor_of(QB_DTYPE_F32, shapes[i], value);
        qb_stats_add_tensor(stats, &tensor, -1);
        assert_int_equal(stats->count, counts[i]);
    }
    free(stats);
}

static void edges_are_evenly_spaced_over_the_range(void **state) {
    (void)state;
    qb_stats *stats = need(1, sizeof *stats);
    qb_stats_init(stats);
    float value = 3.0f;
    qb_stats_add(stats, &value, 1);
    assert_true(qb_stats_edge(stats, 0) == -4.0);
    assert_true(qb_stats_edge(stats, QB_STATS_BINS / 2) == 0.0);
    assert_true(qb_stats_edge(stats, QB_STATS_BINS) == 4.0);
    assert_true(qb_stats_edge(stats, QB_STATS_BINS / 2 + 1) == 4.0 / 4096);
    assert_int_equal(stats->bin[7168], 1); /* floor((3 / 4 + 1) * 4096) */
    free(stats);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(equals_the_model_on_every_path_and_split),
    cmocka_unit_test(counters_do_not_overflow_on_long_constant_input),
    cmocka_unit_test(range_edges_belong_where_the_header_says),
    cmocka_unit_test(extreme_values_are_counted),
    cmocka_unit_test(nothing_finite_leaves_min_above_max),
    cmocka_unit_test(merge_is_commutative_and_associative),
    cmocka_unit_test(tensors_count_the_same_in_every_layout_and_slice),
    cmocka_unit_test(tensors_of_any_rank_count),
    cmocka_unit_test(edges_are_evenly_spaced_over_the_range),
};

QB_TEST_MAIN(tests)

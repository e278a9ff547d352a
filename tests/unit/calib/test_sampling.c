/* What a table tells of its samples: copies, and ranges that more samples would move. */
#include "qb_test.h"

#include <math.h>

#include "base/rng.h"
#include "calib/sampling.h"

enum { SAMPLES = 100, EACH = SAMPLES / QB_SAMPLING_SHARDS };

/* One tensor whose samples reach from -1 to 1, but for what the test changes. */
static qb_table *make_table(qb_ctx *cx, int32_t n_entries) {
    qb_table *table;
    assert_ok(cx, qb_table_create(cx, n_entries, &table));
    assert_ok(cx, qb_table_record(cx, table, SAMPLES));
    table->samples = SAMPLES;
    for (int i = 0; i < SAMPLES; i++) {
        table->sample[i] = 10 * (uint64_t)i;
        for (int32_t e = 0; e < n_entries; e++) {
            table->entry[e].sample_min[i] = -1;
            table->entry[e].sample_max[i] = 1;
        }
    }
    return table;
}

static qb_sampling sampling_of(const qb_table *table) {
    qb_sampling s;
    qb_sampling_of(table, &s);
    return s;
}

/* The claim behind it: of parts drawn with replacement, the widest one is among the three widest in
 * more than 95 % of the draws, and among the two widest in fewer. */
static void the_interval_is_that_of_a_bootstrap(void **state) {
    (void)state;
    enum { DRAWS = 100000 };
    int within[QB_SAMPLING_SHARDS] = {0};
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    for (int draw = 0; draw < DRAWS; draw++) {
        uint64_t widest = QB_SAMPLING_SHARDS;
        for (int i = 0; i < QB_SAMPLING_SHARDS; i++) {
            const uint64_t rank = qb_rng_below(&rng, QB_SAMPLING_SHARDS);
            widest = rank < widest ? rank : widest;
        }
        for (uint64_t rank = widest; rank < QB_SAMPLING_SHARDS; rank++) within[rank]++;
    }
    assert_true(within[2] > 0.95 * DRAWS);
    assert_true(within[1] < 0.95 * DRAWS);
}

/* Two shards that reach far are a habit of one in five; a third one settles where the range ends.
 */
static void a_range_moves_until_a_third_shard_confirms_it(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx, 1);
    assert_int_equal(sampling_of(table).tensors, 1);
    assert_int_equal(sampling_of(table).moving, 0);
    float *low = table->entry[0].sample_min;
    low[3] = -3;
    assert_int_equal(sampling_of(table).moving, 1);
    low[EACH] = -2.9f;
    low[EACH + 1] = -2.9f; /* the same shard once more */
    assert_int_equal(sampling_of(table).moving, 1);
    low[SAMPLES - 1] = -2.25f; /* width 4; 0.75 is less than a fifth of it */
    assert_int_equal(sampling_of(table).moving, 0);
    low[SAMPLES - 1] = -2.15f; /* 0.85 is more */
    assert_int_equal(sampling_of(table).moving, 1);
    low[3] = low[EACH] = low[EACH + 1] = low[SAMPLES - 1] = -1;
    table->entry[0].sample_max[50] = 2;
    assert_int_equal(sampling_of(table).moving, 1);
    qb_table_free(table);
}

static void samples_are_thin_when_many_tensors_move(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx, 4);
    assert_false(qb_sampling_is_thin(&(qb_sampling){0}));
    for (int32_t e = 0; e < 2; e++) {
        qb_sampling s = sampling_of(table);
        assert_false(qb_sampling_is_thin(&s)); /* a quarter may */
        table->entry[e].sample_max[0] = 9;
    }
    qb_sampling s = sampling_of(table);
    assert_int_equal(s.moving, 2);
    assert_true(qb_sampling_is_thin(&s));
    qb_table_free(table);
}

/* Tensors without finite values in a shard, and tables of too few samples, tell nothing. */
static void what_cannot_be_judged_is_not(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx, 2);
    for (int i = 0; i < EACH; i++) {
        table->entry[1].sample_min[i] = INFINITY;
        table->entry[1].sample_max[i] = -INFINITY;
    }
    assert_int_equal(sampling_of(table).tensors, 1);
    table->n_recorded = QB_SAMPLING_SHARDS - 1;
    assert_int_equal(sampling_of(table).tensors, 0);
    table->n_recorded = SAMPLES;
    qb_table_free(table);
}

static void copies_are_counted_beyond_the_first(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx, 1);
    assert_int_equal(sampling_of(table).copies, 0);
    table->sample[1] = table->sample[0];
    table->sample[2] = table->sample[0];
    table->sample[9] = table->sample[8];
    assert_int_equal(sampling_of(table).copies, 3);
    qb_table_free(table);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_interval_is_that_of_a_bootstrap),
    cmocka_unit_test(a_range_moves_until_a_third_shard_confirms_it),
    cmocka_unit_test(samples_are_thin_when_many_tensors_move),
    cmocka_unit_test(what_cannot_be_judged_is_not),
    cmocka_unit_test(copies_are_counted_beyond_the_first),
};

QB_TEST_MAIN(tests)

/* Calibration on samples of several tensors and different sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "small_run.h"
#include "stream/engines.h"

#define SAMPLES 30
#define LONGEST 11 /* more lengths than sets of engines are kept */

static char folder[QB_TEST_PATH];

static int32_t length_of(int i) { return 1 + i * 7 % LONGEST; }
static int64_t id_at(int i, int k) { return (i * 5 + k * 3) % 16; }
static float shift_at(int i, int k) { return (float)(i - 10) / 8 + (float)k / 64; }

/* folder/NNN/ids.bin and shift.bin. */
static void write_samples(void) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    for (int i = 0; i < SAMPLES; i++) {
        char path[QB_TEST_PATH + 32];
        int64_t ids[LONGEST];
        float shift[LONGEST * 8];
        const int32_t length = length_of(i);
        for (int k = 0; k < length; k++) ids[k] = id_at(i, k);
        for (int k = 0; k < length * 8; k++) shift[k] = shift_at(i, k);
        snprintf(path, sizeof path, "%s/%03d", folder, i);
        assert_int_equal(mkdir(path, 0777), 0);
        snprintf(path, sizeof path, "%s/%03d/ids.bin", folder, i);
        assert_ok(&cx, qb_file_write(&cx, path, ids, (size_t)length * 8));
        snprintf(path, sizeof path, "%s/%03d/shift.bin", folder, i);
        assert_ok(&cx, qb_file_write(&cx, path, shift, (size_t)length * 32));
    }
}

static qb_table *calibrate(qb_ctx *cx, int32_t workers, int32_t batch) {
    qb_graph *graph = run_tokens(cx);
    qb_dataset *dataset;
    assert_ok(cx, qb_dataset_open(cx, folder, NULL, &dataset));
    qb_method_choice choice;
    assert_ok(cx, qb_method_parse(cx, "minmax", &choice));
    qb_calib_options options = {.methods = &choice, .n_methods = 1, .workers = workers};
    options.loader = (qb_loader_options){
        .dataset = dataset, .n_inputs = 2, .batch = batch, .threads = 2, .prefetch = 2};
    for (int i = 0; i < 2; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        options.loader.input[i] = (qb_input_spec){input->name, input->dtype, input->shape};
    }
    qb_table *table;
    assert_ok(cx, qb_calibrate(cx, graph, &options, &table));
    qb_dataset_close(dataset);
    qb_graph_free(graph);
    return table;
}

static void every_sample_counts_at_its_own_shape(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    write_samples();
    qb_table *table = calibrate(&cx, 1, 1);
    qb_stats *expected = malloc(sizeof *expected);
    qb_stats_init(expected);
    uint64_t positions = 0;
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < length_of(i) * 8; k++) {
            const float value = shift_at(i, k);
            qb_stats_add(expected, &value, 1);
            positions += k % 8 == 0;
        }
    assert_int_equal(table->samples, SAMPLES);
    assert_memory_equal(qb_table_find(table, "shift")->stats, expected, sizeof *expected);
    assert_int_equal(qb_table_find(table, "y")->stats->count, positions * 4);
    assert_null(qb_table_find(table, "ids")); /* integers have no range to choose */
    free(expected);
    qb_table_free(table);
}

static void same_bytes_for_any_batch_and_number_of_workers(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    write_samples();
    uint8_t *first = NULL;
    size_t first_size = 0;
    for (int i = 0; i < 4; i++) {
        qb_table *table = calibrate(&cx, 1 + i % 3, i < 2 ? 1 : 7);
        uint8_t *bytes;
        size_t size;
        assert_ok(&cx, qb_table_write(&cx, table, &bytes, &size));
        if (i == 0) {
            first = bytes;
            first_size = size;
        } else {
            assert_int_equal(size, first_size);
            assert_memory_equal(bytes, first, size);
            qb_free(bytes);
        }
        qb_table_free(table);
    }
    qb_free(first);
}

/* ---- the cache of engines ---- */

typedef struct builder {
    qb_graph *graph;
    int32_t built;
} builder;

static qb_status build(qb_ctx *cx, void *user, int32_t e, int32_t device, const qb_engine *first,
                       const qb_shape *shape, qb_engine **out) {
    builder *b = user;
    (void)e;
    assert_int_equal(device, 0);
    assert_null(first);
    b->built++;
    if (shape[0].dim[1] == 99) return qb_fail(cx, QB_STATUS_CHECK, "no engine for 99");
    const qb_build_spec options = {.backends = "ref", .input_shapes = shape, .threads = 1};
    return qb_engine_build(cx, b->graph, &options, out);
}

static qb_status acquire(qb_ctx *cx, qb_engines *engines, int64_t length, qb_engine_set **out) {
    const qb_tensor input[2] = {qb_tensor_of(QB_DTYPE_S64, (qb_shape){2, {1, length}}, NULL),
                                qb_tensor_of(QB_DTYPE_F32, (qb_shape){3, {1, length, 8}}, NULL)};
    return qb_engines_acquire(cx, engines, 0, input, out);
}

static void few_engines_are_kept_and_the_oldest_goes(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    builder b = {.graph = run_tokens(&cx)};
    const qb_engines_options options = {
        .n_engines = 1, .n_inputs = 2, .workers = 1, .n_devices = 1, .build = build, .user = &b};
    qb_engines *engines;
    qb_engine_set *set;
    assert_ok(&cx, qb_engines_create(&cx, &options, &engines));
    for (int round = 0; round < 3; round++)
        for (int64_t n = 1; n <= QB_ENGINES_SETS; n++) {
            assert_ok(&cx, acquire(&cx, engines, n, &set));
            assert_int_equal(qb_engine_input(set->engine[0], 0)->shape.dim[1], n);
            assert_non_null(set->context[0]);
            qb_engines_release(engines, set);
        }
    assert_int_equal(b.built, QB_ENGINES_SETS);
    assert_fails(&cx, acquire(&cx, engines, 99, &set), QB_STATUS_CHECK); /* takes the place of 1 */
    qb_ctx_clear(&cx);
    assert_ok(&cx, acquire(&cx, engines, QB_ENGINES_SETS, &set));
    qb_engines_release(engines, set);
    assert_int_equal(b.built, QB_ENGINES_SETS + 1);
    assert_ok(&cx, acquire(&cx, engines, 1, &set));
    qb_engines_release(engines, set);
    assert_int_equal(b.built, QB_ENGINES_SETS + 2);
    qb_engines_free(engines);
    qb_graph_free(b.graph);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_sample_counts_at_its_own_shape),
    cmocka_unit_test(same_bytes_for_any_batch_and_number_of_workers),
    cmocka_unit_test(few_engines_are_kept_and_the_oldest_goes),
};
QB_TEST_MAIN(tests)

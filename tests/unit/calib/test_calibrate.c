/* The calibration run: statistics over a data set, whatever the batch and the threads. */
#include "small_run.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "calib/unions.h"
#include "stream/stream.h"

static const char *const standard[] = {"entropy", "percentile", "minmax"};

static qb_calib_memory memory; /* of the last calibration */

static qb_status calibrate(qb_ctx *cx, const qb_graph *graph, const qb_loader_options *loader,
                           int32_t workers, qb_table **out) {
    qb_method_choice choice[3];
    for (int i = 0; i < 3; i++) assert_ok(cx, qb_method_parse(cx, standard[i], &choice[i]));
    const qb_calib_options options = {.methods = choice,
                                      .n_methods = 3,
                                      .spec.backends = "ref",
                                      .loader = *loader,
                                      .workers = workers,
                                      .memory = &memory};
    return qb_calibrate(cx, graph, &options, out);
}

/* Every value that reaches memory here or in engines that fuse less ("c2", which the sum takes in),
 * with exact statistics of the input. */
static void statistics_are_those_of_the_data(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *dataset = run_dataset(&cx);
    qb_graph *graph = run_graph(&cx, RUN_SIDE);
    qb_loader_options loader = run_loader(dataset, 4, 1);
    qb_table *table;
    assert_ok(&cx, calibrate(&cx, graph, &loader, 1, &table));
    assert_int_equal(memory.tensors, table->n_entries);
    assert_int_equal(memory.threads, 1);
    assert_int_equal(memory.bytes, 8 * (sizeof(qb_stats) + RUN_IMAGES * 2 * sizeof(float)));
    static const char *const observed[] = {"a", "c2", "f", "image", "logits", "p", "r", "y"};
    assert_int_equal(table->n_entries, 8);
    for (int i = 0; i < 8; i++) assert_string_equal(table->entry[i].name, observed[i]);
    assert_int_equal(table->samples, RUN_IMAGES);
    assert_int_equal(table->skipped, 0);
    assert_int_equal(table->n_methods, 3);
    assert_string_equal(table->method[1], "percentile:99.99");
    assert_true(qb_hash_equal(table->model_hash, graph->hash));
    assert_false(qb_hash_is_zero(table->data_hash));

    const size_t n = (size_t)RUN_IMAGES * RUN_SIDE * RUN_SIDE * 3;
    uint8_t *pixel = malloc(n);
    float *value = malloc(n * sizeof *value);
    qb_stats *expected = malloc(sizeof *expected);
    run_pixels(pixel);
    for (size_t i = 0; i < n; i++) value[i] = pixel[i];
    qb_stats_init(expected);
    qb_stats_add(expected, value, n);
    assert_memory_equal(qb_table_find(table, "image")->stats, expected, sizeof *expected);
    const qb_stats *relu = qb_table_find(table, "a")->stats;
    assert_int_equal(relu->count, RUN_IMAGES * 8 * 6 * 6);
    assert_true(relu->min >= 0 && relu->zeros > 0 && relu->max > 0);
    free(expected);
    free(value);
    free(pixel);
    qb_table_free(table);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

static void same_bytes_for_any_batch_and_number_of_threads(void **state) {
    (void)state;
    static const int32_t batches[] = {1, 8, 32}, threads[] = {1, 2, 5};
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *first = NULL;
    size_t first_size = 0;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.calib.h5");
    qb_graph *graph = run_graph(&cx, RUN_SIDE);
    for (int i = 0; i < 9; i++) {
        qb_dataset *dataset = run_dataset(&cx);
        qb_loader_options loader = run_loader(dataset, batches[i / 3], threads[i % 3]);
        qb_table *table;
        char *bytes;
        size_t size;
        assert_ok(&cx, calibrate(&cx, graph, &loader, threads[i % 3], &table));
        assert_ok(&cx, qb_table_save(&cx, table, path));
        assert_ok(&cx, qb_file_read(&cx, path, 1 << 24, &bytes, &size));
        if (i == 0) {
            first = bytes;
            first_size = size;
        } else {
            assert_int_equal(size, first_size);
            assert_memory_equal(bytes, first, size);
            qb_free(bytes);
        }
        qb_table_free(table);
        qb_dataset_close(dataset);
    }
    qb_free(first);
    qb_graph_free(graph);
}

/* Each value of a sample, looked at. */
static qb_status look(qb_ctx *cx, void *user, int32_t observed, const char *name,
                      const qb_tensor *tensor) {
    (void)observed;
    qb_table_entry *entry;
    if (tensor->desc.dtype != QB_DTYPE_F32) return QB_OK;
    QB_TRY(qb_table_slot(cx, user, name, &entry));
    qb_stats_add_tensor(entry->stats, tensor, -1);
    return QB_OK;
}

static qb_status look_at_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    void *no_output = NULL;
    return qb_context_observe(cx, sample->context[0], sample->inputs, &no_output, look, user);
}

/* Joined and reordered values are not looked at, and have the statistics as if they were. */
static void values_made_of_others_have_their_sums(void **state) {
    (void)state;
    static const char *const unions[] = {"joined", "long", "more", "same", "turned"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *dataset = run_dataset(&cx);
    qb_loader_options loader = run_loader(dataset, 4, 1);
    qb_graph *graph = run_unions(&cx, RUN_SIDE);
    const qb_stream_model model = {.graph = graph, .spec = {.backends = "ref", .observable = true}};
    const qb_stream_options options = {
        .model = &model, .n_models = 1, .loader = &loader, .workers = 1, .sample = look_at_sample};
    qb_stream_options with_table = options;
    qb_stream_result result;
    qb_table *table, *expected;
    assert_ok(&cx, qb_table_create(&cx, 0, &expected));
    with_table.user = expected;
    assert_ok(&cx, qb_stream(&cx, &with_table, &result));
    assert_ok(&cx, calibrate(&cx, graph, &loader, 2, &table));
    assert_int_equal(table->n_entries, expected->n_entries);
    for (int32_t i = 0; i < table->n_entries; i++) {
        const qb_table_entry *got = &table->entry[i], *want = &expected->entry[i];
        assert_string_equal(got->name, want->name);
        assert_memory_equal(got->stats, want->stats, sizeof *got->stats);
    }
    for (int i = 0; i < 5; i++) assert_non_null(qb_table_find(table, unions[i]));
    /* The extremes of each sample as well. */
    const qb_table_entry *a = qb_table_find(table, "a"), *b = qb_table_find(table, "b");
    const qb_table_entry *image = qb_table_find(table, "image");
    const qb_table_entry *last = qb_table_find(table, "long");
    for (int64_t i = 0; i < table->n_recorded; i++) {
        const float low = fminf(fminf(a->sample_min[i], b->sample_min[i]), image->sample_min[i]);
        const float high = fmaxf(fmaxf(a->sample_max[i], b->sample_max[i]), image->sample_max[i]);
        assert_true(last->sample_min[i] == low && last->sample_max[i] == high);
    }
    qb_table_free(table);
    qb_table_free(expected);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

/* A Q/DQ model's node may round what it moves: integers have a scale and no statistics. */
static void quantized_values_are_no_unions(void **state) {
    (void)state;
    float scale = 0.5f;
    qb_groups groups;
    qb_unions unions;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = run_unions(&cx, RUN_SIDE);
    qb_value *same = &graph->values[qb_graph_find_value(graph, "same")];
    same->dtype = QB_DTYPE_U8;
    same->q = (qb_qparams){.n = 1, .scale = &scale};
    assert_ok(&cx, qb_fuse(&cx, graph, &groups));
    assert_ok(&cx, qb_unions_find(&cx, graph, &groups, &unions));
    assert_true(qb_unions_has(&unions, "turned"));
    assert_false(qb_unions_has(&unions, "same"));
    assert_false(qb_unions_has(&unions, "long"));
    qb_unions_release(&unions);
    qb_groups_release(&groups);
    qb_graph_free(graph);
}

static void tensors_with_nothing_finite_are_an_error(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *dataset = run_dataset(&cx);
    qb_loader_options loader = run_loader(dataset, 4, 1);
    loader.preprocess.mean[0] = loader.preprocess.mean[1] = loader.preprocess.mean[2] = 1000;
    qb_graph *graph = run_unary(&cx, "Log"); /* of negative numbers */
    qb_table *table = NULL;
    assert_fails(&cx, calibrate(&cx, graph, &loader, 1, &table), QB_STATUS_INVALID);
    assert_message(&cx, "tensor 'y' has no finite value: 4032 NaN");
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

/* A mask of -inf, say. */
static void tensors_of_infinities_are_left_out(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *dataset = run_dataset(&cx);
    qb_loader_options loader = run_loader(dataset, 4, 1);
    loader.preprocess.mean[0] = loader.preprocess.mean[1] = loader.preprocess.mean[2] = -1000;
    qb_graph *graph = run_unary(&cx, "Exp");
    qb_table *table = NULL;
    assert_ok(&cx, calibrate(&cx, graph, &loader, 1, &table));
    assert_null(qb_table_find(table, "y"));
    assert_non_null(qb_table_find(table, "image"));
    qb_table_free(table);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

static void single_odd_values_are_a_warning(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *text;
    size_t size;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "log");
    qb_log log;
    qb_log_init(&log, fopen(path, "w"), QB_LEVEL_WARN, true);
    cx.log = &log;
    qb_dataset *dataset = run_dataset(&cx);
    qb_loader_options loader = run_loader(dataset, 4, 1);
    qb_graph *graph = run_unary(&cx, "Log"); /* black pixels give -inf */
    qb_table *table;
    assert_ok(&cx, calibrate(&cx, graph, &loader, 2, &table));
    const qb_stats *stats = qb_table_find(table, "y")->stats;
    assert_int_equal(stats->neg_inf, qb_table_find(table, "image")->stats->zeros);
    assert_true(stats->neg_inf > 0 && stats->count + stats->neg_inf == 4032);
    fclose(log.stream);
    cx.log = NULL;
    assert_ok(&cx, qb_file_read(&cx, path, 1 << 16, &text, &size));
    assert_non_null(strstr(text, "tensor 'y'"));
    assert_null(strstr(text, "tensor 'image'"));
    qb_free(text);
    qb_table_free(table);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

static void another_input_size_is_refused(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *dataset = run_dataset(&cx);
    qb_loader_options loader = run_loader(dataset, 4, 1);
    qb_graph *graph = run_graph(&cx, RUN_SIDE + 1);
    qb_table *table = NULL;
    assert_fails(&cx, calibrate(&cx, graph, &loader, 1, &table), QB_STATUS_INVALID);
    assert_message(&cx, "input 'image': dimension 2: the model has 9, got 8");
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

/* ---- the stream by itself ---- */

typedef struct visitor {
    pthread_mutex_t lock;
    int32_t visits[RUN_IMAGES], labels_wrong, most_worker;
    int64_t fail_at, cancel_at;
    volatile sig_atomic_t cancel;
} visitor;

static qb_status visit(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    visitor *v = user;
    pthread_mutex_lock(&v->lock);
    v->visits[sample->index]++;
    v->labels_wrong += sample->label != (int32_t)(sample->index % 4);
    if (sample->worker > v->most_worker) v->most_worker = sample->worker;
    if (v->cancel_at > 0 && sample->index == v->cancel_at) /* other workers look at it */
        __atomic_store_n(&v->cancel, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&v->lock);
    if (sample->index == v->fail_at)
        return qb_fail(cx, QB_STATUS_CHECK, "sample %d is odd", (int)sample->index);
    return QB_OK;
}

static qb_status stream(qb_ctx *cx, visitor *v, int32_t workers, qb_stream_result *result) {
    qb_dataset *dataset = run_dataset(cx);
    qb_graph *graph = run_graph(cx, RUN_SIDE);
    const qb_stream_model model = {.graph = graph, .spec.backends = "ref"};
    qb_loader_options loader = run_loader(dataset, 2, 2);
    const qb_stream_options options = {.model = &model,
                                       .n_models = 1,
                                       .loader = &loader,
                                       .workers = workers,
                                       .label = "visit",
                                       .sample = visit,
                                       .user = v};
    qb_status status = qb_stream(cx, &options, result);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
    return status;
}

static void every_sample_is_seen_once_with_its_label(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int32_t workers = 1; workers <= 4; workers++) {
        visitor v = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_at = -1};
        qb_stream_result result = {0};
        assert_ok(&cx, stream(&cx, &v, workers, &result));
        assert_int_equal(result.samples, RUN_IMAGES);
        for (int i = 0; i < RUN_IMAGES; i++) assert_int_equal(v.visits[i], 1);
        assert_int_equal(v.labels_wrong, 0);
        assert_true(v.most_worker < workers);
    }
}

static void the_first_error_of_a_worker_ends_the_run(void **state) {
    (void)state;
    for (int32_t workers = 1; workers <= 3; workers++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        visitor v = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_at = 3};
        qb_stream_result result = {.samples = -7};
        assert_fails(&cx, stream(&cx, &v, workers, &result), QB_STATUS_CHECK);
        assert_message(&cx, "sample 3 is odd");
        assert_int_equal(result.samples, -7);
    }
}

static void a_cancelled_run_stops(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    visitor v = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_at = -1, .cancel_at = 2};
    cx.cancel = &v.cancel;
    qb_stream_result result;
    assert_fails(&cx, stream(&cx, &v, 2, &result), QB_STATUS_CANCELLED);
    int32_t seen = 0;
    for (int i = 0; i < RUN_IMAGES; i++) seen += v.visits[i];
    assert_true(seen < RUN_IMAGES);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(statistics_are_those_of_the_data),
    cmocka_unit_test(same_bytes_for_any_batch_and_number_of_threads),
    cmocka_unit_test(values_made_of_others_have_their_sums),
    cmocka_unit_test(quantized_values_are_no_unions),
    cmocka_unit_test(tensors_with_nothing_finite_are_an_error),
    cmocka_unit_test(tensors_of_infinities_are_left_out),
    cmocka_unit_test(single_odd_values_are_a_warning),
    cmocka_unit_test(another_input_size_is_refused),
    cmocka_unit_test(every_sample_is_seen_once_with_its_label),
    cmocka_unit_test(the_first_error_of_a_worker_ends_the_run),
    cmocka_unit_test(a_cancelled_run_stops),
};

QB_TEST_MAIN(tests)

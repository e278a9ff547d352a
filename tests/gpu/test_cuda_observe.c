/* Observers on the GPU against those of the CPU: the same tensors through both give the same
 * statistics, bit for bit, value by value and through whole engines, in every run.
 * Skips without a device. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "engine/collect.h"
#include "graph/passes.h"
#include "graph/zoo.h"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/common/observe.h"
#include "qb_test.h"

#define TENSORS 40
#define ROUNDS 3
#define ITEMS_MAX 70

static void need_device(void) {
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
}

/* ---- tensors ---- */

static float odd_value(qb_rng *rng, float usual, bool finite) {
    const double u = 2 * qb_rng_uniform(rng) - 1;
    switch (qb_rng_below(rng, 60)) {
    case 0: return -0.0f;
    case 1: return finite ? usual : NAN;
    case 2: return finite ? usual : INFINITY;
    case 3: return finite ? usual : -INFINITY;
    case 4: return ldexpf(u > 0 ? 1 : -1, (int)qb_rng_below(rng, 250) - 125);
    case 5: return (float)(u * 1e-42);
    default: return qb_rng_below(rng, 4) == 0 ? 0.0f : usual;
    }
}

typedef struct sample_tensor {
    qb_tensor tensor;
    int64_t stored; /* floats of one item */
} sample_tensor;

/* Any shape, layout and slice, values of any size. */
static void draw(qb_ctx *cx, qb_rng *rng, sample_tensor *t) {
    static const int64_t channels[] = {1, 3, 8, 16, 33, 64};
    qb_desc *d = &t->tensor.desc;
    *d = (qb_desc){.dtype = QB_DTYPE_F32,
                   .layout = qb_rng_below(rng, 2) ? QB_LAYOUT_NHWC : QB_LAYOUT_ROW,
                   .shape = {.rank = 4}};
    const int64_t c = channels[qb_rng_below(rng, 6)];
    int64_t total = c;
    d->shape.dim[0] = 1 + (int64_t)qb_rng_below(rng, ITEMS_MAX);
    d->shape.dim[1] = c;
    d->shape.dim[2] = 1 + (int64_t)qb_rng_below(rng, 60);
    d->shape.dim[3] = 1 + (int64_t)qb_rng_below(rng, 60);
    if (qb_rng_below(rng, 3) == 0) {
        total = c + 4 * (int64_t)qb_rng_below(rng, 4);
        d->channel_total = total;
        d->channel_offset = (int64_t)qb_rng_below(rng, (uint64_t)(total - c + 1));
    }
    t->stored = total * d->shape.dim[2] * d->shape.dim[3];
    const int64_t n = d->shape.dim[0] * t->stored;
    float *data = qb_alloc(cx, (size_t)n, sizeof *data);
    assert_non_null(data);
    const float size = ldexpf(1, (int)qb_rng_below(rng, 40) - 20);
    const bool finite = qb_rng_below(rng, 2), odd = qb_rng_below(rng, 2);
    for (int64_t i = 0; i < n; i++) {
        const float usual = size * (float)(2 * qb_rng_uniform(rng) - 1);
        data[i] = odd ? odd_value(rng, usual, finite) : usual;
    }
    t->tensor.data = data;
}

typedef struct on_device {
    qb_cuda_observed *state;
    uint32_t *table, *keys; /* low, then high */
    void *stream;
} on_device;

static void device_open(qb_ctx *cx, on_device *d) {
    qb_cuda_device device;
    void *memory[3];
    assert_ok(cx, qb_cuda_open(cx, 0, &device));
    assert_ok(cx, qb_cuda_stream_open(cx, &d->stream));
    assert_ok(cx, qb_cuda_alloc(cx, sizeof *d->state, &memory[0]));
    assert_ok(cx, qb_cuda_alloc(cx, QB_CUDA_OBSERVE_TABLE, &memory[1]));
    assert_ok(cx, qb_cuda_alloc(cx, 2 * ITEMS_MAX * sizeof *d->keys, &memory[2]));
    assert_ok(cx, qb_cuda_fill(cx, memory[1], 0, QB_CUDA_OBSERVE_TABLE, d->stream));
    d->state = memory[0];
    d->table = memory[1];
    d->keys = memory[2];
}

static void device_close(on_device *d) {
    qb_cuda_free(d->state);
    qb_cuda_free(d->table);
    qb_cuda_free(d->keys);
    qb_cuda_stream_close(d->stream);
}

static void device_reset(qb_ctx *cx, on_device *d) {
    static qb_cuda_observed empty;
    qb_stats_init(&empty.stats);
    assert_ok(cx, qb_cuda_upload(cx, d->state, &empty, sizeof empty, d->stream));
    assert_ok(cx, qb_cuda_sync(cx, d->stream));
}

/* Adds the first n_items; keys get their extremes. */
static void device_add(qb_ctx *cx, on_device *d, const sample_tensor *t, int64_t n_items,
                       uint32_t *keys) {
    const size_t bytes = qb_desc_bytes(&t->tensor.desc), key_bytes = 2 * ITEMS_MAX * sizeof *keys;
    void *data;
    assert_ok(cx, qb_cuda_alloc(cx, bytes, &data));
    assert_ok(cx, qb_cuda_upload(cx, data, t->tensor.data, bytes, d->stream));
    assert_ok(cx, qb_cuda_fill(cx, d->keys, 0xff, key_bytes, d->stream));
    assert_ok(cx, qb_cuda_observe(cx, &t->tensor.desc, data, n_items, d->state, d->table, d->keys,
                                  d->keys + ITEMS_MAX, d->stream));
    assert_ok(cx, qb_cuda_download(cx, keys, d->keys, key_bytes, d->stream));
    assert_ok(cx, qb_cuda_sync(cx, d->stream));
    qb_cuda_free(data);
}

static void check_items(const sample_tensor *t, int64_t n_items, const uint32_t *keys) {
    static qb_stats one;
    for (int64_t i = 0; i < n_items; i++) {
        qb_tensor item = t->tensor;
        item.desc.shape.dim[0] = 1;
        item.data = (float *)t->tensor.data + i * t->stored;
        qb_stats_init(&one);
        qb_stats_add_tensor(&one, &item, -1);
        assert_true(qb_cuda_extreme_low(keys[i]) == one.min);
        assert_true(qb_cuda_extreme_high(keys[ITEMS_MAX + i]) == one.max);
    }
}

static void same_statistics_as_on_the_cpu(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    static qb_stats expected, actual;
    uint32_t keys[2 * ITEMS_MAX];
    on_device d;
    qb_rng rng;
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 11);
    device_open(&cx, &d);
    for (int i = 0; i < TENSORS; i++) {
        qb_stats_init(&expected);
        device_reset(&cx, &d);
        for (int round = 0; round < ROUNDS; round++) {
            sample_tensor t;
            draw(&cx, &rng, &t);
            const int64_t n = 1 + (int64_t)qb_rng_below(&rng, (uint64_t)t.tensor.desc.shape.dim[0]);
            qb_stats_add_tensor(&expected, &t.tensor, n);
            device_add(&cx, &d, &t, n, keys);
            check_items(&t, n, keys);
            assert_ok(&cx, qb_cuda_download(&cx, &actual, d.state, sizeof actual, d.stream));
            assert_ok(&cx, qb_cuda_sync(&cx, d.stream));
            assert_memory_equal(&actual, &expected, sizeof expected);
            qb_free(t.tensor.data);
        }
    }
    device_close(&d);
}

/* ---- engines ---- */

typedef struct gathered {
    int32_t n;
    char name[256][64];
    qb_stats *stats; /* [256] */
} gathered;

static qb_stats *slot_of(gathered *g, const char *name) {
    for (int32_t i = 0; i < g->n; i++)
        if (strcmp(g->name[i], name) == 0) return &g->stats[i];
    assert_true(g->n < 256);
    snprintf(g->name[g->n], sizeof g->name[0], "%s", name);
    qb_stats_init(&g->stats[g->n]);
    return &g->stats[g->n++];
}

static qb_status on_value(qb_ctx *cx, void *user, int32_t observed, const char *value,
                          const qb_tensor *tensor) {
    (void)cx, (void)observed;
    if (tensor->desc.dtype == QB_DTYPE_F32) qb_stats_add_tensor(slot_of(user, value), tensor, -1);
    return QB_OK;
}

#define BATCH 4
#define BATCHES 5

static void fill_input(const qb_engine *engine, int seed, float *data) {
    qb_rng rng;
    qb_rng_seed(&rng, (uint64_t)seed);
    const int64_t n = qb_shape_count(&qb_engine_input(engine, 0)->shape);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(4 * qb_rng_uniform(&rng) - 2);
}

/* Values come to the host one by one, and the CPU's observers look at them. */
static void by_the_host(qb_ctx *cx, const qb_engine *engine, gathered *g) {
    qb_context *context;
    void *no_output[8] = {0};
    float *input = qb_alloc(cx, 1, qb_desc_bytes(qb_engine_input(engine, 0)));
    assert_non_null(input);
    assert_ok(cx, qb_context_create(cx, engine, &context));
    for (int b = 0; b < BATCHES; b++) {
        const void *inputs[] = {input};
        fill_input(engine, b, input);
        assert_ok(cx, qb_context_observe(cx, context, inputs, no_output, on_value, g));
    }
    qb_context_free(context);
    qb_free(input);
}

static void by_the_device(qb_ctx *cx, const qb_engine *engine, gathered *g) {
    qb_collector *collector;
    qb_collector_slot *slot;
    assert_ok(cx, qb_collector_create(cx, engine, &collector));
    for (int b = 0; b < BATCHES; b++) {
        assert_ok(cx, qb_collector_swap(cx, collector, &slot));
        fill_input(engine, b, slot->input[0]);
        assert_ok(cx, qb_collector_start(cx, collector, BATCH));
    }
    assert_ok(cx, qb_collector_wait(cx, collector));
    for (int32_t v = 0; v < qb_collector_count(collector); v++)
        assert_ok(cx,
                  qb_collector_take(cx, collector, v, slot_of(g, qb_collector_name(collector, v))));
    qb_collector_free(collector);
}

static void check_same(qb_ctx *cx, const char *model) {
    static gathered host, first, second;
    gathered *all[] = {&host, &first, &second};
    qb_graph *graph;
    qb_engine *engine;
    assert_ok(cx, qb_zoo_build(cx, model, 1, NULL, &graph));
    assert_ok(cx, qb_optimize(cx, graph, NULL, NULL));
    const qb_build_spec options = {
        .backends = "cuda", .batch = BATCH, .observable = true, .first_tactic = true};
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    for (int i = 0; i < 3; i++) {
        all[i]->n = 0;
        all[i]->stats = qb_alloc(cx, 256, sizeof(qb_stats));
        assert_non_null(all[i]->stats);
    }
    by_the_host(cx, engine, &host);
    by_the_device(cx, engine, &first);
    by_the_device(cx, engine, &second);
    printf("%s: %d values\n", model, (int)host.n);
    assert_true(host.n > 5);
    assert_int_equal(first.n, host.n);
    for (int32_t i = 0; i < host.n; i++) {
        const qb_stats *same = slot_of(&first, host.name[i]);
        assert_memory_equal(same, &host.stats[i], sizeof *same);
        assert_memory_equal(slot_of(&second, host.name[i]), same, sizeof *same);
    }
    for (int i = 0; i < 3; i++) qb_free(all[i]->stats);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void collectors_see_what_observers_see(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    check_same(&cx, "squeezenet1_1");
    check_same(&cx, "resnet18");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_statistics_as_on_the_cpu),
    cmocka_unit_test(collectors_see_what_observers_see),
};
QB_TEST_MAIN(tests)

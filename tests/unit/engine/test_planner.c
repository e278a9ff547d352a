/* The memory plan: no two buffers that live at once share memory, and little is wasted. */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/engine_internal.h"
#include "graph/passes.h"
#include "graph/zoo.h"

enum { BUFFERS = 120, STEPS = 90, MANY = 6000, MANY_STEPS = 4000 };

static bool meet(const qb_buffer *a, const qb_buffer *b) {
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Networks of random chains with shortcuts of random length. */
static void draw(qb_rng *rng, qb_buffer *buffers, int n, int steps) {
    for (int i = 0; i < n; i++) {
        const int32_t first = (int32_t)(qb_rng_uniform(rng) * (steps - 1));
        const double longer = qb_rng_uniform(rng);
        int32_t last = first + 1 + (longer > 0.8 ? (int32_t)(qb_rng_uniform(rng) * 20) : 0);
        buffers[i] = (qb_buffer){.kind = QB_BUFFER_ARENA,
                                 .bytes = 1 + (size_t)(qb_rng_uniform(rng) * 100000),
                                 .first = first,
                                 .last = last < steps ? last : steps - 1};
    }
}

static void nothing_alive_is_overwritten(void **state) {
    (void)state;
    qb_buffer buffers[BUFFERS], again[BUFFERS];
    qb_ctx cx;
    qb_rng rng;
    qb_ctx_init(&cx);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        size_t total, bound, same;
        qb_rng_seed(&rng, seed);
        draw(&rng, buffers, BUFFERS, STEPS);
        memcpy(again, buffers, sizeof buffers);
        assert_ok(&cx,
                  qb_plan_memory(&cx, QB_BUFFER_ARENA, buffers, BUFFERS, STEPS, &total, &bound));
        for (int i = 0; i < BUFFERS; i++) {
            assert_int_equal(buffers[i].offset % 64, 0);
            assert_true(buffers[i].offset + buffers[i].bytes <= total);
            for (int k = 0; k < i; k++) assert_false(meet(&buffers[i], &buffers[k]));
        }
        assert_true(total >= bound);
        assert_true((double)total <= 1.25 * (double)bound); /* harder than any network */
        assert_ok(&cx, qb_plan_memory(&cx, QB_BUFFER_ARENA, again, BUFFERS, STEPS, &same, &bound));
        assert_int_equal(same, total);
        assert_memory_equal(again, buffers, sizeof buffers);
    }
}

/* What is placed in one sweep: the same, with as little waste. */
static void many_buffers_are_placed_in_a_sweep(void **state) {
    (void)state;
    size_t total, bound;
    qb_ctx cx;
    qb_rng rng;
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 7);
    qb_buffer *buffers = calloc(MANY, sizeof *buffers);
    assert_non_null(buffers);
    draw(&rng, buffers, MANY, MANY_STEPS);
    buffers[0].last = MANY_STEPS - 1; /* one that stays */
    assert_ok(&cx, qb_plan_memory(&cx, QB_BUFFER_ARENA, buffers, MANY, MANY_STEPS, &total, &bound));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(buffers[i].offset % 64, 0);
        assert_true(buffers[i].offset + buffers[i].bytes <= total);
        for (int k = 0; k < i; k++) assert_false(meet(&buffers[i], &buffers[k]));
    }
    assert_true(total >= bound);
    assert_true((double)total <= 1.5 * (double)bound);
    free(buffers);
}

/* Shortcuts, depthwise blocks, squeezes that are concatenated, dense blocks. */
static void networks_waste_at_most_a_twentieth(void **state) {
    (void)state;
    static const char *const names[] = {"squeezenet1_1", "mobilenet_v2", "efficientnet_b0",
                                        "densenet121"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const qb_optimize_options all = {0};
        const qb_build_spec options = {.threads = 2};
        qb_ctx cx;
        qb_graph *graph;
        qb_engine *engine;
        qb_engine_memory memory;
        qb_ctx_init(&cx);
        assert_ok(&cx, qb_zoo_build(&cx, names[i], 1, NULL, &graph));
        assert_ok(&cx, qb_optimize(&cx, graph, &all, NULL));
        assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
        qb_engine_memory_of(engine, &memory);
        print_message("%s: %zu bytes, %.3f times the bound\n", names[i], memory.planned,
                      (double)memory.planned / (double)memory.lower_bound);
        assert_true((double)memory.planned <= 1.05 * (double)memory.lower_bound);
        qb_engine_free(engine);
        qb_graph_free(graph);
    }
}

/* What a step reads and what it writes do not begin at the same place in a page. */
static void buffers_of_pages_are_staggered(void **state) {
    (void)state;
    qb_ctx cx;
    qb_step steps[3] = {0};
    qb_value_layout layouts[4] = {0};
    int32_t number[] = {0, 1, 2, 3};
    qb_buffer buffers[4] = {0};
    qb_engine engine = {.steps = steps,
                        .n_steps = 3,
                        .layouts = layouts,
                        .n_layouts = 4,
                        .buffers = buffers,
                        .n_buffers = 4};
    qb_ctx_init(&cx);
    for (int32_t i = 0; i < 4; i++) {
        buffers[i] = (qb_buffer){.kind = QB_BUFFER_ARENA, .bytes = 8192, .first = 3, .last = -1};
        layouts[i].buffer = i;
    }
    for (int32_t s = 0; s < 3; s++) {
        steps[s].n_in = steps[s].n_out = 1;
        steps[s].in = &number[s];
        steps[s].out = &number[s + 1];
    }
    assert_ok(&cx, qb_engine_plan_memory(&cx, &engine));
    for (int32_t i = 1; i < 4; i++)
        assert_int_not_equal(buffers[i].offset % 4096, buffers[i - 1].offset % 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_alive_is_overwritten),
        cmocka_unit_test(many_buffers_are_placed_in_a_sweep),
        cmocka_unit_test(networks_waste_at_most_a_twentieth),
        cmocka_unit_test(buffers_of_pages_are_staggered),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

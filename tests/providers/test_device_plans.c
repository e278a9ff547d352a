/* Plans of a device: realized from their text they give the same bytes, whatever the clock says by
 * then, and what is edited by hand is had or refused. On a device that needs no GPU, with other
 * times in each build. */
#include "open_models.h"

#include <string.h>

#include "base/file.h"
#include "bench_models.h"
#include "engine/file.h"
#include "engine/plan/plan_internal.h"
#include "fake_device.h"
#include "graph/passes.h"
#include "kernels/tactic.h"
#include "small_graphs.h"

enum { BUILDS_MIN = 6, BUILDS_MAX = 150 };

static int alternatives; /* looked at */

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph;
    char folder[QB_TEST_PATH], built[QB_TEST_PATH], again[QB_TEST_PATH], plan[QB_TEST_PATH];
} fixture;

static void open_fixture(fixture *f) {
    qb_ctx_init(&f->cx);
    fake_device_is_there = true;
    qb_test_temp_dir(f->folder);
    qb_test_join(f->built, f->folder, "built.qbe");
    qb_test_join(f->again, f->folder, "again.qbe");
    qb_test_join(f->plan, f->folder, "plan.json");
}

static void make_quantized(fixture *f) {
    qb_graph *floats = run_graph(&f->cx, RUN_SIDE);
    assert_ok(&f->cx, qb_optimize(&f->cx, floats, NULL, NULL));
    assert_ok(&f->cx, bench_quantize(&f->cx, floats, &f->graph));
    qb_graph_free(floats);
}

static void close_fixture(fixture *f) {
    qb_graph_free(f->graph);
    assert_int_equal(fake_device_blocks, 0);
}

static void build(fixture *f, const qb_build_spec *spec, const char *path) {
    qb_engine *engine;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, spec, &engine));
    assert_ok(&f->cx,
              qb_engine_save(&f->cx, engine, &(qb_engine_origin){.precision = "fp16"}, path));
    qb_engine_free(engine);
}

static qb_plan *plan_of(fixture *f, const char *path) {
    char *text;
    qb_plan *plan;
    assert_ok(&f->cx, qb_engine_file_plan(&f->cx, path, &text));
    assert_ok(&f->cx, qb_file_write(&f->cx, f->plan, text, strlen(text)));
    qb_free(text);
    assert_ok(&f->cx, qb_plan_load(&f->cx, f->plan, &plan));
    return plan;
}

static void same_bytes(fixture *f) {
    char *text[2];
    size_t n[2];
    assert_ok(&f->cx, qb_file_read(&f->cx, f->built, (size_t)1 << 26, &text[0], &n[0]));
    assert_ok(&f->cx, qb_file_read(&f->cx, f->again, (size_t)1 << 26, &text[1], &n[1]));
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    qb_free(text[0]);
    qb_free(text[1]);
}

/* A row's alternatives are tactics of what its step does, also where inputs were copied meanwhile.
 */
static void check_alternatives(const qb_plan *plan) {
    for (int32_t i = 0; i < plan->table[0].n_rows; i++) {
        const qb_plan_row *row = &plan->table[0].rows[i];
        const qb_tactic *tactic = qb_tactic_find(row->tactic);
        for (int32_t k = 0; tactic && k < row->n_alternatives; k++) {
            const qb_tactic *other = qb_tactic_find(row->alternatives[k].tactic);
            assert_non_null(other);
            if (other->kind != tactic->kind)
                fail_msg("%s: %s beside %s", row->value, other->name, tactic->name);
            alternatives++;
        }
    }
}

/* Builds, and realizes the plan of what was built. The caller frees the plan. */
static qb_plan *round_trip(fixture *f, const qb_build_spec *spec) {
    qb_build_spec again = *spec;
    build(f, spec, f->built);
    qb_plan *plan = plan_of(f, f->built);
    check_alternatives(plan);
    again.plan = f->plan;
    build(f, &again, f->again);
    same_bytes(f);
    return plan;
}

/* Rows of quantized values that run in f16 although the network is quantized. */
static int32_t n_f16(const qb_plan *plan) {
    int32_t n = 0;
    for (int32_t i = 0; !plan->dequantized && i < plan->table[0].n_rows; i++)
        n += plan->table[0].rows[i].precision == QB_DTYPE_F16 &&
             plan->table[0].rows[i].f16_reason != NULL;
    return n;
}

/* Over some builds, all kinds of plans occur: quantized alone, with steps in f16, and in f16 as a
 * whole. */
static void plans_in_mixed_precision_give_the_same_bytes(void **state) {
    (void)state;
    const qb_shape shape = qb_shape_of(4, 2, 3, RUN_SIDE, RUN_SIDE);
    const qb_profile profile = {&shape, &shape, &shape};
    for (int32_t profiles = 0; profiles < 2; profiles++) {
        int whole = 0, some = 0;
        fixture f;
        open_fixture(&f);
        make_quantized(&f);
        const qb_build_spec spec = {.backends = "cuda,cpu,ref",
                                    .float_type = QB_DTYPE_F16,
                                    .threads = 1,
                                    .batch = 2,
                                    .profiles = &profile,
                                    .n_profiles = profiles};
        int n = 0;
        for (; n < BUILDS_MIN || (n < BUILDS_MAX && (whole == 0 || some == 0)); n++) {
            qb_plan *plan = round_trip(&f, &spec);
            whole += plan->dequantized;
            some += n_f16(plan) > 0;
            qb_plan_free(plan);
        }
        print_message("%d builds: %d in f16 as a whole, %d with steps in f16\n", n, whole, some);
        assert_true(whole > 0 && some > 0 && alternatives > 0);
        close_fixture(&f);
    }
}

static void plans_of_joint_products_give_the_same_bytes(void **state) {
    (void)state;
    fixture f;
    const qb_shape small = qb_shape_of(3, 1, 4, 16), large = qb_shape_of(3, 4, 12, 16);
    const qb_profile profiles[2] = {{&small, &small, &large}, {&small, &large, &large}};
    open_fixture(&f);
    open_attention_model(&f.cx, &f.graph);
    fake_device_attends = true;
    for (int32_t n = 0; n <= 2; n++) {
        const qb_build_spec spec = {.backends = "cuda,cpu,ref",
                                    .float_type = QB_DTYPE_F16,
                                    .threads = 1,
                                    .input_shapes = &small,
                                    .profiles = profiles,
                                    .n_profiles = n};
        qb_plan_free(round_trip(&f, &spec));
    }
    fake_device_attends = false;
    close_fixture(&f);
}

/* Writes the plan with one row changed. */
static void write_plan(fixture *f, const qb_plan *plan) {
    const char *names[] = {f->graph->values[f->graph->inputs[0]].name};
    qb_strbuf text = {0};
    assert_ok(&f->cx, qb_plan_write(&f->cx, plan, names, &text));
    assert_ok(&f->cx, qb_file_write(&f->cx, f->plan, text.data, text.size));
    qb_strbuf_release(&text);
}

/* Every row that the device runs, given to the processor: had, or refused with row and reason. */
static void rows_move_to_the_host_by_hand(void **state) {
    (void)state;
    fixture f;
    int moved = 0, refused = 0;
    open_fixture(&f);
    f.graph = run_graph(&f.cx, RUN_SIDE);
    assert_ok(&f.cx, qb_optimize(&f.cx, f.graph, NULL, NULL));
    qb_build_spec spec = {.backends = "cuda,cpu,ref", .threads = 1};
    build(&f, &spec, f.built);
    qb_plan *plan = plan_of(&f, f.built);
    spec.plan = f.plan;
    for (int32_t i = 0; i < plan->table[0].n_rows; i++) {
        qb_plan_row *row = &plan->table[0].rows[i];
        const qb_plan_row kept = *row;
        const qb_tactic *tactic = qb_tactic_find(row->tactic);
        qb_engine *engine = NULL;
        if (row->is_copy || !row->on_device || !tactic) continue;
        row->on_device = false;
        row->tactic = tactic->kind == QB_KIND_CONV ? "ref.conv" : "ref.matmul";
        write_plan(&f, plan);
        if (qb_engine_build(&f.cx, f.graph, &spec, &engine) == QB_OK) {
            moved++;
        } else {
            refused++;
            assert_message(&f.cx, "cannot be had: ");
            assert_message(&f.cx, kept.value);
            qb_ctx_clear(&f.cx);
        }
        qb_engine_free(engine);
        *row = kept;
    }
    print_message("%d rows moved, %d refused\n", moved, refused);
    assert_true(moved > 0 && refused > 0);
    qb_plan_free(plan);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_in_mixed_precision_give_the_same_bytes),
        cmocka_unit_test(plans_of_joint_products_give_the_same_bytes),
        cmocka_unit_test(rows_move_to_the_host_by_hand),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

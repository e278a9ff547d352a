/* What a newcomer adds by one row and one file works from end to end: an operator, a pass, a
 * kernel, a tile on a GPU, a calibrator, a data format, a metric and a figure, in the program's own
 * lists with a row more each (see newcomer.cmake). docs/newcomer.md tells the same story. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "build_graph.h"
#include "cli/command.h"
#include "datasets/dataset.h"
#include "engine/engine.h"
#include "eval/eval.h"
#include "graph/passes.h"
#include "reports/report.h"
#ifdef QB_HAVE_CUDA
#include "conv_case.h"
#endif

enum { WIDTH = 7, SAMPLES = 40, CLASSES = 3 };

static char folder[QB_TEST_PATH], model[QB_TEST_PATH], samples[QB_TEST_PATH];

/* Newcomer -> Neg -> Neg -> Relu -> MatMul. */
static void make_model(maker *m) {
    maker_init(m, 5);
    const int32_t x = make_input(m, "x", DIMS(-1, WIDTH)), twice = NODE(m, "Newcomer", "twice", x),
                  minus = NODE(m, "Neg", "minus", twice), plus = NODE(m, "Neg", "plus", minus),
                  relu = NODE(m, "Relu", "relu", plus),
                  weight = make_random(m, "weight", DIMS(WIDTH, CLASSES));
    make_output(m, NODE(m, "MatMul", "scores", relu, weight));
}

static int write_files(void **state) {
    (void)state;
    maker m;
    qb_test_temp_dir(folder);
    qb_test_join(model, folder, "model.onnx");
    qb_test_join(samples, folder, "samples.newcomer");
    make_model(&m);
    assert_ok(&m.cx, qb_onnx_save(&m.cx, m.graph, model));
    FILE *file = fopen(samples, "w");
    assert_non_null(file);
    fprintf(file, "%d %d\n", SAMPLES, WIDTH);
    for (int i = 0; i < SAMPLES; i++) {
        fprintf(file, "%d", i % CLASSES);
        for (int k = 0; k < WIDTH; k++) fprintf(file, " %.4f", qb_rng_normal(&m.rng));
        fputc('\n', file);
    }
    fclose(file);
    maker_release(&m);
    return 0;
}

static void an_operator_is_read_and_computed(void **state) {
    (void)state;
    maker m;
    qb_graph *read;
    make_model(&m);
    assert_ok(&m.cx, qb_onnx_load(&m.cx, model, &read));
    assert_int_equal(count_op(read, "Newcomer"), 1);
    assert_same_results(&m, m.graph, read, 0);
    qb_graph_free(read);
    maker_release(&m);
}

static void a_pass_runs_and_can_be_left_out(void **state) {
    (void)state;
    static const char *const without[] = {"newcomer", NULL};
    for (int left_out = 0; left_out < 2; left_out++) {
        maker m;
        qb_graph *before;
        make_model(&m);
        assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &before));
        const qb_optimize_options options = {.disabled = left_out ? without : NULL};
        assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, &options, NULL));
        assert_int_equal(count_op(m.graph, "Neg"), left_out ? 2 : 0);
        assert_same_results(&m, before, m.graph, 1e-6);
        qb_graph_free(before);
        maker_release(&m);
    }
}

static void a_kernel_is_chosen_and_computes(void **state) {
    (void)state;
    maker m;
    qb_engine *engine;
    qb_context *context;
    maker_init(&m, 6);
    make_output(&m, NODE(&m, "Relu", "y", make_input(&m, "x", DIMS(1, WIDTH))));
    const qb_build_spec options = {.backends = "cpu,ref", .threads = 1};
    assert_ok(&m.cx, qb_engine_build(&m.cx, m.graph, &options, &engine));
    qb_step_info step;
    qb_engine_step(engine, 0, &step);
    assert_string_equal(step.tactic, "cpu.unary_f32.newcomer");
    const float x[WIDTH] = {-3, -2, -1, 0, 1, 2, 3}, expected[WIDTH] = {0, 0, 0, 0, 1, 2, 3};
    float y[WIDTH];
    assert_ok(&m.cx, qb_context_create(&m.cx, engine, &context));
    assert_ok(&m.cx, qb_context_run(&m.cx, context, (const void *[]){x}, (void *[]){y}));
    assert_floats(y, expected, WIDTH, 0, 0);
    qb_context_free(context);
    qb_engine_free(engine);
    maker_release(&m);
}

#ifdef QB_HAVE_CUDA
static void a_tile_is_a_tactic_and_computes(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    conv_case c;
    qb_problem problem;
    qb_desc in[4];
    qb_cuda_device device;
    const qb_tactic *tile = qb_tactic_find("cuda.conv_s8.newcomer_nhwc_32x64x64");
    assert_non_null(tile);
    qb_ctx_init(&cx);
    qb_rng_seed(&rng, 7);
    const conv_spec spec = conv_spec_plain(2, 48, 9, 80, 3, 2);
    assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
    conv_case_on_device(&c, &problem, in);
    assert_true(qb_tactic_takes(tile, &problem, c.constant));
    if (qb_cuda_open(&cx, 0, &device) == QB_OK) {
        char *got = qb_alloc(&cx, (size_t)c.n_out, 1);
        assert_non_null(got);
        assert_ok(&cx, conv_case_run(&cx, &c, tile, got));
        assert_memory_equal(got, c.expected, (size_t)c.n_out);
        qb_free(got);
    } else {
        print_message("the tile does not run: %s\n", cx.message);
    }
    conv_case_release(&c);
}
#endif

static void a_format_is_found_by_its_files(void **state) {
    (void)state;
    qb_ctx cx;
    qb_dataset *dataset;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_dataset_open(&cx, samples, &(qb_dataset_options){0}, &dataset));
    assert_string_equal(qb_dataset_format_name(dataset), "newcomer");
    assert_int_equal(qb_dataset_count(dataset), SAMPLES);
    assert_true(qb_dataset_has_labels(dataset));
    qb_dataset_close(dataset);
}

/* The words of a command line. */
static void command(const char *const *words) {
    qb_ctx cx;
    qb_log log;
    char *argv[32];
    int n = 0;
    qb_ctx_init(&cx);
    qb_log_init(&log, stderr, QB_LEVEL_ERROR, true);
    cx.log = &log;
    for (; words[n]; n++) argv[n] = (char *)(uintptr_t)words[n];
    assert_ok(&cx, qb_command_start(&cx, qb_command_find(words[0]), n, argv));
}

static char *text_of(const char *name) {
    qb_ctx cx;
    char path[QB_TEST_PATH], *text;
    qb_ctx_init(&cx);
    qb_test_join(path, folder, name);
    assert_ok(&cx, qb_file_read(&cx, path, (size_t)1 << 24, &text, NULL));
    return text;
}

static void assert_in_file(const char *name, const char *part) {
    char *text = text_of(name);
    if (!strstr(text, part)) fail_msg("%s lacks '%s'", name, part);
    qb_free(text);
}

static void the_commands_know_them_all(void **state) {
    (void)state;
    command((const char *const[]){"calibrate", "--model", model, "--data", samples, "--method",
                                  "newcomer:0.75", "-o", folder, "-q", NULL});
    command((const char *const[]){"compare", "fp32", "int8:newcomer:0.75", "--model", model,
                                  "--data", samples, "--duration", "0.01", "-o", folder, "-q",
                                  NULL});
    assert_in_file("compare.json", "\"name\": \"newcomer\"");
    assert_in_file("compare.json", "int8:newcomer:0.75");
    assert_in_file("figures/newcomer.tsv", "fp32\t40");
    assert_in_file("figures/newcomer.gp", "boxxyerror");
    assert_in_file("report.html", "samples that a newcomer has counted");
    char drawn[QB_TEST_PATH];
    qb_test_join(drawn, folder, "figures/newcomer.svg");
    if (qb_path_exists(drawn)) /* without gnuplot the page has no figures */
        assert_in_file("report.html", "aria-label=\"Newcomer\"");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_operator_is_read_and_computed),
    cmocka_unit_test(a_pass_runs_and_can_be_left_out),
    cmocka_unit_test(a_kernel_is_chosen_and_computes),
#ifdef QB_HAVE_CUDA
    cmocka_unit_test(a_tile_is_a_tactic_and_computes),
#endif
    cmocka_unit_test(a_format_is_found_by_its_files),
    cmocka_unit_test(the_commands_know_them_all),
};

int main(void) {
    return qb_test_exit_code(cmocka_run_group_tests(tests, write_files, NULL),
                             sizeof tests / sizeof *tests);
}

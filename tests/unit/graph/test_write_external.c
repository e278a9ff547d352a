/* Models whose tensors are written beside them. */
#include "qb_test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "graph/op.h"

/* Large tensors go into a file beside the model, the small ones stay. */
static void what_does_not_fit_is_written_beside_the_model(void **state) {
    (void)state;
    enum { LARGE = 300 };
    float large[2][LARGE];
    const float small = 3;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], data[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "m.onnx");
    qb_test_join(data, folder, "m.onnx.data");
    qb_graph *g = NULL, *h = NULL;
    assert_ok(&cx, qb_graph_create(&cx, &g));
    const qb_shape shape = {.rank = 1, .dim = {LARGE}}, one = {.rank = 0};
    const int32_t x = qb_graph_add_value(&cx, g, "x", QB_DTYPE_F32, &shape);
    assert_ok(&cx, qb_graph_add_input(&cx, g, x));
    int32_t last = x;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < LARGE && i < 2; k++) large[i][k] = (float)(i * LARGE + k);
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const int32_t w = qb_graph_add_constant(&cx, g, name, QB_DTYPE_F32, i < 2 ? &shape : &one,
                                                i < 2 ? large[i] : &small);
        snprintf(name, sizeof name, "y%d", i);
        const int32_t in[2] = {last, w};
        last = qb_graph_add_value(&cx, g, name, QB_DTYPE_NONE, NULL);
        assert_true(qb_graph_add_node(&cx, g, qb_op_find("Add", ""), "", in, 2, &last, 1) >= 0);
    }
    assert_ok(&cx, qb_graph_add_output(&cx, g, last));
    assert_ok(&cx, qb_graph_infer(&cx, g));
    assert_ok(&cx, qb_onnx_save_split(&cx, g, path, 2048));
    struct stat model, beside;
    assert_int_equal(stat(path, &model), 0);
    assert_int_equal(stat(data, &beside), 0);
    assert_true(model.st_size < 1024);
    assert_int_equal(beside.st_size, 4096 + LARGE * sizeof(float)); /* tensors begin on pages */
    assert_ok(&cx, qb_onnx_load(&cx, path, &h));
    char *before, *after;
    assert_ok(&cx, qb_graph_text(&cx, g, &before));
    assert_ok(&cx, qb_graph_text(&cx, h, &after));
    assert_string_equal(before, after);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(h->values[qb_graph_find_value(h, i ? "w1" : "w0")].data, large[i],
                            sizeof large[i]);
    assert_ok(&cx, qb_onnx_save_split(&cx, g, path, 1 << 20)); /* this fits */
    assert_int_equal(stat(path, &model), 0);
    assert_true(model.st_size > (off_t)sizeof large);
    qb_free(before);
    qb_free(after);
    qb_graph_free(g);
    qb_graph_free(h);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_does_not_fit_is_written_beside_the_model),
};
QB_TEST_MAIN(tests)

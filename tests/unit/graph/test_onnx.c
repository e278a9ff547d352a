/* Reading and writing ONNX files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "graph/op.h"
#include "onnx_bytes.h"

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* x f32[N,1,4,4] -> Conv 'conv1' -> Relu -> y */
static ob conv_graph(void) {
    ob graph = {0}, attrs = {0};
    int64_t pads[] = {1, 1, 0, 0};
    ob_attr_ints(&attrs, "pads", 4, pads);
    ob_node(&graph, "Conv", "conv1", "x w", "c", &attrs);
    ob_node(&graph, "Relu", "", "c", "y", NULL);
    ob_text(&graph, 2, "net");
    ob_floats(&graph, "w", "2,1,2,2", 8, ones);
    ob_input(&graph, "x", QB_DTYPE_F32, "N,1,4,4");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2,4,4");
    return graph;
}

static void graph_has_names_shapes_symbols_and_attributes(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = conv_graph();
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_ok(&cx, qb_graph_verify(&cx, g));
    char *text = ob_text_of(&cx, g);
    assert_non_null(strstr(text,
                           "graph net\ninput x: f32[N,1,4,4]\nconst w: f32[2,1,2,2] (1, 1, 1, 1, "
                           "1, 1, 1, 1)\n"
                           "Conv 'conv1' (x, w) -> c: f32[N,2,4,4] {pads=[1,1,0,0]}\n"
                           "Relu (c) -> y: f32[N,2,4,4]\noutput y\n"));
    assert_int_equal(g->opset, 17);
    assert_int_equal(g->n_symbols, 1);
    assert_string_equal(g->symbols[0], "N");
    assert_string_equal(g->source, "test.onnx");
    assert_false(qb_hash_is_zero(g->hash));
    assert_int_equal((uintptr_t)g->values[qb_graph_find_value(g, "w")].data % 64, 0);
    qb_free(text);
    qb_graph_free(g);
}

static void a_question_mark_names_no_dimension(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0};
    ob_node(&graph, "Relu", "", "x", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "'?',3,'?',?");
    ob_output(&graph, "y", QB_DTYPE_F32, "'?',3,'?',?");
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    const qb_shape *x = &g->values[g->inputs[0]].shape;
    assert_int_equal(g->n_symbols, 0);
    assert_true(x->dim[0] == -1 && x->dim[1] == 3 && x->dim[2] == -1 && x->dim[3] == -1);
    qb_graph_free(g);
}

static void initializers_listed_as_inputs_are_no_inputs(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = conv_graph(), model = {0};
    ob_input(&graph, "w", QB_DTYPE_F32, "2,1,2,2");
    ob_model(&model, 3, 8, &graph);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse(&cx, &model, &g));
    assert_int_equal(g->n_inputs, 1);
    assert_int_equal(g->opset, 8);
    qb_graph_free(g);
}

static void unsorted_nodes_and_unused_domains_are_fine(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, model = {0};
    ob_node(&graph, "Relu", "second", "a", "y", NULL);
    ob_node_in(&graph, "ai.onnx", "Relu", "first", "x", "a", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "2");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_model(&model, 8, 17, &graph);
    ob_import(&model, "com.microsoft", 1);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse(&cx, &model, &g));
    assert_string_equal(g->nodes[0].name, "first");
    assert_ok(&cx, qb_graph_verify(&cx, g));
    qb_graph_free(g);
}

static void an_output_listed_twice_comes_twice(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = conv_graph(), bytes = {0};
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_int_equal(g->n_outputs, 2);
    const qb_value *first = &g->values[g->outputs[0]], *second = &g->values[g->outputs[1]];
    assert_string_equal(first->name, "y");
    assert_string_equal(second->name, "y_1");
    assert_true(qb_shape_equal(&first->shape, &second->shape));
    ob_round_trip(&cx, g, &bytes);
    ob_free(&bytes);
    qb_graph_free(g);
}

/* onnxruntime refuses a file where two nodes share a name. */
static void nodes_of_one_name_get_names_of_their_own(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, bytes = {0};
    ob_node(&graph, "Relu", "same", "x", "a", NULL);
    ob_node(&graph, "Neg", "same", "a", "b", NULL);
    ob_node(&graph, "Abs", "same_1", "b", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "2");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    qb_graph *g = NULL, *again = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_string_equal(g->nodes[0].name, "same");
    assert_string_equal(g->nodes[1].name, "same_2");
    assert_string_equal(g->nodes[2].name, "same_1");
    ob_round_trip(&cx, g, &bytes);
    assert_ok(&cx, qb_onnx_parse(&cx, "again", NULL, bytes.data, bytes.size, &again));
    for (int32_t i = 0; i < 3; i++)
        for (int32_t k = 0; k < i; k++)
            assert_string_not_equal(again->nodes[i].name, again->nodes[k].name);
    ob_free(&bytes);
    qb_graph_free(again);
    qb_graph_free(g);
}

/* --- constants
 * ------------------------------------------------------------------------------------ */

/* x + cast(t) where t holds its elements in a typed field. */
static void check_typed(qb_dtype dtype, int field, bool packed, const void *expected, size_t bytes,
                        const uint8_t *content, size_t n, qb_status status) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, tensor = {0}, attrs = {0};
    ob_int(&tensor, 1, 2);
    ob_int(&tensor, 2, qb_dtype_to_onnx(dtype));
    ob_text(&tensor, 8, "t");
    if (packed)
        ob_bytes(&tensor, field, content, n);
    else
        ob_append(&tensor, content, n);
    ob_message(&graph, 5, &tensor);
    ob_attr_int(&attrs, "to", 1);
    ob_node(&graph, "Cast", "", "t", "y", &attrs);
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    qb_graph *g = NULL;
    if (status != QB_OK) {
        assert_fails(&cx, ob_parse_graph(&cx, &graph, &g), status);
        return;
    }
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    const qb_value *t = &g->values[qb_graph_find_value(g, "t")];
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->bytes, bytes);
    assert_memory_equal(t->data, expected, bytes);
    qb_graph_free(g);
}

static void typed_fields_hold_every_type(void **state) {
    (void)state;
    const uint8_t small[] = {1, 2}, bools[] = {1, 0};
    const uint8_t minus[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 2};
    const float f[] = {1.5f, -2};
    const double d[] = {1.5, -2};
    uint8_t tagged[10] = {4 << 3 | 5};
    memcpy(tagged + 1, &f[0], 4);
    tagged[5] = 4 << 3 | 5;
    memcpy(tagged + 6, &f[1], 4);
    check_typed(QB_DTYPE_F32, 4, true, f, 8, (const uint8_t *)f, 8, QB_OK);
    check_typed(QB_DTYPE_F32, 4, false, f, 8, tagged, 10, QB_OK);
    check_typed(QB_DTYPE_F64, 10, true, d, 16, (const uint8_t *)d, 16, QB_OK);
    check_typed(QB_DTYPE_U8, 5, true, small, 2, small, 2, QB_OK);
    check_typed(QB_DTYPE_BOOL, 5, true, bools, 2, bools, 2, QB_OK);
    check_typed(QB_DTYPE_S8, 5, true, (int8_t[]){-1, 2}, 2, minus, 11, QB_OK);
    check_typed(QB_DTYPE_S16, 5, true, (int16_t[]){-1, 2}, 4, minus, 11, QB_OK);
    check_typed(QB_DTYPE_S32, 5, true, (int32_t[]){-1, 2}, 8, minus, 11, QB_OK);
    check_typed(QB_DTYPE_S64, 7, true, (int64_t[]){-1, 2}, 16, minus, 11, QB_OK);
    check_typed(QB_DTYPE_U32, 11, true, (uint32_t[]){1, 2}, 8, small, 2, QB_OK);
    check_typed(QB_DTYPE_U64, 11, true, (uint64_t[]){1, 2}, 16, small, 2, QB_OK);
    check_typed(QB_DTYPE_F16, 5, true, (uint16_t[]){1, 2}, 4, small, 2, QB_OK);
}

static void typed_fields_must_fit_type_and_shape(void **state) {
    (void)state;
    const uint8_t small[] = {1, 2}, large[] = {0x80, 2, 1};
    const uint8_t minus[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 2};
    check_typed(QB_DTYPE_U8, 5, true, NULL, 0, large, 3, QB_STATUS_FORMAT);  /* 256 */
    check_typed(QB_DTYPE_U8, 5, true, NULL, 0, minus, 11, QB_STATUS_FORMAT); /* -1 */
    check_typed(QB_DTYPE_BOOL, 5, true, NULL, 0, small, 2, QB_STATUS_FORMAT);
    check_typed(QB_DTYPE_U32, 11, true, NULL, 0, minus, 11, QB_STATUS_FORMAT);
    check_typed(QB_DTYPE_S64, 7, true, NULL, 0, small, 1, QB_STATUS_FORMAT); /* one of two */
    check_typed(QB_DTYPE_F32, 5, true, NULL, 0, small, 2, QB_STATUS_FORMAT); /* other field */
}

static void constant_nodes_become_constants(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, attrs[4] = {{0}}, tensor = {0};
    int64_t list[] = {2, 3};
    const float values[] = {1, 2, 3};
    ob_tensor(&tensor, "", QB_DTYPE_F32, "3", values, sizeof values);
    ob_attr_tensor(&attrs[0], "value", &tensor);
    ob_attr_float(&attrs[1], "value_float", 0.5f);
    ob_attr_int(&attrs[2], "value_int", -7);
    ob_attr_ints(&attrs[3], "value_ints", 2, list);
    ob_node(&graph, "Constant", "", "", "t", &attrs[0]);
    ob_node(&graph, "Constant", "", "", "f", &attrs[1]);
    ob_node(&graph, "Constant", "", "", "i", &attrs[2]);
    ob_node(&graph, "Constant", "", "", "l", &attrs[3]);
    ob_node(&graph, "Mul", "", "t f", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_output(&graph, "i", QB_DTYPE_S64, NULL);
    ob_output(&graph, "l", QB_DTYPE_S64, NULL);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_int_equal(g->n_nodes, 1);
    char *text = ob_text_of(&cx, g);
    assert_non_null(strstr(text, "const t: f32[3] (1, 2, 3)\nconst f: f32[] (0.5)\n"));
    assert_non_null(
        strstr(text, "const i: s64[] (-7)\noutput i\nconst l: s64[2] (2, 3)\noutput l"));
    qb_free(text);
    qb_graph_free(g);
}

/* --- external data
 * -------------------------------------------------------------------------------- */

typedef struct external_case {
    const char *location, *offset, *length; /* NULL: left out */
} external_case;

static ob external_model(const external_case *c) {
    ob graph = {0}, tensor = {0}, model = {0};
    const char *const keys[] = {"location", "offset", "length"};
    const char *const texts[] = {c->location, c->offset, c->length};
    ob_int(&tensor, 1, 2);
    ob_int(&tensor, 2, 1);
    ob_text(&tensor, 8, "w");
    ob_int(&tensor, 14, 1);
    for (int i = 0; i < 3; i++) {
        if (!texts[i]) continue;
        ob entry = {0};
        ob_text(&entry, 1, keys[i]);
        ob_text(&entry, 2, texts[i]);
        ob_message(&tensor, 13, &entry);
    }
    ob_message(&graph, 5, &tensor);
    ob_node(&graph, "Add", "", "x w", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "2");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_model(&model, 8, 17, &graph);
    return model;
}

static qb_status load_external(qb_ctx *cx, const char *folder, const external_case *c,
                               qb_graph **out) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, "m.onnx");
    ob model = external_model(c);
    assert_ok(cx, qb_file_write(cx, path, model.data, model.size));
    ob_free(&model);
    return qb_onnx_load(cx, path, out);
}

static void external_data_is_found_beside_the_model(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "sub");
    assert_ok(&cx, qb_make_dirs(&cx, path));
    qb_test_join(path, folder, "sub/w.bin");
    float values[] = {9, 1, 2, 8};
    assert_ok(&cx, qb_file_write(&cx, path, values, sizeof values));
    qb_graph *g = NULL, *h = NULL;
    assert_ok(&cx, load_external(&cx, folder, &(external_case){"sub/w.bin", "4", "8"}, &g));
    assert_memory_equal(g->values[qb_graph_find_value(g, "w")].data, values + 1, 8);
    values[2] = 3; /* the hash covers the data */
    assert_ok(&cx, qb_file_write(&cx, path, values, sizeof values));
    assert_ok(&cx, load_external(&cx, folder, &(external_case){"sub/w.bin", "4", "8"}, &h));
    assert_false(qb_hash_equal(g->hash, h->hash));
    qb_graph_free(g);
    qb_graph_free(h);
}

/* Files larger than a 32-bit offset reaches: sparse, and only what is used is read. */
static void external_data_may_lie_beyond_four_gigabytes(void **state) {
    (void)state;
    static const struct {
        int64_t at;
        const char *offset;
    } places[] = {{INT64_C(0x80000010), "2147483664"}, {INT64_C(0x100000020), "4294967328"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "large.bin");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 2; i++) {
        const float values[2] = {1.5f + (float)i, -4};
        if (fseeko(file, places[i].at, SEEK_SET) != 0 || fwrite(values, 8, 1, file) != 1 ||
            fflush(file) != 0) {
            fclose(file);
            qb_test_skip("no sparse files of 4 GiB in %s", folder);
        }
    }
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 2; i++) {
        qb_graph *g = NULL;
        const external_case c = {"large.bin", places[i].offset, "8"};
        assert_ok(&cx, load_external(&cx, folder, &c, &g));
        const float *w = g->values[qb_graph_find_value(g, "w")].data;
        assert_true(w[0] == 1.5f + (float)i && w[1] == -4);
        assert_true(qb_arena_bytes(g->arena) < 1 << 20);
        qb_graph_free(g);
    }
    qb_graph *g = NULL;
    assert_fails(&cx,
                 load_external(&cx, folder, &(external_case){"large.bin", "4294967329", "8"}, &g),
                 QB_STATUS_FORMAT);
    assert_message(&cx, "bytes 4294967329 to 4294967337 wanted, the file has 4294967336");
    assert_int_equal(remove(path), 0);
}

static void external_data_stays_inside_the_folder_and_the_file(void **state) {
    (void)state;
    static const struct {
        external_case c;
        qb_status status;
        const char *message;
    } cases[] = {
        {{"/etc/passwd", NULL, NULL}, QB_STATUS_FORMAT, "inside the model's folder"},
        {{"../w.bin", NULL, NULL}, QB_STATUS_FORMAT, "inside the model's folder"},
        {{"a/../../w.bin", NULL, NULL}, QB_STATUS_FORMAT, "inside the model's folder"},
        {{"a/..", NULL, NULL}, QB_STATUS_FORMAT, "inside the model's folder"},
        {{"", NULL, NULL}, QB_STATUS_FORMAT, "inside the model's folder"},
        {{NULL, "0", "8"}, QB_STATUS_FORMAT, "without a location"},
        {{"absent.bin", NULL, NULL}, QB_STATUS_NOTFOUND, "absent.bin"},
        {{"w.bin", "12", "8"}, QB_STATUS_FORMAT, "the file has 16"},
        {{"w.bin", "17", NULL}, QB_STATUS_FORMAT, "the file has 16"},
        {{"w.bin", "18446744073709551615", "8"}, QB_STATUS_FORMAT, "the file has 16"},
        {{"w.bin", "18446744073709551616", "8"}, QB_STATUS_FORMAT, "expected a byte count"},
        {{"w.bin", "-1", "8"}, QB_STATUS_FORMAT, "expected a byte count"},
        {{"w.bin", "0", "4"}, QB_STATUS_FORMAT, "expected 8 bytes, got 4"},
        {{"w.bin", "0", NULL}, QB_STATUS_FORMAT, "expected 8 bytes, got 16"},
        {{".", NULL, NULL}, QB_STATUS_IO, "regular file"},
    };
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "w.bin");
    assert_ok(&cx, qb_file_write(&cx, path, ones, 16));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_graph *g = NULL;
        assert_fails(&cx, load_external(&cx, folder, &cases[i].c, &g), cases[i].status);
        assert_message(&cx, cases[i].message);
        assert_message(&cx, "initializer 0 'w'");
        assert_null(g);
    }
    ob model = external_model(&(external_case){"w.bin", "0", "8"});
    qb_graph *g = NULL;
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "does not come from a file");
}

/* --- errors
 * --------------------------------------------------------------------------------------- */

static void expect(ob *graph, qb_status status, const char *message) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    assert_fails(&cx, ob_parse_graph(&cx, graph, &g), status);
    assert_message(&cx, message);
    assert_message(&cx, "load test.onnx: ");
    assert_null(g);
}

static void attributes_are_checked(void **state) {
    (void)state;
    ob graph = conv_graph(), attrs = {0};
    ob_attr_text(&attrs, "group", "one");
    ob_node(&graph, "Conv", "bad", "x w", "z", &attrs);
    expect(&graph, QB_STATUS_FORMAT,
           "node 2 Conv 'bad': attribute group: expected type INT, got STRING");
    graph = conv_graph();
    ob_attr_int(&attrs, "group", 0);
    ob_node(&graph, "Conv", "bad", "x w", "z", &attrs);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Conv 'bad': attribute group: expected 1 to ");
    graph = conv_graph();
    ob_attr_int(&attrs, "group", 1);
    ob_attr_int(&attrs, "group", 1);
    ob_node(&graph, "Conv", "bad", "x w", "z", &attrs);
    expect(&graph, QB_STATUS_FORMAT, "attribute group: given twice");
    graph = conv_graph();
    ob_node(&graph, "Concat", "", "x x", "z", NULL);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Concat: attribute axis: required, but not given");
    graph = conv_graph();
    ob_attr_int(&attrs, "no_such_attribute", 1);
    ob_node(&graph, "Relu", "", "x", "z", &attrs);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g)); /* ignored */
    qb_graph_free(g);
}

static void newer_opsets_are_read_but_for_what_nobody_knows(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = conv_graph(), model = {0}, attrs = {0};
    qb_graph *g = NULL;
    ob_model(&model, 13, 30, &graph);
    assert_ok(&cx, ob_parse(&cx, &model, &g));
    qb_graph_free(g);
    g = NULL;
    graph = conv_graph();
    ob_attr_int(&attrs, "no_such_attribute", 1);
    ob_node(&graph, "Relu", "new", "x", "z", &attrs);
    ob_model(&model, 13, 30, &graph);
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "Relu (opset 30): attribute no_such_attribute is newer than opset 27; "
                        "node 2 'new'");
}

static void inference_errors_name_node_operator_and_shapes(void **state) {
    (void)state;
    ob graph = conv_graph();
    ob_floats(&graph, "v", "2,3,2,2", 24, ones);
    ob_node(&graph, "Conv", "bad", "x v", "z", NULL);
    expect(&graph, QB_STATUS_INVALID, "node 2 Conv 'bad': ");
    graph = conv_graph();
    ob_floats(&graph, "v", "2,3,2,2", 24, ones);
    ob_node(&graph, "Conv", "bad", "x v", "z", NULL);
    expect(&graph, QB_STATUS_INVALID, "(inputs: f32 ?x1x4x4, f32 2x3x2x2)");
}

static void names_and_links_are_checked(void **state) {
    (void)state;
    ob graph = conv_graph();
    ob_node(&graph, "Relu", "", "nowhere", "z", NULL);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Relu: input 0 'nowhere': nothing makes this value");
    graph = conv_graph();
    ob_node(&graph, "Relu", "", "x", "y", NULL);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Relu: output 'y': the name is taken");
    graph = conv_graph();
    ob_node(&graph, "Relu", "", "x", "w", NULL);
    expect(&graph, QB_STATUS_FORMAT, "output 'w': the name is taken");
    graph = conv_graph();
    ob_node(&graph, "Add", "p", "x b", "a", NULL);
    ob_node(&graph, "Relu", "q", "a", "b", NULL);
    expect(&graph, QB_STATUS_FORMAT,
           "the graph has a cycle: node 2 Add 'p' -> node 3 Relu 'q' -> node 2 Add 'p'");
    graph = conv_graph();
    ob_floats(&graph, "w", "1", 1, ones);
    expect(&graph, QB_STATUS_FORMAT, "initializer 1 'w': the name is taken");
    graph = conv_graph();
    ob_input(&graph, "x", QB_DTYPE_F32, "1");
    expect(&graph, QB_STATUS_FORMAT, "input 'x': listed twice");
    graph = conv_graph();
    ob_output(&graph, "nowhere", QB_DTYPE_F32, NULL);
    expect(&graph, QB_STATUS_FORMAT, "output 'nowhere': nothing makes this value");
    graph = conv_graph();
    ob_node(&graph, "Conv", "", "x", "z", NULL);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Conv: expected at least 2 inputs, got 1");
    graph = conv_graph();
    ob_node(&graph, "Relu", "", "x x", "z", NULL);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Relu: expected at most 1 inputs, got 2");
    graph = conv_graph();
    ob_node(&graph, "Conv", "", "- w", "z", NULL);
    expect(&graph, QB_STATUS_FORMAT, "node 2 Conv: input 0: left out");
}

static void tensors_must_fit_their_data(void **state) {
    (void)state;
    static const struct {
        const char *dims;
        size_t n;
        qb_status status;
        const char *message;
    } cases[] = {
        {"2,2", 12, QB_STATUS_FORMAT,
         "initializer 1 'v': shape 2x2 of f32: expected 16 bytes, got 12"},
        {"2,2", 20, QB_STATUS_FORMAT, "expected 16 bytes, got 20"},
        {"4611686018427387904,4611686018427387904", 16, QB_STATUS_FORMAT, "overflows"},
        {"4294967296,4294967296", 16, QB_STATUS_FORMAT, "overflows"},
        {"-1,4", 16, QB_STATUS_FORMAT, "dimension 0: expected at least 0, got -1"},
        {"1,1,1,1,1,1,1,1,1", 4, QB_STATUS_UNSUPPORTED, "expected at most 8 dimensions, got 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ob graph = conv_graph();
        ob_initializer(&graph, "v", QB_DTYPE_F32, cases[i].dims, ones, cases[i].n);
        expect(&graph, cases[i].status, cases[i].message);
    }
    ob graph = conv_graph(), tensor = {0};
    ob_int(&tensor, 2, 8); /* text */
    ob_text(&tensor, 8, "v");
    ob_message(&graph, 5, &tensor);
    expect(&graph, QB_STATUS_UNSUPPORTED, "element type 8 is not supported");
}

static void models_are_checked_as_a_whole(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob model = {0}, graph = conv_graph();
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_FORMAT);
    assert_message(&cx, "the file is empty");
    ob_int(&model, 1, 8);
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_FORMAT);
    assert_message(&cx, "no graph in the model");
    ob_model(&model, 8, 6, &graph);
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "opset: expected 7 to 27, got 6");
    graph = conv_graph();
    ob_model(&model, 2, 17, &graph);
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "IR version: expected at least 3, got 2");
    graph = conv_graph();
    ob_int(&model, 1, 8);
    ob_message(&model, 7, &graph);
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_FORMAT);
    assert_message(&cx, "imports no opset");
    graph = conv_graph();
    ob_bytes(&graph, 15, "", 0);
    expect(&graph, QB_STATUS_UNSUPPORTED, "sparse initializers");
    ob_node(&graph, "Relu", "", "x", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "1");
    expect(&graph, QB_STATUS_FORMAT, "the graph has no output");
}

static void malformed_bytes_are_refused_with_their_place(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob model = {0};
    ob_append(&model, "this is no model\n", 17);
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_FORMAT);
    assert_message(&cx, "not an ONNX model, or a damaged one: byte ");
    ob_text(&model, 1, "ir_version is no text");
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_FORMAT);
    assert_message(&cx, "field ir_version of ModelProto: expected wire type 0, got 2");
    ob graph = conv_graph();
    ob_bytes(&graph, 2, "a\0b", 3);
    expect(&graph, QB_STATUS_FORMAT, "field name of GraphProto: text with a zero byte");
    ob_append(&graph, "\x0b\x0c", 2); /* a group */
    expect(&graph, QB_STATUS_FORMAT, "inside GraphProto");
}

/* Whatever a cut leaves: an error or a graph, never more. */
static void every_prefix_is_refused_or_read(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = conv_graph(), model = {0};
    ob_model(&model, 8, 17, &graph);
    size_t read = 0;
    for (size_t n = 0; n < model.size; n++) {
        ob cut = {0};
        ob_append(&cut, model.data, n);
        qb_graph *g = NULL;
        if (ob_parse(&cx, &cut, &g) == QB_OK) read++;
        qb_graph_free(g);
        qb_ctx_clear(&cx);
    }
    assert_int_equal(read, 0);
    ob_free(&model);
}

static void messages_that_blow_up_are_refused(void **state) {
    (void)state;
    ob graph = conv_graph();
    for (int i = 0; i < 100000; i++) ob_bytes(&graph, 1, "", 0); /* empty nodes: 2 bytes each */
    expect(&graph, QB_STATUS_FORMAT, "unpack to more than");
}

static void all_unsupported_operators_are_reported_at_once(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, model = {0};
    ob_node(&graph, "NoSuchOp", "first", "x", "a", NULL);
    ob_node(&graph, "NoSuchOp", "second", "a", "b", NULL);
    ob_node_in(&graph, "example.org", "Decode", "", "b", "c", NULL);
    ob_node(&graph, "Gelu", "early", "c", "d", NULL);
    ob attrs = {0};
    ob_attr_text(&attrs, "value_string", "text");
    ob_node(&graph, "Constant", "words", "", "e", &attrs);
    ob_node(&graph, "Relu", "fine", "d", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "1");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_model(&model, 8, 17, &graph);
    ob_import(&model, "example.org", 3);
    qb_graph *g = NULL;
    assert_fails(&cx, ob_parse(&cx, &model, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "NoSuchOp (opset 17): unknown operator; node 0 'first' and 1 more");
    assert_message(&cx, "Decode (example.org opset 3): unknown operator; is its plugin loaded "
                        "(--plugin LIB.so)?; node 2");
    assert_message(&cx, "Gelu (opset 17): older than opset 20");
    assert_message(&cx, "Constant (opset 17): attribute value_string is not supported");
    assert_null(strstr(cx.message, "Relu"));
}

/* --- writing
 * -------------------------------------------------------------------------------------- */

static int64_t declared_opset(const ob *bytes, int64_t *ir) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    assert_ok(&cx, qb_onnx_parse(&cx, "b", NULL, bytes->data, bytes->size, &g));
    int64_t opset = g->opset;
    *ir = bytes->data[1]; /* field 1 comes first */
    qb_graph_free(g);
    return opset;
}

static void written_graphs_read_back_the_same(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = conv_graph(), first, second;
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    ob_round_trip(&cx, g, &first);
    ob_round_trip(&cx, g, &second);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    int64_t ir;
    assert_int_equal(declared_opset(&first, &ir), 17);
    assert_int_equal(ir, 8);
    ob_free(&first);
    ob_free(&second);
    qb_graph_free(g);
}

static void older_forms_are_written_in_the_current_one(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, model = {0}, attrs = {0}, bytes;
    int64_t axes[] = {1};
    ob_attr_ints(&attrs, "axes", 1, axes);
    ob_node(&graph, "Unsqueeze", "", "x", "u", &attrs);
    ob_attr_float(&attrs, "max", 6);
    ob_node(&graph, "Clip", "", "u", "c", &attrs);
    ob_attr_ints(&attrs, "axes", 1, axes);
    ob_node(&graph, "ReduceMean", "", "c", "y", &attrs);
    ob_input(&graph, "x", QB_DTYPE_F32, "N,5");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_model(&model, 4, 9, &graph);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse(&cx, &model, &g));
    assert_int_equal(g->opset, 9);
    ob_round_trip(&cx, g, &bytes);
    int64_t ir;
    assert_int_equal(declared_opset(&bytes, &ir), 18); /* ReduceMean's axes as an input */
    assert_int_equal(ir, 8);
    ob_free(&bytes);
    qb_graph_free(g);
}

static void a_failed_save_leaves_the_old_file(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    ob graph = conv_graph();
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    qb_test_join(path, folder, "no/such/folder.onnx");
    assert_fails(&cx, qb_onnx_save(&cx, g, path), QB_STATUS_NOTFOUND);
    assert_message(&cx, "save ");
    qb_test_join(path, folder, "m.onnx");
    assert_ok(&cx, qb_onnx_save(&cx, g, path));
    qb_graph *h = NULL;
    assert_ok(&cx, qb_onnx_load(&cx, path, &h));
    h->values[h->outputs[0]].dtype = QB_DTYPE_NONE; /* cannot be written */
    assert_fails(&cx, qb_onnx_save(&cx, h, path), QB_STATUS_INTERNAL);
    assert_int_equal(qb_test_count_files(folder), 1);
    qb_graph_free(h);
    assert_ok(&cx, qb_onnx_load(&cx, path, &h));
    qb_graph_free(h);
    qb_graph_free(g);
}

/* --- TensorProto files
 * ----------------------------------------------------------------------------- */

static void tensor_files_are_read(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "input_0.pb");
    ob tensor = {0};
    const float values[] = {1, 2, 3, 4, 5, 6};
    ob_tensor(&tensor, "data", QB_DTYPE_F32, "2,3", values, sizeof values);
    assert_ok(&cx, qb_file_write(&cx, path, tensor.data, tensor.size));
    qb_tensor t;
    char *name = NULL;
    assert_ok(&cx, qb_onnx_load_tensor(&cx, path, &t, &name));
    assert_string_equal(name, "data");
    qb_shape shape = qb_shape_of(2, 2, 3);
    assert_true(qb_shape_equal(&t.desc.shape, &shape));
    assert_floats(t.data, values, 6, 0, 0);
    qb_free(name);
    qb_free(t.data);
    assert_ok(&cx, qb_file_write(&cx, path, tensor.data, tensor.size - 1));
    assert_fails(&cx, qb_onnx_load_tensor(&cx, path, &t, NULL), QB_STATUS_FORMAT);
    assert_message(&cx, "load tensor ");
    ob_free(&tensor);
}

/* --- as written
 * ------------------------------------------------------------------------------------- */

static void nothing_is_rewritten_on_request(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, model = {0};
    const float scale = 0.5f;
    const uint8_t zero = 3;
    ob_input(&graph, "x", QB_DTYPE_F32, "N,4");
    ob_floats(&graph, "s", "", 1, &scale);
    ob_initializer(&graph, "z", QB_DTYPE_U8, "", &zero, 1);
    ob_node(&graph, "Nonesuch", "n", "x", "t", NULL);
    ob_node(&graph, "QuantizeLinear", "q", "t s z", "c", NULL);
    ob_node(&graph, "DequantizeLinear", "d", "c s z", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "N,4");
    ob_model(&model, 8, 17, &graph);
    qb_graph *g = NULL;
    assert_int_equal(qb_onnx_parse(&cx, "m.onnx", NULL, model.data, model.size, &g),
                     QB_STATUS_UNSUPPORTED);
    assert_ok(&cx, qb_onnx_parse_as_written(&cx, "m.onnx", model.data, model.size, &g));
    assert_int_equal(g->n_nodes, 3);
    assert_string_equal(g->nodes[0].op->name, "Nonesuch");
    assert_string_equal(g->nodes[1].op->name, "QuantizeLinear");
    assert_string_equal(g->nodes[2].name, "d");
    assert_int_equal(g->opset, 17);
    qb_graph_free(g);
    ob_free(&model);
}

/* --- memory
 * ---------------------------------------------------------------------------------------- */

static qb_status load_and_write(qb_ctx *cx, void *user) {
    const ob *model = user;
    qb_graph *g = NULL;
    QB_TRY(qb_onnx_parse(cx, "m.onnx", NULL, model->data, model->size, &g));
    char *data = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&data, &size);
    qb_status status = qb_onnx_write(cx, g, stream);
    fclose(stream);
    free(data);
    qb_graph_free(g);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    ob graph = conv_graph(), model = {0};
    ob_model(&model, 8, 17, &graph);
    assert_true(qb_test_alloc_sweep(load_and_write, &model) > 50);
    ob_free(&model);
}

/* --- real models
 * ----------------------------------------------------------------------------------- */

static void real_models_read_back_the_same(void **state) {
    (void)state;
    static const char *const names[] = {"models/squeezenet1.1.onnx",
                                        "models/resnet8_cifar10.onnx",
                                        "models/vww_96.onnx",
                                        "models/kws_dscnn.onnx",
                                        "models/str_ww.onnx",
                                        "models/ad01_toycar.onnx",
                                        "models/mnist.onnx",
                                        "models/ultraface_rfb_320.onnx",
                                        "models/super_resolution_core.onnx",
                                        "models/squeezenet1.1_ort_qdq_minmax.onnx",
                                        "models/squeezenet1.1_ort_qdq_entropy.onnx",
                                        "models/resnet8_cifar10_ort_qdq_minmax.onnx",
                                        "models/resnet8_cifar10_ort_qdq_entropy.onnx",
                                        "onnx-light/light_resnet50/model.onnx",
                                        "onnx-light/light_squeezenet/model.onnx",
                                        "onnx-light/light_densenet121/model.onnx"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[QB_TEST_PATH];
        qb_test_need_shared(path, names[i]);
        qb_graph *g = NULL;
        ob bytes;
        assert_ok(&cx, qb_onnx_load(&cx, path, &g));
        assert_ok(&cx, qb_graph_verify(&cx, g));
        ob_round_trip(&cx, g, &bytes);
        ob_free(&bytes);
        qb_graph_free(g);
    }
}

static void foreign_operators_of_a_real_model_are_named(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    qb_test_need_shared(path, "models/super_resolution_prepost_ext.onnx");
    qb_graph *g = NULL;
    assert_fails(&cx, qb_onnx_load(&cx, path, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "DecodeImage (com.microsoft.extensions opset 1): unknown operator");
    assert_message(&cx, "EncodeImage (com.microsoft.extensions opset 1): unknown operator");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_has_names_shapes_symbols_and_attributes),
        cmocka_unit_test(a_question_mark_names_no_dimension),
        cmocka_unit_test(initializers_listed_as_inputs_are_no_inputs),
        cmocka_unit_test(unsorted_nodes_and_unused_domains_are_fine),
        cmocka_unit_test(an_output_listed_twice_comes_twice),
        cmocka_unit_test(nodes_of_one_name_get_names_of_their_own),
        cmocka_unit_test(typed_fields_hold_every_type),
        cmocka_unit_test(typed_fields_must_fit_type_and_shape),
        cmocka_unit_test(constant_nodes_become_constants),
        cmocka_unit_test(external_data_is_found_beside_the_model),
        cmocka_unit_test(external_data_may_lie_beyond_four_gigabytes),
        cmocka_unit_test(external_data_stays_inside_the_folder_and_the_file),
        cmocka_unit_test(attributes_are_checked),
        cmocka_unit_test(newer_opsets_are_read_but_for_what_nobody_knows),
        cmocka_unit_test(inference_errors_name_node_operator_and_shapes),
        cmocka_unit_test(names_and_links_are_checked),
        cmocka_unit_test(tensors_must_fit_their_data),
        cmocka_unit_test(models_are_checked_as_a_whole),
        cmocka_unit_test(malformed_bytes_are_refused_with_their_place),
        cmocka_unit_test(every_prefix_is_refused_or_read),
        cmocka_unit_test(messages_that_blow_up_are_refused),
        cmocka_unit_test(all_unsupported_operators_are_reported_at_once),
        cmocka_unit_test(written_graphs_read_back_the_same),
        cmocka_unit_test(older_forms_are_written_in_the_current_one),
        cmocka_unit_test(a_failed_save_leaves_the_old_file),
        cmocka_unit_test(tensor_files_are_read),
        cmocka_unit_test(nothing_is_rewritten_on_request),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(real_models_read_back_the_same),
        cmocka_unit_test(foreign_operators_of_a_real_model_are_named),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

/* Calibration files of other tools: what their own files say, what is written reads back, and how
 * names fit a model. */
#include "qb_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "calib/ranges.h"
#include "graph/op.h"

#define RECORDED QB_SOURCE_DIR "/tests/fuzz/corpus/ranges/"

static const qb_named_range *find(const qb_ranges *r, const char *name) {
    for (int32_t i = 0; i < r->n; i++)
        if (strcmp(r->item[i].name, name) == 0) return &r->item[i];
    fail_msg("no range for '%s'", name);
    return NULL;
}

static qb_ranges load(const char *file, const char *format) {
    qb_ctx cx;
    qb_ranges ranges = {0};
    const qb_calib_format *found = NULL;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_ranges_load(&cx, file, &found, &ranges));
    assert_string_equal(found->name, format);
    return ranges;
}

/* The first four are onnxruntime's own; its cache and table keep the largest end, not the largest
 * magnitude, of a range. */
static void files_of_other_tools(void **state) {
    (void)state;
    static const struct {
        const char *file, *format, *name;
        double lo, hi;
        int32_t n;
    } rows[] = {
        {"ort_cache.json", "ort-json", "input", -2, 2.5, 2},
        {"ort_calibration.json", "ort-json", "conv1/relu:0", 0, 7.25, 2},
        {"ort_calibration.cache", "ort-cache", "conv1/relu:0", -7.25, 7.25, 2},
        {"ort_calibration.flatbuffers", "ort-flatbuffers", "input", -2.5, 2.5, 2},
        {"trt.calib", "trt", "input", -0.500122, 0.500122, 4},
        {"trt.calib", "trt", "(Unnamed Layer* 22) [Constant]_output", -0.0983593, 0.0983593, 4},
        {"trt.calib", "trt", "conv1/relu:0", -7.25, 7.25, 4},
        {"ncnn.table", "ncnn", "fc", -2, 2, 2},
        {"ppq.json", "ppq", "input", -2.5, 2.5, 2},
        {"aimet_061.encodings", "aimet", "input", -1, 1.55, 2},
        {"aimet_061.encodings", "aimet", "conv1/relu:0", -1.27, 1.27, 2},
        {"aimet_100.encodings", "aimet", "input", -1, 1.55, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[QB_TEST_PATH];
        snprintf(path, sizeof path, RECORDED "%s", rows[i].file);
        qb_ranges r = load(path, rows[i].format);
        assert_int_equal(r.n, rows[i].n);
        const qb_named_range *range = find(&r, rows[i].name);
        if (fabs(range->lo - rows[i].lo) > 2e-5 || fabs(range->hi - rows[i].hi) > 2e-5)
            fail_msg("%s: %s: %g to %g", rows[i].file, rows[i].name, range->lo, range->hi);
        qb_ranges_release(&r);
    }
}

static qb_ranges sample(qb_ctx *cx) {
    qb_ranges r = {0};
    assert_ok(cx, qb_ranges_add(cx, &r, "relu:0", 6, 0, 6));
    assert_ok(cx, qb_ranges_add(cx, &r, "a b", 3, -5.1, 2.6));
    assert_ok(cx, qb_ranges_add(cx, &r, "dead", 4, 0, 0));
    return r;
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    static const struct {
        const char *format;
        bool symmetric;
        double step; /* of the range's ends */
    } rows[] = {{"trt", true, 1e-6},       {"ort-json", false, 1e-6},
                {"ort-cache", true, 1e-6}, {"ort-flatbuffers", true, 1e-6},
                {"ppq", true, 1e-6},       {"aimet", false, 0.02}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const qb_calib_format *format, *found = NULL;
        qb_ranges r = sample(&cx), again;
        qb_strbuf text = {0};
        assert_ok(&cx, qb_calib_format_find(&cx, rows[i].format, &format));
        assert_ok(&cx, format->write(&cx, &r, NULL, &text));
        assert_ok(&cx, qb_ranges_parse(&cx, "again", text.data, text.size, &found, &again));
        assert_ptr_equal(found, format);
        assert_int_equal(again.n, 3);
        for (int32_t k = 0; k < 3; k++) {
            const qb_named_range *a = &r.item[k], *b = find(&again, a->name);
            const double most = fmax(fabs(a->lo), fabs(a->hi));
            const double lo = rows[i].symmetric ? -most : a->lo;
            const double hi = rows[i].symmetric ? most : a->hi;
            if (strcmp(a->name, "dead") == 0 && strcmp(rows[i].format, "aimet") == 0) continue;
            assert_true(fabs(b->lo - lo) <= rows[i].step && fabs(b->hi - hi) <= rows[i].step);
        }
        qb_strbuf_release(&text);
        qb_ranges_release(&again);
        qb_ranges_release(&r);
    }
}

/* As the model's names are, and no longer than what is read again. */
static void names_are_clean(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const qb_calib_format *format, *json;
    qb_ranges r, again;
    qb_strbuf text = {0};
    char cache[400] = "TRT-8601-MinMaxCalibration\n\x1b[31mx: 3c010a14\n";
    assert_ok(&cx, qb_calib_format_find(&cx, "trt", &format));
    assert_ok(&cx, qb_calib_format_find(&cx, "ort-json", &json));
    assert_ok(&cx, qb_ranges_parse(&cx, "t", cache, strlen(cache), &format, &r));
    assert_string_equal(r.item[0].name, "\\x1b[31mx");
    assert_ok(&cx, json->write(&cx, &r, NULL, &text));
    assert_ok(&cx, qb_ranges_parse(&cx, "again", text.data, text.size, &json, &again));
    assert_string_equal(again.item[0].name, r.item[0].name);
    qb_strbuf_release(&text);
    qb_ranges_release(&again);
    qb_ranges_release(&r);
    char *at = strchr(cache, '\n') + 1;
    memset(at, 0x18, 300);
    strcpy(at + 300, ": 3c010a14\n");
    assert_fails(&cx, qb_ranges_parse(&cx, "t", cache, strlen(cache), &format, &r),
                 QB_STATUS_FORMAT);
    assert_message(&cx, "a name of 1200 bytes, expected 1 to 1024");
}

static void the_scale_of_a_tensorrt_cache(void **state) {
    (void)state;
    qb_ctx cx;
    const qb_calib_format *trt;
    qb_ranges r = {0};
    qb_strbuf text = {0};
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_calib_format_find(&cx, "trt", &trt));
    assert_ok(&cx, qb_ranges_add(&cx, &r, "x", 1, -127, 3));
    assert_ok(&cx, trt->write(&cx, &r, NULL, &text));
    assert_string_equal(text.data, "TRT-101600-EntropyCalibration2\nx: 3f800000\n");
    qb_strbuf_release(&text);
    qb_ranges_release(&r);
}

static void what_is_wrong_is_said_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *format, *text, *says;
    } rows[] = {
        {"trt", "nonsense\n", "line 1"},
        {"trt", "TRT-1-A\nx 3f800000\n", "line 2"},
        {"trt", "TRT-1-A\n\nx: 3f8000000\n", "line 3"},
        {"trt", "TRT-1-A\nx: 7f800000\n", "scale is inf"},
        {"trt", "TRT-1-A\nx: bf800000\n", "scale is -1"},
        {"trt", "TRT-1-A\n: 3f800000\n", "name"},
        {"trt", "TRT-1-A\n", "no ranges"},
        {"ort-cache", "x one\n", "line 1"},
        {"ort-cache", "x 1\ny nan\n", "line 2"},
        {"ort-json", "{\"x\": {\"CLS\": \"TensorData\", \"lowest\": 1}}", "'x'"},
        {"ort-json", "[1]", "JSON object"},
        {"ort-json", "{\"x\": ", "line 1"},
        {"ort-json", "{\"x\": {\"lowest\": 3, \"highest\": 1}}", "range 3 to 1"},
        {"ppq", "{\"act_quant_info\": {\"x\": -1}}", "not negative"},
        {"ppq", "{\"act_quant_info\": 3}", "act_quant_info"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 40}]}}", "bit width"},
        {"aimet", "{\"activation_encodings\": {\"x\": []}}", "list of one"},
        {"ort-json", "{\"x\": {\"CLS\": \"TensorData\", \"lowest\": [1, 2], \"highest\": 3}}",
         "'x': expected numbers"},
        {"ort-json", "{\"x\": {\"lowest\": [[[[[1]]]]], \"highest\": 3}}", "'x': expected numbers"},
        {"ort-json", "{\"CLS\": \"TensorsData\", \"data\": {\"x\": 5}}", "'x': expected numbers"},
        {"ort-json", "{\"CLS\": \"TensorsData\"}", "no ranges"},
        {"ort-json", "{\"CLS\": \"Tensors\", \"x\": 1}", "'CLS': expected numbers"},
        {"ppq", "{\"act_quant_info\": {\"x\": \"1\"}}", "not negative"},
        {"ppq", "{\"act_quant_info\": {\"x\": [1]}}", "not negative"},
        {"ppq", "{\"act_quant_info\": {}}", "no ranges"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 1}]}}", "bit width"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 7.5}]}}", "bit width"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bw\": \"8\"}]}}", "bit width"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": [8, 8]}]}}", "bit width"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 8}]}}", "expected one scale"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 8, \"scale\": -1}]}}",
         "expected one scale"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 8, \"scale\": [1, 2]}]}}",
         "expected one scale"},
        {"aimet",
         "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 8, \"scale\": 1, \"offset\": "
         "\"0\"}]}}",
         "expected one offset"},
        {"aimet",
         "{\"activation_encodings\": {\"x\": [{\"bitwidth\": 8, \"scale\": 1e308, \"offset\": "
         "0}]}}",
         "range"},
        {"aimet", "{\"activation_encodings\": [{\"bw\": 8}]}",
         "activation_encodings[0]: expected a name"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{\"dtype\": \"FLOAT\"}]}}", "no ranges"},
        {"aimet", "{\"activation_encodings\": {\"x\": [{}, {}]}}", "list of one"},
        {"trt", "TRT-1-A\nx:\n", "line 2"},
        {"trt", "TRT-1-A\nx: 3f80000g\n", "line 2"},
        {"trt", "TRT-1-A\nx: 7fc00000\n", "scale is nan"},
        {"ort-cache", "\n\nx 1e\n", "line 3"},
        {"ort-cache", "x -1\n", "line 1"},
        {"ncnn", "c_param_0 1 \nc 0 \n", "line 2"},
        {"ncnn", "c_param_0 1 \nc nan \n", "line 2"},
        {"ncnn", "#c_param_0 1 \nc 2 \n", "no ranges"},
        {"trt", "TRT-1-A\nx: 3f800000\ny: 3f800000\n\nx: 40000000\n",
         "'x' is there twice: with the scale 1 (range -127 to 127) in line 2, and 2 (-254 to 254) "
         "in "
         "line 5"},
        {"ort-cache", "x 1\nx 2\n", "in line 1, and"},
        {"ncnn", "c_param_0 1 \nc 127 \nc 63.5 \n", "(-2 to 2) in line 3"},
        {"ort-flatbuffers", "\x04\0\0", "FlatBuffers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_ctx cx;
        qb_ranges r;
        const qb_calib_format *format;
        qb_ctx_init(&cx);
        assert_ok(&cx, qb_calib_format_find(&cx, rows[i].format, &format));
        if (qb_ranges_parse(&cx, "bad", rows[i].text, strlen(rows[i].text), &format, &r) !=
            QB_STATUS_FORMAT)
            fail_msg("row %zu: %s: %s", i, rows[i].text, cx.message);
        if (!strstr(cx.message, rows[i].says) || !strstr(cx.message, "bad"))
            fail_msg("'%s' lacks '%s'", cx.message, rows[i].says);
    }
    qb_ctx cx;
    qb_ranges r;
    const qb_calib_format *none = NULL;
    qb_ctx_init(&cx);
    assert_int_equal(qb_ranges_parse(&cx, "bad", "?", 1, &none, &r), QB_STATUS_FORMAT);
    assert_int_equal(qb_calib_format_find(&cx, "tflite", &none), QB_STATUS_USAGE);
}

/* Each prefix of a FlatBuffers cache, and each byte of it changed, is read or refused with the
 * file's name. */
static void flatbuffers_that_lie(void **state) {
    (void)state;
    char path[QB_TEST_PATH];
    qb_ctx cx;
    qb_map map;
    const qb_calib_format *format;
    snprintf(path, sizeof path, RECORDED "ort_calibration.flatbuffers");
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_map_open(&cx, path, &map));
    assert_ok(&cx, qb_calib_format_find(&cx, "ort-flatbuffers", &format));
    char *bytes = malloc(map.size);
    int32_t refused = 0;
    assert_non_null(bytes);
    for (size_t i = 0; i < 4 * map.size; i++) {
        const uint8_t values[] = {0, 1, 0x7f, 0xff};
        const size_t at = i / 4, n = i % 4 == 0 ? at : map.size;
        qb_ranges r = {0};
        memcpy(bytes, map.data, map.size);
        bytes[at] = (char)values[i % 4];
        if (qb_ranges_parse(&cx, "bad", bytes, n, &format, &r) == QB_OK) {
            qb_ranges_release(&r);
            continue;
        }
        refused++;
        assert_non_null(strstr(cx.message, "bad"));
        qb_ctx_clear(&cx);
    }
    assert_true(refused > (int32_t)map.size);
    free(bytes);
    qb_map_close(&map);
}

/* The same range again contradicts nothing. */
static void a_repeated_line_is_no_contradiction(void **state) {
    (void)state;
    static const char text[] = "TRT-1-A\nx: 3f800000\nx: 3F800000\n";
    qb_ctx cx;
    qb_ranges r;
    const qb_calib_format *format = NULL;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_ranges_parse(&cx, "twice", text, strlen(text), &format, &r));
    assert_int_equal(r.n, 2);
    qb_ranges_release(&r);
}

/* A table as ncnn2table prints it (numbers by "%f ", a blank at each end): all weights, then what
 * all layers read, then weights of embedding and attention layers, which have no range of their
 * input. `dead` reads zeros only; `float1` and `float2` were commented out by a person. */
static void an_ncnn_table_with_all_it_may_hold(void **state) {
    (void)state;
    static const char text[] = "conv1_param_0 131.352173 inf 97.130001 \n"
                               "dead_param_0 6.250000 \n"
                               "#float1_param_0 31.500000 \n"
                               "float2_param_0 31.500000 \n"
                               "conv1 0.841235 \n"
                               "dead inf \n"
                               "float1 63.500000 \n"
                               "#float2 63.500000 \n"
                               "words_param_0 12.000000 \n"
                               "mha_param_0 1.000000 2.000000 \n"
                               "mha_param_1 1.000000 2.000000 \n"
                               "mha_param_2 1.000000 2.000000 \n"
                               "mha_param_3 1.000000 \n";
    qb_ctx cx;
    qb_ranges r;
    const qb_calib_format *format = NULL;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_ranges_parse(&cx, "t.table", text, strlen(text), &format, &r));
    assert_string_equal(format->name, "ncnn");
    assert_int_equal(r.n, 2);
    assert_string_equal(r.item[0].name, "conv1");
    assert_true(fabs(r.item[0].hi - 127 / 0.841235) < 1e-9 && r.item[0].lo == -r.item[0].hi);
    assert_string_equal(r.item[1].name, "dead");
    assert_true(r.item[1].lo == 0 && r.item[1].hi == 0);
    qb_ranges_release(&r);
}

/* x -> conv1 (3x3) -> a -> fc (1x1) -> y */
static qb_graph *network(qb_ctx *cx) {
    static const float w1[18] = {2, 0, 0, 0, 0, 0, 0, 0, 0, -0.5f}, w2[2] = {0.25f, -1};
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    const qb_shape x = qb_shape_of(4, 1, 1, 4, 4), unknown = {.rank = -1};
    const qb_shape s1 = qb_shape_of(4, 2, 1, 3, 3), s2 = qb_shape_of(4, 1, 2, 1, 1);
    int32_t v[5] = {qb_graph_add_value(cx, graph, "x", QB_DTYPE_F32, &x),
                    qb_graph_add_constant(cx, graph, "w1", QB_DTYPE_F32, &s1, w1),
                    qb_graph_add_value(cx, graph, "a", QB_DTYPE_NONE, &unknown),
                    qb_graph_add_constant(cx, graph, "w2", QB_DTYPE_F32, &s2, w2),
                    qb_graph_add_value(cx, graph, "y", QB_DTYPE_NONE, &unknown)};
    const qb_op *conv = qb_op_find("Conv", "");
    assert_ok(cx, qb_graph_add_input(cx, graph, v[0]));
    assert_true(qb_graph_add_node(cx, graph, conv, "conv1", v, 2, &v[2], 1) >= 0);
    assert_true(qb_graph_add_node(cx, graph, conv, "fc", &v[2], 2, &v[4], 1) >= 0);
    assert_ok(cx, qb_graph_add_output(cx, graph, v[4]));
    assert_ok(cx, qb_graph_infer(cx, graph));
    return graph;
}

static void ncnn_tables_are_by_layer(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = network(&cx);
    const qb_calib_format *ncnn;
    qb_ranges r = {0}, again;
    qb_ranges_fit fit;
    qb_table *table;
    qb_strbuf text = {0};
    assert_ok(&cx, qb_calib_format_find(&cx, "ncnn", &ncnn));
    assert_ok(&cx, qb_ranges_add(&cx, &r, "x", 1, -1, 0.5));
    assert_ok(&cx, qb_ranges_add(&cx, &r, "a", 1, 0, 2));
    assert_ok(&cx, ncnn->write(&cx, &r, graph, &text));
    assert_string_equal(text.data, "conv1_param_0 15.500000 62.000000 \n" /* 31 / 2, 31 / 0.5 */
                                   "fc_param_0 127.000000 \n"
                                   "conv1 127.000000 \n"
                                   "fc 63.500000 \n");
    assert_ok(&cx, qb_ranges_parse(&cx, "t.table", text.data, text.size, &ncnn, &again));
    assert_ok(&cx, qb_ranges_to_table(&cx, &again, ncnn, "t.table", graph, &table, &fit));
    assert_int_equal(fit.used, 2);
    assert_int_equal(fit.n_missing + fit.n_extra, 0);
    assert_string_equal(table->method[0], "import:ncnn");
    const qb_range *a = qb_table_find(table, "a")->range;
    assert_true(fabs((double)a->hi - 2) < 1e-6 && a->lo == -a->hi);
    qb_ranges_fit_release(&fit);
    qb_table_free(table);
    qb_strbuf_release(&text);
    qb_ranges_release(&again);
    qb_ranges_release(&r);
    qb_graph_free(graph);
}

static void names_that_do_not_fit_are_listed(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = network(&cx);
    const qb_calib_format *trt;
    qb_ranges r = {0};
    qb_ranges_fit fit;
    qb_table *table = NULL;
    assert_ok(&cx, qb_calib_format_find(&cx, "trt", &trt));
    assert_ok(&cx, qb_ranges_add(&cx, &r, "bn1", 3, -1, 1));
    assert_int_equal(qb_ranges_to_table(&cx, &r, trt, "old.calib", graph, &table, &fit),
                     QB_STATUS_MISMATCH);
    assert_non_null(strstr(cx.message, "old.calib"));
    assert_null(table);
    assert_ok(&cx, qb_ranges_add(&cx, &r, "x", 1, -1, 1));
    assert_ok(&cx, qb_ranges_add(&cx, &r, "w1", 2, -1, 1)); /* a constant has no range to take */
    assert_ok(&cx, qb_ranges_to_table(&cx, &r, trt, "old.calib", graph, &table, &fit));
    assert_int_equal(fit.used, 1);
    assert_int_equal(fit.n_missing, 1);
    assert_string_equal(fit.missing[0], "a");
    assert_int_equal(fit.n_extra, 2);
    assert_string_equal(fit.extra[1], "w1");

    /* Without statistics it can be stored, but no other method chosen. */
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.calib.h5");
    qb_table *again;
    assert_ok(&cx, qb_table_save(&cx, table, path));
    assert_ok(&cx, qb_table_load(&cx, path, &again));
    assert_int_equal(again->entry[0].stats->count, 0);
    assert_true(again->entry[0].range[0].hi == 1);

    /* An engine of f16 learns what the range allows, or what was seen. */
    const qb_value *x = &graph->values[graph->inputs[0]];
    qb_table_note_largest(again, graph);
    assert_true(x->largest == 1 && graph->values[qb_graph_find_value(graph, "a")].largest == 0);
    *again->entry[0].stats = (qb_stats){.count = 1, .min = -3, .max = 2};
    qb_table_note_largest(again, graph);
    assert_true(x->largest == 3);
    qb_table_free(again);
    qb_table_free(table);
    qb_ranges_fit_release(&fit);
    qb_ranges_release(&r);
    qb_graph_free(graph);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_of_other_tools),
    cmocka_unit_test(what_is_written_reads_back),
    cmocka_unit_test(names_are_clean),
    cmocka_unit_test(the_scale_of_a_tensorrt_cache),
    cmocka_unit_test(what_is_wrong_is_said_with_its_place),
    cmocka_unit_test(flatbuffers_that_lie),
    cmocka_unit_test(a_repeated_line_is_no_contradiction),
    cmocka_unit_test(an_ncnn_table_with_all_it_may_hold),
    cmocka_unit_test(ncnn_tables_are_by_layer),
    cmocka_unit_test(names_that_do_not_fit_are_listed),
};

QB_TEST_MAIN(tests)

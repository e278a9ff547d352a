/* What engine files have of a build: plans as JSON, and what was compiled for a device. */
#include <string.h>

#include "engine/file/file_internal.h"
#include "engine/plan/plan_internal.h"
#include "qb_test.h"

/* ---- plans ---- */

static const char *const names[] = {"x", "y"};

/* Two inputs, a row for a convolution with its pool, and one for a copy. */
static qb_plan *make(qb_ctx *cx, int32_t n_profiles) {
    const qb_shape shapes[2] = {qb_shape_of(4, 1, 3, 8, 8), qb_shape_of(0)};
    const qb_profile profiles[2] = {{shapes, shapes, shapes}, {shapes, shapes, shapes}};
    const qb_build_spec spec = {.backends = "cuda,cpu,ref",
                                .float_type = QB_DTYPE_F16,
                                .excluded_sources = 1,
                                .workspace_limit = 1 << 20,
                                .threads = 2,
                                .input_shapes = shapes,
                                .profiles = profiles,
                                .n_profiles = n_profiles};
    const qb_plan_layout in[3] = {{QB_DTYPE_U8, QB_LAYOUT_NHWC, 0, 0},
                                  {QB_DTYPE_S8, QB_LAYOUT_ROW, 0, 0},
                                  {.dtype = QB_DTYPE_NONE}};
    const qb_step_alternative all[2] = {{"cuda.a", 1.25e-6, 3, true}, {"cuda.b", 2e-6, 0, false}};
    const qb_plan_row conv = {.value = "c",
                              .op = "Conv+Relu+MaxPool",
                              .tactic = "cuda.a",
                              .variant = 3,
                              .on_device = true,
                              .precision = QB_DTYPE_S8,
                              .n_in = 3,
                              .in = in,
                              .out = {QB_DTYPE_U8, QB_LAYOUT_NHWC, 16, 64},
                              .fuses = "b",
                              .seconds = 1.25e-6,
                              .n_alternatives = 2,
                              .alternatives = all,
                              .fuse_reason = "faster",
                              .note = "C=3: no tile"};
    const qb_plan_row copy = {.value = "c",
                              .op = "reorder",
                              .tactic = "cuda.copy",
                              .is_copy = true,
                              .on_device = true,
                              .precision = QB_DTYPE_U8,
                              .n_in = 1,
                              .in = in,
                              .out = {QB_DTYPE_U8, QB_LAYOUT_ROW, 0, 0}};
    qb_plan *plan;
    assert_ok(cx, qb_plan_create(cx, &spec, 2, &plan));
    plan->n_tables = n_profiles > 0 ? n_profiles : 1;
    for (int32_t t = 0; t < plan->n_tables; t++) {
        assert_ok(cx, qb_plan_add(cx, plan, &plan->table[t], &conv, NULL));
        assert_ok(cx, qb_plan_add(cx, plan, &plan->table[t], &copy, NULL));
    }
    return plan;
}

static void a_plan_reads_as_it_was_written(void **state) {
    (void)state;
    for (int32_t n = 0; n <= 2; n++) {
        qb_ctx cx;
        qb_plan *read;
        qb_strbuf text = {0}, again = {0};
        qb_ctx_init(&cx);
        qb_plan *plan = make(&cx, n);
        assert_ok(&cx, qb_plan_write(&cx, plan, names, &text));
        assert_ok(&cx, qb_plan_read(&cx, "p.json", text.data, text.size, &read));
        assert_ok(&cx, qb_plan_write(&cx, read, names, &again));
        assert_string_equal(again.data, text.data);
        assert_int_equal(read->spec.n_profiles, n);
        const qb_plan_row *row = &read->table[0].rows[0];
        assert_int_equal(row->in[2].dtype, QB_DTYPE_NONE);
        assert_int_equal(row->out.channel_offset, 16);
        assert_int_equal(row->out.channel_total, 64);
        assert_true(row->seconds == 1.25 * 1e-6);
        assert_string_equal(row->fuses, "b");
        assert_true(row->alternatives[0].same_layouts);
        assert_int_equal(row->alternatives[0].variant, 3);
        assert_string_equal(row->note, "C=3: no tile");
        assert_null(row->f16_reason);
        qb_plan_free(plan);
        qb_plan_free(read);
        qb_strbuf_release(&text);
        qb_strbuf_release(&again);
    }
}

static void rows_are_found_by_name(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_plan *plan = make(&cx, 0);
    const qb_plan_table *table = &plan->table[0];
    qb_plan_row like = table->rows[1];
    assert_int_equal(qb_plan_find(table, "c"), 0); /* the other is of a copy */
    assert_int_equal(qb_plan_find(table, "b"), -1);
    assert_int_equal(qb_plan_find_fused(table, "b"), 0);
    assert_int_equal(qb_plan_find_copy(table, &like), 1);
    like.out.layout = QB_LAYOUT_NHWC;
    assert_int_equal(qb_plan_find_copy(table, &like), -1);
    qb_plan_free(plan);
}

/* Each slip of a hand names its row. */
static void slips_are_named(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *message;
    } slips[] = {
        {"\"u8:nhwc@16/64\"", "\"u8:nchw\"", "row 'c': 'u8:nchw' is no layout"},
        {"\"u8:nhwc@16/64\"", "\"u8:nhwc@64/16\"", "is no slice of channels"},
        {"\"u8:nhwc@16/64\"", "\"q8:nhwc\"", "row 'c': 'q8' is no type"},
        {"\"space\": \"device\"", "\"space\": \"gpu\"",
         "row 'c': 'space': expected host or device"},
        {"\"tactic\": \"cuda.a\"", "\"tactics\": \"cuda.a\"", "row 'c': unknown key 'tactics'"},
        {"\"copy\": true", "\"copies\": true", "row 'c': "},
        {"\"threads\": 2", "\"threads\": 0", "threads: expected 1 to 4096"},
        {"\"f16\"", "\"u8\"", "float type u8"},
        {"\"op\": ", "\"tactic_reason\": ", "row 'c': 'op' is missing"},
        {"\"parts\": 1", "\"parts\": 0", "2 rows in 0 parts"},
        {"qbench.plan/1", "qbench.plan/9", "expected 'qbench.plan/1'"},
        {"\"rows\": [", "\"rows\": [,", "p.json: plan: line "}};
    qb_ctx cx;
    qb_strbuf text = {0};
    char *indented;
    qb_ctx_init(&cx);
    qb_plan *plan = make(&cx, 0), *read = NULL;
    assert_ok(&cx, qb_plan_write(&cx, plan, names, &text));
    assert_ok(&cx, qb_plan_indent(&cx, "p.json", text.data, text.size, &indented));
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        const char *at = strstr(indented, slips[i].from);
        qb_strbuf changed = {0};
        assert_non_null(at);
        qb_strbuf_addn(&changed, indented, (size_t)(at - indented));
        qb_strbuf_add(&changed, slips[i].to);
        qb_strbuf_add(&changed, at + strlen(slips[i].from));
        assert_fails(&cx, qb_plan_read(&cx, "p.json", changed.data, changed.size, &read),
                     QB_STATUS_FORMAT);
        assert_message(&cx, slips[i].message);
        assert_null(read);
        qb_ctx_clear(&cx);
        qb_strbuf_release(&changed);
    }
    for (size_t n = 0; n < text.size; n++) {
        assert_fails(&cx, qb_plan_read(&cx, "p.json", text.data, n, &read), QB_STATUS_FORMAT);
        qb_ctx_clear(&cx);
    }
    qb_plan_free(plan);
    qb_free(indented);
    qb_strbuf_release(&text);
}

/* ---- what was compiled ---- */

static void put(qb_strbuf *out, int i, uint32_t size, const char *data) {
    const qb_hash key = i < 0 ? (qb_hash){{0}} : qb_hash_bytes(&i, sizeof i);
    qb_strbuf_addn(out, (const char *)&key, sizeof key);
    qb_strbuf_addn(out, (const char *)&size, sizeof size);
    qb_strbuf_add(out, data);
}

static void compiled_kernels_are_lent_from_the_file(void **state) {
    (void)state;
    qb_ctx cx;
    qb_strbuf bytes = {0}, again = {0};
    qb_compiled *compiled;
    size_t size = 0;
    qb_hash key;
    qb_ctx_init(&cx);
    put(&bytes, 0, 3, "abc");
    put(&bytes, 1, 3, "def");
    assert_ok(&cx, qb_file_compiled_get(&cx, "x.qbe", bytes.data, bytes.size, &compiled));
    assert_int_equal(qb_compiled_count(compiled), 2);
    const char *second = qb_compiled_entry(compiled, 1, &key, &size);
    assert_ptr_equal(second, bytes.data + bytes.size - 3);
    assert_int_equal(size, 3);
    assert_memory_equal(second, "def", 3);
    qb_file_compiled_put(compiled, &again);
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.data, bytes.data, bytes.size);
    qb_compiled_free(compiled);
    qb_strbuf_release(&bytes);
    qb_strbuf_release(&again);
}

static void refuse(qb_ctx *cx, const qb_strbuf *bytes, size_t size) {
    qb_compiled *compiled = NULL;
    assert_fails(cx, qb_file_compiled_get(cx, "x.qbe", bytes->data, size, &compiled),
                 QB_STATUS_FORMAT);
    assert_message(cx, "x.qbe: damaged engine file: a compiled kernel");
    assert_null(compiled);
    qb_ctx_clear(cx);
}

static void wrong_sizes_are_refused(void **state) {
    (void)state;
    const uint32_t sizes[] = {UINT32_MAX, QB_FILE_COMPILED_MAX + 1, 4};
    qb_ctx cx;
    qb_strbuf bytes = {0};
    qb_ctx_init(&cx);
    put(&bytes, 0, 3, "abc");
    for (size_t n = 1; n < bytes.size; n++) refuse(&cx, &bytes, n);
    qb_strbuf_release(&bytes);
    for (size_t i = 0; i < 3; i++) {
        put(&bytes, 0, sizes[i], "abc");
        refuse(&cx, &bytes, bytes.size);
        qb_strbuf_release(&bytes);
    }
    put(&bytes, -1, 3, "abc"); /* no hash */
    refuse(&cx, &bytes, bytes.size);
    qb_strbuf_release(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_reads_as_it_was_written),
        cmocka_unit_test(rows_are_found_by_name),
        cmocka_unit_test(slips_are_named),
        cmocka_unit_test(compiled_kernels_are_lent_from_the_file),
        cmocka_unit_test(wrong_sizes_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

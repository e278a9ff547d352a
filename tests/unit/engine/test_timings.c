/* The timing cache: entries come back from the file, other devices' sections stay, damage is named.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "engine/timings.h"
#include "qb_test.h"

#define HERE "GPU A, driver 1.0"
#define FILE_TEXT                                                                                  \
    "qbench timings 1\n"                                                                           \
    "device GPU B, driver 2.0\n"                                                                   \
    "9.000\tcuda.x\tconv;1\n"                                                                      \
    "device GPU A, driver 1.0\n"                                                                   \
    "12.250\tcuda.x\tconv;1\n"                                                                     \
    "-\tcuda.y\tconv;1\n"                                                                          \
    "7.125\tcuda.lt\tconv;1\t3\n"                                                                  \
    "compiled\t00112233445566778899aabbccddeeff\t8f1c29f50aa952dbd475f930065b4b4f\t{\"a\": 1}\n"

static void entries_of_this_device_alone_are_found(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_timings *t;
    qb_timing timing = {0};
    assert_ok(&cx, qb_timings_parse(&cx, "f", FILE_TEXT, HERE, &t));
    assert_true(qb_timings_find(t, "cuda.x", "conv;1", &timing));
    assert_true(timing.seconds > 12.2499e-6 && timing.seconds < 12.2501e-6);
    assert_int_equal(timing.variant, 0);
    assert_true(qb_timings_find(t, "cuda.y", "conv;1", &timing));
    assert_true(timing.seconds < 0);
    assert_true(qb_timings_find(t, "cuda.lt", "conv;1", &timing));
    assert_int_equal(timing.variant, 3);
    assert_false(qb_timings_find(t, "cuda.x", "conv;2", &timing));
    qb_hash key;
    size_t bytes = 0;
    assert_true(qb_hash_parse("00112233445566778899aabbccddeeff", &key));
    assert_memory_equal(qb_compiled_find(qb_timings_compiled(t), key, &bytes), "{\"a\": 1}", 8);
    assert_int_equal(bytes, 8);
    qb_timings_free(t);
    assert_ok(&cx, qb_timings_parse(&cx, "f", FILE_TEXT, "GPU C", &t));
    assert_false(qb_timings_find(t, "cuda.x", "conv;1", &timing));
    qb_timings_free(t);
}

/* What is found out later takes the place of what was known, in the file, too. */
static void entries_change(void **state) {
    (void)state;
    qb_ctx cx;
    qb_timings *t;
    qb_timing timing = {.seconds = -1};
    char *text;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_timings_parse(&cx, "f", FILE_TEXT, HERE, &t));
    assert_true(qb_timings_have(t, "cuda.y") && !qb_timings_have(t, "cuda.z"));
    assert_ok(&cx, qb_timings_add(&cx, t, "cuda.x", "conv;1", &timing));
    assert_true(qb_timings_find(t, "cuda.x", "conv;1", &timing) && timing.seconds < 0);
    assert_ok(&cx, qb_timings_text(&cx, t, &text));
    assert_non_null(strstr(text, "\n-\tcuda.x\tconv;1\n"));
    assert_null(strstr(text, "12.250"));
    qb_free(text);
    qb_timings_free(t);
}

static void text_keeps_other_devices_as_they_were(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_timings *t;
    qb_timing timing = {.seconds = 3.00049e-6, .variant = 2};
    char *text;
    assert_ok(&cx, qb_timings_parse(&cx, "f", FILE_TEXT, HERE, &t));
    assert_ok(&cx, qb_timings_text(&cx, t, &text));
    assert_string_equal(text, FILE_TEXT);
    qb_free(text);
    qb_timings_free(t);
    assert_ok(&cx, qb_timings_parse(&cx, "f", FILE_TEXT, "GPU C", &t));
    assert_ok(&cx, qb_timings_add(&cx, t, "cuda.z", "pool;1", &timing));
    assert_ok(&cx, qb_timings_text(&cx, t, &text));
    assert_string_equal(text, FILE_TEXT "device GPU C\n3.000\tcuda.z\tpool;1\t2\n");
    assert_true(timing.seconds > 2.99999e-6 && timing.seconds < 3.00001e-6); /* as it is there */
    qb_free(text);
    qb_timings_free(t);
}

static void files_are_written_when_something_is_new(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_timings *t;
    qb_timing timing = {0};
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "timing.cache");
    assert_ok(&cx, qb_timings_load(&cx, path, HERE, &t)); /* absent: empty */
    assert_ok(&cx, qb_timings_save(&cx, t, path));
    assert_false(qb_path_exists(path));
    timing.seconds = 5e-6;
    assert_ok(&cx, qb_timings_add(&cx, t, "cuda.x", "conv;1", &timing));
    assert_ok(&cx, qb_timings_save(&cx, t, path));
    qb_timings_free(t);
    assert_ok(&cx, qb_timings_load(&cx, path, HERE, &t));
    assert_true(qb_timings_find(t, "cuda.x", "conv;1", &timing));
    qb_timings_free(t);
}

static void damage_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"something else\n", "f: line 1: expected 'qbench timings 1'"},
        {"qbench timings 1\n1\ta\tb\n", "f: line 2: expected 'device NAME'"},
        {"qbench timings 1\ndevice " HERE "\n1\ta\n", "line 3: expected a time, a tactic"},
        {"qbench timings 1\ndevice " HERE "\n1\t\tb\n", "line 3: expected a time, a tactic"},
        {"qbench timings 1\ndevice " HERE "\n1\ta\t\t3\n", "line 3: expected a time, a tactic"},
        {"qbench timings 1\ndevice " HERE "\n1\ta\tb\tc\n", "line 3: expected the number of an"},
        {"qbench timings 1\ndevice " HERE "\n1\ta\tb\t0\n", "line 3: expected the number of an"},
        {"qbench timings 1\ndevice " HERE "\n1\ta\tb\t1\t2\n", "line 3: expected the number"},
        {"qbench timings 1\ndevice " HERE "\nx\ta\tb\n", "line 3: expected microseconds or '-'"},
        {"qbench timings 1\ndevice " HERE "\n-1\ta\tb\n", "line 3: expected microseconds or '-'"},
        {"qbench timings 1\ndevice " HERE "\nnan\ta\tb\n", "line 3: expected microseconds or '-'"},
        {"qbench timings 1\ndevice " HERE "\ncompiled\t12\tx\n", "line 3: expected a hash, a tab"},
        {"qbench timings 1\ndevice " HERE "\ncompiled\t\n", "line 3: expected a hash, a tab"},
        {"qbench timings 1\ndevice " HERE "\n1e999\ta\tb\n", "line 3: expected microseconds"},
        {"qbench timings 1\ndevice " HERE "\n1e10\ta\tb\n", "line 3: expected microseconds"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_timings *t = NULL;
        assert_fails(&cx, qb_timings_parse(&cx, "f", cases[i].text, HERE, &t), QB_STATUS_FORMAT);
        assert_message(&cx, cases[i].message);
        assert_null(t);
        qb_ctx_clear(&cx);
    }
}

/* Each entry is looked for among those before it: one after the other took minutes here, which the
 * limit of processor time ends. */
static void long_files_are_read(void **state) {
    (void)state;
    enum { ENTRIES = 300000, SECONDS = 30 };
    qb_ctx cx;
    qb_ctx_init(&cx);
    QB_RELEASED(qb_strbuf_release) qb_strbuf buf = {0};
    qb_strbuf_add(&buf, "qbench timings 1\ndevice " HERE "\n");
    for (int32_t i = 0; i < ENTRIES; i++) {
        char hex[33], check[33], text[16];
        snprintf(text, sizeof text, "%d", i);
        qb_hash_hex(qb_hash_bytes(&i, sizeof i), hex);
        qb_hash_hex(qb_hash_bytes(text, strlen(text)), check);
        qb_strbuf_addf(&buf, "1.000\tcuda.x\tconv;%d\n", i);
        qb_strbuf_addf(&buf, "compiled\t%s\t%s\t%s\n", hex, check, text);
    }
    assert_false(buf.failed);
    struct rlimit before;
    struct rusage used;
    getrlimit(RLIMIT_CPU, &before);
    getrusage(RUSAGE_SELF, &used);
    const rlim_t spent = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
    assert_int_equal(setrlimit(RLIMIT_CPU, &(struct rlimit){spent + SECONDS, before.rlim_max}), 0);
    qb_timings *t;
    assert_ok(&cx, qb_timings_parse(&cx, "f", buf.data, HERE, &t));
    setrlimit(RLIMIT_CPU, &before);
    qb_timing timing;
    assert_true(qb_timings_find(t, "cuda.x", "conv;299999", &timing));
    assert_false(qb_timings_find(t, "cuda.x", "conv;300000", &timing));
    assert_int_equal(qb_compiled_count(qb_timings_compiled(t)), ENTRIES);
    qb_timings_free(t);
}

/* Of what was compiled, as nobody can say which part is damaged: it is compiled anew. */
static void a_damaged_text_is_left_out(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char text[] = FILE_TEXT, *at = strstr(text, "{\"a\"");
    qb_timings *t;
    for (int bit = 0; bit < 8 * 8; bit++) {
        at[bit / 8] ^= (char)(1 << bit % 8);
        if (at[bit / 8] && at[bit / 8] != '\n') {
            assert_ok(&cx, qb_timings_parse(&cx, "f", text, HERE, &t));
            assert_int_equal(qb_compiled_count(qb_timings_compiled(t)), 0);
            qb_timings_free(t);
        }
        at[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_ok(&cx, qb_timings_parse(&cx, "f",
                                    "qbench timings 1\ndevice " HERE "\ncompiled\t"
                                    "00112233445566778899aabbccddeeff\t{\"a\": 1}\n",
                                    HERE, &t)); /* written without the second hash */
    assert_int_equal(qb_compiled_count(qb_timings_compiled(t)), 0);
    qb_timings_free(t);
}

/* What changes the time changes the key; scales do not. */
static void keys_tell_problems_apart(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const float scale = 0.5f, other_scale = 0.25f;
    const int32_t zero = 0, other_zero = 3;
    qb_desc in = {.dtype = QB_DTYPE_U8,
                  .layout = QB_LAYOUT_NHWC,
                  .shape = qb_shape_of(4, 1, 16, 8, 8),
                  .q = {.dtype = QB_DTYPE_U8, .axis = -1, .n = 1, .scale = &scale, .zero = &zero}};
    qb_problem p = {.kind = QB_KIND_COPY, .n_in = 1, .in = &in, .out = in};
    const bool constant = false;
    char *key, *same, *zeroed, *sliced;
    assert_ok(&cx, qb_problem_key(&cx, &p, &constant, &key));
    in.q.scale = &other_scale;
    assert_ok(&cx, qb_problem_key(&cx, &p, &constant, &same));
    in.q.zero = &other_zero;
    assert_ok(&cx, qb_problem_key(&cx, &p, &constant, &zeroed));
    in.channel_total = 32;
    assert_ok(&cx, qb_problem_key(&cx, &p, &constant, &sliced));
    assert_string_equal(key, same);
    assert_string_not_equal(key, zeroed);
    assert_string_not_equal(zeroed, sliced);
    assert_null(strpbrk(sliced, " \t\n"));
    qb_free(key);
    qb_free(same);
    qb_free(zeroed);
    qb_free(sliced);
}

static qb_status sweep_body(qb_ctx *cx, void *user) {
    (void)user;
    qb_timings *t = NULL;
    qb_status status = qb_timings_parse(cx, "f", FILE_TEXT, HERE, &t);
    qb_timing timing = {.seconds = 1e-6};
    if (status == QB_OK) status = qb_timings_add(cx, t, "cuda.z", "pool;1", &timing);
    qb_timings_free(t);
    return status;
}

static void failing_allocations_leak_nothing(void **state) {
    (void)state;
    assert_true(qb_test_alloc_sweep(sweep_body, NULL) > 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(entries_of_this_device_alone_are_found),
    cmocka_unit_test(entries_change),
    cmocka_unit_test(text_keeps_other_devices_as_they_were),
    cmocka_unit_test(files_are_written_when_something_is_new),
    cmocka_unit_test(long_files_are_read),
    cmocka_unit_test(damage_is_named_with_its_line),
    cmocka_unit_test(a_damaged_text_is_left_out),
    cmocka_unit_test(keys_tell_problems_apart),
    cmocka_unit_test(failing_allocations_leak_nothing),
};
QB_TEST_MAIN(tests)

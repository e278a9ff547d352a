/* Engine files: what is loaded runs as what was saved, and nothing damaged is loaded. */
#include "small_engine.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/file/file_internal.h"

static void save(small_engine *f, const char *path) {
    const qb_engine_origin origin = {
        .model = "small.onnx", .precision = "fp32", .options = "--batch 2"};
    assert_ok(&f->cx, qb_engine_save(&f->cx, f->engine, &origin, path));
}

static void run(small_engine *f, const qb_engine *engine, float y[SMALL_OUTPUTS]) {
    float x[SMALL_INPUTS];
    small_engine_input(3, x);
    const void *inputs[] = {x};
    void *outputs[] = {y};
    qb_context *context;
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_run(&f->cx, context, inputs, outputs));
    qb_context_free(context);
}

static void a_loaded_engine_runs_as_the_saved_one(void **state) {
    (void)state;
    static const char *const backends[] = {NULL, "ref", "cpu,ref"};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        small_engine f;
        qb_engine *loaded;
        float saved_y[SMALL_OUTPUTS], loaded_y[SMALL_OUTPUTS];
        small_engine_make(&f, backends[i]);
        save(&f, f.path);
        assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
        run(&f, f.engine, saved_y);
        run(&f, loaded, loaded_y);
        assert_memory_equal(saved_y, loaded_y, sizeof saved_y);
        assert_int_equal(qb_engine_n_steps(loaded), qb_engine_n_steps(f.engine));
        for (int32_t s = 0; s < qb_engine_n_steps(loaded); s++) {
            qb_step_info a, b;
            qb_engine_step(f.engine, s, &a);
            qb_engine_step(loaded, s, &b);
            assert_string_equal(a.tactic, b.tactic);
            assert_string_equal(a.name, b.name);
        }
        qb_engine_free(loaded);
        small_engine_release(&f);
    }
}

static void the_same_engine_gives_the_same_bytes(void **state) {
    (void)state;
    small_engine f, g;
    qb_map a, b;
    qb_engine *loaded;
    small_engine_make(&f, NULL);
    small_engine_make(&g, NULL);
    save(&f, f.path);
    save(&g, g.path);
    assert_ok(&f.cx, qb_map_open(&f.cx, f.path, &a));
    assert_ok(&f.cx, qb_map_open(&f.cx, g.path, &b));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    qb_map_close(&b);
    /* And saved again by the engine that was loaded. */
    assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
    qb_engine_free(g.engine);
    g.engine = loaded;
    save(&g, g.path);
    assert_ok(&f.cx, qb_map_open(&f.cx, g.path, &b));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    qb_map_close(&a);
    qb_map_close(&b);
    small_engine_release(&f);
    small_engine_release(&g);
}

/* Names that a model's reader would have escaped: a file that has them was not made by one. */
static void names_that_rule_terminals_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"relu\x1b[31m", "relu\n::error::forged", "relu\xe2\x80\xae",
                                        "relu\xff", "relu\t"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        small_engine f;
        qb_engine *loaded = NULL;
        small_engine_make(&f, "ref");
        const int32_t value = qb_graph_find_value(f.engine->graph, "relu");
        f.engine->graph->values[value].name = names[i];
        save(&f, f.path);
        assert_fails(&f.cx, qb_engine_load(&f.cx, f.path, &loaded), QB_STATUS_FORMAT);
        assert_message(&f.cx, "a name that cannot be shown");
        assert_message(&f.cx, f.path);
        assert_true(qb_text_is_clean(f.cx.message));
        small_engine_release(&f);
    }
}

static void refuse(small_engine *f, const void *bytes, size_t size) {
    qb_engine *loaded = NULL;
    char path[QB_TEST_PATH];
    qb_test_join(path, f->folder, "damaged.qbe");
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    if (size) assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
    assert_fails(&f->cx, qb_engine_load(&f->cx, path, &loaded), QB_STATUS_FORMAT);
    assert_message(&f->cx, "damaged.qbe");
    assert_null(loaded);
    qb_ctx_clear(&f->cx);
}

static void every_changed_byte_is_noticed(void **state) {
    (void)state;
    small_engine f;
    char *bytes;
    size_t size;
    small_engine_make(&f, "cpu,ref");
    save(&f, f.path);
    assert_ok(&f.cx, qb_file_read(&f.cx, f.path, (size_t)1 << 24, &bytes, &size));
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (char)(1 << (i % 8));
        refuse(&f, bytes, size);
        bytes[i] ^= (char)(1 << (i % 8));
    }
    print_message("%zu bytes, each with one bit flipped: all refused\n", size);
    qb_free(bytes);
    small_engine_release(&f);
}

static void every_cut_is_noticed(void **state) {
    (void)state;
    small_engine f;
    char *bytes;
    size_t size;
    small_engine_make(&f, "cpu,ref");
    save(&f, f.path);
    assert_ok(&f.cx, qb_file_read(&f.cx, f.path, (size_t)1 << 24, &bytes, &size));
    for (size_t n = 0; n < size; n += n < 256 ? 1 : 61) refuse(&f, bytes, n);
    qb_free(bytes);
    small_engine_release(&f);
}

/* Changes the tags' text and makes all hashes right again. */
static void forge(small_engine *f, const char *from, const char *to) {
    char *bytes, *found;
    size_t size;
    qb_file_header h;
    assert_int_equal(strlen(from), strlen(to));
    assert_ok(&f->cx, qb_file_read(&f->cx, f->path, (size_t)1 << 24, &bytes, &size));
    memcpy(&h, bytes, sizeof h);
    qb_file_entry *tags = &h.section[QB_FILE_TAGS];
    found = memmem(bytes + tags->offset, tags->size, from, strlen(from));
    assert_non_null(found);
    memcpy(found, to, strlen(to));
    tags->hash = qb_hash_bytes(bytes + tags->offset, tags->size);
    h.hash = qb_hash_bytes(&h, offsetof(qb_file_header, hash));
    memcpy(bytes, &h, sizeof h);
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, bytes, size));
    qb_free(bytes);
}

static void another_machine_is_named_with_the_way_out(void **state) {
    (void)state;
    small_engine f;
    qb_engine *loaded = NULL;
    char *tags, processor[256], other[256];
    small_engine_make(&f, NULL);
    save(&f, f.path);
    qb_engine_processor(processor, sizeof processor);
    strcpy(other, processor);
    other[0] = 'X';
    forge(&f, processor, other);
    assert_fails(&f.cx, qb_engine_load(&f.cx, f.path, &loaded), QB_STATUS_MISMATCH);
    assert_message(&f.cx, other);
    assert_message(&f.cx, processor);
    assert_message(&f.cx,
                   "qbench build --model small.onnx --precision fp32 --batch 2 --saveEngine=");
    assert_message(&f.cx, "or there with --hardware-compatible");
    qb_ctx_clear(&f.cx);
    assert_ok(&f.cx, qb_engine_file_tags(&f.cx, f.path, &tags)); /* it can be looked at */
    assert_non_null(strstr(tags, "\"schema\": \"qbench.engine/1\""));
    qb_free(tags);
    small_engine_release(&f);
}

/* A file for more than this machine: what it was built with does not matter, as far as it says. */
static void compatible_files_load_elsewhere(void **state) {
    (void)state;
    char processor[256], other[256];
    qb_engine_processor(processor, sizeof processor);
    strcpy(other, processor);
    other[0] = 'X';
    for (int kind = 0; kind < 2; kind++) {
        const bool version = kind == 0;
        const qb_engine_origin origin = {.model = "small.onnx",
                                         .precision = "fp32",
                                         .version_compatible = version,
                                         .hardware_compatible = !version};
        small_engine f;
        qb_engine *loaded = NULL;
        float saved_y[SMALL_OUTPUTS], loaded_y[SMALL_OUTPUTS];
        small_engine_make(&f, "cpu,ref");
        run(&f, f.engine, saved_y);
        assert_ok(&f.cx, qb_engine_save(&f.cx, f.engine, &origin, f.path));
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
            run(&f, loaded, loaded_y);
            assert_memory_equal(saved_y, loaded_y, sizeof saved_y);
            qb_engine_free(loaded);
            if (elsewhere) continue;
            if (version)
                forge(&f, "\"qbench\": \"0", "\"qbench\": \"9");
            else
                forge(&f, processor, other);
        }
        if (version)
            forge(&f, processor, other);
        else
            forge(&f, "\"qbench\": \"0", "\"qbench\": \"9");
        assert_fails(&f.cx, qb_engine_load(&f.cx, f.path, &loaded), QB_STATUS_MISMATCH);
        assert_message(&f.cx, version ? "or there with --hardware-compatible"
                                      : "or there with --version-compatible");
        small_engine_release(&f);
    }
}

static void packed_weights_cannot_be_unpacked(void **state) {
    (void)state;
    const qb_engine_origin origin = {.version_compatible = true};
    small_engine f;
    qb_engine *loaded;
    small_engine_make(&f, "cpu,ref");
    save(&f, f.path);
    assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
    assert_fails(&f.cx, qb_engine_save(&f.cx, loaded, &origin, f.path), QB_STATUS_UNSUPPORTED);
    assert_message(&f.cx, "build it from the model");
    qb_engine_free(loaded);
    small_engine_release(&f);
}

/* A file that says it packs its weights at each load has them all: what it leaves out would be
 * zeros. */
static void weights_that_are_left_out_are_not_packed(void **state) {
    (void)state;
    for (uint32_t flags = 1; flags <= QB_FILE_COMPATIBLE; flags++) {
        small_engine f;
        char *bytes;
        size_t size;
        qb_file_header h;
        small_engine_make(&f, "cpu,ref");
        save(&f, f.path);
        assert_ok(&f.cx, qb_file_read(&f.cx, f.path, (size_t)1 << 24, &bytes, &size));
        memcpy(&h, bytes, sizeof h);
        assert_true(h.hole_bytes > 0);
        h.flags = flags;
        h.hash = qb_hash_bytes(&h, offsetof(qb_file_header, hash));
        memcpy(bytes, &h, sizeof h);
        refuse(&f, bytes, size);
        qb_free(bytes);
        small_engine_release(&f);
    }
}

static void a_newer_format_is_named(void **state) {
    (void)state;
    small_engine f;
    qb_engine *loaded = NULL;
    char *bytes;
    size_t size;
    small_engine_make(&f, NULL);
    save(&f, f.path);
    assert_ok(&f.cx, qb_file_read(&f.cx, f.path, (size_t)1 << 24, &bytes, &size));
    bytes[offsetof(qb_file_header, format)] = 9;
    assert_ok(&f.cx, qb_file_write(&f.cx, f.path, bytes, size));
    assert_fails(&f.cx, qb_engine_load(&f.cx, f.path, &loaded), QB_STATUS_FORMAT);
    assert_message(&f.cx, "newer qbench: format 9");
    qb_free(bytes);
    small_engine_release(&f);
}

static qb_status load_once(qb_ctx *cx, void *user) {
    qb_engine *loaded = NULL;
    qb_status status = qb_engine_load(cx, user, &loaded);
    qb_engine_free(loaded);
    return status;
}

static void no_memory_is_an_error_everywhere(void **state) {
    (void)state;
    small_engine f;
    small_engine_make(&f, "cpu,ref");
    save(&f, f.path);
    assert_true(qb_test_alloc_sweep(load_once, f.path) > 20);
    small_engine_release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_engine_runs_as_the_saved_one),
        cmocka_unit_test(the_same_engine_gives_the_same_bytes),
        cmocka_unit_test(names_that_rule_terminals_are_refused),
        cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(another_machine_is_named_with_the_way_out),
        cmocka_unit_test(compatible_files_load_elsewhere),
        cmocka_unit_test(packed_weights_cannot_be_unpacked),
        cmocka_unit_test(weights_that_are_left_out_are_not_packed),
        cmocka_unit_test(a_newer_format_is_named),
        cmocka_unit_test(no_memory_is_an_error_everywhere),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

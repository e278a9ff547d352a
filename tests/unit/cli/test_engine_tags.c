/* Tags of engine files that no writer of ours would make, as `inspect` prints them. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/out/engine_file.h"
#include "engine/file/file_internal.h"
#include "qb_test.h"

static char folder[QB_TEST_PATH], path[QB_TEST_PATH];

static int setup(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "hostile.qbe");
    return 0;
}

/* A file of nothing but tags and steps, whose header and hashes are right. */
static void write_engine(qb_ctx *cx, const char *tags, const char *steps) {
    enum { ROOM = 1 << 16 };
    char *file = calloc(1, ROOM);
    assert_non_null(file);
    qb_file_header h = {.format = QB_ENGINE_FILE_FORMAT, .n_sections = QB_FILE_SECTIONS};
    memcpy(h.magic, QB_FILE_MAGIC, sizeof h.magic);
    size_t end = sizeof h;
    for (int i = 0; i < QB_FILE_SECTIONS; i++) {
        const char *text = i == QB_FILE_TAGS ? tags : i == QB_FILE_STEPS ? steps : "";
        qb_file_entry *entry = &h.section[i];
        end = (end + QB_FILE_UNIT(i) - 1) / QB_FILE_UNIT(i) * QB_FILE_UNIT(i);
        assert_true(end + strlen(text) < ROOM);
        memcpy(file + end, text, strlen(text));
        *entry = (qb_file_entry){.offset = end, .size = strlen(text)};
        memcpy(entry->name, qb_file_names[i], sizeof entry->name);
        entry->hash = qb_hash_bytes(file + end, entry->size);
        end += entry->size;
    }
    h.file_size = end;
    h.hash = qb_hash_bytes(&h, offsetof(qb_file_header, hash));
    memcpy(file, &h, sizeof h);
    assert_ok(cx, qb_file_write(cx, path, file, end));
    free(file);
}

/* What `inspect` prints of the file, new memory. */
static char *shown(qb_ctx *cx, qb_status *status) {
    char out[QB_TEST_PATH], *text = NULL;
    const qb_common common = {.quiet = true};
    qb_test_join(out, folder, "out.txt");
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO), to = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(kept >= 0 && to >= 0);
    dup2(to, STDOUT_FILENO);
    *status = qb_engine_file_show(cx, &common, true, path);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(to);
    qb_ctx quiet;
    qb_ctx_init(&quiet);
    assert_ok(&quiet, qb_file_read(&quiet, out, 1 << 20, &text, NULL));
    return text;
}

static void tags_of_any_type_do_not_crash(void **state) {
    (void)state;
    static const char *const keys[] = {
        "schema",     "built",     "compatible",  "options",   "profiles", "model",
        "model_hash", "precision", "calibration", "inputs",    "outputs",  "memory",
        "plugins",    "steps",     "device",      "data_hash", "prepared"};
    static const char *const values[] = {
        "1",
        "-1e308",
        "null",
        "true",
        "\"x\"",
        "\"\\u001b[31m\\n\"",
        "[]",
        "[1]",
        "[null]",
        "[[]]",
        "[{}]",
        "[{\"name\": 1, \"dtype\": [], \"shape\": {}}]",
        "[{\"min\": {\"x\": 1}, \"opt\": [], \"max\": {\"y\": null}}]",
        "[{\"us\": 1, \"alternatives\": [1, {\"tactic\": 2}]}]",
        "{}",
        "{\"weights\": \"x\", \"threads\": 9223372036854775807}",
        "{\"device\": 1, \"host_steps\": []}"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char tags[512];
            qb_status status;
            snprintf(tags, sizeof tags, "{\"%s\": %s}", keys[k], values[v]);
            write_engine(&cx, tags, values[v]);
            free(shown(&cx, &status));
            assert_true(status == QB_OK || status == QB_STATUS_FORMAT);
            qb_ctx_clear(&cx);
        }
}

static void broken_tags_are_an_error(void **state) {
    (void)state;
    static const char *const tags[] = {"", "}", "{", "[]", "{}}", "{\"a\": 1, \"a\": 2}", "\xff}"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        qb_status status;
        write_engine(&cx, tags[i], "[]");
        free(shown(&cx, &status));
        assert_int_equal(status, QB_STATUS_FORMAT);
        assert_message(&cx, "hostile.qbe");
        qb_ctx_clear(&cx);
    }
}

/* What is printed is clean, and the command can be copied into a shell. */
static void names_in_tags_are_data(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_status status;
    write_engine(
        &cx,
        "{\"model\": \"a b;$(id)'\\u001b[31m\\u202e\", \"precision\": \"`id`\", \"options\": "
        "\"--batch 2; id\", \"inputs\": [{\"name\": \"x\\n::error::forged\"}]}",
        "[{\"name\": \"\\u009b\"}]");
    char *text = shown(&cx, &status);
    assert_int_equal(status, QB_OK);
    assert_non_null(strstr(text,
                           "--model 'a b;$(id)'\\''\\x1b[31m\\xe2\\x80\\xae' --precision '`id`' "
                           "--saveEngine="));
    assert_non_null(strstr(text, "x\\x0a::error::forged"));
    assert_null(strstr(text, "\n::error"));
    assert_null(strchr(text, '\x1b'));
    assert_null(strstr(text, "\xc2\x9b"));
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(tags_of_any_type_do_not_crash, setup),
    cmocka_unit_test_setup(broken_tags_are_an_error, setup),
    cmocka_unit_test_setup(names_in_tags_are_data, setup),
};
QB_TEST_MAIN(tests)

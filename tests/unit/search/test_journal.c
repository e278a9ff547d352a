/* A search's cache as it may be found: whole, cut, edited, of another search. */
#include "search/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "qb_test.h"

#define HEAD "{\"schema\":\"qbench.search-cache/1\",\"of\":{\"model\":\"m\",\"n\":4}}\n"
#define ONE "{\"kind\":\"score\",\"key\":\"a\",\"value\":1}\n"

typedef struct found {
    qb_status status;
    const char *text, *says;
    int32_t taken;
} found;

static char folder[QB_TEST_PATH], path[QB_TEST_PATH];

static json_t *searched(void) { return json_pack("{s:s, s:i}", "model", "m", "n", 4); }

static void what_is_found_is_taken_or_refused(void **state) {
    (void)state;
    static const found rows[] = {
        {QB_OK, "", NULL, 0},
        {QB_OK, HEAD, NULL, 0},
        {QB_OK, HEAD ONE, NULL, 1},
        {QB_OK, HEAD ONE ONE, NULL, 2},
        {QB_OK, HEAD ONE "{\"kind\":\"time\",\"key\":\"a\",\"value\":null}\n", NULL, 2},
        {QB_OK, HEAD ONE "{\"kind\":\"sco", NULL, 1}, /* cut by a kill */
        {QB_OK, HEAD ONE "garbage\n", NULL, 1},
        {QB_OK, HEAD ONE "{\"kind\":\"score\",\"key\":\"a\"}\n", NULL, 1},
        {QB_OK, HEAD "[]\n", NULL, 0},
        {QB_OK, "{\"schema\":\"qbench.sea", NULL, 0},
        {QB_STATUS_FORMAT, "\n", "not the cache of a search", 0},
        {QB_STATUS_FORMAT, "{}\n" ONE, "not the cache of a search", 0},
        {QB_STATUS_FORMAT, "{\"schema\":5}\n" ONE, "not the cache of a search", 0},
        {QB_STATUS_FORMAT, "{\"schema\":\"qbench.search-cache/2\"}\n", "not the cache", 0},
        {QB_STATUS_FORMAT, HEAD "{\"key\":\"a\",\"value\":1}\n" ONE, "line 2: damaged", 0},
        {QB_STATUS_FORMAT, HEAD ONE "{\"kind\":1,\"key\":\"a\",\"value\":1}\n" ONE,
         "line 3: damaged", 0},
        {QB_STATUS_FORMAT, HEAD ONE "{\"kind\":\"k\",\"key\":1,\"value\":1}\n" ONE,
         "line 3: damaged", 0},
        {QB_STATUS_FORMAT, HEAD ONE "\n" ONE, "line 3: damaged", 0},
        {QB_STATUS_MISMATCH, "{\"schema\":\"qbench.search-cache/1\"}\n",
         "its model is absent, not \"m\"", 0},
        {QB_STATUS_MISMATCH,
         "{\"schema\":\"qbench.search-cache/1\",\"of\":{\"model\":\"m\",\"n\":5}}\n" ONE,
         "its n is 5, not 4", 0},
        {QB_STATUS_MISMATCH, "{\"schema\":\"qbench.search-cache/1\",\"of\":[1]}\n",
         "its model is absent", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const found *row = &rows[i];
        qb_ctx cx;
        qb_journal *journal = NULL;
        qb_ctx_init(&cx);
        assert_ok(&cx, qb_file_write(&cx, path, row->text, strlen(row->text)));
        const qb_status status = qb_journal_open(&cx, path, searched(), true, &journal);
        if (status != row->status) fail_msg("row %zu: %d: %s", i, (int)status, cx.message);
        if (status != QB_OK) {
            assert_message(&cx, row->says);
            assert_message(&cx, path);
            assert_null(journal);
            continue;
        }
        assert_int_equal(qb_journal_taken(journal), row->taken);
        assert_true((row->taken > 0) == (qb_journal_find(journal, "score", "a") != NULL));
        assert_ok(&cx, qb_journal_add(&cx, journal, "score", "b", json_integer(2)));
        qb_journal_close(journal);
        assert_ok(&cx, qb_journal_open(&cx, path, searched(), true, &journal));
        assert_int_equal(qb_journal_taken(journal), row->taken + 1);
        assert_int_equal(json_integer_value(qb_journal_find(journal, "score", "b")), 2);
        qb_journal_close(journal);
    }
}

static void without_resume_it_begins_anew(void **state) {
    (void)state;
    qb_ctx cx;
    qb_journal *journal;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_file_write(&cx, path, HEAD ONE, strlen(HEAD ONE)));
    assert_ok(&cx, qb_journal_open(&cx, path, searched(), false, &journal));
    assert_int_equal(qb_journal_taken(journal), 0);
    assert_null(qb_journal_find(journal, "score", "a"));
    qb_journal_close(journal);
    qb_journal_close(NULL);
}

static void a_folder_that_is_gone_is_an_error(void **state) {
    (void)state;
    char nowhere[QB_TEST_PATH];
    qb_ctx cx;
    qb_journal *journal = NULL;
    qb_ctx_init(&cx);
    qb_test_join(nowhere, folder, "gone/cache");
    assert_fails(&cx, qb_journal_open(&cx, nowhere, searched(), false, &journal),
                 QB_STATUS_NOTFOUND);
    assert_message(&cx, nowhere);
    assert_null(journal);
}

static int make_folder(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "cache");
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_found_is_taken_or_refused),
    cmocka_unit_test(without_resume_it_begins_anew),
    cmocka_unit_test(a_folder_that_is_gone_is_an_error),
};

int main(void) { return cmocka_run_group_tests(tests, make_folder, NULL); }

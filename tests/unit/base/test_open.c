/* What a file may name: links, hard links, special files, and where they may lead. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_internal.h"
#include "base/open.h"
#include "qb_test.h"

typedef struct fixture {
    qb_ctx cx;
    char dir[QB_TEST_PATH];
} fixture;

static void in(char *out, const fixture *f, const char *name) { qb_test_join(out, f->dir, name); }

static void make_folder(fixture *f, const char *name) {
    char path[QB_TEST_PATH];
    in(path, f, name);
    assert_ok(&f->cx, qb_make_dirs(&f->cx, path));
}

static void make_file(fixture *f, const char *name) {
    char path[QB_TEST_PATH];
    in(path, f, name);
    assert_ok(&f->cx, qb_file_write(&f->cx, path, "data", 4));
}

static void make_link(const fixture *f, const char *name, const char *to) {
    char path[QB_TEST_PATH];
    in(path, f, name);
    assert_int_equal(symlink(to, path), 0);
}

/* own/model.onnx with files and links of all kinds; out/ is another folder. */
static int setup(void **state) {
    static fixture f;
    char a[QB_TEST_PATH], b[QB_TEST_PATH];
    qb_ctx_init(&f.cx);
    qb_test_temp_dir(f.dir);
    make_folder(&f, "own/sub");
    make_folder(&f, "out");
    make_file(&f, "own/model.onnx");
    make_file(&f, "own/w.bin");
    make_file(&f, "own/sub/w.bin");
    make_file(&f, "own/..w..bin");
    make_file(&f, "out/w.bin");
    make_file(&f, "out/w2.bin");
    make_link(&f, "own/inside", "sub/w.bin");
    make_link(&f, "own/up", "../own/w.bin");
    make_link(&f, "own/outside", "../out/w.bin");
    make_link(&f, "own/folder", "../out");
    make_link(&f, "own/chain", "outside");
    make_link(&f, "own/loop", "loop");
    make_link(&f, "own/device", "/dev/zero");
    make_link(&f, "own/nothing", "none.bin");
    in(a, &f, "out/w2.bin");
    in(b, &f, "own/hard.bin");
    assert_int_equal(link(a, b), 0);
    in(a, &f, "own/fifo");
    assert_int_equal(mkfifo(a, 0600), 0);
    *state = &f;
    return 0;
}

static qb_status open_it(fixture *f, const char *by, const char *name) {
    char path[QB_TEST_PATH];
    in(path, f, by);
    const qb_named named = {name, path, "the model's"};
    qb_opened opened;
    qb_ctx_clear(&f->cx);
    const qb_status status = qb_open_named(&f->cx, &named, &opened);
    if (status != QB_OK) return status;
    assert_int_equal(opened.size, 4);
    qb_opened_close(&opened);
    return status;
}

static void what_lies_in_the_folder_is_opened(void **state) {
    fixture *f = *state;
    static const char *const names[] = {"w.bin",    "sub/w.bin", "./w.bin", "sub//w.bin",
                                        "..w..bin", "inside",    "up"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ok(&f->cx, open_it(f, "own/model.onnx", names[i]));
    assert_ok(&f->cx, open_it(f, "own/", "w.bin")); /* a folder that names */
}

static void what_leads_out_of_it_is_refused(void **state) {
    fixture *f = *state;
    static const struct {
        const char *name;
        qb_status status;
        const char *message;
    } cases[] = {
        {"", QB_STATUS_FORMAT, "inside the model's folder"},
        {"/etc/passwd", QB_STATUS_FORMAT, "inside the model's folder"},
        {"../out/w.bin", QB_STATUS_FORMAT, "inside the model's folder"},
        {"sub/../w.bin", QB_STATUS_FORMAT, "inside the model's folder"},
        {"..", QB_STATUS_FORMAT, "inside the model's folder"},
        {"outside", QB_STATUS_FORMAT, "out/w.bin, which is not inside the model's folder"},
        {"chain", QB_STATUS_FORMAT, "out/w.bin, which is not inside"},
        {"folder/w.bin", QB_STATUS_FORMAT, "out/w.bin, which is not inside"},
        {"device", QB_STATUS_FORMAT, "/dev/zero, which is not inside"},
        {"hard.bin", QB_STATUS_FORMAT, "has 2 names (hard links)"},
        {"fifo", QB_STATUS_IO, "expected a regular file, got a FIFO"},
        {"sub", QB_STATUS_IO, "got a directory"},
        {".", QB_STATUS_IO, "got a directory"},
        {"loop", QB_STATUS_IO, "symbolic links"},
        {"nothing", QB_STATUS_NOTFOUND, "No such file"},
        {"w.bin/x", QB_STATUS_NOTFOUND, "Not a directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails(&f->cx, open_it(f, "own/model.onnx", cases[i].name), cases[i].status);
        assert_message(&f->cx, cases[i].message);
    }
}

static void what_the_user_allows_is_opened(void **state) {
    fixture *f = *state;
    char out[QB_TEST_PATH], file[QB_TEST_PATH];
    in(out, f, "out");
    in(file, f, "out/w.bin");
    const char *folder[] = {"/nowhere", out}, *one[] = {file};
    f->cx.outside = folder;
    f->cx.n_outside = 2;
    assert_ok(&f->cx, open_it(f, "own/model.onnx", "outside"));
    assert_ok(&f->cx, open_it(f, "own/model.onnx", "folder/w.bin"));
    assert_ok(&f->cx, open_it(f, "own/model.onnx", "../out/w2.bin")); /* it has two names */
    assert_ok(&f->cx, open_it(f, "own/model.onnx", file));
    assert_fails(&f->cx, open_it(f, "own/model.onnx", "/etc/passwd"), QB_STATUS_FORMAT);
    assert_fails(&f->cx, open_it(f, "own/model.onnx", "hard.bin"), QB_STATUS_FORMAT);
    f->cx.outside = one;
    f->cx.n_outside = 1;
    assert_ok(&f->cx, open_it(f, "own/model.onnx", "outside"));
    assert_fails(&f->cx, open_it(f, "own/model.onnx", "folder/w2.bin"), QB_STATUS_FORMAT);
}

/* hub/models--a--b/snapshots/REVISION/ holds links to ../../blobs/. */
static void a_hub_cache_keeps_working(void **state) {
    fixture *f = *state;
    make_folder(f, "hub/blobs");
    make_folder(f, "hub/snapshots/1f/onnx");
    make_file(f, "hub/blobs/aa");
    make_file(f, "hub/blobs/bb");
    make_file(f, "hub/refs");
    make_link(f, "hub/snapshots/1f/model.onnx", "../../blobs/aa");
    make_link(f, "hub/snapshots/1f/model.onnx_data", "../../blobs/bb");
    make_link(f, "hub/snapshots/1f/onnx/w", "../../../blobs/bb");
    make_link(f, "hub/snapshots/1f/refs", "../../refs");
    make_file(f, "hub/snapshots/1f/onnx/copied.onnx");
    assert_ok(&f->cx, open_it(f, "hub/snapshots/1f/model.onnx", "model.onnx_data"));
    assert_ok(&f->cx, open_it(f, "hub/snapshots/1f/onnx/copied.onnx", "w"));
    assert_fails(&f->cx, open_it(f, "hub/snapshots/1f/model.onnx", "refs"), QB_STATUS_FORMAT);
    /* The same links somewhere else. */
    make_folder(f, "hub/other/1f");
    make_file(f, "hub/other/1f/model.onnx");
    make_link(f, "hub/other/1f/w", "../../blobs/bb");
    assert_fails(&f->cx, open_it(f, "hub/other/1f/model.onnx", "w"), QB_STATUS_FORMAT);
}

static void links_of_the_model_itself_are_followed(void **state) {
    fixture *f = *state;
    make_folder(f, "view");
    make_link(f, "view/model.onnx", "../own/model.onnx");
    make_link(f, "view/w.bin", "../own/w.bin");
    make_link(f, "view/x.bin", "../out/w.bin");
    make_link(f, "linked", "own");
    assert_ok(&f->cx, open_it(f, "view/model.onnx", "w.bin"));
    assert_fails(&f->cx, open_it(f, "view/model.onnx", "x.bin"), QB_STATUS_FORMAT);
    assert_ok(&f->cx, open_it(f, "linked/model.onnx", "w.bin"));
}

/* What stands in for openat2 on old kernels. */
static void the_walk_goes_through_no_link(void **state) {
    fixture *f = *state;
    static const char *const good[] = {"own/w.bin", "own/sub/w.bin"},
                             *const bad[] = {"own/inside", "own/folder/w.bin", "own/outside", "",
                                             "own/",       "own/none"};
    const int root = open(f->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const int fd = qb_open_walk(root, good[i]);
        assert_true(fd >= 0);
        close(fd);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(qb_open_walk(root, bad[i]) < 0);
    close(root);
}

static qb_status open_once(qb_ctx *cx, void *user) {
    const qb_named named = {"w.bin", user, "the model's"};
    qb_map map;
    QB_TRY(qb_map_open_named(cx, &named, &map));
    assert_memory_equal(map.data, "data", 4);
    qb_map_close(&map);
    return QB_OK;
}

static void no_memory_leaves_nothing_open(void **state) {
    fixture *f = *state;
    char path[QB_TEST_PATH];
    in(path, f, "own/model.onnx");
    assert_true(qb_test_alloc_sweep(open_once, path) >= 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(what_lies_in_the_folder_is_opened, setup),
    cmocka_unit_test_setup(what_leads_out_of_it_is_refused, setup),
    cmocka_unit_test_setup(what_the_user_allows_is_opened, setup),
    cmocka_unit_test_setup(a_hub_cache_keeps_working, setup),
    cmocka_unit_test_setup(links_of_the_model_itself_are_followed, setup),
    cmocka_unit_test_setup(the_walk_goes_through_no_link, setup),
    cmocka_unit_test_setup(no_memory_leaves_nothing_open, setup),
};
QB_TEST_MAIN(tests)

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "qb_test.h"

typedef struct fixture {
    qb_ctx cx;
    char dir[QB_TEST_PATH], path[QB_TEST_PATH];
} fixture;

static int setup(void **state) {
    static fixture f;
    qb_ctx_init(&f.cx);
    qb_test_temp_dir(f.dir);
    qb_test_join(f.path, f.dir, "out.bin");
    *state = &f;
    return 0;
}

static void assert_content(fixture *f, const char *path, const char *expected) {
    char *data = NULL;
    size_t size = 0;
    assert_ok(&f->cx, qb_file_read(&f->cx, path, 1 << 20, &data, &size));
    assert_int_equal(size, strlen(expected));
    assert_string_equal(data, expected);
    qb_free(data);
}

static void write_then_read_round_trips(void **state) {
    fixture *f = *state;
    char data[100000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 7);
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, data, sizeof data));
    char *back = NULL;
    size_t size = 0;
    assert_ok(&f->cx, qb_file_read(&f->cx, f->path, sizeof data, &back, &size));
    assert_int_equal(size, sizeof data);
    assert_memory_equal(back, data, size);
    assert_int_equal(back[size], 0);
    qb_free(back);
    qb_map map;
    assert_ok(&f->cx, qb_map_open(&f->cx, f->path, &map));
    assert_int_equal(map.size, sizeof data);
    assert_memory_equal(map.data, data, map.size);
    qb_map_close(&map);
    assert_null(map.data);
    qb_map_close(&map);
    assert_int_equal(qb_test_count_files(f->dir), 1); /* no temporary file stays */
}

static void empty_files_are_files(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, NULL, 0));
    assert_content(f, f->path, "");
    qb_map map = {.data = (const uint8_t *)f, .size = 1};
    assert_ok(&f->cx, qb_map_open(&f->cx, f->path, &map));
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    qb_map_close(&map);
}

static void reading_errors_name_path_and_reason(void **state) {
    fixture *f = *state;
    char *data = NULL;
    size_t size;
    qb_map map;
    assert_fails(&f->cx, qb_file_read(&f->cx, f->path, 10, &data, &size), QB_STATUS_NOTFOUND);
    assert_message(&f->cx, f->path);
    assert_message(&f->cx, "No such file");
    assert_fails(&f->cx, qb_map_open(&f->cx, f->path, &map), QB_STATUS_NOTFOUND);
    assert_message(&f->cx, f->path);
    assert_fails(&f->cx, qb_file_read(&f->cx, f->dir, 10, &data, &size), QB_STATUS_IO);
    assert_message(&f->cx, "directory");
    assert_fails(&f->cx, qb_map_open(&f->cx, f->dir, &map), QB_STATUS_IO);
    assert_message(&f->cx, "directory");
    assert_fails(&f->cx, qb_map_open(&f->cx, "/dev/null", &map), QB_STATUS_IO);
    assert_message(&f->cx, "regular file");
    assert_null(data);
}

static void a_fifo_or_device_does_not_hang(void **state) {
    fixture *f = *state;
    qb_map map;
    char *data = NULL;
    size_t size;
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_fails(&f->cx, qb_map_open(&f->cx, f->path, &map), QB_STATUS_IO);
    assert_fails(&f->cx, qb_file_read(&f->cx, f->path, 100, &data, &size), QB_STATUS_IO);
    assert_message(&f->cx, "expected a regular file, got a FIFO");
    assert_fails(&f->cx, qb_file_read(&f->cx, "/dev/zero", 100, &data, &size), QB_STATUS_IO);
    assert_message(&f->cx, "got a device");
    assert_null(data);
    assert_ok(&f->cx, qb_file_read(&f->cx, "/dev/null", 100, &data, &size));
    assert_string_equal(data, "");
    qb_free(data);
    /* As an output: nobody reads it. */
    assert_fails(&f->cx, qb_file_write(&f->cx, f->path, "x", 1), QB_STATUS_IO);
    assert_message(&f->cx, "No such device");
}

static void limit_is_inclusive(void **state) {
    fixture *f = *state;
    char *data = NULL;
    size_t size;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "12345", 5));
    assert_ok(&f->cx, qb_file_read(&f->cx, f->path, 5, &data, &size));
    qb_free(data);
    data = NULL;
    assert_fails(&f->cx, qb_file_read(&f->cx, f->path, 4, &data, &size), QB_STATUS_FORMAT);
    assert_message(&f->cx, "5 bytes");
    /* Without a size known beforehand. */
    assert_fails(&f->cx, qb_file_read(&f->cx, "/proc/self/maps", 100, &data, &size),
                 QB_STATUS_FORMAT);
    assert_message(&f->cx, "more than the accepted 100 bytes");
    assert_null(data);
}

static void abort_leaves_the_old_file(void **state) {
    fixture *f = *state;
    qb_writer writer;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &writer));
    assert_true(fputs("new and longer", writer.stream) >= 0);
    fflush(writer.stream);
    assert_content(f, f->path, "old");
    assert_int_equal(qb_test_count_files(f->dir), 2);
    qb_writer_abort(&writer);
    assert_content(f, f->path, "old");
    assert_int_equal(qb_test_count_files(f->dir), 1);
    qb_writer_abort(&writer); /* a second time does no harm */
    qb_writer_abort(&(qb_writer){0});
}

static void commit_replaces_the_old_file(void **state) {
    fixture *f = *state;
    qb_writer writer;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    assert_int_equal(chmod(f->path, 0640), 0);
    assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &writer));
    assert_true(fputs("new", writer.stream) >= 0);
    assert_ok(&f->cx, qb_writer_commit(&f->cx, &writer));
    assert_content(f, f->path, "new");
    assert_int_equal(qb_test_count_files(f->dir), 1);
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640); /* the rights stay */
    qb_writer_abort(&writer);                    /* after commit: nothing */
    assert_content(f, f->path, "new");
}

static void lost_temporary_file_is_an_error(void **state) {
    fixture *f = *state;
    qb_writer writer;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &writer));
    assert_int_equal(unlink(writer.temp), 0);
    assert_fails(&f->cx, qb_writer_commit(&f->cx, &writer), QB_STATUS_NOTFOUND);
    assert_content(f, f->path, "old");
}

/* What a host does that does not see our lock: it takes our temporary file for left over and begins
 * one of that name. */
static void replace_as_another_host(fixture *f, const char *temp) {
    assert_int_equal(unlink(temp), 0);
    FILE *theirs = fopen(temp, "wx");
    assert_non_null(theirs);
    assert_true(fputs("theirs", theirs) >= 0);
    assert_int_equal(fclose(theirs), 0);
    assert_content(f, temp, "theirs");
}

static void temporary_file_of_another_host_is_left_alone(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    for (int commits = 0; commits < 2; commits++) {
        qb_writer writer;
        assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &writer));
        assert_true(fputs("ours", writer.stream) >= 0);
        char *temp = qb_strdup(&f->cx, writer.temp);
        assert_non_null(temp);
        replace_as_another_host(f, temp);
        if (commits) {
            assert_fails(&f->cx, qb_writer_commit(&f->cx, &writer), QB_STATUS_IO);
            assert_message(&f->cx, "another program took");
            assert_message(&f->cx, temp);
        } else {
            qb_writer_abort(&writer);
        }
        assert_content(f, temp, "theirs");
        assert_content(f, f->path, "old");
        assert_int_equal(unlink(temp), 0);
        qb_free(temp);
    }
}

static void two_writers_of_one_path_do_not_collide(void **state) {
    fixture *f = *state;
    qb_writer a, b;
    assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &a));
    assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &b));
    assert_string_not_equal(a.temp, b.temp);
    assert_true(fputs("a", a.stream) >= 0 && fputs("b", b.stream) >= 0);
    assert_ok(&f->cx, qb_writer_commit(&f->cx, &b));
    assert_content(f, f->path, "b");
    assert_ok(&f->cx, qb_writer_commit(&f->cx, &a));
    assert_content(f, f->path, "a");
}

static void full_device_is_an_error(void **state) {
    fixture *f = *state;
    if (!qb_path_exists("/dev/full")) qb_test_skip("no /dev/full");
    assert_fails(&f->cx, qb_file_write(&f->cx, "/dev/full", "x", 1), QB_STATUS_IO);
    assert_message(&f->cx, "No space left");
    struct stat info;
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode)); /* not replaced by a file */
}

/* In a child process, whose largest file is limited. */
static int write_too_much(fixture *f) {
    struct rlimit limit = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    static char data[100000];
    memset(data, 'n', sizeof data);
    if (qb_file_write(&f->cx, f->path, data, sizeof data) != QB_STATUS_IO) return 2;
    if (!strstr(f->cx.message, f->path) || !strstr(f->cx.message, "File too large")) return 3;
    /* Failing only when the buffer is written out at commit. */
    qb_writer writer;
    if (qb_writer_open(&f->cx, f->path, &writer) != QB_OK) return 4;
    setvbuf(writer.stream, NULL, _IOFBF, sizeof data);
    fwrite(data, 1, 8192, writer.stream);
    if (qb_writer_commit(&f->cx, &writer) != QB_STATUS_IO) return 5;
    return 0;
}

static void failed_write_leaves_the_old_file(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(write_too_much(f));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_content(f, f->path, "old");
    assert_int_equal(qb_test_count_files(f->dir), 1);
}

/* A child that is killed while it writes `n` files of one name. */
static void kill_a_writer(fixture *f, int n) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        qb_writer writer;
        for (int i = 0; i < n; i++) {
            if (qb_writer_open(&f->cx, f->path, &writer) != QB_OK) _exit(1);
            fputs("half", writer.stream);
            fflush(writer.stream);
        }
        raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void killed_writer_leaves_the_old_file(void **state) {
    fixture *f = *state;
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    kill_a_writer(f, 1);
    assert_content(f, f->path, "old");
    assert_int_equal(qb_test_count_files(f->dir), 2);
}

static void next_writer_removes_what_killed_ones_left(void **state) {
    fixture *f = *state;
    qb_writer writer;
    assert_ok(&f->cx, qb_writer_open(&f->cx, f->path, &writer)); /* this one lives */
    kill_a_writer(f, 3);
    assert_int_equal(qb_test_count_files(f->dir), 4);
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "new", 3));
    assert_content(f, f->path, "new");
    assert_int_equal(qb_test_count_files(f->dir), 2);
    assert_true(qb_path_exists(writer.temp));
    assert_true(fputs("newest", writer.stream) >= 0);
    assert_ok(&f->cx, qb_writer_commit(&f->cx, &writer));
    assert_content(f, f->path, "newest");
    assert_int_equal(qb_test_count_files(f->dir), 1);
}

/* Threads that replace one file again and again never meet each other's temporary files. */
static void *write_often(void *user) {
    fixture *f = user;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int i = 0; i < 200; i++) {
        qb_writer writer;
        if (qb_writer_open(&cx, f->path, &writer) != QB_OK) return f;
        writer.scratch = true;
        fputs("whole", writer.stream);
        if (qb_writer_commit(&cx, &writer) != QB_OK) return f;
    }
    return NULL;
}

static void many_writers_at_once_all_succeed(void **state) {
    fixture *f = *state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, f), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_content(f, f->path, "whole");
    assert_int_equal(qb_test_count_files(f->dir), 1);
}

static void special_files_are_written_directly(void **state) {
    fixture *f = *state;
    qb_writer writer;
    assert_ok(&f->cx, qb_writer_open(&f->cx, "/dev/null", &writer));
    assert_null(writer.temp);
    assert_true(fputs("x", writer.stream) >= 0);
    assert_ok(&f->cx, qb_writer_commit(&f->cx, &writer));
    struct stat info;
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* Whoever may put a link into the folder does not choose what is overwritten. */
static void links_are_replaced_and_not_followed(void **state) {
    fixture *f = *state;
    char link[QB_TEST_PATH];
    struct stat info;
    static const char *const targets[] = {"out.bin", "nothing yet", "link", "/dev/full"};
    qb_test_join(link, f->dir, "link");
    assert_ok(&f->cx, qb_file_write(&f->cx, f->path, "old", 3));
    assert_int_equal(chmod(f->path, 0600), 0);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        assert_int_equal(symlink(targets[i], link), 0);
        assert_ok(&f->cx, qb_file_write(&f->cx, link, "new", 3));
        assert_int_equal(lstat(link, &info), 0);
        assert_true(S_ISREG(info.st_mode));
        assert_content(f, link, "new");
        assert_content(f, f->path, "old");
        assert_int_equal(unlink(link), 0);
    }
    assert_int_equal(qb_test_count_files(f->dir), 1);
    assert_int_equal(linkat(AT_FDCWD, f->path, AT_FDCWD, link, 0), 0); /* a second name of it */
    assert_ok(&f->cx, qb_file_write(&f->cx, link, "new", 3));
    assert_content(f, f->path, "old");
}

static void bad_targets_are_refused(void **state) {
    fixture *f = *state;
    qb_writer writer;
    char path[QB_TEST_PATH];
    assert_fails(&f->cx, qb_writer_open(&f->cx, f->dir, &writer), QB_STATUS_IO);
    assert_message(&f->cx, "directory");
    assert_fails(&f->cx, qb_writer_open(&f->cx, "", &writer), QB_STATUS_INVALID);
    qb_test_join(path, f->dir, "none/out");
    assert_fails(&f->cx, qb_writer_open(&f->cx, path, &writer), QB_STATUS_NOTFOUND);
    assert_message(&f->cx, path);
}

/* The temporary name must not be longer than the file system allows when the final one is not. */
static void longest_file_name_can_be_written(void **state) {
    fixture *f = *state;
    char name[256], path[QB_TEST_PATH];
    memset(name, 'n', 255);
    name[255] = '\0';
    qb_test_join(path, f->dir, name);
    assert_ok(&f->cx, qb_file_write(&f->cx, path, "x", 1));
    assert_content(f, path, "x");
}

static qb_status write_and_read(qb_ctx *cx, void *user) {
    const char *path = user;
    qb_status status = qb_file_write(cx, path, "text", 4);
    char *data = NULL;
    if (status == QB_OK) status = qb_file_read(cx, path, 100, &data, NULL);
    qb_free(data);
    return status;
}

static void no_memory_leaves_no_temporary_file(void **state) {
    fixture *f = *state;
    assert_true(qb_test_alloc_sweep(write_and_read, f->path) >= 3);
    assert_int_equal(qb_test_count_files(f->dir), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(write_then_read_round_trips, setup),
    cmocka_unit_test_setup(empty_files_are_files, setup),
    cmocka_unit_test_setup(reading_errors_name_path_and_reason, setup),
    cmocka_unit_test_setup(a_fifo_or_device_does_not_hang, setup),
    cmocka_unit_test_setup(limit_is_inclusive, setup),
    cmocka_unit_test_setup(abort_leaves_the_old_file, setup),
    cmocka_unit_test_setup(commit_replaces_the_old_file, setup),
    cmocka_unit_test_setup(lost_temporary_file_is_an_error, setup),
    cmocka_unit_test_setup(temporary_file_of_another_host_is_left_alone, setup),
    cmocka_unit_test_setup(two_writers_of_one_path_do_not_collide, setup),
    cmocka_unit_test_setup(full_device_is_an_error, setup),
    cmocka_unit_test_setup(failed_write_leaves_the_old_file, setup),
    cmocka_unit_test_setup(killed_writer_leaves_the_old_file, setup),
    cmocka_unit_test_setup(next_writer_removes_what_killed_ones_left, setup),
    cmocka_unit_test_setup(many_writers_at_once_all_succeed, setup),
    cmocka_unit_test_setup(special_files_are_written_directly, setup),
    cmocka_unit_test_setup(links_are_replaced_and_not_followed, setup),
    cmocka_unit_test_setup(bad_targets_are_refused, setup),
    cmocka_unit_test_setup(longest_file_name_can_be_written, setup),
    cmocka_unit_test_setup(no_memory_leaves_no_temporary_file, setup),
};
QB_TEST_MAIN(tests)

/* What all tests share: cmocka with its headers in order, checks that print the error message of a
 * context, paths of the shared data, temporary folders, skipping. */
#ifndef QB_TEST_H
#define QB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/ctx.h"

#define QB_TEST_PATH 1024

/* The call succeeds; otherwise the test fails and prints the context's message. */
#define assert_ok(cx, expr) qb_test_status((cx), (expr), QB_OK, #expr, __FILE__, __LINE__)
/* The call fails with exactly this status and a message. */
#define assert_fails(cx, expr, status)                                                             \
    qb_test_status((cx), (expr), (status), #expr, __FILE__, __LINE__)
/* The context's message contains the text. */
#define assert_message(cx, text) qb_test_message((cx), (text), __FILE__, __LINE__)
/* |actual - expected| <= atol + rtol |expected| for all n; NaN equals NaN. Prints the worst. */
#define assert_floats(actual, expected, n, rtol, atol)                                             \
    qb_test_floats((actual), (expected), (n), (rtol), (atol), __FILE__, __LINE__)

void qb_test_status(const qb_ctx *cx, qb_status got, qb_status expected, const char *expr,
                    const char *file, int line);
void qb_test_message(const qb_ctx *cx, const char *text, const char *file, int line);
void qb_test_floats(const float *actual, const float *expected, size_t n, float rtol, float atol,
                    const char *file, int line);

/* Marks the running test as skipped, with the reason printed; does not return. */
void qb_test_skip(const char *fmt, ...) QB_PRINTF(1, 2);

/* Path of a file or folder of the shared test data ($QB_SHARED, else beside the project). False
 * when it is not there. */
bool qb_test_shared(char path[QB_TEST_PATH], const char *name);
/* The same, skipping the running test when it is not there. */
void qb_test_need_shared(char path[QB_TEST_PATH], const char *name);
/* Path of a file of the project. */
void qb_test_source(char path[QB_TEST_PATH], const char *name);

/* A new empty folder, removed with everything in it when the program ends. */
void qb_test_temp_dir(char path[QB_TEST_PATH]);
/* folder/name into path. */
void qb_test_join(char path[QB_TEST_PATH], const char *folder, const char *name);
/* The file names in a folder, "." and ".." left out; -1 when it cannot be read. */
int qb_test_count_files(const char *folder);

/* Runs `body` again and again, each time with another allocation failing, until it gets through.
 * `body` releases all it made, also on failure (leak checkers watch), and each failed run must
 * report QB_STATUS_NOMEM. Returns the number of allocations. */
int qb_test_alloc_sweep(qb_status (*body)(qb_ctx *cx, void *user), void *user);

/* main() of a test program. The exit code is 77 when every test was skipped. */
#define QB_TEST_MAIN(tests)                                                                        \
    int main(void) {                                                                               \
        return qb_test_exit_code(cmocka_run_group_tests((tests), NULL, NULL),                      \
                                 sizeof(tests) / sizeof *(tests));                                 \
    }
int qb_test_exit_code(int failed, size_t n_tests);

#endif

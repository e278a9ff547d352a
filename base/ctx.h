/* The context that carries errors, allocation, cancellation and logging through every call.
 *
 * One qb_ctx belongs to one thread at a time. A worker thread takes its own with qb_ctx_child and
 * the parent adopts the first error with qb_ctx_take. */
#ifndef QB_BASE_CTX_H
#define QB_BASE_CTX_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_MESSAGE_MAX 4096

struct qb_log;
struct qb_plugins;

typedef struct qb_ctx {
    qb_status code;                /* code of the last error, QB_OK when none */
    char message[QB_MESSAGE_MAX];  /* its text, outermost context first */
    struct qb_log *log;            /* may be NULL: nothing is logged */
    volatile sig_atomic_t *cancel; /* non-zero once the user asked to stop; may be NULL. Becomes
                                      QB_CANCEL_SEEN when qb_check_cancel has said so */
    struct qb_plugins *plugins;    /* foreign operators, see graph/plugin.h; may be NULL */
    const char *const *outside; /* folders and files that a file may name though they are not in its
                                   folder (base/open.h); may be NULL */
    int n_outside;
    const char *engine_key; /* engine files must be signed by this key (base/sign.h); may be NULL */
    bool no_machine_code;   /* kernels compiled into engine files are compiled again */
    int threads;            /* worker threads to use; 0: as many as there are processors */
    size_t max_memory;      /* bytes that the process may have; 0: any number. See qb_alloc */
    long fail_alloc_at;     /* tests: make the n-th allocation from now fail; 0: never */
} qb_ctx;

#if defined(__GNUC__)
#define QB_PRINTF(fmt_index, args_index) __attribute__((format(printf, fmt_index, args_index)))
#else
#define QB_PRINTF(fmt_index, args_index)
#endif

void qb_ctx_init(qb_ctx *cx);
/* A context for a worker thread: shares log, cancel flag and plugins, starts without an error. */
void qb_ctx_child(const qb_ctx *parent, qb_ctx *child);
/* Copies the child's error into the parent unless the parent has one already. */
void qb_ctx_take(qb_ctx *parent, const qb_ctx *child);
/* Forgets the error. */
void qb_ctx_clear(qb_ctx *cx);

/* Records an error (replacing any older one) and returns `code`, so that callers can write
 * `return qb_fail(cx, QB_STATUS_FORMAT, "...: expected %d, got %d", ...)`. */
qb_status qb_fail(qb_ctx *cx, qb_status code, const char *fmt, ...) QB_PRINTF(3, 4);
/* Like qb_fail, with ": " and the text of errno appended. The code follows from errno: NOTFOUND,
 * NOMEM or IO. */
qb_status qb_fail_errno(qb_ctx *cx, const char *fmt, ...) QB_PRINTF(2, 3);
/* Puts "context: " before the message of the current error and returns its code. */
qb_status qb_wrap(qb_ctx *cx, const char *fmt, ...) QB_PRINTF(2, 3);
/* QB_STATUS_CANCELLED with the message "interrupted" once the user asked to stop, else QB_OK. Then
 * *cx->cancel becomes QB_CANCEL_SEEN: the caller is on its way out. */
#define QB_CANCEL_ASKED 1
#define QB_CANCEL_SEEN 2
qb_status qb_check_cancel(qb_ctx *cx);
/* The number of worker threads that the context asks for, at least 1. */
int qb_threads(const qb_ctx *cx);

#define QB_TRY(expr)                                                                               \
    do {                                                                                           \
        qb_status qb_try_status_ = (expr);                                                         \
        if (qb_try_status_ != QB_OK) return qb_try_status_;                                        \
    } while (0)

/* QB_TRY that adds context on the way up. */
#define QB_TRY_WRAP(cx, expr, ...)                                                                 \
    do {                                                                                           \
        if ((expr) != QB_OK) return qb_wrap((cx), __VA_ARGS__);                                    \
    } while (0)

/* For functions with one `out:` label and a local `qb_status status = QB_OK`. */
#define QB_GO(expr)                                                                                \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != QB_OK) goto out;                                                             \
    } while (0)

/* The same for a call that returns NULL with an error recorded when it fails, as qb_alloc does.
 * QB_NEW is the pointer that a new variable starts with: `char *copy = QB_NEW(cx, qb_strdup(cx,
 * text))`. The others take an assignment, which is done in either case, to a variable or member
 * that is there already: `QB_TRY_NEW(cx, table->name = qb_strdup(cx, text))`. */
#define QB_NEW(cx, pointer)                                                                        \
    __extension__({                                                                                \
        __typeof__(pointer) qb_new_ = (pointer);                                                   \
        if (!qb_new_) return (cx)->code;                                                           \
        qb_new_;                                                                                   \
    })
#define QB_TRY_NEW(cx, assignment)                                                                 \
    do {                                                                                           \
        if (!(assignment)) return (cx)->code;                                                      \
    } while (0)
#define QB_GO_NEW(cx, assignment)                                                                  \
    do {                                                                                           \
        if (!(assignment)) QB_GO((cx)->code);                                                      \
    } while (0)

/* Zeroed memory for n elements of `size` bytes; NULL with an error recorded when there is none or
 * when n * size overflows. Free with qb_free. n == 0 gives a valid pointer. A block of 1 MiB or
 * more that would take the process over cx->max_memory is refused, too, before it is asked for. */
void *qb_alloc(qb_ctx *cx, size_t n, size_t size);
/* The same, aligned to 64 bytes and padded to a multiple of 64 bytes. Large blocks lie in huge
 * pages where the system has them: fewer misses when addresses are translated. */
void *qb_alloc_aligned(qb_ctx *cx, size_t n, size_t size);
/* Grows an array so that it holds at least `need` elements; *capacity is updated. New elements are
 * zeroed. The array stays valid on failure. */
qb_status qb_grow(qb_ctx *cx, void *array_pointer, size_t *capacity, size_t need, size_t size);
char *qb_strdup(qb_ctx *cx, const char *text);
/* printf into new memory; NULL with an error recorded on failure. */
char *qb_format(qb_ctx *cx, const char *fmt, ...) QB_PRINTF(2, 3);
void qb_free(void *pointer);
/* The same for several, in order. */
#define QB_FREE_ALL(...)                                                                           \
    qb_free_each((const void *const[]){__VA_ARGS__},                                               \
                 sizeof(const void *const[]){__VA_ARGS__} / sizeof(void *))
void qb_free_each(const void *const *pointers, size_t n);

/* Before the type of a local variable that has a value from the start: it is released however the
 * function ends, after the value of `return` is known; the last one first. QB_RELEASED(release) is
 * for a struct and the function that takes its address, QB_FREED for memory that qb_free takes.
 * Jansson's json_auto_t is the same for JSON. */
#define QB_RELEASED(release) __attribute__((cleanup(release)))
#define QB_FREED QB_RELEASED(qb_free_at)
void qb_free_at(const void *address); /* of the pointer */
/* The value of a variable or member, which is empty (NULL, {0}) from then on: what it owned goes on
 * to another owner. */
#define QB_MOVE(owner)                                                                             \
    __extension__({                                                                                \
        __typeof__(owner) qb_moved_ = (owner);                                                     \
        (owner) = (__typeof__(owner)){0};                                                          \
        qb_moved_;                                                                                 \
    })
/* Makes `release`_at, for QB_RELEASED, of a function that takes a pointer and accepts NULL. */
#define QB_RELEASE_AT(type, release)                                                               \
    static inline void release##_at(type *const *address) { release(*address); }

#ifdef __cplusplus
}
#endif
#endif

#include "failing_alloc.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *memory);
_Noreturn void __real_abort(void);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *memory);
_Noreturn void __wrap_abort(void);
json_t *__real_json_loads(const char *text, size_t flags, json_error_t *error);
json_t *__real_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error);
json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error);

static atomic_long made, kept, failing;
static atomic_bool failed;
static jmp_buf end_of_run;
static pthread_t runner;
static __thread bool parses;

static bool fails(void) {
    if (parses) return false;
    if (atomic_fetch_add(&made, 1) + 1 != atomic_load(&failing)) return false;
    atomic_store(&failed, true);
    errno = ENOMEM;
    return true;
}

static void *keep(void *memory) {
    if (memory) atomic_fetch_add(&kept, 1);
    return memory;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : keep(__real_malloc(n)); }

void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : keep(__real_calloc(n, size)); }

void *__wrap_realloc(void *old, size_t n) {
    if (fails()) return NULL;
    return old ? __real_realloc(old, n) : keep(__real_malloc(n));
}

void *__wrap_aligned_alloc(size_t alignment, size_t n) {
    return fails() ? NULL : keep(__real_aligned_alloc(alignment, n));
}

void __wrap_free(void *memory) {
    if (memory) atomic_fetch_sub(&kept, 1);
    __real_free(memory);
}

/* jansson 2.14 writes behind its buffer where memory ends within a string. */
json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *error) {
    parses = true;
    json_t *root = __real_json_loads(text, flags, error);
    parses = false;
    return root;
}

json_t *__wrap_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error) {
    parses = true;
    json_t *root = __real_json_loadb(text, size, flags, error);
    parses = false;
    return root;
}

void __wrap_abort(void) {
    if (atomic_load(&failed) && pthread_equal(runner, pthread_self())) longjmp(end_of_run, 1);
    __real_abort();
}

qb_failing qb_failing_run(const uint8_t *data, size_t size, long fail_at) {
    volatile bool ended = false;
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    runner = pthread_self();
    atomic_store(&failed, false);
    atomic_store(&made, 0);
    atomic_store(&kept, 0);
    atomic_store(&failing, fail_at);
    if (setjmp(end_of_run))
        ended = true;
    else
        LLVMFuzzerTestOneInput(data, size);
    atomic_store(&failing, 0);
    atomic_store(&failed, false);
    return (qb_failing){atomic_load(&made), atomic_load(&kept), ended};
}

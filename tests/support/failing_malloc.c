/* Preloaded: the allocation of number FAIL_AT that a program makes since its first sigaction
 * (main's) fails, once. FAIL_COUNT names a file for how many there were. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static atomic_long made;
static atomic_bool counting;
static long fail_at;

static bool fails(void) {
    if (!atomic_load(&counting) || atomic_fetch_add(&made, 1) + 1 != fail_at) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t n) { return fails() ? NULL : __libc_realloc(old, n); }
void *aligned_alloc(size_t alignment, size_t n) {
    return fails() ? NULL : __libc_memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n) {
    void *memory = fails() ? NULL : __libc_memalign(alignment, n);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    static int (*real)(int, const struct sigaction *, struct sigaction *);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "sigaction");
        __builtin_memcpy(&real, &found, sizeof real);
        const char *at = getenv("FAIL_AT");
        fail_at = at ? atol(at) : 0;
        atomic_store(&counting, true);
    }
    return real(number, action, old);
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("FAIL_COUNT");
    atomic_store(&counting, false);
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) return;
    fprintf(out, "%ld\n", atomic_load(&made));
    fclose(out);
}

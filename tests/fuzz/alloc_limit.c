#include "alloc_limit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*malloc_hook)(const volatile void *pointer, size_t size);
typedef void (*free_hook)(const volatile void *pointer);
/* Of the sanitizers' runtime; missing without one. */
int __sanitizer_install_malloc_and_free_hooks(malloc_hook on_malloc, free_hook on_free)
    __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *pointer) __attribute__((weak));

static __thread bool counting;
static size_t single_limit, total_limit, alive, peak;

static void on_malloc(const volatile void *pointer, size_t size) {
    (void)pointer;
    if (!counting) return;
    alive += size;
    if (alive > peak) peak = alive;
    if (size <= single_limit && alive <= total_limit) return;
    counting = false;
    fprintf(stderr, "allocation of %zu bytes (limit %zu), %zu alive (limit %zu)\n", size,
            single_limit, alive, total_limit);
    abort();
}

static void on_free(const volatile void *pointer) {
    if (!counting || !pointer) return;
    const size_t size = __sanitizer_get_allocated_size(pointer);
    alive -= size < alive ? size : alive;
}

void qb_alloc_limit_begin(size_t single, size_t total) {
    static bool installed;
    single_limit = single;
    total_limit = total;
    alive = peak = 0;
    if (!__sanitizer_install_malloc_and_free_hooks || !__sanitizer_get_allocated_size) return;
    if (!installed) __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    counting = true;
}

void qb_alloc_limit_end(void) { counting = false; }

size_t qb_alloc_limit_peak(void) { return peak; }

/* What the fake device of tests/providers and the plugins that run on it agree on. */
#ifndef FAKE_STREAM_H
#define FAKE_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* Addresses of the fake device are those of the host with this bit set: whoever reads device memory
 * as if it were the host's dies of it. The next two say on which of the devices it lies. */
#define FAKE_BIT ((uintptr_t)1 << 62)
#define FAKE_NUMBER(n) ((uintptr_t)(n) << 60)
#define FAKE_BITS (FAKE_BIT | FAKE_NUMBER(3))

static inline void *fake_to_host(const void *device) {
    return device ? (void *)((uintptr_t)device & ~FAKE_BITS) : NULL;
}

/* A stream begins with the function that puts work on it; `n` bytes of arguments are copied. */
typedef struct fake_stream {
    void (*submit)(struct fake_stream *stream, void (*work)(const void *args), const void *args,
                   size_t n);
} fake_stream;

#endif

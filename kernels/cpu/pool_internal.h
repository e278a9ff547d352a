/* Pooling: the plan, shared by the files for each instruction set. */
#ifndef QB_CPU_POOL_INTERNAL_H
#define QB_CPU_POOL_INTERNAL_H

#include "cpu_internal.h"

typedef struct qb_pool qb_pool;

/* The elements of a window that lie inside the data: planes x rows x columns pixels, `deep`, `down`
 * and `right` bytes apart, from `first`. `count` divides an average. */
typedef struct qb_pool_window {
    const char *first;
    int64_t planes, rows, columns, deep, down, right;
    double count;
    char *out;
    int64_t channels;
} qb_pool_window;

struct qb_pool {
    /* All channels of one window with at least one element. */
    void (*run)(const qb_pool *pool, const qb_pool_window *window);
    qb_epilogue epilogue;
    qb_dtype in_dtype, out_dtype;
    float scale; /* of the data */
    int32_t zero;
    bool retypes;       /* quantized values in and floats out, or the other way round */
    bool converts;      /* maxima of quantized values get other parameters */
    uint8_t table[256]; /* by the byte of the code */
    qb_pool_kind kind;
    int64_t images, in[QB_SPATIAL], out[QB_SPATIAL], channels;
    qb_window window;                                     /* of QB_SPATIAL dimensions */
    int64_t in_stride, in_offset, out_stride, out_offset; /* elements */
    int64_t split, per_task, n_tasks; /* pieces of the channels; rows of output */
    int threads;
};

/* Maxima and averages of f32, u8 and s8; bf16 with vectors. */
void qb_pool_max_generic(const qb_pool *pool, const qb_pool_window *window);
void qb_pool_average_generic(const qb_pool *pool, const qb_pool_window *window);
#if QB_X86
void qb_pool_max_avx512(const qb_pool *pool, const qb_pool_window *window);
void qb_pool_average_avx512(const qb_pool *pool, const qb_pool_window *window);
void qb_pool_max_avx2(const qb_pool *pool, const qb_pool_window *window);
void qb_pool_average_avx2(const qb_pool *pool, const qb_pool_window *window);
void qb_pool_max_sse2(const qb_pool *pool, const qb_pool_window *window);
void qb_pool_average_sse2(const qb_pool *pool, const qb_pool_window *window);
#endif

#endif

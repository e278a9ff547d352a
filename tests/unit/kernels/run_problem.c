#include "run_problem.h"

#include <string.h>

void *run_problem(const char *tactic, const qb_problem *problem, const void *const *in,
                  int threads) {
    qb_ctx cx;
    qb_kernel *kernel = NULL;
    bool constant[QB_MAX_INPUTS] = {false};
    qb_ctx_init(&cx);
    const qb_tactic *found = qb_tactic_find(tactic);
    assert_non_null(found);
    assert_true(qb_tactic_takes(found, problem, constant));
    assert_ok(&cx, found->create(&cx, found, problem, constant, threads, &kernel));
    assert_int_equal(kernel->packed_bytes, 0);
    size_t bytes = qb_desc_bytes(&kernel->problem.out);
    unsigned char *out = qb_alloc_aligned(&cx, bytes + GUARD, 1);
    assert_non_null(out);
    memset(out, GUARD_BYTE, bytes + GUARD);
    qb_launch args = {.in = in, .out = out};
    assert_ok(&cx, kernel->launch(&cx, kernel, &args));
    for (size_t i = bytes; i < bytes + GUARD; i++) assert_int_equal(out[i], GUARD_BYTE);
    qb_kernel_free(kernel);
    return out;
}

qb_desc float_desc(qb_shape shape) {
    return (qb_desc){.dtype = QB_DTYPE_F32, .shape = shape, .q = {.axis = -1}};
}

qb_desc quantized_desc(qb_dtype dtype, qb_shape shape, const float *scale, const int32_t *zero) {
    return (qb_desc){.dtype = dtype,
                     .shape = shape,
                     .q = {.dtype = dtype, .axis = -1, .n = 1, .scale = scale, .zero = zero}};
}

void *random_data(qb_rng *rng, qb_dtype dtype, int64_t n) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    void *data = qb_alloc(&cx, (size_t)n, qb_dtype_size(dtype));
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == QB_DTYPE_F32)
            ((float *)data)[i] = (float)(2.0 * qb_rng_uniform(rng) - 1.0);
        else if (dtype == QB_DTYPE_S32)
            ((int32_t *)data)[i] = (int32_t)qb_rng_below(rng, 20001) - 10000;
        else
            ((uint8_t *)data)[i] = (uint8_t)qb_rng_below(rng, 256);
    }
    return data;
}

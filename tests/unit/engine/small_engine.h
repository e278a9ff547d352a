/* A small engine: Conv, Relu, pooling, MatMul on seeded weights. */
#ifndef SMALL_ENGINE_H
#define SMALL_ENGINE_H

#include "qb_test.h"

#include "engine/engine.h"

#define SMALL_INPUTS (2 * 8 * 6 * 6)
#define SMALL_OUTPUTS (2 * 5)

typedef struct small_engine {
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH]; /* small.qbe in a new folder */
} small_engine;

void small_engine_make(small_engine *f, const char *backends);
void small_engine_release(small_engine *f);
/* SMALL_INPUTS normal numbers by seed. */
void small_engine_input(uint64_t seed, float *x);

#endif

/* A graph as tools for dynamic quantization write them: its products have codes of the data as they
 * come, with scales and zero points that are computed on the way. */
#ifndef DYNAMIC_MODEL_H
#define DYNAMIC_MODEL_H

#include "qb_test.h"

#include "engine/engine.h"

#define DYNAMIC_ROWS (4 * 33)
#define DYNAMIC_COLUMNS 30

/* Input "x" [4, 33, 96] -> to 80 columns: signed weight, a scale for each column, bias -> Relu ->
 * to 30 columns: unsigned weight, a zero point for each column -> "y" [4, 33, 30] and the sums of
 * both products, [4, 33, 80] and [4, 33, 30] of s32. The sums are beyond what f16 can hold. */
void dynamic_model(qb_ctx *cx, qb_graph **out);
/* An engine of it; `without`: sources of tactics that are left out. */
qb_engine *dynamic_model_build(qb_ctx *cx, const char *backends, qb_dtype type, uint32_t without);

typedef struct dynamic_results {
    float y[DYNAMIC_ROWS * DYNAMIC_COLUMNS];
    int32_t sums[DYNAMIC_ROWS * 80], last[DYNAMIC_ROWS * DYNAMIC_COLUMNS];
} dynamic_results;

/* On seeded data. */
void dynamic_model_run(qb_ctx *cx, const qb_engine *engine, dynamic_results *out);
/* ||actual - expected|| / ||expected|| of y. */
double dynamic_model_error(const dynamic_results *actual, const dynamic_results *expected);

#endif

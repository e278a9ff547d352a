/* A graph as tools for dynamic quantization write them: its products have quantized values of the
 * data as they come, with scales and zero points that are computed on the way. */
#ifndef DYNAMIC_MODEL_H
#define DYNAMIC_MODEL_H

#include "qb_test.h"

#include "engine/engine.h"

#define DYNAMIC_ROWS (4 * 33)
#define DYNAMIC_MIDDLE 256
#define DYNAMIC_COLUMNS 30

/* How sums and scales come to where they are multiplied. */
typedef enum dynamic_form {
    DYNAMIC_PLAIN,
    DYNAMIC_SUMS_RESHAPED,   /* before they are cast */
    DYNAMIC_FLOATS_RESHAPED, /* behind that */
    DYNAMIC_SCALE_RESHAPED,  /* the data's */
    DYNAMIC_SCALES_COMPUTED, /* both, as of two activations */
    DYNAMIC_SUMS_HIDDEN,     /* plain, but sums are no outputs: casts and scales may go with them */
    DYNAMIC_FORMS
} dynamic_form;

/* Input "x" [4, 33, 512] -> to 256 columns: signed weight, a scale for each column, bias -> Relu ->
 * to 30 columns: unsigned weight, a zero point for each column -> "y" [4, 33, 30], its quantized
 * values, scale and zero point, and the sums of both products ([4, 33, 256] and [4, 33, 30] of
 * s32). The sums are beyond what f16 can hold, and the scales below. */
void dynamic_model(qb_ctx *cx, dynamic_form form, qb_graph **out);
/* An engine of it; `without`: sources of tactics that are left out. */
qb_engine *dynamic_model_build(qb_ctx *cx, dynamic_form form, const char *backends, qb_dtype type,
                               uint32_t without);

typedef struct dynamic_results {
    float y[DYNAMIC_ROWS * DYNAMIC_COLUMNS], scale;
    int32_t sums[DYNAMIC_ROWS * DYNAMIC_MIDDLE], last[DYNAMIC_ROWS * DYNAMIC_COLUMNS];
    uint8_t codes[DYNAMIC_ROWS * DYNAMIC_COLUMNS], zero;
} dynamic_results;

/* On seeded data. *out is cleared before. */
void dynamic_model_run(qb_ctx *cx, const qb_engine *engine, dynamic_results *out);
/* ||actual - expected|| / ||expected|| of y. */
double dynamic_model_error(const dynamic_results *actual, const dynamic_results *expected);

#endif

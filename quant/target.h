/* Targets: the runtimes that Q/DQ files are written for. One row in targets.def and one file in
 * targets/ each; docs/targets.md has the rules and where they come from. */
#ifndef QB_QUANT_TARGET_H
#define QB_QUANT_TARGET_H

#include "graph/graph.h"

/* Types and zero points of quantized activations. */
typedef enum qb_act_scheme {
    QB_SCHEME_U8_AFFINE, /* default: never-negative tensors get zero point 0 and all 256 quantized
                            values */
    QB_SCHEME_S8_AFFINE,
    QB_SCHEME_S8_SYMMETRIC /* zero point 0, [-127, 127]: what TensorRT requires */
} qb_act_scheme;

typedef struct qb_target {
    const char *name;       /* "ort-cpu" */
    const char *other_name; /* what its users call it, "onnxruntime"; NULL: the same */
    const char *summary;    /* one line for the help */
    qb_act_scheme activations;
    bool float_bias;       /* biases stay f32; otherwise s32 with scale Sx * Sw[c] */
    bool float_functions;  /* operators that qbench runs as tables (Sigmoid ...) stay float */
    bool has_16_bits;      /* activations may be u16 or s16 */
    bool quantized_layers; /* each convolution's own output is quantized: residuals and activations
                              read integers, and a clamp that the quantized values imply is left out
                            */
} qb_target;

const qb_target *const *qb_targets(int32_t *n);
/* By name; QB_STATUS_USAGE listing the known ones. */
qb_status qb_target_find(qb_ctx *cx, const char *name, const qb_target **out);
#endif

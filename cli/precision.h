/* What `compare` can be asked for: fp32, fp16, int8[:METHOD][+SCHEME][+per-tensor][+weights-RANGE].
 */
#ifndef QB_CLI_PRECISION_H
#define QB_CLI_PRECISION_H

#include "calib/table.h"
#include "quant/quant.h"

#define QB_SCHEME_WORDS "u8-affine, s8-affine or s8-symmetric"
#define QB_PRECISION_FORM                                                                          \
    "int8[:METHOD][+u8-affine|+s8-affine|+s8-symmetric][+per-tensor][+weights-mse]"

/* Why a processor refuses fp16. */
#define QB_NO_FP16                                                                                 \
    "the cpu backend computes in fp32 and int8 only, its own kernels and oneDNN's alike; fp16 "    \
    "runs on a GPU (--providers cuda)"

typedef enum qb_precision_kind {
    QB_PRECISION_FP32,
    QB_PRECISION_FP16,
    QB_PRECISION_INT8
} qb_precision_kind;

typedef struct qb_precision {
    qb_precision_kind kind;
    char method[QB_METHOD_TEXT]; /* "": the calibration's chosen one */
    qb_act_scheme activations;
    bool per_tensor_weights;
    const qb_weight_range *weights; /* NULL: the default */
} qb_precision;

/* What the text leaves open keeps the value that *out comes with. Errors are QB_STATUS_USAGE. */
qb_status qb_precision_parse(qb_ctx *cx, const char *text, qb_precision *out);
/* One of QB_SCHEME_WORDS; false leaves *out alone. */
bool qb_scheme_parse(const char *text, qb_act_scheme *out);

#endif

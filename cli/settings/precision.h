/* What `compare` can be asked for: fp32, tf32, fp16, bf16,
 * int8[:METHOD][+SCHEME][+per-tensor][+weights-RANGE][+recover], best[...] with the same behind it,
 * each with @WHERE behind it: the providers or families of kernels that it runs on.
 */
#ifndef QB_CLI_SETTINGS_PRECISION_H
#define QB_CLI_SETTINGS_PRECISION_H

#include "calib/table.h"
#include "engine/spec.h"
#include "quant/quant.h"

#define QB_SCHEME_WORDS "u8-affine, s8-affine or s8-symmetric"
#define QB_PRECISION_FORM                                                                          \
    "int8[:METHOD][+u8-affine|+s8-affine|+s8-symmetric][+per-tensor][+weights-mse][+recover]"

#define QB_WHERE_FORM "[@cpu|@dnnl|@ref|@cuda]"

typedef enum qb_precision_kind {
    QB_PRECISION_FP32,
    QB_PRECISION_TF32, /* fp32 whose products may round their factors to TF32 */
    QB_PRECISION_FP16,
    QB_PRECISION_BF16,
    QB_PRECISION_INT8, /* wherever an integer kernel exists */
    QB_PRECISION_BEST  /* of integers and floats what is fastest, group by group */
} qb_precision_kind;

typedef struct qb_precision {
    qb_precision_kind kind;
    char method[QB_METHOD_TEXT]; /* "": the calibration's chosen one */
    qb_act_scheme activations;
    bool per_tensor_weights;
    const qb_weight_range *weights; /* NULL: the default */
    bool recover;                   /* of the recovered model, see qb_stage_recover */
    qb_build_spec spec;             /* of its engines; the backends live as long as the text */
    bool placed;                    /* the text says where it runs */
} qb_precision;

/* What the text leaves open keeps the value that *out comes with. Errors are QB_STATUS_USAGE, but
 * those of a device that is not there. */
qb_status qb_precision_parse(qb_ctx *cx, const char *text, qb_precision *out);
/* Is it of a quantized graph: does it need a calibration? */
bool qb_precision_is_quantized(const qb_precision *precision);
/* Only what stands behind the '@': spec.backends and placed. */
qb_status qb_precision_place(qb_ctx *cx, const char *text, qb_precision *out);
/* Its spec with the type of float values: on a device what is not INT8 is F16, but in an FP32 or
 * TF32 engine. Returns NULL, or why its backends do not compute in it. */
const char *qb_precision_spec(const qb_precision *precision, qb_build_spec *out);
/* Whether a word that compare is given is an engine file: by its ending, else by what is in it; but
 * what reads as a precision is one, whatever files there are ("./int8" is a file). */
bool qb_precision_names_engine(const char *text);
/* The '@' in front of where a precision or a file runs; the text's end where it has none. A file's
 * name may hold one: "net@2x.onnx". */
const char *qb_precision_where(const char *text);
/* One of QB_SCHEME_WORDS; false leaves *out alone. */
bool qb_scheme_parse(const char *text, qb_act_scheme *out);
const char *qb_scheme_text(qb_act_scheme scheme); /* and back */

#endif

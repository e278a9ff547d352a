/* ONNX test cases: a folder with model.onnx and test_data_set_N/{input,output}_N.pb, run by the
 * operators' definitions or by an engine and compared with the expected outputs. */
#ifndef QB_EVAL_VERIFY_H
#define QB_EVAL_VERIFY_H

#include "engine/spec.h"

/* The backend name that stands for the operators' own `eval`, node by node. */
#define QB_VERIFY_EVAL "eval"

typedef struct qb_verify_options {
    qb_build_spec spec; /* but for shapes; "eval" as its backends: no engine */
    /* A float output passes when |got - expected| <= atol + rtol |expected| for all elements (NaN
     * equals NaN); NaN here takes the type's own: rtol 1e-5 for f32 and f64, 1e-3 for f16, 1e-2 for
     * bf16, and atol 1e-6. All other types are compared bit for bit. */
    double rtol, atol;
} qb_verify_options;

typedef enum qb_outcome {
    QB_OUTCOME_PASSED,
    QB_OUTCOME_FAILED,
    QB_OUTCOME_UNSUPPORTED, /* refused by name: an operator, a type, shapes that follow values */
    QB_OUTCOME_COUNT
} qb_outcome;
const char *qb_outcome_text(qb_outcome outcome);

typedef struct qb_case_result {
    qb_outcome outcome;
    int32_t n_sets;    /* data sets compared */
    double max_error;  /* largest |got - expected| seen */
    char reason[1024]; /* "" when passed */
} qb_case_result;

/* Runs one case. The status is QB_OK whatever the outcome, but for an interrupt.
 *
 * An engine gets the inputs as inputs. When it refuses that because shapes depend on values, the
 * inputs of rank 0 and 1 are fixed to the case's values, as one would export such a model. */
qb_status qb_verify_case(qb_ctx *cx, const char *folder, const qb_verify_options *options,
                         qb_case_result *out);

/* The cases that `path` stands for: itself when it holds a model.onnx, else its subfolders that do,
 * by name. New strings in a new array (qb_cases_free). None is an error. */
qb_status qb_cases_find(qb_ctx *cx, const char *path, char ***out, int32_t *n);
void qb_cases_free(char **cases, int32_t n);
#endif

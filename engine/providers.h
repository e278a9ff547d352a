/* Execution providers: the places where nodes may run, "cuda" and "cpu", in the user's order.
 *
 * A list is resolved once, into the backends of an engine (qb_build_spec.backends): the first
 * provider of the list that is there takes every node that it can run, the CPU the others, with
 * copies planned where they meet. */
#ifndef QB_ENGINE_PROVIDERS_H
#define QB_ENGINE_PROVIDERS_H

#include "engine/engine.h"

/* "cuda,cpu" -> *backends (constant text; NULL: the default of the CPU). A provider that is not
 * there is passed over with one warning, which is *missing as well (new memory; NULL when there was
 * none); the CPU stands last whether it is named or not, as in onnxruntime. QB_STATUS_USAGE for an
 * unknown name or an empty list. */
qb_status qb_providers_choose(qb_ctx *cx, const char *list, const char **backends, char **missing);

/* What stands behind an '@' in "fp32@cuda": providers as above ("cuda,cpu"), or families of kernels
 * ("dnnl", "cpu,ref") -> *backends, constant text or the list itself; "cpu" alone is the provider.
 * Nothing is passed over: QB_STATUS_USAGE for a name that this build does not have, and the
 * device's own error where there is none. */
qb_status qb_backends_require(qb_ctx *cx, const char *list, const char **backends);

/* How many steps of an engine run where, and how many copy from one memory space to the other. */
typedef struct qb_provider_count {
    int32_t cuda, cpu, copies;
} qb_provider_count;
void qb_providers_count(const qb_engine *engine, qb_provider_count *out);

/* Where a step runs: "cuda", "cpu", or "copy" between them. */
const char *qb_provider_of(const qb_step_info *step);
#endif

/* How a project quantizes. */
#include "cli/stages/stages_internal.h"

qb_precision qb_stage_precision(const qb_project *project) {
    return (qb_precision){.kind = QB_PRECISION_INT8,
                          .activations = project->activations,
                          .per_tensor_weights = project->per_tensor_weights,
                          .weights = project->weights,
                          .spec = project->spec};
}

qb_quant_options qb_stage_quantization(const qb_project *project, const qb_precision *precision,
                                       const char *method) {
    const qb_precision own = qb_stage_precision(project), *p = precision ? precision : &own;
    return (qb_quant_options){.method = method,
                              .activations = p->activations,
                              .per_tensor_weights = p->per_tensor_weights,
                              .weights = p->weights,
                              .keep_float = project->keep_float};
}

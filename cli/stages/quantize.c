/* How a project quantizes. */
#include "cli/stages/stages_internal.h"
#include "engine/backends.h"
#include "search/fastest.h"

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
                              .keep_float = project->keep_float,
                              .activations_16 = project->activations_16};
}

/* The method of a precision by its name in the table. */
static qb_status find_method(qb_ctx *cx, const qb_table *table, const qb_precision *precision,
                             const char **method) {
    const int32_t index = precision->method[0] ? qb_table_method(table, precision->method) : 0;
    if (index < 0)
        return qb_fail(cx, QB_STATUS_NOTFOUND,
                       "the calibration has no method '%s': run 'qbench calibrate --method %s'",
                       precision->method, precision->method);
    *method = table->method[index];
    return QB_OK;
}

static qb_quant_options options_for(const qb_project *project, const qb_stage_source *source,
                                    const qb_precision *precision, const char *method) {
    qb_quant_options options = qb_stage_quantization(project, precision, method);
    options.missing_stays_float = qb_table_is_imported(source->table);
    options.unrounded = source->unrounded;
    return options;
}

qb_status qb_stage_quantize(qb_ctx *cx, const qb_project *project, const qb_stage_source *source,
                            const qb_precision *precision, qb_graph **out, const char **method) {
    QB_TRY(find_method(cx, source->table, precision, method));
    const qb_quant_options options = options_for(project, source, precision, *method);
    qb_quant_report report;
    QB_TRY(qb_quantize(cx, source->graph, source->table, &options, out, &report));
    if (report.tensors_16 > 0)
        qb_warn(cx,
                "activations in 16 bits: %d are simulated: layers that read them run in float, "
                "the accuracy is theirs, the latency is not",
                report.tensors_16);
    return QB_OK;
}

qb_status qb_stage_way(qb_ctx *cx, const qb_project *project, const qb_stage_source *source,
                       const qb_precision *precision, qb_space_way *out) {
    const char *method;
    QB_TRY(find_method(cx, source->table, precision, &method));
    *out = (qb_space_way){.name = method,
                          .graph = source->graph,
                          .table = source->table,
                          .options = options_for(project, source, precision, method)};
    return QB_OK;
}

/* As the plan has it, or what is fastest here. */
static qb_status choose(qb_ctx *cx, const qb_space *space, const qb_build_spec *spec,
                        qb_graph **out, qb_dtype *floats) {
    qb_alternative planned = {0};
    if (!spec->plan) return qb_fastest(cx, space, out, floats);
    QB_TRY(qb_plan_choice(cx, spec->plan, space, &planned));
    const qb_status status = qb_space_quantize(cx, space, &planned, out);
    *floats = planned.floats;
    qb_free(planned.is_float);
    return status;
}

qb_status qb_stage_quantize_for(qb_ctx *cx, const qb_project *project,
                                const qb_stage_source *source, const qb_precision *precision,
                                qb_build_spec *spec, qb_graph **out, const char **method) {
    const bool on_device = qb_backends_name_device(spec->backends);
    if (precision->kind != QB_PRECISION_BEST || on_device)
        return qb_stage_quantize(cx, project, source, precision, out, method);
    qb_space_way way;
    QB_TRY(qb_stage_way(cx, project, source, precision, &way));
    *method = way.name;
    qb_build_spec usual = *spec;
    qb_space *space;
    usual.plan = NULL;
    usual.check = false; /* the engine that is taken is checked */
    if (spec->n_profiles > 0) usual.input_shapes = spec->profiles[0].opt;
    usual.n_profiles = 0;
    QB_TRY(qb_space_create(cx, &way, 1, &usual, &space));
    const qb_status status = choose(cx, space, spec, out, &spec->float_type);
    spec->no_mixed_precision = true;
    qb_space_free(space);
    return status;
}

/* From a graph to its plan: candidates are lowered while tactics are measured. */
#include <string.h>

#include "base/log.h"
#include "engine/backends.h"
#include "engine/plans_internal.h"
#include "engine/realize/f16_constants_internal.h"
#include "engine/tune/device_timer_internal.h"
#include "engine/tune/tune_internal.h"

/* ---- the selector ---------------------------------------------------------------------------- */

static qb_status load_timings(qb_ctx *cx, const qb_engine *e, qb_tuning_state *known) {
    if (known->timings) return QB_OK;
    QB_FREED char *name = QB_NEW(cx, qb_format(cx, "%s, qbench %s", e->on.name, QB_VERSION));
    return qb_timings_load(cx, known->cache, name, &known->timings);
}

static qb_status open_device(qb_lowering *b) {
    qb_tuning *t = b->state;
    if (t->usual) return QB_OK;
    QB_TRY(load_timings(b->cx, b->engine, t->known));
    b->compiled = qb_timings_compiled(t->known->timings);
    return qb_scratch_create(b->cx, b->engine->device, &t->scratch);
}

static qb_status precision(qb_lowering *b) {
    const qb_tuning *t = b->state;
    return t->usual ? qb_f16_as_rows(b, t->usual, false) : qb_mixed_precision(b);
}

static qb_status floats(qb_lowering *b) {
    const qb_tuning *t = b->state;
    if (!t->usual) return qb_f32_by_range(b);
    qb_f32_as_rows(b, t->usual);
    return QB_OK;
}

static qb_status choose(qb_lowering *b, const qb_selection *wanted, qb_kernel **out) {
    ((qb_tuning *)b->state)->chosen[wanted->copied != NULL] = (qb_plan_row){0};
    return (wanted->on_device ? qb_device_select : qb_host_select)(b, wanted, out);
}

/* Times and reasons of the selection make the step's row whole. */
static qb_status record(qb_lowering *b, const char *value, bool is_copy, qb_step *step) {
    qb_tuning *t = b->state;
    qb_plan *plan = b->engine->plan;
    qb_plan_row row = qb_lower_row(b, value, is_copy, step);
    if (step->kernel) {
        const qb_plan_row *chosen = &t->chosen[is_copy];
        row.seconds = chosen->seconds;
        row.alternatives = chosen->alternatives;
        row.n_alternatives = chosen->n_alternatives;
        row.note = chosen->note;
    }
    if (!is_copy && step->on_device && step->kernel) {
        row.fuse_reason = QB_MOVE(t->fuse_reason);
        row.f16_reason = b->value[b->groups.group[b->group].out].f16_reason;
    }
    if (!is_copy) row.fallback_reason = b->fallback_reason;
    return qb_plan_add(b->cx, plan, &plan->table[0], &row, &step->row);
}

static const qb_selector measuring = {open_device,       precision, floats,
                                      qb_fuse_conv_pool, choose,    record};

/* ---- candidates ------------------------------------------------------------------------------ */

/* What is tuned, and how. */
typedef struct tuner {
    const qb_graph *graph;
    const qb_build_spec *spec; /* resolved, with shapes */
    qb_plans *plans;
    qb_tuning tuning;
} tuner;

int64_t qb_common_batch(const qb_graph *graph, const qb_shape *shapes) {
    const int64_t batch = graph->n_inputs > 0 && shapes[0].rank > 0 ? shapes[0].dim[0] : 0;
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (shapes[i].rank < 1 || shapes[i].dim[0] != batch) return 0;
    return batch;
}

/* May a batch go through the steps in parts? */
static bool splits(const tuner *t) {
    return t->graph && !t->spec->observable && !qb_backends_name_device(t->spec->backends) &&
           qb_common_batch(t->graph, t->spec->input_shapes) > 1;
}

/* A candidate of a bound graph (taken over); the plan is its own. */
static qb_status lower_bound_graph(qb_ctx *cx, const tuner *t, qb_graph *bound, qb_engine **out) {
    qb_tuning tuning = t->tuning;
    qb_plan *plan = NULL;
    qb_status status = qb_plan_create(cx, t->spec, bound->n_inputs, &plan);
    if (status == QB_OK && t->spec->time_tactics && !tuning.usual)
        status = qb_workers_create(cx, t->spec->threads, &tuning.workers);
    if (status != QB_OK) {
        qb_graph_free(bound);
        qb_plan_free(plan);
        return status;
    }
    /* What runs in the candidate, or is compared with the caches, has to be known. */
    const bool runs = !tuning.usual && qb_backends_name_device(t->spec->backends);
    const qb_lower_input input = {.graph = bound,
                                  .plan = plan,
                                  .plans = t->plans,
                                  .compiled = t->plans       ? qb_plans_compiled(t->plans)
                                              : tuning.known ? tuning.known->compiled
                                                             : NULL,
                                  .denied = tuning.known ? tuning.known->denied : NULL,
                                  .without_memory = !runs && !splits(t),
                                  .selector = &measuring,
                                  .state = &tuning};
    status = qb_lower(cx, &input, out);
    qb_scratch_free(tuning.scratch);
    qb_workers_free(tuning.workers);
    if (status != QB_OK) qb_plan_free(plan);
    return status;
}

/* The graph's constants are shared: a candidate does not outlive it. */
static qb_status candidate(qb_ctx *cx, const tuner *t, const qb_shape *shapes, qb_engine **out) {
    qb_graph *bound;
    QB_TRY(qb_graph_bind_sharing(cx, t->graph, shapes, &bound));
    return lower_bound_graph(cx, t, bound, out);
}

/* A candidate for `items` of the batch; *out is NULL when the graph does not take that number. */
static qb_status lower_part(qb_ctx *cx, const tuner *t, int64_t items, qb_engine **out) {
    const size_t n = (size_t)t->graph->n_inputs;
    qb_shape *shapes = qb_alloc(cx, n, sizeof *shapes);
    *out = NULL;
    if (!shapes) return cx->code;
    for (size_t i = 0; i < n; i++) {
        shapes[i] = t->spec->input_shapes[i];
        shapes[i].dim[0] = items;
    }
    const qb_status status = candidate(cx, t, shapes, out);
    qb_free(shapes);
    if (status != QB_STATUS_INVALID && status != QB_STATUS_UNSUPPORTED) return status;
    qb_ctx_clear(cx);
    return QB_OK;
}

/* On the host: replaces a candidate for a large batch by one for a part of it, where that is the
 * same.
 */
static qb_status split(qb_ctx *cx, const tuner *t, qb_engine **engine) {
    const size_t budget = qb_cache_budget();
    qb_engine *one, *part;
    if (!splits(t) || (*engine)->memory.arena <= budget) return QB_OK;
    const int64_t batch = qb_common_batch(t->graph, t->spec->input_shapes);
    QB_TRY(lower_part(cx, t, 1, &one));
    if (!one || !qb_is_separable((*engine)->graph, one->graph, batch)) {
        qb_engine_free(one);
        return QB_OK;
    }
    const int64_t items = qb_items_at_once(batch, one->memory.arena, budget);
    part = one;
    if (items > 1) {
        qb_engine_free(one);
        QB_TRY(lower_part(cx, t, items, &part));
    }
    if (!part || items == batch) {
        qb_engine_free(part);
        return QB_OK;
    }
    qb_debug(cx, "batch of %lld in %lld parts", (long long)batch, (long long)(batch / items));
    part->plan->table[0].parts = batch / items;
    qb_engine_free(*engine);
    *engine = part;
    return QB_OK;
}

/* The candidate goes, its plan stays. */
static qb_plan *take_plan(qb_engine *candidate) {
    qb_plan *plan = QB_MOVE(candidate->plan);
    qb_engine_destroy(candidate);
    return plan;
}

/* Tactics that do better in the whole run than alone. */
static qb_status in_graph(qb_ctx *cx, const tuner *t, qb_engine *engine) {
    const qb_tuning_state *known = t->tuning.known;
    if (!engine->device || t->spec->observable || !known || !known->timings) return QB_OK;
    return qb_tune_in_graph(cx, engine, known->timings);
}

static qb_status save_timings(qb_ctx *cx, const qb_tuning_state *known) {
    if (!known || !known->cache || !known->timings) return QB_OK;
    return qb_timings_save(cx, known->timings, known->cache);
}

static qb_status tune(qb_ctx *cx, const tuner *t, qb_engine *built, qb_plan **out) {
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = built;
    QB_TRY(save_timings(cx, t->tuning.known));
    QB_TRY(split(cx, t, &engine));
    QB_TRY(in_graph(cx, t, engine));
    QB_TRY(save_timings(cx, t->tuning.known));
    *out = take_plan(QB_MOVE(engine));
    return QB_OK;
}

qb_compiled *qb_plans_compiled(const qb_plans *plans) {
    const qb_tuning_state *building = plans->tuning;
    if (!building) return plans->compiled;
    return building->timings ? qb_timings_compiled(building->timings) : building->compiled;
}

/* ---- producers of plans ---------------------------------------------------------------------- */

qb_status qb_plan_tune(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                       qb_plans *plans, qb_tuning_state *known, qb_plan **out) {
    const qb_plan *like = spec->like ? spec->like->plan : NULL;
    bool at_usual = like && like->spec.n_profiles == 0;
    for (int32_t i = 0; at_usual && i < graph->n_inputs; i++)
        at_usual = qb_shape_equal(&spec->input_shapes[i], &like->spec.input_shapes[i]);
    const tuner t = {
        .graph = graph,
        .spec = spec,
        .plans = plans,
        .tuning = {.known = known, .usual = like ? like->table : NULL, .at_usual = at_usual}};
    qb_engine *engine;
    QB_TRY(candidate(cx, &t, spec->input_shapes, &engine));
    return tune(cx, &t, engine, out);
}

qb_status qb_plan_tune_bound(qb_ctx *cx, qb_graph *graph, const qb_build_spec *spec,
                             qb_plans *plans, qb_tuning_state *known, qb_plan **out) {
    const tuner t = {.spec = spec, .plans = plans, .tuning = {.known = known}};
    qb_engine *engine;
    QB_TRY(lower_bound_graph(cx, &t, graph, &engine));
    return tune(cx, &t, engine, out);
}

qb_status qb_plan_for_profile(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                              qb_plan **out) {
    qb_build_spec spec = plans->plan->spec;
    const bool timed = plans->device_name || spec.time_tactics;
    spec.input_shapes = shapes;
    spec.n_profiles = 0;
    const tuner t = {.graph = plans->graph,
                     .spec = &spec,
                     .plans = plans,
                     .tuning = {.usual = timed ? &plans->plan->table[profile] : NULL,
                                .at_usual = qb_plans_are_usual(plans, profile, shapes)}};
    qb_engine *engine;
    QB_TRY(candidate(cx, &t, shapes, &engine));
    return tune(cx, &t, engine, out);
}

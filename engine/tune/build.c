/* qb_engine_build: tunes a plan, realizes it, checks what it computes, and compares what INT8 and
 * FP16 take. */
#include <string.h>

#include "base/log.h"
#include "base/processor.h"
#include "engine/plans_internal.h"
#include "engine/realize/realize_internal.h"
#include "engine/run/context_internal.h"
#include "engine/tune/tune_internal.h"
#include "graph/dequantize.h"

#define CLEARLY 0.99 /* INT8 must take less than this share of FP16's time */

/* What the caller asked for, resolved. */
typedef struct request {
    const qb_graph *graph;
    qb_build_spec spec;
    qb_backend_list backends;
    qb_arena *arena; /* of texts and shapes */
    qb_tuning_state known;
    qb_wrong_steps wrong;
} request;

/* ---- the spec -------------------------------------------------------------------------------- */

/* Concrete input shapes: the caller's, or the model's with the batch in place of its symbol. */
static qb_status input_shapes(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                              qb_shape *shapes) {
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_value *input = &graph->values[graph->inputs[i]];
        if (spec->input_shapes) {
            shapes[i] = spec->input_shapes[i];
            continue;
        }
        shapes[i] = input->shape;
        if (shapes[i].rank > 0 && shapes[i].dim[0] < 0)
            shapes[i].dim[0] = spec->batch > 0 ? spec->batch : 1;
        else if (shapes[i].rank > 0 && spec->batch > 1 && shapes[i].dim[0] != spec->batch)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input '%s': the model has a fixed batch of %lld, got %lld", input->name,
                           (long long)shapes[i].dim[0], (long long)spec->batch);
        if (!qb_shape_known(&shapes[i])) {
            char text[128];
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input '%s': shape %s is not known; give the input shapes", input->name,
                           qb_shape_text(&input->shape, text, sizeof text));
        }
    }
    return QB_OK;
}

qb_status qb_build_check_float_type(qb_ctx *cx, const qb_build_spec *spec,
                                    const qb_backend_list *backends) {
    if (spec->float_type == QB_DTYPE_F16 && !backends->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "float type f16: expected a device's backend");
    if (spec->float_type != QB_DTYPE_BF16) return QB_OK;
    if (backends->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "float type bf16: expected a backend of the host");
    const char *reason = qb_engine_no_bf16(spec->backends);
    return reason ? qb_fail(cx, QB_STATUS_UNSUPPORTED, "float type bf16: %s", reason) : QB_OK;
}

static qb_status resolve(qb_ctx *cx, request *r) {
    qb_build_spec *spec = &r->spec;
    if (spec->threads < 1) spec->threads = qb_threads(cx);
    if (!spec->float_type) spec->float_type = QB_DTYPE_F32;
    QB_TRY(qb_processor_check(cx));
    QB_TRY(qb_backends_parse(cx, spec->backends, &r->backends));
    QB_TRY(qb_build_check_float_type(cx, spec, &r->backends));
    QB_TRY(qb_arena_create(cx, &r->arena));
    QB_TRY_NEW(cx, spec->backends = qb_backends_text(cx, &r->backends, r->arena));
    r->known.cache = spec->timing_cache;
    if (spec->n_profiles > 0) return QB_OK;
    qb_shape *shapes = qb_arena_alloc(cx, r->arena, (size_t)r->graph->n_inputs, sizeof *shapes);
    if (!shapes) return cx->code;
    QB_TRY(input_shapes(cx, r->graph, spec, shapes));
    spec->input_shapes = shapes;
    return QB_OK;
}

/* ---- one engine ------------------------------------------------------------------------------ */

/* Fails unless the items of the batch have nothing to do with each other. */
static qb_status check_apart(qb_ctx *cx, const request *r) {
    const int32_t n = r->graph->n_inputs;
    QB_RELEASED(qb_graph_free_at) qb_graph *whole = NULL, *one = NULL;
    if (!r->spec.items_apart || r->spec.n_profiles > 0) return QB_OK;
    const int64_t batch = qb_common_batch(r->graph, r->spec.input_shapes);
    if (batch == 1) return QB_OK;
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *shapes));
    for (int32_t i = 0; i < n; i++) shapes[i] = r->spec.input_shapes[i];
    QB_TRY(qb_graph_bind_sharing(cx, r->graph, shapes, &whole));
    for (int32_t i = 0; batch > 0 && i < n; i++) shapes[i].dim[0] = 1;
    QB_TRY(qb_graph_bind_sharing(cx, r->graph, shapes, &one));
    if (batch == 0 || !qb_is_separable(whole, one, batch))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "the model may mix the items of a batch");
    return QB_OK;
}

/* The engine that a plan (taken over, also on failure) says, packed. */
static qb_status realize(qb_ctx *cx, const qb_graph *graph, qb_plan *plan, qb_compiled *compiled,
                         qb_engine **out) {
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    qb_status status = qb_plan_realize(cx, graph, plan, NULL, compiled, &engine);
    if (status != QB_OK) {
        qb_plan_free(plan);
        return status;
    }
    QB_TRY(qb_engine_pack(cx, engine));
    *out = QB_MOVE(engine);
    return QB_OK;
}

/* A plan is tuned, unless `given` (taken over, also on failure), and realized. */
static qb_status build_once(qb_ctx *cx, request *r, const qb_graph *graph, qb_plan *given,
                            qb_engine **out) {
    qb_plan *plan = given;
    if (r->spec.n_profiles > 0) {
        if (!plan) QB_TRY(qb_plan_create(cx, &r->spec, graph->n_inputs, &plan));
        return qb_profiles_build(cx, graph, plan, !given, &r->known, out);
    }
    if (!plan) QB_TRY(qb_plan_tune(cx, graph, &r->spec, NULL, &r->known, &plan));
    const qb_tuning_state *known = &r->known;
    return realize(cx, graph, plan,
                   known->timings ? qb_timings_compiled(known->timings) : known->compiled, out);
}

/* ---- checked engines ------------------------------------------------------------------------- */

/* Wrong tactics that were found before, by the host's name in the timing cache. Beside a device,
 * whose own section would be written over, they are not kept. */
static qb_status open_denied(qb_ctx *cx, request *r) {
    if (!r->spec.check || r->spec.observable) return QB_OK;
    QB_FREED char *name = QB_NEW(
        cx, qb_format(cx, "host, %s, qbench %s", qb_tier_text(qb_processor_tier()), QB_VERSION));
    const char *cache = r->backends.device ? NULL : r->known.cache;
    return qb_timings_load(cx, cache, name, &r->known.denied);
}

/* What was found wrong stands in the rows of the plan that does without it. */
static qb_status note_wrong(qb_ctx *cx, const request *r, qb_plan *plan) {
    for (size_t i = 0; i < r->wrong.n; i++) {
        const int32_t row = qb_plan_find(&plan->table[0], r->wrong.item[i].value);
        if (row < 0) continue;
        const char *text = QB_NEW(cx, qb_arena_strdup(cx, plan->arena, r->wrong.item[i].text));
        plan->table[0].rows[row].tactic_reason = text;
    }
    return r->known.cache && !r->backends.device
               ? qb_timings_save(cx, r->known.denied, r->known.cache)
               : QB_OK;
}

/* Until no step is wrong: each time round at least one tactic less is left for a problem. */
static qb_status build(qb_ctx *cx, request *r, const qb_graph *graph, qb_plan *given,
                       qb_engine **out) {
    for (;;) {
        int32_t n_wrong = 0;
        QB_TRY(build_once(cx, r, graph, given, out));
        if (!r->known.denied) return QB_OK;
        qb_status status = qb_check_engine(cx, *out, r->known.denied, &r->wrong, &n_wrong);
        if (status == QB_OK && n_wrong > 0 && given)
            status = qb_fail(cx, QB_STATUS_CHECK, "step '%s': %s, and the plan wants it",
                             r->wrong.item[0].value, r->wrong.item[0].text);
        if (status == QB_OK && n_wrong == 0) status = note_wrong(cx, r, (*out)->plan);
        if (status == QB_OK && n_wrong == 0) return QB_OK;
        qb_engine_free(*out);
        *out = NULL;
        QB_TRY(status);
    }
}

/* ---- INT8 against FP16 ----------------------------------------------------------------------- */

/* The same network without any quantization, in f16; *out is NULL when there is none. */
static qb_status build_f16(qb_ctx *cx, request *r, qb_engine **out) {
    qb_graph *graph;
    *out = NULL;
    if (qb_graph_dequantize(cx, r->graph, &graph) != QB_OK) {
        if (cx->code != QB_STATUS_UNSUPPORTED) return cx->code;
        qb_ctx_clear(cx);
        return QB_OK;
    }
    const qb_status status = build(cx, r, graph, NULL, out);
    qb_graph_free(graph);
    if (status == QB_OK) (*out)->plan->dequantized = true;
    return status;
}

/* Every step that computes says that FP16 won as a whole. */
static qb_status note_comparison(qb_ctx *cx, qb_engine *f16, const double ms[2]) {
    qb_plan *plan = f16->plan;
    const char *kept =
        qb_arena_format(cx, plan->arena,
                        "the whole engine: f16 %.3f ms, int8 with f16 steps %.3f ms", ms[1], ms[0]);
    if (!kept) return cx->code;
    for (int32_t s = 0; s < f16->n_steps; s++)
        if (f16->steps[s].on_device && f16->steps[s].flops > 0)
            plan->table[0].rows[f16->steps[s].row].f16_reason = kept;
    return QB_OK;
}

/* An INT8 engine on a device in mixed precision is not to be slower than the FP16 one: both run,
 * and INT8 stays where it is clearly faster; a tie is FP16's, so that what stays is that very
 * engine. Sums of step times cannot promise that, and where they keep every layer in FP16, pools
 * and their conversions may still be quantized. Ranges of shapes are decided at the first profile's
 * usual ones. */
static qb_status keep_faster(qb_ctx *cx, request *r, qb_engine **engine) {
    if (r->spec.observable || !(*engine)->device || r->spec.float_type != QB_DTYPE_F16 ||
        r->spec.no_mixed_precision || !qb_graph_is_quantized(r->graph))
        return QB_OK;
    qb_engine *f16 = NULL;
    double ms[2] = {0, 0};
    qb_status status = QB_OK;
    QB_GO(build_f16(cx, r, &f16));
    if (!f16) return QB_OK;
    const qb_engine *const both[2] = {*engine, f16};
    QB_GO(qb_ab_comparison(cx, both, r->known.timings, ms));
    if (r->known.cache) QB_GO(qb_timings_save(cx, r->known.timings, r->known.cache));
    if (ms[0] >= CLEARLY * ms[1]) {
        qb_info(cx, "INT8 takes %.3f ms, FP16 %.3f ms: all steps stay in FP16", ms[0], ms[1]);
        QB_GO(note_comparison(cx, f16, ms));
        qb_engine *slower = *engine;
        *engine = f16;
        f16 = slower;
    }
out:
    qb_engine_free(f16);
    if (status != QB_STATUS_NOMEM) return status;
    qb_ctx_clear(cx); /* the device has no memory for two: the planned one it is */
    return QB_OK;
}

/* As another engine does it. */
static qb_status follow(qb_ctx *cx, request *r, qb_engine **out) {
    const bool floats = r->spec.like->plan->dequantized;
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    if (floats) QB_TRY(qb_graph_dequantize(cx, r->graph, &graph));
    QB_TRY(qb_compiled_create(cx, &r->known.compiled));
    QB_TRY(build(cx, r, graph ? graph : r->graph, NULL, out));
    (*out)->plan->dequantized = floats;
    return QB_OK;
}

static qb_status tune_and_realize(qb_ctx *cx, request *r, qb_engine **out) {
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    QB_TRY(check_apart(cx, r));
    if (r->spec.like) return follow(cx, r, out);
    QB_TRY(build(cx, r, r->graph, NULL, &engine));
    QB_TRY(keep_faster(cx, r, &engine));
    *out = QB_MOVE(engine);
    return QB_OK;
}

/* ---- a plan that is given -------------------------------------------------------------------- */

static qb_status realize_given(qb_ctx *cx, request *r, qb_engine **out) {
    qb_status status = QB_OK;
    qb_graph *floats = NULL;
    qb_plan *plan = NULL;
    QB_TRY(qb_plan_load(cx, r->spec.plan, &plan));
    if (plan->n_inputs != r->graph->n_inputs)
        QB_GO(qb_fail(cx, QB_STATUS_USAGE, "the plan has %d inputs, the model %d",
                      (int)plan->n_inputs, (int)r->graph->n_inputs));
    QB_GO(qb_plan_check_spec(cx, plan, &r->spec));
    plan->spec.device = r->spec.device;
    plan->spec.observable = r->spec.observable;
    if (plan->dequantized) QB_GO(qb_graph_dequantize(cx, r->graph, &floats));
    QB_GO(qb_compiled_create(cx, &r->known.compiled));
    status = build(cx, r, floats ? floats : r->graph, plan, out);
    plan = NULL;
out:
    qb_plan_free(plan);
    qb_graph_free(floats);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s", r->spec.plan);
}

/* Where sizes depend on values, the engine is that of what comes before, and has a tail. Ranges of
 * shapes and separate items know no such sizes: binding names the node. */
static qb_status split_sizes(qb_ctx *cx, request *r, qb_graph_split *split) {
    if (r->spec.n_profiles > 0 || r->spec.items_apart) return QB_OK;
    QB_TRY(qb_graph_split_at_sizes(cx, r->graph, r->spec.input_shapes, split));
    if (!split->tail) return QB_OK;
    const int32_t late = split->tail->n_nodes, all = r->graph->n_nodes;
    r->graph = split->head;
    if (late > 16 && late > all / 4) /* more than the end of a detector */
        qb_warn(cx,
                "%d of %d nodes have sizes that come with the data: from '%s' on they run on the "
                "host, planned as sizes come",
                (int)late, (int)all, split->tail->nodes[0].name);
    return QB_OK;
}

const qb_tail_engines qb_tail_group_engines = {qb_engine_build, qb_context_prepare, qb_context_run,
                                               qb_context_free, qb_engine_free};

static qb_status attach_tail(qb_ctx *cx, const request *r, int32_t n_outputs, qb_graph_split *split,
                             qb_engine **out) {
    const qb_tail_parts parts = {split->tail, split->output, n_outputs, r->spec.max_sizes};
    qb_status status = QB_OK;
    if (split->tail) {
        split->tail = NULL;
        split->output = NULL;
        status = qb_tail_attach(cx, *out, &parts, &qb_tail_group_engines);
    } else if (r->spec.max_sizes)
        status = qb_fail(cx, QB_STATUS_USAGE,
                         "--max-size %s: all sizes are known: none comes with the data",
                         r->spec.max_sizes);
    if (status != QB_OK) {
        qb_engine_free(*out);
        *out = NULL;
    }
    return status;
}

qb_status qb_engine_build(qb_ctx *cx, const qb_graph *graph, const qb_build_spec *spec,
                          qb_engine **out) {
    request r = {.graph = graph};
    qb_graph_split split = {0};
    if (spec) r.spec = *spec;
    qb_status status = resolve(cx, &r);
    if (status == QB_OK) status = split_sizes(cx, &r, &split);
    if (status == QB_OK) status = open_denied(cx, &r);
    if (status == QB_OK) status = (r.spec.plan ? realize_given : tune_and_realize)(cx, &r, out);
    if (status == QB_OK) status = attach_tail(cx, &r, graph->n_outputs, &split, out);
    qb_graph_split_release(&split);
    qb_timings_free(r.known.timings);
    qb_timings_free(r.known.denied);
    qb_wrong_steps_free(&r.wrong);
    qb_compiled_free(r.known.compiled);
    qb_arena_free(r.arena);
    return status;
}

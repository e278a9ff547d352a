/* Engines with profiles: ranges of shapes, and the cache of plans. */
#include "engine/profiles.h"

#include "engine/plans_internal.h"
#include "engine/realize/realize_internal.h"
#include "engine/tune/tune_internal.h"

/* The tactics of the profile; where any shapes are taken, those for these shapes, so that it makes
 * no difference which ones came first. */
static qb_status plan_for(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                          qb_plan **out) {
    qb_build_spec spec = plans->plan->spec;
    qb_tuning_state none = {0};
    if (!spec.any_shapes) return qb_plan_for_profile(cx, plans, profile, shapes, out);
    spec.input_shapes = shapes;
    spec.n_profiles = 0;
    return qb_plan_tune(cx, plans->graph, &spec, plans, plans->tuning ? plans->tuning : &none, out);
}

/* An engine for these shapes, its constants not packed. */
qb_status qb_profile_realize(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                             qb_engine **out) {
    qb_plan *plan;
    QB_TRY(plan_for(cx, plans, profile, shapes, &plan));
    const qb_status status =
        qb_plan_realize(cx, plans->graph, plan, plans, qb_plans_compiled(plans), out);
    if (status != QB_OK) qb_plan_free(plan);
    return status;
}

/* The rows of each profile, tuned at its usual shapes. */
static qb_status tune(qb_ctx *cx, qb_plans *plans, qb_plan *plan) {
    for (int32_t p = 0; p < plan->n_tables; p++) {
        qb_build_spec usual = plan->spec;
        qb_plan *tuned;
        usual.input_shapes = plan->spec.profiles[p].opt;
        usual.n_profiles = 0;
        QB_TRY(qb_plan_tune(cx, plans->graph, &usual, plans, plans->tuning, &tuned));
        const qb_status status = qb_plan_set_table(cx, plan, p, &tuned->table[0]);
        qb_plan_free(tuned);
        QB_TRY(status);
    }
    qb_plans_drop_floats(plans, true); /* those of candidates */
    return QB_OK;
}

/* The engine keeps what was compiled for the plan, for its file. */
static qb_status keep_compiled(qb_ctx *cx, qb_engine *engine, const qb_engine *plan) {
    for (int32_t i = 0; plan != engine && plan->compiled && i < qb_compiled_count(plan->compiled);
         i++) {
        qb_hash key;
        size_t bytes;
        qb_compiled_entry(plan->compiled, i, &key, &bytes);
        QB_TRY(qb_compiled_take(cx, engine->compiled, plan->compiled, key));
    }
    return QB_OK;
}

static qb_status try_shapes(qb_ctx *cx, qb_engine *engine, int32_t profile, const char *which,
                            const qb_shape *shapes) {
    QB_RELEASED(qb_engine_release_at) const qb_engine *plan = NULL;
    QB_TRY_WRAP(cx, qb_engine_at_profile(cx, engine, profile, shapes, &plan), "profile %d, %s",
                (int)profile, which);
    return keep_compiled(cx, engine, plan);
}

/* The corners of all profiles: they must work, tell how much memory a context needs, and need not
 * be compiled again. */
static qb_status try_profiles(qb_ctx *cx, qb_engine *engine) {
    qb_plans *plans = engine->plans;
    for (int32_t p = 0; p < plans->plan->spec.n_profiles; p++) {
        const qb_profile *profile = &plans->plan->spec.profiles[p];
        QB_TRY(try_shapes(cx, engine, p, "min", profile->min));
        QB_TRY(try_shapes(cx, engine, p, "opt", profile->opt));
        QB_TRY(try_shapes(cx, engine, p, "max", profile->max));
    }
    plans->tuning = NULL; /* the build's */
    plans->built = qb_plans_memory(plans);
    return engine->device ? qb_plans_renew_compiled(cx, plans) : QB_OK;
}

/* Takes the plan over where *out is set; `plans` always. */
static qb_status realize(qb_ctx *cx, qb_plans *plans, qb_plan *plan, qb_engine **out) {
    QB_RELEASED(qb_plans_free_at) qb_plans *own = plans;
    QB_TRY(qb_plan_realize(cx, own->graph, plan, own, qb_plans_compiled(own), out));
    QB_TRY(qb_engine_pack(cx, *out));
    return qb_plans_attach(cx, QB_MOVE(own), *out);
}

qb_status qb_profiles_build(qb_ctx *cx, const qb_graph *graph, qb_plan *plan, bool tunes,
                            qb_tuning_state *known, qb_engine **out) {
    qb_status status = QB_OK;
    qb_graph *copy;
    qb_plans *plans = NULL;
    qb_engine *engine = NULL;
    QB_GO(qb_graph_clone(cx, graph, &copy));
    QB_GO(qb_plans_create(cx, copy, plan, qb_profile_realize, &plans));
    plans->tuning = known;
    QB_GO(qb_plan_fuse_products(cx, plans));
    if (tunes) QB_GO(tune(cx, plans, plan));
    status = realize(cx, plans, plan, &engine);
    plans = NULL;
    if (engine) plan = NULL;
    if (status != QB_OK) goto out;
    QB_GO(try_profiles(cx, engine));
    if (known->cache && known->timings) QB_GO(qb_timings_save(cx, known->timings, known->cache));
    *out = QB_MOVE(engine);
out:
    qb_engine_free(engine);
    qb_plans_free(plans);
    qb_plan_free(plan);
    return status;
}

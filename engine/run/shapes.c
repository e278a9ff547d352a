/* Engines for ranges of shapes: which profile serves, and the cache of engines for other shapes. */

#include "base/strbuf.h"
#include "engine/device_internal.h"
#include "engine/plans_internal.h"

/* ---- ranges ---------------------------------------------------------------------------------- */

static const char *input_name(const qb_plans *plans, int32_t input) {
    return plans->graph->values[plans->graph->inputs[input]].name;
}

/* Says where the shapes leave the profile; false when they do not. */
static bool leaves(const qb_plans *plans, int32_t profile, const qb_shape *shapes, qb_strbuf *why) {
    const qb_profile *p = &plans->plan->spec.profiles[profile];
    for (int32_t i = 0; i < plans->n_inputs; i++) {
        const qb_shape *s = &shapes[i], *min = &p->min[i], *max = &p->max[i];
        if (s->rank != min->rank) {
            qb_strbuf_addf(why, "input '%s': expected %d dimensions, got %d", input_name(plans, i),
                           (int)min->rank, (int)s->rank);
            return true;
        }
        for (int32_t d = 0; d < s->rank && !plans->plan->spec.any_shapes; d++) {
            if (s->dim[d] >= min->dim[d] && s->dim[d] <= max->dim[d]) continue;
            qb_strbuf_addf(why, "input '%s': axis %d: %lld is outside of %lld to %lld",
                           input_name(plans, i), (int)d, (long long)s->dim[d],
                           (long long)min->dim[d], (long long)max->dim[d]);
            return true;
        }
    }
    return false;
}

/* How many sets of shapes a profile holds; only compared, so that beyond 1e308 all are as wide. */
static double width_of(const qb_plans *plans, int32_t profile) {
    const qb_profile *p = &plans->plan->spec.profiles[profile];
    double width = 1;
    for (int32_t i = 0; i < plans->n_inputs; i++)
        for (int32_t d = 0; d < p->min[i].rank; d++)
            width *= (double)(p->max[i].dim[d] - p->min[i].dim[d]) + 1;
    return width;
}

bool qb_plans_are_usual(const qb_plans *plans, int32_t profile, const qb_shape *shapes) {
    for (int32_t i = 0; i < plans->n_inputs; i++)
        if (!qb_shape_equal(&plans->plan->spec.profiles[profile].opt[i], &shapes[i])) return false;
    return true;
}

/* Of two profiles that hold the shapes, does the second fit them better? */
static bool fits_better(const qb_plans *plans, int32_t one, int32_t other, const qb_shape *shapes) {
    if (qb_plans_are_usual(plans, one, shapes)) return false;
    return qb_plans_are_usual(plans, other, shapes) ||
           width_of(plans, other) < width_of(plans, one);
}

/* The profile that serves the shapes (see qb_engine_at); -1 with an error when `only` that one (-1:
 * any) does not hold them. */
static int32_t profile_of(qb_ctx *cx, const qb_plans *plans, int32_t only, const qb_shape *shapes) {
    const bool several = plans->plan->spec.n_profiles > 1;
    int32_t best = -1;
    QB_RELEASED(qb_strbuf_release) qb_strbuf why = {0};
    for (int32_t p = 0; p < plans->plan->spec.n_profiles; p++) {
        if (only >= 0 && p != only) continue;
        if (why.size > 0) qb_strbuf_add(&why, "; ");
        if (leaves(plans, p, shapes, &why)) {
            if (several) qb_strbuf_addf(&why, " (profile %d)", (int)p);
        } else if (best < 0 || fits_better(plans, best, p, shapes)) {
            best = p;
        }
    }
    if (best < 0)
        qb_fail(cx, QB_STATUS_INVALID, "%s",
                why.failed || !why.data ? "no such profile" : why.data);
    return best;
}

static bool same_shapes(const qb_engine *engine, const qb_shape *shapes) {
    for (int32_t i = 0; i < engine->n_inputs; i++)
        if (!qb_shape_equal(&engine->inputs[i].desc.shape, &shapes[i])) return false;
    return true;
}

static qb_status only_its_own(qb_ctx *cx, const qb_engine *engine, const qb_shape *shapes) {
    char want[128], got[128];
    for (int32_t i = 0; i < engine->n_inputs; i++)
        if (!qb_shape_equal(&engine->inputs[i].desc.shape, &shapes[i]))
            return qb_fail(cx, QB_STATUS_INVALID,
                           "input '%s': the engine was built for %s alone, got %s",
                           engine->inputs[i].name,
                           qb_shape_text(&engine->inputs[i].desc.shape, want, sizeof want),
                           qb_shape_text(&shapes[i], got, sizeof got));
    return QB_OK;
}

int32_t qb_engine_n_profiles(const qb_engine *engine) {
    return engine->plans ? engine->plans->plan->spec.n_profiles : 0;
}

const qb_profile *qb_engine_profile(const qb_engine *engine, int32_t profile) {
    return &engine->plans->plan->spec.profiles[profile];
}

/* ---- what all shapes share ------------------------------------------------------------------- */

/* min <= opt <= max, as many dimensions everywhere. */
static qb_status check_profile(qb_ctx *cx, const qb_plans *plans, int32_t index) {
    const qb_profile *p = &plans->plan->spec.profiles[index];
    for (int32_t i = 0; i < plans->n_inputs; i++) {
        const qb_shape *min = &p->min[i], *opt = &p->opt[i], *max = &p->max[i];
        char text[3][96];
        bool ordered = min->rank == opt->rank && opt->rank == max->rank;
        for (int32_t d = 0; ordered && d < min->rank; d++)
            ordered = min->dim[d] >= 1 && min->dim[d] <= opt->dim[d] && opt->dim[d] <= max->dim[d];
        if (!ordered)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "profile %d: input '%s': expected min <= opt <= max, got %s, %s, %s",
                           (int)index, input_name(plans, i),
                           qb_shape_text(min, text[0], sizeof text[0]),
                           qb_shape_text(opt, text[1], sizeof text[1]),
                           qb_shape_text(max, text[2], sizeof text[2]));
    }
    return QB_OK;
}

qb_status qb_plans_create(qb_ctx *cx, qb_graph *graph, const qb_plan *plan,
                          qb_plans_realize_fn realize, qb_plans **out) {
    const int32_t n = plan->spec.n_profiles;
    QB_RELEASED(qb_plans_free_at) qb_plans *plans = qb_alloc(cx, 1, sizeof *plans);
    if (!plans) {
        qb_graph_free(graph);
        return cx->code;
    }
    plans->graph = graph;
    plans->n_inputs = graph->n_inputs;
    plans->plan = plan;
    plans->realize = realize;
    pthread_mutex_init(&plans->lock, NULL);
    if (n < 1 || n > QB_PROFILES_MAX)
        return qb_fail(cx, QB_STATUS_INVALID, "expected 1 to %d profiles, got %d", QB_PROFILES_MAX,
                       (int)n);
    for (int32_t i = 0; i < n; i++) QB_TRY(check_profile(cx, plans, i));
    *out = QB_MOVE(plans);
    return QB_OK;
}

static void free_plan(qb_plans *plans, qb_engine *plan) {
    qb_engine_select(plan);
    qb_packs_give_back(plans, plan);
    qb_engine_destroy(plan);
}

void qb_plans_free(qb_plans *plans) {
    if (!plans) return;
    for (int32_t i = 0; i < plans->n_plans; i++) free_plan(plans, plans->at[i]);
    for (size_t i = 0; i < plans->n_packs; i++) qb_pack_free(plans->packs[i]);
    qb_free(plans->packs);
    qb_plans_drop_floats(plans, true);
    QB_FREE_ALL(plans->floats, plans->device_name);
    qb_compiled_free(plans->compiled);
    qb_graph_free(plans->graph);
    pthread_mutex_destroy(&plans->lock);
    qb_free(plans);
}

qb_plans_need qb_plans_memory(qb_plans *plans) {
    pthread_mutex_lock(&plans->lock);
    const qb_plans_need need = plans->need;
    pthread_mutex_unlock(&plans->lock);
    return need;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* A slot for one more engine; -1 when all are in use. */
static int32_t free_slot(qb_plans *plans) {
    int32_t oldest = -1;
    if (plans->n_plans < QB_PLANS_MAX) return plans->n_plans++;
    for (int32_t i = 0; i < plans->n_plans; i++)
        if (plans->at[i]->use.refs == 0 &&
            (oldest < 0 || plans->at[i]->use.last_use < plans->at[oldest]->use.last_use))
            oldest = i;
    if (oldest >= 0) free_plan(plans, plans->at[oldest]);
    return oldest;
}

static void at_least(size_t *need, size_t bytes) {
    if (bytes > *need) *need = bytes;
}

static void reserve(qb_plans *plans, const qb_engine *plan) {
    at_least(&plans->need.arena, plan->memory.arena);
    at_least(&plans->need.workspace, plan->memory.workspace);
    at_least(&plans->need.device_arena, plan->on.arena);
    at_least(&plans->need.device_workspace, plan->on.workspace);
}

/* A new store that has what the engine has. */
qb_status qb_plans_renew_compiled(qb_ctx *cx, qb_plans *plans) {
    qb_compiled *compiled;
    QB_TRY(qb_compiled_create(cx, &compiled));
    qb_status status = qb_compiled_borrow_all(cx, compiled, plans->engine->compiled);
    if (status != QB_OK) {
        qb_compiled_free(compiled);
        return status;
    }
    qb_compiled_free(plans->compiled);
    plans->compiled = compiled;
    return QB_OK;
}

static qb_status make_plan(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                           qb_engine **out) {
    qb_engine *plan;
    if (plans->compiled && qb_compiled_count(plans->compiled) > QB_PLANS_COMPILED_MAX)
        QB_TRY(qb_plans_renew_compiled(cx, plans));
    QB_TRY(plans->realize(cx, plans, profile, shapes, &plan));
    if (qb_packs_take(cx, plans, plan) != QB_OK) {
        free_plan(plans, plan);
        return cx->code;
    }
    plan->use.of = plans;
    plan->use.profile = profile;
    reserve(plans, plan);
    const int32_t slot = free_slot(plans);
    if (slot >= 0) {
        plans->at[slot] = plan;
        plan->use.cached = true;
    }
    *out = plan;
    return QB_OK;
}

static qb_engine *cached(const qb_plans *plans, int32_t profile, const qb_shape *shapes) {
    for (int32_t i = 0; i < plans->n_plans; i++)
        if (plans->at[i]->use.profile == profile && same_shapes(plans->at[i], shapes))
            return plans->at[i];
    return NULL;
}

static qb_status plan_at(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                         const qb_engine **out) {
    pthread_mutex_lock(&plans->lock);
    qb_engine *plan = cached(plans, profile, shapes);
    qb_status status = plan ? QB_OK : make_plan(cx, plans, profile, shapes, &plan);
    if (status == QB_OK) {
        plan->use.refs++;
        plan->use.last_use = ++plans->clock;
        *out = plan;
    }
    pthread_mutex_unlock(&plans->lock);
    return status;
}

qb_status qb_engine_at_profile(qb_ctx *cx, const qb_engine *engine, int32_t profile,
                               const qb_shape *shapes, const qb_engine **plan) {
    if (!engine->plans) QB_TRY(only_its_own(cx, engine, shapes));
    qb_engine_select(engine);
    if (engine->plans && (profile > 0 || !same_shapes(engine, shapes))) {
        profile = profile_of(cx, engine->plans, profile, shapes);
        return profile < 0 ? cx->code : plan_at(cx, engine->plans, profile, shapes, plan);
    }
    qb_engine_hold(engine);
    *plan = engine;
    return QB_OK;
}

qb_status qb_engine_at(qb_ctx *cx, const qb_engine *engine, const qb_shape *shapes,
                       const qb_engine **plan) {
    return qb_engine_at_profile(cx, engine, -1, shapes, plan);
}

void qb_engine_hold(const qb_engine *engine) {
    if (!engine->use.of) return;
    pthread_mutex_lock(&engine->use.of->lock);
    ((qb_engine *)(uintptr_t)engine)->use.refs++;
    pthread_mutex_unlock(&engine->use.of->lock);
}

void qb_engine_release(const qb_engine *engine) {
    if (!engine || !engine->use.of) return;
    qb_plans *plans = engine->use.of;
    pthread_mutex_lock(&plans->lock);
    qb_engine *plan = (qb_engine *)(uintptr_t)engine;
    if (--plan->use.refs == 0 && !plan->use.cached) free_plan(plans, plan);
    pthread_mutex_unlock(&plans->lock);
}

int32_t qb_engine_n_plans(const qb_engine *engine) {
    if (!engine->plans) return 0;
    pthread_mutex_lock(&engine->plans->lock);
    const int32_t n = engine->plans->n_plans;
    pthread_mutex_unlock(&engine->plans->lock);
    return n;
}

qb_status qb_plans_attach(qb_ctx *cx, qb_plans *plans, qb_engine *engine) {
    engine->plans = plans;
    plans->engine = engine;
    reserve(plans, engine);
    if (engine->device) {
        QB_TRY_NEW(cx, plans->device_name = qb_strdup(cx, engine->on.name));
        QB_TRY(qb_plans_renew_compiled(cx, plans));
    }
    return qb_packs_of_engine(cx, plans, engine);
}

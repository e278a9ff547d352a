/* Engines with profiles: ranges of shapes, and the cache of plans. */
#include "engine/profiles.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "device_internal.h"
#include "plans_internal.h"

/* ---- ranges ---- */

static const char *input_name(const qb_plans *plans, int32_t input) {
    return plans->graph->values[plans->graph->inputs[input]].name;
}

/* Says where the shapes leave the profile; false when they do not. */
static bool leaves(const qb_plans *plans, int32_t profile, const qb_shape *shapes, qb_strbuf *why) {
    const qb_profile *p = &plans->profiles[profile];
    for (int32_t i = 0; i < plans->n_inputs; i++) {
        const qb_shape *s = &shapes[i], *min = &p->min[i], *max = &p->max[i];
        if (s->rank != min->rank) {
            qb_strbuf_addf(why, "input '%s': expected %d dimensions, got %d", input_name(plans, i),
                           (int)min->rank, (int)s->rank);
            return true;
        }
        for (int32_t d = 0; d < s->rank; d++) {
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
    const qb_profile *p = &plans->profiles[profile];
    double width = 1;
    for (int32_t i = 0; i < plans->n_inputs; i++)
        for (int32_t d = 0; d < p->min[i].rank; d++)
            width *= (double)(p->max[i].dim[d] - p->min[i].dim[d]) + 1;
    return width;
}

bool qb_plans_are_usual(const qb_plans *plans, int32_t profile, const qb_shape *shapes) {
    for (int32_t i = 0; i < plans->n_inputs; i++)
        if (!qb_shape_equal(&plans->profiles[profile].opt[i], &shapes[i])) return false;
    return true;
}

/* Of two profiles that hold the shapes, does the second fit them better? */
static bool fits_better(const qb_plans *plans, int32_t one, int32_t other, const qb_shape *shapes) {
    if (qb_plans_are_usual(plans, one, shapes)) return false;
    return qb_plans_are_usual(plans, other, shapes) ||
           width_of(plans, other) < width_of(plans, one);
}

int32_t qb_plans_profile(qb_ctx *cx, const qb_plans *plans, int32_t only, const qb_shape *shapes) {
    const bool several = plans->n_profiles > 1;
    int32_t best = -1;
    qb_strbuf why = {0};
    for (int32_t p = 0; p < plans->n_profiles; p++) {
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
    qb_strbuf_release(&why);
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
    return engine->plans ? engine->plans->n_profiles : 0;
}

const qb_profile *qb_engine_profile(const qb_engine *engine, int32_t profile) {
    return &engine->plans->profiles[profile];
}

const qb_hint *qb_hints_find(const qb_hints *hints, const char *value) {
    for (int32_t i = 0; i < hints->n; i++)
        if (strcmp(hints->hint[i].value, value) == 0) return &hints->hint[i];
    return NULL;
}

/* ---- what all plans share ---- */

/* min <= opt <= max, as many dimensions everywhere. */
static qb_status check_profile(qb_ctx *cx, const qb_plans *plans, int32_t index) {
    const qb_profile *p = &plans->profiles[index];
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

static const qb_shape *keep_shapes(qb_ctx *cx, qb_plans *plans, const qb_shape *shapes) {
    const size_t n = (size_t)plans->n_inputs;
    qb_shape *kept = qb_arena_alloc(cx, plans->arena, n, sizeof *kept);
    if (kept && n) memcpy(kept, shapes, n * sizeof *kept);
    return kept;
}

static qb_status keep_profiles(qb_ctx *cx, qb_plans *plans, const qb_profile *profiles,
                               int32_t n_profiles) {
    const size_t n = (size_t)n_profiles;
    if (n_profiles < 1 || n_profiles > QB_PROFILES_MAX)
        return qb_fail(cx, QB_STATUS_INVALID, "expected 1 to %d profiles, got %d", QB_PROFILES_MAX,
                       (int)n_profiles);
    plans->profiles = qb_arena_alloc(cx, plans->arena, n, sizeof *plans->profiles);
    plans->hints = qb_arena_alloc(cx, plans->arena, n, sizeof *plans->hints);
    if (!plans->profiles || !plans->hints) return cx->code;
    for (int32_t i = 0; i < n_profiles; i++) {
        qb_profile *p = &plans->profiles[i];
        p->min = keep_shapes(cx, plans, profiles[i].min);
        p->opt = keep_shapes(cx, plans, profiles[i].opt);
        p->max = keep_shapes(cx, plans, profiles[i].max);
        if (!p->min || !p->opt || !p->max) return cx->code;
        plans->n_profiles++;
        QB_TRY(check_profile(cx, plans, i));
    }
    return QB_OK;
}

qb_status qb_plans_create(qb_ctx *cx, qb_graph *graph, const qb_profile *profiles,
                          int32_t n_profiles, const qb_again *how, qb_plans **out) {
    qb_status status = QB_OK;
    qb_plans *plans = qb_alloc(cx, 1, sizeof *plans);
    if (!plans) {
        qb_graph_free(graph);
        return cx->code;
    }
    plans->graph = graph;
    plans->n_inputs = graph->n_inputs;
    plans->how = *how;
    pthread_mutex_init(&plans->lock, NULL);
    QB_GO(qb_arena_create(cx, &plans->arena));
    plans->how.backends = qb_arena_strdup(cx, plans->arena, how->backends);
    if (!plans->how.backends) QB_GO(cx->code);
    QB_GO(keep_profiles(cx, plans, profiles, n_profiles));
    *out = plans;
    plans = NULL;
out:
    qb_plans_free(plans);
    return status;
}

static void free_plan(qb_plans *plans, qb_engine *plan) {
    qb_engine_select(plan);
    qb_packs_give_back(plans, plan);
    qb_engine_destroy(plan);
}

void qb_plans_free(qb_plans *plans) {
    if (!plans) return;
    for (int32_t i = 0; i < plans->n_plans; i++) free_plan(plans, plans->plan[i]);
    for (size_t i = 0; i < plans->n_packs; i++) qb_pack_free(plans->packs[i]);
    qb_free(plans->packs);
    qb_plans_drop_reals(plans, true);
    qb_free(plans->reals);
    qb_free(plans->device_name);
    qb_compiled_free(plans->compiled);
    qb_graph_free(plans->graph);
    qb_arena_free(plans->arena);
    pthread_mutex_destroy(&plans->lock);
    qb_free(plans);
}

qb_status qb_plans_trim(qb_ctx *cx, qb_plans *plans) {
    qb_graph *trimmed;
    QB_TRY(qb_graph_clone(cx, plans->graph, &trimmed));
    qb_graph_free(plans->graph);
    plans->graph = trimmed;
    return QB_OK;
}

qb_plans_need qb_plans_memory(qb_plans *plans) {
    pthread_mutex_lock(&plans->lock);
    const qb_plans_need need = plans->need;
    pthread_mutex_unlock(&plans->lock);
    return need;
}

/* ---- the cache ---- */

/* A place for one more plan; -1 when all are in use. */
static int32_t free_place(qb_plans *plans) {
    int32_t oldest = -1;
    if (plans->n_plans < QB_PLANS_MAX) return plans->n_plans++;
    for (int32_t i = 0; i < plans->n_plans; i++)
        if (plans->plan[i]->refs == 0 &&
            (oldest < 0 || plans->plan[i]->last_use < plans->plan[oldest]->last_use))
            oldest = i;
    if (oldest >= 0) free_plan(plans, plans->plan[oldest]);
    return oldest;
}

static void at_least(size_t *need, size_t bytes) {
    if (bytes > *need) *need = bytes;
}

static void reserve(qb_plans *plans, const qb_engine *plan) {
    at_least(&plans->need.arena, plan->memory.arena);
    at_least(&plans->need.workspace, plan->memory.workspace);
    at_least(&plans->need.device_arena, plan->device_arena);
    at_least(&plans->need.device_workspace, plan->device_workspace);
}

/* A new store that has what the engine has. */
static qb_status renew_compiled(qb_ctx *cx, qb_plans *plans) {
    qb_compiled *compiled;
    QB_TRY(qb_compiled_create(cx, &compiled));
    qb_status status = qb_compiled_lend_all(cx, compiled, plans->engine->compiled);
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
        QB_TRY(renew_compiled(cx, plans));
    QB_TRY(qb_engine_plan(cx, plans, profile, shapes, NULL, &plan));
    if (qb_packs_take(cx, plans, plan) != QB_OK) {
        free_plan(plans, plan);
        return cx->code;
    }
    plan->plan_of = plans;
    plan->profile = profile;
    reserve(plans, plan);
    const int32_t place = free_place(plans);
    if (place >= 0) {
        plans->plan[place] = plan;
        plan->cached = true;
    }
    *out = plan;
    return QB_OK;
}

static qb_engine *cached(const qb_plans *plans, int32_t profile, const qb_shape *shapes) {
    for (int32_t i = 0; i < plans->n_plans; i++)
        if (plans->plan[i]->profile == profile && same_shapes(plans->plan[i], shapes))
            return plans->plan[i];
    return NULL;
}

static qb_status plan_at(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_shape *shapes,
                         const qb_engine **out) {
    pthread_mutex_lock(&plans->lock);
    qb_engine *plan = cached(plans, profile, shapes);
    qb_status status = plan ? QB_OK : make_plan(cx, plans, profile, shapes, &plan);
    if (status == QB_OK) {
        plan->refs++;
        plan->last_use = ++plans->clock;
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
        profile = qb_plans_profile(cx, engine->plans, profile, shapes);
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
    if (!engine->plan_of) return;
    pthread_mutex_lock(&engine->plan_of->lock);
    ((qb_engine *)(uintptr_t)engine)->refs++;
    pthread_mutex_unlock(&engine->plan_of->lock);
}

void qb_engine_release(const qb_engine *engine) {
    if (!engine || !engine->plan_of) return;
    qb_plans *plans = engine->plan_of;
    pthread_mutex_lock(&plans->lock);
    qb_engine *plan = (qb_engine *)(uintptr_t)engine;
    if (--plan->refs == 0 && !plan->cached) free_plan(plans, plan);
    pthread_mutex_unlock(&plans->lock);
}

int32_t qb_engine_n_plans(const qb_engine *engine) {
    if (!engine->plans) return 0;
    pthread_mutex_lock(&engine->plans->lock);
    const int32_t n = engine->plans->n_plans;
    pthread_mutex_unlock(&engine->plans->lock);
    return n;
}

/* ---- building ---- */

static const char *keep_name(qb_ctx *cx, qb_plans *plans, const qb_engine *plan, int32_t value) {
    return qb_arena_strdup(cx, plans->arena, plan->graph->values[value].name);
}

/* Which codes are made in f16; see qb_engine. */
static qb_status take_half(qb_ctx *cx, qb_plans *plans, const qb_engine *plan, qb_hints *hints) {
    hints->n_half = 0;
    hints->half = qb_arena_alloc(cx, plans->arena, (size_t)plan->n_half, sizeof *hints->half);
    if (!hints->half) return cx->code;
    for (int32_t i = 0; i < plan->n_half; i += 2 + plan->half[i + 1]) {
        hints->half[hints->n_half] = keep_name(cx, plans, plan, plan->half[i]);
        if (!hints->half[hints->n_half++]) return cx->code;
    }
    return QB_OK;
}

qb_status qb_plans_take_hints(qb_ctx *cx, qb_plans *plans, int32_t profile, const qb_engine *plan) {
    qb_hints *hints = &plans->hints[profile];
    hints->n = 0;
    hints->hint = qb_arena_alloc(cx, plans->arena, (size_t)plan->n_steps, sizeof *hints->hint);
    if (!hints->hint) return cx->code;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qb_step *step = &plan->steps[s];
        const int32_t value =
            step->n_out > 0 && step->out[0] >= 0 ? plan->images[step->out[0]].value : -1;
        if (!step->kernel || step->kernel->tactic->kind == QB_KIND_COPY || value < 0) continue;
        qb_hint *hint = &hints->hint[hints->n];
        *hint = (qb_hint){keep_name(cx, plans, plan, value), step->kernel->tactic,
                          step->kernel->problem.variant};
        if (!hint->value) return cx->code;
        hints->n++;
    }
    return take_half(cx, plans, plan, hints);
}

qb_status qb_plans_hint(qb_ctx *cx, qb_plans *plans, const qb_hints *hints) {
    for (int32_t p = 0; p < plans->n_profiles; p++) {
        const qb_hints *from = &hints[p];
        qb_hints *to = &plans->hints[p];
        to->hint = qb_arena_alloc(cx, plans->arena, (size_t)from->n, sizeof *to->hint);
        to->half = qb_arena_alloc(cx, plans->arena, (size_t)from->n_half, sizeof *to->half);
        if (!to->hint || !to->half) return cx->code;
        for (int32_t i = 0; i < from->n; i++) {
            if (!from->hint[i].tactic) continue;
            qb_hint *hint = &to->hint[to->n++];
            *hint = from->hint[i];
            hint->value = qb_arena_strdup(cx, plans->arena, from->hint[i].value);
            if (!hint->value) return cx->code;
        }
        for (; to->n_half < from->n_half; to->n_half++) {
            to->half[to->n_half] = qb_arena_strdup(cx, plans->arena, from->half[to->n_half]);
            if (!to->half[to->n_half]) return cx->code;
        }
    }
    return QB_OK;
}

/* Times tactics at the usual shapes of each profile; the first one's plan becomes the engine. */
static qb_status tune(qb_ctx *cx, qb_plans *plans, const qb_engine_options *options,
                      qb_engine **engine) {
    for (int32_t p = 0; p < plans->n_profiles; p++) {
        qb_engine *plan;
        QB_TRY(qb_engine_plan(cx, plans, p, plans->profiles[p].opt, options, &plan));
        qb_status status = qb_plans_take_hints(cx, plans, p, plan);
        if (p == 0)
            *engine = plan;
        else
            qb_engine_destroy(plan);
        QB_TRY(status);
    }
    qb_plans_drop_reals(plans, false);
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
    const qb_engine *plan;
    QB_TRY_WRAP(cx, qb_engine_at_profile(cx, engine, profile, shapes, &plan), "profile %d, %s",
                (int)profile, which);
    const qb_status status = keep_compiled(cx, engine, plan);
    qb_engine_release(plan);
    return status;
}

/* The corners of all profiles: they must work, tell how much memory a context needs, and need not
 * be compiled again. */
static qb_status try_profiles(qb_ctx *cx, qb_engine *engine) {
    qb_plans *plans = engine->plans;
    for (int32_t p = 0; p < plans->n_profiles; p++) {
        QB_TRY(try_shapes(cx, engine, p, "min", plans->profiles[p].min));
        QB_TRY(try_shapes(cx, engine, p, "opt", plans->profiles[p].opt));
        QB_TRY(try_shapes(cx, engine, p, "max", plans->profiles[p].max));
    }
    plans->how.known = NULL; /* the build's */
    return engine->device ? renew_compiled(cx, plans) : QB_OK;
}

qb_status qb_plans_attach(qb_ctx *cx, qb_plans *plans, qb_engine *engine) {
    engine->plans = plans;
    plans->engine = engine;
    reserve(plans, engine);
    if (engine->device) {
        plans->device_name = qb_strdup(cx, engine->device_name);
        if (!plans->device_name) return cx->code;
        QB_TRY(renew_compiled(cx, plans));
    }
    return qb_packs_of_engine(cx, plans, engine);
}

qb_status qb_profiles_build(qb_ctx *cx, const qb_graph *graph, const qb_engine_options *options,
                            const qb_again *how, qb_engine **out) {
    qb_status status = QB_OK;
    qb_graph *copy;
    qb_plans *plans = NULL;
    qb_engine *engine = NULL;
    QB_TRY(qb_graph_clone(cx, graph, &copy));
    QB_TRY(qb_plans_create(cx, copy, options->profiles, options->n_profiles, how, &plans));
    if (options->time_tactics || how->device_float)
        QB_GO(tune(cx, plans, options, &engine));
    else
        QB_GO(qb_engine_plan(cx, plans, 0, plans->profiles[0].opt, NULL, &engine));
    QB_GO(qb_engine_pack(cx, engine));
    status = qb_plans_attach(cx, plans, engine);
    plans = NULL;
    if (status != QB_OK) goto out;
    QB_GO(try_profiles(cx, engine));
    engine->plans->built = qb_plans_memory(engine->plans);
    *out = engine;
    engine = NULL;
out:
    qb_engine_free(engine);
    qb_plans_free(plans);
    return status;
}

/* Tactics tried in the graph: inside the recorded run.
 *
 * Steps of equal problems that took the same tactic form a family, whose tactic changes in all of
 * them. Kernels of qbench's own are tried: they start before their predecessor ends, which timing
 * alone does not see; those of libraries never do. First all families change together, for a kernel
 * gains where its neighbours are of the same kind; then one family after the other, the longest
 * first, from whichever is better. Trials share one context, so that all tensors lie at the same
 * offsets. Constants are those of a family's first step for all of its steps, a copy for each. */
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "engine/run/context_internal.h"
#include "engine/tune/tune_internal.h"
#include "kernels/sources.h"

#define NEAR 1.5            /* times the fastest alone: alike up to that */
#define OVERLAP 4e-6        /* seconds that a step may gain at most, by starting earlier */
#define WORTH_IT 0.004      /* of a run: what a family may gain at least */
#define CLEARLY 0.995       /* an alternative must bring the run below this share of what it was */
#define TRIAL 0.06          /* seconds of a trial, */
#define TRIAL_OVERHEAD 0.02 /* and before it */
#define BUDGET 0.5          /* seconds of all trials, by what the steps take alone */
enum { ALTERNATIVES = 2, SAMPLES = 2, ROUNDS_MIN = 5, ROUNDS_MAX = 15, AS_CHOSEN = -1 };

/* An alternative of a family, and what it takes to run it. */
typedef struct alternative {
    const qb_step_alternative *as;
    qb_kernel *kernel; /* of the first step's problem */
    char *packed;      /* on the device: constants for each step; NULL: not made yet, or none */
} alternative;

typedef struct family {
    int32_t first, n; /* step and number of steps */
    double seconds;   /* of all steps alone */
    char *key;
    alternative other[ALTERNATIVES];
    int32_t n_others;
    char *why; /* of what it changed to, in the plan's arena */
} family;

/* The engine with other kernels: pick[f] says which alternative family f has. */
typedef struct candidate {
    qb_engine engine; /* a copy that shares all but the steps */
    int32_t *pick;
    bool ready; /* its kernels are there */
} candidate;

typedef struct refinement {
    qb_engine *engine;
    qb_timings *timings;
    family *families;
    size_t n_families, cap_families;
    int32_t *member; /* [n_steps] family, -1 */
    candidate **candidates;
    size_t n_candidates, cap_candidates;
    double whole, left; /* seconds: of a run, of the trials that may still be made */
    size_t workspace;
    qb_context *context;
    void **inputs, **outputs; /* of zeros; none is wanted */
    bool out_of_memory;       /* on the device */
} refinement;

/* ---- families -------------------------------------------------------------------------------- */

static bool lies_alike(const qb_desc *a, const qb_desc *b) {
    return a->dtype == b->dtype && a->layout == b->layout && qb_shape_equal(&a->shape, &b->shape) &&
           a->channel_offset == b->channel_offset && a->channel_total == b->channel_total;
}

/* Can the kernel stand in the other's place, without another copy or another plan of memory? */
static bool fits(const qb_kernel *kernel, const qb_kernel *chosen) {
    const qb_problem *p = &kernel->problem, *q = &chosen->problem;
    if (kernel->packed_inputs != chosen->packed_inputs ||
        kernel->in_place_inputs != chosen->in_place_inputs ||
        kernel->in_place_required != chosen->in_place_required || !lies_alike(&p->out, &q->out))
        return false;
    for (int32_t i = 0; i < q->n_in; i++)
        if (qb_problem_has(q, i) && !lies_alike(&p->in[i], &q->in[i])) return false;
    return true;
}

static void constants_of(const qb_step *step, bool *constant) {
    for (int32_t i = 0; i < step->kernel->problem.n_in; i++)
        constant[i] = step->constants && step->constants[i];
}

/* The step's problem by the alternative's tactic. */
static qb_status create(qb_ctx *cx, const refinement *r, const qb_step *step,
                        const qb_step_alternative *as, qb_kernel **out) {
    bool constant[QB_MAX_INPUTS] = {false};
    qb_problem problem = step->kernel->problem;
    const qb_tactic *tactic = qb_tactic_find(as->tactic);
    problem.variant = as->variant;
    problem.compiled = qb_timings_compiled(r->timings);
    constants_of(step, constant);
    return tactic->create(cx, tactic, &problem, constant, 1, out);
}

static const qb_plan_row *row_of(const refinement *r, const qb_step *step) {
    return &r->engine->plan->table[0].rows[step->row];
}

static bool may_gain(const qb_step_alternative *at, double chosen) {
    return qb_tactic_source(qb_tactic_find(at->tactic)) == QB_SOURCE_OWN && at->seconds >= 0 &&
           at->seconds <= NEAR * chosen && at->seconds <= chosen + OVERLAP;
}

/* Another tactic that was timed with the layouts of the step's. */
static bool is_other(const qb_plan_row *row, const qb_step_alternative *a) {
    return a->same_layouts && strcmp(a->tactic, row->tactic) != 0;
}

/* The nearest alternatives that stand where the step's own kernel stands, fastest first. */
static qb_status find_alternatives(qb_ctx *cx, const refinement *r, family *f) {
    const qb_step *step = &r->engine->steps[f->first];
    const qb_plan_row *row = row_of(r, step);
    double above = -1;
    for (int32_t tried = 0; tried < row->n_alternatives && f->n_others < ALTERNATIVES; tried++) {
        const qb_step_alternative *next = NULL;
        for (int32_t i = 0; i < row->n_alternatives; i++) {
            const qb_step_alternative *at = &row->alternatives[i];
            if (is_other(row, at) && may_gain(at, row->seconds) && at->seconds > above &&
                (!next || at->seconds < next->seconds))
                next = at;
        }
        if (!next) break;
        above = next->seconds;
        alternative *added = &f->other[f->n_others];
        added->as = next;
        const qb_status status = create(cx, r, step, next, &added->kernel);
        if (status == QB_STATUS_UNSUPPORTED)
            qb_ctx_clear(cx);
        else if (status != QB_OK)
            return qb_wrap(cx, "tactic %s", next->tactic);
        if (added->kernel && fits(added->kernel, step->kernel)) {
            f->n_others++;
            continue;
        }
        qb_kernel_free(added->kernel);
        *added = (alternative){0};
    }
    return QB_OK;
}

static const qb_step_alternative *next_other(const qb_plan_row *row, int32_t *i) {
    while (*i < row->n_alternatives && !is_other(row, &row->alternatives[*i])) ++*i;
    return *i < row->n_alternatives ? &row->alternatives[(*i)++] : NULL;
}

/* Do both have the same others, in the same order? */
static bool same_others(const qb_plan_row *a, const qb_plan_row *b) {
    int32_t i = 0, k = 0;
    const qb_step_alternative *x, *y;
    do {
        x = next_other(a, &i);
        y = next_other(b, &k);
        if (!x != !y || (x && strcmp(x->tactic, y->tactic) != 0)) return false;
    } while (x);
    return true;
}

static bool has_others(const qb_plan_row *row) {
    int32_t i = 0;
    return next_other(row, &i) != NULL;
}

static qb_status add_to_family(qb_ctx *cx, refinement *r, int32_t s) {
    const qb_engine *e = r->engine;
    const qb_step *step = &e->steps[s];
    bool constant[QB_MAX_INPUTS] = {false};
    char *key;
    constants_of(step, constant);
    QB_TRY(qb_problem_key(cx, &step->kernel->problem, constant, &key));
    for (size_t f = 0; f < r->n_families && r->member[s] < 0; f++) {
        const qb_step *first = &e->steps[r->families[f].first];
        if (strcmp(r->families[f].key, key) == 0 && first->kernel->tactic == step->kernel->tactic &&
            same_others(row_of(r, first), row_of(r, step)))
            r->member[s] = (int32_t)f;
    }
    if (r->member[s] >= 0) {
        qb_free(key);
    } else {
        if (qb_grow(cx, &r->families, &r->cap_families, r->n_families + 1, sizeof *r->families) !=
            QB_OK) {
            qb_free(key);
            return cx->code;
        }
        r->member[s] = (int32_t)r->n_families;
        r->families[r->n_families++] = (family){.first = s, .key = key};
    }
    family *f = &r->families[r->member[s]];
    f->n++;
    f->seconds += row_of(r, step)->seconds;
    return QB_OK;
}

static qb_status find_families(qb_ctx *cx, refinement *r) {
    const qb_engine *e = r->engine;
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        r->member[s] = -1;
        if (step->row < 0) continue;
        r->whole += row_of(r, step)->seconds;
        if (step->kernel && step->on_device && has_others(row_of(r, step)))
            QB_TRY(add_to_family(cx, r, s));
    }
    for (size_t f = 0; f < r->n_families; f++)
        if (r->families[f].n * OVERLAP >= WORTH_IT * r->whole)
            QB_TRY(find_alternatives(cx, r, &r->families[f]));
    r->workspace = e->on.workspace;
    for (size_t f = 0; f < r->n_families; f++)
        for (int32_t i = 0; i < r->families[f].n_others; i++)
            if (r->families[f].other[i].kernel->workspace_bytes > r->workspace)
                r->workspace = r->families[f].other[i].kernel->workspace_bytes;
    return QB_OK;
}

/* ---- candidates ----------------------------------------------------------------------------- */

/* The steps as they are picked, with their kernels where these are ready. */
static void fill(const refinement *r, candidate *l) {
    qb_step *steps = l->engine.steps;
    int32_t *seen = l->pick + r->n_families; /* steps of each family so far */
    memset(seen, 0, r->n_families * sizeof *seen);
    memcpy(steps, r->engine->steps, (size_t)r->engine->n_steps * sizeof *steps);
    l->engine = *r->engine;
    l->engine.steps = steps;
    l->engine.on.workspace = r->workspace;
    for (int32_t s = 0; s < r->engine->n_steps; s++) {
        const int32_t f = r->member[s];
        if (f < 0 || l->pick[f] == AS_CHOSEN) continue;
        const alternative *picked = &r->families[f].other[l->pick[f]];
        const size_t stride = qb_device_aligned(picked->kernel->packed_bytes);
        steps[s].tactic = picked->as->tactic;
        if (l->ready) steps[s].kernel = picked->kernel;
        if (l->ready && picked->packed)
            steps[s].shared = picked->packed + stride * (size_t)seen[f]++;
    }
}

/* A new one with the picks of another, or as chosen. */
static qb_status add_candidate(qb_ctx *cx, refinement *r, const candidate *like, candidate **out) {
    QB_TRY(qb_grow(cx, &r->candidates, &r->cap_candidates, r->n_candidates + 1,
                   sizeof *r->candidates));
    candidate *l = QB_NEW(cx, qb_alloc(cx, 1, sizeof *l));
    r->candidates[r->n_candidates++] = l;
    l->engine.steps = qb_alloc(cx, (size_t)r->engine->n_steps, sizeof *l->engine.steps);
    l->pick = qb_alloc(cx, 2 * r->n_families, sizeof *l->pick);
    if (!l->engine.steps || !l->pick) return cx->code;
    for (size_t f = 0; f < r->n_families; f++) l->pick[f] = like ? like->pick[f] : AS_CHOSEN;
    *out = l;
    return QB_OK;
}

/* Memory of the device for a trial. */
static qb_status reserve(qb_ctx *cx, refinement *r, size_t bytes, void **out) {
    const qb_status status = r->engine->device->alloc(cx, bytes, out);
    r->out_of_memory = r->out_of_memory || status == QB_STATUS_NOMEM;
    return status;
}

/* The alternative's constants for each step of the family. */
static qb_status upload(qb_ctx *cx, refinement *r, const family *f, alternative *with) {
    const qb_device_api *device = r->engine->device;
    const qb_kernel *kernel = with->kernel;
    const size_t bytes = kernel->packed_bytes, stride = qb_device_aligned(bytes);
    qb_status status = QB_OK;
    void *stream = NULL, *there = NULL, *host = NULL;
    if (with->packed || !kernel->pack || bytes == 0) return QB_OK;
    QB_GO(device->stream_open(cx, &stream));
    QB_GO(reserve(cx, r, stride * (size_t)f->n, &there));
    QB_GO_NEW(cx, host = qb_alloc_aligned(cx, bytes, 1));
    QB_GO(kernel->pack(cx, kernel, r->engine->steps[f->first].constants, host));
    QB_GO(device->upload(cx, there, host, bytes, stream));
    for (int32_t i = 1; i < f->n; i++)
        QB_GO(device->upload(cx, (char *)there + stride * (size_t)i, there, bytes, stream));
    QB_GO(device->sync(cx, stream));
    with->packed = QB_MOVE(there);
out:
    qb_free(host);
    device->release(there);
    device->stream_close(stream);
    return status;
}

static qb_status make_ready(qb_ctx *cx, refinement *r, candidate *l) {
    if (l->ready) return QB_OK;
    QB_TRY(qb_engine_pack(cx, r->engine));
    for (size_t f = 0; f < r->n_families; f++)
        if (l->pick[f] != AS_CHOSEN)
            QB_TRY(upload(cx, r, &r->families[f], &r->families[f].other[l->pick[f]]));
    l->ready = true;
    fill(r, l);
    return QB_OK;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static int rounds_of(const refinement *r) {
    const double rounds = TRIAL / (2 * (SAMPLES + 1) * r->whole);
    return rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds > ROUNDS_MAX ? ROUNDS_MAX : (int)rounds;
}

static qb_status start(qb_ctx *cx, refinement *r, const candidate *l) {
    const qb_engine *e = r->engine;
    if (r->context) return QB_OK;
    QB_TRY_NEW(cx, r->inputs = qb_alloc(cx, (size_t)e->n_inputs, sizeof *r->inputs));
    QB_TRY_NEW(cx, r->outputs = qb_alloc(cx, (size_t)e->n_outputs, sizeof *r->outputs));
    for (int32_t i = 0; i < e->n_inputs; i++)
        QB_TRY_NEW(cx, r->inputs[i] = qb_alloc(cx, 1, qb_desc_bytes(&e->inputs[i].desc)));
    void *tensors; /* is there memory for them? */
    QB_TRY(reserve(cx, r, e->on.arena + QB_DEVICE_ALIGNMENT + r->workspace, &tensors));
    e->device->release(tensors);
    QB_TRY(qb_context_create(cx, &l->engine, &r->context));
    return qb_context_run(cx, r->context, (const void *const *)r->inputs, r->outputs);
}

static qb_status sample(qb_ctx *cx, refinement *r, const candidate *l, double *ms) {
    double took[SAMPLES];
    QB_TRY(qb_context_switch(cx, r->context, &l->engine));
    qb_context_bind(r->context, (const void *const *)r->inputs, r->outputs, 0);
    QB_TRY(qb_context_replay(cx, r->context, SAMPLES, took));
    *ms = took[0] < took[1] ? took[0] : took[1];
    return QB_OK;
}

typedef struct pair {
    refinement *r;
    candidate *side[2];
} pair;

/* Interleaved, so that what else goes on at a time meets both. */
static qb_status run(qb_ctx *cx, void *user, double ms[2]) {
    const pair *d = user;
    const int rounds = rounds_of(d->r);
    double took[2][ROUNDS_MAX], warm_up;
    for (int e = 0; e < 2; e++) QB_TRY(make_ready(cx, d->r, d->side[e]));
    QB_TRY(start(cx, d->r, d->side[0]));
    for (int e = 0; e < 2; e++) QB_TRY(sample(cx, d->r, d->side[e], &warm_up));
    for (int i = 0; i < rounds; i++)
        for (int e = 0; e < 2; e++) QB_TRY(sample(cx, d->r, d->side[e], &took[e][i]));
    for (int e = 0; e < 2; e++) {
        qb_sort_doubles(took[e], (size_t)rounds);
        ms[e] = took[e][rounds / 2];
    }
    return QB_OK;
}

static qb_status note(qb_ctx *cx, const refinement *r, const candidate *before,
                      const candidate *after, const double ms[2]) {
    for (size_t i = 0; i < r->n_families; i++) {
        family *f = &r->families[i];
        if (before->pick[i] == after->pick[i]) continue;
        f->why = qb_arena_format(cx, r->engine->plan->arena, "%.4g ms < %.4g ms", ms[1], ms[0]);
        if (!f->why) return cx->code;
    }
    return QB_OK;
}

/* *best becomes the other one where all of it is faster. */
static qb_status attempt(qb_ctx *cx, refinement *r, candidate **best, candidate *other) {
    pair d = {r, {*best, other}};
    double ms[2] = {0, 0};
    r->left -= rounds_of(r) * 2 * (SAMPLES + 1) * r->whole + TRIAL_OVERHEAD;
    if (r->left < 0) return QB_OK;
    fill(r, other);
    static const char *const name[2] = {"engine.before", "engine.after"};
    QB_TRY(qb_ab_compare(cx, (const qb_engine *const[2]){&(*best)->engine, &other->engine}, name,
                         r->timings, run, &d, ms));
    qb_debug(cx, "in the graph: %.4f ms before, %.4f ms", ms[0], ms[1]);
    if (ms[1] >= CLEARLY * ms[0]) return QB_OK;
    QB_TRY(note(cx, r, *best, other, ms));
    *best = other;
    return QB_OK;
}

/* The longest family that was not looked at; NULL: none is left. */
static family *longest(const refinement *r, const bool *seen) {
    family *found = NULL;
    for (size_t f = 0; f < r->n_families; f++)
        if (!seen[f] && r->families[f].n_others > 0 &&
            (!found || r->families[f].seconds > found->seconds))
            found = &r->families[f];
    return found;
}

static qb_status try_families(qb_ctx *cx, refinement *r, candidate **best, bool *seen) {
    for (family *f; (f = longest(r, seen));) {
        const size_t at = (size_t)(f - r->families);
        const int32_t was = (*best)->pick[at];
        seen[at] = true;
        for (int32_t p = AS_CHOSEN; p < f->n_others; p++) {
            candidate *other;
            if (p == was || r->left < 0) continue;
            QB_TRY(add_candidate(cx, r, *best, &other));
            other->pick[at] = p;
            QB_TRY(attempt(cx, r, best, other));
        }
    }
    return QB_OK;
}

static qb_status search(qb_ctx *cx, refinement *r, candidate **best) {
    candidate *all;
    int32_t n = 0;
    QB_TRY(add_candidate(cx, r, NULL, best));
    fill(r, *best);
    QB_TRY(add_candidate(cx, r, NULL, &all));
    for (size_t f = 0; f < r->n_families; f++) {
        if (r->families[f].n_others == 0) continue;
        all->pick[f] = 0;
        n++;
    }
    if (n == 0) return QB_OK;
    if (n > 1) QB_TRY(attempt(cx, r, best, all)); /* else it is the only family's first trial */
    QB_FREED bool *seen = QB_NEW(cx, qb_alloc(cx, r->n_families, sizeof *seen));
    return try_families(cx, r, best, seen);
}

/* ---- the outcome ----------------------------------------------------------------------------- */

/* The row has the alternative's tactic from now on. */
static qb_status edit(qb_ctx *cx, const refinement *r, const qb_step *step, const alternative *with,
                      const char *why) {
    qb_plan *plan = r->engine->plan;
    qb_plan_row *row = &plan->table[0].rows[step->row];
    row->tactic = with->as->tactic;
    row->variant = with->kernel->problem.variant;
    row->seconds = with->as->seconds;
    row->tactic_reason = why;
    return qb_device_remark(cx, r->engine->device, with->kernel, plan->arena, &row->note);
}

static qb_status apply(qb_ctx *cx, const refinement *r, const candidate *best) {
    const qb_engine *e = r->engine;
    for (int32_t s = 0; s < e->n_steps; s++) {
        const int32_t f = r->member[s];
        if (f < 0 || best->pick[f] == AS_CHOSEN) continue;
        QB_TRY(edit(cx, r, &e->steps[s], &r->families[f].other[best->pick[f]], r->families[f].why));
    }
    return QB_OK;
}

static void release(refinement *r) {
    const qb_engine *e = r->engine;
    qb_context_free(r->context); /* before the engines that it ran */
    for (int32_t i = 0; r->inputs && i < e->n_inputs; i++) qb_free(r->inputs[i]);
    QB_FREE_ALL(r->inputs, r->outputs);
    for (size_t i = 0; i < r->n_candidates; i++)
        QB_FREE_ALL(r->candidates[i]->engine.steps, r->candidates[i]->pick, r->candidates[i]);
    qb_free(r->candidates);
    for (size_t f = 0; f < r->n_families; f++) {
        for (int32_t i = 0; i < r->families[f].n_others; i++) {
            e->device->release(r->families[f].other[i].packed);
            qb_kernel_free(r->families[f].other[i].kernel);
        }
        qb_free(r->families[f].key);
    }
    QB_FREE_ALL(r->families, r->member);
}

/* A step of the processor takes its time in each replay, and times of the device do not count it.
 */
static bool is_all_there(const qb_engine *e) {
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        if (!step->on_device && step->kind != QB_STEP_ALIAS && step->kind != QB_STEP_UPLOAD &&
            step->kind != QB_STEP_DOWNLOAD)
            return false;
    }
    return true;
}

/* A trial that fails, for want of the device's memory or by a step that does not run on zeros, is
 * no reason to have no engine: it stays as it was chosen. */
static qb_status stay(qb_ctx *cx, const refinement *r, qb_status status) {
    if (status == QB_STATUS_CANCELLED || (status == QB_STATUS_NOMEM && !r->out_of_memory))
        return status;
    qb_debug(cx, "in the graph: nothing is tried: %s", cx->message);
    qb_ctx_clear(cx);
    return QB_OK;
}

qb_status qb_tune_in_graph(qb_ctx *cx, qb_engine *engine, qb_timings *timings) {
    QB_RELEASED(release) refinement r = {.engine = engine, .timings = timings, .left = BUDGET};
    qb_status status = QB_OK;
    candidate *best;
    if (!is_all_there(engine)) return QB_OK;
    const double start = qb_now();
    QB_TRY_NEW(cx, r.member = qb_alloc(cx, (size_t)engine->n_steps, sizeof *r.member));
    QB_TRY(find_families(cx, &r));
    status = search(cx, &r, &best);
    status = status == QB_OK ? apply(cx, &r, best) : stay(cx, &r, status);
    qb_debug(cx, "in the graph: %.3g s", qb_now() - start);
    return status;
}

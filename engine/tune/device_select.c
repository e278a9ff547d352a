/* Which of a device's tactics runs a problem: the fastest, by timing it there. */
#include <string.h>

#include "base/log.h"
#include "engine/tune/device_timer_internal.h"
#include "engine/tune/tune_internal.h"

#define TIE 0.98 /* a later tactic must be faster than this share of the best */

/* A tactic that took a candidate. */
typedef struct measured {
    qb_step_alternative as;
    int32_t candidate;
} measured;

/* A selection in progress. */
typedef struct selection {
    qb_lowering *b;
    const qb_selection *wanted;
    qb_kernel *kernel; /* of the best, or NULL where its time was known */
    const qb_tactic *best;
    int32_t best_candidate, best_variant;
    double best_total, best_seconds; /* with and without the copies around */
    const char *fallback_reason;
    measured *all;
    size_t n_all, capacity;
} selection;

static bool has(const selection *c, const qb_tactic *tactic) {
    return tactic->kind == c->wanted->candidates->kind && qb_lower_has(c->b, tactic, true);
}

qb_status qb_device_copy_seconds(qb_lowering *b, const qb_desc *from, const qb_desc *to,
                                 double *seconds) {
    const qb_problem copy = {.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
    const bool constant = false;
    const qb_selection wanted = {.candidates = &copy, .n_candidates = 1, .constant = &constant};
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    qb_plan_row chosen;
    QB_TRY(qb_device_measure(b, &wanted, &kernel, &chosen));
    *seconds = kernel ? chosen.seconds : 1.0;
    return QB_OK;
}

/* What a candidate costs besides: inputs that are there in another layout only, and a result that
 * must then be copied into a larger tensor. */
static qb_status surroundings(const selection *c, const qb_problem *candidate, double *seconds) {
    qb_lowering *b = c->b;
    const qb_selection *w = c->wanted;
    double copy;
    *seconds = 0;
    if (!w->values || !b->value) return QB_OK;
    for (int32_t i = 0; i < candidate->n_in; i++) {
        const qb_desc *want = &candidate->in[i];
        if (w->values[i] < 0 || w->constant[i] || want->dtype == QB_DTYPE_NONE ||
            want->layout == QB_LAYOUT_ANY)
            continue;
        qb_desc have;
        if (!qb_lower_needs_copy(b, w->values[i], want, &have)) continue;
        QB_TRY(qb_device_copy_seconds(b, &have, want, &copy));
        *seconds += copy;
    }
    if (w->candidates->out.channel_total > 0 && candidate->out.channel_total == 0 &&
        candidate->out.layout != QB_LAYOUT_ANY) {
        QB_TRY(qb_device_copy_seconds(b, &candidate->out, &w->candidates->out, &copy));
        *seconds += copy;
    }
    return QB_OK;
}

static void constants_of(const selection *c, int32_t n, const void **constants) {
    for (int32_t i = 0; i < n; i++)
        constants[i] = c->wanted->values && c->wanted->values[i] >= 0
                           ? c->b->graph->values[c->wanted->values[i]].data
                           : NULL;
}

/* Creates and times; timing->seconds < 0 when the tactic does not take it after all. */
static qb_status measure(selection *c, const qb_tactic *tactic, const qb_problem *candidate,
                         qb_kernel **kernel, qb_timing *timing) {
    qb_ctx *cx = c->b->cx;
    const void *constants[QB_MAX_INPUTS];
    constants_of(c, candidate->n_in, constants);
    qb_problem problem = *candidate;
    problem.compiled = c->b->compiled;
    *kernel = NULL;
    *timing = (qb_timing){.seconds = -1};
    const double start = qb_now();
    qb_status status = tactic->compete
                           ? tactic->compete(cx, tactic, &problem, c->wanted->constant,
                                             c->best ? c->best_seconds : 0, kernel)
                           : tactic->create(cx, tactic, &problem, c->wanted->constant, 1, kernel);
    const double made = qb_now() - start;
    if (status == QB_OK) timing->variant = (*kernel)->problem.variant;
    if (status == QB_OK && !qb_lower_within_limit(c->b, *kernel))
        status = qb_fail(cx, QB_STATUS_UNSUPPORTED, "it wants %zu bytes of workspace",
                         (*kernel)->workspace_bytes);
    bool denied = false;
    if (status == QB_OK) status = qb_lower_is_denied(c->b, *kernel, c->wanted->constant, &denied);
    if (denied) status = qb_fail(cx, QB_STATUS_UNSUPPORTED, "it was found wrong here");
    if (status == QB_OK)
        status = qb_scratch_time(cx, ((const qb_tuning *)c->b->state)->scratch, *kernel, constants,
                                 c->best ? c->best_seconds : 1e30, &timing->seconds);
    else if (status != QB_STATUS_UNSUPPORTED)
        return qb_wrap(cx, "tactic %s", tactic->name);
    qb_debug(cx, "%s: made in %.3g ms, timed in %.3g ms", tactic->name, made * 1e3,
             (qb_now() - start - made) * 1e3);
    if (status == QB_OK) return QB_OK;
    if (status == QB_STATUS_UNSUPPORTED)
        qb_debug(cx, "%s: %s", tactic->name, cx->message);
    else if (status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED)
        return status;
    else
        qb_warn(cx, "%s is left out: %s", tactic->name, cx->message);
    c->fallback_reason = qb_arena_strdup(cx, c->b->engine->arena, cx->message);
    qb_ctx_clear(cx);
    qb_kernel_free(*kernel);
    *kernel = NULL;
    *timing = (qb_timing){.seconds = -1};
    return QB_OK;
}

static qb_status keep_measured(selection *c, const qb_tactic *tactic, int32_t candidate,
                               const qb_timing *timing) {
    QB_TRY(qb_grow(c->b->cx, &c->all, &c->capacity, c->n_all + 1, sizeof *c->all));
    c->all[c->n_all++] =
        (measured){{.tactic = tactic->name, .seconds = timing->seconds, .variant = timing->variant},
                   candidate};
    return QB_OK;
}

/* The tactic's time with a candidate, known or measured now. */
static qb_status time_of(selection *c, const qb_tactic *tactic, const qb_problem *candidate,
                         qb_kernel **kernel, qb_timing *timing) {
    qb_lowering *b = c->b;
    qb_timings *timings = ((const qb_tuning *)b->state)->known->timings;
    QB_FREED char *key = NULL;
    QB_TRY(qb_problem_key(b->cx, candidate, c->wanted->constant, &key));
    /* a limit of workspace needs the kernel itself, and so does what was found wrong */
    const bool known = !b->spec->workspace_limit &&
                       !(b->denied && qb_timings_have(b->denied, tactic->name)) &&
                       qb_timings_find(timings, tactic->name, key, timing);
    if (!known) {
        QB_TRY(measure(c, tactic, candidate, kernel, timing));
        QB_TRY(qb_timings_add(b->cx, timings, tactic->name, key, timing));
    }
    return QB_OK;
}

/* Enters the tactic with the first candidate that it takes. */
static qb_status enter(selection *c, const qb_tactic *tactic) {
    for (int32_t i = 0; i < c->wanted->n_candidates; i++) {
        const qb_problem *candidate = &c->wanted->candidates[i];
        if (!qb_tactic_takes(tactic, candidate, c->wanted->constant)) continue;
        QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
        qb_timing timing;
        double besides;
        QB_TRY(time_of(c, tactic, candidate, &kernel, &timing));
        if (timing.seconds < 0) continue;
        QB_TRY(keep_measured(c, tactic, i, &timing));
        QB_TRY(surroundings(c, candidate, &besides));
        if (c->best && timing.seconds + besides > TIE * c->best_total) return QB_OK;
        qb_kernel_free(c->kernel);
        c->kernel = QB_MOVE(kernel);
        c->best = tactic;
        c->best_candidate = i;
        c->best_variant = timing.variant;
        c->best_seconds = timing.seconds;
        c->best_total = timing.seconds + besides;
        return QB_OK;
    }
    return QB_OK;
}

/* The kernel with one of its library's algorithms, without trying them. */
static qb_status create_best(selection *c) {
    qb_problem problem = c->wanted->candidates[c->best_candidate];
    problem.variant = c->best_variant;
    problem.compiled = c->b->compiled;
    return c->best->create(c->b->cx, c->best, &problem, c->wanted->constant, 1, &c->kernel);
}

/* What was the fastest at the usual shapes, if it takes these. The algorithms of a library are
 * numbered anew for each shape: elsewhere its own first choice. */
static qb_status take_usual(selection *c) {
    const qb_tuning *t = c->b->state;
    const qb_plan_row *row = qb_lower_selected(c->b, c->wanted, t->usual);
    const qb_tactic *tactic = row ? qb_tactic_find(row->tactic) : NULL;
    if (!tactic || !has(c, tactic)) return QB_OK;
    if (t->at_usual) QB_TRY(qb_lower_create_row(c->b, c->wanted, tactic, row, &c->kernel));
    return c->kernel ? QB_OK
                     : qb_lower_create_first(c->b, c->wanted, tactic,
                                             t->at_usual ? row->variant : 1, &c->kernel);
}

/* All that were timed, and which of them have the candidate of the best: a candidate that leaves
 * the layout open may become another one. */
static qb_status keep_alternatives(const selection *c, qb_plan_row *chosen) {
    qb_step_alternative *all = qb_arena_pack(c->b->cx, c->b->engine->arena, c->n_all, sizeof *all);
    if (!all) return c->b->cx->code;
    for (size_t i = 0; i < c->n_all; i++) {
        all[i] = c->all[i].as;
        all[i].same_layouts = c->all[i].candidate == c->best_candidate;
    }
    chosen->alternatives = all;
    chosen->n_alternatives = (int32_t)c->n_all;
    return QB_OK;
}

/* Times all tactics that take a candidate. */
static qb_status find_fastest(selection *c, bool *any) {
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        if (!has(c, *t)) continue;
        *any = true;
        QB_TRY(enter(c, *t));
    }
    return c->best && !c->kernel ? create_best(c) : QB_OK;
}

/* Looks at no time. */
static qb_status find_first(selection *c, bool *any) {
    const qb_tuning *t = c->b->state;
    for (const qb_tactic *const *tactic = qb_tactics(); *tactic; tactic++)
        *any = *any || has(c, *tactic);
    if (t->usual) QB_TRY(take_usual(c));
    if (!c->kernel) QB_TRY(qb_lower_preferred(c->b, c->wanted, &c->kernel));
    return QB_OK;
}

static void selection_release(selection *c) {
    qb_free(c->all);
    qb_kernel_free(c->kernel);
}

qb_status qb_device_measure(qb_lowering *b, const qb_selection *wanted, qb_kernel **out,
                            qb_plan_row *chosen) {
    const qb_tuning *t = b->state;
    QB_RELEASED(selection_release) selection c = {.b = b, .wanted = wanted};
    bool any = false;
    *out = NULL;
    *chosen = (qb_plan_row){0};
    QB_TRY((b->spec->first_tactic || t->usual ? find_first : find_fastest)(&c, &any));
    QB_TRY(keep_alternatives(&c, chosen));
    *out = QB_MOVE(c.kernel);
    chosen->seconds = c.best ? c.best_seconds : 0;
    if (!*out)
        chosen->fallback_reason = c.fallback_reason ? c.fallback_reason
                                  : any             ? "no tactic takes its types, layout or shape"
                                                    : "no tactic for it";
    return QB_OK;
}

qb_status qb_device_remark(qb_ctx *cx, const qb_device_api *device, const qb_kernel *kernel,
                           qb_arena *arena, const char **note) {
    char text[96];
    *note = NULL;
    if (!device->remark || !device->remark(kernel, text, sizeof text)) return QB_OK;
    *note = qb_arena_strdup(cx, arena, text);
    return *note ? QB_OK : cx->code;
}

qb_status qb_device_select(qb_lowering *b, const qb_selection *wanted, qb_kernel **out) {
    qb_plan_row *chosen = &((qb_tuning *)b->state)->chosen[wanted->copied != NULL];
    QB_TRY(qb_device_measure(b, wanted, out, chosen));
    if (!*out && !wanted->copied) b->fallback_reason = chosen->fallback_reason;
    if (!*out) return QB_OK;
    const qb_status status =
        qb_device_remark(b->cx, b->engine->device, *out, b->engine->arena, &chosen->note);
    if (status == QB_OK) return QB_OK;
    qb_kernel_free(*out);
    *out = NULL;
    return status;
}

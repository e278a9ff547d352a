/* Which tactic runs a problem on the host. */
#include <string.h>

#include "base/log.h"
#include "engine/tune/tune_internal.h"

#define TIMED_RUNS 5

/* Runs a kernel on scratch memory; *seconds is the best of a few runs, or the first one when that
 * is hopeless against `best` (portable code on large problems would take minutes). */
static qb_status time_kernel(qb_lowering *b, const qb_kernel *kernel, double best,
                             double *seconds) {
    qb_status status = QB_OK;
    const qb_problem *p = &kernel->problem;
    void *buffers[QB_MAX_INPUTS + 3] = {0};
    const void *in[QB_MAX_INPUTS] = {0};
    int32_t n = 0;
    qb_launch launch = {.in = in, .workers = ((const qb_tuning *)b->state)->workers};
    for (int32_t i = 0; i < p->n_in; i++) {
        if (!qb_problem_has(p, i) || (kernel->packed_inputs >> i & 1)) continue;
        in[i] = buffers[n++] =
            qb_alloc_aligned(b->cx, qb_desc_bytes(&p->in[i]) + QB_BUFFER_SLACK, 1);
    }
    launch.out = buffers[n++] =
        qb_alloc_aligned(b->cx, qb_desc_bytes(&p->out) + QB_BUFFER_SLACK, 1);
    launch.packed = buffers[n++] = qb_alloc_aligned(b->cx, kernel->packed_bytes, 1);
    launch.workspace = buffers[n++] = qb_alloc_aligned(b->cx, kernel->workspace_bytes, 1);
    for (int32_t i = 0; i < n; i++)
        if (!buffers[i]) status = b->cx->code;
    if (kernel->in_place_required)
        for (int32_t i = 0; i < p->n_in; i++)
            if (kernel->in_place_inputs >> i & 1) launch.out = buffers[i] ? (void *)in[i] : NULL;
    *seconds = 1e30;
    for (int run = 0; run < TIMED_RUNS && status == QB_OK; run++) {
        double start = qb_now();
        status = kernel->launch(b->cx, kernel, &launch);
        double took = qb_now() - start;
        if (took < *seconds) *seconds = took;
        if (took > 4 * best) break;
    }
    for (int32_t i = 0; i < n; i++) qb_free(buffers[i]);
    return status;
}

/* The tactic's kernel, with its time among the alternatives, takes the place of a slower one. Ties
 * within a twentieth go to the one that the user's order names first. */
static qb_status enter(qb_lowering *b, const qb_selection *s, const qb_tactic *tactic,
                       qb_step_alternative *all, qb_plan_row *chosen, qb_kernel **best) {
    qb_kernel *kernel;
    double seconds;
    const double before = *best ? chosen->seconds : 1e30;
    QB_TRY(qb_lower_create_first(b, s, tactic, 0, &kernel));
    if (!kernel) return QB_OK;
    const qb_status status = time_kernel(b, kernel, before, &seconds);
    if (status != QB_OK) {
        qb_kernel_free(kernel);
        return qb_wrap(b->cx, "timing tactic %s", tactic->name);
    }
    qb_debug(b->cx, "%s (%s): %.1f us", tactic->name, kernel->impl, seconds * 1e6);
    all[chosen->n_alternatives++] =
        (qb_step_alternative){.tactic = tactic->name, .seconds = seconds};
    const bool better = seconds < 0.95 * before;
    qb_kernel_free(better ? *best : kernel);
    if (better) *best = kernel, chosen->seconds = seconds;
    return QB_OK;
}

/* The fastest of all tactics but the reference, which only runs what nobody else can. */
static qb_status fastest(qb_lowering *b, const qb_selection *s, qb_kernel **out) {
    qb_plan_row *chosen = &((qb_tuning *)b->state)->chosen[s->copied != NULL];
    size_t n = 0;
    while (qb_tactics()[n]) n++;
    qb_step_alternative *all = qb_arena_pack(b->cx, b->engine->arena, n, sizeof *all);
    if (!all) return b->cx->code;
    chosen->alternatives = all;
    for (const char *const *backend = b->backends.name; *backend; backend++) {
        for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
            if (strcmp((*t)->backend, *backend) != 0 || strcmp(*backend, "ref") == 0) continue;
            if (enter(b, s, *t, all, chosen, out) == QB_OK) continue;
            qb_kernel_free(*out);
            *out = NULL;
            return b->cx->code;
        }
    }
    return QB_OK;
}

/* What timing found best for the step at the shapes that a profile is tuned for. */
static qb_status usual(qb_lowering *b, const qb_selection *s, qb_kernel **out) {
    const qb_tuning *t = b->state;
    const qb_plan_row *row = qb_lower_selected(b, s, t->usual);
    const qb_tactic *tactic = row ? qb_tactic_find(row->tactic) : NULL;
    if (!tactic || tactic->device_memory) return QB_OK;
    if (t->at_usual) QB_TRY(qb_lower_create_row(b, s, tactic, row, out));
    return *out ? QB_OK : qb_lower_create_first(b, s, tactic, 0, out);
}

qb_status qb_host_select(qb_lowering *b, const qb_selection *s, qb_kernel **out) {
    const qb_tuning *t = b->state;
    *out = NULL;
    if (t->usual)
        QB_TRY(usual(b, s, out));
    else if (b->spec->time_tactics && !s->copied)
        QB_TRY(fastest(b, s, out));
    if (!*out) QB_TRY(qb_lower_preferred(b, s, out));
    if (*out || s->optional) return QB_OK;
    char in[96], to[96];
    const qb_problem *p = s->candidates;
    return qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "no tactic runs %s of %s %s to %s %s%s",
                   qb_kind_text(p->kind), qb_dtype_text(p->in[0].dtype),
                   qb_shape_text(&p->in[0].shape, in, sizeof in), qb_dtype_text(p->out.dtype),
                   qb_shape_text(&p->out.shape, to, sizeof to),
                   b->spec->workspace_limit ? " within the limit of workspace" : "");
}

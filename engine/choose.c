/* Which tactic runs a problem. */
#include <string.h>

#include "base/log.h"
#include "plans_internal.h"

#define TIMED_RUNS 5

static bool has_weights(qb_kind kind) {
    return kind == QB_KIND_CONV || kind == QB_KIND_CONV_TRANSPOSE || kind == QB_KIND_MATMUL;
}

/* oneDNN's threads are OpenMP's, which spin for milliseconds after each loop and so take their
 * processors from the engine's workers. Beside kernels that use those, its light steps stay on the
 * caller's thread. */
static int threads_for(const qb_builder *b, const qb_tactic *tactic) {
    bool beside_workers = strcmp(b->backends[0], "cpu") == 0;
    bool light = !has_weights(tactic->kind);
    return beside_workers && light && strcmp(tactic->backend, "dnnl") == 0 ? 1 : b->engine->threads;
}

const char *qb_build_group_name(const qb_builder *b) {
    if (b->group >= b->groups.n) return "";
    return b->graph->values[b->groups.group[b->group].out].name;
}

bool qb_build_within_limit(qb_builder *b, const qb_kernel *kernel) {
    const double mib = 1 << 20;
    if (b->workspace_limit == 0 || kernel->workspace_bytes <= b->workspace_limit) return true;
    if (b->left_out == kernel->tactic && b->left_out_group == b->group) return false; /* again */
    b->left_out = kernel->tactic;
    b->left_out_group = b->group;
    qb_info(b->cx, "'%s': tactic %s is left out: it wants %.3g MiB of workspace, the limit is %.3g",
            qb_build_group_name(b), kernel->tactic->name, (double)kernel->workspace_bytes / mib,
            (double)b->workspace_limit / mib);
    return false;
}

/* One tactic on one form; *out is NULL when it does not take it. */
static qb_status try_tactic(qb_builder *b, const qb_tactic *tactic, const qb_problem *form,
                            const bool *constant, qb_kernel **out) {
    *out = NULL;
    if (tactic->kind != form->kind || !tactic->supports(form, constant)) return QB_OK;
    qb_status status = tactic->create(b->cx, tactic, form, constant, threads_for(b, tactic), out);
    if (status == QB_STATUS_UNSUPPORTED) {
        qb_debug(b->cx, "%s: %s", tactic->name, b->cx->message);
        qb_ctx_clear(b->cx);
        *out = NULL;
        return QB_OK;
    }
    if (status != QB_OK) return qb_wrap(b->cx, "tactic %s", tactic->name);
    if (qb_build_within_limit(b, *out)) return QB_OK;
    qb_kernel_free(*out);
    *out = NULL;
    return QB_OK;
}

static qb_status first_form(qb_builder *b, const qb_tactic *tactic, const qb_problem *forms,
                            int32_t n_forms, const bool *constant, qb_kernel **out) {
    *out = NULL;
    for (int32_t f = 0; f < n_forms && !*out; f++)
        QB_TRY(try_tactic(b, tactic, &forms[f], constant, out));
    return QB_OK;
}

/* Runs a kernel on scratch memory; *seconds is the best of a few runs, or the first one when that
 * is hopeless against `best` (portable code on large problems would take minutes). */
static qb_status time_kernel(qb_builder *b, const qb_kernel *kernel, double best, double *seconds) {
    qb_status status = QB_OK;
    const qb_problem *p = &kernel->problem;
    void *buffers[QB_MAX_INPUTS + 3] = {0};
    const void *in[QB_MAX_INPUTS] = {0};
    int32_t n = 0;
    qb_launch launch = {.in = in, .workers = b->workers};
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

/* The fastest of all tactics but the reference, which only runs what nobody else can. Ties within a
 * twentieth go to the one that the user's order names first. */
static qb_status fastest(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                         const bool *constant, qb_kernel **out) {
    double best = 1e30;
    *out = NULL;
    for (const char *const *backend = b->backends; *backend; backend++) {
        for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
            if (strcmp((*t)->backend, *backend) != 0 || strcmp(*backend, "ref") == 0) continue;
            qb_kernel *kernel;
            double seconds;
            QB_TRY(first_form(b, *t, forms, n_forms, constant, &kernel));
            if (!kernel) continue;
            if (time_kernel(b, kernel, best, &seconds) != QB_OK) {
                qb_kernel_free(kernel);
                qb_kernel_free(*out);
                *out = NULL;
                return qb_wrap(b->cx, "timing tactic %s", (*t)->name);
            }
            qb_debug(b->cx, "%s (%s): %.1f us", (*t)->name, kernel->impl, seconds * 1e6);
            bool better = seconds < 0.95 * best;
            qb_kernel_free(better ? *out : kernel);
            if (better) *out = kernel, best = seconds;
        }
    }
    return QB_OK;
}

static qb_status preferred(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                           const bool *constant, qb_kernel **out) {
    *out = NULL;
    for (const char *const *backend = b->backends; *backend; backend++)
        for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
            if (strcmp((*t)->backend, *backend) != 0) continue;
            QB_TRY(first_form(b, *t, forms, n_forms, constant, out));
            if (*out) return QB_OK;
        }
    return QB_OK;
}

/* The first form that the tactic takes with that algorithm. */
static qb_status same_variant(qb_builder *b, const qb_tactic *tactic, int32_t variant,
                              const qb_problem *forms, int32_t n_forms, const bool *constant,
                              qb_kernel **out) {
    for (int32_t f = 0; f < n_forms && !*out; f++) {
        qb_problem form = forms[f];
        form.variant = variant;
        form.compiled = b->compiled;
        QB_TRY(try_tactic(b, tactic, &form, constant, out));
    }
    return QB_OK;
}

qb_status qb_build_again(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                         const bool *constant, bool device, qb_kernel **out) {
    const qb_replay *replay = b->replay;
    const int32_t i = b->engine->n_recorded;
    const qb_tactic *tactic = i < replay->n ? replay->tactic[i] : NULL;
    *out = NULL;
    if (device && i < replay->n && !replay->name[i][0]) return QB_OK;
    if (tactic && tactic->device_memory == device)
        QB_TRY(same_variant(b, tactic, replay->variant[i], forms, n_forms, constant, out));
    if (*out) return QB_OK;
    /* Where eval runs a node because no tactic did, none was recorded. */
    const bool optional = b->trying || forms->kind > QB_KIND_COPY;
    return qb_fail(b->cx, optional ? QB_STATUS_UNSUPPORTED : QB_STATUS_MISMATCH,
                   "tactic %s, which was recorded, does not run it here",
                   i < replay->n ? replay->name[i] : "(none)");
}

/* What timing found best for the step at the shapes that a profile is tuned for. */
static qb_status hinted(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                        const bool *constant, qb_kernel **out) {
    const qb_hint *hint = qb_hints_find(b->hints, qb_build_group_name(b));
    *out = NULL;
    if (!hint || !hint->tactic || hint->tactic->device_memory) return QB_OK;
    return first_form(b, hint->tactic, forms, n_forms, constant, out);
}

static qb_status choose(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                        const bool *constant, qb_kernel **out) {
    *out = NULL;
    if (b->hints && forms->kind != QB_KIND_COPY) QB_TRY(hinted(b, forms, n_forms, constant, out));
    if (*out) return QB_OK;
    if (b->time_tactics && forms->kind != QB_KIND_COPY)
        QB_TRY(fastest(b, forms, n_forms, constant, out));
    return *out ? QB_OK : preferred(b, forms, n_forms, constant, out);
}

qb_status qb_build_record(qb_builder *b, const qb_kernel *kernel) {
    qb_engine *e = b->engine;
    QB_TRY(qb_grow(b->cx, &e->recorded, &b->cap_recorded, (size_t)e->n_recorded + 1,
                   sizeof *e->recorded));
    e->recorded[e->n_recorded++] =
        kernel ? (qb_chosen){kernel->tactic, kernel->problem.variant} : (qb_chosen){0};
    return QB_OK;
}

qb_status qb_build_kernel(qb_builder *b, const qb_problem *forms, int32_t n_forms,
                          const bool *constant, qb_kernel **out) {
    if (b->replay)
        QB_TRY(qb_build_again(b, forms, n_forms, constant, false, out));
    else
        QB_TRY(choose(b, forms, n_forms, constant, out));
    if (*out && qb_build_record(b, *out) != QB_OK) {
        qb_kernel_free(*out);
        *out = NULL;
        return b->cx->code;
    }
    if (*out) return QB_OK;
    char in[96], to[96];
    return qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "no tactic runs %s of %s %s to %s %s%s",
                   qb_kind_text(forms->kind), qb_dtype_text(forms->in[0].dtype),
                   qb_shape_text(&forms->in[0].shape, in, sizeof in),
                   qb_dtype_text(forms->out.dtype), qb_shape_text(&forms->out.shape, to, sizeof to),
                   b->workspace_limit ? " within the limit of workspace" : "");
}

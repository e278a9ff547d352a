/* Making the kernel of a tactic. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/realize/lowering_internal.h"
#include "engine/timings.h"
#include "kernels/sources.h"

/* oneDNN's threads are OpenMP's, which spin for milliseconds after each loop and so take their
 * processors from the engine's workers. Beside kernels that use those, its light steps stay on the
 * caller's thread. */
static int threads_for(const qb_lowering *b, const qb_tactic *tactic) {
    bool beside_workers = strcmp(b->backends.name[0], "cpu") == 0;
    bool light = tactic->kind != QB_KIND_CONV && tactic->kind != QB_KIND_CONV_TRANSPOSE &&
                 tactic->kind != QB_KIND_MATMUL;
    if (tactic->device_memory) return 1;
    return beside_workers && light && strcmp(tactic->backend, "dnnl") == 0 ? 1 : b->spec->threads;
}

bool qb_lower_within_limit(qb_lowering *b, const qb_kernel *kernel) {
    const double mib = 1 << 20;
    const size_t limit = b->spec->workspace_limit;
    if (limit == 0 || kernel->workspace_bytes <= limit) return true;
    snprintf(b->unsupported_reason, sizeof b->unsupported_reason, "it wants %zu bytes of workspace",
             kernel->workspace_bytes);
    if (b->left_out == kernel->tactic && b->left_out_group == b->group) return false; /* said */
    b->left_out = kernel->tactic;
    b->left_out_group = b->group;
    qb_info(b->cx, "'%s': tactic %s is left out: it wants %.3g MiB of workspace, the limit is %.3g",
            qb_lower_group_name(b), kernel->tactic->name, (double)kernel->workspace_bytes / mib,
            (double)limit / mib);
    return false;
}

/* *out is NULL where the tactic does not take the problem. */
static qb_status make(qb_lowering *b, const qb_tactic *tactic, const qb_problem *problem,
                      const bool *constant, qb_kernel **out) {
    const qb_status status =
        tactic->create(b->cx, tactic, problem, constant, threads_for(b, tactic), out);
    if (status == QB_OK) return QB_OK;
    *out = NULL;
    if (status != QB_STATUS_UNSUPPORTED) return qb_wrap(b->cx, "tactic %s", tactic->name);
    qb_debug(b->cx, "%s: %s", tactic->name, b->cx->message);
    snprintf(b->unsupported_reason, sizeof b->unsupported_reason, "%.255s", b->cx->message);
    qb_ctx_clear(b->cx);
    return QB_OK;
}

qb_status qb_lower_is_denied(qb_lowering *b, const qb_kernel *kernel, const bool *constant,
                             bool *denied) {
    qb_timing timing;
    char *key;
    *denied = false;
    if (!b->denied) return QB_OK;
    QB_TRY(qb_problem_key(b->cx, &kernel->problem, constant, &key));
    *denied = qb_timings_find(b->denied, kernel->tactic->name, key, &timing) && timing.seconds < 0;
    qb_free(key);
    return QB_OK;
}

qb_status qb_lower_create(qb_lowering *b, const qb_tactic *tactic, const qb_problem *problem,
                          const bool *constant, qb_kernel **out) {
    *out = NULL;
    if (!qb_tactic_takes(tactic, problem, constant)) return QB_OK;
    QB_TRY(qb_kernel_pool_find(b, tactic, problem, constant, out));
    if (*out) return QB_OK;
    QB_TRY(make(b, tactic, problem, constant, out));
    if (!*out) return QB_OK;
    bool denied;
    qb_status status = qb_lower_is_denied(b, *out, constant, &denied);
    const bool fits = status == QB_OK && !denied && qb_lower_within_limit(b, *out);
    if (fits) status = qb_kernel_pool_add(b, *out);
    if (fits && status == QB_OK) return QB_OK;
    qb_kernel_free(*out);
    *out = NULL;
    return status;
}

qb_status qb_lower_create_first(qb_lowering *b, const qb_selection *s, const qb_tactic *tactic,
                                int32_t variant, qb_kernel **out) {
    *out = NULL;
    for (int32_t c = 0; c < s->n_candidates && !*out; c++) {
        qb_problem problem = s->candidates[c];
        problem.variant = variant;
        problem.compiled = b->compiled;
        QB_TRY(qb_lower_create(b, tactic, &problem, s->constant, out));
    }
    return QB_OK;
}

bool qb_lower_has(const qb_lowering *b, const qb_tactic *tactic, bool on_device) {
    if (tactic->device_memory != on_device) return false;
    if (on_device)
        return b->engine->device && strcmp(tactic->backend, b->engine->device->backend) == 0 &&
               !(qb_tactic_source(tactic) & b->spec->excluded_sources);
    for (const char *const *name = b->backends.name; *name; name++)
        if (strcmp(tactic->backend, *name) == 0) return true;
    return false;
}

/* Portable code comes behind all vector code, and the reference behind both unless it is asked for
 * first. */
enum { VECTORS, PORTABLE, REFERENCE, CLASSES };
static int class_of(const qb_tactic *tactic, const char *first_backend) {
    if (strcmp(tactic->backend, "ref") == 0)
        return strcmp(first_backend, "ref") == 0 ? VECTORS : REFERENCE;
    return tactic->is_portable && tactic->is_portable() ? PORTABLE : VECTORS;
}

qb_status qb_lower_preferred(qb_lowering *b, const qb_selection *s, qb_kernel **out) {
    const char *const device[] = {b->engine->device ? b->engine->device->backend : NULL, NULL};
    const char *const *names = s->on_device ? device : b->backends.name;
    *out = NULL;
    for (int class = VECTORS; class < CLASSES; class ++)
        for (const char *const *name = names; *name; name++)
            for (const qb_tactic *const *t = qb_tactics(); *t && !*out; t++)
                if ((*t)->kind == s->candidates->kind && class_of(*t, names[0]) == class &&
                    strcmp((*t)->backend, *name) == 0 && qb_lower_has(b, *t, s->on_device))
                    QB_TRY(qb_lower_create_first(b, s, *t, s->on_device, out));
    return QB_OK;
}

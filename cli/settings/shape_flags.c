#include "cli/settings/shape_flags.h"

#include <stdlib.h>
#include <string.h>

#include "cli/settings/inputs.h"
#include "cli/settings/pairs.h"

#define PROFILES_MAX 16

/* ---- sizes ---- */

static qb_status parse_shape(qb_ctx *cx, const char *option, const qb_pair *p, qb_shape *out) {
    qb_shape shape = {0};
    const char *at = p->value, *end = p->value + p->value_length;
    while (at < end) {
        char *stop;
        const long long dim = strtoll(at, &stop, 10);
        if (stop == at || stop > end || dim < 1 || shape.rank == QB_MAX_RANK ||
            (stop < end && *stop != 'x' && *stop != '*'))
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--%s: expected NAME:1x3x224x224 of at most %d sizes, got '%.*s'",
                           option, QB_MAX_RANK, (int)p->value_length, p->value);
        shape.dim[shape.rank++] = dim;
        at = stop + (stop < end);
    }
    *out = shape;
    return QB_OK;
}

qb_status qb_shapes_parse(qb_ctx *cx, const char *option, const char *text,
                          const char *const *names, int32_t n, qb_shape *shapes) {
    qb_pair p;
    while (qb_pair_next(&text, &p)) {
        int32_t i;
        QB_TRY(qb_pair_input(cx, option, &p, names, n, &i));
        QB_TRY(parse_shape(cx, option, &p, &shapes[i]));
    }
    return QB_OK;
}

/* ---- profiles ---- */

enum { MIN, OPT, MAX, N_BOUNDS };
static const char *const bounds[N_BOUNDS] = {"minShapes", "optShapes", "maxShapes"};

/* What is given of each profile. */
typedef struct given {
    const char *text[PROFILES_MAX][N_BOUNDS];
    int32_t n;
} given;

static qb_status gather(qb_ctx *cx, const qb_opt_list *list, given *out) {
    int32_t at = 0;
    *out = (given){0};
    for (int i = 0; i < list->n; i += 2) {
        const char *name = list->item[i], *value = list->item[i + 1];
        if (strcmp(name, "profile") == 0) {
            char *end;
            const long number = strtol(value, &end, 10);
            if (end == value || *end || number < 0 || number > out->n || number >= PROFILES_MAX)
                return qb_fail(cx, QB_STATUS_USAGE,
                               "--profile: expected 0 to %d here, one after another, got '%s'",
                               out->n < PROFILES_MAX ? (int)out->n : PROFILES_MAX - 1, value);
            at = (int32_t)number;
            continue;
        }
        int which = 0;
        while (strcmp(name, bounds[which]) != 0) which++;
        out->text[at][which] = value;
        if (at >= out->n) out->n = at + 1;
    }
    return QB_OK;
}

/* Fills one profile's three rows of shapes. */
static qb_status fill(qb_ctx *cx, const qb_graph *graph, int64_t batch, const char *const *names,
                      const char *const text[N_BOUNDS], qb_shape *rows[N_BOUNDS]) {
    const char *opt = text[OPT] ? text[OPT] : text[MAX] ? text[MAX] : text[MIN];
    const char *const of[N_BOUNDS] = {text[MIN] ? text[MIN] : opt, opt,
                                      text[MAX] ? text[MAX] : opt};
    const int32_t n = graph->n_inputs;
    for (int b = 0; b < N_BOUNDS; b++) {
        for (int32_t i = 0; i < n; i++) rows[b][i].rank = -1;
        QB_TRY(qb_shapes_parse(cx, bounds[b], of[b], names, n, rows[b]));
        for (int32_t i = 0; i < n; i++)
            if (rows[b][i].rank < 0)
                QB_TRY(
                    qb_bench_own_shape(cx, &graph->values[graph->inputs[i]], batch, &rows[b][i]));
    }
    return QB_OK;
}

qb_status qb_profiles_parse(qb_ctx *cx, const qb_shape_flags *flags, const qb_graph *graph,
                            int64_t batch, qb_profile **out, int32_t *n) {
    given g;
    *n = 0;
    *out = NULL;
    QB_TRY(gather(cx, &flags->profiles, &g));
    if (g.n == 0) return QB_OK;
    const size_t n_inputs = (size_t)graph->n_inputs, n_shapes = (size_t)g.n * N_BOUNDS * n_inputs;
    QB_FREED const char **names = QB_NEW(cx, qb_alloc(cx, n_inputs, sizeof *names));
    QB_FREED qb_profile *profiles =
        QB_NEW(cx, qb_alloc(cx, 1, (size_t)g.n * sizeof *profiles + n_shapes * sizeof(qb_shape)));
    for (size_t i = 0; i < n_inputs; i++) names[i] = graph->values[graph->inputs[i]].name;
    qb_shape *next = (qb_shape *)(void *)(profiles + g.n);
    for (int32_t p = 0; p < g.n; p++) {
        qb_shape *rows[N_BOUNDS];
        for (int b = 0; b < N_BOUNDS; b++, next += n_inputs) rows[b] = next;
        QB_TRY(fill(cx, graph, batch, names, g.text[p], rows));
        profiles[p] = (qb_profile){rows[MIN], rows[OPT], rows[MAX]};
    }
    *out = QB_MOVE(profiles);
    *n = g.n;
    return QB_OK;
}

/* ---- the shapes of a run ---- */

qb_status qb_shapes_plan(qb_ctx *cx, const qb_engine *engine, const char *text, int64_t profile,
                         const qb_engine **plan) {
    const int32_t n = qb_engine_n_inputs(engine), n_profiles = qb_engine_n_profiles(engine);
    if (profile >= n_profiles)
        return qb_fail(cx, QB_STATUS_INVALID, "--useProfile: the engine has %d profiles, got %lld",
                       (int)n_profiles, (long long)profile);
    QB_FREED const char **names = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *names));
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *shapes));
    for (int32_t i = 0; i < n; i++) {
        names[i] = qb_engine_input_name(engine, i);
        shapes[i] = profile < 0 ? qb_engine_input(engine, i)->shape
                                : qb_engine_profile(engine, (int32_t)profile)->opt[i];
    }
    QB_TRY(qb_shapes_parse(cx, "shapes", text, names, n, shapes));
    return qb_engine_at_profile(cx, engine, (int32_t)profile, shapes, plan);
}

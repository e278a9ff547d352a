/* Plans in memory. */
#include "engine/plan/plan_internal.h"

#include <stdio.h>
#include <string.h>

static qb_status keep_text(qb_ctx *cx, qb_plan *plan, const char **text) {
    if (*text) *text = qb_arena_strdup(cx, plan->arena, *text);
    return cx->code;
}

static qb_status keep_shapes(qb_ctx *cx, qb_plan *plan, const qb_shape **shapes) {
    const size_t n = (size_t)plan->n_inputs;
    if (!*shapes) return QB_OK;
    qb_shape *kept = QB_NEW(cx, qb_arena_alloc(cx, plan->arena, n, sizeof *kept));
    if (n) memcpy(kept, *shapes, n * sizeof *kept);
    *shapes = kept;
    return QB_OK;
}

static qb_status keep_spec(qb_ctx *cx, qb_plan *plan) {
    qb_build_spec *spec = &plan->spec;
    spec->timing_cache = spec->plan = spec->max_sizes = NULL;
    QB_TRY(keep_text(cx, plan, &spec->backends));
    QB_TRY(keep_shapes(cx, plan, &spec->input_shapes));
    if (spec->n_profiles == 0) return QB_OK;
    qb_profile *profiles =
        QB_NEW(cx, qb_arena_alloc(cx, plan->arena, (size_t)spec->n_profiles, sizeof *profiles));
    for (int32_t i = 0; i < spec->n_profiles; i++) {
        profiles[i] = spec->profiles[i];
        QB_TRY(keep_shapes(cx, plan, &profiles[i].min));
        QB_TRY(keep_shapes(cx, plan, &profiles[i].opt));
        QB_TRY(keep_shapes(cx, plan, &profiles[i].max));
    }
    spec->profiles = profiles;
    return QB_OK;
}

qb_status qb_plan_create(qb_ctx *cx, const qb_build_spec *spec, int32_t n_inputs, qb_plan **out) {
    QB_RELEASED(qb_plan_free_at) qb_plan *plan = QB_NEW(cx, qb_alloc(cx, 1, sizeof *plan));
    plan->n_inputs = n_inputs;
    plan->n_tables = spec->n_profiles > 0 ? spec->n_profiles : 1;
    for (int32_t i = 0; i < QB_PROFILES_MAX; i++) plan->table[i].parts = 1;
    QB_TRY(qb_arena_create(cx, &plan->arena));
    plan->spec = *spec;
    QB_TRY(keep_spec(cx, plan));
    *out = QB_MOVE(plan);
    return QB_OK;
}

void qb_plan_free(qb_plan *plan) {
    if (!plan) return;
    for (int32_t i = 0; i < QB_PROFILES_MAX; i++) {
        qb_free(plan->table[i].rows);
        qb_index_release(&plan->table[i].index);
    }
    qb_arena_free(plan->arena);
    qb_free(plan);
}

static qb_status keep_row(qb_ctx *cx, qb_plan *plan, qb_plan_row *row) {
    const char **const texts[] = {&row->value,       &row->op,         &row->tactic,
                                  &row->fuses,       &row->f16_reason, &row->fallback_reason,
                                  &row->fuse_reason, &row->note,       &row->tactic_reason};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) QB_TRY(keep_text(cx, plan, texts[i]));
    const size_t n_in = (size_t)row->n_in, n = (size_t)row->n_alternatives;
    qb_plan_layout *in = qb_arena_pack(cx, plan->arena, n_in, sizeof *in);
    qb_step_alternative *alternatives = qb_arena_pack(cx, plan->arena, n, sizeof *alternatives);
    if (!in || !alternatives) return cx->code;
    if (n_in) memcpy(in, row->in, n_in * sizeof *in);
    if (n) memcpy(alternatives, row->alternatives, n * sizeof *alternatives);
    for (size_t i = 0; i < n; i++) QB_TRY(keep_text(cx, plan, &alternatives[i].tactic));
    row->in = in;
    row->alternatives = alternatives;
    return QB_OK;
}

qb_status qb_plan_add(qb_ctx *cx, qb_plan *plan, qb_plan_table *table, const qb_plan_row *row,
                      int32_t *index) {
    QB_TRY(qb_grow(cx, &table->rows, &table->capacity, (size_t)table->n_rows + 1,
                   sizeof *table->rows));
    qb_plan_row kept = *row;
    QB_TRY(keep_row(cx, plan, &kept));
    if (index) *index = table->n_rows;
    table->rows[table->n_rows++] = kept;
    return qb_plan_index_add(cx, table);
}

qb_status qb_plan_set_table(qb_ctx *cx, qb_plan *plan, int32_t index, const qb_plan_table *from) {
    qb_plan_table *to = &plan->table[index];
    to->parts = from->parts;
    to->n_rows = 0;
    qb_index_clear(&to->index);
    for (int32_t i = 0; i < from->n_rows; i++)
        QB_TRY(qb_plan_add(cx, plan, to, &from->rows[i], NULL));
    return QB_OK;
}

/* ---- layouts --------------------------------------------------------------------------------- */

qb_plan_layout qb_plan_layout_of(const qb_desc *desc) {
    return (qb_plan_layout){desc->dtype, desc->layout, desc->channel_offset, desc->channel_total};
}

bool qb_plan_layout_equal(const qb_plan_layout *a, const qb_plan_layout *b) {
    if (a->dtype == QB_DTYPE_NONE || b->dtype == QB_DTYPE_NONE) return a->dtype == b->dtype;
    return a->dtype == b->dtype && a->layout == b->layout &&
           a->channel_offset == b->channel_offset && a->channel_total == b->channel_total;
}

const char *qb_plan_layout_text(const qb_plan_layout *l, char *text, size_t n) {
    if (l->dtype == QB_DTYPE_NONE)
        snprintf(text, n, "-");
    else if (l->channel_total > 0)
        snprintf(text, n, "%s:%s@%lld/%lld", qb_dtype_text(l->dtype), qb_layout_text(l->layout),
                 (long long)l->channel_offset, (long long)l->channel_total);
    else
        snprintf(text, n, "%s:%s", qb_dtype_text(l->dtype), qb_layout_text(l->layout));
    return text;
}

/* ---- specs ----------------------------------------------------------------------------------- */

static qb_status differ(qb_ctx *cx, const char *what, const char *plan, const char *asked) {
    return qb_fail(cx, QB_STATUS_USAGE, "the plan was made for %s %s, the build asks for %s", what,
                   plan, asked);
}

static qb_status check_shapes(qb_ctx *cx, const qb_plan *plan, const char *what,
                              const qb_shape *made, const qb_shape *asked) {
    char text[2][128];
    for (int32_t i = 0; i < plan->n_inputs; i++)
        if (!qb_shape_equal(&made[i], &asked[i]))
            return differ(cx, what, qb_shape_text(&made[i], text[0], sizeof text[0]),
                          qb_shape_text(&asked[i], text[1], sizeof text[1]));
    return QB_OK;
}

qb_status qb_plan_check_spec(qb_ctx *cx, const qb_plan *plan, const qb_build_spec *spec) {
    const qb_build_spec *made = &plan->spec;
    static const char *const said[] = {"off", "on"};
    if (strcmp(made->backends, spec->backends) != 0)
        return differ(cx, "backends", made->backends, spec->backends);
    if (made->float_type != spec->float_type)
        return differ(cx, "floats of", qb_dtype_text(made->float_type),
                      qb_dtype_text(spec->float_type));
    if (made->tf32 != spec->tf32) return differ(cx, "TF32", said[made->tf32], said[spec->tf32]);
    if (made->no_mixed_precision != spec->no_mixed_precision)
        return differ(cx, "mixed precision", said[!made->no_mixed_precision],
                      said[!spec->no_mixed_precision]);
    if (made->excluded_sources != spec->excluded_sources)
        return qb_fail(cx, QB_STATUS_USAGE, "the plan was made with other --tacticSources");
    if (made->n_profiles != spec->n_profiles)
        return qb_fail(cx, QB_STATUS_USAGE, "the plan has %d profiles, the build asks for %d",
                       (int)made->n_profiles, (int)spec->n_profiles);
    for (int32_t p = 0; p < made->n_profiles; p++) {
        const qb_profile *a = &made->profiles[p], *b = &spec->profiles[p];
        QB_TRY(check_shapes(cx, plan, "smallest shapes", a->min, b->min));
        QB_TRY(check_shapes(cx, plan, "usual shapes", a->opt, b->opt));
        QB_TRY(check_shapes(cx, plan, "largest shapes", a->max, b->max));
    }
    return made->n_profiles > 0
               ? QB_OK
               : check_shapes(cx, plan, "inputs of", made->input_shapes, spec->input_shapes);
}

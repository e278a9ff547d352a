/* Realizing a plan: each step has the kernel that its row names. */
#include "engine/realize/realize_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/plans_internal.h"
#include "engine/realize/f16_constants_internal.h"
#include "engine/realize/lowering_internal.h"

typedef struct realizing {
    qb_plan *plan;
    qb_plan_table *table;
    bool *used; /* [n_rows] as it was read */
} realizing;

static qb_status open_device(qb_lowering *b) {
    (void)b; /* the caller knows what was compiled */
    return QB_OK;
}

/* ---- what the rows say of groups ------------------------------------------------------------- */

static qb_status precision(qb_lowering *b) {
    return qb_f16_as_rows(b, ((const realizing *)b->state)->table, true);
}

static qb_status floats(qb_lowering *b) {
    qb_f32_as_rows(b, ((const realizing *)b->state)->table);
    return QB_OK;
}

static qb_status fuse(qb_lowering *b, const qb_group *fused, const qb_group *pool, bool *fuse) {
    const realizing *r = b->state;
    const int32_t row = qb_plan_find_fused(r->table, qb_lower_group_name(b));
    (void)pool;
    *fuse = row >= 0 && strcmp(r->table->rows[row].value, b->graph->values[fused->out].name) == 0;
    return QB_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Is it the row's layout, or one that the tactic may choose? */
static bool offers(const qb_desc *desc, const qb_plan_layout *row) {
    qb_plan_layout have = qb_plan_layout_of(desc);
    if (have.layout == QB_LAYOUT_ANY) have.layout = row->layout;
    return qb_plan_layout_equal(&have, row);
}

static bool is_offered(const qb_problem *candidate, const qb_plan_row *row) {
    if (candidate->n_in != row->n_in || !offers(&candidate->out, &row->out)) return false;
    for (int32_t i = 0; i < row->n_in; i++)
        if (!offers(&candidate->in[i], &row->in[i])) return false;
    return true;
}

/* "u8:nhwc, s8:row to u8:nhwc" */
static const char *layouts_text(const qb_plan_row *row, char *text, size_t n) {
    char one[96];
    size_t at = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < row->n_in && at < n; i++)
        at += (size_t)snprintf(text + at, n - at, "%s%s", i > 0 ? ", " : "",
                               qb_plan_layout_text(&row->in[i], one, sizeof one));
    if (at < n)
        snprintf(text + at, n - at, " to %s", qb_plan_layout_text(&row->out, one, sizeof one));
    return text;
}

static qb_status QB_PRINTF(3, 4)
    cannot(qb_lowering *b, const qb_plan_row *row, const char *format, ...) {
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return qb_fail(b->cx, QB_STATUS_MISMATCH, "the plan's row '%s' cannot be had: %s", row->value,
                   why);
}

qb_status qb_lower_create_row(qb_lowering *b, const qb_selection *s, const qb_tactic *tactic,
                              const qb_plan_row *row, qb_kernel **out) {
    *out = NULL;
    for (int32_t c = 0; c < s->n_candidates && !*out; c++) {
        qb_problem problem = s->candidates[c];
        if (!is_offered(&problem, row)) continue;
        problem.variant = row->variant;
        problem.compiled = b->compiled;
        QB_TRY(qb_lower_create(b, tactic, &problem, s->constant, out));
        if (!*out || is_offered(&(*out)->problem, row)) continue;
        qb_kernel_free(*out); /* it chose another layout */
        *out = NULL;
    }
    return QB_OK;
}

static qb_status select_row(qb_lowering *b, const qb_selection *s, const qb_plan_row *row,
                            qb_kernel **out) {
    char layouts[512];
    const qb_tactic *tactic = qb_tactic_find(row->tactic);
    const bool other = b->in_bf16 && row->precision != QB_DTYPE_BF16;
    if (s->optional &&
        (row->on_device != s->on_device || other || strcmp(row->tactic, "node") == 0))
        return QB_OK;
    if (row->on_device != s->on_device)
        return cannot(b, row, "it runs on the %s here", s->on_device ? "device" : "host");
    if (!tactic) return cannot(b, row, "this qbench has no tactic %s", row->tactic);
    if (tactic->kind != s->candidates->kind)
        return cannot(b, row, "tactic %s does not run %s", row->tactic,
                      qb_kind_text(s->candidates->kind));
    if (!qb_lower_has(b, tactic, s->on_device))
        return cannot(b, row, "tactic %s is not of backends %s", row->tactic, b->spec->backends);
    b->unsupported_reason[0] = '\0';
    QB_TRY(qb_lower_create_row(b, s, tactic, row, out));
    if (*out) return QB_OK;
    return cannot(b, row, "tactic %s does not take %s here%s%s", row->tactic,
                  layouts_text(row, layouts, sizeof layouts), b->unsupported_reason[0] ? ": " : "",
                  b->unsupported_reason);
}

const qb_plan_row *qb_lower_selected(const qb_lowering *b, const qb_selection *s,
                                     const qb_plan_table *table) {
    int32_t row = -1;
    if (s->copied) {
        const qb_plan_layout in = qb_plan_layout_of(s->candidates->in);
        const qb_plan_row like = {.value = s->copied,
                                  .on_device = s->on_device,
                                  .in = &in,
                                  .out = qb_plan_layout_of(&s->candidates->out)};
        row = qb_plan_find_copy(table, &like);
    } else {
        row = qb_plan_find(table, qb_lower_group_name(b));
    }
    return row < 0 ? NULL : &table->rows[row];
}

static qb_status choose(qb_lowering *b, const qb_selection *s, qb_kernel **out) {
    const qb_plan_row *row = qb_lower_selected(b, s, ((const realizing *)b->state)->table);
    *out = NULL;
    if (row) return select_row(b, s, row, out);
    /* of layouts that were changed by hand no row may tell */
    if (s->copied) return qb_lower_preferred(b, s, out);
    return qb_fail(b->cx, QB_STATUS_MISMATCH, "the plan has no row for '%s'",
                   qb_lower_group_name(b));
}

/* ---- the outcome ----------------------------------------------------------------------------- */

static qb_status record(qb_lowering *b, const char *value, bool is_copy, qb_step *step) {
    realizing *r = b->state;
    const qb_plan_row made = qb_lower_row(b, value, is_copy, step);
    const int32_t found =
        is_copy ? qb_plan_find_copy(r->table, &made) : qb_plan_find(r->table, value);
    if (found < 0 && is_copy) return qb_plan_add(b->cx, r->plan, r->table, &made, &step->row);
    if (found < 0) return qb_fail(b->cx, QB_STATUS_MISMATCH, "the plan has no row for '%s'", value);
    const qb_plan_row *row = &r->table->rows[found];
    if (strcmp(row->tactic, step->tactic) != 0)
        return cannot(b, row, "it is %s here, not %s", step->tactic, row->tactic);
    if (strcmp(row->op, made.op) != 0)
        return cannot(b, row, "it is %s here, not %s", made.op, row->op);
    if (row->precision != made.precision)
        return cannot(b, row, "it computes in %s here, not %s", qb_dtype_text(made.precision),
                      qb_dtype_text(row->precision));
    if (row->fuses && (!made.fuses || strcmp(row->fuses, made.fuses) != 0))
        return cannot(b, row, "it is fused with %s here, not with '%s'",
                      made.fuses ? made.fuses : "nothing", row->fuses);
    step->row = found;
    r->used[found] = true;
    return QB_OK;
}

static qb_status check_used(qb_ctx *cx, const realizing *r, int32_t n_rows) {
    for (int32_t i = 0; i < n_rows; i++)
        if (!r->used[i] && !r->table->rows[i].is_copy)
            return qb_fail(cx, QB_STATUS_MISMATCH,
                           "the plan's row '%s' cannot be had: no step makes this value",
                           r->table->rows[i].value);
    return QB_OK;
}

static const qb_shape *shapes_of(const qb_plan *plan) {
    return plan->spec.n_profiles > 0 ? plan->spec.profiles[0].opt : plan->spec.input_shapes;
}

static bool is_part(const qb_port *ports, int32_t n, int64_t parts, int64_t batch) {
    for (int32_t i = 0; i < n; i++) {
        const qb_shape *shape = &ports[i].desc.shape;
        if (shape->rank < 1 || shape->dim[0] < 1 || batch / parts != shape->dim[0]) return false;
    }
    return batch % parts == 0;
}

/* An engine for a part of the batch becomes one for all of it. */
static qb_status in_parts(qb_ctx *cx, qb_engine *e) {
    const int64_t parts = e->plan->table[0].parts;
    if (parts == 1) return QB_OK;
    const int64_t batch = e->n_inputs > 0 ? shapes_of(e->plan)[0].dim[0] : 0;
    if (!is_part(e->inputs, e->n_inputs, parts, batch) ||
        !is_part(e->outputs, e->n_outputs, parts, batch))
        return qb_fail(cx, QB_STATUS_MISMATCH, "%lld parts of a batch of %lld do not fit",
                       (long long)parts, (long long)batch);
    e->parts = parts;
    for (int32_t i = 0; i < e->n_inputs; i++) e->inputs[i].desc.shape.dim[0] = batch;
    for (int32_t i = 0; i < e->n_outputs; i++) e->outputs[i].desc.shape.dim[0] = batch;
    return QB_OK;
}

qb_status qb_realize(qb_ctx *cx, qb_graph *graph, qb_plan *plan, qb_plans *plans,
                     qb_compiled *compiled, qb_engine **out) {
    static const qb_selector selector = {open_device, precision, floats, fuse, choose, record};
    const int32_t n_rows = plan->table[0].n_rows;
    realizing r = {.plan = plan, .table = &plan->table[0]};
    const qb_lower_input input = {.graph = graph,
                                  .plan = plan,
                                  .plans = plans,
                                  .compiled = compiled,
                                  .selector = &selector,
                                  .state = &r};
    qb_engine *engine = NULL;
    r.used = qb_alloc(cx, (size_t)n_rows, sizeof *r.used);
    if (!r.used) {
        qb_graph_free(graph);
        return cx->code;
    }
    qb_status status = qb_lower(cx, &input, &engine);
    if (status == QB_OK) status = check_used(cx, &r, n_rows);
    if (status == QB_OK) status = in_parts(cx, engine);
    qb_free(r.used);
    if (status != QB_OK && engine) {
        engine->plan = NULL;
        qb_engine_destroy(engine);
    }
    QB_TRY(status);
    qb_engine_assign_offsets(engine);
    if (engine->device) qb_device_assign_offsets(engine);
    *out = engine;
    return QB_OK;
}

qb_status qb_plan_bind(qb_ctx *cx, const qb_graph *graph, const qb_plan *plan, bool share,
                       qb_graph **out) {
    const size_t n = (size_t)graph->n_inputs;
    if (plan->n_inputs != graph->n_inputs)
        return qb_fail(cx, QB_STATUS_MISMATCH, "the plan has %d inputs, the model %d",
                       (int)plan->n_inputs, (int)graph->n_inputs);
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, n, sizeof *shapes));
    for (size_t i = 0; i < n; i++) {
        const int64_t parts = plan->table[0].parts;
        shapes[i] = shapes_of(plan)[i];
        if (shapes[i].rank > 0 && shapes[i].dim[0] % parts != 0)
            return qb_fail(cx, QB_STATUS_MISMATCH, "%lld parts of a batch of %lld do not fit",
                           (long long)parts, (long long)shapes[i].dim[0]);
        if (shapes[i].rank > 0) shapes[i].dim[0] /= parts;
    }
    return (share ? qb_graph_bind_sharing : qb_graph_bind)(cx, graph, shapes, out);
}

qb_status qb_plan_realize(qb_ctx *cx, const qb_graph *graph, qb_plan *plan, qb_plans *plans,
                          qb_compiled *compiled, qb_engine **out) {
    qb_graph *bound;
    QB_TRY(qb_plan_bind(cx, graph, plan, plans, &bound));
    return qb_realize(cx, bound, plan, plans, compiled, out);
}

qb_status qb_plan_fuse_products(qb_ctx *cx, qb_plans *plans) {
    qb_graph *bound;
    qb_plan plan = *plans->plan; /* of whose spec nothing is changed */
    if (plan.spec.float_type != QB_DTYPE_F16 || plan.spec.observable) return QB_OK;
    QB_TRY(qb_plan_bind(cx, plans->graph, &plan, true, &bound));
    return qb_lower_fuse_plans(cx,
                               &(qb_lower_input){.graph = bound, .plan = &plan, .plans = plans});
}

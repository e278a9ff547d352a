/* Recurrent layers as a tactic: the products of X as a MATMUL, then the walk over time. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/common/code.h"
#include "kernels/sources.h"
#include "recurrent_internal.h"

/* ---- what can be run ------------------------------------------------------------------------- */

static bool is_plain(const qb_desc *desc, int32_t rank) {
    qb_cuda_value value;
    return desc->q.n == 0 && qb_cuda_value_of(desc, &value) && desc->shape.rank == rank &&
           qb_cuda_is_row(desc);
}

static bool is_weight(int32_t input) {
    return input == QB_IN_W || input == QB_IN_R || input == QB_IN_B || input == QB_IN_P;
}

static bool takes_input(const qb_problem *p, const bool *constant, int32_t i) {
    static const int32_t rank[QB_RECURRENT_INPUTS] = {3, 3, 3, 2, 1, 3, 3, 2};
    const qb_desc *in = &p->in[i];
    if (i == QB_IN_LENGTHS)
        return in->dtype == QB_DTYPE_S32 && in->shape.rank == 1 && qb_cuda_is_row(in);
    return is_plain(in, rank[i]) && (!is_weight(i) || (constant[i] && in->dtype == QB_DTYPE_F32));
}

static bool cuda_recurrent_supports(const qb_problem *p, const bool *constant) {
    if (p->kind != QB_KIND_RECURRENT || p->n_in <= QB_IN_R || p->n_in > QB_RECURRENT_INPUTS)
        return false;
    for (int32_t i = 0; i < p->n_in; i++) {
        const bool needed = i == QB_IN_X || i == QB_IN_W || i == QB_IN_R;
        if (qb_problem_has(p, i) ? !takes_input(p, constant, i) : needed) return false;
    }
    return !constant[QB_IN_X] && is_plain(&p->out, 4) && qb_shape_count(&p->out.shape) > 0 &&
           qb_shape_count(&p->in[QB_IN_X].shape) > 0;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Sigmoid and tanh, as nearly all layers have them, and all gates of a step in one pass. */
static bool is_usual(const qb_problem *problem) {
    const qb_recurrence *layer = &problem->recurrence;
    const bool lstm = layer->cell == QB_CELL_LSTM;
    if (!(lstm || (layer->cell == QB_CELL_GRU && layer->linear_before_reset)) ||
        layer->clip > 0.0f || layer->input_forget || qb_problem_has(problem, QB_IN_P))
        return false;
    for (int32_t i = 0; i < problem->in[QB_IN_R].shape.dim[0] * QB_CELL_ACTS; i++) {
        const bool gate = i % QB_CELL_ACTS == 0, used = i % QB_CELL_ACTS < (lstm ? 3 : 2);
        if (used && layer->act[i].kind != (gate ? QB_ACT_SIGMOID : QB_ACT_TANH)) return false;
    }
    return true;
}

static void describe(const qb_problem *problem, qb_cuda_recurrent *p) {
    const qb_shape *x = &problem->in[QB_IN_X].shape, *r = &problem->in[QB_IN_R].shape;
    const bool first = problem->recurrence.batch_first;
    *p = (qb_cuda_recurrent){.layer = problem->recurrence,
                             .f16 = problem->in[QB_IN_X].dtype == QB_DTYPE_F16,
                             .out_dtype = (int32_t)problem->out.dtype,
                             .steps = (int32_t)x->dim[first ? 1 : 0],
                             .batch = (int32_t)x->dim[first ? 0 : 1],
                             .hidden = (int32_t)r->dim[2],
                             .directions = (int32_t)r->dim[0],
                             .gates = qb_cell_gates(problem->recurrence.cell),
                             .usual = is_usual(problem)};
    if (qb_problem_has(problem, QB_IN_H)) p->h_dtype = (int32_t)problem->in[QB_IN_H].dtype;
    if (qb_problem_has(problem, QB_IN_C)) p->c_dtype = (int32_t)problem->in[QB_IN_C].dtype;
}

static qb_desc plain(qb_dtype dtype, qb_shape shape) {
    return (qb_desc){.dtype = dtype, .layout = QB_LAYOUT_ROW, .shape = shape, .q.axis = -1};
}

/* The first of our own tactics that multiplies X [rows, inputs] by W [columns, inputs]. */
static qb_status create_projection(qb_ctx *cx, const qb_problem *problem,
                                   const qb_cuda_recurrent *p, qb_kernel **out) {
    static const bool constant[] = {false, true, true};
    const int64_t rows = (int64_t)p->steps * p->batch, inputs = problem->in[QB_IN_X].shape.dim[2];
    const int64_t columns = qb_cuda_recurrent_columns(p);
    const qb_desc in[] = {plain(problem->in[QB_IN_X].dtype, (qb_shape){2, {rows, inputs}}),
                          plain(QB_DTYPE_F32, (qb_shape){2, {columns, inputs}}),
                          plain(QB_DTYPE_F32, (qb_shape){1, {columns}})};
    const qb_problem product = {.kind = QB_KIND_MATMUL,
                                .n_in = 3,
                                .in = in,
                                .out = plain(QB_DTYPE_F32, (qb_shape){2, {rows, columns}}),
                                .transpose_b = true,
                                .group = 1,
                                .scale = 1};
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        if (!(*t)->device_memory || (*t)->kind != QB_KIND_MATMUL ||
            qb_tactic_source(*t) != QB_SOURCE_OWN || !qb_tactic_takes(*t, &product, constant))
            continue;
        const qb_status status = (*t)->create(cx, *t, &product, constant, 1, out);
        if (status != QB_STATUS_UNSUPPORTED) return status;
        qb_ctx_clear(cx);
    }
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no product of %lld x %lld x %lld", (long long)rows,
                   (long long)columns, (long long)inputs);
}

/* Packed constants and workspace, behind those of the projection. */
static void place(qb_cuda_recurrent_state *s, qb_kernel *kernel) {
    qb_cuda_recurrent *p = &s->p;
    const qb_problem *problem = &kernel->problem;
    const int64_t row = p->hidden * (int64_t)sizeof(float), rows = (int64_t)p->steps * p->batch;
    int64_t end = 0;
    qb_cuda_reserve(&end, (int64_t)s->projection->packed_bytes);
    p->at_weights = qb_cuda_reserve(&end, (int64_t)p->directions * p->blocks * p->weight_bytes);
    p->at_last_bias = p->at_peepholes = -1;
    if (p->layer.cell == QB_CELL_GRU && p->n_passes == 1)
        p->at_last_bias = qb_cuda_reserve(&end, p->directions * row);
    if (qb_problem_has(problem, QB_IN_P))
        p->at_peepholes = qb_cuda_reserve(&end, p->directions * 3 * row);
    kernel->packed_bytes = (size_t)end;
    end = 0;
    qb_cuda_reserve(&end, (int64_t)s->projection->workspace_bytes);
    p->at_x = qb_cuda_reserve(&end, rows * qb_cuda_recurrent_columns(p) * (int64_t)sizeof(float));
    p->at_states = qb_cuda_reserve(&end, (int64_t)3 * p->directions * p->padded_items * p->depth *
                                             (p->f16 ? 2 : 4));
    p->at_counters =
        qb_cuda_reserve(&end, (int64_t)p->directions * p->groups * QB_CUDA_RECURRENT_STRIDE);
    kernel->workspace_bytes = (size_t)end;
}

/* ---- a launch -------------------------------------------------------------------------------- */

static const void *given(const qb_kernel *kernel, const qb_launch *args, int32_t input) {
    return qb_problem_has(&kernel->problem, input) ? args->in[input] : NULL;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_cuda_recurrent_state *s = kernel->state;
    const qb_cuda_recurrent *p = &s->p;
    const bool lstm = p->layer.cell == QB_CELL_LSTM;
    char *workspace = args->workspace;
    const void *const in[] = {args->in[QB_IN_X], NULL, NULL};
    const qb_launch projection = {.in = in,
                                  .out = workspace + p->at_x,
                                  .packed = args->packed,
                                  .workspace = workspace,
                                  .stream = args->stream};
    const qb_cuda_recurrent_io io = {.lengths = given(kernel, args, QB_IN_LENGTHS),
                                     .h = given(kernel, args, QB_IN_H),
                                     .c = lstm ? given(kernel, args, QB_IN_C) : NULL,
                                     .y = args->out,
                                     .y_h = args->more ? args->more[0] : NULL,
                                     .y_c = args->more && lstm ? args->more[1] : NULL,
                                     .packed = args->packed,
                                     .workspace = workspace};
    QB_TRY(s->projection->launch(cx, s->projection, &projection));
    if (p->stationary)
        return qb_cuda_check(cx, qb_cuda_recurrent_stationary_run(p, &io, args->stream),
                             kernel->tactic->name);
    if (p->blocks > 1)
        QB_TRY(qb_cuda_fill(cx, workspace + p->at_counters, 0,
                            (size_t)p->directions * (size_t)p->groups * QB_CUDA_RECURRENT_STRIDE,
                            args->stream));
    QB_TRY(qb_cuda_check(cx, qb_cuda_recurrent_run(p, &io, args->stream), kernel->tactic->name));
    return qb_cuda_fence(cx, args->stream); /* blocks at once are no part of an early start */
}

/* ---- creation -------------------------------------------------------------------------------- */

static void destroy(qb_kernel *kernel) {
    qb_cuda_recurrent_state *s = kernel->state;
    qb_kernel_free(s->projection);
    qb_free(s);
}

static uint64_t packing_of(const qb_cuda_recurrent_state *s) {
    const qb_cuda_recurrent *p = &s->p;
    const uint64_t numbers[] = {(uint64_t)p->layer.cell, (uint64_t)p->units,
                                (uint64_t)p->blocks,     (uint64_t)p->n_passes,
                                (uint64_t)p->f16,        (uint64_t)p->stationary};
    uint64_t id = s->projection->packing_id;
    if (id == 0) return 0;
    for (const char *c = s->projection->tactic->name; *c; c++) id = qb_packing_add(id, (uint8_t)*c);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        id = qb_packing_add(id, numbers[i]);
    return id;
}

static qb_status make(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                      qb_cuda_recurrent_state *s, qb_kernel **out) {
    qb_cuda_device device;
    QB_TRY(qb_cuda_current(cx, &device));
    if (!qb_cuda_recurrent_plan(&s->p, &device, qb_cuda_has_code_90()))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: %d units of %d items: no room", tactic->name,
                       (int)s->p.hidden, (int)s->p.batch);
    QB_TRY(create_projection(cx, problem, &s->p, &s->projection));
    return qb_cuda_create_row(cx, tactic, problem, s, sizeof *s, out);
}

static qb_status cuda_recurrent_create(qb_ctx *cx, const qb_tactic *tactic,
                                       const qb_problem *problem, const bool *constant, int threads,
                                       qb_kernel **out) {
    qb_cuda_recurrent_state s = {0};
    (void)threads;
    if (!cuda_recurrent_supports(problem, constant)) return qb_cuda_not_for(cx, tactic);
    describe(problem, &s.p);
    const qb_status status = make(cx, tactic, problem, &s, out);
    if (status != QB_OK) {
        qb_kernel_free(s.projection);
        return status;
    }
    qb_kernel *kernel = *out;
    qb_cuda_recurrent_state *kept = kernel->state;
    place(kept, kernel);
    for (int32_t i = 0; i < problem->n_in; i++)
        if (is_weight(i) && qb_problem_has(problem, i)) kernel->packed_inputs |= UINT64_C(1) << i;
    kernel->packing_id = packing_of(kept);
    kernel->destroy = destroy;
    kernel->pack = qb_cuda_recurrent_pack;
    kernel->launch = launch;
    snprintf(kernel->impl, sizeof kernel->impl, "%d blocks of %d units%s; X by %s",
             (int)(kept->p.directions * kept->p.groups * kept->p.blocks), (int)kept->p.units,
             kept->p.stationary ? ", weight-stationary" : "", kept->projection->tactic->name);
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_recurrent, "recurrent", QB_KIND_RECURRENT, QB_WITHIN_1_LSB);

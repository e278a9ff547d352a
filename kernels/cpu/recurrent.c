/* Recurrent layers: which problems, and the plan. */
#include "recurrent_internal.h"

/* ---- what can be run ------------------------------------------------------------------------- */

static bool is_row(const qb_desc *desc, int32_t rank) {
    return qb_cpu_is_f32(desc) && desc->shape.rank == rank && qb_cpu_is_rows(desc);
}

static bool acts_supported(const qb_recurrence *layer, int64_t directions) {
    const int used = layer->cell == QB_CELL_LSTM ? 3 : layer->cell == QB_CELL_GRU ? 2 : 1;
    for (int64_t d = 0; d < directions; d++)
        for (int i = 0; i < used; i++) {
            const qb_act_kind kind = layer->act[d * QB_CELL_ACTS + i].kind;
            if (kind != QB_ACT_SIGMOID && kind != QB_ACT_TANH && kind != QB_ACT_RELU) return false;
        }
    return true;
}

bool qb_rec_supports(const qb_problem *p, const bool *constant) {
    static const int32_t rank[QB_RECURRENT_INPUTS] = {3, 3, 3, 2, 1, 3, 3, 2};
    if (p->n_in <= QB_IN_R || p->n_in > QB_RECURRENT_INPUTS) return false;
    for (int32_t i = 0; i < p->n_in; i++) {
        const bool weight = i == QB_IN_W || i == QB_IN_R || i == QB_IN_B || i == QB_IN_P;
        if (!qb_problem_has(p, i)) continue;
        if (i == QB_IN_LENGTHS ? p->in[i].dtype != QB_DTYPE_S32 || p->in[i].shape.rank != 1
                               : !is_row(&p->in[i], rank[i]))
            return false;
        if (weight && !constant[i]) return false;
    }
    return qb_problem_has(p, QB_IN_X) && qb_problem_has(p, QB_IN_W) && qb_problem_has(p, QB_IN_R) &&
           is_row(&p->out, 4) && qb_shape_count(&p->out.shape) > 0 &&
           qb_shape_count(&p->in[QB_IN_X].shape) > 0 &&
           acts_supported(&p->recurrence, p->in[QB_IN_W].shape.dim[0]);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void describe(qb_rec_plan *plan, const qb_problem *p) {
    const qb_shape *x = &p->in[QB_IN_X].shape, *r = &p->in[QB_IN_R].shape;
    plan->layer = p->recurrence;
    plan->steps = x->dim[plan->layer.batch_first ? 1 : 0];
    plan->batch = x->dim[plan->layer.batch_first ? 0 : 1];
    plan->inputs = x->dim[2];
    plan->directions = r->dim[0];
    plan->hidden = r->dim[2];
    plan->gates = qb_cell_gates(plan->layer.cell);
}

/* A pass has two to four vectors of columns in a block: enough chains for one row, few enough for
 * QB_REC_ROWS. */
static void choose_passes(qb_rec_plan *plan) {
    const qb_rec_arch *arch = plan->arch;
    const int32_t gates = (int32_t)plan->gates;
    const bool two = plan->layer.cell == QB_CELL_GRU && !plan->layer.linear_before_reset;
    plan->n_passes = two ? 2 : 1;
    if (two) {
        plan->pass[0] = (qb_rec_pass){.gates = 2, .width = 32, .cell = arch->gru_gates};
        plan->pass[1] = (qb_rec_pass){
            .first_gate = 2, .gates = 1, .width = 32, .of_reset = true, .cell = arch->gru_last};
    } else {
        plan->pass[0] = (qb_rec_pass){.gates = gates,
                                      .width = gates > 1 ? QB_REC_LANES : 2 * QB_REC_LANES,
                                      .cell = plan->layer.cell == QB_CELL_LSTM  ? arch->lstm
                                              : plan->layer.cell == QB_CELL_GRU ? arch->gru
                                                                                : arch->rnn};
    }
    for (int i = 0; i < plan->n_passes; i++)
        plan->pass[i].blocks = qb_ceil64(plan->hidden, plan->pass[i].width);
    plan->padded = plan->pass[0].blocks * plan->pass[0].width;
}

/* Takes room for n floats behind what is taken. */
static size_t take(size_t *used, int64_t n) {
    const size_t at = *used;
    *used += qb_pad64((size_t)n * sizeof(float));
    return at;
}

static void place(qb_rec_plan *plan, qb_kernel *kernel) {
    const int64_t states = plan->directions * plan->batch * plan->padded;
    size_t packed = qb_pad64(plan->projection->packed_bytes);
    for (int i = 0; i < plan->n_passes; i++) {
        qb_rec_pass *pass = &plan->pass[i];
        const int64_t columns = pass->blocks * pass->gates * pass->width;
        pass->panels = take(&packed, plan->directions * columns * plan->hidden);
    }
    if (plan->layer.cell == QB_CELL_GRU)
        plan->last_bias = take(&packed, plan->directions * plan->padded);
    if (qb_problem_has(&kernel->problem, QB_IN_P))
        plan->peephole = take(&packed, plan->directions * 3 * plan->padded);
    kernel->packed_bytes = packed;
    size_t used = qb_pad64(plan->projection->workspace_bytes);
    plan->x =
        take(&used, plan->steps * plan->batch * plan->directions * plan->gates * plan->padded);
    for (int i = 0; i < 2; i++) plan->h[i] = take(&used, states);
    plan->c = take(&used, states);
    plan->reset = take(&used, plan->n_passes > 1 ? states : 0);
    plan->active = take(&used, plan->directions * plan->batch);
    kernel->workspace_bytes = used;
}

/* X [steps batch, inputs] times W for all directions and gates, with their biases. */
static qb_status create_projection(qb_ctx *cx, const qb_kernel *kernel, qb_rec_plan *plan) {
    const int64_t columns = plan->directions * plan->gates * plan->padded;
    const int64_t rows = plan->steps * plan->batch;
    const qb_desc in[] = {
        {.dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_ROW, .shape = {2, {rows, plan->inputs}}},
        {.dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_ROW, .shape = {2, {columns, plan->inputs}}},
        {.dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_ROW, .shape = {1, {columns}}}};
    const qb_problem p = {
        .kind = QB_KIND_MATMUL,
        .n_in = 3,
        .in = in,
        .out = {.dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_ROW, .shape = {2, {rows, columns}}},
        .transpose_b = true,
        .group = 1,
        .scale = 1};
    const bool constant[] = {false, true, true};
    return qb_conv_create(cx, kernel->tactic, &p, constant, plan->threads, plan->arch->projection,
                          &plan->projection);
}

static void destroy(qb_kernel *kernel) {
    qb_rec_plan *plan = kernel->state;
    if (plan) qb_kernel_free(plan->projection);
    qb_free(plan);
}

static qb_status make(qb_ctx *cx, qb_kernel *kernel, int threads, const qb_rec_arch *arch) {
    const qb_problem *p = &kernel->problem;
    qb_rec_plan *plan = kernel->state = qb_alloc(cx, 1, sizeof *plan);
    if (!plan) return cx->code;
    plan->arch = arch;
    plan->threads = threads;
    describe(plan, p);
    choose_passes(plan);
    const double bytes = 4.0 * (double)plan->steps * (double)plan->batch *
                         (double)plan->directions * (double)plan->gates * (double)plan->padded;
    if (bytes > (double)(INT64_MAX / 2) ||
        plan->directions * plan->gates * plan->padded > INT32_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: too large", kernel->tactic->name);
    QB_TRY(create_projection(cx, kernel, plan));
    place(plan, kernel);
    for (int32_t i = QB_IN_W; i < p->n_in; i++)
        if (i != QB_IN_LENGTHS && i != QB_IN_H && i != QB_IN_C)
            kernel->packed_inputs |= UINT64_C(1) << i;
    kernel->packing_id = qb_packing_add(plan->projection->packing_id, (uint64_t)plan->hidden);
    kernel->packing_id = qb_packing_add(kernel->packing_id, (uint64_t)plan->layer.cell);
    kernel->packing_id = qb_packing_add(kernel->packing_id, (uint64_t)plan->n_passes);
    kernel->pack = qb_rec_pack;
    kernel->launch = qb_rec_launch;
    return QB_OK;
}

qb_status qb_rec_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, const qb_rec_arch *arch,
                        qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    (void)constant;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    kernel->destroy = destroy;
    QB_TRY(make(cx, kernel, threads, arch));
    *out = QB_MOVE(kernel);
    return QB_OK;
}

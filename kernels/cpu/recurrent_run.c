/* Recurrent layers: a run. */
#include <string.h>

#include "recurrent_internal.h"

/* A loop over the threads takes about as long as this many multiply-adds of vectors. */
#define LOOP_COST 4096
/* Weights of a direction that a processor's own cache holds: then the threads may as well share the
 * items as the units, and need not wait for each other at each step. */
#define CACHED_BYTES ((int64_t)512 << 10)

typedef struct job {
    const qb_rec_plan *plan;
    const qb_problem *problem;
    const qb_launch *args;
    const int32_t *lengths; /* NULL: all steps */
    const char *packed;
    float *x, *h[2], *c, *reset; /* x: [steps batch][directions][gates][padded] */
    int32_t *active;             /* [directions][batch] */
    int64_t items_at_once;       /* of a walk */
} job;

/* Some items in some directions, step by step. */
typedef struct walk {
    const job *job;
    int64_t first_direction;
    int64_t step;
    const qb_rec_pass *pass; /* at work */
    const int32_t *item;     /* those that are not at their end yet */
    int64_t n_items;
} walk;

static int64_t length_of(const job *j, int64_t item) {
    return j->lengths ? j->lengths[item] : j->plan->steps;
}

static int64_t state_at(const qb_rec_plan *plan, int64_t direction, int64_t item) {
    return (direction * plan->batch + item) * plan->padded;
}

/* Where the state of an item lies in a state tensor of the caller. */
static int64_t outer_at(const qb_rec_plan *plan, int64_t direction, int64_t item) {
    return (plan->layer.batch_first ? item * plan->directions + direction
                                    : direction * plan->batch + item) *
           plan->hidden;
}

/* Row of X of a step and an item; Y has one for each direction. */
static int64_t row_of(const qb_rec_plan *plan, int64_t t, int64_t item) {
    return plan->layer.batch_first ? item * plan->steps + t : t * plan->batch + item;
}

static int64_t y_at(const qb_rec_plan *plan, int64_t t, int64_t direction, int64_t item) {
    const int64_t row = plan->layer.batch_first
                            ? (item * plan->steps + t) * plan->directions + direction
                            : (t * plan->directions + direction) * plan->batch + item;
    return row * plan->hidden;
}

static bool goes_back(const qb_rec_plan *plan, int64_t direction) {
    return direction == 1 || plan->layer.reverse;
}

/* ---- a block of units in one step ------------------------------------------------------------ */

static const float *packed_at(const job *j, size_t offset, int64_t row) {
    return (const float *)(const void *)(j->packed + offset) + row * j->plan->padded;
}

/* Where the sums of X W of a row and the walk's step lie. */
static const float *x_at(const walk *w, int64_t direction, int64_t t, int64_t item) {
    const qb_rec_plan *plan = w->job->plan;
    const int64_t row = row_of(plan, t, item) * plan->directions + direction;
    return w->job->x + row * plan->gates * plan->padded;
}

static int64_t time_of(const walk *w, int64_t direction, int64_t item) {
    return goes_back(w->job->plan, direction) ? length_of(w->job, item) - 1 - w->step : w->step;
}

/* What the end of a block reads of X W comes from afar: it arrives while the product runs. */
static void fetch_x(const walk *w, int64_t direction, int64_t first, int64_t item) {
    const qb_rec_pass *pass = w->pass;
    const float *x = x_at(w, direction, time_of(w, direction, item), item) + first;
    for (int32_t g = pass->first_gate; g < pass->first_gate + pass->gates; g++)
        for (int32_t i = 0; i < pass->width; i += QB_REC_LANES)
            __builtin_prefetch(x + g * w->job->plan->padded + i);
}

static void epilogue_row(const walk *w, int64_t direction, int64_t first, int64_t item,
                         const float *sums) {
    const job *j = w->job;
    const qb_rec_plan *plan = j->plan;
    const qb_rec_pass *pass = w->pass;
    const int64_t t = time_of(w, direction, item), state = state_at(plan, direction, item);
    float *next = j->h[(w->step + 1) & 1] + state;
    const qb_rec_units u = {
        .layer = &plan->layer,
        .act = plan->layer.act + direction * QB_CELL_ACTS,
        .at = first,
        .n = pass->width,
        .padded = plan->padded,
        .sums = sums,
        .x = x_at(w, direction, t, item),
        .peephole = plan->peephole ? packed_at(j, plan->peephole, 3 * direction) : NULL,
        .last_bias = plan->last_bias ? packed_at(j, plan->last_bias, direction) : NULL,
        .h = j->h[w->step & 1] + state,
        .h_next = next,
        .c = j->c + state,
        .reset = j->reset + state};
    pass->cell(&u);
    if (!j->args->out || pass != &plan->pass[plan->n_passes - 1]) return;
    const int64_t units = qb_min64(pass->width, plan->hidden - first);
    memcpy((float *)j->args->out + y_at(plan, t, direction, item) + first, next + first,
           (size_t)units * sizeof *next);
}

static void run_block(int64_t task, void *argument) {
    const walk *w = argument;
    const job *j = w->job;
    const qb_rec_plan *plan = j->plan;
    const qb_rec_pass *pass = w->pass;
    const int64_t direction = w->first_direction + task / pass->blocks;
    const int64_t block = task % pass->blocks, columns = (int64_t)pass->gates * pass->width;
    const int64_t groups = qb_ceil64(w->n_items, QB_REC_ROWS);
    const float *left = pass->of_reset ? j->reset : j->h[w->step & 1];
    _Alignas(64) float sums[QB_REC_ROWS * QB_REC_VECTORS * QB_REC_LANES];
    qb_rec_product product = {.vectors = (int)(columns / QB_REC_LANES),
                              .k = plan->hidden,
                              .panel = (const float *)(const void *)(j->packed + pass->panels) +
                                       (direction * pass->blocks + block) * plan->hidden * columns,
                              .sums = sums};
    for (int64_t g = 0; g < groups; g++) {
        const int64_t begin = qb_part_begin(w->n_items, groups, g);
        product.rows = (int)(qb_part_begin(w->n_items, groups, g + 1) - begin);
        for (int r = 0; r < product.rows; r++) {
            product.left[r] = left + state_at(plan, direction, w->item[begin + r]);
            fetch_x(w, direction, block * pass->width, w->item[begin + r]);
        }
        plan->arch->product(&product);
        for (int r = 0; r < product.rows; r++)
            epilogue_row(w, direction, block * pass->width, w->item[begin + r], sums + r * columns);
    }
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* The items among the first `n` that have this step. */
static int64_t keep_active(const job *j, int32_t *item, int64_t n, int64_t step) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (step < length_of(j, item[i])) item[kept++] = item[i];
    return kept;
}

static bool is_worth_sharing(const walk *w, int64_t directions) {
    const qb_rec_plan *plan = w->job->plan;
    return directions * w->n_items * plan->gates * plan->padded * plan->hidden / QB_REC_LANES >
           2 * (int64_t)LOOP_COST * plan->n_passes;
}

static void run_steps(walk *w, int64_t directions, int64_t first_item, int64_t n_items,
                      qb_workers *workers) {
    const job *j = w->job;
    const qb_rec_plan *plan = j->plan;
    int32_t *item = j->active + w->first_direction * plan->batch + first_item;
    for (int64_t i = 0; i < n_items; i++) item[i] = (int32_t)(first_item + i);
    w->item = item;
    w->n_items = n_items;
    for (w->step = 0; w->step < plan->steps; w->step++) {
        w->n_items = keep_active(j, item, w->n_items, w->step);
        if (w->n_items == 0) return;
        qb_workers *team = is_worth_sharing(w, directions) ? workers : NULL;
        for (int i = 0; i < plan->n_passes; i++) {
            w->pass = &plan->pass[i];
            qb_workers_run(team, directions * w->pass->blocks, run_block, w);
        }
    }
}

/* Walk `task` by itself on one thread. */
static void run_alone(int64_t task, void *argument) {
    const job *j = argument;
    const int64_t groups = qb_ceil64(j->plan->batch, j->items_at_once);
    const int64_t first = task % groups * j->items_at_once;
    walk w = {.job = j, .first_direction = task / groups};
    run_steps(&w, 1, first, qb_min64(j->items_at_once, j->plan->batch - first), NULL);
}

/* Directions and items do not depend on each other: threads that have their own ones never wait. */
static void run_all(job *j) {
    const qb_rec_plan *plan = j->plan;
    const int64_t weights = plan->gates * plan->padded * plan->hidden * (int64_t)sizeof(float);
    const int64_t for_each = qb_ceil64(plan->threads, plan->directions);
    const int64_t groups = weights <= CACHED_BYTES ? qb_min64(for_each, plan->batch) : 1;
    j->items_at_once = qb_ceil64(plan->batch, groups);
    if (plan->directions * groups >= plan->threads) {
        qb_workers_run(j->args->workers,
                       plan->directions * qb_ceil64(plan->batch, j->items_at_once), run_alone, j);
        return;
    }
    walk w = {.job = j};
    run_steps(&w, plan->directions, 0, plan->batch, j->args->workers);
}

/* ---- a launch -------------------------------------------------------------------------------- */

static qb_status check_lengths(qb_ctx *cx, const job *j) {
    for (int64_t b = 0; b < j->plan->batch && j->lengths; b++)
        if (j->lengths[b] < 0 || j->lengths[b] > j->plan->steps)
            return qb_fail(cx, QB_STATUS_INVALID, "sequence_lens: expected 0 to %lld, got %d",
                           (long long)j->plan->steps, j->lengths[b]);
    return QB_OK;
}

static void load_states(const job *j, const float *from, float *to) {
    const qb_rec_plan *plan = j->plan;
    const size_t bytes = (size_t)plan->hidden * sizeof *to;
    memset(to, 0, (size_t)(plan->directions * plan->batch * plan->padded) * sizeof *to);
    for (int64_t d = 0; d < plan->directions && from; d++)
        for (int64_t b = 0; b < plan->batch; b++)
            memcpy(to + state_at(plan, d, b), from + outer_at(plan, d, b), bytes);
}

/* Steps behind a sequence's end are zero. */
static void clear_ends(const job *j) {
    const qb_rec_plan *plan = j->plan;
    for (int64_t b = 0; b < plan->batch && j->lengths && j->args->out; b++)
        for (int64_t t = j->lengths[b]; t < plan->steps; t++)
            for (int64_t d = 0; d < plan->directions; d++)
                memset((float *)j->args->out + y_at(plan, t, d, b), 0,
                       (size_t)plan->hidden * sizeof(float));
}

/* An item's last h is where the step behind its last one would read it. */
static void store_states(const job *j) {
    const qb_rec_plan *plan = j->plan;
    const size_t bytes = (size_t)plan->hidden * sizeof(float);
    float *h = j->args->more ? j->args->more[0] : NULL;
    float *c = j->args->more && plan->layer.cell == QB_CELL_LSTM ? j->args->more[1] : NULL;
    for (int64_t d = 0; d < plan->directions; d++)
        for (int64_t b = 0; b < plan->batch; b++) {
            const int64_t from = state_at(plan, d, b), to = outer_at(plan, d, b);
            if (h) memcpy(h + to, j->h[length_of(j, b) & 1] + from, bytes);
            if (c) memcpy(c + to, j->c + from, bytes);
        }
}

qb_status qb_rec_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_rec_plan *plan = kernel->state;
    const qb_problem *p = &kernel->problem;
    char *memory = args->workspace;
    job j = {.plan = plan,
             .problem = p,
             .args = args,
             .lengths = qb_problem_has(p, QB_IN_LENGTHS) ? args->in[QB_IN_LENGTHS] : NULL,
             .packed = args->packed,
             .x = (float *)(void *)(memory + plan->x),
             .h = {(float *)(void *)(memory + plan->h[0]), (float *)(void *)(memory + plan->h[1])},
             .c = (float *)(void *)(memory + plan->c),
             .reset = (float *)(void *)(memory + plan->reset),
             .active = (int32_t *)(void *)(memory + plan->active)};
    QB_TRY(check_lengths(cx, &j));
    const void *const in[] = {args->in[QB_IN_X], NULL, NULL};
    const qb_launch projection = {.in = in,
                                  .out = j.x,
                                  .packed = args->packed,
                                  .workspace = memory,
                                  .workers = args->workers};
    QB_TRY(plan->projection->launch(cx, plan->projection, &projection));
    load_states(&j, qb_problem_has(p, QB_IN_H) ? args->in[QB_IN_H] : NULL, j.h[0]);
    load_states(&j, qb_problem_has(p, QB_IN_C) ? args->in[QB_IN_C] : NULL, j.c);
    clear_ends(&j);
    run_all(&j);
    store_states(&j);
    return QB_OK;
}

/* Float matrix products whose right side is computed as well (attention): one product for each item
 * of the batch. The right side is packed in front of each product, into the workspace, and then it
 * is the product with a constant right side. Small ones of few rows or columns are not worth that:
 * they are computed from where they lie. */
#include <string.h>

#include "base/vector_loop.h"
#include "conv_internal.h"

#define SMALL 4096           /* most multiply-adds of a small product of few rows */
#define SMALL_COLUMNS 1024   /* and of few columns */
#define FEW 4                /* rows, columns */
#define LANES 16             /* columns that advance together */
#define PRODUCTS_A_TASK 8192 /* multiply-adds */

typedef struct products {
    qb_conv_plan *plan; /* of one item */
    int64_t items;
    int32_t rank; /* batch dimensions, with bytes from index to index; 0: the same for all */
    int64_t batch[QB_MAX_RANK], step[4][QB_MAX_RANK];
    int64_t out_step;
    int64_t m, k, n;
    bool small;
    bool transpose_b, by_item;       /* by_item: the threads share the items, not an item's tiles */
    size_t packed_bytes, item_bytes; /* item_bytes: with the plan's own workspace behind */
} products;

typedef struct job {
    const products *p;
    const qb_launch *args;
} job;

/* Columns of `b` [k, n], or of its transpose, into the panel of a block. */
static void pack_block(const products *p, const qb_conv_block *block, const float *b,
                       char *packed) {
    const qb_conv_plan *plan = p->plan;
    const int64_t lanes = (int64_t)block->vectors * plan->arch->lanes, width = block->width;
    float *panel = (float *)(void *)(packed + block->panel);
    for (int64_t u = 0; u < p->k && width < lanes; u++)
        memset(panel + u * lanes + width, 0, (size_t)(lanes - width) * sizeof(float));
    if (!p->transpose_b) {
        for (int64_t u = 0; u < p->k; u++)
            memcpy(panel + u * lanes, b + u * plan->outputs + block->channel,
                   (size_t)width * sizeof(float));
    } else {
        for (int64_t c = 0; c < width; c++)
            for (int64_t u = 0; u < p->k; u++)
                panel[u * lanes + c] = b[(block->channel + c) * p->k + u];
    }
    for (int64_t i = 0; i < p->k * lanes && plan->factor != 1.0f; i++) panel[i] *= plan->factor;
}

static void pack(const products *p, const float *b, const float *bias, char *packed) {
    const qb_conv_plan *plan = p->plan;
    for (int32_t i = 0; i < plan->n_blocks; i++) pack_block(p, &plan->blocks[i], b, packed);
    char *start = packed + plan->start;
    memset(start, 0, (size_t)plan->columns * 4);
    if (bias) memcpy(start, bias, (size_t)plan->outputs * sizeof(float));
}

/* Where an item of an input begins, in bytes. */
static int64_t place_of(const products *p, int32_t input, int64_t item) {
    int64_t at = 0;
    for (int32_t d = p->rank - 1; d >= 0; item /= p->batch[d--])
        at += item % p->batch[d] * p->step[input][d];
    return at;
}

static void one_product(const products *p, const qb_launch *args, int64_t item, char *packed,
                        qb_workers *workers) {
    const void *in[4];
    for (int32_t i = 0; i < 4; i++)
        in[i] = args->in[i] ? (const char *)args->in[i] + place_of(p, i, item) : NULL;
    const bool same = item > 0 && !p->by_item &&
                      place_of(p, QB_IN_WEIGHT, item) == place_of(p, QB_IN_WEIGHT, item - 1);
    if (!same) pack(p, in[QB_IN_WEIGHT], in[QB_IN_BIAS], packed);
    const qb_kernel one = {.state = p->plan};
    const qb_launch launch = {.in = in,
                              .out = (char *)args->out + item * p->out_step,
                              .packed = packed,
                              .workspace = packed + p->packed_bytes,
                              .workers = workers};
    qb_conv_launch(NULL, &one, &launch);
}

/* ---- small ones ---- */

/* Columns j to j + LANES of a row. */
static inline __attribute__((always_inline)) void add_columns(const float *a, const float *b,
                                                              int64_t k, int64_t n, float *y) {
    float sum[LANES] = {0};
    for (int64_t u = 0; u < k; u++)
        for (int64_t j = 0; j < LANES; j++) sum[j] += a[u] * b[u * n + j];
    for (int64_t j = 0; j < LANES; j++) y[j] = sum[j];
}

QB_LOOP(multiply,
        (const float *a, const float *b, int64_t m, int64_t k, int64_t n, float factor, float *y),
        (a, b, m, k, n, factor, y)) {
    for (int64_t i = 0; i < m; i++, a += k, y += n) {
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES) add_columns(a, b + j, k, n, y + j);
        for (; j < n; j++) {
            float sum = 0;
            for (int64_t u = 0; u < k; u++) sum += a[u] * b[u * n + j];
            y[j] = sum;
        }
        for (j = 0; factor != 1.0f && j < n; j++) y[j] *= factor;
    }
}

/* Where the inputs of an item begin, in bytes, and of the items behind it. */
typedef struct cursor {
    int64_t index[QB_MAX_RANK], at[4];
} cursor;

static cursor cursor_at(const products *p, int64_t item) {
    cursor c = {.index = {0}};
    for (int32_t i = 0; i < 4; i++) c.at[i] = place_of(p, i, item);
    for (int32_t d = p->rank - 1; d >= 0; item /= p->batch[d--]) c.index[d] = item % p->batch[d];
    return c;
}

static void next_item(const products *p, cursor *c) {
    for (int32_t d = p->rank - 1; d >= 0; d--) {
        for (int32_t i = 0; i < 4; i++) c->at[i] += p->step[i][d];
        if (++c->index[d] < p->batch[d]) return;
        for (int32_t i = 0; i < 4; i++) c->at[i] -= p->batch[d] * p->step[i][d];
        c->index[d] = 0;
    }
}

static void small_product(const products *p, const qb_launch *args, const cursor *c, char *out) {
    const qb_epilogue *f = &p->plan->epilogue;
    const float *a = (const float *)((const char *)args->in[QB_IN_DATA] + c->at[QB_IN_DATA]);
    const float *b = (const float *)((const char *)args->in[QB_IN_WEIGHT] + c->at[QB_IN_WEIGHT]);
    const float *bias = args->in[QB_IN_BIAS];
    const char *residual = args->in[QB_IN_RESIDUAL];
    float transposed[SMALL], made[SMALL];
    float *y = p->plan->plain_epilogue && f->out == QB_DTYPE_F32 && !residual ? (float *)out : made;
    if (p->transpose_b && p->n > 1) {
        for (int64_t j = 0; j < p->n; j++)
            for (int64_t u = 0; u < p->k; u++) transposed[u * p->n + j] = b[j * p->k + u];
        b = transposed;
    }
    multiply(a, b, p->m, p->k, p->n, p->plan->factor, y);
    for (int64_t i = 0; bias && i < p->m * p->n; i++) y[i] += bias[i % p->n];
    qb_epilogue_run(f, y, p->m * p->n, residual ? residual + c->at[QB_IN_RESIDUAL] : NULL, out);
}

static int64_t small_a_task(const products *p) {
    return qb_max64(1, PRODUCTS_A_TASK / (p->m * p->k * p->n));
}

static void run_small(int64_t task, void *argument) {
    const job *j = argument;
    const products *p = j->p;
    const int64_t each = small_a_task(p), first = task * each;
    const int64_t end = qb_min64(first + each, p->items);
    cursor c = cursor_at(p, first);
    for (int64_t i = first; i < end; i++, next_item(p, &c))
        small_product(p, j->args, &c, (char *)j->args->out + i * p->out_step);
}

/* ---- all ---- */

static void run_item(int64_t item, void *argument) {
    const job *j = argument;
    char *packed = (char *)j->args->workspace + (size_t)item * j->p->item_bytes;
    one_product(j->p, j->args, item, packed, NULL);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const products *p = kernel->state;
    job j = {p, args};
    if (p->small)
        qb_workers_run(args->workers, qb_ceil64(p->items, small_a_task(p)), run_small, &j);
    else if (p->by_item)
        qb_workers_run(args->workers, p->items, run_item, &j);
    else
        for (int64_t i = 0; i < p->items; i++)
            one_product(p, args, i, args->workspace, args->workers);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) {
    products *p = kernel->state;
    if (!p) return;
    qb_conv_plan_free(p->plan);
    qb_free(p);
}

/* The last two dimensions. */
static qb_shape matrix(const qb_shape *s) {
    return (qb_shape){.rank = 2, .dim = {s->dim[s->rank - 2], s->dim[s->rank - 1]}};
}

static int64_t items_of(const qb_shape *s) { return qb_shape_span(s, 0, s->rank - 2); }

/* Do the batch dimensions broadcast to the output's? */
static bool batches_like(const qb_shape *x, const qb_shape *out) {
    const int32_t lead = out->rank - x->rank;
    bool fits = x->rank >= 2 && lead >= 0;
    for (int32_t d = 0; d < x->rank - 2 && fits; d++)
        fits = x->dim[d] == 1 || x->dim[d] == out->dim[d + lead];
    return fits;
}

/* Bytes from index to index of the output's batch dimensions. */
static void set_steps(const qb_shape *x, int32_t rank, int64_t item, int64_t *step) {
    const int32_t lead = rank - (x->rank - 2);
    for (int32_t d = rank - 1; d >= 0; d--) {
        const int64_t size = d < lead ? 1 : x->dim[d - lead];
        step[d] = size == 1 ? 0 : item;
        item *= size;
    }
}

/* The problem of one item; `in` has four entries. */
static qb_problem one_item(const qb_problem *p, qb_desc *in) {
    qb_problem one = *p;
    for (int32_t i = 0; i < 4; i++)
        in[i] = i < p->n_in ? p->in[i] : (qb_desc){.dtype = QB_DTYPE_NONE};
    in[QB_IN_DATA].shape = matrix(&p->in[QB_IN_DATA].shape);
    in[QB_IN_WEIGHT].shape = matrix(&p->in[QB_IN_WEIGHT].shape);
    one.out.shape = matrix(&p->out.shape);
    if (qb_problem_has(p, QB_IN_RESIDUAL)) in[QB_IN_RESIDUAL].shape = one.out.shape;
    one.in = in;
    return one;
}

static bool supports(const qb_problem *p, const bool *constant) {
    static const bool known[4] = {false, true, true, false};
    qb_desc in[4];
    const qb_shape *out = &p->out.shape;
    if (out->rank < 2 || p->n_in > 4) return false;
    if (constant[QB_IN_WEIGHT] && items_of(&p->in[QB_IN_WEIGHT].shape) == 1) return false;
    if (!batches_like(&p->in[QB_IN_DATA].shape, out) ||
        !batches_like(&p->in[QB_IN_WEIGHT].shape, out))
        return false;
    if (qb_problem_has(p, QB_IN_RESIDUAL) && !qb_shape_equal(&p->in[QB_IN_RESIDUAL].shape, out))
        return false;
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_problem_has(p, i) &&
            (p->in[i].layout != QB_LAYOUT_ROW || p->in[i].channel_total > 0))
            return false;
    qb_problem one = one_item(p, in);
    return qb_matmul_supports(&one, known, false);
}

static bool is_small(const products *p) {
    const int64_t work = p->m * p->k * p->n;
    return (p->m <= FEW && work <= SMALL) || (p->n <= FEW && work <= SMALL_COLUMNS);
}

static qb_status fill(qb_ctx *cx, const qb_problem *p, int threads, products *w) {
    qb_desc in[4];
    const qb_problem one = one_item(p, in);
    w->items = items_of(&p->out.shape);
    w->by_item = threads > 1 && w->items >= threads;
    QB_TRY(qb_conv_plan_create(cx, &one, qb_conv_best(&one), w->by_item ? 1 : threads, &w->plan));
    w->packed_bytes = qb_pad64(w->plan->packed_bytes);
    w->item_bytes = w->packed_bytes + qb_pad64(qb_conv_workspace(w->plan));
    w->transpose_b = p->transpose_b;
    w->k = w->plan->channels;
    w->n = w->plan->outputs;
    w->m = qb_shape_count(&one.out.shape) / w->n;
    w->small = is_small(w);
    w->rank = p->out.shape.rank - 2;
    for (int32_t d = 0; d < w->rank; d++) w->batch[d] = p->out.shape.dim[d];
    for (int32_t i = 0; i < 4; i++)
        if (qb_problem_has(p, i) && i != QB_IN_BIAS)
            set_steps(&p->in[i].shape, w->rank, (int64_t)qb_desc_bytes(&in[i]), w->step[i]);
    w->out_step = (int64_t)qb_desc_bytes(&one.out);
    return QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    products *w = kernel->state = QB_NEW(cx, qb_alloc(cx, 1, sizeof *w));
    kernel->destroy = destroy;
    QB_TRY(fill(cx, p, threads, w));
    kernel->workspace_bytes = w->item_bytes * (size_t)(w->by_item ? w->items : 1);
    kernel->launch = launch;
    *out = QB_MOVE(kernel);
    return QB_OK;
}

QB_TACTIC(cpu_matmul_dynamic, "cpu.matmul_f32.dynamic", "cpu", QB_KIND_MATMUL, QB_EXACT, supports,
          create);

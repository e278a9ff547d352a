/* MATMUL_INTEGER with a constant right side: the product of cpu.matmul_s8 to its sums. With
 * b' = b - g (g is 128 for u8, else 0) and zb = Zb - g
 *
 *   sum (a - Za)(b - Zb) = (sum a b' - Za sum b') + zb (k Za - sum a)
 *
 * in which everything wraps, as the sums do. They begin at - Za sum b'; the rest is 0 for weights
 * without zero points, else it follows row by row. */
#include <string.h>

#include "base/clones.h"
#include "conv_internal.h"

#define ROWS_PER_TASK 16

extern const qb_tactic qb_tactic_cpu_matmul_s8;

typedef struct integer_state {
    qb_kernel *product;
    int64_t rows, k, n;
    bool b_unsigned;
    int64_t b_zeros; /* 0: none */
    size_t columns;  /* sums of b's columns, in the packed block */
    size_t start;    /* where sums begin, in the workspace */
} integer_state;

static const float one = 1.0f;

/* The same codes as a MATMUL of scale 1, whose result are its sums. */
static qb_problem product_of(const qb_problem *p, qb_desc *in) {
    qb_problem product = {
        .kind = QB_KIND_MATMUL, .n_in = 2, .in = in, .out = p->out, .group = 1, .scale = 1};
    for (int i = 0; i < 2; i++) {
        in[i] = p->in[i];
        in[i].q = (qb_qparams){in[i].dtype, -1, 1, &one, NULL};
    }
    in[QB_IN_WEIGHT].dtype = in[QB_IN_WEIGHT].q.dtype = QB_DTYPE_S8;
    return product;
}

static bool is_row(const qb_desc *d) {
    return d->layout == QB_LAYOUT_ROW && d->channel_total == 0 && qb_shape_count(&d->shape) > 0;
}

static bool supports(const qb_problem *p, const bool *constant) {
    if (!qb_problem_is_integer(p) || !constant[QB_IN_WEIGHT]) return false;
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    return is_row(a) && is_row(&p->out) && a->shape.rank >= 2 && b->shape.rank == 2 &&
           a->shape.dim[a->shape.rank - 1] <= INT32_MAX && b->shape.dim[1] <= INT32_MAX;
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const integer_state *s = kernel->state;
    const uint8_t flip = s->b_unsigned ? 0x80 : 0, *from = constants[QB_IN_WEIGHT];
    uint32_t *columns = (uint32_t *)(void *)((char *)packed + s->columns);
    const void *all[QB_MAX_INPUTS] = {0};
    int8_t *weight = qb_alloc(cx, (size_t)(s->k * s->n), 1);
    if (!weight) return cx->code;
    memset(columns, 0, (size_t)s->n * sizeof *columns);
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < s->n; j++) {
            weight[i * s->n + j] = (int8_t)(from[i * s->n + j] ^ flip);
            columns[j] += (uint32_t)weight[i * s->n + j];
        }
    all[QB_IN_WEIGHT] = weight;
    const qb_status status = s->product->pack(cx, s->product, all, packed);
    qb_free(weight);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------
 */

typedef struct job {
    const integer_state *s;
    const uint8_t *a;
    bool a_signed;
    uint32_t a_zero;
    const uint8_t *b_zero; /* NULL: none */
    uint32_t *out;
} job;

static uint32_t code_at(const uint8_t *code, int64_t i, bool is_signed) {
    return is_signed ? (uint32_t)(int8_t)code[i] : code[i];
}

/* zb of column i. */
static uint32_t offset_at(const job *j, int64_t i) {
    const bool b_unsigned = j->s->b_unsigned;
    const uint32_t zero =
        j->b_zero ? code_at(j->b_zero, j->s->b_zeros > 1 ? i : 0, !b_unsigned) : 0;
    return zero - (b_unsigned ? 128 : 0);
}

static bool has_offsets(const job *j) {
    const int64_t n = j->s->b_zeros > 1 ? j->s->n : 1;
    for (int64_t i = 0; i < n; i++)
        if (offset_at(j, i) != 0) return true;
    return false;
}

QB_CLONES static uint32_t sum_of(const uint8_t *a, int64_t n, uint8_t flip) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (uint8_t)(a[i] ^ flip);
    return sum - (flip ? 128 * (uint32_t)n : 0);
}

QB_CLONES static void add_products(uint32_t *out, const uint32_t *columns, int64_t n,
                                   uint32_t times) {
    for (int64_t i = 0; i < n; i++) out[i] += columns[i] * times;
}

static void add_offsets(int64_t task, void *argument) {
    const job *j = argument;
    const integer_state *s = j->s;
    const int64_t end = qb_min64((task + 1) * ROWS_PER_TASK, s->rows);
    for (int64_t row = task * ROWS_PER_TASK; row < end; row++) {
        const uint32_t sum = sum_of(j->a + row * s->k, s->k, j->a_signed ? 0x80 : 0);
        const uint32_t rest = (uint32_t)s->k * j->a_zero - sum;
        for (int64_t i = 0; i < s->n; i++) j->out[row * s->n + i] += rest * offset_at(j, i);
    }
}

static const uint8_t *input(const qb_kernel *kernel, const qb_launch *args, int32_t i) {
    return qb_problem_has(&kernel->problem, i) ? args->in[i] : NULL;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const integer_state *s = kernel->state;
    const qb_conv_plan *plan = s->product->state;
    const char *packed = args->packed;
    const uint8_t *a_zero = input(kernel, args, QB_IN_DATA_ZERO);
    uint32_t *start = (uint32_t *)(void *)((char *)args->workspace + s->start);
    job j = {.s = s,
             .a = args->in[QB_IN_DATA],
             .a_signed = kernel->problem.in[QB_IN_DATA].dtype == QB_DTYPE_S8,
             .b_zero = input(kernel, args, QB_IN_WEIGHT_ZERO),
             .out = args->out};
    if (a_zero) j.a_zero = code_at(a_zero, 0, j.a_signed);
    memcpy(start, packed + plan->start, (size_t)plan->columns * sizeof *start);
    add_products(start, (const uint32_t *)(const void *)(packed + s->columns), s->n, 0u - j.a_zero);
    QB_TRY(qb_conv_launch_from(s->product, args, (const int32_t *)start));
    if (has_offsets(&j))
        qb_workers_run(args->workers, qb_ceil64(s->rows, ROWS_PER_TASK), add_offsets, &j);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) {
    integer_state *s = kernel->state;
    qb_kernel_free(s->product);
    qb_free(s);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_desc in[2];
    const qb_problem product = product_of(p, in);
    qb_kernel *inner;
    QB_TRY(qb_tactic_cpu_matmul_s8.create(cx, &qb_tactic_cpu_matmul_s8, &product, constant, threads,
                                          &inner));
    if (qb_cpu_kernel_create(cx, tactic, p, sizeof(integer_state), out) != QB_OK) {
        qb_kernel_free(inner);
        return cx->code;
    }
    const qb_shape *a = &p->in[QB_IN_DATA].shape;
    qb_kernel *kernel = *out;
    integer_state *s = kernel->state;
    s->product = inner;
    s->k = a->dim[a->rank - 1];
    s->n = p->in[QB_IN_WEIGHT].shape.dim[1];
    s->rows = qb_shape_count(a) / s->k;
    s->b_unsigned = p->in[QB_IN_WEIGHT].dtype == QB_DTYPE_U8;
    if (qb_problem_has(p, QB_IN_WEIGHT_ZERO))
        s->b_zeros = qb_shape_count(&p->in[QB_IN_WEIGHT_ZERO].shape);
    s->columns = qb_pad64(inner->packed_bytes);
    kernel->packed_bytes = s->columns + (size_t)s->n * sizeof(uint32_t);
    kernel->packed_form = inner->packed_form;
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    const qb_conv_plan *plan = inner->state;
    s->start = qb_pad64(inner->workspace_bytes);
    kernel->workspace_bytes = s->start + (size_t)plan->columns * sizeof(uint32_t);
    kernel->pack = pack;
    kernel->launch = launch;
    kernel->destroy = destroy;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_matmul_integer = {.name = "cpu.matmul_integer.packed",
                                                .backend = "cpu",
                                                .kind = QB_KIND_MATMUL_INTEGER,
                                                .exactness = QB_EXACT,
                                                .supports = supports,
                                                .create = create};

/* MATMUL_INTEGER with a constant right side: the product of cpu.matmul_s8 to its sums. With
 * b' = b - g (g is 128 for u8, else 0) and zb = Zb - g
 *
 *   sum (a - Za)(b - Zb) = (sum a b' - Za sum b') + zb (k Za - sum a)
 *
 * in which everything wraps, as the sums do. They begin at - Za sum b'; the rest is 0 for weights
 * without zero points, else it follows row by row. MATMUL_SCALED is the same for such weights, with
 * the scales as multipliers of its tiles. */
#include <string.h>

#include "base/vector_loop.h"
#include "conv_internal.h"

#define ROWS_PER_TASK 16

extern const qb_tactic qb_tactic_cpu_matmul_s8;

typedef struct integer_state {
    qb_kernel *product;
    int64_t rows, k, n;
    int32_t a_zero, b_zero; /* inputs; -1: none */
    bool b_unsigned;
    int64_t b_zeros; /* 0: none */
    size_t columns;  /* sums of b's columns, in the packed block */
    size_t start;    /* in the workspace: where sums begin, and what they are multiplied with */
    size_t multiplier;
} integer_state;

static const float one = 1.0f;

/* The same quantized values as a MATMUL of scale 1: its result are the sums, or floats of them. */
static qb_problem product_of(const qb_problem *p, qb_desc *in) {
    qb_problem product = {
        .kind = QB_KIND_MATMUL, .n_in = 2, .in = in, .out = p->out, .group = 1, .scale = 1};
    for (int i = 0; i < 2; i++) {
        in[i] = p->in[i];
        in[i].q = (qb_qparams){in[i].dtype, -1, 1, &one, NULL};
    }
    in[QB_IN_WEIGHT].dtype = in[QB_IN_WEIGHT].q.dtype = QB_DTYPE_S8;
    if (p->kind != QB_KIND_MATMUL_SCALED || !qb_problem_has(p, QB_SCALED_BIAS)) return product;
    in[QB_IN_BIAS] = p->in[QB_SCALED_BIAS];
    product.n_in = 3;
    return product;
}

static bool is_packable(const qb_problem *p, const bool *constant) {
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    return constant[QB_IN_WEIGHT] && qb_cpu_is_filled_rows(a) && qb_cpu_is_filled_rows(&p->out) &&
           a->shape.rank >= 2 && b->shape.rank == 2 &&
           a->shape.dim[a->shape.rank - 1] <= INT32_MAX && b->shape.dim[1] <= INT32_MAX;
}

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_problem_is_integer(p) && is_packable(p, constant);
}

static bool is_floats(const qb_problem *p, int32_t i, int64_t n) {
    const int64_t count = qb_shape_count(&p->in[i].shape);
    return qb_cpu_is_f32(&p->in[i]) && (count == 1 || count == n);
}

static bool supports_scaled(const qb_problem *p, const bool *constant) {
    if (p->kind != QB_KIND_MATMUL_SCALED || p->n_in <= QB_SCALED_WEIGHT_SCALE) return false;
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    const qb_desc *zero = &p->in[QB_SCALED_DATA_ZERO];
    if (!is_packable(p, constant) || (a->dtype != QB_DTYPE_U8 && a->dtype != QB_DTYPE_S8) ||
        a->q.n > 0 || b->dtype != QB_DTYPE_S8 || b->q.n > 0 || !qb_cpu_is_f32(&p->out) ||
        qb_problem_has(p, QB_SCALED_WEIGHT_ZERO))
        return false;
    const int64_t n = b->shape.dim[1];
    if (qb_problem_has(p, QB_SCALED_DATA_ZERO) &&
        (zero->dtype != a->dtype || zero->q.n > 0 || qb_shape_count(&zero->shape) != 1))
        return false;
    return is_floats(p, QB_SCALED_DATA_SCALE, 1) && is_floats(p, QB_SCALED_WEIGHT_SCALE, n) &&
           (!qb_problem_has(p, QB_SCALED_BIAS) ||
            (constant[QB_SCALED_BIAS] && qb_cpu_is_f32(&p->in[QB_SCALED_BIAS]) &&
             qb_shape_count(&p->in[QB_SCALED_BIAS].shape) == n));
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const integer_state *s = kernel->state;
    const uint8_t flip = s->b_unsigned ? 0x80 : 0, *from = constants[QB_IN_WEIGHT];
    uint32_t *columns = (uint32_t *)(void *)((char *)packed + s->columns);
    const void *all[QB_MAX_INPUTS] = {0};
    QB_FREED int8_t *weight = QB_NEW(cx, qb_alloc(cx, (size_t)(s->k * s->n), 1));
    memset(columns, 0, (size_t)s->n * sizeof *columns);
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < s->n; j++) {
            weight[i * s->n + j] = (int8_t)(from[i * s->n + j] ^ flip);
            columns[j] += (uint32_t)weight[i * s->n + j];
        }
    all[QB_IN_WEIGHT] = weight;
    if (s->product->problem.n_in > QB_IN_BIAS) all[QB_IN_BIAS] = constants[QB_SCALED_BIAS];
    return s->product->pack(cx, s->product, all, packed);
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct job {
    const integer_state *s;
    const uint8_t *a;
    bool a_signed;
    uint32_t a_zero;
    const uint8_t *b_zero; /* NULL: none */
    uint32_t *out;
} job;

static uint32_t quantized_at(const uint8_t *code, int64_t i, bool is_signed) {
    return is_signed ? (uint32_t)(int8_t)code[i] : code[i];
}

/* zb of column i. */
static uint32_t offset_at(const job *j, int64_t i) {
    const bool b_unsigned = j->s->b_unsigned;
    const uint32_t zero =
        j->b_zero ? quantized_at(j->b_zero, j->s->b_zeros > 1 ? i : 0, !b_unsigned) : 0;
    return zero - (b_unsigned ? 128 : 0);
}

static bool has_offsets(const job *j) {
    const int64_t n = j->s->b_zeros > 1 ? j->s->n : 1;
    for (int64_t i = 0; i < n; i++)
        if (offset_at(j, i) != 0) return true;
    return false;
}

QB_LOOP(add_up, (const uint8_t *a, int64_t n, uint8_t flip, uint32_t *out), (a, n, flip, out)) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (uint8_t)(a[i] ^ flip);
    *out = sum - (flip ? 128 * (uint32_t)n : 0);
}

QB_LOOP(add_products, (uint32_t * out, const uint32_t *columns, int64_t n, uint32_t times),
        (out, columns, n, times)) {
    for (int64_t i = 0; i < n; i++) out[i] += columns[i] * times;
}

static void add_offsets(int64_t task, void *argument) {
    const job *j = argument;
    const integer_state *s = j->s;
    const int64_t end = qb_min64((task + 1) * ROWS_PER_TASK, s->rows);
    for (int64_t row = task * ROWS_PER_TASK; row < end; row++) {
        uint32_t sum;
        add_up(j->a + row * s->k, s->k, j->a_signed ? 0x80 : 0, &sum);
        const uint32_t rest = (uint32_t)s->k * j->a_zero - sum;
        for (int64_t i = 0; i < s->n; i++) j->out[row * s->n + i] += rest * offset_at(j, i);
    }
}

static const void *input(const qb_launch *args, int32_t i) { return i < 0 ? NULL : args->in[i]; }

static job job_of(const qb_kernel *kernel, const qb_launch *args) {
    const integer_state *s = kernel->state;
    const uint8_t *a_zero = input(args, s->a_zero);
    job j = {.s = s,
             .a = args->in[QB_IN_DATA],
             .a_signed = kernel->problem.in[QB_IN_DATA].dtype == QB_DTYPE_S8,
             .b_zero = input(args, s->b_zero),
             .out = args->out};
    if (a_zero) j.a_zero = quantized_at(a_zero, 0, j.a_signed);
    return j;
}

/* The sums' beginnings, in the workspace. */
static const void *begin(const job *j, const qb_launch *args) {
    const integer_state *s = j->s;
    const qb_conv_plan *plan = s->product->state;
    const char *packed = args->packed;
    uint32_t *start = (uint32_t *)(void *)((char *)args->workspace + s->start);
    memcpy(start, packed + plan->start, (size_t)plan->columns * sizeof *start);
    add_products(start, (const uint32_t *)(const void *)(packed + s->columns), s->n,
                 0u - j->a_zero);
    return start;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    job j = job_of(kernel, args);
    QB_TRY(qb_conv_launch_with(j.s->product, args, begin(&j, args), NULL));
    if (has_offsets(&j))
        qb_workers_run(args->workers, qb_ceil64(j.s->rows, ROWS_PER_TASK), add_offsets, &j);
    return QB_OK;
}

static qb_status launch_scaled(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const job j = job_of(kernel, args);
    const qb_conv_plan *plan = j.s->product->state;
    const float *a_scale = args->in[QB_SCALED_DATA_SCALE];
    const float *b_scale = args->in[QB_SCALED_WEIGHT_SCALE];
    const bool many = qb_shape_count(&kernel->problem.in[QB_SCALED_WEIGHT_SCALE].shape) > 1;
    float *multiplier = (float *)(void *)((char *)args->workspace + j.s->multiplier);
    for (int64_t i = 0; i < j.s->n; i++) multiplier[i] = *a_scale * b_scale[many ? i : 0];
    for (int64_t i = j.s->n; i < plan->columns; i++) multiplier[i] = 0.0f;
    return qb_conv_launch_with(j.s->product, args, begin(&j, args), multiplier);
}

static void destroy(qb_kernel *kernel) {
    integer_state *s = kernel->state;
    qb_kernel_free(s->product);
    qb_free(s);
}

/* Around the product; zero points are these inputs. */
static qb_status create_around(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                               const bool *constant, int threads, int32_t a_zero, int32_t b_zero,
                               qb_kernel **out) {
    qb_desc in[3];
    const qb_problem product = product_of(p, in);
    const bool all_constant[] = {false, constant[QB_IN_WEIGHT], true};
    qb_kernel *inner;
    QB_TRY(qb_tactic_cpu_matmul_s8.create(cx, &qb_tactic_cpu_matmul_s8, &product, all_constant,
                                          threads, &inner));
    if (qb_cpu_kernel_create(cx, tactic, p, sizeof(integer_state), out) != QB_OK) {
        qb_kernel_free(inner);
        return cx->code;
    }
    const qb_shape *a = &p->in[QB_IN_DATA].shape;
    const qb_conv_plan *plan = inner->state;
    qb_kernel *kernel = *out;
    integer_state *s = kernel->state;
    s->product = inner;
    s->k = a->dim[a->rank - 1];
    s->n = p->in[QB_IN_WEIGHT].shape.dim[1];
    s->rows = qb_shape_count(a) / s->k;
    s->a_zero = qb_problem_has(p, a_zero) ? a_zero : -1;
    s->b_zero = qb_problem_has(p, b_zero) ? b_zero : -1;
    s->b_unsigned = p->in[QB_IN_WEIGHT].dtype == QB_DTYPE_U8;
    if (s->b_zero >= 0) s->b_zeros = qb_shape_count(&p->in[b_zero].shape);
    s->columns = qb_pad64(inner->packed_bytes);
    s->start = qb_pad64(inner->workspace_bytes);
    s->multiplier = s->start + qb_pad64((size_t)plan->columns * sizeof(uint32_t));
    kernel->packed_bytes = s->columns + (size_t)s->n * sizeof(uint32_t);
    kernel->packing_id = inner->packing_id;
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    kernel->workspace_bytes = s->multiplier + (size_t)plan->columns * sizeof(float);
    kernel->pack = pack;
    kernel->destroy = destroy;
    return QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    QB_TRY(
        create_around(cx, tactic, p, constant, threads, QB_IN_DATA_ZERO, QB_IN_WEIGHT_ZERO, out));
    (*out)->launch = launch;
    return QB_OK;
}

static qb_status create_scaled(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                               const bool *constant, int threads, qb_kernel **out) {
    QB_TRY(create_around(cx, tactic, p, constant, threads, QB_SCALED_DATA_ZERO,
                         QB_SCALED_WEIGHT_ZERO, out));
    (*out)->packed_inputs |= (uint64_t)1 << QB_SCALED_BIAS;
    (*out)->launch = launch_scaled;
    return QB_OK;
}

QB_TACTIC(cpu_matmul_integer, "cpu.matmul_integer.packed", "cpu", QB_KIND_MATMUL_INTEGER, QB_EXACT,
          supports, create);
QB_TACTIC(cpu_matmul_scaled, "cpu.matmul_scaled.packed", "cpu", QB_KIND_MATMUL_SCALED, QB_EXACT,
          supports_scaled, create_scaled);

/* The plain matrix product as a tactic: 8-bit values, or floats of either size. A constant operand
 * is packed as it is. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/matmul/matmul.h"

typedef struct matmul_state {
    qb_cuda_matmul p;
    int64_t at_weight; /* of a constant operand, in the packed block; -1: not packed */
} matmul_state;

static bool is_row(const qb_desc *d) {
    return (d->layout == QB_LAYOUT_ROW || d->layout == QB_LAYOUT_ANY) && d->channel_total == 0 &&
           d->shape.rank >= 2;
}

static bool lower_operands(const qb_problem *p, const bool *constant, bool smooth,
                           qb_cuda_matmul *x) {
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    x->integer = a->q.n == 1 && b->q.n > 0;
    qb_desc plain = *b; /* scales by column are looked at elsewhere */
    if (plain.q.n > 1) plain.q.n = 1;
    if (!qb_cuda_value_of(a, &x->a) || !qb_cuda_value_of(&plain, &x->b)) return false;
    if (!x->integer && (a->q.n > 0 || b->q.n > 0)) return false;
    if (b->q.n > 1 && b->q.n != p->out.shape.dim[p->out.shape.rank - 1]) return false;
    if (smooth != (x->integer && qb_cuda_is_smooth(p->act.kind))) return false;
    x->has_bias = qb_problem_has(p, QB_IN_BIAS);
    if (!x->has_bias) return true;
    const qb_desc *bias = &p->in[QB_IN_BIAS];
    x->has_float_bias = bias->dtype == QB_DTYPE_F32;
    return constant[QB_IN_BIAS] &&
           (x->has_float_bias || (x->integer && bias->dtype == QB_DTYPE_S32));
}

static bool lower_shapes(const qb_problem *p, qb_cuda_matmul *x) {
    const qb_shape *a = &p->in[QB_IN_DATA].shape, *b = &p->in[QB_IN_WEIGHT].shape;
    const qb_shape *y = &p->out.shape;
    int64_t count = qb_shape_count(y), matrices = 1;
    if (count < 0 || count > INT32_MAX || qb_shape_count(a) > INT32_MAX ||
        qb_shape_count(b) > INT32_MAX)
        return false;
    int64_t a_last = a->dim[a->rank - 1], b_last = b->dim[b->rank - 1];
    x->m = (int32_t)y->dim[y->rank - 2];
    x->n = (int32_t)y->dim[y->rank - 1];
    x->k = (int32_t)(p->transpose_a ? a->dim[a->rank - 2] : a_last);
    x->a_row = p->transpose_a ? 1 : a_last;
    x->a_step = p->transpose_a ? a_last : 1;
    x->b_row = p->transpose_b ? 1 : b_last;
    x->b_step = p->transpose_b ? b_last : 1;
    x->n_lead = y->rank - 2;
    int64_t a_stride = a_last * a->dim[a->rank - 2], b_stride = b_last * b->dim[b->rank - 2];
    for (int32_t d = x->n_lead - 1; d >= 0; d--) {
        int32_t da = d - (y->rank - a->rank), db = d - (y->rank - b->rank);
        x->lead[d] = (int32_t)y->dim[d];
        matrices *= y->dim[d];
        if (da >= 0) {
            x->a_lead[d] = a->dim[da] == 1 ? 0 : a_stride;
            a_stride *= a->dim[da];
        }
        if (db >= 0) {
            x->b_lead[d] = b->dim[db] == 1 ? 0 : b_stride;
            b_stride *= b->dim[db];
        }
    }
    x->matrices = (int32_t)matrices;
    return matrices <= 65535;
}

bool qb_cuda_matmul_of(const qb_problem *p, const bool *constant, bool smooth, qb_cuda_matmul *x) {
    *x = (qb_cuda_matmul){.scale = p->scale};
    if (p->kind != QB_KIND_MATMUL || p->n_in < 2 || p->n_in > 4) return false;
    if (!is_row(&p->in[QB_IN_DATA]) || !is_row(&p->in[QB_IN_WEIGHT]) || !is_row(&p->out))
        return false;
    if (qb_problem_has(p, QB_IN_RESIDUAL) && !is_row(&p->in[QB_IN_RESIDUAL])) return false;
    return lower_operands(p, constant, smooth, x) && lower_shapes(p, x) &&
           qb_cuda_epilogue_params_of(p, &x->end);
}

static bool lower(const qb_problem *p, const bool *constant, bool smooth, matmul_state *s) {
    *s = (matmul_state){.at_weight = -1};
    if (!qb_cuda_matmul_of(p, constant, smooth, &s->p)) return false;
    int64_t end = 0, columns = (int64_t)s->p.n * 4;
    s->p.at_multiplier = qb_cuda_reserve(&end, columns);
    s->p.at_weight_zero = qb_cuda_reserve(&end, columns);
    s->p.at_bias = qb_cuda_reserve(&end, columns);
    if (constant[QB_IN_WEIGHT])
        s->at_weight = qb_cuda_reserve(&end, (int64_t)qb_desc_bytes(&p->in[QB_IN_WEIGHT]));
    s->p.packed_bytes = end;
    return true;
}

/* A batch of rows by one right operand is one matrix where the rows follow each other. */
static void flatten(qb_cuda_matmul *x) {
    int64_t follows = (int64_t)x->m * x->a_row;
    for (int32_t d = x->n_lead - 1; d >= 0; d--) {
        if (x->lead[d] > 1 && (x->b_lead[d] != 0 || x->a_lead[d] != follows)) return;
        follows *= x->lead[d];
    }
    x->m *= x->matrices;
    x->matrices = 1;
    x->n_lead = 0;
}

static bool lower_thin(const qb_problem *p, const bool *constant, matmul_state *s) {
    const bool smooth = qb_cuda_is_smooth(p->act.kind) && p->in[QB_IN_DATA].q.n > 0;
    if (p->kind != QB_KIND_MATMUL || smooth || !lower(p, constant, false, s)) return false;
    qb_cuda_matmul *x = &s->p;
    if (x->n > QB_CUDA_THIN_COLUMNS || (x->n + 3) / 4 * 4 * (int64_t)x->k > QB_CUDA_THIN_WEIGHT)
        return false;
    flatten(x);
    return true;
}

/* All that elements of an operand that are read at once have to be multiples of, as bits; 1: they
 * are not contiguous. `across`: its size along m or n. */
static int64_t boundaries(int64_t across_stride, int64_t down_stride, int64_t across, int64_t down,
                          const int64_t *lead, int32_t n_lead) {
    const bool deep = down_stride == 1;
    int64_t all = deep ? across_stride | down : down_stride | across;
    for (int32_t d = 0; d < n_lead; d++) all |= lead[d];
    return deep || across_stride == 1 ? all : 1;
}

static bool lower_f16(const qb_problem *p, const bool *constant, matmul_state *s) {
    if (!lower(p, constant, false, s) || constant[QB_IN_WEIGHT]) return false;
    qb_cuda_matmul *x = &s->p;
    if (x->a.dtype != QB_DTYPE_F16 || x->b.dtype != QB_DTYPE_F16) return false;
    const int64_t all = boundaries(x->a_row, x->a_step, x->m, x->k, x->a_lead, x->n_lead) |
                        boundaries(x->b_step, x->b_row, x->n, x->k, x->b_lead, x->n_lead);
    x->width = all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1;
    return true;
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const matmul_state *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const qb_desc *b = &p->in[QB_IN_WEIGHT];
    char *to = packed;
    float *multiplier = (float *)(void *)(to + s->p.at_multiplier);
    int32_t *zero = (int32_t *)(void *)(to + s->p.at_weight_zero);
    memset(packed, 0, (size_t)s->p.packed_bytes);
    for (int32_t n = 0; s->p.integer && n < s->p.n; n++) {
        int32_t k = b->q.n > 1 ? n : 0;
        multiplier[n] = p->in[QB_IN_DATA].q.scale[0] * b->q.scale[k];
        if (p->scale != 1.0f) multiplier[n] *= p->scale;
        zero[n] = b->q.zero ? b->q.zero[k] : 0;
    }
    if (s->p.has_bias) memcpy(to + s->p.at_bias, constants[QB_IN_BIAS], (size_t)s->p.n * 4);
    if (s->at_weight >= 0) memcpy(to + s->at_weight, constants[QB_IN_WEIGHT], qb_desc_bytes(b));
    return QB_OK;
}

typedef int matmul_run(const qb_cuda_matmul *p, const void *a, const void *b, const void *residual,
                       const char *packed, void *out, void *stream);

static qb_status launch_with(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args,
                             matmul_run *run) {
    const matmul_state *s = kernel->state;
    const char *packed = args->packed;
    const void *b = s->at_weight >= 0 ? packed + s->at_weight : args->in[QB_IN_WEIGHT];
    const void *residual =
        qb_problem_has(&kernel->problem, QB_IN_RESIDUAL) ? args->in[QB_IN_RESIDUAL] : NULL;
    return qb_cuda_check(
        cx, run(&s->p, args->in[QB_IN_DATA], b, residual, packed, args->out, args->stream),
        kernel->tactic->name);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return launch_with(cx, kernel, args, qb_cuda_matmul_run);
}

static qb_status launch_thin(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return launch_with(cx, kernel, args, qb_cuda_matmul_thin_run);
}

static qb_status launch_f16(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return launch_with(cx, kernel, args, qb_cuda_matmul_mma_run);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        bool lowered, const matmul_state *state, qb_kernel **out) {
    qb_problem finalized;
    qb_desc in[4];
    if (!lowered) return qb_cuda_not_for(cx, tactic);
    qb_cuda_choose_layouts(problem, &finalized, in);
    QB_TRY(qb_cuda_create(cx, tactic, &finalized, state, sizeof *state, out));
    qb_kernel *kernel = *out;
    kernel->problem.out.layout = QB_LAYOUT_ROW;
    for (int32_t i = 0; i < problem->n_in; i++) kernel->in[i].layout = QB_LAYOUT_ROW;
    kernel->packed_bytes = (size_t)state->p.packed_bytes;
    kernel->packing_id = state->at_weight >= 0; /* else the shapes say how many columns */
    if (state->at_weight >= 0) kernel->packed_inputs |= (uint64_t)1 << QB_IN_WEIGHT;
    if (state->p.has_bias) kernel->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    kernel->pack = pack;
    return QB_OK;
}

#define MATMUL(SYMBOL, NAME, EXACTNESS, LAUNCH, LOWER)                                             \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        matmul_state s;                                                                            \
        return LOWER;                                                                              \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        matmul_state s;                                                                            \
        (void)threads;                                                                             \
        QB_TRY(create(cx, tactic, problem, LOWER, &s, out));                                       \
        (*out)->launch = LAUNCH;                                                                   \
        return QB_OK;                                                                              \
    }                                                                                              \
    QB_CUDA_TACTIC_ROW(SYMBOL, NAME, QB_KIND_MATMUL, .exactness = EXACTNESS, .rounds = true)

MATMUL(cuda_matmul, "matmul", QB_EXACT, launch, lower(problem, constant, false, &s));
MATMUL(cuda_matmul_smooth, "matmul_smooth", QB_WITHIN_1_LSB, launch,
       lower(problem, constant, true, &s));
MATMUL(cuda_matmul_thin, "matmul.thin", QB_EXACT, launch_thin, lower_thin(problem, constant, &s));
MATMUL(cuda_matmul_f16_mma, "matmul_f16.mma_64x64x32", QB_EXACT, launch_f16,
       lower_f16(problem, constant, &s));

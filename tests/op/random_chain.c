#include "random_chain.h"

#include "kernels/ref.h"

/* Functions of the C library, which vectors compute to a few units in the last place. */
static bool is_rough(qb_function f) {
    switch (f) {
    case QB_FUNCTION_EXP:
    case QB_FUNCTION_LOG:
    case QB_FUNCTION_ERF:
    case QB_FUNCTION_SOFTPLUS:
    case QB_FUNCTION_MISH:
    case QB_FUNCTION_SIGMOID:
    case QB_FUNCTION_TANH:
    case QB_FUNCTION_GELU:
    case QB_FUNCTION_GELU_TANH:
    case QB_FUNCTION_ELU:
    case QB_FUNCTION_CELU:
    case QB_FUNCTION_SELU:
    case QB_FUNCTION_SWISH:
    case QB_FUNCTION_SIN:
    case QB_FUNCTION_COS:
    case QB_FUNCTION_ATAN: return true;
    default: return false;
    }
}

/* Those that grow, or have poles: of numbers that the test chooses alone. */
static bool is_wild(qb_function f) {
    switch (f) {
    case QB_FUNCTION_DIV:
    case QB_FUNCTION_POW:
    case QB_FUNCTION_SQRT:
    case QB_FUNCTION_RECIPROCAL:
    case QB_FUNCTION_LOG:
    case QB_FUNCTION_TAN:
    case QB_FUNCTION_ASIN:
    case QB_FUNCTION_ACOS:
    case QB_FUNCTION_SINH:
    case QB_FUNCTION_COSH:
    case QB_FUNCTION_ACOSH:
    case QB_FUNCTION_ATANH: return true;
    default: return false;
    }
}

/* A small difference in what goes in may become a large one in the result. */
static bool jumps(qb_function f) {
    return (f >= QB_FUNCTION_EQUAL && f <= QB_FUNCTION_WHERE) || f == QB_FUNCTION_QUANTIZE ||
           f == QB_FUNCTION_SIGN || f == QB_FUNCTION_CEIL || f == QB_FUNCTION_FLOOR ||
           f == QB_FUNCTION_ROUND || f == QB_FUNCTION_TRUNCATE || f == QB_FUNCTION_TRUTH ||
           f == QB_FUNCTION_THRESHOLDED_RELU || f == QB_FUNCTION_SHRINK || f == QB_FUNCTION_IS_NAN;
}

static bool wants_condition(qb_function f) { return f >= QB_FUNCTION_AND && f <= QB_FUNCTION_NOT; }

static bool makes_condition(qb_function f) {
    return (f >= QB_FUNCTION_EQUAL && f <= QB_FUNCTION_NOT) || f == QB_FUNCTION_TRUTH ||
           f == QB_FUNCTION_IS_NAN;
}

typedef struct known {
    bool exact, condition, growing; /* growing: an exponential or a product was there */
} known;

/* A register of those there are that suits the argument; -1: none. */
static int32_t draw(qb_rng *rng, const known *r, int32_t n, qb_function f, int32_t argument) {
    for (int tries = 0; tries < 12; tries++) {
        const int32_t at = (int32_t)random_between(rng, random_chance(rng, 60) ? n / 2 : 0, n - 1);
        const bool condition = wants_condition(f) || (f == QB_FUNCTION_WHERE && argument == 0);
        if (r[at].condition != condition || (jumps(f) && !r[at].exact)) continue;
        if (r[at].growing && (f == QB_FUNCTION_EXP || f == QB_FUNCTION_MUL)) continue;
        return at;
    }
    return -1;
}

static bool add(qb_rng *rng, qb_chain *p, known *r) {
    const qb_function f = (qb_function)random_between(rng, 1, QB_FUNCTION_QUANTIZE);
    const int32_t n = p->n_in + p->n_constants + p->n_operations;
    qb_chain_operation *o = &p->operation[p->n_operations];
    known made = {!is_rough(f), makes_condition(f), f == QB_FUNCTION_EXP || f == QB_FUNCTION_MUL};
    if (is_wild(f) || f == QB_FUNCTION_HARD_SIGMOID) return false;
    *o = (qb_chain_operation){.function = f};
    for (int32_t a = 0; a < qb_function_arguments(f); a++) {
        o->in[a] = draw(rng, r, n, f, a);
        if (o->in[a] < 0) return false;
        made.exact &= r[o->in[a]].exact;
        made.growing |= r[o->in[a]].growing;
    }
    if (f == QB_FUNCTION_QUANTIZE)
        o->quantized = (qb_chain_quantized){0.05f, (int32_t)random_between(rng, 0, 100),
                                            random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8,
                                            random_chance(rng, 50)};
    r[n] = made;
    p->n_operations++;
    return true;
}

static void give_codes(qb_rng *rng, random_case *c, qb_desc *desc, int32_t i) {
    desc->dtype = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    c->scale[i] = 0.03f;
    c->zero[i] = (int32_t)random_between(rng, 0, 60);
    desc->q = (qb_qparams){desc->dtype, -1, 1, &c->scale[i], &c->zero[i]};
}

static void give_type(qb_rng *rng, random_case *c, int32_t i) {
    static const qb_dtype others[] = {QB_DTYPE_BOOL, QB_DTYPE_S32,  QB_DTYPE_S64,
                                      QB_DTYPE_F16,  QB_DTYPE_BF16, QB_DTYPE_U8,
                                      QB_DTYPE_S8,   QB_DTYPE_U16,  QB_DTYPE_S16};
    c->in[i].dtype = QB_DTYPE_F32;
    if (random_chance(rng, 45))
        give_codes(rng, c, &c->in[i], i);
    else if (random_chance(rng, 25))
        c->in[i].dtype = others[random_between(rng, 0, 8)];
}

/* Some dimensions are repeated, some in front are left out. */
static qb_shape part_of(qb_rng *rng, const qb_shape *whole) {
    qb_shape part = *whole;
    if (random_chance(rng, 50)) return part;
    const int32_t cut = (int32_t)random_between(rng, 0, random_chance(rng, 50) ? 0 : whole->rank);
    part.rank -= cut;
    for (int32_t d = 0; d < part.rank; d++)
        part.dim[d] = random_chance(rng, 40) ? 1 : whole->dim[d + cut];
    return part;
}

/* Operations on registers from all places; conditions are integers, too. */
static void add_integers(qb_rng *rng, qb_chain *chain, int32_t wanted) {
    while (chain->n_operations < wanted) {
        const qb_function f = (qb_function)random_between(rng, 1, QB_FUNCTION_COUNT - 1);
        const int32_t n = chain->n_in + chain->n_constants + chain->n_operations;
        qb_chain_operation *o = &chain->operation[chain->n_operations];
        if (!qb_function_of_integers(f)) continue;
        *o = (qb_chain_operation){.function = f, .narrow = random_chance(rng, 30)};
        for (int32_t a = 0; a < qb_function_arguments(f); a++)
            o->in[a] = (int32_t)random_between(rng, random_chance(rng, 60) ? n / 2 : 0, n - 1);
        chain->n_operations++;
    }
}

static void make_integers(qb_rng *rng, random_case *c, int32_t wanted) {
    static const qb_dtype types[] = {QB_DTYPE_S64, QB_DTYPE_S32, QB_DTYPE_BOOL};
    qb_problem *p = &c->problem;
    c->chain.integer = true;
    for (int32_t i = 0; i < p->n_in; i++) {
        c->in[i].dtype = types[random_between(rng, 0, 2)];
        c->in[i].shape =
            i == 0 && random_chance(rng, 80) ? p->out.shape : part_of(rng, &p->out.shape);
        c->constant[i] = i > 0 && random_chance(rng, 30);
    }
    for (int32_t i = 0; i < c->chain.n_constants; i++)
        c->chain.constant[i] = (float)random_between(rng, -9, 9);
    add_integers(rng, &c->chain, wanted);
    p->out.dtype = types[random_between(rng, 0, 2)];
}

void random_chain_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_chain *chain = &c->chain;
    known r[QB_CHAIN_INPUTS + QB_CHAIN_CONSTANTS + QB_CHAIN_OPERATIONS] = {0};
    *chain = (qb_chain){.n_in = (int32_t)random_between(rng, 1, QB_CHAIN_INPUTS),
                        .n_constants = (int32_t)random_between(rng, 0, 4)};
    const int32_t wanted = (int32_t)random_between(rng, 1, random_chance(rng, 80) ? 6 : 24);
    p->chain = chain;
    p->n_in = chain->n_in;
    p->out.shape.rank = (int32_t)random_between(rng, 1, 5);
    for (int32_t d = 0; d < p->out.shape.rank; d++)
        p->out.shape.dim[d] = random_between(rng, 1, random_chance(rng, 20) ? 40 : 7);
    if (p->out.shape.rank == 2 && random_chance(rng, 50)) { /* several blocks of rows */
        p->out.shape.dim[0] = random_between(rng, 8, 40);
        p->out.shape.dim[1] = random_between(rng, 8, 80);
    }
    if (random_chance(rng, 15)) {
        make_integers(rng, c, wanted);
        return;
    }
    for (int32_t i = 0; i < p->n_in; i++) {
        give_type(rng, c, i);
        c->in[i].shape =
            i == 0 && random_chance(rng, 80) ? p->out.shape : part_of(rng, &p->out.shape);
        c->constant[i] = i > 0 && c->in[i].dtype == QB_DTYPE_F32 && random_chance(rng, 30);
        const qb_dtype type = c->in[i].dtype;
        r[i] = (known){true, type == QB_DTYPE_BOOL, type != QB_DTYPE_F32 && c->in[i].q.n == 0};
    }
    for (int32_t i = 0; i < chain->n_constants; i++) {
        chain->constant[i] = (float)random_between(rng, -40, 40) / 16.0f;
        r[p->n_in + i] = (known){.exact = true};
    }
    for (int tries = 0; tries < 400 && chain->n_operations < wanted; tries++) add(rng, chain, r);
    if (chain->n_operations == 0)
        chain->operation[chain->n_operations++] =
            (qb_chain_operation){.function = QB_FUNCTION_COPY};
    const known last = r[p->n_in + chain->n_constants + chain->n_operations - 1];
    chain->divide = random_chance(rng, 50);
    p->out.dtype = last.condition && random_chance(rng, 80) ? QB_DTYPE_BOOL : QB_DTYPE_F32;
    if (!last.condition && random_chance(rng, 50))
        give_codes(rng, c, &p->out, p->n_in);
    else if (last.exact && chain->n_operations < QB_CHAIN_OPERATIONS && random_chance(rng, 10)) {
        /* whole numbers, as behind a Cast */
        static const qb_dtype types[] = {QB_DTYPE_S32, QB_DTYPE_U8, QB_DTYPE_S8, QB_DTYPE_U16,
                                         QB_DTYPE_S16};
        const int32_t at = p->n_in + chain->n_constants + chain->n_operations - 1;
        chain->operation[chain->n_operations++] =
            (qb_chain_operation){.function = QB_FUNCTION_TRUNCATE, .in = {at}};
        p->out.dtype = types[random_between(rng, 0, 4)];
    } else if (last.exact && random_chance(rng, 15)) {
        p->out.dtype = random_chance(rng, 50) ? QB_DTYPE_F16 : QB_DTYPE_BF16;
    }
}

void random_chain_reference(random_case *c) {
    const void *in[QB_CHAIN_INPUTS];
    for (int32_t i = 0; i < c->problem.n_in; i++) in[i] = c->data[i];
    qb_ref_chain(&c->problem, in, c->expected);
}

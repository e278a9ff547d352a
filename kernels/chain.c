#include "kernels/chain.h"

int32_t qb_function_arguments(qb_function function) {
    static const int32_t arguments[QB_FUNCTION_COUNT] = {0,
#define QB_FUNCTION(NAME, ARGUMENTS, EXPRESSION) ARGUMENTS,
#include "kernels/functions.def"
#undef QB_FUNCTION
                                                         1, 2};
    return (unsigned)function < QB_FUNCTION_COUNT ? arguments[function] : 0;
}

bool qb_function_of_integers(qb_function function) {
    switch (function) {
#define QB_INTEGER(NAME, EXPRESSION) case QB_FUNCTION_##NAME:
#include "kernels/integers.def"
#undef QB_INTEGER
        return true;
    default: return false;
    }
}

static bool is_integer(const qb_desc *desc) {
    return desc->q.n == 0 && (desc->dtype == QB_DTYPE_BOOL || desc->dtype == QB_DTYPE_S32 ||
                              desc->dtype == QB_DTYPE_S64);
}

bool qb_chain_type(const qb_desc *desc) {
    switch (desc->dtype) {
    case QB_DTYPE_U8:
    case QB_DTYPE_S8: return desc->q.n <= 1;
    case QB_DTYPE_U16:
    case QB_DTYPE_S16:
    case QB_DTYPE_F16:
    case QB_DTYPE_BF16:
    case QB_DTYPE_F32: return desc->q.n == 0;
    default: return is_integer(desc);
    }
}

static bool broadcasts(const qb_shape *from, const qb_shape *to) {
    if (from->rank > to->rank) return false;
    for (int32_t d = 0; d < from->rank; d++) {
        const int64_t dim = from->dim[d];
        if (dim != 1 && dim != to->dim[to->rank - from->rank + d]) return false;
    }
    return true;
}

bool qb_chain_valid(const qb_problem *p) {
    const qb_chain *c = p->chain;
    if (p->kind != QB_KIND_CHAIN || !c || c->n_operations < 1 || p->n_in != c->n_in ||
        !qb_chain_type(&p->out) || !qb_shape_known(&p->out.shape) ||
        (c->integer && !is_integer(&p->out)))
        return false;
    for (int32_t i = 0; i < p->n_in; i++)
        if (!qb_chain_type(&p->in[i]) || !qb_shape_known(&p->in[i].shape) ||
            !broadcasts(&p->in[i].shape, &p->out.shape) || (c->integer && !is_integer(&p->in[i])))
            return false;
    for (int32_t i = 0; i < c->n_operations; i++) {
        const qb_function f = c->operation[i].function;
        if (c->integer ? !qb_function_of_integers(f) : f == QB_FUNCTION_MODULO) return false;
        for (int32_t a = 0; a < qb_function_arguments(c->operation[i].function); a++)
            if (c->operation[i].in[a] < 0 || c->operation[i].in[a] >= c->n_in + c->n_constants + i)
                return false;
    }
    return true;
}

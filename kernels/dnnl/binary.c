/* Binary functions of f32 or bf16, with broadcasting of the second operand. */
#include "dnnl_internal.h"

static bool commutes(qb_binary_kind kind) { return kind != QB_BINARY_SUB && kind != QB_BINARY_DIV; }

/* The input that has the output's shape and comes first; -1: none can. */
static int32_t first_operand(const qb_problem *p) {
    if (qb_shape_equal(&p->in[0].shape, &p->out.shape)) return 0;
    return commutes(p->binary) && qb_shape_equal(&p->in[1].shape, &p->out.shape) ? 1 : -1;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    if (p->kind != QB_KIND_BINARY || p->n_in < 2 || qb_dnnl_is_empty(p) || p->out.shape.rank < 1)
        return false;
    for (int32_t i = 0; i < 3; i++) {
        const qb_desc *desc = i < 2 ? &p->in[i] : &p->out;
        if (!qb_dnnl_float_types(desc, &p->out) || desc->channel_total > 0 ||
            desc->shape.rank > p->out.shape.rank)
            return false;
    }
    int32_t first = first_operand(p);
    return first >= 0 && p->in[first].layout == p->out.layout;
}

static dnnl_alg_kind_t algorithm(qb_binary_kind kind) {
    switch (kind) {
    case QB_BINARY_ADD: return dnnl_binary_add;
    case QB_BINARY_SUB: return dnnl_binary_sub;
    case QB_BINARY_MUL: return dnnl_binary_mul;
    case QB_BINARY_DIV: return dnnl_binary_div;
    case QB_BINARY_MIN: return dnnl_binary_min;
    case QB_BINARY_MAX: break;
    }
    return dnnl_binary_max;
}

/* The second operand with ones in front. A vector lies the same way in any plain layout, so it
 * takes the output's, which is what oneDNN is fast at. */
static qb_status describe_second(qb_ctx *cx, const qb_desc *desc, const qb_desc *out,
                                 dnnl_memory_desc_t *md) {
    qb_desc x = *desc;
    int32_t lead = out->shape.rank - desc->shape.rank, wide = 0;
    x.shape.rank = out->shape.rank;
    for (int32_t d = 0; d < out->shape.rank; d++) {
        x.shape.dim[d] = d < lead ? 1 : desc->shape.dim[d - lead];
        wide += x.shape.dim[d] != 1;
    }
    bool plain = out->layout == QB_LAYOUT_ROW || out->layout == QB_LAYOUT_NHWC;
    if (x.layout == QB_LAYOUT_ANY || (wide <= 1 && plain)) x.layout = out->layout;
    return qb_dnnl_desc(cx, &x, md);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    dnnl_binary_desc_t op;
    dnnl_memory_desc_t a, b;
    (void)constant;
    int32_t first = first_operand(p);
    qb_desc in[2] = {p->in[0], p->in[1]};
    qb_problem q = *p;
    q.in = in;
    q.n_in = 2;
    if (q.out.layout == QB_LAYOUT_ANY) q.out.layout = in[first].layout = QB_LAYOUT_ROW;
    if (in[1 - first].layout == QB_LAYOUT_ANY)
        in[1 - first].layout =
            in[1 - first].shape.rank == q.out.shape.rank ? q.out.layout : QB_LAYOUT_ROW;
    QB_TRY(qb_dnnl_desc(cx, &q.out, &a));
    QB_TRY(describe_second(cx, &in[1 - first], &q.out, &b));
    QB_TRY(qb_dnnl_check(cx, dnnl_binary_desc_init(&op, algorithm(p->binary), &a, &b, &a),
                         "describing the binary function"));
    QB_TRY(qb_dnnl_simple_create(cx, tactic, &q, threads, &op, first, out));
    (*out)->in_place_inputs = UINT64_C(1) << first;
    return QB_OK;
}

QB_TACTIC(dnnl_binary, "dnnl.binary.jit", "dnnl", QB_KIND_BINARY, QB_WITHIN_1_LSB, supports,
          create);

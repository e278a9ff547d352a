/* Activations of f32 and bf16 that stand alone, and softmax. */
#include "dnnl_internal.h"

static bool same_place(const qb_desc *a, const qb_desc *b) {
    return a->layout == b->layout && a->channel_total == 0 && b->channel_total == 0 &&
           qb_shape_equal(&a->shape, &b->shape);
}

static bool is_float_map(const qb_problem *p, qb_kind kind) {
    return p->kind == kind && !qb_dnnl_is_empty(p) && qb_dnnl_float_types(&p->in[0], &p->out) &&
           same_place(&p->in[0], &p->out);
}

static bool supports_unary(const qb_problem *p, const bool *constant) {
    dnnl_alg_kind_t alg;
    float alpha, beta;
    (void)constant;
    return is_float_map(p, QB_KIND_UNARY) && qb_dnnl_act(p->act, &alg, &alpha, &beta);
}

static bool supports_softmax(const qb_problem *p, const bool *constant) {
    (void)constant;
    return is_float_map(p, QB_KIND_SOFTMAX) && qb_dnnl_is_f32(&p->in[0]) &&
           p->in[0].shape.rank >= 1 && p->axis >= 0 && p->axis < p->in[0].shape.rank &&
           !p->zero_nan;
}

/* ANY is ROW for both. */
static qb_problem finalized(const qb_problem *p, qb_desc *in) {
    qb_problem q = *p;
    *in = p->in[0];
    q.in = in;
    if (in->layout == QB_LAYOUT_ANY) in->layout = q.out.layout = QB_LAYOUT_ROW;
    return q;
}

static qb_status create_unary(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                              const bool *constant, int threads, qb_kernel **out) {
    dnnl_eltwise_desc_t op;
    dnnl_memory_desc_t md;
    dnnl_alg_kind_t alg;
    float alpha, beta;
    qb_desc in;
    (void)constant;
    qb_problem q = finalized(p, &in);
    if (!qb_dnnl_act(q.act, &alg, &alpha, &beta))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no such activation");
    int64_t count = qb_shape_count(&in.shape);
    bool blocked = in.layout == QB_LAYOUT_C8 || in.layout == QB_LAYOUT_C16;
    if (blocked) /* the padding lanes stay zero */
        QB_TRY(qb_dnnl_desc(cx, &in, &md));
    else
        QB_TRY(qb_dnnl_row(cx, qb_dnnl_type(in.dtype), 1, &count, &md));
    QB_TRY(qb_dnnl_check(
        cx, dnnl_eltwise_forward_desc_init(&op, dnnl_forward_inference, alg, &md, alpha, beta),
        "describing the activation"));
    QB_TRY(qb_dnnl_simple_create(cx, tactic, &q, threads, &op, 0, out));
    (*out)->in_place_inputs = 1;
    return QB_OK;
}

static qb_status create_softmax(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                                const bool *constant, int threads, qb_kernel **out) {
    dnnl_softmax_v2_desc_t op;
    dnnl_memory_desc_t md;
    qb_desc in;
    (void)constant;
    qb_problem q = finalized(p, &in);
    QB_TRY(qb_dnnl_desc(cx, &in, &md));
    QB_TRY(qb_dnnl_check(cx,
                         dnnl_softmax_v2_forward_desc_init(&op, dnnl_forward_inference,
                                                           dnnl_softmax_accurate, &md, &md,
                                                           (int)q.axis),
                         "describing the softmax"));
    QB_TRY(qb_dnnl_simple_create(cx, tactic, &q, threads, &op, 0, out));
    (*out)->in_place_inputs = 1;
    return QB_OK;
}

QB_TACTIC(dnnl_unary, "dnnl.unary.jit", "dnnl", QB_KIND_UNARY, QB_WITHIN_1_LSB, supports_unary,
          create_unary);

QB_TACTIC(dnnl_softmax, "dnnl.softmax_f32.jit", "dnnl", QB_KIND_SOFTMAX, QB_WITHIN_1_LSB,
          supports_softmax, create_softmax);

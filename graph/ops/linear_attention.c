/* Recurrent layers of newer language models: LinearAttention, whose state is one matrix a head, and
 * the CausalConvWithState in front of it. */
#include <math.h>

#include "ops_internal.h"

/* --- LinearAttention ------------------------------------------------------------------------- */

typedef struct linear_attrs {
    const char *update_rule;
    int64_t q_num_heads, kv_num_heads, chunk_size;
    float scale;
} linear_attrs;
static const qb_attr_desc linear_table[] = {
    QB_A_NEED_INT(linear_attrs, q_num_heads, "q_num_heads", 1, QB_ATTR_BIG),
    QB_A_NEED_INT(linear_attrs, kv_num_heads, "kv_num_heads", 1, QB_ATTR_BIG),
    QB_A_STRING(linear_attrs, update_rule, "update_rule", "gated_delta"),
    QB_A_INT(linear_attrs, chunk_size, "chunk_size", 64, 1, QB_ATTR_BIG), /* how to compute it */
    QB_A_FLOAT(linear_attrs, scale, "scale", 0.0f),
    QB_A_END,
};

enum { IN_Q, IN_K, IN_V, IN_STATE, IN_DECAY, IN_BETA, N_LINEAR_IN };

static qb_status rule_of(qb_ctx *cx, const linear_attrs *attrs, bool *gated, bool *delta) {
    static const char *const names[] = {"linear", "gated", "delta", "gated_delta"};
    for (int i = 0; i < 4; i++)
        if (strcmp(attrs->update_rule, names[i]) == 0) {
            *gated = i & 1;
            *delta = i & 2;
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_INVALID,
                   "update_rule: expected linear, gated, delta or gated_delta, got '%s'",
                   attrs->update_rule);
}

/* Size of each of `heads` heads in the last dimension of input i; QB_DIM_UNKNOWN while open. */
static qb_status head_size(qb_ctx *cx, const qb_infer_args *args, int32_t i, int64_t heads,
                           int64_t *size) {
    const qb_shape *shape = &qb_infer_in(args, i)->shape;
    *size = QB_DIM_UNKNOWN;
    if (shape->rank != 3 || shape->dim[2] < 0) return QB_OK;
    if (shape->dim[2] % heads)
        return qb_fail(cx, QB_STATUS_INVALID, "input %d: size %lld is not divisible by %lld heads",
                       i, (long long)shape->dim[2], (long long)heads);
    *size = shape->dim[2] / heads;
    return QB_OK;
}

static qb_status check_gates(qb_ctx *cx, const qb_infer_args *args, int64_t d_k) {
    const linear_attrs *attrs = qb_infer_at(args)->attrs;
    bool wanted[2];
    QB_TRY(rule_of(cx, attrs, &wanted[0], &wanted[1]));
    for (int32_t i = 0; i < 2; i++) {
        const qb_value *gate = qb_infer_in(args, IN_DECAY + i);
        if (wanted[i] != (gate != NULL))
            return qb_fail(cx, QB_STATUS_INVALID, "update_rule %s: expected %s %s",
                           attrs->update_rule, wanted[i] ? "an input" : "no input",
                           i ? "beta" : "decay");
        if (!gate || gate->shape.rank != 3 || gate->shape.dim[2] < 0) continue;
        const int64_t size = gate->shape.dim[2], heads = attrs->kv_num_heads;
        const int64_t other = i ? 1 : d_k < 0 ? size : heads * d_k;
        if (size != heads && size != other)
            return qb_fail(cx, QB_STATUS_INVALID, "%s: expected size %lld or %lld, got %lld",
                           i ? "beta" : "decay", (long long)heads, (long long)other,
                           (long long)size);
    }
    return QB_OK;
}

/* The state may be wider than the rest: any float type. */
static qb_status check_state_type(qb_ctx *cx, const qb_value *past) {
    if (!past || past->dtype == QB_DTYPE_NONE || past->dtype == QB_DTYPE_F32 ||
        past->dtype == QB_DTYPE_F64 || qb_dtype_is_16bit_float(past->dtype))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "past_state: expected a float type, got %s",
                   qb_dtype_text(past->dtype));
}

static qb_status infer_linear(qb_ctx *cx, const qb_infer_args *args) {
    const linear_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *q = qb_infer_in(args, IN_Q), *past = qb_infer_in(args, IN_STATE);
    qb_shape out = qb_shape_unknown(3), state = qb_shape_unknown(4);
    int64_t d_k, of_key, d_v;
    if (attrs->q_num_heads % attrs->kv_num_heads)
        return qb_fail(cx, QB_STATUS_INVALID, "q_num_heads: expected a multiple of %lld, got %lld",
                       (long long)attrs->kv_num_heads, (long long)attrs->q_num_heads);
    for (int32_t i = 0; i < N_LINEAR_IN; i++) {
        const qb_value *x = qb_infer_in(args, i);
        QB_TRY(qb_infer_rank(cx, args, i, i == IN_STATE ? 4 : 3, i == IN_STATE ? 4 : 3));
        QB_TRY(i == IN_STATE ? check_state_type(cx, x) : qb_infer_same_type(cx, args, i));
        if (!x || x->shape.rank < 0) continue;
        for (int32_t d = 0; d < (i == IN_STATE ? 1 : 2); d++) {
            QB_TRY_WRAP(cx, qb_expect_dim(cx, d ? "length" : "batch", out.dim[d], x->shape.dim[d]),
                        "input %d", i);
            if (out.dim[d] == QB_DIM_UNKNOWN) out.dim[d] = x->shape.dim[d];
        }
    }
    QB_TRY(head_size(cx, args, IN_Q, attrs->q_num_heads, &d_k));
    QB_TRY(head_size(cx, args, IN_K, attrs->kv_num_heads, &of_key));
    QB_TRY(head_size(cx, args, IN_V, attrs->kv_num_heads, &d_v));
    QB_TRY(qb_expect_dim(cx, "key: size of a head", d_k, of_key));
    if (d_k < 0) d_k = of_key;
    QB_TRY(check_gates(cx, args, d_k));
    state = (qb_shape){.rank = 4, .dim = {out.dim[0], attrs->kv_num_heads, d_k, d_v}};
    if (past && past->shape.rank == 4)
        for (int32_t d = 1; d < 4; d++)
            QB_TRY_WRAP(cx, qb_expect_dim(cx, "size", state.dim[d], past->shape.dim[d]),
                        "past_state: dimension %d", d);
    QB_TRY(qb_dim_mul(cx, d_v, attrs->q_num_heads, &out.dim[2]));
    QB_TRY(qb_infer_set(cx, args, 1, past ? past->dtype : q->dtype, &state));
    return qb_infer_set(cx, args, 0, q->dtype, &out);
}

/* One head of one sample at one time. */
typedef struct moment {
    const float *q, *k, *v; /* q: of all heads that share the state */
    const float *decay;     /* NULL: none; `decay_step` apart for the rows of the state */
    int64_t decay_step;
    const float *beta; /* NULL: none */
} moment;

/* S = decay S; v = beta (v - S' k); S = S + k v'. Row d of the state is at d * d_v. */
static void advance(const moment *m, int64_t d_k, int64_t d_v, float *state) {
    for (int64_t d = 0; d < d_k && m->decay; d++) {
        const double keep = exp((double)m->decay[d * m->decay_step]);
        for (int64_t j = 0; j < d_v; j++)
            state[d * d_v + j] = (float)(keep * (double)state[d * d_v + j]);
    }
    for (int64_t j = 0; j < d_v; j++) {
        double value = (double)m->v[j];
        if (m->beta) {
            double known = 0.0;
            for (int64_t d = 0; d < d_k; d++) known += (double)state[d * d_v + j] * (double)m->k[d];
            value = (double)*m->beta * (value - known);
        }
        for (int64_t d = 0; d < d_k; d++)
            state[d * d_v + j] = (float)((double)state[d * d_v + j] + (double)m->k[d] * value);
    }
}

static void read_state(const float *q, int64_t d_k, int64_t d_v, double scale, const float *state,
                       float *y) {
    for (int64_t j = 0; j < d_v; j++) {
        double sum = 0.0;
        for (int64_t d = 0; d < d_k; d++) sum += (double)q[d] * (double)state[d * d_v + j];
        y[j] = (float)(scale * sum);
    }
}

static qb_status eval_linear(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const linear_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_linear);
    const qb_shape *q = &in[IN_Q].desc.shape, *v = &in[IN_V].desc.shape;
    const int64_t heads = attrs->kv_num_heads, share = attrs->q_num_heads / heads;
    const int64_t d_k = q->dim[2] / attrs->q_num_heads, d_v = v->dim[2] / heads;
    const double scale = attrs->scale != 0.0f ? (double)attrs->scale : 1.0 / sqrt((double)d_k);
    const float *gate[2];
    int64_t gate_size[2] = {0};
    for (int32_t i = 0; i < 2; i++) {
        gate[i] = qb_eval_has(node, in, IN_DECAY + i) ? in[IN_DECAY + i].data : NULL;
        if (gate[i]) gate_size[i] = in[IN_DECAY + i].desc.shape.dim[2];
    }
    const size_t count = (size_t)(q->dim[0] * heads * d_k * d_v);
    QB_RELEASED(qb_temp_give_at) float *states = qb_temp_take(cx, count, sizeof *states);
    if (!states) return cx->code;
    if (qb_eval_has(node, in, IN_STATE) && count)
        memcpy(states, in[IN_STATE].data, count * sizeof *states);
    for (int64_t i = 0; i < q->dim[0] * q->dim[1]; i++) /* times in order, sample after sample */
        for (int64_t h = 0; h < heads; h++) {
            float *state = states + (i / q->dim[1] * heads + h) * d_k * d_v;
            moment m = {(const float *)in[IN_Q].data + (i * heads + h) * share * d_k,
                        (const float *)in[IN_K].data + (i * heads + h) * d_k,
                        (const float *)in[IN_V].data + (i * heads + h) * d_v,
                        NULL,
                        0,
                        NULL};
            if (gate[0]) {
                const int64_t each = gate_size[0] / heads; /* 1, or one a row of the state */
                m.decay = gate[0] + i * gate_size[0] + h * each;
                m.decay_step = each > 1;
            }
            if (gate[1]) m.beta = gate[1] + i * gate_size[1] + (gate_size[1] > 1 ? h : 0);
            advance(&m, d_k, d_v, state);
            for (int64_t k = 0; k < share; k++)
                read_state(m.q + k * d_k, d_k, d_v, scale, state,
                           (float *)out[0].data + ((i * heads + h) * share + k) * d_v);
        }
    if (node->n_out > 1 && node->out[1] >= 0 && count)
        memcpy(out[1].data, states, count * sizeof *states);
    return QB_OK;
}

QB_OP_SIMPLE(linear_attention, "LinearAttention", 27, 3, 6, 2, sizeof(linear_attrs), linear_table,
             FLOAT, infer_linear, eval_linear, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_WINDOW | QB_TRAIT_ALL_OUTPUTS);

/* --- CausalConvWithState --------------------------------------------------------------------- */

typedef struct causal_attrs {
    const char *activation;
} causal_attrs;
QB_ATTRS(causal_table, QB_A_STRING(causal_attrs, activation, "activation", "none"));

enum { IN_X, IN_WEIGHT, IN_BIAS, IN_PAST };

static bool is_silu(const causal_attrs *attrs) {
    return strcmp(attrs->activation, "silu") == 0 || strcmp(attrs->activation, "swish") == 0;
}

static qb_status infer_causal(qb_ctx *cx, const qb_infer_args *args) {
    const causal_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_shape *x = &qb_infer_in(args, IN_X)->shape, *w = &qb_infer_in(args, IN_WEIGHT)->shape;
    const qb_value *bias = qb_infer_in(args, IN_BIAS), *past = qb_infer_in(args, IN_PAST);
    qb_shape state = qb_shape_unknown(3);
    if (!is_silu(attrs) && strcmp(attrs->activation, "none") != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "activation: expected none, silu or swish, got '%s'",
                       attrs->activation);
    for (int32_t i = 0; i <= IN_PAST; i++) {
        QB_TRY(qb_infer_rank(cx, args, i, i == IN_BIAS ? 1 : 3, i == IN_BIAS ? 1 : 3));
        QB_TRY(qb_infer_same_type(cx, args, i));
    }
    if (x->rank == 3) state.dim[0] = x->dim[0], state.dim[1] = x->dim[1];
    if (w->rank == 3) {
        QB_TRY(qb_expect_dim(cx, "weight dimension 0 (channels)", state.dim[1], w->dim[0]));
        QB_TRY(qb_expect_dim(cx, "weight dimension 1", 1, w->dim[1]));
        if (w->dim[2] == 0) return qb_fail(cx, QB_STATUS_INVALID, "weight: the kernel is empty");
        if (w->dim[2] > 0) state.dim[2] = w->dim[2] - 1;
    }
    if (bias && bias->shape.rank == 1)
        QB_TRY(qb_expect_dim(cx, "bias size (channels)", state.dim[1], bias->shape.dim[0]));
    for (int32_t d = 0; d < 3 && past && past->shape.rank == 3; d++)
        QB_TRY_WRAP(cx, qb_expect_dim(cx, "size", state.dim[d], past->shape.dim[d]),
                    "past_state: dimension %d", d);
    QB_TRY(qb_infer_set(cx, args, 1, qb_infer_in(args, IN_X)->dtype, &state));
    return qb_infer_same(cx, args);
}

static qb_status eval_causal(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const causal_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_causal);
    const qb_shape *x = &in[IN_X].desc.shape;
    const int64_t length = x->dim[2], kernel = in[IN_WEIGHT].desc.shape.dim[2], before = kernel - 1;
    const float *past = qb_eval_has(node, in, IN_PAST) ? in[IN_PAST].data : NULL;
    const float *bias = qb_eval_has(node, in, IN_BIAS) ? in[IN_BIAS].data : NULL;
    QB_RELEASED(qb_temp_give_at)
    float *line = QB_NEW(cx, qb_temp_take(cx, (size_t)(before + length), sizeof *line));
    for (int64_t i = 0; i < x->dim[0] * x->dim[1]; i++) {
        const int64_t c = i % x->dim[1];
        const float *weight = (const float *)in[IN_WEIGHT].data + c * kernel;
        if (past) memcpy(line, past + i * before, (size_t)before * sizeof *line);
        if (length)
            memcpy(line + before, (const float *)in[IN_X].data + i * length,
                   (size_t)length * sizeof *line);
        for (int64_t t = 0; t < length; t++) {
            double sum = bias ? (double)bias[c] : 0.0;
            for (int64_t k = 0; k < kernel; k++) sum += (double)line[t + k] * (double)weight[k];
            if (is_silu(attrs)) sum /= 1.0 + exp(-sum);
            ((float *)out[0].data)[i * length + t] = (float)sum;
        }
        if (node->n_out > 1 && node->out[1] >= 0 && before)
            memcpy((float *)out[1].data + i * before, line + length, (size_t)before * sizeof *line);
    }
    return QB_OK;
}

QB_OP_SIMPLE(causal_conv, "CausalConvWithState", 27, 2, 4, 2, sizeof(causal_attrs), causal_table,
             FLOAT, infer_causal, eval_causal, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_WINDOW | QB_TRAIT_ALL_OUTPUTS);
